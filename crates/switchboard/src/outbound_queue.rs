//! The lines on their way to a peer that may be slow.

use std::collections::VecDeque;

use switchboard_transport::{ChildInput, Outbox, OutboxOptions, SharedText};
use tokio::io::AsyncWrite;

/// How many bytes may wait for one side before no more is read for it: what a processor's cache holds, for they are soon
/// read again.
const QUEUE: usize = 256 * 1024;

/// How many lines may wait for a side that asks and does not read, before it may ask no more.
const UNREAD: usize = 1024;

/// The lines on their way to one side.
pub(crate) struct OutboundQueue {
    /// `None` once the side is to be told nothing more.
    outbox: Option<Outbox>,
    /// Lines are held until they may go: see [`OutboundQueue::holding`].
    holds: bool,
    waiting: VecDeque<OutboundLine>,
    waiting_bytes: usize,
    closed: bool,
}

/// A line that one side gets.
pub(crate) enum OutboundLine {
    /// It was made here, or is several lines that wait together.
    Made(String),
    /// It came so.
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
    /// Lines to the client.
    pub(crate) fn to_client(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self::over(Outbox::new(writer, options()))
    }

    /// Lines to the agent.
    pub(crate) fn to_agent(input: ChildInput) -> Self {
        Self::over(Outbox::to_child(input, options()))
    }

    /// Lines by an outbox.
    pub(crate) fn over(outbox: Outbox) -> Self {
        let (waiting, waiting_bytes) = (VecDeque::new(), 0);
        OutboundQueue { outbox: Some(outbox), holds: false, waiting, waiting_bytes, closed: false }
    }

    /// Lets no line go before [`OutboundQueue::send_ready`] is called: what is recorded must be safe first.
    pub(crate) fn holding(mut self, holds: bool) -> Self {
        self.holds = holds;
        self
    }

    /// Whether more may be read for this side: not while more waits than the outbox takes.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.is_empty() || (self.holds && self.room() > 0)
    }

    /// Whether the side reads what it is told, or has not been told much that it has not read.
    pub(crate) fn keeps_up(&self) -> bool {
        self.waiting.len() < UNREAD
    }

    /// Sends a line behind all that came before it, at once where that can be.
    pub(crate) fn push(&mut self, line: OutboundLine) {
        if self.holds || !self.waiting.is_empty() || !self.takes(line.text()) {
            self.waiting_bytes += line.text().len();
            self.waiting.push_back(line);
        }
    }

    /// Sends lines behind all that came before them, with their ends between them. Where they are recorded, they are
    /// safe already.
    pub(crate) fn push_run(&mut self, lines: &str) {
        if !self.waiting.is_empty() || !self.takes(lines) {
            self.waiting_bytes += lines.len();
            self.waiting.push_back(OutboundLine::Made(lines.to_owned()));
        }
    }

    /// Whether the outbox took this. One that is closed takes everything, and nobody gets it.
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

    /// Sends what can be sent at once.
    pub(crate) fn send_ready(&mut self) {
        while let Some(line) = self.waiting.pop_front() {
            if !self.takes(line.text()) {
                self.waiting.push_front(line);
                return;
            }
            self.waiting_bytes -= line.text().len();
        }
    }

    /// Waits until the first line is sent, or, when there is none, until the side takes nothing more.
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

    /// How many bytes can be sent at once.
    pub(crate) fn room(&self) -> usize {
        self.outbox.as_ref().map_or(0, Outbox::room).saturating_sub(self.waiting_bytes)
    }

    /// Whether the side takes nothing more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Waits until all is sent and written.
    pub(crate) async fn flush(&mut self) {
        self.send_ready();
        while !self.waiting.is_empty() && !self.closed {
            self.send_first().await;
            self.send_ready();
        }
        if let Some(outbox) = &self.outbox {
            // One that is closed has nothing left to wait for.
            let _ = outbox.flush().await;
        }
    }

    /// Tells the side nothing more. What was sent is written behind this.
    pub(crate) fn close(&mut self) {
        self.send_ready();
        self.outbox = None;
        self.closed = true;
    }
}

fn options() -> OutboxOptions {
    OutboxOptions { queue: QUEUE, ..OutboxOptions::default() }
}
