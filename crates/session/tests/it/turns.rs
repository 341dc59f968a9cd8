//! Prompts and their outcomes, questions whose content changes, and sub-agent sessions.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Moment, Side, WireFormat, v2};
use switchboard_session::{
    Change, Conversation, ConversationError, Decider, EntryKind, RequestEvent, Settlement, TurnOutcome,
};

/// Applies messages in order, and returns the prompts that each ended.
struct Talk(Conversation);

impl Talk {
    fn new() -> Self {
        Talk(Conversation::new(WireFormat::Any))
    }

    fn say(&mut self, from: Side, mut message: Value) -> Vec<RequestId<'static>> {
        message["jsonrpc"] = "2.0".into();
        self.0.read(&message.to_string(), Some(from), Moment(9)).unwrap().ended
    }

    fn prompt(&mut self, id: i64) {
        let params = json!({"sessionId": "s", "prompt": []});
        let ended = self.say(Side::Client, json!({"id": id, "method": "session/prompt", "params": params}));
        assert_eq!(ended, []);
    }

    fn answer(&mut self, id: i64) -> Vec<RequestId<'static>> {
        self.say(Side::Agent, json!({"id": id, "result": {"messageId": format!("u{id}")}}))
    }

    fn update(&mut self, update: Value) -> Vec<RequestId<'static>> {
        self.say(
            Side::Agent,
            json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}),
        )
    }

    fn state(&mut self, state: Value) -> Vec<RequestId<'static>> {
        let mut update = state;
        update["sessionUpdate"] = "state_update".into();
        self.update(update)
    }

    fn outcome(&self, id: i64) -> Option<TurnOutcome> {
        self.0.turn(Some("s"), &id.into()).unwrap().end().map(|end| end.outcome.clone())
    }
}

fn idle(reason: v2::StopReason) -> Option<TurnOutcome> {
    Some(TurnOutcome::Idle(Arc::new(v2::IdleState::new().stop_reason(reason))))
}

#[test]
fn a_prompt_is_over_when_the_session_is_idle_again() {
    let mut talk = Talk::new();
    talk.prompt(1);
    assert_eq!(talk.answer(1), []);
    talk.state(json!({"state": "running"}));
    let ended = talk.state(json!({"state": "idle", "stopReason": "end_turn"}));
    assert_eq!(ended, [RequestId::Number(1)]);
    assert_eq!(talk.outcome(1), idle(v2::StopReason::EndTurn));
    let turn = talk.0.turn(Some("s"), &1.into()).unwrap();
    assert_eq!((turn.message_id(), turn.asked_at(), turn.position()), (Some("u1"), Moment(9), 0));
}

#[test]
fn a_prompt_that_is_answered_after_its_work_is_over_then() {
    let mut talk = Talk::new();
    talk.prompt(1);
    talk.state(json!({"state": "running"}));
    assert_eq!(talk.state(json!({"state": "idle", "stopReason": "refusal"})), []);
    assert_eq!(talk.outcome(1), None);
    assert_eq!(talk.answer(1), [RequestId::Number(1)]);
    assert_eq!(talk.outcome(1), idle(v2::StopReason::Refusal));
}

#[test]
fn the_end_of_other_work_is_not_the_end_of_a_prompt_that_waits() {
    let mut talk = Talk::new();
    talk.state(json!({"state": "running"}));
    talk.prompt(1);
    assert_eq!(talk.state(json!({"state": "idle", "stopReason": "end_turn"})), []);
    talk.answer(1);
    talk.state(json!({"state": "running"}));
    assert_eq!(talk.state(json!({"state": "idle", "stopReason": "max_tokens"})), [RequestId::Number(1)]);
    assert_eq!(talk.outcome(1), idle(v2::StopReason::MaxTokens));
}

#[test]
fn idle_without_a_reason_ends_only_what_has_run() {
    let mut talk = Talk::new();
    talk.prompt(1);
    talk.answer(1);
    assert_eq!(talk.state(json!({"state": "idle"})), []);
    talk.state(json!({"state": "requires_action"}));
    assert_eq!(talk.state(json!({"state": "idle"})), [RequestId::Number(1)]);
}

