//! Agents: started when somebody needs one, ended when nobody does, and what they say.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_acp::extensions::{HubRecord, PromptRecord};
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Correlator, OpenRequest, Raw, Side, Wire, WireFormat};
use switchboard_store::Channel;
use switchboard_transport::{Oddities, SharedText};

use super::lines::{self, Outcome, Rewrite};
use super::services::Services;
use super::session::{Prompt, Session};
use super::{ConnectionId, Core, HostId, Memory, Output, SessionId};

/// How many lines of sessions that are only being opened are kept.
const EARLY: usize = 1024;
/// How many bytes they may have together.
const EARLY_BYTES: usize = 1024 * 1024;
/// How many lines of an agent's introduction are kept.
const INTRODUCTION: usize = 256;
/// How many bytes each may have.
const INTRODUCTION_LINE: usize = 64 * 1024;
/// What is said of an agent that does not introduce itself in time.
pub const NO_HANDSHAKE: &str = "the agent did not answer the handshake";
/// How many of the last lines of its standard error are told of an agent that does not introduce itself.
const LAST_LINES: usize = 10;
/// Of how many methods the last notification outside all sessions is kept, and how many bytes each may have.
const ANNOUNCED: usize = 16;
const ANNOUNCED_LINE: usize = 64 * 1024;
/// How many requests to one agent may be open.
const OPEN: usize = 10_000;

/// What an agent says of itself: the result of `initialize`.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) result: String,
    /// The version that it speaks itself.
    pub(crate) version: u16,
}

/// An agent's process.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) agent: usize,
    /// What the agent was told that its client offers.
    pub(super) services: Services,
    /// The version of the protocol that it speaks itself.
    pub(super) version: u16,
    pub(super) is_ready: bool,
    pub(super) is_ending: bool,
    pub(super) last_id: i64,
    pub(super) open: Correlator<Purpose>,
    /// Its sessions and those of its sub-agents, by the agent's own ids.
    pub(super) sessions: HashMap<String, SessionId>,
    /// Lines of sessions that are only being opened, by the agent's ids.
    pub(super) early: VecDeque<(String, Arc<str>)>,
    pub(super) early_bytes: usize,
    /// The session that nobody opened of which it was last told that the agent speaks of it.
    stranger: String,
    /// Messages of clients that wait until it is ready.
    pub(super) waiting: Vec<(ConnectionId, Arc<str>)>,
    /// What was said until it had introduced itself, which stands at the beginning of each log.
    pub(super) introduction: Vec<(Channel, Arc<str>)>,
    /// The odd lines that it has written, for who reads the log of the hub and for the logs of the sessions.
    pub(super) odd_told: Oddities,
    pub(super) odd_kept: Oddities,
    /// Whether one of its sessions has left it because it did not stop after a cancellation: it gets no other ones.
    pub(super) is_unresponsive: bool,
    /// The agent's ids of the sessions that have left it and that it may still speak of.
    pub(super) left: HashSet<String>,
    /// Why the hub ends it, if for another reason than that no session needs it.
    pub(super) end_reason: Option<String>,
    pub(super) since: u64,
    pub(super) idle_since: Option<u64>,
    /// The last notification of each method that belongs to no session, such as the state of a login: clients that come later
    /// would have got it from an agent of their own.
    announced: Vec<(String, SharedText)>,
}

