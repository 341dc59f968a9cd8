//! Opening of sessions, and their configuration.

use switchboard_acp::extensions::CURSOR;
use switchboard_acp::rpc::{Request, RequestId, Response};
use switchboard_acp::{Extra, Raw, Text, Wire, v1, v2};

use super::{Active, ToAgent, V1ToV2};
use crate::context::session_of;
use crate::convert::session;
use crate::convert::{config, lists, message::Rest};
use crate::sessions::{KnownOptions, roots};
use crate::{Error, Side};

/// Returns whether attaching to a session replays its history.
pub(super) fn replays_history(params: Option<&Raw<'_>>) -> bool {
    let policy = params.and_then(|params| params.get("historyPolicy"));
    let policy = policy.as_ref().and_then(Raw::as_text);
    !matches!(policy.as_deref(), Some("pending_only" | "none"))
}

impl V1ToV2 {
    pub(super) fn new_session(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let mut params: v1::NewSessionRequest<'_> = self.context.params(Side::Client, request)?;
        // Before the conversion, which would report the names as lost.
        self.context.resolve_programs(&mut params.mcp_servers);
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let wire = self
            .context
            .convert(None, "session/new", "/params", Side::Agent, |cx| session::new_to_v2(params, cx))?;
        let purpose = ToAgent::NewSession { method: "session/new", roots };
        self.to_agent.ask(request, "session/new", &wire, purpose, &mut self.context);
        Ok(())
    }

    pub(super) fn fork_session(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let method = "session/fork";
        self.offered.check(method)?;
        let mut params: v1::unstable::ForkSessionRequest<'_> = self.context.params(Side::Client, request)?;
        self.context.resolve_programs(params.mcp_servers.as_deref_mut().unwrap_or_default());
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let wire = self
            .context
            .convert(None, method, "/params", Side::Agent, |cx| session::fork_to_v2(params, cx))?;
        let purpose = ToAgent::NewSession { method, roots };
        self.to_agent.ask(request, method, &wire, purpose, &mut self.context);
        Ok(())
    }

    /// Handles a status request. For agents without status, sessions that the client opened count as open.
    pub(super) fn session_status(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let method = "session/status";
        let Err(missing) = self.offered.check(method) else {
            self.to_agent.pass(request, method, ToAgent::Status, &mut self.context);
            return Ok(());
        };
        let params: v1::unstable::SessionStatusRequest<'_> = self.context.params(Side::Client, request)?;
        // A session that was never opened here is unknown to the bridge, too.
        if self.sessions.get(&params.session_id).is_none() {
            return Err(missing);
        }
        let rest = (params.meta.as_ref(), &params.extra);
        self.context.report_lost_rest(None, method, "/params", rest, "answered by the bridge", Side::Agent);
        let answer = v1::unstable::SessionStatusResponse::new(v1::unstable::SessionStatus::Open);
        self.context.respond(Side::Client, &request.id, &answer, &Extra::new());
        Ok(())
    }

    pub(super) fn status_told(&mut self, id: &RequestId<'static>, response: &Response<'_>) {
        let method = "session/status";
        let answer = self.context.result::<v2::unstable::SessionStatusResponse<'_>>(id, method, response);
        let Some(answer) = answer else { return };
        let converted = self
            .context
            .convert(None, method, "/result", Side::Client, |cx| session::status_to_v1(answer, cx));
        match converted {
            Ok(answer) => self.context.respond(Side::Client, id, &answer, &response.extra),
            Err(error) => self.context.fail(Side::Client, id, error.to_rpc()),
        }
    }

    pub(super) fn load_session(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let mut params: v1::LoadSessionRequest<'_> = self.context.params(Side::Client, request)?;
        self.context.resolve_programs(&mut params.mcp_servers);
        let wire = self
            .context
            .convert(None, "session/load", "/params", Side::Agent, |cx| session::load_to_v2(params, cx))?;
        self.ask_for_old_session(request, &wire);
        Ok(())
    }

    pub(super) fn resume_session(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let mut params: v1::ResumeSessionRequest<'_> = self.context.params(Side::Client, request)?;
        self.context.resolve_programs(params.mcp_servers.as_deref_mut().unwrap_or_default());
        let wire = self.context.convert(None, "session/resume", "/params", Side::Agent, |cx| {
            session::resume_to_v2(params, cx)
        })?;
        self.ask_for_old_session(request, &wire);
        Ok(())
    }

