//! Feeds the messages of a conversation to all checks.

use serde_json::Value;
use switchboard_acp::check::{Checker, Rules};
use switchboard_acp::detect::{DialectTracker, Weight, version_shown_by};
use switchboard_acp::rpc::{Message, RequestId};
use switchboard_acp::{Raw, Side, Version, Wire, WireFormat};

use crate::connection::{Connection, MOST_OPEN, Open};
use crate::report::{Findings, Report};
use crate::rules::RuleId;
use crate::schema::{self, Place};

/// Error codes that say that a message could not be read.
const UNREADABLE: [i64; 2] = [-32700, -32600];

/// Judges a conversation, message by message.
///
/// ```
/// use switchboard_conform::{Evaluator, Status, Verdict};
/// use switchboard_acp::Side;
///
/// let mut evaluator = Evaluator::new(None);
/// evaluator.message(1, Side::Client, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
/// evaluator.message(2, Side::Agent, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":7}}"#);
/// let report = evaluator.finish().report("an agent");
/// assert_eq!(report.verdict, Verdict::NotConformant);
/// let broken: Vec<_> = report.failed().filter(|rule| rule.rule.rule().strength.counts()).collect();
/// assert_eq!((broken[0].rule.rule().id, broken[0].failures[0].message), ("init-version-1", 2));
/// ```
#[derive(Debug)]
pub struct Evaluator {
    pub(crate) findings: Findings,
    pub(crate) connection: Connection,
    checkers: Checkers,
    dialect: DialectTracker,
    /// Violations of what only the newest dialect asks for; which dialect it is, the end shows.
    if_newest: Vec<(RuleId, u64, String)>,
    /// Signs that the agent speaks the older dialect.
    spec_signs: SpecSigns,
}

#[derive(Debug, Default)]
struct SpecSigns {
    prompt_without_id: bool,
    commands_without_type: bool,
}

#[derive(Debug)]
struct Checkers {
    v1: Checker,
    any: Checker,
    newest: Checker,
}

impl Checkers {
    fn new() -> Self {
        let checker = |revision| Checker::new(Rules { revision, ..Rules::default() });
        Checkers {
            v1: checker(WireFormat::V1),
            any: checker(WireFormat::Any),
            newest: checker(WireFormat::Newest),
        }
    }
}

/// A message that was taken apart.
pub(crate) struct Told<'a> {
    pub(crate) number: u64,
    pub(crate) from: Side,
    pub(crate) value: &'a Value,
}

impl Told<'_> {
    pub(crate) fn params(&self) -> &Value {
        &self.value["params"]
    }
}

impl Evaluator {
    /// Nothing heard yet. With a side, only what that side has to keep is judged.
    pub fn new(only: Option<Side>) -> Self {
        Evaluator {
            findings: Findings::new(only),
            connection: Connection::default(),
            checkers: Checkers::new(),
            dialect: DialectTracker::new(),
            if_newest: Vec::new(),
            spec_signs: SpecSigns::default(),
        }
    }

