//! Examples of the five documents that specify version 2 (000 to 004), and rules that they only state in
//! prose. If two documents disagree, the later one applies, so some examples of the earlier are refused.
//!
//! An entry of the fixture is one value in one revision: `document`, `source` (`example` or `prose`), `type`
//! (a wire type or `sequence`), `revision`, `valid`, `json`; for a sequence also `result`, the state after
//! it; `unknown` if version 2 must decode the value as an unknown variant.

use serde_json::Value;
use switchboard_acp::{UnknownVariant, Wire, WireFormat, v2, wire_type};

use crate::documentation::fold;
use crate::vectors::fixtures;

#[test]
fn the_examples_of_the_specification_get_their_verdicts() {
    let text = std::fs::read_to_string(fixtures().join("spec-examples.json")).unwrap();
    let examples: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut failures = Vec::new();
    for example in &examples {
        if let Err(failure) = run(example) {
            let (document, revision) = (&example["document"], &example["revision"]);
            failures.push(format!("document {document} in {revision}: {failure}: {}", example["json"]));
        }
    }
    assert!(failures.is_empty(), "{} examples fail:\n{}", failures.len(), failures.join("\n"));
    for document in ["000", "001", "002", "003", "004"] {
        assert!(examples.iter().any(|example| example["document"] == document), "nothing of {document}");
    }
}

fn run(example: &Value) -> Result<(), String> {
    let revision = match example["revision"].as_str() {
        Some("v1") => WireFormat::V1,
        Some("spec") => WireFormat::Spec,
        Some("newest") => WireFormat::Newest,
        Some("any") => WireFormat::Any,
        other => return Err(format!("no revision {other:?}")),
    };
    let name = example["type"].as_str().unwrap();
    let text = example["json"].to_string();
    let outcome = if name == "sequence" {
        let updates: Vec<_> = example["json"].as_array().unwrap().iter().map(Value::to_string).collect();
        let updates: Vec<_> = updates.iter().map(String::as_str).collect();
        let state = fold(&updates, revision);
        if state.as_ref().is_ok_and(|state| *state != example["result"]) {
            return Err(format!("comes to {}", state?));
        }
        state.map(drop)
    } else {
        let wire_type = wire_type(name, revision).ok_or_else(|| format!("no type {name}"))?;
        wire_type.rewrite(&text, revision).map(drop).map_err(|error| error.to_string())
    };
    match (outcome, example["valid"].as_bool().unwrap()) {
        (Ok(()), false) => return Err("should be refused".to_owned()),
        (Err(error), true) => return Err(error),
        _ => {}
    }
    if example["unknown"] == true && !is_unknown(name, &text, revision) {
        return Err("should be unknown".to_owned());
    }
    Ok(())
}

/// Returns true if a value is decoded as an unknown variant, kept unchanged.
fn is_unknown(name: &str, text: &str, revision: WireFormat) -> bool {
    use v2::{DiffChange, SessionUpdate, ToolCallContent};
    let unknown: Option<UnknownVariant<'_>> = match name {
        "SessionUpdate" => match SessionUpdate::decode(text, revision) {
            Ok(SessionUpdate::Unknown(unknown)) => Some(unknown),
            _ => None,
        },
        "ToolCallContent" => match ToolCallContent::decode(text, revision) {
            Ok(ToolCallContent::Unknown(unknown)) => Some(unknown),
            _ => None,
        },
        "DiffChange" => match DiffChange::decode(text, revision) {
            Ok(DiffChange::Unknown(unknown)) => Some(unknown),
            _ => None,
        },
        _ => None,
    };
    let value: Value = serde_json::from_str(text).unwrap();
    unknown.is_some_and(|unknown| unknown.entries.iter().count() + 1 == value.as_object().unwrap().len())
}
