//! A client of version 1 with an agent of version 2.

mod connection;
mod memory;
mod messages;
mod misc;
mod permissions;
mod sessions;
mod terminals;
mod tool_calls;
mod turn;

use std::collections::VecDeque;

use switchboard_protocol::rpc::{Expected, Message, Notification, Request, RequestId, Response};
use switchboard_protocol::{Diagnostic, Extra, Wire, WireFormat, v2};

pub(crate) use self::connection::cancel;
use self::messages::Messages;
use self::tool_calls::ToolCalls;
use self::turn::Turn;
use crate::calls::Calls;
use crate::loss::Severity;
use crate::own_ids::OwnIds;
use crate::sessions::Sessions;
use crate::shared::Shared;
use crate::terminals::Terminals;
use crate::{Moment, Side};

/// What the bridge asked of the agent.
#[derive(Debug)]
enum ToAgent {
    Initialize {
        id: RequestId<'static>,
    },
    NewSession {
        id: RequestId<'static>,
        roots: Vec<String>,
    },
    /// `session/load` and `session/resume`.
    OldSession {
        id: RequestId<'static>,
        session: String,
    },
    SetMode {
        id: RequestId<'static>,
        session: String,
    },
    SetOption {
        id: RequestId<'static>,
        session: String,
    },
    Prompt {
        id: RequestId<'static>,
        session: String,
    },
    Close {
        id: RequestId<'static>,
        session: String,
    },
    /// Its answer passes as it comes.
    Other {
        id: RequestId<'static>,
    },
}

impl ToAgent {
    /// The client's own id of the request.
    fn original(&self) -> &RequestId<'static> {
        match self {
            ToAgent::Initialize { id }
            | ToAgent::NewSession { id, .. }
            | ToAgent::OldSession { id, .. }
            | ToAgent::SetMode { id, .. }
            | ToAgent::SetOption { id, .. }
            | ToAgent::Prompt { id, .. }
            | ToAgent::Close { id, .. }
            | ToAgent::Other { id } => id,
        }
    }
}

/// What the bridge asked of the client.
#[derive(Debug)]
enum ToClient {
    Permission(permissions::Asked),
    Other { id: RequestId<'static> },
}

impl ToClient {
    fn original(&self) -> &RequestId<'static> {
        match self {
            ToClient::Permission(asked) => &asked.id,
            ToClient::Other { id } => id,
        }
    }
}

/// What the client said it can do.
#[derive(Debug, Default, Clone)]
struct Support {
    booleans: bool,
    notices: bool,
    compaction: bool,
    forms: bool,
    urls: bool,
}

/// What is remembered of a session.
#[derive(Debug, Default)]
struct Session {
    roots: Vec<String>,
    turn: Option<Turn>,
    waiting: VecDeque<Request<'static>>,
    messages: Messages,
    calls: ToolCalls,
    /// Calls that exist only to carry a question.
    own_calls: OwnIds,
    terminals: Terminals,
    plans: Vec<(String, Vec<v2::PlanEntry<'static>>)>,
    options: Vec<v2::SessionConfigOption<'static>>,
    /// Requests of the client that may replay history.
    replays: u32,
    /// Whether it has been said that not all of it is remembered.
    reported: bool,
}

/// Translates between a client of version 1 and an agent of version 2.
#[derive(Debug)]
pub(crate) struct V1ToV2 {
    sessions: Sessions<Session>,
    to_agent: Calls<ToAgent>,
    to_client: Calls<ToClient>,
    support: Support,
    synthetic: u64,
    /// Whether prompts may wait for the end of a turn.
    waits: bool,
}

impl V1ToV2 {
    pub(crate) fn new(shared: &mut Shared) -> Self {
        shared.peers.old = Some(Side::Client);
        let limits = &shared.options.limits;
        V1ToV2 {
            sessions: Sessions::new(limits.sessions),
            to_agent: Calls::new(Side::Agent, limits.requests),
            to_client: Calls::new(Side::Client, limits.requests),
            support: Support::default(),
            synthetic: 0,
            waits: false,
        }
    }

