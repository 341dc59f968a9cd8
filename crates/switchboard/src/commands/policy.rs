//! `switchboard policy`: rules for permission requests.

mod audit;
mod explain;
mod history;
mod hub_rules;
mod suggest;
mod test;

pub(crate) use hub_rules::HubRules;

use std::path::PathBuf;

use switchboard_acp::display::visible_line;
use switchboard_policy::{Mode, SandboxMode};

use crate::outcome::{CommandError, Outcome};
use crate::policy_file::{self, SystemFiles};

/// Check, explain and test rules that answer permission requests
///
/// Rules are in switchboard-policy.toml: the user's own in the configuration folder (~/.config/switchboard),
/// and one in a project's folder, which can only make them stricter unless the user trusts it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PolicyCommand {
    Audit(audit::Arguments),
    Check(CheckArguments),
    Explain(explain::Arguments),
    Suggest(suggest::Arguments),
    Test(test::Arguments),
    Trust(TrustArguments),
}

/// Check a policy file and the examples in it
///
/// If it switches on a sandbox, lists the rules that the sandbox enforces. Exit code 0 if it is valid, 1 if it
/// is not, with the line; 2 if it cannot be read.
#[derive(Debug, clap::Args)]
struct CheckArguments {
    /// Policy file
    file: PathBuf,
}

/// Trust a project's policy file in its current state, so that its allow rules apply
///
/// The trust ends when the file changes.
#[derive(Debug, clap::Args)]
struct TrustArguments {
    /// Policy file
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match &arguments.command {
        PolicyCommand::Audit(arguments) => audit::run(arguments),
        PolicyCommand::Check(arguments) => check(arguments),
        PolicyCommand::Explain(arguments) => explain::run(arguments),
        PolicyCommand::Suggest(arguments) => suggest::run(arguments),
        PolicyCommand::Test(arguments) => test::run(arguments),
        PolicyCommand::Trust(arguments) => trust(arguments),
    }
}

fn check(arguments: &CheckArguments) -> Result<Outcome, CommandError> {
    let policy = policy_file::load(&arguments.file, &SystemFiles::new())?;
    let mode = match policy.mode() {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe",
    };
    let rules = match policy.len() {
        1 => "1 rule".to_owned(),
        count => format!("{count} rules"),
    };
    println!("{}: {rules}, default {}, mode {mode}", arguments.file.display(), policy.default_verdict());
    let sandbox = policy.sandbox().mode.filter(|mode| *mode != SandboxMode::Off);
    for (rule, effect) in sandbox.map(|mode| policy.sandbox_report(mode)).unwrap_or_default() {
        println!("  {}: {effect}", visible_line(&rule));
    }
    Ok(Outcome::Fine)
}

fn trust(arguments: &TrustArguments) -> Result<Outcome, CommandError> {
    let policy = policy_file::load(&arguments.file, &SystemFiles::new())?;
    policy_file::trust(&arguments.file, &policy)?;
    println!("{} is trusted in its current state", arguments.file.display());
    Ok(Outcome::Fine)
}
