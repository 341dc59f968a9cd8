//! Delivery of notifications to their targets.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use switchboard_hub::QuestionOption;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::answers::{Answer, Links};
use crate::notice::{Notice, QuestionKey, label};
use crate::planner::{Delivery, Job, Work};
use crate::push::{Push, Subscription};
use crate::target::{Address, Content, Endpoint, EventKind, Secret, Target, WebhookFormat, find_program};

/// Timeout of one delivery.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a response in bytes. The rest is not read.
const MAX_RESPONSE: usize = 64 * 1024;
/// Maximum number of characters of a response in the result of a test.
const MAX_EXCERPT: usize = 200;
/// Maximum number of answers in a notification, which is that of ntfy.
const MAX_ACTIONS: usize = 3;
/// Key of the digest.
const DIGEST: &str = "switchboard-waiting";
/// Prefix of the variables of a command.
const VARIABLE: &str = "SWITCHBOARD";

type HttpClient = Result<Client<HttpsConnector<HttpConnector>, Full<Bytes>>, String>;

/// Sends notifications.
pub(crate) struct Courier {
    /// Clients for addresses without and with TLS, made when they are first needed.
    plain: OnceLock<HttpClient>,
    encrypted: OnceLock<HttpClient>,
    /// Origin of links to sessions, such as `https://hub.example.org`.
    origin: String,
    /// Environment variables that commands do not get.
    hidden_variables: Vec<String>,
    links: Arc<Links>,
}

/// Result of a delivery, and the target's response in words.
pub(crate) struct Report {
    pub(crate) delivery: Delivery,
    pub(crate) response: String,
}

impl Report {
    fn failed(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Report { response: reason.clone(), delivery: Delivery::Failed(reason) }
    }

    fn retry(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Report { response: reason.clone(), delivery: Delivery::Retry { reason, after: None } }
    }
}

/// A notification in the words of one target.
struct Letter {
    /// Name of the event, such as `question` or `question.resolved`.
    event: &'static str,
    kind: EventKind,
    session: String,
    agent: String,
    title: String,
    text: String,
    url: String,
    question: Option<u64>,
    by: Option<String>,
    /// Key by which a later message replaces or withdraws this one.
    sequence: String,
    is_withdrawal: bool,
    /// Answers: label and URL.
    actions: Vec<(String, String)>,
}

impl Courier {
    pub(crate) fn new(origin: String, hidden: Vec<String>, links: Arc<Links>) -> Self {
        let (plain, encrypted) = (OnceLock::new(), OnceLock::new());
        Courier { plain, encrypted, origin, hidden_variables: hidden, links }
    }

    /// Returns the client for an address. Without TLS it needs no certificates.
    fn client(&self, to: &Address) -> &HttpClient {
        let is_encrypted = to.is_encrypted();
        let client = if is_encrypted { &self.encrypted } else { &self.plain };
        client.get_or_init(|| {
            switchboard_transport::client_tls(is_encrypted).map(|tls| {
                let mut connector = HttpConnector::new();
                connector.enforce_http(false);
                connector.set_connect_timeout(Some(TIMEOUT));
                let connector = HttpsConnectorBuilder::new()
                    .with_tls_config(tls.as_ref().clone())
                    .https_or_http()
                    .enable_http1()
                    .wrap_connector(connector);
                Client::builder(TokioExecutor::new()).build(connector)
            })
        })
    }

    /// Delivers within the timeout.
    pub(crate) async fn deliver(&self, job: &Job) -> Report {
        match tokio::time::timeout(TIMEOUT, self.deliver_now(job)).await {
            Ok(report) => report,
            Err(_) => Report::retry(format!("no response within {} seconds", TIMEOUT.as_secs())),
        }
    }

