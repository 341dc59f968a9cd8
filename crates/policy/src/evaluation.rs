//! Evaluation of a request.
//!
//! Order: deny rules, then doubts, then possible deny rules, then ask rules, then allow rules, then the
//! default. Everything fails closed: a request that is not fully understood can be denied, but never allowed.

mod expansion;
mod files;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use switchboard_acp::v2::ToolKind;

use crate::command::{Argument, FileName, Interpretation, Match, SimpleCommand, allows, denies};
use crate::glob::wildcard;
use crate::host::{Host, NoFiles};
use crate::policy::{Decision, Policy, Remember, Verdict};
use crate::program::{Origin, arguments, has_escaping_option, has_options, reads_input};
use crate::rule::Rule;
use crate::shell::Word;
use crate::sketch::Sketch;
use crate::subject::{Mention, Operation, RequestContext, Subject, SubjectPath};
use files::{Files, View};

/// Evaluates a request.
pub(crate) fn evaluate(policy: &Policy, subject: &Subject, host: &dyn Host) -> Decision {
    let evaluation = Evaluation::new(subject, host, policy.login_shells());
    let mut perhaps = None;
    // Deny rules come first, over everything that may be part of the request. No other rule can override
    // them.
    for rule in policy.rules.iter().filter(|rule| rule.decision == Verdict::Deny) {
        match evaluation.denied(rule) {
            Match::Yes => {
                return by_rule(rule, Verdict::Deny, || format!("denied by the rule {:?}", rule.id));
            }
            // A possible match must not hide a certain match of a later rule, so the search continues.
            Match::Maybe => perhaps = perhaps.or(Some(rule)),
            Match::No => {}
        }
    }
    // Fail closed: a request that cannot be understood is asked about, even if an allow rule covers the part
    // that can.
    if let Some(doubt) = evaluation.doubt() {
        return Decision {
            // `max` keeps a stricter default.
            verdict: policy.default.max(Verdict::Ask),
            rule: None,
            reason: doubt.to_owned(),
            remember: Remember::Never,
        };
    }
    // Fail closed: what may be denied is never allowed.
    if let Some(rule) = perhaps {
        let reason = format!("it may be denied by the rule {:?}: parts of it are not literal", rule.id);
        return Decision {
            verdict: policy.default.max(Verdict::Ask),
            rule: None,
            reason,
            remember: Remember::Never,
        };
    }
    evaluation.decide(policy)
}

fn by_rule(rule: &Rule, verdict: Verdict, reason: impl FnOnce() -> String) -> Decision {
    let reason = rule.reason.clone().unwrap_or_else(reason);
    // An answer that counts for later requests needs the rule's consent.
    let remember = if rule.remember { Remember::WhereOffered } else { Remember::Never };
    Decision { verdict, rule: Some(rule.id.clone()), reason, remember }
}

/// Returns whether a rule alone matches a command line, as its examples require.
pub(crate) fn matches_alone(rule: &Rule, line: &str, login_shells: bool, host: &dyn Host) -> bool {
    let host = NoFiles { home: host.home().map(str::to_owned) };
    let scene = RequestContext { root: "/project".to_owned(), ..RequestContext::default() };
    let subject = Subject::of_line(line, &scene);
    let evaluation = Evaluation::new(&subject, &host, login_shells);
    // Examples test the command only, so other conditions are removed.
    let alone =
        Rule { agents: Vec::new(), kinds: Vec::new(), tools: Vec::new(), cwd: Vec::new(), ..rule.clone() };
    match rule.decision {
        Verdict::Allow => {
            evaluation.doubt().is_none()
                && evaluation.runs().all(|run| evaluation.allowed_run(run, &[&alone]).is_some())
        }
        Verdict::Ask | Verdict::Deny => evaluation.denied(&alone) == Match::Yes,
    }
}

/// One unit that must be allowed.
enum EvaluatedUnit<'s> {
    Run(&'s SimpleCommand),
    Path(&'s SubjectPath, &'s View),
    /// A request that has neither command nor files.
    Whole,
}

