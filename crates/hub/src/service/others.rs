//! What the hub does because of other hubs that share its log.

use std::sync::Arc;

use super::{Event, Service};
use crate::core::{Output, Owned, SessionId};
use crate::log::{News, Prepared, SessionLog, blocking, load};

/// How many places for answers to other hubs are known.
const INBOXES: usize = 10_000;

impl Service {
    /// Looks which sessions other hubs have taken, and which hubs there are.
    pub(super) fn look_at_others(&mut self, log: &mut dyn SessionLog) {
        for (session, reason) in log.lost() {
            self.core.log_failed(&session, &reason);
        }
        self.core.hubs_are(log.hubs());
    }

    /// Tells the core what another hub does.
    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Records { session, hub, records } => {
                let records: Vec<_> = records
                    .into_iter()
                    .map(|record| {
                        let text = String::from_utf8(record.bytes).unwrap_or_default();
                        (record.sequence, record.channel, Arc::<str>::from(text))
                    })
                    .collect();
                self.core.followed(&session, &hub, &records);
            }
            News::Began(known) => self.core.know(known),
            News::Asked { key, inbox, message } => {
                if self.inboxes.len() >= INBOXES {
                    // Who waits for an answer asks again.
                    self.inboxes.clear();
                }
                self.inboxes.insert(key.clone(), inbox);
                self.core.asked_by_hub(&key, &message);
            }
        }
    }

    /// Does what concerns other hubs.
    pub(super) fn act_among_hubs(&mut self, output: Output, log: &mut dyn SessionLog) {
        match output {
            Output::Own { session } => {
                let store = self.store.clone();
                let prepared = log.prepare(&session);
                self.aside(async move {
                    let owned = match prepared.await {
                        Ok(Prepared::Here) => {
                            let at = SessionId::clone(&session);
                            let loaded = blocking(move || load(&store, &at)).await;
                            loaded.map(|(memory, length)| Owned::Here(Box::new(memory), length))
                        }
                        Ok(Prepared::There(hub)) => Ok(Owned::There(hub)),
                        Err(reason) => Err(reason),
                    };
                    Event::Owned { session, owned: Box::new(owned) }
                });
            }
            Output::Release { session } => drop(tokio::spawn(log.release(&session))),
            Output::PassOn { hub, ticket, message } => {
                let passed = log.pass_on(&hub, ticket, &message);
                self.aside(async move { Event::Passed { ticket, reply: passed.await } });
            }
            Output::Answer { key, session: _, text } => {
                if let Some(inbox) = self.inboxes.remove(&key) {
                    tokio::spawn(log.answer(inbox, text));
                }
            }
            _ => {}
        }
    }
}
