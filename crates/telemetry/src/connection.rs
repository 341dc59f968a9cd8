//! Conversion of the messages of one connection to spans and metrics.

mod questions;
mod turns;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use opentelemetry::Context;
use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use switchboard_acp::rpc::{BATCH_LIMIT, Expected, Message, Request, RequestId, batch_entries, is_batch};
use switchboard_acp::{Field, Moment, Raw, Side, Wire, WireFormat, v2};
use switchboard_bridge::{LossPolicy, RecordingBridge, Version};
use switchboard_session::{Change, Conversation, Decoded, EntryKind, RequestEvent, Session};
use switchboard_store::apply_hub_note;

use crate::TelemetryInner;
use crate::spans::{OpenSpan, name, word};
use crate::trace_parent;

/// Maximum number of prepared spans whose prompts have not been seen yet.
const MAX_PREPARED: usize = 64;

/// Maximum number of handshake lines kept until the version is known.
const MAX_HANDSHAKE: usize = 16;

/// Converts the messages between a client and an agent to spans and metrics.
///
/// Only the state needed for that is kept: no messages, no content of tool calls.
pub struct Connection {
    shared: Arc<TelemetryInner>,
    conversation: Conversation,
    /// Translates version 1 to version 2.
    translation: Option<Box<RecordingBridge>>,
    /// Messages before the version was known.
    handshake: Vec<(Side, String)>,
    initialize: Option<RequestId<'static>>,
    agent: String,
    /// The only session, if the caller has an id of its own for it.
    whole: Option<(String, Option<OpenSpan>)>,
    sessions: HashMap<Arc<str>, SessionSpans>,
    /// Spans of turns whose prompts are on their way, by their `traceparent`.
    prepared: Vec<(String, OpenSpan)>,
    begun: Instant,
}

/// The spans of one session.
#[derive(Default)]
struct SessionSpans {
    /// Its own span; `None` if the connection's span stands for it.
    span: Option<OpenSpan>,
    turns: Vec<(RequestId<'static>, OpenSpan)>,
    calls: HashMap<String, OpenSpan>,
    permissions: HashMap<usize, OpenSpan>,
    elicitations: HashMap<usize, OpenSpan>,
}

impl Connection {
    pub(crate) fn new(shared: Arc<TelemetryInner>, session: Option<&str>) -> Self {
        Connection {
            shared,
            conversation: Conversation::new(WireFormat::Any),
            translation: None,
            handshake: Vec::new(),
            initialize: None,
            agent: "agent".to_owned(),
            whole: session.map(|id| (id.to_owned(), None)),
            sessions: HashMap::new(),
            prepared: Vec::new(),
            begun: Instant::now(),
        }
    }

    /// Sets the agent's name until it sends one itself.
    #[must_use]
    pub fn with_agent(mut self, agent: &str) -> Self {
        if let Some(agent) = name(agent) {
            agent.clone_into(&mut self.agent);
        }
        self
    }

    // ----- messages

    /// Handles a message, or several in an array, in this version of the protocol; 0 before the handshake.
    pub fn message(&mut self, from: Side, version: u16, text: &str) {
        self.on_handshake(text);
        match version {
            1 => {
                let now = self.now();
                let handshake = std::mem::take(&mut self.handshake);
                let translation = self.translation.get_or_insert_with(|| {
                    let mut fresh = RecordingBridge::with_policy(Version::V2, LossPolicy::Quiet);
                    handshake.iter().for_each(|(from, line)| fresh.take(Some(*from), line, now));
                    Box::new(fresh)
                });
                translation.take(Some(from), text, now);
                // Losses are not needed.
                drop((translation.take_losses(), translation.take_back()));
                let lines: Vec<_> = translation.drain().collect();
                for line in lines {
                    self.line(line.from, &line.text);
                }
            }
            0 => {
                if self.handshake.len() < MAX_HANDSHAKE {
                    self.handshake.push((from, text.to_owned()));
                }
                self.line(from, text);
            }
            _ => self.line(from, text),
        }
    }

    /// Handles a hub's note about a question, such as the author of its answer.
    pub fn note(&mut self, note: &str) {
        let now = self.now();
        apply_hub_note(&mut self.conversation, note, now);
        self.settle_questions();
    }

