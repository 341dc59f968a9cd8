//! Matches responses with requests.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::rpc::RequestId;
use crate::{Side, Wire};

/// Pending requests, each with data for the time when the response arrives.
///
/// Each side counts its own ids, so a request is identified by its sender and id. The number is limited,
/// because a peer that sends requests endlessly, or never responds, must not exhaust memory:
/// [`open`](Correlator::open) refuses further requests, [`open_or_evict`](Correlator::open_or_evict) evicts
/// the oldest instead.
///
/// ```
/// use switchboard_acp::{Correlator, Side};
///
/// let mut open = Correlator::new(100);
/// open.open(Side::Client, &1.into(), "session/new").unwrap();
/// open.open(Side::Agent, &1.into(), "session/request_permission").unwrap();
/// // The client answers, so the agent had asked.
/// assert_eq!(open.answered(Side::Client, &1.into()), Some("session/request_permission"));
/// assert_eq!(open.answered(Side::Client, &1.into()), None);
/// assert_eq!(open.get(Side::Client, &1.into()), Some(&"session/new"));
/// ```
#[derive(Clone)]
pub struct Correlator<P> {
    limit: usize,
    next: u64,
    open: HashMap<Key, Open<P>>,
    /// Keys in order of the requests.
    order: BTreeMap<u64, Key>,
}

type Key = (Side, RequestId<'static>);

#[derive(Clone)]
struct Open<P> {
    number: u64,
    about: P,
}

/// Error: too many requests are pending. Contains the data of the refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooManyOpen<P> {
    /// Maximum number of pending requests.
    pub limit: usize,
    /// Data of the request.
    pub about: P,
}

impl<P> fmt::Display for TooManyOpen<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} requests are open already", self.limit)
    }
}

impl<P: fmt::Debug> std::error::Error for TooManyOpen<P> {}

/// A request that is no longer pending.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenRequest<P> {
    /// Side that sent the request.
    pub asker: Side,
    /// Request id.
    pub id: RequestId<'static>,
    /// Data of the request.
    pub about: P,
}

impl<P> Correlator<P> {
    /// Creates an empty correlator for up to `limit` requests.
    pub fn new(limit: usize) -> Self {
        Correlator { limit, next: 0, open: HashMap::new(), order: BTreeMap::new() }
    }

    fn insert(&mut self, key: Key, about: P) -> Option<P> {
        let number = self.next;
        self.next += 1;
        self.order.insert(number, key.clone());
        let before = self.open.insert(key, Open { number, about })?;
        self.order.remove(&before.number);
        Some(before.about)
    }

    fn remove(&mut self, key: &Key) -> Option<P> {
        let open = self.open.remove(key)?;
        self.order.remove(&open.number);
        Some(open.about)
    }

    /// Registers a request. Returns the data of a pending request with the same id, which will not be
    /// answered any more. Fails if too many are pending.
    pub fn open(&mut self, asker: Side, id: &RequestId<'_>, about: P) -> Result<Option<P>, TooManyOpen<P>> {
        let key = (asker, id.clone().into_owned());
        if self.open.len() >= self.limit && !self.open.contains_key(&key) {
            return Err(TooManyOpen { limit: self.limit, about });
        }
        Ok(self.insert(key, about))
    }

    /// Registers a request. Returns the evicted request: one with the same id or, if too many are pending,
    /// the oldest.
    pub fn open_or_evict(&mut self, asker: Side, id: &RequestId<'_>, about: P) -> Option<OpenRequest<P>> {
        let key = (asker, id.clone().into_owned());
        let mut evicted = None;
        if self.open.len() >= self.limit && !self.open.contains_key(&key) {
            evicted = self.pop_oldest();
        }
        if self.limit == 0 {
            return Some(OpenRequest { asker, id: key.1, about });
        }
        let id = key.1.clone();
        self.insert(key, about).map(|about| OpenRequest { asker, id, about }).or(evicted)
    }

    /// Removes the oldest request.
    pub fn pop_oldest(&mut self) -> Option<OpenRequest<P>> {
        let (_, key) = self.order.pop_first()?;
        let about = self.open.remove(&key)?.about;
        Some(OpenRequest { asker: key.0, id: key.1, about })
    }

    /// Closes the request that a response belongs to, and returns its data. `answerer` is the side that
    /// responds; the other side sent the request.
    pub fn answered(&mut self, answerer: Side, id: &RequestId<'_>) -> Option<P> {
        self.close(answerer.other(), id)
    }

    /// Closes a request by its sender and id.
    pub fn close(&mut self, asker: Side, id: &RequestId<'_>) -> Option<P> {
        self.remove(&(asker, id.clone().into_owned()))
    }

    /// Returns the data of a pending request.
    pub fn get(&self, asker: Side, id: &RequestId<'_>) -> Option<&P> {
        self.open.get(&(asker, id.clone().into_owned())).map(|open| &open.about)
    }

