//! Questions of agents: permissions as confirmations of tool calls, forms as input requests, and their answers.

use ahp_types::actions::{ChatInputCompletedAction, ChatToolCallConfirmedAction};
use ahp_types::state::{ChatInputAnswer, ChatInputAnswerValue, ChatInputResponseKind};
use serde_json::{Value, json};
use switchboard_acp::v2::{
    self, ElicitationPropertySchema as Schema, PermissionOptionKind, RequestPermissionSubject,
};
use switchboard_acp::{Wire, WireFormat};
use switchboard_session::Form;

use crate::content::{clipped, clipped_to, code_block, code_span, escaped, patch_text};

/// Maximum length in bytes of a patch in a question.
const MAX_PATCH: usize = 32 << 10;

/// A pending question of an agent.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// Id of the request on the connection.
    pub(crate) id: String,
    /// Turn in which it is shown.
    pub(crate) turn: String,
    /// Id of the entry in the session's list of requests.
    pub(crate) need: String,
    pub(crate) kind: QuestionKind,
}

/// Kind of a question.
#[derive(Debug, Clone)]
pub(crate) enum QuestionKind {
    Permission {
        /// Tool call in which it is shown.
        call: String,
        /// True if the tool call exists only for the question.
        is_own: bool,
        options: Vec<(String, PermissionOptionKind)>,
    },
    Form {
        request: Box<v2::CreateElicitationRequest<'static>>,
    },
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Option(String),
    /// The response to an elicitation, as JSON.
    Form(String),
    Cancelled,
}

fn is_allowing(kind: &PermissionOptionKind) -> bool {
    matches!(kind, PermissionOptionKind::AllowOnce | PermissionOptionKind::AllowAlways)
}

/// Returns the options of a permission request. Unknown kinds deny.
pub(crate) fn options(request: &v2::RequestPermissionRequest<'_>) -> Value {
    let option = |option: &v2::PermissionOption<'_>| {
        let kind = if is_allowing(&option.kind) { "approve" } else { "deny" };
        json!({"id": &*option.option_id, "label": &*option.name, "kind": kind})
    };
    Value::Array(request.options.iter().map(option).collect())
}

/// Returns the text of a permission request below its title: description, command and changes.
pub(crate) fn subject(request: &v2::RequestPermissionRequest<'_>) -> String {
    let mut parts = Vec::new();
    if let Some(description) = &request.description {
        parts.push(escaped(&clipped(description)));
    }
    match &request.subject {
        Some(RequestPermissionSubject::Command(command)) => {
            parts.push(code_block("sh", &clipped(&command.command)));
            parts.push(format!("in {}", code_span(command.cwd.as_str())));
        }
        Some(RequestPermissionSubject::ToolCall(subject)) => parts.extend(call_text(&subject.tool_call)),
        Some(RequestPermissionSubject::Unknown(unknown)) => {
            parts.push(format!("a subject of the unknown kind {}", code_span(&unknown.tag)));
        }
        Some(RequestPermissionSubject::More(none)) => none.never(),
        None => {}
    }
    if parts.is_empty() {
        parts.push(escaped(&clipped(&request.title)));
    }
    parts.join("\n\n")
}

fn call_text(call: &v2::ToolCallUpdate<'_>) -> Vec<String> {
    let title = call.title.value().map(|title| escaped(&clipped(title)));
    let content = call.content.value().into_iter().flatten();
    let content = content.filter_map(|content| match content {
        v2::ToolCallContent::Diff(diff) => {
            patch_text(diff).map(|patch| code_block("diff", &clipped_to(&patch, MAX_PATCH)))
        }
        v2::ToolCallContent::Content(content) => {
            content.content.as_text().map(|text| escaped(&clipped(text)))
        }
        _ => None,
    });
    title.into_iter().chain(content).collect()
}

/// Returns the answer that a confirmation is. Fails with a reason if it is none.
///
/// A client that has the question open in another window approves by itself, without an option, after it was answered
/// elsewhere. So an approval must name an option that allows.
pub(crate) fn confirmed(
    action: &ChatToolCallConfirmedAction,
    offered: &[(String, PermissionOptionKind)],
) -> Result<Answer, &'static str> {
    let selected = action.selected_option_id.as_deref();
    match selected.map(|id| offered.iter().find(|(offered, _)| offered == id)) {
        Some(None) => Err("the agent did not offer this option"),
        Some(Some((_, kind))) if is_allowing(kind) != action.approved => {
            Err("the option and the approval contradict each other")
        }
        Some(Some((id, _))) => Ok(Answer::Option(id.clone())),
        None if action.approved => Err("an approval must name the option that was chosen"),
        None => {
            let once = offered.iter().find(|(_, kind)| *kind == PermissionOptionKind::RejectOnce);
            Ok(once.map_or(Answer::Cancelled, |(id, _)| Answer::Option(id.clone())))
        }
    }
}

// ----- forms

