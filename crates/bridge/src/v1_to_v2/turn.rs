//! The prompt turn. The client's request stays pending until the agent is idle again.

use switchboard_acp::rpc::{
    CancelRequestNotification, Notification, Request, RequestId, Response, RpcError, codes,
};
use switchboard_acp::{Extra, Meta, Wire, WireFormat, v1, v2};

use super::{Active, ToAgent, ToClient, V1ToV2};
use crate::convert::content::plain_text;
use crate::convert::message::Rest;
use crate::convert::session;
use crate::echo::Echo;
use crate::loss::Severity;
use crate::translator::Turns;
use crate::{Error, Moment, Side};

/// A turn as the client sees it: one pending request.
#[derive(Debug)]
pub(super) struct Turn {
    /// The client's id of the prompt.
    id: RequestId<'static>,
    /// Set if the agent has accepted the prompt.
    accepted: bool,
    /// Set if the agent has shown activity since.
    active: bool,
    cancelled: bool,
    /// The end of the turn if it arrived before the acceptance.
    ended: Option<v2::IdleState<'static>>,
    /// The end of the turn while sub-agents are still running.
    held: Option<HeldEnd>,
    /// Metadata of the agent's acceptance and its envelope.
    said: (Rest<'static>, Extra<'static>),
    /// The prompt, for detecting the agent's echo of it.
    blocks: Vec<v2::ContentBlock<'static>>,
    echoed: Echo,
    /// Message id of the echo.
    pub(super) echo: Option<String>,
    /// Set if the echo differs from the prompt.
    differs: bool,
}

/// The end of a turn whose sub-agents are still running.
#[derive(Debug)]
struct HeldEnd {
    idle: v2::IdleState<'static>,
    /// Time at which the client gets the response regardless of the sub-agents.
    until: Moment,
    /// Set if the sub-agents have ended, and only a follow-up of the agent is awaited.
    are_done: bool,
}

/// Milliseconds in which an agent may resume work after its sub-agents have ended.
const FOLLOW_UP: u64 = 1000;
/// Milliseconds in which sub-agents may end after the client has cancelled.
const CANCELLED: u64 = 2000;

impl Turn {
    /// Returns the time at which a held end is sent.
    pub(super) fn held_until(&self) -> Option<Moment> {
        self.held.as_ref().map(|held| held.until)
    }

    /// Detects activity of the agent from an update.
    pub(super) fn saw(&mut self, update: &v2::SessionUpdate<'_>) {
        use v2::SessionUpdate as Update;
        match update {
            Update::StateUpdate(state) => {
                // A state counts even before the acceptance: some agents start to work before they answer.
                self.active |=
                    matches!(**state, v2::StateUpdate::Running(_) | v2::StateUpdate::RequiresAction(_));
            }
            Update::AgentMessageChunk(_)
            | Update::AgentMessage(_)
            | Update::AgentThoughtChunk(_)
            | Update::AgentThought(_)
            | Update::ToolCallUpdate(_)
            // Other updates count only after the acceptance. Before that they may belong to an earlier turn.
            | Update::ToolCallContentChunk(_) => self.active |= self.accepted,
            _ => {}
        }
    }

