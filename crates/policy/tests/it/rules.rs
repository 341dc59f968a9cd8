//! Valid and invalid policy files.

use serde_json::{Value, json};
use switchboard_policy::{Mode, NoFiles, Policy, Verdict};

use crate::support::{evaluate_line, host, policy};

fn error(text: &str) -> (Option<usize>, String) {
    let error = Policy::parse(text, &host()).expect_err(text);
    (error.line(), error.message().to_owned())
}

#[test]
fn errors_of_a_policy_file_have_their_line() {
    let rule = "[[rule]]\ndecision = \"allow\"\n";
    for (text, line) in [
        ("default = \"maybe\"\n".to_owned(), 1),
        ("mode = \"watch\"\n".to_owned(), 1),
        ("default = \"ask\"\ntypo = 1\n".to_owned(), 2),
        ("[[rules]]\ndecision = \"ask\"\n".to_owned(), 1),
        ("[rule]\ndecision = \"ask\"\n".to_owned(), 1),
        ("default = \"ask\"\n[[rule]]\nid = \"x\"\n".to_owned(), 2),
        ("not toml".to_owned(), 1),
        ("default = \"ask\"\ndefault = \"ask\"\n".to_owned(), 2),
        (format!("{rule}comand = [\"x\"]\n"), 3),
        (format!("{rule}commands = [\"x\"]\n"), 3),
        (format!("{rule}command = []\n"), 3),
        (format!("{rule}command = [[]]\n"), 3),
        (format!("{rule}command = [\"\"]\n"), 3),
        (format!("{rule}command = \"git status\"\n"), 3),
        (format!("{rule}command = [\"git status\"]\n"), 3),
        (format!("{rule}command = [\"git\", \"*\"]\n"), 3),
        (format!("{rule}command = [\"git\", \"&&\", \"x\"]\n"), 3),
        (format!("{rule}command = [\"A=b\", \"x\"]\n"), 3),
        (format!("{rule}command = [\"-x\"]\n"), 3),
        (format!("{rule}command = [\"eval\"]\n"), 3),
        (format!("{rule}command = [[\"eval\", \"hash\"], \"x\"]\n"), 3),
        (format!("{rule}command = [\"for\"]\n"), 3),
        (format!("{rule}command = [[\"ls\", \"if\"]]\n"), 3),
        ("[[rule]]\ndecision = \"deny\"\ncommand = [\"while\", \"true\"]\n".to_owned(), 3),
        (format!("{rule}kind = \"execute\"\n"), 3),
        (format!("{rule}kind = [\"execute\"]\npath = [\"**\"]\n"), 3),
        (format!("{rule}kind = \"delete\"\npath = [\"**\"]\noperations = [\"add\"]\n"), 5),
        (format!("{rule}kind = [\"move\", \"delete\"]\npath = [\"**\"]\noperations = [\"modify\"]\n"), 5),
        (format!("{rule}command = [\"git*\"]\n"), 3),
        (format!("{rule}command = [1]\n"), 3),
        (format!("{rule}kind = \"exec\"\n"), 3),
        (format!("{rule}kind = []\n"), 3),
        (format!("{rule}path = [\"src/**\"]\n"), 3),
        (format!("{rule}path = [\n  \"$root/**\",\n  \"../x\",\n]\n"), 5),
        (format!("{rule}path = []\n"), 3),
        (format!("{rule}cwd = \"src\"\n"), 3),
        (format!("{rule}operations = [\"add\"]\n"), 3),
        (format!("{rule}path = [\"**\"]\noperations = [\"create\"]\n"), 4),
        (format!("{rule}command = [\"x\"]\npath = [\"**\"]\noperations = [\"add\"]\n"), 5),
        (
            format!(
                "{rule}command = [\"x\"]\npath = [\"**\"]\noperations = [\"add\", \"modify\", \"delete\"]\n"
            ),
            5,
        ),
        (format!("{rule}command = [\"x\"]\noperations = [\"add\", \"modify\"]\n"), 4),
        ("login_shells = 1\n".to_owned(), 1),
        (format!("{rule}path = [\"**\"]\nmax_files = 0\n"), 4),
        (format!("{rule}path = [\"**\"]\nmax_files = \"many\"\n"), 4),
        (format!("{rule}agent = \"\"\n"), 3),
        (format!("{rule}remember = 1\n"), 3),
        ("[[rule]]\ndecision = \"deny\"\npath = [\"**\"]\nmax_files = 3\n".to_owned(), 4),
        ("[[rule]]\ndecision = \"deny\"\nremember = true\n".to_owned(), 3),
        (
            "[[rule]]\nid = \"a\"\ndecision = \"deny\"\n[[rule]]\nid = \"a\"\ndecision = \"ask\"\n"
                .to_owned(),
            4,
        ),
        (format!("{rule}command = [\"cargo\"]\nmatch = [\n  \"cargo x\",\n  \"make\",\n]\n"), 6),
        (format!("{rule}command = [\"cargo\"]\nnot_match = [\"cargo x\"]\n"), 4),
        (format!("{rule}command = [\"cargo\"]\nmatch = [\"cargo x; rm y\"]\n"), 4),
        (format!("{rule}kind = \"read\"\nmatch = [\"x\"]\n"), 4),
        ("[[rule]]\ndecision = \"deny\"\ncommand = [\"rm\"]\nmatch = [\"echo rm\"]\n".to_owned(), 4),
    ] {
        let (found, message) = error(&text);
        assert_eq!(found, Some(line), "{message}\n{text}");
    }
}

