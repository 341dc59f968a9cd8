//! Opening, listing and closing of sessions, and their configuration.

use switchboard_acp::rpc::{Request, RequestId, Response, codes};
use switchboard_acp::{AbsolutePath, Extra, Text, Wire, v1, v2};

use super::messages::StartedMessages;
use super::{Active, Journal, Session, ToAgent, V2ToV1, missing};
use crate::context::session_of;
use crate::convert::config;
use crate::convert::message::Rest;
use crate::convert::session;
use crate::loss::Severity;
use crate::own_ids::OwnIds;
use crate::sessions::roots;
use crate::{Error, Side};

const SET_OPTION: &str = "session/set_config_option";

impl V2ToV1 {
    pub(super) fn new_session(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v2::NewSessionRequest<'_> = self.context.params(Side::Client, request)?;
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let wire = self
            .context
            .convert(None, "session/new", "/params", Side::Agent, |cx| session::new_to_v1(params, cx))?;
        let purpose = ToAgent::NewSession { method: "session/new", roots };
        self.to_agent.ask(request, "session/new", &wire, purpose, &mut self.context);
        Ok(())
    }

    pub(super) fn fork_session(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let method = "session/fork";
        self.support.offered.check(method)?;
        let params: v2::unstable::ForkSessionRequest<'_> = self.context.params(Side::Client, request)?;
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let wire = self
            .context
            .convert(None, method, "/params", Side::Agent, |cx| session::fork_to_v1(params, cx))?;
        let purpose = ToAgent::NewSession { method, roots };
        self.to_agent.ask(request, method, &wire, purpose, &mut self.context);
        Ok(())
    }

    /// Handles a status request. For agents without status, sessions that the client opened count as open.
    pub(super) fn session_status(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let method = "session/status";
        let params: v2::unstable::SessionStatusRequest<'_> = self.context.params(Side::Client, request)?;
        let session_id = params.session_id.clone().into_owned();
        let Err(missing) = self.support.offered.check(method) else {
            let purpose = ToAgent::Status { session: session_id };
            self.to_agent.pass(request, method, purpose, &mut self.context);
            return Ok(());
        };
        // A session that was never opened here is unknown to the bridge, too.
        if self.sessions.get(&session_id).is_none() {
            return Err(missing);
        }
        let rest = (params.meta.as_ref(), &params.extra);
        self.context.report_lost_rest(None, method, "/params", rest, "answered by the bridge", Side::Agent);
        let mut answer = v2::unstable::SessionStatusResponse::new(v2::unstable::SessionStatus::Open);
        answer.state = self.state_of(&session_id);
        self.context.respond(Side::Client, &request.id, &answer, &Extra::new());
        Ok(())
    }

    pub(super) fn status_told(&mut self, id: &RequestId<'static>, session_id: &str, response: &Response<'_>) {
        let method = "session/status";
        let answer = self.context.result::<v1::unstable::SessionStatusResponse<'_>>(id, method, response);
        let Some(answer) = answer else { return };
        let mut wire = session::status_to_v2(answer);
        wire.state = self.state_of(session_id);
        self.context.respond(Side::Client, id, &wire, &response.extra);
    }

