//! Attaching after a message.

use super::*;

/// Creates a session with messages: `one` twice, `two`, the same by a sub-agent, and something else.
fn spoken() -> (World, ConnectionId, String) {
    let mut world = world(100_000);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let (session, agent) = (world.session_of(0).unwrap(), world.agent.sessions[0].clone());
    let chunk = |message: &str, n: u64| {
        json!({"sessionUpdate": "agent_message_chunk", "messageId": message, "n": n,
            "content": {"type": "text", "text": "word"}})
    };
    world.update(&agent, chunk("one", 1));
    world.update(&agent, chunk("one", 2));
    world.update(&agent, json!({"sessionUpdate": "user_message", "messageId": "two", "n": 3}));
    let started = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "n": 4,
        "subagent": {"sessionId": "child"}});
    world.update(&agent, started);
    world.update("child", chunk("one", 5));
    world.update(&agent, json!({"sessionUpdate": "_other", "n": 6, "about": "\"messageId\": \"one\""}));
    (world, client, session)
}

fn after(session: &str, message: &str) -> Value {
    json!({"sessionId": session, "historyPolicy": "after_message", "afterMessageId": message})
}

/// Returns the updates for a client that attaches after a message.
fn told(world: &mut World, session: &str, message: &str) -> (Vec<u64>, Value) {
    let client = world.connect(Role::Admin);
    let id = world.request(client, "session/attach", after(session, message));
    world.settle();
    (world.numbers(client, session), world.clients[&client].answers[&id][0].clone())
}

#[test]
fn attaching_after_a_message_starts_after_its_last_record() {
    let (mut world, _, session) = spoken();
    let (numbers, answer) = told(&mut world, &session, "one");
    assert_eq!(answer["result"]["historyPolicy"], "after_message", "{answer}");
    assert!(!numbers.contains(&2) && numbers.contains(&3), "{numbers:?}");
    let (numbers, _) = told(&mut world, &session, "two");
    assert!(!numbers.contains(&3) && numbers.contains(&6), "{numbers:?}");
    // A version 1 client has another id for a replaced message.
    assert_eq!(told(&mut world, &session, "two~r1").0, numbers);
    world.check();
}

#[test]
fn an_unknown_message_is_refused_with_a_remedy() {
    let (mut world, client, session) = spoken();
    for message in ["three", "", "one~rx", "one~"] {
        let (_, answer) = told(&mut world, &session, message);
        assert_eq!(answer["error"]["code"], codes::INVALID_PARAMS, "{answer}");
        assert_eq!(answer["error"]["data"]["reason"], "unknown_message", "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("full"), "{answer}");
    }
    let missing = json!({"sessionId": session, "historyPolicy": "after_message"});
    let missing = world.request(client, "session/attach", missing);
    let answer = &world.clients[&client].answers[&missing][0];
    assert_eq!(answer["error"]["code"], codes::INVALID_PARAMS, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("afterMessageId"), "{answer}");
    let other = json!({"sessionId": session, "historyPolicy": "some"});
    let other = world.request(client, "session/attach", other);
    assert_eq!(world.clients[&client].answers[&other][0]["error"]["code"], -32003);
    world.check();
}

#[test]
fn one_lookup_runs_at_a_time_per_client() {
    let (mut world, _, session) = spoken();
    let client = world.connect(Role::Admin);
    let ids: Vec<i64> =
        (0..20).map(|_| world.request(client, "session/attach", after(&session, "one"))).collect();
    let seeks = |world: &World| {
        world.later.iter().filter(|later| matches!(later, Output::FindMessage { .. })).count()
    };
    for _ in &ids {
        assert_eq!(seeks(&world), 1);
        world.do_later(0);
    }
    world.settle();
    assert_eq!(seeks(&world), 0);
    assert!(ids.iter().all(|id| world.clients[&client].answers[id][0].get("result").is_some()));
    world.check();
}

#[test]
fn a_lookup_ends_when_the_session_becomes_invisible() {
    let (mut world, _, session) = spoken();
    let client = world.connect(Role::View);
    let id = world.request(client, "session/attach", after(&session, "one"));
    let identity = Identity { all: false, ..identity("view", Role::View) };
    world.core.access_changed(client, Some(identity));
    world.settle();
    let answer = &world.clients[&client].answers[&id][0];
    assert_eq!(answer["error"]["code"], codes::RESOURCE_NOT_FOUND, "{answer}");
    assert!(world.core.cx.clients.connections[&client].subscriptions.is_empty());
}

#[test]
fn an_unreadable_log_is_reported() {
    let (mut world, _, session) = spoken();
    let client = world.connect(Role::Admin);
    let id = world.request(client, "session/attach", after(&session, "one"));
    world.later.clear();
    world.core.message_found(client, Err("no disk".to_owned()));
    world.settle();
    let answer = &world.clients[&client].answers[&id][0];
    assert!(answer["error"]["message"].as_str().unwrap().contains("no disk"), "{answer}");
    // The client has disconnected.
    world.core.message_found(client, Ok(Some(1)));
    world.check();
}

#[test]
fn detaching_during_catch_up_answers_the_request() {
    let (mut world, _, session) = spoken();
    let client = world.connect(Role::View);
    let resume = json!({"sessionId": session, "cwd": "/w/p", "replayFrom": {"type": "start"}});
    let first = world.request(client, "session/resume", resume.clone());
    let second = world.request(client, "session/resume", resume.clone());
    // Both requests get a response; the one whose share was removed gets an error.
    assert!(world.clients[&client].answers[&first][0].get("result").is_some());
    assert!(!world.clients[&client].answers.contains_key(&second));
    world.core.access_changed(client, Some(Identity { all: false, ..identity("view", Role::View) }));
    world.settle();
    assert_eq!(world.clients[&client].answers[&second][0]["error"]["code"], codes::REQUEST_CANCELLED);

    // A client whose socket breaks before it has received anything still gets the history.
    let client = world.connect(Role::View);
    world.begin_at(client, &session, 0);
    let resume = world.request(client, "session/resume", resume);
    world.core.reconnected(client);
    world.notify(client, "stream/resume", json!({"streams": []}));
    world.settle();
    assert!(world.clients[&client].answers[&resume][0].get("result").is_some());
    assert!(!world.clients[&client].got[&session].is_empty());
    world.check();
}
