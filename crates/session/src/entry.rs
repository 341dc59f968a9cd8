//! Entries of a transcript.

use std::sync::Arc;

use switchboard_acp::{Base64, Extra, Field, Meta, Raw, extensions, v2};

use crate::bytes::Bytes;
use crate::change::{EntryField, FieldChanges};
use crate::content::{Attached, Content};
use crate::patch::{MetaRule, patch_extra};
use crate::shared_vec::SharedVec;
use crate::short_text::ShortText;
use crate::subagent::{SessionMessage, Subagent};

/// Kind of an entry. Each kind has its own ids: a user message and an agent message may share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// A user message.
    UserMessage,
    /// An agent message.
    AgentMessage,
    /// An agent thought.
    AgentThought,
    /// A tool call.
    ToolCall,
    /// A terminal.
    Terminal,
    /// A compaction of the conversation.
    Compaction,
    /// A sub-agent. Its id is that of its session.
    Subagent,
    /// A message from one session to another.
    SessionMessage,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [EntryKind; 8] = [
        EntryKind::UserMessage,
        EntryKind::AgentMessage,
        EntryKind::AgentThought,
        EntryKind::ToolCall,
        EntryKind::Terminal,
        EntryKind::Compaction,
        EntryKind::Subagent,
        EntryKind::SessionMessage,
    ];

    /// Returns the name in the JSON form of a session.
    pub fn as_str(self) -> &'static str {
        match self {
            EntryKind::UserMessage => "user_message",
            EntryKind::AgentMessage => "agent_message",
            EntryKind::AgentThought => "agent_thought",
            EntryKind::ToolCall => "tool_call",
            EntryKind::Terminal => "terminal",
            EntryKind::Compaction => "compaction",
            EntryKind::Subagent => "subagent",
            EntryKind::SessionMessage => "session_message",
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        EntryKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Origin of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// Received live.
    #[default]
    Live,
    /// Received in a replay of history.
    Replayed,
}

/// One entry of the transcript. Cheap to copy: it shares nearly everything, and copies at most a kilobyte of
/// text.
// Messages are boxed, not shared: most updates are chunks of messages, and checking an `Arc` for uniqueness
// takes as long as everything else that a chunk needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A message or a thought.
    Message(Box<Message>),
    /// A tool call.
    ToolCall(Arc<ToolCall>),
    /// A terminal.
    Terminal(Arc<Terminal>),
    /// A compaction of the conversation.
    Compaction(Arc<Compaction>),
    /// A sub-agent.
    Subagent(Arc<Subagent>),
    /// A message from one session to another.
    SessionMessage(Arc<SessionMessage>),
}

/// Fields common to all entries.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Head {
    pub(crate) kind: EntryKind,
    pub(crate) origin: Origin,
    pub(crate) id: ShortText,
    pub(crate) revision: u64,
    pub(crate) attached: Option<Arc<Attached>>,
}

static NO_EXTRA: Extra<'static> = Extra::new();

impl Head {
    fn new(kind: EntryKind, id: &str, origin: Origin) -> Self {
        Head { kind, origin, id: id.into(), revision: 0, attached: None }
    }

    pub(crate) fn meta(&self) -> Option<&Meta<'static>> {
        self.attached.as_ref()?.meta.as_ref()
    }

    pub(crate) fn extra(&self) -> &Extra<'static> {
        self.attached.as_ref().map_or(&NO_EXTRA, |attached| &attached.extra)
    }

    /// Applies the metadata and unknown keys of an update, which are usually absent.
    #[inline]
    pub(crate) fn patch_attached(
        &mut self,
        rule: MetaRule,
        meta: &Field<Meta<'_>>,
        extra: &Extra<'_>,
        fields: &mut FieldChanges,
    ) {
        if !matches!(meta, Field::Keep) || !extra.is_empty() {
            let attached = Arc::make_mut(self.attached.get_or_insert_default());
            fields.note(EntryField::Meta, rule.apply(&mut attached.meta, meta));
            fields.note(EntryField::Extra, patch_extra(&mut attached.extra, extra));
            if *attached == Attached::default() {
                self.attached = None;
            }
        }
    }

    #[inline]
    pub(crate) fn is(&self, kind: EntryKind, id: &str) -> bool {
        self.kind == kind && self.id.as_bytes() == id.as_bytes()
    }
}

impl Entry {
    pub(crate) fn new(kind: EntryKind, id: &str, origin: Origin) -> Self {
        let head = Head::new(kind, id, origin);
        match kind {
            EntryKind::UserMessage | EntryKind::AgentMessage | EntryKind::AgentThought => {
                Entry::Message(Box::new(Message { head, content: Content::default() }))
            }
            EntryKind::ToolCall => Entry::ToolCall(Arc::new(ToolCall::new(head))),
            EntryKind::Terminal => Entry::Terminal(Arc::new(Terminal::new(head))),
            EntryKind::Compaction => Entry::Compaction(Arc::new(Compaction::new(head))),
            EntryKind::Subagent => Entry::Subagent(Arc::new(Subagent::new(head))),
            EntryKind::SessionMessage => Entry::SessionMessage(Arc::new(SessionMessage::new(head))),
        }
    }

