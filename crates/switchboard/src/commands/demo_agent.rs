//! `switchboard demo-agent`: an agent without a model, for testing clients.

use std::path::PathBuf;
use std::time::Duration;

use switchboard_demo_agent::{DemoOptions, serve};
use switchboard_peer::{Versions, agent_connection_options};
use switchboard_transport::Connection;

use crate::outcome::{CommandError, Outcome};
use crate::stdio;

/// Run an agent over stdio that plays scenarios, without a model
///
/// The first word of the prompt names the scenario; `help` lists all of them. The same prompt always leads to
/// the same messages. Scenarios that edit files use the folder `switchboard-demo` in the session's working
/// directory.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Protocol version of the agent
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    protocol: u8,

    /// Delay between two chunks of streamed text, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pace: u64,

    /// Folder for sessions, so that a later run can resume them
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let options = DemoOptions {
        versions: if arguments.protocol == 1 { Versions::One } else { Versions::Two },
        pace: Duration::from_millis(arguments.pace),
        store: arguments.store.clone(),
    };
    stdio::run_alone(async {
        let connection = Connection::new(tokio::io::stdin(), tokio::io::stdout(), agent_connection_options());
        let served = serve(connection, options).await;
        served.map(|()| Outcome::Fine).map_err(|error| CommandError::failed(error.to_string()))
    })
}
