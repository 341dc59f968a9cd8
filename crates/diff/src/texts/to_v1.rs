//! Conversion from a structured diff to texts.

use std::collections::HashMap;

use switchboard_acp::{AbsolutePath, Meta, Raw, Text, Wire, WireFormat, v1, v2};

use super::{CHANGES_KEY, Carried, FileAtHand, ITEMS_KEY, OPERATION_KEY, PATCH_KEY};
use crate::apply::{Direction, apply_to_bytes};
use crate::location::Location;
use crate::model::{Change, Diff, FileType, Operation, PatchFormat};
use crate::patch::{Body, FilePatch, Hunk, LineKind, parse_patch, write_file};

/// A structured diff in version 1 form, with the losses of the conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InV1 {
    /// Items for the diff: texts, or words if texts cannot express it. At least one.
    pub items: Vec<v1::ToolCallContent<'static>>,
    /// True if a part is expressed in words.
    pub in_words: bool,
    /// True if only the lines around a change are shown, without their position in the file.
    pub in_pieces: bool,
    /// True if a deleted file looks like an emptied one to a reader that ignores `_meta`.
    pub deletes: bool,
}

/// One version 1 item for a diff or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum V1Item {
    /// Old and new text of the whole file.
    Whole(TextPair),
    /// Old and new text of the lines around one change.
    Piece(TextPair),
    /// Description in words, if texts cannot express it.
    Words(String),
}

/// One file as two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TextPair {
    path: String,
    /// Text before the change. `None` for a new file.
    old_text: Option<String>,
    new_text: String,
    is_deleted: bool,
}

/// Converts a structured diff to version 1.
///
/// `file_at_hand` returns the content of files. If a file is the source or the result of the patch, the item
/// has the whole texts; otherwise there is one item per hunk. Changes that texts cannot express (a move, a
/// binary file, a diff without a patch) are described in words. Everything else (metadata, MIME types,
/// unknown keys) is in the first item's `_meta`, under [`CHANGES_KEY`] and [`PATCH_KEY`].
/// [`read_back`](super::read_back) restores the same diff from it.
pub fn to_v1<'f>(source: v2::Diff<'_>, file_at_hand: impl FnMut(&str) -> FileAtHand<'f>) -> InV1 {
    let model = Diff::from(&source);
    let v2::Diff { changes, patch, meta, extra, more: _ } = source;
    let mut carried = Carried::new(meta.as_ref(), extra);
    let mut items = items(&model, file_at_hand);
    if items.is_empty() {
        items.push(V1Item::Words("No file changed".to_owned()));
    }
    let texts_say_all = changes.iter().all(texts_say);
    // Texts and words repeat the patch, so a long patch is not carried as well.
    let carries_text = !texts_say_all && patch.as_ref().is_none_or(|patch| patch.text.len() <= MAX_CARRIED);
    if !texts_say_all {
        carried.set(CHANGES_KEY, raw(&changes));
    }
    if carries_text {
        carried.set(ITEMS_KEY, Raw::from(serde_json::Value::from(items.len())));
    }
    let patch = match patch {
        Some(patch) if carries_text => Some(Raw::of(&patch, WireFormat::Newest)),
        patch => patch.and_then(beside_text),
    };
    if let Some(patch) = patch {
        carried.set(PATCH_KEY, patch);
    }
    let in_v1 = InV1 {
        in_words: items.iter().any(|item| matches!(item, V1Item::Words(_))),
        in_pieces: items.iter().any(|item| matches!(item, V1Item::Piece(_))),
        deletes: items.iter().any(|item| matches!(item, V1Item::Whole(pair) if pair.is_deleted)),
        items: Vec::with_capacity(items.len()),
    };
    let mut carried = Some(carried);
    let items = items.into_iter().map(|item| wire(item, carried.take().unwrap_or_default())).collect();
    InV1 { items, ..in_v1 }
}

/// Maximum length in bytes of a patch text carried in metadata.
const MAX_CARRIED: usize = 1024 * 1024;

/// Returns true if two texts express the whole change.
fn texts_say(change: &v2::DiffChange<'_>) -> bool {
    match change {
        v2::DiffChange::Add(change) | v2::DiffChange::Delete(change) | v2::DiffChange::Modify(change) => {
            let mut plain = v2::DiffPathChange::new(change.path.clone());
            plain.file_type = change.file_type.clone().filter(|kind| *kind == v2::DiffFileType::Text);
            *change == plain
        }
        v2::DiffChange::Move(_) | v2::DiffChange::Copy(_) | v2::DiffChange::Unknown(_) => false,
        v2::DiffChange::More(none) => none.never(),
    }
}

