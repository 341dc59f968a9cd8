//! Translator for a version 1 client with a version 2 agent.

mod child_questions;
mod children;
mod connection;
mod eviction;
mod messages;
mod misc;
mod permissions;
mod render;
mod sessions;
mod subagents;
mod terminals;
mod tool_calls;
mod turn;

use std::collections::VecDeque;

use switchboard_acp::rpc::{Expected, Message, Notification, Request, Response};
use switchboard_acp::{Diagnostic, Extra, Meta, v1, v2};

use self::messages::Messages;
use self::sessions::replays_history;
use self::subagents::{HeldUpdate, SessionRelation, Subagents};
use self::tool_calls::ToolCalls;
use self::turn::Turn;
use crate::calls::Calls;
use crate::context::Context;
use crate::convert::Conversion;
use crate::loss::Severity;
use crate::optional_methods::OptionalMethods;
use crate::own_ids::OwnIds;
use crate::role::Role;
use crate::sessions::{KnownOptions, Sessions};
use crate::terminals::Terminals;
use crate::translator::Translator;
use crate::{Error, Moment, Side, Version};

/// Purpose of a pending request to the agent.
#[derive(Debug)]
enum ToAgent {
    Initialize,
    /// `session/new` and `session/fork`.
    NewSession {
        method: &'static str,
        roots: Vec<String>,
    },
    /// `session/load` and `session/resume`.
    OldSession {
        session: String,
    },
    SetMode {
        session: String,
    },
    SetOption {
        session: String,
    },
    Prompt {
        session: String,
    },
    Close {
        session: String,
    },
    Status,
    /// The response is forwarded unchanged.
    Other,
}

/// Purpose of a pending request to the client.
#[derive(Debug)]
enum ToClient {
    Permission(permissions::OpenPermission),
    Elicitation { session: Option<String> },
    Other,
}

impl ToClient {
    /// Returns the session in which the user is asked.
    fn session(&self) -> Option<&str> {
        match self {
            ToClient::Permission(asked) => Some(&asked.session),
            ToClient::Elicitation { session } => session.as_deref(),
            ToClient::Other => None,
        }
    }
}

/// Capabilities that the client announced.
#[derive(Debug, Default, Clone)]
struct Support {
    booleans: bool,
    notices: bool,
    compaction: bool,
    subagents: bool,
    plans: bool,
    forms: bool,
    urls: bool,
}

/// Retained state of a session.
#[derive(Debug, Default)]
struct Session {
    roots: Vec<String>,
    turn: Option<Turn>,
    waiting: VecDeque<Request<'static>>,
    messages: Messages,
    calls: ToolCalls,
    /// Ids of tool calls that only carry a question.
    own_calls: OwnIds,
    terminals: Terminals,
    plans: Vec<(String, Vec<v2::PlanEntry<'static>>)>,
    options: KnownOptions,
    /// Pending requests of the client that may replay history.
    replays: u32,
    /// Set if the eviction of history was reported.
    reported: bool,
}

/// Translates between a version 1 client and a version 2 agent.
#[derive(Debug)]
pub(crate) struct V1ToV2 {
    context: Context,
    sessions: Sessions<Session>,
    to_agent: Calls<ToAgent>,
    to_client: Calls<ToClient>,
    support: Support,
    subagents: Subagents,
    offered: OptionalMethods,
    synthetic: u64,
    /// Set if prompts may be queued during a turn.
    waits: bool,
}

impl V1ToV2 {
    pub(crate) fn new(mut context: Context) -> Self {
        context.peers.old = Some(Side::Client);
        let limits = &context.options.limits;
        V1ToV2 {
            sessions: Sessions::new(limits.sessions),
            to_agent: Calls::new(Side::Agent, limits.requests),
            to_client: Calls::new(Side::Client, limits.requests),
            context,
            support: Support::default(),
            subagents: Subagents::default(),
            offered: OptionalMethods::default(),
            synthetic: 0,
            waits: false,
        }
    }

    /// Handles an update of `size` bytes, and the updates that waited for it.
    fn update(
        &mut self,
        params: v2::UpdateSessionNotification<'_>,
        left_out: (&str, &[Diagnostic]),
        envelope: &Extra<'_>,
        size: usize,
    ) {
        self.take_one(params, left_out, envelope, size);
        // The update may have announced a sub-agent. Its updates that arrived earlier follow now, in order.
        self.take_ready();
    }

    /// Handles held updates of sessions whose parent is known now.
    fn take_ready(&mut self) {
        while let Some(HeldUpdate { params, left_out, envelope, size }) = self.subagents.next_ready() {
            let (root, left_out) = &left_out;
            self.take_one(params, (root, left_out), &envelope, size);
        }
    }

