//! Optional telemetry. Only a program built with the feature `otlp` can export; without it the same interface
//! exists with uninhabited types.

#[cfg(feature = "otlp")]
mod hub;
#[cfg(not(feature = "otlp"))]
mod missing;
#[cfg(feature = "otlp")]
mod sending;

#[cfg(not(feature = "otlp"))]
use self::missing::start;
#[cfg(not(feature = "otlp"))]
pub(crate) use self::missing::{Connection, HubTelemetry, Telemetry};
#[cfg(feature = "otlp")]
use self::sending::start;
#[cfg(feature = "otlp")]
pub(crate) use self::{
    hub::HubTelemetry,
    sending::{Connection, Telemetry},
};

use std::time::Duration;

use crate::outcome::CommandError;

/// Timeout for the remaining data at the end.
pub(crate) const LAST_SENDING: Duration = Duration::from_secs(3);

/// Telemetry options.
#[derive(Debug, clap::Args)]
pub(crate) struct TelemetryArguments {
    /// Send spans and metrics of agents to the OpenTelemetry collector at this URL, such as
    /// http://127.0.0.1:4318
    #[arg(long, value_name = "URL", hide = cfg!(not(feature = "otlp")))]
    otlp: Option<String>,
}

impl TelemetryArguments {
    /// Starts the requested telemetry, by option or by the environment variables of OpenTelemetry.
    pub(crate) fn begin(&self) -> Result<Option<Telemetry>, CommandError> {
        start(self.otlp.as_deref(), None)
    }

    /// Starts telemetry below the span in `TRACEPARENT`, for a program started by other traced work.
    pub(crate) fn begin_below(&self) -> Result<Option<Telemetry>, CommandError> {
        start(self.otlp.as_deref(), std::env::var("TRACEPARENT").ok())
    }
}
