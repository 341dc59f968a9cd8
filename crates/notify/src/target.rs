//! Targets of notifications.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use switchboard_hub::SessionEvent;

use crate::push::Subscription;

/// A text that is never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// Kind of an event that people are notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// A question waits for an answer.
    Question,
    /// A turn ended by itself.
    Done,
    /// A turn ended with an error or a refusal.
    Failed,
    /// The agent process exited during a turn, or could not be started.
    Died,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [EventKind; 4] =
        [EventKind::Question, EventKind::Done, EventKind::Failed, EventKind::Died];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Question => "question",
            EventKind::Done => "done",
            EventKind::Failed => "failed",
            EventKind::Died => "died",
        }
    }

    /// Returns the kind of a name.
    pub fn parse(name: &str) -> Option<Self> {
        EventKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Amount of content in a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// Agent, title, the last part of the folder, and the kind of question.
    #[default]
    Title,
    /// Also commands, paths and errors.
    Full,
}

/// Body of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookFormat {
    /// Standard Webhooks 1.0, signed if there is a key.
    Standard {
        /// Key of the signature.
        key: Option<WebhookKey>,
    },
    /// `{"text"}`, for an incoming webhook of Slack.
    Slack,
    /// `{"chat_id", "text"}`, for `sendMessage` of a Telegram bot.
    Telegram {
        /// Id of the chat, as a number or a string.
        chat: serde_json::Value,
    },
}

/// Signing key of a webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookKey(pub(crate) Vec<u8>);

impl fmt::Debug for WebhookKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WebhookKey")
    }
}

impl WebhookKey {
    /// Parses a secret of Standard Webhooks: `whsec_` and base64.
    ///
    /// ```
    /// use switchboard_notify::WebhookKey;
    ///
    /// assert!(WebhookKey::parse("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3").is_ok());
    /// assert!(WebhookKey::parse("secret").is_err());
    /// ```
    pub fn parse(secret: &str) -> Result<Self, String> {
        use base64::Engine as _;
        let encoded = secret.strip_prefix("whsec_").ok_or("the secret must begin with whsec_")?;
        let key = base64::engine::general_purpose::STANDARD
            .decode(encoded)
            .map_err(|_| "the secret must be base64 after whsec_")?;
        // The specification asks for 24 to 64 bytes.
        if !(24..=64).contains(&key.len()) {
            return Err(format!("the secret has {} bytes; 24 to 64 are required", key.len()));
        }
        Ok(WebhookKey(key))
    }
}

/// Place to which notifications are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// A topic of an ntfy server.
    Ntfy {
        /// URL of the server, without the topic.
        server: Address,
        /// The topic. Its name is enough to read it, unless the server protects it.
        topic: Secret,
        /// Access token.
        token: Option<Secret>,
    },
    /// A URL to which events are posted.
    Webhook {
        /// The URL.
        url: Address,
        /// Format of the body.
        format: WebhookFormat,
    },
    /// A program with its arguments. It gets the event on standard input.
    Command(Vec<String>),
    /// The desktop, by `notify-send`.
    Desktop,
    /// A browser, by its push service.
    WebPush(Box<Subscription>),
}

impl Endpoint {
    /// Returns the endpoint of a topic's URL, such as `https://ntfy.sh/TOPIC`.
    pub fn ntfy(url: &str, token: Option<Secret>) -> Result<Self, String> {
        let (server, topic) = url.trim_end_matches('/').rsplit_once('/').ok_or("the URL has no topic")?;
        let is_topic = (1..=64).contains(&topic.len())
            && topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !is_topic {
            return Err(
                "the URL must end with a topic of letters, digits, - and _, such as https://ntfy.sh/TOPIC"
                    .to_owned(),
            );
        }
        let server = Address::parse(server)?;
        if token.is_some()
            && let Some(host) = server.exposed_host()
        {
            return Err(format!("the token would be sent to {host} unencrypted; use https://"));
        }
        Ok(Endpoint::Ntfy { server, topic: Secret::new(topic), token })
    }
}

