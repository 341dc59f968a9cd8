//! Commands of a command line, through wrappers and nested shells, as deny rules and allow rules see them.

use crate::program::{HARMLESS_GIT, Origin, Program, arguments};
use crate::shell::{Cwd, DirectoryChange, Doubt, Part, Redirection, Script, Word, is_private};
use crate::sketch::Sketch;

/// Maximum nesting of wrappers.
const MAX_DEPTH: usize = 8;
/// Maximum number of commands in one line.
const MAX_RUNS: usize = 2000;

/// One interpretation of a request's command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interpretation {
    /// The commands of the line, each with the commands it runs in turn.
    pub(crate) runs: Vec<SimpleCommand>,
    /// Commands that only deny rules are checked against.
    pub(crate) guesses: Vec<SimpleCommand>,
    pub(crate) doubts: Vec<Doubt>,
    pub(crate) tokens: Vec<String>,
    /// Set if variables are set that may change a command's behaviour.
    pub(crate) sets_variables: bool,
}

/// A simple command with everything that it runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SimpleCommand {
    pub(crate) words: Vec<Word>,
    pub(crate) redirections: Vec<Redirection>,
    pub(crate) cwd: Cwd,
    /// Everything that it may run, wherever the command begins; for deny rules.
    pub(crate) candidates: Vec<(Vec<Word>, Cwd)>,
    /// The exact commands that it runs if it is nothing but a harmless wrapper; for allow rules.
    pub(crate) inner: Vec<SimpleCommand>,
    /// Set if they run in a login shell, which reads the user's files first.
    pub(crate) is_login: bool,
    /// Set if its input comes from another command or from the line itself.
    pub(crate) is_fed: bool,
}

/// An argument that may name a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: FileName,
    pub(crate) writes: bool,
}

/// The name of a file as a command has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct FileName {
    pub(crate) text: String,
    /// Set if the command gets exactly this text.
    pub(crate) is_known: bool,
    /// Set if the shell replaces its tilde by the home directory.
    pub(crate) has_tilde: bool,
    /// Set if the shell expands it to file names and nothing else.
    pub(crate) is_glob: bool,
    /// Set if the shell splits the expanded names at blanks.
    pub(crate) splits: bool,
    /// Set if it is a search pattern rather than a file; only for deny rules.
    pub(crate) is_pattern: bool,
    pub(crate) origin: Origin,
}

impl FileName {
    /// Creates a name from a whole word.
    pub(crate) fn of(word: &Word) -> FileName {
        FileName {
            text: word.text.clone(),
            is_known: word.is_plain(),
            has_tilde: word.has_tilde,
            is_glob: word.is_glob && !word.has_brace && !word.is_undecoded,
            splits: word.splits,
            ..FileName::default()
        }
    }

    /// Creates a name that is known literally.
    pub(crate) fn known(text: &str) -> FileName {
        FileName { text: text.to_owned(), is_known: true, ..FileName::default() }
    }
}

impl Interpretation {
    pub(crate) fn of_line(line: &str) -> Interpretation {
        Interpretation::of(Script::parse(line))
    }

    /// Parses a command whose words were given one by one. Some agents pass them to a shell anyway.
    pub(crate) fn of_words(words: Vec<String>) -> Interpretation {
        let joined = Script::parse(&words.join(" "));
        let is_script = words.first().is_some_and(|word| is_shell(base_name(word)))
            && words.iter().any(|word| is_script_option(word));
        let mut script = Script::of_words(words);
        if !is_script
            && (joined.parts.len() != 1
                || !joined.doubts.is_empty()
                || !joined.parts[0].redirections.is_empty())
        {
            script.doubt(Doubt::WordsOfArgv);
            script.guesses.extend(joined.parts);
            script.guesses.extend(joined.guesses);
        }
        Interpretation::of(script)
    }

