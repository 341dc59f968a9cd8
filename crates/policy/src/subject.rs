//! The requested action, in one form for all agents.

mod input;
mod json;

use std::fmt;

use switchboard_acp::v2;
use switchboard_session::{Item, Permission, Snapshot, ToolCall, ToolCallOutline};

use crate::command::{Interpretation, SimpleCommand};
use crate::path::{join, tidy};
use crate::shell::Doubt;
use input::Input;
pub(crate) use input::Mention;

/// Maximum number of evaluated files of a request.
const MAX_PATHS: usize = 1000;

/// Context of a request, from earlier messages and from the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// Value of `$root`: the absolute path of the project's folder.
    pub root: String,
    /// The session's working directory if known; the root otherwise.
    pub cwd: Option<String>,
    /// The agent's name if known.
    pub agent: Option<String>,
}

/// Origin of a request's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A field for commands.
    Structured,
    /// The title of the tool call.
    Title,
    /// A text for people.
    Text,
    /// A truncated text.
    Cut,
    /// No command is known.
    None,
}

impl Source {
    /// Returns the origin as a word.
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

/// Operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Creates it.
    Add,
    /// Changes its content.
    Modify,
    /// Deletes it.
    Delete,
    /// Moves it to another path.
    Move,
    /// Copies it from another file.
    Copy,
    /// An unknown operation.
    Unknown,
}

impl Operation {
    pub(crate) const KNOWN: [Operation; 5] =
        [Operation::Add, Operation::Modify, Operation::Delete, Operation::Move, Operation::Copy];

    /// Returns the operation as a word, as in rules.
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
    /// The path as sent.
    pub path: String,
    /// The operations on it; empty if unknown.
    pub operations: Vec<Operation>,
    /// Set if a rule must allow it. Files that a command only touches need no rule.
    pub(crate) needs_cover: bool,
}

/// The action that a request asks for.
///
/// Created from the folded tool call, never from the request alone, because some agents send only the call's
/// id in a request. Reasons why the effect cannot be known are part of it; such a request is never allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    pub(crate) scene: RequestContext,
    pub(crate) readings: Vec<Interpretation>,
    /// Set if there is a command, known or not.
    pub(crate) has_command: bool,
    pub(crate) source: Source,
    /// The folders in which it starts. More than one means that the folder is unknown.
    cwds: Vec<String>,
    pub(crate) paths: Vec<SubjectPath>,
    /// Other texts in the tool's input that may be file names.
    pub(crate) mentions: Vec<Mention>,
    pub(crate) kind: Option<v2::ToolKind>,
    /// Additional kinds of the call, regardless of its own statement: only for deny rules.
    pub(crate) other_kinds: Vec<v2::ToolKind>,
    pub(crate) tool: Option<String>,
    /// Possible names of the tool: only for deny rules.
    pub(crate) other_tools: Vec<String>,
    pub(crate) network: Option<String>,
    pub(crate) doubts: Vec<String>,
}

