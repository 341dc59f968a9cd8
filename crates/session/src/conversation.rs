//! The messages of a connection, folded into sessions: the one reading that everybody looks at.

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

/// How many requests may wait for an answer; for more, the oldest are forgotten.
const MAX_OPEN: usize = 10_000;

/// How many unreadable updates of unknown sessions are remembered.
const MAX_UNREAD: usize = 100;

/// The sessions that the messages of one connection amount to, in the order in which they first appear: their
/// transcripts, the prompts and how the work on each ended, the questions and who answered them.
///
/// It takes what either side sends, so it can stand between the two, be one of them, or read a recording. Messages
/// that have nothing to do with a session are passed over. It reads tolerantly: what is malformed and optional is left
/// out and reported, as a good client does; [`strict`](Conversation::strict) makes it refuse such messages.
/// A copy shares what the two have in common, and is cheap.
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
    /// The outlines that a new session begins with.
    outlines: Option<Outlines>,
    /// Unreadable updates of sessions that are not known yet: the session, what they are about, and the problem.
    unread: Vec<(Option<Arc<str>>, EntryKind, String, String)>,
    session_limit: usize,
    slots: Vec<Slot>,
    /// Places of sessions that were removed.
    free: Vec<usize>,
    places: HashMap<Option<Arc<str>>, usize>,
    /// The session that the last message went to; the next one mostly goes there too.
    recent: usize,
    /// Requests without an answer yet.
    open: Correlator<Call>,
    /// The agent's dialect, as far as it shows.
    dialect: DialectTracker,
    /// Who says what, where nobody tells.
    senders: SenderTracker,
    /// Sessions that agents of other sessions have opened.
    subagents: SubagentTree,
    /// Whether somebody is logged in, where the agent told.
    auth_status: Option<Arc<AuthStatus>>,
    /// The latest moment that was told.
    now: Moment,
    /// The request that opened the connection, until it is answered.
    handshake: Option<RequestId<'static>>,
    /// Whether the agent answered it in version 1.
    is_version_1: bool,
}

/// A session with its prompts.
#[derive(Debug, Clone)]
struct Slot {
    id: Option<Arc<str>>,
    session: Session,
    turns: Turns,
    removed: bool,
}

#[derive(Debug, Clone)]
enum Call {
    /// Opens a session, from nothing or as a copy of another.
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
        owed: Owed,
        /// Who answers from the client's side.
        by: Decider,
    },
}

/// Answers with the id of a question that belong to other requests: an agent may use an id again too early.
#[derive(Debug, Clone, Copy, Default)]
struct Owed {
    /// Questions with this id that were taken back and not answered when it was asked: their answers come first.
    withdrawn: u32,
    /// Requests with this id that came while it was open, and are refused with an error.
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

/// What a message did to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The place of the session, for [`Conversation::session_at`].
    pub session: usize,
    /// What changed there.
    pub changes: Changes,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folded<'t> {
    /// What it did to its session, where it concerns one.
    pub step: Option<Step>,
    /// The entry of the transcript that it is about, whether it changed or not.
    pub entry: Option<(EntryKind, Text<'t>)>,
    /// What was malformed, with its place in the message: it was left out or, where only a rule was broken that nothing
    /// depends on, as by a path that is not absolute, kept as it came.
    pub left_out: Vec<Diagnostic>,
    /// The prompts that are over thereby, by the ids of their requests.
    pub ended: Vec<RequestId<'static>>,
}

/// A message that has been read, and not applied yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<'t> {
    /// The message. Updates come in great numbers, and are read in one pass.
    pub message: Expected<'t, v2::UpdateSessionNotification<'t>>,
    /// What was malformed and left out.
    pub left_out: Vec<Diagnostic>,
}

/// Why a message that concerns a session changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// It is not what it should be.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// It is a batch of too many messages, or of none.
    #[error("expected 1 to {BATCH_LIMIT} messages in a batch, found another number")]
    Batch,
    /// It asks for something that the session refuses.
    #[error(transparent)]
    Refused(#[from] SessionError),
    /// It belongs to a conversation in version 1, as the handshake shows.
    #[error(
        "the message is of version 1 of the protocol, and conversations of version 2 are folded here; \
         translate the recording first, with switchboard_bridge::RecordingBridge"
    )]
    Version1,
    /// It is about one session more than there may be.
    #[error("there are {limit} sessions on this connection already")]
    TooManySessions {
        /// How many there may be.
        limit: usize,
    },
}

