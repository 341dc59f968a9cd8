//! Conversion between this crate's types and the wire types.
//!
//! The types of this crate do not keep unknown keys. A program that forwards a diff must keep the wire value
//! as well.

use serde_json::Value;
use switchboard_acp::extensions::{MetaKey, ROOT};
use switchboard_acp::{AbsolutePath, Extra, Meta, Raw, Text, UnknownVariant, v2};

use crate::model::{Change, Diff, FileType, Operation, PatchFormat, PatchText};

/// Key in a diff's `_meta` for [`Diff::partial`].
pub const PARTIAL_KEY: &str = "acp.v1/partial";
const PARTIAL: MetaKey<bool> = MetaKey::new(PARTIAL_KEY);

impl From<&v2::Diff<'_>> for Diff {
    fn from(diff: &v2::Diff<'_>) -> Self {
        let meta = diff.meta.as_ref();
        Diff {
            changes: diff.changes.iter().map(Change::from).collect(),
            patch: diff.patch.as_ref().map(|patch| PatchText {
                format: PatchFormat::from(patch.format.as_str()),
                text: patch.text.clone().into_owned(),
            }),
            root: meta.and_then(|meta| ROOT.read(meta)),
            partial: meta.and_then(|meta| PARTIAL.read(meta)) == Some(true),
        }
    }
}

impl From<&Diff> for v2::Diff<'static> {
    fn from(diff: &Diff) -> Self {
        let changes: Vec<v2::DiffChange<'static>> = diff.changes.iter().map(Into::into).collect();
        let mut wire = v2::Diff::new(changes);
        wire.patch = diff.patch.as_ref().map(|patch| v2::DiffPatch {
            format: v2::DiffPatchFormat::from(patch.format.as_str()),
            ..v2::DiffPatch::git(patch.text.clone())
        });
        let root = diff.root.as_deref().map(|root| ROOT.entry(root));
        let partial = diff.partial.then(|| PARTIAL.entry(true));
        let mut entries = root.into_iter().chain(partial).peekable();
        wire.meta = entries.peek().is_some().then(|| Meta::from_entries(entries));
        wire
    }
}

/// Converts a diff to an item of a tool call's content.
impl From<&Diff> for v2::ToolCallContent<'static> {
    fn from(diff: &Diff) -> Self {
        v2::ToolCallContent::diff(diff.into())
    }
}

impl From<&v2::DiffChange<'_>> for Change {
    fn from(change: &v2::DiffChange<'_>) -> Self {
        let mime_type = match change {
            v2::DiffChange::Add(change) | v2::DiffChange::Delete(change) | v2::DiffChange::Modify(change) => {
                change.mime_type.clone()
            }
            v2::DiffChange::Move(change) | v2::DiffChange::Copy(change) => change.mime_type.clone(),
            v2::DiffChange::Unknown(unknown) => unknown.text("mimeType"),
            v2::DiffChange::More(none) => none.never(),
        };
        let unknown_text = |key| match change {
            v2::DiffChange::Unknown(unknown) => unknown.text(key),
            _ => None,
        };
        Change {
            operation: Operation::from(change.tag()),
            path: change.path().map(Text::into_owned).unwrap_or_default(),
            old_path: change
                .old_path()
                .map(|path| path.as_str().to_owned())
                .or_else(|| unknown_text("oldPath").map(Text::into_owned)),
            file_type: change
                .file_type()
                .map(|file_type| FileType::from(file_type.as_str()))
                .or_else(|| unknown_text("fileType").map(|word| FileType::from(&*word))),
            mime_type: mime_type.map(Text::into_owned),
        }
    }
}

impl From<&Change> for v2::DiffChange<'static> {
    fn from(change: &Change) -> Self {
        let file_type = change.file_type.as_ref().map(|file_type| v2::DiffFileType::from(file_type.as_str()));
        let mime_type = change.mime_type.clone().map(Text::Owned);
        let path = AbsolutePath::as_sent(change.path.clone());
        let one = |path: AbsolutePath<'static>| {
            let mut wire = v2::DiffPathChange::new(path);
            wire.file_type.clone_from(&file_type);
            wire.mime_type.clone_from(&mime_type);
            wire
        };
        let two = |path: AbsolutePath<'static>| {
            // A source is required here. Without one, use the path itself.
            let old_path = change.old_path.clone().map_or_else(|| path.clone(), AbsolutePath::as_sent);
            let mut wire = v2::DiffPathPairChange::new(old_path, path);
            wire.file_type.clone_from(&file_type);
            wire.mime_type.clone_from(&mime_type);
            wire
        };
        match &change.operation {
            Operation::Add => v2::DiffChange::Add(one(path)),
            Operation::Delete => v2::DiffChange::Delete(one(path)),
            Operation::Modify => v2::DiffChange::Modify(one(path)),
            Operation::Move => v2::DiffChange::Move(two(path)),
            Operation::Copy => v2::DiffChange::Copy(two(path)),
            Operation::Other(word) => {
                let mut entries = Extra::new();
                let keys = [
                    ("path", Some(change.path.as_str())),
                    ("oldPath", change.old_path.as_deref()),
                    ("fileType", change.file_type.as_ref().map(FileType::as_str)),
                    ("mimeType", change.mime_type.as_deref()),
                ];
                for (key, value) in keys {
                    if let Some(value) = value {
                        entries.insert(key, Raw::from(Value::from(value)));
                    }
                }
                v2::DiffChange::Unknown(UnknownVariant { tag: Text::Owned(word.clone()), entries })
            }
        }
    }
}
