//! Lifecycle of sessions: creating, forking and adopting them, resuming them in an agent, and running their prompts.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{
    ADOPTED_SESSION, ActRecord, AgentSessionRecord, Author, HubRecord, PromptRecord,
};
use switchboard_acp::rpc::{RequestId, codes};
use switchboard_acp::{Raw, Side};
use switchboard_store::{Channel, Role};

use super::agent_process::PendingAgentRequest;
use super::connection::Start;
use super::context::Context;
use super::delivery::Delivery;
use super::dormancy::Dormancy;
use super::lines::{self, Outcome, Rewrite};
use super::notices::received;
use super::questions::Questions;
use super::session::{Prompt, Session};
use super::session_events::SessionEvents;
use super::unresponsive::OverdueTurn;
use super::{
    AgentId, ConnectionId, Core, FolderRefusal, Output, SessionId, SessionInfo, SessionState, Starter,
    agent_lines,
};

/// A session whose log is being created.
pub(super) struct PendingCreation {
    pub(super) process: AgentId,
    folder: String,
    pub(super) client: (ConnectionId, RequestId<'static>),
    starter: Option<Starter>,
    opening: CreationKind,
}

/// Origin of a session that is being created.
enum CreationKind {
    New {
        params: Raw<'static>,
    },
    /// A copy that the agent has already made.
    Forked(Fork),
    /// A session that only the agent has.
    Adopted {
        agent_session: String,
        params: Raw<'static>,
    },
}

/// A copy of a session that the agent has made.
pub(super) struct Fork {
    pub(super) request: String,
    /// The response of the agent, and its outcome.
    pub(super) answer: String,
    pub(super) outcome: Outcome,
    /// The title of the original.
    pub(super) title: Option<String>,
}

/// The work of an agent for one session: its process, and the prompts that it runs.
pub(super) struct Lifecycle<'a> {
    session: &'a mut Session,
    cx: &'a mut Context,
}

impl<'a> Lifecycle<'a> {
    pub(super) fn of(session: &'a mut Session, cx: &'a mut Context) -> Self {
        Lifecycle { session, cx }
    }

    /// Ensures that a session has an agent. Returns whether it has one; otherwise starting it has begun.
    pub(super) fn ensure_agent(&mut self) -> bool {
        let id = &SessionId::clone(self.session.id());
        let session = &mut *self.session;
        // The first caller has started it. The others wait in the queue of the session.
        if session.is_resuming {
            return false;
        }
        if let Some(process) = session.process {
            // A process that is ending gets no more work. Waiting messages go to the next one.
            return self.cx.agents.processes.get(&process).is_some_and(|process| !process.is_ending);
        }
        // A parked session is still open in its process, so it needs no `session/resume`.
        if let Some(process) = session.parked.filter(|process| self.cx.agents.processes.contains_key(process))
        {
            if self.cx.agents.processes.get(&process).is_some_and(|process| process.is_ending) {
                return false;
            }
            if Dormancy::of(self.session, self.cx).unpark() {
                return true;
            }
        }
        let session = &mut *self.session;
        let Some(agent) = self.cx.options.agents.iter().position(|agent| *agent == session.info.agent) else {
            let message =
                format!("the agent {} is no longer configured; start the hub with it", session.info.agent);
            let error = Outcome::error(codes::INTERNAL_ERROR, message, None);
            self.resume_failed(&error);
            return false;
        };
        // The session may have been created by a hub with other folders.
        if let Err(FolderRefusal { reason, roots }) = (self.cx.options.folders)(&session.info.folder) {
            let folder = session.info.folder.clone();
            let message = format!("cannot resume the session in {folder}: {reason}");
            let (message, data) =
                self.cx.cluster.with_hubs(&folder, message, json!({"folder": folder, "roots": roots}));
            self.resume_failed(&Outcome::error(codes::INVALID_PARAMS, message, Some(data)));
            return false;
        }
        // Set before the process is started: further messages wait instead of starting a second one.
        session.is_resuming = true;
        self.cx.outbox.summary_version += 1;
        let services = self.session.services(&self.cx.clients);
        let services = self.cx.options.offered(agent, services);
        let roots = vec![self.session.info.folder.clone()];
        let process = self.cx.process_with(agent, services, &roots);
        let process = process.unwrap_or_else(|| self.cx.start_agent(agent, services, roots));
        self.cx.agents.enter(process, id);
        self.session.process = Some(process);
        self.session.lost = None;
        // A process that is still starting resumes its sessions when the handshake is complete.
        if self.cx.agents.processes.get(&process).is_some_and(|process| process.is_ready) {
            self.resume_session(process);
        }
        false
    }

