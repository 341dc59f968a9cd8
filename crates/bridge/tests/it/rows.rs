//! The rows of the guide's tables that no longer test covers, one small case each.

use serde_json::{Value, json};
use switchboard_bridge::{Bridge, BridgeOptions, Host, HostError, TerminalStart, Version};

use crate::support::Bench;
use crate::turns::prompt;

/// Returns the updates and losses of a version 1 client for one update.
fn down(update: Value) -> (Vec<Value>, Vec<String>) {
    let mut bench = Bench::v1_client();
    bench.update(update);
    (bench.take_updates(), bench.lost())
}

/// Returns the updates and losses of a version 2 client for one update.
fn up(update: Value) -> (Vec<Value>, Vec<String>) {
    let mut bench = Bench::v2_client();
    bench.update(update);
    (bench.take_updates(), bench.lost())
}

/// Returns the translation of a client's request.
fn asked(mut bench: Bench, method: &str, params: Value) -> (String, Value) {
    bench.client(json!({"id": 1, "method": method, "params": params}));
    let request = bench.take_agent().remove(0);
    (request["method"].as_str().unwrap().to_owned(), request["params"].clone())
}

/// Returns the client's response for a result of the agent.
fn answered(mut bench: Bench, method: &str, params: Value, result: Value) -> (Value, Vec<String>) {
    bench.client(json!({"id": 1, "method": method, "params": params}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": result}));
    (bench.take_client()[0].clone(), bench.lost())
}

const NOTHING: [&str; 0] = [];

#[test]
fn handshake_of_a_version_2_client() {
    let hello = json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"},
        "capabilities": {"auth": {"terminal": {}}, "elicitation": {"form": {}}, "_meta": {"mine": 1}}});
    let (method, params) = asked(Bench::v2_client(), "initialize", hello.clone());
    assert_eq!(method, "initialize");
    assert_eq!(
        params,
        json!({"protocolVersion": 1, "clientInfo": {"name": "c", "version": "1"}, "clientCapabilities": {
            "fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false,
            "auth": {"terminal": true}, "elicitation": {"form": {}}, "plan": {}, "subagents": {},
            "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
            "_meta": {"mine": 1, "terminal_output": true}}})
    );
    let (answer, lost) = answered(
        Bench::v2_client(),
        "initialize",
        hello.clone(),
        json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true,
            "promptCapabilities": {"image": true, "audio": false}, "mcpCapabilities": {"http": true, "sse": true, "acp": true},
            "sessionCapabilities": {"delete": {}}},
            "authMethods": [{"id": "key", "name": "Key"},
                {"type": "terminal", "id": "t", "name": "T", "args": ["login"], "env": {"A": "1"}}]}),
    );
    assert_eq!(
        answer["result"],
        json!({"protocolVersion": 2, "info": {"name": "agent", "version": "unknown"},
            "capabilities": {"session": {"prompt": {"image": {}}, "mcp": {"stdio": {}, "http": {}, "acp": {}}, "delete": {}}},
            "authMethods": [{"type": "agent", "methodId": "key", "name": "Key"},
                {"type": "terminal", "methodId": "t", "name": "T", "args": ["login"],
                 "env": [{"name": "A", "value": "1"}]}]})
    );
    assert_eq!(lost, ["initialize agentCapabilities.mcpCapabilities.sse"]);
    let (answer, _) = answered(Bench::v2_client(), "initialize", hello, json!({"protocolVersion": 7}));
    assert_eq!(answer["error"]["code"], -32022, "an agent of neither version: {answer}");
}

