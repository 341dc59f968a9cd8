//! Rules that answer what an agent asks, before anybody is asked.

use switchboard_acp::Raw;
use switchboard_session::Session;

/// What was decided over a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// By what, for the log: an object with the key `policy`, which is the name of a rule or null.
    pub by: serde_json::Value,
    /// The result that the agent gets, as JSON; `None`: somebody is asked.
    pub result: Option<String>,
    /// What was decided, in one line, for those who were not asked.
    pub notice: String,
}

/// A permission request of an agent, with the state of the session that it belongs to.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PermissionRequest<'r> {
    /// The parameters of the request, in version 2 and with the agent's own ids.
    pub params: &'r Raw<'r>,
    /// The session that asks, which may be that of a sub-agent, with the tool call as the request has changed it. It has the
    /// [outlines](switchboard_session::Snapshot::tool_call_outline) of tool calls, and no transcript.
    pub session: &'r Session,
    /// The folder of the hub's session.
    pub folder: &'r str,
    /// The name that the agent has given itself.
    pub agent: Option<&'r str>,
}

/// Decides over what agents ask. It is called in the middle of the hub's work, so it must be quick.
pub trait Judge: Send {
    /// Evaluates a request before anybody is asked, and again after the rules have changed, for as long as it waits for an
    /// answer. `None`: there are no rules.
    fn evaluate(&mut self, request: &PermissionRequest<'_>) -> Option<Judgement>;
}
