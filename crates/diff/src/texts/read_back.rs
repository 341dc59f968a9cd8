//! Structured diffs that went through version 1.

use switchboard_acp::{Extra, Meta, Raw, Text, Wire, WireFormat, v1, v2};

use super::{CHANGES_KEY, FileAtHand, ITEMS_KEY, OPERATION_KEY, PATCH_KEY, from_v1};

/// Makes the structured diff again that [`to_v1`](super::to_v1) has shown by the first of these items and perhaps others
/// behind it, and gives how many items stand for it. `None` if the first item does not carry the changes of one.
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
    // An item that was cut off cannot stand for anything any more.
    let count = count.filter(|count| (1..=items.len()).contains(count));
    let patch = meta.get(PATCH_KEY).and_then(|patch| {
        let patch = v2::DiffPatch::decode(patch.as_str(), WireFormat::Newest).ok()?;
        Some(patch.into_owned())
    });
    let patch = match (patch, first) {
        (Some(patch), _) => Some(patch),
        // Without the text of the patch the texts of the item are all that there is.
        (None, v1::ToolCallContent::Diff(diff)) if count.is_none() => {
            from_v1(diff.clone(), &FileAtHand::Unknown).patch
        }
        (None, _) => None,
    };
    let (meta, extra) = rest(meta, extra);
    let diff = v2::Diff { changes, patch, meta, extra, more: switchboard_acp::More };
    Some((diff, count.unwrap_or(1)))
}

/// What the sender of the diff has put beside it.
fn rest(meta: &Meta<'_>, extra: &Extra<'_>) -> (Option<Meta<'static>>, Extra<'static>) {
    let ours = [CHANGES_KEY, ITEMS_KEY, PATCH_KEY, OPERATION_KEY];
    let mut extra = extra.clone().into_owned();
    let mut kept: Vec<(Text<'_>, Raw<'_>)> = Vec::new();
    for (key, value) in meta.entries().filter(|(key, _)| !ours.contains(&&**key)) {
        // Keys of a diff that mean something else in version 1 have been set apart.
        match key
            .strip_prefix("acp.v2/")
            .filter(|key| matches!(*key, "path" | "oldText" | "newText" | "content"))
        {
            Some(key) => extra.insert(Text::Owned(key.to_owned()), value.into_owned()),
            None => kept.push((key, value)),
        }
    }
    ((!kept.is_empty()).then(|| Meta::from_entries(kept)), extra)
}
