//! Targets of notifications in the user's configuration: `hub.notify`.
//!
//! ```json
//! {"hub": {"notify": [
//!   {"ntfy": "https://ntfy.sh/TOPIC", "token": {"file": "~/.ntfy-token"}},
//!   {"webhook": "https://example.org/hook", "secret": {"env": "HOOK_SECRET"}, "events": ["question"]},
//!   {"webhook": {"env": "SLACK_URL"}, "format": "slack"},
//!   {"command": ["notify-me"], "after": "1m"},
//!   {"desktop": true}
//! ]}}
//! ```
//!
//! A target with any mistake is not used, because a mistake could tell more than was intended, or tell others.

use std::path::PathBuf;

use serde_json::{Map, Value};
use switchboard_notify::{Address, Content, Endpoint, EventKind, Secret, Target, WebhookFormat, WebhookKey};

use super::hub::duration;
use super::own_configuration;

/// Maximum size of a file with a secret in bytes.
const MAX_SECRET: usize = 4096;
/// Maximum number of targets.
const MAX_TARGETS: usize = 32;

/// Targets of notifications.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NotifySettings {
    pub(crate) targets: Vec<Target>,
    /// Environment variables with secrets, which agents and commands do not get.
    pub(crate) secret_variables: Vec<String>,
}

impl NotifySettings {
    /// Reads the configuration. The second value has the mistakes.
    pub(crate) fn read() -> (Self, Vec<String>) {
        let configuration = own_configuration().ok().flatten().unwrap_or_default();
        match configuration.pointer("/hub/notify") {
            Some(value) => NotifySettings::parse(value),
            None => (NotifySettings::default(), Vec::new()),
        }
    }

    /// Parses the list of targets.
    pub(crate) fn parse(value: &Value) -> (Self, Vec<String>) {
        let (mut settings, mut problems) = (NotifySettings::default(), Vec::new());
        let Some(list) = value.as_array() else {
            return (settings, vec!["the setting hub.notify: expected a list of targets".to_owned()]);
        };
        if list.len() > MAX_TARGETS {
            problems.push(format!("the setting hub.notify: only the first {MAX_TARGETS} targets are used"));
        }
        for (place, value) in list.iter().take(MAX_TARGETS).enumerate() {
            match target(value, &mut settings.secret_variables) {
                Ok(mut target) => {
                    let name = target.name.clone();
                    let is_taken =
                        |name: &str| settings.targets.iter().any(|known: &Target| known.name == name);
                    for number in 2.. {
                        if !is_taken(&target.name) {
                            break;
                        }
                        target.name = format!("{name}-{number}");
                    }
                    settings.targets.push(target);
                }
                Err(problem) => problems.push(format!(
                    "the setting hub.notify, target {}: {problem}; the target is not used",
                    place + 1
                )),
            }
        }
        (settings, problems)
    }
}

/// The keys that any target may have.
const COMMON: [&str; 6] = ["name", "events", "content", "after", "min_turn", "answer"];

fn target(value: &Value, variables: &mut Vec<String>) -> Result<Target, String> {
    let object = value.as_object().ok_or("expected an object")?;
    let kinds = ["ntfy", "webhook", "command", "desktop"];
    let kind = match &kinds.into_iter().filter(|kind| object.contains_key(*kind)).collect::<Vec<_>>()[..] {
        [kind] => *kind,
        _ => return Err(format!("expected one of {}", kinds.join(", "))),
    };
    let known: &[&str] = match kind {
        "ntfy" => &["ntfy", "token"],
        "webhook" => &["webhook", "secret", "format", "chat_id"],
        "command" => &["command"],
        _ => &["desktop"],
    };
    if let Some(unknown) = object.keys().find(|key| !known.contains(&&***key) && !COMMON.contains(&&***key)) {
        return Err(format!("unknown setting {unknown:?} for {kind}"));
    }
    let (name, endpoint) = match kind {
        "ntfy" => ("ntfy", ntfy(object, variables)?),
        "webhook" => webhook(object, variables)?,
        "command" => ("command", Endpoint::Command(words(&object["command"])?)),
        _ if object["desktop"] == true => ("desktop", Endpoint::Desktop),
        _ => return Err("desktop: expected true".to_owned()),
    };
    let mut target = Target::new(name, endpoint);
    if let Some(name) = object.get("name") {
        target.name = self::name(name)?;
    }
    if let Some(events) = object.get("events") {
        target.events = self::events(events)?;
    }
    match object.get("content").map(Value::as_str) {
        None | Some(Some("title")) => {}
        Some(Some("full")) => target.content = Content::Full,
        Some(_) => return Err("content: expected \"title\" or \"full\"".to_owned()),
    }
    match object.get("answer") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => {
            answer_problem(&target)?;
            target.can_answer = true;
        }
        Some(_) => return Err("answer: expected true or false".to_owned()),
    }
    if let Some(after) = object.get("after") {
        target.after = duration(after).map_err(|problem| format!("after: {problem}"))?;
    }
    if let Some(min_turn) = object.get("min_turn") {
        target.min_turn = duration(min_turn).map_err(|problem| format!("min_turn: {problem}"))?;
    }
    Ok(target)
}

