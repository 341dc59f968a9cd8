//! The handshake and authentication.

use crate::Text;
use crate::macros::{object, union};
use crate::v2::unstable::SessionSystemPromptCapabilities;
use crate::v2::{EmptyObject, EnvVariable, Implementation};

object! {
    /// Opens a connection.
    InitializeRequest {
        /// The highest version that the client speaks.
        required protocol_version: u16 = "protocolVersion",
        /// The client's name and version.
        required info: Implementation<'a> = "info",
        /// What the client can do.
        defaulted capabilities: ClientCapabilities<'a> = "capabilities",
    } with optional _meta
}

object! {
    /// The version that the agent chose, and what it can do.
    InitializeResponse {
        /// The version of this connection.
        required protocol_version: u16 = "protocolVersion",
        /// The agent's name and version.
        required info: Implementation<'a> = "info",
        /// What the agent can do.
        defaulted capabilities: AgentCapabilities<'a> = "capabilities",
        /// Ways to log in; none when there is no need to.
        defaulted auth_methods: Vec<AuthMethod<'a>> = "authMethods",
    } with optional _meta
}

object! {
    /// What a client can do.
    ClientCapabilities {
        /// Ways of logging in that the client supports.
        optional auth: ClientAuthCapabilities<'a> = "auth" @newest,
        /// Ways of asking the user that the client supports.
        optional elicitation: ElicitationCapabilities<'a> = "elicitation" @newest,
    } with optional _meta
}

object! {
    /// Ways of logging in that a client supports.
    ClientAuthCapabilities {
        /// Logins in a terminal that the client opens.
        optional terminal: EmptyObject<'a> = "terminal",
    } with optional _meta
}

object! {
    /// Ways of asking the user that a client supports.
    ElicitationCapabilities {
        /// Forms.
        optional form: EmptyObject<'a> = "form",
        /// Web pages.
        optional url: EmptyObject<'a> = "url",
    } with optional _meta
}

object! {
    /// What an agent can do.
    AgentCapabilities {
        /// Sessions at all: new, list, resume, close, prompt, cancel and update.
        optional session: SessionCapabilities<'a> = "session",
        /// What it can do about logins, beside logging in and out.
        optional auth: AgentAuthCapabilities<'a> = "auth",
        /// Providers of models that the client can set up. **Unstable.**
        optional providers: EmptyObject<'a> = "providers" @unstable,
    } with optional _meta
}

object! {
    /// What an agent can do about logins, beside logging in and out.
    AgentAuthCapabilities {
        /// `auth/status`. **Unstable.**
        optional status: EmptyObject<'a> = "status" @unstable,
    } with optional _meta
}

object! {
    /// What an agent can do in sessions, beyond what every agent can.
    SessionCapabilities {
        /// Content that a prompt may hold, beside text and resource links.
        optional prompt: PromptCapabilities<'a> = "prompt",
        /// Kinds of MCP servers that it can use.
        optional mcp: McpCapabilities<'a> = "mcp",
        /// `session/delete`.
        optional delete: EmptyObject<'a> = "delete",
        /// More directories than the working directory.
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
    /// Content that a prompt may hold, beside text and resource links.
    PromptCapabilities {
        /// Pictures.
        optional image: EmptyObject<'a> = "image",
        /// Sound.
        optional audio: EmptyObject<'a> = "audio",
        /// Resources with their contents.
        optional embedded_context: EmptyObject<'a> = "embeddedContext",
    } with optional _meta
}

object! {
    /// Kinds of MCP servers that an agent can use.
    McpCapabilities {
        /// Servers that run as a process.
        optional stdio: EmptyObject<'a> = "stdio",
        /// Servers reached by HTTP.
        optional http: EmptyObject<'a> = "http",
        /// Servers reached through the connection itself. **Unstable.**
        optional acp: EmptyObject<'a> = "acp" @unstable,
    } with optional _meta
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
        /// The name by which it is chosen.
        required method_id: Text<'a> = "methodId",
        /// The name that people read.
        required name: Text<'a> = "name",
        /// What the user has to do.
        optional description: Text<'a> = "description",
    } with optional _meta
}

object! {
    /// A login in a terminal.
    AuthMethodTerminal {
        /// The name by which it is chosen.
        required method_id: Text<'a> = "methodId",
        /// The name that people read.
        required name: Text<'a> = "name",
        /// What the user has to do.
        optional description: Text<'a> = "description",
        /// Arguments for the agent's program, behind its own.
        strict_defaulted args: Vec<Text<'a>> = "args",
        /// Variables for the agent's program, beside its own.
        strict_defaulted env: Vec<EnvVariable<'a>> = "env",
    } with optional _meta
}

object! {
    /// Logs in.
    LoginAuthRequest {
        /// The way to log in.
        required method_id: Text<'a> = "methodId",
    } with optional _meta
}

object! {
    /// Logs out.
    LogoutAuthRequest {
    } with optional _meta
}

object! {
    /// Goes with the error that says which versions an agent speaks.
    UnsupportedProtocolVersionErrorData {
        /// The version that the client asked for.
        required requested: u16 = "requested",
        /// The versions that the agent speaks.
        required supported: Vec<u16> = "supported",
    } with optional _meta
}

object! {
    /// Goes with the error that says a session does not exist.
    SessionNotFoundErrorData {
        /// The session that is not there.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}
