//! What the writer is asked to do. Records are not among it: they wait in the journals of their sessions.

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
    /// Somebody has written to a journal.
    woken: bool,
    open: bool,
}

/// What the writer finds when it comes round.
pub(crate) enum Taken<T> {
    /// Something to do; nothing when only journals have grown, or the time is over.
    Work(VecDeque<T>),
    /// Nobody is there any more.
    Closed,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing behind our locks is left half done when a thread panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        let inner = Inner { waiting: VecDeque::new(), woken: false, open: true };
        Queue { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Adds something. Says whether anybody will still take it.
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

    /// Tells that a journal has grown.
    pub(crate) fn wake(&self) {
        let mut inner = locked(&self.inner);
        if !std::mem::replace(&mut inner.woken, true) {
            drop(inner);
            self.changed.notify_one();
        }
    }

    /// Everything that waits, once there is something or a time is over. That journals grow can be left for later.
    pub(crate) fn take(&self, timeout: Option<Duration>, heeds_journals: bool) -> Taken<T> {
        let mut inner = locked(&self.inner);
        while inner.waiting.is_empty() && !(inner.woken && heeds_journals) {
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
        inner.woken &= !heeds_journals;
        Taken::Work(std::mem::take(&mut inner.waiting))
    }

    /// Whether somebody waits for something.
    pub(crate) fn is_wanted(&self) -> bool {
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

    /// What will not be done any more.
    pub(crate) fn clear(&self) {
        locked(&self.inner).waiting.clear();
    }
}
