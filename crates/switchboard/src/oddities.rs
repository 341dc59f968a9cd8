//! Odd things that a peer sends are told, but not without end.

use switchboard_peer::Event;
use switchboard_protocol::Diagnostic;

use crate::terminal::text::visible_line;

/// How many are told to a person one by one.
const TOLD: u64 = 10;

/// How many are recorded one by one.
const RECORDED: u64 = 1000;

/// How long what is told may be, in characters.
const LONGEST: usize = 200;

/// Counts odd things, and says what is to be told of them.
#[derive(Debug)]
pub(crate) struct Oddities {
    count: u64,
    /// How many are told one by one.
    told: u64,
    /// How long each of them may be.
    longest: usize,
}

impl Oddities {
    /// For a person to read.
    pub(crate) fn shown() -> Self {
        Oddities { count: 0, told: TOLD, longest: LONGEST }
    }

    /// For a recording to keep.
    pub(crate) fn recorded() -> Self {
        Oddities { count: 0, told: RECORDED, longest: usize::MAX }
    }

    /// What is to be told of one more: itself, or now and then how many there are, or nothing.
    pub(crate) fn next(&mut self, what: &str) -> Option<String> {
        self.count += 1;
        if self.count < self.told {
            Some(shortened(what, self.longest))
        } else if self.count == self.told {
            Some(format!("{}; more of that kind is only counted", shortened(what, self.longest)))
        } else {
            is_power_of_ten(self.count).then(|| format!("{} odd lines so far", self.count))
        }
    }

    /// What is to be told at the end, where not all were.
    pub(crate) fn total(&self) -> Option<String> {
        let Oddities { count, told, .. } = self;
        (count > told).then(|| format!("{count} odd lines, of which {told} were shown"))
    }
}

/// What is odd about something that an agent did, whichever version it speaks.
pub(crate) fn of_event(event: &Event) -> Option<String> {
    match event {
        Event::Malformed { reason, .. } => Some(format!("a malformed message: {reason}")),
        Event::Anomaly(anomaly) if anomaly.is_worth_telling() => Some(anomaly.to_string()),
        Event::TooManySessions => {
            Some("the agent talks of too many sessions; the update was dropped".to_owned())
        }
        Event::Update(update) => {
            // A session that cannot be the child of the one that tells so.
            let unlinked = |odd: &&Diagnostic| odd.kept && odd.pointer.ends_with("/sessionId");
            let odd = update.diagnostics().iter().find(unlinked)?;
            Some(format!("a sub-agent that does not fit: {odd}"))
        }
        _ => None,
    }
}

fn is_power_of_ten(mut count: u64) -> bool {
    while count > 1 && count.is_multiple_of(10) {
        count /= 10;
    }
    count == 1
}

fn shortened(what: &str, longest: usize) -> String {
    let what = visible_line(what);
    match what.char_indices().nth(longest) {
        Some((end, _)) => format!("{}...", &what[..end]),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_odd_lines_make_few_words() {
        let mut oddities = Oddities::shown();
        let told: Vec<String> =
            (0..115_000).filter_map(|number| oddities.next(&format!("no. {number}"))).collect();
        assert_eq!((&*told[0], &*told[9]), ("no. 0", "no. 9; more of that kind is only counted"));
        let counted = ["100", "1000", "10000", "100000"].map(|count| format!("{count} odd lines so far"));
        assert_eq!(told[10..], counted);
        assert_eq!(oddities.total().as_deref(), Some("115000 odd lines, of which 10 were shown"));
    }

    #[test]
    fn a_few_are_told_as_they_are_but_not_at_length() {
        let mut oddities = Oddities::shown();
        assert_eq!(oddities.next(&"\u{1B}é".repeat(1000)).unwrap().chars().count(), 203);
        assert_eq!(oddities.total(), None);
    }
}
