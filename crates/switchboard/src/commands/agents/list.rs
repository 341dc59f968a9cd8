//! The list of agents, for people and programs.

use std::io::Write;

use serde_json::{Value, json};
use switchboard_transport::Program;

use crate::agents::{self, KnownAgent, Registry, RegistryAgent};
use crate::configuration::{Configuration, ConfiguredAgent};
use crate::outcome::{CommandError, Outcome, write_error};
use crate::terminal::text::{visible, visible_line};

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
    program: Option<String>,
    version: Option<String>,
    /// The configured agent with its name.
    configured: Option<&'c ConfiguredAgent>,
}

impl<'c> Known<'c> {
    fn new(configuration: &'c Configuration, agent: &'static KnownAgent) -> Self {
        let installed = agent.installed();
        Known {
            agent,
            version: installed.as_ref().and_then(|found| agents::version_of(&found.path)),
            program: installed.map(|found| found.path.display().to_string()),
            configured: configuration.find(agent.name),
        }
    }

    fn command(&self) -> &'static [&'static str] {
        let installed = self.agent.installed().map(|found| found.command);
        installed.or_else(|| self.agent.commands.first().copied()).unwrap_or_default()
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
        let (command, args) = row.command().split_first().unwrap_or((&"", &[]));
        let value = json!({
            "state": if row.program.is_some() { "installed" } else { "known" },
            "name": agent.name,
            "aliases": agent.aliases,
            "title": agent.title,
            "command": command,
            "args": args,
            "commands": agent.commands,
            "needs": agent.needs,
            "program": row.program,
            "version": row.version,
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
    let (installed, missing): (Vec<_>, Vec<_>) = known.iter().partition(|row| row.program.is_some());
    let heading = |output: &mut dyn Write, text: &str, first: bool| {
        writeln!(output, "{}{text}:", if first { "" } else { "\n" })
    };
    if !installed.is_empty() {
        heading(output, "installed, run by their names", rows.is_empty())?;
        for row in &installed {
            let version = row.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
            write!(
                output,
                "  {:<12} {}{version}: {}",
                row.agent.name,
                row.agent.title,
                row.command().join(" ")
            )?;
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
