//! What is known of a session.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{AGENT, OWNER, STATE, UNRESPONSIVE};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Meta, Raw};
use switchboard_session::prompt_title;

use super::memory::{Memory, Seen};
use super::native::Origin;
use super::notices::Announced;
use super::{
    ConnectionId, HostId, Identity, Known, QueuedPrompt, SessionId, SessionState, SessionSummary, ToClient,
};
use switchboard_store::Moment;

/// How many records of a session are kept at hand for those who keep up.
const WINDOW: usize = 2048;
/// How many bytes they may have together.
const WINDOW_BYTES: usize = 2 * 1024 * 1024;

/// How much of a prompt that waits is shown.
const BEGINNING: usize = 200;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) known: Known,
    /// The tokens that it is shared with, by name and creation time: a later token of a name is another one.
    pub(super) shared: HashSet<(Arc<str>, i64)>,
    /// `None` until the log was read.
    pub(super) memory: Option<Memory>,
    pub(super) is_loading: bool,
    pub(super) host: Option<HostId>,
    /// Why the agent that it had is gone, if it went by itself.
    pub(super) lost: Option<String>,
    /// Since when it has had no work and no subscribers, by the hub's clock.
    pub(super) idle_since: Option<u64>,
    /// The process that still has it while it is dormant.
    pub(super) parked: Option<HostId>,
    /// When the turn at work was cancelled, by the hub's clock.
    pub(super) cancelled_at: Option<u64>,
    /// Whether the agent did not stop after a cancellation, so that the hub has ended the turn itself.
    pub(super) is_unresponsive: bool,
    /// Whether the agent is being asked to take it up again.
    pub(super) is_waking: bool,
    /// The place of the next record.
    pub(super) next: u64,
    window: VecDeque<Recent>,
    window_bytes: usize,
    /// The window has everything from here on.
    pub(super) window_start: u64,
    pub(super) attached: BTreeSet<ConnectionId>,
    /// Messages that wait until the log was read, or the agent is there.
    pub(super) waiting: VecDeque<(ConnectionId, Arc<str>)>,
    pub(super) prompts: VecDeque<Prompt>,
    /// Whether this hub writes it.
    pub(super) is_ours: bool,
    /// Whether it is being found out who writes it.
    pub(super) is_asking: bool,
    /// When that was last begun.
    pub(super) asked_at: u64,
    /// When another hub last wrote to it.
    pub(super) heard_at: u64,
    /// Another hub that writes it, as far as is known.
    pub(super) hub: Option<Arc<str>>,
    /// How long its log is for sure, by what other hubs have written.
    pub(super) followed: u64,
    /// A prompt that another hub has written down, and whose text comes next.
    pub(super) announced: Option<Announced>,
}

/// A record at hand.
#[derive(Debug, Clone)]
pub(super) struct Recent {
    pub(super) sequence: u64,
    pub(super) is_question: bool,
    pub(super) origin: Origin,
    /// As it is in the log.
    pub(super) text: Arc<str>,
    /// As clients get it, once somebody has.
    pub(super) line: Option<ToClient>,
}

/// A prompt that waits for its turn.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) connection: ConnectionId,
    pub(super) id: RequestId<'static>,
    pub(super) params: Raw<'static>,
    pub(super) operation: Option<String>,
    /// How often it was delivered again.
    pub(super) redeliveries: usize,
}

impl Prompt {
    fn summary(&self) -> QueuedPrompt {
        QueuedPrompt { text: self.beginning(), operation: self.operation.clone() }
    }

    /// The beginning of what it says, for people.
    fn beginning(&self) -> String {
        let blocks = self.params.get("prompt");
        let blocks = blocks.iter().flat_map(Raw::items);
        let text = blocks.filter_map(|block| block.get("text")?.as_text().map(std::borrow::Cow::into_owned));
        text.collect::<Vec<_>>().join(" ").chars().take(BEGINNING).collect()
    }
}

impl Session {
    pub(super) fn at_rest(known: Known) -> Self {
        Session {
            next: known.length,
            window_start: known.length,
            known,
            shared: HashSet::new(),
            memory: None,
            is_loading: false,
            host: None,
            is_waking: false,
            idle_since: None,
            parked: None,
            cancelled_at: None,
            is_unresponsive: false,
            lost: None,
            window: VecDeque::new(),
            window_bytes: 0,
            attached: BTreeSet::new(),
            waiting: VecDeque::new(),
            prompts: VecDeque::new(),
            is_ours: true,
            announced: None,
            is_asking: false,
            asked_at: 0,
            heard_at: 0,
            hub: None,
            followed: 0,
        }
    }

    pub(super) fn is_visible_to(&self, who: &Identity) -> bool {
        who.sees_all() || self.shared.contains(&(Arc::clone(&who.name), who.made))
    }

    /// Whether the client of a token started it. The name alone does not tell: it may be that of a later token, which the
    /// session is not shared with.
    pub(super) fn is_started_by(&self, who: &Identity) -> bool {
        *self.known.owner == *who.name && self.shared.contains(&(Arc::clone(&who.name), who.made))
    }

