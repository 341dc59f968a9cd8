//! `switchboard policy explain`: decisions of a policy on requests, with reasons.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::value::RawValue;
use switchboard_acp::{Recorded, RecordedLine};
use switchboard_policy::{
    Decision, PathEffect, Policy, Question, QuestionReader, SandboxMode, SubjectPath, Verdict,
};
use switchboard_session::Moment;
use switchboard_store::{Item, Store};

use crate::arguments::InputArgument;
use crate::commands::fold::text::shown;
use crate::lines::{Line, Lines};
use crate::outcome::{CommandError, Outcome, write_error};
use crate::policy_file::{self, SystemFiles};
use crate::rules::VERSION_1;
use crate::store_file::{self, message_number, store_error};

/// Explain the decision of a policy on each permission request
///
/// Reads JSON lines: messages of either version or recorded lines ({"dir":"agent->client","msg":{...}});
/// earlier updates form the tool call of a request. Writes one line for each session/request_permission:
/// {"decision","rule","reason","subject":{"command","source","paths","kind"}}; on a terminal the same as
/// text. If the policy switches on a sandbox, "sandbox" has its effect on each path. Only the given policy file applies, and it is trusted. An invalid file is reported, every request is
/// asked, and the exit code is 1.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  switchboard policy explain --permissions switchboard-policy.toml --root . recording.jsonl"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: InputArgument,

    /// Policy file
    #[arg(long, value_name = "FILE", alias = "policy")]
    permissions: PathBuf,

    /// Value of $root, and default working directory of commands; default: the session's directory, or the
    /// current one
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Name of the agent, overriding the one in the input
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Read a session of the store instead
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    session: Option<String>,

    /// Only the request with this number, as in `sessions show --wire`; for other input, on this line
    #[arg(long, value_name = "NUMBER")]
    message: Option<u64>,

    /// Path of the store
    #[arg(long, value_name = "FILE", requires = "session")]
    store: Option<PathBuf>,
}

/// The printed decision on a request.
#[derive(Serialize)]
struct Explained<'d> {
    decision: &'static str,
    rule: Option<&'d str>,
    reason: &'d str,
    subject: &'d RawValue,
    /// Access to the paths of the request in the sandbox of the policy, if it has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sandbox: Vec<SandboxAccess>,
}

/// The effect of the rules on a path in a sandbox.
#[derive(Serialize)]
struct SandboxAccess {
    path: String,
    access: &'static str,
    rule: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let host = SystemFiles::new();
    let (policy, refused) = match policy_file::load(&arguments.permissions, &host) {
        Ok(policy) => (policy, None),
        Err(refused) => {
            eprintln!("switchboard: {refused}");
            eprintln!("  so every request is asked");
            (Policy::ask(), Some(format!("the rules cannot be used: {refused}")))
        }
    };
    let outcome = if refused.is_some() { Outcome::Problems } else { Outcome::Fine };
    let output = BufWriter::new(std::io::stdout().lock());
    let is_for_people = std::io::stdout().is_terminal();
    let mut explainer =
        Explainer { policy, refused, host, output, is_for_people, outcome, only: arguments.message };
    match &arguments.session {
        Some(session) => explainer.session(session, arguments)?,
        None => explainer.input(arguments)?,
    }
    explainer.output.flush().map_err(write_error)?;
    Ok(explainer.outcome)
}

/// Creates a question reader from the options.
pub(super) fn reader(root: Option<&PathBuf>, agent: Option<&str>) -> Result<QuestionReader, CommandError> {
    let absolute = |path: &PathBuf| {
        let path = std::path::absolute(path).ok().and_then(|path| path.into_os_string().into_string().ok());
        path.ok_or_else(|| CommandError::usage("the root is not a usable path"))
    };
    let mut reader = match root {
        Some(root) => QuestionReader::new(absolute(root)?),
        None => QuestionReader::without_root(absolute(&PathBuf::from(".")).unwrap_or_default()),
    };
    if let Some(agent) = agent {
        reader.set_agent(agent);
    }
    Ok(reader.reading_version_1(VERSION_1))
}

struct Explainer<W> {
    policy: Policy,
    /// Reason why the rules do not apply.
    refused: Option<String>,
    host: SystemFiles,
    output: W,
    is_for_people: bool,
    outcome: Outcome,
    only: Option<u64>,
}

