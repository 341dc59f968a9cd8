//! Session methods.

use crate::macros::{object, union};
use crate::shared::session::{SelectGroup, SelectOptions, SetConfigBoolean, SetConfigId};
use crate::v1::unstable::{McpServerAcp, SessionStatus, SystemPrompt, Usage};
use crate::v1::{
    ContentBlock, EnvVariable, HttpHeader, SessionConfigOptionCategory, SessionConfigSelectOption, StopReason,
};
use crate::{AbsolutePath, Text};

object! {
    /// Cancels the current turn of a session.
    CancelNotification {
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
        strict_required mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// System prompt for the model. **Unstable.**
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt",
    } with optional _meta
}

object! {
    /// The new session.
    NewSessionResponse {
        /// Id for later references.
        required session_id: Text<'a> = "sessionId",
        /// Available modes and the current one.
        optional modes: SessionModeState<'a> = "modes",
        /// All configuration options of the session.
        optional config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}

object! {
    /// Resumes a session after replaying its history.
    LoadSessionRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Working directory of the agent.
        required cwd: AbsolutePath<'a> = "cwd",
        /// Additional directories of the session's workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// MCP servers for the agent to connect to.
        strict_required mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// System prompt for the model. **Unstable.**
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt",
    } with optional _meta
}

object! {
    /// The loaded session.
    LoadSessionResponse {
        /// Available modes and the current one.
        optional modes: SessionModeState<'a> = "modes",
        /// All configuration options of the session.
        optional config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}

object! {
    /// Resumes a session without replay.
    ResumeSessionRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Working directory of the agent, the same as before.
        required cwd: AbsolutePath<'a> = "cwd",
        /// Additional directories of the session's workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// MCP servers for the agent to connect to.
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// System prompt for the model. **Unstable.**
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt",
    } with optional _meta
}

/// The resumed session.
pub type ResumeSessionResponse<'a> = LoadSessionResponse<'a>;

union! {
    /// An MCP server for the agent to use.
    McpServer by "type" untagged
        /// A server over stdio.
        Stdio(McpServerStdio<'a>)
    {
        /// An HTTP server.
        Http(McpServerHttp<'a>) = "http",
        /// A server over server-sent events.
        Sse(McpServerSse<'a>) = "sse",
        /// A server tunnelled through this connection. **Unstable.**
        Acp(McpServerAcp<'a>) = "acp",
    }
}

object! {
    /// A server over stdio.
    McpServerStdio {
        /// Name of the server for display.
        required name: Text<'a> = "name",
        /// Command to run.
        required command: Text<'a> = "command",
        /// Arguments.
        strict_required args: Vec<Text<'a>> = "args",
        /// Environment variables.
        strict_required env: Vec<EnvVariable<'a>> = "env",
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
        strict_required headers: Vec<HttpHeader<'a>> = "headers",
    } with optional _meta
}

/// A server over server-sent events.
pub type McpServerSse<'a> = McpServerHttp<'a>;

object! {
    /// The modes of a session.
    SessionModeState {
        /// Current mode.
        required current_mode_id: Text<'a> = "currentModeId",
        /// Available modes.
        required available_modes: Vec<SessionMode<'a>> = "availableModes",
    } with optional _meta
}

object! {
    /// A mode.
    SessionMode {
        /// Id with which it is selected.
        required id: Text<'a> = "id",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Description of the mode.
        optional description: Text<'a> = "description",
    } with optional _meta
}

object! {
    /// Changes the mode of a session.
    SetSessionModeRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Id of the new mode.
        required mode_id: Text<'a> = "modeId",
    } with optional _meta
}

union! {
    /// A configuration option of a session.
    SessionConfigOption by "type" requires ["id", "name"] {
        /// A selection of one value.
        Select(SessionConfigSelect<'a>) = "select",
        /// A boolean option.
        Boolean(SessionConfigBoolean<'a>) = "boolean",
    }
}

object! {
    /// A selection of one value.
    SessionConfigSelect {
        /// Id with which it is set.
        required id: Text<'a> = "id",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Description of its purpose.
        optional description: Text<'a> = "description",
        /// Category, as a hint for display.
        optional category: SessionConfigOptionCategory = "category",
        /// Selected value.
        required current_value: Text<'a> = "currentValue",
        /// Available values.
        required options: SessionConfigSelectOptions<'a> = "options",
    } with optional _meta
}

object! {
    /// A boolean option.
    SessionConfigBoolean {
        /// Id with which it is set.
        required id: Text<'a> = "id",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Description of its purpose.
        optional description: Text<'a> = "description",
        /// Category, as a hint for display.
        optional category: SessionConfigOptionCategory = "category",
        /// True if it is on.
        required current_value: bool = "currentValue",
    } with optional _meta
}

/// Available values, grouped or not.
pub type SessionConfigSelectOptions<'a> = SelectOptions<'a, SessionConfigSelectGroup<'a>>;

impl<'a> SelectGroup<'a> for SessionConfigSelectGroup<'a> {
    const KEY: &'static str = "group";

    fn options(&self) -> &[SessionConfigSelectOption<'a>] {
        &self.options
    }
}

object! {
    /// A named group of values.
    SessionConfigSelectGroup {
        /// Name for programs.
        required group: Text<'a> = "group",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Values of the group.
        required options: Vec<SessionConfigSelectOption<'a>> = "options",
    } with optional _meta
}

union! {
    /// Sets a configuration option.
    SetSessionConfigOptionRequest by "type" untagged
        /// Selects one of the available values by id.
        Id(SetConfigId<'a>)
    {
        /// Sets a boolean option.
        Boolean(SetConfigBoolean<'a>) = "boolean",
    }
}

object! {
    /// All configuration options after the change.
    SetSessionConfigOptionResponse {
        /// All configuration options of the session.
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}

object! {
    /// Starts a turn.
    PromptRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Id of the message.
        strict_required prompt: Vec<ContentBlock<'a>> = "prompt",
    } with optional _meta
}

object! {
    /// Ends a turn.
    PromptResponse {
        /// Reason why the turn ended.
        required stop_reason: StopReason = "stopReason",
        /// Token usage of the turn. **Unstable.**
        optional usage: Usage<'a> = "usage",
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
    /// Status of a session. **Unstable.**
    SessionStatusResponse {
        /// Status of the session.
        required status: SessionStatus = "status",
    } with optional _meta
}
