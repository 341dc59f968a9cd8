//! Invalid and hostile input.

use serde_json::{Value, json};
use switchboard_bridge::{BridgeOptions, Limits, Side, Version};

use crate::support::Bench;

#[test]
fn lines_that_are_no_messages_are_answered_or_reported() {
    for mut bench in [Bench::v1_client(), Bench::v2_client()] {
        for from in [Side::Client, Side::Agent] {
            for line in [
                "{",
                "nonsense",
                "{}",
                "[]",
                "[[]]",
                "null",
                "\"x\"",
                r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
                r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#,
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#,
                r#"{"jsonrpc":"2.0","method":"session/update","params":[1]}"#,
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":7}}}"#,
            ] {
                bench.line(from, line);
            }
        }
        for answer in bench.take_client().into_iter().chain(bench.take_agent()) {
            assert!(answer["error"]["code"].is_i64(), "{answer}");
        }
        assert!(bench.lost().iter().any(|lost| lost.starts_with("session/update")), "{:?}", bench.lost());
    }
}

#[test]
fn a_request_with_an_id_against_the_rules_is_passed_and_answered_under_that_id() {
    for mut bench in [Bench::v1_client(), Bench::v2_client()] {
        for id in ["1.50", "123456789012345678901234567890"] {
            bench
                .line(Side::Client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"_x","params":{{}}}}"#));
            let asked = bench.take_agent().pop().unwrap();
            assert_eq!(asked["method"], "_x");
            bench.line(
                Side::Agent,
                &json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"a": 1}}).to_string(),
            );
            let id: Value = serde_json::from_str(id).unwrap();
            assert_eq!(bench.take_client(), [json!({"jsonrpc": "2.0", "id": id, "result": {"a": 1}})]);
        }
    }
}

#[test]
fn bad_parameters_are_the_askers_fault() {
    for mut bench in [Bench::v1_client(), Bench::v2_client()] {
        for method in [
            "initialize",
            "session/new",
            "session/resume",
            "session/prompt",
            "session/set_config_option",
            "session/close",
        ] {
            bench.client(json!({"id": 3, "method": method, "params": {"sessionId": 7}}));
            let answer = bench.take_client().remove(0);
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(-32602)), "{method}");
        }
        bench.agent(json!({"id": 3, "method": "session/request_permission", "params": {"sessionId": 7}}));
        assert_eq!(bench.take_agent()[0]["error"]["code"], -32602);
    }
}

#[test]
fn batches_are_taken_apart() {
    let mut bench = Bench::v2_client();
    let update = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update":
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}}});
    bench.line(Side::Agent, &json!([update, update, 7]).to_string());
    assert_eq!(bench.take_updates().len(), 2);
    assert_eq!(bench.take_agent()[0]["error"]["code"], -32600);
}

#[test]
fn only_so_much_is_remembered() {
    let limits = Limits { sessions: 4, entries: 8, content: 10_000, requests: 8, ..Limits::default() };
    for (client, agent) in [(Version::V1, Version::V2), (Version::V2, Version::V1)] {
        let mut bench =
            Bench::new(BridgeOptions { limits: limits.clone(), ..BridgeOptions::between(client, agent) });
        for number in 0..50 {
            bench.client(json!({"id": number, "method": "_x"}));
            bench.agent(json!({"id": number, "method": "_y"}));
            let update = |update: Value| json!({"method": "session/update", "params": {"sessionId": format!("s{number}"), "update": update}});
            bench.agent(update(json!({"sessionUpdate": "agent_message_chunk", "messageId": number.to_string(), "content": {"type": "text", "text": "x"}})));
            bench.agent(json!({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "tool_call_update",
                "toolCallId": number.to_string(), "content": [{"type": "content", "content": {"type": "text", "text": "y".repeat(3000)}}]}}}));
        }
        let refused = bench.take_client().iter().filter(|message| message["error"]["code"] == -32603).count();
        assert_eq!(refused, 42, "{client:?}");
        if client == Version::V1 {
            for _ in 0..10 {
                bench.update(json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "49", "content": {"type": "content", "content": {"type": "text", "text": "z".repeat(3000)}}}));
            }
            let last = bench.take_updates().pop().unwrap();
            assert!(last.to_string().len() < 11_000);
            assert!(bench.lost().contains(&"tool_call_content_chunk content".to_owned()));
        }
    }
}