#[test]
fn handshake_of_a_version_1_client() {
    let hello = json!({"protocolVersion": 1, "clientInfo": {"name": "c", "version": "1"}, "clientCapabilities": {
        "fs": {"readTextFile": true}, "terminal": true, "auth": {"terminal": true}, "elicitation": {"url": {}}}});
    let (_, params) = asked(Bench::v1_client(), "initialize", hello.clone());
    assert_eq!(
        params,
        json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"},
            "capabilities": {"auth": {"terminal": {}}, "elicitation": {"url": {}},
                "_meta": {"acp.v1/fs": {"readTextFile": true}, "acp.v1/terminal": true}}})
    );
    let answer = |capabilities: Value| {
        let result = json!({"protocolVersion": 2, "info": {"name": "a", "version": "1"},
            "capabilities": capabilities, "authMethods": [
                {"type": "agent", "methodId": "key", "name": "Key"}, {"type": "_magic", "methodId": "m", "name": "M"},
                {"type": "terminal", "methodId": "t", "name": "T", "env": [{"name": "A", "value": "1"}]}]});
        answered(Bench::v1_client(), "initialize", hello.clone(), result)
    };
    let (told, lost) = answer(json!({"session": {"prompt": {"audio": {}}, "mcp": {"http": {}, "acp": {}}}}));
    assert_eq!(
        told["result"],
        json!({"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"}, "agentCapabilities": {
            "loadSession": true, "promptCapabilities": {"image": false, "audio": true, "embeddedContext": false},
            "mcpCapabilities": {"http": true, "sse": false, "acp": true}, "auth": {"logout": {}},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}}},
            "authMethods": [{"id": "key", "name": "Key"},
                {"type": "terminal", "id": "t", "name": "T", "env": {"A": "1"}}]})
    );
    assert_eq!(lost, ["initialize authMethods[1]"]);
    assert!(answer(json!({})).0["error"]["message"].as_str().unwrap().contains("no sessions"));
}

#[test]
fn logging_in_and_out() {
    let login = || json!({"methodId": "key"});
    assert_eq!(asked(Bench::v1_client(), "authenticate", login()), ("auth/login".to_owned(), login()));
    assert_eq!(asked(Bench::v2_client(), "auth/login", login()), ("authenticate".to_owned(), login()));
    assert_eq!(asked(Bench::v1_client(), "logout", json!({})).0, "auth/logout");
    let mut bench = Bench::v2_client();
    bench.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(
        json!({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {"auth": {"logout": {}}}}}),
    );
    assert_eq!(asked(bench, "auth/logout", json!({})).0, "logout");
}

#[test]
fn errors_pass_with_their_code_and_null_ids_get_their_answer() {
    for mut bench in [Bench::v1_client(), Bench::v2_client()] {
        bench.line(
            switchboard_bridge::Side::Client,
            r#"{"jsonrpc":"2.0","id":null,"method":"_x","params":{}}"#,
        );
        let id = bench.take_agent()[0]["id"].clone();
        assert!(id.is_number(), "never null: {id}");
        let error = json!({"code": -32022, "message": "m", "data": {"supported": [2]}});
        bench.agent(json!({"id": id, "error": error}));
        assert_eq!(bench.take_client(), [json!({"jsonrpc": "2.0", "id": null, "error": error})]);
    }
}

#[test]
fn opening_sessions() {
    let (_, params) = asked(
        Bench::v2_client(),
        "session/new",
        json!({"cwd": "/w", "mcpServers": [{"type": "stdio", "name": "m", "command": "/bin/m"},
            {"type": "http", "name": "h", "url": "https://x"}]}),
    );
    assert_eq!(
        params["mcpServers"],
        json!([{"name": "m", "command": "/bin/m", "args": [], "env": []},
               {"type": "http", "name": "h", "url": "https://x", "headers": []}])
    );
    assert_eq!(asked(Bench::v2_client(), "session/new", json!({"cwd": "/w"})).1["mcpServers"], json!([]));
    let mut bench = Bench::v2_client();
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": [{"type": "_pigeon", "name": "p"}]}}));
    assert_eq!(bench.take_client()[0]["error"]["code"], -32602);
    bench.assert_nothing_for_agent("a kind of server that version 1 has not");

    let old = json!({"sessionId": "s", "cwd": "/w", "mcpServers": []});
    let (method, params) = asked(Bench::v1_client(), "session/resume", old.clone());
    assert_eq!((&*method, params.get("replayFrom")), ("session/resume", None));
    let (method, params) = asked(Bench::v1_client(), "session/load", old);
    assert_eq!((&*method, &params["replayFrom"]), ("session/resume", &json!({"type": "start"})));
}

