//! For whoever keeps or shows the lines of a connection.

use std::fmt;
use std::sync::Arc;

/// Which way a line went, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the peer.
    Sent,
    /// From the peer.
    Received,
}

type See = dyn Fn(Direction, &str) + Send + Sync;

/// Is shown every message of a connection as it is on the wire: received ones before anybody else sees them, sent
/// ones in the order in which they are written. It is called in the middle of reading and sending, so it must be
/// quick; what it waits for, the connection waits for.
#[derive(Clone)]
pub struct Tap(Arc<See>);

impl Tap {
    /// Shows messages to a function.
    pub fn new(see: impl Fn(Direction, &str) + Send + Sync + 'static) -> Self {
        Tap(Arc::new(see))
    }

    pub(crate) fn see(&self, direction: Direction, line: &str) {
        self.0(direction, line);
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tap")
    }
}
