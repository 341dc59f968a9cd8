//! Unstable types of the newest draft that are the same in both versions. They may change or be removed with
//! a later draft, in a release that says so.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::macros::{object, open_enum};
use crate::shared::common::EmptyObject;
use crate::shared::content::ContentBlock;
use crate::{Field, Map, Meta, Raw, Text, WireFormat};

// Sub-agents.

object! {
    /// Actions that a client can request for a sub-agent's session. **Unstable.**
    SubagentSessionCapabilities {
        /// `session/cancel`.
        optional cancel: EmptyObject<'a> = "cancel",
    } with optional _meta
}

object! {
    /// Creates or changes a message from one session to another in the transcript of one of them.
    /// **Unstable.**
    SessionMessage {
        /// Id of the message in the transcript of this session.
        required message_id: Text<'a> = "messageId",
        /// Sending session.
        patch sender_session_id: Text<'a> = "senderSessionId",
        /// Receiving session.
        patch recipient_session_id: Text<'a> = "recipientSessionId",
        /// Id of the same message in the sender's transcript.
        patch sender_message_id: Text<'a> = "senderMessageId",
        /// Id of the same message in the recipient's transcript.
        patch recipient_message_id: Text<'a> = "recipientMessageId",
        /// Complete content.
        patch content: Vec<ContentBlock<'a>> = "content",
    } with patch _meta
}

object! {
    /// Appends one block to a message from one session to another. **Unstable.**
    SessionMessageChunk {
        /// Id of the message.
        required message_id: Text<'a> = "messageId",
        /// The block.
        required content: ContentBlock<'a> = "content",
    } with optional _meta
}

object! {
    /// Token usage of some work. **Unstable.**
    Usage {
        /// Complete list.
        required total_tokens: u64 = "totalTokens",
        /// Input tokens.
        required input_tokens: u64 = "inputTokens",
        /// Output tokens.
        required output_tokens: u64 = "outputTokens",
        /// Reasoning tokens.
        optional thought_tokens: u64 = "thoughtTokens",
        /// Tokens read from the provider's cache.
        optional cached_read_tokens: u64 = "cachedReadTokens",
        /// Tokens written to the provider's cache.
        optional cached_write_tokens: u64 = "cachedWriteTokens",
    } with optional _meta
}

// Plans.

object! {
    /// A plan in a file. **Unstable.**
    PlanFile {
        /// Id of the plan. An unknown id creates a plan.
        required plan_id: Text<'a> = "planId",
        /// Path of the file.
        required uri: Text<'a> = "uri",
    } with optional _meta
}

object! {
    /// A plan in Markdown. **Unstable.**
    PlanMarkdown {
        /// Id of the plan. An unknown id creates a plan.
        required plan_id: Text<'a> = "planId",
        /// Complete text.
        required content: Text<'a> = "content",
    } with optional _meta
}

object! {
    /// Removes a plan. **Unstable.**
    PlanRemoved {
        /// Id of the plan.
        required plan_id: Text<'a> = "planId",
    } with optional _meta
}

// Sessions.

