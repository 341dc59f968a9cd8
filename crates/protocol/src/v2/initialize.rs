//! The handshake and authentication.

use crate::Text;
use crate::macros::{object, union};
use crate::v2::unstable::SessionSystemPromptCapabilities;
use crate::v2::{EmptyObject, EnvVariable, Implementation};

object! {
    /// Opens a connection.
    InitializeRequest {
        /// Highest version that the client supports.
        required protocol_version: u16 = "protocolVersion",
        /// The client's name and version.
        required info: Implementation<'a> = "info",
        /// Capabilities of the client.
        defaulted capabilities: ClientCapabilities<'a> = "capabilities",
    } with optional _meta
}

object! {
    /// Version chosen by the agent, and its capabilities.
    InitializeResponse {
        /// Negotiated version.
        required protocol_version: u16 = "protocolVersion",
        /// The agent's name and version.
        required info: Implementation<'a> = "info",
        /// Capabilities of the agent.
        defaulted capabilities: AgentCapabilities<'a> = "capabilities",
        /// Login methods. Empty if no login is needed.
        defaulted auth_methods: Vec<AuthMethod<'a>> = "authMethods",
    } with optional _meta
}

object! {
    /// Capabilities of a client.
    ClientCapabilities {
        /// Login methods that the client supports.
        optional auth: ClientAuthCapabilities<'a> = "auth" @newest,
        /// Elicitation modes that the client supports.
        optional elicitation: ElicitationCapabilities<'a> = "elicitation" @newest,
    } with optional _meta
}

object! {
    /// Login methods that a client supports.
    ClientAuthCapabilities {
        /// Logins in a terminal that the client opens.
        optional terminal: EmptyObject<'a> = "terminal",
    } with optional _meta
}

object! {
    /// Elicitation modes that a client supports.
    ElicitationCapabilities {
        /// Forms.
        optional form: EmptyObject<'a> = "form",
        /// Web pages.
        optional url: EmptyObject<'a> = "url",
    } with optional _meta
}

object! {
    /// Capabilities of an agent.
    AgentCapabilities {
        /// Support for sessions: new, list, resume, close, prompt, cancel and update.
        optional session: SessionCapabilities<'a> = "session",
        /// Login features other than login and logout.
        optional auth: AgentAuthCapabilities<'a> = "auth",
        /// Support for configuring model providers. **Unstable.**
        optional providers: EmptyObject<'a> = "providers" @unstable,
    } with optional _meta
}

object! {
    /// Login features of an agent other than login and logout.
    AgentAuthCapabilities {
        /// `auth/status`. **Unstable.**
        optional status: EmptyObject<'a> = "status" @unstable,
    } with optional _meta
}

object! {
    /// Optional session capabilities of an agent.
    SessionCapabilities {
        /// Content types supported in prompts in addition to text and resource links.
        optional prompt: PromptCapabilities<'a> = "prompt",
        /// Supported kinds of MCP servers.
        optional mcp: McpCapabilities<'a> = "mcp",
        /// `session/delete`.
        optional delete: EmptyObject<'a> = "delete",
        /// Additional directories.
        optional additional_directories: EmptyObject<'a> = "additionalDirectories",
        /// `session/fork`. **Unstable.**
        optional fork: EmptyObject<'a> = "fork" @unstable,
        /// `session/archive` and `session/unarchive`. **Unstable.**
        optional archive: EmptyObject<'a> = "archive" @unstable,
        /// `session/set_title`. **Unstable.**
        optional title: EmptyObject<'a> = "title" @unstable,
        /// `session/status`. **Unstable.**
        optional status: EmptyObject<'a> = "status" @unstable,
        /// System prompts. **Unstable.**
        optional system_prompt: SessionSystemPromptCapabilities<'a> = "systemPrompt" @unstable,
    } with optional _meta
}

object! {
    /// Content types supported in prompts in addition to text and resource links.
    PromptCapabilities {
        /// Images.
        optional image: EmptyObject<'a> = "image",
        /// Audio.
        optional audio: EmptyObject<'a> = "audio",
        /// Embedded resources.
        optional embedded_context: EmptyObject<'a> = "embeddedContext",
    } with optional _meta
}

object! {
    /// Kinds of MCP servers that an agent supports.
    McpCapabilities {
        /// Servers over stdio.
        optional stdio: EmptyObject<'a> = "stdio",
        /// HTTP servers.
        optional http: EmptyObject<'a> = "http",
        /// Servers tunnelled through this connection. **Unstable.**
        optional acp: EmptyObject<'a> = "acp" @unstable,
    } with optional _meta
}

union! {
    /// A login method.
    AuthMethod by "type" requires ["methodId", "name"] {
        /// The agent performs it, on `auth/login`.
        Agent(AuthMethodAgent<'a>) = "agent",
        /// The client runs the agent's program in a terminal.
        Terminal(AuthMethodTerminal<'a>) = "terminal" @newest,
    }
}

object! {
    /// A login that the agent performs itself.
    AuthMethodAgent {
        /// Id with which it is selected.
        required method_id: Text<'a> = "methodId",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Instructions for the user.
        optional description: Text<'a> = "description",
    } with optional _meta
}

object! {
    /// A login in a terminal.
    AuthMethodTerminal {
        /// Id with which it is selected.
        required method_id: Text<'a> = "methodId",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Instructions for the user.
        optional description: Text<'a> = "description",
        /// Arguments appended to those of the agent's program.
        strict_defaulted args: Vec<Text<'a>> = "args",
        /// Environment variables added to those of the agent's program.
        strict_defaulted env: Vec<EnvVariable<'a>> = "env",
    } with optional _meta
}

object! {
    /// Logs in.
    LoginAuthRequest {
        /// Id of the login method.
        required method_id: Text<'a> = "methodId",
    } with optional _meta
}

object! {
    /// Logs out.
    LogoutAuthRequest {
    } with optional _meta
}

object! {
    /// Error data with the versions that an agent supports.
    UnsupportedProtocolVersionErrorData {
        /// Version requested by the client.
        required requested: u16 = "requested",
        /// Versions that the agent supports.
        required supported: Vec<u16> = "supported",
    } with optional _meta
}

object! {
    /// Error data for a session that does not exist.
    SessionNotFoundErrorData {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}