    /// Returns the state of a session that is open here.
    fn state_of(&self, session_id: &str) -> Option<v2::StateUpdate<'static>> {
        let session = self.sessions.get(session_id)?;
        Some(match session {
            // A pending question takes precedence over running.
            Session { asks: true, .. } => v2::StateUpdate::RequiresAction(v2::ActiveState::new()),
            session if session.turn.is_some() || self.subagents.is_active(session_id) => {
                v2::StateUpdate::Running(v2::ActiveState::new())
            }
            _ => v2::StateUpdate::Idle(v2::IdleState::new()),
        })
    }

    pub(super) fn session_made(
        &mut self,
        id: &RequestId<'static>,
        method: &str,
        roots: Vec<String>,
        response: &Response<'_>,
    ) {
        let Some(mut answer) = self.context.result::<v1::NewSessionResponse<'_>>(id, method, response) else {
            return;
        };
        let session_id = answer.session_id.clone().into_owned();
        let mut active = self.active(&session_id);
        active.session.roots = roots;
        // A new session has a complete, empty journal.
        active.session.journal = Journal::default();
        active.session.started = StartedMessages::default();
        let options = active.take_options(method, answer.modes.take(), answer.config_options.take());
        let wire = session::made_to_v2(answer, options);
        self.context.respond(Side::Client, id, &wire, &response.extra);
    }

    pub(super) fn resume_session(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v2::ResumeSessionRequest<'_> = self.context.params(Side::Client, request)?;
        let session_id = params.session_id.clone().into_owned();
        let roots = roots(&params.cwd, params.additional_directories.as_deref());
        let replays = match &params.replay_from {
            None => false,
            Some(v2::ReplayFrom::Start(_)) => true,
            Some(v2::ReplayFrom::Unknown(unknown)) => {
                let reason = format!("a version 1 agent cannot replay from \"{}\"", unknown.tag);
                return Err(Error::unrepresentable("replayFrom", reason));
            }
            Some(v2::ReplayFrom::More(none)) => none.never(),
        };
        // Read before the request resets the session.
        let has_journal = self.sessions.get(&session_id).is_some_and(|session| !session.journal.incomplete);
        // A load replays, a resume does not. Without `session/resume`, a load with suppressed replay is the
        // fallback; without `session/load`, the journal replaces the replay.
        let loads = match (replays, self.support.load, self.support.resume) {
            (true, true, _) | (false, true, false) => true,
            (false, _, true) => false,
            (true, false, true) if has_journal => false,
            (true, false, _) => {
                let reason = "the agent cannot replay the session, and the bridge has no copy of its history";
                return Err(Error::unrepresentable("replayFrom", reason));
            }
            (false, false, false) => {
                return Err(missing(request, "the agent supports neither session/load nor session/resume"));
            }
        };
        let (load, resume) =
            self.context.convert(Some(&session_id), "session/resume", "/params", Side::Agent, |cx| {
                Ok(if loads {
                    (Some(session::load_to_v1(params, cx)?), None)
                } else {
                    (None, Some(session::resume_to_v1(params, cx)?))
                })
            })?;
        // Checked last, but before any state changes.
        if self.to_agent.is_full() {
            self.context.refuse_full(Side::Client, &request.id);
            return Ok(());
        }
        // Sub-agents are replayed with their parent.
        if replays && loads {
            for child in self.below(&session_id) {
                if let Some(child) = self.sessions.get_mut(&child) {
                    child.forget_shown();
                }
            }
        }
        let session = self.sessions.open(&session_id);
        session.roots = roots;
        session.is_old = true;
        session.replays = replays && loads;
        // A suppressed history must be recognized before the agent starts to send it.
        if session.replays {
            session.forget_shown();
        } else {
            session.swallows = loads;
            // The history is not counted, so counting starts again and the salt must change. A host without a
            // salt at least has a different time.
            self.resumed += 1;
            let time = if self.context.salt.is_empty() { self.context.now.0 } else { 0 };
            session.salt = match time {
                0 => format!("{:x}r", self.resumed),
                time => format!("{:x}r{time:x}-", self.resumed),
            };
            session.minted.clear();
        }
        let purpose = ToAgent::OldSession { session: session_id, replays };
        match (load, resume) {
            (Some(wire), _) => self.to_agent.ask(request, "session/load", &wire, purpose, &mut self.context),
            (None, Some(wire)) => {
                self.to_agent.ask(request, "session/resume", &wire, purpose, &mut self.context);
            }
            (None, None) => {}
        }
        Ok(())
    }

    pub(super) fn session_back(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        replays: bool,
        response: &Response<'_>,
    ) {
        let loads = self.support.load;
        // Collected first, because `active` borrows the session.
        let below = if replays && !loads { self.journals_of_children(session_id) } else { Vec::new() };
        for child in self.below(session_id) {
            if let Some(child) = self.sessions.get_mut(&child) {
                child.count_on();
            }
        }
        // The replay is over with the response, successful or not.
        let mut active = self.active(session_id);
        (active.session.swallows, active.session.replays) = (false, false);
        active.session.count_on();
        active.session.run = None;
        let Some(mut answer) =
            active.context.result::<v1::LoadSessionResponse<'_>>(id, "session/resume", response)
        else {
            return;
        };
        // The journal takes the place of the agent's replay, before the response as in a real one.
        if replays && !loads {
            for line in &active.session.journal.lines {
                active.context.send(Side::Client, line.clone());
            }
            for line in below {
                active.context.send(Side::Client, line);
            }
        }
        // The client needs the current state; version 1 has no states to replay.
        if active.session.turn.is_none() {
            active.send_state(v2::StateUpdate::Idle(v2::IdleState::new()));
        }
        let options =
            active.take_options("session/resume", answer.modes.take(), answer.config_options.take());
        let wire = session::resumed_to_v2(answer, options);
        self.context.respond(Side::Client, id, &wire, &response.extra);
    }

    pub(super) fn list_sessions(&mut self, request: &Request<'_>) -> Result<(), Error> {
        if self.support.list {
            self.pass(request, "session/list");
            return Ok(());
        }
        let params: v2::ListSessionsRequest<'_> = self.context.params(Side::Client, request)?;
        let wanted = |cwd: &str| params.cwd.as_ref().is_none_or(|wanted| wanted.as_str() == cwd);
        let mut known = Vec::new();
        // The agent has no list: the bridge knows the sessions of this connection.
        for id in self.sessions.ids() {
            let Some(session) = self.sessions.get(&id) else { continue };
            // A session without a prompt is empty.
            let is_empty = session.title.is_none() && !session.is_old;
            let Some(cwd) = session.roots.first().filter(|cwd| !is_empty && wanted(cwd)) else { continue };
            known.push(v2::SessionInfo {
                title: session.title.clone().map(Text::Owned),
                ..v2::SessionInfo::new(id.clone(), AbsolutePath::as_sent(cwd.clone()))
            });
        }
        let wire = v2::ListSessionsResponse::new(known);
        let reason = "the agent has no session list; these are the sessions of this connection";
        self.context.report_loss(
            None,
            "session/list",
            "/result/sessions",
            reason,
            Severity::Minor,
            Side::Client,
        );
        let rest = (params.meta.as_ref(), &params.extra);
        self.context.report_lost_rest(None, "session/list", "/params", rest, reason, Side::Agent);
        self.context.respond(Side::Client, &request.id, &wire, &Extra::new());
        Ok(())
    }

    pub(super) fn close_session(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v2::CloseSessionRequest<'_> = self.context.params(Side::Client, request)?;
        let session_id = params.session_id.clone().into_owned();
        if self.support.close {
            let purpose = ToAgent::Close { session: session_id };
            self.to_agent.pass(request, "session/close", purpose, &mut self.context);
            return Ok(());
        }
        let rest = (params.meta.as_ref(), &params.extra);
        let reason = "the agent cannot close sessions; only the bridge drops it";
        self.context.report_lost_rest(
            Some(&session_id),
            "session/close",
            "/params",
            rest,
            reason,
            Side::Agent,
        );
        self.close_here(&request.id, &session_id);
        Ok(())
    }

    /// Closes a session of an agent that cannot: cancels its turn, then removes it here.
    fn close_here(&mut self, id: &RequestId<'_>, session_id: &str) {
        match self.sessions.get_mut(session_id) {
            // The response waits for the end of the turn, which the cancellation causes.
            Some(session) if session.turn.is_some() => {
                session.closing = Some(id.clone().into_owned());
                let params = v2::CancelSessionNotification::new(session_id);
                self.cancel_session(&params, &Extra::new());
            }
            _ => {
                self.forget(session_id);
                self.context.done(Side::Client, id);
            }
        }
    }

    pub(super) fn session_closed(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        response: Response<'_>,
    ) {
        match &response.outcome {
            Ok(_) => {
                // The turn ends before the session is removed.
                self.abandon_turn(session_id);
                self.forget(session_id);
            }
            // The agent announced the method but does not have it.
            Err(error) if error.code == codes::METHOD_NOT_FOUND => {
                // Not asked again on this connection.
                self.support.close = false;
                let reason = format!(
                    "the agent announced session/close but does not support it: {error}; the bridge cancels and drops the session"
                );
                let (session, method) = (Some(session_id), "session/close");
                self.context.report_loss(session, method, "/error", reason, Severity::Minor, Side::Client);
                return self.close_here(id, session_id);
            }
            // The session still exists.
            Err(_) => {}
        }
        self.context.pass_answer(Side::Client, id, response);
    }

    pub(super) fn forget(&mut self, session_id: &str) {
        // Commands are killed while the session is still known.
        self.terminals.release_all(session_id, &mut self.context);
        self.sessions.forget(session_id);
        self.subagents.forget(session_id);
    }

    pub(super) fn set_option(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v2::SetSessionConfigOptionRequest<'_> = self.context.params(Side::Client, request)?;
        let session_id = session_of(request.params.as_ref()).unwrap_or_default();
        let mode_option = self.sessions.get(&session_id).and_then(|session| session.mode_option.as_deref());
        let set = Box::new(params.clone().into_owned());
        let purpose = ToAgent::SetOption { session: session_id.clone(), set };
        match params {
            // The bridge created this option from the agent's modes, so `session/set_mode` sets it.
            v2::SetSessionConfigOptionRequest::Id(set) if mode_option == Some(&*set.config_id) => {
                let wire = config::set_mode_to_v1(set);
                self.to_agent.ask(request, "session/set_mode", &wire, purpose, &mut self.context);
            }
            params => {
                let wire =
                    self.context.convert(Some(&session_id), SET_OPTION, "/params", Side::Agent, |cx| {
                        config::set_to_v1(params, cx)
                    })?;
                self.to_agent.ask(request, SET_OPTION, &wire, purpose, &mut self.context);
            }
        }
        Ok(())
    }

    /// Handles the response to a request that sets an option. A mode change has no options in its response.
    pub(super) fn option_set(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        set: &v2::SetSessionConfigOptionRequest<'_>,
        response: &Response<'_>,
    ) {
        // Agents that send no options in the response get them applied here.
        let tells = response.outcome.as_ref().is_ok_and(|result| result.get("configOptions").is_some());
        let mut active = self.active(session_id);
        let wire = if tells {
            let answer =
                active.context.result::<v1::SetSessionConfigOptionResponse<'_>>(id, SET_OPTION, response);
            let Some(answer) = answer else { return };
            let (options, Rest { meta, extra }) = config::set_answer_to_v2(answer);
            let config_options = active.take_options(SET_OPTION, None, Some(options)).unwrap_or_default();
            v2::SetSessionConfigOptionResponse { config_options, meta, extra, more: switchboard_acp::More }
        } else {
            let answer = active.context.result::<v1::EmptyResponse<'_>>(id, SET_OPTION, response);
            let Some(answer) = answer else { return };
            active.session.options.change(|options| config::apply(options, set));
            config::mode_answer_to_v2(answer, active.session.options.to_vec())
        };
        active.context.respond(Side::Client, id, &wire, &response.extra);
    }
}

