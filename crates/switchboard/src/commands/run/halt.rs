//! Early ends of a run.

use std::io;

use crate::ending::Stop;
use crate::outcome::{CommandError, Outcome, write_error};

/// Reason for an early end.
pub(super) enum Halt {
    Stop(Stop),
    Failed(CommandError),
}

impl Halt {
    pub(super) fn into_outcome(self) -> Result<Outcome, CommandError> {
        match self {
            Halt::Stop(stop) => Ok(Outcome::Stopped(stop)),
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
        // A closed pipe or terminal is not an error, but the agent must still be ended.
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::PIPE) => Halt::Stop(Stop::Interrupt),
            Some(rustix::io::Errno::IO) => Halt::Stop(Stop::HangUp),
            _ => Halt::Failed(write_error(error)),
        }
    }
}
