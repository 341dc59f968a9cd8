//! Forms that agents ask users to fill in: fields, and validation of answers.

use std::collections::HashSet;
use std::fmt;

use regex::RegexBuilder;
use serde_json::{Value, json};
use switchboard_acp::v2::{self, ElicitationPropertySchema as Schema};
use switchboard_acp::{Map, Number, Text};

/// Maximum compiled size of an agent's regular expression in bytes.
const PATTERN_LIMIT: usize = 1 << 20;

/// Maximum total length of the regular expressions compiled for one form. Further patterns are left to the
/// agent to check.
const PATTERNS_LIMIT: usize = 16 * 1024;

/// Maximum length of a value quoted in a message.
const MAX_QUOTED: usize = 60;

/// The fields of a form, in order.
///
/// ```
/// use serde_json::json;
/// use switchboard_acp::{Wire, WireFormat, v2};
/// use switchboard_session::Form;
///
/// let schema = r#"{"type":"object","properties":{"age":{"type":"integer","minimum":1}},"required":["age"]}"#;
/// let form = Form::new(&v2::ElicitationSchema::decode(schema, WireFormat::Any)?);
/// assert!(form.check([("age", json!(7))]).is_empty());
/// let faults = form.check([("age", json!(0)), ("name", json!("Ann"))]);
/// assert_eq!(faults[0].to_string(), "age: at least 1");
/// assert_eq!(faults[1].to_string(), "name: the form has no such field");
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Form {
    fields: Vec<FormField>,
}

/// One field of a form.
#[derive(Debug, Clone)]
pub struct FormField {
    name: String,
    is_required: bool,
    checks_pattern: bool,
    schema: Schema<'static>,
}

/// An option of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice<'f> {
    /// Value in the answer.
    pub value: &'f str,
    /// Title for display.
    pub title: &'f str,
    /// Description, if any.
    pub description: Option<&'f str>,
}

/// Validation error of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormFault {
    /// Name of the field.
    pub field: String,
    /// Expectation that the value violates.
    pub reason: String,
}

impl fmt::Display for FormFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", shortened(&self.field), self.reason)
    }
}

impl Form {
    /// Creates a form from a schema.
    pub fn new(schema: &v2::ElicitationSchema<'_>) -> Self {
        use switchboard_acp::Wire as _;
        let required: HashSet<&str> = schema.required_names.iter().flatten().map(|name| &**name).collect();
        let mut patterns = 0;
        let fields = schema.properties.iter().flat_map(Map::iter).map(|(name, schema)| {
            if let Schema::String(field) = schema {
                patterns += field.pattern.as_ref().map_or(0, |pattern| pattern.len());
            }
            FormField {
                name: name.to_owned(),
                is_required: required.contains(name),
                checks_pattern: patterns <= PATTERNS_LIMIT,
                schema: schema.clone().into_owned(),
            }
        });
        Form { fields: fields.collect() }
    }

    /// Returns the fields.
    pub fn fields(&self) -> &[FormField] {
        &self.fields
    }

    /// Validates answers. Returns the errors by field; empty if the answers can be sent.
    pub fn check<'n>(&self, answers: impl IntoIterator<Item = (&'n str, Value)>) -> Vec<FormFault> {
        let mut answers: std::collections::BTreeMap<&str, Value> = answers.into_iter().collect();
        let mut faults = Vec::new();
        for field in &self.fields {
            let outcome = match answers.remove(&*field.name) {
                Some(value) => field.check(&value),
                None if field.is_required => Err("an answer is required".to_owned()),
                None => Ok(()),
            };
            faults.extend(outcome.err().map(|reason| FormFault { field: field.name.clone(), reason }));
        }
        let strangers = answers.into_keys().map(|name| FormFault {
            field: name.to_owned(),
            reason: "the form has no such field".to_owned(),
        });
        faults.extend(strangers);
        faults
    }
}

