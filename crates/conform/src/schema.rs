//! Mapping of schema findings to rules.

use serde_json::Value;
use switchboard_acp::check::Finding;
use switchboard_acp::{Side, Version};

use crate::rules::RuleId;

/// The message with a fault.
pub(crate) struct MessageContext<'a> {
    pub(crate) version: Version,
    pub(crate) from: Side,
    /// Set for a request or notification; unset for a response.
    pub(crate) is_call: bool,
    pub(crate) method: &'a str,
    /// The tag of an update.
    pub(crate) update: &'a str,
    pub(crate) value: &'a Value,
}

impl MessageContext<'_> {
    fn is_v1(&self) -> bool {
        self.version == Version::V1
    }

    fn either(&self, v1: RuleId, v2: RuleId) -> RuleId {
        if self.is_v1() { v1 } else { v2 }
    }
}

/// Formats a finding as text.
pub(crate) fn reason(finding: &Finding) -> String {
    if finding.pointer.is_empty() {
        finding.message.clone()
    } else {
        format!("{}: {}", finding.pointer, finding.message)
    }
}

/// Formats a value as short text.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 60 { format!("{}…", text.chars().take(60).collect::<String>()) } else { text }
}

/// Returns the rule that an error breaks.
pub(crate) fn rule_of_error(place: &MessageContext<'_>, pointer: &str, message: &str) -> RuleId {
    if message.ends_with("for it is a notification") || message.ends_with("for it is a request") {
        return RuleId::MethodForm;
    }
    if pointer == "/method" {
        return RuleId::MethodDirection;
    }
    if pointer == "/id" {
        return RuleId::RequestIdForm;
    }
    if pointer.ends_with("/_meta") && !place.is_v1() {
        return RuleId::MetaObject;
    }
    if place.method == "initialize" {
        return in_handshake(place, pointer, message);
    }
    match (place.from, place.is_call) {
        (Side::Client, true) if is_path(message) => RuleId::ClientPaths,
        (Side::Client, true) => RuleId::ClientParams,
        (Side::Client, false) => RuleId::ClientAnswers,
        (Side::Agent, true) => in_agent_call(place, pointer, message),
        (Side::Agent, false) => in_agent_answer(place, pointer, message),
    }
}

fn is_path(message: &str) -> bool {
    message.starts_with("expected an absolute path")
}

/// Returns whether an error concerns a key: it is missing or has an invalid value.
fn is_about(pointer: &str, message: &str, key: &str) -> bool {
    message.starts_with(&format!("expected the key \"{key}\"")) || pointer.ends_with(&format!("/{key}"))
}

fn in_handshake(place: &MessageContext<'_>, pointer: &str, message: &str) -> RuleId {
    let is_v1 = place.is_v1();
    let is_marker = !is_v1
        && pointer.contains("/capabilities")
        && place.value.pointer(pointer).is_some_and(Value::is_boolean);
    let is_info = !is_v1 && (is_about(pointer, message, "info") || pointer.contains("/info"));
    if is_marker {
        return RuleId::Markers;
    }
    if place.is_call {
        return if is_info || (!is_v1 && pointer.contains("/params/info")) {
            RuleId::ClientInfoV2
        } else {
            RuleId::InitRequestSchema
        };
    }
    if is_about(pointer, message, "protocolVersion") {
        RuleId::InitAnswer
    } else if is_info {
        RuleId::InfoV2
    } else if !is_v1 && pointer.contains("/authMethods/") {
        if pointer.contains("/env") || pointer.contains("/args") {
            RuleId::AuthEnvironment
        } else if is_about(pointer, message, "type") {
            RuleId::AuthType
        } else {
            RuleId::InitSchema
        }
    } else {
        RuleId::InitSchema
    }
}

