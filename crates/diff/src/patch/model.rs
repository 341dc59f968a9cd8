//! A patch in pieces: files, hunks, lines.

use std::borrow::Cow;
use std::fmt;

use crate::model::{FileType, Operation};

/// What one section of a patch says about one file. Text is borrowed from where it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilePatch<'a> {
    /// Lines before the section that are not part of it: mail headers, a commit message, `Index:`.
    pub preamble: &'a [u8],
    /// How the section names its file.
    pub header: Header<'a>,
    /// What happens to the file. Never [`Operation::Other`].
    pub operation: Operation,
    /// The path before, without prefix; `None` for an added file.
    pub old_path: Option<Cow<'a, [u8]>>,
    /// The path after, without prefix; `None` for a deleted file.
    pub new_path: Option<Cow<'a, [u8]>>,
    /// The mode before, where the patch says it.
    pub old_mode: Option<Mode>,
    /// The mode after, where the patch says it.
    pub new_mode: Option<Mode>,
    /// How alike the two sides are, where the patch says it.
    pub similarity: Option<Similarity>,
    /// The names of the two contents in a Git repository, where the patch says them.
    pub index: Option<Index<'a>>,
    /// What changes inside the file.
    pub body: Body<'a>,
}

impl FilePatch<'_> {
    /// The path that the section is about: the path after, or of a deleted file the path it had.
    pub fn path(&self) -> &[u8] {
        self.new_path.as_deref().or(self.old_path.as_deref()).unwrap_or_default()
    }

    /// The hunks; empty for a binary section and for one that has headers only.
    pub fn hunks(&self) -> &[Hunk<'_>] {
        match &self.body {
            Body::Hunks(hunks) => hunks,
            Body::BinaryNamed | Body::BinaryContent { .. } => &[],
        }
    }

    /// Lines added and lines removed.
    pub fn counts(&self) -> (usize, usize) {
        let lines = || self.hunks().iter().flat_map(|hunk| &hunk.lines);
        (
            lines().filter(|line| line.kind == LineKind::Added).count(),
            lines().filter(|line| line.kind == LineKind::Removed).count(),
        )
    }

    /// What kind of file it is, as far as the section tells.
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

/// How a section names its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header<'a> {
    /// With a `diff --git` line; both prefixes are empty for absolute paths.
    Git {
        /// What stands before the old path, usually `a/`.
        old_prefix: Cow<'a, [u8]>,
        /// What stands before the new path, usually `b/`.
        new_prefix: Cow<'a, [u8]>,
    },
    /// With `---` and `+++` lines only, as other tools than Git write it.
    Plain {
        /// All that stands after `--- `, perhaps with a time.
        old_label: &'a [u8],
        /// All that stands after `+++ `, perhaps with a time.
        new_label: &'a [u8],
    },
}

/// How alike two sides of a section are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Similarity {
    /// Percent of the content that stayed.
    Alike(u8),
    /// Percent of the content that is new; Git says this of files that it considers rewritten.
    Different(u8),
}

/// The object names from an `index` line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Index<'a> {
    /// Name of the old content, perhaps shortened.
    pub old: Cow<'a, [u8]>,
    /// Name of the new content, perhaps shortened.
    pub new: Cow<'a, [u8]>,
}

/// A file mode as Git writes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mode(pub u32);

impl Mode {
    /// An ordinary file.
    pub const FILE: Mode = Mode(0o100_644);
    /// A file that can be run.
    pub const EXECUTABLE: Mode = Mode(0o100_755);
    /// A symbolic link; its content is its target.
    pub const SYMLINK: Mode = Mode(0o120_000);

    /// Whether it is an ordinary file, executable or not.
    pub fn is_file(self) -> bool {
        self.0 & 0o170_000 == 0o100_000
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(self) -> bool {
        self.0 & 0o170_000 == 0o120_000
    }

    /// Whether the owner may run it.
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

/// What changes inside a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body<'a> {
    /// Changed lines. No hunk at all: only the path or the mode changes, or the file is empty.
    Hunks(Vec<Hunk<'a>>),
    /// Binary content that differs, without the content itself.
    BinaryNamed,
    /// Binary content, compressed, as `git diff --binary` writes it.
    BinaryContent {
        /// Makes the new content.
        forward: BinaryHunk<'a>,
        /// Makes the old content again.
        backward: Option<BinaryHunk<'a>>,
    },
}

/// One direction of a binary change, still compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BinaryHunk<'a> {
    /// Whether the data is the content or the way from the other content to it.
    pub method: BinaryMethod,
    /// Size of the data once it is decompressed.
    pub size: u64,
    /// The lines of base 85 text, each with its length letter.
    pub encoded: Cow<'a, [u8]>,
}

/// What the data of a [`BinaryHunk`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryMethod {
    /// The whole content.
    Literal,
    /// Copy and insert instructions that make the content from the other side's.
    Delta,
}

/// A run of changed lines with the unchanged lines around them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hunk<'a> {
    /// First line of the hunk in the old file, from 1; the line before it when it has no old lines.
    pub old_start: u32,
    /// How many old lines the hunk covers.
    pub old_count: u32,
    /// First line of the hunk in the new file, from 1; the line before it when it has no new lines.
    pub new_start: u32,
    /// How many new lines the hunk covers.
    pub new_count: u32,
    /// What stands after the second `@@`: usually the function that the hunk is in.
    pub heading: Cow<'a, [u8]>,
    /// The lines.
    pub lines: Vec<Line<'a>>,
}

/// One line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line<'a> {
    /// Which sides the line is on.
    pub kind: LineKind,
    /// The line without its final line feed; a carriage return before that is part of it.
    pub content: &'a [u8],
    /// Whether the line ends with a line feed. Only the last line of a file can be without.
    pub newline: bool,
    /// Its number in the old file, from 1; `None` for an added line.
    pub old_number: Option<u32>,
    /// Its number in the new file, from 1; `None` for a removed line.
    pub new_number: Option<u32>,
}

impl<'a> Line<'a> {
    /// The content as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.content)
    }
}

/// Which sides a line is on.
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
    /// The character that marks such a line in a patch.
    pub fn marker(self) -> u8 {
        match self {
            LineKind::Context => b' ',
            LineKind::Removed => b'-',
            LineKind::Added => b'+',
        }
    }

    /// Whether the old file has the line.
    pub fn is_old(self) -> bool {
        self != LineKind::Added
    }

    /// Whether the new file has the line.
    pub fn is_new(self) -> bool {
        self != LineKind::Removed
    }
}
