//! Exit of the agent while the client waits for it.

use serde_json::{Value, json};
use switchboard_bridge::{BridgeOptions, Dialect, Limits, Side, Version};

use crate::support::Bench;

const REASON: &str = "the agent ended with exit code 1";

fn error() -> Value {
    json!({"code": -32603, "message": REASON, "data": {"stderr": ["Traceback", "KeyError"]}})
}

fn end(bench: &mut Bench) -> Vec<Value> {
    bench.take_client();
    bench.bridge.agent_ended(REASON, &["Traceback".to_owned(), "KeyError".to_owned()]);
    bench.collect();
    bench.take_client()
}

fn prompt(id: i64, session: &str) -> Value {
    json!({"id": id, "method": "session/prompt", "params": {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}})
}

fn state(session: &str, mut state: Value) -> Value {
    state["sessionUpdate"] = json!("state_update");
    json!({"method": "session/update", "params": {"sessionId": session, "update": state}})
}

fn refused(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": error()})
}

fn at_rest(session: &str) -> Value {
    let mut told = state(session, json!({"state": "idle", "stopReason": "error", "error": error()}));
    told["jsonrpc"] = json!("2.0");
    told
}

fn between(client: Version, agent: Version) -> Bench {
    Bench::new(BridgeOptions::between(client, agent))
}

#[test]
fn an_accepted_prompt_ends_with_the_reason_whoever_talks_to_whom() {
    for (client, agent) in [
        (Version::V1, Version::V1),
        (Version::V1, Version::V2),
        (Version::V2, Version::V1),
        (Version::V2, Version::V2),
    ] {
        let mut bench = between(client, agent);
        for (id, session) in [(1, "a"), (2, "b")] {
            bench.client(prompt(id, session));
            let sent = bench.take_agent().remove(0)["id"].clone();
            if agent == Version::V2 {
                bench.agent(json!({"id": sent, "result": {"messageId": "m"}}));
            }
        }
        let mut told = end(&mut bench);
        told.sort_by_key(Value::to_string);
        let expected = match client {
            Version::V1 => [refused(1), refused(2)],
            Version::V2 => [at_rest("a"), at_rest("b")],
        };
        assert_eq!(told, expected, "{client:?} {agent:?}");
        // The agent has exited: new requests fail at once.
        bench.client(json!({"id": 3, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}));
        assert_eq!(bench.take_client(), [refused(3)], "{client:?} {agent:?}");
        assert!(bench.take_agent().is_empty());
    }
}

#[test]
fn a_prompt_that_was_not_accepted_is_refused() {
    for (client, agent) in [(Version::V2, Version::V2), (Version::V1, Version::V2)] {
        let mut bench = between(client, agent);
        bench.client(prompt(1, "s"));
        assert_eq!(end(&mut bench), [refused(1)], "{client:?}");
    }
}

#[test]
fn sessions_at_rest_hear_nothing() {
    let idle = |reason: Value| state("s", json!({"state": "idle", "stopReason": reason}));
    let running = || state("s", json!({"state": "running"}));
    let accepted = || json!({"id": 1, "result": {"messageId": "m"}});
    let closed = || json!({"id": 2, "result": {}});
    let cases: [&[Value]; 6] = [
        &[accepted(), running(), idle(json!("end_turn"))],
        &[accepted(), idle(json!("end_turn"))],
        &[running(), idle(Value::Null), accepted()],
        &[idle(json!("refusal")), accepted()],
        &[json!({"id": 1, "error": {"code": 1, "message": "no"}})],
        &[accepted(), running(), closed()],
    ];
    for said in cases {
        let mut bench = between(Version::V2, Version::V2);
        bench.client(prompt(1, "s"));
        bench.client(json!({"id": 2, "method": "session/close", "params": {"sessionId": "s"}}));
        for message in said {
            bench.agent(message.clone());
        }
        if said.last() != Some(&closed()) {
            bench.agent(json!({"id": 2, "error": {"code": 1, "message": "no"}}));
        }
        assert_eq!(end(&mut bench), Vec::<Value>::new(), "{said:?}");
        bench.client(json!({"id": 3, "method": "_x"}));
        assert_eq!(bench.take_client(), [refused(3)]);
    }
}

