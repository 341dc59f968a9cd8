use std::io::{BufWriter, Write};

use switchboard_store::{
    About, Item, Moment, Recorder, Redaction, Store, Withdrawals, began, parse_line, to_first_line, to_line,
};

use crate::arguments::InputArgument;
use crate::commands::fold::text::shown;
use crate::lines::Lines;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::store_file::{self, store_error};

/// Print a session as recorded lines, which check, fold, convert and import read
#[derive(Debug, clap::Args)]
pub(super) struct ExportArguments {
    /// Session id
    id: String,

    /// Replace secrets: keys, tokens, authorization headers, values of environment variables; and omit text
    /// that the agent retracted later
    #[arg(long)]
    redact: bool,

    /// Print only what --redact would replace
    #[arg(long)]
    preview: bool,

    /// Also print standard error, process events, losses, the other side of a translation, and invalid lines
    #[arg(long)]
    everything: bool,
}

pub(super) fn export(store: &Store, arguments: &ExportArguments) -> Result<Outcome, CommandError> {
    let session = store.session(&arguments.id).map_err(store_error)?;
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut redaction = Redaction::new();
    let redacts = arguments.redact || arguments.preview;
    let mut withdrawals =
        if redacts { store.withdrawals(&session.id).map_err(store_error)? } else { Withdrawals::default() };
    let (mut outcome, mut left_out, mut is_first) = (Outcome::Fine, 0_u64, true);
    for item in store.read(&session.id, 0).map_err(store_error)? {
        let mut record = match item.map_err(store_error)? {
            Item::Record(record) => record,
            Item::Gap { from, to, reason } => {
                outcome = Outcome::Problems;
                eprintln!("{}", store_file::gap_in_words(from, to, &reason));
                continue;
            }
        };
        if redacts {
            record.bytes = withdrawals.take_out(&record).unwrap_or(record.bytes);
            record.bytes = redaction.redact(&record.bytes);
        }
        let to_line = if is_first { to_first_line } else { to_line };
        match to_line(&record, session.began, arguments.everything) {
            Some(line) if !arguments.preview => {
                is_first = false;
                writeln!(output, "{line}").map_err(write_error)?;
            }
            Some(_) => {}
            None => left_out += 1,
        }
    }
    if left_out > 0 && !arguments.preview {
        eprintln!("{left_out} records are not messages and were left out; --everything includes them");
    }
    let withdrawn = (withdrawals.count() > 0)
        .then(|| format!("{:>6} x retracted later: the text of a message or tool call", withdrawals.count()));
    let secrets = redaction
        .secrets()
        .into_iter()
        .map(|secret| format!("{:>6} x {}: {}", secret.count, secret.reason, shown(&secret.preview)));
    for line in withdrawn.into_iter().chain(secrets) {
        if arguments.preview {
            writeln!(output, "{line}").map_err(write_error)?;
        } else {
            eprintln!("{line}");
        }
    }
    output.flush().map_err(write_error)?;
    Ok(outcome)
}

/// Import a recording into the store and print the id of the session
///
/// Each recording in a file becomes a session.
///
/// Reads recorded lines ({"t":seconds,"dir":"client->agent"|"agent->client","msg":{...}}), as written by
/// export, and trace files of the official conductor. Other lines are reported and lead to exit code 1.
#[derive(Debug, clap::Args)]
pub(super) struct ImportArguments {
    #[command(flatten)]
    input: InputArgument,

    /// Name of the agent, instead of its own
    #[arg(long)]
    agent: Option<String>,

    /// Title of the session
    #[arg(long)]
    title: Option<String>,
}

pub(super) fn import(store: &Store, arguments: &ImportArguments) -> Result<Outcome, CommandError> {
    let about = About { agent: arguments.agent.clone(), title: arguments.title.clone(), ..About::default() };
    read_in(store, &arguments.input, &about, |id| println!("{id}"))
}

/// Imports the recordings of a file into the store, and passes the id of each session.
pub(crate) fn read_in(
    store: &Store,
    input: &InputArgument,
    about: &About,
    mut tell: impl FnMut(&str),
) -> Result<Outcome, CommandError> {
    let mut lines = Lines::of(input)?;
    let mut recorder: Option<(Recorder, Moment)> = None;
    let mut outcome = Outcome::Fine;
    let (mut ended, mut count) = (Vec::new(), 0);
    while let Some((number, text)) = lines.next_text(input)? {
        let begins = text.as_ref().ok().and_then(|line| began(line));
        // A file may contain several recordings, one after the other.
        if begins.is_some()
            && let Some((recorder, _)) = recorder.take()
        {
            ended.push(recorder);
            if ended.len() >= MAX_OPEN {
                count += finish(store, &mut ended, &mut tell)?;
            }
        }
        let (recorder, began) = match &mut recorder {
            Some(begun) => begun,
            nothing => {
                let began = begins.unwrap_or_else(|| file_time(input));
                nothing.insert((store.begin_at(about, began).map_err(store_error)?, began))
            }
        };
        match text.and_then(|line| parse_line(line, *began).map_err(|error| error.to_string())) {
            Ok(Some(record)) => recorder.put(record).map_err(store_error)?,
            Ok(None) => {}
            Err(problem) => {
                outcome = Outcome::Problems;
                eprintln!("line {number}: {problem}");
            }
        }
    }
    ended.extend(recorder.map(|(recorder, _)| recorder));
    count += finish(store, &mut ended, &mut tell)?;
    if count == 0 {
        return Err(CommandError::failed(format!("{} has no recorded messages", input.name())));
    }
    Ok(outcome)
}

/// Maximum number of recordings that are open at a time. They are synced together.
const MAX_OPEN: usize = 64;

/// Ends imported sessions and passes their ids. Returns the number of sessions: one without messages does not count.
fn finish(
    store: &Store,
    recorders: &mut Vec<Recorder>,
    tell: &mut impl FnMut(&str),
) -> Result<usize, CommandError> {
    let sessions: Vec<(String, u64)> =
        recorders.iter().map(|recorder| (recorder.id().to_owned(), recorder.length())).collect();
    Recorder::complete_all(recorders.drain(..)).map_err(store_error)?;
    let mut count = 0;
    for (id, length) in sessions {
        if length == 0 {
            store.delete(&id).map_err(store_error)?;
        } else {
            tell(&id);
            count += 1;
        }
    }
    Ok(count)
}

/// Returns the start time of a recording without one: the modification time of its file, else the current
/// time.
fn file_time(input: &InputArgument) -> Moment {
    let modified = input.file.as_ref().and_then(|path| path.metadata().ok()?.modified().ok());
    modified
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or_else(Moment::now, Moment::from)
}
