//! The handshake and authentication.

use crate::macros::{object, union};
use crate::v1::unstable::SessionSystemPromptCapabilities;
use crate::v1::{EmptyObject, Implementation};
use crate::{Map, Text};

object! {
    /// Opens a connection.
    InitializeRequest {
        /// The highest version that the client speaks.
        required protocol_version: u16 = "protocolVersion",
        /// What the client can do.
        defaulted client_capabilities: ClientCapabilities<'a> = "clientCapabilities",
        /// The client's name and version.
        optional client_info: Implementation<'a> = "clientInfo",
    } with optional _meta
}

object! {
    /// The version that the agent chose, and what it can do.
    InitializeResponse {
        /// The version of this connection.
        required protocol_version: u16 = "protocolVersion",
        /// What the agent can do.
        defaulted agent_capabilities: AgentCapabilities<'a> = "agentCapabilities",
        /// Ways to log in; none when there is no need to.
        defaulted auth_methods: Vec<AuthMethod<'a>> = "authMethods",
        /// The agent's name and version.
        optional agent_info: Implementation<'a> = "agentInfo",
    } with optional _meta
}

object! {
    /// What a client can do.
    ClientCapabilities {
        /// Files that the client reads and writes for the agent.
        defaulted fs: FileSystemCapabilities<'a> = "fs",
        /// Whether the client runs commands for the agent.
        defaulted terminal: bool = "terminal",
        /// Session updates that the client understands.
        optional session: ClientSessionCapabilities<'a> = "session",
        /// Ways of logging in that the client supports.
        defaulted auth: ClientAuthCapabilities<'a> = "auth",
        /// Ways of asking the user that the client supports.
        optional elicitation: ElicitationCapabilities<'a> = "elicitation",
        /// Sub-agents. **Unstable.**
        optional subagents: EmptyObject<'a> = "subagents",
        /// Several plans at once. **Unstable.**
        optional plan: EmptyObject<'a> = "plan",
    } with optional _meta
}

object! {
    /// Files that a client reads and writes for the agent.
    FileSystemCapabilities {
        /// Whether it reads files.
        defaulted read_text_file: bool = "readTextFile",
        /// Whether it writes files.
        defaulted write_text_file: bool = "writeTextFile",
    } with optional _meta
}

object! {
    /// Session updates that a client understands.
    ClientSessionCapabilities {
        /// Compactions of the conversation.
        optional compaction: EmptyObject<'a> = "compaction",
        /// Configuration options, by kind.
        optional config_options: SessionConfigOptionsCapabilities<'a> = "configOptions",
        /// Notices.
        optional notices: EmptyObject<'a> = "notices",
    } with optional _meta
}

object! {
    /// Kinds of configuration options that a client understands.
    SessionConfigOptionsCapabilities {
        /// Options to switch on and off.
        optional boolean: EmptyObject<'a> = "boolean",
    } with optional _meta
}

object! {
    /// Ways of logging in that a client supports.
    ClientAuthCapabilities {
        /// Logins in a terminal that the client opens.
        defaulted terminal: bool = "terminal",
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
        /// Whether `session/load` is there.
        defaulted load_session: bool = "loadSession",
        /// Content that a prompt may hold.
        defaulted prompt_capabilities: PromptCapabilities<'a> = "promptCapabilities",
        /// Kinds of MCP servers that it can use.
        defaulted mcp_capabilities: McpCapabilities<'a> = "mcpCapabilities",
        /// Session methods that it has.
        defaulted session_capabilities: SessionCapabilities<'a> = "sessionCapabilities",
        /// What it can do about logins, beside logging in and out.
        defaulted auth: AgentAuthCapabilities<'a> = "auth",
        /// Providers of models that the client can set up. **Unstable.**
        optional providers: EmptyObject<'a> = "providers",
    } with optional _meta
}

object! {
    /// Content that a prompt may hold, beside text and resource links.
    PromptCapabilities {
        /// Pictures.
        defaulted image: bool = "image",
        /// Sound.
        defaulted audio: bool = "audio",
        /// Resources with their contents.
        defaulted embedded_context: bool = "embeddedContext",
    } with optional _meta
}

object! {
    /// Kinds of MCP servers that an agent can use, beside processes.
    McpCapabilities {
        /// Servers reached by HTTP.
        defaulted http: bool = "http",
        /// Servers reached by server-sent events.
        defaulted sse: bool = "sse",
        /// Servers reached through the connection itself. **Unstable.**
        defaulted acp: bool = "acp",
    } with optional _meta
}

object! {
    /// Session methods that an agent has.
    SessionCapabilities {
        /// `session/list`.
        optional list: EmptyObject<'a> = "list",
        /// `session/delete`.
        optional delete: EmptyObject<'a> = "delete",
        /// More directories than the working directory.
        optional additional_directories: EmptyObject<'a> = "additionalDirectories",
        /// `session/resume`.
        optional resume: EmptyObject<'a> = "resume",
        /// `session/close`.
        optional close: EmptyObject<'a> = "close",
        /// `session/fork`. **Unstable.**
        optional fork: EmptyObject<'a> = "fork",
        /// `session/archive` and `session/unarchive`. **Unstable.**
        optional archive: EmptyObject<'a> = "archive",
        /// `session/set_title`. **Unstable.**
        optional title: EmptyObject<'a> = "title",
        /// `session/status`. **Unstable.**
        optional status: EmptyObject<'a> = "status",
        /// System prompts. **Unstable.**
        optional system_prompt: SessionSystemPromptCapabilities<'a> = "systemPrompt",
    } with optional _meta
}

object! {
    /// Authentication methods that an agent has.
    AgentAuthCapabilities {
        /// `logout`.
        optional logout: EmptyObject<'a> = "logout",
        /// `auth/status`. **Unstable.**
        optional status: EmptyObject<'a> = "status",
    } with optional _meta
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
        /// The name by which it is chosen.
        required id: Text<'a> = "id",
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
        required id: Text<'a> = "id",
        /// The name that people read.
        required name: Text<'a> = "name",
        /// What the user has to do.
        optional description: Text<'a> = "description",
        /// Arguments for the agent's program, behind its own.
        strict_defaulted args: Vec<Text<'a>> = "args",
        /// Variables for the agent's program, beside its own.
        strict_defaulted env: Map<'a, Text<'a>> = "env",
    } with optional _meta
}

object! {
    /// Logs in.
    AuthenticateRequest {
        /// The way to log in.
        required method_id: Text<'a> = "methodId",
    } with optional _meta
}

object! {
    /// Logs out.
    LogoutRequest {
    } with optional _meta
}
