//! Elicitation requests: questions to the user, as forms or links.

use maud::{Markup, html};
use switchboard_acp::{Map, Number, Wire, WireFormat, v2};
use switchboard_session::{Elicitation, Settlement};

use super::icons::icon;
use super::markdown::is_safe_link;
use super::permission::{cancelled_by, request_id};
use super::text::{prose, visible, visible_line};
use super::{Part, content, json};

/// Maximum number of fields that are shown.
const MOST_FIELDS: usize = 200;
/// Maximum number of values of one choice that are shown.
const MOST_VALUES: usize = 1000;

/// Renders an elicitation: a form while it is pending, its outcome once it is settled.
pub(crate) fn elicitation(elicitation: &Elicitation) -> Vec<Part> {
    let request = elicitation.request();
    let message = match request {
        v2::CreateElicitationRequest::Form(form) => Some(form.message.clone()),
        v2::CreateElicitationRequest::Url(url) => Some(url.message.clone()),
        v2::CreateElicitationRequest::Unknown(unknown) => unknown.text("message"),
        v2::CreateElicitationRequest::More(none) => none.never(),
    };
    let head = html! {
        header.p.head data-part="head" {
            (icon("question"))
            h3.title { (prose(message.as_deref().unwrap_or("A question"))) }
            (settled(elicitation))
        }
    };
    let mut parts = vec![Part::new("head", head)];
    if let Settlement::Answered { answer, .. } = elicitation.settlement() {
        if let v2::CreateElicitationResponse::Accept(accept) = &**answer
            && let Some(values) = &accept.content
        {
            let html = html! {
                dl.p.answers data-part="form" {
                    @for (name, value) in values.iter().take(MOST_FIELDS) {
                        dt { (visible_line(name)) }
                        dd { (json::block(value.0.as_str())) }
                    }
                }
            };
            parts.push(Part::new("form", html));
        }
        return parts;
    }
    if !elicitation.settlement().is_pending() {
        return parts;
    }
    let id = request_id(elicitation.id());
    let body = match request {
        v2::CreateElicitationRequest::Form(form) => fields(&form.requested_schema),
        v2::CreateElicitationRequest::Url(url) => page(&url.url),
        v2::CreateElicitationRequest::Unknown(unknown) => {
            content::unknown("kind of question", &unknown.tag, &request.encode(WireFormat::Any))
        }
        v2::CreateElicitationRequest::More(none) => none.never(),
    };
    let is_known = request.as_unknown().is_none();
    let html = html! {
        form.p.form data-part="form" data-elicitation=(id) autocomplete="off" {
            (body)
            div.opts {
                @if is_known {
                    button.opt.opt-allow type="submit" data-answer="accept" { "Send" }
                }
                button.opt.opt-reject type="button" data-answer="decline" { "Decline" }
                button.opt type="button" data-answer="cancel" { "Dismiss" }
            }
        }
    };
    parts.push(Part::new("form", html));
    parts
}

fn settled(elicitation: &Elicitation) -> Markup {
    html! {
        @match elicitation.settlement() {
            Settlement::Pending => {},
            Settlement::Cancelled { by, at } => {
                span.st.st-off { (cancelled_by(by)) } time data-at=(at.0) {}
            },
            Settlement::NotAnApproval { reason, by, at } => {
                span.st.st-bad { "✗ not an answer: " (visible_line(reason)) }
                span.dim { "by " (visible_line(&by.to_string())) }
                time data-at=(at.0) {}
            },
            Settlement::Answered { answer, by, at } => {
                @match &**answer {
                    v2::CreateElicitationResponse::Accept(_) => span.st.st-good { "✓ answered" },
                    v2::CreateElicitationResponse::Decline(_) => span.st.st-bad { "✗ declined" },
                    v2::CreateElicitationResponse::Cancel(_) => span.st.st-off { "∅ dismissed" },
                    v2::CreateElicitationResponse::Unknown(unknown) => span.st.st-off { (visible_line(&unknown.tag)) },
                    v2::CreateElicitationResponse::More(none) => (none.never::<Markup>()),
                }
                span.dim { "by " (visible_line(&by.to_string())) }
                time data-at=(at.0) {}
            },
        }
        @if elicitation.is_completed() { span.st.st-good { "✓ done on the page" } }
    }
}

/// Renders a link to open. The complete address is shown before the user follows it.
fn page(address: &str) -> Markup {
    html! {
        p { "The agent asks you to open this address:" }
        p.addr { code { (visible(address)) } }
        @if is_safe_link(address) {
            p { a href=(address) rel="noopener noreferrer nofollow" target="_blank" { "Open in a new tab" } }
        } @else {
            p.note.bad { "It is not an address of the web, so there is no link." }
        }
    }
}

fn fields(schema: &v2::ElicitationSchema<'_>) -> Markup {
    let required = schema.required_names.as_deref().unwrap_or_default();
    let all = schema.properties.iter().flat_map(Map::iter);
    let count = schema.properties.iter().flat_map(Map::iter).count();
    html! {
        @if let Some(title) = &schema.title { h4 { (visible_line(title)) } }
        @if let Some(description) = &schema.description { p { (prose(description)) } }
        @for (name, field) in all.take(MOST_FIELDS) {
            (self::field(name, field, required.iter().any(|required| *required == name)))
        }
        @if count > MOST_FIELDS { p.note.bad { (count - MOST_FIELDS) " more fields are not shown." } }
    }
}

