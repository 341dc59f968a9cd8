//! Events and outputs that involve other hubs of the cluster.

use std::sync::Arc;

use super::{Event, Service};
use crate::core::{Output, Ownership, SessionId};
use crate::log::{ClusterEvent, Prepared, SessionLog, blocking, load};

/// Maximum number of reply addresses of other hubs.
const INBOXES: usize = 10_000;

impl Service {
    /// Checks for sessions that other hubs have taken over, and for hubs that have appeared or disappeared.
    pub(super) fn poll_cluster(&mut self, log: &mut dyn SessionLog) {
        for (session, reason) in log.take_lost() {
            self.core.log_failed(&session, &reason);
        }
        self.core.set_hubs(log.hubs());
    }

    /// Passes an event of another hub to the core.
    pub(super) fn handle_cluster_event(&mut self, news: ClusterEvent) {
        match news {
            ClusterEvent::Records { session, hub, records } => {
                let records: Vec<_> = records
                    .into_iter()
                    .map(|record| {
                        let text = String::from_utf8(record.bytes).unwrap_or_default();
                        (record.sequence, record.channel, Arc::<str>::from(text))
                    })
                    .collect();
                self.core.follow_records(&session, &hub, &records);
            }
            ClusterEvent::SessionCreated(known) => self.core.add_session(known),
            ClusterEvent::Request { key, inbox, message } => {
                if self.inboxes.len() >= INBOXES {
                    // A hub without a reply sends its request again.
                    self.inboxes.clear();
                }
                self.inboxes.insert(key.clone(), inbox);
                self.core.receive_forwarded(&key, &message);
            }
        }
    }

    /// Performs an output that involves other hubs.
    pub(super) fn perform_in_cluster(&mut self, output: Output, log: &mut dyn SessionLog) {
        match output {
            Output::Acquire { session } => {
                let store = self.store.clone();
                let prepared = log.prepare(&session);
                self.spawn_task(async move {
                    let owned = match prepared.await {
                        Ok(Prepared::Owned) => {
                            let at = SessionId::clone(&session);
                            let loaded = blocking(move || load(&store, &at)).await;
                            loaded.map(|(state, length)| Ownership::Acquired(Box::new(state), length))
                        }
                        Ok(Prepared::OwnedBy(hub)) => Ok(Ownership::HeldBy(hub)),
                        Err(reason) => Err(reason),
                    };
                    Event::OwnershipKnown { session, owned: Box::new(owned) }
                });
            }
            Output::Release { session } => drop(tokio::spawn(log.release(&session))),
            Output::Forward { hub, ticket, message } => {
                let passed = log.forward(&hub, ticket, &message);
                self.spawn_task(async move { Event::ForwardAnswered { ticket, reply: passed.await } });
            }
            Output::ForwardReply { key, session: _, text } => {
                if let Some(inbox) = self.inboxes.remove(&key) {
                    tokio::spawn(log.answer(inbox, text));
                }
            }
            _ => {}
        }
    }
}
