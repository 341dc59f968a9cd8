//! Replay of recordings, as agent and as client.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::program::{Run, switchboard};

const SWITCHBOARD: &str = env!("CARGO_BIN_EXE_switchboard");

/// Scenarios of the demo agent with different messages and requests.
const SCENARIOS: [&str; 9] =
    ["hello", "thoughts", "tool", "edit", "permission", "plan", "unknown", "config", "subagents"];

/// Records a scenario, and returns its id and the output of the client.
fn recorded(place: &Place, scenario: &str, protocol: &str) -> (String, Run) {
    let agent = ["--", SWITCHBOARD, "demo-agent", "--protocol", protocol];
    let run = place
        .run(&[&["run", scenario, "--approve-all", "--format", "json", "--record"], &agent[..]].concat());
    assert_eq!(run.code, 0, "{scenario}: {}", run.stderr);
    let list = place.run(&["sessions", "list", "--json"]).json_lines();
    (list[0]["id"].as_str().unwrap().to_owned(), run)
}

/// Returns the session of recorded lines, without the times of requests, which differ in each run.
fn fold(lines: &str) -> Vec<Value> {
    let mut folded = switchboard(&["fold"], lines.as_bytes()).json_lines();
    for session in &mut folded {
        for permission in session["permissions"].as_array_mut().unwrap() {
            permission.as_object_mut().unwrap().retain(|key, _| key != "at" && key != "openedAt");
        }
    }
    folded
}

#[test]
fn a_client_sees_what_the_recorded_client_saw() {
    let place = Place::new();
    for scenario in SCENARIOS {
        let (id, before) = recorded(&place, scenario, "2");
        let replay = ["--", SWITCHBOARD, "sessions", "replay", &id, "--instant"];
        let file = format!("again-{scenario}.jsonl");
        let record = format!("--record={file}");
        let arguments = ["run", scenario, "--approve-all", "--format", "json", &record];
        let after = place.run(&[&arguments[..], &replay[..]].concat());
        assert_eq!(after.code, 0, "{scenario}: {}", after.stderr);
        assert_eq!(after.stdout, before.stdout, "{scenario}");
        let again = std::fs::read_to_string(place.work().join(&file)).unwrap();
        let export = place.run(&["sessions", "export", &id]).stdout;
        assert_eq!(fold(&again), fold(&export), "{scenario}");
    }
}

/// A client that exchanges messages line by line.
struct Client {
    process: std::process::Child,
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    asked: u64,
}

impl Client {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(&[&["sessions", "replay"], arguments].concat());
        command.stdin(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Client { process, input, output, asked: 0 }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request; returns the messages before the response, and the response. Permission requests are
    /// answered with "allow".
    #[allow(clippy::needless_pass_by_value, reason = "values are written in place")]
    fn ask(&mut self, method: &str, params: Value) -> (Vec<Value>, Value) {
        self.asked += 1;
        let asked = self.asked;
        self.say(&json!({"jsonrpc": "2.0", "id": asked, "method": method, "params": params}));
        let mut before = Vec::new();
        loop {
            let message = self.hear();
            if message["id"] == asked && message.get("method").is_none() {
                return (before, message);
            }
            if message.get("id").is_some() {
                let answer = json!({"outcome": {"outcome": "selected", "optionId": "allow"}});
                self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answer}));
            }
            before.push(message);
        }
    }

    fn initialize(&mut self, version: u16) -> Value {
        let params = if version == 1 {
            json!({"protocolVersion": 1, "clientCapabilities": {}})
        } else {
            json!({"protocolVersion": 2, "info": {"name": "test", "version": "1"}, "capabilities": {}})
        };
        self.ask("initialize", params).1
    }

    fn prompt(&mut self, session: &str) -> (Vec<Value>, Value) {
        self.ask("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}))
    }

    fn end(mut self) -> i32 {
        drop(self.input);
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        self.process.wait().unwrap().code().unwrap()
    }
}

/// Returns a recording of version 1: one session, two turns, a permission request in the first.
fn version_1() -> String {
    let update = |update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "old", "update": update}});
    let chunk = |text: &str| {
        update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
    };
    let prompt = |id: u64, text: &str| json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": {"sessionId": "old", "prompt": [{"type": "text", "text": text}]}});
    let end = |id: u64| json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "end_turn"}});
    let options = json!([{"optionId": "allow", "name": "Allow", "kind": "allow_once"}, {"optionId": "deny", "name": "Deny", "kind": "reject_once"}]);
    [
        (0.0, false, json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}})),
        (0.1, true, json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentInfo": {"name": "elder", "version": "1"}, "agentCapabilities": {"loadSession": true}, "authMethods": []}})),
        (0.2, false, json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/p", "mcpServers": []}})),
        (0.3, true, json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "old"}})),
        (0.4, false, prompt(2, "first")),
        (0.5, true, chunk("one")),
        (0.6, true, update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Write", "kind": "edit"}))),
        (0.7, true, json!({"jsonrpc": "2.0", "id": 77, "method": "session/request_permission", "params": {"sessionId": "old", "toolCall": {"toolCallId": "c"}, "options": options}})),
        (0.8, false, json!({"jsonrpc": "2.0", "id": 77, "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}})),
        (0.9, true, update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}))),
        (1.0, true, end(2)),
        (2.0, false, prompt(3, "second")),
        (2.1, true, chunk("two")),
        (2.2, true, end(3)),
    ]
    .into_iter()
    .map(|(t, from_agent, msg)| {
        let direction = if from_agent { "agent->client" } else { "client->agent" };
        format!("{}\n", json!({"t": t, "dir": direction, "msg": msg}))
    })
    .collect()
}

