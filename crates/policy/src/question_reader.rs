//! Extraction of permission requests from the messages of a connection, in either version.

use std::collections::HashMap;

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::{
    BATCH_LIMIT, Expected, Message, Notification, Request, RequestId, Response, batch_entries, is_batch,
};
use switchboard_acp::{Correlator, Diagnostic, Extra, Raw, Text, Version, Wire, WireFormat, v2};
use switchboard_session::{
    AgentQuestion, Conversation, ConversationError, Decoded, Moment, SessionError, Side,
};

use crate::subject::{RequestContext, Subject};

/// Maximum number of tracked requests and sessions.
const MAX_REMEMBERED: usize = 10_000;

/// Maximum number of pending questions that are tracked.
const MAX_WAITING: usize = 200;

/// A permission request with its subject.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Question {
    /// The session of the request.
    pub session: Option<String>,
    /// The id of the request.
    pub id: Option<RequestId<'static>>,
    /// The tool call that it is about.
    pub tool_call: Option<String>,
    /// The requested action.
    pub subject: Subject,
    /// The offered options; empty for a malformed request.
    pub options: Vec<v2::PermissionOption<'static>>,
}

/// A version 1 message translated to version 2, with its first malformed part that was left out.
type Translated<T> = Result<(T, Option<String>), String>;

/// Decoders for version 1 messages that translate them to version 2, the version of all evaluations.
#[derive(Debug, Clone, Copy)]
pub struct Version1 {
    /// Decodes the parameters of `session/update`.
    pub update: fn(&str) -> Translated<v2::UpdateSessionNotification<'static>>,
    /// Decodes the parameters of `session/request_permission`.
    pub permission: fn(&str) -> Translated<v2::RequestPermissionRequest<'static>>,
}

/// Reads the messages of one connection and extracts permission requests.
///
/// Messages of both sides are accepted, also without a handshake; then the messages show their version.
/// Version 1 messages need a [translation](QuestionReader::reading_version_1). Only outlines of tool calls
/// are kept, without their output. Every `session/request_permission` becomes a [`Question`], including
/// malformed ones.
#[derive(Debug)]
pub struct QuestionReader {
    conversation: Conversation,
    root: Option<String>,
    otherwise: String,
    /// The version, from the handshake or from a message.
    version: Option<Version>,
    agent: Option<String>,
    /// Set if the caller set the agent's name.
    is_agent_set: bool,
    open: Correlator<Call>,
    cwds: HashMap<String, String>,
    /// The tool calls that the last line mentioned first.
    started: Vec<(Option<String>, String)>,
    version_1: Option<Version1>,
}

#[derive(Debug)]
enum Call {
    Initialize,
    New { cwd: Option<String> },
}

impl QuestionReader {
    /// Creates a reader. `root` is the value of `$root`.
    pub fn new(root: impl Into<String>) -> Self {
        QuestionReader { root: Some(root.into()), ..QuestionReader::without_root("") }
    }

    /// Creates a reader in which each session's own directory is the root; `otherwise` if that is unknown.
    pub fn without_root(otherwise: impl Into<String>) -> Self {
        QuestionReader {
            otherwise: otherwise.into(),
            conversation: Conversation::new(WireFormat::Any).with_tool_calls_alone(),
            root: None,
            version: None,
            agent: None,
            is_agent_set: false,
            open: Correlator::new(MAX_REMEMBERED),
            cwds: HashMap::new(),
            started: Vec::new(),
            version_1: None,
        }
    }

    /// Enables version 1 messages.
    #[must_use]
    pub fn reading_version_1(mut self, read: Version1) -> Self {
        self.version_1 = Some(read);
        self
    }

