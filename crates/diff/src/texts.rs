//! Diffs as ACP version 1 has them: a path, an old text and a new text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use crate::apply::{Direction, apply_to_bytes};
use crate::build::{Built, build_from_bytes};
use crate::location::Location;
use crate::model::{Change, Diff, FileType, Operation, PatchFormat};
use crate::options::BuildOptions;
use crate::patch::{Body, FilePatch, Hunk, LineKind, parse_patch, write_file};

/// A diff of version 1: one file, as two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPair {
    /// The absolute path of the file.
    pub path: String,
    /// The text before; `None` says that the file is new.
    pub old_text: Option<String>,
    /// The text after.
    pub new_text: String,
    /// An extension of version 1: the file is gone, and the new text empty for that reason.
    pub is_deleted: bool,
}

/// What is known of the file that a diff is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAtHand<'a> {
    /// Nobody looked.
    Unknown,
    /// There is no such file.
    Absent,
    /// It is there, with this content. Whether that is from before or after the change is not known.
    Content(Cow<'a, [u8]>),
}

/// One item that stands for a diff, or a part of it, in version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextItem {
    /// Old and new text of the whole file.
    Whole(TextPair),
    /// Old and new text of the lines around one change.
    Piece(TextPair),
    /// What happened, in words, because texts cannot say it.
    Words(String),
}

/// Turns a version 1 diff into a structured one.
///
/// Agents say less than the shape suggests: they leave out the old text of a file that they overwrite, and
/// they send the few lines that they replace instead of the file. The file at hand tells: an existing file
/// makes an overwrite of an "added" one, and lines that occur once in it get their place. Lines whose place
/// cannot be found make a diff that is marked [`Diff::partial`].
///
/// ```
/// use switchboard_diff::{BuildOptions, FileAtHand, TextPair, from_text_pair};
///
/// let pair = TextPair {
///     path: "/w/greet.py".to_owned(),
///     old_text: Some("Hello".to_owned()),
///     new_text: "Good morning".to_owned(),
///     is_deleted: false,
/// };
/// let file = FileAtHand::Content(b"import sys\nprint('Hello')\n".into());
/// let diff = from_text_pair(&pair, &file, &BuildOptions::default()).diff;
/// assert!(!diff.partial);
/// assert!(diff.patch.unwrap().text.ends_with(
///     "@@ -1,2 +1,2 @@\n import sys\n-print('Hello')\n+print('Good morning')\n"
/// ));
/// ```
pub fn from_text_pair(pair: &TextPair, file: &FileAtHand<'_>, options: &BuildOptions) -> Built {
    let on_disk = match file {
        FileAtHand::Content(content) => str::from_utf8(content).ok(),
        FileAtHand::Unknown | FileAtHand::Absent => None,
    };
    let new = pair.new_text.as_str();
    let texts = match &pair.old_text {
        _ if pair.is_deleted => {
            // A snippet makes no sense here; what is on disk is what goes.
            Texts { old: on_disk.or(pair.old_text.as_deref()).map(Cow::Borrowed), new: None, is_placed: true }
        }
        // Missing old text: a new file, unless there is another one at its place.
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
    let bytes = |text: &Option<Cow<'_, str>>| text.as_ref().map(|text| text.as_bytes().to_vec());
    let (old, new) = (bytes(&texts.old), bytes(&texts.new));
    let mut built = build_from_bytes(Path::new(&pair.path), old.as_deref(), new.as_deref(), options);
    built.diff.root = None;
    built.diff.partial = !texts.is_placed && built.diff.patch.is_some();
    if built.diff.changes.is_empty() && !pair.is_deleted {
        // Equal texts: the agent says that it wrote the file, and there is nothing to show.
        let mut touched = build_from_bytes(Path::new(&pair.path), None, new.as_deref(), options);
        touched.diff.changes.iter_mut().for_each(|change| change.operation = Operation::Modify);
        built.diff.changes = touched.diff.changes;
    }
    built
}

/// The two texts of a file, as well as they can be known.
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

/// Finds out what the old and the new text are of the content at hand: all of it or a part, before or after.
fn place<'a>(content: &'a str, old: &'a str, new: &'a str) -> Texts<'a> {
    if content == old || content == new {
        return Texts::whole(Some(old), new);
    }
    let swap = |from: &str, to: &str| -> Option<String> {
        let at = only_place(content, from)?;
        Some([&content[..at], to, &content[at + from.len()..]].concat())
    };
    // When the new text has the old one in it, a file with the new text has both: it is from after.
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

