//! Generates random JSON values that match a schema.

use std::collections::HashMap;

use serde_json::Value;

/// JSON for opaque values, with spellings that a careless parser changes.
pub(crate) const ODD_VALUES: [&str; 8] = [
    "1e3",
    "1.0",
    "-0",
    "123456789012345678901234567890123456789012345678901234567890",
    r#"{"b":1,"a":[null,{}]}"#,
    r#""\u00e9\n""#,
    "0.1000",
    "[[],{}]",
];

/// Generates JSON text that matches a schema.
pub(crate) struct Maker<'s> {
    definitions: &'s Value,
    seed: u64,
    plain: bool,
}

impl<'s> Maker<'s> {
    /// Creates a generator for the definitions of a schema. The seed must not be 0.
    pub(crate) fn new(schema: &'s Value, seed: u64) -> Self {
        Maker { definitions: &schema["$defs"], seed, plain: false }
    }

    /// Disables unknown keys and values that other libraries respell.
    pub(crate) fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    fn odd_value(&mut self) -> String {
        if self.plain { r#"{"a":[1,"b"]}"#.to_owned() } else { self.pick(&ODD_VALUES).to_owned() }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed % limit as u64) as usize
    }

    fn pick<'p, T: ?Sized>(&mut self, choices: &[&'p T]) -> &'p T {
        choices[self.below(choices.len())]
    }

    pub(crate) fn make(&mut self, schema: &Value, depth: usize) -> String {
        let mut keys = HashMap::new();
        if let Some(simple) = self.make_simple(schema, depth) {
            return simple;
        }
        self.add_keys(schema, depth, &mut keys);
        if !self.plain && self.below(4) == 0 {
            let value = self.odd_value();
            keys.insert("zzExtra".to_owned(), value);
        }
        let mut entries: Vec<_> = keys.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        entries.sort();
        let turn = self.below(entries.len().max(1));
        entries.rotate_left(turn);
        format!("{{{}}}", entries.join(","))
    }

    /// Generates any value except an object with keys.
    fn make_simple(&mut self, schema: &Value, depth: usize) -> Option<String> {
        if schema.as_object().is_some_and(|schema| schema.keys().all(|key| key == "description")) {
            return Some(self.odd_value());
        }
        if let Some(constant) = schema.get("const") {
            return Some(constant.to_string());
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let definition = &self.definitions[reference.rsplit('/').next().unwrap()];
            return Some(self.make(definition, depth + 1));
        }
        if schema.get("properties").is_none()
            && let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array())
        {
            let null = choices.iter().position(|choice| choice["type"] == "null");
            let choice = match null {
                Some(index) if depth > 8 => index,
                _ => self.below(choices.len()),
            };
            return Some(self.make(&choices[choice], depth + 1));
        }
        let kind = schema["type"].as_array().map_or(&schema["type"], |kinds| &kinds[0]);
        Some(match kind.as_str()? {
            "null" => "null".to_owned(),
            "boolean" => self.pick(&["true", "false"]).to_owned(),
            "string" => self.make_string(schema),
            "number" => self.pick(&["0", "1.0", "0.5", "1e-3", "1"]).to_owned(),
            "integer" => {
                let minimum = schema["minimum"].as_i64().unwrap_or(0);
                let maximum = schema["maximum"].as_u64().unwrap_or(u64::MAX);
                let middle = minimum.max(0) as u64 + self.below(1000) as u64;
                self.pick(&[&*minimum.to_string(), &*maximum.to_string(), &*middle.min(maximum).to_string()])
                    .to_owned()
            }
            "array" => {
                let minimum = schema["minItems"].as_u64().unwrap_or(0) as usize;
                let count = if depth > 10 { minimum } else { minimum + self.below(3) };
                let items: Vec<_> = (0..count).map(|_| self.make(&schema["items"], depth + 1)).collect();
                format!("[{}]", items.join(","))
            }
            "object" if schema.get("additionalProperties").is_some() => {
                let value = self.make(&schema["additionalProperties"], depth + 1);
                format!("{{\"a key\":{value}}}")
            }
            "object" if schema.get("properties").is_none() && schema.get("oneOf").is_none() => {
                self.pick(&["{}", r#"{"example.com/a":1.0}"#]).to_owned()
            }
            _ => return None,
        })
    }

    fn make_string(&mut self, schema: &Value) -> String {
        let text = if schema["contentEncoding"] == "base64" {
            self.pick(&["", "AA==", "4oI=", "aGVsbG8h"])
        } else if schema["pattern"].as_str().is_some_and(|pattern| pattern.starts_with("^(?:/|")) {
            self.pick(&["/w/a", r"C:\\w\\a", r"\\\\server\\share", "/"])
        } else if schema.get("pattern").is_some() {
            self.pick(&["USD", "EUR"])
        } else if schema.get("not").is_some() {
            self.pick(&["_custom", "reserved_for_later"])
        } else if schema.get("minLength").is_some() {
            "x"
        } else {
            // Ids that must differ within a list usually do; see `broken_by_chance`.
            return format!(
                "\"{}{}\"",
                self.pick(&["", "é", r"\n", r"\ud83d\ude00", "_x", "a/b~c"]),
                self.below(9999)
            );
        };
        format!("\"{text}\"")
    }

    /// Generates the keys of an object, including inherited ones.
    fn add_keys(&mut self, schema: &Value, depth: usize, keys: &mut HashMap<String, String>) {
        for part in schema["allOf"].as_array().into_iter().flatten() {
            match part["$ref"].as_str() {
                Some(reference) => {
                    let definition = &self.definitions[reference.rsplit('/').next().unwrap()];
                    self.add_keys(definition, depth + 1, keys);
                }
                None => self.add_keys(part, depth + 1, keys),
            }
        }
        if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
            let choice = self.below(choices.len());
            for key in choices[choice]["required"].as_array().into_iter().flatten() {
                let key = key.as_str().unwrap();
                let property = schema["properties"].get(key).or(choices[choice]["properties"].get(key));
                if let Some(property) = property {
                    let value = self.make_present(property, depth);
                    keys.insert(key.to_owned(), value);
                }
            }
            self.add_keys(&choices[choice], depth + 1, keys);
            // Keys required by the other choices would match two at once.
            if schema.get("properties").is_some() {
                let others: Vec<_> = choices.iter().filter(|other| *other != &choices[choice]).collect();
                for key in others.iter().flat_map(|other| other["required"].as_array()).flatten() {
                    keys.remove(key.as_str().unwrap());
                }
            }
        }
        let required = schema["required"].as_array();
        let one_of_keys: Vec<_> = schema["oneOf"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|choice| choice["required"].clone())
            .collect();
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
            let is_choice = one_of_keys.iter().any(|names| names[0] == *key);
            let allowed = property["not"] != serde_json::json!({});
            let wanted = is_required || allowed && (!is_choice && depth < 10 && self.below(2) == 0);
            if wanted && !(keys.contains_key(key) && property.get("const").is_none()) {
                let value = self.make(property, depth + 1);
                keys.insert(key.clone(), value);
            }
        }
    }

    fn make_present(&mut self, property: &Value, depth: usize) -> String {
        // At greater depth, every nullable value is null.
        let depth = depth.min(3);
        loop {
            let value = self.make(property, depth + 1);
            if value != "null" {
                return value;
            }
        }
    }
}
