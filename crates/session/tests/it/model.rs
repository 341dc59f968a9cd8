//! Compares the engine with the naive fold, and with itself in other orders and after a restart.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;
use switchboard_acp::WireFormat;
use switchboard_session::{Change, ContentChange, Entry, Session};

use crate::generate::{apply, fold, json_of, updates};
use crate::reference::Reference;

fn restored(session: &Session) -> Session {
    let text = serde_json::to_string(session).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Returns the entity that an update concerns.
fn entity(update: &Value) -> String {
    let tag = update["sessionUpdate"].as_str().unwrap().trim_end_matches("_chunk").to_owned();
    match tag.as_str() {
        "tool_call_update" | "tool_call_content" => format!("tool_call {}", update["toolCallId"]),
        "terminal_update" | "terminal_output" => format!("terminal {}", update["terminalId"]),
        "plan_update" => format!("plan {}", update["plan"]["planId"]),
        "user_message" | "agent_message" | "agent_thought" => format!("{tag} {}", update["messageId"]),
        _ => tag,
    }
}

/// Sorts lists independently of the order of appearance.
fn sorted(mut session: Value) -> Value {
    for list in ["entries", "plans", "planUpdates", "unknown"] {
        if let Some(list) = session.get_mut(list).and_then(Value::as_array_mut) {
            list.sort_by_key(Value::to_string);
        }
    }
    session
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_engine_does_what_the_rules_say((dialect, updates) in updates()) {
        let mut reference = Reference::new(dialect);
        for update in &updates {
            reference.apply(update);
        }
        // In the `Any` format a diff has its patch under both keys; these have none.
        prop_assert_eq!(json_of(&fold(dialect, &updates)), reference.into_value());
    }

    #[test]
    fn other_interleavings_give_each_entity_the_same_result(
        (dialect, updates) in updates(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 60),
    ) {
        let mut queues: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
        for update in updates.iter().rev() {
            queues.entry(entity(update)).or_default().push(update);
        }
        let mut interleaved = Vec::new();
        for pick in picks {
            queues.retain(|_, queue| !queue.is_empty());
            let Some(queue) = (!queues.is_empty()).then(|| pick.index(queues.len())) else { break };
            interleaved.extend(queues.values_mut().nth(queue).unwrap().pop());
        }
        prop_assert_eq!(interleaved.len(), updates.len());
        prop_assert_eq!(sorted(json_of(&fold(dialect, interleaved))), sorted(json_of(&fold(dialect, &updates))));
    }

    #[test]
    fn a_restored_session_goes_on_as_the_original(
        (dialect, updates) in updates(),
        at in any::<prop::sample::Index>(),
        replay_at in any::<prop::sample::Index>(),
    ) {
        let (at, replay_at) = (at.index(updates.len() + 1), replay_at.index(updates.len() + 1));
        let mut original = Session::new(dialect);
        let mut stored: Option<Session> = None;
        for (index, update) in updates.iter().enumerate() {
            if index == replay_at {
                original.begin_replay();
                if let Some(stored) = &mut stored {
                    stored.begin_replay();
                }
            }
            if index == at {
                stored = Some(restored(&original));
                prop_assert_eq!(stored.as_ref(), Some(&original));
            }
            let changes = apply(&mut original, update);
            if let Some(stored) = &mut stored {
                prop_assert_eq!(apply(stored, update), changes);
            }
        }
        if let Some(stored) = &mut stored {
            prop_assert_eq!(stored.end_replay(), original.end_replay());
            prop_assert_eq!(&*stored, &original);
        }
    }

    #[test]
    fn the_feed_tells_every_change_and_nothing_else((dialect, updates) in updates()) {
        let mut session = Session::new(dialect);
        // A renderer that only looks at reported changes.
        let mut drawn: Vec<String> = Vec::new();
        let mut lengths: Vec<usize> = Vec::new();
        for update in &updates {
            let before = session.snapshot();
            let changes = apply(&mut session, update);
            prop_assert_eq!(changes.is_empty(), json_of(&before) == json_of(&session) && before == *session);
            prop_assert_eq!(session.revision(), before.revision() + u64::from(!changes.is_empty()));
            for change in changes.iter() {
                let Change::Entry(change) = change else { continue };
                let entry = session.entry(change.position).unwrap();
                prop_assert_eq!(entry.revision(), session.revision());
                if change.created {
                    prop_assert_eq!(change.position, drawn.len());
                    drawn.push(String::new());
                    lengths.push(0);
                }
                drawn[change.position] = entry.to_json(dialect);
                let length = entry.as_message().map(|message| message.content().len());
                let length = length.or(entry.as_tool_call().map(|call| call.content().len()));
                if let Some(length) = length {
                    match change.content {
                        ContentChange::Kept => prop_assert_eq!(length, lengths[change.position]),
                        ContentChange::Appended(count) => {
                            prop_assert_eq!(length, lengths[change.position] + count);
                        }
                        ContentChange::Replaced(count) => prop_assert_eq!(length, count),
                    }
                    lengths[change.position] = length;
                }
            }
        }
        let entries: Vec<_> = session.entries().map(|entry| entry.to_json(dialect)).collect();
        prop_assert_eq!(drawn, entries);
    }

    #[test]
    fn repeated_updates_change_nothing((dialect, updates) in updates()) {
        let mut session = Session::new(dialect);
        for update in &updates {
            apply(&mut session, update);
            let before = session.snapshot();
            // Each entry as a whole, regardless of its chunks. Attachments of a terminal's chunks are not
            // part of its output.
            let has_chunks =
                |entry: &Entry| entry.as_terminal().is_some_and(|terminal| terminal.chunks().next().is_some());
            for whole in before.entries().filter(|entry| !has_chunks(entry)).map(Entry::to_update) {
                let changes = session.apply(&whole);
                prop_assert!(changes.is_empty(), "{changes:?} by {whole:?}");
            }
            prop_assert_eq!(&before, &*session);
        }
    }

    #[test]
    fn entries_rebuild_themselves_by_one_update((dialect, updates) in updates()) {
        let session = fold(dialect, &updates);
        let mut copy = Session::new(WireFormat::Spec);
        for entry in session.entries() {
            copy.apply(&entry.to_update());
        }
        let entries = |session: &Session| json_of(session)["entries"].clone();
        prop_assert_eq!(entries(&copy), entries(&session));
    }
}
