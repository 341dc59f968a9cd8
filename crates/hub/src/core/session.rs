//! State of one session: its metadata, queue, subscribers and the tail of its log.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{AGENT, OWNER, STATE, UNRESPONSIVE};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Meta, Raw};
use switchboard_session::prompt_title;

use super::native::Origin;
use super::notices::AnnouncedPrompt;
use super::session_events::EventState;
use super::session_state::{RecordKind, SessionState};
use super::{
    AgentId, ConnectionId, Identity, QueuedPrompt, SessionActivity, SessionId, SessionInfo, SessionSummary,
    ToClient,
};
use switchboard_store::Moment;

/// Maximum number of records in the tail.
const TAIL_RECORDS: usize = 2048;
/// Maximum size of the tail in bytes.
const TAIL_BYTES: usize = 2 * 1024 * 1024;

/// Maximum number of characters of a queued prompt in a summary.
const PREVIEW_CHARS: usize = 200;

/// A session of the hub.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) info: SessionInfo,
    /// Tokens that it is shared with, by name and creation time. A later token with the same name is a different one.
    pub(super) shared: HashSet<(Arc<str>, i64)>,
    /// `None` until the log has been loaded.
    pub(super) state: Option<SessionState>,
    pub(super) is_loading: bool,
    pub(super) process: Option<AgentId>,
    /// Reason why the agent process exited by itself.
    pub(super) lost: Option<String>,
    /// Time since which it has had neither work nor subscribers, by the monotonic clock.
    pub(super) idle_since: Option<u64>,
    /// The process that still has the session while it is dormant.
    pub(super) parked: Option<AgentId>,
    /// Time at which the running turn was cancelled, by the monotonic clock.
    pub(super) cancelled_at: Option<u64>,
    /// True if the agent did not stop after a cancellation, so that the hub has ended the turn itself.
    pub(super) is_unresponsive: bool,
    /// True if the agent is being asked to resume the session.
    pub(super) is_resuming: bool,
    /// Sequence number of the next record.
    pub(super) next: u64,
    tail: VecDeque<TailRecord>,
    tail_bytes: usize,
    /// The tail contains every record for clients from this offset on.
    pub(super) tail_start: u64,
    pub(super) subscribers: BTreeSet<ConnectionId>,
    /// Messages that wait until the log is loaded or the agent is ready.
    pub(super) waiting: VecDeque<(ConnectionId, Arc<str>)>,
    pub(super) prompts: VecDeque<Prompt>,
    /// True if this hub owns the session and may write its log.
    pub(super) is_owned: bool,
    /// True if this hub is trying to become the owner.
    pub(super) is_acquiring: bool,
    /// Start of the last attempt.
    pub(super) acquire_started_at: u64,
    /// Time of the last record from another hub.
    pub(super) last_heard_at: u64,
    /// The hub that owns the session, if it is another one and known.
    pub(super) hub: Option<Arc<str>>,
    /// Least length of the log, derived from records of other hubs.
    pub(super) followed_length: u64,
    /// A prompt that another hub has announced in a record. Its text is in the next one.
    pub(super) announced: Option<AnnouncedPrompt>,
    /// Data for events of the session.
    pub(super) events: EventState,
}

/// A record in the tail.
#[derive(Debug, Clone)]
pub(super) struct TailRecord {
    pub(super) sequence: u64,
    pub(super) is_question: bool,
    pub(super) origin: Origin,
    /// As it is in the log.
    pub(super) text: Arc<str>,
    /// As clients get it, once it has been delivered.
    pub(super) line: Option<ToClient>,
}

/// A prompt in the queue.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) connection: ConnectionId,
    pub(super) id: RequestId<'static>,
    pub(super) params: Raw<'static>,
    pub(super) operation: Option<String>,
    /// Number of redeliveries.
    pub(super) redeliveries: usize,
}

