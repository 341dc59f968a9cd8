//! Tests of the host with sessions in memory: scripted updates, and any order of updates and actions. Each client in the
//! tests folds what it gets with the reducers of the protocol's own crate and compares that with snapshots.

// JSON is written where it is passed.
#![allow(clippy::needless_pass_by_value)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ahp::reducers::{
    ReduceOutcome, apply_action_to_chat, apply_action_to_root, apply_action_to_session,
    apply_action_to_terminal,
};
use ahp_types::actions::StateAction;
use ahp_types::state::{ChatState, RootState, SessionState, TerminalState};
use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_acp::{Moment, Side, Wire, WireFormat, v2};
use switchboard_session::Conversation;
use switchboard_store::Role;

use crate::host::{Command, Effect, Host, HostOptions, Listed};
use crate::memory::Memory;
use crate::prompt::Accepts;
use crate::question::Answer;
use crate::session::Link;
use crate::wire::ROOT;

const START: i64 = 1_794_716_323_000;
const SESSION: &str = "demo:/11111111-2222";
const CHAT: &str = "demo:/11111111-2222/chat";

struct Shared(Arc<Mutex<Conversation>>);

impl Link for Shared {
    fn look(&self, look: &mut dyn FnMut(&Conversation)) {
        look(&self.0.lock().unwrap());
    }
}

/// A state that a client has.
enum State {
    Root(Box<RootState>),
    Session(Box<SessionState>),
    Chat(Box<ChatState>),
    Terminal(Box<TerminalState>),
}

impl State {
    fn new(channel: &str, value: &Value) -> Self {
        let value = value.clone();
        if channel == ROOT {
            State::Root(serde_json::from_value(value).unwrap())
        } else if channel.starts_with("ahp-terminal:") {
            State::Terminal(serde_json::from_value(value).unwrap())
        } else if channel.contains("/chat") {
            State::Chat(serde_json::from_value(value).unwrap())
        } else {
            State::Session(serde_json::from_value(value).unwrap())
        }
    }

    fn apply(&mut self, action: &Value) -> ReduceOutcome {
        let action: StateAction = serde_json::from_value(action.clone()).unwrap();
        assert!(!matches!(action, StateAction::Unknown(_)), "{action:?}");
        match self {
            State::Root(state) => apply_action_to_root(state, &action),
            State::Session(state) => apply_action_to_session(state, &action),
            State::Chat(state) => apply_action_to_chat(state, &action),
            State::Terminal(state) => apply_action_to_terminal(state, &action),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            State::Root(state) => serde_json::to_value(state),
            State::Session(state) => serde_json::to_value(state),
            State::Chat(state) => serde_json::to_value(state),
            State::Terminal(state) => serde_json::to_value(state),
        }
        .unwrap()
    }
}

/// A client that folds the actions that it receives.
#[derive(Default)]
struct Client {
    states: HashMap<String, State>,
    /// Sequence number of the last action or snapshot.
    last: i64,
    /// Actions in order: channel and envelope.
    actions: Vec<Value>,
    answers: HashMap<i64, Value>,
    notes: Vec<Value>,
    errors: Vec<Value>,
}

impl Client {
    fn take(&mut self, text: &str) {
        let message: Value = serde_json::from_str(text).unwrap();
        if message["method"] == "action" {
            self.action(&message["params"]);
        } else if message["method"].is_string() {
            self.notes.push(message);
        } else if let Some(id) = message["id"].as_i64() {
            self.snapshots(&message["result"]);
            self.answers.insert(id, message);
        } else {
            self.errors.push(message);
        }
    }

    fn snapshots(&mut self, result: &Value) {
        let one = result.get("snapshot");
        let snapshots = result["snapshots"].as_array().into_iter().flatten().chain(one);
        for snapshot in snapshots {
            let channel = snapshot["resource"].as_str().unwrap();
            self.states.insert(channel.to_owned(), State::new(channel, &snapshot["state"]));
            self.last = self.last.max(snapshot["fromSeq"].as_i64().unwrap());
        }
        for action in result["actions"].as_array().into_iter().flatten() {
            self.action(action);
        }
    }

    fn action(&mut self, envelope: &Value) {
        let number = envelope["serverSeq"].as_i64().unwrap();
        assert!(number > self.last, "{envelope} after {}", self.last);
        self.last = number;
        if envelope.get("rejectionReason").is_none() {
            let channel = envelope["channel"].as_str().unwrap();
            if let Some(state) = self.states.get_mut(channel) {
                let outcome = state.apply(&envelope["action"]);
                // Echoes of settings have no effect; actions of the host always have one.
                assert!(
                    outcome == ReduceOutcome::Applied || envelope.get("origin").is_some(),
                    "{outcome:?}: {envelope}"
                );
            }
        }
        self.actions.push(envelope.clone());
    }

    fn chat(&self) -> Value {
        self.states[CHAT].to_value()
    }
}

/// A host, its clients and one session of a hub.
struct World {
    host: Host,
    clients: HashMap<u64, Client>,
    conversation: Arc<Mutex<Conversation>>,
    commands: Vec<Command>,
    others: Vec<Effect>,
    now: i64,
    requests: i64,
}

fn options(memory: Memory, role: Role) -> HostOptions {
    HostOptions {
        agents: vec!["demo".into(), "Other Agent".into(), "file".into()],
        folder: "/w".into(),
        resolve: Arc::new(|folder| match folder.starts_with("/w") {
            true => Ok(folder.to_owned()),
            false => Err("it is outside the roots".to_owned()),
        }),
        read: Arc::new(|_| None),
        memory,
        role,
    }
}

impl World {
    fn new() -> Self {
        World::with(Memory::load(None), START)
    }

    fn with(memory: Memory, now: i64) -> Self {
        let conversation = Arc::new(Mutex::new(Conversation::new(WireFormat::Any)));
        let host = Host::new(options(memory, Role::Admin), Moment(now)).unwrap();
        World {
            host,
            clients: HashMap::new(),
            conversation,
            commands: Vec::new(),
            others: Vec::new(),
            now,
            requests: 0,
        }
    }

