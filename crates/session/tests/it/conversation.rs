//! Messages of a connection, from both sides.

use serde_json::{Value, json};
use switchboard_acp::WireFormat;
use switchboard_session::{
    Conversation, ConversationError, Decider, Folded, Moment, Permission, SessionError, Settlement, Side,
};

type Outcome = Result<Folded<'static>, ConversationError>;

fn agent(conversation: &mut Conversation, message: Value) -> Outcome {
    say(conversation, Side::Agent, &message)
}

fn client(conversation: &mut Conversation, message: Value) -> Outcome {
    say(conversation, Side::Client, &message)
}

fn say(conversation: &mut Conversation, from: Side, message: &Value) -> Outcome {
    let text = message.to_string();
    let Folded { step, entry, left_out, ended } = conversation.read(&text, Some(from), Moment(0))?;
    let entry = entry.map(|(kind, id)| (kind, id.into_owned().into()));
    Ok(Folded { step, entry, left_out, ended })
}

fn update(session: &str, update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
}

fn permission(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {"sessionId": "s",
        "title": "?", "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}})
}

fn chosen(id: i64, option: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "selected", "optionId": option}}})
}

#[test]
fn sessions_are_kept_apart_and_in_order() {
    let mut conversation = Conversation::new(WireFormat::Any);
    for (session, title) in [("b", "1"), ("a", "2"), ("b", "3")] {
        let info = json!({"sessionUpdate": "session_info_update", "title": title});
        agent(&mut conversation, update(session, info)).unwrap();
    }
    let titles: Vec<_> = conversation.sessions().map(|(id, session)| (id, session.title())).collect();
    assert_eq!(titles, [(Some("b"), Some("3")), (Some("a"), Some("2"))]);
}

#[test]
fn answers_tell_of_a_copy_and_of_a_title() {
    let mut conversation = Conversation::new(WireFormat::Any);
    let ask = |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let answer = |id: u64, result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let fork = ask(1, "session/fork", json!({"sessionId": "s", "cwd": "/w"}));
    client(&mut conversation, fork).unwrap();
    let option = json!({"type": "boolean", "configId": "c", "name": "C", "currentValue": true});
    agent(&mut conversation, answer(1, json!({"sessionId": "copy", "configOptions": [option]}))).unwrap();
    assert_eq!(conversation.session(Some("copy")).unwrap().config_options().len(), 1);

    let name = |id: u64| ask(id, "session/set_title", json!({"sessionId": "copy", "title": "wanted"}));
    client(&mut conversation, name(2)).unwrap();
    agent(&mut conversation, answer(2, json!({"title": "given"}))).unwrap();
    assert_eq!(conversation.session(Some("copy")).unwrap().title(), Some("given"));
    client(&mut conversation, name(3)).unwrap();
    let refusal = json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32603, "message": "no"}});
    agent(&mut conversation, refusal).unwrap();
    client(&mut conversation, name(4)).unwrap();
    agent(&mut conversation, answer(4, json!({"title": 7}))).unwrap();
    assert_eq!(conversation.session(Some("copy")).unwrap().title(), Some("given"));
}

#[test]
fn ids_of_both_sides_are_separate() {
    let mut conversation = Conversation::new(WireFormat::Any);
    let prompt = json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}});
    client(&mut conversation, prompt).unwrap();
    agent(&mut conversation, permission(1)).unwrap();
    agent(&mut conversation, json!({"jsonrpc": "2.0", "id": 1, "result": {"messageId": "u"}})).unwrap();
    assert_eq!(conversation.session(Some("s")).unwrap().pending_permissions().count(), 1);
    client(&mut conversation, chosen(1, "y")).unwrap();
    assert!(conversation.session(Some("s")).unwrap().permission(&1.into()).unwrap().is_granted());
}

#[test]
fn an_answer_that_is_no_choice_settles_the_question_and_is_no_approval() {
    for (result, expected) in [
        (json!({"outcome": {"outcome": "selected", "optionId": "z"}}), "the option \"z\" was not offered"),
        (json!({"outcome": {"outcome": "granted"}}), "the outcome \"granted\" is unknown"),
        (json!({"outcome": {"outcome": "selected"}}), "the answer cannot be read"),
        (json!({"outcome": 7}), "the answer cannot be read"),
        (json!(null), "the answer cannot be read"),
    ] {
        for strict in [false, true] {
            let mut conversation = Conversation::new(WireFormat::Any);
            if strict {
                conversation = conversation.strict();
            }
            agent(&mut conversation, permission(1)).unwrap();
            let folded =
                client(&mut conversation, json!({"jsonrpc": "2.0", "id": 1, "result": result})).unwrap();
            assert_eq!(folded.left_out.is_empty(), !expected.contains("cannot"), "{result}");
            let session = conversation.session(Some("s")).unwrap();
            let permission = session.permission(&1.into()).unwrap();
            assert!(!permission.is_granted() && session.pending_permissions().count() == 0);
            let Settlement::NotAnApproval { reason, by, .. } = permission.settlement() else {
                panic!("{:?}", permission.settlement());
            };
            assert!(reason.contains(expected), "{reason}");
            assert_eq!(*by, Decider::Client);
        }
    }
}

