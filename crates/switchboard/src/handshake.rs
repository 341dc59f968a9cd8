//! Timeout and errors of an agent's handshake.

use std::time::Duration;

use switchboard_peer::Error;
use switchboard_transport::Child;

use crate::units::parse_time;

/// Advice for a slow agent.
pub(crate) const HINT: &str = "give an agent that is still being installed more time: --handshake-timeout 5m";

/// Timeout of the handshake.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct HandshakeArgument {
    /// Timeout for the agent's handshake: seconds, or with a unit as in 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "30s")]
    pub(crate) handshake_timeout: Duration,
}

/// Returns whether an agent failed because of the timeout.
pub(crate) fn is_too_late(error: &Error) -> bool {
    matches!(error, Error::Transport(switchboard_transport::Error::DeadlinePassed { .. }))
}

/// Returns the reason of a failed handshake, with the last lines of the agent's standard error.
pub(crate) async fn failure(error: &Error, child: &Child) -> String {
    match error {
        Error::Transport(switchboard_transport::Error::DeadlinePassed { after, .. }) => {
            let known = child.describe_end().await;
            format!("the agent did not answer the handshake within {after:?}; {known}")
        }
        // The error of an exited agent has its own explanation.
        error => error.to_string(),
    }
}
