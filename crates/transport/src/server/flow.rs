//! Send window: the number of bytes that a receiver has not taken yet.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Send window of one receiver: counts the bytes that are sent but not written to its socket, so that the
/// sender can apply backpressure.
///
/// ```
/// use std::sync::Arc;
/// use switchboard_transport::server::Flow;
///
/// let flow = Flow::new(Arc::default(), 64);
/// let first = flow.take(100);
/// let second = flow.take(20);
/// assert_eq!(flow.outstanding(), 120);
/// drop(first);
/// assert_eq!(flow.outstanding(), 20);
/// # drop(second);
/// ```
#[derive(Clone)]
pub struct Flow(Arc<Account>);

struct Account {
    outstanding: AtomicUsize,
    /// Total number of acknowledged bytes. Wraps around.
    returned: AtomicUsize,
    /// Number of acknowledged bytes per notification: waking a task for each line would cost more than
    /// sending it.
    step: usize,
    notify: Arc<Notify>,
}

impl Flow {
    /// Creates an empty window. `notify` is notified each time `step` more bytes are acknowledged, so a
    /// sender must resume while up to `step` bytes are still outstanding.
    pub fn new(notify: Arc<Notify>, step: usize) -> Self {
        let (outstanding, returned) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Flow(Arc::new(Account { outstanding, returned, step: step.max(1), notify }))
    }

    /// Adds bytes to the window. They are released when the returned value is dropped.
    pub fn take(&self, bytes: usize) -> Written {
        self.0.outstanding.fetch_add(bytes, Ordering::Relaxed);
        Written { account: Arc::clone(&self.0), bytes }
    }

    /// Returns the number of outstanding bytes.
    pub fn outstanding(&self) -> usize {
        self.0.outstanding.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Flow").field(&self.outstanding()).finish()
    }
}

/// Releases its bytes from a [`Flow`] when dropped: after the line was written to the socket or discarded.
pub struct Written {
    account: Arc<Account>,
    bytes: usize,
}

impl Drop for Written {
    fn drop(&mut self) {
        let Account { outstanding, returned, step, notify } = &*self.account;
        // Update the count before notifying, so that the woken sender sees the free space.
        outstanding.fetch_sub(self.bytes, Ordering::Relaxed);
        let before = returned.fetch_add(self.bytes, Ordering::Relaxed);
        // Notify only when a multiple of `step` is crossed.
        if before / step != before.wrapping_add(self.bytes) / step {
            notify.notify_one();
        }
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Written").field(&self.bytes).finish()
    }
}
