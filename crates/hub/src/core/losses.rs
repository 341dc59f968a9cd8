//! Translation losses of clients, recorded in the log of their session.
//!
//! Every version 1 client has its own translator, and attaching translates the history again. To record each loss once,
//! equal losses are counted for each subscriber and for the log: the n-th occurrence at a subscriber is recorded only
//! if the log contains fewer than n. The count of the log is derived from its records, so it survives a restart.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use switchboard_acp::extensions::LossNotification;
use switchboard_acp::{Raw, Wire, WireFormat};
use switchboard_store::{Channel, Role};

use super::lines::{self, truncated};
use super::outbox::Dropped;
use super::{ConnectionId, Core, SessionId};

/// Maximum number of different losses that are recorded for one session.
const DIFFERENT: usize = 1024;
/// Maximum length of a loss that a client may report, in bytes.
const REPORTED: usize = 8 * 1024;

/// Number of occurrences of each loss, by a hash of its text.
#[derive(Debug, Default)]
pub(crate) struct LossCounts(HashMap<u64, u32>);

impl LossCounts {
    /// Counts a loss and returns its number of occurrences; `None` if there are too many different losses.
    pub(crate) fn count(&mut self, text: &str) -> Option<u32> {
        let key = key(text);
        if self.0.len() >= DIFFERENT && !self.0.contains_key(&key) {
            return None;
        }
        let count = self.0.entry(key).or_default();
        *count = count.saturating_add(1);
        Some(*count)
    }

    /// Returns the number of occurrences of a loss.
    fn of(&self, text: &str) -> u32 {
        self.0.get(&key(text)).copied().unwrap_or_default()
    }
}

fn key(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Records a loss that a client with its own translator reports, as `switchboard connect` does. Clients with the
/// role `view` write nothing to a log.
pub(super) fn loss_reported(core: &mut Core, connection: ConnectionId, params: Option<&Raw<'_>>) {
    if core.cx.access().require_role(connection, Role::Answer).is_err() {
        return core.cx.outbox.drop_message(Dropped::LossWithoutRight);
    }
    let reported = params
        .and_then(|params| LossNotification::decode_tolerant(params.as_str(), WireFormat::Any).ok())
        .filter(|(reported, _)| reported.loss.is_object());
    let Some((LossNotification { session_id, loss, .. }, _)) = reported else {
        return core
            .cx
            .outbox
            .report("ignored the loss report of a client: sessionId or loss is missing".to_owned());
    };
    if loss.as_str().len() > REPORTED {
        return core
            .cx
            .outbox
            .report(format!("ignored the loss report of a client: it exceeds {REPORTED} bytes"));
    }
    record_loss(core, connection, &session_id, loss.as_str());
}

pub(super) fn record_loss(core: &mut Core, connection: ConnectionId, session: &str, text: &str) {
    // Losses of a sub-agent belong to the session at the beginning of its id.
    let root = lines::root(session);
    let known = core.sessions.get_key_value(session).or_else(|| core.sessions.get_key_value(root));
    let Some((id, _)) = known else {
        return core.cx.outbox.report(format!(
            "a loss of session {} is not recorded: the session is not open here",
            truncated(session)
        ));
    };
    let id: SessionId = Arc::clone(id);
    let subscriber = core.cx.clients.connections.get_mut(&connection);
    let Some(subscription) = subscriber.and_then(|client| client.subscriptions.get_mut(&id)) else {
        return core.cx.outbox.drop_message(Dropped::LossWithoutRight);
    };
    let Some(occurred) = subscription.losses.count(text) else {
        return core.cx.outbox.drop_message(Dropped::TooManyLosses);
    };
    let Some(known) = core.sessions.get(&id) else { return };
    let has_agent = known.process.is_some();
    let recorded = known.state.as_ref().map(|state| state.losses.of(text));
    if has_agent && recorded.is_some_and(|recorded| recorded < occurred) {
        let _ = core.append(&id, Channel::Diagnostic, text);
    }
}