#[test]
fn a_session_that_the_agent_closes_ends_its_turn_first() {
    let mut bench = Bench::v2_client();
    bench.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}}));
    bench.client(prompt(1, "hi"));
    bench.client(json!({"id": 2, "method": "session/close", "params": {"sessionId": "s"}}));
    let close = bench.take_agent().pop().unwrap();
    assert_eq!(close["method"], "session/close");
    bench.take_client();
    bench.agent(json!({"id": close["id"], "result": {}}));
    let told = bench.take_client();
    assert_eq!(told[0]["params"]["update"]["stopReason"], "cancelled");
    assert_eq!(told[1]["id"], 2);
}

#[test]
fn setting_options() {
    let set = |value: Value| json!({"sessionId": "s", "configId": "o", "value": value});
    let typed =
        |kind: &str, value: Value| json!({"type": kind, "sessionId": "s", "configId": "o", "value": value});
    let method = "session/set_config_option";
    assert_eq!(asked(Bench::v1_client(), method, set(json!("a"))).1, typed("id", json!("a")));
    assert_eq!(
        asked(Bench::v1_client(), method, typed("boolean", json!(true))).1,
        typed("boolean", json!(true))
    );
    assert_eq!(asked(Bench::v2_client(), method, typed("id", json!("a"))).1, set(json!("a")));
    assert_eq!(
        asked(Bench::v2_client(), method, typed("boolean", json!(true))).1,
        typed("boolean", json!(true))
    );
    let mut bench = Bench::v2_client();
    bench.client(json!({"id": 1, "method": method, "params": typed("_dial", json!(7))}));
    assert_eq!(bench.take_client()[0]["error"]["code"], -32602);
}

#[test]
fn states_of_a_version_2_agent() {
    let state = |state: &str| json!({"sessionUpdate": "state_update", "state": state});
    for quiet in ["running", "requires_action", "idle"] {
        assert_eq!(down(state(quiet)), (vec![], vec![]), "{quiet}");
    }
    assert_eq!(down(state("_dreaming")).1, ["state_update update"]);
    let mut bench = Bench::v1_client();
    bench.client(prompt(1, "hi"));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "error": {"code": -32000, "message": "log in"}}));
    assert_eq!(bench.take_client()[0]["error"]["code"], -32000, "a prompt that is refused");
}

/// Sends a question of the agent. Returns it as the client got it.
fn question(bench: &mut Bench, params: Value) -> Option<Value> {
    let mut params = params;
    params["sessionId"] = json!("s");
    params.as_object_mut().unwrap().entry("title").or_insert(json!("May I?"));
    params
        .as_object_mut()
        .unwrap()
        .entry("options")
        .or_insert(json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]));
    bench.agent(json!({"id": 5, "method": "session/request_permission", "params": params}));
    let told = bench.take_client();
    told.into_iter().find(|message| message["method"] == "session/request_permission")
}

const CANCELLED: &str = r#"{"outcome":{"outcome":"cancelled"}}"#;

fn cancelled() -> Value {
    serde_json::from_str(CANCELLED).unwrap()
}

#[test]
fn a_question_that_a_version_2_agent_takes_back_is_answered_for_it() {
    let mut bench = Bench::v1_client();
    let asked = question(&mut bench, json!({})).unwrap();
    bench.agent(json!({"method": "$/cancel_request", "params": {"requestId": 5}}));
    assert_eq!(bench.take_agent(), [json!({"jsonrpc": "2.0", "id": 5, "result": cancelled()})]);
    let told = bench.take_client();
    assert_eq!(
        (&told[0]["method"], &told[0]["params"]["requestId"]),
        (&json!("$/cancel_request"), &asked["id"])
    );
    // The client's own answer arrives too late.
    bench.client(json!({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}));
    bench.assert_nothing_for_agent("the client's own answer comes too late");
}

