//! Statistics of a diff.

use std::collections::HashMap;

use crate::location::Location;
use crate::model::{Change, Diff, Operation, PatchFormat};
use crate::patch::{Body, FilePatch, parse_patch};

/// Statistics of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// Operation.
    pub operation: Operation,
    /// Path in the diff.
    pub path: String,
    /// Source of a moved or copied file.
    pub old_path: Option<String>,
    /// Number of added and removed lines. `None` if there is no text.
    pub lines: Option<(usize, usize)>,
}

/// Returns the index of the section in `files` for each change of a diff. `files` are the sections of the
/// diff's own patch. Each section belongs to at most one change.
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
