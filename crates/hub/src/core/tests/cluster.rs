//! Explores interleavings of hubs that share a log. Each hub is a core with its own agent and clients, and performs
//! outputs with arbitrary delay. Forwarded requests may be lost, and a live hub may be considered dead.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_store::{Channel, Role};

use super::super::{
    AgentId, ConnectionId, Core, CoreOptions, HubInfo, LogRecord, Output, Ownership, SessionId, SessionInfo,
    SessionState,
};
use super::identity;
use super::world::read;

const HUBS: usize = 3;

/// The shared log.
#[derive(Default)]
struct Log {
    sessions: BTreeMap<SessionId, Vec<(Channel, Arc<str>)>>,
    /// Each record in stream order, with the hub that wrote it.
    order: Vec<(SessionId, u64, usize)>,
    known: Vec<SessionInfo>,
    owners: BTreeMap<SessionId, usize>,
}

impl Log {
    fn state(&self, session: &SessionId, length: usize) -> SessionState {
        let mut state = SessionState::default();
        for (offset, (channel, text)) in self.sessions[session].iter().take(length).enumerate() {
            let _ = state.apply(offset as u64, *channel, text);
        }
        state
    }
}

struct Hub {
    core: Core,
    /// Outputs of the core that have not been performed yet.
    later: VecDeque<Output>,
    /// Position up to which the hub has read the stream, and the length of each session in its store.
    offset: usize,
    store: BTreeMap<SessionId, usize>,
    /// The sessions that the hub believes to own.
    writes: HashSet<SessionId>,
    /// Output of its agent that has not been delivered, and the sessions in which the agent works.
    said: VecDeque<Value>,
    agent: Option<AgentId>,
    at_work: BTreeSet<String>,
    /// Responses to its clients' requests, by connection and id.
    answers: BTreeMap<(ConnectionId, i64), Vec<Value>>,
    asked: BTreeSet<(ConnectionId, i64)>,
    is_lapsed: bool,
}

/// A message between two hubs.
enum Letter {
    Request { from: usize, to: usize, ticket: u64, message: Arc<str> },
    Answer { to: usize, ticket: u64, text: String },
}

struct World {
    log: Log,
    hubs: Vec<Hub>,
    letters: VecDeque<Letter>,
    /// Prompts that agents have received, in order.
    prompts: Vec<String>,
    next: u64,
    now: u64,
}

fn name(hub: usize) -> Arc<str> {
    format!("hub{hub}").into()
}

fn hub(number: usize) -> Hub {
    let core = Core::new(CoreOptions {
        agents: vec!["one".to_owned()],
        confined: vec![false],
        warm: vec![false],
        folders: Box::new(|folder| Ok(folder.to_owned())),
        idle: 1_000_000,
        handshake: 1_000_000,
        cancel_timeout: 30_000,
        send_window: 100_000,
        reports_standard_error: true,
        policy: None,
        agent_options: Some(Role::Admin),
        version: "0",
        name: Some(name(number)),
    });
    Hub {
        core,
        later: VecDeque::new(),
        offset: 0,
        store: BTreeMap::new(),
        writes: HashSet::new(),
        said: VecDeque::new(),
        agent: None,
        at_work: BTreeSet::new(),
        answers: BTreeMap::new(),
        asked: BTreeSet::new(),
        is_lapsed: false,
    }
}

impl World {
    fn new() -> Self {
        let hubs = (0..HUBS).map(hub).collect();
        let mut world = World {
            log: Log::default(),
            hubs,
            letters: VecDeque::new(),
            prompts: Vec::new(),
            next: 0,
            now: 0,
        };
        for hub in 0..HUBS {
            for client in 1..=2 {
                world.hubs[hub].core.connected(client, identity("somebody", Role::Admin), 0, false, false);
                world.request(hub, client, "initialize", json!({"protocolVersion": 2}));
            }
        }
        world.settle();
        world.request(0, 1, "session/new", json!({"cwd": "/w"}));
        world.settle();
        world
    }

