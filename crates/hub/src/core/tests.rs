//! Explores interleavings of events in a small world around the core.

mod agent_sessions;
mod cluster;
mod determinism;
mod direct_questions;
mod dormancy;
mod forms;
mod leaving;
mod listing;
mod message_lookup;
mod native;
mod prompting;
mod replay;
mod roles;
mod session_events;
mod unresponsive;
mod world;

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_acp::Side;
use switchboard_acp::rpc::codes;
use switchboard_store::{Channel, Role};

use self::world::{Client, World, asked_of, identity, shown, world};
use super::connection::{Phase, Start};
use super::{ConnectionId, Identity, Output, SessionInfo, SessionState};

#[derive(Debug, Clone, Copy)]
enum Action {
    Connect(u8),
    New(usize),
    Attach(usize, usize),
    AttachAt(usize, usize, usize),
    /// After a message, which may not exist.
    AttachAfter(usize, usize, usize),
    Detach(usize, usize),
    Disconnect(usize),
    Reconnect(usize),
    Prompt(usize, usize, bool),
    Repeat(usize),
    /// The client cancels a prompt.
    WantBack(usize),
    Update(usize),
    Ask(usize),
    TakeBack(usize),
    Answer(usize, usize),
    Rest(usize),
    Cancel(usize, usize),
    /// A request that needs the agent, which resumes the session for it.
    Configure(usize, usize),
    /// Deletes the session, through the hub or without its knowledge.
    Delete(usize, usize, bool),
    Close(usize, usize),
    Later(usize),
    Room(usize),
    Die,
}

fn action() -> impl Strategy<Value = Action> {
    let offset = 0..4_usize;
    prop_oneof![
        2 => (0..3_u8).prop_map(Action::Connect),
        2 => offset.clone().prop_map(Action::New),
        4 => (offset.clone(), offset.clone()).prop_map(|(a, b)| Action::Attach(a, b)),
        3 => (offset.clone(), offset.clone(), 0..40_usize).prop_map(|(a, b, c)| Action::AttachAt(a, b, c)),
        3 => (offset.clone(), offset.clone(), 0..20_usize).prop_map(|(a, b, c)| Action::AttachAfter(a, b, c)),
        1 => (offset.clone(), offset.clone()).prop_map(|(a, b)| Action::Detach(a, b)),
        1 => offset.clone().prop_map(Action::Disconnect),
        2 => offset.clone().prop_map(Action::Reconnect),
        5 => (offset.clone(), offset.clone(), any::<bool>()).prop_map(|(a, b, c)| Action::Prompt(a, b, c)),
        2 => offset.clone().prop_map(Action::Repeat),
        3 => offset.clone().prop_map(Action::WantBack),
        16 => offset.clone().prop_map(Action::Update),
        4 => offset.clone().prop_map(Action::Ask),
        1 => offset.clone().prop_map(Action::TakeBack),
        4 => (offset.clone(), offset.clone()).prop_map(|(a, b)| Action::Answer(a, b)),
        4 => offset.clone().prop_map(Action::Rest),
        1 => (offset.clone(), offset.clone()).prop_map(|(a, b)| Action::Cancel(a, b)),
        2 => (offset.clone(), offset.clone()).prop_map(|(a, b)| Action::Configure(a, b)),
        1 => (offset.clone(), 0..20_usize, any::<bool>()).prop_map(|(a, b, c)| Action::Delete(a, b, c)),
        1 => (offset.clone(), offset.clone()).prop_map(|(a, b)| Action::Close(a, b)),
        12 => offset.clone().prop_map(Action::Later),
        8 => offset.prop_map(Action::Room),
        1 => Just(Action::Die),
    ]
}

