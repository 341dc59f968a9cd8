//! State of one client connection and its subscriptions.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use switchboard_acp::Correlator;
use switchboard_acp::extensions::Author;
use switchboard_acp::rpc::RequestId;
use switchboard_store::Role;

use super::direct_questions::DirectQuestion;
use super::lines::{self, Outcome};
use super::losses::LossCounts;
use super::message_lookup::PendingLookup;
use super::native::OriginTracker;
use super::questions::ELICITATION;
use super::replay::{Cursor, Replay};
use super::services::Services;
use super::session_state::Question;
use super::{ConnectionId, Identity, SessionId, ToClient};

/// Maximum number of pending requests of one client.
pub(super) const MAX_PENDING: usize = 1024;
/// Maximum number of pending questions of one client.
const MAX_QUESTIONS: usize = 100_000;
/// Maximum number of cached replies for duplicate requests.
const CACHED_REPLIES: usize = 4096;
/// Maximum size of the cached replies in bytes.
const CACHED_REPLY_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of sessions to which one client can be attached.
pub(super) const MAX_SUBSCRIPTIONS: usize = 1024;

/// A connection of one client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) identity: Identity,
    pub(super) agent: usize,
    /// True if the client named this agent. It then sees only sessions of this agent.
    pub(super) is_agent_named: bool,
    /// True if the request id is the idempotency key of a prompt, as it is over HTTP.
    pub(super) dedups_by_id: bool,
    /// True if the hub translates for this client. A translator needs the whole history, not only the records after a
    /// cursor.
    pub(super) is_translated: bool,
    /// True if the end client speaks version 1, behind a translator in the hub or in the client. It also gets the
    /// native lines of version 1 agents.
    pub(super) wants_native: bool,
    pub(super) services: Services,
    /// Name and version from `clientInfo`.
    pub(super) client: (String, String),
    pub(super) is_initialized: bool,
    /// True if responses to prompts include the outcome of the turn.
    pub(super) wants_turn_end: bool,
    /// True if the client can show forms, and open URLs.
    pub(super) can_show_forms: bool,
    pub(super) can_open_addresses: bool,
    pub(super) subscriptions: BTreeMap<SessionId, Subscription>,
    /// Requests of the client that have no response yet.
    pub(super) pending: Correlator<PendingClientRequest>,
    /// Questions that the client has not answered yet, by the id that it was asked under.
    pub(super) questions: Correlator<PendingQuestion>,
    pub(super) last_id: i64,
    /// True if the connection has moved to a new socket that has not sent its cursors yet.
    pub(super) is_paused: bool,
    /// Idempotency key, if this is not a connection but a single request that another hub has forwarded.
    pub(super) forwarded_key: Option<String>,
    /// Number of dropped notifications.
    pub(super) dropped: usize,
    /// Requests that attach after a message. The hub is looking up the first of them.
    pub(super) lookups: VecDeque<PendingLookup>,
}

/// A pending request of a client.
#[derive(Debug, Clone)]
pub(super) struct PendingClientRequest {
    /// The session on whose stream the response is sent.
    pub(super) stream: Option<SessionId>,
    /// Idempotency key of the request.
    pub(super) operation: Option<String>,
    /// The request to an agent that it has been forwarded as.
    pub(super) at_agent: Option<(super::AgentId, i64)>,
}

/// A question that a client was asked, with the number of invalid answers so far.
#[derive(Debug, Clone)]
pub(super) struct PendingQuestion {
    pub(super) about: QuestionSource,
    pub(super) invalid_answers: usize,
}

/// Origin of a question.
#[derive(Debug, Clone)]
pub(super) enum QuestionSource {
    /// A question in a session, by its offset in the log.
    Question(SessionId, u64),
    /// A question about a request of this client, outside any session.
    Direct(DirectQuestion),
}

/// A subscriber: one client attached to one session.
#[derive(Debug)]
pub(super) struct Subscription {
    /// Offset of the next record to deliver.
    pub(super) offset: u64,
    pub(super) phase: Phase,
    /// Ticket of the replay that must finish before any record is delivered.
    pub(super) replaying: Option<u64>,
    /// The replay, unless a task is producing its next portion.
    pub(super) replay: Option<Box<Replay>>,
    /// True if a task is reading the log for this subscriber.
    pub(super) is_reading: bool,
    /// Number of bytes sent, and of those acknowledged. The difference counts against the send window.
    pub(super) sent: u64,
    pub(super) acked: u64,
    /// Request ids of the questions that the client was asked, by the offset of the question.
    pub(super) asked: BTreeMap<u64, i64>,
    /// Responses that must follow the record at this offset.
    pub(super) deferred_replies: VecDeque<(u64, ToClient)>,
    /// True if the client understands the notices of `session/attach`.
    pub(super) wants_notices: bool,
    pub(super) lagging_since: Option<u64>,
    /// True if the client is detached as soon as everything is delivered, because the session was closed.
    pub(super) detaches_when_delivered: bool,
    /// Origin of the records that are read from the log for this subscriber.
    pub(super) origins: OriginTracker,
    /// Offset after the records that the client already had when it attached.
    pub(super) held_until: u64,
    /// Losses of this client's translation since it attached.
    pub(super) losses: LossCounts,
}

