//! Cursors: progress of each session's updates.

use std::collections::{HashMap, HashSet};

/// Maximum number of tracked logs. Updates of other logs are passed on without deduplication.
const MAX_LOGS: usize = 16 * 1024;

/// The last cursor of each log.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    last: HashMap<String, LogPosition>,
    /// The log of a session's updates if its name differs from the session's.
    of_session: HashMap<String, String>,
    /// Logs that are replayed from an earlier cursor at the client's request.
    replays_expected: HashSet<String>,
}

#[derive(Debug)]
struct LogPosition {
    cursor: String,
    number: Option<u64>,
}

impl Cursors {
    /// Advances to the cursor of an update. Returns whether the update is new, or repeated at the client's
    /// request.
    pub(super) fn advance(&mut self, session: &str, cursor: &str, may_replay: bool) -> bool {
        // In a replay, the number is followed by the end of the log at that time.
        let number =
            |position: &str| position.split('-').next().and_then(|number| number.parse::<u64>().ok());
        let (log, number) = match cursor.rsplit_once('.').map(|(log, position)| (log, number(position))) {
            Some((log, Some(number))) => (log, Some(number)),
            // A cursor in another format has no visible order.
            _ => (session, None),
        };
        let place = || LogPosition { cursor: cursor.to_owned(), number };
        let has_room = self.last.len() < MAX_LOGS;
        match self.last.get_mut(log) {
            Some(last) => {
                let is_new = match (last.number, number) {
                    (Some(last), Some(number)) => last < number,
                    _ => last.cursor != cursor,
                };
                if !(is_new || (may_replay && self.replays_expected.remove(log))) {
                    return false;
                }
                *last = place();
            }
            // Beyond the limit updates still pass, only duplicates are not detected.
            None if has_room => {
                self.last.insert(log.to_owned(), place());
            }
            None => {}
        }
        if log != session && self.of_session.len() < MAX_LOGS && !self.of_session.contains_key(session) {
            self.of_session.insert(session.to_owned(), log.to_owned());
        }
        true
    }

    /// Returns the cursor to resume a session after; `None` if no update has arrived.
    pub(super) fn of(&self, session: &str) -> Option<&str> {
        self.last.get(self.log(session)).map(|place| &*place.cursor)
    }

    fn log<'s>(&'s self, session: &'s str) -> &'s str {
        self.of_session.get(session).map_or(session, |log| log)
    }

    /// Sets the initial cursor of a session from the server.
    pub(super) fn begin(&mut self, session: &str, cursor: &str) {
        // The server's cursor is the end of its log. Updates that arrived before the response have earlier
        // cursors and must win.
        if self.of(session).is_none() {
            self.advance(session, cursor, false);
        }
    }

    /// Expects a replay from the start: the next update with a smaller cursor begins it.
    pub(super) fn expect_replay(&mut self, session: &str) {
        let log = self.log(session);
        if self.last.contains_key(log) {
            self.replays_expected.insert(log.to_owned());
        }
    }

    /// Returns whether a replay from the start is expected and has not begun.
    pub(super) fn expects_replay(&self, session: &str) -> bool {
        self.replays_expected.contains(self.log(session))
    }

    /// Ends the expectation of a replay.
    pub(super) fn replay_begun(&mut self, session: &str) {
        let log = self.log(session).to_owned();
        self.replays_expected.remove(&log);
    }

    /// Removes a session.
    pub(super) fn forget(&mut self, session: &str) {
        let log = self.of_session.remove(session).unwrap_or_else(|| session.to_owned());
        self.replays_expected.remove(&log);
        self.last.remove(&log);
    }
}

#[cfg(test)]
mod tests {
    use super::Cursors;

    #[test]
    fn repeated_cursors_are_dropped_except_in_an_expected_replay() {
        let mut cursors = Cursors::default();
        assert!(
            cursors.advance("s", "s.1", true)
                && cursors.advance("s", "s.9", true)
                && cursors.advance("s", "s.10", true)
        );
        assert!(!cursors.advance("s", "s.10", true) && !cursors.advance("s", "s.2", true));
        assert_eq!(cursors.of("s"), Some("s.10"));
        cursors.expect_replay("s");
        assert!(
            cursors.advance("s", "s.11", true)
                && cursors.advance("s", "s.1", true)
                && !cursors.advance("s", "s.1", true)
        );
        assert_eq!(cursors.of("s"), Some("s.1"));
        // A replay starts again and continues into live updates.
        assert!(cursors.advance("s", "s.11", true) && !cursors.advance("s", "s.3-12", true));
        cursors.expect_replay("s");
        assert!(cursors.advance("s", "s.1-12", true) && cursors.advance("s", "s.3-12", true));
        assert_eq!(cursors.of("s"), Some("s.3-12"));
        assert!(!cursors.advance("s", "s.1-12", true) && cursors.advance("s", "s.11", true));
        cursors.expect_replay("s");
        assert!(cursors.advance("s", "s.1", true));
        // Updates of a sub-agent are in the log of its parent session.
        assert!(cursors.advance("child", "s.2", true) && !cursors.advance("s", "s.2", true));
        assert_eq!(cursors.of("child"), Some("s.2"));
        // Cursors without order are only compared for equality.
        assert!(
            cursors.advance("o", "b", true)
                && !cursors.advance("o", "b", true)
                && cursors.advance("o", "a", true)
        );
        cursors.forget("s");
        assert_eq!(cursors.of("s"), None);
    }
}