    fn step<T>(&mut self, step: impl FnOnce(&mut Host, Moment) -> T) -> T {
        let result = step(&mut self.host, Moment(self.now));
        for effect in self.host.take_effects() {
            match effect {
                Effect::Send { client, text } => {
                    if let Some(client) = self.clients.get_mut(&client) {
                        client.take(&text);
                    }
                }
                Effect::Command { command, .. } => self.commands.push(command),
                effect => self.others.push(effect),
            }
        }
        result
    }

    fn connect(&mut self, client: u64) {
        self.clients.insert(client, Client::default());
        self.step(|host, _| host.connected(client));
    }

    fn send(&mut self, client: u64, message: &Value) {
        let text = message.to_string();
        self.step(|host, now| host.message(client, &text, now));
    }

    /// Sends a request and returns the response, which may be missing.
    fn ask(&mut self, client: u64, method: &str, params: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(client, &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.clients[&client].answers.get(&id).cloned().unwrap_or_default()
    }

    fn initialize(&mut self, client: u64, version: &str) -> Value {
        self.connect(client);
        self.ask(
            client,
            "initialize",
            json!({"channel": ROOT, "protocolVersions": [version], "clientId": format!("c{client}"),
            "initialSubscriptions": [ROOT]}),
        )
    }

    fn subscribe(&mut self, client: u64, channel: &str) -> Value {
        self.ask(client, "subscribe", json!({"channel": channel}))
    }

    fn dispatch(&mut self, client: u64, channel: &str, action: Value) {
        let params = json!({"channel": channel, "clientSeq": 1, "action": action});
        self.send(client, &json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}));
    }

    fn start_turn(&mut self, client: u64, turn: &str, text: &str) {
        self.dispatch(
            client,
            CHAT,
            json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-11-15T04:18:43.000Z",
            "message": {"text": text, "origin": {"kind": "user"}}}),
        );
    }

    /// A client with the chat and the session of a provisional session.
    fn provisional(&mut self) {
        self.initialize(1, "0.9.0");
        let created = self.ask(
            1,
            "createSession",
            json!({"channel": SESSION, "provider": "demo", "workingDirectories": ["file:///w/p"]}),
        );
        assert_eq!(created["result"], Value::Null, "{created}");
        assert!(created.get("error").is_none(), "{created}");
        for channel in [SESSION, CHAT] {
            assert!(self.subscribe(1, channel)["result"]["snapshot"].is_object());
        }
    }

    /// The same after the first prompt, which the hub has accepted.
    fn prompted(&mut self) {
        self.provisional();
        self.start_turn(1, "t1", "hello");
        self.opened();
        self.update("h", json!({"sessionUpdate": "user_message", "messageId": "m1", "content": [{"type": "text", "text": "hello"}]}));
        self.update("h", json!({"sessionUpdate": "state_update", "state": "running"}));
    }

    fn opened(&mut self) {
        self.conversation.lock().unwrap().open_session("h").unwrap();
        let link = Arc::new(Shared(Arc::clone(&self.conversation)));
        self.step(|host, now| host.session_opened(SESSION, &"h".into(), link, Accepts::default(), now));
    }

    fn update(&mut self, session: &str, update: Value) {
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}).to_string();
        let now = self.now;
        let changes = {
            let mut conversation = self.conversation.lock().unwrap();
            let folded = conversation.read(&line, Some(Side::Agent), Moment(now)).unwrap();
            let Some(step) = folded.step else { return };
            let id = conversation.id_at(step.session).unwrap().to_string();
            (id, step.changes)
        };
        self.step(|host, now| host.session_changed(SESSION, &changes.0, &changes.1, now));
    }

    fn ask_permission(&mut self, id: &str, call: &str) {
        let request = json!({"sessionId": "h", "title": "Write?", "subject": {"type": "tool_call", "toolCall": {"toolCallId": call, "title": "Write"}},
            "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]});
        let text = request.to_string();
        let request = v2::RequestPermissionRequest::decode(&text, WireFormat::Any).unwrap();
        self.step(|host, now| host.permission_asked(SESSION, "h", id, &request, now));
    }

    fn tick(&mut self, milliseconds: i64) {
        self.now += milliseconds;
        self.step(Host::tick);
    }

    /// Compares what each client has folded with a snapshot of the same moment.
    fn check(&mut self) {
        self.connect(99);
        let clients: Vec<u64> = self.clients.keys().copied().filter(|client| *client != 99).collect();
        let answer = self.ask(99, "initialize", json!({"channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": "judge", "initialSubscriptions": []}));
        assert!(answer["result"].is_object(), "{answer}");
        for client in clients {
            let channels: Vec<String> = self.clients[&client].states.keys().cloned().collect();
            for channel in channels {
                let snapshot = self.subscribe(99, &channel);
                if snapshot.get("error").is_some() {
                    continue;
                }
                // Through the types, so that both have the same form.
                let known = State::new(&channel, &snapshot["result"]["snapshot"]["state"]).to_value();
                assert_eq!(self.clients[&client].states[&channel].to_value(), known, "{channel}");
            }
        }
        self.step(|host, now| host.disconnected(99, now));
        self.clients.remove(&99);
    }

    fn listed(&mut self, title: &str, status: u32) {
        let listed = Listed {
            id: "h".into(),
            agent: "demo".into(),
            folder: "/w/p".into(),
            title: Some(title.into()),
            changed: self.now,
            status,
        };
        self.step(|host, now| host.set_sessions(vec![listed], now));
    }
}

#[test]
fn the_version_is_the_highest_common_one_and_others_are_told_those_that_exist() {
    let mut world = World::new();
    world.connect(1);
    assert_eq!(world.ask(1, "listSessions", json!({}))["error"]["code"], -32600);
    assert_eq!(world.ask(1, "ping", json!({"channel": ROOT}))["result"], json!({}));
    let refused = world.ask(
        1,
        "initialize",
        json!({"channel": ROOT, "protocolVersions": ["0.5.1", "2.0.0"], "clientId": "c"}),
    );
    assert_eq!(refused["error"]["code"], -32005);
    assert!(refused["error"]["data"]["supportedVersions"].is_array());
    let answer = world.initialize(1, "0.9.0");
    assert_eq!(answer["result"]["protocolVersion"], "0.9.0");
    let agents = &answer["result"]["snapshots"][0]["state"]["agents"];
    let providers: Vec<&str> =
        agents.as_array().unwrap().iter().map(|agent| agent["provider"].as_str().unwrap()).collect();
    assert_eq!(providers, ["demo", "other-agent", "acp-file"]);
    assert_eq!(agents[1]["displayName"], "Other Agent");
    assert_eq!(agents[0]["models"][0]["id"], "default");
    assert_eq!(world.ask(1, "moveChat", json!({}))["error"]["code"], -32601);
}

#[test]
fn a_session_is_provisional_until_its_first_prompt() {
    let mut world = World::new();
    world.provisional();
    let again = json!({"channel": SESSION, "provider": "demo"});
    assert_eq!(world.ask(1, "createSession", again)["error"]["code"], -32003);
    for (wrong, code) in [
        (json!({"channel": "demo:/x", "provider": "none"}), -32002),
        (json!({"channel": "demo:/x", "provider": "demo", "workingDirectories": ["file:///etc"]}), -32602),
        (json!({"channel": "demo:/x", "provider": "demo", "workingDirectories": ["http://x/"]}), -32602),
        (json!({"channel": "no uri", "provider": "demo"}), -32602),
        (json!({"channel": "ahp-root://", "provider": "demo"}), -32602),
        (json!({"provider": "demo"}), -32602),
    ] {
        assert_eq!(world.ask(1, "createSession", wrong.clone())["error"]["code"], code, "{wrong}");
    }
    assert_eq!(world.ask(1, "listSessions", json!({}))["result"]["items"], json!([]));
    assert!(world.others.is_empty(), "no agent is started: {:?}", world.others);
    world.start_turn(1, "t1", "hello");
    assert!(
        matches!(&world.others[..], [Effect::Start { agent, folder, .. }] if agent == "demo" && folder == "/w/p")
    );
    assert!(matches!(&world.commands[..], [Command::Prompt { turn, .. }] if turn == "t1"));
    let echo = &world.clients[&1].actions[0];
    assert_eq!((&echo["origin"]["clientId"], &echo["action"]["turnId"]), (&json!("c1"), &json!("t1")));
    // The hub lists it before the host knows its id.
    world.listed("hello", 8);
    assert!(world.clients[&1].notes.is_empty());
    world.opened();
    world.listed("hello", 8);
    let added = world.clients[&1].notes.iter().find(|note| note["method"] == "root/sessionAdded").unwrap();
    assert_eq!(added["params"]["summary"]["resource"], SESSION);
    assert_eq!(world.clients[&1].states[SESSION].to_value()["title"], "hello");
    world.check();
}

#[test]
fn a_turn_with_text_thought_and_a_tool_call_ends_with_the_work() {
    let mut world = World::new();
    world.prompted();
    let chunk = |kind: &str, id: &str, text: &str| json!({"sessionUpdate": kind, "messageId": id, "content": {"type": "text", "text": text}});
    world.update("h", chunk("agent_thought_chunk", "t", "Hm"));
    world.update("h", chunk("agent_message_chunk", "a", "Hel"));
    world.update("h", chunk("agent_message_chunk", "a", "lo"));
    world.update("h", json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Run", "kind": "execute", "status": "in_progress", "rawInput": {"command": "ls"}}));
    world.update("h", json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": {"type": "content", "content": {"type": "text", "text": "out"}}}));
    world.tick(200);
    world.update("h", json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}));
    world.update("h", chunk("agent_message_chunk", "a", " again"));
    world.update("h", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}));
    let chat = world.clients[&1].chat();
    assert!(chat.get("activeTurn").is_none_or(Value::is_null), "{chat}");
    let turn = &chat["turns"][0];
    assert_eq!(
        (&turn["id"], &turn["state"], &turn["message"]["text"]),
        (&json!("t1"), &json!("complete"), &json!("hello"))
    );
    let parts: Vec<(&str, &str)> = turn["responseParts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["kind"].as_str().unwrap(), part["content"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(parts, [("reasoning", "Hm"), ("markdown", "Hello"), ("toolCall", ""), ("markdown", " again")]);
    let call = &turn["responseParts"][2]["toolCall"];
    assert_eq!(
        (&call["status"], &call["success"], &call["toolInput"]),
        (&json!("completed"), &json!(true), &json!("ls"))
    );
    assert_eq!(call["content"], json!([{"type": "text", "text": "out"}]));
    world.check();
}

