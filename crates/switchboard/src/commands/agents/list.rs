//! The list of agents, for people and programs.

use std::io::Write;

use serde_json::{Value, json};
use switchboard_acp::display::{visible, visible_line};
use switchboard_transport::Program;

use crate::agents::installation::{self, Installation};
use crate::agents::{self, Installed, KnownAgent, RegisteredPackage, Registry, RegistryAgent};
use crate::configuration::{Configuration, ConfiguredAgent};
use crate::outcome::{CommandError, Outcome, write_error};
use crate::terminal::style::Style;
use crate::terminal::table::Table;
use crate::terminal::text::visible_path;

/// List the agents that are configured, installed and known, with their versions
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// One JSON object a line
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(is_json: bool) -> Result<Outcome, CommandError> {
    let project = std::env::current_dir()
        .map_err(|error| CommandError::failed(format!("cannot find the working directory: {error}")))?;
    let mut configuration = Configuration::read(&project);
    let registry = Registry::cached().unwrap_or_else(|problem| {
        configuration.problems.push(problem);
        None
    });
    let rows: Vec<Row<'_>> =
        configuration.agents.iter().map(|agent| Row::new(&configuration, agent)).collect();
    let known: Vec<Known<'_>> =
        agents::known().iter().map(|agent| Known::new(&configuration, agent)).collect();
    let registered: Vec<&RegistryAgent> = registry
        .iter()
        .flat_map(|registry| &registry.agents)
        .filter(|agent| agents::find(&agent.id).is_none() && configuration.find(&agent.id).is_none())
        .collect();
    let mut output = std::io::stdout().lock();
    let print = if is_json { print_json } else { print_text };
    print(&rows, &known, &registered, &mut output).map_err(write_error)?;
    for problem in &configuration.problems {
        eprintln!("switchboard: {}", visible(problem));
    }
    if rows.is_empty() && !is_json {
        eprintln!("switchboard: no agents are configured; an installed one needs no configuration");
        eprintln!("  hint: switchboard agents add NAME -- COMMAND...");
    }
    Ok(if configuration.problems.is_empty() { Outcome::Fine } else { Outcome::Problems })
}

struct Row<'c> {
    agent: &'c ConfiguredAgent,
    /// The path of the program, or why it is not available.
    program: Result<String, String>,
    version: Option<String>,
    /// Set if an earlier agent has the same name.
    shadowed: bool,
}

impl<'c> Row<'c> {
    fn new(configuration: &'c Configuration, agent: &'c ConfiguredAgent) -> Self {
        let located = |program: Program| program.locate().map_err(|error| error.to_string());
        let program = agent.program().map_err(|error| error.to_string()).and_then(located);
        let shadowed = configuration.find(&agent.name) != Some(agent);
        let version = program.as_ref().ok().and_then(|path| agents::version_of(path));
        Row { agent, program: program.map(|path| path.display().to_string()), version, shadowed }
    }
}

/// A known agent.
struct Known<'c> {
    agent: &'static KnownAgent,
    installed: Option<Installed>,
    /// The versions that `agents install` installed, the newest first.
    versions: Vec<Installation>,
    /// The configured agent with its name.
    configured: Option<&'c ConfiguredAgent>,
}

impl<'c> Known<'c> {
    fn new(configuration: &'c Configuration, agent: &'static KnownAgent) -> Self {
        Known {
            agent,
            installed: agent.installed(),
            versions: installation::all(agent),
            configured: configuration.find(agent.name),
        }
    }

    fn command(&self) -> Vec<&str> {
        match &self.installed {
            Some(found) => found.command.iter().map(String::as_str).collect(),
            None => self.agent.commands.first().map(|command| command.to_vec()).unwrap_or_default(),
        }
    }

    /// The command line for people: that of an installation of ours begins with a long path.
    fn shown(&self) -> String {
        match &self.installed {
            Some(found) if found.is_ours => {
                let others = self.versions.iter().map(|other| &*other.version);
                let others: Vec<&str> =
                    others.filter(|version| found.version.as_deref() != Some(version)).collect();
                let before =
                    if others.is_empty() { String::new() } else { format!(", also {}", others.join(", ")) };
                format!("installed by Switchboard{before}")
            }
            _ => self.command().join(" "),
        }
    }
}