    /// Keeps a record at hand, while somebody looks on.
    pub(super) fn note(
        &mut self,
        sequence: u64,
        seen: Seen,
        origin: Origin,
        text: &Arc<str>,
        line: Option<ToClient>,
    ) {
        if self.attached.is_empty() {
            self.window.clear();
            self.window_bytes = 0;
            self.window_start = sequence + 1;
            return;
        }
        if !matches!(seen, Seen::Update | Seen::Native | Seen::Question) {
            return;
        }
        self.window_bytes += text.len();
        self.window.push_back(Recent {
            sequence,
            is_question: seen == Seen::Question,
            origin,
            text: Arc::clone(text),
            line,
        });
        while self.window.len() > WINDOW || (self.window_bytes > WINDOW_BYTES && self.window.len() > 1) {
            let Some(oldest) = self.window.pop_front() else { return };
            self.window_bytes -= oldest.text.len();
            self.window_start = oldest.sequence + 1;
        }
    }

    /// The log goes on at a place, and nothing before it is at hand: what was to be written there may not have been.
    pub(super) fn goes_on_at(&mut self, place: u64) {
        self.next = place;
        self.window.clear();
        self.window_bytes = 0;
        self.window_start = place;
    }

    /// The first record at hand from a place on.
    pub(super) fn recent(&mut self, place: u64) -> Option<&mut Recent> {
        // Nearly always it is the last one.
        let at = match self.window.back() {
            Some(last) if last.sequence < place => return None,
            Some(last) if last.sequence == place => self.window.len() - 1,
            _ => self.window.partition_point(|recent| recent.sequence < place),
        };
        self.window.get_mut(at)
    }

    /// The records at hand from a position on.
    pub(super) fn recent_from(&self, place: u64) -> impl Iterator<Item = &Recent> {
        let at = self.window.partition_point(|recent| recent.sequence < place);
        self.window.range(at..)
    }

    /// The agent's id of the session.
    pub(super) fn agent_session(&self) -> Option<&str> {
        self.memory.as_ref()?.agent_session.as_deref()
    }

    /// The agent's id of the session, also before the log was read.
    pub(super) fn agent_session_known(&self) -> Option<&str> {
        self.agent_session().or(Some(&*self.known.agent_session)).filter(|id| !id.is_empty())
    }

    pub(super) fn state(&self) -> SessionState {
        // One that another hub has is shown as it is there.
        let has_agent = self.host.is_some() || self.hub.is_some();
        match self.memory.as_ref().filter(|_| has_agent) {
            Some(memory) if !memory.questions.is_empty() => SessionState::Waiting,
            Some(memory) if memory.is_busy() => SessionState::Working,
            _ if self.host.is_some() => SessionState::Idle,
            _ => SessionState::AtRest,
        }
    }

    pub(super) fn summary(&self) -> SessionSummary {
        let Known { id, agent, agent_session: _, owner, folder, title, changed, length: _ } =
            self.known.clone();
        let title = self.title().or(title);
        let questions = self.memory.as_ref().map_or(0, |memory| memory.questions.len());
        let lost = self.lost.clone();
        let queued = self.prompts.iter().map(Prompt::summary).collect();
        SessionSummary {
            id,
            agent,
            owner,
            folder,
            title,
            changed,
            state: self.state(),
            questions,
            lost,
            is_unresponsive: self.is_unresponsive,
            queued,
        }
    }

    /// The title: the agent's, or one made of the first prompt, also of one that waits for its turn. `None`: the session
    /// is empty.
    pub(super) fn title(&self) -> Option<String> {
        let remembered = self.memory.as_ref().and_then(|memory| memory.title().map(str::to_owned));
        let queued = || prompt_title(&self.prompts.front()?.params.get("prompt")?);
        remembered.or_else(|| self.known.title.clone()).or_else(queued)
    }

    /// What `session/list` says of it.
    pub(super) fn information(&self) -> serde_json::Value {
        let Known { agent, owner, .. } = &self.known;
        let mut meta = vec![
            AGENT.entry(agent.as_str()),
            STATE.entry(self.state().as_str()),
            OWNER.entry(owner.as_str()),
        ];
        meta.extend(self.is_unresponsive.then(|| UNRESPONSIVE.entry(true)));
        let [date, time] = Moment(self.known.changed).date_and_time();
        let mut information = json!({
            "sessionId": &*self.known.id, "cwd": self.known.folder,
            "updatedAt": format!("{date}T{time}Z"),
            "_meta": Meta::from_entries(meta).as_raw(),
        });
        // The key is optional, and some clients fail on `null`.
        if let Some(title) = self.title() {
            information["title"] = title.into();
        }
        information
    }

    /// What the answer to opening it says.
    pub(super) fn opened_result(&self) -> String {
        let Some(memory) = &self.memory else { return "{}".to_owned() };
        let lists = memory.lists();
        let known = ["configOptions", "availableCommands"].iter().zip(&lists);
        let known: Vec<(&str, &str)> =
            known.filter_map(|(key, list)| Some((*key, list.as_deref()?))).collect();
        super::lines::merged(None, &known)
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.known.id
    }
}