    pub(crate) fn head(&self) -> &Head {
        match self {
            Entry::Message(message) => &message.head,
            Entry::ToolCall(call) => &call.head,
            Entry::Terminal(terminal) => &terminal.head,
            Entry::Compaction(compaction) => &compaction.head,
            Entry::Subagent(subagent) => &subagent.head,
            Entry::SessionMessage(message) => &message.head,
        }
    }

    pub(crate) fn head_mut(&mut self) -> &mut Head {
        match self {
            Entry::Message(message) => &mut message.head,
            Entry::ToolCall(call) => &mut Arc::make_mut(call).head,
            Entry::Terminal(terminal) => &mut Arc::make_mut(terminal).head,
            Entry::Compaction(compaction) => &mut Arc::make_mut(compaction).head,
            Entry::Subagent(subagent) => &mut Arc::make_mut(subagent).head,
            Entry::SessionMessage(message) => &mut Arc::make_mut(message).head,
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> EntryKind {
        self.head().kind
    }

    /// Returns the id, unique among entries of its kind.
    pub fn id(&self) -> &str {
        &self.head().id
    }

    /// Returns the session's revision at which the entry last changed.
    pub fn revision(&self) -> u64 {
        self.head().revision
    }

    /// Returns the origin.
    pub fn origin(&self) -> Origin {
        self.head().origin
    }

    /// Returns the metadata.
    pub fn meta(&self) -> Option<&Meta<'static>> {
        self.head().meta()
    }

    /// Returns the unknown keys of its updates, each with its latest value.
    pub fn extra(&self) -> &Extra<'static> {
        self.head().extra()
    }

    /// Returns the message or thought.
    pub fn as_message(&self) -> Option<&Message> {
        match self {
            Entry::Message(message) => Some(message),
            _ => None,
        }
    }

    /// Returns the tool call.
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match self {
            Entry::ToolCall(call) => Some(call),
            _ => None,
        }
    }

    /// Returns the terminal.
    pub fn as_terminal(&self) -> Option<&Terminal> {
        match self {
            Entry::Terminal(terminal) => Some(terminal),
            _ => None,
        }
    }

    /// Returns the compaction.
    pub fn as_compaction(&self) -> Option<&Compaction> {
        match self {
            Entry::Compaction(compaction) => Some(compaction),
            _ => None,
        }
    }

    /// Returns the sub-agent.
    pub fn as_subagent(&self) -> Option<&Subagent> {
        match self {
            Entry::Subagent(subagent) => Some(subagent),
            _ => None,
        }
    }

    /// Returns the message from one session to another.
    pub fn as_session_message(&self) -> Option<&SessionMessage> {
        match self {
            Entry::SessionMessage(message) => Some(message),
            _ => None,
        }
    }

    /// Returns true if both have the same kind and content, ignoring ids, metadata and chunk boundaries.
    pub(crate) fn has_same_content(&self, other: &Entry) -> bool {
        match (self, other) {
            (Entry::Message(left), Entry::Message(right)) => {
                left.head.kind == right.head.kind && left.content.has_same_content(&right.content)
            }
            (Entry::ToolCall(left), Entry::ToolCall(right)) => {
                left.title == right.title
                    && left.kind == right.kind
                    && left.raw_input == right.raw_input
                    && left.content.has_same_content(&right.content)
            }
            (Entry::Terminal(left), Entry::Terminal(right)) => {
                left.command == right.command && left.cwd == right.cwd && left.output == right.output
            }
            (Entry::Compaction(left), Entry::Compaction(right)) => {
                left.status == right.status && left.summary.has_same_content(&right.summary)
            }
            // A sub-agent is identified by its session: another id is another sub-agent.
            (Entry::Subagent(left), Entry::Subagent(right)) => left.head.id == right.head.id,
            (Entry::SessionMessage(left), Entry::SessionMessage(right)) => {
                left.sender == right.sender
                    && left.recipient == right.recipient
                    && left.content.has_same_content(&right.content)
            }
            _ => false,
        }
    }
}

/// Kind-specific part of an entry.
pub(crate) trait Body {
    fn of(entry: &Entry) -> Option<&Self>;
    fn of_mut(entry: &mut Entry) -> Option<&mut Self>;
    fn head(&self) -> &Head;
    fn head_mut(&mut self) -> &mut Head;
}

