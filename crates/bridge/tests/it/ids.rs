//! Ids that the bridge makes: none twice, and none that the agent uses.

use std::collections::HashSet;

use serde_json::{Value, json};
use switchboard_bridge::{BridgeOptions, Limits, Version};

use crate::support::Bench;
use crate::turns::prompt;

fn chunk(id: Option<&str>, text: &str) -> Value {
    let mut update =
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    if let Some(id) = id {
        update["messageId"] = json!(id);
    }
    update
}

fn whole(id: &str, text: &str) -> Value {
    json!({"sessionUpdate": "agent_message", "messageId": id, "content": [{"type": "text", "text": text}]})
}

fn ids(bench: &mut Bench) -> Vec<String> {
    bench.take_updates().iter().map(|update| update["messageId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn messages_that_are_replaced_do_not_take_the_agents_ids() {
    // The agent's first.
    let mut bench = Bench::v1_client();
    bench.update(chunk(Some("m~r1"), "mine"));
    bench.update(chunk(Some("m"), "one"));
    bench.update(whole("m", "two"));
    assert_eq!(ids(&mut bench), ["m~r1", "m", "m~r2"]);
    // Ours first.
    let mut bench = Bench::v1_client();
    bench.update(chunk(Some("m"), "one"));
    bench.update(whole("m", "two"));
    bench.update(chunk(Some("m~r1"), "mine"));
    bench.update(chunk(Some("m~r1"), " too"));
    assert_eq!(ids(&mut bench), ["m", "m~r1", "m~r1~agent", "m~r1~agent"]);
}

#[test]
fn calls_that_carry_questions_do_not_take_the_agents_ids() {
    let ask = |bench: &mut Bench, id: i64| {
        bench.agent(json!({"id": id, "method": "session/request_permission", "params": {"sessionId": "s", "title": "May I?",
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
        bench.take_client().pop().unwrap()["params"]["toolCall"]["toolCallId"].as_str().unwrap().to_owned()
    };
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "bridge-perm-1", "title": "mine"});
    let mut bench = Bench::v1_client();
    bench.update(call.clone());
    assert_eq!(ask(&mut bench, 1), "bridge-perm-2");
    let mut bench = Bench::v1_client();
    assert_eq!(ask(&mut bench, 1), "bridge-perm-1");
    bench.update(call);
    assert_eq!(bench.take_updates()[0]["toolCallId"], "bridge-perm-1~agent");
    assert_eq!(ask(&mut bench, 2), "bridge-perm-2");
}

#[test]
fn messages_without_ids_do_not_take_the_agents() {
    let mut bench = Bench::v2_client();
    for update in [
        chunk(None, "a"),
        chunk(Some("b-agent-1"), "mine"),
        chunk(Some("b-agent-2"), "mine"),
        chunk(None, "b"),
    ] {
        bench.update(update);
    }
    assert_eq!(ids(&mut bench), ["b-agent-1", "b-agent-1~agent", "b-agent-2", "b-agent-3"]);
}

#[test]
fn requests_have_ids_of_their_own_for_ever() {
    for client in [Version::V1, Version::V2] {
        let mut bench = Bench::new(BridgeOptions::between(client, client.other()));
        let mut seen = HashSet::new();
        for number in 0..200 {
            bench.client(json!({"id": number % 3, "method": "_x"}));
            let sent = bench.take_agent().remove(0)["id"].clone();
            assert!(seen.insert(sent.to_string()), "{sent} twice");
            if number % 2 == 0 {
                bench.agent(json!({"id": sent, "result": {}}));
            }
        }
    }
}

#[test]
fn a_prompt_that_there_is_no_room_for_leaves_nothing_behind() {
    for client in [Version::V1, Version::V2] {
        let limits = Limits { requests: 1, ..Limits::default() };
        let mut bench =
            Bench::new(BridgeOptions { limits, ..BridgeOptions::between(client, client.other()) });
        bench.client(json!({"id": 1, "method": "_x"}));
        let other = bench.take_agent().remove(0)["id"].clone();
        bench.client(prompt(2, "hi"));
        assert_eq!(bench.take_client().remove(0)["error"]["code"], -32603);
        bench.agent(json!({"id": other, "result": {}}));
        bench.client(prompt(3, "hi"));
        assert_eq!(
            bench.take_agent()[0]["method"],
            "session/prompt",
            "{client:?}: it does not wait for the first"
        );
    }
}
