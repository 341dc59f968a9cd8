//! The entries of a configuration of Git that make Git run or obey other files.

use std::fs;
use std::io::Read;
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

/// Reads the entries of a file. A missing file has none. Fails if the file cannot be read as a whole.
pub(crate) fn read(file: &Path) -> Result<Vec<ConfigEntry>, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("cannot read {}: {reason}", file.display());
    // Special files are never read, because they could block.
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => {}
        _ => return Ok(Vec::new()),
    }
    let opened = fs::File::open(file).map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    opened.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(failed(&"it is too large"));
    }
    Ok(parse(&String::from_utf8_lossy(&bytes)))
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