    /// Asks an agent to resume a dormant session.
    pub(super) fn resume_session(&mut self, process: AgentId) {
        let id = &SessionId::clone(self.session.id());
        let session = &*self.session;
        let Some(agent_session) = session.agent_session().map(str::to_owned) else {
            let error = Outcome::error(
                codes::INTERNAL_ERROR,
                "the log does not contain the agent's id of the session",
                None,
            );
            self.resume_failed(&error);
            return;
        };
        let params =
            Raw::from(json!({"sessionId": agent_session, "cwd": session.info.folder, "mcpServers": []}));
        // The capabilities of the new process precede everything it says in this session.
        self.record_handshake(process);
        // An agent that numbers its sessions from the start has given this id to another session.
        let known =
            self.cx.agents.processes.get(&process).and_then(|process| process.sessions.get(&agent_session));
        if known.is_some_and(|other| other != id) {
            return self.recreate_session(process, 0);
        }
        let purpose = PendingAgentRequest::Resume { session: Arc::clone(id) };
        let asked = self.cx.agents.build_request(
            process,
            "session/resume",
            Some(&params),
            Rewrite::default(),
            purpose,
        );
        let Some((_, line)) = asked else {
            let error =
                Outcome::error(codes::INTERNAL_ERROR, "the agent has too many pending requests", None);
            self.resume_failed(&error);
            return;
        };
        let _ = self.session.append(self.cx, Channel::ToAgent, line.as_str());
        if let Some(known) = self.cx.agents.processes.get_mut(&process) {
            // Registered before the response, because some agents replay their history before it.
            known.sessions.insert(agent_session, Arc::clone(id));
        }
        self.cx.outbox.push(Output::ToAgent { process, line, session: Some(Arc::clone(id)) });
    }

    /// Creates a new session in an agent that has lost the old one, so that the hub's session can continue.
    pub(super) fn recreate_session(&mut self, process: AgentId, tries: usize) {
        let id = &SessionId::clone(self.session.id());
        self.session.release_process(self.cx, process);
        let session = &*self.session;
        let params = Raw::from(json!({"cwd": session.info.folder, "mcpServers": []}));
        let purpose = PendingAgentRequest::Recreate { session: Arc::clone(id), tries };
        let Some((_, line)) =
            self.cx.agents.build_request(process, "session/new", Some(&params), Rewrite::default(), purpose)
        else {
            let error =
                Outcome::error(codes::INTERNAL_ERROR, "the agent has too many pending requests", None);
            return self.resume_failed(&error);
        };
        let _ = self.session.append(self.cx, Channel::ToAgent, line.as_str());
        self.cx.outbox.push(Output::ToAgent { process, line, session: Some(Arc::clone(id)) });
    }

