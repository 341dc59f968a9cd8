//! Version 2. One set of types for both dialects. In the `spec` dialect, features of the newest dialect are
//! unknown, and are kept in `extra` or an `Unknown` variant.
//!
//! ```
//! use switchboard_acp::{Field, WireFormat, Wire, v2};
//!
//! let update = v2::ToolCallUpdate {
//!     content: Field::Clear,
//!     ..v2::ToolCallUpdate::new("c-7").title("Patch config").kind(v2::ToolKind::Edit)
//! };
//! let text = v2::SessionUpdate::from(update).encode(WireFormat::Spec);
//! assert_eq!(
//!     text,
//!     r#"{"sessionUpdate":"tool_call_update","toolCallId":"c-7","title":"Patch config","kind":"edit","content":null}"#,
//! );
//! ```
//!
//! Each request has a type of its own, so that one is never sent for another:
//!
//! ```compile_fail
//! # use switchboard_acp::v2;
//! let request: v2::DeleteSessionRequest<'_> = v2::CancelSessionNotification::new("s-1");
//! ```

mod config;
mod diff;
mod initialize;
mod message;
mod methods;
mod permission;
mod session;
mod state;
mod terminal;
mod tool_call;
mod types;
mod update;

/// Unstable parts of the newest draft. They may change or be removed with a later draft, and then change here
/// too. Unstable fields and variants of stable types are marked.
pub mod unstable {
    pub use super::session::{ForkSessionRequest, ForkSessionResponse, SessionStatusResponse};
    pub use super::state::BackgroundSubagent;
    pub use super::tool_call::SessionReference;
    pub use super::update::SubagentUpdate;
    pub use crate::shared::unstable::{
        ArchiveSessionRequest, AuthAccount, AuthState, AuthStatusRequest, AuthStatusResponse,
        AuthStatusUpdateNotification, DisableProviderRequest, ListProvidersRequest, ListProvidersResponse,
        LlmProtocol, McpError, McpServerAcp, MessageMcpRequest, MessageMcpResponse, PlanFile, PlanMarkdown,
        PlanRemoved, ProviderCurrentConfig, ProviderInfo, ProxySuccessorMessage, SessionArchiveFilter,
        SessionMessage, SessionMessageChunk, SessionStatus, SessionStatusRequest,
        SessionSystemPromptCapabilities, SessionSystemPromptModeCapabilities, SetProviderRequest,
        SetSessionTitleRequest, SetSessionTitleResponse, SubagentSessionCapabilities, SystemPrompt,
        SystemPromptMode, UnarchiveSessionRequest, Usage,
    };
}

pub use crate::shared::common::{EmptyObject, EmptyResponse, EnvVariable, HttpHeader, Implementation};
pub use crate::shared::content::{
    Annotations, AudioContent, BlobResourceContents, ContentBlock, EmbeddedResource,
    EmbeddedResourceResource, Icon, IconTheme, ImageContent, ResourceLink, Role, TextContent,
    TextResourceContents,
};
pub use crate::shared::elicitation::{
    BooleanPropertySchema, CompleteElicitationNotification, CreateElicitationRequest,
    CreateElicitationResponse, ElicitationAcceptAction, ElicitationContentValue, ElicitationFormMode,
    ElicitationPropertySchema, ElicitationSchema, ElicitationUrlMode, EnumOption, IntegerPropertySchema,
    MultiSelectItems, MultiSelectPropertySchema, NumberPropertySchema, StringFormat, StringMultiSelectItems,
    StringPropertySchema, TitledMultiSelectItems,
};
pub use crate::shared::permission::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionResponse,
    SelectedPermissionOutcome,
};
pub use crate::shared::session::{
    CloseSessionRequest, CompactionStatus, CompactionSummaryChunk, CompactionUpdate, Cost,
    DeleteSessionRequest, ListSessionsRequest, ListSessionsResponse, Notice, NoticeSeverity, PlanEntry,
    PlanEntryPriority, PlanEntryStatus, SelectGroup, SelectOptions, SessionConfigOptionCategory,
    SessionConfigSelectOption, SessionInfo, SessionInfoUpdate, SetConfigBoolean, SetConfigId, StopReason,
    UsageUpdate,
};
pub use crate::shared::tool::{Content, Terminal, ToolCallLocation, ToolCallStatus, ToolKind};

pub use config::{
    AvailableCommand, AvailableCommandInput, Command, SessionConfigBoolean, SessionConfigOption,
    SessionConfigSelect, SessionConfigSelectGroup, SessionConfigSelectOptions, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, TextCommandInput,
};
pub use diff::{
    Diff, DiffChange, DiffFileType, DiffPatch, DiffPatchFormat, DiffPathChange, DiffPathPairChange,
};
pub use initialize::{
    AgentAuthCapabilities, AgentCapabilities, AuthMethod, AuthMethodAgent, AuthMethodTerminal,
    ClientAuthCapabilities, ClientCapabilities, ElicitationCapabilities, InitializeRequest,
    InitializeResponse, LoginAuthRequest, LogoutAuthRequest, McpCapabilities, PromptCapabilities,
    SessionCapabilities, SessionNotFoundErrorData, UnsupportedProtocolVersionErrorData,
};
pub use message::{ContentChunk, MessageUpdate};
pub(crate) use methods::METHODS;
pub use permission::{
    CommandPermissionSubject, RequestPermissionRequest, RequestPermissionSubject, ToolCallPermissionSubject,
};
pub use session::{
    CancelSessionNotification, CancelTerminalRequest, CancelToolCallRequest, McpServer, McpServerHttp,
    McpServerStdio, NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, ReplayFrom,
    ResumeSessionRequest, ResumeSessionResponse,
};
pub use state::{
    ActiveState, BackgroundTerminal, BackgroundToolCall, BackgroundWork, IdleState, StateUpdate,
};
pub use terminal::{TerminalExitStatus, TerminalOutput, TerminalOutputChunk, TerminalSize, TerminalUpdate};
pub use tool_call::{CancelCapabilities, ToolCallContent, ToolCallContentChunk, ToolCallUpdate};
pub(crate) use types::TYPES;
pub use update::{
    AvailableCommandsUpdate, ConfigOptionUpdate, PlanItems, PlanUpdate, PlanUpdateContent, SessionUpdate,
    UpdateSessionNotification,
};
