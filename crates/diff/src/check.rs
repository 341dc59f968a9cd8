//! Whether the changes of a diff and its patch tell the same.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

use switchboard_acp::AbsolutePath;

use crate::location::Location;
use crate::model::{Change, Diff, FileType, Operation, PatchFormat};
use crate::patch::{FilePatch, Header, PatchFault, parse_patch};

/// What there is to say of a diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// What is wrong. A diff without any agrees with itself and with the protocol.
    pub disagreements: Vec<Disagreement>,
    /// What is allowed, and good to know.
    pub notes: Vec<Note>,
}

impl Checked {
    /// Whether nothing is wrong.
    pub fn agrees(&self) -> bool {
        self.disagreements.is_empty()
    }
}

/// Something that the protocol allows and a reader may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The patch, which may show some or all of the changes, does not show this one.
    NotInPatch {
        /// The path in the list.
        path: String,
        /// What the list says of it.
        operation: Operation,
    },
    /// The operation is none of ACP's, so that nothing can be said of the change but its name: somebody's own if it
    /// begins with an underscore, else one that is reserved for later versions.
    UnknownOperation {
        /// The path in the list; empty when there is none.
        path: String,
        /// The word for the operation.
        operation: String,
    },
    /// The patch is in a format that is not read here.
    UnknownFormat {
        /// The word for the format.
        format: String,
    },
    /// The headers of the patch name a path behind a prefix of Git such as `a/` or `b/`, where the protocol has absolute
    /// paths. Which file is meant is clear nevertheless.
    Prefixed {
        /// The path in the patch, without the prefix.
        path: String,
    },
}

impl Note {
    /// A word for the kind of note, for programs.
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

/// One way in which the changes of a diff and its patch do not tell the same, or tell it as the protocol does not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disagreement {
    /// The patch text cannot be read at this place.
    Malformed(PatchFault),
    /// The patch changes a path that the list of changes does not name.
    NotListed {
        /// The path in the patch.
        path: String,
        /// What the patch does to it.
        operation: Operation,
    },
    /// The list names a text change that the patch does not show.
    NotInPatch {
        /// The path in the list.
        path: String,
        /// What the list says of it.
        operation: Operation,
    },
    /// List and patch say different things of a path.
    Operation {
        /// The path.
        path: String,
        /// What the list says.
        listed: Operation,
        /// What the patch says.
        in_patch: Operation,
    },
    /// List and patch name different sources of a moved or copied file.
    OldPath {
        /// The path.
        path: String,
        /// The source in the list.
        listed: String,
        /// The source in the patch.
        in_patch: String,
    },
    /// List and patch take the file for different kinds.
    FileType {
        /// The path.
        path: String,
        /// What the list says.
        listed: FileType,
        /// What the patch says.
        in_patch: FileType,
    },
    /// The patch has text that belongs to none of its sections, such as the header of a mail or of a commit.
    OutsideSections {
        /// The number of its first line in the patch.
        line: usize,
        /// That line.
        text: String,
    },
    /// A section of the patch does not begin with a `diff --git` line.
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
    /// The list names a path twice.
    ListedTwice {
        /// The path.
        path: String,
    },
}

impl Disagreement {
    /// A word for the kind of disagreement, for programs.
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

/// How much of a line is repeated in a message about it.
const MOST_SHOWN: usize = 60;

/// Compares the changes of a diff with its patch and names every disagreement.
///
/// The list of changes is what counts, and the patch may show some or all of them: what it does not show is noted.
/// So is an operation that is not known. A patch of the format that ACP defines consists of `diff --git` sections
/// and nothing else. One with relative paths is compared below the root that fits, and each such path is named; behind the
/// prefixes that Git writes, `a/` and `b/`, they are only noted.
/// Without a patch, or with one in a format that is not known, only the list itself is checked.
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
    // What cannot be read at all is one fault, and not text between sections too.
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

/// Whether a header has prefixes as Git writes them, by what it compares: `a/` and `b/` mostly.
fn has_usual_prefixes(header: &Header<'_>) -> bool {
    let is_usual =
        |prefix: &[u8]| matches!(prefix, [b'a' | b'b' | b'c' | b'i' | b'o' | b'w' | b'1' | b'2', b'/']);
    matches!(header, Header::Git { old_prefix, new_prefix } if is_usual(old_prefix) && is_usual(new_prefix))
}

/// Text of a patch that belongs to no section, by its first line that is not blank.
fn outside(patch: &[u8], text: &[u8]) -> Option<Disagreement> {
    let begin = text.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let before = (text.as_ptr() as usize).checked_sub(patch.as_ptr() as usize)? + begin;
    let line = memchr::memchr_iter(b'\n', patch.get(..before)?).count() + 1;
    let text = text[begin..].split(|&byte| byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(text).chars().take(MOST_SHOWN).collect();
    Some(Disagreement::OutsideSections { line, text })
}

fn check_list(changes: &[Change], checked: &mut Checked) {
    let Checked { disagreements: found, notes } = checked;
    let mut seen: HashMap<&str, &Operation> = HashMap::new();
    for change in changes {
        if let Operation::Other(operation) = &change.operation {
            // What its keys mean is for those who know it.
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
        // A path that becomes another type of file is deleted and added.
        let is_replaced = before == Some(&Operation::Delete) && change.operation != Operation::Delete;
        if before.is_some() && !is_replaced {
            found.push(Disagreement::ListedTwice { path: change.path.clone() });
        }
    }
}

/// A change or a section, with its paths made comparable.
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

    /// Whether it is of a kind that text often cannot show.
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
            // Whatever the patch shows of the path may be what the operation means.
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
        // Several sections may edit one file, one after the other.
        let is_more = item.operation == Operation::Modify && matched.contains(&path);
        if !is_more && !of_unknown.contains(&path) {
            found.push(Disagreement::NotListed { path, operation: item.operation });
        }
    }
    found
}

/// One change of a path may stand for a deletion and an addition in the patch.
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
