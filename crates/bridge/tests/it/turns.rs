//! The prompt lifecycle, the handshake and the policies.

use serde_json::{Value, json};
use switchboard_bridge::{BridgeOptions, LossPolicy, Side, Version};

use crate::support::Bench;

pub(crate) fn prompt(id: i64, text: &str) -> Value {
    json!({"id": id, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}})
}

fn state(update: Value) -> Value {
    let mut update = update;
    update["sessionUpdate"] = json!("state_update");
    update
}

#[test]
fn a_version_1_prompt_is_answered_when_the_agent_rests() {
    let mut bench = Bench::v1_client();
    bench.client(prompt(1, "hi"));
    let sent = bench.take_agent().remove(0);
    assert_eq!(sent["method"], "session/prompt");
    bench.update(state(json!({"state": "idle"})));
    bench.update(state(json!({"state": "running"})));
    bench.update(json!({"sessionUpdate": "user_message", "messageId": "u", "content": [{"type": "text", "text": "hi"}]}));
    bench.agent(json!({"id": sent["id"], "result": {"messageId": "u"}}));
    bench.update(json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "ho"}}));
    let shown = bench.take_updates();
    assert_eq!(shown.len(), 1, "the echo of the prompt is not shown: {shown:?}");
    bench.update(state(json!({"state": "idle", "stopReason": "max_tokens"})));
    assert_eq!(
        bench.take_client(),
        [json!({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "max_tokens"}})]
    );
    bench.update(state(json!({"state": "idle", "stopReason": "max_tokens"})));
    bench.assert_nothing_for_client("a repeated snapshot is no second end");
}

#[test]
fn where_others_prompt_in_the_same_session_their_end_is_not_ours() {
    let ended = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "refusal"});
    for (told, end) in [
        (json!({"_meta": {"switchboard/turn": null, "more": 1}}), None),
        (json!({"_meta": {"switchboard/turn": ended}}), Some("refusal")),
        (json!({}), Some("end_turn")),
    ] {
        let mut bench = Bench::v1_client();
        bench.client(prompt(1, "hi"));
        let id = bench.take_agent()[0]["id"].clone();
        bench.update(state(json!({"state": "idle", "stopReason": "end_turn"})));
        bench.agent(json!({"id": id, "result": told}));
        bench.update(state(json!({"state": "running"})));
        if end.is_none() {
            bench.assert_nothing_for_client("the end that was told before is somebody else's");
            bench.update(state(json!({"state": "idle", "stopReason": "max_tokens"})));
        }
        let answer = bench.take_client().remove(0);
        assert_eq!(answer["result"]["stopReason"], end.unwrap_or("max_tokens"), "{told}");
        assert!(answer["result"]["_meta"].get("switchboard/turn").is_none(), "{answer}");
    }
}

#[test]
fn ends_of_a_turn_as_version_1_has_them() {
    let end = |idle: Value, cancel: bool| {
        let mut bench = Bench::v1_client();
        bench.client(prompt(1, "hi"));
        let id = bench.take_agent()[0]["id"].clone();
        bench.agent(json!({"id": id, "result": {}}));
        bench.update(state(json!({"state": "running"})));
        if cancel {
            bench.client(json!({"method": "session/cancel", "params": {"sessionId": "s"}}));
        }
        bench.update(state(idle));
        let mut answer = bench.take_client().remove(0);
        answer.as_object_mut().unwrap().retain(|key, _| key == "result" || key == "error");
        (answer, bench.lost())
    };
    let (answer, lost) =
        end(json!({"state": "idle", "stopReason": "error", "error": {"code": -7, "message": "no"}}), false);
    assert_eq!(answer, json!({"error": {"code": -7, "message": "no"}}));
    assert!(lost.is_empty());
    let (answer, lost) = end(json!({"state": "idle", "stopReason": "_bored"}), false);
    assert_eq!(
        answer,
        json!({"result": {"stopReason": "end_turn", "_meta": {"acp.v2/stopReason": "_bored"}}})
    );
    assert_eq!(lost, ["state_update stopReason"]);
    assert_eq!(end(json!({"state": "idle"}), false).0, json!({"result": {"stopReason": "end_turn"}}));
    assert_eq!(end(json!({"state": "idle"}), true).0, json!({"result": {"stopReason": "cancelled"}}));
}

