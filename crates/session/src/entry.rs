//! What a transcript consists of.

use std::sync::Arc;

use switchboard_acp::{Base64, Extra, Field, Meta, Raw, extensions, v2};

use crate::bytes::Bytes;
use crate::change::{EntryField, FieldChanges};
use crate::content::{Attached, Content};
use crate::patch::{MetaRule, patch_extra};
use crate::shared_vec::SharedVec;
use crate::short_text::ShortText;
use crate::subagent::{SessionMessage, Subagent};

/// What an entry of the transcript is. Each kind has ids of its own: a user message and an agent message may
/// share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// A message of the user.
    UserMessage,
    /// A message of the agent.
    AgentMessage,
    /// A thought of the agent.
    AgentThought,
    /// A tool call.
    ToolCall,
    /// A terminal.
    Terminal,
    /// A compaction of the conversation.
    Compaction,
    /// A sub-agent; its id is that of its session.
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

    /// The kind as the JSON form of a session has it.
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

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Self> {
        EntryKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// How an entry first came into the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// While it happened.
    #[default]
    Live,
    /// In a replay of history.
    Replayed,
}

/// One entry of the transcript. A copy shares nearly everything with it; a kilobyte of text is the most that is
/// copied.
// Most updates are chunks of messages, and to make sure that nobody shares an `Arc` takes as long as all else that
// a chunk needs.
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

/// What all entries have.
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

    /// Changes metadata and unknown keys as an update says, which mostly says nothing of them.
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

    /// What the entry is.
    pub fn kind(&self) -> EntryKind {
        self.head().kind
    }

    /// The id, unique among entries of its kind.
    pub fn id(&self) -> &str {
        &self.head().id
    }

    /// The session's revision at which the entry last changed.
    pub fn revision(&self) -> u64 {
        self.head().revision
    }

    /// How the entry first came.
    pub fn origin(&self) -> Origin {
        self.head().origin
    }

    /// Metadata of the entry.
    pub fn meta(&self) -> Option<&Meta<'static>> {
        self.head().meta()
    }

    /// Keys of its updates that the protocol does not define, each with its latest value.
    pub fn extra(&self) -> &Extra<'static> {
        self.head().extra()
    }

    /// The message or thought, where this is one.
    pub fn as_message(&self) -> Option<&Message> {
        match self {
            Entry::Message(message) => Some(message),
            _ => None,
        }
    }

    /// The tool call, where this is one.
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match self {
            Entry::ToolCall(call) => Some(call),
            _ => None,
        }
    }

    /// The terminal, where this is one.
    pub fn as_terminal(&self) -> Option<&Terminal> {
        match self {
            Entry::Terminal(terminal) => Some(terminal),
            _ => None,
        }
    }

    /// The compaction, where this is one.
    pub fn as_compaction(&self) -> Option<&Compaction> {
        match self {
            Entry::Compaction(compaction) => Some(compaction),
            _ => None,
        }
    }

    /// The sub-agent, where this is one.
    pub fn as_subagent(&self) -> Option<&Subagent> {
        match self {
            Entry::Subagent(subagent) => Some(subagent),
            _ => None,
        }
    }

    /// The message from one session to another, where this is one.
    pub fn as_session_message(&self) -> Option<&SessionMessage> {
        match self {
            Entry::SessionMessage(message) => Some(message),
            _ => None,
        }
    }

    /// Whether both are of one kind and say the same, whatever their ids, metadata and chunk boundaries.
    pub(crate) fn says_the_same(&self, other: &Entry) -> bool {
        match (self, other) {
            (Entry::Message(left), Entry::Message(right)) => {
                left.head.kind == right.head.kind && left.content.says_the_same(&right.content)
            }
            (Entry::ToolCall(left), Entry::ToolCall(right)) => {
                left.title == right.title
                    && left.kind == right.kind
                    && left.raw_input == right.raw_input
                    && left.content.says_the_same(&right.content)
            }
            (Entry::Terminal(left), Entry::Terminal(right)) => {
                left.command == right.command && left.cwd == right.cwd && left.output == right.output
            }
            (Entry::Compaction(left), Entry::Compaction(right)) => {
                left.status == right.status && left.summary.says_the_same(&right.summary)
            }
            // A sub-agent is its session: another id is another sub-agent.
            (Entry::Subagent(left), Entry::Subagent(right)) => left.head.id == right.head.id,
            (Entry::SessionMessage(left), Entry::SessionMessage(right)) => {
                left.sender == right.sender
                    && left.recipient == right.recipient
                    && left.content.says_the_same(&right.content)
            }
            _ => false,
        }
    }
}

