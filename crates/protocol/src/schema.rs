//! JSON Schema of the wire types, generated from the same declarations.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::WireFormat;

/// Collects the schemas of named types.
#[derive(Debug)]
pub struct Schemas {
    revision: WireFormat,
    definitions: BTreeMap<String, Value>,
    begun: BTreeSet<String>,
}

impl Schemas {
    pub(crate) fn new(revision: WireFormat) -> Self {
        Schemas { revision, definitions: BTreeMap::new(), begun: BTreeSet::new() }
    }

    pub(crate) fn revision(&self) -> WireFormat {
        self.revision
    }

    /// Returns a reference to the type's schema, which is generated on first use.
    pub(crate) fn define(&mut self, name: &str, make: impl FnOnce(&mut Self) -> Value) -> Value {
        if self.begun.insert(name.to_owned()) {
            let schema = make(self);
            self.definitions.insert(name.to_owned(), schema);
        }
        json!({"$ref": format!("#/$defs/{name}")})
    }

    pub(crate) fn into_definitions(self) -> Value {
        Value::Object(self.definitions.into_iter().collect())
    }
}

/// Presence of a key, and permission of `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    /// May be missing, but is never `null`.
    NotNull,
    /// The same, but readers of unknown dialect accept `null`.
    Defaulted,
    Nullable,
}

/// Builder for the schema of an object.
pub(crate) struct ObjectSchema {
    revision: WireFormat,
    description: String,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl ObjectSchema {
    pub(crate) fn new(doc: &str, revision: WireFormat) -> Self {
        ObjectSchema { revision, description: prose(doc), properties: Map::new(), required: Vec::new() }
    }

    pub(crate) fn field(&mut self, key: &str, presence: Presence, doc: &str, value: Value) {
        let is_nullable = match presence {
            Presence::Required | Presence::NotNull => false,
            Presence::Defaulted => self.revision == WireFormat::Any,
            Presence::Nullable => true,
        };
        let value = if is_nullable && value != anything() {
            json!({"anyOf": [value, {"type": "null"}]})
        } else {
            value
        };
        if presence == Presence::Required {
            self.required.push(key.into());
        }
        self.properties.insert(key.to_owned(), described(value, doc));
    }

    pub(crate) fn finish(self) -> Value {
        json!({
            "type": "object",
            "description": self.description,
            "properties": self.properties,
            "required": self.required,
        })
    }
}

/// Returns the schema of any value. An object, so that it can have a description.
pub(crate) fn anything() -> Value {
    json!({})
}

/// Makes a key required that a declaration permits to be missing or `null`.
pub(crate) fn require(schema: &mut Value, key: &str) {
    let property = &mut schema["properties"][key];
    if let Some(value) = property.get_mut("anyOf").and_then(|forms| forms.get_mut(0)).map(Value::take) {
        let description = property["description"].take();
        *property = value;
        property["description"] = description;
    }
    if let Some(required) = schema["required"].as_array_mut() {
        required.push(key.into());
    }
}

/// Requires that a list, which may be `null`, is not empty.
pub(crate) fn not_empty(schema: &mut Value, key: &str) {
    let property = &mut schema["properties"][key];
    match property.get_mut("anyOf") {
        Some(forms) => forms[0]["minItems"] = json!(1),
        None => property["minItems"] = json!(1),
    }
}

/// Returns the schema of a request, which has an id, or of a notification, which has none.
pub(crate) fn call(id: Option<Value>, method: Value, params: Value, needs_params: bool) -> Value {
    let mut required = vec!["jsonrpc", "method"];
    required.extend(id.is_some().then_some("id"));
    required.extend(needs_params.then_some("params"));
    json!({
        "type": "object",
        "properties": {
            "jsonrpc": json_rpc(),
            "id": id.map_or_else(|| absent("Not in a notification."), |id| described(id, "Request id.")),
            "method": described(method, "Method."),
            "params": described(params, "Parameters of the method."),
            "result": absent("Only in responses."),
            "error": absent("Only in responses."),
        },
        "required": required,
    })
}

/// Returns the schema of a response as a complete message.
pub(crate) fn answer(response: &Value) -> Value {
    json!({
        "type": "object",
        "allOf": [response],
        "properties": {"jsonrpc": json_rpc(), "method": absent("Only in requests and notifications.")},
        "required": ["jsonrpc"],
    })
}

fn json_rpc() -> Value {
    json!({"const": "2.0", "description": "The version of JSON-RPC."})
}

/// Returns the schema of a key that must be absent.
fn absent(doc: &str) -> Value {
    json!({"not": {}, "description": doc})
}

/// Builder for the schema of a union.
pub(crate) struct UnionSchema {
    tag: &'static str,
    description: String,
    known: Vec<&'static str>,
    variants: Vec<Value>,
    bare: Option<Value>,
}

impl UnionSchema {
    pub(crate) fn new(tag: &'static str, doc: &str) -> Self {
        UnionSchema { tag, description: prose(doc), known: Vec::new(), variants: Vec::new(), bare: None }
    }

