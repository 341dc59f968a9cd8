//! Stateless translation and its errors.

use serde_json::{Value, json};
use switchboard_acp::{Wire, WireFormat, v1, v2};
use switchboard_bridge::{Side, Stateless, Version, update_to_v1, update_to_v2};

fn down(update: Value) -> Result<(Vec<Value>, Vec<String>), String> {
    let text = update.to_string();
    let update = v2::SessionUpdate::decode(&text, WireFormat::Any).expect("valid");
    let converted = update_to_v1(update).map_err(|error| error.to_string())?;
    let values =
        converted.value.iter().map(|update| serde_json::from_str(&update.encode(WireFormat::V1)).unwrap());
    Ok((values.collect(), converted.omitted.into_iter().map(|note| note.element).collect()))
}

fn up(update: Value) -> Result<Value, String> {
    let text = update.to_string();
    let update = v1::SessionUpdate::decode(&text, WireFormat::V1).expect("valid");
    let converted = update_to_v2(update).map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(&converted.value.encode(WireFormat::Spec)).unwrap())
}

#[test]
fn tool_calls_of_version_1_are_updates_of_version_2() {
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "call_001", "title": "Reading", "kind": "read", "status": "pending"});
    assert_eq!(
        up(call).unwrap(),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_001", "title": "Reading", "kind": "read", "status": "pending"})
    );
    let update =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_001", "status": "completed"});
    assert_eq!(up(update.clone()).unwrap(), update);
    assert_eq!(down(update.clone()).unwrap().0, [update]);
}

#[test]
fn whole_messages_fan_out() {
    let message = json!({"sessionUpdate": "agent_message", "messageId": "m", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "_meta": {"x": 1}});
    let chunk = |text: &str| json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": text}, "_meta": {"x": 1}});
    assert_eq!(down(message).unwrap().0, [chunk("a"), chunk("b")]);
}

#[test]
fn inexpressible_values_fail_with_element_and_reason() {
    let fails = |update: Value, element: &str| {
        let error = down(update.clone()).unwrap_err();
        assert!(error.starts_with(&format!("{element}: ")), "{update}: {error}");
    };
    for tag in ["user_message", "agent_message", "agent_thought"] {
        fails(json!({"sessionUpdate": tag, "messageId": "m"}), tag);
        fails(json!({"sessionUpdate": tag, "messageId": "m", "_meta": {}}), tag);
        fails(json!({"sessionUpdate": tag, "messageId": "m", "content": null}), &format!("{tag}.content"));
        fails(json!({"sessionUpdate": tag, "messageId": "m", "content": []}), &format!("{tag}.content"));
        fails(
            json!({"sessionUpdate": tag, "messageId": "m", "content": [{"type": "text", "text": ""}], "_meta": null}),
            &format!("{tag}._meta"),
        );
        fails(
            json!({"sessionUpdate": tag, "messageId": "m", "content": [{"type": "text", "text": ""}, {"type": "_x"}]}),
            &format!("{tag}.content[1]"),
        );
    }
    let call =
        |key: &str, value: Value| json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", key: value});
    fails(call("kind", json!("_dance")), "tool_call_update.kind");
    fails(call("status", json!("cancelled")), "tool_call_update.status");
    fails(call("content", json!([{"type": "_x"}])), "tool_call_update.content[0]");
    fails(call("content", json!([{"type": "diff", "changes": []}])), "tool_call_update.content[0]");
    fails(call("content", json!([{"type": "terminal", "terminalId": "t"}])), "tool_call_update.content[0]");
    fails(
        call(
            "content",
            json!([{"type": "content", "content": {"type": "resource_link", "name": "n", "uri": "u", "icons": []}}]),
        ),
        "tool_call_update.content[0].content.icons",
    );
    fails(
        call(
            "content",
            json!([{"type": "content", "content": {"type": "text", "text": "", "annotations": {"audience": ["_dog"]}}}]),
        ),
        "tool_call_update.content[0].content.annotations.audience",
    );
    fails(
        json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": {"type": "content", "content": {"type": "text", "text": ""}}}),
        "tool_call_content_chunk",
    );
    fails(json!({"sessionUpdate": "state_update", "state": "idle"}), "state_update");
    fails(json!({"sessionUpdate": "terminal_update", "terminalId": "t"}), "terminal_update");
    fails(json!({"sessionUpdate": "_mine"}), "_mine");
    fails(
        json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [{"content": "", "priority": "high", "status": "_x"}]}}),
        "plan_update.plan.entries[0].status",
    );
    fails(json!({"sessionUpdate": "plan_update", "plan": {"type": "_x", "planId": "p"}}), "plan_update.plan");
    fails(
        json!({"sessionUpdate": "config_option_update", "configOptions": [{"type": "_x", "configId": "c", "name": "n"}]}),
        "config_option_update.configOptions[0]",
    );
    fails(
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"type": "_x", "name": "n", "description": ""}]}),
        "available_commands_update.availableCommands[0]",
    );
    let fails = |update: Value, element: &str| {
        let error = up(update.clone()).unwrap_err();
        assert!(error.starts_with(&format!("{element}: ")), "{update}: {error}");
    };
    fails(
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}}),
        "agent_message_chunk.messageId",
    );
    fails(json!({"sessionUpdate": "current_mode_update", "currentModeId": "m"}), "current_mode_update");
    fails(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [{"type": "terminal", "terminalId": "t"}]}),
        "tool_call_update.content[0]",
    );
}

