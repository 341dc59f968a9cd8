//! Parses patch text.

use std::borrow::Cow;

use super::binary::is_binary_line;
use super::fault::{FaultKind, PatchFault};
use super::model::{BinaryHunk, BinaryMethod, Body, FilePatch, Header, Hunk, Index, Mode, Similarity};
use super::model::{Line, LineKind};
use super::names::{NameLines, read_label};
use super::quote::read_name;

/// Maximum number of faults listed, since a malicious patch could contain millions.
const MAX_FAULTS: usize = 1000;

/// A parsed patch, as far as it is readable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParsedPatch<'a> {
    /// The readable sections, in order.
    pub files: Vec<FilePatch<'a>>,
    /// Unreadable parts. A hunk that ends early stays in `files` with the lines that it has. A patch with
    /// faults can be shown, but is never applied.
    pub faults: Vec<PatchFault>,
    /// Text after the last section.
    pub trailer: &'a [u8],
}

/// Parses patch text into files, hunks and numbered lines.
///
/// Supports the output of `git diff` and `git format-patch` (including mail headers), the same with absolute
/// paths as ACP requires, and plain unified diffs of other tools. Never fails: unreadable parts are listed in
/// [`ParsedPatch::faults`], and the rest is returned.
pub fn parse_patch(text: &[u8]) -> ParsedPatch<'_> {
    let mut reader = Reader { text, at: 0, line: 1, patch: ParsedPatch::default() };
    reader.read();
    reader.patch.faults.sort_by_key(|fault| fault.line);
    reader.patch
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// Number of the line at `at`.
    line: usize,
    patch: ParsedPatch<'a>,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        let mut preamble = 0;
        while let Some(line) = self.peek() {
            let before = &self.text[preamble..self.at];
            let file = if let Some(names) = line.strip_prefix(b"diff --git ") {
                self.read_git_section(names, before)
            } else if self.at_plain_section() {
                self.read_plain_section(before)
            } else if line.starts_with(b"Binary files ") {
                self.read_plain_binary(line, before)
            } else if line.starts_with(b"diff --cc ") || line.starts_with(b"diff --combined ") {
                self.fault(FaultKind::Combined);
                self.skip_combined();
                continue;
            } else if line.starts_with(b"@@ -") {
                self.fault(FaultKind::HunkWithoutFile);
                self.skip_hunk();
                continue;
            } else {
                self.advance();
                continue;
            };
            if let Some(file) = file {
                self.patch.files.push(file);
                preamble = self.at;
            }
        }
        self.patch.trailer = &self.text[preamble..];
        let is_blank = self.text.iter().all(u8::is_ascii_whitespace);
        if self.patch.files.is_empty() && self.patch.faults.is_empty() && !is_blank {
            self.patch.faults.push(PatchFault { line: 1, kind: FaultKind::NoPatch });
        }
    }

    /// Returns the current line without its line feed.
    fn peek(&self) -> Option<&'a [u8]> {
        self.line_at(self.at).map(|(line, _)| line)
    }

    /// Returns the line that starts at `start`, and the start of the next one.
    fn line_at(&self, start: usize) -> Option<(&'a [u8], usize)> {
        let rest = self.text.get(start..).filter(|rest| !rest.is_empty())?;
        Some(match memchr::memchr(b'\n', rest) {
            Some(end) => (&rest[..end], start + end + 1),
            None => (rest, start + rest.len()),
        })
    }

    fn advance(&mut self) -> Option<&'a [u8]> {
        let (line, next) = self.line_at(self.at)?;
        self.at = next;
        self.line += 1;
        Some(line)
    }

    fn fault(&mut self, kind: FaultKind) {
        self.fault_at(self.line, kind);
    }

    fn fault_at(&mut self, line: usize, kind: FaultKind) {
        if self.patch.faults.len() < MAX_FAULTS {
            self.patch.faults.push(PatchFault { line, kind });
        }
    }

    /// Returns true if a `---` line, a `+++` line and a hunk follow.
    fn at_plain_section(&self) -> bool {
        let follows = |start, mark: &[u8]| {
            self.line_at(start).filter(|(line, _)| line.starts_with(mark)).map(|(_, next)| next)
        };
        follows(self.at, b"--- ")
            .and_then(|next| follows(next, b"+++ "))
            .is_some_and(|next| follows(next, b"@@").is_some())
    }

    fn read_git_section(&mut self, header: &'a [u8], preamble: &'a [u8]) -> Option<FilePatch<'a>> {
        let start = self.line;
        self.advance();
        let mut section = Section {
            names: NameLines { git: Some(trim(header)), ..Default::default() },
            ..Default::default()
        };
        let mut body = Body::Hunks(Vec::new());
        while let Some(line) = self.peek() {
            let line = trim(line);
            if line.starts_with(b"--- ") {
                if let Err(kind) = self.read_side_lines(&mut section.names) {
                    self.fault(kind);
                    self.advance();
                    continue;
                }
                body = Body::Hunks(self.read_hunks());
                break;
            } else if line.starts_with(b"@@ ") {
                body = Body::Hunks(self.read_hunks());
                break;
            } else if line.starts_with(b"Binary files ") && line.ends_with(b" differ") {
                body = Body::BinaryNamed;
                self.advance();
                break;
            } else if line == b"GIT binary patch" {
                body = self.read_binary();
                break;
            }
            match section.read_header_line(line) {
                Some(Ok(())) => {}
                Some(Err(kind)) => self.fault(kind),
                None => break,
            }
            self.advance();
        }
        match section.finish(preamble, body) {
            Ok(file) => Some(file),
            Err(kind) => {
                self.fault_at(start, kind);
                None
            }
        }
    }

    /// Parses the `---` and the `+++` line.
    fn read_side_lines(&mut self, names: &mut NameLines<'a>) -> Result<(), FaultKind> {
        let (old, next) = self.line_at(self.at).ok_or(FaultKind::NoName)?;
        let (new, _) = self.line_at(next).ok_or(FaultKind::MissingNewName)?;
        let old = old.strip_prefix(b"--- ").ok_or(FaultKind::NoName)?;
        let new = new.strip_prefix(b"+++ ").ok_or(FaultKind::MissingNewName)?;
        names.old = Some(read_label(trim(old))?);
        names.new = Some(read_label(trim(new))?);
        self.advance();
        self.advance();
        Ok(())
    }

    fn read_plain_section(&mut self, preamble: &'a [u8]) -> Option<FilePatch<'a>> {
        let start = self.line;
        let (old_line, next) = self.line_at(self.at)?;
        let (new_line, _) = self.line_at(next)?;
        let label = |line: &'a [u8]| trim(line.get(4..).unwrap_or_default());
        let (old_label, new_label) = (label(old_line), label(new_line));
        let mut section = Section::default();
        if let Err(kind) = self.read_side_lines(&mut section.names) {
            self.fault(kind);
            self.advance();
            return None;
        }
        let hunks = self.read_hunks();
        match section.finish(preamble, Body::Hunks(hunks)) {
            Ok(mut file) => {
                file.header = Header::Plain { old_label, new_label };
                Some(file)
            }
            Err(kind) => {
                self.fault_at(start, kind);
                None
            }
        }
    }

    /// Parses a line with which tools other than Git state that two binary files differ.
    fn read_plain_binary(&mut self, line: &'a [u8], preamble: &'a [u8]) -> Option<FilePatch<'a>> {
        let names = trim(line).strip_prefix(b"Binary files ").and_then(|rest| rest.strip_suffix(b" differ"));
        self.advance();
        let names = names?;
        let middle =
            memchr::memmem::find_iter(names, b" and ").min_by_key(|at| (2 * at + 5).abs_diff(names.len()))?;
        let (old_label, new_label) = (&names[..middle], &names[middle + 5..]);
        let mut section = Section::default();
        section.names.old = Some(read_label(old_label).ok()?);
        section.names.new = Some(read_label(new_label).ok()?);
        let mut file = section.finish(preamble, Body::BinaryNamed).ok()?;
        file.header = Header::Plain { old_label, new_label };
        Some(file)
    }

    fn read_hunks(&mut self) -> Vec<Hunk<'a>> {
        let mut hunks = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.starts_with(b"@@")) {
            match read_hunk_header(trim(line)) {
                Ok(mut hunk) => {
                    self.advance();
                    self.read_hunk_lines(&mut hunk);
                    hunks.push(hunk);
                }
                Err(kind) => {
                    self.fault(kind);
                    self.skip_hunk();
                }
            }
        }
        hunks
    }

    fn read_hunk_lines(&mut self, hunk: &mut Hunk<'a>) {
        let (mut old_left, mut new_left) = (hunk.old_count, hunk.new_count);
        let (mut old_number, mut new_number) = (hunk.old_start, hunk.new_start);
        // A count is untrusted input: it must not determine the amount of memory allocated.
        hunk.lines.reserve((old_left.max(new_left) as usize).min(1024));
        while old_left > 0 || new_left > 0 {
            let kind = match self.peek() {
                Some([b' ', ..] | [] | [b'\r']) => Some(LineKind::Context),
                Some([b'-', ..]) if (old_left, new_left) != (1, 1) && self.at_plain_section() => None,
                Some([b'-', ..]) => Some(LineKind::Removed),
                Some([b'+', ..]) => Some(LineKind::Added),
                Some([b'\\', ..]) => {
                    self.read_no_newline(hunk);
                    continue;
                }
                _ => None,
            };
            let fits = |kind: LineKind| !(kind.is_old() && old_left == 0 || kind.is_new() && new_left == 0);
            let (Some(kind), Some(line)) = (kind.filter(|&kind| fits(kind)), self.peek()) else {
                self.fault(FaultKind::HunkEndsEarly { old_missing: old_left, new_missing: new_left });
                hunk.old_count -= old_left;
                hunk.new_count -= new_left;
                break;
            };
            // Some tools and mail programs remove the space that marks an empty unchanged line.
            let content = match line {
                [b' ' | b'+' | b'-', content @ ..] => content,
                _ => line,
            };
            hunk.lines.push(Line {
                kind,
                content,
                newline: true,
                old_number: kind.is_old().then_some(old_number),
                new_number: kind.is_new().then_some(new_number),
            });
            if kind.is_old() {
                old_left -= 1;
                old_number += 1;
            }
            if kind.is_new() {
                new_left -= 1;
                new_number += 1;
            }
            self.advance();
        }
        if self.peek().is_some_and(|line| line.starts_with(b"\\")) {
            self.read_no_newline(hunk);
        }
        let is_stray = |reader: &Self| match reader.peek() {
            Some([b'-', b'-', b' '] | [b'-', b'-']) => false,
            Some([b'-', ..]) => !reader.at_plain_section(),
            Some([b'+' | b' ', ..]) => true,
            _ => false,
        };
        if is_stray(self) {
            self.fault(FaultKind::LineOutsideHunk);
            while is_stray(self) {
                self.advance();
            }
        }
    }

    /// Parses `\ No newline at end of file` in any language, which refers to the preceding line.
    fn read_no_newline(&mut self, hunk: &mut Hunk<'a>) {
        match hunk.lines.last_mut() {
            Some(line) => line.newline = false,
            None => self.fault(FaultKind::LineOutsideHunk),
        }
        self.advance();
    }

    /// Skips an unreadable hunk.
    fn skip_hunk(&mut self) {
        self.advance();
        while let Some([b' ' | b'+' | b'-' | b'\\', ..] | []) = self.peek() {
            if self.at_plain_section() {
                break;
            }
            self.advance();
        }
    }

    fn skip_combined(&mut self) {
        self.advance();
        let starts: [&[u8]; 5] = [b"diff --git ", b"diff --cc ", b"diff --combined ", b"From ", b"commit "];
        while self.peek().is_some_and(|line| !starts.iter().any(|start| line.starts_with(start))) {
            self.advance();
        }
    }

    fn read_binary(&mut self) -> Body<'a> {
        self.advance();
        let forward = self.read_binary_hunk();
        if forward.is_none() {
            self.fault(FaultKind::Binary);
            return Body::BinaryNamed;
        }
        let backward = self.read_binary_hunk();
        forward.map_or(Body::BinaryNamed, |forward| Body::BinaryContent { forward, backward })
    }

    fn read_binary_hunk(&mut self) -> Option<BinaryHunk<'a>> {
        let line = trim(self.peek()?);
        let (method, size) = if let Some(size) = line.strip_prefix(b"literal ") {
            (BinaryMethod::Literal, size)
        } else if let Some(size) = line.strip_prefix(b"delta ") {
            (BinaryMethod::Delta, size)
        } else {
            return None;
        };
        let size = str::from_utf8(size).ok()?.parse().ok()?;
        self.advance();
        let start = self.at;
        while self.peek().is_some_and(|line| is_binary_line(trim(line))) {
            self.advance();
        }
        let encoded = Cow::Borrowed(&self.text[start..self.at]);
        match self.peek() {
            Some(line) if !trim(line).is_empty() => self.fault(FaultKind::Binary),
            _ => _ = self.advance(),
        }
        Some(BinaryHunk { method, size, encoded })
    }
}

