//! JSON Schema of the wire types, made from the same declarations as the types.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::WireFormat;

/// Collects the schemas of named types while one is being made.
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

    /// A reference to the type's schema, which is made when it is met for the first time.
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

/// Whether a key must be there and whether it may be `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    NotNull,
    Nullable,
}

/// The schema of an object in the making.
pub(crate) struct ObjectSchema {
    description: String,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl ObjectSchema {
    pub(crate) fn new(doc: &str) -> Self {
        ObjectSchema { description: prose(doc), properties: Map::new(), required: Vec::new() }
    }

    pub(crate) fn field(&mut self, key: &str, presence: Presence, doc: &str, value: Value) {
        let value = match presence {
            Presence::Nullable if value != json!(true) => json!({"anyOf": [value, {"type": "null"}]}),
            _ => value,
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

/// The schema of a union in the making.
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
            "allOf": [schema],
            "properties": {tag: {"const": value}},
            "required": [tag],
        });
        self.variants.push(described(variant, doc));
    }

    pub(crate) fn untagged(&mut self, schema: Value) {
        self.bare = Some(schema);
    }

    /// The form without the tag, where the dialect allows it.
    pub(crate) fn implied(&mut self, allowed: bool) {
        if allowed {
            for variant in &mut self.variants {
                variant["required"] = json!([]);
            }
        }
    }

    pub(crate) fn finish(mut self, open: bool, required: &[&str], present: &[&str]) -> Value {
        let tag = self.tag;
        if let Some(schema) = self.bare {
            let without_tag = json!({"allOf": [schema], "properties": {tag: {"type": "string", "not": {"enum": self.known}}}});
            self.variants.push(without_tag);
        }
        if open {
            let mut properties = Map::new();
            for key in required {
                properties.insert((*key).to_owned(), json!({"type": "string"}));
            }
            for key in present {
                properties.insert((*key).to_owned(), json!(true));
            }
            properties.insert(tag.to_owned(), json!({"type": "string", "not": {"enum": self.known}}));
            let keys: Vec<_> = std::iter::once(&tag).chain(required).chain(present).collect();
            self.variants.push(json!({
                "description": "A variant of somebody's own (leading underscore) or of a later version.",
                "type": "object",
                "properties": properties,
                "required": keys,
            }));
        }
        json!({"description": self.description, "anyOf": self.variants})
    }
}

/// The schema of a string with known values.
pub(crate) fn enum_schema(open: bool, doc: &str, known: &[(&str, &str)]) -> Value {
    let mut values: Vec<_> =
        known.iter().map(|(value, doc)| described(json!({"const": value}), doc)).collect();
    if open {
        values.push(json!({
            "type": "string",
            "description": "A value of somebody's own (leading underscore) or of a later version.",
        }));
    }
    json!({"description": prose(doc), "anyOf": values})
}

fn described(mut value: Value, doc: &str) -> Value {
    let prose = prose(doc);
    if let (Value::Object(map), false) = (&mut value, prose.is_empty()) {
        map.insert("description".to_owned(), prose.into());
    }
    value
}

/// A doc comment as one line of plain text.
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
