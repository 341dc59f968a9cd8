//! Events for people who do not look at a session.

use std::time::Duration;

use super::*;
use crate::policy::{PermissionRequest, Policy, PolicyDecision};
use crate::session_event::{AnswerResult, PendingQuestionEvent, SessionEventKind};

/// Creates a world with a session in which the agent works on a prompt.
fn working() -> (World, ConnectionId, String) {
    let mut world = world(100_000);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    assert_eq!(world.events, [], "a new session is idle, which is no end of a turn");
    let prompt = json!({"sessionId": "h1", "prompt": [{"type": "text", "text": "mend it"}]});
    world.request(client, "session/prompt", prompt);
    world.settle();
    let agent_session = world.agent.at_work[0].clone();
    (world, client, agent_session)
}

fn ask(world: &mut World, session: &str, id: i64, subject: &Value) {
    world.agent.questions.push((id, "may I?".to_owned()));
    world.say(json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
        "sessionId": session, "title": "may I?", "subject": subject, "options": [
            {"optionId": "y", "name": "Yes", "kind": "allow_once"},
            {"optionId": "a", "name": "Always", "kind": "allow_always"}]}}));
    world.settle();
}

fn command(line: &str) -> Value {
    json!({"type": "command", "command": line, "cwd": "/w/p"})
}

fn kinds(world: &mut World) -> Vec<SessionEventKind> {
    std::mem::take(&mut world.events).into_iter().map(|event| event.kind).collect()
}

fn question(world: &mut World) -> PendingQuestionEvent {
    match &kinds(world)[..] {
        [SessionEventKind::Asked(question)] => question.clone(),
        other => panic!("{other:?}"),
    }
}

fn answer_last(world: &mut World, client: ConnectionId) {
    world.answer_last(client, json!({"outcome": {"outcome": "selected", "optionId": "y"}}));
    world.settle();
}

fn idle(stop_reason: &str) -> Value {
    json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": stop_reason,
        "error": {"code": -32603, "message": "out of credit"}})
}

#[test]
fn a_question_is_announced_once_and_resolved_by_its_answer() {
    let (mut world, client, session) = working();
    assert_eq!(world.core.sessions["h1"].title().as_deref(), Some("mend it"));
    ask(&mut world, &session, 7, &command("cargo test"));
    let event = world.events[0].clone();
    assert_eq!((&*event.session, &*event.agent, &*event.folder), ("h1", "one", "/w/p"));
    assert_eq!(event.title, None, "prompts are not part of events");
    let asked = question(&mut world);
    assert_eq!(asked.action, "asks to run a command");
    assert_eq!(asked.details, "may I?\n$ cargo test\nin /w/p");
    assert!(asked.is_complete);
    let options: Vec<&str> = asked.options.iter().map(|option| &*option.kind).collect();
    assert_eq!(options, ["allow_once", "allow_always"]);
    answer_last(&mut world, client);
    let [SessionEventKind::Resolved { question, by }] = &kinds(&mut world)[..] else { panic!() };
    assert_eq!((*question, by.as_deref()), (asked.id, world.core.cx.clients.author(client).token.as_deref()));
    assert!(by.is_some());
}

#[test]
fn an_update_of_the_tool_call_changes_the_question() {
    let (mut world, _, session) = working();
    let subject = json!({"type": "tool_call", "toolCall": {"toolCallId": "c", "kind": "execute", "title": "Run ls",
        "rawInput": {"command": "ls"}}});
    ask(&mut world, &session, 7, &subject);
    let asked = question(&mut world);
    assert_eq!((asked.action, &*asked.details), ("asks to run a command", "may I?\nRun ls\n$ ls"));
    // Another call, and another part of this one.
    let update = |call: &str, more: &str, value: Value| json!({"sessionUpdate": "tool_call_update", "toolCallId": call, more: value});
    world.update(&session, update("d", "title", json!("Run rm")));
    world.update(&session, update("c", "status", json!("in_progress")));
    assert_eq!(kinds(&mut world), []);
    world.update(&session, update("c", "rawInput", json!({"command": "rm -r x"})));
    let changed = question(&mut world);
    assert_eq!((changed.id, &*changed.details), (asked.id, "may I?\nRun ls\n$ rm -r x"));
}

#[test]
fn parts_that_do_not_fit_make_a_question_incomplete() {
    for subject in [
        json!({"type": "tool_call", "toolCall": {"toolCallId": "c", "kind": "edit", "content": [{"type": "diff",
            "changes": [{"operation": "modify", "path": "/w/p/a"}], "patch": {"format": "git_patch", "text": "x"}}]}}),
        command(&"x".repeat(3000)),
        json!({"type": "_other"}),
        Value::Null,
    ] {
        let (mut world, _, session) = working();
        ask(&mut world, &session, 7, &subject);
        let asked = question(&mut world);
        assert!(!asked.is_complete, "{subject}");
        assert!(asked.details.chars().count() <= 2000);
    }
}

