//! Opening sessions, and their configuration.

use switchboard_protocol::rpc::{Request, RequestId, Response};
use switchboard_protocol::{Text, Wire, v1, v2};

use super::{Session, Support, ToAgent, V1ToV2};
use crate::bridge::refuse_full;
use crate::convert::session::{self, Opened, OpenedV2};
use crate::convert::{config, lists, message::Rest};
use crate::loss::Severity;
use crate::sessions::roots;
use crate::shared::{Shared, session_of};
use crate::{Error, Side};

impl V1ToV2 {
    pub(super) fn new_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::NewSessionRequest<'_> = shared.params(Side::Client, request)?;
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let wire = shared
            .convert(None, "session/new", "/params", Side::Agent, |cx| session::new_to_v2(params, cx))?;
        let purpose = ToAgent::NewSession { id: request.id.clone().into_owned(), roots };
        self.to_agent.ask(request, "session/new", &wire, purpose, shared);
        Ok(())
    }

    pub(super) fn load_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::LoadSessionRequest<'_> = shared.params(Side::Client, request)?;
        let wire = shared
            .convert(None, "session/load", "/params", Side::Agent, |cx| session::load_to_v2(params, cx))?;
        self.ask_for_old_session(request, &wire, shared);
        Ok(())
    }

    pub(super) fn resume_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::ResumeSessionRequest<'_> = shared.params(Side::Client, request)?;
        let wire = shared.convert(None, "session/resume", "/params", Side::Agent, |cx| {
            session::resume_to_v2(params, cx)
        })?;
        self.ask_for_old_session(request, &wire, shared);
        Ok(())
    }

    fn ask_for_old_session(
        &mut self,
        request: &Request<'_>,
        wire: &v2::ResumeSessionRequest<'_>,
        shared: &mut Shared,
    ) {
        if self.to_agent.is_full() {
            return refuse_full(shared, Side::Client, &request.id);
        }
        let id = wire.session_id.clone().into_owned();
        let session = self.sessions.open(&id);
        session.roots = roots(&wire.cwd, wire.additional_directories.as_deref());
        if wire.replay_from.is_some() {
            // The client forgets what it has seen, so that all of it counts as new.
            session.flush_all(&id, shared);
            session.messages.forget();
            session.calls.forget();
            session.plans.clear();
            session.replays += 1;
        }
        let purpose = ToAgent::OldSession { id: request.id.clone().into_owned(), session: id };
        self.to_agent.ask(request, "session/resume", wire, purpose, shared);
    }

    pub(super) fn session_made(
        &mut self,
        id: &RequestId<'static>,
        roots: Vec<String>,
        response: &Response<'_>,
        shared: &mut Shared,
    ) {
        let Some(answer) = shared.result::<v2::NewSessionResponse<'_>>(id, "session/new", response) else {
            return;
        };
        let session_id = answer.session_id.clone().into_owned();
        let session = self.sessions.open(&session_id);
        session.roots = roots;
        let Opened { session_id: told_id, modes: _, options, commands, rest } = OpenedV2::from(answer);
        let (modes, config_options) =
            session.take_options(&session_id, "session/new", options, &self.support, shared);
        let Rest { meta, extra } = rest;
        let told_id = told_id.unwrap_or_default();
        let wire = v1::NewSessionResponse { session_id: told_id, modes, config_options, meta, extra };
        shared.respond(Side::Client, id, &wire, &response.extra);
        session.commands(&session_id, "session/new", commands, shared);
    }

    pub(super) fn session_back(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        response: &Response<'_>,
        shared: &mut Shared,
    ) {
        let session = self.sessions.open(session_id);
        session.replays = session.replays.saturating_sub(1);
        session.flush_all(session_id, shared);
        let Some(answer) = shared.result::<v2::ResumeSessionResponse<'_>>(id, "session/resume", response)
        else {
            return;
        };
        let Opened { session_id: _, modes: _, options, commands, rest } = OpenedV2::from(answer);
        let (modes, config_options) =
            session.take_options(session_id, "session/resume", options, &self.support, shared);
        let Rest { meta, extra } = rest;
        let wire = v1::LoadSessionResponse { modes, config_options, meta, extra };
        shared.respond(Side::Client, id, &wire, &response.extra);
        session.commands(session_id, "session/resume", commands, shared);
    }

    pub(super) fn close_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::CloseSessionRequest<'_> = shared.params(Side::Client, request)?;
        let session = params.session_id.into_owned();
        let purpose = ToAgent::Close { id: request.id.clone().into_owned(), session };
        self.to_agent.pass(request, "session/close", purpose, shared);
        Ok(())
    }

    pub(super) fn set_mode(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::SetSessionModeRequest<'_> = shared.params(Side::Client, request)?;
        let options = self.sessions.get(&params.session_id).map(|session| &*session.options);
        let Some(option) = options.and_then(config::mode_option) else {
            return Err(Error::unrepresentable("session/set_mode", "the agent has no option for modes"));
        };
        let session = params.session_id.clone().into_owned();
        let wire = config::set_mode_to_v2(params, &option.config_id);
        let purpose = ToAgent::SetMode { id: request.id.clone().into_owned(), session };
        self.to_agent.ask(request, "session/set_config_option", &wire, purpose, shared);
        Ok(())
    }

    pub(super) fn set_option(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::SetSessionConfigOptionRequest<'_> = shared.params(Side::Client, request)?;
        let session = session_of(request.params.as_ref()).unwrap_or_default();
        let options = self.sessions.get(&session).map_or(&[][..], |session| &session.options);
        let is_switch = |id: &str| {
            options.iter().any(
                |option| matches!(option, v2::SessionConfigOption::Boolean(known) if known.config_id == id),
            )
        };
        let wire =
            shared.convert(Some(&session), &request.method, "/params", Side::Agent, |cx| match params {
                v1::SetSessionConfigOptionRequest::Id(set) if is_switch(&set.config_id) => {
                    config::set_switch_to_v2(set, cx)
                }
                params => config::set_to_v2(params, cx),
            })?;
        let purpose = ToAgent::SetOption { id: request.id.clone().into_owned(), session };
        self.to_agent.ask(request, "session/set_config_option", &wire, purpose, shared);
        Ok(())
    }

    /// The agent has answered `set_mode`, whose answer is empty, or `set_config_option`.
    pub(super) fn option_set(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        response: &Response<'_>,
        is_mode: bool,
        shared: &mut Shared,
    ) {
        let method = "session/set_config_option";
        let Some(answer) = shared.result::<v2::SetSessionConfigOptionResponse<'_>>(id, method, response)
        else {
            return;
        };
        let session = self.sessions.open(session_id);
        let before = session.current_mode();
        let (options, Rest { meta, extra }) = config::set_answer_to_v1(answer);
        let known = std::mem::take(&mut session.options);
        let (_, options) = session.take_options(session_id, method, Some(options), &self.support, shared);
        let config_options = options.unwrap_or_default();
        if !is_mode {
            let wire = v1::SetSessionConfigOptionResponse { config_options, meta, extra };
            shared.respond(Side::Client, id, &wire, &response.extra);
            return session.tell_mode(session_id, before.as_deref(), shared);
        }
        shared.respond(Side::Client, id, &v1::EmptyResponse { meta, extra }, &response.extra);
        if !session.differs_in_mode_only(known) {
            let update = v1::ConfigOptionUpdate::new(config_options);
            shared.update_v1(session_id, v1::SessionUpdate::ConfigOptionUpdate(update));
        }
    }
}

