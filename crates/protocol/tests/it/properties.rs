//! Properties of every type in every revision. Values are generated from the JSON Schema, so that a new type
//! is covered automatically.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use switchboard_acp::{WireFormat, json_schema, wire_types};

use crate::maker::{Maker, ODD_VALUES};

const REVISIONS: [WireFormat; 4] = [WireFormat::V1, WireFormat::Spec, WireFormat::Newest, WireFormat::Any];

/// Returns true for rules between values that random generation may violate.
fn broken_by_chance(error: &str) -> bool {
    error.contains("twice") || error.contains("cannot be null")
}

/// Returns true if `after` equals `before` except for removed `null` keys.
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
                let mut maker = Maker::new(&schema, seed);
                let text = maker.make(&schema["$defs"][wire_type.name], 0);
                let once = match wire_type.rewrite(&text, revision) {
                    Ok(once) => once,
                    Err(error) if broken_by_chance(&error.to_string()) => return Ok(()),
                    Err(error) => return Err(TestCaseError::fail(format!("{error} in {text}"))),
                };
                // Line 0 is encoded as `null` if the reader may not accept it, and `null` is not encoded
                // again.
                let again = once.replace(",\"line\":null", "");
                prop_assert_eq!(&wire_type.rewrite(&once, revision).unwrap(), &again);
                let (tolerant, diagnostics) = wire_type.rewrite_tolerant(&text, revision).unwrap();
                prop_assert_eq!(diagnostics, []);
                prop_assert_eq!(&tolerant, &once);
                for odd in ODD_VALUES {
                    prop_assert!(
                        once.matches(odd).count() >= text.matches(odd).count(),
                        "{odd} is lost: {text}"
                    );
                }
                // Encoded for both dialects, a patch has both keys and a command its tag, regardless of the
                // input.
                if revision != WireFormat::Any && !once.contains("\"availableCommands\"") {
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
    let schema = json_schema(WireFormat::Any);
    let changes = (1..u64::MAX, any::<prop::sample::Index>(), "[\\x00-\\x7f]{0,3}|\u{e9}|\\\\u[dD]800");
    runner
        .run(&changes, |(seed, place, replacement)| {
            let mut maker = Maker::new(&schema, seed);
            for wire_type in wire_types(WireFormat::Any) {
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
