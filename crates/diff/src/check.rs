//! Checks that the changes of a diff and its patch agree.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

use switchboard_acp::AbsolutePath;

use crate::location::Location;
use crate::model::{Change, Diff, FileType, Operation, PatchFormat};
use crate::patch::{FilePatch, Header, PatchFault, parse_patch};

/// Result of checking a diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Errors. A diff without any is consistent and valid.
    pub disagreements: Vec<Disagreement>,
    /// Permitted differences.
    pub notes: Vec<Note>,
}

impl Checked {
    /// Returns true if there are no errors.
    pub fn agrees(&self) -> bool {
        self.disagreements.is_empty()
    }
}

/// A difference that the protocol permits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The patch, which may show a subset of the changes, does not show this one.
    NotInPatch {
        /// The path in the list.
        path: String,
        /// The operation in the list.
        operation: Operation,
    },
    /// The operation is not one of ACP's, so the change cannot be interpreted. With a leading underscore it
    /// is a custom one, otherwise reserved for later versions.
    UnknownOperation {
        /// The path in the list. Empty if there is none.
        path: String,
        /// The operation.
        operation: String,
    },
    /// The patch has an unsupported format.
    UnknownFormat {
        /// The format.
        format: String,
    },
    /// The headers of the patch have Git's prefixes such as `a/` or `b/`, where the protocol requires
    /// absolute paths. The file is clear nevertheless.
    Prefixed {
        /// The path in the patch, without the prefix.
        path: String,
    },
}

impl Note {
    /// Returns the kind of note, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Note::NotInPatch { .. } => "not_in_patch",
            Note::UnknownOperation { operation, .. } if operation.starts_with('_') => "custom_operation",
            Note::UnknownOperation { .. } => "reserved_operation",
            Note::UnknownFormat { .. } => "unknown_format",
            Note::Prefixed { .. } => "patch_path_prefixed",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::NotInPatch { path, operation } => {
                write!(formatter, "{path}: the changes have {operation}, the patch does not show it")
            }
            Note::UnknownOperation { path, operation } => {
                let whose = if operation.starts_with('_') {
                    "somebody's own"
                } else {
                    "not defined, and reserved for later versions"
                };
                let path = if path.is_empty() { "a change without a path" } else { path };
                write!(formatter, "{path}: the operation \"{operation}\" is {whose}")
            }
            Note::UnknownFormat { format } => {
                write!(formatter, "the patch is in the format \"{format}\", which is not read here")
            }
            Note::Prefixed { path } => write!(
                formatter,
                "{path}: the headers of the patch should have the absolute path, without a prefix such as a/ and b/"
            ),
        }
    }
}

/// A contradiction between the changes of a diff and its patch, or a violation of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disagreement {
    /// The patch text is malformed here.
    Malformed(PatchFault),
    /// The patch changes a path that is not listed.
    NotListed {
        /// The path in the patch.
        path: String,
        /// The operation in the patch.
        operation: Operation,
    },
    /// The list contains a text change that the patch does not show.
    NotInPatch {
        /// The path in the list.
        path: String,
        /// The operation in the list.
        operation: Operation,
    },
    /// List and patch have different operations for a path.
    Operation {
        /// The path.
        path: String,
        /// The operation in the list.
        listed: Operation,
        /// The operation in the patch.
        in_patch: Operation,
    },
    /// List and patch have different sources of a moved or copied file.
    OldPath {
        /// The path.
        path: String,
        /// The source in the list.
        listed: String,
        /// The source in the patch.
        in_patch: String,
    },
    /// List and patch have different file types.
    FileType {
        /// The path.
        path: String,
        /// The type in the list.
        listed: FileType,
        /// The type in the patch.
        in_patch: FileType,
    },
    /// The patch has text outside of its sections, such as a mail or commit header.
    OutsideSections {
        /// Number of its first line in the patch.
        line: usize,
        /// The line.
        text: String,
    },
    /// A section of the patch does not start with a `diff --git` line.
    NotGit {
        /// The path in the section.
        path: String,
    },
    /// A path in the list is not absolute.
    ListedPathNotAbsolute {
        /// The path.
        path: String,
    },
    /// A path in the patch is not absolute.
    PatchPathNotAbsolute {
        /// The path.
        path: String,
    },
    /// A moved or copied file in the list has no old path.
    OldPathMissing {
        /// The path.
        path: String,
    },
    /// The list contains a path twice.
    ListedTwice {
        /// The path.
        path: String,
    },
}