#[test]
fn refused_prompts_and_those_of_a_broken_connection_are_over() {
    let mut talk = Talk::new();
    talk.prompt(1);
    talk.prompt(2);
    let refused = talk.say(Side::Agent, json!({"id": 1, "error": {"code": -32602, "message": "no"}}));
    assert_eq!(refused, [RequestId::Number(1)]);
    assert!(matches!(talk.outcome(1), Some(TurnOutcome::Refused(error)) if error.message == "no"));
    let (_, ended) = talk.0.end_connection(Moment(10));
    assert_eq!(ended, [RequestId::Number(2)]);
    assert_eq!(talk.outcome(2), Some(TurnOutcome::ConnectionEnd));
    assert_eq!(talk.0.turns(Some("s")).count(), 2);
}

#[test]
fn a_broken_connection_settles_questions() {
    let mut talk = Talk::new();
    ask(&mut talk, 5, json!({"toolCallId": "c"}));
    let (steps, _) = talk.0.end_connection(Moment(10));
    assert_eq!(steps.len(), 1);
    let permission = talk.0.session(Some("s")).unwrap().permission(&5.into()).unwrap();
    assert_eq!(
        permission.settlement(),
        &Settlement::Cancelled { by: Decider::ConnectionEnd, at: Moment(10) }
    );
}

fn ask(talk: &mut Talk, id: i64, call: Value) {
    let params = json!({"sessionId": "s", "title": "Write?",
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
        "subject": {"type": "tool_call", "toolCall": call}});
    talk.say(Side::Agent, json!({"id": id, "method": "session/request_permission", "params": params}));
}

fn content_revision(talk: &Talk, id: i64) -> u64 {
    talk.0.session(Some("s")).unwrap().permission(&id.into()).unwrap().content_revision()
}

#[test]
fn only_changes_of_a_question_raise_its_content_revision() {
    let call = |key: &str, value: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"});
        update[key] = value;
        update
    };
    let text = json!({"type": "content", "content": {"type": "text", "text": "x"}});
    for (update, changes) in [
        (call("title", json!("Write")), true),
        (call("title", json!("Delete")), true),
        (call("rawInput", json!({"path": "/etc/passwd"})), true),
        (call("rawInput", json!({"path": "/w/a"})), false),
        (call("content", json!([text])), true),
        (call("locations", json!([{"path": "/w/b"}])), true),
        (call("kind", json!("delete")), true),
        (call("_meta", json!({"a": 1})), true),
        (call("status", json!("in_progress")), false),
        (call("rawOutput", json!("done")), false),
        (call("toolCallId", json!("other")), false),
        (json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": text}), true),
        (json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "rm -rf /"}), true),
        (json!({"sessionUpdate": "terminal_update", "terminalId": "u", "command": "rm -rf /"}), false),
        (json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "WA=="}), false),
        (
            json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "x"}}),
            false,
        ),
    ] {
        let mut talk = Talk::new();
        let terminal = json!({"type": "terminal", "terminalId": "t"});
        ask(&mut talk, 5, json!({"toolCallId": "c", "rawInput": {"path": "/w/a"}, "content": [terminal]}));
        let before = content_revision(&talk, 5);
        let is_new = update["title"] == "Write";
        if is_new {
            talk.update(call("status", json!("pending")));
        }
        let text = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}).to_string();
        let folded = talk.0.read(&text, Some(Side::Agent), Moment(9)).unwrap();
        let told = folded
            .changes()
            .unwrap()
            .iter()
            .any(|change| matches!(change, Change::Permission { event: RequestEvent::Changed, .. }));
        assert_eq!((content_revision(&talk, 5) > before, told), (changes, changes), "{update}");
    }
}

#[test]
fn a_question_about_the_same_call_changes_the_first_one_and_a_settled_one_stays() {
    let mut talk = Talk::new();
    ask(&mut talk, 5, json!({"toolCallId": "c"}));
    ask(&mut talk, 6, json!({"toolCallId": "c"}));
    let (first, second) = (content_revision(&talk, 5), content_revision(&talk, 6));
    talk.0.choose(&6.into(), "y", Decider::Remembered, Moment(9)).unwrap();
    ask(&mut talk, 7, json!({"toolCallId": "c", "title": "More"}));
    assert!(content_revision(&talk, 5) > first);
    assert_eq!(content_revision(&talk, 6), second);
    assert_eq!(content_revision(&talk, 7), content_revision(&talk, 5));
    let session = talk.0.session(Some("s")).unwrap();
    let answered = session.permission(&6.into()).unwrap();
    assert!(matches!(answered.settlement(), Settlement::Answered { by: Decider::Remembered, .. }));
    let text = serde_json::to_string(session).unwrap();
    assert_eq!(&serde_json::from_str::<switchboard_session::Session>(&text).unwrap(), session);
}

