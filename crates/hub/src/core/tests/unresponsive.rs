//! Agents that do not stop after a cancellation, and prompts that never reached their agent.

use super::*;

/// Creates a client with a session in which an agent that ignores cancellations is working. Returns the id of its
/// prompt.
fn cancelled_in_vain(world: &mut World) -> (ConnectionId, i64) {
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    world.agent.ignores_cancel = true;
    let prompt = prompt(world, client, "h1", "one");
    world.notify(client, "session/cancel", json!({"sessionId": "h1"}));
    (client, prompt)
}

fn prompt(world: &mut World, client: ConnectionId, session: &str, text: &str) -> i64 {
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}],
        "_meta": {"switchboard/operationId": text}});
    let id = world.request(client, "session/prompt", params);
    world.settle();
    id
}

impl World {
    fn wait(&mut self, milliseconds: u64) {
        let now = self.core.cx.outbox.now + milliseconds;
        self.core.at(now, 0);
        self.core.tick();
        self.perform();
        self.settle();
    }

    fn end_agent(&mut self) {
        let process = self.agent.process.take().unwrap();
        self.agent.at_work.clear();
        self.agent.sessions.clear();
        self.core.agent_exited(process, "ended", &[]);
        self.perform();
        self.settle();
    }

    fn summary(&self) -> super::super::SessionSummary {
        self.core.sessions["h1"].summary()
    }

    fn logged(&self, text: &str) -> Vec<Channel> {
        self.log["h1"].iter().filter(|(_, line)| line.contains(text)).map(|(channel, _)| *channel).collect()
    }
}

