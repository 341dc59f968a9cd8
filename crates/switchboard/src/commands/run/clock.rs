//! What ends a run before its time.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

use crate::outcome::{CommandError, Outcome, write_error};
use crate::signals::{EndSignal, Signals};
use crate::stdio;

/// Why the work is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody told us to end.
    Told(EndSignal),
    Timeout,
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Told(signal) => Outcome::Signalled(signal),
            Stop::Timeout => Outcome::Timeout,
        }
    }
}

/// What ends the run before its time.
pub(super) enum Halt {
    Stop(Stop),
    Failed(CommandError),
}

impl Halt {
    pub(super) fn into_outcome(self) -> Result<Outcome, CommandError> {
        match self {
            Halt::Stop(stop) => Ok(stop.into()),
            Halt::Failed(error) => Err(error),
        }
    }
}

impl From<CommandError> for Halt {
    fn from(error: CommandError) -> Self {
        Halt::Failed(error)
    }
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        // A reader that has seen enough is no reason to complain, nor is a terminal that is gone; but the agent must be
        // ended all the same.
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::PIPE) => Halt::Stop(Stop::Told(EndSignal::Interrupt)),
            Some(rustix::io::Errno::IO) => Halt::Stop(Stop::Told(EndSignal::HangUp)),
            _ => Halt::Failed(write_error(error)),
        }
    }
}

/// Signals that tell us to end, and the end of the time.
pub(super) struct Clock {
    signals: Signals,
    pub(super) deadline: Option<Instant>,
}

impl Clock {
    pub(super) fn start(timeout: Option<Duration>) -> Result<Self, CommandError> {
        Ok(Clock {
            signals: Signals::listen()?,
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        })
    }

    pub(super) async fn next(&mut self) -> Stop {
        let deadline = self.deadline;
        tokio::select! {
            signal = self.signals.next() => Stop::Told(signal),
            () = stdio::sleep_until(deadline) => Stop::Timeout,
        }
    }
}
