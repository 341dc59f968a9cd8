//! What can go wrong for a caller. An error answer of the peer is not among it: that is an
//! [`Answer`](crate::Answer).

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Exit;
use crate::decoration::plain;

/// Why something could not be done.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection is closed, or closed while an answer was awaited.
    #[error("{0}")]
    Closed(Arc<Closure>),
    /// The peer did not answer in time. It has been told that the answer is no longer wanted.
    #[error("no answer to {method} within {after:?}")]
    DeadlinePassed {
        /// The method that was called.
        method: String,
        /// The time that it had.
        after: Duration,
    },
    /// The peer neither answered nor gave up a request that was taken back.
    #[error("no answer to {method} within {after:?} after it was cancelled")]
    CancelIgnored {
        /// The method that was called.
        method: String,
        /// The time that it had since it was cancelled.
        after: Duration,
    },
    /// The answer came but was longer than a message may be.
    #[error("the answer to {method} has {length} bytes, over the limit of {limit}")]
    AnswerTooLong {
        /// The method that was called.
        method: String,
        /// How long the answer was.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The answer came but was neither a result nor an error.
    #[error("the answer to {method} is malformed: {reason}")]
    AnswerMalformed {
        /// The method that was called.
        method: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More calls are waiting for their answers than the options allow.
    #[error("{limit} calls are waiting for answers already, {method} cannot be sent")]
    TooManyCalls {
        /// The method that was called.
        method: String,
        /// How many may wait.
        limit: usize,
    },
    /// There is no such program.
    #[error("{}", describe_missing(program, searched, not_executable.as_ref()))]
    ProgramNotFound {
        /// The program as it was named.
        program: String,
        /// The folders that were searched, or the one path that was tried.
        searched: Vec<PathBuf>,
        /// A file of that name which is there but cannot be executed.
        not_executable: Option<PathBuf>,
    },
    /// The folder in which the program should run is not there.
    #[error("cannot start {program}: {} is not a folder", directory.display())]
    WorkingDirectoryMissing {
        /// The program as it was named.
        program: String,
        /// The folder.
        directory: PathBuf,
    },
    /// The program is there, but the system did not start it.
    #[error("cannot start {program} ({}): {source}", path.display())]
    ProgramNotStarted {
        /// The program as it was named.
        program: String,
        /// The file that was found for it.
        path: PathBuf,
        /// What the system says.
        source: Arc<io::Error>,
    },
}

/// Why a connection is closed, and what is known of the peer's end.
#[derive(Debug, Clone)]
pub struct Closure {
    /// What closed it.
    pub cause: ClosureCause,
    /// The process at the other end, where it is one that we started.
    pub process: Option<ProcessEnd>,
}

/// What closed a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ClosureCause {
    /// The peer's output ended.
    EndOfStream,
    /// Reading failed.
    ReadFailed(Arc<io::Error>),
    /// Writing failed.
    WriteFailed(Arc<io::Error>),
    /// The peer took nothing of what was to be written for so long.
    NotReading(Duration),
    /// The peer closed its input: it will not hear anything more.
    InputClosed,
    /// This side closed it.
    ClosedHere,
}

/// How the process at the other end stands when the connection closes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProcessEnd {
    /// The program as it was named.
    pub program: String,
    /// How it ended; `None` while it runs.
    pub exit: Option<Exit>,
    /// The last lines of its standard error, oldest first, as they came: they may hold terminal escapes.
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

/// How long a line of standard error is shown, in characters.
const SHOWN_LINE: usize = 300;

/// How it ended, and the last lines of its standard error as [`ProcessEnd::shown_lines`] has them.
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
        // Hints follow the message.
        let message = lines.iter().rev().find_map(|line| line.strip_prefix("switchboard: "));
        let message = message.or_else(|| lines.last().map(|line| line.trim()))?;
        Some(if message.contains(&**address) { message.to_owned() } else { format!("{address}: {message}") })
    }

    /// The last lines of standard error without escapes and control characters, each of a bearable length.
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
    let mut text = format!("there is no program {program}: ");
    if let Some(path) = not_executable {
        let _ = write!(text, "{} is there but cannot be executed; ", path.display());
    }
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
