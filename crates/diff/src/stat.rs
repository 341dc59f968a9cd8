//! How much a diff changes.

use std::collections::HashMap;

use crate::location::Location;
use crate::model::{Change, Diff, Operation, PatchFormat};
use crate::patch::{Body, FilePatch, parse_patch};

/// How much one change changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// What happened.
    pub operation: Operation,
    /// The path, as the diff names it.
    pub path: String,
    /// Where a moved or copied file comes from.
    pub old_path: Option<String>,
    /// Lines added and lines removed; `None` where there is no text to count.
    pub lines: Option<(usize, usize)>,
}

/// Finds the section of the patch that shows each change of a diff: its place among `files`, which are those of the
/// diff's own patch. A section shows one change at most.
pub fn sections(diff: &Diff, files: &[FilePatch<'_>]) -> Vec<Option<usize>> {
    let location = Location::new(diff, files);
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (place, file) in files.iter().enumerate().rev() {
        places.entry(location.place(file.path())).or_default().push(place);
    }
    let find = |change: &Change| {
        let is_deletion = change.operation == Operation::Delete;
        let places = places.get_mut(&change.path)?;
        let fits = |place: &usize| (files[*place].operation == Operation::Delete) == is_deletion;
        let at = places.iter().rposition(fits)?;
        Some(places.remove(at))
    };
    diff.changes.iter().map(find).collect()
}

/// Counts the changed lines of every change in a diff.
pub fn stat(diff: &Diff) -> Vec<FileStat> {
    let text = diff.patch.as_ref().filter(|patch| patch.format == PatchFormat::GitPatch);
    let parsed = text.map(|patch| parse_patch(patch.text.as_bytes())).unwrap_or_default();
    let stat = |(change, section): (&Change, Option<usize>)| {
        let file = section.map(|place| &parsed.files[place]);
        FileStat {
            operation: change.operation.clone(),
            path: change.path.clone(),
            old_path: change.old_path.clone(),
            lines: file.filter(|file| matches!(file.body, Body::Hunks(_))).map(FilePatch::counts),
        }
    };
    diff.changes.iter().zip(sections(diff, &parsed.files)).map(stat).collect()
}
