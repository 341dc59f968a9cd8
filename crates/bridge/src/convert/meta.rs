//! Metadata of our own: what the other version has no place for travels under these keys.

use switchboard_protocol::{Meta, Raw, Text, Wire, WireFormat};

/// What version 2 said and version 1 has no word for.
pub(crate) const STATUS: &str = "acp.v2/status";
pub(crate) const KIND: &str = "acp.v2/kind";
pub(crate) const STOP_REASON: &str = "acp.v2/stopReason";
pub(crate) const CONTENT: &str = "acp.v2/content";
pub(crate) const ICONS: &str = "acp.v2/icons";
/// A path as the agent said it, where it is not absolute.
pub(crate) const V1_PATH: &str = "acp.v1/path";
pub(crate) const V2_PATH: &str = "acp.v2/path";

/// A JSON string.
pub(crate) fn text(value: &str) -> Raw<'static> {
    raw(&Text::Borrowed(value))
}

/// The JSON of any value.
pub(crate) fn raw<'a>(value: &impl Wire<'a>) -> Raw<'static> {
    // What is written is JSON, so reading it again cannot fail.
    Raw::parse(value.encode(WireFormat::Newest)).unwrap_or_else(|_| Raw::from(serde_json::Value::Null))
}

/// Adds an entry.
#[allow(clippy::needless_pass_by_value, reason = "what it is added to is taken out and put back")]
pub(crate) fn with_entry(meta: Option<Meta<'_>>, key: &str, value: &Raw<'_>) -> Meta<'static> {
    let present = meta.as_ref().map(|meta| meta.entries().collect::<Vec<_>>()).unwrap_or_default();
    let kept = present.into_iter().filter(|(name, _)| name != key);
    Meta::from_entries(kept.chain([(Text::Borrowed(key), value.borrowed())]))
}
