//! Translator for a version 2 client with a version 1 agent.

mod children;
mod connection;
mod eviction;
mod messages;
mod misc;
mod permissions;
mod served;
mod sessions;
mod tool_calls;
mod turn;

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_acp::rpc::{Expected, Message, Notification, Request, RequestId, Response};
use switchboard_acp::{Diagnostic, Extra, v1, v2};
use switchboard_session::SubagentTree;

use self::children::UpdateTreatment;
use self::messages::{ChunkRun, StartedMessages};
use self::served::ServedTerminals;
use self::tool_calls::ToolCalls;
use self::turn::Turn;
use crate::calls::Calls;
use crate::context::{Context, Output, kept, session_of};
use crate::loss::Severity;
use crate::optional_methods::OptionalMethods;
use crate::own_ids::OwnIds;
use crate::recorded_terminals::RecordedTerminals;
use crate::role::Role;
use crate::sessions::{KnownOptions, Sessions};
use crate::translator::Translator;
use crate::{Moment, Side, Version};

/// Purpose of a pending request to the agent.
#[derive(Debug)]
enum ToAgent {
    Initialize,
    /// `session/new` and `session/fork`.
    NewSession {
        method: &'static str,
        roots: Vec<String>,
    },
    OldSession {
        session: String,
        replays: bool,
    },
    /// Both requests that set an option: the mode option may be the bridge's own.
    SetOption {
        session: String,
        set: Box<v2::SetSessionConfigOptionRequest<'static>>,
    },
    Prompt {
        session: String,
    },
    Close {
        session: String,
    },
    Status {
        session: String,
    },
    Other,
}

/// Purpose of a pending request to the client.
#[derive(Debug)]
enum ToClient {
    Permission {
        session: String,
        offered: Vec<String>,
    },
    Elicitation,
    /// A file of the client. If it fails, the host's file is used.
    File(Box<Request<'static>>),
    /// A terminal of the client.
    Terminal,
    Other,
}

/// Capabilities that the agent announced.
#[derive(Debug, Default, Clone)]
struct Support {
    load: bool,
    list: bool,
    resume: bool,
    close: bool,
    delete: bool,
    logout: bool,
    /// Further session methods.
    offered: OptionalMethods,
}

/// Retained state of a session.
#[derive(Debug, Default)]
struct Session {
    roots: Vec<String>,
    /// Title derived from the first prompt, for the list of an agent that keeps none.
    title: Option<String>,
    /// Set if it was loaded or resumed, so that it has a history.
    is_old: bool,
    turn: Option<Turn>,
    waiting: VecDeque<Request<'static>>,
    run: Option<ChunkRun>,
    /// Number of created message ids by role.
    minted: HashMap<Role, u64>,
    /// The same numbers before a replay, which counts from zero. After the replay, counting continues with
    /// the higher number, because an agent may replay fewer messages than it sent.
    minted_before_replay: HashMap<Role, u64>,
    /// Agent's id of the last counted user message.
    counted_user: Option<String>,
    /// The agent's and the client's ids of the latest user messages.
    user_ids: VecDeque<(String, String)>,
    own_messages: OwnIds,
    /// Distinguishes ids from those created before the session was evicted or resumed here.
    salt: String,
    calls: ToolCalls,
    options: KnownOptions,
    /// The option that represents the agent's modes.
    mode_option: Option<String>,
    asks: bool,
    /// Set if a history arrives that the client did not request.
    swallows: bool,
    /// Set if a history arrives that the client requested.
    replays: bool,
    started: StartedMessages,
    /// Display terminals that were introduced to the client.
    terminals: VecDeque<String>,
    /// Unknown terminals that a call refers to.
    missing_terminals: VecDeque<String>,
    /// Request to close the session, which waits for the end of the turn.
    closing: Option<RequestId<'static>>,
    warned_of_files: bool,
    journal: Journal,
}

/// Lines sent to the client, for agents that cannot replay.
#[derive(Debug, Default)]
struct Journal {
    lines: VecDeque<String>,
    bytes: usize,
    incomplete: bool,
}

/// Maximum bytes of a journal.
const JOURNAL: usize = 8 * 1024 * 1024;

impl Journal {
    /// Returns an empty journal that is marked as incomplete.
    fn forgotten() -> Self {
        Journal { incomplete: true, ..Journal::default() }
    }

