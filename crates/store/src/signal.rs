use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::queue::locked;

/// Wakes threads of this process that wait for new records.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    pub(crate) fn raise(&self) {
        *locked(&self.count) += 1;
        self.changed.notify_all();
    }

    pub(crate) fn count(&self) -> u64 {
        *locked(&self.count)
    }

    /// Waits until the count differs from `seen` or the timeout expires.
    pub(crate) fn wait(&self, seen: u64, time: Duration) {
        let count = locked(&self.count);
        drop(
            self.changed
                .wait_timeout_while(count, time, |count| *count == seen)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}
