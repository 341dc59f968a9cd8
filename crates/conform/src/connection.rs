//! State of a connection.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Correlator, Side, Version};

use crate::evaluator::ParsedMessage;
use crate::rules::RuleId;

/// Maximum number of tracked requests, sessions and ids. Others are checked without their history.
pub(crate) const MOST_REMEMBERED: usize = 100_000;

/// Maximum number of pending requests, and of awaited prompt messages. They are searched occasionally.
pub(crate) const MOST_OPEN: usize = 4096;

/// A pending request.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) method: String,
    pub(crate) number: u64,
    /// Number of earlier requests.
    pub(crate) order: u64,
    pub(crate) session: String,
    /// The parameters needed to check its response, without the content of prompts.
    pub(crate) params: Value,
    /// Rules that are kept by accepting this request.
    pub(crate) must_take: Vec<RuleId>,
    /// Set if the request itself broke a rule, so that an error is the correct response.
    pub(crate) is_faulty: bool,
    /// Set if the session's work was cancelled since.
    pub(crate) is_cancelled: bool,
    /// Set if the request itself was cancelled.
    pub(crate) is_request_cancelled: bool,
    /// Set if the session was running when the request was sent.
    pub(crate) during_work: bool,
}

impl PendingRequest {
    pub(crate) fn new(method: &str, received: &ParsedMessage<'_>, order: u64) -> Self {
        let params = received.params();
        let kept = if method == "session/prompt" { Value::Null } else { params.clone() };
        PendingRequest {
            method: method.to_owned(),
            number: received.number,
            order,
            session: params["sessionId"].as_str().unwrap_or_default().to_owned(),
            params: kept,
            must_take: Vec::new(),
            is_faulty: false,
            is_cancelled: false,
            is_request_cancelled: false,
            during_work: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) version: Option<Version>,
    pub(crate) messages: u64,
    /// Set if no message is missing so far.
    pub(crate) is_whole: bool,
    /// Set if the handshake was seen.
    pub(crate) has_handshake: bool,
    /// The version that the client requested.
    pub(crate) asked_version: Option<u64>,
    /// Set if the agent answered with a higher version.
    pub(crate) is_foreign: bool,
    /// Number of the first request if it needs an initialized connection.
    pub(crate) too_early: Option<u64>,
    pub(crate) client_capabilities: Value,
    pub(crate) agent_capabilities: Option<Value>,
    pub(crate) auth_methods: Vec<(String, String)>,
    pub(crate) is_logged_in: bool,
    pub(crate) needs_login: bool,
    pub(crate) open: Correlator<PendingRequest>,
    answered: HashSet<(Side, RequestId<'static>)>,
    /// The latest answered request of each side.
    pub(crate) latest_answered: [u64; 2],
    /// The latest answered prompt of each session.
    pub(crate) latest_prompt: HashMap<String, u64>,
    order: u64,
    /// Batches of each side that were not refused yet.
    pub(crate) batches: [u64; 2],
    pub(crate) sessions: HashMap<String, Session>,
    /// Updates of sessions that are not open yet.
    pub(crate) unknown: HashMap<String, Vec<u64>>,
    pub(crate) deleted: HashSet<String>,
    /// Number of the client's latest message.
    pub(crate) latest_of_client: u64,
}

impl Default for Connection {
    fn default() -> Self {
        Connection {
            version: None,
            messages: 0,
            is_whole: true,
            has_handshake: false,
            asked_version: None,
            is_foreign: false,
            too_early: None,
            client_capabilities: Value::Null,
            agent_capabilities: None,
            auth_methods: Vec::new(),
            is_logged_in: false,
            needs_login: false,
            open: Correlator::new(MOST_OPEN),
            answered: HashSet::new(),
            latest_answered: [0; 2],
            latest_prompt: HashMap::new(),
            order: 0,
            batches: [0; 2],
            sessions: HashMap::new(),
            unknown: HashMap::new(),
            deleted: HashSet::new(),
            latest_of_client: 0,
        }
    }
}

impl Connection {
    pub(crate) fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    pub(crate) fn remember_answered(&mut self, asker: Side, id: &RequestId<'static>, open: &PendingRequest) {
        let latest = &mut self.latest_answered[asker as usize];
        *latest = open.order.max(*latest);
        if self.answered.len() < MOST_REMEMBERED {
            self.answered.insert((asker, id.clone()));
        }
    }

    pub(crate) fn was_answered(&self, asker: Side, id: &RequestId<'static>) -> bool {
        self.answered.contains(&(asker, id.clone()))
    }

    /// Returns a session, which is known from now on.
    pub(crate) fn session(&mut self, id: &str) -> &mut Session {
        self.unknown.remove(id);
        if !self.sessions.contains_key(id) && self.sessions.len() >= MOST_REMEMBERED {
            self.sessions.clear();
        }
        self.sessions.entry(id.to_owned()).or_default()
    }

    /// Drops pending requests and session states, because messages are missing.
    pub(crate) fn forget(&mut self) {
        self.is_whole = false;
        self.open = Correlator::new(MOST_OPEN);
        self.unknown.clear();
        self.deleted.clear();
        for session in self.sessions.values_mut() {
            *session = Session::default();
        }
    }

    /// Returns whether a session was created in this conversation, so that its whole history is known.
    pub(crate) fn is_new(&self, id: &str) -> bool {
        self.sessions.get(id).is_some_and(|session| session.is_new)
    }

    /// Returns whether the agent's capabilities have an object or `true` at a pointer.
    pub(crate) fn agent_has(&self, pointer: &str) -> bool {
        let capabilities = self.agent_capabilities.as_ref();
        capabilities.and_then(|known| known.pointer(pointer)).is_some_and(is_advertised)
    }

    pub(crate) fn client_has(&self, pointer: &str) -> bool {
        self.client_capabilities.pointer(pointer).is_some_and(is_advertised)
    }
}

fn is_advertised(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

/// State of a session's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SessionWork {
    #[default]
    Idle,
    Running,
    RequiresAction,
}

/// State of a session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Set if `session/new` created it in this conversation, so that its whole history is known.
    pub(crate) is_new: bool,
    pub(crate) is_closed: bool,
    /// Pending `session/load` and `session/resume` requests.
    pub(crate) opening: Option<Reopening>,
    /// Set if no prompt was sent since it was loaded.
    pub(crate) is_loaded: bool,
    pub(crate) open_prompts: u64,
    /// End of the last turn, until the next one begins; `true` if it was cancelled.
    pub(crate) ended: Option<bool>,
    pub(crate) work: SessionWork,
    /// Set if it was running since it was last idle.
    pub(crate) has_run: bool,
    /// Set if a prompt was sent since it was last idle.
    pub(crate) is_prompted: bool,
    /// Set if its work was cancelled.
    pub(crate) is_cancelled: bool,
    /// Set if a question was answered while it waited for that.
    pub(crate) is_answered: bool,
    /// Set if it reported waiting since it was last idle or running.
    pub(crate) has_waited: bool,
    /// Set if a user message was sent since the latest prompt.
    pub(crate) has_user_message: bool,
    pub(crate) awaited_messages: Vec<String>,
    pub(crate) prompt_ids: HashSet<String>,
    /// Message ids by kind.
    pub(crate) messages: HashSet<(u8, String)>,
    pub(crate) tool_calls: HashMap<String, ToolCall>,
    pub(crate) terminals: HashMap<String, String>,
    pub(crate) modes: Option<Vec<String>>,
    pub(crate) options: Option<Vec<ConfigOption>>,
}

/// A session that is being loaded or resumed.
#[derive(Debug, Default)]
pub(crate) struct Reopening {
    pub(crate) with_history: bool,
    pub(crate) is_load: bool,
    pub(crate) has_state: bool,
    /// Set if the session was running at the start, so that updates may be live.
    pub(crate) was_working: bool,
    pub(crate) whole: HashSet<(u8, String)>,
}

#[derive(Debug, Default)]
pub(crate) struct ToolCall {
    pub(crate) name: Option<String>,
    pub(crate) is_over: bool,
}

#[derive(Debug)]
pub(crate) struct ConfigOption {
    pub(crate) id: String,
    /// `None` for an option without listed values.
    pub(crate) values: Option<Vec<String>>,
}