#[test]
fn either_side_can_cancel_and_a_late_answer_is_dropped() {
    for (from, message, by) in [
        (
            Side::Client,
            json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}),
            Side::Client,
        ),
        (
            Side::Agent,
            json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}),
            Side::Agent,
        ),
        (
            Side::Client,
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "no"}}),
            Side::Client,
        ),
    ] {
        let mut conversation = Conversation::new(WireFormat::Any);
        agent(&mut conversation, permission(1)).unwrap();
        conversation.read(&message.to_string(), Some(from), Moment(7)).unwrap();
        assert_eq!(client(&mut conversation, chosen(1, "y")), Ok(Folded::default()));
        let session = conversation.session(Some("s")).unwrap();
        let settlement = session.permission(&1.into()).unwrap().settlement();
        assert_eq!(settlement, &Settlement::Cancelled { by: by.into(), at: Moment(7) }, "{message}");
    }
}

#[test]
fn the_sender_is_guessed_where_nobody_says_it() {
    let mut conversation = Conversation::new(WireFormat::Any);
    for message in [permission(1), chosen(1, "y")] {
        conversation.read(&message.to_string(), None, Moment(0)).unwrap();
    }
    assert!(conversation.session(Some("s")).unwrap().permission(&1.into()).unwrap().is_granted());
}

#[test]
fn a_resume_with_replay_ends_with_its_answer() {
    let message = |id: &str| json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": "x"}});
    let resume = json!({"jsonrpc": "2.0", "id": 3, "method": "session/resume",
        "params": {"sessionId": "s", "cwd": "/w", "replayFrom": {"type": "start"}}});
    let mut conversation = Conversation::new(WireFormat::Any);
    agent(&mut conversation, update("s", message("m1"))).unwrap();
    client(&mut conversation, resume.clone()).unwrap();
    agent(&mut conversation, update("s", message("m1"))).unwrap();
    agent(&mut conversation, update("s", message("m2"))).unwrap();
    assert_eq!(conversation.session(Some("s")).unwrap().len(), 1);
    agent(&mut conversation, json!({"jsonrpc": "2.0", "id": 3, "result": {"configOptions": []}})).unwrap();
    let session = conversation.session(Some("s")).unwrap();
    assert_eq!((session.len(), session.is_replaying()), (2, false));
    assert_eq!(session.entry(0).unwrap().as_message().unwrap().content().text(), "x");

    client(&mut conversation, resume).unwrap();
    agent(&mut conversation, update("s", message("m3"))).unwrap();
    agent(&mut conversation, json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32602, "message": "no"}}))
        .unwrap();
    assert_eq!(conversation.session(Some("s")).unwrap().len(), 2);
}

#[test]
fn the_answer_to_a_prompt_tells_the_dialect() {
    let meta = |meta| update("s", json!({"sessionUpdate": "agent_message", "messageId": "m", "_meta": meta}));
    for (answer, expected) in
        [(json!({}), json!({"b": 2})), (json!({"messageId": "u"}), json!({"a": 1, "b": 2}))]
    {
        let mut conversation = Conversation::new(WireFormat::Any);
        let prompt = json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}});
        client(&mut conversation, prompt).unwrap();
        agent(&mut conversation, json!({"jsonrpc": "2.0", "id": 1, "result": answer})).unwrap();
        agent(&mut conversation, meta(json!({"a": 1}))).unwrap();
        agent(&mut conversation, meta(json!({"b": 2}))).unwrap();
        let json: Value =
            serde_json::from_str(&conversation.session(Some("s")).unwrap().to_json(None)).unwrap();
        assert_eq!(json["entries"][0]["_meta"], expected);
    }
}

#[test]
fn malformed_updates_change_nothing() {
    let mut conversation = Conversation::new(WireFormat::Any);
    let bad = update("s", json!({"sessionUpdate": "tool_call_update", "title": "evil"}));
    assert!(matches!(agent(&mut conversation, bad), Err(ConversationError::Malformed(_))));
    assert_eq!(conversation.sessions().count(), 0);
}

#[test]
fn a_question_that_waits_keeps_its_id() {
    let mut conversation = Conversation::new(WireFormat::Any);
    agent(&mut conversation, permission(5)).unwrap();
    let mut again = permission(5);
    again["params"]["title"] = "Delete everything?".into();
    let refused = agent(&mut conversation, again.clone());
    assert!(matches!(&refused, Err(ConversationError::Refused(SessionError::IdInUse { .. }))), "{refused:?}");
    // The client refuses it under the same id. That is not an answer to the question.
    let error = json!({"jsonrpc": "2.0", "id": 5, "error": {"code": -32600, "message": "the id is in use"}});
    client(&mut conversation, error.clone()).unwrap();
    let titles = |conversation: &Conversation| {
        let session = conversation.session(Some("s")).unwrap();
        let title = |permission: &Permission| {
            (permission.title().to_owned(), permission.settlement().is_pending(), permission.is_granted())
        };
        session.permissions().map(title).collect::<Vec<_>>()
    };
    assert_eq!(titles(&conversation), [("?".to_owned(), true, false)]);
    client(&mut conversation, chosen(5, "y")).unwrap();
    assert_eq!(titles(&conversation), [("?".to_owned(), false, true)]);
    // The id is free again.
    agent(&mut conversation, again).unwrap();
    client(&mut conversation, error).unwrap();
    assert_eq!(titles(&conversation)[1], ("Delete everything?".to_owned(), false, false));
}

