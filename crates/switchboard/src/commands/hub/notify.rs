use std::io::Write;

use switchboard_acp::display::visible_line;

use crate::commands::notifications::hidden_variables;
use crate::commands::serve::PORT;
use crate::configuration::notify::NotifySettings;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::stdio;

/// Test the notifications of a hub
///
/// Lists the targets in `hub.notify` of config.json. With --test, sends one notification to each of them, or
/// to the named one, and prints the response. Exit codes: 0 all were accepted, 1 not all.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Send a test notification
    #[arg(long)]
    test: bool,

    /// Name of a target, instead of all
    #[arg(value_name = "TARGET")]
    target: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let (settings, problems) = NotifySettings::read();
    for problem in &problems {
        eprintln!("switchboard: {problem}");
    }
    let names: Vec<&str> = settings.targets.iter().map(|target| &*target.name).collect();
    let chosen: Vec<_> = settings
        .targets
        .iter()
        .filter(|target| arguments.target.as_ref().is_none_or(|name| *name == target.name))
        .collect();
    if chosen.is_empty() {
        let problem = match &arguments.target {
            Some(name) => format!("there is no target {name:?}"),
            None => "there are no targets".to_owned(),
        };
        let hint = match names.is_empty() {
            true => {
                "list targets as `hub.notify` in config.json, such as {\"ntfy\": \"https://ntfy.sh/TOPIC\"}"
                    .to_owned()
            }
            false => format!("configured targets: {}", names.join(", ")),
        };
        return Err(CommandError::usage(problem).hint(hint));
    }
    let mut outcome = if problems.is_empty() { Outcome::Fine } else { Outcome::Problems };
    let mut output = std::io::stdout().lock();
    if !arguments.test {
        for target in chosen {
            let events: Vec<&str> = target.events.iter().map(|event| event.name()).collect();
            writeln!(output, "{}: {}", target.name, events.join(", ")).map_err(write_error)?;
        }
        return Ok(outcome);
    }
    stdio::run_alone(async {
        for target in chosen {
            let origin = format!("http://127.0.0.1:{PORT}");
            let (is_sent, response) =
                switchboard_notify::send_test(target, &origin, hidden_variables(&settings)).await;
            let result = if is_sent { "sent" } else { "failed" };
            writeln!(output, "{}: {result}: {}", target.name, visible_line(&response))
                .map_err(write_error)?;
            if !is_sent {
                outcome = Outcome::Problems;
            }
        }
        Ok(outcome)
    })
}
