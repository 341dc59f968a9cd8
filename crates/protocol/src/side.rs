//! Sides of a connection, and protocol versions.

/// One of the two peers of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The client, usually an editor, which shows the session to the user.
    Client,
    /// The agent, which does the work.
    Agent,
}

impl Side {
    /// Returns the name of the side.
    pub fn as_str(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Agent => "agent",
        }
    }

    /// Returns the other side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Side::Client => Side::Agent,
            Side::Agent => Side::Client,
        }
    }
}

impl serde::Serialize for Side {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// Version 1.
    V1,
    /// Version 2, in either dialect.
    V2,
}

impl Version {
    /// Returns the version on the other side of a translation.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Version::V1 => Version::V2,
            Version::V2 => Version::V1,
        }
    }

    /// Returns the number on the wire.
    pub fn number(self) -> u16 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }
}
