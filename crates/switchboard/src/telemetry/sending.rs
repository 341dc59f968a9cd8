//! Telemetry with the feature.

use switchboard_telemetry::Options;
pub(crate) use switchboard_telemetry::{Connection, Telemetry};

use crate::outcome::CommandError;
use crate::standard_error;

/// Starts the export. Invalid options are an error; invalid environment variables are only reported.
pub(super) fn start(
    endpoint: Option<&str>,
    parent: Option<String>,
) -> Result<Option<Telemetry>, CommandError> {
    let say = |problem: &str| standard_error::say(format!("switchboard: {problem}"));
    let options = Options { endpoint: endpoint.map(str::to_owned), parent, ..Options::new(say) };
    match Telemetry::start(options) {
        Ok(telemetry) => Ok(telemetry),
        Err(error) if endpoint.is_some() => Err(CommandError::usage(format!("--otlp: {error}"))),
        Err(error) => {
            say(&format!("no telemetry is sent: {error}"));
            Ok(None)
        }
    }
}
