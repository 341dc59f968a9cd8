//! What a request asks for, in one form for all agents.

mod input;
mod json;

use std::fmt;

use switchboard_acp::v2;
use switchboard_session::{Item, Permission, Snapshot, ToolCall, ToolCallOutline};

use crate::command::{Reading, Run};
use crate::path::{join, tidy};
use crate::shell::Doubt;
use input::Input;
pub(crate) use input::Mention;

/// How many files of a request are looked at.
const MAX_PATHS: usize = 1000;

/// Where a request is made: what the messages before it and the program around it tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scene {
    /// What `$root` stands for: the project's folder, absolute.
    pub root: String,
    /// The session's working directory, where it is known; else it is the root.
    pub cwd: Option<String>,
    /// The agent's name, where it is known.
    pub agent: Option<String>,
}

/// Where the command of a request was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// In a field that is for it.
    Structured,
    /// In the title of the call.
    Title,
    /// In a text for people.
    Text,
    /// In something that was cut off.
    Cut,
    /// Nowhere: none is known.
    None,
}

impl Source {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Structured => "structured",
            Source::Title => "title",
            Source::Text => "text",
            Source::Cut => "cut",
            Source::None => "none",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// It is new.
    Add,
    /// It gets other content.
    Modify,
    /// It is removed.
    Delete,
    /// It gets another path.
    Move,
    /// It is made from another file.
    Copy,
    /// Something that nobody here knows.
    Unknown,
}

impl Operation {
    pub(crate) const KNOWN: [Operation; 5] =
        [Operation::Add, Operation::Modify, Operation::Delete, Operation::Move, Operation::Copy];

    /// The word for it, as rules have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Add => "add",
            Operation::Modify => "modify",
            Operation::Delete => "delete",
            Operation::Move => "move",
            Operation::Copy => "copy",
            Operation::Unknown => "unknown",
        }
    }
}

/// A file that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectPath {
    /// The path as it was told.
    pub path: String,
    /// What happens to it; nothing where that was not told.
    pub operations: Vec<Operation>,
    /// Whether a rule must allow it. What a command only touches need not be.
    pub(crate) needs_cover: bool,
}

/// What a request asks for.
///
/// Made of the folded tool call, never of the request alone: some agents say nothing in a request but the call's id.
/// What makes it impossible to know what would be done is kept as well; such a request is never allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    pub(crate) scene: Scene,
    pub(crate) readings: Vec<Reading>,
    /// Whether there is a command, known or not.
    pub(crate) has_command: bool,
    pub(crate) source: Source,
    /// The folders that it is told to begin in; where these are several, nobody knows.
    cwds: Vec<String>,
    pub(crate) paths: Vec<SubjectPath>,
    /// What else in the tool's input may be the name of a file.
    pub(crate) mentions: Vec<Mention>,
    pub(crate) kind: Option<v2::ToolKind>,
    /// Kinds that it is too, whatever it says: only good for rules that forbid.
    pub(crate) other_kinds: Vec<v2::ToolKind>,
    pub(crate) tool: Option<String>,
    /// Names that the tool may have: only good for rules that forbid.
    pub(crate) other_tools: Vec<String>,
    pub(crate) network: Option<String>,
    pub(crate) doubts: Vec<String>,
}

const NO_SUBJECT: &str = "the request does not tell what it is about";
const UNKNOWN_SUBJECT: &str = "the request is about something of an unknown kind";
const NOTHING_TOLD: &str = "the tool call tells nothing of what it does";
const UNKNOWN_PART: &str = "a part of the tool call is of an unknown kind";
const NO_COMMAND: &str = "the command that would be run is not told";
const DIFFERENT: &str = "it names different commands in different places";
const ONLY_TEXT: &str = "the command is told only in a text for people";
const CUT_OFF: &str = "the command is cut off";
const TOO_MANY: &str = "it names too many files";
const DIFFERENT_FOLDERS: &str = "it names different folders to run in";
const UNCLEAR_FOLDER: &str = "it does not say clearly which folder the command runs in";
const INCOMPLETE: &str = "not everything that was said of it is known";
const NOT_READ: &str = "a part of it is malformed and was left out";

