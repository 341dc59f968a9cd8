//! The same agent through every command that runs agents: `run`, `bridge`, `serve` over WebSocket and HTTP,
//! and `connect`.
//!
//! Stored sessions, messages to clients, losses and decisions of rules must not depend on the command. Each
//! scenario is played by a small agent of either version; the stored sessions, their losses, and the final
//! names and states of sub-agents and tool calls in a client are compared with those of `bridge`.

use std::path::Path;

use serde_json::{Value, json};
use switchboard_session::{Conversation, Entry, Moment, Side};

use crate::agent_program::Place;
use crate::bridge;
use crate::connect::editor::Editor;
use crate::serve::block_on;
use crate::serve::hub::{Client, Hub};

/// An agent that plays one file per part of a turn; between two parts it waits for the answer to its request.
const AGENT: &str = r#"#!/bin/sh
folder=$1
say() { printf '%s\n' "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      printf '%s\n' "$line" >> "$folder/initialized"
      say '{"jsonrpc":"2.0","id":'"$id"','"$(cat "$folder/initialize")"'}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *'"session/prompt"'*)
      prompt=$id
      if [ -f "$folder/accepted" ]; then say '{"jsonrpc":"2.0","id":'"$prompt"','"$(cat "$folder/accepted")"'}'; fi
      cat "$folder/1"
      part=2
      while [ -f "$folder/$part" ]; do
        read -r answer
        printf '%s\n' "$answer" >> "$folder/answers"
        cat "$folder/$part"
        part=$((part + 1))
      done
      if [ -f "$folder/ended" ]; then say '{"jsonrpc":"2.0","id":'"$prompt"','"$(cat "$folder/ended")"'}'; fi ;;
  esac
done
"#;

/// A scenario: the protocol version of its agent, and the parts of its only turn.
struct Scenario {
    version: u64,
    parts: Vec<Vec<Value>>,
    /// The permission rules.
    rules: Option<&'static str>,
    /// The result of the prompt of a version 1 agent, if it is not the default.
    answer: Option<Value>,
}

fn update(update: Value) -> Value {
    of("s", update)
}

fn of(session: &str, update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

impl Scenario {
    /// Writes the agent and its files, and returns the command that starts it.
    fn write(&self, place: &Place, name: &str) -> Vec<String> {
        let folder = place.home().join(name);
        std::fs::create_dir(&folder).unwrap();
        let write = |file: &str, text: String| std::fs::write(folder.join(file), text).unwrap();
        write("agent", AGENT.to_owned());
        for (number, part) in (1..).zip(&self.parts) {
            write(&number.to_string(), part.iter().map(|line| format!("{line}\n")).collect());
        }
        if self.version == 1 {
            let result = json!({"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "script", "version": "1"}});
            write("initialize", format!(r#""result":{result}"#));
            let answer = self.answer.clone().unwrap_or_else(|| json!({"stopReason": "end_turn"}));
            write("ended", format!(r#""result":{answer}"#));
        } else {
            let result = json!({"protocolVersion": 2, "info": {"name": "script", "version": "1"}, "capabilities": {"session": {}}});
            write("initialize", format!(r#""result":{result}"#));
            write("accepted", r#""result":{"messageId":"u"}"#.to_owned());
        }
        ["sh", path(&folder.join("agent")), path(&folder)].map(str::to_owned).to_vec()
    }

    fn has_subagents(&self) -> bool {
        self.parts.iter().flatten().any(|line| line["params"]["update"]["sessionUpdate"] == "subagent_update")
    }

    /// Writes the rules, and returns the options for them.
    fn permissions(&self, place: &Place) -> Vec<String> {
        let Some(rules) = self.rules else { return Vec::new() };
        let file = place.home().join("rules.toml");
        std::fs::write(&file, rules).unwrap();
        ["--permissions", path(&file)].map(str::to_owned).to_vec()
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The result of running an agent with one of the commands.
#[derive(Debug)]
struct Kept {
    /// `sessions show` without ids and times, which differ by design.
    shown: String,
    /// Losses of the translation: messages and elements.
    losses: Vec<(String, String, String)>,
    /// The decision of the rules for each request, the rule, and the subject.
    judged: Vec<[Value; 3]>,
    /// The messages to its client.
    came: Vec<Value>,
    /// The final state of its client.
    seen: TapEvent,
}

/// The sub-agents and tool calls in a client at the end of the turn, without ids.
#[derive(Debug, Default, PartialEq, Eq)]
struct TapEvent {
    /// The permission requests, in order, with the session that sent them.
    questions: Vec<String>,
    /// The names and states of sub-agents and tool calls.
    ends: Vec<String>,
}

/// Returns the state of a version 2 client after these messages.
fn seen_by_version_2(messages: &[Value]) -> TapEvent {
    let mut all = Conversation::new(switchboard_acp::WireFormat::Any);
    let mut questions = Vec::new();
    for message in messages {
        let params = &message["params"];
        let method = message["method"].as_str().unwrap_or_default();
        if ["session/update", "session/request_permission"].contains(&method) {
            all.read(&message.to_string(), Some(Side::Agent), Moment(0)).unwrap();
        }
        if method == "session/request_permission" {
            let names: Vec<String> =
                all.names(params["sessionId"].as_str().unwrap()).into_iter().rev().collect();
            questions.push(format!("{}: {}", names.join(" › "), params["title"].as_str().unwrap()));
        }
    }
    let mut ends = Vec::new();
    for (id, session) in all.sessions() {
        let id = id.unwrap();
        let names: Vec<String> = all.names(id).into_iter().rev().collect();
        let state = if names.is_empty() { "" } else { all.state_in_words(id) };
        let calls = session.entries().filter_map(Entry::as_tool_call);
        let calls: Vec<String> =
            calls.map(|call| format!("{} {}", call.title().unwrap_or_default(), call.status())).collect();
        ends.push(format!("{}: {state} {calls:?}", names.join(" › ")));
    }
    ends.sort();
    TapEvent { questions, ends }
}

/// Returns the state of a version 1 client after these messages; it only supports tool calls.
fn seen_by_version_1(messages: &[Value]) -> TapEvent {
    let mut questions = Vec::new();
    let mut calls: Vec<(&str, Value)> = Vec::new();
    for message in messages {
        if message["method"] == "session/request_permission" {
            questions.push(message["params"]["toolCall"]["title"].as_str().unwrap().to_owned());
        }
        let update = &message["params"]["update"];
        let Some(id) = update["toolCallId"].as_str() else { continue };
        let place = calls.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
            calls.push((id, json!({})));
            calls.len() - 1
        });
        for key in ["title", "status", "content"] {
            if let Some(value) = update.get(key) {
                calls[place].1[key] = value.clone();
            }
        }
    }
    let mut ends: Vec<String> = calls.into_iter().map(|(_, call)| call.to_string()).collect();
    ends.sort();
    TapEvent { questions, ends }
}

fn seen_by(version: u64, messages: &[Value]) -> TapEvent {
    match version {
        1 => seen_by_version_1(messages),
        _ => seen_by_version_2(messages),
    }
}

/// Returns the messages of the agent as received by its client, with the ids of the agent.
fn without_ids(scenario: &Scenario, version: u64, came: &[Value]) -> Vec<Value> {
    let said: Vec<&Value> = scenario.parts.iter().flatten().collect();
    let asked = said.iter().filter(|line| line["id"].is_number());
    let mut questions = asked.map(|line| line["id"].clone()).collect::<Vec<_>>().into_iter();
    let mut lines = Vec::new();
    for line in came {
        let mut line = line.clone();
        match (line["method"].as_str(), version) {
            (Some("session/request_permission"), _) => line["id"] = questions.next().expect("a question"),
            (Some("session/update"), _) => {}
            // The response to the prompt.
            (None, 1) if line["result"]["stopReason"].is_string() => line["id"] = "prompt".into(),
            _ => continue,
        }
        if line["params"].is_object() {
            line["params"]["sessionId"] = "s".into();
            remove_marks(&mut line["params"]);
        }
        lines.push(line);
    }
    lines
}

/// Removes metadata that a hub adds.
fn remove_marks(params: &mut Value) {
    let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) else { return };
    meta.retain(|key, _| !key.starts_with("switchboard/") && !key.starts_with("acp/"));
    if meta.is_empty() {
        params.as_object_mut().unwrap().remove("_meta");
    }
}

fn kept(place: &Place, store: &str, version: u64, came: Vec<Value>) -> Kept {
    let seen = seen_by(version, &came);
    let sessions = |arguments: &[&str]| {
        let run = place.run(&[&["sessions", "--store", store], arguments].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run
    };
    let list = sessions(&["list", "--json"]).json_lines();
    assert_eq!(list.len(), 1, "{list:?}");
    let id = list[0]["id"].as_str().unwrap();
    let exported = sessions(&["export", "--everything", id]).json_lines();
    let losses = exported.iter().map(|line| &line["diagnostic"]).filter(|loss| loss["severity"].is_string());
    let word = |loss: &Value, key: &str| loss[key].as_str().unwrap_or_default().to_owned();
    let mut losses: Vec<_> = losses
        .filter(|loss| loss["severity"] != "guess")
        .map(|loss| (word(loss, "message"), word(loss, "element"), word(loss, "toward")))
        .collect();
    losses.sort();
    // Only a hub knows who answered.
    let shown = sessions(&["show", id]).stdout.replace(id, "SESSION");
    let by = |line: &str| line.split_once("answered by ").map(|(before, _)| format!("{before}answered"));
    let shown = shown.lines().map(|line| by(line).unwrap_or_else(|| line.to_owned()) + "\n").collect();
    let audit = place.run(&["policy", "audit", "--store", store]);
    assert_eq!(audit.code, 0, "{}", audit.stderr);
    let judged = audit.json_lines().into_iter();
    let judged = judged.map(|row| ["judged", "rule", "subject"].map(|key| row[key].clone())).collect();
    Kept { shown, losses, judged, came, seen }
}

/// Returns whether a message ends the turn of this prompt, for a client of this version.
fn is_end(message: &Value, version: u64, session: &str, prompt: i64) -> bool {
    let params = &message["params"];
    match version {
        1 => message["id"] == prompt && message["method"].is_null(),
        // Sub-agents have states as well.
        _ => params["sessionId"] == session && params["update"]["state"] == "idle",
    }
}

/// Sends a prompt, answers every request with its first option, and waits for the end. Returns all messages.
async fn drive(client: &mut Client, place: &Place, version: u64) -> Vec<Value> {
    let session = client.new_session(place).await;
    let prompt = client.prompt(&session, "go").await;
    let mut came = Vec::new();
    loop {
        let message = client.next_within(std::time::Duration::from_secs(60)).await.expect("a message");
        if message["method"] == "session/request_permission" {
            client.allow(&message).await;
        }
        came.push(message);
        if came.last().is_some_and(|message| is_end(message, version, &session, prompt)) {
            return came;
        }
    }
}

/// Returns the options followed by the command of the agent.
fn arguments<'a>(options: &'a [String], command: &'a [String]) -> Vec<&'a str> {
    let options = options.iter().map(String::as_str);
    options.chain(["--"]).chain(command.iter().map(String::as_str)).collect()
}

/// Runs the agent of a scenario with a client of a version through every command, by name.
fn ways(scenario: &Scenario, client: u64) -> Vec<(String, Kept)> {
    let mut ways = Vec::new();
    for (name, over_http) in [("websocket", false), ("http", true)] {
        let place = Place::new();
        let command = scenario.write(&place, "agent");
        let options = scenario.permissions(&place);
        let command: Vec<&str> = arguments(&options, &command);
        let hub = Hub::start(&place, &command);
        let store = hub.store().to_owned();
        let came = block_on(async {
            let mut speaker = match over_http {
                true => hub.client_over_http(client).await,
                false => hub.client(client).await,
            };
            drive(&mut speaker, &place, client).await
        });
        hub.end();
        ways.push((format!("serve over {name}"), kept(&place, &store, client, came)));
    }

    let place = Place::new();
    let command = scenario.write(&place, "agent");
    let options = scenario.permissions(&place);
    let command: Vec<&str> = arguments(&options, &command);
    let hub = Hub::start_as(&place, "token", &command);
    std::fs::write(place.home().join("token"), &hub.token).unwrap();
    let store = hub.store().to_owned();
    let mut editor =
        Editor::start(&place, &format!("ws://{}/acp", hub.address), u8::try_from(client).unwrap());
    let session = editor.open(&place);
    editor.prompt(&session, "go");
    if client == 2 {
        editor.turn_end(&session, "go");
    }
    let came = std::mem::take(&mut editor.lines);
    editor.end();
    hub.end();
    ways.push(("connect".to_owned(), kept(&place, &store, client, came)));
    ways
}

/// Runs it through `bridge`.
fn bridged(scenario: &Scenario, version: u64) -> Kept {
    let place = Place::new();
    let command = scenario.write(&place, "agent");
    let store = place.home().join("store.sqlite3");
    let options = scenario.permissions(&place);
    let options: Vec<&str> =
        ["--record", "--store", path(&store)].into_iter().chain(options.iter().map(String::as_str)).collect();
    let mut editor = bridge::Client::with_command(&options, &command);
    let hello = match version {
        1 => json!({"protocolVersion": 1, "clientCapabilities": {}}),
        _ => json!({"protocolVersion": 2, "info": {"name": "editor", "version": "1"}, "capabilities": {}}),
    };
    editor.ask(1, "initialize", hello);
    let opened = editor.ask(2, "session/new", json!({"cwd": place.work(), "mcpServers": []}));
    let prompt = json!({"sessionId": opened["result"]["sessionId"], "prompt": [text("go")]});
    editor.say(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt}));
    let mut came = Vec::new();
    loop {
        let message = editor.hear();
        if message["method"] == "session/request_permission" {
            let outcome =
                json!({"outcome": "selected", "optionId": message["params"]["options"][0]["optionId"]});
            editor.say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}}));
        }
        came.push(message);
        if came.last().is_some_and(|message| is_end(message, version, "s", 3)) {
            break;
        }
    }
    let (code, stderr) = editor.end();
    assert_eq!(code, 0, "{stderr}");
    kept(&place, path(&store), version, came)
}

/// Runs it through `run`, whose client has version 2.
fn ran(scenario: &Scenario) -> Kept {
    let place = Place::new();
    let command = scenario.write(&place, "agent");
    let store = place.home().join("store.sqlite3");
    let options = scenario.permissions(&place);
    let approve = if options.is_empty() { vec!["--approve-all".to_owned()] } else { options };
    let run = |more: &[&str]| {
        let options: Vec<String> = approve.iter().cloned().chain(["go".to_owned()]).collect();
        let run = place.run(&[&["run"], more, &*arguments(&options, &command)].concat());
        // If the rules decide ask, there is no terminal to ask on, and `run` fails.
        assert!(run.code == 0 || scenario.rules.is_some(), "{}", run.stderr);
        run
    };
    let printed = run(&["--format", "json"]).json_lines();
    let printed: Vec<Value> = printed
        .into_iter()
        .map(|params| json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
        .collect();
    run(&["--record", "--store", path(&store)]);
    kept(&place, path(&store), 2, printed)
}

fn assert_equal(scenario: &Scenario) {
    for client in [1, 2] {
        let wanted = bridged(scenario, client);
        for (name, found) in ways(scenario, client) {
            assert_eq!(found.shown, wanted.shown, "{name} with a client of version {client}");
            // A hub reports sub-agents also to a client that does not support them; an agent of the same
            // version does not.
            if (scenario.version, client) != (1, 1) || !scenario.has_subagents() {
                assert_eq!(found.seen, wanted.seen, "{name} with a client of version {client}");
                assert_eq!(found.losses, wanted.losses, "{name} with a client of version {client}");
            }
            if (scenario.version, client) == (1, 1) && !scenario.has_subagents() {
                let lines = |kept: &Kept| without_ids(scenario, client, &kept.came);
                assert_eq!(lines(&found), lines(&wanted), "{name} with a client of version {client}");
            }
        }
        if client == 2 {
            let found = ran(scenario);
            assert_eq!(found.shown, wanted.shown, "run");
            // Its output contains only updates.
            assert_eq!(found.seen.ends, wanted.seen.ends, "run");
            assert_eq!(found.losses, wanted.losses, "run");
        }
    }
}

#[test]
fn losses_and_transcript_of_a_version_2_agent_are_the_same_everywhere() {
    let turn = vec![
        update(json!({"sessionUpdate": "state_update", "state": "running"})),
        update(json!({"sessionUpdate": "user_message", "messageId": "u", "content": [text("go")]})),
        update(json!({"sessionUpdate": "agent_thought_chunk", "messageId": "t", "content": text("hm")})),
        update(json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text("Hel")})),
        update(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": [text("Hello")]})),
        update(json!({"sessionUpdate": "_weather", "rain": true})),
        update(json!({"sessionUpdate": "_weather", "rain": true})),
        update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Read", "kind": "read", "status": "in_progress", "rawInput": {"path": "/w/a"}}),
        ),
        update(
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": {"type": "content", "content": text("one\n")}}),
        ),
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})),
        update(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": [text("Replaced")]})),
        update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"})),
    ];
    assert_equal(&Scenario { version: 2, parts: vec![turn], rules: None, answer: None });
}

#[test]
fn transcript_of_a_version_1_agent_is_the_same_everywhere() {
    let question = json!({"jsonrpc": "2.0", "id": 900, "method": "session/request_permission", "params": {
        "sessionId": "s", "toolCall": {"toolCallId": "c", "title": "Write a", "kind": "edit"},
        "options": [{"optionId": "yes", "name": "Allow", "kind": "allow_once"}, {"optionId": "no", "name": "Reject", "kind": "reject_once"}]}});
    let before = vec![
        update(json!({"sessionUpdate": "agent_thought_chunk", "content": text("hm")})),
        update(json!({"sessionUpdate": "agent_message_chunk", "content": text("Hel")})),
        update(json!({"sessionUpdate": "agent_message_chunk", "content": text("lo")})),
        update(
            json!({"sessionUpdate": "plan", "entries": [{"content": "one", "priority": "high", "status": "pending"}]}),
        ),
        update(
            json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Write a", "kind": "edit", "status": "pending",
            "content": [{"type": "diff", "path": "/w/a", "oldText": "a\nb\n", "newText": "a\nc\n"}]}),
        ),
        question,
    ];
    let after = vec![
        update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "rawOutput": {"ok": true}}),
        ),
        update(
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "help", "description": "Helps"}]}),
        ),
        update(json!({"sessionUpdate": "agent_message_chunk", "content": text("Done")})),
    ];
    assert_equal(&Scenario { version: 1, parts: vec![before, after], rules: None, answer: None });
}

