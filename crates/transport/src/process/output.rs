//! A pipe from a child that ends when the child exits, even if another process keeps it open.

use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::ChildStdout;
use tokio::time::{Instant, Sleep, sleep};

use super::confinement::OutputListener;
use super::standard_error::StandardError;

/// Silence after which the pipe of an exited child counts as empty.
pub(super) const SILENCE: Duration = Duration::from_millis(100);

/// Standard output of a child.
///
/// A grandchild that inherited the pipe keeps it open for as long as it lives. Therefore this also ends when
/// the child has exited, after everything that the child had written, which is at most the pipe's capacity.
pub struct ChildOutput {
    pipe: ChildStdout,
    capacity: usize,
    state: Writer,
    /// Checked before each read, so that earlier lines of standard error are reported first.
    standard_error: Arc<StandardError>,
    listener: Option<OutputListener>,
}

enum Writer {
    Runs(Pin<Box<dyn Future<Output = ()> + Send>>),
    Gone { silence: Pin<Box<Sleep>>, left: usize },
}

impl ChildOutput {
    /// Creates the output. `exited` resolves when the child has exited.
    pub(super) fn new(
        pipe: ChildStdout,
        exited: impl Future<Output = ()> + Send + 'static,
        standard_error: Arc<StandardError>,
        listener: Option<OutputListener>,
    ) -> Self {
        let capacity = capacity(&pipe);
        ChildOutput { pipe, capacity, state: Writer::Runs(Box::pin(exited)), standard_error, listener }
    }
}

impl AsyncRead for ChildOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.standard_error.look();
        if let Writer::Runs(exited) = &mut this.state
            && exited.as_mut().poll(context).is_ready()
        {
            this.state = Writer::Gone { silence: Box::pin(sleep(SILENCE)), left: this.capacity };
        }
        if matches!(this.state, Writer::Gone { left: 0, .. }) {
            return Poll::Ready(Ok(()));
        }
        let filled = buffer.filled().len();
        if let Poll::Ready(outcome) = Pin::new(&mut this.pipe).poll_read(context, buffer) {
            if let Some(listener) = &mut this.listener {
                listener(&buffer.filled()[filled..]);
            }
            if let Writer::Gone { silence, left } = &mut this.state {
                *left = left.saturating_sub(buffer.filled().len() - filled);
                silence.as_mut().reset(Instant::now() + SILENCE);
            }
            return Poll::Ready(outcome);
        }
        if let Writer::Gone { silence, left } = &mut this.state {
            ready!(silence.as_mut().poll(context));
            *left = 0;
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

impl fmt::Debug for ChildOutput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ChildOutput").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// Returns the capacity of a pipe, or the maximum if the system does not report it.
pub(super) fn capacity(pipe: &impl AsFd) -> usize {
    const MOST: usize = 1024 * 1024;
    #[cfg(target_os = "linux")]
    return rustix::pipe::fcntl_getpipe_size(pipe).unwrap_or(MOST);
    #[cfg(not(target_os = "linux"))]
    return MOST;
}
