//! Files and terminals that the client serves.

use crate::macros::object;
use crate::v1::EnvVariable;
use crate::{AbsolutePath, Meta, Text};

object! {
    /// Reads a file, unsaved changes of the editor included.
    ReadTextFileRequest {
        required session_id: Text<'a> = "sessionId",
        required path: AbsolutePath<'a> = "path",
        /// The first line, counted from 1.
        strict_optional line: u32 = "line",
        /// How many lines.
        strict_optional limit: u32 = "limit",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The text of a file.
    ReadTextFileResponse {
        required content: Text<'a> = "content",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Writes a file.
    WriteTextFileRequest {
        required session_id: Text<'a> = "sessionId",
        required path: AbsolutePath<'a> = "path",
        required content: Text<'a> = "content",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Starts a command.
    CreateTerminalRequest {
        required session_id: Text<'a> = "sessionId",
        required command: Text<'a> = "command",
        strict_defaulted args: Vec<Text<'a>> = "args",
        strict_defaulted env: Vec<EnvVariable<'a>> = "env",
        strict_optional cwd: AbsolutePath<'a> = "cwd",
        /// How much output to keep; the end is kept.
        strict_optional output_byte_limit: u64 = "outputByteLimit",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The terminal that the command runs in.
    CreateTerminalResponse {
        required terminal_id: Text<'a> = "terminalId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Names a terminal of a session.
    TerminalReference {
        required session_id: Text<'a> = "sessionId",
        required terminal_id: Text<'a> = "terminalId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// What a terminal has put out.
    TerminalOutputResponse {
        required output: Text<'a> = "output",
        required truncated: bool = "truncated",
        optional exit_status: TerminalExitStatus<'a> = "exitStatus",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// How a process ended.
    TerminalExitStatus {
        optional exit_code: u32 = "exitCode",
        optional signal: Text<'a> = "signal",
        optional meta: Meta<'a> = "_meta",
    }
}
