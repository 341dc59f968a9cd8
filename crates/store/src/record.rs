use std::sync::Arc;

use switchboard_acp::{Moment, Side};

/// The largest message that is kept: the same limit as on a connection, with room for noise.
pub const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// The largest code of a channel: journals need the highest bit.
const MAX_CODE: u8 = 0x7f;

/// What a record is.
///
/// Where the traffic was translated on its way, the side that spoke version 2 has the messages of the session, and
/// what went over the other side is kept beside them: it is shown, but neither folded nor searched nor counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// A message from the client to the agent.
    ToAgent,
    /// A message from the agent to the client.
    ToClient,
    /// What the agent's process wrote to its standard error.
    StandardError,
    /// Something that happened to the agent's process: started, exited, killed.
    Process,
    /// A message to the agent, as it was on the other side of a translation.
    OtherToAgent,
    /// A message to the client, as it was on the other side of a translation.
    OtherToClient,
    /// A loss or a fault that was found while the session went on, as JSON.
    Diagnostic,
    /// What a hub notes about the session, as a JSON object with the key `hub`: who answered, which prompt is which.
    Hub,
    /// What a later program recorded, under its code. It is kept as it is.
    Unknown(u8),
}

impl Channel {
    /// What stands for it on the disk.
    pub fn code(self) -> u8 {
        match self {
            Channel::ToAgent => 0,
            Channel::ToClient => 1,
            Channel::StandardError => 2,
            Channel::Process => 3,
            Channel::OtherToAgent => 4,
            Channel::OtherToClient => 5,
            Channel::Diagnostic => 6,
            Channel::Hub => 7,
            Channel::Unknown(code) => code & MAX_CODE,
        }
    }

    /// The channel of a code; `None` for what no program writes.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Channel::ToAgent,
            1 => Channel::ToClient,
            2 => Channel::StandardError,
            3 => Channel::Process,
            4 => Channel::OtherToAgent,
            5 => Channel::OtherToClient,
            6 => Channel::Diagnostic,
            7 => Channel::Hub,
            8..=MAX_CODE => Channel::Unknown(code),
            _ => return None,
        })
    }

    /// The channel of a message that one side sent, on the session's own side of a translation or the other one.
    pub fn of_message(from: Side, other_side: bool) -> Self {
        match (from, other_side) {
            (Side::Client, false) => Channel::ToAgent,
            (Side::Agent, false) => Channel::ToClient,
            (Side::Client, true) => Channel::OtherToAgent,
            (Side::Agent, true) => Channel::OtherToClient,
        }
    }

    /// Who sent what is on it, and whether that is on the other side of a translation; `None` for what is no message.
    pub fn message(self) -> Option<(Side, bool)> {
        match self {
            Channel::ToAgent => Some((Side::Client, false)),
            Channel::ToClient => Some((Side::Agent, false)),
            Channel::OtherToAgent => Some((Side::Client, true)),
            Channel::OtherToClient => Some((Side::Agent, true)),
            Channel::StandardError
            | Channel::Process
            | Channel::Diagnostic
            | Channel::Hub
            | Channel::Unknown(_) => None,
        }
    }

    /// Whether it is a message of the session.
    pub fn is_message(self) -> bool {
        matches!(self.message(), Some((_, false)))
    }

    /// Whether it is a message as it was on the other side of a translation.
    pub fn is_other_side(self) -> bool {
        matches!(self.message(), Some((_, true)))
    }
}

/// One thing that is kept, with its bytes as they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place in the session, counted from 0. The recorder gives it.
    pub sequence: u64,
    /// When it came.
    pub time: Moment,
    /// What it is and which way it went.
    pub channel: Channel,
    /// Which connection it went over, where there are several: the name of whom it connects to.
    pub peer: Arc<str>,
    /// The version of the protocol that the connection had agreed on; 0 when not known yet.
    pub protocol: u16,
    /// The bytes, without the end of the line.
    pub bytes: Vec<u8>,
}

impl Record {
    /// A record of now.
    pub fn new(channel: Channel, bytes: impl Into<Vec<u8>>) -> Self {
        Record {
            sequence: 0,
            time: Moment::now(),
            channel,
            peer: Arc::default(),
            protocol: 0,
            bytes: bytes.into(),
        }
    }

    /// The same at another time.
    #[must_use]
    pub fn at(mut self, time: Moment) -> Self {
        self.time = time;
        self
    }

    /// The same over a named connection.
    #[must_use]
    pub fn with_peer(mut self, peer: impl Into<Arc<str>>) -> Self {
        self.peer = peer.into();
        self
    }

    /// The same in a version of the protocol.
    #[must_use]
    pub fn with_protocol(mut self, protocol: u16) -> Self {
        self.protocol = protocol;
        self
    }
}

/// What reading a session gives, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A record.
    Record(Record),
    /// Records that should be there and are not readable.
    Gap {
        /// The first that is missing.
        from: u64,
        /// The first behind the gap.
        to: u64,
        /// Why.
        reason: String,
    },
}

impl Item {
    /// The record, if it is one.
    pub fn into_record(self) -> Option<Record> {
        match self {
            Item::Record(record) => Some(record),
            Item::Gap { .. } => None,
        }
    }
}

/// What is known about a session when its recording begins. What is missing is read from its messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The agent's name.
    pub agent: Option<String>,
    /// The client's name.
    pub client: Option<String>,
    /// The folder that the session works in.
    pub project: Option<String>,
    /// A title.
    pub title: Option<String>,
}

/// A session in the list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Its id in the store.
    pub id: String,
    /// The ids that it has on the wire, in the order in which they came up.
    pub wire_ids: Vec<String>,
    /// Who takes part and where.
    pub about: About,
    /// The version of the protocol; 0 when not known.
    pub protocol: u16,
    /// When it began.
    pub began: Moment,
    /// The latest time of any record.
    pub changed: Moment,
    /// How many records it has, which is also the next sequence number.
    pub length: u64,
    /// How many bytes its records had on the wire.
    pub bytes: u64,
    /// Whether its recorder said goodbye.
    pub closed: bool,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Part of the agent's name.
    pub agent: Option<String>,
    /// The project's folder or one above it.
    pub project: Option<String>,
    /// Part of the title.
    pub title: Option<String>,
    /// Changed at this time or later.
    pub since: Option<Moment>,
    /// Begun before this time.
    pub until: Option<Moment>,
    /// At most so many, the latest first.
    pub limit: Option<usize>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}
