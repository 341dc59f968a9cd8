//! Session methods.

use crate::macros::{object, union};
use crate::shared::session::{SelectGroup, SelectOptions, SetConfigBoolean, SetConfigId};
use crate::v1::unstable::{McpServerAcp, SessionStatus, SystemPrompt, Usage};
use crate::v1::{
    ContentBlock, EnvVariable, HttpHeader, SessionConfigOptionCategory, SessionConfigSelectOption, StopReason,
};
use crate::{AbsolutePath, Text};

object! {
    /// Cancels the turn that a session is in.
    CancelNotification {
        /// The session whose turn is to end.
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
        strict_required mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// What the model is told before the conversation. **Unstable.**
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt",
    } with optional _meta
}

object! {
    /// The new session.
    NewSessionResponse {
        /// The name by which everything else refers to it.
        required session_id: Text<'a> = "sessionId",
        /// The modes it has, and the one it is in.
        optional modes: SessionModeState<'a> = "modes",
        /// All that the user can set for the session.
        optional config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}

object! {
    /// Goes on with a session after replaying all of its history.
    LoadSessionRequest {
        /// The session to load.
        required session_id: Text<'a> = "sessionId",
        /// The directory that the agent works in.
        required cwd: AbsolutePath<'a> = "cwd",
        /// More directories that belong to the session's workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// The MCP servers that the agent is to connect to.
        strict_required mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// What the model is told before the conversation. **Unstable.**
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt",
    } with optional _meta
}

object! {
    /// The loaded session.
    LoadSessionResponse {
        /// The modes it has, and the one it is in.
        optional modes: SessionModeState<'a> = "modes",
        /// All that the user can set for the session.
        optional config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}

object! {
    /// Goes on with a session without replay.
    ResumeSessionRequest {
        /// The session to resume.
        required session_id: Text<'a> = "sessionId",
        /// The directory that the agent works in, the same as before.
        required cwd: AbsolutePath<'a> = "cwd",
        /// More directories that belong to the session's workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// The MCP servers that the agent is to connect to.
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        /// What the model is told before the conversation. **Unstable.**
        strict_optional system_prompt: SystemPrompt<'a> = "systemPrompt",
    } with optional _meta
}

/// The resumed session.
pub type ResumeSessionResponse<'a> = LoadSessionResponse<'a>;

union! {
    /// An MCP server that the agent is to use.
    McpServer by "type" untagged
        /// A server that runs as a process.
        Stdio(McpServerStdio<'a>)
    {
        /// A server that is reached by HTTP.
        Http(McpServerHttp<'a>) = "http",
        /// A server that is reached by server-sent events.
        Sse(McpServerSse<'a>) = "sse",
        /// A server that is reached through the connection itself. **Unstable.**
        Acp(McpServerAcp<'a>) = "acp",
    }
}

object! {
    /// A server that runs as a process.
    McpServerStdio {
        /// The server's name for people.
        required name: Text<'a> = "name",
        /// The program.
        required command: Text<'a> = "command",
        /// Its arguments.
        strict_required args: Vec<Text<'a>> = "args",
        /// Variables for it.
        strict_required env: Vec<EnvVariable<'a>> = "env",
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
        strict_required headers: Vec<HttpHeader<'a>> = "headers",
    } with optional _meta
}

/// A server that is reached by server-sent events.
pub type McpServerSse<'a> = McpServerHttp<'a>;

object! {
    /// The modes of a session.
    SessionModeState {
        /// The mode it is in.
        required current_mode_id: Text<'a> = "currentModeId",
        /// The modes it can be in.
        required available_modes: Vec<SessionMode<'a>> = "availableModes",
    } with optional _meta
}

object! {
    /// A mode.
    SessionMode {
        /// The name by which it is chosen.
        required id: Text<'a> = "id",
        /// The name that people read.
        required name: Text<'a> = "name",
        /// How the agent works in it.
        optional description: Text<'a> = "description",
    } with optional _meta
}

object! {
    /// Changes the mode of a session.
    SetSessionModeRequest {
        /// The session it is about.
        required session_id: Text<'a> = "sessionId",
        /// The mode to change to.
        required mode_id: Text<'a> = "modeId",
    } with optional _meta
}

union! {
    /// Something that the user can set for a session.
    SessionConfigOption by "type" requires ["id", "name"] {
        /// A choice of one value.
        Select(SessionConfigSelect<'a>) = "select",
        /// Something to switch on and off.
        Boolean(SessionConfigBoolean<'a>) = "boolean",
    }
}

object! {
    /// A choice of one value.
    SessionConfigSelect {
        /// The name by which it is set.
        required id: Text<'a> = "id",
        /// The name that people read.
        required name: Text<'a> = "name",
        /// What it is for.
        optional description: Text<'a> = "description",
        /// What it is about, as a hint for display.
        optional category: SessionConfigOptionCategory = "category",
        /// The value that is chosen.
        required current_value: Text<'a> = "currentValue",
        /// The values to choose from.
        required options: SessionConfigSelectOptions<'a> = "options",
    } with optional _meta
}

object! {
    /// Something to switch on and off.
    SessionConfigBoolean {
        /// The name by which it is set.
        required id: Text<'a> = "id",
        /// The name that people read.
        required name: Text<'a> = "name",
        /// What it is for.
        optional description: Text<'a> = "description",
        /// What it is about, as a hint for display.
        optional category: SessionConfigOptionCategory = "category",
        /// Whether it is on.
        required current_value: bool = "currentValue",
    } with optional _meta
}

/// The values of a choice, in groups or without.
pub type SessionConfigSelectOptions<'a> = SelectOptions<'a, SessionConfigSelectGroup<'a>>;

impl<'a> SelectGroup<'a> for SessionConfigSelectGroup<'a> {
    const KEY: &'static str = "group";

    fn options(&self) -> &[SessionConfigSelectOption<'a>] {
        &self.options
    }
}

object! {
    /// Values under a name.
    SessionConfigSelectGroup {
        /// The name that programs use.
        required group: Text<'a> = "group",
        /// The name that people read.
        required name: Text<'a> = "name",
        /// Its values.
        required options: Vec<SessionConfigSelectOption<'a>> = "options",
    } with optional _meta
}

union! {
    /// Sets a configuration option.
    SetSessionConfigOptionRequest by "type" untagged
        /// The id of one of the values offered.
        Id(SetConfigId<'a>)
    {
        /// On or off.
        Boolean(SetConfigBoolean<'a>) = "boolean",
    }
}

object! {
    /// All options after the change.
    SetSessionConfigOptionResponse {
        /// All that the user can set for the session.
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}

object! {
    /// Starts a turn.
    PromptRequest {
        /// The session to tell it to.
        required session_id: Text<'a> = "sessionId",
        /// The message.
        strict_required prompt: Vec<ContentBlock<'a>> = "prompt",
    } with optional _meta
}

object! {
    /// Ends a turn.
    PromptResponse {
        /// Why the turn ended.
        required stop_reason: StopReason = "stopReason",
        /// How many tokens the turn took. **Unstable.**
        optional usage: Usage<'a> = "usage",
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
    /// Whether a session is open. **Unstable.**
    SessionStatusResponse {
        /// Whether it is open.
        required status: SessionStatus = "status",
    } with optional _meta
}