impl<W: Write> Explainer<W> {
    fn input(&mut self, arguments: &Arguments) -> Result<(), CommandError> {
        let new = || reader(arguments.root.as_ref(), arguments.agent.as_deref());
        let mut reader = new()?;
        let mut lines = Lines::of(&arguments.input)?;
        let cannot_read =
            |error| CommandError::failed(format!("cannot read {}: {error}", arguments.input.name()));
        let mut number = 0;
        while let Some(found) = lines.next().map_err(cannot_read)? {
            number += 1;
            let read = match found {
                Line::TooLong { length } => Err((format!("the line is too long: {length} bytes"), false)),
                Line::Text(bytes) => read_line(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)),
            };
            let line = match read {
                Ok(Some(line)) => line,
                Ok(None) => continue,
                // It may have requested anything.
                Err((problem, true)) => {
                    let question = reader.unreadable(&problem);
                    self.explain(number, &question)?;
                    continue;
                }
                Err((problem, false)) => {
                    self.outcome = Outcome::Problems;
                    eprintln!("line {number}: {problem}");
                    continue;
                }
            };
            if line.began.is_some() {
                reader = new()?;
            }
            if let Recorded::Message { from, other_side: false, text } = &line.recorded {
                for question in reader.read(text, *from, Moment(0)) {
                    self.explain(number, &question)?;
                }
            }
        }
        Ok(())
    }

    fn session(&mut self, id: &str, arguments: &Arguments) -> Result<(), CommandError> {
        let place = store_file::place(arguments.store.as_ref())?;
        let store = Store::open_read_only(&place).map_err(store_error)?;
        let session = store.session(id).map_err(store_error)?;
        let mut reader = reader(arguments.root.as_ref(), arguments.agent.as_deref())?;
        for item in store.read(&session.id, 0).map_err(store_error)? {
            match item.map_err(store_error)? {
                Item::Record(record) => {
                    let Some((side, false)) = record.channel.message() else { continue };
                    let text = String::from_utf8_lossy(&record.bytes);
                    for question in reader.read(&text, Some(side), Moment(0)) {
                        self.explain(message_number(record.sequence), &question)?;
                    }
                }
                Item::Gap { from, to, reason } => {
                    self.outcome = Outcome::Problems;
                    eprintln!("{}", store_file::gap_in_words(from, to, &reason));
                }
            }
        }
        Ok(())
    }

    fn explain(&mut self, number: u64, question: &Question) -> Result<(), CommandError> {
        if self.only.is_some_and(|only| only != number) {
            return Ok(());
        }
        let mut decision = self.policy.evaluate(&question.subject, &self.host).offered(&question.options);
        if let Some(refused) = &self.refused {
            decision.reason.clone_from(refused);
        }
        self.write(number, question, &decision).map_err(write_error)
    }

    fn write(&mut self, number: u64, question: &Question, decision: &Decision) -> std::io::Result<()> {
        let subject = question.subject.to_json(&self.host);
        if !self.is_for_people {
            let explained = Explained {
                decision: decision.verdict.as_str(),
                rule: decision.rule.as_deref(),
                reason: &decision.reason,
                subject: serde_json::from_str(subject.as_str())?,
                sandbox: self.sandbox(question),
            };
            serde_json::to_writer(&mut self.output, &explained)?;
            return self.output.write_all(b"\n");
        }
        let word = match decision.verdict {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask  ",
            Verdict::Deny => "deny ",
        };
        writeln!(self.output, "{word} {}", shown(&question.subject.summary()))?;
        let by = decision.rule.as_deref().map_or_else(|| "no rule".to_owned(), |rule| format!("rule {rule}"));
        writeln!(self.output, "      {}, message {number}: {}", shown(&by), shown(&decision.reason))?;
        for SandboxAccess { path, access, rule } in self.sandbox(question) {
            let by = rule.map(|rule| format!(" by the rule {rule}")).unwrap_or_default();
            writeln!(self.output, "      sandbox: {} is {access}{}", shown(&path), shown(&by))?;
        }
        Ok(())
    }

    /// Returns the effect of the rules on the paths of a request, if the policy switches on a sandbox.
    fn sandbox(&self, question: &Question) -> Vec<SandboxAccess> {
        let mode = self.policy.sandbox().mode.filter(|mode| *mode != SandboxMode::Off);
        let Some(mode) = mode else { return Vec::new() };
        let subject = &question.subject;
        let rules = self.policy.path_rules(None, mode, &[subject.root().to_owned()], &self.host);
        let access = |path: &SubjectPath| {
            let full = std::path::Path::new(subject.cwd()).join(&path.path);
            let closed = rules.effect(&full.to_string_lossy());
            SandboxAccess {
                path: path.path.clone(),
                access: match closed.map(|(_, effect)| effect) {
                    Some(PathEffect::Hidden) => "hidden",
                    Some(PathEffect::ReadOnly) => "read-only",
                    None => "not closed",
                },
                rule: closed.map(|(rule, _)| rule.id.clone()),
            }
        };
        subject.paths().iter().map(access).collect()
    }
}

/// Parses a line that is not empty; on failure, the reason, and whether it may be a permission request.
fn read_line(bytes: &[u8]) -> Result<Option<RecordedLine<'_>>, (String, bool)> {
    const REQUEST: &[u8] = b"\"session/request_permission\"";
    if bytes.trim_ascii().is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| format!("the line is not UTF-8: {error}"));
    let line = text.and_then(|text| {
        RecordedLine::parse(text).map_err(|error| format!("the line cannot be read: {error}"))
    });
    line.map(Some).map_err(|problem| (problem, memchr::memmem::find(bytes, REQUEST).is_some()))
}
