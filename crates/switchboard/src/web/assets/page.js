// The page: talks to the server, puts what it sends into place, and sends what the user does.

import { Composer } from "./composer.js";
import { Held, drafts } from "./kept.js";
import { comeIn, isKnown, lock, socketProtocols } from "./door.js";
import { Waiting } from "./waiting.js";
import { Inspector } from "./inspector.js";
import { Press } from "./press.js";
import { INERT, Questions } from "./questions.js";
import { elementOf } from "./entry.js";
import { Transcript } from "./transcript.js";

const at = (id) => document.getElementById(id);
const isHub = document.body.hasAttribute("data-hub");
const waiting = new Map();
let socket = null;
let nextNumber = 1;
let retry = 250;
let where = place();
let now = { recording: "", session: "", live: false, rows: 0 };
let pendingRow = null; // the message that was asked for, until it is there
let pendingEntry = null; // the message whose entry was asked for
let isFirst = true; // nothing could be said yet
let isNew = true; // no frame has come yet
const wasLobby = location.pathname === "/"; // whether no session was asked for
let wantsPrompt = null; // the recording whose prompt gets the focus when something can be said in it
const folds = new Map(); // the sub-agents that the user has folded (false) or unfolded

// --- the server

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/in/socket`, socketProtocols());
  socket.addEventListener("open", () => {
    retry = 250;
    linkState("");
    send({ type: "look", recording: where.recording, session: where.session });
    for (const [session, open] of folds) send({ type: "fold", session, open });
    if (inspector.isOpen) inspector.ask();
  });
  socket.addEventListener("message", (event) => take(JSON.parse(event.data)));
  socket.addEventListener("close", async () => {
    for (const { fail } of waiting.values()) fail("The connection to Switchboard is gone.");
    waiting.clear();
    linkState("Connecting…");
    const known = await isKnown();
    if (known === false && isHub) return lock("It was let in before, and is not any more.");
    if (known === false) return linkState("Switchboard was started anew: open a link that it printed.");
    setTimeout(connect, retry);
    retry = Math.min(retry * 2, 5000);
  });
}

function linkState(words) {
  at("link-state").textContent = words;
  document.body.classList.toggle("is-apart", words !== "");
}

function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

// Asks for something; the promise fails with words for the user.
function ask(message) {
  return new Promise((done, fail) => {
    if (socket?.readyState !== WebSocket.OPEN) return fail("There is no connection to Switchboard.");
    const number = nextNumber++;
    waiting.set(number, { done, fail });
    send({ ...message, number });
  });
}

function take(message) {
  if (message.type === "frame") return press.afterwards(() => takeFrame(message));
  const request = waiting.get(message.number);
  waiting.delete(message.number);
  if (message.type === "answer") request?.done(message.value);
  else if (request) request.fail(message.reason);
  else toast(message.reason);
}

// --- frames

function takeFrame(frame) {
  show(frame);
  // The next frame comes when this one is on the screen; a tab in the background is not drawn at all.
  const shown = () => send({ type: "shown" });
  if (document.hidden) setTimeout(shown, 250);
  else requestAnimationFrame(shown);
}

function show(frame) {
  if (frame.fresh) {
    transcript.clear();
    inspector.clear();
  }
  moved(frame);
  now = frame;
  remember(frame);
  document.body.classList.toggle("is-live", frame.live);
  transcript.apply(frame);
  for (const [name, html] of Object.entries(frame.panels)) panel(name, html);
  at("hint").hidden = frame.length > 0 || at("hint").childElementCount + at("hint").textContent.length === 0;
  sendHeld(frame);
  at("then").hidden = frame.at === null;
  if (frame.at !== null) at("then-words").textContent = `The session as it stood after message ${frame.at} of ${frame.rows}.`;
  inspector.apply(frame);
  if (frame.live && (frame.recording === wantsPrompt || isFirst)) {
    // On a phone that would bring up the keyboard, over the transcript.
    if (wantsPrompt || (document.activeElement === document.body && !isNarrow())) at("prompt").focus();
    wantsPrompt = null;
    isFirst = false;
  }
  if (frame.fresh) followHash();
  if (pendingEntry !== null && frame.rows > pendingEntry) showEntryOf(pendingEntry);
  if (pendingRow !== null && frame.rows > pendingRow) {
    const row = pendingRow;
    pendingRow = null;
    inspector.open();
    inspector.showMessage(row);
  }
}

function panel(name, html) {
  switch (name) {
    case "takes":
      composer.takes = html;
      return;
    case "folder":
      document.body.dataset.folder = html;
      at("folder").value ||= html;
      return;
    case "activity":
      activity(html);
      return;
    case "speech":
      composer.speech = html;
      return;
    case "offers":
      at("menu").hidden = html === "";
      break;
    case "path":
      at("path").hidden = html === "";
      break;
    case "questions":
      questions.show(html);
      return;
    case "title":
      at("title").innerHTML = html;
      waitingFor.name(at("title").textContent);
      return;
    case "waiting":
      waitingFor.show(JSON.parse(html));
      return;
    case "role":
      document.body.dataset.role = html;
      return;
    case "hub-sessions":
      showSessions(html);
      return;
    case "agent-choice":
      chooseFrom(at(name), html);
      return;
    case "plans":
      at("plan-box").hidden = html === "";
      break;
  }
  const held = at(name).contains(document.activeElement) ? document.activeElement.dataset.config : undefined;
  at(name).innerHTML = html;
  if (held !== undefined) at(name).querySelector(`[data-config="${CSS.escape(held)}"]`)?.focus();
}

// The choice stays where it is while what there is to choose from changes.
function chooseFrom(select, html) {
  const chosen = select.value;
  select.innerHTML = html;
  if ([...select.options].some((it) => it.value === chosen)) select.value = chosen;
  select.hidden = select.options.length < 2 && !isHub;
  document.querySelector("label[for=agent-choice]").hidden = select.hidden;
}

let lastActivity = "";
function activity(word) {
  document.body.dataset.activity = word;
  at("cancel").disabled = word !== "running" && word !== "requires-action";
  // What it waits for is announced with the question.
  const words = { idle: "The agent is done.", gone: "The agent is gone." };
  if (lastActivity && word !== lastActivity && words[word]) announce(words[word]);
  lastActivity = word;
}

function announce(words) {
  at("announcer").textContent = words;
}

// Drafts and what is held belong to a session; what was written before the first one goes with it.
function moved(frame) {
  if (frame.recording === now.recording && !isNew) return;
  const isLobby = now.recording === "" && !isNew;
  const cameFromLobby = isLobby || (isNew && wasLobby);
  if (cameFromLobby && frame.recording !== "") held.rename("", frame.recording);
  composer.lookAt(frame.recording, isLobby);
  held.show(frame.recording);
  refusal("");
  isNew = false;
}

function sendHeld(frame) {
  if (!frame.live || frame.session === "") return;
  for (const { text, files, mentions } of held.take(frame.recording)) submit({ text, files, mentions });
}

// Why the last message was not taken, until something else is said.
function refusal(reason) {
  at("refusal").hidden = reason === "";
  if (reason === "") return at("refusal").replaceChildren();
  const words = document.createElement("p");
  words.textContent = reason;
  const again = document.createElement("button");
  again.type = "button";
  again.textContent = "Try again";
  again.addEventListener("click", () => composer.go());
  at("refusal").replaceChildren(words, again);
}

// --- where we are

function place() {
  const [, , recording, session] = location.pathname.split("/");
  return { recording: recording ? decodeURIComponent(recording) : null, session: session ? decodeURIComponent(session) : null };
}

function remember(frame) {
  if (!frame.recording) return;
  const session = frame.session ? `/${encodeURIComponent(frame.session)}` : "";
  const path = `/r/${encodeURIComponent(frame.recording)}${session}`;
  where = { recording: frame.recording, session: frame.session || null };
  if (location.pathname !== path) history.replaceState(null, "", path + location.hash);
}

function look(recording, session) {
  where = { recording, session };
  const path = recording ? `/r/${encodeURIComponent(recording)}${session ? `/${encodeURIComponent(session)}` : ""}` : "/";
  history.pushState(null, "", path);
  send({ type: "look", recording, session });
  transcript.goToEnd();
  if (inspector.isOpen) inspector.ask();
}

// Looks at a session of the recording that is looked at.
function lookAt(session) {
  if (session !== now.session) look(now.recording, session);
}

// Leads from what was found to the entry that it is in, or to the message where it is in none.
async function showEntryOf(row) {
  pendingEntry = null;
  const found = await attempt({ type: "entry-of", row });
  if (found) {
    lookAt(found.session);
    transcript.goTo(found.position);
  } else if (found === null) {
    inspector.open();
    inspector.showMessage(row);
  }
}

async function exportAs(form) {
  const format = form.get("format");
  const text = await attempt({ type: "export", format, redact: form.has("redact") });
  if (text === undefined) return;
  const [kind, ending] = format === "html" ? ["text/html", "html"] : ["text/markdown", "md"];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  const name = at("title").textContent.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60);
  link.download = `${name.replace(/^-|-$/g, "") || "session"}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  at("dialog").close();
}