#[test]
fn clears_of_lists_are_empty_lists_and_other_clears_are_left_out_and_named() {
    let (updates, omitted) = down(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": null, "kind": null,
        "status": null, "rawInput": null, "rawOutput": null, "content": null, "locations": null, "_meta": null})).unwrap();
    assert_eq!(
        updates,
        [json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [], "locations": []})]
    );
    let mut omitted = omitted;
    omitted.sort();
    let all = ["_meta", "kind", "rawInput", "rawOutput", "status", "title"];
    assert_eq!(omitted, all.map(|key| format!("tool_call_update.{key}")));
}

#[test]
fn diffs_of_version_1_get_a_patch() {
    let update = up(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [
        {"type": "diff", "path": "/w/a", "oldText": "x\n", "newText": "y\n"}]}))
    .unwrap();
    let item = &update["content"][0];
    assert_eq!(item["changes"][0]["operation"], "modify");
    assert!(item["patch"]["diff"].as_str().unwrap().ends_with("-x\n+y\n"));
}

#[test]
fn calls_and_answers_are_translated_by_their_method() {
    let mut stateless = Stateless::new(Version::V2);
    let mut convert = |from: Side, message: Value| {
        let converted =
            stateless.convert(&message.to_string(), Some(from)).map_err(|error| error.to_string())?;
        Ok::<Value, String>(serde_json::from_str(&converted.value[0]).unwrap())
    };
    let load = convert(Side::Client, json!({"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"sessionId": "s", "cwd": "/w", "mcpServers": []}})).unwrap();
    assert_eq!(
        (&load["method"], &load["params"]["replayFrom"]),
        (&json!("session/resume"), &json!({"type": "start"}))
    );
    let answer = convert(Side::Agent, json!({"jsonrpc": "2.0", "id": 1, "result": {"configOptions": [{"type": "boolean", "id": "b", "name": "B", "currentValue": true}]}})).unwrap();
    assert_eq!(answer["result"]["configOptions"][0]["configId"], "b");
    let asked = convert(
        Side::Agent,
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {"sessionId": "s",
        "toolCall": {"toolCallId": "c"}, "options": [{"optionId": "y", "name": "Y", "kind": "allow_once"}]}}),
    )
    .unwrap();
    assert_eq!(asked["params"]["title"], "Permission requested");
    for method in ["fs/read_text_file", "terminal/create", "session/set_mode"] {
        let error = convert(Side::Agent, json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": {}}))
            .unwrap_err();
        assert!(error.starts_with(method), "{error}");
    }
    convert(Side::Client, json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}})).unwrap();
    let error =
        convert(Side::Agent, json!({"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}))
            .unwrap_err();
    assert!(error.starts_with("session/prompt.stopReason: "), "{error}");
    let own = json!({"jsonrpc": "2.0", "id": 4, "method": "_own", "params": {"a": 1}});
    assert_eq!(convert(Side::Client, own.clone()).unwrap(), own);
}

/// Translates the response to a request on its own.
fn answered(to: Version, method: &str, result: &Value) -> Result<Value, String> {
    let mut stateless = Stateless::new(to);
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"sessionId": "x", "cwd": "/w", "mcpServers": []}});
    stateless.convert(&request.to_string(), Some(Side::Client)).expect("a request");
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    let converted = stateless.convert(&answer, Some(Side::Agent)).map_err(|error| error.to_string())?;
    Ok(serde_json::from_str::<Value>(&converted.value[0]).unwrap()["result"].clone())
}

#[test]
fn an_answer_that_opens_a_session_keeps_all_of_it() {
    let option = |id: &str| json!({"type": "select", id: "o", "name": "O", "currentValue": "a", "options": [{"value": "a", "name": "A"}]});
    for (method, has_id) in [("session/new", true), ("session/resume", false)] {
        let answer = |options: Value| {
            let mut answer = json!({"configOptions": [options], "_meta": {"a": 1}, "key": 2});
            if has_id {
                answer["sessionId"] = json!("x");
            }
            answer
        };
        let (old, new) = (answer(option("id")), answer(option("configId")));
        assert_eq!(answered(Version::V2, method, &old).as_ref(), Ok(&new), "{method}");
        assert_eq!(answered(Version::V1, method, &new).as_ref(), Ok(&old), "{method}");
        let mut with_commands = new.clone();
        with_commands["availableCommands"] = json!([{"type": "command", "name": "a", "description": "b"}]);
        let refused = answered(Version::V1, method, &with_commands).unwrap_err();
        assert!(refused.contains("availableCommands"), "{refused}");
    }
}