macro_rules! bodies {
    ($($type:ident by $own:path),*) => {$(
        impl Body for $type {
            #[inline]
            fn of(entry: &Entry) -> Option<&Self> {
                if let Entry::$type(body) = entry { Some(body) } else { None }
            }

            #[inline]
            fn of_mut(entry: &mut Entry) -> Option<&mut Self> {
                if let Entry::$type(body) = entry { Some($own(body)) } else { None }
            }

            #[inline]
            fn head(&self) -> &Head {
                &self.head
            }

            #[inline]
            fn head_mut(&mut self) -> &mut Head {
                &mut self.head
            }
        }

        impl $type {
            /// Returns the id, unique among entries of its kind.
            pub fn id(&self) -> &str {
                &self.head.id
            }

            /// Returns the session's revision at which the entry last changed.
            pub fn revision(&self) -> u64 {
                self.head.revision
            }

            /// Returns the metadata of the entry. Metadata of a chunk is with its item.
            pub fn meta(&self) -> Option<&Meta<'static>> {
                self.head.meta()
            }
        }
    )*};
}

bodies!(
    Message by Box::as_mut,
    ToolCall by Arc::make_mut,
    Terminal by Arc::make_mut,
    Compaction by Arc::make_mut,
    Subagent by Arc::make_mut,
    SessionMessage by Arc::make_mut
);

/// A message of the user or the agent, or a thought.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub(crate) head: Head,
    pub(crate) content: Content<v2::ContentBlock<'static>>,
}

impl Message {
    /// Returns the kind: user message, agent message or thought.
    pub fn kind(&self) -> EntryKind {
        self.head.kind
    }

    /// Returns the content.
    pub fn content(&self) -> &Content<v2::ContentBlock<'static>> {
        &self.content
    }
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub(crate) head: Head,
    pub(crate) kind: v2::ToolKind,
    pub(crate) status: v2::ToolCallStatus,
    pub(crate) title: Option<ShortText>,
    pub(crate) name: Option<ShortText>,
    pub(crate) content: Content<v2::ToolCallContent<'static>>,
    pub(crate) locations: Option<Arc<[v2::ToolCallLocation<'static>]>>,
    pub(crate) raw_input: Option<Raw<'static>>,
    pub(crate) raw_output: Option<Raw<'static>>,
    pub(crate) capabilities: Option<Arc<v2::CancelCapabilities<'static>>>,
}

impl ToolCall {
    /// Creates a call with only an id.
    pub(crate) fn named(id: &str, origin: Origin) -> Self {
        ToolCall::new(Head::new(EntryKind::ToolCall, id, origin))
    }

    fn new(head: Head) -> Self {
        ToolCall {
            head,
            kind: v2::ToolKind::Other,
            status: v2::ToolCallStatus::Pending,
            title: None,
            name: None,
            content: Content::default(),
            locations: None,
            raw_input: None,
            raw_output: None,
            capabilities: None,
        }
    }

    /// Returns the title for display. Without one, a client shows a text of its own.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Returns the tool's name, for programs.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the kind of tool.
    pub fn kind(&self) -> &v2::ToolKind {
        &self.kind
    }

    /// Returns the status.
    pub fn status(&self) -> &v2::ToolCallStatus {
        &self.status
    }

    /// Returns the output.
    pub fn content(&self) -> &Content<v2::ToolCallContent<'static>> {
        &self.content
    }

    /// Returns the files that the call works on.
    pub fn locations(&self) -> &[v2::ToolCallLocation<'static>] {
        self.locations.as_deref().unwrap_or_default()
    }

    /// Returns the parameters of the call.
    pub fn raw_input(&self) -> Option<&Raw<'static>> {
        self.raw_input.as_ref()
    }

    /// Returns the raw output of the tool.
    pub fn raw_output(&self) -> Option<&Raw<'static>> {
        self.raw_output.as_ref()
    }

    /// Returns the actions that the client can request for this call.
    pub fn capabilities(&self) -> Option<&v2::CancelCapabilities<'static>> {
        self.capabilities.as_deref()
    }

    /// Returns the ids of the terminals whose output belongs to this call. They may not be known yet.
    pub fn terminal_ids(&self) -> impl Iterator<Item = &str> {
        self.content.items().filter_map(|item| match item.structured()? {
            v2::ToolCallContent::Terminal(terminal) => Some(&*terminal.terminal_id),
            _ => None,
        })
    }
}

