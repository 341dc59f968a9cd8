//! Pieces of tool calls.

use crate::macros::{object, open_enum};
use crate::shared::content::ContentBlock;
use crate::{AbsolutePath, LineNumber, Meta, Text};

open_enum! {
    /// What a tool does, as a hint for icons and display.
    ToolKind default Other {
        Read = "read",
        Edit = "edit",
        Delete = "delete",
        Move = "move",
        Search = "search",
        Execute = "execute",
        Think = "think",
        Fetch = "fetch",
        SwitchMode = "switch_mode",
        /// Anything else; also what a call is that never said.
        Other = "other",
    }
}

open_enum! {
    /// How far a tool call is.
    ToolCallStatus default Pending {
        /// Not started: its input is still streaming in, or it waits for approval. Also the default.
        Pending = "pending",
        InProgress = "in_progress",
        Paused = "paused" @newest,
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled" @newest,
    }
}

impl ToolCallStatus {
    /// Whether nothing more is to come. An unknown status counts as still at work.
    pub fn is_final(&self) -> bool {
        matches!(self, ToolCallStatus::Completed | ToolCallStatus::Failed | ToolCallStatus::Cancelled)
    }
}

object! {
    /// A file that a tool call works on.
    ToolCallLocation {
        required path: AbsolutePath<'a> = "path",
        optional line: LineNumber = "line",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A content block as an item of a tool call's content.
    Content {
        required content: ContentBlock<'a> = "content",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The place of a terminal among a tool call's content; its state comes in updates of its own.
    Terminal {
        required terminal_id: Text<'a> = "terminalId",
        optional meta: Meta<'a> = "_meta",
    }
}
