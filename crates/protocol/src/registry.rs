//! Types and methods by name.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::{DecodeError, Diagnostic};
use crate::json::reader::Reader;
use crate::rpc::{RequestId, Response};
use crate::schema::{Schemas, answer, call, described};
use crate::wire::{Wire, read_whole};
use crate::{WireFormat, v1, v2};

/// A wire type, selected at run time by name.
#[derive(Debug, Clone, Copy)]
pub struct WireType {
    /// Name as in the JSON Schema.
    pub name: &'static str,
    pub(crate) validate: fn(&str, Validation) -> ValidationResult,
    pub(crate) schema: fn(&mut Schemas) -> Value,
}

/// Options for validating a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validation {
    pub(crate) revision: WireFormat,
    pub(crate) tolerant: bool,
    pub(crate) write_back: bool,
}

/// Result of validating a text.
#[derive(Debug)]
pub(crate) struct ValidationResult {
    /// The value encoded again, if it is valid and that was requested.
    pub(crate) outcome: Result<Option<String>, DecodeError>,
    pub(crate) tolerated: Vec<Diagnostic>,
    pub(crate) remarks: Vec<Diagnostic>,
}

pub(crate) fn validate<'a, T: Wire<'a>>(text: &'a str, validation: Validation) -> ValidationResult {
    let mut reader = Reader::new(text, validation.revision).with_remarks();
    if validation.tolerant {
        reader = reader.tolerant();
    }
    let outcome = read_whole::<T>(&mut reader);
    ValidationResult {
        outcome: outcome.map(|value| validation.write_back.then(|| value.encode(validation.revision))),
        tolerated: reader.take_tolerated().locate(text),
        remarks: reader.take_remarks().locate(text),
    }
}

impl WireType {
    /// Decodes a text as this type and encodes it again.
    pub fn rewrite(&self, text: &str, revision: WireFormat) -> Result<String, DecodeError> {
        let validation = Validation { revision, tolerant: false, write_back: true };
        (self.validate)(text, validation).outcome.map(Option::unwrap_or_default)
    }

    /// Decodes a text as this type tolerantly and encodes it again. Returns the omitted parts as well.
    pub fn rewrite_tolerant(
        &self,
        text: &str,
        revision: WireFormat,
    ) -> Result<(String, Vec<Diagnostic>), DecodeError> {
        let validation = Validation { revision, tolerant: true, write_back: true };
        let judgement = (self.validate)(text, validation);
        Ok((judgement.outcome?.unwrap_or_default(), judgement.tolerated))
    }
}

/// A method: its caller, parameters and result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) caller: Caller,
    pub(crate) params: &'static str,
    /// `None` for a notification.
    pub(crate) result: Option<&'static str>,
    /// True if it may also be sent without an id.
    pub(crate) is_notification_too: bool,
}

impl Method {
    pub(crate) const fn new(
        name: &'static str,
        caller: Caller,
        params: &'static str,
        result: Option<&'static str>,
    ) -> Self {
        Method { name, caller, params, result, is_notification_too: false }
    }

    /// Declares a method that can be a request or a notification.
    const fn either(name: &'static str, params: &'static str, result: &'static str) -> Self {
        Method { name, caller: Caller::Both, params, result: Some(result), is_notification_too: true }
    }
}

/// Side that may send a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Client,
    Agent,
    Both,
}

/// Unstable methods of the newest draft. They exist in both versions, with the same names of parameters and
/// results.
const UNSTABLE_METHODS: &[Method] = &[
    Method::new("session/fork", Caller::Client, "ForkSessionRequest", Some("ForkSessionResponse")),
    Method::new("session/archive", Caller::Client, "ArchiveSessionRequest", Some("ArchiveSessionResponse")),
    Method::new(
        "session/unarchive",
        Caller::Client,
        "UnarchiveSessionRequest",
        Some("UnarchiveSessionResponse"),
    ),
    Method::new(
        "session/set_title",
        Caller::Client,
        "SetSessionTitleRequest",
        Some("SetSessionTitleResponse"),
    ),
    Method::new("session/status", Caller::Client, "SessionStatusRequest", Some("SessionStatusResponse")),
    Method::new("auth/status", Caller::Client, "AuthStatusRequest", Some("AuthStatusResponse")),
    Method::new("auth/status_update", Caller::Agent, "AuthStatusUpdateNotification", None),
    Method::new("providers/list", Caller::Client, "ListProvidersRequest", Some("ListProvidersResponse")),
    Method::new("providers/set", Caller::Client, "SetProviderRequest", Some("SetProviderResponse")),
    Method::new(
        "providers/disable",
        Caller::Client,
        "DisableProviderRequest",
        Some("DisableProviderResponse"),
    ),
    Method::either("mcp/message", "MessageMcpRequest", "MessageMcpResponse"),
    Method::new(
        "proxy/initialize",
        Caller::Client,
        "InitializeProxyRequest",
        Some("InitializeProxyResponse"),
    ),
    Method::either("proxy/successor", "ProxySuccessorRequest", "ProxySuccessorResponse"),
];

