//! Applies hunks to bytes.

use std::collections::HashMap;

use crate::error::{Conflict, NotApplicable};
use crate::model::Operation;
use crate::patch::{BinaryHunk, BinaryMethod, Body, FilePatch, Header, Hunk, Line};

/// Result of applying a section to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppliedFile {
    /// New content, or `None` if the file is deleted.
    pub content: Option<Vec<u8>>,
    /// For each hunk, the number of lines below (or, if negative, above) its stated position.
    pub offsets: Vec<i64>,
}

/// Reason why a section cannot be applied to a content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    Conflict(Conflict),
    NotApplicable(NotApplicable),
}

impl From<Conflict> for Misfit {
    fn from(conflict: Conflict) -> Self {
        Misfit::Conflict(conflict)
    }
}

impl From<NotApplicable> for Misfit {
    fn from(reason: NotApplicable) -> Self {
        Misfit::NotApplicable(reason)
    }
}

/// Applies one section to the content of its file. `limit` is the maximum size of decoded binary data in
/// bytes.
pub(crate) fn apply_section(
    file: &FilePatch<'_>,
    content: Option<&[u8]>,
    limit: u64,
) -> Result<AppliedFile, Misfit> {
    let content = match (&file.operation, content) {
        (Operation::Add, Some(_)) => return Err(Conflict::Exists.into()),
        (Operation::Add, None) => b"",
        (_, Some(content)) => content,
        (Operation::Modify, None) if makes_plain_file(file) => b"",
        (_, None) => return Err(Conflict::Missing.into()),
    };
    let (new, offsets) = match &file.body {
        Body::Hunks(hunks) => {
            if makes_plain_file(file) && !content.is_empty() {
                return Err(Conflict::Exists.into());
            }
            apply_hunks(hunks, content)?
        }
        Body::BinaryNamed => return Err(NotApplicable::NoBinaryContent.into()),
        Body::BinaryContent { forward, backward } => {
            (apply_binary(file, forward, backward.as_ref(), content, limit)?, Vec::new())
        }
    };
    if file.operation == Operation::Delete {
        if !new.is_empty() {
            return Err(Conflict::LeftOver.into());
        }
        return Ok(AppliedFile { content: None, offsets });
    }
    Ok(AppliedFile { content: Some(new), offsets })
}

/// Returns true if a section without a `diff --git` line concerns a new or empty file. Tools that do not
/// write `/dev/null` express this by an empty old range at the start.
pub(crate) fn makes_plain_file(file: &FilePatch<'_>) -> bool {
    matches!(file.header, Header::Plain { .. })
        && matches!(file.hunks(), [hunk] if hunk.old_start == 0 && hunk.old_count == 0)
}

fn apply_binary(
    file: &FilePatch<'_>,
    forward: &BinaryHunk<'_>,
    backward: Option<&BinaryHunk<'_>>,
    old: &[u8],
    limit: u64,
) -> Result<Vec<u8>, Misfit> {
    let new = forward.content(old, limit).ok_or(NotApplicable::BrokenBinaryContent)?;
    let expected = match (&file.index, backward) {
        (Some(index), _) if index.old.len() == 40 && file.operation != Operation::Add => {
            crate::build::blob_name(old) == *index.old
        }
        (_, Some(backward)) if backward.method == BinaryMethod::Literal => {
            backward.content(&new, limit).is_none_or(|content| content == old)
        }
        _ => true,
    };
    if !expected {
        return Err(Conflict::BinaryContent.into());
    }
    let is_result = match &file.index {
        Some(index) if index.new.len() == 40 && file.operation != Operation::Delete => {
            crate::build::blob_name(&new) == *index.new
        }
        _ => true,
    };
    if is_result { Ok(new) } else { Err(NotApplicable::BrokenBinaryContent.into()) }
}

