//! Text for people: untrusted text with its hidden characters made visible, and durations.
//!
//! Everything that a peer sends may hold terminal escapes, or characters that reorder or hide other text. A program that
//! prints such text, or asks a person to approve it, passes it through [`visible`] first.
//!
//! ```
//! use switchboard_acp::display::{visible, visible_line};
//!
//! assert_eq!(visible("rm \u{202E}txt.exe"), "rm <U+202E>txt.exe");
//! assert_eq!(visible_line("two\nlines"), "two␊lines");
//! ```

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

/// Returns the text with every hidden character replaced by a visible one: control characters, terminal escapes, and
/// characters that reorder or hide text. Line breaks and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\0'..='\u{1F}' if is_hidden(character) => {
                // The block of control pictures has one for each.
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

/// Returns whether a terminal would act upon a character, or the character reorders or hides text.
pub fn is_hidden(character: char) -> bool {
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
        // Codes that are for no character.
        '\u{FDD0}'..='\u{FDEF}' => true,
        other => other.is_control() || u32::from(other) & 0xFFFE == 0xFFFE,
    }
}

/// Returns the [`visible`] text on one line, for titles and the like.
pub fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "␊").replace('\t', " ")
}

/// Formats a duration in the unit that suits it: `340 ms`, `1.5 s`, `2 min 5 s`.
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_micros() {
        0 => "0 s".to_owned(),
        small @ 1..1_000 => format!("{small} µs"),
        1_000..10_000 => format!("{:.1} ms", seconds * 1e3),
        10_000..1_000_000 => format!("{} ms", time.as_millis()),
        1_000_000..60_000_000 => format!("{seconds:.1} s"),
        _ => format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deceptive_characters_are_made_visible() {
        assert_eq!(visible("plain ü 👩‍💻\n\ttext"), "plain ü 👩‍💻\n\ttext");
        assert_eq!(visible("\u{1B}[2J\u{1B}]0;title\u{7}"), "␛[2J␛]0;title␇");
        assert_eq!(visible("rm \u{202E}txt.exe"), "rm <U+202E>txt.exe");
        assert_eq!(visible("a\u{200B}b\u{FEFF}\u{E0041}"), "a<U+200B>b<U+FEFF><U+E0041>");
        assert_eq!(visible("a\r\nb\rc\u{9B}31m\u{7F}"), "a\nb␍c<U+009B>31m␡");
        assert_eq!(visible_line("a\nb\tc"), "a␊b c");
    }

    #[test]
    fn durations_are_shown_in_the_unit_that_suits_them() {
        let times = [0, 250, 1_300, 999_000, 1_250_000, 61_500_000, 600_000_000];
        assert_eq!(
            times.map(|micros| elapsed(Duration::from_micros(micros))),
            ["0 s", "250 µs", "1.3 ms", "999 ms", "1.2 s", "1 min 1 s", "10 min 0 s"]
        );
    }
}
