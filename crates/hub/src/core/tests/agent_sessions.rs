//! Sessions that only the agent has, and agents that lose sessions or cancel questions.

use super::*;

fn agent_sessions_meta() -> Value {
    json!({"switchboard/remembered": true})
}

fn adopt(world: &mut World, client: ConnectionId, session: &str) -> Value {
    let params = json!({
        "sessionId": session, "cwd": "/w/a", "replayFrom": {"type": "start"}, "_meta": agent_sessions_meta(),
    });
    let id = world.request(client, "session/resume", params);
    world.settle();
    world.clients[&client].answers[&id][0].clone()
}

#[test]
fn sessions_of_the_agent_are_listed_and_adopted_once() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.agent.remembers = vec!["old".to_owned(), "a1".to_owned()];
    world.request(client, "session/new", json!({"cwd": "/w/a"}));
    world.settle();
    let list = world.request(client, "session/list", json!({"_meta": agent_sessions_meta()}));
    let answer = world.clients[&client].answers[&list][0].clone();
    // Sessions of the hub have their hub ids; everything else is unchanged.
    assert_eq!(answer["result"]["sessions"][0], json!({"sessionId": "old", "cwd": "/w/a", "big": 1e300}));
    assert_eq!(answer["result"]["sessions"][1]["sessionId"], "h1");

    let answer = adopt(&mut world, client, "old");
    assert_eq!(answer["result"]["_meta"]["switchboard/session"], "h2", "{answer}");
    // Its history is the beginning of the log, and the client that adopted it gets it once.
    assert_eq!(world.numbers(client, "h2"), [1]);
    let told = world.log["h2"].iter().any(|(_, text)| text.contains("switchboard/remembered"));
    assert!(!told, "the agent hears nothing of the hub's words");
    // It works like any other session.
    let prompt = json!({"sessionId": "h2", "prompt": [{"type": "text", "text": "go"}]});
    world.request(client, "session/prompt", prompt);
    world.settle();
    assert_eq!(world.agent.prompts, ["go"]);

    let answer = adopt(&mut world, client, "old");
    assert_eq!(answer["error"]["data"]["sessionId"], "h2");
    assert_eq!(adopt(&mut world, client, "a1")["error"]["data"]["sessionId"], "h1");
}

#[test]
fn two_clients_that_adopt_the_same_session_get_one() {
    let mut world = world(1 << 20);
    let clients = [world.connect(Role::Admin), world.connect(Role::Admin)];
    let params = json!({"sessionId": "old", "cwd": "/w/a", "replayFrom": {"type": "start"}, "_meta": agent_sessions_meta()});
    let ids = clients.map(|client| world.request(client, "session/resume", params.clone()));
    world.settle();
    let answers: Vec<&Value> =
        clients.iter().zip(ids).map(|(client, id)| &world.clients[client].answers[&id][0]).collect();
    assert_eq!(answers.iter().filter(|answer| answer.get("result").is_some()).count(), 1, "{answers:?}");
    assert_eq!(world.log.len(), 1, "the other log is gone");
}

#[test]
fn only_admins_see_the_sessions_of_an_agent() {
    let mut world = world(1 << 20);
    let owner = world.connect(Role::Admin);
    let other = world.connect(Role::Answer);
    assert_eq!(adopt(&mut world, other, "old")["error"]["code"], -32004);
    for method in ["session/list", "session/delete"] {
        let id = world.request(other, method, json!({"sessionId": "old", "_meta": agent_sessions_meta()}));
        assert_eq!(world.clients[&other].answers[&id][0]["error"]["code"], -32004);
    }
    let id =
        world.request(owner, "session/delete", json!({"sessionId": "old", "_meta": agent_sessions_meta()}));
    assert_eq!(world.clients[&owner].answers[&id][0]["error"]["code"], -32602);
    let params = json!({"sessionId": "old", "cwd": "/elsewhere", "_meta": agent_sessions_meta()});
    let id = world.request(owner, "session/resume", params);
    assert_eq!(world.clients[&owner].answers[&id][0]["error"]["data"]["roots"], json!(["/w"]));
    // A session that the agent cannot resume is removed.
    world.agent.refuses = true;
    assert_eq!(adopt(&mut world, owner, "old")["error"]["message"], "gone");
    assert_eq!(world.log.len(), 0);
}