/// A section whose header is being read.
#[derive(Default)]
struct Section<'a> {
    names: NameLines<'a>,
    old_mode: Option<Mode>,
    new_mode: Option<Mode>,
    similarity: Option<Similarity>,
    index: Option<Index<'a>>,
}

impl<'a> Section<'a> {
    /// Parses one extended header line. `None` for another line.
    fn read_header_line(&mut self, line: &'a [u8]) -> Option<Result<(), FaultKind>> {
        let after = |mark: &str| line.strip_prefix(mark.as_bytes());
        let result = if let Some(mode) = after("old mode ") {
            read_mode(mode).map(|mode| self.old_mode = Some(mode))
        } else if let Some(mode) = after("new mode ") {
            read_mode(mode).map(|mode| self.new_mode = Some(mode))
        } else if let Some(mode) = after("new file mode ") {
            self.names.is_new = true;
            read_mode(mode).map(|mode| self.new_mode = Some(mode))
        } else if let Some(mode) = after("deleted file mode ") {
            self.names.is_deleted = true;
            read_mode(mode).map(|mode| self.old_mode = Some(mode))
        } else if let Some(name) = after("rename from ").or(after("rename old ")) {
            read_name(name).map(|name| self.names.rename.0 = Some(name)).ok_or(FaultKind::Quoting)
        } else if let Some(name) = after("rename to ").or(after("rename new ")) {
            read_name(name).map(|name| self.names.rename.1 = Some(name)).ok_or(FaultKind::Quoting)
        } else if let Some(name) = after("copy from ") {
            read_name(name).map(|name| self.names.copy.0 = Some(name)).ok_or(FaultKind::Quoting)
        } else if let Some(name) = after("copy to ") {
            read_name(name).map(|name| self.names.copy.1 = Some(name)).ok_or(FaultKind::Quoting)
        } else if let Some(percent) = after("similarity index ") {
            read_percent(percent).map(|percent| self.similarity = Some(Similarity::Alike(percent)))
        } else if let Some(percent) = after("dissimilarity index ") {
            read_percent(percent).map(|percent| self.similarity = Some(Similarity::Different(percent)))
        } else if let Some(names) = after("index ") {
            self.read_index(names)
        } else {
            return None;
        };
        Some(result)
    }

