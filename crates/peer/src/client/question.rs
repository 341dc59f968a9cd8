//! What the agent asks and somebody answers.

use std::sync::Arc;

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Diagnostic, Meta, Moment, WireFormat, v2};
use switchboard_session::{Decider, SessionError};
use switchboard_transport::Json;

use super::state::{ClientInner, OpenQuestion, answer_dismissed};
use crate::Error;

/// A permission that the agent asks for. It stays open until it is answered, the agent takes it back, or the
/// session is cancelled; dropping this changes nothing, it can be had again from the session.
#[derive(Debug, Clone)]
pub struct PermissionQuestion {
    pub(super) shared: Arc<ClientInner>,
    pub(super) session: Arc<str>,
    pub(super) id: RequestId<'static>,
    pub(super) request: Arc<v2::RequestPermissionRequest<'static>>,
    pub(super) left_out: Arc<[Diagnostic]>,
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

    /// What was malformed in it and left out.
    pub fn left_out(&self) -> &[Diagnostic] {
        &self.left_out
    }

    /// The first option of one of these kinds, in the order of the kinds.
    pub fn option_of(&self, kinds: &[v2::PermissionOptionKind]) -> Option<&v2::PermissionOption<'static>> {
        kinds.iter().find_map(|kind| self.request.options.iter().find(|option| option.kind == *kind))
    }

    /// Chooses an option. One that was not offered is an error, and the question stays open.
    pub async fn choose(&self, option_id: &str, by: impl Into<Decider>) -> Result<(), Error> {
        self.choose_saying(option_id, by, None).await
    }

    /// Chooses an option without waiting until the answer is written, as the handler of
    /// [`Feed::until`](crate::Feed::until) must.
    pub fn choose_at_once(&self, option_id: &str, by: impl Into<Decider>) -> Result<(), Error> {
        let (question, response) = self.settle(option_id, by)?;
        question.request.respond_at_once(Json::of(&response, WireFormat::Any));
        Ok(())
    }

    /// Chooses an option, and tells whoever is at the other end something beside it.
    pub async fn choose_saying(
        &self,
        option_id: &str,
        by: impl Into<Decider>,
        meta: Option<Meta<'_>>,
    ) -> Result<(), Error> {
        let (question, mut response) = self.settle(option_id, by)?;
        response.meta = meta;
        Ok(question.request.respond(Json::of(&response, WireFormat::Any)).await?)
    }

    /// Notes the choice, which must have been offered, and gives what is to be answered.
    fn settle<'o>(
        &self,
        option_id: &'o str,
        by: impl Into<Decider>,
    ) -> Result<(OpenQuestion, v2::RequestPermissionResponse<'o>), Error> {
        let question =
            self.shared.state().settle(&self.id, |all| all.choose(&self.id, option_id, by, Moment::now()))?;
        self.shared.wake.notify_one();
        let outcome = v2::RequestPermissionOutcome::Selected(v2::SelectedPermissionOutcome::new(option_id));
        Ok((question, v2::RequestPermissionResponse::new(outcome)))
    }

    /// Answers without a choice, which is no approval.
    pub fn dismiss(&self) -> Result<(), Error> {
        self.shared.dismiss(&self.id)
    }
}

/// Data that the agent asks for. What is said of [`PermissionQuestion`] holds here too.
#[derive(Debug, Clone)]
pub struct ElicitationQuestion {
    pub(super) shared: Arc<ClientInner>,
    pub(super) session: Option<Arc<str>>,
    pub(super) id: RequestId<'static>,
    pub(super) request: Arc<v2::CreateElicitationRequest<'static>>,
    pub(super) left_out: Arc<[Diagnostic]>,
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

    /// What was malformed in it and left out.
    pub fn left_out(&self) -> &[Diagnostic] {
        &self.left_out
    }

    /// Gives the data, or declines to. Data that does not fit the form is refused, and the question stays open.
    pub async fn answer(
        &self,
        response: &v2::CreateElicitationResponse<'_>,
        by: impl Into<Decider>,
    ) -> Result<(), Error> {
        let faults = switchboard_session::check_elicitation(&self.request, response);
        if !faults.is_empty() {
            return Err(SessionError::DoesNotFit { id: self.id.clone(), faults }.into());
        }
        let question =
            self.shared.state().settle(&self.id, |all| all.answer(&self.id, response, by, Moment::now()))?;
        self.shared.wake.notify_one();
        Ok(question.request.respond(Json::of(response, WireFormat::Any)).await?)
    }

    /// Answers without data.
    pub fn dismiss(&self) -> Result<(), Error> {
        self.shared.dismiss(&self.id)
    }
}

impl ClientInner {
    fn dismiss(&self, id: &RequestId<'static>) -> Result<(), Error> {
        self.settle_cancelled(id, Decider::User)
    }

    /// Closes a question without an answer.
    pub(super) fn settle_cancelled(&self, id: &RequestId<'static>, by: Decider) -> Result<(), Error> {
        let question = self.state().settle(id, |all| all.dismiss(id, by, Moment::now()))?;
        answer_dismissed(question);
        self.wake.notify_one();
        Ok(())
    }
}
