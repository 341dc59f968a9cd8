//! `switchboard agents add` and `remove`: edits of the user's configuration file that keep comments and
//! order.

use serde_json::{Value, json};
use switchboard_transport::Program;

use crate::agents::{self, installation};
use crate::configuration::edited_file::EditedFile;
use crate::configuration::edited_json::EditedJson;
use crate::configuration::own_file;
use crate::outcome::{CommandError, Outcome};

/// Add an agent to the user's configuration
///
/// Without a command line, the name must be that of an installed known agent.
#[derive(Debug, clap::Args)]
pub(super) struct AddArguments {
    /// Name of the agent
    name: String,

    /// Command line that starts the agent, or the URL of a server
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,

    /// Environment variable of the agent; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,

    /// Replace an existing agent
    #[arg(long)]
    replace: bool,
}

/// Remove an agent from the user's configuration, and the versions that `agents install` installed
#[derive(Debug, clap::Args)]
pub(super) struct RemoveArguments {
    /// Name of the agent; NAME@VERSION removes only this installed version
    name: String,
}

const SERVERS: &str = "agent_servers";

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

pub(super) fn add(arguments: &AddArguments) -> Result<Outcome, CommandError> {
    let AddArguments { name, command, env, replace } = arguments;
    if name.is_empty() || name.contains(char::is_control) || name == "demo" {
        return Err(CommandError::usage(format!("{name:?} is not a valid agent name")));
    }
    let command = if command.is_empty() { installed(name)? } else { command.clone() };
    let (file, mut edited) = read()?;
    if edited.get(&[SERVERS, name]).is_some() {
        if !replace {
            return Err(CommandError::usage(format!(
                "{} already has an agent \"{name}\"",
                file.path().display()
            ))
            .hint("replace it with --replace, or choose another name"));
        }
        edited.remove(&[SERVERS, name]).map_err(|reason| refused(&file, &reason))?;
    }
    let [program, rest @ ..] = &*command else {
        return Err(CommandError::usage("the command line is empty"));
    };
    let mut values = Vec::new();
    if switchboard_transport::Remote::is_address(program) {
        values.push(("url", json!(program)));
    } else {
        values.push(("command", json!(program)));
        values.push(("args", json!(rest)));
    }
    if !env.is_empty() {
        let env = env.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
        values.push(("env", Value::Object(env)));
    }
    // One by one, to keep this order.
    for (key, value) in &values {
        edited.set(&[SERVERS, name, key], value).map_err(|reason| refused(&file, &reason))?;
    }
    file.write(&edited.text())?;
    println!("{}", file.path().display());
    if !switchboard_transport::Remote::is_address(program)
        && let Err(error) = Program::new(program).locate()
    {
        eprintln!("switchboard: {error}");
    }
    Ok(Outcome::Fine)
}

/// Returns the command line of an installed known agent.
fn installed(name: &str) -> Result<Vec<String>, CommandError> {
    let Some(agent) = agents::find(name) else {
        return Err(CommandError::usage(format!("\"{name}\" is not a known agent"))
            .hint(format!("give its command line: switchboard agents add {name} -- CMD...")));
    };
    match agent.installed() {
        Some(found) => Ok(found.command),
        None => Err(CommandError::usage(format!("{} is not installed", agent.title))
            .hint(format!("to install it: {}", agent.install))),
    }
}

pub(super) fn remove(arguments: &RemoveArguments) -> Result<Outcome, CommandError> {
    let name = &arguments.name;
    let (file, mut edited) = read()?;
    let is_configured = edited.remove(&[SERVERS, name]).map_err(|reason| refused(&file, &reason))?;
    let installed = match (agents::find(name), agents::with_version(name)) {
        (Some(agent), _) => installation::remove(agent, None)?,
        (None, Some((agent, version))) => installation::remove(agent, Some(version))?,
        (None, None) => Vec::new(),
    };
    for version in &installed {
        println!("removed {name} {version}");
    }
    if !is_configured && !installed.is_empty() {
        return Ok(Outcome::Fine);
    }
    if !is_configured {
        return Err(CommandError::usage(format!("{} has no agent \"{name}\"", file.path().display())).hint(
            "agents of projects and editors are in their own files; `switchboard agents` shows which",
        ));
    }
    file.write(&edited.text())?;
    println!("{}", file.path().display());
    Ok(Outcome::Fine)
}

fn read() -> Result<(EditedFile, EditedJson), CommandError> {
    let path = own_file()
        .ok_or_else(|| CommandError::usage("the configuration folder is unknown: HOME is not set"))?;
    let file = EditedFile::read(&path)?;
    let edited =
        EditedJson::parse(file.before().unwrap_or("{}\n")).map_err(|reason| refused(&file, &reason))?;
    Ok((file, edited))
}

fn refused(file: &EditedFile, reason: &str) -> CommandError {
    CommandError::usage(format!("{} {reason}", file.path().display()))
        .hint("nothing was changed; correct it first")
}
