//! What an update changed, precisely enough to redraw only that.

use crate::entry::EntryKind;

/// What one update, request or answer changed. Empty when it changed nothing that can be seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Nearly every update changes one thing, so the first needs no allocation.
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

    /// What was changed after these changes.
    pub(crate) fn extend(&mut self, later: Changes) {
        self.revision = self.revision.max(later.revision);
        for change in later.first.into_iter().chain(later.more) {
            self.push(change);
        }
    }

    pub(crate) fn set_revision(&mut self, revision: u64) {
        self.revision = revision;
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// How many things changed.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    /// The changes in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.first.iter().chain(&self.more)
    }

    /// The session's revision after them.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// One thing that changed. Indices point into the session's lists and stay valid until the next
/// [`Change::Replayed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An entry of the transcript was created or changed.
    Entry(EntryChange),
    /// The session went to another state, or told it again with other details.
    State,
    /// The session's title was set or cleared.
    Title,
    /// The session's time of last change or its metadata changed.
    Info,
    /// The list of commands was replaced.
    Commands,
    /// The list of configuration options was replaced.
    ConfigOptions,
    /// Usage or cost was told.
    Usage,
    /// A plan was created or replaced.
    Plan {
        /// Its place in the list of plans.
        index: usize,
        /// Whether it is new.
        created: bool,
    },
    /// A plan was taken away. Those behind it have moved up by one.
    PlanRemoved {
        /// The place in the list of plans that it had.
        index: usize,
    },
    /// A permission was asked for, answered or cancelled.
    Permission {
        /// Its place in the list of permissions.
        index: usize,
        /// What happened to it.
        event: RequestEvent,
    },
    /// Data was asked for, given or the question taken back.
    Elicitation {
        /// Its place in the list of elicitations.
        index: usize,
        /// What happened to it.
        event: RequestEvent,
    },
    /// The agent said something to show once: the last of the notices.
    Notice,
    /// An update of an unknown kind was kept.
    Unknown {
        /// Its place in the list of unknown updates.
        index: usize,
    },
    /// A replay took the place of the transcript: draw everything anew.
    Replayed,
}

/// What happened to a request of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEvent {
    /// It was made.
    Opened,
    /// The user or a policy answered it.
    Answered,
    /// One of the sides took it back.
    Cancelled,
    /// The web page that it sent the user to is done with.
    Completed,
    /// What it is about is another now: an answer to what was asked before must not count.
    Changed,
}

/// What happened to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryChange {
    /// The place in the transcript.
    pub position: usize,
    /// What the entry is.
    pub kind: EntryKind,
    /// Whether it is new.
    pub created: bool,
    /// What happened to its content, output or summary.
    pub content: ContentChange,
    /// The other fields that were set or cleared.
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

/// What happened to content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentChange {
    /// Nothing.
    Kept,
    /// So many items (of a terminal: bytes) came to the end.
    Appended(usize),
    /// It is another now, of so many items (of a terminal: bytes).
    Replaced(usize),
}

/// A field of an entry, besides its content.
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

    /// The key on the wire; empty for unknown keys.
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

/// What happened to one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldChange {
    /// It has a value that it did not have before.
    Set,
    /// It has its default now, or none.
    Cleared,
}

/// The fields of an entry that were set or cleared. A field that was told again as it is counts as neither.
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

    /// What happened to a field.
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

    /// Whether no field changed.
    pub fn is_empty(self) -> bool {
        self == FieldChanges::default()
    }

    /// The fields that changed.
    pub fn iter(self) -> impl Iterator<Item = (EntryField, FieldChange)> {
        EntryField::ALL.into_iter().filter_map(move |field| Some((field, self.get(field)?)))
    }
}
