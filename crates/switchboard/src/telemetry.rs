//! Telemetry, for who asks for it. Only a program that was built with the feature `otlp` can send any; where it is missing,
//! there is the same to call, and never anything to call it on.

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

/// How long a collector may take for what is left at the end.
pub(crate) const LAST_SENDING: Duration = Duration::from_secs(3);

/// Whether and where telemetry is sent.
#[derive(Debug, clap::Args)]
pub(crate) struct TelemetryArguments {
    /// Send spans and metrics of what agents do to the OpenTelemetry collector at this address, as in http://127.0.0.1:4318
    #[arg(long, value_name = "URL", hide = cfg!(not(feature = "otlp")))]
    otlp: Option<String>,
}

impl TelemetryArguments {
    /// Begins to send what was asked for, here or by the variables of OpenTelemetry.
    pub(crate) fn begin(&self) -> Result<Option<Telemetry>, CommandError> {
        start(self.otlp.as_deref(), None)
    }

    /// The same for a program that somebody else's work has started: what happens belongs to that, where `TRACEPARENT` says so.
    pub(crate) fn begin_below(&self) -> Result<Option<Telemetry>, CommandError> {
        start(self.otlp.as_deref(), std::env::var("TRACEPARENT").ok())
    }
}
