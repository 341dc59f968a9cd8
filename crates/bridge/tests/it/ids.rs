//! Ids that the bridge creates are unique and differ from the agent's ids.

use std::collections::HashSet;

use serde_json::{Value, json};
use switchboard_bridge::{BridgeOptions, Limits, Moment, RecordingBridge, Side, Version};

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
    // The agent's id first.
    let mut bench = Bench::v1_client();
    bench.update(chunk(Some("m~r1"), "mine"));
    bench.update(chunk(Some("m"), "one"));
    bench.update(whole("m", "two"));
    assert_eq!(ids(&mut bench), ["m~r1", "m", "m~r2"]);
    // The bridge's id first.
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

/// Returns the ids that a version 2 client gets when a version 1 agent is started so many times with the same
/// timing, and the client resumes the session without its history. Each run has two turns.
fn ids_of_runs(runs: u32, salt: impl Fn(u32) -> String, agent: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for run in 0..runs {
        let options =
            BridgeOptions { id_salt: salt(run), ..BridgeOptions::between(Version::V2, Version::V1) };
        let mut bench = Bench::new(options);
        let initialize = json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}});
        bench.client(json!({"id": 0, "method": "initialize", "params": initialize}));
        let asked = bench.take_agent()[0]["id"].clone();
        bench.agent(json!({"id": asked, "result": agent}));
        // The agent may reuse the id for a new session: it has no persistent state.
        let (method, params) =
            match agent["agentCapabilities"].as_object().is_some_and(serde_json::Map::is_empty) {
                true => ("session/new", json!({"cwd": "/w"})),
                false => ("session/resume", json!({"cwd": "/w", "sessionId": "s"})),
            };
        bench.client(json!({"id": 1, "method": method, "params": params}));
        let asked = bench.take_agent()[0]["id"].clone();
        bench.agent(json!({"id": asked, "result": {"sessionId": "s"}}));
        for turn in 0..2 {
            bench.client(prompt(2 + turn, "hi"));
            let asked = bench.take_agent()[0]["id"].clone();
            bench.update(chunk(None, "hello"));
            bench.update(
                json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}),
            );
            bench.agent(json!({"id": asked, "result": {"stopReason": "end_turn"}}));
        }
        let told = bench.take_client();
        let updates = told.iter().map(|line| &line["params"]["update"]);
        let begun = updates.filter(|update| update["sessionUpdate"] != "agent_message");
        let ids: Vec<_> =
            begun.filter_map(|update| update["messageId"].as_str().map(str::to_owned)).collect();
        assert_eq!(ids.len(), 6, "{told:?}");
        all.extend(ids);
    }
    all
}

#[test]
fn ids_of_messages_do_not_repeat_when_an_agent_is_started_again_with_the_same_timing() {
    for capabilities in
        [json!({}), json!({"loadSession": true}), json!({"sessionCapabilities": {"resume": {}}})]
    {
        let agent = json!({"protocolVersion": 1, "agentCapabilities": capabilities});
        let ids = ids_of_runs(200, |run| format!("{run:x}"), &agent);
        let mut seen = HashSet::new();
        for id in &ids {
            assert!(seen.insert(id), "{id} twice, of an agent with {capabilities}");
        }
    }
}

#[test]
fn ids_of_messages_do_not_repeat_when_a_session_is_resumed_many_times() {
    let mut bench = Bench::new(BridgeOptions::between(Version::V2, Version::V1));
    let initialize = json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}});
    bench.client(json!({"id": 0, "method": "initialize", "params": initialize}));
    let agent = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true, "sessionCapabilities": {"resume": {}}}});
    let asked = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": asked, "result": agent}));
    let mut live = HashSet::new();
    for run in 0..50_i64 {
        let mut params = json!({"cwd": "/w", "sessionId": "s"});
        let replays = run % 3 == 2;
        if replays {
            params["replayFrom"] = json!({"type": "start"});
        }
        bench.client(json!({"id": 10 + run, "method": "session/resume", "params": params}));
        let asked = bench.take_agent()[0]["id"].clone();
        if replays {
            // Fewer than before: the agent has joined them into one message.
            bench.update(chunk(None, "all that was said"));
        }
        bench.agent(json!({"id": asked, "result": {}}));
        bench.take_client();
        for text in ["one", "two"] {
            bench.update(chunk(None, text));
            bench.update(
                json!({"sessionUpdate": "tool_call", "toolCallId": format!("c{run}{text}"), "title": "t"}),
            );
        }
        let told = bench.take_updates();
        let ids = told.iter().filter_map(|update| update["messageId"].as_str());
        let ids: HashSet<_> = ids.map(str::to_owned).collect();
        assert_eq!(ids.len(), 2, "{told:?}");
        for id in ids {
            assert!(live.insert(id.clone()), "{id} twice, the second time in run {run}");
        }
    }
}

#[test]
fn ids_of_the_bridges_own_messages_and_requests_have_a_salt() {
    let salted = |client: Version| BridgeOptions {
        id_salt: "salt".to_owned(),
        ..BridgeOptions::between(client, client.other())
    };
    let mut bench = Bench::new(salted(Version::V1));
    bench.update(chunk(Some("m"), "one"));
    bench.update(whole("m", "two"));
    assert_eq!(ids(&mut bench), ["m", "m~rsalt-1"]);
    bench.agent(json!({"id": 1, "method": "session/request_permission", "params": {"sessionId": "s", "title": "May I?",
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    assert_eq!(bench.take_client().pop().unwrap()["params"]["toolCall"]["toolCallId"], "bridge-perm-salt-1");
    let mut bench = Bench::new(salted(Version::V2));
    bench.update(chunk(Some("b-agent-salt-1"), "mine"));
    bench.update(chunk(None, "a"));
    assert_eq!(ids(&mut bench), ["b-agent-salt-1", "b-agent-salt-2"]);
}

#[test]
fn a_recording_of_several_connections_has_no_id_twice_and_always_the_same() {
    let translated = || {
        let mut recording = RecordingBridge::new(Version::V2);
        let mut take = |from, message: Value| recording.take(Some(from), &message.to_string(), Moment(0));
        for connection in 0..3 {
            let params = json!({"protocolVersion": 1});
            take(Side::Client, json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
            take(Side::Agent, json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1}}));
            let params = json!({"sessionId": "s", "update": chunk(None, &format!("text {connection}"))});
            take(Side::Agent, json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
        }
        recording.finish();
        let lines: Vec<String> = recording.drain().map(|line| line.text).collect();
        lines
    };
    let lines = translated();
    assert_eq!(lines, translated());
    let updates = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ids: Vec<String> = updates
        .filter(|line| line["params"]["update"]["sessionUpdate"] == "agent_message_chunk")
        .map(|line| line["params"]["update"]["messageId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["b-agent-1", "b-agent-4-1", "b-agent-7-1"]);
}
