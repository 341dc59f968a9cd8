//! What a tool was given, whose keys each agent calls as it likes.

use switchboard_acp::{Raw, Text};

use crate::command::Reading;

const COMMANDS: [&str; 3] = ["command", "cmd", "script"];
const PATHS: [&str; 8] =
    ["path", "file_path", "filePath", "filepath", "source", "destination", "old_path", "new_path"];
/// Keys under which some agents have files, and others something else.
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
const TOOLS: [&str; 4] = ["tool", "tool_name", "toolName", "name"];

/// What could be found in it.
#[derive(Debug, Default)]
pub(super) struct Input {
    lines: Vec<CommandLine>,
    /// Commands in a place that is not for them.
    pub(super) hidden_commands: Vec<String>,
    pub(super) paths: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) network: Option<String>,
    pub(super) tool_names: Vec<String>,
    /// Whether there is nothing in it.
    pub(super) is_empty: bool,
    /// Whether something in it is not what it should be.
    pub(super) is_odd: bool,
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
                key if DIRECTORIES.contains(&key) => {
                    if let Some(text) = value.as_text()
                        && (input.cwd.is_none() || key == "cwd")
                    {
                        input.cwd = Some(text.into_owned());
                    }
                }
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
        input
    }

    /// The arguments that stand apart from the command.
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
                // A program with its arguments, unless the first is a line of its own.
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

    /// Takes the files under a key, where it is one for them.
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
            if COMMANDS.contains(&&*key) {
                let words = strings(&value).map(|words| words.join(" "));
                self.hidden_commands.extend(value.as_text().map(Text::into_owned).or(words));
            } else if ADDRESSES.contains(&&*key) {
                self.network = value.as_text().map(Text::into_owned);
            }
        }
    }

    /// The files of a change, by their paths; one that is moved tells where to.
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

    /// The commands, each as it is understood.
    pub(super) fn commands(&self) -> impl Iterator<Item = Reading> {
        self.lines.iter().map(|line| match line {
            CommandLine::Text(text) => Reading::of_line(text),
            CommandLine::Words(words) => Reading::of_words(words.clone()),
        })
    }
}

/// The items of a list of texts.
fn strings(value: &Raw<'_>) -> Option<Vec<String>> {
    let is_list = value.as_str().trim_start().starts_with('[');
    let items = value.items().map(|item| item.as_text().map(Text::into_owned));
    if is_list { items.collect() } else { None }
}
