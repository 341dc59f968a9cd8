// The transcript. The page contains only the entries near the viewport, however long the session is.

import { Entry, elementOf, place } from "./entry.js";

const ESTIMATE = 60; // estimated height in pixels of an entry that was never drawn
const AROUND = 12; // entries kept beyond the edges of the viewport
const FAR = 160; // the same while the known entries do not fill the viewport
const MOST = 700; // maximum number of entries requested at once; most of them are hidden in runs of tool calls

// Heights by position, with prefix sums in logarithmic time (a Fenwick tree).
class Heights {
  constructor() {
    this.reset(0);
  }

  reset(length) {
    this.length = length;
    this.values = new Array(length).fill(ESTIMATE);
    this.tree = new Array(length + 1).fill(0);
    for (let place = 1; place <= length; place++) {
      this.tree[place] += ESTIMATE;
      const parent = place + (place & -place);
      if (parent <= length) this.tree[parent] += this.tree[place];
    }
  }

  grow(length) {
    for (let place = this.length + 1; place <= length; place++) {
      // The new node sums the nodes below it.
      let sum = ESTIMATE;
      for (let below = place - 1; below > place - (place & -place); below -= below & -below) sum += this.tree[below];
      this.tree[place] = sum;
      this.values.push(ESTIMATE);
    }
    this.length = Math.max(this.length, length);
  }

  set(position, height) {
    const change = height - this.values[position];
    if (change === 0 || !(position < this.length)) return 0;
    this.values[position] = height;
    for (let place = position + 1; place <= this.length; place += place & -place) this.tree[place] += change;
    return change;
  }

  before(position) {
    let sum = 0;
    for (let place = Math.min(position, this.length); place > 0; place -= place & -place) sum += this.tree[place];
    return sum;
  }

  at(offset) {
    let place = 0;
    let step = 1;
    while (step * 2 <= this.length) step *= 2;
    for (; step > 0; step >>= 1) {
      if (place + step <= this.length && this.tree[place + step] <= offset) {
        place += step;
        offset -= this.tree[place];
      }
    }
    return Math.min(place, Math.max(0, this.length - 1));
  }
}

export class Transcript {
  constructor(scroller, send) {
    this.scroller = scroller;
    this.send = send;
    this.list = scroller.querySelector("#transcript");
    this.history = scroller.querySelector("#history");
    this.above = scroller.querySelector("#before");
    this.below = scroller.querySelector("#after");
    this.toEnd = document.getElementById("to-end");
    this.heights = new Heights();
    this.entries = new Map();
    this.length = 0;
    this.follows = true;
    this.asked = [0, 0];
    this.target = null;
    this.last = [0, 0, 0];
    this.sizes = new ResizeObserver((records) => this.measured(records));
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    const resized = new ResizeObserver(() => this.settle());
    resized.observe(scroller);
    resized.observe(this.history);
    this.toEnd.addEventListener("click", () => this.goToEnd());
    scroller.addEventListener("keydown", (event) => this.key(event));
    setInterval(() => this.tick(), 1000);
  }

  // Returns the height of what is above the transcript.
  get lead() {
    return this.history.hidden ? 0 : this.history.offsetHeight;
  }

  clear() {
    this.entries.forEach((entry) => entry.article.remove());
    this.entries.clear();
    this.heights.reset(0);
    this.length = 0;
    this.asked = [0, 0];
    this.follows = this.target === null;
  }

  apply(frame) {
    if (frame.length < this.length) {
      this.clear();
    }
    this.length = frame.length;
    this.session = frame.session;
    this.heights.grow(frame.length);
    frame.entries.forEach((entry) => this.put(entry));
    this.settle();
  }

  put(frame) {
    let entry = this.entries.get(frame.position);
    if (!entry) {
      entry = new Entry(frame.position);
      entry.article.id = `e${frame.position}`;
      this.entries.set(frame.position, entry);
      place(this.list, entry.article);
      this.sizes.observe(entry.article);
    }
    entry.fill(frame, this.length);
    // Hidden entries are not reported by the observer.
    if (entry.article.childElementCount === 0) this.heights.set(frame.position, 0);
  }

  // Earlier pages of a long message replace the button that requested them, inside its part. A frame that replaces
  // the part, because the message has grown, restores the button.
  putEarlier(button, pieces) {
    const part = button.closest("[data-part]") ?? button;
    const made = pieces.map(elementOf);
    made.forEach((it) => (it.dataset.earlier = ""));
    if (part.dataset.earlier === undefined) part.replaceChildren(...made);
    else part.replaceWith(...made);
  }

  tick() {
    if (!document.body.classList.contains("is-live")) return;
    for (const entry of this.entries.values()) entry.tick();
  }

