//! Connections of all clients.

use std::collections::BTreeMap;

use super::ConnectionId;
use super::connection::{Connection, ReplyCache};

/// The connected clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    /// Replies to requests with an idempotency key.
    pub(super) answers: ReplyCache,
}
