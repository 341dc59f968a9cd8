//! Lines for one socket. A client that does not read loses its connection: it reconnects and continues from its last
//! action or a snapshot. So it slows down neither the agent nor other clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of bytes that wait for one client.
const MAX_WAITING: usize = 32 << 20;

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Arc<str>>,
    bytes: usize,
    /// Close code and reason.
    closed: Option<(u16, String)>,
    wants_ping: bool,
}

/// The lines that wait for a client.
#[derive(Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

/// The next step of the writer.
pub(crate) enum Next {
    Lines(Vec<Arc<str>>),
    Ping,
    Close(u16, String),
}

impl Outbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, line: Arc<str>) {
        let mut waiting = self.waiting();
        if waiting.closed.is_some() {
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        if waiting.bytes > MAX_WAITING {
            waiting.lines.clear();
            waiting.closed = Some((1008, "too many unread bytes are waiting; read faster".to_owned()));
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Sends a ping after the lines that wait.
    pub(crate) fn ping(&self) {
        self.waiting().wants_ping = true;
        self.changed.notify_one();
    }

    /// Closes the connection after the lines that wait.
    pub(crate) fn close(&self, code: u16, reason: &str) {
        self.waiting().closed.get_or_insert((code, reason.to_owned()));
        self.changed.notify_one();
    }

    /// Waits for lines or the end. Cancel safe.
    pub(crate) async fn next(&self) -> Next {
        loop {
            {
                let mut waiting = self.waiting();
                if !waiting.lines.is_empty() {
                    waiting.bytes = 0;
                    return Next::Lines(waiting.lines.drain(..).collect());
                }
                if std::mem::take(&mut waiting.wants_ping) {
                    return Next::Ping;
                }
                if let Some((code, reason)) = waiting.closed.clone() {
                    return Next::Close(code, reason);
                }
            }
            self.changed.notified().await;
        }
    }
}