/// What a request to an agent is for.
#[derive(Debug)]
pub(super) enum Purpose {
    Handshake,
    /// A session is opened for a client, whose log is this.
    New {
        session: SessionId,
        client: (ConnectionId, RequestId<'static>),
    },
    /// A session that only the agent remembers gets this log.
    Adopt {
        session: SessionId,
        client: (ConnectionId, RequestId<'static>),
    },
    /// A client asks what the agent itself remembers.
    Remembered {
        client: (ConnectionId, RequestId<'static>),
    },
    /// A session is taken up again.
    Wake {
        session: SessionId,
    },
    /// A session that the agent has forgotten is begun anew.
    Renew {
        session: SessionId,
        /// How often that was tried before.
        tries: usize,
    },
    Prompt {
        session: SessionId,
        client: (ConnectionId, RequestId<'static>),
        operation: Option<String>,
        /// As the client sent it, should it have to be delivered again.
        params: Raw<'static>,
        /// How often it was.
        redeliveries: usize,
    },
    /// Something else that a client asked for.
    Forwarded {
        session: Option<SessionId>,
        client: (ConnectionId, RequestId<'static>),
    },
    /// A copy of a session.
    Fork {
        params: Raw<'static>,
        of: SessionId,
        client: (ConnectionId, RequestId<'static>),
    },
    Close,
    /// A prompt of a turn that the hub has ended itself.
    Abandoned {
        session: SessionId,
    },
}

impl Purpose {
    /// The session that a request is about.
    pub(super) fn session(&self) -> Option<&SessionId> {
        match self {
            Purpose::New { session, .. }
            | Purpose::Adopt { session, .. }
            | Purpose::Wake { session }
            | Purpose::Renew { session, .. }
            | Purpose::Prompt { session, .. }
            | Purpose::Abandoned { session }
            | Purpose::Fork { of: session, .. } => Some(session),
            Purpose::Forwarded { session, .. } => session.as_ref(),
            Purpose::Handshake | Purpose::Remembered { .. } | Purpose::Close => None,
        }
    }
}

impl Core {
    // ----- life

    /// The agent that runs, or is being started, by its name.
    pub(super) fn host_of(&self, agent: usize) -> Option<HostId> {
        self.hosts.iter().find_map(|(id, host)| (host.agent == agent && host.takes_sessions()).then_some(*id))
    }

    /// The agent, if it is ready; else it is started, and the message is looked at again when it is.
    pub(super) fn ready_host(
        &mut self,
        agent: usize,
        connection: ConnectionId,
        message: &Arc<str>,
    ) -> Option<HostId> {
        self.when_ready(self.host_of(agent), agent, connection, message)
    }

    /// Returns the agent for a client that opens a session: a process that was told what this client offers.
    pub(super) fn ready_host_for(
        &mut self,
        agent: usize,
        connection: ConnectionId,
        message: &Arc<str>,
    ) -> Option<HostId> {
        let host = self.host_with(agent, self.services_at(connection));
        self.when_ready(host, agent, connection, message)
    }

    /// Returns a process that is ready. Where there is none, one is started. Until it is ready, the message waits.
    fn when_ready(
        &mut self,
        host: Option<HostId>,
        agent: usize,
        connection: ConnectionId,
        message: &Arc<str>,
    ) -> Option<HostId> {
        let host = host.unwrap_or_else(|| self.start_host(agent, self.services_at(connection)));
        let known = self.hosts.get_mut(&host)?;
        if known.is_ready {
            return Some(host);
        }
        known.waiting.push((connection, Arc::clone(message)));
        None
    }

    pub(super) fn start_host(&mut self, agent: usize, services: Services) -> HostId {
        self.last_host += 1;
        let id = self.last_host;
        let mut host = Host {
            agent,
            services,
            version: 2,
            is_ready: false,
            is_ending: false,
            last_id: 0,
            open: Correlator::new(OPEN),
            sessions: HashMap::new(),
            early: VecDeque::new(),
            early_bytes: 0,
            stranger: String::new(),
            waiting: Vec::new(),
            introduction: Vec::new(),
            odd_told: Oddities::shown(),
            odd_kept: Oddities::recorded(),
            is_unresponsive: false,
            left: HashSet::new(),
            end_reason: None,
            since: self.now,
            idle_since: None,
            announced: Vec::new(),
        };
        let number = host.ask(Purpose::Handshake);
        let params = json!({
            "protocolVersion": 2,
            "info": {"name": "switchboard", "version": self.options.version},
            "capabilities": services.capabilities(),
        });
        let line = lines::call(number.as_ref(), "initialize", Some(&Raw::from(params)), Rewrite::default());
        host.introduction.push((Channel::ToAgent, line.as_str().into()));
        self.hosts.insert(id, host);
        self.output.push_back(Output::StartHost { host: id, agent, services });
        self.output.push_back(Output::ToHost { host: id, line, session: None });
        id
    }

    /// An agent's process is gone, or could not be started. Its sessions come to rest.
    pub(crate) fn host_ended(&mut self, id: HostId, reason: &str, last_lines: &[String]) {
        if !self.hosts.contains_key(&id) {
            return;
        }
        let unsent = self.take_unsent(id);
        self.undelivered(id, &unsent);
        let Some(mut host) = self.hosts.remove(&id) else { return };
        self.states += 1;
        let end_reason = host.end_reason.take();
        let reason = end_reason.as_deref().unwrap_or(reason);
        let data = (!last_lines.is_empty()).then(|| json!({"stderr": last_lines}));
        let error = || Outcome::error(codes::INTERNAL_ERROR, reason, data.clone());
        let agent = self.options.agents.get(host.agent).cloned().unwrap_or_default();
        if let Some(total) = host.odd_told.total() {
            self.tell(format!("agent {agent}: {total}"));
        }
        if !self.ending {
            self.tell(format!("agent {agent}: {reason}"));
        }
        for OpenRequest { about: purpose, .. } in host.open.drain_of(Side::Client) {
            match purpose {
                Purpose::Handshake | Purpose::Close | Purpose::Abandoned { .. } => {}
                Purpose::Wake { session } | Purpose::Renew { session, .. } => {
                    self.not_awake(&session, &error());
                }
                Purpose::New { session, client } | Purpose::Adopt { session, client } => {
                    self.reply(client.0, &client.1, error(), None);
                    self.forget(&session);
                }
                Purpose::Prompt { session, client, operation, .. } => {
                    self.prompt_failed(&session, operation.as_deref(), &error());
                    self.reply(client.0, &client.1, error(), None);
                }
                Purpose::Forwarded { client, .. }
                | Purpose::Fork { client, .. }
                | Purpose::Remembered { client } => self.reply(client.0, &client.1, error(), None),
            }
        }
        self.withdraw_direct(id, None);
        let lost: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| session.host == Some(id))
            .map(|session| Arc::clone(session.id()))
            .collect();
        for session in lost {
            // Where several hubs share the log, agents are killed when it cannot be reached. A session without work has nothing
            // to say about that, and writing it would cut off everybody who only looks at it.
            let memory = self.sessions.get(&session).and_then(|session| session.memory.as_ref());
            let is_at_work = memory.is_some_and(|memory| memory.is_busy() || !memory.questions.is_empty());
            if is_at_work || self.options.name.is_none() {
                let _ = self.append(&session, Channel::Process, reason);
            }
            self.interrupted(&session, reason, data.as_ref());
            let is_waking = self.sessions.get(&session).is_some_and(|session| session.is_waking);
            if let Some(session) = self.sessions.get_mut(&session) {
                session.host = None;
                session.is_waking = false;
                session.cancelled_at = None;
                session.is_unresponsive = false;
                // One that nobody needed has not gone away by itself.
                session.lost = (!host.is_ending).then(|| in_words(reason, last_lines));
            }
            // An agent that ends before it has introduced itself would do so again.
            if is_waking && !host.is_ready {
                self.not_awake(&session, &error());
                continue;
            }
            self.output.push_back(Output::Rest { session: Arc::clone(&session) });
            let waiting = self.sessions.get_mut(&session).map(|session| std::mem::take(&mut session.waiting));
            for (connection, message) in waiting.unwrap_or_default() {
                self.dispatch(connection, &message);
            }
            // What waits for its turn wakes it again, unless all ends.
            self.run_next(&session);
        }
        let mut parked = Vec::new();
        for session in self.sessions.values_mut().filter(|session| session.parked == Some(id)) {
            session.parked = None;
            if !session.prompts.is_empty() || !session.waiting.is_empty() {
                parked.push((Arc::clone(session.id()), std::mem::take(&mut session.waiting)));
            }
        }
        for (session, waiting) in parked {
            for (connection, message) in waiting {
                self.dispatch(connection, &message);
            }
            self.run_next(&session);
        }
        for (connection, message) in host.waiting {
            self.not_started(connection, &message, &error());
        }
        let tickets: Vec<u64> = self
            .creating
            .iter()
            .filter(|(_, creating)| creating.host == id)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in tickets {
            // The log is removed when it is there.
            if let Some(creating) = self.creating.get_mut(&ticket) {
                let (connection, request) = creating.client.clone();
                creating.client.0 = 0;
                self.reply(connection, &request, error(), None);
            }
        }
    }

    /// The work in a session was cut off: that is written down, so that everybody knows.
    pub(super) fn interrupted(&mut self, id: &SessionId, reason: &str, data: Option<&serde_json::Value>) {
        self.abandon_questions(id, reason);
        let Some(session) = self.sessions.get(id) else { return };
        let Some(memory) = &session.memory else { return };
        let unanswered = memory.unanswered_operations();
        if memory.is_busy() {
            let mut error = json!({"code": codes::INTERNAL_ERROR, "message": reason});
            if let (Some(data), Some(error)) = (data, error.as_object_mut()) {
                error.insert("data".to_owned(), data.clone());
            }
            // Before the session is idle, so that no client shows an idle session with a tool call at work.
            for (session, update) in memory.unfinished(&error) {
                let _ = self.append(id, Channel::ToClient, lines::update(&session, &update.to_string()));
            }
            let Some(session) = self.sessions.get(id) else { return };
            let update = json!({
                "sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": error,
            });
            let agent_session = session.agent_session().unwrap_or(id).to_owned();
            let _ = self.append(id, Channel::ToClient, lines::update(&agent_session, &update.to_string()));
        }
        for operation in unanswered {
            let error = Outcome::error(codes::INTERNAL_ERROR, reason, data.cloned());
            self.prompt_failed(id, Some(&operation), &error);
        }
    }

    /// A prompt has failed without an answer of the agent: who repeats it gets the same answer.
    fn prompt_failed(&mut self, id: &SessionId, operation: Option<&str>, error: &Outcome) {
        if let (Some(operation), Outcome::Error(text)) = (operation, error) {
            let record = PromptRecord::new().operation(operation);
            let error = Raw::parse(text.as_str()).ok();
            self.note(id, &HubRecord::PromptFailed(PromptRecord { error, ..record }));
        }
    }

    /// A message cannot be looked at again, because the agent that it needs did not start.
    pub(super) fn not_started(&mut self, connection: ConnectionId, message: &str, error: &Outcome) {
        let Ok(Message::Request(request)) = Message::decode(message, WireFormat::Any) else { return };
        let id = request.id.into_owned();
        self.decline(connection, &id, error.clone());
    }

    /// Ends agents that nobody needs any more, or that do not introduce themselves.
    pub(crate) fn tick(&mut self) {
        self.look_at_hubs();
        self.look_at_cancelled();
        self.look_at_idle_sessions();
        let ids: Vec<HostId> = self.hosts.keys().copied().collect();
        for id in ids {
            let needs = |session: &Session| {
                session.host == Some(id)
                    && (!session.attached.is_empty()
                        || session.memory.as_ref().is_some_and(Memory::is_busy)
                        || session.is_waking)
            };
            let is_needed = self.sessions.values().any(needs)
                || self.creating.values().any(|creating| creating.host == id);
            let is_at_work = !self.at_work_in(id).is_empty();
            let (now, idle, handshake) = (self.now, self.options.idle, self.options.handshake);
            let Some(host) = self.hosts.get_mut(&id) else { continue };
            if host.is_ending {
                continue;
            }
            if !host.is_ready {
                if now.saturating_sub(host.since) >= handshake {
                    let last_lines = host.last_lines();
                    let within = Duration::from_millis(handshake);
                    let reason = format!("{NO_HANDSHAKE} within {within:?}");
                    self.output.push_back(Output::EndHost { host: id });
                    self.host_ended(id, &reason, &last_lines);
                }
                continue;
            }
            // Sessions have left it for another process: it is kept only for those that are at work in it.
            if host.is_unresponsive && !is_at_work {
                self.end_agent(id, "was ended, because it did not stop after a cancellation");
                continue;
            }
            if is_needed || host.has_open() {
                host.idle_since = None;
            } else if now.saturating_sub(*host.idle_since.get_or_insert(now)) >= idle {
                host.is_ending = true;
                self.output.push_back(Output::EndHost { host: id });
            }
        }
    }

    /// Everything comes to its end: no new work, and agents are ended.
    pub(crate) fn end(&mut self, reason: &str) {
        self.ending = true;
        let ids: Vec<SessionId> = self.sessions.keys().cloned().collect();
        for id in ids {
            let queued: Vec<Prompt> = self
                .sessions
                .get_mut(&id)
                .map(|session| session.prompts.drain(..).collect())
                .unwrap_or_default();
            for prompt in queued {
                self.refuse(prompt.connection, &prompt.id, codes::INTERNAL_ERROR, reason, None);
            }
        }
        let hosts: Vec<HostId> = self.hosts.keys().copied().collect();
        for host in hosts {
            self.output.push_back(Output::EndHost { host });
            self.host_ended(host, reason, &[]);
        }
        let connections: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for connection in connections {
            self.output.push_back(Output::Close { connection, code: 1001, reason: reason.to_owned() });
        }
    }

    // ----- asking the agent

    /// Sends a client's request to an agent.
    pub(super) fn send_request(
        &mut self,
        host: HostId,
        session: Option<&SessionId>,
        method: &str,
        params: Option<&Raw<'_>>,
        name: Option<&str>,
        purpose: Purpose,
    ) -> Result<(), super::requests::Refusal> {
        let client = match &purpose {
            Purpose::Forwarded { client, .. }
            | Purpose::Fork { client, .. }
            | Purpose::Remembered { client } => Some(client.clone()),
            _ => None,
        };
        let rewrite = Rewrite { session: name, drops_own: true, ..Rewrite::default() };
        let Some((number, line)) = self.ask_host(host, method, params, rewrite, purpose) else {
            let message = "the agent has too many open requests; try again later".to_owned();
            return Err((codes::INTERNAL_ERROR, message, None));
        };
        if let (Some((connection, id)), RequestId::Number(number)) = (client, number)
            && let Some(asked) =
                self.connections.get_mut(&connection).and_then(|known| known.open.get_mut(Side::Client, &id))
        {
            asked.at_host = Some((host, number));
        }
        if let Some(session) = session {
            let _ = self.append(session, Channel::ToAgent, line.as_str());
        }
        self.output.push_back(Output::ToHost { host, line, session: session.cloned() });
        Ok(())
    }

    /// Asks an agent something on the hub's own behalf.
    pub(super) fn tell_host(
        &mut self,
        host: HostId,
        session: &SessionId,
        method: &str,
        params: &serde_json::Value,
        purpose: Purpose,
    ) {
        let params = Raw::from(params.clone());
        if let Some((_, line)) = self.ask_host(host, method, Some(&params), Rewrite::default(), purpose) {
            let _ = self.append(session, Channel::ToAgent, line.as_str());
            self.output.push_back(Output::ToHost { host, line, session: Some(Arc::clone(session)) });
        }
    }

    /// A session is an agent's no more.
    pub(super) fn leave(&mut self, host: HostId, session: &SessionId) {
        if let Some(host) = self.hosts.get_mut(&host) {
            host.sessions.retain(|_, known| known != session);
        }
        // Whoever takes it up next begins with other tool calls.
        let memory = self.sessions.get_mut(session).and_then(|session| session.memory.as_mut());
        memory.into_iter().for_each(Memory::forget_calls);
    }

    /// The answer to a prompt that is at work goes to somebody else.
    pub(super) fn redirect(
        &mut self,
        session: &SessionId,
        operation: &str,
        to: (ConnectionId, RequestId<'static>),
    ) {
        let is_it = |purpose: &Purpose| match purpose {
            Purpose::Prompt { session: at, operation: Some(name), .. } => at == session && name == operation,
            _ => false,
        };
        let found: Option<&mut Purpose> = self.hosts.values_mut().find_map(|host| {
            let id = host.open.iter().find(|(.., purpose)| is_it(purpose)).map(|(_, id, _)| id.clone())?;
            host.open.get_mut(Side::Client, &id)
        });
        if let Some(Purpose::Prompt { client, .. }) = found {
            let before = std::mem::replace(client, to);
            return self.supersede(&before);
        }
        // The log says that an agent got it, and no agent has it any more: nobody would ever answer.
        let message =
            "the agent that got this prompt is gone, and how far it came is not known: look at the session";
        let error = Outcome::error(codes::INTERNAL_ERROR, message, None);
        self.prompt_failed(session, Some(operation), &error);
        self.reply(to.0, &to.1, error, None);
    }

    /// A session has nothing to do.
    pub(super) fn turn_ended(&mut self, id: &SessionId) {
        let memory = self.sessions.get(id).and_then(|session| session.memory.as_ref());
        let reason = memory.and_then(|memory| memory.stop_reason());
        let notice = json!({"sessionUpdate": "turn_complete", "stopReason": reason});
        self.notice(id, &notice, None);
        if let Some(session) = self.sessions.get_mut(id) {
            session.cancelled_at = None;
        }
        self.run_next(id);
    }

    pub(super) fn ask_host(
        &mut self,
        host: HostId,
        method: &str,
        params: Option<&Raw<'_>>,
        rewrite: Rewrite<'_>,
        purpose: Purpose,
    ) -> Option<(RequestId<'static>, String)> {
        let id = self.hosts.get_mut(&host)?.ask(purpose)?;
        let line = lines::call(Some(&id), method, params, rewrite);
        Some((id, line))
    }
}

/// Why an agent is gone, with the last that it wrote to its standard error.
fn in_words(reason: &str, last_lines: &[String]) -> String {
    std::iter::once(reason).chain(last_lines.iter().map(String::as_str)).collect::<Vec<_>>().join("\n")
}

impl Host {
    /// Whether it was not said yet that the agent speaks of a session that nobody opened.
    pub(super) fn is_new_stranger(&mut self, session: &str) -> bool {
        let is_new = self.stranger != session;
        if is_new {
            session.clone_into(&mut self.stranger);
        }
        is_new
    }

    /// Keeps the last notification of a method, for clients that come later.
    pub(super) fn announce(&mut self, method: &str, line: &SharedText) {
        if line.len() > ANNOUNCED_LINE {
            return;
        }
        if let Some((_, last)) = self.announced.iter_mut().find(|(known, _)| known == method) {
            *last = line.clone();
        } else if self.announced.len() < ANNOUNCED {
            self.announced.push((method.to_owned(), line.clone()));
        }
    }

    /// What a client that comes now has not heard.
    pub(super) fn announcements(&self) -> Vec<SharedText> {
        self.announced.iter().map(|(_, line)| line.clone()).collect()
    }

    /// The id of a new request, unless too many are open.
    fn ask(&mut self, purpose: Purpose) -> Option<RequestId<'static>> {
        let id = RequestId::Number(self.last_id + 1);
        self.open.open(Side::Client, &id, purpose).ok()?;
        self.last_id += 1;
        Some(id)
    }

    /// What a request was for.
    pub(super) fn answered(&mut self, id: &RequestId<'_>) -> Option<Purpose> {
        self.open.answered(Side::Agent, id)
    }

    /// The client that wants what a request is for, with its own id of it.
    pub(super) fn client_of(&self, id: &RequestId<'_>) -> Option<&(ConnectionId, RequestId<'static>)> {
        match self.open.get(Side::Client, id)? {
            Purpose::New { client, .. }
            | Purpose::Adopt { client, .. }
            | Purpose::Remembered { client }
            | Purpose::Forwarded { client, .. }
            | Purpose::Fork { client, .. } => Some(client),
            // What belongs to a prompt is asked in its session.
            Purpose::Prompt { .. }
            | Purpose::Handshake
            | Purpose::Wake { .. }
            | Purpose::Renew { .. }
            | Purpose::Abandoned { .. }
            | Purpose::Close => None,
        }
    }

    /// The session in which a client has sent a prompt, by the agent's id of that.
    pub(super) fn session_of_prompt(&self, id: &RequestId<'_>) -> Option<&SessionId> {
        match self.open.get(Side::Client, id)? {
            Purpose::Prompt { session, .. } => Some(session),
            _ => None,
        }
    }

    /// Whether somebody waits for an answer of the agent.
    fn has_open(&self) -> bool {
        self.open.iter().any(|(.., purpose)| !matches!(purpose, Purpose::Abandoned { .. }))
    }

    /// The prompts of a session that the agent has not answered.
    pub(super) fn prompts_of(&self, id: &SessionId) -> Vec<RequestId<'static>> {
        let is_it = |purpose: &Purpose| matches!(purpose, Purpose::Prompt { session, .. } if session == id);
        self.open.iter().filter(|(.., purpose)| is_it(purpose)).map(|(_, id, _)| id.clone()).collect()
    }

    /// Nobody wants to know any more what becomes of the abandoned prompts of a session.
    pub(super) fn forget_abandoned(&mut self, id: &SessionId) {
        drop(
            self.open
                .drain_if(|_, _, purpose| matches!(purpose, Purpose::Abandoned { session } if session == id)),
        );
    }

    /// The session of an id of the agent.
    pub(super) fn session(&self, id: &str) -> Option<&SessionId> {
        self.sessions.get(id)
    }

    /// An id of the agent belongs to a session.
    pub(super) fn learn(&mut self, id: &str, session: &SessionId) {
        self.sessions.insert(id.to_owned(), Arc::clone(session));
    }

    /// Keeps a line of a session that may only be being opened. Says whether there was room.
    pub(super) fn keep_early(&mut self, session: &str, line: &str) -> bool {
        if self.early.len() >= EARLY || self.early_bytes + line.len() > EARLY_BYTES {
            return false;
        }
        self.early_bytes += line.len();
        self.early.push_back((session.to_owned(), line.into()));
        true
    }

    /// The agent has introduced itself. Gives what waited for that.
    pub(super) fn introduced(&mut self, answer: &str) -> Vec<(ConnectionId, Arc<str>)> {
        self.is_ready = true;
        self.introduction.push((Channel::ToClient, answer.into()));
        std::mem::take(&mut self.waiting)
    }

    /// The last that it wrote to its standard error before it had introduced itself.
    fn last_lines(&self) -> Vec<String> {
        let errors = self.introduction.iter().filter(|(channel, _)| *channel == Channel::StandardError);
        let lines: Vec<String> = errors.map(|(_, text)| text.to_string()).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].to_vec()
    }

    /// Returns whether sessions can be opened in this process.
    pub(super) fn takes_sessions(&self) -> bool {
        !self.is_ending && !self.is_unresponsive
    }

    /// Keeps what is said before the agent has introduced itself.
    pub(super) fn note(&mut self, channel: Channel, text: &str) {
        if !self.is_ready && self.introduction.len() < INTRODUCTION && text.len() <= INTRODUCTION_LINE {
            self.introduction.push((channel, text.into()));
        }
    }
}