    /// Returns a prompt with the span of its turn in its metadata, so that the agent's own spans become its
    /// children. `None` if the line is not a prompt or already has a `traceparent`.
    pub fn mark_prompt(&mut self, line: &str) -> Option<String> {
        let (request, session) = prompt_of(line)?;
        if trace_parent::of_request(&request).is_some() {
            return None;
        }
        let parent = self.prepare(&session)?;
        trace_parent::mark(&request, &parent)
    }

    /// Starts the turn of a prompt that is about to be sent, and returns the `traceparent` for its metadata.
    pub fn prepare(&mut self, session: &str) -> Option<String> {
        let span = self.begin_turn(session, None);
        let words = trace_parent::words(span.context())?;
        if self.prepared.len() >= MAX_PREPARED {
            not_sent(self.prepared.remove(0).1);
        }
        self.prepared.push((words.clone(), span));
        Some(words)
    }

    /// Ends all open spans with the connection.
    pub fn end(&mut self) {
        let now = self.now();
        self.conversation.end_connection(now);
        self.settle_questions();
        self.settle_turns();
        for (_, span) in self.prepared.drain(..) {
            not_sent(span);
        }
        let sessions: Vec<Arc<str>> = self.sessions.keys().cloned().collect();
        for session in sessions {
            self.end_session(&session);
        }
        if let Some((_, whole)) = &mut self.whole {
            whole.take().map(OpenSpan::end);
        }
        self.conversation = Conversation::new(WireFormat::Any);
        (self.translation, self.initialize) = (None, None);
        self.handshake.clear();
    }

    fn now(&self) -> Moment {
        self.begun.elapsed().into()
    }

    /// Handles a version 2 line.
    fn line(&mut self, from: Side, text: &str) {
        if !is_batch(text) {
            return self.one(from, text);
        }
        for entry in batch_entries(text, BATCH_LIMIT).unwrap_or_default() {
            self.one(from, entry);
        }
    }

    fn one(&mut self, from: Side, text: &str) {
        // Unreadable lines are reported elsewhere.
        let Ok(mut decoded) = self.conversation.decode(text) else { return };
        let mut prompt = None;
        match &mut decoded.message {
            Expected::Params(told) => {
                if !lighten(&mut told.update) {
                    return;
                }
            }
            Expected::Other(Message::Request(request)) => match &*request.method {
                "session/prompt" => {
                    prompt = session_of(request).map(|session| {
                        (session, request.id.clone().into_owned(), trace_parent::of_request(request))
                    });
                }
                "session/close" => {
                    if let Some(session) = session_of(request) {
                        return self.end_session(&Arc::from(session));
                    }
                }
                _ => {}
            },
            Expected::Other(_) => {}
        }
        self.apply(decoded, from);
        if let Some((session, id, parent)) = prompt {
            let span = self.begin_turn_of(&session, parent);
            self.watched(&session).turns.push((id, span));
        }
    }

    /// Reads the agent's name from its handshake, because a translation would insert a default for a missing
    /// name.
    fn on_handshake(&mut self, text: &str) {
        let Some(asked) = &self.initialize else {
            if text.contains("\"initialize\"")
                && let Ok(Message::Request(request)) = Message::decode(text, WireFormat::Any)
                && request.method == "initialize"
            {
                self.initialize = Some(request.id.into_owned());
            }
            return;
        };
        if let Ok(Message::Response(response)) = Message::decode(text, WireFormat::Any)
            && response.id == *asked
        {
            self.initialize = None;
            if let Ok(answer) = &response.outcome {
                self.on_agent_info(answer);
            }
        }
    }

    fn on_agent_info(&mut self, answer: &Raw<'_>) {
        let info = answer.get("agentInfo").or_else(|| answer.get("info"));
        let told = info.as_ref().and_then(|info| info.get("name"));
        if let Some(told) = told.as_ref().and_then(Raw::as_text).as_deref().and_then(name) {
            told.clone_into(&mut self.agent);
        }
    }

    fn apply(&mut self, decoded: Decoded<'_>, from: Side) {
        let now = self.now();
        let Ok(folded) = self.conversation.apply(decoded, Some(from), now) else { return };
        let is_over = !folded.ended.is_empty();
        if let Some(step) = folded.step
            && let Some(id) = self.conversation.id_at(step.session).cloned()
        {
            for change in step.changes.iter() {
                self.change(&id, change);
            }
        }
        if is_over {
            self.settle_turns();
        }
    }