/// Applies hunks in order, each at its stated position or else at the nearest matching one.
fn apply_hunks(hunks: &[Hunk<'_>], content: &[u8]) -> Result<(Vec<u8>, Vec<i64>), Conflict> {
    let mut file = File::new(content);
    let mut out = Vec::with_capacity(content.len() + 1024);
    let mut offsets = Vec::with_capacity(hunks.len());
    let (mut done, mut offset) = (0, 0i64);
    for (number, hunk) in hunks.iter().enumerate() {
        let conflict = Conflict::Hunk { hunk: number + 1 };
        let stated = if hunk.old_count == 0 { hunk.old_start } else { hunk.old_start.saturating_sub(1) };
        let at = file.find(hunk, i64::from(stated) + offset, done).ok_or(conflict)?;
        offset = at as i64 - i64::from(stated);
        offsets.push(offset);
        file.lines[done..at].iter().for_each(|line| out.extend_from_slice(line));
        for line in hunk.lines.iter().filter(|line| line.kind.is_new()) {
            // Only the last line of a file can lack a newline.
            if !out.is_empty() && !out.ends_with(b"\n") {
                return Err(conflict);
            }
            out.extend_from_slice(line.content);
            if line.newline {
                out.push(b'\n');
            }
        }
        done = at + old_lines(hunk).count();
        if done < file.lines.len() && !out.is_empty() && !out.ends_with(b"\n") {
            return Err(conflict);
        }
    }
    file.lines[done..].iter().for_each(|line| out.extend_from_slice(line));
    Ok((out, offsets))
}

fn old_lines<'a>(hunk: &'a Hunk<'a>) -> impl Iterator<Item = &'a Line<'a>> {
    hunk.lines.iter().filter(|line| line.kind.is_old())
}

struct File<'a> {
    /// Each with its newline.
    lines: Vec<&'a [u8]>,
    /// Created when the first hunk is not at its stated position.
    numbers: Option<LineNumbers<'a>>,
}

/// Lines as numbers, for fast comparison. Equal lines have equal numbers.
struct LineNumbers<'a> {
    known: HashMap<&'a [u8], u32>,
    lines: Vec<u32>,
}

impl<'a> File<'a> {
    fn new(content: &'a [u8]) -> Self {
        File { lines: content.split_inclusive(|&byte| byte == b'\n').collect(), numbers: None }
    }

    /// Returns the index nearest to `expected` at which the hunk matches, not before `from`.
    fn find(&mut self, hunk: &Hunk<'_>, expected: i64, from: usize) -> Option<usize> {
        let count = old_lines(hunk).count();
        let last = self.lines.len().checked_sub(count)?;
        let expected_here = usize::try_from(expected).ok().filter(|at| (from..=last).contains(at));
        if let Some(at) = expected_here
            && self.fits(hunk, at)
        {
            return Some(at);
        }
        // Nothing to match: only the stated position is possible.
        if count == 0 || from > last {
            return None;
        }
        let lead = hunk.lines.iter().take_while(|line| line.kind.is_old() && line.kind.is_new()).count();
        let trail =
            hunk.lines.iter().rev().take_while(|line| line.kind.is_old() && line.kind.is_new()).count();
        // Less context on one side means that the hunk was at that end of the file.
        let places = match lead.cmp(&trail) {
            std::cmp::Ordering::Less => 0..=0,
            std::cmp::Ordering::Equal => from..=last,
            std::cmp::Ordering::Greater => last..=last,
        };
        let numbers = self.numbers.get_or_insert_with(|| LineNumbers::new(&self.lines));
        let mut wanted = Vec::with_capacity(count);
        let mut text = Vec::new();
        for line in old_lines(hunk) {
            text.clear();
            text.extend_from_slice(line.content);
            if line.newline {
                text.push(b'\n');
            }
            wanted.push(*numbers.known.get(&*text)?);
        }
        let fits = |at: usize| at >= from && numbers.lines[at..at + count] == wanted;
        let start = expected.clamp(from as i64, last as i64) as usize;
        let found = outward(start, from, last).filter(|at| places.contains(at)).find(|&at| fits(at));
        found.or_else(|| {
            // Or the context was cut. Then the match must be unique.
            let mut all = (from..=last).filter(|&at| fits(at));
            all.next().filter(|_| all.next().is_none())
        })
    }

    fn fits(&self, hunk: &Hunk<'_>, at: usize) -> bool {
        old_lines(hunk).zip(&self.lines[at..]).all(|(line, found)| match found.split_last() {
            Some((b'\n', content)) => line.newline && line.content == content,
            _ => !line.newline && line.content == *found,
        })
    }
}

impl<'a> LineNumbers<'a> {
    fn new(lines: &[&'a [u8]]) -> Self {
        let mut known = HashMap::new();
        let number = |&line: &&'a [u8]| {
            let next = known.len() as u32;
            *known.entry(line).or_insert(next)
        };
        let lines = lines.iter().map(number).collect();
        LineNumbers { known, lines }
    }
}

