//! Changes of a session, precise enough to redraw only the affected parts.

use crate::entry::EntryKind;

/// Changes made by one update, request or response. Empty if nothing visible changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Nearly every update makes one change, so the first needs no allocation.
    first: Option<Change>,
    more: Vec<Change>,
    revision: u64,
}

impl Changes {
    #[inline]
    pub(crate) fn one(change: Change, revision: u64) -> Self {
        Changes { first: Some(change), more: Vec::new(), revision }
    }

    pub(crate) fn push(&mut self, change: Change) {
        if self.first.is_none() {
            self.first = Some(change);
        } else {
            self.more.push(change);
        }
    }

    /// Appends later changes.
    pub(crate) fn extend(&mut self, later: Changes) {
        self.revision = self.revision.max(later.revision);
        for change in later.first.into_iter().chain(later.more) {
            self.push(change);
        }
    }

    pub(crate) fn set_revision(&mut self, revision: u64) {
        self.revision = revision;
    }

    /// Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    /// Returns the changes in order.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.first.iter().chain(&self.more)
    }

    /// Returns the session's revision after the changes.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// One change. Indices refer to the session's lists and stay valid until the next [`Change::Replayed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An entry of the transcript was created or changed.
    Entry(EntryChange),
    /// The session's state changed, or was reported again with other details.
    State,
    /// The session's title was set or cleared.
    Title,
    /// The session's modification time or metadata changed.
    Info,
    /// The list of commands was replaced.
    Commands,
    /// The list of configuration options was replaced.
    ConfigOptions,
    /// Usage or cost was reported.
    Usage,
    /// A plan was created or replaced.
    Plan {
        /// Index in the list of plans.
        index: usize,
        /// True if it is new.
        created: bool,
    },
    /// A plan was removed. Later plans move up by one.
    PlanRemoved {
        /// Former index in the list of plans.
        index: usize,
    },
    /// A permission was requested, answered or cancelled.
    Permission {
        /// Index in the list of permissions.
        index: usize,
        /// Event of the request.
        event: RequestEvent,
    },
    /// An elicitation was requested, answered or cancelled.
    Elicitation {
        /// Index in the list of elicitations.
        index: usize,
        /// Event of the request.
        event: RequestEvent,
    },
    /// The agent sent a notice, which is shown once. It is the last of the notices.
    Notice,
    /// An update of an unknown kind was kept.
    Unknown {
        /// Index in the list of unknown updates.
        index: usize,
    },
    /// A replay replaced the transcript: redraw everything.
    Replayed,
}

/// Event of an agent's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEvent {
    /// The request was made.
    Opened,
    /// The user or a policy answered it.
    Answered,
    /// One side cancelled it.
    Cancelled,
    /// The user has finished the web page of the request.
    Completed,
    /// Its subject changed: an answer to the previous one must not count.
    Changed,
}

/// Change of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryChange {
    /// Index in the transcript.
    pub position: usize,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// True if it is new.
    pub created: bool,
    /// Change of its content, output or summary.
    pub content: ContentChange,
    /// Other fields that were set or cleared.
    pub fields: FieldChanges,
}

impl EntryChange {
    pub(crate) fn new(position: usize, kind: EntryKind, created: bool) -> Self {
        let (content, fields) = (ContentChange::Kept, FieldChanges::default());
        EntryChange { position, kind, created, content, fields }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.created && self.content == ContentChange::Kept && self.fields == FieldChanges::default()
    }
}

/// Change of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentChange {
    /// Unchanged.
    Kept,
    /// This many items (for a terminal: bytes) were appended.
    Appended(usize),
    /// Replaced by this many items (for a terminal: bytes).
    Replaced(usize),
}

/// A field of an entry other than its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum EntryField {
    Title,
    Name,
    Kind,
    Status,
    Locations,
    RawInput,
    RawOutput,
    Capabilities,
    Command,
    Cwd,
    ExitStatus,
    Size,
    Error,
    Description,
    State,
    AdditionalDirectories,
    Sender,
    Recipient,
    SenderMessage,
    RecipientMessage,
    Meta,
    /// Keys that the protocol does not define.
    Extra,
}

impl EntryField {
    const ALL: [EntryField; 22] = [
        EntryField::Title,
        EntryField::Name,
        EntryField::Kind,
        EntryField::Status,
        EntryField::Locations,
        EntryField::RawInput,
        EntryField::RawOutput,
        EntryField::Capabilities,
        EntryField::Command,
        EntryField::Cwd,
        EntryField::ExitStatus,
        EntryField::Size,
        EntryField::Error,
        EntryField::Description,
        EntryField::State,
        EntryField::AdditionalDirectories,
        EntryField::Sender,
        EntryField::Recipient,
        EntryField::SenderMessage,
        EntryField::RecipientMessage,
        EntryField::Meta,
        EntryField::Extra,
    ];

    /// Returns the key on the wire. Empty for unknown keys.
    pub fn key(self) -> &'static str {
        match self {
            EntryField::Title => "title",
            EntryField::Name => "name",
            EntryField::Kind => "kind",
            EntryField::Status => "status",
            EntryField::Locations => "locations",
            EntryField::RawInput => "rawInput",
            EntryField::RawOutput => "rawOutput",
            EntryField::Capabilities => "capabilities",
            EntryField::Command => "command",
            EntryField::Cwd => "cwd",
            EntryField::ExitStatus => "exitStatus",
            EntryField::Size => "size",
            EntryField::Error => "error",
            EntryField::Description => "description",
            EntryField::State => "state",
            EntryField::AdditionalDirectories => "additionalDirectories",
            EntryField::Sender => "senderSessionId",
            EntryField::Recipient => "recipientSessionId",
            EntryField::SenderMessage => "senderMessageId",
            EntryField::RecipientMessage => "recipientMessageId",
            EntryField::Meta => "_meta",
            EntryField::Extra => "",
        }
    }
}

/// Change of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldChange {
    /// The field has a new value.
    Set,
    /// The field has its default or no value.
    Cleared,
}

/// Fields of an entry that were set or cleared. A field that was set to its current value is not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldChanges {
    set: u32,
    cleared: u32,
}

impl FieldChanges {
    pub(crate) fn note(&mut self, field: EntryField, change: Option<FieldChange>) {
        let bit = 1 << field as u8;
        match change {
            Some(FieldChange::Set) => self.set |= bit,
            Some(FieldChange::Cleared) => self.cleared |= bit,
            None => {}
        }
    }

    /// Returns the change of a field.
    pub fn get(self, field: EntryField) -> Option<FieldChange> {
        let bit = 1 << field as u8;
        if self.set & bit != 0 {
            Some(FieldChange::Set)
        } else if self.cleared & bit != 0 {
            Some(FieldChange::Cleared)
        } else {
            None
        }
    }

    /// Returns true if no field changed.
    pub fn is_empty(self) -> bool {
        self == FieldChanges::default()
    }

    /// Returns the changed fields.
    pub fn iter(self) -> impl Iterator<Item = (EntryField, FieldChange)> {
        EntryField::ALL.into_iter().filter_map(move |field| Some((field, self.get(field)?)))
    }
}
