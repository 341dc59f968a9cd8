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
    /// Cancels the work of a session.
    CancelSessionNotification {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

object! {
    /// Opens a new session.
    NewSessionRequest {
        /// Working directory of the agent.
        required cwd: AbsolutePath<'a> = "cwd",
        /// Additional directories of the session's workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// MCP servers for the agent to connect to.
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// System prompt for the model. **Unstable.**
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt" @unstable,
    } with optional _meta
}

object! {
    /// The new session.
    NewSessionResponse {
        /// Id for later references.
        required session_id: Text<'a> = "sessionId",
        /// All configuration options of the session.
        defaulted config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        /// All available commands.
        defaulted available_commands: Vec<AvailableCommand<'a>> = "availableCommands" @newest,
    } with optional _meta
}

object! {
    /// Resumes a session. Directories and servers are sent again in full.
    ResumeSessionRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Working directory of the agent, the same as before.
        required cwd: AbsolutePath<'a> = "cwd",
        /// Additional directories of the session's workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// MCP servers for the agent to connect to.
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// Start of the history to replay before the response. Without it, nothing is replayed.
        strict_optional replay_from: ReplayFrom<'a> = "replayFrom",
        /// System prompt for the model. **Unstable.**
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt" @unstable,
    } with optional _meta
}

object! {
    /// The resumed session.
    ResumeSessionResponse {
        /// All configuration options of the session.
        defaulted config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        /// All available commands.
        defaulted available_commands: Vec<AvailableCommand<'a>> = "availableCommands" @newest,
    } with optional _meta
}

union! {
    /// An inclusive position in a session's history.
    ReplayFrom by "type" {
        /// The start: everything the agent has kept.
        Start(EmptyObject<'a>) = "start",
    }
}

union! {
    /// An MCP server for the agent to use.
    McpServer by "type" {
        /// A server over stdio.
        Stdio(McpServerStdio<'a>) = "stdio",
        /// An HTTP server.
        Http(McpServerHttp<'a>) = "http",
        /// A server tunnelled through this connection. **Unstable.**
        Acp(McpServerAcp<'a>) = "acp" @unstable,
    }
}

object! {
    /// A server over stdio.
    McpServerStdio {
        /// Name of the server for display.
        required name: Text<'a> = "name",
        /// Command to run.
        required command: AbsolutePath<'a> = "command",
        /// Arguments.
        strict_defaulted args: Vec<Text<'a>> = "args",
        /// Environment variables.
        strict_defaulted env: Vec<EnvVariable<'a>> = "env",
    } with optional _meta
}

object! {
    /// An HTTP server.
    McpServerHttp {
        /// Name of the server for display.
        required name: Text<'a> = "name",
        /// URL.
        required url: Text<'a> = "url",
        /// Headers of each request.
        strict_defaulted headers: Vec<HttpHeader<'a>> = "headers",
    } with optional _meta
}

object! {
    /// Sends a user message to a session.
    PromptRequest rules some_content shape content_not_empty {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Id of the message.
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
    /// The message is part of the conversation. The `spec` dialect has no id here.
    PromptResponse rules id_in_newest shape id_required_in_newest {
        /// Id of the user message in the conversation.
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
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Id of the tool call.
        required tool_call_id: Text<'a> = "toolCallId",
    } with optional _meta
}

object! {
    /// Cancels the command in one terminal.
    CancelTerminalRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Id of the terminal.
        required terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}

object! {
    /// Opens a new session as a fork of another. **Unstable.**
    ForkSessionRequest {
        /// Session to fork.
        required session_id: Text<'a> = "sessionId",
        /// Working directory of the agent.
        required cwd: AbsolutePath<'a> = "cwd",
        /// Additional directories of the session's workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// MCP servers for the agent to connect to.
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// System prompt for the model.
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt",
    } with optional _meta
}

/// The new session. **Unstable.**
pub type ForkSessionResponse<'a> = NewSessionResponse<'a>;

object! {
    /// Status and state of a session. **Unstable.**
    SessionStatusResponse {
        /// Status of the session.
        required status: SessionStatus = "status",
        /// State of the session.
        optional state: StateUpdate<'a> = "state",
    } with optional _meta
}
