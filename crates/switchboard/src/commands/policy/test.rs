//! `switchboard policy test`: decisions of a policy on past requests.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::value::RawValue;
use switchboard_policy::{Decision, PastAnswer, Policy, Subject, Verdict};

use super::history::{self, Event, EventPosition, PastArguments};
use crate::commands::fold::text::shown;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::policy_file::{self, SystemFiles};
use crate::units::counted;

/// Test a policy file on past requests: which it would have allowed, asked and denied
///
/// Reads the store, or recordings, and prints how many questions would have been allowed, asked and denied,
/// where that differs from the recorded answers, and which tool calls ran without a question. Each is listed
/// with its session and message number, as in `sessions show --wire`; for a recording, with its line. Changes
/// nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  switchboard policy test switchboard-policy.toml recording.jsonl")]
pub(crate) struct Arguments {
    /// Policy file
    file: PathBuf,

    #[command(flatten)]
    past: PastArguments,

    /// Print every question and every call as JSON, one line each, and the counts as the last line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row<'r> {
    session: &'r str,
    message: u64,
    /// Set if a question was asked.
    asked: bool,
    decision: &'static str,
    rule: Option<&'r str>,
    reason: &'r str,
    /// The recorded answer; `None` for a call without a question.
    answered: Option<&'static str>,
    /// `rule` or `person`; `None` without an answer.
    answered_by: Option<&'static str>,
    /// Set if a person answered differently.
    differs: bool,
    subject: &'r RawValue,
}

/// Recorded result of a question.
#[derive(Clone, Copy)]
struct RecordedResult {
    answered: PastAnswer,
    by_rule: bool,
    differs: bool,
}

#[derive(Debug, Default, Serialize)]
struct Counts {
    sessions: u64,
    messages: u64,
    questions: u64,
    allowed: u64,
    asked: u64,
    denied: u64,
    /// Number of requests that the policy would have allowed and a person rejected, or the reverse.
    differences: u64,
    /// Number of answers by rules, and of those that the policy would have decided differently.
    answered_by_rule: u64,
    rule_differences: u64,
    /// Number of tool calls without a question, and of those that the policy allows.
    unasked: u64,
    unasked_allowed: u64,
    unasked_asked: u64,
    unasked_denied: u64,
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let host = SystemFiles::new();
    let policy = policy_file::load(&arguments.file, &host)?;
    let output = BufWriter::new(std::io::stdout().lock());
    let mut report = Report {
        policy,
        host,
        output,
        is_json: arguments.json,
        counts: Counts::default(),
        rows: Vec::new(),
        unasked: Vec::new(),
    };
    let (extent, outcome) =
        history::read(&arguments.past, |place, event| report.take(&place, event).map_err(write_error))?;
    (report.counts.sessions, report.counts.messages) = (extent.sessions, extent.messages);
    report.end().map_err(write_error)?;
    Ok(outcome)
}

/// Maximum number of rows shown.
const MAX_ROWS: usize = 200;

struct Report<W> {
    policy: Policy,
    host: SystemFiles,
    output: W,
    is_json: bool,
    counts: Counts,
    /// Differences as text.
    rows: Vec<String>,
    /// Calls without a question as text.
    unasked: Vec<String>,
}