  measured(records) {
    let moved = 0;
    const top = this.scroller.scrollTop;
    const { lead } = this;
    for (const record of records) {
      const position = Number(record.target.dataset.position);
      if (!record.target.isConnected) continue;
      const height = record.target.offsetHeight;
      const isAbove = this.heights.before(position) < top - lead;
      const change = this.heights.set(position, height);
      if (isAbove) moved += change;
    }
    this.settle();
    if (moved !== 0 && !this.follows && this.target === null) this.scroller.scrollTop = top;
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const [lastTop, lastHeight, lastRoom] = this.last;
    // Growing content and a shrinking window also move the end away, but only the user scrolls back.
    const wentBack = scrollTop < lastTop - 1 && scrollHeight >= lastHeight && clientHeight === lastRoom;
    if (this.target === null && wentBack) this.follows = false;
    if (this.target === null && scrollHeight - scrollTop - clientHeight < 60) this.follows = true;
    this.settle();
  }

  noteScroll() {
    this.last = [this.scroller.scrollTop, this.scroller.scrollHeight, this.scroller.clientHeight];
  }

  // Places the visible entries, and requests the missing ones.
  settle() {
    const room = this.scroller.clientHeight;
    let first;
    let last;
    if (this.target !== null) {
      first = this.target;
      last = this.target;
    } else if (this.follows) {
      last = this.length;
      first = this.heights.at(Math.max(0, this.heights.before(this.length) - room));
    } else {
      const top = this.scroller.scrollTop - this.lead;
      first = this.heights.at(Math.max(0, top));
      last = this.heights.at(Math.max(0, top + room)) + 1;
    }
    const around = this.isShort(room) ? FAR : AROUND;
    let from = Math.max(0, first - around);
    // The end is visible, however many entries before it are hidden.
    if (this.follows && this.target === null) from = Math.max(from, this.length + AROUND - MOST);
    const to = Math.min(from + MOST, Math.max(last + AROUND, from + 2 * AROUND));
    for (const [position, entry] of this.entries) {
      if (position < from || position >= to) {
        this.sizes.unobserve(entry.article);
        entry.article.remove();
        this.entries.delete(position);
      }
    }
    const shown = [...this.entries.keys()];
    const lowest = shown.length ? Math.min(...shown) : from;
    const highest = shown.length ? Math.max(...shown) + 1 : from;
    this.above.style.height = `${this.heights.before(lowest)}px`;
    this.below.style.height = `${Math.max(0, this.heights.before(this.length) - this.heights.before(highest))}px`;
    if (from !== this.asked[0] || to !== this.asked[1]) {
      this.asked = [from, to];
      this.send({ type: "window", from, to });
    }
    if (this.target !== null) {
      const entry = this.entries.get(this.target);
      if (entry && this.unfold(entry.article)) {
        this.scroller.scrollTop = this.heights.before(this.target) + this.lead;
      } else if (entry) {
        entry.article.scrollIntoView({ block: "center" });
        if (this.focuses) entry.article.focus({ preventScroll: true });
        entry.article.classList.add("is-meant");
        setTimeout(() => entry.article.classList.remove("is-meant"), 2500);
        this.target = null;
        this.follows = false;
      } else if (this.target < this.length) {
        this.scroller.scrollTop = this.heights.before(this.target) + this.lead;
      }
    } else if (this.follows) {
      this.scroller.scrollTop = this.scroller.scrollHeight;
    }
    this.toEnd.hidden = this.follows || this.length === 0;
    this.name();
    this.noteScroll();
  }

  // Returns true if the known entries do not fill the viewport and there are others above them.
  isShort(room) {
    const [lowest] = this.entries.keys();
    if (lowest === undefined || this.target !== null) return false;
    let first = lowest;
    let last = lowest;
    for (const position of this.entries.keys()) {
      first = Math.min(first, position);
      last = Math.max(last, position);
    }
    return first > 0 && this.heights.before(last + 1) - this.heights.before(first) < room;
  }

  // Unfolds the run that hides a tool call. Returns true while its content is not there.
  unfold(article) {
    const position = Number(article.dataset.position);
    if (article.childElementCount > 0 || !article.matches(".e-tool") || this.unfolded === position) return false;
    this.unfolded = position;
    this.send({ type: "fold-run", session: this.session, position, open: true });
    return true;
  }

  // The role is `feed` only while there are entries.
  name() {
    const isFeed = this.list.firstElementChild !== null;
    if (isFeed === this.list.hasAttribute("role")) return;
    if (isFeed) this.list.setAttribute("role", "feed");
    else this.list.removeAttribute("role");
    if (isFeed) this.list.setAttribute("aria-label", "Entries");
    else this.list.removeAttribute("aria-label");
  }

  goTo(position, focuses = true) {
    this.target = position;
    this.unfolded = null;
    this.focuses = focuses;
    this.follows = false;
    this.settle();
  }

  goToEnd() {
    this.target = null;
    this.follows = true;
    this.settle();
  }

  // J and K, or the arrow keys with Alt, move from entry to entry.
  key(event) {
    if (event.target.closest("input, textarea, select, button, summary") || event.ctrlKey || event.metaKey) return;
    const step = event.key === "j" ? 1 : event.key === "k" ? -1 : 0;
    if (step === 0) return;
    const here = document.activeElement.closest?.("#transcript > article");
    const position = here ? Number(here.dataset.position) + step : this.heights.at(Math.max(0, this.scroller.scrollTop - this.lead));
    if (position >= 0 && position < this.length) this.goTo(position);
    event.preventDefault();
  }
}
