//! Hub settings in the user's configuration.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use switchboard_store::Role;

use super::notify::NotifySettings;
use super::own_configuration;
use super::roots::Roots;
use crate::commands::serve::{parse_origin, parse_service};
use crate::outcome::CommandError;
use crate::units;

/// Time after which an idle agent process without subscribers is ended.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Time for an agent to stop after a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);

/// `{"roots": ["~/projects"], "hub": {"idle": "30m", "cancel_timeout": "30s", "connections": 100, "agent_options": "admin"}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubSettings {
    /// Folders in which sessions may work.
    pub(crate) roots: Roots,
    /// Time after which an idle agent process without subscribers is ended.
    pub(crate) idle: Duration,
    /// Time for an agent to stop after a cancellation before the hub ends the turn itself.
    pub(crate) cancel_timeout: Duration,
    /// Agents that are kept running.
    pub(crate) warm: WarmAgents,
    /// Maximum number of connections, if not the default.
    pub(crate) connections: Option<usize>,
    /// Origins of other servers whose pages may connect with a credential.
    pub(crate) origins: Vec<String>,
    /// Push services of browsers beside the known ones, as origins.
    pub(crate) push_services: Vec<String>,
    /// The minimum role whose clients may pass MCP servers and options to agents; `None`: no client may.
    pub(crate) agent_options: Option<Role>,
}

/// The setting `hub.warm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WarmAgents {
    /// All agents of the hub.
    All,
    /// Agents by name.
    Named(Vec<String>),
}

impl WarmAgents {
    fn parse(value: &Value) -> Result<Self, String> {
        let names = |list: &Vec<Value>| {
            list.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        match value {
            Value::Bool(true) => Ok(WarmAgents::All),
            Value::Bool(false) => Ok(WarmAgents::Named(Vec::new())),
            value => value.as_array().and_then(names).map(WarmAgents::Named).ok_or_else(|| {
                format!("expected true, or a list of agents such as [\"codex\"], found {value}")
            }),
        }
    }

    /// Returns the agents of a hub that are kept running, and the names that are not its agents.
    pub(crate) fn among(&self, agents: &[String]) -> (Vec<String>, Vec<String>) {
        match self {
            WarmAgents::All => (agents.to_vec(), Vec::new()),
            WarmAgents::Named(names) => names.iter().cloned().partition(|name| agents.contains(name)),
        }
    }
}

impl HubSettings {
    /// Reads the configuration. `usual` is the only root if none are listed. Invalid settings are reported;
    /// invalid folders are an error, because a mistake there could grant access.
    pub(crate) fn read(usual: &Path) -> Result<Self, CommandError> {
        let configuration = own_configuration()
            .map_err(|problem| CommandError::usage(problem).hint("correct or remove it"))?;
        let (settings, problems) = HubSettings::parse(&configuration.unwrap_or_default(), usual)
            .map_err(|problem| CommandError::usage(format!("the setting roots {problem}")))?;
        for problem in problems.into_iter().chain(settings.roots.problems()) {
            eprintln!("switchboard: {problem}");
        }
        Ok(settings)
    }

    /// Returns problems of the settings. An unreadable file is reported where agents are read.
    pub(crate) fn problems(usual: &Path) -> Vec<String> {
        let configuration = own_configuration().ok().flatten().unwrap_or_default();
        match HubSettings::parse(&configuration, usual) {
            Ok((settings, problems)) => {
                let (_, of_targets) = NotifySettings::read();
                problems.into_iter().chain(settings.roots.problems()).chain(of_targets).collect()
            }
            Err(problem) => vec![format!("the setting roots {problem}")],
        }
    }

    /// Returns the cancellation timeout for a hub without other settings. [`HubSettings::problems`] reports
    /// problems.
    pub(crate) fn read_cancel_timeout() -> Duration {
        let configuration = own_configuration().ok().flatten().unwrap_or_default();
        let value = configuration.pointer("/hub/cancel_timeout");
        value.and_then(|value| duration(value).ok()).unwrap_or(CANCEL_TIMEOUT)
    }

    fn parse(configuration: &Value, usual: &Path) -> Result<(Self, Vec<String>), String> {
        let roots = Roots::parse(configuration.get("roots"), usual)?;
        let mut settings = HubSettings {
            roots,
            idle: IDLE,
            cancel_timeout: CANCEL_TIMEOUT,
            warm: WarmAgents::Named(Vec::new()),
            connections: None,
            origins: Vec::new(),
            push_services: Vec::new(),
            agent_options: Some(Role::Admin),
        };
        let mut problems = Vec::new();
        match configuration.get("hub") {
            None => {}
            Some(Value::Object(hub)) => {
                for (key, value) in hub {
                    if let Err(problem) = settings.take(key, value) {
                        problems.push(format!("the setting hub.{key}: {problem}"));
                    }
                }
            }
            Some(_) => problems.push("the setting hub: expected an object".to_owned()),
        }
        Ok((settings, problems))
    }

