//! Prompts of clients that have dropped a question.

use serde_json::json;
use switchboard_store::Role;

use super::world::{World, world};
use crate::core::ConnectionId;

/// Creates a world with a session in which the agent asks for a permission, and a client that attaches then.
fn attached(is_translated: bool) -> (World, ConnectionId, String) {
    let mut world = world(100_000);
    let owner = world.connect(Role::Admin);
    world.request(owner, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let session = world.session_of(0).unwrap();
    prompt(&mut world, owner, &session, "go");
    let agent_session = world.agent.at_work[0].clone();
    world.agent.questions.push((77, "may I?".to_owned()));
    world.say(json!({"jsonrpc": "2.0", "id": 77, "method": "session/request_permission", "params": {
        "sessionId": agent_session, "title": "may I?",
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    world.settle();
    let client = world.connect_translated(Role::Admin, is_translated);
    let params = json!({"sessionId": session, "cwd": "/w/p", "replayFrom": {"type": "start"}});
    world.request(client, "session/resume", params);
    world.settle();
    (world, client, session)
}

fn prompt(world: &mut World, client: ConnectionId, session: &str, text: &str) -> i64 {
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    let id = world.request(client, "session/prompt", prompt);
    world.settle();
    id
}

fn asked(world: &World, client: ConnectionId) -> Vec<i64> {
    world.clients[&client].questions.keys().copied().collect()
}

#[test]
fn a_version_1_client_is_asked_again_when_it_prompts() {
    let (mut world, client, session) = attached(true);
    let first = asked(&world, client);
    assert_eq!(first.len(), 1);
    // The client drops the question and prompts.
    let id = prompt(&mut world, client, &session, "next");
    let again = asked(&world, client);
    assert!(again.len() == 1 && again != first, "the first one is cancelled: {again:?}");
    assert_eq!(world.agent.answered.get(&77), None);
    // An answer to the cancelled request arrives too late.
    let chosen = json!({"outcome": {"outcome": "selected", "optionId": "y"}});
    let late = json!({"jsonrpc": "2.0", "id": first[0], "result": {"outcome": {"outcome": "cancelled"}}});
    world.core.client_line(client, &late.to_string().into());
    world.perform();
    assert_eq!(world.agent.answered.get(&77), None);
    world.answer_last(client, chosen.clone());
    world.settle();
    assert_eq!(world.agent.results[&77], [chosen]);
    // The prompt runs when the turn before it has ended.
    let at_work = world.agent.at_work[0].clone();
    world.agent.rest(&at_work);
    world.perform();
    world.settle();
    assert_eq!(world.agent.prompts, ["go", "next"]);
    assert!(world.clients[&client].answers.contains_key(&id));
}

#[test]
fn other_clients_are_asked_once() {
    let (mut world, client, session) = attached(false);
    let first = asked(&world, client);
    prompt(&mut world, client, &session, "next");
    assert_eq!(asked(&world, client), first, "a version 2 client shows what it was asked");
}
