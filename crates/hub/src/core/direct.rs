//! Questions that belong to a request of one client and to no session, such as the form of a login. Nothing of them stands
//! in a log, so the agent has to hear that nobody answers when the client goes.

use switchboard_acp::rpc::{Request, RequestId, codes};
use switchboard_acp::{OpenRequest, Raw, Side, Wire, WireFormat, v2};
use switchboard_store::Role;

use super::connection::{About, Connection, Topic};
use super::lines::{self, Outcome, Rewrite};
use super::memory::{ID_IN_USE, Question, request_named};
use super::questions::{ELICITATION, MISFITS, PERMISSION, cancelled};
use super::{ConnectionId, Core, HostId, Output, SessionId};

/// How much one client may be asked outside sessions at a time.
const DIRECT: usize = 16;
/// How many requests of an agent that the hub does not know one client may have open.
const PASSED_ON: usize = 1024;

/// What one client is asked outside any session.
#[derive(Debug, Clone)]
pub(super) struct DirectQuestion {
    /// The agent that asks.
    pub(super) host: HostId,
    /// The question as the agent put it, about the client's own request.
    pub(super) question: Question,
    /// The session that it is about, for requests that the hub does not know.
    pub(super) session: Option<SessionId>,
    /// The clients that were asked.
    pub(super) asked: Vec<ConnectionId>,
}

impl DirectQuestion {
    /// Whether the hub does not know what is asked: whatever a client answers is passed on.
    fn is_unknown(&self) -> bool {
        !matches!(&*self.question.method, PERMISSION | ELICITATION)
    }

    /// What the agent is told when no client answers.
    fn no_answer(&self) -> Outcome {
        match self.is_unknown() {
            true => Outcome::error(codes::REQUEST_CANCELLED, "the request was cancelled", None),
            false => cancelled(&self.question.method),
        }
    }
}

impl Connection {
    /// What it is asked outside any session, with the ids that it knows.
    fn direct_questions(&self) -> impl Iterator<Item = (&RequestId<'static>, &DirectQuestion)> {
        self.asked.iter().filter_map(|(_, id, topic)| match &topic.about {
            About::Direct(direct) => Some((id, direct)),
            About::Question(..) => None,
        })
    }

    /// Whether it can be asked something outside any session.
    fn can_answer_directly(&self, question: &Question) -> bool {
        self.guest.is_none() && self.who.role >= Role::Use && self.can_answer(question)
    }
}

impl Core {
    /// The agent asks something about a request of a client.
    pub(super) fn asked_outside(&mut self, host: HostId, request: &Request<'_>) {
        if let Err((code, message)) = self.ask_about(host, request) {
            self.refuse_agent(host, &request.id, code, &message);
        }
    }

    /// Asks the client whose request it is, or says why not.
    fn ask_about(&mut self, host: HostId, request: &Request<'_>) -> Result<(), (i32, String)> {
        let mut question = Question::of(request);
        if question.method != ELICITATION {
            let message =
                format!("at /params/sessionId: {} needs the session that it is about", question.method);
            return Err((codes::INVALID_PARAMS, message));
        }
        v2::CreateElicitationRequest::decode_tolerant(question.params.as_str(), WireFormat::Any)
            .map_err(|error| (codes::INVALID_PARAMS, error.to_string()))?;
        let is_it = |(_, asked): (_, &DirectQuestion)| asked.host == host && asked.question.id == question.id;
        if self.connections.values().flat_map(Connection::direct_questions).any(is_it) {
            return Err((codes::INVALID_REQUEST, ID_IN_USE.to_owned()));
        }
        let about = request_named(&question.params);
        let client = about.and_then(|id| self.hosts.get(&host)?.client_of(&id).cloned());
        let is_asked = client.is_some_and(|(connection, id)| {
            // The client knows its request by its own id.
            let id = id.encode(WireFormat::Any);
            let params = lines::merged(Some(&question.params), &[("requestId", &id)]);
            question.params = Raw::parse(params).unwrap_or(question.params);
            let direct = DirectQuestion { host, question, session: None, asked: Vec::new() };
            self.ask_directly(connection, direct, 0)
        });
        let nobody = || "nobody is there who could be asked this outside a session".to_owned();
        is_asked.then_some(()).ok_or_else(|| (codes::INVALID_PARAMS, nobody()))
    }

    /// Passes a request that the hub does not know on to a client, as a bridge does. Of several the one that came last is asked
    /// first, and one that does not know the method either leaves it to the next.
    pub(super) fn pass_request(&mut self, host: HostId, request: &Request<'_>, session: Option<&SessionId>) {
        let mut question = Question::of(request);
        let is_it = |(_, asked): (_, &DirectQuestion)| asked.host == host && asked.question.id == question.id;
        if self.connections.values().flat_map(Connection::direct_questions).any(is_it) {
            return self.refuse_agent(host, &request.id, codes::INVALID_REQUEST, ID_IN_USE);
        }
        if let Some(id) = session
            && let Some(memory) = self.sessions.get(id).and_then(|known| known.memory.as_ref())
            && let Some(name) = lines::text_of(Some(&question.params), "sessionId")
        {
            let name = lines::quoted(&memory.name_for_clients(id, &name));
            let params = lines::merged(Some(&question.params), &[("sessionId", &name)]);
            question.params = Raw::parse(params).unwrap_or(question.params);
        }
        let session = session.cloned();
        self.offer(DirectQuestion { host, question, session, asked: Vec::new() });
    }

