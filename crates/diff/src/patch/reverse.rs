//! Reversal of a section.

use super::model::{Body, FilePatch, Header, Hunk, Index, Line, LineKind};
use crate::model::Operation;

impl<'a> FilePatch<'a> {
    /// Returns the reverse section. `None` for a binary section without data for it.
    ///
    /// A reversed copy stays a copy, from the created file to its source: when it is applied, the source
    /// determines if the copy is the one that the section created.
    pub(crate) fn reversed(&self) -> Option<FilePatch<'a>> {
        let operation = match &self.operation {
            Operation::Add => Operation::Delete,
            Operation::Delete => Operation::Add,
            other => other.clone(),
        };
        let body = match &self.body {
            Body::Hunks(hunks) => Body::Hunks(hunks.iter().map(reverse_hunk).collect()),
            Body::BinaryNamed => Body::BinaryNamed,
            Body::BinaryContent { forward, backward } => {
                Body::BinaryContent { forward: backward.clone()?, backward: Some(forward.clone()) }
            }
        };
        let header = match &self.header {
            Header::Plain { old_label, new_label } => {
                Header::Plain { old_label: new_label, new_label: old_label }
            }
            git @ Header::Git { .. } => git.clone(),
        };
        let index = self.index.as_ref();
        Some(FilePatch {
            preamble: self.preamble,
            header,
            operation,
            old_path: self.new_path.clone(),
            new_path: self.old_path.clone(),
            old_mode: self.new_mode,
            new_mode: self.old_mode,
            similarity: self.similarity,
            index: index.map(|index| Index { old: index.new.clone(), new: index.old.clone() }),
            body,
        })
    }
}

fn reverse_hunk<'a>(hunk: &Hunk<'a>) -> Hunk<'a> {
    let mut lines = Vec::with_capacity(hunk.lines.len());
    let mut rest = &hunk.lines[..];
    while let Some(line) = rest.first() {
        // A run of changed lines: added lines become removed ones, and removed lines come first.
        let run = rest.iter().take_while(|line| line.kind != LineKind::Context).count();
        if run == 0 {
            lines.push(reverse_line(line));
            rest = &rest[1..];
        } else {
            let (changed, after) = rest.split_at(run);
            for kind in [LineKind::Added, LineKind::Removed] {
                lines.extend(changed.iter().filter(|line| line.kind == kind).map(reverse_line));
            }
            rest = after;
        }
    }
    Hunk {
        old_start: hunk.new_start,
        old_count: hunk.new_count,
        new_start: hunk.old_start,
        new_count: hunk.old_count,
        heading: hunk.heading.clone(),
        lines,
    }
}

fn reverse_line<'a>(line: &Line<'a>) -> Line<'a> {
    let kind = match line.kind {
        LineKind::Context => LineKind::Context,
        LineKind::Removed => LineKind::Added,
        LineKind::Added => LineKind::Removed,
    };
    Line { kind, old_number: line.new_number, new_number: line.old_number, ..*line }
}
