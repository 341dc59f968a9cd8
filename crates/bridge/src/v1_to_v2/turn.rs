//! The prompt turn. The client's request stays open until the agent is idle again.

use switchboard_protocol::rpc::{
    CancelRequestNotification, Notification, Request, RequestId, Response, RpcError, codes,
};
use switchboard_protocol::{Extra, Meta, Wire, WireFormat, v1, v2};

use super::connection::cancel;
use super::{Session, ToAgent, V1ToV2};
use crate::bridge::{refuse_full, refuse_work};
use crate::convert::content::plain_text;
use crate::convert::message::Rest;
use crate::convert::session;
use crate::fingerprint::{ContentFingerprint, FingerprintPart};
use crate::loss::Severity;
use crate::shared::{Shared, kept};
use crate::{Error, Side};

/// A turn as the client sees it: one open request.
#[derive(Debug)]
pub(super) struct Turn {
    /// The client's id of the prompt.
    id: RequestId<'static>,
    /// Whether the agent has taken the prompt.
    accepted: bool,
    /// Whether the agent has been seen at work since.
    active: bool,
    cancelled: bool,
    /// The end, where it came before the acceptance.
    ended: Option<v2::IdleState<'static>>,
    /// What the agent said beside when it took the prompt, in its answer and around that.
    said: (Rest<'static>, Extra<'static>),
    /// The prompt, to recognize the agent's echo of it, and its text.
    blocks: Vec<v2::ContentBlock<'static>>,
    prompt: String,
    /// The id of the echo.
    pub(super) echo: Option<String>,
    /// What has been seen of the echo.
    echoed: ContentFingerprint,
}

impl Turn {
    /// Takes notice of an update, which may show that the agent is at work.
    pub(super) fn saw(&mut self, update: &v2::SessionUpdate<'_>) {
        use v2::SessionUpdate as Update;
        match update {
            Update::StateUpdate(state) => {
                self.active |=
                    matches!(**state, v2::StateUpdate::Running(_) | v2::StateUpdate::RequiresAction(_));
            }
            Update::AgentMessageChunk(_)
            | Update::AgentMessage(_)
            | Update::AgentThoughtChunk(_)
            | Update::AgentThought(_)
            | Update::ToolCallUpdate(_)
            | Update::ToolCallContentChunk(_) => self.active |= self.accepted,
            _ => {}
        }
    }

    /// Whether a user message is the agent's echo of the prompt, which a version 1 client shows by itself.
    pub(super) fn is_echo(&mut self, id: &str, blocks: &[v2::ContentBlock<'_>], whole: bool) -> bool {
        if let Some(echo) = &self.echo {
            return echo == id;
        }
        let mut seen = self.echoed;
        if whole {
            seen.clear();
        }
        blocks.iter().for_each(|block| seen.push(FingerprintPart::Text(block.as_text().unwrap_or_default())));
        let matches =
            seen.is_empty() || seen.rest([FingerprintPart::Text(&self.prompt)].into_iter()).is_some();
        if matches {
            self.echo = Some(id.to_owned());
            self.echoed = seen;
        }
        matches
    }
}

impl V1ToV2 {
    pub(super) fn prompt(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::PromptRequest<'_> = shared.params(Side::Client, request)?;
        let session_id = params.session_id.clone().into_owned();
        if self.sessions.is_full_for(&session_id) {
            refuse_work(shared, &request.id);
            return Ok(());
        }
        if self.to_agent.is_full() {
            refuse_full(shared, Side::Client, &request.id);
            return Ok(());
        }
        let limit = shared.options.limits.requests;
        let session = self.sessions.open(&session_id);
        if session.turn.is_some() {
            if session.waiting.len() >= limit {
                refuse_full(shared, Side::Client, &request.id);
                return Ok(());
            }
            session.waiting.push_back(kept(request));
            self.waits = true;
            return Ok(());
        }
        let wire = shared.convert(Some(&session_id), "session/prompt", "/params", Side::Agent, |cx| {
            session::prompt_to_v2(params, cx)
        })?;
        session.turn = Some(Turn {
            id: request.id.clone().into_owned(),
            accepted: false,
            active: false,
            cancelled: false,
            ended: None,
            said: Default::default(),
            blocks: wire.prompt.clone().into_owned(),
            prompt: wire.prompt.iter().filter_map(|block| block.as_text()).collect(),
            echo: None,
            echoed: ContentFingerprint::default(),
        });
        let purpose = ToAgent::Prompt { id: request.id.clone().into_owned(), session: session_id };
        self.to_agent.ask(request, "session/prompt", &wire, purpose, shared);
        Ok(())
    }

