// The inspector: every message on the wire, filtered on the server. The page contains only the visible rows.

const ROW = 26; // the height of a row in pixels, as in page.css
const AROUND = 20;
const PAUSE = 200; // milliseconds between two updates, unless the user waits for one
const MOST_HEIGHT = 8_000_000; // pixels; browsers do not scroll much further

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
    this.top = 0;
    this.isAsked = false;
    this.latest = null;
    this.pausing = null;
    this.shown = new Map();
    this.lines = new Map();
    this.selected = null;
    this.entry = null;
    this.entrySession = null;
    this.follows = true;
    this.button.addEventListener("click", () => this.toggle());
    this.view.addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => {
      if (this.follows) this.scrollTo(this.view.scrollHeight);
      this.scrolled();
    }).observe(this.view);
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
    // A click on an entry selects the messages that changed it.
    at("transcript").addEventListener("click", (event) => {
      if (event.target.closest("a, button, summary:not(.call-line), input, select, pre, code")) return;
      if (!this.isOpen || String(getSelection()) !== "") return;
      const article = event.target.closest("article[data-position]");
      if (article) this.showEntry(Number(article.dataset.position), article.dataset.session ?? null);
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
    this.latest = null;
    this.page.send({ type: "wire", window: null });
  }

  clear() {
    this.total = 0;
    this.latest = null;
    this.shown.clear();
    this.entry = null;
    this.selected = null;
    this.follows = true;
    at("detail").hidden = true;
    this.lines.clear();
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
      entry_session: this.entrySession,
    };
  }

  filterChanged() {
    at("wire-entry").hidden = this.entry === null;
    this.shown.clear();
    this.lines.clear();
    this.latest = null;
    this.follows = true;
    this.total = 0;
    this.ask();
  }

  // Pixels of the list per pixel of scrolling, above 1 if the list is higher than a browser can scroll.
  get scale() {
    return Math.max(1, (this.total * ROW) / MOST_HEIGHT);
  }

  first() {
    return Math.floor((this.view.scrollTop * this.scale) / ROW);
  }

  ask() {
    const count = Math.ceil(this.view.clientHeight / ROW);
    const from = Math.max(0, this.first() - AROUND);
    this.window = [from, from + count + 2 * AROUND];
    this.isAsked = true;
    // While following the end, the server uses only the size of the window.
    this.page.send({ type: "wire", window: this.window, follows: this.follows, filter: this.filter() });
  }

  // Stops following the end.
  stay() {
    if (!this.follows) return;
    this.follows = false;
    this.ask();
  }

  // Follows the end once the user scrolls to it, and stops if the user scrolls back.
  scrolled() {
    if (!this.isOpen) return;
    const { scrollTop, scrollHeight, clientHeight } = this.view;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < ROW * 2;
    const followed = this.follows;
    if (isAtEnd && scrollTop > this.top) this.follows = true;
    if (!isAtEnd && scrollTop < this.top) this.follows = false;
    this.top = scrollTop;
    const first = this.first();
    const last = first + Math.ceil(clientHeight / ROW);
    const [from, to] = this.window;
    const isNear = (first < from + AROUND / 2 && from > 0) || last > to - AROUND / 2;
    const isSmall = to - from < last - first + 2 * AROUND;
    if (this.follows !== followed || (this.follows ? isSmall : isNear)) this.ask();
    this.draw();
  }

  // Scrolls by program, which does not change whether the end is followed.
  scrollTo(top) {
    this.view.scrollTop = top;
    this.top = this.view.scrollTop;
  }

  // Draws at most a few times a second, which leaves time for the transcript.
  apply(frame) {
    this.rows = frame.rows;
    if (!this.isOpen) return;
    this.latest = { rows: frame.rows, at: frame.at, wire: frame.wire ?? this.latest?.wire };
    const isUrgent = this.isAsked || frame.at !== null;
    if (this.pausing && !isUrgent) return;
    this.show();
    clearTimeout(this.pausing);
    this.pausing = setTimeout(() => {
      this.pausing = null;
      if (this.latest) this.show();
    }, PAUSE);
  }

  show() {
    const { rows, at: shownAt, wire } = this.latest;
    this.latest = null;
    const slider = at("slider");
    slider.max = rows;
    if (shownAt === null && document.activeElement !== slider) slider.value = rows;
    if (shownAt !== null) slider.value = shownAt;
    at("slider-at").textContent = `${slider.value} of ${rows}`;
    if (!wire) return;
    this.isAsked = false;
    const grew = wire.total !== this.total;
    this.total = wire.total;
    this.shown = new Map(wire.rows.map((row, place) => [wire.from + place, row]));
    choices("wire-method", "all methods", wire.methods);
    choices("wire-kind", "all updates", wire.kinds);
    choices("wire-session", "all sessions", wire.sessions);
    at("wire-count").textContent =
      wire.searched === undefined ? `${wire.total} of ${rows} messages` : `${wire.total} found in the first ${wire.searched} of ${rows}`;
    this.plot(wire.rates);
    // The user may have scrolled back since, before the scroll event.
    if (this.follows && this.view.scrollTop < this.top - 1) this.stay();
    if (grew) at("wire-size").style.height = `${Math.min(MOST_HEIGHT, wire.total * ROW)}px`;
    if (this.follows && grew) this.scrollTo(this.view.scrollHeight);
    this.draw();
  }

  // Draws at most a few times a second.
  plot(rates) {
    this.rates = rates;
    if (this.plotting) return;
    plot(rates);
    this.plotting = setTimeout(() => {
      this.plotting = null;
      if (this.rates !== rates) this.plot(this.rates);
    }, 200);
  }

  // Reuses the unchanged lines, because a thousand more may arrive each second.
  draw() {
    const first = this.first();
    const last = Math.min(first + Math.ceil(this.view.clientHeight / ROW) + 1, this.total);
    const rows = at("wire-rows");
    const moved = `translateY(${first * ROW / this.scale}px)`;
    if (rows.style.transform !== moved) rows.style.transform = moved;
    const lines = new Map();
    for (let place = first; place < last; place++) {
      const row = this.shown.get(place);
      const known = this.lines.get(place);
      const looks = row ? `${row.row} ${row.latency} ${row.problem} ${row.row === this.selected}` : "";
      lines.set(place, known?.looks === looks ? known : { looks, element: line(row, this.selected) });
    }
    this.lines = lines;
    const wanted = [...lines.values()].map((it) => it.element);
    const isWanted = new Set(wanted);
    for (const element of [...rows.children]) if (!isWanted.has(element)) element.remove();
    let next = rows.firstChild;
    for (const element of wanted) {
      if (element === next) next = next.nextSibling;
      else rows.insertBefore(element, next);
    }
  }

  async showMessage(row, scrolls = true) {
    this.selected = row;
    const { attempt, setHash } = this.page;
    const [html, place] = await Promise.all([attempt({ type: "message", row }), attempt({ type: "find", row })]);
    if (html === undefined || this.selected !== row) return;
    const detail = at("detail");
    detail.innerHTML = html;
    detail.hidden = false;
    detail.dataset.row = row;
    setHash(`#m${row}`);
    if (typeof place === "number") {
      const top = (place * ROW) / this.scale;
      const { scrollTop, clientHeight } = this.view;
      this.stay();
      if (scrolls || top < scrollTop || top + ROW > scrollTop + clientHeight) this.scrollTo(top - clientHeight / 3);
    }
    this.draw();
  }

  // `session` is set for an entry of a sub-agent inside the selected session.
  showEntry(position, session = null) {
    this.entry = position;
    this.entrySession = session;
    if (session === null) this.page.setHash(`#e${position}`);
    this.filterChanged();
  }

  detailClicked(event) {
    const button = event.target.closest("button");
    if (!button) return;
    const data = button.dataset;
    if (data.action === "message") this.showMessage(Number(data.row));
    if (data.action === "entry") {
      this.page.lookAt(data.session);
      this.page.transcript.goTo(Number(data.position));
    }
    if (data.action === "at") this.slide(Number(data.rows));
    if (data.action === "copy-message") this.page.copy(at("detail").querySelector("pre")?.textContent ?? "");
  }

  // Requests only the latest of many positions.
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

