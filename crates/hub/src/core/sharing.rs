//! Sessions of a log that several hubs share. At each time one of them writes a session, and has its agent; the others show what
//! it writes, and pass on to it what their clients want. Who writes a session is decided where the log is: here is only what
//! was last heard of it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Raw, Wire, WireFormat};
use switchboard_store::{Channel, Role};

use super::connection::{Answers, Asked};
use super::hosting::Purpose;
use super::lines::{self, OPERATION, Outcome, Rewrite};
use super::requests::{Refusal, WAITING};
use super::session::Session;
use super::{ConnectionId, Core, HostId, Identity, Memory, Output, SessionId};

/// What is said in a session whose agent was at another hub, which is gone.
const HUB_GONE: &str = "the turn was interrupted: the hub that had the agent is gone";
/// The ids of what other hubs pass on begin here; those of connections are never so large.
const GUESTS: ConnectionId = 1 << 62;
/// After how many milliseconds it is looked again who writes a session, and what has no answer yet is passed on again.
const LOOK: u64 = 500;
/// How many messages may have been passed on and have no answer.
const PASSED: usize = 10_000;

/// What other hubs are told of a hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HubAbout {
    /// Where its clients find it.
    pub address: String,
    /// The folders below which its sessions may work.
    pub roots: Vec<String>,
}

/// Who writes a session.
#[derive(Debug)]
pub(crate) enum Owned {
    /// This hub, from now on: what its log amounts to, and how long it is.
    Here(Box<Memory>, u64),
    /// The hub of this name.
    There(Arc<str>),
}

/// What concerns other hubs.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// The other hubs that are there.
    hubs: BTreeMap<Arc<str>, HubAbout>,
    /// What was passed on and has no answer.
    passed: BTreeMap<u64, Passed>,
    /// What others have passed on and has no answer, by their names of it.
    guests: HashMap<String, Guest>,
    /// The answers that they got, should they ask again.
    served: Answers,
    last_guest: u64,
    looked: u64,
}

/// Something that was passed on.
#[derive(Debug)]
struct Passed {
    session: SessionId,
    hub: Arc<str>,
    message: Arc<str>,
    /// Who wants it, and its line; `None` for answers to questions, which may come too late.
    wanted: Option<(ConnectionId, Arc<str>)>,
    /// Whether nobody is asked at the moment.
    is_due: bool,
    /// Whether the hub has said that it does not write the session.
    is_refused: bool,
}

/// Something that another hub has passed on.
#[derive(Debug)]
struct Guest {
    connection: ConnectionId,
    session: SessionId,
}

impl Core {
    /// Whether this hub writes a session.
    pub(super) fn is_ours(&self, id: &SessionId) -> bool {
        self.sessions.get(id).is_none_or(|session| session.is_ours)
    }

