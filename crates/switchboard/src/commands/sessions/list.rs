use std::io::{BufWriter, Write};

use serde_json::json;
use switchboard_store::{Filter, Moment, Store, Summary};

use crate::commands::fold::text::shown;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::store_file::{self, store_error};
use crate::units::{moment, size};

/// Filters for sessions.
#[derive(Debug, clap::Args)]
pub(super) struct FilterArguments {
    /// Only agents whose name contains this text
    #[arg(long)]
    agent: Option<String>,

    /// Only sessions in this folder or below it
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,

    /// Only sessions whose title contains this text
    #[arg(long)]
    title: Option<String>,

    /// Only sessions changed since a date (2026-11-15) or within a duration (12h, 30d)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Moment>,

    /// Only sessions started before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Moment>,
}

impl FilterArguments {
    pub(super) fn filter(&self) -> Filter {
        Filter {
            agent: self.agent.clone(),
            project: self.project.clone(),
            title: self.title.clone(),
            since: self.since,
            until: self.until,
            limit: None,
            more: switchboard_acp::More,
        }
    }
}

/// List sessions, latest first
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    filter: FilterArguments,

    /// Maximum number of sessions
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,

    /// Print one JSON object per session
    #[arg(long)]
    json: bool,
}

pub(super) fn run(store: &Store, arguments: &Arguments) -> Result<Outcome, CommandError> {
    let filter = Filter { limit: arguments.limit, ..arguments.filter.filter() };
    let mut output = BufWriter::new(std::io::stdout().lock());
    let sessions = store.sessions(&filter).map_err(store_error)?;
    if sessions.is_empty() {
        eprintln!("no such sessions in {}", store.path().display());
    }
    for session in sessions {
        let line = if arguments.json { to_json(&session) } else { to_text(&session) };
        writeln!(output, "{line}").map_err(write_error)?;
    }
    output.flush().map_err(write_error)?;
    store_file::report_kept_files(store)?;
    store_file::report_gaps(store, None)
}

fn to_json(session: &Summary) -> String {
    json!({
        "id": session.id,
        "wireIds": session.wire_ids,
        "agent": session.about.agent,
        "client": session.about.client,
        "project": session.about.project,
        "title": session.about.title,
        "protocolVersion": (session.protocol > 0).then_some(session.protocol),
        "began": session.began.0,
        "changed": session.changed.0,
        "records": session.length,
        "bytes": session.bytes,
        "closed": session.closed,
    })
    .to_string()
}

fn to_text(session: &Summary) -> String {
    let one_line = |text: &Option<String>| shown(text.as_deref().unwrap_or("-")).replace(['\n', '\t'], " ");
    format!(
        "{}  {}  {:>6} records {:>8}  {}  {}  {}",
        session.id,
        session.changed,
        session.length,
        size(session.bytes),
        one_line(&session.about.agent),
        one_line(&session.about.project),
        one_line(&session.about.title),
    )
}
