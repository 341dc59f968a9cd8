use std::io::{BufWriter, Write};

use serde_json::json;
use switchboard_store::{Filter, Moment, Store, Summary};

use crate::outcome::{CommandError, Outcome, write_error};
use crate::store_file::{self, store_error};
use crate::terminal::style::Style;
use crate::terminal::table::Table;
use crate::terminal::text::visible_path;
use crate::units::{ago, moment, size};

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
        eprintln!("no sessions match in {}", store.path().display());
    }
    if arguments.json {
        for session in &sessions {
            writeln!(output, "{}", to_json(session)).map_err(write_error)?;
        }
    } else {
        to_table(&sessions).write(Style::of_output(), &mut output).map_err(write_error)?;
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

fn to_table(sessions: &[Summary]) -> Table {
    let now = Moment::now();
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let mut table = Table::new(&["ID", "CHANGED", "RECORDS", "SIZE", "AGENT", "FOLDER", "TITLE"]);
    for session in sessions {
        let folder = session.about.project.as_deref().map_or_else(|| "-".to_owned(), visible_path);
        table.row([
            session.id.clone(),
            ago(session.changed, now),
            session.length.to_string(),
            size(session.bytes),
            known(&session.about.agent),
            folder,
            known(&session.about.title),
        ]);
    }
    table
}