impl Subject {
    /// Returns the request in few words: its command, or its kind with its files or its tool.
    pub fn summary(&self) -> String {
        if let Some(words) = self.command() {
            return words.join(" ");
        }
        let kind = self.kind().map_or("something", |kind| kind.as_str());
        let paths: Vec<&str> = self.paths().iter().map(|path| &*path.path).collect();
        match paths[..] {
            [] => self.tool().map_or_else(|| kind.to_owned(), |tool| format!("{kind} ({tool})")),
            _ => format!("{kind} {}", paths.join(" ")),
        }
    }

    /// Returns the [`summary`](Self::summary) cut to 300 characters. It says how many more there are.
    pub fn short_summary(&self) -> String {
        shortened(&self.summary())
    }

    /// What a permission asks for, over the call as it stands in the session. `left_out` is what was malformed in the
    /// request or in the updates of its call.
    pub fn of_permission(
        snapshot: &Snapshot,
        permission: &Permission,
        left_out: Option<&str>,
        scene: &Scene,
    ) -> Subject {
        Subject::of(snapshot, permission.subject(), left_out, scene)
    }

    /// The same of what a request is about. The call must have been changed as the request says.
    pub fn of(
        snapshot: &Snapshot,
        about: Option<&v2::RequestPermissionSubject<'_>>,
        left_out: Option<&str>,
        scene: &Scene,
    ) -> Subject {
        let mut subject = Subject::empty(scene);
        if let Some(problem) = left_out {
            subject.doubt(format!("{NOT_READ}: {problem}"));
        }
        match about {
            None => subject.doubt(NO_SUBJECT),
            Some(v2::RequestPermissionSubject::Unknown(_)) => subject.doubt(UNKNOWN_SUBJECT),
            Some(v2::RequestPermissionSubject::ToolCall(about)) => {
                match snapshot.tool_call_outline(&about.tool_call.tool_call_id) {
                    Some(outline) => subject.take_call(&outline, snapshot, false),
                    None => subject.doubt(NOTHING_TOLD),
                }
            }
            Some(v2::RequestPermissionSubject::Command(about)) => {
                subject.kind = Some(v2::ToolKind::Execute);
                subject.cwds.push(about.cwd.as_str().to_owned());
                subject.add_command(Reading::of_line(&about.command), Source::Structured);
                let outline = about.tool_call_id.as_deref().and_then(|id| snapshot.tool_call_outline(id));
                if let Some(outline) = outline {
                    subject.take_call(&outline, snapshot, true);
                }
            }
            Some(v2::RequestPermissionSubject::More(none)) => none.never(),
        }
        subject.finish();
        subject
    }

    /// Nothing, with a reason why that is all.
    pub(crate) fn unknown(scene: &Scene, reason: impl Into<String>) -> Subject {
        let mut subject = Subject::empty(scene);
        subject.doubt(reason);
        subject
    }

    /// Returns the subject of a command line alone, as in the examples of a rule.
    pub fn of_line(line: &str, scene: &Scene) -> Subject {
        let mut subject = Subject::empty(scene);
        subject.add_command(Reading::of_line(line), Source::Structured);
        subject.finish();
        subject
    }

    /// The same, of which a part could not be read.
    pub(crate) fn with_doubt(mut self, problem: &str) -> Subject {
        self.doubts.insert(0, format!("{NOT_READ}: {problem}"));
        self
    }

    fn empty(scene: &Scene) -> Subject {
        Subject {
            scene: scene.clone(),
            readings: Vec::new(),
            has_command: false,
            source: Source::None,
            cwds: Vec::new(),
            paths: Vec::new(),
            mentions: Vec::new(),
            kind: None,
            other_kinds: Vec::new(),
            tool: None,
            other_tools: Vec::new(),
            network: None,
            doubts: Vec::new(),
        }
    }

