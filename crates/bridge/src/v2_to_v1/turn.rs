//! The prompt turn: one request of version 1 becomes acceptance, work and rest.

use switchboard_protocol::rpc::{Notification, Request, RequestId, Response, RpcError, codes};
use switchboard_protocol::{Text, Wire, WireFormat, v1, v2};

use super::messages::Role;
use super::{ToAgent, ToClient, V2ToV1, tell};
use crate::fingerprint::{ContentFingerprint, FingerprintPart};
use crate::loss::Severity;
use crate::shared::Shared;
use crate::v1_to_v2::cancel;
use crate::{Error, Moment, Side};

/// A turn as the agent sees it: one open request.
#[derive(Debug)]
pub(super) struct Turn {
    /// The client's id of the prompt.
    id: RequestId<'static>,
    message_id: String,
    prompt: Vec<v2::ContentBlock<'static>>,
    /// Whether the client has been told that the prompt is part of the conversation.
    accepted: bool,
    due: Moment,
    /// What has been seen of the agent's echo of the prompt.
    echoed: ContentFingerprint,
}

/// A prompt that waits for the turn before it.
#[derive(Debug)]
pub(super) struct Held {
    id: RequestId<'static>,
    params: String,
}

impl Turn {
    /// When the prompt counts as accepted without a sign.
    pub(super) fn due(&self) -> Option<Moment> {
        (!self.accepted).then_some(self.due)
    }

    /// Whether a user message repeats the prompt, which the client has been shown already.
    pub(super) fn repeats(&mut self, block: &v1::ContentBlock<'_>) -> bool {
        let Some(text) = block.as_text() else { return false };
        let prompt: String = self.prompt.iter().filter_map(|block| block.as_text()).collect();
        let mut seen = self.echoed.clone();
        seen.push(FingerprintPart::Text(text));
        let repeats = seen.rest([FingerprintPart::Text(&prompt)].into_iter()).is_some();
        if repeats {
            self.echoed = seen;
        }
        repeats
    }
}

impl V2ToV1 {
    pub(super) fn prompt(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v2::PromptRequest<'_> = shared.params(Side::Client, request, WireFormat::Any)?;
        if let Some((index, block)) =
            params.prompt.iter().enumerate().find(|(_, block)| block.as_unknown().is_some())
        {
            let reason = format!("version 1 has no content of type \"{}\"", block.tag());
            return Err(Error::unrepresentable(format!("prompt[{index}]"), reason));
        }
        let session_id = params.session_id.clone().into_owned();
        let due = shared.now.after(shared.options.acceptance);
        let limit = shared.options.limits.requests;
        let session = self.sessions.open(&session_id);
        if session.turn.is_some() {
            if session.held.len() >= limit {
                crate::bridge::refuse_full(shared, Side::Client, &request.id);
                return Ok(());
            }
            let held = Held { id: request.id.clone().into_owned(), params: request.params_text().to_owned() };
            session.held.push_back(held);
            return Ok(());
        }
        let message_id = session.mint(Role::User);
        let mut notes = crate::loss::Notes::default();
        let at = crate::loss::At::key("prompt");
        let mut prompt = Vec::with_capacity(params.prompt.len());
        for (index, block) in params.prompt.iter().cloned().enumerate() {
            prompt.push(crate::convert::content::to_v1(block, &at.item(index), &mut notes)?);
        }
        shared.note(Some(&session_id), "session/prompt", notes.entries, Side::Agent);
        session.turn = Some(Turn {
            id: request.id.clone().into_owned(),
            message_id,
            prompt: params.prompt.into_owned(),
            accepted: false,
            due,
            echoed: ContentFingerprint::default(),
        });
        session.run = None;
        let mut wire = v1::PromptRequest::new(session_id.clone(), prompt);
        (wire.meta, wire.extra) = (params.meta, params.extra);
        let text = wire.encode(WireFormat::V1);
        let purpose = ToAgent::Prompt { session: session_id };
        self.to_agent.ask(&request.id, "session/prompt", &text, purpose, shared);
        Ok(())
    }

