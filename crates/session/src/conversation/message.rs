//! Applies requests, notifications and responses.

use switchboard_acp::rpc::{CancelRequestNotification, Notification, Request, RequestId, Response, RpcError};
use switchboard_acp::{Field, Moment, Raw, Side, Wire, v2};

use super::{Call, Conversation, ConversationError, Folded, Step};
use crate::change::Changes;
use crate::error::SessionError;
use crate::references::may_name_sessions;
use crate::request::Decider;
use crate::session::{Session, concerns_state};
use crate::snapshot::Activity;

type Outcome<'m> = Result<Folded<'m>, ConversationError>;

impl Conversation {
    pub(super) fn notification<'m>(
        &mut self,
        message: &'m Notification<'_>,
        from: Option<Side>,
        at: Moment,
    ) -> Outcome<'m> {
        let (text, mut left_out) = (message.params_text(), Vec::new());
        let mut folded = match &*message.method {
            "session/update" if self.has_no_effect(message.params.as_ref()) => Folded::default(),
            "session/update" => {
                let read = self.decode_part("/params", text, &mut left_out);
                let params: v2::UpdateSessionNotification<'_> = match (read, &message.params) {
                    (Ok(params), _) => params,
                    (Err(error), params) => {
                        if let Some(params) = params {
                            self.note_unreadable(params, &error.to_string());
                        }
                        return Err(error.into());
                    }
                };
                let folded = self.apply_update(Some(&params.session_id), &params.update)?.owned();
                let session = folded.step.as_ref().map(|step| step.session);
                self.note_malformed(session, &params.update, &left_out);
                folded
            }
            "session/cancel" => {
                let params: v2::CancelSessionNotification<'_> =
                    self.decode_part("/params", text, &mut left_out)?;
                // The client's cancellation ends the session's questions at once. The prompt ends when the
                // agent reports idle.
                let place = self.place(Some(&params.session_id))?;
                Folded::of(Some(self.step(place, |session| session.cancel_requests(Side::Client, at))))
            }
            "elicitation/complete" => {
                let params: v2::CompleteElicitationNotification<'_> =
                    self.decode_part("/params", text, &mut left_out)?;
                let steps = (0..self.slots.len()).map(|place| {
                    self.step(place, |session| session.complete_elicitation(&params.elicitation_id))
                });
                Folded::of(steps.filter(|step| !step.changes.is_empty()).last())
            }
            "auth/status_update" => {
                self.auth_notification(message, &mut left_out)?;
                Folded::default()
            }
            "_auth/status_update" => {
                self.early_auth_notification(message);
                Folded::default()
            }
            "$/cancel_request" if from != Some(Side::Client) => {
                let params: CancelRequestNotification<'_> =
                    self.decode_part("/params", text, &mut left_out)?;
                // The client's answer to it may still arrive, and then finds the question settled.
                Folded::of(self.cancel_by_agent(&params.request_id, at)?)
            }
            _ => Folded::default(),
        };
        folded.left_out.extend(left_out);
        Ok(folded)
    }

    /// Returns true if an update has no effect here, without parsing it completely.
    fn has_no_effect(&self, params: Option<&Raw<'_>>) -> bool {
        if self.keeps_transcript {
            return false;
        }
        let update = params.and_then(|params| params.get("update"));
        let kind = update.as_ref().and_then(|update| update.get("sessionUpdate"));
        match kind.as_ref().and_then(Raw::as_text).as_deref() {
            Some(kind) if concerns_state(kind) => false,
            Some("tool_call_update" | "tool_call_content_chunk" | "terminal_update")
                if self.outlines.is_some() =>
            {
                false
            }
            // These may report a started session.
            Some("subagent_update" | "tool_call_update" | "tool_call_content_chunk") => {
                !update.is_some_and(|update| may_name_sessions(update.as_str()))
            }
            // An unreadable update may concern a tool call.
            None => self.outlines.is_none(),
            Some(_) => true,
        }
    }

    fn cancel_by_agent(&mut self, id: &RequestId<'_>, at: Moment) -> Result<Option<Step>, SessionError> {
        let Some((session, is_permission)) = self.question(id) else { return Ok(None) };
        self.cancel_question(session, is_permission, id, Side::Agent, at)
    }

    /// Cancels a pending question.
    fn cancel_question(
        &mut self,
        session: usize,
        is_permission: bool,
        id: &RequestId<'_>,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Option<Step>, SessionError> {
        ignore_late(self.try_step(session, |session| {
            if is_permission {
                session.cancel_permission(id, by, at)
            } else {
                session.cancel_elicitation(id, by, at)
            }
        }))
    }

    pub(super) fn opened(&mut self, asker: Side, id: &RequestId<'_>, call: Call) {
        // If too many are pending, the oldest is evicted: its response will have no effect.
        drop(self.open.open_or_evict(asker, id, call));
    }

    pub(super) fn request<'m>(&mut self, message: &'m Request<'_>, at: Moment) -> Outcome<'m> {
        let (id, text, mut left_out) = (&message.id, message.params_text(), Vec::new());
        let mut folded = match &*message.method {
            method @ ("session/request_permission" | "elicitation/create") => {
                let question = self.read_question(method, text, &mut left_out)?;
                self.ask(id, &question, at)?
            }
            "session/new" | "session/fork" => {
                self.opened(Side::Client, id, Call::New);
                Folded::default()
            }
            "auth/login" => {
                self.opened(Side::Client, id, Call::Login);
                Folded::default()
            }
            "auth/status" => {
                self.opened(Side::Client, id, Call::AuthStatus);
                Folded::default()
            }
            "session/set_title" => {
                if let Some(session_id) = session_of(message.params.as_ref()) {
                    let session = self.place(Some(&session_id))?;
                    self.opened(Side::Client, id, Call::SetTitle { session });
                }
                Folded::default()
            }
            // A client's request is not an update: if it is malformed, the agent will refuse it.
            "session/resume" => {
                let read = self.decode_part("/params", text, &mut left_out);
                let Ok::<v2::ResumeSessionRequest<'_>, _>(request) = read else {
                    return Ok(Folded::default());
                };
                let session = self.place(Some(&request.session_id))?;
                // Start the replay with the request, not its response: the history arrives before the
                // response.
                let replays = request.replay_from.is_some();
                self.opened(Side::Client, id, Call::Resume { session, replays });
                Folded::of(Some(self.step(session, |session| {
                    if replays {
                        session.begin_replay();
                    }
                    Changes::default()
                })))
            }
            "session/set_config_option" => {
                if let Some(session_id) = session_of(message.params.as_ref()) {
                    let session = self.place(Some(&session_id))?;
                    self.opened(Side::Client, id, Call::SetConfigOption { session });
                }
                Folded::default()
            }
            "session/prompt" => {
                if let Some(session_id) = session_of(message.params.as_ref()) {
                    let session = self.place(Some(&session_id))?;
                    self.opened(Side::Client, id, Call::Prompt { session });
                    if let Some(slot) = self.slots.get_mut(session) {
                        // Read the activity before registering the prompt: an idle state that ends earlier
                        // work must not end this prompt.
                        let is_working = slot.session.activity() != Activity::Idle;
                        let position = slot.session.len();
                        slot.turns.begin(id.clone().into_owned(), is_working, position, at);
                    }
                }
                Folded::default()
            }
            _ => Folded::default(),
        };
        folded.left_out.extend(left_out);
        Ok(folded)
    }

    /// Returns the session of an elicitation: its own, or that of the client request it refers to.
    pub(super) fn elicitation_scope(
        &mut self,
        request: &v2::CreateElicitationRequest<'_>,
    ) -> Result<Option<usize>, ConversationError> {
        let (session_id, about) = match request {
            v2::CreateElicitationRequest::Form(form) => (form.session_id.clone(), form.request_id.clone()),
            v2::CreateElicitationRequest::Url(url) => (url.session_id.clone(), url.request_id.clone()),
            v2::CreateElicitationRequest::Unknown(unknown) => (unknown.text("sessionId"), None),
            v2::CreateElicitationRequest::More(none) => none.never(),
        };
        if let Some(session_id) = session_id {
            return self.place(Some(&session_id)).map(Some);
        }
        let about = about.and_then(|about| self.open.get(Side::Client, &about));
        Ok(about.and_then(Call::session))
    }

    pub(super) fn response(
        &mut self,
        message: &Response<'_>,
        from: Option<Side>,
        at: Moment,
    ) -> Outcome<'static> {
        // Without a sender, an id could belong to a request of either side.
        let Some(answerer) = from else { return Ok(Folded::default()) };
        // Responses to earlier requests with the same id come first. They must not answer the pending
        // question.
        if answerer == Side::Client && self.belongs_to_earlier(&message.id, message.outcome.is_err()) {
            return Ok(Folded::default());
        }
        let Some(call) = self.open.answered(answerer, &message.id) else { return Ok(Folded::default()) };
        match &message.outcome {
            Ok(result) => self.result(&call, &message.id, result, at),
            Err(error) => self.failure(&call, &message.id, error, at),
        }
    }

    fn failure(
        &mut self,
        call: &Call,
        id: &RequestId<'_>,
        error: &RpcError<'_>,
        at: Moment,
    ) -> Outcome<'static> {
        let step = match *call {
            Call::Question { session, is_permission, ref by, .. } => {
                self.cancel_question(session, is_permission, id, by.clone(), at)?
            }
            Call::Resume { session, replays: true } => Some(self.step(session, |session| {
                session.abandon_replay();
                Changes::default()
            })),
            Call::Prompt { session } => {
                let turns = self.slots.get_mut(session).map(|slot| &mut slot.turns);
                let ended = turns.map(|turns| turns.answered(id, Err(error), at)).unwrap_or_default();
                return Ok(Folded { ended, ..Folded::default() });
            }
            Call::New
            | Call::Login
            | Call::AuthStatus
            | Call::SetTitle { .. }
            | Call::Resume { .. }
            | Call::SetConfigOption { .. } => None,
        };
        Ok(Folded::of(step))
    }

    fn result(&mut self, call: &Call, id: &RequestId<'_>, result: &Raw<'_>, at: Moment) -> Outcome<'static> {
        let (text, mut left_out) = (result.as_str(), Vec::new());
        let mut folded = match *call {
            Call::Question { session, is_permission: true, ref by, .. } => {
                let read = self.decode_part("/result", text, &mut left_out);
                let step = match read {
                    Ok::<v2::RequestPermissionResponse<'_>, _>(response) => {
                        ignore_late(self.try_step(session, |session| {
                            session.settle_permission(id, &response.outcome, by.clone(), at)
                        }))?
                    }
                    // The agent has got an answer, and an unreadable answer is not an approval.
                    Err(error) => {
                        left_out.push(error.diagnostic().clone());
                        let reason = format!("the answer cannot be read: {error}");
                        ignore_late(self.try_step(session, |session| {
                            session.settle_as_no_approval(id, &reason, by.clone(), at)
                        }))?
                    }
                };
                Folded::of(step)
            }
            Call::Question { session, is_permission: false, ref by, .. } => {
                let read = self.decode_part("/result", text, &mut left_out);
                let step = match read {
                    Ok::<v2::CreateElicitationResponse<'_>, _>(response) => {
                        ignore_late(self.try_step(session, |session| {
                            session.answer_elicitation(id, &response, by.clone(), at)
                        }))?
                    }
                    Err(error) => {
                        left_out.push(error.diagnostic().clone());
                        self.cancel_question(session, false, id, by.clone(), at)?
                    }
                };
                Folded::of(step)
            }
            // Other responses are not updates: if they are malformed, they have no effect.
            Call::New => {
                let read = self.decode_part("/result", text, &mut left_out);
                let Ok::<v2::NewSessionResponse<'_>, _>(response) = read else {
                    return Ok(Folded::default());
                };
                let (options, commands) = (response.config_options, response.available_commands);
                let session = self.place(Some(&response.session_id))?;
                Folded::of(Some(
                    self.step(session, |session| {
                        session.apply_lists(options.as_deref(), commands.as_deref())
                    }),
                ))
            }
            Call::Login => {
                self.logged_in();
                Folded::default()
            }
            Call::AuthStatus => {
                self.auth_answer(result, &mut left_out);
                Folded::default()
            }
            Call::SetTitle { session } => {
                let read = self.decode_part("/result", text, &mut left_out);
                let Ok::<v2::unstable::SetSessionTitleResponse<'_>, _>(response) = read else {
                    return Ok(Folded::default());
                };
                let info = v2::SessionInfoUpdate {
                    title: Field::Set(response.title),
                    ..v2::SessionInfoUpdate::new()
                };
                let update = v2::SessionUpdate::SessionInfoUpdate(Box::new(info));
                Folded::of(Some(self.step(session, |session| session.apply(&update))))
            }
            Call::Resume { session, replays } => {
                let read = self.decode_part("/result", text, &mut left_out);
                let lists = read
                    .ok()
                    .map(|it: v2::ResumeSessionResponse<'_>| (it.config_options, it.available_commands));
                let (options, commands) = lists.unwrap_or_default();
                // Merge the replay first. The lists in the response are newer than those in the history.
                let ended = replays.then(|| self.step(session, Session::end_replay));
                let listed = self
                    .step(session, |session| session.apply_lists(options.as_deref(), commands.as_deref()));
                Folded::of(Some(match ended {
                    Some(mut ended) => {
                        ended.changes.extend(listed.changes);
                        ended
                    }
                    None => listed,
                }))
            }
            Call::SetConfigOption { session } => {
                let read = self.decode_part("/result", text, &mut left_out);
                let Ok::<v2::SetSessionConfigOptionResponse<'_>, _>(response) = read else {
                    return Ok(Folded::default());
                };
                Folded::of(Some(
                    self.step(session, |session| session.apply_lists(Some(&response.config_options), None)),
                ))
            }
            Call::Prompt { session } => {
                // The form of the response reveals the dialect, which later updates depend on.
                if self.dialect.see_prompt_answer(result) {
                    self.tell_dialect();
                }
                let message_id = result.get("messageId");
                let message_id = message_id.as_ref().and_then(Raw::as_text);
                let turns = self.slots.get_mut(session).map(|slot| &mut slot.turns);
                let ended = turns.map(|turns| turns.answered(id, Ok(message_id.as_deref()), at));
                Folded { ended: ended.unwrap_or_default(), ..Folded::default() }
            }
        };
        folded.left_out.extend(left_out);
        Ok(folded)
    }
}

/// Ignores a late answer to a question that is settled and perhaps evicted, which is not an error.
pub(super) fn ignore_late(outcome: Result<Option<Step>, SessionError>) -> Result<Option<Step>, SessionError> {
    match outcome {
        Err(SessionError::AlreadySettled { .. } | SessionError::NoSuchRequest { .. }) => Ok(None),
        outcome => outcome,
    }
}

fn session_of(params: Option<&Raw<'_>>) -> Option<String> {
    params?.text("sessionId")
}
