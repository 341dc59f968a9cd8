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
  at("toasts").append(note);
  setTimeout(() => note.remove(), 8000);
}

export function dialog(html) {
  at("dialog-body").innerHTML = html;
  if (!at("dialog").open) at("dialog").showModal();
  at("dialog-body").querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
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
