//! Events for people who do not look at a session: questions that wait, and turns that end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;
use switchboard_acp::extensions::Author;
use switchboard_acp::rpc::Message;
use switchboard_acp::{Raw, Wire, WireFormat, v2};
use switchboard_session::ToolCall;

use super::context::Context;
use super::lines::Outcome;
use super::questions::{ELICITATION, PERMISSION, Questions};
use super::session::Session;
use super::session_state::{Question, SessionState};
use super::{Output, SessionId};
use crate::session_event::{
    AnswerResult, PendingQuestionEvent, QuestionOption, SessionEvent, SessionEventKind,
};

/// Maximum number of characters of a question's details. Longer ones are cut and marked as incomplete.
const DETAILS: usize = 2000;
/// Maximum number of locations in the details.
const LOCATIONS: usize = 8;

/// Data of a session for its events.
#[derive(Debug, Default)]
pub(super) struct EventState {
    /// Time at which the running turn began, by the monotonic clock. `None` if no prompt is running.
    turn_started: Option<u64>,
    /// Questions that were announced, by their offsets.
    questions: BTreeMap<u64, Announced>,
}

/// A question that was announced.
#[derive(Debug)]
struct Announced {
    event: PendingQuestionEvent,
    /// Id of the tool call that it is about.
    call: Option<String>,
}

/// The events of one session.
pub(super) struct SessionEvents<'a> {
    session: &'a mut Session,
    cx: &'a mut Context,
}

impl<'a> SessionEvents<'a> {
    pub(super) fn of(session: &'a mut Session, cx: &'a mut Context) -> Self {
        SessionEvents { session, cx }
    }

    /// Notes that a prompt is sent to the agent.
    pub(super) fn turn_began(&mut self) {
        let now = self.cx.outbox.now;
        self.session.events.turn_started = Some(now);
    }

    /// Emits an event of a session.
    pub(super) fn emit(&mut self, kind: SessionEventKind) {
        let id = &SessionId::clone(self.session.id());
        let session = &*self.session;
        if !session.is_owned || !self.cx.has_events {
            return;
        }
        let title = session.state.as_ref().and_then(SessionState::agent_title).map(str::to_owned);
        let event = SessionEvent::new(id, &session.info.agent, &session.info.folder, kind);
        let shared_with = session.shared.iter().cloned().collect();
        let event = SessionEvent { title, shared_with, ..event };
        self.cx.outbox.push(Output::Event(Box::new(event)));
    }

    /// Emits the events of the questions that a record has added, changed or ended. `new` is the offset of a question
    /// that the policy has not answered, and `changed_call` the tool call that an update has changed.
    pub(super) fn emit_questions(&mut self, new: Option<u64>, changed_call: Option<&str>) {
        if !self.cx.has_events {
            return;
        }
        let by = self.cx.answered_by.take();
        let session = &mut *self.session;
        let Some(state) = &session.state else { return };
        if session.events.questions.is_empty() && state.questions.is_empty() {
            return;
        }
        let mut kinds = Vec::new();
        let known = &mut session.events.questions;
        known.retain(|offset, _| {
            let is_pending = state.questions.contains_key(offset);
            if !is_pending {
                kinds.push(SessionEventKind::Resolved { question: *offset, by: by.clone() });
            }
            is_pending
        });
        for (offset, question) in &state.questions {
            let may_differ = match known.get(offset) {
                // Only the questions about the changed call are read again: there may be many.
                Some(known) => changed_call.is_some() && known.call.as_deref() == changed_call,
                // A record about a question that the policy answers precedes the answer. It announces nothing.
                None => new == Some(*offset),
            };
            if !may_differ {
                continue;
            }
            let event = announced(*offset, question, state);
            if known.get(offset).is_none_or(|known| known.event != event) {
                let call = call_of(question);
                known.insert(*offset, Announced { event: event.clone(), call });
                kinds.push(SessionEventKind::Asked(event));
            }
        }
        for kind in kinds {
            self.emit(kind);
        }
    }