    async fn deliver_now(&self, job: &Job) -> Report {
        if let Work::Result(result) = &job.work {
            return self.result(&job.target.endpoint, result, &job.id).await;
        }
        let Some(letter) = self.letter(job) else { return Report::failed("nothing to send") };
        match &job.target.endpoint {
            Endpoint::Ntfy { server, topic, token } => {
                self.ntfy(server, topic, token.as_ref(), &letter).await
            }
            Endpoint::Webhook { url, format } => self.webhook(url, format, &letter, &job.id).await,
            Endpoint::Command(words) => self.command(words, &letter).await,
            Endpoint::Desktop => desktop(&letter).await,
            Endpoint::WebPush(subscription) => self.web_push(subscription, &letter).await,
        }
    }

    /// Returns a notification in words; `None` for a result, which is sent as it is.
    fn letter(&self, job: &Job) -> Option<Letter> {
        let content = job.target.content;
        Some(match &job.work {
            Work::Result(_) => return None,
            Work::Notice(notice) => {
                let actions =
                    if job.target.can_answer { self.actions(notice, &job.target) } else { Vec::new() };
                Letter { actions, ..self.notice(notice, content, &job.id) }
            }
            Work::Withdraw { notice, by } => {
                let letter = self.notice(notice, content, &job.id);
                let text = match by {
                    Some(by) => format!("answered by {by}"),
                    None => "no longer waits".to_owned(),
                };
                Letter { event: "question.resolved", text, by: by.clone(), is_withdrawal: true, ..letter }
            }
            Work::Digest(digest) => Letter {
                event: "digest",
                kind: digest.kind(),
                session: String::new(),
                agent: String::new(),
                title: "Switchboard".to_owned(),
                text: digest.text(),
                url: format!("{}/", self.origin),
                question: None,
                by: None,
                sequence: DIGEST.to_owned(),
                is_withdrawal: false,
                actions: Vec::new(),
            },
            Work::WithdrawDigest => Letter {
                event: "digest.resolved",
                kind: EventKind::Question,
                session: String::new(),
                agent: String::new(),
                title: "Switchboard".to_owned(),
                text: "no question waits any more".to_owned(),
                url: format!("{}/", self.origin),
                question: None,
                by: None,
                sequence: DIGEST.to_owned(),
                is_withdrawal: true,
                actions: Vec::new(),
            },
        })
    }

    fn notice(&self, notice: &Notice, content: Content, id: &str) -> Letter {
        let path = if notice.session.is_empty() { "/".to_owned() } else { format!("/r/{}", notice.session) };
        Letter {
            event: notice.kind.name(),
            kind: notice.kind,
            session: notice.session.clone(),
            agent: notice.agent.clone(),
            title: notice.heading(),
            text: notice.text(content),
            url: format!("{}{path}", self.origin),
            question: notice.question,
            by: None,
            sequence: notice.key().map_or_else(|| id.replace(['.', '_'], "-"), |key| sequence(&key)),
            is_withdrawal: false,
            actions: Vec::new(),
        }
    }

    /// Returns the answers that a notification offers: options that hold once, of a question that it shows completely.
    fn actions(&self, notice: &Notice, target: &Target) -> Vec<(String, String)> {
        let Some(question) = notice.asked.as_ref().filter(|_| notice.is_shown_whole()) else {
            return Vec::new();
        };
        let holds_once = |kind: &str| matches!(kind, "allow_once" | "reject_once");
        let options = question.options.iter().filter(|option| holds_once(&option.kind)).take(MAX_ACTIONS);
        let link = |option: &QuestionOption| {
            let code = self.links.create(Answer {
                session: notice.session.clone(),
                question: Arc::clone(question),
                option: option.id.clone(),
                target: target.name.clone(),
            })?;
            Some((label(&option.name), format!("{}/answer/{code}", self.origin)))
        };
        options.filter_map(link).collect()
    }

