// Entries as elements: their parts, and nested sub-agents with entries of their own.

import { patch } from "./patch.js";

export class Entry {
  // `session` is set for an entry of a session other than the selected one.
  constructor(position, session) {
    this.article = document.createElement("article");
    this.article.tabIndex = -1;
    this.article.dataset.position = position;
    if (session !== undefined) this.article.dataset.session = session;
    this.parts = new Map();
    this.nests = new Map();
  }

  fill(frame, length) {
    const { article } = this;
    if (article.className !== frame.class) article.className = frame.class;
    article.setAttribute("aria-label", frame.label);
    article.setAttribute("aria-posinset", frame.position + 1);
    article.setAttribute("aria-setsize", length);
    Object.assign(this, { first: frame.first, last: frame.last, runs: frame.runs });
    if (frame.parts) putParts(article, this.parts, frame.parts);
    if (frame.nests) this.fillNests(frame.nests);
    this.duration();
    article.querySelectorAll("time[data-at]:empty").forEach((time) => {
      const at = new Date(Number(time.dataset.at));
      time.textContent = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
      time.title = at.toLocaleString();
    });
  }

  fillNests(frames) {
    const wanted = new Set(frames.map((frame) => frame.session));
    for (const [session, nest] of this.nests) {
      if (wanted.has(session)) continue;
      nest.element.remove();
      this.nests.delete(session);
    }
    let previous = null;
    for (const frame of frames) {
      let nest = this.nests.get(frame.session);
      if (!nest) this.nests.set(frame.session, (nest = new Nest(frame.session)));
      // Nested sub-agents follow the parts of the entry, in order.
      const next = previous ? previous.nextSibling : null;
      if (!nest.element.isConnected || (previous && nest.element !== next)) this.article.insertBefore(nest.element, next);
      previous = nest.element;
      nest.fill(frame);
    }
  }

  duration() {
    const place = this.article.querySelector(":scope > .head .took, :scope > .nest > .nest-head .took");
    if (!place || !this.first) return;
    const end = this.runs ? Date.now() : this.last;
    const seconds = Math.max(0, end - this.first) / 1000;
    const words = elapsed(seconds);
    if (place.textContent !== words) place.textContent = words;
  }

  tick() {
    if (this.runs) this.duration();
    for (const nest of this.nests.values()) nest.tick();
  }
}

// Returns a duration in words. Less than a tenth of a second is not worth a word.
function elapsed(seconds) {
  if (seconds < 0.1) return "";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

// A sub-agent inside an entry: its heading and, if unfolded, the end of its transcript.
class Nest {
  constructor(session) {
    this.session = session;
    this.element = document.createElement("section");
    this.element.className = "nest";
    this.element.dataset.session = session;
    this.body = document.createElement("div");
    this.body.className = "nest-body";
    // The element scrolls, so it must be focusable by keyboard.
    this.body.tabIndex = 0;
    this.body.setAttribute("role", "group");
    this.body.setAttribute("aria-label", "The end of its transcript");
    this.parts = new Map();
    this.entries = new Map();
    this.follows = true;
    this.body.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.body;
      this.follows = scrollHeight - scrollTop - clientHeight < 30;
    }, { passive: true });
    // The content may grow without a frame: an image loads, or a part is unfolded.
    new ResizeObserver(() => this.settle()).observe(this.body);
  }

  fill(frame) {
    if (frame.parts) {
      // The body follows all parts.
      putParts(this.element, this.parts, frame.parts);
      const name = this.parts.get("head")?.querySelector(".nest-fold, .nest-name");
      if (name) this.element.setAttribute("aria-label", name.textContent);
    }
    const button = this.element.querySelector(":scope > .nest-head > .nest-fold");
    button?.setAttribute("aria-expanded", String(frame.open));
    this.element.classList.toggle("is-open", frame.open);
    for (const [position, entry] of this.entries) {
      if (frame.open && position >= frame.from && position < frame.to) continue;
      entry.article.remove();
      this.entries.delete(position);
    }
    if (!frame.open) {
      this.body.remove();
      this.follows = true;
      return;
    }
    if (!this.body.isConnected) this.element.append(this.body);
    for (const made of frame.entries ?? []) {
      let entry = this.entries.get(made.position);
      if (!entry) {
        entry = new Entry(made.position, this.session);
        this.entries.set(made.position, entry);
        place(this.body, entry.article);
      }
      entry.fill(made, frame.to);
    }
    this.settle();
  }

  settle() {
    if (this.follows && this.body.isConnected) this.body.scrollTop = this.body.scrollHeight;
  }

  tick() {
    for (const entry of this.entries.values()) entry.tick();
  }
}

// Inserts an entry before the first one with a later position.
export function place(list, article) {
  const position = Number(article.dataset.position);
  let next = null;
  // Searches from the end, because new entries are mostly last.
  for (let other = list.lastElementChild; other && Number(other.dataset.position) > position; other = other.previousElementSibling) next = other;
  list.insertBefore(article, next);
}

// Makes the first children of an element equal to the parts of a frame. A part without HTML is unchanged.
function putParts(element, parts, frames) {
  const wanted = new Set(frames.map(([key]) => key));
  for (const [key, part] of parts) {
    if (wanted.has(key)) continue;
    part.remove();
    parts.delete(key);
  }
  let previous = null;
  for (const [key, html] of frames) {
    let part = parts.get(key);
    if (html !== null) {
      const made = elementOf(html);
      // The state of the fold is kept on this side; the server's heading does not contain it.
      const fold = part?.querySelector(".nest-fold");
      if (fold?.hasAttribute("aria-expanded")) made.querySelector(".nest-fold")?.setAttribute("aria-expanded", fold.getAttribute("aria-expanded"));
      // Parts without foldable content are patched in place, so that the focused element keeps the focus.
      if (part && part.matches(".md, .nest-head") && made.matches(".md, .nest-head")) part = patch(part, made);
      else {
        const hadFocus = part?.matches(".run-line") && part.contains(document.activeElement);
        if (part) keepOpen(part, made);
        if (part) part.replaceWith(made);
        part = made;
        if (hadFocus) part.querySelector("button")?.focus({ preventScroll: true });
      }
      parts.set(key, part);
    }
    if (!part) continue;
    const place = previous ? previous.nextSibling : element.firstChild;
    if (part !== place) element.insertBefore(part, place);
    previous = part;
  }
}

// Converts HTML of the server, which has sanitized it, to an element. No other text is ever parsed as HTML.
export function elementOf(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild ?? document.createElement("div");
}

// Copies the fold states that the user has chosen, and the focus on their headings. Others are as the server says.
export function keepOpen(before, after) {
  const chosen = new Map();
  before.querySelectorAll("details[data-keep]").forEach((it) => chosen.set(it.dataset.keep, it));
  after.querySelectorAll("details[data-keep]").forEach((it) => {
    const old = chosen.get(it.dataset.keep);
    if (old?.dataset.chosen === undefined) return;
    it.open = old.open;
    it.dataset.chosen = "";
  });
}

// A click on a heading, also by the keyboard, is a choice of the user.
document.addEventListener("click", (event) => {
  const details = event.target.closest?.("summary")?.parentElement;
  if (details?.matches("details[data-keep]")) details.dataset.chosen = "";
});
