//! Models, modes and other configuration options of agents.

use serde_json::{Map, Value, json};
use switchboard_acp::v2::{self, SessionConfigOption, SessionConfigOptionCategory as Category};
use switchboard_acp::{Wire, WireFormat};

/// Prefix of configuration keys, which keeps them distinct from VS Code's own.
const PREFIX: &str = "acp.";
/// Id of the model that stands for the agent's own choice. It sorts before all names of models.
pub(crate) const OWN_MODEL: &str = "default";

/// The configuration options of a session or an agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Options(Vec<SessionConfigOption<'static>>);

/// A change of an option that a client asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Setting {
    Select { option: String, value: String },
    Switch { option: String, value: bool },
}

impl Options {
    pub(crate) fn new(options: &[SessionConfigOption<'_>]) -> Self {
        Options(options.iter().map(|option| option.clone().into_owned()).collect())
    }

    /// Reads the protocol's array. Malformed options are left out.
    pub(crate) fn from_json(value: &Value) -> Self {
        let options = value.as_array().into_iter().flatten().filter_map(|option| {
            let text = option.to_string();
            SessionConfigOption::decode(&text, WireFormat::Any).ok().map(Wire::into_owned)
        });
        Options(options.collect())
    }

    pub(crate) fn to_json(&self) -> Value {
        let options =
            self.0.iter().filter_map(|option| serde_json::from_str(&option.encode(WireFormat::Any)).ok());
        Value::Array(options.collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn model(&self) -> Option<&v2::SessionConfigSelect<'static>> {
        self.0.iter().find_map(|option| match option {
            SessionConfigOption::Select(select) if select.category == Some(Category::Model) => Some(select),
            _ => None,
        })
    }

    /// Returns the models for the picker. The first by name is chosen by clients without being asked, so it is the
    /// agent's own choice.
    pub(crate) fn models(&self, provider: &str) -> Value {
        let own = json!({"id": OWN_MODEL, "provider": provider, "name": "(agent's own)"});
        let models = self.model().into_iter().flat_map(|model| model.options.iter());
        let models = models.filter(|model| &*model.value != OWN_MODEL);
        let models =
            models.map(|model| json!({"id": &*model.value, "provider": provider, "name": &*model.name}));
        Value::Array([own].into_iter().chain(models).collect())
    }

    /// Returns the change that selects a model, unless it is selected or is the agent's own choice.
    pub(crate) fn select_model(&self, id: &str) -> Option<Setting> {
        let model = self.model()?;
        let is_offered = model.options.iter().any(|option| &*option.value == id);
        let wanted = id != OWN_MODEL && is_offered && &*model.current_value != id;
        wanted.then(|| Setting::Select { option: model.config_id.to_string(), value: id.to_owned() })
    }

    /// Returns the schema of all options but the model.
    pub(crate) fn schema(&self) -> Value {
        let mut properties = Map::new();
        for option in &self.0 {
            match option {
                SessionConfigOption::Select(select) if select.category != Some(Category::Model) => {
                    let list = |of: &dyn Fn(&v2::SessionConfigSelectOption<'_>) -> String| -> Vec<String> {
                        select.options.iter().map(of).collect()
                    };
                    let mut property = json!({
                        "type": "string", "title": &*select.name, "sessionMutable": true,
                        "enum": list(&|option| option.value.to_string()),
                        "enumLabels": list(&|option| option.name.to_string()),
                        "enumDescriptions": list(&|option| option.description.as_deref().unwrap_or_default().to_owned()),
                        "default": &*select.current_value,
                    });
                    if let Some(description) = &select.description {
                        property["description"] = json!(&**description);
                    }
                    properties.insert(key(&select.config_id), property);
                }
                SessionConfigOption::Boolean(switch) => {
                    let mut property = json!({
                        "type": "boolean", "title": &*switch.name, "sessionMutable": true, "default": switch.current_value,
                    });
                    if let Some(description) = &switch.description {
                        property["description"] = json!(&**description);
                    }
                    properties.insert(key(&switch.config_id), property);
                }
                _ => {}
            }
        }
        json!({"type": "object", "properties": properties})
    }

    /// Returns the current values of all options but the model.
    pub(crate) fn values(&self) -> Map<String, Value> {
        let value = |option: &SessionConfigOption<'_>| match option {
            SessionConfigOption::Select(select) if select.category != Some(Category::Model) => {
                Some((key(&select.config_id), json!(&*select.current_value)))
            }
            SessionConfigOption::Boolean(switch) => {
                Some((key(&switch.config_id), json!(switch.current_value)))
            }
            _ => None,
        };
        self.0.iter().filter_map(value).collect()
    }

    /// Returns the change that gives an option a value. Fails for values that the option does not have, and returns
    /// `None` for keys of others.
    pub(crate) fn set(&self, name: &str, value: &Value) -> Result<Option<Setting>, String> {
        let Some(id) = name.strip_prefix(PREFIX) else { return Ok(None) };
        let wrong = || Err(format!("{name}: the agent does not offer the value {value}"));
        for option in &self.0 {
            match option {
                SessionConfigOption::Select(select) if &*select.config_id == id => {
                    let Some(value) = value
                        .as_str()
                        .filter(|value| select.options.iter().any(|option| &*option.value == *value))
                    else {
                        return wrong();
                    };
                    return Ok(Some(Setting::Select { option: id.to_owned(), value: value.to_owned() }));
                }
                SessionConfigOption::Boolean(switch) if &*switch.config_id == id => {
                    let Some(value) = value.as_bool() else { return wrong() };
                    return Ok(Some(Setting::Switch { option: id.to_owned(), value }));
                }
                _ => {}
            }
        }
        Err(format!("{name}: the agent has no such option"))
    }
}

fn key(id: &str) -> String {
    format!("{PREFIX}{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::from_json(&json!([
            {"type": "select", "configId": "model", "name": "Model", "category": "model", "currentValue": "big",
             "options": [{"value": "big", "name": "Big"}, {"value": "small", "name": "Small"}]},
            {"type": "select", "configId": "mode", "name": "Mode", "category": "mode", "currentValue": "ask",
             "options": [{"groupId": "g", "name": "G", "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code", "description": "Edits"}]}]},
            {"type": "boolean", "configId": "web", "name": "Web", "currentValue": true},
            {"type": "odd", "configId": "x", "name": "X"},
        ]))
    }

    #[test]
    fn models_are_in_the_picker_and_other_options_in_the_schema() {
        let options = options();
        let models = options.models("demo");
        let ids: Vec<&str> =
            models.as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["default", "big", "small"]);
        let schema = options.schema();
        assert_eq!(
            schema["properties"].as_object().unwrap().keys().collect::<Vec<_>>(),
            ["acp.mode", "acp.web"]
        );
        assert_eq!(schema["properties"]["acp.mode"]["enum"], json!(["ask", "code"]));
        assert_eq!(Value::Object(options.values()), json!({"acp.mode": "ask", "acp.web": true}));
        let _: ahp_types::state::SessionConfigSchema = serde_json::from_value(schema).unwrap();
    }

    #[test]
    fn settings_are_those_that_the_agent_offers() {
        let options = options();
        let select =
            |option: &str, value: &str| Setting::Select { option: option.into(), value: value.into() };
        assert_eq!(options.select_model("small"), Some(select("model", "small")));
        for same in ["default", "big", "unknown"] {
            assert_eq!(options.select_model(same), None, "{same}");
        }
        assert_eq!(options.set("acp.mode", &json!("code")), Ok(Some(select("mode", "code"))));
        assert_eq!(
            options.set("acp.web", &json!(false)),
            Ok(Some(Setting::Switch { option: "web".into(), value: false }))
        );
        assert_eq!(options.set("autoApprove", &json!("all")), Ok(None));
        for (name, value) in [
            ("acp.mode", json!("other")),
            ("acp.mode", json!(1)),
            ("acp.web", json!("on")),
            ("acp.none", json!(1)),
        ] {
            assert!(options.set(name, &value).is_err(), "{name} {value}");
        }
        assert_eq!(Options::from_json(&options.to_json()), options);
    }
}