#[test]
fn the_rules_in_the_guide_are_rules() {
    let guide = include_str!("../../../../docs/policy.md");
    let blocks: Vec<&str> =
        guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.iter().map(|block| policy(block).len()).collect::<Vec<_>>(), [2, 17]);
}

#[test]
fn the_recipes_in_the_guide_do_what_they_say_about_files() {
    let guide = include_str!("../../../../docs/policy.md");
    let recipes = policy(guide.split("```toml\n").nth(2).and_then(|rest| rest.split("```").next()).unwrap());
    let diff = |path: &str, old: Value| json!({ "toolCallId": "c", "kind": "edit", "content": [{ "type": "diff", "path": path, "oldText": old, "newText": "b" }] });
    let of_kind = |kind: &str, path: &str| json!({ "toolCallId": "c", "kind": kind, "locations": [{ "path": path }], "rawInput": { "path": path } });
    for (agent, call, expected) in [
        ("x", of_kind("read", "/project/src/lib.rs"), "allow"),
        ("x", of_kind("search", "/project"), "allow"),
        ("x", of_kind("read", "/etc/passwd"), "ask"),
        ("x", of_kind("read", "/project/.env"), "deny"),
        ("x", of_kind("read", "/project/keys/a.pem"), "deny"),
        ("claude-code", diff("/project/src/lib.rs", json!("a")), "allow"),
        ("claude-code", diff("/project/tests/new.rs", Value::Null), "allow"),
        ("codex", diff("/project/src/lib.rs", json!("a")), "ask"),
        ("claude-code", diff("/project/build.rs", json!("a")), "ask"),
        ("claude-code", of_kind("delete", "/project/src/lib.rs"), "ask"),
        ("claude-code", diff("/project/src/../.git/hooks/x", Value::Null), "deny"),
        ("claude-code", diff("/home/me/.bashrc", json!("a")), "deny"),
    ] {
        let mut reader = crate::support::reader("/project");
        reader.set_agent(agent);
        let options = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_once" }]);
        let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params });
        let question = reader.read(&request.to_string(), None, Default::default()).remove(0);
        let decision = recipes.evaluate(&question.subject, &host()).offered(&question.options);
        assert_eq!(decision.verdict.as_str(), expected, "{agent}: {call} ({})", decision.reason);
    }
}

#[test]
fn a_file_with_everything_is_read() {
    let text = r#"
default = "ask"
mode = "enforce"

[[rule]]
id = "tests"
decision = "allow"
command = ["cargo", ["test", "check", "clippy"]]
cwd = "$root"
match = ["cargo test --workspace"]
not_match = ["cargo test; rm -rf x"]

[[rule]]
decision = "allow"
kind = ["read", "search"]
path = ["$root/**"]

[[rule]]
decision = "deny"
path = ["**/.env*", "**/.git/hooks/**", "~/.ssh/**"]
reason = "secrets stay closed"
match = ["cat .env"]
not_match = ["cat env"]

[[rule]]
decision = "allow"
agent = "codex*"
kind = "edit"
operations = ["add", "modify"]
path = ["$root/src/**"]
max_files = 20
remember = false
"#;
    let policy = policy(text);
    assert_eq!((policy.len(), policy.mode(), policy.default_verdict()), (4, Mode::Enforce, Verdict::Ask));
    let decision = evaluate_line(&policy, "cat .env");
    assert_eq!((decision.rule.as_deref(), &*decision.reason), (Some("rule-3"), "secrets stay closed"));
    assert_ne!(policy.hash(), Policy::parse("", &NoFiles::default()).unwrap().hash());
}

