//! Session methods.

use serde_json::Value;

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::macros::{object, union};
use crate::schema::{not_empty, require};
use crate::v2::unstable::{McpServerAcp, SessionStatus, SystemPrompt};
use crate::v2::{
    AvailableCommand, ContentBlock, EmptyObject, EnvVariable, HttpHeader, SessionConfigOption, StateUpdate,
};
use crate::{AbsolutePath, Text, WireFormat};

object! {
    /// Cancels what a session is doing.
    CancelSessionNotification {
        /// The session whose work is to stop.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

object! {
    /// Opens a new session.
    NewSessionRequest {
        /// The directory that the agent works in.
        required cwd: AbsolutePath<'a> = "cwd",
        /// More directories that belong to the session's workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// The MCP servers that the agent is to connect to.
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// What the model is told before the conversation. **Unstable.**
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt" @unstable,
    } with optional _meta
}

object! {
    /// The new session.
    NewSessionResponse {
        /// The name by which everything else refers to it.
        required session_id: Text<'a> = "sessionId",
        /// All that the user can set for the session.
        defaulted config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        /// All commands that the user can give.
        defaulted available_commands: Vec<AvailableCommand<'a>> = "availableCommands" @newest,
    } with optional _meta
}

object! {
    /// Goes on with a session. Directories and servers are told again in full.
    ResumeSessionRequest {
        /// The session to resume.
        required session_id: Text<'a> = "sessionId",
        /// The directory that the agent works in, the same as before.
        required cwd: AbsolutePath<'a> = "cwd",
        /// More directories that belong to the session's workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// The MCP servers that the agent is to connect to.
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// From where to replay history before the answer; missing: no replay.
        strict_optional replay_from: ReplayFrom<'a> = "replayFrom",
        /// What the model is told before the conversation. **Unstable.**
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt" @unstable,
    } with optional _meta
}

object! {
    /// The resumed session.
    ResumeSessionResponse {
        /// All that the user can set for the session.
        defaulted config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        /// All commands that the user can give.
        defaulted available_commands: Vec<AvailableCommand<'a>> = "availableCommands" @newest,
    } with optional _meta
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
        /// A server that runs as a process.
        Stdio(McpServerStdio<'a>) = "stdio",
        /// A server that is reached by HTTP.
        Http(McpServerHttp<'a>) = "http",
        /// A server that is reached through the connection itself. **Unstable.**
        Acp(McpServerAcp<'a>) = "acp" @unstable,
    }
}

object! {
    /// A server that runs as a process.
    McpServerStdio {
        /// The server's name for people.
        required name: Text<'a> = "name",
        /// The program.
        required command: AbsolutePath<'a> = "command",
        /// Its arguments.
        strict_defaulted args: Vec<Text<'a>> = "args",
        /// Variables for it.
        strict_defaulted env: Vec<EnvVariable<'a>> = "env",
    } with optional _meta
}

object! {
    /// A server that is reached by HTTP.
    McpServerHttp {
        /// The server's name for people.
        required name: Text<'a> = "name",
        /// Where it is.
        required url: Text<'a> = "url",
        /// Headers for each request.
        strict_defaulted headers: Vec<HttpHeader<'a>> = "headers",
    } with optional _meta
}

object! {
    /// Puts a message of the user into a session.
    PromptRequest rules some_content shape content_not_empty {
        /// The session to tell it to.
        required session_id: Text<'a> = "sessionId",
        /// The message.
        strict_required prompt: Vec<ContentBlock<'a>> = "prompt",
    } with optional _meta
}

fn some_content(request: &PromptRequest<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    if request.prompt.is_empty() && reader.revision() == WireFormat::Newest {
        return reader.fault(start, Problem::Rule("at least one block of content".into()));
    }
    Ok(())
}

fn content_not_empty(schema: &mut Value, revision: WireFormat) {
    if revision == WireFormat::Newest {
        not_empty(schema, "prompt");
    }
}

object! {
    /// The message has become part of the conversation. The `spec` dialect does not tell its id.
    PromptResponse rules id_in_newest shape id_required_in_newest {
        /// The id of the user's message in the conversation.
        strict_optional message_id: Text<'a> = "messageId" @newest,
    } with optional _meta
}

fn id_in_newest(response: &PromptResponse<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    if response.message_id.is_none() && reader.revision() == WireFormat::Newest {
        return reader.fault(start, Problem::Missing("messageId"));
    }
    Ok(())
}

fn id_required_in_newest(schema: &mut Value, revision: WireFormat) {
    if revision == WireFormat::Newest {
        require(schema, "messageId");
    }
}

object! {
    /// Cancels one tool call.
    CancelToolCallRequest {
        /// The session that it belongs to.
        required session_id: Text<'a> = "sessionId",
        /// The call.
        required tool_call_id: Text<'a> = "toolCallId",
    } with optional _meta
}

object! {
    /// Cancels what runs in one terminal.
    CancelTerminalRequest {
        /// The session that it belongs to.
        required session_id: Text<'a> = "sessionId",
        /// The terminal.
        required terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}

object! {
    /// Opens a new session that begins as a copy of another. **Unstable.**
    ForkSessionRequest {
        /// The session to copy.
        required session_id: Text<'a> = "sessionId",
        /// The directory that the agent works in.
        required cwd: AbsolutePath<'a> = "cwd",
        /// More directories that belong to the session's workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// The MCP servers that the agent is to connect to.
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// What the model is told before the conversation.
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt",
    } with optional _meta
}

/// The new session. **Unstable.**
pub type ForkSessionResponse<'a> = NewSessionResponse<'a>;

object! {
    /// Whether a session is open, and at work. **Unstable.**
    SessionStatusResponse {
        /// Whether it is open.
        required status: SessionStatus = "status",
        /// Whether it is at work.
        optional state: StateUpdate<'a> = "state",
    } with optional _meta
}
