//! Elicitations in the terminal: a form that is filled in field by field, or a web page to visit.

use std::fmt::Write;

use serde_json::{Value, json};
use switchboard_acp::display::{visible, visible_line};
use switchboard_acp::v2::{self, ElicitationPropertySchema as Schema};
use switchboard_acp::{Map, Number, Raw, Text};
use switchboard_session::{Choice, FormField};

use crate::terminal::style::{Role, Style};

/// Commands to answer without data. No field accepts them as a value.
const DECLINE: &str = "/decline";
const CANCEL: &str = "/cancel";

/// A question that is being answered.
#[derive(Debug)]
pub(super) struct Form {
    /// The agent's message.
    message: String,
    fields: Vec<Field>,
    /// Values by name; `None` for a skipped field.
    values: Vec<(String, Option<Value>)>,
}

#[derive(Debug)]
enum Field {
    /// A field of the form.
    Property(Box<FormField>),
    /// True if the user visits a web page.
    Page,
}

/// Result of a typed line.
#[derive(Debug)]
pub(super) enum Typed {
    /// Not a valid answer, for this reason.
    Wrong(String),
    /// Another field follows.
    Next,
    /// The complete answer.
    Done(Box<v2::CreateElicitationResponse<'static>>),
}

impl Form {
    /// Returns the form for a request, if it can be shown.
    pub(super) fn of(request: &v2::CreateElicitationRequest<'static>) -> Option<Self> {
        let (message, fields) = match request {
            v2::CreateElicitationRequest::Form(form) => {
                let fields = switchboard_session::Form::new(&form.requested_schema);
                let fields =
                    fields.fields().iter().cloned().map(|field| Field::Property(Box::new(field))).collect();
                let mut message = visible(&form.message).into_owned();
                let schema = &form.requested_schema;
                for more in [&schema.title, &schema.description].into_iter().flatten() {
                    let _ = write!(message, "\n{}", visible(more));
                }
                (message, fields)
            }
            v2::CreateElicitationRequest::Url(page) => {
                let message = format!("{}\n  {}", visible(&page.message), visible_line(&page.url));
                (message, vec![Field::Page])
            }
            v2::CreateElicitationRequest::Unknown(_) => return None,
            v2::CreateElicitationRequest::More(none) => none.never(),
        };
        Some(Form { message, fields, values: Vec::new() })
    }

