//! A policy: its rules, and what it decides.

use std::fmt;

use switchboard_acp::v2::{PermissionOption, PermissionOptionKind as Kind};

use crate::error::PolicyError;
use crate::host::Host;
use crate::rule::{File, Rule};
use crate::subject::{Scene, Subject};

/// What becomes of a request, in the order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It is allowed.
    Allow,
    /// Somebody is asked.
    Ask,
    /// It is denied.
    Deny,
}

impl Verdict {
    /// The word for it.
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

/// Whether a policy answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// It answers what it allows and denies.
    #[default]
    Enforce,
    /// Everything is asked as if there were none; what it would have done is written down.
    Observe,
}

/// What a policy decides, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// What becomes of the request.
    pub verdict: Verdict,
    /// The rule that decided, where one did.
    pub rule: Option<String>,
    /// Why, for people.
    pub reason: String,
    pub(crate) remember: Remember,
}

/// Whether an answer may count for more than this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remember {
    Never,
    /// Only where nothing less is offered.
    IfNothingElse,
    WhereOffered,
}

/// What can be answered to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This option, by its id.
    Select(String),
    /// No option, which is no approval: the outcome `cancelled`.
    Cancel,
    /// Nothing: somebody is to be asked.
    Ask,
}

impl Decision {
    /// The decision as far as the offered options allow it: what cannot be allowed by one of them is asked.
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

    /// What to answer. An option that allows is chosen for a decision that allows and for no other.
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

/// The option that rejects with the least harm: it does not end the turn, and is for once.
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

/// Rules, with what counts where none does.
///
/// ```
/// use switchboard_policy::{NoFiles, Policy, Scene, Verdict};
///
/// let policy = Policy::parse(r#"
/// [[rule]]
/// id = "tests"
/// decision = "allow"
/// command = ["cargo", ["test", "check"]]
/// match = ["cargo test --workspace"]
/// not_match = ["cargo test; rm -rf x"]
/// "#, &NoFiles::default())?;
/// let scene = Scene { root: "/project".into(), ..Scene::default() };
/// assert_eq!(policy.judge_line("cargo test", &scene, &NoFiles::default()).verdict, Verdict::Allow);
/// assert_eq!(policy.judge_line("cargo test $(id)", &scene, &NoFiles::default()).verdict, Verdict::Ask);
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
    /// Whether everything is allowed, known or not, as only a person at the command line can say.
    pub(crate) approves_all: bool,
    hash: String,
    has_default: bool,
    has_mode: bool,
    login_shells: Option<bool>,
}

impl Policy {
    /// Reads a file of rules and tries the examples in it.
    pub fn parse(text: &str, host: &dyn Host) -> Result<Policy, PolicyError> {
        let File { default, mode, login_shells, rules, examples } = File::parse(text, host)?;
        let policy = Policy {
            default: default.unwrap_or(Verdict::Ask),
            mode: mode.unwrap_or_default(),
            rules,
            approves_all: false,
            hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
            has_default: default.is_some(),
            has_mode: mode.is_some(),
            login_shells,
        };
        for example in examples {
            let Some(rule) = policy.rules.get(example.rule) else { continue };
            let is_match = crate::judge::matches_alone(rule, &example.line, policy.login_shells(), host);
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
        }
    }

    /// Asks about everything.
    pub fn ask() -> Policy {
        Policy::named("ask", Verdict::Ask, Vec::new())
    }

    /// Allows everything, also what nobody can know. Only for a person who said so.
    pub fn approve_all() -> Policy {
        Policy { approves_all: true, ..Policy::named("approve-all", Verdict::Allow, Vec::new()) }
    }

    /// Denies everything.
    pub fn deny_all() -> Policy {
        Policy::named("deny-all", Verdict::Deny, vec![Rule::for_kinds("deny-all", Verdict::Deny, &[], None)])
    }

    /// Allows calls that only read or search, whatever they read, and asks about the rest.
    pub fn approve_reads() -> Policy {
        use switchboard_acp::v2::ToolKind::{Read, Search};
        let rule = |path| Rule::for_kinds("approve-reads", Verdict::Allow, &[Read, Search], path);
        Policy::named("approve-reads", Verdict::Ask, vec![rule(Some("**")), rule(None)])
    }

    /// A user's policy with that of a project on top. One that the user has not trusted can only make things stricter: what
    /// it allows does not count.
    #[must_use]
    pub fn with_project(self, project: Policy, is_trusted: bool) -> Policy {
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
        // Like a rule that allows, it counts only from a project that is trusted; taking it back makes things stricter.
        let login_shells = match project.login_shells {
            Some(allowed) if is_trusted || !allowed => Some(allowed),
            _ => self.login_shells,
        };
        let approves_all = self.approves_all;
        Policy { default, mode, rules, approves_all, hash, has_default, has_mode, login_shells }
    }

    /// Whether the script of a login shell (`bash -lc '...'`), or of a shell that is named by its path, is allowed by what it
    /// runs.
    pub fn login_shells(&self) -> bool {
        self.login_shells.unwrap_or_default()
    }

    /// Whether it answers.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What counts where no rule does.
    pub fn default_verdict(&self) -> Verdict {
        self.default
    }

    /// How many rules it has.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether it has no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// A name for exactly these rules: the BLAKE3 hash of the text that they were read from.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Decides over a request. Whether the decision can be answered is for [`Decision::offered`].
    pub fn judge(&self, subject: &Subject, host: &dyn Host) -> Decision {
        if self.approves_all {
            return Decision {
                verdict: Verdict::Allow,
                rule: Some("approve-all".to_owned()),
                reason: "everything is allowed".to_owned(),
                remember: Remember::IfNothingElse,
            };
        }
        crate::judge::judge(self, subject, host)
    }

    /// Decides over a command line alone.
    pub fn judge_line(&self, line: &str, scene: &Scene, host: &dyn Host) -> Decision {
        self.judge(&Subject::of_line(line, scene), host)
    }
}