fn in_agent_call(place: &MessageContext<'_>, pointer: &str, message: &str) -> RuleId {
    match place.method {
        "session/update" => in_update(place, pointer, message),
        "session/request_permission" => in_permission(place, pointer, message),
        _ if is_path(message) => place.either(RuleId::LocationPathsV1, RuleId::LocationPathsV2),
        _ => place.either(RuleId::CallSchemaV1, RuleId::CallSchemaV2),
    }
}

fn in_permission(place: &MessageContext<'_>, pointer: &str, message: &str) -> RuleId {
    if message.starts_with("expected option ids that differ") {
        return place.either(RuleId::PermissionIdsV1, RuleId::PermissionIdsV2);
    }
    if place.is_v1() {
        return if is_path(message) { RuleId::LocationPathsV1 } else { RuleId::CallSchemaV1 };
    }
    if let Some(rule) = in_content(pointer, message) {
        return rule;
    }
    if pointer.starts_with("/params/subject") {
        return if is_about(pointer, message, "toolCallId") {
            RuleId::ToolCallId
        } else {
            RuleId::SubjectType
        };
    }
    if pointer.starts_with("/params/options")
        || is_about(pointer, message, "title")
        || is_about(pointer, message, "options")
        || message.contains("option")
    {
        return RuleId::PermissionShape;
    }
    RuleId::CallSchemaV2
}

/// Returns the rule for an error in a path, diff or other content of a version 2 tool call.
fn in_content(pointer: &str, message: &str) -> Option<RuleId> {
    let is_in_change = pointer.contains("/changes/");
    if is_about(pointer, message, "oldPath") && !is_path(message) {
        Some(RuleId::DiffOldPath)
    } else if is_path(message) && is_in_change {
        Some(RuleId::DiffPaths)
    } else if is_path(message) {
        Some(RuleId::LocationPathsV2)
    } else if is_in_change || is_about(pointer, message, "changes") {
        Some(RuleId::DiffChanges)
    } else if pointer.contains("/patch") || is_about(pointer, message, "patch") {
        Some(RuleId::DiffAgrees)
    } else {
        None
    }
}

fn in_update(place: &MessageContext<'_>, pointer: &str, message: &str) -> RuleId {
    if place.update == "config_option_update" {
        return RuleId::ConfigValue;
    }
    if place.is_v1() {
        return match place.update {
            _ if is_path(message) => RuleId::LocationPathsV1,
            "current_mode_update" => RuleId::ModesCurrent,
            _ => RuleId::UpdateSchemaV1,
        };
    }
    let is_terminal = place.update.starts_with("terminal_");
    let in_own_content =
        pointer.starts_with("/params/update/content") || is_about(pointer, message, "content");
    if is_about(pointer, message, "messageId") {
        RuleId::MessageId
    } else if is_about(pointer, message, "toolCallId") {
        RuleId::ToolCallId
    } else if is_about(pointer, message, "planId") {
        RuleId::PlanId
    } else if is_about(pointer, message, "sessionUpdate") {
        RuleId::UpdateKind
    } else if is_terminal && is_path(message) {
        RuleId::TerminalCwd
    } else if is_terminal && (is_about(pointer, message, "data") || message.contains("base64")) {
        RuleId::TerminalData
    } else if pointer.contains("/availableCommands/") && is_about(pointer, message, "type") {
        RuleId::Commands
    } else if let Some(rule) = in_content(pointer, message) {
        rule
    } else if place.update == "tool_call_content_chunk" && in_own_content {
        RuleId::ToolCallChunk
    } else if is_message(place.update) && in_own_content {
        RuleId::MessageContent
    } else {
        RuleId::UpdateSchemaV2
    }
}

