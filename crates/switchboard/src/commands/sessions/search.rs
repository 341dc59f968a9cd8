use std::collections::HashMap;
use std::io::{BufWriter, Write};

use serde_json::json;
use switchboard_acp::Raw;
use switchboard_session::Conversation;
use switchboard_store::{Hit, Item, Moment, Search, Store, TextKind};

use crate::commands::fold::text::shown;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::store_file::{self, store_error};
use crate::units::moment;

/// Search all sessions, latest texts first
///
/// All words must occur, in any order; "words in quotation marks" must be adjacent; word* matches all words
/// with this prefix. Case and accents are ignored. Text that was replaced or cleared later is found and
/// marked. The exit code is 1 if nothing is found, or if a part could not be searched.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Search query
    query: String,

    /// Only in this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Only agents whose name contains this text
    #[arg(long)]
    agent: Option<String>,

    /// Only texts of this kind; may be repeated
    #[arg(long, value_name = "KIND", value_parser = kind,
        long_help = "Only in texts of this kind: user, agent, thought, title, command, path, patch, output, plan, log. \
            May be given several times")]
    kind: Vec<TextKind>,

    /// Only texts since a date (2026-11-15) or within a duration (12h, 30d)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Moment>,

    /// Only texts before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Moment>,

    /// Maximum number of results
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    limit: usize,

    /// Print one JSON object per result
    #[arg(long)]
    json: bool,
}

fn kind(name: &str) -> Result<TextKind, String> {
    TextKind::parse(name).ok_or_else(|| {
        let names: Vec<_> = TextKind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

pub(super) fn run(store: &Store, arguments: &Arguments) -> Result<Outcome, CommandError> {
    let search = Search {
        query: arguments.query.clone(),
        session: arguments.session.clone(),
        agent: arguments.agent.clone(),
        kinds: arguments.kind.clone(),
        since: arguments.since,
        until: arguments.until,
        limit: Some(arguments.limit),
        more: switchboard_acp::More,
    };
    let hits = store.search(&search).map_err(store_error)?;
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut speakers = SessionNames { store, known: HashMap::new() };
    for hit in &hits {
        let (wire_id, speaker) = speakers.of(hit);
        let line = if arguments.json {
            json!({"session": hit.session, "sessionId": wire_id, "speaker": speaker, "first": hit.first, "last": hit.last, "time": hit.time.0,
                "kind": hit.kind.as_str(), "excerpt": hit.excerpt, "withdrawn": hit.withdrawn})
            .to_string()
        } else {
            format!(
                "{} #{} {} {}{}{}: {}",
                hit.session,
                hit.first,
                hit.time,
                hit.kind.as_str(),
                speaker.map_or(String::new(), |speaker| format!(", {}", shown(&speaker))),
                if hit.withdrawn { " (withdrawn later)" } else { "" },
                shown(&hit.excerpt)
            )
        };
        writeln!(output, "{line}").map_err(write_error)?;
    }
    output.flush().map_err(write_error)?;
    if hits.is_empty() {
        eprintln!("no texts match in {}", store.path().display());
    }
    let outcome = store_file::report_gaps(store, arguments.session.as_deref())?;
    Ok(if hits.is_empty() { Outcome::Problems } else { outcome })
}

/// Determines the sessions of found texts.
struct SessionNames<'s> {
    store: &'s Store,
    /// The conversation of each recording; `None` if it cannot be read.
    known: HashMap<String, Option<Conversation>>,
}

impl SessionNames<'_> {
    /// Returns the wire id of a result's session, and the name of its sub-agent.
    fn of(&mut self, hit: &Hit) -> (Option<String>, Option<String>) {
        let first = self.store.read(&hit.session, hit.first).ok().and_then(|mut items| items.next());
        let Some(Ok(Item::Record(record))) = first else { return (None, None) };
        let id = std::str::from_utf8(&record.bytes).ok().and_then(session_of);
        let store = self.store;
        let all = self.known.entry(hit.session.clone()).or_insert_with(|| {
            // The final state without entries, which contains the tree of sub-agents.
            store.window(&hit.session, None, 0).ok().map(|state| state.conversation)
        });
        let speaker = all.as_ref().zip(id.as_deref()).and_then(|(all, id)| all.speaker(id));
        (id, speaker)
    }
}

/// Returns the session of a message.
fn session_of(line: &str) -> Option<String> {
    let message = Raw::parse(line).ok()?;
    message.get("params")?.text("sessionId")
}