/// Returns the input request of an elicitation.
pub(crate) fn input_request(id: &str, request: &v2::CreateElicitationRequest<'_>) -> Value {
    match request {
        v2::CreateElicitationRequest::Form(form) => {
            let questions: Vec<Value> =
                Form::new(&form.requested_schema).fields().iter().map(question).collect();
            json!({"id": id, "message": &*form.message, "questions": questions})
        }
        v2::CreateElicitationRequest::Url(page) => {
            json!({"id": id, "message": &*page.message, "url": &*page.url})
        }
        v2::CreateElicitationRequest::Unknown(unknown) => {
            let message = unknown.text("message").unwrap_or_default();
            json!({"id": id, "message": format!("{message} (a question of a kind that this hub does not know)")})
        }
        v2::CreateElicitationRequest::More(none) => none.never(),
    }
}

fn question(field: &switchboard_session::FormField) -> Value {
    let (title, description) = match field.schema() {
        Schema::String(schema) => (&schema.title, &schema.description),
        Schema::Number(schema) => (&schema.title, &schema.description),
        Schema::Integer(schema) => (&schema.title, &schema.description),
        Schema::Boolean(schema) => (&schema.title, &schema.description),
        Schema::Array(schema) => (&schema.title, &schema.description),
        Schema::Unknown(_) => (&None, &None),
        Schema::More(none) => none.never(),
    };
    let title = title.as_deref().unwrap_or(field.name());
    let mut question = json!({
        "id": field.name(), "title": title, "message": description.as_deref().unwrap_or(title),
        "required": field.is_required(),
    });
    let choices = field.choices();
    let default = field.default_value();
    let is_default = |value: &str| match &default {
        Some(Value::String(default)) => default == value,
        Some(Value::Array(defaults)) => defaults.iter().any(|default| default == value),
        _ => false,
    };
    let options: Vec<Value> = choices
        .iter()
        .map(|choice| {
            let mut option = json!({"id": choice.value, "label": choice.title});
            if let Some(description) = choice.description {
                option["description"] = json!(description);
            }
            if is_default(choice.value) {
                option["recommended"] = json!(true);
            }
            option
        })
        .collect();
    let kind = match field.schema() {
        Schema::Array(_) => "multi-select",
        _ if !choices.is_empty() => "single-select",
        Schema::Number(_) => "number",
        Schema::Integer(_) => "integer",
        Schema::Boolean(_) => "boolean",
        _ => "text",
    };
    question["kind"] = json!(kind);
    match field.schema() {
        _ if kind.ends_with("select") => question["options"] = Value::Array(options),
        Schema::String(schema) => {
            insert(&mut question, "min", schema.min_length.map(Value::from));
            insert(&mut question, "max", schema.max_length.map(Value::from));
            insert(&mut question, "defaultValue", default.clone());
        }
        Schema::Number(_) | Schema::Integer(_) | Schema::Boolean(_) => {
            insert(&mut question, "defaultValue", default.clone());
        }
        _ => {}
    }
    if let Schema::Integer(schema) = field.schema() {
        insert(&mut question, "min", schema.minimum.map(Value::from));
        insert(&mut question, "max", schema.maximum.map(Value::from));
    }
    question
}

fn insert(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        object[key] = value;
    }
}

/// Returns the response to an elicitation. Fails with a reason if the answers do not fit the form.
pub(crate) fn completed(
    action: &ChatInputCompletedAction,
    request: &v2::CreateElicitationRequest<'_>,
) -> Result<Answer, String> {
    let response = match action.response {
        ChatInputResponseKind::Accept => {
            let mut content = serde_json::Map::new();
            if let v2::CreateElicitationRequest::Form(form) = request {
                let form = Form::new(&form.requested_schema);
                for (name, answer) in action.answers.iter().flatten() {
                    let is_integer = form
                        .fields()
                        .iter()
                        .any(|field| field.name() == name && matches!(field.schema(), Schema::Integer(_)));
                    if let Some(value) = answered(answer, is_integer) {
                        content.insert(name.clone(), value);
                    }
                }
            }
            match request {
                v2::CreateElicitationRequest::Form(_) => json!({"action": "accept", "content": content}),
                _ => json!({"action": "accept"}),
            }
        }
        ChatInputResponseKind::Decline => json!({"action": "decline"}),
        ChatInputResponseKind::Cancel => json!({"action": "cancel"}),
    };
    let text = response.to_string();
    let decoded =
        v2::CreateElicitationResponse::decode(&text, WireFormat::Any).map_err(|error| error.to_string())?;
    let faults = switchboard_session::check_elicitation(request, &decoded);
    match faults.first() {
        Some(fault) => Err(fault.to_string()),
        None => Ok(Answer::Form(text)),
    }
}

