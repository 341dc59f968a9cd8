//! Raw input of a tool, whose keys differ between agents.

use switchboard_acp::{Raw, Text};

use crate::command::Interpretation;
use crate::path::is_uri;

const COMMANDS: [&str; 3] = ["command", "cmd", "script"];
const PATHS: [&str; 8] =
    ["path", "file_path", "filePath", "filepath", "source", "destination", "old_path", "new_path"];
/// Keys that some agents use for files and others for something else.
const PERHAPS_PATHS: [&str; 11] = [
    "absolute_path",
    "absolutePath",
    "file",
    "fileName",
    "filename",
    "files",
    "notebook_path",
    "notebookPath",
    "paths",
    "target_file",
    "targetFile",
];
const DIRECTORIES: [&str; 7] =
    ["cwd", "workdir", "working_directory", "workingDirectory", "working_dir", "directory", "dir_path"];
const ADDRESSES: [&str; 3] = ["url", "uri", "host"];
/// Keys of texts or file contents, not of file names.
const TEXTS: [&str; 34] = [
    "body",
    "content",
    "contents",
    "description",
    "diff",
    "explanation",
    "file_text",
    "fileText",
    "insert_text",
    "instruction",
    "instructions",
    "justification",
    "message",
    "new_str",
    "new_string",
    "new_text",
    "newString",
    "newText",
    "old_str",
    "old_string",
    "old_text",
    "oldString",
    "oldText",
    "patch",
    "prompt",
    "query",
    "reason",
    "replacement",
    "summary",
    "text",
    "thought",
    "title",
    "todos",
    "unified_diff",
];
/// Keys next to a command that do not affect it.
const BESIDE_COMMAND: [&str; 32] = [
    "approval_id",
    "args",
    "background",
    "call_id",
    "callId",
    "command_actions",
    "commandActions",
    "id",
    "is_background",
    "isBackground",
    "item_id",
    "itemId",
    "max_output_tokens",
    "parsed_cmd",
    "parsedCmd",
    "process_id",
    "processId",
    "proposed_execpolicy_amendment",
    "proposedExecpolicyAmendment",
    "run_in_background",
    "runInBackground",
    "thread_id",
    "threadId",
    "timeout",
    "timeout_ms",
    "timeout_seconds",
    "timeoutMs",
    "turn_id",
    "turnId",
    "type",
    "yield_time_ms",
    "yieldTimeMs",
];
/// Keys that lift restrictions of any call.
const LIFTING: [&str; 9] = [
    "additional_permissions",
    "additionalPermissions",
    "dangerouslyDisableSandbox",
    "dangerously_disable_sandbox",
    "disable_sandbox",
    "sandbox_permissions",
    "sandboxPermissions",
    "with_escalated_permissions",
    "withEscalatedPermissions",
];
/// Maximum depth and number of texts considered as file names.
const MAX_DEPTH: usize = 12;
const MAX_MENTIONS: usize = 1000;
/// Maximum length of a file name.
const MAX_NAME: usize = 4096;
const TOOLS: [&str; 4] = ["tool", "tool_name", "toolName", "name"];

/// Information found in the input.
#[derive(Debug, Default)]
pub(super) struct Input {
    lines: Vec<CommandLine>,
    /// Commands in an unexpected position.
    pub(super) hidden_commands: Vec<String>,
    pub(super) paths: Vec<String>,
    /// Other texts that may be file names.
    pub(super) mentions: Vec<Mention>,
    /// Its working folders.
    pub(super) cwds: Vec<String>,
    /// A key that may change the command or its privileges.
    pub(super) unknown_key: Option<String>,
    pub(super) network: Option<String>,
    pub(super) tool_names: Vec<String>,
    /// Set if it is empty.
    pub(super) is_empty: bool,
    /// Set if a value has an unexpected type.
    pub(super) is_odd: bool,
}

/// A text in the input that may be the name of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mention {
    pub(crate) text: String,
    /// Set if it looks like a path.
    pub(crate) is_path: bool,
    /// Set if it is among texts or file contents.
    pub(crate) is_words: bool,
    /// Set if it is a search pattern for files.
    pub(crate) is_search: bool,
}

#[derive(Debug)]
enum CommandLine {
    Text(String),
    Words(Vec<String>),
}