impl Disagreement {
    /// Returns the kind of disagreement, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Disagreement::Malformed(_) => "malformed",
            Disagreement::NotListed { .. } => "not_listed",
            Disagreement::NotInPatch { .. } => "not_in_patch",
            Disagreement::Operation { .. } => "operation",
            Disagreement::OldPath { .. } => "old_path",
            Disagreement::FileType { .. } => "file_type",
            Disagreement::OutsideSections { .. } => "outside_sections",
            Disagreement::NotGit { .. } => "not_git",
            Disagreement::ListedPathNotAbsolute { .. } => "listed_path_not_absolute",
            Disagreement::PatchPathNotAbsolute { .. } => "patch_path_not_absolute",
            Disagreement::OldPathMissing { .. } => "old_path_missing",
            Disagreement::ListedTwice { .. } => "listed_twice",
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disagreement::Malformed(fault) => write!(formatter, "the patch is malformed: {fault}"),
            Disagreement::NotListed { path, operation } => {
                write!(formatter, "{path}: the patch has {operation}, the changes do not name it")
            }
            Disagreement::NotInPatch { path, operation } => {
                write!(formatter, "{path}: the changes have {operation}, the patch does not show it")
            }
            Disagreement::Operation { path, listed, in_patch } => {
                write!(formatter, "{path}: the changes have {listed}, the patch has {in_patch}")
            }
            Disagreement::OldPath { path, listed, in_patch } => {
                write!(
                    formatter,
                    "{path}: it comes from {listed} in the changes, from {in_patch} in the patch"
                )
            }
            Disagreement::FileType { path, listed, in_patch } => {
                write!(formatter, "{path}: it is {listed} in the changes, {in_patch} in the patch")
            }
            Disagreement::OutsideSections { line, text } => {
                write!(
                    formatter,
                    "line {line} of the patch belongs to no section, where mail and commit headers are not allowed: {text:?}"
                )
            }
            Disagreement::NotGit { path } => {
                write!(formatter, "{path}: the section of the patch does not begin with \"diff --git\"")
            }
            Disagreement::ListedPathNotAbsolute { path } => {
                write!(formatter, "{path}: the path in the changes is not absolute")
            }
            Disagreement::PatchPathNotAbsolute { path } => {
                write!(formatter, "{path}: the path in the patch is not absolute")
            }
            Disagreement::OldPathMissing { path } => {
                write!(formatter, "{path}: the change does not say where it comes from")
            }
            Disagreement::ListedTwice { path } => write!(formatter, "{path}: the changes name it twice"),
        }
    }
}

/// Maximum length of a quoted line in a message.
const MAX_QUOTED: usize = 60;