#[test]
fn the_hub_ends_a_turn_that_the_agent_does_not_cancel() {
    let mut world = world(1 << 20);
    let (client, prompt) = cancelled_in_vain(&mut world);
    world.wait(29_999);
    assert_eq!(world.summary().state, super::super::SessionActivity::Working);
    // A repeated cancellation does not extend the time.
    world.notify(client, "session/cancel", json!({"sessionId": "h1"}));
    world.wait(1);
    let summary = world.summary();
    assert_eq!((summary.state, summary.is_unresponsive), (super::super::SessionActivity::Idle, true));
    assert_eq!(world.logged(r#""stopReason":"cancelled""#), [Channel::ToClient]);
    assert_eq!(
        world.logged(r#""switchboard/unresponsive":true"#).len(),
        2,
        "the notice and the end of the turn"
    );
    assert_eq!(world.clients[&client].answers[&prompt].len(), 1);
    let list = world.request(client, "session/list", json!({}));
    let list = &world.clients[&client].answers[&list][0]["result"]["sessions"][0];
    assert_eq!(list["_meta"]["switchboard/unresponsive"], true);
    world.check();
}

#[test]
fn a_prompt_without_response_is_answered_when_the_hub_ends_the_turn() {
    for by_request in [false, true] {
        let mut world = world(1 << 20);
        let client = world.connect(Role::Admin);
        world.request(client, "session/new", json!({"cwd": "/w/p"}));
        world.settle();
        (world.agent.ignores_cancel, world.agent.is_slow) = (true, true);
        let id = prompt(&mut world, client, "h1", "one");
        match by_request {
            true => world.notify(client, "$/cancel_request", json!({"requestId": id})),
            false => world.notify(client, "session/cancel", json!({"sessionId": "h1"})),
        }
        world.wait(30_000);
        assert_eq!(world.clients[&client].answers[&id][0]["result"], json!({}));
        // A duplicate gets the same response, and the agent is not asked twice.
        let again = prompt(&mut world, client, "h1", "one");
        assert_eq!(world.clients[&client].answers[&again][0]["result"], json!({}));
        assert_eq!(world.agent.prompts, ["one"]);
        // A late response of the agent has no effect.
        world.say(json!({"jsonrpc": "2.0", "id": world.agent.last_request, "result": {}}));
        assert_eq!(world.clients[&client].answers[&id].len(), 1);
        world.check();
    }
}

#[test]
fn the_next_prompt_replaces_an_unresponsive_agent() {
    let mut world = world(1 << 20);
    let (client, _) = cancelled_in_vain(&mut world);
    let process = world.agent.process;
    let next = prompt(&mut world, client, "h1", "two");
    world.wait(30_000);
    assert_eq!(world.agent.prompts, ["one"], "the old process is being ended");
    assert!(world.core.cx.agents.processes[&process.unwrap()].is_ending);
    world.end_agent();
    assert_eq!(world.agent.prompts, ["one", "two"]);
    assert_ne!(world.agent.process, process);
    assert!(!world.summary().is_unresponsive);
    assert_eq!(world.clients[&client].answers[&next][0]["error"], Value::Null);
    world.check();
}

#[test]
fn an_agent_that_stops_late_keeps_its_session() {
    let mut world = world(1 << 20);
    let (client, _) = cancelled_in_vain(&mut world);
    world.wait(30_000);
    let session = world.agent.at_work[0].clone();
    // Its further updates are shown; that it is working is not, because the turn is over.
    world.update(
        &session,
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "n": 1,
        "content": {"type": "text", "text": "late words"}}),
    );
    world.update(&session, json!({"sessionUpdate": "state_update", "state": "running"}));
    assert_eq!(world.logged("late words"), [Channel::ToClient]);
    assert_eq!(world.summary().state, super::super::SessionActivity::Idle);
    // Its questions are cancelled, whatever a policy would decide.
    world.say(json!({"jsonrpc": "2.0", "id": 900, "method": "session/request_permission", "params": {
        "sessionId": session, "title": "late", "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    assert_eq!(world.agent.results[&900], [json!({"outcome": {"outcome": "cancelled"}})]);
    assert_eq!(world.summary().questions, 0);
    world.agent.rest(&session);
    world.perform();
    assert!(!world.summary().is_unresponsive);
    let process = world.agent.process;
    prompt(&mut world, client, "h1", "two");
    assert_eq!((world.agent.prompts.len(), world.agent.process), (2, process));
    world.check();
}

#[test]
fn a_client_ends_an_agent_and_the_next_prompt_restarts_it() {
    let mut world = world(1 << 20);
    let (client, _) = cancelled_in_vain(&mut world);
    let other = world.connect(Role::Answer);
    let end = json!({"sessionId": "h1"});
    let refused = world.request(other, switchboard_acp::extensions::END_AGENT_METHOD, end.clone());
    assert_eq!(world.clients[&other].answers[&refused][0]["error"]["code"], -32004);
    let ended = world.request(client, switchboard_acp::extensions::END_AGENT_METHOD, end.clone());
    assert_eq!(world.clients[&client].answers[&ended][0]["result"], json!({"interrupted": []}));
    world.end_agent();
    assert!(!world.logged("was ended by a client").is_empty());
    assert_eq!(world.summary().state, super::super::SessionActivity::Dormant);
    let again = world.request(client, switchboard_acp::extensions::END_AGENT_METHOD, end);
    assert_eq!(world.clients[&client].answers[&again][0]["error"]["code"], codes::INVALID_PARAMS);
    prompt(&mut world, client, "h1", "two");
    assert_eq!(world.agent.prompts, ["one", "two"]);
    world.check();
}

#[test]
fn replacing_an_unresponsive_agent_does_not_interrupt_other_sessions() {
    let mut world = world(1 << 20);
    let (client, _) = cancelled_in_vain(&mut world);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    prompt(&mut world, client, "h2", "theirs");
    world.wait(30_000);
    let (old, old_session) =
        (world.agent.process.unwrap(), world.core.sessions["h1"].agent_session().unwrap().to_owned());
    world.agent.at_work.clear();
    prompt(&mut world, client, "h1", "two");
    assert_eq!(world.agent.prompts, ["one", "theirs", "two"]);
    assert_ne!(world.core.sessions["h1"].process, Some(old), "it has a process of its own");
    assert_eq!(world.core.sessions["h2"].process, Some(old));
    assert!(!world.core.cx.agents.processes[&old].is_ending);
    // Updates of the old process about the session that has left it are in no log.
    let late = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": old_session,
        "update": {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "ghost"}}}});
    let (h1, h2) = (world.log["h1"].len(), world.log["h2"].len());
    world.core.agent_line(old, &late.to_string());
    world.perform();
    assert_eq!((world.log["h1"].len(), world.log["h2"].len()), (h1, h2));
    // When no session works in it any more, it is ended.
    let session = world.core.sessions["h2"].agent_session().unwrap().to_owned();
    let idle = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session,
        "update": {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}}});
    world.core.agent_line(old, &idle.to_string());
    world.wait(1);
    assert!(world.core.cx.agents.processes[&old].is_ending);
}

