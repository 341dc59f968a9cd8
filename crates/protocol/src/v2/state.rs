//! Whether a session is at work.

use crate::macros::{object, union};
use crate::rpc::RpcError;
use crate::v2::StopReason;
use crate::{Meta, Text};

union! {
    /// The state of a session. An unknown state is not idle.
    StateUpdate by "state" {
        Running(ActiveState<'a>) = "running",
        /// The whole of the foreground work waits for the user.
        RequiresAction(ActiveState<'a>) = "requires_action",
        Idle(IdleState<'a>) = "idle",
    }
}

object! {
    /// A session at work.
    ActiveState {
        optional_whole background: Vec<BackgroundWork<'a>> = "background" @newest,
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A session without foreground work.
    IdleState {
        /// Why the work ended; missing where no work did.
        optional stop_reason: StopReason = "stopReason",
        /// What failed, when the reason is `error`.
        optional error: Box<RpcError<'a>> = "error" @newest,
        optional_whole background: Vec<BackgroundWork<'a>> = "background" @newest,
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// Work that goes on in the background.
    BackgroundWork by "type" {
        Terminal(BackgroundTerminal<'a>) = "terminal",
        ToolCall(BackgroundToolCall<'a>) = "tool_call",
    }
}

object! {
    /// A terminal in the background.
    BackgroundTerminal {
        required terminal_id: Text<'a> = "terminalId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A tool call in the background.
    BackgroundToolCall {
        required tool_call_id: Text<'a> = "toolCallId",
        optional meta: Meta<'a> = "_meta",
    }
}