/// Returns an update of any kind: most append to a message, some replace or clear content.
fn any_update(number: u64, which: usize, session: &str) -> Value {
    // Agents that reuse ids are tested elsewhere.
    let (message, call) = (format!("m{}-{session}", number / 5), format!("c{}-{session}", number / 9));
    let text = |text: String| json!({"type": "text", "text": text});
    let chunk = |more: Value| {
        let mut update = json!({"sessionUpdate": "agent_message_chunk", "messageId": message,
            "content": text(format!("{number}{}", "x".repeat(number as usize % 50)))});
        update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        update
    };
    match number % 13 {
        3 => json!({"sessionUpdate": "agent_message", "messageId": message,
            "content": [text(format!("whole {number}")), text("apart".to_owned())]}),
        4 => {
            json!({"sessionUpdate": "agent_message", "messageId": format!("m{which}-{session}"), "content": []})
        }
        5 => json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "title": format!("t{number}"),
            "status": "in_progress", "rawOutput": {"secret": number}}),
        6 => {
            json!({"sessionUpdate": "tool_call_update", "toolCallId": format!("c{which}-{session}"), "rawOutput": null,
            "status": "completed", "content": [{"type": "content", "content": text(format!("o{number}"))}]})
        }
        7 => json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": call,
            "content": {"type": "content", "content": text("more".to_owned())}}),
        8 => json!({"sessionUpdate": "session_info_update", "title": format!("title {number}")}),
        9 => json!({"sessionUpdate": "_unknown", "n": number}),
        10 => json!({"sessionUpdate": "usage_update", "used": number, "size": 1000}),
        11 => chunk(json!({"n": number})),
        _ => chunk(json!({})),
    }
}

/// State of the test itself.
#[derive(Default)]
struct Notes {
    number: u64,
    /// Prompts that may be sent again: client, session, params.
    with_idempotency_key: Vec<(ConnectionId, Value)>,
    operations: usize,
    /// Prompts that are not sent again: client, request, text.
    prompts: Vec<(ConnectionId, i64, String)>,
}

