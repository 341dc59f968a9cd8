//! Runs all checks on the messages of a conversation.

use serde_json::Value;
use switchboard_acp::check::{Checker, Rules};
use switchboard_acp::detect::{DialectTracker, Weight, version_shown_by};
use switchboard_acp::rpc::{Message, RequestId};
use switchboard_acp::{Raw, Side, Version, Wire, WireFormat};

use crate::connection::{Connection, MOST_OPEN, PendingRequest};
use crate::report::{Findings, Report};
use crate::rules::RuleId;
use crate::schema::{self, MessageContext};

/// Error codes for an unreadable message.
const UNREADABLE: [i64; 2] = [-32700, -32600];

/// Checks a conversation message by message.
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
    /// Violations of rules of the newest dialect only; the dialect is known at the end.
    if_newest: Vec<(RuleId, u64, String)>,
    /// Evidence that the agent uses the older dialect.
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

/// A parsed message.
pub(crate) struct ParsedMessage<'a> {
    pub(crate) number: u64,
    pub(crate) from: Side,
    pub(crate) value: &'a Value,
}

impl ParsedMessage<'_> {
    pub(crate) fn params(&self) -> &Value {
        &self.value["params"]
    }
}

impl Evaluator {
    /// Creates an evaluator. With a side, only that side's obligations are checked.
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