#[test]
fn clients_of_either_version_play_with_recordings_of_either_version() {
    let place = Place::new();
    let (id, _) = recorded(&place, "permission", "2");
    place.write("work/old.jsonl", &version_1());

    // A version 1 client with a version 2 recording.
    let mut client = Client::start(&place, &[&id, "--instant"]);
    assert_eq!(client.initialize(1)["result"]["protocolVersion"], 1);
    let session = client.ask("session/new", json!({"cwd": "/p", "mcpServers": []})).1;
    let (turn, end) = client.prompt(session["result"]["sessionId"].as_str().unwrap());
    assert_eq!(end["result"]["stopReason"], "end_turn", "{end}");
    assert!(turn.iter().any(|message| message["method"] == "session/request_permission"), "{turn:?}");
    assert_eq!(client.end(), 0);

    // A version 1 client with a version 1 recording gets exactly the recorded messages.
    let mut client = Client::start(&place, &["old.jsonl", "--instant"]);
    assert_eq!(client.initialize(1)["result"]["agentInfo"]["name"], "elder");
    let session = client.ask("session/new", json!({"cwd": "/p", "mcpServers": []})).1;
    assert_eq!(session["result"], json!({"sessionId": "old"}));
    let (turn, end) = client.prompt("old");
    assert_eq!(turn.len(), 4);
    assert_eq!(turn[0]["params"]["update"]["content"]["text"], "one");
    assert_eq!(end["result"], json!({"stopReason": "end_turn"}));
    assert_eq!(client.prompt("old").0.len(), 1);
    let (_, more) = client.prompt("old");
    assert_eq!(more["error"]["message"], "the recording ends here; it has no more turns");
    let (_, other) = client.ask("session/set_mode", json!({"sessionId": "old", "modeId": "x"}));
    assert_eq!(other["error"]["message"], "the recording has no answer to session/set_mode");
    let (_, another) = client.ask("session/new", json!({"cwd": "/p", "mcpServers": []}));
    assert_eq!(another["error"]["message"], "the recording has no more sessions");
    assert_eq!(client.end(), 0);

    // A version 2 client with a version 1 recording.
    let run = place.run(&[
        "run",
        "go",
        "--approve-all",
        "--",
        SWITCHBOARD,
        "sessions",
        "replay",
        "old.jsonl",
        "--speed",
        "1000",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("one") && run.stdout.contains("Write (completed"), "{}", run.stdout);
}

#[test]
fn recorded_sessions_are_listed_and_loaded_with_their_history() {
    let place = Place::new();
    place.write("work/old.jsonl", &version_1());
    let mut client = Client::start(&place, &["old.jsonl", "--instant"]);
    client.initialize(1);
    let (_, list) = client.ask("session/list", json!({"cwd": "/p"}));
    assert_eq!(list["result"]["sessions"], json!([{"sessionId": "old", "cwd": "/p", "title": "first"}]));
    let (history, answer) =
        client.ask("session/load", json!({"sessionId": "old", "cwd": "/p", "mcpServers": []}));
    assert!(answer["result"].is_object(), "{answer}");
    let kinds: Vec<_> =
        history.iter().map(|line| line["params"]["update"]["sessionUpdate"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "user_message_chunk",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "user_message_chunk",
            "agent_message_chunk"
        ]
    );
    let (_, unknown) = client.ask("session/load", json!({"sessionId": "new", "cwd": "/p", "mcpServers": []}));
    assert_eq!(unknown["error"]["message"], "the recording has no session new");
    assert_eq!(client.end(), 0);

    let (id, _) = recorded(&place, "hello", "2");
    let mut client = Client::start(&place, &[&id, "--instant"]);
    client.initialize(2);
    let (_, list) = client.ask("session/list", json!({}));
    let session = list["result"]["sessions"][0]["sessionId"].clone();
    let cwd = place.work().display().to_string();
    let resume = json!({"sessionId": session, "cwd": cwd, "replayFrom": {"type": "start"}});
    let (history, answer) = client.ask("session/resume", resume);
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(history.last().unwrap()["params"]["update"]["state"], "idle");
    assert!(history.iter().any(|line| line["params"]["update"]["sessionUpdate"] == "agent_message_chunk"));
    assert_eq!(client.end(), 0);
}

#[test]
fn the_rest_of_a_cancelled_turn_is_left_out() {
    let place = Place::new();
    place.write("work/old.jsonl", &version_1());
    let mut client = Client::start(&place, &["old.jsonl", "--instant"]);
    client.initialize(1);
    client.ask("session/new", json!({"cwd": "/p", "mcpServers": []}));
    let prompt = json!({"sessionId": "old", "prompt": [{"type": "text", "text": "go"}]});
    client.say(&json!({"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": prompt}));
    // The turn waits for the answer.
    assert_eq!(client.hear()["params"]["update"]["content"]["text"], "one");
    assert_eq!(client.hear()["params"]["update"]["title"], "Write");
    assert_eq!(client.hear()["method"], "session/request_permission");
    client.say(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "old"}}));
    assert_eq!(client.hear(), json!({"jsonrpc": "2.0", "id": "p", "result": {"stopReason": "cancelled"}}));
    let (second, end) = client.prompt("old");
    assert_eq!(second[0]["params"]["update"]["content"]["text"], "two");
    assert_eq!(end["result"]["stopReason"], "end_turn");
    assert_eq!(client.end(), 0);
}

