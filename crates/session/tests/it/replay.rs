//! Replay of history.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_acp::WireFormat;
use switchboard_session::{Change, EntryKind, Origin, Session};

use crate::generate::{apply, fold, json_of, updates};

fn message(kind: &str, id: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "messageId": id, "content": [{"type": "text", "text": text}]})
}

fn replay<'u>(session: &mut Session, updates: impl IntoIterator<Item = &'u Value>) -> Vec<Change> {
    session.begin_replay();
    for update in updates {
        assert!(apply(session, update).is_empty());
    }
    session.end_replay().iter().cloned().collect()
}

fn texts(session: &Session) -> Vec<String> {
    let text = |entry: &switchboard_session::Entry| {
        let text = entry.as_message().map(|message| message.content().text());
        text.or(entry.as_tool_call().and_then(|call| call.title().map(str::to_owned)))
    };
    session.entries().filter_map(text).collect()
}

#[test]
fn a_reopened_session_shows_everything_once() {
    let history = [message("user_message", "u1", "Hi"), message("agent_message", "a1", "Hello")];
    let mut session = Session::new(WireFormat::Any);
    assert_eq!(replay(&mut session, &history), [Change::Replayed]);
    assert_eq!(texts(&session), ["Hi", "Hello"]);
    assert!(session.entries().all(|entry| entry.origin() == Origin::Replayed));
    apply(&mut session, &message("user_message", "u2", "More"));
    assert_eq!(session.entry(2).unwrap().origin(), Origin::Live);

    // Replaying again changes nothing, though the live message is history now.
    let revision = session.revision();
    let history = [&history[..], &[message("user_message", "u2", "More")]].concat();
    assert_eq!(replay(&mut session, &history), []);
    assert_eq!(
        (texts(&session), session.revision()),
        (vec!["Hi".into(), "Hello".into(), "More".into()], revision)
    );
    assert_eq!(session.entry(2).unwrap().origin(), Origin::Live);
}

#[test]
fn the_present_state_stays_readable_until_the_replay_ends() {
    let mut session = fold(WireFormat::Any, &[message("agent_message", "a1", "old")]);
    session.begin_replay();
    apply(&mut session, &message("agent_message", "a1", "new"));
    assert_eq!(texts(&session), ["old"]);
    assert!(session.is_replaying());
    let mut failed = session.clone();
    failed.abandon_replay();
    assert_eq!((texts(&failed), failed.is_replaying()), (vec!["old".to_owned()], false));
    session.end_replay();
    assert_eq!(texts(&session), ["new"]);
}

#[test]
fn without_ids_duplicates_are_known_by_kind_order_and_content() {
    let chunk = |id: &str, text: &str| json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": text}});
    let mut session = fold(
        WireFormat::Any,
        &[
            message("user_message", "u1", "yes"),
            chunk("a1", "Do"),
            chunk("a1", "ne"),
            message("user_message", "u2", "yes"),
        ],
    );
    let history = |run: &str| {
        [
            message("user_message", &format!("{run}-1"), "earlier"),
            message("user_message", &format!("{run}-2"), "yes"),
            message("agent_message", &format!("{run}-3"), "Done"),
            message("user_message", &format!("{run}-4"), "yes"),
        ]
    };
    assert_eq!(replay(&mut session, &history("x")), [Change::Replayed]);
    assert_eq!(texts(&session), ["earlier", "yes", "Done", "yes"]);
    let ids: Vec<_> = session.entries().map(|entry| entry.id().to_owned()).collect();
    assert_eq!(ids, ["x-1", "u1", "a1", "u2"]);
    assert_eq!(replay(&mut session, &history("y")), []);
    assert_eq!(texts(&session), ["earlier", "yes", "Done", "yes"]);
    // Both the old and the new id refer to the entry.
    for id in ["a1", "x-3", "y-3"] {
        apply(&mut session, &chunk(id, "!"));
    }
    assert_eq!(texts(&session), ["earlier", "yes", "Done!!!", "yes"]);
    assert_eq!(session.position(EntryKind::AgentMessage, "y-3"), Some(2));
}

#[test]
fn entries_missing_from_a_replay_are_kept() {
    let mut session = fold(
        WireFormat::Any,
        &[
            message("user_message", "u1", "Hi"),
            message("agent_thought", "t1", "hm"),
            message("agent_message", "a1", "Hello"),
        ],
    );
    let history = [
        message("user_message", "u0", "Before"),
        message("user_message", "u1", "Hi"),
        message("agent_message", "a1", "Hello"),
    ];
    replay(&mut session, &history);
    assert_eq!(texts(&session), ["Before", "Hi", "hm", "Hello"]);
    assert_eq!(replay(&mut session, &[]), []);
    assert_eq!(session.len(), 4);
}

#[test]
fn titles_plans_and_states_are_taken_over_once() {
    let history = [
        json!({"sessionUpdate": "session_info_update", "title": "T"}),
        json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": []}}),
        json!({"sessionUpdate": "_vendor", "n": 1}),
        json!({"sessionUpdate": "_vendor", "n": 1}),
        json!({"sessionUpdate": "state_update", "state": "idle"}),
    ];
    let mut session = fold(WireFormat::Any, &[json!({"sessionUpdate": "_vendor", "n": 1})]);
    assert_eq!(replay(&mut session, &history).len(), 4);
    let json = json_of(&session);
    assert_eq!((json["title"].clone(), json["unknown"].as_array().unwrap().len()), (json!("T"), 2));
    assert_eq!(replay(&mut session, &history), []);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn replaying_all_that_happened_changes_nothing((dialect, updates) in updates()) {
        let mut session = fold(dialect, &updates);
        let before = json_of(&session);
        let revision = session.revision();
        prop_assert_eq!(replay(&mut session, &updates), []);
        prop_assert_eq!(json_of(&session), before);
        prop_assert_eq!(session.revision(), revision);
    }

    #[test]
    fn a_replay_into_nothing_is_the_session((dialect, updates) in updates()) {
        let mut session = Session::new(dialect);
        replay(&mut session, &updates);
        let mut json = json_of(&session);
        for entry in json["entries"].as_array_mut().unwrap() {
            entry.as_object_mut().unwrap().remove("replayed");
        }
        prop_assert_eq!(json, json_of(&fold(dialect, &updates)));
    }
}
