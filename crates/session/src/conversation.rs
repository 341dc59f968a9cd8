//! Folds the messages of a connection into sessions. All consumers use this one interpretation.

mod login;
mod message;
mod questions;
mod subagents;

pub use questions::AgentQuestion;

use std::collections::HashMap;
use std::sync::Arc;

use switchboard_acp::detect::{DialectTracker, Handshake, HandshakeEvidence};
use switchboard_acp::rpc::{
    BATCH_LIMIT, BatchFault, Expected, Message, RequestId, RpcError, batch_entries, codes, is_batch,
};
use switchboard_acp::{
    Correlator, DecodeError, Diagnostic, Moment, Raw, SenderTracker, Side, Text, Version, Wire, WireFormat,
    v2,
};

use crate::change::Changes;
use crate::entry::EntryKind;
use crate::error::SessionError;
use crate::outline::Outlines;
use crate::request::Decider;
use crate::session::Session;
use crate::subagent_tree::SubagentTree;
use crate::turn::{Turn, Turns};
use crate::update::entry_of_update;
pub use login::AuthStatus;

/// Maximum number of pending requests. Beyond it, the oldest are evicted.
const MAX_OPEN: usize = 10_000;

/// Maximum number of unreadable updates remembered for unknown sessions.
const MAX_UNREAD: usize = 100;

/// The sessions on one connection, in order of appearance: transcripts, prompts with their outcomes,
/// questions with their answers.
///
/// It takes messages of both sides, so it can run between them, in one of them, or on a recording. Messages
/// that do not concern a session are skipped. It parses tolerantly: optional parts that are malformed are
/// left out and reported, as a good client does; [`strict`](Conversation::strict) makes it refuse such
/// messages. A copy shares common data and is cheap.
///
/// ```
/// use switchboard_acp::{Moment, Side, WireFormat};
/// use switchboard_session::Conversation;
///
/// let mut conversation = Conversation::new(WireFormat::Any);
/// let line = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":
///     {"sessionUpdate":"tool_call_update","toolCallId":"c-1","title":"Read","locations":[{"path":"relative"}]}}}"#;
/// let folded = conversation.read(line, Some(Side::Agent), Moment(0))?;
/// assert_eq!(folded.left_out[0].pointer, "/params/update/locations/0/path");
/// let session = conversation.session(Some("s-1")).unwrap();
/// assert_eq!(session.tool_call("c-1").unwrap().title(), Some("Read"));
///
/// let mut strict = Conversation::new(WireFormat::Any).strict();
/// assert!(strict.read(line, Some(Side::Agent), Moment(0)).is_err());
/// # Ok::<(), switchboard_session::ConversationError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Conversation {
    format: WireFormat,
    is_strict: bool,
    keeps_transcript: bool,
    keeps_settled: bool,
    /// Initial outlines of a new session.
    outlines: Option<Outlines>,
    /// Unreadable updates of unknown sessions: session, kind and id of the entry, problem.
    unread: Vec<(Option<Arc<str>>, EntryKind, String, String)>,
    session_limit: usize,
    slots: Vec<SessionSlot>,
    /// Indices of removed sessions.
    free: Vec<usize>,
    places: HashMap<Option<Arc<str>>, usize>,
    /// Session of the last message, which the next one usually concerns too.
    recent: usize,
    /// Pending requests.
    open: Correlator<Call>,
    /// The agent's dialect, as far as detected.
    dialect: DialectTracker,
    /// Detects the sender of messages if it is not given.
    senders: SenderTracker,
    /// Sessions that agents opened within other sessions.
    subagents: SubagentTree,
    /// Login state, if the agent reported it.
    auth_status: Option<Arc<AuthStatus>>,
    /// Latest time given.
    now: Moment,
    /// Id of the pending `initialize` request.
    handshake: Option<RequestId<'static>>,
    /// True if the agent answered it with version 1.
    is_version_1: bool,
}

/// A session with its prompts.
#[derive(Debug, Clone)]
struct SessionSlot {
    id: Option<Arc<str>>,
    session: Session,
    turns: Turns,
    removed: bool,
}

#[derive(Debug, Clone)]
enum Call {
    /// Opens a session, new or as a fork.
    New,
    Login,
    AuthStatus,
    SetTitle {
        session: usize,
    },
    Resume {
        session: usize,
        replays: bool,
    },
    SetConfigOption {
        session: usize,
    },
    Prompt {
        session: usize,
    },
    /// A question of the agent.
    Question {
        session: usize,
        is_permission: bool,
        reused_id: ReusedId,
        /// Author of the client's answer.
        by: Decider,
    },
}