/// Returns a turn of a version 1 agent with many elements that are lost in a translation to version 2 and
/// back.
fn of_version_1() -> Scenario {
    let numbered = |word: &str| (1..=60).map(|line| format!("{word} {line}\n")).collect::<String>();
    let diff = json!({"type": "diff", "path": "/w/a", "oldText": numbered("line").replace("line 30\n", "old\n"), "newText": numbered("line")});
    let question = json!({"jsonrpc": "2.0", "id": 900, "method": "session/request_permission", "params": {
        "sessionId": "s", "toolCall": {"toolCallId": "c", "title": "Write a", "kind": "edit", "content": [diff], "vendor": 1},
        "options": [{"optionId": "yes", "name": "Allow", "kind": "allow_once", "_meta": {"shortcut": "y"}},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"}], "_meta": {"vendor": {"risk": "low"}}, "vendor": [1.50]}});
    let mut marked =
        update(json!({"sessionUpdate": "agent_message_chunk", "content": text("lo"), "_meta": {"m": 1}}));
    marked["params"]["_meta"] = json!({"tokens": 7});
    marked["params"]["vendor"] = json!("beside");
    let before = vec![
        update(json!({"sessionUpdate": "agent_thought_chunk", "content": text("hm"), "messageId": "own-1"})),
        update(json!({"sessionUpdate": "agent_message_chunk", "content": text("Hel")})),
        marked,
        update(json!({"sessionUpdate": "vendor_weather", "rain": true})),
        update(
            json!({"sessionUpdate": "plan", "entries": [{"content": "one", "priority": "high", "status": "pending", "vendor": 1}]}),
        ),
        update(
            json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Write a", "kind": "edit", "status": "pending",
            "content": [diff], "locations": [{"path": "/w/a", "line": 0}], "rawInput": {"path": "a"}, "vendor": {"x": 1.0}}),
        ),
        question,
    ];
    let after = vec![
        update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "rawOutput": {"ok": true}, "content": null}),
        ),
        update(json!({"sessionUpdate": "current_mode_update", "currentModeId": "careful"})),
        update(
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "help", "description": "Helps", "vendor": 1}]}),
        ),
        update(
            json!({"sessionUpdate": "usage_update", "used": 5, "size": 10, "cost": {"amount": 0.25, "currency": "USD"}}),
        ),
        update(
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "mimeType": "image/png", "data": "AA==", "uri": null}}),
        ),
    ];
    let answer = json!({"stopReason": "end_turn", "usage": {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}, "_meta": {"vendor": true}, "vendor": 4});
    Scenario { version: 1, parts: vec![before, after], rules: None, answer: Some(answer) }
}