const CELLS = ["n", "t", "d", "k", "latency", "s", "x"];
const EMPTY = document.createElement("div");
EMPTY.className = "row";
EMPTY.setAttribute("role", "row");
const FULL = EMPTY.cloneNode();
for (const name of CELLS) {
  const cell = document.createElement("span");
  cell.className = name;
  cell.setAttribute("role", "gridcell");
  FULL.append(cell);
}
FULL.children[1].title = "seconds since the beginning";
FULL.children[4].title = "between question and answer";

function line(row, selected) {
  if (!row) {
    const element = EMPTY.cloneNode();
    element.textContent = "…";
    return element;
  }
  const element = FULL.cloneNode(true);
  element.dataset.row = row.row;
  element.className = `row row-${row.direction} row-${row.shape}${row.other ? " row-other" : ""}${row.problem ? " row-problem" : ""}`;
  if (row.row === selected) element.setAttribute("aria-selected", "true");
  const [number, time, way, kind, latency, bytes, excerpt] = element.children;
  number.textContent = row.row + 1;
  time.textContent = (row.time / 1000).toFixed(3);
  way.textContent = ARROWS[row.direction] + (row.problem ? " ⚠" : "");
  way.title = WAYS[row.direction] + (row.other ? ", other side of the bridge" : "");
  kind.textContent = row.name + (row.shape === "result" ? " ✓" : row.shape === "error" ? " ✗" : "");
  kind.title = row.shape;
  if (row.latency !== undefined) latency.textContent = `${row.latency} ms`;
  bytes.textContent = size(row.size);
  excerpt.textContent = row.excerpt;
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

// Draws two small plots: messages and bytes over time.
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