    fn add(&mut self, line: &str) {
        self.bytes += line.len();
        self.lines.push_back(line.to_owned());
        // The oldest lines go first. An incomplete journal is not replayed.
        while self.bytes > JOURNAL
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
            self.incomplete = true;
        }
    }
}

/// Translates between a version 2 client and a version 1 agent.
#[derive(Debug)]
pub(crate) struct V2ToV1 {
    context: Context,
    sessions: Sessions<Session>,
    to_agent: Calls<ToAgent>,
    to_client: Calls<ToClient>,
    support: Support,
    subagents: SubagentTree,
    forms: bool,
    urls: bool,
    terminals: ServedTerminals,
    /// Set if the client serves files itself.
    client_files: bool,
    /// State of terminals that the client runs; `None` if it runs none.
    client_terminals: Option<RecordedTerminals>,
    /// The agent's version 1 response to a version 2 handshake, in case it refuses a second one.
    first_answer: Option<String>,
    /// Number of sessions resumed without their history.
    resumed: u64,
}

impl V2ToV1 {
    pub(crate) fn new(mut context: Context) -> Self {
        context.peers.old = Some(Side::Agent);
        let limits = &context.options.limits;
        V2ToV1 {
            sessions: Sessions::new(limits.sessions),
            to_agent: Calls::new(Side::Agent, limits.requests),
            to_client: Calls::new(Side::Client, limits.requests),
            context,
            support: Support::default(),
            subagents: SubagentTree::default(),
            forms: false,
            urls: false,
            terminals: ServedTerminals::default(),
            client_files: false,
            client_terminals: None,
            first_answer: None,
            resumed: 0,
        }
    }

    /// Returns a session with everything needed to work in it, creating it if necessary.
    fn active<'m>(&'m mut self, id: &'m str) -> Active<'m> {
        let replays = self.treatment(id).replays;
        self.active_in(id, replays)
    }

    /// Returns the same with a known replay state.
    fn active_in<'m>(&'m mut self, id: &'m str, replays: bool) -> Active<'m> {
        // Needed for every update, because the client may resume the session later.
        let keeps = !self.support.load;
        let session = self.sessions.open(id);
        Active { id, session, terminals: &self.terminals, keeps, replays, context: &mut self.context }
    }

    fn pass(&mut self, request: &Request<'_>, method: &str) {
        self.to_agent.pass(request, method, ToAgent::Other, &mut self.context);
    }

    fn update(
        &mut self,
        params: v1::SessionNotification<'_>,
        (root, left_out): (&str, &[Diagnostic]),
        envelope: &Extra<'_>,
    ) {
        use v1::SessionUpdate as Update;
        let v1::SessionNotification { session_id, update, meta, extra, more: _ } = params;
        let id = &*session_id;
        self.context.report_left_out(Some(id), "session/update", root, left_out, Side::Client);
        // Only real work accepts a prompt: agents send commands and options at any time.
        let is_work = !matches!(
            update,
            Update::AvailableCommandsUpdate(_)
                | Update::CurrentModeUpdate(_)
                | Update::ConfigOptionUpdate(_)
                | Update::SessionInfoUpdate(_)
                | Update::UsageUpdate(_)
        );
        // History that the client did not request is dropped. Current properties of the session are still
        // sent.
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
        // The treatment must be known before the update changes the tree of sub-agents.
        let UpdateTreatment { swallows, replays, waits } = self.treatment(id);
        if is_history && swallows {
            return;
        }
        // The acceptance precedes the first update of the turn.
        if is_work && waits {
            self.accept_prompt(id);
        }
        self.context.begin_update(id, meta, extra, envelope);
        // Link the sub-agent before its update is sent.
        let child = match &update {
            Update::SubagentUpdate(update) => self.apply_subagent(id, update),
            _ => None,
        };
        let mut active = self.active_in(id, replays);
        match update {
            Update::UserMessageChunk(chunk) => active.chunk(Role::User, chunk),
            Update::AgentMessageChunk(chunk) => active.chunk(Role::Agent, chunk),
            Update::AgentThoughtChunk(chunk) => active.chunk(Role::Thought, chunk),
            Update::ToolCall(call) => active.tool_call(*call),
            Update::ToolCallUpdate(update) => active.tool_call_update(*update, false),
            other => active.other_update(other),
        }
        // Version 2 expects the state in the sub-agent's own session, after the announcement.
        if let Some((child, state)) = child {
            self.active(&child).send_state(state);
        }
        self.context.end_update();
    }
}

