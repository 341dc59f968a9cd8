//! Errors of calls and connections. An error response of the peer is not among them: it is an
//! [`Answer`](crate::Answer).

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Exit;
use crate::decoration::plain;

/// Error of a call, a connection or a program start.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection is closed, or was closed while a response was pending.
    #[error("{0}")]
    Closed(Arc<Closure>),
    /// The peer did not respond in time. A cancellation was sent.
    #[error("no answer to {method} within {after:?}")]
    DeadlinePassed {
        /// Method of the call.
        method: String,
        /// Time limit.
        after: Duration,
    },
    /// The peer neither responded to nor aborted a cancelled request.
    #[error("no answer to {method} within {after:?} after it was cancelled")]
    CancelIgnored {
        /// Method of the call.
        method: String,
        /// Time since the cancellation.
        after: Duration,
    },
    /// The response exceeds the maximum message length.
    #[error("the answer to {method} has {length} bytes, over the limit of {limit}")]
    AnswerTooLong {
        /// Method of the call.
        method: String,
        /// Length of the response in bytes.
        length: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// The response is neither a result nor an error.
    #[error("the answer to {method} is malformed: {reason}")]
    AnswerMalformed {
        /// Method of the call.
        method: String,
        /// Reason.
        reason: String,
    },
    /// The limit of pending calls is reached.
    #[error("cannot send {method}: {limit} calls are already pending")]
    TooManyCalls {
        /// Method of the call.
        method: String,
        /// Maximum number of pending calls.
        limit: usize,
    },
    /// The program does not exist.
    #[error("{}", describe_missing(program, searched, not_executable.as_ref()))]
    ProgramNotFound {
        /// The program as given.
        program: String,
        /// Folders that were searched, or the one path that was tried.
        searched: Vec<PathBuf>,
        /// A file of that name that is not executable, if found.
        not_executable: Option<PathBuf>,
    },
    /// The working directory of the program does not exist.
    #[error("cannot start {program}: {} is not a folder", directory.display())]
    WorkingDirectoryMissing {
        /// The program as given.
        program: String,
        /// The folder.
        directory: PathBuf,
    },
    /// The program was to be confined, which is not possible. Nothing was started.
    #[error("the sandbox cannot be made: {reason}\n  nothing was started")]
    NotConfined {
        /// The program as given.
        program: String,
        /// Reason, perhaps with advice on further lines.
        reason: String,
    },
    /// The program exists, but the operating system could not start it.
    #[error("cannot start {program} ({}): {source}", path.display())]
    ProgramNotStarted {
        /// The program as given.
        program: String,
        /// Path of the file found.
        path: PathBuf,
        /// Error of the operating system.
        source: Arc<io::Error>,
    },
}

/// Reason why a connection is closed, with the state of the peer's process.
#[derive(Debug, Clone)]
pub struct Closure {
    /// Cause.
    pub cause: ClosureCause,
    /// State of the peer's process, if this process started it.
    pub process: Option<ProcessEnd>,
}

/// Cause of a closed connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ClosureCause {
    /// The peer's output ended.
    EndOfStream,
    /// Reading failed.
    ReadFailed(Arc<io::Error>),
    /// Writing failed.
    WriteFailed(Arc<io::Error>),
    /// The peer did not read for this long while data was queued.
    NotReading(Duration),
    /// The peer closed its input and cannot receive any more messages.
    InputClosed,
    /// This side closed the connection.
    ClosedHere,
}

/// State of the peer's process when the connection closes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProcessEnd {
    /// The program as given.
    pub program: String,
    /// Exit of the process. `None` while it runs.
    pub exit: Option<Exit>,
    /// Last lines of its standard error, oldest first, unmodified: they may contain terminal escapes.
    pub last_lines: Vec<String>,
    /// The address of the peer, where the process is only a relay to it. See `Program::relay_for`.
    pub relay_for: Option<String>,
}

impl fmt::Display for ClosureCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClosureCause::EndOfStream => formatter.write_str("the peer closed its output"),
            ClosureCause::ReadFailed(error) => write!(formatter, "reading from the peer failed: {error}"),
            ClosureCause::WriteFailed(error) => write!(formatter, "writing to the peer failed: {error}"),
            ClosureCause::NotReading(time) => write!(formatter, "the peer read nothing for {time:?}"),
            ClosureCause::InputClosed => formatter.write_str("the peer closed its input"),
            ClosureCause::ClosedHere => formatter.write_str("the connection was closed on this side"),
        }
    }
}

impl std::error::Error for ClosureCause {}

impl fmt::Display for Closure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = self.process.as_ref().and_then(ProcessEnd::relayed_reason) {
            return formatter.write_str(&reason);
        }
        self.cause.fmt(formatter)?;
        match &self.process {
            Some(process) => write!(formatter, "; {process}"),
            None => Ok(()),
        }
    }
}

/// Maximum length of a displayed line of standard error, in characters.
const SHOWN_LINE: usize = 300;

/// Formats the exit and the last lines of standard error as in [`ProcessEnd::shown_lines`].
impl fmt::Display for ProcessEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = self.relayed_reason() {
            return formatter.write_str(&reason);
        }
        let ProcessEnd { program, exit, last_lines, .. } = self;
        match exit {
            Some(exit) => write!(formatter, "{program} {exit}")?,
            None => write!(formatter, "{program} still runs")?,
        }
        if !last_lines.is_empty() {
            formatter.write_str("; the last lines of its standard error:")?;
        }
        for line in self.shown_lines() {
            write!(formatter, "\n    {line}")?;
        }
        Ok(())
    }
}

impl ProcessEnd {
    /// Returns why a relay has ended, in its own words and with the address of its peer. `None` for other processes, and for
    /// a relay that still runs or has written nothing.
    pub fn relayed_reason(&self) -> Option<String> {
        let address = self.relay_for.as_ref().filter(|_| self.exit.is_some())?;
        let lines = self.shown_lines();
        let is_message = |line: &String| line.starts_with("switchboard: ");
        let (first, hints) = match lines.iter().rposition(is_message) {
            Some(at) => (lines[at].trim_start_matches("switchboard: "), &lines[at + 1..]),
            None => (lines.last()?.trim(), &[][..]),
        };
        // Hints follow the message.
        let message = hints.iter().fold(first.to_owned(), |message, hint| format!("{message}\n{hint}"));
        Some(if message.contains(&**address) { message } else { format!("{address}: {message}") })
    }

    /// Returns the last lines of standard error without escapes and control characters, each truncated.
    pub fn shown_lines(&self) -> Vec<String> {
        let shown = |line: &String| {
            let line = plain(line);
            match line.char_indices().nth(SHOWN_LINE) {
                Some((end, _)) => format!("{}...", &line[..end]),
                None => line,
            }
        };
        self.last_lines.iter().map(shown).collect()
    }
}

fn describe_missing(program: &str, searched: &[PathBuf], not_executable: Option<&PathBuf>) -> String {
    use fmt::Write;
    let mut text = match not_executable {
        Some(path) => format!("program {program} cannot be run: {} is not executable; ", path.display()),
        None => format!("program {program} not found: "),
    };
    match searched {
        [] => text.push_str("the search path is empty"),
        [one] => {
            let _ = write!(text, "tried {}", one.display());
        }
        [folders @ .., last] => {
            text.push_str("searched ");
            for folder in folders {
                let _ = write!(text, "{}, ", folder.display());
            }
            let _ = write!(text, "{}", last.display());
        }
    }
    text
}