/// Number of expected responses with a question's id that belong to other requests, because the agent reused
/// the id early.
#[derive(Debug, Clone, Copy, Default)]
struct ReusedId {
    /// Cancelled questions with this id that were not answered when it was reused. Their responses come
    /// first.
    cancelled: u32,
    /// Requests with this id that arrived while it was pending, and are refused with an error.
    repeated: u32,
}

impl Call {
    fn session(&self) -> Option<usize> {
        match *self {
            Call::New | Call::Login | Call::AuthStatus => None,
            Call::SetTitle { session }
            | Call::Resume { session, .. }
            | Call::SetConfigOption { session }
            | Call::Prompt { session }
            | Call::Question { session, .. } => Some(session),
        }
    }
}

/// Effect of a message on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Index of the session, for [`Conversation::session_at`].
    pub session: usize,
    /// Changes of the session.
    pub changes: Changes,
}

/// Result of folding a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folded<'t> {
    /// Effect on its session, if it concerns one.
    pub step: Option<Step>,
    /// Entry of the transcript that the message concerns, even if unchanged.
    pub entry: Option<(EntryKind, Text<'t>)>,
    /// Malformed parts with their pointers in the message. They were left out, or kept if only a rule without
    /// consequences was broken, such as a relative path.
    pub left_out: Vec<Diagnostic>,
    /// Prompts that the message ended, by request id.
    pub ended: Vec<RequestId<'static>>,
}

/// A parsed message that is not applied yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<'t> {
    /// The message. Updates, which are frequent, are parsed in one pass.
    pub message: Expected<'t, v2::UpdateSessionNotification<'t>>,
    /// Malformed parts that were left out.
    pub left_out: Vec<Diagnostic>,
}

/// Reason why a message that concerns a session was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// The message is malformed.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The batch is empty or has too many messages.
    #[error("expected 1 to {BATCH_LIMIT} messages in a batch, found another number")]
    Batch,
    /// The session refuses the request.
    #[error(transparent)]
    Refused(#[from] SessionError),
    /// The message belongs to a version 1 conversation, according to the handshake.
    #[error(
        "the message is of version 1 of the protocol, and conversations of version 2 are folded here; \
         translate the recording first, with switchboard_bridge::RecordingBridge"
    )]
    Version1,
    /// The message concerns a session beyond the limit.
    #[error("there are {limit} sessions on this connection already")]
    TooManySessions {
        /// Maximum number of sessions.
        limit: usize,
    },
}

impl Conversation {
    /// Creates an empty conversation that parses messages tolerantly in a dialect of version 2.
    pub fn new(format: WireFormat) -> Self {
        Conversation {
            format,
            is_strict: false,
            keeps_transcript: true,
            keeps_settled: true,
            outlines: None,
            unread: Vec::new(),
            session_limit: usize::MAX,
            slots: Vec::new(),
            free: Vec::new(),
            places: HashMap::new(),
            recent: 0,
            open: Correlator::new(MAX_OPEN),
            dialect: DialectTracker::known(format),
            senders: SenderTracker::default(),
            subagents: SubagentTree::default(),
            auth_status: None,
            now: Moment::default(),
            handshake: None,
            is_version_1: false,
        }
    }

    /// Makes it refuse messages with any malformed part.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// Makes it keep only the state of sessions, not their content: states, titles, usage, options and
    /// commands, prompts, pending questions and the sub-agent tree. Memory stays small for sessions of any
    /// length. Titles of tool calls that were reported before they represented a sub-agent do not name it.
    ///
    /// ```
    /// use switchboard_acp::{Moment, Side, WireFormat};
    /// use switchboard_session::{Activity, Conversation};
    ///
    /// let mut conversation = Conversation::new(WireFormat::Any).without_transcript();
    /// for update in [
    ///     r#"{"sessionUpdate":"state_update","state":"running"}"#,
    ///     r#"{"sessionUpdate":"agent_message","messageId":"m-1","content":[{"type":"text","text":"Hello"}]}"#,
    /// ] {
    ///     let line = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#);
    ///     conversation.read(&line, Some(Side::Agent), Moment(0))?;
    /// }
    /// let session = conversation.session(Some("s")).unwrap();
    /// assert_eq!((session.activity(), session.len()), (Activity::Running, 0));
    /// # Ok::<(), switchboard_session::ConversationError>(())
    /// ```
    #[must_use]
    pub fn without_transcript(mut self) -> Self {
        (self.keeps_transcript, self.keeps_settled) = (false, false);
        self
    }

