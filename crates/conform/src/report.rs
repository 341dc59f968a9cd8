//! Findings and the report.

use std::collections::BTreeSet;

use serde::Serialize;
use switchboard_acp::{Side, Version};

use crate::rule::{Party, Rule, Strength, Versions};
use crate::rules::RuleId;

/// Maximum number of violations kept per rule.
const MOST_FAILURES: usize = 1000;
/// Maximum length of a reason in characters.
const LONGEST_REASON: usize = 400;

/// Status of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Status {
    /// Kept wherever it applied.
    #[serde(rename = "pass")]
    Pass,
    /// Broken.
    #[serde(rename = "fail")]
    Fail,
    /// Does not apply to this peer.
    #[serde(rename = "skipped")]
    Skipped,
    /// No message showed whether it is kept.
    #[serde(rename = "not tested")]
    NotTested,
}

impl Status {
    /// Returns the status as words.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Fail => "fail",
            Status::Skipped => "skipped",
            Status::NotTested => "not tested",
        }
    }
}

/// Verdict over all rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Verdict {
    /// No rule that counts was broken.
    #[serde(rename = "conformant")]
    Conformant,
    /// A rule that counts was broken.
    #[serde(rename = "not conformant")]
    NotConformant,
    /// Nothing could be checked.
    #[serde(rename = "not judged")]
    NotJudged,
}

impl Verdict {
    /// Returns the verdict as words.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Conformant => "conformant",
            Verdict::NotConformant => "not conformant",
            Verdict::NotJudged => "not judged",
        }
    }
}

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The number of the message that breaks the rule.
    pub message: u64,
    /// Description of the violation.
    pub reason: String,
}

#[derive(Debug, Clone, Default)]
struct Record {
    kept: u64,
    failures: Vec<Failure>,
    /// Number of violations beyond those that are kept.
    more: u64,
    noted: Vec<Failure>,
}

/// Results of the checks by rule.
#[derive(Debug, Clone)]
pub struct Findings {
    records: Vec<Record>,
    /// The only side that is checked.
    only: Option<Side>,
    /// The sender of the current message, for rules of both sides.
    pub(crate) speaker: Option<Side>,
    pub(crate) versions: BTreeSet<u16>,
    pub(crate) agent_capabilities: Option<serde_json::Value>,
    pub(crate) is_spec_dialect: bool,
    pub(crate) blocked: Option<String>,
}

impl Findings {
    /// Creates empty findings. With a side, only that side's obligations are checked.
    pub fn new(only: Option<Side>) -> Self {
        Findings {
            records: vec![Record::default(); RuleId::ALL.len()],
            only,
            speaker: None,
            versions: BTreeSet::new(),
            agent_capabilities: None,
            is_spec_dialect: false,
            blocked: None,
        }
    }

    /// Records that a rule was kept.
    pub fn kept(&mut self, rule: RuleId) {
        if self.is_of_other(rule) {
            return;
        }
        self.records[rule as usize].kept += 1;
    }

    /// Records that a message breaks a rule. Counted once per message and rule.
    pub fn broken(&mut self, rule: RuleId, message: u64, reason: impl Into<String>) {
        if self.is_of_other(rule) {
            return;
        }
        let record = &mut self.records[rule as usize];
        let reason = shortened(reason.into());
        if rule.rule().strength == Strength::Recorded {
            record.kept += 1;
            if record.noted.len() < MOST_FAILURES {
                record.noted.push(Failure { message, reason });
            }
        } else if record.failures.iter().rev().take(64).any(|failure| failure.message == message) {
            // Already reported.
        } else if record.failures.len() < MOST_FAILURES {
            record.failures.push(Failure { message, reason });
        } else {
            record.more += 1;
        }
    }

    /// Records that a message keeps or breaks a rule.
    pub fn check(&mut self, rule: RuleId, message: u64, is_kept: bool, reason: impl FnOnce() -> String) {
        if is_kept { self.kept(rule) } else { self.broken(rule, message, reason()) }
    }

    /// Returns whether the current sender is not the side that is checked.
    fn is_of_other(&self, rule: RuleId) -> bool {
        let is_both = rule.rule().party == Party::Both;
        is_both && self.only.zip(self.speaker).is_some_and(|(only, speaker)| only != speaker)
    }

    /// Marks the subject as not checkable, with the reason.
    pub fn block(&mut self, reason: impl Into<String>) {
        self.blocked.get_or_insert_with(|| reason.into());
    }

    /// Returns whether a rule was kept or broken so far.
    pub fn has_judged(&self, rule: RuleId) -> bool {
        let record = &self.records[rule as usize];
        record.kept > 0 || !record.failures.is_empty()
    }

    /// Adds the findings of another conversation with the same subject.
    pub fn merge(&mut self, other: Findings) {
        for (record, more) in self.records.iter_mut().zip(other.records) {
            record.kept += more.kept;
            record.more += more.more;
            for failure in more.failures {
                if !record.failures.iter().rev().take(64).any(|known| known.message == failure.message) {
                    record.failures.push(failure);
                }
            }
            record.noted.extend(more.noted);
            record.failures.truncate(MOST_FAILURES);
            record.noted.truncate(MOST_FAILURES);
        }
        self.versions.extend(other.versions);
        self.is_spec_dialect |= other.is_spec_dialect;
        if other.agent_capabilities.is_some() {
            self.agent_capabilities = other.agent_capabilities;
        }
    }