#[test]
fn an_agent_that_reuses_session_ids_is_asked_for_another() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/a"}));
    world.settle();
    let process = world.agent.process.unwrap();
    world.core.agent_exited(process, "it died", &["last words".to_owned()]);
    world.perform();
    let lost = world.core.summaries(&identity("x", Role::Admin))[0].lost.clone();
    assert_eq!(lost.as_deref(), Some("it died\nlast words"));
    (world.agent.next, world.agent.refuses) = (0, true);
    let prompt = json!({"sessionId": "h1", "prompt": [{"type": "text", "text": "go"}]});
    world.request(client, "session/prompt", prompt);
    world.settle();
    assert_eq!(world.agent.at_work, ["a2"], "the first one was a1, as the old one was");
    assert_eq!(world.core.summaries(&identity("x", Role::Admin))[0].lost, None);
}

#[test]
fn invalid_lines_are_recorded_and_reported_within_limits() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/a"}));
    world.settle();
    let before = world.log["h1"].len();
    let process = world.agent.process.unwrap();
    let mut told = 0;
    for line in 0..20_000 {
        world.core.invalid_line(process, &format!("log line {line}"));
        told +=
            world.core.cx.outbox.queue.iter().filter(|output| matches!(output, Output::Report(_))).count();
        world.perform();
    }
    let kept: Vec<&str> = world.log["h1"][before..].iter().map(|(_, text)| &**text).collect();
    assert_eq!((kept.len(), told), (1001, 13), "ten, and at 100, 1,000 and 10,000");
    assert!(kept[0].contains("log line 0") && kept[1000].contains("10000 invalid lines so far"));
}

/// Creates a session whose agent asks its only client something, with the id 7.
fn asked() -> (World, ConnectionId) {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/a"}));
    world.settle();
    let options = json!([{"optionId": "y", "name": "Y", "kind": "allow_once"}]);
    let params = json!({"sessionId": "a1", "title": "May it?", "options": options});
    world.say(json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}));
    (world, client)
}