    /// Refuses everything that waited for the agent of a session.
    pub(super) fn resume_failed(&mut self, error: &Outcome) {
        let id = &SessionId::clone(self.session.id());
        self.cx.outbox.summary_version += 1;
        let session = &mut *self.session;
        let process = session.process.take();
        session.is_resuming = false;
        session.is_unresponsive = false;
        let waiting = std::mem::take(&mut session.waiting);
        let prompts = std::mem::take(&mut session.prompts);
        if let Some(process) = process.and_then(|process| self.cx.agents.processes.get_mut(&process)) {
            process.sessions.retain(|_, session| session != id);
            process.users.remove(id);
        }
        for (connection, message) in waiting {
            self.cx.refuse_waiting(connection, &message, error);
        }
        if !prompts.is_empty()
            && let Outcome::Error(text) = error
        {
            let message = Raw::parse(text.as_str()).ok().and_then(|error| error.text("message"));
            SessionEvents::of(self.session, self.cx).emit_start_failure(&message.unwrap_or_default());
        }
        for prompt in prompts {
            self.cx.decline(prompt.connection, &prompt.id, error.clone());
        }
        // The session is dormant again.
        self.cx.outbox.push(Output::CloseLog { session: Arc::clone(id) });
    }

    /// Sends the next queued prompt to the agent, if the session is idle.
    pub(super) fn run_next_prompt(&mut self) {
        let id = &SessionId::clone(self.session.id());
        let session = &*self.session;
        let is_busy = session.state.as_ref().is_some_and(SessionState::is_busy);
        if session.prompts.is_empty() || is_busy || self.cx.is_ending {
            return;
        }
        // The agent still works on an abandoned turn and must not get the prompt.
        if session.is_unresponsive {
            self.cx.to_replace.push_back(SessionId::clone(id));
            return;
        }
        if !self.ensure_agent() {
            return;
        }
        let session = &mut *self.session;
        let (Some(process), Some(prompt)) = (session.process, session.prompts.pop_front()) else { return };
        let agent_session = session.agent_session().unwrap_or_default().to_owned();
        let Prompt { connection, id: request, params, operation, redeliveries } = prompt;
        let client = (connection, request);
        let by = self.cx.clients.author(connection);
        let purpose = PendingAgentRequest::Prompt {
            session: Arc::clone(id),
            client: client.clone(),
            operation: operation.clone(),
            params: params.clone(),
            redeliveries,
        };
        let rewrite = Rewrite { session: Some(&agent_session), drops_hub_meta: true, ..Rewrite::default() };
        let Some((number, line)) =
            self.cx.agents.build_request(process, "session/prompt", Some(&params), rewrite, purpose)
        else {
            self.cx.refuse_busy(&client);
            return;
        };
        let RequestId::Number(number) = number else { return };
        let asked = self
            .cx
            .clients
            .connections
            .get_mut(&connection)
            .and_then(|known| known.pending.get_mut(Side::Client, &client.1));
        if let Some(asked) = asked {
            asked.at_agent = Some((process, number));
        }
        let prompt = params.get("prompt");
        self.session.notice(self.cx, &received(prompt.as_ref(), &by, Some(connection)), Some(connection));
        // The idempotency key and the author precede the prompt in the log, so that readers attribute the request to
        // them. Both are durable before the agent gets the prompt: a duplicate is recognized even after a crash.
        let record = PromptRecord::new().request(number).by(by);
        self.session.append_hub_record(
            self.cx,
            &HubRecord::Prompt(PromptRecord { operation: operation.map(Into::into), ..record }),
        );
        let _ = self.session.append(self.cx, Channel::ToAgent, line.as_str());
        SessionEvents::of(self.session, self.cx).turn_began();
        self.cx.outbox.push(Output::ToAgent { process, line, session: Some(Arc::clone(id)) });
    }

    /// Records the handshake of the agent at the beginning of a log.
    pub(super) fn record_handshake(&mut self, process: AgentId) {
        let said = self
            .cx
            .agents
            .processes
            .get(&process)
            .map(|process| process.handshake_lines.clone())
            .unwrap_or_default();
        for (channel, text) in said {
            let _ = self.session.append(self.cx, channel, text);
        }
    }

    /// Sends a request of the hub itself to an agent.
    pub(super) fn send_hub_request(
        &mut self,
        process: AgentId,
        method: &str,
        params: &serde_json::Value,
        purpose: PendingAgentRequest,
    ) {
        let id = &SessionId::clone(self.session.id());
        let params = Raw::from(params.clone());
        if let Some((_, line)) =
            self.cx.agents.build_request(process, method, Some(&params), Rewrite::default(), purpose)
        {
            let _ = self.session.append(self.cx, Channel::ToAgent, line.as_str());
            self.cx.outbox.push(Output::ToAgent { process, line, session: Some(Arc::clone(id)) });
        }
    }

