//! The two dialects of version 2, and terminals for clients without terminals.

use serde_json::{Value, json};
use switchboard_acp::{Base64, Wire, WireFormat};
use switchboard_bridge::{BridgeOptions, Dialect, LossPolicy, Side, Version};

use crate::support::Bench;
use crate::turns::{answer_v2, hello_v2, prompt};

fn between(client: Option<Dialect>, agent: Option<Dialect>) -> Bench {
    Bench::new(BridgeOptions {
        client_dialect: client,
        agent_dialect: agent,
        ..BridgeOptions::between(Version::V2, Version::V2)
    })
}

fn diff(key: &str) -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [{"type": "diff", "changes": [],
        "patch": {"format": "git_patch", key: "x"}}]})
}

/// Returns the updates of metadata that is set and then changed.
fn metadata(bench: &mut Bench) -> Vec<Value> {
    for meta in [json!({"a": 1, "b": 2}), json!({"b": null, "c": 3})] {
        bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "m", "_meta": meta}));
    }
    bench.take_updates().iter().map(|update| update["_meta"].clone()).collect()
}

#[test]
fn dialects_of_version_2_are_spelled_for_their_reader() {
    let mut bench = between(Some(Dialect::Newest), Some(Dialect::Spec));
    bench.update(diff("diff"));
    assert_eq!(bench.take_updates(), [diff("text")]);
    bench.client(prompt(1, "hi"));
    bench.update(json!({"sessionUpdate": "user_message", "messageId": "u", "content": []}));
    bench.agent(json!({"id": 1, "result": {}}));
    assert_eq!(bench.take_client().pop().unwrap()["result"], json!({"messageId": "u"}));
    bench.update(json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "a", "description": "b"}]}));
    assert_eq!(bench.take_updates()[0]["availableCommands"][0]["type"], "command");

    let mut bench = between(None, None);
    bench.update(diff("diff"));
    let patch = bench.take_updates()[0]["content"][0]["patch"].clone();
    assert_eq!(patch, json!({"format": "git_patch", "text": "x", "diff": "x"}));

    let mut bench = between(Some(Dialect::Spec), Some(Dialect::Spec));
    bench.update(diff("diff"));
    assert_eq!(bench.take_updates(), [diff("diff")]);
}

#[test]
fn metadata_means_the_same_in_both_dialects() {
    let told = |client, agent| metadata(&mut between(Some(client), Some(agent)));
    assert_eq!(told(Dialect::Spec, Dialect::Newest), [json!({"a": 1, "b": 2}), json!({"a": 1, "c": 3})]);
    assert_eq!(
        told(Dialect::Newest, Dialect::Spec),
        [json!({"a": 1, "b": 2}), Value::Null, json!({"b": null, "c": 3})]
    );
    assert_eq!(told(Dialect::Spec, Dialect::Spec), [json!({"a": 1, "b": 2}), json!({"b": null, "c": 3})]);
}

/// Returns a client whose handshake shows the newest dialect.
fn newest_client() -> Bench {
    let mut bench = Bench::new(BridgeOptions::default());
    let mut hello = hello_v2();
    hello["params"]["capabilities"] = json!({"elicitation": {"form": {}}});
    bench.client(hello);
    bench.agent(answer_v2(&json!(0)));
    bench.take_client();
    bench.take_agent();
    bench
}

