//! Escaping of untrusted text, with deceptive characters marked.

use std::borrow::Cow;
use std::fmt::Write;

use bytesize::ByteSize;
use maud::{Markup, PreEscaped};
use switchboard_acp::display::is_hidden;

/// Escapes text and marks deceptive characters: control characters, bidirectional and invisible characters, and
/// unusual spaces. Keeps line breaks and tabs. For commands, paths and lines of code.
pub(crate) fn visible(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + 16);
    push_visible(&mut out, text);
    PreEscaped(out)
}

/// Escapes text like [`visible`] and also marks line breaks. For titles and other single lines.
pub(crate) fn visible_line(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + 16);
    push_marked(&mut out, text, |character, before| {
        matches!(character, '\n' | '\r') || is_deceptive(character, before)
    });
    PreEscaped(out)
}

/// Escapes prose, and marks only characters that reorder, hide or control text.
pub(super) fn prose(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + 16);
    push_prose(&mut out, text);
    PreEscaped(out)
}

pub(super) fn push_visible(out: &mut String, text: &str) {
    push_marked(out, text, is_deceptive);
}

pub(super) fn push_prose(out: &mut String, text: &str) {
    push_marked(out, text, |character, _| is_hidden(character));
}

/// Escapes text for the content of an element.
fn push_text(out: &mut String, text: &str) {
    push_escaped(out, text, ['&', '<', '>'].as_slice());
}

/// Escapes text for an attribute in double quotes.
pub(super) fn push_attribute(out: &mut String, text: &str) {
    push_escaped(out, text, ['&', '<', '>', '"'].as_slice());
}

fn push_escaped(out: &mut String, text: &str, special: &[char]) {
    let mut plain = 0;
    for (place, found) in text.match_indices(special) {
        out.push_str(&text[plain..place]);
        out.push_str(match found {
            "&" => "&amp;",
            "<" => "&lt;",
            ">" => "&gt;",
            _ => "&quot;",
        });
        plain = place + found.len();
    }
    out.push_str(&text[plain..]);
}

fn push_marked(out: &mut String, text: &str, is_marked: impl Fn(char, Option<char>) -> bool) {
    let mut before = None;
    let mut plain = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((place, character)) = characters.next() {
        let is_line_end = character == '\r' && characters.peek().is_some_and(|(_, next)| *next == '\n');
        if is_line_end || is_marked(character, before) {
            push_text(out, &text[plain..place]);
            plain = place + character.len_utf8();
            if !is_line_end {
                push_mark(out, character);
            }
        }
        before = Some(character);
    }
    push_text(out, &text[plain..]);
}

fn push_mark(out: &mut String, character: char) {
    let code = u32::from(character);
    let name = name(character);
    let _ = match character {
        '\n' => write!(out, "<span class=\"hid\" title=\"line break\">↵</span>"),
        _ => write!(out, "<span class=\"hid\" title=\"{name}\">U+{code:04X}</span>"),
    };
}

/// Returns `true` if a character is deceptive in a command, a path or a title.
fn is_deceptive(character: char, before: Option<char>) -> bool {
    if character.is_ascii() {
        return is_hidden(character);
    }
    let after_letter = before.is_some_and(|before| before.is_ascii());
    match character {
        // Every space except U+0020.
        '\u{A0}' | '\u{1680}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => true,
        // Letters and marks without a glyph.
        '\u{34F}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{FFA0}'
        | '\u{E0100}'..='\u{E01EF}' => true,
        // These shape emoji and words of some scripts. After an ASCII letter they are invisible.
        '\u{200C}' | '\u{200D}' | '\u{FE00}'..='\u{FE0F}' => {
            after_letter && !before.is_some_and(|before| matches!(before, '#' | '*' | '0'..='9'))
        }
        other => is_hidden(other),
    }
}

fn name(character: char) -> &'static str {
    match character {
        '\u{A0}' => "no-break space",
        '\u{AD}' => "soft hyphen",
        '\u{200B}' => "zero width space",
        '\u{200C}' => "zero width non-joiner",
        '\u{200D}' => "zero width joiner",
        '\u{200E}' => "left-to-right mark",
        '\u{200F}' => "right-to-left mark",
        '\u{202A}' => "left-to-right embedding",
        '\u{202B}' => "right-to-left embedding",
        '\u{202C}' => "end of embedding or override",
        '\u{202D}' => "left-to-right override",
        '\u{202E}' => "right-to-left override",
        '\u{2060}' => "word joiner",
        '\u{2066}' => "left-to-right isolate",
        '\u{2067}' => "right-to-left isolate",
        '\u{2068}' => "first strong isolate",
        '\u{2069}' => "end of isolate",
        '\u{FEFF}' => "byte order mark",
        '\u{1B}' => "escape",
        '\u{E0000}'..='\u{E007F}' => "invisible tag",
        _ if character.is_control() => "control character",
        _ if character.is_whitespace() || ('\u{2000}'..='\u{200A}').contains(&character) => "unusual space",
        _ => "invisible character",
    }
}

/// Returns `true` if a browser returns an id in an attribute unchanged. Browsers replace carriage returns and NUL,
/// which could turn one answer into another.
pub(super) fn survives(id: &str) -> bool {
    !id.contains(['\r', '\0'])
}

