//! Applies diffs to a directory on disk.

use std::collections::HashSet;
use std::path::Path;

use super::placement::Placement;
use super::plan::{DirectoryChange, Plan};
use super::{Applied, ApplyOptions};
use crate::check::{self, Disagreement, Item};
use crate::error::{Error, NotApplicable};
use crate::model::{Diff, FileType, Operation, PatchFormat};
use crate::patch::{FilePatch, parse_patch};

/// Applies a diff to the files below `root`, completely or not at all.
///
/// Everything is checked and computed before the first byte is written: that the list of changes and the
/// patch agree, that every path stays below the root and outside of `.git`, that no directory on the path is
/// a symbolic link, and that every hunk applies. Each file is then replaced atomically. If a step fails, the
/// previous ones are undone.
///
/// Absolute paths may be below `root` itself, or below the directory in which the diff was created, if given
/// by the diff ([`Diff::root`]) or the options.
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
    // Check every path first, so that an invalid one is refused before any file is read.
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
    // The file type in the list is irrelevant here: the patch has the modes.
    let is_grave = |found: &Disagreement| !matches!(found, Disagreement::FileType { .. });
    if let Some(disagreement) = check::compare(listed, in_patch).into_iter().find(is_grave) {
        return Err(Error::Disagreement { disagreement: Box::new(disagreement) });
    }
    run(&placement, &files, directories, options)
}

/// Applies patch text to the files below `root`, completely or not at all. The rules are those of [`apply`].
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
