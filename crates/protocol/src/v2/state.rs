//! State of a session.

use crate::Text;
use crate::macros::{object, union};
use crate::rpc::RpcError;
use crate::v2::StopReason;
use crate::v2::unstable::Usage;

union! {
    /// The state of a session. An unknown state is not idle.
    StateUpdate by "state" {
        /// Foreground work is running.
        Running(ActiveState<'a>) = "running",
        /// All foreground work waits for the user.
        RequiresAction(ActiveState<'a>) = "requires_action",
        /// No foreground work.
        Idle(IdleState<'a>) = "idle",
        /// The agent cannot determine it. **Unstable.**
        Unobservable(ActiveState<'a>) = "unknown" @unstable,
    }
}

object! {
    /// An active session.
    ActiveState {
        /// Background work.
        optional_whole background: Vec<BackgroundWork<'a>> = "background" @newest,
    } with optional _meta
}

object! {
    /// A session without foreground work.
    IdleState {
        /// Reason why the work ended. Missing if no work ended.
        optional stop_reason: StopReason = "stopReason",
        /// Error, if the reason is `error`.
        optional error: Box<RpcError<'a>> = "error" @newest,
        /// Token usage of the work. **Unstable.**
        optional usage: Box<Usage<'a>> = "usage" @unstable,
        /// Background work.
        optional_whole background: Vec<BackgroundWork<'a>> = "background" @newest,
    } with optional _meta
}

union! {
    /// Background work.
    BackgroundWork by "type" {
        /// A command in a terminal.
        Terminal(BackgroundTerminal<'a>) = "terminal",
        /// A tool call.
        ToolCall(BackgroundToolCall<'a>) = "tool_call",
        /// A sub-agent. **Unstable.**
        Subagent(BackgroundSubagent<'a>) = "subagent" @unstable,
    }
}

object! {
    /// A terminal in the background.
    BackgroundTerminal {
        /// Id of the terminal.
        required terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}

object! {
    /// A tool call in the background.
    BackgroundToolCall {
        /// Id of the tool call.
        required tool_call_id: Text<'a> = "toolCallId",
    } with optional _meta
}

object! {
    /// A sub-agent in the background. **Unstable.**
    BackgroundSubagent {
        /// Id of the sub-agent's session.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}
