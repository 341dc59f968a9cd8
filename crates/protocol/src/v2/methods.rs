//! The methods of version 2.

use crate::registry::{Caller, Method};

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
