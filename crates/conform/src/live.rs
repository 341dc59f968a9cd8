//! Peers that run: scenarios with a fresh process each, judged by the same rules.
//!
//! [`judge_agent`] is the client of an agent. For a client, [`play_agent`] is the agent, and [`ClientJudge`] looks at what was said.

mod agent;
mod client;
mod client_log;
mod peer;

pub use agent::{AgentOptions, Scenario, judge_agent};
pub use client::{CLIENT_SCENARIOS, ClientScenario, is_played, play_agent};
pub use client_log::{ClientEnd, ClientJudge};
pub use peer::{Launch, Started};