    fn take(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match key {
            // Read by `NotifySettings`, which also reports its mistakes.
            "notify" => {}
            // All or none: an origin that is written wrong could be another one.
            "origins" => {
                let list =
                    value.as_array().ok_or_else(|| format!("expected a list of origins, found {value}"))?;
                let origins = list.iter().map(|origin| parse_origin(origin.as_str().unwrap_or_default()));
                self.origins = origins.collect::<Result<_, _>>()?;
            }
            "push_services" => {
                let list =
                    value.as_array().ok_or_else(|| format!("expected a list of origins, found {value}"))?;
                let services = list.iter().map(|service| parse_service(service.as_str().unwrap_or_default()));
                self.push_services = services.collect::<Result<_, _>>()?;
            }
            "idle" => self.idle = duration(value)?,
            "cancel_timeout" => self.cancel_timeout = duration(value)?,
            "warm" => self.warm = WarmAgents::parse(value)?,
            "connections" => {
                let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
                let number = number.filter(|number| *number > 0);
                self.connections = Some(number.ok_or_else(|| format!("expected a number, found {value}"))?);
            }
            // An invalid value restricts it to administrators.
            "agent_options" => {
                self.agent_options = match value.as_str() {
                    Some("admin") => Some(Role::Admin),
                    Some("use") => Some(Role::Use),
                    Some("nobody") => None,
                    _ => return Err(format!("expected \"admin\", \"use\" or \"nobody\", found {value}")),
                };
            }
            _ => return Err("unknown setting".to_owned()),
        }
        Ok(())
    }
}

/// Parses a duration with its unit.
pub(super) fn duration(value: &Value) -> Result<Duration, String> {
    let time = value.as_str().and_then(|text| units::duration(text).ok());
    time.ok_or_else(|| format!("expected a time such as \"30m\" or \"12h\", found {value}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(configuration: &Value) -> (HubSettings, Vec<String>) {
        HubSettings::parse(configuration, Path::new("/usual")).unwrap()
    }

    #[test]
    fn settings_are_read_and_the_rest_is_as_usual() {
        let (usual, problems) = parse(&json!({"agent_servers": {}}));
        assert_eq!((usual.idle, usual.connections, problems), (IDLE, None, vec![]));
        assert_eq!(usual.cancel_timeout.as_secs(), 30);
        assert_eq!(Roots::parse(None, Path::new("/usual")).as_ref(), Ok(&usual.roots));
        let (settings, problems) =
            parse(&json!({"roots": ["/a"], "hub": {"idle": "2h", "cancel_timeout": "5s", "connections": 9}}));
        assert_eq!(settings.cancel_timeout.as_secs(), 5);
        assert_eq!((settings.idle.as_secs(), settings.connections), (7200, Some(9)));
        assert_eq!(problems, [""; 0]);
        assert_ne!(settings.roots, usual.roots);
    }

    #[test]
    fn options_for_agents_are_for_administrators_unless_the_setting_says_otherwise() {
        let parsed = |value: Value| {
            let (settings, problems) = parse(&json!({"hub": {"agent_options": value}}));
            (settings.agent_options, problems.len())
        };
        assert_eq!(parse(&json!({})).0.agent_options, Some(Role::Admin));
        assert_eq!(parsed(json!("use")), (Some(Role::Use), 0));
        assert_eq!(parsed(json!("admin")), (Some(Role::Admin), 0));
        assert_eq!(parsed(json!("nobody")), (None, 0));
        for wrong in [json!("view"), json!(true), json!(["use"])] {
            assert_eq!(parsed(wrong), (Some(Role::Admin), 1), "it fails closed");
        }
    }

    #[test]
    fn agents_are_kept_warm_by_name_or_all_of_them() {
        let agents = ["codex".to_owned(), "claude".to_owned()];
        let among = |warm: Value| parse(&json!({"hub": {"warm": warm}})).0.warm.among(&agents);
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(among(json!(true)), (owned(&["codex", "claude"]), vec![]));
        assert_eq!(among(json!(false)), (vec![], vec![]));
        assert_eq!(among(json!(["claude", "goose"])), (owned(&["claude"]), owned(&["goose"])));
        let (settings, problems) = parse(&json!({"hub": {"warm": [7]}}));
        assert_eq!(settings.warm, WarmAgents::Named(vec![]));
        assert_eq!(
            problems,
            ["the setting hub.warm: expected true, or a list of agents such as [\"codex\"], found [7]"]
        );
    }

    #[test]
    fn invalid_settings_are_reported_and_the_others_apply() {
        let (settings, mut problems) = parse(&json!({"hub": {
            "idle": "soon", "connections": 0, "idel": "1h"
        }}));
        assert_eq!((settings.idle, settings.connections), (IDLE, None));
        problems.sort();
        assert_eq!(
            problems,
            [
                "the setting hub.connections: expected a number, found 0",
                "the setting hub.idel: unknown setting",
                "the setting hub.idle: expected a time such as \"30m\" or \"12h\", found \"soon\"",
            ]
        );
        assert_eq!(parse(&json!({"hub": 7})).1, ["the setting hub: expected an object"]);
        assert!(HubSettings::parse(&json!({"roots": "/a"}), Path::new("/")).is_err());
    }
}
