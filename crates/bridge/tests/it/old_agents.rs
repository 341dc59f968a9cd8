//! Behaviour of version 1 agents without a counterpart in version 2, which is neither lost nor invented.

use serde_json::{Value, json};
use switchboard_bridge::{Bridge, BridgeOptions, Dialect, Host, HostError, Moment, TerminalStart, Version};

use crate::support::Bench;
use crate::turns::prompt;

/// A version 2 client with an agent of these capabilities.
fn with_agent(capabilities: Value) -> Bench {
    let mut bench = Bench::v2_client();
    hello(&mut bench, capabilities);
    bench
}

fn hello(bench: &mut Bench, capabilities: Value) {
    bench.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": capabilities}}));
    bench.take_client();
}

fn open(bench: &mut Bench, mut result: Value) -> Value {
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w"}}));
    let id = bench.take_agent()[0]["id"].clone();
    result["sessionId"] = json!("s");
    bench.agent(json!({"id": id, "result": result}));
    bench.take_client().remove(0)["result"].clone()
}

#[test]
fn resuming_with_an_agent_that_only_loads_swallows_history_and_nothing_else() {
    let mut bench = with_agent(json!({"loadSession": true}));
    bench.client(json!({"id": 1, "method": "session/resume", "params": {"sessionId": "s", "cwd": "/w"}}));
    let sent = bench.take_agent().remove(0);
    assert_eq!(sent["method"], "session/load");
    let text = json!({"type": "text", "text": "x"});
    let history = ["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"];
    for kind in history {
        bench.update(json!({"sessionUpdate": kind, "content": text}));
    }
    bench.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"}));
    let now = [
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "a", "description": "b"}]}),
        json!({"sessionUpdate": "session_info_update", "title": "Title"}),
        json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}),
        json!({"sessionUpdate": "notice", "severity": "warning", "title": "Slow"}),
    ];
    for update in &now {
        bench.update(update.clone());
    }
    let told: Vec<Value> =
        bench.take_updates().iter().map(|update| update["sessionUpdate"].clone()).collect();
    assert_eq!(told, now.map(|update| update["sessionUpdate"].clone()));
    bench.agent(json!({"id": sent["id"], "result": {}}));
    bench.take_client();
    bench.update(json!({"sessionUpdate": "agent_message_chunk", "content": text}));
    assert_eq!(bench.take_updates().len(), 1, "what comes later is no history");
}