// Links such as #e12 and #m340 lead to an entry and to a message.
function followHash() {
  const match = /^#([em])(\d{1,9})$/.exec(location.hash);
  if (!match) return;
  if (match[1] === "e") transcript.goTo(Number(match[2]));
  else if (now.rows > Number(match[2])) {
    inspector.open();
    inspector.showMessage(Number(match[2]));
  } else pendingRow = Number(match[2]);
}

function setHash(hash) {
  history.replaceState(null, "", location.pathname + hash);
}

// --- what the user does

async function attempt(message) {
  try {
    return await ask(message);
  } catch (reason) {
    toast(reason);
    return undefined;
  }
}

function toast(words) {
  const note = document.createElement("p");
  note.textContent = words;
  at("toasts").append(note);
  setTimeout(() => note.remove(), 8000);
}

function dialog(html) {
  at("dialog-body").innerHTML = html;
  if (!at("dialog").open) at("dialog").showModal();
  at("dialog-body").querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
}

// A list that is renewed keeps the focus where it was.
function showSessions(html) {
  const list = at("hub-sessions");
  const held = list.contains(document.activeElement) ? document.activeElement.dataset.recording : undefined;
  list.innerHTML = html;
  if (held) list.querySelector(`[data-recording="${CSS.escape(held)}"]`)?.focus();
}

