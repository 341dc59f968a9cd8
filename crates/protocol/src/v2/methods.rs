//! The methods of version 2.

use crate::registry::{Caller, Method};
use crate::rpc::Params;
use crate::v2::*;

/// Ties parameters to their method.
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
    "session/set_config_option" SetSessionConfigOptionRequest,
    "session/prompt" PromptRequest,
    "tool_call/cancel" CancelToolCallRequest,
    "terminal/cancel" CancelTerminalRequest,
    "session/update" UpdateSessionNotification,
    "session/request_permission" RequestPermissionRequest,
}

const fn method(
    name: &'static str,
    caller: Caller,
    params: &'static str,
    result: Option<&'static str>,
) -> Method {
    Method { name, caller, params, result }
}

pub(crate) const METHODS: &[Method] = &[
    method("initialize", Caller::Client, "InitializeRequest", Some("InitializeResponse")),
    method("auth/login", Caller::Client, "LoginAuthRequest", Some("LoginAuthResponse")),
    method("auth/logout", Caller::Client, "LogoutAuthRequest", Some("LogoutAuthResponse")),
    method("session/new", Caller::Client, "NewSessionRequest", Some("NewSessionResponse")),
    method("session/resume", Caller::Client, "ResumeSessionRequest", Some("ResumeSessionResponse")),
    method("session/list", Caller::Client, "ListSessionsRequest", Some("ListSessionsResponse")),
    method("session/close", Caller::Client, "CloseSessionRequest", Some("CloseSessionResponse")),
    method("session/delete", Caller::Client, "DeleteSessionRequest", Some("DeleteSessionResponse")),
    method(
        "session/set_config_option",
        Caller::Client,
        "SetSessionConfigOptionRequest",
        Some("SetSessionConfigOptionResponse"),
    ),
    method("session/prompt", Caller::Client, "PromptRequest", Some("PromptResponse")),
    method("session/cancel", Caller::Client, "CancelSessionNotification", None),
    method("tool_call/cancel", Caller::Client, "CancelToolCallRequest", Some("CancelToolCallResponse")),
    method("terminal/cancel", Caller::Client, "CancelTerminalRequest", Some("CancelTerminalResponse")),
    method("session/update", Caller::Agent, "UpdateSessionNotification", None),
    method(
        "session/request_permission",
        Caller::Agent,
        "RequestPermissionRequest",
        Some("RequestPermissionResponse"),
    ),
    method(
        "elicitation/create",
        Caller::Agent,
        "CreateElicitationRequest",
        Some("CreateElicitationResponse"),
    ),
    method("elicitation/complete", Caller::Agent, "CompleteElicitationNotification", None),
    method("$/cancel_request", Caller::Both, "CancelRequestNotification", None),
];
