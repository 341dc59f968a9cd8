//! What is known of a client.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use switchboard_acp::Correlator;
use switchboard_acp::extensions::Author;
use switchboard_acp::rpc::RequestId;
use switchboard_store::Role;

use super::direct::DirectQuestion;
use super::lines::Outcome;
use super::losses::LossCounts;
use super::native::Origins;
use super::replay::{Held, Replay};
use super::seeking::Seeking;
use super::services::Services;
use super::{Identity, SessionId, ToClient};

/// How many requests of one client may be open.
pub(super) const OPEN: usize = 1024;
/// How many questions one client may be asked at a time.
const ASKED: usize = 100_000;
/// How many answers are kept for clients that repeat their requests.
const ANSWERED: usize = 4096;
/// How many bytes they may have together.
const ANSWERED_BYTES: usize = 4 * 1024 * 1024;
/// How many sessions one client may look at.
pub(super) const ATTACHMENTS: usize = 1024;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) who: Identity,
    pub(super) agent: usize,
    /// Whether it asked for this agent, and so sees only its sessions.
    pub(super) is_agent_named: bool,
    /// Whether a prompt with the id of an earlier one is that one.
    pub(super) repeats_by_id: bool,
    /// Whether what it is told is translated on the way, which needs to know what was told before.
    pub(super) is_translated: bool,
    /// Whether it translates, or the hub for it, and its own client speaks version 1: it gets the own lines of agents that
    /// speak it, too.
    pub(super) wants_native: bool,
    pub(super) services: Services,
    /// The client's own name and version.
    pub(super) client: (String, String),
    pub(super) is_initialized: bool,
    /// Whether the answers to its prompts tell how the work on them ended.
    pub(super) is_told_of_turns: bool,
    /// Whether it can show forms, and open addresses.
    pub(super) can_show_forms: bool,
    pub(super) can_open_addresses: bool,
    pub(super) attachments: BTreeMap<SessionId, Attachment>,
    /// Its requests without an answer.
    pub(super) open: Correlator<Asked>,
    /// What it was asked and has not answered.
    pub(super) asked: Correlator<Topic>,
    pub(super) last_id: i64,
    /// Whether another socket has taken over and has not yet said what it has got.
    pub(super) is_paused: bool,
    /// Whether it is no connection but one message that another hub has passed on, and which.
    pub(super) guest: Option<String>,
    /// How many of its notifications were dropped.
    pub(super) dropped: usize,
    /// Messages behind which it wants to go on. The first of them is being looked for.
    pub(super) seeking: VecDeque<Seeking>,
}

/// A request of a client.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The session whose stream the answer belongs to.
    pub(super) stream: Option<SessionId>,
    /// The name by which it may be repeated.
    pub(super) operation: Option<String>,
    /// The request to an agent that it has become.
    pub(super) at_host: Option<(super::HostId, i64)>,
}

/// What a client was asked, and how often it has given an answer that does not fit.
#[derive(Debug, Clone)]
pub(super) struct Topic {
    pub(super) about: About,
    pub(super) misfits: usize,
}

#[derive(Debug, Clone)]
pub(super) enum About {
    /// A question of a session, by its place in the log.
    Question(SessionId, u64),
    /// Something that belongs to a request of this client, and to no session.
    Direct(DirectQuestion),
}