impl Session {
    /// Remembers options that an answer tells, and gives them as version 1 has them, together with the modes among them.
    pub(super) fn take_options(
        &mut self,
        id: &str,
        method: &str,
        options: Option<Vec<v2::SessionConfigOption<'_>>>,
        support: &Support,
        shared: &mut Shared,
    ) -> (Option<v1::SessionModeState<'static>>, Option<Vec<v1::SessionConfigOption<'static>>>) {
        let Some(options) = options else { return (None, None) };
        self.options = options.into_owned();
        let modes = config::mode_option(&self.options).map(config::modes_of_option);
        let options = self.options.clone();
        let options = shared.convert(Some(id), method, "/result/configOptions", Side::Client, |cx| {
            config::to_v1(options, support.booleans, cx)
        });
        (modes, options.ok())
    }

    /// Whether the options are those that were known, but for the current mode.
    fn differs_in_mode_only(&self, mut known: Vec<v2::SessionConfigOption<'static>>) -> bool {
        let Some(mode) = self.current_mode() else { return known == self.options };
        config::change_mode(&mut known, &mode);
        known == self.options
    }

    pub(super) fn current_mode(&self) -> Option<String> {
        config::mode_option(&self.options).map(|option| option.current_value.clone().into_owned())
    }

    /// Tells old clients that the mode is another one now.
    pub(super) fn tell_mode(&self, id: &str, before: Option<&str>, shared: &mut Shared) {
        let Some(mode) = self.current_mode().filter(|mode| Some(&**mode) != before) else { return };
        let update = v1::SessionUpdate::CurrentModeUpdate(v1::CurrentModeUpdate::new(mode));
        shared.update_v1(id, update);
    }

    /// Tells the commands of an answer, which version 1 has in an update only.
    pub(super) fn commands(
        &mut self,
        id: &str,
        method: &str,
        commands: Option<Vec<v2::AvailableCommand<'_>>>,
        shared: &mut Shared,
    ) {
        let Some(commands) = commands else { return };
        let converted = shared.convert(Some(id), method, "/result/availableCommands", Side::Client, |cx| {
            cx.each(commands, lists::command_to_v1)
        });
        let Ok(commands) = converted else { return };
        let update = v1::SessionUpdate::AvailableCommandsUpdate(v1::AvailableCommandsUpdate::new(commands));
        shared.update_v1(id, update);
    }

    /// Says something to the person at the client that the agent did not say in these words.
    pub(super) fn say(&mut self, id: &str, words: &str, rest: Rest<'_>, shared: &mut Shared) {
        let made = self.messages.make_id(|| {
            shared.minted += 1;
            format!("bridge-notice-{}", shared.minted)
        });
        let message_id = Some(Text::Owned(made));
        let Rest { meta, extra } = rest;
        let content = v1::ContentBlock::text(words.to_owned());
        let chunk = v1::ContentChunk { content, message_id, meta, extra };
        shared.update_v1(id, v1::SessionUpdate::AgentMessageChunk(chunk));
    }

    pub(super) fn lose(
        &self,
        id: &str,
        message: &str,
        pointer: &str,
        reason: impl Into<String>,
        severity: Severity,
        shared: &mut Shared,
    ) {
        shared.lose(Some(id), message, pointer, reason, severity, Side::Client);
    }
}