    fn doubt(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        if !self.doubts.contains(&reason) {
            self.doubts.push(reason);
        }
    }

    // ----- reading it

    /// The words of the command, where one is known.
    pub fn command(&self) -> Option<&[String]> {
        let is_told = self.source != Source::None;
        self.readings.first().filter(|_| is_told).map(|reading| &*reading.tokens)
    }

    /// The words of each simple command that the request would run; of one that does nothing but run others (`timeout 9
    /// make`), of those.
    pub fn commands(&self) -> Vec<Vec<&str>> {
        fn add<'s>(runs: &'s [Run], commands: &mut Vec<Vec<&'s str>>) {
            for run in runs {
                match &*run.inner {
                    _ if run.is_login => commands.push(run.words.iter().map(|word| &*word.text).collect()),
                    [] => commands.push(run.words.iter().map(|word| &*word.text).collect()),
                    inner => add(inner, commands),
                }
            }
        }
        let mut commands = Vec::new();
        self.readings.iter().for_each(|reading| add(&reading.runs, &mut commands));
        commands
    }

    /// What `$root` stands for.
    pub fn root(&self) -> &str {
        &self.scene.root
    }

    /// Where the command was found.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The files that the request names, apart from those in its command.
    pub fn paths(&self) -> &[SubjectPath] {
        &self.paths
    }

    /// What the tool does, where that was told.
    pub fn kind(&self) -> Option<&v2::ToolKind> {
        self.kind.as_ref()
    }

    /// The tool's own name.
    pub fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    /// The agent's name.
    pub fn agent(&self) -> Option<&str> {
        self.scene.agent.as_deref()
    }

    /// The address that would be reached, where one was told.
    pub fn network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    /// The directory in which a command would begin.
    pub fn cwd(&self) -> &str {
        self.cwds.first().map_or_else(|| self.session_cwd(), String::as_str)
    }

    fn session_cwd(&self) -> &str {
        self.scene.cwd.as_deref().unwrap_or(&self.scene.root)
    }

    /// Why nobody can know what would be done, where that is so.
    pub fn unsure(&self) -> Option<&str> {
        self.doubts.first().map(String::as_str)
    }

    // ----- making it

    fn add_command(&mut self, reading: Reading, source: Source) {
        self.has_command = true;
        match self.readings.first() {
            None => self.source = source,
            Some(first) if first.tokens != reading.tokens || first.runs != reading.runs => {
                self.doubt(DIFFERENT);
            }
            Some(_) => return,
        }
        reading.doubts.iter().for_each(|doubt| self.doubt(Doubt::as_str(*doubt)));
        self.readings.push(reading);
    }

    /// A command that is only good for finding what is forbidden.
    fn suspect(&mut self, line: &str) {
        let mut reading = Reading::of_line(line);
        let runs = std::mem::take(&mut reading.runs);
        reading.guesses.extend(runs);
        reading.sets_variables = false;
        self.readings.push(reading);
    }

    fn add_path(&mut self, path: &str, operation: Option<Operation>, needs_cover: bool) {
        let place = match self.paths.iter().position(|known| known.path == path) {
            Some(place) => place,
            None if self.paths.len() >= MAX_PATHS => return self.doubt(TOO_MANY),
            None => {
                self.paths.push(SubjectPath { path: path.to_owned(), operations: Vec::new(), needs_cover });
                self.paths.len() - 1
            }
        };
        let known = &mut self.paths[place];
        known.needs_cover |= needs_cover;
        if let Some(operation) = operation.filter(|operation| !known.operations.contains(operation)) {
            known.operations.push(operation);
        }
    }

    fn take_call(&mut self, outline: &ToolCallOutline<'_>, snapshot: &Snapshot, has_subject: bool) {
        let call = outline.call();
        if let Some(problem) = outline.problem() {
            self.doubt(format!("{INCOMPLETE}: {problem}"));
        }
        if !has_subject {
            self.kind = Some(call.kind().clone());
        }
        let meta_name = call.meta().and_then(json::tool_name);
        self.tool = call.name().map(str::to_owned).or(meta_name);
        let title = call.title();
        let one_word = title.filter(|title| is_one_word(title)).map(str::to_owned);
        self.other_tools.extend(one_word.clone());
        let input = Input::read(call.raw_input());
        self.other_tools.extend(input.tool_names.iter().cloned());
        self.network = input.network.clone();
        self.cwds.extend(input.cwds.iter().cloned());
        if input.is_odd {
            self.doubt(NOT_READ);
        }
        if let Some(key) = &input.unknown_key {
            self.doubt(format!("it has {key:?}, which may change what runs or with which rights"));
        }
        // Some agents write the folder behind the command, for people.
        let behind =
            title.and_then(|title| input.command_text().and_then(|command| title.strip_prefix(command)));
        if let Some(Folder::Told(folder)) = behind.map(Folder::of) {
            self.cwds.push(folder.to_owned());
        }
        self.mentions.extend(input.mentions.iter().cloned());
        for reading in input.commands() {
            self.add_command(reading, Source::Structured);
        }
        for line in &input.hidden_commands {
            self.suspect(line);
            self.doubt(DIFFERENT);
        }
        self.take_content(call, snapshot);
        for location in call.locations() {
            self.add_path(location.path.as_str(), None, false);
        }
        for path in &input.paths {
            self.add_path(path, None, true);
        }
        if self.readings.is_empty() {
            self.take_words(call, input.is_empty, one_word.is_some());
        }
        // Words for people tell nothing that a rule could go by.
        let is_bare = *call.kind() == v2::ToolKind::Other && self.tool.is_none() && input.is_empty;
        if is_bare && self.paths.is_empty() && !self.has_command {
            self.doubt(NOTHING_TOLD);
        }
    }

    fn take_content(&mut self, call: &ToolCall, snapshot: &Snapshot) {
        for item in call.content().items().filter_map(Item::structured) {
            match item {
                v2::ToolCallContent::Diff(diff) => {
                    diff.changes.iter().for_each(|change| self.take_change(change));
                }
                v2::ToolCallContent::Terminal(terminal) => {
                    let known = snapshot.terminal_outline(&terminal.terminal_id);
                    if let Some(problem) = known.and_then(|terminal| terminal.problem) {
                        self.doubt(format!("{INCOMPLETE}: {problem}"));
                    }
                    if let Some(line) = known.and_then(|terminal| terminal.command) {
                        self.add_command(Reading::of_line(line), Source::Structured);
                        self.cwds.extend(known.and_then(|terminal| terminal.cwd).map(str::to_owned));
                    }
                }
                v2::ToolCallContent::Content(content) => {
                    if matches!(content.content, v2::ContentBlock::Unknown(_)) {
                        self.doubt(UNKNOWN_PART);
                    }
                }
                v2::ToolCallContent::Session(_) | v2::ToolCallContent::Unknown(_) => self.doubt(UNKNOWN_PART),
                v2::ToolCallContent::More(none) => none.never(),
            }
        }
    }

    fn take_change(&mut self, change: &v2::DiffChange<'_>) {
        let operation = match change {
            v2::DiffChange::Add(_) => Operation::Add,
            v2::DiffChange::Delete(_) => Operation::Delete,
            v2::DiffChange::Modify(_) => Operation::Modify,
            v2::DiffChange::Move(_) => Operation::Move,
            v2::DiffChange::Copy(_) => Operation::Copy,
            v2::DiffChange::Unknown(_) => Operation::Unknown,
            v2::DiffChange::More(none) => none.never(),
        };
        if operation == Operation::Unknown {
            self.doubt(UNKNOWN_PART);
        }
        if let Some(path) = change.path() {
            self.add_path(&path, Some(operation), true);
        }
        if let Some(path) = change.old_path() {
            self.add_path(path.as_str(), Some(operation), true);
        }
    }

    /// Looks for the command in what is for people.
    fn take_words(&mut self, call: &ToolCall, has_no_input: bool, title_is_name: bool) {
        let is_execute = *call.kind() == v2::ToolKind::Execute;
        let is_shell = |name: &str| {
            const NAMES: [&str; 9] =
                ["bash", "shell", "sh", "terminal", "execute", "run", "exec", "command", "run_shell_command"];
            NAMES.contains(&&*name.to_lowercase())
        };
        let is_shell =
            call.name().is_some_and(is_shell) || title_is_name && call.title().is_some_and(is_shell);
        if !(is_execute || is_shell && has_no_input) {
            return;
        }
        self.has_command = true;
        let title = call.title().filter(|title| is_execute && !title_is_name && !title.trim().is_empty());
        let text = call.content().items().find_map(Item::text).map(str::to_owned);
        match (title, text) {
            (Some(title), _) if has_no_input => {
                let (line, folder) = Folder::split(title);
                let is_cut = is_cut(line) || is_cut(title);
                self.add_command(Reading::of_line(line), if is_cut { Source::Cut } else { Source::Title });
                if is_cut {
                    self.doubt(CUT_OFF);
                }
                match folder {
                    Folder::NotTold => {}
                    Folder::Told(folder) => {
                        // It may be a part of the command after all.
                        self.suspect(title);
                        let is_known = !folder.contains(char::is_whitespace)
                            || self.session_cwd() == folder
                            || self.scene.root == folder;
                        if !is_known {
                            self.doubt(UNCLEAR_FOLDER);
                        }
                        self.cwds.push(folder.to_owned());
                    }
                    Folder::Unclear => self.doubt(UNCLEAR_FOLDER),
                }
            }
            (None, Some(text)) if has_no_input => {
                let line = without_label(&text);
                self.add_command(
                    Reading::of_line(line),
                    if is_cut(line) { Source::Cut } else { Source::Text },
                );
                self.suspect(&text);
                self.doubt(if is_cut(line) { CUT_OFF } else { ONLY_TEXT });
            }
            (title, text) => {
                title.into_iter().for_each(|title| self.suspect(title));
                text.iter().for_each(|text| self.suspect(without_label(text)));
                self.doubt(NO_COMMAND);
            }
        }
    }

    fn finish(&mut self) {
        // A directory that is told from another one.
        let session = self.session_cwd().to_owned();
        for cwd in self.cwds.iter_mut().filter(|cwd| !cwd.starts_with(['~', '$'])) {
            // Its links are followed where it is looked at, so that `..` stays.
            let absolute = join(&session, cwd);
            *cwd = if absolute.split('/').any(|name| name == "..") { absolute } else { tidy(&absolute) };
        }
        if self.cwds.iter().any(|cwd| *cwd != self.cwds[0]) {
            self.doubt(DIFFERENT_FOLDERS);
        }
        let from_kind = match self.kind {
            Some(v2::ToolKind::Delete) => Some(Operation::Delete),
            Some(v2::ToolKind::Move) => Some(Operation::Move),
            _ => None,
        };
        if let Some(operation) = from_kind {
            for path in self.paths.iter_mut().filter(|path| !path.operations.contains(&operation)) {
                path.operations.push(operation);
            }
        }
        if self.has_command {
            self.other_kinds.push(v2::ToolKind::Execute);
        }
        for operation in self.paths.iter().flat_map(|path| &path.operations) {
            let kind = match operation {
                Operation::Delete => v2::ToolKind::Delete,
                Operation::Move => v2::ToolKind::Move,
                _ => v2::ToolKind::Edit,
            };
            if !self.other_kinds.contains(&kind) {
                self.other_kinds.push(kind);
            }
        }
        if !self.has_command {
            // Nothing else covers what it works on.
            self.paths.iter_mut().for_each(|path| path.needs_cover = true);
        }
    }

    /// Whether files are changed, as far as anybody can tell.
    pub(crate) fn may_write(&self) -> bool {
        use v2::ToolKind::{Fetch, Read, Search, Think};
        !matches!(self.kind, Some(Read | Search | Fetch | Think)) || self.has_diff()
    }

    pub(crate) fn has_diff(&self) -> bool {
        self.paths.iter().any(|path| !path.operations.is_empty())
    }
}

