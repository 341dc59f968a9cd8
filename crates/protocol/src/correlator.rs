//! Which request an answer belongs to.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::rpc::RequestId;
use crate::{Side, Wire};

/// Requests without an answer yet, with what their owner wants to know when the answer comes.
///
/// Each side counts its own ids, so a request is known by who asked and its id. There is a limit, because a peer that
/// asks without end, or never answers, must not fill the memory: [`open`](Correlator::open) refuses what is too much,
/// [`open_or_evict`](Correlator::open_or_evict) gives the oldest back instead.
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
    /// The keys in the order in which they were asked.
    order: BTreeMap<u64, Key>,
}

type Key = (Side, RequestId<'static>);

#[derive(Clone)]
struct Open<P> {
    number: u64,
    about: P,
}

/// Too many requests are open: this one was not taken. Holds what it was about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooManyOpen<P> {
    /// How many may be open.
    pub limit: usize,
    /// What the request was about.
    pub about: P,
}

impl<P> fmt::Display for TooManyOpen<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} requests are open already", self.limit)
    }
}

impl<P: fmt::Debug> std::error::Error for TooManyOpen<P> {}

/// A request that is open no more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenRequest<P> {
    /// Who asked.
    pub asker: Side,
    /// Its id.
    pub id: RequestId<'static>,
    /// What it was about.
    pub about: P,
}

impl<P> Correlator<P> {
    /// No open requests, of which there may be `limit`.
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

    /// A request was made. Gives what the request of the same id was about that is open already, if there is one: it
    /// will not be answered any more. One too many is refused.
    pub fn open(&mut self, asker: Side, id: &RequestId<'_>, about: P) -> Result<Option<P>, TooManyOpen<P>> {
        let key = (asker, id.clone().into_owned());
        if self.open.len() >= self.limit && !self.open.contains_key(&key) {
            return Err(TooManyOpen { limit: self.limit, about });
        }
        Ok(self.insert(key, about))
    }

    /// A request was made. Gives the request that is forgotten for it: the one of the same id, or, where there are too
    /// many, the oldest.
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

    /// Takes out the request that was made first.
    pub fn pop_oldest(&mut self) -> Option<OpenRequest<P>> {
        let (_, key) = self.order.pop_first()?;
        let about = self.open.remove(&key)?.about;
        Some(OpenRequest { asker: key.0, id: key.1, about })
    }

    /// An answer came: what its request was about, which is closed thereby. `answerer` is who answers; the other side
    /// had asked.
    pub fn answered(&mut self, answerer: Side, id: &RequestId<'_>) -> Option<P> {
        self.close(answerer.other(), id)
    }

    /// Closes a request, told by who made it.
    pub fn close(&mut self, asker: Side, id: &RequestId<'_>) -> Option<P> {
        self.remove(&(asker, id.clone().into_owned()))
    }

    /// What an open request is about.
    pub fn get(&self, asker: Side, id: &RequestId<'_>) -> Option<&P> {
        self.open.get(&(asker, id.clone().into_owned())).map(|open| &open.about)
    }

    /// What an open request is about, to be changed.
    pub fn get_mut(&mut self, asker: Side, id: &RequestId<'_>) -> Option<&mut P> {
        self.open.get_mut(&(asker, id.clone().into_owned())).map(|open| &mut open.about)
    }

    /// Whether a request is open.
    pub fn contains(&self, asker: Side, id: &RequestId<'_>) -> bool {
        self.get(asker, id).is_some()
    }

    /// All open requests in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = (Side, &RequestId<'static>, &P)> {
        self.order.values().filter_map(|key| Some((key.0, &key.1, &self.open.get(key)?.about)))
    }

    /// Takes out all requests of a side, in the order in which they were made.
    pub fn drain_of(&mut self, asker: Side) -> Vec<OpenRequest<P>> {
        self.drain_if(|side, _, _| side == asker)
    }

    /// Takes out the requests that meet a condition, in the order in which they were made.
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

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How many may be open.
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
        // Used again, it is the newest.
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
