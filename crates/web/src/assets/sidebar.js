// The lists of sessions: groups by day, relative times, pins, and further pages while the user scrolls.

import { at } from "./show.js";

const PINS = "switchboard-pins";
const DAY = 24 * 3600 * 1000;

export class Sidebar {
  constructor() {
    this.list = at("session-list");
    // The next page is requested before its button is visible.
    const near = { root: this.list, rootMargin: "400px" };
    this.further = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) if (isIntersecting && !target.disabled) target.click();
    }, near);
    setInterval(() => this.tell(), 30_000);
  }

  // Arranges what the server has listed.
  arrange() {
    for (const list of this.list.querySelectorAll("ul.by-day")) this.group(list);
    this.further.disconnect();
    for (const more of this.list.querySelectorAll(".more")) this.further.observe(more);
    this.tell();
  }

  group(list) {
    const pins = pinned();
    const today = new Date().setHours(0, 0, 0, 0);
    const groups = new Map([["Pinned", []], ["Today", []], ["Yesterday", []], ["Earlier", []]]);
    for (const item of [...list.children]) {
      const id = item.querySelector("[data-recording]")?.dataset.recording;
      const changed = Number(item.querySelector("time")?.dataset.at);
      const isPinned = pins.includes(id);
      item.querySelector(".pin")?.setAttribute("aria-pressed", isPinned);
      const name = isPinned ? "Pinned" : changed >= today ? "Today" : changed >= today - DAY ? "Yesterday" : "Earlier";
      groups.get(name).push(item);
    }
    const made = [];
    for (const [name, items] of groups) {
      if (items.length === 0) continue;
      const heading = document.createElement("h3");
      heading.textContent = name;
      const group = document.createElement("ul");
      group.className = "sessions";
      group.append(...items);
      made.push(heading, group);
    }
    list.replaceWith(...made);
  }

  // Writes the times in words.
  tell() {
    for (const time of document.querySelectorAll(".sessions time")) {
      const words = ago(Number(time.dataset.at));
      if (time.textContent !== words) time.textContent = words;
      time.title = new Date(Number(time.dataset.at)).toLocaleString();
    }
  }

  pin(id) {
    const pins = pinned();
    const now = pins.includes(id) ? pins.filter((it) => it !== id) : [...pins, id];
    try {
      localStorage.setItem(PINS, JSON.stringify(now.slice(-100)));
    } catch {
      // Without storage nothing is pinned.
    }
    // Groups the items of all groups again.
    const all = document.createElement("ul");
    all.className = "sessions by-day";
    const items = [...at("hub-sessions").querySelectorAll("li")];
    items.sort((a, b) => Number(b.querySelector("time").dataset.at) - Number(a.querySelector("time").dataset.at));
    all.append(...items);
    at("hub-sessions").replaceChildren(all);
    this.arrange();
    at("hub-sessions").querySelector(`[data-pin="${CSS.escape(id)}"]`)?.focus();
  }
}

function pinned() {
  try {
    const pins = JSON.parse(localStorage.getItem(PINS) ?? "[]");
    return Array.isArray(pins) ? pins : [];
  } catch {
    return [];
  }
}

// Returns a time as a person would say it: now, 5 min, 3 h, Mon, 4 Nov.
function ago(time) {
  const passed = Date.now() - time;
  if (passed < 60_000) return "now";
  if (passed < 3_600_000) return `${Math.floor(passed / 60_000)} min`;
  if (passed < DAY) return `${Math.floor(passed / 3_600_000)} h`;
  const date = new Date(time);
  if (passed < 6 * DAY) return date.toLocaleDateString([], { weekday: "short" });
  return date.toLocaleDateString([], { day: "numeric", month: "short" });
}
