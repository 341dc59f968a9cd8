//! How much a diff changes.

use std::collections::HashMap;

use crate::location::Location;
use crate::model::{Diff, Operation, PatchFormat};
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

/// Counts the changed lines of every change in a diff.
pub fn stat(diff: &Diff) -> Vec<FileStat> {
    let text = diff.patch.as_ref().filter(|patch| patch.format == PatchFormat::GitPatch);
    let parsed = text.map(|patch| parse_patch(patch.text.as_bytes())).unwrap_or_default();
    let location = Location::new(diff, &parsed.files);
    let mut sections: HashMap<String, Vec<&FilePatch<'_>>> = HashMap::new();
    for file in parsed.files.iter().rev() {
        sections.entry(location.place(file.path())).or_default().push(file);
    }
    let mut stats = Vec::with_capacity(diff.changes.len());
    for change in &diff.changes {
        let is_deletion = change.operation == Operation::Delete;
        let lines = sections.get_mut(&change.path).and_then(|files| {
            let at = files.iter().rposition(|file| (file.operation == Operation::Delete) == is_deletion)?;
            let file = files.remove(at);
            matches!(file.body, Body::Hunks(_)).then(|| file.counts())
        });
        stats.push(FileStat {
            operation: change.operation.clone(),
            path: change.path.clone(),
            old_path: change.old_path.clone(),
            lines,
        });
    }
    stats
}
