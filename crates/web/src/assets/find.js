// Search in the session. The server searches all entries; the page marks the matches among those that it shows.

import { at } from "./show.js";

const WAIT = 150; // milliseconds after the last key

export class Find {
  constructor(ask, transcript) {
    this.ask = ask;
    this.transcript = transcript;
    this.positions = [];
    this.place = -1;
    this.query = at("find-query");
    this.query.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.search(), WAIT);
    });
    at("find").addEventListener("submit", (event) => event.preventDefault());
    at("find").addEventListener("keydown", (event) => this.key(event));
    new MutationObserver(() => this.isOpen && this.mark()).observe(at("transcript"), { childList: true, subtree: true, characterData: true });
  }

  get isOpen() {
    return !at("find").hidden;
  }

  toggle(open = !this.isOpen) {
    at("find").hidden = !open;
    at("show-find").setAttribute("aria-expanded", String(open));
    if (open) {
      this.query.focus();
      this.query.select();
      if (this.query.value !== "") this.search();
    } else {
      this.mark();
      at("prompt").focus();
    }
  }

  key(event) {
    if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") this.toggle(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  async search() {
    const query = this.query.value;
    if (query === "") {
      this.positions = [];
      at("find-count").textContent = "";
      return this.mark();
    }
    const found = await this.ask({ type: "find-in", query });
    if (found === undefined || this.query.value !== query) return;
    this.positions = found.positions;
    this.isCut = found.is_cut;
    this.place = this.positions.length;
    this.step(-1);
    this.mark();
  }

  // Goes to the next or the previous entry with a match, and around at the ends.
  step(step) {
    const { length } = this.positions;
    if (length === 0) {
      at("find-count").textContent = this.query.value === "" ? "" : "Nothing found";
      return;
    }
    this.place = (this.place + step + length) % length;
    at("find-count").textContent = `${this.place + 1} of ${length}${this.isCut ? " or more" : ""}`;
    this.transcript.goTo(this.positions[this.place], false);
  }

  mark() {
    if (!("highlights" in CSS)) return;
    const ranges = this.isOpen && this.query.value !== "" ? matches(at("transcript"), this.query.value.toLowerCase()) : [];
    CSS.highlights.set("found", new Highlight(...ranges));
  }
}

const MOST = 1000; // matches that are marked

function matches(root, wanted) {
  const ranges = [];
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode() && ranges.length < MOST) {
    const node = texts.currentNode;
    const text = node.data.toLowerCase();
    // Some letters change their length in lower case; then the places would not fit.
    if (text.length !== node.data.length) continue;
    for (let start = text.indexOf(wanted); start >= 0 && ranges.length < MOST; start = text.indexOf(wanted, start + wanted.length)) {
      const range = new Range();
      range.setStart(node, start);
      range.setEnd(node, start + wanted.length);
      ranges.push(range);
    }
  }
  return ranges;
}