    /// Records that the work in a session was interrupted, so that every client learns of it.
    pub(super) fn interrupt(&mut self, reason: &str, data: Option<&serde_json::Value>) {
        self.cx.interruption = Some(reason.to_owned());
        self.record_interruption(reason, data);
        self.cx.interruption = None;
    }

    pub(super) fn record_interruption(&mut self, reason: &str, data: Option<&serde_json::Value>) {
        let id = &SessionId::clone(self.session.id());
        // Questions first: clients must not answer an agent that is not there.
        Questions::of(self.session, self.cx).abandon_questions(reason);
        let session = &*self.session;
        let Some(state) = &session.state else { return };
        let unanswered = state.unanswered_operations();
        if state.is_busy() {
            let mut error = json!({"code": codes::INTERNAL_ERROR, "message": reason});
            if let (Some(data), Some(error)) = (data, error.as_object_mut()) {
                error.insert("data".to_owned(), data.clone());
            }
            // Before the session becomes idle, so that clients do not show an idle session with a running tool call.
            for (session, update) in state.unfinished_updates(&error) {
                let _ = self.session.append(
                    self.cx,
                    Channel::ToClient,
                    lines::update(&session, &update.to_string()),
                );
            }
            let session = &*self.session;
            let update = json!({
                "sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": error,
            });
            let agent_session = session.agent_session().unwrap_or(id).to_owned();
            let _ = self.session.append(
                self.cx,
                Channel::ToClient,
                lines::update(&agent_session, &update.to_string()),
            );
        }
        // After the end of the turn is recorded, so that a duplicate finds both.
        for operation in unanswered {
            let error = Outcome::error(codes::INTERNAL_ERROR, reason, data.cloned());
            self.prompt_failed(Some(&operation), &error);
        }
    }

    /// Records the failure of a prompt without a response of the agent. A duplicate of the prompt gets the same
    /// response.
    pub(super) fn prompt_failed(&mut self, operation: Option<&str>, error: &Outcome) {
        if let (Some(operation), Outcome::Error(text)) = (operation, error) {
            let record = PromptRecord::new().operation(operation);
            let error = Raw::parse(text.as_str()).ok();
            self.session
                .append_hub_record(self.cx, &HubRecord::PromptFailed(PromptRecord { error, ..record }));
        }
    }