    async fn ntfy(
        &self,
        server: &Address,
        topic: &Secret,
        token: Option<&Secret>,
        letter: &Letter,
    ) -> Report {
        let topic = topic.as_str();
        let (method, uri, body) = if letter.is_withdrawal {
            (Method::DELETE, server.below(&format!("{topic}/{}", letter.sequence)), Value::Null)
        } else {
            let (priority, tag) = match letter.kind {
                EventKind::Question => (4, "question"),
                EventKind::Failed => (4, "x"),
                EventKind::Died => (4, "warning"),
                EventKind::Done => (3, "white_check_mark"),
            };
            let mut body = json!({
                "topic": topic, "title": letter.title, "message": letter.text, "priority": priority,
                "tags": [tag], "click": letter.url, "sequence_id": letter.sequence,
            });
            if !letter.actions.is_empty() {
                let action = |(label, url): &(String, String)| json!({"action": "http", "label": label, "url": url, "method": "POST", "clear": true});
                body["actions"] = letter.actions.iter().map(action).collect();
            }
            (Method::POST, server.below(""), body)
        };
        let Some(uri) = uri else { return Report::failed("invalid URL") };
        let mut request = request(method, uri, &body);
        if let Some(token) = token {
            let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", token.as_str())) else {
                return Report::failed("the access token contains invalid characters");
            };
            value.set_sensitive(true);
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        let report = self.send(request, server).await;
        // Servers before 2.16 cannot delete. There the notification stays.
        match report.delivery {
            Delivery::Failed(_) if letter.is_withdrawal => Report { delivery: Delivery::Sent, ..report },
            _ => report,
        }
    }

    async fn webhook(&self, url: &Address, format: &WebhookFormat, letter: &Letter, id: &str) -> Report {
        let text = format!("{}\n{}\n{}", letter.title, letter.text, letter.url);
        let body = match format {
            WebhookFormat::Standard { .. } => json!({
                "type": format!("switchboard.{}", letter.event), "timestamp": timestamp(),
                "data": letter.data(),
            }),
            WebhookFormat::Slack => json!({"text": text}),
            WebhookFormat::Telegram { chat } => json!({"chat_id": chat, "text": text}),
        };
        self.post(url, format, &body, id).await
    }

    /// Sends the result of a prompt.
    async fn result(&self, endpoint: &Endpoint, result: &Value, id: &str) -> Report {
        match endpoint {
            Endpoint::Webhook { url, format: format @ WebhookFormat::Standard { .. } } => {
                let body = json!({"type": "switchboard.prompt", "timestamp": timestamp(), "data": result});
                self.post(url, format, &body, id).await
            }
            _ => Report::failed("this target takes no results"),
        }
    }

