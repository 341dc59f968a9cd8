//! `switchboard convert`.

#![allow(clippy::needless_pass_by_value, reason = "values are written in place")]

use serde_json::{Value, json};

use crate::program::switchboard;

fn lines(messages: &[Value]) -> Vec<u8> {
    messages.iter().map(|message| format!("{message}\n")).collect::<String>().into_bytes()
}

fn update(update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
}

#[test]
fn a_recording_keeps_its_form() {
    let call = update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read"}));
    let input = lines(&[json!({"t": 1.5, "dir": "agent->client", "msg": call})]);
    let run = switchboard(&["convert", "--to", "v2"], &input);
    assert_eq!((run.code, &*run.stderr), (0, ""));
    assert_eq!(
        run.json_lines(),
        [
            json!({"t": 1.5, "dir": "agent->client", "msg": update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Read"}))})
        ]
    );
}

#[test]
fn a_turn_is_converted_with_its_states() {
    let input = lines(&[
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}}),
        update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "ho"}})),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}),
    ]);
    let run = switchboard(&["convert", "--to", "v2"], &input);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let kinds: Vec<Value> = run
        .json_lines()
        .iter()
        .map(|message| match message.get("method") {
            Some(method) if method == "session/update" => {
                message["params"]["update"]["sessionUpdate"].clone()
            }
            Some(method) => method.clone(),
            None => json!("answer"),
        })
        .collect();
    assert_eq!(
        kinds,
        ["session/prompt", "answer", "user_message", "state_update", "agent_message_chunk", "state_update"]
    );
    let back = switchboard(&["convert", "--to", "v1"], run.stdout.as_bytes());
    assert_eq!(back.code, 0, "{}", back.stderr);
    assert_eq!(back.json_lines().len(), 3);
    assert_eq!(back.json_lines()[2]["result"], json!({"stopReason": "end_turn"}));
}

#[test]
fn losses_are_listed_and_counted_in_the_exit_code() {
    let input = lines(&[
        update(
            json!({"sessionUpdate": "agent_message", "messageId": "m", "content": [{"type": "text", "text": "a"}]}),
        ),
        update(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": null})),
    ]);
    let run = switchboard(&["convert", "--to", "v1"], &input);
    assert_eq!(run.code, 1);
    let loss: Value = serde_json::from_str(run.stderr.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&loss["line"], &loss["session"], &loss["message"], &loss["element"], &loss["severity"]),
        (&json!(2), &json!("s"), &json!("agent_message"), &json!("content"), &json!("major"))
    );
    assert_eq!(run.json_lines().len(), 2);

    let run = switchboard(&["convert", "--to", "v1", "--stateless"], &input);
    assert_eq!(run.code, 1);
    assert_eq!(run.json_lines().len(), 1);
    assert!(run.stderr.contains("agent_message.content"), "{}", run.stderr);
}

#[test]
fn messages_in_the_target_version_are_unchanged() {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}});
    let answer =
        json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}}});
    let call = update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read"}));
    let input = [hello, answer, call];
    let run = switchboard(&["convert", "--to", "v1"], &lines(&input));
    assert_eq!((run.code, run.json_lines()), (0, input.to_vec()));
}

#[test]
fn lines_that_are_no_messages_are_reported() {
    let run = switchboard(&["convert", "--to", "v1"], b"{\n\xff\n\n");
    assert_eq!(run.code, 1);
    assert_eq!(run.stderr.lines().count(), 2, "{}", run.stderr);
}

#[test]
fn lines_that_are_no_messages_are_counted_and_not_all_listed() {
    let hello = r#"{"dir":"client->agent","msg":{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2,"info":{"name":"c","version":"1"},"capabilities":{}}}}"#;
    let answer = r#"{"dir":"agent->client","msg":{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{}}}}}"#;
    let noise: String = (0..5000).map(|number| format!("log line {number}\n")).collect();
    let input = format!("{hello}\n{noise}{answer}\n");
    let run = switchboard(&["convert", "--to", "v1"], input.as_bytes());
    assert_eq!(run.code, 1);
    // The following lines are converted as if it were missing.
    assert_eq!(run.json_lines().len(), 2, "{}", run.stdout);
    assert_eq!(run.stderr.lines().count(), 11, "{}", run.stderr);
    assert!(run.stderr.contains("5000 lines were invalid; the first 10 are listed"), "{}", run.stderr);
}
