//! Values that must be preserved: the three states of a field, unknown data, spellings.

use serde_json::Value;
use switchboard_acp::{Field, Wire, WireFormat, v2, wire_type};

use crate::vectors::vectors;

/// Decodes and encodes a value that must not change.
fn unchanged(type_name: &str, revision: WireFormat, text: &str) {
    let written = wire_type(type_name, revision).unwrap().rewrite(text, revision).unwrap();
    assert_eq!(written, text, "{type_name} in {revision:?}");
}

#[test]
fn three_states_of_each_field_survive() {
    for revision in [WireFormat::Spec, WireFormat::Newest, WireFormat::Any] {
        for key in ["title", "kind", "status", "content", "locations", "rawInput", "rawOutput", "_meta"] {
            unchanged("ToolCallUpdate", revision, &format!(r#"{{"toolCallId":"c","{key}":null}}"#));
        }
        for key in ["content", "_meta"] {
            unchanged("UserMessage", revision, &format!(r#"{{"messageId":"m","{key}":null}}"#));
        }
        unchanged("ToolCallUpdate", revision, r#"{"toolCallId":"c"}"#);
        unchanged("ToolCallUpdate", revision, r#"{"toolCallId":"c","content":[],"locations":[]}"#);
        unchanged(
            "ToolCallUpdate",
            revision,
            r#"{"toolCallId":"","title":"","rawInput":{},"rawOutput":false}"#,
        );
        unchanged("SessionInfoUpdate", revision, r#"{"title":null,"updatedAt":null,"_meta":null}"#);
    }
    for key in ["command", "cwd", "output", "exitStatus", "size", "capabilities", "_meta"] {
        unchanged("TerminalUpdate", WireFormat::Newest, &format!(r#"{{"terminalId":"t","{key}":null}}"#));
    }
    for key in ["name", "capabilities"] {
        unchanged("ToolCallUpdate", WireFormat::Newest, &format!(r#"{{"toolCallId":"c","{key}":null}}"#));
    }
    unchanged("UsageUpdate", WireFormat::Newest, r#"{"used":1,"size":2,"cost":null}"#);
    unchanged(
        "CompactionUpdate",
        WireFormat::Newest,
        r#"{"compactionId":"k","status":"failed","summary":null,"error":null}"#,
    );
}

#[test]
fn spellings_of_numbers_survive() {
    let digits = "9".repeat(400);
    for number in ["1.0", "1e3", "-0", "0.10", "12345678901234567890123", &digits] {
        unchanged(
            "ToolCallUpdate",
            WireFormat::Spec,
            &format!(r#"{{"toolCallId":"c","rawInput":{number}}}"#),
        );
        unchanged("ToolCallUpdate", WireFormat::Spec, &format!(r#"{{"toolCallId":"c","vendor":{number}}}"#));
        unchanged("ToolCallContent", WireFormat::Spec, &format!(r#"{{"type":"_chart","data":[{number}]}}"#));
        unchanged("Cost", WireFormat::Newest, &format!(r#"{{"amount":{number},"currency":"USD"}}"#));
    }
}

#[test]
fn unknown_keys_survive_at_every_depth() {
    unchanged(
        "UpdateSessionNotification",
        WireFormat::Spec,
        concat!(
            r#"{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","#,
            r#""content":[{"type":"diff","changes":[{"operation":"move","oldPath":"/a","path":"/b","w":[1]}],"#,
            r#""patch":{"format":"git_patch","diff":"x","p":{"q":null}},"o":1e2}],"v":"x"},"u":{}}"#
        ),
    );
}

#[test]
fn keys_of_the_newest_dialect_are_unknown_but_kept_in_the_other() {
    let text = r#"{"toolCallId":"c","name":"read_file","capabilities":{"cancel":{}}}"#;
    unchanged("ToolCallUpdate", WireFormat::Spec, text);
    let update = v2::ToolCallUpdate::decode(text, WireFormat::Spec).unwrap();
    assert!(update.name.is_keep());
    assert_eq!(update.extra.get("name").unwrap().as_str(), r#""read_file""#);
    let update = v2::ToolCallUpdate::decode(text, WireFormat::Newest).unwrap();
    assert_eq!(update.name, Field::Set("read_file".into()));
    assert!(update.extra.is_empty());
}

#[test]
fn a_patch_is_written_as_the_reader_of_each_dialect_wants_it() {
    let patch = v2::DiffPatch::git("diff --git /a /a\n");
    assert_eq!(patch.encode(WireFormat::Spec), r#"{"format":"git_patch","diff":"diff --git /a /a\n"}"#);
    assert_eq!(patch.encode(WireFormat::Newest), r#"{"format":"git_patch","text":"diff --git /a /a\n"}"#);
    let both = patch.encode(WireFormat::Any);
    for revision in [WireFormat::Spec, WireFormat::Newest, WireFormat::Any] {
        assert_eq!(v2::DiffPatch::decode(&both, revision).unwrap().text, patch.text);
    }
}

#[test]
fn of_two_patches_that_differ_none_is_lost() {
    let text = r#"{"format":"git_patch","text":"new","diff":"old"}"#;
    let patch = v2::DiffPatch::decode(text, WireFormat::Any).unwrap();
    assert_eq!(patch.text, "new");
    unchanged("DiffPatch", WireFormat::Any, text);
    let spec = v2::DiffPatch::decode(text, WireFormat::Spec).unwrap();
    assert_eq!(spec.text, "old");
    assert_eq!(spec.encode(WireFormat::Spec), r#"{"format":"git_patch","diff":"old","text":"new"}"#);
    // The displayed text is the one passed on.
    assert_eq!(patch.encode(WireFormat::Spec), r#"{"format":"git_patch","diff":"new"}"#);
    assert_eq!(spec.encode(WireFormat::Newest), r#"{"format":"git_patch","text":"old"}"#);
}

/// Only a `null` key that is equivalent to a missing one may be removed; in version 1, any.
#[test]
fn valid_vectors_come_out_as_they_went_in() {
    for vector in vectors().iter().filter(|vector| vector.valid && vector.revision != WireFormat::V1) {
        let text = vector.json.to_string();
        let written =
            wire_type(&vector.kind, vector.revision).unwrap().rewrite(&text, vector.revision).unwrap();
        let mut expected = vector.json.clone();
        if vector.kind != "ToolCallUpdate" && vector.kind != "TerminalUpdate" {
            let is_upsert = |tag: &str| !tag.ends_with("_chunk") && tag != "state_update";
            let keep_own = vector.json["sessionUpdate"].as_str().is_some_and(is_upsert)
                || matches!(
                    &*vector.kind,
                    "UsageUpdate" | "UserMessage" | "CreateElicitationRequest" | "MessageMcpResponse"
                );
            drop_nulls(&mut expected, keep_own);
        }
        let mut written: Value = serde_json::from_str(&written).unwrap();
        // A command gets its tag, which the older dialect ignores.
        if let Some(Value::Array(commands)) = written.get_mut("availableCommands") {
            for (index, command) in commands.iter_mut().enumerate() {
                if vector.json["availableCommands"][index].get("type").is_none() {
                    command.as_object_mut().unwrap().remove("type");
                }
            }
        }
        assert_eq!(written, expected, "{}", vector.name);
    }
}

/// Removes `null` keys, except those of an unknown variant and optionally the top-level ones.
fn drop_nulls(value: &mut Value, keep_own: bool) {
    match value {
        Value::Object(map) => {
            let unknown = ["type", "outcome", "sessionUpdate"]
                .iter()
                .any(|tag| map.get(*tag).and_then(Value::as_str).is_some_and(|tag| tag.starts_with('_')));
            if !unknown {
                let chunk = map.get("sessionUpdate").is_some_and(|tag| tag == "tool_call_content_chunk")
                    || map.contains_key("command");
                if !keep_own && (chunk || !map.contains_key("toolCallId")) {
                    map.retain(|_, value| !value.is_null());
                }
                map.values_mut().for_each(|value| drop_nulls(value, false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|value| drop_nulls(value, false)),
        _ => {}
    }
}