/// An HTTP address. Only its scheme, host and port are displayed: the rest may be secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(Uri);

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Address({})", self.shown())
    }
}

impl Address {
    /// Parses a URL. The error does not contain it.
    pub fn parse(url: &str) -> Result<Self, String> {
        let uri: Uri = url.trim().parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err("the URL must begin with https:// or http:// and a host".to_owned());
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("the URL must not contain a password".to_owned());
        }
        Ok(Address(uri))
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Returns the address of a path below this one.
    pub(crate) fn below(&self, path: &str) -> Option<Uri> {
        let before = self.0.path().trim_end_matches('/');
        let scheme = self.0.scheme_str()?;
        format!("{scheme}://{}{before}/{path}", self.0.authority()?).parse().ok()
    }

    /// Returns the parts that are not secret.
    pub(crate) fn shown(&self) -> String {
        let scheme = self.0.scheme_str().unwrap_or_default();
        let host = self.0.host().unwrap_or_default();
        let port = self.0.port_u16().map_or_else(String::new, |port| format!(":{port}"));
        format!("{scheme}://{host}{port}")
    }

    /// Returns the host if it is another machine and the connection is not encrypted.
    fn exposed_host(&self) -> Option<&str> {
        let host = self.0.host().filter(|_| !self.is_encrypted())?;
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
        let is_here =
            host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback());
        (!is_here).then_some(host)
    }
}

/// Token to whose sessions a target is limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// Name of the token.
    pub name: String,
    /// Creation time of the token in Unix milliseconds.
    pub made: i64,
    /// True if it sees every session.
    pub sees_all: bool,
}

/// A target of notifications.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// Name, unique among the targets. It is displayed.
    pub name: String,
    /// Place to which notifications are sent.
    pub endpoint: Endpoint,
    /// Events of which it is notified.
    pub events: Vec<EventKind>,
    /// Amount of content.
    pub content: Content,
    /// Time for which a question must wait before it is sent.
    pub after: Duration,
    /// Least duration of a turn whose end is sent.
    pub min_turn: Duration,
    /// True if questions can be answered from the notification. Only options that hold once are offered, and only for
    /// questions that are shown completely, so it needs [`Content::Full`].
    pub can_answer: bool,
    /// Token to whose sessions the target is limited; `None` for all sessions.
    pub viewer: Option<Viewer>,
}

impl Target {
    /// Creates a target of all events: questions after 10 seconds, and the end of turns of at least 60 seconds.
    pub fn new(name: impl Into<String>, endpoint: Endpoint) -> Self {
        Target {
            name: name.into(),
            endpoint,
            events: EventKind::ALL.to_vec(),
            content: Content::Title,
            after: Duration::from_secs(10),
            min_turn: Duration::from_secs(60),
            can_answer: false,
            viewer: None,
        }
    }

    /// Returns whether the result of a prompt can be sent to this target.
    pub fn takes_results(&self) -> bool {
        matches!(&self.endpoint, Endpoint::Webhook { format: WebhookFormat::Standard { .. }, .. })
    }

    /// Returns whether an event is about a session that the target may know.
    pub(crate) fn may_see(&self, event: &SessionEvent) -> bool {
        self.viewer.as_ref().is_none_or(|viewer| {
            let is_viewer = |(name, made): &(Arc<str>, i64)| **name == *viewer.name && *made == viewer.made;
            viewer.sees_all || event.shared_with.iter().any(is_viewer)
        })
    }

    /// Returns whether a notification that was sent can be withdrawn.
    pub(crate) fn can_withdraw(&self) -> bool {
        match &self.endpoint {
            Endpoint::Ntfy { .. } | Endpoint::Command(_) | Endpoint::WebPush(_) => true,
            Endpoint::Webhook { format, .. } => matches!(format, WebhookFormat::Standard { .. }),
            Endpoint::Desktop => false,
        }
    }

    /// Returns whether a later notification replaces an earlier one with the same key.
    pub(crate) fn can_update(&self) -> bool {
        self.can_withdraw()
    }
}

/// Returns the path of a program on the PATH.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(is_program)
}
