//! Evaluation of policy rules for agents' questions, and the notes of it in the log.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use switchboard_acp::extensions::{Author, HubRecord, QuestionRecord};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::v2;
use switchboard_policy::{Answer, Decision, Host, HostPattern, Mode, Policy, Subject, Verdict, Version1};
use switchboard_session::Decider;
use switchboard_web::RuleFile;

use crate::outcome::CommandError;
use crate::policy_file::{self, Extended, SystemFiles};
use crate::standard_error;

/// Decoders of version 1 messages for the rules, which use version 2.
pub(crate) const VERSION_1: Version1 = Version1 {
    update: switchboard_bridge::read_v1_update,
    permission: switchboard_bridge::read_v1_permission,
};

/// The policy file of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct PermissionsArgument {
    /// Answer permission requests with the rules of this file (see `switchboard policy`); a project's own
    /// switchboard-policy.toml makes them stricter
    #[arg(long, value_name = "FILE")]
    pub(crate) permissions: Option<PathBuf>,
}

impl PermissionsArgument {
    /// Reads the rules. A given file that is invalid is an error: the user relies on it.
    pub(crate) fn rules(&self) -> Result<Rules, CommandError> {
        Rules::of_file(self.permissions.as_deref())
    }
}

/// Source of the rules.
#[derive(Debug, Clone)]
enum RulesSource {
    /// Only the policy given on the command line.
    Said(Policy),
    /// A file given on the command line, as of the start, extended by that of a project.
    File(Policy),
    /// The user's own file at the time of each question, extended by that of a project.
    User,
}

/// The rules of a command.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    source: RulesSource,
    /// The file given on the command line.
    file: Option<PathBuf>,
    files: SystemFiles,
    /// The last reported problem of a file.
    said: Option<String>,
}

impl Rules {
    /// Creates rules from a policy only.
    pub(crate) fn of(policy: Policy) -> Self {
        Rules::new(RulesSource::Said(policy))
    }