    fn change(&mut self, session: &Arc<str>, change: &Change) {
        match change {
            Change::Entry(change) if change.kind == EntryKind::ToolCall => {
                self.tool_call(session, change.position, change.created);
            }
            Change::Permission { index, event: RequestEvent::Opened } => {
                let call = self
                    .folded(session)
                    .and_then(|folded| folded.permission_at(*index)?.tool_call_id().map(str::to_owned));
                let span = self.begin_question(session, "permission", call.as_deref());
                self.watched(session).permissions.insert(*index, span);
            }
            Change::Elicitation { index, event: RequestEvent::Opened } => {
                let span = self.begin_question(session, "elicitation", None);
                self.watched(session).elicitations.insert(*index, span);
            }
            Change::Permission { .. } | Change::Elicitation { .. } => self.settle_questions_of(session),
            _ => {}
        }
    }

    fn folded(&self, session: &str) -> Option<&Session> {
        self.conversation.session(Some(session))
    }

    // ----- sessions

    /// Returns the spans of a session, starting them if needed.
    fn watched(&mut self, session: &str) -> &mut SessionSpans {
        if !self.sessions.contains_key(session) {
            let span = self.begin_session(session);
            self.sessions.insert(Arc::from(session), SessionSpans { span, ..SessionSpans::default() });
        }
        self.sessions.entry(Arc::from(session)).or_default()
    }

    /// Starts the span of a session, unless the connection's span stands for it.
    fn begin_session(&mut self, session: &str) -> Option<OpenSpan> {
        let parent = self.conversation.parent(session).cloned();
        let parent = match parent {
            // Spans of sub-agents start below the work of their parent.
            Some(parent) if *parent.session != *session => {
                let above = self.sessions.get(&parent.session);
                let call = above.zip(parent.tool_call).and_then(|(above, call)| above.calls.get(&*call));
                let context = call.map(|call| call.context().clone());
                context.or_else(|| above.and_then(SessionSpans::context)).unwrap_or_else(|| self.root())
            }
            _ if self.whole.is_some() => {
                self.whole_context();
                return None;
            }
            _ => self.shared.parent.clone(),
        };
        Some(self.session_span(session, &parent))
    }

    fn session_span(&self, id: &str, parent: &Context) -> OpenSpan {
        let about = self.about(id);
        OpenSpan::begin(&self.shared.tracer, "session", SpanKind::Internal, parent, about)
    }

    /// Returns the context of the caller's session, starting its span if needed.
    fn whole_context(&mut self) -> Option<Context> {
        let (id, span) = self.whole.take()?;
        let span = span.unwrap_or_else(|| self.session_span(&id, &self.shared.parent));
        let context = span.context().clone();
        self.whole = Some((id, Some(span)));
        Some(context)
    }

    fn root(&mut self) -> Context {
        self.whole_context().unwrap_or_else(|| self.shared.parent.clone())
    }

    /// Returns the attributes of everything in a session.
    fn about(&self, session: &str) -> Vec<KeyValue> {
        vec![
            KeyValue::new("gen_ai.conversation.id", session.to_owned()),
            KeyValue::new("gen_ai.agent.name", self.agent.clone()),
        ]
    }

    /// Returns the id of a session for reports.
    fn shown_id(&self, session: &str) -> String {
        match &self.whole {
            Some((id, _)) if self.conversation.parent(session).is_none() => id.clone(),
            _ => session.to_owned(),
        }
    }

    /// Ends a session and all spans in it.
    fn end_session(&mut self, session: &Arc<str>) {
        let Some(SessionSpans { span, turns, calls, permissions, elicitations }) =
            self.sessions.remove(session)
        else {
            return;
        };
        for (_, call) in calls {
            call.fail("unfinished");
            let took = call.end();
            self.shared.instruments.tool_call(&self.agent, "other", "unfinished", took);
        }
        permissions.into_values().chain(elicitations.into_values()).for_each(|question| {
            question.fail("unanswered");
            question.end();
        });
        for (_, turn) in turns {
            turn.fail("session_end");
            let took = turn.end();
            self.shared.instruments.turn(&self.agent, "cut_off", took);
        }
        span.map(OpenSpan::end);
        self.conversation.remove(Some(session));
    }

    // ----- tool calls