    fn session(&self) -> SessionId {
        Arc::clone(self.log.sessions.keys().next().unwrap())
    }

    fn request(&mut self, hub: usize, client: ConnectionId, method: &str, params: Value) -> i64 {
        self.next += 1;
        let id = self.next as i64;
        self.hubs[hub].asked.insert((client, id));
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        self.hubs[hub].core.client_line(client, &line.into());
        self.perform(hub);
        id
    }

    fn prompt(&mut self, hub: usize, client: ConnectionId, operation: &str) -> i64 {
        let params = json!({
            "sessionId": &*self.session(), "prompt": [{"type": "text", "text": operation}],
            "_meta": {"switchboard/operationId": operation},
        });
        self.request(hub, client, "session/prompt", params)
    }

    /// Performs the outputs of a core as the hub does: records are durable before anything else is performed.
    fn perform(&mut self, at: usize) {
        loop {
            let mut rest = Vec::new();
            let mut failed: Vec<SessionId> = Vec::new();
            while let Some(output) = self.hubs[at].core.next_output() {
                let Output::Append { session, sequence, channel, text } = output else {
                    rest.push(output);
                    continue;
                };
                if failed.contains(&session) {
                    continue;
                }
                let is_its = self.log.owners.get(&session) == Some(&at);
                if !is_its || !self.hubs[at].writes.contains(&session) {
                    self.hubs[at].writes.remove(&session);
                    failed.push(session);
                    continue;
                }
                let records = self.log.sessions.get_mut(&session).unwrap();
                assert_eq!(records.len() as u64, sequence, "a record does not follow");
                records.push((channel, text));
                self.log.order.push((Arc::clone(&session), sequence, at));
                self.hubs[at].store.insert(session, sequence as usize + 1);
            }
            if rest.is_empty() && failed.is_empty() {
                return;
            }
            let mut untold = Vec::new();
            for output in rest {
                let about = match &output {
                    Output::Send { line, .. } => line.stream.as_ref(),
                    Output::ToAgent { session, .. } => session.as_ref(),
                    Output::ForwardReply { session, .. } => Some(session),
                    _ => None,
                };
                let is_untold = about.is_some_and(|session| failed.contains(session));
                match output {
                    output if !is_untold => self.act(at, output),
                    Output::Send { connection, .. } => untold.push(connection),
                    _ => {}
                }
            }
            for session in failed {
                self.hubs[at].core.log_failed(&session, "another hub has taken over the session");
            }
            for connection in untold {
                self.hubs[at]
                    .core
                    .close_connection(connection, "another hub has taken over the session".to_owned());
            }
        }
    }

    fn act(&mut self, at: usize, output: Output) {
        match output {
            Output::Send { connection, line } => {
                let message: Value = serde_json::from_str(&line.text).unwrap();
                if let (None, Some(id)) = (message.get("method"), message["id"].as_i64()) {
                    self.hubs[at].answers.entry((connection, id)).or_default().push(message);
                } else if let Some(cursor) = &line.cursor {
                    self.check_told(cursor, &message["params"]);
                }
            }
            Output::Close { connection, .. } => {
                // The client reconnects with a new connection.
                self.hubs[at].core.disconnected(connection);
                self.hubs[at].asked.retain(|(client, _)| *client != connection);
                self.hubs[at].core.connected(connection, identity("somebody", Role::Admin), 0, false, false);
                self.request(at, connection, "initialize", json!({"protocolVersion": 2}));
            }
            Output::StartAgent { process, .. } => self.hubs[at].agent = Some(process),
            Output::EndAgent { .. } => {
                self.hubs[at].at_work.clear();
                self.hubs[at].said.clear();
            }
            Output::ToAgent { process, line, .. } if self.hubs[at].agent == Some(process) => {
                self.hear(at, &line)
            }
            Output::Release { session } => {
                self.hubs[at].writes.remove(&session);
                if self.log.owners.get(&session) == Some(&at) {
                    self.log.owners.remove(&session);
                }
            }
            Output::Forward { hub, ticket, message } => {
                let to = (0..HUBS).find(|number| name(*number) == hub).unwrap();
                self.letters.push_back(Letter::Request { from: at, to, ticket, message });
            }
            Output::ForwardReply { key, text, .. } => {
                let (from, ticket) = key.rsplit_once('.').unwrap();
                let to = (0..HUBS).find(|number| *name(*number) == *from).unwrap();
                self.letters.push_back(Letter::Answer { to, ticket: ticket.parse().unwrap(), text });
            }
            later @ (Output::Create { .. }
            | Output::Load { .. }
            | Output::Read { .. }
            | Output::Replay { .. }
            | Output::Acquire { .. }) => self.hubs[at].later.push_back(later),
            _ => {}
        }
    }

