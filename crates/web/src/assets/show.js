// Small elements that appear: toasts, dialogs, announcements for screen readers.

export const at = (id) => document.getElementById(id);

// Returns an icon of the page's set.
export function iconOf(name) {
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  icon.setAttribute("class", "icon");
  icon.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  icon.append(use);
  return icon;
}

export function announce(words) {
  at("announcer").textContent = words;
}

export function toast(words) {
  const note = document.createElement("p");
  note.textContent = words;
  put(note);
  setTimeout(() => take(note), 8000);
}

// Shows a note above everything else, also above a dialog that was opened since the last one.
function put(note) {
  const box = at("toasts");
  box.append(note);
  if (box.matches(":popover-open")) box.hidePopover();
  box.showPopover();
}

function take(note) {
  note.remove();
  const box = at("toasts");
  if (box.childElementCount === 0 && box.matches(":popover-open")) box.hidePopover();
}

// Shows a message with the passed time after a moment, until the returned function is called, unless the start screen
// shows the progress.
export function progress(words) {
  const note = document.createElement("p");
  const since = document.createElement("span");
  since.dataset.since = Date.now();
  note.append(words, " ", since);
  const shown = setTimeout(() => at("hint").querySelector("[data-since]") || put(note), 300);
  return () => {
    clearTimeout(shown);
    take(note);
  };
}

export function dialog(html) {
  at("dialog-body").innerHTML = html;
  if (!at("dialog").open) at("dialog").showModal();
  at("dialog-body").querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
}

// Returns the focus to the prompt after a dialog. Its "close" event comes later than the keys that follow, so the user may have
// gone on to another field, and would type the rest there.
export function backToPrompt() {
  if (!document.activeElement?.closest("input, textarea, select")) at("prompt").focus();
}

export function isNarrow() {
  return window.innerWidth < 900;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    toast("The browser does not allow copying here.");
  }
}
