//! The messages of a connection, of either version, read for what they ask.

use std::collections::HashMap;

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::{
    BATCH_LIMIT, Expected, Message, Notification, Request, RequestId, Response, batch_entries, is_batch,
};
use switchboard_acp::{Correlator, Diagnostic, Extra, Raw, Text, Version, Wire, WireFormat, v2};
use switchboard_session::{
    AgentQuestion, Conversation, ConversationError, Decoded, Moment, SessionError, Side,
};

use crate::subject::{Scene, Subject};

/// How many requests and sessions are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// Of how many questions at a time it is followed what becomes of them.
const MAX_WAITING: usize = 200;

/// A request for a permission, with what it asks for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Question {
    /// The session that asks.
    pub session: Option<String>,
    /// The id of the request.
    pub id: Option<RequestId<'static>>,
    /// The tool call that it is about.
    pub tool_call: Option<String>,
    /// What it asks for.
    pub subject: Subject,
    /// What can be answered; of a malformed request, nothing.
    pub options: Vec<v2::PermissionOption<'static>>,
}

/// A message of version 1 as version 2 has it, with the first thing in it that was malformed and left out.
type Translated<T> = Result<(T, Option<String>), String>;

/// Reads the parameters of messages in version 1 and translates them to version 2, in which everything is judged.
#[derive(Debug, Clone, Copy)]
pub struct Version1 {
    /// Reads the parameters of `session/update`.
    pub update: fn(&str) -> Translated<v2::UpdateSessionNotification<'static>>,
    /// Reads the parameters of `session/request_permission`.
    pub permission: fn(&str) -> Translated<v2::RequestPermissionRequest<'static>>,
}

/// Reads the messages of one connection and tells what is asked.
///
/// It takes what either side sends, also without a handshake; then the messages themselves show their version. Those of
/// version 1 need a [translation](QuestionReader::reading_version_1). It keeps tool calls in outline and nothing of what they
/// produce. Every `session/request_permission` becomes a [`Question`], also a malformed one.
#[derive(Debug)]
pub struct QuestionReader {
    conversation: Conversation,
    root: Option<String>,
    otherwise: String,
    /// The version, where the handshake told or a message showed it.
    version: Option<Version>,
    agent: Option<String>,
    /// Whether the caller said who the agent is.
    is_agent_told: bool,
    open: Correlator<Call>,
    cwds: HashMap<String, String>,
    /// The calls that the last line was the first to tell of.
    begun: Vec<(Option<String>, String)>,
    version_1: Option<Version1>,
}

#[derive(Debug)]
enum Call {
    Initialize,
    New { cwd: Option<String> },
}

impl QuestionReader {
    /// Nothing has been said yet. The root is what `$root` stands for.
    pub fn new(root: impl Into<String>) -> Self {
        QuestionReader { root: Some(root.into()), ..QuestionReader::without_root("") }
    }

    /// The same, where each session's own directory is the root; where that is not known, it is `otherwise`.
    pub fn without_root(otherwise: impl Into<String>) -> Self {
        QuestionReader {
            otherwise: otherwise.into(),
            conversation: Conversation::new(WireFormat::Any).with_tool_calls_alone(),
            root: None,
            version: None,
            agent: None,
            is_agent_told: false,
            open: Correlator::new(MAX_REMEMBERED),
            cwds: HashMap::new(),
            begun: Vec::new(),
            version_1: None,
        }
    }

    /// The same, which also reads messages of version 1.
    #[must_use]
    pub fn reading_version_1(mut self, read: Version1) -> Self {
        self.version_1 = Some(read);
        self
    }

