//! Non-blocking standard error: a client that never reads it must not stop the conversation, and a closed
//! terminal must not stop a clean shutdown.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc as blocking};
use std::time::Duration;

use tokio::sync::mpsc;

/// Maximum number of queued lines.
const MAX_QUEUED: usize = 1024;

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
        let (entries, receiver) = mpsc::channel(MAX_QUEUED);
        std::thread::spawn(move || print_all(receiver));
        Printer { entries, missed: AtomicU64::new(0) }
    })
}

fn print_all(mut entries: mpsc::Receiver<Entry>) {
    while let Some(entry) = entries.blocking_recv() {
        let missed = printer().missed.swap(0, Ordering::Relaxed);
        if missed > 0 {
            print(&format!("switchboard: {missed} lines were dropped, because standard error was not read"));
        }
        match entry {
            Entry::Line(line) => print(&line),
            // Fails if the waiter is gone.
            Entry::Mark(written) => drop(written.try_send(())),
        }
    }
}

fn print(line: &str) {
    // One write per line, so that lines of several processes do not mix; a closed standard error is ignored.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Writes a line without blocking. If the queue is full, it is counted as dropped.
pub(crate) fn say(line: impl Into<String>) {
    let printer = printer();
    if printer.entries.try_send(Entry::Line(line.into())).is_err() {
        printer.missed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes a line, waiting for space in the queue.
pub(crate) async fn say_patiently(line: impl Into<String>) {
    // The other end is there as long as the process.
    let _ = printer().entries.send(Entry::Line(line.into())).await;
}

/// Writes a text synchronously, for interactive commands. Blocks on a slow reader; a closed standard error is
/// ignored.
pub(crate) fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Waits until everything has been written, with a timeout.
pub(crate) fn flush(time: Duration) {
    let Some(printer) = PRINTER.get() else { return };
    let (written, mark) = blocking::sync_channel(1);
    if printer.entries.try_send(Entry::Mark(written)).is_ok() {
        let _ = mark.recv_timeout(time);
    }
}
