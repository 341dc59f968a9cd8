//! How much one receiver has not taken yet.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts the bytes that one receiver has not taken yet, so that whoever sends can stop before too much waits.
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
    /// How many have come back in all; it may begin anew.
    returned: AtomicUsize,
    /// After how many of them somebody is told: waking a task for each line would cost more than sending it.
    step: usize,
    notify: Arc<Notify>,
}

impl Flow {
    /// An account on which nothing is outstanding. `notify` hears each time that `step` more bytes have come back: whoever
    /// waits for room must not need the last `step` of what is outstanding.
    pub fn new(notify: Arc<Notify>, step: usize) -> Self {
        let (outstanding, returned) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Flow(Arc::new(Account { outstanding, returned, step: step.max(1), notify }))
    }

    /// Notes that so many bytes are on their way. They come back when what this gives is dropped.
    pub fn take(&self, bytes: usize) -> Written {
        self.0.outstanding.fetch_add(bytes, Ordering::Relaxed);
        Written { account: Arc::clone(&self.0), bytes }
    }

    /// How many bytes are on their way.
    pub fn outstanding(&self) -> usize {
        self.0.outstanding.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Flow").field(&self.outstanding()).finish()
    }
}

/// Gives its bytes back to its [`Flow`] when it is dropped: after the line was written to the socket, or discarded.
pub struct Written {
    account: Arc<Account>,
    bytes: usize,
}

impl Drop for Written {
    fn drop(&mut self) {
        let Account { outstanding, returned, step, notify } = &*self.account;
        outstanding.fetch_sub(self.bytes, Ordering::Relaxed);
        let before = returned.fetch_add(self.bytes, Ordering::Relaxed);
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