#[test]
fn a_cancelled_question_gets_a_response() {
    let (mut world, client) = asked();
    assert_eq!(world.clients[&client].questions.len(), 1);
    world.say(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 7}}));
    world.settle();
    assert_eq!(world.clients[&client].questions.len(), 0);
    assert_eq!(world.agent.answered[&7], 1);
    let (channel, answer) = world.log["h1"].last().unwrap();
    assert_eq!(*channel, Channel::ToAgent);
    assert!(answer.contains(r#""outcome":"cancelled""#), "{answer}");
}

#[test]
fn the_number_of_forwarded_cancellations_is_limited() {
    let (mut world, client) = asked();
    let session = world.session_of(0).unwrap();
    for _ in 0..10_000 {
        world.notify(client, "session/cancel", json!({"sessionId": session}));
    }
    let told = |world: &World| {
        let log = &world.log[&*session];
        log.iter().filter(|(_, text)| text.contains(r#""session/cancel""#)).count()
    };
    assert_eq!(told(&world), 100);
    // The next prompt can be cancelled like any other.
    world.request(
        client,
        "session/prompt",
        json!({"sessionId": session, "prompt": [{"type": "text", "text": "on"}]}),
    );
    world.notify(client, "session/cancel", json!({"sessionId": session}));
    assert_eq!(told(&world), 101);
    world.check();
}

#[test]
fn long_names_are_truncated_in_responses() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    let long = "x".repeat(1 << 20);
    for (method, params) in [
        ("session/resume", json!({"sessionId": long, "cwd": "/w/p"})),
        ("session/new", json!({"cwd": long})),
        ("session/attach", json!({"sessionId": format!("a:{long}")})),
    ] {
        let id = world.request(client, method, params);
        let answer = world.clients[&client].answers[&id][0].to_string();
        assert!(answer.contains("error") && answer.len() < 10_000, "{method}: {}", answer.len());
    }
}

#[test]
fn automatic_answers_are_recorded_and_hidden_from_the_agent() {
    let (mut world, client) = asked();
    let question = *world.clients[&client].questions.keys().next().unwrap();
    let meta = json!({"switchboard/decider": "remembered", "mine": 1});
    let result = json!({"outcome": {"outcome": "selected", "optionId": "y"}, "_meta": meta});
    let line = json!({"jsonrpc": "2.0", "id": question, "result": result}).to_string();
    world.core.client_line(client, &line.into());
    world.perform();
    let [.., (_, note), (_, answer)] = &world.log["h1"][..] else { panic!("no answer") };
    let note: Value = serde_json::from_str(note).unwrap();
    assert_eq!(note["by"]["decider"], "remembered");
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert_eq!(answer["result"]["_meta"], json!({"mine": 1}));
}

#[test]
fn a_session_lost_by_its_agent_continues_after_a_divider() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/a"}));
    world.settle();
    let said = |text: &str| json!({"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": {"type": "text", "text": text}});
    world.update("a1", said("before"));
    // Twice: each time the agent numbers its sessions and messages from the start.
    for text in ["after", "at last"] {
        let process = world.agent.process.take().unwrap();
        world.agent.at_work.clear();
        world.core.agent_exited(process, "it died", &[]);
        world.perform();
        (world.agent.next, world.agent.refuses) = (0, true);
        let prompt = json!({"sessionId": "h1", "prompt": [{"type": "text", "text": text}]});
        world.request(client, "session/prompt", prompt);
        world.settle();
        let session = world.agent.at_work[0].clone();
        world.update(&session, said(text));
        world.agent.rest(&session);
        world.perform();
    }
    let mut conversation = switchboard_session::Conversation::new(switchboard_acp::WireFormat::Any);
    for (channel, text) in &world.log["h1"] {
        match channel.message() {
            Some((side, _)) => drop(conversation.read(text, Some(side), switchboard_acp::Moment(0))),
            None if *channel == Channel::Hub => {
                let _ =
                    switchboard_store::apply_hub_note(&mut conversation, text, switchboard_acp::Moment(0));
            }
            None => {}
        }
    }
    let sessions: Vec<_> = conversation.sessions().collect();
    assert_eq!(sessions.iter().map(|(id, _)| id.unwrap()).collect::<Vec<_>>(), ["a1"]);
    let entries: Vec<String> = sessions[0]
        .1
        .entries()
        .map(|entry| match entry.as_compaction() {
            Some(divider) if divider.is_memory_loss() => "---".to_owned(),
            Some(_) => panic!("{entry:?}"),
            None => entry.as_message().unwrap().content().text().clone(),
        })
        .collect();
    assert_eq!(entries, ["before", "---", "after", "---", "at last"]);
    world.check();
}

#[test]
fn unreadable_records_are_reported_when_a_log_is_loaded() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/a"}));
    world.settle();
    let id: std::sync::Arc<str> = "h1".into();
    world.core.log_failed(&id, "no room");
    world.core.cx.outbox.queue.clear();
    let mut state = SessionState::default();
    state.record_gap(3, 5, "the journal is damaged here");
    state.record_gap(9, 10, "the journal is damaged here");
    let length = world.log["h1"].len() as u64;
    world.core.loaded("h1", Ok((state, length)));
    let told = world.core.cx.outbox.queue.iter().find_map(|output| match output {
        Output::Report(told) => Some(told.clone()),
        _ => None,
    });
    let expected =
        "3 records of session h1 cannot be read, beginning with record 3: the journal is damaged here";
    assert_eq!(told.as_deref(), Some(expected));
}