#[test]
fn prompts_of_others_and_work_without_a_prompt_have_turns_of_their_own() {
    let mut world = World::new();
    world.prompted();
    world.update("h", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}));
    world.update("h", json!({"sessionUpdate": "user_message", "messageId": "m2", "content": [{"type": "text", "text": "from the page"}]}));
    world.update("h", json!({"sessionUpdate": "state_update", "state": "running"}));
    world.update("h", json!({"sessionUpdate": "agent_message", "messageId": "a2", "content": [{"type": "text", "text": "yes"}]}));
    world.update("h", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "max_tokens"}));
    world.update("h", json!({"sessionUpdate": "agent_message", "messageId": "a3", "content": [{"type": "text", "text": "by myself"}]}));
    world.tick(5000);
    let chat = world.clients[&1].chat();
    let turns = chat["turns"].as_array().unwrap();
    let ids: Vec<&str> = turns.iter().map(|turn| turn["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["t1", "m-m2", "agent-2"]);
    assert_eq!(turns[1]["responseParts"][1]["kind"], "systemNotification");
    assert_eq!(
        (&turns[2]["message"]["origin"]["kind"], &turns[2]["responseParts"][0]["content"]),
        (&json!("agent"), &json!("by myself"))
    );
    world.check();
}

#[test]
fn only_an_approval_that_names_an_option_counts_and_only_once() {
    let mut world = World::new();
    world.prompted();
    world.update("h", json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Write", "kind": "edit", "status": "pending"}));
    world.ask_permission("7", "c");
    let chat = world.clients[&1].chat();
    assert_eq!(chat["status"], 24);
    let state = &chat["activeTurn"]["responseParts"][0]["toolCall"];
    assert_eq!(
        (&state["status"], &state["options"][0]["id"]),
        (&json!("pending-confirmation"), &json!("yes"))
    );
    assert!(state.get("edits").is_none());
    assert_eq!(world.clients[&1].states[SESSION].to_value()["inputNeeded"][0]["id"], "need-7");
    let confirm = |extra: Value| {
        let mut action = json!({"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": "c"});
        action.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        action
    };
    let before = world.commands.len();
    for wrong in [
        json!({"approved": true}),
        json!({"approved": true, "confirmed": "user-action"}),
        json!({"approved": true, "selectedOptionId": "no"}),
        json!({"approved": true, "selectedOptionId": "other"}),
        json!({"approved": "yes", "selectedOptionId": "yes"}),
        json!({"approved": true, "selectedOptionId": "yes", "turnId": "t0"}),
    ] {
        world.dispatch(1, CHAT, confirm(wrong.clone()));
        assert!(world.clients[&1].actions.last().unwrap()["rejectionReason"].is_string(), "{wrong}");
    }
    assert_eq!(world.commands.len(), before);
    world.dispatch(
        1,
        CHAT,
        confirm(json!({"approved": true, "confirmed": "user-action", "selectedOptionId": "yes"})),
    );
    assert_eq!(
        world.commands.last(),
        Some(&Command::Answer { question: "7".into(), answer: Answer::Option("yes".into()) })
    );
    assert!(world.clients[&1].states[SESSION].to_value().get("inputNeeded").is_none_or(Value::is_null));
    let after = world.commands.len();
    world.dispatch(
        1,
        CHAT,
        confirm(json!({"approved": true, "confirmed": "user-action", "selectedOptionId": "yes"})),
    );
    assert!(world.clients[&1].actions.last().unwrap()["rejectionReason"].is_string(), "it is late");
    assert_eq!(world.commands.len(), after);
    world.check();
}

#[test]
fn a_question_that_is_answered_elsewhere_is_withdrawn() {
    let mut world = World::new();
    world.prompted();
    world.update("h", json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Write", "status": "pending"}));
    world.ask_permission("7", "c");
    world.ask_permission("8", "unknown");
    world.step(|host, now| host.question_withdrawn(SESSION, "7", now));
    world.step(|host, now| host.question_withdrawn(SESSION, "8", now));
    world.update("h", json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed", "content": [{"type": "content", "content": {"type": "text", "text": "Not allowed."}}]}));
    let chat = world.clients[&1].chat();
    assert_eq!(chat["status"], 8);
    let parts = &chat["activeTurn"]["responseParts"];
    assert_eq!(
        (&parts[0]["toolCall"]["status"], &parts[0]["toolCall"]["success"]),
        (&json!("completed"), &json!(false))
    );
    assert_eq!(parts[0]["toolCall"]["error"]["message"], "Not allowed.");
    assert_eq!(parts[1]["toolCall"]["status"], "completed");
    world.check();
}

#[test]
fn a_cancelled_turn_is_over_at_once_and_what_follows_is_not_shown() {
    let mut world = World::new();
    world.prompted();
    world.update("h", json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Slow", "status": "in_progress"}));
    world.dispatch(1, CHAT, json!({"type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": {"text": "next", "origin": {"kind": "user"}}}));
    world.dispatch(1, CHAT, json!({"type": "chat/turnCancelled", "turnId": "t1", "duration": 5}));
    let tail = &world.commands[world.commands.len() - 2..];
    assert!(
        matches!(tail, [Command::Cancel, Command::Prompt { turn, .. }] if turn == "queued-q"),
        "{tail:?}"
    );
    world.update("h", json!({"sessionUpdate": "agent_message", "messageId": "late", "content": [{"type": "text", "text": "too late"}]}));
    world.update("h", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}));
    let chat = world.clients[&1].chat();
    assert_eq!(chat["turns"][0]["state"], "cancelled");
    assert_eq!(
        (&chat["activeTurn"]["id"], &chat["activeTurn"]["responseParts"]),
        (&json!("queued-q"), &json!([]))
    );
    assert!(!chat.to_string().contains("too late"));
    world.dispatch(1, CHAT, json!({"type": "chat/turnCancelled", "turnId": "t1", "duration": 5}));
    assert!(world.clients[&1].actions.last().unwrap()["rejectionReason"].is_string());
    world.check();
}

#[test]
fn refused_prompts_are_errors_of_their_turn() {
    let mut world = World::new();
    world.provisional();
    world.start_turn(1, "t1", "hello");
    world.step(|host, now| host.session_failed(SESSION, "the agent did not start", now));
    let chat = world.clients[&1].chat();
    assert_eq!(chat["turns"][0]["state"], "error");
    assert_eq!(chat["turns"][0]["responseParts"][0]["error"]["message"], "the agent did not start");
    // The next prompt tries again.
    world.start_turn(1, "t2", "hello");
    assert_eq!(world.others.iter().filter(|effect| matches!(effect, Effect::Start { .. })).count(), 2);
    world.start_turn(1, "t2", "hello");
    assert!(world.clients[&1].actions.last().unwrap()["rejectionReason"].is_string(), "the same turn");
    assert_eq!(world.commands.len(), 2);
    world.check();
}

#[test]
fn actions_that_only_a_host_may_send_and_malformed_ones_are_refused() {
    let mut world = World::new();
    world.prompted();
    let count = world.commands.len();
    for (channel, action) in [
        (CHAT, json!({"type": "chat/delta", "turnId": "t1", "partId": "p1", "content": "x"})),
        (CHAT, json!({"type": "chat/turnComplete", "turnId": "t1", "duration": 1})),
        (CHAT, json!({"type": "chat/turnStarted", "turnId": "x"})),
        (CHAT, json!({"type": "chat/turnStarted", "turnId": "x", "startedAt": 7, "message": {}})),
        (CHAT, json!({"type": "chat/truncated", "turnId": "t1"})),
        (
            CHAT,
            json!({"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": "none", "approved": true, "selectedOptionId": "yes"}),
        ),
        (CHAT, json!({"type": "chat/inputCompleted", "requestId": "none", "response": "accept"})),
        (CHAT, json!({"type": "odd/action"})),
        (SESSION, json!({"type": "session/ready"})),
        (SESSION, json!({"type": "session/titleChanged", "title": ""})),
        (SESSION, json!({"type": "chat/turnStarted", "turnId": "x"})),
        (ROOT, json!({"type": "root/agentsChanged", "agents": []})),
        ("demo:/none/chat", json!({"type": "chat/turnStarted", "turnId": "x"})),
    ] {
        world.dispatch(1, channel, action.clone());
        let last = world.clients[&1].actions.last().unwrap();
        assert!(last["rejectionReason"].is_string() && last["action"] == action, "{action}: {last}");
    }
    assert_eq!(world.commands.len(), count);
    world.send(1, &json!({"method": "dispatchAction", "params": {"channel": 7}}));
    world.send(1, &json!({"method": "setClientManagedSettingsPermissions", "params": {}}));
    world.check();
}

#[test]
fn clients_get_each_others_settings_and_tools() {
    let mut world = World::new();
    world.prompted();
    world.initialize(2, "1.0.0");
    world.subscribe(2, SESSION);
    let tools: Vec<Value> =
        (0..500).map(|n| json!({"name": format!("tool{n}"), "description": "x".repeat(200)})).collect();
    for _ in 0..10 {
        world.dispatch(
            1,
            SESSION,
            json!({"type": "session/activeClientSet", "activeClient": {"clientId": "c1", "tools": tools}}),
        );
    }
    world.dispatch(1, ROOT, json!({"type": "root/configChanged", "config": {"workspaceTrust": true}}));
    world.dispatch(1, SESSION, json!({"type": "session/titleChanged", "title": "Mine"}));
    world.listed("the agent's", 8);
    assert_eq!(world.clients[&2].states[SESSION].to_value()["title"], "Mine");
    assert_eq!(world.clients[&2].states[SESSION].to_value()["activeClients"].as_array().unwrap().len(), 1);
    assert!(world.commands.iter().all(|command| matches!(command, Command::Prompt { .. })));
    world.check();
}

#[test]
fn options_become_models_and_configuration() {
    let mut world = World::new();
    world.prompted();
    let option = |current: &str| {
        json!({"sessionUpdate": "config_option_update", "configOptions": [
        {"type": "select", "configId": "mode", "name": "Mode", "currentValue": current, "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]},
        {"type": "select", "configId": "m", "name": "Model", "category": "model", "currentValue": "big", "options": [{"value": "big", "name": "Big"}, {"value": "small", "name": "Small"}]}]})
    };
    world.update("h", option("ask"));
    let models = &world.clients[&1].states[ROOT].to_value()["agents"][0]["models"];
    assert_eq!(models.as_array().unwrap().len(), 3);
    let config = world.ask(1, "resolveSessionConfig", json!({"provider": "demo"}));
    assert_eq!(config["result"]["values"], json!({"acp.mode": "ask"}));
    // A session that is created later has the schema.
    let second = "demo:/second";
    world.ask(1, "createSession", json!({"channel": second, "provider": "demo"}));
    let snapshot = world.subscribe(1, second);
    assert_eq!(snapshot["result"]["snapshot"]["state"]["config"]["values"], json!({"acp.mode": "ask"}));
    world.dispatch(1, second, json!({"type": "session/configChanged", "config": {"acp.mode": "code"}}));
    world.dispatch(1, second, json!({"type": "session/configChanged", "config": {"acp.mode": "none"}}));
    assert!(world.clients[&1].actions.last().unwrap()["rejectionReason"].is_string());
    assert_eq!(world.clients[&1].states[second].to_value()["config"]["values"]["acp.mode"], "code");
    world.update("h", json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"type": "command", "name": "review", "description": "Reviews"}]}));
    let ask =
        |text: &str| json!({"channel": CHAT, "kind": "userMessage", "text": text, "offset": text.len()});
    assert_eq!(world.ask(1, "completions", ask("/re"))["result"]["items"][0]["insertText"], "/review ");
    assert_eq!(world.ask(1, "completions", ask("/review now"))["result"]["items"], json!([]));
    assert_eq!(world.ask(1, "completions", ask("re"))["result"]["items"], json!([]));
    world.check();
}

