//! Command queue of the writer thread. Records do not pass through it: they wait in the journals of their
//! sessions.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    waiting: VecDeque<T>,
    /// True if a journal has grown since the last `take`.
    woken: bool,
    open: bool,
}

/// Result of [`Queue::take`].
pub(crate) enum Taken<T> {
    /// Queued commands. Empty if only journals have grown or the timeout expired.
    Work(VecDeque<T>),
    /// The queue is closed and empty.
    Closed,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave the data under these locks half updated, so a poisoned lock is safe to use.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        let inner = Inner { waiting: VecDeque::new(), woken: false, open: true };
        Queue { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Appends a command. Returns false if the queue is closed.
    pub(crate) fn push(&self, item: T) -> bool {
        let mut inner = locked(&self.inner);
        if !inner.open {
            return false;
        }
        inner.waiting.push_back(item);
        drop(inner);
        self.changed.notify_one();
        true
    }

    /// Signals that a journal has grown.
    pub(crate) fn wake(&self) {
        let mut inner = locked(&self.inner);
        // Notify once per `take`: recorders call this for each write.
        if !std::mem::replace(&mut inner.woken, true) {
            drop(inner);
            self.changed.notify_one();
        }
    }

    /// Returns all queued commands, after waiting for a command or the timeout. Growing journals end the wait
    /// only with `wakes_on_journals`.
    pub(crate) fn take(&self, timeout: Option<Duration>, wakes_on_journals: bool) -> Taken<T> {
        let mut inner = locked(&self.inner);
        while inner.waiting.is_empty() && !(inner.woken && wakes_on_journals) {
            if !inner.open {
                return Taken::Closed;
            }
            inner = match timeout {
                None => self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    let waited =
                        self.changed.wait_timeout(inner, timeout).unwrap_or_else(PoisonError::into_inner);
                    if waited.1.timed_out() {
                        inner = waited.0;
                        break;
                    }
                    waited.0
                }
            };
        }
        // Keep the flag if the caller did not ask for it, or the next `take` would miss the growth.
        inner.woken &= !wakes_on_journals;
        Taken::Work(std::mem::take(&mut inner.waiting))
    }

    /// Returns true if commands are queued or the queue is closed.
    pub(crate) fn is_urgent(&self) -> bool {
        let inner = locked(&self.inner);
        !inner.waiting.is_empty() || !inner.open
    }

    pub(crate) fn is_open(&self) -> bool {
        locked(&self.inner).open
    }

    pub(crate) fn close(&self) {
        locked(&self.inner).open = false;
        self.changed.notify_all();
    }

    /// Discards all queued commands. Their reply channels close, so that callers do not wait forever.
    pub(crate) fn clear(&self) {
        locked(&self.inner).waiting.clear();
    }
}
