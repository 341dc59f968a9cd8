//! Changed parts of lines, for renderers.

use std::ops::Range;

use gix_imara_diff::{Algorithm, Diff, InternedInput};

use crate::patch::{Hunk, Line, LineKind};

/// Maximum size in bytes of a block of changed lines that is compared by words.
const MAX_BLOCK: usize = 64 * 1024;

impl Hunk<'_> {
    /// Returns, for each line of the hunk, the changed byte ranges of its content.
    ///
    /// Removed lines are compared word by word with the added lines that replace them. A line has no ranges
    /// if it is unchanged, has no counterpart, or has too little in common with it: then the whole line
    /// changed.
    pub fn intraline(&self) -> Vec<Vec<Range<usize>>> {
        let mut ranges = vec![Vec::new(); self.lines.len()];
        let mut at = 0;
        while at < self.lines.len() {
            let run = |from: usize, kind| {
                self.lines[from..].iter().take_while(|line| line.kind == kind).count() + from
            };
            let removed = at..run(at, LineKind::Removed);
            let added = removed.end..run(removed.end, LineKind::Added);
            if !removed.is_empty() && !added.is_empty() {
                compare(&self.lines, removed, added.clone(), &mut ranges);
            }
            at = added.end.max(at + 1);
        }
        ranges
    }
}

/// A word of a line: line index and range.
struct Word {
    line: usize,
    at: Range<usize>,
    is_blank: bool,
}

fn compare(lines: &[Line<'_>], removed: Range<usize>, added: Range<usize>, ranges: &mut [Vec<Range<usize>>]) {
    let size: usize = lines[removed.start..added.end].iter().map(|line| line.content.len()).sum();
    if size > MAX_BLOCK {
        return;
    }
    let words = |block: Range<usize>| -> Vec<Word> {
        block.flat_map(|line| split_words(lines[line].content, line)).collect()
    };
    let (old, new) = (words(removed), words(added));
    let mut input: InternedInput<&[u8]> = InternedInput::default();
    input.update_before(old.iter().map(|word| &lines[word.line].content[word.at.clone()]));
    input.update_after(new.iter().map(|word| &lines[word.line].content[word.at.clone()]));
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_no_heuristic(&input);

    // Bytes of all words and of the unchanged ones, without blanks.
    let kept = |words: &[Word], changed: &dyn Fn(u32) -> bool| -> (usize, usize) {
        words.iter().enumerate().filter(|(_, word)| !word.is_blank).fold((0, 0), |(kept, all), (at, word)| {
            let length = word.at.len();
            (if changed(at as u32) { kept } else { kept + length }, all + length)
        })
    };
    let (old_kept, old_all) = kept(&old, &|at| diff.is_removed(at));
    let (new_kept, new_all) = kept(&new, &|at| diff.is_added(at));
    // Less than a third in common: rewritten, and a few shared brackets would only distract.
    if (old_kept + new_kept) * 3 < old_all + new_all {
        return;
    }
    mark(&old, &|at| diff.is_removed(at), lines, ranges);
    mark(&new, &|at| diff.is_added(at), lines, ranges);
}

/// Adds the changed words to the ranges of their lines. Adjacent words become one range.
fn mark(words: &[Word], changed: &dyn Fn(u32) -> bool, lines: &[Line<'_>], ranges: &mut [Vec<Range<usize>>]) {
    for (at, word) in words.iter().enumerate() {
        if !changed(at as u32) {
            continue;
        }
        let line = &mut ranges[word.line];
        match line.last_mut() {
            Some(last) if is_bridge(&lines[word.line].content[last.end..word.at.start]) => {
                last.end = word.at.end;
            }
            _ => line.push(word.at.clone()),
        }
    }
}

/// Returns true for a single blank, which changes with the words around it.
fn is_bridge(gap: &[u8]) -> bool {
    gap.is_empty() || gap == b" "
}

/// Splits content into words: runs of letters and digits, runs of blanks, and other characters individually.
fn split_words(content: &[u8], line: usize) -> impl Iterator<Item = Word> {
    let mut rest = content;
    std::iter::from_fn(move || {
        let start = content.len() - rest.len();
        let (class, first) = next_class(rest)?;
        let mut length = first;
        if class != Class::Single {
            while let Some((next, more)) = next_class(&rest[length..]).filter(|(next, _)| *next == class) {
                debug_assert_eq!(next, class);
                length += more;
            }
        }
        rest = &rest[length..];
        Some(Word { line, at: start..start + length, is_blank: class == Class::Blank })
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Blank,
    Single,
}

/// Returns the class of the character at the start of `bytes`, and its length.
fn next_class(bytes: &[u8]) -> Option<(Class, usize)> {
    let first = *bytes.first()?;
    let length = match first {
        0..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    let character =
        bytes.get(..length).and_then(|bytes| str::from_utf8(bytes).ok()).and_then(|text| text.chars().next());
    let Some(character) = character else {
        return Some((Class::Single, 1));
    };
    let class = match character {
        // Combining marks belong to the preceding letter.
        '\u{300}'..='\u{36f}' => Class::Word,
        // Scripts without blanks between words.
        '\u{2e80}'.. => Class::Single,
        _ if character.is_alphanumeric() || character == '_' => Class::Word,
        _ if character.is_whitespace() => Class::Blank,
        _ => Class::Single,
    };
    Some((class, length))
}

#[cfg(test)]
mod tests {
    use crate::lines::diff_lines;

    /// Checks the changed parts, shown in brackets, one line per line of the hunk.
    #[track_caller]
    fn check(old: &str, new: &str, expected: &[&str]) {
        let hunks = diff_lines(old.as_bytes(), new.as_bytes(), 0);
        let mut shown = Vec::new();
        for hunk in &hunks {
            for (line, ranges) in hunk.lines.iter().zip(hunk.intraline()) {
                let mut text = line.text().into_owned();
                for range in ranges.iter().rev() {
                    text.insert(range.end, ']');
                    text.insert(range.start, '[');
                }
                shown.push(format!("{}{text}", char::from(line.kind.marker())));
            }
        }
        assert_eq!(shown, expected);
    }

    #[test]
    fn changed_words_are_marked() {
        check("return a + b;\n", "return a - b;\n", &["-return a [+] b;", "+return a [-] b;"]);
        check("let count = 1;\n", "let total = 1;\n", &["-let [count] = 1;", "+let [total] = 1;"]);
        check("f(a)\n", "f(a, b)\n", &["-f(a)", "+f(a[, b])"]);
        check("Grüße an alle\n", "Grüße an viele\n", &["-Grüße an [alle]", "+Grüße an [viele]"]);
        check("値は一です\n", "値は二です\n", &["-値は[一]です", "+値は[二]です"]);
    }

    #[test]
    fn lines_with_little_in_common_are_not_marked() {
        check("alpha beta\n", "(gamma, delta)\n", &["-alpha beta", "+(gamma, delta)"]);
        check("", "new\n", &["+new"]);
    }

    #[test]
    fn a_block_is_compared_as_a_whole() {
        check(
            "if x {\n  go(1);\n}\n",
            "if y {\n  go(2);\n}\n",
            &["-if [x] {", "-  go([1]);", "+if [y] {", "+  go([2]);"],
        );
    }

    #[test]
    fn bytes_that_are_not_text_do_not_break_it() {
        let hunks = diff_lines(b"a \xff b c d\n", b"a \xfe b c d\n", 0);
        let changed = hunks[0].intraline().concat();
        assert_eq!(changed, [2..3, 2..3]);
    }
}