// What a search finds takes the place of the lists.
async function listSessions() {
  const query = at("query").value;
  const isSearch = query.trim() !== "";
  const archived = document.getElementById("archived")?.checked ?? false;
  const html = await attempt({ type: "sessions", query, archived });
  if (html === undefined || at("query").value !== query) return;
  const hadFocus = document.activeElement?.id === "archived";
  at(isSearch ? "found" : "other-sessions").innerHTML = html;
  at("found").hidden = !isSearch;
  at("hub-sessions").hidden = at("other-sessions").hidden = isSearch;
  if (hadFocus) document.getElementById("archived")?.focus();
}

function toggleSessions(force) {
  const hide = force === undefined ? !at("sessions").hidden : !force;
  at("sessions").hidden = hide;
  at("drawer-back").hidden = hide;
  at("show-sessions").setAttribute("aria-expanded", String(!hide));
  if (!hide) {
    at("folder").value ||= document.body.dataset.folder ?? "";
    listSessions();
    // On a phone that would bring up the keyboard, over the list.
    if (!isNarrow()) at("query").focus();
  }
}

function isNarrow() {
  return window.innerWidth < 900;
}

async function newSession(folder) {
  const opened = await attempt({ type: "new", folder, agent: document.getElementById("agent-choice")?.value || null });
  if (opened) {
    if (isNarrow()) toggleSessions(false);
    look(opened.recording, null);
    wantsPrompt = opened.recording;
  }
}

