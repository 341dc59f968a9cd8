//! Validates conversations: each message by its method, each response by its request.
//!
//! ```
//! use switchboard_acp::check::{Checker, Rules};
//!
//! let mut checker = Checker::new(Rules::default());
//! let verdict = checker.check(br#"{"jsonrpc":"2.0","id":1,"method":"session/close","params":{}}"#);
//! assert_eq!(verdict.errors[0].pointer, "/params");
//! assert_eq!(verdict.errors[0].message, r#"expected the key "sessionId", found an object without it"#);
//! ```

use std::collections::HashSet;

use crate::error::{DecodeError, Diagnostic};
use crate::recorded::LineForm;
use crate::registry::{Caller, Validation, ValidationResult, WireType, method};
use crate::rpc::{BATCH_LIMIT, BatchFault, Message, Request, RequestId, Response, batch_entries, is_batch};
use crate::wire::Wire;
use crate::{
    Correlator, Extra, Field, Raw, Recorded, RecordedLine, Side, WireFormat, registry, v2, wire_type,
};

/// Maximum number of pending requests and tool calls remembered. Beyond it, input is checked without them.
const MAX_HISTORY: usize = 100_000;

/// Validation rules.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Version and dialect of the input.
    pub revision: WireFormat,
    /// If true, malformed optional fields and list items are warnings instead of errors.
    pub tolerant: bool,
    /// If true, each value is encoded again.
    pub write_back: bool,
    /// Type of each line. `None` for complete messages.
    pub wire_type: Option<&'static WireType>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { revision: WireFormat::Any, tolerant: false, write_back: false, wire_type: None }
    }
}

/// Result of checking one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Verdict {
    /// Errors. A line without errors is valid.
    pub errors: Vec<Finding>,
    /// Valid but questionable content.
    pub warnings: Vec<Finding>,
    /// The value encoded again, if requested and possible.
    pub value: Option<String>,
}

impl Verdict {
    /// Returns true if there are no errors.
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// Creates a verdict with one error about the whole line.
    pub fn error(message: impl Into<String>) -> Self {
        Verdict { errors: vec![Finding::whole(message)], ..Verdict::default() }
    }

    /// Adds the findings about a part of the line.
    fn add(&mut self, prefix: &str, part: Verdict) {
        let under = |mut finding: Finding| {
            finding.pointer.insert_str(0, prefix);
            finding
        };
        self.errors.extend(part.errors.into_iter().map(under));
        self.warnings.extend(part.warnings.into_iter().map(under));
    }

    fn warn(&mut self, pointer: &str, message: impl Into<String>) {
        self.warnings.push(Finding { pointer: pointer.to_owned(), message: message.into() });
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// JSON pointer to the value in the line.
    pub pointer: String,
    /// Message.
    pub message: String,
}

impl Finding {
    fn whole(message: impl Into<String>) -> Self {
        Finding { pointer: String::new(), message: message.into() }
    }
}

impl From<&Diagnostic> for Finding {
    fn from(diagnostic: &Diagnostic) -> Self {
        Finding { pointer: diagnostic.pointer.clone(), message: diagnostic.message() }
    }
}

impl From<&DecodeError> for Verdict {
    fn from(error: &DecodeError) -> Self {
        Verdict { errors: vec![error.diagnostic().into()], ..Verdict::default() }
    }
}

/// Checks the lines of a conversation in order.
#[derive(Debug)]
pub struct Checker {
    rules: Rules,
    open_requests: Correlator<String>,
    known_calls: HashSet<(String, String)>,
}

impl Checker {
    /// Creates a checker without history.
    pub fn new(rules: Rules) -> Self {
        Checker { rules, open_requests: Correlator::new(MAX_HISTORY), known_calls: HashSet::new() }
    }

    /// Checks one line.
    pub fn check(&mut self, line: &[u8]) -> Verdict {
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => {
                let place = error.valid_up_to();
                return Verdict::error(format!(
                    "expected UTF-8, found the byte 0x{:02x} at {place}",
                    line[place]
                ));
            }
        };
        if text.trim_ascii().is_empty() {
            return Verdict::error("expected a JSON value, found an empty line");
        }
        if let Some(wire_type) = self.rules.wire_type {
            return self.check_value(wire_type, text);
        }
        let line = match RecordedLine::parse(text) {
            Ok(line) => line,
            Err(error) => return (&error).into(),
        };
        if line.began.is_some() {
            // Start of another recording, in which ids have another meaning.
            *self = Checker::new(self.rules);
        }
        match &line.recorded {
            Recorded::Message { from, other_side: false, text } if line.form == LineForm::Bare => {
                self.check_frame(text, *from)
            }
            Recorded::Message { from, other_side: false, text } => {
                let part = self.check_frame(text, *from);
                let mut verdict = Verdict { value: part.value.clone(), ..Verdict::default() };
                verdict.add("/msg", part);
                verdict
            }
            Recorded::Noise { other_side: false, .. } => {
                Verdict::error("expected a message, found text that is not JSON")
            }
            // Other recorded data does not affect the messages.
            Recorded::Message { .. }
            | Recorded::Noise { .. }
            | Recorded::StandardError(_)
            | Recorded::Process(_)
            | Recorded::Diagnostic(_)
            | Recorded::Hub(_)
            | Recorded::Elsewhere => Verdict::default(),
        }
    }

