//! Text of others, made harmless and honest.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// The text with everything visible that a terminal would act upon or that would make it read otherwise than it is:
/// control characters, terminal escapes, and characters that reorder or hide text. Line breaks and tabs stay.
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

/// Whether a character would act upon a terminal, or reorder or hide text.
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
        // Codes that are for no character.
        '\u{FDD0}'..='\u{FDEF}' => true,
        other => other.is_control() || u32::from(other) & 0xFFFE == 0xFFFE,
    }
}

/// As [`visible`], on one line: for titles and the like.
pub(crate) fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "␊").replace('\t', " ")
}

/// Returns a path on one line, relative to the working directory where it is inside it.
pub(crate) fn visible_path(path: &str) -> String {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| std::env::current_dir().ok());
    visible_line(folder.as_deref().and_then(|folder| below(path, folder)).unwrap_or(path))
}

/// Returns the part of a path below a folder. A path that goes up again somewhere is not taken for one below it.
fn below<'p>(path: &'p str, folder: &Path) -> Option<&'p str> {
    let path = Path::new(path);
    if folder.parent().is_none() || path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let rest = path.strip_prefix(folder).ok()?.to_str()?;
    Some(if rest.is_empty() { "." } else { rest })
}

/// What a program wrote to its terminal, without the escapes for colours and the like, which are common there. The
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

/// The length of a complete control sequence at the start; 0 where there is none.
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
    use std::path::Path;

    use super::{below, terminal_output, visible, visible_line, visible_path};

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
    fn paths_are_relative_inside_the_working_directory_only() {
        let folder = Path::new("/home/me/project");
        assert_eq!(below("/home/me/project/src/a.rs", folder), Some("src/a.rs"));
        assert_eq!(below("/home/me/project", folder), Some("."));
        for outside in ["/home/me/project2/a", "/home/me", "src/a.rs", "/home/me/project/../x", ""] {
            assert_eq!(below(outside, folder), None, "{outside}");
        }
        assert_eq!(below("/etc/passwd", Path::new("/")), None);
        assert_eq!(visible_path("/nowhere/a\u{202E}b"), "/nowhere/a<U+202E>b");
    }

    #[test]
    fn output_of_programs_loses_its_colours_only() {
        assert_eq!(terminal_output("\u{1B}[1;32mgrün\u{1B}[0m\r\n".as_bytes()), "grün\n");
        assert_eq!(terminal_output(b"\x1B]0;title\x07 \x1B[31"), "␛]0;title␇ ␛[31");
        assert_eq!(terminal_output(b"\xC3"), "\u{FFFD}");
        assert_eq!(terminal_output("\u{1B}é\u{1B}".as_bytes()), "␛é␛");
    }
}
