//! The handshake with an agent: how long it may take, and what is said when it fails.

use std::time::Duration;

use switchboard_peer::Error;
use switchboard_transport::Child;

use crate::units::parse_time;

/// What to do about an agent that takes longer.
pub(crate) const HINT: &str = "give an agent that is still being installed more time: --handshake-timeout 5m";

/// How long an agent may be silent at first.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct HandshakeArgument {
    /// How long the agent may take to answer the handshake: seconds, or with a unit as in 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "30s")]
    pub(crate) handshake_timeout: Duration,
}

/// Whether an agent failed because it did not answer in time.
pub(crate) fn is_too_late(error: &Error) -> bool {
    matches!(error, Error::Transport(switchboard_transport::Error::DeadlinePassed { .. }))
}

/// Why there is no conversation with an agent, with the last lines of its standard error.
pub(crate) async fn failure(error: &Error, child: &Child) -> String {
    match error {
        Error::Transport(switchboard_transport::Error::DeadlinePassed { after, .. }) => {
            let known = child.describe_end().await;
            format!("the agent did not answer the handshake within {after:?}; {known}")
        }
        // One that is gone says by itself how it ended.
        error => error.to_string(),
    }
}
