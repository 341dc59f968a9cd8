// The palette: sessions, actions and agents by a few letters of their names.

import { at, backToPrompt } from "./show.js";

const MOST = 50; // entries that are shown

export class Palette {
  // `commands` returns the entries: a name, a remark, and the function that does it.
  constructor(commands) {
    this.commands = commands;
    this.chosen = 0;
    this.box = at("palette");
    this.query = at("palette-query");
    this.list = at("palette-list");
    this.query.addEventListener("input", () => this.show());
    this.query.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest("li");
      if (item) this.run([...this.list.children].indexOf(item));
    });
    this.box.addEventListener("click", (event) => event.target === this.box && this.box.close());
    this.box.addEventListener("close", backToPrompt);
  }

  open() {
    this.all = this.commands();
    this.query.value = "";
    if (!this.box.open) this.box.showModal();
    this.query.focus();
    this.show();
  }

  show() {
    const words = this.query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = ({ name, about }) => words.every((word) => `${name} ${about}`.toLowerCase().includes(word));
    this.shown = this.all.filter(fits).slice(0, MOST);
    this.list.replaceChildren(
      ...this.shown.map(({ name, about }, place) => {
        const item = document.createElement("li");
        item.id = `palette-${place}`;
        item.setAttribute("role", "option");
        const title = document.createElement("span");
        title.className = "name";
        title.textContent = name;
        const remark = document.createElement("span");
        remark.className = "meta";
        remark.textContent = about;
        item.append(title, remark);
        return item;
      }),
    );
    this.choose(0);
  }

  choose(place) {
    this.chosen = place;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === place)));
    const item = this.list.children[place];
    item?.scrollIntoView({ block: "nearest" });
    if (item) this.query.setAttribute("aria-activedescendant", item.id);
    else this.query.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const { length } = this.shown;
    if (event.key === "ArrowDown" && length) this.choose((this.chosen + 1) % length);
    else if (event.key === "ArrowUp" && length) this.choose((this.chosen + length - 1) % length);
    else if (event.key === "Enter") this.run(this.chosen);
    else return;
    event.preventDefault();
  }

  run(place) {
    const command = this.shown[place];
    if (!command) return;
    this.box.close();
    command.run();
  }
}