    fn of(script: Script) -> Interpretation {
        let Script { parts, guesses, doubts, tokens } = script;
        let mut unfolding = Unfolding { doubts, count: 0, sets_variables: false };
        let runs = parts.into_iter().map(|part| unfolding.run(part, 0)).collect();
        let mut guessing = Unfolding { doubts: Vec::new(), count: 0, sets_variables: false };
        let guesses = guesses.into_iter().map(|part| guessing.run(part, 0)).collect();
        let Unfolding { doubts, count: _, sets_variables } = unfolding;
        Interpretation { runs, guesses, doubts, tokens, sets_variables }
    }
}

/// Variables that only change presentation.
const HARMLESS: [&str; 22] = [
    "CARGO_INCREMENTAL",
    "CARGO_TERM_COLOR",
    "CARGO_TERM_PROGRESS_WHEN",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LINES",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

fn is_shell(name: &str) -> bool {
    Program::named(name) == Some(Program::Shell)
}

/// Returns the name of a program without its folder.
pub(crate) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns whether an option of a shell announces a script: `-c`, `-lc`, `-euc`.
fn is_script_option(word: &str) -> bool {
    let letters = word.strip_prefix('-').or_else(|| word.strip_prefix('+'));
    letters.is_some_and(|letters| {
        letters.contains('c') && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    })
}

struct Unfolding {
    doubts: Vec<Doubt>,
    count: usize,
    sets_variables: bool,
}

impl Unfolding {
    fn doubt(&mut self, doubt: Doubt) {
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }

    fn run(&mut self, part: Part, depth: usize) -> SimpleCommand {
        let Part { words, assignments, redirections, cwd, is_fed } = part;
        assignments.iter().for_each(|word| self.assign(word.variable()));
        let mut candidates = Vec::new();
        self.unfold(&words, &cwd, is_fed, depth, &mut candidates);
        let inner = if depth < MAX_DEPTH {
            self.inner(&words, &redirections, &cwd, is_fed, depth)
        } else {
            Vec::new()
        };
        let is_login = login_script(&words).is_some();
        SimpleCommand { words, redirections, cwd, candidates, inner, is_login, is_fed }
    }

    fn assign(&mut self, name: Option<&str>) {
        self.sets_variables |= !name.is_some_and(|name| HARMLESS.contains(&name));
    }

    /// Finds everything that words in command position may run.
    fn unfold(
        &mut self,
        words: &[Word],
        cwd: &Cwd,
        is_fed: bool,
        depth: usize,
        candidates: &mut Vec<(Vec<Word>, Cwd)>,
    ) {
        let Some(first) = words.first() else { return };
        self.count += 1;
        if self.count > MAX_RUNS || depth > MAX_DEPTH {
            return self.doubt(Doubt::TooLong);
        }
        if !first.is_plain() {
            self.doubt(Doubt::CommandWord);
        }
        candidates.push((words.to_vec(), cwd.clone()));
        if first.has_brace {
            // Approximates brace expansion.
            let pieces =
                first.text.split(['{', ',', '}']).filter(|piece| !piece.is_empty()).map(Word::literal);
            candidates.push((pieces.chain(words[1..].iter().cloned()).collect(), cwd.clone()));
        }
        let name = base_name(&first.text);
        match name {
            "eval" | "trap" | "alias" => {
                self.doubt(Doubt::Evaluates);
                let line: Vec<&str> = words[1..].iter().map(|word| &*word.text).collect();
                self.script(&line.join(" "), cwd, depth, candidates);
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                let set = words[1..].iter().filter(|word| !word.is_option());
                set.for_each(|word| self.assign(word.variable()));
                self.evaluate(words);
            }
            // Builtins that set the variables they name.
            "read" | "mapfile" | "readarray" | "getopts" => {
                let set = words[1..].iter().filter(|word| !word.is_option());
                self.sets_variables |= !set.clone().all(|word| word.is_plain() && is_private(&word.text));
                self.evaluate(words);
            }
            "printf" if words[1..].iter().any(|word| word.text.starts_with("-v")) => {
                self.assign(None);
                self.evaluate(words);
            }
            "let" | "hash" | "enable" => self.assign(None),
            "test" | "[" | "[[" | "unset" | "wait" => self.evaluate(words),
            "git" => {
                if let Some(found) = git_command(words, cwd) {
                    candidates.push(found);
                }
            }
            "find" => {
                let mut rest = words;
                while let Some(at) = rest
                    .iter()
                    .position(|word| matches!(&*word.text, "-exec" | "-execdir" | "-ok" | "-okdir"))
                {
                    rest = &rest[at + 1..];
                    let end =
                        rest.iter().position(|word| matches!(&*word.text, ";" | "+")).unwrap_or(rest.len());
                    self.unfold(&rest[..end], cwd, false, depth + 1, candidates);
                }
            }
            _ if is_shell(name) => self.shell(words, cwd, is_fed, depth, candidates),
            _ if Program::named(name) == Some(Program::Wrapper) => {
                self.wrapper(name, words, cwd, is_fed, depth, candidates);
            }
            _ => {}
        }
    }

    /// Handles a builtin that evaluates a variable name or arithmetic. It runs the substitutions in a
    /// subscript, quoted or not, even if they come from a variable.
    fn evaluate(&mut self, words: &[Word]) {
        const OPERATORS: [&str; 7] = ["-v", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
        let name = words.first().map_or("", |word| &word.text);
        let reads_all = !matches!(name, "test" | "[" | "[[");
        let reads = reads_all || words.iter().any(|word| OPERATORS.contains(&&*word.text));
        let is_known = |word: &Word| word.is_plain() && !word.text.contains("$(") && !word.text.contains('`');
        if reads && !words.iter().skip(1).all(is_known) {
            self.doubt(Doubt::Evaluates);
        }
    }

    /// Parses a script that is run.
    fn script(
        &mut self,
        line: &str,
        cwd: &Cwd,
        depth: usize,
        candidates: &mut Vec<(Vec<Word>, Cwd)>,
    ) -> Vec<Part> {
        if depth > MAX_DEPTH {
            self.doubt(Doubt::TooLong);
            return Vec::new();
        }
        let Script { parts, guesses, doubts, tokens: _ } = Script::parse_at(line, depth);
        doubts.into_iter().for_each(|doubt| self.doubt(doubt));
        let parts: Vec<Part> =
            parts.into_iter().map(|part| Part { cwd: behind(cwd, &part.cwd), ..part }).collect();
        for part in parts.iter().chain(&guesses) {
            part.assignments.iter().for_each(|word| self.assign(word.variable()));
            self.unfold(&part.words, &part.cwd, part.is_fed, depth + 1, candidates);
            // Files of redirections are treated like arguments.
            let targets = part.redirections.iter().map(|redirection| redirection.target.clone());
            let words: Vec<Word> = std::iter::once(Word::default()).chain(targets).collect();
            if words.len() > 1 {
                candidates.push((words, part.cwd.clone()));
            }
        }
        parts
    }

    fn shell(
        &mut self,
        words: &[Word],
        cwd: &Cwd,
        is_fed: bool,
        depth: usize,
        candidates: &mut Vec<(Vec<Word>, Cwd)>,
    ) {
        let script = words.iter().enumerate().skip(1).filter(|(_, word)| is_script_option(&word.text));
        let mut has_script = false;
        for (at, _) in script {
            let Some(script) = words[at + 1..].iter().find(|word| !word.is_option()) else { continue };
            has_script = true;
            if !script.is_plain() {
                self.doubt(Doubt::CommandWord);
            }
            self.script(&script.text, cwd, depth + 1, candidates);
        }
        let reads_input = !has_script
            && words[1..].iter().all(|word| word.text.starts_with(['-', '+']) || !word.is_plain());
        if is_fed && reads_input {
            self.doubt(Doubt::FedShell);
        }
    }

    fn wrapper(
        &mut self,
        name: &str,
        words: &[Word],
        cwd: &Cwd,
        is_fed: bool,
        depth: usize,
        candidates: &mut Vec<(Vec<Word>, Cwd)>,
    ) {
        match name {
            "su" => {
                for (at, word) in words.iter().enumerate().skip(1) {
                    if word.text == "-c" || word.text == "--command" {
                        words
                            .get(at + 1)
                            .inspect(|script| drop(self.script(&script.text, cwd, depth + 1, candidates)));
                    } else if let Some(script) = word.text.strip_prefix("--command=") {
                        self.script(script, cwd, depth + 1, candidates);
                    }
                }
            }
            "env" => {
                for (at, word) in words.iter().enumerate().skip(1) {
                    let script = match &*word.text {
                        "-S" | "--split-string" => words.get(at + 1).map(|word| &*word.text),
                        text => text.strip_prefix("--split-string=").or_else(|| text.strip_prefix("-S")),
                    };
                    if let Some(script) = script.filter(|script| !script.is_empty()) {
                        self.doubt(Doubt::CommandWord);
                        self.script(script, cwd, depth + 1, candidates);
                    }
                }
            }
            _ => {}
        }
        // The set of options with values is not known for every program, so every possible start of the
        // command counts.
        let mut reached = vec![false; words.len() + 2];
        if let Some(start) = reached.get_mut(1) {
            *start = true;
        }
        for at in 1..words.len() {
            if !reached[at] {
                continue;
            }
            let word = &words[at];
            if word.is_option() || word.text == "-" {
                reached[at + 1] = true;
                if !matches!(&*word.text, "-" | "--")
                    && words.get(at + 1).is_some_and(|next| !next.is_option())
                {
                    reached[at + 2] = true;
                }
            } else if word.value_at.is_some() || crate::shell::is_assignment(&word.text) {
                let name = word.text.split(['=', '+', '[']).next();
                self.assign(name);
                reached[at + 1] = true;
            } else {
                self.unfold(&words[at..], cwd, is_fed || name == "xargs", depth + 1, candidates);
                if matches!(name, "watch" | "parallel") {
                    // These programs pass the words to a shell.
                    let line: Vec<&str> = words[at..].iter().map(|word| &*word.text).collect();
                    self.script(&line.join(" "), cwd, depth + 1, candidates);
                }
                // The command follows the duration, the new root or the lock file.
                let has_operand = match name {
                    "timeout" => word.text.starts_with(|first: char| first.is_ascii_digit() || first == '$'),
                    "chroot" | "flock" | "taskset" | "chrt" => at == 1 || words[at - 1].is_option(),
                    _ => false,
                };
                reached[at + 1] |= has_operand;
            }
        }
    }

    /// Returns the commands of a wrapper that changes nothing about them; for a shell, those of its script.
    fn inner(
        &mut self,
        words: &[Word],
        redirections: &[Redirection],
        cwd: &Cwd,
        is_fed: bool,
        depth: usize,
    ) -> Vec<SimpleCommand> {
        let plain = |at: usize| words.get(at).filter(|word| word.is_plain()).map(|word| &*word.text);
        let is_script = plain(0).is_some_and(is_shell) && words.len() == 3 && plain(1) == Some("-c");
        let script = if is_script { plain(2) } else { login_script(words) };
        if let Some(script) = script {
            let parts = self.script(script, cwd, depth + 1, &mut Vec::new());
            let inside = parts.into_iter().map(|mut part| {
                part.redirections.extend(redirections.iter().cloned());
                part.is_fed |= is_fed;
                self.run(part, depth + 1)
            });
            return inside.collect();
        }
        if plain(0) == Some("git") {
            let Some((words, cwd)) = git_command(words, cwd) else { return Vec::new() };
            let redirections = redirections.to_vec();
            return vec![self.run(Part { words, redirections, cwd, is_fed, ..Part::default() }, depth + 1)];
        }
        let start = match plain(0) {
            Some("env") => {
                let is_set = |word: &&Word| !word.is_option() && crate::shell::is_assignment(&word.text);
                1 + words[1..].iter().take_while(is_set).count()
            }
            Some("nohup" | "command") => 1,
            Some("time") => 1 + usize::from(plain(1) == Some("-p")),
            Some("nice") => match plain(1) {
                Some("-n" | "--adjustment") => 3,
                Some(text) if text.starts_with("--adjustment=") => 2,
                Some(text) if text.strip_prefix('-').is_some_and(is_number) => 2,
                _ => 1,
            },
            Some("timeout") => {
                let mut at = 1;
                loop {
                    at += match plain(at) {
                        Some("-k" | "-s" | "--kill-after" | "--signal") => 2,
                        Some("--foreground" | "--preserve-status" | "-v" | "--verbose") => 1,
                        Some(text) if text.starts_with("--kill-after=") || text.starts_with("--signal=") => 1,
                        _ => break,
                    };
                }
                let is_time = |text: &str| is_number(text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text));
                if !plain(at).is_some_and(is_time) {
                    return Vec::new();
                }
                at + 1
            }
            _ => return Vec::new(),
        };
        match words.get(start) {
            Some(word) if !word.is_option() => {
                let part = Part {
                    words: words[start..].to_vec(),
                    redirections: redirections.to_vec(),
                    cwd: cwd.clone(),
                    is_fed,
                    ..Part::default()
                };
                vec![self.run(part, depth + 1)]
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the script of a login shell: `bash -lc SCRIPT`.
fn login_script(words: &[Word]) -> Option<&str> {
    let plain = |at: usize| words.get(at).filter(|word| word.is_plain()).map(|word| &*word.text);
    let shell = plain(0)?;
    let name = ["/bin/", "/usr/bin/", ""].iter().find_map(|folder| shell.strip_prefix(folder))?;
    let (script, is_login) = match (plain(1)?, plain(2)?) {
        ("-lc" | "-cl", _) => (2, true),
        ("-l" | "--login", "-c") => (3, true),
        // The same shell, named by its path.
        ("-c", _) => (2, shell != name),
        _ => return None,
    };
    (is_shell(name) && is_login && words.len() == script + 1).then(|| plain(script)).flatten()
}

/// Returns the git command after options that do not affect it, and its directory: `git --no-pager -C src
/// log`.
fn git_command(words: &[Word], cwd: &Cwd) -> Option<(Vec<Word>, Cwd)> {
    let (mut at, mut cwd) = (1, cwd.clone());
    loop {
        let word = words.get(at).filter(|word| word.is_plain())?;
        match &*word.text {
            text if HARMLESS_GIT.contains(&text) => at += 1,
            "-C" => {
                let folder = words.get(at + 1)?;
                if !folder.is_plain() || folder.has_tilde || folder.text.is_empty() {
                    return None;
                }
                cwd.step(DirectoryChange::To(folder.text.clone()));
                at += 2;
            }
            _ => break,
        }
    }
    let is_changed = at > 1 && words.get(at).is_some_and(|word| !word.is_option());
    is_changed.then(|| (words[..1].iter().chain(&words[at..]).cloned().collect(), cwd))
}

fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Returns the directory of a command that starts in one directory and changes it from there.
fn behind(outer: &Cwd, inner: &Cwd) -> Cwd {
    match (outer, inner) {
        (Cwd::After(outer), Cwd::After(inner)) => Cwd::After(outer.iter().chain(inner).cloned().collect()),
        _ => Cwd::Unknown,
    }
}

impl SimpleCommand {
    /// Returns the files that a command names.
    pub(crate) fn arguments(&self) -> Vec<Argument> {
        let mut all: Vec<Argument> =
            arguments(&self.words).into_iter().map(|name| Argument { name, writes: false }).collect();
        all.extend(self.redirections.iter().map(|redirection| Argument {
            name: FileName::of(&redirection.target),
            writes: redirection.writes,
        }));
        all
    }

    /// Returns whether it writes a file by redirection.
    pub(crate) fn writes(&self) -> bool {
        self.redirections.iter().any(|redirection| redirection.writes)
    }
}

// ----- patterns

/// The first words of a command, each with its alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    words: Vec<Vec<String>>,
    /// Sketch of each name that it may begin with.
    needed: Vec<Sketch>,
}

impl Pattern {
    pub(crate) fn new(words: Vec<Vec<String>>) -> Self {
        let names = words.first().into_iter().flatten();
        let needed = names.map(|name| Sketch::needed([name.as_str()])).collect();
        Pattern { words, needed }
    }

    /// Returns the names that it may begin with.
    pub(crate) fn names(&self) -> &[String] {
        self.words.first().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the number of words.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns whether one of the names in a sketch may be one that this begins with.
    pub(crate) fn may_begin_with(&self, names: &Sketch) -> bool {
        self.needed.iter().any(|needed| names.may_have(needed))
    }
}

/// Result of matching a deny rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    No,
    /// Matches if a word that is not literal has the wanted value.
    Maybe,
    Yes,
}

/// Returns whether a command begins exactly with a pattern.
pub(crate) fn allows(pattern: &Pattern, words: &[Word]) -> bool {
    words.len() >= pattern.words.len()
        && pattern.words.iter().zip(words).all(|(any, word)| word.is_plain() && any.contains(&word.text))
}

/// Returns whether a command matches a pattern, with any options between its words.
pub(crate) fn denies(pattern: &Pattern, words: &[Word]) -> Match {
    let (Some(names), Some(command)) = (pattern.words.first(), words.first()) else { return Match::No };
    let is_named = names.iter().any(|name| *name == command.text || *name == base_name(&command.text));
    if !is_named {
        return Match::No;
    }
    let mut found = Match::Yes;
    let mut reached = vec![false; words.len() + 2];
    if let Some(start) = reached.get_mut(1) {
        *start = true;
    }
    for any in &pattern.words[1..] {
        let (flags, plain): (Vec<&String>, Vec<&String>) = any.iter().partition(|word| word.starts_with('-'));
        // A flag counts in any position.
        match flags.iter().map(|flag| has_flag(flag, &words[1..])).max() {
            Some(Match::Yes) => continue,
            Some(Match::Maybe) if plain.is_empty() => {
                found = found.min(Match::Maybe);
                continue;
            }
            _ => {}
        }
        let mut next = vec![false; words.len() + 2];
        let (mut is_there, mut may_be) = (false, false);
        for at in 1..words.len() {
            if !reached[at] {
                continue;
            }
            let word = &words[at];
            if plain.iter().any(|wanted| **wanted == word.text) {
                next[at + 1] = true;
                is_there = true;
            } else if !word.is_plain() && !plain.is_empty() {
                next[at + 1] = true;
                may_be = true;
            }
            if word.is_option() {
                reached[at + 1] = true;
                if words.get(at + 1).is_some_and(|next| !next.is_option()) {
                    reached[at + 2] = true;
                }
            }
        }
        match (is_there, may_be) {
            (true, _) => {}
            (false, true) => found = found.min(Match::Maybe),
            (false, false) => return Match::No,
        }
        if is_there || next.contains(&true) {
            reached = next;
        }
    }
    found
}

/// Returns whether a flag is among words: itself, with a value, or, for single letters, in any order and
/// split. An abbreviated long option or `--recursive` for `-r` matches as `Maybe`.
fn has_flag(flag: &str, words: &[Word]) -> Match {
    let is_same =
        |text: &str| text == flag || text.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='));
    // Each alternative of a brace becomes a word.
    let is_there =
        |word: &Word| is_same(&word.text) || word.has_brace && word.text.split(['{', ',', '}']).any(is_same);
    if words.iter().any(is_there) {
        return Match::Yes;
    }
    let long =
        || words.iter().filter_map(|word| word.text.strip_prefix("--")).filter(|name| !name.is_empty());
    let letters = flag.trim_start_matches('-');
    if flag.len() - letters.len() == 2 {
        let is_short = |name: &str| name.split('=').next().is_some_and(|name| letters.starts_with(name));
        return if long().any(is_short) { Match::Maybe } else { Match::No };
    }
    if letters.len() > 3 || !letters.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Match::No;
    }
    let clusters = || {
        words
            .iter()
            .filter_map(|word| word.text.strip_prefix('-'))
            .filter(|cluster| !cluster.starts_with('-'))
    };
    let each = letters.chars().map(|letter| {
        let other = if letter.is_lowercase() { letter.to_ascii_uppercase() } else { letter };
        if clusters().any(|cluster| cluster.contains(letter)) {
            Match::Yes
        } else if clusters().any(|cluster| cluster.contains(other))
            || long().any(|name| name.starts_with(letter))
        {
            Match::Maybe
        } else {
            Match::No
        }
    });
    each.min().unwrap_or(Match::No)
}