    /// The same for a connection that may last: it keeps the latest tool calls alone, and questions until they are answered.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.conversation = Conversation::new(WireFormat::Any).without_transcript().with_tool_call_outlines();
        self
    }

    /// Says who the agent is, whatever it calls itself.
    pub fn set_agent(&mut self, name: impl Into<String>) {
        (self.agent, self.is_agent_told) = (Some(name.into()), true);
    }

    /// The agent's name.
    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// What has been said, as far as it concerns tool calls and permissions.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The same, to be told what no message tells: who answers.
    pub fn conversation_mut(&mut self) -> &mut Conversation {
        &mut self.conversation
    }

    /// The tool calls that the line read last was the first to tell of, by session and id; each is given once.
    pub fn take_begun(&mut self) -> impl Iterator<Item = (Option<String>, String)> {
        self.begun.drain(..)
    }

    /// What a tool call does that nobody was asked about.
    pub fn subject_of_call(&self, session: Option<&str>, call: &str) -> Option<Subject> {
        let about = v2::ToolCallPermissionSubject::new(v2::ToolCallUpdate::new(call));
        let about = v2::RequestPermissionSubject::ToolCall(Box::new(about));
        let folded = self.conversation.session(session)?;
        Some(Subject::of(folded, Some(&about), None, &self.scene(session)))
    }

    /// Where a session asks.
    pub fn scene(&self, session: Option<&str>) -> Scene {
        let cwd = session.and_then(|session| self.cwds.get(session)).cloned();
        let root = self.root.clone().or_else(|| cwd.clone()).unwrap_or_else(|| self.otherwise.clone());
        Scene { root, cwd, agent: self.agent.clone() }
    }

    /// Reads a line: a message, or several in an array. Gives what they ask.
    pub fn read(&mut self, line: &str, from: Option<Side>, at: Moment) -> Vec<Question> {
        let mut questions = Vec::new();
        self.begun.clear();
        if !is_batch(line) {
            self.read_one(line, from, at, &mut questions);
        } else {
            match batch_entries(line, BATCH_LIMIT) {
                Ok(entries) => {
                    entries.into_iter().for_each(|entry| self.read_one(entry, from, at, &mut questions));
                }
                Err(_) => questions.extend(self.asked_unreadably(line)),
            }
        }
        questions
    }

    /// What a line asks that cannot be read and seems to ask something.
    fn asked_unreadably(&self, line: &str) -> Option<Question> {
        line.contains("request_permission").then(|| self.unreadable("the line cannot be read"))
    }

    /// A request of which nothing can be read.
    pub fn unreadable(&self, reason: &str) -> Question {
        let subject = Subject::unknown(&self.scene(None), reason);
        Question { session: None, id: None, tool_call: None, subject, options: Vec::new() }
    }

    /// Takes an update that is certainly told as version 2 does it, which most are. Says whether it was one.
    fn read_update(&mut self, text: &str) -> bool {
        let Ok(Decoded { message: Expected::Params(told), left_out }) = self.conversation.decode(text) else {
            return false;
        };
        let is_whole = left_out.is_empty();
        match &told.update {
            v2::SessionUpdate::ToolCallUpdate(call) if is_whole && self.version != Some(Version::V1) => {
                let (session, call) = (&*told.session_id, &*call.tool_call_id);
                if !self.is_known(Some(session), call) {
                    self.begun.push((Some(session.to_owned()), call.to_owned()));
                }
            }
            v2::SessionUpdate::ToolCallContentChunk(_) | v2::SessionUpdate::TerminalUpdate(_) if is_whole => {
            }
            v2::SessionUpdate::ToolCallUpdate(_)
            | v2::SessionUpdate::ToolCallContentChunk(_)
            | v2::SessionUpdate::TerminalUpdate(_) => return false,
            // Version 1 calls the first one so.
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
                // It has no answer, so it cannot be one; but nothing that is asked may go unseen.
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
                    return questions.extend(self.asked_unreadably(text));
                };
                if raw.get("method").is_some() && raw.get("jsonrpc").is_none() {
                    // Written by hand, or by who holds the version to be known.
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
                if let Some(name) = name.filter(|_| !self.is_agent_told) {
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

    /// Only what tool calls consist of is kept.
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
            self.begun.push((session.clone(), call));
        }
        let problem = if is_v1 { self.update_v1(text) } else { self.update_v2(text) };
        if let (Some(problem), Some(params)) = (problem, params) {
            self.conversation.note_unreadable(params, &problem);
        }
    }

    fn is_known(&self, session: Option<&str>, call: &str) -> bool {
        self.conversation.session(session).is_some_and(|session| session.tool_call_outline(call).is_some())
    }

    /// Whether a call is told as version 1 does it: by its content, else by what was seen before.
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
        self.version_1.ok_or_else(|| "it is a message of version 1".to_owned())
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
        // Where nobody answers, as in a list of requests, it need not be known who would.
        let is_full = session.is_some_and(|session| session.pending_permissions().nth(MAX_WAITING).is_some());
        let question = AgentQuestion::Permission(asked);
        let folded = if is_full { None } else { Some(self.conversation.ask(&request.id, &question, at)) };
        let AgentQuestion::Permission(asked) = question else {
            return self.malformed(Some(&request.id), params, "it is no permission");
        };
        let session = asked.session_id.to_string();
        let call = match &asked.subject {
            Some(v2::RequestPermissionSubject::ToolCall(subject)) => Some(&subject.tool_call),
            _ => None,
        };
        if !matches!(folded, Some(Ok(_))) {
            // What it asks for must be seen all the same. That its id is in use is no matter of what it asks.
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

    /// A request that was read and taken in, with what it asks for.
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
            _ => Err("it is no permission".to_owned()),
        }
    }

    /// A request that cannot be read as one: whatever can be found in it may be denied.
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
        scene: &Scene,
    ) -> Subject {
        let mut named = call.as_str().to_owned();
        if call.is_object() && call.get("toolCallId").is_none() {
            // So that the rest can be read.
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
        // Beside the session, so that a request that is refused changes nothing.
        let mut beside = self.conversation.clone();
        let about = v2::ToolCallPermissionSubject::new((*update).clone());
        let about = v2::RequestPermissionSubject::ToolCall(Box::new(about));
        drop(beside.apply_update(session, &v2::SessionUpdate::ToolCallUpdate(update)));
        match beside.session(session) {
            Some(folded) => Subject::of(folded, Some(&about), Some(problem), scene),
            None => Subject::unknown(scene, problem),
        }
    }
}

/// Whether a request for a permission is one of version 1.
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