fn in_agent_answer(place: &MessageContext<'_>, pointer: &str, message: &str) -> RuleId {
    let is = |key| is_about(pointer, message, key);
    match place.method {
        "session/new" | "session/fork" if is("sessionId") => {
            place.either(RuleId::SessionIdV1, RuleId::SessionIdV2)
        }
        _ if pointer.contains("/modes") && place.is_v1() => RuleId::ModesCurrent,
        "session/set_config_option" if is("configOptions") => RuleId::ConfigComplete,
        _ if pointer.contains("/configOptions") => RuleId::ConfigValue,
        "session/load" => RuleId::LoadWorks,
        "session/resume" if place.is_v1() => RuleId::ResumeWorksV1,
        "session/close" => RuleId::CloseWorks,
        "session/delete" => RuleId::DeleteWorks,
        "session/prompt" if place.is_v1() => RuleId::StopReasonV1,
        "session/prompt" if is("messageId") => RuleId::PromptMessageId,
        "session/list" if is_path(message) => RuleId::ListPaths,
        "session/list" => RuleId::ListArray,
        _ if is_path(message) => place.either(RuleId::LocationPathsV1, RuleId::LocationPathsV2),
        _ if pointer.contains("/availableCommands/") && is("type") => RuleId::Commands,
        _ => place.either(RuleId::AnswerSchemaV1, RuleId::AnswerSchemaV2),
    }
}

/// Returns whether an update is a message or a chunk of one.
pub(crate) fn is_message(update: &str) -> bool {
    message_kind(update).is_some()
}

/// Returns the kind of message of an update, and whether it is complete.
pub(crate) fn message_kind(update: &str) -> Option<(u8, bool)> {
    Some(match update {
        "user_message" => (0, true),
        "user_message_chunk" => (0, false),
        "agent_message" => (1, true),
        "agent_message_chunk" => (1, false),
        "agent_thought" => (2, true),
        "agent_thought_chunk" => (2, false),
        _ => return None,
    })
}

/// Returns the rule that a warning concerns, if any.
pub(crate) fn rule_of_warning(place: &MessageContext<'_>, pointer: &str, message: &str) -> Option<RuleId> {
    if message.starts_with("expected only keys of the protocol") {
        return of_foreign_key(place, pointer, message);
    }
    if message.contains("is reserved for later versions") {
        return (!place.is_v1()).then(|| of_reserved_value(place, pointer));
    }
    if message.starts_with("null, where") {
        return Some(RuleId::EmptyResult);
    }
    if message.starts_with("the first report of tool call") {
        return Some(RuleId::ToolCallTitle);
    }
    if message.contains("is no method of the protocol") {
        return Some(place.either(RuleId::MethodNameV1, RuleId::MethodName));
    }
    message.contains("the same patch under").then_some(RuleId::DiffAgrees)
}

fn of_foreign_key(place: &MessageContext<'_>, pointer: &str, message: &str) -> Option<RuleId> {
    if place.method != "initialize" {
        return Some(RuleId::RootKeys);
    }
    // A client that requests both versions at once has the keys of both.
    let is_of_other_version = ["info", "capabilities", "clientInfo", "clientCapabilities"]
        .iter()
        .any(|key| place.is_call && message.contains(&format!("not \"{key}\"")));
    let capabilities = ["/capabilities", "/agentCapabilities", "/clientCapabilities"];
    if is_of_other_version {
        None
    } else if capabilities.iter().any(|part| pointer.contains(part)) {
        Some(RuleId::CapabilityKeys)
    } else {
        Some(RuleId::RootKeys)
    }
}