#[test]
fn an_end_before_the_acceptance_counts_after_it() {
    let mut bench = Bench::v1_client();
    bench.client(prompt(1, "hi"));
    let id = bench.take_agent()[0]["id"].clone();
    bench.update(state(json!({"state": "running"})));
    bench.update(state(json!({"state": "idle", "stopReason": "end_turn"})));
    bench.assert_nothing_for_client("it is not accepted yet");
    bench.agent(json!({"id": id, "result": {}}));
    assert_eq!(bench.take_client()[0]["result"], json!({"stopReason": "end_turn"}));
}

#[test]
fn a_second_version_1_prompt_waits() {
    let mut bench = Bench::v1_client();
    bench.client(prompt(1, "one"));
    bench.client(prompt(2, "two"));
    let sent = bench.take_agent();
    assert_eq!(sent.len(), 1);
    bench.agent(json!({"id": sent[0]["id"], "result": {}}));
    bench.update(state(json!({"state": "idle", "stopReason": "end_turn"})));
    assert_eq!(bench.take_client()[0]["id"], 1);
    assert_eq!(bench.take_agent()[0]["params"]["prompt"][0]["text"], "two");
}

#[test]
fn a_version_1_error_at_once_refuses_the_prompt() {
    let mut bench = Bench::v2_client();
    // No message is exchanged between the two.
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "x"}]}});
    let _ = bench.bridge.handle(Side::Client, &line.to_string(), switchboard_bridge::Moment(0));
    bench.collect();
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "error": {"code": -32000, "message": "log in"}}));
    assert_eq!(
        bench.take_client(),
        [json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "log in"}})]
    );
}

#[test]
fn the_first_work_of_a_version_1_agent_accepts_the_prompt() {
    let mut bench = Bench::v2_client();
    // No time passes, after which the prompt would count as accepted anyway.
    let mut say = |from: Side, mut message: Value| {
        message["jsonrpc"] = json!("2.0");
        let _ = bench.bridge.handle(from, &message.to_string(), switchboard_bridge::Moment(0));
        bench.collect();
        bench.take_client()
    };
    let update =
        |update: Value| json!({"method": "session/update", "params": {"sessionId": "s", "update": update}});
    assert_eq!(say(Side::Client, prompt(1, "hi")), [] as [Value; 0]);
    let told = say(Side::Agent, update(json!({"sessionUpdate": "usage_update", "used": 1, "size": 2})));
    assert_eq!(told.len(), 1, "usage is told, and is no work: {told:?}");
    let chunk = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "ho"}});
    let told = say(Side::Agent, update(chunk));
    assert_eq!(told[0]["result"]["messageId"], "b-user-1");
    let kinds: Vec<&Value> =
        told[1..].iter().map(|line| &line["params"]["update"]["sessionUpdate"]).collect();
    assert_eq!(kinds, ["user_message", "state_update", "agent_message_chunk"], "{told:?}");
    assert_eq!(told[2]["params"]["update"]["state"], "running");
}

#[test]
fn a_later_version_1_error_ends_the_work() {
    let mut bench = Bench::v2_client();
    bench.client(prompt(1, "x"));
    let id = bench.take_agent()[0]["id"].clone();
    assert_eq!(bench.take_client()[0]["result"]["messageId"], "b-user-1");
    bench.agent(json!({"id": id, "error": {"code": 400, "message": "bad"}}));
    let update = bench.take_updates().remove(0);
    assert_eq!(
        update,
        state(json!({"state": "idle", "stopReason": "error", "error": {"code": 400, "message": "bad"}}))
    );
}

