//! The handshake and authentication.

use crate::macros::{object, union};
use crate::v1::{EmptyObject, Implementation};
use crate::{Map, Meta, Text};

object! {
    /// Opens a connection.
    InitializeRequest {
        required protocol_version: u16 = "protocolVersion",
        defaulted client_capabilities: ClientCapabilities<'a> = "clientCapabilities",
        optional client_info: Implementation<'a> = "clientInfo",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The version that the agent chose, and what it can do.
    InitializeResponse {
        required protocol_version: u16 = "protocolVersion",
        defaulted agent_capabilities: AgentCapabilities<'a> = "agentCapabilities",
        defaulted auth_methods: Vec<AuthMethod<'a>> = "authMethods",
        optional agent_info: Implementation<'a> = "agentInfo",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// What a client can do.
    ClientCapabilities {
        defaulted fs: FileSystemCapabilities<'a> = "fs",
        defaulted terminal: bool = "terminal",
        optional session: ClientSessionCapabilities<'a> = "session",
        defaulted auth: ClientAuthCapabilities<'a> = "auth",
        optional elicitation: ElicitationCapabilities<'a> = "elicitation",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Files that a client reads and writes for the agent.
    FileSystemCapabilities {
        defaulted read_text_file: bool = "readTextFile",
        defaulted write_text_file: bool = "writeTextFile",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Session updates that a client understands.
    ClientSessionCapabilities {
        optional compaction: EmptyObject<'a> = "compaction",
        optional config_options: SessionConfigOptionsCapabilities<'a> = "configOptions",
        optional notices: EmptyObject<'a> = "notices",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Kinds of configuration options that a client understands.
    SessionConfigOptionsCapabilities {
        optional boolean: EmptyObject<'a> = "boolean",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Ways of logging in that a client supports.
    ClientAuthCapabilities {
        defaulted terminal: bool = "terminal",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Ways of asking the user that a client supports.
    ElicitationCapabilities {
        optional form: EmptyObject<'a> = "form",
        optional url: EmptyObject<'a> = "url",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// What an agent can do.
    AgentCapabilities {
        defaulted load_session: bool = "loadSession",
        defaulted prompt_capabilities: PromptCapabilities<'a> = "promptCapabilities",
        defaulted mcp_capabilities: McpCapabilities<'a> = "mcpCapabilities",
        defaulted session_capabilities: SessionCapabilities<'a> = "sessionCapabilities",
        defaulted auth: AgentAuthCapabilities<'a> = "auth",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Content that a prompt may hold, beside text and resource links.
    PromptCapabilities {
        defaulted image: bool = "image",
        defaulted audio: bool = "audio",
        defaulted embedded_context: bool = "embeddedContext",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Kinds of MCP servers that an agent can use, beside processes.
    McpCapabilities {
        defaulted http: bool = "http",
        defaulted sse: bool = "sse",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Session methods that an agent has.
    SessionCapabilities {
        optional list: EmptyObject<'a> = "list",
        optional delete: EmptyObject<'a> = "delete",
        optional additional_directories: EmptyObject<'a> = "additionalDirectories",
        optional resume: EmptyObject<'a> = "resume",
        optional close: EmptyObject<'a> = "close",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Authentication methods that an agent has.
    AgentAuthCapabilities {
        optional logout: EmptyObject<'a> = "logout",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// A way to log in.
    AuthMethod by "type" untagged
        /// The agent does it, on `authenticate`.
        Agent(AuthMethodAgent<'a>)
    {
        /// The client runs the agent's program in a terminal.
        Terminal(AuthMethodTerminal<'a>) = "terminal",
    }
}

object! {
    /// A login that the agent does itself.
    AuthMethodAgent {
        required id: Text<'a> = "id",
        required name: Text<'a> = "name",
        optional description: Text<'a> = "description",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A login in a terminal.
    AuthMethodTerminal {
        required id: Text<'a> = "id",
        required name: Text<'a> = "name",
        optional description: Text<'a> = "description",
        strict_defaulted args: Vec<Text<'a>> = "args",
        strict_defaulted env: Map<'a, Text<'a>> = "env",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Logs in.
    AuthenticateRequest {
        required method_id: Text<'a> = "methodId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Logs out.
    LogoutRequest {
        optional meta: Meta<'a> = "_meta",
    }
}