    /// Makes it keep outlines of the latest tool calls, for policy decisions without a transcript: the input
    /// of each call, but not its output. [`Snapshot::tool_call_outline`](crate::Snapshot::tool_call_outline)
    /// returns them.
    #[must_use]
    pub fn with_tool_call_outlines(mut self) -> Self {
        self.outlines = Some(Outlines::default());
        self
    }

    /// Makes it keep only the outlines of all tool calls and all questions, to read a recording for policy
    /// decisions.
    #[must_use]
    pub fn with_tool_calls_alone(mut self) -> Self {
        (self.keeps_transcript, self.outlines) = (false, Some(Outlines::unlimited()));
        self
    }

    /// Limits the number of sessions. Messages about further ones are refused.
    #[must_use]
    pub fn with_session_limit(mut self, limit: usize) -> Self {
        self.session_limit = limit;
        self
    }

    /// Sets the agent's dialect, for example to read a recording from its middle.
    pub fn set_dialect(&mut self, dialect: DialectTracker) {
        self.dialect = dialect;
        self.tell_dialect();
    }

    /// Returns the agent's dialect as far as detected, with the evidence.
    pub fn dialect(&self) -> &DialectTracker {
        &self.dialect
    }

    // ----- reading

    /// Returns all sessions with their ids. Updates without an id belong to a session without one.
    pub fn sessions(&self) -> impl Iterator<Item = (Option<&str>, &Session)> {
        let there = self.slots.iter().filter(|slot| !slot.removed);
        there.map(|slot| (slot.id.as_deref(), &slot.session))
    }

    /// Returns the session with an id.
    pub fn session(&self, id: Option<&str>) -> Option<&Session> {
        self.slots.get(self.place_of(id)?).map(|slot| &slot.session)
    }

    /// Returns the session with the index of a [`Step`], and its id.
    pub fn session_at(&self, place: usize) -> Option<(Option<&str>, &Session)> {
        let slot = self.slots.get(place).filter(|slot| !slot.removed)?;
        Some((slot.id.as_deref(), &slot.session))
    }

    /// Returns the shared id of the session at an index.
    pub fn id_at(&self, place: usize) -> Option<&Arc<str>> {
        self.slots.get(place)?.id.as_ref()
    }

    /// Returns the prompts of a session in order. If there are very many, the oldest ended ones are evicted.
    pub fn turns(&self, session: Option<&str>) -> impl DoubleEndedIterator<Item = &Turn> {
        let slot = self.place_of(session).and_then(|place| self.slots.get(place));
        slot.into_iter().flat_map(|slot| slot.turns.iter())
    }

    /// Returns the prompt with a request id. If the id was reused, returns the last one.
    pub fn turn(&self, session: Option<&str>, id: &RequestId<'_>) -> Option<&Turn> {
        self.turns(session).rev().find(|turn| turn.id() == id)
    }

