//! Questions answered by the caller, and calls that are no longer pending.

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{DecodeError, Diagnostic, Moment, Side, Text, Wire, v2};

use super::{Call, Conversation, ConversationError, Folded, ReusedId, Step};
use crate::change::Changes;
use crate::entry::EntryKind;
use crate::error::SessionError;
use crate::request::Decider;

/// A question of the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentQuestion<'t> {
    /// A permission request.
    Permission(v2::RequestPermissionRequest<'t>),
    /// An elicitation: a request for data.
    Elicitation(v2::CreateElicitationRequest<'t>),
}

impl Conversation {
    /// Parses the parameters of a question with the settings of this conversation, without applying it.
    /// Returns the malformed parts that were left out as well. [`None`] if the method is not a question.
    pub fn decode_question<'t>(
        &self,
        method: &str,
        params: &'t str,
    ) -> Option<Result<(AgentQuestion<'t>, Vec<Diagnostic>), DecodeError>> {
        let mut left_out = Vec::new();
        let asks = matches!(method, "session/request_permission" | "elicitation/create");
        asks.then(|| Ok((self.read_question(method, params, &mut left_out)?, left_out)))
    }

    pub(super) fn read_question<'t>(
        &self,
        method: &str,
        params: &'t str,
        left_out: &mut Vec<Diagnostic>,
    ) -> Result<AgentQuestion<'t>, DecodeError> {
        if method == "session/request_permission" {
            return self.decode_part("/params", params, left_out).map(AgentQuestion::Permission);
        }
        self.decode_part("/params", params, left_out).map(AgentQuestion::Elicitation)
    }

    /// Applies a parsed question. Ignores an elicitation without a session. Fails with
    /// [`SessionError::IdInUse`] while another question with this id is pending.
    pub fn ask(
        &mut self,
        id: &RequestId<'_>,
        question: &AgentQuestion<'_>,
        at: Moment,
    ) -> Result<Folded<'static>, ConversationError> {
        self.now = self.now.max(at);
        let place = match question {
            AgentQuestion::Permission(request) => Some(self.place(Some(&request.session_id))?),
            AgentQuestion::Elicitation(request) => self.elicitation_scope(request)?,
        };
        let Some(session) = place else { return Ok(Folded::default()) };
        let reused_id = self.reused_id(id)?;
        let is_permission = matches!(question, AgentQuestion::Permission(_));
        let by = Decider::Client;
        self.opened(Side::Agent, id, Call::Question { session, is_permission, reused_id, by });
        Ok(match question {
            AgentQuestion::Permission(request) => {
                let entry = match &request.subject {
                    Some(v2::RequestPermissionSubject::ToolCall(subject)) => {
                        Some((EntryKind::ToolCall, Text::Owned(subject.tool_call.tool_call_id.to_string())))
                    }
                    _ => None,
                };
                let step = self.step(session, |session| session.open_permission(id, request, at));
                Folded { entry, ..Folded::of(Some(step)) }
            }
            AgentQuestion::Elicitation(request) => {
                Folded::of(Some(self.step(session, |session| session.open_elicitation(id, request, at))))
            }
        })
    }

    /// Returns the expected responses with this id that belong to earlier requests. Fails if one of them is
    /// pending.
    fn reused_id(&mut self, id: &RequestId<'_>) -> Result<ReusedId, SessionError> {
        let is_pending = self.is_pending(id);
        match self.open.get_mut(Side::Agent, id) {
            Some(Call::Question { reused_id, .. }) if is_pending => {
                reused_id.repeated = reused_id.repeated.saturating_add(1);
                Err(SessionError::IdInUse { id: id.clone().into_owned() })
            }
            Some(Call::Question { reused_id, .. }) => Ok(ReusedId {
                cancelled: reused_id.cancelled.saturating_add(1),
                repeated: reused_id.repeated,
            }),
            _ => Ok(ReusedId::default()),
        }
    }

    /// Returns true if a response belongs to another request than the pending question with its id.
    pub(super) fn belongs_to_earlier(&mut self, id: &RequestId<'_>, is_error: bool) -> bool {
        let Some(Call::Question { reused_id, .. }) = self.open.get_mut(Side::Agent, id) else { return false };
        let count = match reused_id {
            ReusedId { cancelled: 0, repeated } if is_error => repeated,
            ReusedId { cancelled, .. } => cancelled,
        };
        let belongs_to_earlier = *count > 0;
        *count = count.saturating_sub(1);
        belongs_to_earlier
    }

    /// Returns the session of a pending question, and true if it is a permission.
    pub fn question(&self, id: &RequestId<'_>) -> Option<(usize, bool)> {
        match *self.open.get(Side::Agent, id)? {
            Call::Question { session, is_permission, .. } => Some((session, is_permission)),
            Call::New
            | Call::Login
            | Call::AuthStatus
            | Call::SetTitle { .. }
            | Call::Resume { .. }
            | Call::SetConfigOption { .. }
            | Call::Prompt { .. } => None,
        }
    }

    /// Returns true if a question is pending: neither answered nor cancelled.
    pub fn is_pending(&self, id: &RequestId<'_>) -> bool {
        let Some((session, is_permission)) = self.question(id) else { return false };
        self.slots.get(session).is_some_and(|slot| match is_permission {
            true => slot.session.permission(id).is_some_and(|asked| asked.settlement().is_pending()),
            false => slot.session.elicitation(id).is_some_and(|asked| asked.settlement().is_pending()),
        })
    }

    /// Sets the author of the next answer to a pending question, if more is known than the wire shows.
    /// Returns false if there is no such question.
    ///
    /// ```
    /// use switchboard_acp::{Moment, Side, WireFormat};
    /// use switchboard_session::{Conversation, Decider, Settlement};
    ///
    /// let mut conversation = Conversation::new(WireFormat::Any);
    /// let asked = r#"{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":"s",
    ///     "title":"Write?","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}"#;
    /// let answer = r#"{"jsonrpc":"2.0","id":5,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#;
    /// conversation.read(asked, Some(Side::Agent), Moment(1))?;
    /// assert!(conversation.name_answerer(&5.into(), Decider::Other("anna".into())));
    /// conversation.read(answer, Some(Side::Client), Moment(2))?;
    /// let permission = conversation.session(Some("s")).unwrap().permission(&5.into()).unwrap();
    /// assert!(matches!(permission.settlement(), Settlement::Answered { by: Decider::Other(_), .. }));
    /// # Ok::<(), switchboard_session::ConversationError>(())
    /// ```
    pub fn name_answerer(&mut self, id: &RequestId<'_>, answerer: impl Into<Decider>) -> bool {
        match self.open.get_mut(Side::Agent, id) {
            Some(Call::Question { by, .. }) => *by = answerer.into(),
            _ => return false,
        }
        true
    }

    /// Selects an option of a permission. Fails if it was not offered; the permission then stays pending.
    ///
    /// ```
    /// use switchboard_acp::{Moment, Side, WireFormat};
    /// use switchboard_session::{Conversation, Decider};
    ///
    /// let mut conversation = Conversation::new(WireFormat::Any);
    /// let line = r#"{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":"s",
    ///     "title":"Write?","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}"#;
    /// conversation.read(line, Some(Side::Agent), Moment(1))?;
    /// assert!(conversation.choose(&5.into(), "n", Decider::User, Moment(2)).is_err());
    /// conversation.choose(&5.into(), "y", Decider::Rule("reading is fine".into()), Moment(2))?;
    /// assert!(conversation.session(Some("s")).unwrap().permission(&5.into()).unwrap().is_granted());
    /// # Ok::<(), switchboard_session::ConversationError>(())
    /// ```
    pub fn choose(
        &mut self,
        id: &RequestId<'_>,
        option_id: &str,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Step, SessionError> {
        self.settle(id, |session| session.answer_permission(id, option_id, by, at))
    }

    /// Answers or declines an elicitation.
    pub fn answer(
        &mut self,
        id: &RequestId<'_>,
        response: &v2::CreateElicitationResponse<'_>,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Step, SessionError> {
        self.settle(id, |session| session.answer_elicitation(id, response, by, at))
    }

    /// Cancels a question, or dismisses it without a choice.
    pub fn dismiss(
        &mut self,
        id: &RequestId<'_>,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Step, SessionError> {
        let is_permission = self.question(id).is_some_and(|(_, is_permission)| is_permission);
        self.settle(id, |session| {
            if is_permission {
                session.cancel_permission(id, by, at)
            } else {
                session.cancel_elicitation(id, by, at)
            }
        })
    }

    fn settle(
        &mut self,
        id: &RequestId<'_>,
        settle: impl FnOnce(&mut crate::Session) -> Result<Changes, SessionError>,
    ) -> Result<Step, SessionError> {
        let missing = || SessionError::NoSuchRequest { id: id.clone().into_owned() };
        let (session, _) = self.question(id).ok_or_else(missing)?;
        let step = self.try_step(session, settle)?.ok_or_else(missing)?;
        self.open.close(Side::Agent, id);
        Ok(step)
    }

    /// Removes a pending request of the client. With `unsent`, it never reached the agent and leaves no
    /// trace. A prompt that was sent may still be worked on.
    pub fn forget_call(&mut self, id: &RequestId<'_>, unsent: bool) {
        // The response to a prompt still confirms that it is part of the conversation.
        if !unsent && matches!(self.open.get(Side::Client, id), Some(Call::Prompt { .. })) {
            return;
        }
        match self.open.close(Side::Client, id) {
            Some(Call::Resume { session, replays: true }) => {
                if let Some(slot) = self.slots.get_mut(session) {
                    slot.session.abandon_replay();
                }
            }
            Some(Call::Prompt { session }) if unsent => {
                if let Some(slot) = self.slots.get_mut(session) {
                    slot.turns.forget(id);
                }
            }
            _ => {}
        }
    }
}