/// Delivery phase of a subscriber.
#[derive(Debug)]
pub(super) enum Phase {
    /// The client gets the history up to `until`, then the state, then the response, then the pending questions.
    /// `start` says where the history begins.
    CatchingUp {
        start: Start,
        until: u64,
        answer: Option<(RequestId<'static>, Outcome)>,
    },
    Live,
}

impl Phase {
    /// Takes the response that the client still waits for.
    pub(super) fn take_answer(&mut self) -> Option<(RequestId<'static>, Outcome)> {
        match self {
            Phase::CatchingUp { answer, .. } => answer.take(),
            Phase::Live => None,
        }
    }
}

/// Start of the history that a client gets when it attaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The whole history.
    Beginning,
    /// Everything after the cursor.
    After(Cursor),
    /// Only records that are appended from now on.
    Now,
}

impl Connection {
    pub(super) fn new(identity: Identity, agent: usize, is_agent_named: bool, dedups_by_id: bool) -> Self {
        Connection {
            identity,
            agent,
            is_agent_named,
            dedups_by_id,
            is_translated: false,
            wants_native: false,
            services: Services::default(),
            client: (String::new(), String::new()),
            is_initialized: false,
            wants_turn_end: false,
            can_show_forms: false,
            can_open_addresses: false,
            subscriptions: BTreeMap::new(),
            // One more than the limit, because a request above the limit is pending until it is refused.
            pending: Correlator::new(MAX_PENDING + 1),
            questions: Correlator::new(MAX_QUESTIONS),
            last_id: 0,
            is_paused: false,
            forwarded_key: None,
            dropped: 0,
            lookups: VecDeque::new(),
        }
    }

    /// Returns whether the client gets notifications that belong to no session and may concern any of them.
    pub(super) fn receives_broadcasts(&self) -> bool {
        self.identity.role >= Role::Use && self.identity.sees_all()
    }

    /// Returns the client as the author of a record.
    pub(super) fn author(&self) -> Author<'static> {
        let (client, version) = self.client.clone();
        Author::new().token(self.identity.name.to_string()).client(client).version(version)
    }

    /// Returns the response to a prompt, with the outcome of the turn if the client wants it.
    pub(super) fn of_turn(&self, outcome: Outcome, ended: Option<&str>) -> Outcome {
        if self.wants_turn_end { outcome.of_turn(ended) } else { outcome }
    }

    /// Returns the direct questions of this client with the ids that it knows them by.
    pub(super) fn direct_questions(&self) -> impl Iterator<Item = (&RequestId<'static>, &DirectQuestion)> {
        self.questions.iter().filter_map(|(_, id, topic)| match &topic.about {
            QuestionSource::Direct(direct) => Some((id, direct)),
            QuestionSource::Question(..) => None,
        })
    }

    /// Returns whether the client can be asked this question.
    pub(super) fn can_answer_directly(&self, question: &Question) -> bool {
        self.forwarded_key.is_none() && self.identity.role >= Role::Use && self.can_answer(question)
    }

    /// Returns whether a request of an agent process can be forwarded to this client.
    pub(super) fn serves(&self, id: ConnectionId, method: &str, offered: Services) -> bool {
        match method {
            "fs/read_text_file" => self.services.reads_files,
            "fs/write_text_file" => self.services.writes_files,
            _ if method.starts_with("terminal/") => offered.commands_of == Some(id),
            _ => true,
        }
    }

    /// Returns whether the client has the capability that an answer needs.
    pub(super) fn can_answer(&self, question: &Question) -> bool {
        if question.method != ELICITATION {
            return true;
        }
        let mode = lines::text_of(Some(&question.params), "mode");
        match mode.as_deref() {
            Some("url") => self.can_open_addresses,
            _ => self.can_show_forms,
        }
    }
}

impl Subscription {
    pub(super) fn new(offset: u64, phase: Phase) -> Self {
        Subscription {
            offset,
            phase,
            replaying: None,
            replay: None,
            is_reading: false,
            sent: 0,
            acked: 0,
            asked: BTreeMap::new(),
            deferred_replies: VecDeque::new(),
            wants_notices: false,
            lagging_since: None,
            detaches_when_delivered: false,
            origins: OriginTracker::default(),
            held_until: 0,
            losses: LossCounts::default(),
        }
    }

    /// Returns whether the send window has space. A full window is backpressure: delivery waits for an ack.
    pub(super) fn has_window(&self, send_window: usize) -> bool {
        self.sent.saturating_sub(self.acked) < send_window as u64
    }
}

/// Replies to requests with an idempotency key, for clients that lost the reply and send the request again.
#[derive(Debug, Default)]
pub(super) struct ReplyCache {
    /// By token and idempotency key.
    known: HashMap<(Arc<str>, String), Outcome>,
    order: VecDeque<(Arc<str>, String)>,
    bytes: usize,
}

impl ReplyCache {
    /// Caches a reply by token and idempotency key.
    pub(super) fn keep(&mut self, identity: &Arc<str>, operation: String, outcome: Outcome) {
        let key = (Arc::clone(identity), operation);
        self.bytes += outcome.len();
        if let Some(before) = self.known.insert(key.clone(), outcome) {
            self.bytes -= before.len();
        } else {
            self.order.push_back(key);
        }
        while self.order.len() > CACHED_REPLIES || self.bytes > CACHED_REPLY_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            self.bytes -= self.known.remove(&oldest).map_or(0, |outcome| outcome.len());
        }
    }

    /// Returns the cached reply to a duplicate request.
    pub(super) fn get(&self, identity: &Arc<str>, operation: &str) -> Option<&Outcome> {
        self.known.get(&(Arc::clone(identity), operation.to_owned()))
    }
}
