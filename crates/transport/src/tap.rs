//! For whoever keeps or shows what goes over a connection.

use std::fmt;
use std::sync::Arc;

use crate::Anomaly;

/// Which way a line went, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the peer.
    Sent,
    /// From the peer.
    Received,
}

/// What a tap is shown.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Seen<'a> {
    /// A message, as it is on the wire.
    Message {
        /// Which way it went.
        direction: Direction,
        /// Its text.
        line: &'a str,
    },
    /// Something that the peer sent and should not have. Where it is a message, that has been shown before.
    Anomaly(&'a Anomaly),
}

type See = dyn Fn(Seen<'_>) + Send + Sync;

/// Is shown everything that goes over a connection: what is received before anybody else sees it, what is sent in the
/// order in which it is written and before it is. It is called in the middle of reading and sending, so it must be
/// quick; what it waits for, the connection waits for.
#[derive(Clone)]
pub struct Tap(Arc<See>);

impl Tap {
    /// Shows it to a function.
    pub fn new(see: impl Fn(Seen<'_>) + Send + Sync + 'static) -> Self {
        Tap(Arc::new(see))
    }

    pub(crate) fn see(&self, seen: Seen<'_>) {
        self.0(seen);
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tap")
    }
}
