//! What a word may come to in which a shell puts in something.

use crate::glob::ANYTHING;
use crate::path::join;

/// How many ways to read a word are looked at.
const MAX_FORMS: usize = 64;

/// The absolute paths that a word may come to, for those who forbid.
#[derive(Debug, Default)]
pub(super) struct Possible {
    /// Those that it does come to, as far as a shell is as it should be.
    pub(super) certain: Vec<String>,
    /// Others. Wildcards stay in them, and [`ANYTHING`] stands for what nobody knows. Nothing comes of a word of whose last name
    /// nothing is written out, because it could be every file.
    pub(super) open: Vec<String>,
}

impl Possible {
    pub(super) fn of(text: &str, cwd: Option<&str>, home: Option<&str>) -> Possible {
        let mut possible = Possible::default();
        for form in braces(text).iter().map(|form| without_variables(form, cwd, home)) {
            let last = form.rsplit('/').find(|name| !name.is_empty()).unwrap_or_default();
            if last.contains(ANYTHING) && last.chars().all(|letter| matches!(letter, ANYTHING | '*' | '?')) {
                continue;
            }
            if let Some((first, rest)) = form.split_once('/')
                && first.contains(ANYTHING)
            {
                let folders = [Some("/"), cwd, home].into_iter().flatten();
                possible.open.extend(folders.map(|folder| join(folder, rest)));
                continue;
            }
            let path = match cwd {
                _ if form.starts_with('/') => form,
                Some(cwd) => join(cwd, &form),
                None => continue,
            };
            match path.contains(['*', '?', ANYTHING]) {
                true => possible.open.push(path),
                false => possible.certain.push(path),
            }
        }
        possible
    }
}

impl Possible {
    /// The paths that git may find by a pattern: there `*` also stands for folders, and for names that begin with a dot.
    pub(super) fn of_pathspec(text: &str, cwd: Option<&str>) -> Vec<String> {
        let Some(cwd) = cwd else { return Vec::new() };
        let open = without_variables(&text.replace('$', "?"), None, None).replace('*', "\0");
        let mut forms = vec![join(cwd, &open)];
        for (at, _) in open.match_indices(ANYTHING).take(MAX_STARS) {
            let (before, after) = open.split_at(at);
            let deeper = (1..=MAX_FOLDERS).map(|count| format!("{before}{}{after}", "\0/".repeat(count)));
            forms.extend(deeper.map(|form| join(cwd, &form)));
        }
        forms
    }

    /// The folder that git looks in for a pattern.
    pub(super) fn folder_of(text: &str) -> &str {
        let end = text.find(['*', '?', '[']).unwrap_or(text.len());
        match text[..end].rfind('/') {
            Some(0) => "/",
            Some(at) => &text[..at],
            None => ".",
        }
    }
}

/// How many stars of a pattern are taken for folders, and for how many.
const MAX_STARS: usize = 4;
const MAX_FOLDERS: usize = 4;

/// The words that are made of one with braces.
fn braces(text: &str) -> Vec<String> {
    let (mut done, mut open) = (Vec::new(), vec![text.to_owned()]);
    while let Some(form) = open.pop() {
        match brace(&form) {
            Some((before, inner, after)) if done.len() + open.len() < MAX_FORMS => {
                let pieces = if inner.contains(',') { pieces(inner) } else { vec!["\0"] };
                open.extend(pieces.into_iter().map(|piece| format!("{before}{piece}{after}")));
            }
            Some((before, _, after)) => done.push(format!("{before}{ANYTHING}{after}")),
            None => done.push(form),
        }
    }
    done
}

/// The first brace that makes several words: what stands before it, in it, and behind it.
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

/// What stands between the commas of a brace.
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

/// The word with the directories that every shell knows, and [`ANYTHING`] for other variables. A set of letters is one that
/// can be any.
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
                // One of a single sign: `$@`.
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