    fn validation(&self) -> Validation {
        Validation {
            revision: self.rules.revision,
            tolerant: self.rules.tolerant,
            write_back: self.rules.write_back,
        }
    }

    /// Checks a bare value of a type.
    fn check_value(&mut self, wire_type: &WireType, text: &str) -> Verdict {
        let mut verdict = verdict((wire_type.validate)(text, self.validation()));
        if verdict.is_valid() && self.rules.revision != WireFormat::V1 {
            let revision = self.rules.revision;
            match wire_type.name {
                "SessionUpdate" => {
                    if let Ok((update, _)) = v2::SessionUpdate::decode_tolerant(text, revision) {
                        self.check_first_report("", &update, "", &mut verdict);
                    }
                }
                "UpdateSessionNotification" => self.check_update("", text, &mut verdict),
                _ => {}
            }
        }
        verdict
    }

    /// Checks input of a peer: a message or a batch. Unlike a line of a recording, it is never wrapped.
    pub fn check_sent(&mut self, text: &str, sender: Side) -> Verdict {
        self.check_frame(text, Some(sender))
    }

    /// Checks a message or a batch.
    fn check_frame(&mut self, text: &str, sender: Option<Side>) -> Verdict {
        if !is_batch(text) {
            return self.check_message(text, sender);
        }
        let entries = match batch_entries(text, BATCH_LIMIT) {
            Ok(entries) if entries.is_empty() => {
                return Verdict::error("expected at least one message in a batch, found an empty array");
            }
            Ok(entries) => entries,
            Err(BatchFault::NotJson(error)) => return (&error).into(),
            Err(fault) => return Verdict::error(fault.to_string()),
        };
        let mut verdict = Verdict::default();
        verdict.warn("", "a batch, which newest peers refuse");
        let mut values = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let part = self.check_message(entry, sender);
            values.extend(part.value.clone());
            verdict.add(&format!("/{index}"), part);
        }
        if self.rules.write_back && verdict.is_valid() {
            verdict.value = Some(format!("[{}]", values.join(",")));
        }
        verdict
    }

    fn check_message(&mut self, text: &str, sender: Option<Side>) -> Verdict {
        let envelope = Validation { write_back: false, ..self.validation() };
        let mut verdict = verdict(registry::validate::<Message<'_>>(text, envelope));
        if !verdict.is_valid() {
            return verdict;
        }
        // It has been validated, so it only needs to be parsed.
        let message = match Message::decode(text, WireFormat::Any) {
            Ok(message) => message,
            Err(error) => return (&error).into(),
        };
        let written = match &message {
            Message::Request(request) => self.check_request(request, sender, &mut verdict),
            Message::Notification(notification) => {
                let params = notification.params_text();
                self.check_call(&notification.method, params, sender, false, &mut verdict)
            }
            Message::Response(response) => self.check_response(response, sender, &mut verdict),
        };
        if self.rules.write_back && verdict.is_valid() {
            verdict.value = Some(written_back(message, written).encode(self.rules.revision));
        }
        verdict
    }

    fn check_request(
        &mut self,
        request: &Request<'_>,
        sender: Option<Side>,
        verdict: &mut Verdict,
    ) -> Option<String> {
        if request.id == RequestId::Null {
            verdict.warn("/id", "a request id of null, which newest peers refuse");
        }
        let sides = sender.map_or(vec![Side::Client, Side::Agent], |sender| vec![sender]);
        for side in sides {
            let open = self.open_requests.open(side, &request.id, request.method.clone().into_owned());
            if sender.is_some() && matches!(open, Ok(Some(_))) {
                verdict.warn("/id", format!("request id {} is in use by a pending request", request.id));
            }
        }
        self.check_call(&request.method, request.params_text(), sender, true, verdict)
    }

    /// Checks a request or a notification. Returns its parameters encoded again.
    fn check_call(
        &mut self,
        name: &str,
        params: &str,
        sender: Option<Side>,
        wants_answer: bool,
        verdict: &mut Verdict,
    ) -> Option<String> {
        let Some(method) = method(name, self.rules.revision) else {
            if !name.starts_with('_') && !name.starts_with("$/") {
                verdict.warn(
                    "/method",
                    format!("\"{name}\" is no method of the protocol; one's own begin with _"),
                );
            }
            return None;
        };
        if method.result.is_some() != wants_answer && !method.is_notification_too {
            let message = if wants_answer {
                format!("expected \"{name}\" without an id, for it is a notification")
            } else {
                format!("expected \"{name}\" with an id, for it is a request")
            };
            verdict.errors.push(Finding { pointer: String::new(), message });
        }
        let wrong_side = match (method.caller, sender) {
            (Caller::Client, Some(Side::Agent)) => Some("client"),
            (Caller::Agent, Some(Side::Client)) => Some("agent"),
            _ => None,
        };
        if let Some(side) = wrong_side {
            let message = format!("expected \"{name}\" from the {side} only");
            verdict.errors.push(Finding { pointer: "/method".to_owned(), message });
        }
        let written = self.check_part("/params", method.params, params, verdict);
        if verdict.is_valid() && self.rules.revision != WireFormat::V1 {
            match name {
                "session/update" => self.check_update("/params", params, verdict),
                "session/request_permission" => self.remember_subject(params),
                _ => {}
            }
        }
        written
    }

    fn check_response(
        &mut self,
        response: &Response<'_>,
        sender: Option<Side>,
        verdict: &mut Verdict,
    ) -> Option<String> {
        // The other side sent the request. If the sender is unknown, either may have.
        let askers = sender.map_or(vec![Side::Client, Side::Agent], |sender| vec![sender.other()]);
        let mut asked = None;
        for asker in askers {
            asked = self.open_requests.close(asker, &response.id).or(asked);
        }
        let Some(name) = asked else {
            if response.id != RequestId::Null {
                verdict
                    .warn("/id", format!("a response to request {}, which is not in the input", response.id));
            }
            return None;
        };
        let result = response.outcome.as_ref().ok()?;
        let expected = method(&name, self.rules.revision)?.result?;
        if result.as_str() == "null" && wire_type(expected, self.rules.revision)?.is_empty_answer() {
            verdict.warn("/result", "null, where {} is meant");
            return None;
        }
        self.check_part("/result", expected, result.as_str(), verdict)
    }

    /// Checks parameters or a result.
    fn check_part(
        &self,
        pointer: &str,
        type_name: &str,
        text: &str,
        verdict: &mut Verdict,
    ) -> Option<String> {
        let wire_type = wire_type(type_name, self.rules.revision)?;
        let part = self::verdict((wire_type.validate)(text, self.validation()));
        let written = part.value.clone();
        verdict.add(pointer, part);
        written
    }

    fn check_update(&mut self, pointer: &str, params: &str, verdict: &mut Verdict) {
        if let Ok((notification, _)) =
            v2::UpdateSessionNotification::decode_tolerant(params, self.rules.revision)
        {
            let pointer = format!("{pointer}/update");
            self.check_first_report(&notification.session_id, &notification.update, &pointer, verdict);
        }
    }

    /// Warns if the first report of a tool call lacks its title.
    fn check_first_report(
        &mut self,
        session_id: &str,
        update: &v2::SessionUpdate<'_>,
        pointer: &str,
        verdict: &mut Verdict,
    ) {
        let (id, titled) = match update {
            v2::SessionUpdate::ToolCallUpdate(update) => {
                (&update.tool_call_id, matches!(update.title, Field::Set(_)))
            }
            v2::SessionUpdate::ToolCallContentChunk(chunk) => (&chunk.tool_call_id, false),
            _ => return,
        };
        if self.remember_call(session_id, id) && !titled {
            verdict.warn(pointer, format!("the first report of tool call \"{id}\" has no title"));
        }
    }

    fn remember_subject(&mut self, params: &str) {
        let request = v2::RequestPermissionRequest::decode_tolerant(params, self.rules.revision);
        if let Ok((request, _)) = request
            && let Some(v2::RequestPermissionSubject::ToolCall(subject)) = &request.subject
        {
            self.remember_call(&request.session_id, &subject.tool_call.tool_call_id);
        }
    }

    /// Registers a tool call. Returns true if it is new.
    fn remember_call(&mut self, session_id: &str, id: &str) -> bool {
        self.known_calls.len() < MAX_HISTORY
            && self.known_calls.insert((session_id.to_owned(), id.to_owned()))
    }
}

