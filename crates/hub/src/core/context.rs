//! Everything that the methods of a session need beside the session: outputs, clients, agents and the other hubs.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_acp::extensions::OPERATION_ID;
use switchboard_acp::rpc::{RequestId, codes};
use switchboard_acp::{Raw, Side};
use switchboard_store::Channel;
use switchboard_transport::SharedText;

use super::agent_process::{AgentProcess, PendingAgentRequest};
use super::agents::Agents;
use super::authorization::Access;
use super::client_message::ClientMessage;
use super::clients::Clients;
use super::connection::{MAX_SUBSCRIPTIONS, PendingClientRequest};
use super::direct_questions::DirectQuestions;
use super::forwarding::{ForwardedRequest, ReceivedRequest, outcome_text};
use super::lines::{self, Outcome, Rewrite};
use super::outbox::{Dropped, Outbox};
use super::ownership::Cluster;
use super::requests::Refusal;
use super::services::Services;
use super::{AgentId, ConnectionId, CoreOptions, Output, SessionId, ToClient};

/// Maximum number of dropped notifications of one client that are reported to the operator.
const TOLD_DROPS: usize = 8;

/// Time in milliseconds after which a warm agent that has ended is started again.
const WARM_RETRY: u64 = 60_000;

/// The parts of the core beside its sessions.
pub(super) struct Context {
    pub(super) options: CoreOptions,
    pub(super) outbox: Outbox,
    pub(super) clients: Clients,
    pub(super) agents: Agents,
    /// Other hubs, and the requests forwarded to and by them.
    pub(super) cluster: Cluster,
    /// Sessions that need another agent process before their next prompt, because the agent does not stop.
    pub(super) to_replace: VecDeque<SessionId>,
    /// True if the hub is shutting down.
    pub(super) is_ending: bool,
    /// Reason why logs cannot be written at the moment.
    pub(super) log_problem: Option<String>,
    /// True if [`Output::Event`](super::Output::Event) is enabled.
    pub(super) has_events: bool,
    /// Name of the client whose answer is being recorded.
    pub(super) answered_by: Option<String>,
    /// Reason why the agent of the session that is being interrupted is gone.
    pub(super) interruption: Option<String>,
}

impl Context {
    pub(super) fn new(options: CoreOptions) -> Self {
        Context {
            agents: Agents::new(options.agents.len()),
            options,
            outbox: Outbox::default(),
            clients: Clients::default(),
            cluster: Cluster::default(),
            to_replace: VecDeque::new(),
            is_ending: false,
            log_problem: None,
            has_events: false,
            answered_by: None,
            interruption: None,
        }
    }

