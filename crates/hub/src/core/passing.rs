//! What clients want of a session that another hub writes, and what other hubs' clients want of one that this hub writes: it is
//! passed on, and again until there is an answer, and done once.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_acp::extensions::{Author, OPERATION_ID};
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Raw, Side, Wire, WireFormat};
use switchboard_store::Role;

use super::connection::Asked;
use super::lines::{self, Outcome, Rewrite};
use super::notices::Act;
use super::requests::{Refusal, WAITING};
use super::{ConnectionId, Core, Identity, Output, SessionId};

/// The ids of what other hubs pass on begin here; those of connections are never so large.
const GUESTS: ConnectionId = 1 << 62;
/// How many messages may have been passed on and have no answer.
const PASSED: usize = 10_000;

/// Something that was passed on.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) session: SessionId,
    pub(super) hub: Arc<str>,
    pub(super) message: Arc<str>,
    /// Who wants it, and its line; `None` for answers to questions, which may come too late.
    pub(super) wanted: Option<(ConnectionId, Arc<str>)>,
    /// Whether nobody is asked at the moment.
    pub(super) is_due: bool,
    /// Whether the hub has said that it does not write the session.
    pub(super) is_refused: bool,
    /// Whether the hub gives the answer to a later duplicate of it.
    pub(super) is_superseded: bool,
}

/// Something that another hub has passed on.
#[derive(Debug)]
pub(super) struct Guest {
    connection: ConnectionId,
    session: SessionId,
}

impl Core {
    // ----- what this hub's clients want of a session that it does not write

    /// A message for a session that this hub does not write: it goes to the one that does. Where none is known it is found
    /// out first, and if there is none it becomes this one; then the message is looked at again.
    pub(super) fn elsewhere(
        &mut self,
        id: &SessionId,
        connection: ConnectionId,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        if let Some(key) = self.connections.get(&connection).and_then(|client| client.guest.clone()) {
            self.not_here(key, id);
            return Ok(());
        }
        let Some(session) = self.sessions.get_mut(id) else { return Ok(()) };
        let hub = session.hub.clone().filter(|hub| self.sharing.hubs.contains_key(hub));
        if let Some(hub) = hub {
            return self.pass_on(hub, id, connection, line);
        }
        if session.waiting.len() >= WAITING {
            return Err((codes::INTERNAL_ERROR, "too much waits for this session".to_owned(), None));
        }
        session.waiting.push_back((connection, Arc::clone(line)));
        self.own(id);
        Ok(())
    }

    fn pass_on(
        &mut self,
        hub: Arc<str>,
        id: &SessionId,
        connection: ConnectionId,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        let Some(client) = self.connections.get(&connection) else { return Ok(()) };
        if self.sharing.passed.len() >= PASSED {
            let message = "too much waits for other hubs; try again later".to_owned();
            return Err((codes::INTERNAL_ERROR, message, None));
        }
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let line = self.repeatable(line, ticket);
        // Whether the session is one for this client was looked at.
        let Identity { name, role, all: _, made } = &client.who;
        let message = json!({
            "session": &**id, "line": &*line, "client": client.client, "turns": client.is_told_of_turns,
            "who": {"name": &**name, "role": role.to_string(), "made": made},
        });
        if let Ok(Message::Request(request)) = Message::decode(&line, WireFormat::Any)
            && request.method == "session/prompt"
            && let Some(name) = request.params.as_ref().and_then(|params| OPERATION_ID.of(params))
        {
            self.acted(id, Act::Prompt(name), connection);
        }
        self.send_on(ticket, hub, id, &message, Some((connection, line)));
        Ok(())
    }

    /// A line with a name by which whoever gets it twice knows it.
    fn repeatable(&self, line: &Arc<str>, ticket: u64) -> Arc<str> {
        let (id, method, params) = match Message::decode(line, WireFormat::Any) {
            Ok(Message::Request(request)) => (Some(request.id), request.method, request.params),
            Ok(Message::Notification(call)) => (None, call.method, call.params),
            _ => return Arc::clone(line),
        };
        let params = params.unwrap_or_else(|| Raw::from(json!({})));
        if OPERATION_ID.of(&params).is_some() {
            return Arc::clone(line);
        }
        let name = format!("{}.{ticket}", self.options.name.as_deref().unwrap_or_default());
        let params = OPERATION_ID.set(&params, name);
        lines::call(id.as_ref(), &method, Some(&params), Rewrite::default()).into()
    }

    fn send_on(
        &mut self,
        ticket: u64,
        hub: Arc<str>,
        session: &SessionId,
        message: &Value,
        wanted: Option<(ConnectionId, Arc<str>)>,
    ) {
        let message: Arc<str> = message.to_string().into();
        let output = Output::PassOn { hub: Arc::clone(&hub), ticket, message: Arc::clone(&message) };
        let passed = Passed {
            session: Arc::clone(session),
            hub,
            message,
            wanted,
            is_due: false,
            is_refused: false,
            is_superseded: false,
        };
        self.sharing.passed.insert(ticket, passed);
        self.output.push_back(output);
    }

