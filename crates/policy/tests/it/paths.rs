//! Paths with their expected verdicts.

use serde_json::json;
use switchboard_policy::{Host, Node, Policy};

const RULES: &str = r#"
[[rule]]
decision = "allow"
path = ["$root/**"]

[[rule]]
decision = "deny"
path = ["**/.env*", "**/.git/hooks/**", "~/.ssh/**", "/link-to-etc/shadow"]
"#;

/// A host with links.
struct Machine;

impl Host for Machine {
    fn look(&self, path: &str) -> Node {
        let target = match path {
            "/project/out" | "/link-to-etc" => "/etc",
            "/project/in" => "src",
            "/project/up" => "..",
            "/project/chain" => "chain-2",
            "/project/chain-2" => "/project/out",
            "/project/deep" => "a/b/c",
            "/project/a/b/c" => "../../../..",
            "/project/dangling" => "/nowhere/x",
            "/project/dangling-in" => "src/not/there",
            "/project/loop" => "loop",
            "/project/one" => "two",
            "/project/two" => "/project/one",
            "/link-to-project" => "project",
            "/project/to-env" => "src/.env",
            "/project/ssh" => "/home/me/.ssh",
            "/project/to-hard" => "hard",
            "/project/odd" => return Node::Unreadable,
            "/project/hard" => return Node::File { links: 2 },
            "/project/a" => return Node::File { links: 1 },
            "/project" | "/project/src" => return Node::Folder,
            _ => return Node::Missing,
        };
        Node::Link(target.to_owned())
    }

    fn home(&self) -> Option<&str> {
        Some("/home/me")
    }

    fn ignores_case(&self, _: &str) -> bool {
        false
    }
}

fn verdict(policy: &Policy, kind: &str, input: &serde_json::Value) -> (&'static str, String) {
    let call = json!({ "toolCallId": "c", "kind": kind, "title": "A file", "rawInput": input });
    let options = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_once" }]);
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
    let message =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params });
    let questions = crate::support::reader("/project").read(&message.to_string(), None, Default::default());
    let [question] = &questions[..] else { panic!("{} questions", questions.len()) };
    let decision = policy.evaluate(&question.subject, &Machine).offered(&question.options);
    (decision.verdict.as_str(), decision.reason)
}

#[test]
fn paths_are_judged_as_a_careful_person_would() {
    let policy = Policy::parse(RULES, &Machine).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in
        include_str!("../corpus/paths.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let mut parts = line.splitn(3, ' ');
        let (Some(expected), Some(kind), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            panic!("{line}");
        };
        let path = path.replace('⏎', "\n").replace("\\0", "\0").replace("\"\"", "");
        count += 1;
        for key in
            ["path", "file_path", "filePath", "filepath", "source", "destination", "old_path", "new_path"]
        {
            let (found, reason) = verdict(&policy, kind, &json!({ key: path }));
            let (inner, _) = verdict(&policy, kind, &json!({ "arguments": { key: path } }));
            let (changed, _) = verdict(&policy, kind, &json!({ "changes": { &path: {} } }));
            if [found, inner, changed] != [expected; 3] {
                wrong.push(format!(
                    "{kind} {path:?}: expected {expected}, found {found}, {inner}, {changed} ({reason})"
                ));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 100, "{count}");
}

#[test]
fn a_file_system_that_ignores_case_makes_rules_do_so() {
    struct Mac;
    impl Host for Mac {
        fn look(&self, _: &str) -> Node {
            Node::Missing
        }
        fn home(&self) -> Option<&str> {
            None
        }
        fn ignores_case(&self, _: &str) -> bool {
            true
        }
    }
    let policy = Policy::parse(RULES, &Mac).unwrap();
    let scene = crate::support::scene();
    assert_eq!(policy.evaluate_line("cat .ENV", &scene, &Mac).verdict.as_str(), "deny");
    assert_eq!(policy.evaluate_line("cat /PROJECT/.Env.local", &scene, &Mac).verdict.as_str(), "deny");
}
