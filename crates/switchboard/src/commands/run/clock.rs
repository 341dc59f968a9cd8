//! What ends a run before its time.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::outcome::{CommandError, Outcome, write_error};
use crate::stdio;

/// Why the work is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Interrupted,
    Timeout,
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Interrupted => Outcome::Interrupted,
            Stop::Timeout => Outcome::Timeout,
        }
    }
}

/// What ends the run before its time.
pub(super) enum Halt {
    Stop(Stop),
    Failed(CommandError),
}

impl From<CommandError> for Halt {
    fn from(error: CommandError) -> Self {
        Halt::Failed(error)
    }
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        // A reader that has seen enough is no reason to complain, but the agent must be ended all the same.
        if error.kind() == io::ErrorKind::BrokenPipe {
            Halt::Stop(Stop::Interrupted)
        } else {
            Halt::Failed(write_error(error))
        }
    }
}

/// Interruptions by the user, and the end of the time.
pub(super) struct Clock {
    interrupt: Signal,
    terminate: Signal,
    pub(super) deadline: Option<Instant>,
}

impl Clock {
    pub(super) fn start(timeout: Option<Duration>) -> Result<Self, CommandError> {
        let failed = |error: io::Error| CommandError::failed(format!("cannot listen for signals: {error}"));
        Ok(Clock {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        })
    }

    pub(super) async fn next(&mut self) -> Stop {
        let deadline = self.deadline;
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupted,
            _ = self.terminate.recv() => Stop::Interrupted,
            () = stdio::sleep_until(deadline) => Stop::Timeout,
        }
    }
}
