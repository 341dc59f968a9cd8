//! Sub-agents in version 1. **Unstable.**

use crate::macros::{object, union};
use crate::rpc::RpcError;
use crate::v1::EmptyObject;
use crate::v1::unstable::{SubagentSessionCapabilities, Usage};
use crate::{AbsolutePath, Text};

object! {
    /// Announces a sub-agent's session, or updates its properties in its parent session. **Unstable.**
    SubagentUpdate {
        /// Id of the sub-agent's session. An unknown id announces a new sub-agent.
        required session_id: Text<'a> = "sessionId",
        /// Title of the sub-agent.
        patch title: Text<'a> = "title",
        /// Task of the sub-agent.
        patch description: Text<'a> = "description",
        /// Actions that the client can request for the sub-agent's session.
        patch capabilities: SubagentSessionCapabilities<'a> = "capabilities",
        /// State of the sub-agent. Cleared means unknown.
        patch state: StateUpdate<'a> = "state",
        /// Working directory of the sub-agent. Cleared means its parent's.
        patch cwd: AbsolutePath<'a> = "cwd",
        /// Additional directories of the sub-agent's workspace. Cleared means its parent's.
        patch additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
    } with patch _meta
}

union! {
    /// State of a sub-agent. An unknown state is not idle. **Unstable.**
    StateUpdate by "state" in both_versions {
        /// Running.
        Running(EmptyObject<'a>) = "running",
        /// Waiting for the user.
        RequiresAction(EmptyObject<'a>) = "requires_action",
        /// Idle.
        Idle(IdleState<'a>) = "idle",
        /// The agent cannot determine it.
        Unobservable(EmptyObject<'a>) = "unknown",
    }
}

object! {
    /// An idle sub-agent. **Unstable.**
    IdleState {
        /// Reason why the previous work ended: a value of [`StopReason`](crate::v1::StopReason), `error` or a
        /// custom one.
        optional stop_reason: Text<'a> = "stopReason",
        /// Error, if the reason is `error`.
        optional error: Box<RpcError<'a>> = "error",
        /// Token usage of the work.
        optional usage: Box<Usage<'a>> = "usage",
    } with optional _meta
}
