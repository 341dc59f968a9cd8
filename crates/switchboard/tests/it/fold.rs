// Values created in place are easier to read without references.
#![allow(clippy::needless_pass_by_value)]

use serde_json::{Value, json};

use crate::program::{Run, switchboard};

fn fold(arguments: &[&str], lines: &[Value]) -> Run {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    switchboard(&[&["fold"], arguments].concat(), input.as_bytes())
}

fn chunk(id: &str, text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": text}})
}

fn update(session: &str, update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
}

fn recorded(direction: &str, message: Value) -> Value {
    json!({"t": 1.5, "dir": direction, "msg": message})
}

#[test]
fn every_sequence_ends_as_it_should() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/vectors/sequences.json");
    let sequences: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for sequence in sequences {
        let dialect = if sequence["revision"] == "seed" { "spec" } else { "newest" };
        let run = fold(&["--dialect", dialect], sequence["json"]["updates"].as_array().unwrap());
        let expect = &sequence["json"]["expect"];
        let rejected = expect["rejected"].as_u64().unwrap_or_default();
        assert_eq!(run.code, i32::from(rejected > 0), "{}", sequence["name"]);
        assert_eq!(run.stderr.lines().count() as u64, rejected, "{}", run.stderr);
        let session = &run.json_lines()[0];
        for (id, call) in expect["toolCalls"].as_object().into_iter().flatten() {
            let mut expected = call.clone();
            expected["type"] = json!("tool_call");
            expected["toolCallId"] = json!(id);
            assert_eq!(session["entries"], json!([expected]), "{}", sequence["name"]);
        }
        for (key, message) in expect["messages"].as_object().into_iter().flatten() {
            let (kind, id) = key.split_once('/').unwrap();
            let mut expected = message.clone();
            expected["type"] = json!(kind);
            expected["messageId"] = json!(id);
            let entries = session["entries"].as_array().unwrap();
            assert!(entries.contains(&expected), "{}: {entries:?}", sequence["name"]);
        }
        if let Some(unknown) = expect.get("unknown") {
            assert_eq!(&session["unknown"], unknown);
        }
        if let Some(state) = expect.get("state") {
            assert_eq!((&session["state"], &session["stopReason"]), (&state["state"], &state["stopReason"]));
        }
    }
}

#[test]
fn a_session_has_all_its_keys() {
    let run = fold(&[], &[chunk("m", "Hi"), json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"})]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(
        run.json_lines(),
        [json!({
            "sessionId": null, "state": "idle", "stopReason": null, "title": null,
            "entries": [
                {"type": "agent_message", "messageId": "m", "content": [{"type": "text", "text": "Hi"}]},
                {"type": "tool_call", "toolCallId": "c", "kind": "other", "status": "pending",
                    "content": [], "locations": []},
            ],
            "permissions": [], "plans": [], "commands": [], "configOptions": [], "usage": null, "unknown": [],
        })]
    );
}

#[test]
fn sessions_come_out_in_the_order_of_their_appearance_whatever_the_form_of_their_lines() {
    let run = fold(
        &[],
        &[
            update("b", chunk("m", "1")),
            recorded("agent->client", update("a", chunk("m", "2"))),
            json!({"sessionId": "b", "update": chunk("m", "3")}),
            chunk("m", "4"),
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            json!({"hello": "world"}),
            json!([update("a", chunk("m", "5"))]),
        ],
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let texts: Vec<_> = (run.json_lines().iter())
        .map(|session| {
            let content = session["entries"][0]["content"].as_array().unwrap().clone();
            let text: String = content.iter().map(|block| block["text"].as_str().unwrap()).collect();
            (session["sessionId"].clone(), text)
        })
        .collect();
    assert_eq!(texts, [(json!("b"), "13".into()), (json!("a"), "25".into()), (json!(null), "4".into())]);
}

#[test]
fn malformed_lines_are_reported_and_change_nothing() {
    let input = format!(
        "{}\n{}\nnot json\n\n{}\n",
        chunk("m", "a"),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}),
        chunk("m", "b"),
    );
    let run = switchboard(&["fold"], input.as_bytes());
    assert_eq!(run.code, 1);
    let problems: Vec<_> = run.stderr.lines().collect();
    assert_eq!(problems.len(), 2, "{}", run.stderr);
    assert_eq!(problems[0], "line 2: expected the key \"messageId\", found an object without it");
    assert!(problems[1].starts_with("line 3: "), "{}", run.stderr);
    assert_eq!(run.json_lines()[0]["entries"][0]["content"].as_array().unwrap().len(), 2);
    assert_eq!(run.json_lines()[0]["unknown"], json!([]));
}

#[test]
fn it_stops_after_the_line_that_is_asked_for() {
    let lines = [chunk("m", "a"), chunk("m", "b"), chunk("m", "c")];
    for (at, count) in [("0", 0), ("1", 1), ("2", 2), ("9", 3)] {
        let run = fold(&["--at", at], &lines);
        let sessions = run.json_lines();
        let content = sessions.first().map_or(0, |it| it["entries"][0]["content"].as_array().unwrap().len());
        assert_eq!(content, count, "--at {at}");
    }
}

#[test]
fn permissions_are_followed_to_their_end() {
    let request = json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": {
        "sessionId": "s", "title": "Write?", "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "W"}},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}});
    let answer = |option: &str| json!({"jsonrpc": "2.0", "id": 5, "result": {"outcome": {"outcome": "selected", "optionId": option}}});
    let run =
        fold(&[], &[recorded("agent->client", request.clone()), recorded("client->agent", answer("y"))]);
    let session = &run.json_lines()[0];
    assert_eq!(session["entries"][0]["title"], "W");
    let permission = &session["permissions"][0];
    assert_eq!(permission["state"], "answered");
    assert_eq!(
        (&permission["optionId"], &permission["by"], &permission["at"]),
        (&json!("y"), &json!("client"), &json!(1500))
    );

    let run = fold(&[], &[request, answer("z")]);
    assert_eq!((run.code, &*run.stderr), (0, ""));
    let permission = &run.json_lines()[0]["permissions"][0];
    assert_eq!(
        (&permission["state"], &permission["reason"]),
        (&json!("not_approved"), &json!("the option \"z\" was not offered"))
    );
}

