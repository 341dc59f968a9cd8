//! `switchboard conform recording`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use switchboard_conform::RecordingChecker;
use switchboard_store::{Item, Store, StoreError, to_first_line, to_line};

use super::CheckedSubject;
use crate::arguments::InputArgument;
use crate::lines::{Line, Lines};
use crate::outcome::CommandError;
use crate::store_file::{self, message_number, store_error};

/// Maximum length of a message shown around a violation.
const LONGEST_SHOWN: usize = 2000;
/// Number of messages shown before and after a violation.
const CONTEXT_MESSAGES: u64 = 3;

/// Test recordings: files of recorded lines, or sessions of the store by id
///
/// Messages are identified by line number. A truncated recording or one with gaps can break rules, but it is
/// not judged as conformant.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Files of recorded lines (- for standard input), or ids of recorded sessions
    #[arg(value_name = "FILE|ID", required_unless_present_any = ["list", "explain"])]
    subjects: Vec<PathBuf>,

    /// Path of the store, instead of the default one
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

pub(super) fn check(
    arguments: &Arguments,
    needs_transcript: bool,
) -> Result<Vec<CheckedSubject>, CommandError> {
    arguments.subjects.iter().map(|subject| check_one(arguments, subject, needs_transcript)).collect()
}

fn check_one(
    arguments: &Arguments,
    subject: &Path,
    needs_transcript: bool,
) -> Result<CheckedSubject, CommandError> {
    let name = subject.display().to_string();
    let mut source = RecordingSource::of(arguments, subject)?;
    let mut checker = RecordingChecker::new(None);
    source.each(|number, line| match line {
        Some(line) => checker.line(number, line),
        None => checker.gap(number),
    })?;
    let report = checker.finish().report(name);
    let mut transcript = BTreeMap::new();
    if needs_transcript && !source.is_standard_input() {
        let wanted: BTreeSet<u64> = report
            .failed()
            .filter_map(|judged| judged.failures.first())
            .flat_map(|failure| {
                failure.message.saturating_sub(CONTEXT_MESSAGES)
                    ..=failure.message.saturating_add(CONTEXT_MESSAGES)
            })
            .collect();
        let mut again = RecordingSource::of(arguments, subject)?;
        again.each(|number, line| {
            if wanted.contains(&number) {
                let text = String::from_utf8_lossy(line.unwrap_or_default());
                transcript.insert(number, text.chars().take(LONGEST_SHOWN).collect());
            }
        })?;
    }
    Ok(CheckedSubject { report, transcript })
}

/// Source of a recording's lines.
enum RecordingSource {
    File(InputArgument),
    Session { store: Store, id: String },
}

impl RecordingSource {
    fn of(arguments: &Arguments, subject: &Path) -> Result<Self, CommandError> {
        let is_file = subject.as_os_str() == "-"
            || subject.exists()
            || subject.components().count() > 1
            || subject.extension().is_some();
        if is_file {
            return Ok(RecordingSource::File(InputArgument { file: Some(subject.to_owned()) }));
        }
        let place = store_file::place(arguments.store.as_ref())?;
        let name = subject.display();
        let unknown = || {
            CommandError::usage(format!(
                "there is neither a file {name} nor a session with that id in the store"
            ))
            .hint("switchboard sessions list shows all sessions")
        };
        if !store_file::is_there(&place)? {
            return Err(unknown());
        }
        let store = store_file::open(place)?;
        match store.session(&name.to_string()) {
            Ok(session) => Ok(RecordingSource::Session { id: session.id, store }),
            Err(StoreError::UnknownSession { .. }) => Err(unknown()),
            Err(error) => Err(store_error(error)),
        }
    }

    fn is_standard_input(&self) -> bool {
        matches!(self, RecordingSource::File(input) if input.file.as_deref() == Some(Path::new("-")))
    }

    /// Passes each line with its number; `None` for a gap.
    fn each(&mut self, mut take: impl FnMut(u64, Option<&[u8]>)) -> Result<(), CommandError> {
        match self {
            RecordingSource::File(input) => {
                let mut lines = Lines::new(input.open()?);
                let failed = |error| CommandError::usage(format!("cannot read {}: {error}", input.name()));
                let mut number = 0;
                while let Some(line) = lines.next().map_err(failed)? {
                    number += 1;
                    match line {
                        Line::Text(text) => take(number, Some(text)),
                        Line::TooLong { .. } => take(number, None),
                    }
                }
            }
            RecordingSource::Session { store, id } => {
                let session = store.session(id).map_err(store_error)?;
                let mut is_first = true;
                for item in store.read(&session.id, 0).map_err(store_error)? {
                    match item.map_err(store_error)? {
                        Item::Record(record) => {
                            let to_line = if is_first { to_first_line } else { to_line };
                            if let Some(line) = to_line(&record, session.began, true) {
                                is_first = false;
                                take(message_number(record.sequence), Some(line.as_bytes()));
                            }
                        }
                        Item::Gap { from, .. } => take(message_number(from), None),
                    }
                }
            }
        }
        Ok(())
    }
}
