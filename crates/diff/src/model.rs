//! The shape of diff content: what changed, and the patch text that shows it.

use std::fmt;

/// A structured diff: the list of changes and, where text can show them, a patch.
///
/// It maps one to one to ACP's diff content. `changes` says which paths changed and how; `patch` is
/// what a person reads. A diff without a patch is complete: binary updates, for example, have no
/// useful text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// Every path that changed, in the order of the paths.
    pub changes: Vec<Change>,
    /// The patch text for the changes that have one.
    pub patch: Option<PatchText>,
    /// The directory under which all paths lie, when the one who built the diff knows it. It lets a
    /// reader apply the diff to another copy of the tree. On the wire it travels in `_meta`.
    pub root: Option<String>,
    /// The patch shows pieces of files whose place in the file is not known: its line numbers count
    /// from the start of the piece. On the wire it travels in `_meta`.
    pub partial: bool,
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happened to the path.
    pub operation: Operation,
    /// The absolute path after the operation; of a deleted file, the path it had.
    pub path: String,
    /// Where the content came from: given for a move and a copy, absent otherwise.
    pub old_path: Option<String>,
    /// What kind of file it is, if known.
    pub file_type: Option<FileType>,
    /// The MIME type of the content, if known.
    pub mime_type: Option<String>,
}

/// What happened to a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// The path is new.
    Add,
    /// The path is gone.
    Delete,
    /// The path was there and is there, with other content or another mode.
    Modify,
    /// The file was at the old path and is now at this one, perhaps also modified.
    Move,
    /// The file is new and made from the one at the old path, which is still there.
    Copy,
    /// An operation that this version does not know.
    Other(String),
}

impl Operation {
    /// The word that stands for the operation on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Operation::Add => "add",
            Operation::Delete => "delete",
            Operation::Modify => "modify",
            Operation::Move => "move",
            Operation::Copy => "copy",
            Operation::Other(word) => word,
        }
    }

    /// Whether the operation takes its content from another path.
    pub fn has_old_path(&self) -> bool {
        matches!(self, Operation::Move | Operation::Copy)
    }
}

impl From<&str> for Operation {
    fn from(word: &str) -> Self {
        match word {
            "add" => Operation::Add,
            "delete" => Operation::Delete,
            "modify" => Operation::Modify,
            "move" => Operation::Move,
            "copy" => Operation::Copy,
            other => Operation::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What kind of file a path is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileType {
    /// A file with text in it: valid UTF-8 without a NUL byte.
    Text,
    /// A file with anything else in it.
    Binary,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A kind that this version does not know.
    Other(String),
}

impl FileType {
    /// The word that stands for the file type on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            FileType::Text => "text",
            FileType::Binary => "binary",
            FileType::Directory => "directory",
            FileType::Symlink => "symlink",
            FileType::Other(word) => word,
        }
    }
}

impl From<&str> for FileType {
    fn from(word: &str) -> Self {
        match word {
            "text" => FileType::Text,
            "binary" => FileType::Binary,
            "directory" => FileType::Directory,
            "symlink" => FileType::Symlink,
            other => FileType::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Patch text and the format it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchText {
    /// How to read the text.
    pub format: PatchFormat,
    /// The text itself.
    pub text: String,
}

impl PatchText {
    /// Text in the format that ACP defines.
    pub fn git(text: impl Into<String>) -> Self {
        PatchText { format: PatchFormat::GitPatch, text: text.into() }
    }
}

/// The format of a patch text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PatchFormat {
    /// What `git diff` prints: the one format that ACP defines.
    GitPatch,
    /// A format that this version does not know. Its text is kept, and never read as a Git patch.
    Other(String),
}

impl PatchFormat {
    /// The word that stands for the format on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            PatchFormat::GitPatch => "git_patch",
            PatchFormat::Other(word) => word,
        }
    }
}

impl From<&str> for PatchFormat {
    fn from(word: &str) -> Self {
        match word {
            "git_patch" => PatchFormat::GitPatch,
            other => PatchFormat::Other(other.to_owned()),
        }
    }
}
