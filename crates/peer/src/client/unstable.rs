//! What can be asked of agents that have the parts of the draft that may still change, and of those with extensions that
//! several agents share. Ask only for what the agent told that it has; another one refuses.

use switchboard_acp::v2::{self, unstable};
use switchboard_acp::{Meta, Raw, Wire, WireFormat};
use switchboard_transport::Deadline;

use super::handle::{AgentHandle, Reply, reader};
use super::negotiation::AgentDescription;
use crate::Error;

/// The method by which the turn at work is given more to think about.
const STEERING: &str = "_session/steering";

/// What became of a message to a turn at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Steered {
    /// The turn has it.
    Taken,
    /// No turn is at work: nothing was done with it, and a prompt is the way.
    NoTurn,
}

impl AgentDescription {
    /// Whether the agent takes messages for the turn at work ([`AgentHandle::steer`]). An extension: it is told in the
    /// `_meta` of its answer.
    pub fn can_steer(&self) -> bool {
        let Ok(answer) = Raw::parse(self.answer.as_str()) else { return false };
        let meta = answer.get("_meta");
        let steering = meta.as_ref().and_then(|meta| meta.get("steering"));
        let supported = steering.as_ref().and_then(|steering| steering.get("supported"));
        supported.is_some_and(|supported| supported.as_str() == "true")
    }
}

impl AgentHandle {
    /// Makes a copy of a session, with its history, that goes on by itself. **Unstable.**
    pub async fn fork_session(
        &self,
        request: &unstable::ForkSessionRequest<'_>,
    ) -> Reply<unstable::ForkSessionResponse<'static>> {
        let call = self.begin("session/fork", request, Deadline::Default).await?;
        self.finish("session/fork", call, reader!(unstable::ForkSessionResponse)).await
    }

    /// Names a session; the answer is the name that it has now. **Unstable.**
    pub async fn set_title(&self, session: &str, title: &str) -> Reply<String> {
        let request = unstable::SetSessionTitleRequest::new(session, title);
        let call = self.begin("session/set_title", &request, Deadline::Default).await?;
        let reply =
            self.finish("session/set_title", call, reader!(unstable::SetSessionTitleResponse)).await?;
        Ok(reply.map(|response| response.title.into_owned()))
    }

    /// Puts a session away: it is kept, and lists leave it out. **Unstable.**
    pub async fn archive_session(&self, session: &str) -> Reply<()> {
        self.plain("session/archive", &unstable::ArchiveSessionRequest::new(session)).await
    }

    /// Takes a session out of the archive. **Unstable.**
    pub async fn unarchive_session(&self, session: &str) -> Reply<()> {
        self.plain("session/unarchive", &unstable::UnarchiveSessionRequest::new(session)).await
    }

    /// Whether a session is open, and at work. **Unstable.**
    pub async fn session_status(&self, session: &str) -> Reply<unstable::SessionStatusResponse<'static>> {
        let request = unstable::SessionStatusRequest::new(session);
        let call = self.begin("session/status", &request, Deadline::Default).await?;
        self.finish("session/status", call, reader!(unstable::SessionStatusResponse)).await
    }

    /// Whether somebody is logged in, and who. **Unstable.**
    pub async fn auth_status(&self) -> Reply<unstable::AuthStatusResponse<'static>> {
        let call = self.begin("auth/status", &unstable::AuthStatusRequest::new(), Deadline::Default).await?;
        self.finish("auth/status", call, reader!(unstable::AuthStatusResponse)).await
    }

    /// Gives the turn at work a message of the user, which it takes into account as it goes on. An extension
    /// ([`AgentDescription::can_steer`]).
    pub async fn steer(&self, session: &str, content: Vec<v2::ContentBlock<'_>>) -> Reply<Steered> {
        let mut request = v2::PromptRequest::new(session, content);
        // Without this the agent would begin a turn that nobody waits for.
        let meta = Meta::parse(r#"{"steering":{"idleBehavior":"promptRequired"}}"#);
        request.meta = Some(meta.map_err(|reason| Error::BadAnswer { method: STEERING, reason })?);
        let call = self.begin(STEERING, &request, Deadline::Default).await?;
        self.finish(STEERING, call, |answer| {
            let outcome = Raw::parse(answer)?;
            let outcome = outcome.get("outcome");
            let idle =
                outcome.as_ref().and_then(Raw::as_text).is_some_and(|outcome| outcome == "promptRequired");
            Ok(if idle { Steered::NoTurn } else { Steered::Taken })
        })
        .await
    }
}
