//! Properties that hold for every type in every revision. The values are made at random from the JSON Schema, so
//! that a new type is tried as soon as it is declared.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use switchboard_protocol::{Revision, json_schema, wire_types};

const REVISIONS: [Revision; 4] = [Revision::V1, Revision::Spec, Revision::Newest, Revision::Any];

/// JSON that no type looks into, with spellings that a careless reader changes.
const ODD_VALUES: [&str; 8] = [
    "1e3",
    "1.0",
    "-0",
    "123456789012345678901234567890123456789012345678901234567890",
    r#"{"b":1,"a":[null,{}]}"#,
    r#""\u00e9\n""#,
    "0.1000",
    "[[],{}]",
];

/// Makes JSON text that fits a schema.
struct Maker<'s> {
    definitions: &'s Value,
    seed: u64,
}

impl Maker<'_> {
    fn below(&mut self, limit: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed % limit as u64) as usize
    }

    fn pick<'p, T: ?Sized>(&mut self, choices: &[&'p T]) -> &'p T {
        choices[self.below(choices.len())]
    }

    fn make(&mut self, schema: &Value, depth: usize) -> String {
        let mut keys = HashMap::new();
        if let Some(simple) = self.make_simple(schema, depth) {
            return simple;
        }
        self.add_keys(schema, depth, &mut keys);
        if self.below(4) == 0 {
            keys.insert("zzExtra".to_owned(), self.pick(&ODD_VALUES).to_owned());
        }
        let mut entries: Vec<_> = keys.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        entries.sort();
        let turn = self.below(entries.len().max(1));
        entries.rotate_left(turn);
        format!("{{{}}}", entries.join(","))
    }

    /// Anything but an object with keys.
    fn make_simple(&mut self, schema: &Value, depth: usize) -> Option<String> {
        if schema == &Value::Bool(true) {
            return Some(self.pick(&ODD_VALUES).to_owned());
        }
        if let Some(constant) = schema.get("const") {
            return Some(constant.to_string());
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let definition = &self.definitions[reference.rsplit('/').next().unwrap()];
            return Some(self.make(definition, depth + 1));
        }
        if schema.get("properties").is_none()
            && let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array())
        {
            let null = choices.iter().position(|choice| choice["type"] == "null");
            let choice = match null {
                Some(index) if depth > 8 => index,
                _ => self.below(choices.len()),
            };
            return Some(self.make(&choices[choice], depth + 1));
        }
        let kind = schema["type"].as_array().map_or(&schema["type"], |kinds| &kinds[0]);
        Some(match kind.as_str()? {
            "null" => "null".to_owned(),
            "boolean" => self.pick(&["true", "false"]).to_owned(),
            "string" => self.make_string(schema),
            "number" => self.pick(&["0", "1.0", "0.5", "1e-3", "1"]).to_owned(),
            "integer" => {
                let minimum = schema["minimum"].as_i64().unwrap_or(0);
                let maximum = schema["maximum"].as_u64().unwrap_or(u64::MAX);
                let middle = minimum.max(0) as u64 + self.below(1000) as u64;
                self.pick(&[&*minimum.to_string(), &*maximum.to_string(), &*middle.min(maximum).to_string()])
                    .to_owned()
            }
            "array" => {
                let minimum = schema["minItems"].as_u64().unwrap_or(0) as usize;
                let count = if depth > 10 { minimum } else { minimum + self.below(3) };
                let items: Vec<_> = (0..count).map(|_| self.make(&schema["items"], depth + 1)).collect();
                format!("[{}]", items.join(","))
            }
            "object" if schema.get("additionalProperties").is_some() => {
                let value = self.make(&schema["additionalProperties"], depth + 1);
                format!("{{\"a key\":{value}}}")
            }
            "object" if schema.get("properties").is_none() && schema.get("oneOf").is_none() => {
                self.pick(&["{}", r#"{"example.com/a":1.0}"#]).to_owned()
            }
            _ => return None,
        })
    }

    fn make_string(&mut self, schema: &Value) -> String {
        let text = if schema["contentEncoding"] == "base64" {
            self.pick(&["", "AA==", "4oI=", "aGVsbG8h"])
        } else if schema["description"] == "An absolute path." {
            self.pick(&["/w/a", r"C:\\w\\a", r"\\\\server\\share", "/"])
        } else if schema.get("pattern").is_some() {
            self.pick(&["USD", "EUR"])
        } else if schema.get("not").is_some() {
            self.pick(&["_custom", "reserved_for_later"])
        } else if schema.get("minLength").is_some() {
            "x"
        } else {
            // Ids that must differ within a list do so most of the time; see `broken_by_chance`.
            return format!(
                "\"{}{}\"",
                self.pick(&["", "é", r"\n", r"\ud83d\ude00", "_x", "a/b~c"]),
                self.below(9999)
            );
        };
        format!("\"{text}\"")
    }

    /// The keys of an object, with those that its schema takes from others.
    fn add_keys(&mut self, schema: &Value, depth: usize, keys: &mut HashMap<String, String>) {
        for part in schema["allOf"].as_array().into_iter().flatten() {
            match part["$ref"].as_str() {
                Some(reference) => {
                    let definition = &self.definitions[reference.rsplit('/').next().unwrap()];
                    self.add_keys(definition, depth + 1, keys);
                }
                None => self.add_keys(part, depth + 1, keys),
            }
        }
        if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
            let choice = self.below(choices.len());
            for key in choices[choice]["required"].as_array().into_iter().flatten() {
                let key = key.as_str().unwrap();
                let property = schema["properties"].get(key).or(choices[choice]["properties"].get(key));
                if let Some(property) = property {
                    let value = self.make_present(property, depth);
                    keys.insert(key.to_owned(), value);
                }
            }
            self.add_keys(&choices[choice], depth + 1, keys);
            // Keys that the other choices require would make it two at once.
            if schema.get("properties").is_some() {
                let others: Vec<_> = choices.iter().filter(|other| *other != &choices[choice]).collect();
                for key in others.iter().flat_map(|other| other["required"].as_array()).flatten() {
                    keys.remove(key.as_str().unwrap());
                }
            }
        }
        let required = schema["required"].as_array();
        let one_of_keys: Vec<_> = schema["oneOf"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|choice| choice["required"].clone())
            .collect();
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
            let is_choice = one_of_keys.iter().any(|names| names[0] == *key);
            let allowed = property != &Value::Bool(false);
            let wanted = is_required || allowed && (!is_choice && depth < 10 && self.below(2) == 0);
            if wanted && !(keys.contains_key(key) && property.get("const").is_none()) {
                let value = self.make(property, depth + 1);
                keys.insert(key.clone(), value);
            }
        }
    }

    fn make_present(&mut self, property: &Value, depth: usize) -> String {
        loop {
            let value = self.make(property, depth + 1);
            if value != "null" {
                return value;
            }
        }
    }
}

