//! Parser for shell command lines into simple commands.
//!
//! Implemented here because of its purpose: a decision must never take a command as harmless that a shell
//! would run differently. It knows the grammar that the common shells share, reports constructs whose meaning
//! is open (a [`Doubt`]), and refuses the rest. Everything is bounded, parsing takes one pass, and it cannot
//! fail.

mod fallback;
mod parser;
mod word;

pub(crate) use word::Word;

/// Returns whether a word before a command sets a variable.
pub(crate) fn is_assignment(text: &str) -> bool {
    word::assignment(text).is_some()
}

/// Returns whether a variable name is private to a script, so that no program reads it.
pub(crate) fn is_private(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        // Some shells have lists of folders with such names.
        && !name.ends_with("path")
        && !name.ends_with("_proxy")
}

/// Maximum nesting of substitutions and groups.
const MAX_DEPTH: usize = 24;
/// Maximum length of a line in bytes.
const MAX_LINE: usize = 64 * 1024;
/// Maximum number of simple commands in a line.
const MAX_PARTS: usize = 500;
/// Maximum number of tracked directory changes.
const MAX_STEPS: usize = 16;
/// Maximum number of unrolled loop iterations in a line.
const MAX_ROUNDS: usize = 200;

/// Reason why the effect of a line is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Doubt {
    NotParsed,
    TooLong,
    Substitution,
    Arithmetic,
    Function,
    Control,
    CommandWord,
    Evaluates,
    FedShell,
    WordsOfArgv,
    ShellsDiffer,
}

impl Doubt {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Doubt::NotParsed => "the command line cannot be parsed",
            Doubt::TooLong => "the command line is too long or too deeply nested",
            Doubt::Substitution => "the command line has a substitution",
            Doubt::Arithmetic => "the command line has arithmetic",
            Doubt::Function => "the command line defines a function",
            Doubt::Control => "the command line has control characters",
            Doubt::CommandWord => "the command line runs a program whose name is not literal",
            Doubt::Evaluates => "the command line has eval, trap or alias",
            Doubt::FedShell => "a shell reads its commands from another source",
            Doubt::WordsOfArgv => "the arguments would be other commands if a shell read them",
            Doubt::ShellsDiffer => "bash, dash and busybox sh interpret the command line differently",
        }
    }
}

/// A parsed line.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Script {
    /// The simple commands, including those in substitutions.
    pub(crate) parts: Vec<Part>,
    /// Possible commands of a line that does not parse; only for deny rules.
    pub(crate) guesses: Vec<Part>,
    pub(crate) doubts: Vec<Doubt>,
    /// All words and operators in order, for people.
    pub(crate) tokens: Vec<String>,
}

impl Script {
    pub(crate) fn doubt(&mut self, doubt: Doubt) {
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }

    /// Parses a command line.
    pub(crate) fn parse(line: &str) -> Script {
        Script::parse_at(line, 0)
    }

    pub(crate) fn parse_at(line: &str, depth: usize) -> Script {
        let mut script = Script::default();
        if line.len() > MAX_LINE || depth > MAX_DEPTH {
            script.doubt(Doubt::TooLong);
            script.guesses = fallback::parts(line);
            script.tokens = vec![line.to_owned()];
            return script;
        }
        if line.chars().any(|letter| letter.is_control() && letter != '\n' && letter != '\t') {
            script.doubt(Doubt::Control);
        }
        if parser::parse(line, depth, &mut script).is_err() {
            script.doubt(Doubt::NotParsed);
            script.tokens = vec![line.to_owned()];
        }
        if !script.doubts.is_empty() {
            script.guesses = fallback::parts(line);
        }
        script
    }

    /// Creates a script from words that are passed without a shell.
    pub(crate) fn of_words(words: impl IntoIterator<Item = String>) -> Script {
        let words: Vec<Word> = words.into_iter().map(Word::literal).collect();
        let tokens = words.iter().map(|word| word.text.clone()).collect();
        let mut script = Script { tokens, ..Script::default() };
        if words.iter().any(|word| word.text.contains('\0')) {
            script.doubt(Doubt::Control);
        }
        script.parts.push(Part { words, ..Part::default() });
        script
    }
}

/// One simple command.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Part {
    pub(crate) words: Vec<Word>,
    /// Variables that are set for the command, or by it for later commands.
    pub(crate) assignments: Vec<Word>,
    /// Files that are read or written by redirection.
    pub(crate) redirections: Vec<Redirection>,
    /// Its working directory.
    pub(crate) cwd: Cwd,
    /// Set if its input comes from another command or from the line itself.
    pub(crate) is_fed: bool,
}

/// A file that is read or written by redirection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Redirection {
    pub(crate) target: Word,
    pub(crate) writes: bool,
}

/// Working directory of a command: the start directory of the line and the changes since.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cwd {
    Unknown,
    After(Vec<DirectoryStep>),
}

/// One change of the working directory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DirectoryStep {
    pub(crate) change: DirectoryChange,
    /// Set if the command runs even if the change fails, as after `cd x;`, and then in the directory before.
    pub(crate) may_fail: bool,
}

impl Default for Cwd {
    fn default() -> Self {
        Cwd::After(Vec::new())
    }
}

/// Target of `cd`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DirectoryChange {
    Home,
    To(String),
    /// Below the home directory.
    InHome(String),
}

impl Cwd {
    pub(crate) fn step(&mut self, change: DirectoryChange) {
        match self {
            Cwd::After(steps) if steps.len() < MAX_STEPS => {
                steps.push(DirectoryStep { change, may_fail: false });
            }
            _ => *self = Cwd::Unknown,
        }
    }

    /// Marks all changes so far as possibly failed: the next command does not depend on their success.
    fn any_may_fail(&mut self) {
        if let Cwd::After(steps) = self {
            steps.iter_mut().for_each(|step| step.may_fail = true);
        }
    }
}