impl Translator for V2ToV1 {
    fn versions(&self) -> (Version, Version) {
        (Version::V2, Version::V1)
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }

    fn take_update<'l>(&mut self, line: &'l str) -> Option<Message<'l>> {
        match self.context.expect_update(line)? {
            (Expected::Params(params), left_out) => self.update(params, ("", &left_out), &Extra::new()),
            (Expected::Other(message), _) => return Some(message),
        }
        None
    }

    fn update_notification(&mut self, notification: &Notification<'_>) {
        if let Some((params, left_out)) = self.context.update_params(notification) {
            self.update(params, ("/params", &left_out), &notification.extra);
        }
    }

    fn client_request(&mut self, request: &Request<'_>) {
        // Requests reveal the client's dialect, which decides how the responses are written.
        self.context.peers.learn_from_client(request);
        let outcome = match &*request.method {
            "initialize" => self.initialize(request),
            "auth/login" => {
                self.pass(request, "authenticate");
                Ok(())
            }
            "auth/logout" if self.support.logout => {
                self.pass(request, "logout");
                Ok(())
            }
            "auth/logout" => Err(missing(request, "the agent cannot log out")),
            "session/new" => self.new_session(request),
            "session/fork" => self.fork_session(request),
            "session/status" => self.session_status(request),
            "session/resume" => self.resume_session(request),
            "session/list" => self.list_sessions(request),
            "session/close" => self.close_session(request),
            "session/delete" if !self.support.delete => {
                Err(missing(request, "the agent cannot delete sessions"))
            }
            "session/set_config_option" => self.set_option(request),
            "session/prompt" => self.prompt(request),
            "tool_call/cancel" => Err(crate::Error::unrepresentable(
                "tool_call/cancel",
                "a version 1 agent can only cancel a whole turn",
            )),
            "terminal/cancel" => self.cancel_terminal(request),
            method => self.support.offered.check(method).map(|()| self.pass(request, method)),
        };
        // Nothing has been sent to the agent: the client gets the error at once.
        if let Err(error) = outcome {
            self.context.fail(Side::Client, &request.id, error.to_rpc());
        }
    }

    fn client_response(&mut self, response: Response<'_>) {
        match self.to_client.take(&response.id) {
            Some((id, ToClient::Permission { session, offered })) => {
                self.permission_answered(&id, &session, &offered, response);
            }
            Some((id, ToClient::Elicitation)) => self.elicitation_answered(&id, response),
            Some((id, ToClient::File(request))) => self.client_file(&id, &request, response),
            // The state of the terminal is updated before the agent gets the answer.
            Some((id, ToClient::Terminal)) => {
                self.client_terminal(
                    Side::Client,
                    &Message::Response(Response { id: id.clone(), ..response.clone() }),
                );
                self.context.pass_answer(Side::Agent, &id, response);
            }
            Some((id, ToClient::Other)) => self.context.pass_answer(Side::Agent, &id, response),
            None => self.context.report_unmatched_response(Side::Client, &response),
        }
    }

    fn agent_request(&mut self, request: &Request<'_>) {
        // A request shows that the agent works on the prompt.
        if let Some(session) = session_of(request.params.as_ref()) {
            self.accept_prompt(&session);
        }
        match &*request.method {
            "session/request_permission" => self.permission(request),
            "elicitation/create" => {
                if let Err(error) = self.elicitation(request) {
                    self.context.fail(Side::Agent, &request.id, error.to_rpc());
                }
            }
            // Clients of a hub may serve files themselves; otherwise the host does.
            "fs/read_text_file" | "fs/write_text_file" if self.client_files => {
                let purpose = ToClient::File(Box::new(kept(request)));
                self.to_client.pass(request, &request.method, purpose, &mut self.context);
            }
            "fs/read_text_file" | "fs/write_text_file" => self.file_request(request),
            method if method.starts_with("terminal/") && self.client_terminals.is_some() => {
                // Track the request before it is forwarded; its response has no session.
                self.client_terminal(Side::Agent, &Message::Request(request.clone()));
                self.to_client.pass(request, method, ToClient::Terminal, &mut self.context);
            }
            "terminal/create"
            | "terminal/output"
            | "terminal/wait_for_exit"
            | "terminal/kill"
            | "terminal/release" => self.terminal_request(request),
            method => {
                self.to_client.pass(request, method, ToClient::Other, &mut self.context);
            }
        }
    }

    fn agent_response(&mut self, response: Response<'_>) {
        // The entry is removed before it is handled, so a second response with the same id is a loss.
        let Some((id, purpose)) = self.to_agent.take(&response.id) else {
            return self.context.report_unmatched_response(Side::Agent, &response);
        };
        match purpose {
            ToAgent::Initialize => self.initialized(&id, response),
            ToAgent::NewSession { method, roots } => self.session_made(&id, method, roots, &response),
            ToAgent::Status { session } => self.status_told(&id, &session, &response),
            ToAgent::OldSession { session, replays } => {
                self.session_back(&id, &session, replays, &response);
            }
            ToAgent::SetOption { session, set } => self.option_set(&id, &session, &set, &response),
            ToAgent::Prompt { session } => self.prompt_answered(&session, response),
            ToAgent::Close { session } => self.session_closed(&id, &session, response),
            ToAgent::Other => self.context.pass_answer(Side::Client, &id, response),
        }
    }

    fn tick(&mut self) {
        let now = self.context.now;
        // Collected first, because accepting a prompt needs the translator.
        let due: Vec<String> = self
            .sessions
            .iter()
            .filter(|(_, session)| {
                session.turn.as_ref().is_some_and(|turn| turn.due().is_some_and(|due| due <= now))
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in due {
            self.accept_prompt(&id);
        }
    }

    fn next_deadline(&self) -> Option<Moment> {
        self.sessions.iter().filter_map(|(_, session)| session.turn.as_ref()?.due()).min()
    }

    fn finish(&mut self) {
        for id in self.sessions.ids() {
            // A turn without any sign of life still gets its acceptance.
            self.accept_prompt(&id);
            let active = self.active(&id);
            for _ in active.session.waiting.drain(..) {
                active.context.report_unsent_prompt(&id);
            }
        }
    }

    fn terminal_output(&mut self, terminal_id: &str, bytes: &[u8]) {
        self.output_of(terminal_id, bytes);
    }

    fn recorded_terminal(&mut self, session: &str, update: v2::TerminalUpdate<'static>) {
        self.accept_prompt(session);
        self.active(session).recorded_terminal(update);
    }

    fn terminal_exited(&mut self, terminal_id: &str, exit_code: Option<i64>, signal: Option<&str>) {
        self.exit_of(terminal_id, exit_code, signal);
    }
}

/// A session in use: its state, and the output for it.
struct Active<'m> {
    id: &'m str,
    session: &'m mut Session,
    /// Commands that run for the agent.
    terminals: &'m ServedTerminals,
    /// Set if sent lines are kept in the journal, for an agent that cannot replay.
    keeps: bool,
    /// Set if the current updates are a replay by the agent.
    replays: bool,
    context: &'m mut Context,
}

impl Active<'_> {
    /// Sends an update that is part of the session's history.
    fn tell(&mut self, update: v2::SessionUpdate<'_>) {
        // Exactly the lines of this update go to the journal.
        let before = self.context.output.len();
        self.context.update_v2(self.id, update);
        for output in self.context.output.get(before..).unwrap_or_default().iter().filter(|_| self.keeps) {
            if let Output::Line { line, .. } = output {
                self.session.journal.add(line);
            }
        }
    }

    // States are not history: a replay ends with the current state.
    fn send_state(&mut self, state: v2::StateUpdate<'_>) {
        self.context.update_v2(self.id, v2::SessionUpdate::StateUpdate(Box::new(state)));
    }

    fn report_loss(&mut self, message: &str, pointer: &str, reason: impl Into<String>, severity: Severity) {
        self.context.report_loss(Some(self.id), message, pointer, reason, severity, Side::Client);
    }
}

fn missing(request: &Request<'_>, reason: &str) -> crate::Error {
    crate::Error::MethodMissing { method: request.method.clone().into_owned(), reason: reason.to_owned() }
}
