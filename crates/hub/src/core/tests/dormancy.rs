//! Dormancy of idle sessions, and recovery after a crash.

use super::*;

impl World {
    /// Advances the time; returns the sessions whose logs were closed.
    fn idle(&mut self, milliseconds: u64) -> Vec<String> {
        let now = self.core.cx.outbox.now + milliseconds;
        self.core.at(now, 0);
        self.core.tick();
        let outputs: Vec<Output> = std::iter::from_fn(|| self.core.next_output()).collect();
        outputs
            .into_iter()
            .map(|output| match output {
                Output::CloseLog { session } => session.to_string(),
                other => panic!("{other:?}"),
            })
            .collect()
    }
}

/// Creates two sessions of one agent, of which the second is working.
fn two_sessions() -> (World, ConnectionId) {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    for _ in 0..2 {
        world.request(client, "session/new", json!({"cwd": "/w/p"}));
        world.settle();
    }
    let prompt = json!({"sessionId": "h2", "prompt": [{"type": "text", "text": "long"}]});
    world.request(client, "session/prompt", prompt);
    world.settle();
    (world, client)
}

#[test]
fn an_idle_session_becomes_dormant_while_its_agent_works_for_others() {
    let (mut world, client) = two_sessions();
    assert_eq!(world.idle(5000), [""; 0], "somebody looks at it");
    world.request(client, "session/detach", json!({"sessionId": "h1"}));
    assert_eq!(world.idle(1), [""; 0]);
    assert_eq!(world.idle(999), [""; 0]);
    assert_eq!(world.idle(1), ["h1"], "its log is closed");
    assert_eq!(world.core.sessions["h1"].activity(), super::super::SessionActivity::Dormant);
    assert_eq!(world.core.sessions["h2"].activity(), super::super::SessionActivity::Working);
    assert_eq!(world.idle(5000), [""; 0]);
    // The process still has the session: nothing has to be resumed.
    let before = world.log["h1"].len();
    let prompt = json!({"sessionId": "h1", "prompt": [{"type": "text", "text": "again"}]});
    world.request(client, "session/prompt", prompt);
    world.settle();
    assert_eq!(world.agent.prompts, ["long", "again"]);
    assert!(!world.log["h1"][before..].iter().any(|(_, text)| text.contains("session/resume")));
    world.check();
}

#[test]
fn updates_of_a_dormant_session_are_recorded_and_it_becomes_dormant_again() {
    let (mut world, client) = two_sessions();
    world.request(client, "session/detach", json!({"sessionId": "h1"}));
    world.idle(1);
    assert_eq!(world.idle(1000), ["h1"]);
    let own = world.core.sessions["h1"].agent_session().unwrap().to_owned();
    world.update(
        &own,
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "n": 1,
        "content": {"type": "text", "text": "by the way"}}),
    );
    assert!(world.log["h1"].last().unwrap().1.contains("by the way"));
    assert_eq!(world.core.sessions["h1"].activity(), super::super::SessionActivity::Idle);
    world.idle(1);
    assert_eq!(world.idle(1000), ["h1"]);
    // After the process has exited, the next prompt resumes the session.
    let process = world.agent.process.take().unwrap();
    world.agent.at_work.clear();
    world.core.agent_exited(process, "died", &[]);
    world.perform();
    let prompt = json!({"sessionId": "h1", "prompt": [{"type": "text", "text": "again"}]});
    world.request(client, "session/prompt", prompt);
    world.settle();
    assert!(world.log["h1"].iter().any(|(_, text)| text.contains("session/resume")));
    assert_eq!(world.agent.prompts, ["long", "again"]);
    world.check();
}

#[test]
fn a_session_without_a_writable_log_is_refused_and_removed() {
    let mut world = world(1 << 20);
    let client = world.connect(Role::Admin);
    let line = json!({"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": {"cwd": "/w/p"}});
    world.core.client_line(client, &line.to_string().into());
    let known = SessionInfo {
        id: "h1".into(),
        agent: "one".to_owned(),
        agent_session: String::new(),
        owner: String::new(),
        folder: "/w/p".to_owned(),
        title: None,
        changed: 0,
        length: 0,
    };
    world.core.created(1, Ok(known));
    // No file can be opened for its log.
    while world.core.next_output().is_some() {}
    world.core.log_failed(&"h1".into(), "Too many open files");
    world.perform();
    let answer = &world.clients[&client].answers[&7][0];
    assert!(answer["error"]["message"].as_str().unwrap().contains("Too many open files"), "{answer}");
    assert!(world.core.sessions.is_empty());
}

#[test]
fn recovery_reads_a_few_logs_at_a_time_and_requested_ones_first() {
    let mut world = world(1 << 20);
    for number in 0..50 {
        let id = format!("h{number}");
        world.core.add_session(SessionInfo {
            id: id.as_str().into(),
            agent: "one".to_owned(),
            agent_session: "a".to_owned(),
            owner: String::new(),
            folder: "/w/p".to_owned(),
            title: None,
            changed: 0,
            length: 2,
        });
        let prompt =
            r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"a","prompt":[]}}"#;
        let log = vec![
            (Channel::Hub, r#"{"hub":"agent session","id":"a"}"#.into()),
            (Channel::ToAgent, prompt.into()),
        ];
        world.log.insert(id.as_str().into(), log);
        world.core.recover(&id);
    }
    world.perform();
    assert_eq!(world.later.len(), 4);
    let client = world.connect(Role::Admin);
    let resume = json!({"sessionId": "h40", "cwd": "/w/p"});
    let asked = world.request(client, "session/resume", resume);
    assert_eq!(world.later.len(), 5, "it does not wait for its turn");
    let last = world.later.len() - 1;
    world.do_later(last);
    assert_eq!(world.clients[&client].answers[&asked].len(), 1);
    world.settle();
    for (id, log) in &world.log {
        let (_, last) = log.last().unwrap();
        assert!(last.contains(r#""stopReason":"error""#), "{id}: {last}");
        assert_eq!(log.len(), 3, "{id}");
    }
}

#[test]
fn a_warm_agent_runs_before_anybody_asks_and_stays() {
    let mut world = world(1 << 20);
    world.core.cx.options.warm = vec![true];
    let starts = |world: &mut World, milliseconds: u64| {
        world.core.at(world.core.cx.outbox.now + milliseconds, 0);
        world.core.tick();
        let outputs: Vec<Output> = std::iter::from_fn(|| world.core.next_output()).collect();
        assert!(!outputs.iter().any(|output| matches!(output, Output::EndAgent { .. })), "{outputs:?}");
        outputs.iter().filter(|output| matches!(output, Output::StartAgent { .. })).count()
    };
    assert_eq!(starts(&mut world, 0), 1);
    assert_eq!(starts(&mut world, 500), 0, "it is starting");
    let process = world.core.cx.agents.process_of(0).unwrap();
    let initialized = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2,"capabilities":{}}}"#;
    world.core.agent_line(process, initialized);
    assert!(world.core.cx.agents.processes[&process].is_ready);
    assert_eq!(starts(&mut world, 100_000), 0, "it is kept, although nobody uses it");
    world.core.agent_exited(process, "exited", &[]);
    assert_eq!(starts(&mut world, 0), 1);
    let process = world.core.cx.agents.process_of(0).unwrap();
    world.core.agent_exited(process, "exited", &[]);
    assert_eq!(starts(&mut world, 59_000), 0, "one that fails is not started all the time");
    assert_eq!(starts(&mut world, 1000), 1);
}
