//! Shared test vectors: updates in order, and their result.

use serde_json::{Map, Value};
use switchboard_acp::{Base64, Wire, WireFormat, v2};
use switchboard_session::Session;

use crate::generate::json_of;

/// Returns the session in the form of the test vectors.
fn in_their_words(session: &Session, rejected: usize) -> Map<String, Value> {
    let json = json_of(session);
    let mut words = Map::new();
    let mut put = |group: &str, key: &str, mut value: Value, drop_keys: &[&str]| {
        let object = value.as_object_mut().unwrap();
        for key in drop_keys {
            object.remove(*key);
        }
        let group = words.entry(group).or_insert_with(|| Value::Object(Map::new()));
        group[key] = value;
    };
    for entry in json["entries"].as_array().unwrap() {
        let kind = entry["type"].as_str().unwrap();
        match kind {
            "tool_call" => {
                put(
                    "toolCalls",
                    entry["toolCallId"].as_str().unwrap(),
                    entry.clone(),
                    &["type", "toolCallId"],
                );
            }
            "terminal" => {
                let data = Base64::parse(entry["output"]["data"].as_str().unwrap()).unwrap().to_bytes();
                let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
                let id = entry["terminalId"].as_str().unwrap();
                put("terminals", id, serde_json::json!({"outputHex": hex}), &[]);
            }
            _ => {
                let key = format!("{kind}/{}", entry["messageId"].as_str().unwrap());
                put("messages", &key, entry.clone(), &["type", "messageId"]);
            }
        }
    }
    for plan in json["plans"].as_array().unwrap() {
        put("plans", plan["planId"].as_str().unwrap(), plan.clone(), &[]);
    }
    if session.state().is_some() {
        put("state", "state", serde_json::json!({}), &[]);
        words["state"] = serde_json::json!({"state": json["state"], "stopReason": json["stopReason"]});
    }
    if json["unknown"] != serde_json::json!([]) {
        words.insert("unknown".to_owned(), json["unknown"].clone());
    }
    if rejected > 0 {
        words.insert("rejected".to_owned(), rejected.into());
    }
    words
}

#[test]
fn every_sequence_ends_as_it_should() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/vectors/sequences.json");
    let sequences: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(sequences.len() > 30);
    for sequence in sequences {
        let dialect = if sequence["revision"] == "seed" { WireFormat::Spec } else { WireFormat::Newest };
        let mut session = Session::new(dialect);
        let mut rejected = 0;
        for update in sequence["json"]["updates"].as_array().unwrap() {
            match v2::SessionUpdate::decode(&update.to_string(), dialect) {
                Ok(update) => drop(session.apply(&update)),
                Err(_) => rejected += 1,
            }
        }
        let words = in_their_words(&session, rejected);
        assert_eq!(Value::Object(words), sequence["json"]["expect"], "{}", sequence["name"]);
    }
}