#[test]
fn a_client_of_version_1_gets_the_own_lines_of_a_version_1_agent_everywhere() {
    let scenario = of_version_1();
    let mut wanted: Vec<Value> = scenario.parts.iter().flatten().cloned().collect();
    wanted.push(json!({"jsonrpc": "2.0", "id": "prompt", "result": scenario.answer}));
    let bridged = ("bridge".to_owned(), bridged(&scenario, 1));
    for (name, found) in ways(&scenario, 1).into_iter().chain([bridged]) {
        let found = without_ids(&scenario, 1, &found.came);
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found, wanted, "{name}");
        }
        assert_eq!(found.len(), wanted.len(), "{name}");
    }
}

#[test]
fn a_client_of_version_1_loads_the_own_lines_of_a_version_1_agent() {
    let scenario = of_version_1();
    let place = Place::new();
    let command = scenario.write(&place, "agent");
    let command = arguments(&[], &command);
    let user = update(json!({"sessionUpdate": "user_message_chunk", "content": text("go")}));
    let said = scenario.parts.iter().flatten().filter(|line| line["method"] == "session/update");
    let wanted: Vec<Value> = std::iter::once(&user).chain(said).cloned().collect();
    let mut hub = Hub::start_as(&place, "token", &command);
    let session = block_on(async {
        let mut first = hub.client(1).await;
        let came = drive(&mut first, &place, 1).await;
        came[0]["params"]["sessionId"].as_str().unwrap().to_owned()
    });
    let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
    for how in ["beside the first client", "after a restart"] {
        let over_socket = block_on(async {
            let mut client = hub.client(1).await;
            let id = client.begin("session/load", load.clone()).await;
            let mut came = Vec::new();
            while came.last().is_none_or(|message: &Value| message["id"] != id) {
                came.push(client.next_within(std::time::Duration::from_secs(60)).await.expect("a message"));
            }
            came
        });
        std::fs::write(place.home().join("token"), &hub.token).unwrap();
        let mut editor = Editor::start(&place, &format!("ws://{}/acp", hub.address), 1);
        editor.call("session/load", load.clone());
        let through_connect = std::mem::take(&mut editor.lines);
        editor.end();
        for (name, came) in [("websocket", over_socket), ("connect", through_connect)] {
            let mut came = without_ids(&scenario, 1, &came);
            for line in &mut came {
                // The prompt was sent by the client, and has an id of the hub.
                if line["params"]["update"]["sessionUpdate"] == "user_message_chunk" {
                    line["params"]["update"].as_object_mut().unwrap().remove("messageId");
                }
            }
            for (came, wanted) in came.iter().zip(&wanted) {
                assert_eq!(came, wanted, "{name}, {how}");
            }
            assert_eq!(came.len(), wanted.len(), "{name}, {how}: {came:?}");
        }
        hub.end();
        hub = Hub::start_as(&place, "token", &command);
    }
    hub.end();
}

