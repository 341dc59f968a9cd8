//! Conversion from two texts to a structured diff.

use std::borrow::Cow;
use std::path::Path;

use switchboard_acp::{Raw, v1, v2};

use super::{Carried, FileAtHand, OPERATION_KEY};
use crate::acp::PARTIAL_KEY;
use crate::build::build_from_bytes;
use crate::model::{Diff, Operation};
use crate::options::BuildOptions;

/// Key, next to the texts or in `_meta`, with which version 1 agents mark a deleted file.
const DELETED_KEY: &str = "deleted";
/// Key in `_meta` with which version 1 agents give the operation: `add`, `delete` and others.
const KIND_KEY: &str = "kind";

/// Converts a version 1 diff to a structured one.
///
/// Agents provide less than the format suggests: they omit the old text of a file that they overwrite, send
/// an empty one for a new file, and send only the replaced lines instead of the file. Their metadata
/// (`"kind": "add"`, `"deleted": true`) and the current file provide the rest: an existing file turns an
/// "added" one into an overwrite, and lines that occur once in it get their position. Lines whose position
/// cannot be found make a partial diff, marked by [`PARTIAL_KEY`] in its `_meta`.
///
/// ```
/// use switchboard_diff::{Diff, FileAtHand, from_v1};
/// use switchboard_acp::{Wire, WireFormat, v1};
///
/// let text = r#"{"path":"/w/greet.py","oldText":"Hello","newText":"Good morning"}"#;
/// let source = v1::Diff::decode(text, WireFormat::V1)?;
/// let file = FileAtHand::Content(b"import sys\nprint('Hello')\n".into());
/// let diff = from_v1(source, &file);
/// assert!(!Diff::from(&diff).partial);
/// assert!(diff.patch.unwrap().text.ends_with(
///     "@@ -1,2 +1,2 @@\n import sys\n-print('Hello')\n+print('Good morning')\n"
/// ));
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
pub fn from_v1(source: v1::Diff<'_>, file: &FileAtHand<'_>) -> v2::Diff<'static> {
    let v1::Diff { path, old_text, new_text, meta, mut extra, more: _ } = source;
    let is_true = |value: Option<&Raw<'_>>| value.is_some_and(|value| value.as_str() == "true");
    let said = |key: &str| meta.as_ref().and_then(|meta| meta.get(key));
    let says = |key: &str, word: &str| said(key).as_ref().and_then(Raw::as_text).is_some_and(|it| it == word);
    let is_marked = is_true(extra.get(DELETED_KEY));
    let is_deleted = is_marked
        || is_true(said(DELETED_KEY).as_ref())
        || says(OPERATION_KEY, "delete")
        || (says(KIND_KEY, "delete") && new_text.is_empty());
    // An empty old text means an empty file, unless the agent marks the file as new.
    let is_new = says(KIND_KEY, "add") && old_text.as_deref().is_none_or(str::is_empty);
    if is_marked {
        extra.remove(DELETED_KEY);
    }
    let old_text = old_text.as_deref().filter(|_| !is_new);
    let built = structured(&path, old_text, &new_text, is_deleted, file);
    let v2::Diff { changes, patch, meta: _, extra: _, more: _ } = v2::Diff::from(&built);
    let mut carried = Carried::new(meta.as_ref(), extra);
    if is_deleted {
        carried.take(OPERATION_KEY);
    }
    if built.partial {
        carried.set(PARTIAL_KEY, Raw::from(serde_json::Value::Bool(true)));
    }
    let (meta, extra) = carried.finish("v1", &["changes", "patch"]);
    v2::Diff { changes, patch, meta, extra, more: switchboard_acp::More }
}

fn structured(path: &str, old: Option<&str>, new: &str, is_deleted: bool, file: &FileAtHand<'_>) -> Diff {
    let on_disk = match file {
        FileAtHand::Content(content) => str::from_utf8(content).ok(),
        FileAtHand::Unknown | FileAtHand::Absent => None,
    };
    let texts = match old {
        _ if is_deleted => {
            // A snippet is not enough to delete a file; the content on disk is deleted.
            Texts { old: Some(on_disk.or(old).unwrap_or_default().into()), new: None, is_placed: true }
        }
        // Missing old text: a new file, unless a file exists at its path.
        None => match on_disk {
            Some(content) if content != new => Texts::whole(Some(content), new),
            _ => Texts::whole(None, new),
        },
        Some(old) if old.is_empty() && *file == FileAtHand::Absent => Texts::whole(None, new),
        Some(old) => match on_disk {
            Some(content) => place(content, old, new),
            None => Texts { is_placed: false, ..Texts::whole(Some(old), new) },
        },
    };
    let options = BuildOptions::default();
    let build = |old: Option<&str>, new: Option<&str>| {
        let (old, new) = (old.map(str::as_bytes), new.map(str::as_bytes));
        build_from_bytes(Path::new(path), old, new, &options).diff
    };
    let mut diff = build(texts.old.as_deref(), texts.new.as_deref());
    diff.root = None;
    diff.partial = !texts.is_placed && diff.patch.is_some();
    if diff.changes.is_empty() {
        // Equal texts: the agent reports a write without a visible change.
        diff.changes = build(None, texts.new.as_deref()).changes;
        diff.changes.iter_mut().for_each(|change| change.operation = Operation::Modify);
    }
    diff
}

/// The two texts of a file, as far as known.
struct Texts<'a> {
    old: Option<Cow<'a, str>>,
    new: Option<Cow<'a, str>>,
    is_placed: bool,
}

impl<'a> Texts<'a> {
    fn whole(old: Option<&'a str>, new: &'a str) -> Self {
        Texts { old: old.map(Cow::Borrowed), new: Some(Cow::Borrowed(new)), is_placed: true }
    }
}

/// Determines the old and new text from the current content: all or part of it, before or after the change.
fn place<'a>(content: &'a str, old: &'a str, new: &'a str) -> Texts<'a> {
    if content == old || content == new {
        return Texts::whole(Some(old), new);
    }
    let swap = |from: &str, to: &str| -> Option<String> {
        let at = only_place(content, from)?;
        Some([&content[..at], to, &content[at + from.len()..]].concat())
    };
    // If the new text contains the old one, a file with the new text has both: it is from after the change.
    let after = || {
        let before = swap(new, old)?;
        Some(Texts { old: Some(before.into()), new: Some(content.into()), is_placed: true })
    };
    let before = || {
        let after = swap(old, new)?;
        Some(Texts { old: Some(content.into()), new: Some(after.into()), is_placed: true })
    };
    let placed = if !old.is_empty() && new.contains(old) && content.contains(new) {
        after()
    } else {
        before().or_else(after)
    };
    placed.unwrap_or_else(|| Texts { is_placed: false, ..Texts::whole(Some(old), new) })
}

/// Returns the position of `text` in `content` if it occurs once.
fn only_place(content: &str, text: &str) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    let mut places = memchr::memmem::find_iter(content.as_bytes(), text.as_bytes());
    let first = places.next()?;
    // An overlapping second occurrence counts too.
    let rest = &content.as_bytes()[first..];
    let step = content[first..].chars().next().map_or(1, char::len_utf8);
    (places.next().is_none() && memchr::memmem::find(&rest[step..], text.as_bytes()).is_none())
        .then_some(first)
}
