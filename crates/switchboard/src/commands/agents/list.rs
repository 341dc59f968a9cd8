//! The agents that there are, for people and for programs.

use std::io::Write;

use serde_json::{Value, json};
use switchboard_transport::Program;

use crate::agents::installation::{self, Installation};
use crate::agents::{self, Installed, KnownAgent, Registry, RegistryAgent};
use crate::configuration::{Configuration, ConfiguredAgent};
use crate::outcome::{CommandError, Outcome, write_error};
use crate::terminal::text::{visible, visible_line};

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
    /// Where the program is, or why it is not.
    program: Result<String, String>,
    version: Option<String>,
    /// Another agent of the same name comes before it.
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
    /// The configured one that its name means.
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

fn print_text(
    rows: &[Row<'_>],
    known: &[Known<'_>],
    registered: &[&RegistryAgent],
    output: &mut dyn Write,
) -> std::io::Result<()> {
    print_configured(rows, output)?;
    let (installed, missing): (Vec<_>, Vec<_>) = known.iter().partition(|row| row.installed.is_some());
    let heading = |output: &mut dyn Write, text: &str, first: bool| {
        writeln!(output, "{}{text}:", if first { "" } else { "\n" })
    };
    if !installed.is_empty() {
        heading(output, "installed, run by their names", rows.is_empty())?;
        for row in &installed {
            let version = row.installed.as_ref().and_then(|found| found.version.as_ref());
            let version = version.map(|version| format!(" {version}")).unwrap_or_default();
            write!(output, "  {:<12} {}{version}: {}", row.agent.name, row.agent.title, row.shown())?;
            match row.configured {
                Some(agent) => writeln!(
                    output,
                    " (the name means the one in {})",
                    visible_line(&agent.file.display().to_string())
                )?,
                None => writeln!(output)?,
            }
        }
    }
    heading(output, "known, not installed", rows.is_empty() && installed.is_empty())?;
    for row in &missing {
        writeln!(output, "  {:<12} {}: {}", row.agent.name, row.agent.title, row.agent.install)?;
    }
    if !registered.is_empty() {
        heading(output, "in the registry", false)?;
        for agent in registered {
            let title = visible_line(&agent.title);
            writeln!(output, "  {:<12} {title} {}", agent.id, visible_line(&agent.version))?;
        }
    }
    Ok(())
}

fn print_configured(rows: &[Row<'_>], output: &mut dyn Write) -> std::io::Result<()> {
    let width = rows.iter().map(|row| visible(&row.agent.name).chars().count()).max().unwrap_or(0);
    for row in rows {
        let mark = match (&row.program, row.shadowed) {
            (_, true) => "-",
            (Ok(_), false) => "+",
            (Err(_), false) => "!",
        };
        let name = visible(&row.agent.name);
        writeln!(output, "{mark} {name:width$}  {}", visible(&row.agent.command_line()))?;
        let indent = " ".repeat(width + 4);
        let file = row.agent.file.display().to_string();
        writeln!(output, "{indent}{}: {}", row.agent.source.as_str(), visible(&file))?;
        if row.shadowed {
            writeln!(output, "{indent}not used: another agent of this name comes first")?;
        }
        let version = row.version.as_ref().map(|version| format!(", version {version}")).unwrap_or_default();
        match &row.program {
            Ok(path) if *path != row.agent.command => {
                writeln!(output, "{indent}found at {}{version}", visible(path))?;
            }
            Ok(_) => {}
            Err(reason) => writeln!(output, "{indent}{}", visible(reason))?,
        }
    }
    Ok(())
}