/// Returns a request for a file of the client.
fn asks_for_file(number: u64, path: &Path) -> Value {
    json!({"jsonrpc": "2.0", "id": number, "method": "fs/read_text_file", "params": {"sessionId": "s", "path": path}})
}

/// Returns the lines of a file that the agent of a scenario wrote.
fn written(place: &Place, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(place.home().join("agent").join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_client_of_version_1_serves_files_and_commands_to_its_agent_on_a_hub() {
    let place = Place::new();
    let file = place.work().join("file");
    let terminal = |number: u64, method: &str, mut params: Value| {
        params["sessionId"] = "s".into();
        json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    };
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run", "kind": "execute", "status": "in_progress",
        "content": [{"type": "terminal", "terminalId": "t1"}]});
    let parts = vec![
        vec![
            update(json!({"sessionUpdate": "agent_message_chunk", "content": text("one")})),
            asks_for_file(901, &file),
        ],
        vec![terminal(902, "terminal/create", json!({"command": "make", "args": ["all"]}))],
        vec![update(call), terminal(903, "terminal/output", json!({"terminalId": "t1"}))],
        vec![update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}))],
    ];
    let scenario = Scenario { version: 1, parts, rules: None, answer: None };
    let command = scenario.write(&place, "agent");
    let hub = Hub::start(&place, &arguments(&[], &command));
    let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": false}, "terminal": true});
    let (came, watched) = block_on(async {
        let mut client = Client::at(&hub.address, &hub.token).await.unwrap();
        client.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities})).await;
        let session = client.new_session(&place).await;
        let mut watcher = hub.client(2).await;
        watcher
            .ask("session/resume", json!({"sessionId": session, "cwd": place.work(), "mcpServers": []}))
            .await;
        watcher.until_idle().await;
        let prompt = client.prompt(&session, "go").await;
        let mut came = Vec::new();
        while came.last().is_none_or(|message| !is_end(message, 1, &session, prompt)) {
            let message = client.next_within(std::time::Duration::from_secs(60)).await.expect("a message");
            let result = match message["method"].as_str() {
                Some("fs/read_text_file") => json!({"content": "not saved yet"}),
                Some("terminal/create") => json!({"terminalId": "t1"}),
                Some("terminal/output") => {
                    json!({"output": "made", "truncated": false, "exitStatus": {"exitCode": 0}})
                }
                _ => Value::Null,
            };
            if !result.is_null() {
                assert_eq!(message["params"]["sessionId"], *session, "{message}");
                client.send(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).await;
            }
            came.push(message);
        }
        (came, watcher.until_idle().await)
    });
    hub.end();
    let told = written(&place, "initialized").pop().unwrap()["params"]["clientCapabilities"].take();
    assert_eq!((&told["fs"], &told["terminal"]), (&capabilities["fs"], &capabilities["terminal"]));
    let answers: Vec<Value> =
        written(&place, "answers").iter().map(|answer| answer["result"].clone()).collect();
    assert_eq!(answers[0], json!({"content": "not saved yet"}));
    assert_eq!((&answers[1]["terminalId"], &answers[2]["output"]), (&json!("t1"), &json!("made")));
    // The client gets the messages of the agent, and nothing about the command that it runs itself.
    assert_eq!(without_ids(&scenario, 1, &came).len(), 4, "{came:?}");
    // Other clients see the command and its output.
    let terminals = watched.iter().map(|message| &message["params"]["update"]);
    let terminals: Vec<&Value> =
        terminals.filter(|update| update["sessionUpdate"] == "terminal_update").collect();
    assert!(terminals.iter().any(|terminal| terminal["output"]["data"] == "bWFkZQ=="), "{watched:?}");
}

