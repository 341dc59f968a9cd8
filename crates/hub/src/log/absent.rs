//! What stands in for the logs at NATS servers in a build without them: nobody gets as far as to have one.

use std::convert::Infallible;

use switchboard_store::Store;

use super::SharedLog;
use super::servers::{JetStreamOptions, LogError};

/// Logs at NATS servers, which this build cannot have: it is without the feature `jetstream`.
#[derive(Debug)]
pub struct JetStream(Infallible);

impl JetStream {
    /// Says that this build cannot.
    // As long as they are there, connecting takes time.
    #[allow(clippy::unused_async)]
    pub async fn connect(options: &JetStreamOptions) -> Result<Self, LogError> {
        Err(LogError::new(
            format!(
                "the log cannot be at {}: this build has nothing for NATS servers in it",
                options.servers
            ),
            "build it with `--features jetstream`, or take a released archive, which has it",
        ))
    }

    /// Brings a store up to what the servers have.
    #[allow(clippy::unused_async)]
    pub async fn catch_up(&self, _: &Store, _: impl FnMut(u64, u64) + Send) -> Result<(), LogError> {
        match self.0 {}
    }

    /// What a hub writes its logs with.
    pub fn open(self, _: Store) -> SharedLog {
        match self.0 {}
    }

    /// Makes the copy in a store anew from what the servers have.
    #[allow(clippy::unused_async)]
    pub async fn rebuild(&self, _: &Store, _: impl FnMut(u64, u64) + Send) -> Result<(), LogError> {
        match self.0 {}
    }

    /// Deletes a session, at the servers and in the store, unless a hub writes it.
    #[allow(clippy::unused_async)]
    pub async fn delete_unwritten(&self, _: &Store, _: &str) -> Result<bool, LogError> {
        match self.0 {}
    }
}
