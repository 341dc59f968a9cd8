//! Removal of secrets from messages.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

const REPLACEMENT: &str = "[redacted]";

/// Removes secrets from exported messages: values under keys that name a secret, authorization headers,
/// values of environment variables, and text in the format of well-known keys and tokens.
///
/// It recognizes formats, not meanings: check [`secrets`](Redaction::secrets) before sharing an export.
#[derive(Debug, Default)]
pub struct Redaction {
    secrets: BTreeMap<(String, String), usize>,
}

/// A secret that was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Reason why it counts as a secret.
    pub reason: String,
    /// First characters and length: enough to recognize it, too little to use it.
    pub preview: String,
    /// Number of occurrences.
    pub count: usize,
}

/// Part of a value that is secret.
#[derive(Debug, Clone, Copy)]
enum Reason<'r> {
    /// The whole value.
    All(&'r str),
    /// The `value` of each pair in it.
    Pairs(&'r str),
}

impl Redaction {
    /// Creates an empty redaction.
    pub fn new() -> Self {
        Redaction::default()
    }

    /// Returns the bytes without secrets. Input that is not JSON is treated as text. JSON is rewritten only
    /// if it contains a secret.
    pub fn redact(&mut self, bytes: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(bytes);
        let redacted = match serde_json::from_str::<&RawValue>(&text) {
            Ok(raw) => self.value(raw.get(), None, 0),
            Err(_) => self.text(&text),
        };
        redacted.map_or_else(|| bytes.to_vec(), String::into_bytes)
    }

    /// Returns the secrets replaced so far.
    pub fn secrets(&self) -> Vec<Secret> {
        self.secrets
            .iter()
            .map(|((reason, preview), count)| Secret {
                reason: reason.clone(),
                preview: preview.clone(),
                count: *count,
            })
            .collect()
    }

    fn found(&mut self, reason: &str, secret: &str) {
        let start: String = secret.chars().take(3).collect();
        let preview = format!("{start}... ({} characters)", secret.chars().count());
        *self.secrets.entry((reason.to_owned(), preview)).or_default() += 1;
    }

    /// Returns the JSON text without secrets, or `None` if it has none. `secret` marks the value as secret.
    fn value(&mut self, json: &str, secret: Option<Reason<'_>>, depth: usize) -> Option<String> {
        if depth > 128 {
            return None;
        }
        match json.as_bytes().first() {
            Some(b'"') => {
                let text: String = serde_json::from_str(json).ok()?;
                let redacted = match secret {
                    Some(Reason::All(_)) if text.is_empty() || text == REPLACEMENT => return None,
                    Some(Reason::All(reason)) => {
                        self.found(reason, &text);
                        REPLACEMENT.to_owned()
                    }
                    _ => self.text(&text)?,
                };
                Some(serde_json::Value::from(redacted).to_string())
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
                let mut changed = false;
                let parts: Vec<String> = items
                    .iter()
                    .map(|item| {
                        let redacted = self.value(item.get(), secret, depth + 1);
                        changed |= redacted.is_some();
                        redacted.unwrap_or_else(|| item.get().to_owned())
                    })
                    .collect();
                changed.then(|| format!("[{}]", parts.join(",")))
            }
            Some(b'{') => self.object(json, secret, depth),
            Some(b'0'..=b'9' | b'-') => {
                let Some(Reason::All(reason)) = secret else { return None };
                self.found(reason, json);
                Some(serde_json::Value::from(REPLACEMENT).to_string())
            }
            _ => None,
        }
    }

    fn object(&mut self, json: &str, secret: Option<Reason<'_>>, depth: usize) -> Option<String> {
        let members = members(json)?;
        // `{"name":"Authorization","value":"..."}`, as headers and environment variables are written.
        let named = members.iter().find(|(key, _)| key == "name");
        let name = named.and_then(|(_, value)| serde_json::from_str::<String>(value.get()).ok());
        let name_reason = name.as_deref().and_then(secret_name);
        let mut changed = false;
        let mut parts = Vec::new();
        for (key, value) in &members {
            let reason = match secret {
                Some(Reason::All(reason)) => Some(Reason::All(reason)),
                Some(Reason::Pairs(reason)) if key == "value" => {
                    Some(Reason::All(name_reason.unwrap_or(reason)))
                }
                _ if key == "value" && name_reason.is_some() => name_reason.map(Reason::All),
                _ => match (key.as_str(), value.get().as_bytes().first()) {
                    ("env", Some(b'[')) => Some(Reason::Pairs("value of an environment variable")),
                    ("env", Some(b'{')) => Some(Reason::All("value of an environment variable")),
                    ("headers", Some(b'[')) => Some(Reason::Pairs("header")),
                    ("headers", Some(b'{')) => Some(Reason::All("header")),
                    _ => secret_name(key).map(Reason::All),
                },
            };
            let redacted = self.value(value.get(), reason, depth + 1);
            changed |= redacted.is_some();
            let key = serde_json::Value::from(key.as_str());
            parts.push(format!("{key}:{}", redacted.as_deref().unwrap_or(value.get())));
        }
        changed.then(|| format!("{{{}}}", parts.join(",")))
    }

    /// Returns text without secrets that are recognized by their format, or `None` if it has none.
    fn text(&mut self, text: &str) -> Option<String> {
        let mut result = String::new();
        let mut kept = 0;
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let starts_word = text[..at].chars().next_back().is_none_or(|before| !is_token(before));
            let found = if starts_word { token(rest) } else { None };
            match found {
                Some((reason, prefix, length)) => {
                    self.found(reason, &rest[prefix..prefix + length]);
                    result.push_str(&text[kept..at + prefix]);
                    result.push_str(REPLACEMENT);
                    at += prefix + length;
                    kept = at;
                }
                None => at += rest.chars().next().map_or(1, char::len_utf8),
            }
        }
        (kept > 0).then(|| {
            result.push_str(&text[kept..]);
            result
        })
    }
}

fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

/// Returns the members of an object in order, including duplicate keys.
fn members(json: &str) -> Option<Vec<(String, &RawValue)>> {
    struct Members;
    impl<'de> serde::de::Visitor<'de> for Members {
        type Value = Vec<(String, &'de RawValue)>;
        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }
    serde::Deserializer::deserialize_map(&mut serde_json::Deserializer::from_str(json), Members).ok()
}

/// Returns the reason why a value with this name is a secret.
fn secret_name(name: &str) -> Option<&'static str> {
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|character| character.to_ascii_lowercase())
        .collect();
    let ends = |endings: &[&str]| endings.iter().any(|ending| plain.ends_with(ending));
    if ends(&["authorization", "cookie", "xapikey"]) {
        Some("authorization header")
    } else if ends(&["apikey", "accesskey", "secretkey", "privatekey", "signingkey"]) {
        Some("key")
    } else if ends(&[
        "accesstoken",
        "authtoken",
        "refreshtoken",
        "bearertoken",
        "idtoken",
        "sessiontoken",
        "apitoken",
    ]) || plain == "token"
        || name.to_ascii_uppercase().ends_with("_TOKEN")
    {
        Some("token")
    } else if ends(&["password", "passwd", "passphrase", "secret", "credential", "credentials"]) {
        Some("password or secret")
    } else {
        None
    }
}

