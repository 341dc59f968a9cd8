//! Diffs: old and new text in version 1, changes and a patch in version 2.

use switchboard_diff as diff;
use switchboard_diff::{BuildOptions, FileAtHand, TextItem, TextPair};
use switchboard_protocol::{AbsolutePath, Extra, Meta, Raw, Text, v1, v2};

use crate::convert::meta;

/// A version 1 diff as a structured one. `file` is what is known of the file it is about.
pub(crate) fn to_v2(source: &v1::Diff<'_>, file: &FileAtHand<'_>) -> v2::Diff<'static> {
    let is_deleted = source.extra.get("deleted").is_some_and(|deleted| deleted.as_str() == "true");
    let pair = TextPair {
        path: source.path.as_str().to_owned(),
        old_text: source.old_text.as_deref().map(ToOwned::to_owned),
        new_text: source.new_text.clone().into_owned(),
        is_deleted,
    };
    let built = diff::from_text_pair(&pair, file, &BuildOptions::default()).diff;
    let changes = built.changes.iter().map(change_to_wire).collect::<Vec<_>>();
    let mut wire = v2::Diff::new(changes);
    wire.patch = built.patch.map(|patch| v2::DiffPatch {
        format: v2::DiffPatchFormat::from(patch.format.as_str()),
        text: Text::Owned(patch.text),
        meta: None,
        extra: Extra::new(),
    });
    wire.meta = source.meta.clone().map(switchboard_protocol::Wire::into_owned);
    if built.partial {
        let yes = Raw::from(serde_json::Value::Bool(true));
        wire.meta = Some(meta::with_entry(wire.meta.take(), meta::PARTIAL, &yes));
    }
    wire
}

fn change_to_wire(change: &diff::Change) -> v2::DiffChange<'static> {
    let path = || AbsolutePath::from(change.path.clone());
    let file_type = || change.file_type.as_ref().map(|kind| v2::DiffFileType::from(kind.as_str()));
    let mime_type = || change.mime_type.clone().map(Text::Owned);
    let one = || v2::DiffPathChange {
        file_type: file_type(),
        mime_type: mime_type(),
        ..v2::DiffPathChange::new(path())
    };
    let two = || v2::DiffPathPairChange {
        file_type: file_type(),
        mime_type: mime_type(),
        ..v2::DiffPathPairChange::new(AbsolutePath::from(change.old_path.clone().unwrap_or_default()), path())
    };
    match change.operation {
        diff::Operation::Add => v2::DiffChange::Add(one()),
        diff::Operation::Delete => v2::DiffChange::Delete(one()),
        diff::Operation::Move => v2::DiffChange::Move(two()),
        diff::Operation::Copy => v2::DiffChange::Copy(two()),
        _ => v2::DiffChange::Modify(one()),
    }
}

/// What a diff of version 1 does not say of a structured one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unsaid {
    /// Words had to stand in for a part.
    pub(crate) in_words: bool,
    /// Only the lines around a change are shown, without their place in the file.
    pub(crate) pieces: bool,
}

/// A structured diff as what version 1 can show of it.
pub(crate) fn to_v1(
    wire: &v2::Diff<'_>,
    file_at_hand: impl FnMut(&str) -> FileAtHand<'static>,
) -> (Vec<v1::ToolCallContent<'static>>, Unsaid) {
    let source = from_wire(wire);
    let mut unsaid = Unsaid::default();
    let items = diff::to_text_items(&source, file_at_hand);
    let items = items
        .into_iter()
        .map(|item| match item {
            TextItem::Whole(pair) => v1::ToolCallContent::Diff(pair_to_wire(pair)),
            TextItem::Piece(pair) => {
                unsaid.pieces = true;
                v1::ToolCallContent::Diff(pair_to_wire(pair))
            }
            TextItem::Words(words) => {
                unsaid.in_words = true;
                v1::ToolCallContent::Content(v1::Content::new(v1::ContentBlock::text(words)))
            }
        })
        .collect();
    (items, unsaid)
}

fn pair_to_wire(pair: TextPair) -> v1::Diff<'static> {
    let mut wire = v1::Diff::new(AbsolutePath::from(pair.path), pair.new_text);
    wire.old_text = pair.old_text.map(Text::Owned);
    if pair.is_deleted {
        wire.meta = Some(meta::with_entry(None, meta::OPERATION, &meta::text("delete")));
    }
    wire
}

fn from_wire(wire: &v2::Diff<'_>) -> diff::Diff {
    let changes = wire.changes.iter().map(|change| diff::Change {
        operation: diff::Operation::from(change.tag()),
        path: change.path().map(Text::into_owned).unwrap_or_default(),
        old_path: change.old_path().map(|path| path.as_str().to_owned()),
        file_type: change.file_type().map(|kind| diff::FileType::from(kind.as_str())),
        mime_type: None,
    });
    let patch = wire.patch.as_ref().map(|patch| diff::PatchText {
        format: diff::PatchFormat::from(patch.format.as_str()),
        text: patch.text.clone().into_owned(),
    });
    let partial = wire.meta.as_ref().is_some_and(|metadata| is_true(metadata, meta::PARTIAL));
    diff::Diff { changes: changes.collect(), patch, root: None, partial }
}

fn is_true(meta: &Meta<'_>, key: &str) -> bool {
    meta.get(key).is_some_and(|value| value.as_str() == "true")
}