fn modes() -> Value {
    json!({"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]})
}

fn choice(id: &str, category: &str) -> Value {
    json!({"type": "select", "id": id, "name": id, "category": category, "currentValue": "x", "options": [{"value": "x", "name": "X"}]})
}

fn ids(options: &Value) -> Vec<String> {
    options.as_array().unwrap().iter().map(|option| option["configId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn modes_stand_beside_options_that_are_about_something_else() {
    for (other, id) in [("model", "mode"), ("mode", "_v1_mode")] {
        let mut bench = with_agent(json!({}));
        let told = open(&mut bench, json!({"modes": modes(), "configOptions": [choice(other, "model")]}));
        assert_eq!(ids(&told["configOptions"]), [id, other]);
        assert_eq!(told["configOptions"][0]["category"], "mode");
        assert!(bench.lost().is_empty(), "{:?}", bench.losses);
        // One is set as a mode, the other as an option, and both stay.
        bench.client(json!({"id": 2, "method": "session/set_config_option", "params": {"sessionId": "s", "type": "id", "configId": id, "value": "code"}}));
        let sent = bench.take_agent().remove(0);
        assert_eq!(
            (&sent["method"], &sent["params"]["modeId"]),
            (&json!("session/set_mode"), &json!("code"))
        );
        bench.agent(json!({"id": sent["id"], "result": {}}));
        let told = bench.take_client().remove(0);
        assert_eq!(told["result"]["configOptions"][0]["currentValue"], "code");
        bench.client(json!({"id": 3, "method": "session/set_config_option", "params": {"sessionId": "s", "type": "id", "configId": other, "value": "x"}}));
        let sent = bench.take_agent().remove(0);
        assert_eq!(sent["method"], "session/set_config_option");
        bench.agent(json!({"id": sent["id"], "result": {"configOptions": [choice(other, "model")]}}));
        let told = bench.take_client().remove(0)["result"]["configOptions"].clone();
        assert_eq!(
            (ids(&told), &told[0]["currentValue"]),
            (vec![id.to_owned(), other.to_owned()], &json!("code"))
        );
        bench.update(json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}));
        let told = bench.take_updates().remove(0);
        assert_eq!(
            (ids(&told["configOptions"]), &told["configOptions"][0]["currentValue"]),
            (vec![id.to_owned(), other.to_owned()], &json!("ask"))
        );
        bench.update(
            json!({"sessionUpdate": "config_option_update", "configOptions": [choice(other, "model")]}),
        );
        assert_eq!(ids(&bench.take_updates()[0]["configOptions"]), [id, other]);
    }
    // An option of category `mode` makes the modes redundant.
    let mut bench = with_agent(json!({}));
    let told = open(&mut bench, json!({"modes": modes(), "configOptions": [choice("m", "mode")]}));
    assert_eq!(ids(&told["configOptions"]), ["m"]);
    bench.client(json!({"id": 2, "method": "session/set_config_option", "params": {"sessionId": "s", "type": "id", "configId": "m", "value": "x"}}));
    assert_eq!(bench.take_agent()[0]["method"], "session/set_config_option");
}

#[test]
fn an_agent_that_does_not_close_although_it_said_so() {
    let close = |bench: &mut Bench, error: Value| {
        bench.client(json!({"id": 7, "method": "session/close", "params": {"sessionId": "s"}}));
        let sent = bench.take_agent().pop().unwrap();
        assert_eq!(sent["method"], "session/close");
        bench.take_client();
        bench.agent(json!({"id": sent["id"], "error": error}));
    };
    let missing = || json!({"code": -32601, "message": "Method not found"});
    let mut bench = with_agent(json!({"sessionCapabilities": {"close": {}}}));
    open(&mut bench, json!({}));
    close(&mut bench, missing());
    assert_eq!(bench.take_client(), [json!({"jsonrpc": "2.0", "id": 7, "result": {}})]);
    assert!(
        bench.losses.iter().any(|loss| loss.message == "session/close" && loss.reason.contains("does not"))
    );

    // The turn ends first.
    let mut bench = with_agent(json!({"sessionCapabilities": {"close": {}}}));
    bench.client(prompt(1, "hi"));
    let turn = bench.take_agent()[0]["id"].clone();
    close(&mut bench, missing());
    assert_eq!(bench.take_agent()[0]["method"], "session/cancel");
    bench.agent(json!({"id": turn, "result": {"stopReason": "cancelled"}}));
    let told = bench.take_client();
    assert_eq!(told[0]["params"]["update"]["stopReason"], "cancelled");
    assert_eq!(told[1], json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
    // The agent is not asked again.
    bench.client(json!({"id": 8, "method": "session/close", "params": {"sessionId": "s"}}));
    assert_eq!(bench.take_client(), [json!({"jsonrpc": "2.0", "id": 8, "result": {}})]);
    bench.assert_nothing_for_agent("it is not asked again");

    // An error with another code is forwarded.
    let mut bench = with_agent(json!({"sessionCapabilities": {"close": {}}}));
    let error = json!({"code": -32603, "message": "not while it is saved"});
    close(&mut bench, error.clone());
    assert_eq!(bench.take_client(), [json!({"jsonrpc": "2.0", "id": 7, "error": error})]);
}

#[test]
fn a_terminal_that_was_never_created_is_words_and_a_loss() {
    let mut bench = Bench::v2_client();
    let shown = json!([{"type": "terminal", "terminalId": "t"}]);
    bench.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "content": shown}));
    let told = bench.take_updates();
    assert_eq!(told.len(), 1, "no terminal is made up: {told:?}");
    let item = &told[0]["content"][0];
    assert_eq!(item["content"]["text"], "[terminal t: not found]");
    assert_eq!(item["_meta"]["acp.v1/content"], shown[0]);
    assert_eq!(bench.lost(), ["tool_call content[0]"]);
    // If the terminal appears later, the call shows it.
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": {"terminal_output": {"terminal_id": "t", "data": "a"}}}));
    let told = bench.take_updates();
    assert_eq!(told[0], json!({"sessionUpdate": "terminal_update", "terminalId": "t"}));
    assert_eq!(told[1]["content"], shown[0]);
    assert_eq!(told[2]["data"], "YQ==");
}