const actions = {
  new: () => newSession(null),
  attach: () => attempt({ type: "attach" }),
  example: ({ text }) => composer.suggest(text),
  again: ({ said }, button) => {
    button.disabled = true;
    attempt({ type: "again", session: sessionOf(button), position: Number(said) }).then(() => (button.disabled = false));
  },
  "take-back": ({ prompt }) => attempt({ type: "take-back", prompt: Number(prompt) }),
  "edit-queued": async ({ prompt }) => {
    const said = await attempt({ type: "take-back", prompt: Number(prompt) });
    if (said) composer.giveBack(said);
  },
  notify: () => waitingFor.allow(),
  start: () => attempt({ type: "start" }).then(() => look(null, null)),
  login: async ({ method }, button) => {
    // It may take as long as somebody needs elsewhere.
    button.disabled = true;
    const opened = await attempt({ type: "login", method });
    button.disabled = false;
    if (opened === null) at("prompt").focus();
    if (!opened) return;
    look(opened.recording, null);
    wantsPrompt = opened.recording;
  },
  look: ({ recording, session, row }) => {
    look(recording, session ?? null);
    if (row) pendingEntry = Number(row);
    if (isNarrow()) toggleSessions(false);
    at("scroller").focus({ preventScroll: true });
  },
  resume: async ({ session, folder, agent }) => {
    const opened = await attempt({ type: "resume", session, folder, agent });
    if (opened) look(opened.recording, null);
  },
  fork: async () => {
    const opened = await attempt({ type: "fork", session: now.session });
    if (!opened) return;
    look(opened.recording, null);
    wantsPrompt = opened.recording;
  },
  rename: ({ title }) => {
    dialog(`<h2 id="dialog-title">Rename the session</h2>
      <form id="rename"><label class="sr" for="new-title">Title</label><input id="new-title" type="text" required maxlength="500" autocomplete="off"> <button type="submit">Rename</button></form>`);
    at("new-title").value = title;
    at("new-title").select();
  },
  archive: async () => {
    if ((await attempt({ type: "archive", session: now.session, away: true })) === undefined) return;
    toast("The session is in the archive. It stays open here; Sessions lists what is archived.");
    if (!at("sessions").hidden) listSessions();
  },
  unarchive: async ({ session }) => {
    if ((await attempt({ type: "archive", session, away: false })) !== undefined) listSessions();
  },
  choices: async () => {
    const html = await attempt({ type: "choices" });
    if (html !== undefined) dialog(`<h2 id="dialog-title">Choices for always</h2>${html}`);
  },
  withdraw: async ({ place, since: when }) => {
    const html = await attempt({ type: "withdraw", place: Number(place), since: Number(when) });
    if (html !== undefined) dialog(`<h2 id="dialog-title">Choices for always</h2>${html}`);
  },
  "question-message": async ({ request }) => {
    const row = await attempt({ type: "question-message", id: request });
    if (row === undefined) return;
    inspector.open();
    inspector.showMessage(row);
  },
  rule: async ({ decision }, button) => {
    const question = button.closest("[data-question]");
    button.disabled = true;
    const { question: id, revision } = question.dataset;
    const html = await attempt({ type: "rule", id, revision, decision });
    button.disabled = false;
    if (html === undefined) return;
    dialog(html);
    // What is new under the pointer is to be read first.
    const save = at("dialog-body").querySelector("[data-action=save-rule]");
    setTimeout(() => (save.disabled = false), INERT);
  },
  "save-rule": async ({ id, revision, decision, rule }, button) => {
    button.disabled = true;
    const words = await attempt({ type: "save-rule", id, revision, decision, rule });
    at("dialog").close();
    if (words !== undefined) toast(words);
  },
  link: async () => {
    const link = await attempt({ type: "link" });
    if (link === undefined) return;
    dialog(`<h2 id="dialog-title">Open in another browser</h2>
      <p>This link lets one browser of this machine in, once and within a minute.</p>
      <p><code id="new-link"></code></p><p><button type="button" data-action="copy-link">Copy</button></p>`);
    at("new-link").textContent = link;
  },
  "copy-link": () => copy(at("new-link").textContent),
  family: async () => {
    const html = await attempt({ type: "family" });
    if (html !== undefined) dialog(`<h2 id="dialog-title">Sub-agents</h2>${html}`);
  },
  changes: async () => {
    const html = await attempt({ type: "changes" });
    if (html !== undefined) dialog(`<h2 id="dialog-title">Changed files</h2>${html}`);
  },
  pictures: async () => {
    const html = await attempt({ type: "pictures" });
    if (html !== undefined) dialog(`<h2 id="dialog-title">Time line and cost</h2>${html}`);
  },
  export: () =>
    dialog(`<h2 id="dialog-title">Export the session</h2>
      <form id="export">
        <p><label><input type="radio" name="format" value="html" checked> One HTML file, which can be read without Switchboard</label></p>
        <p><label><input type="radio" name="format" value="markdown"> Markdown</label></p>
        <p><label><input type="checkbox" name="redact"> Without secrets: keys, tokens, and what the agent has withdrawn. Look through it before you hand it out.</label></p>
        <p><button type="submit">Export</button></p>
      </form>`),
  print: async () => {
    const html = await attempt({ type: "export", format: "print" });
    if (html === undefined) return;
    at("print").innerHTML = html;
    at("print").querySelectorAll("details").forEach((it) => (it.open = true));
    window.print();
  },
  delete: ({ recording, title }) => {
    dialog(`<h2 id="dialog-title">Delete this session?</h2><p id="deleted"></p>
      <p>Its recording goes with it, and cannot be brought back.</p>
      <p><button type="button" data-action="delete-now">Delete</button></p>`);
    at("deleted").textContent = title;
    at("dialog-body").querySelector("[data-action=delete-now]").dataset.recording = recording;
  },
  "delete-now": async ({ recording }) => {
    if ((await attempt({ type: "delete", recording })) === undefined) return;
    at("dialog").close();
    look(null, null);
    if (!at("sessions").hidden) listSessions();
  },
  "more-sessions": async ({ skip }, button) => {
    button.disabled = true;
    const html = await attempt({ type: "sessions", query: "", skip: Number(skip) });
    if (html === undefined) return (button.disabled = false);
    const made = document.createElement("template");
    made.innerHTML = html;
    const first = made.content.querySelector("button");
    const hadFocus = document.activeElement === button;
    button.replaceWith(made.content);
    if (hadFocus) first?.focus();
  },
  enlarge: (_, button) => {
    dialog(`<h2 id="dialog-title">Image</h2><div id="large"></div>`);
    at("large").append(button.querySelector("img").cloneNode());
  },
  "copy-entry": async (_, button) => {
    const position = Number(button.closest("[data-position]").dataset.position);
    const text = await attempt({ type: "copy", session: sessionOf(button), position });
    if (text !== undefined) copy(text);
  },
  "link-entry": (_, button) => {
    const { position, session } = button.closest("[data-position]").dataset;
    const path = session ? `/r/${encodeURIComponent(now.recording)}/${encodeURIComponent(session)}` : location.pathname;
    copy(`${location.origin}${path}#e${position}`);
  },
  verdict: async () => {
    const html = await attempt({ type: "verdict" });
    if (html !== undefined) dialog(html);
  },
  nest: ({ session }, button) => {
    const open = button.getAttribute("aria-expanded") !== "true";
    folds.set(session, open);
    send({ type: "fold", session, open });
  },
  "cancel-session": ({ session }) => attempt({ type: "cancel", session }),
  "cancel-turn": () => attempt({ type: "cancel", session: now.session }),
  cancel: ({ toolCall, terminal }, button) =>
    toolCall
      ? attempt({ type: "cancel-tool-call", session: sessionOf(button), id: toolCall })
      : attempt({ type: "cancel-terminal", session: sessionOf(button), id: terminal }),
  follow: async ({ path, line }, button) => {
    const html = await attempt({ type: "file", session: sessionOf(button), path, line: line ? Number(line) : null });
    if (html !== undefined) dialog(html);
  },
  earlier: async ({ before }, button) => {
    const position = Number(button.closest("[data-position]")?.dataset.position);
    const pieces = await attempt({ type: "earlier", session: sessionOf(button), position, before: Number(before) });
    if (pieces) transcript.putEarlier(button, pieces);
  },
  copy: (_, button) => copy(button.closest("[data-part]")?.querySelector("pre")?.textContent ?? ""),
  now: () => {
    send({ type: "at", rows: null });
    inspector.now();
  },
};

