//! Opening, finding and closing sessions, and their configuration.

use switchboard_protocol::rpc::{Request, RequestId, Response};
use switchboard_protocol::{AbsolutePath, Text, Wire, WireFormat, v1, v2};

use super::{Session, ToAgent, V2ToV1, missing, tell};
use crate::convert::{config, servers};
use crate::loss::{At, Notes, Severity};
use crate::sessions::roots;
use crate::shared::Shared;
use crate::{Error, Side};

impl V2ToV1 {
    pub(super) fn new_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v2::NewSessionRequest<'_> = shared.params(Side::Client, request, WireFormat::Any)?;
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let list = servers::to_v1(params.mcp_servers.unwrap_or_default(), &At::key("mcpServers"))?;
        let mut wire = v1::NewSessionRequest::new(params.cwd, list);
        wire.additional_directories = params.additional_directories;
        (wire.meta, wire.extra) = (params.meta, params.extra);
        let purpose = ToAgent::NewSession { id: request.id.clone().into_owned(), roots };
        self.to_agent.ask(&request.id, "session/new", &wire.encode(WireFormat::V1), purpose, shared);
        Ok(())
    }

    pub(super) fn session_made(
        &mut self,
        id: &RequestId<'static>,
        roots: Vec<String>,
        response: &Response<'_>,
        shared: &mut Shared,
    ) {
        let Some(answer) =
            shared.result::<v1::NewSessionResponse<'_>>(id, "session/new", response, WireFormat::V1)
        else {
            return;
        };
        let session_id = answer.session_id.clone().into_owned();
        let session = self.sessions.open(&session_id);
        session.roots = roots;
        let mut wire = v2::NewSessionResponse::new(answer.session_id);
        wire.config_options = session.take_options(&session_id, answer.modes, answer.config_options, shared);
        (wire.meta, wire.extra) = (answer.meta, answer.extra);
        shared.respond(Side::Client, id, &wire.encode(shared.peers.client_revision()));
    }

    pub(super) fn resume_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v2::ResumeSessionRequest<'_> = shared.params(Side::Client, request, WireFormat::Any)?;
        let session_id = params.session_id.clone().into_owned();
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let replays = match &params.replay_from {
            None => false,
            Some(v2::ReplayFrom::Start(_)) => true,
            Some(v2::ReplayFrom::Unknown(unknown)) => {
                let reason = format!("a version 1 agent cannot replay from \"{}\"", unknown.tag);
                return Err(Error::unrepresentable("replayFrom", reason));
            }
        };
        let has_journal = self.sessions.get(&session_id).is_some_and(|session| !session.journal.incomplete);
        let loads = match (replays, self.support.load, self.support.resume) {
            (true, true, _) | (false, true, false) => true,
            (false, _, true) => false,
            (true, false, true) if has_journal => false,
            (true, false, _) => {
                let reason = "the agent cannot replay a session, and nothing of it is kept here";
                return Err(Error::unrepresentable("replayFrom", reason));
            }
            (false, false, false) => return Err(missing(request, "the agent cannot go on with a session")),
        };
        let list = servers::to_v1(params.mcp_servers.unwrap_or_default(), &At::key("mcpServers"))?;
        let session = self.sessions.open(&session_id);
        session.roots = roots;
        if replays && loads {
            session.forget_shown();
        } else {
            session.swallows = loads;
            session.salt = format!("{:x}-", shared.now.0);
        }
        let purpose =
            ToAgent::OldSession { id: request.id.clone().into_owned(), session: session_id, replays };
        if loads {
            let mut wire = v1::LoadSessionRequest::new(params.session_id, params.cwd, list);
            wire.additional_directories = params.additional_directories;
            (wire.meta, wire.extra) = (params.meta, params.extra);
            self.to_agent.ask(&request.id, "session/load", &wire.encode(WireFormat::V1), purpose, shared);
        } else {
            let mut wire = v1::ResumeSessionRequest::new(params.session_id, params.cwd);
            wire.mcp_servers = Some(list);
            wire.additional_directories = params.additional_directories;
            (wire.meta, wire.extra) = (params.meta, params.extra);
            self.to_agent.ask(&request.id, "session/resume", &wire.encode(WireFormat::V1), purpose, shared);
        }
        Ok(())
    }

    pub(super) fn session_back(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        replays: bool,
        response: &Response<'_>,
        shared: &mut Shared,
    ) {
        let loads = self.support.load;
        let session = self.sessions.open(session_id);
        session.swallows = false;
        session.run = None;
        let Some(answer) =
            shared.result::<v1::LoadSessionResponse<'_>>(id, "session/resume", response, WireFormat::V1)
        else {
            return;
        };
        if replays && !loads {
            for line in &session.journal.lines {
                shared.send(Side::Client, line.clone());
            }
        }
        if session.turn.is_none() {
            let idle = v2::StateUpdate::Idle(v2::IdleState::new());
            tell(session_id, session, v2::SessionUpdate::StateUpdate(Box::new(idle)), false, shared);
        }
        let mut wire = v2::ResumeSessionResponse::new();
        wire.config_options = session.take_options(session_id, answer.modes, answer.config_options, shared);
        (wire.meta, wire.extra) = (answer.meta, answer.extra);
        shared.respond(Side::Client, id, &wire.encode(shared.peers.client_revision()));
    }

    pub(super) fn list_sessions(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        if self.support.list {
            self.pass(request, "session/list", shared);
            return Ok(());
        }
        let params: v2::ListSessionsRequest<'_> = shared.params(Side::Client, request, WireFormat::Any)?;
        let wanted = |cwd: &str| params.cwd.as_ref().is_none_or(|wanted| wanted.as_str() == cwd);
        let mut known = Vec::new();
        for id in self.sessions.ids() {
            let Some(cwd) = self.sessions.get(id).and_then(|session| session.roots.first()) else { continue };
            if wanted(cwd) {
                known.push(v2::SessionInfo::new(id.clone(), AbsolutePath::as_sent(cwd.clone())));
            }
        }
        let wire = v2::ListSessionsResponse::new(known).encode(WireFormat::Any);
        let reason = "the agent keeps no list; these are the sessions of this connection";
        shared.lose(None, "session/list", "sessions", reason, Severity::Minor, Side::Client);
        shared.respond(Side::Client, &request.id, &wire);
        Ok(())
    }

    pub(super) fn close_session(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v2::CloseSessionRequest<'_> = shared.params(Side::Client, request, WireFormat::Any)?;
        let session_id = params.session_id.into_owned();
        if self.support.close {
            let purpose = ToAgent::Close { id: request.id.clone().into_owned(), session: session_id };
            self.to_agent.ask(&request.id, "session/close", request.params_text(), purpose, shared);
            return Ok(());
        }
        match self.sessions.get_mut(&session_id) {
            Some(session) if session.turn.is_some() => {
                session.closing = Some(request.id.clone().into_owned());
                self.cancel_session(&session_id, shared);
            }
            _ => {
                self.forget(&session_id, shared);
                shared.respond(Side::Client, &request.id, "{}");
            }
        }
        Ok(())
    }

    pub(super) fn session_closed(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        response: Response<'_>,
        shared: &mut Shared,
    ) {
        if response.outcome.is_ok() {
            self.abandon_turn(session_id, shared);
            self.forget(session_id, shared);
        }
        shared.pass_answer(Side::Client, id, response.outcome);
    }

    pub(super) fn forget(&mut self, session_id: &str, shared: &mut Shared) {
        self.terminals.release_all(session_id, shared);
        self.sessions.forget(session_id);
    }

    pub(super) fn set_option(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v2::SetSessionConfigOptionRequest<'_> =
            shared.params(Side::Client, request, WireFormat::Any)?;
        let (session_id, wire) = match params {
            v2::SetSessionConfigOptionRequest::Id(set) => {
                let session = self.sessions.get(&set.session_id);
                let is_mode =
                    session.is_some_and(|session| session.mode_option.as_deref() == Some(&*set.config_id));
                if is_mode {
                    let mut wire = v1::SetSessionModeRequest::new(set.session_id.clone(), set.value.clone());
                    wire.meta = set.meta;
                    let purpose = ToAgent::SetMode {
                        id: request.id.clone().into_owned(),
                        session: set.session_id.into_owned(),
                        mode: set.value.into_owned(),
                    };
                    let text = wire.encode(WireFormat::V1);
                    self.to_agent.ask(&request.id, "session/set_mode", &text, purpose, shared);
                    return Ok(());
                }
                (set.session_id.clone(), v1::SetSessionConfigOptionRequest::Id(set))
            }
            v2::SetSessionConfigOptionRequest::Boolean(set) => {
                (set.session_id.clone(), v1::SetSessionConfigOptionRequest::Boolean(set))
            }
            v2::SetSessionConfigOptionRequest::Unknown(unknown) => {
                let reason = format!("version 1 has no values of type \"{}\"", unknown.tag);
                return Err(Error::unrepresentable("value", reason));
            }
        };
        let purpose =
            ToAgent::SetOption { id: request.id.clone().into_owned(), session: session_id.into_owned() };
        self.to_agent.ask(
            &request.id,
            "session/set_config_option",
            &wire.encode(WireFormat::V1),
            purpose,
            shared,
        );
        Ok(())
    }

    pub(super) fn mode_set(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        mode: &str,
        response: Response<'_>,
        shared: &mut Shared,
    ) {
        if let Err(error) = response.outcome {
            return shared.fail(Side::Client, id, error);
        }
        let session = self.sessions.open(session_id);
        session.change_mode(mode);
        let wire = v2::SetSessionConfigOptionResponse::new(session.options.clone());
        shared.respond(Side::Client, id, &wire.encode(shared.peers.client_revision()));
    }

    pub(super) fn option_set(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        response: &Response<'_>,
        shared: &mut Shared,
    ) {
        let Some(answer) = shared.result::<v1::SetSessionConfigOptionResponse<'_>>(
            id,
            "session/set_config_option",
            response,
            WireFormat::V1,
        ) else {
            return;
        };
        let session = self.sessions.open(session_id);
        let options = session.take_options(session_id, None, Some(answer.config_options), shared);
        let mut wire = v2::SetSessionConfigOptionResponse::new(options.unwrap_or_default());
        (wire.meta, wire.extra) = (answer.meta, answer.extra);
        shared.respond(Side::Client, id, &wire.encode(shared.peers.client_revision()));
    }
}

