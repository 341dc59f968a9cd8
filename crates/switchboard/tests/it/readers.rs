//! The same bytes are the same conversation, whoever reads them. A reader is one function from recorded lines to what
//! it shows; to add one, add it to a test.

use serde_json::{Value, json};
use switchboard_testkit::recordings;

use crate::agent_program::Place;
use crate::program::{Run, switchboard};

const SWITCHBOARD: &str = env!("CARGO_BIN_EXE_switchboard");

/// The sessions of a reader that shows them as JSON, without times, which count from different beginnings.
fn sessions(run: &Run) -> Vec<Value> {
    let mut sessions = run.json_lines();
    for session in &mut sessions {
        for entry in session["entries"].as_array_mut().unwrap() {
            // Ids that the bridge gives to messages of version 1 have the time in them.
            let id = entry["messageId"].as_str().filter(|id| id.starts_with("b-")).unwrap_or_default();
            if let [kind, _, number] = id.rsplitn(3, '-').collect::<Vec<_>>()[..] {
                entry["messageId"] = format!("{number}-{kind}").into();
            }
        }
        for key in ["permissions", "elicitations"] {
            for question in session[key].as_array_mut().into_iter().flatten() {
                question.as_object_mut().unwrap().retain(|key, _| key != "at" && key != "openedAt");
            }
        }
    }
    sessions
}

fn fold(lines: &str) -> Vec<Value> {
    sessions(&switchboard(&["fold"], lines.as_bytes()))
}

fn show(lines: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.sqlite3");
    let store = ["sessions", "--store", store.to_str().unwrap()];
    let import = switchboard(&[&store[..], &["import", "-"]].concat(), lines.as_bytes());
    let id = import.stdout.trim();
    assert!(!id.is_empty(), "{}", import.stderr);
    sessions(&switchboard(&[&store[..], &["show", id, "--json"]].concat(), b""))
}