/// Returns an error if questions cannot be answered from the notifications of a target.
fn answer_problem(target: &Target) -> Result<(), String> {
    if target.content != Content::Full {
        return Err("answer: only what is shown can be answered; it needs \"content\": \"full\"".to_owned());
    }
    match &target.endpoint {
        Endpoint::Ntfy { token: None, .. } => {
            Err("answer: everybody who knows the topic could answer; it needs a token".to_owned())
        }
        Endpoint::Ntfy { .. }
        | Endpoint::Command(_)
        | Endpoint::Webhook { format: WebhookFormat::Standard { .. }, .. } => Ok(()),
        _ => Err("answer: only for ntfy, command and webhook".to_owned()),
    }
}

fn ntfy(object: &Map<String, Value>, variables: &mut Vec<String>) -> Result<Endpoint, String> {
    let url = address(&object["ntfy"], variables).map_err(|problem| format!("ntfy: {problem}"))?;
    let token = match object.get("token") {
        Some(token) => Some(secret(token, variables).map_err(|problem| format!("token: {problem}"))?),
        None => None,
    };
    Endpoint::ntfy(&url, token.map(Secret::new)).map_err(|problem| format!("ntfy: {problem}"))
}

fn webhook(
    object: &Map<String, Value>,
    variables: &mut Vec<String>,
) -> Result<(&'static str, Endpoint), String> {
    let of_url = |problem: String| format!("webhook: {problem}");
    let url = Address::parse(&address(&object["webhook"], variables).map_err(of_url)?).map_err(of_url)?;
    let (name, format) = match object.get("format").map(Value::as_str) {
        None | Some(Some("standard")) => {
            let key = match object.get("secret") {
                Some(value) => {
                    let key = secret(value, variables).and_then(|secret| WebhookKey::parse(&secret));
                    Some(key.map_err(|problem| format!("secret: {problem}"))?)
                }
                None => None,
            };
            ("webhook", WebhookFormat::Standard { key })
        }
        Some(Some("slack")) => ("slack", WebhookFormat::Slack),
        Some(Some("telegram")) => {
            let chat = object.get("chat_id").filter(|chat| chat.is_string() || chat.is_i64());
            let chat = chat.ok_or("chat_id: expected the id of the chat")?.clone();
            ("telegram", WebhookFormat::Telegram { chat })
        }
        Some(_) => return Err("format: expected \"standard\", \"slack\" or \"telegram\"".to_owned()),
    };
    if object.contains_key("secret") && name != "webhook" {
        return Err(format!("secret: messages for {name} are not signed"));
    }
    if object.contains_key("chat_id") && name != "telegram" {
        return Err("chat_id: only for the format telegram".to_owned());
    }
    Ok((name, Endpoint::Webhook { url, format }))
}

fn words(value: &Value) -> Result<Vec<String>, String> {
    let words: Option<Vec<String>> = value
        .as_array()
        .and_then(|words| words.iter().map(|word| word.as_str().map(str::to_owned)).collect());
    words.filter(|words| words.first().is_some_and(|program| !program.is_empty())).ok_or_else(|| {
        "command: expected a list of the program and its arguments; no shell is used".to_owned()
    })
}