    /// Checks that a line to a client is in the log, at the offset of its cursor.
    fn check_told(&self, cursor: &str, told: &Value) {
        // The state of a session is sent again with the cursor of the preceding record.
        if told["_meta"].get("switchboard/questions").is_some() {
            return;
        }
        let (session, offset) = cursor.rsplit_once('.').unwrap();
        let records = &self.log.sessions[session];
        // A replay sends the folded state of several records.
        if offset.contains('-') {
            return;
        }
        let (_, text) = &records[offset.parse::<usize>().unwrap()];
        let written: Value = serde_json::from_str(text).unwrap();
        assert_eq!(written["params"]["update"], told["update"], "{cursor} is something else in the log");
    }

    /// Delivers a line to the agent of a hub.
    fn hear(&mut self, at: usize, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap();
        let session = message["params"]["sessionId"].as_str().unwrap_or_default().to_owned();
        let Hub { said, at_work, .. } = &mut self.hubs[at];
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        match message["method"].as_str() {
            Some("initialize") => {
                said.push_back(answer(json!({"protocolVersion": 2, "capabilities": {"session": {}}})));
            }
            Some("session/new") => {
                self.next += 1;
                said.push_back(answer(json!({"sessionId": format!("a{}", self.next)})));
            }
            Some("session/prompt") => {
                self.prompts.push(message["params"]["prompt"][0]["text"].as_str().unwrap().to_owned());
                said.push_back(answer(json!({"messageId": "m"})));
                said.push_back(state(&session, "running"));
                at_work.insert(session);
            }
            Some("session/cancel") if at_work.remove(&session) => said.push_back(state(&session, "idle")),
            Some(_) if !message["id"].is_null() => said.push_back(answer(json!({}))),
            _ => {}
        }
    }

    /// Makes the agent of a hub send its next line, or end its turn.
    fn agent_goes_on(&mut self, at: usize) {
        let line = self.hubs[at].said.pop_front().or_else(|| {
            let session = self.hubs[at].at_work.pop_first()?;
            Some(state(&session, "idle"))
        });
        if let (Some(line), Some(process)) = (line, self.hubs[at].agent) {
            self.hubs[at].core.agent_line(process, &line.to_string());
            self.perform(at);
        }
    }