/// Rules between values that a generator made at random may break.
fn broken_by_chance(error: &str) -> bool {
    error.contains("twice") || error.contains("cannot be null")
}

/// Whether `after` says the same as `before`: only keys that are `null` may be gone.
fn same_but_for_nulls(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.iter().all(|(key, value)| match after.get(key) {
                Some(other) => same_but_for_nulls(value, other),
                None => value.is_null(),
            }) && after.keys().all(|key| before.contains_key(key))
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len() && before.iter().zip(after).all(|(a, b)| same_but_for_nulls(a, b))
        }
        _ => before == after || before.as_f64().is_some_and(|number| Some(number) == after.as_f64()),
    }
}

#[test]
fn every_type_comes_out_as_it_went_in() {
    for revision in REVISIONS {
        let schema = json_schema(revision);
        for wire_type in wire_types(revision) {
            let mut runner =
                TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
            let outcome = runner.run(&(1..u64::MAX), |seed| {
                let mut maker = Maker { definitions: &schema["$defs"], seed };
                let text = maker.make(&schema["$defs"][wire_type.name], 0);
                let once = match wire_type.rewrite(&text, revision) {
                    Ok(once) => once,
                    Err(error) if broken_by_chance(&error.to_string()) => return Ok(()),
                    Err(error) => return Err(TestCaseError::fail(format!("{error} in {text}"))),
                };
                prop_assert_eq!(&wire_type.rewrite(&once, revision).unwrap(), &once);
                let (tolerant, diagnostics) = wire_type.rewrite_tolerant(&text, revision).unwrap();
                prop_assert_eq!(diagnostics, []);
                prop_assert_eq!(&tolerant, &once);
                for odd in ODD_VALUES {
                    prop_assert!(
                        once.matches(odd).count() >= text.matches(odd).count(),
                        "{odd} is lost: {text}"
                    );
                }
                // Written for both dialects, a patch has both keys and a command its tag, whatever came in.
                if revision != Revision::Any && !once.contains("\"availableCommands\"") {
                    let (before, after) =
                        (serde_json::from_str(&text).unwrap(), serde_json::from_str(&once).unwrap());
                    let tagged = wire_type.name.starts_with("AvailableCommand")
                        || once.contains("\"type\":\"command\"");
                    prop_assert!(tagged || same_but_for_nulls(&before, &after), "{text} became {once}");
                }
                Ok(())
            });
            if let Err(error) = outcome {
                panic!("{revision:?} {}: {error}", wire_type.name);
            }
        }
    }
}

#[test]
fn any_text_is_read_or_refused_without_panic() {
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let schema = json_schema(Revision::Any);
    let changes = (1..u64::MAX, any::<prop::sample::Index>(), "[\\x00-\\x7f]{0,3}|\u{e9}|\\\\u[dD]800");
    runner
        .run(&changes, |(seed, place, replacement)| {
            let mut maker = Maker { definitions: &schema["$defs"], seed };
            for wire_type in wire_types(Revision::Any) {
                let mut text = maker.make(&schema["$defs"][wire_type.name], 0);
                let mut place = place.index(text.len());
                while !text.is_char_boundary(place) {
                    place -= 1;
                }
                let end = text[place..].char_indices().nth(2).map_or(text.len(), |(index, _)| place + index);
                text.replace_range(place..end, &replacement);
                for revision in REVISIONS {
                    let strict = wire_type.rewrite(&text, revision);
                    let tolerant = wire_type.rewrite_tolerant(&text, revision);
                    prop_assert!(strict.is_err() || tolerant.is_ok(), "strict is stricter: {text}");
                    if let Err(error) = strict {
                        prop_assert!(!error.to_string().is_empty());
                    }
                }
            }
            Ok(())
        })
        .unwrap();
}