impl Session {
    /// Resets delivered state before a replay, which counts as new.
    fn forget_shown(&mut self) {
        self.run = None;
        // Counts from zero, so that messages without ids get the same ids as when they were live.
        for (role, count) in self.minted.drain() {
            let before = self.minted_before_replay.entry(role).or_default();
            *before = count.max(*before);
        }
        // Ids of the replay must be the same as in the live session.
        self.own_messages = OwnIds::default();
        self.counted_user = None;
        self.started = StartedMessages::default();
        self.calls.forget();
        self.journal = Journal::default();
    }

    /// Ends a replay: later messages get ids that were not used before it.
    fn count_on(&mut self) {
        for (role, before) in self.minted_before_replay.drain() {
            let count = self.minted.entry(role).or_default();
            *count = before.max(*count);
        }
    }

    /// Stores options and returns them together with the mode option if none of them is one. It stays until
    /// another is sent, because version 1 sends modes only when a session is opened.
    pub(super) fn with_mode_option(
        &mut self,
        mut options: Vec<v2::SessionConfigOption<'static>>,
        shown_modes: Option<v2::SessionConfigOption<'static>>,
    ) -> Vec<v2::SessionConfigOption<'static>> {
        let before = self.mode_option.take();
        // An option of the agent for modes takes precedence over its list of modes.
        let is_told = config::mode_option(&options).is_some();
        let is_it = |option: &&v2::SessionConfigOption<'_>| {
            before.is_some() && config::id_of(option) == before.as_deref()
        };
        let choice = shown_modes.or_else(|| self.options.iter().find(is_it).cloned()).filter(|_| !is_told);
        if let Some(v2::SessionConfigOption::Select(mut choice)) = choice {
            // The agent may have an unrelated option with this id.
            let is_taken = options.iter().any(|option| config::id_of(option) == Some("mode"));
            let config_id = if is_taken { "_v1_mode" } else { "mode" };
            choice.config_id = config_id.into();
            self.mode_option = Some(config_id.to_owned());
            options.insert(0, v2::SessionConfigOption::Select(choice));
        }
        self.options.set(options.clone());
        options
    }
}

