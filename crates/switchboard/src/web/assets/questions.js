// What the agent asks: questions and forms above the prompt.

import { keepOpen } from "./transcript.js";

const INERT = 500; // milliseconds after which a question can be answered

export class Questions {
  constructor(page) {
    this.page = page;
    this.box = document.getElementById("questions");
    this.since = new Map();
  }

  show(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
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

  add(made) {
    made.sources = new Map([...made.children].map((part) => [part.dataset.part, part.outerHTML]));
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", made.querySelector("h3")?.textContent ?? "Question");
    this.since.set(made.dataset.question, performance.now());
    this.box.append(made);
    this.arm(made);
    this.page.announce(`The agent asks: ${made.getAttribute("aria-label")}`);
  }

  // Only parts that are different are replaced: what is pressed, focused or filled in stays the same element.
  renew(old, made) {
    old.toggleAttribute("data-open", made.hasAttribute("data-open"));
    const parts = new Map([...old.children].map((part) => [part.dataset.part, part]));
    const sources = new Map();
    let previous = null;
    for (const part of [...made.children]) {
      const key = part.dataset.part;
      const source = part.outerHTML;
      let element = parts.get(key);
      parts.delete(key);
      sources.set(key, source);
      if (!element) element = part;
      else if (old.sources.get(key) !== source) {
        keepOpen(element, part);
        element.replaceWith(part);
        element = part;
      }
      const place = previous ? previous.nextSibling : old.firstChild;
      if (element !== place) old.insertBefore(element, place);
      previous = element;
    }
    for (const gone of parts.values()) gone.remove();
    old.sources = sources;
    this.arm(old);
  }

  remove(id, element) {
    const hadFocus = element.contains(document.activeElement);
    element.remove();
    this.since.delete(id);
    if (hadFocus) document.getElementById("prompt").focus();
  }

  // The buttons of a question do nothing at first, and nothing at all where the question cannot be answered here.
  arm(question) {
    const now = performance.now();
    const left = INERT - (now - (this.since.get(question.dataset.question) ?? now));
    const isReady = left <= 0 && question.hasAttribute("data-open");
    question.classList.toggle("is-inert", !isReady);
    question.querySelectorAll("[data-option], [data-answer]").forEach((it) => (it.disabled = !isReady));
    question.querySelectorAll("[data-option]").forEach((it, place) => {
      if (place < 9) it.title = `Alt+${place + 1}`;
    });
    if (left > 0) setTimeout(() => question.isConnected && this.arm(question), left + 1);
  }

  async choose(question, option) {
    const buttons = [...question.querySelectorAll("[data-option]")];
    if (buttons.some((it) => it.disabled)) return;
    buttons.forEach((it) => (it.disabled = true));
    try {
      await this.page.ask({ type: "choose", id: question.dataset.question, option });
    } catch (reason) {
      this.page.toast(reason);
      buttons.forEach((it) => (it.disabled = false));
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
      await this.page.ask({ type: "give", id: form.dataset.elicitation, action, content });
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
