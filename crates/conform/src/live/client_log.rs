//! Evaluation of a scenario's log.

use std::collections::BTreeMap;

use switchboard_acp::{Recorded, RecordedLine, Side};

use super::client::{
    ALL_ANSWERED, BEFORE, ClientScenario, NOT_ALL_ANSWERED, NOT_SURVIVED, REPLACED, SHOWN, SURVIVED,
};
use crate::recording::RecordingChecker;
use crate::report::{Findings, Report};
use crate::rules::RuleId;

/// End of a client's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEnd {
    /// Exited by itself, or was ended after the scenario.
    Regular,
    /// Ended by a signal that the test did not send.
    Crashed,
}

/// Collects the results of a client's scenarios.
#[derive(Debug)]
pub struct ClientChecker {
    findings: Findings,
    transcript: BTreeMap<u64, String>,
    number: u64,
    initialized: usize,
    /// Number of scenarios that began with another request.
    uninitialized: usize,
    prompted: usize,
    complaints: Vec<String>,
}

impl Default for ClientChecker {
    fn default() -> Self {
        ClientChecker::new()
    }
}

impl ClientChecker {
    /// Creates an empty checker.
    pub fn new() -> Self {
        ClientChecker {
            findings: Findings::new(Some(Side::Client)),
            transcript: BTreeMap::new(),
            number: 0,
            initialized: 0,
            uninitialized: 0,
            prompted: 0,
            complaints: Vec::new(),
        }
    }

    /// Returns whether the client has sent a request in any scenario.
    pub fn has_begun(&self) -> bool {
        self.initialized + self.uninitialized > 0
    }

    /// Stores the last lines of the client's standard error, which may explain a missing start.
    pub fn complained(&mut self, last_lines: Vec<String>) {
        self.complaints = last_lines;
    }

    /// Evaluates the log of a scenario, the end of the client, and its output if known.
    pub fn scenario(&mut self, scenario: &ClientScenario, log: &str, end: ClientEnd, shown: Option<&str>) {
        let mut checker = RecordingChecker::new(Some(Side::Client));
        let (mut prompts, mut is_v1) = (0, false);
        let mut said = None;
        let (before, mut first_request) = (self.initialized, None);
        for line in log.lines() {
            self.number += 1;
            checker.line(self.number, line.as_bytes());
            let kept: String = line.chars().take(4000).collect();
            self.transcript.insert(self.number, kept);
            let Ok(line) = RecordedLine::parse(line) else { continue };
            match &line.recorded {
                Recorded::Message { from: Some(Side::Client), text, .. } => {
                    let message = serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
                    let method = message["method"].as_str();
                    if let Some(method) = method.filter(|_| message.get("id").is_some()) {
                        first_request.get_or_insert_with(|| (self.number, method.to_owned()));
                    }
                    match method {
                        Some("initialize") => self.initialized += 1,
                        Some("session/prompt") => prompts += 1,
                        _ => {}
                    }
                }
                Recorded::Message { from: Some(Side::Agent), text, .. } => {
                    is_v1 |= text.contains("\"agentCapabilities\"");
                }
                Recorded::Process(words) if *words == SURVIVED || *words == NOT_SURVIVED => {
                    said = Some(*words == SURVIVED);
                }
                Recorded::Process(words) if *words == ALL_ANSWERED || *words == NOT_ALL_ANSWERED => {
                    self.findings.check(RuleId::AnswersAll, self.number, *words == ALL_ANSWERED, || {
                        "two permission requests at once were not both answered".to_owned()
                    });
                }
                _ => {}
            }
        }
        let mut findings = checker.finish();
        findings.blocked = None;
        self.findings.merge(findings);
        // A recording may lack its beginning; the log of a scenario does not. A client that initializes later
        // has been checked already.
        if let Some((number, method)) = first_request.filter(|_| self.initialized == before) {
            self.uninitialized += 1;
            self.findings.versions.insert(1);
            let reason = format!("{method}, and the connection was never initialized");
            self.findings.broken(RuleId::InitFirst, number, reason);
        }
        self.prompted += prompts;
        if prompts > 0 {
            let is_alive = said == Some(true) && end == ClientEnd::Regular;
            let breaks = scenario.breaks_protocol(is_v1);
            let rule = if breaks { RuleId::Tolerates } else { RuleId::Survives };
            self.findings.check(rule, self.number, is_alive, || match end {
                ClientEnd::Crashed => format!("{}: the client ended by a signal", scenario.name),
                ClientEnd::Regular => format!("{}: it stopped answering", scenario.name),
            });
        }
        if let Some(shown) = shown.filter(|_| prompts > 0) {
            self.transcript_shown(scenario, shown, prompts);
        }
    }

    fn transcript_shown(&mut self, scenario: &ClientScenario, shown: &str, prompts: usize) {
        let missing = SHOWN.iter().find(|words| !shown.contains(**words));
        // The response to a prompt is shown once, unless the client sends several prompts.
        let once: &[&str] = if scenario.replays() { &[SHOWN[0], SHOWN[1], BEFORE] } else { &[SHOWN[1]] };
        let doubled = once.iter().find(|words| shown.matches(**words).count() > prompts.max(1));
        let problem = if let Some(words) = missing {
            Some(format!("{}: \"{words}\" is not shown", scenario.name))
        } else if shown.contains(REPLACED) {
            Some(format!("{}: \"{REPLACED}\" was replaced, and is shown", scenario.name))
        } else if let Some(words) = doubled {
            let count = shown.matches(*words).count();
            Some(format!("{}: \"{words}\" is shown {count} times", scenario.name))
        } else {
            None
        };
        self.findings
            .check(RuleId::Transcript, self.number, problem.is_none(), || problem.unwrap_or_default());
    }

    /// Returns the report and the transcript.
    pub fn report(mut self, subject: &str) -> (Report, BTreeMap<u64, String>) {
        if !self.has_begun() {
            let reason = "the client never initialized a connection with the agent that it was given";
            self.findings.block(with_complaints(reason, &self.complaints));
        } else if self.prompted == 0 {
            let reason = "the client never sent a prompt; give it one on its command line";
            self.findings.block(with_complaints(reason, &self.complaints));
        }
        (self.findings.report(subject), self.transcript)
    }
}

fn with_complaints(reason: &str, complaints: &[String]) -> String {
    match complaints {
        [] => reason.to_owned(),
        lines => format!("{reason}; the last lines of its standard error: {}", lines.join(" / ")),
    }
}
