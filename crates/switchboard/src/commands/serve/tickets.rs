//! Tickets: one-time credentials that let a page of another server open one WebSocket.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use switchboard_hub::Identity;

/// Time for which a ticket is valid.
pub(super) const VALIDITY: Duration = Duration::from_secs(60);
/// Maximum number of tickets. Above it, no more are given out.
const MAX_TICKETS: usize = 1000;

/// A ticket's conditions.
struct Ticket {
    who: Identity,
    agent: String,
    origin: String,
    made: Instant,
}

/// Tickets of this launch, by their hashes.
#[derive(Default)]
pub(super) struct Tickets(Mutex<HashMap<[u8; 32], Ticket>>);

fn hash(ticket: &str) -> [u8; 32] {
    Sha256::digest(ticket.as_bytes()).into()
}

impl Tickets {
    /// Creates a ticket for one connection from an origin to an agent. `None` if there are too many.
    pub(super) fn create(
        &self,
        who: Identity,
        agent: &str,
        origin: &str,
        now: Instant,
    ) -> Result<Option<String>, getrandom::Error> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        let text = URL_SAFE_NO_PAD.encode(random);
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.retain(|_, ticket| now.saturating_duration_since(ticket.made) < VALIDITY);
        if tickets.len() >= MAX_TICKETS {
            return Ok(None);
        }
        let (agent, origin) = (agent.to_owned(), origin.to_owned());
        tickets.insert(hash(&text), Ticket { who, agent, origin, made: now });
        Ok(Some(text))
    }

    /// Takes a ticket, which is then used up, even if a condition is not met.
    pub(super) fn redeem(&self, text: &str, agent: &str, origin: &str, now: Instant) -> Option<Identity> {
        let ticket = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash(text))?;
        let is_valid = now.saturating_duration_since(ticket.made) < VALIDITY
            && ticket.agent == agent
            && ticket.origin == origin;
        is_valid.then_some(ticket.who)
    }
}

#[cfg(test)]
mod tests {
    use switchboard_store::Role;

    use super::*;

    const ORIGIN: &str = "http://localhost:2718";

    fn who() -> Identity {
        Identity { name: "anna".into(), role: Role::Use, all: false, made: 7 }
    }

    #[test]
    fn a_ticket_works_once_in_time_from_its_origin_for_its_agent() {
        let (tickets, now) = (Tickets::default(), Instant::now());
        let create = || tickets.create(who(), "claude", ORIGIN, now).unwrap().unwrap();
        let ticket = create();
        assert_eq!(ticket.len(), 22, "128 bits");
        assert_eq!(tickets.redeem(&ticket, "claude", ORIGIN, now), Some(who()));
        assert_eq!(tickets.redeem(&ticket, "claude", ORIGIN, now), None, "the second time");
        assert_eq!(tickets.redeem(&create(), "codex", ORIGIN, now), None);
        assert_eq!(tickets.redeem(&create(), "claude", "http://localhost:2719", now), None);
        assert_eq!(tickets.redeem(&create(), "claude", ORIGIN, now + VALIDITY), None, "late");
        assert_eq!(tickets.redeem("", "claude", ORIGIN, now), None);
        let wrong = create();
        assert_eq!(tickets.redeem(&wrong, "codex", ORIGIN, now), None);
        assert_eq!(tickets.redeem(&wrong, "claude", ORIGIN, now), None, "a wrong use uses it up");
    }

    #[test]
    fn the_number_of_tickets_is_limited_and_old_ones_make_room() {
        let (tickets, now) = (Tickets::default(), Instant::now());
        for _ in 0..MAX_TICKETS {
            assert!(tickets.create(who(), "a", ORIGIN, now).unwrap().is_some());
        }
        assert!(tickets.create(who(), "a", ORIGIN, now).unwrap().is_none());
        assert!(tickets.create(who(), "a", ORIGIN, now + VALIDITY).unwrap().is_some());
    }
}