    fn ask_for_old_session(&mut self, request: &Request<'_>, wire: &v2::ResumeSessionRequest<'_>) {
        // Checked first: a refused request must not reset the session.
        if self.to_agent.is_full() {
            return self.context.refuse_full(Side::Client, &request.id);
        }
        let id = wire.session_id.clone().into_owned();
        // Updates of the replay may arrive before the response.
        self.subagents.open(&id);
        let active = self.active(&id);
        active.session.roots = roots(&wire.cwd, wire.additional_directories.as_deref());
        // On a hub, a resume after a cursor replays only the rest of the history.
        let is_behind = wire.meta.as_ref().is_some_and(|meta| CURSOR.read(meta).is_some());
        if wire.replay_from.is_some() || (is_behind && self.context.options.is_shared) {
            self.prepare_replay(&id);
            // Counted, because user messages are not echoes while a replay is pending.
            self.active(&id).session.replays += 1;
        }
        let purpose = ToAgent::OldSession { session: id };
        self.to_agent.ask(request, "session/resume", wire, purpose, &mut self.context);
    }

    /// Prepares for a full replay. The client drops its history, or the replay is suppressed; in both cases
    /// everything counts as new.
    pub(super) fn prepare_replay(&mut self, id: &str) {
        self.subagents.open(id);
        let mut active = self.active(id);
        // Held output belongs to the time before the replay.
        active.flush_all();
        active.session.messages.forget();
        active.session.calls.forget();
        active.session.plans.clear();
        self.subagents.begin_replay(id);
    }

    pub(super) fn session_made(
        &mut self,
        id: &RequestId<'static>,
        method: &str,
        roots: Vec<String>,
        response: &Response<'_>,
    ) {
        let Some(mut answer) = self.context.result::<v2::NewSessionResponse<'_>>(id, method, response) else {
            return;
        };
        let session_id = answer.session_id.clone().into_owned();
        // Open before the response: the client may send a prompt as soon as it has it.
        self.subagents.open(&session_id);
        let mut active = self.active(&session_id);
        active.session.roots = roots;
        let commands = answer.available_commands.take();
        let choices = active.take_options(method, answer.config_options.take());
        let wire = session::made_to_v1(answer, choices);
        // The response first: version 1 clients ignore updates of sessions they do not know yet.
        active.context.respond(Side::Client, id, &wire, &response.extra);
        active.commands(method, commands);
        // Updates of sub-agents may have waited for this session.
        self.take_ready();
    }

    pub(super) fn session_back(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        response: &Response<'_>,
    ) {
        let mut active = self.active(session_id);
        // Also after an error, or echoes would never be suppressed again.
        active.session.replays = active.session.replays.saturating_sub(1);
        // The replay is complete when the response arrives: send everything held before it.
        active.flush_all();
        let Some(mut answer) =
            active.context.result::<v2::ResumeSessionResponse<'_>>(id, "session/resume", response)
        else {
            return;
        };
        let commands = answer.available_commands.take();
        let choices = active.take_options("session/resume", answer.config_options.take());
        let wire = session::resumed_to_v1(answer, choices);
        active.context.respond(Side::Client, id, &wire, &response.extra);
        active.commands("session/resume", commands);
    }

    pub(super) fn close_session(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v1::CloseSessionRequest<'_> = self.context.params(Side::Client, request)?;
        let session = params.session_id.into_owned();
        let purpose = ToAgent::Close { session };
        self.to_agent.pass(request, "session/close", purpose, &mut self.context);
        Ok(())
    }

    pub(super) fn set_mode(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v1::SetSessionModeRequest<'_> = self.context.params(Side::Client, request)?;
        // Version 1 has a method for modes; version 2 has an option of category `mode`.
        let options = self.sessions.get(&params.session_id).map(|session| &**session.options);
        let Some(option) = options.and_then(config::mode_option) else {
            return Err(Error::unrepresentable("session/set_mode", "the agent has no option for modes"));
        };
        let session = params.session_id.clone().into_owned();
        let wire = config::set_mode_to_v2(params, &option.config_id);
        let purpose = ToAgent::SetMode { session };
        self.to_agent.ask(request, "session/set_config_option", &wire, purpose, &mut self.context);
        Ok(())
    }

    pub(super) fn set_option(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v1::SetSessionConfigOptionRequest<'_> = self.context.params(Side::Client, request)?;
        let session = session_of(request.params.as_ref()).unwrap_or_default();
        let options = self.sessions.get(&session).map_or(&[][..], |session| &session.options);
        // A client without boolean support sends `on` or `off` as a value.
        let is_switch = |id: &str| {
            options.iter().any(
                |option| matches!(option, v2::SessionConfigOption::Boolean(known) if known.config_id == id),
            )
        };
        let wire =
            self.context.convert(
                Some(&session),
                &request.method,
                "/params",
                Side::Agent,
                |cx| match params {
                    v1::SetSessionConfigOptionRequest::Id(set) if is_switch(&set.config_id) => {
                        config::set_switch_to_v2(set, cx)
                    }
                    params => config::set_to_v2(params, cx),
                },
            )?;
        let purpose = ToAgent::SetOption { session };
        self.to_agent.ask(request, "session/set_config_option", &wire, purpose, &mut self.context);
        Ok(())
    }

    /// Handles the response to `set_mode`, which is empty, or to `set_config_option`.
    pub(super) fn option_set(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        response: &Response<'_>,
        is_mode: bool,
    ) {
        let method = "session/set_config_option";
        let Some(answer) =
            self.context.result::<v2::SetSessionConfigOptionResponse<'_>>(id, method, response)
        else {
            return;
        };
        let mut active = self.active(session_id);
        // Read before the options change, to detect a changed mode.
        let before = active.current_mode();
        let (options, Rest { meta, extra }) = config::set_answer_to_v1(answer);
        let known = std::mem::take(&mut active.session.options);
        let (_, options) = active.take_options(method, Some(options));
        let config_options = options.unwrap_or_default();
        if !is_mode {
            let wire = v1::SetSessionConfigOptionResponse {
                config_options,
                meta,
                extra,
                more: switchboard_acp::More,
            };
            // The response precedes the mode update, which it causes.
            active.context.respond(Side::Client, id, &wire, &response.extra);
            return active.send_mode(before.as_deref());
        }
        active.context.respond(
            Side::Client,
            id,
            &v1::EmptyResponse { meta, extra, more: switchboard_acp::More },
            &response.extra,
        );
        // `set_mode` has an empty response, so other changed options need an update.
        if !active.differs_in_mode_only(&known) {
            let update = v1::ConfigOptionUpdate::new(config_options);
            active.update(v1::SessionUpdate::ConfigOptionUpdate(update));
        }
    }
}

