//! Command lines with their expected verdicts.

use switchboard_policy::Verdict;

use crate::support::{evaluate_line, policy};

const RULES: &str = r#"
[[rule]]
id = "tests"
decision = "allow"
command = ["cargo", ["test", "check", "clippy"]]

[[rule]]
id = "git"
decision = "allow"
command = ["git", ["status", "log", "diff"]]

[[rule]]
id = "look"
decision = "allow"
command = [["ls", "pwd", "echo", "true", "cd"]]

[[rule]]
id = "files"
decision = "allow"
command = [["cat", "head"]]
path = ["$root/**"]

[[rule]]
id = "no-rm"
decision = "deny"
command = ["rm", "-rf"]

[[rule]]
id = "no-push"
decision = "deny"
command = ["git", "push"]

[[rule]]
id = "secrets"
decision = "deny"
path = ["**/.env*", "~/.ssh/**"]
"#;

#[test]
fn the_corpus_is_judged_as_a_careful_person_would() {
    let policy = policy(RULES);
    let corpus = include_str!("../corpus/commands.txt");
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in corpus.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (expected, command) = line.split_once(' ').unwrap();
        let command = command.replace('⏎', "\n").replace('⇥', "\t").replace('␍', "\r").replace('␋', "\x0b");
        let command = command.replace('⍽', "\u{a0}");
        let decision = evaluate_line(&policy, &command);
        count += 1;
        if decision.verdict.as_str() != expected {
            wrong.push(format!(
                "{command:?}: expected {expected}, found {} ({})",
                decision.verdict, decision.reason
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 650, "{count}");
    assert_eq!(evaluate_line(&policy, "").verdict, Verdict::Ask);
}