/// What an entry is apart from its kind.
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
            /// The id, unique among entries of its kind.
            pub fn id(&self) -> &str {
                &self.head.id
            }

            /// The session's revision at which the entry last changed.
            pub fn revision(&self) -> u64 {
                self.head.revision
            }

            /// Metadata of the entry. That of a chunk is with its item.
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
    /// Whose message it is, and whether it is a thought.
    pub fn kind(&self) -> EntryKind {
        self.head.kind
    }

    /// What it says.
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
    /// Returns a call of which nothing is known but its id.
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

    /// What the tool is doing, for people. A client shows words of its own where there is none.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The tool's name, for programs.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What the tool does.
    pub fn kind(&self) -> &v2::ToolKind {
        &self.kind
    }

    /// How far it is.
    pub fn status(&self) -> &v2::ToolCallStatus {
        &self.status
    }

    /// What it has produced.
    pub fn content(&self) -> &Content<v2::ToolCallContent<'static>> {
        &self.content
    }

    /// The files it works on.
    pub fn locations(&self) -> &[v2::ToolCallLocation<'static>] {
        self.locations.as_deref().unwrap_or_default()
    }

    /// The parameters that the tool was called with.
    pub fn raw_input(&self) -> Option<&Raw<'static>> {
        self.raw_input.as_ref()
    }

    /// What the tool returned.
    pub fn raw_output(&self) -> Option<&Raw<'static>> {
        self.raw_output.as_ref()
    }

    /// What the client may ask of this call.
    pub fn capabilities(&self) -> Option<&v2::CancelCapabilities<'static>> {
        self.capabilities.as_deref()
    }

    /// The ids of the terminals whose output belongs here. They may be known already, later or never.
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
    /// What came with the last snapshot of the output.
    pub(crate) output_attached: Option<Arc<Attached>>,
    /// What came with chunks, with the number of bytes that had come before each.
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

    /// Appends to the output, of which the latest bytes are kept up to the limit.
    pub(crate) fn append(&mut self, limit: usize, data: &Base64<'_>) -> usize {
        let added = self.output.append(limit, |buffer| data.append_to(buffer));
        let dropped = self.output.dropped();
        if self.chunks.get(self.chunks.len() / 2).is_some_and(|(place, _)| *place < dropped) {
            self.chunks = self.chunks.iter().filter(|(place, _)| *place >= dropped).cloned().collect();
        }
        added
    }

    /// The command line.
    pub fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    /// Where it runs.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// What it has written: bytes, in which characters and escape sequences may be unfinished. The oldest are
    /// gone where there were too many; [`Bytes::dropped`] says how many.
    pub fn output(&self) -> &Bytes {
        &self.output
    }

    /// The output as a snapshot of it on the wire.
    pub(crate) fn wire_output(&self) -> v2::TerminalOutput<'static> {
        let mut output = v2::TerminalOutput::new(Base64::from_bytes(&self.output.to_vec()));
        (output.meta, output.extra) = Attached::parts(self.output_attached());
        output
    }

    /// What the last snapshot of the output brought beside the bytes.
    pub fn output_attached(&self) -> Option<&Attached> {
        self.output_attached.as_deref()
    }

    /// What chunks brought beside bytes, with the place in the output where each begins. What came with bytes
    /// that are not kept any more is gone too.
    pub fn chunks(&self) -> impl Iterator<Item = (usize, &Attached)> {
        let dropped = self.output.dropped();
        let kept = self.chunks.iter().filter(move |(place, _)| *place >= dropped);
        kept.map(move |(place, attached)| (place - dropped, &**attached))
    }

    /// How it ended; once there, it has.
    pub fn exit_status(&self) -> Option<&v2::TerminalExitStatus<'static>> {
        self.exit_status.as_deref()
    }

    /// Columns and rows.
    pub fn size(&self) -> Option<&v2::TerminalSize<'static>> {
        self.size.as_deref()
    }

    /// What the client may ask of it.
    pub fn capabilities(&self) -> Option<&v2::CancelCapabilities<'static>> {
        self.capabilities.as_deref()
    }
}

/// Equal when everything that can be read is equal.
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

    /// How far it is.
    pub fn status(&self) -> &v2::CompactionStatus {
        &self.status
    }

    /// Whether the agent has lost its memory of everything before ([`MEMORY_LOST`](extensions::MEMORY_LOST)).
    pub fn is_memory_loss(&self) -> bool {
        self.head.meta().and_then(|meta| extensions::MEMORY_LOST.read(meta)) == Some(true)
    }

    /// What remains of the conversation.
    pub fn summary(&self) -> &Content<v2::ContentBlock<'static>> {
        &self.summary
    }

    /// What went wrong.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}