    /// Emits the event of a turn that has ended.
    pub(super) fn emit_turn_end(&mut self) {
        let (now, is_ending) = (self.cx.outbox.now, self.cx.is_ending);
        let interruption = self.cx.interruption.clone();
        let session = &mut *self.session;
        let started = session.events.turn_started.take();
        let was_cancelled = session.cancelled_at.is_some();
        let Some(state) = &session.state else { return };
        // A person who cancels a turn or ends the hub knows that it is over.
        if was_cancelled || state.cancels > 0 || is_ending || state.stop_reason() == Some("cancelled") {
            return;
        }
        if let Some(reason) = interruption {
            return self.emit(SessionEventKind::AgentDied { reason });
        }
        // The end of a replay or of a resumption is not the end of a turn.
        let Some(started) = started else { return };
        let kind = match (state.refused_prompt(), state.stop_reason()) {
            (Some(reason), _) => SessionEventKind::TurnFailed { reason },
            (None, Some("error")) => {
                let reason = state.error_message().unwrap_or_else(|| "error".to_owned());
                SessionEventKind::TurnFailed { reason }
            }
            (None, Some("refusal")) => SessionEventKind::TurnFailed { reason: "refusal".to_owned() },
            (None, reason) => SessionEventKind::TurnEnded {
                reason: reason.unwrap_or("end_turn").to_owned(),
                duration: Duration::from_millis(now.saturating_sub(started)),
            },
        };
        self.emit(kind);
    }

    /// Emits the event of an agent that could not be started for a prompt.
    pub(super) fn emit_start_failure(&mut self, reason: &str) {
        if !self.cx.is_ending {
            self.emit(SessionEventKind::AgentDied { reason: reason.to_owned() });
        }
    }

    /// Answers a question with an option that holds once, if the question is still as it was shown. `by` is recorded as
    /// the client.
    pub(super) fn answer_shown(
        &mut self,
        shown: &PendingQuestionEvent,
        option: &str,
        by: &str,
    ) -> AnswerResult {
        if !self.session.is_owned {
            return AnswerResult::NotPending;
        }
        match self.session.events.questions.get(&shown.id).map(|known| &known.event) {
            None => return AnswerResult::NotPending,
            Some(now) if now != shown => return AnswerResult::Changed,
            Some(_) => {}
        }
        let holds_once = |kind: &str| matches!(kind, "allow_once" | "reject_once");
        if !shown.options.iter().any(|known| known.id == option && holds_once(&known.kind)) {
            return AnswerResult::Changed;
        }
        let result = json!({"outcome": {"outcome": "selected", "optionId": option}});
        let by = Author::new().client(by.to_owned());
        let outcome = Outcome::Result(result.to_string());
        Questions::of(self.session, self.cx).settle(shown.id, &outcome, &by, None);
        AnswerResult::Answered
    }
}

/// Returns the id of the tool call that a question is about.
fn call_of(question: &Question) -> Option<String> {
    let subject = question.params.get("subject")?;
    match subject.get("toolCall") {
        Some(call) => call.text("toolCallId"),
        None => subject.text("toolCallId"),
    }
}

/// Returns the id of the tool call that an update changes.
pub(super) fn changed_call(message: &Message<'_>) -> Option<String> {
    let Message::Notification(notification) = message else { return None };
    // A cheap check: most updates are not about tool calls.
    let params = notification.params.as_ref().filter(|params| params.as_str().contains("tool_call"))?;
    params.get("update")?.text("toolCallId")
}

/// Returns a question for people who do not look at its session.
fn announced(offset: u64, question: &Question, state: &SessionState) -> PendingQuestionEvent {
    let mut details = Details::default();
    details.line("", &question.title());
    let mut options = Vec::new();
    let action = match question.method.as_str() {
        ELICITATION if question.params.text("mode").as_deref() == Some("url") => "asks you to open a link",
        ELICITATION => {
            details.is_cut = true;
            "asks you to fill in a form"
        }
        PERMISSION => {
            let request =
                v2::RequestPermissionRequest::decode_tolerant(question.params.as_str(), WireFormat::Any);
            match request {
                Ok((request, faults)) => {
                    details.is_cut |= !faults.is_empty();
                    options = request.options.iter().map(option).collect();
                    permission(&request, question, state, &mut details)
                }
                Err(_) => {
                    details.is_cut = true;
                    "asks for permission"
                }
            }
        }
        _ => {
            details.is_cut = true;
            "asks a question"
        }
    };
    let (details, is_complete) = details.finish();
    PendingQuestionEvent { id: offset, action, details, is_complete, options }
}

