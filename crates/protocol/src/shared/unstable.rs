//! What the newest draft calls unstable and both versions spell alike. It may change or go with a later draft;
//! then the fields and variants here change too, in a release that says so.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::macros::{object, open_enum};
use crate::shared::common::EmptyObject;
use crate::shared::content::ContentBlock;
use crate::{Field, Map, Meta, Raw, Text, WireFormat};

// Sub-agents.

object! {
    /// What a client may do to the session of a sub-agent by itself. **Unstable.**
    SubagentSessionCapabilities {
        /// `session/cancel`.
        optional cancel: EmptyObject<'a> = "cancel",
    } with optional _meta
}

object! {
    /// Creates or changes a message from one session to another, as it stands in the transcript of one of them.
    /// **Unstable.**
    SessionMessage {
        /// The message in the transcript of the session whose update it is.
        required message_id: Text<'a> = "messageId",
        /// The session that sent it.
        patch sender_session_id: Text<'a> = "senderSessionId",
        /// The session that it is for.
        patch recipient_session_id: Text<'a> = "recipientSessionId",
        /// The same message in the transcript of the sender.
        patch sender_message_id: Text<'a> = "senderMessageId",
        /// The same message in the transcript of the recipient.
        patch recipient_message_id: Text<'a> = "recipientMessageId",
        /// All of the message.
        patch content: Vec<ContentBlock<'a>> = "content",
    } with patch _meta
}

object! {
    /// Appends one block to a message from one session to another. **Unstable.**
    SessionMessageChunk {
        /// The message.
        required message_id: Text<'a> = "messageId",
        /// The block.
        required content: ContentBlock<'a> = "content",
    } with optional _meta
}

object! {
    /// How many tokens some work took. **Unstable.**
    Usage {
        /// All of them.
        required total_tokens: u64 = "totalTokens",
        /// What the model was given.
        required input_tokens: u64 = "inputTokens",
        /// What the model wrote.
        required output_tokens: u64 = "outputTokens",
        /// What the model thought.
        optional thought_tokens: u64 = "thoughtTokens",
        /// What the model's provider had kept from before.
        optional cached_read_tokens: u64 = "cachedReadTokens",
        /// What the model's provider kept for later.
        optional cached_write_tokens: u64 = "cachedWriteTokens",
    } with optional _meta
}

// Plans.

object! {
    /// A plan that stands in a file. **Unstable.**
    PlanFile {
        /// The plan; one that was not heard of yet is new.
        required plan_id: Text<'a> = "planId",
        /// The file.
        required uri: Text<'a> = "uri",
    } with optional _meta
}

object! {
    /// A plan in Markdown. **Unstable.**
    PlanMarkdown {
        /// The plan; one that was not heard of yet is new.
        required plan_id: Text<'a> = "planId",
        /// All of its text.
        required content: Text<'a> = "content",
    } with optional _meta
}

object! {
    /// Takes a plan away. **Unstable.**
    PlanRemoved {
        /// The plan.
        required plan_id: Text<'a> = "planId",
    } with optional _meta
}

// Sessions.

