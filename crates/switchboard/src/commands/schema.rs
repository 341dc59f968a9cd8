//! `switchboard schema`: the JSON Schema of the wire types.

use std::io::Write;

use switchboard_acp::json_schema;

use crate::arguments::RevisionArguments;
use crate::outcome::{CommandError, Outcome, write_error};

/// Print the JSON Schema of all wire types
///
/// One document that describes messages, with every type under "$defs", for JSON Schema validators from draft
/// 7 to 2020-12. --dialect any accepts both dialects of version 2.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    revision: RevisionArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let schema = json_schema(arguments.revision.revision());
    writeln!(std::io::stdout(), "{schema:#}").map_err(write_error)?;
    Ok(Outcome::Fine)
}
