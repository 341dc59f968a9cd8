//! The prompt turn: one request of version 1 becomes acceptance, running and idle states.

use switchboard_acp::rpc::{
    CancelRequestNotification, Notification, Request, RequestId, Response, RpcError, codes,
};
use switchboard_acp::{Extra, Raw, Wire, WireFormat, v1, v2};
use switchboard_session::prompt_title;

use super::{Session, ToAgent, ToClient, V2ToV1};
use crate::context::Context;
use crate::convert::content::plain_text;
use crate::convert::{Losses, permission, session};
use crate::echo::Echo;
use crate::loss::Severity;
use crate::role::Role;
use crate::translator::Turns;
use crate::{Error, Moment, Side};

/// A turn as the agent sees it: one pending request.
#[derive(Debug)]
pub(super) struct Turn {
    /// The client's id of the prompt.
    id: RequestId<'static>,
    message_id: String,
    prompt: Vec<v2::ContentBlock<'static>>,
    /// Set if the client was sent the acceptance of the prompt.
    accepted: bool,
    due: Moment,
    /// Progress of the agent's echo of the prompt.
    echoed: Echo,
}

impl Turn {
    /// Returns the time at which the prompt counts as accepted without a sign of activity.
    pub(super) fn due(&self) -> Option<Moment> {
        (!self.accepted).then_some(self.due)
    }

    /// Returns the message id of the prompt for the client.
    pub(super) fn message_id(&self) -> &str {
        &self.message_id
    }

    /// Returns whether a user message repeats the prompt, which the client already has.
    pub(super) fn repeats(&mut self, block: &v1::ContentBlock<'_>) -> bool {
        block.as_text().is_some() && self.echoed.continues(std::slice::from_ref(block), false)
    }

    /// Reports parts of an echo that the prompt does not have.
    pub(super) fn report_lost_echo(&self, session: &str, chunk: v1::ContentChunk<'_>, context: &mut Context) {
        let v1::ContentChunk { content, message_id: _, meta, extra, more: _ } = chunk;
        let (tag, reason) = (Role::User.chunk_tag(), "the client already has its own prompt as sent");
        context.report_lost_rest(
            Some(session),
            tag,
            "/params/update",
            (meta.as_ref(), &extra),
            reason,
            Side::Client,
        );
        if plain_text(&content).is_none() && !self.prompt.contains(&content) {
            let pointer = "/params/update/content";
            context.report_loss(Some(session), tag, pointer, reason, Severity::Minor, Side::Client);
        }
    }
}

impl Session {
    /// Ends the turn.
    fn clear_turn(&mut self) {
        (self.turn, self.run, self.asks) = (None, None, false);
    }
}

impl Turns for V2ToV1 {
    fn cancel(&mut self, notification: &Notification<'_>) {
        match v2::CancelSessionNotification::decode_tolerant(notification.params_text(), WireFormat::Any) {
            Ok((params, _)) => self.cancel_session(&params, &notification.extra),
            Err(error) => {
                let (method, reason) = (&notification.method, error.to_string());
                self.context.report_loss(None, method, "/params", reason, Severity::Major, Side::Agent);
            }
        }
    }

    fn cancel_request(&mut self, from: Side, notification: &Notification<'_>) {
        let Some(params) = self.context.cancellation(from, notification) else { return };
        let own = params.request_id.clone().into_owned();
        // Find the id under which the request was sent; each side knows only its own id.
        let sent = match from {
            // A pending prompt is not cancelled as a request; its turn is.
            Side::Client => self
                .to_agent
                .sent_as(&own)
                .filter(|sent| !matches!(self.to_agent.get(sent), Some(ToAgent::Prompt { .. }))),
            Side::Agent => self.to_client.sent_as(&own),
        };
        match sent {
            Some(sent) => self.context.cancel(from.other(), sent, params, &notification.extra),
            None if from == Side::Client => self.cancel_prompt(&own, params, &notification.extra),
            None => self.context.report_late_cancellation(from, &params, &notification.extra),
        }
    }