    pub(crate) fn variant(&mut self, value: &'static str, doc: &str, schema: &Value) {
        let tag = self.tag;
        self.known.push(value);
        let variant = json!({
            "type": "object",
            "allOf": [schema],
            "properties": {tag: {"const": value, "description": TAG}},
            "required": [tag],
        });
        self.variants.push(described(variant, doc));
    }

    pub(crate) fn untagged(&mut self, schema: Value) {
        self.bare = Some(schema);
    }

    /// Adds the form without the tag, if the dialect permits it.
    pub(crate) fn implied(&mut self, allowed: bool) {
        if allowed {
            for variant in &mut self.variants {
                variant["required"] = json!([]);
            }
        }
    }

    pub(crate) fn finish(mut self, open: bool, required: &[&str], present: &[&str]) -> Value {
        let tag = self.tag;
        if let Some(schema) = self.bare.take() {
            let without_tag = json!({
                "type": "object",
                "allOf": [schema],
                "properties": {tag: self.unknown_tag()},
            });
            self.variants.push(without_tag);
        }
        if open {
            let mut properties = Map::new();
            let kept = "A key that every variant has.";
            for key in required {
                properties.insert((*key).to_owned(), json!({"type": "string", "description": kept}));
            }
            for key in present {
                properties.insert((*key).to_owned(), described(anything(), kept));
            }
            properties.insert(tag.to_owned(), self.unknown_tag());
            let keys: Vec<_> = std::iter::once(&tag).chain(required).chain(present).collect();
            self.variants.push(json!({
                "description": "A custom variant (leading underscore) or one of a later version.",
                "type": "object",
                "properties": properties,
                "required": keys,
            }));
        }
        json!({"description": self.description, "anyOf": self.variants})
    }

    fn unknown_tag(&self) -> Value {
        json!({"type": "string", "not": {"enum": self.known}, "description": TAG})
    }
}

/// Description of the key that selects the variant.
const TAG: &str = "Selects the variant.";

/// Returns the schema of a string with known values.
pub(crate) fn enum_schema(open: bool, doc: &str, known: &[(&str, &str)]) -> Value {
    let mut values: Vec<_> =
        known.iter().map(|(value, doc)| described(json!({"const": value}), doc)).collect();
    if open {
        values.push(json!({
            "type": "string",
            "description": "A custom value (leading underscore) or one of a later version.",
        }));
    }
    json!({"description": prose(doc), "anyOf": values})
}

pub(crate) fn described(mut value: Value, doc: &str) -> Value {
    let prose = prose(doc);
    if let (Value::Object(map), false) = (&mut value, prose.is_empty()) {
        map.insert("description".to_owned(), prose.into());
    }
    value
}

/// Returns a doc comment as one line of plain text.
fn prose(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn doc_comments_become_one_line() {
        assert_eq!(prose(" One\n two.\n\n Three.\n"), "One two. Three.");
    }
}
