//! Permission policy: rules that answer requests of agents before clients are asked.

use switchboard_acp::Raw;
use switchboard_session::Session;

/// Decision of a policy on a question.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyDecision {
    /// The rule, for the log: an object with the key `policy`, which is the name of a rule or null.
    pub by: serde_json::Value,
    /// The result for the agent, as JSON; `None` if clients are asked.
    pub result: Option<String>,
    /// The decision in one line, for clients that were not asked.
    pub notice: String,
}

/// A permission request of an agent, with the state of its session.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PermissionRequest<'r> {
    /// Parameters of the request, in version 2 and with the agent's own ids.
    pub params: &'r Raw<'r>,
    /// The session that asks, possibly that of a sub-agent. Includes the changes that the request makes to its tool
    /// call. It has the [outlines](switchboard_session::Snapshot::tool_call_outline) of tool calls, but no transcript.
    pub session: &'r Session,
    /// Working folder of the hub's session.
    pub folder: &'r str,
    /// Name from the agent's `agentInfo`.
    pub agent: Option<&'r str>,
}

/// A permission policy. Called on the hub's main task, so it must return quickly.
pub trait Policy: Send {
    /// Evaluates a request before clients are asked, and again whenever the rules change while it is pending. Returns
    /// `None` if there are no rules.
    fn evaluate(&mut self, request: &PermissionRequest<'_>) -> Option<PolicyDecision>;
}