    /// Returns whether a user message is the agent's echo of the prompt, which a version 1 client shows by
    /// itself.
    pub(super) fn is_echo(&mut self, id: &str, blocks: &[v2::ContentBlock<'_>], whole: bool) -> bool {
        let continues = self.echoed.continues(blocks, whole);
        // The first matching message is taken as the echo. Later chunks of the same message belong to it even
        // if they differ.
        let is_echo = self.echo.as_ref().map_or(continues, |echo| echo == id);
        if is_echo {
            self.echo.get_or_insert_with(|| id.to_owned());
            self.differs = !continues;
        }
        is_echo
    }
}

impl Turns for V1ToV2 {
    fn cancel(&mut self, notification: &Notification<'_>) {
        match v1::CancelNotification::decode_tolerant(notification.params_text(), WireFormat::V1) {
            Ok((params, _)) => {
                let latest = self.context.now.after(CANCELLED);
                // Queued prompts are answered first, so that none of them starts when the running turn ends.
                if let Some(session) = self.sessions.get_mut(&params.session_id) {
                    if let Some(turn) = &mut session.turn {
                        turn.cancel(latest);
                    }
                    for request in session.waiting.drain(..) {
                        let cancelled = v1::PromptResponse::new(v1::StopReason::Cancelled);
                        self.context.respond(Side::Client, &request.id, &cancelled, &Extra::new());
                        self.context.report_unsent_prompt(&params.session_id);
                    }
                }
                // The agent hears of its own session before its sub-agents: it may end them itself.
                self.context.pass_notification(Side::Agent, notification);
                self.cancel_children(&params.session_id);
            }
            Err(error) => {
                let (method, reason) = (&notification.method, error.to_string());
                self.context.report_loss(None, method, "/params", reason, Severity::Major, Side::Agent);
            }
        }
    }

    fn cancel_request(&mut self, from: Side, notification: &Notification<'_>) {
        let Some(params) = self.context.cancellation(from, notification) else { return };
        let own = params.request_id.clone().into_owned();
        match from {
            Side::Client => {
                // A request that the agent has not answered yet is cancelled at the agent. An accepted prompt
                // is no longer among them.
                if let Some(sent) = self.to_agent.sent_as(&own) {
                    self.context.cancel(Side::Agent, sent, params, &notification.extra);
                } else {
                    self.cancel_accepted_prompt(&own, params, &notification.extra);
                }
            }
            Side::Agent => {
                let Some(sent) = self.to_client.sent_as(&own) else {
                    return self.context.report_late_cancellation(from, &params, &notification.extra);
                };
                // The client is notified before the agent gets its answer.
                self.context.cancel(Side::Client, sent.clone(), params, &notification.extra);
                // A version 1 client may not react to the cancellation. A late answer matches no pending
                // request.
                if self.to_client.get(&sent).is_some_and(|asked| matches!(asked, ToClient::Permission(_)))
                    && let Some((id, ToClient::Permission(asked))) = self.to_client.take(&sent)
                {
                    self.permission_cancelled(&id, &asked);
                }
            }
        }
    }

    fn next_prompts(&mut self) {
        // Called after every line: skip the search while no prompt is queued.
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
            self.next_prompt(&id);
        }
        self.waits = self.sessions.iter().any(|(_, session)| !session.waiting.is_empty());
    }

    fn agent_ended(&mut self, error: &RpcError<'static>) {
        // Order: show everything, fail the sub-agents, report leftovers, end held turns. Requests fail last,
        // because a client may close the session when its prompt fails.
        self.show_all_uncalled();
        self.end_children(error);
        self.report_all_unlinked();
        self.each(|mut active| {
            active.flush_all();
            active.report_hidden_terminals();
            active.end_held();
            active.report_lost_turn();
            // A prompt that the agent has not accepted is among the requests below.
            let open = active.session.turn.take().filter(|turn| turn.accepted).map(|turn| turn.id);
            for id in open.into_iter().chain(active.session.waiting.drain(..).map(|request| request.id)) {
                active.context.fail(Side::Client, &id, error.clone());
            }
        });
        // Includes prompts without an acceptance.
        for (_, id) in self.to_agent.take_all(|_| true) {
            self.context.fail(Side::Client, &id, error.clone());
        }
    }

