// The inspector: every message on the wire, filtered on the server; only the rows in sight are in the page.

const ROW = 26; // the height of a row in pixels, as in page.css
const AROUND = 20;
const MOST_HEIGHT = 8_000_000; // browsers do not scroll much further

const at = (id) => document.getElementById(id);
const ARROWS = { in: "←", out: "→", note: "·" };
const WAYS = { in: "from the agent", out: "to the agent", note: "note" };

export class Inspector {
  constructor(page) {
    this.page = page;
    this.box = at("inspector");
    this.view = at("wire");
    this.button = at("show-inspector");
    this.total = 0;
    this.rows = 0;
    this.window = [0, 0];
    this.shown = new Map();
    this.selected = null;
    this.entry = null;
    this.follows = true;
    this.button.addEventListener("click", () => this.toggle());
    this.view.addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => this.scrolled()).observe(this.view);
    for (const id of ["wire-direction", "wire-side", "wire-method", "wire-kind", "wire-session", "wire-problems"]) {
      at(id).addEventListener("change", () => this.filterChanged());
    }
    let typing = 0;
    at("wire-text").addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => this.filterChanged(), 200);
    });
    at("wire-entry").addEventListener("click", () => {
      this.entry = null;
      this.filterChanged();
    });
    at("wire-rows").addEventListener("click", (event) => {
      const row = event.target.closest("[data-row]");
      if (row) this.showMessage(Number(row.dataset.row), false);
    });
    this.view.addEventListener("keydown", (event) => this.key(event));
    at("detail").addEventListener("click", (event) => this.detailClicked(event));
    // Clicks on entries lead to the messages that made them.
    at("transcript").addEventListener("click", (event) => {
      if (event.target.closest("a, button, summary, input, select, pre, code")) return;
      if (!this.isOpen || String(getSelection()) !== "") return;
      const article = event.target.closest("article[data-position]");
      if (article) this.showEntry(Number(article.dataset.position));
    });
    const slider = at("slider");
    slider.addEventListener("input", () => this.slide(Number(slider.value)));
  }

  get isOpen() {
    return !this.box.hidden;
  }

  toggle() {
    if (this.isOpen) this.close();
    else this.open();
  }

  open() {
    if (this.isOpen) return;
    this.box.hidden = false;
    document.body.classList.add("has-inspector");
    this.button.setAttribute("aria-expanded", "true");
    this.ask();
  }

  close() {
    this.box.hidden = true;
    document.body.classList.remove("has-inspector");
    this.button.setAttribute("aria-expanded", "false");
    this.page.send({ type: "wire", window: null });
  }

  clear() {
    this.total = 0;
    this.shown.clear();
    this.entry = null;
    this.selected = null;
    this.follows = true;
    at("detail").hidden = true;
    at("wire-rows").replaceChildren();
    if (this.isOpen) this.ask();
  }

  filter() {
    return {
      direction: at("wire-direction").value,
      side: at("wire-side").value,
      method: at("wire-method").value,
      kind: at("wire-kind").value,
      session: at("wire-session").value,
      problems: at("wire-problems").checked,
      text: at("wire-text").value,
      entry: this.entry,
    };
  }

  filterChanged() {
    at("wire-entry").hidden = this.entry === null;
    this.shown.clear();
    this.follows = true;
    this.total = 0;
    this.ask();
  }

  // Past what a browser can scroll, a pixel stands for more than a pixel.
  get scale() {
    return Math.max(1, (this.total * ROW) / MOST_HEIGHT);
  }

  first() {
    return Math.floor((this.view.scrollTop * this.scale) / ROW);
  }

  ask() {
    const count = Math.ceil(this.view.clientHeight / ROW);
    const first = this.follows ? Math.max(0, this.total - count) : this.first();
    const from = Math.max(0, first - AROUND);
    // Behind the end there is room for what is still to come.
    this.window = [from, first + count + AROUND];
    this.page.send({ type: "wire", window: this.window, filter: this.filter() });
  }

  scrolled() {
    if (!this.isOpen) return;
    const { scrollTop, scrollHeight, clientHeight } = this.view;
    this.follows = scrollHeight - scrollTop - clientHeight < ROW * 2;
    const first = this.first();
    const last = first + Math.ceil(clientHeight / ROW);
    if ((first < this.window[0] + AROUND / 2 && this.window[0] > 0) || last > this.window[1] - AROUND / 2) this.ask();
    this.draw();
  }

  apply(frame) {
    this.rows = frame.rows;
    const slider = at("slider");
    slider.max = frame.rows;
    if (frame.at === null && document.activeElement !== slider) slider.value = frame.rows;
    if (frame.at !== null) slider.value = frame.at;
    at("slider-at").textContent = `${slider.value} of ${frame.rows}`;
    if (!frame.wire) return;
    const wire = frame.wire;
    const grew = wire.total !== this.total;
    this.total = wire.total;
    this.shown = new Map(wire.rows.map((row, place) => [wire.from + place, row]));
    choices("wire-method", "all methods", wire.methods);
    choices("wire-kind", "all updates", wire.kinds);
    choices("wire-session", "all sessions", wire.sessions);
    at("wire-count").textContent =
      wire.searched === undefined ? `${wire.total} of ${frame.rows} messages` : `${wire.total} found in the first ${wire.searched} of ${frame.rows}`;
    plot(wire.rates);
    at("wire-size").style.height = `${Math.min(MOST_HEIGHT, wire.total * ROW)}px`;
    if (this.follows && grew) {
      this.view.scrollTop = this.view.scrollHeight;
      if (wire.total > this.window[1] - AROUND / 2) this.ask();
    }
    this.draw();
  }

  draw() {
    const first = this.first();
    const count = Math.ceil(this.view.clientHeight / ROW) + 1;
    const rows = at("wire-rows");
    rows.style.transform = `translateY(${first * ROW / this.scale}px)`;
    const made = [];
    for (let place = first; place < Math.min(first + count, this.total); place++) {
      made.push(line(this.shown.get(place), this.selected));
    }
    rows.replaceChildren(...made);
  }

  async showMessage(row, scrolls = true) {
    this.selected = row;
    const html = await this.page.attempt({ type: "message", row });
    if (html === undefined || this.selected !== row) return;
    const detail = at("detail");
    detail.innerHTML = html;
    detail.hidden = false;
    detail.dataset.row = row;
    this.page.setHash(`#m${row}`);
    const place = await this.page.attempt({ type: "find", row });
    if (typeof place === "number") {
      const top = (place * ROW) / this.scale;
      const { scrollTop, clientHeight } = this.view;
      this.follows = false;
      if (scrolls || top < scrollTop || top + ROW > scrollTop + clientHeight) this.view.scrollTop = top - clientHeight / 3;
    }
    this.draw();
  }

  showEntry(position) {
    this.entry = position;
    this.page.setHash(`#e${position}`);
    this.filterChanged();
  }

  detailClicked(event) {
    const button = event.target.closest("button");
    if (!button) return;
    const data = button.dataset;
    if (data.action === "message") this.showMessage(Number(data.row));
    if (data.action === "entry") this.page.transcript.goTo(Number(data.position));
    if (data.action === "at") this.slide(Number(data.rows));
    if (data.action === "copy-message") this.page.copy(at("detail").querySelector("pre")?.textContent ?? "");
  }

  // Only the last of many positions is asked for.
  async slide(rows) {
    at("slider-at").textContent = `${rows} of ${this.rows}`;
    this.wanted = rows;
    if (this.sliding) return;
    this.sliding = true;
    while (this.wanted !== null) {
      const next = this.wanted;
      this.wanted = null;
      await this.page.attempt({ type: "at", rows: next >= this.rows ? null : next });
    }
    this.sliding = false;
  }

  now() {
    at("slider").value = this.rows;
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const places = [...this.shown.entries()];
    const here = places.find(([, row]) => row.row === this.selected);
    const place = here ? here[0] + step : this.first();
    const row = this.shown.get(place);
    if (row) this.showMessage(row.row, false);
  }
}

