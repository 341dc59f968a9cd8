//! What must be known of a message to send it to its place.

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Raw, Wire, WireFormat};

/// What the client and the server call the connection, and the session that a message is about.
pub(crate) const CONNECTION_ID: &str = "acp-connection-id";
pub(crate) const SESSION_ID: &str = "acp-session-id";
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";

/// What decides where a message goes.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    pub(crate) id: Option<RequestId<'static>>,
    pub(crate) method: Option<String>,
    /// The session that its parameters name.
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

    /// Whether it is about the connection, whatever it names.
    pub(crate) fn is_of_connection(&self) -> bool {
        self.method.as_deref().is_some_and(|method| method.starts_with("$/"))
    }
}