    fn do_later(&mut self, at: usize, which: usize) {
        let count = self.hubs[at].later.len().max(1);
        match self.hubs[at].later.remove(which % count) {
            Some(Output::Create { ticket, agent, owner, folder, starter: _ }) => {
                let id: SessionId = format!("s{}", self.log.sessions.len()).into();
                let (title, agent_session) = (None, String::new());
                let known =
                    SessionInfo { id, agent, agent_session, owner, folder, title, changed: 0, length: 0 };
                self.log.sessions.insert(Arc::clone(&known.id), Vec::new());
                self.log.owners.insert(Arc::clone(&known.id), at);
                self.log.known.push(known.clone());
                self.hubs[at].writes.insert(Arc::clone(&known.id));
                self.hubs[at].core.created(ticket, Ok(known));
            }
            Some(Output::Load { session }) => {
                let length = self.hubs[at].store.get(&session).copied().unwrap_or_default();
                let state = self.log.state(&session, length);
                self.hubs[at].core.loaded(&session, Ok((state, length as u64)));
            }
            Some(Output::Read { connection, session, from, .. }) => {
                let length = self.hubs[at].store.get(&session).copied().unwrap_or_default();
                let records = self.log.sessions[&session].iter().take(length).enumerate();
                let part: Vec<LogRecord> = records
                    .skip(from as usize)
                    .map(|(offset, (channel, text))| LogRecord {
                        sequence: offset as u64,
                        channel: *channel,
                        text: Arc::clone(text),
                    })
                    .collect();
                self.hubs[at].core.read(connection, &session, from, &part, (length as u64).max(from));
            }
            Some(Output::Replay { connection, session, mut replay }) => {
                let length = self.hubs[at].store.get(&session).copied().unwrap_or_default();
                let records = self.log.sessions[&session][..length].to_vec();
                let lines = replay.next(&mut read(&records)).unwrap();
                self.hubs[at].core.replayed(connection, &session, replay, lines);
            }
            Some(Output::Acquire { session }) => {
                let owner = self.log.owners.get(&session).copied();
                let owned = match owner.filter(|owner| *owner != at && !self.hubs[*owner].is_lapsed) {
                    Some(owner) => Ownership::HeldBy(name(owner)),
                    None => {
                        let length = self.log.sessions[&session].len();
                        self.log.owners.insert(Arc::clone(&session), at);
                        self.hubs[at].writes.insert(Arc::clone(&session));
                        self.hubs[at].store.insert(Arc::clone(&session), length);
                        Ownership::Acquired(Box::new(self.log.state(&session, length)), length as u64)
                    }
                };
                self.hubs[at].core.ownership_known(&session, Ok(owned));
            }
            _ => return,
        }
        self.perform(at);
    }

    /// Makes a hub read the next record of the stream.
    fn follow(&mut self, at: usize) {
        let Some((session, sequence, by)) = self.log.order.get(self.hubs[at].offset).cloned() else { return };
        self.hubs[at].offset += 1;
        if by == at || self.hubs[at].writes.contains(&session) && self.log.owners.get(&session) == Some(&at) {
            return;
        }
        if self.hubs[at].writes.remove(&session) {
            self.hubs[at].core.log_failed(&session, "another hub has taken over the session");
        }
        let known = self.log.known.iter().find(|known| known.id == session).cloned().unwrap();
        self.hubs[at].core.add_session(known);
        let length = self.hubs[at].store.entry(Arc::clone(&session)).or_default();
        *length = (*length).max(sequence as usize + 1);
        let (channel, text) = self.log.sessions[&session][sequence as usize].clone();
        self.hubs[at].core.follow_records(&session, &name(by), &[(sequence, channel, text)]);
        self.perform(at);
    }

    fn deliver(&mut self, which: usize, is_lost: bool) {
        let count = self.letters.len().max(1);
        match self.letters.remove(which % count) {
            Some(Letter::Request { from, ticket, .. }) if is_lost => {
                self.hubs[from].core.forward_answered(ticket, None);
                self.perform(from);
            }
            Some(Letter::Request { from, to, ticket, message }) => {
                let key = format!("{}.{ticket}", name(from));
                self.hubs[to].core.receive_forwarded(&key, &message);
                self.perform(to);
                // Forwarded requests time out.
                self.hubs[from].core.forward_answered(ticket, None);
                self.perform(from);
            }
            Some(Letter::Answer { to, ticket, text }) => {
                self.hubs[to].core.forward_answered(ticket, (!is_lost).then_some(&*text));
                self.perform(to);
            }
            None => {}
        }
    }

    fn tick(&mut self, at: usize) {
        self.now += 500;
        let cluster = (0..HUBS).filter(|other| *other != at && !self.hubs[*other].is_lapsed);
        let cluster = cluster.map(|other| (name(other), HubInfo::default())).collect();
        let hub = &mut self.hubs[at];
        hub.core.at(self.now, 0);
        hub.core.cx.cluster.set_hubs(cluster);
        hub.core.tick();
        self.perform(at);
    }