/// Compares the changes of a diff with its patch. Returns every disagreement.
///
/// The list of changes is authoritative. The patch may show a subset, so missing changes are only notes, like
/// unknown operations. A patch in ACP's format consists of `diff --git` sections only. Relative paths are
/// compared below the matching root and reported; with Git's prefixes `a/` and `b/` they are only notes.
/// Without a patch, or with one in an unknown format, only the list is checked.
pub fn check(diff: &Diff) -> Checked {
    let mut checked = Checked::default();
    check_list(&diff.changes, &mut checked);
    let Some(patch) = &diff.patch else { return checked };
    if let PatchFormat::Other(format) = &patch.format {
        checked.notes.push(Note::UnknownFormat { format: format.clone() });
        return checked;
    }
    let parsed = parse_patch(patch.text.as_bytes());
    let Checked { disagreements: found, notes } = &mut checked;
    found.extend(parsed.faults.iter().cloned().map(Disagreement::Malformed));
    let texts = parsed.files.iter().map(|file| file.preamble).chain([parsed.trailer]);
    // A completely unreadable patch is one fault, not additional text between sections.
    if !parsed.files.is_empty() {
        found.extend(texts.filter_map(|text| outside(patch.text.as_bytes(), text)));
    }
    let mut named = HashSet::new();
    for file in &parsed.files {
        if matches!(file.header, Header::Plain { .. }) {
            found.push(Disagreement::NotGit { path: String::from_utf8_lossy(file.path()).into_owned() });
        }
        let is_prefixed = has_usual_prefixes(&file.header);
        for path in [&file.old_path, &file.new_path].into_iter().flatten() {
            if (AbsolutePath::is_absolute(path) && !is_prefixed) || !named.insert(&**path) {
                continue;
            }
            let path = String::from_utf8_lossy(path).into_owned();
            if is_prefixed {
                notes.push(Note::Prefixed { path });
            } else {
                found.push(Disagreement::PatchPathNotAbsolute { path });
            }
        }
    }
    let location = Location::new(diff, &parsed.files);
    let listed = diff.changes.iter().map(|change| Item::listed(change, str::to_owned)).collect();
    let place = |path: &[u8]| location.place(path);
    let in_patch = parsed.files.iter().map(|file| Item::in_patch(file, place)).collect();
    for disagreement in compare(listed, in_patch) {
        match disagreement {
            Disagreement::NotInPatch { path, operation } => {
                checked.notes.push(Note::NotInPatch { path, operation });
            }
            other => checked.disagreements.push(other),
        }
    }
    checked
}

/// Returns true if a header has Git's prefixes, usually `a/` and `b/`.
fn has_usual_prefixes(header: &Header<'_>) -> bool {
    let is_usual =
        |prefix: &[u8]| matches!(prefix, [b'a' | b'b' | b'c' | b'i' | b'o' | b'w' | b'1' | b'2', b'/']);
    matches!(header, Header::Git { old_prefix, new_prefix } if is_usual(old_prefix) && is_usual(new_prefix))
}

/// Reports text of a patch outside of its sections, by its first non-blank line.
fn outside(patch: &[u8], text: &[u8]) -> Option<Disagreement> {
    let begin = text.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let before = (text.as_ptr() as usize).checked_sub(patch.as_ptr() as usize)? + begin;
    let line = memchr::memchr_iter(b'\n', patch.get(..before)?).count() + 1;
    let text = text[begin..].split(|&byte| byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(text).chars().take(MAX_QUOTED).collect();
    Some(Disagreement::OutsideSections { line, text })
}

fn check_list(changes: &[Change], checked: &mut Checked) {
    let Checked { disagreements: found, notes } = checked;
    let mut seen: HashMap<&str, &Operation> = HashMap::new();
    for change in changes {
        if let Operation::Other(operation) = &change.operation {
            // Keys of an unknown operation cannot be interpreted.
            notes.push(Note::UnknownOperation { path: change.path.clone(), operation: operation.clone() });
            continue;
        }
        for path in [Some(&change.path), change.old_path.as_ref()].into_iter().flatten() {
            if !AbsolutePath::is_absolute(path) {
                found.push(Disagreement::ListedPathNotAbsolute { path: path.clone() });
            }
        }
        if change.operation.has_old_path() && change.old_path.is_none() {
            found.push(Disagreement::OldPathMissing { path: change.path.clone() });
        }
        let before = seen.insert(&change.path, &change.operation);
        // A path that changes its file type is deleted and added.
        let is_replaced = before == Some(&Operation::Delete) && change.operation != Operation::Delete;
        if before.is_some() && !is_replaced {
            found.push(Disagreement::ListedTwice { path: change.path.clone() });
        }
    }
}

/// A change or a section with comparable paths.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) operation: Operation,
    pub(crate) path: String,
    pub(crate) old_path: Option<String>,
    pub(crate) file_type: Option<FileType>,
}