object! {
    /// Puts a session away: it is kept, and lists leave it out. **Unstable.**
    ArchiveSessionRequest {
        /// The session.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

object! {
    /// Takes a session out of the archive. **Unstable.**
    UnarchiveSessionRequest {
        /// The session.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

open_enum! {
    /// Which sessions a list has, by whether they are archived. **Unstable.**
    SessionArchiveFilter in both_versions {
        /// Those that are not.
        Exclude = "exclude",
        /// All.
        Include = "include",
        /// Those that are.
        Only = "only",
    }
}

object! {
    /// Gives a session another title. **Unstable.**
    SetSessionTitleRequest {
        /// The session.
        required session_id: Text<'a> = "sessionId",
        /// The title.
        required title: Text<'a> = "title",
    } with optional _meta
}

object! {
    /// The session has another title. **Unstable.**
    SetSessionTitleResponse {
        /// The title as the agent keeps it.
        required title: Text<'a> = "title",
    } with optional _meta
}

object! {
    /// Asks whether a session is open. **Unstable.**
    SessionStatusRequest {
        /// The session.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

open_enum! {
    /// Whether a session is open. **Unstable.**
    SessionStatus in both_versions {
        /// The agent has it at hand.
        Open = "open",
        /// It is kept, and has to be resumed first.
        Saved = "saved",
    }
}

object! {
    /// What the model is told before the conversation. **Unstable.**
    SystemPrompt {
        /// Beside the agent's own words, or instead of them.
        required mode: SystemPromptMode = "mode",
        /// The words.
        strict_required content: Vec<ContentBlock<'a>> = "content",
    } with optional _meta
}

open_enum! {
    /// Where a system prompt goes. **Unstable.**
    SystemPromptMode in both_versions {
        /// Behind the agent's own words.
        Append = "append",
        /// In their place.
        Override = "override",
    }
}

object! {
    /// Whether an agent takes system prompts. **Unstable.**
    SessionSystemPromptCapabilities {
        /// Ways beside appending.
        optional mode: SessionSystemPromptModeCapabilities<'a> = "mode",
    } with optional _meta
}

object! {
    /// Ways in which an agent takes system prompts, beside appending. **Unstable.**
    SessionSystemPromptModeCapabilities {
        /// In place of its own words.
        optional replace: EmptyObject<'a> = "override",
    } with optional _meta
}

// Logins.

object! {
    /// Asks whether somebody is logged in. **Unstable.**
    AuthStatusRequest {
    } with optional _meta
}

object! {
    /// Whether somebody is logged in. **Unstable.**
    AuthStatusResponse {
        /// Whether sessions can be opened without a login.
        required state: AuthState = "state",
        /// The accounts that the agent has, for people.
        defaulted accounts: Vec<AuthAccount<'a>> = "accounts",
    } with optional _meta
}

object! {
    /// Somebody logged in or out, or a login ended. **Unstable.**
    AuthStatusUpdateNotification {
        /// Whether sessions can be opened without a login.
        required state: AuthState = "state",
        /// The accounts that the agent has, for people.
        defaulted accounts: Vec<AuthAccount<'a>> = "accounts",
    } with optional _meta
}

open_enum! {
    /// Whether sessions can be opened without a login. A state that is not known means nothing. **Unstable.**
    AuthState in both_versions {
        /// Somebody is logged in.
        Authenticated = "authenticated",
        /// Somebody has to log in first.
        Unauthenticated = "unauthenticated",
        /// Nobody has to.
        NotRequired = "not_required",
        /// The agent cannot tell.
        Undetermined = "unknown",
    }
}

object! {
    /// An account or a key that an agent has; for people to read, not to be kept or sent on. **Unstable.**
    AuthAccount {
        /// What it is, in words that can stand alone.
        required label: Text<'a> = "label",
        /// Whether the agent uses it.
        optional active: bool = "active",
        /// The person's name.
        optional name: Text<'a> = "name",
        /// The person's address.
        optional email: Text<'a> = "email",
        /// The organization that the person acts for.
        optional organization: Text<'a> = "organization",
    } with optional _meta
}

// Providers of models.

object! {
    /// Asks for the providers of models that can be set up. **Unstable.**
    ListProvidersRequest {
    } with optional _meta
}

object! {
    /// The providers of models that can be set up. **Unstable.**
    ListProvidersResponse {
        /// All of them.
        required providers: Vec<ProviderInfo<'a>> = "providers",
    } with optional _meta
}

object! {
    /// A provider of models. **Unstable.**
    ProviderInfo {
        /// The name by which it is set up.
        required provider_id: Text<'a> = "providerId",
        /// The protocols that the agent can speak with it.
        required supported: Vec<LlmProtocol> = "supported",
        /// Whether the agent cannot do without it.
        required required: bool = "required",
        /// How it is set up; missing while it is switched off.
        strict_optional current: ProviderCurrentConfig<'a> = "current",
    } with optional _meta
}

object! {
    /// How a provider of models is set up, without its secrets. **Unstable.**
    ProviderCurrentConfig {
        /// The protocol that the agent speaks with it.
        required api_type: LlmProtocol = "apiType",
        /// Where it is.
        required base_url: Text<'a> = "baseUrl",
    } with optional _meta
}

open_enum! {
    /// The protocol that an agent speaks with a provider of models. **Unstable.**
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
    /// Sets up a provider of models, in place of all that was set up before. **Unstable.**
    SetProviderRequest {
        /// The provider.
        required provider_id: Text<'a> = "providerId",
        /// The protocol to speak with it.
        required api_type: LlmProtocol = "apiType",
        /// Where it is.
        required base_url: Text<'a> = "baseUrl",
        /// Headers for each request. They may hold secrets.
        strict_defaulted headers: Map<'a, Text<'a>> = "headers",
    } with optional _meta
}

object! {
    /// Switches a provider of models off. **Unstable.**
    DisableProviderRequest {
        /// The provider.
        required provider_id: Text<'a> = "providerId",
    } with optional _meta
}

// MCP servers that are reached through the connection itself.

object! {
    /// An MCP server that is reached through the connection itself. **Unstable.**
    McpServerAcp {
        /// The server's name for people.
        required name: Text<'a> = "name",
        /// The name by which messages for it are told.
        required server_id: Text<'a> = "serverId",
    } with optional _meta
}

object! {
    /// A request or a notification of MCP, for a server that is reached through the connection itself. **Unstable.**
    MessageMcpRequest {
        /// The server.
        required server_id: Text<'a> = "serverId",
        /// The message's id at the server.
        required request_id: Text<'a> = "requestId",
        /// The method of MCP.
        required method: Text<'a> = "method",
        /// Its parameters, an object.
        optional params: Meta<'a> = "params",
    } with optional _meta
}

object! {
    /// What an MCP server answered: a result or an error. **Unstable.**
    MessageMcpResponse rules one_outcome shape one_outcome_required {
        /// The result; `null` is one, too.
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
        /// Its number.
        required code: i32 = "code",
        /// What went wrong, for people.
        required message: Text<'a> = "message",
        /// More about it.
        optional data: Raw<'a> = "data",
    }
}

// Chains of proxies.

object! {
    /// A message for the next one in a chain of proxies, or from it. **Unstable.**
    ProxySuccessorMessage {
        /// The method of the message.
        required method: Text<'a> = "method",
        /// Its parameters.
        optional params: Raw<'a> = "params",
    } with optional _meta
}
