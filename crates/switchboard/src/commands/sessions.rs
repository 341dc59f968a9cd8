//! `switchboard sessions`: what the store keeps.

mod exchange;
mod list;
mod remove;
mod replay;
mod search;
mod show;
mod stats;
mod version_2;

use std::path::PathBuf;

use switchboard_store::{Store, Time};

use crate::outcome::{CommandError, Outcome};
use crate::store_file::{self, store_error};

/// List, show, search and exchange recorded sessions
///
/// A session is named by its id, the beginning of it, or the id that the agent gave it. The store is the file in
/// --store, else in the environment variable SWITCHBOARD_STORE, else switchboard/sessions.sqlite3 in the folder
/// for data ($XDG_DATA_HOME or ~/.local/share).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    switchboard sessions import recording.jsonl && switchboard sessions search 'cargo build'")]
pub(crate) struct Arguments {
    /// The store's file
    #[arg(long, value_name = "FILE", global = true)]
    store: Option<PathBuf>,

    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SessionsCommand {
    List(list::Arguments),
    Show(show::Arguments),
    Search(search::Arguments),
    Export(exchange::ExportArguments),
    Import(exchange::ImportArguments),
    Replay(replay::Arguments),
    Delete(remove::DeleteArguments),
    Prune(remove::PruneArguments),
    Stats(stats::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let place = store_file::place(arguments.store.as_ref())?;
    let read = || Store::open_read_only(&place).map_err(store_error);
    let write = || store_file::open(place.clone());
    match &arguments.command {
        SessionsCommand::List(_) if !place.exists() => Ok(Outcome::Fine),
        SessionsCommand::List(arguments) => list::run(&read()?, arguments),
        SessionsCommand::Show(arguments) => show::run(&read()?, arguments),
        SessionsCommand::Search(arguments) => search::run(&read()?, arguments),
        SessionsCommand::Export(arguments) => exchange::export(&read()?, arguments),
        SessionsCommand::Import(arguments) => exchange::import(&write()?, arguments),
        SessionsCommand::Replay(arguments) => replay::run(read, arguments),
        SessionsCommand::Delete(arguments) => remove::delete(&write()?, arguments),
        SessionsCommand::Prune(arguments) => remove::prune(&write()?, arguments),
        SessionsCommand::Stats(arguments) => stats::run(&read()?, arguments),
    }
}

/// A moment on the command line: a date, or how long ago.
fn moment(text: &str) -> Result<Time, String> {
    if let Some(time) = Time::parse(text) {
        return Ok(time);
    }
    let milliseconds = duration(text)?;
    Ok(Time(Time::now().0.saturating_sub(milliseconds)))
}

/// A length of time in milliseconds: a number and s, m, h, d or w.
fn duration(text: &str) -> Result<i64, String> {
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

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

/// A number of bytes on the command line.
fn parse_size(text: &str) -> Result<u64, String> {
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
    use super::{duration, moment, parse_size, size};

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