#[test]
fn reconnecting_replays_what_was_missed_or_sends_snapshots() {
    let mut world = World::new();
    world.prompted();
    let text = |n: usize| json!({"sessionUpdate": "agent_message_chunk", "messageId": "a", "content": {"type": "text", "text": format!("{n} ")}});
    let last = world.clients[&1].last;
    let mut kept = world.clients.remove(&1).unwrap();
    world.step(|host, now| host.disconnected(1, now));
    for n in 0..50 {
        world.update("h", text(n));
    }
    world.connect(2);
    let reconnect = |last: i64| json!({"clientId": "c1", "lastSeenServerSeq": last, "subscriptions": [ROOT, SESSION, CHAT, "demo:/gone"]});
    let answer = world.ask(2, "reconnect", reconnect(last));
    assert_eq!(
        (&answer["result"]["type"], &answer["result"]["missing"]),
        (&json!("replay"), &json!(["demo:/gone"]))
    );
    kept.snapshots(&answer["result"]);
    std::mem::swap(&mut world.clients.get_mut(&2).unwrap().states, &mut kept.states);
    world.update("h", text(50));
    world.check();
    // Far behind: more than the window has.
    for n in 0..20_000 {
        world.update("h", text(n));
    }
    world.connect(3);
    let answer = world.ask(3, "reconnect", reconnect(last));
    assert_eq!(answer["result"]["type"], "snapshot");
    assert_eq!(answer["result"]["snapshots"].as_array().unwrap().len(), 3);
    world.connect(4);
    for unknown in [
        json!({"clientId": "other", "lastSeenServerSeq": last, "subscriptions": []}),
        json!({"clientId": "c1", "lastSeenServerSeq": i64::MAX, "subscriptions": []}),
    ] {
        assert_eq!(world.ask(4, "reconnect", unknown)["error"]["code"], -32008);
    }
    world.check();
}

