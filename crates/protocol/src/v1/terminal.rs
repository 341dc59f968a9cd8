//! Files and terminals that the client serves.

use crate::macros::object;
use crate::v1::EnvVariable;
use crate::{AbsolutePath, Text};

object! {
    /// Reads a file, unsaved changes of the editor included.
    ReadTextFileRequest {
        /// The session that wants it.
        required session_id: Text<'a> = "sessionId",
        /// The file.
        required path: AbsolutePath<'a> = "path",
        /// The first line, counted from 1.
        strict_optional line: u32 = "line",
        /// How many lines.
        strict_optional limit: u32 = "limit",
    } with optional _meta
}

object! {
    /// The text of a file.
    ReadTextFileResponse {
        /// The text.
        required content: Text<'a> = "content",
    } with optional _meta
}

object! {
    /// Writes a file.
    WriteTextFileRequest {
        /// The session that wants it.
        required session_id: Text<'a> = "sessionId",
        /// The file; it is made when it is not there.
        required path: AbsolutePath<'a> = "path",
        /// Its new text.
        required content: Text<'a> = "content",
    } with optional _meta
}

object! {
    /// Starts a command.
    CreateTerminalRequest {
        /// The session that wants it.
        required session_id: Text<'a> = "sessionId",
        /// The program.
        required command: Text<'a> = "command",
        /// Its arguments.
        strict_defaulted args: Vec<Text<'a>> = "args",
        /// Variables for it.
        strict_defaulted env: Vec<EnvVariable<'a>> = "env",
        /// The directory that it starts in.
        strict_optional cwd: AbsolutePath<'a> = "cwd",
        /// How much output to keep; the end is kept.
        strict_optional output_byte_limit: u64 = "outputByteLimit",
    } with optional _meta
}

object! {
    /// The terminal that the command runs in.
    CreateTerminalResponse {
        /// The name by which everything else refers to it.
        required terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}

object! {
    /// Names a terminal of a session.
    TerminalReference {
        /// The session that it belongs to.
        required session_id: Text<'a> = "sessionId",
        /// The terminal.
        required terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}

object! {
    /// What a terminal has put out.
    TerminalOutputResponse {
        /// What is kept of the output.
        required output: Text<'a> = "output",
        /// Whether the beginning was cut off.
        required truncated: bool = "truncated",
        /// How the command ended; missing while it runs.
        optional exit_status: TerminalExitStatus<'a> = "exitStatus",
    } with optional _meta
}

object! {
    /// How a process ended.
    TerminalExitStatus {
        /// The number that it ended with.
        optional exit_code: u32 = "exitCode",
        /// The signal that ended it.
        optional signal: Text<'a> = "signal",
    } with optional _meta
}
