//! Questions that are answered here, and calls that nobody waits for any more.

use switchboard_protocol::rpc::RequestId;
use switchboard_protocol::{Moment, Side, Wire, v2};

use super::{Call, Conversation, Step};
use crate::change::Changes;
use crate::error::SessionError;
use crate::request::Decider;

impl Conversation {
    /// The session that an open question of the agent belongs to, and whether it is a permission.
    pub fn question(&self, id: &RequestId<'_>) -> Option<(usize, bool)> {
        match *self.open.get(Side::Agent, id)? {
            Call::Permission { session } => Some((session, true)),
            Call::Elicitation { session } => Some((session, false)),
            Call::New | Call::Resume { .. } | Call::SetConfigOption { .. } | Call::Prompt { .. } => None,
        }
    }

    /// Somebody here chooses an option. One that was not offered is refused, and the permission stays open.
    ///
    /// ```
    /// use switchboard_protocol::{Moment, Side, WireFormat};
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

    /// Somebody here gives data, or declines to.
    pub fn answer(
        &mut self,
        id: &RequestId<'_>,
        response: &v2::CreateElicitationResponse<'_>,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Step, SessionError> {
        self.settle(id, |session| session.answer_elicitation(id, response, by, at))
    }

    /// A question is taken back, or dismissed without a choice.
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

    /// Nobody waits for the answer to a request of the client any more; where it was never sent, `unsent`, nothing of it
    /// remains. A prompt that was sent may still be worked on.
    pub fn forget_call(&mut self, id: &RequestId<'_>, unsent: bool) {
        // The answer to a prompt still tells that it is part of the conversation.
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