    fn agent_ended(&mut self, error: &RpcError<'static>) {
        for session_id in self.sessions.ids() {
            let Some(session) = self.sessions.get_mut(&session_id) else { continue };
            // Queued prompts fail first: none of them may start now.
            for held in std::mem::take(&mut session.waiting) {
                self.context.fail(Side::Client, &held.id, error.clone());
            }
            // A session with running sub-agents becomes idle with the error, whether it has a turn or not.
            if self.subagents.is_active(&session_id) {
                self.context.idle_with_error(&session_id, error);
                continue;
            }
            let Some(turn) = &session.turn else { continue };
            // After the acceptance the request is answered, so the error goes into the state.
            if turn.accepted {
                self.fail_work(&session_id, error);
            } else {
                let id = turn.id.clone();
                session.turn = None;
                self.context.fail(Side::Client, &id, error.clone());
            }
        }
        // After the sessions, whose states depend on the tree.
        self.subagents.end_all(error);
        // Prompts have been handled above.
        for (_, id) in self.to_agent.take_all(|purpose| !matches!(purpose, ToAgent::Prompt { .. })) {
            self.context.fail(Side::Client, &id, error.clone());
        }
    }

    fn fail_turn(&mut self, session_id: &str, reason: &str) {
        if self.sessions.get(session_id).is_none_or(|session| session.turn.is_none()) {
            return;
        }
        // The agent is told to stop first, then its response is ignored.
        self.cancel_session(&v2::CancelSessionNotification::new(session_id), &Extra::new());
        if let Some(sent) = self
            .to_agent
            .find(|purpose| matches!(purpose, ToAgent::Prompt { session } if session == session_id))
        {
            // Removed, so that the agent's late response does not end the next turn.
            self.to_agent.take(&sent);
        }
        // Version 2 clients expect an acceptance before the end.
        self.accept_prompt(session_id);
        let message = format!("the turn was ended because of a loss under the strict policy: {reason}");
        self.fail_work(session_id, &RpcError::new(codes::INTERNAL_ERROR, message));
    }
}

impl V2ToV1 {
    pub(super) fn prompt(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v2::PromptRequest<'_> = self.context.params(Side::Client, request)?;
        let session_id = params.session_id.clone().into_owned();
        // The time counts from the arrival, not from the end of a queue.
        let due = self.context.now.after(self.context.options.acceptance);
        if self.sessions.get(&session_id).is_some_and(|session| session.turn.is_some()) {
            // A prompt that cannot be converted is refused before it is queued.
            session::prompt_to_v1(params.clone(), &mut Losses::noted().at("session/prompt", "/params"))?;
        }
        if !self.context.admits(request, &session_id, &mut self.sessions, &self.to_agent) {
            return Ok(());
        }
        let prompt = params.prompt.clone().into_owned();
        let wire =
            self.context.convert(Some(&session_id), "session/prompt", "/params", Side::Agent, |cx| {
                session::prompt_to_v1(params, cx)
            })?;
        let session = self.sessions.open(&session_id);
        if session.title.is_none() {
            let blocks: Vec<Raw<'_>> = prompt.iter().map(|block| Raw::of(block, WireFormat::Any)).collect();
            session.title = prompt_title(&Raw::array(blocks));
        }
        // The id exists before the agent sees the prompt, for the acceptance.
        let message_id = session.mint(&self.context.salt, Role::User);
        // The turn must exist before the prompt is sent: updates may follow at once.
        session.turn = Some(Turn {
            id: request.id.clone().into_owned(),
            message_id,
            echoed: Echo::of(&prompt),
            prompt,
            accepted: false,
            due,
        });
        session.run = None;
        let purpose = ToAgent::Prompt { session: session_id };
        self.to_agent.ask(request, "session/prompt", &wire, purpose, &mut self.context);
        Ok(())
    }

