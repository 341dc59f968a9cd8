//! Sessions, their options, and methods that an agent lacks.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchboard_bridge::{BridgeOptions, Version};

use crate::support::Bench;

fn with_agent(capabilities: Value) -> Bench {
    let mut bench = Bench::new(BridgeOptions::between(Version::V2, Version::V1));
    bench.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": capabilities}}));
    bench.take_client();
    bench
}

fn open(bench: &mut Bench, result: Value) -> Value {
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w"}}));
    let sent = bench.take_agent().remove(0);
    assert_eq!(sent["params"], json!({"cwd": "/w", "mcpServers": []}));
    bench.agent(json!({"id": sent["id"], "result": result}));
    bench.take_client().remove(0)["result"].clone()
}

#[test]
fn modes_are_an_option_in_version_2() {
    let mut bench = with_agent(json!({}));
    let modes = json!({"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]});
    let answer = open(&mut bench, json!({"sessionId": "s", "modes": modes}));
    assert_eq!(
        answer["configOptions"],
        json!([{"type": "select", "configId": "mode", "name": "Mode", "category": "mode", "currentValue": "ask",
                "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]}])
    );
    bench.client(json!({"id": 2, "method": "session/set_config_option", "params": {"sessionId": "s", "configId": "mode", "type": "id", "value": "code"}}));
    let sent = bench.take_agent().remove(0);
    assert_eq!((&sent["method"], &sent["params"]["modeId"]), (&json!("session/set_mode"), &json!("code")));
    bench.agent(json!({"id": sent["id"], "result": {}}));
    assert_eq!(bench.take_client()[0]["result"]["configOptions"][0]["currentValue"], "code");
    bench.update(json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}));
    let update = bench.take_updates().remove(0);
    assert_eq!(update["sessionUpdate"], "config_option_update");
    assert_eq!(update["configOptions"][0]["currentValue"], "ask");
}

#[test]
fn the_option_for_modes_is_modes_in_version_1() {
    let mut bench = Bench::v1_client();
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": [{"name": "m", "command": "/bin/m", "args": [], "env": []}]}}));
    let sent = bench.take_agent().remove(0);
    assert_eq!(sent["params"]["mcpServers"][0]["type"], "stdio");
    let option = |value: &str| {
        json!({"type": "select", "configId": "x", "name": "Mode", "category": "mode", "currentValue": value,
        "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]})
    };
    bench.agent(json!({"id": sent["id"], "result": {"sessionId": "s",
        "configOptions": [option("ask"), {"type": "boolean", "configId": "b", "name": "B", "currentValue": true}],
        "availableCommands": [{"type": "command", "name": "web", "description": "Search", "input": {"type": "text", "hint": "q"}}]}}));
    let told = bench.take_client();
    assert_eq!(told[0]["result"]["modes"]["currentModeId"], "ask");
    assert_eq!(told[0]["result"]["configOptions"].as_array().unwrap().len(), 2);
    assert_eq!(
        told[1]["params"]["update"]["availableCommands"],
        json!([{"name": "web", "description": "Search", "input": {"hint": "q"}}])
    );
    assert!(bench.lost().is_empty(), "{:?}", bench.losses);
    bench.client(
        json!({"id": 2, "method": "session/set_mode", "params": {"sessionId": "s", "modeId": "code"}}),
    );
    let sent = bench.take_agent().remove(0);
    assert_eq!(sent["params"], json!({"type": "id", "sessionId": "s", "configId": "x", "value": "code"}));
    bench.agent(json!({"id": sent["id"], "result": {"configOptions": [option("code")]}}));
    assert_eq!(bench.take_client()[0]["result"], json!({}));
    bench.update(json!({"sessionUpdate": "config_option_update", "configOptions": [option("ask")]}));
    let kinds: Vec<_> = bench.take_updates().iter().map(|update| update["sessionUpdate"].clone()).collect();
    assert_eq!(kinds, ["config_option_update", "current_mode_update"]);
}

#[test]
fn an_agent_without_list_and_close_gets_by() {
    let mut bench = with_agent(json!({}));
    open(&mut bench, json!({"sessionId": "s"}));
    bench.client(json!({"id": 2, "method": "session/list", "params": {}}));
    assert_eq!(bench.take_client()[0]["result"], json!({"sessions": []}), "nothing was prompted");
    bench.client(json!({"id": 3, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "x\ny"}]}}));
    let sent = bench.take_agent().remove(0);
    bench.take_client();
    bench.client(json!({"id": 2, "method": "session/list", "params": {}}));
    let listed = json!({"sessions": [{"sessionId": "s", "cwd": "/w", "title": "x"}]});
    assert_eq!(bench.take_client()[0]["result"], listed);
    bench.client(json!({"id": 4, "method": "session/close", "params": {"sessionId": "s"}}));
    assert_eq!(bench.take_agent()[0]["method"], "session/cancel");
    bench.assert_nothing_for_client("the turn has not ended");
    bench.agent(json!({"id": sent["id"], "result": {"stopReason": "cancelled"}}));
    let told = bench.take_client();
    assert_eq!(told[0]["params"]["update"]["stopReason"], "cancelled");
    assert_eq!(told[1], json!({"jsonrpc": "2.0", "id": 4, "result": {}}));
    bench.client(json!({"id": 5, "method": "session/delete", "params": {"sessionId": "s"}}));
    assert_eq!(bench.take_client()[0]["error"]["code"], -32601);
    bench.client(json!({"id": 6, "method": "auth/logout", "params": {}}));
    assert_eq!(bench.take_client()[0]["error"]["code"], -32601);
    bench.client(
        json!({"id": 7, "method": "tool_call/cancel", "params": {"sessionId": "s", "toolCallId": "c"}}),
    );
    assert_eq!(bench.take_client()[0]["error"]["code"], -32602);
}

#[test]
fn going_on_with_a_session_takes_what_the_agent_has() {
    let resume = |bench: &mut Bench, replay: Value| {
        let mut params = json!({"sessionId": "s", "cwd": "/w"});
        if !replay.is_null() {
            params["replayFrom"] = replay;
        }
        bench.client(json!({"id": 9, "method": "session/resume", "params": params}));
        bench.take_agent().pop()
    };
    let history = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}});

    let mut bench = with_agent(json!({"loadSession": true}));
    let sent = resume(&mut bench, Value::Null).unwrap();
    assert_eq!(sent["method"], "session/load");
    bench.update(history.clone());
    bench.assert_nothing_for_client("history that nobody asked for");
    bench.agent(json!({"id": sent["id"], "result": null}));
    let told = bench.take_client();
    assert_eq!(told[0]["params"]["update"], json!({"sessionUpdate": "state_update", "state": "idle"}));
    assert_eq!(told[1]["result"], json!({}));
    let sent = resume(&mut bench, json!({"type": "start"})).unwrap();
    assert_eq!(sent["method"], "session/load");
    bench.update(history);
    assert_eq!(bench.take_client().len(), 2, "the message begins, and says something");

    let mut bench = with_agent(json!({"sessionCapabilities": {"resume": {}}}));
    assert_eq!(resume(&mut bench, Value::Null).unwrap()["method"], "session/resume");
    let mut bench = with_agent(json!({"sessionCapabilities": {"resume": {}}}));
    assert!(resume(&mut bench, json!({"type": "start"})).is_none());
    assert_eq!(
        bench.take_client()[0]["error"]["code"],
        -32602,
        "never without the replay that was asked for"
    );
    let mut bench = with_agent(json!({}));
    assert!(resume(&mut bench, Value::Null).is_none());
    assert_eq!(bench.take_client()[0]["error"]["code"], -32601);
    assert!(resume(&mut bench, json!({"type": "_here"})).is_none());
    assert_eq!(bench.take_client()[0]["error"]["code"], -32602);
}

