//! Results of commands: an exit code, or an error for people with hints.

use std::fmt::Display;
use std::process::ExitCode;

use crate::ending::Stop;
use crate::standard_error;

/// Result of a command that ran to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success: exit code 0.
    Fine,
    /// Problems in the input: exit code 1.
    Problems,
    /// Nothing could be judged: exit code 4.
    NotJudged,
    /// The agent asked for a permission that was denied: exit code 5.
    PermissionDenied,
    /// The exit code of a program that was run.
    Exited(u8),
    /// A stop signal or timeout: see [`Stop::exit_code`].
    Stopped(Stop),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fine => ExitCode::SUCCESS,
            Outcome::Problems => ExitCode::from(1),
            Outcome::NotJudged => ExitCode::from(4),
            Outcome::PermissionDenied => ExitCode::from(5),
            Outcome::Exited(code) => ExitCode::from(code),
            Outcome::Stopped(stop) => ExitCode::from(stop.exit_code()),
        }
    }
}

/// Returns the error of standard output. A closed pipe is not reported.
// Taken by value for use with `map_err`.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn write_error(error: std::io::Error) -> CommandError {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    CommandError::failed(format!("cannot write the output: {error}"))
}

/// An error of a command.
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
    /// Returns a failure of the command: exit code 1.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        CommandError { exit_code: 1, message: message.into(), hints: Vec::new() }
    }

    /// Returns a usage error: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CommandError { exit_code: 2, message: message.into(), hints: Vec::new() }
    }

    /// Returns the error for a missing session: exit code 4.
    pub(crate) fn no_session(message: impl Into<String>) -> Self {
        CommandError { exit_code: 4, message: message.into(), hints: Vec::new() }
    }

    /// Returns the error for a sandbox that cannot be made: exit code 6.
    pub(crate) fn not_confined(message: impl Into<String>) -> Self {
        CommandError { exit_code: 6, message: message.into(), hints: Vec::new() }
    }

    /// Returns the error for a denied operation: exit code 5.
    pub(crate) fn denied(message: impl Into<String>) -> Self {
        CommandError { exit_code: 5, message: message.into(), hints: Vec::new() }
    }

    /// Adds a hint for the user.
    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// Prints the error on standard error and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        standard_error::say(format!("switchboard: {}", self.message));
        for hint in &self.hints {
            standard_error::say(format!("  hint: {hint}"));
        }
        ExitCode::from(self.exit_code)
    }
}