impl Prompt {
    fn summary(&self) -> QueuedPrompt {
        QueuedPrompt { text: self.preview(), operation: self.operation.clone() }
    }

    /// Returns the beginning of its text, for display.
    fn preview(&self) -> String {
        let blocks = self.params.get("prompt");
        let blocks = blocks.iter().flat_map(Raw::items);
        let text = blocks.filter_map(|block| block.get("text")?.as_text().map(std::borrow::Cow::into_owned));
        text.collect::<Vec<_>>().join(" ").chars().take(PREVIEW_CHARS).collect()
    }
}

impl Session {
    /// Creates a dormant session whose log is not loaded.
    pub(super) fn dormant(info: SessionInfo) -> Self {
        Session {
            next: info.length,
            tail_start: info.length,
            info,
            shared: HashSet::new(),
            state: None,
            is_loading: false,
            process: None,
            is_resuming: false,
            idle_since: None,
            parked: None,
            cancelled_at: None,
            is_unresponsive: false,
            lost: None,
            tail: VecDeque::new(),
            tail_bytes: 0,
            subscribers: BTreeSet::new(),
            waiting: VecDeque::new(),
            prompts: VecDeque::new(),
            is_owned: true,
            announced: None,
            events: EventState::default(),
            is_acquiring: false,
            acquire_started_at: 0,
            last_heard_at: 0,
            hub: None,
            followed_length: 0,
        }
    }

    /// Returns whether a client may see the session: it sees all sessions, or this one is shared with its token.
    pub(super) fn is_visible_to(&self, identity: &Identity) -> bool {
        identity.sees_all() || self.shared.contains(&(Arc::clone(&identity.name), identity.made))
    }

    /// Returns whether the session was started with this token. The name alone is not sufficient: a later token may
    /// have the same one.
    pub(super) fn is_started_by(&self, identity: &Identity) -> bool {
        *self.info.owner == *identity.name
            && self.shared.contains(&(Arc::clone(&identity.name), identity.made))
    }

    /// Adds a record to the tail, while there are subscribers.
    pub(super) fn push_tail(
        &mut self,
        sequence: u64,
        kind: RecordKind,
        origin: Origin,
        text: &Arc<str>,
        line: Option<ToClient>,
    ) {
        // Without subscribers the tail stays empty. The next subscriber starts with a replay from the log.
        if self.subscribers.is_empty() {
            self.tail.clear();
            self.tail_bytes = 0;
            self.tail_start = sequence + 1;
            return;
        }
        // Records that are not for clients need no entry; delivery skips their offsets.
        if !matches!(kind, RecordKind::Update | RecordKind::Native | RecordKind::Question) {
            return;
        }
        self.tail_bytes += text.len();
        self.tail.push_back(TailRecord {
            sequence,
            is_question: kind == RecordKind::Question,
            origin,
            text: Arc::clone(text),
            line,
        });
        // Bounds memory per session. A subscriber that falls behind `tail_start` reads the log instead. The newest
        // record is kept even if it exceeds the limit alone.
        while self.tail.len() > TAIL_RECORDS || (self.tail_bytes > TAIL_BYTES && self.tail.len() > 1) {
            let Some(oldest) = self.tail.pop_front() else { return };
            self.tail_bytes -= oldest.text.len();
            self.tail_start = oldest.sequence + 1;
        }
    }

    /// Continues the log at an offset with an empty tail. Records after this offset may not have been written.
    pub(super) fn reset_tail(&mut self, offset: u64) {
        // The tail may contain records that were never written, so none of it can be delivered.
        self.next = offset;
        self.tail.clear();
        self.tail_bytes = 0;
        self.tail_start = offset;
    }

    /// Returns the first record in the tail at or after an offset.
    pub(super) fn tail_record(&mut self, offset: u64) -> Option<&mut TailRecord> {
        // Usually it is the last one.
        let at = match self.tail.back() {
            Some(last) if last.sequence < offset => return None,
            Some(last) if last.sequence == offset => self.tail.len() - 1,
            _ => self.tail.partition_point(|recent| recent.sequence < offset),
        };
        self.tail.get_mut(at)
    }

