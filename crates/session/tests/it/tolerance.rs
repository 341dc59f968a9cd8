//! Malformed optional parts are left out, and the rest applies.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_acp::{Moment, Side, Wire, WireFormat, v2};
use switchboard_session::{Conversation, ConversationError, Settlement};

use crate::generate::{json_of, updates};

fn message(update: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
        .to_string()
}

/// Returns the update without its invalid parts, found by repeated strict parsing. `None` if nothing is left.
fn repaired(mut update: Value, format: WireFormat) -> Option<Value> {
    loop {
        let text = update.to_string();
        let Err(error) = v2::SessionUpdate::decode(&text, format) else { return Some(update) };
        remove(&mut update, &error.diagnostic().pointer)?;
    }
}

/// Removes a value. A list that would become empty is removed itself, because an empty one means to clear.
fn remove(value: &mut Value, pointer: &str) -> Option<()> {
    let (parent, key) = pointer.rsplit_once('/')?;
    match value.pointer_mut(parent)? {
        Value::Object(object) => drop(object.remove(&key.replace("~1", "/").replace("~0", "~"))?),
        Value::Array(items) if items.len() > 1 => drop(items.remove(key.parse().ok()?)),
        Value::Array(_) => return remove(value, parent),
        _ => return None,
    }
    Some(())
}

/// Collects all pointers in a value except tags, which determine the meaning of the rest.
fn places(value: &Value, pointer: &str, found: &mut Vec<String>) {
    if !["/type", "/sessionUpdate", "/operation", "/state"].iter().any(|tag| pointer.ends_with(tag)) {
        found.push(pointer.to_owned());
    }
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                places(value, &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn junk() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(7),
        json!(-1.5),
        json!("x"),
        json!(true),
        json!([]),
        json!([7]),
        json!({}),
        json!({"type": 7}),
        json!({"path": 7}),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn reading_tolerantly_is_reading_strictly_without_the_faulty_parts(
        (format, updates) in updates(),
        faults in prop::collection::vec((any::<prop::sample::Index>(), junk()), 60),
    ) {
        let mut tolerant = Conversation::new(format);
        let mut strict = Conversation::new(format).strict();
        for (mut update, (place, junk)) in updates.into_iter().zip(faults) {
            let mut all = Vec::new();
            places(&update, "", &mut all);
            let place: &String = place.get(&all);
            // A relative path is kept, though it violates the rules.
            let junk = if place.ends_with("/path") { json!(7) } else { junk };
            *update.pointer_mut(place).unwrap() = junk;
            let text = message(&update);
            let folded = tolerant.read(&text, Some(Side::Agent), Moment(0));
            match repaired(update.clone(), format) {
                Some(without) => {
                    prop_assert!(folded.is_ok(), "{:?} in {}", folded, update);
                    let folded = folded.unwrap();
                    prop_assert_eq!(folded.left_out.is_empty(), without == update, "{}", update);
                    for diagnostic in &folded.left_out {
                        prop_assert!(diagnostic.pointer.starts_with("/params/update/"), "{}", diagnostic);
                    }
                    let without = message(&without);
                    prop_assert!(strict.read(&without, Some(Side::Agent), Moment(0)).is_ok());
                }
                None => prop_assert!(matches!(folded, Err(ConversationError::Malformed(_))), "{}", update),
            }
            let of = |conversation: &Conversation| conversation.session(Some("s")).map(|session| json_of(session));
            prop_assert_eq!(of(&tolerant), of(&strict), "{}", update);
        }
    }
}

#[test]
fn a_question_with_a_malformed_optional_part_is_a_question() {
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let call = |key: &str, value: Value| {
        let mut call = json!({"toolCallId": "c", "title": "Write", "rawInput": {"path": "/w/a"}});
        call[key] = value;
        json!({"sessionId": "s", "title": "Write?", "options": options, "subject": {"type": "tool_call", "toolCall": call}})
    };
    let with = |key: &str, value: Value| {
        let mut params = call("title", json!("Write"));
        params[key] = value;
        params
    };
    for (params, pointer) in [
        (call("locations", json!([{"path": "relative"}])), "/params/subject/toolCall/locations/0/path"),
        (call("_meta", json!(1)), "/params/subject/toolCall/_meta"),
        (
            call("content", json!([7, {"type": "content", "content": {"type": "text", "text": "x"}}])),
            "/params/subject/toolCall/content/0",
        ),
        (call("content", json!([7])), "/params/subject/toolCall/content/0"),
        (call("kind", json!(7)), "/params/subject/toolCall/kind"),
        (with("_meta", json!(1)), "/params/_meta"),
        (with("description", json!(1)), "/params/description"),
    ] {
        let text =
            json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": params})
                .to_string();
        let mut conversation = Conversation::new(WireFormat::Any);
        let folded = conversation.read(&text, Some(Side::Agent), Moment(0)).unwrap();
        assert_eq!(
            folded.left_out.iter().map(|fault| fault.pointer.as_str()).collect::<Vec<_>>(),
            [pointer],
            "{text}"
        );
        let session = conversation.session(Some("s")).unwrap();
        let permission = session.permission(&5.into()).unwrap();
        assert_eq!((permission.settlement(), permission.tool_call_id()), (&Settlement::Pending, Some("c")));
        assert_eq!(session.tool_call("c").unwrap().title(), Some("Write"));

        let mut strict = Conversation::new(WireFormat::Any).strict();
        let refused = strict.read(&text, Some(Side::Agent), Moment(0));
        assert!(matches!(refused, Err(ConversationError::Malformed(_))), "{refused:?}");
    }
}

#[test]
fn permission_parts_are_read_strictly() {
    let ask = |options: Value| {
        json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission",
            "params": {"sessionId": "s", "title": "Write?", "options": options}})
        .to_string()
    };
    for options in [
        json!([]),
        json!([7]),
        json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}, 7]),
        json!([{"optionId": "y", "name": "Yes", "kind": 7}]),
        json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "y", "name": "No", "kind": "reject_once"}]),
        json!(null),
    ] {
        let mut conversation = Conversation::new(WireFormat::Any);
        let text = ask(options);
        assert!(conversation.read(&text, Some(Side::Agent), Moment(0)).is_err(), "{text}");
    }
}