    /// The agent is at work on the prompt, or as good as: tell the client that it is part of the conversation.
    pub(super) fn sign_of_life(&mut self, session_id: &str, shared: &mut Shared) {
        let keeps = !self.support.load;
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        let Some(turn) = session.turn.as_mut().filter(|turn| !turn.accepted) else { return };
        turn.accepted = true;
        let answer = v2::PromptResponse::new().message_id(turn.message_id.clone());
        let mut message = v2::MessageUpdate::new(turn.message_id.clone());
        message.content = switchboard_protocol::Field::Set(turn.prompt.clone());
        let id = turn.id.clone();
        shared.respond(Side::Client, &id, &answer.encode(shared.peers.client_revision()));
        tell(session_id, session, v2::SessionUpdate::UserMessage(message), keeps, shared);
        let running = v2::StateUpdate::Running(v2::ActiveState::new());
        tell(session_id, session, v2::SessionUpdate::StateUpdate(Box::new(running)), false, shared);
    }

    pub(super) fn prompt_answered(&mut self, session_id: &str, response: Response<'_>, shared: &mut Shared) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        let Some(turn) = &session.turn else { return };
        let mut idle = v2::IdleState::new();
        match response.outcome {
            Err(error) if !turn.accepted => {
                let id = turn.id.clone();
                session.turn = None;
                shared.fail(Side::Client, &id, error);
                return self.turn_over(session_id, shared);
            }
            Err(error) => return self.fail_work(session_id, &error.into_owned(), shared),
            Ok(result) => match v1::PromptResponse::decode_tolerant(result.as_str(), WireFormat::V1) {
                Ok((answer, _)) => {
                    idle.stop_reason = Some(answer.stop_reason);
                    idle.meta = answer.meta.map(Wire::into_owned);
                    idle.extra = answer.extra.into_owned();
                }
                // The turn is over all the same; why is not known.
                Err(error) => {
                    let (session, reason) = (Some(session_id), error.to_string());
                    shared.lose(session, "session/prompt", "result", reason, Severity::Major, Side::Client);
                }
            },
        }
        self.sign_of_life(session_id, shared);
        self.end_turn(session_id, idle, shared);
    }

    fn end_turn(&mut self, session_id: &str, idle: v2::IdleState<'_>, shared: &mut Shared) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        session.turn = None;
        session.run = None;
        session.asks = false;
        let state = v2::StateUpdate::Idle(idle);
        tell(session_id, session, v2::SessionUpdate::StateUpdate(Box::new(state)), false, shared);
        self.turn_over(session_id, shared);
    }

