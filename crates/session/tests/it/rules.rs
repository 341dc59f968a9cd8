//! Individual rules of the protocol.

use serde_json::json;
use switchboard_acp::{Base64, Field, WireFormat, v2};
use switchboard_session::{Activity, Change, ContentChange, EntryKind, Session};

use crate::generate::{apply, fold, json_of};

#[test]
fn late_chunks_go_to_their_message_wherever_it_stands() {
    let chunk = |id: &str, text: &str| json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": text}});
    let session = fold(
        WireFormat::Any,
        &[
            chunk("m1", "a"),
            chunk("m2", "x"),
            json!({"sessionUpdate": "state_update", "state": "idle"}),
            chunk("m1", "b"),
        ],
    );
    let text = |id: &str| session.message(EntryKind::AgentMessage, id).unwrap().content().text();
    assert_eq!((text("m1"), text("m2")), ("ab".to_owned(), "x".to_owned()));
    assert_eq!(session.activity(), Activity::Idle);
}

#[test]
fn chunk_metadata_stays_with_its_item() {
    let session = fold(
        WireFormat::Any,
        &[
            json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "a"}}),
            json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "b"},
                "_meta": {"seq": 2}, "vendor": true}),
        ],
    );
    let message = session.message(EntryKind::AgentMessage, "m").unwrap();
    assert!(message.meta().is_none());
    let metas: Vec<_> = message
        .content()
        .items()
        .map(|item| item.chunk_meta().map(|meta| meta.as_raw().to_string()))
        .collect();
    assert_eq!(metas, [None, Some(r#"{"seq":2}"#.to_owned())]);
    let extra = message.content().items_from(1).next().unwrap().chunk_extra().unwrap();
    assert_eq!(extra.get("vendor").unwrap().as_str(), "true");
}

#[test]
fn terminal_bytes_may_split_a_character_and_a_snapshot_replaces_them() {
    let chunk =
        |data: &str| json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data});
    let mut session = fold(WireFormat::Newest, &[chunk("ww=="), chunk("qQ==")]);
    assert_eq!(session.terminal("t").unwrap().output().to_vec(), "é".as_bytes());
    apply(
        &mut session,
        &json!({"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": "WA=="}}),
    );
    assert_eq!(session.terminal("t").unwrap().output().to_vec(), b"X");
}

#[test]
fn a_whole_message_that_says_what_was_streamed_changes_nothing() {
    let texts = |texts: &[&str]| -> Vec<v2::ContentBlock<'static>> {
        texts.iter().map(|text| v2::ContentBlock::text((*text).to_owned())).collect()
    };
    let mut session = Session::new(WireFormat::Any);
    for text in ["Hel", "lo", ""] {
        let chunk = v2::ContentChunk::new("m", v2::ContentBlock::text(text));
        session.apply(&v2::SessionUpdate::AgentMessageChunk(chunk));
    }
    let mut whole = |blocks| {
        let mut message = v2::MessageUpdate::new("m");
        message.content = Field::Set(blocks);
        let changes = session.apply(&v2::SessionUpdate::AgentMessage(message));
        let content = changes.iter().next().map(|change| match change {
            Change::Entry(change) => change.content,
            other => panic!("{other:?}"),
        });
        (content, session.entry(0).unwrap().as_message().unwrap().content().text())
    };
    assert_eq!(whole(texts(&["Hello"])), (None, "Hello".to_owned()));
    assert_eq!(whole(texts(&["He", "llo"])), (None, "Hello".to_owned()));
    assert_eq!(whole(texts(&["Hello!"])), (Some(ContentChange::Replaced(1)), "Hello!".to_owned()));
    assert_eq!(whole(texts(&["Hello"])), (Some(ContentChange::Replaced(1)), "Hello".to_owned()));
    assert_eq!(whole(Vec::new()), (Some(ContentChange::Replaced(0)), String::new()));
    assert_eq!(whole(Vec::new()), (None, String::new()));
}

#[test]
fn a_terminal_that_tells_its_output_again_changes_nothing() {
    let mut session = Session::new(WireFormat::Any);
    let chunk = v2::TerminalOutputChunk::new("t", Base64::from_bytes(b"ab"));
    session.apply(&v2::SessionUpdate::TerminalOutputChunk(chunk));
    let mut tell = |bytes: &[u8]| {
        let mut update = v2::TerminalUpdate::new("t");
        update.output = Field::Set(v2::TerminalOutput::new(Base64::from_bytes(bytes)));
        session.apply(&v2::SessionUpdate::TerminalUpdate(Box::new(update))).len()
    };
    assert_eq!([tell(b"ab"), tell(b"abc"), tell(b"abc"), tell(b"ab")], [0, 1, 0, 1]);
}

#[test]
fn a_reference_to_a_terminal_resolves_when_the_terminal_comes() {
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
        "content": [{"type": "terminal", "terminalId": "t"}]});
    let mut session = fold(WireFormat::Newest, &[call]);
    let ids: Vec<_> = session.tool_call("c").unwrap().terminal_ids().map(str::to_owned).collect();
    assert_eq!(ids, ["t"]);
    assert!(session.terminal("t").is_none());
    apply(&mut session, &json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls"}));
    assert_eq!(session.terminal(&ids[0]).unwrap().command(), Some("ls"));
}

