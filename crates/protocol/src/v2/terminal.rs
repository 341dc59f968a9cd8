//! Terminals that the agent owns and the client shows.

use std::num::NonZeroU16;

use crate::macros::object;
use crate::v2::CancelCapabilities;
use crate::{AbsolutePath, Base64, Meta, Text};

object! {
    /// Creates a terminal or changes one that is there.
    TerminalUpdate {
        required terminal_id: Text<'a> = "terminalId",
        patch command: Text<'a> = "command",
        patch cwd: AbsolutePath<'a> = "cwd",
        /// All output so far; replaces what chunks have brought.
        patch output: TerminalOutput<'a> = "output",
        /// Once there, the process has ended.
        patch exit_status: TerminalExitStatus<'a> = "exitStatus",
        patch size: TerminalSize<'a> = "size",
        patch capabilities: CancelCapabilities<'a> = "capabilities",
        patch meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Output as bytes.
    TerminalOutput {
        required data: Base64<'a> = "data",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// How a process ended.
    TerminalExitStatus {
        optional exit_code: i64 = "exitCode",
        optional signal: Text<'a> = "signal",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Columns and rows of a terminal.
    TerminalSize {
        required cols: NonZeroU16 = "cols",
        required rows: NonZeroU16 = "rows",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Appends bytes to a terminal's output. A chunk may end inside a character or an escape sequence.
    TerminalOutputChunk {
        required terminal_id: Text<'a> = "terminalId",
        required data: Base64<'a> = "data",
        optional meta: Meta<'a> = "_meta",
    }
}