    /// Checks a message of a side, or several in an array. Violations are reported with its number.
    pub fn message(&mut self, number: u64, from: Side, text: &str) {
        self.findings.speaker = Some(from);
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            if Raw::parse(text).is_ok() {
                // Nested too deeply to be parsed.
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

    /// Handles output of a side that is not JSON.
    pub fn noise(&mut self, number: u64, from: Side, text: &str) {
        self.findings.speaker = Some(from);
        let rule = if text.contains('\u{FFFD}') { RuleId::Utf8 } else { RuleId::JsonLine };
        let shown: String = text.chars().take(80).collect();
        let reason = match rule {
            RuleId::Utf8 => format!("the {} sent bytes that are not UTF-8: {shown:?}", from.as_str()),
            _ => format!("the {} sent a line that is not JSON: {shown:?}", from.as_str()),
        };
        self.findings.broken(rule, number, reason);
    }

    /// Marks a gap. Checks that depend on missing messages are skipped.
    pub fn gap(&mut self) {
        self.connection.forget();
        self.checkers = Checkers::new();
    }

    /// Starts another conversation, in which the same ids have another meaning.
    pub fn begin(&mut self) {
        self.close_connection();
        self.checkers = Checkers::new();
    }

    /// Finishes the conversation and returns the findings.
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

    /// Finishes the conversation and returns the report.
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
        self.check_end();
        let connection = std::mem::take(&mut self.connection);
        if let Some(capabilities) = connection.agent_capabilities {
            self.findings.agent_capabilities = Some(capabilities);
        }
    }

    /// Checks one message.
    fn one(&mut self, number: u64, from: Side, text: &str, value: &Value) {
        self.connection.messages += 1;
        let received = ParsedMessage { number, from, value };
        if !self.envelope(&received) {
            // It is still a request or a response, however malformed.
            if let Some(id) = value.get("id").and_then(request_id) {
                if let Some(method) = value["method"].as_str() {
                    let order = self.connection.next_order();
                    let open =
                        PendingRequest { is_faulty: true, ..PendingRequest::new(method, &received, order) };
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
            (Some(method), Some(id)) => self.request(&received, text, method, &id),
            (Some(method), None) => self.notification(&received, text, method),
            (None, Some(id)) => self.response(&received, text, &id),
            (None, None) => {}
        }
    }

    /// Returns whether a value is a JSON-RPC message.
    fn envelope(&mut self, received: &ParsedMessage<'_>) -> bool {
        let (number, value) = (received.number, received.value);
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
                findings.check(RuleId::ErrorObject, number, is_right, || {
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

    fn request(&mut self, received: &ParsedMessage<'_>, text: &str, method: &str, id: &RequestId<'static>) {
        if method == "initialize" && received.from == Side::Client {
            self.begin_handshake(received);
        }
        self.findings.kept(RuleId::RequestIdForm);
        let has_fault = self.check_schema(received, text, method, true);
        let mut open = PendingRequest::new(method, received, self.connection.next_order());
        open.is_faulty = has_fault;
        self.about_request(received, method, &mut open);
        let before = self.connection.open.open_or_evict(received.from, id, open);
        let in_use = before.as_ref().is_some_and(|before| before.id == *id && before.asker == received.from);
        // The response may belong to the request that is dropped for it.
        self.connection.is_whole &= before.is_none() || in_use;
        self.findings.check(RuleId::IdInUse, received.number, !in_use, || {
            format!("the id {id} belongs to a request that is not answered yet")
        });
    }

    fn notification(&mut self, received: &ParsedMessage<'_>, text: &str, method: &str) {
        self.check_schema(received, text, method, true);
        match (received.from, method) {
            (_, "$/cancel_request") => self.cancel_request(received),
            (Side::Client, "session/cancel") => self.session_cancelled(received),
            (Side::Agent, "session/update") => self.update(received),
            _ => {}
        }
    }

    fn response(&mut self, received: &ParsedMessage<'_>, text: &str, id: &RequestId<'static>) {
        let Some(open) = self.connection.open.answered(received.from, id) else {
            self.unexpected_response(received, id);
            return;
        };
        self.findings.kept(RuleId::IdEcho);
        self.findings.kept(RuleId::AnsweredOnce);
        self.findings.kept(RuleId::NotificationUnanswered);
        self.connection.remember_answered(received.from.other(), id, &open);
        if let Some(error) = received.value.get("error") {
            let message = error["message"].as_str().unwrap_or_default();
            let is_right = !message.trim().is_empty() && !message.contains('\n');
            self.findings.check(RuleId::ErrorMessage, received.number, is_right, || {
                format!("expected one line of text, found {message:?}")
            });
        }
        if open.method == "initialize" && received.from == Side::Agent {
            self.end_handshake(received, &open);
        }
        self.check_schema(received, text, &open.method, false);
        self.about_response(received, &open);
    }

    fn unexpected_response(&mut self, received: &ParsedMessage<'_>, id: &RequestId<'static>) {
        let number = received.number;
        let code = received.value["error"]["code"].as_i64();
        if *id == RequestId::Null {
            let asker = received.from.other() as usize;
            if self.connection.batches[asker] > 0 {
                self.connection.batches[asker] -= 1;
                self.findings.check(RuleId::BatchRefused, number, code == Some(-32600), || {
                    format!(
                        "expected the code -32600, found {}",
                        schema::shown(&received.value["error"]["code"])
                    )
                });
            } else if !code.is_some_and(|code| UNREADABLE.contains(&code)) {
                self.findings.broken(
                    RuleId::NotificationUnanswered,
                    number,
                    "a response with the id null, which answers no request",
                );
            }
        } else if self.connection.was_answered(received.from.other(), id) {
            self.findings.broken(RuleId::AnsweredOnce, number, format!("request {id} is answered again"));
        } else if self.connection.is_whole && self.connection.has_handshake {
            let reason = format!("the id {id} matches no request of the {}", received.from.other().as_str());
            self.findings.broken(RuleId::IdEcho, number, reason);
        }
    }

    /// Checks a message against its schema. Returns whether it has an error.
    fn check_schema(
        &mut self,
        received: &ParsedMessage<'_>,
        text: &str,
        method: &str,
        is_call: bool,
    ) -> bool {
        let is_handshake = method == "initialize";
        let version = if is_handshake && is_call {
            let asked = received.params()["protocolVersion"].as_u64().unwrap_or(1);
            Some(if asked >= 2 { Version::V2 } else { Version::V1 })
        } else {
            self.version()
        };
        let feeds = |wanted| is_handshake || version == Some(wanted);
        let v1 = feeds(Version::V1).then(|| self.checkers.v1.check_sent(text, received.from));
        let any = feeds(Version::V2).then(|| self.checkers.any.check_sent(text, received.from));
        let newest = feeds(Version::V2).then(|| self.checkers.newest.check_sent(text, received.from));
        let Some(version) = version else { return false };
        let verdict = match version {
            Version::V1 => v1,
            Version::V2 => any,
        };
        let Some(verdict) = verdict else { return false };
        let update = received.params()["update"]["sessionUpdate"].as_str().unwrap_or_default();
        let place =
            MessageContext { version, from: received.from, is_call, method, update, value: received.value };
        for error in &verdict.errors {
            let rule = schema::rule_of_error(&place, &error.pointer, &error.message);
            self.findings.broken(rule, received.number, schema::reason(error));
        }
        for warning in &verdict.warnings {
            let Some(rule) = schema::rule_of_warning(&place, &warning.pointer, &warning.message) else {
                continue;
            };
            // An error of the whole is not also reported key by key.
            let is_in_error = verdict.errors.iter().any(|error| warning.pointer.starts_with(&error.pointer));
            // The history of a session that was not created here is unknown.
            let is_unknown = rule == RuleId::ToolCallTitle
                && !self.connection.is_new(received.params()["sessionId"].as_str().unwrap_or_default());
            let is_said = is_in_error && rule == RuleId::RootKeys;
            if !is_unknown && !is_said {
                self.findings.broken(rule, received.number, schema::reason(warning));
            }
        }
        if version == Version::V2
            && verdict.is_valid()
            && let Some(error) = newest.as_ref().and_then(|newest| newest.errors.first())
        {
            let rule = schema::rule_of_error(&place, &error.pointer, &error.message);
            self.broken_if_newest(rule, received.number, schema::reason(error));
        }
        if verdict.is_valid() {
            for rule in schema::kept_rules(&place) {
                self.findings.kept(rule);
            }
        }
        !verdict.is_valid()
    }

    /// Reports a violation if the agent uses the newest dialect.
    pub(crate) fn broken_if_newest(&mut self, rule: RuleId, number: u64, reason: String) {
        if self.if_newest.len() < MOST_OPEN {
            self.if_newest.push((rule, number, reason));
        }
    }

    /// Detects the sender's dialect from a message.
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

/// Returns the id of a message; `None` if it cannot be one.
pub(crate) fn request_id(id: &Value) -> Option<RequestId<'static>> {
    match id {
        Value::Null => Some(RequestId::Null),
        Value::String(text) => Some(RequestId::Text(text.clone().into())),
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        _ => None,
    }
}

/// Decodes a value with the protocol's own types.
pub(crate) fn decoded<'a, T: Wire<'a>>(text: &'a str) -> Option<T> {
    T::decode(text, WireFormat::Any).ok()
}