/// Finds a secret at the start of a text. Returns the reason, the length before the secret, and the secret's
/// length.
fn token(text: &str) -> Option<(&'static str, usize, usize)> {
    const FORMS: [(&str, usize); 16] = [
        ("sk-", 16),
        ("pk-", 24),
        ("ghp_", 20),
        ("gho_", 20),
        ("ghs_", 20),
        ("ghu_", 20),
        ("github_pat_", 20),
        ("glpat-", 16),
        ("xoxb-", 16),
        ("xoxp-", 16),
        ("AKIA", 16),
        ("ASIA", 16),
        ("AIza", 30),
        ("npm_", 30),
        ("hf_", 20),
        ("eyJ", 40),
    ];
    let run = |text: &str, more: &[char]| {
        text.find(|character: char| !is_token(character) && !more.contains(&character)).unwrap_or(text.len())
    };
    for (prefix, least) in FORMS {
        if text.starts_with(prefix) {
            let length = run(text, &['.']);
            if length >= prefix.len() + least {
                return Some(("key or token in a text", 0, length));
            }
        }
    }
    for scheme in ["Bearer ", "bearer ", "Basic "] {
        if let Some(rest) = text.strip_prefix(scheme) {
            let length = run(rest, &['.', '+', '/', '=', '~']);
            if length >= 12 {
                return Some(("authorization header", scheme.len(), length));
            }
        }
    }
    if text.starts_with("-----BEGIN ") && text[..text.floor_char_boundary(64)].contains("PRIVATE KEY") {
        let end = text.find("-----END ").map_or(text.len(), |end| {
            text[end + 9..].find("-----").map_or(text.len(), |more| end + 9 + more + 5)
        });
        return Some(("private key", 0, end));
    }
    // NAME_KEY=value, as in a shell or a .env file.
    let name = run(text, &[]);
    if name > 3
        && text[name..].starts_with('=')
        && text[..name].chars().all(|character| !character.is_ascii_lowercase())
        && (secret_name(&text[..name]).is_some() || text[..name].ends_with("_KEY"))
    {
        let value = &text[name + 1..];
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let (skip, value) = quote.map_or((0, value), |quote| (quote.len_utf8(), &value[quote.len_utf8()..]));
        let length = value
            .find(|character: char| quote.map_or(character.is_whitespace(), |quote| quote == character))
            .unwrap_or(value.len());
        if length > 0 && !value.starts_with('$') && !value.starts_with(REPLACEMENT) {
            return Some(("value of an environment variable", name + 1 + skip, length));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Redaction;

    #[test]
    fn secrets_are_replaced_and_nothing_else() {
        let key = format!("sk-{}", "a1".repeat(20));
        let cases = [
            (r#"{"a":1.0,"title": "fine",  "tokens":5}"#.to_owned(), None),
            (r#"{"apiKey":"abc","n":1e2}"#.into(), Some(r#"{"apiKey":"[redacted]","n":1e2}"#)),
            (
                r#"{"headers":[{"name":"Authorization","value":"Bearer x"},{"name":"X-Trace","value":"1"}]}"#
                    .into(),
                Some(
                    r#"{"headers":[{"name":"Authorization","value":"[redacted]"},{"name":"X-Trace","value":"[redacted]"}]}"#,
                ),
            ),
            (
                r#"{"options":[{"name":"Low","value":"low"}],"env":[{"name":"PATH","value":"/bin"}]}"#.into(),
                Some(
                    r#"{"options":[{"name":"Low","value":"low"}],"env":[{"name":"PATH","value":"[redacted]"}]}"#,
                ),
            ),
            (
                r#"{"env":{"HOME":"/home/u","N":{"x":[1,"y"]}}}"#.into(),
                Some(r#"{"env":{"HOME":"[redacted]","N":{"x":["[redacted]","[redacted]"]}}}"#),
            ),
            (format!(r#"{{"text":"use {key}, then"}}"#), Some(r#"{"text":"use [redacted], then"}"#)),
            (
                r#"{"text":"curl -H 'Authorization: Bearer abcdefghijklmnop' x"}"#.into(),
                Some(r#"{"text":"curl -H 'Authorization: Bearer [redacted]' x"}"#),
            ),
            (
                "export OPENAI_API_KEY=\"s3cret value\" MY_TOKEN=abc A=b".into(),
                Some("export OPENAI_API_KEY=\"[redacted]\" MY_TOKEN=[redacted] A=b"),
            ),
            ("a task-management bearer of news; ssh sk-".into(), None),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest".into(),
                Some("[redacted]\nrest"),
            ),
            (
                r#"{"session":{"accessToken":{"a":"b","c":null}}}"#.into(),
                Some(r#"{"session":{"accessToken":{"a":"[redacted]","c":null}}}"#),
            ),
        ];
        for (text, expected) in cases {
            let mut redaction = Redaction::new();
            let redacted = String::from_utf8(redaction.redact(text.as_bytes())).unwrap();
            assert_eq!(redacted, expected.unwrap_or(&text));
            assert_eq!(redaction.secrets().is_empty(), expected.is_none());
            assert_eq!(redaction.redact(redacted.as_bytes()), redacted.as_bytes(), "twice is once");
        }
    }
}