#[test]
fn a_session_keeps_its_uri_and_its_turns_over_a_restart() {
    let memory = Memory::load(None);
    let mut world = World::with(memory.clone(), START);
    world.prompted();
    let number = world.clients[&1].last;
    world.update("h", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}));
    let conversation = Arc::clone(&world.conversation);
    let mut world = World::with(memory, START + 60_000);
    world.conversation = conversation;
    world.listed("hello", 1);
    assert!(world.initialize(1, "0.9.0")["result"]["serverSeq"].as_i64().unwrap() > number);
    let items = world.ask(1, "listSessions", json!({}))["result"]["items"].clone();
    assert_eq!(items[0]["resource"], SESSION);
    assert_eq!(world.subscribe(1, CHAT), Value::Null, "it waits for the history");
    assert!(matches!(&world.others[..], [Effect::Attach { id, .. }] if **id == *"h"));
    world.opened();
    let chat = world.clients[&1].chat();
    assert_eq!(
        (&chat["turns"][0]["id"], &chat["turns"][0]["message"]["text"]),
        (&json!("t1"), &json!("hello"))
    );
    // The client sends again what was not confirmed.
    world.start_turn(1, "t1", "hello");
    assert!(world.clients[&1].actions.last().unwrap()["rejectionReason"].is_string());
    assert!(world.commands.is_empty());
    world.check();
}

