// The page: connects to the server, applies its frames, and sends the user's actions.

import { Composer } from "./composer.js";
import { Held } from "./kept.js";
import { actionsOf } from "./actions.js";
import { comeIn } from "./door.js";
import { Waiting } from "./waiting.js";
import { Inspector } from "./inspector.js";
import { Presence } from "./presence.js";
import { Press } from "./press.js";
import { Questions } from "./questions.js";
import { Find } from "./find.js";
import { Palette } from "./palette.js";
import { Server } from "./server.js";
import { Sidebar } from "./sidebar.js";
import { announce, at, backToPrompt, copy, isNarrow, progress, toast } from "./show.js";
import { elementOf } from "./entry.js";
import { Transcript } from "./transcript.js";

const isHub = document.body.hasAttribute("data-hub");
let where = place();
let now = { recording: "", session: "", live: false, rows: 0 };
let pendingRow = null; // the requested message, until it is loaded
let pendingEntry = null; // the message whose entry was requested
let isFirst = true; // no message could be sent yet
let isNew = true; // no frame has arrived yet
const wasLobby = location.pathname === "/"; // true if the address names no session
let wantsPrompt = null; // the recording whose prompt gets the focus once messages can be sent in it
const folds = new Map(); // the sub-agents that the user has folded (false) or unfolded

// --- the server

const server = new Server({
  opened: () => {
    send({ type: "look", recording: where.recording, session: where.session });
    for (const [session, open] of folds) send({ type: "fold", session, open });
    if (inspector.isOpen) inspector.ask();
    presence.report();
  },
  frame: (frame) => press.afterwards(() => takeFrame(frame)),
});

const presence = new Presence((looking) => send({ type: "looking", looking }));

function send(message) {
  server.send(message);
}

function ask(message) {
  return server.ask(message);
}

// --- frames

function takeFrame(frame) {
  show(frame);
  // The acknowledgement goes out once the frame is drawn, and the server sends the next one after it. A tab in the
  // background is not drawn at all, so there a timer replaces the drawing.
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
    // On a phone the focus would open the keyboard over the transcript.
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
      document.querySelector(".bar [data-action=changes]").hidden = html === "";
      at("show-find").hidden = html === "";
      break;
    case "hint":
      at("hint").innerHTML = html;
      sidebar.tell();
      return;
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
    case "history":
      showHistory(html);
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
  // The other settings stay open while one of them changes.
  const isOpen = at(name).querySelector(":scope > .menu")?.open;
  at(name).innerHTML = html;
  if (isOpen && at(name).querySelector(":scope > .menu")) at(name).querySelector(":scope > .menu").open = true;
  if (held !== undefined) at(name).querySelector(`[data-config="${CSS.escape(held)}"]`)?.focus();
}

// Replaces the options of a select element and keeps the selected one.
function chooseFrom(select, html) {
  const chosen = select.value;
  select.innerHTML = html;
  if ([...select.options].some((it) => it.value === chosen)) select.value = chosen;
  select.hidden = select.options.length < 2 && !isHub;
  document.querySelector("label[for=agent-choice]").hidden = select.hidden;
}

// Shows the end of the session that this one is a copy of.
let historyOf = "";
async function showHistory(original) {
  historyOf = original;
  at("history").replaceChildren();
  at("history").hidden = true;
  if (original === "") return;
  const html = await ask({ type: "history" }).catch(() => null);
  if (!html || historyOf !== original) return;
  at("history").innerHTML = html;
  at("history").hidden = false;
  transcript.settle();
}

let lastActivity = "";
function activity(word) {
  document.body.dataset.activity = word;
  const isBusy = word === "running" || word === "requires-action";
  at("cancel").disabled = !isBusy;
  composer.isBusy = isBusy;
  // A question is announced by itself, so only the other changes of activity are announced here.
  const words = { idle: "The agent is done.", gone: "The agent is gone." };
  if (lastActivity && word !== lastActivity && words[word]) announce(words[word]);
  lastActivity = word;
}

// Drafts and held messages belong to a session. Those from before the first session move to it.
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

// Shows why the last message was rejected, until the next one is sent.
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

// --- navigation

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

// Selects a session of the current recording.
function lookAt(session) {
  if (session !== now.session) look(now.recording, session);
}

