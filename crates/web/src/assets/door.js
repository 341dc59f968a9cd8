// Lets this browser in, or says why it is not.
//
// The key has two halves. One is a cookie, which other servers of this machine may get to see; the other is kept here,
// for pages of this address and port alone. Both go with everything that is asked for.

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
    // Then it holds for this tab until it is reloaded.
  }
}

// What goes beside the name of the socket's protocol.
export function socketProtocols() {
  return ["switchboard", `key-${kept() ?? "none"}`];
}

// `true`, `false`, or nothing where there is no server.
export async function isKnown() {
  const key = kept();
  if (!key) return false;
  const answer = await fetch("/in/known", { headers: { "x-switchboard-key": key } }).catch(() => null);
  return answer ? answer.ok : undefined;
}

// Comes in by the code in the address, which is taken out of it at once. Whoever is in already needs none.
export async function comeIn() {
  const code = /^#code=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", location.pathname);
  const known = await isKnown();
  if (known !== false) return true;
  if (!code) {
    lock("It has no key of this launch of Switchboard.");
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

// A new link to the page that is open already loads nothing by itself.
window.addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#code=")) return;
  if (document.body.matches(".is-locked, .is-apart")) location.reload();
  else history.replaceState(null, "", location.pathname);
});

// A token does what a link does, for whoever it belongs to.
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

export function lock(reason) {
  at("door-reason").textContent = reason;
  at("door").hidden = false;
  document.body.classList.add("is-locked");
  document.title = "Switchboard";
}