    fn take_one(
        &mut self,
        params: v2::UpdateSessionNotification<'_>,
        (root, left_out): (&str, &[Diagnostic]),
        envelope: &Extra<'_>,
        size: usize,
    ) {
        // Only sessions that the client opened are translated directly. Everything else is folded into one of
        // them, or held until an announcement names its parent.
        match self.relation(&params.session_id) {
            SessionRelation::Opened => {}
            SessionRelation::Child => return self.child_update(params, (root, left_out), envelope, size),
            SessionRelation::Unknown => {
                return self.hold_unlinked(HeldUpdate::new(params, (root, left_out), envelope, size));
            }
        }
        let v2::UpdateSessionNotification { session_id: id, update, meta, extra, more: _ } = params;
        // Losses of the envelope come first, so that a report reads in the order of the message.
        self.context.report_left_out(Some(&id), "session/update", root, left_out, Side::Client);
        self.context.begin_update(&id, meta, extra, envelope);
        // Sub-agents are applied first: an update that only announces one needs no translation for clients
        // without sub-agent support.
        if !self.apply_subagents(&id, &update, size) {
            let mut active = self.active(&id);
            active.apply(update);
            active.report_forgotten();
        }
        self.context.end_update();
    }

    /// Returns a session with everything needed to work in it, creating it if necessary.
    fn active<'m>(&'m mut self, id: &'m str) -> Active<'m> {
        let session = self.sessions.open(id);
        Active { id, session, support: &self.support, subagents: &self.subagents, context: &mut self.context }
    }

    /// Runs `work` for every session with history.
    fn each(&mut self, mut work: impl FnMut(Active<'_>)) {
        for (id, session) in self.sessions.iter_mut() {
            let (support, subagents) = (&self.support, &self.subagents);
            work(Active { id, session, support, subagents, context: &mut self.context });
        }
    }
}

impl Translator for V1ToV2 {
    fn versions(&self) -> (Version, Version) {
        (Version::V1, Version::V2)
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }

    fn take_update<'l>(&mut self, line: &'l str) -> Option<Message<'l>> {
        match self.context.expect_update(line)? {
            (Expected::Params(params), left_out) => {
                self.update(params, ("", &left_out), &Extra::new(), line.len());
            }
            (Expected::Other(message), _) => return Some(message),
        }
        None
    }

    fn update_notification(&mut self, notification: &Notification<'_>) {
        if let Some((params, left_out)) = self.context.update_params(notification) {
            let size = notification.params_text().len();
            self.update(params, ("/params", &left_out), &notification.extra, size);
        }
    }

    fn reopen(&mut self, session: &str) {
        self.prepare_replay(session);
    }

    fn client_request(&mut self, request: &Request<'_>) {
        // Each arm registers its request before it is sent. The response is matched by id in
        // `agent_response`.
        let outcome = match &*request.method {
            "initialize" => self.initialize(request),
            "session/new" => self.new_session(request),
            "session/fork" => self.fork_session(request),
            "session/status" => self.session_status(request),
            "session/load" => self.load_session(request),
            "session/resume" => self.resume_session(request),
            "session/close" => self.close_session(request),
            "session/set_mode" => self.set_mode(request),
            "session/set_config_option" => self.set_option(request),
            "session/prompt" => self.prompt(request),
            method => {
                // The client sees everything of a session that others opened, too.
                if method == "session/attach"
                    && let Some(session) = crate::context::session_of(request.params.as_ref())
                {
                    match replays_history(request.params.as_ref()) {
                        true => self.prepare_replay(&session),
                        false => self.subagents.open(&session),
                    }
                }
                let method = match method {
                    "authenticate" => "auth/login",
                    "logout" => "auth/logout",
                    other => other,
                };
                self.offered.check(method).map(|()| {
                    self.to_agent.pass(request, method, ToAgent::Other, &mut self.context);
                })
            }
        };
        // Nothing has been sent to the agent: the client gets the error at once.
        if let Err(error) = outcome {
            self.context.fail(Side::Client, &request.id, error.to_rpc());
        }
    }

    fn client_response(&mut self, response: Response<'_>) {
        // A response without a pending request is a loss. The agent may have cancelled the question.
        match self.to_client.take(&response.id) {
            Some((id, ToClient::Permission(asked))) => self.permission_answered(&id, &asked, response),
            Some((id, ToClient::Elicitation { .. } | ToClient::Other)) => {
                self.context.pass_answer(Side::Agent, &id, response);
            }
            None => self.context.report_unmatched_response(Side::Client, &response),
        }
    }

