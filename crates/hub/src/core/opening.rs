//! How sessions come to be, and how they come back: their logs, their places in agents, their prompts.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{ADOPTED_SESSION, AgentSessionRecord, HubRecord, PromptRecord};
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Raw, Side, Wire, WireFormat};
use switchboard_store::{Channel, Role};

use super::connection::Start;
use super::hosting::Purpose;
use super::lines::{self, Outcome, Rewrite};
use super::notices::received;
use super::session::{Prompt, Session};
use super::{ConnectionId, Core, FolderRefusal, HostId, Known, Memory, Output, SessionId, Starter};

/// A session whose log is being begun.
pub(super) struct Creating {
    pub(super) host: HostId,
    folder: String,
    pub(super) client: (ConnectionId, RequestId<'static>),
    starter: Option<Starter>,
    opening: Opening,
}

/// How a session comes to be.
enum Opening {
    New {
        params: Raw<'static>,
    },
    /// The agent has made it already.
    Forked(Fork),
    /// The agent remembers it.
    Adopted {
        agent_session: String,
        params: Raw<'static>,
    },
}

/// A copy of a session that the agent has made.
pub(super) struct Fork {
    pub(super) request: String,
    pub(super) answer: String,
    /// The title of the original.
    pub(super) title: Option<String>,
}

impl Core {
    /// Opens a session for a client; its log comes first.
    pub(super) fn open_session(
        &mut self,
        host: HostId,
        folder: String,
        params: &Raw<'_>,
        client: (ConnectionId, RequestId<'static>),
    ) {
        let opening = Opening::New { params: params.to_shared() };
        self.create(host, folder, client, opening);
    }

    /// Gives a copy that the agent has made a log.
    pub(super) fn create_forked(
        &mut self,
        host: HostId,
        folder: String,
        client: (ConnectionId, RequestId<'static>),
        fork: Fork,
    ) {
        self.create(host, folder, client, Opening::Forked(fork));
    }

    /// Gives a session that only the agent remembers a log.
    pub(super) fn adopt_session(
        &mut self,
        host: HostId,
        folder: String,
        agent_session: String,
        params: &Raw<'_>,
        client: (ConnectionId, RequestId<'static>),
    ) {
        let opening = Opening::Adopted { agent_session, params: params.to_shared() };
        self.create(host, folder, client, opening);
    }

    fn create(
        &mut self,
        host: HostId,
        folder: String,
        client: (ConnectionId, RequestId<'static>),
        opening: Opening,
    ) {
        let Some(agent) = self.hosts.get(&host).map(|host| host.agent) else { return };
        let client_known = self.connections.get(&client.0);
        let is_forwarded = client_known.is_some_and(|client| client.guest.is_some());
        let who = client_known.map(|client| client.who.clone());
        let owner = who.as_ref().map(|who| who.name.to_string()).unwrap_or_default();
        // Administrators need no share. What another hub passed on is shared there.
        let starter =
            who.filter(|who| who.role < Role::Admin && !is_forwarded).map(|who| (who.name, who.made));
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let creating = Creating { host, folder: folder.clone(), client, starter: starter.clone(), opening };
        self.creating.insert(ticket, creating);
        let agent = self.options.agents.get(agent).cloned().unwrap_or_default();
        self.output.push_back(Output::Create { ticket, agent, owner, folder, starter });
    }

    /// A log was begun, or could not be.
    pub(crate) fn created(&mut self, ticket: u64, known: Result<Known, String>) {
        let Some(Creating { host, folder, client, starter, opening }) = self.creating.remove(&ticket) else {
            return;
        };
        let known = match known {
            Ok(known) => known,
            Err(reason) => {
                self.refuse(client.0, &client.1, codes::INTERNAL_ERROR, reason, None);
                return;
            }
        };
        let id = Arc::clone(&known.id);
        let mut session = Session::at_rest(known);
        session.host = Some(host);
        session.memory = Some(Memory::default());
        // The store has this share already; what is read from there later says the same.
        session.shared.extend(starter);
        self.sessions.insert(Arc::clone(&id), session);
        if !self.hosts.contains_key(&host) {
            // The agent is gone; who asked has been told.
            self.forget(&id);
            return;
        }
        self.begin_with_introduction(host, &id);
        match opening {
            Opening::New { params } => {
                let purpose = Purpose::New { session: Arc::clone(&id), client: client.clone() };
                let params = in_folder(&params, &folder);
                let rewrite = Rewrite { drops_own: true, ..Rewrite::default() };
                let Some((_, line)) = self.ask_host(host, "session/new", Some(&params), rewrite, purpose)
                else {
                    self.refuse_busy(&client);
                    self.forget(&id);
                    return;
                };
                let _ = self.append(&id, Channel::ToAgent, line.as_str());
                self.output.push_back(Output::ToHost { host, line, session: Some(id) });
            }
            Opening::Forked(Fork { request, answer, title }) => {
                let _ = self.append(&id, Channel::ToAgent, request);
                self.opened(host, &id, &client, &answer);
                // Its log begins without a prompt, but it is not empty: it has the title of its original until it gets
                // another one.
                let copy = self.sessions.get(&id).filter(|copy| copy.title().is_none());
                let own = copy.and_then(|copy| copy.agent_session().map(str::to_owned));
                if let (Some(own), Some(title)) = (own, title) {
                    let update = json!({"sessionUpdate": "session_info_update", "title": title}).to_string();
                    let _ = self.append(&id, Channel::ToClient, lines::update(&own, &update));
                }
            }
            Opening::Adopted { agent_session, params } => {
                // Somebody else was faster.
                let known = self.hosts.get(&host).and_then(|host| host.sessions.get(&agent_session));
                if let Some(known) = known.map(Arc::clone) {
                    let message = format!("the hub has this session already, as {known}");
                    let data = json!({"sessionId": &*known});
                    self.refuse(client.0, &client.1, codes::INVALID_PARAMS, message, Some(data));
                    self.forget(&id);
                    return;
                }
                self.note(&id, &HubRecord::AgentSession(AgentSessionRecord::new(&*agent_session)));
                let purpose = Purpose::Adopt { session: Arc::clone(&id), client: client.clone() };
                let params = in_folder(&params, &folder);
                let rewrite = Rewrite { drops_own: true, ..Rewrite::default() };
                let asked = self.ask_host(host, "session/resume", Some(&params), rewrite, purpose);
                let Some((_, line)) = asked else {
                    self.refuse_busy(&client);
                    self.forget(&id);
                    return;
                };
                let _ = self.append(&id, Channel::ToAgent, line.as_str());
                // Its history comes before the answer, and is the beginning of the log.
                self.joined(host, &id, &agent_session);
                self.output.push_back(Output::ToHost { host, line, session: Some(id) });
            }
        }
    }

    /// The agent goes on with a session that only it has remembered, or cannot.
    pub(super) fn adopted(
        &mut self,
        id: &SessionId,
        client: &(ConnectionId, RequestId<'static>),
        outcome: Outcome,
        line: &str,
    ) {
        let Outcome::Result(result) = outcome else {
            self.reply(client.0, &client.1, outcome, None);
            self.forget(id);
            return;
        };
        let _ = self.append(id, Channel::ToClient, line);
        self.output.push_back(Output::Changed { session: Arc::clone(id) });
        let result = Raw::parse(result.as_str()).ok().filter(Raw::is_object);
        let result = result.unwrap_or_else(|| Raw::from(json!({})));
        let told = Outcome::Result(ADOPTED_SESSION.set(&result, &**id).to_string());
        self.attach(client.0, id, Start::Beginning, Some((client.1.clone(), told)));
    }

    /// A list of an agent's sessions, in which those that the hub has are called as it calls them.
    pub(super) fn with_own_names(&self, host: HostId, outcome: Outcome) -> Outcome {
        let Outcome::Result(text) = &outcome else { return outcome };
        let Ok(result) = Raw::parse(text.as_str()) else { return outcome };
        let Some(sessions) = result.get("sessions") else { return outcome };
        let agent = self.hosts.get(&host).and_then(|host| self.options.agents.get(host.agent));
        let known: HashMap<&str, &SessionId> = self
            .sessions
            .values()
            .filter(|session| Some(&session.known.agent) == agent)
            .filter_map(|session| Some((session.agent_session_known()?, session.id())))
            .collect();
        let named = |entry: Raw<'_>| {
            let id = lines::text_of(Some(&entry), "sessionId").and_then(|id| known.get(&*id).copied());
            match id {
                Some(id) => lines::merged(Some(&entry), &[("sessionId", &lines::quoted(id))]),
                None => entry.as_str().to_owned(),
            }
        };
        let sessions: Vec<String> = sessions.items().map(named).collect();
        Outcome::Result(lines::merged(Some(&result), &[("sessions", &format!("[{}]", sessions.join(",")))]))
    }

    /// Writes down what the agent has said of itself.
    fn begin_with_introduction(&mut self, host: HostId, id: &SessionId) {
        let said = self.hosts.get(&host).map(|host| host.introduction.clone()).unwrap_or_default();
        for (channel, text) in said {
            let _ = self.append(id, channel, text);
        }
    }

    fn refuse_busy(&mut self, client: &(ConnectionId, RequestId<'static>)) {
        let message = "the agent has too many open requests; try again later";
        self.refuse(client.0, &client.1, codes::INTERNAL_ERROR, message, None);
    }

    /// Removes a session that did not come to be.
    pub(super) fn forget(&mut self, id: &SessionId) {
        self.drop_session(id);
        self.output.push_back(Output::Remove { session: Arc::clone(id) });
    }

    /// Somebody else may have deleted sessions at rest: those whose logs are not there any more are not, either.
    pub(crate) fn keep_sessions(&mut self, has_log: impl Fn(&str) -> bool) {
        let is_gone = |session: &&Session| {
            session.host.is_none() && !session.is_waking && session.next > 0 && !has_log(session.id())
        };
        let gone: Vec<SessionId> =
            self.sessions.values().filter(is_gone).map(|session| Arc::clone(session.id())).collect();
        for id in gone {
            self.drop_session(&id);
        }
    }

    fn drop_session(&mut self, id: &SessionId) {
        self.states += 1;
        if let Some(session) = self.sessions.remove(id) {
            for connection in session.attached {
                self.detach(connection, id);
            }
            let waiting = session.waiting.iter().filter_map(|(connection, line)| {
                match Message::decode(line, WireFormat::Any) {
                    Ok(Message::Request(request)) => Some((*connection, request.id.into_owned())),
                    _ => None,
                }
            });
            let prompts = session.prompts.iter().map(|prompt| (prompt.connection, prompt.id.clone()));
            for (connection, request) in waiting.chain(prompts).collect::<Vec<_>>() {
                let (message, data) = (format!("the session {id} was deleted"), json!({"sessionId": &**id}));
                self.refuse(connection, &request, codes::RESOURCE_NOT_FOUND, message, Some(data));
            }
        }
        for host in self.hosts.values_mut() {
            host.sessions.retain(|_, session| session != id);
        }
    }

    /// The agent has opened a session.
    pub(super) fn opened(
        &mut self,
        host: HostId,
        id: &SessionId,
        client: &(ConnectionId, RequestId<'static>),
        answer: &str,
    ) {
        let result = match Message::decode(answer, WireFormat::Any) {
            Ok(Message::Response(response)) => response.outcome.ok().map(Raw::into_owned),
            _ => None,
        };
        let agent_session = result.as_ref().and_then(|result| lines::text_of(Some(result), "sessionId"));
        let (Some(result), Some(agent_session)) = (&result, agent_session) else {
            let message = "the agent has opened a session and does not say which";
            self.refuse(client.0, &client.1, codes::INTERNAL_ERROR, message, None);
            self.forget(id);
            return;
        };
        let agent_session = agent_session.into_owned();
        self.note(id, &HubRecord::AgentSession(AgentSessionRecord::new(&*agent_session)));
        let _ = self.append(id, Channel::ToClient, answer);
        self.output.push_back(Output::Changed { session: Arc::clone(id) });
        let told = with_session(result, id);
        // Whoever opened it looks at it from its beginning.
        self.attach_first(client.0, id);
        self.reply(client.0, &client.1, Outcome::Result(told), None);
        self.joined(host, id, &agent_session);
    }

    /// A session has its place in an agent: what the agent has said of it already comes into its log.
    pub(super) fn joined(&mut self, host: HostId, id: &SessionId, agent_session: &str) {
        let Some(known) = self.hosts.get_mut(&host) else { return };
        known.sessions.insert(agent_session.to_owned(), Arc::clone(id));
        let early = std::mem::take(&mut known.early);
        known.early_bytes = 0;
        for (session, line) in early {
            if session == agent_session {
                self.host_line(host, &line);
            } else if let Some(known) = self.hosts.get_mut(&host) {
                known.early_bytes += line.len();
                known.early.push_back((session, line));
            }
        }
    }

    /// Sees to it that a session has an agent. Says whether it has; else it is on its way.
    pub(super) fn awake(&mut self, id: &SessionId) -> bool {
        let Some(session) = self.sessions.get_mut(id) else { return false };
        if session.is_waking {
            return false;
        }
        if let Some(host) = session.host {
            // One that is being ended takes nothing more; what waits for it goes to the next one.
            return self.hosts.get(&host).is_some_and(|host| !host.is_ending);
        }
        if let Some(host) = session.parked.filter(|host| self.hosts.contains_key(host)) {
            if self.hosts.get(&host).is_some_and(|host| host.is_ending) {
                return false;
            }
            if self.unpark(id) {
                return true;
            }
        }
        let Some(session) = self.sessions.get_mut(id) else { return false };
        let Some(agent) = self.options.agents.iter().position(|agent| *agent == session.known.agent) else {
            let message = format!(
                "the agent {} is not configured any more; start the hub with it",
                session.known.agent
            );
            let error = Outcome::error(codes::INTERNAL_ERROR, message, None);
            self.not_awake(id, &error);
            return false;
        };
        // It may have been begun by a hub that has other folders.
        if let Err(FolderRefusal { reason, roots }) = (self.options.folders)(&session.known.folder) {
            let folder = session.known.folder.clone();
            let message = format!("the session cannot go on here: {folder}: {reason}");
            let (message, data) = self.with_hubs(&folder, message, json!({"folder": folder, "roots": roots}));
            self.not_awake(id, &Outcome::error(codes::INVALID_PARAMS, message, Some(data)));
            return false;
        }
        session.is_waking = true;
        self.states += 1;
        let services = self.services_of(id);
        let host = self.host_with(agent, services).unwrap_or_else(|| self.start_host(agent, services));
        if let Some(session) = self.sessions.get_mut(id) {
            session.host = Some(host);
            session.lost = None;
        }
        if self.hosts.get(&host).is_some_and(|host| host.is_ready) {
            self.take_up(host, id);
        }
        false
    }

    /// Asks an agent to go on with a session.
    pub(super) fn take_up(&mut self, host: HostId, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        let Some(agent_session) = session.agent_session().map(str::to_owned) else {
            let error =
                Outcome::error(codes::INTERNAL_ERROR, "the log does not say which session it is", None);
            self.not_awake(id, &error);
            return;
        };
        let params =
            Raw::from(json!({"sessionId": agent_session, "cwd": session.known.folder, "mcpServers": []}));
        self.begin_with_introduction(host, id);
        // An agent that counts its sessions anew has given the id to another.
        let known = self.hosts.get(&host).and_then(|host| host.sessions.get(&agent_session));
        if known.is_some_and(|other| other != id) {
            return self.renew(host, id, 0);
        }
        let purpose = Purpose::Wake { session: Arc::clone(id) };
        let asked = self.ask_host(host, "session/resume", Some(&params), Rewrite::default(), purpose);
        let Some((_, line)) = asked else {
            let error = Outcome::error(codes::INTERNAL_ERROR, "the agent has too many open requests", None);
            self.not_awake(id, &error);
            return;
        };
        let _ = self.append(id, Channel::ToAgent, line.as_str());
        if let Some(known) = self.hosts.get_mut(&host) {
            known.sessions.insert(agent_session, Arc::clone(id));
        }
        self.output.push_back(Output::ToHost { host, line, session: Some(Arc::clone(id)) });
    }

    /// Begins a session anew in an agent that has forgotten it: better than to lose the place where it was.
    pub(super) fn renew(&mut self, host: HostId, id: &SessionId, tries: usize) {
        self.leave(host, id);
        let Some(session) = self.sessions.get(id) else { return };
        let params = Raw::from(json!({"cwd": session.known.folder, "mcpServers": []}));
        let purpose = Purpose::Renew { session: Arc::clone(id), tries };
        let Some((_, line)) = self.ask_host(host, "session/new", Some(&params), Rewrite::default(), purpose)
        else {
            let error = Outcome::error(codes::INTERNAL_ERROR, "the agent has too many open requests", None);
            return self.not_awake(id, &error);
        };
        let _ = self.append(id, Channel::ToAgent, line.as_str());
        self.output.push_back(Output::ToHost { host, line, session: Some(Arc::clone(id)) });
    }

    /// A session has no agent, for this reason: whoever waits for it is told.
    pub(super) fn not_awake(&mut self, id: &SessionId, error: &Outcome) {
        self.states += 1;
        let Some(session) = self.sessions.get_mut(id) else { return };
        let host = session.host.take();
        session.is_waking = false;
        session.is_unresponsive = false;
        let waiting = std::mem::take(&mut session.waiting);
        let prompts = std::mem::take(&mut session.prompts);
        if let Some(host) = host.and_then(|host| self.hosts.get_mut(&host)) {
            host.sessions.retain(|_, session| session != id);
        }
        for (connection, message) in waiting {
            self.not_started(connection, &message, error);
        }
        for prompt in prompts {
            self.decline(prompt.connection, &prompt.id, error.clone());
        }
        self.output.push_back(Output::Rest { session: Arc::clone(id) });
    }

    /// Gives the agent the next prompt, if it has nothing to do.
    pub(super) fn run_next(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        let is_busy = session.memory.as_ref().is_some_and(Memory::is_busy);
        if session.prompts.is_empty() || is_busy || self.ending {
            return;
        }
        if session.is_unresponsive {
            return self.replace_agent(id);
        }
        if !self.awake(id) {
            return;
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        let (Some(host), Some(prompt)) = (session.host, session.prompts.pop_front()) else { return };
        let agent_session = session.agent_session().unwrap_or_default().to_owned();
        let Prompt { connection, id: request, params, operation, redeliveries } = prompt;
        let client = (connection, request);
        let by = self.author(connection);
        let purpose = Purpose::Prompt {
            session: Arc::clone(id),
            client: client.clone(),
            operation: operation.clone(),
            params: params.clone(),
            redeliveries,
        };
        let rewrite = Rewrite { session: Some(&agent_session), drops_own: true, ..Rewrite::default() };
        let Some((number, line)) = self.ask_host(host, "session/prompt", Some(&params), rewrite, purpose)
        else {
            self.refuse_busy(&client);
            return;
        };
        let RequestId::Number(number) = number else { return };
        let asked = self
            .connections
            .get_mut(&connection)
            .and_then(|known| known.open.get_mut(Side::Client, &client.1));
        if let Some(asked) = asked {
            asked.at_host = Some((host, number));
        }
        let prompt = params.get("prompt");
        self.notice(id, &received(prompt.as_ref(), &by, Some(connection)), Some(connection));
        let record = PromptRecord::new().request(number).by(by);
        self.note(id, &HubRecord::Prompt(PromptRecord { operation: operation.map(Into::into), ..record }));
        let _ = self.append(id, Channel::ToAgent, line.as_str());
        self.output.push_back(Output::ToHost { host, line, session: Some(Arc::clone(id)) });
    }
}

/// A result with the hub's id of the session.
fn with_session(result: &Raw<'_>, id: &str) -> String {
    lines::merged(Some(result), &[("sessionId", &lines::quoted(id))])
}

/// Parameters with the folder where it really is: a link may lead elsewhere by the time that the agent looks.
fn in_folder(params: &Raw<'_>, folder: &str) -> Raw<'static> {
    let text = lines::merged(Some(params), &[("cwd", &lines::quoted(folder))]);
    // It was an object, and still is.
    Raw::parse(text).unwrap_or_else(|_| params.to_shared())
}