    /// The other hubs that are there.
    pub(crate) fn hubs_are(&mut self, hubs: Vec<(Arc<str>, HubAbout)>) {
        self.sharing.hubs = hubs.into_iter().collect();
    }

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
        if lines::meta_text(params.as_ref(), OPERATION).is_some() {
            return Arc::clone(line);
        }
        let name = format!("{}.{ticket}", self.options.name.as_deref().unwrap_or_default());
        let meta = params.as_ref().and_then(|params| params.get("_meta")).filter(Raw::is_object);
        let meta = lines::merged(meta.as_ref(), &[(OPERATION, &lines::quoted(&name))]);
        let params = lines::merged(params.as_ref(), &[("_meta", &meta)]);
        match Raw::parse(params) {
            Ok(params) => lines::call(id.as_ref(), &method, Some(&params), Rewrite::default()).into(),
            Err(_) => Arc::clone(line),
        }
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
        let passed =
            Passed { session: Arc::clone(session), hub, message, wanted, is_due: false, is_refused: false };
        self.sharing.passed.insert(ticket, passed);
        self.output.push_back(output);
    }

    /// A client answers a question of a session that another hub has.
    pub(super) fn answer_elsewhere(
        &mut self,
        id: &SessionId,
        place: u64,
        outcome: &Outcome,
        by: &Value,
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
            client.asked.remove(&number);
        }
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
        self.reply(connection, &request.id.into_owned(), outcome, after.map(|after| (&session, after)));
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
        let operation = lines::meta_text(params, OPERATION).filter(|_| is_told)?;
        session.memory.as_ref()?.operation(&operation)?.ended.clone()
    }

    /// Something that was passed on did not get to the hub that writes the session: that one is found out anew.
    fn again(&mut self, ticket: u64, was_refused: bool) {
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

    // ----- who writes a session

    /// Has this hub write a session, unless another one does.
    fn own(&mut self, id: &SessionId) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.asked_at = now;
        if !std::mem::replace(&mut session.is_asking, true) {
            self.output.push_back(Output::Own { session: Arc::clone(id) });
        }
    }

    /// It is known who writes a session.
    pub(crate) fn owned(&mut self, id: &SessionId, owned: Result<Owned, String>) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.is_asking = false;
        let waiting = std::mem::take(&mut session.waiting);
        match owned {
            Ok(Owned::There(hub)) => {
                self.sharing.hubs.entry(Arc::clone(&hub)).or_default();
                session.hub = Some(hub);
            }
            Ok(Owned::Here(memory, length)) => {
                session.is_ours = true;
                session.hub = None;
                self.replace(id, *memory, length);
                self.interrupted(id, HUB_GONE, None);
                self.pump_all(id);
                let passed = self.sharing.passed.iter().filter(|(_, passed)| passed.session == *id);
                for ticket in passed.map(|(ticket, _)| *ticket).collect::<Vec<_>>() {
                    self.again(ticket, false);
                }
            }
            Err(reason) => {
                for (connection, line) in waiting {
                    let message = format!("the log of {id} cannot be written: {reason}");
                    let error = Outcome::error(codes::INTERNAL_ERROR, message, None);
                    self.not_started(connection, &line, &error);
                }
                return;
            }
        }
        for (connection, line) in waiting {
            self.dispatch(connection, &line);
        }
    }

    /// What the log of a session amounts to was read anew.
    fn replace(&mut self, id: &SessionId, memory: Memory, length: u64) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let is_closed = |place: &u64| !memory.questions.contains_key(place);
        let before = session.memory.as_ref().map(|memory| memory.questions.keys().copied());
        let closed: Vec<u64> = before.into_iter().flatten().filter(is_closed).collect();
        session.memory = Some(memory);
        if session.next != length {
            session.next = length;
            session.window_start = length;
        }
        for place in closed {
            self.withdraw(id, place, None);
        }
    }

    /// Another hub has written to a session, or is about to.
    pub(crate) fn followed(&mut self, id: &str, hub: &Arc<str>, records: &[(u64, Channel, Arc<str>)]) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.is_ours {
            return;
        }
        let id = Arc::clone(session.id());
        session.hub = Some(Arc::clone(hub)).filter(|hub| self.options.name.as_ref() != Some(hub));
        for (sequence, channel, text) in records {
            let Some(session) = self.sessions.get_mut(&id) else { return };
            if *sequence < session.next {
                continue;
            }
            let is_next = *sequence == session.next;
            if session.memory.is_none() || !is_next {
                // It is read when somebody wants it; what is at hand ends here.
                self.states += u64::from(session.next == 0);
                session.next = sequence + 1;
                session.window_start = session.next;
                session.known.changed = self.time;
                if session.memory.take().is_some() {
                    self.load(&id);
                }
            } else {
                self.take_in(&id, *channel, Arc::clone(text), None);
            }
        }
    }

    /// A session is written by somebody else by now.
    pub(super) fn lose(&mut self, id: &SessionId) {
        if self.options.name.is_none() {
            return;
        }
        // What was answered may not have got into the log.
        self.sharing.served = Answers::default();
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.is_ours = false;
        session.hub = None;
        let waiting = std::mem::take(&mut session.waiting);
        let mut wanted: Vec<_> =
            session.prompts.drain(..).map(|prompt| (prompt.connection, prompt.id)).collect();
        for host in self.hosts.values_mut() {
            let is_its = |purpose: &mut Purpose| match purpose {
                Purpose::Prompt { session, .. } => session == id,
                Purpose::Forwarded { session, .. } => session.as_ref() == Some(id),
                _ => false,
            };
            for (_, purpose) in host.open.extract_if(|_, purpose| is_its(purpose)) {
                if let Purpose::Prompt { client, .. } | Purpose::Forwarded { client, .. } = purpose {
                    wanted.push(client);
                }
            }
        }
        let error = Outcome::error(codes::INTERNAL_ERROR, "another hub goes on with this session", None);
        for (connection, line) in waiting {
            self.not_started(connection, &line, &error);
        }
        for (connection, request) in wanted {
            match self.connections.get(&connection).and_then(|client| client.guest.clone()) {
                Some(key) => self.not_here(key, id),
                None => self.reply(connection, &request, error.clone(), None),
            }
        }
    }

    /// Ends an agent that has no session any more, because another hub goes on with the last one.
    pub(super) fn end_unneeded(&mut self, id: HostId, reason: &str) {
        let is_used = self.sessions.values().any(|session| session.host == Some(id))
            || self.creating.values().any(|creating| creating.host == id);
        if self.options.name.is_some() && !is_used {
            self.output.push_back(Output::EndHost { host: id });
            self.host_ended(id, reason, &[]);
        }
    }

    /// Looks after sessions that nobody needs to write any more, and after those whose hub is gone.
    pub(super) fn look_at_hubs(&mut self) {
        if self.options.name.is_none() || self.now < self.sharing.looked + LOOK {
            return;
        }
        self.sharing.looked = self.now;
        let is_well = self.log_problem.is_none() && !self.ending;
        let due: Vec<u64> = self
            .sharing
            .passed
            .iter_mut()
            .filter_map(|(ticket, passed)| std::mem::take(&mut passed.is_due).then_some(*ticket))
            .collect();
        for ticket in due {
            let Some(Passed { hub, message, is_refused, .. }) = self.sharing.passed.get(&ticket) else {
                continue;
            };
            if *is_refused {
                self.again(ticket, true);
            } else if self.sharing.hubs.contains_key(hub) || !is_well {
                let (hub, message) = (Arc::clone(hub), Arc::clone(message));
                self.output.push_back(Output::PassOn { hub, ticket, message });
            } else {
                self.again(ticket, false);
            }
        }
        let mut rested = Vec::new();
        let mut orphaned = Vec::new();
        for session in self.sessions.values() {
            if session.is_ours && is_unneeded(session) {
                rested.push(Arc::clone(session.id()));
            }
            let is_at_work = |memory: &Memory| memory.is_busy() || !memory.questions.is_empty();
            let has_hub = session.hub.as_ref().is_some_and(|hub| self.sharing.hubs.contains_key(hub));
            let is_orphan = !session.is_ours && !has_hub && session.memory.as_ref().is_some_and(is_at_work);
            if is_orphan && is_well && self.now >= session.asked_at + LOOK {
                orphaned.push(Arc::clone(session.id()));
            }
        }
        for id in rested {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.is_ours = false;
            }
            self.output.push_back(Output::Release { session: id });
        }
        for id in orphaned {
            self.own(&id);
        }
    }

    /// What is said to a client whose session cannot go on here, with the hubs where it can.
    pub(super) fn with_hubs(&self, folder: &str, message: String, mut data: Value) -> (String, Value) {
        let has_it = |about: &&HubAbout| about.roots.iter().any(|root| Path::new(folder).starts_with(root));
        let hubs: Vec<&str> =
            self.sharing.hubs.values().filter(has_it).map(|about| about.address.as_str()).collect();
        if hubs.is_empty() {
            return (message, data);
        }
        let message = format!("{message}; these hubs have the folder: {}", hubs.join(", "));
        data["hubs"] = hubs.into();
        (message, data)
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
                self.settle(&id, place, &outcome, &message["by"], None);
            }
            return self.serve(key, &id, &json!({"taken": true}));
        }
        let (Some(line), Some(who)) = (word("line").map(Arc::<str>::from), identity(&message["who"])) else {
            return;
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
        let open = self.connections.get(&connection).map(|guest| guest.open.keys().map(lines::id_text));
        for id in open.into_iter().flatten().collect::<Vec<_>>() {
            if let Ok(params) = Raw::parse(format!(r#"{{"requestId":{id}}}"#)) {
                self.cancel_request(connection, Some(&params));
            }
        }
    }

    /// What another hub has passed on has its answer.
    pub(super) fn answer_guest(&mut self, connection: ConnectionId, asked: Asked, outcome: Outcome) {
        let guest = self.connections.get(&connection);
        let Some((key, who)) =
            guest.and_then(|guest| Some((guest.guest.clone()?, Arc::clone(&guest.who.name))))
        else {
            return;
        };
        let Some(session) = self.dismiss(&key) else { return };
        let after = self.sessions.get(&session).map(|session| session.next.saturating_sub(1));
        let (word, text) = outcome_text(&outcome);
        let reply = json!({word: text, "after": after});
        if let Some(operation) = asked.operation {
            self.answers.keep(&who, operation, outcome);
        }
        self.serve(&key, &session, &reply);
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
    fn not_here(&mut self, key: String, session: &SessionId) {
        self.dismiss(&key);
        let text = json!({"elsewhere": true}).to_string();
        self.output.push_back(Output::Answer { key, session: Arc::clone(session), text });
    }
}

fn is_unneeded(session: &Session) -> bool {
    session.host.is_none() && !session.is_waking && session.prompts.is_empty() && session.waiting.is_empty()
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
