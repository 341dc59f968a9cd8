//! `switchboard doctor`: checks the installation and gives advice.

mod agents;
mod hub;
mod places;
mod remedy;

use std::io::Write;
use std::time::Duration;

use serde_json::json;
use switchboard_acp::display::{visible, visible_line};

use crate::configuration::Configuration;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::stdio;
use crate::terminal::style::{Role, Style};
use crate::units::{parse_size, parse_time};

/// Check the installation and print problems with advice
///
/// Checks the configuration, the rules, the store and its disk space, the local hub and its token, and each
/// configured or installed agent: whether it answers, in which version, and whether it needs a login. For
/// that, each agent is started, opens a session in an empty folder, and is ended; no prompt is sent. Nothing
/// is changed. Exit codes: 0 no problems, 1 problems.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,

    /// Do not start agents
    #[arg(long)]
    no_agents: bool,

    /// Timeout for each agent: seconds, or with a unit
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "20s")]
    timeout: Duration,

    /// Report less free disk space than this as a problem
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GB")]
    min_free: u64,

    /// URL of the hub, instead of http://127.0.0.1:4173
    #[arg(long, value_name = "URL")]
    hub: Option<String>,
}

/// Columns of the report. Results are written as they come, so the widths are fixed.
const ABOUT_WIDTH: usize = 22;
const LEVEL_WIDTH: usize = 7;

/// The result of one check.
#[derive(Debug)]
pub(super) struct Finding {
    /// The checked object, such as `store` or `agent codex`.
    about: String,
    level: Level,
    what: String,
    /// Advice for the user.
    advice: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Fine,
    /// Information that needs no action.
    Note,
    Problem,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Level::Fine => "fine",
            Level::Note => "note",
            Level::Problem => "problem",
        }
    }

    /// The word that people see.
    fn shown(self) -> &'static str {
        if self == Level::Fine { "ok" } else { self.as_str() }
    }

    fn role(self) -> Role {
        match self {
            Level::Fine => Role::Good,
            Level::Note => Role::Doubtful,
            Level::Problem => Role::Bad,
        }
    }
}

impl Finding {
    fn fine(about: impl Into<String>, what: impl Into<String>) -> Self {
        Finding { about: about.into(), level: Level::Fine, what: what.into(), advice: Vec::new() }
    }

    fn note(about: impl Into<String>, what: impl Into<String>) -> Self {
        Finding { level: Level::Note, ..Finding::fine(about, what) }
    }

    fn problem(about: impl Into<String>, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { level: Level::Problem, ..Finding::fine(about, what) }.advice(advice)
    }

    fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let folder = std::env::current_dir()
        .map_err(|error| CommandError::failed(format!("cannot find the working directory: {error}")))?;
    let configuration = Configuration::read(&folder);
    let mut report = Report { is_json: arguments.json, has_problems: false, style: Style::of_output() };
    report.begin()?;
    report.tell(places::look(&configuration, &folder, arguments.min_free))?;
    stdio::run_alone(async {
        report.tell(hub::look(arguments.hub.as_deref()).await)?;
        if !arguments.no_agents {
            report.tell(agents::look(&configuration, &folder, arguments.timeout).await)?;
        }
        Ok(())
    })?;
    Ok(if report.has_problems { Outcome::Problems } else { Outcome::Fine })
}

/// The report, written line by line because agents may take a while to answer.
struct Report {
    is_json: bool,
    has_problems: bool,
    style: Style,
}

impl Report {
    /// Writes the heading of the table.
    fn begin(&self) -> Result<(), CommandError> {
        if self.is_json {
            return Ok(());
        }
        let heading = format!("{:<ABOUT_WIDTH$}  {:<LEVEL_WIDTH$}  RESULT", "CHECK", "STATUS");
        writeln!(std::io::stdout().lock(), "{}", self.style.paint(Role::Strong, heading)).map_err(write_error)
    }

    fn tell(&mut self, findings: Vec<Finding>) -> Result<(), CommandError> {
        let mut output = std::io::stdout().lock();
        for finding in findings {
            self.has_problems |= finding.level == Level::Problem;
            let Finding { about, level, what, advice } = &finding;
            let text = if self.is_json {
                json!({"about": about, "level": level.as_str(), "what": what, "advice": advice}).to_string()
            } else {
                let indent = " ".repeat(ABOUT_WIDTH + LEVEL_WIDTH + 4);
                let advice = advice.iter().map(|advice| format!("\n{indent}fix: {}", visible_line(advice)));
                let what = visible(what).replace('\n', &format!("\n{indent}"));
                let level = self.style.paint(level.role(), format!("{:<LEVEL_WIDTH$}", level.shown()));
                let about = visible_line(about);
                format!("{about:<ABOUT_WIDTH$}  {level}  {what}{}", advice.collect::<String>())
            };
            writeln!(output, "{text}").map_err(write_error)?;
        }
        output.flush().map_err(write_error)
    }
}