fn name(value: &Value) -> Result<String, String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let name = value.as_str().filter(|name| (1..=32).contains(&name.len()) && name.chars().all(fits));
    Ok(name.ok_or("name: expected at most 32 letters, digits, -, _ and .")?.to_owned())
}

fn events(value: &Value) -> Result<Vec<EventKind>, String> {
    let kinds = || EventKind::ALL.map(EventKind::name).join(", ");
    let list = value.as_array().ok_or_else(|| format!("events: expected a list of {}", kinds()))?;
    let parse = |event: &Value| {
        let kind = event.as_str().and_then(EventKind::parse);
        kind.ok_or_else(|| format!("events: unknown event {event}; there are {}", kinds()))
    };
    list.iter().map(parse).collect()
}

/// Reads a URL, which may itself be a secret.
fn address(value: &Value, variables: &mut Vec<String>) -> Result<String, String> {
    match value {
        Value::String(url) => Ok(url.clone()),
        other => secret(other, variables),
    }
}

/// Reads a secret from the file or the environment variable that is named. The error does not contain it.
fn secret(value: &Value, variables: &mut Vec<String>) -> Result<String, String> {
    let source = value.as_object().filter(|source| source.len() == 1).and_then(|source| source.iter().next());
    let text = match source {
        Some((key, Value::String(path))) if key == "file" => {
            let file = expand(path)?;
            let bytes = std::fs::read(&file).map_err(|error| format!("cannot read {path}: {error}"))?;
            if bytes.len() > MAX_SECRET {
                return Err(format!("{path} is too long for a secret"));
            }
            String::from_utf8(bytes).map_err(|_| format!("{path} is not UTF-8"))?
        }
        Some((key, Value::String(name))) if key == "env" => {
            variables.push(name.clone());
            std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))?
        }
        _ => {
            return Err(
                "secrets are not written in config.json; use {\"file\": PATH} or {\"env\": NAME}".to_owned()
            );
        }
    };
    let text = text.trim();
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("the secret is empty or has more than one line".to_owned());
    }
    Ok(text.to_owned())
}

