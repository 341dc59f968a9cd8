//! Errors and problems.

use std::io;
use std::path::PathBuf;

use crate::check::Disagreement;
use crate::patch::PatchFault;

/// Reason why a diff could not be built, parsed or applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file could not be written. Nothing has changed.
    #[error("cannot write {}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file could not be written, and some earlier writes could not be undone.
    #[error("cannot write {}, and these could not be restored: {}", path.display(), unrestored.join(", "))]
    HalfWritten {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
        /// Paths that could not be restored, each with the location of its old content.
        unrestored: Vec<String>,
    },
    /// A file changed while it was read, or between reading and writing.
    #[error("{} changed while it was read", path.display())]
    ChangedWhileRead {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file has an unsupported or unexpected type.
    #[error("{} is {found}, not {wanted}", path.display())]
    WrongKind {
        /// Path of the file.
        path: PathBuf,
        /// Type found.
        found: &'static str,
        /// Type expected.
        wanted: &'static str,
    },
    /// A file exceeds the size limit for reading into memory.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Limit in bytes.
        limit: u64,
    },
    /// The `git` program could not be run or failed.
    #[error("git {action}: {message}")]
    Git {
        /// Action requested.
        action: &'static str,
        /// Its message.
        message: String,
    },
    /// The patch text is malformed and is not applied.
    #[error("the patch cannot be read")]
    Patch(#[from] PatchFault),
    /// The patch format is not Git's.
    #[error("the patch is in the unknown format {format:?}")]
    UnknownFormat {
        /// The format given.
        format: String,
    },
    /// The list of changes and the patch disagree, so the diff is not applied.
    #[error("the changes and the patch disagree: {disagreement}")]
    Disagreement {
        /// The first disagreement.
        disagreement: Box<Disagreement>,
    },
    /// The diff lists a change that it does not contain enough data to apply.
    #[error("{path}: {reason}")]
    NotApplicable {
        /// The path in the diff.
        path: String,
        /// Reason.
        reason: NotApplicable,
    },
    /// The diff contains a path that must not be modified. Nothing has been written.
    #[error("refused path {path:?}: {reason}")]
    RefusedPath {
        /// The path in the diff.
        path: String,
        /// Reason.
        reason: PathReason,
    },
    /// The file does not match the patch. Nothing has been written.
    #[error("{path}: {conflict}")]
    Conflict {
        /// The path in the diff.
        path: String,
        /// Mismatch.
        conflict: Conflict,
    },
}

/// Reason why a change cannot be applied at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotApplicable {
    /// The patch has no section for it.
    #[error("the diff has no patch for this change")]
    NoPatch,
    /// The patch states that binary files differ, without their content.
    #[error("the patch does not carry the binary content")]
    NoBinaryContent,
    /// The binary content in the patch is invalid or too large.
    #[error("the binary content is broken or too large")]
    BrokenBinaryContent,
    /// The mode is neither that of a file nor of a symbolic link.
    #[error("the file mode is not supported")]
    UnsupportedMode,
    /// The operation is unknown.
    #[error("the operation is not known")]
    UnknownOperation,
    /// A patch cannot modify, move or copy a directory.
    #[error("the operation does not apply to a directory")]
    Directory,
}

/// Reason why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathReason {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It contains a NUL byte.
    #[error("it contains a NUL byte")]
    Nul,
    /// It contains a `..` component.
    #[error("it contains a .. component")]
    Parent,
    /// It is absolute and not below the root.
    #[error("it is outside the root")]
    OutsideRoot,
    /// One of its components is `.git`, or equivalent to it on some file system.
    #[error("it leads into a .git directory")]
    Git,
    /// A directory on the path is a symbolic link.
    #[error("a directory on the way is a symbolic link")]
    BehindSymlink,
    /// A directory on the path is a file.
    #[error("a directory on the way is not a directory")]
    BehindFile,
    /// It is a device, a pipe or a socket.
    #[error("it is a device, a pipe or a socket")]
    Device,
}

/// Mismatch between a patch and a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// The file does not contain the lines of a hunk.
    #[error("hunk {hunk} does not fit anywhere")]
    Hunk {
        /// Number of the hunk in its section, from 1.
        hunk: usize,
    },
    /// The file to change does not exist.
    #[error("the file does not exist")]
    Missing,
    /// The file to create already exists.
    #[error("the file exists already")]
    Exists,
    /// The path is a directory.
    #[error("it is a directory")]
    IsDirectory,
    /// The file to delete has more content than the patch removes.
    #[error("the file has more content than the patch removes")]
    LeftOver,
    /// A binary file is not the one that the patch was made for.
    #[error("the binary content is not what the patch was made for")]
    BinaryContent,
    /// The path is a link instead of a file, or a file instead of a link.
    #[error("the file is of another type than the patch expects")]
    FileType,
    /// The copy to undo is not the patch's copy.
    #[error("the copy is not what the patch made")]
    Copy,
    /// Two sections write the same path.
    #[error("two sections of the patch write it")]
    WrittenTwice,
}

/// Problem found while building a diff. The diff is correct without it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file or directory could not be read and is missing from the diff.
    #[error("{} is left out: it cannot be read", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file changed while it was read and is missing from the diff.
    #[error("{} is left out: it changed while it was read", path.display())]
    ChangedWhileRead {
        /// Path of the file.
        path: PathBuf,
    },
    /// A device, a pipe or a socket, which a diff cannot show.
    #[error("{} is left out: it is {kind}", path.display())]
    SpecialFile {
        /// Path of the file.
        path: PathBuf,
        /// Type of the file.
        kind: &'static str,
    },
    /// A file with a merge conflict, so there is no staged content to compare.
    #[error("{} is left out: it has a merge conflict", path.display())]
    Unmerged {
        /// Path of the file.
        path: PathBuf,
    },
    /// A name that some file systems treat as `.git`, which a patch must not modify.
    #[error("{} is left out: its name can stand for .git", path.display())]
    RefusedName {
        /// Path of the file.
        path: PathBuf,
    },
    /// A name that is not Unicode. The change contains it with replacement characters.
    #[error("{} has a name that is not Unicode", path.display())]
    NameNotUnicode {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file too large to read into memory. It is listed as binary, without content.
    #[error("{} is treated as binary: it is larger than {limit} bytes", path.display())]
    LargeFile {
        /// Path of the file.
        path: PathBuf,
        /// Limit in bytes.
        limit: u64,
    },
    /// Too many new and deleted files to compare all pairs: only unedited moves were detected.
    #[error("moves with edits were not looked for: {added} new and {deleted} other files are too many")]
    TooManyForRenames {
        /// Number of possible targets of a move.
        added: usize,
        /// Number of possible sources.
        deleted: usize,
    },
    /// The patch text exceeds the limit and is omitted.
    #[error("the patch is left out: it is larger than {limit} bytes")]
    PatchTooLarge {
        /// Limit in bytes.
        limit: usize,
    },
}

impl Problem {
    /// Returns true if a file is missing from the diff. Otherwise the diff only has less detail.
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
