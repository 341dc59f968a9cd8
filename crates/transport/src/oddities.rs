//! Odd things that a peer sends are told, but not without end.

/// How many are told to a person one by one.
const TOLD: u64 = 10;

/// How many are recorded one by one.
const RECORDED: u64 = 1000;

/// How long what is told may be, in characters.
const LONGEST: usize = 200;

/// Counts odd things that a peer sends, and says what is to be told of them: the first ones as they are, of the rest the
/// number, now and then.
///
/// ```
/// use switchboard_transport::Oddities;
///
/// let mut oddities = Oddities::shown();
/// assert_eq!(oddities.next("no message").as_deref(), Some("no message"));
/// let told = (0..5000).filter_map(|_| oddities.next("no message")).count();
/// assert_eq!(told, 9 + 2, "nine more, and that there are 100 and 1000");
/// assert_eq!(oddities.total().as_deref(), Some("5001 odd lines, of which 10 were shown"));
/// ```
#[derive(Debug)]
pub struct Oddities {
    count: u64,
    /// How many are told one by one.
    told: u64,
    /// How long each of them may be.
    longest: usize,
}

impl Oddities {
    /// For a person to read.
    pub fn shown() -> Self {
        Oddities { count: 0, told: TOLD, longest: LONGEST }
    }

    /// For a recording to keep.
    pub fn recorded() -> Self {
        Oddities { count: 0, told: RECORDED, longest: usize::MAX }
    }

    /// What is to be told of one more: itself, or now and then how many there are, or nothing.
    pub fn next(&mut self, what: &str) -> Option<String> {
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
    pub fn total(&self) -> Option<String> {
        let Oddities { count, told, .. } = self;
        (count > told).then(|| format!("{count} odd lines, of which {told} were shown"))
    }
}

fn is_power_of_ten(mut count: u64) -> bool {
    while count > 1 && count.is_multiple_of(10) {
        count /= 10;
    }
    count == 1
}

fn shortened(what: &str, longest: usize) -> String {
    match what.char_indices().nth(longest) {
        Some((end, _)) => format!("{}...", &what[..end]),
        None => what.to_owned(),
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
        assert_eq!(oddities.next(&"xé".repeat(1000)).unwrap().chars().count(), 203);
        assert_eq!(oddities.total(), None);
    }
}