impl Session {
    /// Everything comes again, so that all of it counts as new.
    fn forget_shown(&mut self) {
        self.run = None;
        // Counted anew, so that messages without ids get the same ones as when they were live.
        self.minted.clear();
        self.counted_user = None;
        self.calls.forget();
        self.journal = super::Journal::default();
    }

    /// Remembers options, and gives them as version 2 has them. Modes are an option where there are no others.
    pub(super) fn take_options(
        &mut self,
        id: &str,
        modes: Option<v1::SessionModeState<'_>>,
        options: Option<Vec<v1::SessionConfigOption<'_>>>,
        shared: &mut Shared,
    ) -> Option<Vec<v2::SessionConfigOption<'static>>> {
        let mut notes = Notes::default();
        let converted = match (modes, options) {
            (_, Some(options)) => {
                self.mode_option = None;
                config::to_v2(options.into_owned(), &At::key("configOptions"), &mut notes).ok()
            }
            (Some(modes), None) if !modes.available_modes.is_empty() => {
                self.mode_option = Some("mode".to_owned());
                Some(vec![config::option_of_modes(&modes, "mode")])
            }
            _ => None,
        };
        shared.note(Some(id), "configOptions", notes.entries, Side::Client);
        if let Some(options) = &converted {
            self.options.clone_from(options);
        }
        converted
    }

    /// The mode is another one now. Whether there is an option that can say so.
    pub(super) fn change_mode(&mut self, mode: &str) -> bool {
        let is_mode = |select: &v2::SessionConfigSelect<'_>| {
            select.category == Some(v2::SessionConfigOptionCategory::Mode)
        };
        for option in &mut self.options {
            if let v2::SessionConfigOption::Select(select) = option
                && is_mode(select)
            {
                select.current_value = Text::Owned(mode.to_owned());
                return true;
            }
        }
        false
    }
}
