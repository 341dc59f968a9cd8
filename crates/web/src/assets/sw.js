// The service worker: shows the messages that the hub sends while no page is open. It caches nothing.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  let message = {};
  try {
    message = event.data.json();
  } catch {
    // A message of another version. Browsers require that every message shows something.
  }
  const text = (value) => (typeof value === "string" ? value : "");
  const options = {
    body: text(message.text),
    tag: text(message.tag),
    icon: "/assets/icon-192.png",
    badge: "/assets/icon-192.png",
    // The end of a question replaces its notification without a sound.
    silent: message.resolved === true,
    renotify: false,
    data: { path: text(message.url) },
  };
  event.waitUntil(self.registration.showNotification(text(message.title) || "Switchboard", options));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(show(event.notification.data?.path ?? "/"));
});

async function show(path) {
  const url = new URL(path, self.location.origin);
  if (url.origin !== self.location.origin) return;
  const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const open = pages.find((page) => new URL(page.url).pathname === url.pathname) ?? pages[0];
  if (!open) return self.clients.openWindow(url);
  await open.focus();
  if (new URL(open.url).pathname !== url.pathname) await open.navigate(url);
}
