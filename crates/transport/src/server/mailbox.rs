//! Lines that wait for whoever reads a stream. Readers come and go: a new one takes the place of the older.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc;

use super::connection::{Ending, Incoming, OutgoingLine, ServedConnection};

/// The room that an emptied queue keeps.
const KEPT: usize = 16;

#[derive(Default)]
pub(super) struct Mailbox(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    lines: VecDeque<OutgoingLine>,
    waker: Option<Waker>,
    /// How many readers there have been; the last of them counts.
    readers: u64,
    is_read: bool,
    /// While there are any, lines with a cursor are discarded.
    gates: usize,
}

/// Which readers a new one may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// Only if nobody reads.
    Free,
    /// The older one ends. What has a cursor is discarded, because it is told again from the right place.
    Over,
}

impl Mailbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. Gives back the one that nobody is to see.
    pub(super) fn push(&self, line: OutgoingLine) -> Option<OutgoingLine> {
        let mut queue = self.queue();
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

    /// Lets its reader look again.
    pub(super) fn wake(&self) {
        let waker = self.queue().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes away everything that waits, if nobody reads it.
    pub(super) fn clear_unread(&self) -> VecDeque<OutgoingLine> {
        let mut queue = self.queue();
        if queue.is_read { VecDeque::new() } else { std::mem::take(&mut queue.lines) }
    }

    /// Whether there is nothing in it and nobody reads.
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.queue();
        !queue.is_read && queue.lines.is_empty()
    }

    /// Whether the claim was granted, with the reader's number and what was discarded for it.
    fn claim(&self, claim: Claim) -> Option<(u64, VecDeque<OutgoingLine>)> {
        let mut queue = self.queue();
        let mut discarded = VecDeque::new();
        if claim == Claim::Over {
            let (kept, old): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(&mut queue.lines).into_iter().partition(|line| line.cursor.is_none());
            (queue.lines, discarded) = (kept, old);
        } else if queue.is_read {
            return None;
        }
        queue.readers += 1;
        queue.is_read = true;
        let (number, waker) = (queue.readers, queue.waker.take());
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        Some((number, discarded))
    }
}

/// Keeps lines with a cursor from a stream until it is dropped: what was on its way when another socket took the
/// connection over belongs to the place that the older one had reached.
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

/// What a reader finds.
pub(super) enum Next {
    Line(OutgoingLine),
    /// Another has taken its place.
    TakenOver,
    /// There will be no more.
    Ended(Ending),
}

/// Reads one mailbox. While there is one, the connection is not idle.
pub(super) struct Reader {
    pub(super) shared: Arc<ServedConnection>,
    mailbox: Arc<Mailbox>,
    number: u64,
}

impl Reader {
    /// Begins to read, unless the claim forbids it.
    pub(super) fn new(shared: &Arc<ServedConnection>, mailbox: Arc<Mailbox>, claim: Claim) -> Option<Self> {
        let (number, discarded) = mailbox.claim(claim)?;
        shared.discard(discarded);
        shared.enter();
        Some(Reader { shared: Arc::clone(shared), mailbox, number })
    }

    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Next> {
        let mut queue = self.mailbox.queue();
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
        if let Some(ending) = self.shared.ending() {
            return Poll::Ready(Next::Ended(ending.clone()));
        }
        if !queue.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            queue.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Puts something into its place, unless another reader has come since: nothing of this one may follow its arrival.
    pub(super) fn deliver(&self, place: mpsc::Permit<'_, Incoming>, incoming: Incoming) -> bool {
        let queue = self.mailbox.queue();
        let is_last = queue.readers == self.number;
        if is_last {
            place.send(incoming);
        } else {
            // What it holds may want to look into the queue when it is dropped.
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
