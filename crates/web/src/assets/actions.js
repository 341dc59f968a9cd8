// The actions of the page's buttons, by the value of their `data-action`.

import { INERT } from "./questions.js";
import { elementOf, keepOpen } from "./entry.js";
import { at, copy, dialog, isNarrow, toast } from "./show.js";

const KEYS = `<h2 id="dialog-title">Keyboard shortcuts</h2><dl class="keys">
  <dt><kbd>Ctrl K</kbd></dt><dd>Sessions, actions and agents</dd>
  <dt><kbd>Ctrl F</kbd></dt><dd>Find in the session</dd>
  <dt><kbd>1</kbd> … <kbd>9</kbd></dt><dd>Answer the focused question</dd>
  <dt><kbd>Alt 1</kbd> … <kbd>Alt 9</kbd></dt><dd>Answer the first question from anywhere</dd>
  <dt><kbd>Alt Q</kbd></dt><dd>Go to the next question, also of another session</dd>
  <dt><kbd>Escape</kbd></dt><dd>Stop the agent, or close what is open</dd>
  <dt><kbd>Alt N</kbd></dt><dd>New session</dd>
  <dt><kbd>Alt S</kbd></dt><dd>Search the sessions</dd>
  <dt><kbd>Alt I</kbd></dt><dd>Inspector</dd>
  <dt><kbd>Alt M</kbd></dt><dd>Next setting: mode, model and so on</dd>
  <dt><kbd>J</kbd> <kbd>K</kbd></dt><dd>Next and previous entry of the transcript</dd>
  <dt><kbd>Ctrl P</kbd></dt><dd>Print the whole session</dd>
  <dt><kbd>?</kbd></dt><dd>This list</dd></dl>`;