object! {
    /// Archives a session: it is kept, but excluded from lists. **Unstable.**
    ArchiveSessionRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

object! {
    /// Unarchives a session. **Unstable.**
    UnarchiveSessionRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

open_enum! {
    /// Filter for archived sessions. **Unstable.**
    SessionArchiveFilter in both_versions {
        /// Only sessions that are not archived.
        Exclude = "exclude",
        /// All sessions.
        Include = "include",
        /// Only archived sessions.
        Only = "only",
    }
}

object! {
    /// Sets the title of a session. **Unstable.**
    SetSessionTitleRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// The title.
        required title: Text<'a> = "title",
    } with optional _meta
}

object! {
    /// Result of setting a title. **Unstable.**
    SetSessionTitleResponse {
        /// Title as stored by the agent.
        required title: Text<'a> = "title",
    } with optional _meta
}

object! {
    /// Requests the status of a session. **Unstable.**
    SessionStatusRequest {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

open_enum! {
    /// Status of a session. **Unstable.**
    SessionStatus in both_versions {
        /// The session is open.
        Open = "open",
        /// The session is saved and must be resumed first.
        Saved = "saved",
    }
}

object! {
    /// System prompt for the model. **Unstable.**
    SystemPrompt {
        /// Appended to the agent's own system prompt, or in place of it.
        required mode: SystemPromptMode = "mode",
        /// Content of the system prompt.
        strict_required content: Vec<ContentBlock<'a>> = "content",
    } with optional _meta
}

open_enum! {
    /// Mode of a system prompt. **Unstable.**
    SystemPromptMode in both_versions {
        /// Appended to the agent's own system prompt.
        Append = "append",
        /// Replaces the agent's own system prompt.
        Override = "override",
    }
}

object! {
    /// Support for system prompts. **Unstable.**
    SessionSystemPromptCapabilities {
        /// Supported modes other than appending.
        optional mode: SessionSystemPromptModeCapabilities<'a> = "mode",
    } with optional _meta
}

object! {
    /// Supported modes of system prompts other than appending. **Unstable.**
    SessionSystemPromptModeCapabilities {
        /// Replacing the agent's own system prompt.
        optional replace: EmptyObject<'a> = "override",
    } with optional _meta
}

// Logins.

object! {
    /// Requests the login state. **Unstable.**
    AuthStatusRequest {
    } with optional _meta
}

object! {
    /// Login state. **Unstable.**
    AuthStatusResponse {
        /// Login state.
        required state: AuthState = "state",
        /// Accounts of the agent, for display.
        defaulted accounts: Vec<AuthAccount<'a>> = "accounts",
    } with optional _meta
}

object! {
    /// The login state changed. **Unstable.**
    AuthStatusUpdateNotification {
        /// Login state.
        required state: AuthState = "state",
        /// Accounts of the agent, for display.
        defaulted accounts: Vec<AuthAccount<'a>> = "accounts",
    } with optional _meta
}

open_enum! {
    /// Login state. An unknown state has no meaning. **Unstable.**
    AuthState in both_versions {
        /// Logged in.
        Authenticated = "authenticated",
        /// A login is required first.
        Unauthenticated = "unauthenticated",
        /// No login is required.
        NotRequired = "not_required",
        /// The agent cannot determine it.
        Undetermined = "unknown",
    }
}

object! {
    /// An account or key of an agent, for display only: it must not be stored or forwarded. **Unstable.**
    AuthAccount {
        /// Self-contained label.
        required label: Text<'a> = "label",
        /// True if the agent uses it.
        optional active: bool = "active",
        /// Name of the user.
        optional name: Text<'a> = "name",
        /// Email address of the user.
        optional email: Text<'a> = "email",
        /// Organization of the user.
        optional organization: Text<'a> = "organization",
    } with optional _meta
}

// Providers of models.

object! {
    /// Requests the model providers that can be configured. **Unstable.**
    ListProvidersRequest {
    } with optional _meta
}

object! {
    /// Model providers that can be configured. **Unstable.**
    ListProvidersResponse {
        /// Complete list.
        required providers: Vec<ProviderInfo<'a>> = "providers",
    } with optional _meta
}

object! {
    /// A model provider. **Unstable.**
    ProviderInfo {
        /// Id with which it is configured.
        required provider_id: Text<'a> = "providerId",
        /// Protocols that the agent supports for it.
        required supported: Vec<LlmProtocol> = "supported",
        /// True if the agent requires it.
        required required: bool = "required",
        /// Current configuration. Missing while it is disabled.
        strict_optional current: ProviderCurrentConfig<'a> = "current",
    } with optional _meta
}

object! {
    /// Configuration of a model provider, without secrets. **Unstable.**
    ProviderCurrentConfig {
        /// Protocol that the agent uses.
        required api_type: LlmProtocol = "apiType",
        /// URL.
        required base_url: Text<'a> = "baseUrl",
    } with optional _meta
}

open_enum! {
    /// Protocol between an agent and a model provider. **Unstable.**
    LlmProtocol in both_versions {
        /// Anthropic's.
        Anthropic = "anthropic",
        /// OpenAI's.
        OpenAi = "openai",
        /// Azure's.
        Azure = "azure",
        /// Google's.
        Vertex = "vertex",
        /// Amazon's.
        Bedrock = "bedrock",
    }
}

object! {
    /// Configures a model provider. Replaces its previous configuration. **Unstable.**
    SetProviderRequest {
        /// Id of the provider.
        required provider_id: Text<'a> = "providerId",
        /// Protocol to use.
        required api_type: LlmProtocol = "apiType",
        /// URL.
        required base_url: Text<'a> = "baseUrl",
        /// Headers of each request. They may contain secrets.
        strict_defaulted headers: Map<'a, Text<'a>> = "headers",
    } with optional _meta
}

object! {
    /// Disables a model provider. **Unstable.**
    DisableProviderRequest {
        /// Id of the provider.
        required provider_id: Text<'a> = "providerId",
    } with optional _meta
}

// MCP servers that are reached through the connection itself.

object! {
    /// An MCP server tunnelled through this connection. **Unstable.**
    McpServerAcp {
        /// Name of the server for display.
        required name: Text<'a> = "name",
        /// Id of the server in messages.
        required server_id: Text<'a> = "serverId",
    } with optional _meta
}

object! {
    /// An MCP request or notification for a server tunnelled through this connection. **Unstable.**
    MessageMcpRequest {
        /// Id of the server.
        required server_id: Text<'a> = "serverId",
        /// Request id at the server.
        required request_id: Text<'a> = "requestId",
        /// MCP method.
        required method: Text<'a> = "method",
        /// Parameters, an object.
        optional params: Meta<'a> = "params",
    } with optional _meta
}

object! {
    /// Response of an MCP server: a result or an error. **Unstable.**
    MessageMcpResponse rules one_outcome shape one_outcome_required {
        /// The result. May be `null`.
        patch result: Raw<'a> = "result",
        /// The error.
        patch error: McpError<'a> = "error",
    } with optional _meta
}

fn one_outcome(response: &MessageMcpResponse<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    match (response.result.is_keep(), &response.error) {
        (true, Field::Set(_)) | (false, Field::Keep | Field::Clear) => Ok(()),
        (true, _) => reader.fault(start, Problem::Missing("result")),
        (false, _) => reader.broken_rule(start, "a \"result\" or an \"error\", not both".to_owned()),
    }
}

fn one_outcome_required(schema: &mut Value, _: WireFormat) {
    let error = json!({"not": {"type": "null"}, "description": "The error."});
    schema["oneOf"] =
        json!([{"required": ["result"]}, {"required": ["error"], "properties": {"error": error}}]);
}

object! {
    /// An error of an MCP server. **Unstable.**
    McpError {
        /// Error code.
        required code: i32 = "code",
        /// Error message for display.
        required message: Text<'a> = "message",
        /// Additional data.
        optional data: Raw<'a> = "data",
    }
}

// Chains of proxies.

object! {
    /// A message to or from the next proxy in a chain. **Unstable.**
    ProxySuccessorMessage {
        /// The method of the message.
        required method: Text<'a> = "method",
        /// Parameters.
        optional params: Raw<'a> = "params",
    } with optional _meta
}
