//! The JSON Schema: committed as generated, and in agreement with the official one.

use serde_json::{Value, json};
use switchboard_acp::check::{Checker, Rules};
use switchboard_acp::{WireFormat, json_schema, wire_type, wire_types};

use crate::maker::Maker;
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

/// Test vectors give the same result with the official schema and ours.
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
            // The official schema has no pattern for absolute paths; the rule is only in its text.
            let read = wire_type(&vector.kind, revision).unwrap().rewrite(&vector.json.to_string(), revision);
            let is_relative = read.is_err_and(|error| error.to_string().contains("an absolute path"));
            if validator.is_valid(&vector.json) != (expected && !is_relative) {
                failures.push(format!("{file} {}: valid should be {expected}: {}", vector.name, vector.json));
            }
        }
    }
    assert!(failures.is_empty(), "{} vectors:\n{}", failures.len(), failures.join("\n"));
}

fn collect_undescribed(schema: &Value, place: &str, found: &mut Vec<String>) {
    if let Some(properties) = schema.get("properties") {
        for (key, property) in properties.as_object().unwrap() {
            if property["description"].as_str().is_none_or(str::is_empty) {
                found.push(format!("{place}.{key}"));
            }
            collect_undescribed(property, &format!("{place}.{key}"), found);
        }
    }
    let parts = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|word| schema[word].as_array());
    for part in parts.flatten().chain(schema.get("items")).chain(schema.get("additionalProperties")) {
        collect_undescribed(part, place, found);
    }
}

#[test]
fn every_property_and_every_type_is_described() {
    for (file, _, revision) in FILES {
        let schema = json_schema(revision);
        let mut found = Vec::new();
        let definitions = schema["$defs"].as_object().unwrap();
        definitions.iter().for_each(|(name, schema)| collect_undescribed(schema, name, &mut found));
        assert_eq!(found, [""; 0], "{file}");
        let names = definitions.iter().filter(|(_, schema)| schema["properties"].is_object());
        for (name, schema) in names {
            assert!(schema["description"].is_string(), "{file}: {name}");
        }
    }
}

#[test]
fn the_root_describes_a_message() {
    for (file, _, revision) in FILES {
        let validator = jsonschema::validator_for(&json_schema(revision)).unwrap();
        for text in ["42", "null", "{}", "[]", r#""hello""#, r#"{"jsonrpc":"2.0"}"#, "[42]"] {
            assert!(!validator.is_valid(&serde_json::from_str(text).unwrap()), "{file} takes {text}");
        }
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}});
        assert!(validator.is_valid(&cancel) && validator.is_valid(&json!([cancel])), "{file}");
        for (key, value) in
            [("params", json!({})), ("id", json!(1)), ("method", json!(1)), ("result", json!(1))]
        {
            let mut wrong = cancel.clone();
            wrong[key] = value;
            assert!(!validator.is_valid(&wrong), "{file} takes {wrong}");
        }
    }
}

/// Returns values similar to the given one: each part removed or changed.
fn near(value: &Value, seed: usize) -> Vec<Value> {
    const OTHERS: [&str; 12] =
        ["null", "42", "-1", "0", "1.5", "true", "\"\"", "\"x\"", "[]", "{}", "[1]", "70000"];
    fn places(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Object(map) => {
                let step = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                map.iter().for_each(|(key, value)| places(value, &step(key), found));
            }
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(index, item)| places(item, &format!("{at}/{index}"), found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    places(value, "", &mut found);
    let mut changed = Vec::new();
    // Large values have many parts: sample some of them.
    let stride = found.len().div_ceil(20);
    for (index, place) in found.iter().enumerate().skip(seed % stride).step_by(stride) {
        let mut other = value.clone();
        *other.pointer_mut(place).unwrap() =
            serde_json::from_str(OTHERS[(index + seed) % OTHERS.len()]).unwrap();
        changed.push(other);
        if let Some((parent, key)) = place.rsplit_once('/') {
            let mut without = value.clone();
            if let Some(Value::Object(map)) = without.pointer_mut(parent) {
                map.remove(&key.replace("~1", "/").replace("~0", "~"));
                changed.push(without);
            }
        }
    }
    changed
}

/// Returns true for a rule that JSON Schema cannot express: that the ids in a list differ.
fn is_beyond_schema(error: &str) -> bool {
    error.contains("twice")
}

/// Schema and decoder agree on valid and nearly valid values.
#[test]
fn schemas_and_readers_agree() {
    let mut disagreements = std::collections::BTreeMap::new();
    for (file, _, revision) in FILES {
        let whole = json_schema(revision);
        // One validator for all types, because creating one is slow: a value is placed under its type.
        let types: serde_json::Map<String, Value> = wire_types(revision)
            .map(|wire_type| {
                (wire_type.name.to_owned(), json!({"$ref": format!("#/$defs/{}", wire_type.name)}))
            })
            .collect();
        let validator =
            jsonschema::validator_for(&json!({"properties": types, "$defs": whole["$defs"]})).unwrap();
        for wire_type in wire_types(revision) {
            let definition = &whole["$defs"][wire_type.name];
            for seed in 1..=12 {
                let text = Maker::new(&whole, seed * 7919).plain().make(definition, 0);
                let value: Value = serde_json::from_str(&text).unwrap();
                let mut tried = near(&value, seed as usize);
                tried.push(value);
                for value in tried {
                    let text = value.to_string();
                    let read = wire_type.rewrite(&text, revision);
                    let valid = validator.is_valid(&json!({wire_type.name: value}));
                    if valid == read.is_ok() {
                        continue;
                    }
                    let reason = read.err().map_or("it is read".to_owned(), |error| error.to_string());
                    if !is_beyond_schema(&reason) {
                        let rule = reason.split(", found").next().unwrap().to_owned();
                        disagreements
                            .entry(format!("{file} {}: schema says {valid}: {rule}", wire_type.name))
                            .or_insert(text);
                    }
                }
            }
        }
    }
    let shown: Vec<_> = disagreements.iter().map(|(what, text)| format!("{what}\n    {text}")).collect();
    assert!(shown.is_empty(), "{} disagreements:\n{}", shown.len(), shown.join("\n"));
}

/// For complete messages, `check` agrees with the schema's root.
#[test]
fn the_root_and_check_agree() {
    let mut disagreements = Vec::new();
    for (file, _, revision) in FILES {
        let whole = json_schema(revision);
        let validator = jsonschema::validator_for(&whole).unwrap();
        for seed in 1..=25 {
            let text =
                Maker::new(&whole, seed * 104_729).plain().make(&json!({"$ref": "#/$defs/Message"}), 0);
            let value: Value = serde_json::from_str(&text).unwrap();
            let mut tried = near(&value, seed as usize);
            tried.push(value);
            for value in tried {
                let rules = Rules { revision, ..Rules::default() };
                let verdict = Checker::new(rules).check(value.to_string().as_bytes());
                let valid = validator.is_valid(&value);
                let beyond = verdict.errors.iter().any(|error| is_beyond_schema(&error.message));
                if valid != verdict.is_valid() && !beyond {
                    disagreements.push(format!("{file}: schema says {valid}, {:?}: {value}", verdict.errors));
                }
            }
        }
    }
    let shown = disagreements.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(disagreements.is_empty(), "{} disagreements:\n{shown}", disagreements.len());
}
