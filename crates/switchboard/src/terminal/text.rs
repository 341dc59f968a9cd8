//! Sanitizing of foreign text.

use std::borrow::Cow;
use std::fmt::Write;

/// Makes characters visible that a terminal would execute or that would change how text reads: control
/// characters, terminal escapes, and characters that reorder or hide text. Line breaks and tabs are kept.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\0'..='\u{1F}' if is_hidden(character) => {
                // The Unicode block of control pictures has one for each.
                shown.push(char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{FFFD}'));
            }
            '\u{7F}' => shown.push('\u{2421}'),
            _ if is_hidden(character) => {
                let _ = write!(shown, "<U+{:04X}>", u32::from(character));
            }
            _ => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Returns whether a character would control a terminal, or reorder or hide text.
pub(crate) fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // Joins the parts of many emoji, and of words in some scripts.
        '\u{200C}' | '\u{200D}' => false,
        '\u{AD}'
        | '\u{61C}'
        | '\u{180E}'
        | '\u{200B}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{FEFF}'
        | '\u{FFF9}'..='\u{FFFB}'
        | '\u{E0000}'..='\u{E007F}' => true,
        // Noncharacters.
        '\u{FDD0}'..='\u{FDEF}' => true,
        other => other.is_control() || u32::from(other) & 0xFFFE == 0xFFFE,
    }
}

/// Returns [`visible`] text on one line, for titles and similar texts.
pub(crate) fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "␊").replace('\t', " ")
}

/// Returns terminal output of a program without escapes for colors and similar, which are common there. The
/// rest is made visible.
pub(crate) fn terminal_output(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(place) = rest.find('\u{1B}') {
        plain.push_str(&rest[..place]);
        rest = &rest[place..];
        let length = sequence_length(rest);
        if length == 0 {
            plain.push('\u{1B}');
            rest = &rest[1..];
        } else {
            rest = &rest[length..];
        }
    }
    plain.push_str(rest);
    visible(&plain).into_owned()
}

/// Returns the length of a complete control sequence at the start; 0 if there is none.
fn sequence_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.get(1) != Some(&b'[') {
        return 0;
    }
    let end = bytes[2..].iter().position(|byte| !(0x20..=0x3F).contains(byte));
    match end {
        Some(end) if (0x40..=0x7E).contains(&bytes[2 + end]) => end + 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{terminal_output, visible, visible_line};

    #[test]
    fn what_would_deceive_is_visible() {
        assert_eq!(visible("plain ü 👩‍💻\n\ttext"), "plain ü 👩‍💻\n\ttext");
        assert_eq!(visible("\u{1B}[2J\u{1B}]0;title\u{7}"), "␛[2J␛]0;title␇");
        assert_eq!(visible("rm \u{202E}txt.exe"), "rm <U+202E>txt.exe");
        assert_eq!(visible("a\u{200B}b\u{FEFF}\u{E0041}"), "a<U+200B>b<U+FEFF><U+E0041>");
        assert_eq!(visible("a\r\nb\rc\u{9B}31m\u{7F}"), "a\nb␍c<U+009B>31m␡");
        assert_eq!(visible_line("a\nb\tc"), "a␊b c");
    }

    #[test]
    fn output_of_programs_loses_its_colours_only() {
        assert_eq!(terminal_output("\u{1B}[1;32mgrün\u{1B}[0m\r\n".as_bytes()), "grün\n");
        assert_eq!(terminal_output(b"\x1B]0;title\x07 \x1B[31"), "␛]0;title␇ ␛[31");
        assert_eq!(terminal_output(b"\xC3"), "\u{FFFD}");
        assert_eq!(terminal_output("\u{1B}é\u{1B}".as_bytes()), "␛é␛");
    }
}