impl<W: Write> Report<W> {
    fn take(&mut self, place: &EventPosition, event: Event) -> std::io::Result<()> {
        match event {
            Event::Asked { question, answered, by_rule } => {
                let decision = self.policy.evaluate(&question.subject, &self.host).offered(&question.options);
                let counts = &mut self.counts;
                counts.questions += 1;
                *match decision.verdict {
                    Verdict::Allow => &mut counts.allowed,
                    Verdict::Ask => &mut counts.asked,
                    Verdict::Deny => &mut counts.denied,
                } += 1;
                let differs = matches!(
                    (decision.verdict, answered),
                    (Verdict::Allow, PastAnswer::Rejected | PastAnswer::Cancelled)
                        | (Verdict::Deny, PastAnswer::Allowed)
                );
                counts.answered_by_rule += u64::from(by_rule);
                *match by_rule {
                    true => &mut counts.rule_differences,
                    false => &mut counts.differences,
                } += u64::from(differs);
                if self.is_json {
                    let then = RecordedResult { answered, by_rule, differs: differs && !by_rule };
                    return self.row(place, &question.subject, &decision, Some(then));
                }
                if differs && self.rows.len() < MAX_ROWS {
                    let by = if by_rule { " by a rule" } else { "" };
                    let then = format!("{} then{by}", answered.as_str());
                    self.rows.push(row(place, &question.subject, &decision, &then));
                }
            }
            Event::Unasked(subject) => {
                let decision = self.policy.evaluate(&subject, &self.host);
                let counts = &mut self.counts;
                counts.unasked += 1;
                *match decision.verdict {
                    Verdict::Allow => &mut counts.unasked_allowed,
                    Verdict::Ask => &mut counts.unasked_asked,
                    Verdict::Deny => &mut counts.unasked_denied,
                } += 1;
                if self.is_json {
                    return self.row(place, &subject, &decision, None);
                }
                if decision.verdict != Verdict::Allow && self.unasked.len() < MAX_ROWS {
                    self.unasked.push(row(place, &subject, &decision, "ran unasked"));
                }
            }
        }
        Ok(())
    }

    fn row(
        &mut self,
        place: &EventPosition,
        subject: &Subject,
        decision: &Decision,
        then: Option<RecordedResult>,
    ) -> std::io::Result<()> {
        let json = subject.to_json(&self.host);
        let row = Row {
            session: &place.session,
            message: place.message,
            asked: then.is_some(),
            decision: decision.verdict.as_str(),
            rule: decision.rule.as_deref(),
            reason: &decision.reason,
            answered: then.map(|then| then.answered.as_str()),
            answered_by: then.filter(|then| then.answered != PastAnswer::Open).map(|then| {
                match then.by_rule {
                    true => "rule",
                    false => "person",
                }
            }),
            differs: then.is_some_and(|then| then.differs),
            subject: serde_json::from_str(json.as_str())?,
        };
        serde_json::to_writer(&mut self.output, &row)?;
        self.output.write_all(b"\n")
    }

    fn end(mut self) -> std::io::Result<()> {
        let counts = &self.counts;
        if self.is_json {
            serde_json::to_writer(&mut self.output, &serde_json::json!({ "counts": counts }))?;
            writeln!(self.output)?;
            return self.output.flush();
        }
        writeln!(
            self.output,
            "{} in {} ({})",
            counted(counts.questions, "question"),
            counted(counts.sessions, "session"),
            counted(counts.messages, "message")
        )?;
        writeln!(
            self.output,
            "  {} would have been allowed, {} asked, {} denied",
            counts.allowed, counts.asked, counts.denied
        )?;
        write!(self.output, "{} differ from the recorded answers", counts.differences)?;
        if counts.answered_by_rule > 0 {
            let (all, differ) = (counts.answered_by_rule, counts.rule_differences);
            write!(self.output, " of people; {differ} differ from the {all} answers of rules")?;
        }
        writeln!(self.output)?;
        self.rows.iter().try_for_each(|row| writeln!(self.output, "  {row}"))?;
        rest(&mut self.output, counts.differences + counts.rule_differences, self.rows.len())?;
        writeln!(self.output, "{} tool calls ran without any question", counts.unasked)?;
        writeln!(
            self.output,
            "  {} of them are allowed by these rules, {} would be asked about, {} are denied",
            counts.unasked_allowed, counts.unasked_asked, counts.unasked_denied
        )?;
        self.unasked.iter().try_for_each(|row| writeln!(self.output, "  {row}"))?;
        rest(&mut self.output, counts.unasked_asked + counts.unasked_denied, self.unasked.len())?;
        self.output.flush()
    }
}

fn rest(output: &mut impl Write, all: u64, shown: usize) -> std::io::Result<()> {
    match all.saturating_sub(shown as u64) {
        0 => Ok(()),
        more => writeln!(output, "  and {more} more; --json has all of them"),
    }
}

fn row(place: &EventPosition, subject: &Subject, decision: &Decision, then: &str) -> String {
    let rule = decision.rule.as_deref().map_or_else(String::new, |rule| format!(" by {rule}"));
    let what = format!("{}{rule}, {then}: {}", decision.verdict, subject.summary());
    format!("{} (session {}, message {})", shown(&what).replace('\n', " "), place.session, place.message)
}
