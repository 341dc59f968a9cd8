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

/// Formats a duration in a suitable unit: `340 ms`, `1.5 s`, `2 min 5 s`.
pub(crate) fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_micros() {
        0 => "0 s".to_owned(),
        small @ 1..1_000 => format!("{small} µs"),
        1_000..10_000 => format!("{:.1} ms", seconds * 1e3),
        10_000..1_000_000 => format!("{} ms", time.as_millis()),
        1_000_000..60_000_000 => format!("{seconds:.1} s"),
        _ => format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60),
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
    fn times_and_sizes_are_shown_in_the_unit_that_suits_them() {
        let times = [0, 250, 1_300, 999_000, 1_250_000, 61_500_000, 600_000_000];
        assert_eq!(
            times.map(|micros| elapsed(Duration::from_micros(micros))),
            ["0 s", "250 µs", "1.3 ms", "999 ms", "1.2 s", "1 min 1 s", "10 min 0 s"]
        );
        assert_eq!([12, 20_000, 12_000_000].map(size), ["12 B", "20.0 kB", "12.0 MB"]);
    }
}