    fn tool_call(&mut self, session: &Arc<str>, position: usize, is_new: bool) {
        let Some(call) = self.folded(session).and_then(|folded| folded.entry(position)?.as_tool_call())
        else {
            return;
        };
        let (id, status) = (call.id().to_owned(), call.status().clone());
        let (kind, tool) =
            (word(call.kind().as_str()).to_owned(), call.name().and_then(name).map(str::to_owned));
        if is_new {
            let mut about = self.about(&self.shown_id(session));
            about.push(KeyValue::new("gen_ai.operation.name", "execute_tool"));
            about.push(KeyValue::new("gen_ai.tool.call.id", id.clone()));
            let parent = self.parent_in(session);
            let title = format!("execute_tool {}", tool.as_deref().unwrap_or(&kind));
            let span = OpenSpan::begin(&self.shared.tracer, title, SpanKind::Internal, &parent, about);
            self.watched(session).calls.insert(id.clone(), span);
        }
        let watched = self.watched(session);
        if let Some(span) = watched.calls.get(&id) {
            span.set("switchboard.tool.kind", kind.clone());
            span.set("gen_ai.tool.name", tool.unwrap_or_else(|| kind.clone()));
        }
        if status.is_final()
            && let Some(span) = watched.calls.remove(&id)
        {
            let outcome = word(status.as_str());
            span.set("switchboard.outcome", outcome.to_owned());
            if status == v2::ToolCallStatus::Failed {
                span.fail("failed");
            }
            let took = span.end();
            self.shared.instruments.tool_call(&self.agent, &kind, outcome, took);
        }
    }

    /// Returns the parent context for a new span in a session.
    fn parent_in(&mut self, session: &Arc<str>) -> Context {
        let own = self.watched(session).context();
        own.unwrap_or_else(|| self.root())
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl SessionSpans {
    /// Returns the parent context for a new span: the latest turn, or the session.
    fn context(&self) -> Option<Context> {
        let turn = self.turns.last().map(|(_, span)| span);
        turn.or(self.span.as_ref()).map(|span| span.context().clone())
    }

    /// Ends tool calls without work: no turn is open, and they do not run in the background.
    fn end_calls(&mut self, folded: Option<&Session>, shared: &TelemetryInner, agent: &str) {
        let in_background = |id: &str| {
            let works = folded.and_then(|folded| folded.background()).unwrap_or_default();
            works
                .iter()
                .any(|work| matches!(work, v2::BackgroundWork::ToolCall(call) if call.tool_call_id == id))
        };
        for (id, span) in self.calls.extract_if(|id, _| !in_background(id)).collect::<Vec<_>>() {
            let kind = folded.and_then(|folded| Some(folded.tool_call(&id)?.kind().as_str().to_owned()));
            span.set("switchboard.outcome", "unfinished");
            let took = span.end();
            let kind = kind.as_deref().map_or("other", word);
            shared.instruments.tool_call(agent, kind, "unfinished", took);
        }
    }
}

/// Ends the span of a turn whose prompt was never seen.
fn not_sent(span: OpenSpan) {
    span.fail("not_sent");
    span.end();
}

/// Returns the session of a prompt, if the line is one.
pub fn session_of_prompt(line: &str) -> Option<String> {
    prompt_of(line).map(|(_, session)| session)
}

fn prompt_of(line: &str) -> Option<(Request<'_>, String)> {
    // Nearly all lines are something else.
    if !line.contains("session/prompt") {
        return None;
    }
    match Message::decode(line, WireFormat::Any) {
        Ok(Message::Request(request)) if request.method == "session/prompt" => {
            let session = session_of(&request)?;
            Some((request, session))
        }
        _ => None,
    }
}

fn session_of(request: &Request<'_>) -> Option<String> {
    request.params.as_ref()?.text("sessionId")
}

/// Removes parts of an update that are not needed here. Returns whether anything is left.
fn lighten(update: &mut v2::SessionUpdate<'_>) -> bool {
    match update {
        v2::SessionUpdate::ToolCallUpdate(call) => {
            // The content of a call names the sub-agent that it started.
            if let Field::Set(content) = &mut call.content {
                content.retain(|item| matches!(item, v2::ToolCallContent::Session(_)));
            }
            (call.raw_input, call.raw_output, call.locations) = (Field::Keep, Field::Keep, Field::Keep);
            (call.title, call.meta) = (Field::Keep, Field::Keep);
            true
        }
        v2::SessionUpdate::ToolCallContentChunk(chunk) => {
            matches!(chunk.content, v2::ToolCallContent::Session(_))
        }
        v2::SessionUpdate::StateUpdate(_)
        | v2::SessionUpdate::UsageUpdate(_)
        | v2::SessionUpdate::SubagentUpdate(_) => true,
        _ => false,
    }
}
