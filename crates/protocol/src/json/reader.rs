//! The parser: one pass over borrowed text, with the offset of every error.

mod skip;

use std::borrow::Cow;

use super::string::{find_last_quote, find_special, read_escape};
use crate::WireFormat;
use crate::error::{Diagnostic, Fault, Problem, Read};

/// Maximum nesting depth. The same as serde_json's, so that deeper values cannot be passed on.
pub(crate) const MAX_DEPTH: u32 = 128;

/// Parses JSON values from a text.
///
/// The position is always at the first byte of the next value, or after the last one.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a str,
    position: usize,
    depth: u32,
    revision: WireFormat,
    tolerant: bool,
    /// Set for one array: malformed items make it malformed even in tolerant reading.
    keep_all_items: bool,
    tolerated: Noted,
    remarks: Option<Noted>,
}

/// Errors that did not stop the parser. Bounded, since a hostile text can contain millions.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    faults: Vec<Fault>,
    more: usize,
}

const MAX_NOTED: usize = 100;

impl Noted {
    fn push(&mut self, fault: Fault) {
        if self.faults.len() < MAX_NOTED {
            self.faults.push(fault);
        } else {
            self.more += 1;
        }
    }

    /// Describes the errors. The last one gives the number of omitted ones.
    pub(crate) fn locate(&self, text: &str) -> Vec<Diagnostic> {
        let mut diagnostics: Vec<_> = self.faults.iter().map(|fault| fault.locate(text)).collect();
        if self.more > 0 {
            diagnostics.push(Diagnostic {
                pointer: String::new(),
                expected: format!("at most {MAX_NOTED} faults in one text").into(),
                found: format!("{} more", self.more),
                kept: false,
            });
        }
        diagnostics
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str, revision: WireFormat) -> Self {
        let mut reader = Reader {
            text,
            position: 0,
            depth: 0,
            revision,
            tolerant: false,
            keep_all_items: false,
            tolerated: Noted::default(),
            remarks: None,
        };
        reader.skip_whitespace();
        reader
    }

    pub(crate) fn tolerant(mut self) -> Self {
        self.tolerant = true;
        self
    }

    /// Also collects remarks about valid but questionable content.
    pub(crate) fn with_remarks(mut self) -> Self {
        self.remarks = Some(Noted::default());
        self
    }

    #[inline]
    pub(crate) fn revision(&self) -> WireFormat {
        self.revision
    }

    /// Returns true if the text is being validated rather than used.
    #[inline]
    pub(crate) fn is_validating(&self) -> bool {
        self.remarks.is_some()
    }

    #[inline]
    pub(crate) fn is_tolerant(&self) -> bool {
        self.tolerant
    }

    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    pub(crate) fn take_tolerated(&mut self) -> Noted {
        std::mem::take(&mut self.tolerated)
    }

    pub(crate) fn take_remarks(&mut self) -> Noted {
        self.remarks.take().unwrap_or_default()
    }

    /// Adds a remark if remarks are collected.
    #[cold]
    pub(crate) fn remark(&mut self, offset: usize, what: impl FnOnce() -> String) {
        if let Some(remarks) = &mut self.remarks {
            remarks.push(Fault { offset, problem: Problem::Rule(what().into()) });
        }
    }

    /// Reports a violated rule: an error in strict reading, a note in tolerant reading.
    #[cold]
    pub(crate) fn broken_rule(&mut self, offset: usize, rule: impl Into<Cow<'static, str>>) -> Read<()> {
        if self.tolerant {
            self.tolerated.push(Fault { offset, problem: Problem::Kept(rule.into()) });
            Ok(())
        } else {
            self.fault(offset, Problem::Rule(rule.into()))
        }
    }

    #[cold]
    pub(crate) fn fault<T>(&self, offset: usize, problem: Problem) -> Read<T> {
        Err(Fault::new(offset, problem))
    }

    #[cold]
    pub(crate) fn expected<T>(&self, what: &'static str) -> Read<T> {
        if self.position >= self.text.len() {
            return self.syntax(what);
        }
        self.fault(self.position, Problem::Expected(what.into()))
    }

