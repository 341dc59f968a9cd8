//! Where a hub keeps its logs: in its store alone, or at NATS servers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use switchboard_hub::{HAS_JETSTREAM, JetStream, JetStreamOptions, LogError, SharedLog};
use switchboard_store::Store;
use tokio::runtime::Handle;

use crate::outcome::CommandError;
use crate::store_file;

/// The environment variable with what lets in at the NATS servers.
pub(crate) const CREDENTIALS: &str = "SWITCHBOARD_LOG_CREDENTIALS";

#[derive(Debug, clap::Args)]
pub(crate) struct LogArguments {
    /// Keep the logs of the sessions at NATS servers with JetStream, where other hubs can go on with them; several
    /// addresses with commas between them. The store then has a copy
    #[arg(long, value_name = "nats://HOST:PORT", hide = !HAS_JETSTREAM)]
    log: Option<String>,

    /// A file that lets in there: NATS credentials, USER:PASSWORD, or a token; else what SWITCHBOARD_LOG_CREDENTIALS says
    #[arg(long, value_name = "FILE", requires = "log", hide = !HAS_JETSTREAM)]
    log_credentials: Option<PathBuf>,

    /// Certificates in PEM of who signed those of the NATS servers
    #[arg(long, value_name = "FILE", requires = "log", hide = !HAS_JETSTREAM)]
    log_ca: Option<PathBuf>,
}

/// How often it is told how far the store is.
const PROGRESS: Duration = Duration::from_secs(2);

impl LogArguments {
    /// Where the logs are to be.
    pub(crate) fn place(&self) -> Result<LogPlace, CommandError> {
        let Some(servers) = self.log.clone() else { return Ok(LogPlace(None)) };
        let unreadable = |file: &Path, error: std::io::Error| {
            CommandError::usage(format!("cannot read {}: {error}", file.display()))
        };
        let credentials = match &self.log_credentials {
            Some(file) => Some(std::fs::read_to_string(file).map_err(|error| unreadable(file, error))?),
            None => std::env::var(CREDENTIALS).ok(),
        };
        if let Some(file) = &self.log_ca {
            std::fs::File::open(file).map_err(|error| unreadable(file, error))?;
        }
        let root_certificates = self.log_ca.clone();
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
    /// Opens the store. What is beyond the limits of the configuration is deleted where the logs are.
    pub(crate) fn open_store(&self, place: PathBuf) -> Result<Store, CommandError> {
        match &self.0 {
            Some(_) => store_file::open(place),
            None => store_file::open_for_hub(place),
        }
    }

    /// The servers, where there are any.
    pub(crate) async fn connect(&self) -> Result<Option<JetStream>, CommandError> {
        let Some(options) = &self.0 else { return Ok(None) };
        JetStream::connect(options).await.map(Some).map_err(log_error)
    }

    /// The logs, if they are not in the store alone.
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
                say(&format!("the store is brought up to the log: {done} of {all} messages"));
            }
        };
        servers.catch_up(store, progress).await.map_err(log_error)?;
        // It waits for the store and for the servers by turns.
        let deleted = tokio::task::block_in_place(|| {
            store_file::prune_for_more(store, |id| {
                Handle::current().block_on(servers.delete_unwritten(store, id)).map_err(log_error)
            })
        })?;
        if deleted > 0 {
            say(&format!("{deleted} old sessions were deleted, as the configuration says"));
        }
        Ok(Some(servers.open(store.clone())))
    }
}

// Taken by value because that is how `map_err` hands it over.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn log_error(error: LogError) -> CommandError {
    CommandError::failed(error.problem).hint(error.hint)
}
