//! A client of version 2 with an agent of version 1.

mod connection;
mod memory;
mod messages;
mod misc;
mod permissions;
mod served;
mod sessions;
mod tool_calls;
mod turn;

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_protocol::rpc::{Expected, Message, Notification, Request, RequestId, Response};
use switchboard_protocol::{Diagnostic, Extra, Wire, WireFormat, v1, v2};

use self::messages::Run;
use self::served::Terminals;
use self::tool_calls::ToolCalls;
use self::turn::Turn;
use crate::calls::Calls;
use crate::loss::Severity;
use crate::own_ids::OwnIds;
use crate::sessions::Sessions;
use crate::shared::{Output, Shared, session_of};
use crate::{Moment, Side};

/// What the bridge asked of the agent.
#[derive(Debug)]
enum ToAgent {
    Initialize { id: RequestId<'static> },
    NewSession { id: RequestId<'static>, roots: Vec<String> },
    OldSession { id: RequestId<'static>, session: String, replays: bool },
    SetMode { id: RequestId<'static>, session: String, mode: String },
    SetOption { id: RequestId<'static>, session: String },
    Prompt { session: String },
    Close { id: RequestId<'static>, session: String },
    Other { id: RequestId<'static> },
}

impl ToAgent {
    /// The client's own id of the request, where it is the client's.
    fn original(&self) -> Option<&RequestId<'static>> {
        match self {
            ToAgent::Initialize { id }
            | ToAgent::NewSession { id, .. }
            | ToAgent::OldSession { id, .. }
            | ToAgent::SetMode { id, .. }
            | ToAgent::SetOption { id, .. }
            | ToAgent::Close { id, .. }
            | ToAgent::Other { id } => Some(id),
            ToAgent::Prompt { .. } => None,
        }
    }
}

/// What the bridge asked of the client.
#[derive(Debug)]
enum ToClient {
    Permission { id: RequestId<'static>, session: String, offered: Vec<String> },
    Elicitation { id: RequestId<'static> },
    Other { id: RequestId<'static> },
}

impl ToClient {
    fn original(&self) -> &RequestId<'static> {
        match self {
            ToClient::Permission { id, .. } | ToClient::Elicitation { id } | ToClient::Other { id } => id,
        }
    }
}

/// What the agent said it can do.
#[derive(Debug, Default, Clone)]
struct Support {
    load: bool,
    list: bool,
    resume: bool,
    close: bool,
    delete: bool,
    logout: bool,
}

/// What is remembered of a session.
#[derive(Debug, Default)]
struct Session {
    roots: Vec<String>,
    turn: Option<Turn>,
    held: VecDeque<Request<'static>>,
    run: Option<Run>,
    /// How many ids were made for messages, by role.
    minted: HashMap<messages::Role, u64>,
    /// The id of the user message that was counted last, of those that have ids of their own.
    counted_user: Option<String>,
    own_messages: OwnIds,
    /// Set apart from ids of earlier runs, which the client may still have.
    salt: String,
    calls: ToolCalls,
    options: Vec<v2::SessionConfigOption<'static>>,
    /// The option that stands for the agent's modes.
    mode_option: Option<String>,
    asks: bool,
    /// History comes that the client did not ask for.
    swallows: bool,
    /// Display terminals that the client knows of.
    terminals: VecDeque<String>,
    /// Terminals that a call shows and nobody knows.
    missing_terminals: VecDeque<String>,
    /// The request to close the session waits for the end of the turn.
    closing: Option<RequestId<'static>>,
    warned_of_files: bool,
    journal: Journal,
}

/// What the client has been told, for agents that cannot replay it.
#[derive(Debug, Default)]
struct Journal {
    lines: VecDeque<String>,
    bytes: usize,
    incomplete: bool,
}

/// How much of a session is kept for agents that cannot replay it.
const JOURNAL: usize = 8 * 1024 * 1024;

impl Journal {
    fn add(&mut self, line: &str) {
        self.bytes += line.len();
        self.lines.push_back(line.to_owned());
        while self.bytes > JOURNAL
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
            self.incomplete = true;
        }
    }
}

/// Translates between a client of version 2 and an agent of version 1.
#[derive(Debug)]
pub(crate) struct V2ToV1 {
    sessions: Sessions<Session>,
    to_agent: Calls<ToAgent>,
    to_client: Calls<ToClient>,
    support: Support,
    forms: bool,
    urls: bool,
    terminals: Terminals,
    /// The agent's answer in version 1 to a version 2 handshake, in case it does not take a second one.
    first_answer: Option<String>,
}

/// Sends an update to the client, in its dialect.
fn tell(id: &str, session: &mut Session, update: v2::SessionUpdate<'_>, keeps: bool, shared: &mut Shared) {
    let before = shared.output.len();
    shared.update_v2(id, update);
    for output in shared.output.get(before..).unwrap_or_default().iter().filter(|_| keeps) {
        if let Output::Line { line, .. } = output {
            session.journal.add(line);
        }
    }
}

impl V2ToV1 {
    pub(crate) fn new(shared: &mut Shared) -> Self {
        shared.peers.old = Some(Side::Agent);
        let limits = &shared.options.limits;
        V2ToV1 {
            sessions: Sessions::new(limits.sessions),
            to_agent: Calls::new(Side::Agent, limits.requests),
            to_client: Calls::new(Side::Client, limits.requests),
            support: Support::default(),
            forms: false,
            urls: false,
            terminals: Terminals::default(),
            first_answer: None,
        }
    }

    pub(crate) fn handle(&mut self, from: Side, line: &str, shared: &mut Shared) {
        match from {
            Side::Agent => {
                match Expected::<v1::SessionNotification<'_>>::decode_tolerant(line, WireFormat::V1) {
                    Ok((Expected::Params(params), left_out)) => {
                        self.update(params, ("", &left_out), &Extra::new(), shared);
                    }
                    Ok((Expected::Other(message), _)) => self.agent_message(message, shared),
                    // Where only the parameters are at fault, it is told whose they are.
                    Err(_) => match Message::decode(line, WireFormat::Any) {
                        Ok(message) => self.agent_message(message, shared),
                        Err(error) => crate::bridge::refuse_line(shared, from, line, &error),
                    },
                }
            }
            Side::Client => match Message::decode(line, WireFormat::Any) {
                Ok(Message::Request(request)) => self.client_request(&request, shared),
                Ok(Message::Notification(notification)) => self.client_notification(&notification, shared),
                Ok(Message::Response(response)) => self.client_response(response, shared),
                Err(error) => crate::bridge::refuse_line(shared, from, line, &error),
            },
        }
    }

    fn agent_message(&mut self, message: Message<'_>, shared: &mut Shared) {
        match message {
            Message::Notification(notification) => self.agent_notification(&notification, shared),
            Message::Request(request) => self.agent_request(&request, shared),
            Message::Response(response) => self.agent_response(response, shared),
        }
    }

    fn client_request(&mut self, request: &Request<'_>, shared: &mut Shared) {
        shared.peers.learn_from_client(request);
        let outcome = match &*request.method {
            "initialize" => self.initialize(request, shared),
            "auth/login" => {
                self.pass(request, "authenticate", shared);
                Ok(())
            }
            "auth/logout" if self.support.logout => {
                self.pass(request, "logout", shared);
                Ok(())
            }
            "auth/logout" => Err(missing(request, "the agent cannot log out")),
            "session/new" => self.new_session(request, shared),
            "session/resume" => self.resume_session(request, shared),
            "session/list" => self.list_sessions(request, shared),
            "session/close" => self.close_session(request, shared),
            "session/delete" if !self.support.delete => {
                Err(missing(request, "the agent cannot delete sessions"))
            }
            "session/set_config_option" => self.set_option(request, shared),
            "session/prompt" => self.prompt(request, shared),
            "tool_call/cancel" => Err(crate::Error::unrepresentable(
                "tool_call/cancel",
                "a version 1 agent can cancel a whole turn only",
            )),
            "terminal/cancel" => self.cancel_terminal(request, shared),
            method => {
                self.pass(request, method, shared);
                Ok(())
            }
        };
        if let Err(error) = outcome {
            shared.fail(Side::Client, &request.id, error.to_rpc());
        }
    }

    fn pass(&mut self, request: &Request<'_>, method: &str, shared: &mut Shared) {
        let purpose = ToAgent::Other { id: request.id.clone().into_owned() };
        self.to_agent.pass(request, method, purpose, shared);
    }

    fn client_notification(&mut self, notification: &Notification<'_>, shared: &mut Shared) {
        match &*notification.method {
            "session/cancel" => self.cancel(notification, shared),
            "$/cancel_request" => self.cancel_request(Side::Client, notification, shared),
            _ => shared.pass_unless_odd(Side::Client, notification),
        }
    }

    fn client_response(&mut self, response: Response<'_>, shared: &mut Shared) {
        match self.to_client.take(&response.id) {
            Some(ToClient::Permission { id, session, offered }) => {
                self.permission_answered(&id, &session, &offered, response, shared);
            }
            Some(ToClient::Elicitation { id }) => self.elicitation_answered(&id, response, shared),
            Some(ToClient::Other { id }) => shared.pass_answer(Side::Agent, &id, response),
            None => shared.lose_late_answer(Side::Client),
        }
    }

    fn agent_request(&mut self, request: &Request<'_>, shared: &mut Shared) {
        if let Some(session) = session_of(request.params.as_ref()) {
            self.sign_of_life(&session, shared);
        }
        match &*request.method {
            "session/request_permission" => self.permission(request, shared),
            "elicitation/create" => {
                if let Err(error) = self.elicitation(request, shared) {
                    shared.fail(Side::Agent, &request.id, error.to_rpc());
                }
            }
            "fs/read_text_file" | "fs/write_text_file" => self.file_request(request, shared),
            "terminal/create"
            | "terminal/output"
            | "terminal/wait_for_exit"
            | "terminal/kill"
            | "terminal/release" => self.terminal_request(request, shared),
            method => {
                let purpose = ToClient::Other { id: request.id.clone().into_owned() };
                self.to_client.pass(request, method, purpose, shared);
            }
        }
    }

    fn agent_notification(&mut self, notification: &Notification<'_>, shared: &mut Shared) {
        match &*notification.method {
            "session/update" => {
                let text = notification.params_text();
                match v1::SessionNotification::decode_tolerant(text, WireFormat::V1) {
                    Ok((params, left_out)) => {
                        self.update(params, ("/params", &left_out), &notification.extra, shared);
                    }
                    Err(error) => shared.lose(
                        session_of(notification.params.as_ref()).as_deref(),
                        "session/update",
                        "/params",
                        error.to_string(),
                        Severity::Major,
                        Side::Client,
                    ),
                }
            }
            "$/cancel_request" => self.cancel_request(Side::Agent, notification, shared),
            _ => shared.pass_unless_odd(Side::Agent, notification),
        }
    }

    fn agent_response(&mut self, response: Response<'_>, shared: &mut Shared) {
        let Some(purpose) = self.to_agent.take(&response.id) else {
            return shared.lose_late_answer(Side::Agent);
        };
        match purpose {
            ToAgent::Initialize { id } => self.initialized(&id, response, shared),
            ToAgent::NewSession { id, roots } => self.session_made(&id, roots, &response, shared),
            ToAgent::OldSession { id, session, replays } => {
                self.session_back(&id, &session, replays, &response, shared);
            }
            ToAgent::SetMode { id, session, mode } => {
                self.mode_set(&id, &session, &mode, &response, shared);
            }
            ToAgent::SetOption { id, session } => self.option_set(&id, &session, &response, shared),
            ToAgent::Prompt { session } => self.prompt_answered(&session, response, shared),
            ToAgent::Close { id, session } => self.session_closed(&id, &session, response, shared),
            ToAgent::Other { id } => shared.pass_answer(Side::Client, &id, response),
        }
    }

    fn update(
        &mut self,
        params: v1::SessionNotification<'_>,
        (root, left_out): (&str, &[Diagnostic]),
        envelope: &Extra<'_>,
        shared: &mut Shared,
    ) {
        use v1::SessionUpdate as Update;
        let v1::SessionNotification { session_id, update, meta, extra } = params;
        let id = &*session_id;
        shared.report_left_out(Some(id), "session/update", root, left_out, Side::Client);
        let is_work = !matches!(
            update,
            Update::AvailableCommandsUpdate(_)
                | Update::CurrentModeUpdate(_)
                | Update::ConfigOptionUpdate(_)
                | Update::SessionInfoUpdate(_)
                | Update::UsageUpdate(_)
        );
        // History that the client did not ask for. What the session is now, it has to know all the same.
        let is_history = matches!(
            update,
            Update::UserMessageChunk(_)
                | Update::AgentMessageChunk(_)
                | Update::AgentThoughtChunk(_)
                | Update::ToolCall(_)
                | Update::ToolCallUpdate(_)
                | Update::CompactionUpdate(_)
                | Update::CompactionSummaryChunk(_)
        );
        if is_history && self.sessions.get(id).is_some_and(|session| session.swallows) {
            return;
        }
        if is_work {
            self.sign_of_life(id, shared);
        }
        let keeps = !self.support.load;
        let session = self.sessions.open(id);
        shared.begin_update(id, meta, extra, envelope);
        match update {
            Update::UserMessageChunk(chunk) => session.chunk(messages::Role::User, id, chunk, keeps, shared),
            Update::AgentMessageChunk(chunk) => {
                session.chunk(messages::Role::Agent, id, chunk, keeps, shared);
            }
            Update::AgentThoughtChunk(chunk) => {
                session.chunk(messages::Role::Thought, id, chunk, keeps, shared);
            }
            Update::ToolCall(call) => session.tool_call(id, *call, &self.terminals, keeps, shared),
            Update::ToolCallUpdate(update) => {
                session.tool_call_update(id, *update, false, &self.terminals, keeps, shared);
            }
            other => session.other_update(id, other, keeps, shared),
        }
        shared.end_update();
    }

    pub(crate) fn tick(&mut self, shared: &mut Shared) {
        let now = shared.now;
        let due: Vec<String> = self
            .sessions
            .iter()
            .filter(|(_, session)| {
                session.turn.as_ref().is_some_and(|turn| turn.due().is_some_and(|due| due <= now))
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in due {
            self.sign_of_life(&id, shared);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.sessions.iter().filter_map(|(_, session)| session.turn.as_ref()?.due()).min()
    }

    /// Writes everything that was held back.
    pub(crate) fn finish(&mut self, shared: &mut Shared) {
        for id in self.sessions.ids() {
            self.sign_of_life(&id, shared);
            let held = self.sessions.get_mut(&id).map(|session| std::mem::take(&mut session.held));
            for _ in held.unwrap_or_default() {
                shared.lose_waiting_prompt(&id);
            }
        }
    }
}

fn missing(request: &Request<'_>, reason: &str) -> crate::Error {
    crate::Error::MethodMissing { method: request.method.clone().into_owned(), reason: reason.to_owned() }
}
