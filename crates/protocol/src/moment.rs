//! Points in time.
//!
//! The calendar is implemented here instead of by a crate: store and hub need dates in UTC and nothing else,
//! and every dependent of this crate would build it. The program parses dates with `humantime`.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time in milliseconds since 1970, or since another origin chosen by the caller. The libraries
/// that fold and translate have no clock: callers provide times. Clocks jump, so a moment never determines
/// the order of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub i64);

impl Moment {
    /// Returns the current time.
    pub fn now() -> Self {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().into()
    }

    /// Returns the moment `milliseconds` later.
    #[must_use]
    pub fn after(self, milliseconds: u64) -> Self {
        Moment(self.0.saturating_add_unsigned(milliseconds))
    }

    /// Returns the duration since an earlier moment, or zero if that is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }

    /// Returns the date and the time of day, in UTC.
    pub fn date_and_time(self) -> [String; 2] {
        let seconds = self.0.div_euclid(1000);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Converts days since 1970 to a date, counting from the first of March of year 0, so that leap days
        // are at the end of a year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        [
            format!("{year:04}-{month:02}-{day:02}"),
            format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60),
        ]
    }
}

/// Converts the duration since the origin.
impl From<Duration> for Moment {
    fn from(since: Duration) -> Self {
        Moment(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Formats date and time in UTC, to the second.
impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [date, time] = self.date_and_time();
        write!(formatter, "{date} {time}")
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn times_are_shown_as_dates() {
        for (milliseconds, shown) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399_999, "2000-02-28 23:59:59"),
            (951_782_400_000, "2000-02-29 00:00:00"),
            (1_794_716_323_000, "2026-11-15 04:18:43"),
            (-1, "1969-12-31 23:59:59"),
        ] {
            assert_eq!(Moment(milliseconds).to_string(), shown);
        }
    }
}