#[test]
fn faults_hit_what_goes_to_the_client() {
    let place = Place::new();
    let (id, _) = recorded(&place, "hello", "2");
    let input = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "test", "version": "1"}, "capabilities": {}}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/p"}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {"sessionId": "demo-1", "prompt": []}}),
    ];
    // A client that closes its input still gets all messages that follow from its requests.
    let heard = |faults: &[&str]| -> Vec<String> {
        let mut client =
            Client::start(&place, &[&[id.as_str(), "--instant", "--seed", "5"], faults].concat());
        for message in &input {
            client.say(message);
        }
        drop(client.input);
        let lines = client.output.lines().map(Result::unwrap).collect();
        assert_eq!(client.process.wait().unwrap().code(), Some(0));
        lines
    };
    let whole = heard(&[]);
    assert!(whole.len() > 20, "{whole:?}");
    assert_eq!(heard(&[]), whole);
    let is_json = |line: &&String| serde_json::from_str::<Value>(line).is_ok();
    let sorted = |lines: &[String]| {
        let mut lines = lines.to_vec();
        lines.sort();
        lines
    };
    let dropped = heard(&["--fault", "drop"]);
    assert!(dropped.len() < whole.len() && dropped.iter().all(|line| whole.contains(line)));
    let mut twice = heard(&["--fault", "duplicate"]);
    assert!(twice.len() > whole.len());
    twice.dedup();
    assert_eq!(twice, whole);
    let reordered = heard(&["--fault", "reorder"]);
    assert!(reordered != whole && sorted(&reordered) == sorted(&whole));
    assert_eq!(heard(&["--fault", "delay"]), whole);
    let cut = heard(&["--fault", "truncate"]);
    assert!(cut.len() == whole.len() && cut.iter().filter(is_json).count() < whole.len());
    let noisy = heard(&["--fault", "noise"]);
    assert!(noisy.len() > whole.len() && noisy.iter().filter(is_json).eq(&whole));
    let both = ["--fault", "drop", "--fault", "noise"];
    assert_eq!(heard(&both), heard(&both));
}

#[test]
fn an_agent_is_driven_with_recorded_prompts_and_answers() {
    let place = Place::new();
    let (id, before) = recorded(&place, "permission", "2");
    let config = place.work().join("switchboard-demo/config.json");
    let changed = std::fs::read_to_string(&config).unwrap();
    assert!(changed.contains("true"));
    std::fs::remove_dir_all(place.work().join("switchboard-demo")).unwrap();
    let drive = |id: &str, agent: &[&str]| {
        place.run(&[&["sessions", "replay", id, "--as", "client", "--format", "json"], agent].concat())
    };
    let after = drive(&id, &["demo"]);
    assert_eq!((after.code, &*after.stdout), (0, &*before.stdout), "{}", after.stderr);
    assert_eq!(std::fs::read_to_string(&config).unwrap(), changed);
    assert_eq!(drive(&id, &["--", SWITCHBOARD, "demo-agent", "--protocol", "1"]).code, 0);

    // An option that is not offered is answered with a rejection.
    let export = place.run(&["sessions", "export", &id]).stdout;
    assert!(export.contains("\"optionId\":\"allow_once\""), "{export}");
    let answered: String = export
        .lines()
        .map(|line| if line.contains("\"outcome\"") { line.replace("\"optionId\":\"allow_once\"", "\"optionId\":\"gone\"") } else { line.to_owned() } + "\n")
        .collect();
    place.write("work/gone.jsonl", &answered);
    assert_eq!(drive("gone.jsonl", &["demo"]).code, 5);
    // A version 1 recording has prompts as well.
    place.write("work/old.jsonl", &version_1());
    let run = place.run(&["sessions", "replay", "old.jsonl", "--as", "client", "demo"]);
    assert_eq!((run.code, &*run.stdout), (0, "You said: first\nYou said: second\n"), "{}", run.stderr);
    assert_eq!(drive(&id, &[]).code, 2);
    assert_eq!(place.run(&["sessions", "replay", &id, "demo"]).code, 2);
}
