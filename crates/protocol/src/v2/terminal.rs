//! Terminals that the agent owns and the client shows.

use std::num::NonZeroU16;

use crate::macros::object;
use crate::v2::CancelCapabilities;
use crate::{AbsolutePath, Base64, Text};

object! {
    /// Creates or changes a terminal.
    TerminalUpdate {
        /// Id of the terminal. An unknown id creates a terminal.
        required terminal_id: Text<'a> = "terminalId",
        /// Command line.
        patch command: Text<'a> = "command",
        /// Working directory.
        patch cwd: AbsolutePath<'a> = "cwd",
        /// Complete output so far. Replaces appended chunks.
        patch output: TerminalOutput<'a> = "output",
        /// Exit status. Set once the process has ended.
        patch exit_status: TerminalExitStatus<'a> = "exitStatus",
        /// Size of the screen.
        patch size: TerminalSize<'a> = "size",
        /// Actions that the client can request for it.
        patch capabilities: CancelCapabilities<'a> = "capabilities",
    } with patch _meta
}

object! {
    /// Output as bytes.
    TerminalOutput {
        /// The bytes.
        required data: Base64<'a> = "data",
    } with optional _meta
}

object! {
    /// Exit status of a process.
    TerminalExitStatus {
        /// Exit code.
        optional exit_code: i64 = "exitCode",
        /// Signal that terminated it.
        optional signal: Text<'a> = "signal",
    } with optional _meta
}

object! {
    /// Columns and rows of a terminal.
    TerminalSize {
        /// Number of characters per line.
        required cols: NonZeroU16 = "cols",
        /// Number of lines.
        required rows: NonZeroU16 = "rows",
    } with optional _meta
}

object! {
    /// Appends bytes to a terminal's output. A chunk may end inside a character or an escape sequence.
    TerminalOutputChunk {
        /// Id of the terminal.
        required terminal_id: Text<'a> = "terminalId",
        /// The bytes to append.
        required data: Base64<'a> = "data",
    } with optional _meta
}