    /// Returns true if a prompt of a session is pending or being worked on.
    pub fn is_prompted(&self, session: Option<&str>) -> bool {
        let slot = self.place_of(session).and_then(|place| self.slots.get(place));
        slot.is_some_and(|slot| slot.turns.are_at_work())
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns true if there is no session.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    // ----- sessions

    fn place_of(&self, id: Option<&str>) -> Option<usize> {
        if let Some(slot) = self.slots.get(self.recent)
            && !slot.removed
            && slot.id.as_deref() == id
        {
            return Some(self.recent);
        }
        self.places.get(&id.map(Arc::from)).copied()
    }

    /// Returns the index of a session, and creates it if needed.
    fn place(&mut self, id: Option<&str>) -> Result<usize, ConversationError> {
        let place = match self.place_of(id) {
            Some(place) => place,
            None => self.add(id)?,
        };
        self.recent = place;
        Ok(place)
    }

    fn add(&mut self, id: Option<&str>) -> Result<usize, ConversationError> {
        if self.len() >= self.session_limit {
            return Err(ConversationError::TooManySessions { limit: self.session_limit });
        }
        let id: Option<Arc<str>> = id.map(Arc::from);
        let mut session = Session::new(self.format);
        session.keeps_transcript = self.keeps_transcript;
        session.keeps_settled = self.keeps_settled;
        session.view.outlines = self.outlines.clone().map(Arc::new);
        for (_, kind, about, problem) in self.unread.extract_if(.., |unread| unread.0 == id) {
            session.note_malformed(kind, &about, &problem);
        }
        if self.format == WireFormat::Any && self.dialect.wire_format() == WireFormat::Spec {
            session.peer_replaces_meta();
        }
        let slot = SessionSlot { id: id.clone(), session, turns: Turns::default(), removed: false };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.places.insert(id, place);
        Ok(place)
    }

    /// Creates a session that is about to be opened, or finds it.
    pub fn open_session(&mut self, id: &str) -> Result<usize, ConversationError> {
        self.place(Some(id))
    }

    /// Changes the id of a session, for example because the agent lost it and opened another in its place.
    /// Returns false if there is no such session or the new id is taken.
    pub fn rename(&mut self, id: &str, to: &str) -> bool {
        let Some(place) = self.place_of(Some(id)).filter(|_| self.place_of(Some(to)).is_none()) else {
            return false;
        };
        let to: Arc<str> = to.into();
        self.places.remove(&Some(Arc::from(id)));
        self.places.insert(Some(Arc::clone(&to)), place);
        if let Some(slot) = self.slots.get_mut(place) {
            slot.id = Some(Arc::clone(&to));
            slot.session.forget_calls();
        }
        self.subagents.rename(id, &to);
        true
    }

    /// Adds an alias for a session whose agent has lost it and opened another one in its place. Updates under
    /// the new id are appended to the session, which keeps its id. Entries with equal ids before and after
    /// are distinct. Returns false if the new id is taken.
    ///
    /// ```
    /// use switchboard_acp::{Moment, WireFormat, v2};
    /// use switchboard_session::Conversation;
    ///
    /// let mut conversation = Conversation::new(WireFormat::Any);
    /// let said = |text| v2::SessionUpdate::AgentMessageChunk(v2::ContentChunk::new("m-1", v2::ContentBlock::text(text)));
    /// conversation.apply_update(Some("old"), &said("before")).unwrap();
    /// assert!(conversation.continue_as("old", "new").unwrap());
    /// conversation.apply_update(Some("new"), &said("after")).unwrap();
    /// assert_eq!(conversation.len(), 1);
    /// assert_eq!(conversation.session(Some("old")).unwrap().len(), 2);
    /// assert_eq!(conversation.canonical_id("new"), "old");
    /// ```
    pub fn continue_as(&mut self, id: &str, to: &str) -> Result<bool, ConversationError> {
        if self.place_of(Some(to)).is_some() {
            return Ok(false);
        }
        let place = self.place(Some(id))?;
        self.places.insert(Some(Arc::from(to)), place);
        if let Some(slot) = self.slots.get_mut(place) {
            slot.session.seal();
        }
        Ok(true)
    }

    /// Returns the session id that an id or alias refers to, or the id itself if unknown.
    pub fn canonical_id<'c>(&'c self, id: &'c str) -> &'c str {
        self.place_of(Some(id)).and_then(|place| self.slots.get(place)?.id.as_deref()).unwrap_or(id)
    }

    /// Removes a session, for example after it was closed.
    pub fn remove(&mut self, id: Option<&str>) {
        let Some(place) = self.place_of(id) else { return };
        let _ = self.open.drain_if(|_, _, call| call.session() == Some(place));
        if let Some(id) = id {
            self.subagents.forget(id);
        }
        if let Some(slot) = self.slots.get_mut(place) {
            self.places.retain(|_, known| *known != place);
            *slot = SessionSlot {
                id: None,
                session: Session::new(self.format),
                turns: Turns::default(),
                removed: true,
            };
            self.free.push(place);
        }
    }

    fn step(&mut self, place: usize, apply: impl FnOnce(&mut Session) -> Changes) -> Step {
        let changes = self.slots.get_mut(place).map(|slot| apply(&mut slot.session));
        Step { session: place, changes: changes.unwrap_or_default() }
    }

    fn try_step(
        &mut self,
        place: usize,
        apply: impl FnOnce(&mut Session) -> Result<Changes, SessionError>,
    ) -> Result<Option<Step>, SessionError> {
        let changes = self.slots.get_mut(place).map(|slot| apply(&mut slot.session)).transpose()?;
        Ok(changes.map(|changes| Step { session: place, changes }))
    }

    // ----- messages

    /// Parses and applies one message. `from` is its sender if known; otherwise a [`SenderTracker`] detects
    /// it.
    ///
    /// Only version 2 is folded. After a handshake that the agent answers with version 1, every message fails
    /// with [`ConversationError::Version1`], until the next handshake.
    pub fn read<'t>(
        &mut self,
        text: &'t str,
        from: Option<Side>,
        at: Moment,
    ) -> Result<Folded<'t>, ConversationError> {
        let decoded = match self.decode(text) {
            Ok(decoded) => decoded,
            // Many version 1 messages cannot be parsed as version 2.
            Err(_) if self.is_version_1 => return Err(ConversationError::Version1),
            Err(error) => {
                if let Some(params) = Raw::parse(text).ok().as_ref().and_then(|message| message.get("params"))
                {
                    self.note_unreadable(&params, &error.to_string());
                }
                return Err(error.into());
            }
        };
        self.note_version(&decoded.message)?;
        self.apply(decoded, from, at)
    }

    /// Detects the protocol version in the handshake.
    fn note_version(
        &mut self,
        message: &Expected<'_, v2::UpdateSessionNotification<'_>>,
    ) -> Result<(), ConversationError> {
        match message {
            Expected::Other(Message::Request(request)) if request.method == "initialize" => {
                self.handshake = Some(request.id.clone().into_owned());
                self.is_version_1 = false;
                Ok(())
            }
            Expected::Other(Message::Response(response)) if self.handshake.as_ref() == Some(&response.id) => {
                self.handshake = None;
                self.is_version_1 = response.outcome.as_ref().is_ok_and(is_of_version_1);
                Ok(())
            }
            _ if self.is_version_1 => Err(ConversationError::Version1),
            _ => Ok(()),
        }
    }

    /// Parses and applies a line with one message or a batch, and passes the result of each message to
    /// `each`.
    pub fn read_line<'t>(
        &mut self,
        line: &'t str,
        from: Option<Side>,
        at: Moment,
        mut each: impl FnMut(&Self, Result<Folded<'t>, ConversationError>),
    ) {
        if !is_batch(line) {
            let folded = self.read(line, from, at);
            return each(self, folded);
        }
        match batch_entries(line, BATCH_LIMIT) {
            Ok(entries) if entries.is_empty() => each(self, Err(ConversationError::Batch)),
            Ok(entries) => {
                for (place, entry) in entries.into_iter().enumerate() {
                    let under = format!("/{place}");
                    let folded = match self.read(entry, from, at) {
                        Ok(mut folded) => {
                            let left_out = folded.left_out.into_iter();
                            folded.left_out = left_out.map(|diagnostic| diagnostic.under(&under)).collect();
                            Ok(folded)
                        }
                        Err(ConversationError::Malformed(error)) => Err(error.under(&under).into()),
                        Err(error) => Err(error),
                    };
                    each(self, folded);
                }
            }
            Err(BatchFault::NotJson(error)) => each(self, Err(error.into())),
            Err(BatchFault::TooMany { .. }) => each(self, Err(ConversationError::Batch)),
        }
    }

    /// Parses a message with the settings of this conversation, without applying it.
    pub fn decode<'t>(&self, text: &'t str) -> Result<Decoded<'t>, DecodeError> {
        if self.is_strict {
            let message = Expected::decode(text, self.format)?;
            return Ok(Decoded { message, left_out: Vec::new() });
        }
        let (message, left_out) = Expected::decode_tolerant(text, self.format)?;
        Ok(Decoded { message, left_out })
    }

    /// Parses a part of a message, such as its parameters, with the settings of this conversation.
    fn decode_part<'t, T: Wire<'t>>(
        &self,
        pointer: &str,
        text: &'t str,
        left_out: &mut Vec<Diagnostic>,
    ) -> Result<T, DecodeError> {
        if self.is_strict {
            return T::decode(text, self.format).map_err(|error| error.under(pointer));
        }
        let (value, tolerated) =
            T::decode_tolerant(text, self.format).map_err(|error| error.under(pointer))?;
        left_out.extend(tolerated.into_iter().map(|diagnostic| diagnostic.under(pointer)));
        Ok(value)
    }

    /// Applies a message parsed by [`decode`](Conversation::decode).
    pub fn apply<'t>(
        &mut self,
        decoded: Decoded<'t>,
        from: Option<Side>,
        at: Moment,
    ) -> Result<Folded<'t>, ConversationError> {
        self.now = self.now.max(at);
        let Decoded { message, mut left_out } = decoded;
        match message {
            Expected::Params(notification) => {
                let applied = self.apply_update(Some(&notification.session_id), &notification.update)?;
                let step = applied.step.as_ref();
                self.note_malformed(step.map(|step| step.session), &notification.update, &left_out);
                let Folded { step, entry, left_out: unlinked, ended } = applied;
                let kind = entry.map(|(kind, _)| kind);
                let v2::UpdateSessionNotification { update, .. } = notification;
                left_out.extend(unlinked);
                Ok(Folded { step, entry: kind.zip(id_of(update)), left_out, ended })
            }
            Expected::Other(message) => {
                let folded = self.apply_message(&message, from, at)?;
                Ok(Folded {
                    step: folded.step,
                    entry: folded.entry.map(|(kind, id)| (kind, Text::Owned(id.into_owned()))),
                    left_out: left_out.into_iter().chain(folded.left_out).collect(),
                    ended: folded.ended,
                })
            }
        }
    }

    /// Applies an update.
    pub fn apply_update<'u>(
        &mut self,
        session_id: Option<&str>,
        update: &'u v2::SessionUpdate<'_>,
    ) -> Result<Folded<'u>, ConversationError> {
        let place = self.place(session_id)?;
        // Sub-agents are linked to the session's canonical id, not to the agent's current alias.
        let known = self.slots.get(place).and_then(|slot| slot.id.as_ref());
        let canonical = known.filter(|id| Some(&***id) != session_id).cloned();
        let session_id = canonical.as_deref().or(session_id);
        // Detect the dialect before applying, so that this update's metadata is already merged by the right
        // rule.
        if self.dialect.see_update(update) {
            self.tell_dialect();
        }
        // Order: the session first, then its prompts and the sub-agent tree. Both read the session's new
        // state, for example its replay flag and the titles of its tool calls.
        let step = self.step(place, |session| session.apply(update));
        let mut folded = Folded { step: Some(step), ..Folded::default() };
        match update {
            v2::SessionUpdate::StateUpdate(state) => {
                let now = self.now;
                if let Some(slot) = self.slots.get_mut(place)
                    && slot.turns.has_open()
                    && !slot.session.is_replaying()
                {
                    folded.ended = slot.turns.note_state(state, now);
                }
                if let Some(session) = session_id {
                    self.subagents.set_state(session, state);
                }
            }
            update => {
                folded.entry = entry_of_update(update).map(|(kind, id)| (kind, Text::Borrowed(id)));
                if let Some(parent) = session_id {
                    self.link_children(parent, update, &mut folded.left_out);
                }
            }
        }
        Ok(folded)
    }

    /// Records that an applied update was malformed.
    fn note_malformed(
        &mut self,
        session: Option<usize>,
        update: &v2::SessionUpdate<'_>,
        left_out: &[Diagnostic],
    ) {
        if let Some(problem) = left_out.iter().find(|problem| !problem.kept)
            && let Some((kind, id)) = entry_of_update(update)
            && let Some(slot) = session.and_then(|session| self.slots.get_mut(session))
        {
            slot.session.note_malformed(kind, id, &problem.to_string());
        }
    }

    /// Records that an update could not be parsed completely, given its parameters. If it concerns a tool
    /// call, the outline of that call has a [problem](crate::ToolCallOutline::problem).
    pub fn note_unreadable(&mut self, params: &Raw<'_>, problem: &str) {
        let (session, Some(update)) = (params.text("sessionId"), params.get("update")) else { return };
        for (key, kind) in [("toolCallId", EntryKind::ToolCall), ("terminalId", EntryKind::Terminal)] {
            let Some(id) = update.text(key) else { continue };
            let place = self.place_of(session.as_deref());
            match place.and_then(|place| self.slots.get_mut(place)) {
                Some(slot) => slot.session.note_malformed(kind, &id, problem),
                // An unreadable update creates no session, but must be reported once the session exists.
                None if self.unread.len() < MAX_UNREAD => {
                    self.unread.push((session.as_deref().map(Arc::from), kind, id, problem.to_owned()));
                }
                None => {}
            }
        }
    }

    /// Applies the detected dialect to all sessions.
    #[cold]
    fn tell_dialect(&mut self) {
        if self.format != WireFormat::Any {
            return;
        }
        for slot in &mut self.slots {
            match self.dialect.wire_format() {
                WireFormat::Spec => slot.session.peer_replaces_meta(),
                WireFormat::Newest | WireFormat::Any | WireFormat::V1 => slot.session.peer_merges_meta(),
            }
        }
    }

    /// Applies any message.
    pub fn apply_message<'m>(
        &mut self,
        message: &'m Message<'_>,
        from: Option<Side>,
        at: Moment,
    ) -> Result<Folded<'m>, ConversationError> {
        self.now = self.now.max(at);
        let from = from.or_else(|| self.senders.sender(message));
        match message {
            Message::Notification(notification) => self.notification(notification, from, at),
            Message::Request(request) => self.request(request, at),
            Message::Response(response) => self.response(response, from, at).map(Folded::owned),
        }
    }

    /// Ends the connection: cancels questions and ends prompts. Returns the effects and the ended prompts.
    pub fn end_connection(&mut self, at: Moment) -> (Vec<Step>, Vec<RequestId<'static>>) {
        let (mut steps, mut ended) = (Vec::new(), Vec::new());
        for (place, slot) in self.slots.iter_mut().enumerate() {
            let changes = slot.session.cancel_requests(Decider::ConnectionEnd, at);
            if !changes.is_empty() {
                steps.push(Step { session: place, changes });
            }
            ended.extend(slot.turns.connection_ended(at));
        }
        while self.open.pop_oldest().is_some() {}
        if self.outlines.is_some() {
            self.forget_calls();
        }
        self.subagents.end_all(&RpcError::new(codes::INTERNAL_ERROR, "the connection to the agent ended"));
        (steps, ended)
    }

    /// Removes the outlines of tool calls, for example because the agent that could refer to them has ended.
    pub fn forget_calls(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.session.forget_calls());
    }
}

