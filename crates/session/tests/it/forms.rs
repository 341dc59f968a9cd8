//! Answers to forms: valid, invalid, and malicious forms.

use serde_json::{Value, json};
use switchboard_acp::{Wire as _, WireFormat, v2};
use switchboard_session::{Form, check_elicitation};

fn form(properties: &Value, required: &[&str]) -> Form {
    let schema = json!({"type": "object", "properties": properties, "required": required}).to_string();
    Form::new(&v2::ElicitationSchema::decode(&schema, WireFormat::Any).unwrap())
}

/// Returns the error of a value in a field, or an empty text.
fn fault(property: &Value, value: Value) -> String {
    let faults = form(&json!({"f": property}), &[]).check([("f", value)]);
    faults.first().map(|fault| fault.reason.clone()).unwrap_or_default()
}

#[test]
fn every_kind_of_field_takes_what_fits_and_says_what_does_not() {
    let text = json!({"type": "string", "minLength": 2, "maxLength": 4});
    let email = json!({"type": "string", "format": "email"});
    let date = json!({"type": "string", "format": "date"});
    let pattern = json!({"type": "string", "pattern": "^a+$"});
    let not_understood = json!({"type": "string", "pattern": "(?=a)"});
    let number = json!({"type": "number", "minimum": 0.5, "maximum": 2});
    let integer = json!({"type": "integer", "minimum": 1});
    let flag = json!({"type": "boolean"});
    let choice = json!({"type": "string", "enum": ["red", "green"]});
    let titled = json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]});
    let several = json!({"type": "array", "minItems": 1, "maxItems": 2,
        "items": {"type": "string", "enum": ["a", "b", "c"]}});
    let odd = json!({"type": "_matrix"});
    let cases = [
        (&text, json!("ab"), ""),
        (&text, json!("éééé"), ""),
        (&text, json!("a"), "at least 2 characters"),
        (&text, json!("ééééé"), "at most 4 characters"),
        (&text, json!(12), "a text is expected"),
        (&text, json!(null), "a text is expected"),
        (&email, json!("a@b"), ""),
        (&email, json!("a b@c"), "this is no email"),
        (&date, json!("2026-02-28"), ""),
        (&date, json!("2026-13-28"), "this is no date"),
        (&pattern, json!("aaa"), ""),
        (&pattern, json!("ab"), "this is not like ^a+$"),
        (&not_understood, json!("z"), ""),
        (&number, json!(1.5), ""),
        (&number, json!(0.4), "at least 0.5"),
        (&number, json!(3), "at most 2"),
        (&number, json!("1"), "a number is expected"),
        (&integer, json!(7), ""),
        (&integer, json!(7.0), ""),
        (&integer, json!(1.5), "a whole number is expected"),
        (&integer, json!(0), "at least 1"),
        (&flag, json!(false), ""),
        (&flag, json!("yes"), "yes or no is expected"),
        (&choice, json!("green"), ""),
        (&choice, json!("blue"), "\"blue\" is not among the choices"),
        (&titled, json!("r"), ""),
        (&titled, json!("Red"), "\"Red\" is not among the choices"),
        (&several, json!(["a", "c"]), ""),
        (&several, json!([]), "at least 1 choices"),
        (&several, json!(["a", "b", "c"]), "at most 2 choices"),
        (&several, json!(["z"]), "\"z\" is not among the choices"),
        (&several, json!(["a", "a"]), "\"a\" is chosen twice"),
        (&several, json!([1]), "a list of texts is expected"),
        (&several, json!("a"), "a list of choices is expected"),
        (&odd, json!([[1]]), ""),
    ];
    for (property, value, expected) in cases {
        assert_eq!(fault(property, value.clone()), expected, "{property} {value}");
    }
}

#[test]
fn all_faults_of_an_answer_are_named_by_their_field() {
    let form = form(
        &json!({"name": {"type": "string"}, "age": {"type": "integer"}, "flag": {"type": "boolean"}}),
        &["name", "ghost"],
    );
    let faults = form.check([("age", json!("old")), ("extra", json!(1))]);
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "name: an answer is required",
            "age: a whole number is expected",
            "extra: the form has no such field"
        ]
    );
    assert_eq!(form.check([("name", json!("Ann"))]), []);
}

#[test]
fn only_what_accepts_a_form_is_checked() {
    let form = r#"{"mode":"form","sessionId":"s","message":"Who?","requestedSchema":
        {"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}"#;
    let page = r#"{"mode":"url","sessionId":"s","message":"Go","elicitationId":"e","url":"https://a.b"}"#;
    let faults = |request: &str, response: &str| {
        let request = v2::CreateElicitationRequest::decode(request, WireFormat::Any).unwrap();
        let response = v2::CreateElicitationResponse::decode(response, WireFormat::Any).unwrap();
        check_elicitation(&request, &response).len()
    };
    assert_eq!(faults(form, r#"{"action":"accept","content":{"n":1}}"#), 0);
    assert_eq!(faults(form, r#"{"action":"accept","content":{"n":"1"}}"#), 1);
    assert_eq!(faults(form, r#"{"action":"accept"}"#), 1);
    assert_eq!(faults(form, r#"{"action":"decline"}"#), 0);
    assert_eq!(faults(page, r#"{"action":"accept"}"#), 0);
}

/// Patterns with exponential backtracking elsewhere, oversized patterns, too many patterns, and very long
/// names.
#[test]
fn forms_that_mean_harm_cost_little() {
    let slow = json!({"type": "string", "pattern": "^(a|a)*(a|a)*(a+)+$"});
    assert_eq!(
        fault(&slow, json!(format!("{}b", "a".repeat(100_000)))),
        "this is not like ^(a|a)*(a|a)*(a+)+$"
    );
    let large = json!({"type": "string", "pattern": "((a{1000}){1000}){1000}"});
    assert_eq!(fault(&large, json!("b")), "", "it is not compiled, so it is the agent's to check");
    let many: serde_json::Map<String, Value> =
        (0..5_000).map(|at| (at.to_string(), json!({"type": "string", "pattern": "[a-z]{50}"}))).collect();
    let answers: Vec<_> = (0..5_000).map(|at: usize| (at.to_string(), json!("1"))).collect();
    let faults =
        form(&Value::Object(many), &[]).check(answers.iter().map(|(name, value)| (&**name, value.clone())));
    assert!((1..5_000).contains(&faults.len()), "{}", faults.len());
    let choices: Vec<_> = (0..20_000).map(|at| at.to_string()).collect();
    let list = json!({"type": "array", "items": {"type": "string", "enum": choices}});
    assert_eq!(fault(&list, json!(choices)), "");
    let long = fault(&json!({"type": "string", "enum": ["x"]}), json!("é".repeat(1_000_000)));
    assert!(long.len() < 200, "{}", long.len());
}
