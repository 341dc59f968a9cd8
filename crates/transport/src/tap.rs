//! Observation of a connection's traffic, for recording and display.

use std::fmt;
use std::sync::Arc;

use crate::Anomaly;

/// Direction of a line, as seen from this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the peer.
    Sent,
    /// From the peer.
    Received,
}

/// Item passed to a tap.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum TapEvent<'a> {
    /// A message as it is on the wire.
    Message {
        /// Direction.
        direction: Direction,
        /// Text of the message.
        line: &'a str,
    },
    /// An unexpected message or line of the peer. A message has been passed as [`TapEvent::Message`] before.
    Anomaly(&'a Anomaly),
}

type See = dyn Fn(TapEvent<'_>) + Send + Sync;

/// Observer of all traffic of a connection. Received messages are passed before any other consumer gets them;
/// sent messages in the order of writing, before they are written. The function runs inside reading and
/// sending, so it must be quick: the connection waits for it.
#[derive(Clone)]
pub struct Tap(Arc<See>);

impl Tap {
    /// Creates a tap from a function.
    pub fn new(see: impl Fn(TapEvent<'_>) + Send + Sync + 'static) -> Self {
        Tap(Arc::new(see))
    }

    pub(crate) fn see(&self, seen: TapEvent<'_>) {
        self.0(seen);
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tap")
    }
}