    /// Returns the rights of clients.
    pub(super) fn access(&self) -> Access<'_> {
        Access::new(&self.options, &self.clients)
    }

    /// Returns the questions outside sessions.
    pub(super) fn direct_questions(&mut self) -> DirectQuestions<'_> {
        DirectQuestions::new(&mut self.clients, &self.agents, &mut self.outbox)
    }

    /// Responds to a request of a client.
    pub(super) fn reply(&mut self, connection: ConnectionId, id: &RequestId<'static>, outcome: Outcome) {
        if let Some(line) = self.response(connection, id, outcome) {
            self.outbox.push(Output::Send { connection, line });
        }
    }

    /// Ends a pending request of a client. Returns the line with the response, unless the client is at another hub,
    /// which gets a reply instead.
    pub(super) fn response(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        outcome: Outcome,
    ) -> Option<ToClient> {
        let client = self.clients.connections.get_mut(&connection)?;
        let asked = client.pending.close(Side::Client, id)?;
        if client.forwarded_key.is_some() {
            self.answer_received(connection, asked, outcome);
            return None;
        }
        let line = ToClient::plain(lines::answer(id, &outcome).into(), asked.stream.clone());
        if let Some(operation) = asked.operation {
            self.clients.answers.keep(&client.identity.key(), operation, outcome);
        }
        Some(line)
    }

    /// Reports a notification that was dropped to the operator. The client cannot be told, because notifications have
    /// no response.
    pub(super) fn drop_notification(&mut self, connection: ConnectionId, method: &str, reason: &str) {
        let Some(client) = self.clients.connections.get_mut(&connection) else { return };
        client.dropped += 1;
        if client.dropped > TOLD_DROPS {
            return;
        }
        let end =
            if client.dropped == TOLD_DROPS { "; further drops of this client are not reported" } else { "" };
        let (identity, method) = (client.identity.name.clone(), lines::truncated(method));
        self.outbox.report(format!("dropped notification {method} from {identity}: {reason}{end}"));
    }

    /// Responds to a request with an error.
    pub(super) fn refuse(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        code: i32,
        message: impl Into<String>,
        data: Option<Value>,
    ) {
        let error = Outcome::error(code, message, data);
        match code {
            // The response to a cancelled request is final, so it is cached for duplicates.
            codes::REQUEST_CANCELLED => self.reply(connection, id, error),
            _ => self.decline(connection, id, error),
        }
    }

    /// Refuses a request for which nothing was done. The refusal is not cached, so a retry is evaluated again.
    pub(super) fn decline(&mut self, connection: ConnectionId, id: &RequestId<'static>, error: Outcome) {
        let client = self.clients.connections.get_mut(&connection);
        if let Some(asked) = client.and_then(|client| client.pending.get_mut(Side::Client, id)) {
            asked.operation = None;
        }
        self.reply(connection, id, error);
    }

    /// Refuses a message that waited for an agent that did not start.
    pub(super) fn refuse_waiting(
        &mut self,
        connection: ConnectionId,
        message: &ClientMessage,
        error: &Outcome,
    ) {
        let Some(request) = message.request() else {
            // A notification or an answer: its client waits for nothing.
            return self.outbox.drop_message(Dropped::WaitedInVain);
        };
        self.decline(connection, &request.id, error.clone());
    }

    /// Sends the response to a forwarded request to the hub of the client.
    pub(super) fn answer_received(
        &mut self,
        connection: ConnectionId,
        asked: PendingClientRequest,
        outcome: Outcome,
    ) {
        let proxy = self.clients.connections.get(&connection);
        let Some((key, identity)) =
            proxy.and_then(|proxy| Some((proxy.forwarded_key.clone()?, proxy.identity.key())))
        else {
            return;
        };
        let Some(ReceivedRequest { session, last, .. }) = self.dismiss(&key) else { return };
        let (word, text) = outcome_text(&outcome);
        // Every forwarded request has a key, unless it was declined.
        let reply = json!({word: text, "after": last, "declined": asked.operation.is_none()});
        if let Some(operation) = asked.operation {
            self.clients.answers.keep(&identity, operation, outcome);
        }
        self.send_forward_reply(&key, &session, &reply);
    }

    /// Supersedes a prompt by a duplicate, which gets the response instead.
    pub(super) fn supersede(&mut self, (connection, request): &(ConnectionId, RequestId<'static>)) {
        let key = self.clients.connections.get(connection).and_then(|proxy| proxy.forwarded_key.clone());
        let Some(key) = key else {
            // The connection is usually closed by then.
            let message =
                "superseded: the same prompt was sent again over another connection, which gets the response";
            return self.refuse(*connection, request, codes::INTERNAL_ERROR, message, None);
        };
        if let Some(received) = self.dismiss(&key) {
            self.send_forward_reply(&key, &received.session, &json!({"taken": true}));
        }
    }

    pub(super) fn dismiss(&mut self, key: &str) -> Option<ReceivedRequest> {
        let received = self.cluster.received.remove(key)?;
        self.clients.connections.remove(&received.connection);
        Some(received)
    }

    pub(super) fn send_forward_reply(&mut self, key: &str, session: &SessionId, reply: &Value) {
        let text = reply.to_string();
        self.cluster.replies.keep(session, key.to_owned(), Outcome::Result(text.clone()));
        self.outbox.push(Output::ForwardReply { key: key.to_owned(), session: Arc::clone(session), text });
    }

    /// Replies that this hub does not own the session.
    pub(super) fn reject_not_owner(&mut self, key: String, session: &SessionId) {
        self.dismiss(&key);
        let text = json!({"elsewhere": true}).to_string();
        self.outbox.push(Output::ForwardReply { key, session: Arc::clone(session), text });
    }

    pub(super) fn refuse_busy(&mut self, client: &(ConnectionId, RequestId<'static>)) {
        let message = "the agent has too many pending requests; try again later";
        self.refuse(client.0, &client.1, codes::INTERNAL_ERROR, message, None);
    }

    /// Returns the running or starting process of an agent that was offered these capabilities. Each session of a confined
    /// agent has a process of its own, for its folders.
    pub(super) fn process_with(&self, agent: usize, services: Services, roots: &[String]) -> Option<AgentId> {
        let is_confined = self.options.is_confined(agent);
        self.agents.processes.iter().find_map(|(id, process)| {
            let is_it = process.agent == agent && process.services == services && process.takes_sessions();
            let is_free =
                || process.roots == roots && process.is_without_sessions() && !self.agents.is_used(*id);
            (is_it && (!is_confined || is_free())).then_some(*id)
        })
    }

    pub(super) fn start_agent(&mut self, agent: usize, services: Services, roots: Vec<String>) -> AgentId {
        let services = self.options.offered(agent, services);
        let roots = if self.options.is_confined(agent) { roots } else { Vec::new() };
        self.agents.last_process += 1;
        let id = self.agents.last_process;
        let mut process = AgentProcess::new(agent, services, roots.clone(), self.outbox.now);
        let number = process.register(PendingAgentRequest::Handshake);
        let params = json!({
            "protocolVersion": 2,
            "info": {"name": "switchboard", "version": self.options.version},
            "capabilities": services.capabilities(),
        });
        let line = lines::call(number.as_ref(), "initialize", Some(&Raw::from(params)), Rewrite::default());
        process.handshake_lines.push((Channel::ToAgent, line.as_str().into()));
        self.agents.processes.insert(id, process);
        // The handshake is queued right after the start, so that it is the first line the agent gets.
        self.outbox.push(Output::StartAgent { process: id, agent, services, roots });
        self.outbox.push(Output::ToAgent { process: id, line, session: None });
        id
    }

    /// Returns the process of an agent, if it is ready. Otherwise starts it and dispatches the message again when it
    /// is.
    pub(super) fn ready_agent(
        &mut self,
        agent: usize,
        connection: ConnectionId,
        message: &ClientMessage,
    ) -> Option<AgentId> {
        self.when_ready(self.agents.process_of(agent), agent, connection, message, Vec::new())
    }

    /// Returns the process for a client that opens a session, which was offered the capabilities of this client.
    pub(super) fn ready_agent_for(
        &mut self,
        agent: usize,
        connection: ConnectionId,
        message: &ClientMessage,
        roots: Vec<String>,
    ) -> Option<AgentId> {
        let services = self.options.offered(agent, self.clients.services_at(connection));
        let process = self.process_with(agent, services, &roots);
        self.when_ready(process, agent, connection, message, roots)
    }

    /// Returns a process if it is ready. Starts one if there is none. The message waits until the process is ready.
    pub(super) fn when_ready(
        &mut self,
        process: Option<AgentId>,
        agent: usize,
        connection: ConnectionId,
        message: &ClientMessage,
        roots: Vec<String>,
    ) -> Option<AgentId> {
        let process =
            process.unwrap_or_else(|| self.start_agent(agent, self.clients.services_at(connection), roots));
        let known = self.agents.processes.get_mut(&process)?;
        if known.is_ready {
            return Some(process);
        }
        known.waiting.push((connection, message.clone()));
        None
    }

    /// Starts the processes of warm agents that do not run. One that fails is tried again after [`WARM_RETRY`].
    pub(super) fn keep_warm(&mut self) {
        if self.is_ending || self.log_problem.is_some() {
            return;
        }
        for agent in 0..self.options.warm.len() {
            let is_kept = self.options.warm.get(agent) == Some(&true) && !self.options.is_confined(agent);
            if !is_kept || self.process_with(agent, Services::default(), &[]).is_some() {
                continue;
            }
            let is_due = |at: &u64| self.outbox.now.saturating_sub(*at) >= WARM_RETRY;
            if self.agents.warmed.get(&agent).is_none_or(is_due) {
                self.agents.warmed.insert(agent, self.outbox.now);
                self.start_agent(agent, Services::default(), Vec::new());
            }
        }
    }

    /// Returns true if a process is the one that is kept running for its agent.
    pub(super) fn is_warm(&self, id: AgentId) -> bool {
        let Some(agent) = self.agents.processes.get(&id).map(|process| process.agent) else {
            return false;
        };
        self.options.warm.get(agent) == Some(&true)
            && self.process_with(agent, Services::default(), &[]) == Some(id)
    }

    /// Ends an agent process. Its sessions become dormant when it has exited, and prompts wait until then.
    pub(super) fn end_agent(&mut self, process: AgentId, reason: &str) {
        let Some(known) = self.agents.processes.get_mut(&process) else { return };
        if !std::mem::replace(&mut known.is_ending, true) {
            known.end_reason = Some(format!("the agent {reason}"));
            self.outbox.push(Output::EndAgent { process });
        }
    }

    pub(super) fn may_begin(&self) -> Result<(), Refusal> {
        if self.is_ending {
            return Err((codes::INTERNAL_ERROR, "the hub is shutting down".to_owned(), None));
        }
        Ok(())
    }

    pub(super) fn may_attach(&self, connection: ConnectionId, id: Option<&SessionId>) -> Result<(), Refusal> {
        let Some(client) = self.clients.connections.get(&connection) else { return Ok(()) };
        let is_attached = id.is_some_and(|id| client.subscriptions.contains_key(id));
        if client.subscriptions.len() >= MAX_SUBSCRIPTIONS && !is_attached {
            let message = format!(
                "a connection can be attached to at most {MAX_SUBSCRIPTIONS} sessions; detach from one first"
            );
            return Err((codes::INTERNAL_ERROR, message, None));
        }
        Ok(())
    }

    pub(super) fn send_forwarded(
        &mut self,
        ticket: u64,
        hub: Arc<str>,
        session: &SessionId,
        message: &Value,
        client: Option<(ConnectionId, ClientMessage)>,
    ) {
        let message: Arc<str> = message.to_string().into();
        let output = Output::Forward { hub: Arc::clone(&hub), ticket, message: Arc::clone(&message) };
        let forwarded = ForwardedRequest {
            session: Arc::clone(session),
            hub,
            message,
            client,
            is_due: false,
            is_refused: false,
            is_superseded: false,
        };
        self.cluster.forwarded.insert(ticket, forwarded);
        self.outbox.push(output);
    }

    /// Adds an idempotency key to a line that has none, so that the owner recognizes duplicates.
    pub(super) fn with_idempotency_key(&self, line: &ClientMessage, ticket: u64) -> ClientMessage {
        let Some(params) = line.params() else { return line.clone() };
        let params = params.cloned().unwrap_or_else(|| Raw::from(json!({})));
        if OPERATION_ID.of(&params).is_some() {
            return line.clone();
        }
        let name = format!("{}.{ticket}", self.options.name.as_deref().unwrap_or_default());
        line.with_params(OPERATION_ID.set(&params, name))
    }

    /// Cancels a forwarded request of a client. Returns whether there was one.
    pub(super) fn cancel_forwarded(&mut self, connection: ConnectionId, id: &RequestId<'static>) -> bool {
        let is_it = |forwarded: &ForwardedRequest| {
            forwarded.client.as_ref().is_some_and(|(from, line)| {
                *from == connection && line.request().is_some_and(|request| request.id == *id)
            })
        };
        let found = self.cluster.forwarded.iter().find(|(_, forwarded)| is_it(forwarded));
        let Some((number, forwarded)) = found else { return false };
        let (number, hub, session) = (*number, Arc::clone(&forwarded.hub), Arc::clone(&forwarded.session));
        let key = format!("{}.{number}", self.options.name.as_deref().unwrap_or_default());
        let ticket = self.outbox.next_ticket();
        let message = json!({"session": &*session, "cancel": key});
        self.send_forwarded(ticket, hub, &session, &message, None);
        true
    }

    /// Returns whether the client of a forwarded request is still connected and waits for the response.
    pub(super) fn is_awaited(&self, ticket: u64) -> bool {
        let client = self.cluster.forwarded.get(&ticket).and_then(|forwarded| forwarded.client.as_ref());
        let Some((connection, line)) = client else { return false };
        let client = self.clients.connections.get(connection);
        let is_pending = |id| client.is_some_and(|client| client.pending.contains(Side::Client, id));
        line.request().is_some_and(|request| is_pending(&request.id))
    }

    /// Sends a notification without a session to every client of the agent.
    pub(super) fn broadcast(&mut self, process: AgentId, method: &str, params: Option<&Raw<'_>>) {
        let Some(agent) = self.agents.processes.get(&process).map(|process| process.agent) else { return };
        let text: SharedText = lines::call(None, method, params, Rewrite::default()).into();
        if let Some(process) = self.agents.processes.get_mut(&process) {
            // Kept before it is sent: a client that completes its handshake meanwhile gets it from here.
            process.remember_broadcast(method, &text);
        }
        let concerned = self.clients.connections.iter().filter(|(_, client)| {
            client.agent == agent && client.is_initialized && client.receives_broadcasts()
        });
        let concerned: Vec<ConnectionId> = concerned.map(|(id, _)| *id).collect();
        for connection in concerned {
            self.outbox.send(connection, text.clone(), None);
        }
    }

    pub(super) fn name_of(&self, process: AgentId) -> String {
        let agent =
            self.agents.processes.get(&process).and_then(|process| self.options.agents.get(process.agent));
        agent.cloned().unwrap_or_default()
    }

    /// Returns whether a notification is a duplicate by its idempotency key. A client that reconnects sends it again,
    /// and a late cancellation must not end work that began after it.
    pub(super) fn is_duplicate_notification(
        &mut self,
        connection: ConnectionId,
        params: Option<&Raw<'_>>,
    ) -> bool {
        let Some(client) = self.clients.connections.get(&connection) else { return true };
        let Some(operation) = params.and_then(|params| OPERATION_ID.of(params)) else { return false };
        let key = client.identity.key();
        let is_duplicate = self.clients.answers.get(&key, &operation).is_some();
        self.clients.answers.keep(&key, operation, Outcome::Result("{}".to_owned()));
        is_duplicate
    }
}
