//! What is wrong with a patch text, and where.

use std::fmt;

/// A place where patch text cannot be read. What stands around it can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
#[non_exhaustive]
pub struct PatchFault {
    /// The line of the patch text, from 1.
    pub line: usize,
    /// What is wrong there.
    pub kind: FaultKind,
}

/// What is wrong at one place of a patch text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// There is text, and none of it is a patch.
    NoPatch,
    /// A line that starts with `@@` does not say which lines the hunk covers.
    HunkHeader,
    /// A line number or a count is larger than any file.
    NumberTooLarge,
    /// The text goes on with something else before the hunk has all the lines that it announced.
    HunkEndsEarly {
        /// Old lines still missing.
        old_missing: u32,
        /// New lines still missing.
        new_missing: u32,
    },
    /// After a hunk that has all its lines, more lines follow that look like part of it.
    LineOutsideHunk,
    /// A hunk stands where no file was named.
    HunkWithoutFile,
    /// A `---` line without its `+++` line.
    MissingNewName,
    /// A section does not say which file it is about.
    NoName,
    /// A quoted name does not close, or has an escape that means nothing.
    Quoting,
    /// The lines of a header contradict each other: new and deleted, moved and copied.
    Contradiction,
    /// A file mode that is no octal number.
    Mode,
    /// A similarity that is no percentage, or an `index` line without two names.
    HeaderValue,
    /// A binary section without data, or with data that is not what Git writes.
    Binary,
    /// The diff of a merge against several parents: it cannot be applied to one file.
    Combined,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            FaultKind::NoPatch => "no patch in the text",
            FaultKind::HunkHeader => "the hunk header does not say which lines it covers",
            FaultKind::NumberTooLarge => "a line number is too large",
            FaultKind::HunkEndsEarly { old_missing, new_missing } => {
                return write!(
                    formatter,
                    "the hunk ends early: {old_missing} old and {new_missing} new lines are missing"
                );
            }
            FaultKind::LineOutsideHunk => "more lines follow than the hunk announced",
            FaultKind::HunkWithoutFile => "a hunk without a file",
            FaultKind::MissingNewName => "a --- line without a +++ line",
            FaultKind::NoName => "the section does not say which file it is about",
            FaultKind::Quoting => "a quoted name is broken",
            FaultKind::Contradiction => "the header lines contradict each other",
            FaultKind::Mode => "not a file mode",
            FaultKind::HeaderValue => "the header line has no usable value",
            FaultKind::Binary => "the binary data is broken",
            FaultKind::Combined => "a merge's combined diff cannot be read as a patch",
        };
        formatter.write_str(words)
    }
}