    fn fail_turn(&mut self, session_id: &str, reason: &str) {
        // A loss in a sub-agent fails the turn of the client's session.
        let session_id = &*self.subagents.root_of(session_id).to_owned();
        let mut active = self.active(session_id);
        // Report the turn's leftovers before it is removed.
        active.report_lost_turn();
        let Some(turn) = active.session.turn.take() else { return };
        let message = format!("the turn was ended because of a loss under the strict policy: {reason}");
        self.context.refuse(Side::Client, &turn.id, codes::INTERNAL_ERROR, message);
        // Without an acceptance the prompt request is still pending at the agent and is cancelled as a
        // request, too.
        if !turn.accepted
            && let Some(sent) = self.to_agent.sent_as(&turn.id)
        {
            let taken_back = CancelRequestNotification::new(sent.clone());
            self.context.cancel(Side::Agent, sent, taken_back, &Extra::new());
        }
        let params = v2::CancelSessionNotification::new(session_id);
        self.context.notify(Side::Agent, "session/cancel", &params, &Extra::new());
        self.next_prompt(session_id);
    }
}

impl V1ToV2 {
    pub(super) fn prompt(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v1::PromptRequest<'_> = self.context.params(Side::Client, request)?;
        let session_id = params.session_id.clone().into_owned();
        self.subagents.open(&session_id);
        // A new prompt of the user ends the held turn. Sub-agents of that turn stay visible.
        if self.sessions.peek_mut(&session_id).is_some() {
            self.active(&session_id).end_held();
        }
        // A turn is open or a limit is reached: the prompt was queued or refused.
        if !self.context.admits(request, &session_id, &mut self.sessions, &self.to_agent) {
            self.waits = true;
            return Ok(());
        }
        let wire =
            self.context.convert(Some(&session_id), "session/prompt", "/params", Side::Agent, |cx| {
                session::prompt_to_v2(params, cx)
            })?;
        // The turn must exist before the prompt is sent: updates may follow at once.
        self.sessions.open(&session_id).turn = Some(Turn {
            id: request.id.clone().into_owned(),
            accepted: false,
            active: false,
            cancelled: false,
            ended: None,
            held: None,
            said: Default::default(),
            blocks: wire.prompt.clone().into_owned(),
            echoed: Echo::of(&wire.prompt),
            echo: None,
            differs: false,
        });
        let purpose = ToAgent::Prompt { session: session_id };
        self.to_agent.ask(request, "session/prompt", &wire, purpose, &mut self.context);
        Ok(())
    }

    pub(super) fn prompt_answered(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        response: Response<'_>,
    ) {
        let mut active = self.active(session_id);
        // The turn may have failed in the meantime, or been replaced by a newer prompt.
        let Some(turn) = active.session.turn.as_mut().filter(|turn| turn.id == *id) else {
            return self.context.report_unmatched_response(Side::Agent, &response);
        };
        // An idle state that arrived before the acceptance is applied below.
        let mut ended = turn.ended.take();
        match response.outcome {
            // A refused prompt never started a turn, so an end seen so far belongs to other work.
            Err(_) => {
                active.report_lost_end(ended);
                active.session.turn = None;
                active.context.pass_answer(Side::Client, id, response);
            }
            Ok(result) => {
                turn.accepted = true;
                let (method, session) = ("session/prompt", Some(session_id));
                match v2::PromptResponse::decode_tolerant(result.as_str(), WireFormat::Any) {
                    Ok((answer, left_out)) => {
                        // On a hub, the acceptance may state the outcome of the turn. It takes precedence
                        // over an end that was seen before, which may belong to another client's prompt.
                        let (message_id, mut rest) = session::acceptance(answer.into_owned());
                        let not_its_end = match session::turn_outcome(&mut rest.meta) {
                            Some(sent) => std::mem::replace(&mut ended, sent),
                            None => None,
                        };
                        turn.said = (rest, response.extra.into_owned());
                        if let Some(message_id) = message_id {
                            turn.echo = Some(message_id.into_owned());
                        }
                        active.context.report_left_out(session, method, "/result", &left_out, Side::Client);
                        active.report_lost_end(not_its_end);
                    }
                    Err(error) => {
                        let reason = error.to_string();
                        active.context.report_loss(
                            session,
                            method,
                            "/result",
                            reason,
                            Severity::Minor,
                            Side::Client,
                        );
                    }
                }
                // The acceptance came last, so the turn ends now.
                if let Some(idle) = ended {
                    active.end_or_hold(idle);
                }
            }
        }
        // Also after a failure: a queued prompt must not wait for a turn that never started.
        self.next_prompt(session_id);
    }

