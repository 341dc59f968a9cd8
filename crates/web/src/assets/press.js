// Delays changes while a button is pressed, so that the release hits the same element and counts as a click.

const USED = "button, summary, label, a, [data-row]";
const LIMIT = 10_000; // milliseconds; a longer press does not count as a click

export class Press {
  constructor() {
    this.isDown = false;
    this.waiting = [];
    const begin = (event) => {
      if (event.isPrimary && event.target.closest?.(USED)) this.begin();
    };
    const end = () => this.end();
    document.addEventListener("pointerdown", begin, { capture: true });
    for (const kind of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(kind, end, { capture: true });
    window.addEventListener("blur", end);
    // The release may have happened outside of the window.
    document.addEventListener("pointermove", (event) => event.buttons === 0 && end(), { passive: true });
  }

  // Runs an action now, or after the release if a button is pressed.
  afterwards(action) {
    if (this.isDown) this.waiting.push(action);
    else action();
  }

  begin() {
    this.isDown = true;
    clearTimeout(this.limit);
    this.limit = setTimeout(() => this.release(), LIMIT);
  }

  // The click event follows directly after the release.
  end() {
    if (!this.isDown) return;
    clearTimeout(this.limit);
    this.limit = setTimeout(() => this.release(), 0);
  }

  release() {
    this.isDown = false;
    for (const action of this.waiting.splice(0)) action();
  }
}
