//! Arguments that name files, by knowledge about the program.

use crate::command::{FileName, base_name};
use crate::shell::Word;

/// Base of a file name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// The directory of the command.
    #[default]
    Folder,
    /// The top of git's working tree: `HEAD:src/lib.rs`.
    Tree,
    /// A search pattern of git: `*` also matches folders and names that begin with a dot.
    Pathspec,
    /// A search pattern of git, from the top of the working tree.
    TreePathspec,
}

/// Programs that only read standard input if they are given no file.
const FILTERS: [&str; 26] = [
    "base64",
    "cat",
    "column",
    "comm",
    "cut",
    "egrep",
    "expand",
    "fgrep",
    "fmt",
    "fold",
    "grep",
    "head",
    "jq",
    "md5sum",
    "nl",
    "od",
    "paste",
    "rev",
    "rg",
    "sed",
    "sha256sum",
    "sort",
    "tac",
    "tail",
    "tr",
    "uniq",
];

/// Returns whether a command without files reads only its input.
pub(crate) fn reads_input(words: &[Word]) -> bool {
    words.first().is_some_and(|word| FILTERS.contains(&&*word.text) || word.text == "wc")
}

/// Maximum number of colons considered in an argument.
const MAX_COLONS: usize = 4;

/// Returns the arguments of a command that may be files: all except options, and the text after any `=`. For
/// programs that work on their directory, it is one of them.
pub(crate) fn arguments(words: &[Word]) -> Vec<FileName> {
    let program = words.first().map_or("", |word| base_name(&word.text));
    let mut names = Vec::new();
    let (mut options_end, mut operands) = (false, 0);
    // A search pattern is not a file, unless an option gives the pattern.
    let mut pattern = matches!(program, "egrep" | "fgrep" | "grep" | "rg") && !names_pattern(&words[1..]);
    for word in words.iter().skip(1) {
        let is_option = word.text.starts_with('-') && !options_end;
        if !is_option && !word.text.is_empty() {
            operands += 1;
            let mut name = FileName::of(word);
            name.is_pattern = std::mem::take(&mut pattern);
            if program == "git" {
                names.extend(of_git(&name));
            }
            names.push(name);
        }
        options_end |= word.text == "--";
        let part =
            |text: &str| FileName { text: text.to_owned(), is_known: word.is_plain(), ..FileName::default() };
        if is_option && !is_sign(program, &word.text) {
            names.extend(attached(&word.text).map(part));
            if program == "git" && word.text.starts_with("-L") {
                names.extend(word.text.rsplit_once(':').map(|(_, file)| part(file)));
            }
        }
        if let Some((_, value)) = word.text.split_once('=').filter(|(_, value)| !value.is_empty()) {
            names.push(part(value));
        }
    }
    let works_here = match program {
        "du" | "ls" | "rg" | "tree" => operands <= usize::from(program == "rg"),
        "egrep" | "fgrep" | "grep" => words.iter().skip(1).any(searches_folders),
        "pytest" => operands == 0,
        "go" => operands <= 1,
        "find" => words.get(1).is_none_or(|word| word.text.starts_with(['-', '(', '!'])),
        "git" => true,
        _ => false,
    };
    if works_here {
        names.push(FileName::known("."));
    }
    names
}

/// Returns whether an option of a search gives the pattern or its file.
fn names_pattern(words: &[Word]) -> bool {
    words.iter().filter(|word| word.text.starts_with('-')).any(|word| {
        let text = &*word.text;
        match text.strip_prefix("--") {
            Some(long) => ["file", "files", "regexp", "type-list"].iter().any(|name| {
                let long = long.split('=').next().unwrap_or(long);
                !long.is_empty() && name.starts_with(long)
            }),
            None => text.contains(['e', 'f']) || !word.is_plain(),
        }
    })
}

/// Returns whether an option of `grep` makes it search folders.
fn searches_folders(word: &Word) -> bool {
    match word.text.strip_prefix("--") {
        Some(long) => ["recursive", "dereference-recursive", "directories"].iter().any(|name| {
            let long = long.split('=').next().unwrap_or(long);
            !long.is_empty() && name.starts_with(long)
        }),
        None => word.text.starts_with('-') && word.text.contains(['r', 'R', 'd']),
    }
}

/// Returns whether the text after an option's letter is a field separator.
fn is_sign(program: &str, option: &str) -> bool {
    match program {
        "cut" => option.starts_with("-d"),
        "sort" => option.starts_with("-t"),
        "tr" => true,
        _ => false,
    }
}

/// Returns the texts that may be files directly after the letter of an option: `-f/etc/x`, `-vf../x`.
fn attached(option: &str) -> impl Iterator<Item = &str> {
    const MAX_LETTERS: usize = 3;
    let cluster = option.strip_prefix('-').filter(|cluster| !cluster.starts_with('-')).unwrap_or_default();
    let letters = cluster.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(cluster.len());
    let behind_letters =
        cluster.get(letters..).filter(|rest| letters <= MAX_LETTERS && rest.starts_with(['/', '.', '~']));
    let behind_first = cluster.get(1..).filter(|rest| rest.contains('/') && Some(*rest) != behind_letters);
    behind_letters.into_iter().chain(behind_first)
}

/// Returns the additional files that an argument of git may name: those in a revision (`HEAD:x`), and those
/// of a pattern (`:(top)x`, `*.rs`).
fn of_git(name: &FileName) -> Vec<FileName> {
    let text = &*name.text;
    let with = |text: &str, origin: Origin| FileName { text: text.to_owned(), origin, ..name.clone() };
    let mut found = Vec::new();
    if let Some(magic) = text.strip_prefix(':') {
        let (is_top, excludes, rest) = if let Some(long) = magic.strip_prefix('(') {
            let (words, rest) = long.split_once(')').unwrap_or(("", long));
            let has = |wanted: &str| words.split(',').any(|word| word.trim() == wanted);
            (has("top"), has("exclude"), rest)
        } else {
            let signs = magic.find(|sign: char| !"/!^".contains(sign)).unwrap_or(magic.len());
            (magic[..signs].contains('/'), magic[..signs].contains(['!', '^']), &magic[signs..])
        };
        if !excludes && !rest.is_empty() {
            let origins = [Origin::Pathspec, Origin::TreePathspec];
            found.extend(
                origins
                    .into_iter()
                    .filter(|origin| *origin == Origin::TreePathspec || !is_top)
                    .map(|origin| with(rest, origin)),
            );
            let lower = rest.to_lowercase();
            if lower != rest {
                found.push(with(&lower, Origin::TreePathspec));
            }
        }
    }
    // Characters after a leading colon belong to a pattern.
    let colons = text.match_indices(':').take(MAX_COLONS);
    for (at, _) in colons.filter(|_| !text.starts_with([':']) || !text[1..].starts_with(['(', '/', '!', '^']))
    {
        let path = &text[at + 1..];
        let is_below = path.starts_with("./") || path.starts_with("../");
        if !path.is_empty() {
            found.push(with(path, Origin::Folder));
            if !is_below {
                found.push(with(path, Origin::Tree));
            }
        }
    }
    if name.is_known && text.contains(['*', '?', '[']) {
        found.push(with(text, Origin::Pathspec));
    }
    found
}
