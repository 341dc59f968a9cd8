//! Version 1: closed unions and enums, `null` equivalent to missing, and a turn that is one pending request.
//! Types that are equal in version 2 are shared.

mod initialize;
mod permission;
mod session;
mod subagent;
mod terminal;
mod types;
mod update;

/// Unstable parts of the newest draft. They may change or be removed with a later draft, and then change here
/// too. Unstable fields and variants of stable types are marked.
pub mod unstable {
    pub use super::session::{ForkSessionRequest, ForkSessionResponse, SessionStatusResponse};
    pub use super::subagent::{IdleState, StateUpdate, SubagentUpdate};
    pub use super::update::{PlanUpdate, PlanUpdateContent};
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
    pub use crate::v2::PlanItems;
}

pub use crate::shared::common::{EmptyObject, EmptyResponse, EnvVariable, HttpHeader, Implementation};
pub use crate::shared::content::{
    Annotations, AudioContent, BlobResourceContents, ContentBlock, EmbeddedResource,
    EmbeddedResourceResource, ImageContent, ResourceLink, Role, TextContent, TextResourceContents,
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

pub use initialize::{
    AgentAuthCapabilities, AgentCapabilities, AuthMethod, AuthMethodAgent, AuthMethodTerminal,
    AuthenticateRequest, ClientAuthCapabilities, ClientCapabilities, ClientSessionCapabilities,
    ElicitationCapabilities, FileSystemCapabilities, InitializeRequest, InitializeResponse, LogoutRequest,
    McpCapabilities, PromptCapabilities, SessionCapabilities, SessionConfigOptionsCapabilities,
};
pub use permission::RequestPermissionRequest;
pub use session::{
    CancelNotification, LoadSessionRequest, LoadSessionResponse, McpServer, McpServerHttp, McpServerSse,
    McpServerStdio, NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse,
    ResumeSessionRequest, ResumeSessionResponse, SessionConfigBoolean, SessionConfigOption,
    SessionConfigSelect, SessionConfigSelectGroup, SessionConfigSelectOptions, SessionMode, SessionModeState,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
};
pub use terminal::{
    CreateTerminalRequest, CreateTerminalResponse, ReadTextFileRequest, ReadTextFileResponse,
    TerminalExitStatus, TerminalOutputResponse, TerminalReference, WriteTextFileRequest,
};
pub(crate) use types::{METHODS, TYPES};
pub use update::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ConfigOptionUpdate, ContentChunk,
    CurrentModeUpdate, Diff, Plan, SessionNotification, SessionUpdate, ToolCall, ToolCallContent,
    ToolCallUpdate,
};