    /// Tells the client that the prompt was accepted, because the agent works on it or is assumed to.
    pub(super) fn accept_prompt(&mut self, session_id: &str) {
        if self.sessions.get(session_id).is_none_or(|session| session.turn.is_none()) {
            return;
        }
        let mut active = self.active(session_id);
        let Some(turn) = active.session.turn.as_mut().filter(|turn| !turn.accepted) else { return };
        // Set first: the updates below must not accept the prompt again.
        turn.accepted = true;
        let answer = v2::PromptResponse::new().message_id(turn.message_id.clone());
        let mut message = v2::MessageUpdate::new(turn.message_id.clone());
        message.content = switchboard_acp::Field::Set(turn.prompt.clone());
        // Response, message, state: clients create the message when they have its id.
        active.context.respond(Side::Client, &turn.id, &answer, &Extra::new());
        if active.keeps {
            active.session.started.begins(Role::User, &message.message_id);
        }
        active.tell(v2::SessionUpdate::UserMessage(message));
        active.send_state(v2::StateUpdate::Running(v2::ActiveState::new()));
    }

    pub(super) fn prompt_answered(&mut self, session_id: &str, response: Response<'_>) {
        let Some(session) = self.sessions.get_mut(session_id) else {
            return self.context.report_unmatched_response(Side::Agent, &response);
        };
        let Some(turn) = &session.turn else {
            return self.context.report_unmatched_response(Side::Agent, &response);
        };
        let idle = match &response.outcome {
            // The prompt was refused before any work: the client gets the error as the response.
            Err(_) if !turn.accepted => {
                let id = turn.id.clone();
                session.turn = None;
                self.context.pass_answer(Side::Client, &id, response);
                return self.after_turn(session_id);
            }
            Err(error) => {
                // Work has been seen, so the error goes into the state.
                let error = error.clone().into_owned();
                self.context.begin_update(session_id, None, Extra::new(), &response.extra);
                self.fail_work(session_id, &error);
                return self.context.end_update();
            }
            Ok(result) => match v1::PromptResponse::decode_tolerant(result.as_str(), WireFormat::V1) {
                Ok((answer, left_out)) => {
                    let method = "session/prompt";
                    self.context.report_left_out(
                        Some(session_id),
                        method,
                        "/result",
                        &left_out,
                        Side::Client,
                    );
                    session::prompt_answer_to_v2(answer)
                }
                // The turn is over in any case, with an unknown reason.
                Err(error) => {
                    let (session, reason) = (Some(session_id), error.to_string());
                    self.context.report_loss(
                        session,
                        "session/prompt",
                        "/result",
                        reason,
                        Severity::Major,
                        Side::Client,
                    );
                    v2::IdleState::new()
                }
            },
        };
        // The agent may answer without any update.
        self.accept_prompt(session_id);
        self.context.begin_update(session_id, None, Extra::new(), &response.extra);
        self.end_turn(session_id, idle);
        self.context.end_update();
    }

    fn end_turn(&mut self, session_id: &str, idle: v2::IdleState<'_>) {
        let mut active = self.active(session_id);
        // Cleared before the state is sent, so that a client's reaction starts a new turn.
        active.session.clear_turn();
        active.send_state(v2::StateUpdate::Idle(idle));
        self.after_turn(session_id);
    }

