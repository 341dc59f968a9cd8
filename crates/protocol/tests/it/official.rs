//! Comparison with the official crate: it decodes everything that we call valid, and its output has the same
//! meaning.

use agent_client_protocol_schema::{v1 as official_v1, v2 as official_v2};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use switchboard_acp::{WireFormat, json_schema, wire_type};

use crate::maker::Maker;
use crate::vectors::vectors;

/// Decodes with the official type and encodes again.
fn rewrite<T: DeserializeOwned + Serialize>(text: &str) -> Result<Value, String> {
    let value: T = serde_json::from_str(text).map_err(|error| error.to_string())?;
    serde_json::to_value(value).map_err(|error| error.to_string())
}

type Rewrite = fn(&str) -> Result<Value, String>;

const V2_TYPES: &[(&str, Rewrite)] = &[
    ("SessionUpdate", rewrite::<official_v2::SessionUpdate>),
    ("ToolCallUpdate", rewrite::<official_v2::ToolCallUpdate>),
    ("ToolCallContent", rewrite::<official_v2::ToolCallContent>),
    ("Diff", rewrite::<official_v2::Diff>),
    ("ContentBlock", rewrite::<official_v2::ContentBlock>),
    ("RequestPermissionRequest", rewrite::<official_v2::RequestPermissionRequest>),
    ("RequestPermissionResponse", rewrite::<official_v2::RequestPermissionResponse>),
    ("InitializeRequest", rewrite::<official_v2::InitializeRequest>),
    ("InitializeResponse", rewrite::<official_v2::InitializeResponse>),
    ("NewSessionRequest", rewrite::<official_v2::NewSessionRequest>),
    ("NewSessionResponse", rewrite::<official_v2::NewSessionResponse>),
    ("ResumeSessionRequest", rewrite::<official_v2::ResumeSessionRequest>),
    ("PromptRequest", rewrite::<official_v2::PromptRequest>),
    ("SetSessionConfigOptionRequest", rewrite::<official_v2::SetSessionConfigOptionRequest>),
    ("ListSessionsResponse", rewrite::<official_v2::ListSessionsResponse>),
    ("SubagentUpdate", rewrite::<official_v2::SubagentUpdate>),
    ("SessionMessage", rewrite::<official_v2::SessionMessage>),
    ("SessionMessageChunk", rewrite::<official_v2::SessionMessageChunk>),
    ("StateUpdate", rewrite::<official_v2::StateUpdate>),
    ("PlanUpdate", rewrite::<official_v2::PlanUpdate>),
    ("PlanRemoved", rewrite::<official_v2::PlanRemoved>),
    ("ForkSessionRequest", rewrite::<official_v2::ForkSessionRequest>),
    ("ForkSessionResponse", rewrite::<official_v2::ForkSessionResponse>),
    ("ArchiveSessionRequest", rewrite::<official_v2::ArchiveSessionRequest>),
    ("ListSessionsRequest", rewrite::<official_v2::ListSessionsRequest>),
    ("SessionInfo", rewrite::<official_v2::SessionInfo>),
    ("SetSessionTitleRequest", rewrite::<official_v2::SetSessionTitleRequest>),
    ("SetSessionTitleResponse", rewrite::<official_v2::SetSessionTitleResponse>),
    ("SessionStatusResponse", rewrite::<official_v2::SessionStatusResponse>),
    ("SystemPrompt", rewrite::<official_v2::SystemPrompt>),
    ("Usage", rewrite::<official_v2::Usage>),
    ("AuthStatusResponse", rewrite::<official_v2::AuthStatusResponse>),
    ("AuthStatusUpdateNotification", rewrite::<official_v2::AuthStatusUpdateNotification>),
    ("ListProvidersResponse", rewrite::<official_v2::ListProvidersResponse>),
    ("SetProviderRequest", rewrite::<official_v2::SetProviderRequest>),
    ("DisableProviderRequest", rewrite::<official_v2::DisableProviderRequest>),
    ("McpServer", rewrite::<official_v2::McpServer>),
    ("MessageMcpRequest", rewrite::<official_v2::MessageMcpRequest>),
    ("MessageMcpResponse", rewrite::<official_v2::MessageMcpResponse>),
];

