//! Odd things that a peer sends are told, but not without end.

use crate::terminal::text::visible_line;

/// How many are told one by one.
const TOLD: u64 = 10;

/// How long what is told may be, in characters.
const LONGEST: usize = 200;

/// Counts odd things, and says what is to be told of them.
#[derive(Debug, Default)]
pub(crate) struct Oddities {
    count: u64,
}

impl Oddities {
    /// What is to be told of one more: itself, or now and then how many there are, or nothing.
    pub(crate) fn next(&mut self, what: &str) -> Option<String> {
        self.count += 1;
        match self.count {
            ..TOLD => Some(shortened(what)),
            TOLD => Some(format!("{}; more of that kind is only counted", shortened(what))),
            count if is_power_of_ten(count) => Some(format!("{count} odd lines so far")),
            _ => None,
        }
    }

    /// What is to be told at the end, where not all were.
    pub(crate) fn total(&self) -> Option<String> {
        (self.count > TOLD).then(|| format!("{} odd lines, of which {TOLD} were shown", self.count))
    }
}

fn is_power_of_ten(mut count: u64) -> bool {
    while count > 1 && count.is_multiple_of(10) {
        count /= 10;
    }
    count == 1
}

fn shortened(what: &str) -> String {
    let what = visible_line(what);
    match what.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &what[..end]),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_odd_lines_make_few_words() {
        let mut oddities = Oddities::default();
        let told: Vec<String> =
            (0..115_000).filter_map(|number| oddities.next(&format!("no. {number}"))).collect();
        assert_eq!((&*told[0], &*told[9]), ("no. 0", "no. 9; more of that kind is only counted"));
        let counted = ["100", "1000", "10000", "100000"].map(|count| format!("{count} odd lines so far"));
        assert_eq!(told[10..], counted);
        assert_eq!(oddities.total().as_deref(), Some("115000 odd lines, of which 10 were shown"));
    }

    #[test]
    fn a_few_are_told_as_they_are_but_not_at_length() {
        let mut oddities = Oddities::default();
        assert_eq!(oddities.next(&"\u{1B}é".repeat(1000)).unwrap().chars().count(), 203);
        assert_eq!(oddities.total(), None);
    }
}
