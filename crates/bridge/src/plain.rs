//! Terminal output as text.

/// Text decoded from terminal bytes. Input may arrive in any portions, cut inside a character or a control
/// sequence.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputText {
    text: String,
    /// First bytes of an incomplete character.
    incomplete: Vec<u8>,
    state: ScanState,
    /// Set if control sequences are kept, for readers that understand them.
    keeps_controls: bool,
    /// Length of the text that a backspace can no longer erase.
    settled: usize,
}

/// State of the control sequence scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ScanState {
    #[default]
    Text,
    /// After a carriage return, which is a line end of its own unless a line feed follows.
    Return,
    Escape,
    /// Inside a control sequence, until the final byte.
    Control,
    /// Inside a string, until the bell or the string terminator.
    String,
    StringEscape,
    /// Before the character that completes a designation, such as a character set.
    Designation,
}

/// Returns output as a Markdown code block. The fence is longer than any run of backticks in the output, so that
/// nothing in it ends the block.
pub(crate) fn code_block(output: &str) -> String {
    let longest = output.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if output.ends_with('\n') { "" } else { "\n" };
    format!("{fence}console\n{output}{end}{fence}")
}

impl OutputText {
    /// Creates a text that drops control sequences.
    pub(crate) fn plain() -> Self {
        OutputText::default()
    }

    /// Creates a text that keeps control sequences and replaces only invalid UTF-8.
    pub(crate) fn with_controls() -> Self {
        OutputText { keeps_controls: true, ..OutputText::default() }
    }

    /// Returns an empty text of the same kind.
    pub(crate) fn emptied(&self) -> Self {
        OutputText { keeps_controls: self.keeps_controls, ..OutputText::default() }
    }

    /// Returns the length of the settled text.
    pub(crate) fn settled(&self) -> usize {
        self.settled
    }

    /// Marks the first `length` bytes as settled.
    pub(crate) fn settle(&mut self, length: usize) {
        self.settled = length.min(self.text.len());
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let joined;
        let mut rest = bytes;
        if !self.incomplete.is_empty() {
            self.incomplete.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.incomplete);
            rest = &joined;
        }
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => return self.push_text(text),
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            self.push_text(std::str::from_utf8(valid).unwrap_or_default());
            match error.error_len() {
                Some(length) => {
                    self.push_text("\u{fffd}");
                    rest = &after[length..];
                }
                None => {
                    self.incomplete = after.to_vec();
                    return;
                }
            }
        }
    }

    fn push_text(&mut self, text: &str) {
        if self.keeps_controls {
            self.text.push_str(text);
        } else {
            text.chars().for_each(|character| self.push_character(character));
        }
    }

    fn push_character(&mut self, character: char) {
        self.state = match (self.state, character) {
            (ScanState::Return, '\n') => {
                self.text.push('\n');
                ScanState::Text
            }
            (ScanState::Return, other) => {
                self.text.push('\n');
                self.state = ScanState::Text;
                return self.push_character(other);
            }
            (ScanState::StringEscape, other) if other != '\\' => {
                self.state = ScanState::Text;
                return self.push_character(other);
            }
            (ScanState::Text, '\u{1b}') => ScanState::Escape,
            (ScanState::Text, '\r') => ScanState::Return,
            (ScanState::Text, '\u{8}') => {
                if self.text.len() > self.settled && self.text.ends_with(|last: char| last != '\n') {
                    self.text.pop();
                }
                ScanState::Text
            }
            (ScanState::Text, other) => {
                if matches!(other, '\n' | '\t') || !other.is_control() {
                    self.text.push(other);
                }
                ScanState::Text
            }
            (ScanState::Escape, '[') => ScanState::Control,
            (ScanState::Escape, ']' | 'P' | '^' | '_' | 'X') => ScanState::String,
            (ScanState::Escape, '(' | ')' | '*' | '+' | '#' | '%' | ' ') => ScanState::Designation,
            (ScanState::Control, '\u{40}'..='\u{7e}') | (ScanState::String, '\u{7}') => ScanState::Text,
            (ScanState::String, '\u{1b}') => ScanState::StringEscape,
            (ScanState::Control | ScanState::String, _) => self.state,
            (ScanState::Escape | ScanState::StringEscape | ScanState::Designation, _) => ScanState::Text,
        };
    }

    /// Drops the oldest text so that at most `limit` bytes remain. Returns the number of bytes dropped.
    pub(crate) fn keep_within(&mut self, limit: usize) -> usize {
        let over = self.text.len().saturating_sub(limit);
        if over == 0 {
            return 0;
        }
        // Drop more than necessary, so that this does not happen again with the next chunk.
        let mut cut = (over + limit / 4).min(self.text.len());
        while !self.text.is_char_boundary(cut) {
            cut += 1;
        }
        self.text.drain(..cut);
        self.settled = self.settled.saturating_sub(cut);
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::OutputText;

    #[test]
    fn control_sequences_are_gone_and_text_stays_however_it_is_cut() {
        let cases: [(&[u8], &str); 8] = [
            (b"ok\n", "ok\n"),
            (b"\x1b[1;32mgreen\x1b[0m", "green"),
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"a\r\nb\rc", "a\nb\nc"),
            (b"ab\x08c\x07", "ac"),
            (b"\xff\xfe\x1b[", "\u{fffd}\u{fffd}"),
            ("gr\u{fc}n \u{1f422}\x1b(B!".as_bytes(), "gr\u{fc}n \u{1f422}!"),
        ];
        for (bytes, expected) in cases {
            for portion in 1..=bytes.len() {
                let mut output = OutputText::plain();
                bytes.chunks(portion).for_each(|portion| output.push(portion));
                assert_eq!(output.as_str(), expected, "{bytes:?} by {portion}");
            }
        }
    }

    #[test]
    fn the_oldest_text_goes_first() {
        let mut output = OutputText::with_controls();
        output.push("\u{1f422}\u{1f422}\u{1f422}\u{1f422}".as_bytes());
        assert_eq!(output.keep_within(16), 0);
        assert_eq!(output.keep_within(9), 12);
        assert_eq!(output.as_str(), "\u{1f422}");
    }
}
