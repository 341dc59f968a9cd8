//! Known failures.

use std::fmt;

use serde_json::Value;

use crate::report::{Report, Status, Verdict};
use crate::rules::RuleId;

/// Known failures, which no longer count. An entry that does not fail any more is stale.
///
/// The text format has one rule per line, for all subjects or, after `SUBJECT: `, for one; `#` starts a
/// comment. The JSON format is a list of rules, or a report of `conform --format json`, whose failures become
/// the known ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Baseline {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    subject: Option<String>,
    rule: RuleId,
}

/// An invalid baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaselineError(String);

impl fmt::Display for BaselineError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BaselineError {}

fn rule(name: &str) -> Result<RuleId, BaselineError> {
    RuleId::find(name).ok_or_else(|| BaselineError(format!("unknown rule \"{name}\"")))
}

impl Baseline {
    /// Parses a baseline. Fails if it names an unknown rule.
    ///
    /// ```
    /// use switchboard_conform::Baseline;
    ///
    /// assert!(Baseline::parse("# until the next release\nprocess-exits\n").is_ok());
    /// assert!(Baseline::parse(r#"["process-exits"]"#).is_ok());
    /// assert_eq!(Baseline::parse("no-such-rule").unwrap_err().to_string(), "line 1: unknown rule \"no-such-rule\"");
    /// ```
    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        if text.trim_start().starts_with(['{', '[']) {
            let value = serde_json::from_str(text).map_err(|error| BaselineError(error.to_string()))?;
            let mut baseline = Baseline::default();
            baseline.add_json(&value)?;
            return Ok(baseline);
        }
        let mut entries = Vec::new();
        for (place, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (subject, name) = match line.rsplit_once(": ") {
                Some((subject, name)) => (Some(subject.trim().to_owned()), name.trim()),
                None => (None, line),
            };
            let rule = rule(name).map_err(|error| BaselineError(format!("line {}: {error}", place + 1)))?;
            entries.push(Entry { subject, rule });
        }
        Ok(Baseline { entries })
    }

    fn add_json(&mut self, value: &Value) -> Result<(), BaselineError> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.add_json(item)),
            Value::String(name) => {
                self.entries.push(Entry { subject: None, rule: rule(name)? });
                Ok(())
            }
            Value::Object(report) if report.get("rules").is_some_and(Value::is_array) => {
                let subject = report.get("subject").and_then(Value::as_str).map(str::to_owned);
                for judged in report["rules"].as_array().into_iter().flatten() {
                    if judged["status"] == "fail" {
                        let rule = rule(judged["id"].as_str().unwrap_or_default())?;
                        self.entries.push(Entry { subject: subject.clone(), rule });
                    }
                }
                Ok(())
            }
            _ => Err(BaselineError("expected a list of rules or a report".to_owned())),
        }
    }

    /// Marks known failures as passed, and returns the stale entries: those that were tested and do not fail.
    pub fn apply(&self, reports: &mut [Report]) -> Vec<String> {
        let mut stale = Vec::new();
        for entry in &self.entries {
            let (mut is_used, mut is_judged) = (false, false);
            for report in reports.iter_mut() {
                if entry.subject.as_ref().is_some_and(|subject| *subject != report.subject) {
                    continue;
                }
                is_judged |= report.verdict != Verdict::NotJudged;
                for judged in &mut report.rules {
                    if judged.rule == entry.rule && judged.status == Status::Fail {
                        judged.is_known = true;
                        is_used = true;
                    }
                }
            }
            if is_judged && !is_used {
                let id = entry.rule.rule().id;
                stale.push(
                    entry
                        .subject
                        .as_ref()
                        .map_or_else(|| id.to_owned(), |subject| format!("{subject}: {id}")),
                );
            }
        }
        for report in reports {
            let counts = |judged: &crate::RuleResult| {
                judged.status == Status::Fail && !judged.is_known && judged.rule.rule().strength.counts()
            };
            if report.verdict == Verdict::NotConformant && !report.rules.iter().any(counts) {
                report.mark_known();
            }
        }
        stale
    }
}
