// Texts of the user, kept in the browser's storage so that they survive a reload: drafts, the last prompts, and
// messages that wait for a session.

const DRAFTS = "switchboard-drafts";
const HISTORY = "switchboard-history";
const HELD = "switchboard-held";
const MOST_DRAFTS = 50;
const MOST_PROMPTS = 100;
const LARGEST = 100_000; // characters; longer texts are not kept

function read(store, key, otherwise) {
  try {
    return JSON.parse(store.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(store, key, value) {
  try {
    store.setItem(key, JSON.stringify(value));
  } catch {
    // The storage is full or not allowed, so the value lasts as long as the page.
  }
}

// Drafts by recording. The empty key is for the time before there is a session.
export const drafts = {
  get: (recording) => read(localStorage, DRAFTS, {})[recording] ?? "",
  set(recording, text) {
    const { [recording]: _, ...others } = read(localStorage, DRAFTS, {});
    // The newest draft is last; the oldest ones are dropped.
    const all = Object.entries(others).slice(1 - MOST_DRAFTS);
    if (text !== "" && text.length <= LARGEST) all.push([recording, text]);
    write(localStorage, DRAFTS, Object.fromEntries(all));
  },
};

// The last prompts, the newest last.
export const history = {
  all: () => read(localStorage, HISTORY, []),
  add(text) {
    if (text.trim() === "" || text.length > LARGEST) return;
    const others = history.all().filter((it) => it !== text);
    write(localStorage, HISTORY, [...others, text].slice(-MOST_PROMPTS));
  },
};

// Messages of this tab that wait for a session, by recording. The empty key is for the time before there is one.
export class Held {
  constructor(box, giveBack) {
    this.box = box;
    this.giveBack = giveBack;
    this.items = read(sessionStorage, HELD, []);
  }

  add(recording, said) {
    this.items.push({ recording, ...said });
    this.changed(recording);
  }

  // Removes and returns the messages for a recording.
  take(recording) {
    const taken = this.items.filter((it) => it.recording === recording);
    this.items = this.items.filter((it) => it.recording !== recording);
    if (taken.length) this.changed(recording);
    return taken;
  }

  // Moves messages to the id of the session that has been opened.
  rename(from, to) {
    if (from === to || !this.items.some((it) => it.recording === from)) return;
    for (const item of this.items) if (item.recording === from) item.recording = to;
    this.changed(to);
  }

  changed(recording) {
    // Files may exceed the storage's quota, so they are left out.
    write(sessionStorage, HELD, this.items.map(({ files, ...rest }) => ({ ...rest, files: [] })));
    this.show(recording);
  }

  show(recording) {
    const here = this.items.filter((it) => it.recording === recording);
    const note = document.createElement("p");
    note.className = "meta";
    note.textContent = "Goes out when the session is there:";
    this.box.replaceChildren(
      ...(here.length ? [note] : []),
      ...here.map((item) => {
        const element = document.createElement("div");
        element.className = "queued";
        const words = document.createElement("p");
        words.textContent = item.text;
        const actions = document.createElement("span");
        actions.className = "actions";
        for (const [name, comesBack] of [["Edit", true], ["Take back", false]]) {
          const button = document.createElement("button");
          button.type = "button";
          button.textContent = name;
          button.addEventListener("click", () => {
            this.items.splice(this.items.indexOf(item), 1);
            this.changed(recording);
            if (comesBack) this.giveBack(item);
          });
          actions.append(button);
        }
        element.append(words, actions);
        return element;
      }),
    );
  }
}
