//! Connections of all clients.

use std::collections::BTreeMap;

use switchboard_acp::extensions::Author;

use super::ConnectionId;
use super::connection::{Connection, ReplyCache};
use super::lines::Outcome;
use super::services::Services;

/// The connected clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    /// Replies to requests with an idempotency key.
    pub(super) answers: ReplyCache,
}

impl Clients {
    /// Returns a client as the author of a record; an empty author if it has disconnected.
    pub(super) fn author(&self, connection: ConnectionId) -> Author<'static> {
        self.connections.get(&connection).map_or_else(Author::new, Connection::author)
    }

    /// Returns the offer of a client.
    pub(super) fn services_at(&self, connection: ConnectionId) -> Services {
        self.connections.get(&connection).map(|client| client.services).unwrap_or_default()
    }

    /// Returns the response to a prompt, with the outcome of the turn if the client wants it.
    pub(super) fn of_turn(&self, connection: ConnectionId, outcome: Outcome, ended: Option<&str>) -> Outcome {
        match self.connections.get(&connection) {
            Some(client) => client.of_turn(outcome, ended),
            None => outcome,
        }
    }
}
