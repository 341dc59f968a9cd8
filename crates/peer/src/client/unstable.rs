//! Requests to agents with unstable parts of the protocol, and with extensions that several agents share.
//! Only send what the agent's capabilities have; other agents refuse it.

use switchboard_acp::v2::{self, unstable};
use switchboard_acp::{Meta, Raw, Wire, WireFormat};
use switchboard_transport::Deadline;

use super::handle::{AgentHandle, Reply, reader};
use super::negotiation::AgentDescription;
use crate::Error;

/// The method that adds a message to the running turn.
const STEERING: &str = "_session/steering";

/// Result of a message to the running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Steered {
    /// The turn has accepted it.
    Taken,
    /// No turn is running: the message was not used, send a prompt instead.
    NoTurn,
}

impl AgentDescription {
    /// Returns whether the agent accepts messages for the running turn ([`AgentHandle::steer`]). An extension
    /// in the `_meta` of its response.
    pub fn can_steer(&self) -> bool {
        let Ok(answer) = Raw::parse(self.answer.as_str()) else { return false };
        let meta = answer.get("_meta");
        let steering = meta.as_ref().and_then(|meta| meta.get("steering"));
        let supported = steering.as_ref().and_then(|steering| steering.get("supported"));
        supported.is_some_and(|supported| supported.as_str() == "true")
    }
}

impl AgentHandle {
    /// Copies a session with its history; the copy continues independently. **Unstable.**
    pub async fn fork_session(
        &self,
        request: &unstable::ForkSessionRequest<'_>,
    ) -> Reply<unstable::ForkSessionResponse<'static>> {
        let call = self.begin("session/fork", request, Deadline::Default).await?;
        self.finish("session/fork", call, reader!(unstable::ForkSessionResponse)).await
    }

    /// Sets the title of a session; the response is the resulting title. **Unstable.**
    pub async fn set_title(&self, session: &str, title: &str) -> Reply<String> {
        let request = unstable::SetSessionTitleRequest::new(session, title);
        let call = self.begin("session/set_title", &request, Deadline::Default).await?;
        let reply =
            self.finish("session/set_title", call, reader!(unstable::SetSessionTitleResponse)).await?;
        Ok(reply.map(|response| response.title.into_owned()))
    }

    /// Archives a session: it is kept, but lists omit it. **Unstable.**
    pub async fn archive_session(&self, session: &str) -> Reply<()> {
        self.plain("session/archive", &unstable::ArchiveSessionRequest::new(session)).await
    }

    /// Removes a session from the archive. **Unstable.**
    pub async fn unarchive_session(&self, session: &str) -> Reply<()> {
        self.plain("session/unarchive", &unstable::UnarchiveSessionRequest::new(session)).await
    }

    /// Returns whether a session is open and running. **Unstable.**
    pub async fn session_status(&self, session: &str) -> Reply<unstable::SessionStatusResponse<'static>> {
        let request = unstable::SessionStatusRequest::new(session);
        let call = self.begin("session/status", &request, Deadline::Default).await?;
        self.finish("session/status", call, reader!(unstable::SessionStatusResponse)).await
    }

    /// Returns the login status and account. **Unstable.**
    pub async fn auth_status(&self) -> Reply<unstable::AuthStatusResponse<'static>> {
        let call = self.begin("auth/status", &unstable::AuthStatusRequest::new(), Deadline::Default).await?;
        self.finish("auth/status", call, reader!(unstable::AuthStatusResponse)).await
    }

    /// Sends a user message to the running turn, which takes it into account. An extension
    /// ([`AgentDescription::can_steer`]).
    pub async fn steer(&self, session: &str, content: Vec<v2::ContentBlock<'_>>) -> Reply<Steered> {
        let mut request = v2::PromptRequest::new(session, content);
        // Otherwise the agent would start a turn whose end is not awaited.
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
