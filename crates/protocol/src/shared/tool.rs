//! Parts of tool calls.

use crate::macros::{object, open_enum};
use crate::shared::content::ContentBlock;
use crate::{AbsolutePath, LineNumber, Text};

open_enum! {
    /// Kind of tool, as a hint for icons and display.
    ToolKind default Other {
        /// Reads files or data.
        Read = "read",
        /// Changes files or data.
        Edit = "edit",
        /// Removes files or data.
        Delete = "delete",
        /// Moves or renames files.
        Move = "move",
        /// Searches.
        Search = "search",
        /// Runs a command or code.
        Execute = "execute",
        /// Plans or reasons.
        Think = "think",
        /// Fetches external data.
        Fetch = "fetch",
        /// Changes the session's mode.
        SwitchMode = "switch_mode",
        /// Anything else. Also the default.
        Other = "other",
    }
}

open_enum! {
    /// Status of a tool call.
    ToolCallStatus default Pending {
        /// Not started: its input is still streaming in, or it waits for approval. Also the default.
        Pending = "pending",
        /// In progress.
        InProgress = "in_progress",
        /// Paused.
        Paused = "paused" @newest,
        /// Completed.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
        /// Cancelled before completion.
        Cancelled = "cancelled" @newest,
    }
}

impl ToolCallStatus {
    /// Returns true if the call has ended. An unknown status counts as in progress.
    pub fn is_final(&self) -> bool {
        matches!(self, ToolCallStatus::Completed | ToolCallStatus::Failed | ToolCallStatus::Cancelled)
    }
}

object! {
    /// A file that a tool call works on.
    ToolCallLocation {
        /// Path of the file.
        required path: AbsolutePath<'a> = "path",
        /// Line number, from 1.
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
    /// Position of a terminal within a tool call's content. Its state is sent in separate updates.
    Terminal {
        /// Id of the terminal to show.
        required terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}
