//! The pipe to a child, which detects that it is no longer read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncWrite, Interest};
use tokio::net::unix::pipe;
use tokio::process::ChildStdin;

/// Standard input of a child. Closed when dropped.
#[derive(Debug)]
pub struct ChildInput {
    pipe: Arc<pipe::Sender>,
}

impl ChildInput {
    pub(super) fn new(input: ChildStdin) -> io::Result<Self> {
        let pipe = pipe::Sender::from_owned_fd(input.into_owned_fd()?)?;
        Ok(ChildInput { pipe: Arc::new(pipe) })
    }

    /// Waits until the child and all processes that inherited the pipe have closed it. Keeps the pipe open.
    /// On systems that do not report this, only the next write does.
    pub(crate) fn closed_by_child(&self) -> impl Future<Output = ()> + Send + use<> {
        let pipe = Arc::clone(&self.pipe);
        async move {
            // An error means that the runtime is shutting down: nothing to wait for either.
            drop(pipe.ready(Interest::ERROR).await);
        }
    }
}

impl AsyncWrite for ChildInput {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.pipe.poll_write_ready(context))?;
            match self.pipe.try_write(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