    fn read_index(&mut self, line: &'a [u8]) -> Result<(), FaultKind> {
        let (names, mode) = match memchr::memchr(b' ', line) {
            Some(space) => (&line[..space], Some(read_mode(&line[space + 1..])?)),
            None => (line, None),
        };
        let dots = memchr::memmem::find(names, b"..").ok_or(FaultKind::HeaderValue)?;
        let (old, new) = (&names[..dots], &names[dots + 2..]);
        if ![old, new].iter().all(|name| !name.is_empty() && name.iter().all(u8::is_ascii_hexdigit)) {
            return Err(FaultKind::HeaderValue);
        }
        self.index = Some(Index { old: Cow::Borrowed(old), new: Cow::Borrowed(new) });
        if mode.is_some() {
            self.old_mode = mode;
            self.new_mode = mode;
        }
        Ok(())
    }

    fn finish(self, preamble: &'a [u8], body: Body<'a>) -> Result<FilePatch<'a>, FaultKind> {
        let names = self.names.resolve()?;
        Ok(FilePatch {
            preamble,
            header: Header::Git { old_prefix: names.old_prefix, new_prefix: names.new_prefix },
            operation: names.operation,
            old_path: names.old_path,
            new_path: names.new_path,
            old_mode: self.old_mode,
            new_mode: self.new_mode,
            similarity: self.similarity,
            index: self.index,
            body,
        })
    }
}

