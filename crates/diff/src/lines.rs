//! Line diff of two texts, as hunks.

use std::borrow::Cow;
use std::ops::Range;

use gix_imara_diff::sources::byte_lines;
use gix_imara_diff::{Algorithm, Diff, InternedInput};

use crate::patch::{Hunk, Line, LineKind};

/// Maximum length in bytes of a hunk's heading, as in Git.
const HEADING: usize = 80;

/// Returns the hunks from `old` to `new`, with `context` unchanged lines around each change.
///
/// The algorithm and its heuristics are those of `git diff`: Myers with early cut-offs, then sliding of
/// changes by indentation.
pub(crate) fn diff_lines<'a>(old: &'a [u8], new: &'a [u8], context: u32) -> Vec<Hunk<'a>> {
    let input = InternedInput::new(byte_lines(old), byte_lines(new));
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);

    let mut groups: Vec<Vec<gix_imara_diff::Hunk>> = Vec::new();
    for change in diff.hunks() {
        match groups.last_mut() {
            Some(group)
                if group.last().is_some_and(|last| {
                    change.before.start - last.before.end <= context.saturating_mul(2)
                }) =>
            {
                group.push(change);
            }
            _ => groups.push(vec![change]),
        }
    }
    let mut headings = Headings { scanned: 0, found: None };
    groups.iter().map(|changes| build_hunk(&input, changes, context, &mut headings)).collect()
}

fn build_hunk<'a>(
    input: &InternedInput<&'a [u8]>,
    changes: &[gix_imara_diff::Hunk],
    context: u32,
    headings: &mut Headings<'a>,
) -> Hunk<'a> {
    // A group has at least one change.
    let (first, last) = (&changes[0], &changes[changes.len() - 1]);
    let lead = context.min(first.before.start).min(first.after.start);
    let old =
        first.before.start - lead..(last.before.end.saturating_add(context)).min(input.before.len() as u32);
    let new =
        first.after.start - lead..(last.after.end.saturating_add(context)).min(input.after.len() as u32);

    let mut lines = Vec::with_capacity((old.len() + new.len()).min(old.len() * 2 + 64));
    let (mut old_at, mut new_at) = (old.start, new.start);
    let mut push = |kind: LineKind, token, old_at: u32, new_at: u32| {
        let line: &'a [u8] = input.interner[token];
        let content = line.strip_suffix(b"\n");
        lines.push(Line {
            kind,
            content: content.unwrap_or(line),
            newline: content.is_some(),
            old_number: kind.is_old().then_some(old_at + 1),
            new_number: kind.is_new().then_some(new_at + 1),
        });
    };
    let end = gix_imara_diff::Hunk { before: old.end..old.end, after: new.end..new.end };
    for change in changes.iter().chain([&end]) {
        while old_at < change.before.start {
            push(LineKind::Context, input.before[old_at as usize], old_at, new_at);
            old_at += 1;
            new_at += 1;
        }
        for at in change.before.clone() {
            push(LineKind::Removed, input.before[at as usize], at, 0);
        }
        for at in change.after.clone() {
            push(LineKind::Added, input.after[at as usize], 0, at);
        }
        (old_at, new_at) = (change.before.end, change.after.end);
    }
    let start = |range: &Range<u32>| if range.is_empty() { range.start } else { range.start + 1 };
    Hunk {
        old_start: start(&old),
        old_count: old.len() as u32,
        new_start: start(&new),
        new_count: new.len() as u32,
        heading: Cow::Borrowed(headings.before(input, old.start)),
        lines,
    }
}

/// Finds the line with the function name of a hunk. Visits each line once for all hunks.
struct Headings<'a> {
    scanned: u32,
    found: Option<&'a [u8]>,
}

impl<'a> Headings<'a> {
    /// Returns the heading for a hunk that starts at the old line with index `start`.
    fn before(&mut self, input: &InternedInput<&'a [u8]>, start: u32) -> &'a [u8] {
        let lines = (self.scanned..start).rev().map(|at| input.interner[input.before[at as usize]]);
        let names = |line: &&[u8]| {
            line.first().is_some_and(|&byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$'))
        };
        if let Some(line) = lines.into_iter().find(names) {
            self.found = Some(line);
        }
        self.scanned = self.scanned.max(start);
        self.found.map_or(b"", shorten)
    }
}

fn shorten(line: &[u8]) -> &[u8] {
    let mut end = line.len().min(HEADING);
    // Do not split a character.
    while end < line.len() && end > 0 && line[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    line[..end].trim_ascii_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(old: &str, new: &str, context: u32) -> Vec<(u32, u32, u32, u32)> {
        diff_lines(old.as_bytes(), new.as_bytes(), context)
            .iter()
            .map(|hunk| (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count))
            .collect()
    }

    #[test]
    fn ranges_count_as_git_counts_them() {
        assert_eq!(ranges("", "a\n", 3), [(0, 0, 1, 1)]);
        assert_eq!(ranges("a\n", "", 3), [(1, 1, 0, 0)]);
        assert_eq!(ranges("a\n", "a\n", 3), []);
        assert_eq!(ranges("a\nb\nc\n", "a\nx\nc\n", 0), [(2, 1, 2, 1)]);
        assert_eq!(ranges("a\nb\n", "a\nx\nb\n", 0), [(1, 0, 2, 1)]);
        assert_eq!(ranges("a\nx\nb\n", "a\nb\n", 0), [(2, 1, 1, 0)]);
        assert_eq!(ranges("a\nb\nc\n", "a\nx\nc\n", u32::MAX), [(1, 3, 1, 3)]);
    }

    #[test]
    fn changes_share_a_hunk_when_their_context_would_touch() {
        let lines = |changed: &[usize]| -> String {
            (0..20)
                .map(|at| if changed.contains(&at) { "new\n".to_owned() } else { format!("{at}\n") })
                .collect()
        };
        assert_eq!(ranges(&lines(&[]), &lines(&[3, 10]), 3), [(1, 14, 1, 14)]);
        assert_eq!(ranges(&lines(&[]), &lines(&[3, 11]), 3), [(1, 7, 1, 7), (9, 7, 9, 7)]);
    }

    #[test]
    fn the_heading_is_the_last_line_that_looks_like_a_definition() {
        let old = "fn one() {\n  1\n  2\n  3\n  4\n  5\n  6\n}\nfn two() {\n  1\n  2\n  3\n  4\n  5\n}\n";
        let new = old.replace("  5\n", "  five\n");
        let hunks = diff_lines(old.as_bytes(), new.as_bytes(), 1);
        let headings: Vec<_> = hunks.iter().map(|hunk| hunk.heading.escape_ascii().to_string()).collect();
        assert_eq!(headings, ["fn one() {", "fn two() {"]);
    }

    #[test]
    fn a_long_heading_is_cut_between_characters() {
        let line = format!("f{}\n", "é".repeat(60));
        assert_eq!(shorten(line.as_bytes()).len(), 79);
        assert!(str::from_utf8(shorten(line.as_bytes())).is_ok());
    }
}