/// Returns the rule for a value that is neither defined nor an extension, by its pointer.
fn of_reserved_value(place: &MessageContext<'_>, pointer: &str) -> RuleId {
    let last = pointer.rsplit('/').next().unwrap_or_default();
    let is_agent = place.from == Side::Agent;
    let in_update = place.method == "session/update" && place.is_call;
    let in_permission = place.method == "session/request_permission" && place.is_call;
    let in_tool_call = in_permission || place.update == "tool_call_update";
    let tag = place.value.pointer(pointer);
    match last {
        _ if !is_agent => RuleId::OpenValues,
        "update" if in_update => RuleId::UpdateKind,
        "stopReason" if in_update => RuleId::StopReasonV2,
        "priority" | "status" if place.update == "plan_update" => RuleId::PlanValues,
        "kind" if in_permission && pointer.starts_with("/params/options/") => RuleId::PermissionKind,
        "kind" if in_tool_call => RuleId::ToolCallKind,
        "status" if in_tool_call => RuleId::ToolCallStatus,
        "subject" if in_permission => RuleId::SubjectType,
        "content" if place.update == "tool_call_content_chunk" => {
            let kind = tag.and_then(|item| item["type"].as_str()).unwrap_or_default();
            let is_bare = matches!(kind, "text" | "image" | "audio" | "resource" | "resource_link");
            if is_bare { RuleId::ToolCallChunk } else { RuleId::OpenValues }
        }
        _ if pointer.contains("/changes/") && tag.is_some_and(Value::is_object) => RuleId::DiffOperation,
        _ if place.method == "initialize" && tag.is_some_and(|method| method.get("methodId").is_some()) => {
            RuleId::AuthType
        }
        _ => RuleId::OpenValues,
    }
}

/// Returns the rules that a message keeps by matching its schema.
pub(crate) fn kept_rules(place: &MessageContext<'_>) -> Vec<RuleId> {
    let mut kept = vec![RuleId::MethodForm, RuleId::MethodDirection];
    let is_v1 = place.is_v1();
    if place.method == "initialize" {
        kept.push(if place.is_call { RuleId::InitRequestSchema } else { RuleId::InitSchema });
        return kept;
    }
    match (place.from, place.is_call) {
        (Side::Client, true) => {
            kept.push(RuleId::ClientParams);
            if place.value["params"].get("cwd").is_some() {
                kept.push(RuleId::ClientPaths);
            }
        }
        (Side::Client, false) => kept.push(RuleId::ClientAnswers),
        (Side::Agent, true) => match place.method {
            "session/update" if is_v1 => kept.push(RuleId::UpdateSchemaV1),
            "session/update" => {
                kept.push(RuleId::UpdateSchemaV2);
                kept.push(RuleId::UpdateKind);
                match place.update {
                    update if is_message(update) => {
                        kept.extend([RuleId::MessageId, RuleId::MessageContent]);
                    }
                    "tool_call_update" => kept.push(RuleId::ToolCallId),
                    "tool_call_content_chunk" => kept.extend([RuleId::ToolCallId, RuleId::ToolCallChunk]),
                    "plan_update" => kept.extend([RuleId::PlanId, RuleId::PlanValues]),
                    "terminal_output_chunk" => kept.push(RuleId::TerminalData),
                    "available_commands_update" => kept.push(RuleId::Commands),
                    _ => {}
                }
                if place.update == "tool_call_update" {
                    let update = &place.value["params"]["update"];
                    for (key, rule) in [
                        ("kind", RuleId::ToolCallKind),
                        ("status", RuleId::ToolCallStatus),
                        ("locations", RuleId::LocationPathsV2),
                    ] {
                        if update.get(key).is_some() {
                            kept.push(rule);
                        }
                    }
                }
            }
            "session/request_permission" if !is_v1 => {
                kept.extend([RuleId::PermissionShape, RuleId::PermissionIdsV2, RuleId::PermissionKind]);
                if place.value["params"]["subject"].is_object() {
                    kept.push(RuleId::SubjectType);
                }
            }
            _ => kept.push(place.either(RuleId::CallSchemaV1, RuleId::CallSchemaV2)),
        },
        (Side::Agent, false) => {
            if place.value.get("result").is_some() {
                kept.push(place.either(RuleId::AnswerSchemaV1, RuleId::AnswerSchemaV2));
                if place.method == "session/list" {
                    kept.extend([RuleId::ListArray, RuleId::ListPaths]);
                }
            }
        }
    }
    if place.is_call && place.method.starts_with('_') {
        kept.push(place.either(RuleId::MethodNameV1, RuleId::MethodName));
    }
    kept
}
