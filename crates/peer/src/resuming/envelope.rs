//! Changes of ids and metadata of messages. Everything else stays unchanged.

use switchboard_acp::rpc::{Message, Request, RequestId, Response};
use switchboard_acp::{Meta, Raw, Text, Wire, WireFormat};

/// Returns an object without some of its keys.
pub(super) fn without_keys(params: &Raw<'_>, keys: &[&str]) -> Raw<'static> {
    object(params.entries().filter(|(key, _)| !keys.contains(&&**key)))
}

/// Returns an object with these entries.
pub(super) fn object<'e>(entries: impl IntoIterator<Item = (Text<'e>, Raw<'e>)>) -> Raw<'static> {
    Meta::from_entries(entries).as_raw().clone()
}

/// Encodes a text as JSON.
pub(super) fn quoted(text: &str) -> Raw<'static> {
    Raw::from(serde_json::Value::from(text))
}

/// Encodes a request with another id.
pub(super) fn request_as(request: &Request<'_>, id: RequestId<'static>) -> String {
    Message::Request(Request { id, ..request.clone() }).encode(WireFormat::Any)
}

/// Encodes a response with another id.
pub(super) fn response_as(response: &Response<'_>, id: RequestId<'static>) -> String {
    Message::Response(Response { id, ..response.clone() }).encode(WireFormat::Any)
}

/// Encodes a new request.
pub(super) fn request(id: RequestId<'static>, method: &str, params: Raw<'_>) -> String {
    Message::request(id, method, params).encode(WireFormat::Any)
}

/// Encodes a new notification.
pub(super) fn notification(method: &str, params: Raw<'_>) -> String {
    Message::notification(method, params).encode(WireFormat::Any)
}
