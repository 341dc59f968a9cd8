// The connection to the server. It reconnects when it breaks, and matches replies to requests.

import { isKnown, lock, socketProtocols } from "./door.js";
import { at, toast } from "./show.js";

const isHub = document.body.hasAttribute("data-hub");

export class Server {
  // `opened` returns the tab's selection; `frame` receives each frame.
  constructor({ opened, frame }) {
    this.opened = opened;
    this.frame = frame;
    this.waiting = new Map();
    this.early = []; // requests made before the connection is open
    this.socket = null;
    this.last = 0;
    this.retry = 250;
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/in/socket`, socketProtocols());
    this.socket.addEventListener("open", () => {
      this.retry = 250;
      linkState("");
      this.opened();
      for (const message of this.early.splice(0)) this.send(message);
    });
    this.socket.addEventListener("message", (event) => this.take(JSON.parse(event.data)));
    this.socket.addEventListener("close", () => this.closed());
  }

  async closed() {
    for (const { fail } of this.waiting.values()) fail("The connection to Switchboard is gone.");
    this.waiting.clear();
    this.early = [];
    linkState("Connecting…");
    const known = await isKnown();
    if (known === false && isHub) return lock("It was let in before, and is not any more.");
    if (known === false) return linkState("Switchboard was started anew: open a link that it printed.");
    setTimeout(() => this.connect(), this.retry);
    this.retry = Math.min(this.retry * 2, 5000);
  }

  get isConnecting() {
    return this.socket?.readyState === WebSocket.CONNECTING;
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
  }

  // Sends a request. The promise rejects with a message for the user.
  ask(message) {
    return new Promise((done, fail) => {
      if (!this.isOpen && !this.isConnecting) return fail("There is no connection to Switchboard.");
      this.last += 1;
      this.waiting.set(this.last, { done, fail });
      const numbered = { ...message, number: this.last };
      // The page requests the sessions before its first connection is open. The request fails if that connection
      // breaks.
      if (this.isOpen) this.send(numbered);
      else this.early.push(numbered);
    });
  }

  take(message) {
    if (message.type === "frame") return this.frame(message);
    const request = this.waiting.get(message.number);
    this.waiting.delete(message.number);
    if (message.type === "answer") request?.done(message.value);
    else if (request) request.fail(message.reason);
    else toast(message.reason);
  }
}

function linkState(words) {
  at("link-state").textContent = words;
  document.body.classList.toggle("is-apart", words !== "");
}