/// A terminal that the agent runs.
#[derive(Debug, Clone)]
pub struct Terminal {
    pub(crate) head: Head,
    pub(crate) command: Option<ShortText>,
    pub(crate) cwd: Option<ShortText>,
    pub(crate) output: Bytes,
    /// Attachments of the last snapshot of the output.
    pub(crate) output_attached: Option<Arc<Attached>>,
    /// Attachments of chunks, with the number of bytes before each.
    pub(crate) chunks: SharedVec<(usize, Arc<Attached>)>,
    pub(crate) exit_status: Option<Arc<v2::TerminalExitStatus<'static>>>,
    pub(crate) size: Option<Arc<v2::TerminalSize<'static>>>,
    pub(crate) capabilities: Option<Arc<v2::CancelCapabilities<'static>>>,
}

impl Terminal {
    fn new(head: Head) -> Self {
        Terminal {
            head,
            command: None,
            cwd: None,
            output: Bytes::default(),
            output_attached: None,
            chunks: SharedVec::default(),
            exit_status: None,
            size: None,
            capabilities: None,
        }
    }

    pub(crate) fn has_no_output(&self) -> bool {
        self.output.is_empty()
            && self.output.dropped() == 0
            && self.output_attached.is_none()
            && self.chunks.is_empty()
    }

    pub(crate) fn clear_output(&mut self) {
        self.output = Bytes::default();
        self.output_attached = None;
        self.chunks = SharedVec::default();
    }

    /// Appends to the output and drops the oldest bytes beyond the limit.
    pub(crate) fn append(&mut self, limit: usize, data: &Base64<'_>) -> usize {
        let added = self.output.append(limit, |buffer| data.append_to(buffer));
        let dropped = self.output.dropped();
        if self.chunks.get(self.chunks.len() / 2).is_some_and(|(place, _)| *place < dropped) {
            self.chunks = self.chunks.iter().filter(|(place, _)| *place >= dropped).cloned().collect();
        }
        added
    }

    /// Returns the command line.
    pub fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    /// Returns the working directory.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// Returns the output: bytes that may contain incomplete characters and escape sequences. The oldest
    /// bytes may have been dropped; see [`Bytes::dropped`].
    pub fn output(&self) -> &Bytes {
        &self.output
    }

    /// Returns the output as a snapshot in wire form.
    pub(crate) fn wire_output(&self) -> v2::TerminalOutput<'static> {
        let mut output = v2::TerminalOutput::new(Base64::from_bytes(&self.output.to_vec()));
        (output.meta, output.extra) = Attached::parts(self.output_attached());
        output
    }

    /// Returns the attachments of the last snapshot of the output.
    pub fn output_attached(&self) -> Option<&Attached> {
        self.output_attached.as_deref()
    }

    /// Returns the attachments of chunks with their offset in the output. Those of dropped bytes are not
    /// included.
    pub fn chunks(&self) -> impl Iterator<Item = (usize, &Attached)> {
        let dropped = self.output.dropped();
        let kept = self.chunks.iter().filter(move |(place, _)| *place >= dropped);
        kept.map(move |(place, attached)| (place - dropped, &**attached))
    }

    /// Returns the exit status, once the terminal has ended.
    pub fn exit_status(&self) -> Option<&v2::TerminalExitStatus<'static>> {
        self.exit_status.as_deref()
    }

    /// Returns columns and rows.
    pub fn size(&self) -> Option<&v2::TerminalSize<'static>> {
        self.size.as_deref()
    }

    /// Returns the actions that the client can request for this terminal.
    pub fn capabilities(&self) -> Option<&v2::CancelCapabilities<'static>> {
        self.capabilities.as_deref()
    }
}

/// Compares everything that can be read.
impl PartialEq for Terminal {
    fn eq(&self, other: &Self) -> bool {
        self.head == other.head
            && self.command == other.command
            && self.cwd == other.cwd
            && self.output == other.output
            && self.output_attached == other.output_attached
            && self.chunks().eq(other.chunks())
            && self.exit_status == other.exit_status
            && self.size == other.size
            && self.capabilities == other.capabilities
    }
}

/// A compaction of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    pub(crate) head: Head,
    pub(crate) status: v2::CompactionStatus,
    pub(crate) summary: Content<v2::ContentBlock<'static>>,
    pub(crate) error: Option<ShortText>,
}

impl Compaction {
    fn new(head: Head) -> Self {
        Compaction {
            head,
            status: v2::CompactionStatus::InProgress,
            summary: Content::default(),
            error: None,
        }
    }

    /// Returns the status.
    pub fn status(&self) -> &v2::CompactionStatus {
        &self.status
    }

    /// Returns true if the agent has lost its memory of everything before
    /// ([`MEMORY_LOST`](extensions::MEMORY_LOST)).
    pub fn is_memory_loss(&self) -> bool {
        self.head.meta().and_then(|meta| extensions::MEMORY_LOST.read(meta)) == Some(true)
    }

    /// Returns the summary that replaces the conversation.
    pub fn summary(&self) -> &Content<v2::ContentBlock<'static>> {
        &self.summary
    }

    /// Returns the error message of a failed compaction.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}