const NO_SUBJECT: &str = "the request has no subject";
const UNKNOWN_SUBJECT: &str = "the subject of the request has an unknown type";
const NOTHING_TOLD: &str = "the tool call does not say what it does";
const UNKNOWN_PART: &str = "a part of the tool call has an unknown type";
const NO_COMMAND: &str = "the tool call does not contain its command";
const DIFFERENT: &str = "it contains different commands in different fields";
const ONLY_TEXT: &str = "the command is only in a text for people";
const CUT_OFF: &str = "the command is truncated";
const TOO_MANY: &str = "it names too many files";
const DIFFERENT_FOLDERS: &str = "it names different working folders";
const UNCLEAR_FOLDER: &str = "the working folder of the command is ambiguous";
const INCOMPLETE: &str = "parts of the tool call are not known any more";
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

    /// Returns the subject of a permission, using the tool call in the session. `left_out` names a malformed
    /// part of the request or of the call's updates.
    pub fn of_permission(
        snapshot: &Snapshot,
        permission: &Permission,
        left_out: Option<&str>,
        scene: &RequestContext,
    ) -> Subject {
        Subject::of(snapshot, permission.subject(), left_out, scene)
    }

    /// Returns the subject of a request. The request's changes must already be applied to the call.
    pub fn of(
        snapshot: &Snapshot,
        about: Option<&v2::RequestPermissionSubject<'_>>,
        left_out: Option<&str>,
        scene: &RequestContext,
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
                subject.add_command(Interpretation::of_line(&about.command), Source::Structured);
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

    /// Returns an empty subject with the reason why nothing is known.
    pub(crate) fn unknown(scene: &RequestContext, reason: impl Into<String>) -> Subject {
        let mut subject = Subject::empty(scene);
        subject.doubt(reason);
        subject
    }

    /// Returns the subject of a command line alone, as in the examples of a rule.
    pub fn of_line(line: &str, scene: &RequestContext) -> Subject {
        let mut subject = Subject::empty(scene);
        subject.add_command(Interpretation::of_line(line), Source::Structured);
        subject.finish();
        subject
    }

    /// Adds the doubt that a part could not be decoded.
    pub(crate) fn with_doubt(mut self, problem: &str) -> Subject {
        self.doubts.insert(0, format!("{NOT_READ}: {problem}"));
        self
    }

    fn empty(scene: &RequestContext) -> Subject {
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

    // ----- accessors

    /// Returns the words of the command if one is known.
    pub fn command(&self) -> Option<&[String]> {
        let is_told = self.source != Source::None;
        self.readings.first().filter(|_| is_told).map(|reading| &*reading.tokens)
    }

    /// Returns the words of each simple command of the request; for a wrapper (`timeout 9 make`), those of
    /// its commands.
    pub fn commands(&self) -> Vec<Vec<&str>> {
        fn add<'s>(runs: &'s [SimpleCommand], commands: &mut Vec<Vec<&'s str>>) {
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

    /// Returns the value of `$root`.
    pub fn root(&self) -> &str {
        &self.scene.root
    }

    /// Returns the origin of the command.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the files that the request names, apart from those in its command.
    pub fn paths(&self) -> &[SubjectPath] {
        &self.paths
    }

    /// Returns the kind of the tool call if known.
    pub fn kind(&self) -> Option<&v2::ToolKind> {
        self.kind.as_ref()
    }

    /// Returns the tool's own name.
    pub fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    /// Returns the agent's name.
    pub fn agent(&self) -> Option<&str> {
        self.scene.agent.as_deref()
    }

    /// Returns the network address of the request if known.
    pub fn network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    /// Returns the directory in which a command would start.
    pub fn cwd(&self) -> &str {
        self.cwds.first().map_or_else(|| self.session_cwd(), String::as_str)
    }

    fn session_cwd(&self) -> &str {
        self.scene.cwd.as_deref().unwrap_or(&self.scene.root)
    }

    /// Returns why the effect of the request is unknown, if it is.
    pub fn unsure(&self) -> Option<&str> {
        self.doubts.first().map(String::as_str)
    }

    // ----- construction

    fn add_command(&mut self, reading: Interpretation, source: Source) {
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

    /// Adds a command that only deny rules see.
    fn add_suspect(&mut self, line: &str) {
        let mut reading = Interpretation::of_line(line);
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
            self.doubt(format!("it has {key:?}, which may change the command or its privileges"));
        }
        // Some agents append the folder to the command, for people.
        let behind =
            title.and_then(|title| input.command_text().and_then(|command| title.strip_prefix(command)));
        if let Some(Folder::Named(folder)) = behind.map(Folder::of) {
            self.cwds.push(folder.to_owned());
        }
        self.mentions.extend(input.mentions.iter().cloned());
        for reading in input.commands() {
            self.add_command(reading, Source::Structured);
        }
        for line in &input.hidden_commands {
            self.add_suspect(line);
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
        // Text for people alone is nothing that a rule could match.
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
                        self.add_command(Interpretation::of_line(line), Source::Structured);
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

    /// Looks for the command in texts for people.
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
                self.add_command(
                    Interpretation::of_line(line),
                    if is_cut { Source::Cut } else { Source::Title },
                );
                if is_cut {
                    self.doubt(CUT_OFF);
                }
                match folder {
                    Folder::None => {}
                    Folder::Named(folder) => {
                        // It may be part of the command instead.
                        self.add_suspect(title);
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
                    Interpretation::of_line(line),
                    if is_cut(line) { Source::Cut } else { Source::Text },
                );
                self.add_suspect(&text);
                self.doubt(if is_cut(line) { CUT_OFF } else { ONLY_TEXT });
            }
            (title, text) => {
                title.into_iter().for_each(|title| self.add_suspect(title));
                text.iter().for_each(|text| self.add_suspect(without_label(text)));
                self.doubt(NO_COMMAND);
            }
        }
    }

    fn finish(&mut self) {
        // A directory relative to another one.
        let session = self.session_cwd().to_owned();
        for cwd in self.cwds.iter_mut().filter(|cwd| !cwd.starts_with(['~', '$'])) {
            // Links are resolved on access, so `..` is kept.
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
            // No other unit covers its files.
            self.paths.iter_mut().for_each(|path| path.needs_cover = true);
        }
    }

    /// Returns whether files may be changed.
    pub(crate) fn may_write(&self) -> bool {
        use v2::ToolKind::{Fetch, Read, Search, Think};
        !matches!(self.kind, Some(Read | Search | Fetch | Think)) || self.has_diff()
    }

    pub(crate) fn has_diff(&self) -> bool {
        self.paths.iter().any(|path| !path.operations.is_empty())
    }
}

/// The folder of a command, as some agents append it to the command: `[in DIR]` or `[current working
/// directory DIR]`, possibly followed by its purpose in parentheses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Folder<'t> {
    None,
    Named(&'t str),
    /// Present, but ambiguous in its start or end.
    Unclear,
}

impl<'t> Folder<'t> {
    const MARKS: [&'static str; 2] = ["[in ", "[current working directory "];

    /// Returns the folder in the text after a command.
    fn of(behind: &'t str) -> Folder<'t> {
        Folder::split(behind).1
    }

    /// Splits a title into command and folder.
    fn split(title: &'t str) -> (&'t str, Folder<'t>) {
        let lower = title.to_ascii_lowercase();
        let mut found = Folder::MARKS.iter().flat_map(|mark| lower.match_indices(mark));
        let (at, mark) = match (found.next(), found.next()) {
            (None, _) => return (title, Folder::None),
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
        if is_clear { (command, Folder::Named(folder)) } else { (title, Folder::Unclear) }
    }
}

/// Returns whether a title is a single word.
fn is_one_word(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && !text.contains(char::is_whitespace)
}

/// Returns whether a text is truncated with an ellipsis. Go uses `/...` for all packages.
fn is_cut(text: &str) -> bool {
    let text = text.trim_end();
    text.contains('…') || text.ends_with("...") && !text.ends_with("/...")
}

/// Returns a text without a leading label: `Running: make`.
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
    fn a_truncated_subject_says_so() {
        assert_eq!(shortened("ls"), "ls");
        let exact = "é".repeat(300);
        assert_eq!(shortened(&exact), exact);
        assert_eq!(shortened(&format!("{exact} && rm -rf ~")), format!("{exact}… (12 more characters)"));
    }
}
