//! Location of a hub's logs: only its store, or NATS servers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use switchboard_hub::{HAS_JETSTREAM, JetStream, JetStreamOptions, LogError, SharedLog};
use switchboard_store::Store;
use tokio::runtime::Handle;

use crate::outcome::CommandError;
use crate::store_file;

/// The environment variable with the credentials for the NATS servers.
pub(crate) const CREDENTIALS: &str = "SWITCHBOARD_LOG_CREDENTIALS";

#[derive(Debug, clap::Args)]
pub(crate) struct LogArguments {
    /// Keep session logs on NATS servers with JetStream, where other hubs can continue them; separate several
    /// addresses with commas. The store then has a copy
    #[arg(long, value_name = "nats://HOST:PORT", alias = "log", hide = !HAS_JETSTREAM)]
    session_log: Option<String>,

    /// File with NATS credentials, USER:PASSWORD, or a token; default: the variable
    /// SWITCHBOARD_LOG_CREDENTIALS
    #[arg(long, value_name = "FILE", alias = "log-credentials", requires = "session_log", hide = !HAS_JETSTREAM)]
    session_log_credentials: Option<PathBuf>,

    /// CA certificates of the NATS servers in PEM
    #[arg(long, value_name = "FILE", alias = "log-ca", requires = "session_log", hide = !HAS_JETSTREAM)]
    session_log_ca: Option<PathBuf>,
}

/// Interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(2);

impl LogArguments {
    /// Returns the location of the logs.
    pub(crate) fn place(&self) -> Result<LogPlace, CommandError> {
        let Some(servers) = self.session_log.clone() else { return Ok(LogPlace(None)) };
        let unreadable = |file: &Path, error: std::io::Error| {
            CommandError::usage(format!("cannot read {}: {error}", file.display()))
        };
        let credentials = match &self.session_log_credentials {
            Some(file) => Some(std::fs::read_to_string(file).map_err(|error| unreadable(file, error))?),
            None => std::env::var(CREDENTIALS).ok(),
        };
        if let Some(file) = &self.session_log_ca {
            std::fs::File::open(file).map_err(|error| unreadable(file, error))?;
        }
        let root_certificates = self.session_log_ca.clone();
        Ok(LogPlace(Some(JetStreamOptions {
            servers,
            credentials,
            root_certificates,
            more: switchboard_acp::More,
        })))
    }
}

/// The store, or these servers.
#[derive(Debug)]
pub(crate) struct LogPlace(Option<JetStreamOptions>);

impl LogPlace {
    /// Opens the store. Sessions above the limits of the configuration are deleted where the logs are.
    pub(crate) fn open_store(&self, place: PathBuf) -> Result<Store, CommandError> {
        match &self.0 {
            Some(_) => store_file::open(place),
            None => store_file::open_for_hub(place),
        }
    }

    /// Connects to the servers, if any.
    pub(crate) async fn connect(&self) -> Result<Option<JetStream>, CommandError> {
        let Some(options) = &self.0 else { return Ok(None) };
        JetStream::connect(options).await.map(Some).map_err(log_error)
    }

    /// Opens the logs, unless they are only in the store.
    pub(crate) async fn open(
        self,
        store: &Store,
        mut say: impl FnMut(&str) + Send,
    ) -> Result<Option<SharedLog>, CommandError> {
        let Some(servers) = self.connect().await? else { return Ok(None) };
        let mut told = Instant::now();
        let progress = |done: u64, all: u64| {
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                say(&format!("catching up with the log: {done} of {all} messages"));
            }
        };
        servers.catch_up(store, progress).await.map_err(log_error)?;
        // It waits for the store and the servers alternately.
        let deleted = tokio::task::block_in_place(|| {
            store_file::prune_for_more(store, |id| {
                Handle::current().block_on(servers.delete_unwritten(store, id)).map_err(log_error)
            })
        })?;
        if deleted > 0 {
            say(&format!("deleted {deleted} old sessions according to the store settings"));
        }
        Ok(Some(servers.open(store.clone())))
    }
}

// Taken by value for use with `map_err`.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn log_error(error: LogError) -> CommandError {
    CommandError::failed(error.problem).hint(error.hint)
}