/// Common attributes of fields of all kinds.
struct Field<'f> {
    name: &'f str,
    required: bool,
}

fn field(name: &str, schema: &v2::ElicitationPropertySchema<'_>, required: bool) -> Markup {
    use v2::ElicitationPropertySchema as Schema;
    let (title, description) = schema.title_and_description();
    let field = Field { name, required };
    let control = match schema {
        Schema::String(schema) => text_field(&field, schema),
        Schema::Number(schema) => {
            let minimum = schema.minimum.as_ref().map(Number::as_str);
            let maximum = schema.maximum.as_ref().map(Number::as_str);
            number_field(&field, "any", minimum, maximum, schema.default.as_ref().map(Number::as_str))
        }
        Schema::Integer(schema) => {
            let [minimum, maximum, default] = [schema.minimum, schema.maximum, schema.default]
                .map(|number| number.map(|it| it.to_string()));
            number_field(&field, "1", minimum.as_deref(), maximum.as_deref(), default.as_deref())
        }
        Schema::Boolean(schema) => html! {
            input name=(name) type="checkbox" data-type="boolean" checked[schema.default == Some(true)];
        },
        Schema::Array(schema) => several(&field, schema),
        Schema::Unknown(unknown) => {
            content::unknown("kind of field", &unknown.tag, &schema.encode(WireFormat::Any))
        }
        Schema::More(none) => none.never(),
    };
    let heading = html! {
        (visible_line(title.unwrap_or(name)))
        @if required { span.req { " (required)" } }
    };
    let description = html! { @if let Some(description) = description { p.dim { (prose(description)) } } };
    html! {
        @match schema {
            Schema::Array(_) | Schema::Unknown(_) => fieldset.field { legend { (heading) } (control) (description) },
            _ => div.field { label { span.label-text { (heading) } (control) } (description) },
        }
    }
}

fn text_field(field: &Field<'_>, schema: &v2::StringPropertySchema<'_>) -> Markup {
    let default = schema.default.as_deref();
    if let Some(options) = &schema.options {
        let options = options.iter().map(|option| (&*option.value, &*option.title));
        return choice(field, options, default);
    }
    if let Some(values) = &schema.values {
        return choice(field, values.iter().map(|value| (&**value, &**value)), default);
    }
    let kind = match &schema.format {
        Some(v2::StringFormat::Email) => "email",
        Some(v2::StringFormat::Uri) => "url",
        Some(v2::StringFormat::Date) => "date",
        // The browser's own input for a time lacks the time zone, which the format requires.
        _ => "text",
    };
    html! {
        input name=(field.name) type=(kind) data-type="string" required[field.required]
            minlength=[schema.min_length] maxlength=[schema.max_length] value=[default];
        @if let Some(v2::StringFormat::DateTime) = &schema.format {
            p.dim { "A date and time such as 2026-01-31T12:00:00Z." }
        }
        // The `pattern` attribute is not used, because a hostile expression could block the browser.
        @if let Some(pattern) = &schema.pattern { p.dim { "Pattern: " code { (visible(pattern)) } } }
    }
}

fn choice<'v>(
    field: &Field<'_>,
    options: impl Iterator<Item = (&'v str, &'v str)>,
    default: Option<&str>,
) -> Markup {
    html! {
        select name=(field.name) data-type="string" required[field.required] {
            @if default.is_none() { option value="" { "" } }
            @for (value, title) in options.take(MOST_VALUES) {
                option value=(value) selected[default == Some(value)] { (switchboard_acp::display::visible_line(title)) }
            }
        }
    }
}

fn number_field(
    field: &Field<'_>,
    step: &str,
    minimum: Option<&str>,
    maximum: Option<&str>,
    default: Option<&str>,
) -> Markup {
    html! {
        input name=(field.name) type="number" data-type="number" step=(step) required[field.required]
            min=[minimum] max=[maximum] value=[default];
    }
}

fn several(field: &Field<'_>, schema: &v2::MultiSelectPropertySchema<'_>) -> Markup {
    let values: Vec<(&str, &str)> = match &schema.items {
        v2::MultiSelectItems::String(items) => {
            items.values.iter().map(|value| (&**value, &**value)).collect()
        }
        v2::MultiSelectItems::Titled(items) => {
            items.options.iter().map(|option| (&*option.value, &*option.title)).collect()
        }
        v2::MultiSelectItems::Unknown(_) => Vec::new(),
        v2::MultiSelectItems::More(none) => none.never(),
    };
    let defaults = schema.default.as_deref().unwrap_or_default();
    html! {
        span.many data-type="array" data-name=(field.name) data-min=[schema.min_items] data-max=[schema.max_items] {
            @for (value, title) in values.iter().take(MOST_VALUES) {
                label {
                    input type="checkbox" name=(field.name) value=(value) checked[defaults.iter().any(|it| it == value)];
                    " " (visible_line(title))
                }
            }
            @if let v2::MultiSelectItems::Unknown(unknown) = &schema.items {
                (content::unknown("choice", &unknown.tag, &schema.items.encode(WireFormat::Any)))
            }
        }
    }
}
