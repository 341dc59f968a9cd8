//! Queue of lines for the reader of a stream. A new reader can supersede an older one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc;

use super::connection::{Ending, Incoming, OutgoingLine, ServedConnection};

/// Queue capacity kept when empty, in lines.
const KEPT: usize = 16;

#[derive(Default)]
pub(super) struct Mailbox(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    lines: VecDeque<OutgoingLine>,
    waker: Option<Waker>,
    /// Number of readers so far. Only the latest one may read.
    readers: u64,
    is_read: bool,
    /// Number of open gates. While there are any, lines with a cursor are discarded.
    gates: usize,
}

/// Condition under which a new reader may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// Only if there is no reader.
    Free,
    /// Supersedes the current reader. Queued lines with a cursor are discarded, because they are replayed
    /// from the client's cursor.
    Over,
}

impl Mailbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a line. Returns the line if it must be discarded.
    pub(super) fn push(&self, line: OutgoingLine) -> Option<OutgoingLine> {
        let mut queue = self.queue();
        // During a takeover, lines with a cursor follow the old socket's cursor. The program replays them
        // after the resume.
        if queue.gates > 0 && line.cursor.is_some() {
            return Some(line);
        }
        queue.lines.push_back(line);
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }

    /// Wakes the reader.
    pub(super) fn wake(&self) {
        let waker = self.queue().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Removes all lines if there is no reader.
    pub(super) fn clear_unread(&self) -> VecDeque<OutgoingLine> {
        let mut queue = self.queue();
        if queue.is_read { VecDeque::new() } else { std::mem::take(&mut queue.lines) }
    }

    /// Returns true if the queue is empty and has no reader.
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.queue();
        !queue.is_read && queue.lines.is_empty()
    }

    /// Registers a new reader. Returns its number and the discarded lines, or `None` if the claim is denied.
    fn claim(&self, claim: Claim) -> Option<(u64, VecDeque<OutgoingLine>)> {
        let mut queue = self.queue();
        let mut discarded = VecDeque::new();
        // Lines without a cursor cannot be replayed, so the new reader gets them.
        if claim == Claim::Over {
            let (kept, old): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(&mut queue.lines).into_iter().partition(|line| line.cursor.is_none());
            (queue.lines, discarded) = (kept, old);
        } else if queue.is_read {
            return None;
        }
        queue.readers += 1;
        queue.is_read = true;
        // Wake the previous reader, so that it sees that it was superseded.
        let (number, waker) = (queue.readers, queue.waker.take());
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        Some((number, discarded))
    }
}

/// Discards lines with a cursor until it is dropped: lines that were queued when another socket took the
/// connection over follow the cursor of the previous socket.
#[must_use = "lines with a cursor are discarded until it is dropped"]
pub struct Gate(Arc<Mailbox>);

impl Gate {
    pub(super) fn new(mailbox: &Arc<Mailbox>) -> Self {
        mailbox.queue().gates += 1;
        Gate(Arc::clone(mailbox))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.queue().gates -= 1;
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Gate")
    }
}

/// Result of [`Reader::poll_next`].
pub(super) enum Next {
    Line(OutgoingLine),
    /// Another reader has superseded this one.
    TakenOver,
    /// The connection has ended.
    Ended(Ending),
}

/// Reader of one mailbox. The connection is not idle while it exists.
pub(super) struct Reader {
    pub(super) shared: Arc<ServedConnection>,
    mailbox: Arc<Mailbox>,
    number: u64,
}

impl Reader {
    /// Starts to read, unless the claim is denied.
    pub(super) fn new(shared: &Arc<ServedConnection>, mailbox: Arc<Mailbox>, claim: Claim) -> Option<Self> {
        let (number, discarded) = mailbox.claim(claim)?;
        shared.discard(discarded);
        shared.enter();
        Some(Reader { shared: Arc::clone(shared), mailbox, number })
    }

    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Next> {
        let mut queue = self.mailbox.queue();
        // Check first: a superseded reader must not take lines that belong to its successor.
        if queue.readers != self.number {
            return Poll::Ready(Next::TakenOver);
        }
        if let Some(line) = queue.lines.pop_front() {
            if queue.lines.is_empty() && queue.lines.capacity() > KEPT {
                queue.lines = VecDeque::new();
            }
            drop(queue);
            self.shared.taken(&line);
            return Poll::Ready(Next::Line(line));
        }
        // Only when the queue is empty: lines before the end are still delivered.
        if let Some(ending) = self.shared.ending() {
            return Poll::Ready(Next::Ended(ending.clone()));
        }
        if !queue.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            queue.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Delivers an incoming message, unless another reader has superseded this one. Holding the queue's lock
    /// makes sure that no message of an old reader follows the takeover.
    pub(super) fn deliver(&self, place: mpsc::Permit<'_, Incoming>, incoming: Incoming) -> bool {
        let queue = self.mailbox.queue();
        let is_last = queue.readers == self.number;
        if is_last {
            place.send(incoming);
        } else {
            // Unlock first: dropping the value may lock the queue again.
            drop(queue);
        }
        is_last
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut queue = self.mailbox.queue();
        if queue.readers == self.number {
            queue.is_read = false;
            queue.waker = None;
        }
        drop(queue);
        self.shared.left(&self.mailbox);
    }
}
