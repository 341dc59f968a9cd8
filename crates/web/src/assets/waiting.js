// Pending questions of all sessions: shown in the title, as a badge, and as a notification if the user has allowed
// them.

export class Waiting {
  constructor(look) {
    this.look = look;
    this.count = 0;
    this.first = null; // the first session with a question
    this.title = "Switchboard";
    this.badge = document.getElementById("badge");
    this.button = document.getElementById("notify");
    this.offer();
  }

  // Sets the name of the selected session.
  name(title) {
    this.title = title;
    this.entitle();
  }

  entitle() {
    const count = this.count > 0 ? `(${this.count}) ` : "";
    document.title = `${count}${this.title} · Switchboard`;
  }

  show({ count, first, elsewhere }) {
    this.first = first;
    const isMore = count > this.count;
    this.count = count;
    document.querySelector("link[rel=icon]").href = count > 0 ? "/assets/icon-waiting.svg" : "/assets/icon.svg";
    this.badge.hidden = count === 0;
    this.badge.textContent = count;
    this.badge.title = count === 1 ? "1 question waits for you" : `${count} questions wait for you`;
    this.entitle();
    if (isMore && (document.hidden || elsewhere)) this.notify(first);
  }

  // Shows the button until the user has decided. The browser asks for the permission only after a click.
  offer() {
    this.button.hidden = !("Notification" in window) || Notification.permission !== "default";
  }

  async allow() {
    await Notification.requestPermission();
    this.offer();
  }

  notify(first) {
    if (!("Notification" in window) || Notification.permission !== "granted") return;
    try {
      const note = new Notification("A question waits for you", { body: first?.title ?? this.title, tag: "switchboard" });
      note.addEventListener("click", () => {
        window.focus();
        note.close();
        if (first) this.look(first.recording);
      });
    } catch {
      // Some browsers on phones define `Notification`, but allow it only in service workers.
    }
  }
}
