//! OpenTelemetry for agents: spans of sessions, turns, tool calls and questions, and metrics of the same.
//!
//! [`Telemetry`] is the export pipeline. A [`Connection`] takes the messages between one client and one agent
//! and converts them to spans. It never blocks: finished spans go into a bounded queue, and a separate thread
//! sends them. No text of a prompt, a message, a command or a file is exported.
//!
//! Nothing is sent unless an address is given, by the caller or by the environment variables that
//! OpenTelemetry defines.

mod connection;
mod export;
mod instruments;
mod settings;
mod spans;
mod trace_parent;

pub use connection::{Connection, session_of_prompt};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracer;

use crate::export::Exporter;
use crate::instruments::Instruments;
use crate::settings::{Settings, Signals};

/// Instrumentation scope of all telemetry.
const SCOPE: &str = "switchboard";

/// Callback for problems.
type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Destination of telemetry, and common attributes.
pub struct Options {
    /// The collector's address, without `/v1/traces` and `/v1/metrics`; if `None`, the environment variables
    /// of OpenTelemetry decide.
    pub endpoint: Option<String>,
    /// Parent span of all sessions as `traceparent`.
    pub parent: Option<String>,
    /// Callback that is called once if export fails.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// Returns options that follow the environment variables of OpenTelemetry. Only the first problem is
    /// reported.
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Options { endpoint: None, parent: None, tell: Arc::new(tell) }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { endpoint, parent, tell: _ } = self;
        formatter
            .debug_struct("Options")
            .field("endpoint", endpoint)
            .field("parent", parent)
            .finish_non_exhaustive()
    }
}

/// An error of the telemetry setup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The address is invalid.
    #[error("expected the address of a collector, such as http://127.0.0.1:4318, found {address:?}")]
    Address {
        /// The invalid address.
        address: String,
    },
    /// The exporter cannot be set up.
    #[error("{0}")]
    SetUp(String),
}

/// A telemetry pipeline. Clones share it.
#[derive(Clone)]
pub struct Telemetry {
    shared: Arc<TelemetryInner>,
}

pub(crate) struct TelemetryInner {
    exporter: Exporter,
    pub(crate) tracer: SdkTracer,
    pub(crate) instruments: Instruments,
    /// Parent context of all sessions.
    pub(crate) parent: Context,
}

impl Telemetry {
    /// Starts the export; `None` if it is not enabled.
    pub fn start(options: Options) -> Result<Option<Self>, TelemetryError> {
        let Options { endpoint, parent, tell } = options;
        let settings = Settings::of_environment(endpoint.as_deref())?;
        if settings.is_disabled {
            if endpoint.is_some() {
                tell("telemetry is disabled: OTEL_SDK_DISABLED is set");
            }
            return Ok(None);
        }
        if settings.signals == Signals::default() {
            return Ok(None);
        }
        let exporter = Exporter::start(&settings, tell)?;
        let shared = TelemetryInner {
            tracer: exporter.traces.tracer(SCOPE),
            instruments: Instruments::new(&exporter.metrics.meter(SCOPE)),
            exporter,
            parent: parent.map(|parent| trace_parent::context(&parent, None)).unwrap_or_default(),
        };
        Ok(Some(Telemetry { shared: Arc::new(shared) }))
    }

    /// Creates a connection between a client and an agent.
    pub fn connection(&self) -> Connection {
        Connection::new(Arc::clone(&self.shared), None)
    }

    /// Creates a connection with one session besides those of sub-agents, for which the caller has an id of
    /// its own.
    pub fn session(&self, id: &str) -> Connection {
        Connection::new(Arc::clone(&self.shared), Some(id))
    }

    /// Sends the remaining data, with a timeout. Nothing is sent afterwards.
    pub fn end(&self, patience: Duration) {
        self.shared.exporter.end(patience);
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Telemetry")
    }
}

/// Runs the example of the package's README with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