#[test]
fn sub_agents_have_chats_of_their_own() {
    let mut world = World::new();
    world.prompted();
    world.update("h", json!({"sessionUpdate": "tool_call_update", "toolCallId": "d", "title": "Delegate", "status": "in_progress", "content": [{"type": "session", "sessionId": "child"}]}));
    world.update("h", json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Explorer", "description": "Looks"}));
    world.update("h", json!({"sessionUpdate": "subagent_update", "sessionId": "free", "title": "Writer"}));
    for child in ["child", "free"] {
        world.update(child, json!({"sessionUpdate": "agent_message", "messageId": "x", "content": [{"type": "text", "text": format!("I am {child}")}]}));
    }
    let chats = world.clients[&1].states[SESSION].to_value()["chats"].clone();
    assert_eq!(chats.as_array().unwrap().len(), 3, "{chats}");
    for chat in &chats.as_array().unwrap()[1..] {
        assert_eq!((&chat["origin"]["kind"], &chat["interactivity"]), (&json!("tool"), &json!("read-only")));
        let channel = chat["resource"].as_str().unwrap().to_owned();
        let state = world.subscribe(1, &channel)["result"]["snapshot"]["state"].clone();
        assert!(
            state["activeTurn"]["responseParts"][0]["content"].as_str().unwrap().starts_with("I am "),
            "{state}"
        );
    }
    world.tick(200);
    world.update("h", json!({"sessionUpdate": "tool_call_update", "toolCallId": "d", "status": "completed"}));
    let chat = world.clients[&1].chat();
    let call = &chat["activeTurn"]["responseParts"][0]["toolCall"];
    assert_eq!(call["content"][0]["type"], "subagent", "{call}");
    assert!(call["_meta"]["subagentChatUri"].is_string(), "{call}");
    world.check();
}

#[test]
fn terminals_have_channels() {
    let mut world = World::new();
    world.prompted();
    world.update(
        "h",
        json!({"sessionUpdate": "terminal_update", "terminalId": "t/1", "command": "make", "cwd": "/w/p"}),
    );
    world.update("h", json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "make", "kind": "execute", "status": "in_progress", "content": [{"type": "terminal", "terminalId": "t/1"}]}));
    world.tick(200);
    let chat = world.clients[&1].chat();
    let terminal = chat["activeTurn"]["responseParts"][0]["toolCall"]["content"][0]["resource"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(world.subscribe(1, &terminal)["result"]["snapshot"].is_object());
    for (data, exit) in [("b25l", Value::Null), ("IHR3bw==", json!({"exitCode": 3}))] {
        world.update(
            "h",
            json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t/1", "data": data}),
        );
        if exit.is_object() {
            world.update(
                "h",
                json!({"sessionUpdate": "terminal_update", "terminalId": "t/1", "exitStatus": exit}),
            );
        }
    }
    let state = world.clients[&1].states[&terminal].to_value();
    assert_eq!(state["content"], json!([{"type": "unclassified", "value": "one two"}]));
    assert_eq!(state["lifecycle"], json!({"status": "exited", "exitCode": 3}));
    world.check();
}

