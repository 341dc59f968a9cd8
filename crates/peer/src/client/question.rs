//! What the agent asks and somebody answers.

use std::sync::Arc;

use switchboard_protocol::rpc::RequestId;
use switchboard_protocol::{WireFormat, v2};
use switchboard_transport::{IncomingRequest, Json};

use super::state::{Question, Shared, answer_dismissed, now};
use crate::Error;

/// A permission that the agent asks for. It stays open until it is answered, the agent takes it back, or the
/// session is cancelled; dropping this changes nothing, it can be had again from the session.
#[derive(Debug, Clone)]
pub struct PermissionQuestion {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Arc<str>,
    pub(super) id: RequestId<'static>,
    pub(super) request: Arc<v2::RequestPermissionRequest<'static>>,
}

impl PermissionQuestion {
    /// The session that it belongs to.
    pub fn session(&self) -> &Arc<str> {
        &self.session
    }

    /// The id of the request, by which the session knows it too.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// The question.
    pub fn request(&self) -> &v2::RequestPermissionRequest<'static> {
        &self.request
    }

    /// The first option of one of these kinds, in the order of the kinds.
    pub fn option_of(&self, kinds: &[v2::PermissionOptionKind]) -> Option<&v2::PermissionOption<'static>> {
        kinds.iter().find_map(|kind| self.request.options.iter().find(|option| option.kind == *kind))
    }

    /// Chooses an option. One that was not offered is an error, and the question stays open.
    pub async fn choose(&self, option_id: &str, by: &str) -> Result<(), Error> {
        let request = {
            let mut state = self.shared.state();
            if let Some(live) = state.sessions.get_mut(&self.session) {
                let changes = live.session.answer_permission(&self.id, option_id, by, now())?;
                let session = Arc::clone(&self.session);
                state.note(&session, changes);
            }
            take(&mut state.questions, &self.id)?
        };
        self.shared.wake.notify_one();
        let outcome = v2::RequestPermissionOutcome::Selected(v2::SelectedPermissionOutcome::new(option_id));
        let response = v2::RequestPermissionResponse::new(outcome);
        Ok(request.respond(Json::of(&response, WireFormat::Any)).await?)
    }

    /// Answers without a choice, which is no approval.
    pub fn dismiss(&self) -> Result<(), Error> {
        self.shared.dismiss(&self.id)
    }
}

/// Data that the agent asks for. What is said of [`PermissionQuestion`] holds here too.
#[derive(Debug, Clone)]
pub struct ElicitationQuestion {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Option<Arc<str>>,
    pub(super) id: RequestId<'static>,
    pub(super) request: Arc<v2::CreateElicitationRequest<'static>>,
}

impl ElicitationQuestion {
    /// The session that it belongs to, where it belongs to one.
    pub fn session(&self) -> Option<&Arc<str>> {
        self.session.as_ref()
    }

    /// The id of the request.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// The question.
    pub fn request(&self) -> &v2::CreateElicitationRequest<'static> {
        &self.request
    }

    /// Gives the data, or declines to.
    pub async fn answer(&self, response: &v2::CreateElicitationResponse<'_>, by: &str) -> Result<(), Error> {
        let request = {
            let mut state = self.shared.state();
            if let Some(session) = &self.session
                && let Some(live) = state.sessions.get_mut(session)
            {
                let changes = live.session.answer_elicitation(&self.id, response, by, now())?;
                state.note(session, changes);
            }
            take(&mut state.questions, &self.id)?
        };
        self.shared.wake.notify_one();
        Ok(request.respond(Json::of(response, WireFormat::Any)).await?)
    }

    /// Answers without data.
    pub fn dismiss(&self) -> Result<(), Error> {
        self.shared.dismiss(&self.id)
    }
}

fn take(
    questions: &mut std::collections::HashMap<RequestId<'static>, Question>,
    id: &RequestId<'static>,
) -> Result<IncomingRequest, Error> {
    let open = questions.remove(id).ok_or_else(|| Error::AlreadySettled { id: id.clone() })?;
    Ok(open.request)
}

impl Shared {
    fn dismiss(&self, id: &RequestId<'static>) -> Result<(), Error> {
        self.settle_cancelled(id, switchboard_session::Side::Client)
    }

    /// Closes a question without an answer, on behalf of one of the sides.
    pub(super) fn settle_cancelled(
        &self,
        id: &RequestId<'static>,
        by: switchboard_session::Side,
    ) -> Result<(), Error> {
        let mut state = self.state();
        let settled = || Error::AlreadySettled { id: id.clone() };
        let question = state.questions.remove(id).ok_or_else(settled)?;
        if let Some(session) = question.session.clone()
            && let Some(live) = state.sessions.get_mut(&session)
        {
            let changes = if question.is_permission {
                live.session.cancel_permission(id, by, now())
            } else {
                live.session.cancel_elicitation(id, by, now())
            };
            // Settled in the session and open here cannot both be, and if they were nothing would be lost.
            state.note(&session, changes.unwrap_or_default());
        }
        drop(state);
        answer_dismissed(question);
        self.wake.notify_one();
        Ok(())
    }
}
