//! What agents do, as OpenTelemetry knows it: spans of sessions, turns, tool calls and questions, and metrics of the same.
//!
//! [`Telemetry`] is what is sent where; a [`Connection`] reads the messages between one client and one agent, which somebody
//! hands it, and makes spans of what they amount to. It asks nobody and waits for nobody: what is finished goes into a queue of
//! limited length, and a thread of its own sends it. No text of a prompt, a message, a command or a file is among it.
//!
//! Nothing is sent unless an address is given, by the caller or by the variables that OpenTelemetry defines.

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

/// The name under which everything is sent.
const SCOPE: &str = "switchboard";

/// Who is told of a problem.
type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Where telemetry goes, and what belongs to all of it.
pub struct Options {
    /// The collector's address, before `/v1/traces` and `/v1/metrics`; without it, the variables of OpenTelemetry say whether
    /// anything is sent, and where.
    pub endpoint: Option<String>,
    /// The span that sessions belong to, as `traceparent` says it.
    pub parent: Option<String>,
    /// Who is told, once, that nothing arrives.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// What the variables of OpenTelemetry ask for. A problem is told once, whatever comes after it.
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

/// Why telemetry cannot be sent as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The address is none.
    #[error("expected the address of a collector, such as http://127.0.0.1:4318, found {address:?}")]
    Address {
        /// What was found in its place.
        address: String,
    },
    /// What was asked for cannot be set up.
    #[error("{0}")]
    SetUp(String),
}

/// What is sent, and where to. Clones are the same.
#[derive(Clone)]
pub struct Telemetry {
    shared: Arc<TelemetryInner>,
}

pub(crate) struct TelemetryInner {
    exporter: Exporter,
    pub(crate) tracer: SdkTracer,
    pub(crate) instruments: Instruments,
    /// What sessions belong to.
    pub(crate) parent: Context,
}

impl Telemetry {
    /// Begins to send what is asked for; `None` where nothing is.
    pub fn start(options: Options) -> Result<Option<Self>, TelemetryError> {
        let Options { endpoint, parent, tell } = options;
        let settings = Settings::of_environment(endpoint.as_deref())?;
        if settings.is_disabled {
            if endpoint.is_some() {
                tell("no telemetry is sent: OTEL_SDK_DISABLED is set");
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

    /// A connection between a client and an agent, on which nothing has been said.
    pub fn connection(&self) -> Connection {
        Connection::new(Arc::clone(&self.shared), None)
    }

    /// The same for a connection that has one session beside those of sub-agents, which is known by an id of the caller's.
    pub fn session(&self, id: &str) -> Connection {
        Connection::new(Arc::clone(&self.shared), Some(id))
    }

    /// Sends what is left, and gives up after a time. Nothing is sent afterwards.
    pub fn end(&self, patience: Duration) {
        self.shared.exporter.end(patience);
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Telemetry")
    }
}

/// The example of the package's front page runs with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
