//! Opening sessions, and their configuration.

use switchboard_protocol::rpc::{Request, RequestId, Response};
use switchboard_protocol::{Text, Wire, WireFormat, v1, v2};

use super::{Session, Support, ToAgent, V1ToV2};
use crate::convert::{config, misc, servers};
use crate::loss::{At, Notes, Severity};
use crate::sessions::roots;
use crate::shared::Shared;
use crate::{Error, Side};

impl V1ToV2 {
    pub(super) fn new_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::NewSessionRequest<'_> = shared.params(Side::Client, request, WireFormat::V1)?;
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let mut wire = v2::NewSessionRequest::new(params.cwd);
        wire.additional_directories = params.additional_directories;
        wire.mcp_servers = Some(servers::to_v2(params.mcp_servers, &At::key("mcpServers"))?);
        (wire.meta, wire.extra) = (params.meta, params.extra);
        let purpose = ToAgent::NewSession { id: request.id.clone().into_owned(), roots };
        self.to_agent.ask(&request.id, "session/new", &wire.encode(WireFormat::Any), purpose, shared);
        Ok(())
    }

    pub(super) fn load_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::LoadSessionRequest<'_> = shared.params(Side::Client, request, WireFormat::V1)?;
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let mut wire = v2::ResumeSessionRequest::new(params.session_id, params.cwd);
        wire.additional_directories = params.additional_directories;
        wire.mcp_servers = Some(servers::to_v2(params.mcp_servers, &At::key("mcpServers"))?);
        wire.replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
        (wire.meta, wire.extra) = (params.meta, params.extra);
        self.ask_for_old_session(request, &wire, roots, shared);
        Ok(())
    }

    pub(super) fn resume_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::ResumeSessionRequest<'_> = shared.params(Side::Client, request, WireFormat::V1)?;
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let mut wire = v2::ResumeSessionRequest::new(params.session_id, params.cwd);
        wire.additional_directories = params.additional_directories;
        let at = At::key("mcpServers");
        wire.mcp_servers = params.mcp_servers.map(|list| servers::to_v2(list, &at)).transpose()?;
        (wire.meta, wire.extra) = (params.meta, params.extra);
        self.ask_for_old_session(request, &wire, roots, shared);
        Ok(())
    }

    fn ask_for_old_session(
        &mut self,
        request: &Request<'_>,
        wire: &v2::ResumeSessionRequest<'_>,
        roots: Vec<String>,
        shared: &mut Shared,
    ) {
        let id = wire.session_id.clone().into_owned();
        let session = self.sessions.open(&id);
        session.roots = roots;
        if wire.replay_from.is_some() {
            // The client forgets what it has seen, so that all of it counts as new.
            session.messages = super::messages::Messages::default();
            session.calls.forget();
            session.plans.clear();
            session.replays += 1;
        }
        let purpose = ToAgent::OldSession { id: request.id.clone().into_owned(), session: id };
        self.to_agent.ask(&request.id, "session/resume", &wire.encode(WireFormat::Any), purpose, shared);
    }

    pub(super) fn session_made(
        &mut self,
        id: &RequestId<'static>,
        roots: Vec<String>,
        response: &Response<'_>,
        shared: &mut Shared,
    ) {
        let Some(answer) =
            shared.result::<v2::NewSessionResponse<'_>>(id, "session/new", response, WireFormat::Any)
        else {
            return;
        };
        let session_id = answer.session_id.clone().into_owned();
        let session = self.sessions.open(&session_id);
        session.roots = roots;
        let mut wire = v1::NewSessionResponse::new(answer.session_id);
        (wire.modes, wire.config_options) =
            session.take_options(&session_id, answer.config_options, &self.support, shared);
        (wire.meta, wire.extra) = (answer.meta, answer.extra);
        shared.respond(Side::Client, id, &wire.encode(WireFormat::V1));
        if let Some(commands) = answer.available_commands {
            session.commands(&session_id, commands, shared);
        }
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
        let Some(answer) =
            shared.result::<v2::ResumeSessionResponse<'_>>(id, "session/resume", response, WireFormat::Any)
        else {
            return;
        };
        let mut wire = v1::LoadSessionResponse::new();
        (wire.modes, wire.config_options) =
            session.take_options(session_id, answer.config_options, &self.support, shared);
        (wire.meta, wire.extra) = (answer.meta, answer.extra);
        shared.respond(Side::Client, id, &wire.encode(WireFormat::V1));
        if let Some(commands) = answer.available_commands {
            session.commands(session_id, commands, shared);
        }
    }

    pub(super) fn close_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::CloseSessionRequest<'_> = shared.params(Side::Client, request, WireFormat::V1)?;
        let session = params.session_id.into_owned();
        let purpose = ToAgent::Close { id: request.id.clone().into_owned(), session };
        self.to_agent.ask(&request.id, "session/close", request.params_text(), purpose, shared);
        Ok(())
    }

    pub(super) fn set_mode(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::SetSessionModeRequest<'_> = shared.params(Side::Client, request, WireFormat::V1)?;
        let options = self.sessions.get(&params.session_id).map(|session| &*session.options);
        let Some(option) = options.and_then(config::mode_option) else {
            return Err(Error::unrepresentable("session/set_mode", "the agent has no option for modes"));
        };
        let mut wire =
            v2::SetConfigId::new(params.session_id.clone(), option.config_id.clone(), params.mode_id);
        wire.meta = params.meta;
        let text = v2::SetSessionConfigOptionRequest::Id(wire).encode(WireFormat::Any);
        let session = params.session_id.into_owned();
        let purpose = ToAgent::SetMode { id: request.id.clone().into_owned(), session };
        self.to_agent.ask(&request.id, "session/set_config_option", &text, purpose, shared);
        Ok(())
    }

    pub(super) fn set_option(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::SetSessionConfigOptionRequest<'_> =
            shared.params(Side::Client, request, WireFormat::V1)?;
        let (session, wire) = match params {
            v1::SetSessionConfigOptionRequest::Id(set) => {
                (set.session_id.clone(), v2::SetSessionConfigOptionRequest::Id(set))
            }
            v1::SetSessionConfigOptionRequest::Boolean(set) => {
                (set.session_id.clone(), v2::SetSessionConfigOptionRequest::Boolean(set))
            }
            v1::SetSessionConfigOptionRequest::Unknown(unknown) => {
                let reason = format!("a value of type \"{}\"", unknown.tag);
                return Err(Error::unrepresentable("session/set_config_option", reason));
            }
        };
        let session = session.into_owned();
        let purpose = ToAgent::SetOption { id: request.id.clone().into_owned(), session };
        self.to_agent.ask(
            &request.id,
            "session/set_config_option",
            &wire.encode(WireFormat::Any),
            purpose,
            shared,
        );
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
        let Some(answer) = shared.result::<v2::SetSessionConfigOptionResponse<'_>>(
            id,
            "session/set_config_option",
            response,
            WireFormat::Any,
        ) else {
            return;
        };
        let session = self.sessions.open(session_id);
        let before = session.current_mode();
        let (_, options) =
            session.take_options(session_id, Some(answer.config_options), &self.support, shared);
        if is_mode {
            shared.respond(Side::Client, id, "{}");
            return;
        }
        let mut wire = v1::SetSessionConfigOptionResponse::new(options.unwrap_or_default());
        (wire.meta, wire.extra) = (answer.meta, answer.extra);
        shared.respond(Side::Client, id, &wire.encode(WireFormat::V1));
        session.tell_mode(session_id, before.as_deref(), shared);
    }
}