    /// Configures the reader for a long-lived connection: it keeps only the latest tool calls, and questions
    /// until they are answered.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.conversation = Conversation::new(WireFormat::Any).without_transcript().with_tool_call_outlines();
        self
    }

    /// Sets the agent's name, overriding its own.
    pub fn set_agent(&mut self, name: impl Into<String>) {
        (self.agent, self.is_agent_set) = (Some(name.into()), true);
    }

    /// Returns the agent's name.
    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// Returns the folded conversation: tool calls and permissions.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Returns the conversation for adding information that no message contains, such as the author of an
    /// answer.
    pub fn conversation_mut(&mut self) -> &mut Conversation {
        &mut self.conversation
    }

    /// Removes and returns the tool calls that the last line mentioned first, by session and id.
    pub fn take_begun(&mut self) -> impl Iterator<Item = (Option<String>, String)> {
        self.started.drain(..)
    }

    /// Returns the subject of a tool call for which no permission was requested.
    pub fn subject_of_call(&self, session: Option<&str>, call: &str) -> Option<Subject> {
        let about = v2::ToolCallPermissionSubject::new(v2::ToolCallUpdate::new(call));
        let about = v2::RequestPermissionSubject::ToolCall(Box::new(about));
        let folded = self.conversation.session(session)?;
        Some(Subject::of(folded, Some(&about), None, &self.scene(session)))
    }

    /// Returns the context of a session's requests.
    pub fn scene(&self, session: Option<&str>) -> RequestContext {
        let cwd = session.and_then(|session| self.cwds.get(session)).cloned();
        let root = self.root.clone().or_else(|| cwd.clone()).unwrap_or_else(|| self.otherwise.clone());
        RequestContext { root, cwd, agent: self.agent.clone() }
    }

    /// Reads a line: a message, or several in an array. Returns the permission requests in it.
    pub fn read(&mut self, line: &str, from: Option<Side>, at: Moment) -> Vec<Question> {
        let mut questions = Vec::new();
        self.started.clear();
        if !is_batch(line) {
            self.read_one(line, from, at, &mut questions);
        } else {
            match batch_entries(line, BATCH_LIMIT) {
                Ok(entries) => {
                    entries.into_iter().for_each(|entry| self.read_one(entry, from, at, &mut questions));
                }
                Err(_) => questions.extend(self.unreadable_question(line)),
            }
        }
        questions
    }

    /// Returns a question for an unreadable line that seems to contain one.
    fn unreadable_question(&self, line: &str) -> Option<Question> {
        line.contains("request_permission").then(|| self.unreadable("the line cannot be read"))
    }

    /// Returns a question whose content is unreadable.
    pub fn unreadable(&self, reason: &str) -> Question {
        let subject = Subject::unknown(&self.scene(None), reason);
        Question { session: None, id: None, tool_call: None, subject, options: Vec::new() }
    }

    /// Applies an update that is certainly version 2, which most are. Returns whether it was one.
    fn read_update(&mut self, text: &str) -> bool {
        let Ok(Decoded { message: Expected::Params(told), left_out }) = self.conversation.decode(text) else {
            return false;
        };
        let is_whole = left_out.is_empty();
        match &told.update {
            v2::SessionUpdate::ToolCallUpdate(call) if is_whole && self.version != Some(Version::V1) => {
                let (session, call) = (&*told.session_id, &*call.tool_call_id);
                if !self.is_known(Some(session), call) {
                    self.started.push((Some(session.to_owned()), call.to_owned()));
                }
            }
            v2::SessionUpdate::ToolCallContentChunk(_) | v2::SessionUpdate::TerminalUpdate(_) if is_whole => {
            }
            v2::SessionUpdate::ToolCallUpdate(_)
            | v2::SessionUpdate::ToolCallContentChunk(_)
            | v2::SessionUpdate::TerminalUpdate(_) => return false,
            // Version 1 uses this tag for the first update of a call.
            v2::SessionUpdate::Unknown(unknown) => return unknown.tag != "tool_call",
            _ => return true,
        }
        self.conversation.apply_update(Some(&told.session_id), &told.update).is_ok()
    }

    fn read_one(&mut self, text: &str, from: Option<Side>, at: Moment, questions: &mut Vec<Question>) {
        if self.read_update(text) {
            return;
        }
        match Message::decode(text, WireFormat::Any) {
            Ok(Message::Notification(notification)) => match &*notification.method {
                "session/update" => self.update(&notification),
                // A notification has no response, but no requested action may go unseen.
                "session/request_permission" => {
                    questions.push(self.malformed(
                        None,
                        notification.params.as_ref(),
                        "the request has no id",
                    ));
                }
                "session/cancel" | "$/cancel_request" => drop(self.conversation.read(text, from, at)),
                _ => {}
            },
            Ok(Message::Request(request)) => match &*request.method {
                "session/request_permission" => questions.push(self.ask(&request, at)),
                _ => self.request(&request),
            },
            Ok(Message::Response(response)) => {
                drop(self.conversation.read(text, from, at));
                if from != Some(Side::Client) {
                    self.response(&response);
                }
            }
            Err(error) => {
                let Ok(raw) = Raw::parse(text) else {
                    return questions.extend(self.unreadable_question(text));
                };
                if raw.get("method").is_some() && raw.get("jsonrpc").is_none() {
                    // Written by hand, or without the version.
                    let whole = text.trim_start().replacen('{', "{\"jsonrpc\":\"2.0\",", 1);
                    return self.read_one(&whole, from, at, questions);
                }
                let method = raw.get("method");
                match method.as_ref().and_then(Raw::as_text).as_deref() {
                    // The parameters of an update alone.
                    None if raw.get("update").is_some() && raw.get("sessionId").is_some() => {
                        let params = Some(raw.borrowed());
                        let method = Text::Borrowed("session/update");
                        self.update(&Notification { method, params, extra: Extra::new() });
                    }
                    Some("session/request_permission") => {
                        let params = raw.get("params");
                        questions.push(self.malformed(None, params.as_ref(), &error.to_string()));
                    }
                    Some("session/update") => {
                        let params = raw.get("params");
                        if let Some(params) = params {
                            self.conversation.note_unreadable(&params, &error.to_string());
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn request(&mut self, request: &Request<'_>) {
        let params = request.params.as_ref();
        match &*request.method {
            "initialize" => drop(self.open.open_or_evict(Side::Client, &request.id, Call::Initialize)),
            "session/new" | "session/fork" => {
                let cwd = text_of(params, "cwd");
                drop(self.open.open_or_evict(Side::Client, &request.id, Call::New { cwd }));
            }
            "session/load" | "session/resume" => {
                if let (Some(session), Some(cwd)) = (text_of(params, "sessionId"), text_of(params, "cwd")) {
                    self.remember_cwd(session, cwd);
                }
            }
            _ => {}
        }
    }

    fn remember_cwd(&mut self, session: String, cwd: String) {
        if self.cwds.len() < MAX_REMEMBERED || self.cwds.contains_key(&session) {
            self.cwds.insert(session, cwd);
        }
    }

    fn response(&mut self, response: &Response<'_>) {
        let Some(call) = self.open.answered(Side::Agent, &response.id) else { return };
        let Ok(result) = &response.outcome else { return };
        match call {
            Call::Initialize => {
                self.version = Some(Handshake::of_answer(result).version);
                let info = result.get("agentInfo").or_else(|| result.get("info"));
                let name = info.as_ref().and_then(|info| text_of(Some(info), "name"));
                if let Some(name) = name.filter(|_| !self.is_agent_set) {
                    self.agent = Some(name);
                }
            }
            Call::New { cwd } => {
                if let (Some(session), Some(cwd)) = (text_of(Some(result), "sessionId"), cwd) {
                    self.remember_cwd(session, cwd);
                }
            }
        }
    }

    // ----- updates

    /// Applies an update. Only parts of tool calls are kept.
    fn update(&mut self, notification: &Notification<'_>) {
        let params = notification.params.as_ref();
        let update = params.and_then(|params| params.get("update"));
        let tag = update.as_ref().and_then(|update| text_of(Some(update), "sessionUpdate"));
        let is_call = matches!(tag.as_deref(), Some("tool_call" | "tool_call_update"));
        if !is_call && !matches!(tag.as_deref(), Some("tool_call_content_chunk" | "terminal_update")) {
            return;
        }
        let session = text_of(params, "sessionId");
        let is_v1 = is_call && self.is_v1_call(update.as_ref(), tag.as_deref() == Some("tool_call"));
        let text = notification.params_text();
        if let Some(call) =
            update.as_ref().filter(|_| is_call).and_then(|update| text_of(Some(update), "toolCallId"))
            && !self.is_known(session.as_deref(), &call)
        {
            self.started.push((session.clone(), call));
        }
        let problem = if is_v1 { self.update_v1(text) } else { self.update_v2(text) };
        if let (Some(problem), Some(params)) = (problem, params) {
            self.conversation.note_unreadable(params, &problem);
        }
    }

    fn is_known(&self, session: Option<&str>, call: &str) -> bool {
        self.conversation.session(session).is_some_and(|session| session.tool_call_outline(call).is_some())
    }

    /// Returns whether a tool call has the shape of version 1: by its content, else by earlier messages.
    fn is_v1_call(&mut self, call: Option<&Raw<'_>>, is_v1_tag: bool) -> bool {
        let content = call.and_then(|call| call.get("content"));
        let diffs = || {
            let items = content.iter().flat_map(Raw::items).map(Raw::into_owned);
            items.filter(|item| text_of(Some(item), "type").as_deref() == Some("diff"))
        };
        if is_v1_tag || diffs().any(|diff| diff.get("newText").is_some() && diff.get("changes").is_none()) {
            self.version.get_or_insert(Version::V1);
            return true;
        }
        self.version == Some(Version::V1) && !diffs().any(|diff| diff.get("changes").is_some())
    }

    fn update_v1(&mut self, text: &str) -> Option<String> {
        let read = self.version_1().and_then(|read| (read.update)(text));
        match read {
            Ok((params, problem)) => self.apply(&params, problem),
            Err(problem) => Some(problem),
        }
    }

    fn update_v2(&mut self, text: &str) -> Option<String> {
        match v2::UpdateSessionNotification::decode_tolerant(text, WireFormat::Any) {
            Ok((params, left_out)) => self.apply(&params, first_problem(&left_out)),
            Err(error) => Some(error.to_string()),
        }
    }

    fn apply(
        &mut self,
        params: &v2::UpdateSessionNotification<'_>,
        problem: Option<String>,
    ) -> Option<String> {
        match self.conversation.apply_update(Some(&params.session_id), &params.update) {
            Ok(_) => problem,
            Err(error) => Some(error.to_string()),
        }
    }

    fn version_1(&self) -> Result<Version1, String> {
        self.version_1.ok_or_else(|| "it is a version 1 message".to_owned())
    }

    // ----- requests

    fn ask(&mut self, request: &Request<'_>, at: Moment) -> Question {
        let params = request.params.as_ref();
        let text = request.params_text();
        let read = if is_v1_question(request) {
            self.version.get_or_insert(Version::V1);
            self.version_1().and_then(|read| (read.permission)(text))
        } else {
            self.read_v2(text)
        };
        let (asked, mut problem) = match read {
            Ok(read) => read,
            Err(problem) => return self.malformed(Some(&request.id), params, &problem),
        };
        let session = self.conversation.session(Some(&asked.session_id));
        // Without answers, as in a list of requests, they need not be tracked.
        let is_full = session.is_some_and(|session| session.pending_permissions().nth(MAX_WAITING).is_some());
        let question = AgentQuestion::Permission(asked);
        let folded = if is_full { None } else { Some(self.conversation.ask(&request.id, &question, at)) };
        let AgentQuestion::Permission(asked) = question else {
            return self.malformed(Some(&request.id), params, "it is not a permission request");
        };
        let session = asked.session_id.to_string();
        let call = match &asked.subject {
            Some(v2::RequestPermissionSubject::ToolCall(subject)) => Some(&subject.tool_call),
            _ => None,
        };
        if !matches!(folded, Some(Ok(_))) {
            // The requested action must be evaluated anyway. A duplicate id does not change it.
            match folded {
                None | Some(Err(ConversationError::Refused(SessionError::IdInUse { .. }))) => {}
                Some(outcome) => problem = problem.or(outcome.err().map(|error| error.to_string())),
            }
            if let Some(call) = call {
                drop(self.conversation.apply_update(Some(&session), &call.clone().into()));
            }
        }
        self.question(&request.id, asked, problem.as_deref())
    }

    /// Returns a question that was decoded and folded.
    fn question(
        &self,
        id: &RequestId<'_>,
        asked: v2::RequestPermissionRequest<'_>,
        problem: Option<&str>,
    ) -> Question {
        let session = asked.session_id.to_string();
        let tool_call = match &asked.subject {
            Some(v2::RequestPermissionSubject::ToolCall(subject)) => {
                Some(subject.tool_call.tool_call_id.to_string())
            }
            Some(v2::RequestPermissionSubject::Command(subject)) => {
                subject.tool_call_id.as_ref().map(ToString::to_string)
            }
            _ => None,
        };
        let scene = self.scene(Some(&session));
        let subject = match self.conversation.session(Some(&session)) {
            Some(folded) => Subject::of(folded, asked.subject.as_ref(), problem, &scene),
            None => Subject::unknown(&scene, "there are too many sessions"),
        };
        let options = asked.options.into_iter().map(Wire::into_owned).collect();
        Question { session: Some(session), id: Some(id.clone().into_owned()), tool_call, subject, options }
    }

    fn read_v2<'t>(
        &self,
        text: &'t str,
    ) -> Result<(v2::RequestPermissionRequest<'t>, Option<String>), String> {
        match self.conversation.decode_question("session/request_permission", text) {
            Some(Ok((AgentQuestion::Permission(request), left_out))) => {
                Ok((request, first_problem(&left_out)))
            }
            Some(Err(error)) => Err(error.to_string()),
            _ => Err("it is not a permission request".to_owned()),
        }
    }

    /// Returns a question for a malformed request: everything found in it can be denied.
    fn malformed(&mut self, id: Option<&RequestId<'_>>, params: Option<&Raw<'_>>, problem: &str) -> Question {
        let session = text_of(params, "sessionId");
        let scene = self.scene(session.as_deref());
        let about = params.and_then(|params| params.get("subject")).map(Raw::into_owned);
        let call = about.as_ref().and_then(|about| about.get("toolCall")).map(Raw::into_owned);
        let call = call.or_else(|| params.and_then(|params| params.get("toolCall")).map(Raw::into_owned));
        let tool_call = text_of(call.as_ref(), "toolCallId");
        let command = text_of(about.as_ref(), "command");
        let subject = match (call, command) {
            (Some(call), _) => self.malformed_call(session.as_deref(), &call, problem, &scene),
            (None, Some(line)) => Subject::of_line(&line, &scene).with_doubt(problem),
            (None, None) => Subject::unknown(&scene, format!("the request cannot be read: {problem}")),
        };
        Question {
            session,
            id: id.map(|id| id.clone().into_owned()),
            tool_call,
            subject,
            options: Vec::new(),
        }
    }

    fn malformed_call(
        &mut self,
        session: Option<&str>,
        call: &Raw<'_>,
        problem: &str,
        scene: &RequestContext,
    ) -> Subject {
        let mut named = call.as_str().to_owned();
        if call.is_object() && call.get("toolCallId").is_none() {
            // Adds the missing id, so that the rest can be decoded.
            let is_empty = call.entries().next().is_none();
            let key = if is_empty { "{\"toolCallId\":\"?\"" } else { "{\"toolCallId\":\"?\"," };
            named = named.trim_start().replacen('{', key, 1);
        }
        let update = if self.is_v1_call(Some(call), false) {
            let update = named.trim_start().replacen('{', r#"{"sessionUpdate":"tool_call_update","#, 1);
            let read = self
                .version_1()
                .and_then(|read| (read.update)(&format!(r#"{{"sessionId":"","update":{update}}}"#)));
            read.ok().map(|(params, _)| params.update)
        } else {
            let read = v2::ToolCallUpdate::decode_tolerant(&named, WireFormat::Any).ok();
            read.map(|(call, _)| v2::SessionUpdate::ToolCallUpdate(Box::new(call)))
        };
        let Some(v2::SessionUpdate::ToolCallUpdate(update)) = update else {
            return Subject::unknown(scene, format!("the request cannot be read: {problem}"));
        };
        // Applied to a copy of the session, so that a refused request changes nothing.
        let mut copy = self.conversation.clone();
        let about = v2::ToolCallPermissionSubject::new((*update).clone());
        let about = v2::RequestPermissionSubject::ToolCall(Box::new(about));
        drop(copy.apply_update(session, &v2::SessionUpdate::ToolCallUpdate(update)));
        match copy.session(session) {
            Some(folded) => Subject::of(folded, Some(&about), Some(problem), scene),
            None => Subject::unknown(scene, problem),
        }
    }
}

/// Returns whether a permission request is of version 1.
fn is_v1_question(request: &Request<'_>) -> bool {
    let params = request.params.as_ref();
    params.is_some_and(|params| params.get("toolCall").is_some() && params.get("subject").is_none())
}

fn first_problem(left_out: &[Diagnostic]) -> Option<String> {
    left_out.iter().find(|problem| !problem.kept).map(ToString::to_string)
}

fn text_of(object: Option<&Raw<'_>>, key: &str) -> Option<String> {
    object?.text(key)
}