// The session that something in the page belongs to: that which is looked at, or a sub-agent inside it.
function sessionOf(element) {
  return element.closest("[data-position]")?.dataset.session ?? now.session;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    toast("The browser does not allow copying here.");
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-action=look]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey) {
    event.preventDefault();
    at("dialog").close();
    actions.look(link.dataset);
    return;
  }
  // What a violation or a changed file leads to is behind the dialog.
  if (event.target.closest("#dialog a[href^='#']")) at("dialog").close();
  const button = event.target.closest("button");
  // The menu closes with what is chosen from it, and with a click elsewhere.
  if (!event.target.closest("#menu > summary")) at("menu").open = false;
  if (!button) return;
  if (button.dataset.action && actions[button.dataset.action]) {
    actions[button.dataset.action](button.dataset, button);
  } else if (button.dataset.option !== undefined) {
    const question = button.closest("[data-question]");
    if (question) questions.choose(question, button.dataset.option);
  } else if (button.dataset.answer) {
    event.preventDefault();
    questions.give(button.closest("form"), button.dataset.answer);
  }
});

document.addEventListener("submit", (event) => {
  if (event.target.id === "search" || event.target.id === "filters") event.preventDefault();
  if (event.target.id === "rename") {
    event.preventDefault();
    const title = at("new-title").value;
    attempt({ type: "rename", session: now.session, title }).then((done) => done !== undefined && at("dialog").close());
  }
  if (event.target.id === "export") {
    event.preventDefault();
    exportAs(new FormData(event.target));
  }
  if (event.target.id === "new-session") {
    event.preventDefault();
    newSession(at("folder").value);
  }
  if (event.target.dataset.elicitation) {
    event.preventDefault();
    questions.give(event.target, "accept");
  }
});