function line(row, selected) {
  const element = document.createElement("div");
  element.className = "row";
  element.setAttribute("role", "row");
  if (!row) {
    element.textContent = "…";
    return element;
  }
  element.dataset.row = row.row;
  element.classList.add(`row-${row.direction}`, `row-${row.shape}`);
  if (row.other) element.classList.add("row-other");
  if (row.problem) element.classList.add("row-problem");
  if (row.row === selected) element.setAttribute("aria-selected", "true");
  const cell = (name, text, title) => {
    const span = document.createElement("span");
    span.className = name;
    span.setAttribute("role", "gridcell");
    span.textContent = text;
    if (title) span.title = title;
    element.append(span);
  };
  cell("n", row.row + 1);
  cell("t", `${(row.time / 1000).toFixed(3)}`, "seconds since the beginning");
  cell("d", ARROWS[row.direction] + (row.problem ? " ⚠" : ""), WAYS[row.direction] + (row.other ? ", other side of the bridge" : ""));
  cell("k", row.name + (row.shape === "result" ? " ✓" : row.shape === "error" ? " ✗" : ""), row.shape);
  cell("latency", row.latency === undefined ? "" : `${row.latency} ms`, "between question and answer");
  cell("s", size(row.size));
  cell("x", row.excerpt);
  return element;
}

function size(bytes) {
  return bytes < 10_000 ? `${bytes} B` : bytes < 10_000_000 ? `${Math.round(bytes / 1000)} kB` : `${Math.round(bytes / 1_000_000)} MB`;
}

function choices(id, all, words) {
  const select = at(id);
  const known = [...select.options].slice(1).map((it) => it.value);
  if (known.length === words.length && known.every((word, place) => word === words[place])) return;
  const chosen = select.value;
  const options = [new Option(all, ""), ...words.map((word) => new Option(word, word))];
  select.replaceChildren(...options);
  select.value = words.includes(chosen) ? chosen : "";
}

// Two small plots: messages and bytes over time.
function plot([width, spans]) {
  const box = at("rates");
  const names = [["messages", 0], ["bytes", 1]];
  if (box.children.length === 0) {
    for (const [name] of names) {
      const figure = document.createElement("figure");
      const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      picture.setAttribute("viewBox", "0 0 300 36");
      picture.setAttribute("preserveAspectRatio", "none");
      picture.setAttribute("role", "img");
      picture.append(document.createElementNS("http://www.w3.org/2000/svg", "path"));
      const caption = document.createElement("figcaption");
      figure.className = `rate rate-${name}`;
      figure.append(picture, caption);
      box.append(figure);
    }
  }
  names.forEach(([name, index], place) => {
    const values = spans.map((span) => span[index]);
    const most = Math.max(1, ...values);
    const step = 300 / Math.max(1, values.length);
    const points = values.map((value, at) => `H${(at * step).toFixed(1)}V${(36 - (value / most) * 34).toFixed(1)}`);
    const figure = box.children[place];
    figure.querySelector("path").setAttribute("d", `M0 36${points.join("")}H300V36Z`);
    const rate = (most * 1000) / Math.max(1, width);
    const words = name === "bytes" ? `${size(Math.round(rate))}/s at most` : `${Math.round(rate)} messages/s at most`;
    figure.querySelector("figcaption").textContent = words;
    figure.querySelector("svg").setAttribute("aria-label", `${name} over time, ${words}`);
  });
}