/// Validates an answer to an elicitation: the content of one that accepts a form.
pub fn check_elicitation(
    request: &v2::CreateElicitationRequest<'_>,
    response: &v2::CreateElicitationResponse<'_>,
) -> Vec<FormFault> {
    let (v2::CreateElicitationRequest::Form(form), v2::CreateElicitationResponse::Accept(answer)) =
        (request, response)
    else {
        return Vec::new();
    };
    let values = answer.content.iter().flat_map(Map::iter).map(|(name, value)| (name, value.0.to_value()));
    Form::new(&form.requested_schema).check(values)
}

impl FormField {
    /// Returns the name, which is the key of the answer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if the form requires it.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// Returns the agent's schema of the field.
    pub fn schema(&self) -> &Schema<'static> {
        &self.schema
    }

    /// Returns the initial value.
    pub fn default_value(&self) -> Option<Value> {
        match &self.schema {
            Schema::String(field) => field.default.as_ref().map(|text| json!(text)),
            Schema::Number(field) => field.default.as_ref().and_then(|number| number.as_str().parse().ok()),
            Schema::Integer(field) => field.default.map(|number| json!(number)),
            Schema::Boolean(field) => field.default.map(|value| json!(value)),
            Schema::Array(field) => field.default.as_ref().map(|values| json!(values)),
            Schema::Unknown(_) => None,
            Schema::More(none) => none.never(),
        }
    }

    /// Returns the options. Empty for a field with free input.
    pub fn choices(&self) -> Vec<Choice<'_>> {
        fn plain<'f>(values: &'f [Text<'_>]) -> Vec<Choice<'f>> {
            values.iter().map(|value| Choice { value, title: value, description: None }).collect()
        }
        fn titled<'f>(options: &'f [v2::EnumOption<'_>]) -> Vec<Choice<'f>> {
            let choice = |option: &'f v2::EnumOption<'_>| Choice {
                value: &option.value,
                title: &option.title,
                description: option.description.as_deref(),
            };
            options.iter().map(choice).collect()
        }
        match &self.schema {
            Schema::String(field) => match (&field.options, &field.values) {
                (Some(options), _) => titled(options),
                (None, Some(values)) => plain(values),
                (None, None) => Vec::new(),
            },
            Schema::Array(field) => match &field.items {
                v2::MultiSelectItems::String(items) => plain(&items.values),
                v2::MultiSelectItems::Titled(items) => titled(&items.options),
                v2::MultiSelectItems::Unknown(_) => Vec::new(),
                v2::MultiSelectItems::More(none) => none.never(),
            },
            _ => Vec::new(),
        }
    }

    /// Validates a value. Returns the expectation that it violates. Accepts any value for a field of an
    /// unknown kind.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        match (&self.schema, value) {
            (Schema::String(field), Value::String(text)) => match &self.choices()[..] {
                [] => self.check_text(field, text),
                choices if choices.iter().any(|choice| choice.value == text) => Ok(()),
                _ => Err(not_a_choice(text)),
            },
            (Schema::String(_), _) => Err("a text is expected".to_owned()),
            (Schema::Number(field), Value::Number(number)) => {
                let bound = |bound: &Option<Number<'_>>| {
                    bound.as_ref().and_then(|bound| bound.as_str().parse::<f64>().ok())
                };
                let value = number.as_f64().ok_or("a number is expected")?;
                check_range(&value, bound(&field.minimum).as_ref(), bound(&field.maximum).as_ref())
            }
            (Schema::Number(_), _) => Err("a number is expected".to_owned()),
            (Schema::Integer(field), value) => {
                let value = whole_number(value).ok_or("a whole number is expected")?;
                check_range(&value, field.minimum.as_ref(), field.maximum.as_ref())
            }
            (Schema::Boolean(_), Value::Bool(_)) => Ok(()),
            (Schema::Boolean(_), _) => Err("yes or no is expected".to_owned()),
            (Schema::Array(field), Value::Array(values)) => {
                if !matches!(field.items, v2::MultiSelectItems::Unknown(_)) {
                    self.check_chosen(values)?;
                }
                let count = values.len() as u64;
                check_range(&count, field.min_items.as_ref(), field.max_items.as_ref())
                    .map_err(|reason| format!("{reason} choices"))
            }
            (Schema::Array(_), _) => Err("a list of choices is expected".to_owned()),
            (Schema::Unknown(_), _) => Ok(()),
            (Schema::More(none), _) => none.never(),
        }
    }

    fn check_chosen(&self, values: &[Value]) -> Result<(), String> {
        let choices: HashSet<&str> = self.choices().into_iter().map(|choice| choice.value).collect();
        let mut seen = HashSet::new();
        for value in values {
            let text = value.as_str().ok_or("a list of texts is expected")?;
            if !choices.contains(text) {
                return Err(not_a_choice(text));
            }
            if !seen.insert(text) {
                return Err(format!("\"{}\" is chosen twice", shortened(text)));
            }
        }
        Ok(())
    }

    fn check_text(&self, field: &v2::StringPropertySchema<'_>, text: &str) -> Result<(), String> {
        let length = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        check_range(&length, field.min_length.as_ref(), field.max_length.as_ref())
            .map_err(|reason| format!("{reason} characters"))?;
        if let Some(format) = field.format.as_ref().filter(|format| !fits(format, text)) {
            return Err(format!("this is no {}", format.as_str()));
        }
        if let Some(pattern) = field.pattern.as_ref().filter(|_| self.checks_pattern) {
            // A pattern that is not supported here is left to the agent to check.
            let compiled = RegexBuilder::new(pattern).size_limit(PATTERN_LIMIT).build();
            if compiled.is_ok_and(|pattern| !pattern.is_match(text)) {
                return Err(format!("this is not like {}", shortened(pattern)));
            }
        }
        Ok(())
    }
}

