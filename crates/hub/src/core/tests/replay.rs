//! Replayed history: the current state, never earlier ones.

use super::*;

/// Creates a session in which the agent sends something and clears it, twice.
fn redacted(send_window: usize) -> (World, ConnectionId, String) {
    let mut world = world(send_window);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let (session, agent) = (world.session_of(0).unwrap(), world.agent.sessions[0].clone());
    let text = |text: &str| json!({"type": "text", "text": text});
    let chunk = |message: &str, words: &str| json!({"sessionUpdate": "agent_message_chunk", "messageId": message, "content": text(words)});
    for update in [
        json!({"sessionUpdate": "session_info_update", "title": "SECRET title"}),
        chunk("one", "the password is "),
        chunk("one", "SECRET"),
        chunk("two", "it was SECRET too"),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Read SECRET", "kind": "read",
            "status": "in_progress", "rawInput": {"path": "SECRET"}, "rawOutput": "SECRET",
            "content": [{"type": "content", "content": text("SECRET")}]}),
        chunk("three", "all is well"),
        json!({"sessionUpdate": "_future", "what": "unknown kinds survive"}),
        json!({"sessionUpdate": "agent_message", "messageId": "one", "content": [text("[redacted]")]}),
        json!({"sessionUpdate": "agent_message", "messageId": "two", "content": null}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Read", "status": "completed",
            "rawInput": null, "rawOutput": null, "content": []}),
        json!({"sessionUpdate": "session_info_update", "title": "Harmless"}),
        chunk("three", ", and stays so"),
    ] {
        world.update(&agent, update);
    }
    world.settle();
    (world, client, session)
}

fn resume(world: &mut World, client: ConnectionId, session: &str, more: Value) -> Vec<String> {
    let before = world.clients[&client].got.get(session).map_or(0, Vec::len);
    let mut params = json!({"sessionId": session, "cwd": "/w/p"});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let id = world.request(client, "session/resume", params);
    world.settle();
    let answer = &world.clients[&client].answers[&id][0];
    assert!(answer.get("result").is_some(), "{answer}");
    let got = &world.clients[&client].got[session][before..];
    got.iter().filter(|got| !got.is_known).map(|got| got.update.to_string()).collect()
}

#[test]
fn text_that_was_replaced_or_cleared_is_never_sent_again() {
    for send_window in [1, 100_000] {
        let (mut world, first, session) = redacted(send_window);
        // An attached client has received it.
        assert!(
            world.clients[&first].got[&session].iter().any(|got| got.update.to_string().contains("SECRET"))
        );
        let length = world.log[&*session].len();
        for is_translated in [false, true] {
            let client = world.connect_translated(Role::View, is_translated);
            world.begin_at(client, &session, 0);
            let got = resume(&mut world, client, &session, json!({"replayFrom": {"type": "start"}}));
            assert!(!got.join("\n").contains("SECRET"), "{got:#?}");
            for words in ["[redacted]", "all is well, and stays so", "unknown kinds survive", "Harmless"] {
                assert_eq!(got.iter().filter(|line| line.contains(words)).count(), 1, "{words}: {got:#?}");
            }
            world.check();
            // From every cursor.
            for offset in 0..length - 1 {
                let client = world.connect_translated(Role::View, is_translated);
                world.begin_at(client, &session, offset as u64 + 1);
                let cursor = json!({"_meta": {"acp/cursor": format!("{session}.{offset}")}});
                let got = resume(&mut world, client, &session, cursor);
                assert!(!got.join("\n").contains("SECRET"), "after {offset}: {got:#?}");
                world.check();
            }
        }
        let client = world.connect(Role::View);
        let params = json!({"sessionId": session, "historyPolicy": "after_message", "afterMessageId": "one"});
        world.request(client, "session/attach", params);
        world.settle();
        let got: String =
            world.clients[&client].got[&session].iter().map(|got| got.update.to_string()).collect();
        assert!(!got.contains("SECRET") && got.contains("and stays so"), "{got}");
    }
}