/// One client that looks at one session.
#[derive(Debug)]
pub(super) struct Attachment {
    /// The place in the log of what it gets next.
    pub(super) place: u64,
    pub(super) phase: Phase,
    /// The ticket of the replay that comes before everything else, until that is done.
    pub(super) replaying: Option<u64>,
    /// The replay, unless its next portion is being made.
    pub(super) replay: Option<Box<Replay>>,
    /// Whether a part of the log is being read for it.
    pub(super) is_reading: bool,
    /// Bytes that were sent, and those of them that are gone.
    pub(super) sent: u64,
    pub(super) gone: u64,
    /// The questions that it was asked, by their places.
    pub(super) asked: BTreeMap<u64, i64>,
    /// Answers that must not overtake what stands before them in the log.
    pub(super) held_back: VecDeque<(u64, ToClient)>,
    /// Whether it knows the notices of `session/attach`.
    pub(super) knows_notices: bool,
    pub(super) behind_since: Option<u64>,
    /// Whether it goes when it has seen everything, because the session was closed.
    pub(super) leaves: bool,
    /// The origin of what is read for it.
    pub(super) origins: Origins,
    /// The place in the log behind what it had when it came.
    pub(super) held: u64,
    /// What its translation could not carry since it was attached.
    pub(super) losses: LossCounts,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// It gets the history up to a position in the log; then the state, then the answer, then the questions.
    CatchingUp {
        start: Start,
        until: u64,
        answer: Option<(RequestId<'static>, Outcome)>,
    },
    Live,
}

impl Phase {
    /// The answer that the client still waits for.
    pub(super) fn take_answer(&mut self) -> Option<(RequestId<'static>, Outcome)> {
        match self {
            Phase::CatchingUp { answer, .. } => answer.take(),
            Phase::Live => None,
        }
    }
}

/// Where a client begins in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// With the whole history.
    Beginning,
    /// After what it holds.
    After(Held),
    /// With what comes next.
    Now,
}

impl Connection {
    pub(super) fn new(who: Identity, agent: usize, is_agent_named: bool, repeats_by_id: bool) -> Self {
        Connection {
            who,
            agent,
            is_agent_named,
            repeats_by_id,
            is_translated: false,
            wants_native: false,
            services: Services::default(),
            client: (String::new(), String::new()),
            is_initialized: false,
            is_told_of_turns: false,
            can_show_forms: false,
            can_open_addresses: false,
            attachments: BTreeMap::new(),
            // One that is too many is there while it is refused.
            open: Correlator::new(OPEN + 1),
            asked: Correlator::new(ASKED),
            last_id: 0,
            is_paused: false,
            guest: None,
            dropped: 0,
            seeking: VecDeque::new(),
        }
    }

    /// Whether it gets what an agent says outside of all sessions, which may be about any of them.
    pub(super) fn may_hear_agent(&self) -> bool {
        self.who.role >= Role::Use && self.who.sees_all()
    }

    /// Returns the client as the author of a record.
    pub(super) fn signature(&self) -> Author<'static> {
        let (client, version) = self.client.clone();
        Author::new().token(self.who.name.to_string()).client(client).version(version)
    }
}

impl Attachment {
    pub(super) fn new(place: u64, phase: Phase) -> Self {
        Attachment {
            place,
            phase,
            replaying: None,
            replay: None,
            is_reading: false,
            sent: 0,
            gone: 0,
            asked: BTreeMap::new(),
            held_back: VecDeque::new(),
            knows_notices: false,
            behind_since: None,
            leaves: false,
            origins: Origins::default(),
            held: 0,
            losses: LossCounts::default(),
        }
    }

    pub(super) fn has_room(&self, flow: usize) -> bool {
        self.sent.saturating_sub(self.gone) < flow as u64
    }
}

/// Answers that were given, for clients that did not get them and ask again.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// By the token and the client's name of the request.
    known: HashMap<(Arc<str>, String), Outcome>,
    order: VecDeque<(Arc<str>, String)>,
    bytes: usize,
}

impl Answers {
    /// Keeps an answer, by who has asked and what that somebody calls the request.
    pub(super) fn keep(&mut self, who: &Arc<str>, operation: String, outcome: Outcome) {
        let key = (Arc::clone(who), operation);
        self.bytes += outcome.len();
        if let Some(before) = self.known.insert(key.clone(), outcome) {
            self.bytes -= before.len();
        } else {
            self.order.push_back(key);
        }
        while self.order.len() > ANSWERED || self.bytes > ANSWERED_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            self.bytes -= self.known.remove(&oldest).map_or(0, |outcome| outcome.len());
        }
    }

    pub(super) fn get(&self, who: &Arc<str>, operation: &str) -> Option<&Outcome> {
        self.known.get(&(Arc::clone(who), operation.to_owned()))
    }
}
