//! Clients that leave a session with a pending question.

use serde_json::{Value, json};
use switchboard_store::Role;

use super::world::{World, world};
use crate::core::{ConnectionId, SessionInfo};

/// Ways in which a client leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Leaving {
    Detach,
    Disconnect,
    /// The client answers every pending request with an error, as a process that shuts down does.
    Error,
    /// The same, and then its connection closes.
    ErrorThenDisconnect,
    /// Another session is opened over the same connection, and this one is left.
    OtherSession,
}

const ALL: [Leaving; 5] = [
    Leaving::Detach,
    Leaving::Disconnect,
    Leaving::Error,
    Leaving::ErrorThenDisconnect,
    Leaving::OtherSession,
];

/// Creates a world with a session in which the agent asks for a permission, and the client that prompted.
fn asked() -> (World, ConnectionId, String) {
    let mut world = world(100_000);
    let owner = world.connect(Role::Admin);
    world.request(owner, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let session = world.session_of(0).unwrap();
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    world.request(owner, "session/prompt", prompt);
    world.settle();
    let agent_session = world.agent.at_work[0].clone();
    world.agent.questions.push((77, "may I?".to_owned()));
    world.say(json!({"jsonrpc": "2.0", "id": 77, "method": "session/request_permission", "params": {
        "sessionId": agent_session, "title": "may I?",
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    world.settle();
    (world, owner, session)
}

fn attach(world: &mut World, client: ConnectionId, session: &str) {
    let params = json!({"sessionId": session, "cwd": "/w/p", "replayFrom": {"type": "start"}});
    world.request(client, "session/resume", params);
    world.settle();
}

fn leave(world: &mut World, client: ConnectionId, session: &str, how: Leaving) {
    if matches!(how, Leaving::Error | Leaving::ErrorThenDisconnect) {
        let asked: Vec<i64> = world.clients[&client].questions.keys().copied().collect();
        for id in asked {
            let error = json!({"code": -32603, "message": "the request was dropped without an answer"});
            let line = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            world.core.client_line(client, &line.into());
            world.perform();
        }
    }
    match how {
        Leaving::Detach => {
            world.request(client, "session/detach", json!({"sessionId": session}));
        }
        Leaving::OtherSession => {
            world.request(client, "session/new", json!({"cwd": "/w/p"}));
            world.request(client, "session/detach", json!({"sessionId": session}));
        }
        Leaving::Disconnect | Leaving::ErrorThenDisconnect => {
            world.core.disconnected(client);
            world.perform();
            world.clients.remove(&client);
        }
        Leaving::Error => {}
    }
    world.settle();
}

fn is_asked(world: &World, client: ConnectionId) -> bool {
    world.clients[&client].questions.values().any(|title| title == "may I?")
}

fn allow(world: &mut World, client: ConnectionId) {
    world.answer_last(client, json!({"outcome": {"outcome": "selected", "optionId": "y"}}));
    world.settle();
}

#[test]
fn a_question_stays_pending_however_a_client_leaves() {
    for role in [Role::View, Role::Answer, Role::Admin] {
        for is_translated in [false, true] {
            for how in ALL {
                if role != Role::Admin && how == Leaving::OtherSession {
                    continue;
                }
                let (mut world, owner, session) = asked();
                let forwarded_key = world.connect_translated(role, is_translated);
                attach(&mut world, forwarded_key, &session);
                assert_eq!(is_asked(&world, forwarded_key), role != Role::View);
                leave(&mut world, forwarded_key, &session, how);
                let words = format!("{role} {how:?} {is_translated}");
                assert_eq!(world.agent.answered.get(&77), None, "{words}");
                assert!(is_asked(&world, owner), "{words}: the owner is asked no more");
                allow(&mut world, owner);
                let chosen: Value = json!({"outcome": {"outcome": "selected", "optionId": "y"}});
                assert_eq!(world.agent.results[&77], [chosen], "{words}");
            }
        }
    }
}

#[test]
fn a_question_without_clients_is_asked_of_the_next_client() {
    for how in ALL {
        let (mut world, owner, session) = asked();
        leave(&mut world, owner, &session, how);
        assert_eq!(world.agent.answered.get(&77), None, "{how:?}");
        let next = if world.clients.contains_key(&owner) { owner } else { world.connect(Role::Admin) };
        // The questions from before it left are not pending any more.
        world.clients.get_mut(&next).unwrap().questions.clear();
        attach(&mut world, next, &session);
        assert!(is_asked(&world, next), "{how:?}");
        allow(&mut world, next);
        assert_eq!(world.agent.answered.get(&77), Some(&1), "{how:?}");
    }
}

#[test]
fn an_error_response_does_not_answer_a_question_and_is_recorded() {
    let (mut world, owner, session) = asked();
    leave(&mut world, owner, &session, Leaving::Error);
    let notes = world.log[&*session].iter().filter(|(_, text)| text.contains("not answered"));
    let notes: Vec<Value> = notes.map(|(_, text)| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(notes.len(), 1);
    assert_eq!((&notes[0]["request"], &notes[0]["error"]["code"]), (&json!(77), &json!(-32603)));
    // A cancellation still ends it.
    world.notify(owner, "session/cancel", json!({"sessionId": session}));
    world.settle();
    assert_eq!(world.agent.results[&77], [json!({"outcome": {"outcome": "cancelled"}})]);
}

/// Asks about a running tool call, and about one of a sub-agent.
fn asked_about_a_call() -> (World, ConnectionId, String) {
    let (mut world, owner, session) = asked();
    let agent = world.agent.at_work[0].clone();
    let call = |id: &str, status: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "title": "Write", "status": status});
    world.update(&agent, call("done", "in_progress"));
    world.update(&agent, call("done", "completed"));
    world.update(
        &agent,
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "done", "title": "Written"}),
    );
    world.update(&agent, call("open", "pending"));
    world.update(
        &agent,
        json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Explorer"}),
    );
    world.update("child", json!({"sessionUpdate": "state_update", "state": "running"}));
    world.update("child", call("below", "in_progress"));
    // The state of this sub-agent is sent by its parent only.
    world.update(
        "child",
        json!({"sessionUpdate": "subagent_update", "sessionId": "grandchild", "state": {"state": "running"}}),
    );
    world.agent.questions.push((78, "may I write?".to_owned()));
    world.say(json!({"jsonrpc": "2.0", "id": 78, "method": "session/request_permission", "params": {
        "sessionId": agent, "title": "may I write?",
        "subject": {"type": "tool_call", "toolCall": {"toolCallId": "asked", "title": "Write"}},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    world.settle();
    (world, owner, session)
}

fn check_end(world: &World, client: ConnectionId, session: &str) {
    let held = world.held_by(client, session);
    let shown = held.session(Some(session)).unwrap();
    let status = |id: &str| shown.tool_call(id).map(|call| call.status().as_str().to_owned());
    assert_eq!(status("done").as_deref(), Some("completed"));
    for call in ["open", "asked"] {
        assert_eq!(status(call).as_deref(), Some("failed"), "{call}");
    }
    assert_eq!(shown.activity(), switchboard_session::Activity::Idle);
    assert_eq!(shown.stop_reason().map(|reason| reason.as_str()), Some("error"));
    let child = held.session(Some(&format!("{session}:child"))).unwrap();
    assert_eq!(child.activity(), switchboard_session::Activity::Idle);
    assert_eq!(held.state_in_words(&format!("{session}:grandchild")), "failed");
    assert_eq!(
        child.tool_call("below").map(|call| call.status().as_str().to_owned()).as_deref(),
        Some("failed")
    );
    assert!(world.clients[&client].questions.is_empty(), "nothing is asked that nobody waits for");
}

#[test]
fn after_a_crash_no_tool_call_runs_and_no_question_is_pending() {
    let (before, owner, session) = asked_about_a_call();
    // Only the log remains.
    let mut world = world(100_000);
    let length = before.log[&*session].len();
    world.log = before.log;
    let (agent, folder, owner_name) = ("one".to_owned(), "/w/p".to_owned(), format!("own-{owner}"));
    world.core.add_session(SessionInfo {
        id: (*session).into(),
        agent,
        agent_session: before.agent.sessions[0].clone(),
        owner: owner_name,
        folder,
        title: None,
        changed: 0,
        length: length as u64,
    });
    world.core.recover(&session);
    world.perform();
    // One client attaches before the log is loaded, one later, and one resumes after a cursor.
    let early = world.connect(Role::Admin);
    let start = json!({"sessionId": session, "cwd": "/w/p", "replayFrom": {"type": "start"}});
    world.begin_at(early, &session, 0);
    world.request(early, "session/resume", start.clone());
    world.settle();
    let late = world.connect(Role::Answer);
    world.begin_at(late, &session, 0);
    world.request(late, "session/resume", start);
    let back = world.connect(Role::Admin);
    world.begin_at(back, &session, length as u64);
    let cursor = json!({"acp/cursor": format!("{session}.{}", length - 1)});
    world.request(back, "session/resume", json!({"sessionId": session, "cwd": "/w/p", "_meta": cursor}));
    world.settle();
    for client in [early, late, back] {
        check_end(&world, client, &session);
    }
    let written = world.log[&*session].len();
    // Recovering again writes nothing.
    world.core.recover(&session);
    world.perform();
    world.settle();
    assert_eq!(world.log[&*session].len(), written);
    let notes = world.log[&*session].iter().filter(|(_, text)| text.contains("\"unanswered\"")).count();
    assert_eq!(notes, 2, "each question is withdrawn once");
}

#[test]
fn after_an_agent_exit_no_tool_call_runs_and_no_question_is_pending() {
    let (mut world, owner, session) = asked_about_a_call();
    let late = world.connect(Role::Admin);
    world.begin_at(late, &session, 0);
    attach(&mut world, late, &session);
    assert!(is_asked(&world, late));
    let process = world.agent.process.take().unwrap();
    world.core.agent_exited(process, "died", &[]);
    world.perform();
    world.settle();
    for client in [owner, late] {
        check_end(&world, client, &session);
    }
}
