//! Policy rules between an agent and its client: questions that rules decide are not sent to the client. It
//! sees the tool call and a notice.

use std::collections::HashSet;

use memchr::memmem;
use serde_json::{Value, json};
use switchboard_acp::extensions::POLICY_DECISION;
use switchboard_acp::rpc::{BATCH_LIMIT, Message, Outline, Request, RequestId, batch_entries, is_batch};
use switchboard_acp::{Raw, Wire, WireFormat};
use switchboard_bridge::{Moment, Side};
use switchboard_policy::{Answer, QuestionReader, Relevance};

use crate::rules::{RecordedDecision, Rules, VERSION_1, result};
use crate::standard_error;

const METHOD: &str = "session/request_permission";

/// Maximum number of tracked tool calls.
const MAX_CALLS: usize = 100_000;

/// Evaluates the rules, with the state needed for that.
pub(super) struct Permissions {
    rules: Rules,
    relevance: Relevance,
    /// Reads the messages of both sides.
    reader: QuestionReader,
    /// Decision on the question that is being forwarded.
    decided: Option<PendingDecision>,
    /// The tool calls that the client was sent, by session. A version 1 client must get each before it
    /// changes.
    told: HashSet<(String, String)>,
    /// Set if a version 1 client supports notices; otherwise they become agent messages.
    takes_notices: bool,
}

struct PendingDecision {
    id: Option<RequestId<'static>>,
    judged: RecordedDecision,
    answer: Answer,
    /// Short description of the requested action.
    about: String,
    /// The question that is withheld from the client and answered instead.
    withheld: Option<WithheldRequest>,
}

struct WithheldRequest {
    /// The id under which the client would have received the question.
    id: RequestId<'static>,
    session: String,
    /// Its tool call as the client would have seen it.
    call: Option<Raw<'static>>,
    /// Set for a version 1 question, which always has a tool call.
    is_version_1: bool,
}

/// Replacement for a question to the client.
pub(super) struct Instead {
    /// Updates for the client.
    pub(super) updates: Vec<String>,
    /// The answer in place of the client's.
    pub(super) answer: String,
}