impl Item {
    pub(crate) fn listed(change: &Change, place: impl Fn(&str) -> String) -> Self {
        Item {
            operation: change.operation.clone(),
            path: place(&change.path),
            old_path: change.old_path.as_deref().filter(|_| change.operation.has_old_path()).map(place),
            file_type: change.file_type.clone(),
        }
    }

    /// Returns true for a kind of change that often has no text.
    fn may_lack_text(&self) -> bool {
        matches!(
            self.file_type,
            Some(FileType::Binary | FileType::Directory | FileType::Symlink | FileType::Other(_))
        )
    }

    pub(crate) fn in_patch(file: &FilePatch<'_>, place: impl Fn(&[u8]) -> String) -> Self {
        Item {
            operation: file.operation.clone(),
            path: place(file.path()),
            old_path: file.old_path.as_deref().filter(|_| file.operation.has_old_path()).map(place),
            file_type: file.file_type(),
        }
    }
}

/// Compares the two lists path by path.
pub(crate) fn compare(listed: Vec<Item>, in_patch: Vec<Item>) -> Vec<Disagreement> {
    let mut found = Vec::new();
    let order: Vec<String> = in_patch.iter().map(|item| item.path.clone()).collect();
    let mut sections: HashMap<String, VecDeque<Item>> = HashMap::new();
    for item in in_patch {
        sections.entry(item.path.clone()).or_default().push_back(item);
    }
    let (mut matched, mut of_unknown) = (HashSet::new(), HashSet::new());
    for change in listed {
        if let Operation::Other(_) = change.operation {
            // Sections for the path may belong to the unknown operation.
            of_unknown.insert(change.path);
            continue;
        }
        let items = sections.get_mut(&change.path);
        let may_lack_text = items.is_none() && change.may_lack_text();
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            if !may_lack_text {
                found.push(Disagreement::NotInPatch { path: change.path, operation: change.operation });
            }
            continue;
        };
        if change.operation == Operation::Modify && is_replacement(items) {
            items.clear();
            continue;
        }
        let same = items.iter().position(|item| item.operation == change.operation);
        if let Some(item) = items.remove(same.unwrap_or(0)) {
            matched.insert(change.path.clone());
            compare_item(change, item, &mut found);
        }
    }
    for path in order {
        let Some(item) = sections.get_mut(&path).and_then(VecDeque::pop_front) else { continue };
        // Several sections may edit one file in sequence.
        let is_more = item.operation == Operation::Modify && matched.contains(&path);
        if !is_more && !of_unknown.contains(&path) {
            found.push(Disagreement::NotListed { path, operation: item.operation });
        }
    }
    found
}

/// Returns true if the changes of a path are a deletion and an addition.
fn is_replacement(items: &VecDeque<Item>) -> bool {
    let operations = items.iter().map(|item| &item.operation);
    operations.eq([&Operation::Delete, &Operation::Add])
}

fn compare_item(change: Item, item: Item, found: &mut Vec<Disagreement>) {
    let Item { operation, path, old_path, file_type } = change;
    if operation != item.operation {
        found.push(Disagreement::Operation { path, listed: operation, in_patch: item.operation });
        return;
    }
    if let (Some(listed), Some(in_patch)) = (old_path, item.old_path)
        && listed != in_patch
    {
        found.push(Disagreement::OldPath { path: path.clone(), listed, in_patch });
    }
    if let (Some(listed), Some(in_patch)) = (file_type, item.file_type)
        && listed != in_patch
        && !matches!(listed, FileType::Other(_))
    {
        found.push(Disagreement::FileType { path, listed, in_patch });
    }
}
