// The prompt: text, commands and files with completion, attachments, drafts and the last prompts.

import { drafts, history } from "./kept.js";
import { iconOf } from "./show.js";

export class Composer {
  constructor(submit, fail, findFiles) {
    this.submit = submit;
    this.fail = fail;
    this.findFiles = findFiles;
    this.recording = "";
    this.mentioned = new Set();
    this.past = null; // the index in the last prompts, and the text that was shown
    this.form = document.getElementById("composer");
    this.prompt = document.getElementById("prompt");
    this.list = document.getElementById("completions");
    this.commands = document.getElementById("commands");
    this.attached = document.getElementById("attachments");
    this.picker = document.getElementById("files");
    this.files = [];
    this.editing = null; // while an earlier prompt is edited: the draft before it, and whether it goes to a copy
    this.chosen = -1;
    this.full = this.prompt.placeholder;
    new ResizeObserver(() => {
      this.place();
      this.grow();
    }).observe(this.form);
    // On a phone the composer is one line until it is touched. It shrinks only some time after it lost the focus, so
    // that a button above it does not move away under the finger.
    this.form.addEventListener("focusin", () => {
      clearTimeout(this.resting);
      this.form.classList.add("is-active");
    });
    this.form.addEventListener("focusout", () => {
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.form.classList.remove("is-active"), 400);
    });
    this.weigh();
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.go();
    });
    this.prompt.addEventListener("input", () => this.typed());
    this.prompt.addEventListener("keydown", (event) => this.key(event));
    this.prompt.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.prompt.addEventListener("paste", (event) => this.add([...event.clipboardData.files], event));
    // Listens on the whole page, because a browser navigates to a file that is dropped outside of a drop target.
    document.addEventListener("dragover", (event) => this.draggedOver(event));
    document.addEventListener("drop", (event) => this.dropped(event));
    this.picker.addEventListener("change", () => this.add([...this.picker.files]));
    this.list.addEventListener("mousedown", (event) => {
      const item = event.target.closest("[role=option]");
      if (item) this.complete(item);
      event.preventDefault();
    });
  }

  // Sets the effect of a message: it starts a turn or a session, it steers the running turn, or it cannot be sent.
  set speech(word) {
    this.steers = word === "steer";
    this.waits = word === "later" || word === "start";
    this.starts = word === "start";
    this.form.hidden = word === "";
    const send = document.getElementById("send");
    send.querySelector(".sr").textContent = this.steers ? "Steer" : "Send";
    send.title = this.steers ? "Send to the running turn (Enter)" : "Send (Enter)";
  }

  // Shows in the placeholder if a message is for later.
  set isBusy(isBusy) {
    this.busy = isBusy;
    this.place();
  }

  place() {
    const { short, busy } = this.prompt.dataset;
    const isNarrow = this.prompt.clientWidth < 480;
    this.prompt.placeholder = this.busy ? busy : isNarrow ? short : this.full;
  }

  // An empty message cannot be sent. While the agent works, Stop is in the place of Send until something is written.
  weigh() {
    const isEmpty = this.prompt.value.trim() === "" && this.files.length === 0;
    document.getElementById("send").disabled = isEmpty;
    this.form.classList.toggle("has-text", !isEmpty);
  }

  set takes(kinds) {
    this.kinds = kinds;
    document.getElementById("attach").hidden = kinds === "";
    this.picker.accept = kinds.includes("*/*") ? "" : kinds;
  }

  go() {
    const text = this.prompt.value;
    if (text.trim() === "" && this.files.length === 0) return;
    const mentions = [...this.mentioned].filter((path) => text.includes(`@${path}`));
    if (!this.submit({ text, files: this.files, mentions })) return;
    history.add(text);
    this.prompt.value = this.editing?.draft ?? "";
    this.stopEdit();
    this.files = [];
    this.mentioned.clear();
    this.past = null;
    this.showFiles();
    this.typed();
  }

  // Restores a message that was not sent, before any text that was written since.
  giveBack({ text, files, mentions }) {
    const since = this.prompt.value;
    this.prompt.value = since.trim() === "" || since === text ? text : `${text}\n${since}`;
    this.files = [...files, ...this.files];
    mentions.forEach((path) => this.mentioned.add(path));
    this.showFiles();
    this.typed();
    this.prompt.focus();
  }

  // Puts a text into the prompt, for the user to review before sending.
  suggest(text) {
    this.prompt.value = text;
    this.typed();
    this.prompt.focus();
  }

  // Puts an earlier prompt into the composer. Where the agent can, it is sent in a copy of the session.
  edit(text, forks) {
    this.editing = { forks, draft: this.editing?.draft ?? this.prompt.value };
    document.getElementById("editing-words").textContent = forks
      ? "An earlier prompt. It goes to a copy of this session, which stays as it is."
      : "An earlier prompt. It is sent as a new one: the agent also remembers the first.";
    document.getElementById("editing").hidden = false;
    this.suggest(text);
  }

  // Ends the editing of an earlier prompt, and brings back what was written before it.
  endEdit() {
    if (!this.editing) return;
    const { draft } = this.editing;
    this.stopEdit();
    this.suggest(draft);
  }

  stopEdit() {
    this.editing = null;
    document.getElementById("editing").hidden = true;
  }

  // Drafts belong to a session. A draft from before the first session moves to it.
  lookAt(recording, goesAlong) {
    if (goesAlong && this.prompt.value !== "") {
      drafts.set(this.recording, "");
      drafts.set(recording, this.prompt.value);
      this.recording = recording;
      return;
    }
    if (this.editing) this.stopEdit();
    this.recording = recording;
    this.past = null;
    this.prompt.value = drafts.get(recording);
    this.grow();
    this.close();
  }

  grow() {
    this.prompt.style.height = "auto";
    this.prompt.style.height = `${Math.min(this.prompt.scrollHeight, window.innerHeight * 0.4)}px`;
    this.weigh();
  }

  typed() {
    this.grow();
    drafts.set(this.recording, this.prompt.value);
    const match = /^\/(\S*)$/.exec(this.prompt.value);
    if (!match) return this.typedPath();
    const wanted = match[1].toLowerCase();
    const fitting = [...this.commands.children].filter((item) => item.dataset.command.toLowerCase().includes(wanted));
    fitting.sort((a, b) => b.dataset.command.startsWith(wanted) - a.dataset.command.startsWith(wanted));
    this.offer(fitting.map((item) => item.cloneNode(true)));
  }

  // Returns the path after an @ before the cursor, and its start.
  path() {
    const before = this.prompt.value.slice(0, this.prompt.selectionStart);
    const match = /(?:^|\s)@(\S*)$/.exec(before);
    return match && { query: match[1], start: before.length - match[1].length };
  }

  async typedPath() {
    const path = this.path();
    if (!path) return this.close();
    const found = await this.findFiles(path.query);
    // The path may have changed while the request was running.
    if (this.path()?.query !== path.query) return;
    this.offer(
      found.map((name) => {
        const item = document.createElement("li");
        item.setAttribute("role", "option");
        item.dataset.path = name;
        item.textContent = name;
        return item;
      }),
    );
  }

  offer(items) {
    this.list.replaceChildren(...items);
    items.forEach((item, place) => (item.id = `completion-${place}`));
    this.list.hidden = items.length === 0;
    this.choose(items.length ? 0 : -1);
  }

  choose(place) {
    this.chosen = place;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", at === place));
    const item = this.list.children[place];
    item?.scrollIntoView({ block: "nearest" });
    if (item) this.prompt.setAttribute("aria-activedescendant", item.id);
    else this.prompt.removeAttribute("aria-activedescendant");
  }

  close() {
    this.list.hidden = true;
    this.choose(-1);
  }

  complete(item) {
    const { command, path } = item.dataset;
    if (path !== undefined) {
      const { start } = this.path() ?? { start: this.prompt.value.length };
      const end = this.prompt.selectionStart;
      this.prompt.setRangeText(`${path} `, start, end, "end");
      this.mentioned.add(path);
    } else this.prompt.value = `/${command} `;
    drafts.set(this.recording, this.prompt.value);
    this.weigh();
    this.close();
    this.prompt.focus();
  }

  key(event) {
    const count = this.list.hidden ? 0 : this.list.children.length;
    if (count && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      this.choose((this.chosen + (event.key === "ArrowDown" ? 1 : count - 1)) % count);
      event.preventDefault();
    } else if (count && event.key === "Escape") {
      this.close();
      event.preventDefault();
      event.stopPropagation();
    } else if (count && this.chosen >= 0 && (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey))) {
      const item = this.list.children[this.chosen];
      const isWhole = item.dataset.path === undefined && this.prompt.value === `/${item.dataset.command}`;
      if (event.key === "Tab" || !isWhole) {
        this.complete(item);
        event.preventDefault();
      } else {
        this.go();
        event.preventDefault();
      }
    } else if (event.key === "ArrowUp" && (this.past || this.prompt.value === "")) {
      this.remember(-1, event);
    } else if (event.key === "ArrowDown" && this.past) {
      this.remember(1, event);
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.go();
    }
  }

  // Steps through the last prompts, and at the end back to the unsent text. An edited prompt counts as a new one.
  remember(step, event) {
    const all = history.all();
    this.past ??= { place: all.length, shown: this.prompt.value };
    if (this.prompt.value !== this.past.shown) return;
    const place = this.past.place + step;
    if (place < 0 || place > all.length) return;
    event.preventDefault();
    this.prompt.value = all[place] ?? "";
    this.past = place === all.length ? null : { place, shown: this.prompt.value };
    this.grow();
    drafts.set(this.recording, this.prompt.value);
    this.prompt.setSelectionRange(this.prompt.value.length, this.prompt.value.length);
  }

  draggedOver(event) {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    // Shows in the cursor if the agent accepts no files.
    event.dataTransfer.dropEffect = this.form.hidden ? "none" : "copy";
    this.form.classList.toggle("is-target", Boolean(this.kinds));
    // No event reliably signals that the files left the page, but this one repeats while they are over it.
    clearTimeout(this.leaving);
    this.leaving = setTimeout(() => this.form.classList.remove("is-target"), 500);
  }

  dropped(event) {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    this.form.classList.remove("is-target");
    if (this.form.hidden) return;
    this.add([...event.dataTransfer.files]);
    this.prompt.focus();
  }

  async add(files, event) {
    if (files.length === 0) return;
    event?.preventDefault();
    if (!this.kinds) return this.fail("This agent takes no files.");
    for (const file of files) {
      if (file.size > 16 * 1024 * 1024) {
        this.fail(`${file.name} is larger than 16 MB.`);
        continue;
      }
      const address = await new Promise((done) => {
        const reader = new FileReader();
        reader.onload = () => done(reader.result);
        reader.onerror = () => done("");
        reader.readAsDataURL(file);
      });
      const data = address.slice(address.indexOf(",") + 1);
      if (address === "") this.fail(`${file.name} cannot be read.`);
      else this.files.push({ name: file.name, mime: file.type, data });
    }
    this.picker.value = "";
    this.showFiles();
  }

  showFiles() {
    this.attached.replaceChildren(
      ...this.files.map((file, place) => {
        const item = document.createElement("li");
        const remove = document.createElement("button");
        remove.type = "button";
        remove.append(iconOf("close"));
        remove.setAttribute("aria-label", `Remove ${file.name}`);
        remove.addEventListener("click", () => {
          this.files.splice(place, 1);
          this.showFiles();
        });
        item.append(file.name, " ", remove);
        return item;
      }),
    );
    this.weigh();
  }
}