    pub(super) fn prompt_answered(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        response: Response<'_>,
        shared: &mut Shared,
    ) {
        let session = self.sessions.open(session_id);
        let Some(turn) = session.turn.as_mut().filter(|turn| turn.id == *id) else {
            return shared.lose_late_answer(Side::Agent);
        };
        match &response.outcome {
            Err(_) => {
                lose_end(session_id, turn.ended.take(), shared);
                session.turn = None;
                shared.pass_answer(Side::Client, id, response);
                self.next_prompt(session_id, shared);
            }
            Ok(result) => {
                turn.accepted = true;
                match v2::PromptResponse::decode_tolerant(result.as_str(), WireFormat::Any) {
                    Ok((answer, left_out)) => {
                        let (message_id, rest) = session::acceptance(answer.into_owned());
                        turn.said = (rest, response.extra.into_owned());
                        if let Some(message_id) = message_id {
                            turn.echo = Some(message_id.into_owned());
                        }
                        let method = "session/prompt";
                        shared.report_left_out(Some(session_id), method, "/result", &left_out, Side::Client);
                    }
                    Err(error) => {
                        let (session, reason) = (Some(session_id), error.to_string());
                        shared.lose(
                            session,
                            "session/prompt",
                            "/result",
                            reason,
                            Severity::Minor,
                            Side::Client,
                        );
                    }
                }
                if let Some(idle) = turn.ended.take() {
                    session.end_turn(session_id, idle, shared);
                }
                self.next_prompt(session_id, shared);
            }
        }
    }

    /// Sends the prompt that waits, if the turn before it has ended.
    pub(super) fn next_prompt(&mut self, session_id: &str, shared: &mut Shared) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        if session.turn.is_some() {
            return;
        }
        let Some(request) = session.waiting.pop_front() else { return };
        if let Err(error) = self.prompt(&request, shared) {
            shared.lose_waiting_prompt(session_id);
            shared.fail(Side::Client, &request.id, error.to_rpc());
            shared.lose_waiting_prompt(session_id);
        }
    }

    pub(super) fn cancel(&mut self, notification: &Notification<'_>, shared: &mut Shared) {
        match v1::CancelNotification::decode_tolerant(notification.params_text(), WireFormat::V1) {
            Ok((params, _)) => {
                if let Some(session) = self.sessions.get_mut(&params.session_id) {
                    if let Some(turn) = &mut session.turn {
                        turn.cancelled = true;
                    }
                    for request in session.waiting.drain(..) {
                        let cancelled = v1::PromptResponse::new(v1::StopReason::Cancelled);
                        shared.respond(Side::Client, &request.id, &cancelled, &Extra::new());
                        shared.lose_waiting_prompt(&params.session_id);
                    }
                }
                shared.pass_notification(Side::Agent, notification);
            }
            Err(error) => {
                let (method, reason) = (&notification.method, error.to_string());
                shared.lose(None, method, "/params", reason, Severity::Major, Side::Agent);
            }
        }
    }

    /// The client takes back a prompt that the agent has taken: that cancels the turn.
    pub(super) fn cancel_accepted_prompt(
        &mut self,
        id: &RequestId<'static>,
        params: CancelRequestNotification<'_>,
        envelope: &Extra<'_>,
        shared: &mut Shared,
    ) {
        let mut found = None;
        for (session_id, session) in self.sessions.iter_mut() {
            session.waiting.retain(|waiting| {
                let is_it = waiting.id == *id;
                if is_it {
                    shared.refuse(Side::Client, id, codes::REQUEST_CANCELLED, "the prompt was taken back");
                }
                !is_it
            });
            if let Some(turn) = session.turn.as_mut().filter(|turn| turn.id == *id) {
                turn.cancelled = true;
                found = Some(session_id.clone());
            }
        }
        let Some(session_id) = found else {
            return shared.lose_cancellation(Side::Client, &params, envelope);
        };
        let CancelRequestNotification { request_id: _, meta, extra } = params;
        let params = v2::CancelSessionNotification { session_id: session_id.into(), meta, extra };
        shared.notify(Side::Agent, "session/cancel", &params, envelope);
    }

    /// Ends a turn because something was lost and nothing may be.
    pub(crate) fn fail_turn(&mut self, session_id: Option<&str>, reason: &str, shared: &mut Shared) {
        let Some(session_id) = session_id else { return };
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        session.lose_turn(session_id, shared);
        let Some(turn) = session.turn.take() else { return };
        let message = format!("ended because something cannot be translated: {reason}");
        shared.refuse(Side::Client, &turn.id, codes::INTERNAL_ERROR, message);
        if !turn.accepted
            && let Some(sent) = self.to_agent.find(|purpose| *purpose.original() == turn.id)
        {
            let taken_back = CancelRequestNotification::new(sent.clone());
            cancel(Side::Agent, sent, taken_back, &Extra::new(), shared);
        }
        let params = v2::CancelSessionNotification::new(session_id);
        shared.notify(Side::Agent, "session/cancel", &params, &Extra::new());
        self.next_prompt(session_id, shared);
    }

    /// Everything that waits for the agent fails.
    pub(crate) fn agent_ended(&mut self, error: &RpcError<'static>, shared: &mut Shared) {
        self.flush(shared);
        for (id, session) in self.sessions.iter_mut() {
            session.lose_turn(id, shared);
            let open = session.turn.take().map(|turn| (turn.accepted, turn.id));
            // A prompt that the agent has not taken is among the requests below.
            let open = open.filter(|(accepted, _)| *accepted).map(|(_, id)| id);
            for id in open.into_iter().chain(session.waiting.drain(..).map(|request| request.id)) {
                shared.fail(Side::Client, &id, error.clone());
            }
        }
        for (_, purpose) in self.to_agent.take_all(|_| true) {
            shared.fail(Side::Client, purpose.original(), error.clone());
        }
    }