impl Input {
    pub(super) fn read(raw: Option<&Raw<'_>>) -> Input {
        let mut input = Input::default();
        let Some(raw) = raw.filter(|raw| raw.as_str().trim() != "null") else {
            return Input { is_empty: true, ..input };
        };
        input.is_empty = raw.is_object() && raw.entries().next().is_none();
        let arguments = input.appended(raw);
        for (key, value) in raw.entries() {
            let value = value.borrowed();
            match &*key {
                key if COMMANDS.contains(&key) => input.take_command(&value, &arguments),
                key if DIRECTORIES.contains(&key) => input.take_directory(&value),
                key if ADDRESSES.contains(&key) => input.network = value.as_text().map(Text::into_owned),
                key if TOOLS.contains(&key) => input.tool_names.extend(value.as_text().map(Text::into_owned)),
                "arguments" => match value.as_text().map(|text| Raw::parse(text.into_owned())) {
                    Some(Ok(inner)) => input.take_arguments(&inner),
                    _ => input.take_arguments(&value),
                },
                "changes" => input.take_changes(&value),
                _ => {}
            }
            input.take_paths(&key, &value);
        }
        let has_command = !input.lines.is_empty();
        for (key, value) in raw.entries() {
            if !is_nothing(&value) {
                input.check_key(&key, &value, has_command);
            }
            let is_known = has_command && (key == "args" || DIRECTORIES.contains(&&*key));
            if !is_known && !COMMANDS.contains(&&*key) {
                // Texts next to an agent's own command are for people.
                let is_words = has_command && BESIDE_COMMAND.contains(&&*key);
                input.mention(if is_words { "text" } else { &key }, &value, 0);
            }
        }
        input
    }

    /// Adds the working folder of the tool.
    fn take_directory(&mut self, value: &Raw<'_>) {
        match value.as_text() {
            Some(text) if text.is_empty() => {}
            Some(text) => self.cwds.push(text.into_owned()),
            None => self.is_odd |= !is_nothing(value),
        }
    }

    /// Records a key that may change the command or its privileges.
    fn check_key(&mut self, key: &str, value: &Raw<'_>, has_command: bool) {
        let is_default = value.as_text().is_some_and(|text| matches!(&*text, "use_default" | "default"));
        let known: [&[&str]; 8] = [
            &COMMANDS,
            &PATHS,
            &PERHAPS_PATHS,
            &DIRECTORIES,
            &TEXTS,
            &TOOLS,
            &BESIDE_COMMAND,
            &["arguments", "changes"],
        ];
        let is_unknown = has_command && !known.iter().any(|keys| keys.contains(&key));
        if LIFTING.contains(&key) && !is_default || is_unknown && !(LIFTING.contains(&key) && is_default) {
            self.unknown_key.get_or_insert_with(|| key.to_owned());
        }
    }

    /// Searches a value for possible file names.
    fn mention(&mut self, key: &str, value: &Raw<'_>, depth: usize) {
        if depth > MAX_DEPTH || self.mentions.len() > MAX_MENTIONS {
            self.is_odd = true;
        } else if let Some(text) = value.as_text() {
            // Some tools get their arguments as text.
            let inner = text.trim_start().starts_with('{').then(|| Raw::parse(text.trim().to_owned()));
            match inner {
                Some(Ok(inner)) if !TEXTS.contains(&key) => self.mention(key, &inner, depth + 1),
                _ => self.mentions.extend(Mention::of(key, &text)),
            }
        } else if value.is_object() {
            for (inner, value) in value.entries() {
                let name = Mention::of(key, &inner).filter(|mention| mention.is_path);
                self.mentions.extend(name.map(|mention| Mention { is_search: false, ..mention }));
                // Everything inside a text is text.
                self.mention(if TEXTS.contains(&key) { key } else { &inner }, &value, depth + 1);
            }
        } else {
            for item in value.items() {
                self.mention(key, &item, depth + 1);
            }
        }
    }

    /// Returns arguments that are separate from the command.
    fn appended(&mut self, raw: &Raw<'_>) -> Vec<String> {
        let Some(value) = raw.entries().find_map(|(key, value)| (key == "args").then(|| value.into_owned()))
        else {
            return Vec::new();
        };
        if let Some(text) = value.as_text() {
            // It may be one argument or a line of them.
            self.is_odd |=
                text.contains(|letter: char| !letter.is_ascii_alphanumeric() && !"-_./".contains(letter));
            return vec![text.into_owned()];
        }
        match strings(&value) {
            Some(words) => words,
            None => {
                self.is_odd |= value.as_str().trim() != "null";
                Vec::new()
            }
        }
    }