/// A request with the resolved state of its files.
struct Evaluation<'s> {
    subject: &'s Subject,
    files: Files<'s>,
    paths: Vec<(&'s SubjectPath, Rc<View>)>,
    /// Other texts that may be files.
    mentions: Vec<(&'s Mention, SubjectPath, Rc<View>)>,
    doubt: Option<Cow<'s, str>>,
    /// Set if the script of a login shell is allowed by the commands in it.
    login_shells: bool,
    /// Resolved commands, by address.
    commands: RefCell<HashMap<*const SimpleCommand, Rc<Command>>>,
    /// All commands that deny rules are checked against, in order.
    tried: Vec<(&'s SimpleCommand, Rc<Command>)>,
    /// Sketch of the names of all commands.
    names: Sketch,
    /// Sketch of all files that deny rules are checked against.
    named: Sketch,
}

/// A command with the files that it names, resolved once for all rules.
struct Command {
    cwd: Option<String>,
    /// Files of its own arguments and redirections, and whether it writes to them.
    files: Vec<(Argument, Rc<View>)>,
    /// Files of everything that it may run.
    tried: Vec<Rc<View>>,
}

impl<'s> Evaluation<'s> {
    fn new(subject: &'s Subject, host: &'s dyn Host, login_shells: bool) -> Self {
        let files = Files::new(subject, host);
        let cwd = files.start().map(str::to_owned);
        let paths: Vec<_> =
            subject.paths.iter().map(|path| (path, files.path(&path.path, cwd.as_deref()))).collect();
        let mentions = subject.mentions.iter().map(|mention| {
            let origin = if mention.is_search { Origin::Pathspec } else { Origin::Folder };
            let name = FileName { origin, ..FileName::known(&mention.text) };
            let path = SubjectPath { path: mention.text.clone(), operations: Vec::new(), needs_cover: true };
            (mention, path, files.view(&name, cwd.as_deref()))
        });
        let mentions = mentions.collect();
        let mut evaluation = Evaluation {
            subject,
            files,
            paths,
            mentions,
            doubt: None,
            login_shells,
            commands: RefCell::default(),
            tried: Vec::new(),
            names: Sketch::default(),
            named: Sketch::default(),
        };
        // Guesses are commands of a line that does not parse. Only deny rules see them.
        let guesses = subject.readings.iter().flat_map(|reading| &reading.guesses);
        evaluation.tried =
            evaluation.runs().chain(guesses).map(|run| (run, evaluation.command(run))).collect();
        // The sketches need all commands and files, and the doubts need the resolved files.
        evaluation.sketch();
        evaluation.doubt = evaluation.find_doubt();
        evaluation
    }

    fn sketch(&mut self) {
        fn names(run: &SimpleCommand, into: &mut Sketch) {
            let candidates = run.candidates.iter().map(|(words, _)| words);
            let firsts = candidates.chain([&run.words]).filter_map(|words| words.first());
            firsts.for_each(|word| into.add(&word.text));
            run.inner.iter().for_each(|run| names(run, into));
        }
        self.tried.iter().for_each(|(run, _)| names(run, &mut self.names));
        let files = self
            .tried
            .iter()
            .flat_map(|(_, command)| command.files.iter().map(|(_, view)| view).chain(&command.tried));
        let mentions = self.mentions.iter().map(|(_, _, view)| view);
        let views = self.paths.iter().map(|(_, view)| view).chain(mentions).chain(files);
        views.for_each(|view| self.named.join(&view.sketch));
    }

    /// Returns whether a rule may match one of the commands, judged by sketch.
    fn may_name(&self, rule: &Rule) -> bool {
        rule.command.as_ref().is_none_or(|pattern| pattern.may_begin_with(&self.names))
    }

    /// Returns why the effect of the request is unknown.
    fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }

    fn find_doubt(&self) -> Option<Cow<'s, str>> {
        // Doubts of the request itself come first: they explain more than those of single files.
        if let Some(doubt) = self.subject.unsure() {
            return Some(Cow::Borrowed(doubt));
        }
        let writes = self.subject.may_write();
        for (path, view) in &self.paths {
            if let Some(doubt) = view.doubt {
                return Some(Cow::Borrowed(doubt.as_str()));
            }
            // Writing through one hard link changes the file under its other names, which rules do not see.
            if writes && self.files.has_other_names(view) {
                return Some(Cow::Owned(format!("{} has several hard links", path.path)));
            }
        }
        for run in self.runs() {
            for (argument, view) in &self.command(run).files {
                if let Some(doubt) = view.doubt {
                    return Some(Cow::Borrowed(doubt.as_str()));
                }
                if argument.writes && self.files.has_other_names(view) {
                    return Some(Cow::Owned(format!("{} has several hard links", argument.name.text)));
                }
            }
        }
        None
    }

    /// Returns a command with its resolved files.
    fn command(&self, run: &SimpleCommand) -> Rc<Command> {
        let place = std::ptr::from_ref(run);
        if let Some(known) = self.commands.borrow().get(&place) {
            return Rc::clone(known);
        }
        let cwd = self.files.cwd(&run.cwd);
        let files = run.arguments().into_iter().map(|argument| {
            let view = self.files.view(&argument.name, cwd.as_deref());
            (argument, view)
        });
        let files = files.collect();
        // The first entry is the command itself.
        let tried = run.candidates.iter().skip(1).flat_map(|(words, cwd)| {
            let cwd = self.files.cwd(cwd);
            arguments(words).into_iter().map(move |name| self.files.view(&name, cwd.as_deref()))
        });
        let tried = tried.collect();
        let known = Rc::new(Command { cwd, files, tried });
        self.commands.borrow_mut().insert(place, Rc::clone(&known));
        known
    }

    fn runs(&self) -> impl Iterator<Item = &'s SimpleCommand> {
        self.subject.readings.iter().flat_map(|reading| &reading.runs)
    }

    // ----- deny rules

    /// Returns whether a rule matches anything in the request.
    fn denied(&self, rule: &Rule) -> Match {
        // Cheap checks by sketch first: most rules are about other commands and files.
        let may_name_file =
            rule.paths.is_empty() || rule.paths.iter().any(|pattern| self.named.may_have(pattern.needed()));
        if !self.may_name(rule) || !may_name_file || !self.concerns(rule) {
            return Match::No;
        }
        let runs = self.tried.iter().map(|(run, command)| self.denied_run(rule, run, command));
        let paths = self.paths.iter().map(|(path, view)| self.denied_path(rule, path, view));
        let mentions = self.mentions.iter().map(|(mention, path, view)| {
            let found = self.denied_path(rule, path, view);
            // A rule without paths is not about a mentioned file.
            let most = if mention.is_words { Match::Maybe } else { Match::Yes };
            if rule.paths.is_empty() { Match::No } else { found.min(most) }
        });
        // The strongest match counts.
        runs.chain(paths).chain(mentions).chain([self.denied_whole(rule)]).max().unwrap_or(Match::No)
    }

    fn denied_unit(&self, rule: &Rule, unit: &EvaluatedUnit<'_>) -> Match {
        if !self.concerns(rule) {
            return Match::No;
        }
        match unit {
            EvaluatedUnit::Run(run) => {
                self.denied_run(rule, run, &self.command(run)).max(self.denied_whole(rule))
            }
            EvaluatedUnit::Path(path, view) => {
                self.denied_path(rule, path, view).max(self.denied_whole(rule))
            }
            EvaluatedUnit::Whole => self.denied_whole(rule),
        }
    }

    /// Returns whether a deny rule concerns this agent, kind and tool. An unknown agent matches any.
    fn concerns(&self, rule: &Rule) -> bool {
        let subject = self.subject;
        let kinds = || subject.kind.iter().chain(&subject.other_kinds);
        let tools = || subject.tool.iter().chain(&subject.other_tools);
        let is_agent = |agent: &str| rule.agents.iter().any(|pattern| wildcard(pattern, agent));
        (rule.agents.is_empty() || subject.agent().is_none_or(is_agent))
            && (rule.kinds.is_empty() || kinds().any(|kind| rule.kinds.contains(kind)))
            && (rule.tools.is_empty()
                || tools().any(|tool| rule.tools.iter().any(|pattern| wildcard(pattern, tool))))
    }

    fn denied_run(&self, rule: &Rule, run: &SimpleCommand, command: &Command) -> Match {
        if rule.command.is_none() && rule.paths.is_empty() {
            return Match::No;
        }
        // The command is checked first, because it needs no file access.
        let named = match &rule.command {
            Some(pattern) => {
                run.candidates.iter().map(|(words, _)| denies(pattern, words)).max().unwrap_or(Match::No)
            }
            None => Match::Yes,
        };
        // An unknown directory matches: a deny rule must not be evaded by an unknown `cd`.
        if named == Match::No || !self.is_in_cwd(rule, command.cwd.as_deref(), true) {
            return Match::No;
        }
        if rule.paths.is_empty() {
            // A rule about operations on files says nothing about a command without files.
            return if rule.operations.is_empty() { named } else { Match::No };
        }
        let is_written =
            [Operation::Add, Operation::Modify].iter().any(|operation| rule.operations.contains(operation));
        let own = command.files.iter().map(|(argument, view)| (argument.writes, view));
        // Commands that are only possible are not known to write.
        let files = own
            .chain(command.tried.iter().map(|view| (false, view)))
            .filter(|(writes, _)| rule.operations.is_empty() || *writes && is_written)
            .map(|(_, view)| self.files.is_denied(&rule.paths, view));
        files.max().unwrap_or(Match::No).min(named)
    }

    fn denied_path(&self, rule: &Rule, path: &SubjectPath, view: &View) -> Match {
        let is_meant =
            |operation: &Operation| *operation == Operation::Unknown || rule.operations.contains(operation);
        // An unspecified operation may be any, unless the request only reads.
        let is_operation = rule.operations.is_empty()
            || path.operations.iter().any(is_meant)
            || path.operations.is_empty() && self.subject.may_write() && !self.subject.has_command;
        if rule.command.is_some() || !is_operation || !self.is_in_cwd(rule, self.files.start(), true) {
            return Match::No;
        }
        match rule.paths.is_empty() && !rule.operations.is_empty() {
            true => Match::Yes,
            false => self.files.is_denied(&rule.paths, view),
        }
    }

    /// Returns whether a rule is about every request of this kind.
    fn denied_whole(&self, rule: &Rule) -> Match {
        let is_general = rule.command.is_none() && rule.paths.is_empty() && rule.operations.is_empty();
        match is_general && self.concerns(rule) && self.is_in_cwd(rule, self.files.start(), true) {
            true => Match::Yes,
            false => Match::No,
        }
    }

    fn is_in_cwd(&self, rule: &Rule, cwd: Option<&str>, if_unknown: bool) -> bool {
        rule.cwd.is_empty() || cwd.map_or(if_unknown, |cwd| self.files.is_in(&rule.cwd, cwd))
    }

    // ----- allow rules

    /// Returns the strictest decision of all units of the request.
    fn decide(&self, policy: &Policy) -> Decision {
        let allowing: Vec<&Rule> = policy
            .rules
            .iter()
            .filter(|rule| rule.decision == Verdict::Allow && self.may_name(rule) && self.may_allow(rule))
            .collect();
        let asking: Vec<&Rule> = policy.rules.iter().filter(|rule| rule.decision == Verdict::Ask).collect();
        // Every command and every file must be covered: one uncovered unit decides the request.
        let mut units: Vec<EvaluatedUnit<'_>> = self.runs().map(EvaluatedUnit::Run).collect();
        let covered = self.paths.iter().filter(|(path, _)| path.needs_cover);
        units.extend(covered.map(|(path, view)| EvaluatedUnit::Path(path, view)));
        // A mentioned word counts as a file only if it looks like a path or a file of that name exists.
        let is_file = |mention: &Mention, view: &View| {
            !mention.is_words && (mention.is_path || self.files.is_there(view))
        };
        // A mention of a file that is already a unit is not checked twice.
        let is_named = |text: &str, view: &View| {
            let is_same = |named: &View| named.resolved.is_some() && named.resolved == view.resolved;
            self.paths.iter().any(|(path, named)| path.needs_cover && (path.path == text || is_same(named)))
        };
        let mentioned = self
            .mentions
            .iter()
            .filter(|(mention, path, view)| is_file(mention, view) && !is_named(&path.path, view));
        units.extend(mentioned.map(|(_, path, view)| EvaluatedUnit::Path(path, view)));
        if units.is_empty() {
            units.push(EvaluatedUnit::Whole);
        }
        // The strictest decision wins.
        let mut worst: Option<Decision> = None;
        for unit in &units {
            let decision = self.decide_unit(policy, unit, &allowing, &asking);
            worst = Some(match worst {
                Some(worst) if decision.verdict > worst.verdict => decision,
                // An answer for later requests needs the consent of every matching rule.
                Some(worst) if decision.verdict == Verdict::Allow && decision.remember == Remember::Never => {
                    Decision { remember: Remember::Never, ..worst }
                }
                Some(worst) => worst,
                None => decision,
            });
        }
        // An ask rule may also match things that need no cover, such as a mention.
        let others = asking.iter().find(|rule| self.denied(rule) != Match::No);
        match (worst, others) {
            // The ask rule matches something that needs no cover.
            (Some(worst), Some(rule)) if worst.verdict == Verdict::Allow => asked_by(rule),
            (Some(worst), _) => worst,
            (None, _) => by_default(policy, "no rule covers it".to_owned()),
        }
    }

    fn decide_unit(
        &self,
        policy: &Policy,
        unit: &EvaluatedUnit<'_>,
        allowing: &[&Rule],
        asking: &[&Rule],
    ) -> Decision {
        // Ask rules before allow rules, for each unit.
        if let Some(rule) = asking.iter().find(|rule| self.denied_unit(rule, unit) != Match::No) {
            return asked_by(rule);
        }
        let rule = match unit {
            EvaluatedUnit::Run(run) => self.allowed_run(run, allowing),
            EvaluatedUnit::Path(path, view) => self.allowed_path(path, view, allowing),
            EvaluatedUnit::Whole => {
                allowing.iter().find(|rule| self.allows_whole(rule)).map(|rule| Allowed::By(rule))
            }
        };
        match rule {
            Some(Allowed::By(rule)) => {
                by_rule(rule, Verdict::Allow, || format!("allowed by the rule {:?}", rule.id))
            }
            Some(Allowed::Nothing) => Decision {
                verdict: Verdict::Allow,
                rule: None,
                reason: "it runs no command".to_owned(),
                remember: Remember::Never,
            },
            None => by_default(policy, self.uncovered(unit)),
        }
    }

    fn uncovered(&self, unit: &EvaluatedUnit<'_>) -> String {
        match unit {
            EvaluatedUnit::Run(run) => {
                let words: Vec<&str> = run.words.iter().map(|word| &*word.text).collect();
                let sets = self.subject.readings.iter().any(|reading| reading.sets_variables);
                let also = if sets { ", which also sets variables" } else { "" };
                format!("no rule covers the command {:?}{also}", words.join(" "))
            }
            EvaluatedUnit::Path(path, _) => format!("no rule covers the file {:?}", path.path),
            EvaluatedUnit::Whole => "no rule covers it".to_owned(),
        }
    }

    /// Returns whether an allow rule concerns this agent, kind and tool, all of which must be known.
    fn may_allow(&self, rule: &Rule) -> bool {
        let subject = self.subject;
        let is_one = |patterns: &[String], name: Option<&str>| {
            patterns.is_empty()
                || name.is_some_and(|name| patterns.iter().any(|pattern| wildcard(pattern, name)))
        };
        let is_kind = |kind: &ToolKind| rule.kinds.contains(kind);
        // A call with a diff does not only read, regardless of its kind.
        let is_honest = !subject.has_diff()
            || matches!(
                subject.kind,
                Some(
                    ToolKind::Edit
                        | ToolKind::Delete
                        | ToolKind::Move
                        | ToolKind::Other
                        | ToolKind::Unknown(_)
                )
            )
            || is_kind(&ToolKind::Edit);
        is_one(&rule.agents, subject.agent())
            && is_one(&rule.tools, subject.tool())
            && (rule.kinds.is_empty() || subject.kind.as_ref().is_some_and(is_kind) && is_honest)
    }

    fn allowed_run<'r>(&self, run: &SimpleCommand, rules: &[&'r Rule]) -> Option<Allowed<'r>> {
        // Variables may change any command, so no rule covers it.
        if self.subject.readings.iter().any(|reading: &Interpretation| reading.sets_variables) {
            return None;
        }
        // Assignments and redirections alone run no command. A redirection still writes a file.
        if run.words.is_empty() {
            return run.redirections.is_empty().then_some(Allowed::Nothing);
        }
        let command = self.command(run);
        // Fail closed: an allow rule needs a known directory.
        let cwd = command.cwd.as_deref()?;
        if let Some(rule) = rules.iter().find(|rule| self.allows_run(rule, run, cwd)) {
            return Some(Allowed::By(rule));
        }
        // A login shell runs the user's profile first, which the policy must opt in to.
        if run.is_login && !self.login_shells {
            return None;
        }
        // A wrapper is allowed if all its commands are.
        let mut inner = run.inner.iter();
        let first = self.allowed_run(inner.next()?, rules)?;
        inner.all(|run| self.allowed_run(run, rules).is_some()).then_some(first)
    }

    fn allows_run(&self, rule: &Rule, run: &SimpleCommand, cwd: &str) -> bool {
        let Some(pattern) = &rule.command else { return false };
        if !allows(pattern, &run.words) || !self.is_in_cwd(rule, Some(cwd), false) {
            return false;
        }
        let named = pattern.len();
        let program = run.words.first().map_or("", |word| &word.text);
        // A word that is not literal may be an option.
        let may_be_option = |word: &Word| {
            !word.is_plain()
                && word.text.starts_with(['$', '`', '*', '?', '['])
                && !(word.is_glob && self.files.is_expanded(&FileName::of(word), cwd))
        };
        // A rule about the first words does not cover options that run or write something else.
        if has_escaping_option(&run.words, named)
            || has_options(program) && run.words[named..].iter().any(may_be_option)
            || run.writes() && !rule.allows_writing()
            || program == "git" && rule.cwd.is_empty() && !self.files.is_own_repository(cwd)
        {
            return false;
        }
        let command = self.command(run);
        let views =
            || command.files.iter().filter(|(argument, _)| !argument.name.is_pattern).map(|(_, view)| view);
        // Counted by file, so that one file under several names counts once.
        if let Some(limit) = rule.max_files {
            let files: std::collections::HashSet<_> = views().map(|view| &view.forms).collect();
            if files.len() > limit {
                return false;
            }
        }
        if rule.paths.is_empty() {
            // Without `path`, files that git reads must be in the project.
            let stays = program != "git" || views().all(|view| self.files.is_in_root(view));
            return stays && run.redirections.is_empty();
        }
        // Without files, a command with `path` may only read its input.
        match views().count() {
            0 => run.is_fed && reads_input(&run.words),
            _ => views().all(|view| self.files.is_allowed(&rule.paths, view)),
        }
    }

    fn allowed_path<'r>(&self, path: &SubjectPath, view: &View, rules: &[&'r Rule]) -> Option<Allowed<'r>> {
        let rule = rules.iter().find(|rule| {
            // A file of a request with a command is covered by a rule for that command.
            let is_for_this = match &rule.command {
                Some(pattern) => self.runs().any(|run| allows(pattern, &run.words)),
                None => !self.subject.has_command,
            };
            let is_operation = rule.operations.is_empty()
                || !path.operations.is_empty()
                    && path.operations.iter().all(|it| rule.operations.contains(it));
            is_for_this
                && is_operation
                // An unknown operation is never allowed.
                && !path.operations.contains(&Operation::Unknown)
                && rule.max_files.is_none_or(|limit| self.count_files() <= limit)
                && self.is_in_cwd(rule, self.files.start(), false)
                && self.files.is_allowed(&rule.paths, view)
        });
        rule.map(|rule| Allowed::By(rule))
    }

    fn count_files(&self) -> usize {
        let files = self.paths.iter().map(|(path, view)| view.resolved.as_ref().ok_or(&path.path));
        files.collect::<std::collections::HashSet<_>>().len()
    }

    fn allows_whole(&self, rule: &Rule) -> bool {
        !self.subject.has_command
            && rule.command.is_none()
            && rule.paths.is_empty()
            && self.is_in_cwd(rule, self.files.start(), false)
    }
}

/// Reason why a unit is allowed.
#[derive(Debug, Clone, Copy)]
enum Allowed<'r> {
    By(&'r Rule),
    /// It does nothing by itself.
    Nothing,
}

fn asked_by(rule: &Rule) -> Decision {
    by_rule(rule, Verdict::Ask, || format!("the rule {:?} asks", rule.id))
}

fn by_default(policy: &Policy, reason: String) -> Decision {
    Decision { verdict: policy.default, rule: None, reason, remember: Remember::Never }
}
