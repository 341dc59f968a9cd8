use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::log_place::{LogArguments, log_error};
use crate::outcome::{CommandError, Outcome};
use crate::{stdio, store_file};

/// Rebuild a hub's copy of its sessions
///
/// A hub that keeps its logs on NATS servers (`serve --session-log`) has a copy of the sessions in its store, to read and search
/// them. This command deletes the copy and creates it again from the log. Tokens and shares are kept. Stop the hub first.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    log: LogArguments,

    /// Path of the store, instead of the default one
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let log = arguments.log.place()?;
    let place = store_file::place(arguments.store.as_ref())?;
    stdio::run_alone(async {
        let servers = log.connect().await?.ok_or_else(|| {
            CommandError::usage("no session log is named")
                .hint("name the NATS servers with --session-log nats://HOST:PORT")
        })?;
        let store = store_file::open(place)?;
        let style = ProgressStyle::with_template("{bar:40} {pos} of {len} messages, {elapsed}");
        // Nothing is drawn if standard error is not a terminal.
        let bar = ProgressBar::new(0);
        if let Ok(style) = style {
            bar.set_style(style);
        }
        let mut read = 0;
        let rebuilt = servers.rebuild(&store, |done, all| {
            read = done;
            bar.set_length(all);
            bar.set_position(done);
        });
        rebuilt.await.map_err(log_error)?;
        bar.finish_and_clear();
        let sessions = store.all_hosted().map_err(store_file::store_error)?.len();
        eprintln!("rebuilt {sessions} sessions from {read} messages");
        Ok(Outcome::Fine)
    })
}
