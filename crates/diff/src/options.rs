//! Options for building diffs.

use std::path::PathBuf;

/// Options for building a diff.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// Detection of moved and copied files.
    pub renames: Renames,
    /// Form of the patch text.
    pub patch: PatchOptions,
    /// Maximum size in bytes of files that are read into memory. Larger ones count as binary. Default: 64
    /// MiB.
    pub max_file_size: u64,
    /// Directory of the files in the diff. A diff shows how the old side becomes the new one, so by default
    /// its paths are those of the old side. To compare a saved copy with the work tree, set this to the work
    /// tree.
    pub root: Option<PathBuf>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Default for BuildOptions {
    fn default() -> Self {
        BuildOptions {
            renames: Renames::default(),
            patch: PatchOptions::default(),
            max_file_size: 64 * 1024 * 1024,
            root: None,
            more: switchboard_acp::More,
        }
    }
}

/// Detection of moved and copied files, like Git's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renames {
    /// Kinds to detect.
    pub detect: Detect,
    /// Minimum similarity of two files in percent. Default: 50.
    pub threshold: u8,
    /// Edited moves are detected only if the number of candidate pairs is at most the square of this.
    /// Default: 1000.
    pub limit: usize,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Default for Renames {
    fn default() -> Self {
        Renames { detect: Detect::Moves, threshold: 50, limit: 1000, more: switchboard_acp::More }
    }
}

impl Renames {
    /// Disables detection: a moved file is shown as a deleted and a new file.
    pub fn off() -> Self {
        Renames { detect: Detect::Nothing, ..Renames::default() }
    }
}

/// Kinds of moves and copies to detect among new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detect {
    /// None: new files are new.
    Nothing,
    /// Files moved from a deleted path (`git diff -M`).
    Moves,
    /// Also copies of changed or deleted files (`git diff -C`).
    Copies,
    /// Also copies of unchanged files (`git diff -C --find-copies-harder`).
    CopiesOfAll,
}

/// Form of patch text.
#[derive(Debug, Clone)]
pub struct PatchOptions {
    /// Form of file names.
    pub paths: PathForm,
    /// Number of unchanged lines around a change. Default: 3.
    pub context: u32,
    /// Form of binary files.
    pub binary: BinaryForm,
    /// Maximum size of the patch text in bytes. A larger one is omitted. Default: 4 MiB.
    pub max_size: usize,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Default for PatchOptions {
    fn default() -> Self {
        PatchOptions {
            paths: PathForm::Absolute,
            context: 3,
            binary: BinaryForm::Named,
            max_size: 4 * 1024 * 1024,
            more: switchboard_acp::More,
        }
    }
}

impl PatchOptions {
    /// Returns options for `git apply`: relative names, binary content included, no limit.
    pub fn for_git() -> Self {
        PatchOptions {
            paths: PathForm::Relative,
            binary: BinaryForm::Content,
            max_size: usize::MAX,
            ..PatchOptions::default()
        }
    }
}

/// Form of file names in patch text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathForm {
    /// Absolute paths without prefix, as ACP requires.
    Absolute,
    /// Paths relative to the root with the prefixes `a/` and `b/`, as `git apply` requires.
    Relative,
}

/// Form of binary files in patch text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryForm {
    /// Only a statement that they differ. Such a section cannot be applied.
    Named,
    /// The compressed content of both sides (`git diff --binary`), from which Git and [`crate::apply`]
    /// rebuild the file.
    Content,
}
