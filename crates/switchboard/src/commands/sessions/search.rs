use std::io::{BufWriter, Write};

use serde_json::json;
use switchboard_store::{Search, Store, TextKind, Time};

use crate::commands::fold::text::shown;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::store_file::store_error;
use crate::units::moment;

/// Search all sessions, the latest texts first
///
/// All words must be there, in any order; "words in quotation marks" must follow each other; word* stands for all
/// words that begin so. Case and accents do not matter. What was replaced or emptied later, and is not in the message any
/// more, is found and marked. The exit code is 1 when nothing is found.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What to look for
    query: String,

    /// Only in this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Only with agents whose name has this in it
    #[arg(long)]
    agent: Option<String>,

    /// Only in texts of this kind; may be given several times
    #[arg(long, value_name = "KIND", value_parser = kind,
        long_help = "Only in texts of this kind: user, agent, thought, title, command, path, patch, output, plan, log. \
            May be given several times")]
    kind: Vec<TextKind>,

    /// Only since a date (2026-11-15) or a length of time (12h, 30d)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Time>,

    /// Only before then
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Time>,

    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    limit: usize,

    /// Print a JSON object a hit
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
    };
    let hits = store.search(&search).map_err(store_error)?;
    let mut output = BufWriter::new(std::io::stdout().lock());
    for hit in &hits {
        let line = if arguments.json {
            json!({"session": hit.session, "first": hit.first, "last": hit.last, "time": hit.time.0,
                "kind": hit.kind.as_str(), "excerpt": hit.excerpt, "withdrawn": hit.withdrawn})
            .to_string()
        } else {
            format!(
                "{} #{} {} {}{}: {}",
                hit.session,
                hit.first,
                hit.time,
                hit.kind.as_str(),
                if hit.withdrawn { " (withdrawn later)" } else { "" },
                shown(&hit.excerpt)
            )
        };
        writeln!(output, "{line}").map_err(write_error)?;
    }
    output.flush().map_err(write_error)?;
    Ok(if hits.is_empty() { Outcome::Problems } else { Outcome::Fine })
}