/// What `run` prints of a conversation that an agent plays to it again.
fn run(lines: &str) -> String {
    let place = Place::new();
    std::fs::write(place.work().join("recording.jsonl"), lines).unwrap();
    let replay = ["--", SWITCHBOARD, "sessions", "replay", "recording.jsonl", "--instant"];
    let run = place.run(&[&["run", "Go", "--approve-all", "--format", "text"], &replay[..]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout
}

/// The words of a conversation that every reader must show, in their order: what the agent says, and what its tools do.
fn words(sessions: &[Value]) -> Vec<String> {
    let entries = sessions.iter().flat_map(|session| session["entries"].as_array().unwrap());
    let words = entries.filter_map(|entry| match entry["type"].as_str()? {
        "agent_message" => {
            let content = entry["content"].as_array()?.iter();
            Some(content.filter_map(|block| block["text"].as_str()).collect())
        }
        "tool_call" => Some(entry["title"].as_str()?.to_owned()),
        _ => None,
    });
    words.collect()
}

/// A small generator of numbers, the same on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Parts of tool calls that are malformed, and that a good client can do without.
fn fault(numbers: &mut Numbers) -> (&'static str, Value) {
    let text = json!({"type": "content", "content": {"type": "text", "text": "kept"}});
    let faults = [
        ("kind", json!(7)),
        ("status", json!({})),
        ("locations", json!([{"path": "relative.txt"}])),
        ("locations", json!([{"path": "/w/a", "line": "x"}, 7])),
        ("locations", json!("everywhere")),
        ("_meta", json!(1)),
        ("content", json!([7, text])),
        ("content", json!([{"type": "diff", "changes": 7}])),
        ("name", json!([])),
        ("rawInput", json!({"fine": true})),
    ];
    faults[numbers.below(faults.len())].clone()
}

fn recorded(from_agent: bool, message: Value) -> String {
    let dir = if from_agent { "agent->client" } else { "client->agent" };
    let mut message = message;
    message["jsonrpc"] = "2.0".into();
    format!("{}\n", json!({"t": 0.5, "dir": dir, "msg": message}))
}

fn handshake() -> String {
    let info = json!({"name": "x", "version": "1"});
    let params = json!({"protocolVersion": 2, "info": info, "capabilities": {}});
    let result = json!({"protocolVersion": 2, "info": info, "capabilities": {"session": {}}});
    recorded(false, json!({"id": 0, "method": "initialize", "params": params}))
        + &recorded(true, json!({"id": 0, "result": result}))
}

/// A session with one prompt, in which tool calls and questions have faults that can be tolerated.
fn conversation(numbers: &mut Numbers, session: &str, id: i64) -> String {
    let mut lines = recorded(
        false,
        json!({"id": id, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}),
    );
    lines += &recorded(true, json!({"id": id, "result": {"sessionId": session}}));
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "Go"}]});
    lines += &recorded(false, json!({"id": id + 1, "method": "session/prompt", "params": prompt}));
    lines += &recorded(true, json!({"id": id + 1, "result": {"messageId": "u"}}));
    let update = |update: Value| {
        recorded(
            true,
            json!({"method": "session/update", "params": {"sessionId": session, "update": update}}),
        )
    };
    lines += &update(json!({"sessionUpdate": "state_update", "state": "running"}));
    for number in 0..4 + numbers.below(4) {
        let (key, value) = fault(numbers);
        let mut call =
            json!({"toolCallId": format!("c{number}"), "title": format!("Tool {session} {number}")});
        call[key] = value;
        match numbers.below(4) {
            0 => {
                let text = format!("Words {session} {number}");
                lines += &update(json!({"sessionUpdate": "agent_message", "messageId": format!("m{number}"),
                    "content": [{"type": "text", "text": text}, 7]}));
            }
            1 => {
                let question = id * 1000 + number as i64;
                let option = json!({"optionId": "y", "name": "Yes", "kind": "allow_once"});
                let params = json!({"sessionId": session, "title": format!("May I {number}?"), "options": [option],
                    "subject": {"type": "tool_call", "toolCall": call}});
                lines += &recorded(
                    true,
                    json!({"id": question, "method": "session/request_permission", "params": params}),
                );
                let chosen = json!({"outcome": {"outcome": "selected", "optionId": "y"}});
                lines += &recorded(false, json!({"id": question, "result": chosen}));
            }
            _ => {
                call["sessionUpdate"] = "tool_call_update".into();
                lines += &update(call);
            }
        }
    }
    lines + &update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}))
}

#[test]
fn recordings_are_folded_and_shown_alike() {
    let all = recordings();
    assert!(!all.is_empty());
    for recording in all {
        let lines = std::fs::read_to_string(&recording.path).unwrap();
        assert_eq!(fold(&lines), show(&lines), "{}", recording.name);
    }
}

#[test]
fn conversations_with_faults_that_can_be_tolerated_are_folded_and_shown_alike() {
    let mut numbers = Numbers(0x5eed);
    let mut lines = handshake();
    for number in 0..300_i64 {
        lines += &conversation(&mut numbers, &format!("s{number}"), 1 + 2 * number);
    }
    let folded = fold(&lines);
    assert_eq!(folded.len(), 300);
    let entries: usize = folded.iter().map(|session| session["entries"].as_array().unwrap().len()).sum();
    assert!(entries > 1200, "what has a fault is there: {entries}");
    assert_eq!(folded, show(&lines));
}

#[test]
fn run_shows_all_that_is_folded() {
    let mut numbers = Numbers(0xface);
    for number in 0..6 {
        let session = format!("r{number}");
        let lines = handshake() + &conversation(&mut numbers, &session, 1);
        let (shown, expected) = (run(&lines), words(&fold(&lines)));
        assert!(expected.len() >= 4, "{expected:?}");
        for words in expected {
            assert!(shown.contains(&words), "{words} is not in\n{shown}");
        }
    }
}