#[test]
fn questions_for_a_version_1_client() {
    // Without a subject: a call that only carries the question.
    let mut bench = Bench::v1_client();
    let asked = question(&mut bench, json!({"description": "Please."})).unwrap();
    let call = &asked["params"]["toolCall"];
    assert_eq!(
        (&call["title"], &call["content"][0]["content"]["text"]),
        (&json!("May I?"), &json!("Please."))
    );
    bench.client(json!({"id": asked["id"], "result": cancelled()}));
    assert_eq!(bench.take_agent()[0]["result"], cancelled());
    assert_eq!(bench.take_updates()[0]["status"], "failed");
    assert!(bench.lost().is_empty());

    let mut bench = Bench::v1_client();
    assert!(question(&mut bench, json!({"subject": {"type": "_spell", "words": "x"}})).is_some());
    assert_eq!(bench.lost(), ["session/request_permission subject"]);

    // No valid option: the user is not asked, and nothing is allowed.
    let mut bench = Bench::v1_client();
    let options = json!([{"optionId": "z", "name": "Odd", "kind": "_odd"}]);
    bench.agent(json!({"id": 5, "method": "session/request_permission",
        "params": {"sessionId": "s", "title": "May I?", "options": options}}));
    assert_eq!(bench.take_agent()[0]["result"], cancelled());
    assert!(bench.take_updates()[0]["content"]["text"].as_str().unwrap().contains("May I?"));
    assert_eq!(bench.lost(), ["session/request_permission options[0]", "session/request_permission message"]);

    // Unsent content precedes the question.
    let mut bench = Bench::v1_client();
    bench.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Run", "content": []}),
    );
    let chunk = json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c",
        "content": {"type": "content", "content": {"type": "text", "text": "out"}}});
    let message =
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": chunk}});
    bench.take_client();
    // No time passes, after which it would be sent anyway.
    let _ = bench.bridge.handle(
        switchboard_bridge::Side::Agent,
        &message.to_string(),
        switchboard_bridge::Moment(bench.now - 500),
    );
    let subject = json!({"type": "tool_call", "toolCall": {"toolCallId": "c"}});
    bench.agent(
        json!({"id": 5, "method": "session/request_permission", "params": {"sessionId": "s", "title": "Run",
        "subject": subject, "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}),
    );
    let told = bench.take_client();
    assert_eq!(told[0]["params"]["update"]["content"][0]["content"]["text"], "out");
    assert_eq!(told[1]["method"], "session/request_permission");
}

#[test]
fn questions_of_a_version_1_agent() {
    let call = || json!({"toolCallId": "c", "title": "rm"});
    let mut bench = Bench::v2_client();
    bench.client(prompt(1, "hi"));
    bench.take_client();
    bench.agent(json!({"id": 5, "method": "session/request_permission", "params": {"sessionId": "s", "toolCall": call(),
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    let told = bench.take_client();
    assert_eq!(
        (&told[0]["params"]["title"], &told[0]["params"]["subject"]["type"]),
        (&json!("rm"), &json!("tool_call"))
    );
    assert_eq!(told[1]["params"]["update"]["state"], "requires_action");
    bench.take_agent();
    bench.client(json!({"id": told[0]["id"], "result": {"outcome": {"outcome": "_perhaps"}}}));
    assert_eq!(bench.take_agent()[0]["result"], cancelled(), "what is unknown is no approval");
    assert_eq!(bench.take_updates()[0]["state"], "running");
    assert_eq!(bench.lost(), ["session/request_permission outcome"]);

    for options in [
        json!([]),
        json!([{"optionId": "y", "name": "A", "kind": "allow_once"}, {"optionId": "y", "name": "B", "kind": "reject_once"}]),
    ] {
        let mut bench = Bench::v2_client();
        assert!(question(&mut bench, json!({"toolCall": call(), "options": options})).is_none());
        assert_eq!(bench.take_agent()[0]["error"]["code"], -32602);
    }
}

#[derive(Default)]
struct Commands;

impl Host for Commands {
    fn start_terminal(&mut self, _: &TerminalStart, _: &[String]) -> Result<(), HostError> {
        Ok(())
    }
}

#[test]
fn a_command_that_the_bridge_runs_can_be_cancelled() {
    let options = BridgeOptions { serve_terminals: true, ..BridgeOptions::between(Version::V2, Version::V1) };
    let mut bench = Bench::of(Bridge::with_host(options, Box::new(Commands)));
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w"}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {"sessionId": "s"}}));
    bench.agent(
        json!({"id": 2, "method": "terminal/create", "params": {"sessionId": "s", "command": "sleep"}}),
    );
    let terminal = bench.take_agent()[0]["result"]["terminalId"].clone();
    bench.take_client();
    let cancel = |id: &Value| json!({"id": 3, "method": "terminal/cancel", "params": {"sessionId": "s", "terminalId": id}});
    bench.client(cancel(&terminal));
    assert_eq!(bench.take_client()[0]["result"], json!({}));
    bench.client(cancel(&json!("another")));
    assert_eq!(bench.take_client()[0]["error"]["code"], -32602);
}

fn message(fields: Value) -> Value {
    let mut update = fields;
    update["sessionUpdate"] = json!("agent_message");
    update["messageId"] = json!("m");
    update
}

#[test]
fn messages_for_a_version_1_client() {
    let chunk = |content: Value| json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content});
    assert_eq!(down(message(json!({"content": null}))), (vec![], vec![]), "nothing was shown");
    assert_eq!(down(message(json!({"content": []}))), (vec![], vec![]));
    assert_eq!(down(message(json!({"_meta": {"a": 1}}))).1, ["agent_message _meta"]);
    assert_eq!(down(message(json!({"_meta": null}))).1, ["agent_message _meta"]);
    let (told, lost) = down(chunk(json!({"type": "_video", "url": "u"})));
    assert_eq!(told[0]["content"]["text"], "[unsupported content: _video]");
    assert_eq!(told[0]["content"]["_meta"]["acp.v2/content"], json!({"type": "_video", "url": "u"}));
    assert_eq!(lost, ["agent_message_chunk content"]);
    let link =
        json!({"type": "resource_link", "name": "n", "uri": "file:///w/a", "icons": [{"src": "i.png"}]});
    let (told, lost) = down(chunk(link));
    assert_eq!(
        told[0]["content"],
        json!({"type": "resource_link", "name": "n", "uri": "file:///w/a", "_meta": {"acp.v2/icons": [{"src": "i.png"}]}})
    );
    assert_eq!(lost, ["agent_message_chunk content.icons"]);
    let (told, lost) =
        down(chunk(json!({"type": "text", "text": "x", "annotations": {"audience": ["user", "_cat"]}})));
    assert_eq!(told[0]["content"]["annotations"]["audience"], json!(["user"]));
    assert_eq!(lost, ["agent_message_chunk content.annotations.audience"]);
}

#[test]
fn messages_of_a_version_1_agent_get_ids_where_they_have_none() {
    let mut bench = Bench::v2_client();
    let say = |bench: &mut Bench, kind: &str, id: Option<&str>| {
        let mut update =
            json!({"sessionUpdate": format!("{kind}_chunk"), "content": {"type": "text", "text": "x"}});
        if let Some(id) = id {
            update["messageId"] = json!(id);
        }
        bench.update(update);
        bench.take_updates()[0]["messageId"].as_str().unwrap().to_owned()
    };
    assert_eq!(say(&mut bench, "agent_message", None), "b-agent-1");
    assert_eq!(say(&mut bench, "agent_message", None), "b-agent-1");
    assert_eq!(say(&mut bench, "agent_thought", None), "b-thought-1", "another role");
    assert_eq!(say(&mut bench, "agent_message", None), "b-agent-2");
    assert_eq!(say(&mut bench, "agent_message", Some("own")), "own");
    assert_eq!(say(&mut bench, "agent_message", None), "b-agent-3", "an id of its own ends the run");
    bench.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T"}));
    bench.take_client();
    assert_eq!(say(&mut bench, "agent_message", None), "b-agent-4", "a new call ends it");
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}));
    bench.take_client();
    assert_eq!(say(&mut bench, "agent_message", None), "b-agent-4", "news of an old one does not");
}

#[test]
fn tool_calls_for_a_version_1_client() {
    let call = |fields: Value| {
        let mut update = fields;
        update["sessionUpdate"] = json!("tool_call_update");
        update["toolCallId"] = json!("c");
        update
    };
    let (told, _) = down(call(json!({"kind": "execute"})));
    assert_eq!(
        told,
        [json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Execute", "kind": "execute"})]
    );
    assert_eq!(down(call(json!({}))).0[0]["title"], "Tool call");
    for (status, shown) in [("cancelled", "failed"), ("paused", "in_progress"), ("_odd", "in_progress")] {
        let (told, lost) = down(call(json!({"status": status})));
        assert_eq!((&told[0]["status"], &told[0]["_meta"]["acp.v2/status"]), (&json!(shown), &json!(status)));
        assert_eq!(lost, ["tool_call_update status"]);
    }
    let (told, lost) = down(call(json!({"name": "bash", "capabilities": {"cancel": {}}})));
    assert_eq!(told[0]["name"], "bash");
    assert_eq!(lost, ["tool_call_update capabilities"]);
}

#[test]
fn diffs_of_a_version_1_agent() {
    let diff = |fields: Value| {
        let mut item = fields;
        item["type"] = json!("diff");
        item["path"] = json!("/w/a b");
        let (told, _) =
            up(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "content": [item]}));
        told[0]["content"][0].clone()
    };
    let added = diff(json!({"newText": "one\n"}));
    assert_eq!(added["changes"][0]["operation"], "add");
    assert!(added["patch"]["text"].as_str().unwrap().contains("+one"), "{added}");
    let deleted = diff(json!({"oldText": "one\n", "newText": "", "deleted": true}));
    assert_eq!(deleted["changes"][0]["operation"], "delete");
    let said = diff(json!({"oldText": "", "newText": "one\n", "_meta": {"kind": "add"}}));
    assert_eq!((&said["changes"][0]["operation"], &said["_meta"]["kind"]), (&json!("add"), &json!("add")));
    let same = diff(json!({"oldText": "one\n", "newText": "one\n"}));
    assert_eq!((same["changes"][0]["operation"].as_str(), same.get("patch")), (Some("modify"), None));
    let snippet = diff(json!({"oldText": "one", "newText": "two"}));
    assert_eq!(snippet["_meta"]["acp.v1/partial"], true);
}