// `page` has the state of the page, its parts, and the functions that send requests to the server.
export function actionsOf(page) {
  const { attempt, listSessions, look, newSession, send, toggleSessions } = page;

  // Returns the session of an element: the selected session, or the sub-agent's session that contains the element.
  function sessionOf(element) {
    return element.closest("[data-position]")?.dataset.session ?? page.now.session;
  }

  // Returns the file of a button in the review, the revision that is shown, and the hunk unless it is for all of them.
  function hunkOf(button) {
    const { path, revision } = button.closest("[data-path]").dataset;
    const hunk = button.closest("[data-hunk]")?.dataset.hunk;
    return { path, revision, hunk: hunk === undefined ? null : Number(hunk) };
  }

  // Sends a decision of the review, and shows the changes as they are then. If it is refused, they may have changed.
  async function review(button, message, words) {
    const file = button.closest("[data-path]");
    const place = [...file.querySelectorAll("button")].indexOf(button);
    button.disabled = true;
    let html = await attempt(message);
    if (html !== undefined && words) toast(words);
    html ??= await attempt({ type: "changes" });
    const old = document.getElementById("review");
    if (html === undefined || !old) return (button.disabled = false);
    const made = elementOf(html);
    keepOpen(old, made);
    const top = at("dialog").scrollTop;
    old.replaceWith(made);
    at("dialog").scrollTop = top;
    // The focus stays where it was: on the action that has come to this place.
    const now = made.querySelector(`[data-path="${CSS.escape(file.dataset.path)}"]`);
    const buttons = [...(now?.querySelectorAll("button") ?? [])];
    (buttons[Math.min(place, buttons.length - 1)] ?? now?.querySelector("summary") ?? at("dialog").querySelector(".close")).focus({ preventScroll: true });
  }

  return {
    new: () => newSession(null),
    "start-with": ({ agent }, button) => {
      button.disabled = true;
      newSession(null, agent).then(() => (button.disabled = false));
    },
    run: ({ first }, button) => {
      const open = button.getAttribute("aria-expanded") !== "true";
      send({ type: "fold-run", session: sessionOf(button), position: Number(first), open });
    },
    pin: ({ pin }) => page.sidebar.pin(pin),
    keys: () => dialog(KEYS),
    find: () => page.find.toggle(),
    "find-step": ({ step }) => page.find.step(Number(step)),
    attach: () => attempt({ type: "attach" }),
    example: ({ text }) => page.composer.suggest(text),
    again: ({ said }, button) => {
      button.disabled = true;
      attempt({ type: "again", session: sessionOf(button), position: Number(said) }).then(() => (button.disabled = false));
    },
    "take-back": ({ prompt }) => attempt({ type: "take-back", prompt: Number(prompt) }),
    "edit-queued": async ({ prompt }) => {
      const said = await attempt({ type: "take-back", prompt: Number(prompt) });
      if (said) page.composer.giveBack(said);
    },
    notify: () => page.waitingFor.allow(),
    start: () => attempt({ type: "start" }).then(() => look(null, null)),
    login: async ({ method }, button) => {
      // The login may wait for the user to finish it elsewhere.
      button.disabled = true;
      const opened = await attempt({ type: "login", method });
      button.disabled = false;
      if (opened === null) at("prompt").focus();
      if (!opened) return;
      look(opened.recording, null);
      page.wantsPrompt = opened.recording;
    },
    look: ({ recording, session, row, position }) => {
      look(recording, session ?? null);
      if (position) page.transcript.goTo(Number(position));
      if (row) page.pendingEntry = Number(row);
      if (isNarrow()) toggleSessions(false);
      if (isNarrow()) at("scroller").focus({ preventScroll: true });
      else if (!row && !position) page.wantsPrompt = recording;
    },
    resume: async ({ session, folder, agent }) => {
      const opened = await attempt({ type: "resume", session, folder, agent });
      if (opened) look(opened.recording, null);
    },
    fork: async () => {
      const opened = await attempt({ type: "fork", session: page.now.session });
      if (!opened) return;
      look(opened.recording, null);
      page.wantsPrompt = opened.recording;
    },
    rename: ({ title }) => {
      dialog(`<h2 id="dialog-title">Rename the session</h2>
        <form id="rename"><label class="sr" for="new-title">Title</label><input id="new-title" type="text" required maxlength="500" autocomplete="off"> <button type="submit">Rename</button></form>`);
      at("new-title").value = title;
      at("new-title").select();
    },
    archive: async () => {
      if ((await attempt({ type: "archive", session: page.now.session, away: true })) === undefined) return;
      toast("The session is archived. It stays open here; the list of sessions has the archived ones.");
      listSessions();
    },
    unarchive: async ({ session }) => {
      if ((await attempt({ type: "archive", session, away: false })) !== undefined) listSessions();
    },
    notifications: async () => {
      const html = await attempt({ type: "notifications" });
      if (html !== undefined) dialog(`<h2 id="dialog-title">Notifications</h2>${html}`);
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
      page.inspector.open();
      page.inspector.showMessage(row);
    },
    rule: async ({ decision }, button) => {
      const question = button.closest("[data-question]");
      button.disabled = true;
      const { question: id, revision } = question.dataset;
      const html = await attempt({ type: "rule", id, revision, decision });
      button.disabled = false;
      if (html === undefined) return;
      dialog(html);
      // The button appears under the pointer, so it is disabled until the user had time to read.
      const save = at("dialog-body").querySelector("[data-action=save-rule]");
      setTimeout(() => (save.disabled = false), INERT);
    },
    "allow-host": async ({ host }, button) => {
      button.disabled = true;
      const words = await attempt({ type: "allow-host", host });
      button.disabled = words !== undefined;
      if (words !== undefined) toast(words);
    },
    "save-rule": async ({ id, revision, decision, rule }, button) => {
      button.disabled = true;
      const words = await attempt({ type: "save-rule", id, revision, decision, rule });
      at("dialog").close();
      if (words !== undefined) toast(words);
    },
    link: async () => {
      const made = await attempt({ type: "link" });
      if (made === undefined) return;
      dialog(`<h2 id="dialog-title">Open in another browser</h2>
        <p>This link lets one browser in, once and within a minute.</p>${made.picture}
        <p><code id="new-link"></code></p><p><button type="button" data-action="copy-link">Copy</button>
        <button type="button" data-action="short-code">Show a code to type</button></p><p id="short-code" role="status"></p>`);
      at("new-link").textContent = made.link;
    },
    "short-code": async () => {
      const code = await attempt({ type: "short-code" });
      if (code !== undefined) at("short-code").textContent = `Open the address of this page there, and type ${code} within two minutes.`;
    },
    "copy-link": () => copy(at("new-link").textContent),
    family: async () => {
      const html = await attempt({ type: "family" });
      if (html !== undefined) dialog(`<h2 id="dialog-title">Sub-agents</h2>${html}`);
    },
    changes: async () => {
      const html = await attempt({ type: "changes" });
      if (html !== undefined) dialog(`<h2 id="dialog-title">Review changes</h2>${html}`);
    },
    "undo-change": (_, button) =>
      review(button, { type: "undo-change", ...hunkOf(button) }, "Undone. The agent does not know it: tell it, if it matters for its work."),
    "restore-change": ({ change }, button) => review(button, { type: "restore-change", change: Number(change) }, "Restored."),
    "keep-change": ({ kept }, button) => review(button, { type: "keep-change", ...hunkOf(button), kept: kept === "true" }),
    "copy-patch": async () => {
      const patch = await attempt({ type: "patch" });
      if (patch !== undefined) copy(patch);
    },
    "open-editor": ({ file, line }, button) =>
      attempt({ type: "open-editor", session: sessionOf(button), path: file, line: line ? Number(line) : null }),
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
      listSessions();
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
      page.sidebar.arrange();
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
      const path = session ? `/r/${encodeURIComponent(page.now.recording)}/${encodeURIComponent(session)}` : location.pathname;
      copy(`${location.origin}${path}#e${position}`);
    },
    verdict: async () => {
      const html = await attempt({ type: "verdict" });
      if (html !== undefined) dialog(html);
    },
    nest: ({ session }, button) => {
      const open = button.getAttribute("aria-expanded") !== "true";
      page.folds.set(session, open);
      send({ type: "fold", session, open });
    },
    "cancel-session": ({ session }) => attempt({ type: "cancel", session }),
    "end-agent": () => attempt({ type: "end-agent" }),
    "cancel-turn": () => attempt({ type: "cancel", session: page.now.session }),
    cancel: ({ toolCall, terminal }, button) =>
      toolCall
        ? attempt({ type: "cancel-tool-call", session: sessionOf(button), id: toolCall })
        : attempt({ type: "cancel-terminal", session: sessionOf(button), id: terminal }),
    "reject-all": () => page.questions.rejectAll(),
    "edit-prompt": async (_, button) => {
      const position = Number(button.closest("[data-position]").dataset.position);
      const text = await attempt({ type: "copy", session: sessionOf(button), position });
      if (text === undefined) return;
      page.composer.edit(text, document.querySelector("#offers [data-action=fork]") !== null);
    },
    "cancel-edit": () => page.composer.endEdit(),
    questions: ({ skip }) => send({ type: "questions", skip: Number(skip) }),
    "find-output": ({ terminal }, button) => {
      const session = sessionOf(button);
      dialog(`<h2 id="dialog-title">Search the output</h2>
        <form id="find-output" role="search"><label class="sr" for="output-query">Text</label><input id="output-query" type="search" required maxlength="500" autocomplete="off"> <button type="submit">Search</button></form>
        <div id="output-found" role="status"></div>`);
      Object.assign(at("find-output").dataset, { terminal, session });
      at("output-query").focus();
    },
    follow: async ({ path, line }, button) => {
      const html = await attempt({ type: "file", session: sessionOf(button), path, line: line ? Number(line) : null });
      if (html !== undefined) dialog(html);
    },
    earlier: async ({ before }, button) => {
      const position = Number(button.closest("[data-position]")?.dataset.position);
      const pieces = await attempt({ type: "earlier", session: sessionOf(button), position, before: Number(before) });
      if (pieces) page.transcript.putEarlier(button, pieces);
    },
    copy: (_, button) => copy(button.closest("[data-part]")?.querySelector("pre")?.textContent ?? ""),
    now: () => {
      send({ type: "at", rows: null });
      page.inspector.now();
    },
  };
}
