//! Files and terminals provided by the client.

use crate::macros::object;
use crate::v1::EnvVariable;
use crate::{AbsolutePath, Text};

object! {
    /// Reads a file, including unsaved changes in the editor.
    ReadTextFileRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Path of the file.
        required path: AbsolutePath<'a> = "path",
        /// First line, from 1.
        strict_optional line: u32 = "line",
        /// Number of lines.
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
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Path of the file. It is created if it does not exist.
        required path: AbsolutePath<'a> = "path",
        /// New text.
        required content: Text<'a> = "content",
    } with optional _meta
}

object! {
    /// Starts a command.
    CreateTerminalRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Command to run.
        required command: Text<'a> = "command",
        /// Arguments.
        strict_defaulted args: Vec<Text<'a>> = "args",
        /// Environment variables.
        strict_defaulted env: Vec<EnvVariable<'a>> = "env",
        /// Working directory.
        strict_optional cwd: AbsolutePath<'a> = "cwd",
        /// Maximum output to keep in bytes. The end is kept.
        strict_optional output_byte_limit: u64 = "outputByteLimit",
    } with optional _meta
}

object! {
    /// Terminal of the command.
    CreateTerminalResponse {
        /// Id for later references.
        required terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}

object! {
    /// Reference to a terminal of a session.
    TerminalReference {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Id of the terminal.
        required terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}

object! {
    /// Output of a terminal.
    TerminalOutputResponse {
        /// The kept output.
        required output: Text<'a> = "output",
        /// True if the start was dropped.
        required truncated: bool = "truncated",
        /// Exit status. Missing while the command runs.
        optional exit_status: TerminalExitStatus<'a> = "exitStatus",
    } with optional _meta
}

object! {
    /// Exit status of a process.
    TerminalExitStatus {
        /// Exit code.
        optional exit_code: u32 = "exitCode",
        /// Signal that terminated it.
        optional signal: Text<'a> = "signal",
    } with optional _meta
}