#[test]
fn work_that_the_agent_began_by_itself_ends_too() {
    for open in ["running", "requires_action"] {
        let mut bench = between(Version::V2, Version::V2);
        bench.agent(state("s", json!({"state": open})));
        assert_eq!(end(&mut bench), [at_rest("s")]);
    }
    // An idle state that was sent before the work began is not its end.
    let mut bench = between(Version::V2, Version::V2);
    bench.client(prompt(1, "s"));
    bench.agent(state("s", json!({"state": "idle"})));
    bench.agent(json!({"id": 1, "result": {}}));
    assert_eq!(end(&mut bench), [at_rest("s")]);
}

#[test]
fn a_client_whose_dialect_has_no_errors_reads_the_reason() {
    for agent in [Version::V1, Version::V2] {
        let mut bench = Bench::new(BridgeOptions {
            client_dialect: Some(Dialect::Spec),
            ..BridgeOptions::between(Version::V2, agent)
        });
        bench.client(prompt(1, "s"));
        bench.agent(json!({"id": 1, "result": {}}));
        bench.agent(state("s", json!({"state": "running"})));
        if agent == Version::V1 {
            // The session is idle: the response was the end of its work.
            bench.client(prompt(2, "s"));
        }
        let told = end(&mut bench);
        assert_eq!(told[0]["params"]["update"]["content"]["text"], format!("[{REASON}]"), "{agent:?}");
        assert_eq!(told[1]["params"]["update"]["stopReason"], "error");
        assert_eq!(told.len(), 2);
    }
}

#[test]
fn a_response_that_looks_like_a_call_is_a_response() {
    let mut bench = between(Version::V1, Version::V1);
    bench.client(json!({"id": 1, "method": "_list"}));
    bench.client(json!({"id": 2, "method": "_list"}));
    bench.agent(json!({"id": 1, "result": {"method": "session/update", "id": 2}}));
    assert_eq!(end(&mut bench), [refused(2)]);
}

#[test]
fn requests_in_batches_are_known_too() {
    let mut bench = between(Version::V2, Version::V2);
    let batch =
        json!([{"jsonrpc": "2.0", "id": 1, "method": "_a"}, {"jsonrpc": "2.0", "id": 2, "method": "_b"}]);
    let handled = bench.bridge.handle(Side::Client, &batch.to_string(), switchboard_bridge::Moment(0));
    assert_eq!(handled, switchboard_bridge::Handled::Forward);
    let answers = json!([{"jsonrpc": "2.0", "id": 2, "result": {}}]);
    let _ = bench.bridge.handle(Side::Agent, &answers.to_string(), switchboard_bridge::Moment(0));
    assert_eq!(end(&mut bench), [refused(1)]);
}

#[test]
fn before_and_during_the_handshake() {
    let mut bench = Bench::new(BridgeOptions::default());
    bench.client(json!({"id": 1, "method": "_early"}));
    bench.client(
        json!({"id": 2, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}),
    );
    bench.client(json!({"id": 3, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}));
    assert_eq!(end(&mut bench), [refused(1), refused(2), refused(3)]);
}

#[test]
fn requests_that_cannot_be_remembered_are_refused() {
    let limits = Limits { requests: 2, ..Limits::default() };
    let mut bench = Bench::new(BridgeOptions { limits, ..BridgeOptions::between(Version::V2, Version::V2) });
    for id in 1..=3 {
        bench.client(json!({"id": id, "method": "_x"}));
    }
    assert_eq!(bench.take_agent().len(), 2);
    let told = bench.take_client();
    assert_eq!((told.len(), &told[0]["id"], &told[0]["error"]["code"]), (1, &json!(3), &json!(-32603)));
    bench.agent(json!({"id": 1, "result": {}}));
    bench.client(json!({"id": 4, "method": "_x"}));
    assert_eq!(bench.take_agent().len(), 1, "there is room again");
}