    fn agent_request(&mut self, request: &Request<'_>) {
        match &*request.method {
            "session/request_permission" => self.permission(request),
            "elicitation/create" => {
                if let Err(error) = self.elicitation(request) {
                    self.context.fail(Side::Agent, &request.id, error.to_rpc());
                }
            }
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
            ToAgent::Initialize => self.initialized(&id, &response),
            ToAgent::NewSession { method, roots } => self.session_made(&id, method, roots, &response),
            ToAgent::Status => self.status_told(&id, &response),
            ToAgent::OldSession { session } => self.session_back(&id, &session, &response),
            ToAgent::SetMode { session } => self.option_set(&id, &session, &response, true),
            ToAgent::SetOption { session } => self.option_set(&id, &session, &response, false),
            ToAgent::Prompt { session } => self.prompt_answered(&id, &session, response),
            ToAgent::Close { session } => {
                if response.outcome.is_ok() {
                    // Everything held is sent before the session's state is removed.
                    self.show_without_call(&session);
                    self.active(&session).close();
                    self.sessions.forget(&session);
                    self.subagents.close(&session);
                }
                self.context.pass_answer(Side::Client, &id, response);
            }
            ToAgent::Other => self.context.pass_answer(Side::Client, &id, response),
        }
    }

    fn tick(&mut self) {
        // Sub-agents first, then tool calls, then turns: a turn ends after everything that belongs to it was
        // sent.
        self.show_waiting();
        self.each(|mut active| active.flush_due());
        self.end_held_turns();
    }

    fn next_deadline(&self) -> Option<Moment> {
        let due = |session: &Session| {
            let held = session.turn.as_ref().and_then(Turn::held_until);
            held.into_iter().chain(session.calls.next_due(&self.context.options)).min()
        };
        let sessions = self.sessions.iter().filter_map(|(_, session)| due(session));
        sessions.chain(self.next_shown()).min()
    }

    fn finish(&mut self) {
        // Same order as in `tick`. Afterwards only losses remain: nothing can be sent any more.
        self.show_all_uncalled();
        self.report_all_unlinked();
        self.each(|mut active| {
            active.flush_all();
            active.end_held();
            active.report_hidden_terminals();
            for _ in active.session.waiting.drain(..) {
                active.context.report_unsent_prompt(active.id);
            }
            active.report_lost_turn();
        });
    }
}

/// A session in use: its state, and the output for it.
struct Active<'m> {
    id: &'m str,
    session: &'m mut Session,
    support: &'m Support,
    /// All sub-agents of the connection.
    subagents: &'m Subagents,
    context: &'m mut Context,
}

impl Active<'_> {
    /// Sends an update to the client.
    fn update(&mut self, update: v1::SessionUpdate<'_>) {
        self.context.update_v1(self.id, update);
    }

    /// Converts an update. An update that cannot be converted is reported as lost.
    fn convert_update<T>(
        &mut self,
        tag: &str,
        convert: impl FnOnce(&mut Conversion<'_>) -> Result<T, Error>,
    ) -> Option<T> {
        self.context.convert_update(self.id, tag, convert)
    }

    fn report_loss(&mut self, message: &str, pointer: &str, reason: impl Into<String>, severity: Severity) {
        self.context.report_loss(Some(self.id), message, pointer, reason, severity, Side::Client);
    }

    /// Reports metadata and unknown keys of an update that the client does not get.
    fn report_lost_rest(&mut self, tag: &str, rest: (Option<&Meta<'_>>, &Extra<'_>), reason: &str) {
        self.context.report_lost_rest(Some(self.id), tag, "/params/update", rest, reason, Side::Client);
    }

    fn apply(&mut self, update: v2::SessionUpdate<'_>) {
        use v2::SessionUpdate as Update;
        // Activity must be noted before the update is applied, because an idle state ends the turn.
        if let Some(turn) = &mut self.session.turn {
            turn.saw(&update);
        }
        match update {
            Update::UserMessageChunk(chunk) => self.chunk(Role::User, chunk),
            Update::AgentMessageChunk(chunk) => self.chunk(Role::Agent, chunk),
            Update::AgentThoughtChunk(chunk) => self.chunk(Role::Thought, chunk),
            Update::UserMessage(message) => self.whole_message(Role::User, message),
            Update::AgentMessage(message) => self.whole_message(Role::Agent, message),
            Update::AgentThought(message) => self.whole_message(Role::Thought, message),
            Update::StateUpdate(state) => self.state(*state),
            Update::ToolCallContentChunk(mut chunk) => {
                // An id of the agent that equals one of the bridge's synthetic calls gets a suffix.
                chunk.tool_call_id = self.session.own_calls.disambiguate(chunk.tool_call_id);
                self.tool_call_chunk(chunk);
            }
            Update::ToolCallUpdate(mut update) => {
                update.tool_call_id = self.session.own_calls.disambiguate(update.tool_call_id);
                self.tool_call(*update);
            }
            Update::TerminalUpdate(update) => self.terminal(*update),
            Update::TerminalOutputChunk(chunk) => self.terminal_chunk(&chunk),
            other => self.other_update(other),
        }
    }
}
