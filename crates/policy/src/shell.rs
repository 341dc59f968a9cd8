//! Command lines of a shell, taken apart into the simple commands that they run.
//!
//! This is a parser of its own because of what it is for: whoever decides by it must never take for harmless what a
//! shell would not. So it knows the grammar that the common shells share, says where it met something whose meaning
//! is open (a [`Doubt`]), and refuses the rest. It has limits for everything, works in one pass, and cannot fail.

mod crude;
mod parser;
mod word;

pub(crate) use word::Word;

/// Whether a word sets a variable where it stands before a command.
pub(crate) fn is_assignment(text: &str) -> bool {
    word::assignment(text).is_some()
}

/// Whether a name is one for a variable of a script's own, which no program reads.
pub(crate) fn is_private(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        // Some shells have lists of folders by such names.
        && !name.ends_with("path")
        && !name.ends_with("_proxy")
}

/// How deep substitutions and groups may be nested.
const MAX_DEPTH: usize = 24;
/// The longest line that is read.
const MAX_LINE: usize = 64 * 1024;
/// How many simple commands a line may have.
const MAX_PARTS: usize = 500;
/// How many changes of the working directory are followed.
const MAX_STEPS: usize = 16;
/// How many rounds of loops over literal words are followed in a line.
const MAX_ROUNDS: usize = 200;

/// Why it is open what a line would do.
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
            Doubt::CommandWord => "what is run is not written out in the command line",
            Doubt::Evaluates => "the command line has eval, trap or alias",
            Doubt::FedShell => "a shell reads its commands from elsewhere",
            Doubt::WordsOfArgv => "the arguments would be other commands if a shell read them",
            Doubt::ShellsDiffer => "bash, dash and busybox sh do not read the command line in the same way",
        }
    }
}

/// A line, taken apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Script {
    /// The simple commands, also those in substitutions.
    pub(crate) parts: Vec<Part>,
    /// What may be commands in a line that does not parse; only good for finding what is forbidden.
    pub(crate) guesses: Vec<Part>,
    pub(crate) doubts: Vec<Doubt>,
    /// All words and operators in their order, for people.
    pub(crate) tokens: Vec<String>,
}

impl Script {
    pub(crate) fn doubt(&mut self, doubt: Doubt) {
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }

    /// Takes a command line apart.
    pub(crate) fn parse(line: &str) -> Script {
        Script::parse_at(line, 0)
    }

    pub(crate) fn parse_at(line: &str, depth: usize) -> Script {
        let mut script = Script::default();
        if line.len() > MAX_LINE || depth > MAX_DEPTH {
            script.doubt(Doubt::TooLong);
            script.guesses = crude::parts(line);
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
            script.guesses = crude::parts(line);
        }
        script
    }

    /// A command whose words were told one by one, and no shell is between.
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
    /// Variables that are set for the command, or by it for what follows.
    pub(crate) assignments: Vec<Word>,
    /// Files that are read or written by redirection.
    pub(crate) redirections: Vec<Redirection>,
    /// Where it runs.
    pub(crate) cwd: Cwd,
    /// Whether its input comes from another command or from the line itself.
    pub(crate) is_fed: bool,
}

/// A file that is read or written by redirection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Redirection {
    pub(crate) target: Word,
    pub(crate) writes: bool,
}

/// Where a command runs: the directory in which the line begins, and from there on, step by step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cwd {
    Unknown,
    After(Vec<DirectoryStep>),
}

/// One change of the working directory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DirectoryStep {
    pub(crate) change: DirectoryChange,
    /// Whether the command runs also if the change fails, as after `cd x;`: then it runs in the directory before.
    pub(crate) may_fail: bool,
}

impl Default for Cwd {
    fn default() -> Self {
        Cwd::After(Vec::new())
    }
}

/// What `cd` was given.
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

    /// Marks all changes so far as ones that may have failed: the next command does not depend on their success.
    fn any_may_fail(&mut self) {
        if let Cwd::After(steps) = self {
            steps.iter_mut().for_each(|step| step.may_fail = true);
        }
    }
}