    #[cold]
    fn syntax<T>(&self, what: &'static str) -> Read<T> {
        self.fault(self.position, Problem::Syntax(what))
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    #[inline]
    pub(crate) fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.position += 1;
        }
    }

    /// Returns to a saved position.
    pub(crate) fn rewind(&mut self, place: ReaderPosition) {
        self.position = place.position;
        self.depth = place.depth;
    }

    /// Returns the current position.
    #[inline]
    pub(crate) fn place(&self) -> ReaderPosition {
        ReaderPosition { position: self.position, depth: self.depth }
    }

    /// Checks that only white space follows.
    pub(crate) fn finish(&mut self) -> Read<()> {
        self.skip_whitespace();
        if self.position < self.text.len() {
            return self.syntax("the end of the text");
        }
        Ok(())
    }

    // ----- objects and arrays

    #[inline]
    pub(crate) fn begin_object(&mut self) -> Read<()> {
        if self.peek() != Some(b'{') {
            return self.expected("an object");
        }
        self.enter()
    }

    #[inline]
    pub(crate) fn begin_array(&mut self) -> Read<()> {
        if self.peek() != Some(b'[') {
            return self.expected("an array");
        }
        self.enter()
    }

    #[inline]
    fn enter(&mut self) -> Read<()> {
        if self.depth >= MAX_DEPTH {
            return self.syntax("at most 128 levels of nesting");
        }
        self.depth += 1;
        self.position += 1;
        Ok(())
    }

    /// Returns the next key of the object, with the position at its value. `None` after the closing brace.
    #[inline]
    pub(crate) fn next_key(&mut self, first: &mut bool) -> Read<Option<Cow<'a, str>>> {
        self.skip_whitespace();
        match self.peek() {
            Some(b'}') => {
                self.position += 1;
                self.depth -= 1;
                return Ok(None);
            }
            Some(b',') if !*first => {
                self.position += 1;
                self.skip_whitespace();
            }
            Some(_) if *first => {}
            _ => return self.syntax("a comma or a closing brace"),
        }
        *first = false;
        if self.peek() != Some(b'"') {
            return self.syntax("a key in quotes");
        }
        let key = self.read_string()?;
        self.skip_whitespace();
        if self.peek() != Some(b':') {
            return self.syntax("a colon");
        }
        self.position += 1;
        self.skip_whitespace();
        Ok(Some(key))
    }

    /// Returns the next key of an object with known keys, if it can be recognized quickly. Most writers use
    /// one order, so the key at `expected` and the following ones are compared, without searching for the end
    /// of the key.
    #[inline(always)]
    pub(crate) fn expect_key(&mut self, first: bool, keys: &'static [KnownKey], expected: usize) -> NextKey {
        if self.peek() == Some(b'}') {
            self.position += 1;
            self.depth -= 1;
            return NextKey::End;
        }
        self.expect_first_key(first, keys, expected)
    }

    /// Compares the expected key first.
    // No calls except at the end, so that no registers are saved: this runs for each key of each message.
    #[inline(never)]
    fn expect_first_key(&mut self, first: bool, keys: &'static [KnownKey], expected: usize) -> NextKey {
        let start = match self.peek() {
            _ if first => self.position,
            Some(b',') => self.position + 1,
            _ => return NextKey::Unclear,
        };
        match (keys.get(expected), self.head_at(start)) {
            (Some(key), Some(head)) if key.has_head(head) && key.quoted.len() <= 16 => {
                self.pass_key(start, key);
                NextKey::Known(expected)
            }
            _ => self.expect_any_key(start, keys, expected),
        }
    }

    #[inline(never)]
    fn expect_any_key(&mut self, start: usize, keys: &'static [KnownKey], expected: usize) -> NextKey {
        let Some(head) = self.head_at(start) else { return NextKey::Unclear };
        let bytes = self.text.as_bytes();
        let mut index = expected;
        while let Some(key) = keys.get(index) {
            if key.has_head(head) && (key.quoted.len() <= 16 || key.has_tail(bytes, start)) {
                self.pass_key(start, key);
                return NextKey::Known(index);
            }
            index += 1;
        }
        NextKey::Unclear
    }

    /// Returns the sixteen bytes from an offset.
    #[inline(always)]
    fn head_at(&self, start: usize) -> Option<u128> {
        let head = self.text.as_bytes().get(start..)?.first_chunk()?;
        Some(u128::from_le_bytes(*head))
    }

    #[inline(always)]
    fn pass_key(&mut self, start: usize, key: &KnownKey) {
        self.position = start + key.quoted.len();
        self.skip_whitespace();
    }

    /// Like [`Reader::next_key`], for an object with known keys.
    #[inline(never)]
    pub(crate) fn find_key(
        &mut self,
        first: &mut bool,
        keys: &'static [KnownKey],
        expected: &mut usize,
    ) -> Read<Option<Key<'a>>> {
        let Some(key) = self.next_key(first)? else { return Ok(None) };
        Ok(Some(match keys.iter().position(|known| known.name() == key) {
            Some(index) => {
                *expected = index + 1;
                Key::Known(index)
            }
            None => Key::Other(key),
        }))
    }

    /// Returns true if a text is at the current position.
    #[inline]
    pub(crate) fn is_at(&self, text: &str) -> bool {
        self.text.as_bytes()[self.position..].starts_with(text.as_bytes())
    }

    /// Returns the last member of the whole text if it is a string under this key, followed only by closing
    /// braces. It may belong to any enclosing object. Not used while remarks are collected, because those of
    /// a wrong guess would remain.
    pub(crate) fn last_member(&self, key: &str) -> Option<LastMember> {
        if self.remarks.is_some() {
            return None;
        }
        let bytes = self.text.as_bytes();
        let end = bytes.iter().rposition(|byte| !matches!(byte, b'}' | b' ' | b'\n' | b'\r' | b'\t'))?;
        if bytes[end] != b'"' {
            return None;
        }
        let value = 1 + find_last_quote(&bytes[..end])?;
        let start = (value - 1).checked_sub(key.len())?;
        let is_it = start > self.position && bytes[start..].starts_with(key.as_bytes());
        is_it.then_some(LastMember { start, value, end })
    }

    /// Returns the value of a member found at the end of the text.
    pub(crate) fn text_of(&self, member: LastMember) -> &'a str {
        &self.text[member.value..member.end]
    }

    /// Skips a member found at the end of the text if it is the next one.
    #[inline]
    pub(crate) fn pass_member(&mut self, member: LastMember) -> bool {
        let is_next = self.position + 1 == member.start && self.peek() == Some(b',');
        if is_next {
            self.position = member.end + 1;
        }
        is_next
    }

    pub(crate) fn tolerated_count(&self) -> (usize, usize) {
        (self.tolerated.faults.len(), self.tolerated.more)
    }

    /// Returns to a saved position and discards errors tolerated since.
    pub(crate) fn forget_since(&mut self, place: ReaderPosition, (faults, more): (usize, usize)) {
        self.rewind(place);
        self.tolerated.faults.truncate(faults);
        self.tolerated.more = more;
    }

    /// Skips a text if it is at the current position.
    #[inline]
    pub(crate) fn take_text(&mut self, text: &str) -> bool {
        let found = self.is_at(text);
        if found {
            self.position += text.len();
        }
        found
    }

    /// Returns true if the array has another item, with the position at it. False after the closing bracket.
    #[inline]
    pub(crate) fn next_item(&mut self, first: bool) -> Read<bool> {
        self.skip_whitespace();
        match self.peek() {
            Some(b']') => {
                self.position += 1;
                self.depth -= 1;
                return Ok(false);
            }
            Some(b',') if !first => {
                self.position += 1;
                self.skip_whitespace();
            }
            Some(_) if first => {}
            _ => return self.syntax("a comma or a closing bracket"),
        }
        Ok(true)
    }

    // ----- scalars

    #[inline]
    pub(crate) fn read_string(&mut self) -> Read<Cow<'a, str>> {
        let bytes = self.text.as_bytes();
        if bytes.get(self.position) != Some(&b'"') {
            return self.expected("a string");
        }
        let start = self.position + 1;
        let end = find_special(bytes, start);
        if bytes.get(end) == Some(&b'"') {
            self.position = end + 1;
            return Ok(Cow::Borrowed(&self.text[start..end]));
        }
        self.read_escaped(start, end)
    }

    /// Reads a string with escapes, which is plain up to `special`. Finds its end first, so that one
    /// allocation is enough.
    #[inline(never)]
    fn read_escaped(&mut self, start: usize, special: usize) -> Read<Cow<'a, str>> {
        let bytes = self.text.as_bytes();
        let mut end = special;
        while let Some(b'\\') = bytes.get(end) {
            end = find_special(bytes, end + 2);
        }
        if bytes.get(end) != Some(&b'"') {
            // Not a string: this finds the reason.
            self.skip_string()?;
        }
        let mut string = String::with_capacity(end - start);
        let (mut copied, mut found) = (start, special);
        while found < end {
            string.push_str(&self.text[copied..found]);
            match read_escape(bytes, found) {
                Ok((character, next)) => {
                    string.push(character);
                    copied = next;
                }
                Err(what) => {
                    self.position = found;
                    return self.syntax(what);
                }
            }
            found = find_special(&bytes[..end], copied);
        }
        string.push_str(&self.text[copied..end]);
        self.position = end + 1;
        Ok(Cow::Owned(string))
    }

    /// Reads `null` if it is next. Returns false otherwise.
    #[inline]
    pub(crate) fn take_null(&mut self) -> Read<bool> {
        if self.peek() != Some(b'n') {
            return Ok(false);
        }
        self.skip_literal("null")?;
        Ok(true)
    }

    pub(crate) fn read_boolean(&mut self) -> Read<bool> {
        match self.peek() {
            Some(b't') => self.skip_literal("true").map(|()| true),
            Some(b'f') => self.skip_literal("false").map(|()| false),
            _ => self.expected("a boolean"),
        }
    }

    /// Returns the number with its original spelling.
    pub(crate) fn read_number(&mut self, what: &'static str) -> Read<&'a str> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => {
                let start = self.position;
                self.skip_number()?;
                Ok(&self.text[start..self.position])
            }
            _ => self.expected(what),
        }
    }

    // ----- continuing after an error

    /// Reads an optional value: in tolerant reading, a malformed one is noted and skipped.
    #[inline]
    pub(crate) fn leave_out<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<Option<T>> {
        let place = self.place();
        match read(self) {
            Ok(value) => Ok(Some(value)),
            Err(fault) => {
                self.recover(place, fault)?;
                Ok(None)
            }
        }
    }

    #[cold]
    pub(crate) fn recover(&mut self, place: ReaderPosition, fault: Box<Fault>) -> Read<()> {
        if !self.tolerant || matches!(fault.problem, Problem::Syntax(_)) {
            return Err(fault);
        }
        self.rewind(place);
        self.skip_value()?;
        self.tolerated.push(*fault);
        Ok(())
    }

    /// Reads the next value such that a malformed array item makes the array malformed.
    #[inline]
    pub(crate) fn keeping_all_items<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.keep_all_items = true;
        let value = read(self);
        self.keep_all_items = false;
        value
    }

    /// Returns true if the next array must keep all items. Applies to that array only, not to nested ones.
    #[inline]
    pub(crate) fn take_keep_all_items(&mut self) -> bool {
        std::mem::take(&mut self.keep_all_items)
    }
}

