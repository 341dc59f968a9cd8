//! The agents in an editor's file, with or without the bridge.

use std::path::Path;

use serde_json::{Value, json};

use crate::agents;
use crate::configuration::edited_json::EditedJson;

/// Format of an editor's agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `agent_servers`, by name.
    Servers {
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
    /// Through Switchboard, with this command line behind it.
    Bridged(Vec<String>),
    /// Built into the editor.
    Own,
}

const SERVERS: &str = "agent_servers";

impl Shape {
    /// Returns the agents of a file. Invalid entries are left out, and reported when they are changed.
    pub(crate) fn entries(self, document: &Value) -> Vec<Entry> {
        let mut entries = Vec::new();
        match self {
            Shape::Servers { .. } => {
                for (name, server) in document.get(SERVERS).and_then(Value::as_object).into_iter().flatten() {
                    let path = vec![SERVERS.to_owned(), name.clone()];
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
    ) -> Result<String, String> {
        let arguments = json!(["bridge", name]);
        match self {
            Shape::Servers { has_type } => {
                let taken = edited.get(&[SERVERS, name]).is_some();
                let key = if taken { format!("{name}-switchboard") } else { name.to_owned() };
                if edited.get(&[SERVERS, &key]).is_some() {
                    return Err(format!("has \"{name}\" and \"{key}\" already, and neither has a command"));
                }
                let kind = has_type.then(|| ("type", json!("custom")));
                // One by one, to keep this order.
                for (name, value) in
                    kind.into_iter().chain([("command", json!(program)), ("args", arguments)])
                {
                    edited.set(&[SERVERS, &key, name], &value)?;
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
        None => return Some(Entry { name, kind: Kind::Own, path, command_key }),
    };
    let is_ours = Path::new(&command).file_name().is_some_and(|file| file == "switchboard");
    let kind = match &*arguments {
        [bridge, dashes, rest @ ..] if is_ours && bridge == "bridge" && dashes == "--" => {
            Kind::Bridged(rest.to_vec())
        }
        [bridge, rest @ ..] if is_ours && bridge == "bridge" => Kind::Bridged(rest.to_vec()),
        _ => Kind::Direct([vec![command], arguments].concat()),
    };
    Some(Entry { name, kind, path, command_key })
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
        let (Kind::Direct(line) | Kind::Bridged(line)) = &self.kind else { return false };
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
pub(crate) fn wrap(edited: &mut EditedJson, entry: &Entry, program: &str) -> Result<(), String> {
    let Kind::Direct(line) = &entry.kind else { return Ok(()) };
    let before = ["bridge".to_owned(), "--".to_owned(), line.first().cloned().unwrap_or_default()];
    edited.set(&entry.at(entry.command_key), &json!(program))?;
    match edited.get(&entry.at("args")) {
        None | Some(Value::Null) => edited.set(&entry.at("args"), &json!(before)),
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
            edited.prepend(&entry.at("args"), &before)
        }
        Some(_) => Err(format!("has arguments of \"{}\" that are not a list of strings", entry.name)),
    }
}

/// Removes the bridge from an agent, wherever [`wrap`] inserted it.
pub(crate) fn unwrap(edited: &mut EditedJson, entry: &Entry) -> Result<(), String> {
    let arguments = edited.get(&entry.at("args"));
    let words: Vec<&str> =
        arguments.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str).collect();
    let ["bridge", "--", program, ..] = words[..] else {
        return Err(format!("has no command line of \"{}\" after the bridge", entry.name));
    };
    edited.set(&entry.at(entry.command_key), &json!(program))?;
    edited.remove_first(&entry.at("args"), 3)
}
