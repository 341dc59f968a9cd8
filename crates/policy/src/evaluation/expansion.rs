//! Possible values of a word that a shell expands.

use crate::glob::ANYTHING;
use crate::path::join;

/// Maximum number of expanded forms of a word.
const MAX_FORMS: usize = 64;

/// The absolute paths that a word may expand to, for deny rules.
#[derive(Debug, Default)]
pub(super) struct PossiblePaths {
    /// Paths that it expands to in a standard shell.
    pub(super) certain: Vec<String>,
    /// Other possible paths, with wildcards, and [`ANYTHING`] for unknown text. Omitted for a word whose last
    /// name is completely unknown, because it could be any file.
    pub(super) uncertain: Vec<String>,
}

impl PossiblePaths {
    pub(super) fn of(text: &str, cwd: Option<&str>, home: Option<&str>) -> PossiblePaths {
        let mut possible = PossiblePaths::default();
        for form in braces(text).iter().map(|form| without_variables(form, cwd, home)) {
            let last = form.rsplit('/').find(|name| !name.is_empty()).unwrap_or_default();
            // Such a word could be every file and would match every rule.
            if last.contains(ANYTHING) && last.chars().all(|letter| matches!(letter, ANYTHING | '*' | '?')) {
                continue;
            }
            if let Some((first, rest)) = form.split_once('/')
                && first.contains(ANYTHING)
            {
                // An unknown first folder may be absolute, relative or the home directory.
                let folders = [Some("/"), cwd, home].into_iter().flatten();
                possible.uncertain.extend(folders.map(|folder| join(folder, rest)));
                continue;
            }
            let path = match cwd {
                _ if form.starts_with('/') => form,
                Some(cwd) => join(cwd, &form),
                None => continue,
            };
            match path.contains(['*', '?', ANYTHING]) {
                true => possible.uncertain.push(path),
                false => possible.certain.push(path),
            }
        }
        possible
    }
}

impl PossiblePaths {
    /// Returns the paths that git may find with a pattern, in which `*` also matches folders and names that
    /// begin with a dot.
    pub(super) fn of_pathspec(text: &str, cwd: Option<&str>) -> Vec<String> {
        let Some(cwd) = cwd else { return Vec::new() };
        let uncertain = without_variables(&text.replace('$', "?"), None, None).replace('*', "\0");
        let mut forms = vec![join(cwd, &uncertain)];
        for (at, _) in uncertain.match_indices(ANYTHING).take(MAX_STARS) {
            let (before, after) = uncertain.split_at(at);
            let deeper = (1..=MAX_FOLDERS).map(|count| format!("{before}{}{after}", "\0/".repeat(count)));
            forms.extend(deeper.map(|form| join(cwd, &form)));
        }
        forms
    }

    /// Returns the folder that git searches for a pattern.
    pub(super) fn folder_of(text: &str) -> &str {
        let end = text.find(['*', '?', '[']).unwrap_or(text.len());
        match text[..end].rfind('/') {
            Some(0) => "/",
            Some(at) => &text[..at],
            None => ".",
        }
    }
}

/// Maximum number of stars in a pattern that are expanded to folders, and of folders for each.
const MAX_STARS: usize = 4;
const MAX_FOLDERS: usize = 4;

/// Returns the words that a word with braces expands to.
fn braces(text: &str) -> Vec<String> {
    let (mut done, mut uncertain) = (Vec::new(), vec![text.to_owned()]);
    while let Some(form) = uncertain.pop() {
        match brace(&form) {
            Some((before, inner, after)) if done.len() + uncertain.len() < MAX_FORMS => {
                let pieces = if inner.contains(',') { pieces(inner) } else { vec!["\0"] };
                uncertain.extend(pieces.into_iter().map(|piece| format!("{before}{piece}{after}")));
            }
            // Above the limit, the rest is unknown text.
            Some((before, _, after)) => done.push(format!("{before}{ANYTHING}{after}")),
            None => done.push(form),
        }
    }
    done
}

/// Splits a word at the first brace that expands: text before, inside and after it.
fn brace(text: &str) -> Option<(&str, &str, &str)> {
    let (mut depth, mut start, mut before) = (0_usize, 0, ' ');
    for (at, letter) in text.char_indices() {
        match letter {
            '{' if depth > 0 || before != '$' => {
                start = if depth == 0 { at } else { start };
                depth += 1;
            }
            '}' if depth == 1 => {
                let inner = &text[start + 1..at];
                depth = 0;
                if inner.contains(',') || inner.contains("..") {
                    return Some((&text[..start], inner, &text[at + 1..]));
                }
            }
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = letter;
    }
    None
}

/// Splits the content of a brace at its commas.
fn pieces(inner: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let is_cut = |letter: char| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    };
    inner.split(is_cut).collect()
}

/// Replaces variables of known directories by their values, other variables by [`ANYTHING`], and sets of
/// letters by `?`.
fn without_variables(text: &str, cwd: Option<&str>, home: Option<&str>) -> String {
    let mut out = String::with_capacity(text.len());
    let known = |name: &str| match name {
        "HOME" => home,
        "PWD" => cwd,
        _ => None,
    };
    let mut rest = text;
    if let Some(behind) = text.strip_prefix('~') {
        let (name, after) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
        let folder = match name {
            "" => home,
            "+" => cwd,
            _ => None,
        };
        out.push_str(folder.unwrap_or("\0"));
        rest = after;
    }
    while let Some(letter) = rest.chars().next() {
        let behind = &rest[letter.len_utf8()..];
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        match letter {
            '$' => {
                let (name, after) = match behind.strip_prefix('{') {
                    Some(inner) => inner.split_once('}').unwrap_or((inner, "")),
                    None => behind.split_at(behind.find(|letter| !is_letter(letter)).unwrap_or(behind.len())),
                };
                // A variable with a single special character: `$@`.
                let after = if name.is_empty() { after.get(1..).unwrap_or_default() } else { after };
                match known(name).filter(|_| out.is_empty()) {
                    Some(folder) => out.push_str(folder),
                    None => out.push(ANYTHING),
                }
                rest = after;
            }
            '[' => match behind.split_once(']') {
                Some((set, after)) if !set.is_empty() && !set.contains('/') => {
                    out.push('?');
                    rest = after;
                }
                _ => {
                    out.push('[');
                    rest = behind;
                }
            },
            letter => {
                out.push(letter);
                rest = behind;
            }
        }
    }
    out
}
