//! What the client said and the server may not have heard.

use std::collections::BTreeMap;

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Correlator, Raw, Side};

/// How many requests may be without an answer.
const REQUESTS: usize = 16 * 1024;

/// How many notifications are kept for the case that they were lost on their way.
const NOTIFICATIONS: usize = 1024;

/// Requests without an answer, and notifications of which nothing shows that they arrived, in their order.
#[derive(Debug)]
pub(super) struct Pending {
    items: BTreeMap<u64, Item>,
    requests: Correlator<u64>,
    next: u64,
    bytes: usize,
    notifications: usize,
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) line: String,
    pub(super) about: About,
    /// What was sent last in the place of the line.
    pub(super) instead: Option<String>,
    /// The link that it was sent on last.
    pub(super) sent_on: Option<u64>,
    /// The link that it was sent on first.
    pub(super) first_on: Option<u64>,
}

/// What an answer to a request means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opens {
    /// Nothing for what is remembered.
    Nothing,
    /// A new session, opened with these parameters. One that begins as another goes on is not empty.
    New { params: Raw<'static>, is_empty: bool },
    /// A session that is there already.
    Known { method: &'static str, session: String, params: Raw<'static> },
    /// The end of a session, for this client at least.
    End { session: String },
}

#[derive(Debug)]
pub(super) enum About {
    Request {
        id: RequestId<'static>,
        opens: Opens,
    },
    /// Takes a request back.
    TakesBack {
        id: RequestId<'static>,
    },
    /// Ends the work in a session.
    Cancels {
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
    /// How many bytes wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds something that the client said, sent on a link or not yet. Whether there was room for it.
    pub(super) fn push(&mut self, line: &str, about: About, sent_on: Option<u64>) -> bool {
        if let About::Request { id, .. } = &about {
            if self.requests.contains(Side::Client, id)
                || self.requests.open(Side::Client, id, self.next).is_err()
            {
                return false;
            }
        } else {
            self.notifications += 1;
            if self.notifications > NOTIFICATIONS {
                let is_notification = |item: &Item| !matches!(item.about, About::Request { .. });
                let oldest = self.items.iter().find(|(_, item)| is_notification(item)).map(|(at, _)| *at);
                oldest.map(|at| self.remove(at));
            }
        }
        self.bytes += line.len();
        self.items.insert(
            self.next,
            Item { line: line.to_owned(), about, instead: None, sent_on, first_on: sent_on },
        );
        self.next += 1;
        true
    }

    fn remove(&mut self, at: u64) -> Option<Item> {
        let item = self.items.remove(&at)?;
        self.bytes -= item.line.len();
        match &item.about {
            About::Request { id, .. } => {
                self.requests.close(Side::Client, id);
            }
            About::TakesBack { .. } | About::Cancels { .. } | About::Other => self.notifications -= 1,
        }
        Some(item)
    }

    fn remove_if(&mut self, mut is_over: impl FnMut(u64, &Item) -> bool) {
        if self.notifications == 0 {
            return;
        }
        let over: Vec<u64> =
            self.items.iter().filter(|(at, item)| is_over(**at, item)).map(|(at, _)| *at).collect();
        for at in over {
            self.remove(at);
        }
    }

    /// A request is answered: what it was about, if it was open, and the link that it was sent on first. Notifications that went before it on the same link have
    /// arrived, for there everything arrives in its order.
    pub(super) fn answered(&mut self, id: &RequestId<'_>) -> Option<(Opens, Option<u64>)> {
        let at = *self.requests.get(Side::Client, id)?;
        let Item { about: About::Request { id, opens }, sent_on, first_on, .. } = self.remove(at)? else {
            return None;
        };
        self.remove_if(|before, item| match &item.about {
            About::Request { .. } => false,
            About::TakesBack { id: taken_back } if *taken_back == id => true,
            About::TakesBack { .. } | About::Cancels { .. } | About::Other => {
                before < at && item.sent_on == sent_on
            }
        });
        Some((opens, first_on))
    }

    /// There is no work in a session: nothing is left to cancel there.
    pub(super) fn is_idle(&mut self, session: &str) {
        self.remove_if(|_, item| {
            item.sent_on.is_some()
                && matches!(&item.about, About::Cancels { session: known } if known == session)
        });
    }

    /// Whether a cancellation of work in a session may not have arrived.
    pub(super) fn cancels(&self, session: &str) -> bool {
        self.notifications > 0
            && self
                .items
                .values()
                .any(|item| matches!(&item.about, About::Cancels { session: known } if known == session))
    }

    /// Everything in its order, to be sent again.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Item> {
        self.items.values_mut()
    }

    /// Everything in its order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Item> {
        self.items.values()
    }

    /// The ids of the requests, which will not be answered any more.
    pub(super) fn take_requests(&mut self) -> Vec<RequestId<'static>> {
        let requests = self.requests.drain_of(Side::Client).into_iter().map(|request| request.id).collect();
        *self = Pending::default();
        requests
    }

    /// Whether every request is answered.
    pub(super) fn has_no_requests(&self) -> bool {
        self.requests.is_empty()
    }
}
