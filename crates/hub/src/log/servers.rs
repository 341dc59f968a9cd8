//! How NATS servers are named, and what can be wrong with them.

use std::fmt;
use std::path::PathBuf;

/// Where NATS servers are, and how to get in.
#[derive(Clone, Default)]
pub struct JetStreamOptions {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`, several with commas between them.
    pub servers: String,
    /// The text of a NATS credentials file, `USER:PASSWORD`, or a token.
    pub credentials: Option<String>,
    /// A file with the certificates of who signed the servers', where the system does not know them.
    pub root_certificates: Option<PathBuf>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl fmt::Debug for JetStreamOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nobody prints a secret by mistake.
        formatter.debug_struct("JetStreamOptions").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// Why the servers cannot keep the logs, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogError {
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub hint: String,
}

impl LogError {
    pub(super) fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        LogError { problem: problem.into(), hint: hint.into() }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.problem)
    }
}

impl std::error::Error for LogError {}
