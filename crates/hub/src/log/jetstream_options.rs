//! Options and errors of logs on NATS servers.

use std::fmt;
use std::path::PathBuf;

/// Addresses and credentials of NATS servers.
#[derive(Clone, Default)]
pub struct JetStreamOptions {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`, several separated by commas.
    pub servers: String,
    /// The text of a NATS credentials file, `USER:PASSWORD`, or a token.
    pub credentials: Option<String>,
    /// A file with the certificates of the authority that signed the servers' certificates, if the system does not
    /// trust it.
    pub root_certificates: Option<PathBuf>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl fmt::Debug for JetStreamOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the credentials.
        formatter.debug_struct("JetStreamOptions").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// Error of a log on NATS servers, with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogError {
    /// The problem.
    pub problem: String,
    /// The remedy.
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