    /// A client answers a question of a session that another hub has.
    pub(super) fn answer_elsewhere(
        &mut self,
        id: &SessionId,
        place: u64,
        outcome: &Outcome,
        by: &Author<'_>,
        (connection, line): (ConnectionId, &Arc<str>),
    ) {
        let hub = self.sessions.get(id).and_then(|session| session.hub.clone());
        let Some(hub) = hub.filter(|hub| self.sharing.hubs.contains_key(hub)) else {
            // Where too much waits, the answer is as one that comes too late.
            let _ = self.elsewhere(id, connection, line);
            return;
        };
        // Who has answered is not told that somebody did.
        if let Some(client) = self.connections.get_mut(&connection)
            && let Some(number) = client.attachments.get_mut(id).and_then(|known| known.asked.remove(&place))
        {
            client.asked.close(Side::Agent, &number.into());
        }
        self.acted(id, Act::Answer(place), connection);
        let (key, text) = outcome_text(outcome);
        self.last_ticket += 1;
        let message = json!({"session": &**id, "question": place, key: text, "by": by});
        self.send_on(self.last_ticket, hub, id, &message, None);
    }

    /// A client takes back what was passed on. Says whether it was.
    pub(super) fn cancel_passed(&mut self, connection: ConnectionId, id: &RequestId<'static>) -> bool {
        let is_it = |passed: &Passed| {
            passed.wanted.as_ref().is_some_and(|(from, line)| {
                *from == connection
                    && matches!(Message::decode(line, WireFormat::Any), Ok(Message::Request(request)) if request.id == *id)
            })
        };
        let found = self.sharing.passed.iter().find(|(_, passed)| is_it(passed));
        let Some((number, passed)) = found else { return false };
        let (number, hub, session) = (*number, Arc::clone(&passed.hub), Arc::clone(&passed.session));
        let key = format!("{}.{number}", self.options.name.as_deref().unwrap_or_default());
        self.last_ticket += 1;
        let message = json!({"session": &*session, "cancel": key});
        self.send_on(self.last_ticket, hub, &session, &message, None);
        true
    }

    /// What another hub says to what was passed on; `None`: nothing in the time that it has.
    pub(crate) fn passed(&mut self, ticket: u64, reply: Option<&str>) {
        let Some(passed) = self.sharing.passed.get_mut(&ticket) else { return };
        let Some(reply) = reply.and_then(|reply| serde_json::from_str::<Value>(reply).ok()) else {
            passed.is_due = true;
            return;
        };
        if reply.get("elsewhere").is_some() {
            // The hub that takes it next may need a moment.
            (passed.is_due, passed.is_refused) = (true, true);
            return;
        }
        // The answer goes to a duplicate, which may be an older one that came late, of a connection that is gone. Whoever still
        // waits here asks again, and gets the outcome that is known by then.
        if reply.get("taken").is_some() && self.is_awaited(ticket) {
            if let Some(passed) = self.sharing.passed.get_mut(&ticket) {
                (passed.is_due, passed.is_superseded) = (true, true);
            }
            return;
        }
        let Some(Passed { session, wanted, .. }) = self.sharing.passed.remove(&ticket) else { return };
        let word = |key: &str| reply.get(key).and_then(Value::as_str).map(str::to_owned);
        let outcome = word("result").map(Outcome::Result).or(word("error").map(Outcome::Error));
        let (Some(outcome), Some((connection, line))) = (outcome, wanted) else { return };
        let Ok(Message::Request(request)) = Message::decode(&line, WireFormat::Any) else { return };
        // It must not overtake what stands before it in the log, and may come behind the end of what it answers.
        let after = reply.get("after").and_then(Value::as_u64);
        let ended = self.ended_before(&session, connection, request.params.as_ref(), after);
        let outcome = match &ended {
            Some(ended) => self.of_turn(connection, outcome, Some(ended)),
            None => outcome,
        };
        let request = request.id.into_owned();
        match reply["declined"] == true {
            true => self.decline(connection, &request, outcome),
            false => self.reply(connection, &request, outcome, after.map(|after| (&session, after))),
        }
    }

    /// Whether the client whose request was forwarded is still there and has no answer.
    fn is_awaited(&self, ticket: u64) -> bool {
        let wanted = self.sharing.passed.get(&ticket).and_then(|passed| passed.wanted.as_ref());
        let Some((connection, line)) = wanted else { return false };
        match Message::decode(line, WireFormat::Any) {
            Ok(Message::Request(request)) => {
                let client = self.connections.get(connection);
                client.is_some_and(|client| client.open.contains(Side::Client, &request.id.into_owned()))
            }
            _ => false,
        }
    }