/// Where `text` is in `content`, if it is there once.
fn only_place(content: &str, text: &str) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    let mut places = memchr::memmem::find_iter(content.as_bytes(), text.as_bytes());
    let first = places.next()?;
    // An overlapping second place counts too.
    let rest = &content.as_bytes()[first..];
    let step = content[first..].chars().next().map_or(1, char::len_utf8);
    (places.next().is_none() && memchr::memmem::find(&rest[step..], text.as_bytes()).is_none())
        .then_some(first)
}

/// Turns a structured diff into what version 1 can show of it.
///
/// `file_at_hand` is asked for the content of files. Where a file is what the patch leads from or to, the
/// item has the whole texts; else there is one item a hunk. What texts cannot say (a move, a binary file, a
/// diff without a patch) is said in words.
pub fn to_text_items<'a>(diff: &Diff, mut file_at_hand: impl FnMut(&str) -> FileAtHand<'a>) -> Vec<TextItem> {
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
        items.push(TextItem::Words(format!("Patch that could not be read:\n\n{}", fence(text))));
    }
    items
}

/// The sections of a patch by the change that they belong to.
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

    /// The sections of a change. Of a path that is deleted and added, each change has its own.
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
    items: &mut Vec<TextItem>,
) {
    let is_symlink = change.file_type == Some(FileType::Symlink);
    let has_text = files.iter().all(|file| file.file_type() != Some(FileType::Symlink))
        && files.iter().any(|file| !file.hunks().is_empty());
    let is_empty_file = matches!(change.operation, Operation::Add | Operation::Delete)
        && !files.is_empty()
        && files.iter().all(|file| file.body == Body::Hunks(Vec::new()));
    let in_words = || TextItem::Words(describe(change, files));
    match change.operation {
        Operation::Other(_) => items.push(in_words()),
        _ if is_symlink || !(has_text || is_empty_file) => items.push(in_words()),
        Operation::Add => {
            let new_text = files.iter().flat_map(|file| file.hunks()).map(new_side).collect();
            items.push(TextItem::Whole(pair(change, None, new_text)));
        }
        Operation::Delete => {
            let old_text = files.iter().flat_map(|file| file.hunks()).map(old_side).collect();
            let pair = pair(change, Some(old_text), String::new());
            items.push(TextItem::Whole(TextPair { is_deleted: true, ..pair }));
        }
        Operation::Modify | Operation::Move | Operation::Copy => {
            if change.operation.has_old_path() {
                items.push(TextItem::Words(sentence(change)));
            }
            match whole_texts(change, files, file_at_hand) {
                Some((old, new)) => items.push(TextItem::Whole(pair(change, Some(old), new))),
                None => items.extend(
                    files
                        .iter()
                        .flat_map(|file| file.hunks())
                        .map(|hunk| TextItem::Piece(pair(change, Some(old_side(hunk)), new_side(hunk)))),
                ),
            }
        }
    }
}

fn pair(change: &Change, old_text: Option<String>, new_text: String) -> TextPair {
    TextPair { path: change.path.clone(), old_text, new_text, is_deleted: false }
}

/// The whole texts of both sides, if the file at hand is one of them.
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

/// What the sections make of a text, if every hunk is exactly where it says.
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

/// What happened, with the patch text if there is any.
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

/// Puts text into a Markdown code block that nothing in it can close.
fn fence(text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let marks = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{marks}diff\n{text}{end}{marks}")
}
