//! Shared test vectors: one JSON value each, with the expected verdict.

use std::path::PathBuf;

use serde_json::Value;
use switchboard_acp::{WireFormat, wire_type};

pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) revision: WireFormat,
    pub(crate) kind: String,
    pub(crate) json: Value,
    pub(crate) valid: bool,
    pub(crate) schema_valid: Option<bool>,
}

pub(crate) fn fixtures() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "fixtures"].iter().collect()
}

/// Returns all vectors of single values.
pub(crate) fn vectors() -> Vec<Vector> {
    let mut vectors = Vec::new();
    for entry in std::fs::read_dir(fixtures().join("vectors")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if file == "sequences" || file == "bridge-proposals" {
            continue;
        }
        let values: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for value in values {
            vectors.push(Vector {
                name: format!("{file}/{}", value["name"].as_str().unwrap()),
                revision: match value["revision"].as_str().unwrap() {
                    "seed" => WireFormat::Spec,
                    "latest" => WireFormat::Newest,
                    "v1" => WireFormat::V1,
                    other => panic!("unknown revision {other}"),
                },
                kind: value["kind"].as_str().unwrap().to_owned(),
                json: value["json"].clone(),
                valid: value["valid"].as_bool().unwrap(),
                schema_valid: value["schemaValid"].as_bool(),
            });
        }
    }
    assert!(vectors.len() > 500, "only {} vectors found", vectors.len());
    vectors
}

fn report(failures: &[String]) {
    assert!(failures.is_empty(), "{} vectors fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_vector_gets_its_verdict() {
    let mut failures = Vec::new();
    for vector in vectors() {
        let Some(wire_type) = wire_type(&vector.kind, vector.revision) else {
            failures.push(format!("{}: no type {}", vector.name, vector.kind));
            continue;
        };
        let text = vector.json.to_string();
        match (wire_type.rewrite(&text, vector.revision), vector.valid) {
            (Ok(_), true) | (Err(_), false) => {}
            (Ok(_), false) => failures.push(format!("{}: accepted {text}", vector.name)),
            (Err(error), true) => failures.push(format!("{}: {error} in {text}", vector.name)),
        }
    }
    report(&failures);
}

#[test]
fn the_format_any_reads_everything_valid_in_one_dialect() {
    let mut failures = Vec::new();
    for vector in vectors().iter().filter(|vector| vector.valid && vector.revision != WireFormat::V1) {
        let text = vector.json.to_string();
        let outcome = wire_type(&vector.kind, WireFormat::Any).unwrap().rewrite(&text, WireFormat::Any);
        // Values unknown in the older dialect are known, and then malformed, in the newer one.
        let drifted = [
            "tool_call_content/terminal-missing-id-at-seed",
            "unstable/subagent-unknown@seed",
            "unstable/session-message-unknown@seed",
            "unstable/plan-removed-unknown@seed",
        ];
        match outcome {
            Err(error) if !drifted.contains(&&*vector.name) => {
                failures.push(format!("{}: {error}", vector.name));
            }
            _ => {}
        }
    }
    report(&failures);
}

#[test]
fn the_format_any_rejects_everything_invalid_in_both_dialects() {
    let vectors = vectors();
    let mut failures = Vec::new();
    for vector in vectors.iter().filter(|vector| !vector.valid && vector.revision == WireFormat::Spec) {
        let text = vector.json.to_string();
        let newest = wire_type(&vector.kind, WireFormat::Newest).unwrap().rewrite(&text, WireFormat::Newest);
        let any = wire_type(&vector.kind, WireFormat::Any).unwrap().rewrite(&text, WireFormat::Any);
        if newest.is_err() && any.is_ok() {
            failures.push(format!("{}: accepted {text}", vector.name));
        }
    }
    report(&failures);
}