impl Folded<'_> {
    fn of(step: Option<Step>) -> Self {
        Folded { step, ..Folded::default() }
    }

    fn owned<'o>(self) -> Folded<'o> {
        let Folded { step, entry, left_out, ended } = self;
        let entry = entry.map(|(kind, id)| (kind, Text::Owned(id.into_owned())));
        Folded { step, entry, left_out, ended }
    }

    /// Returns the changes.
    pub fn changes(&self) -> Option<&Changes> {
        self.step.as_ref().map(|step| &step.changes)
    }
}

/// Returns the id of the entry that an update concerns, with the lifetime of the parsed text.
fn id_of(update: v2::SessionUpdate<'_>) -> Option<Text<'_>> {
    use v2::SessionUpdate as Update;
    Some(match update {
        Update::UserMessageChunk(chunk)
        | Update::AgentMessageChunk(chunk)
        | Update::AgentThoughtChunk(chunk) => chunk.message_id,
        Update::UserMessage(message) | Update::AgentMessage(message) | Update::AgentThought(message) => {
            message.message_id
        }
        Update::ToolCallUpdate(call) => call.tool_call_id,
        Update::ToolCallContentChunk(chunk) => chunk.tool_call_id,
        Update::TerminalUpdate(terminal) => terminal.terminal_id,
        Update::TerminalOutputChunk(chunk) => chunk.terminal_id,
        Update::CompactionUpdate(compaction) => compaction.compaction_id,
        Update::CompactionSummaryChunk(chunk) => chunk.compaction_id,
        Update::SubagentUpdate(subagent) => subagent.session_id,
        Update::SessionMessage(message) => message.message_id,
        Update::SessionMessageChunk(chunk) => chunk.message_id,
        _ => return None,
    })
}

/// Returns true if the response to `initialize` indicates version 1. If it only contains the number 2, which
/// several version 1 agents echo, nothing is known.
fn is_of_version_1(result: &Raw<'_>) -> bool {
    let handshake = Handshake::of_answer(result);
    let is_unclear = handshake.evidence == HandshakeEvidence::NothingOfVersion2
        && handshake.number.is_none_or(|number| number > 1);
    handshake.version == Version::V1 && !is_unclear
}