/// Formats a number of bytes with a unit.
pub(super) fn size(bytes: usize) -> String {
    ByteSize(bytes as u64).display().iec().to_string()
}

/// Returns a path relative to a folder, or unchanged if it is not plainly inside.
pub(crate) fn relative<'p>(path: &'p str, folder: &str) -> &'p str {
    let folder = folder.trim_end_matches('/');
    let inside = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    let is_plain =
        |rest: &&str| !rest.is_empty() && !rest.starts_with('/') && !rest.split('/').any(|it| it == "..");
    match inside.filter(is_plain) {
        Some(inside) if !folder.is_empty() => inside,
        _ => path,
    }
}

/// Returns a text in which the paths inside a folder are relative to it.
pub(crate) fn with_relative_paths<'t>(text: &'t str, folder: &str) -> Cow<'t, str> {
    let folder = folder.trim_end_matches('/');
    if folder.len() < 2 || !text.contains(folder) {
        return Cow::Borrowed(text);
    }
    let is_name = |it: char| it.is_alphanumeric() || matches!(it, '/' | '.' | '-' | '_' | '~');
    let mut out = String::with_capacity(text.len());
    let mut plain = 0;
    for (start, found) in text.match_indices(folder) {
        let rest = &text[start + found.len()..];
        let is_start = !text[..start].chars().next_back().is_some_and(is_name);
        let is_end = |it: char| it.is_whitespace() || matches!(it, '`' | '"' | '\'');
        let path = &text[start..start + found.len() + rest.find(is_end).unwrap_or(rest.len())];
        let is_inside = relative(path, folder).len() < path.len();
        if is_start && is_inside && start >= plain {
            out.push_str(&text[plain..start]);
            plain = start + found.len() + 1;
        }
    }
    out.push_str(&text[plain..]);
    Cow::Owned(out)
}

/// Formats an amount of money: two decimals, with the sign of a frequent currency.
pub(crate) fn money(amount: f64, currency: &str) -> String {
    let sign = match currency {
        "USD" => "$",
        "EUR" => "€",
        "GBP" => "£",
        _ => "",
    };
    let (less, amount) = if amount > 0.0 && amount < 0.005 { ("less than ", 0.01) } else { ("", amount) };
    match sign {
        "" => format!("{less}{amount:.2} {currency}"),
        sign => format!("{less}{sign}{amount:.2}"),
    }
}

/// Returns the longest prefix of a text with at most `most` bytes.
pub(super) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rendered: &Markup, expected: &str) {
        assert_eq!(rendered.0, expected);
    }

    #[test]
    fn deceptive_characters_are_marked() {
        check(&visible("a<b> \"ü\"\n\tc"), "a&lt;b&gt; \"ü\"\n\tc");
        check(
            &visible("rm \u{202E}txt"),
            "rm <span class=\"hid\" title=\"right-to-left override\">U+202E</span>txt",
        );
        check(
            &visible("a\u{A0}b\u{1B}[2J"),
            "a<span class=\"hid\" title=\"no-break space\">U+00A0</span>b\
             <span class=\"hid\" title=\"escape\">U+001B</span>[2J",
        );
        check(&visible("a\r\nb"), "a\nb");
        check(&visible_line("a\r\nb"), "a<span class=\"hid\" title=\"line break\">↵</span>b");
        check(&prose("a\u{A0}b"), "a\u{A0}b");
        check(&prose("\u{E0041}"), "<span class=\"hid\" title=\"invisible tag\">U+E0041</span>");
    }

    #[test]
    fn emoji_stay_and_joiners_between_letters_do_not() {
        check(&visible("👩‍💻 1️⃣ ❤️"), "👩‍💻 1️⃣ ❤️");
        check(
            &visible("ad\u{200D}min"),
            "ad<span class=\"hid\" title=\"zero width joiner\">U+200D</span>min",
        );
    }

    #[test]
    fn paths_in_the_folder_are_relative_and_others_stay() {
        assert_eq!(relative("/w/p/src/a.rs", "/w/p"), "src/a.rs");
        assert_eq!(relative("/w/p/src/a.rs", "/w/p/"), "src/a.rs");
        for other in ["/w/pp/a", "/w/p", "/w/p/", "/w/p//etc", "/w/p/../x", "a", "/etc/w/p/a"] {
            assert_eq!(relative(other, "/w/p"), other);
        }
        assert_eq!(relative("/a", ""), "/a");
        let folder = "/w/p";
        assert_eq!(with_relative_paths("Read /w/p/a.rs and `/w/p/b`", folder), "Read a.rs and `b`");
        for other in ["Read /w/p", "Read /x/w/p/a", "Read /w/p/../a", "/w/pq/a", "/w/p//etc/passwd"] {
            assert_eq!(with_relative_paths(other, folder), other);
        }
    }

    #[test]
    fn money_has_two_decimals() {
        assert_eq!(money(0.021_080_000_000_000_005, "USD"), "$0.02");
        assert_eq!(money(0.0004, "USD"), "less than $0.01");
        assert_eq!(money(0.0, "EUR"), "€0.00");
        assert_eq!(money(12.5, "CHF"), "12.50 CHF");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(12), "12 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(3 << 20), "3.0 MiB");
    }
}
