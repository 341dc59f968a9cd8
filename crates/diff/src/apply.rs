//! Applies diffs to bytes and to a directory on disk.

#[cfg(unix)]
mod directory;
mod hunks;
#[cfg(unix)]
mod placement;
#[cfg(unix)]
mod plan;
#[cfg(unix)]
mod transaction;

use std::path::PathBuf;

use crate::error::{Error, NotApplicable};
use crate::patch::FilePatch;
#[cfg(unix)]
pub use directory::{apply, apply_patch};
pub use hunks::AppliedFile;
use hunks::{Misfit, apply_section};

/// Direction of applying a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the old state to the new one.
    #[default]
    Forward,
    /// From the new state to the old one.
    Backward,
}

/// Options for applying a diff to a directory.
#[derive(Debug, Clone)]
pub struct ApplyOptions {
    /// Direction.
    pub direction: Direction,
    /// Directory of the absolute paths in the diff, if it is not the target root: they are then relative to
    /// it. By default, [`apply`] uses [`Diff::root`](crate::Diff::root).
    pub base: Option<PathBuf>,
    /// Maximum size in bytes of files that are read, and of content created from binary data. Default: 512
    /// MiB.
    pub max_file_size: u64,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        ApplyOptions {
            direction: Direction::Forward,
            base: None,
            max_file_size: 512 * 1024 * 1024,
            more: switchboard_acp::More,
        }
    }
}

/// Result of applying a diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Written paths, relative to the root.
    pub written: Vec<PathBuf>,
    /// Removed paths.
    pub removed: Vec<PathBuf>,
    /// Hunks that were not at their stated position: path, number of the hunk from 1, and lines below the
    /// stated position.
    pub displaced: Vec<(PathBuf, usize, i64)>,
}

/// Applies one section of a patch to the content of its file. `None` means that the file does not exist.
///
/// A hunk that does not match at its stated line is searched for, nearest first. If it does not match
/// anywhere, the call fails without a partial result.
///
/// ```
/// use switchboard_diff::{Direction, apply_to_bytes, parse_patch};
///
/// let patch = parse_patch(b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
/// let content = b"zero\none\ntwo\nthree\n";
/// let applied = apply_to_bytes(&patch.files[0], Some(content), Direction::Forward)?;
/// assert_eq!(applied.content.as_deref(), Some(&b"zero\none\n2\nthree\n"[..]));
/// assert_eq!(applied.offsets, [1]);
/// # Ok::<(), switchboard_diff::Error>(())
/// ```
pub fn apply_to_bytes(
    file: &FilePatch<'_>,
    content: Option<&[u8]>,
    direction: Direction,
) -> Result<AppliedFile, Error> {
    let path = || String::from_utf8_lossy(file.path()).into_owned();
    let reversed;
    let section = match direction {
        Direction::Forward => file,
        Direction::Backward => {
            reversed = file.reversed().ok_or_else(|| Error::NotApplicable {
                path: path(),
                reason: NotApplicable::NoBinaryContent,
            })?;
            &reversed
        }
    };
    apply_section(section, content, ApplyOptions::default().max_file_size).map_err(|misfit| misfit.at(path()))
}

impl Misfit {
    fn at(self, path: String) -> Error {
        match self {
            Misfit::Conflict(conflict) => Error::Conflict { path, conflict },
            Misfit::NotApplicable(reason) => Error::NotApplicable { path, reason },
        }
    }
}
