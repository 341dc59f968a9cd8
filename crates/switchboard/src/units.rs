//! Times and sizes as people write them.

use std::time::Duration;

use switchboard_store::Moment;

/// So many of something, whose plural is made by an s.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A moment on the command line: a date, or how long ago.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    if let Some(time) = Moment::parse(text) {
        return Ok(time);
    }
    let milliseconds = duration(text)?;
    Ok(Moment(Moment::now().0.saturating_sub(milliseconds)))
}

/// A length of time in milliseconds: a number and s, m, h, d or w.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    let wrong =
        || "expected a date such as 2026-11-15, or a length of time such as 90m, 12h, 30d or 4w".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(wrong()),
    };
    let number: u32 = number.parse().map_err(|_| wrong())?;
    Ok(i64::from(number) * seconds * 1000)
}

/// A length of time on the command line: seconds, or with a unit.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|character: char| !character.is_ascii_digit() && character != '.') {
        Some(place) => text.split_at(place),
        None => (text, "s"),
    };
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("\"{unit}\" is no unit of time; use ms, s, m or h")),
    };
    let seconds: f64 = number.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds * factor).map_err(|_| "not a time".to_owned())
}

/// A number of bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

/// A number of bytes on the command line.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(1_u64),
        "k" | "kb" => Some(1000),
        "m" | "mb" => Some(1_000_000),
        "g" | "gb" => Some(1_000_000_000),
        _ => None,
    };
    let size = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    size.ok_or_else(|| "expected a number of bytes such as 500MB or 2GB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("20ms"), Ok(Duration::from_millis(20)));
        assert!(parse_time("5 days").is_err());
        assert!(parse_time("-1").is_err());
        assert!(parse_time("").is_err());
    }

    #[test]
    fn lengths_of_time_and_sizes_are_read() {
        assert_eq!(duration("90m"), Ok(5_400_000));
        assert_eq!(moment("1970-01-02").map(|time| time.0), Ok(86_400_000));
        for wrong in ["", "d", "-1d", "1y", "ä", "5"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_size("2GB"), Ok(2_000_000_000));
        assert!(parse_size("2XB").is_err() && parse_size("99999999999GB").is_err());
        assert_eq!((size(9_999), size(20_000)), ("9999 B".into(), "20 kB".into()));
    }
}
