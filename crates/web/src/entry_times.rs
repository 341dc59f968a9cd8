//! Times at which the entries of sessions changed.

use std::collections::HashMap;

use switchboard_session::{Change, Changes};

/// Times of the first and the last change of an entry, in Unix milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// Times of all entries, by session and position.
#[derive(Debug, Default)]
pub(crate) struct EntryTimes {
    sessions: HashMap<Box<str>, Vec<Times>>,
}

impl EntryTimes {
    /// Records the changes of a session at a time.
    pub(crate) fn note(&mut self, session: &str, changes: &Changes, time: i64) {
        if !self.sessions.contains_key(session) {
            self.sessions.insert(session.into(), Vec::new());
        }
        let Some(times) = self.sessions.get_mut(session) else { return };
        for change in changes.iter() {
            match change {
                Change::Entry(entry) => {
                    while times.len() <= entry.position {
                        times.push(Times { first: time, last: time });
                    }
                    times[entry.position].last = time;
                }
                Change::Replayed => times.clear(),
                _ => {}
            }
        }
    }

    /// Returns the times of an entry.
    pub(crate) fn of(&self, session: &str, position: usize) -> Times {
        self.sessions.get(session).and_then(|times| times.get(position)).copied().unwrap_or_default()
    }
}
