//! Session methods.

use crate::macros::{object, union};
use crate::shared::session::{SelectGroup, SelectOptions, SetConfigBoolean, SetConfigId};
use crate::v1::{
    ContentBlock, EnvVariable, HttpHeader, SessionConfigOptionCategory, SessionConfigSelectOption, StopReason,
};
use crate::{AbsolutePath, Meta, Text};

object! {
    /// Cancels the turn that a session is in.
    CancelNotification {
        /// The session whose turn is to end.
        required session_id: Text<'a> = "sessionId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Opens a new session.
    NewSessionRequest {
        required cwd: AbsolutePath<'a> = "cwd",
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        strict_required mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The new session.
    NewSessionResponse {
        required session_id: Text<'a> = "sessionId",
        optional modes: SessionModeState<'a> = "modes",
        optional config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Goes on with a session after replaying all of its history.
    LoadSessionRequest {
        required session_id: Text<'a> = "sessionId",
        required cwd: AbsolutePath<'a> = "cwd",
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        strict_required mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The loaded session.
    LoadSessionResponse {
        optional modes: SessionModeState<'a> = "modes",
        optional config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Goes on with a session without replay.
    ResumeSessionRequest {
        required session_id: Text<'a> = "sessionId",
        required cwd: AbsolutePath<'a> = "cwd",
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        strict_defaulted mcp_servers: Vec<McpServer<'a>> = "mcpServers",
        optional meta: Meta<'a> = "_meta",
    }
}

/// The resumed session.
pub type ResumeSessionResponse<'a> = LoadSessionResponse<'a>;

union! {
    /// An MCP server that the agent is to use.
    McpServer by "type" untagged
        /// A server that runs as a process.
        Stdio(McpServerStdio<'a>)
    {
        Http(McpServerHttp<'a>) = "http",
        Sse(McpServerSse<'a>) = "sse",
    }
}

object! {
    /// A server that runs as a process.
    McpServerStdio {
        required name: Text<'a> = "name",
        required command: Text<'a> = "command",
        strict_required args: Vec<Text<'a>> = "args",
        strict_required env: Vec<EnvVariable<'a>> = "env",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A server that is reached by HTTP.
    McpServerHttp {
        required name: Text<'a> = "name",
        required url: Text<'a> = "url",
        strict_required headers: Vec<HttpHeader<'a>> = "headers",
        optional meta: Meta<'a> = "_meta",
    }
}

/// A server that is reached by server-sent events.
pub type McpServerSse<'a> = McpServerHttp<'a>;

object! {
    /// The modes of a session.
    SessionModeState {
        required current_mode_id: Text<'a> = "currentModeId",
        required available_modes: Vec<SessionMode<'a>> = "availableModes",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A mode.
    SessionMode {
        required id: Text<'a> = "id",
        required name: Text<'a> = "name",
        optional description: Text<'a> = "description",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Changes the mode of a session.
    SetSessionModeRequest {
        required session_id: Text<'a> = "sessionId",
        required mode_id: Text<'a> = "modeId",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// Something that the user can set for a session.
    SessionConfigOption by "type" requires ["id", "name"] {
        Select(SessionConfigSelect<'a>) = "select",
        Boolean(SessionConfigBoolean<'a>) = "boolean",
    }
}

object! {
    /// A choice of one value.
    SessionConfigSelect {
        required id: Text<'a> = "id",
        required name: Text<'a> = "name",
        optional description: Text<'a> = "description",
        optional category: SessionConfigOptionCategory = "category",
        required current_value: Text<'a> = "currentValue",
        required options: SessionConfigSelectOptions<'a> = "options",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Something to switch on and off.
    SessionConfigBoolean {
        required id: Text<'a> = "id",
        required name: Text<'a> = "name",
        optional description: Text<'a> = "description",
        optional category: SessionConfigOptionCategory = "category",
        required current_value: bool = "currentValue",
        optional meta: Meta<'a> = "_meta",
    }
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
        required group: Text<'a> = "group",
        required name: Text<'a> = "name",
        required options: Vec<SessionConfigSelectOption<'a>> = "options",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// Sets a configuration option.
    SetSessionConfigOptionRequest by "type" untagged
        /// The id of one of the values offered.
        Id(SetConfigId<'a>)
    {
        Boolean(SetConfigBoolean<'a>) = "boolean",
    }
}

object! {
    /// All options after the change.
    SetSessionConfigOptionResponse {
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Starts a turn.
    PromptRequest {
        required session_id: Text<'a> = "sessionId",
        strict_required prompt: Vec<ContentBlock<'a>> = "prompt",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Ends a turn.
    PromptResponse {
        required stop_reason: StopReason = "stopReason",
        optional meta: Meta<'a> = "_meta",
    }
}
