//! Session methods.

use serde_json::{Value, json};

use crate::error::Read;
use crate::json::reader::Reader;
use crate::json::writer::Writer;
use crate::macros::{object, union};
use crate::schema::Schemas;
use crate::v1::{
    ContentBlock, EnvVariable, HttpHeader, SessionConfigOptionCategory, SessionConfigSelectOption,
    SessionReference, StopReason,
};
use crate::wire::Wire;
use crate::{AbsolutePath, Meta, Text};

/// Closes a session.
pub type CloseSessionRequest<'a> = SessionReference<'a>;
/// Deletes a session.
pub type DeleteSessionRequest<'a> = SessionReference<'a>;
/// Cancels the turn that a session is in.
pub type CancelNotification<'a> = SessionReference<'a>;

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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionConfigSelectOptions<'a> {
    /// One list.
    Flat(Vec<SessionConfigSelectOption<'a>>),
    /// Lists with names.
    Grouped(Vec<SessionConfigSelectGroup<'a>>),
}

impl<'a> Wire<'a> for SessionConfigSelectOptions<'a> {
    type Owned = SessionConfigSelectOptions<'static>;

    fn into_owned(self) -> SessionConfigSelectOptions<'static> {
        match self {
            SessionConfigSelectOptions::Flat(options) => {
                SessionConfigSelectOptions::Flat(options.into_owned())
            }
            SessionConfigSelectOptions::Grouped(groups) => {
                SessionConfigSelectOptions::Grouped(groups.into_owned())
            }
        }
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        if crate::wire::first_item_has_key(reader, "group")? {
            Wire::read(reader).map(SessionConfigSelectOptions::Grouped)
        } else {
            Wire::read(reader).map(SessionConfigSelectOptions::Flat)
        }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            SessionConfigSelectOptions::Flat(options) => options.write(writer),
            SessionConfigSelectOptions::Grouped(groups) => groups.write(writer),
        }
    }

    fn schema(schemas: &mut Schemas) -> Value {
        schemas.define("SessionConfigSelectOptions", |schemas| {
            let option = SessionConfigSelectOption::schema(schemas);
            let group = SessionConfigSelectGroup::schema(schemas);
            json!({
                "description": "The values of a choice, in groups or without.",
                "anyOf": [{"type": "array", "items": option}, {"type": "array", "items": group}],
            })
        })
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
    /// Chooses a value.
    SetConfigId {
        required session_id: Text<'a> = "sessionId",
        required config_id: Text<'a> = "configId",
        required value: Text<'a> = "value",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Switches something on or off.
    SetConfigBoolean {
        required session_id: Text<'a> = "sessionId",
        required config_id: Text<'a> = "configId",
        required value: bool = "value",
        optional meta: Meta<'a> = "_meta",
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
