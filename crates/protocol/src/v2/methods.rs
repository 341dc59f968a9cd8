//! The methods of version 2.

use crate::registry::{Caller, Method};
use crate::rpc::Params;
use crate::v2::unstable::*;
use crate::v2::*;

/// Associates parameters with their method.
macro_rules! params {
    ($($method:literal $type:ident,)*) => {
        $( impl<'a> Params<'a> for $type<'a> {
            const METHOD: &'static str = $method;
        } )*
    };
}

params! {
    "initialize" InitializeRequest,
    "auth/login" LoginAuthRequest,
    "auth/logout" LogoutAuthRequest,
    "session/new" NewSessionRequest,
    "session/resume" ResumeSessionRequest,
    "session/list" ListSessionsRequest,
    "session/close" CloseSessionRequest,
    "session/delete" DeleteSessionRequest,
    "session/cancel" CancelSessionNotification,
    "session/set_config_option" SetSessionConfigOptionRequest,
    "session/prompt" PromptRequest,
    "tool_call/cancel" CancelToolCallRequest,
    "terminal/cancel" CancelTerminalRequest,
    "session/update" UpdateSessionNotification,
    "session/request_permission" RequestPermissionRequest,
    "session/fork" ForkSessionRequest,
    "session/archive" ArchiveSessionRequest,
    "session/unarchive" UnarchiveSessionRequest,
    "session/set_title" SetSessionTitleRequest,
    "session/status" SessionStatusRequest,
    "auth/status" AuthStatusRequest,
    "auth/status_update" AuthStatusUpdateNotification,
    "providers/list" ListProvidersRequest,
    "providers/set" SetProviderRequest,
    "providers/disable" DisableProviderRequest,
    "mcp/message" MessageMcpRequest,
    "proxy/successor" ProxySuccessorMessage,
}

pub(crate) const METHODS: &[Method] = &[
    Method::new("initialize", Caller::Client, "InitializeRequest", Some("InitializeResponse")),
    Method::new("auth/login", Caller::Client, "LoginAuthRequest", Some("LoginAuthResponse")),
    Method::new("auth/logout", Caller::Client, "LogoutAuthRequest", Some("LogoutAuthResponse")),
    Method::new("session/new", Caller::Client, "NewSessionRequest", Some("NewSessionResponse")),
    Method::new("session/resume", Caller::Client, "ResumeSessionRequest", Some("ResumeSessionResponse")),
    Method::new("session/list", Caller::Client, "ListSessionsRequest", Some("ListSessionsResponse")),
    Method::new("session/close", Caller::Client, "CloseSessionRequest", Some("CloseSessionResponse")),
    Method::new("session/delete", Caller::Client, "DeleteSessionRequest", Some("DeleteSessionResponse")),
    Method::new(
        "session/set_config_option",
        Caller::Client,
        "SetSessionConfigOptionRequest",
        Some("SetSessionConfigOptionResponse"),
    ),
    Method::new("session/prompt", Caller::Client, "PromptRequest", Some("PromptResponse")),
    Method::new("session/cancel", Caller::Client, "CancelSessionNotification", None),
    Method::new("tool_call/cancel", Caller::Client, "CancelToolCallRequest", Some("CancelToolCallResponse")),
    Method::new("terminal/cancel", Caller::Client, "CancelTerminalRequest", Some("CancelTerminalResponse")),
    Method::new("session/update", Caller::Agent, "UpdateSessionNotification", None),
    Method::new(
        "session/request_permission",
        Caller::Agent,
        "RequestPermissionRequest",
        Some("RequestPermissionResponse"),
    ),
    Method::new(
        "elicitation/create",
        Caller::Agent,
        "CreateElicitationRequest",
        Some("CreateElicitationResponse"),
    ),
    Method::new("elicitation/complete", Caller::Agent, "CompleteElicitationNotification", None),
    Method::new("$/cancel_request", Caller::Both, "CancelRequestNotification", None),
];