    /// Sends prompts that wait in sessions whose turn has ended.
    pub(crate) fn next_prompts(&mut self, shared: &mut Shared) {
        if !self.waits {
            return;
        }
        let ready: Vec<String> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.turn.is_none() && !session.waiting.is_empty())
            .map(|(id, _)| id.clone())
            .collect();
        for id in ready {
            self.next_prompt(&id, shared);
        }
        self.waits = self.sessions.iter().any(|(_, session)| !session.waiting.is_empty());
    }
}

/// The end of work that no prompt has begun, as it turns out.
fn lose_end(id: &str, idle: Option<v2::IdleState<'_>>, shared: &mut Shared) {
    if let Some(idle) = idle {
        let state = v2::StateUpdate::Idle(idle);
        shared.convert_update(id, "state_update", |cx| session::lose_state(&state, cx));
    }
}

impl Session {
    /// The session is closed: what is held back is told, and what waits for its turn is refused.
    pub(super) fn close(&mut self, id: &str, shared: &mut Shared) {
        self.flush_all(id, shared);
        self.lose_turn(id, shared);
        for waiting in self.waiting.drain(..) {
            shared.refuse(Side::Client, &waiting.id, codes::REQUEST_CANCELLED, "the session was closed");
            shared.lose_waiting_prompt(id);
        }
    }

    /// The turn will not end any more: what was said about it is told to nobody.
    pub(super) fn lose_turn(&mut self, id: &str, shared: &mut Shared) {
        let Some(turn) = &mut self.turn else { return };
        lose_end(id, turn.ended.take(), shared);
        let (rest, envelope) = std::mem::take(&mut turn.said);
        let reason = "the turn that was begun by it did not end";
        for (root, rest) in [("/result", (rest.meta.as_ref(), &rest.extra)), ("", (None, &envelope))] {
            shared.lose_rest(Some(id), "session/prompt", root, rest, reason, Side::Client);
        }
    }

    pub(super) fn state(&mut self, id: &str, state: v2::StateUpdate<'_>, shared: &mut Shared) {
        let state = match state {
            v2::StateUpdate::Idle(idle) => {
                self.flush_all(id, shared);
                match &mut self.turn {
                    Some(turn) if turn.active || idle.stop_reason.is_some() => {
                        if turn.accepted {
                            self.end_turn(id, idle.into_owned(), shared);
                        } else {
                            let earlier = turn.ended.replace(idle.into_owned());
                            lose_end(id, earlier, shared);
                        }
                        return;
                    }
                    _ => v2::StateUpdate::Idle(idle),
                }
            }
            other => other,
        };
        shared.convert_update(id, "state_update", |cx| session::lose_state(&state, cx));
    }

    fn end_turn(&mut self, id: &str, idle: v2::IdleState<'static>, shared: &mut Shared) {
        let Some(turn) = self.turn.take() else { return };
        self.report_hidden_terminals(id, shared);
        let (rest, envelope) = turn.said;
        let answer = shared.convert(Some(id), "state_update", "/params/update", Side::Client, |cx| {
            session::idle_to_v1(idle, turn.cancelled, rest, cx)
        });
        let failed = match answer {
            Ok(Ok(answer)) => return shared.respond(Side::Client, &turn.id, &answer, &envelope),
            Ok(Err(error)) => error,
            Err(error) => error.to_rpc(),
        };
        let response = Response { id: turn.id.clone(), outcome: Err(failed), extra: envelope };
        shared.pass_answer(Side::Client, &turn.id, response);
    }

    /// Whether a user message is an echo that the client does not need.
    pub(super) fn suppresses(&mut self, id: &str, blocks: &[v2::ContentBlock<'_>], whole: bool) -> bool {
        if self.replays > 0 {
            return false;
        }
        self.turn.as_mut().is_some_and(|turn| turn.is_echo(id, blocks, whole))
    }

    /// The echo of a prompt says more than the prompt.
    pub(super) fn lose_echo(
        &self,
        id: &str,
        tag: &str,
        blocks: &[v2::ContentBlock<'_>],
        rest: (Option<&Meta<'_>>, &Extra<'_>),
        shared: &mut Shared,
    ) {
        let reason = "the client shows its prompt itself, as it was given";
        shared.lose_rest(Some(id), tag, "/params/update", rest, reason, Side::Client);
        let prompt = self.turn.as_ref().map(|turn| &*turn.blocks).unwrap_or_default();
        for (index, block) in blocks.iter().enumerate() {
            if plain_text(block).is_none() && !prompt.contains(block) {
                let pointer = match tag {
                    "user_message" => format!("/params/update/content/{index}"),
                    _ => "/params/update/content".to_owned(),
                };
                self.lose(id, tag, &pointer, reason, Severity::Minor, shared);
            }
        }
    }
}
