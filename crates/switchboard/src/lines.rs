//! JSON lines input with a length limit, so that memory is bounded.

use std::io::{self, BufRead};

use crate::arguments::InputArgument;
use crate::outcome::CommandError;

/// Maximum length of a line, as for a message on a connection.
pub(crate) const MAX_LINE: usize = 32 * 1024 * 1024;

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'b> {
    /// The line without its end.
    Text(&'b [u8]),
    /// A line above the limit, which was skipped.
    TooLong {
        /// Its length in bytes.
        length: u64,
    },
}

/// Reads lines one by one into one buffer.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    limit: usize,
    number: u64,
}

/// A line with its number. The error names the problem of a line that is not UTF-8 or too long.
type Numbered<'b> = (u64, Result<&'b str, String>);

impl Lines<Box<dyn BufRead>> {
    /// Returns the lines of a filter's input.
    pub(crate) fn of(input: &InputArgument) -> Result<Self, CommandError> {
        input.open().map(Lines::new)
    }

    /// Returns the next line that is not empty.
    pub(crate) fn next_text(&mut self, input: &InputArgument) -> Result<Option<Numbered<'_>>, CommandError> {
        loop {
            let found = self
                .read()
                .map_err(|error| CommandError::failed(format!("cannot read {}: {error}", input.name())))?;
            match found {
                None => return Ok(None),
                Some(length) if length > self.limit as u64 => {
                    let limit = self.limit;
                    let problem = format!("expected at most {limit} bytes in a line, found {length}");
                    return Ok(Some((self.number, Err(problem))));
                }
                Some(_) if self.buffer.trim_ascii().is_empty() => {}
                Some(_) => break,
            }
        }
        let text = std::str::from_utf8(&self.buffer).map_err(|error| format!("expected UTF-8, {error}"));
        Ok(Some((self.number, text)))
    }
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Lines::with_limit(input, MAX_LINE)
    }

    pub(crate) fn with_limit(input: R, limit: usize) -> Self {
        Lines { input, buffer: Vec::new(), limit, number: 0 }
    }

    /// Returns the 1-based number of the last line.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the next line; `None` at the end of the input.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        Ok(self.read()?.map(|length| {
            if length > self.limit as u64 { Line::TooLong { length } } else { Line::Text(&self.buffer) }
        }))
    }

    /// Reads a line into the buffer, and returns its length. A line above the limit is not kept.
    fn read(&mut self) -> io::Result<Option<u64>> {
        self.buffer.clear();
        let mut length: u64 = 0;
        loop {
            let available = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if available.is_empty() {
                if length == 0 {
                    return Ok(None);
                }
                break;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            length += part.len() as u64;
            if length <= self.limit as u64 {
                self.buffer.extend_from_slice(part);
            }
            let consumed = part.len() + usize::from(end.is_some());
            self.input.consume(consumed);
            if end.is_some() {
                break;
            }
        }
        self.number += 1;
        if length > self.limit as u64 {
            self.buffer = Vec::new();
        }
        Ok(Some(length))
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Lines};

    fn read(input: &[u8], limit: usize) -> Vec<String> {
        let mut lines = Lines::with_limit(input, limit);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push(match line {
                Line::Text(text) => String::from_utf8_lossy(text).into_owned(),
                Line::TooLong { length } => format!("<{length}>"),
            });
        }
        seen
    }

    #[test]
    fn the_line_after_a_long_one_is_read() {
        assert_eq!(read(b"ab\nabcdef\n\ncd", 4), ["ab", "<6>", "", "cd"]);
    }

    #[test]
    fn a_last_line_without_its_end_counts() {
        assert_eq!(read(b"ab\ncd", 4), ["ab", "cd"]);
        assert_eq!(read(b"ab\n", 4), ["ab"]);
        assert_eq!(read(b"", 4), [""; 0]);
    }
}