/// Expands `~/` in a path. Relative paths would depend on the folder of the launch.
fn expand(path: &str) -> Result<PathBuf, String> {
    if let Some(rest) = path.strip_prefix("~/") {
        let home = std::env::var_os("HOME").ok_or("HOME is not set")?;
        return Ok(PathBuf::from(home).join(rest));
    }
    let path = PathBuf::from(path);
    if path.is_absolute() { Ok(path) } else { Err("expected an absolute path or one below ~/".to_owned()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn problem(target: &Value) -> String {
        let (settings, mut problems) = NotifySettings::parse(&json!([target]));
        assert_eq!((settings.targets.len(), problems.len()), (0, 1), "{problems:?}");
        problems.remove(0)
    }

    #[test]
    fn targets_of_every_kind_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            json!({"file": path})
        };
        let token = file("token", "tk_abc\n");
        let key = file("key", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3");
        let url = file("url", "https://hooks.example.org/T0/B0/SECRET");
        let (settings, problems) = NotifySettings::parse(&json!([
            {"ntfy": "https://ntfy.example.org/HIDDEN", "token": token, "events": ["question", "died"]},
            {"ntfy": "http://127.0.0.1:8080/base/HIDDEN"},
            {"webhook": "https://example.org/hook?a=b", "secret": key, "content": "full"},
            {"webhook": url, "format": "slack", "after": "1m", "min_turn": "0s"},
            {"webhook": "https://api.telegram.example.org/x", "format": "telegram", "chat_id": -7},
            {"command": ["sh", "-c", "true"], "name": "mine"},
            {"desktop": true},
        ]));
        assert_eq!(problems, [""; 0]);
        let names: Vec<&str> = settings.targets.iter().map(|target| &*target.name).collect();
        assert_eq!(names, ["ntfy", "ntfy-2", "webhook", "slack", "telegram", "mine", "desktop"]);
        let [ntfy, _, webhook, slack, ..] = &settings.targets[..] else { panic!() };
        assert_eq!(ntfy.events, [EventKind::Question, EventKind::Died]);
        assert_eq!((ntfy.after, ntfy.content), (Duration::from_secs(10), Content::Title));
        assert_eq!(webhook.content, Content::Full);
        assert_eq!((slack.after, slack.min_turn), (Duration::from_secs(60), Duration::ZERO));
        let shown = format!("{:?}", settings.targets);
        for secret in ["tk_abc", "HIDDEN", "T0/B0", "a=b", "0123456789"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn secrets_are_only_read_from_files_and_the_environment() {
        let url = "https://ntfy.example.org/topic";
        for (target, words) in [
            (json!({"ntfy": url, "token": "tk_plain"}), "are not written in config.json"),
            (json!({"ntfy": url, "token": {"file": "token", "env": "X"}}), "are not written in config.json"),
            (json!({"ntfy": url, "token": {"file": "relative"}}), "absolute path"),
            (json!({"ntfy": url, "token": {"file": "/nonexistent/token"}}), "cannot read /nonexistent/token"),
            (json!({"ntfy": url, "token": {"env": "SWITCHBOARD_TEST_UNSET"}}), "is not set"),
            (json!({"webhook": "https://example.org", "secret": "whsec_AAAA"}), "are not written"),
        ] {
            let problem = problem(&target);
            assert!(problem.contains(words), "{problem}");
            assert!(!problem.contains("tk_plain") && !problem.contains("AAAA"), "{problem}");
        }
    }

    #[test]
    fn mistakes_are_reported_and_the_target_is_not_used() {
        for (target, words) in [
            (json!(7), "expected an object"),
            (json!({}), "expected one of"),
            (json!({"ntfy": "https://x/t", "desktop": true}), "expected one of"),
            (json!({"ntfy": "https://ntfy.sh"}), "topic"),
            (json!({"ntfy": "https://ntfy.sh/a b"}), "topic"),
            (json!({"ntfy": "ftp://ntfy.sh/topic"}), "https://"),
            (json!({"ntfy": "https://user:word@ntfy.sh/topic"}), "password"),
            (json!({"webhook": "nonsense"}), "https://"),
            (json!({"webhook": "https://x/", "format": "teams"}), "format"),
            (json!({"webhook": "https://x/", "format": "telegram"}), "chat_id"),
            (json!({"webhook": "https://x/", "chat_id": 1}), "chat_id"),
            (json!({"webhook": "https://x/", "format": "slack", "secret": {"env": "PATH"}}), "not signed"),
            (json!({"webhook": "https://x/", "secret": {"env": "PATH"}}), "whsec_"),
            (json!({"command": "rm -r /"}), "no shell"),
            (json!({"command": []}), "no shell"),
            (json!({"command": ["a", 1]}), "no shell"),
            (json!({"desktop": false}), "expected true"),
            (json!({"desktop": true, "evnets": []}), "unknown setting \"evnets\""),
            (json!({"desktop": true, "events": ["questions"]}), "unknown event"),
            (json!({"desktop": true, "events": "question"}), "expected a list"),
            (json!({"desktop": true, "content": "all"}), "content"),
            (json!({"desktop": true, "after": 10}), "after"),
            (json!({"desktop": true, "min_turn": "-1s"}), "min_turn"),
            (json!({"desktop": true, "name": "a b"}), "name"),
            (json!({"ntfy": "https://x/t", "answer": true}), "\"content\": \"full\""),
            (json!({"ntfy": "https://x/t", "answer": true, "content": "full"}), "needs a token"),
            (json!({"desktop": true, "answer": true, "content": "full"}), "only for ntfy"),
            (json!({"command": ["x"], "answer": 1, "content": "full"}), "true or false"),
        ] {
            let shown = target.to_string();
            let problem = problem(&target);
            assert!(problem.contains(words), "{shown}: {problem}");
        }
        assert_eq!(NotifySettings::parse(&json!({})).1.len(), 1);
        let many: Vec<Value> = (0..40).map(|_| json!({"desktop": true})).collect();
        let (settings, problems) = NotifySettings::parse(&Value::Array(many));
        assert_eq!((settings.targets.len(), problems.len()), (32, 1));
    }
}
