//! Stub for logs on NATS servers in a build without the feature `jetstream`. No value of its types can be created.

use std::convert::Infallible;

use switchboard_store::Store;

use super::SharedLog;
use super::jetstream_options::{JetStreamOptions, LogError};

/// Logs on NATS servers, which this build does not support: it lacks the feature `jetstream`.
#[derive(Debug)]
pub struct JetStream(Infallible);

impl JetStream {
    /// Fails, because this build lacks the feature.
    // Asynchronous like the real function.
    #[allow(clippy::unused_async)]
    pub async fn connect(options: &JetStreamOptions) -> Result<Self, LogError> {
        Err(LogError::new(
            format!("cannot use the log at {}: this build has no support for NATS servers", options.servers),
            "build with `--features jetstream`, or use a released archive, which includes it",
        ))
    }

    /// Updates a store from the servers.
    #[allow(clippy::unused_async)]
    pub async fn catch_up(&self, _: &Store, _: impl FnMut(u64, u64) + Send) -> Result<(), LogError> {
        match self.0 {}
    }

    /// Returns the log of a hub.
    pub fn open(self, _: Store) -> SharedLog {
        match self.0 {}
    }

    /// Rebuilds the copy in a store from the servers.
    #[allow(clippy::unused_async)]
    pub async fn rebuild(&self, _: &Store, _: impl FnMut(u64, u64) + Send) -> Result<(), LogError> {
        match self.0 {}
    }

    /// Deletes a session on the servers and in the store, unless a hub owns it.
    #[allow(clippy::unused_async)]
    pub async fn delete_unwritten(&self, _: &Store, _: &str) -> Result<bool, LogError> {
        match self.0 {}
    }
}
