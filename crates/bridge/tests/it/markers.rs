//! A different mark in every position where JSON can hold one: each must appear in the translation or be
//! reported with its pointer.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_bridge::{Bridge, BridgeOptions, Dialect, Handled, Moment, Output, Side, Stateless, Version};
use switchboard_testkit::recordings;

use crate::conversations::{
    between, conversation_v1, conversation_v2, update, updates_v1, updates_v2, with_child,
};
use crate::marks::{Mark, Outcome, lost_at, mark, missing, translate, translate_live, values};

/// Returns a conversation with marks.
fn marked(conversation: &[(Side, Value)]) -> (Vec<(Side, Value)>, Vec<Vec<Mark>>, usize) {
    let mut count = 0;
    let mut marked = conversation.to_vec();
    let marks = marked.iter_mut().map(|(_, message)| mark(message, &mut count)).collect();
    (marked, marks, usize::try_from(count).unwrap())
}

/// Marks a recorded conversation and translates it. Returns the missing marks.
pub(crate) fn lost_in(name: &str, conversation: &[(Side, Value)], to: Version) -> (usize, Vec<String>) {
    let (marked, marks, count) = marked(conversation);
    let missing = missing(&marks, &translate(&marked, to, 20).in_any_order(&marked));
    (count, missing.into_iter().map(|pointer| format!("{name}: {pointer}")).collect())
}

/// Marks a conversation and translates it live. Returns the missing marks.
fn lost_live(name: &str, conversation: &[(Side, Value)], options: &BridgeOptions) -> (usize, Vec<String>) {
    let (marked, marks, count) = marked(conversation);
    let missing = missing(&marks, &translate_live(&marked, options.clone()).in_any_order(&marked));
    (count, missing.into_iter().map(|pointer| format!("{name}: {pointer}")).collect())
}

fn assert_none(kind: &str, marks: usize, missing: &[String]) {
    let mut places = std::collections::BTreeMap::<String, usize>::new();
    for pointer in missing {
        let place: String = pointer.chars().filter(|character| !character.is_ascii_digit()).collect();
        *places.entry(place).or_default() += 1;
    }
    assert!(missing.is_empty(), "{kind}: {} of {marks} marks are nowhere: {places:#?}", missing.len());
}

#[test]
fn every_mark_in_a_written_conversation_comes_out_or_is_reported() {
    for (name, conversation, to) in
        [("version 1", conversation_v1(), Version::V2), ("version 2", conversation_v2(), Version::V1)]
    {
        let (marked, marks, count) = marked(&conversation);
        assert!(count > 1000, "{count}");
        assert_none(name, count, &missing(&marks, &translate(&marked, to, 20)));
    }
}

