//! A policy: its rules and their evaluation.

use std::fmt;

use switchboard_acp::v2::{PermissionOption, PermissionOptionKind as Kind};

use crate::error::PolicyError;
use crate::host::Host;
use crate::rule::{File, Rule};
use crate::sandbox::SandboxSettings;
use crate::subject::{RequestContext, Subject};

/// Outcome of an evaluation, in the order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Allow the request.
    Allow,
    /// Ask the user.
    Ask,
    /// Deny the request.
    Deny,
}

impl Verdict {
    /// Returns the verdict as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Enforcement mode of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Answer requests that it allows or denies.
    #[default]
    Enforce,
    /// Ask about every request as if there were no policy, and record its decision.
    Observe,
}

/// Decision of a policy, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// Id of the rule that decided, if one did.
    pub rule: Option<String>,
    /// Reason, for people.
    pub reason: String,
    pub(crate) remember: Remember,
}

/// Scope of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remember {
    Never,
    /// Only if no narrower option is offered.
    IfNothingElse,
    WhereOffered,
}

/// Answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Select the option with this id.
    Select(String),
    /// Select no option, which is not an approval: the outcome `cancelled`.
    Cancel,
    /// Do not answer: ask the user.
    Ask,
}

impl Decision {
    /// Adjusts the decision to the offered options: an allowed request without an allowing option is asked
    /// about.
    #[must_use]
    pub fn offered(self, options: &[PermissionOption<'_>]) -> Decision {
        if self.verdict == Verdict::Allow && self.allowing(options).is_none() {
            let reason = match has_doubled_ids(options) {
                true => "two of the offered options have the same id",
                false => "no option is offered that allows it once",
            };
            return Decision { verdict: Verdict::Ask, reason: reason.to_owned(), ..self };
        }
        self
    }

    /// Returns the answer. An allowing option is only selected for the verdict `Allow`.
    pub fn answer(&self, options: &[PermissionOption<'_>]) -> Answer {
        let id = |option: &PermissionOption<'_>| Answer::Select(option.option_id.to_string());
        match self.verdict {
            Verdict::Ask => Answer::Ask,
            Verdict::Allow => self.allowing(options).map_or(Answer::Ask, id),
            Verdict::Deny => rejecting(options).map_or(Answer::Cancel, id),
        }
    }

    fn allowing<'o, 'a>(&self, options: &'o [PermissionOption<'a>]) -> Option<&'o PermissionOption<'a>> {
        let first = |kind: Kind| options.iter().find(|option| option.kind == kind);
        // Fail closed: with duplicate ids it is unknown which option the agent would apply.
        if has_doubled_ids(options) {
            return None;
        }
        match self.remember {
            Remember::Never => first(Kind::AllowOnce),
            Remember::IfNothingElse => first(Kind::AllowOnce).or_else(|| first(Kind::AllowAlways)),
            Remember::WhereOffered => first(Kind::AllowAlways).or_else(|| first(Kind::AllowOnce)),
        }
    }
}

fn has_doubled_ids(options: &[PermissionOption<'_>]) -> bool {
    let mut ids = std::collections::HashSet::new();
    !options.iter().all(|option| ids.insert(&*option.option_id))
}

/// Returns the rejecting option with the least effect: one that does not end the turn and applies once.
fn rejecting<'o, 'a>(options: &'o [PermissionOption<'a>]) -> Option<&'o PermissionOption<'a>> {
    if has_doubled_ids(options) {
        return None;
    }
    let ends_turn = |option: &PermissionOption<'_>| {
        let words = [option.option_id.to_lowercase(), option.name.to_lowercase()];
        words
            .iter()
            .any(|text| ["abort", "cancel", "stop", "interrupt"].iter().any(|word| text.contains(word)))
    };
    let rejects =
        options.iter().filter(|option| matches!(option.kind, Kind::RejectOnce | Kind::RejectAlways));
    rejects.min_by_key(|option| (ends_turn(option), option.kind == Kind::RejectAlways))
}

/// Rules, and a default for requests that no rule matches.
///
/// ```
/// use switchboard_policy::{NoFiles, Policy, RequestContext, Verdict};
///
/// let policy = Policy::parse(r#"
/// [[rule]]
/// id = "tests"
/// decision = "allow"
/// command = ["cargo", ["test", "check"]]
/// match = ["cargo test --workspace"]
/// not_match = ["cargo test; rm -rf x"]
/// "#, &NoFiles::default())?;
/// let scene = RequestContext { root: "/project".into(), ..RequestContext::default() };
/// assert_eq!(policy.evaluate_line("cargo test", &scene, &NoFiles::default()).verdict, Verdict::Allow);
/// assert_eq!(policy.evaluate_line("cargo test $(id)", &scene, &NoFiles::default()).verdict, Verdict::Ask);
///
/// let error = Policy::parse("default = \"ask\"\nrules = []\n", &NoFiles::default()).unwrap_err();
/// assert_eq!(error.line(), Some(2));
/// # Ok::<(), switchboard_policy::PolicyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(crate) default: Verdict,
    mode: Mode,
    pub(crate) rules: Vec<Rule>,
    /// Set if everything is allowed, known or not, which only the user can request on the command line.
    pub(crate) approves_all: bool,
    hash: String,
    has_default: bool,
    has_mode: bool,
    login_shells: Option<bool>,
    pub(crate) sandbox: SandboxSettings,
}