impl Active<'_> {
    /// Stores the options of a response and converts them to version 1, together with the modes among them.
    pub(super) fn take_options(
        &mut self,
        method: &str,
        options: Option<Vec<v2::SessionConfigOption<'_>>>,
    ) -> (Option<v1::SessionModeState<'static>>, Option<Vec<v1::SessionConfigOption<'static>>>) {
        let Some(options) = options else { return (None, None) };
        self.session.options.set(options.into_owned());
        let modes = config::mode_option(&self.session.options).map(config::modes_of_option);
        let (options, booleans) = (self.session.options.to_vec(), self.support.booleans);
        let options =
            self.context.convert(Some(self.id), method, "/result/configOptions", Side::Client, |cx| {
                config::to_v1(options, booleans, cx)
            });
        (modes, options.ok())
    }

    /// Returns whether the options differ from the known ones only in the current mode.
    fn differs_in_mode_only(&self, known: &KnownOptions) -> bool {
        let mut known = known.to_vec();
        if let Some(mode) = self.current_mode() {
            config::change_mode(&mut known, &mode);
        }
        known == **self.session.options
    }

    pub(super) fn current_mode(&self) -> Option<String> {
        config::mode_option(&self.session.options).map(|option| option.current_value.clone().into_owned())
    }

    /// Notifies clients without options of a changed mode.
    pub(super) fn send_mode(&mut self, before: Option<&str>) {
        let Some(mode) = self.current_mode().filter(|mode| Some(&**mode) != before) else { return };
        let update = v1::SessionUpdate::CurrentModeUpdate(v1::CurrentModeUpdate::new(mode));
        self.update(update);
    }

    /// Sends the commands of a response as an update, because version 1 has them only there.
    pub(super) fn commands(&mut self, method: &str, commands: Option<Vec<v2::AvailableCommand<'_>>>) {
        let Some(commands) = commands else { return };
        let converted =
            self.context.convert(Some(self.id), method, "/result/availableCommands", Side::Client, |cx| {
                cx.each(commands, lists::command_to_v1)
            });
        let Ok(commands) = converted else { return };
        let update = v1::SessionUpdate::AvailableCommandsUpdate(v1::AvailableCommandsUpdate::new(commands));
        self.update(update);
    }

    /// Sends a notice of the bridge to the user.
    pub(super) fn say(&mut self, words: &str, rest: Rest<'_>) {
        let made = self.session.messages.make_id(|| {
            self.context.minted += 1;
            format!("bridge-notice-{}{}", self.context.salt, self.context.minted)
        });
        let message_id = Some(Text::Owned(made));
        let Rest { meta, extra } = rest;
        let content = v1::ContentBlock::text(words.to_owned());
        let chunk = v1::ContentChunk { content, message_id, meta, extra, more: switchboard_acp::More };
        self.update(v1::SessionUpdate::AgentMessageChunk(chunk));
    }
}
