//! Times and sizes as people write them.

use std::time::{Duration, UNIX_EPOCH};

use bytesize::ByteSize;
use switchboard_store::Moment;

/// Formats a count with a noun, whose plural ends in s.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Parses a time on the command line: a date, optionally with a time of day, in UTC, or a duration before
/// now.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(ago) = duration(text) {
        return Ok(Moment(Moment::now().0.saturating_sub(Moment::from(ago).0)));
    }
    let missing = match text.len() {
        10 => " 00:00:00",
        16 => ":00",
        _ => "",
    };
    let time = humantime::parse_rfc3339_weak(&format!("{text}{missing}")).map_err(|_| {
        "expected a date such as 2026-11-15, or a duration such as 90m, 12h, 30d or 4w".to_owned()
    })?;
    Ok(time.duration_since(UNIX_EPOCH).unwrap_or_default().into())
}

/// Parses a duration with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    // The library treats it as months, which is hardly meant by `--timeout 5M`.
    if text.contains('M') {
        return Err("M is ambiguous; write m for minutes, or months".to_owned());
    }
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

/// Parses a duration on the command line: seconds, or with a unit.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => duration(text),
    }
}

/// Formats a moment as the time since then: `5 minutes ago`. After four weeks it is the date.
pub(crate) fn ago(moment: Moment, now: Moment) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let seconds = now.0.saturating_sub(moment.0) / 1000;
    let since = |unit: i64, name: &str| format!("{} ago", counted((seconds / unit).unsigned_abs(), name));
    match seconds {
        // The clock of another machine may be ahead.
        ..MINUTE => "just now".to_owned(),
        MINUTE..HOUR => since(MINUTE, "minute"),
        HOUR..DAY => since(HOUR, "hour"),
        DAY..=2_419_200 => since(DAY, "day"),
        _ => moment.date_and_time()[0].clone(),
    }
}

/// Formats a number of bytes.
pub(crate) fn size(bytes: u64) -> String {
    ByteSize(bytes).display().si().to_string()
}

/// Parses a number of bytes on the command line.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let size = text.parse().ok().map(|ByteSize(bytes)| bytes);
    // A value that is too large becomes the maximum.
    size.filter(|size| *size < u64::MAX)
        .ok_or_else(|| "expected a number of bytes such as 500MB or 2GB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(parse_time("1h 30m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "-1", "5 parsecs", "inf", "NaN", "1e300", "5M", "99999999999999999999y"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lengths_of_time_and_sizes_are_read() {
        assert_eq!(duration("90m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "d", "-1d", "1q", "ä", "5", "1M"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        for (size, bytes) in [("7", 7), ("500 k", 500_000), ("2GB", 2_000_000_000), ("1.5MB", 1_500_000)] {
            assert_eq!(parse_size(size), Ok(bytes), "{size}");
        }
        for wrong in ["", "GB", "-1", "2XB", "99999999999GB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments_are_dates_or_times_ago() {
        for (text, milliseconds) in [
            ("1970-01-02", 86_400_000),
            ("1970-01-01 00:01", 60_000),
            ("2000-02-29T00:00:01Z", 951_782_401_000),
            ("2026-11-15 04:18:43", 1_794_716_323_000),
        ] {
            assert_eq!(moment(text).map(|time| time.0), Ok(milliseconds), "{text}");
        }
        let ago = Moment::now().0 - moment("2h").unwrap().0;
        assert!((7_200_000..7_260_000).contains(&ago), "{ago}");
        assert!(moment("9999999y").unwrap() < Moment(0), "before all sessions");
        for wrong in ["", "2026-02-30", "2026-13-01", "2026-11-15 24:00", "2026", "soon", "ü026-11-15"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_ago_are_shown_in_whole_units() {
        let now = Moment(1_794_716_323_000);
        let before = |seconds: i64| ago(Moment(now.0 - seconds * 1000), now);
        assert_eq!([-5, 0, 59].map(before), ["just now"; 3]);
        assert_eq!(
            [60, 119, 3600, 7200].map(before),
            ["1 minute ago", "1 minute ago", "1 hour ago", "2 hours ago"]
        );
        assert_eq!([86_400, 28 * 86_400].map(before), ["1 day ago", "28 days ago"]);
        assert_eq!(before(30 * 86_400), "2026-10-16");
        assert_eq!(ago(Moment(i64::MIN), now).len(), ago(Moment(i64::MIN), now).trim().len());
    }

    #[test]
    fn sizes_are_shown_in_the_unit_that_suits_them() {
        assert_eq!([12, 20_000, 12_000_000].map(size), ["12 B", "20.0 kB", "12.0 MB"]);
    }
}