#[test]
fn dialects_are_learned_from_what_is_said() {
    let cleared_first = [json!({"a": 1, "b": 2}), Value::Null, json!({"b": null, "c": 3})];
    let as_it_is = [json!({"a": 1, "b": 2}), json!({"b": null, "c": 3})];

    // Without evidence, no dialect is assumed.
    assert_eq!(metadata(&mut newest_client()), as_it_is);

    let answered = |result: Value| {
        let mut bench = newest_client();
        bench.client(prompt(1, "hi"));
        bench.agent(json!({"id": 1, "result": result}));
        bench.take_client();
        metadata(&mut bench)
    };
    assert_eq!(answered(json!({})), cleared_first);
    assert_eq!(answered(json!({"messageId": "u"})), as_it_is);

    let told = |update: Value| {
        let mut bench = newest_client();
        bench.update(update);
        bench.take_client();
        metadata(&mut bench)
    };
    assert_eq!(told(diff("diff")), cleared_first);
    assert_eq!(told(diff("text")), as_it_is);
    let commands = |command: Value| json!({"sessionUpdate": "available_commands_update", "availableCommands": [command]});
    assert_eq!(told(commands(json!({"name": "a", "description": "b"}))), cleared_first);
    assert_eq!(told(commands(json!({"type": "command", "name": "a", "description": "b"}))), as_it_is);

    // The client's side: a request that only the newest dialect has.
    let mut bench = between(None, Some(Dialect::Spec));
    assert_eq!(metadata(&mut bench), as_it_is);
    bench.client(
        json!({"id": 1, "method": "tool_call/cancel", "params": {"sessionId": "s", "toolCallId": "c"}}),
    );
    bench.update(diff("diff"));
    assert_eq!(bench.take_updates(), [diff("text")]);
}

#[test]
fn an_option_outweighs_what_is_said() {
    let mut bench = between(Some(Dialect::Newest), Some(Dialect::Newest));
    bench.update(diff("diff"));
    assert_eq!(bench.take_updates(), [diff("diff")], "both are said to be the same, so that lines pass");
}

fn output(text: &str) -> Value {
    let data: Value =
        serde_json::from_str(&Base64::from_bytes(text.as_bytes()).encode(WireFormat::Any)).unwrap();
    json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data})
}

fn terminal_update(fields: Value) -> Value {
    let mut update = fields;
    update["sessionUpdate"] = json!("terminal_update");
    update["terminalId"] = json!("t");
    update
}

fn showing(call: &str) -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "title": "ls",
        "content": [{"type": "terminal", "terminalId": "t"}]})
}

/// Returns the text that a version 2 client has in a call.
fn text_in(call: &str, updates: &[Value]) -> String {
    let mut text = String::new();
    for update in updates.iter().filter(|update| update["toolCallId"] == call) {
        match &update["content"] {
            Value::Array(items) => {
                text = items.iter().map(|item| item["content"]["text"].as_str().unwrap()).collect();
            }
            item if item.is_object() => text.push_str(item["content"]["text"].as_str().unwrap()),
            _ => {}
        }
    }
    text
}

