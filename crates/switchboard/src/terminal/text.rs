//! The output of programs, made harmless and honest.

use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use switchboard_acp::display::{visible, visible_line};

/// Returns a path on one line, relative to the working directory where it is inside it.
pub(crate) fn visible_path(path: &str) -> String {
    visible_line(working_directory().and_then(|folder| below(path, folder)).unwrap_or(path))
}

/// Returns the working directory of the start.
pub(super) fn working_directory() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| std::env::current_dir().ok()).as_deref()
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
    use std::path::Path;

    use super::{below, terminal_output, visible_path};

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
