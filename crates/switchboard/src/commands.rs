//! The subcommands, one module each.

mod agent_host;
mod agents;
mod bridge;
mod check;
mod completions;
mod conform;
mod connect;
mod convert;
mod demo_agent;
mod diff;
mod doctor;
mod fold;
mod hub;
mod log_place;
mod more_links;
mod notifications;
mod open;
pub(crate) mod policy;
#[cfg(test)]
#[path = "../tests/readers/mod.rs"]
// Tests pass `json!` values to small functions; a reference would only be noise.
#[allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
mod readers;
mod run;
mod sandbox;
mod schema;
pub(crate) mod serve;
mod sessions;
mod setup;
mod tokens;

use crate::outcome::{CommandError, Outcome};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Agents(agents::Arguments),
    Bridge(Box<bridge::Arguments>),
    Check(check::Arguments),
    Completions(completions::Arguments),
    Conform(Box<conform::Arguments>),
    Connect(connect::Arguments),
    Convert(convert::Arguments),
    DemoAgent(demo_agent::Arguments),
    Diff(Box<diff::Arguments>),
    Doctor(doctor::Arguments),
    Fold(fold::Arguments),
    Hub(hub::Arguments),
    Man(completions::ManArguments),
    Open(open::Arguments),
    Policy(policy::Arguments),
    Run(Box<run::Arguments>),
    Sandbox(sandbox::Arguments),
    Schema(schema::Arguments),
    Serve(Box<serve::Arguments>),
    Sessions(sessions::Arguments),
    Setup(setup::Arguments),
    Tokens(tokens::Arguments),
}

/// The commands as `--help` shows them: by task, the rarely used ones last.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Work with agents", &["open", "run", "bridge", "agents"]),
    ("Share sessions", &["serve", "connect", "tokens", "hub"]),
    ("Recorded sessions", &["sessions"]),
    ("Permission rules", &["policy", "sandbox"]),
    ("Set-up", &["setup", "doctor", "completions", "man"]),
    ("Protocol tools", &["conform", "check", "convert", "fold", "diff", "schema", "demo-agent"]),
];

/// Replaces the one list of commands in `--help` by a list for each task.
pub(crate) fn with_grouped_help(command: clap::Command) -> clap::Command {
    let heading = command.get_styles().get_header();
    let name = command.get_styles().get_literal();
    let mut lists = String::new();
    for (title, commands) in GROUPS {
        lists.push_str(&format!("{heading}{title}:{heading:#}\n"));
        for known in commands.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = known.get_about().map(ToString::to_string).unwrap_or_default();
            lists.push_str(&format!("  {name}{:<12}{name:#} {about}\n", known.get_name()));
        }
        lists.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{lists}{heading}Options:{heading:#}\n{{options}}\n\n\
        Run `switchboard help COMMAND` for the options of a command.\n"
    );
    command.help_template(template)
}

pub(crate) fn run(command: Command) -> Result<Outcome, CommandError> {
    match command {
        Command::Agents(arguments) => agents::run(&arguments),
        Command::Bridge(arguments) => bridge::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Conform(arguments) => conform::run(&arguments),
        Command::Connect(arguments) => connect::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::DemoAgent(arguments) => demo_agent::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Fold(arguments) => fold::run(&arguments),
        Command::Hub(arguments) => hub::run(&arguments),
        Command::Man(arguments) => completions::write_manual(&arguments),
        Command::Open(arguments) => open::run(&arguments),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::Sandbox(arguments) => sandbox::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Sessions(arguments) => sessions::run(&arguments),
        Command::Setup(arguments) => setup::run(&arguments),
        Command::Tokens(arguments) => tokens::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::GROUPS;

    #[test]
    fn every_command_is_in_one_group() {
        let command = crate::Arguments::command();
        let mut known: Vec<&str> = command
            .get_subcommands()
            .filter(|known| !known.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn every_command_and_argument_is_described() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{path} has no description");
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{} of {path} has no description", argument.get_id());
            }
            for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
                check(inner, &path);
            }
        }
        check(&crate::Arguments::command(), "");
    }
}
