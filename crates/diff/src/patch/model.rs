//! Patch model: files, hunks, lines.

use std::borrow::Cow;
use std::fmt;

use crate::model::{FileType, Operation};

/// One section of a patch, which concerns one file. Text is borrowed from the input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilePatch<'a> {
    /// Lines before the section that are not part of it: mail headers, a commit message, `Index:`.
    pub preamble: &'a [u8],
    /// Form of the header.
    pub header: Header<'a>,
    /// Operation on the file. Never [`Operation::Other`].
    pub operation: Operation,
    /// Old path without prefix. `None` for an added file.
    pub old_path: Option<Cow<'a, [u8]>>,
    /// New path without prefix. `None` for a deleted file.
    pub new_path: Option<Cow<'a, [u8]>>,
    /// Old mode, if given.
    pub old_mode: Option<Mode>,
    /// New mode, if given.
    pub new_mode: Option<Mode>,
    /// Similarity of the two sides, if given.
    pub similarity: Option<Similarity>,
    /// Object names of the two contents, if given.
    pub index: Option<Index<'a>>,
    /// Content changes.
    pub body: Body<'a>,
}

impl FilePatch<'_> {
    /// Returns the path of the section: the new path, or the old path of a deleted file.
    pub fn path(&self) -> &[u8] {
        self.new_path.as_deref().or(self.old_path.as_deref()).unwrap_or_default()
    }

    /// Returns the hunks. Empty for a binary section and one with headers only.
    pub fn hunks(&self) -> &[Hunk<'_>] {
        match &self.body {
            Body::Hunks(hunks) => hunks,
            Body::BinaryNamed | Body::BinaryContent { .. } => &[],
        }
    }

    /// Returns the number of added and removed lines.
    pub fn counts(&self) -> (usize, usize) {
        let lines = || self.hunks().iter().flat_map(|hunk| &hunk.lines);
        (
            lines().filter(|line| line.kind == LineKind::Added).count(),
            lines().filter(|line| line.kind == LineKind::Removed).count(),
        )
    }

    /// Returns the file type, as far as the section shows it.
    pub fn file_type(&self) -> Option<FileType> {
        let mode = self.new_mode.or(self.old_mode);
        if mode.is_some_and(Mode::is_symlink) {
            return Some(FileType::Symlink);
        }
        match &self.body {
            Body::BinaryNamed | Body::BinaryContent { .. } => Some(FileType::Binary),
            Body::Hunks(hunks) if !hunks.is_empty() => Some(FileType::Text),
            Body::Hunks(_) => None,
        }
    }
}

/// Form of a section's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header<'a> {
    /// With a `diff --git` line. Both prefixes are empty for absolute paths.
    Git {
        /// Prefix of the old path, usually `a/`.
        old_prefix: Cow<'a, [u8]>,
        /// Prefix of the new path, usually `b/`.
        new_prefix: Cow<'a, [u8]>,
    },
    /// With `---` and `+++` lines only, as written by tools other than Git.
    Plain {
        /// Text after `--- `, possibly with a time.
        old_label: &'a [u8],
        /// Text after `+++ `, possibly with a time.
        new_label: &'a [u8],
    },
}

/// Similarity of the two sides of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Similarity {
    /// Percentage of unchanged content.
    Alike(u8),
    /// Percentage of new content. Git uses this for files that it considers rewritten.
    Different(u8),
}

/// Object names from an `index` line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Index<'a> {
    /// Name of the old content, possibly abbreviated.
    pub old: Cow<'a, [u8]>,
    /// Name of the new content, possibly abbreviated.
    pub new: Cow<'a, [u8]>,
}

/// A Git file mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mode(pub u32);

impl Mode {
    /// A regular file.
    pub const FILE: Mode = Mode(0o100_644);
    /// An executable file.
    pub const EXECUTABLE: Mode = Mode(0o100_755);
    /// A symbolic link. Its content is its target.
    pub const SYMLINK: Mode = Mode(0o120_000);

    /// Returns true for a regular file, executable or not.
    pub fn is_file(self) -> bool {
        self.0 & 0o170_000 == 0o100_000
    }

    /// Returns true for a symbolic link.
    pub fn is_symlink(self) -> bool {
        self.0 & 0o170_000 == 0o120_000
    }

    /// Returns true if the owner may execute it.
    pub fn is_executable(self) -> bool {
        self.is_file() && self.0 & 0o100 != 0
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:06o}", self.0)
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Mode({self})")
    }
}

/// Content changes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body<'a> {
    /// Changed lines. Without hunks, only the path or the mode changes, or the file is empty.
    Hunks(Vec<Hunk<'a>>),
    /// Binary content that differs, without the content.
    BinaryNamed,
    /// Compressed binary content, as written by `git diff --binary`.
    BinaryContent {
        /// Produces the new content.
        forward: BinaryHunk<'a>,
        /// Produces the old content.
        backward: Option<BinaryHunk<'a>>,
    },
}

/// One direction of a binary change, compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BinaryHunk<'a> {
    /// Kind of data: the content, or a delta from the other side's content.
    pub method: BinaryMethod,
    /// Size of the decompressed data in bytes.
    pub size: u64,
    /// Lines of base 85 text, each with its length letter.
    pub encoded: Cow<'a, [u8]>,
}

/// Kind of data of a [`BinaryHunk`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryMethod {
    /// The whole content.
    Literal,
    /// Copy and insert instructions that produce the content from the other side's.
    Delta,
}

/// A run of changed lines with the unchanged lines around them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hunk<'a> {
    /// First line of the hunk in the old file, from 1. The preceding line if it has no old lines.
    pub old_start: u32,
    /// Number of old lines in the hunk.
    pub old_count: u32,
    /// First line of the hunk in the new file, from 1. The preceding line if it has no new lines.
    pub new_start: u32,
    /// Number of new lines in the hunk.
    pub new_count: u32,
    /// Text after the second `@@`: usually the enclosing function.
    pub heading: Cow<'a, [u8]>,
    /// The lines.
    pub lines: Vec<Line<'a>>,
}

/// One line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line<'a> {
    /// Sides that have the line.
    pub kind: LineKind,
    /// The line without its final line feed. A preceding carriage return is part of it.
    pub content: &'a [u8],
    /// True if the line ends with a line feed. Only the last line of a file can lack it.
    pub newline: bool,
    /// Line number in the old file, from 1. `None` for an added line.
    pub old_number: Option<u32>,
    /// Line number in the new file, from 1. `None` for a removed line.
    pub new_number: Option<u32>,
}

impl<'a> Line<'a> {
    /// Returns the content as text, with replacement characters for invalid UTF-8.
    pub fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.content)
    }
}

/// Sides that have a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// On both sides.
    Context,
    /// Only in the old file.
    Removed,
    /// Only in the new file.
    Added,
}

impl LineKind {
    /// Returns the marker character in a patch.
    pub fn marker(self) -> u8 {
        match self {
            LineKind::Context => b' ',
            LineKind::Removed => b'-',
            LineKind::Added => b'+',
        }
    }

    /// Returns true if the old file has the line.
    pub fn is_old(self) -> bool {
        self != LineKind::Added
    }

    /// Returns true if the new file has the line.
    pub fn is_new(self) -> bool {
        self != LineKind::Removed
    }
}