/// A known key of a type.
#[derive(Debug)]
pub(crate) struct KnownKey {
    /// The key as in a text: quoted, with a colon.
    quoted: &'static str,
    /// Its first sixteen bytes, and a mask of the relevant ones.
    head: u128,
    mask: u128,
    /// Its last sixteen bytes, if it is longer.
    tail: u128,
}

impl KnownKey {
    pub(crate) const fn new(quoted: &'static str) -> Self {
        let bytes = quoted.as_bytes();
        assert!(bytes.len() <= 32, "a longer key has bytes that neither its head nor its tail has");
        let (mut head, mut mask, mut tail, mut index) = (0, 0, 0, 0);
        while index < bytes.len() {
            if index < 16 {
                head |= (bytes[index] as u128) << (8 * index);
                mask |= 0xff << (8 * index);
            }
            tail = tail >> 8 | (bytes[index] as u128) << 120;
            index += 1;
        }
        KnownKey { quoted, head, mask, tail }
    }

    pub(crate) fn name(&self) -> &'static str {
        &self.quoted[1..self.quoted.len() - 2]
    }

    #[inline(always)]
    fn has_head(&self, head: u128) -> bool {
        head & self.mask == self.head
    }

    /// Returns true if the text has the end of the key, for a key that starts at `start`.
    fn has_tail(&self, text: &[u8], start: usize) -> bool {
        let tail = text.get(start + self.quoted.len() - 16..).and_then(<[u8]>::first_chunk);
        tail.is_some_and(|tail| u128::from_le_bytes(*tail) == self.tail)
    }
}

/// A key and a string at the end of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastMember {
    /// Start of the key, including its quote.
    start: usize,
    /// Start of the value, after its quote.
    value: usize,
    /// End of the value: its closing quote.
    end: usize,
}

/// Next part of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NextKey {
    /// A known key, with the position at its value.
    Known(usize),
    /// The end: the position is after the closing brace.
    End,
    /// Something else, still unread.
    Unclear,
}

/// A key of an object.
#[derive(Debug)]
pub(crate) enum Key<'a> {
    /// A known key.
    Known(usize),
    Other(Cow<'a, str>),
}

/// A position in the text to which a reader can return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReaderPosition {
    position: usize,
    depth: u32,
}

impl ReaderPosition {
    pub(crate) fn offset(self) -> usize {
        self.position
    }
}