fn answered(answer: &ChatInputAnswer, is_integer: bool) -> Option<Value> {
    let ChatInputAnswer::Submitted(answer) = answer else { return None };
    Some(match &answer.value {
        ChatInputAnswerValue::Text(text) => json!(text.value),
        // Integers are written without a fraction, which agents may refuse.
        #[allow(clippy::cast_possible_truncation)]
        ChatInputAnswerValue::Number(number) if is_integer && number.value.fract() == 0.0 => {
            json!(number.value as i64)
        }
        ChatInputAnswerValue::Number(number) => json!(number.value),
        ChatInputAnswerValue::Boolean(boolean) => json!(boolean.value),
        ChatInputAnswerValue::Selected(selected) => json!(selected.value),
        ChatInputAnswerValue::SelectedMany(selected) => json!(selected.value),
        ChatInputAnswerValue::Unknown(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered() -> Vec<(String, PermissionOptionKind)> {
        vec![
            ("yes".into(), PermissionOptionKind::AllowOnce),
            ("always".into(), PermissionOptionKind::AllowAlways),
            ("no".into(), PermissionOptionKind::RejectOnce),
            ("odd".into(), PermissionOptionKind::from("odd")),
        ]
    }

    #[test]
    fn an_approval_counts_only_with_an_option_that_allows() {
        let answer = |approved: bool, option: Option<&str>| {
            let mut action = json!({"turnId": "t", "toolCallId": "c", "approved": approved});
            if let Some(option) = option {
                action["selectedOptionId"] = json!(option);
            }
            confirmed(&serde_json::from_value(action).unwrap(), &offered()).ok()
        };
        let chosen = |id: &str| Some(Answer::Option(id.to_owned()));
        assert_eq!(answer(true, Some("yes")), chosen("yes"));
        assert_eq!(answer(true, Some("always")), chosen("always"));
        assert_eq!(answer(false, Some("no")), chosen("no"));
        assert_eq!(answer(false, Some("odd")), chosen("odd"));
        assert_eq!(answer(false, None), chosen("no"));
        for (approved, option) in [
            (true, None),
            (true, Some("no")),
            (true, Some("odd")),
            (true, Some("none")),
            (false, Some("yes")),
        ] {
            assert_eq!(answer(approved, option), None, "{approved} {option:?}");
        }
        let action =
            serde_json::from_value(json!({"turnId": "t", "toolCallId": "c", "approved": false})).unwrap();
        assert_eq!(confirmed(&action, &offered()[..2]), Ok(Answer::Cancelled));
    }

    fn form() -> v2::CreateElicitationRequest<'static> {
        let request = json!({"mode": "form", "message": "Which?", "sessionId": "s", "requestedSchema": {
            "type": "object", "required": ["db"], "properties": {
                "db": {"type": "string", "title": "Database", "oneOf": [{"const": "pg", "title": "Postgres"}, {"const": "lite", "title": "SQLite"}], "default": "pg"},
                "name": {"type": "string", "minLength": 1, "default": "x"},
                "count": {"type": "integer", "minimum": 1, "maximum": 5},
                "ratio": {"type": "number"}, "on": {"type": "boolean", "default": true},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}}}});
        let text = request.to_string();
        v2::CreateElicitationRequest::decode(&text, WireFormat::Any).unwrap().into_owned()
    }

    #[test]
    fn every_kind_of_field_has_its_question() {
        let request = form();
        let input = input_request("f", &request);
        let _: ahp_types::state::ChatInputRequest = serde_json::from_value(input.clone()).unwrap();
        let kinds: Vec<&str> =
            input["questions"].as_array().unwrap().iter().map(|q| q["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds.len(), 6);
        for kind in ["single-select", "text", "integer", "number", "boolean", "multi-select"] {
            assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
        }
    }

    #[test]
    fn answers_must_fit_the_form() {
        let answer = |response: &str, answers: Value| {
            let action = json!({"requestId": "f", "response": response, "answers": answers});
            completed(&serde_json::from_value(action).unwrap(), &form())
        };
        let given =
            |kind: &str, value: Value| json!({"state": "submitted", "value": {"kind": kind, "value": value}});
        let full = json!({"db": given("selected", json!("lite")), "count": given("number", json!(2.0)),
            "tags": given("selected-many", json!(["a"])), "name": {"state": "skipped"}, "on": given("boolean", json!(false))});
        let Ok(Answer::Form(text)) = answer("accept", full) else { panic!() };
        let sent: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            sent,
            json!({"action": "accept", "content": {"db": "lite", "count": 2, "tags": ["a"], "on": false}})
        );
        assert!(answer("accept", json!({})).is_err(), "a required field is missing");
        assert!(answer("accept", json!({"db": given("selected", json!("other"))})).is_err());
        assert!(
            answer(
                "accept",
                json!({"db": given("selected", json!("pg")), "count": given("number", json!(9))})
            )
            .is_err()
        );
        assert_eq!(answer("decline", json!({})), Ok(Answer::Form(r#"{"action":"decline"}"#.into())));
        assert_eq!(answer("cancel", json!({})), Ok(Answer::Form(r#"{"action":"cancel"}"#.into())));
    }
}
