//! `switchboard policy audit`: deciders and rules of past permission requests.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use serde_json::{Value, json};
use switchboard_acp::extensions::{Author, HubRecord, SANDBOX};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Wire, WireFormat};
use switchboard_policy::{Question, QuestionReader, Relevance};
use switchboard_session::Settlement;
use switchboard_store::{Channel, Filter, Item, Moment, Record, Store, Summary};
use switchboard_web::message_address;

use super::explain::reader;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::policy_file::SystemFiles;
use crate::store_file::{self, store_error};

/// Print the decisions on permission requests as JSON lines
///
/// One line per request, in order: time, session, message, link (if the page has it), agent, client, request,
/// subject, rule, decision (allow, deny, or ask without an answer), reason, by (policy, person, client, or
/// null), who, option, judged (the decision of the rules), mode, and the hash of the rules.
///
/// What a sandbox has refused or found has lines of its own, by "sandbox": a host or path as the subject, the
/// decision (deny, or null for a protected name that was made or changed, and for a guess), and the count.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session ids in the store; all sessions if missing
    sessions: Vec<String>,

    /// Path of the store
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let place = store_file::place(arguments.store.as_ref())?;
    let store = Store::open_read_only(&place).map_err(store_error)?;
    let sessions = if arguments.sessions.is_empty() {
        let mut sessions = store.sessions(&Filter::default()).map_err(store_error)?;
        sessions.sort_by_key(|session| session.began);
        sessions
    } else {
        let named = arguments.sessions.iter().map(|id| store.session(id).map_err(store_error));
        named.collect::<Result<Vec<_>, _>>()?
    };
    let mut output = BufWriter::new(std::io::stdout().lock());
    let (mut outcome, relevance, files) = (Outcome::Fine, Relevance::new(), SystemFiles::new());
    for session in sessions {
        let mut audit =
            Audit { reader: reader(None, None)?, rows: Vec::new(), open: Vec::new(), of_sandbox: Vec::new() };
        for item in store.read(&session.id, 0).map_err(store_error)? {
            match item.map_err(store_error)? {
                Item::Record(record) => audit.take(&record, &relevance),
                Item::Gap { from, to, reason } => {
                    outcome = Outcome::Problems;
                    eprintln!("session {}, {}", session.id, store_file::gap_in_words(from, to, &reason));
                }
            }
        }
        let agent = audit.reader.agent().map(str::to_owned);
        let agent = agent.as_deref();
        let asked = audit.rows.iter().map(|row| (row.message, row.to_json(&session, agent, &files)));
        let found = audit.of_sandbox.iter().map(|row| (row.message, row.to_json(&session, agent)));
        let mut lines: Vec<(u64, Value)> = asked.chain(found).collect();
        lines.sort_by_key(|(message, _)| *message);
        for (_, line) in lines {
            writeln!(output, "{line}").map_err(write_error)?;
        }
    }
    output.flush().map_err(write_error)?;
    Ok(outcome)
}

/// A session that is being read.
struct Audit {
    reader: QuestionReader,
    rows: Vec<Row>,
    /// Indices of the pending questions.
    open: Vec<usize>,
    of_sandbox: Vec<SandboxRow>,
}

/// A notice of the sandbox of a session.
struct SandboxRow {
    message: u64,
    at: Moment,
    title: String,
    data: Value,
}

impl SandboxRow {
    /// Reads the notice in a message, if it is one about a refusal, a change, or a sandbox that was switched off.
    fn read(record: &Record) -> Option<Self> {
        let name = SANDBOX.name();
        memchr::memmem::find(&record.bytes, name.as_bytes())?;
        let message: Value = serde_json::from_slice(&record.bytes).ok()?;
        let update = message.pointer("/params/update")?;
        let data = update.get("_meta")?.get(name)?.clone();
        let counts = ["denied", "changed", "failed"].iter().any(|key| data.get(*key).is_some())
            || data.get("mode").is_some_and(|mode| mode == "off");
        let title = update.get("title").and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = store_file::message_number(record.sequence);
        counts.then_some(SandboxRow { message: number, at: record.time, title, data })
    }

    fn to_json(&self, session: &Summary, agent: Option<&str>) -> Value {
        let data = &self.data;
        let is_refusal = data["denied"] == "host";
        let subject = match data["denied"].as_str() {
            Some("host") => json!({"host": data["host"]}),
            Some(_) => json!({"path": data["path"]}),
            None => data.clone(),
        };
        json!({
            "time": self.at.0,
            "session": session.id,
            "message": self.message,
            "link": message_address(&session.id, self.message.saturating_sub(1)),
            "agent": agent.or(session.about.agent.as_deref()),
            "client": session.about.client,
            "subject": subject,
            "decision": is_refusal.then_some("deny"),
            "reason": self.title,
            "by": "sandbox",
            "count": data["count"],
        })
    }
}

