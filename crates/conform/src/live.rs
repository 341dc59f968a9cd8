//! Live peers: scenarios with a fresh process each, checked against the same rules.
//!
//! [`check_agent`] acts as the client of an agent. For a client, [`play_agent`] acts as the agent, and
//! [`ClientChecker`] evaluates the logs.

mod agent;
mod client;
mod client_log;
mod peer;

pub use agent::{AgentOptions, Scenario, check_agent};
pub use client::{CLIENT_SCENARIOS, ClientScenario, is_played, play_agent};
pub use client_log::{ClientChecker, ClientEnd};
pub use peer::{Launch, Started};