impl World {
    fn act(&mut self, action: Action, notes: &mut Notes) {
        match action {
            Action::Connect(role) => {
                if self.clients.len() < 5 {
                    let is_translated = role == 2;
                    let role = [Role::Admin, Role::Answer, Role::Admin][usize::from(role)];
                    self.connect_translated(role, is_translated);
                }
            }
            Action::New(which) => {
                if let Some(client) = self.client(which) {
                    self.request(client, "session/new", json!({"cwd": "/w/p"}));
                }
            }
            Action::Attach(which, session) => {
                if let (Some(client), Some(session)) = (self.client(which), self.session_of(session)) {
                    self.begin_at(client, &session, 0);
                    let params =
                        json!({"sessionId": session, "cwd": "/w/p", "replayFrom": {"type": "start"}});
                    self.request(client, "session/resume", params);
                }
            }
            Action::AttachAt(which, session, offset) => {
                let (Some(client), Some(session)) = (self.client(which), self.session_of(session)) else {
                    return;
                };
                let length = self.log[&*session].len();
                let offset = offset % length;
                self.begin_at(client, &session, offset as u64 + 1);
                let meta = json!({"acp/cursor": format!("{session}.{offset}")});
                self.request(
                    client,
                    "session/resume",
                    json!({"sessionId": session, "cwd": "/w/p", "_meta": meta}),
                );
            }
            Action::AttachAfter(which, session, message) => {
                if let (Some(client), Some(session)) = (self.client(which), self.session_of(session)) {
                    let ids = self.log[&*session].iter().filter_map(|(_, text)| {
                        let message: Value = serde_json::from_str(text).ok()?;
                        Some(message["params"]["update"]["messageId"].as_str()?.to_owned())
                    });
                    let ids: Vec<String> = ids.chain(["none".to_owned()]).collect();
                    let params = json!({"sessionId": session, "historyPolicy": "after_message",
                        "afterMessageId": ids[message % ids.len()]});
                    self.request(client, "session/attach", params);
                }
            }
            Action::Detach(which, session) => {
                if let (Some(client), Some(session)) = (self.client(which), self.session_of(session)) {
                    self.request(client, "session/detach", json!({"sessionId": session}));
                    self.forget(client, &session);
                }
            }
            Action::Disconnect(which) => {
                if let Some(client) = self.client(which) {
                    self.core.disconnected(client);
                    self.perform();
                    self.clients.remove(&client);
                    notes.with_idempotency_key.retain(|(known, _)| *known != client);
                }
            }
            Action::Reconnect(which) => self.reconnect(which),
            Action::Prompt(which, session, named) => {
                let (Some(client), Some(session)) = (self.client(which), self.session_of(session)) else {
                    return;
                };
                notes.operations += 1;
                let text = format!("p{}", notes.operations);
                let mut params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
                if named {
                    params["_meta"] = json!({"switchboard/operationId": text});
                    notes.with_idempotency_key.push((client, params.clone()));
                }
                let id = self.request(client, "session/prompt", params);
                if !named {
                    notes.prompts.push((client, id, text));
                }
            }
            Action::WantBack(which) => {
                // Usually it is one of the last, which still waits.
                if let Some((client, id, _)) = notes.prompts.iter().rev().nth(which) {
                    self.notify(*client, "$/cancel_request", json!({"requestId": id}));
                }
            }
            Action::Repeat(which) => {
                if !notes.with_idempotency_key.is_empty() {
                    let (client, params) =
                        notes.with_idempotency_key[which % notes.with_idempotency_key.len()].clone();
                    self.request(client, "session/prompt", params);
                }
            }
            Action::Update(which) => {
                if !self.agent.sessions.is_empty() {
                    let session = self.agent.sessions[which % self.agent.sessions.len()].clone();
                    notes.number += 1;
                    self.update(&session, any_update(notes.number, which, &session));
                }
            }
            Action::Ask(which) => {
                if let Some(session) = self.agent.at_work.get(which).cloned() {
                    self.agent.next += 1;
                    let (id, title) = (self.agent.next, format!("q{}", self.agent.next));
                    self.agent.questions.push((id, title.clone()));
                    self.say(
                        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
                        "sessionId": session, "title": title,
                        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}),
                    );
                }
            }
            Action::TakeBack(which) => {
                if let Some((id, _)) = self.agent.questions.get(which).cloned() {
                    self.agent.questions.retain(|(known, _)| *known != id);
                    self.say(
                        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}),
                    );
                }
            }
            Action::Answer(which, question) => {
                let Some(client) = self.client(which) else { return };
                let open: Vec<i64> = self.clients[&client].questions.keys().copied().collect();
                if let Some(id) = open.get(question).copied() {
                    self.clients.get_mut(&client).unwrap().questions.remove(&id);
                    let result = json!({"outcome": {"outcome": "selected", "optionId": "y"}});
                    let line = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
                    // Twice: the second one is too late.
                    self.core.client_line(client, &line.as_str().into());
                    self.core.client_line(client, &line.into());
                    self.perform();
                }
            }
            Action::Rest(which) => {
                if let Some(session) = self.agent.at_work.get(which).cloned() {
                    self.agent.rest(&session);
                    self.perform();
                }
            }
            Action::Cancel(which, session) => {
                if let (Some(client), Some(session)) = (self.client(which), self.session_of(session)) {
                    self.notify(client, "session/cancel", json!({"sessionId": session}));
                }
            }
            Action::Configure(which, session) => {
                if let (Some(client), Some(session)) = (self.client(which), self.session_of(session)) {
                    let params = json!({"sessionId": session, "configId": "c", "value": "v"});
                    self.request(client, "session/set_config_option", params);
                }
            }
            Action::Delete(which, session, by_hub) => {
                // Rarely, because a deleted session offers nothing more to test.
                let Some(session) = self.session_of(0).filter(|_| session == 0) else { return };
                let Some(client) = self.client(which) else { return };
                if by_hub {
                    self.request(client, "session/delete", json!({"sessionId": session}));
                } else {
                    self.core.keep_sessions(|id| *id != *session);
                    self.perform();
                }
                if !self.core.sessions.contains_key(&*session) {
                    for client in self.clients.keys().copied().collect::<Vec<_>>() {
                        self.forget(client, &session);
                    }
                    self.log.remove(&*session);
                }
            }
            Action::Close(which, session) => {
                if let (Some(client), Some(session)) = (self.client(which), self.session_of(session)) {
                    self.request(client, "session/close", json!({"sessionId": session}));
                    self.settle();
                    for client in self.clients.keys().copied().collect::<Vec<_>>() {
                        if !self.core.cx.clients.connections[&client].subscriptions.contains_key(&*session) {
                            self.forget(client, &session);
                        }
                    }
                }
            }
            Action::Later(which) => self.do_later(which),
            Action::Room(which) => {
                if let Some(client) = self.client(which) {
                    self.room(client);
                }
            }
            Action::Die => {
                if let Some(process) = self.agent.process.take() {
                    self.agent.at_work.clear();
                    self.agent.sessions.clear();
                    self.agent.questions.clear();
                    self.agent.refuses = !self.agent.refuses;
                    self.core.agent_exited(process, "died", &[]);
                    self.perform();
                }
            }
        }
    }

    /// Makes the client start again at an offset.
    fn begin_at(&mut self, client: ConnectionId, session: &str, offset: u64) {
        if !self.core.cx.clients.connections[&client].is_initialized {
            return;
        }
        let client = self.clients.get_mut(&client).unwrap();
        client.got.insert(session.to_owned(), Vec::new());
        client.mark.remove(session);
        client.from.insert(session.to_owned(), offset);
    }

    fn forget(&mut self, id: ConnectionId, session: &str) {
        let client = self.clients.get_mut(&id).unwrap();
        client.got.remove(session);
        client.mark.remove(session);
        client.from.remove(session);
        let known: HashSet<i64> = self.core.cx.clients.connections.values().flat_map(asked_of).collect();
        client.questions.retain(|id, _| known.contains(id));
    }

    /// Breaks the socket of a client: some of the sent lines are lost, and it resumes with its cursors.
    fn reconnect(&mut self, which: usize) {
        let Some(id) = self.client(which) else { return };
        self.core.reconnected(id);
        self.perform();
        let wanted = |session: &String| match &self.core.cx.clients.connections[&id]
            .subscriptions
            .get(&**session)?
            .phase
        {
            Phase::CatchingUp { start: Start::Beginning, answer: Some(_), .. } => Some(0),
            _ => None,
        };
        let client = self.clients.get_mut(&id).unwrap();
        let mut streams = Vec::new();
        // Sessions that it has requested but not received any update of.
        let mut still = BTreeMap::new();
        for (session, got) in &mut client.got {
            // The last one is lost.
            got.retain(|got| !got.is_known);
            got.pop();
            client.mark.insert(session.clone(), got.len());
            let cursor = match got.iter().rev().find_map(|got| got.cursor.clone()) {
                Some(cursor) => cursor,
                None => match client.from.get(session) {
                    // Without a cursor it gives the session up, unless it waits for the response.
                    None | Some(0) => {
                        still.extend(wanted(session).map(|offset| (session.clone(), offset)));
                        continue;
                    }
                    Some(from) => format!("{session}.{}", from - 1),
                },
            };
            streams.push(json!({"sessionId": session, "cursor": cursor}));
        }
        let named: HashSet<String> =
            streams.iter().map(|stream| stream["sessionId"].as_str().unwrap().to_owned()).collect();
        client.got.retain(|session, _| named.contains(session));
        client.from.retain(|session, _| named.contains(session));
        client.mark.retain(|session, _| named.contains(session));
        client.got.extend(still.keys().map(|session| (session.clone(), Vec::new())));
        client.from.extend(still);
        let streams = json!({"streams": streams});
        // Some clients want a response.
        if which.is_multiple_of(2) {
            self.notify(id, "stream/resume", streams);
        } else {
            self.request(id, "stream/resume", streams);
        }
        // Questions of sessions that it has given up are not pending any more.
        let known: HashSet<i64> = asked_of(&self.core.cx.clients.connections[&id]).collect();
        self.clients.get_mut(&id).unwrap().questions.retain(|id, _| known.contains(id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_client_gets_everything_once_in_any_interleaving(
        actions in proptest::collection::vec(action(), 1..120),
        send_window in prop_oneof![Just(1_usize), Just(600), Just(100_000)],
    ) {
        let mut world = world(send_window);
        let mut notes = Notes::default();
        let first = world.connect(Role::Admin);
        world.request(first, "session/new", json!({"cwd": "/w/p"}));
        for action in actions {
            world.act(action, &mut notes);
        }
        world.settle();
        world.check();
        world.check_prompts(&notes);
    }
}

#[test]
fn the_hub_renames_sessions_of_agents_without_titles() {
    let mut world = world(100_000);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let session = world.session_of(0).unwrap();
    let named = world.request(client, "session/set_title", json!({"sessionId": session, "title": " Mine "}));
    let empty = world.request(client, "session/set_title", json!({"sessionId": session, "title": " "}));
    world.settle();
    assert_eq!(world.clients[&client].answers[&named][0]["result"], json!({"title": "Mine"}));
    assert_eq!(world.clients[&client].answers[&empty][0]["error"]["code"], codes::INVALID_PARAMS);
    assert_eq!(world.core.sessions[&*session].summary().title.as_deref(), Some("Mine"));
    let (_, last) = world.log[&*session].last().unwrap();
    assert!(last.contains(r#""title":"Mine""#), "the log keeps it: {last}");
    world.check();
}

#[test]
fn queued_prompts_are_identified_by_their_idempotency_key() {
    let mut world = world(100_000);
    let (one, other) = (world.connect(Role::Admin), world.connect(Role::Admin));
    world.request(one, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let session = world.session_of(0).unwrap();
    let prompt = |operation: &str| {
        json!({"sessionId": session, "prompt": [{"type": "text", "text": "again"}],
            "_meta": {"switchboard/operationId": operation}})
    };
    world.request(one, "session/prompt", prompt("first"));
    world.settle();
    world.request(other, "session/prompt", prompt("theirs"));
    let mine = world.request(one, "session/prompt", prompt("mine"));
    world.settle();
    let queued = |world: &World| {
        let queued = world.core.sessions[&*session].summary().queued;
        queued.into_iter().map(|prompt| (prompt.text, prompt.operation.unwrap())).collect::<Vec<_>>()
    };
    let named = |name: &str| ("again".to_owned(), name.to_owned());
    assert_eq!(queued(&world), [named("theirs"), named("mine")]);
    world.notify(one, "$/cancel_request", json!({"requestId": mine}));
    world.settle();
    assert_eq!(queued(&world), [named("theirs")]);
    assert_eq!(world.clients[&one].answers[&mine][0]["error"]["code"], codes::REQUEST_CANCELLED);
}

impl World {
    /// Checks that the response to a prompt says whether the agent has received it, even if the client has cancelled
    /// it.
    fn check_prompts(&self, notes: &Notes) {
        for (client, id, text) in &notes.prompts {
            let answers = self.clients.get(client).and_then(|client| client.answers.get(id));
            let Some(answer) = answers.and_then(|answers| answers.first()) else { continue };
            let has_it = self.agent.prompts.contains(text);
            if answer["error"]["code"] == codes::REQUEST_CANCELLED {
                assert!(!has_it, "the agent works on {text}, which its client has back");
            } else if answer["error"].is_null() {
                assert!(has_it, "the agent has never got {text}");
            }
        }
    }

    fn check(&self) {
        let mut ran = HashSet::new();
        for prompt in &self.agent.prompts {
            assert!(ran.insert(prompt), "the prompt {prompt} ran twice");
        }
        for (id, times) in &self.agent.answered {
            assert_eq!(*times, 1, "question {id} was answered {times} times");
        }
        for (connection, client) in &self.clients {
            for id in &client.asked {
                let count = client.answers.get(id).map_or(0, Vec::len);
                // Queued prompts have no response yet.
                let waits = client.prompts.contains(id)
                    && self.core.cx.clients.connections[connection]
                        .pending
                        .contains(Side::Client, &(*id).into());
                assert_eq!(
                    count,
                    usize::from(!waits),
                    "request {id} of {connection}: {:?}",
                    client.answers.get(id)
                );
            }
            for (session, from) in &client.from {
                let attached =
                    self.core.cx.clients.connections[connection].subscriptions.contains_key(&**session);
                assert!(attached, "{connection} is not attached to {session}");
                let all = shown(&self.fold_log(session, usize::MAX));
                let held = shown(&self.held_by(*connection, session));
                assert_eq!(held, all, "{connection} in {session} from {from}");
                // The translator of a client has everything that the client has.
                if self.core.cx.clients.connections[connection].is_translated {
                    let translated = shown(&self.translated_for(*connection, session));
                    assert_eq!(translated, all, "the translator of {connection} in {session} from {from}");
                }
                let open: Vec<String> = self.core.sessions[&**session]
                    .state
                    .iter()
                    .flat_map(|state| state.questions.values())
                    .map(|question| question.params.to_value()["title"].as_str().unwrap().to_owned())
                    .collect();
                for title in open {
                    assert!(
                        client.questions.values().any(|known| *known == title),
                        "{connection} is not asked {title}"
                    );
                }
            }
        }
        // In every interleaving, folding the log gives the state that the hub has.
        for (id, session) in &self.core.sessions {
            let Some(known) = &session.state else { continue };
            let mut state = SessionState::default();
            for (offset, (channel, text)) in self.log[id].iter().enumerate() {
                let _ = state.apply(offset as u64, *channel, text);
            }
            assert_eq!(state.observable(), known.observable());
        }
    }
}