#[test]
fn the_rest_of_a_session_for_a_version_1_client() {
    let commands = json!({"sessionUpdate": "available_commands_update", "availableCommands": [
        {"type": "command", "name": "a", "description": "A", "input": {"type": "_form", "x": 1}},
        {"type": "_macro", "name": "b", "description": "B", "steps": []}]});
    let (told, lost) = down(commands);
    assert_eq!(
        told[0]["availableCommands"],
        json!([{"name": "a", "description": "A"}, {"name": "b", "description": "B"}])
    );
    assert_eq!(lost.len(), 2, "{lost:?}");
    let (told, lost) = down(json!({"sessionUpdate": "session_info_update", "title": null, "_meta": null}));
    assert_eq!(told, [json!({"sessionUpdate": "session_info_update", "title": null})]);
    assert_eq!(lost, ["session_info_update _meta"]);
    let (told, lost) = down(json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": null}));
    assert_eq!(told, [json!({"sessionUpdate": "usage_update", "used": 1, "size": 2})]);
    assert_eq!(lost, ["usage_update cost"]);
    let compaction =
        json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "in_progress"});
    assert_eq!(down(compaction.clone()), (vec![], vec!["compaction_update update".to_owned()]));
    let plan = |plan: Value| down(json!({"sessionUpdate": "plan_update", "plan": plan}));
    let (told, lost) = plan(json!({"type": "markdown", "planId": "p", "content": "# Plan"}));
    assert_eq!(told[0]["content"]["text"], "[plan]\n\n# Plan");
    assert_eq!(lost, ["plan_update plan"]);

    // Updates that the client supports pass unchanged.
    let mut bench = Bench::v1_client();
    bench.client(
        json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities":
        {"session": {"notices": {}, "compaction": {}}}}}),
    );
    bench.open();
    let notice = json!({"sessionUpdate": "notice", "severity": "info", "title": "T"});
    for update in [compaction, notice] {
        bench.update(update.clone());
        assert_eq!(bench.take_updates(), [update]);
    }
    assert_eq!(bench.lost(), NOTHING);
}

