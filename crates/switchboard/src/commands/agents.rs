//! `switchboard agents`.

use std::io::Write;

use serde_json::json;
use switchboard_transport::Program;

use crate::configuration::{Configuration, ConfiguredAgent};
use crate::outcome::{CommandError, Outcome, write_error};
use crate::terminal::text::visible;

/// List the agents that are configured here and in editors.
///
/// Read are switchboard/config.json in the configuration folder, .switchboard.json in the project and the folders
/// above it, Zed's settings, ~/.jetbrains/acp.json and acpx's configuration. Of two agents with one name the first is
/// used.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let project = std::env::current_dir()
        .map_err(|error| CommandError::failed(format!("cannot find the working directory: {error}")))?;
    let configuration = Configuration::read(&project);
    let rows: Vec<Row<'_>> =
        configuration.agents.iter().map(|agent| Row::new(&configuration, agent)).collect();
    let mut output = std::io::stdout().lock();
    let print = if arguments.json { print_json } else { print_table };
    print(&rows, &mut output).map_err(write_error)?;
    for problem in &configuration.problems {
        eprintln!("switchboard: {}", visible(problem));
    }
    if rows.is_empty() && !arguments.json {
        eprintln!("switchboard: no agents are configured");
        eprintln!(
            "  hint: put {{\"agent_servers\":{{\"NAME\":{{\"command\":\"PROGRAM\"}}}}}} into .switchboard.json"
        );
    }
    Ok(if configuration.problems.is_empty() { Outcome::Fine } else { Outcome::Problems })
}

struct Row<'c> {
    agent: &'c ConfiguredAgent,
    /// Where the program is, or why it is not.
    program: Result<String, String>,
    /// Another agent of the same name comes before it.
    shadowed: bool,
}

impl<'c> Row<'c> {
    fn new(configuration: &'c Configuration, agent: &'c ConfiguredAgent) -> Self {
        let located = |program: Program| program.locate().map_err(|error| error.to_string());
        let program = agent.program().map_err(|error| error.to_string()).and_then(located);
        let shadowed = configuration.find(&agent.name) != Some(agent);
        Row { agent, program: program.map(|path| path.display().to_string()), shadowed }
    }

    fn command_line(&self) -> String {
        let mut line = self.agent.command.clone();
        for argument in &self.agent.args {
            line.push(' ');
            line.push_str(argument);
        }
        line
    }
}

fn print_json(rows: &[Row<'_>], output: &mut dyn Write) -> std::io::Result<()> {
    for row in rows {
        let agent = row.agent;
        let value = json!({
            "name": agent.name,
            "command": agent.command,
            "args": agent.args,
            "env": agent.env.keys().collect::<Vec<_>>(),
            "source": agent.source.as_str(),
            "file": agent.file.display().to_string(),
            "program": row.program.as_ref().ok(),
            "used": !row.shadowed,
        });
        writeln!(output, "{value}")?;
    }
    Ok(())
}

fn print_table(rows: &[Row<'_>], output: &mut dyn Write) -> std::io::Result<()> {
    let width = rows.iter().map(|row| visible(&row.agent.name).chars().count()).max().unwrap_or(0);
    for row in rows {
        let mark = match (&row.program, row.shadowed) {
            (_, true) => "-",
            (Ok(_), false) => "+",
            (Err(_), false) => "!",
        };
        let name = visible(&row.agent.name);
        writeln!(output, "{mark} {name:width$}  {}", visible(&row.command_line()))?;
        let indent = " ".repeat(width + 4);
        let file = row.agent.file.display().to_string();
        writeln!(output, "{indent}{}: {}", row.agent.source.as_str(), visible(&file))?;
        if row.shadowed {
            writeln!(output, "{indent}not used: another agent of this name comes first")?;
        }
        match &row.program {
            Ok(path) if *path != row.agent.command => writeln!(output, "{indent}found at {}", visible(path))?,
            Ok(_) => {}
            Err(reason) => writeln!(output, "{indent}{}", visible(reason))?,
        }
    }
    Ok(())
}
