//! What waits for the writer. Bounded in number and bytes: a full queue holds up who wants to add to it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

const MAX_WAITING: usize = 8192;
const MAX_BYTES: usize = 32 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    waiting: VecDeque<T>,
    bytes: usize,
    open: bool,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing behind our locks is left half done when a thread panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        let inner = Inner { waiting: VecDeque::new(), bytes: 0, open: true };
        Queue { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Adds something, when there is room. Says whether anybody will still take it.
    pub(crate) fn push(&self, item: T, bytes: usize) -> bool {
        let mut inner = locked(&self.inner);
        while inner.open
            && !inner.waiting.is_empty()
            && (inner.waiting.len() >= MAX_WAITING || inner.bytes + bytes > MAX_BYTES)
        {
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        if !inner.open {
            return false;
        }
        inner.waiting.push_back(item);
        inner.bytes += bytes;
        drop(inner);
        self.changed.notify_all();
        true
    }

    /// Everything that waits, once there is something; `None` when it is closed and empty.
    pub(crate) fn take(&self) -> Option<VecDeque<T>> {
        let mut inner = locked(&self.inner);
        while inner.waiting.is_empty() {
            if !inner.open {
                return None;
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.bytes = 0;
        let taken = std::mem::take(&mut inner.waiting);
        drop(inner);
        self.changed.notify_all();
        Some(taken)
    }

    pub(crate) fn close(&self) {
        locked(&self.inner).open = false;
        self.changed.notify_all();
    }
}