/// The folder in which a command runs, as some agents write it behind the command: `[in DIR]` or `[current working directory
/// DIR]`, and then perhaps what it is for, in parentheses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Folder<'t> {
    NotTold,
    Told(&'t str),
    /// There is something of the kind, but where it begins and ends can be read in more than one way.
    Unclear,
}

impl<'t> Folder<'t> {
    const MARKS: [&'static str; 2] = ["[in ", "[current working directory "];

    /// The folder in what stands behind a command.
    fn of(behind: &'t str) -> Folder<'t> {
        Folder::split(behind).1
    }

    /// The command of a title, and its folder.
    fn split(title: &'t str) -> (&'t str, Folder<'t>) {
        let lower = title.to_ascii_lowercase();
        let mut found = Folder::MARKS.iter().flat_map(|mark| lower.match_indices(mark));
        let (at, mark) = match (found.next(), found.next()) {
            (None, _) => return (title, Folder::NotTold),
            (Some(found), None) => found,
            (Some(_), Some(_)) => return (title, Folder::Unclear),
        };
        let (command, rest) = (title[..at].trim_end(), &title[at + mark.len()..]);
        let rest = rest.trim_end();
        let rest = rest.strip_suffix("[background]").unwrap_or(rest).trim_end();
        let Some((folder, behind)) = rest.split_once(']') else { return (title, Folder::Unclear) };
        let behind = behind.trim();
        let is_for_people = behind.is_empty() || behind.starts_with('(') && behind.ends_with(')');
        let is_clear = is_for_people
            && !behind.contains(['[', ']'])
            && !folder.is_empty()
            && !folder.contains(|letter: char| letter.is_control() || letter == '[')
            && (at == 0 || title[..at].ends_with(' '));
        if is_clear { (command, Folder::Told(folder)) } else { (title, Folder::Unclear) }
    }
}

/// Whether a title is nothing but a name.
fn is_one_word(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && !text.contains(char::is_whitespace)
}

/// Whether a text ends, or has been shortened, with an ellipsis. Three dots behind a slash are what Go calls everything.
fn is_cut(text: &str) -> bool {
    let text = text.trim_end();
    text.contains('…') || text.ends_with("...") && !text.ends_with("/...")
}

/// A text without the word that says what it is: `Running: make`.
fn without_label(text: &str) -> &str {
    let text = text.trim();
    let text = match text.split_once(": ") {
        Some((label, rest)) if label.bytes().all(|byte| byte.is_ascii_alphabetic()) => rest,
        _ => text,
    };
    text.strip_prefix("$ ").unwrap_or(text)
}

fn shortened(words: &str) -> String {
    const MAX: usize = 300;
    match words.char_indices().nth(MAX) {
        None => words.to_owned(),
        Some((end, _)) => {
            format!("{}… ({} more characters)", &words[..end], words[end..].chars().count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn what_is_cut_off_is_told() {
        assert_eq!(shortened("ls"), "ls");
        let exact = "é".repeat(300);
        assert_eq!(shortened(&exact), exact);
        assert_eq!(shortened(&format!("{exact} && rm -rf ~")), format!("{exact}… (12 more characters)"));
    }
}