#[test]
fn an_unknown_state_is_not_idle_and_a_repeated_one_is_no_second_completion() {
    let state = |state: &str| json!({"sessionUpdate": "state_update", "state": state});
    let mut session = fold(WireFormat::Any, &[state("_dreaming")]);
    assert_eq!(session.activity(), Activity::Unknown);
    let idle = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"});
    assert!(!apply(&mut session, &idle).is_empty());
    assert!(apply(&mut session, &idle).is_empty());
    apply(&mut session, &state("running"));
    assert_eq!(session.stop_reason(), None);
}

#[test]
fn a_redacted_message_keeps_its_place() {
    let session = fold(
        WireFormat::Spec,
        &[
            json!({"sessionUpdate": "agent_message", "messageId": "m1", "content": [{"type": "text", "text": "secret"}]}),
            json!({"sessionUpdate": "agent_message", "messageId": "m2"}),
            json!({"sessionUpdate": "agent_message", "messageId": "m1", "content": null}),
        ],
    );
    let json = json_of(&session);
    assert_eq!(json["entries"][0], json!({"type": "agent_message", "messageId": "m1", "content": []}));
    assert!(!session.to_json(None).contains("secret"));
}

#[test]
fn metadata_is_merged_while_the_dialect_is_unknown_and_replaced_once_it_is_known() {
    let meta = |meta| json!({"sessionUpdate": "agent_message", "messageId": "m", "_meta": meta});
    let mut session = fold(WireFormat::Any, &[meta(json!({"a": 1})), meta(json!({"b": 2}))]);
    assert_eq!(json_of(&session)["entries"][0]["_meta"], json!({"a": 1, "b": 2}));
    session.peer_replaces_meta();
    apply(&mut session, &meta(json!({"c": 3})));
    assert_eq!(json_of(&session)["entries"][0]["_meta"], json!({"c": 3}));
}

#[test]
fn metadata_and_unknown_keys_of_updates_are_kept() {
    let updates = [
        json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": []},
            "_meta": {"a": 1}, "vendor": 1}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [], "_meta": {"a": 2}, "vendor": 2}),
        json!({"sessionUpdate": "config_option_update", "configOptions": [], "_meta": {"a": 3}, "vendor": 3}),
        json!({"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": "WA==", "_meta": {"a": 4}, "vendor": 4}}),
        json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "WQ==", "_meta": {"a": 5}}),
        json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "", "vendor": 5}),
    ];
    let mut session = fold(WireFormat::Newest, &updates);
    let json = json_of(&session);
    assert_eq!(json["planUpdates"], json!([{"planId": "p", "_meta": {"a": 1}, "vendor": 1}]));
    assert_eq!(json["plans"], json!([{"type": "items", "planId": "p", "entries": []}]));
    assert_eq!(json["commandsUpdate"], json!({"_meta": {"a": 2}, "vendor": 2}));
    assert_eq!(json["configOptionsUpdate"], json!({"_meta": {"a": 3}, "vendor": 3}));
    assert_eq!(json["entries"][0]["output"], json!({"data": "WFk=", "_meta": {"a": 4}, "vendor": 4}));
    let chunks: Vec<_> = (session.terminal("t").unwrap().chunks())
        .map(|(place, attached)| {
            let vendor = attached.extra.get("vendor").map(|value| value.as_str().to_owned());
            (place, attached.meta.as_ref().map(|meta| meta.as_raw().to_string()), vendor)
        })
        .collect();
    assert_eq!(chunks, [(1, Some(r#"{"a":5}"#.into()), None), (2, None, Some("5".into()))]);
    let stored = serde_json::to_string(&session).unwrap();
    assert_eq!(serde_json::from_str::<Session>(&stored).unwrap(), session);
    // A response that lists the same commands again removes nothing.
    assert!(session.apply_lists(None, Some(&[])).is_empty());
    assert!(session.commands_attached().is_some());
}

#[test]
fn of_a_long_output_the_latest_bytes_are_kept_and_the_others_are_counted() {
    let chunk = |data: &str, n: u32| json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data, "_meta": {"n": n}});
    let mut session = Session::new(WireFormat::Newest);
    session.limit_terminal_output(4);
    for (number, data) in ["YWJj", "ZGVm", "Z2g="].into_iter().enumerate() {
        apply(&mut session, &chunk(data, number as u32));
    }
    let terminal = session.terminal("t").unwrap();
    assert_eq!((terminal.output().to_vec().as_slice(), terminal.output().dropped()), (&b"efgh"[..], 4));
    assert_eq!(terminal.chunks().map(|(place, _)| place).collect::<Vec<_>>(), [2]);
    assert_eq!(json_of(&session)["entries"][0]["outputDropped"], 4);
    let stored = serde_json::to_string(&session).unwrap();
    let mut restored: Session = serde_json::from_str(&stored).unwrap();
    assert_eq!(restored, session);
    for session in [&mut session, &mut restored] {
        apply(session, &chunk("aWo=", 9));
        assert_eq!(session.terminal("t").unwrap().output().to_vec(), b"ghij");
    }
    apply(
        &mut session,
        &json!({"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": "WA=="}}),
    );
    let output = session.terminal("t").unwrap().output();
    assert_eq!((output.to_vec().as_slice(), output.dropped()), (&b"X"[..], 0));
}

#[test]
fn stored_sessions_of_other_versions_are_refused() {
    let text = serde_json::to_string(&Session::new(WireFormat::Any)).unwrap();
    let other = text.replace(r#""version":1"#, r#""version":99"#);
    let error = serde_json::from_str::<Session>(&other).unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
    let damaged = text.replace(r#""dialect":"any""#, r#""dialect":"none""#);
    assert!(serde_json::from_str::<Session>(&damaged).unwrap_err().to_string().contains("dialect"));
}
