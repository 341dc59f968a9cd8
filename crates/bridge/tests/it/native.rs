//! Native lines of a version 1 agent on a hub, for a version 1 client.

use serde_json::{Value, json};
use switchboard_bridge::{BridgeOptions, Driver, Handled, Loss, Port, Side, Version};

/// A version 1 client of a hub.
struct OnHub {
    driver: Driver,
    to_client: Vec<Value>,
    to_hub: Vec<Value>,
    losses: Vec<Loss>,
}

/// Output of a driver.
#[derive(Default)]
struct Produced(Vec<(Side, Value)>, Vec<Loss>);

impl Port for Produced {
    fn send(&mut self, to: Side, line: String) {
        self.0.push((to, serde_json::from_str(&line).unwrap()));
    }

    fn report_loss(&mut self, loss: Loss) {
        self.1.push(loss);
    }
}

impl OnHub {
    fn new(is_shared: bool, capabilities: Value) -> Self {
        let options = BridgeOptions { is_shared, ..BridgeOptions::between(Version::V1, Version::V2) };
        let driver = Driver::new(options);
        let mut client = OnHub { driver, to_client: Vec::new(), to_hub: Vec::new(), losses: Vec::new() };
        client.asks(1, "initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
        client.answered(json!({"protocolVersion": 2, "info": {"name": "hub", "version": "1"}, "capabilities": {"session": {}}}));
        client.asks(2, "session/new", json!({"cwd": "/w", "mcpServers": []}));
        client.answered(json!({"sessionId": "h"}));
        client.to_client.clear();
        client
    }

    fn hears(&mut self, from: Side, message: &Value) {
        let mut produced = Produced::default();
        let handled = self.driver.receive(from, &message.to_string()).deliver(&mut produced);
        assert_eq!(handled, Handled::Done);
        let Produced(lines, losses) = produced;
        for (to, line) in lines {
            if to == Side::Client { &mut self.to_client } else { &mut self.to_hub }.push(line);
        }
        self.losses.extend(losses);
    }

    fn asks(&mut self, id: u64, method: &str, params: Value) {
        self.hears(Side::Client, &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// Lets the hub answer its last request.
    fn answered(&mut self, result: Value) {
        let id = self.to_hub.last().unwrap()["id"].clone();
        self.hears(Side::Agent, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// Sends an update of the hub with its origin.
    fn told(&mut self, update: Value, native: Value) {
        let mut params = json!({"sessionId": "h", "update": update, "_meta": {"acp/cursor": "h.1", "switchboard/native": native}});
        if params["_meta"]["switchboard/native"].is_null() {
            params["_meta"].as_object_mut().unwrap().remove("switchboard/native");
        }
        self.hears(Side::Agent, &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }
}

fn own() -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "own"}, "vendor": 1})
}

fn translated() -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "own"}})
}

#[test]
fn updates_are_told_in_the_agents_own_words_and_once() {
    let mut client = OnHub::new(true, json!({}));
    assert_eq!(client.to_hub[0]["params"]["_meta"]["switchboard/native"], 1);
    client.told(own(), "own".into());
    client.told(translated(), "translated".into());
    // A loss of the translation alone is not a loss.
    client.told(json!({"sessionUpdate": "_weather"}), "translated".into());
    client.told(json!({"sessionUpdate": "user_message", "messageId": "u", "content": [{"type": "text", "text": "go"}]}), Value::Null);
    let [first, second] = &client.to_client[..] else { panic!("{:?}", client.to_client) };
    assert_eq!(
        *first,
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "h", "update": own()}})
    );
    assert_eq!(second["params"]["update"]["sessionUpdate"], "user_message_chunk");
    assert!(client.losses.is_empty(), "{:?}", client.losses);
}

#[test]
fn losses_of_what_the_client_was_told_before_are_counted_again() {
    let mut client = OnHub::new(true, json!({}));
    client.told(json!({"sessionUpdate": "_weather"}), "known".into());
    client.told(translated(), "known".into());
    assert_eq!((client.to_client.len(), client.losses.len()), (0, 1));
}