impl Policy {
    /// Parses a policy file and checks the examples in it. Fails with the line of the first error.
    pub fn parse(text: &str, host: &dyn Host) -> Result<Policy, PolicyError> {
        let File { default, mode, login_shells, sandbox, rules, examples } = File::parse(text, host)?;
        let policy = Policy {
            // Fail closed: without a default, unmatched requests are asked about.
            default: default.unwrap_or(Verdict::Ask),
            mode: mode.unwrap_or_default(),
            rules,
            approves_all: false,
            hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
            has_default: default.is_some(),
            has_mode: mode.is_some(),
            login_shells,
            sandbox,
        };
        // Examples run against the complete rule, so that a rule that does not do what its author means is
        // never used.
        for example in examples {
            let Some(rule) = policy.rules.get(example.rule) else { continue };
            let is_match = crate::evaluation::matches_alone(rule, &example.line, policy.login_shells(), host);
            if is_match != example.is_match {
                let should = if example.is_match { "does not match" } else { "matches" };
                let message = format!("the rule {:?} {should} its example {:?}", rule.id, example.line);
                return Err(PolicyError::at(text, example.offset, message));
            }
        }
        Ok(policy)
    }

    fn named(name: &str, default: Verdict, rules: Vec<Rule>) -> Policy {
        Policy {
            default,
            mode: Mode::Enforce,
            rules,
            approves_all: false,
            hash: blake3::hash(name.as_bytes()).to_hex().to_string(),
            has_default: true,
            has_mode: true,
            login_shells: None,
            sandbox: SandboxSettings::default(),
        }
    }

    /// Returns a policy that asks about everything.
    pub fn ask() -> Policy {
        Policy::named("ask", Verdict::Ask, Vec::new())
    }

    /// Returns a policy that allows everything, including requests that are not understood. Only for users
    /// who ask for it.
    pub fn approve_all() -> Policy {
        Policy { approves_all: true, ..Policy::named("approve-all", Verdict::Allow, Vec::new()) }
    }

    /// Returns a policy that denies everything.
    pub fn deny_all() -> Policy {
        Policy::named("deny-all", Verdict::Deny, vec![Rule::for_kinds("deny-all", Verdict::Deny, &[], None)])
    }

    /// Returns a policy that allows calls that only read or search, and asks about the rest.
    pub fn approve_reads() -> Policy {
        use switchboard_acp::v2::ToolKind::{Read, Search};
        let rule = |path| Rule::for_kinds("approve-reads", Verdict::Allow, &[Read, Search], path);
        Policy::named("approve-reads", Verdict::Ask, vec![rule(Some("**")), rule(None)])
    }

    /// Returns a user's policy extended by a project's policy. An untrusted project can only make it
    /// stricter: its allow rules are ignored.
    #[must_use]
    pub fn with_project(self, project: Policy, is_trusted: bool) -> Policy {
        // An untrusted project must not lower the default.
        let default = match (project.has_default, is_trusted) {
            (true, true) => project.default,
            (true, false) => self.default.max(project.default),
            (false, _) => self.default,
        };
        let mode = if project.has_mode && is_trusted { project.mode } else { self.mode };
        let counts = |rule: &Rule| is_trusted || rule.decision != Verdict::Allow;
        let rules = self.rules.into_iter().chain(project.rules.into_iter().filter(counts)).collect();
        let hash = blake3::hash(format!("{}{}", self.hash, project.hash).as_bytes()).to_hex().to_string();
        let has_mode = self.has_mode || project.has_mode && is_trusted;
        let has_default = self.has_default || project.has_default;
        // Like an allow rule, enabling it needs a trusted project; disabling it is stricter and always
        // applies.
        let login_shells = match project.login_shells {
            Some(allowed) if is_trusted || !allowed => Some(allowed),
            _ => self.login_shells,
        };
        let approves_all = self.approves_all;
        let sandbox = self.sandbox.with_project(project.sandbox, is_trusted);
        Policy { default, mode, rules, approves_all, hash, has_default, has_mode, login_shells, sandbox }
    }

    /// Returns whether the script of a login shell (`bash -lc '...'`), or of a shell named by its path, is
    /// allowed by the commands in it.
    pub fn login_shells(&self) -> bool {
        self.login_shells.unwrap_or_default()
    }

    /// Returns the mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the verdict for requests that no rule matches.
    pub fn default_verdict(&self) -> Verdict {
        self.default
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether it has no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the BLAKE3 hash of the text that the rules were parsed from.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Evaluates a request. [`Decision::offered`] adjusts the decision to the offered options.
    pub fn evaluate(&self, subject: &Subject, host: &dyn Host) -> Decision {
        if self.approves_all {
            return Decision {
                verdict: Verdict::Allow,
                rule: Some("approve-all".to_owned()),
                reason: "everything is allowed".to_owned(),
                remember: Remember::IfNothingElse,
            };
        }
        crate::evaluation::evaluate(self, subject, host)
    }

    /// Evaluates a command line alone.
    pub fn evaluate_line(&self, line: &str, scene: &RequestContext, host: &dyn Host) -> Decision {
        self.evaluate(&Subject::of_line(line, scene), host)
    }
}
