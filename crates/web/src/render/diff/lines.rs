//! Lines of a patch. Both views use the same markup: a class on a container selects one column or two.
//!
//! A block of changes is a grid with removed lines in the first column and added lines in the second; the style sheet
//! aligns them. An unchanged line contains its text twice, once for each column, of which the second is hidden from
//! screen readers. Line numbers are attributes, so that they are not copied with the text.

use std::fmt::Write;
use std::ops::Range;

use maud::{Markup, PreEscaped};
use switchboard_diff::{Hunk, Line, LineKind};

use crate::render::code::{self, Language};
use crate::render::text::push_visible;

/// Number of unchanged lines that are shown next to a change.
const CONTEXT: usize = 3;
/// Minimum number of unchanged lines that are folded.
const SHORTEST_FOLD: usize = 6;
/// Maximum number of bytes that are shown of a line.
const LONGEST_LINE: usize = 16 << 10;

/// Number of lines of a diff that are elements of their own, with numbers and colours. Further lines are shown as blocks,
/// so that a page with a long diff stays small.
const DETAILED: usize = 700;
/// Maximum number of blocks, each of lines of one kind.
const MOST_BLOCKS: usize = 300;

/// Remaining budget of lines that may be shown.
#[derive(Debug)]
pub(crate) struct Lines {
    left: usize,
    left_out: usize,
    detailed: usize,
    blocks: usize,
}

impl Lines {
    pub(crate) fn new(most: usize) -> Self {
        Lines { left: most, left_out: 0, detailed: DETAILED, blocks: MOST_BLOCKS }
    }

    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Takes lines from the budget, at most as many as are left.
    fn take(&mut self, wanted: usize) -> usize {
        let taken = wanted.min(self.left);
        self.left -= taken;
        self.left_out += wanted - taken;
        taken
    }
}

/// Renders the hunks of one file.
pub(super) fn hunks(
    keep: &str,
    language: Option<&'static Language>,
    hunks: &[Hunk<'_>],
    budget: &mut Lines,
) -> Markup {
    let mut out = String::from("<div class=\"hunks\">");
    for (number, hunk) in hunks.iter().enumerate() {
        let count = budget.take(hunk.lines.len());
        if count == 0 {
            continue;
        }
        let _ = write!(
            out,
            "<div class=\"hh\">@@ -{},{} +{},{} @@ ",
            hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count
        );
        push_visible(&mut out, &String::from_utf8_lossy(&hunk.heading));
        out.push_str("</div>");
        let (lines, others) = hunk.lines[..count].split_at(count.min(budget.detailed));
        budget.detailed -= lines.len();
        let ranges = if lines.is_empty() { Vec::new() } else { hunk.intraline() };
        let mut writer =
            Writer { out: &mut out, lines, ranges: &ranges, language, fold: format!("{keep}h{number}") };
        writer.hunk();
        blocks(&mut out, others, budget);
    }
    out.push_str("</div>");
    PreEscaped(out)
}

/// Renders lines as blocks of one kind each, without colours and with the number of the first line only.
fn blocks(out: &mut String, lines: &[Line<'_>], budget: &mut Lines) {
    let mut at = 0;
    while let Some(first) = lines.get(at) {
        let end = at + lines[at..].iter().take_while(|line| line.kind == first.kind).count();
        if budget.blocks == 0 {
            budget.left_out += lines.len() - at;
            return;
        }
        budget.blocks -= 1;
        let (tag, mark) = match first.kind {
            LineKind::Context => ("div", "  "),
            LineKind::Removed => ("del", "− "),
            LineKind::Added => ("ins", "+ "),
        };
        open_line(out, tag, "l many", first);
        for line in &lines[at..end] {
            out.push_str(mark);
            push_bytes(out, shown(line));
            push_rest(out, line);
            out.push('\n');
        }
        let _ = write!(out, "</code></{tag}>");
        at = end;
    }
}

/// Begins the element of a line with its numbers.
fn open_line(out: &mut String, tag: &str, class: &str, line: &Line<'_>) {
    let _ = write!(out, "<{tag} class=\"{class}\"");
    for (name, number) in [("o", line.old_number), ("n", line.new_number)] {
        if let Some(number) = number {
            let _ = write!(out, " data-{name}=\"{number}\"");
        }
    }
    out.push_str("><code>");
}

/// Returns the part of a line that is shown.
fn shown<'h>(line: &Line<'h>) -> &'h [u8] {
    &line.content[..line.content.len().min(LONGEST_LINE)]
}

/// Renders remarks: the number of bytes that are not shown, and a missing line end.
fn push_rest(out: &mut String, line: &Line<'_>) {
    let left_out = line.content.len() - shown(line).len();
    if left_out > 0 {
        let _ = write!(out, "<span class=\"cut\">{left_out} more bytes</span>");
    }
    if !line.newline {
        out.push_str("<span class=\"cut\">no line end</span>");
    }
}

struct Writer<'w, 'h> {
    out: &'w mut String,
    lines: &'h [Line<'h>],
    ranges: &'h [Vec<Range<usize>>],
    language: Option<&'static Language>,
    /// Prefix of the fold keys.
    fold: String,
}

