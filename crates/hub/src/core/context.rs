//! Everything that the methods of a session need beside the session: outputs, clients, agents and the other hubs.

use super::agent_process::{AgentProcess, PendingAgentRequest};
use super::agents::Agents;
use super::authorization::Access;
use super::clients::Clients;
use super::connection::PendingClientRequest;
use super::direct_questions::DirectQuestions;
use super::forwarding::{ReceivedRequest, outcome_text};
use super::lines::{Outcome, Rewrite};
use super::outbox::Outbox;
use super::ownership::Cluster;
use super::services::Services;
use super::{AgentId, ConnectionId, CoreOptions, Output, SessionId, ToClient, lines};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Raw, Side, Wire, WireFormat};
use switchboard_store::Channel;

/// Maximum number of dropped notifications of one client that are reported to the operator.
const TOLD_DROPS: usize = 8;

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
    pub(super) fn refuse_waiting(&mut self, connection: ConnectionId, message: &str, error: &Outcome) {
        let Ok(Message::Request(request)) = Message::decode(message, WireFormat::Any) else { return };
        let id = request.id.into_owned();
        self.decline(connection, &id, error.clone());
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
}