#[test]
fn terminals_are_text_for_a_client_whose_dialect_has_none() {
    let mut bench = between(Some(Dialect::Spec), Some(Dialect::Newest));
    bench.update(terminal_update(json!({"command": "ls", "cwd": "/w"})));
    bench.update(output("early "));
    bench.assert_nothing_for_client("output that no call shows");
    bench.update(showing("c"));
    bench.update(output("\u{1b}[1"));
    bench.update(output("mlate\u{1b}[0m\r\n"));
    bench.update(terminal_update(json!({"exitStatus": {"exitCode": 2}})));
    bench.update(terminal_update(json!({"exitStatus": {"exitCode": 2}})));
    let updates = bench.take_updates();
    assert_eq!(text_in("c", &updates), "early late\n[exit code 2]");
    assert!(updates.iter().all(|update| !update.to_string().contains("terminal")), "{updates:?}");
    assert_eq!(
        bench.lost(),
        ["terminal_update command", "terminal_update cwd", "terminal_update terminalId"]
    );

    // Complete output: only the part that was not shown yet is sent.
    let whole = |text: &str| terminal_update(json!({"output": {"data": output(text)["data"]}}));
    let mut bench = between(Some(Dialect::Spec), None);
    bench.update(showing("c"));
    bench.update(output("one "));
    bench.update(whole("one two"));
    assert_eq!(text_in("c", &bench.take_updates()), "one two");
    bench.update(whole("three"));
    assert_eq!(text_in("c", &bench.take_updates()), "three");
    assert_eq!(bench.lost(), ["terminal_update terminalId", "terminal_update output"]);
    // A call with new content does not grow any more.
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": []}));
    bench.update(output("unseen"));
    assert!(text_in("c", &bench.take_updates()).is_empty());

    // The same in a question.
    bench.agent(json!({"id": 1, "method": "session/request_permission", "params": {"sessionId": "s", "title": "Again?",
        "subject": {"type": "tool_call", "toolCall": {"toolCallId": "d", "content": [{"type": "terminal", "terminalId": "t"}]}},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    let asked = bench.take_client().remove(0);
    let content = &asked["params"]["subject"]["toolCall"]["content"];
    assert_eq!(content[0]["content"]["text"], "threeunseen", "{asked}");
}

/// A version 1 client with these capabilities and a version 2 agent.
fn v1_client(capabilities: Value) -> Bench {
    let mut bench = Bench::v1_client();
    bench.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": capabilities}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(answer_v2(&id));
    bench.take_client();
    bench.open();
    bench
}

#[test]
fn terminals_go_in_metadata_to_a_version_1_client_that_shows_them() {
    let mut bench = v1_client(json!({"_meta": {"terminal_output": true}}));
    bench.update(terminal_update(json!({"command": "ls", "cwd": "/w"})));
    bench.update(output("early "));
    bench.update(showing("c"));
    bench.update(output("\u{1b}[1mlate\n"));
    bench.update(terminal_update(json!({"exitStatus": {"exitCode": 2}})));
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}));
    assert_eq!(
        bench.take_updates(),
        [
            json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
                "_meta": {"terminal_info": {"terminal_id": "t", "command": "ls", "cwd": "/w"}}}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
                "_meta": {"terminal_output": {"terminal_id": "t", "data": "early "}}}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
                "content": [{"type": "terminal", "terminalId": "t"}]}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
                "_meta": {"terminal_output": {"terminal_id": "t", "data": "\u{1b}[1mlate\n"}}}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
                "_meta": {"terminal_exit": {"terminal_id": "t", "exit_code": 2, "signal": null}}}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}),
        ]
    );
    assert!(bench.lost().is_empty(), "{:?}", bench.lost());
}

#[test]
fn a_terminal_that_was_introduced_comes_back_as_one() {
    // A bridge for a version 2 client understands the output of a bridge for a version 1 client.
    let mut down = v1_client(json!({"_meta": {"terminal_output": true}}));
    let mut up = Bench::v2_client();
    for update in [showing("c"), output("a\n"), terminal_update(json!({"exitStatus": {"exitCode": 0}}))] {
        down.update(update);
    }
    for update in down.take_updates() {
        up.update(update);
    }
    let updates = up.take_updates();
    assert!(updates.contains(&output("a\n")), "{updates:?}");
    assert!(updates.contains(&terminal_update(json!({"exitStatus": {"exitCode": 0}}))), "{updates:?}");
    assert!(updates.iter().any(|update| update["content"] == showing("c")["content"]), "{updates:?}");
}

fn chunk(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": text}})
}

fn holding(policy: LossPolicy) -> Bench {
    let options =
        BridgeOptions { hold_messages: true, policy, ..BridgeOptions::between(Version::V1, Version::V2) };
    let mut bench = Bench::new(options);
    bench.client(prompt(1, "hi"));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {}}));
    bench
}