    /// Sends a forwarded request once more, as a new one.
    pub(super) fn send_anew(&mut self, ticket: u64) {
        let Some(Passed { wanted: Some((connection, line)), .. }) = self.sharing.passed.remove(&ticket)
        else {
            return;
        };
        self.dispatch(connection, &line);
    }

    /// Answers forwarded requests whose hub cannot be reached because the servers of the log cannot: nobody knows how long
    /// that takes.
    pub(super) fn give_up_forwarded(&mut self, problem: &str) {
        // Answers to questions stay: their clients wait for nothing.
        let wanted: Vec<u64> = self
            .sharing
            .passed
            .iter()
            .filter(|(_, passed)| passed.wanted.is_some())
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in wanted {
            let Some((connection, line)) =
                self.sharing.passed.remove(&ticket).and_then(|passed| passed.wanted)
            else {
                continue;
            };
            let message = format!(
                "{problem}; this was sent to the hub that has the session, and whether that did it is not known: look at \
                 the session when the log is back"
            );
            self.not_started(connection, &line, &Outcome::error(codes::INTERNAL_ERROR, message, None));
        }
    }

    /// How the work on a prompt ended, where its client was told so already.
    fn ended_before(
        &self,
        id: &SessionId,
        connection: ConnectionId,
        params: Option<&Raw<'_>>,
        after: Option<u64>,
    ) -> Option<String> {
        let session = self.sessions.get(id)?;
        let attachment = self.connections.get(&connection)?.attachments.get(id)?;
        let is_told = attachment.place >= session.next && after.is_none_or(|after| attachment.place > after);
        let operation = params.and_then(|params| OPERATION_ID.of(params)).filter(|_| is_told)?;
        session.memory.as_ref()?.operation(&operation)?.ended.clone()
    }

    /// Something that was passed on did not get to the hub that writes the session: that one is found out anew.
    pub(super) fn again(&mut self, ticket: u64, was_refused: bool) {
        let Some(Passed { session: id, wanted, .. }) = self.sharing.passed.remove(&ticket) else { return };
        let Some((connection, line)) = wanted else { return };
        let request = match Message::decode(&line, WireFormat::Any) {
            Ok(Message::Request(request)) => Some((request.id.into_owned(), request.method.into_owned())),
            _ => None,
        };
        let Some(session) = self.sessions.get_mut(&id) else {
            if let Some((request, _)) = request {
                let message = format!("there is no session {id} any more");
                self.refuse(connection, &request, codes::RESOURCE_NOT_FOUND, message, None);
            }
            return;
        };
        if was_refused {
            session.hub = None;
        }
        // A prompt is known by its name in the log, should it have begun; the others come to the same when done twice.
        let is_safe = |method: &str| matches!(method, "session/prompt" | "session/close" | "session/delete");
        match request {
            Some((request, method)) if !was_refused && !is_safe(&method) => {
                let message = "the hub that had the session has gone before it answered; look, and try again";
                self.refuse(connection, &request, codes::INTERNAL_ERROR, message, None);
            }
            // What a hub that is gone was at is not cancelled any more.
            None if !was_refused => {}
            _ if session.is_ours => self.dispatch(connection, &line),
            _ => {
                session.waiting.push_back((connection, line));
                self.own(&id);
            }
        }
    }

    // ----- what other hubs' clients want of a session that this hub writes