// Shows the entry that a found message belongs to, or the message if it belongs to none.
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
  // The title may contain secrets that are redacted in the file.
  const title = form.has("redact") ? "" : at("title").textContent;
  const name = title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60);
  link.download = `${name.replace(/^-|-$/g, "") || "session"}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  at("dialog").close();
}

// Fragments such as #e12 and #m340 select an entry and a message.
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

// --- actions of the user

async function attempt(message) {
  try {
    return await ask(message);
  } catch (reason) {
    toast(reason);
    return undefined;
  }
}

// Replaces the list and keeps the focus on the same session.
function showSessions(html) {
  const list = at("hub-sessions");
  const held = list.contains(document.activeElement) ? document.activeElement.dataset.recording : undefined;
  list.innerHTML = html;
  sidebar.arrange();
  if (held) list.querySelector(`[data-recording="${CSS.escape(held)}"]`)?.focus();
}

let showsArchived = false; // true while the group of archived sessions is unfolded
let listings = 0; // requests for the lists

// The results of a search replace the lists.
async function listSessions() {
  const query = at("query").value;
  const isSearch = query.trim() !== "";
  const listing = ++listings;
  const html = await attempt({ type: "sessions", query });
  if (html === undefined || at("query").value !== query) return;
  // The answer to an earlier request is out of date.
  if (listing !== listings) return;
  const hadFocus = document.activeElement?.parentElement?.id === "archived";
  at(isSearch ? "found" : "other-sessions").innerHTML = html;
  at("found").hidden = !isSearch;
  at("hub-sessions").hidden = at("other-sessions").hidden = isSearch;
  sidebar.arrange();
  const group = document.getElementById("archived");
  if (group) group.open = showsArchived;
  if (hadFocus) group?.querySelector("summary").focus();
}

// The archived sessions are requested when their group is unfolded.
document.addEventListener("toggle", async (event) => {
  if (event.target.id !== "archived") return;
  showsArchived = event.target.open;
  if (!showsArchived) return;
  const html = await attempt({ type: "sessions", archived: true });
  const list = document.getElementById("archived-list");
  if (html !== undefined && list) list.innerHTML = html;
}, { capture: true });

// Opens or closes the drawer of a narrow window. In a wide one the list is always there, and gets the focus.
function toggleSessions(force) {
  const open = force ?? !at("sessions").classList.contains("is-open");
  // In a narrow window there is room for one of them.
  if (open && isNarrow() && inspector.isOpen) inspector.toggle();
  at("sessions").classList.toggle("is-open", open);
  at("drawer-back").hidden = !open;
  at("show-sessions").setAttribute("aria-expanded", String(open));
  if (open) listSessions();
  // On a phone the focus would open the keyboard over the list.
  if (open && !isNarrow()) at("query").focus();
  if (!open && isNarrow() && at("sessions").contains(document.activeElement)) at("show-sessions").focus();
}

async function newSession(folder, agent) {
  const choice = document.getElementById("agent-choice");
  const chosen = agent ?? choice?.value;
  const title = [...(choice?.options ?? [])].find((it) => it.value === chosen)?.text ?? "the agent";
  const done = progress(`Starting ${title}…`);
  const opened = await attempt({ type: "new", folder, agent: chosen || null });
  done();
  if (opened) {
    at("new-box").open = false;
    if (isNarrow()) toggleSessions(false);
    look(opened.recording, null);
    wantsPrompt = opened.recording;
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
  // The target of the link is under the dialog.
  if (event.target.closest("#dialog a[href^='#']")) at("dialog").close();
  const button = event.target.closest("button");
  // A menu closes after a choice, and after a click elsewhere.
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    const isInside = menu.contains(event.target) && event.target.closest("summary, select, label");
    if (!isInside) menu.open = false;
  }
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
  if (event.target.id === "find-output") {
    event.preventDefault();
    const { session, terminal } = event.target.dataset;
    attempt({ type: "find-output", session, terminal, query: at("output-query").value }).then((html) => {
      if (html !== undefined) at("output-found").innerHTML = html;
    });
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
  const control = event.target.closest("[data-config]");
  if (!control) return;
  const value = control.type === "checkbox" ? control.checked : control.value;
  attempt({ type: "configure", session: now.session, id: control.dataset.config, value });
});

document.addEventListener("keydown", (event) => {
  const menu = document.querySelector("details.menu[open]");
  if (event.key === "Escape" && menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
    return;
  }
  if (event.key === "Escape" && isNarrow() && at("sessions").classList.contains("is-open")) return toggleSessions(false);
  if (event.key === "Escape" && !at("dialog").open && !at("palette").open) {
    const { activity } = document.body.dataset;
    const isBusy = activity === "running" || activity === "requires-action";
    if (composer.editing && event.target === at("prompt")) composer.endEdit();
    else if (isBusy && !event.defaultPrevented) actions["cancel-turn"]();
    return;
  }
  // A browser would print only the visible entries.
  if (event.code === "KeyP" && (event.ctrlKey || event.metaKey) && !event.altKey && now.recording) {
    event.preventDefault();
    actions.print();
    return;
  }
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
    if (event.code === "KeyK") palette.open();
    else if (event.code === "KeyF" && now.recording) find.toggle(true);
    else return;
    event.preventDefault();
    return;
  }
  const isWriting = event.target.closest?.("input, textarea, select");
  if (event.key === "?" && !isWriting && !event.ctrlKey && !event.metaKey) return actions.keys();
  const digit = /^Digit([1-9])$/.exec(event.code);
  const isPlainDigit = digit && !isWriting && !event.altKey && !event.ctrlKey && !event.metaKey && event.target.closest?.("[data-question]");
  if (!isPlainDigit && (!event.altKey || event.ctrlKey || event.metaKey)) return;
  if (digit) {
    const here = document.activeElement.closest("[data-question]");
    const question = here ?? at("questions").querySelector("[data-question]");
    const button = question?.querySelectorAll("[data-option]")[Number(digit[1]) - 1];
    if (button) questions.choose(question, button.dataset.option);
  } else if (event.code === "KeyQ") nextQuestion();
  else if (event.code === "KeyS") toggleSessions(isNarrow() ? undefined : true);
  else if (event.code === "KeyI") {
    if (isNarrow()) toggleSessions(false);
    inspector.toggle();
  }
  else if (event.code === "KeyN") actions.new();
  else if (event.code === "KeyM") nextOption();
  else return;
  event.preventDefault();
});

// Goes to the first question here, or to the first session with one.
function nextQuestion() {
  const here = at("questions").querySelector("[data-option]:not(:disabled), [data-question] input, [data-answer]");
  if (here && !here.closest("[data-question]").contains(document.activeElement)) here.focus();
  else if (waitingFor.first) look(waitingFor.first.recording, null);
}

// Returns the entries of the palette.
function commands() {
  const sessions = [...document.querySelectorAll("#hub-sessions [data-action=look], #other-sessions [data-action=look]")].map((it) => ({
    name: it.querySelector(".name")?.textContent ?? "",
    about: it.querySelector(".meta")?.innerText ?? "",
    run: () => actions.look(it.dataset),
  }));
  const buttons = [...document.querySelectorAll("#offers button, #settings button:not([hidden])")].map((it) => ({
    name: it.textContent,
    about: "action",
    run: () => actions[it.dataset.action](it.dataset, it),
  }));
  const own = [
    { name: "New session", about: "Alt N", run: () => actions.new() },
    { name: "Find in the session", about: "Ctrl F", run: () => find.toggle(true) },
    { name: "Inspector", about: "Alt I", run: () => inspector.toggle() },
    { name: "Next question", about: "Alt Q", run: nextQuestion },
  ];
  const agents = [...at("agent-choice").options].map((it) => ({
    name: `New session with ${it.text}`,
    about: "agent",
    run: () => newSession(null, it.value),
  }));
  return [...own, ...sessions, ...agents, ...buttons];
}

// Moves the focus through modes, models and other options, and then back to the prompt.
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
// A swipe to the left closes the drawer.
let swipe = null;
at("sessions").addEventListener("touchstart", (event) => (swipe = event.touches[0].clientX), { passive: true });
at("sessions").addEventListener("touchend", (event) => {
  if (swipe !== null && swipe - event.changedTouches[0].clientX > 60) toggleSessions(false);
  swipe = null;
}, { passive: true });
// After a dialog the user can go on writing.
at("dialog").addEventListener("close", () => !isNarrow() && !at("composer").hidden && backToPrompt());
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
const sidebar = new Sidebar();
const page = {
  attempt,
  folds,
  listSessions,
  look,
  newSession,
  send,
  toggleSessions,
  get now() {
    return now;
  },
  set wantsPrompt(recording) {
    wantsPrompt = recording;
  },
  set pendingEntry(row) {
    pendingEntry = row;
  },
};
const waitingFor = new Waiting((recording) => look(recording, null));
const questions = new Questions({ ask, toast, announce });
const transcript = new Transcript(at("scroller"), send);
const composer = new Composer(
  (said) => {
    refusal("");
    transcript.goToEnd();
    if (composer.editing?.forks && now.live) sendInCopy(said);
    else if (now.live && now.session !== "") submit(said);
    else if (composer.waits || now.live) {
      held.add(now.recording, said);
      if (composer.starts && !now.recording) newSession(null, document.getElementById("start-agent")?.value);
      // Before the first session, one is being opened already. For an existing one the log may not be read far
      // enough.
      if (now.recording && !now.live) attempt({ type: "attach" });
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

// Sends an edited prompt in a copy of the session, as soon as the copy is open.
async function sendInCopy(said) {
  const opened = await attempt({ type: "fork", session: now.session });
  if (!opened) return composer.giveBack(said);
  held.add(opened.recording, said);
  look(opened.recording, null);
  wantsPrompt = opened.recording;
}

function submit(said) {
  const { steers } = composer;
  ask({ type: steers ? "steer" : "prompt", session: now.session, ...said }).then(
    // Not all agents repeat the message in the transcript.
    () => steers && toast("The turn at work has your message."),
    (reason) => {
      refusal(reason);
      composer.giveBack(said);
    },
  );
}

const inspector = new Inspector({ send, ask, attempt, transcript, setHash, copy, elementOf, look, lookAt });
const find = new Find(attempt, transcript);
const palette = new Palette(commands);
Object.assign(page, { composer, find, inspector, questions, sidebar, transcript, waitingFor });
const actions = actionsOf(page);
if (await comeIn()) {
  server.connect();
  followHash();
  listSessions();
}
