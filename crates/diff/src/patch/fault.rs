//! Faults in patch text.

use std::fmt;

/// An unreadable part of patch text. The text around it is readable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
#[non_exhaustive]
pub struct PatchFault {
    /// Line of the patch text, from 1.
    pub line: usize,
    /// Kind of fault.
    pub kind: FaultKind,
}

/// Kind of fault in patch text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The text contains no patch.
    NoPatch,
    /// A line that starts with `@@` does not state the lines of the hunk.
    HunkHeader,
    /// A line number or a count is out of range.
    NumberTooLarge,
    /// The hunk has fewer lines than announced.
    HunkEndsEarly {
        /// Number of missing old lines.
        old_missing: u32,
        /// Number of missing new lines.
        new_missing: u32,
    },
    /// More lines follow that look like part of a complete hunk.
    LineOutsideHunk,
    /// A hunk without a file name.
    HunkWithoutFile,
    /// A `---` line without its `+++` line.
    MissingNewName,
    /// A section without a file name.
    NoName,
    /// A quoted name is not closed, or has an invalid escape.
    Quoting,
    /// The lines of a header contradict each other: new and deleted, moved and copied.
    Contradiction,
    /// A file mode that is not an octal number.
    Mode,
    /// A similarity that is not a percentage, or an `index` line without two names.
    HeaderValue,
    /// A binary section without data, or with invalid data.
    Binary,
    /// A combined diff of a merge with several parents, which cannot be applied to one file.
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
