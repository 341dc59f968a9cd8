//! The pipe to a child, which tells when nobody reads it any more.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncWrite, Interest};
use tokio::net::unix::pipe;
use tokio::process::ChildStdin;

/// The standard input of a child. Dropped, it is closed.
#[derive(Debug)]
pub struct ChildInput {
    pipe: Arc<pipe::Sender>,
}

impl ChildInput {
    pub(super) fn new(input: ChildStdin) -> io::Result<Self> {
        let pipe = pipe::Sender::from_owned_fd(input.into_owned_fd()?)?;
        Ok(ChildInput { pipe: Arc::new(pipe) })
    }

    /// Waits until the child, and whoever inherited the pipe from it, has closed it. The pipe stays open as long as
    /// this is kept. Where the system does not tell, it is told by the next write alone.
    pub(crate) fn closed_by_child(&self) -> impl Future<Output = ()> + Send + use<> {
        let pipe = Arc::clone(&self.pipe);
        async move {
            // An error says that the runtime is shutting down: then there is nothing to wait for either.
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