    pub(crate) fn handle(&mut self, from: Side, line: &str, shared: &mut Shared) {
        match from {
            Side::Agent => {
                match Expected::<v2::UpdateSessionNotification<'_>>::decode_tolerant(line, WireFormat::Any) {
                    Ok((Expected::Params(params), left_out)) => {
                        self.update(params, ("", &left_out), &Extra::new(), shared);
                    }
                    Ok((Expected::Other(Message::Request(request)), _)) => {
                        self.agent_request(&request, shared);
                    }
                    Ok((Expected::Other(Message::Notification(notification)), _)) => {
                        self.agent_notification(&notification, shared);
                    }
                    Ok((Expected::Other(Message::Response(response)), _)) => {
                        self.agent_response(response, shared);
                    }
                    Err(error) => crate::bridge::refuse_line(shared, from, line, &error),
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

    fn client_request(&mut self, request: &Request<'_>, shared: &mut Shared) {
        let outcome = match &*request.method {
            "initialize" => self.initialize(request, shared),
            "session/new" => self.new_session(request, shared),
            "session/load" => self.load_session(request, shared),
            "session/resume" => self.resume_session(request, shared),
            "session/close" => self.close_session(request, shared),
            "session/set_mode" => self.set_mode(request, shared),
            "session/set_config_option" => self.set_option(request, shared),
            "session/prompt" => self.prompt(request, shared),
            method => {
                let method = match method {
                    "authenticate" => "auth/login",
                    "logout" => "auth/logout",
                    other => other,
                };
                let purpose = ToAgent::Other { id: request.id.clone().into_owned() };
                self.to_agent.pass(request, method, purpose, shared);
                Ok(())
            }
        };
        if let Err(error) = outcome {
            shared.fail(Side::Client, &request.id, error.to_rpc());
        }
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
            Some(ToClient::Permission(asked)) => self.permission_answered(&asked, response, shared),
            Some(ToClient::Other { id }) => shared.pass_answer(Side::Agent, &id, response),
            None => shared.lose_late_answer(Side::Client),
        }
    }

    fn agent_request(&mut self, request: &Request<'_>, shared: &mut Shared) {
        match &*request.method {
            "session/request_permission" => self.permission(request, shared),
            "elicitation/create" => {
                if let Err(error) = self.elicitation(request, shared) {
                    shared.fail(Side::Agent, &request.id, error.to_rpc());
                }
            }
            method => {
                let purpose = ToClient::Other { id: request.id.clone().into_owned() };
                self.to_client.pass(request, method, purpose, shared);
            }
        }
    }

    fn agent_notification(&mut self, notification: &Notification<'_>, shared: &mut Shared) {
        match &*notification.method {
            // One whose envelope is not in the usual order, or holds more.
            "session/update" => {
                let text = notification.params_text();
                match v2::UpdateSessionNotification::decode_tolerant(text, WireFormat::Any) {
                    Ok((params, left_out)) => {
                        self.update(params, ("/params", &left_out), &notification.extra, shared);
                    }
                    Err(error) => shared.lose(
                        None,
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
            ToAgent::Initialize { id } => connection::initialized(&id, &response, shared),
            ToAgent::NewSession { id, roots } => self.session_made(&id, roots, &response, shared),
            ToAgent::OldSession { id, session } => self.session_back(&id, &session, &response, shared),
            ToAgent::SetMode { id, session } => self.option_set(&id, &session, &response, true, shared),
            ToAgent::SetOption { id, session } => self.option_set(&id, &session, &response, false, shared),
            ToAgent::Prompt { id, session } => self.prompt_answered(&id, &session, response, shared),
            ToAgent::Close { id, session } => {
                if response.outcome.is_ok() {
                    if let Some(closed) = self.sessions.get_mut(&session) {
                        closed.close(&session, shared);
                    }
                    self.sessions.forget(&session);
                }
                shared.pass_answer(Side::Client, &id, response);
            }
            ToAgent::Other { id } => shared.pass_answer(Side::Client, &id, response),
        }
    }

    fn update(
        &mut self,
        params: v2::UpdateSessionNotification<'_>,
        (root, left_out): (&str, &[Diagnostic]),
        envelope: &Extra<'_>,
        shared: &mut Shared,
    ) {
        let v2::UpdateSessionNotification { session_id: id, update, meta, extra } = params;
        shared.report_left_out(Some(&id), "session/update", root, left_out, Side::Client);
        shared.begin_update(&id, meta, extra, envelope);
        let session = self.sessions.open(&id);
        session.apply(&id, update, &self.support, shared);
        session.report_forgotten(&id, shared);
        shared.end_update();
    }

    pub(crate) fn tick(&mut self, shared: &mut Shared) {
        for (id, session) in self.sessions.iter_mut() {
            session.flush_due(id, shared);
        }
    }

    pub(crate) fn next_deadline(&self, shared: &Shared) -> Option<Moment> {
        self.sessions.iter().filter_map(|(_, session)| session.calls.next_due(&shared.options)).min()
    }

    /// Writes everything that was held back.
    pub(crate) fn flush(&mut self, shared: &mut Shared) {
        for (id, session) in self.sessions.iter_mut() {
            session.flush_all(id, shared);
            session.report_hidden_terminals(id, shared);
        }
    }

    /// The same, because no more is to come.
    pub(crate) fn finish(&mut self, shared: &mut Shared) {
        self.flush(shared);
        for (id, session) in self.sessions.iter_mut() {
            for _ in session.waiting.drain(..) {
                shared.lose_waiting_prompt(id);
            }
            session.lose_turn(id, shared);
        }
    }
}

impl Session {
    fn apply(&mut self, id: &str, update: v2::SessionUpdate<'_>, support: &Support, shared: &mut Shared) {
        use v2::SessionUpdate as Update;
        if let Some(turn) = &mut self.turn {
            turn.saw(&update);
        }
        match update {
            Update::UserMessageChunk(chunk) => self.chunk(messages::Role::User, id, chunk, shared),
            Update::AgentMessageChunk(chunk) => self.chunk(messages::Role::Agent, id, chunk, shared),
            Update::AgentThoughtChunk(chunk) => self.chunk(messages::Role::Thought, id, chunk, shared),
            Update::UserMessage(message) => self.message(messages::Role::User, id, message, shared),
            Update::AgentMessage(message) => self.message(messages::Role::Agent, id, message, shared),
            Update::AgentThought(message) => self.message(messages::Role::Thought, id, message, shared),
            Update::StateUpdate(state) => self.state(id, *state, shared),
            Update::ToolCallContentChunk(mut chunk) => {
                chunk.tool_call_id = self.own_calls.set_apart(chunk.tool_call_id);
                self.tool_call_chunk(id, chunk, shared);
            }
            Update::ToolCallUpdate(mut update) => {
                update.tool_call_id = self.own_calls.set_apart(update.tool_call_id);
                self.tool_call(id, *update, shared);
            }
            Update::TerminalUpdate(update) => self.terminal(id, *update, shared),
            Update::TerminalOutputChunk(chunk) => self.terminal_chunk(id, &chunk, shared),
            other => self.other_update(id, other, support, shared),
        }
    }
}
