//! Comparison with real shells: bash, dash and busybox sh accept every allowed line, run the same commands,
//! and only allowed ones.

use proptest::prelude::*;
use switchboard_policy::{Policy, Subject, Verdict};

use crate::shells::{PIECES, RULES, SHELLS, Shells, line};
use crate::support::{host, policy, scene};

/// Returns the objection of a shell to an allowed line.
fn objection(policy: &Policy, shells: &Shells, line: &str) -> Option<String> {
    let subject = Subject::of_line(line, &scene());
    if policy.evaluate(&subject, &host()).verdict != Verdict::Allow {
        return None;
    }
    let is_written_out = !line.contains(['$', '*', '?', '[', '~']);
    let commands = subject.commands();
    shells.objection(line, is_written_out.then_some(&commands))
}

/// In shells without any other program, an allowed line runs only allowed commands, the same in each shell.
#[test]
fn allowed_commands_run_nothing_else_in_any_shell() {
    let (policy, shells) = (policy(RULES), Shells::new());
    // `PROPTEST_CASES` sets the number of cases.
    let config =
        ProptestConfig { cases: ProptestConfig::default().cases.max(3000), ..ProptestConfig::default() };
    proptest!(config, |(places in prop::collection::vec(0..PIECES.len(), 1..12))| {
        let line = line(places);
        prop_assert_eq!(objection(&policy, &shells, &line), None, "{:?} was allowed", line);
    });
}

/// Lines that look harmless, and lines from earlier findings.
#[test]
fn commands_that_shells_parse_differently_are_not_allowed() {
    let (policy, shells) = (policy(RULES), Shells::new());
    let verdict = |line: &str| policy.evaluate(&Subject::of_line(line, &scene()), &host()).verdict;
    for line in [
        "ok &>/dev/null evil",
        "ok &>>x",
        "ok &> /dev/null",
        "ok $'a\\'; evil #'",
        "ok $\"a\"",
        "ok |& ok",
        "ok <<< a",
        "ok {a,b}",
        "ok a{1..3}",
        "ok 10>&1",
        "ok 12>/dev/null",
        "ok >&10",
        "ok 2>&1-",
        "ok >&a",
        "ok \"$\\\n(evil)\"",
        "ok a\\\nb",
        "ok &\\\n> x",
        "! ! ok",
        "LANG+=x ok",
        "LANG[0]=x ok",
        "ok ${x/a/b}",
        "ok ${x^^}",
        "ok \"${x:-\"a\"}\"",
        "ok ~+",
        "ok a=~",
        "ok [^a]",
        "case a in a) ok;& b) ok;; esac",
        "[[ a > b ]] && ok",
        "select i in a; do ok; done",
        "ok <<E\na",
        "ok <<E",
        "ok |&\ntime ok",
        "ok |\n\ntime ok",
        "ok ${\\}",
        "ok \\",
    ] {
        assert_ne!(verdict(line), Verdict::Allow, "{line:?}");
    }
    // Some of them, by the behaviour of the shells.
    for (line, differ) in [
        ("ok &>/dev/null evil", true),
        ("ok $'a\\'; evil #'", true),
        ("ok \"$\\\n(evil)\"", true),
        ("ok {a,b}", true),
        ("ok 10>&1", true),
        ("ok a\\\nb", false),
    ] {
        let deeds: Vec<_> = SHELLS.iter().map(|shell| shells.run(shell, line)).collect();
        let is_same = deeds.iter().all(|one| one.ran == deeds[0].ran && one.said.is_empty());
        assert_eq!(!is_same, differ, "{line:?}: {deeds:?}");
    }
}

#[test]
fn the_shells_object_to_what_is_not_ok_and_to_nothing_else() {
    let shells = Shells::new();
    for line in [
        "ok a",
        "ok; ok",
        "ok && ok | ok",
        "case a in a) ok;; esac",
        "for i in a; do ok $i; done",
        "(ok)",
        "while ok; do ok b; done",
        "ok &",
        "ok <<E\na\nE",
    ] {
        assert_eq!(shells.objection(line, None), None, "{line}");
    }
    for line in [
        "evil",
        "ok; evil",
        "ok $(evil)",
        "ok `evil`",
        "cd /x",
        "eval evil",
        "ok &\nevil",
        "ok )",
        "ok '",
        "ok >x",
    ] {
        assert!(shells.objection(line, None).is_some(), "{line}");
    }
    assert!(shells.objection("ok a", Some(&[vec!["ok", "b"]])).is_some());
}

/// Loops over literal words are evaluated per iteration, as the shells run them.
#[test]
fn loops_run_what_was_found_in_them() {
    let (policy, shells) = (policy(RULES), Shells::new());
    for (line, expected) in [
        ("for i in a b; do ok $i; done", &["a", "b"][..]),
        ("for i in 'a b' c; do ok \"$i\"; done", &["a b", "c"]),
        ("for i in a b; do ok \"x${i}y\" z$i; done", &["xay", "xby"]),
        ("for i in a; do for j in b c; do ok $i$j; done; done", &["ab", "ac"]),
    ] {
        let subject = Subject::of_line(line, &scene());
        assert_eq!(policy.evaluate(&subject, &host()).verdict, Verdict::Allow, "{line}");
        let found: Vec<&str> = subject.commands().iter().map(|words| words[1]).collect();
        assert_eq!(found, expected, "{line}");
        assert_eq!(shells.objection(line, Some(&subject.commands())), None, "{line}");
    }
    for line in [
        "for i in evil; do $i; done",
        "for i in a; do read i; ok $i; done",
        "for i in a; do for i in b; do ok; done; ok $i; done",
        "for i in ok evil; do \"$i\" a; done",
    ] {
        assert_ne!(
            policy.evaluate(&Subject::of_line(line, &scene()), &host()).verdict,
            Verdict::Allow,
            "{line}"
        );
    }
}