#[test]
fn a_second_version_2_prompt_is_held_and_can_be_taken_back() {
    let mut bench = Bench::v2_client();
    bench.client(prompt(1, "one"));
    bench.client(prompt(2, "two"));
    bench.client(prompt(3, "three"));
    let sent = bench.take_agent();
    assert_eq!(sent.len(), 1);
    bench.take_client();
    bench.client(json!({"method": "$/cancel_request", "params": {"requestId": 2}}));
    assert_eq!(bench.take_client()[0]["error"]["code"], -32800);
    bench.agent(json!({"id": sent[0]["id"], "result": {"stopReason": "end_turn"}}));
    assert_eq!(bench.take_agent()[0]["params"]["prompt"][0]["text"], "three");
}

#[test]
fn an_agents_echo_of_the_prompt_is_not_shown_twice() {
    let mut bench = Bench::v2_client();
    bench.client(prompt(1, "hello there"));
    bench.take_client();
    for text in ["hello ", "there"] {
        bench.update(
            json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}),
        );
    }
    bench.assert_nothing_for_client("the echo of the prompt");
    bench.update(
        json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "from elsewhere"}}),
    );
    assert_eq!(bench.take_updates()[0]["messageId"], "b-user-2");
}

#[test]
fn strict_ends_the_turn_with_an_error() {
    let options =
        BridgeOptions { policy: LossPolicy::Strict, ..BridgeOptions::between(Version::V1, Version::V2) };
    let mut bench = Bench::new(options);
    bench.client(prompt(1, "hi"));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {}}));
    bench.update(json!({"sessionUpdate": "_weather", "rain": true}));
    let answer = bench.take_client().remove(0);
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32603)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("_weather"), "{answer}");
    assert_eq!(bench.take_agent()[0]["method"], "session/cancel");
}

fn hello_v1() -> Value {
    json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}})
}

pub(crate) fn hello_v2() -> Value {
    json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": {}}})
}

pub(crate) fn answer_v2(id: &Value) -> Value {
    json!({"id": id, "result": {"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": {}}}})
}