/// Returns the fields of a patch other than its text and the standard format.
fn beside_text(patch: v2::DiffPatch<'_>) -> Option<Raw<'static>> {
    let v2::DiffPatch { format, text: _, meta, extra } = patch;
    if format == v2::DiffPatchFormat::GitPatch && meta.is_none() && extra.is_empty() {
        return None;
    }
    let format = [(Text::Borrowed("format"), raw(&format))];
    let meta = meta.map(|meta| (Text::Borrowed("_meta"), meta.as_raw().borrowed().into_owned()));
    let extra = extra.iter().map(|(key, value)| (Text::Borrowed(key), value.borrowed()));
    Some(Meta::from_entries(format.into_iter().chain(meta).chain(extra)).as_raw().borrowed().into_owned())
}

fn raw<'a>(value: &impl Wire<'a>) -> Raw<'static> {
    // The encoder writes valid JSON, so parsing it cannot fail.
    Raw::parse(value.encode(WireFormat::Any)).unwrap_or_else(|_| Raw::from(serde_json::Value::Null))
}

fn wire(item: V1Item, mut carried: Carried<'_>) -> v1::ToolCallContent<'static> {
    match item {
        V1Item::Whole(pair) | V1Item::Piece(pair) => {
            let TextPair { path, old_text, new_text, is_deleted } = pair;
            if is_deleted {
                carried.set(OPERATION_KEY, Raw::from(serde_json::Value::from("delete")));
            }
            let (meta, extra) = carried.finish("v2", &["path", "oldText", "newText"]);
            v1::ToolCallContent::Diff(v1::Diff {
                path: AbsolutePath::as_sent(path),
                old_text: old_text.map(Text::Owned),
                new_text: Text::Owned(new_text),
                meta,
                extra,
                more: switchboard_acp::More,
            })
        }
        V1Item::Words(words) => {
            let (meta, extra) = carried.finish("v2", &["content"]);
            let content = v1::ContentBlock::text(words);
            v1::ToolCallContent::Content(v1::Content { content, meta, extra, more: switchboard_acp::More })
        }
    }
}

fn items<'a>(diff: &Diff, mut file_at_hand: impl FnMut(&str) -> FileAtHand<'a>) -> Vec<V1Item> {
    let mut items = Vec::new();
    let text = diff.patch.as_ref().map_or("", |patch| patch.text.as_str());
    let known = diff.patch.as_ref().filter(|patch| patch.format == PatchFormat::GitPatch);
    let parsed = known.map(|_| parse_patch(text.as_bytes())).unwrap_or_default();
    let mut sections = Sections::new(diff, &parsed.files);
    for change in &diff.changes {
        let files = sections.take(change);
        translate(change, &files, &mut file_at_hand, &mut items);
    }
    for (path, file) in sections.rest() {
        let old_path = file.old_path.as_deref().map(|path| String::from_utf8_lossy(path).into_owned());
        let change = Change {
            operation: file.operation.clone(),
            path,
            old_path,
            file_type: file.file_type(),
            mime_type: None,
        };
        translate(&change, &[file], &mut file_at_hand, &mut items);
    }
    let is_unread = diff.patch.is_some() && (known.is_none() || !parsed.faults.is_empty());
    if is_unread && !text.is_empty() {
        items.push(V1Item::Words(format!("Patch that could not be read:\n\n{}", fence(text))));
    }
    items
}

/// The sections of a patch by change.
struct Sections<'a> {
    files: Vec<(String, Option<&'a FilePatch<'a>>)>,
    by_path: HashMap<String, Vec<usize>>,
}

impl<'a> Sections<'a> {
    fn new(diff: &Diff, files: &'a [FilePatch<'a>]) -> Self {
        let location = Location::new(diff, files);
        let files: Vec<_> = files.iter().map(|file| (location.place(file.path()), Some(file))).collect();
        let mut by_path: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, (path, _)) in files.iter().enumerate() {
            by_path.entry(path.clone()).or_default().push(at);
        }
        Sections { files, by_path }
    }

    /// Removes and returns the sections of a change. For a path that is deleted and added, each change has
    /// its own.
    fn take(&mut self, change: &Change) -> Vec<&'a FilePatch<'a>> {
        let is_deletion = change.operation == Operation::Delete;
        let is_mine = |file: &FilePatch<'_>| (file.operation == Operation::Delete) == is_deletion;
        let places = self.by_path.get(&change.path).map_or(&[][..], Vec::as_slice);
        places.iter().filter_map(|&at| self.files[at].1.take_if(|file| is_mine(file))).collect()
    }

    fn rest(self) -> impl Iterator<Item = (String, &'a FilePatch<'a>)> {
        self.files.into_iter().filter_map(|(path, file)| file.map(|file| (path, file)))
    }
}

