//! Pending requests in each direction. No I/O: the data per request is a type parameter.

use std::collections::{HashMap, HashSet, VecDeque};

use switchboard_acp::rpc::RequestId;

/// The pending requests of one connection: those that this side sent and those that it must answer. The
/// directions have separate ids, so both sides may count from the same number.
///
/// ```
/// use switchboard_transport::{Match, RequestTable};
///
/// let mut table = RequestTable::<&str, ()>::new(16, 16);
/// let id = table.outgoing.begin("session/new").unwrap();
/// assert_eq!(table.outgoing.answer(&id), Match::Waiting("session/new"));
/// assert_eq!(table.outgoing.answer(&id), Match::Second);
/// assert_eq!(table.outgoing.answer(&99.into()), Match::NeverAsked);
/// ```
#[derive(Debug)]
pub struct RequestTable<Waiter, Open> {
    /// Requests that this side sent.
    pub outgoing: OutgoingRequests<Waiter>,
    /// Requests that the peer sent.
    pub incoming: IncomingRequests<Open>,
}

impl<Waiter, Open> RequestTable<Waiter, Open> {
    /// Creates an empty table with a limit for each direction.
    pub fn new(outgoing_limit: usize, incoming_limit: usize) -> Self {
        RequestTable {
            outgoing: OutgoingRequests {
                next: 1,
                limit: outgoing_limit,
                waiting: HashMap::new(),
                abandoned: Abandoned::default(),
            },
            incoming: IncomingRequests { limit: incoming_limit, open: HashMap::new() },
        }
    }
}

/// Pending requests that this side sent.
#[derive(Debug)]
pub struct OutgoingRequests<Waiter> {
    next: i64,
    limit: usize,
    waiting: HashMap<i64, Waiter>,
    abandoned: Abandoned,
}

/// Result of matching a response with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match<Waiter> {
    /// A pending request.
    Waiting(Waiter),
    /// A request that was abandoned.
    Late,
    /// A request that was already answered, or abandoned long ago.
    Second,
    /// Not a request of this side.
    NeverAsked,
}

impl<Waiter> OutgoingRequests<Waiter> {
    /// Registers a request under a new, unique id. Returns the waiter if too many requests are pending.
    pub fn begin(&mut self, waiter: Waiter) -> Result<RequestId<'static>, Waiter> {
        if self.waiting.len() >= self.limit {
            return Err(waiter);
        }
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id, waiter);
        Ok(RequestId::Number(id))
    }

    /// Closes the request that a response belongs to.
    pub fn answer(&mut self, id: &RequestId<'_>) -> Match<Waiter> {
        let RequestId::Number(number) = *id else { return Match::NeverAsked };
        match self.waiting.remove(&number) {
            Some(waiter) => Match::Waiting(waiter),
            None if self.abandoned.remove(number) => Match::Late,
            None if (1..self.next).contains(&number) => Match::Second,
            None => Match::NeverAsked,
        }
    }

    /// Closes a request whose response is no longer wanted. Its id is remembered for a while, so that a late
    /// response is recognized.
    pub fn abandon(&mut self, id: &RequestId<'_>) -> Option<Waiter> {
        let RequestId::Number(number) = *id else { return None };
        let waiter = self.waiting.remove(&number)?;
        self.abandoned.insert(number);
        Some(waiter)
    }

    /// Closes all requests.
    pub fn drain(&mut self) -> impl Iterator<Item = Waiter> {
        self.waiting.drain().map(|(_, waiter)| waiter)
    }

    /// Returns the number of pending requests.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if no request is pending.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// The most recently abandoned ids.
#[derive(Debug, Default)]
struct Abandoned {
    order: VecDeque<i64>,
    ids: HashSet<i64>,
}

impl Abandoned {
    const KEPT: usize = 1024;

    fn insert(&mut self, id: i64) {
        if self.order.len() == Self::KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        self.order.push_back(id);
        self.ids.insert(id);
    }