#[test]
fn questions_are_answered_here_once() {
    let mut talk = Talk::new();
    ask(&mut talk, 5, json!({"toolCallId": "c"}));
    assert_eq!(talk.0.question(&5.into()), Some((0, true)));
    assert!(talk.0.choose(&5.into(), "z", Decider::User, Moment(9)).is_err());
    assert_eq!(talk.0.question(&5.into()), Some((0, true)));
    talk.0.choose(&5.into(), "y", Decider::User, Moment(9)).unwrap();
    assert_eq!(talk.0.question(&5.into()), None);
    assert!(talk.0.dismiss(&5.into(), Decider::User, Moment(9)).is_err());
    ask(&mut talk, 6, json!({"toolCallId": "c"}));
    talk.0.dismiss(&6.into(), Decider::Rule("no writing".into()), Moment(9)).unwrap();
    let permission = talk.0.session(Some("s")).unwrap().permission(&6.into()).unwrap();
    let expected = Settlement::Cancelled { by: Decider::Rule("no writing".into()), at: Moment(9) };
    assert_eq!(permission.settlement(), &expected);
}

#[test]
fn a_message_tells_which_entry_it_is_about() {
    let mut talk = Talk::new();
    let chunk = |id: &str| {
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update":
            {"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": "x"}}}})
        .to_string()
    };
    let text = chunk("m-1");
    let folded = talk.0.read(&text, Some(Side::Agent), Moment(0)).unwrap();
    assert_eq!(folded.entry, Some((EntryKind::AgentMessage, "m-1".into())));
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {"sessionId": "s",
        "title": "?", "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
        "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c"}}}})
    .to_string();
    let folded = talk.0.read(&ask, Some(Side::Agent), Moment(0)).unwrap();
    assert_eq!(folded.entry, Some((EntryKind::ToolCall, "c".into())));
}

#[test]
fn sessions_can_be_limited_and_removed() {
    let info = |session: &str| {
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update":
            {"sessionUpdate": "session_info_update", "title": session}}})
        .to_string()
    };
    let mut conversation = Conversation::new(WireFormat::Any).with_session_limit(2);
    for session in ["a", "b"] {
        conversation.read(&info(session), None, Moment(0)).unwrap();
    }
    let refused = conversation.read(&info("c"), None, Moment(0)).map(drop);
    assert_eq!(refused, Err(ConversationError::TooManySessions { limit: 2 }));
    conversation.remove(Some("a"));
    assert_eq!((conversation.len(), conversation.session(Some("a")).is_some()), (1, false));
    let text = info("c");
    let step = conversation.read(&text, None, Moment(0)).unwrap().step.unwrap();
    assert_eq!(conversation.session_at(step.session).unwrap().1.title(), Some("c"));
    let mut ids: Vec<_> = conversation.sessions().map(|(id, _)| id.unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["b", "c"]);
}

#[test]
fn a_session_of_a_session_knows_where_it_belongs() {
    let mut talk = Talk::new();
    talk.update(
        json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Look", "toolCallId": "c"}),
    );
    let parent = talk.0.parent("child").unwrap();
    assert_eq!((&*parent.session, parent.tool_call.as_deref()), ("s", Some("c")));
    assert_eq!(talk.0.children("s").map(|(child, _)| child).collect::<Vec<_>>(), ["child"]);
    assert_eq!(talk.0.parent("s"), None);
}

#[test]
fn dialect_evidence_decides_whether_metadata_is_merged() {
    let meta = |talk: &mut Talk| {
        for value in [json!({"a": 1}), json!({"b": 2})] {
            talk.update(json!({"sessionUpdate": "agent_message", "messageId": "m", "_meta": value}));
        }
        let session = talk.0.session(Some("s")).unwrap();
        let json: Value = serde_json::from_str(&session.to_json(None)).unwrap();
        json["entries"][0]["_meta"].clone()
    };
    let mut talk = Talk::new();
    talk.prompt(1);
    talk.say(Side::Agent, json!({"id": 1, "result": {}}));
    assert_eq!(meta(&mut talk), json!({"b": 2}));
    // Terminals exist only in the newest dialect, so the empty response was an omission.
    talk.update(json!({"sessionUpdate": "terminal_update", "terminalId": "t"}));
    assert_eq!(meta(&mut talk), json!({"a": 1, "b": 2}));
    talk.say(Side::Agent, json!({"id": 1, "result": {}}));
    assert_eq!(talk.0.dialect().wire_format(), WireFormat::Newest);
}
