//! The traces of the specification: input of either side, and required output.

use std::collections::HashMap;

use serde_json::{Value, json};
use switchboard_bridge::Side;

use crate::support::Bench;

fn side(step: &Value) -> Side {
    if step["at"] == "client" { Side::Client } else { Side::Agent }
}

/// Compares a message with the expected one, whose ids stand for any ids of the bridge.
fn matches(expected: &Value, actual: &Value, ids: &mut HashMap<(Side, String), Value>, at: Side) -> bool {
    let mut expected = expected.clone();
    expected["jsonrpc"] = json!("2.0");
    let is_request = expected.get("method").is_some() && expected.get("id").is_some();
    if is_request {
        ids.insert((at, expected["id"].to_string()), actual["id"].clone());
        expected["id"] = actual["id"].clone();
    }
    if expected["method"] == "$/cancel_request" {
        let known = ids.get(&(at, expected["params"]["requestId"].to_string())).cloned();
        expected["params"]["requestId"] = known.unwrap_or_default();
    }
    expected == *actual
}

#[test]
fn proposed_traces_come_out() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/vectors/bridge-proposals.json");
    let traces: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(traces.len() >= 11);
    for trace in &traces {
        let name = trace["name"].as_str().unwrap();
        let mut bench = match trace["topology"].as_str().unwrap() {
            "v1client-v2agent" => Bench::v1_client(),
            _ => Bench::v2_client(),
        };
        let mut ids = HashMap::new();
        for step in trace["steps"].as_array().unwrap() {
            let at = side(step);
            let message = &step["msg"];
            if step["dir"] == "in" {
                let mut message = message.clone();
                if message.get("method").is_none()
                    && let Some(id) = ids.get(&(at, message["id"].to_string()))
                {
                    message["id"] = Value::clone(id);
                }
                bench.say(at, message);
                continue;
            }
            let waiting = match at {
                Side::Client => &mut bench.to_client,
                Side::Agent => &mut bench.to_agent,
            };
            assert!(!waiting.is_empty(), "{name}: nothing for {message}");
            let actual = waiting.remove(0);
            assert!(
                matches(message, &actual, &mut ids, at),
                "{name}:\nexpected {message}\nfound    {actual}"
            );
        }
        assert!(bench.to_client.is_empty(), "{name}: {:?}", bench.to_client);
        assert!(bench.to_agent.is_empty(), "{name}: {:?}", bench.to_agent);
    }
}
