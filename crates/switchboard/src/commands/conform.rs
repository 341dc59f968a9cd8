//! `switchboard conform`: conformance tests of agents, clients and recordings.

mod agent;
mod client;
mod recording;

use std::io::Write;
use std::path::{Path, PathBuf};

use switchboard_conform::render::{self, Transcripts};
use switchboard_conform::{Baseline, RULES, Report, RuleId, Verdict};

use crate::outcome::{CommandError, Outcome, write_error};
use crate::standard_error;

/// Test whether agents, clients and recordings follow the protocol, rule by rule
///
/// Exit codes: 0 conformant, 1 not conformant, 2 invalid usage, 4 not judged because of a login, a version,
/// or missing input.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  switchboard conform recording session.jsonl --format markdown")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    subject: Option<Subject>,

    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Debug, clap::Subcommand)]
enum Subject {
    Agent(agent::Arguments),
    Client(client::Arguments),
    #[command(hide = true)]
    Peer(client::PeerArguments),
    Recording(recording::Arguments),
}

/// Report options.
#[derive(Debug, clap::Args)]
struct Reporting {
    /// Format of the report
    #[arg(long, value_enum, default_value = "text", global = true)]
    format: Format,

    /// File of known failures: they pass, new failures fail, and so do stale entries
    ///
    /// One rule per line, or `SUBJECT: RULE`; or a report written with --format json.
    #[arg(long, value_name = "FILE", global = true)]
    baseline: Option<PathBuf>,

    /// In text format, also list the rules that were kept, skipped or not tested
    #[arg(long, global = true)]
    all: bool,

    /// List all rules and test nothing
    #[arg(long, global = true)]
    list: bool,

    /// Explain one rule and test nothing
    #[arg(long, value_name = "ID", global = true)]
    explain: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Table for people
    Text,
    /// {"subject","verdict","rules":[{"id","strength","status","messages","reason"}]}; a list of them for
    /// several subjects
    Json,
    /// JUnit XML, which most CI systems read
    Junit,
    /// Markdown for a pull request
    Markdown,
    /// One HTML page with a matrix and the messages around each violation
    Html,
}

/// A tested subject, with the messages around its violations.
struct CheckedSubject {
    report: Report,
    transcript: std::collections::BTreeMap<u64, String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let reporting = &arguments.reporting;
    if let Some(id) = &reporting.explain {
        let rule = RuleId::find(id).ok_or_else(|| unknown_rule(id))?;
        return print(&match reporting.format {
            Format::Json => format!("{:#}\n", rule_as_json(rule)),
            _ => render::explanation(rule),
        });
    }
    if reporting.list {
        return print(&match reporting.format {
            Format::Json => {
                let rules: Vec<_> = RuleId::ALL.iter().copied().map(rule_as_json).collect();
                format!("{:#}\n", serde_json::Value::from(rules))
            }
            _ => render::list(),
        });
    }
    let baseline = reporting.baseline.as_deref().map(read_baseline).transpose()?;
    let needs_transcript = reporting.format == Format::Html;
    let judged = match &arguments.subject {
        Some(Subject::Agent(arguments)) => agent::check(arguments)?,
        Some(Subject::Client(arguments)) => client::check(arguments)?,
        Some(Subject::Peer(arguments)) => return client::play(arguments),
        Some(Subject::Recording(arguments)) => recording::check(arguments, needs_transcript)?,
        None => {
            return Err(CommandError::usage("nothing to test was specified")
                .hint("use `switchboard conform agent -- CMD`, `conform client -- CMD {agent}` or `conform recording FILE`")
                .hint("switchboard conform --list lists the rules"));
        }
    };
    report(judged, reporting, baseline.as_ref())
}

fn report(
    judged: Vec<CheckedSubject>,
    reporting: &Reporting,
    baseline: Option<&Baseline>,
) -> Result<Outcome, CommandError> {
    let (mut reports, transcripts): (Vec<_>, Transcripts) =
        judged.into_iter().map(|judged| (judged.report, judged.transcript)).unzip();
    let stale = baseline.map_or_else(Vec::new, |baseline| baseline.apply(&mut reports));
    let text = match reporting.format {
        Format::Text => render::text(&reports, reporting.all),
        Format::Json => match &*reports {
            [report] => format!("{:#}\n", report.to_json()),
            reports => {
                let all: Vec<_> = reports.iter().map(Report::to_json).collect();
                format!("{:#}\n", serde_json::Value::from(all))
            }
        },
        Format::Junit => render::junit(&reports),
        Format::Markdown => render::markdown(&reports),
        Format::Html => render::html(&reports, &transcripts),
    };
    print(&text)?;
    for report in reports.iter().filter(|_| reporting.format != Format::Text) {
        if let Some(reason) = &report.blocked {
            standard_error::say(format!("switchboard: {}: not judged: {reason}", report.subject));
        }
    }
    for entry in &stale {
        standard_error::say(format!("switchboard: the baseline is stale: {entry} no longer fails"));
    }
    let is = |verdict| reports.iter().any(|report| report.verdict == verdict);
    Ok(if is(Verdict::NotConformant) || !stale.is_empty() {
        Outcome::Problems
    } else if is(Verdict::NotJudged) {
        Outcome::NotJudged
    } else {
        Outcome::Fine
    })
}

fn print(text: &str) -> Result<Outcome, CommandError> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(write_error)?;
    Ok(Outcome::Fine)
}

fn read_baseline(path: &Path) -> Result<Baseline, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandError::usage(format!("cannot read the baseline {}: {error}", path.display()))
    })?;
    Baseline::parse(&text).map_err(|error| {
        CommandError::usage(format!("the baseline {}: {error}", path.display()))
            .hint("expected one rule per line, or a report of --format json; --list shows the rules")
    })
}

fn unknown_rule(name: &str) -> CommandError {
    let wanted = name.to_lowercase();
    let words: Vec<_> = wanted.split('-').filter(|word| word.len() > 3).collect();
    let similar: Vec<_> = RULES
        .iter()
        .map(|rule| rule.id)
        .filter(|id| id.contains(&wanted) || words.iter().any(|word| id.contains(word)))
        .take(8)
        .collect();
    let error = CommandError::usage(format!("unknown rule \"{name}\""));
    if similar.is_empty() {
        error.hint("switchboard conform --list lists all of them")
    } else {
        error.hint(format!("similar: {}", similar.join(", ")))
    }
}

fn rule_as_json(id: RuleId) -> serde_json::Value {
    let rule = id.rule();
    serde_json::json!({
        "id": rule.id,
        "versions": rule.versions.as_str(),
        "party": rule.party.as_str(),
        "strength": rule.strength.as_str(),
        "capability": rule.capability.trim_start_matches('/').replace('/', "."),
        "official": rule.official,
        "text": rule.text,
        "citation": rule.citation,
        "violation": rule.violation,
        "fix": rule.fix,
    })
}