    /// Redirects the response to a running prompt to another client, which has sent a duplicate of it.
    pub(super) fn reassign_prompt(&mut self, operation: &str, to: (ConnectionId, RequestId<'static>)) {
        let id = &SessionId::clone(self.session.id());
        let is_it = |purpose: &PendingAgentRequest| match purpose {
            PendingAgentRequest::Prompt { session: at, operation: Some(name), .. } => {
                at == id && name == operation
            }
            _ => false,
        };
        let found: Option<&mut PendingAgentRequest> =
            self.cx.agents.processes.values_mut().find_map(|process| {
                let request = process
                    .pending
                    .iter()
                    .find(|(.., purpose)| is_it(purpose))
                    .map(|(_, request, _)| request.clone())?;
                process.pending.get_mut(Side::Client, &request)
            });
        if let Some(PendingAgentRequest::Prompt { client, .. }) = found {
            let before = std::mem::replace(client, to);
            return self.cx.supersede(&before);
        }
        // The log says that an agent has received the prompt, but no process has it any more: a response would never
        // arrive.
        let message =
            "the agent exited while it had this prompt, and the result is unknown; check the session";
        let error = Outcome::error(codes::INTERNAL_ERROR, message, None);
        self.prompt_failed(Some(operation), &error);
        self.cx.reply(to.0, &to.1, error);
    }

    /// Returns whether a prompt is a duplicate of an earlier one with the same idempotency key. A prompt runs once,
    /// however often it is sent.
    pub(super) fn is_duplicate(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        operation: &str,
    ) -> bool {
        let known = &mut *self.session;
        let constant_time_eq = |name: &Option<String>| name.as_deref() == Some(operation);
        if let Some(prompt) = known.prompts.iter_mut().find(|prompt| constant_time_eq(&prompt.operation)) {
            let before = std::mem::replace(&mut prompt.connection, connection);
            let before = (before, std::mem::replace(&mut prompt.id, id.clone()));
            self.cx.supersede(&before);
            return true;
        }
        match known.state.as_ref().and_then(|state| state.operation(operation)).cloned() {
            None => false,
            Some(known) => {
                match known.outcome {
                    Some(outcome) => {
                        let outcome = self.cx.clients.of_turn(connection, outcome, known.ended.as_deref());
                        self.cx.reply(connection, id, outcome);
                    }
                    // The prompt is running: the client that sent it last gets the response.
                    None => self.reassign_prompt(operation, (connection, id.clone())),
                }
                true
            }
        }
    }

    /// Closes the session for all clients.
    pub(super) fn close(&mut self, by: Author<'static>) {
        self.session.cancel_prompts(self.cx);
        Questions::of(self.session, self.cx).cancel_questions(&by);
        let (process, is_busy) = (self.session.process, self.session.is_busy());
        let agent_session = self.session.agent_session().map(str::to_owned);
        self.session.append_hub_record(self.cx, &HubRecord::Closed(ActRecord::new().by(by)));
        if let (Some(process), Some(agent_session)) = (process, &agent_session) {
            let params = json!({"sessionId": agent_session});
            self.send_hub_request(process, "session/close", &params, PendingAgentRequest::Close);
            self.session.release_process(self.cx, process);
            OverdueTurn::of(self.session, self.cx).leave_unresponsive(process, agent_session);
        }
        if let (true, Some(agent_session)) = (is_busy, agent_session) {
            let update = r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}"#;
            let update = lines::update(&agent_session, update);
            let _ = self.session.append(self.cx, Channel::ToClient, update);
        }
        let id = SessionId::clone(self.session.id());
        if let Some(process) = self.session.process.take() {
            self.cx.agents.leave(process, &id);
        }
        self.session.is_resuming = false;
        self.session.cancelled_at = None;
        self.session.is_unresponsive = false;
        self.cx.outbox.summary_version += 1;
        let attached: Vec<ConnectionId> = self.session.subscribers.iter().copied().collect();
        for connection in attached {
            Delivery::of(self.session, self.cx).detach_when_delivered(connection);
        }
        self.cx.outbox.push(Output::CloseLog { session: id });
    }

    /// Records that the process of the session has exited, and interrupts its work. Returns whether the session was being
    /// resumed.
    pub(super) fn process_exited(
        &mut self,
        reason: &str,
        data: Option<&serde_json::Value>,
        lost: Option<String>,
    ) -> bool {
        // In a cluster, agents are killed when the log cannot be reached. An idle session has nothing to record
        // about that, and a failing write would disconnect its subscribers.
        let state = self.session.state.as_ref();
        let is_at_work = state.is_some_and(|state| state.is_busy() || !state.questions.is_empty());
        if is_at_work || self.cx.options.name.is_none() {
            let _ = self.session.append(self.cx, Channel::Process, reason);
        }
        // While the session still has its process: the records of the interruption belong to it.
        self.interrupt(reason, data);
        self.session.process = None;
        self.session.cancelled_at = None;
        self.session.is_unresponsive = false;
        self.session.lost = lost;
        std::mem::take(&mut self.session.is_resuming)
    }
}