    fn is_quiet(&self) -> bool {
        let is_quiet = |hub: &Hub| {
            hub.later.is_empty()
                && hub.said.is_empty()
                && hub.at_work.is_empty()
                && hub.offset == self.log.order.len()
        };
        self.letters.is_empty() && self.hubs.iter().all(is_quiet)
    }

    /// Runs without faults until nothing is left to do.
    fn settle(&mut self) {
        self.hubs.iter_mut().for_each(|hub| hub.is_lapsed = false);
        let mut quiet = 0;
        for _ in 0..2000 {
            for hub in 0..HUBS {
                self.follow(hub);
                self.do_later(hub, 0);
                self.agent_goes_on(hub);
                self.tick(hub);
            }
            self.deliver(0, false);
            quiet = if self.is_quiet() { quiet + 1 } else { 0 };
            if quiet > 10 {
                return;
            }
        }
        panic!("the hubs do not come to rest");
    }

    fn check(&self) {
        let mut ran = HashSet::new();
        for prompt in &self.prompts {
            assert!(ran.insert(prompt), "the prompt {prompt} ran twice");
        }
        for (number, hub) in self.hubs.iter().enumerate() {
            for (client, id) in &hub.asked {
                let count = hub.answers.get(&(*client, *id)).map_or(0, Vec::len);
                // Also for a duplicate that another client has sent, which gets the result.
                assert_eq!(count, 1, "answers to the request {id} at hub {number}");
            }
            assert!(hub.core.cx.cluster.is_empty(), "hub {number} waits: {:?}", hub.core.cx.cluster);
            for (id, session) in &hub.core.sessions {
                let Some(known) = &session.state else { continue };
                let state = self.log.state(id, usize::MAX);
                assert_eq!(
                    (state.state_update(), session.next),
                    (known.state_update(), self.log.sessions[id].len() as u64)
                );
                assert_eq!(state.is_busy(), known.is_busy(), "{id} at hub {number}");
            }
        }
    }
}

fn state(session: &str, state: &str) -> Value {
    let mut update = json!({"sessionUpdate": "state_update", "state": state});
    if state == "idle" {
        update["stopReason"] = "end_turn".into();
    }
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Prompt(usize, ConnectionId),
    /// A duplicate of a prompt, at any hub.
    Repeat(usize, ConnectionId, usize),
    Attach(usize, ConnectionId),
    Follow(usize),
    BoxFuture(usize, usize),
    Agent(usize),
    Deliver(usize),
    Lose(usize),
    Tick(usize),
    Lapse(usize),
    Return(usize),
}