#[test]
fn the_bridge_replays_sent_updates_for_agents_that_cannot() {
    let mut bench = with_agent(json!({"sessionCapabilities": {"resume": {}}}));
    open(&mut bench, json!({"sessionId": "s"}));
    bench
        .update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "said"}}));
    let said = bench.take_client();
    bench.client(json!({"id": 9, "method": "session/resume", "params": {"sessionId": "s", "cwd": "/w", "replayFrom": {"type": "start"}}}));
    let sent = bench.take_agent().pop().unwrap();
    bench.agent(json!({"id": sent["id"], "result": {}}));
    let told = bench.take_client();
    let begun = json!({"sessionUpdate": "agent_message", "messageId": "b-agent-1", "content": []});
    assert_eq!(told[0]["params"]["update"], begun, "or a client that shows it would show it twice");
    assert_eq!(told[1], said[0]);
    assert_eq!(told[2]["params"]["update"]["state"], "idle");
}

#[test]
fn a_replay_has_the_ids_that_were_told_and_replaces_what_is_shown() {
    let mut bench = with_agent(json!({"loadSession": true}));
    open(&mut bench, json!({"sessionId": "s"}));
    let chunk = |kind: &str, id: Option<&str>, text: &str| {
        let mut update = json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
        if let Some(id) = id {
            update["messageId"] = json!(id);
        }
        update
    };
    // Collects the messages that a client shows, by id.
    let shown = |bench: &mut Bench, shown: &mut BTreeMap<String, String>| {
        for message in bench.take_client() {
            let update = &message["params"]["update"];
            let Some(id) = update["messageId"].as_str() else { continue };
            let text = shown.entry(id.to_owned()).or_default();
            match &update["content"] {
                Value::Array(blocks) => {
                    *text = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
                }
                block => text.push_str(block["text"].as_str().unwrap()),
            }
        }
    };
    let mut live = BTreeMap::new();
    let mut told = Vec::new();
    // One prompt with an echo and one without, for agents with and without message ids.
    for (id, echo) in [(2, Some("user-7")), (3, None)] {
        bench.client(json!({"id": id, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}}));
        let sent = bench.take_agent().remove(0);
        if let Some(echo) = echo {
            bench.update(chunk("user_message_chunk", Some(echo), "hi"));
        }
        let named = format!("m-{id}");
        told.extend([
            chunk("user_message_chunk", Some(&format!("user-{}", id + 5)), "hi"),
            chunk("agent_message_chunk", None, "one"),
            chunk("agent_message_chunk", None, " two"),
            chunk("agent_thought_chunk", Some(&named), "three"),
            chunk("agent_thought_chunk", Some(&named), " four"),
        ]);
        let latest = &told[told.len() - 4..];
        latest.iter().for_each(|update| bench.update(update.clone()));
        bench.agent(json!({"id": sent["id"], "result": {"stopReason": "end_turn"}}));
        shown(&mut bench, &mut live);
    }
    assert_eq!(live.len(), 6, "{live:?}");
    let mut after = live.clone();
    for _ in 0..2 {
        bench.client(json!({"id": 9, "method": "session/resume", "params": {"sessionId": "s", "cwd": "/w", "replayFrom": {"type": "start"}}}));
        let sent = bench.take_agent().pop().unwrap();
        told.iter().for_each(|update| bench.update(update.clone()));
        shown(&mut bench, &mut after);
        bench.agent(json!({"id": sent["id"], "result": {}}));
        bench.take_client();
        assert_eq!(after, live);
    }
    bench.update(chunk("agent_thought_chunk", Some("m-3"), " five"));
    shown(&mut bench, &mut after);
    assert_eq!(after["m-3"], "three four five", "what comes after a replay begins nothing anew");
}