#[test]
fn questions_and_answers_to_prompts_are_the_agents_own() {
    let mut client = OnHub::new(true, json!({}));
    client.asks(3, "session/prompt", json!({"sessionId": "h", "prompt": [{"type": "text", "text": "go"}]}));
    client.answered(json!({"messageId": "u"}));
    client.told(json!({"sessionUpdate": "state_update", "state": "running"}), Value::Null);
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let native = json!({"jsonrpc": "2.0", "id": 9, "method": "session/request_permission", "params": {
        "sessionId": "a", "toolCall": {"toolCallId": "c", "title": "Write", "vendor": [1]}, "options": options, "_meta": {"risk": 1}}});
    client.hears(Side::Agent, &json!({"jsonrpc": "2.0", "id": 4, "method": "session/request_permission", "params": {
        "sessionId": "h", "title": "Write", "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "Write"}},
        "options": options, "_meta": {"switchboard/native": native}}}));
    let [question] = &client.to_client[..] else { panic!("{:?}", client.to_client) };
    let mut wanted = native["params"].clone();
    wanted["sessionId"] = "h".into();
    assert_eq!(question["params"], wanted);
    let answer = json!({"outcome": {"outcome": "selected", "optionId": "y"}});
    let id = question["id"].clone();
    client.hears(Side::Client, &json!({"jsonrpc": "2.0", "id": id, "result": answer}));
    assert_eq!(client.to_hub.last().unwrap()["result"]["outcome"]["optionId"], "y");
    let result = json!({"stopReason": "vendor_reason", "_meta": {"m": 1}, "vendor": 2});
    let native = json!({"jsonrpc": "2.0", "id": 5, "result": result});
    client.told(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}), native);
    assert_eq!(*client.to_client.last().unwrap(), json!({"jsonrpc": "2.0", "id": 3, "result": result}));
}

#[test]
fn sub_agents_are_translated_for_a_client_that_does_not_know_them() {
    let child = json!({"sessionUpdate": "subagent_update", "sessionId": "h:a", "title": "Explorer", "state": {"state": "running"}});
    for (capabilities, is_told) in [(json!({}), false), (json!({"subagents": {}}), true)] {
        let mut client = OnHub::new(true, capabilities);
        client.told(child.clone(), "own".into());
        let is_own = client.to_client.iter().any(|line| line["params"]["update"] == child);
        assert_eq!(is_own, is_told, "{:?}", client.to_client);
        client.told(own(), "own".into());
        client.told(translated(), "translated".into());
        let said =
            client.to_client.iter().filter(|line| line.to_string().contains(r#""text":"own""#)).count();
        assert_eq!(said, 1, "{:?}", client.to_client);
    }
}

#[test]
fn only_updates_of_a_hub_are_taken_for_the_agents_own() {
    // Only hubs mark messages.
    let mut client = OnHub::new(false, json!({}));
    assert!(client.to_hub[0]["params"]["_meta"].is_null());
    client.told(translated(), "own".into());
    assert_eq!(client.to_client[0]["params"]["update"]["content"]["text"], "own");
    // A request gets an id of the bridge regardless of its mark.
    let mut client = OnHub::new(true, json!({}));
    let params = json!({"sessionId": "h", "_meta": {"switchboard/native": "own"}});
    client.hears(
        Side::Agent,
        &json!({"jsonrpc": "2.0", "id": "odd", "method": "_vendor/ask", "params": params}),
    );
    let id = client.to_client[0]["id"].clone();
    client.hears(Side::Client, &json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    assert_eq!(client.to_hub.last().unwrap()["id"], "odd");
    for odd in [json!(7), json!("other"), json!([]), json!({}), json!({"jsonrpc": "2.0", "id": 1})] {
        let mut client = OnHub::new(true, json!({}));
        client.told(translated(), odd);
    }
}