fn methods(revision: WireFormat) -> impl Iterator<Item = &'static Method> {
    let stable = if revision == WireFormat::V1 { v1::METHODS } else { v2::METHODS };
    let unstable = if revision.has_unstable() { UNSTABLE_METHODS } else { &[] };
    stable.iter().chain(unstable)
}

pub(crate) fn method(name: &str, revision: WireFormat) -> Option<&'static Method> {
    methods(revision).find(|method| method.name == name)
}

/// Returns the caller of a method of either version.
pub(crate) fn caller(name: &str) -> Option<Caller> {
    let known = method(name, WireFormat::Any).or_else(|| method(name, WireFormat::V1));
    known.map(|method| method.caller)
}

/// Returns true if a method of either version requires a response, so it must not be sent as a notification.
/// False for extension methods.
///
/// ```
/// assert!(switchboard_acp::is_request("session/prompt") && switchboard_acp::is_request("session/load"));
/// assert!(!switchboard_acp::is_request("session/cancel") && !switchboard_acp::is_request("_my/method"));
/// ```
pub fn is_request(name: &str) -> bool {
    let known = [WireFormat::Any, WireFormat::V1].into_iter().filter_map(|revision| method(name, revision));
    known.into_iter().any(|method| method.result.is_some() && !method.is_notification_too)
}

/// Returns all types of a version.
pub fn wire_types(revision: WireFormat) -> impl Iterator<Item = &'static WireType> {
    let types = if revision == WireFormat::V1 { v1::TYPES } else { v2::TYPES };
    types.iter()
}

/// Returns the type with a name.
///
/// ```
/// use switchboard_acp::{WireFormat, wire_type};
///
/// let location = wire_type("ToolCallLocation", WireFormat::Newest).unwrap();
/// assert!(location.rewrite(r#"{"path":"/w/main.py","line":1}"#, WireFormat::Newest).is_ok());
/// assert!(location.rewrite(r#"{"path":"/w/main.py","line":0}"#, WireFormat::Newest).is_err());
/// ```
pub fn wire_type(name: &str, revision: WireFormat) -> Option<&'static WireType> {
    wire_types(revision).find(|wire_type| wire_type.name == name)
}

/// Returns the JSON Schema of the messages of a revision, with all types under `$defs`.
pub fn json_schema(revision: WireFormat) -> Value {
    let (title, version) = match revision {
        WireFormat::V1 => ("ACP version 1", 1),
        WireFormat::Spec => ("ACP version 2, dialect \"spec\"", 2),
        WireFormat::Newest => ("ACP version 2, dialect \"newest\"", 2),
        WireFormat::Any => ("ACP version 2, both dialects", 2),
    };
    let mut schemas = Schemas::new(revision);
    for wire_type in wire_types(revision) {
        let schema = (wire_type.schema)(&mut schemas);
        // A type with a second name, or without its own definition.
        let own = json!({"$ref": format!("#/$defs/{}", wire_type.name)});
        if schema != own {
            schemas.define(wire_type.name, |_| schema);
        }
    }
    let message = message_schema(revision, &mut schemas);
    let message = schemas.define("Message", |_| message);
    // Without "$schema": only keywords with the same meaning in every draft from 7 to 2020-12 are used, and
    // validators reject drafts that they do not know.
    sorted(json!({
        "$comment": format!("Version {version} of ACP. For JSON Schema from draft 7 to 2020-12."),
        "title": title,
        "description": "A message or a batch of messages.",
        "anyOf": [message, {"type": "array", "minItems": 1, "items": message}],
        "$defs": schemas.into_definitions(),
    }))
}

/// Returns the schema of a message with the parameters of its method.
fn message_schema(revision: WireFormat, schemas: &mut Schemas) -> Value {
    let id = RequestId::schema(schemas);
    let response = Response::schema(schemas);
    let known = methods(revision).flat_map(|method| {
        let params = json!({"$ref": format!("#/$defs/{}", method.params)});
        let needs_params =
            wire_type(method.params, revision).is_some_and(|params| params.rewrite("{}", revision).is_err());
        let request = method.result.map(|_| Some(id.clone()));
        let notification = (method.result.is_none() || method.is_notification_too).then_some(None);
        let name = json!({"const": method.name});
        [request, notification]
            .into_iter()
            .flatten()
            .map(move |id| call(id, name.clone(), params.clone(), needs_params))
    });
    let names: Vec<_> = methods(revision).map(|method| method.name).collect();
    let other = |id| {
        let method = json!({"type": "string", "not": {"enum": names}});
        let params = json!({"anyOf": [{"type": "object"}, {"type": "array"}, {"type": "null"}]});
        let doc = "A custom method (leading underscore) or one of a later version.";
        described(call(id, method, params, false), doc)
    };
    let forms: Vec<_> = known.chain([other(Some(id.clone())), other(None), answer(&response)]).collect();
    json!({"description": "A request or notification with the parameters of its method, or a response.", "anyOf": forms})
}

/// Returns the value with sorted keys, regardless of the features of the JSON library.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries: BTreeMap<_, _> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