#[test]
fn replaying_to_a_client_with_state_duplicates_nothing() {
    let (mut world, client, session) = redacted(100_000);
    let before = shown(&world.held_by(client, &session));
    assert_eq!(before, shown(&world.fold_log(&session, usize::MAX)));
    // The client resumes from the start and applies the updates to its state.
    let got = resume(&mut world, client, &session, json!({"replayFrom": {"type": "start"}}));
    let mut after = shown(&world.held_by(client, &session));
    let mut once = before.clone();
    // Updates of unknown kinds cannot be recognized as duplicates.
    for shown in [&mut after, &mut once] {
        shown.values_mut().for_each(|lines| lines.retain(|line| !line.contains("_future")));
    }
    assert_eq!(after, once);
    // A chunk follows its whole message.
    let mut begun = HashSet::new();
    for line in &got {
        let update: Value = serde_json::from_str(line).unwrap();
        let id = update["messageId"].as_str().unwrap_or_default().to_owned();
        match update["sessionUpdate"].as_str() {
            Some("agent_message") => assert!(update["content"].is_array() && begun.insert(id), "{line}"),
            Some("agent_message_chunk") => assert!(begun.contains(&id), "{line}"),
            _ => {}
        }
    }
}

#[test]
fn a_client_resumes_in_the_middle_of_a_replay() {
    for is_translated in [false, true] {
        let (mut world, _, session) = redacted(1);
        let client = world.connect_translated(Role::View, is_translated);
        world.begin_at(client, &session, 0);
        let params = json!({"sessionId": session, "cwd": "/w/p", "replayFrom": {"type": "start"}});
        world.request(client, "session/resume", params);
        world.do_later(0);
        let cursors: Vec<String> =
            world.clients[&client].got[&session].iter().filter_map(|got| got.cursor.clone()).collect();
        assert!(cursors.len() >= 4, "{cursors:?}");
        // The part that it has not received is cleared while it is away.
        let agent = world.agent.sessions[0].clone();
        let acked = json!({"sessionUpdate": "agent_message", "messageId": "three", "content": null});
        world.update(&agent, acked);
        for (count, cursor) in cursors.iter().enumerate() {
            let next = world.connect_translated(Role::View, is_translated);
            world.begin_at(next, &session, 0);
            let mut got = world.clients[&client].got[&session].clone();
            let last = got.iter().position(|got| got.cursor.as_ref() == Some(cursor)).unwrap();
            got.truncate(last + 1);
            let held = got.len();
            let clients = world.clients.get_mut(&next).unwrap();
            clients.got.insert(session.clone(), got);
            clients.mark.insert(session.clone(), held);
            let got = resume(&mut world, next, &session, json!({"_meta": {"acp/cursor": cursor}}));
            assert!(!got.join("\n").contains("SECRET"), "{got:#?}");
            assert!(!got.join("\n").contains("all is well"), "{count}: {got:#?}");
            world.check();
        }
    }
}

