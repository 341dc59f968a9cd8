//! Questions of the agent and their answers.

use std::sync::Arc;

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Diagnostic, Meta, Moment, WireFormat, v2};
use switchboard_session::{Decider, SessionError};
use switchboard_transport::Json;

use super::state::{ClientInner, OpenQuestion, answer_dismissed};
use crate::Error;

/// A permission request of the agent. It stays pending until it is answered, cancelled by the agent, or its
/// session is cancelled. Dropping this value has no effect; the session still has the question.
#[derive(Debug, Clone)]
pub struct PermissionQuestion {
    pub(super) shared: Arc<ClientInner>,
    pub(super) session: Arc<str>,
    pub(super) id: RequestId<'static>,
    pub(super) request: Arc<v2::RequestPermissionRequest<'static>>,
    pub(super) left_out: Arc<[Diagnostic]>,
}

impl PermissionQuestion {
    /// Returns its session.
    pub fn session(&self) -> &Arc<str> {
        &self.session
    }

    /// Returns the id of the request, which the session uses too.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// Returns the request.
    pub fn request(&self) -> &v2::RequestPermissionRequest<'static> {
        &self.request
    }

    /// Returns the malformed parts that were left out.
    pub fn left_out(&self) -> &[Diagnostic] {
        &self.left_out
    }

    /// Returns the first option of one of these kinds, in the order of the kinds.
    pub fn option_of(&self, kinds: &[v2::PermissionOptionKind]) -> Option<&v2::PermissionOption<'static>> {
        kinds.iter().find_map(|kind| self.request.options.iter().find(|option| option.kind == *kind))
    }

    /// Selects an option. Fails for one that was not offered; the question stays pending then.
    pub async fn choose(&self, option_id: &str, by: impl Into<Decider>) -> Result<(), Error> {
        self.choose_saying(option_id, by, None).await
    }

    /// Selects an option without waiting until the response is written, as required in the handler of
    /// [`Feed::until`](crate::Feed::until).
    pub fn choose_at_once(&self, option_id: &str, by: impl Into<Decider>) -> Result<(), Error> {
        let (question, response) = self.settle(option_id, by)?;
        question.request.respond_at_once(Json::of(&response, WireFormat::Any));
        Ok(())
    }

    /// Selects an option, with metadata for the agent.
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

    /// Records the choice, which must have been offered, and returns the response.
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

    /// Answers without a choice, which is not an approval.
    pub fn dismiss(&self) -> Result<(), Error> {
        self.shared.dismiss(&self.id)
    }
}

/// An elicitation of the agent. It behaves like a [`PermissionQuestion`].
#[derive(Debug, Clone)]
pub struct ElicitationQuestion {
    pub(super) shared: Arc<ClientInner>,
    pub(super) session: Option<Arc<str>>,
    pub(super) id: RequestId<'static>,
    pub(super) request: Arc<v2::CreateElicitationRequest<'static>>,
    pub(super) left_out: Arc<[Diagnostic]>,
}

impl ElicitationQuestion {
    /// Returns its session, if it has one.
    pub fn session(&self) -> Option<&Arc<str>> {
        self.session.as_ref()
    }

    /// Returns the id of the request.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// Returns the request.
    pub fn request(&self) -> &v2::CreateElicitationRequest<'static> {
        &self.request
    }

    /// Returns the malformed parts that were left out.
    pub fn left_out(&self) -> &[Diagnostic] {
        &self.left_out
    }

    /// Provides or declines the data. Data that does not match the form is refused, and the question stays
    /// pending.
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

    /// Answers a question with `cancelled`.
    pub(super) fn settle_cancelled(&self, id: &RequestId<'static>, by: Decider) -> Result<(), Error> {
        let question = self.state().settle(id, |all| all.dismiss(id, by, Moment::now()))?;
        answer_dismissed(question);
        self.wake.notify_one();
        Ok(())
    }
}
