use std::io::{BufWriter, Write};

use serde_json::json;
use switchboard_store::{Share, Store};

use super::list::FilterArguments;
use crate::commands::fold::text::shown;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::store_file::store_error;
use crate::units::size;

/// Show bytes on the wire and bytes of content, by agent and tool
///
/// The last column is the number of bytes on the wire per byte of content.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    filter: FilterArguments,

    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

pub(super) fn run(store: &Store, arguments: &Arguments) -> Result<Outcome, CommandError> {
    let statistics = store.statistics(&arguments.filter.filter()).map_err(store_error)?;
    let sizes = store.sizes().map_err(store_error)?;
    let mut output = BufWriter::new(std::io::stdout().lock());
    for (agent, share) in &statistics.agents {
        let mut lines = vec![(None, share)];
        let mut kinds: Vec<_> = statistics.kinds.iter().filter(|((of, _), _)| of == agent).collect();
        kinds.sort_by_key(|(_, share)| std::cmp::Reverse(share.wire));
        lines.extend(kinds.into_iter().map(|((_, kind), share)| (Some(kind.as_str()), share)));
        for (kind, share) in lines {
            let line = if arguments.json { to_json(agent, kind, share) } else { to_text(agent, kind, share) };
            writeln!(output, "{line}").map_err(write_error)?;
        }
    }
    if arguments.json {
        let store = json!({"store": {"wire": sizes.wire, "journal": sizes.journal,
            "checkpoints": sizes.checkpoints, "used": sizes.used, "file": sizes.file}});
        writeln!(output, "{store}").map_err(write_error)?;
    } else {
        writeln!(
            output,
            "store: {} on the wire, {} in the journal, {} in checkpoints, {} in the file",
            size(sizes.wire),
            size(sizes.journal),
            size(sizes.checkpoints),
            size(sizes.file)
        )
        .map_err(write_error)?;
    }
    output.flush().map_err(write_error)?;
    if statistics.unreadable > 0 {
        eprintln!("{} records cannot be read, and are not counted", statistics.unreadable);
        return Ok(Outcome::Problems);
    }
    Ok(Outcome::Fine)
}

fn to_json(agent: &str, kind: Option<&str>, share: &Share) -> String {
    json!({"agent": agent, "kind": kind, "records": share.records, "wire": share.wire,
        "content": share.content, "amplification": share.amplification()})
    .to_string()
}

fn to_text(agent: &str, kind: Option<&str>, share: &Share) -> String {
    let name = kind.map_or_else(|| shown(agent), |kind| format!("  {}", shown(kind)));
    let amplification = share.amplification().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1} x"));
    format!(
        "{name:<44} {:>7} records {:>9} wire {:>9} content {amplification:>9}",
        share.records,
        size(share.wire),
        size(share.content)
    )
}