#[test]
fn files_are_on_disk_while_no_client_is_there_that_has_them() {
    let place = Place::new();
    let (inside, outside) = (place.work().join("file"), place.home().join("secret"));
    for file in [&inside, &outside] {
        std::fs::write(file, "saved").unwrap();
    }
    let parts = vec![
        vec![asks_for_file(901, &inside)],
        vec![asks_for_file(902, &outside)],
        vec![update(json!({"sessionUpdate": "agent_message_chunk", "content": text("read")}))],
    ];
    let scenario = Scenario { version: 1, parts, rules: None, answer: None };
    let command = scenario.write(&place, "agent");
    let hub = Hub::start(&place, &arguments(&[], &command));
    block_on(async {
        let mut client = Client::at(&hub.address, &hub.token).await.unwrap();
        let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
        client.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities})).await;
        let session = client.new_session(&place).await;
        // Another client continues, without access to files.
        let mut other = hub.client(1).await;
        other.ask("session/load", json!({"sessionId": session, "cwd": place.work(), "mcpServers": []})).await;
        drop(client);
        let prompt = other.prompt(&session, "go").await;
        other.until(|message| is_end(message, 1, &session, prompt)).await;
    });
    hub.end();
    let answers = written(&place, "answers");
    assert_eq!(answers[0]["result"]["content"], "saved", "{answers:?}");
    assert!(answers[1]["error"]["message"].as_str().unwrap().contains("outside"), "{answers:?}");
}