    /// Posts a body to a webhook, with a signature if the format has one.
    async fn post(&self, url: &Address, format: &WebhookFormat, body: &Value, id: &str) -> Report {
        let mut request = request(Method::POST, url.uri().clone(), body);
        if let WebhookFormat::Standard { key } = format {
            let seconds = seconds_since_epoch();
            let headers = request.headers_mut();
            let mut set = |name: &'static str, value: String| {
                if let Ok(value) = HeaderValue::from_str(&value) {
                    headers.insert(name, value);
                }
            };
            set("webhook-id", id.to_owned());
            set("webhook-timestamp", seconds.to_string());
            if let Some(key) = key {
                set("webhook-signature", signature(&key.0, id, seconds, &body.to_string()));
            }
        }
        self.send(request, url).await
    }

    /// Sends a request. Redirects are not followed: they would take the content elsewhere.
    async fn send(&self, request: Request<Full<Bytes>>, to: &Address) -> Report {
        let http = match self.client(to) {
            Ok(http) => http,
            Err(reason) => return Report::failed(reason.clone()),
        };
        let (head, body) = match http.request(request).await {
            Ok(response) => response.into_parts(),
            Err(error) => return Report::retry(format!("cannot reach {}: {}", to.shown(), in_words(&error))),
        };
        // A response that is too long or breaks off does not change its status.
        let body = Limited::new(body, MAX_RESPONSE).collect().await.map(http_body_util::Collected::to_bytes);
        let status = head.status;
        let excerpt: String = String::from_utf8_lossy(body.as_deref().unwrap_or_default())
            .chars()
            .filter(|character| !character.is_control())
            .take(MAX_EXCERPT)
            .collect();
        let response = format!("{status} {excerpt}").trim_end().to_owned();
        let reason = status.as_str().to_owned();
        let delivery = if status.is_success() {
            Delivery::Sent
        } else if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            Delivery::Retry { reason, after: retry_after(&Response::from_parts(head, ()), SystemTime::now()) }
        } else {
            Delivery::Failed(reason)
        };
        Report { delivery, response }
    }

    /// Sends an encrypted message to a browser. The path of its address is enough: the worker knows its own origin.
    async fn web_push(&self, subscription: &Subscription, letter: &Letter) -> Report {
        let url = letter.url.strip_prefix(&self.origin).unwrap_or("/");
        let message = json!({
            "event": letter.event, "title": letter.title, "text": letter.text, "url": url,
            "tag": letter.sequence, "resolved": letter.is_withdrawal,
        });
        let is_urgent = letter.kind == EventKind::Question && !letter.is_withdrawal;
        let seconds = seconds_since_epoch();
        let push = Push { message: &message.to_string(), topic: &letter.sequence, is_urgent, seconds };
        let request = match subscription.request(&push, &self.origin) {
            Ok(request) => request,
            Err(reason) => return Report::failed(reason),
        };
        let report = self.send(request, &subscription.endpoint).await;
        // The browser has unsubscribed, or was reset.
        match report.delivery {
            Delivery::Failed(reason) if matches!(reason.as_str(), "404" | "410") => {
                Report { delivery: Delivery::Gone(reason), ..report }
            }
            delivery => Report { delivery, ..report },
        }
    }

    async fn command(&self, words: &[String], letter: &Letter) -> Report {
        let Some((program, arguments)) = words.split_first() else { return Report::failed("no command") };
        let mut command = Command::new(program);
        command.args(arguments);
        for variable in &self.hidden_variables {
            command.env_remove(variable);
        }
        let line = format!("{}\n", letter.data());
        command
            .env(format!("{VARIABLE}_EVENT"), letter.event)
            .env(format!("{VARIABLE}_SESSION"), &letter.session)
            .env(format!("{VARIABLE}_AGENT"), &letter.agent)
            .env(format!("{VARIABLE}_TITLE"), &letter.title)
            .env(format!("{VARIABLE}_URL"), &letter.url);
        run(command, Path::new(program), line.as_bytes()).await
    }
}

impl Letter {
    /// Returns the event as data for programs.
    fn data(&self) -> Value {
        let mut data = json!({
            "event": self.event, "session": self.session, "agent": self.agent, "title": self.title,
            "text": self.text, "url": self.url,
        });
        if let Some(question) = self.question {
            data["question"] = question.into();
        }
        if let Some(by) = &self.by {
            data["by"] = by.as_str().into();
        }
        if !self.actions.is_empty() {
            let action = |(label, url): &(String, String)| json!({"label": label, "url": url});
            data["actions"] = self.actions.iter().map(action).collect();
        }
        data
    }
}

/// Returns the key by which a target recognizes a question. It does not reveal the session's id.
fn sequence(key: &QuestionKey) -> String {
    let digest =
        ring::digest::digest(&ring::digest::SHA256, format!("{} {}", key.question, key.session).as_bytes());
    digest.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the signature of Standard Webhooks.
fn signature(key: &[u8], id: &str, seconds: u64, body: &str) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
    let tag = ring::hmac::sign(&key, format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}

fn request(method: Method, uri: Uri, body: &Value) -> Request<Full<Bytes>> {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let mut request = Request::new(Full::new(Bytes::from(text)));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        header::USER_AGENT,
        HeaderValue::from_static(concat!("switchboard", "/", env!("CARGO_PKG_VERSION"))),
    );
    request
}

