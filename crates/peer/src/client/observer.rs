//! Observation of the messages between a client and its agent.

use std::fmt;
use std::sync::Arc;

use switchboard_bridge::Loss;
use switchboard_transport::{Anomaly, ConnectionOptions, Direction, Tap, TapEvent};

/// Position of an observed line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireSide {
    /// On the connection to the agent, in the agent's version.
    Agent,
    /// Between the client and the translation, in version 2. Only for version 1 agents.
    Canonical,
}

/// An observed event.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// A message.
    Line {
        /// Its position.
        side: WireSide,
        /// Its direction from the client's point of view.
        direction: Direction,
        /// The message.
        line: &'a str,
    },
    /// The agent's protocol version. Earlier messages belong to the negotiation.
    Version(u16),
    /// A protocol error of the agent. If it is a message, that has been shown before.
    Anomaly(&'a Anomaly),
    /// A loss or guess of the translation.
    Loss(&'a Loss),
}

/// A callback for all messages between a client and its agent. It is called while reading and sending, so it
/// must be fast.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(Observed<'_>) + Send + Sync>);

impl Observer {
    /// Creates an observer from a function.
    pub fn new(see: impl Fn(Observed<'_>) + Send + Sync + 'static) -> Self {
        Observer(Arc::new(see))
    }

    pub(crate) fn see(&self, observed: Observed<'_>) {
        self.0(observed);
    }

    fn tap(&self, side: WireSide) -> Tap {
        let observer = self.clone();
        Tap::new(move |seen| match seen {
            TapEvent::Message { direction, line } => observer.see(Observed::Line { side, direction, line }),
            TapEvent::Anomaly(anomaly) if side == WireSide::Agent => observer.see(Observed::Anomaly(anomaly)),
            _ => {}
        })
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Observer")
    }
}

/// Returns the options for an observed connection.
pub(super) fn observed(
    options: ConnectionOptions,
    observer: Option<&Observer>,
    side: WireSide,
) -> ConnectionOptions {
    ConnectionOptions { tap: observer.map(|observer| observer.tap(side)), ..options }
}
