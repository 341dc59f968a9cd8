//! Checkpoints of a recording, from which later states are folded.

use switchboard_session::Conversation;

/// Minimum number of records between two checkpoints.
const INTERVAL: usize = 2048;

/// Maximum number of checkpoints. Each one keeps the parts of the sessions that have changed since alive.
const MOST: usize = 32;

/// Session states after certain numbers of records. At the limit the interval doubles, which drops every second one.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    interval: usize,
    list: Vec<(usize, Conversation)>,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Checkpoints { interval: INTERVAL, list: Vec::new() }
    }
}

impl Checkpoints {
    /// Stores the state after a number of records, if a checkpoint is due.
    pub(crate) fn note(&mut self, records: usize, conversation: &Conversation) {
        let is_next = self.list.last().is_none_or(|(last, _)| records > *last);
        if !is_next || records == 0 || !records.is_multiple_of(self.interval) {
            return;
        }
        self.list.push((records, conversation.clone()));
        if self.list.len() > MOST {
            self.interval *= 2;
            let interval = self.interval;
            self.list.retain(|(records, _)| records.is_multiple_of(interval));
        }
    }

    /// Returns the latest checkpoint at or before a number of records.
    pub(crate) fn before(&self, records: usize) -> Option<(usize, Conversation)> {
        let later = self.list.partition_point(|(at, _)| *at <= records);
        self.list.get(later.checked_sub(1)?).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_acp::WireFormat;

    #[test]
    fn there_are_few_of_them_however_long_the_recording_is_and_they_are_spread_over_it() {
        let mut checkpoints = Checkpoints::default();
        let conversation = Conversation::new(WireFormat::Any);
        for records in 0..1_000_000 {
            checkpoints.note(records, &conversation);
        }
        assert!(checkpoints.list.len() <= MOST && checkpoints.list.len() > MOST / 4);
        for wanted in [0, 1, 500_000, 999_999, usize::MAX] {
            let (at, _) = checkpoints.before(wanted).unwrap_or((0, conversation.clone()));
            assert!(
                at <= wanted && wanted.min(999_999) - at <= 1_000_000 / (MOST / 4),
                "{at} before {wanted}"
            );
        }
    }
}