#[test]
fn the_rest_of_a_session_for_a_version_2_client() {
    let (told, lost) = up(json!({"sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "web", "description": "W", "input": {"hint": "q"}}]}));
    assert_eq!(
        told[0]["availableCommands"],
        json!([{"type": "command", "name": "web", "description": "W", "input": {"type": "text", "hint": "q"}}])
    );
    assert_eq!(lost, NOTHING);
    let (told, _) = up(json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": null}));
    assert_eq!(told, [json!({"sessionUpdate": "usage_update", "used": 1, "size": 2})]);
}

#[test]
fn elicitations_pass_where_the_client_takes_them() {
    let form = json!({"mode": "form", "sessionId": "s", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
    for (client, agent) in [(Version::V1, Version::V2), (Version::V2, Version::V1)] {
        let mut bench = Bench::new(BridgeOptions::between(client, agent));
        bench.agent(json!({"id": 3, "method": "elicitation/create", "params": form}));
        assert_eq!(bench.take_agent()[0]["error"]["code"], -32602, "{client:?}");

        let hello = match client {
            Version::V1 => json!({"protocolVersion": 1, "clientCapabilities": {"elicitation": {"form": {}}}}),
            Version::V2 => {
                json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": {"elicitation": {"form": {}}}})
            }
        };
        bench.client(json!({"id": 0, "method": "initialize", "params": hello}));
        bench.take_agent();
        // Scope of a request: by the id that the client has for it.
        bench.client(json!({"id": "login", "method": "_login", "params": {}}));
        let mut about = form.clone();
        about["requestId"] = bench.take_agent()[0]["id"].clone();
        about.as_object_mut().unwrap().remove("sessionId");
        bench.agent(json!({"id": 3, "method": "elicitation/create", "params": about}));
        let asked = bench.take_client().remove(0);
        assert_eq!(asked["params"]["requestId"], "login", "{client:?}: {asked}");
        bench.client(json!({"id": asked["id"], "result": {"action": "decline"}}));
        assert_eq!(bench.take_agent(), [json!({"jsonrpc": "2.0", "id": 3, "result": {"action": "decline"}})]);
    }
}

#[test]
fn metadata_of_a_notice_moves_to_its_message() {
    let mut bench = Bench::v1_client();
    bench.update(json!({"sessionUpdate": "notice", "severity": "warning", "title": "t", "description": "d", "_meta": {"a": 1}, "key": 2}));
    let told = bench.take_updates().remove(0);
    assert_eq!(told["content"]["text"], "[warning] t\n\nd");
    assert_eq!((&told["_meta"], &told["key"]), (&json!({"a": 1}), &json!(2)), "{told}");
}