    /// Another hub passes something on, under a name by which it is known when it comes again.
    pub(crate) fn asked_by_hub(&mut self, key: &str, message: &str) {
        let Ok(message) = serde_json::from_str::<Value>(message) else { return };
        let word = |key: &str| message.get(key).and_then(Value::as_str);
        let Some(id) = word("session").map(SessionId::from) else { return };
        let served = self.sharing.served.get(&id, key).cloned();
        if let Some(Outcome::Result(text) | Outcome::Error(text)) = served {
            self.output.push_back(Output::Answer { key: key.to_owned(), session: id, text });
            return;
        }
        if !self.sessions.get(&id).is_some_and(|session| session.is_ours) {
            return self.not_here(key.to_owned(), &id);
        }
        if self.sharing.guests.contains_key(key) {
            return;
        }
        if let Some(cancelled) = word("cancel") {
            self.cancel_guest(cancelled);
            return self.serve(key, &id, &json!({"taken": true}));
        }
        if let Some(place) = message.get("question").and_then(Value::as_u64) {
            let outcome = word("result").map(|text| Outcome::Result(text.to_owned()));
            let outcome = outcome.or_else(|| word("error").map(|text| Outcome::Error(text.to_owned())));
            if let Some(outcome) = outcome {
                self.settle(&id, place, &outcome, &Author::from_value(&message["by"]), None);
            }
            return self.serve(key, &id, &json!({"taken": true}));
        }
        let (Some(line), Some(who)) = (word("line").map(Arc::<str>::from), identity(&message["who"])) else {
            // Whoever waits would ask again without end.
            let text =
                "the hub that has the session does not understand the request; are both of the same version?";
            let error = Outcome::error(codes::INTERNAL_ERROR, text, None);
            let (word, text) = outcome_text(&error);
            return self.serve(key, &id, &json!({word: text, "declined": true}));
        };
        self.sharing.last_guest += 1;
        let connection = GUESTS + self.sharing.last_guest;
        let agent = self
            .sessions
            .get(&id)
            .and_then(|session| self.options.agents.iter().position(|agent| *agent == session.known.agent));
        self.connected(connection, who, agent.unwrap_or_default(), false, false);
        if let Some(guest) = self.connections.get_mut(&connection) {
            let word = |at: usize| message["client"][at].as_str().unwrap_or_default().to_owned();
            guest.client = (word(0), word(1));
            guest.is_initialized = true;
            guest.is_told_of_turns = message["turns"] == true;
            guest.guest = Some(key.to_owned());
        }
        let guest = Guest { connection, session: Arc::clone(&id) };
        self.sharing.guests.insert(key.to_owned(), guest);
        let is_request = matches!(Message::decode(&line, WireFormat::Any), Ok(Message::Request(_)));
        self.client_line(connection, &line);
        if !is_request {
            self.dismiss(key);
            self.serve(key, &id, &json!({"taken": true}));
        }
    }

    fn cancel_guest(&mut self, key: &str) {
        let Some(connection) = self.sharing.guests.get(key).map(|guest| guest.connection) else { return };
        let open = self.connections.get(&connection).map(|guest| guest.open.iter());
        let open = open.into_iter().flatten().map(|(_, id, _)| lines::id_text(id));
        for id in open.collect::<Vec<_>>() {
            if let Ok(params) = Raw::parse(format!(r#"{{"requestId":{id}}}"#)) {
                self.cancel_request(connection, Some(&params));
            }
        }
    }

    /// What another hub has passed on has its answer.
    pub(super) fn answer_guest(&mut self, connection: ConnectionId, asked: Asked, outcome: Outcome) {
        let guest = self.connections.get(&connection);
        let Some((key, who)) = guest.and_then(|guest| Some((guest.guest.clone()?, guest.who.key()))) else {
            return;
        };
        let Some(session) = self.dismiss(&key) else { return };
        let after = self.sessions.get(&session).map(|session| session.next.saturating_sub(1));
        let (word, text) = outcome_text(&outcome);
        // All that is passed on has a name, unless it was declined.
        let reply = json!({word: text, "after": after, "declined": asked.operation.is_none()});
        if let Some(operation) = asked.operation {
            self.answers.keep(&who, operation, outcome);
        }
        self.serve(&key, &session, &reply);
    }

    /// A duplicate of a prompt gets the answer instead: whoever waited for it is told so.
    pub(super) fn supersede(&mut self, (connection, request): &(ConnectionId, RequestId<'static>)) {
        let key = self.connections.get(connection).and_then(|guest| guest.guest.clone());
        let Some(key) = key else {
            // Nearly always this connection is gone.
            let message = "the same prompt was sent again over another connection, which gets the answer";
            return self.refuse(*connection, request, codes::INTERNAL_ERROR, message, None);
        };
        if let Some(session) = self.dismiss(&key) {
            self.serve(&key, &session, &json!({"taken": true}));
        }
    }

    fn dismiss(&mut self, key: &str) -> Option<SessionId> {
        let Guest { connection, session } = self.sharing.guests.remove(key)?;
        self.connections.remove(&connection);
        Some(session)
    }

    fn serve(&mut self, key: &str, session: &SessionId, reply: &Value) {
        let text = reply.to_string();
        self.sharing.served.keep(session, key.to_owned(), Outcome::Result(text.clone()));
        self.output.push_back(Output::Answer { key: key.to_owned(), session: Arc::clone(session), text });
    }

    /// This hub does not write the session, so it does not do what another one wants of it.
    pub(super) fn not_here(&mut self, key: String, session: &SessionId) {
        self.dismiss(&key);
        let text = json!({"elsewhere": true}).to_string();
        self.output.push_back(Output::Answer { key, session: Arc::clone(session), text });
    }
}

fn outcome_text(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::Result(text) => ("result", text),
        Outcome::Error(text) => ("error", text),
    }
}

fn identity(who: &Value) -> Option<Identity> {
    Some(Identity {
        name: who.get("name")?.as_str()?.into(),
        role: Role::parse(who.get("role")?.as_str()?)?,
        all: true,
        made: who.get("made")?.as_i64()?,
    })
}
