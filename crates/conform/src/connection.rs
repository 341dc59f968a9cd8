//! What is known of a connection while its messages go by.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Correlator, Side, Version};

use crate::evaluator::Told;
use crate::rules::RuleId;

/// How many requests, sessions and ids are remembered. What is beyond that is judged without memory of it.
pub(crate) const MOST_REMEMBERED: usize = 100_000;

/// How many requests may be open, and how many messages of prompts awaited. They are looked through now and then.
pub(crate) const MOST_OPEN: usize = 4096;

/// A request that waits for its answer.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) method: String,
    pub(crate) number: u64,
    /// How many requests were made before it.
    pub(crate) order: u64,
    pub(crate) session: String,
    /// The parameters that its answer is judged by; without the content of prompts.
    pub(crate) params: Value,
    /// Rules that it is kept by taking this request.
    pub(crate) must_take: Vec<RuleId>,
    /// Whether it broke a rule itself, so that an error is the right answer.
    pub(crate) is_faulty: bool,
    /// Whether the session's work was cancelled since.
    pub(crate) is_cancelled: bool,
    /// Whether it was taken back itself.
    pub(crate) is_withdrawn: bool,
    /// Whether work was going on in the session when it was asked.
    pub(crate) during_work: bool,
}

impl Open {
    pub(crate) fn new(method: &str, told: &Told<'_>, order: u64) -> Self {
        let params = told.params();
        let kept = if method == "session/prompt" { Value::Null } else { params.clone() };
        Open {
            method: method.to_owned(),
            number: told.number,
            order,
            session: params["sessionId"].as_str().unwrap_or_default().to_owned(),
            params: kept,
            must_take: Vec::new(),
            is_faulty: false,
            is_cancelled: false,
            is_withdrawn: false,
            during_work: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) version: Option<Version>,
    pub(crate) messages: u64,
    /// Whether nothing is missing so far.
    pub(crate) is_whole: bool,
    /// Whether its beginning is there.
    pub(crate) has_handshake: bool,
    /// The number that the client asked for.
    pub(crate) asked_version: Option<u64>,
    /// Whether the agent answered with a higher one.
    pub(crate) is_foreign: bool,
    /// The first request, if it was one that needs an initialized connection.
    pub(crate) too_early: Option<u64>,
    pub(crate) client_capabilities: Value,
    pub(crate) agent_capabilities: Option<Value>,
    pub(crate) auth_methods: Vec<(String, String)>,
    pub(crate) is_logged_in: bool,
    pub(crate) needs_login: bool,
    pub(crate) open: Correlator<Open>,
    answered: HashSet<(Side, RequestId<'static>)>,
    /// The latest request of each side that was answered.
    pub(crate) latest_answered: [u64; 2],
    /// Prompts that were answered, by session: the latest.
    pub(crate) latest_prompt: HashMap<String, u64>,
    order: u64,
    /// Arrays that each side sent and that nobody refused yet.
    pub(crate) batches: [u64; 2],
    pub(crate) sessions: HashMap<String, Session>,
    /// Updates of sessions that nobody opened yet.
    pub(crate) unknown: HashMap<String, Vec<u64>>,
    pub(crate) deleted: HashSet<String>,
    /// The latest message of the client.
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

    pub(crate) fn remember_answered(&mut self, asker: Side, id: &RequestId<'static>, open: &Open) {
        let latest = &mut self.latest_answered[asker as usize];
        *latest = open.order.max(*latest);
        if self.answered.len() < MOST_REMEMBERED {
            self.answered.insert((asker, id.clone()));
        }
    }

    pub(crate) fn was_answered(&self, asker: Side, id: &RequestId<'static>) -> bool {
        self.answered.contains(&(asker, id.clone()))
    }

    /// A session that is known from now on.
    pub(crate) fn session(&mut self, id: &str) -> &mut Session {
        self.unknown.remove(id);
        if !self.sessions.contains_key(id) && self.sessions.len() >= MOST_REMEMBERED {
            self.sessions.clear();
        }
        self.sessions.entry(id.to_owned()).or_default()
    }

    /// Something is missing: what is open, and what goes on in sessions, is not known any more.
    pub(crate) fn forget(&mut self) {
        self.is_whole = false;
        self.open = Correlator::new(MOST_OPEN);
        self.unknown.clear();
        self.deleted.clear();
        for session in self.sessions.values_mut() {
            *session = Session::default();
        }
    }

    /// Whether a session was made in this conversation, so that all of it is known.
    pub(crate) fn is_new(&self, id: &str) -> bool {
        self.sessions.get(id).is_some_and(|session| session.is_new)
    }

    /// Whether what the agent advertises has something at a place: an object, or `true`.
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

/// What work does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Work {
    #[default]
    Idle,
    Running,
    RequiresAction,
}

/// What is known of a session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Whether `session/new` made it in this conversation, so that all of it is known.
    pub(crate) is_new: bool,
    pub(crate) is_closed: bool,
    /// The ways in which it is being opened: the number of open `session/load` and `session/resume` requests.
    pub(crate) opening: Option<Opening>,
    /// Since it was loaded nothing was asked.
    pub(crate) is_loaded: bool,
    pub(crate) open_prompts: u64,
    /// How the turn before ended, until the next begins; `true` if it was cancelled.
    pub(crate) ended: Option<bool>,
    pub(crate) work: Work,
    /// Whether it was running since it last was idle.
    pub(crate) has_run: bool,
    /// Whether there was a prompt since it last was idle.
    pub(crate) is_prompted: bool,
    /// Whether its work was cancelled.
    pub(crate) is_cancelled: bool,
    /// Whether a question was answered while it waited for that.
    pub(crate) is_answered: bool,
    /// Whether it said that it waits since it last was idle or running.
    pub(crate) has_waited: bool,
    /// Whether a message of the user was told since the latest prompt.
    pub(crate) told_user_message: bool,
    pub(crate) awaited_messages: Vec<String>,
    pub(crate) prompt_ids: HashSet<String>,
    /// Ids of messages, by kind.
    pub(crate) messages: HashSet<(u8, String)>,
    pub(crate) tool_calls: HashMap<String, ToolCall>,
    pub(crate) terminals: HashMap<String, String>,
    pub(crate) modes: Option<Vec<String>>,
    pub(crate) options: Option<Vec<ConfigOption>>,
}

/// A session that is being taken up again.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    pub(crate) with_history: bool,
    pub(crate) is_load: bool,
    pub(crate) has_state: bool,
    /// Whether work was going on when it began: what comes then may be live.
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
    /// `None` for an option whose values are not listed.
    pub(crate) values: Option<Vec<String>>,
}