type Live = (&'static str, Vec<(Side, Value)>, BridgeOptions);

/// Returns conversations of a client of one version with an agent of the other, and the options of the
/// bridge.
fn live() -> Vec<Live> {
    let (v1, v2) = (conversation_v1(), conversation_v2());
    let served = BridgeOptions {
        serve_files: true,
        serve_terminals: true,
        ..BridgeOptions::between(Version::V2, Version::V1)
    };
    let mut simple = between(&v1, &v2);
    // A client that supports neither boolean options nor notices nor compaction updates.
    simple[0].1["params"]["clientCapabilities"]["session"] = json!({});
    let mut set = simple.iter_mut().map(|(_, message)| &mut message["params"]);
    if let Some(params) = set.find(|params| params["type"] == "boolean") {
        (params["type"], params["value"]) = (json!("id"), json!("on"));
    }
    let options = json!([{"optionId": "option-yes", "name": "yes-name", "kind": "allow_once"}]);
    let asked_v2 = json!({"sessionId": "child-c", "title": "child-question", "description": "question-words", "options": options,
        "subject": {"type": "tool_call", "toolCall": {"toolCallId": "child-call", "rawInput": {"in": "child-input"}}}});
    let asked_v1 = json!({"sessionId": "child-c", "options": options, "toolCall": {"toolCallId": "child-call", "title": "child-question"}});
    let mut knowing = with_child(between(&v1, &v2), &updates_v2(), asked_v2.clone());
    knowing[0].1["params"]["clientCapabilities"]["subagents"] = json!({});
    vec![
        (
            "a child, version 1 with 2",
            with_child(simple.clone(), &updates_v2(), asked_v2),
            BridgeOptions::between(Version::V1, Version::V2),
        ),
        (
            "a child for who knows it, version 1 with 2",
            knowing,
            BridgeOptions::between(Version::V1, Version::V2),
        ),
        (
            "a child, version 2 with 1",
            with_child(between(&v2, &v1), &updates_v1(), asked_v1),
            BridgeOptions::between(Version::V2, Version::V1),
        ),
        ("version 1 with 2", between(&v1, &v2), BridgeOptions::between(Version::V1, Version::V2)),
        ("simple version 1 with 2", simple, BridgeOptions::between(Version::V1, Version::V2)),
        ("version 2 with 1", between(&v2, &v1), BridgeOptions::between(Version::V2, Version::V1)),
        ("version 2 with 1, served", between(&v2, &v1), served),
    ]
}

#[test]
fn every_mark_between_different_versions_comes_out_or_is_reported() {
    for (name, conversation, options) in live() {
        let (marked, marks, count) = marked(&conversation);
        assert!(count > 1000, "{count}");
        assert_none(name, count, &missing(&marks, &translate_live(&marked, options)));
    }
}

#[test]
fn every_value_in_a_written_conversation_comes_out_or_is_reported() {
    for (name, conversation, to) in
        [("version 1", conversation_v1(), Version::V2), ("version 2", conversation_v2(), Version::V1)]
    {
        let marks: Vec<_> = conversation.iter().map(|(_, message)| values(message)).collect();
        assert_none(name, marks.len(), &missing(&marks, &translate(&conversation, to, 1000)));
    }
    for (name, conversation, options) in live() {
        // The session is not the client's, which is sent its name only once.
        let is_told = |message: &Value| {
            let is_child = message["params"]["sessionId"] == "child-c"
                || message["params"]["update"]["sessionUpdate"] == "subagent_update"
                || message["params"]["update"]["sessionUpdate"] == "session_message";
            !(name.ends_with("version 1 with 2") && !name.contains("knows") && is_child)
        };
        let marks: Vec<_> = conversation
            .iter()
            .map(|(_, message)| if is_told(message) { values(message) } else { Vec::new() })
            .collect();
        assert_none(name, marks.len(), &missing(&marks, &translate_live(&conversation, options)));
    }
}

#[test]
fn every_mark_in_a_recording_comes_out_or_is_reported() {
    let (mut marks, mut missing) = (0, Vec::new());
    for recording in recordings() {
        let conversation: Vec<_> = recording
            .lines
            .iter()
            .map(|line| {
                let side = if line.from_agent { Side::Agent } else { Side::Client };
                (side, serde_json::from_str(&line.message).expect("JSON"))
            })
            .collect();
        for to in [Version::V1, Version::V2] {
            let (count, lost) = lost_in(&recording.name, &conversation, to);
            marks += count;
            missing.extend(lost);
        }
    }
    assert_none("recordings", marks, &missing);
}

#[test]
fn every_mark_passes_between_dialects() {
    let dialects = [None, Some(Dialect::Spec), Some(Dialect::Newest)];
    for (client, agent) in dialects.into_iter().flat_map(|client| dialects.map(|agent| (client, agent))) {
        let mut bridge = Bridge::new(BridgeOptions {
            client_dialect: client,
            agent_dialect: agent,
            ..BridgeOptions::between(Version::V2, Version::V2)
        });
        let (mut count, mut marks, mut outcome) = (0, Vec::new(), Outcome::default());
        for (from, mut message) in conversation_v2() {
            marks.push(mark(&mut message, &mut count));
            let line = message.to_string();
            let handled = bridge.handle(from, &line, Moment(0));
            let (mut said, mut lost) = (String::new(), Vec::new());
            for output in bridge.drain() {
                match output {
                    Output::Line { line, .. } => said.push_str(&line),
                    Output::Loss(loss) => lost.push(loss),
                }
            }
            if handled == Handled::Forward {
                said.push_str(&line);
            }
            outcome.said.push(said);
            outcome.losses.push(lost);
        }
        let name = format!("{client:?} {agent:?}");
        assert_none(&name, usize::try_from(count).unwrap(), &missing(&marks, &outcome));
    }
}

/// A stateless translation keeps all marks and values, or lists them, or is refused.
#[test]
fn every_mark_in_a_message_that_is_translated_by_itself_comes_out_or_is_listed() {
    for (name, conversation, to) in
        [("version 1", conversation_v1(), Version::V2), ("version 2", conversation_v2(), Version::V1)]
    {
        let mut lists = vec![values as fn(&Value) -> Vec<Mark>, |_| Vec::new()];
        while let Some(own) = lists.pop() {
            let (mut stateless, mut count, mut translated) = (Stateless::new(to), 0, 0);
            let (mut marks, mut outcome) = (Vec::new(), Outcome::default());
            for (from, message) in &conversation {
                let mut message = message.clone();
                let mut in_message = own(&message);
                if in_message.is_empty() {
                    in_message = mark(&mut message, &mut count);
                }
                let Ok(converted) = stateless.convert(&message.to_string(), Some(*from)) else { continue };
                translated += 1;
                if message["method"] == "session/update" {
                    let is_update = |line: &String| line.contains(r#""method":"session/update""#);
                    assert!(converted.value.iter().all(is_update), "{:?}", converted.value);
                }
                marks.push(in_message);
                outcome.said.push(converted.value.concat());
                let listed = converted.omitted.into_iter().map(|note| lost_at(&note.pointer, note.severity));
                outcome.losses.push(listed.collect());
            }
            assert!(translated > 40, "{name}: {translated} of {}", conversation.len());
            assert_none(name, marks.len(), &missing(&marks, &outcome));
        }
    }
}

/// Returns the number of random conversations, which an environment variable can increase.
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(30), ..ProptestConfig::default() })]

    #[test]
    fn every_mark_in_a_generated_conversation_comes_out_or_is_reported(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..60)
    ) {
        // Handshake, session and prompt, then anything.
        let generated = |all: &[Value], whole: &[(Side, Value)]| {
            let begin = whole.iter().position(|(_, message)| message["method"] == "session/prompt").unwrap();
            let mut conversation = whole[..=begin].to_vec();
            for (update_pick, message_pick) in &picks {
                conversation.push((Side::Agent, update(update_pick.get(all).clone())));
                conversation.push(message_pick.get(&whole[begin..]).clone());
            }
            conversation
        };
        for (to, all, whole) in [
            (Version::V2, updates_v1(), conversation_v1()),
            (Version::V1, updates_v2(), conversation_v2()),
        ] {
            let (marks, missing) = lost_in("generated", &generated(&all, &whole), to);
            assert_none("generated", marks, &missing);
        }
        for (name, whole, options) in live() {
            let all = if name.ends_with('2') { updates_v2() } else { updates_v1() };
            let (marks, missing) = lost_live(name, &generated(&all, &whole), &options);
            assert_none(name, marks, &missing);
        }
    }
}