/// Creates a session for a client. Its log is created first.
pub(super) fn open_session(
    core: &mut Core,
    process: AgentId,
    folder: String,
    params: &Raw<'_>,
    client: (ConnectionId, RequestId<'static>),
) {
    let opening = CreationKind::New { params: params.to_shared() };
    create_log(core, process, folder, client, opening);
}

/// Creates a log for a copy that the agent has made.
pub(super) fn create_forked(
    core: &mut Core,
    process: AgentId,
    folder: String,
    client: (ConnectionId, RequestId<'static>),
    fork: Fork,
) {
    create_log(core, process, folder, client, CreationKind::Forked(fork));
}

/// Creates a log for a session that only the agent has.
pub(super) fn adopt_session(
    core: &mut Core,
    process: AgentId,
    folder: String,
    agent_session: String,
    params: &Raw<'_>,
    client: (ConnectionId, RequestId<'static>),
) {
    let opening = CreationKind::Adopted { agent_session, params: params.to_shared() };
    create_log(core, process, folder, client, opening);
}

fn create_log(
    core: &mut Core,
    process: AgentId,
    folder: String,
    client: (ConnectionId, RequestId<'static>),
    opening: CreationKind,
) {
    let Some(agent) = core.cx.agents.processes.get(&process).map(|process| process.agent) else { return };
    let client_known = core.cx.clients.connections.get(&client.0);
    let is_forwarded = client_known.is_some_and(|client| client.forwarded_key.is_some());
    let identity = client_known.map(|client| client.identity.clone());
    let owner = identity.as_ref().map(|identity| identity.name.to_string()).unwrap_or_default();
    // Administrators need no share. A forwarded request is shared by the hub of the client.
    let starter = identity
        .filter(|identity| identity.role < Role::Admin && !is_forwarded)
        .map(|identity| (identity.name, identity.made));
    let ticket = core.cx.outbox.next_ticket();
    let creating =
        PendingCreation { process, folder: folder.clone(), client, starter: starter.clone(), opening };
    // The log is created before the agent is asked: otherwise updates of the new session could arrive without a
    // log.
    core.cx.agents.creating.insert(ticket, creating);
    let agent = core.cx.options.agents.get(agent).cloned().unwrap_or_default();
    core.cx.outbox.push(Output::Create { ticket, agent, owner, folder, starter });
}

/// Continues after the log of a session was created, or could not be.
pub(super) fn created(core: &mut Core, ticket: u64, known: Result<SessionInfo, String>) {
    let Some(PendingCreation { process, folder, client, starter, opening }) =
        core.cx.agents.creating.remove(&ticket)
    else {
        return;
    };
    let known = match known {
        Ok(known) => known,
        Err(reason) => {
            core.cx.refuse(client.0, &client.1, codes::INTERNAL_ERROR, reason, None);
            return;
        }
    };
    let id = Arc::clone(&known.id);
    let mut session = Session::dormant(known);
    session.process = Some(process);
    core.cx.agents.enter(process, &id);
    session.state = Some(SessionState::default());
    // The store already has this share. Reading it again gives the same.
    session.shared.extend(starter);
    core.sessions.insert(Arc::clone(&id), session);
    if !core.cx.agents.processes.contains_key(&process) {
        // The agent process has exited. The client has already been told.
        discard_session(core, &id);
        return;
    }
    if let Some((session, cx)) = core.session(&id) {
        Lifecycle::of(session, cx).record_handshake(process);
    }
    match opening {
        CreationKind::New { params } => {
            let purpose = PendingAgentRequest::New { session: Arc::clone(&id), client: client.clone() };
            let params = in_folder(&params, &folder);
            let rewrite = Rewrite { drops_hub_meta: true, ..Rewrite::default() };
            let Some((_, line)) =
                core.cx.agents.build_request(process, "session/new", Some(&params), rewrite, purpose)
            else {
                core.cx.refuse_busy(&client);
                discard_session(core, &id);
                return;
            };
            // Appended before it is sent, so that the log contains every request that an agent may have executed.
            let _ = core.append(&id, Channel::ToAgent, line.as_str());
            core.cx.outbox.push(Output::ToAgent { process, line, session: Some(id) });
        }
        CreationKind::Forked(Fork { request, answer, outcome, title }) => {
            let _ = core.append(&id, Channel::ToAgent, request);
            opened(core, process, &id, &client, &outcome, &answer);
            // The log of a copy begins without a prompt, but the session is not empty. It has the title of the
            // original until it gets its own.
            let copy = core.sessions.get(&id).filter(|copy| copy.title().is_none());
            let own = copy.and_then(|copy| copy.agent_session().map(str::to_owned));
            if let (Some(own), Some(title)) = (own, title) {
                let update = json!({"sessionUpdate": "session_info_update", "title": title}).to_string();
                let _ = core.append(&id, Channel::ToClient, lines::update(&own, &update));
            }
        }
        CreationKind::Adopted { agent_session, params } => {
            // Another client has adopted it first.
            let known = core
                .cx
                .agents
                .processes
                .get(&process)
                .and_then(|process| process.sessions.get(&agent_session));
            if let Some(known) = known.map(Arc::clone) {
                let message = format!("the hub already has this session, as {known}");
                let data = json!({"sessionId": &*known});
                core.cx.refuse(client.0, &client.1, codes::INVALID_PARAMS, message, Some(data));
                discard_session(core, &id);
                return;
            }
            core.append_hub_record(&id, &HubRecord::AgentSession(AgentSessionRecord::new(&*agent_session)));
            let purpose = PendingAgentRequest::Adopt { session: Arc::clone(&id), client: client.clone() };
            let params = in_folder(&params, &folder);
            let rewrite = Rewrite { drops_hub_meta: true, ..Rewrite::default() };
            let asked =
                core.cx.agents.build_request(process, "session/resume", Some(&params), rewrite, purpose);
            let Some((_, line)) = asked else {
                core.cx.refuse_busy(&client);
                discard_session(core, &id);
                return;
            };
            let _ = core.append(&id, Channel::ToAgent, line.as_str());
            // The history arrives before the response and becomes the beginning of the log.
            bind_agent_session(core, process, &id, &agent_session);
            core.cx.outbox.push(Output::ToAgent { process, line, session: Some(id) });
        }
    }
}

/// Handles the response of the agent to adopting a session.
pub(super) fn session_adopted(
    core: &mut Core,
    id: &SessionId,
    client: &(ConnectionId, RequestId<'static>),
    outcome: Outcome,
    line: &str,
) {
    let Outcome::Result(result) = outcome else {
        core.cx.reply(client.0, &client.1, outcome);
        discard_session(core, id);
        return;
    };
    let _ = core.append(id, Channel::ToClient, line);
    core.cx.outbox.push(Output::Changed { session: Arc::clone(id) });
    let result = Raw::parse(result.as_str()).ok().filter(Raw::is_object);
    let result = result.unwrap_or_else(|| Raw::from(json!({})));
    let result_for_client = Outcome::Result(ADOPTED_SESSION.set(&result, &**id).to_string());
    if let Some((session, cx)) = core.session(id) {
        Delivery::of(session, cx).attach(
            client.0,
            Start::Beginning,
            Some((client.1.clone(), result_for_client)),
        );
    }
}

/// Returns the agent's list of sessions with the hub's ids for those that the hub has.
pub(super) fn with_hub_ids(core: &Core, process: AgentId, outcome: Outcome) -> Outcome {
    let Outcome::Result(text) = &outcome else { return outcome };
    let Ok(result) = Raw::parse(text.as_str()) else { return outcome };
    let Some(sessions) = result.get("sessions") else { return outcome };
    let agent =
        core.cx.agents.processes.get(&process).and_then(|process| core.cx.options.agents.get(process.agent));
    let known: HashMap<&str, &SessionId> = core
        .sessions
        .values()
        .filter(|session| Some(&session.info.agent) == agent)
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

/// Removes a session whose creation failed.
pub(super) fn discard_session(core: &mut Core, id: &SessionId) {
    drop_session(core, id);
    core.cx.outbox.push(Output::Remove { session: Arc::clone(id) });
}

pub(super) fn drop_session(core: &mut Core, id: &SessionId) {
    core.cx.outbox.summary_version += 1;
    if let Some(mut session) = core.sessions.remove(id) {
        core.cx.cluster.note_length(id, None);
        for connection in std::mem::take(&mut session.subscribers) {
            Delivery::of(&mut session, &mut core.cx).detach(connection);
        }
        let waiting = session
            .waiting
            .iter()
            .filter_map(|(connection, line)| Some((*connection, line.request()?.id.clone())));
        let prompts = session.prompts.iter().map(|prompt| (prompt.connection, prompt.id.clone()));
        for (connection, request) in waiting.chain(prompts).collect::<Vec<_>>() {
            let (message, data) = (format!("session {id} was deleted"), json!({"sessionId": &**id}));
            core.cx.refuse(connection, &request, codes::RESOURCE_NOT_FOUND, message, Some(data));
        }
    }
    for process in core.cx.agents.processes.values_mut() {
        process.users.remove(id);
        process.sessions.retain(|_, session| session != id);
    }
}

/// Handles the response of the agent to `session/new`.
pub(super) fn opened(
    core: &mut Core,
    process: AgentId,
    id: &SessionId,
    client: &(ConnectionId, RequestId<'static>),
    outcome: &Outcome,
    answer: &str,
) {
    let result = match outcome {
        Outcome::Result(result) => Raw::parse(result.as_str()).ok(),
        Outcome::Error(_) => None,
    };
    let agent_session = result.as_ref().and_then(|result| lines::text_of(Some(result), "sessionId"));
    let (Some(result), Some(agent_session)) = (&result, agent_session) else {
        let message = "the agent's response to session/new has no sessionId";
        core.cx.refuse(client.0, &client.1, codes::INTERNAL_ERROR, message, None);
        discard_session(core, id);
        return;
    };
    let agent_session = agent_session.into_owned();
    core.append_hub_record(id, &HubRecord::AgentSession(AgentSessionRecord::new(&*agent_session)));
    let _ = core.append(id, Channel::ToClient, answer);
    core.cx.outbox.push(Output::Changed { session: Arc::clone(id) });
    let result_for_client = with_session(result, id);
    // The client that opened the session gets every record from the first one.
    if let Some((session, cx)) = core.session(id) {
        Delivery::of(session, cx).attach_first(client.0);
    }
    // The response precedes the updates that the agent has already sent: before it, the client does not know the
    // session.
    core.cx.reply(client.0, &client.1, Outcome::Result(result_for_client));
    bind_agent_session(core, process, id, &agent_session);
}

/// Binds a session to its id at the agent. The lines that the agent has already sent about it are appended to its
/// log.
pub(super) fn bind_agent_session(core: &mut Core, process: AgentId, id: &SessionId, agent_session: &str) {
    let Some(known) = core.cx.agents.processes.get_mut(&process) else { return };
    known.sessions.insert(agent_session.to_owned(), Arc::clone(id));
    let early = std::mem::take(&mut known.early);
    known.early_bytes = 0;
    if let Some(notice) = known.confinement.clone() {
        agent_lines::confinement_notice_in(core, process, agent_session, &notice);
    }
    for (session, line) in early {
        if session == agent_session {
            agent_lines::agent_line(core, process, &line);
        } else if let Some(known) = core.cx.agents.processes.get_mut(&process) {
            known.early_bytes += line.len();
            known.early.push_back((session, line));
        }
    }
}

/// Returns a result with the hub's session id.
fn with_session(result: &Raw<'_>, id: &str) -> String {
    lines::merged(Some(result), &[("sessionId", &lines::quoted(id))])
}

/// Returns parameters with the canonical folder. A symbolic link might point elsewhere by the time the agent resolves
/// it.
fn in_folder(params: &Raw<'_>, folder: &str) -> Raw<'static> {
    let text = lines::merged(Some(params), &[("cwd", &lines::quoted(folder))]);
    // `params` was an object and still is one.
    Raw::parse(text).unwrap_or_else(|_| params.to_shared())
}
