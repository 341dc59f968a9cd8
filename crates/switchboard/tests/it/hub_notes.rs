//! Entries of a hub in the recording of a session are shown in their place, and do not disturb other
//! commands.

use serde_json::{Value, json};

use crate::program::{Run, switchboard};

fn message(seconds: f64, direction: &str, mut message: Value) -> Value {
    message["jsonrpc"] = json!("2.0");
    json!({"t": seconds, "dir": direction, "msg": message})
}

fn note(seconds: f64, note: Value) -> Value {
    json!({"t": seconds, "hub": note})
}

/// Returns a session with one answered and one unanswered permission request.
fn recording() -> String {
    let (to_agent, to_client) = ("client->agent", "agent->client");
    let ask = |id: u64, title: &str| {
        json!({"id": id, "method": "session/request_permission", "params": {"sessionId": "s", "title": title,
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}})
    };
    let chunk = json!({"method": "session/update", "params": {"sessionId": "s", "update":
        {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "Written."}}}});
    let lines = [
        message(
            0.0,
            to_agent,
            json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "hub", "version": "1"}, "capabilities": {}}}),
        ),
        message(
            0.1,
            to_client,
            json!({"id": 0, "result": {"protocolVersion": 2, "info": {"name": "bot", "version": "1"}, "capabilities": {"session": {}}}}),
        ),
        message(
            0.1,
            to_agent,
            json!({"id": 1, "method": "session/new", "params": {"cwd": "/p", "mcpServers": []}}),
        ),
        message(0.1, to_client, json!({"id": 1, "result": {"sessionId": "s"}})),
        note(0.2, json!({"hub": "prompt", "request": 2, "operation": "op-1", "by": {"token": "anna"}})),
        message(0.3, to_client, ask(5, "Write conf.json?")),
        note(
            0.4,
            json!({"hub": "answered", "request": 5, "by": {"token": "anna", "client": "phone", "version": "2.1\u{1b}[31m"}, "outcome": {}}),
        ),
        message(
            0.4,
            to_agent,
            json!({"id": 5, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}),
        ),
        message(0.5, to_client, chunk),
        message(0.6, to_client, ask(6, "Push?")),
        note(0.7, json!({"hub": "unanswered", "request": 6, "reason": "the agent ended"})),
    ];
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn fine(run: Run) -> String {
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    run.stdout
}

#[test]
fn the_author_of_an_answer_is_shown_with_the_question() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.sqlite3");
    let sessions = |arguments: &[&str], input: &str| {
        let all = [&["sessions", "--store", store.to_str().unwrap()], arguments].concat();
        fine(switchboard(&all, input.as_bytes()))
    };
    let id = sessions(&["import", "-"], &recording());
    let id = id.trim();
    let text = sessions(&["show", id], "");
    assert!(text.contains("answered by anna (phone 2.1"), "{text}");
    assert!(text.contains("cancelled by the hub (the agent ended)"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains("op-1"), "{text}");
    let json: Value = serde_json::from_str(&sessions(&["show", id, "--json"], "")).unwrap();
    assert!(json.to_string().contains("anna (phone 2.1"), "{json}");
    let wire = sessions(&["show", id, "--wire"], "");
    let notes: Vec<_> = wire.lines().filter(|line| line.contains(" hub {")).collect();
    assert_eq!(notes.len(), 3, "{wire}");
    assert!(notes[1].contains(r#""hub":"answered""#) && !wire.contains('\u{1b}'), "{wire}");
    // An export of messages omits them, an export of everything contains them.
    let plain = switchboard(&["sessions", "--store", store.to_str().unwrap(), "export", id], b"").stdout;
    assert_eq!((plain.lines().count(), plain.contains("anna")), (8, false), "{plain}");
    let whole = sessions(&["export", id, "--everything"], "");
    let again = sessions(&["import", "-"], &whole);
    assert_eq!(sessions(&["show", again.trim()], ""), text);
    assert_eq!(sessions(&["show", again.trim(), "--wire"], ""), wire);
}

#[test]
fn fold_and_check_cope_with_notes() {
    let folded = fine(switchboard(&["fold", "--text"], recording().as_bytes()));
    assert!(folded.contains("answered by anna (phone 2.1"), "{folded}");
    fine(switchboard(&["check"], recording().as_bytes()));
    let converted = fine(switchboard(&["convert", "--to", "v1"], recording().as_bytes()));
    assert_eq!(converted.matches(r#""hub":{"#).count(), 3, "they go along: {converted}");
}