#[test]
fn disposed_sessions_are_closed_in_the_hub_and_no_longer_listed() {
    let mut world = World::new();
    world.prompted();
    world.listed("hello", 8);
    assert_eq!(world.ask(1, "disposeSession", json!({"channel": SESSION})), Value::Null);
    let Some(Effect::Dispose { request, .. }) = world.others.pop() else { panic!("{:?}", world.others) };
    world.step(|host, now| host.disposed(1, &request, SESSION, "h", Ok(()), now));
    assert!(world.clients[&1].notes.iter().any(|note| note["method"] == "root/sessionRemoved"));
    assert_eq!(world.ask(1, "listSessions", json!({}))["result"]["items"], json!([]));
    // Updates that are still on their way find nothing.
    world.update("h", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}));
    assert_eq!(world.ask(1, "disposeSession", json!({"channel": "demo:/none"}))["error"]["code"], -32001);
    world.now += 1000;
    world.listed("used again", 8);
    assert_eq!(world.ask(1, "listSessions", json!({}))["result"]["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_view_token_reads_no_files() {
    let mut world = World::new();
    world.host = Host::new(options(Memory::load(None), Role::Answer), Moment(START)).unwrap();
    world.initialize(1, "1.0.0");
    assert_eq!(world.ask(1, "resourceRead", json!({"uri": "file:///w/secret"}))["error"]["code"], -32009);
    assert_eq!(
        world.ask(1, "resourceRead", json!({"uri": "switchboard-content:/x"}))["error"]["code"],
        -32008
    );
    assert!(world.others.is_empty());
}

// ----- any order

fn update() -> impl Strategy<Value = (usize, Value)> {
    let id = 0..4u8;
    let text = "[a-c\u{e4} ]{0,6}";
    let block = move || {
        prop_oneof![
            4 => text.prop_map(|text| json!({"type": "text", "text": text})),
            1 => Just(json!({"type": "image", "data": "AAEC", "mimeType": "image/png"})),
            1 => Just(json!({"type": "resource_link", "name": "n", "uri": "file:///w/n"})),
            1 => Just(json!({"type": "odd"})),
        ]
    };
    let message = prop_oneof![Just("agent_message"), Just("agent_thought"), Just("user_message")];
    let chunk =
        prop_oneof![Just("agent_message_chunk"), Just("agent_thought_chunk"), Just("user_message_chunk")];
    let status = prop_oneof![
        Just("pending"),
        Just("in_progress"),
        Just("completed"),
        Just("failed"),
        Just("cancelled")
    ];
    let content = prop_oneof![
        3 => block().prop_map(|block| json!({"type": "content", "content": block})),
        1 => (0..2u8).prop_map(|n| json!({"type": "terminal", "terminalId": format!("t{n}")})),
        1 => Just(json!({"type": "session", "sessionId": "child"})),
        1 => Just(json!({"type": "diff", "changes": [{"operation": "modify", "path": "/w/n"}],
            "patch": {"format": "git_patch", "text": "diff --git a/w/n b/w/n\n--- a/w/n\n+++ b/w/n\n@@ -1 +1 @@\n-a\n+b\n"}})),
    ];
    let state = prop_oneof![
        Just(json!({"state": "running"})),
        Just(json!({"state": "requires_action"})),
        Just(json!({"state": "idle", "stopReason": "end_turn"})),
        Just(json!({"state": "idle", "stopReason": "cancelled"})),
        Just(json!({"state": "idle", "stopReason": "error", "error": {"code": 1, "message": "m"}})),
        Just(json!({"state": "idle", "stopReason": "refusal"})),
    ];
    let update = prop_oneof![
        6 => (chunk, id.clone(), block()).prop_map(|(kind, id, block)| json!({"sessionUpdate": kind, "messageId": format!("m{id}"), "content": block})),
        3 => (message, id.clone(), prop::collection::vec(block(), 0..3)).prop_map(|(kind, id, content)| json!({"sessionUpdate": kind, "messageId": format!("m{id}"), "content": content})),
        5 => (id.clone(), status, prop::option::of(prop::collection::vec(content.clone(), 0..3))).prop_map(|(id, status, content)| {
            let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": format!("c{id}"), "status": status, "title": format!("T{id}"), "locations": [{"path": "/w/n", "line": 3}]});
            if let Some(content) = content { update["content"] = json!(content); }
            update
        }),
        2 => (id.clone(), content).prop_map(|(id, content)| json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": format!("c{id}"), "content": content})),
        3 => state.prop_map(|mut state| { state["sessionUpdate"] = json!("state_update"); state }),
        2 => (0..2u8, prop::option::of(0..3i64)).prop_map(|(id, exit)| {
            let mut update = json!({"sessionUpdate": "terminal_update", "terminalId": format!("t{id}"), "command": "make"});
            if let Some(exit) = exit { update["exitStatus"] = json!({"exitCode": exit}); }
            update
        }),
        2 => (0..2u8).prop_map(|id| json!({"sessionUpdate": "terminal_output_chunk", "terminalId": format!("t{id}"), "data": "w6Q="})),
        1 => prop_oneof![Just("pending"), Just("completed")].prop_map(|status| json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [{"content": "x", "priority": "low", "status": status}]}})),
        1 => Just(json!({"sessionUpdate": "plan_removed", "planId": "p"})),
        1 => (0..9u64).prop_map(|used| json!({"sessionUpdate": "usage_update", "used": used, "size": 10})),
        1 => Just(json!({"sessionUpdate": "notice", "severity": "info", "title": "n"})),
        1 => Just(json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed"})),
        1 => Just(json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Child"})),
        1 => Just(json!({"sessionUpdate": "config_option_update", "configOptions": [{"type": "boolean", "configId": "b", "name": "B", "currentValue": true}]})),
        1 => Just(json!({"sessionUpdate": "of_a_later_version"})),
    ];
    (prop_oneof![5 => Just(0usize), 1 => Just(1usize)], update)
}

#[derive(Debug, Clone)]
enum Event {
    Update(usize, Value),
    Action(u64, Value),
    Ask(u8, u8),
    AskData(u8),
    Withdraw(u8),
    Tick(i64),
    Accepted(u8),
    Failed(u8),
    Ended(u8),
    Reload(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let turn = 0..4u8;
    let action = prop_oneof![
        4 => turn.clone().prop_map(|turn| json!({"type": "chat/turnStarted", "turnId": format!("t{turn}"), "startedAt": "2026-11-15T04:18:43Z", "message": {"text": "a", "origin": {"kind": "user"}}})),
        1 => Just(json!({"type": "chat/turnStarted", "turnId": "bad", "startedAt": "yesterday", "message": {"text": "a", "origin": {"kind": "user"}}})),
        2 => turn.clone().prop_map(|turn| json!({"type": "chat/turnCancelled", "turnId": format!("t{turn}"), "duration": 1})),
        3 => (turn.clone(), 0..4u8, any::<bool>()).prop_map(|(turn, call, approved)| json!({"type": "chat/toolCallConfirmed", "turnId": format!("t{turn}"), "toolCallId": format!("c{call}"),
            "approved": approved, "confirmed": "user-action", "selectedOptionId": if approved { "yes" } else { "no" }})),
        1 => (0..3u8).prop_map(|id| json!({"type": "chat/inputCompleted", "requestId": format!("f{id}"), "response": "decline"})),
        2 => (0..3u8).prop_map(|id| json!({"type": "chat/pendingMessageSet", "kind": "queued", "id": format!("q{id}"), "message": {"text": "n", "origin": {"kind": "user"}}})),
        1 => Just(json!({"type": "chat/pendingMessageSet", "kind": "steering", "id": "s", "message": {"text": "n", "origin": {"kind": "user"}}})),
        1 => (0..3u8).prop_map(|id| json!({"type": "chat/pendingMessageRemoved", "kind": "queued", "id": format!("q{id}")})),
        1 => Just(json!({"type": "chat/draftChanged", "draft": {"text": "d", "origin": {"kind": "user"}}})),
    ];
    prop_oneof![
        12 => update().prop_map(|(session, update)| Event::Update(session, update)),
        6 => (1..3u64, action).prop_map(|(client, action)| Event::Action(client, action)),
        2 => (0..3u8, 0..4u8).prop_map(|(id, call)| Event::Ask(id, call)),
        1 => (0..3u8).prop_map(Event::AskData),
        1 => (0..3u8).prop_map(Event::Withdraw),
        3 => (0..1500i64).prop_map(Event::Tick),
        1 => turn.clone().prop_map(Event::Accepted),
        1 => turn.clone().prop_map(Event::Failed),
        1 => turn.prop_map(Event::Ended),
        1 => (1..3u64).prop_map(Event::Reload),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// After any sequence of events, a client that folds the actions it was sent has the state of a snapshot.
    #[test]
    fn what_clients_have_folded_equals_a_snapshot(events in prop::collection::vec(event(), 1..60)) {
        let mut world = World::new();
        world.prompted();
        world.initialize(2, "1.0.0");
        for channel in [SESSION, CHAT] {
            world.subscribe(2, channel);
        }
        for event in events {
            match event {
                Event::Update(session, update) => world.update(["h", "child"][session], update),
                Event::Action(client, action) => world.dispatch(client, CHAT, action),
                Event::Ask(id, call) => world.ask_permission(&id.to_string(), &format!("c{call}")),
                Event::AskData(id) => {
                    let text = r#"{"mode":"form","message":"m","sessionId":"h","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}"#;
                    let request = v2::CreateElicitationRequest::decode(text, WireFormat::Any).unwrap().into_owned();
                    world.step(|host, now| host.data_asked(SESSION, Some("h"), &format!("f{id}"), &request, now));
                }
                Event::Withdraw(id) => world.step(|host, now| host.question_withdrawn(SESSION, &id.to_string(), now)),
                Event::Tick(milliseconds) => world.tick(milliseconds),
                Event::Accepted(turn) => world.step(|host, now| host.prompt_accepted(SESSION, &format!("t{turn}"), Some("m9"), now)),
                Event::Failed(turn) => world.step(|host, now| host.prompt_failed(SESSION, &format!("t{turn}"), "no", now)),
                Event::Ended(turn) => world.step(|host, now| host.prompt_ended(SESSION, &format!("t{turn}"), now)),
                Event::Reload(client) => {
                    // A client that was away for a moment.
                    let last = world.clients[&client].last;
                    let channels: Vec<String> = world.clients[&client].states.keys().cloned().collect();
                    world.step(|host, now| host.disconnected(client, now));
                    world.step(|host, _| host.connected(client));
                    let answer = world.ask(client, "reconnect", json!({"clientId": format!("c{client}"), "lastSeenServerSeq": last, "subscriptions": channels}));
                    prop_assert!(answer["result"].is_object(), "{answer}");
                }
            }
            let chats: Vec<String> = match &world.clients[&2].states[SESSION] {
                State::Session(state) => state.chats.iter().map(|chat| chat.resource.clone()).collect(),
                _ => Vec::new(),
            };
            for chat in chats {
                if !world.clients[&2].states.contains_key(&chat) {
                    world.subscribe(2, &chat);
                }
            }
        }
        world.check();
    }

    /// Nothing that a client sends ends the host or makes it answer something that is not JSON-RPC.
    #[test]
    fn any_message_is_survived(lines in prop::collection::vec("\\PC{0,60}|\\{\"(id|method|params|jsonrpc)\":[0-9a-z\"\\{\\}\\[\\]:,]{0,40}\\}", 1..20)) {
        let mut world = World::new();
        world.prompted();
        for line in lines {
            world.step(|host, now| host.message(1, &line, now));
        }
        world.check();
    }

    /// Requests and actions with any values in the right places are answered.
    #[test]
    fn any_parameters_are_answered(method in prop_oneof![Just("initialize"), Just("reconnect"), Just("subscribe"), Just("listSessions"), Just("resolveSessionConfig"),
            Just("createSession"), Just("disposeSession"), Just("resourceRead"), Just("completions")],
        key in prop_oneof![Just("channel"), Just("protocolVersions"), Just("clientId"), Just("cursor"), Just("uri"), Just("workingDirectories"), Just("text"), Just("subscriptions")],
        value in prop_oneof![Just(json!(null)), Just(json!(7)), Just(json!("x")), Just(json!(["x", 7])), Just(json!({"x": []})), Just(json!(CHAT)), Just(json!(-1.5e300))])
    {
        let mut world = World::new();
        world.prompted();
        let mut params = json!({"channel": SESSION, "clientId": "c", "lastSeenServerSeq": 0, "protocolVersions": ["1.0.0"], "provider": "demo"});
        params[key] = value;
        let answer = world.ask(1, method, params);
        prop_assert!(answer == Value::Null || answer.get("result").is_some() || answer["error"]["code"].is_i64(), "{answer}");
    }
}
