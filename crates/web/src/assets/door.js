// Signs this browser in, or shows why it cannot.
//
// The credential has two halves. One is a cookie, which other servers on this machine may receive. The other is in
// local storage, which only pages of this origin can read. Every request carries both.

const at = (id) => document.getElementById(id);
const KEPT = "switchboard-key";
let inMemory = null;

function kept() {
  try {
    return localStorage.getItem(KEPT) ?? inMemory;
  } catch {
    return inMemory;
  }
}

function keep(key) {
  inMemory = key;
  try {
    localStorage.setItem(KEPT, key);
  } catch {
    // Without storage the key is valid for this tab until it is reloaded.
  }
}

// Returns the WebSocket subprotocols: the protocol's name, and the page's half of the key.
export function socketProtocols() {
  return ["switchboard", `key-${kept() ?? "none"}`];
}

// Returns the header with the page's half of the key.
export function keyHeader() {
  return { "x-switchboard-key": kept() ?? "none" };
}

// Resolves to `true`, `false`, or `undefined` if the server cannot be reached.
export async function isKnown() {
  const key = kept();
  if (!key) return false;
  const answer = await fetch("/in/known", { headers: { "x-switchboard-key": key } }).catch(() => null);
  return answer ? answer.ok : undefined;
}

// Signs in by the code in the address, which is removed from the address at once. Without effect if this browser is
// signed in.
export async function comeIn() {
  const code = /^#code=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", location.pathname);
  const known = await isKnown();
  if (known !== false) return true;
  if (!code) {
    lock(document.body.hasAttribute("data-hub") ? "Enter your token." : "It has no key of this launch of Switchboard.");
    return false;
  }
  const answer = await fetch("/in/enter", { method: "POST", headers: { "x-switchboard-code": code } }).catch(() => null);
  if (!answer) {
    lock("Switchboard does not answer.");
    return false;
  }
  const text = await answer.text();
  if (!answer.ok) {
    lock(text);
    return false;
  }
  keep(text);
  return true;
}

// A link that differs from the open page only in its fragment does not load anything.
window.addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#code=")) return;
  if (document.body.matches(".is-locked, .is-apart")) location.reload();
  else history.replaceState(null, "", location.pathname);
});

// Signs in by a token, as the user whom the token belongs to.
document.getElementById("token-form")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = at("token").value.trim();
  at("token").value = "";
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch("/in/token", { method: "POST", headers }).catch(() => null);
  const text = answer ? await answer.text() : "Switchboard does not answer.";
  if (!answer?.ok) return lock(text);
  keep(text);
  location.reload();
});

// Signs in by a code that another browser or the terminal shows.
document.getElementById("code-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const code = at("code").value.trim();
  at("code").value = "";
  const headers = { "x-switchboard-code": code.replace(/[^0-9a-z]/gi, "") };
  const answer = await fetch("/in/enter", { method: "POST", headers }).catch(() => null);
  const text = answer ? await answer.text() : "Switchboard does not answer.";
  if (!answer?.ok) return lock(text);
  keep(text);
  location.reload();
});

export function lock(reason) {
  at("door-reason").textContent = reason;
  at("door").hidden = false;
  document.body.classList.add("is-locked");
  document.title = "Switchboard";
}