    /// Creates rules from a file, or the user's own without one.
    pub(crate) fn of_file(file: Option<&Path>) -> Result<Self, CommandError> {
        let mut rules = Rules::of_user();
        if let Some(file) = file {
            let policy = policy_file::load(file, &rules.files).map_err(|refused| {
                CommandError::from(refused).hint("--permissions needs a readable policy file")
            })?;
            rules.source = RulesSource::File(policy);
            rules.file = Some(std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
        }
        Ok(rules)
    }

    /// Creates rules from the user's own file, read at the time of each question.
    pub(crate) fn of_user() -> Self {
        Rules::new(RulesSource::User)
    }

    fn new(source: RulesSource) -> Self {
        Rules { source, file: None, files: SystemFiles::new(), said: None }
    }

    /// Returns the file given on the command line.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns whether nothing else can decide.
    pub(crate) fn are_said(&self) -> bool {
        matches!(self.source, RulesSource::Said(_))
    }

    /// Returns the rules of a project. If a file of them is invalid, everything is asked.
    fn for_project(&mut self, root: &str) -> Policy {
        let user = match &self.source {
            RulesSource::Said(policy) => return policy.clone(),
            RulesSource::File(policy) => Ok(policy.clone()),
            RulesSource::User => policy_file::of_user(&self.files),
        };
        let policy = user.and_then(|user| policy_file::for_project(user, Path::new(root), &self.files));
        policy.unwrap_or_else(|refused| {
            self.complain(refused.to_string());
            Policy::ask()
        })
    }

    /// Returns the policy for the sandbox of a project. Fails if a file of it is invalid: without it, the sandbox would be
    /// another one. Rules of the command line decide questions only; the sandbox is in the user's own file then.
    pub(crate) fn for_sandbox(&self, root: Option<&Path>) -> Result<Policy, String> {
        let user = match &self.source {
            RulesSource::File(policy) => Ok(policy.clone()),
            RulesSource::Said(_) | RulesSource::User => policy_file::of_user(&self.files),
        };
        let policy = user.and_then(|user| match root {
            Some(root) => policy_file::for_project(user, root, &self.files),
            None => Ok(user),
        });
        policy.map_err(|refused| refused.to_string())
    }

    /// Returns the file system as rules see it.
    pub(crate) fn files(&self) -> &SystemFiles {
        &self.files
    }

    /// Reports a problem of a file, once.
    fn complain(&mut self, problem: String) {
        if self.said.as_ref() != Some(&problem) {
            standard_error::say(format!("switchboard: everything is asked: {problem}"));
            self.said = Some(problem);
        }
    }

    /// Evaluates a question in a project.
    pub(crate) fn evaluate(
        &mut self,
        subject: &Subject,
        options: &[v2::PermissionOption<'_>],
        root: &str,
    ) -> RecordedDecision {
        let policy = self.for_project(root);
        let decision = policy.evaluate(subject, &self.files).offered(options);
        // A malformed subject is not our JSON; it is omitted then.
        let about = serde_json::from_str(subject.to_json(&self.files).as_str()).unwrap_or_default();
        RecordedDecision {
            decision,
            mode: policy.mode(),
            hash: policy.hash().to_owned(),
            agent: subject.agent().map(str::to_owned),
            subject: about,
            has_no_rules: policy.is_empty() && policy.default_verdict() == Verdict::Ask,
        }
    }
}

impl RuleFile for Rules {
    fn refusal(&self) -> Option<String> {
        let reason = match self.source {
            RulesSource::User => return None,
            RulesSource::File(_) => {
                "Switchboard was started with --permissions, and that file takes the place of your own"
            }
            RulesSource::Said(_) => "Switchboard was started with rules of its own",
        };
        Some(reason.to_owned())
    }

    fn host(&self) -> &dyn Host {
        &self.files
    }

    fn with_appended(&self, text: &str, folder: &Path) -> Result<Policy, String> {
        let extended = Extended::with(text, &self.files).map_err(|refused| refused.to_string())?;
        policy_file::for_project(extended.policy, folder, &self.files).map_err(|refused| refused.to_string())
    }

    fn append(&self, text: &str) -> Result<PathBuf, String> {
        Extended::with(text, &self.files).map_err(|refused| refused.to_string())?.save()
    }

    fn allow_host(&self, host: &HostPattern) -> Result<PathBuf, String> {
        let is_listed =
            policy_file::of_user(&self.files).is_ok_and(|policy| policy.sandbox().hosts.contains(host));
        if is_listed {
            return Ok(policy_file::user_file_name().into());
        }
        let extended = Extended::with_host(&host.to_string(), &self.files);
        extended.map_err(|refused| refused.to_string())?.save()
    }
}

/// A decision with everything that an audit needs.
#[derive(Debug, Clone)]
pub(crate) struct RecordedDecision {
    pub(crate) decision: Decision,
    mode: Mode,
    hash: String,
    agent: Option<String>,
    subject: Value,
    has_no_rules: bool,
}

impl RecordedDecision {
    /// Returns the answer; in observe mode, the user is asked.
    pub(crate) fn answer(&self, options: &[v2::PermissionOption<'_>]) -> Answer {
        match self.mode {
            Mode::Enforce => self.decision.answer(options),
            Mode::Observe => Answer::Ask,
        }
    }

    /// Returns the decision for a situation without a user to ask.
    pub(crate) fn without_person(mut self) -> Self {
        let Decision { verdict, rule, reason, .. } = &mut self.decision;
        if *verdict != Verdict::Deny {
            (*verdict, *rule, *reason) = (Verdict::Deny, None, "there is no user to ask".to_owned());
        }
        self.mode = Mode::Enforce;
        self
    }

    /// Returns whether there are no rules, so that nothing is reported.
    pub(crate) fn has_no_rules(&self) -> bool {
        self.has_no_rules
    }

    /// Returns whether the mode only observes.
    pub(crate) fn is_only_watched(&self) -> bool {
        self.mode == Mode::Observe
    }

    /// Returns the decider.
    pub(crate) fn decider(&self) -> Decider {
        match &self.decision.rule {
            Some(rule) => Decider::Rule(rule.as_str().into()),
            None => Decider::Other("policy".into()),
        }
    }

    /// Describes the decision and its rule: `allowed by the rule "tests"`.
    pub(crate) fn in_words(&self) -> String {
        let did = match (self.decision.verdict, self.is_only_watched()) {
            (Verdict::Allow, false) => "allowed",
            (Verdict::Deny, false) => "denied",
            (Verdict::Ask, false) => "asked",
            (Verdict::Allow, true) => "would have been allowed",
            (Verdict::Deny, true) => "would have been denied",
            (Verdict::Ask, true) => "would have been asked",
        };
        match &self.decision.rule {
            Some(rule) => format!("{did} by the rule {rule:?}"),
            None => format!("{did} by the policy"),
        }
    }

    /// Returns the note for the log, written before the answer: the decision, and whether it is the answer.
    pub(crate) fn note(&self, request: &RequestId<'_>, answer: &Answer) -> String {
        let option = match answer {
            Answer::Select(option) => Some(option.as_str()),
            Answer::Cancel | Answer::Ask => None,
        };
        let record = record(request, &Author::from_value(&self.to_json(option)));
        let record =
            if *answer == Answer::Ask { HubRecord::Judged(record) } else { HubRecord::Answered(record) };
        record.to_json()
    }

    /// Returns the decision for the log and for clients.
    pub(crate) fn to_json(&self, option: Option<&str>) -> Value {
        json!({
            "policy": self.decision.rule,
            "decision": self.decision.verdict.as_str(),
            "reason": self.decision.reason,
            "mode": if self.is_only_watched() { "observe" } else { "enforce" },
            "hash": self.hash,
            "option": option,
            "agent": self.agent,
            "subject": self.subject,
        })
    }
}

/// Returns the response to a request with an answer.
pub(crate) fn result(answer: &Answer) -> Option<v2::RequestPermissionResponse<'static>> {
    let outcome = match answer {
        Answer::Select(option) => {
            v2::RequestPermissionOutcome::Selected(v2::SelectedPermissionOutcome::new(option.clone()))
        }
        Answer::Cancel => v2::RequestPermissionOutcome::Cancelled(v2::EmptyObject::new()),
        Answer::Ask => return None,
    };
    Some(v2::RequestPermissionResponse::new(outcome))
}

/// Returns the note that a local user answers.
pub(crate) fn note_of_person(request: &RequestId<'_>, name: &str) -> String {
    HubRecord::Answered(record(request, &Author::new().person(name))).to_json()
}

fn record<'a>(request: &RequestId<'a>, by: &Author<'a>) -> QuestionRecord<'a> {
    QuestionRecord::new().request(request.clone()).by(by.clone())
}