fn action() -> impl Strategy<Value = Action> {
    let (hub, client, which) = (0..HUBS, 1..=2_u64, 0..4_usize);
    prop_oneof![
        4 => (hub.clone(), client.clone()).prop_map(|(a, b)| Action::Prompt(a, b)),
        3 => (hub.clone(), client.clone(), which.clone()).prop_map(|(a, b, c)| Action::Repeat(a, b, c)),
        2 => (hub.clone(), client).prop_map(|(a, b)| Action::Attach(a, b)),
        16 => hub.clone().prop_map(Action::Follow),
        12 => (hub.clone(), which.clone()).prop_map(|(a, b)| Action::BoxFuture(a, b)),
        8 => hub.clone().prop_map(Action::Agent),
        12 => which.clone().prop_map(Action::Deliver),
        3 => which.prop_map(Action::Lose),
        6 => hub.clone().prop_map(Action::Tick),
        1 => hub.clone().prop_map(Action::Lapse),
        2 => hub.prop_map(Action::Return),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn hubs_agree_despite_lost_messages(actions in proptest::collection::vec(action(), 1..150)) {
        let mut world = World::new();
        let mut count = 0;
        for action in actions {
            match action {
                Action::Prompt(hub, client) => {
                    count += 1;
                    world.prompt(hub, client, &format!("p{count}"));
                }
                Action::Repeat(hub, client, back) => {
                    if let Some(number) = (1..=count).rev().nth(back) {
                        world.prompt(hub, client, &format!("p{number}"));
                    }
                }
                Action::Attach(hub, client) => {
                    let params = json!({"sessionId": &*world.session(), "cwd": "/w", "replayFrom": {"type": "start"}});
                    world.request(hub, client, "session/resume", params);
                }
                Action::Follow(hub) => world.follow(hub),
                Action::BoxFuture(hub, which) => world.do_later(hub, which),
                Action::Agent(hub) => world.agent_goes_on(hub),
                Action::Deliver(which) => world.deliver(which, false),
                Action::Lose(which) => world.deliver(which, true),
                Action::Tick(hub) => world.tick(hub),
                Action::Lapse(hub) => world.hubs[hub].is_lapsed = true,
                Action::Return(hub) => world.hubs[hub].is_lapsed = false,
            }
        }
        world.settle();
        world.check();
        // A failed prompt can be sent again at any hub and runs.
        for number in 1..=count {
            let (hub, operation) = (number % HUBS, format!("p{number}"));
            let id = world.prompt(hub, 1, &operation);
            world.settle();
            let answer = world.hubs[hub].answers[&(1, id)][0].to_string();
            let was_cut_off = answer.contains("interrupted") || answer.contains("the hub ended");
            prop_assert!(was_cut_off || !answer.contains("error"), "{}: {}", operation, answer);
            prop_assert!(was_cut_off || world.prompts.contains(&operation), "{} did not run", operation);
        }
        world.check();
    }
}

#[test]
fn unwritten_records_are_not_sent_to_clients() {
    let mut world = World::new();
    let session = world.session();
    // Another hub owned it for a moment and has written nothing.
    world.hubs[0].writes.remove(&session);
    world.log.owners.remove(&session);
    let length = world.log.sessions[&session].len();
    world.hubs[0].said.push_back(state(&format!("a{}", world.next), "running"));
    world.agent_goes_on(0);
    assert_eq!(world.log.sessions[&session].len(), length, "it is not in the log");
    // A client attaches before anything else is written.
    let params = json!({"sessionId": &*session, "cwd": "/w", "replayFrom": {"type": "start"}});
    world.request(0, 2, "session/resume", params);
    for _ in 0..10 {
        world.do_later(0, 0);
    }
    world.settle();
    world.prompt(0, 1, "p2");
    world.settle();
    assert!(world.log.sessions[&session].len() > length);
    world.check();
}

#[test]
fn a_session_without_owner_is_taken_over() {
    let mut world = World::new();
    let session = world.session();
    world.prompt(0, 1, "p1");
    // Another hub shows the session as working.
    let params = json!({"sessionId": &*session, "cwd": "/w", "replayFrom": {"type": "start"}});
    world.request(1, 1, "session/resume", params);
    for _ in 0..40 {
        for hub in 0..2 {
            world.follow(hub);
            world.do_later(hub, 0);
        }
        if let Some(line) = world.hubs[0].said.pop_front() {
            let agent = world.hubs[0].agent.unwrap();
            world.hubs[0].core.agent_line(agent, &line.to_string());
            world.perform(0);
        }
    }
    let is_busy = |world: &World, hub: usize| {
        world.hubs[hub].core.sessions[&session].state.as_ref().is_some_and(SessionState::is_busy)
    };
    assert!(is_busy(&world, 1), "it is at work");
    // Its hub restarts under the same name, has no agent, and releases its sessions.
    world.hubs[0] = hub(0);
    world.log.owners.remove(&session);
    let begun = world.now;
    while is_busy(&world, 1) {
        assert!(world.now < begun + 30_000, "nobody goes on with it");
        world.tick(1);
        world.do_later(1, 0);
    }
    assert_eq!(world.log.owners.get(&session), Some(&1));
}
