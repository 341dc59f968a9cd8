//! Metadata keys of the bridge. Values without a place in the other version are kept under keys that begin
//! with their version.

use switchboard_acp::extensions::{V1_PREFIX, V2_PREFIX};
use switchboard_acp::v2::EmptyObject;
use switchboard_acp::{Extra, Field, Meta, Raw, Text, Wire, WireFormat};

use crate::Error;
use crate::convert::Conversion;
use crate::loss::Severity;

/// Keys of version 2 values without a counterpart in version 1.
pub(crate) const STATUS: &str = "acp.v2/status";
pub(crate) const KIND: &str = "acp.v2/kind";
pub(crate) const STOP_REASON: &str = "acp.v2/stopReason";
pub(crate) const CONTENT: &str = "acp.v2/content";
pub(crate) const ICONS: &str = "acp.v2/icons";
pub(crate) const SUBJECT: &str = "acp.v2/subject";
pub(crate) const REPLAY_FROM: &str = "acp.v2/replayFrom";
/// Marks content of a tool call that is the description of a question.
pub(crate) const DESCRIPTION: &str = "acp.v2/description";
/// Key of version 1 values without a counterpart in version 2.
pub(crate) const V1_CONTENT: &str = "acp.v1/content";
/// Keys of original paths that were not absolute.
pub(crate) const V1_PATH: &str = "acp.v1/path";
pub(crate) const V2_PATH: &str = "acp.v2/path";

/// Version of a value that is kept in metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    V1,
    V2,
}

impl Origin {
    /// Returns the metadata key of a value.
    pub(crate) fn key(self, name: &str) -> String {
        match self {
            Origin::V1 => format!("{V1_PREFIX}{name}"),
            Origin::V2 => format!("{V2_PREFIX}{name}"),
        }
    }
}

/// Encodes a JSON string.
pub(crate) fn text(value: &str) -> Raw<'static> {
    raw(&Text::Borrowed(value))
}

/// Encodes any value as JSON.
pub(crate) fn raw<'a>(value: &impl Wire<'a>) -> Raw<'static> {
    Raw::of(value, WireFormat::Newest)
}

/// Adds an entry, replacing one with the same key.
pub(crate) fn add(meta: &mut Option<Meta<'_>>, key: &str, value: &Raw<'_>) {
    let present = meta.take();
    let kept = present.iter().flat_map(Meta::entries).filter(|(name, _)| name != key);
    *meta = Some(Meta::from_entries(kept.chain([(Text::Borrowed(key), value.borrowed())])));
}

/// Adds a value that has no place in the other version.
pub(crate) fn keep<'v>(meta: &mut Option<Meta<'_>>, from: Origin, name: &str, value: Option<&impl Wire<'v>>) {
    if let Some(value) = value {
        add(meta, &from.key(name), &raw(value));
    }
}

/// Removes a kept value. Returns whether it existed.
pub(crate) fn take_mark(meta: &mut Option<Meta<'_>>, from: Origin, name: &str) -> bool {
    take(meta, &from.key(name)).is_some()
}

/// Removes and returns a value.
pub(crate) fn take(meta: &mut Option<Meta<'_>>, key: &str) -> Option<Raw<'static>> {
    let value = meta.as_ref()?.get(key)?.into_owned();
    if let Some(present) = meta.take() {
        let kept: Vec<_> = present.entries().filter(|(known, _)| **known != *key).collect();
        if !kept.is_empty() {
            *meta = Some(Meta::from_entries(kept));
        }
    }
    Some(value)
}

/// Adds the content of a marker object, for a version that has a flag instead.
pub(crate) fn keep_mark(
    meta: &mut Option<Meta<'_>>,
    from: Origin,
    name: &str,
    mark: Option<&EmptyObject<'_>>,
) {
    keep(meta, from, name, mark.filter(|mark| mark.meta.is_some() || !mark.extra.is_empty()));
}

/// Moves unknown keys to the metadata that have a meaning in the other version, so that they neither collide
/// with it nor are misread.
pub(crate) fn disambiguate(meta: &mut Option<Meta<'_>>, from: Origin, extra: &mut Extra<'_>, known: &[&str]) {
    for key in known {
        if let Some(value) = extra.remove(key) {
            add(meta, &from.key(key), &value);
        }
    }
}

/// Removes the unknown key `type` of a value that only version 2 tags. A value other than the tag is kept as
/// metadata.
pub(crate) fn disambiguate_type(meta: &mut Option<Meta<'_>>, extra: &mut Extra<'_>, tag: &str) {
    if let Some(value) = extra.remove("type")
        && value.as_text().as_deref() != Some(tag)
    {
        add(meta, &Origin::V1.key("type"), &value);
    }
}

/// Joins the metadata of two objects that are one in the other version. `cx` is the position of the second
/// one.
pub(crate) fn join<'a>(
    first: Option<Meta<'a>>,
    second: Option<Meta<'a>>,
    cx: &mut Conversion<'_>,
) -> Result<Option<Meta<'a>>, Error> {
    let (first, second) = match (first, second) {
        (Some(first), Some(second)) => (first, second),
        (one, other) => return Ok(one.or(other)),
    };
    for (key, value) in second.entries() {
        if first.get(&key).is_some_and(|present| present != value) {
            let reason = "the other version joins these two objects, and the key already has a value";
            cx.key("_meta").key(&key).report_loss(Severity::Minor, reason)?;
        }
    }
    let added = second.entries().filter(|(key, _)| first.get(key).is_none());
    Ok(Some(Meta::from_entries(first.entries().chain(added))))
}

/// Joins the unknown keys of two objects that are one in the other version.
pub(crate) fn join_extra<'a>(
    mut first: Extra<'a>,
    second: Extra<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Extra<'a>, Error> {
    if first.is_empty() {
        return Ok(second);
    }
    for (key, value) in second.iter() {
        match first.get(key) {
            None => first.insert(Text::Owned(key.to_owned()), value.clone()),
            Some(present) if present == value => {}
            Some(_) => {
                let reason = "the other version joins these two objects, and the key already has a value";
                cx.key(key).report_loss(Severity::Minor, reason)?;
            }
        }
    }
    Ok(first)
}

/// Converts the metadata of an update. Version 1 cannot clear it.
pub(crate) fn to_v1<'a>(meta: Field<Meta<'a>>, cx: &mut Conversion<'_>) -> Option<Meta<'a>> {
    match meta {
        Field::Set(meta) => Some(meta),
        Field::Keep => None,
        Field::Clear => {
            cx.key("_meta").omit(Severity::Minor, "version 1 cannot clear metadata");
            None
        }
    }
}