#[test]
fn an_answer_from_elsewhere_holds_once_and_only_for_the_question_that_was_shown() {
    let (mut world, _, session) = working();
    let subject = json!({"type": "tool_call", "toolCall": {"toolCallId": "c", "kind": "execute", "title": "Run ls",
        "rawInput": {"command": "ls"}}});
    ask(&mut world, &session, 7, &subject);
    let shown = question(&mut world);
    let answer = |world: &mut World, shown: &PendingQuestionEvent, option: &str| {
        let result = world.core.answer_shown("h1", shown, option, "notification phone");
        world.perform();
        world.settle();
        result
    };
    assert_eq!(answer(&mut world, &shown, "a"), AnswerResult::Changed, "never an option for always");
    assert_eq!(answer(&mut world, &shown, "x"), AnswerResult::Changed, "an option that was not offered");
    let update =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawInput": {"command": "rm -r x"}});
    world.update(&session, update);
    let changed = question(&mut world);
    assert_eq!(answer(&mut world, &shown, "y"), AnswerResult::Changed, "the command is another one now");
    assert_eq!(world.agent.answered.get(&7), None);
    assert_eq!(answer(&mut world, &changed, "y"), AnswerResult::Answered);
    assert_eq!(world.agent.results[&7], [json!({"outcome": {"outcome": "selected", "optionId": "y"}})]);
    assert_eq!(answer(&mut world, &changed, "y"), AnswerResult::NotPending, "once");
    let by = Some("notification phone".to_owned());
    assert_eq!(kinds(&mut world), [SessionEventKind::Resolved { question: shown.id, by }]);
    let records = world.log["h1"].iter().filter(|(_, text)| text.contains("notification phone")).count();
    assert_eq!(records, 1, "the log says who answered");
}

struct AllowsEverything;

impl Policy for AllowsEverything {
    fn evaluate(&mut self, _: &PermissionRequest<'_>) -> Option<PolicyDecision> {
        Some(PolicyDecision {
            result: Some(r#"{"outcome":{"outcome":"selected","optionId":"y"}}"#.to_owned()),
            by: json!({"policy": "all", "decision": "allow"}),
            notice: "allowed".to_owned(),
        })
    }
}

#[test]
fn questions_that_a_rule_answers_and_cancelled_turns_are_not_announced() {
    let (mut world, client, session) = working();
    world.core.cx.options.policy = Some(Box::new(AllowsEverything));
    ask(&mut world, &session, 7, &command("ls"));
    assert_eq!(world.agent.answered.get(&7), Some(&1));
    assert_eq!(kinds(&mut world), []);
    world.notify(client, "session/cancel", json!({"sessionId": "h1"}));
    world.settle();
    assert_eq!(kinds(&mut world), []);
}

#[test]
fn the_end_of_a_turn_is_announced_with_its_duration_or_its_error() {
    let (mut world, _, session) = working();
    world.core.at(61_000, 0);
    world.update(&session, idle("end_turn"));
    let done = SessionEventKind::TurnEnded { reason: "end_turn".into(), duration: Duration::from_secs(61) };
    assert_eq!(kinds(&mut world), [done]);
    // Work without a prompt and a repeated idle state are no turns.
    world.update(&session, json!({"sessionUpdate": "state_update", "state": "running"}));
    world.update(&session, idle("end_turn"));
    world.update(&session, idle("end_turn"));
    assert_eq!(kinds(&mut world), []);
    for (stop_reason, words) in [("error", "out of credit"), ("refusal", "refusal")] {
        let (mut world, _, session) = working();
        world.update(&session, idle(stop_reason));
        assert_eq!(kinds(&mut world), [SessionEventKind::TurnFailed { reason: words.into() }]);
    }
}

#[test]
fn an_error_in_response_to_a_prompt_is_a_failure() {
    let mut world = world(100_000);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    world.core.at(1, 0);
    world.agent.is_slow = true;
    let prompt = json!({"sessionId": "h1", "prompt": [{"type": "text", "text": "go"}]});
    world.request(client, "session/prompt", prompt);
    world.settle();
    let session = world.agent.at_work[0].clone();
    let error = json!({"code": -32000, "message": "log in first"});
    world.say(json!({"jsonrpc": "2.0", "id": world.agent.last_request, "error": error}));
    world.update(&session, json!({"sessionUpdate": "state_update", "state": "idle"}));
    assert_eq!(kinds(&mut world), [SessionEventKind::TurnFailed { reason: "log in first".into() }]);
}

#[test]
fn an_agent_that_exits_in_a_turn_has_died_and_takes_its_questions_along() {
    let (mut world, _, session) = working();
    ask(&mut world, &session, 7, &command("ls"));
    let asked = question(&mut world);
    let process = world.agent.process.take().unwrap();
    world.core.agent_exited(process, "exited with code 3", &[]);
    world.perform();
    let resolved = SessionEventKind::Resolved { question: asked.id, by: None };
    let died = SessionEventKind::AgentDied { reason: "exited with code 3".into() };
    assert_eq!(kinds(&mut world), [resolved, died]);
    // Nobody is told about the end of an idle agent, nor about the end of the hub.
    let (mut world, _, session) = working();
    world.update(&session, idle("cancelled"));
    let process = world.agent.process.take().unwrap();
    world.core.agent_exited(process, "ended", &[]);
    world.perform();
    assert_eq!(kinds(&mut world), []);
    let (mut world, _, session) = working();
    ask(&mut world, &session, 7, &command("ls"));
    kinds(&mut world);
    world.core.end("the hub was ended");
    world.perform();
    assert!(matches!(&kinds(&mut world)[..], [SessionEventKind::Resolved { by: None, .. }]));
}

#[test]
fn work_that_a_crash_of_the_hub_interrupted_is_announced_at_the_next_start() {
    let (mut before, _, session) = working();
    ask(&mut before, &session, 7, &command("ls"));
    let mut after = world(100_000);
    after.log = before.log.clone();
    after.core.add_session(SessionInfo {
        id: "h1".into(),
        agent: "one".to_owned(),
        agent_session: session,
        owner: "x".to_owned(),
        folder: "/w/p".to_owned(),
        title: None,
        changed: 0,
        length: after.log["h1"].len() as u64,
    });
    after.core.recover("h1");
    after.perform();
    after.settle();
    let kinds = kinds(&mut after);
    assert!(matches!(&kinds[..], [SessionEventKind::AgentDied { .. }]), "{kinds:?}");
}