    /// A message, or several in an array, that a side sent. The number is told where it breaks a rule.
    pub fn message(&mut self, number: u64, from: Side, text: &str) {
        self.findings.speaker = Some(from);
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            if Raw::parse(text).is_ok() {
                // Too deep to be looked into.
                self.gap();
            } else {
                self.noise(number, from, text);
            }
            return;
        };
        match &value {
            Value::Array(entries) => {
                self.findings.broken(
                    RuleId::NoBatch,
                    number,
                    format!("an array of {} messages; newest peers refuse it", entries.len()),
                );
                self.connection.batches[from as usize] += 1;
                for entry in entries.iter().filter(|entry| entry.is_object()) {
                    self.one(number, from, &entry.to_string(), entry);
                }
            }
            Value::Object(_) => {
                self.findings.kept(RuleId::JsonLine);
                self.one(number, from, text, &value);
            }
            other => {
                let reason = format!("expected a message, found {}", schema::shown(other));
                self.findings.broken(RuleId::JsonLine, number, reason);
            }
        }
    }

    /// Something that a side sent and that is no JSON.
    pub fn noise(&mut self, number: u64, from: Side, text: &str) {
        self.findings.speaker = Some(from);
        let rule = if text.contains('\u{FFFD}') { RuleId::Utf8 } else { RuleId::JsonLine };
        let shown: String = text.chars().take(80).collect();
        let reason = match rule {
            RuleId::Utf8 => format!("the {} sent bytes that are no UTF-8: {shown:?}", from.as_str()),
            _ => format!("the {} sent something that is no JSON: {shown:?}", from.as_str()),
        };
        self.findings.broken(rule, number, reason);
    }

    /// Something is missing at this place. What depends on it is not judged.
    pub fn gap(&mut self) {
        self.connection.forget();
        self.checkers = Checkers::new();
    }

    /// Another conversation begins, in which the same ids mean something else.
    pub fn begin(&mut self) {
        self.close_connection();
        self.checkers = Checkers::new();
    }

    /// What was found, now that nothing more comes.
    pub fn finish(mut self) -> Findings {
        self.close_connection();
        let has_newest = self.dialect.wire_format() == WireFormat::Newest
            && self.dialect.evidence().is_some_and(|evidence| evidence.row().weight >= Weight::Presence);
        let is_spec = !has_newest
            && (self.dialect.evidence() == Some(switchboard_acp::detect::Evidence::PatchDiff)
                || (self.spec_signs.prompt_without_id && self.spec_signs.commands_without_type));
        self.findings.is_spec_dialect = is_spec;
        if !is_spec {
            for (rule, number, reason) in std::mem::take(&mut self.if_newest) {
                self.findings.broken(rule, number, reason);
            }
        }
        self.findings
    }

    /// The report, now that nothing more comes.
    pub fn report(self, subject: impl Into<String>) -> Report {
        self.finish().report(subject)
    }

    pub(crate) fn version(&self) -> Option<Version> {
        self.connection.version
    }

    pub(crate) fn set_version(&mut self, version: Version) {
        self.connection.version = Some(version);
        self.findings.versions.insert(version.number());
    }

    pub(crate) fn close_connection(&mut self) {
        self.judge_end();
        let connection = std::mem::take(&mut self.connection);
        if let Some(capabilities) = connection.agent_capabilities {
            self.findings.agent_capabilities = Some(capabilities);
        }
    }

    /// One message.
    fn one(&mut self, number: u64, from: Side, text: &str, value: &Value) {
        self.connection.messages += 1;
        let told = Told { number, from, value };
        if !self.envelope(&told) {
            // It asks or answers all the same, however badly.
            if let Some(id) = value.get("id").and_then(request_id) {
                if let Some(method) = value["method"].as_str() {
                    let order = self.connection.next_order();
                    let open = Open { is_faulty: true, ..Open::new(method, &told, order) };
                    self.connection.open.open_or_evict(from, &id, open);
                } else {
                    self.connection.open.answered(from, &id);
                }
            }
            return;
        }
        let method = value["method"].as_str();
        if self.version().is_none()
            && method != Some("initialize")
            && let Some(version) = decoded(text).and_then(|message| version_shown_by(&message))
        {
            self.set_version(version);
        }
        self.see_dialect(from, text, value);
        match (method, request_id(&value["id"]).filter(|_| value.get("id").is_some())) {
            (Some(method), Some(id)) => self.request(&told, text, method, &id),
            (Some(method), None) => self.notification(&told, text, method),
            (None, Some(id)) => self.response(&told, text, &id),
            (None, None) => {}
        }
    }

    /// Whether it is a message of JSON-RPC at all.
    fn envelope(&mut self, told: &Told<'_>) -> bool {
        let (number, value) = (told.number, told.value);
        let findings = &mut self.findings;
        let is_call = value.get("method").is_some();
        if value["jsonrpc"] != "2.0" {
            findings.broken(RuleId::Envelope, number, "expected \"jsonrpc\":\"2.0\"");
            return false;
        }
        if is_call && !value["method"].is_string() {
            findings.broken(RuleId::Envelope, number, "expected a string as \"method\"");
            return false;
        }
        if let Some(id) = value.get("id")
            && request_id(id).is_none()
        {
            let rule = if is_call { RuleId::RequestIdForm } else { RuleId::IdEcho };
            let reason = format!("expected a string or an integer as \"id\", found {}", schema::shown(id));
            findings.broken(rule, number, reason);
            return false;
        }
        if is_call {
            findings.kept(RuleId::Envelope);
            return true;
        }
        let has_outcome = value.get("result").is_some() || value.get("error").is_some();
        if value.get("id").is_none() {
            let reason = if has_outcome {
                "a response without an id"
            } else {
                "neither a request, nor a notification, nor a response"
            };
            findings.broken(RuleId::Envelope, number, reason);
            return false;
        }
        findings.kept(RuleId::Envelope);
        match (value.get("result"), value.get("error")) {
            (Some(_), None) => {}
            (None, Some(error)) => {
                let is_right = error["code"].as_i64().is_some_and(|code| i32::try_from(code).is_ok())
                    && error["message"].is_string();
                findings.judge(RuleId::ErrorObject, number, is_right, || {
                    format!("expected an integer code and a text, found {}", schema::shown(error))
                });
                if !is_right {
                    return false;
                }
            }
            (Some(_), Some(_)) => {
                findings.broken(RuleId::ResultOrError, number, "both \"result\" and \"error\"");
                return false;
            }
            (None, None) => {
                findings.broken(RuleId::ResultOrError, number, "neither \"result\" nor \"error\"");
                return false;
            }
        }
        findings.kept(RuleId::ResultOrError);
        true
    }

    fn request(&mut self, told: &Told<'_>, text: &str, method: &str, id: &RequestId<'static>) {
        if method == "initialize" && told.from == Side::Client {
            self.begin_handshake(told);
        }
        self.findings.kept(RuleId::RequestIdForm);
        let has_fault = self.check_schema(told, text, method, true);
        let mut open = Open::new(method, told, self.connection.next_order());
        open.is_faulty = has_fault;
        self.about_request(told, method, &mut open);
        let before = self.connection.open.open_or_evict(told.from, id, open);
        let in_use = before.as_ref().is_some_and(|before| before.id == *id && before.asker == told.from);
        // What is forgotten for it may be answered yet.
        self.connection.is_whole &= before.is_none() || in_use;
        self.findings.judge(RuleId::IdInUse, told.number, !in_use, || {
            format!("the id {id} belongs to a request that is not answered yet")
        });
    }

    fn notification(&mut self, told: &Told<'_>, text: &str, method: &str) {
        self.check_schema(told, text, method, true);
        match (told.from, method) {
            (_, "$/cancel_request") => self.cancel_request(told),
            (Side::Client, "session/cancel") => self.session_cancelled(told),
            (Side::Agent, "session/update") => self.update(told),
            _ => {}
        }
    }

    fn response(&mut self, told: &Told<'_>, text: &str, id: &RequestId<'static>) {
        let Some(open) = self.connection.open.answered(told.from, id) else {
            self.unexpected_response(told, id);
            return;
        };
        self.findings.kept(RuleId::IdEcho);
        self.findings.kept(RuleId::AnsweredOnce);
        self.findings.kept(RuleId::NotificationUnanswered);
        self.connection.remember_answered(told.from.other(), id, &open);
        if let Some(error) = told.value.get("error") {
            let message = error["message"].as_str().unwrap_or_default();
            let is_right = !message.trim().is_empty() && !message.contains('\n');
            self.findings.judge(RuleId::ErrorMessage, told.number, is_right, || {
                format!("expected one line of text, found {message:?}")
            });
        }
        if open.method == "initialize" && told.from == Side::Agent {
            self.end_handshake(told, &open);
        }
        self.check_schema(told, text, &open.method, false);
        self.about_response(told, &open);
    }

    fn unexpected_response(&mut self, told: &Told<'_>, id: &RequestId<'static>) {
        let number = told.number;
        let code = told.value["error"]["code"].as_i64();
        if *id == RequestId::Null {
            let asker = told.from.other() as usize;
            if self.connection.batches[asker] > 0 {
                self.connection.batches[asker] -= 1;
                self.findings.judge(RuleId::BatchRefused, number, code == Some(-32600), || {
                    format!("expected the code -32600, found {}", schema::shown(&told.value["error"]["code"]))
                });
            } else if !code.is_some_and(|code| UNREADABLE.contains(&code)) {
                self.findings.broken(
                    RuleId::NotificationUnanswered,
                    number,
                    "a response with the id null, which answers no request",
                );
            }
        } else if self.connection.was_answered(told.from.other(), id) {
            self.findings.broken(RuleId::AnsweredOnce, number, format!("request {id} is answered again"));
        } else if self.connection.is_whole && self.connection.has_handshake {
            let reason = format!("the id {id} is none of a request of the {}", told.from.other().as_str());
            self.findings.broken(RuleId::IdEcho, number, reason);
        }
    }

    /// Judges a message by its schema. Tells whether it has a fault.
    fn check_schema(&mut self, told: &Told<'_>, text: &str, method: &str, is_call: bool) -> bool {
        let is_handshake = method == "initialize";
        let version = if is_handshake && is_call {
            let asked = told.params()["protocolVersion"].as_u64().unwrap_or(1);
            Some(if asked >= 2 { Version::V2 } else { Version::V1 })
        } else {
            self.version()
        };
        let feeds = |wanted| is_handshake || version == Some(wanted);
        let v1 = feeds(Version::V1).then(|| self.checkers.v1.check_sent(text, told.from));
        let any = feeds(Version::V2).then(|| self.checkers.any.check_sent(text, told.from));
        let newest = feeds(Version::V2).then(|| self.checkers.newest.check_sent(text, told.from));
        let Some(version) = version else { return false };
        let verdict = match version {
            Version::V1 => v1,
            Version::V2 => any,
        };
        let Some(verdict) = verdict else { return false };
        let update = told.params()["update"]["sessionUpdate"].as_str().unwrap_or_default();
        let place = Place { version, from: told.from, is_call, method, update, value: told.value };
        for error in &verdict.errors {
            let rule = schema::rule_of_error(&place, &error.pointer, &error.message);
            self.findings.broken(rule, told.number, schema::reason(error));
        }
        for warning in &verdict.warnings {
            let Some(rule) = schema::rule_of_warning(&place, &warning.pointer, &warning.message) else {
                continue;
            };
            // What is wrong as a whole is not also judged key by key.
            let is_in_error = verdict.errors.iter().any(|error| warning.pointer.starts_with(&error.pointer));
            // What was before is not known of a session that was not made here.
            let is_unknown = rule == RuleId::ToolCallTitle
                && !self.connection.is_new(told.params()["sessionId"].as_str().unwrap_or_default());
            let is_said = is_in_error && rule == RuleId::RootKeys;
            if !is_unknown && !is_said {
                self.findings.broken(rule, told.number, schema::reason(warning));
            }
        }
        if version == Version::V2
            && verdict.is_valid()
            && let Some(error) = newest.as_ref().and_then(|newest| newest.errors.first())
        {
            let rule = schema::rule_of_error(&place, &error.pointer, &error.message);
            self.broken_if_newest(rule, told.number, schema::reason(error));
        }
        if verdict.is_valid() {
            for rule in schema::kept_rules(&place) {
                self.findings.kept(rule);
            }
        }
        !verdict.is_valid()
    }

    /// A rule is broken, if the agent speaks the newest dialect.
    pub(crate) fn broken_if_newest(&mut self, rule: RuleId, number: u64, reason: String) {
        if self.if_newest.len() < MOST_OPEN {
            self.if_newest.push((rule, number, reason));
        }
    }

    /// What a message shows of its sender's dialect.
    fn see_dialect(&mut self, from: Side, text: &str, value: &Value) {
        let Ok(message) = Message::decode(text, WireFormat::Any) else { return };
        match (from, &message) {
            (Side::Agent, Message::Response(response)) => {
                let asked = self.connection.open.get(Side::Client, &response.id);
                if asked.is_some_and(|open| open.method == "session/prompt")
                    && let Ok(result) = &response.outcome
                {
                    self.dialect.see_prompt_answer(result);
                    let result = &value["result"];
                    self.spec_signs.prompt_without_id |=
                        result.get("messageId").is_none() && result.get("stopReason").is_none();
                }
            }
            (Side::Agent, message) => {
                self.dialect.see_agent_call(message);
                let commands = value["params"]["update"]["availableCommands"].as_array();
                self.spec_signs.commands_without_type |= commands.is_some_and(|commands| {
                    !commands.is_empty() && commands.iter().all(|command| command.get("type").is_none())
                });
            }
            (Side::Client, Message::Request(request)) => {
                self.dialect.see_client_request(request);
            }
            (Side::Client, _) => {}
        }
    }
}

/// The id of a message; `None` for what cannot be one.
pub(crate) fn request_id(id: &Value) -> Option<RequestId<'static>> {
    match id {
        Value::Null => Some(RequestId::Null),
        Value::String(text) => Some(RequestId::Text(text.clone().into())),
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        _ => None,
    }
}

/// A text as a raw value, for what the protocol's own types judge.
pub(crate) fn decoded<'a, T: Wire<'a>>(text: &'a str) -> Option<T> {
    T::decode(text, WireFormat::Any).ok()
}
