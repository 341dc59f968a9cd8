//! Sub-agents in version 1. **Unstable.**

use crate::macros::{object, union};
use crate::rpc::RpcError;
use crate::v1::EmptyObject;
use crate::v1::unstable::{SubagentSessionCapabilities, Usage};
use crate::{AbsolutePath, Text};

object! {
    /// Announces the session of a sub-agent, or changes what the session that started it tells of it. **Unstable.**
    SubagentUpdate {
        /// The session of the sub-agent; one that was not heard of yet is new.
        required session_id: Text<'a> = "sessionId",
        /// What people know the sub-agent by.
        patch title: Text<'a> = "title",
        /// What the sub-agent is for.
        patch description: Text<'a> = "description",
        /// What the client may ask of the sub-agent's session by itself.
        patch capabilities: SubagentSessionCapabilities<'a> = "capabilities",
        /// Whether the sub-agent is at work. Cleared: not known.
        patch state: StateUpdate<'a> = "state",
        /// The directory that the sub-agent works in; cleared: that of the session that started it.
        patch cwd: AbsolutePath<'a> = "cwd",
        /// More directories of the sub-agent's workspace; cleared: those of the session that started it.
        patch additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
    } with patch _meta
}

union! {
    /// Whether a sub-agent is at work. A state that is not known is not idle. **Unstable.**
    StateUpdate by "state" in both_versions {
        /// It is at work.
        Running(EmptyObject<'a>) = "running",
        /// It waits for the user.
        RequiresAction(EmptyObject<'a>) = "requires_action",
        /// It is ready for more work.
        Idle(IdleState<'a>) = "idle",
        /// The agent cannot tell.
        Unobservable(EmptyObject<'a>) = "unknown",
    }
}

object! {
    /// A sub-agent that is ready for more work. **Unstable.**
    IdleState {
        /// Why the work before ended, with the words of [`StopReason`](crate::v1::StopReason), `error` or one's own.
        optional stop_reason: Text<'a> = "stopReason",
        /// What failed, when the reason is `error`.
        optional error: Box<RpcError<'a>> = "error",
        /// How many tokens the work took.
        optional usage: Box<Usage<'a>> = "usage",
    } with optional _meta
}
