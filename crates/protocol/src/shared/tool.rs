//! Pieces of tool calls.

use crate::macros::{object, open_enum};
use crate::shared::content::ContentBlock;
use crate::{AbsolutePath, LineNumber, Text};

open_enum! {
    /// What a tool does, as a hint for icons and display.
    ToolKind default Other {
        /// Reads files or data.
        Read = "read",
        /// Changes files or data.
        Edit = "edit",
        /// Removes files or data.
        Delete = "delete",
        /// Moves or renames files.
        Move = "move",
        /// Looks for something.
        Search = "search",
        /// Runs a command or code.
        Execute = "execute",
        /// Plans or reasons.
        Think = "think",
        /// Gets something from outside.
        Fetch = "fetch",
        /// Changes the session's mode.
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
        /// At work.
        InProgress = "in_progress",
        /// Stopped for now, to go on later.
        Paused = "paused" @newest,
        /// Done.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
        /// Called off before it was done.
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
        /// The file.
        required path: AbsolutePath<'a> = "path",
        /// The line in it, counted from 1.
        optional line: LineNumber = "line",
    } with optional _meta
}

impl<'a> From<AbsolutePath<'a>> for ToolCallLocation<'a> {
    fn from(path: AbsolutePath<'a>) -> Self {
        ToolCallLocation::new(path)
    }
}

object! {
    /// A content block as an item of a tool call's content.
    Content {
        /// The block.
        required content: ContentBlock<'a> = "content",
    } with optional _meta
}

object! {
    /// The place of a terminal among a tool call's content; its state comes in updates of its own.
    Terminal {
        /// The terminal to show here.
        required terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}
