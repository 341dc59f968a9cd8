//! The diff model: changes and patch text.

use std::fmt;

/// A structured diff: the list of changes and, if they can be shown as text, a patch.
///
/// It maps one to one to ACP's diff content. `changes` lists the changed paths and operations; `patch` is for
/// people. A diff without a patch is complete: binary updates, for example, have no useful text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// All changed paths, sorted.
    pub changes: Vec<Change>,
    /// Patch text for the changes that have one.
    pub patch: Option<PatchText>,
    /// Root directory of all paths, if known. Lets a reader apply the diff to another copy of the tree. Sent
    /// in `_meta`.
    pub root: Option<String>,
    /// True if the patch shows parts of files at unknown positions: its line numbers count from the start of
    /// the part. Sent in `_meta`.
    pub partial: bool,
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Operation on the path.
    pub operation: Operation,
    /// Absolute path after the operation. For a deleted file, its former path.
    pub path: String,
    /// Source path of a move or copy. Absent otherwise.
    pub old_path: Option<String>,
    /// File type, if known.
    pub file_type: Option<FileType>,
    /// MIME type of the content, if known.
    pub mime_type: Option<String>,
}

/// Operation on a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// The path is new.
    Add,
    /// The path was deleted.
    Delete,
    /// The path has other content or another mode.
    Modify,
    /// The file was moved from the old path, and possibly modified.
    Move,
    /// The file was copied from the old path, which still exists.
    Copy,
    /// An unknown operation.
    Other(String),
}

impl Operation {
    /// Returns the operation's name on the wire.
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

    /// Returns true if the operation has a source path.
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

/// Type of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileType {
    /// A text file: valid UTF-8 without NUL bytes.
    Text,
    /// A file with other content.
    Binary,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// An unknown type.
    Other(String),
}

impl FileType {
    /// Returns the type's name on the wire.
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

/// Patch text with its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchText {
    /// Format of the text.
    pub format: PatchFormat,
    /// The text.
    pub text: String,
}

impl PatchText {
    /// Creates a patch in the format that ACP defines.
    pub fn git(text: impl Into<String>) -> Self {
        PatchText { format: PatchFormat::GitPatch, text: text.into() }
    }
}

/// Format of a patch text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PatchFormat {
    /// Output of `git diff`: the only format that ACP defines.
    GitPatch,
    /// An unknown format. Its text is kept, and never parsed as a Git patch.
    Other(String),
}

impl PatchFormat {
    /// Returns the format's name on the wire.
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
