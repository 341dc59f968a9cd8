//! Retained state is bounded, and every eviction is reported.

use std::collections::HashSet;

use serde_json::{Value, json};
use switchboard_bridge::{BridgeOptions, Limits, Remembered, Version};

use crate::support::Bench;

fn bench(client: Version, limits: Limits) -> Bench {
    Bench::new(BridgeOptions { limits, ..BridgeOptions::between(client, client.other()) })
}

fn few_sessions() -> Limits {
    Limits { sessions: 4, ..Limits::default() }
}

fn prompt(id: usize, session: &str) -> Value {
    json!({"id": id, "method": "session/prompt", "params": {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}})
}

/// Lets the agent accept its last prompt and finish it.
fn finish(bench: &mut Bench, client: Version, session: &str) {
    let sent = bench.take_agent().pop().unwrap();
    assert_eq!(sent["method"], "session/prompt", "{sent}");
    match client {
        Version::V1 => {
            bench.agent(json!({"id": sent["id"], "result": {"messageId": "u"}}));
            bench.agent(json!({"method": "session/update", "params": {"sessionId": session,
                "update": {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}}}));
        }
        Version::V2 => bench.agent(json!({"id": sent["id"], "result": {"stopReason": "end_turn"}})),
    }
}

fn is_end(message: &Value) -> bool {
    message["result"]["stopReason"] == "end_turn" || message["params"]["update"]["stopReason"] == "end_turn"
}

#[test]
fn any_number_of_sessions_can_be_used_in_turn() {
    for client in [Version::V1, Version::V2] {
        let mut bench = bench(client, few_sessions());
        let mut ids = HashSet::new();
        for round in 0..3 {
            for number in 0..100 {
                let session = format!("s{number}");
                bench.client(prompt(round * 100 + number, &session));
                finish(&mut bench, client, &session);
                let told = bench.take_client();
                assert_eq!(told.iter().filter(|message| is_end(message)).count(), 1, "{session}: {told:?}");
                for message in told {
                    if let Some(id) = message["result"]["messageId"].as_str() {
                        assert!(ids.insert((session.clone(), id.to_owned())), "{session} has {id} twice");
                    }
                }
            }
        }
        let remembered = bench.bridge.remembered();
        assert!(remembered.sessions <= 4 * 17, "{remembered:?}");
        assert!(bench.losses.iter().any(|loss| loss.message == "session"), "what is forgotten is reported");
    }
}

#[test]
fn work_in_too_many_sessions_is_refused_and_none_of_it_is_forgotten() {
    for client in [Version::V1, Version::V2] {
        let mut bench = bench(client, few_sessions());
        let mut sent = Vec::new();
        for number in 0..6 {
            bench.client(prompt(number, &format!("s{number}")));
            sent.extend(bench.take_agent());
        }
        assert_eq!(sent.len(), 4);
        let refused: Vec<Value> =
            bench.take_client().into_iter().filter(|message| message["error"].is_object()).collect();
        assert_eq!(refused.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [4, 5]);
        assert!(refused[0]["error"]["message"].as_str().unwrap().contains("4 sessions"));
        // Updates of other sessions do not evict anything.
        for number in 10..30 {
            bench.agent(json!({"method": "session/update", "params": {"sessionId": format!("s{number}"),
                "update": {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "x"}}}}));
        }
        bench.take_client();
        for (number, sent) in sent.into_iter().enumerate() {
            bench.to_agent.push(sent);
            finish(&mut bench, client, &format!("s{number}"));
            assert!(bench.take_client().iter().any(is_end), "{client:?} s{number}");
        }
        // A session is idle now, so the prompt is accepted.
        bench.client(prompt(9, "s9"));
        finish(&mut bench, client, "s9");
        assert!(bench.take_client().iter().any(is_end));
    }
}

#[test]
fn a_session_that_was_forgotten_keeps_its_directory_and_options() {
    let mut bench = bench(Version::V2, few_sessions());
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w"}}));
    let id = bench.take_agent()[0]["id"].clone();
    let modes =
        json!({"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]});
    bench.agent(json!({"id": id, "result": {"sessionId": "s", "modes": modes}}));
    for number in 0..20 {
        let session = format!("s{number}");
        bench.client(prompt(100 + number, &session));
        finish(&mut bench, Version::V2, &session);
    }
    bench.take_client();
    bench.client(json!({"id": 2, "method": "session/set_config_option", "params": {"sessionId": "s", "configId": "mode", "type": "id", "value": "b"}}));
    let sent = bench.take_agent().pop().unwrap();
    assert_eq!((&sent["method"], &sent["params"]["modeId"]), (&json!("session/set_mode"), &json!("b")));
    bench.update(
        json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "locations": [{"path": "a"}]}),
    );
    assert_eq!(bench.take_updates()[0]["locations"][0]["path"], "/w/a");
}

/// Sends many updates of one kind. Returns the size of the retained state in the middle and at the end.
fn after(client: Version, count: usize, limits: &Limits, update: impl Fn(usize) -> Value) -> [Remembered; 2] {
    let mut bench = bench(client, limits.clone());
    let mut middle = Remembered::default();
    for number in 0..count {
        if number == count / 2 {
            middle = bench.bridge.remembered();
        }
        bench.update(update(number));
        bench.take_client();
        bench.losses.clear();
    }
    [middle, bench.bridge.remembered()]
}

#[test]
fn updates_without_end_do_not_fill_the_memory() {
    let limits = Limits { entries: 50, content: 20_000, total: 60_000, ..Limits::default() };
    let text = |number: usize| json!({"type": "text", "text": format!("word {number:06}")});
    let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
    let item = |number: usize| json!({"type": "content", "content": text(number)});
    let kinds: [(&str, &dyn Fn(usize) -> Value); 7] = [
        (
            "one message",
            &|number| json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text(number)}),
        ),
        ("blocks", &|_| json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": image})),
        (
            "messages",
            &|number| json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("m{number:06}"), "content": text(number)}),
        ),
        (
            "calls",
            &|number| json!({"sessionUpdate": "tool_call_update", "toolCallId": format!("c{number:06}"), "title": "t", "content": [item(number)]}),
        ),
        (
            "one call",
            &|number| json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": item(number)}),
        ),
        (
            "terminals",
            &|number| json!({"sessionUpdate": "terminal_output_chunk", "terminalId": format!("t{}", number % 40), "data": "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"}),
        ),
        (
            "whole messages",
            &|number| json!({"sessionUpdate": "agent_message", "messageId": "m", "content": [text(number)]}),
        ),
    ];
    for (kind, update) in kinds {
        let [middle, end] = after(Version::V1, 4000, &limits, update);
        assert!(end.entries <= middle.entries.max(60), "{kind}: {middle:?} {end:?}");
        assert!(end.bytes <= 64_000, "{kind}: {middle:?} {end:?}");
    }
    // The other direction, with a journal for an agent that cannot replay.
    let [_, end] = after(
        Version::V2,
        3000,
        &limits,
        |number| json!({"sessionUpdate": "agent_message_chunk", "content": text(number)}),
    );
    assert!(end.bytes <= 64_000, "{end:?}");
}

#[test]
fn eviction_of_session_state_is_reported_once() {
    let limits = Limits { entries: 8, ..Limits::default() };
    let mut bench = bench(Version::V1, limits);
    for number in 0..40 {
        bench.update(json!({"sessionUpdate": "agent_message_chunk", "messageId": number.to_string(), "content": {"type": "text", "text": "x"}}));
    }
    let said = bench.losses.iter().filter(|loss| loss.message == "session").collect::<Vec<_>>();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].reason.contains("more than 8 messages"));
}
