//! Limits reports about invalid lines and other anomalies of a peer.

/// Number of anomalies reported individually to a person.
const SHOWN: u64 = 10;

/// Number of anomalies recorded individually.
const RECORDED: u64 = 1000;

/// Maximum length of a report in characters.
const LONGEST: usize = 200;

/// Counts anomalies of a peer and decides which to report: the first ones individually, the rest by their
/// number, at powers of ten.
///
/// ```
/// use switchboard_transport::Oddities;
///
/// let mut oddities = Oddities::shown();
/// assert_eq!(oddities.next("no message").as_deref(), Some("no message"));
/// let told = (0..5000).filter_map(|_| oddities.next("no message")).count();
/// assert_eq!(told, 9 + 2, "nine more, and that there are 100 and 1000");
/// assert_eq!(oddities.total().as_deref(), Some("5001 invalid lines, of which 10 were shown"));
/// ```
#[derive(Debug)]
pub struct Oddities {
    count: u64,
    /// Number of anomalies reported individually.
    told: u64,
    /// Maximum length of each report.
    longest: usize,
}

impl Oddities {
    /// Creates a counter with the limits for display.
    pub fn shown() -> Self {
        Oddities { count: 0, told: SHOWN, longest: LONGEST }
    }

    /// Creates a counter with the limits for recordings.
    pub fn recorded() -> Self {
        Oddities { count: 0, told: RECORDED, longest: usize::MAX }
    }

    /// Counts one more. Returns its report, or the number so far at powers of ten, or nothing.
    pub fn next(&mut self, what: &str) -> Option<String> {
        self.count += 1;
        if self.count < self.told {
            Some(shortened(what, self.longest))
        } else if self.count == self.told {
            Some(format!("{}; further ones are only counted", shortened(what, self.longest)))
        } else {
            is_power_of_ten(self.count).then(|| format!("{} invalid lines so far", self.count))
        }
    }

    /// Returns the total, unless all were reported individually.
    pub fn total(&self) -> Option<String> {
        let Oddities { count, told, .. } = self;
        (count > told).then(|| format!("{count} invalid lines, of which {told} were shown"))
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
        assert_eq!((&*told[0], &*told[9]), ("no. 0", "no. 9; further ones are only counted"));
        let counted = ["100", "1000", "10000", "100000"].map(|count| format!("{count} invalid lines so far"));
        assert_eq!(told[10..], counted);
        assert_eq!(oddities.total().as_deref(), Some("115000 invalid lines, of which 10 were shown"));
    }

    #[test]
    fn a_few_are_told_as_they_are_but_not_at_length() {
        let mut oddities = Oddities::shown();
        assert_eq!(oddities.next(&"xé".repeat(1000)).unwrap().chars().count(), 203);
        assert_eq!(oddities.total(), None);
    }
}