/// A question and its result.
struct Row {
    message: u64,
    asked: Moment,
    answered: Option<Moment>,
    question: Question,
    /// The recorded decision of the rules, and the decider.
    judged: Option<Author<'static>>,
    by: Author<'static>,
    option: Option<String>,
    decision: &'static str,
}

impl Audit {
    fn take(&mut self, record: &Record, relevance: &Relevance) {
        let text = String::from_utf8_lossy(&record.bytes);
        if record.channel == Channel::Hub {
            return self.note(&text);
        }
        let Some((side, false)) = record.channel.message() else { return };
        self.of_sandbox.extend(SandboxRow::read(record));
        if !relevance.matters(&record.bytes) {
            return;
        }
        let asked = self.reader.read(&text, Some(side), Moment(0));
        // A question is settled before another one can reuse its id.
        self.settle(record.time);
        for question in asked {
            self.open.push(self.rows.len());
            self.rows.push(Row {
                message: store_file::message_number(record.sequence),
                asked: record.time,
                answered: None,
                question,
                judged: None,
                by: Author::new(),
                option: None,
                decision: "ask",
            });
        }
    }

    /// Applies a note about a pending question.
    fn note(&mut self, text: &str) {
        let (record, is_answer) = match HubRecord::parse(text) {
            Some(HubRecord::Judged(record)) => (record, false),
            Some(HubRecord::Answered(record)) => (record, true),
            _ => return,
        };
        let by = record.by.map_or_else(Author::new, Wire::into_owned);
        let is_noted = |row: &Row| row.question.id.is_some() && row.question.id == record.request;
        let open = self.open.iter().rev().copied();
        let Some(place) = open.into_iter().find(|place| self.rows.get(*place).is_some_and(is_noted)) else {
            return;
        };
        let Some(row) = self.rows.get_mut(place) else { return };
        // The earlier note stays: there may have been no user to ask.
        if !is_answer || (by.is_policy() && row.judged.is_none()) {
            row.judged = Some(by.clone());
        }
        if is_answer {
            row.by = by;
        }
    }

    fn settle(&mut self, at: Moment) {
        let (reader, rows) = (&self.reader, &mut self.rows);
        self.open.retain(|place| {
            let Some(row) = rows.get_mut(*place) else { return false };
            let permission = || {
                let session = reader.conversation().session(row.question.session.as_deref())?;
                session.permission(row.question.id.as_ref()?)
            };
            let Some(permission) = permission() else { return true };
            match permission.settlement() {
                Settlement::Pending => return true,
                Settlement::Answered { answer, .. } => row.option = Some(answer.to_string()),
                Settlement::Cancelled { .. } | Settlement::NotAnApproval { .. } => {}
            }
            row.decision = if permission.is_granted() { "allow" } else { "deny" };
            row.answered = Some(at);
            false
        });
    }
}

impl Row {
    fn to_json(&self, session: &Summary, agent: Option<&str>, files: &SystemFiles) -> Value {
        let by = &self.by;
        let nothing = Author::new();
        let judged = self.judged.as_ref().unwrap_or(&nothing);
        let who = by.person.as_ref().or(by.token.as_ref());
        let kind = match self.answered {
            None => None,
            Some(_) if by.is_policy() => Some("policy"),
            Some(_) if who.is_some() => Some("person"),
            Some(_) => Some("client"),
        };
        // As recorded at the time of the decision, because links may have changed since.
        let subject = match &judged.subject {
            Some(subject) => subject.to_value(),
            None => serde_json::from_str(self.question.subject.to_json(files).as_str()).unwrap_or_default(),
        };
        json!({
            "time": self.answered.unwrap_or(self.asked).0,
            "session": session.id,
            "message": self.message,
            "link": message_address(&session.id, self.message.saturating_sub(1)),
            "agent": agent.or(session.about.agent.as_deref()),
            "client": by.client.as_deref().or(session.about.client.as_deref()),
            "request": self.question.id.as_ref().map(to_value),
            "subject": subject,
            "rule": judged.policy.value(),
            "decision": self.decision,
            "reason": if by.is_policy() { &by.reason } else { &judged.reason },
            "by": kind,
            "who": who,
            "option": self.option,
            "judged": judged.decision,
            "mode": judged.mode,
            "hash": judged.hash,
        })
    }
}

fn to_value(id: &RequestId<'_>) -> Value {
    serde_json::from_str(&id.encode(WireFormat::Any)).unwrap_or_default()
}