fn translate<'a>(
    change: &Change,
    files: &[&FilePatch<'_>],
    file_at_hand: &mut impl FnMut(&str) -> FileAtHand<'a>,
    items: &mut Vec<V1Item>,
) {
    let is_symlink = change.file_type == Some(FileType::Symlink);
    let has_text = files.iter().all(|file| file.file_type() != Some(FileType::Symlink))
        && files.iter().any(|file| !file.hunks().is_empty());
    let is_empty_file = matches!(change.operation, Operation::Add | Operation::Delete)
        && !files.is_empty()
        && files.iter().all(|file| file.body == Body::Hunks(Vec::new()));
    let in_words = || V1Item::Words(describe(change, files));
    match change.operation {
        Operation::Other(_) => items.push(in_words()),
        _ if is_symlink || !(has_text || is_empty_file) => items.push(in_words()),
        Operation::Add => {
            let new_text = files.iter().flat_map(|file| file.hunks()).map(new_side).collect();
            items.push(V1Item::Whole(pair(change, None, new_text)));
        }
        Operation::Delete => {
            let old_text = files.iter().flat_map(|file| file.hunks()).map(old_side).collect();
            let pair = pair(change, Some(old_text), String::new());
            items.push(V1Item::Whole(TextPair { is_deleted: true, ..pair }));
        }
        Operation::Modify | Operation::Move | Operation::Copy => {
            if change.operation.has_old_path() {
                items.push(V1Item::Words(sentence(change)));
            }
            match whole_texts(change, files, file_at_hand) {
                Some((old, new)) => items.push(V1Item::Whole(pair(change, Some(old), new))),
                None => items.extend(
                    files
                        .iter()
                        .flat_map(|file| file.hunks())
                        .map(|hunk| V1Item::Piece(pair(change, Some(old_side(hunk)), new_side(hunk)))),
                ),
            }
        }
    }
}

fn pair(change: &Change, old_text: Option<String>, new_text: String) -> TextPair {
    TextPair { path: change.path.clone(), old_text, new_text, is_deleted: false }
}

/// Returns the whole texts of both sides, if the current file is one of them.
fn whole_texts<'a>(
    change: &Change,
    files: &[&FilePatch<'_>],
    file_at_hand: &mut impl FnMut(&str) -> FileAtHand<'a>,
) -> Option<(String, String)> {
    let mut read = |path: &str| match file_at_hand(path) {
        FileAtHand::Content(content) => String::from_utf8(content.into_owned()).ok(),
        FileAtHand::Unknown | FileAtHand::Absent => None,
    };
    if let Some(new) = read(&change.path)
        && let Some(old) = lead(files.iter().rev(), &new, Direction::Backward)
    {
        return Some((old, new));
    }
    let old = read(change.old_path.as_deref().unwrap_or(&change.path))?;
    let new = lead(files.iter(), &old, Direction::Forward)?;
    Some((old, new))
}

/// Applies the sections to a text, if every hunk is exactly at its stated position.
fn lead<'b>(
    files: impl Iterator<Item = &'b &'b FilePatch<'b>>,
    text: &str,
    direction: Direction,
) -> Option<String> {
    let mut content = text.as_bytes().to_vec();
    for file in files {
        let applied = apply_to_bytes(file, Some(&content), direction).ok()?;
        if applied.offsets.iter().any(|&offset| offset != 0) {
            return None;
        }
        content = applied.content?;
    }
    String::from_utf8(content).ok()
}

fn old_side(hunk: &Hunk<'_>) -> String {
    side(hunk, LineKind::is_old)
}

fn new_side(hunk: &Hunk<'_>) -> String {
    side(hunk, LineKind::is_new)
}

fn side(hunk: &Hunk<'_>, is_on: fn(LineKind) -> bool) -> String {
    let mut text = String::new();
    for line in hunk.lines.iter().filter(|line| is_on(line.kind)) {
        text.push_str(&line.text());
        if line.newline {
            text.push('\n');
        }
    }
    text
}

/// Describes a change in words, with the patch text if there is any.
fn describe(change: &Change, files: &[&FilePatch<'_>]) -> String {
    let mut patch = Vec::new();
    files.iter().for_each(|file| write_file(&mut patch, &FilePatch { preamble: b"", ..(*file).clone() }));
    let mut words = sentence(change);
    if !patch.is_empty() {
        words.push_str("\n\n");
        words.push_str(&fence(&String::from_utf8_lossy(&patch)));
    }
    words
}

fn sentence(change: &Change) -> String {
    let kind = match &change.file_type {
        Some(FileType::Binary) => "binary file",
        Some(FileType::Directory) => "directory",
        Some(FileType::Symlink) => "symbolic link",
        _ => "file",
    };
    let path = &change.path;
    let from = change.old_path.as_deref().unwrap_or("an unknown path");
    match &change.operation {
        Operation::Add => format!("Added {kind} {path}"),
        Operation::Delete => format!("Deleted {kind} {path}"),
        Operation::Modify => format!("Modified {kind} {path}"),
        Operation::Move => format!("Moved {kind} {from} to {path}"),
        Operation::Copy => format!("Copied {kind} {from} to {path}"),
        Operation::Other(word) => format!("{word}: {kind} {path}"),
    }
}

/// Puts text into a Markdown code block that its content cannot close.
fn fence(text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let marks = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{marks}diff\n{text}{end}{marks}")
}
