//! Elicitation: the agent asks the user for data, by a form or on a web page.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::json::writer::Writer;
use crate::macros::{object, open_enum, union};
use crate::rpc::RequestId;
use crate::schema::{Schemas, not_empty, require};
use crate::shared::common::EmptyObject;
use crate::wire::Wire;
use crate::{Map, Number, ObjectKeyword, Raw, Text, WireFormat};

union! {
    /// Asks the user for data. The scope is a session or a pending request of the client, not both.
    CreateElicitationRequest by "mode" in both_versions requires ["message"] {
        /// By a form that the client shows.
        Form(ElicitationFormMode<'a>) = "form",
        /// On a web page.
        Url(ElicitationUrlMode<'a>) = "url",
    }
}

object! {
    /// Asks with a form.
    ElicitationFormMode rules form_scope shape one_scope {
        /// Message shown above the form.
        required message: Text<'a> = "message",
        /// Session of the request.
        strict_optional session_id: Text<'a> = "sessionId",
        /// Tool call that needs the data.
        optional tool_call_id: Text<'a> = "toolCallId",
        /// Pending request of the client that needs the data.
        strict_optional request_id: RequestId<'a> = "requestId",
        /// Fields of the form.
        required requested_schema: ElicitationSchema<'a> = "requestedSchema",
    } with optional _meta
}

object! {
    /// Sends the user to a web page.
    ElicitationUrlMode rules url_scope shape one_scope {
        /// Message shown before the page is opened.
        required message: Text<'a> = "message",
        /// Session of the request.
        strict_optional session_id: Text<'a> = "sessionId",
        /// Tool call that needs the data.
        optional tool_call_id: Text<'a> = "toolCallId",
        /// Pending request of the client that needs the data.
        strict_optional request_id: RequestId<'a> = "requestId",
        /// Id with which the agent reports that the page is finished.
        required elicitation_id: Text<'a> = "elicitationId",
        /// URL of the page.
        required url: Text<'a> = "url",
    } with optional _meta
}

fn form_scope(form: &ElicitationFormMode<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    check_scope(form.session_id.is_some(), form.request_id.is_some(), reader, start)
}

fn url_scope(url: &ElicitationUrlMode<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    check_scope(url.session_id.is_some(), url.request_id.is_some(), reader, start)
}

fn check_scope(session: bool, request: bool, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    match (session, request) {
        (true, false) | (false, true) => Ok(()),
        (true, true) if reader.revision() == WireFormat::V1 => Ok(()),
        _ => reader.fault(start, Problem::Rule("either \"sessionId\" or \"requestId\"".into())),
    }
}

fn one_scope(schema: &mut Value, revision: WireFormat) {
    // `null` means missing.
    let scope = |key: &str| {
        let there = json!({"not": {"type": "null"}, "description": "What the request belongs to."});
        json!({"properties": {key: there}, "required": [key]})
    };
    let scopes = json!([scope("sessionId"), scope("requestId")]);
    let word = if revision == WireFormat::V1 { "anyOf" } else { "oneOf" };
    schema[word] = scopes;
}

object! {
    /// Schema of a form. In version 1, `type` and `properties` may be missing.
    ElicitationSchema rules complete_schema shape required_in_v2 {
        /// The keyword `object`.
        strict_optional type_name: ObjectKeyword<'a> = "type",
        /// Title of the form.
        optional title: Text<'a> = "title",
        /// The fields by name.
        strict_optional properties: Map<'a, ElicitationPropertySchema<'a>> = "properties",
        /// Names of the fields that must be filled in.
        strict_optional required_names: Vec<Text<'a>> = "required",
        /// Purpose of the form.
        optional description: Text<'a> = "description",
    } with optional _meta
}

fn complete_schema(schema: &ElicitationSchema<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    if reader.revision() == WireFormat::V1 {
        return Ok(());
    }
    for (key, present) in [("type", schema.type_name.is_some()), ("properties", schema.properties.is_some())]
    {
        if !present {
            return reader.fault(start, Problem::Missing(key));
        }
    }
    Ok(())
}

fn required_in_v2(schema: &mut Value, revision: WireFormat) {
    if revision != WireFormat::V1 {
        require(schema, "type");
        require(schema, "properties");
    }
}

union! {
    /// One field of a form.
    ElicitationPropertySchema by "type" in both_versions {
        /// A text, or a choice of one.
        String(StringPropertySchema<'a>) = "string",
        /// A number.
        Number(NumberPropertySchema<'a>) = "number",
        /// An integer.
        Integer(IntegerPropertySchema<'a>) = "integer",
        /// Yes or no.
        Boolean(BooleanPropertySchema<'a>) = "boolean",
        /// A choice of several texts.
        Array(MultiSelectPropertySchema<'a>) = "array",
    }
}

impl ElicitationPropertySchema<'_> {
    /// Returns the title and the description of the field, for any kind of field.
    pub fn title_and_description(&self) -> (Option<&str>, Option<&str>) {
        use ElicitationPropertySchema as Schema;
        let (title, description) = match self {
            Schema::String(field) => (&field.title, &field.description),
            Schema::Number(field) => (&field.title, &field.description),
            Schema::Integer(field) => (&field.title, &field.description),
            Schema::Boolean(field) => (&field.title, &field.description),
            Schema::Array(field) => (&field.title, &field.description),
            Schema::Unknown(_) => (&None, &None),
            Schema::More(none) => none.never(),
        };
        (title.as_deref(), description.as_deref())
    }
}

object! {
    /// A text field, or a choice of one when `enum` or `oneOf` lists the values.
    StringPropertySchema rules some_choice shape choices_not_empty {
        /// Name of the field for display.
        optional title: Text<'a> = "title",
        /// Description of the expected value.
        optional description: Text<'a> = "description",
        /// Minimum number of characters.
        strict_optional min_length: u32 = "minLength",
        /// Maximum number of characters.
        strict_optional max_length: u32 = "maxLength",
        /// A regular expression that the text must match.
        strict_optional pattern: Text<'a> = "pattern",
        /// Required format of the text.
        strict_optional format: StringFormat = "format",
        /// Initial value of the field.
        optional default: Text<'a> = "default",
        /// Values to choose from.
        strict_optional values: Vec<Text<'a>> = "enum",
        /// Values to choose from, with display names.
        strict_optional options: Vec<EnumOption<'a>> = "oneOf",
    } with optional _meta
}

fn some_choice(field: &StringPropertySchema<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    let empty =
        field.values.as_ref().is_some_and(Vec::is_empty) || field.options.as_ref().is_some_and(Vec::is_empty);
    check_choices(empty, reader, start)
}

fn check_choices(empty: bool, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    if empty && reader.revision().has_v2() {
        return reader.fault(start, Problem::Rule("at least one value to choose from".into()));
    }
    Ok(())
}

fn choices_not_empty(schema: &mut Value, revision: WireFormat) {
    if revision.has_v2() {
        for key in ["enum", "oneOf"] {
            not_empty(schema, key);
        }
    }
}

open_enum! {
    /// Format of a text field.
    StringFormat {
        /// An email address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date.
        Date = "date",
        /// A date with time.
        DateTime = "date-time",
    }
}

object! {
    /// A value to choose, with a display name.
    EnumOption {
        /// Value in the response.
        required value: Text<'a> = "const",
        /// Name for display.
        required title: Text<'a> = "title",
        /// Description of the choice.
        optional description: Text<'a> = "description",
    } with optional _meta
}

object! {
    /// A field for a number.
    NumberPropertySchema {
        /// Name of the field for display.
        optional title: Text<'a> = "title",
        /// Description of the expected value.
        optional description: Text<'a> = "description",
        /// Minimum value.
        strict_optional minimum: Number<'a> = "minimum",
        /// Maximum value.
        strict_optional maximum: Number<'a> = "maximum",
        /// Initial value of the field.
        optional default: Number<'a> = "default",
    } with optional _meta
}

object! {
    /// A field for an integer.
    IntegerPropertySchema {
        /// Name of the field for display.
        optional title: Text<'a> = "title",
        /// Description of the expected value.
        optional description: Text<'a> = "description",
        /// Minimum value.
        strict_optional minimum: i64 = "minimum",
        /// Maximum value.
        strict_optional maximum: i64 = "maximum",
        /// Initial value of the field.
        optional default: i64 = "default",
    } with optional _meta
}

object! {
    /// A check box.
    BooleanPropertySchema {
        /// Name of the field for display.
        optional title: Text<'a> = "title",
        /// Description of the expected value.
        optional description: Text<'a> = "description",
        /// Initial value of the field.
        optional default: bool = "default",
    } with optional _meta
}

object! {
    /// A choice of several.
    MultiSelectPropertySchema {
        /// Name of the field for display.
        optional title: Text<'a> = "title",
        /// Description of the expected value.
        optional description: Text<'a> = "description",
        /// Minimum number of choices.
        strict_optional min_items: u64 = "minItems",
        /// Maximum number of choices.
        strict_optional max_items: u64 = "maxItems",
        /// Values to choose from.
        required items: MultiSelectItems<'a> = "items",
        /// Initial choices.
        optional default: Vec<Text<'a>> = "default",
    } with optional _meta
}

union! {
    /// The values of a choice of several.
    MultiSelectItems by "type" in both_versions untagged
        /// Values with display names.
        Titled(TitledMultiSelectItems<'a>)
    {
        /// Values without separate display names.
        String(StringMultiSelectItems<'a>) = "string",
    }
}

fn items_not_empty(schema: &mut Value, revision: WireFormat) {
    if revision.has_v2() {
        let key = if schema["properties"].get("enum").is_some() { "enum" } else { "anyOf" };
        not_empty(schema, key);
    }
}

object! {
    /// Values without separate display names.
    StringMultiSelectItems rules some_strings shape items_not_empty {
        /// The values.
        required values: Vec<Text<'a>> = "enum",
    } with optional _meta
}

fn some_strings(items: &StringMultiSelectItems<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    check_choices(items.values.is_empty(), reader, start)
}

object! {
    /// Values with display names.
    TitledMultiSelectItems rules some_titles shape items_not_empty {
        /// The values with their names.
        required options: Vec<EnumOption<'a>> = "anyOf",
    } with optional _meta
}

fn some_titles(items: &TitledMultiSelectItems<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    check_choices(items.options.is_empty(), reader, start)
}

union! {
    /// The user's response. An unknown action is handled as `cancel`.
    CreateElicitationResponse by "action" in both_versions {
        /// The user provided the data, or opened the page.
        Accept(ElicitationAcceptAction<'a>) = "accept",
        /// The user refused.
        Decline(EmptyObject<'a>) = "decline",
        /// The user dismissed the request.
        Cancel(EmptyObject<'a>) = "cancel",
    }
}

object! {
    /// Values entered by the user.
    ElicitationAcceptAction {
        /// The values by the names of their fields.
        strict_optional content: Map<'a, ElicitationContentValue<'a>> = "content",
    } with optional _meta
}

/// The value of one field of a form: any JSON in version 2; text, number, boolean or texts in version 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ElicitationContentValue<'a>(pub Raw<'a>);

impl<'a> Wire<'a> for ElicitationContentValue<'a> {
    type Owned = ElicitationContentValue<'static>;

    fn into_owned(self) -> ElicitationContentValue<'static> {
        ElicitationContentValue(self.0.into_owned())
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        if reader.revision() == WireFormat::V1 && matches!(reader.peek(), Some(b'{' | b'n')) {
            return reader.expected("a string, a number, a boolean or a list of strings");
        }
        if reader.revision() == WireFormat::V1 && reader.peek() == Some(b'[') {
            let place = reader.place();
            reader.keeping_all_items(Vec::<Text<'_>>::read)?;
            reader.rewind(place);
        }
        reader.read_raw().map(ElicitationContentValue)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.raw(&self.0);
    }

    fn schema(schemas: &mut Schemas) -> Value {
        match schemas.revision() {
            WireFormat::V1 => json!({"anyOf": [
                {"type": "string"},
                {"type": "number"},
                {"type": "boolean"},
                {"type": "array", "items": {"type": "string"}},
            ]}),
            _ => crate::schema::anything(),
        }
    }
}

object! {
    /// Reports that the user has finished the web page.
    CompleteElicitationNotification {
        /// Id given in the request.
        required elicitation_id: Text<'a> = "elicitationId",
    } with optional _meta
}
