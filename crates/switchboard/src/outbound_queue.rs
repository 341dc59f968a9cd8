//! Outgoing lines to a peer that may be slow.

use std::collections::VecDeque;

use switchboard_transport::{ChildInput, Outbox, OutboxOptions, SharedText};
use tokio::io::AsyncWrite;

/// Send window in bytes: above it, no more input is read for this side. It fits the processor's cache,
/// because the lines are read again soon.
const QUEUE: usize = 256 * 1024;

/// Maximum number of unread responses to a side before its requests are no longer read (backpressure).
const MAX_UNREAD: usize = 1024;

/// The outgoing lines of one side.
pub(crate) struct OutboundQueue {
    /// `None` after it was closed.
    outbox: Option<Outbox>,
    /// Set if lines are held until they are released: see [`OutboundQueue::holding`].
    holds: bool,
    waiting: VecDeque<OutboundLine>,
    waiting_bytes: usize,
    closed: bool,
}

/// An outgoing line.
pub(crate) enum OutboundLine {
    /// Created here, or several lines that wait together.
    Made(String),
    /// Forwarded unchanged.
    Forwarded(SharedText),
}

impl OutboundLine {
    pub(crate) fn text(&self) -> &str {
        match self {
            OutboundLine::Made(line) => line,
            OutboundLine::Forwarded(line) => line.as_str(),
        }
    }
}

impl OutboundQueue {
    /// Creates a queue to the client.
    pub(crate) fn to_client(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self::over(Outbox::new(writer, options()))
    }

    /// Creates a queue to the agent.
    pub(crate) fn to_agent(input: ChildInput) -> Self {
        Self::over(Outbox::to_child(input, options()))
    }

    /// Creates a queue over an outbox.
    pub(crate) fn over(outbox: Outbox) -> Self {
        let (waiting, waiting_bytes) = (VecDeque::new(), 0);
        OutboundQueue { outbox: Some(outbox), holds: false, waiting, waiting_bytes, closed: false }
    }

    /// Holds all lines until [`OutboundQueue::send_ready`] is called: recorded lines must be durable first.
    pub(crate) fn holding(mut self, holds: bool) -> Self {
        self.holds = holds;
        self
    }

    /// Returns whether the send window is open, so that more input may be read for this side.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.is_empty() || (self.holds && self.room() > 0)
    }

    /// Returns whether the side reads its responses fast enough.
    pub(crate) fn keeps_up(&self) -> bool {
        self.waiting.len() < MAX_UNREAD
    }

    /// Sends a line after all earlier ones, at once if possible.
    pub(crate) fn push(&mut self, line: OutboundLine) {
        if self.holds || !self.waiting.is_empty() || !self.takes(line.text()) {
            self.waiting_bytes += line.text().len();
            self.waiting.push_back(line);
        }
    }

    /// Sends lines with line ends between them after all earlier ones. If they are recorded, they are already
    /// durable.
    pub(crate) fn push_run(&mut self, lines: &str) {
        if !self.waiting.is_empty() || !self.takes(lines) {
            self.waiting_bytes += lines.len();
            self.waiting.push_back(OutboundLine::Made(lines.to_owned()));
        }
    }

    /// Returns whether the outbox accepted a text. A closed one accepts and drops everything.
    fn takes(&mut self, text: &str) -> bool {
        let taken = self.outbox.as_ref().map(|outbox| outbox.try_send(text));
        match taken {
            Some(Ok(taken)) => taken,
            Some(Err(_)) | None => {
                self.closed = true;
                true
            }
        }
    }

    /// Sends all lines that fit now.
    pub(crate) fn send_ready(&mut self) {
        while let Some(line) = self.waiting.pop_front() {
            if !self.takes(line.text()) {
                self.waiting.push_front(line);
                return;
            }
            self.waiting_bytes -= line.text().len();
        }
    }

    /// Waits until the first line is sent, or, without any, until the side is closed.
    pub(crate) async fn send_first(&mut self) {
        match (self.waiting.front(), &self.outbox) {
            (Some(line), Some(outbox)) => {
                if outbox.send(line.text()).await.is_err() {
                    self.closed = true;
                }
                self.waiting_bytes -= line.text().len();
                self.waiting.pop_front();
            }
            (None, Some(outbox)) if !self.closed => {
                outbox.closed().await;
                self.closed = true;
            }
            _ => std::future::pending().await,
        }
    }

    /// Returns the bytes that can be sent at once.
    pub(crate) fn room(&self) -> usize {
        self.outbox.as_ref().map_or(0, Outbox::room).saturating_sub(self.waiting_bytes)
    }

    /// Returns whether the side is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Waits until everything is sent and written.
    pub(crate) async fn flush(&mut self) {
        self.send_ready();
        while !self.waiting.is_empty() && !self.closed {
            self.send_first().await;
            self.send_ready();
        }
        if let Some(outbox) = &self.outbox {
            // A closed outbox has nothing left to flush.
            let _ = outbox.flush().await;
        }
    }

    /// Closes the side after everything that was sent.
    pub(crate) fn close(&mut self) {
        self.send_ready();
        self.outbox = None;
        self.closed = true;
    }
}

fn options() -> OutboxOptions {
    OutboxOptions { queue: QUEUE, ..OutboxOptions::default() }
}