const RULES: &str = r#"
[[rule]]
id = "tests"
decision = "allow"
command = ["cargo", "test"]

[[rule]]
id = "no-push"
decision = "deny"
command = ["git", "push"]

[[rule]]
id = "secrets"
decision = "deny"
path = ["**/.env*"]
"#;

/// Returns a permission request with only the id of its tool call.
fn asks_about(version: u64, number: u64, call: &str) -> Value {
    let options = json!([{"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"}]);
    let call = json!({"toolCallId": call});
    let params = match version {
        1 => json!({"sessionId": "s", "toolCall": call, "options": options}),
        _ => {
            json!({"sessionId": "s", "title": "May I?", "subject": {"type": "tool_call", "toolCall": call}, "options": options})
        }
    };
    json!({"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params})
}

/// Asserts that the rules have the same decision for every request, with every command.
fn assert_judged(scenario: &Scenario, wanted: &[(&str, Option<&str>)]) {
    let decisions = |kept: &Kept| -> Vec<(String, Option<String>)> {
        let word = |value: &Value| value.as_str().map(str::to_owned);
        kept.judged.iter().map(|[judged, rule, _]| (word(judged).unwrap_or_default(), word(rule))).collect()
    };
    let wanted: Vec<_> =
        wanted.iter().map(|(it, rule)| ((*it).to_owned(), rule.map(str::to_owned))).collect();
    let ran = ran(scenario);
    assert_eq!(decisions(&ran), wanted, "run: {:?}", ran.judged);
    for client in [1, 2] {
        let bridged = ("bridge".to_owned(), bridged(scenario, client));
        for (name, found) in ways(scenario, client).into_iter().chain([bridged]) {
            assert_eq!(found.judged, ran.judged, "{name} with a client of version {client}");
        }
    }
}

#[test]
fn rules_judge_the_current_state_of_a_version_2_call_alike_everywhere() {
    let call = |id: &str, mut more: Value| {
        more["sessionUpdate"] = "tool_call_update".into();
        more["toolCallId"] = id.into();
        update(more)
    };
    let command = |line: &str| json!({"title": "Shell", "kind": "execute", "rawInput": {"command": line}});
    let chunk = |id: &str, content: Value| {
        update(json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": id, "content": content}))
    };
    let output = json!({"type": "content", "content": text(&"git push\n".repeat(1000))});
    let diff = json!({"type": "diff", "changes": [{"operation": "modify", "path": "/w/.env"}]});
    let parts = vec![
        vec![
            update(json!({"sessionUpdate": "state_update", "state": "running"})),
            update(json!({"sessionUpdate": "user_message", "messageId": "u", "content": [text("go")]})),
            call("changed", command("git push")),
            call("changed", command("cargo test")),
            chunk("changed", output),
            asks_about(2, 901, "changed"),
        ],
        vec![
            call("cleared", command("cargo test")),
            call("cleared", json!({"rawInput": null})),
            asks_about(2, 902, "cleared"),
        ],
        vec![
            call("worse", command("cargo test")),
            call("worse", json!({"rawInput": {"command": "git push"}})),
            asks_about(2, 903, "worse"),
        ],
        vec![
            call("edit", json!({"title": "Edit", "kind": "edit"})),
            chunk("edit", diff),
            asks_about(2, 904, "edit"),
        ],
        vec![
            update(
                json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "git push", "cwd": "/w"}),
            ),
            call("terminal", json!({"title": "Shell", "kind": "execute"})),
            chunk("terminal", json!({"type": "terminal", "terminalId": "t"})),
            asks_about(2, 905, "terminal"),
        ],
        vec![
            call("malformed", command("cargo test")),
            call("malformed", json!({"locations": [{"path": 5}]})),
            asks_about(2, 906, "malformed"),
        ],
        vec![asks_about(2, 907, "never told of")],
        vec![update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}))],
    ];
    let wanted = [
        ("allow", Some("tests")),
        ("ask", None),
        ("deny", Some("no-push")),
        ("deny", Some("secrets")),
        ("deny", Some("no-push")),
        ("ask", None),
        ("ask", None),
    ];
    assert_judged(&Scenario { version: 2, parts, rules: Some(RULES), answer: None }, &wanted);
}