impl Writer<'_, '_> {
    fn hunk(&mut self) {
        let mut at = 0;
        while at < self.lines.len() {
            let is_context = self.lines[at].kind == LineKind::Context;
            let same = |line: &&Line<'_>| (line.kind == LineKind::Context) == is_context;
            let end = at + self.lines[at..].iter().take_while(same).count();
            if is_context {
                self.context(at..end);
            } else {
                self.out.push_str("<div class=\"chg\">");
                (at..end).for_each(|place| self.line(place));
                self.out.push_str("</div>");
            }
            at = end;
        }
    }

    /// Renders unchanged lines. Those far from changes are folded.
    fn context(&mut self, lines: Range<usize>) {
        let before = if lines.start == 0 { 0 } else { CONTEXT };
        let after = if lines.end == self.lines.len() { 0 } else { CONTEXT };
        if lines.len() < before + after + SHORTEST_FOLD {
            lines.for_each(|place| self.line(place));
            return;
        }
        let folded = lines.start + before..lines.end - after;
        (lines.start..folded.start).for_each(|place| self.line(place));
        let _ = write!(
            self.out,
            "<details class=\"ctx\" data-keep=\"{}c{}\"><summary>{} unchanged lines</summary>",
            self.fold,
            folded.start,
            folded.len()
        );
        folded.clone().for_each(|place| self.line(place));
        self.out.push_str("</details>");
        (folded.end..lines.end).for_each(|place| self.line(place));
    }

    fn line(&mut self, place: usize) {
        let line = &self.lines[place];
        let tag = match line.kind {
            LineKind::Context => "div",
            LineKind::Removed => "del",
            LineKind::Added => "ins",
        };
        open_line(self.out, tag, "l", line);
        self.text(place);
        self.out.push_str("</code>");
        if line.kind == LineKind::Context {
            self.out.push_str("<code class=\"dup\" aria-hidden=\"true\">");
            self.text(place);
            self.out.push_str("</code>");
        }
        let _ = write!(self.out, "</{tag}>");
    }

    fn text(&mut self, place: usize) {
        let line = &self.lines[place];
        let shown = shown(line);
        // A line is coloured by itself: a comment or a string over several lines is not recognized.
        let tokens = match (self.language, std::str::from_utf8(shown)) {
            (Some(language), Ok(text)) => code::tokens(language, text),
            _ => Vec::new(),
        };
        let mut at = 0;
        for range in &self.ranges[place] {
            let range = range.start.min(shown.len())..range.end.min(shown.len());
            push_coloured(self.out, shown, &tokens, at..range.start);
            self.out.push_str("<mark>");
            push_coloured(self.out, shown, &tokens, range.clone());
            self.out.push_str("</mark>");
            at = range.end;
        }
        push_coloured(self.out, shown, &tokens, at..shown.len());
        push_rest(self.out, line);
    }
}

/// Writes a part of a line with the colours of its tokens.
fn push_coloured(out: &mut String, line: &[u8], tokens: &[code::Token], part: Range<usize>) {
    let first = tokens.partition_point(|token| token.range.end <= part.start);
    let mut at = part.start;
    for token in tokens[first..].iter().take_while(|token| token.range.start < part.end) {
        let range = token.range.start.max(part.start)..token.range.end.min(part.end);
        push_bytes(out, &line[at..range.start]);
        let _ = write!(out, "<span class=\"{}\">", token.class);
        push_bytes(out, &line[range.clone()]);
        out.push_str("</span>");
        at = range.end;
    }
    push_bytes(out, &line[at..part.end]);
}

fn push_bytes(out: &mut String, bytes: &[u8]) {
    push_visible(out, &String::from_utf8_lossy(bytes));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use switchboard_diff::{BuildOptions, build_from_bytes, parse_patch};

    use super::*;

    /// Renders the hunks of a change, and returns the HTML and the number of lines that are left out.
    fn rendered(old: &str, new: &str) -> (String, usize) {
        let built = build_from_bytes(
            Path::new("/w/a.rs"),
            Some(old.as_bytes()),
            Some(new.as_bytes()),
            &BuildOptions::default(),
        );
        let text = built.diff.patch.unwrap().text;
        let patch = parse_patch(text.as_bytes());
        let mut budget = Lines::new(20_000);
        let html = hunks("k", code::language_of("a.rs"), patch.files[0].hunks(), &mut budget);
        (html.into_string(), budget.left_out())
    }

    #[test]
    fn a_long_diff_is_a_small_page_that_still_shows_every_line() {
        let lines = |word: &str| {
            (0..10_000).map(|number| format!("let {word}{number} = {number};\n")).collect::<String>()
        };
        let (html, left_out) = rendered("first\n", &format!("first\n{}", lines("x")));
        assert!(html.matches("</").count() < 5000 && left_out == 0, "{}", html.matches("</").count());
        assert!(html.contains(" x0 = ") && html.contains("+ let x9999 = 9999;\n"));
        // Every other line changes.
        let both = |word: &str| {
            (0..9_000).map(|number| format!("{number}\n<b>{word}{number}\n")).collect::<String>()
        };
        let (html, left_out) = rendered(&both("x"), &both("y"));
        assert!(html.matches("</").count() < 5000, "{}", html.matches("</").count());
        assert!(left_out > 0 && !html.contains("<b>"));
    }

    #[test]
    fn a_short_diff_has_an_element_for_every_line() {
        let (html, left_out) = rendered("let a = 1;\n", "let a = 2;\nlet b = 3;");
        assert_eq!(
            (html.matches("class=\"l\"").count(), html.matches("many").count(), left_out),
            (3, 0, 0),
            "{html}"
        );
        assert!(html.contains("no line end"), "{html}");
    }
}
