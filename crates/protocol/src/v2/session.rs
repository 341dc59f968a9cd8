//! Session methods.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::macros::{object, union};
use crate::v2::{AvailableCommand, ContentBlock, EmptyObject, EnvVariable, HttpHeader, SessionConfigOption};
use crate::{AbsolutePath, Meta, Text, WireFormat};

object! {
    /// Cancels what a session is doing.
    CancelSessionNotification {
        /// The session whose work is to stop.
        required session_id: Text<'a> = "sessionId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Opens a new session.
    NewSessionRequest {
        required cwd: AbsolutePath<'a> = "cwd",
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The new session.
    NewSessionResponse {
        required session_id: Text<'a> = "sessionId",
        defaulted config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        defaulted available_commands: Vec<AvailableCommand<'a>> = "availableCommands" @newest,
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Goes on with a session. Directories and servers are told again in full.
    ResumeSessionRequest {
        required session_id: Text<'a> = "sessionId",
        required cwd: AbsolutePath<'a> = "cwd",
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// From where to replay history before the answer; missing: no replay.
        strict_optional replay_from: ReplayFrom<'a> = "replayFrom",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The resumed session.
    ResumeSessionResponse {
        defaulted config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        defaulted available_commands: Vec<AvailableCommand<'a>> = "availableCommands" @newest,
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// A place in a session's history, itself included.
    ReplayFrom by "type" {
        /// All that the agent has kept.
        Start(EmptyObject<'a>) = "start",
    }
}

union! {
    /// An MCP server that the agent is to use.
    McpServer by "type" {
        Stdio(McpServerStdio<'a>) = "stdio",
        Http(McpServerHttp<'a>) = "http",
    }
}

object! {
    /// A server that runs as a process.
    McpServerStdio {
        required name: Text<'a> = "name",
        required command: AbsolutePath<'a> = "command",
        strict_defaulted args: Vec<Text<'a>> = "args",
        strict_defaulted env: Vec<EnvVariable<'a>> = "env",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A server that is reached by HTTP.
    McpServerHttp {
        required name: Text<'a> = "name",
        required url: Text<'a> = "url",
        strict_defaulted headers: Vec<HttpHeader<'a>> = "headers",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Puts a message of the user into a session.
    PromptRequest rules some_content shape content_not_empty {
        required session_id: Text<'a> = "sessionId",
        strict_required prompt: Vec<ContentBlock<'a>> = "prompt",
        optional meta: Meta<'a> = "_meta",
    }
}

fn some_content(request: &PromptRequest<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    if request.prompt.is_empty() && reader.revision() == WireFormat::Newest {
        return reader.fault(start, Problem::Rule("at least one block of content".into()));
    }
    Ok(())
}

fn content_not_empty(schema: &mut Value, revision: WireFormat) {
    if revision == WireFormat::Newest {
        schema["properties"]["prompt"]["minItems"] = json!(1);
    }
}

object! {
    /// The message has become part of the conversation. The `spec` dialect does not tell its id.
    PromptResponse rules id_in_newest shape id_required_in_newest {
        strict_optional message_id: Text<'a> = "messageId" @newest,
        optional meta: Meta<'a> = "_meta",
    }
}

fn id_in_newest(response: &PromptResponse<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    if response.message_id.is_none() && reader.revision() == WireFormat::Newest {
        return reader.fault(start, Problem::Missing("messageId"));
    }
    Ok(())
}

fn id_required_in_newest(schema: &mut Value, revision: WireFormat) {
    if revision == WireFormat::Newest {
        schema["required"] = json!(["messageId"]);
        let property = &mut schema["properties"]["messageId"];
        *property = property["anyOf"][0].take();
    }
}

object! {
    /// Cancels one tool call.
    CancelToolCallRequest {
        required session_id: Text<'a> = "sessionId",
        required tool_call_id: Text<'a> = "toolCallId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Cancels what runs in one terminal.
    CancelTerminalRequest {
        required session_id: Text<'a> = "sessionId",
        required terminal_id: Text<'a> = "terminalId",
        optional meta: Meta<'a> = "_meta",
    }
}