const V1_TYPES: &[(&str, Rewrite)] = &[
    ("SessionUpdate", rewrite::<official_v1::SessionUpdate>),
    ("RequestPermissionRequest", rewrite::<official_v1::RequestPermissionRequest>),
    ("InitializeRequest", rewrite::<official_v1::InitializeRequest>),
    ("InitializeResponse", rewrite::<official_v1::InitializeResponse>),
    ("NewSessionRequest", rewrite::<official_v1::NewSessionRequest>),
    ("PromptRequest", rewrite::<official_v1::PromptRequest>),
    ("PromptResponse", rewrite::<official_v1::PromptResponse>),
    ("SubagentUpdate", rewrite::<official_v1::SubagentUpdate>),
    ("SessionMessage", rewrite::<official_v1::SessionMessage>),
    ("SessionMessageChunk", rewrite::<official_v1::SessionMessageChunk>),
    ("StateUpdate", rewrite::<official_v1::StateUpdate>),
    ("PlanUpdate", rewrite::<official_v1::PlanUpdate>),
    ("PlanRemoved", rewrite::<official_v1::PlanRemoved>),
    ("ForkSessionRequest", rewrite::<official_v1::ForkSessionRequest>),
    ("ForkSessionResponse", rewrite::<official_v1::ForkSessionResponse>),
    ("ArchiveSessionRequest", rewrite::<official_v1::ArchiveSessionRequest>),
    ("ListSessionsRequest", rewrite::<official_v1::ListSessionsRequest>),
    ("SessionInfo", rewrite::<official_v1::SessionInfo>),
    ("SetSessionTitleRequest", rewrite::<official_v1::SetSessionTitleRequest>),
    ("SetSessionTitleResponse", rewrite::<official_v1::SetSessionTitleResponse>),
    ("SessionStatusResponse", rewrite::<official_v1::SessionStatusResponse>),
    ("SystemPrompt", rewrite::<official_v1::SystemPrompt>),
    ("Usage", rewrite::<official_v1::Usage>),
    ("AuthStatusResponse", rewrite::<official_v1::AuthStatusResponse>),
    ("AuthStatusUpdateNotification", rewrite::<official_v1::AuthStatusUpdateNotification>),
    ("ListProvidersResponse", rewrite::<official_v1::ListProvidersResponse>),
    ("SetProviderRequest", rewrite::<official_v1::SetProviderRequest>),
    ("DisableProviderRequest", rewrite::<official_v1::DisableProviderRequest>),
    ("McpServer", rewrite::<official_v1::McpServer>),
    ("MessageMcpRequest", rewrite::<official_v1::MessageMcpRequest>),
    ("MessageMcpResponse", rewrite::<official_v1::MessageMcpResponse>),
];

/// Normalizes permitted differences: absent and `null`, empty and default values, and the error of a stop for
/// another reason, which the official crate omits.
fn essence(value: &Value) -> Value {
    let is_default = |key: &str, value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        // Version 1 has unions without a tag; a tag is then an unknown key.
        Value::String(text) => {
            matches!(
                (key, &**text),
                ("kind", "other") | ("status", "pending") | ("type", "_custom" | "reserved_for_later")
            )
        }
        _ => false,
    };
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| !is_default(key, value))
            .filter(|(key, _)| {
                *key != "error"
                    || map.get("state").is_none()
                    || map.get("stopReason").is_some_and(|reason| reason == "error")
            })
            .map(|(key, value)| (key.clone(), essence(value)))
            .filter(|(_, value)| !matches!(value, Value::Array(items) if items.is_empty()))
            .filter(|(_, value)| !matches!(value, Value::Object(map) if map.is_empty()))
            .collect(),
        Value::Array(items) => items.iter().map(essence).collect(),
        Value::Number(number) => number.as_f64().into(),
        other => other.clone(),
    }
}

fn compare(types: &[(&str, Rewrite)], revision: WireFormat) {
    let schema = json_schema(revision);
    for (name, official) in types {
        let ours = wire_type(name, revision).unwrap();
        let mut runner =
            TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&(1..u64::MAX), |seed| {
            let text = Maker::new(&schema, seed).plain().make(&schema["$defs"][name], 0);
            let Ok(written) = ours.rewrite(&text, revision) else { return Ok(()) };
            let theirs =
                official(&text).map_err(|error| TestCaseError::fail(format!("{error} in {text}")))?;
            let again = ours
                .rewrite(&theirs.to_string(), revision)
                .map_err(|error| TestCaseError::fail(format!("{error} in {theirs}")))?;
            let (written, again): (Value, Value) =
                (serde_json::from_str(&written).unwrap(), serde_json::from_str(&again).unwrap());
            if essence(&written) != essence(&again) {
                return Err(TestCaseError::fail(format!("ours: {written}\ntheirs: {again}\ninput: {text}")));
            }
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{revision:?} {name}: {error}");
        }
    }
}

#[test]
fn version_2_means_the_same_to_both() {
    compare(V2_TYPES, WireFormat::Newest);
}

#[test]
fn version_1_means_the_same_to_both() {
    compare(V1_TYPES, WireFormat::V1);
}

#[test]
fn everything_that_the_official_crate_rejects_is_rejected() {
    for vector in vectors() {
        let types = match vector.revision {
            WireFormat::Newest => V2_TYPES,
            WireFormat::V1 => V1_TYPES,
            WireFormat::Spec | WireFormat::Any => continue,
        };
        if let Some((_, official)) = types.iter().find(|(name, _)| *name == vector.kind) {
            let text = vector.json.to_string();
            let accepted =
                wire_type(&vector.kind, vector.revision).unwrap().rewrite(&text, vector.revision).is_ok();
            assert!(!accepted || official(&text).is_ok(), "{}: only we accept {text}", vector.name);
        }
    }
}
