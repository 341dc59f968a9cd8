//! A real shell is the judge: what is allowed here, it takes for commands, and for no others than were allowed.

use std::cell::RefCell;

use proptest::prelude::*;
use switchboard_policy::Verdict;

use crate::bash::{PIECES, RULES, Shell, line};
use crate::support::{judge_line, policy};

/// In a shell that can run nothing else, what is allowed runs nothing but what may be run.
#[test]
fn what_is_allowed_runs_nothing_else() {
    let (policy, shell) = (policy(RULES), RefCell::new(Shell::new()));
    // `PROPTEST_CASES` asks for more.
    let config =
        ProptestConfig { cases: ProptestConfig::default().cases.max(1500), ..ProptestConfig::default() };
    proptest!(config, |(places in prop::collection::vec(0..PIECES.len(), 1..12))| {
        let line = line(places);
        if judge_line(&policy, &line).verdict == Verdict::Allow {
            prop_assert_eq!(shell.borrow_mut().objection(&line), None, "{:?} was allowed", line);
        }
    });
}

/// What was found once is not allowed again.
#[test]
fn what_no_shell_takes_is_not_allowed() {
    let (policy, mut shell) = (policy(RULES), Shell::new());
    for line in ["ok |&\ntime ok", "ok |\n\ntime ok", "ok ${\\}", "ok \\"] {
        assert!(shell.objection(line).is_some() || line.ends_with('\\'), "{line:?} is a command line");
        assert_ne!(judge_line(&policy, line).verdict, Verdict::Allow, "{line:?}");
    }
}

#[test]
fn the_shell_objects() {
    let mut shell = Shell::new();
    for line in
        ["ok a", "ok; ok", "ok && ok | ok", "case a in a) ok;; esac", "for i in a; do ok $i; done", "(ok)"]
    {
        assert_eq!(shell.objection(line), None, "{line}");
    }
    for line in
        ["evil", "ok; evil", "ok $(evil)", "ok `evil`", "cd /", "eval evil", "ok &\nevil", "ok )", "ok '"]
    {
        assert!(shell.objection(line).is_some(), "{line}");
    }
}