    /// Sends the next queued prompt if the turn before it has ended.
    pub(super) fn next_prompt(&mut self, session_id: &str) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        if session.turn.is_some() {
            return;
        }
        let Some(request) = session.waiting.pop_front() else { return };
        if let Err(error) = self.prompt(&request) {
            self.context.fail(Side::Client, &request.id, error.to_rpc());
            self.context.report_unsent_prompt(session_id);
        }
    }

    /// Handles the cancellation of an accepted prompt request: it cancels the turn.
    pub(super) fn cancel_accepted_prompt(
        &mut self,
        id: &RequestId<'static>,
        params: CancelRequestNotification<'_>,
        envelope: &Extra<'_>,
    ) {
        let mut found = None;
        for (session_id, session) in self.sessions.iter_mut() {
            // A queued prompt is removed and refused; the agent never saw it.
            session.waiting.retain(|waiting| {
                let is_it = waiting.id == *id;
                if is_it {
                    self.context.refuse(
                        Side::Client,
                        id,
                        codes::REQUEST_CANCELLED,
                        "the prompt was cancelled",
                    );
                }
                !is_it
            });
            // A running prompt cannot be withdrawn; its turn is cancelled.
            if let Some(turn) = session.turn.as_mut().filter(|turn| turn.id == *id) {
                turn.cancel(self.context.now.after(CANCELLED));
                found = Some(session_id.clone());
            }
        }
        let Some(session_id) = found else {
            return self.context.report_late_cancellation(Side::Client, &params, envelope);
        };
        let CancelRequestNotification { request_id: _, meta, extra, more: _ } = params;
        let params = v2::CancelSessionNotification {
            session_id: session_id.clone().into(),
            meta,
            extra,
            more: switchboard_acp::More,
        };
        self.context.notify(Side::Agent, "session/cancel", &params, envelope);
        self.cancel_children(&session_id);
    }

    /// Cancels the sub-agents of a cancelled session, which the client cannot cancel in any other way.
    fn cancel_children(&mut self, root: &str) {
        for id in self.subagents.tree().to_cancel(root) {
            let params = v2::CancelSessionNotification::new(&*id);
            self.context.notify(Side::Agent, "session/cancel", &params, &Extra::new());
        }
    }

    /// Extends or ends the wait of a held turn after an event in its session or a sub-agent.
    pub(super) fn keep_hold(&mut self, root: &str) {
        let now = self.context.now;
        let patience = self.context.options.background;
        let subagents = &self.subagents;
        let Some(turn) = self.sessions.peek_mut(root).and_then(|session| session.turn.as_mut()) else {
            return;
        };
        let is_cancelled = turn.cancelled;
        let Some(held) = &mut turn.held else { return };
        let works = subagents.tree().has_work_below(root);
        // After a cancellation the end is sent as soon as all sub-agents have ended.
        if is_cancelled {
            if !works {
                held.until = now;
            }
        // Work in progress restarts the timeout.
        } else if works {
            held.until = now.after(patience);
            held.are_done = false;
        // The last sub-agent has just ended: give the agent time for a follow-up, once.
        } else if !std::mem::replace(&mut held.are_done, true) {
            held.until = now.after(FOLLOW_UP);
        }
    }

    /// Ends held turns whose time is over.
    pub(super) fn end_held_turns(&mut self) {
        let now = self.context.now;
        let is_due = |session: &super::Session| {
            session.turn.as_ref().and_then(Turn::held_until).is_some_and(|until| until <= now)
        };
        let due: Vec<String> =
            self.sessions.iter().filter(|(_, session)| is_due(session)).map(|(id, _)| id.clone()).collect();
        for id in due {
            let is_asked = |asked: &ToClient| asked.session() == Some(&*id);
            // A pending question keeps the turn open unless the client cancelled it.
            if self.to_client.find(is_asked).is_some() && !self.is_cancelled(&id) {
                // The user has not answered yet.
                self.keep_asking(&id);
                continue;
            }
            self.active(&id).end_held();
            // The session is free for the next queued prompt now.
            self.next_prompt(&id);
        }
    }

    fn is_cancelled(&self, id: &str) -> bool {
        let turn = self.sessions.get(id).and_then(|session| session.turn.as_ref());
        turn.is_some_and(|turn| turn.cancelled)
    }

    fn keep_asking(&mut self, id: &str) {
        let until = self.context.now.after(self.context.options.background);
        let turn = self.sessions.get_mut(id).and_then(|session| session.turn.as_mut());
        if let Some(held) = turn.and_then(|turn| turn.held.as_mut()) {
            held.until = until;
        }
    }
}