    /// What waited for the end of the turn.
    fn turn_over(&mut self, session_id: &str, shared: &mut Shared) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        if let Some(id) = session.closing.take() {
            self.forget(session_id, shared);
            return shared.respond(Side::Client, &id, "{}");
        }
        while let Some(held) = self.sessions.get_mut(session_id).and_then(|session| session.held.pop_front())
        {
            let params = switchboard_protocol::Raw::parse(held.params).ok();
            let extra = switchboard_protocol::Extra::new();
            let request = Request { id: held.id, method: Text::Borrowed("session/prompt"), params, extra };
            match self.prompt(&request, shared) {
                Ok(()) => break,
                Err(error) => shared.fail(Side::Client, &request.id, error.to_rpc()),
            }
        }
    }

    /// The session is gone while a turn was open.
    pub(super) fn abandon_turn(&mut self, session_id: &str, shared: &mut Shared) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        for held in std::mem::take(&mut session.held) {
            shared.refuse(Side::Client, &held.id, codes::REQUEST_CANCELLED, "the session was closed");
        }
        if session.turn.is_some() {
            self.sign_of_life(session_id, shared);
            let mut idle = v2::IdleState::new();
            idle.stop_reason = Some(v2::StopReason::Cancelled);
            self.end_turn(session_id, idle, shared);
        }
    }

    pub(super) fn cancel(&mut self, notification: &Notification<'_>, shared: &mut Shared) {
        let text = notification.params_text();
        if let Ok((params, _)) = v2::CancelSessionNotification::decode_tolerant(text, WireFormat::Any) {
            self.cancel_session(&params.session_id, shared);
        }
    }

    pub(super) fn cancel_session(&mut self, session_id: &str, shared: &mut Shared) {
        if let Some(session) = self.sessions.get_mut(session_id) {
            for held in session.held.drain(..) {
                shared.refuse(Side::Client, &held.id, codes::REQUEST_CANCELLED, "the prompt was cancelled");
            }
            session.asks = false;
        }
        let params = v1::CancelNotification::new(session_id).encode(WireFormat::V1);
        shared.notify(Side::Agent, "session/cancel", &params);
        let pending = self.to_client.take_all(
            |purpose| matches!(purpose, ToClient::Permission { session, .. } if session == session_id),
        );
        for (asked, purpose) in pending {
            shared.respond(Side::Agent, purpose.original(), r#"{"outcome":{"outcome":"cancelled"}}"#);
            cancel(Side::Client, &asked, shared);
        }
    }

    /// The client takes back a prompt: one that waits is gone, one that runs is cancelled.
    pub(super) fn cancel_prompt(&mut self, id: &RequestId<'static>, shared: &mut Shared) {
        let mut found = None;
        for (session_id, session) in self.sessions.iter_mut() {
            let before = session.held.len();
            session.held.retain(|held| held.id != *id);
            if session.held.len() < before {
                shared.refuse(Side::Client, id, codes::REQUEST_CANCELLED, "the prompt was taken back");
                return;
            }
            if session.turn.as_ref().is_some_and(|turn| turn.id == *id && !turn.accepted) {
                found = Some(session_id.clone());
            }
        }
        if let Some(session_id) = found {
            self.cancel_session(&session_id, shared);
        }
    }

    /// Everything that waits for the agent fails.
    pub(crate) fn agent_ended(&mut self, error: &RpcError<'static>, shared: &mut Shared) {
        let ids: Vec<String> = self.sessions.ids().cloned().collect();
        for session_id in ids {
            let Some(session) = self.sessions.get_mut(&session_id) else { continue };
            for held in std::mem::take(&mut session.held) {
                shared.fail(Side::Client, &held.id, error.clone());
            }
            let Some(turn) = &session.turn else { continue };
            if turn.accepted {
                self.fail_work(&session_id, error, shared);
            } else {
                let id = turn.id.clone();
                session.turn = None;
                shared.fail(Side::Client, &id, error.clone());
            }
        }
        for (_, purpose) in self.to_agent.take_all(|purpose| purpose.original().is_some()) {
            if let Some(id) = purpose.original() {
                shared.fail(Side::Client, id, error.clone());
            }
        }
    }

    /// The work that the client has been told of ends with an error.
    fn fail_work(&mut self, session_id: &str, error: &RpcError<'static>, shared: &mut Shared) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        (session.turn, session.run, session.asks) = (None, None, false);
        shared.rest_with_error(session_id, error);
        self.turn_over(session_id, shared);
    }

    /// Ends a turn because something was lost and nothing may be.
    pub(crate) fn fail_turn(&mut self, session_id: Option<&str>, reason: &str, shared: &mut Shared) {
        let Some(session_id) = session_id else { return };
        if self.sessions.get(session_id).is_none_or(|session| session.turn.is_none()) {
            return;
        }
        self.cancel_session(session_id, shared);
        if let Some(sent) = self
            .to_agent
            .find(|purpose| matches!(purpose, ToAgent::Prompt { session } if session == session_id))
        {
            self.to_agent.take(&sent);
        }
        self.sign_of_life(session_id, shared);
        let message = format!("ended because something cannot be translated: {reason}");
        self.fail_work(session_id, &RpcError::new(codes::INTERNAL_ERROR, message), shared);
    }
}
