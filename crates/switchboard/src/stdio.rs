//! Standard input and output for the protocol, and the async runtime.

use std::fs::File;
use std::os::fd::AsFd;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;
use tokio::runtime::Builder;

use crate::outcome::CommandError;

/// Runs a command on a single-threaded runtime.
pub(crate) fn run_alone<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    run_on(&mut Builder::new_current_thread(), command)
}

/// Runs a command. A pending read of standard input does not delay its end.
pub(crate) fn run_on<T>(
    runtime: &mut Builder,
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = runtime.enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::failed(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background();
    outcome
}

/// Returns standard input, without a thread of its own if it is a pipe.
pub(crate) fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    let pipe =
        std::io::stdin().as_fd().try_clone_to_owned().map(File::from).and_then(pipe::Receiver::from_file);
    match pipe {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

/// Returns standard output, without a thread of its own if it is a pipe.
pub(crate) fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let pipe =
        std::io::stdout().as_fd().try_clone_to_owned().map(File::from).and_then(pipe::Sender::from_file);
    match pipe {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}

/// Waits until a time; forever without one.
pub(crate) async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
