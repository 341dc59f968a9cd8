// Questions of the agent: permission requests and forms above the prompt.

import { keepOpen } from "./entry.js";

export const INERT = 500; // milliseconds after which a question can be answered, from when it appeared or changed

export class Questions {
  constructor(page) {
    this.page = page;
    this.box = document.getElementById("questions");
    this.since = new Map();
  }

  show(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    const count = template.content.querySelector(".question-count");
    count?.remove();
    this.showCount(count);
    const wanted = [...template.content.children];
    const ids = new Set(wanted.map((it) => it.dataset.question));
    const kept = new Map([...this.box.children].map((it) => [it.dataset.question, it]));
    for (const [id, element] of kept) if (!ids.has(id)) this.remove(id, element);
    for (const made of wanted) {
      const old = kept.get(made.dataset.question);
      if (old) this.renew(old, made);
      else this.add(made);
    }
  }

  // Keeps the focus on the button while the user steps through the questions, or moves it to the other button at the
  // end.
  showCount(count) {
    const box = document.getElementById("question-count");
    const held = box.contains(document.activeElement) ? [...box.querySelectorAll("button")].indexOf(document.activeElement) : -1;
    box.replaceChildren(...(count ? [count] : []));
    if (held < 0) return;
    const buttons = [...box.querySelectorAll("button")];
    (buttons[held]?.disabled === false ? buttons[held] : buttons.find((it) => !it.disabled))?.focus();
  }

  add(made) {
    made.sources = new Map([...made.children].map((part) => [part.dataset.part, part.outerHTML]));
    made.setAttribute("role", "group");
    this.name(made);
    this.since.set(made.dataset.question, performance.now());
    this.box.append(made);
    this.arm(made);
    const whose = made.querySelector(".whose")?.textContent;
    this.page.announce(`${whose ?? "The agent asks"}: ${made.getAttribute("aria-label")}`);
  }

  name(question) {
    question.setAttribute("aria-label", question.querySelector("h3")?.textContent ?? "Question");
  }

  // Replaces only parts that differ, so that pressed, focused and filled-in elements stay the same. If the content of
  // the question changed, the new parts are marked, and the time to read starts again.
  renew(old, made) {
    const hasChanged = old.dataset.revision !== made.dataset.revision;
    old.dataset.revision = made.dataset.revision;
    // The server counts from the time at which the question could be answered, too.
    const isOpened = made.hasAttribute("data-open") && !old.hasAttribute("data-open");
    if (isOpened) this.since.set(old.dataset.question, performance.now());
    old.toggleAttribute("data-open", made.hasAttribute("data-open"));
    const parts = new Map([...old.children].map((part) => [part.dataset.part, part]));
    const note = parts.get("changed");
    parts.delete("changed");
    const sources = new Map();
    let previous = note ?? null;
    for (const part of [...made.children]) {
      const key = part.dataset.part;
      const source = part.outerHTML;
      let element = parts.get(key);
      parts.delete(key);
      sources.set(key, source);
      if (!element || old.sources.get(key) !== source) {
        part.classList.toggle("is-changed", hasChanged || (element?.classList.contains("is-changed") ?? false));
        if (element) {
          keepOpen(element, part);
          element.replaceWith(part);
        }
        element = part;
      }
      const place = previous ? previous.nextSibling : old.firstChild;
      if (element !== place) old.insertBefore(element, place);
      previous = element;
    }
    const isShorter = parts.size > 0;
    for (const gone of parts.values()) gone.remove();
    old.sources = sources;
    if (hasChanged) this.mark(old, isShorter);
    this.arm(old);
  }

  mark(question, isShorter) {
    this.since.set(question.dataset.question, performance.now());
    this.name(question);
    let note = question.querySelector("[data-part=changed]");
    if (!note) {
      note = document.createElement("p");
      note.className = "p changed-note";
      note.dataset.part = "changed";
      question.prepend(note);
    }
    note.dataset.shorter = note.dataset.shorter === "true" || isShorter;
    note.textContent =
      "The agent has changed this question since it appeared. What is marked is new." +
      (note.dataset.shorter === "true" ? " Something that was here before is gone." : "");
    this.page.announce(`The agent has changed its question: ${question.getAttribute("aria-label")}`);
  }