    /// The entry in `order` stays until it is evicted, which is safe because ids are not reused.
    fn remove(&mut self, id: i64) -> bool {
        self.ids.remove(&id)
    }
}

/// Pending requests that the peer sent.
#[derive(Debug)]
pub struct IncomingRequests<Open> {
    limit: usize,
    open: HashMap<RequestId<'static>, Open>,
}

/// Reason why a request of the peer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestRefusal {
    /// Another request with this id is pending.
    #[error("the id is in use by a pending request")]
    IdInUse,
    /// This many requests are already pending.
    #[error("{0} requests are already pending")]
    TooMany(usize),
}

impl<Open> IncomingRequests<Open> {
    /// Registers a request of the peer. Fails if its id is in use or too many are pending.
    pub fn open(&mut self, id: RequestId<'static>, open: Open) -> Result<(), RequestRefusal> {
        if self.open.contains_key(&id) {
            return Err(RequestRefusal::IdInUse);
        }
        if self.open.len() >= self.limit {
            return Err(RequestRefusal::TooMany(self.limit));
        }
        self.open.insert(id, open);
        Ok(())
    }

    /// Returns the pending request with this id, for example to cancel it.
    pub fn get(&self, id: &RequestId<'static>) -> Option<&Open> {
        self.open.get(id)
    }

    /// Closes a request that has been answered.
    pub fn close(&mut self, id: &RequestId<'static>) -> Option<Open> {
        self.open.remove(id)
    }

    /// Returns the number of pending requests.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns true if no request is pending.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> RequestTable<u8, char> {
        RequestTable::new(2, 2)
    }

    #[test]
    fn answers_find_their_requests_in_any_order() {
        let mut outgoing = table().outgoing;
        let first = outgoing.begin(1).unwrap();
        let second = outgoing.begin(2).unwrap();
        assert_eq!(outgoing.begin(3), Err(3));
        assert_eq!(outgoing.answer(&second), Match::Waiting(2));
        assert_eq!(outgoing.answer(&first), Match::Waiting(1));
        assert!(outgoing.is_empty());
    }

    #[test]
    fn late_second_and_foreign_answers_are_told_apart() {
        let mut outgoing = table().outgoing;
        let id = outgoing.begin(1).unwrap();
        assert_eq!(outgoing.abandon(&id), Some(1));
        assert_eq!(outgoing.answer(&id), Match::Late);
        assert_eq!(outgoing.answer(&id), Match::Second);
        assert_eq!(outgoing.answer(&0.into()), Match::NeverAsked);
        assert_eq!(outgoing.answer(&2.into()), Match::NeverAsked);
        assert_eq!(outgoing.answer(&RequestId::Text("1".into())), Match::NeverAsked);
        assert_eq!(outgoing.answer(&RequestId::Null), Match::NeverAsked);
    }

    #[test]
    fn only_so_many_abandoned_requests_are_remembered() {
        let mut outgoing = table().outgoing;
        for _ in 0..5000 {
            let id = outgoing.begin(0).unwrap();
            outgoing.abandon(&id);
        }
        assert_eq!(outgoing.abandoned.ids.len(), Abandoned::KEPT);
        assert_eq!(outgoing.answer(&5000.into()), Match::Late);
        assert_eq!(outgoing.answer(&1.into()), Match::Second);
    }

    #[test]
    fn an_id_of_the_peer_is_refused_while_it_is_open_and_taken_again_after() {
        let mut incoming = table().incoming;
        let id = RequestId::Number(1);
        assert_eq!(incoming.open(id.clone(), 'a'), Ok(()));
        assert_eq!(incoming.open(id.clone(), 'b'), Err(RequestRefusal::IdInUse));
        assert_eq!(incoming.close(&id), Some('a'));
        assert_eq!(incoming.open(id, 'b'), Ok(()));
        assert_eq!(incoming.open(RequestId::Text("1".into()), 'c'), Ok(()));
        assert_eq!(incoming.open(RequestId::Number(2), 'd'), Err(RequestRefusal::TooMany(2)));
    }
}
