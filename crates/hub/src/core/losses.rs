//! Losses of the translations that clients get, in the log of their session.
//!
//! Every client of version 1 has a translation of its own, and a client that loads a session is translated its history again.
//! So equal losses are counted, for each subscriber and for the log: the n-th one of a subscriber is recorded only where the
//! log has fewer than n. What the log has is counted from its records, so this holds over a restart, too.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use switchboard_acp::extensions::LossNotification;
use switchboard_acp::{Raw, Wire, WireFormat};
use switchboard_bridge::Loss;
use switchboard_store::{Channel, Role};

use super::lines::{self, named};
use super::{ConnectionId, Core, SessionId};

/// Number of different losses of one session that are recorded.
const DIFFERENT: usize = 1024;
/// Length of the longest loss that a client may report.
const REPORTED: usize = 8 * 1024;

/// How often each loss occurred, by a hash of its text.
#[derive(Debug, Default)]
pub(crate) struct LossCounts(HashMap<u64, u32>);

impl LossCounts {
    /// Counts a loss and returns how often it has occurred; `None` when there are too many different ones.
    pub(crate) fn count(&mut self, text: &str) -> Option<u32> {
        let key = key(text);
        if self.0.len() >= DIFFERENT && !self.0.contains_key(&key) {
            return None;
        }
        let count = self.0.entry(key).or_default();
        *count = count.saturating_add(1);
        Some(*count)
    }

    /// Returns how often a loss has occurred.
    fn of(&self, text: &str) -> u32 {
        self.0.get(&key(text)).copied().unwrap_or_default()
    }
}

fn key(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl Core {
    /// Records what the translation for a client could not carry. A session without an agent is not written to: what is lost
    /// of its history was recorded when it happened, or is counted with the next work.
    pub(crate) fn client_lost(&mut self, connection: ConnectionId, loss: &Loss) {
        match &loss.session {
            Some(session) => self.record_loss(connection, session, &loss.to_json()),
            None => self.tell(format!("lost on the way to a client: {loss}")),
        }
    }

    /// Takes the report of a client that translates for itself, as `switchboard connect` does. A client that may only look
    /// writes nothing into a log.
    pub(super) fn loss_reported(&mut self, connection: ConnectionId, params: Option<&Raw<'_>>) {
        if self.needs(connection, Role::Answer).is_err() {
            return;
        }
        let reported = params
            .and_then(|params| LossNotification::decode_tolerant(params.as_str(), WireFormat::Any).ok())
            .filter(|(reported, _)| reported.loss.is_object());
        let Some((LossNotification { session_id, loss, .. }, _)) = reported else {
            return self.tell("a client reported a loss without a session or without naming it".to_owned());
        };
        if loss.as_str().len() > REPORTED {
            return self.tell(format!("a client reported a loss of more than {REPORTED} bytes"));
        }
        self.record_loss(connection, &session_id, loss.as_str());
    }

    fn record_loss(&mut self, connection: ConnectionId, session: &str, text: &str) {
        // What is lost of a sub-agent is part of the session that its id begins with.
        let root = lines::root(session);
        let known = self.sessions.get_key_value(session).or_else(|| self.sessions.get_key_value(root));
        let Some((id, _)) = known else {
            return self
                .tell(format!("a loss of session {} is not recorded: it is not open here", named(session)));
        };
        let id: SessionId = Arc::clone(id);
        let subscriber = self.connections.get_mut(&connection);
        let Some(attachment) = subscriber.and_then(|client| client.attachments.get_mut(&id)) else { return };
        let Some(occurred) = attachment.losses.count(text) else { return };
        let Some(known) = self.sessions.get(&id) else { return };
        let has_agent = known.host.is_some();
        let recorded = known.memory.as_ref().map(|memory| memory.losses.of(text));
        if has_agent && recorded.is_some_and(|recorded| recorded < occurred) {
            let _ = self.append(&id, Channel::Diagnostic, text);
        }
    }
}