/// Returns all indices from `from` to `last`, nearest to `start` first.
fn outward(start: usize, from: usize, last: usize) -> impl Iterator<Item = usize> {
    let furthest = (start - from).max(last - start);
    (0..=furthest).flat_map(move |distance| {
        let below = start.checked_add(distance).filter(|&at| at <= last);
        let above = start.checked_sub(distance).filter(|&at| at >= from && distance > 0);
        [below, above].into_iter().flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::diff_lines;

    fn numbered(lines: &[&str]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[track_caller]
    fn check(old: &str, new: &str, context: u32, file: &str, expected: Result<(&str, &[i64]), Conflict>) {
        let hunks = diff_lines(old.as_bytes(), new.as_bytes(), context);
        let result = apply_hunks(&hunks, file.as_bytes());
        let result = result.map(|(content, offsets)| (String::from_utf8(content).unwrap(), offsets));
        assert_eq!(result, expected.map(|(content, offsets)| (content.to_owned(), offsets.to_vec())));
    }

    #[test]
    fn a_hunk_is_found_where_it_says() {
        check("a\nb\nc\n", "a\nx\nc\n", 3, "a\nb\nc\n", Ok(("a\nx\nc\n", &[0])));
        check("", "a\n", 3, "", Ok(("a\n", &[0])));
        check("a\n", "", 3, "a\n", Ok(("", &[0])));
        check("a", "a\n", 3, "a", Ok(("a\n", &[0])));
        check("a\nb\n", "a\nx\nb\n", 0, "a\nb\n", Ok(("a\nx\nb\n", &[0])));
    }

    #[test]
    fn a_hunk_is_found_further_down_and_further_up() {
        let old = numbered(&["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        let new = old.replace("5\n", "five\n");
        let later = format!("x\ny\n{old}");
        check(&old, &new, 3, &later, Ok((&later.replace("5\n", "five\n"), &[2])));
        let earlier = old.replace("1\n", "");
        check(&old, &new, 3, &earlier, Ok((&earlier.replace("5\n", "five\n"), &[-1])));
    }

    #[test]
    fn the_nearest_place_is_taken() {
        let block = numbered(&["a", "b", "c", "d", "e", "f", "g"]);
        let file = format!("{block}{}{block}", numbered(&["1", "2", "3"]));
        let old = format!("{}{block}", numbered(&["1", "2", "3", "4", "5", "6", "7", "8"]));
        let new = old.replace("d\n", "D\n");
        // Stated at line 8 (index 8): the block at index 10 is nearer than the one at index 0.
        let expected = format!("{block}{}{}", numbered(&["1", "2", "3"]), block.replace("d\n", "D\n"));
        check(&old, &new, 3, &file, Ok((&expected, &[2])));
    }

    #[test]
    fn later_hunks_move_with_earlier_ones_and_never_before_them() {
        let old: String = (0..40).map(|at| format!("{at}\n")).collect();
        let new = old.replace("\n5\n", "\nfive\n").replace("\n30\n", "\nthirty\n");
        let file = format!("x\nx\nx\n{old}");
        let expected = format!("x\nx\nx\n{new}");
        check(&old, &new, 3, &file, Ok((&expected, &[3, 3])));
        let swapped: String = (20..40).chain(0..20).map(|at| format!("{at}\n")).collect();
        check(&old, &new, 3, &swapped, Err(Conflict::Hunk { hunk: 2 }));
    }

    #[test]
    fn a_hunk_that_matches_nowhere_is_a_conflict() {
        check("a\nb\nc\n", "a\nx\nc\n", 3, "a\nB\nc\n", Err(Conflict::Hunk { hunk: 1 }));
        check("a\nb", "a\nc", 3, "a\nb\n", Err(Conflict::Hunk { hunk: 1 }));
        check("a\nb\n", "a\nx\nb\n", 0, "", Err(Conflict::Hunk { hunk: 1 }));
    }

    #[test]
    fn a_hunk_from_the_end_does_not_slip_into_the_middle() {
        // The same lines occur twice; the hunk was at the end of its file.
        let old = "x\ny\nz\n";
        let new = "x\ny\nZ\n";
        check(old, new, 2, "x\ny\nz\n1\n2\nx\ny\nz\n3\n", Ok(("x\ny\nZ\n1\n2\nx\ny\nz\n3\n", &[0])));
        check(old, new, 2, "0\nx\ny\nz\n1\nx\ny\nz\n", Ok(("0\nx\ny\nz\n1\nx\ny\nZ\n", &[5])));
        check(old, new, 2, "0\nx\ny\nz\n1\nx\ny\nz\n3\n", Err(Conflict::Hunk { hunk: 1 }));
    }

    #[test]
    fn a_line_without_line_feed_stays_last() {
        // The old lines match, but the new last line would be joined with the next one.
        let hunks = diff_lines(b"a\nb\n", b"a\nb", 3);
        assert_eq!(apply_hunks(&hunks, b"a\nb\nc\n"), Err(Conflict::Hunk { hunk: 1 }));
    }
}