impl Active<'_> {
    /// Stores the options of a response and converts them to version 2. Modes become an additional option
    /// unless one of the options is about modes.
    pub(super) fn take_options(
        &mut self,
        method: &str,
        modes: Option<v1::SessionModeState<'_>>,
        options: Option<Vec<v1::SessionConfigOption<'_>>>,
    ) -> Option<Vec<v2::SessionConfigOption<'static>>> {
        let converted = self.context.convert(Some(self.id), method, "/result", Side::Client, |cx| {
            let options = match options {
                Some(options) => Some(config::to_v2(options, &mut cx.key("configOptions"))?.into_owned()),
                None => None,
            };
            // Convert options first: they decide whether the modes are needed.
            let option = options.as_deref().and_then(config::mode_option);
            let choice = match modes {
                Some(modes) if option.is_some() || modes.available_modes.is_empty() => {
                    config::report_lost_modes(&modes, option, &mut cx.key("modes"))?;
                    None
                }
                Some(modes) => Some(config::option_of_modes(modes, "mode").into_owned()),
                None => None,
            };
            Ok((options, choice))
        });
        // A noted loss does not fail.
        let (options, choice) = converted.unwrap_or_default();
        if options.is_none() && choice.is_none() {
            return None;
        }
        Some(self.session.with_mode_option(options.unwrap_or_default(), choice))
    }
}