    /// Continues after the end of a turn: closes the session, or sends the next queued prompt.
    fn after_turn(&mut self, session_id: &str) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        // A close that waited for this turn takes precedence over queued prompts.
        if let Some(id) = session.closing.take() {
            for held in std::mem::take(&mut session.waiting) {
                self.context.refuse(
                    Side::Client,
                    &held.id,
                    codes::REQUEST_CANCELLED,
                    "the session was closed",
                );
                self.context.report_unsent_prompt(session_id);
            }
            self.forget(session_id);
            return self.context.done(Side::Client, &id);
        }
        // A prompt that fails does not start a turn, so the next one is tried.
        while let Some(request) =
            self.sessions.get_mut(session_id).and_then(|session| session.waiting.pop_front())
        {
            match self.prompt(&request) {
                Ok(()) => break,
                Err(error) => {
                    self.context.fail(Side::Client, &request.id, error.to_rpc());
                    self.context.report_unsent_prompt(session_id);
                }
            }
        }
    }

    /// Drops an open turn of a closed session.
    pub(super) fn abandon_turn(&mut self, session_id: &str) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        for held in std::mem::take(&mut session.waiting) {
            self.context.refuse(Side::Client, &held.id, codes::REQUEST_CANCELLED, "the session was closed");
            self.context.report_unsent_prompt(session_id);
        }
        // The client expects an end of work that it saw begin.
        if session.turn.is_some() {
            self.accept_prompt(session_id);
            let mut idle = v2::IdleState::new();
            idle.stop_reason = Some(v2::StopReason::Cancelled);
            self.end_turn(session_id, idle);
        }
    }

    pub(super) fn cancel_session(
        &mut self,
        params: &v2::CancelSessionNotification<'_>,
        envelope: &Extra<'_>,
    ) {
        let session_id = &*params.session_id;
        if let Some(session) = self.sessions.get_mut(session_id) {
            // Queued prompts are refused first: none of them may start when the turn ends.
            for held in session.waiting.drain(..) {
                self.context.refuse(
                    Side::Client,
                    &held.id,
                    codes::REQUEST_CANCELLED,
                    "the prompt was cancelled",
                );
                self.context.report_unsent_prompt(session_id);
            }
            session.asks = false;
        }
        // The agent learns of the cancellation before its questions are answered with `cancelled`.
        self.context.notify(Side::Agent, "session/cancel", params, envelope);
        let pending = self.to_client.take_all(
            |purpose| matches!(purpose, ToClient::Permission { session, .. } if session == session_id),
        );
        for (asked, id) in pending {
            self.context.respond(Side::Agent, &id, &permission::cancelled(), &Extra::new());
            let taken_back = CancelRequestNotification::new(asked.clone());
            self.context.cancel(Side::Client, asked, taken_back, &Extra::new());
        }
    }

    /// Handles the cancellation of a prompt: a queued one is removed, a running one cancelled.
    pub(super) fn cancel_prompt(
        &mut self,
        id: &RequestId<'static>,
        params: CancelRequestNotification<'_>,
        envelope: &Extra<'_>,
    ) {
        let mut found = None;
        for (session_id, session) in self.sessions.iter_mut() {
            let before = session.waiting.len();
            // A queued prompt is removed; the agent never saw it.
            session.waiting.retain(|held| held.id != *id);
            if session.waiting.len() < before {
                self.context.refuse(Side::Client, id, codes::REQUEST_CANCELLED, "the prompt was cancelled");
                return self.context.report_late_cancellation(Side::Client, &params, envelope);
            }
            // An accepted prompt has its response already and is cancelled with `session/cancel`.
            if session.turn.as_ref().is_some_and(|turn| turn.id == *id && !turn.accepted) {
                found = Some(session_id.clone());
            }
        }
        let Some(session_id) = found else {
            return self.context.report_late_cancellation(Side::Client, &params, envelope);
        };
        let CancelRequestNotification { request_id: _, meta, extra, more: _ } = params;
        let params = v2::CancelSessionNotification {
            session_id: session_id.into(),
            meta,
            extra,
            more: switchboard_acp::More,
        };
        self.cancel_session(&params, envelope);
    }

    /// Ends accepted work with an error.
    fn fail_work(&mut self, session_id: &str, error: &RpcError<'static>) {
        // Cleared before the state is sent, as in `end_turn`.
        self.active(session_id).session.clear_turn();
        self.context.idle_with_error(session_id, error);
        self.after_turn(session_id);
    }
}
