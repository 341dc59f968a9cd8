//! Diffs as the builder makes them, in the protocol's words.

use switchboard_diff::{Change, Diff, Operation};
use switchboard_protocol::{Extra, Meta, Raw, UnknownVariant, v2};

/// The key under which a diff tells that its patch shows pieces whose place in the file is not known.
const PARTIAL: &str = "switchboard/partial";

/// Tells a diff in the protocol's words.
///
/// ```
/// use std::path::Path;
/// use switchboard_diff::{BuildOptions, build_from_bytes};
/// use switchboard_peer::diff_content;
///
/// let built = build_from_bytes(Path::new("/w/a.txt"), None, Some(b"one\n"), &BuildOptions::default());
/// let content = diff_content(&built.diff);
/// assert_eq!(content.changes[0].tag(), "add");
/// assert!(content.patch.unwrap().text.starts_with("diff --git"));
/// ```
pub fn diff_content(diff: &Diff) -> v2::Diff<'static> {
    let changes: Vec<_> = diff.changes.iter().map(change).collect();
    let mut content = v2::Diff::new(changes);
    content.patch = diff.patch.as_ref().map(|patch| v2::DiffPatch {
        format: v2::DiffPatchFormat::from(patch.format.as_str()),
        ..v2::DiffPatch::git(patch.text.clone())
    });
    if diff.partial {
        content.meta = Some(Meta::from_entries([(PARTIAL.into(), Raw::from(serde_json::Value::Bool(true)))]));
    }
    content
}

fn change(change: &Change) -> v2::DiffChange<'static> {
    let file_type = change.file_type.as_ref().map(|kind| v2::DiffFileType::from(kind.as_str()));
    let path = v2::DiffPathChange {
        file_type: file_type.clone(),
        mime_type: change.mime_type.clone().map(Into::into),
        ..v2::DiffPathChange::new(change.path.clone())
    };
    let pair = || v2::DiffPathPairChange {
        file_type: file_type.clone(),
        mime_type: change.mime_type.clone().map(Into::into),
        ..v2::DiffPathPairChange::new(change.old_path.clone().unwrap_or_default(), change.path.clone())
    };
    match &change.operation {
        Operation::Add => v2::DiffChange::Add(path),
        Operation::Delete => v2::DiffChange::Delete(path),
        Operation::Modify => v2::DiffChange::Modify(path),
        Operation::Move => v2::DiffChange::Move(pair()),
        Operation::Copy => v2::DiffChange::Copy(pair()),
        other => {
            let mut entries = Extra::new();
            entries.insert("path", Raw::from(serde_json::Value::from(change.path.as_str())));
            v2::DiffChange::Unknown(UnknownVariant { tag: other.as_str().to_owned().into(), entries })
        }
    }
}