#[test]
fn rules_judge_a_version_1_call_as_its_translation_alike_everywhere() {
    let call = |tag: &str, id: &str, mut more: Value| {
        more["sessionUpdate"] = tag.into();
        more["toolCallId"] = id.into();
        update(more)
    };
    let command = |line: &str| json!({"title": "Shell", "kind": "execute", "rawInput": {"command": line}});
    let output = json!([{"type": "content", "content": text(&"git push\n".repeat(1000))}]);
    let diff = json!([{"type": "diff", "path": "/w/.env", "oldText": null, "newText": "KEY=1\n"}]);
    let parts = vec![
        vec![
            call("tool_call", "changed", command("git push")),
            call("tool_call_update", "changed", json!({"rawInput": {"command": "cargo test"}})),
            call("tool_call_update", "changed", json!({"content": output, "status": "in_progress"})),
            asks_about(1, 901, "changed"),
        ],
        vec![
            call("tool_call", "worse", command("cargo test")),
            call("tool_call_update", "worse", json!({"rawInput": {"command": "git push"}})),
            asks_about(1, 902, "worse"),
        ],
        vec![
            call("tool_call", "edit", json!({"title": "Edit", "kind": "edit", "content": diff})),
            asks_about(1, 903, "edit"),
        ],
        vec![],
    ];
    let wanted = [("allow", Some("tests")), ("deny", Some("no-push")), ("deny", Some("secrets"))];
    assert_judged(&Scenario { version: 1, parts, rules: Some(RULES), answer: None }, &wanted);
}

/// Returns an update that announces a sub-agent.
fn subagent(parent: &str, child: &str, mut rest: Value) -> Value {
    rest["sessionUpdate"] = "subagent_update".into();
    rest["sessionId"] = child.into();
    of(parent, rest)
}

const OPTIONS: &str = r#"[{"optionId":"yes","name":"Allow","kind":"allow_once"}]"#;

