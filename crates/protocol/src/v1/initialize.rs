//! The handshake and authentication.

use crate::macros::{object, union};
use crate::v1::unstable::SessionSystemPromptCapabilities;
use crate::v1::{EmptyObject, Implementation};
use crate::{Map, Text};

object! {
    /// Opens a connection.
    InitializeRequest {
        /// Highest version that the client supports.
        required protocol_version: u16 = "protocolVersion",
        /// Capabilities of the client.
        defaulted client_capabilities: ClientCapabilities<'a> = "clientCapabilities",
        /// The client's name and version.
        optional client_info: Implementation<'a> = "clientInfo",
    } with optional _meta
}

object! {
    /// Version chosen by the agent, and its capabilities.
    InitializeResponse {
        /// Negotiated version.
        required protocol_version: u16 = "protocolVersion",
        /// Capabilities of the agent.
        defaulted agent_capabilities: AgentCapabilities<'a> = "agentCapabilities",
        /// Login methods. Empty if no login is needed.
        defaulted auth_methods: Vec<AuthMethod<'a>> = "authMethods",
        /// The agent's name and version.
        optional agent_info: Implementation<'a> = "agentInfo",
    } with optional _meta
}

object! {
    /// Capabilities of a client.
    ClientCapabilities {
        /// File access that the client provides.
        defaulted fs: FileSystemCapabilities<'a> = "fs",
        /// True if the client runs commands for the agent.
        defaulted terminal: bool = "terminal",
        /// Session updates that the client supports.
        optional session: ClientSessionCapabilities<'a> = "session",
        /// Login methods that the client supports.
        defaulted auth: ClientAuthCapabilities<'a> = "auth",
        /// Elicitation modes that the client supports.
        optional elicitation: ElicitationCapabilities<'a> = "elicitation",
        /// Sub-agents. **Unstable.**
        optional subagents: EmptyObject<'a> = "subagents",
        /// Several plans at once. **Unstable.**
        optional plan: EmptyObject<'a> = "plan",
    } with optional _meta
}

object! {
    /// File access that a client provides.
    FileSystemCapabilities {
        /// True if it reads files.
        defaulted read_text_file: bool = "readTextFile",
        /// True if it writes files.
        defaulted write_text_file: bool = "writeTextFile",
    } with optional _meta
}

object! {
    /// Session updates that a client supports.
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
    /// Kinds of configuration options that a client supports.
    SessionConfigOptionsCapabilities {
        /// Boolean options.
        optional boolean: EmptyObject<'a> = "boolean",
    } with optional _meta
}

object! {
    /// Login methods that a client supports.
    ClientAuthCapabilities {
        /// Logins in a terminal that the client opens.
        defaulted terminal: bool = "terminal",
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
        /// True if `session/load` is supported.
        defaulted load_session: bool = "loadSession",
        /// Content types supported in prompts.
        defaulted prompt_capabilities: PromptCapabilities<'a> = "promptCapabilities",
        /// Supported kinds of MCP servers.
        defaulted mcp_capabilities: McpCapabilities<'a> = "mcpCapabilities",
        /// Supported session methods.
        defaulted session_capabilities: SessionCapabilities<'a> = "sessionCapabilities",
        /// Login features other than login and logout.
        defaulted auth: AgentAuthCapabilities<'a> = "auth",
        /// Support for configuring model providers. **Unstable.**
        optional providers: EmptyObject<'a> = "providers",
    } with optional _meta
}

object! {
    /// Content types supported in prompts in addition to text and resource links.
    PromptCapabilities {
        /// Images.
        defaulted image: bool = "image",
        /// Audio.
        defaulted audio: bool = "audio",
        /// Embedded resources.
        defaulted embedded_context: bool = "embeddedContext",
    } with optional _meta
}

object! {
    /// Kinds of MCP servers that an agent supports in addition to stdio.
    McpCapabilities {
        /// HTTP servers.
        defaulted http: bool = "http",
        /// Servers over server-sent events.
        defaulted sse: bool = "sse",
        /// Servers tunnelled through this connection. **Unstable.**
        defaulted acp: bool = "acp",
    } with optional _meta
}

object! {
    /// Session methods that an agent supports.
    SessionCapabilities {
        /// `session/list`.
        optional list: EmptyObject<'a> = "list",
        /// `session/delete`.
        optional delete: EmptyObject<'a> = "delete",
        /// Additional directories.
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
    /// Authentication features of an agent.
    AgentAuthCapabilities {
        /// `logout`.
        optional logout: EmptyObject<'a> = "logout",
        /// `auth/status`. **Unstable.**
        optional status: EmptyObject<'a> = "status",
    } with optional _meta
}

union! {
    /// A login method.
    AuthMethod by "type" untagged
        /// The agent performs it, on `authenticate`.
        Agent(AuthMethodAgent<'a>)
    {
        /// The client runs the agent's program in a terminal.
        Terminal(AuthMethodTerminal<'a>) = "terminal",
    }
}

object! {
    /// A login that the agent performs itself.
    AuthMethodAgent {
        /// Id with which it is selected.
        required id: Text<'a> = "id",
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
        required id: Text<'a> = "id",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Instructions for the user.
        optional description: Text<'a> = "description",
        /// Arguments appended to those of the agent's program.
        strict_defaulted args: Vec<Text<'a>> = "args",
        /// Environment variables added to those of the agent's program.
        strict_defaulted env: Map<'a, Text<'a>> = "env",
    } with optional _meta
}

object! {
    /// Logs in.
    AuthenticateRequest {
        /// Id of the login method.
        required method_id: Text<'a> = "methodId",
    } with optional _meta
}

object! {
    /// Logs out.
    LogoutRequest {
    } with optional _meta
}