#[test]
fn an_agent_that_is_being_ended_gets_no_prompt() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    world.request(client, "session/detach", json!({"sessionId": "h1"}));
    world.wait(1);
    world.wait(1000);
    assert!(world.core.cx.agents.processes[&world.agent.process.unwrap()].is_ending);
    let id = prompt(&mut world, client, "h1", "one");
    let option = json!({"sessionId": "h1", "configId": "c", "value": "v"});
    let option = world.request(client, "session/set_config_option", option);
    assert!(world.agent.prompts.is_empty());
    world.end_agent();
    assert_eq!(world.agent.prompts, ["one"]);
    assert_eq!(world.clients[&client].answers[&id][0]["error"], Value::Null);
    assert_eq!(world.clients[&client].answers[&option][0]["error"], Value::Null);
    world.check();
}

#[test]
fn an_undelivered_prompt_goes_to_the_next_process_and_is_answered_once() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    world.agent.is_slow = true;
    let id = prompt(&mut world, client, "h1", "one");
    let agent_session = world.agent.at_work[0].clone();
    // It was recorded, and then the agent's input turned out to be closed.
    world.agent.prompts.clear();
    world.agent.is_slow = false;
    world.core.undelivered(world.agent.process.unwrap(), &[agent_session]);
    world.end_agent();
    assert_eq!(world.agent.prompts, ["one"]);
    assert_eq!(world.clients[&client].answers[&id].len(), 1);
    assert_eq!(world.clients[&client].answers[&id][0]["error"], Value::Null);
    assert_eq!(world.summary().state, super::super::SessionActivity::Working);
    world.check();
}

#[test]
fn redeliveries_of_a_prompt_are_limited() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    world.agent.is_slow = true;
    let id = prompt(&mut world, client, "h1", "one");
    for _ in 0..3 {
        assert!(!world.clients[&client].answers.contains_key(&id));
        let agent_session = world.agent.at_work[0].clone();
        world.core.undelivered(world.agent.process.unwrap(), &[agent_session]);
        world.end_agent();
    }
    assert_eq!(world.clients[&client].answers[&id][0]["error"]["message"], "ended");
    assert_eq!(world.agent.prompts.len(), 3);
}

#[test]
fn an_unsent_prompt_goes_to_the_next_process() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let process = world.agent.process.take().unwrap();
    let line = json!({"jsonrpc": "2.0", "id": 77, "method": "session/prompt", "params": {"sessionId": "h1",
        "prompt": [{"type": "text", "text": "one"}]}});
    world.clients.get_mut(&client).unwrap().prompts.insert(77);
    world.core.client_line(client, &line.to_string().into());
    // None of the outputs has been performed yet.
    world.agent.sessions.clear();
    world.core.agent_exited(process, "died", &[]);
    world.perform();
    world.settle();
    assert_eq!(world.agent.prompts, ["one"]);
    assert_eq!(world.clients[&client].answers[&77][0]["error"], Value::Null);
    world.check();
}

#[test]
fn a_prompt_fails_if_the_agent_cannot_start() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    world.end_agent();
    let line = json!({"jsonrpc": "2.0", "id": 77, "method": "session/prompt", "params": {"sessionId": "h1",
        "prompt": [{"type": "text", "text": "one"}]}});
    world.core.client_line(client, &line.to_string().into());
    let started = |world: &mut World| {
        let outputs: Vec<Output> = std::iter::from_fn(|| world.core.next_output()).collect();
        outputs.into_iter().find_map(|output| match output {
            Output::StartAgent { process, .. } => Some(process),
            Output::Send { connection, line } => {
                world.receive(connection, &line);
                None
            }
            Output::Append { session, channel, text, .. } => {
                world.log.get_mut(&session).unwrap().push((channel, text));
                None
            }
            _ => None,
        })
    };
    let process = started(&mut world).expect("the prompt starts the agent");
    world.core.agent_exited(process, "it cannot be started", &[]);
    assert_eq!(started(&mut world), None);
    assert_eq!(world.clients[&client].answers[&77][0]["error"]["message"], "it cannot be started");
}

#[test]
fn an_unresponsive_agent_of_a_closed_session_is_ended() {
    let mut world = world(1 << 20);
    let (client, _) = cancelled_in_vain(&mut world);
    world.wait(30_000);
    let process = world.agent.process.unwrap();
    world.request(client, "session/close", json!({"sessionId": "h1"}));
    world.wait(1);
    assert!(world.core.cx.agents.processes[&process].is_ending);
}
