//! The agents in an editor's file, with or without the bridge.

use std::path::Path;

use serde_json::{Value, json};
use switchboard_transport::Program;

use super::command_line::{BridgeLine, BridgeOptions, CommandLine};
use crate::agents;
use crate::configuration::edited_json::EditedJson;

/// Format of an editor's agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An object of agents by name.
    Servers {
        key: &'static str,
        /// Set if an entry is marked as the user's own.
        has_type: bool,
    },
    /// Three known agents, each with its own key, and a list `customAgents`.
    Obsidian,
}

/// An agent of an editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The program that the editor starts.
    pub(crate) program: Option<String>,
    /// Its path in the file.
    path: Vec<String>,
    /// The key of its program.
    command_key: &'static str,
}

/// Start of an agent by an editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With this command line.
    Direct(Vec<String>),
    /// Through Switchboard.
    Ours(CommandLine),
    /// Built into the editor.
    Own,
}

impl Shape {
    /// Returns the agents of a file. Invalid entries are left out, and reported when they are changed.
    pub(crate) fn entries(self, document: &Value) -> Vec<Entry> {
        let mut entries = Vec::new();
        match self {
            Shape::Servers { key, .. } => {
                for (name, server) in document.get(key).and_then(Value::as_object).into_iter().flatten() {
                    let path = vec![key.to_owned(), name.clone()];
                    entries.extend(entry(name, server, path, "command"));
                }
            }
            Shape::Obsidian => {
                for name in ["claude", "codex", "gemini"] {
                    let server = document.get(name).filter(|server| server.get("command").is_some());
                    entries.extend(
                        server.and_then(|server| entry(name, server, vec![name.to_owned()], "command")),
                    );
                }
                let custom = document.get("customAgents").and_then(Value::as_array).into_iter().flatten();
                for (place, server) in custom.enumerate() {
                    let path = vec!["customAgents".to_owned(), place.to_string()];
                    let name = server.get("id").and_then(Value::as_str).unwrap_or_default();
                    entries.extend(entry(name, server, path, "command"));
                }
            }
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries
    }

    /// Adds an agent that is reached through Switchboard. Returns its name.
    pub(crate) fn add(
        self,
        edited: &mut EditedJson,
        name: &str,
        title: &str,
        program: &str,
        line: &CommandLine,
    ) -> Result<String, String> {
        let arguments = json!(line.arguments());
        match self {
            Shape::Servers { key: servers, has_type } => {
                let taken = edited.get(&[servers, name]).is_some();
                let key = if taken { format!("{name}-switchboard") } else { name.to_owned() };
                if edited.get(&[servers, &key]).is_some() {
                    return Err(format!("has \"{name}\" and \"{key}\" already, and neither can be changed"));
                }
                let kind = has_type.then(|| ("type", json!("custom")));
                // One by one, to keep this order.
                for (name, value) in
                    kind.into_iter().chain([("command", json!(program)), ("args", arguments)])
                {
                    edited.set(&[servers, &key, name], &value)?;
                }
                Ok(key)
            }
            Shape::Obsidian => {
                if edited.get(&["customAgents"]).is_none() {
                    edited.set(&["customAgents"], &json!([]))?;
                }
                let agent = json!({"id": name, "displayName": title, "command": program, "args": arguments, "env": []});
                edited.push(&["customAgents"], &agent)?;
                Ok(name.to_owned())
            }
        }
    }
}

fn entry(name: &str, server: &Value, path: Vec<String>, command_key: &'static str) -> Option<Entry> {
    let server = server.as_object()?;
    let words = |list: Option<&Value>| -> Vec<String> {
        let list = list.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let name = name.to_owned();
    let (command, arguments) = match server.get(command_key) {
        Some(Value::String(command)) => (command.clone(), words(server.get("args"))),
        // Older settings of Zed have an object with a path here.
        Some(Value::Object(nested)) if command_key == "command" => {
            let mut path = path;
            path.push(command_key.to_owned());
            return entry(&name, &Value::Object(nested.clone()), path, "path");
        }
        Some(_) => return None,
        None => return Some(Entry { name, kind: Kind::Own, program: None, path, command_key }),
    };
    let ours = CommandLine::parse(&command, &arguments);
    let direct = || Kind::Direct([vec![command.clone()], arguments].concat());
    let kind = ours.map_or_else(direct, Kind::Ours);
    Some(Entry { name, kind, program: Some(command), path, command_key })
}

impl Entry {
    /// Returns whether an agent's name selects this one: by its name here, or by that of a known agent.
    pub(crate) fn is(&self, name: &str) -> bool {
        if self.name.eq_ignore_ascii_case(name) || self.name == format!("{name}-switchboard") {
            return true;
        }
        let Some(known) = agents::find(name) else { return false };
        if agents::find(&self.name.to_ascii_lowercase()).is_some_and(|other| other.name == known.name) {
            return true;
        }
        let line = match &self.kind {
            Kind::Direct(line) => line,
            Kind::Ours(CommandLine::Bridge(BridgeLine { command, others, .. })) => {
                if command.is_empty() {
                    others
                } else {
                    command
                }
            }
            Kind::Ours(CommandLine::Connect { .. }) | Kind::Own => return false,
        };
        let Some(program) = line.first().and_then(|program| Path::new(program).file_name()) else {
            return false;
        };
        let is_program = known.commands.iter().any(|command| program == command[0]);
        let is_package = |word: &String| {
            known.package.as_ref().is_some_and(|package| {
                word.strip_prefix(package.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
            })
        };
        is_program || line.iter().any(is_package)
    }

    fn at<'e>(&'e self, key: &'e str) -> Vec<&'e str> {
        self.path.iter().map(String::as_str).chain([key]).collect()
    }

    /// Returns the path of the whole entry, for removal.
    pub(crate) fn path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }
}

/// Inserts the bridge for an agent. Its arguments, its environment and all comments are kept.
pub(crate) fn wrap(
    edited: &mut EditedJson,
    entry: &Entry,
    program: &str,
    options: &BridgeOptions,
) -> Result<(), String> {
    let Kind::Direct(line) = &entry.kind else { return Ok(()) };
    let first = line.first().cloned().unwrap_or_default();
    let before = [BridgeLine::of_command(line.clone(), options).before_command(), vec![first]].concat();
    edited.set(&entry.at(entry.command_key), &json!(program))?;
    match edited.get(&entry.at("args")) {
        None | Some(Value::Null) => edited.set(&entry.at("args"), &json!(before)),
        Some(_) => words_of(edited, entry).and_then(|_| edited.prepend(&entry.at("args"), &before)),
    }
}

/// Replaces the command line of an entry that reaches its agent through Switchboard. The agent's own command line and its
/// comments are kept.
pub(crate) fn rewrite(
    edited: &mut EditedJson,
    entry: &Entry,
    program: &str,
    line: &CommandLine,
) -> Result<(), String> {
    let file = |name: &str| Program::new(name).locate().ok()?.canonicalize().ok();
    // A name on the `PATH` that leads to this program is as good as its path.
    if entry.program.as_deref().is_none_or(|now| now != program && file(now) != file(program)) {
        edited.set(&entry.at(entry.command_key), &json!(program))?;
    }
    let CommandLine::Bridge(line) = line else {
        return edited.set(&entry.at("args"), &json!(line.arguments()));
    };
    let (words, now) = (line.before_command(), words_of(edited, entry)?);
    let count = now.len().saturating_sub(line.command.len());
    if now[..count] == words {
        return Ok(());
    }
    edited.remove_first(&entry.at("args"), count)?;
    edited.prepend(&entry.at("args"), &words)
}

/// Returns the arguments of an entry. Fails unless they are strings.
fn words_of(edited: &EditedJson, entry: &Entry) -> Result<Vec<String>, String> {
    let arguments = edited.get(&entry.at("args")).unwrap_or_else(|| json!([]));
    let words = arguments.as_array().and_then(|words| {
        words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    });
    words.ok_or_else(|| format!("has arguments of \"{}\" that are not a list of strings", entry.name))
}

/// Removes the bridge from an agent, wherever [`wrap`] inserted it.
pub(crate) fn unwrap(edited: &mut EditedJson, entry: &Entry) -> Result<(), String> {
    let command = match &entry.kind {
        Kind::Ours(CommandLine::Bridge(line)) => &line.command[..],
        _ => &[],
    };
    let Some((program, arguments)) = command.split_first() else {
        return Err(format!("has no command line of \"{}\" after the bridge", entry.name));
    };
    edited.set(&entry.at(entry.command_key), &json!(program))?;
    let count = words_of(edited, entry)?.len();
    edited.remove_first(&entry.at("args"), count.saturating_sub(arguments.len()))
}