/// Removes the carriage return that header lines may have from a mail or another system.
fn trim(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn read_mode(digits: &[u8]) -> Result<Mode, FaultKind> {
    let digits = str::from_utf8(digits).map_err(|_| FaultKind::Mode)?;
    if digits.len() > 7 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(FaultKind::Mode);
    }
    u32::from_str_radix(digits, 8).map(Mode).map_err(|_| FaultKind::Mode)
}

fn read_percent(text: &[u8]) -> Result<u8, FaultKind> {
    let digits = text.strip_suffix(b"%").unwrap_or(text);
    let percent = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    percent.filter(|&percent| percent <= 100).ok_or(FaultKind::HeaderValue)
}

/// Parses `@@ -1,2 +3,4 @@ heading` into a hunk without lines.
fn read_hunk_header(line: &[u8]) -> Result<Hunk<'_>, FaultKind> {
    let rest = line.strip_prefix(b"@@ -").ok_or(FaultKind::HunkHeader)?;
    let (old_start, old_count, rest) = read_range(rest)?;
    let rest = rest.strip_prefix(b" +").ok_or(FaultKind::HunkHeader)?;
    let (new_start, new_count, rest) = read_range(rest)?;
    let heading = rest.strip_prefix(b" @@").ok_or(FaultKind::HunkHeader)?;
    let heading = Cow::Borrowed(heading.strip_prefix(b" ").unwrap_or(heading));
    Ok(Hunk { old_start, old_count, new_start, new_count, heading, lines: Vec::new() })
}

fn read_range(text: &[u8]) -> Result<(u32, u32, &[u8]), FaultKind> {
    let (start, rest) = read_number(text)?;
    let (count, rest) = match rest.strip_prefix(b",") {
        Some(rest) => read_number(rest)?,
        None => (1, rest),
    };
    // The numbers of all lines of the hunk must be representable, and the one after them.
    start.checked_add(count).and_then(|end| end.checked_add(1)).ok_or(FaultKind::NumberTooLarge)?;
    Ok((start, count, rest))
}

fn read_number(text: &[u8]) -> Result<(u32, &[u8]), FaultKind> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return Err(FaultKind::HunkHeader);
    }
    let number = digits
        .iter()
        .try_fold(0u32, |number, digit| number.checked_mul(10)?.checked_add(u32::from(digit - b'0')));
    Ok((number.ok_or(FaultKind::NumberTooLarge)?, rest))
}
