//! The JSON Schema: committed as generated, and of the same opinion as the official one.

use serde_json::json;
use switchboard_protocol::{WireFormat, json_schema};

use crate::vectors::{fixtures, vectors};

const FILES: [(&str, &str, WireFormat); 4] = [
    ("v1.json", "--protocol v1", WireFormat::V1),
    ("v2-spec.json", "--dialect spec", WireFormat::Spec),
    ("v2-newest.json", "--dialect newest", WireFormat::Newest),
    ("v2.json", "--dialect any", WireFormat::Any),
];

#[test]
fn committed_schemas_are_the_generated_ones() {
    for (file, arguments, revision) in FILES {
        let committed = std::fs::read_to_string(fixtures().join("../schema").join(file)).unwrap_or_default();
        let generated = format!("{:#}\n", json_schema(revision));
        assert!(committed == generated, "run: cargo run -- schema {arguments} > schema/{file}");
    }
}

#[test]
fn every_definition_is_used_or_named() {
    for (file, _, revision) in FILES {
        let schema = json_schema(revision);
        let text = schema.to_string();
        for reference in text.split("\"#/$defs/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schema["$defs"].get(name).is_some(), "{file}: {name} is referred to and not defined");
        }
    }
}

/// What the vectors tell of the official schema holds for ours.
#[test]
fn schemas_agree_with_the_official_ones_on_the_vectors() {
    let mut failures = Vec::new();
    for (file, _, revision) in FILES {
        let whole = json_schema(revision);
        let mut validators = std::collections::HashMap::new();
        for vector in vectors().into_iter().filter(|vector| vector.revision == revision) {
            let Some(expected) = vector.schema_valid else { continue };
            let validator = validators.entry(vector.kind.clone()).or_insert_with(|| {
                let schema = json!({"$ref": format!("#/$defs/{}", vector.kind), "$defs": whole["$defs"]});
                jsonschema::validator_for(&schema).unwrap()
            });
            if validator.is_valid(&vector.json) != expected {
                failures.push(format!("{file} {}: valid should be {expected}: {}", vector.name, vector.json));
            }
        }
    }
    assert!(failures.is_empty(), "{} vectors:\n{}", failures.len(), failures.join("\n"));
}
