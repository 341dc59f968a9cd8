//! The handshake and authentication.

use crate::macros::{object, union};
use crate::v2::{EmptyObject, EnvVariable, Implementation};
use crate::{Meta, Text};

object! {
    /// Opens a connection.
    InitializeRequest {
        /// The highest version that the client speaks.
        required protocol_version: u16 = "protocolVersion",
        required info: Implementation<'a> = "info",
        defaulted capabilities: ClientCapabilities<'a> = "capabilities",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The version that the agent chose, and what it can do.
    InitializeResponse {
        required protocol_version: u16 = "protocolVersion",
        required info: Implementation<'a> = "info",
        defaulted capabilities: AgentCapabilities<'a> = "capabilities",
        defaulted auth_methods: Vec<AuthMethod<'a>> = "authMethods",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// What a client can do.
    ClientCapabilities {
        optional auth: ClientAuthCapabilities<'a> = "auth" @newest,
        optional elicitation: ElicitationCapabilities<'a> = "elicitation" @newest,
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Ways of logging in that a client supports.
    ClientAuthCapabilities {
        optional terminal: EmptyObject<'a> = "terminal",
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
        /// Sessions at all: new, list, resume, close, prompt, cancel and update.
        optional session: SessionCapabilities<'a> = "session",
        optional auth: EmptyObject<'a> = "auth",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// What an agent can do in sessions, beyond what every agent can.
    SessionCapabilities {
        optional prompt: PromptCapabilities<'a> = "prompt",
        optional mcp: McpCapabilities<'a> = "mcp",
        optional delete: EmptyObject<'a> = "delete",
        optional additional_directories: EmptyObject<'a> = "additionalDirectories",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Content that a prompt may hold, beside text and resource links.
    PromptCapabilities {
        optional image: EmptyObject<'a> = "image",
        optional audio: EmptyObject<'a> = "audio",
        optional embedded_context: EmptyObject<'a> = "embeddedContext",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Kinds of MCP servers that an agent can use.
    McpCapabilities {
        optional stdio: EmptyObject<'a> = "stdio",
        optional http: EmptyObject<'a> = "http",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// A way to log in.
    AuthMethod by "type" requires ["methodId", "name"] {
        /// The agent does it, on `auth/login`.
        Agent(AuthMethodAgent<'a>) = "agent",
        /// The client runs the agent's program in a terminal.
        Terminal(AuthMethodTerminal<'a>) = "terminal" @newest,
    }
}

object! {
    /// A login that the agent does itself.
    AuthMethodAgent {
        required method_id: Text<'a> = "methodId",
        required name: Text<'a> = "name",
        optional description: Text<'a> = "description",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A login in a terminal.
    AuthMethodTerminal {
        required method_id: Text<'a> = "methodId",
        required name: Text<'a> = "name",
        optional description: Text<'a> = "description",
        strict_defaulted args: Vec<Text<'a>> = "args",
        strict_defaulted env: Vec<EnvVariable<'a>> = "env",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Logs in.
    LoginAuthRequest {
        required method_id: Text<'a> = "methodId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Logs out.
    LogoutAuthRequest {
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Goes with the error that says which versions an agent speaks.
    UnsupportedProtocolVersionErrorData {
        required requested: u16 = "requested",
        required supported: Vec<u16> = "supported",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Goes with the error that says a session does not exist.
    SessionNotFoundErrorData {
        required session_id: Text<'a> = "sessionId",
        optional meta: Meta<'a> = "_meta",
    }
}
