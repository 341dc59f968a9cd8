// The switch in the settings that subscribes this browser to notifications of the hub, also while no page is open.

import { keyHeader } from "./door.js";
import { at, toast } from "./show.js";
import { signedIn } from "./signed-in.js";

const KEPT = "switchboard-push";
const button = at("push");
const isPossible = "serviceWorker" in navigator && "PushManager" in window && window.isSecureContext;

function wants(value) {
  try {
    if (value === undefined) return localStorage.getItem(KEPT) === "on";
    if (value) localStorage.setItem(KEPT, "on");
    else localStorage.removeItem(KEPT);
  } catch {
    // Without storage the subscription ends with the launch of the hub.
  }
  return value;
}

async function call(method, body) {
  const headers = { ...keyHeader(), "content-type": "application/json" };
  const answer = await fetch("/in/push", { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

function bytes(base64url) {
  const text = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

function isSame(one, other) {
  return one !== null && one.byteLength === other.length && new Uint8Array(one).every((byte, at) => byte === other[at]);
}

async function subscribe() {
  await navigator.serviceWorker.register("/sw.js");
  const worker = await navigator.serviceWorker.ready;
  const key = bytes((await (await call("GET")).json()).key);
  let subscription = await worker.pushManager.getSubscription();
  // A subscription works with the key of one hub.
  if (subscription && !isSame(subscription.options.applicationServerKey, key)) {
    await subscription.unsubscribe();
    subscription = null;
  }
  subscription ??= await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  await call("POST", subscription.toJSON());
}

async function unsubscribe() {
  const worker = await navigator.serviceWorker.getRegistration("/");
  const subscription = await worker?.pushManager.getSubscription();
  if (!subscription) return;
  await call("DELETE", { endpoint: subscription.endpoint });
  await subscription.unsubscribe();
}

function show() {
  button.hidden = !isPossible;
  button.setAttribute("aria-pressed", String(wants()));
  button.textContent = wants() ? "Stop notifying this browser" : "Notify this browser";
}

button.addEventListener("click", async () => {
  button.disabled = true;
  try {
    if (wants()) {
      wants(false);
      await unsubscribe();
    } else {
      if ((await Notification.requestPermission()) !== "granted") throw new Error("this browser does not allow notifications");
      await subscribe();
      wants(true);
    }
    toast(wants() ? "This browser is notified." : "This browser is not notified any more.");
  } catch (error) {
    toast(`Notifications cannot be changed: ${error.message}`);
  }
  button.disabled = false;
  show();
});

show();
// The subscription belongs to the token by which this browser is signed in, which may be another one than before.
if (isPossible && wants() && Notification.permission === "granted") {
  signedIn()
    .then(subscribe)
    .catch(() => {
      // The next load tries again.
    });
}
