//! What can go wrong.

use std::io;
use std::path::PathBuf;

use crate::check::Disagreement;
use crate::patch::PatchFault;

/// Why a diff could not be built, read or applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written. Nothing has changed.
    #[error("cannot write {}", path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written, and what had been written before it could not all be undone.
    #[error("cannot write {}, and these could not be restored: {}", path.display(), unrestored.join(", "))]
    HalfWritten {
        /// What was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// The paths that are not as they were, each with where its old content is.
        unrestored: Vec<String>,
    },
    /// A file was not the same at the end of reading it as at the start, or between reading and writing.
    #[error("{} changed while it was read", path.display())]
    ChangedWhileRead {
        /// The file.
        path: PathBuf,
    },
    /// Something that is neither a file, a directory nor a symbolic link, or not the one that is needed.
    #[error("{} is {found}, not {wanted}", path.display())]
    WrongKind {
        /// What was looked at.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A file is larger than the limit for what is read into memory.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The `git` program could not be run or refused.
    #[error("git {action}: {message}")]
    Git {
        /// What it was asked to do.
        action: &'static str,
        /// What it said.
        message: String,
    },
    /// The patch text is malformed, so it is not applied.
    #[error("the patch cannot be read")]
    Patch(#[from] PatchFault),
    /// The patch is in a format other than Git's.
    #[error("the patch is in the unknown format {format:?}")]
    UnknownFormat {
        /// The format as it was given.
        format: String,
    },
    /// The list of changes and the patch do not tell the same, so the diff is not applied.
    #[error("the changes and the patch disagree: {disagreement}")]
    Disagreement {
        /// The first disagreement.
        disagreement: Box<Disagreement>,
    },
    /// The diff says that something changed, and has nothing to do it with.
    #[error("{path}: {reason}")]
    NotApplicable {
        /// The path as the diff names it.
        path: String,
        /// Why it cannot be applied.
        reason: NotApplicable,
    },
    /// The diff names a path that must not be touched. Nothing has been written.
    #[error("refused path {path:?}: {reason}")]
    RefusedPath {
        /// The path as the diff names it.
        path: String,
        /// What is wrong with it.
        reason: PathReason,
    },
    /// The file is not what the patch expects. Nothing has been written.
    #[error("{path}: {conflict}")]
    Conflict {
        /// The path as the diff names it.
        path: String,
        /// What does not fit.
        conflict: Conflict,
    },
}

/// Why a change cannot be applied at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotApplicable {
    /// No section of the patch is about it.
    #[error("the diff has no patch for this change")]
    NoPatch,
    /// The patch says that binary files differ, and not how.
    #[error("the patch does not carry the binary content")]
    NoBinaryContent,
    /// The patch carries binary content that cannot be decoded, or too much of it.
    #[error("the binary content is broken or too large")]
    BrokenBinaryContent,
    /// The mode is neither that of a file nor that of a symbolic link.
    #[error("the file mode is not supported")]
    UnsupportedMode,
    /// The operation is not one of the five.
    #[error("the operation is not known")]
    UnknownOperation,
    /// A directory cannot be modified, moved or copied by a patch.
    #[error("the operation does not apply to a directory")]
    Directory,
}

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathReason {
    /// Nothing is left of it.
    #[error("it is empty")]
    Empty,
    /// It has a NUL byte.
    #[error("it contains a NUL byte")]
    Nul,
    /// It has a `..` component.
    #[error("it contains a .. component")]
    Parent,
    /// It is absolute and not below the root.
    #[error("it is outside the root")]
    OutsideRoot,
    /// One of its components is, or on some system would be taken for, `.git`.
    #[error("it leads into a .git directory")]
    Git,
    /// A directory on the way is a symbolic link.
    #[error("a directory on the way is a symbolic link")]
    BehindSymlink,
    /// A directory on the way is a file.
    #[error("a directory on the way is not a directory")]
    BehindFile,
    /// A device, a pipe or a socket is there.
    #[error("it is a device, a pipe or a socket")]
    Device,
}

/// Why a patch does not fit a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// The lines of a hunk are nowhere in the file.
    #[error("hunk {hunk} does not fit anywhere")]
    Hunk {
        /// Number of the hunk in its section, from 1.
        hunk: usize,
    },
    /// The file to change is not there.
    #[error("the file does not exist")]
    Missing,
    /// The file to make is there already.
    #[error("the file exists already")]
    Exists,
    /// A directory stands where a file is needed.
    #[error("it is a directory")]
    IsDirectory,
    /// The file to delete has more in it than the patch removes.
    #[error("the file has more content than the patch removes")]
    LeftOver,
    /// A binary file is not the one that the patch was made for.
    #[error("the binary content is not what the patch was made for")]
    BinaryContent,
    /// A link stands where the patch expects a file, or a file where it expects a link.
    #[error("the file is of another type than the patch expects")]
    FileType,
    /// The copy to undo is not what the patch made.
    #[error("the copy is not what the patch made")]
    Copy,
    /// Two sections write the same path.
    #[error("two sections of the patch write it")]
    WrittenTwice,
}

/// Something that the one who asked for a diff should know; the diff is right without it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file or directory could not be read and is not in the diff.
    #[error("{} is left out: it cannot be read", path.display())]
    Unreadable {
        /// What could not be read.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file changed while it was read and is not in the diff.
    #[error("{} is left out: it changed while it was read", path.display())]
    ChangedWhileRead {
        /// The file.
        path: PathBuf,
    },
    /// A device, a pipe or a socket, which no diff can show.
    #[error("{} is left out: it is {kind}", path.display())]
    SpecialFile {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A file with a merge conflict: nothing is staged that could be compared.
    #[error("{} is left out: it has a merge conflict", path.display())]
    Unmerged {
        /// The file.
        path: PathBuf,
    },
    /// A name that some systems take for `.git`, which no patch may touch.
    #[error("{} is left out: its name can stand for .git", path.display())]
    RefusedName {
        /// Where it is.
        path: PathBuf,
    },
    /// A name that is not Unicode: the change names it with replacement characters.
    #[error("{} has a name that is not Unicode", path.display())]
    NameNotUnicode {
        /// Where it is.
        path: PathBuf,
    },
    /// A file too large to be read into memory: it is named as binary, without content.
    #[error("{} is treated as binary: it is larger than {limit} bytes", path.display())]
    LargeFile {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// Too many new and deleted files to compare each with each: only moves without any edit were found.
    #[error("moves with edits were not looked for: {added} new and {deleted} other files are too many")]
    TooManyForRenames {
        /// Files that might be the result of a move.
        added: usize,
        /// Files that might be its source.
        deleted: usize,
    },
    /// The patch text would be larger than the limit, so the diff has none.
    #[error("the patch is left out: it is larger than {limit} bytes")]
    PatchTooLarge {
        /// The limit.
        limit: usize,
    },
}

impl Problem {
    /// Whether something is missing from the diff because of it. (Otherwise it only says less.)
    pub fn is_omission(&self) -> bool {
        matches!(
            self,
            Problem::Unreadable { .. }
                | Problem::ChangedWhileRead { .. }
                | Problem::SpecialFile { .. }
                | Problem::RefusedName { .. }
                | Problem::Unmerged { .. }
        )
    }
}
