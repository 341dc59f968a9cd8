//! Changes to what stands around a message: ids and metadata. Everything else stays as it came.

use switchboard_acp::rpc::{Message, Request, RequestId, Response};
use switchboard_acp::{Meta, Raw, Text, Wire, WireFormat};

/// An object with some of its keys only.
pub(super) fn without_keys(params: &Raw<'_>, keys: &[&str]) -> Raw<'static> {
    object(params.entries().filter(|(key, _)| !keys.contains(&&**key)))
}

/// An object of these entries.
pub(super) fn object<'e>(entries: impl IntoIterator<Item = (Text<'e>, Raw<'e>)>) -> Raw<'static> {
    Meta::from_entries(entries).as_raw().clone()
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> Raw<'static> {
    Raw::from(serde_json::Value::from(text))
}

/// A request under another id.
pub(super) fn request_as(request: &Request<'_>, id: RequestId<'static>) -> String {
    Message::Request(Request { id, ..request.clone() }).encode(WireFormat::Any)
}

/// An answer under another id.
pub(super) fn response_as(response: &Response<'_>, id: RequestId<'static>) -> String {
    Message::Response(Response { id, ..response.clone() }).encode(WireFormat::Any)
}

/// A request of our own.
pub(super) fn request(id: RequestId<'static>, method: &str, params: Raw<'_>) -> String {
    Message::request(id, method, params).encode(WireFormat::Any)
}

/// A notification of our own.
pub(super) fn notification(method: &str, params: Raw<'_>) -> String {
    Message::notification(method, params).encode(WireFormat::Any)
}
