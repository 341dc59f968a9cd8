//! What calls and answers do.

use switchboard_protocol::rpc::{
    CancelRequestNotification, Notification, Request, RequestId, Response, RpcError,
};
use switchboard_protocol::{Moment, Raw, Side, Text, Wire, v2};

use super::{Call, Conversation, ConversationError, Folded, Step};
use crate::change::Changes;
use crate::entry::EntryKind;
use crate::error::SessionError;
use crate::session::Session;
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
            "session/update" => {
                let params: v2::UpdateSessionNotification<'_> =
                    self.decode_part("/params", text, &mut left_out)?;
                self.apply_update(Some(&params.session_id), &params.update)?.owned()
            }
            "session/cancel" => {
                let params: v2::CancelSessionNotification<'_> =
                    self.decode_part("/params", text, &mut left_out)?;
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
            "$/cancel_request" if from != Some(Side::Client) => {
                let params: CancelRequestNotification<'_> =
                    self.decode_part("/params", text, &mut left_out)?;
                // The client's answer to it still comes, and then finds the question settled.
                Folded::of(self.withdraw(&params.request_id, at)?)
            }
            _ => Folded::default(),
        };
        folded.left_out.extend(left_out);
        Ok(folded)
    }

    fn withdraw(&mut self, id: &RequestId<'_>, at: Moment) -> Result<Option<Step>, SessionError> {
        match self.open.get(Side::Agent, id).cloned() {
            Some(Call::Permission { session }) => {
                drop_late(self.try_step(session, |session| session.cancel_permission(id, Side::Agent, at)))
            }
            Some(Call::Elicitation { session }) => {
                drop_late(self.try_step(session, |session| session.cancel_elicitation(id, Side::Agent, at)))
            }
            _ => Ok(None),
        }
    }

    fn opened(&mut self, asker: Side, id: &RequestId<'_>, call: Call) {
        // The oldest is forgotten where there are too many: its answer will tell nothing.
        drop(self.open.open_or_evict(asker, id, call));
    }

    pub(super) fn request<'m>(&mut self, message: &'m Request<'_>, at: Moment) -> Outcome<'m> {
        let (id, text, mut left_out) = (&message.id, message.params_text(), Vec::new());
        let mut folded = match &*message.method {
            "session/request_permission" => {
                let request: v2::RequestPermissionRequest<'_> =
                    self.decode_part("/params", text, &mut left_out)?;
                let session = self.place(Some(&request.session_id))?;
                self.opened(Side::Agent, id, Call::Permission { session });
                let entry = match &request.subject {
                    Some(v2::RequestPermissionSubject::ToolCall(subject)) => {
                        Some((EntryKind::ToolCall, Text::Owned(subject.tool_call.tool_call_id.to_string())))
                    }
                    _ => None,
                };
                let step = self.step(session, |session| session.open_permission(id, &request, at));
                Folded { entry, ..Folded::of(Some(step)) }
            }
            "elicitation/create" => {
                let request: v2::CreateElicitationRequest<'_> =
                    self.decode_part("/params", text, &mut left_out)?;
                match self.elicitation_scope(&request)? {
                    Some(session) => {
                        self.opened(Side::Agent, id, Call::Elicitation { session });
                        Folded::of(Some(
                            self.step(session, |session| session.open_elicitation(id, &request, at)),
                        ))
                    }
                    None => Folded::default(),
                }
            }
            "session/new" => {
                self.opened(Side::Client, id, Call::New);
                Folded::default()
            }
            // What the client asks is no update: where it cannot be read, the agent will say so.
            "session/resume" => {
                let read = self.decode_part("/params", text, &mut left_out);
                let Ok::<v2::ResumeSessionRequest<'_>, _>(request) = read else {
                    return Ok(Folded::default());
                };
                let session = self.place(Some(&request.session_id))?;
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

    /// The session that a request for data belongs to: its own, or that of the client's request it is about.
    fn elicitation_scope(
        &mut self,
        request: &v2::CreateElicitationRequest<'_>,
    ) -> Result<Option<usize>, ConversationError> {
        let (session_id, about) = match request {
            v2::CreateElicitationRequest::Form(form) => (form.session_id.clone(), form.request_id.clone()),
            v2::CreateElicitationRequest::Url(url) => (url.session_id.clone(), url.request_id.clone()),
            v2::CreateElicitationRequest::Unknown(unknown) => (unknown.text("sessionId"), None),
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
        let answerer = from.unwrap_or_else(|| {
            // Ids of both sides overlap, but only answers to the agent have these keys.
            let to_agent =
                |result: &Raw<'_>| result.get("outcome").is_some() || result.get("action").is_some();
            if message.outcome.as_ref().is_ok_and(to_agent) { Side::Client } else { Side::Agent }
        });
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
            Call::Permission { session } => {
                drop_late(self.try_step(session, |session| session.cancel_permission(id, Side::Client, at)))?
            }
            Call::Elicitation { session } => {
                drop_late(self.try_step(session, |session| session.cancel_elicitation(id, Side::Client, at)))?
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
            Call::New | Call::Resume { .. } | Call::SetConfigOption { .. } => None,
        };
        Ok(Folded::of(step))
    }

    fn result(&mut self, call: &Call, id: &RequestId<'_>, result: &Raw<'_>, at: Moment) -> Outcome<'static> {
        let (text, mut left_out) = (result.as_str(), Vec::new());
        let mut folded = match *call {
            Call::Permission { session } => {
                let read = self.decode_part("/result", text, &mut left_out);
                let step = match read {
                    Ok::<v2::RequestPermissionResponse<'_>, _>(response) => {
                        drop_late(self.try_step(session, |session| {
                            session.settle_permission(id, &response.outcome, Side::Client, at)
                        }))?
                    }
                    // The agent has an answer, and what cannot be read is no approval.
                    Err(error) => {
                        left_out.push(error.diagnostic().clone());
                        let reason = format!("the answer cannot be read: {error}");
                        drop_late(self.try_step(session, |session| {
                            session.settle_as_no_approval(id, &reason, Side::Client, at)
                        }))?
                    }
                };
                Folded::of(step)
            }
            Call::Elicitation { session } => {
                let read = self.decode_part("/result", text, &mut left_out);
                let step =
                    match read {
                        Ok::<v2::CreateElicitationResponse<'_>, _>(response) => {
                            drop_late(self.try_step(session, |session| {
                                session.answer_elicitation(id, &response, Side::Client, at)
                            }))?
                        }
                        Err(error) => {
                            left_out.push(error.diagnostic().clone());
                            drop_late(self.try_step(session, |session| {
                                session.cancel_elicitation(id, Side::Client, at)
                            }))?
                        }
                    };
                Folded::of(step)
            }
            // The rest is no update: where it cannot be read, it tells nothing.
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
            Call::Resume { session, replays } => {
                let read = self.decode_part("/result", text, &mut left_out);
                let lists = read
                    .ok()
                    .map(|it: v2::ResumeSessionResponse<'_>| (it.config_options, it.available_commands));
                let (options, commands) = lists.unwrap_or_default();
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

/// An answer to a question that is settled already has come late, which is nobody's fault.
pub(super) fn drop_late(outcome: Result<Option<Step>, SessionError>) -> Result<Option<Step>, SessionError> {
    match outcome {
        Err(SessionError::AlreadySettled { .. }) => Ok(None),
        outcome => outcome,
    }
}

fn session_of(params: Option<&Raw<'_>>) -> Option<String> {
    Some(params?.get("sessionId")?.as_text()?.into_owned())
}