#[test]
fn replayed_entries_are_complete_and_long_ones_are_chunked() {
    let mut world = world(100_000);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let (session, agent) = (world.session_of(0).unwrap(), world.agent.sessions[0].clone());
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    world.request(client, "session/prompt", prompt);
    let text = |text: &str| json!({"type": "text", "text": text});
    let long = "äöü".repeat(300_000);
    let started = json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Explorer"});
    for (about, update) in [
        (&*agent, json!({"sessionUpdate": "agent_thought_chunk", "messageId": "m", "content": text("hm")})),
        (
            &agent,
            json!({"sessionUpdate": "user_message", "messageId": "m", "content": [text("go"), text("on")],
            "_meta": {"k": 1}, "_own": true}),
        ),
        (&agent, json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text(&long)})),
        (
            &agent,
            json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text("end"),
            "_meta": {"chunk": 2}}),
        ),
        (&agent, started),
        (
            "child",
            json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text("below")}),
        ),
        ("child", json!({"sessionUpdate": "state_update", "state": "running"})),
        (&agent, json!({"sessionUpdate": "terminal_update", "terminalId": "x", "command": "ls"})),
        (&agent, json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": "aGVsbG8="})),
        (
            &agent,
            json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": []}}),
        ),
        (&agent, json!({"sessionUpdate": "usage_update", "used": 1, "size": 2})),
        (&agent, json!({"sessionUpdate": "available_commands_update", "availableCommands": []})),
        (&agent, json!({"sessionUpdate": "notice", "severity": "info", "title": "Look here"})),
    ] {
        world.update(about, update);
    }
    // A question updates its tool call.
    world.say(json!({"jsonrpc": "2.0", "id": 9, "method": "session/request_permission", "params": {
        "sessionId": agent, "title": "q", "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
        "subject": {"type": "tool_call", "toolCall": {"toolCallId": "asked", "title": "Remove"}}}}));
    world.settle();
    for is_translated in [false, true] {
        let client = world.connect_translated(Role::Admin, is_translated);
        world.begin_at(client, &session, 0);
        let got = resume(&mut world, client, &session, json!({"replayFrom": {"type": "start"}}));
        assert!(got.iter().all(|line| line.len() < 1 << 20), "{:?}", got.iter().map(String::len).max());
        assert!(got.iter().any(|line| line.contains("Look here")), "notices are replayed");
        assert!(got.iter().any(|line| line.contains(r#""toolCallId":"asked""#)), "{got:#?}");
        let held = world.held_by(client, &session);
        let asked = held.session(Some(&session)).unwrap().tool_call("asked").unwrap();
        assert_eq!(asked.title(), Some("Remove"));
        let child = held.session(Some(&format!("{session}:child"))).expect("the sub-agent has its own name");
        assert_eq!(child.activity(), switchboard_session::Activity::Running);
        let whole = |message: &str| got.iter().find(|line| line.contains(message)).unwrap().clone();
        assert!(
            whole("\"user_message\"").contains(r#""_own":true"#)
                && whole("\"user_message\"").contains(r#""k":1"#)
        );
        assert!(whole("\"chunk\":2").contains("agent_message_chunk"), "metadata of a chunk stays with it");
        let mut all = shown(&world.fold_log(&session, usize::MAX));
        let mut held = shown(&held);
        for shown in [&mut all, &mut held] {
            shown.values_mut().for_each(|lines| {
                lines.retain(|line| {
                    // Clients use other ids for sub-agents, and a question is not an update.
                    !line.contains(r#""asked""#) && !line.contains("subagent_update")
                })
            });
        }
        assert_eq!(held, all);
    }
}

#[test]
fn entries_with_reused_ids_stay_separate() {
    let mut world = world(100_000);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let session = world.session_of(0).unwrap();
    let say = |world: &mut World, words: &str| {
        let agent = world.agent.sessions.last().unwrap().clone();
        let content = json!({"type": "text", "text": words});
        world.update(
            &agent,
            json!({"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": content}),
        );
        world
            .update(&agent, json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": words}));
    };
    say(&mut world, "before");
    let process = world.agent.process.take().unwrap();
    world.agent.refuses = true;
    world.core.agent_exited(process, "died", &[]);
    world.perform();
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    world.request(client, "session/prompt", prompt);
    world.settle();
    say(&mut world, "after");
    world.settle();
    let late = world.connect(Role::View);
    world.begin_at(late, &session, 0);
    resume(&mut world, late, &session, json!({"replayFrom": {"type": "start"}}));
    let held = world.held_by(late, &session);
    let shown = held.session(Some(&session)).unwrap();
    let said: Vec<String> =
        shown.entries().filter_map(|entry| Some(entry.as_message()?.content().text())).collect();
    assert_eq!(said, ["before", "after"]);
    let titles = shown.entries().filter_map(|entry| entry.as_tool_call()?.title());
    assert_eq!(titles.collect::<Vec<_>>(), ["before", "after"]);
    // Later chunks belong to the last message.
    say(&mut world, " and more");
    world.settle();
    let held = world.held_by(late, &session);
    let message =
        held.session(Some(&session)).unwrap().message(switchboard_session::EntryKind::AgentMessage, "m1");
    assert_eq!(message.unwrap().content().text(), "after and more");
}
