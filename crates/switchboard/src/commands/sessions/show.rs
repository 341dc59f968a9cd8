use std::io::{BufWriter, Write};
use std::time::Duration;

use switchboard_acp::WireFormat;
use switchboard_session::{Conversation, Side};
use switchboard_store::{Channel, Item, Record, Store, StoreError, Summary, apply_hub_note};

use super::version_2::Translation;
use crate::commands::fold::text::{self, shown};
use crate::outcome::{CommandError, Outcome, write_error};
use crate::store_file::{self, message_number, store_error};

/// Show a session
///
/// Prints the transcript, with sub-agents below their parent session; the id of a sub-agent selects only its
/// transcript. A version 1 session is translated to version 2 first and shown completely.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Session id
    id: String,

    /// Print the messages instead, with standard error, process events, losses, and the other side of a
    /// translation
    #[arg(long)]
    wire: bool,

    /// Show the state after this many records
    #[arg(long, value_name = "NUMBER")]
    at: Option<u64>,

    /// Only the last entries (with --wire: the last records)
    #[arg(long, value_name = "NUMBER")]
    last: Option<usize>,

    /// Print the session as JSON, like fold
    #[arg(long, conflicts_with = "wire")]
    json: bool,

    /// Continue with new records until interrupted
    #[arg(long, requires = "wire")]
    follow: bool,
}

#[cfg(test)]
impl Arguments {
    /// Returns the arguments for a complete session.
    pub(crate) fn whole(id: &str, json: bool) -> Self {
        Arguments { id: id.to_owned(), wire: false, at: None, last: None, json, follow: false }
    }
}

pub(super) fn run(store: &Store, arguments: &Arguments) -> Result<Outcome, CommandError> {
    let mut output = BufWriter::new(std::io::stdout().lock());
    let outcome = write(store, arguments, &mut output)?;
    output.flush().map_err(write_error)?;
    Ok(outcome)
}

pub(crate) fn write(
    store: &Store,
    arguments: &Arguments,
    output: &mut impl Write,
) -> Result<Outcome, CommandError> {
    let session = store.session(&arguments.id).map_err(store_error)?;
    if arguments.wire {
        wire(store, &session, arguments, output)
    } else if session.protocol == 1 {
        version_1(store, &session, arguments, output)
    } else {
        transcript(store, &session, arguments, output)
    }
}

fn transcript(
    store: &Store,
    session: &Summary,
    arguments: &Arguments,
    output: &mut impl Write,
) -> Result<Outcome, CommandError> {
    let state = match arguments.last {
        Some(last) => store.window(&session.id, arguments.at, last),
        None => store.state(&session.id, arguments.at),
    }
    .map_err(store_error)?;
    let mut outcome = Outcome::Fine;
    for (from, to, reason) in &state.gaps {
        outcome = Outcome::Problems;
        eprintln!("{}", store_file::gap_in_words(*from, *to, reason));
    }
    if state.refused > 0 {
        eprintln!("{} messages could not be read; show them with --wire", state.refused);
    }
    for hidden in state.hidden.iter().filter(|hidden| **hidden > 0) {
        eprintln!("{hidden} entries before these");
    }
    write_sessions(&state.conversation, arguments, output).map_err(write_error)?;
    Ok(outcome)
}

/// Writes the sessions of a recording, or the one of the requested sub-agent.
fn write_sessions(
    conversation: &Conversation,
    arguments: &Arguments,
    output: &mut impl Write,
) -> std::io::Result<()> {
    let only = Some(&*arguments.id).filter(|id| conversation.parent(id).is_some());
    if !arguments.json {
        return text::write_all(output, conversation, only);
    }
    let is_meant = |id: Option<&str>| {
        only.is_none_or(|only| {
            id.is_some_and(|id| id == only || conversation.ancestors(id).any(|above| *above.session == *only))
        })
    };
    let mut sessions = conversation.sessions().filter(|(id, _)| is_meant(*id));
    sessions.try_for_each(|(id, session)| writeln!(output, "{}", session.to_json(id)))
}

