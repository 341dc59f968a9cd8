//! How a diff is to be built.

use std::path::PathBuf;

/// How to build a diff.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// Whether to look for moved and copied files.
    pub renames: Renames,
    /// What the patch text looks like.
    pub patch: PatchOptions,
    /// Files larger than this are not read into memory: they count as binary. 64 MiB unless told.
    pub max_file_size: u64,
    /// The directory that the files are said to be in. A diff tells how the old side becomes the new
    /// one, so unless told otherwise its paths are those of the old side. An agent that compares a
    /// saved copy with the work tree names the work tree here.
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

/// How to look for moved and copied files, as Git does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renames {
    /// What to look for.
    pub detect: Detect,
    /// How alike two files must be, in percent. 50 unless told.
    pub threshold: u8,
    /// Edited moves are looked for only while the number of candidate pairs is at most the square of
    /// this. 1000 unless told.
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
    /// Every moved file is a deleted file and a new one.
    pub fn off() -> Self {
        Renames { detect: Detect::Nothing, ..Renames::default() }
    }
}

/// What to look for among new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detect {
    /// Nothing: new files are new.
    Nothing,
    /// Files moved from a deleted path (`git diff -M`).
    Moves,
    /// Also copies of files that changed or went away (`git diff -C`).
    Copies,
    /// Also copies of files that did not change (`git diff -C --find-copies-harder`).
    CopiesOfAll,
}

/// What patch text looks like.
#[derive(Debug, Clone)]
pub struct PatchOptions {
    /// How files are named.
    pub paths: PathForm,
    /// Unchanged lines around a change. 3 unless told.
    pub context: u32,
    /// What to do about binary files.
    pub binary: BinaryForm,
    /// With more bytes than this, the diff has no patch text. 4 MiB unless told.
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
    /// Text for `git apply`: relative names, binary content included, no limit.
    pub fn for_git() -> Self {
        PatchOptions {
            paths: PathForm::Relative,
            binary: BinaryForm::Content,
            max_size: usize::MAX,
            ..PatchOptions::default()
        }
    }
}

/// How patch text names files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathForm {
    /// Absolute paths without prefix, as ACP wants them.
    Absolute,
    /// Paths relative to the root with `a/` and `b/` before them, as `git apply` wants them.
    Relative,
}

/// What patch text says about binary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryForm {
    /// That they differ. Such a section tells a reader what happened, and nobody can apply it.
    Named,
    /// The content of both sides, compressed (`git diff --binary`). Git and [`crate::apply`] rebuild
    /// the file from it.
    Content,
}