fn print_json(
    rows: &[Row<'_>],
    known: &[Known<'_>],
    registered: &[&RegistryAgent],
    output: &mut dyn Write,
) -> std::io::Result<()> {
    for row in rows {
        let agent = row.agent;
        let value = json!({
            "state": "configured",
            "name": agent.name,
            "command": agent.command,
            "args": agent.args,
            "env": agent.env.keys().collect::<Vec<_>>(),
            "source": agent.source.as_str(),
            "file": agent.file.display().to_string(),
            "program": row.program.as_ref().ok(),
            "version": row.version,
            "used": !row.shadowed,
        });
        writeln!(output, "{value}")?;
    }
    for row in known {
        let agent = row.agent;
        let words = row.command();
        let (command, args) = words.split_first().unwrap_or((&"", &[]));
        let program = row.installed.as_ref().map(|found| found.path.display().to_string());
        let current = row.installed.as_ref().filter(|found| found.is_ours);
        let versions: Vec<Value> = row
            .versions
            .iter()
            .map(|version| {
                let is_current = current.is_some_and(|found| found.version.as_deref() == Some(&version.version));
                json!({"version": version.version, "integrity": version.integrity, "since": version.since, "used": is_current})
            })
            .collect();
        let value = json!({
            "state": if row.installed.is_some() { "installed" } else { "known" },
            "name": agent.name,
            "aliases": agent.aliases,
            "title": agent.title,
            "command": command,
            "args": args,
            "commands": agent.commands,
            "needs": agent.needs,
            "program": program,
            "version": row.installed.as_ref().and_then(|found| found.version.as_deref()),
            "versions": versions,
            "package": agent.package.as_ref().map(agents::Package::command_line),
            "install": agent.install,
            "login": agent.login,
            "protocol": agent.versions,
            "seen": (!agent.seen.is_empty()).then_some(agent.seen),
            "notes": agent.notes,
            "used": row.configured.is_none(),
        });
        writeln!(output, "{value}")?;
    }
    for agent in registered {
        let value = json!({
            "state": "registered",
            "name": agent.id,
            "title": agent.title,
            "latest": agent.version,
            "package": agent.package.as_ref().map_or(Value::Null, |package| json!(package.command_line())),
            "archive": agent.archive.as_ref().map_or(Value::Null, |archive| json!(archive.url)),
            "used": true,
        });
        writeln!(output, "{value}")?;
    }
    Ok(())
}

/// Prints one table: configured agents first, then installed, known and registered ones.
fn print_text(
    rows: &[Row<'_>],
    known: &[Known<'_>],
    registered: &[&RegistryAgent],
    output: &mut dyn Write,
) -> std::io::Result<()> {
    let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "-".to_owned());
    let mut table = Table::new(&["NAME", "STATUS", "VERSION", "COMMAND", "FROM"]);
    let mut notes = Vec::new();
    for row in rows {
        let status = match (&row.program, row.shadowed) {
            (_, true) => "not used: another agent of this name comes first",
            (Ok(_), false) => "configured",
            (Err(_), false) => "not found",
        };
        if let Err(reason) = &row.program {
            notes.push(format!("{}: {}", visible_line(&row.agent.name), visible(reason)));
        }
        let from = format!(
            "{} ({})",
            visible_path(&row.agent.file.display().to_string()),
            row.agent.source.as_str()
        );
        let name = row.agent.name.clone();
        table.row([name, status.to_owned(), version(&row.version), row.agent.command_line(), from]);
    }
    let (installed, missing): (Vec<_>, Vec<_>) = known.iter().partition(|row| row.installed.is_some());
    for row in installed {
        let status = match row.configured {
            Some(agent) => format!("not used: the name means the one in {}", agent.file.display()),
            None => "installed".to_owned(),
        };
        let (name, title) = (row.agent.name.to_owned(), row.agent.title.to_owned());
        let found = row.installed.as_ref().and_then(|found| found.version.clone());
        table.row([name, status, version(&found), row.shown(), title]);
    }
    for row in missing.iter().filter(|row| row.configured.is_none()) {
        let agent = row.agent;
        let [name, install, title] = [agent.name, agent.install, agent.title].map(str::to_owned);
        table.row([name, "not installed".to_owned(), "-".to_owned(), install, title]);
    }
    for agent in registered {
        let package = agent.package.as_ref().map(RegisteredPackage::command_line);
        let command = package.map_or_else(|| "-".to_owned(), |words| words.join(" "));
        let (name, latest, title) = (agent.id.clone(), agent.version.clone(), agent.title.clone());
        table.row([name, "in the registry".to_owned(), latest, command, title]);
    }
    table.write(Style::of_output(), output)?;
    for note in notes {
        eprintln!("switchboard: {note}");
    }
    Ok(())
}