impl Turn {
    /// Marks the turn as cancelled. A held end is sent at `latest`.
    fn cancel(&mut self, latest: Moment) {
        // Only ever shortens the wait.
        self.cancelled = true;
        if let Some(held) = &mut self.held {
            held.until = held.until.min(latest);
        }
    }
}

impl Active<'_> {
    /// Reports the end of work that belongs to no prompt.
    fn report_lost_end(&mut self, idle: Option<v2::IdleState<'_>>) {
        if let Some(idle) = idle {
            self.report_lost_state(&v2::StateUpdate::Idle(idle));
        }
    }

    fn report_lost_state(&mut self, state: &v2::StateUpdate<'_>) {
        self.convert_update("state_update", |cx| session::report_lost_state(state, cx));
    }

    /// Closes the session: sends held output and refuses queued prompts.
    pub(super) fn close(&mut self) {
        // Held output and a held end go out before the queued prompts are refused.
        self.flush_all();
        self.end_held();
        self.report_lost_turn();
        for waiting in self.session.waiting.drain(..) {
            self.context.refuse(
                Side::Client,
                &waiting.id,
                codes::REQUEST_CANCELLED,
                "the session was closed",
            );
            self.context.report_unsent_prompt(self.id);
        }
    }

    /// Reports the metadata of a turn that will not end.
    pub(super) fn report_lost_turn(&mut self) {
        let Some(turn) = &mut self.session.turn else { return };
        let (ended, (rest, envelope)) = (turn.ended.take(), std::mem::take(&mut turn.said));
        self.report_lost_end(ended);
        let reason = "the turn that it started did not end";
        for (root, rest) in [("/result", (rest.meta.as_ref(), &rest.extra)), ("", (None, &envelope))] {
            self.context.report_lost_rest(Some(self.id), "session/prompt", root, rest, reason, Side::Client);
        }
    }

    pub(super) fn state(&mut self, state: v2::StateUpdate<'_>) {
        let state = match state {
            v2::StateUpdate::Idle(idle) => {
                // Everything of the turn precedes its response: clients stop reading a turn after it.
                self.flush_all();
                match &mut self.session.turn {
                    // An idle state without activity and without a stop reason may be the state before the
                    // turn.
                    Some(turn) if turn.active || idle.stop_reason.is_some() => {
                        if turn.accepted {
                            self.end_or_hold(idle.into_owned());
                        } else {
                            // The end waits for the acceptance, which carries the metadata of the response.
                            let earlier = turn.ended.replace(idle.into_owned());
                            self.report_lost_end(earlier);
                        }
                        return;
                    }
                    _ => v2::StateUpdate::Idle(idle),
                }
            }
            other => {
                // The agent has resumed work.
                let held = self.session.turn.as_mut().and_then(|turn| turn.held.take());
                self.report_lost_end(held.map(|held| held.idle));
                other
            }
        };
        self.report_lost_state(&state);
    }

    /// Ends the turn, or holds its end while sub-agents are running: many clients ignore updates and
    /// questions without a pending request.
    fn end_or_hold(&mut self, idle: v2::IdleState<'static>) {
        // Read the tree before the turn is borrowed.
        let waits = self.subagents.tree().has_work_below(self.id);
        // The agent may resume work once for each of them.
        let follows = self.last_end_of_children().map(|end| end.after(FOLLOW_UP));
        let now = self.context.now;
        let patience = self.context.options.background;
        let Some(turn) = &mut self.session.turn else { return };
        let was_held = turn.held.take().map(|held| held.idle);
        let until = match follows {
            // Running sub-agents extend the turn. After a cancellation they get only a short time.
            _ if waits => Some(now.after(if turn.cancelled { CANCELLED } else { patience })),
            // A sub-agent has ended recently: the agent may still react to it.
            follows => follows.filter(|until| *until > now && !turn.cancelled),
        };
        if let Some(until) = until {
            turn.held = Some(HeldEnd { idle, until, are_done: !waits });
            return self.report_lost_end(was_held);
        }
        // The earlier idle state never reached the client.
        self.report_lost_end(was_held);
        self.end_turn(idle);
    }

    /// Sends a held end.
    pub(super) fn end_held(&mut self) {
        // The turn is taken first, so that the flush below cannot end it twice.
        let Some(turn) = &mut self.session.turn else { return };
        let Some(HeldEnd { mut idle, .. }) = turn.held.take() else { return };
        if turn.cancelled {
            idle.stop_reason = Some(v2::StopReason::Cancelled);
        }
        self.flush_all();
        self.end_turn(idle);
    }

    fn end_turn(&mut self, idle: v2::IdleState<'static>) {
        let Some(turn) = self.session.turn.take() else { return };
        // Terminals that no call has shown can no longer be shown in this turn.
        self.report_hidden_terminals();
        let (rest, envelope) = turn.said;
        let answer =
            self.context.convert(Some(self.id), "state_update", "/params/update", Side::Client, |cx| {
                session::idle_to_v1(idle, turn.cancelled, rest, cx)
            });
        let failed = match answer {
            Ok(Ok(answer)) => return self.context.respond(Side::Client, &turn.id, &answer, &envelope),
            Ok(Err(error)) => error,
            Err(error) => error.to_rpc(),
        };
        let response = Response { id: turn.id.clone(), outcome: Err(failed), extra: envelope };
        self.context.pass_answer(Side::Client, &turn.id, response);
    }

    /// Returns whether a user message is an echo that the client does not need.
    pub(super) fn suppresses(
        &mut self,
        message_id: &str,
        blocks: &[v2::ContentBlock<'_>],
        whole: bool,
    ) -> bool {
        // During a replay user messages are history, not echoes.
        if self.session.replays > 0 {
            return false;
        }
        self.session.turn.as_mut().is_some_and(|turn| turn.is_echo(message_id, blocks, whole))
    }

    /// Reports parts of an echo that the prompt does not have.
    pub(super) fn report_lost_echo(
        &mut self,
        tag: &str,
        blocks: &[v2::ContentBlock<'_>],
        rest: (Option<&Meta<'_>>, &Extra<'_>),
    ) {
        let reason = "the client shows its own prompt as sent";
        self.report_lost_rest(tag, rest, reason);
        let Some(turn) = &self.session.turn else { return };
        for (index, block) in blocks.iter().enumerate() {
            let is_text = plain_text(block).is_some();
            if (is_text && turn.differs) || (!is_text && !turn.blocks.contains(block)) {
                let pointer = match tag {
                    "user_message" => format!("/params/update/content/{index}"),
                    _ => "/params/update/content".to_owned(),
                };
                self.context.report_loss(Some(self.id), tag, &pointer, reason, Severity::Minor, Side::Client);
            }
        }
    }
}