/// Returns a scenario with two sub-agents of the same name that both send requests, a nested one with the
/// same name, one without a title, and one with a call that stays in progress. Those without a final state
/// end with the turn.
fn subagents(version: u64) -> Scenario {
    let chunk = |session: &str, words: &str| {
        let id = format!("m-{session}");
        let chunk = json!({"sessionUpdate": "agent_message_chunk", "content": text(words)});
        let with_id =
            json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": text(words)});
        of(session, if version == 1 { chunk } else { with_id })
    };
    let call = |session: &str, id: &str, title: &str, status: &str| {
        let kind = if version == 1 { "tool_call" } else { "tool_call_update" };
        of(session, json!({"sessionUpdate": kind, "toolCallId": id, "title": title, "status": status}))
    };
    let ask = |id: u64, session: &str, title: &str| {
        let call = json!({"toolCallId": format!("asked-{session}"), "title": title});
        let options: Value = serde_json::from_str(OPTIONS).unwrap();
        let params = match version {
            1 => json!({"sessionId": session, "toolCall": call, "options": options}),
            _ => {
                json!({"sessionId": session, "title": title, "subject": {"type": "tool_call", "toolCall": call}, "options": options})
            }
        };
        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params})
    };
    let running = json!({"state": "running"});
    let named = |title: &str| json!({"title": title, "state": running});
    let over = |reason: &str| json!({"state": {"state": "idle", "stopReason": reason}});
    let mut first = Vec::new();
    if version == 2 {
        first.push(update(json!({"sessionUpdate": "state_update", "state": "running"})));
        first.push(update(
            json!({"sessionUpdate": "user_message", "messageId": "u", "content": [text("go")]}),
        ));
    }
    first.extend([
        subagent("s", "a", named("Explorer")),
        subagent("s", "b", named("Explorer")),
        subagent("s", "c", json!({})),
        chunk("c", "without a name"),
        subagent("a", "d", named("Explorer")),
        chunk("d", "below"),
        call("a", "search", "Search", "in_progress"),
        chunk("a", "the first"),
        call("a", "asked-a", "May the first?", "pending"),
        ask(900, "a", "May the first?"),
    ]);
    let second = vec![
        chunk("b", "the second"),
        call("b", "asked-b", "May the second?", "pending"),
        ask(901, "b", "May the second?"),
    ];
    let mut last = vec![
        call("b", "read", "Read", "completed"),
        subagent("a", "d", over("end_turn")),
        subagent("s", "b", over("cancelled")),
        subagent("s", "a", over("end_turn")),
        chunk("s", "All is said."),
    ];
    if version == 2 {
        // The list of background work is complete, and does not contain this sub-agent.
        last.insert(0, subagent("s", "e", named("Forgotten")));
        last.insert(1, chunk("e", "left at work"));
        last.push(update(
            json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn", "background": []}),
        ));
    }
    Scenario { version, parts: vec![first, second, last], rules: None, answer: None }
}

#[test]
fn sub_agents_of_a_version_2_agent_have_the_same_names_and_ends_everywhere() {
    let scenario = subagents(2);
    assert_equal(&scenario);
    let seen = bridged(&scenario, 2).seen;
    assert_eq!(seen.questions, ["Explorer: May the first?", "Explorer #2: May the second?"]);
    let ends = [
        ": []",
        "Explorer #2: cancelled [\"May the second? pending\", \"Read completed\"]",
        "Explorer › Explorer: done []",
        "Explorer: done [\"Search in_progress\", \"May the first? pending\"]",
        "Forgotten: done []",
        "number 3: done []",
    ];
    assert_eq!(seen.ends.iter().map(|end| end.replace(":  ", ": ")).collect::<Vec<_>>(), ends);
    let seen = bridged(&scenario, 1).seen;
    let asked = ["Explorer", "Explorer #2"].map(|name| format!("Sub-agent '{name}' asks: May the "));
    assert_eq!(seen.questions, [asked[0].clone() + "first?", asked[1].clone() + "second?"]);
    for end in &seen.ends {
        // The first one keeps the status of its call.
        assert!(
            !end.contains(r#""status":"in_progress""#) && !end.contains(r#""status":"pending""#),
            "{end}"
        );
    }
    for (name, status) in [
        ("Explorer", "completed"),
        ("Explorer #2", "failed"),
        ("number 3", "completed"),
        ("Forgotten", "completed"),
    ] {
        let title = format!(r#""title":"Sub-agent: {name}""#);
        let end = seen.ends.iter().find(|end| end.contains(&title)).expect(name);
        assert!(end.contains(&format!(r#""status":"{status}""#)), "{end}");
    }
}

#[test]
fn sub_agents_of_a_version_1_agent_have_the_same_names_and_ends_everywhere() {
    let scenario = subagents(1);
    assert_equal(&scenario);
    let seen = bridged(&scenario, 2).seen;
    assert_eq!(seen.questions, ["Explorer: May the first?", "Explorer #2: May the second?"]);
    for end in ["Explorer #2: cancelled", "Explorer: done", "Explorer › Explorer: done", "number 3: done"] {
        assert!(seen.ends.iter().any(|seen| seen.starts_with(end)), "{end}: {:?}", seen.ends);
    }
}