impl WireType {
    /// Returns true if a response of this type may be empty.
    fn is_empty_answer(&self) -> bool {
        let validation = Validation { revision: WireFormat::Any, tolerant: false, write_back: true };
        matches!((self.validate)("{}", validation).outcome, Ok(Some(text)) if text == "{}")
    }
}

fn verdict(judgement: ValidationResult) -> Verdict {
    let mut verdict = Verdict::default();
    match judgement.outcome {
        Ok(value) => verdict.value = value,
        Err(error) => verdict.errors.push(error.diagnostic().into()),
    }
    let warnings = judgement.tolerated.iter().chain(&judgement.remarks);
    verdict.warnings = warnings.map(Finding::from).collect();
    verdict
}

/// Returns the message with its parameters or result encoded again.
fn written_back<'a>(message: Message<'a>, written: Option<String>) -> Message<'a> {
    let Some(written) = written.map(Raw::from_checked) else {
        return message;
    };
    match message {
        Message::Request(request) => {
            Message::Request(Request { params: request.params.map(|_| written), ..request })
        }
        Message::Notification(notification) => {
            let params = notification.params.as_ref().map(|_| written);
            Message::Notification(crate::rpc::Notification { params, ..notification })
        }
        Message::Response(response) => {
            let extra: Extra<'a> = response.extra;
            Message::Response(Response { id: response.id, outcome: Ok(written), extra })
        }
    }
}