impl Session {
    /// Remembers options, and gives them as version 1 has them, together with the modes among them.
    pub(super) fn take_options(
        &mut self,
        id: &str,
        options: Option<Vec<v2::SessionConfigOption<'_>>>,
        support: &Support,
        shared: &mut Shared,
    ) -> (Option<v1::SessionModeState<'static>>, Option<Vec<v1::SessionConfigOption<'static>>>) {
        let Some(options) = options else { return (None, None) };
        self.options = options.into_owned();
        let modes = config::mode_option(&self.options).map(config::modes_of_option);
        let mut notes = Notes::default();
        let at = At::key("configOptions");
        let options = config::to_v1(self.options.clone(), support.booleans, &at, &mut notes);
        shared.note(Some(id), "configOptions", notes.entries, Side::Client);
        (modes, options.ok())
    }

    pub(super) fn current_mode(&self) -> Option<String> {
        config::mode_option(&self.options).map(|option| option.current_value.clone().into_owned())
    }

    /// Tells old clients that the mode is another one now.
    pub(super) fn tell_mode(&self, id: &str, before: Option<&str>, shared: &mut Shared) {
        let Some(mode) = self.current_mode().filter(|mode| Some(&**mode) != before) else { return };
        let update = v1::SessionUpdate::CurrentModeUpdate(v1::CurrentModeUpdate::new(mode));
        let params = v1::SessionNotification::new(Text::Borrowed(id), update);
        shared.send_update(Side::Client, &params, WireFormat::V1);
    }

    pub(super) fn commands(
        &mut self,
        id: &str,
        commands: Vec<v2::AvailableCommand<'_>>,
        shared: &mut Shared,
    ) {
        let mut notes = Notes::default();
        let converted = misc::commands_to_v1(commands, &At::key("availableCommands"), &mut notes);
        shared.note(Some(id), "available_commands_update", notes.entries, Side::Client);
        let Ok(commands) = converted else { return };
        let update = v1::SessionUpdate::AvailableCommandsUpdate(v1::AvailableCommandsUpdate::new(commands));
        let params = v1::SessionNotification::new(Text::Borrowed(id), update);
        shared.send_update(Side::Client, &params, WireFormat::V1);
    }

    /// Says something to the person at the client that the agent did not say in these words.
    pub(super) fn say(&mut self, id: &str, words: &str, shared: &mut Shared) {
        self.notices += 1;
        let mut chunk = v1::ContentChunk::new(v1::ContentBlock::text(words.to_owned()));
        chunk.message_id = Some(Text::Owned(format!("bridge-notice-{}", self.notices)));
        let params =
            v1::SessionNotification::new(Text::Borrowed(id), v1::SessionUpdate::AgentMessageChunk(chunk));
        shared.send_update(Side::Client, &params, WireFormat::V1);
    }

    pub(super) fn lose(
        &self,
        id: &str,
        message: &str,
        element: &str,
        reason: impl Into<String>,
        severity: Severity,
        shared: &mut Shared,
    ) {
        shared.lose(Some(id), message, element, reason, severity, Side::Client);
    }
}
