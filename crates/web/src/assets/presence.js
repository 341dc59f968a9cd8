// Tells the server whether somebody looks at this tab, so that the hub does not notify them elsewhere of what they see.
// Only a tab that is visible and has the focus counts, and only while it repeats that it is.

const REPEAT = 10000;

export class Presence {
  constructor(send) {
    this.send = send;
    this.was = false;
    for (const event of ["focus", "blur", "pageshow", "pagehide"]) addEventListener(event, () => this.changed());
    document.addEventListener("visibilitychange", () => this.changed());
    setInterval(() => this.isLooking && this.report(), REPEAT);
  }

  get isLooking() {
    return document.visibilityState === "visible" && document.hasFocus();
  }

  changed() {
    if (this.isLooking !== this.was) this.report();
  }

  report() {
    this.was = this.isLooking;
    this.send(this.was);
  }
}
