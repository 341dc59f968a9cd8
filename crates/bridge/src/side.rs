//! Who speaks, and when.

use serde::Serialize;

/// One of the two peers that the bridge stands between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The client, usually an editor.
    Client,
    /// The agent.
    Agent,
}

impl Side {
    /// The peer at the other end.
    pub fn other(self) -> Self {
        match self {
            Side::Client => Side::Agent,
            Side::Agent => Side::Client,
        }
    }
}

/// A moment in milliseconds since any fixed one. The bridge has no clock; its host tells the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// The moment some milliseconds later.
    #[must_use]
    pub fn after(self, milliseconds: u64) -> Self {
        Moment(self.0.saturating_add(milliseconds))
    }
}

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Version {
    /// Version 1.
    V1,
    /// Version 2, in either dialect.
    V2,
}

impl Version {
    /// The version at the other end of a translation.
    pub fn other(self) -> Self {
        match self {
            Version::V1 => Version::V2,
            Version::V2 => Version::V1,
        }
    }

    /// The number on the wire.
    pub fn number(self) -> u16 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }
}
