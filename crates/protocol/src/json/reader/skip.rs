//! Skips values of any type.

use super::super::raw::Raw;
use super::super::string::{find_special, read_escape};
use super::Reader;
use crate::error::Read;

impl<'a> Reader<'a> {
    /// Skips a value and checks that it is valid JSON.
    pub(crate) fn skip_value(&mut self) -> Read<()> {
        match self.peek() {
            Some(b'"') => self.skip_string(),
            Some(b'{') => {
                self.enter()?;
                let mut first = true;
                loop {
                    self.skip_whitespace();
                    match self.peek() {
                        Some(b'}') => break,
                        Some(b',') if !first => {
                            self.position += 1;
                            self.skip_whitespace();
                        }
                        Some(_) if first => {}
                        _ => return self.syntax("a comma or a closing brace"),
                    }
                    first = false;
                    if self.peek() != Some(b'"') {
                        return self.syntax("a key in quotes");
                    }
                    self.skip_string()?;
                    self.skip_whitespace();
                    if self.peek() != Some(b':') {
                        return self.syntax("a colon");
                    }
                    self.position += 1;
                    self.skip_whitespace();
                    self.skip_value()?;
                }
                self.position += 1;
                self.depth -= 1;
                Ok(())
            }
            Some(b'[') => {
                self.enter()?;
                let mut first = true;
                while self.next_item(first)? {
                    first = false;
                    self.skip_value()?;
                }
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.skip_number(),
            Some(b't') => self.skip_literal("true"),
            Some(b'f') => self.skip_literal("false"),
            Some(b'n') => self.skip_literal("null"),
            _ => self.syntax("a JSON value"),
        }
    }

    /// Skips a value that will be parsed later: only finds its end.
    pub(crate) fn pass_over(&mut self) -> Read<()> {
        let bytes = self.text.as_bytes();
        let mut depth = 0;
        loop {
            match bytes.get(self.position) {
                Some(b'"') => {
                    let mut position = self.position + 1;
                    self.position = loop {
                        let found = find_special(bytes, position);
                        match bytes.get(found) {
                            Some(b'"') => break found + 1,
                            Some(b'\\') => position = found + 2,
                            Some(_) => position = found + 1,
                            None => break found,
                        }
                    };
                }
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.position += 1;
                }
                Some(b'}' | b']') if depth > 0 => {
                    depth -= 1;
                    self.position += 1;
                }
                Some(b',' | b'}' | b']') if depth == 0 => return Ok(()),
                Some(_) => self.position += 1,
                None => return self.syntax("the end of a value"),
            }
            if depth == 0 {
                // A number or a literal has no terminator: it ends at the next token.
                match bytes.get(self.position) {
                    Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') => return Ok(()),
                    Some(_) => {}
                    None => return self.syntax("the end of a value"),
                }
            }
        }
    }

    /// Returns the value without parsing it.
    pub(crate) fn read_raw(&mut self) -> Read<Raw<'a>> {
        let start = self.position;
        self.skip_value()?;
        Ok(Raw::from_checked(&self.text[start..self.position]))
    }

    pub(super) fn skip_literal(&mut self, literal: &'static str) -> Read<()> {
        if self.text[self.position..].starts_with(literal) {
            self.position += literal.len();
            Ok(())
        } else {
            self.syntax("a JSON value")
        }
    }

    fn skip_digits(&mut self) -> Read<()> {
        let start = self.position;
        while let Some(b'0'..=b'9') = self.peek() {
            self.position += 1;
        }
        if self.position == start { self.syntax("a digit") } else { Ok(()) }
    }

    pub(super) fn skip_number(&mut self) -> Read<()> {
        if self.peek() == Some(b'-') {
            self.position += 1;
        }
        if self.peek() == Some(b'0') {
            self.position += 1;
        } else {
            self.skip_digits()?;
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.skip_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.position += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.position += 1;
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    pub(super) fn skip_string(&mut self) -> Read<()> {
        let bytes = self.text.as_bytes();
        let mut position = self.position + 1;
        loop {
            self.position = find_special(bytes, position);
            match bytes.get(self.position) {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(());
                }
                Some(b'\\') => match read_escape(bytes, self.position) {
                    Ok((_, next)) => position = next,
                    Err(what) => return self.syntax(what),
                },
                Some(_) => return self.syntax("an escaped control character"),
                None => return self.syntax("a closing quote"),
            }
        }
    }
}