#[test]
fn the_answer_to_a_question_that_was_taken_back_is_not_the_next_ones() {
    let mut conversation = Conversation::new(WireFormat::Any);
    let withdrawn = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 5}});
    let dismissed = json!({"jsonrpc": "2.0", "id": 5, "result": {"outcome": {"outcome": "cancelled"}}});
    agent(&mut conversation, permission(5)).unwrap();
    agent(&mut conversation, withdrawn).unwrap();
    agent(&mut conversation, permission(5)).unwrap();
    client(&mut conversation, dismissed).unwrap();
    let pending = conversation.session(Some("s")).unwrap().pending_permissions().count();
    assert_eq!(pending, 1, "the first answer is that to the first question");
    client(&mut conversation, chosen(5, "y")).unwrap();
    let session = conversation.session(Some("s")).unwrap();
    assert_eq!(session.permissions().map(Permission::is_granted).collect::<Vec<_>>(), [false, true]);
}

/// A line of a recording and its sender.
fn said(from: Side, mut message: Value) -> (Side, String) {
    message["jsonrpc"] = json!("2.0");
    (from, message.to_string())
}

/// Returns the result of each line.
fn read_lines(
    conversation: &mut Conversation,
    lines: &[(Side, String)],
) -> Vec<Result<(), ConversationError>> {
    let mut all = Vec::new();
    for (from, line) in lines {
        conversation.read_line(line, Some(*from), Moment(0), |_, folded| all.push(folded.map(drop)));
    }
    all
}

#[test]
fn a_recording_of_version_1_is_an_error_that_names_what_translates_it() {
    let hello = |version: u16, result: Value| {
        let params = json!({"protocolVersion": version});
        [
            said(Side::Client, json!({"id": 0, "method": "initialize", "params": params})),
            said(Side::Agent, json!({"id": 0, "result": result})),
        ]
    };
    let update = |update: Value| {
        said(Side::Agent, json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}))
    };
    let chunk = update(json!({"sessionUpdate": "agent_message_chunk", "messageId": "m",
        "content": {"type": "text", "text": "hi"}}));
    let call = update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"}));
    let ended = said(Side::Agent, json!({"id": 2, "result": {"stopReason": "end_turn"}}));
    let of_v1 = json!({"protocolVersion": 1, "agentCapabilities": {}});
    let mut conversation = Conversation::new(WireFormat::Any);
    assert_eq!(read_lines(&mut conversation, &hello(1, of_v1.clone())), [Ok(()), Ok(())]);
    let without_id =
        update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}));
    let refused = read_lines(&mut conversation, &[chunk.clone(), call.clone(), ended.clone(), without_id]);
    assert_eq!(refused, [const { Err(ConversationError::Version1) }; 4]);
    assert!(refused[0].as_ref().unwrap_err().to_string().contains("switchboard_bridge::RecordingBridge"));
    assert_eq!(conversation.len(), 0, "nothing is folded");
    // An agent that echoes the number but speaks version 1.
    let echoed = json!({"protocolVersion": 2, "agentCapabilities": {}});
    read_lines(&mut conversation, &hello(2, echoed));
    assert_eq!(
        read_lines(&mut conversation, std::slice::from_ref(&chunk)),
        [Err(ConversationError::Version1)]
    );
    // A batch is refused entry by entry.
    let (from, batch) = (Side::Agent, format!("[{},{}]", chunk.1, call.1));
    let refused = read_lines(&mut conversation, &[(from, batch)]);
    assert_eq!(refused, [const { Err(ConversationError::Version1) }; 2]);
    // The next connection is judged on its own.
    let of_v2 = json!({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {}});
    read_lines(&mut conversation, &hello(2, of_v2));
    assert_eq!(read_lines(&mut conversation, std::slice::from_ref(&chunk)), [Ok(())]);
    assert_eq!(conversation.len(), 1);
    // Unknown messages are kept once the version is clear.
    assert_eq!(read_lines(&mut conversation, std::slice::from_ref(&call)), [Ok(())]);
    // A refused handshake has no effect, and another follows.
    let [asked, _] = hello(2, json!({}));
    let refused = said(Side::Agent, json!({"id": 0, "error": {"code": -32602, "message": "version 1 only"}}));
    read_lines(&mut conversation, &[asked, refused]);
    assert_eq!(read_lines(&mut conversation, &[chunk]), [Ok(())]);
}
