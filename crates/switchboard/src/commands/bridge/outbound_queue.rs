//! The lines on their way to one side of the bridge.

use std::collections::VecDeque;

use switchboard_transport::{Outbox, OutboxOptions, SharedText};
use tokio::io::AsyncWrite;

/// How many bytes may wait for one side before no more is read for it: what a processor's cache holds, for they are soon
/// read again.
const QUEUE: usize = 256 * 1024;

/// How many lines may wait for a side that asks and does not read, before it may ask no more.
const UNREAD: usize = 1024;

/// The lines on their way to one side.
pub(super) struct OutboundQueue {
    outbox: Outbox,
    waiting: VecDeque<Line>,
    closed: bool,
}

/// A line that one side gets.
pub(super) enum Line {
    /// It was made here, or is several lines that wait together.
    Made(String),
    /// It came so.
    Forwarded(SharedText),
}

impl Line {
    pub(super) fn text(&self) -> &str {
        match self {
            Line::Made(line) => line,
            Line::Forwarded(line) => line.as_str(),
        }
    }
}

impl OutboundQueue {
    pub(super) fn new(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let options = OutboxOptions { queue: QUEUE, ..OutboxOptions::default() };
        OutboundQueue { outbox: Outbox::new(writer, options), waiting: VecDeque::new(), closed: false }
    }

    /// Whether more may be read for this side: not while something waits, for then the outbox is full.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the side reads what it is told, or has not been told much that it has not read.
    pub(super) fn keeps_up(&self) -> bool {
        self.waiting.len() < UNREAD
    }

    /// Sends a line behind all that came before it, at once where that can be.
    pub(super) fn push(&mut self, line: Line) {
        if !self.waiting.is_empty() || !self.takes(line.text()) {
            self.waiting.push_back(line);
        }
    }

    /// Sends lines behind all that came before them, with their ends between them.
    pub(super) fn push_run(&mut self, lines: &str) {
        if !self.waiting.is_empty() || !self.takes(lines) {
            self.waiting.push_back(Line::Made(lines.to_owned()));
        }
    }

    /// Whether the outbox took this. One that is closed takes everything, and nobody gets it.
    fn takes(&mut self, text: &str) -> bool {
        self.outbox.try_send(text).unwrap_or_else(|_| {
            self.closed = true;
            true
        })
    }

    /// Sends what can be sent at once.
    pub(super) fn send_ready(&mut self) {
        while let Some(line) = self.waiting.pop_front() {
            if !self.takes(line.text()) {
                self.waiting.push_front(line);
                return;
            }
        }
    }

    /// Waits until the first line is sent; forever when there is none.
    pub(super) async fn send_first(&mut self) {
        match self.waiting.front() {
            Some(line) => {
                if self.outbox.send(line.text()).await.is_err() {
                    self.closed = true;
                }
                self.waiting.pop_front();
            }
            None => std::future::pending().await,
        }
    }

    /// How many bytes can be sent at once.
    pub(super) fn room(&self) -> usize {
        self.outbox.room()
    }

    /// Whether the side takes nothing more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Waits until all that was sent is written.
    pub(super) async fn flush(&self) {
        // One that is closed has nothing left to wait for.
        let _ = self.outbox.flush().await;
    }
}