/// Returns the delay that a response requests, in seconds or as a date. A date in the past is no delay.
fn retry_after(response: &Response<()>, now: SystemTime) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

fn seconds_since_epoch() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs()).unwrap_or_default()
}

/// Returns the current time in the format of RFC 3339.
fn timestamp() -> String {
    let [date, time] = switchboard_acp::Moment::now().date_and_time();
    format!("{date}T{time}Z")
}

/// Formats an error with its causes. The error of the HTTP client does not contain the address.
fn in_words(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Runs a program with its standard input. The whole process group is ended with this future.
async fn run(mut command: Command, program: &Path, input: &[u8]) -> Report {
    let shown = program.display();
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Report::failed(format!("cannot start {shown}: {error}")),
    };
    let _group = ProcessGroup(child.id());
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input is no failure.
        let _ = stdin.write_all(input).await;
    }
    match child.wait().await {
        Ok(status) if status.success() => {
            Report { delivery: Delivery::Sent, response: format!("{shown}: {status}") }
        }
        Ok(status) => Report::failed(format!("{shown}: {status}")),
        Err(error) => Report::failed(format!("{shown}: {error}")),
    }
}

/// Ends a process group when dropped.
struct ProcessGroup(Option<u32>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let group = self.0.and_then(|id| rustix::process::Pid::from_raw(id.try_into().ok()?));
        if let Some(group) = group {
            // The group may have ended already.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

async fn desktop(letter: &Letter) -> Report {
    let unavailable = |reason: &str| Report {
        delivery: Delivery::Unavailable(reason.to_owned()),
        response: reason.to_owned(),
    };
    let Some(program) = find_program("notify-send") else {
        return unavailable("notify-send is not on the PATH; install libnotify");
    };
    let has_bus = std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some_and(|bus| !bus.is_empty())
        || std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(&folder).join("bus").exists());
    if !has_bus {
        return unavailable("there is no session bus");
    }
    let urgency = if letter.kind == EventKind::Question { "critical" } else { "normal" };
    let mut command = Command::new(&program);
    command.args(["--app-name=Switchboard", &format!("--urgency={urgency}"), "--"]);
    command.arg(&letter.title).arg(markup_free(&letter.text));
    run(command, &program, b"").await
}

/// Escapes the characters that desktops interpret as markup.
fn markup_free(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::WebhookKey;

    #[test]
    fn the_signature_is_that_of_the_specification() {
        // The example of the Standard Webhooks specification.
        let key = WebhookKey::parse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
        let body = r#"{"email":"test@example.com","username":"test_user"}"#;
        let signed = signature(&key.0, "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1_649_367_553, body);
        assert_eq!(signed, "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=");
    }

    #[test]
    fn the_key_of_a_question_is_stable_and_does_not_contain_its_session() {
        let key = |session: &str, question| sequence(&QuestionKey { session: session.to_owned(), question });
        assert_eq!(key("20261118-1", 7), key("20261118-1", 7));
        assert_ne!(key("20261118-1", 7), key("20261118-1", 8));
        assert_ne!(key("20261118-1", 7), key("20261118-2", 7));
        assert!(!key("20261118-1", 7).contains("2026") && key("s", 1).len() == 24);
    }

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        // 18 November 2026, 13:59:00 UTC.
        let now = UNIX_EPOCH + Duration::from_secs(1_795_010_340);
        let after = |value: &'static str| {
            let mut response = Response::new(());
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(value));
            retry_after(&response, now)
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Wed, 18 Nov 2026 14:00:00 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(after("Wed, 18 Nov 2020 14:00:00 GMT"), Some(Duration::ZERO), "a clock that is wrong");
        for wrong in ["soon", "-1", "18.11.2026", "99999999999999999999999"] {
            assert_eq!(after(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn markup_of_desktops_is_escaped() {
        assert_eq!(markup_free("<b>&"), "&lt;b&gt;&amp;");
    }
}