#[test]
fn an_answer_of_an_unknown_kind_is_shown_as_no_approval() {
    let request = json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": {
        "sessionId": "s", "title": "Write?", "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}});
    let granted = json!({"jsonrpc": "2.0", "id": 5, "result": {"outcome": {"outcome": "granted"}}});
    let run = fold(&["--text"], &[request.clone(), granted]);
    let shown = "    not approved: the outcome \"granted\" is unknown (answered by client)\n";
    assert!(run.stdout.contains(shown) && run.stdout.contains("( ) Yes"), "{}", run.stdout);
    let unreadable = json!({"jsonrpc": "2.0", "id": 5, "result": {"outcome": {"outcome": "selected"}}});
    let run = fold(&["--text"], &[recorded("agent->client", request), recorded("client->agent", unreadable)]);
    assert!(run.stdout.contains("not approved: the answer cannot be read"), "{}", run.stdout);
    assert_eq!(run.code, 1);
}

#[test]
fn malformed_optional_parts_are_left_out_except_with_strict() {
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Read", "kind": 7});
    let lines = [update("s", call.clone()), call];
    let run = fold(&[], &lines);
    assert_eq!(run.code, 1);
    let tolerated = "line 1: left out at /params/update/kind: expected a string, found the number 7\n\
                     line 2: left out at /kind: expected a string, found the number 7\n";
    assert_eq!(run.stderr, tolerated);
    let titles: Vec<_> =
        run.json_lines().iter().map(|session| session["entries"][0]["title"].clone()).collect();
    assert_eq!(titles, ["Read", "Read"]);
    let run = fold(&["--strict"], &lines);
    assert_eq!((run.code, run.json_lines().len()), (1, 0));
    assert_eq!(run.stderr, tolerated.replace("left out ", ""));
}

#[test]
fn changes_are_printed_line_by_line() {
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "T", "content": []});
    let cleared = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": null});
    let run = fold(
        &["--changes"],
        &[chunk("m", "a"), json!({}), call.clone(), cleared, chunk("m", "b"), json!({"sessionUpdate": "x"})],
    );
    let entry = |position: u8, kind: &str, id: &str, created: bool| json!({"change": "entry", "position": position, "type": kind, "id": id, "created": created});
    let with = |mut entry: Value, key: &str, value: Value| {
        entry[key] = value;
        entry
    };
    let line = |line: u8, revision: u8, change: Value| json!({"line": line, "sessionId": null, "revision": revision, "changes": [change]});
    assert_eq!(
        run.json_lines(),
        [
            line(1, 1, with(entry(0, "agent_message", "m", true), "appended", json!(1))),
            line(3, 2, with(entry(1, "tool_call", "c", true), "set", json!(["title"]))),
            line(4, 3, with(entry(1, "tool_call", "c", false), "cleared", json!(["title"]))),
            line(5, 4, with(entry(0, "agent_message", "m", false), "appended", json!(1))),
            line(6, 5, json!({"change": "unknown", "index": 0, "sessionUpdate": "x"})),
        ]
    );
}

#[test]
fn the_changes_of_a_batch_have_their_own_revisions() {
    let update = |text: &str| {
        json!({"jsonrpc": "2.0", "method": "session/update",
        "params": {"sessionId": "s", "update": chunk("m", text)}})
    };
    let run = fold(&["--changes"], &[json!([update("a"), update("b")])]);
    let revisions: Vec<_> = run.json_lines().iter().map(|line| line["revision"].clone()).collect();
    assert_eq!(revisions, [1, 2]);
}

#[test]
fn the_transcript_is_for_people_and_harmless() {
    let lines = [
        json!({"sessionUpdate": "user_message", "messageId": "u", "content": [{"type": "text", "text": "Fix it"}]}),
        chunk("m", "Look"),
        chunk("m", "ing\u{1b}[2J"),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Run", "kind": "execute", "status": "completed",
            "content": [{"type": "terminal", "terminalId": "t"}]}),
        json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "make", "output": {"data": "b2sK"},
            "exitStatus": {"exitCode": 0}}),
        json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}),
    ];
    let run = fold(&["--text"], &lines);
    assert_eq!(
        run.stdout,
        "== session (no id), idle (end_turn) ==\n\
         \nuser:\n    Fix it\n\
         \nagent:\n    Looking␛[2J\n\
         \ntool: Run (execute) [completed]\n    $ make\n    ok\n    [exited: code 0]\n\n"
    );
}

#[test]
fn a_version_1_recording_is_translated() {
    let ask = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}});
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1}});
    let chunk = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}});
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read", "kind": "read"});
    let run = fold(
        &[],
        &[
            recorded("client->agent", ask),
            recorded("agent->client", initialize),
            recorded("agent->client", update("s", call)),
            recorded("agent->client", update("s", chunk)),
        ],
    );
    assert_eq!((run.code, &*run.stderr), (0, ""));
    let session = &run.json_lines()[0];
    let seen: Vec<_> = session["entries"].as_array().unwrap().iter().map(|entry| &entry["type"]).collect();
    assert_eq!(seen, ["tool_call", "agent_message"]);
    assert_eq!(session["unknown"], json!([]));
}
