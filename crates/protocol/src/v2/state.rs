//! Whether a session is at work.

use crate::Text;
use crate::macros::{object, union};
use crate::rpc::RpcError;
use crate::v2::StopReason;
use crate::v2::unstable::Usage;

union! {
    /// The state of a session. An unknown state is not idle.
    StateUpdate by "state" {
        /// Foreground work goes on.
        Running(ActiveState<'a>) = "running",
        /// The whole of the foreground work waits for the user.
        RequiresAction(ActiveState<'a>) = "requires_action",
        /// There is no foreground work.
        Idle(IdleState<'a>) = "idle",
        /// The agent cannot tell. **Unstable.**
        Unobservable(ActiveState<'a>) = "unknown" @unstable,
    }
}

object! {
    /// A session at work.
    ActiveState {
        /// Work that goes on in the background.
        optional_whole background: Vec<BackgroundWork<'a>> = "background" @newest,
    } with optional _meta
}

object! {
    /// A session without foreground work.
    IdleState {
        /// Why the work ended; missing where no work did.
        optional stop_reason: StopReason = "stopReason",
        /// What failed, when the reason is `error`.
        optional error: Box<RpcError<'a>> = "error" @newest,
        /// How many tokens the work took. **Unstable.**
        optional usage: Box<Usage<'a>> = "usage" @unstable,
        /// Work that goes on in the background.
        optional_whole background: Vec<BackgroundWork<'a>> = "background" @newest,
    } with optional _meta
}

union! {
    /// Work that goes on in the background.
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
        /// The terminal.
        required terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}

object! {
    /// A tool call in the background.
    BackgroundToolCall {
        /// The call.
        required tool_call_id: Text<'a> = "toolCallId",
    } with optional _meta
}

object! {
    /// A sub-agent in the background. **Unstable.**
    BackgroundSubagent {
        /// The sub-agent's session.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}
