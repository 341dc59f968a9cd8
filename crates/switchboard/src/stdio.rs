//! Standard input and output, for who speaks the protocol on them.

use std::fs::File;
use std::os::fd::AsFd;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;

/// Standard input, without a thread of its own where it is a pipe.
pub(crate) fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    let pipe =
        std::io::stdin().as_fd().try_clone_to_owned().map(File::from).and_then(pipe::Receiver::from_file);
    match pipe {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

/// Standard output, in the same way.
pub(crate) fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let pipe =
        std::io::stdout().as_fd().try_clone_to_owned().map(File::from).and_then(pipe::Sender::from_file);
    match pipe {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}

/// Waits until a time; forever when there is none.
pub(crate) async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