impl Conversation {
    /// A connection on which nothing has been said, whose messages are read tolerantly in a dialect of version 2.
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
            dialect: DialectTracker::told(format),
            senders: SenderTracker::default(),
            subagents: SubagentTree::default(),
            auth_status: None,
            now: Moment::default(),
            handshake: None,
            is_version_1: false,
        }
    }

    /// The same, which refuses messages that are malformed in any part.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// The same for who wants to know how the sessions stand and not what was said: it keeps states, titles, usage,
    /// options and commands, prompts, the questions that wait for an answer, and who opened which session. It stays small
    /// however long the sessions get. Titles of tool calls that were told before they
    /// stood for a sub-agent do not name it.
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

    /// The same for who also has to decide over tool calls, and has no transcript: of the latest calls it keeps what they are to
    /// do, and nothing that they produce. [`Snapshot::tool_call_outline`](crate::Snapshot::tool_call_outline) gives it.
    #[must_use]
    pub fn with_tool_call_outlines(mut self) -> Self {
        self.outlines = Some(Outlines::default());
        self
    }

    /// The same for who reads a recording for what tools were to do, and what was answered to whom: it keeps the outlines of
    /// all tool calls and all questions, and no other part of the transcript.
    #[must_use]
    pub fn with_tool_calls_alone(mut self) -> Self {
        (self.keeps_transcript, self.outlines) = (false, Some(Outlines::unlimited()));
        self
    }

    /// The same with a limit to the number of sessions. Messages about more are refused.
    #[must_use]
    pub fn with_session_limit(mut self, limit: usize) -> Self {
        self.session_limit = limit;
        self
    }

    /// Says what is known of the agent's dialect from before, as where a recording is read from its middle.
    pub fn set_dialect(&mut self, dialect: DialectTracker) {
        self.dialect = dialect;
        self.tell_dialect();
    }

    /// The agent's dialect, as far as it shows, and what shows it.
    pub fn dialect(&self) -> &DialectTracker {
        &self.dialect
    }

    // ----- reading

    /// All sessions with their ids. Updates that came without an id have a session of their own, without one.
    pub fn sessions(&self) -> impl Iterator<Item = (Option<&str>, &Session)> {
        let there = self.slots.iter().filter(|slot| !slot.removed);
        there.map(|slot| (slot.id.as_deref(), &slot.session))
    }

    /// The session with an id.
    pub fn session(&self, id: Option<&str>) -> Option<&Session> {
        self.slots.get(self.place_of(id)?).map(|slot| &slot.session)
    }

    /// The session at the place that a [`Step`] names, with its id.
    pub fn session_at(&self, place: usize) -> Option<(Option<&str>, &Session)> {
        let slot = self.slots.get(place).filter(|slot| !slot.removed)?;
        Some((slot.id.as_deref(), &slot.session))
    }

    /// The id of the session at a place, to be kept.
    pub fn id_at(&self, place: usize) -> Option<&Arc<str>> {
        self.slots.get(place)?.id.as_ref()
    }

    /// The prompts of a session, in their order. Of very many, the oldest that are over are forgotten.
    pub fn turns(&self, session: Option<&str>) -> impl DoubleEndedIterator<Item = &Turn> {
        let slot = self.place_of(session).and_then(|place| self.slots.get(place));
        slot.into_iter().flat_map(|slot| slot.turns.iter())
    }

    /// The prompt of a request, the last one where an id was used again.
    pub fn turn(&self, session: Option<&str>, id: &RequestId<'_>) -> Option<&Turn> {
        self.turns(session).rev().find(|turn| turn.id() == id)
    }

    /// Whether a prompt of a session is on its way or at work.
    pub fn is_prompted(&self, session: Option<&str>) -> bool {
        let slot = self.place_of(session).and_then(|place| self.slots.get(place));
        slot.is_some_and(|slot| slot.turns.are_at_work())
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    // ----- places

    fn place_of(&self, id: Option<&str>) -> Option<usize> {
        if let Some(slot) = self.slots.get(self.recent)
            && !slot.removed
            && slot.id.as_deref() == id
        {
            return Some(self.recent);
        }
        self.places.get(&id.map(Arc::from)).copied()
    }

    /// The place of a session, which is made if need be.
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
        let slot = Slot { id: id.clone(), session, turns: Turns::default(), removed: false };
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

    /// Makes room for a session that is about to be opened, or finds it.
    pub fn open_session(&mut self, id: &str) -> Result<usize, ConversationError> {
        self.place(Some(id))
    }

    /// A session goes on under another id, as where an agent has forgotten it and began one in its place. Says whether
    /// that is so: the one must be there, and no other have the new id.
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

    /// A session continues under another id, because its agent has lost it and opened one in its place: what is said under
    /// the new id goes on behind what was said under the old one, which stays the session's id. Entries of both that happen
    /// to have the same id are different ones. Says whether that is so: no other session may have the new id.
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

    /// The id of the session that an id belongs to; the id itself where no session has it.
    pub fn canonical_id<'c>(&'c self, id: &'c str) -> &'c str {
        self.place_of(Some(id)).and_then(|place| self.slots.get(place)?.id.as_deref()).unwrap_or(id)
    }

    /// Forgets a session, for instance after it was closed.
    pub fn remove(&mut self, id: Option<&str>) {
        let Some(place) = self.place_of(id) else { return };
        let _ = self.open.drain_if(|_, _, call| call.session() == Some(place));
        if let Some(id) = id {
            self.subagents.forget(id);
        }
        if let Some(slot) = self.slots.get_mut(place) {
            self.places.retain(|_, known| *known != place);
            *slot =
                Slot { id: None, session: Session::new(self.format), turns: Turns::default(), removed: true };
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

    /// Reads and applies one message. `from` is who sent it, where that is known; else it is told by a [`SenderTracker`].
    ///
    /// Only version 2 is folded. After a handshake in which the agent answers in version 1, every message is
    /// [`ConversationError::Version1`], until the next handshake.
    pub fn read<'t>(
        &mut self,
        text: &'t str,
        from: Option<Side>,
        at: Moment,
    ) -> Result<Folded<'t>, ConversationError> {
        let decoded = match self.decode(text) {
            Ok(decoded) => decoded,
            // Many messages of version 1 cannot even be read as ones of version 2.
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

    /// Takes notice of what the handshake shows of the version of the protocol.
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

    /// Reads and applies a line that holds a message, or several in an array, and gives what became of each.
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

    /// Reads a message as this conversation reads them, without applying it.
    pub fn decode<'t>(&self, text: &'t str) -> Result<Decoded<'t>, DecodeError> {
        if self.is_strict {
            let message = Expected::decode(text, self.format)?;
            return Ok(Decoded { message, left_out: Vec::new() });
        }
        let (message, left_out) = Expected::decode_tolerant(text, self.format)?;
        Ok(Decoded { message, left_out })
    }

    /// Reads a part of a message, such as its parameters, as this conversation reads them.
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

    /// Applies a message that has been read by [`decode`](Conversation::decode).
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
        // Sub-agents belong to the session, whatever the agent calls it by now.
        let known = self.slots.get(place).and_then(|slot| slot.id.as_ref());
        let canonical = known.filter(|id| Some(&***id) != session_id).cloned();
        let session_id = canonical.as_deref().or(session_id);
        if self.dialect.see_update(update) {
            self.tell_dialect();
        }
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
                    self.subagents.tell_state(session, state);
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

    /// Notes what was malformed in an update that was applied to a session.
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

    /// Notes that an update could not be read, or not all of it, by its parameters. If it is about a tool call, the outline of
    /// that call has a [problem](crate::ToolCallOutline::problem).
    pub fn note_unreadable(&mut self, params: &Raw<'_>, problem: &str) {
        let (session, Some(update)) = (params.text("sessionId"), params.get("update")) else { return };
        for (key, kind) in [("toolCallId", EntryKind::ToolCall), ("terminalId", EntryKind::Terminal)] {
            let Some(id) = update.text(key) else { continue };
            let place = self.place_of(session.as_deref());
            match place.and_then(|place| self.slots.get_mut(place)) {
                Some(slot) => slot.session.note_malformed(kind, &id, problem),
                // What cannot be read makes no session, but must not be overlooked when there is one.
                None if self.unread.len() < MAX_UNREAD => {
                    self.unread.push((session.as_deref().map(Arc::from), kind, id, problem.to_owned()));
                }
                None => {}
            }
        }
    }

    /// Makes the sessions follow the dialect that has shown.
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

    /// The connection is gone: questions are settled and prompts over. Gives what that changed, and the prompts.
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

    /// Forgets the outlines of tool calls, for instance because the agent that could ask about them is gone.
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

    /// What changed.
    pub fn changes(&self) -> Option<&Changes> {
        self.step.as_ref().map(|step| &step.changes)
    }
}

/// The id of the entry that an update is about, for as long as the text lives that it was read from.
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

/// Whether the answer to `initialize` shows version 1. Where it shows nothing but the number 2, which several agents of version
/// 1 repeat as it was asked, nothing is known.
fn is_of_version_1(result: &Raw<'_>) -> bool {
    let handshake = Handshake::of_answer(result);
    let is_unclear = handshake.evidence == HandshakeEvidence::NothingOfVersion2
        && handshake.number.is_none_or(|number| number > 1);
    handshake.version == Version::V1 && !is_unclear
}