    /// Returns the records in the tail from an offset on.
    pub(super) fn tail_from(&self, offset: u64) -> impl Iterator<Item = &TailRecord> {
        let at = self.tail.partition_point(|recent| recent.sequence < offset);
        self.tail.range(at..)
    }

    /// Returns the agent's id of the session.
    pub(super) fn agent_session(&self) -> Option<&str> {
        self.state.as_ref()?.agent_session.as_deref()
    }

    /// Returns the agent's id of the session, even if the log is not loaded.
    pub(super) fn agent_session_known(&self) -> Option<&str> {
        self.agent_session().or(Some(&*self.info.agent_session)).filter(|id| !id.is_empty())
    }

    /// Returns the current activity.
    pub(super) fn activity(&self) -> SessionActivity {
        // A session of another hub has the activity that it has there.
        let has_agent = self.process.is_some() || self.hub.is_some();
        // Questions take precedence over work, because they wait for a user.
        match self.state.as_ref().filter(|_| has_agent) {
            Some(state) if !state.questions.is_empty() => SessionActivity::Waiting,
            Some(state) if state.is_busy() => SessionActivity::Working,
            _ if self.process.is_some() => SessionActivity::Idle,
            _ => SessionActivity::Dormant,
        }
    }

    /// Returns the summary for clients.
    pub(super) fn summary(&self) -> SessionSummary {
        let SessionInfo { id, agent, agent_session: _, owner, folder, title, changed, length: _ } =
            self.info.clone();
        let title = self.title().or(title);
        let questions = self.state.as_ref().map_or(0, |state| state.questions.len());
        let lost = self.lost.clone();
        let queued = self.prompts.iter().map(Prompt::summary).collect();
        SessionSummary {
            id,
            agent,
            owner,
            folder,
            title,
            changed,
            state: self.activity(),
            questions,
            lost,
            is_unresponsive: self.is_unresponsive,
            queued,
        }
    }

    /// Returns the title: the agent's, or one from the first prompt, which may still be queued. `None`: the session is
    /// empty.
    pub(super) fn title(&self) -> Option<String> {
        // The agent's title, then that of the metadata for a session that is not loaded, then a queued prompt.
        let remembered = self.state.as_ref().and_then(|state| state.title().map(str::to_owned));
        let queued = || prompt_title(&self.prompts.front()?.params.get("prompt")?);
        remembered.or_else(|| self.info.title.clone()).or_else(queued)
    }

    /// Returns the entry for `session/list`.
    pub(super) fn information(&self) -> serde_json::Value {
        let SessionInfo { agent, owner, .. } = &self.info;
        let mut meta = vec![
            AGENT.entry(agent.as_str()),
            STATE.entry(self.activity().as_str()),
            OWNER.entry(owner.as_str()),
        ];
        meta.extend(self.is_unresponsive.then(|| UNRESPONSIVE.entry(true)));
        let [date, time] = Moment(self.info.changed).date_and_time();
        let mut information = json!({
            "sessionId": &*self.info.id, "cwd": self.info.folder,
            "updatedAt": format!("{date}T{time}Z"),
            "_meta": Meta::from_entries(meta).as_raw(),
        });
        // The key is optional, and some clients fail on `null`.
        if let Some(title) = self.title() {
            information["title"] = title.into();
        }
        information
    }

    /// Returns the result of opening the session.
    pub(super) fn opened_result(&self) -> String {
        let Some(state) = &self.state else { return "{}".to_owned() };
        let lists = state.lists();
        let known = ["configOptions", "availableCommands"].iter().zip(&lists);
        let known: Vec<(&str, &str)> =
            known.filter_map(|(key, list)| Some((*key, list.as_deref()?))).collect();
        super::lines::merged(None, &known)
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.info.id
    }
}