impl Permissions {
    pub(super) fn new(rules: Rules) -> Self {
        let here = std::env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok());
        Permissions {
            rules,
            relevance: Relevance::new(),
            reader: QuestionReader::without_root(here.unwrap_or_default())
                .live()
                .reading_version_1(VERSION_1),
            decided: None,
            told: HashSet::new(),
            takes_notices: false,
        }
    }

    /// Splits a batch of the agent into messages if it contains a question.
    pub(super) fn apart(line: &str) -> Option<Vec<String>> {
        let entries = is_batch(line).then(|| batch_entries(line, BATCH_LIMIT).ok())??;
        let asks = |entry: &&str| matches!(Outline::of(entry), Some(Outline::Request { method, .. }) if method == METHOD);
        let apart = entries.iter().any(asks);
        apart.then(|| entries.into_iter().map(|entry| entry.replace(['\n', '\r'], " ")).collect())
    }

    /// Returns whether a line of the agent is irrelevant for rules.
    pub(super) fn passes(&self, line: &[u8]) -> bool {
        !self.relevance.matters(line)
    }

    /// Tracks a line for the agent.
    pub(super) fn on_client_line(&mut self, line: &str, now: Moment) {
        if self.relevance.matters(line.as_bytes()) {
            self.reader.read(line, Some(Side::Client), now);
        }
    }

    /// Tracks the client's handshake.
    pub(super) fn on_handshake(&mut self, line: &str) {
        let Ok(Message::Request(request)) = Message::decode(line, WireFormat::Any) else { return };
        let session = request.params.as_ref().and_then(|params| {
            Some(params.get("clientCapabilities")?.get("session")?.get("notices")?.is_object())
        });
        self.takes_notices = session.unwrap_or(false);
    }

    /// Tracks a line of the agent and evaluates its question.
    pub(super) fn on_agent_line(&mut self, line: &str, now: Moment) {
        self.decided = None;
        if self.passes(line.as_bytes()) {
            return;
        }
        for question in self.reader.read(line, Some(Side::Agent), now) {
            let root = self.reader.scene(question.session.as_deref()).root;
            let judged = self.rules.evaluate(&question.subject, &question.options, &root);
            let answer = judged.answer(&question.options);
            let about = question.subject.short_summary();
            if judged.is_only_watched() {
                standard_error::say(format!("switchboard: {}: {about:?}", judged.in_words()));
            }
            self.decided = Some(PendingDecision { id: question.id, judged, answer, about, withheld: None });
        }
    }

    /// Inspects a line for the client. Returns `None` to forward it; otherwise the note about the evaluated
    /// question, and whether it is withheld. `is_of_agent`: the log uses the agent's ids.
    pub(super) fn look(&mut self, line: &str, is_of_agent: bool) -> Option<(String, bool)> {
        self.note_told(line);
        let decided = self.decided.as_mut().filter(|decided| decided.withheld.is_none())?;
        let Ok(Message::Request(request)) = Message::decode(line, WireFormat::Any) else { return None };
        if request.method != METHOD {
            return None;
        }
        let known_as = decided.id.as_ref().filter(|_| is_of_agent).unwrap_or(&request.id);
        let note = decided.judged.note(known_as, &decided.answer);
        if decided.answer == Answer::Ask {
            self.decided = None;
            return Some((note, false));
        }
        decided.withheld = Some(WithheldRequest::of(&request));
        Some((note, true))
    }

    /// Tracks the tool calls that a client was sent.
    fn note_told(&mut self, line: &str) {
        if memmem::find(line.as_bytes(), b"\"tool_call\"").is_none() || self.told.len() >= MAX_CALLS {
            return;
        }
        let Ok(Message::Notification(update)) = Message::decode(line, WireFormat::Any) else { return };
        let Some(params) = update.params else { return };
        let call = params.get("update").and_then(|update| update.text("toolCallId"));
        if let (Some(session), Some(call)) = (params.text("sessionId"), call) {
            self.told.insert((session, call));
        }
    }

    /// Returns the replacement of a withheld question.
    pub(super) fn instead(&mut self) -> Option<Instead> {
        let PendingDecision { judged, answer, about, withheld, .. } = self.decided.take()?;
        let WithheldRequest { id, session, call, is_version_1 } = withheld?;
        let option = match &answer {
            Answer::Select(option) => Some(option.as_str()),
            Answer::Cancel | Answer::Ask => None,
        };
        let mut updates = Vec::new();
        if let Some(call) = call.as_ref().filter(|call| call.is_object()) {
            let name = call.text("toolCallId").unwrap_or_default();
            let is_new = is_version_1 && self.told.insert((session.clone(), name));
            updates.push(update_line(&session, &call_update(call, is_new)));
        }
        let mut told = judged.to_json(option);
        // It is in the tool call and may be large.
        told.as_object_mut().map(|told| told.remove("subject"));
        let title = format!("{}: {about}", judged.in_words());
        let meta = POLICY_DECISION.meta(told);
        let meta = meta.as_raw();
        let notice = if !is_version_1 || self.takes_notices {
            let reason = &judged.decision.reason;
            json!({"sessionUpdate": "notice", "severity": "info", "title": title, "description": reason, "_meta": meta})
        } else {
            let words = json!({"type": "text", "text": format!("[{title}]\n\n")});
            json!({"sessionUpdate": "agent_message_chunk", "content": words, "_meta": meta})
        };
        updates.push(update_line(&session, &notice.to_string()));
        let response = result(&answer)?;
        let answer = Message::response(id, Ok(Raw::of(&response, WireFormat::Any))).encode(WireFormat::Any);
        Some(Instead { updates, answer })
    }
}

impl WithheldRequest {
    fn of(request: &Request<'_>) -> Self {
        let params = request.params.as_ref();
        let about = params.and_then(|params| params.get("subject"));
        let old = params.and_then(|params| params.get("toolCall")).map(Raw::into_owned);
        let is_version_1 = about.is_none() && old.is_some();
        let call = about.as_ref().and_then(|about| about.get("toolCall")).map(Raw::into_owned).or(old);
        WithheldRequest {
            id: request.id.clone().into_owned(),
            session: params.and_then(|params| params.text("sessionId")).unwrap_or_default(),
            call,
            is_version_1,
        }
    }
}

/// Returns the tool call of a question as an update; in version 1 the first one has another tag and a title.
fn call_update(call: &Raw<'_>, is_new: bool) -> String {
    let tag = if is_new { "tool_call" } else { "tool_call_update" };
    let mut update = format!(r#"{{"sessionUpdate":"{tag}""#);
    let mut add = |key: &str, value: &str| {
        update.push(',');
        update.push_str(&Value::from(key).to_string());
        update.push(':');
        update.push_str(value);
    };
    let is_missing = |key| call.get(key).is_none_or(|value| value.as_str() == "null");
    if is_new && is_missing("title") {
        add("title", "\"Tool call\"");
    }
    for (key, value) in call.entries().filter(|(key, _)| **key != *"sessionUpdate") {
        if !(is_new && value.as_str() == "null") {
            add(&key, value.as_str());
        }
    }
    update.push('}');
    update.replace(['\n', '\r'], " ")
}

fn update_line(session: &str, update: &str) -> String {
    let session = Value::from(session);
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{session},"update":{update}}}}}"#
    )
}
