//! Native lines of a version 1 agent for version 1 clients.

use super::*;
use crate::agent_task::LineSession;

/// Sends a native line of the agent, followed by its translation.
fn say(world: &mut World, agent: &str, own: &Value, translated: &[Value]) {
    let process = world.agent.process.unwrap();
    world.core.wire_line(process, &LineSession::Agent(agent.to_owned()), Side::Agent, &own.to_string());
    world.perform();
    for line in translated {
        world.say(line.clone());
    }
}

/// Creates a session of a client that wants native lines, with another client that does not. Returns its ids at the hub
/// and at the agent.
fn opened(send_window: usize) -> (World, [ConnectionId; 2], String, String) {
    let mut world = world(send_window);
    let first = world.connect_native(Role::Admin, false);
    world.request(first, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let (session, agent) = (world.session_of(0).unwrap(), world.agent.sessions[0].clone());
    let other = world.connect(Role::Admin);
    world.request(other, "session/resume", json!({"sessionId": session, "cwd": "/w/p"}));
    world.settle();
    (world, [first, other], session, agent)
}

fn update(agent: &str, update: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": agent, "update": update}})
}

fn chunk(number: usize, id: Option<&str>) -> Value {
    let mut chunk = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": format!("<{number}>")}});
    if let Some(id) = id {
        chunk["messageId"] = id.into();
    }
    chunk
}

/// Returns the lines of a version 1 client: native lines and lines without a native counterpart, each with its offset.
fn told(world: &World, client: ConnectionId, session: &str) -> Vec<(u64, bool, String)> {
    let got = world.clients[&client].got.get(session);
    let got = got.into_iter().flatten().filter(|got| !got.is_known);
    // The state of the session is sent with a cursor that was sent before.
    let got = got.filter(|got| got.is_own || got.update["sessionUpdate"] != "state_update");
    let offset = |cursor: &str| cursor.rsplit_once('.').unwrap().1.parse().unwrap();
    got.map(|got| (offset(got.cursor.as_ref().unwrap()), got.is_own, got.update.to_string())).collect()
}

#[test]
fn native_lines_are_sent_once_from_any_cursor() {
    for send_window in [1, 100_000] {
        let (mut world, [first, other], session, agent) = opened(send_window);
        for number in 0..3 {
            let translated = [chunk(number, Some("m")), json!({"sessionUpdate": "_made", "number": number})];
            let translated = translated.map(|made| update(&agent, &made));
            say(&mut world, &agent, &update(&agent, &chunk(number, None)), &translated);
        }
        world.request(
            other,
            "session/prompt",
            json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}),
        );
        // An update that the hub or the translation adds itself.
        world.update(&agent, json!({"sessionUpdate": "_original"}));
        say(&mut world, &agent, &update(&agent, &chunk(9, None)), &[]);
        say(&mut world, &agent, &update(&agent, &chunk(10, None)), &[update(&agent, &chunk(10, Some("n")))]);
        world.settle();
        let all = told(&world, first, &session);
        let own: Vec<&str> =
            all.iter().filter(|(_, is_own, _)| *is_own).map(|(_, _, text)| &**text).collect();
        let wanted: Vec<String> = [0, 1, 2, 9, 10].map(|number| chunk(number, None).to_string()).into();
        assert_eq!(own, wanted);
        assert!(all.iter().any(|(_, is_own, text)| !is_own && text.contains("_original")), "{all:?}");
        assert!(!all.iter().any(|(_, is_own, text)| !is_own && text.contains("<")), "{all:?}");
        // A client that does not request native lines never gets them.
        assert!(!world.clients[&other].got[&session].iter().any(|got| got.is_own));
        let length = world.log[&*session].len() as u64;
        for is_translated in [false, true] {
            for offset in 0..length - 1 {
                let client = world.connect_native(Role::View, is_translated);
                let meta = json!({"acp/cursor": format!("{session}.{offset}")});
                world.request(
                    client,
                    "session/resume",
                    json!({"sessionId": session, "cwd": "/w/p", "_meta": meta}),
                );
                world.settle();
                let rest: Vec<_> = all.iter().filter(|(at, ..)| *at > offset).cloned().collect();
                assert_eq!(told(&world, client, &session), rest, "after {offset}");
            }
            let client = world.connect_native(Role::View, is_translated);
            let start = json!({"type": "start"});
            world.request(
                client,
                "session/resume",
                json!({"sessionId": session, "cwd": "/w/p", "replayFrom": start}),
            );
            world.settle();
            let told = told(&world, client, &session);
            let own = |told: &[(u64, bool, String)]| -> Vec<_> {
                told.iter().filter(|told| told.1).cloned().collect()
            };
            assert_eq!(own(&told), own(&all));
        }
    }
}

#[test]
fn a_question_includes_the_native_request_for_version_1_clients() {
    let (mut world, [first, other], _, agent) = opened(100_000);
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let own = json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": {
        "sessionId": agent, "toolCall": {"toolCallId": "c", "title": "Write"}, "options": options, "vendor": 1}});
    let made = json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": {
        "sessionId": agent, "title": "Write", "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "Write"}}, "options": options}});
    say(&mut world, &agent, &own, &[made]);
    world.settle();
    let native =
        |client: ConnectionId| &world.clients[&client].last_question["params"]["_meta"]["switchboard/native"];
    assert_eq!(*native(first), own);
    assert!(native(other).is_null());
}
