//! Terminals that the agent owns and the client shows.

use std::num::NonZeroU16;

use crate::macros::object;
use crate::v2::CancelCapabilities;
use crate::{AbsolutePath, Base64, Text};

object! {
    /// Creates a terminal or changes one that is there.
    TerminalUpdate {
        /// The terminal; one that was not heard of yet is new.
        required terminal_id: Text<'a> = "terminalId",
        /// The command line that runs in it.
        patch command: Text<'a> = "command",
        /// The directory that the command runs in.
        patch cwd: AbsolutePath<'a> = "cwd",
        /// All output so far; replaces what chunks have brought.
        patch output: TerminalOutput<'a> = "output",
        /// Once there, the process has ended.
        patch exit_status: TerminalExitStatus<'a> = "exitStatus",
        /// How large its screen is.
        patch size: TerminalSize<'a> = "size",
        /// What the client may ask of it.
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
    /// How a process ended.
    TerminalExitStatus {
        /// The number that it ended with.
        optional exit_code: i64 = "exitCode",
        /// The signal that ended it.
        optional signal: Text<'a> = "signal",
    } with optional _meta
}

object! {
    /// Columns and rows of a terminal.
    TerminalSize {
        /// How many characters fit into a line.
        required cols: NonZeroU16 = "cols",
        /// How many lines fit on the screen.
        required rows: NonZeroU16 = "rows",
    } with optional _meta
}

object! {
    /// Appends bytes to a terminal's output. A chunk may end inside a character or an escape sequence.
    TerminalOutputChunk {
        /// The terminal.
        required terminal_id: Text<'a> = "terminalId",
        /// The bytes to append.
        required data: Base64<'a> = "data",
    } with optional _meta
}
