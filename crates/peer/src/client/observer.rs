//! For whoever keeps or shows what a client and its agent say to each other.

use std::fmt;
use std::sync::Arc;

use switchboard_bridge::Loss;
use switchboard_transport::{Anomaly, ConnectionOptions, Direction, Seen, Tap};

/// Where a line was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireSide {
    /// On the connection to the agent, in the words of the agent.
    Agent,
    /// Between the client and the translation, in the words of version 2. Only agents of version 1 are translated.
    Canonical,
}

/// Something that an observer is shown.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// A message.
    Line {
        /// Where.
        side: WireSide,
        /// Which way it went, seen from the client.
        direction: Direction,
        /// The message.
        line: &'a str,
    },
    /// The agent speaks this version of the protocol. What is seen before belongs to the agreement on it.
    Version(u16),
    /// Something that the agent sent and should not have. Where it is a message, that has been shown before.
    Anomaly(&'a Anomaly),
    /// Something that the translation could not carry over, or had to guess.
    Loss(&'a Loss),
}

/// Is shown everything that a client and its agent say to each other. It is called in the middle of reading and
/// sending, so it must be quick.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(Observed<'_>) + Send + Sync>);

impl Observer {
    /// Shows it to a function.
    pub fn new(see: impl Fn(Observed<'_>) + Send + Sync + 'static) -> Self {
        Observer(Arc::new(see))
    }

    pub(crate) fn see(&self, observed: Observed<'_>) {
        self.0(observed);
    }

    fn tap(&self, side: WireSide) -> Tap {
        let observer = self.clone();
        Tap::new(move |seen| match seen {
            Seen::Message { direction, line } => observer.see(Observed::Line { side, direction, line }),
            Seen::Anomaly(anomaly) if side == WireSide::Agent => observer.see(Observed::Anomaly(anomaly)),
            _ => {}
        })
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Observer")
    }
}

/// The options for a connection that is observed.
pub(super) fn observed(
    options: ConnectionOptions,
    observer: Option<&Observer>,
    side: WireSide,
) -> ConnectionOptions {
    ConnectionOptions { tap: observer.map(|observer| observer.tap(side)), ..options }
}
