use std::sync::Arc;

use switchboard_acp::{Moment, Side};

/// Maximum length of a message in bytes: the limit of a connection plus room for noise.
pub const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// Largest channel code. Journals use the highest bit as a flag.
const MAX_CODE: u8 = 0x7f;

/// Kind and direction of a record.
///
/// If traffic was translated, the version 2 side has the session's messages. The other side is kept for
/// display, but not folded, searched or counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// A message from the client to the agent.
    ToAgent,
    /// A message from the agent to the client.
    ToClient,
    /// Standard error output of the agent process.
    StandardError,
    /// An event of the agent process: started, exited, killed.
    Process,
    /// A message to the agent on the other side of a translation.
    OtherToAgent,
    /// A message to the client on the other side of a translation.
    OtherToClient,
    /// A translation loss or a fault found during the session, as JSON.
    Diagnostic,
    /// A note of the hub about the session, such as the author of an answer, as a JSON object with the key
    /// `hub`.
    Hub,
    /// A record of a later program version, with its code. Kept unchanged.
    Unknown(u8),
}

impl Channel {
    /// Returns the code on disk.
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

    /// Parses a code. Returns `None` for a code that no version writes.
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

    /// Returns the channel of a message from `from`, on the session's own side of a translation or on the
    /// other side.
    pub fn of_message(from: Side, other_side: bool) -> Self {
        match (from, other_side) {
            (Side::Client, false) => Channel::ToAgent,
            (Side::Agent, false) => Channel::ToClient,
            (Side::Client, true) => Channel::OtherToAgent,
            (Side::Agent, true) => Channel::OtherToClient,
        }
    }

    /// Returns the sender of a message and true if it is on the other side of a translation. `None` for other
    /// records.
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

    /// Returns true for a message of the session.
    pub fn is_message(self) -> bool {
        matches!(self.message(), Some((_, false)))
    }

    /// Returns true for a message on the other side of a translation.
    pub fn is_other_side(self) -> bool {
        matches!(self.message(), Some((_, true)))
    }
}

/// One recorded item with its original bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Sequence number in the session, from 0. Assigned by the recorder.
    pub sequence: u64,
    /// Time of arrival.
    pub time: Moment,
    /// Kind and direction.
    pub channel: Channel,
    /// Name of the connection's peer, if there are several connections.
    pub peer: Arc<str>,
    /// Negotiated protocol version. 0 if not known yet.
    pub protocol: u16,
    /// The bytes without the line end.
    pub bytes: Vec<u8>,
}

impl Record {
    /// Creates a record with the current time.
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

    /// Sets the time.
    #[must_use]
    pub fn at(mut self, time: Moment) -> Self {
        self.time = time;
        self
    }

    /// Sets the peer.
    #[must_use]
    pub fn with_peer(mut self, peer: impl Into<Arc<str>>) -> Self {
        self.peer = peer.into();
        self
    }

    /// Sets the protocol version.
    #[must_use]
    pub fn with_protocol(mut self, protocol: u16) -> Self {
        self.protocol = protocol;
        self
    }
}

/// Item of a session: a record or a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A record.
    Record(Record),
    /// Records that cannot be read.
    Gap {
        /// First missing sequence number.
        from: u64,
        /// First sequence number after the gap.
        to: u64,
        /// Reason.
        reason: String,
    },
}

impl Item {
    /// Returns the record, or `None` for a gap.
    pub fn into_record(self) -> Option<Record> {
        match self {
            Item::Record(record) => Some(record),
            Item::Gap { .. } => None,
        }
    }
}

/// Metadata given when a recording starts. Missing values are taken from the messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Name of the agent.
    pub agent: Option<String>,
    /// Name of the client.
    pub client: Option<String>,
    /// Working folder of the session.
    pub project: Option<String>,
    /// Title of the session.
    pub title: Option<String>,
}

/// An entry of the session list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Id in the store.
    pub id: String,
    /// Ids on the wire, in order of appearance.
    pub wire_ids: Vec<String>,
    /// Agent, client, folder and title.
    pub about: About,
    /// Protocol version. 0 if not known.
    pub protocol: u16,
    /// Start time.
    pub began: Moment,
    /// Latest time of a record.
    pub changed: Moment,
    /// Number of records, which is also the next sequence number.
    pub length: u64,
    /// Bytes of its records on the wire.
    pub bytes: u64,
    /// True if its recorder closed it.
    pub closed: bool,
}

/// Filter for the session list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Part of the agent's name.
    pub agent: Option<String>,
    /// The working folder or one of its parents.
    pub project: Option<String>,
    /// Part of the title.
    pub title: Option<String>,
    /// Only sessions changed at this time or later.
    pub since: Option<Moment>,
    /// Only sessions started before this time.
    pub until: Option<Moment>,
    /// Maximum number of sessions, latest first.
    pub limit: Option<usize>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}
