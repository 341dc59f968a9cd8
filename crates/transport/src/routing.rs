//! Fields of a message that are needed to route it.

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Raw, Wire, WireFormat};

/// Headers with the id of the connection and of the session.
pub(crate) const CONNECTION_ID: &str = "acp-connection-id";
pub(crate) const SESSION_ID: &str = "acp-session-id";
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";

/// Routing fields of a message.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    pub(crate) id: Option<RequestId<'static>>,
    pub(crate) method: Option<String>,
    /// Session id in its parameters.
    pub(crate) session: Option<String>,
}

impl Routing {
    pub(crate) fn of(message: &Raw<'_>) -> Self {
        Routing {
            id: (message.get("id"))
                .and_then(|id| RequestId::decode(id.as_str(), WireFormat::Any).ok().map(Wire::into_owned)),
            method: message.text("method"),
            session: message.get("params").and_then(|params| params.text("sessionId")),
        }
    }

    /// Returns true if the message concerns the connection, even if it contains a session id.
    pub(crate) fn is_of_connection(&self) -> bool {
        self.method.as_deref().is_some_and(|method| method.starts_with("$/"))
    }
}