fn option(option: &v2::PermissionOption<'_>) -> QuestionOption {
    QuestionOption {
        id: option.option_id.to_string(),
        name: option.name.to_string(),
        kind: option.kind.as_str().to_owned(),
    }
}

/// Adds the details of a permission request, and returns its kind in words.
fn permission(
    request: &v2::RequestPermissionRequest<'_>,
    question: &Question,
    state: &SessionState,
    details: &mut Details,
) -> &'static str {
    if let Some(description) = &request.description {
        details.line("", description);
    }
    let session = state.asking_session(question);
    let outline = |id: &str| session.and_then(|session| session.tool_call_outline(id));
    match &request.subject {
        Some(v2::RequestPermissionSubject::Command(subject)) => {
            details.line("$ ", &subject.command);
            details.line("in ", subject.cwd.as_str());
            "asks to run a command"
        }
        Some(v2::RequestPermissionSubject::ToolCall(subject)) => {
            match outline(&subject.tool_call.tool_call_id) {
                Some(outline) => {
                    details.is_cut |= outline.problem().is_some();
                    details.call(outline.call());
                    action(outline.call().kind())
                }
                None => {
                    details.is_cut = true;
                    "asks for permission"
                }
            }
        }
        _ => {
            details.is_cut = true;
            "asks for permission"
        }
    }
}

fn action(kind: &v2::ToolKind) -> &'static str {
    match kind {
        v2::ToolKind::Read => "asks to read files",
        v2::ToolKind::Edit => "asks to edit files",
        v2::ToolKind::Delete => "asks to delete files",
        v2::ToolKind::Move => "asks to move files",
        v2::ToolKind::Search => "asks to search",
        v2::ToolKind::Execute => "asks to run a command",
        v2::ToolKind::Fetch => "asks to fetch data",
        v2::ToolKind::SwitchMode => "asks to change its mode",
        _ => "asks for permission",
    }
}

/// Collects the details of a question.
#[derive(Default)]
struct Details {
    text: String,
    is_cut: bool,
}

impl Details {
    /// Adds a line, unless it repeats the last one.
    fn line(&mut self, prefix: &str, text: &str) {
        let text = text.trim();
        if text.is_empty() || self.text.lines().any(|line| line == text) {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let _ = write!(self.text, "{prefix}{text}");
    }

    fn call(&mut self, call: &ToolCall) {
        self.line("", call.title().unwrap_or_default());
        if let Some(input) = call.raw_input() {
            match command_of(input) {
                Some(command) => self.line("$ ", &command),
                None => self.line("", input.as_str()),
            }
        }
        for location in call.locations().iter().take(LOCATIONS) {
            self.line("", location.path.as_str());
        }
        self.is_cut |= call.locations().len() > LOCATIONS;
        for item in call.content().items() {
            match item.text() {
                Some(text) => self.line("", text),
                // Diffs and other content do not fit into a notification.
                None => self.is_cut = true,
            }
        }
    }

    fn finish(self) -> (String, bool) {
        let Details { mut text, mut is_cut } = self;
        if let Some((end, _)) = text.char_indices().nth(DETAILS) {
            text.truncate(end);
            is_cut = true;
        }
        (text, !is_cut)
    }
}

/// Returns the command line of a tool's input, if that is all the input has.
fn command_of(input: &Raw<'_>) -> Option<String> {
    let value = input.to_value();
    let object = value.as_object()?;
    let command = object.get("command")?;
    if object.keys().any(|key| !matches!(key.as_str(), "command" | "description")) {
        return None;
    }
    match command {
        serde_json::Value::String(command) => Some(command.clone()),
        serde_json::Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(serde_json::Value::as_str).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    }
}