    fn take_command(&mut self, value: &Raw<'_>, appended: &[String]) {
        if let Some(text) = value.as_text() {
            let line = match appended {
                [] => CommandLine::Text(text.into_owned()),
                // A program with its arguments, unless the first is a command line.
                _ if !text
                    .contains(|letter: char| letter.is_whitespace() || "'\"\\$`;&|<>()".contains(letter)) =>
                {
                    CommandLine::Words(
                        std::iter::once(text.into_owned()).chain(appended.iter().cloned()).collect(),
                    )
                }
                _ => {
                    self.is_odd = true;
                    CommandLine::Text(format!("{text} {}", appended.join(" ")))
                }
            };
            self.lines.push(line);
        } else if let Some(mut words) = strings(value) {
            words.extend(appended.iter().cloned());
            if words.is_empty() {
                self.is_odd = true;
            } else {
                self.lines.push(CommandLine::Words(words));
            }
        } else if value.as_str().trim() != "null" {
            self.is_odd = true;
        }
    }

    /// Adds the files of a key for files.
    fn take_paths(&mut self, key: &str, value: &Raw<'_>) {
        let is_certain = PATHS.contains(&key);
        if !is_certain && !PERHAPS_PATHS.contains(&key) {
            return;
        }
        if let Some(text) = value.as_text() {
            self.paths.push(text.into_owned());
        } else if let Some(paths) = strings(value) {
            self.paths.extend(paths);
        } else {
            self.is_odd |= is_certain && value.as_str().trim() != "null";
        }
    }

    fn take_arguments(&mut self, arguments: &Raw<'_>) {
        for (key, value) in arguments.entries() {
            self.take_paths(&key, &value);
            if LIFTING.contains(&&*key) && !is_nothing(&value) {
                self.unknown_key.get_or_insert_with(|| key.to_string());
            }
            if DIRECTORIES.contains(&&*key) {
                self.take_directory(&value);
            }
            if COMMANDS.contains(&&*key) {
                let words = strings(&value).map(|words| words.join(" "));
                self.hidden_commands.extend(value.as_text().map(Text::into_owned).or(words));
            } else if ADDRESSES.contains(&&*key) {
                self.network = value.as_text().map(Text::into_owned);
            }
        }
    }

    /// Adds the files of a change by their paths, including the target of a move.
    fn take_changes(&mut self, changes: &Raw<'_>) {
        for (path, change) in changes.entries() {
            self.paths.push(path.into_owned());
            for (key, value) in change.entries() {
                if key == "move_path" {
                    self.paths.extend(value.as_text().map(Text::into_owned));
                }
            }
        }
    }

    /// Returns the command if it is one text.
    pub(super) fn command_text(&self) -> Option<&str> {
        match &*self.lines {
            [CommandLine::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the parsed commands.
    pub(super) fn commands(&self) -> impl Iterator<Item = Interpretation> {
        self.lines.iter().map(|line| match line {
            CommandLine::Text(text) => Interpretation::of_line(text),
            CommandLine::Words(words) => Interpretation::of_words(words.clone()),
        })
    }
}

impl Mention {
    fn of(key: &str, text: &str) -> Option<Mention> {
        let is_words = TEXTS.contains(&key);
        if text.is_empty() || text.len() > MAX_NAME || text.contains(['\n', '\0']) {
            return None;
        }
        let is_file_uri = text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
        if is_uri(text) && !is_file_uri || ADDRESSES.contains(&key) && !is_file_uri && !text.starts_with('/')
        {
            return None;
        }
        let is_path = is_file_uri
            || text.starts_with(['/', '~'])
            || text.split('/').any(|name| name == "..")
            || text.starts_with("./")
            || text.starts_with("$HOME")
            || text.starts_with("${HOME}");
        let is_name = PATHS.contains(&key) || PERHAPS_PATHS.contains(&key) || DIRECTORIES.contains(&key);
        let is_search = !is_name
            && text.contains(['*', '?', '['])
            && (text.contains('/') || ["glob", "globs", "include", "includes"].contains(&key));
        let has_blank = text.contains(char::is_whitespace);
        (is_path || !has_blank).then(|| Mention { text: text.to_owned(), is_path, is_words, is_search })
    }
}

/// Returns whether a value is empty.
fn is_nothing(value: &Raw<'_>) -> bool {
    matches!(value.as_str().trim(), "null" | "false" | "\"\"")
        || value.is_object() && value.entries().next().is_none()
        || value.as_str().trim_start().starts_with('[') && value.items().next().is_none()
}

/// Returns the items of a list of strings.
fn strings(value: &Raw<'_>) -> Option<Vec<String>> {
    let is_list = value.as_str().trim_start().starts_with('[');
    let items = value.items().map(|item| item.as_text().map(Text::into_owned));
    if is_list { items.collect() } else { None }
}
