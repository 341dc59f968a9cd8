//! Elicitation: the agent asks the user for data, by a form or on a web page.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::json::writer::Writer;
use crate::macros::{object, open_enum, union};
use crate::rpc::RequestId;
use crate::schema::Schemas;
use crate::shared::common::EmptyObject;
use crate::wire::Wire;
use crate::{Map, Meta, Number, ObjectKeyword, Raw, Text, WireFormat};

union! {
    /// Asks the user for data. The scope is a session or a pending request of the client, not both.
    CreateElicitationRequest by "mode" in both_versions requires ["message"] {
        Form(ElicitationFormMode<'a>) = "form",
        Url(ElicitationUrlMode<'a>) = "url",
    }
}

object! {
    /// Asks with a form.
    ElicitationFormMode rules form_scope shape one_scope {
        required message: Text<'a> = "message",
        strict_optional session_id: Text<'a> = "sessionId",
        optional tool_call_id: Text<'a> = "toolCallId",
        strict_optional request_id: RequestId<'a> = "requestId",
        required requested_schema: ElicitationSchema<'a> = "requestedSchema",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Asks by sending the user to a web page.
    ElicitationUrlMode rules url_scope shape one_scope {
        required message: Text<'a> = "message",
        strict_optional session_id: Text<'a> = "sessionId",
        optional tool_call_id: Text<'a> = "toolCallId",
        strict_optional request_id: RequestId<'a> = "requestId",
        required elicitation_id: Text<'a> = "elicitationId",
        required url: Text<'a> = "url",
        optional meta: Meta<'a> = "_meta",
    }
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
    let scopes = json!([{"required": ["sessionId"]}, {"required": ["requestId"]}]);
    let word = if revision == WireFormat::V1 { "anyOf" } else { "oneOf" };
    schema[word] = scopes;
}

object! {
    /// The fields of a form. Version 1 lets `type` and `properties` be missing.
    ElicitationSchema rules complete_schema shape required_in_v2 {
        strict_optional type_name: ObjectKeyword<'a> = "type",
        optional title: Text<'a> = "title",
        strict_optional properties: Map<'a, ElicitationPropertySchema<'a>> = "properties",
        /// Names of the fields that must be filled in.
        strict_optional required_names: Vec<Text<'a>> = "required",
        optional description: Text<'a> = "description",
        optional meta: Meta<'a> = "_meta",
    }
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
        schema["required"] = json!(["type", "properties"]);
        let properties = &mut schema["properties"];
        for key in ["type", "properties"] {
            properties[key] = properties[key]["anyOf"][0].take();
        }
    }
}

union! {
    /// One field of a form.
    ElicitationPropertySchema by "type" in both_versions {
        String(StringPropertySchema<'a>) = "string",
        Number(NumberPropertySchema<'a>) = "number",
        Integer(IntegerPropertySchema<'a>) = "integer",
        Boolean(BooleanPropertySchema<'a>) = "boolean",
        Array(MultiSelectPropertySchema<'a>) = "array",
    }
}

impl ElicitationPropertySchema<'_> {
    /// What people are shown of the field, of whatever kind it is: its title and its description.
    pub fn title_and_description(&self) -> (Option<&str>, Option<&str>) {
        use ElicitationPropertySchema as Schema;
        let (title, description) = match self {
            Schema::String(field) => (&field.title, &field.description),
            Schema::Number(field) => (&field.title, &field.description),
            Schema::Integer(field) => (&field.title, &field.description),
            Schema::Boolean(field) => (&field.title, &field.description),
            Schema::Array(field) => (&field.title, &field.description),
            Schema::Unknown(_) => (&None, &None),
        };
        (title.as_deref(), description.as_deref())
    }
}

object! {
    /// A text field, or a choice of one when `enum` or `oneOf` lists the values.
    StringPropertySchema rules some_choice shape choices_not_empty {
        optional title: Text<'a> = "title",
        optional description: Text<'a> = "description",
        strict_optional min_length: u32 = "minLength",
        strict_optional max_length: u32 = "maxLength",
        strict_optional pattern: Text<'a> = "pattern",
        strict_optional format: StringFormat = "format",
        optional default: Text<'a> = "default",
        strict_optional values: Vec<Text<'a>> = "enum",
        strict_optional options: Vec<EnumOption<'a>> = "oneOf",
        optional meta: Meta<'a> = "_meta",
    }
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
            schema["properties"][key]["anyOf"][0]["minItems"] = json!(1);
        }
    }
}

open_enum! {
    /// What a text field holds.
    StringFormat {
        Email = "email",
        Uri = "uri",
        Date = "date",
        DateTime = "date-time",
    }
}

object! {
    /// A value to choose, with the name that people read.
    EnumOption {
        required value: Text<'a> = "const",
        required title: Text<'a> = "title",
        optional description: Text<'a> = "description",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A field for a number.
    NumberPropertySchema {
        optional title: Text<'a> = "title",
        optional description: Text<'a> = "description",
        strict_optional minimum: Number<'a> = "minimum",
        strict_optional maximum: Number<'a> = "maximum",
        optional default: Number<'a> = "default",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A field for an integer.
    IntegerPropertySchema {
        optional title: Text<'a> = "title",
        optional description: Text<'a> = "description",
        strict_optional minimum: i64 = "minimum",
        strict_optional maximum: i64 = "maximum",
        optional default: i64 = "default",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A check box.
    BooleanPropertySchema {
        optional title: Text<'a> = "title",
        optional description: Text<'a> = "description",
        optional default: bool = "default",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A choice of several.
    MultiSelectPropertySchema {
        optional title: Text<'a> = "title",
        optional description: Text<'a> = "description",
        strict_optional min_items: u64 = "minItems",
        strict_optional max_items: u64 = "maxItems",
        required items: MultiSelectItems<'a> = "items",
        optional default: Vec<Text<'a>> = "default",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// The values of a choice of several.
    MultiSelectItems by "type" in both_versions untagged
        /// Values with names for people.
        Titled(TitledMultiSelectItems<'a>)
    {
        String(StringMultiSelectItems<'a>) = "string",
    }
}

fn items_not_empty(schema: &mut Value, revision: WireFormat) {
    if revision.has_v2() {
        let key = if schema["properties"].get("enum").is_some() { "enum" } else { "anyOf" };
        schema["properties"][key]["minItems"] = json!(1);
    }
}

object! {
    /// Values that are their own names.
    StringMultiSelectItems rules some_strings shape items_not_empty {
        required values: Vec<Text<'a>> = "enum",
        optional meta: Meta<'a> = "_meta",
    }
}

fn some_strings(items: &StringMultiSelectItems<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    check_choices(items.values.is_empty(), reader, start)
}

object! {
    /// Values with names for people.
    TitledMultiSelectItems rules some_titles shape items_not_empty {
        required options: Vec<EnumOption<'a>> = "anyOf",
        optional meta: Meta<'a> = "_meta",
    }
}

fn some_titles(items: &TitledMultiSelectItems<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    check_choices(items.options.is_empty(), reader, start)
}

union! {
    /// The user's answer. An unknown action is handled as `cancel`.
    CreateElicitationResponse by "action" in both_versions {
        Accept(ElicitationAcceptAction<'a>) = "accept",
        Decline(EmptyObject<'a>) = "decline",
        Cancel(EmptyObject<'a>) = "cancel",
    }
}

object! {
    /// What the user filled in.
    ElicitationAcceptAction {
        strict_optional content: Map<'a, ElicitationContentValue<'a>> = "content",
        optional meta: Meta<'a> = "_meta",
    }
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
        reader.read_raw().map(ElicitationContentValue)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.raw(&self.0);
    }

    fn schema(schemas: &mut Schemas) -> Value {
        match schemas.revision() {
            WireFormat::V1 => json!({"anyOf": [
                {"type": ["string", "number", "boolean"]},
                {"type": "array", "items": {"type": "string"}},
            ]}),
            _ => json!(true),
        }
    }
}

object! {
    /// Tells that the user is done with the web page.
    CompleteElicitationNotification {
        required elicitation_id: Text<'a> = "elicitationId",
        optional meta: Meta<'a> = "_meta",
    }
}