/// Folds a version 1 session, translated like `convert`.
fn version_1(
    store: &Store,
    session: &Summary,
    arguments: &Arguments,
    output: &mut impl Write,
) -> Result<Outcome, CommandError> {
    let end = arguments.at.unwrap_or(u64::MAX);
    let mut outcome = Outcome::Fine;
    let mut translation = Translation::new();
    let mut conversation = Conversation::new(WireFormat::Any);
    let mut fold = |records: Vec<Record>| {
        for record in records {
            let side = if record.channel == Channel::ToAgent { Side::Client } else { Side::Agent };
            let (text, at) = (String::from_utf8_lossy(&record.bytes), record.time);
            if record.channel == Channel::Hub {
                apply_hub_note(&mut conversation, &text, at);
                continue;
            }
            // Translated lines were not in the recording, so errors of the session engine about them are
            // ignored.
            drop(conversation.read(&text, Some(side), at));
        }
    };
    for item in store.read(&session.id, 0).map_err(store_error)? {
        match item.map_err(store_error)? {
            Item::Record(record) if record.sequence < end => fold(translation.take(&record)),
            Item::Record(_) => break,
            gap @ Item::Gap { .. } => outcome = report(&gap),
        }
    }
    fold(translation.finish());
    write_sessions(&conversation, arguments, output).map_err(write_error)?;
    Ok(outcome)
}

fn report(gap: &Item) -> Outcome {
    if let Item::Gap { from, to, reason } = gap {
        eprintln!("{}", store_file::gap_in_words(*from, *to, reason));
    }
    Outcome::Problems
}

fn wire(
    store: &Store,
    session: &Summary,
    arguments: &Arguments,
    output: &mut impl Write,
) -> Result<Outcome, CommandError> {
    let end = arguments.at.unwrap_or(u64::MAX);
    let start = arguments.last.map_or(0, |last| end.min(session.length).saturating_sub(last as u64));
    let mut outcome = Outcome::Fine;
    let mut next = start;
    for item in store.read(&session.id, start).map_err(store_error)? {
        match item.map_err(store_error)? {
            Item::Record(record) if record.sequence < end => {
                next = record.sequence + 1;
                write_record(output, session, &record)?;
            }
            Item::Record(_) => break,
            gap @ Item::Gap { .. } => outcome = report(&gap),
        }
    }
    if arguments.follow {
        let mut tail = store.follow(&session.id, next).map_err(store_error)?;
        loop {
            output.flush().map_err(write_error)?;
            match tail.next(Duration::from_secs(3600)) {
                Ok(Some(Item::Record(record))) => write_record(output, session, &record)?,
                Ok(Some(gap)) => outcome = report(&gap),
                Ok(None) => {}
                // It was deleted: no more records follow.
                Err(StoreError::UnknownSession { .. }) => break,
                Err(error) => return Err(store_error(error)),
            }
        }
    }
    Ok(outcome)
}

fn write_record(output: &mut impl Write, session: &Summary, record: &Record) -> Result<(), CommandError> {
    let arrow = match record.channel {
        Channel::ToAgent => "client->agent",
        Channel::ToClient => "agent->client",
        Channel::StandardError => "stderr",
        Channel::Process => "process",
        Channel::OtherToAgent => "client->agent, other side",
        Channel::OtherToClient => "agent->client, other side",
        Channel::Diagnostic => "diagnostic",
        Channel::Hub => "hub",
        Channel::Unknown(_) => "unknown",
    };
    let seconds = record.time.0.saturating_sub(session.began.0) as f64 / 1000.0;
    let text = shown(&String::from_utf8_lossy(&record.bytes)).replace('\n', " ");
    let peer = if record.peer.is_empty() { String::new() } else { format!(" ({})", shown(&record.peer)) };
    writeln!(output, "{:>6} {seconds:>9.3} {arrow}{peer} {text}", message_number(record.sequence))
        .map_err(write_error)
}
