//! Messages of the client that the server may not have received.

use std::collections::BTreeMap;

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Correlator, Raw, Side};

/// Maximum number of pending requests.
const REQUESTS: usize = 16 * 1024;

/// Maximum number of notifications kept for resending.
const NOTIFICATIONS: usize = 1024;

/// Pending requests, and notifications without evidence of their arrival, in order.
#[derive(Debug)]
pub(super) struct Pending {
    items: BTreeMap<u64, PendingMessage>,
    requests: Correlator<u64>,
    next: u64,
    bytes: usize,
    notifications: usize,
}

#[derive(Debug)]
pub(super) struct PendingMessage {
    pub(super) line: String,
    pub(super) about: PendingKind,
    /// The line that was sent last instead of the original.
    pub(super) instead: Option<String>,
    /// The connection on which it was sent last.
    pub(super) sent_on: Option<u64>,
    /// The connection on which it was sent first.
    pub(super) first_on: Option<u64>,
}

/// Effect of a successful response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opens {
    /// None.
    Nothing,
    /// Opens a new session with these parameters. A forked session is not empty.
    New { params: Raw<'static>, is_empty: bool },
    /// Opens an existing session.
    Known { method: &'static str, session: String, params: Raw<'static> },
    /// Ends a session, at least for this client.
    End { session: String },
}

#[derive(Debug)]
pub(super) enum PendingKind {
    Request {
        id: RequestId<'static>,
        opens: Opens,
    },
    /// Cancels a request.
    CancelsRequest {
        id: RequestId<'static>,
    },
    /// Cancels the work of a session.
    CancelsSession {
        session: String,
    },
    /// Another notification.
    Other,
}

impl Default for Pending {
    fn default() -> Self {
        let requests = Correlator::new(REQUESTS);
        Pending { items: BTreeMap::new(), requests, next: 0, bytes: 0, notifications: 0 }
    }
}

impl Pending {
    /// Returns the pending bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a message of the client, sent on a connection or not yet. Returns `false` if the limit is
    /// reached.
    pub(super) fn push(&mut self, line: &str, about: PendingKind, sent_on: Option<u64>) -> bool {
        if let PendingKind::Request { id, .. } = &about {
            if self.requests.contains(Side::Client, id)
                || self.requests.open(Side::Client, id, self.next).is_err()
            {
                return false;
            }
        } else {
            // The oldest is dropped instead of the new one: a later cancellation is worth more than an
            // earlier one, which the server has probably received.
            self.notifications += 1;
            if self.notifications > NOTIFICATIONS {
                let is_notification =
                    |item: &PendingMessage| !matches!(item.about, PendingKind::Request { .. });
                let oldest = self.items.iter().find(|(_, item)| is_notification(item)).map(|(at, _)| *at);
                oldest.map(|at| self.remove(at));
            }
        }
        self.bytes += line.len();
        self.items.insert(
            self.next,
            PendingMessage { line: line.to_owned(), about, instead: None, sent_on, first_on: sent_on },
        );
        self.next += 1;
        true
    }

    fn remove(&mut self, at: u64) -> Option<PendingMessage> {
        let item = self.items.remove(&at)?;
        self.bytes -= item.line.len();
        match &item.about {
            PendingKind::Request { id, .. } => {
                self.requests.close(Side::Client, id);
            }
            PendingKind::CancelsRequest { .. } | PendingKind::CancelsSession { .. } | PendingKind::Other => {
                self.notifications -= 1;
            }
        }
        Some(item)
    }

    fn remove_if(&mut self, mut is_over: impl FnMut(u64, &PendingMessage) -> bool) {
        if self.notifications == 0 {
            return;
        }
        let over: Vec<u64> =
            self.items.iter().filter(|(at, item)| is_over(**at, item)).map(|(at, _)| *at).collect();
        for at in over {
            self.remove(at);
        }
    }

    /// Removes an answered request. Returns its effect and the connection on which it was sent first. Earlier
    /// notifications on the same connection have arrived too, because delivery is in order.
    pub(super) fn answered(&mut self, id: &RequestId<'_>) -> Option<(Opens, Option<u64>)> {
        let at = *self.requests.get(Side::Client, id)?;
        let PendingMessage { about: PendingKind::Request { id, opens }, sent_on, first_on, .. } =
            self.remove(at)?
        else {
            return None;
        };
        // Requests stay, even if they were sent earlier: their own responses may have been lost with another
        // stream.
        self.remove_if(|before, item| match &item.about {
            PendingKind::Request { .. } => false,
            PendingKind::CancelsRequest { id: cancelled } if *cancelled == id => true,
            PendingKind::CancelsRequest { .. } | PendingKind::CancelsSession { .. } | PendingKind::Other => {
                before < at && item.sent_on == sent_on
            }
        });
        Some((opens, first_on))
    }

    /// Drops cancellations of an idle session.
    pub(super) fn is_idle(&mut self, session: &str) {
        self.remove_if(|_, item| {
            // A cancellation that was never sent is for a turn that the server has not started; it must still
            // be sent.
            item.sent_on.is_some()
                && matches!(&item.about, PendingKind::CancelsSession { session: known } if known == session)
        });
    }

    /// Returns whether a cancellation of a session may not have arrived.
    pub(super) fn cancels(&self, session: &str) -> bool {
        self.notifications > 0
            && self.items.values().any(
                |item| matches!(&item.about, PendingKind::CancelsSession { session: known } if known == session),
            )
    }

    /// Returns all messages in order, for resending.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PendingMessage> {
        self.items.values_mut()
    }

    /// Returns all messages in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingMessage> {
        self.items.values()
    }

    /// Removes all messages and returns the ids of the pending requests, which will not be answered.
    pub(super) fn take_requests(&mut self) -> Vec<RequestId<'static>> {
        let requests = self.requests.drain_of(Side::Client).into_iter().map(|request| request.id).collect();
        *self = Pending::default();
        requests
    }

    /// Returns whether every request is answered.
    pub(super) fn has_no_requests(&self) -> bool {
        self.requests.is_empty()
    }
}
