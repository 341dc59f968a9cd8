//! The entries of a configuration of Git that make Git run or obey other files.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Maximum size of a configuration file in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// An entry that names another file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigEntry {
    /// The folder of hooks.
    Hooks(String),
    /// A further file of configuration.
    Include(String),
}

/// Reads the entries of a file. A missing or special file has none. Fails if the file cannot be read as a whole.
pub(crate) fn read(file: &Path) -> Result<Vec<ConfigEntry>, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("cannot read {}: {reason}", file.display());
    match read_file(file, MAX_FILE) {
        Ok(Some(bytes)) => Ok(parse(&String::from_utf8_lossy(&bytes))),
        Ok(None) => Ok(Vec::new()),
        Err(error) => Err(failed(&error)),
    }
}

/// Reads a regular file of limited length; `None` if it is missing or something else. Never blocks: an agent may put a pipe in
/// its place at any time.
pub(crate) fn read_file(file: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    use std::os::unix::fs::OpenOptionsExt;
    let opened =
        match fs::File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(file) {
            Ok(opened) => opened,
            // Also a folder in its path that is none, and a socket.
            Err(error) => {
                let is_there = fs::metadata(file).is_ok_and(|metadata| metadata.is_file());
                return if is_there { Err(error) } else { Ok(None) };
            }
        };
    if !opened.metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    opened.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(io::Error::other("it is too large")) } else { Ok(Some(bytes)) }
}

/// Parses a configuration. Malformed lines have no entry; Git refuses them.
fn parse(text: &str) -> Vec<ConfigEntry> {
    let mut entries = Vec::new();
    let mut section = String::new();
    let joined = text.replace("\\\r\n", "").replace("\\\n", "");
    for line in joined.lines() {
        let mut line = line.trim_start().trim_start_matches('\u{feff}');
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, after)) = header(rest) else { continue };
            section = name;
            line = after.trim_start();
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let entry: fn(String) -> ConfigEntry =
            match (section.as_str(), key.trim().to_ascii_lowercase().as_str()) {
                ("core", "hookspath") => ConfigEntry::Hooks,
                ("include" | "includeif", "path") => ConfigEntry::Include,
                _ => continue,
            };
        let value = unquoted(value);
        if !value.is_empty() {
            entries.push(entry(value));
        }
    }
    entries
}

/// Splits the header of a section after its bracket: the lower-case name without a subsection, and the rest of the line.
fn header(text: &str) -> Option<(String, &str)> {
    let mut is_quoted = false;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' if is_quoted => drop(letters.next()),
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => {
                let name = text[..at].split(['"', '.']).next().unwrap_or_default();
                return Some((name.trim().to_ascii_lowercase(), &text[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

/// Returns a value without quotes, escapes and its comment.
fn unquoted(text: &str) -> String {
    let (mut value, mut kept, mut is_quoted) = (String::new(), 0, false);
    let mut letters = text.trim_start().chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => match letters.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some('b') => drop(value.pop()),
                Some(other) => value.push(other),
                None => {}
            },
            _ => value.push(letter),
        }
        // Spaces at the end count only inside quotes.
        if is_quoted || !letter.is_whitespace() {
            kept = value.len();
        }
    }
    value.truncate(kept);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_in_each_spelling_of_git() {
        let hooks = |text: &str| match parse(text).as_slice() {
            [ConfigEntry::Hooks(path)] => path.clone(),
            other => format!("{other:?}"),
        };
        for text in [
            "[core]\n\thooksPath = a b",
            "[CORE]\r\nHOOKSPATH=a b\r\n",
            "[core] hooksPath = a b ; comment",
            "[core]\nhooksPath = \"a b\" # comment",
            "[core]\nhooksPath = a \\\nb",
            "\u{feff}[core]\n  hooksPath = a\" \"b   ",
            "[user]\nname = x\n[core]\nbare = false\n hooksPath =a b",
        ] {
            assert_eq!(hooks(text), "a b", "{text:?}");
        }
        let include = |text: &str| parse(text) == [ConfigEntry::Include("x".to_owned())];
        assert!(include("[include]\npath = x"));
        assert!(include("[includeIf \"gitdir:~/w]/\"]\npath = x"));
        for text in
            ["hooksPath = x", "[cores]\nhooksPath = x", "[core]\nhooksPath", "[core]\n#hooksPath = x", ""]
        {
            assert_eq!(parse(text), [], "{text:?}");
        }
    }

    #[test]
    fn a_pipe_in_place_of_a_file_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("config");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read(&pipe), Ok(Vec::new()));
        assert_eq!(read(folder.path()), Ok(Vec::new()));
        fs::write(folder.path().join("large"), vec![b'x'; 2 << 20]).unwrap();
        assert!(read(&folder.path().join("large")).unwrap_err().contains("too large"));
    }

    #[test]
    fn git_agrees() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        for text in [
            "[core]\n\thooksPath = a b",
            "[core] hooksPath = a b ; comment",
            "[core]\nhooksPath = \"a b\" # comment",
            "[core]\nhooksPath = a \\\nb",
            "[Core]\nHooksPath = a\" \"b   ",
            "[core]\nhooksPath = \"a\\\"b\"",
        ] {
            fs::write(&file, text).unwrap();
            let output = std::process::Command::new("git")
                .args(["config", "--file"])
                .arg(&file)
                .arg("core.hooksPath")
                .output()
                .unwrap();
            let wanted = String::from_utf8(output.stdout).unwrap();
            let wanted = wanted.strip_suffix('\n').unwrap_or(&wanted).to_owned();
            assert_eq!(read(&file).unwrap(), [ConfigEntry::Hooks(wanted)], "{text:?}");
        }
    }
}
