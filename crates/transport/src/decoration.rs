//! Terminal escapes, control characters and byte-order marks around a message.

/// Byte-order mark in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns the number of leading bytes that are white space, control characters, byte-order marks or terminal
/// escapes.
pub(crate) fn leading_decoration(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        at += match rest[0] {
            0x1B => escape_length(rest),
            byte if byte <= b' ' || byte == 0x7F => 1,
            _ if rest.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len(),
            _ => break,
        };
    }
    at
}

/// Returns the length of the terminal escape at the start of `bytes`, or of all bytes if it does not end.
fn escape_length(bytes: &[u8]) -> usize {
    let until = |start: usize, last: fn(&u8) -> bool| {
        bytes[start.min(bytes.len())..].iter().position(last).map_or(bytes.len(), |at| start + at + 1)
    };
    match bytes.get(1) {
        // Control sequence: parameters, then a final byte.
        Some(b'[') => until(2, |byte| (0x40..=0x7E).contains(byte)),
        // String (title, hyperlink): ends with BEL, or with ESC and a backslash.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let mut at = 2;
            while at < bytes.len() {
                match (bytes[at], bytes.get(at + 1)) {
                    (0x07, _) => return at + 1,
                    (0x1B, Some(b'\\')) => return at + 2,
                    _ => at += 1,
                }
            }
            bytes.len()
        }
        // Intermediate bytes, then a final byte: character sets and similar.
        Some(0x20..=0x2F) => until(2, |byte| (0x30..=0x7E).contains(byte)),
        Some(_) => 2,
        None => 1,
    }
}

/// Returns the text without terminal escapes and control characters, safe to display.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            // All bytes of an escape are ASCII or text, so it ends at a character boundary.
            '\u{1B}' => (escape_length(rest.as_bytes())..rest.len())
                .find(|end| rest.is_char_boundary(*end))
                .unwrap_or(rest.len()),
            _ => character.len_utf8(),
        };
        if !character.is_control() || character == '\t' {
            shown.push(character);
        }
        rest = &rest[length..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{leading_decoration, plain};

    #[test]
    fn plain_text_has_no_escapes() {
        assert_eq!(plain("\x1B[31merror\x1B[0m: é\tx\r"), "error: é\tx");
        assert_eq!(plain("\x1Bé\x1B"), "");
        assert_eq!(plain("a\x1B]0;never ends"), "a");
    }

    #[test]
    fn decoration_ends_where_the_text_begins() {
        let check = |text: &[u8], expected: &str| {
            let rest = &text[leading_decoration(text)..];
            assert_eq!(String::from_utf8_lossy(rest), expected, "{}", text.escape_ascii());
        };
        check(b"{}", "{}");
        check(b" \t{}", "{}");
        check(b"\xEF\xBB\xBF{}", "{}");
        check(b"\x1B[2K\x1B[1;31m{}", "{}");
        check(b"\x1B]0;title\x07{}", "{}");
        check(b"\x1B]8;;http://x\x1B\\{}", "{}");
        check(b"\x1B(B\x1B=\x00\x7F{}", "{}");
        check(b"\x1B[12", "");
        check(b"\x1B]0;endless", "");
        check(b"\x1B", "");
        check(b"\xEF\xBBx", "\u{FFFD}x");
        check(b"log", "log");
    }
}