#[test]
fn requests_without_a_version_2_form_are_refused() {
    let mut bench = Bench::v1_client();
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": [{"type": "sse", "name": "m", "url": "http://x", "headers": []}]}}));
    assert_eq!(bench.take_client()[0]["error"]["code"], -32602);
    bench.client(json!({"id": 2, "method": "session/set_mode", "params": {"sessionId": "s", "modeId": "x"}}));
    assert_eq!(bench.take_client()[0]["error"]["code"], -32602);
    bench.assert_nothing_for_agent("what was refused is not sent");
}

#[test]
fn methods_of_somebodys_own_pass_both_ways_with_ids_of_their_own() {
    for mut bench in [Bench::v1_client(), Bench::v2_client()] {
        bench.client(json!({"id": "x", "method": "_mine/do", "params": {"a": 1}}));
        let sent = bench.take_agent().remove(0);
        assert_eq!((&sent["method"], &sent["params"]), (&json!("_mine/do"), &json!({"a": 1})));
        bench.client(json!({"method": "$/cancel_request", "params": {"requestId": "x"}}));
        assert_eq!(bench.take_agent()[0]["params"]["requestId"], sent["id"]);
        bench.agent(json!({"id": sent["id"], "result": {"b": 2}}));
        assert_eq!(bench.take_client(), [json!({"jsonrpc": "2.0", "id": "x", "result": {"b": 2}})]);
        bench.agent(json!({"method": "_theirs/news", "params": {"c": 3}}));
        assert_eq!(bench.take_client()[0]["params"], json!({"c": 3}));
    }
}

#[test]
fn plans_notices_and_what_is_unknown() {
    let mut bench = Bench::v1_client();
    let plan = |id: &str, status: &str| {
        json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": id,
        "entries": [{"content": id, "priority": "_urgent", "status": status}]}})
    };
    bench.update(plan("a", "pending"));
    bench.update(plan("b", "cancelled"));
    let updates = bench.take_updates();
    assert_eq!(
        updates[1],
        json!({"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "medium", "status": "pending"},
            {"content": "b (cancelled)", "priority": "medium", "status": "completed"}]})
    );
    bench.update(
        json!({"sessionUpdate": "notice", "severity": "warning", "title": "Slow", "description": "Very"}),
    );
    assert_eq!(bench.take_updates()[0]["content"]["text"], "[warning] Slow\n\nVery");
    bench.update(json!({"sessionUpdate": "_weather", "rain": 1}));
    bench.assert_nothing_for_client("version 1 has no such update");
    assert!(bench.lost().contains(&"_weather update".to_owned()));

    let mut bench = Bench::v2_client();
    bench.update(json!({"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "high", "status": "pending"}]}));
    assert_eq!(bench.take_updates()[0]["plan"]["planId"], "main");
    bench.update(json!({"sessionUpdate": "_weather", "rain": 1}));
    assert_eq!(bench.take_updates()[0], json!({"sessionUpdate": "_weather", "rain": 1}));
}
