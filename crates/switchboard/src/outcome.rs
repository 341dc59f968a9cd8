//! How a command ends: an exit code, or an error for a person with hints on what to do next.

use std::fmt::Display;
use std::process::ExitCode;

use crate::ending::Stop;
use crate::standard_error;

/// The way a command that ran to its end came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything is fine: exit code 0.
    Fine,
    /// It ran and found problems in its input: exit code 1.
    Problems,
    /// There was nothing to judge by: exit code 4.
    NotJudged,
    /// The agent asked for a permission that was denied: exit code 5.
    PermissionDenied,
    /// It was told to end, or its time was over: see [`Stop::exit_code`].
    Stopped(Stop),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fine => ExitCode::SUCCESS,
            Outcome::Problems => ExitCode::from(1),
            Outcome::NotJudged => ExitCode::from(4),
            Outcome::PermissionDenied => ExitCode::from(5),
            Outcome::Stopped(stop) => ExitCode::from(stop.exit_code()),
        }
    }
}

/// Standard output cannot be written. A reader that has seen enough is no reason to complain.
// Taken by value because that is how `map_err` hands it over.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn write_error(error: std::io::Error) -> CommandError {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    CommandError::failed(format!("cannot write the output: {error}"))
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) struct CommandError {
    exit_code: u8,
    message: String,
    hints: Vec<String>,
}

impl Display for CommandError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl CommandError {
    /// The command ran and met a problem that ends it: exit code 1.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        CommandError { exit_code: 1, message: message.into(), hints: Vec::new() }
    }

    /// The command line or what it names does not make sense: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CommandError { exit_code: 2, message: message.into(), hints: Vec::new() }
    }

    /// There is no session to work in: exit code 4.
    pub(crate) fn no_session(message: impl Into<String>) -> Self {
        CommandError { exit_code: 4, message: message.into(), hints: Vec::new() }
    }

    /// Somebody else does not allow it: exit code 5.
    pub(crate) fn denied(message: impl Into<String>) -> Self {
        CommandError { exit_code: 5, message: message.into(), hints: Vec::new() }
    }

    /// Adds a line that says what the user can do about it.
    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// Prints the error on standard error and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        standard_error::say(format!("switchboard: {}", self.message));
        for hint in &self.hints {
            standard_error::say(format!("  hint: {hint}"));
        }
        ExitCode::from(self.exit_code)
    }
}