struct World;

impl Host for World {
    fn start_terminal(&mut self, _: &TerminalStart, _: &[String]) -> Result<(), HostError> {
        Ok(())
    }
}

#[test]
fn output_of_served_commands_reaches_a_client_whose_dialect_has_no_terminals() {
    let options = BridgeOptions {
        client_dialect: Some(Dialect::Spec),
        serve_terminals: true,
        ..BridgeOptions::between(Version::V2, Version::V1)
    };
    let mut bench = Bench::of(Bridge::with_host(options, Box::new(World)));
    hello(&mut bench, json!({}));
    open(&mut bench, json!({}));
    bench.agent(json!({"id": 5, "method": "terminal/create", "params": {"sessionId": "s", "command": "ls"}}));
    let terminal = bench.take_agent().remove(0)["result"]["terminalId"].as_str().unwrap().to_owned();
    bench.bridge.terminal_output(&terminal, b"one ", Moment(1));
    bench.collect();
    bench.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "content": [{"type": "terminal", "terminalId": terminal}]}));
    bench.bridge.terminal_output(&terminal, b"\x1b[1mtwo\n", Moment(2));
    bench.bridge.terminal_exited(&terminal, Some(3), None, Moment(3));
    bench.collect();
    let mut text = String::new();
    for update in bench.take_updates() {
        assert!(!update.to_string().contains("terminal"), "{update}");
        match &update["content"] {
            Value::Array(items) => text = items[0]["content"]["text"].as_str().unwrap().to_owned(),
            item => text.push_str(item["content"]["text"].as_str().unwrap()),
        }
    }
    assert_eq!(text, "one two\n[exit code 3]");
}

#[test]
fn a_switch_is_a_choice_of_off_and_on_for_a_client_that_takes_none() {
    let mut bench = Bench::v1_client();
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}));
    let id = bench.take_agent()[0]["id"].clone();
    let switch = |value: bool| json!({"type": "boolean", "configId": "web", "name": "Web", "description": "Search", "currentValue": value});
    bench.agent(json!({"id": id, "result": {"sessionId": "s", "configOptions": [switch(false)]}}));
    let as_choice = |value: &str| {
        json!({"type": "select", "id": "web", "name": "Web", "description": "Search", "currentValue": value,
        "options": [{"value": "off", "name": "Off"}, {"value": "on", "name": "On"}]})
    };
    assert_eq!(bench.take_client()[0]["result"]["configOptions"], json!([as_choice("off")]));
    assert!(bench.lost().is_empty(), "{:?}", bench.losses);
    let set = |value: &str| json!({"id": 2, "method": "session/set_config_option", "params": {"sessionId": "s", "configId": "web", "value": value}});
    bench.client(set("on"));
    let sent = bench.take_agent().remove(0);
    assert_eq!(
        sent["params"],
        json!({"type": "boolean", "sessionId": "s", "configId": "web", "value": true})
    );
    bench.agent(json!({"id": sent["id"], "result": {"configOptions": [switch(true)]}}));
    assert_eq!(bench.take_client()[0]["result"]["configOptions"], json!([as_choice("on")]));
    bench.client(set("perhaps"));
    assert_eq!(bench.take_client()[0]["error"]["code"], -32602);
    bench.client(set("off"));
    assert_eq!(bench.take_agent()[0]["params"]["value"], false, "the wrong value was not sent");
}