    /// Returns the mutable data of a pending request.
    pub fn get_mut(&mut self, asker: Side, id: &RequestId<'_>) -> Option<&mut P> {
        self.open.get_mut(&(asker, id.clone().into_owned())).map(|open| &mut open.about)
    }

    /// Returns true if a request is pending.
    pub fn contains(&self, asker: Side, id: &RequestId<'_>) -> bool {
        self.get(asker, id).is_some()
    }

    /// Returns all pending requests in order.
    pub fn iter(&self) -> impl Iterator<Item = (Side, &RequestId<'static>, &P)> {
        self.order.values().filter_map(|key| Some((key.0, &key.1, &self.open.get(key)?.about)))
    }

    /// Removes all requests of a side, in order.
    pub fn drain_of(&mut self, asker: Side) -> Vec<OpenRequest<P>> {
        self.drain_if(|side, _, _| side == asker)
    }

    /// Removes the requests that meet a condition, in order.
    pub fn drain_if(
        &mut self,
        mut wanted: impl FnMut(Side, &RequestId<'static>, &P) -> bool,
    ) -> Vec<OpenRequest<P>> {
        let keys: Vec<Key> = self
            .iter()
            .filter(|(asker, id, about)| wanted(*asker, id, about))
            .map(|(asker, id, _)| (asker, id.clone()))
            .collect();
        let taken = keys.into_iter().filter_map(|key| {
            let about = self.remove(&key)?;
            Some(OpenRequest { asker: key.0, id: key.1, about })
        });
        taken.collect()
    }

    /// Returns the number of pending requests.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns true if no request is pending.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the maximum number of pending requests.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

impl<P: fmt::Debug> fmt::Debug for Correlator<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: i64) -> RequestId<'static> {
        number.into()
    }

    #[test]
    fn an_answer_closes_its_request_and_no_other() {
        let mut open = Correlator::new(10);
        for (asker, id, about) in [
            (Side::Client, id(1), 'a'),
            (Side::Agent, id(1), 'b'),
            (Side::Client, RequestId::Text("1".into()), 'c'),
        ] {
            assert_eq!(open.open(asker, &id, about), Ok(None));
        }
        assert_eq!(open.answered(Side::Agent, &RequestId::Text("1".into())), Some('c'));
        assert_eq!(open.answered(Side::Client, &id(1)), Some('b'));
        assert_eq!(open.answered(Side::Client, &id(1)), None);
        assert_eq!((open.len(), open.get(Side::Client, &id(1))), (1, Some(&'a')));
    }

    #[test]
    fn an_id_in_use_gives_its_older_request_back_even_at_the_limit() {
        let mut open = Correlator::new(1);
        assert_eq!(open.open(Side::Client, &id(1), 'a'), Ok(None));
        assert_eq!(open.open(Side::Client, &id(1), 'b'), Ok(Some('a')));
        assert_eq!(open.open(Side::Client, &id(2), 'c'), Err(TooManyOpen { limit: 1, about: 'c' }));
        assert_eq!(open.answered(Side::Agent, &id(1)), Some('b'));
        assert!(open.is_empty() && open.order.is_empty());
    }

    #[test]
    fn the_oldest_makes_room_where_that_is_wanted() {
        let mut open = Correlator::new(2);
        for number in 1..=2 {
            assert_eq!(open.open_or_evict(Side::Client, &id(number), number), None);
        }
        // A reused id is the newest.
        assert!(open.open_or_evict(Side::Client, &id(1), 10).is_some_and(|old| old.about == 1));
        let evicted = open.open_or_evict(Side::Agent, &id(1), 3);
        assert_eq!(evicted, Some(OpenRequest { asker: Side::Client, id: id(2), about: 2 }));
        let left: Vec<_> = open.iter().map(|(_, _, about)| *about).collect();
        assert_eq!(left, [10, 3]);
        let nothing = Correlator::new(0).open_or_evict(Side::Agent, &id(1), 3);
        assert!(nothing.is_some_and(|refused| refused.about == 3));
    }

    #[test]
    fn requests_are_taken_out_in_their_order() {
        let mut open = Correlator::new(10);
        for number in [5, 3, 4] {
            open.open(Side::Client, &id(number), number).unwrap();
            open.open(Side::Agent, &id(number), -number).unwrap();
        }
        let of_client: Vec<_> = open.drain_of(Side::Client).into_iter().map(|open| open.about).collect();
        assert_eq!(of_client, [5, 3, 4]);
        assert_eq!(open.drain_if(|_, _, about| *about == -3).len(), 1);
        assert_eq!(open.pop_oldest().map(|open| open.about), Some(-5));
        assert_eq!((open.len(), open.order.len()), (1, 1));
    }
}
