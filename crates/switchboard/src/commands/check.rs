//! `switchboard check`: a verdict for each line.

use std::io::{BufWriter, Write};

use serde::Serialize;
use serde_json::value::RawValue;
use switchboard_acp::check::{Checker, Finding, Rules, Verdict};
use switchboard_acp::{WireFormat, WireType, wire_type, wire_types};

use crate::arguments::{InputArgument, RevisionArguments};
use crate::lines::{Line, Lines, MAX_LINE};
use crate::outcome::{CommandError, Outcome, write_error};

/// Validate protocol messages, one verdict per line
///
/// Reads JSON lines: complete messages, recorded lines ({"dir":"client->agent","msg":{...}}), or with --type
/// bare values of one type. Writes {"line","valid","errors","warnings"} for each. A response is validated by
/// its request if that was in the input. Exit code 1 if a line is not valid.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    echo '{\"sessionUpdate\":\"tool_call_update\",\"title\":\"Read\"}' | switchboard check --type SessionUpdate")]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: InputArgument,

    #[command(flatten)]
    revision: RevisionArguments,

    /// Treat each line as a bare value of this wire type, such as SessionUpdate or DiffChange
    #[arg(long = "type", value_name = "NAME")]
    type_name: Option<String>,

    /// Accept malformed optional fields and list items with a warning
    #[arg(long)]
    tolerant: bool,

    /// Print each valid value again as "value", encoded in the chosen dialect
    #[arg(long)]
    roundtrip: bool,
}

/// The printed verdict on a line.
#[derive(Serialize)]
struct Report<'v> {
    line: u64,
    valid: bool,
    errors: Vec<ReportedFinding<'v>>,
    warnings: Vec<ReportedFinding<'v>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'v RawValue>,
}

#[derive(Serialize)]
struct ReportedFinding<'v> {
    pointer: &'v str,
    message: &'v str,
}

impl<'v> From<&'v Finding> for ReportedFinding<'v> {
    fn from(finding: &'v Finding) -> Self {
        ReportedFinding { pointer: &finding.pointer, message: &finding.message }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let revision = arguments.revision.revision();
    let wire_type = arguments.type_name.as_deref().map(|name| find_type(name, revision)).transpose()?;
    let rules = Rules { revision, tolerant: arguments.tolerant, write_back: arguments.roundtrip, wire_type };
    let mut checker = Checker::new(rules);
    let mut lines = Lines::new(arguments.input.open()?);
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut outcome = Outcome::Fine;
    loop {
        let verdict = match lines.next() {
            Ok(Some(Line::Text(text))) => checker.check(text),
            Ok(Some(Line::TooLong { length })) => {
                Verdict::error(format!("expected at most {MAX_LINE} bytes in a line, found {length}"))
            }
            Ok(None) => break,
            Err(error) => {
                let name = arguments.input.name();
                return Err(CommandError::failed(format!("cannot read {name}: {error}")));
            }
        };
        if !verdict.is_valid() {
            outcome = Outcome::Problems;
        }
        write_report(&mut output, lines.number(), &verdict).map_err(write_error)?;
    }
    output.flush().map_err(write_error)?;
    Ok(outcome)
}

fn write_report(output: &mut impl Write, line: u64, verdict: &Verdict) -> std::io::Result<()> {
    let report = Report {
        line,
        valid: verdict.is_valid(),
        errors: verdict.errors.iter().map(Into::into).collect(),
        warnings: verdict.warnings.iter().map(Into::into).collect(),
        value: verdict.value.as_deref().map(serde_json::from_str).transpose()?,
    };
    serde_json::to_writer(&mut *output, &report)?;
    output.write_all(b"\n")
}

fn find_type(name: &str, revision: WireFormat) -> Result<&'static WireType, CommandError> {
    if let Some(wire_type) = wire_type(name, revision) {
        return Ok(wire_type);
    }
    let wanted = name.to_lowercase();
    let similar: Vec<_> = wire_types(revision)
        .map(|wire_type| wire_type.name)
        .filter(|known| known.to_lowercase().contains(&wanted) || wanted.contains(&known.to_lowercase()))
        .collect();
    let error = CommandError::usage(format!("unknown wire type \"{name}\" in this version"));
    Err(if similar.is_empty() {
        error.hint("`switchboard schema` lists all types under \"$defs\"")
    } else {
        error.hint(format!("similar: {}", similar.join(", ")))
    })
}
