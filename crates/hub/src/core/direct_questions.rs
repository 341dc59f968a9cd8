//! Questions about a request of one client, outside any session, such as the form of a login. They are not in a log, so
//! the agent gets a response as soon as the client disconnects.

use std::sync::Arc;

use switchboard_acp::rpc::{Request, RequestId, codes};
use switchboard_acp::{OpenRequest, Raw, Side, Wire, WireFormat, v2};

use super::agents::Agents;
use super::clients::Clients;
use super::connection::{Connection, PendingQuestion, QuestionSource};
use super::lines::{self, Outcome, Rewrite};
use super::outbox::Outbox;
use super::questions::{ELICITATION, MAX_INVALID_ANSWERS, PERMISSION, cancelled};
use super::session::Session;
use super::session_state::{ID_IN_USE, Question, referenced_request};
use super::{AgentId, ConnectionId, Output, SessionId};

/// Maximum number of questions outside sessions that one client can have at a time.
const DIRECT: usize = 16;
/// Maximum number of pending agent requests with unknown methods at one client.
const PASSED_ON: usize = 1024;

/// A question to one client, outside any session.
#[derive(Debug, Clone)]
pub(super) struct DirectQuestion {
    /// The agent process that asks.
    pub(super) process: AgentId,
    /// The question as the agent sent it, about the client's own request.
    pub(super) question: Question,
    /// The session that it belongs to, for requests with unknown methods.
    pub(super) session: Option<SessionId>,
    /// The clients that were asked.
    pub(super) asked: Vec<ConnectionId>,
}

impl DirectQuestion {
    /// Returns whether the hub does not know the method. Any answer is then forwarded unchecked.
    fn is_unknown(&self) -> bool {
        !matches!(&*self.question.method, PERMISSION | ELICITATION)
    }

    /// Returns the response that the agent gets if no client answers.
    fn no_answer(&self) -> Outcome {
        match self.is_unknown() {
            true => Outcome::error(codes::REQUEST_CANCELLED, "the request was cancelled", None),
            false => cancelled(&self.question.method),
        }
    }
}

/// The questions outside sessions.
pub(super) struct DirectQuestions<'a> {
    clients: &'a mut Clients,
    agents: &'a Agents,
    outbox: &'a mut Outbox,
}

impl<'a> DirectQuestions<'a> {
    pub(super) fn new(clients: &'a mut Clients, agents: &'a Agents, outbox: &'a mut Outbox) -> Self {
        DirectQuestions { clients, agents, outbox }
    }

    /// Handles a request of an agent about a request of a client.
    pub(super) fn direct_request(&mut self, process: AgentId, request: &Request<'_>) {
        if let Err((code, message)) = self.ask_about(process, request) {
            self.outbox.refuse_agent(process, &request.id, code, &message);
        }
    }

    /// Asks the client whose request it is about. Fails with code and message if that is not possible.
    fn ask_about(&mut self, process: AgentId, request: &Request<'_>) -> Result<(), (i32, String)> {
        let mut question = Question::of(request);
        if question.method != ELICITATION {
            let message = format!("at /params/sessionId: {} needs a session id", question.method);
            return Err((codes::INVALID_PARAMS, message));
        }
        v2::CreateElicitationRequest::decode_tolerant(question.params.as_str(), WireFormat::Any)
            .map_err(|error| (codes::INVALID_PARAMS, error.to_string()))?;
        let is_it =
            |(_, asked): (_, &DirectQuestion)| asked.process == process && asked.question.id == question.id;
        if self.clients.connections.values().flat_map(Connection::direct_questions).any(is_it) {
            return Err((codes::INVALID_REQUEST, ID_IN_USE.to_owned()));
        }
        let about = referenced_request(&question.params);
        let client = about.and_then(|id| self.agents.processes.get(&process)?.client_of(&id).cloned());
        let is_asked = client.is_some_and(|(connection, id)| {
            // The client knows its request by its own id.
            let id = id.encode(WireFormat::Any);
            let params = lines::merged(Some(&question.params), &[("requestId", &id)]);
            question.params = Raw::parse(params).unwrap_or(question.params);
            let direct = DirectQuestion { process, question, session: None, asked: Vec::new() };
            self.ask_directly(connection, direct, 0)
        });
        let nobody = || "no connected client can answer this question outside a session".to_owned();
        is_asked.then_some(()).ok_or_else(|| (codes::INVALID_PARAMS, nobody()))
    }

    /// Forwards an agent request with an unknown method to a client. The client that attached last is asked first; one
    /// that does not know the method either leaves it to the next.
    pub(super) fn forward_to_client(
        &mut self,
        process: AgentId,
        request: &Request<'_>,
        session: Option<&Session>,
    ) {
        let mut question = Question::of(request);
        let is_it =
            |(_, asked): (_, &DirectQuestion)| asked.process == process && asked.question.id == question.id;
        if self.clients.connections.values().flat_map(Connection::direct_questions).any(is_it) {
            return self.outbox.refuse_agent(process, &request.id, codes::INVALID_REQUEST, ID_IN_USE);
        }
        if let Some(session) = session
            && let Some(state) = &session.state
            && let Some(name) = lines::text_of(Some(&question.params), "sessionId")
        {
            let name = lines::quoted(&state.client_session_id(session.id(), &name));
            let params = lines::merged(Some(&question.params), &[("sessionId", &name)]);
            question.params = Raw::parse(params).unwrap_or(question.params);
        }
        let session = session.map(|session| Arc::clone(session.id()));
        self.offer(DirectQuestion { process, question, session, asked: Vec::new() });
    }