fn not_a_choice(text: &str) -> String {
    format!("\"{}\" is not among the choices", shortened(text))
}

fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(MAX_QUOTED).collect();
    if shown.len() < text.len() { format!("{shown}...") } else { shown }
}

/// Returns the integer value of a JSON number, including `3.0`.
fn whole_number(value: &Value) -> Option<i64> {
    let exact = |number: f64| number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
    value.as_i64().or_else(|| value.as_f64().filter(|number| exact(*number)).map(|number| number as i64))
}

fn check_range<T: PartialOrd + ToString>(
    value: &T,
    least: Option<&T>,
    most: Option<&T>,
) -> Result<(), String> {
    if let Some(least) = least.filter(|least| value < *least) {
        return Err(format!("at least {}", least.to_string()));
    }
    if let Some(most) = most.filter(|most| value > *most) {
        return Err(format!("at most {}", most.to_string()));
    }
    Ok(())
}

/// Returns true if a text plausibly has a format. The agent decides.
fn fits(format: &v2::StringFormat, text: &str) -> bool {
    let number = |digits: &str, range: std::ops::RangeInclusive<u32>| {
        digits.bytes().all(|byte| byte.is_ascii_digit())
            && digits.parse().is_ok_and(|number| range.contains(&number))
    };
    let is_date = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        matches!(*parts, [year, month, day]
            if (year.len(), month.len(), day.len()) == (4, 2, 2)
                && number(year, 0..=9999) && number(month, 1..=12) && number(day, 1..=31))
    };
    match format {
        v2::StringFormat::Email => {
            let parts = text.rsplit_once('@');
            parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
                && !text.contains(char::is_whitespace)
        }
        v2::StringFormat::Uri => {
            let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme.bytes().all(is_part)
                && !text.contains(char::is_whitespace)
        }
        v2::StringFormat::Date => is_date(text),
        v2::StringFormat::DateTime => {
            let parts = text.split_once(['T', 't', ' ']);
            parts.is_some_and(|(date, time)| {
                let (clock, zone) = time.split_at_checked(8).unwrap_or_default();
                let parts: Vec<&str> = clock.split(':').collect();
                is_date(date)
                    && zone.contains(['Z', 'z', '+', '-'])
                    && matches!(*parts, [hour, minute, second]
                        if number(hour, 0..=23) && number(minute, 0..=59) && number(second, 0..=60))
            })
        }
        v2::StringFormat::Unknown(_) => true,
        v2::StringFormat::More(none) => none.never(),
    }
}