#[test]
fn the_same_version_on_both_sides_passes_bytes() {
    let mut bench = Bench::new(BridgeOptions::default());
    bench.client(hello_v1());
    bench.agent(json!({"id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}}}));
    assert_eq!(bench.bridge.versions(), Some((Version::V1, Version::V1)));
    let odd = r#"{ "jsonrpc" : "2.0","method":"session/update", "params":{"x":1.50e1}}"#;
    assert_eq!(
        bench.bridge.handle(Side::Agent, odd, switchboard_bridge::Moment(0)),
        switchboard_bridge::Handled::Forward
    );
}

#[test]
fn a_version_1_client_meets_an_agent_that_only_speaks_2() {
    let mut bench = Bench::new(BridgeOptions::default());
    bench.client(hello_v1());
    let first = bench.take_agent().remove(0);
    assert_eq!(first["params"]["protocolVersion"], 1);
    bench.agent(json!({"id": 0, "error": {"code": -32022, "message": "no", "data": {"requested": 1, "supported": [2]}}}));
    let second = bench.take_agent().remove(0);
    assert_eq!(second["params"]["protocolVersion"], 2);
    assert_eq!(second["params"]["info"]["name"], "unknown-client");
    bench.agent(answer_v2(&second["id"]));
    let answer = bench.take_client().remove(0);
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(0), &json!(1)));
    assert_eq!(answer["result"]["agentCapabilities"]["loadSession"], true);
    assert_eq!(bench.bridge.versions(), Some((Version::V1, Version::V2)));
}

#[test]
fn messages_before_the_handshake_response_are_held_until_it() {
    let new = json!({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": [{"name": "m", "command": "/m", "args": [], "env": []}]}});
    let opened = || {
        let mut bench = Bench::new(BridgeOptions::default());
        bench.client(hello_v1());
        bench.client(new.clone());
        assert_eq!(bench.take_agent().len(), 1, "only the handshake");
        bench
    };
    let mut bench = opened();
    bench.agent(json!({"id": 0, "error": {"code": -32022, "message": "no"}}));
    let sent = bench.take_agent();
    assert_eq!(sent[0]["params"]["protocolVersion"], 2);
    assert_eq!(sent[1]["params"]["mcpServers"][0]["type"], "stdio", "in the agent's version");

    let mut bench = opened();
    bench.agent(json!({"id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}}}));
    let mut expected = new.clone();
    expected["jsonrpc"] = json!("2.0");
    assert_eq!(bench.take_agent(), [expected]);
    assert_eq!(bench.take_client()[0]["id"], 0);

    let mut bench = opened();
    bench.bridge.agent_ended("it crashed", &[]);
    bench.collect();
    let failed: Vec<_> = bench.take_client().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(failed, [0, 1]);
}

#[test]
fn the_shape_of_the_answer_tells_the_version() {
    let mut bench = Bench::new(BridgeOptions::default());
    bench.client(hello_v2());
    bench.take_agent();
    // Repeats the version number but has the shape of version 1.
    bench.agent(
        json!({"id": 0, "result": {"protocolVersion": 2, "agentCapabilities": {"loadSession": true}}}),
    );
    let again = bench.take_agent().remove(0);
    assert_eq!(again["params"]["protocolVersion"], 1);
    assert_eq!(again["params"]["clientInfo"]["name"], "c");
    assert_eq!(again["params"]["clientCapabilities"]["terminal"], false);
    bench.agent(json!({"id": again["id"], "error": {"code": -32603, "message": "twice?"}}));
    let answer = bench.take_client().remove(0);
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(0), &json!(2)));
    assert_eq!(answer["result"]["info"], json!({"name": "agent", "version": "unknown"}));
    assert_eq!(bench.bridge.versions(), Some((Version::V2, Version::V1)));
}

#[test]
fn everyone_who_waits_is_told_when_the_agent_goes() {
    let mut bench = Bench::v1_client();
    bench.client(json!({"id": 7, "method": "session/list", "params": {}}));
    bench.client(prompt(8, "hi"));
    bench.bridge.agent_ended("it crashed", &[]);
    bench.collect();
    let mut failed: Vec<_> = bench.take_client().iter().map(|answer| answer["id"].clone()).collect();
    failed.sort_by_key(Value::to_string);
    assert_eq!(failed, [7, 8]);
}

#[test]
fn requests_that_were_answered_are_not_failed_when_the_agent_goes() {
    let mut bench = Bench::new(BridgeOptions::between(Version::V2, Version::V2));
    bench.client(json!({"id": 7, "method": "session/list", "params": {}}));
    bench.client(prompt(8, "hi"));
    bench.agent(json!({"id": 7, "result": {"sessions": []}}));
    bench.take_client();
    bench.bridge.agent_ended("it crashed", &[]);
    bench.collect();
    let failed = bench.take_client();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!((&failed[0]["id"], &failed[0]["error"]["message"]), (&json!(8), &json!("it crashed")));
}

#[test]
fn a_prompt_that_waited_is_told_as_it_came() {
    for client in [Version::V1, Version::V2] {
        let mut bench = Bench::new(BridgeOptions::between(client, client.other()));
        bench.client(prompt(1, "first"));
        let first = bench.take_agent().remove(0);
        let mut second = prompt(2, "second");
        second["key"] = json!("value");
        second["params"]["_meta"] = json!("no object");
        bench.client(second);
        bench.assert_nothing_for_agent("the second prompt waits");
        match client {
            Version::V1 => {
                bench.agent(json!({"id": first["id"], "result": {"messageId": "u"}}));
                bench.update(state(json!({"state": "idle", "stopReason": "end_turn"})));
            }
            Version::V2 => bench.agent(json!({"id": first["id"], "result": {"stopReason": "end_turn"}})),
        }
        let told = bench.take_agent();
        assert_eq!((told.len(), &told[0]["key"]), (1, &json!("value")), "{client:?}: {told:?}");
        let left_out = |loss: &switchboard_bridge::Loss| {
            (&*loss.message, &*loss.pointer, loss.session.as_deref())
                == ("session/prompt", "/params/_meta", Some("s"))
        };
        assert!(bench.losses.iter().any(left_out), "{client:?}: {:?}", bench.losses);
        assert!(bench.losses.iter().all(|loss| loss.message == "session/prompt"), "{:?}", bench.losses);
    }
}

#[test]
fn metadata_of_an_unsent_update_is_reported_in_its_session() {
    let mut bench = Bench::v1_client();
    bench.agent(json!({"method": "session/update", "params": {"sessionId": "s", "_meta": {"a": 1},
        "update": {"sessionUpdate": "state_update", "state": "running"}}}));
    let lost: Vec<_> =
        bench.losses.iter().map(|loss| (loss.session.as_deref(), &*loss.message, &*loss.pointer)).collect();
    assert_eq!(lost, [(Some("s"), "session/update", "/params/_meta")]);
}

#[test]
fn an_echo_that_says_something_else_is_reported() {
    let chunk = |text: &str| json!({"sessionUpdate": "user_message_chunk", "messageId": "u", "content": {"type": "text", "text": text}});
    let whole = |text: &str| json!({"sessionUpdate": "user_message", "messageId": "u", "content": [{"type": "text", "text": text}]});
    let begun = || {
        let mut bench = Bench::v1_client();
        bench.client(prompt(1, "hello you"));
        let sent = bench.take_agent().remove(0);
        bench.agent(json!({"id": sent["id"], "result": {"messageId": "u"}}));
        bench
    };
    let mut bench = begun();
    bench.update(whole("not that"));
    bench.assert_nothing_for_client("the agent has said that this is the prompt");
    assert_eq!(bench.lost(), ["user_message content[0]"]);

    let mut bench = begun();
    bench.update(chunk("hello"));
    bench.update(chunk(" you"));
    bench.update(whole("hello you"));
    assert!(bench.lost().is_empty(), "{:?}", bench.lost());
    bench.update(chunk(" and me"));
    bench.update(whole("something else"));
    bench.assert_nothing_for_client("the client shows its prompt itself");
    assert_eq!(bench.lost(), ["user_message_chunk content", "user_message content[0]"]);

    let mut bench = begun();
    let mut beside = chunk("hello");
    (beside["_meta"], beside["key"]) = (json!({"a": 1}), json!(2));
    bench.update(beside);
    assert_eq!(bench.lost(), ["user_message_chunk _meta", "user_message_chunk key"]);
}

#[test]
fn metadata_of_a_cancelled_prompt_moves_to_the_cancellation() {
    for client in [Version::V1, Version::V2] {
        let options =
            BridgeOptions { acceptance: 1_000_000, ..BridgeOptions::between(client, client.other()) };
        let mut bench = Bench::new(options);
        bench.client(prompt(1, "hi"));
        let sent = bench.take_agent().remove(0);
        if client == Version::V1 {
            bench.agent(json!({"id": sent["id"], "result": {"messageId": "u"}}));
        }
        bench.client(
            json!({"method": "$/cancel_request", "params": {"requestId": 1, "_meta": {"a": 1}, "key": 2}}),
        );
        let told = bench.take_agent().remove(0);
        assert_eq!(told["method"], "session/cancel", "{client:?}");
        assert_eq!(told["params"], json!({"sessionId": "s", "_meta": {"a": 1}, "key": 2}), "{client:?}");
    }
}

#[test]
fn of_metadata_that_the_answer_and_the_end_of_a_turn_both_have_the_report_names_what_is_dropped() {
    for (end, place) in [
        (json!({"state": "idle", "stopReason": "end_turn", "_meta": {"k": "end", "e": 1}}), "result"),
        (
            json!({"state": "idle", "stopReason": "error", "error": {"code": -7, "message": "no"}, "_meta": {"k": "end", "e": 1}}),
            "error",
        ),
    ] {
        let mut bench = Bench::v1_client();
        bench.client(prompt(1, "hi"));
        let id = bench.take_agent()[0]["id"].clone();
        bench.agent(json!({"id": id, "result": {"_meta": {"k": "answer", "a": 1}}}));
        bench.update(state(json!({"state": "running"})));
        bench.update(state(end));
        let answer = bench.take_client().remove(0);
        assert_eq!(answer[place]["_meta"], json!({"k": "answer", "a": 1, "e": 1}), "{answer}");
        let lost: Vec<_> = bench.losses.iter().map(|loss| (&*loss.message, &*loss.pointer)).collect();
        assert_eq!(lost, [("state_update", "/params/update/_meta/k")]);
    }
}