#[test]
fn a_batch_is_read_message_by_message() {
    let info = |title: Value| json!({"sessionUpdate": "session_info_update", "title": title});
    let params = |update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}});
    let batch =
        json!([params(info(json!("a"))), params(info(json!(7))), 7, params(info(json!("b")))]).to_string();
    let mut conversation = Conversation::new(WireFormat::Any);
    let mut seen = Vec::new();
    conversation.read_line(&batch, Some(Side::Agent), Moment(0), |conversation, folded| {
        let title = conversation.session(Some("s")).and_then(|session| session.title().map(str::to_owned));
        seen.push(match folded {
            Ok(folded) => (title, folded.left_out.first().map(|fault| fault.pointer.clone())),
            Err(ConversationError::Malformed(error)) => (title, Some(error.diagnostic().pointer.clone())),
            Err(error) => panic!("{error}"),
        });
    });
    let a = || Some("a".to_owned());
    let expected = [
        (a(), None),
        (a(), Some("/1/params/update/title".to_owned())),
        (a(), Some("/2".to_owned())),
        (Some("b".to_owned()), None),
    ];
    assert_eq!(seen, expected);
    for text in ["[]".to_owned(), format!("[{}7]", "7,".repeat(2000)), "[12:30] log".to_owned()] {
        let mut count = 0;
        conversation.read_line(&text, None, Moment(0), |_, folded| {
            assert!(folded.is_err());
            count += 1;
        });
        assert_eq!(count, 1, "{}", &text[..5.min(text.len())]);
    }
}