#[test]
fn messages_that_are_held_are_shown_as_they_are_in_the_end() {
    let idle = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"});
    // Strict: no loss is allowed.
    let mut bench = holding(LossPolicy::Strict);
    for text in ["The password ", "is ", "hunter2."] {
        bench.update(chunk(text));
    }
    bench.update(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": null}));
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Think"}));
    assert_eq!(bench.take_updates().len(), 1, "only the call");
    for text in ["It is ", "a secret."] {
        bench.update(chunk(text));
    }
    bench.update(idle.clone());
    let told = bench.take_client();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0]["params"]["update"], chunk("It is a secret."));
    assert_eq!(told[1]["result"]["stopReason"], "end_turn");
    assert!(bench.lost().is_empty());

    // Replaced before it was shown.
    let mut bench = holding(LossPolicy::Strict);
    bench.update(chunk("five"));
    bench.update(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": [{"type": "text", "text": "four"}]}));
    bench.update(chunk("!"));
    bench.update(idle.clone());
    assert_eq!(bench.take_client()[0]["params"]["update"], chunk("four!"));

    // Retracted after it was shown: too late.
    let mut bench = holding(LossPolicy::Visible);
    bench.update(chunk("said"));
    bench.update(idle.clone());
    bench.take_client();
    bench.update(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": []}));
    bench.update(idle);
    assert_eq!(bench.lost(), ["agent_message content"]);
    // Held content is released when the agent exits.
    bench.update(chunk("last words"));
    bench.bridge.agent_ended("gone", &[]);
    bench.collect();
    assert!(bench.take_client().iter().any(|message| message.to_string().contains("last words")));
}

#[test]
fn chunks_pass_without_a_look_unless_their_metadata_may_change() {
    let chunk = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","_meta":{"a":1},"content":{"type":"text","text":"hi"}}}}"#;
    let check = |mut bench: Bench, passes: bool| {
        assert_eq!(bench.bridge.is_passthrough(Side::Agent, chunk.as_bytes()), passes);
        assert!(!bench.bridge.is_passthrough(Side::Client, chunk.as_bytes()), "only the agent's are known");
        bench.line(Side::Agent, chunk);
        assert_eq!(bench.take_updates().last().unwrap()["content"]["text"], "hi");
    };
    let dialects = [None, Some(Dialect::Spec), Some(Dialect::Newest)];
    for client in dialects {
        for agent in dialects {
            let differ = client.is_some() && agent.is_some() && client != agent;
            check(between(client, agent), !differ);
        }
    }
    check(Bench::new(BridgeOptions::between(Version::V1, Version::V1)), true);
    check(Bench::new(BridgeOptions::between(Version::V1, Version::V2)), false);
    check(Bench::new(BridgeOptions::between(Version::V2, Version::V1)), false);

    // With equal dialects, only session states are parsed.
    let update = |kind: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"{kind}","state":"running"}}}}}}"#
        )
    };
    for (client, alike) in [(Some(Dialect::Newest), true), (Some(Dialect::Spec), false), (None, false)] {
        let bench = between(client, Some(Dialect::Newest));
        let passes = |kind: &str| bench.bridge.is_passthrough(Side::Agent, update(kind).as_bytes());
        assert_eq!(passes("tool_call_update"), alike);
        assert!(!passes("state_update"));
    }

    // Evidence counts from the line that contains it.
    let mut bench = newest_client();
    assert!(bench.bridge.is_passthrough(Side::Agent, chunk.as_bytes()));
    bench.update(diff("diff"));
    bench.take_client();
    check(bench, false);
}

#[test]
fn a_question_about_a_command_says_the_command_to_a_client_that_does_not_know_such_questions() {
    let question = |description: Option<&str>| {
        json!({"id": 1, "method": "session/request_permission", "params": {"sessionId": "s", "title": "Run it?",
            "description": description, "subject": {"type": "command", "command": "rm -r build", "cwd": "/w"},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}})
    };
    let asked = |client, description| {
        let mut bench = between(client, Some(Dialect::Newest));
        bench.agent(question(description));
        bench.take_client().remove(0)["params"].clone()
    };
    for client in [Some(Dialect::Spec), None] {
        let params = asked(client, None);
        assert_eq!(params["description"], "rm -r build\n\n(in /w)", "{client:?}");
        assert_eq!(params["subject"]["command"], "rm -r build");
        assert_eq!(asked(client, Some("Cleans up."))["description"], "Cleans up.\n\nrm -r build\n\n(in /w)");
    }
    assert_eq!(asked(Some(Dialect::Newest), Some("Cleans up."))["description"], "Cleans up.");
}
