//! Standard error, for programs that must not wait for whoever reads it: a client that never looks at the bridge's
//! standard error must not stop the conversation, and a terminal that is gone must not stop the clean end.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc as blocking};
use std::time::Duration;

use tokio::sync::mpsc;

/// How many lines may wait for the reader.
const WAITING: usize = 1024;

enum Entry {
    Line(String),
    /// Everything before this has been written.
    Mark(blocking::SyncSender<()>),
}

struct Printer {
    entries: mpsc::Sender<Entry>,
    missed: AtomicU64,
}

static PRINTER: OnceLock<Printer> = OnceLock::new();

fn printer() -> &'static Printer {
    PRINTER.get_or_init(|| {
        let (entries, receiver) = mpsc::channel(WAITING);
        std::thread::spawn(move || print_all(receiver));
        Printer { entries, missed: AtomicU64::new(0) }
    })
}

fn print_all(mut entries: mpsc::Receiver<Entry>) {
    while let Some(entry) = entries.blocking_recv() {
        let missed = printer().missed.swap(0, Ordering::Relaxed);
        if missed > 0 {
            print(&format!("switchboard: {missed} lines are missing here: nobody read them"));
        }
        match entry {
            Entry::Line(line) => print(&line),
            // It fails when nobody waits any more.
            Entry::Mark(written) => drop(written.try_send(())),
        }
    }
}

fn print(line: &str) {
    // One write a line, so that lines of several processes do not mix; a reader that is gone is nobody to tell.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Writes a line, without waiting. One that has no room is counted as missed.
pub(crate) fn say(line: impl Into<String>) {
    let printer = printer();
    if printer.entries.try_send(Entry::Line(line.into())).is_err() {
        printer.missed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes a line when there is room for it.
pub(crate) async fn say_patiently(line: impl Into<String>) {
    // The other end is there as long as the process.
    let _ = printer().entries.send(Entry::Line(line.into())).await;
}

/// Writes a text in its place among what is written elsewhere, for commands that talk with a person. Whoever does not
/// read it is waited for; one that is gone is nobody to tell.
pub(crate) fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Waits until everything has been written, but not for long.
pub(crate) fn flush(time: Duration) {
    let Some(printer) = PRINTER.get() else { return };
    let (written, mark) = blocking::sync_channel(1);
    if printer.entries.try_send(Entry::Mark(written)).is_ok() {
        let _ = mark.recv_timeout(time);
    }
}
