//! `switchboard policy`: rules for what agents ask.

mod audit;
mod explain;
mod history;
mod judge;
mod suggest;
mod test;

pub(crate) use judge::HubJudge;

use std::path::PathBuf;

use switchboard_policy::Mode;

use crate::outcome::{CommandError, Outcome};
use crate::policy_file::{self, SystemFiles};

/// Check, explain and try rules that answer what agents ask
///
/// Rules stand in switchboard-policy.toml: the user's own in the folder for configuration (~/.config/switchboard), and
/// one in a project's folder, which can only make things stricter unless the user trusts it.
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

/// Check a file of rules, with the examples in it
///
/// Exit code 0 when it can be used, 1 when it cannot, with the line; 2 when it cannot be read.
#[derive(Debug, clap::Args)]
struct CheckArguments {
    /// The file of rules
    file: PathBuf,
}

/// Trust a project's file of rules as it is now, so that what it allows counts
///
/// Once it changes, it is not trusted any more.
#[derive(Debug, clap::Args)]
struct TrustArguments {
    /// The file of rules
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
    Ok(Outcome::Fine)
}

fn trust(arguments: &TrustArguments) -> Result<Outcome, CommandError> {
    let policy = policy_file::load(&arguments.file, &SystemFiles::new())?;
    policy_file::trust(&arguments.file, &policy)?;
    println!("{} is trusted as it is now", arguments.file.display());
    Ok(Outcome::Fine)
}
