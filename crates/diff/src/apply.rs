//! Applying diffs: to bytes, and to a directory on disk.

mod hunks;
mod placement;
mod plan;
mod transaction;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::check::{self, Disagreement, Item};
use crate::error::{Error, NotApplicable};
use crate::model::{Diff, FileType, Operation, PatchFormat};
use crate::patch::{FilePatch, parse_patch};
pub use hunks::AppliedFile;
use hunks::{Misfit, apply_section};
use placement::Placement;
use plan::{DirectoryChange, Plan};

/// Which way to apply a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the old state to the new one.
    #[default]
    Forward,
    /// Back from the new state to the old one.
    Backward,
}

/// How to apply a diff to a directory.
#[derive(Debug, Clone)]
pub struct ApplyOptions {
    /// Which way.
    pub direction: Direction,
    /// The directory that absolute paths in the diff are below, when it is not the root that they are
    /// applied to: they are then taken relative to it. Unless told, [`apply`] takes [`Diff::root`].
    pub base: Option<PathBuf>,
    /// Files larger than this are not read, and nothing larger is made from binary data. 512 MiB unless
    /// told.
    pub max_file_size: u64,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        ApplyOptions { direction: Direction::Forward, base: None, max_file_size: 512 * 1024 * 1024 }
    }
}

/// What applying a diff did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Paths that were written, below the root.
    pub written: Vec<PathBuf>,
    /// Paths that were removed.
    pub removed: Vec<PathBuf>,
    /// Hunks that were not where the patch says: the path, the number of the hunk from 1, and by how many
    /// lines it was further down.
    pub displaced: Vec<(PathBuf, usize, i64)>,
}

/// Applies one section of a patch to the content of its file. `None` stands for a file that is not there.
///
/// A hunk that is not at the line it says is looked for, nearest first. If it is nowhere, that is an
/// error, and there is no result with half of the hunks.
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

/// Applies a diff to the files below `root`, all of it or nothing.
///
/// Everything is checked and computed before the first byte is written: that the list of changes and the
/// patch agree, that every path stays below the root and out of `.git`, that no directory on the way is a
/// symbolic link, and that every hunk fits. Each file is then replaced in one step. If a step fails, those
/// before it are undone.
///
/// Absolute paths may be below `root` itself, or below the directory that the diff was made in, if it says so
/// ([`Diff::root`]) or the options do.
pub fn apply(diff: &Diff, root: &Path, options: &ApplyOptions) -> Result<Applied, Error> {
    let base = options.base.as_deref().or(diff.root.as_deref().map(Path::new));
    let placement = Placement::new(root, base)?;
    let text = match &diff.patch {
        Some(patch) if patch.format != PatchFormat::GitPatch => {
            return Err(Error::UnknownFormat { format: patch.format.as_str().to_owned() });
        }
        Some(patch) => patch.text.as_str(),
        None => "",
    };
    let files = read_sections(text.as_bytes())?;
    // Placing every path refuses the bad ones, before anything else is looked at.
    let mut directories = Vec::new();
    let mut listed = Vec::new();
    for change in &diff.changes {
        let path = placement.place(change.path.as_bytes())?;
        if let Some(old_path) = &change.old_path {
            placement.place(old_path.as_bytes())?;
        }
        let refused = |reason| Err(Error::NotApplicable { path: change.path.clone(), reason });
        match (&change.operation, &change.file_type) {
            (Operation::Other(_), _) => return refused(NotApplicable::UnknownOperation),
            (Operation::Add, Some(FileType::Directory)) => {
                directories.push(DirectoryChange { path, is_new: true });
            }
            (Operation::Delete, Some(FileType::Directory)) => {
                directories.push(DirectoryChange { path, is_new: false });
            }
            (_, Some(FileType::Directory)) => return refused(NotApplicable::Directory),
            _ => listed.push(Item::listed(change, |path| placement.place_lossy(path.as_bytes()))),
        }
    }
    let paths: HashSet<String> = listed.iter().map(|item| item.path.clone()).collect();
    let in_patch: Vec<Item> =
        files.iter().map(|file| Item::in_patch(file, |path| placement.place_lossy(path))).collect();
    let shown: HashSet<&str> = in_patch.iter().map(|item| item.path.as_str()).collect();
    if let Some(change) = diff.changes.iter().find(|change| {
        let path = placement.place_lossy(change.path.as_bytes());
        paths.contains(&path) && !shown.contains(path.as_str())
    }) {
        return Err(Error::NotApplicable { path: change.path.clone(), reason: NotApplicable::NoPatch });
    }
    // What kind of file it is does not matter here: the modes in the patch say it.
    let is_grave = |found: &Disagreement| !matches!(found, Disagreement::FileType { .. });
    if let Some(disagreement) = check::compare(listed, in_patch).into_iter().find(is_grave) {
        return Err(Error::Disagreement { disagreement: Box::new(disagreement) });
    }
    run(&placement, &files, directories, options)
}

/// Applies patch text to the files below `root`, all of it or nothing. The rules are those of [`apply`].
pub fn apply_patch(text: &[u8], root: &Path, options: &ApplyOptions) -> Result<Applied, Error> {
    let placement = Placement::new(root, options.base.as_deref())?;
    run(&placement, &read_sections(text)?, Vec::new(), options)
}

fn read_sections(text: &[u8]) -> Result<Vec<FilePatch<'_>>, Error> {
    let parsed = parse_patch(text);
    match parsed.faults.into_iter().next() {
        Some(fault) => Err(fault.into()),
        None => Ok(parsed.files),
    }
}

fn run(
    placement: &Placement,
    files: &[FilePatch<'_>],
    directories: Vec<DirectoryChange>,
    options: &ApplyOptions,
) -> Result<Applied, Error> {
    let plan = Plan::new(placement, files, directories, options)?;
    plan.carry_out()
}