  remove(id, element) {
    const hadFocus = element.contains(document.activeElement);
    element.remove();
    this.since.delete(id);
    const isLost = document.activeElement === document.body || document.activeElement === null;
    // The next question gets the focus, otherwise the prompt.
    if (hadFocus || isLost) {
      const next = this.box.querySelector("[data-question]");
      if (next?.wasOffered) next.wasOffered = false;
      document.getElementById("prompt").focus();
      if (next) this.arm(next);
    }
  }

  // Disables the buttons of a question for the time to read it, and for good if it cannot be answered here.
  arm(question) {
    const now = performance.now();
    const left = INERT - (now - (this.since.get(question.dataset.question) ?? now));
    const isReady = left <= 0 && question.hasAttribute("data-open");
    // A disabled button loses the focus, which later returns to it or to its counterpart.
    const active = document.activeElement;
    if (!isReady && question.contains(active)) question.focused = active.dataset.option ?? active.dataset.answer;
    question.classList.toggle("is-inert", !isReady);
    const buttons = [...question.querySelectorAll("[data-option], [data-answer]")];
    buttons.forEach((it) => (it.disabled = !isReady));
    question.querySelectorAll("[data-option]").forEach((it, place) => {
      if (place < 9) it.title = `${place + 1} or Alt+${place + 1}`;
    });
    if (isReady) this.offerFocus(question);
    if (isReady && question.focused !== undefined) {
      const like = buttons.find((it) => (it.dataset.option ?? it.dataset.answer) === question.focused);
      question.focused = undefined;
      if (document.activeElement === document.body) like?.focus();
    }
    clearTimeout(question.waking);
    if (left > 0) question.waking = setTimeout(() => question.isConnected && this.arm(question), left + 1);
  }

  // The safest answer gets the focus once, unless the user is writing or has the focus elsewhere.
  offerFocus(question) {
    if (question.wasOffered) return;
    question.wasOffered = true;
    const prompt = document.getElementById("prompt");
    const active = document.activeElement;
    const isFree = active === document.body || (active === prompt && prompt.value === "");
    if (!isFree || question !== this.box.querySelector("[data-question]")) return;
    question.querySelector(".opt-reject:not(.opt-always)[data-option]")?.focus({ preventScroll: true });
  }

  async choose(question, option) {
    const buttons = [...question.querySelectorAll("[data-option]")];
    if (buttons.some((it) => it.disabled)) return;
    buttons.forEach((it) => (it.disabled = true));
    const { question: id, revision } = question.dataset;
    try {
      await this.page.ask({ type: "choose", id, revision, option });
    } catch (reason) {
      this.page.toast(reason);
      this.arm(question);
    }
  }

  // Rejects or declines every shown question that the user had time to read.
  async rejectAll() {
    for (const question of [...this.box.children]) {
      const reject = question.querySelector(".opt-reject:not(.opt-always)[data-option]:not(:disabled)");
      const decline = question.querySelector("[data-answer=decline]:not(:disabled)");
      if (reject) await this.choose(question, reject.dataset.option);
      else if (decline) await this.give(decline.closest("form"), "decline");
    }
  }

  async give(form, action) {
    const content = {};
    if (action === "accept") {
      if (!form.reportValidity()) return;
      for (const field of form.querySelectorAll("[data-type]")) {
        const value = fieldValue(field);
        if (value !== undefined) content[field.dataset.name ?? field.name] = value;
      }
    }
    try {
      const { revision } = form.closest("[data-question]").dataset;
      await this.page.ask({ type: "give", id: form.dataset.elicitation, revision, action, content });
    } catch (reason) {
      this.page.toast(reason);
    }
  }
}

function fieldValue(field) {
  const kind = field.dataset.type;
  if (kind === "array") {
    return [...field.querySelectorAll("input:checked")].map((it) => it.value);
  }
  if (kind === "boolean") return field.checked;
  if (field.value === "") return undefined;
  if (kind === "number") return Number(field.value);
  return field.value;
}
