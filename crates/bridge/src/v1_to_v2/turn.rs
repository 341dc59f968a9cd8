//! The prompt turn. The client's request stays open until the agent is idle again.

use switchboard_protocol::rpc::{Notification, Request, RequestId, Response, RpcError, codes};
use switchboard_protocol::{Wire, WireFormat, v1, v2};

use super::connection::cancel;
use super::{Session, ToAgent, V1ToV2};
use crate::convert::meta;
use crate::fingerprint::{ContentFingerprint, FingerprintPart};
use crate::loss::Severity;
use crate::shared::Shared;
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
    /// The prompt's text, to recognize the agent's echo of it.
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
        let mut seen = self.echoed.clone();
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
        let params: v1::PromptRequest<'_> = shared.params(Side::Client, request, WireFormat::V1)?;
        let session_id = params.session_id.clone().into_owned();
        let limit = shared.options.limits.requests;
        let session = self.sessions.open(&session_id);
        if session.turn.is_some() {
            if session.waiting.len() >= limit {
                crate::bridge::refuse_full(shared, Side::Client, &request.id);
                return Ok(());
            }
            let waiting = (request.id.clone().into_owned(), request.params_text().to_owned());
            session.waiting.push_back(waiting);
            return Ok(());
        }
        session.turn = Some(Turn {
            id: request.id.clone().into_owned(),
            accepted: false,
            active: false,
            cancelled: false,
            ended: None,
            prompt: params.prompt.iter().filter_map(|block| block.as_text()).collect(),
            echo: None,
            echoed: ContentFingerprint::default(),
        });
        let purpose = ToAgent::Prompt { id: request.id.clone().into_owned(), session: session_id };
        // Both versions have the same parameters.
        self.to_agent.ask(&request.id, "session/prompt", request.params_text(), purpose, shared);
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
        let Some(turn) = session.turn.as_mut().filter(|turn| turn.id == *id) else { return };
        match response.outcome {
            Err(error) => {
                session.turn = None;
                shared.fail(Side::Client, id, error);
                self.next_prompt(session_id, shared);
            }
            Ok(result) => {
                turn.accepted = true;
                let answer = v2::PromptResponse::decode_tolerant(result.as_str(), WireFormat::Any);
                if let Ok((answer, _)) = answer
                    && let Some(message_id) = answer.message_id
                {
                    turn.echo = Some(message_id.into_owned());
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
        let Some((id, params)) = session.waiting.pop_front() else { return };
        let params = switchboard_protocol::Raw::parse(params).ok();
        let request = Request {
            id,
            method: "session/prompt".into(),
            params,
            extra: switchboard_protocol::Extra::new(),
        };
        if let Err(error) = self.prompt(&request, shared) {
            shared.fail(Side::Client, &request.id, error.to_rpc());
        }
    }

    pub(super) fn cancel(&mut self, notification: &Notification<'_>, shared: &mut Shared) {
        let text = notification.params_text();
        let Ok((params, _)) = v1::CancelNotification::decode_tolerant(text, WireFormat::V1) else { return };
        if let Some(session) = self.sessions.get_mut(&params.session_id) {
            if let Some(turn) = &mut session.turn {
                turn.cancelled = true;
            }
            for (id, _) in session.waiting.drain(..) {
                let cancelled = v1::PromptResponse::new(v1::StopReason::Cancelled);
                shared.respond(Side::Client, &id, &cancelled.encode(WireFormat::V1));
            }
        }
        shared.notify(Side::Agent, "session/cancel", text);
    }

    /// The client takes back a prompt that the agent has taken: that cancels the turn.
    pub(super) fn cancel_accepted_prompt(&mut self, id: &RequestId<'static>, shared: &mut Shared) {
        let mut found = None;
        for (session_id, session) in self.sessions.iter_mut() {
            session.waiting.retain(|(waiting, _)| {
                let is_it = waiting == id;
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
        if let Some(session_id) = found {
            let params = v2::CancelSessionNotification::new(session_id).encode(WireFormat::Any);
            shared.notify(Side::Agent, "session/cancel", &params);
        }
    }

    /// Ends a turn because something was lost and nothing may be.
    pub(crate) fn fail_turn(&mut self, session_id: Option<&str>, reason: &str, shared: &mut Shared) {
        let Some(session_id) = session_id else { return };
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        let Some(turn) = session.turn.take() else { return };
        let message = format!("ended because something cannot be translated: {reason}");
        shared.refuse(Side::Client, &turn.id, codes::INTERNAL_ERROR, message);
        if !turn.accepted
            && let Some(sent) = self.to_agent.find(|purpose| *purpose.original() == turn.id)
        {
            cancel(Side::Agent, &sent, shared);
        }
        let params = v2::CancelSessionNotification::new(session_id).encode(WireFormat::Any);
        shared.notify(Side::Agent, "session/cancel", &params);
        self.next_prompt(session_id, shared);
    }

    /// Everything that waits for the agent fails.
    pub(crate) fn agent_ended(&mut self, error: &RpcError<'static>, shared: &mut Shared) {
        self.finish(shared);
        for (_, session) in self.sessions.iter_mut() {
            let open = session.turn.take().map(|turn| (turn.accepted, turn.id));
            // A prompt that the agent has not taken is among the requests below.
            let open = open.filter(|(accepted, _)| *accepted).map(|(_, id)| id);
            for id in open.into_iter().chain(session.waiting.drain(..).map(|(id, _)| id)) {
                shared.fail(Side::Client, &id, error.clone());
            }
        }
        for (_, purpose) in self.to_agent.take_all(|_| true) {
            shared.fail(Side::Client, purpose.original(), error.clone());
        }
    }

    /// Sends prompts that wait in sessions whose turn has ended.
    pub(crate) fn next_prompts(&mut self, shared: &mut Shared) {
        let ready: Vec<String> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.turn.is_none() && !session.waiting.is_empty())
            .map(|(id, _)| id.clone())
            .collect();
        for id in ready {
            self.next_prompt(&id, shared);
        }
    }
}

impl Session {
    pub(super) fn state(&mut self, id: &str, state: v2::StateUpdate<'_>, shared: &mut Shared) {
        match state {
            // The client shows the open request or the question instead.
            v2::StateUpdate::Running(_) | v2::StateUpdate::RequiresAction(_) => {}
            v2::StateUpdate::Idle(idle) => {
                self.flush_all(id, shared);
                let Some(turn) = &mut self.turn else { return };
                if !(turn.active || idle.stop_reason.is_some()) {
                    return;
                }
                if turn.accepted {
                    self.end_turn(id, idle.into_owned(), shared);
                } else {
                    turn.ended = Some(idle.into_owned());
                }
            }
            v2::StateUpdate::Unknown(unknown) => {
                let reason = format!("version 1 has no state \"{}\"", unknown.tag);
                self.lose(id, "state_update", "state", reason, Severity::Minor, shared);
            }
        }
    }

    fn end_turn(&mut self, id: &str, idle: v2::IdleState<'static>, shared: &mut Shared) {
        let Some(turn) = self.turn.take() else { return };
        self.report_hidden_terminals(id, shared);
        let reason = match idle.stop_reason {
            Some(v2::StopReason::Error) => {
                let error = idle
                    .error
                    .map_or_else(|| RpcError::new(codes::INTERNAL_ERROR, "the agent failed"), |error| *error);
                return shared.fail(Side::Client, &turn.id, error);
            }
            Some(v2::StopReason::Unknown(word)) => {
                let reason = format!("version 1 has no stop reason \"{word}\"; \"end_turn\" stands for it");
                self.lose(id, "state_update", "stopReason", reason, Severity::Minor, shared);
                let mut answer = v1::PromptResponse::new(v1::StopReason::EndTurn);
                answer.meta = Some(meta::with_entry(idle.meta, meta::STOP_REASON, &meta::text(&word)));
                return shared.respond(Side::Client, &turn.id, &answer.encode(WireFormat::V1));
            }
            Some(reason) => reason,
            None if turn.cancelled => v1::StopReason::Cancelled,
            None => v1::StopReason::EndTurn,
        };
        let mut answer = v1::PromptResponse::new(reason);
        answer.meta = idle.meta;
        shared.respond(Side::Client, &turn.id, &answer.encode(WireFormat::V1));
    }

    /// Whether a user message is an echo that the client does not need.
    pub(super) fn suppresses(&mut self, id: &str, blocks: &[v2::ContentBlock<'_>], whole: bool) -> bool {
        if self.replays > 0 {
            return false;
        }
        self.turn.as_mut().is_some_and(|turn| turn.is_echo(id, blocks, whole))
    }
}