#[test]
fn the_strictest_rule_counts_whatever_the_order() {
    let rules = [
        "[[rule]]\nid = \"allow\"\ndecision = \"allow\"\ncommand = [\"git\"]\n",
        "[[rule]]\nid = \"ask\"\ndecision = \"ask\"\ncommand = [\"git\", [\"push\", \"pull\"]]\n",
        "[[rule]]\nid = \"deny\"\ndecision = \"deny\"\ncommand = [\"git\", \"push\"]\n",
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        let text: String = order.iter().map(|place| rules[*place]).collect();
        let policy = policy(&text);
        for (line, expected) in [
            ("git status", "allow"),
            ("git pull", "ask"),
            ("git push", "deny"),
            ("git status && git pull", "ask"),
        ] {
            let decision = evaluate_line(&policy, line);
            assert_eq!(
                (decision.verdict.as_str(), decision.rule.as_deref()),
                (expected, Some(expected)),
                "{line}"
            );
        }
    }
}

#[test]
fn the_default_counts_where_no_rule_does_but_never_allows_what_is_unsure() {
    let rule = "[[rule]]\nid = \"r\"\ndecision = \"allow\"\ncommand = [\"ls\"]\n\
        [[rule]]\nid = \"a\"\ndecision = \"ask\"\ncommand = [\"git\"]\n";
    for (default, made, unsure, part) in
        [("allow", "allow", "ask", "ask"), ("ask", "ask", "ask", "ask"), ("deny", "deny", "deny", "deny")]
    {
        let policy = policy(&format!("default = \"{default}\"\n{rule}"));
        let verdict = |line: &str| evaluate_line(&policy, line).verdict.as_str();
        assert_eq!(verdict("make"), made);
        assert_eq!(verdict("ls"), "allow");
        assert_eq!(verdict("git x"), "ask");
        assert_eq!(verdict("ls; make"), made);
        assert_eq!(verdict("ls $(x)"), unsure);
        assert_eq!(verdict("eval ls"), unsure);
        assert_eq!(verdict("git x; make"), part);
    }
}

#[test]
fn a_word_that_is_not_written_out_may_be_the_one_that_is_denied() {
    let policy = policy(
        "[[rule]]\ndecision = \"allow\"\ncommand = [[\"git\", \"rm\"]]\n\
         [[rule]]\ndecision = \"deny\"\ncommand = [\"git\", \"push\"]\n\
         [[rule]]\ndecision = \"deny\"\ncommand = [\"rm\", \"-rf\"]\n",
    );
    for (line, expected) in [
        ("git $x", "ask"),
        ("git pu*", "ask"),
        ("git -C $x status", "ask"),
        ("git log $x", "ask"),
        ("git log src/$x", "ask"),
        ("git log --oneline", "allow"),
        ("rm *.o", "allow"),
        ("rm $x", "allow"),
        ("rm {-rf,x}", "deny"),
    ] {
        assert_eq!(evaluate_line(&policy, line).verdict.as_str(), expected, "{line}");
    }
}

#[test]
fn a_project_can_only_make_things_stricter_unless_it_is_trusted() {
    let user = policy("[[rule]]\ndecision = \"allow\"\ncommand = [\"ls\"]\n");
    let project = policy(
        "default = \"allow\"\nmode = \"observe\"\n[[rule]]\ndecision = \"allow\"\ncommand = [\"make\"]\n\
         [[rule]]\ndecision = \"deny\"\ncommand = [\"ls\", \"-l\"]\n",
    );
    let verdict = |policy: &Policy, line: &str| evaluate_line(policy, line).verdict.as_str();
    let both = user.clone().with_project(project.clone(), false);
    assert_eq!(both.mode(), Mode::Enforce);
    for (line, expected) in [("ls", "allow"), ("ls -l", "deny"), ("make", "ask"), ("x", "ask")] {
        assert_eq!(verdict(&both, line), expected, "{line}");
    }
    let trusted = user.clone().with_project(project, true);
    assert_eq!(trusted.mode(), Mode::Observe);
    for (line, expected) in [("ls", "allow"), ("ls -l", "deny"), ("make", "allow"), ("x", "allow")] {
        assert_eq!(verdict(&trusted, line), expected, "{line}");
    }
    let strict = user.with_project(policy("default = \"deny\"\n"), false);
    assert_eq!((verdict(&strict, "ls"), verdict(&strict, "x")), ("allow", "deny"));
}
