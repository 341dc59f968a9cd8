//! Random version 2 sessions translated to version 1 and back: everything that is not reported as lost is
//! unchanged.

use std::collections::BTreeMap;

use crate::markers::lost_in;
use crate::support::{amounts_to, is_reported};
use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_acp::WireFormat;
use switchboard_acp::check::{Checker, Rules};
use switchboard_bridge::{Moment, RecordingBridge, Severity, Side, Version};
use switchboard_session::{Conversation, Moment as SessionMoment, Side as SessionSide};

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c ]{0,6}", Just("\u{e9}\u{1f600}\n".to_owned()), Just("\"\\\u{1}".to_owned())]
}

fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => text().prop_map(|text| json!({"type": "text", "text": text})),
        1 => Just(json!({"type": "image", "data": "AAAA", "mimeType": "image/png"})),
        1 => Just(json!({"type": "resource_link", "name": "n", "uri": "file:///w/a"})),
        1 => Just(json!({"type": "_mine", "x": 1})),
    ]
}

fn item() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => block().prop_map(|block| json!({"type": "content", "content": block})),
        1 => Just(json!({"type": "_mine", "x": 1})),
        1 => Just(json!({"type": "terminal", "terminalId": "t"})),
    ]
}

fn role() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("user_message"), Just("agent_message"), Just("agent_thought")]
}

fn id() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("1"), Just("2"), Just("3")]
}

fn optional(strategy: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    prop_oneof![4 => Just(None), 1 => Just(Some(Value::Null)), 3 => strategy.prop_map(Some)].boxed()
}

fn tool_call() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![Just(json!("read")), Just(json!("execute")), Just(json!("_mine"))];
    let status = prop_oneof![
        Just(json!("pending")),
        Just(json!("in_progress")),
        Just(json!("completed")),
        Just(json!("cancelled")),
    ];
    (
        id(),
        optional(text().prop_map(Value::from)),
        optional(kind),
        optional(status),
        optional(prop::collection::vec(item(), 0..3).prop_map(Value::from)),
        optional(Just(json!([{"path": "/w/a", "line": 3}]))),
        optional(Just(json!({"a": [1]}))),
    )
        .prop_map(|(id, title, kind, status, content, locations, raw)| {
            let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": id});
            let fields = [
                ("title", title),
                ("kind", kind),
                ("status", status),
                ("content", content),
                ("locations", locations),
                ("rawInput", raw),
            ];
            for (key, value) in fields {
                if let Some(value) = value {
                    update[key] = value;
                }
            }
            update
        })
}

fn update() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (role(), id(), block()).prop_map(|(role, id, block)| {
            json!({"sessionUpdate": format!("{role}_chunk"), "messageId": id, "content": block})
        }),
        2 => (role(), id(), optional(prop::collection::vec(block(), 0..3).prop_map(Value::from))).prop_map(
            |(role, id, content)| {
                let mut update = json!({"sessionUpdate": role, "messageId": id});
                if let Some(content) = content {
                    update["content"] = content;
                }
                update
            }
        ),
        4 => tool_call(),
        3 => (id(), item()).prop_map(|(id, item)| {
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": id, "content": item})
        }),
        1 => text().prop_map(|title| json!({"sessionUpdate": "session_info_update", "title": title})),
        1 => Just(json!({"sessionUpdate": "usage_update", "used": 5, "size": 10})),
        1 => text().prop_map(|text| json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "main",
            "entries": [{"content": text, "priority": "low", "status": "pending"}]}})),
        1 => Just(json!({"sessionUpdate": "available_commands_update", "availableCommands": [
            {"type": "command", "name": "web", "description": "d", "input": {"type": "text", "hint": "h"}}]})),
        1 => Just(json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "YQo="})),
        1 => Just(json!({"sessionUpdate": "state_update", "state": "running"})),
        1 => Just(json!({"sessionUpdate": "_mine", "x": 1})),
    ]
}

fn line(update: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
        .to_string()
}

/// Folds a session by the objects of its updates.
fn fold(lines: impl Iterator<Item = String>) -> BTreeMap<String, Value> {
    let mut conversation = Conversation::new(WireFormat::Any);
    for line in lines {
        conversation.read(&line, Some(SessionSide::Agent), SessionMoment(0)).expect("an update");
    }
    conversation.session(Some("s")).map(|session| amounts_to(&session.to_json(Some("s")))).unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn version_2_sessions_survive_version_1_but_for_what_is_reported(
        updates in prop::collection::vec((update(), 0i64..120), 0..40)
    ) {
        let mut recording = RecordingBridge::new(Version::V1);
        let mut now = 0;
        for (update, passed) in &updates {
            now += passed;
            recording.take(Some(Side::Agent), &line(update), Moment(now));
        }
        recording.finish();
        let mut checker = Checker::new(Rules { revision: WireFormat::V1, ..Rules::default() });
        for line in recording.drain() {
            let verdict = checker.check(line.text.as_bytes());
            prop_assert!(verdict.is_valid(), "{:?}: {}", verdict.errors, line.text);
        }
        let lost: Vec<String> = recording
            .take_losses()
            .into_iter()
            .filter(|(_, loss)| loss.severity != Severity::Guess)
            .map(|(_, loss)| loss.message)
            .collect();
        let before = fold(updates.iter().map(|(update, _)| line(update)));
        let after = fold(recording.take_back().into_iter().map(|line| line.text));
        for (key, value) in &before {
            let is_empty = value.is_null() || value == &json!([]);
            let is_gone = is_empty && after.is_empty();
            if !is_gone && !is_reported(key, &lost) {
                prop_assert_eq!(Some(value), after.get(key), "{} after {:?}, lost {:?}", key, updates, lost);
            }
        }
        // The same with metadata and unknown keys in every position: each appears in the output or is
        // reported.
        let conversation: Vec<_> = updates
            .iter()
            .map(|(update, _)| (Side::Agent, serde_json::from_str(&line(update)).expect("JSON")))
            .collect();
        let (_, missing) = lost_in("marked", &conversation, Version::V1);
        prop_assert!(missing.is_empty(), "{:?} of {:?}", missing, updates);
    }

    #[test]
    fn any_line_from_either_side_is_survived(
        lines in prop::collection::vec((any::<bool>(), update(), ".{0,30}", 0usize..4), 0..20)
    ) {
        for (client, agent) in [(Version::V1, Version::V2), (Version::V2, Version::V1)] {
            let mut bridge = switchboard_bridge::Bridge::new(switchboard_bridge::BridgeOptions::between(client, agent));
            for (from_agent, update, noise, form) in &lines {
                let from = if *from_agent { Side::Agent } else { Side::Client };
                let text = match form {
                    0 => noise.clone(),
                    1 => line(update),
                    2 => json!({"jsonrpc": "2.0", "id": noise, "method": "session/request_permission", "params": update}).to_string(),
                    _ => json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": noise, "prompt": [update]}}).to_string(),
                };
                let _ = bridge.handle(from, &text, Moment(0));
            }
            bridge.finish();
            for output in bridge.drain() {
                if let switchboard_bridge::Output::Line { line, .. } = output {
                    prop_assert!(serde_json::from_str::<Value>(&line).is_ok() && !line.contains('\n'), "{line}");
                }
            }
        }
    }
}