    /// Asks the next client that may answer a request with an unknown method. Without one, the agent gets an error.
    fn offer(&mut self, mut direct: DirectQuestion) {
        let agent = self.agents.processes.get(&direct.process).map(|process| process.agent);
        let services =
            self.agents.processes.get(&direct.process).map(|process| process.services).unwrap_or_default();
        loop {
            let is_next = |connection: &ConnectionId, client: &Connection| {
                let is_there = match &direct.session {
                    Some(session) => client.subscriptions.contains_key(session),
                    None => {
                        Some(client.agent) == agent && client.is_initialized && client.receives_broadcasts()
                    }
                };
                is_there
                    && !direct.asked.contains(connection)
                    && client.can_answer_directly(&direct.question)
                    && client.serves(*connection, &direct.question.method, services)
            };
            let mut clients = self.clients.connections.iter().rev();
            let Some(connection) = clients.find_map(|(id, client)| is_next(id, client).then_some(*id)) else {
                let message =
                    format!("no client of the hub supports {}", lines::truncated(&direct.question.method));
                return self
                    .respond_to_agent(&direct, &Outcome::error(codes::METHOD_NOT_FOUND, message, None));
            };
            direct.asked.push(connection);
            if self.ask_directly(connection, direct.clone(), 0) {
                return;
            }
        }
    }

    fn ask_directly(
        &mut self,
        connection: ConnectionId,
        direct: DirectQuestion,
        invalid_answers: usize,
    ) -> bool {
        let Some(client) = self.clients.connections.get_mut(&connection) else { return false };
        let most = if direct.is_unknown() { PASSED_ON } else { DIRECT };
        if !client.can_answer_directly(&direct.question) || client.direct_questions().count() >= most {
            return false;
        }
        client.last_id += 1;
        let number = RequestId::Number(client.last_id);
        let (text, stream) = (line_of(&number, &direct), direct.session.clone());
        let topic = PendingQuestion { about: QuestionSource::Direct(direct), invalid_answers };
        let is_asked = client.questions.open(Side::Agent, &number, topic).is_ok();
        if is_asked {
            self.outbox.send(connection, text, stream.as_ref());
        }
        is_asked
    }

    /// Handles the answer of a client to a direct question.
    pub(super) fn answer_directly(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'_>,
        direct: &DirectQuestion,
        invalid_answers: usize,
        outcome: Outcome,
    ) {
        let Some(client) = self.clients.connections.get_mut(&connection) else { return };
        client.questions.answered(Side::Client, id);
        if direct.is_unknown() && outcome.is_error_of(codes::METHOD_NOT_FOUND) {
            return self.offer(direct.clone());
        }
        let outcome = match direct.question.validation_error(&outcome) {
            // The token may have lost the right to answer meanwhile.
            _ if !client.can_answer_directly(&direct.question) => direct.no_answer(),
            Some(reason) => {
                self.outbox.report(format!("invalid answer to a form: {reason}"));
                if invalid_answers < MAX_INVALID_ANSWERS
                    && self.ask_directly(connection, direct.clone(), invalid_answers + 1)
                {
                    return;
                }
                cancelled(&direct.question.method)
            }
            None => outcome,
        };
        self.respond_to_agent(direct, &outcome);
    }

    /// Ends the direct questions of a client that has disconnected.
    pub(super) fn cancel_direct_of_client(&mut self, connection: ConnectionId) {
        let Some(client) = self.clients.connections.get_mut(&connection) else { return };
        for OpenRequest { about, .. } in client.questions.drain_of(Side::Agent) {
            match about.about {
                // Another client may know the method.
                QuestionSource::Direct(direct) if direct.is_unknown() => self.offer(direct),
                QuestionSource::Direct(direct) => self.respond_to_agent(&direct, &direct.no_answer()),
                QuestionSource::Question(..) => {}
            }
        }
    }

    /// Cancels the direct questions of an agent: one that it cancels itself, or all because the process has exited.
    pub(super) fn cancel_direct(&mut self, process: AgentId, only: Option<&RequestId<'_>>) {
        let mut take_cancelled = Vec::new();
        for (&connection, client) in &mut self.clients.connections {
            let taken = client.questions.drain_if(|_, _, topic| match &topic.about {
                QuestionSource::Direct(direct) => {
                    direct.process == process && only.is_none_or(|only| *only == direct.question.id)
                }
                QuestionSource::Question(..) => false,
            });
            take_cancelled.extend(taken.into_iter().map(|taken| (connection, taken)));
        }
        for (connection, OpenRequest { id, about, .. }) in take_cancelled {
            self.outbox.send(connection, lines::cancel(&id), None);
            if let (Some(_), QuestionSource::Direct(direct)) = (only, about.about) {
                // A cancelled request needs a response, too.
                self.respond_to_agent(&direct, &direct.no_answer());
            }
        }
    }

    /// Asks a client that has reconnected again, under the same ids.
    pub(super) fn ask_direct_again(&mut self, connection: ConnectionId) {
        let Some(client) = self.clients.connections.get(&connection) else { return };
        let asked = client.direct_questions().map(|(id, direct)| line_of(id, direct));
        for text in asked.collect::<Vec<_>>() {
            self.outbox.send(connection, text, None);
        }
    }

    fn respond_to_agent(&mut self, direct: &DirectQuestion, outcome: &Outcome) {
        let line = lines::answer(&direct.question.id, outcome);
        let session = direct.session.clone();
        self.outbox.push(Output::ToAgent { process: direct.process, line, session });
    }
}

fn line_of(id: &RequestId<'_>, direct: &DirectQuestion) -> String {
    lines::call(Some(id), &direct.question.method, Some(&direct.question.params), Rewrite::default())
}