    /// Asks the next client that may answer a request which the hub does not know; where there is none, the agent hears it.
    fn offer(&mut self, mut direct: DirectQuestion) {
        let agent = self.hosts.get(&direct.host).map(|host| host.agent);
        let services = self.hosts.get(&direct.host).map(|host| host.services).unwrap_or_default();
        loop {
            let is_next = |connection: &ConnectionId, client: &Connection| {
                let is_there = match &direct.session {
                    Some(session) => client.attachments.contains_key(session),
                    None => Some(client.agent) == agent && client.is_initialized && client.may_hear_agent(),
                };
                is_there
                    && !direct.asked.contains(connection)
                    && client.can_answer_directly(&direct.question)
                    && client.serves(*connection, &direct.question.method, services)
            };
            let mut clients = self.connections.iter().rev();
            let Some(connection) = clients.find_map(|(id, client)| is_next(id, client).then_some(*id)) else {
                let message = format!("no client of the hub knows {}", lines::named(&direct.question.method));
                return self.tell_agent(&direct, &Outcome::error(codes::METHOD_NOT_FOUND, message, None));
            };
            direct.asked.push(connection);
            if self.ask_directly(connection, direct.clone(), 0) {
                return;
            }
        }
    }

    fn ask_directly(&mut self, connection: ConnectionId, direct: DirectQuestion, misfits: usize) -> bool {
        let Some(client) = self.connections.get_mut(&connection) else { return false };
        let most = if direct.is_unknown() { PASSED_ON } else { DIRECT };
        if !client.can_answer_directly(&direct.question) || client.direct_questions().count() >= most {
            return false;
        }
        client.last_id += 1;
        let number = RequestId::Number(client.last_id);
        let (text, stream) = (line_of(&number, &direct), direct.session.clone());
        let topic = Topic { about: About::Direct(direct), misfits };
        let is_asked = client.asked.open(Side::Agent, &number, topic).is_ok();
        if is_asked {
            self.send(connection, text, stream.as_ref());
        }
        is_asked
    }

    /// A client answers what it was asked outside any session.
    pub(super) fn answer_directly(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'_>,
        direct: &DirectQuestion,
        misfits: usize,
        outcome: Outcome,
    ) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        client.asked.answered(Side::Client, id);
        if direct.is_unknown() && outcome.is_error_of(codes::METHOD_NOT_FOUND) {
            return self.offer(direct.clone());
        }
        let outcome = match direct.question.misfit(&outcome) {
            // The token may have lost the right meanwhile.
            _ if !client.can_answer_directly(&direct.question) => direct.no_answer(),
            Some(reason) => {
                self.tell(format!("an answer to a form does not fit: {reason}"));
                if misfits < MISFITS && self.ask_directly(connection, direct.clone(), misfits + 1) {
                    return;
                }
                cancelled(&direct.question.method)
            }
            None => outcome,
        };
        self.tell_agent(direct, &outcome);
    }

    /// A client is gone: what it was asked has no answer.
    pub(super) fn abandon_direct(&mut self, connection: ConnectionId) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        for OpenRequest { about, .. } in client.asked.drain_of(Side::Agent) {
            match about.about {
                // Another client may know what it is about.
                About::Direct(direct) if direct.is_unknown() => self.offer(direct),
                About::Direct(direct) => self.tell_agent(&direct, &direct.no_answer()),
                About::Question(..) => {}
            }
        }
    }

    /// An agent takes a question back, or is gone with all of them: whoever was asked is told.
    pub(super) fn withdraw_direct(&mut self, host: HostId, only: Option<&RequestId<'_>>) {
        let mut withdrawn = Vec::new();
        for (&connection, client) in &mut self.connections {
            let taken = client.asked.drain_if(|_, _, topic| match &topic.about {
                About::Direct(direct) => {
                    direct.host == host && only.is_none_or(|only| *only == direct.question.id)
                }
                About::Question(..) => false,
            });
            withdrawn.extend(taken.into_iter().map(|taken| (connection, taken)));
        }
        for (connection, OpenRequest { id, about, .. }) in withdrawn {
            self.send(connection, lines::cancel(&id), None);
            if let (Some(_), About::Direct(direct)) = (only, about.about) {
                // Also what is taken back has an answer.
                self.tell_agent(&direct, &direct.no_answer());
            }
        }
    }

    /// Asks a client that was cut off once more, under the same ids.
    pub(super) fn repeat_direct(&mut self, connection: ConnectionId) {
        let Some(client) = self.connections.get(&connection) else { return };
        let asked = client.direct_questions().map(|(id, direct)| line_of(id, direct));
        for text in asked.collect::<Vec<_>>() {
            self.send(connection, text, None);
        }
    }

    fn tell_agent(&mut self, direct: &DirectQuestion, outcome: &Outcome) {
        let line = lines::answer(&direct.question.id, outcome);
        let session = direct.session.clone();
        self.output.push_back(Output::ToHost { host: direct.host, line, session });
    }
}

fn line_of(id: &RequestId<'_>, direct: &DirectQuestion) -> String {
    lines::call(Some(id), &direct.question.method, Some(&direct.question.params), Rewrite::default())
}
