//! Changes to what stands around a message: ids and metadata. Everything else stays as it came.

use switchboard_acp::rpc::{Message, Request, RequestId, Response};
use switchboard_acp::{Meta, Raw, Text, Wire, WireFormat};

const META: &str = "_meta";

/// The metadata of parameters or of a result, by its key.
pub(super) fn meta(params: &Raw<'_>, key: &str) -> Option<Raw<'static>> {
    Some(params.get(META)?.get(key)?.into_owned())
}

/// A text among that metadata.
pub(super) fn meta_text(params: &Raw<'_>, key: &str) -> Option<String> {
    params.get(META)?.text(key)
}

/// Parameters with other metadata: without some keys, with others. What is not an object has no metadata and stays.
pub(super) fn with_meta(params: &Raw<'_>, without: &[&str], with: &[(&str, Raw<'_>)]) -> Raw<'static> {
    if !params.is_object() {
        return params.clone().into_owned();
    }
    let had = params.get(META);
    let kept = had.iter().flat_map(Raw::entries);
    let kept = kept.filter(|(key, _)| !without.contains(&&**key) && with.iter().all(|(new, _)| key != new));
    let added = with.iter().map(|(key, value)| (Text::Borrowed(*key), value.borrowed()));
    let entries: Vec<_> = kept.chain(added).collect();
    let is_empty = entries.is_empty();
    let meta = Meta::from_entries(entries);
    let others = params.entries().filter(|(key, _)| key != META);
    let meta = (!is_empty).then(|| (Text::Borrowed(META), meta.as_raw().borrowed()));
    object(others.chain(meta))
}

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