    fn applies(&self, rule: &Rule) -> bool {
        let versions = match rule.versions {
            Versions::All => true,
            Versions::V1 => self.versions.contains(&Version::V1.number()),
            Versions::V2 | Versions::V2Newest => self.versions.contains(&Version::V2.number()),
        };
        versions && self.only.is_none_or(|side| rule.party.includes(side))
    }

    fn skipped(&self, rule: &Rule) -> Option<String> {
        if rule.versions == Versions::V2Newest && self.is_spec_dialect {
            return Some("the agent speaks the dialect \"spec\", which does not have it".to_owned());
        }
        let capabilities = self.agent_capabilities.as_ref()?;
        let is_missing = !rule.capability.is_empty()
            && capabilities
                .pointer(rule.capability)
                .is_none_or(|value| value.is_null() || value == &serde_json::Value::Bool(false));
        is_missing.then(|| {
            format!(
                "the agent does not advertise {}",
                rule.capability.trim_start_matches('/').replace('/', ".")
            )
        })
    }

    /// Creates the report on a subject.
    pub fn report(mut self, subject: impl Into<String>) -> Report {
        for record in &mut self.records {
            record.failures.sort_by_key(|failure| failure.message);
        }
        let mut rules = Vec::new();
        let mut judged = 0;
        for (id, record) in RuleId::ALL.iter().zip(&self.records) {
            let rule = id.rule();
            if !self.applies(rule) {
                continue;
            }
            judged += record.kept;
            rules.push(self.judged(*id, rule, record));
        }
        let fails = |rule: &RuleResult| rule.status == Status::Fail && rule.rule.rule().strength.counts();
        let verdict = if rules.iter().any(fails) {
            Verdict::NotConformant
        } else if judged == 0 || self.versions.is_empty() || self.blocked.is_some() {
            Verdict::NotJudged
        } else {
            Verdict::Conformant
        };
        let (blocked, hindrance) = match verdict {
            Verdict::NotJudged => (
                Some(self.blocked.unwrap_or_else(|| {
                    "there is no successful initialize in it, nor anything else that shows a version"
                        .to_owned()
                })),
                None,
            ),
            _ => (None, self.blocked),
        };
        Report { subject: subject.into(), verdict, blocked, hindrance, rules }
    }

    fn judged(&self, id: RuleId, rule: &Rule, record: &Record) -> RuleResult {
        let plural = |count: u64| if count == 1 { "once".to_owned() } else { format!("{count} times") };
        let (status, failures, reason) = if !record.failures.is_empty() {
            let mut reason = record.failures[0].reason.clone();
            let others = record.failures.len() as u64 - 1 + record.more;
            if others > 0 {
                reason.push_str(&format!(" (and {others} more)"));
            }
            (Status::Fail, record.failures.clone(), reason)
        } else if let Some(noted) = record.noted.first() {
            (Status::Pass, record.noted.clone(), noted.reason.clone())
        } else if record.kept > 0 {
            (Status::Pass, Vec::new(), format!("kept {}", plural(record.kept)))
        } else if let Some(reason) = self.skipped(rule) {
            (Status::Skipped, Vec::new(), reason)
        } else {
            (Status::NotTested, Vec::new(), "nothing showed it".to_owned())
        };
        RuleResult { rule: id, status, failures, reason, is_known: false }
    }
}

fn shortened(mut reason: String) -> String {
    if reason.len() > LONGEST_REASON {
        let end = (0..=LONGEST_REASON).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
        reason.truncate(end);
        reason.push('…');
    }
    reason
}

/// Result of one rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuleResult {
    /// The rule.
    pub rule: RuleId,
    /// Its status.
    pub status: Status,
    /// The violations, or the observations for a rule that is only recorded.
    pub failures: Vec<Failure>,
    /// Reason for the status.
    pub reason: String,
    /// Set if a baseline lists the failure.
    pub is_known: bool,
}

/// The report on one subject.
#[derive(Debug, Clone)]
pub struct Report {
    /// Name of the subject.
    pub subject: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Reason why it could not be checked.
    pub blocked: Option<String>,
    /// Reason why it could not be checked, for a subject that breaks rules.
    hindrance: Option<String>,
    /// All rules that apply.
    pub rules: Vec<RuleResult>,
}

impl Report {
    /// Returns the rules that were broken.
    pub fn failed(&self) -> impl Iterator<Item = &RuleResult> {
        self.rules.iter().filter(|rule| rule.status == Status::Fail)
    }

    /// Marks all failures as known.
    pub(crate) fn mark_known(&mut self) {
        self.blocked = self.hindrance.take();
        self.verdict = if self.blocked.is_some() { Verdict::NotJudged } else { Verdict::Conformant };
    }

    /// Returns the report as JSON:
    /// `{"subject","verdict","rules":[{"id","strength","status","messages","reason"}]}`.
    pub fn to_json(&self) -> serde_json::Value {
        let rules: Vec<_> = self
            .rules
            .iter()
            .map(|judged| {
                let rule = judged.rule.rule();
                serde_json::json!({
                    "id": rule.id,
                    "strength": rule.strength.as_str(),
                    "status": judged.status.as_str(),
                    "messages": judged.failures.iter().map(|failure| failure.message).collect::<BTreeSet<_>>(),
                    "reason": judged.reason,
                })
            })
            .collect();
        serde_json::json!({"subject": self.subject, "verdict": self.verdict.as_str(), "rules": rules})
    }
}
