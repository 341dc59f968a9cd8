//! Structured diffs that were converted to version 1 and back.

use switchboard_acp::extensions::V2_PREFIX;
use switchboard_acp::{Extra, Meta, Raw, Text, Wire, WireFormat, v1, v2};

use super::{CHANGES_KEY, FileAtHand, ITEMS_KEY, OPERATION_KEY, PATCH_KEY, from_v1};

/// Restores the structured diff that [`to_v1`](super::to_v1) converted to the first of these items and
/// possibly more after it. Returns the diff and the number of items. `None` if the first item does not
/// contain a structured diff.
///
/// ```
/// use switchboard_acp::{Wire, WireFormat, v2};
/// use switchboard_diff::{FileAtHand, read_back, to_v1};
///
/// let text = r#"{"changes":[{"operation":"move","oldPath":"/w/a","path":"/w/b"}]}"#;
/// let diff = v2::Diff::decode(text, WireFormat::Newest)?;
/// let shown = to_v1(diff.clone(), |_| FileAtHand::Unknown);
/// assert_eq!(read_back(&shown.items), Some((diff, 1)));
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
pub fn read_back(items: &[v1::ToolCallContent<'_>]) -> Option<(v2::Diff<'static>, usize)> {
    let first = items.first()?;
    let (meta, extra) = match first {
        v1::ToolCallContent::Diff(diff) => (diff.meta.as_ref()?, &diff.extra),
        v1::ToolCallContent::Content(content) => (content.meta.as_ref()?, &content.extra),
        _ => return None,
    };
    let carried = meta.get(CHANGES_KEY)?;
    let changes = Vec::<v2::DiffChange<'_>>::decode(carried.as_str(), WireFormat::Any).ok()?.into_owned();
    let count = meta.get(ITEMS_KEY).and_then(|count| count.as_str().parse::<usize>().ok());
    // If an item is missing, the items no longer represent the diff.
    let count = count.filter(|count| (1..=items.len()).contains(count));
    let patch = meta.get(PATCH_KEY).and_then(|patch| {
        let patch = v2::DiffPatch::decode(patch.as_str(), WireFormat::Newest).ok()?;
        Some(patch.into_owned())
    });
    let patch = match (patch, first) {
        (Some(patch), _) => Some(patch),
        // Without the patch text, the texts of the item are the only source.
        (None, v1::ToolCallContent::Diff(diff)) if count.is_none() => {
            from_v1(diff.clone(), &FileAtHand::Unknown).patch
        }
        (None, _) => None,
    };
    // Other content was added to the words, and would be lost.
    if !items[..count.unwrap_or(1)].iter().enumerate().all(|(index, item)| is_unmodified(item, index == 0)) {
        return None;
    }
    let (meta, extra) = rest(meta, extra);
    let diff = v2::Diff { changes, patch, meta, extra, more: switchboard_acp::More };
    Some((diff, count.unwrap_or(1)))
}

/// Returns true if an item contains only the content of [`to_v1`](super::to_v1). The first may have
/// additional keys.
fn is_unmodified(item: &v1::ToolCallContent<'_>, is_first: bool) -> bool {
    let is_bare = |meta: Option<&Meta<'_>>, extra: &Extra<'_>| {
        let is_ours = |meta: &Meta<'_>| meta.entries().all(|(key, _)| key == OPERATION_KEY);
        is_first || (meta.is_none_or(is_ours) && extra.is_empty())
    };
    match item {
        v1::ToolCallContent::Diff(diff) => is_bare(diff.meta.as_ref(), &diff.extra),
        v1::ToolCallContent::Content(item) => {
            let is_plain = matches!(&item.content, v1::ContentBlock::Text(text)
                if text.annotations.is_none() && text.meta.is_none() && text.extra.is_empty());
            is_plain && is_bare(item.meta.as_ref(), &item.extra)
        }
        _ => false,
    }
}

/// Returns the sender's metadata and unknown keys.
fn rest(meta: &Meta<'_>, extra: &Extra<'_>) -> (Option<Meta<'static>>, Extra<'static>) {
    let ours = [CHANGES_KEY, ITEMS_KEY, PATCH_KEY, OPERATION_KEY];
    let mut extra = extra.clone().into_owned();
    let mut kept: Vec<(Text<'_>, Raw<'_>)> = Vec::new();
    for (key, value) in meta.entries().filter(|(key, _)| !ours.contains(&&**key)) {
        // Keys of a diff that have another meaning in version 1 were renamed.
        match key
            .strip_prefix(V2_PREFIX)
            .filter(|key| matches!(*key, "path" | "oldText" | "newText" | "content"))
        {
            Some(key) => extra.insert(Text::Owned(key.to_owned()), value.into_owned()),
            None => kept.push((key, value)),
        }
    }
    ((!kept.is_empty()).then(|| Meta::from_entries(kept)), extra)
}