    /// Returns whether no field was asked yet.
    pub(super) fn is_new(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the prompt text: the message at the start, then the current field.
    pub(super) fn prompt(&self, style: Style) -> String {
        let mut text = String::new();
        if self.is_new() {
            let (first, rest) = self.message.split_once('\n').unwrap_or((&self.message, ""));
            let _ =
                writeln!(text, "{} {}", style.paint(Role::Doubtful, "?"), style.paint(Role::Strong, first));
            for line in rest.lines() {
                let _ = writeln!(text, "{line}");
            }
            let hint = format!("({DECLINE} to decline, {CANCEL} to cancel)");
            let _ = writeln!(text, "{}", style.paint(Role::Faint, hint));
        }
        if let Some(field) = self.fields.get(self.values.len()) {
            field.describe(&mut text, style);
        }
        text
    }

    /// Handles a typed line.
    pub(super) fn take(&mut self, line: &str) -> Typed {
        let line = line.trim();
        let marker = v2::EmptyObject::new;
        match line {
            DECLINE => return Typed::Done(Box::new(v2::CreateElicitationResponse::Decline(marker()))),
            CANCEL => return Typed::Done(Box::new(v2::CreateElicitationResponse::Cancel(marker()))),
            _ => {}
        }
        if let Some(field) = self.fields.get(self.values.len()) {
            let field = match (field, boolean(line)) {
                (Field::Property(field), _) => field,
                (Field::Page, Some(true)) => return Typed::Done(Box::new(accepted(None))),
                (Field::Page, Some(false)) => {
                    return Typed::Done(Box::new(v2::CreateElicitationResponse::Decline(marker())));
                }
                (Field::Page, None) => return Typed::Wrong("please type yes or no".to_owned()),
            };
            match read(field, line) {
                Ok(value) => self.values.push((field.name().to_owned(), value)),
                Err(reason) => return Typed::Wrong(visible_line(&reason)),
            }
        }
        if self.values.len() < self.fields.len() {
            return Typed::Next;
        }
        let values = std::mem::take(&mut self.values).into_iter();
        let filled = values.filter_map(|(name, value)| {
            Some((Text::Owned(name), v2::ElicitationContentValue(Raw::from(value?))))
        });
        Typed::Done(Box::new(accepted(Some(filled.collect()))))
    }
}

type Content = Map<'static, v2::ElicitationContentValue<'static>>;

fn accepted(content: Option<Content>) -> v2::CreateElicitationResponse<'static> {
    v2::CreateElicitationResponse::Accept(v2::ElicitationAcceptAction {
        content,
        ..v2::ElicitationAcceptAction::new()
    })
}

impl Field {
    fn describe(&self, text: &mut String, style: Style) {
        let Field::Property(field) = self else {
            let _ = writeln!(text, "{} [yes/no]", style.paint(Role::Strong, "Go to this page?"));
            return;
        };
        let (title, description) = field.schema().title_and_description();
        let title = visible_line(title.unwrap_or(field.name()));
        let mut rules = rules(field.schema());
        match field.default_value() {
            Some(default) => rules.push(format!("empty for {}", visible_line(&shown(&default)))),
            None if field.is_required() => rules.push("required".to_owned()),
            None => rules.push("empty for no answer".to_owned()),
        }
        let rules = style.paint(Role::Faint, format!("({})", rules.join(", ")));
        let _ = writeln!(text, "{} {rules}", style.paint(Role::Strong, title));
        if let Some(description) = description {
            let _ = writeln!(text, "{}", visible(description));
        }
        for (place, Choice { value, title, description }) in field.choices().iter().enumerate() {
            let number = style.paint(Role::Place, format!("[{}]", place + 1));
            let name = if value == title { String::new() } else { format!(" ({})", visible_line(value)) };
            let more = description.map_or(String::new(), |more| format!(": {}", visible_line(more)));
            let _ = writeln!(text, "  {number} {}{name}{more}", visible_line(title));
        }
    }
}

/// Parses a line as a value; `None` if the field is skipped.
fn read(field: &FormField, line: &str) -> Result<Option<Value>, String> {
    if line.is_empty() {
        return match field.default_value() {
            Some(default) => Ok(Some(default)),
            None if field.is_required() => Err("this field is required".to_owned()),
            None => Ok(None),
        };
    }
    let choices = field.choices();
    let value = match field.schema() {
        Schema::String(_) if !choices.is_empty() => {
            json!(choose(&choices, line).ok_or("please type the number of a choice")?)
        }
        // Two quotes are the only way to type an empty text.
        Schema::String(_) => json!(if line == "\"\"" { "" } else { line }),
        Schema::Number(_) => Value::Number(line.parse().map_err(|_| "please type a number")?),
        Schema::Integer(_) => json!(line.parse::<i64>().map_err(|_| "please type a whole number")?),
        Schema::Boolean(_) => json!(boolean(line).ok_or("please type yes or no")?),
        Schema::Array(_) => {
            let mut chosen: Vec<&str> = Vec::new();
            let words = line.split(',').map(str::trim).filter(|word| !word.is_empty());
            for word in words.filter(|_| line != "none") {
                let value = choose(&choices, word);
                let value = value.ok_or_else(|| format!("\"{word}\" is not among the choices"))?;
                if !chosen.contains(&value) {
                    chosen.push(value);
                }
            }
            json!(chosen)
        }
        Schema::Unknown(_) => {
            serde_json::from_str(line).map_err(|error| format!("this is not valid JSON: {error}"))?
        }
        Schema::More(none) => none.never(),
    };
    field.check(&value)?;
    Ok(Some(value))
}

/// Describes the constraints of a field.
fn rules(schema: &Schema<'_>) -> Vec<String> {
    fn range<T: ToString>(least: Option<T>, most: Option<T>, unit: &str) -> Option<String> {
        match (least.map(|it| it.to_string()), most.map(|it| it.to_string())) {
            (Some(least), Some(most)) => Some(format!("{least} to {most}{unit}")),
            (Some(least), None) => Some(format!("at least {least}{unit}")),
            (None, Some(most)) => Some(format!("at most {most}{unit}")),
            (None, None) => None,
        }
    }
    let (what, range) = match schema {
        Schema::String(field) => (None, range(field.min_length, field.max_length, " characters")),
        Schema::Number(field) => {
            let words =
                |number: &Option<Number<'_>>| number.as_ref().map(|number| number.as_str().to_owned());
            (Some("a number".to_owned()), range(words(&field.minimum), words(&field.maximum), ""))
        }
        Schema::Integer(field) => {
            (Some("a whole number".to_owned()), range(field.minimum, field.maximum, ""))
        }
        Schema::Boolean(_) => (Some("yes or no".to_owned()), None),
        Schema::Array(field) => (
            Some("numbers with commas between, or none".to_owned()),
            range(field.min_items, field.max_items, " of them"),
        ),
        Schema::Unknown(unknown) => (Some(format!("{} as JSON", visible_line(&unknown.tag))), None),
        Schema::More(none) => none.never(),
    };
    let mut rules: Vec<String> = what.into_iter().chain(range).collect();
    if let Schema::String(field) = schema {
        rules.extend(field.format.as_ref().map(|format| visible_line(format.as_str())));
        rules.extend(field.pattern.as_ref().map(|pattern| format!("like {}", visible_line(pattern))));
    }
    rules
}

/// Returns the value of a choice by its number, value or title.
fn choose<'f>(choices: &[Choice<'f>], word: &str) -> Option<&'f str> {
    // A choice that is itself a number takes precedence over the position.
    let named = choices.iter().find(|choice| choice.value == word || choice.title.eq_ignore_ascii_case(word));
    let numbered = || word.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    named.or_else(numbered).map(|choice| choice.value)
}

