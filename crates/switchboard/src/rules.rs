//! Rules at work: what they decide over something that an agent asks, and the note of it in the log.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use switchboard_acp::extensions::{Author, HubRecord, QuestionRecord};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::v2;
use switchboard_policy::{Answer, Decision, Host, Mode, Policy, Subject, Verdict, Version1};
use switchboard_session::Decider;
use switchboard_web::RuleFile;

use crate::outcome::CommandError;
use crate::policy_file::{self, Extended, SystemFiles};
use crate::standard_error;

/// How messages of version 1 are read for the rules, which judge version 2.
pub(crate) const VERSION_1: Version1 = Version1 {
    update: switchboard_bridge::read_v1_update,
    permission: switchboard_bridge::read_v1_permission,
};

/// The rules file of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct PermissionsArgument {
    /// Let the rules of this file answer what the agent asks for (see `switchboard policy`); a project's own
    /// switchboard-policy.toml makes them stricter
    #[arg(long, value_name = "FILE")]
    pub(crate) permissions: Option<PathBuf>,
}

impl PermissionsArgument {
    /// Reads the rules. A file that was named but cannot be used is an error: whoever named it counts on it.
    pub(crate) fn rules(&self) -> Result<Rules, CommandError> {
        Rules::of_file(self.permissions.as_deref())
    }
}

/// Whose rules count.
#[derive(Debug, Clone)]
enum Source {
    /// What somebody said on the command line, and nothing else.
    Said(Policy),
    /// A file that was named on the command line, as it was at the start. That of a project is on top of it.
    File(Policy),
    /// The user's own file, as it is when something is asked, with that of a project on top.
    User,
}

/// The rules that a command has.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    source: Source,
    files: SystemFiles,
    /// What was said to be wrong with a file.
    said: Option<String>,
}

impl Rules {
    /// These and no others.
    pub(crate) fn of(policy: Policy) -> Self {
        Rules::new(Source::Said(policy))
    }

    /// Those of a file, or the user's own where none is named.
    fn of_file(file: Option<&Path>) -> Result<Self, CommandError> {
        let mut rules = Rules::of_user();
        if let Some(file) = file {
            let policy = policy_file::load(file, &rules.files).map_err(|refused| {
                CommandError::from(refused).hint("--permissions FILE: name a file of rules that can be read")
            })?;
            rules.source = Source::File(policy);
        }
        Ok(rules)
    }

    /// The user's own, as they are when something is asked.
    pub(crate) fn of_user() -> Self {
        Rules::new(Source::User)
    }

    fn new(source: Source) -> Self {
        Rules { source, files: SystemFiles::new(), said: None }
    }

    /// Whether there is nothing else that could decide.
    pub(crate) fn are_said(&self) -> bool {
        matches!(self.source, Source::Said(_))
    }

    /// The rules for a project. Where a file of them cannot be used, everything is asked.
    fn for_project(&mut self, root: &str) -> Policy {
        let user = match &self.source {
            Source::Said(policy) => return policy.clone(),
            Source::File(policy) => Ok(policy.clone()),
            Source::User => policy_file::of_user(&self.files),
        };
        let policy = user.and_then(|user| policy_file::for_project(user, Path::new(root), &self.files));
        policy.unwrap_or_else(|refused| {
            self.complain(refused.to_string());
            Policy::ask()
        })
    }

    /// Says what is wrong with a file, once.
    fn complain(&mut self, problem: String) {
        if self.said.as_ref() != Some(&problem) {
            standard_error::say(format!("switchboard: everything is asked: {problem}"));
            self.said = Some(problem);
        }
    }

    /// Decides over a question in a project.
    pub(crate) fn judge(
        &mut self,
        subject: &Subject,
        options: &[v2::PermissionOption<'_>],
        root: &str,
    ) -> Judged {
        let policy = self.for_project(root);
        let decision = policy.judge(subject, &self.files).offered(options);
        // A malformed subject is no JSON of ours, and then nothing is told of it.
        let about = serde_json::from_str(subject.to_json(&self.files).as_str()).unwrap_or_default();
        Judged {
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
            Source::User => return None,
            Source::File(_) => {
                "Switchboard was started with --permissions, and that file takes the place of your own"
            }
            Source::Said(_) => "Switchboard was started with rules of its own",
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
}

/// What was decided, with all that an audit has to know.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) decision: Decision,
    mode: Mode,
    hash: String,
    agent: Option<String>,
    subject: Value,
    has_no_rules: bool,
}

impl Judged {
    /// What is answered; where rules are only watched, somebody is asked.
    pub(crate) fn answer(&self, options: &[v2::PermissionOption<'_>]) -> Answer {
        match self.mode {
            Mode::Enforce => self.decision.answer(options),
            Mode::Observe => Answer::Ask,
        }
    }

    /// The same where there is nobody to ask.
    pub(crate) fn nobody_to_ask(mut self) -> Self {
        let Decision { verdict, rule, reason, .. } = &mut self.decision;
        if *verdict != Verdict::Deny {
            (*verdict, *rule, *reason) = (Verdict::Deny, None, "there is nobody to ask".to_owned());
        }
        self.mode = Mode::Enforce;
        self
    }

    /// Whether nobody has said anything about what is asked, so that there is nothing to tell.
    pub(crate) fn has_no_rules(&self) -> bool {
        self.has_no_rules
    }

    /// Whether it is only told what would have been done.
    pub(crate) fn is_only_watched(&self) -> bool {
        self.mode == Mode::Observe
    }

    /// Who answers.
    pub(crate) fn decider(&self) -> Decider {
        match &self.decision.rule {
            Some(rule) => Decider::Rule(rule.as_str().into()),
            None => Decider::Other("policy".into()),
        }
    }

    /// What was decided and by what, in words: `allowed by the rule "tests"`.
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

    /// The note for the log, before the answer: what was decided, and whether that is the answer.
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

    /// What was decided, for the log and for clients.
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

/// The result of a request that is answered so.
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

/// The note that somebody at this machine answers.
pub(crate) fn note_of_person(request: &RequestId<'_>, name: &str) -> String {
    HubRecord::Answered(record(request, &Author::new().person(name))).to_json()
}

fn record<'a>(request: &RequestId<'a>, by: &Author<'a>) -> QuestionRecord<'a> {
    QuestionRecord::new().request(request.clone()).by(by.clone())
}