document.addEventListener("change", (event) => {
  if (event.target.id === "archived") listSessions();
  const control = event.target.closest("[data-config]");
  if (!control) return;
  const value = control.type === "checkbox" ? control.checked : control.value;
  attempt({ type: "configure", session: now.session, id: control.dataset.config, value });
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && at("menu").open) {
    at("menu").open = false;
    at("menu").querySelector("summary").focus();
    return;
  }
  if (event.key === "Escape" && !at("dialog").open) {
    const { activity } = document.body.dataset;
    const isBusy = activity === "running" || activity === "requires-action";
    if (isBusy && !event.defaultPrevented) actions["cancel-turn"]();
    return;
  }
  // A browser would print what is in sight.
  if (event.code === "KeyP" && (event.ctrlKey || event.metaKey) && !event.altKey && now.recording) {
    event.preventDefault();
    actions.print();
    return;
  }
  if (!event.altKey || event.ctrlKey || event.metaKey) return;
  const digit = /^Digit([1-9])$/.exec(event.code);
  if (digit) {
    const here = document.activeElement.closest("[data-question]");
    const question = here ?? at("questions").querySelector("[data-question]");
    const button = question?.querySelectorAll("[data-option]")[Number(digit[1]) - 1];
    if (button) questions.choose(question, button.dataset.option);
  } else if (event.code === "KeyS") toggleSessions();
  else if (event.code === "KeyI") inspector.toggle();
  else if (event.code === "KeyN") actions.new();
  else if (event.code === "KeyM") nextOption();
  else return;
  event.preventDefault();
});

// Modes, models and the like, one after the other, and then back to the prompt.
function nextOption() {
  const all = [...at("config").querySelectorAll("[data-config]")];
  (all[all.indexOf(document.activeElement) + 1] ?? at("prompt")).focus();
}

let typing = 0;
at("query").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(listSessions, 200);
});
setInterval(() => {
  for (const it of document.querySelectorAll("[data-since]")) {
    it.textContent = `${Math.max(0, Math.round((Date.now() - Number(it.dataset.since)) / 1000))} s`;
  }
}, 1000);
at("show-sessions").addEventListener("click", () => toggleSessions());
at("drawer-back").addEventListener("click", () => toggleSessions(false));
window.addEventListener("popstate", () => {
  const to = place();
  if (to.recording !== where.recording || to.session !== where.session) {
    where = to;
    send({ type: "look", ...to });
  }
  followHash();
});
window.addEventListener("hashchange", followHash);

const press = new Press();
const waitingFor = new Waiting((recording) => look(recording, null));
const questions = new Questions({ ask, toast, announce });
const transcript = new Transcript(at("scroller"), send);
const composer = new Composer(
  (said) => {
    refusal("");
    transcript.goToEnd();
    if (now.live && now.session !== "") submit(said);
    else if (composer.waits) {
      held.add(now.recording, said);
      // Before the first session is there, it is being opened already.
      if (now.recording) attempt({ type: "attach" });
    } else {
      toast("Nothing can be sent now.");
      return false;
    }
    return true;
  },
  toast,
  (query) => ask({ type: "files", query }).catch(() => []),
);
const held = new Held(at("held"), (said) => composer.giveBack(said));

function submit(said) {
  const { steers } = composer;
  ask({ type: steers ? "steer" : "prompt", session: now.session, ...said }).then(
    // Not all agents repeat it in the transcript.
    () => steers && toast("The turn at work has your message."),
    (reason) => {
      refusal(reason);
      composer.giveBack(said);
    },
  );
}

const inspector = new Inspector({ send, ask, attempt, transcript, setHash, copy, elementOf, look, lookAt });
if (await comeIn()) {
  connect();
  followHash();
  if (isHub && !isNarrow()) toggleSessions(true);
}
