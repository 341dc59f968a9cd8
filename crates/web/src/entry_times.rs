//! Times at which the entries of sessions changed, and the places in the transcript of events that are not entries.

use std::collections::{HashMap, VecDeque};

use switchboard_session::{Change, Changes, Session};

/// Maximum number of notices whose places are kept. The session keeps as many notices.
const MOST_NOTICES: usize = 100;

/// Times of the first and the last change of an entry, in Unix milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// Cost of a session at a length of its transcript.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CostAt {
    length: usize,
    pub(crate) amount: f64,
    pub(crate) currency: String,
}

/// Times of all entries, by session and position.
#[derive(Debug, Default)]
pub(crate) struct EntryTimes {
    sessions: HashMap<Box<str>, SessionTimes>,
}

#[derive(Debug, Default)]
struct SessionTimes {
    entries: Vec<Times>,
    /// Ordered by length, at most one for each.
    costs: Vec<CostAt>,
    /// Length of the transcript at each of the latest notices.
    notices: VecDeque<usize>,
}

impl EntryTimes {
    /// Records the changes of a session at a time. `session` returns its state after them.
    pub(crate) fn note<'s>(
        &mut self,
        id: &str,
        changes: &Changes,
        session: impl Fn() -> Option<&'s Session>,
        time: i64,
    ) {
        if !self.sessions.contains_key(id) {
            self.sessions.insert(id.into(), SessionTimes::default());
        }
        let Some(times) = self.sessions.get_mut(id) else { return };
        for change in changes.iter() {
            match change {
                Change::Entry(entry) => {
                    while times.entries.len() <= entry.position {
                        times.entries.push(Times { first: time, last: time });
                    }
                    times.entries[entry.position].last = time;
                }
                Change::Usage => times.note_cost(session()),
                Change::Notice => {
                    if times.notices.len() == MOST_NOTICES {
                        times.notices.pop_front();
                    }
                    times.notices.push_back(times.entries.len());
                }
                Change::Replayed => *times = SessionTimes::default(),
                _ => {}
            }
        }
    }

    /// Returns the times of an entry.
    pub(crate) fn of(&self, session: &str, position: usize) -> Times {
        self.sessions.get(session).and_then(|times| times.entries.get(position)).copied().unwrap_or_default()
    }

    /// Returns the cost when a transcript had at most a number of entries.
    pub(crate) fn cost(&self, session: &str, length: usize) -> Option<&CostAt> {
        let costs = &self.sessions.get(session)?.costs;
        costs[..costs.partition_point(|cost| cost.length <= length)].last()
    }

    /// Returns the lengths of the transcript at the latest notices.
    pub(crate) fn notices(&self, session: &str) -> Vec<usize> {
        self.sessions.get(session).map(|times| times.notices.iter().copied().collect()).unwrap_or_default()
    }
}

impl SessionTimes {
    fn note_cost(&mut self, session: Option<&Session>) {
        let Some(cost) = session.and_then(|session| session.usage()?.cost.as_ref()) else { return };
        let Ok(amount) = cost.amount.as_str().parse::<f64>() else { return };
        let length = self.entries.len();
        if self.costs.last().is_some_and(|last| last.length == length) {
            self.costs.pop();
        }
        self.costs.push(CostAt { length, amount, currency: cost.currency.to_string() });
    }
}