fn boolean(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" => Some(true),
        "n" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Formats a value as a person would type it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_acp::{Wire, WireFormat};

    fn form(properties: &Value, required: &[&str]) -> Form {
        let request = json!({"mode": "form", "sessionId": "s", "message": "Who?",
            "requestedSchema": {"type": "object", "properties": properties, "required": required}});
        let text = request.to_string();
        let request = v2::CreateElicitationRequest::decode(&text, WireFormat::Any).unwrap();
        Form::of(&request.into_owned()).unwrap()
    }

    /// Returns the result of one field for a line: JSON, `nothing`, or a reason in parentheses.
    fn typed(property: &Value, required: bool, line: &str) -> String {
        let mut form = form(&json!({"f": property}), if required { &["f"] } else { &[] });
        match form.take(line) {
            Typed::Wrong(reason) => format!("({reason})"),
            Typed::Next => panic!("there is one field"),
            Typed::Done(answer) => {
                let answer: Value = serde_json::from_str(&answer.encode(WireFormat::Any)).unwrap();
                match (&answer["action"], answer["content"].get("f")) {
                    (action, _) if action != "accept" => action.as_str().unwrap().to_owned(),
                    (_, Some(value)) => value.to_string(),
                    (_, None) => "nothing".to_owned(),
                }
            }
        }
    }

    #[test]
    fn every_kind_of_field_takes_what_fits_and_says_what_does_not() {
        let text = json!({"type": "string", "minLength": 2, "maxLength": 4});
        let email = json!({"type": "string", "format": "email"});
        let date = json!({"type": "string", "format": "date"});
        let time = json!({"type": "string", "format": "date-time"});
        let uri = json!({"type": "string", "format": "uri"});
        let pattern = json!({"type": "string", "pattern": "^a+$"});
        let not_understood = json!({"type": "string", "pattern": "(?=a)"});
        let number = json!({"type": "number", "minimum": 0.5, "maximum": 2});
        let integer = json!({"type": "integer", "minimum": 1, "default": 3});
        let flag = json!({"type": "boolean"});
        let choice = json!({"type": "string", "enum": ["red", "green", "1"]});
        let titled = json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]});
        let several = json!({"type": "array", "minItems": 1, "maxItems": 2,
            "items": {"type": "string", "enum": ["a", "b", "c"]}});
        let any = json!({"type": "array", "items": {"anyOf": [{"const": "x", "title": "The x"}]}});
        let odd = json!({"type": "_matrix"});
        let cases = [
            (&text, " ab \n", r#""ab""#),
            (&text, "a", "(at least 2 characters)"),
            (&text, "éééé", r#""éééé""#),
            (&text, "ééééé", "(at most 4 characters)"),
            (&text, "\"\"", "(at least 2 characters)"),
            (&text, "", "nothing"),
            (&text, "/decline", "decline"),
            (&text, "/cancel\n", "cancel"),
            (&email, "a@b", r#""a@b""#),
            (&email, "a b@c", "(this is no email)"),
            (&date, "2026-02-28", r#""2026-02-28""#),
            (&date, "2026-13-28", "(this is no date)"),
            (&time, "2026-02-28T10:00:00Z", r#""2026-02-28T10:00:00Z""#),
            (&time, "2026-02-28T10:00:00", "(this is no date-time)"),
            (&uri, "https://a.b/c", r#""https://a.b/c""#),
            (&uri, "a.b", "(this is no uri)"),
            (&pattern, "aaa", r#""aaa""#),
            (&pattern, "ab", "(this is not like ^a+$)"),
            (&not_understood, "z", r#""z""#),
            (&number, "1.5", "1.5"),
            (&number, "0.4", "(at least 0.5)"),
            (&number, "3", "(at most 2)"),
            (&number, "two", "(please type a number)"),
            (&integer, "7", "7"),
            (&integer, "", "3"),
            (&integer, "1.5", "(please type a whole number)"),
            (&integer, "0", "(at least 1)"),
            (&flag, "Y", "true"),
            (&flag, "no", "false"),
            (&flag, "maybe", "(please type yes or no)"),
            (&choice, "2", r#""green""#),
            (&choice, "1", r#""1""#),
            (&choice, "RED", r#""red""#),
            (&choice, "9", "(please type the number of a choice)"),
            (&titled, "red", r#""r""#),
            (&titled, "1", r#""r""#),
            (&several, "1, c", r#"["a","c"]"#),
            (&several, "a,a", r#"["a"]"#),
            (&several, "1,2,3", "(at most 2 choices)"),
            (&several, "none", "(at least 1 choices)"),
            (&several, "z", "(\"z\" is not among the choices)"),
            (&any, "none", "[]"),
            (&any, "1", r#"["x"]"#),
            (&odd, "[[1]]", "[[1]]"),
        ];
        for (property, line, expected) in cases {
            assert_eq!(typed(property, false, line), expected, "{property} {line:?}");
        }
        assert_eq!(typed(&text, true, ""), "(this field is required)");
        assert!(typed(&odd, true, "{").starts_with("(this is not valid JSON"));
    }

    #[test]
    fn fields_are_asked_for_one_after_the_other_and_shown_without_escapes() {
        let properties = r#"{
            "name": {"type": "string", "title": "Name\u001b[2J", "description": "Yours", "maxLength": 9},
            "age": {"type": "integer", "default": 3},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
        }"#;
        let request = format!(
            r#"{{"mode":"form","sessionId":"s","message":"Who?","requestedSchema":
                {{"type":"object","properties":{properties},"required":["name"]}}}}"#
        );
        let request = v2::CreateElicitationRequest::decode(&request, WireFormat::Any).unwrap();
        let mut form = Form::of(&request.into_owned()).unwrap();
        let first = form.prompt(Style::PLAIN);
        assert!(first.starts_with("? Who?\n") && !first.contains('\u{1b}'), "{first}");
        assert!(first.contains("(at most 9 characters, required)\nYours\n"), "{first}");
        assert!(matches!(form.take("Ann"), Typed::Next));
        assert_eq!(form.prompt(Style::PLAIN), "age (a whole number, empty for 3)\n");
        assert!(matches!(form.take(""), Typed::Next));
        let last = "tags (numbers with commas between, or none, empty for no answer)\n  [1] a\n  [2] b\n";
        assert_eq!(form.prompt(Style::PLAIN), last);
        let Typed::Done(answer) = form.take("") else { panic!() };
        assert_eq!(answer.encode(WireFormat::Any), r#"{"action":"accept","content":{"name":"Ann","age":3}}"#);
    }

    #[test]
    fn a_web_page_is_shown_and_gone_to_only_on_a_yes() {
        let text = "{\"mode\":\"url\",\"sessionId\":\"s\",\"message\":\"Log in\",\"elicitationId\":\"e\",
            \"url\":\"https://a.b/\u{202e}c\"}";
        let request = v2::CreateElicitationRequest::decode(text, WireFormat::Any).unwrap().into_owned();
        for (line, expected) in [("yes", "accept"), ("n", "decline"), ("/cancel", "cancel")] {
            let mut form = Form::of(&request).unwrap();
            let prompt = form.prompt(Style::PLAIN);
            assert!(prompt.contains("https://a.b/") && !prompt.contains('\u{202e}'), "{prompt}");
            assert!(matches!(form.take(""), Typed::Wrong(_)));
            let Typed::Done(answer) = form.take(line) else { panic!() };
            assert_eq!(answer.tag(), expected);
        }
    }
}
