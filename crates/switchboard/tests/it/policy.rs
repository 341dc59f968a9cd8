//! `switchboard policy`, on a real file system.
#![cfg(unix)]
// Values created in place are easier to read without references.
#![allow(clippy::needless_pass_by_value)]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::{Run, switchboard};

const RULES: &str = r#"
[[rule]]
id = "tests"
decision = "allow"
command = ["cargo", "test"]
cwd = "$root"

[[rule]]
id = "files"
decision = "allow"
path = ["$root/**"]

[[rule]]
id = "secrets"
decision = "deny"
path = ["**/.env*"]
reason = "secrets stay closed"
"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.root().join("src")).unwrap();
        place.write("policy.toml", RULES, 0o644);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn root(&self) -> PathBuf {
        self.path("root")
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn explain(&self, lines: &[Value]) -> Run {
        let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.explain_text(&input, &[])
    }

    fn explain_text(&self, input: &str, more: &[&str]) -> Run {
        let (policy, root) = (self.path("policy.toml"), self.root());
        let arguments = ["policy", "explain", "--policy", text(&policy), "--root", text(&root)];
        switchboard(&[&arguments, more].concat(), input.as_bytes())
    }

    fn decision(&self, kind: &str, path: &Path) -> String {
        let run = self.explain(&[request(json!({ "kind": kind, "rawInput": { "path": text(path) } }))]);
        run.json_lines()[0]["decision"].as_str().unwrap().to_owned()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn request(call: Value) -> Value {
    let mut call = call;
    call["toolCallId"] = "c".into();
    let options = json!([
        { "optionId": "y", "name": "Yes", "kind": "allow_once" }, { "optionId": "n", "name": "No", "kind": "reject_once" },
    ]);
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params })
}

fn run_request(command: &str) -> Value {
    request(json!({ "kind": "execute", "rawInput": { "command": command } }))
}

#[test]
fn a_decision_is_told_with_its_rule_reason_and_subject() {
    let place = Place::new();
    let secret = place.root().join("src/../.env");
    let run = place.explain(&[
        run_request("cargo test"),
        run_request("cargo test && make"),
        request(json!({ "kind": "edit", "rawInput": { "path": text(&secret) } })),
    ]);
    assert_eq!((run.code, &*run.stderr), (0, ""));
    let resolved = place.root().canonicalize().unwrap().join(".env");
    assert_eq!(
        run.json_lines(),
        [
            json!({"decision": "allow", "rule": "tests", "reason": "allowed by the rule \"tests\"",
                "subject": {"command": ["cargo", "test"], "source": "structured", "paths": [], "kind": "execute"}}),
            json!({"decision": "ask", "rule": null, "reason": "no rule covers the command \"make\"",
                "subject": {"command": ["cargo", "test", "&&", "make"], "source": "structured", "paths": [], "kind": "execute"}}),
            json!({"decision": "deny", "rule": "secrets", "reason": "secrets stay closed",
                "subject": {"command": null, "source": "none", "paths": [text(&resolved)], "kind": "edit"}}),
        ]
    );
}

#[test]
fn links_and_hard_links_of_the_real_system_count() {
    let place = Place::new();
    let root = place.root();
    fs::write(root.join("a"), "").unwrap();
    fs::write(place.path("outside"), "").unwrap();
    fs::hard_link(place.path("outside"), root.join("hard")).unwrap();
    symlink("/etc", root.join("out")).unwrap();
    symlink("src", root.join("in")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("two", root.join("one")).unwrap();
    symlink("one", root.join("two")).unwrap();
    symlink("../nowhere/x", root.join("dangling")).unwrap();
    symlink(".env", root.join("harmless")).unwrap();
    symlink(std::ffi::OsStr::from_bytes(b"\xff\xfe"), root.join("odd")).unwrap();
    symlink(&root, place.path("link")).unwrap();
    for (kind, name, expected) in [
        ("edit", "root/a", "allow"),
        ("edit", "root/new", "allow"),
        ("edit", "root/in/x", "allow"),
        ("edit", "link/a", "allow"),
        ("read", "root/hard", "allow"),
        ("edit", "root/hard", "ask"),
        ("edit", "root/out/passwd", "ask"),
        ("edit", "root/in/../../outside", "ask"),
        ("edit", "root/loop", "ask"),
        ("edit", "root/one/x", "ask"),
        ("edit", "root/dangling", "ask"),
        ("edit", "root/odd", "ask"),
        ("edit", "root/odd/x", "ask"),
        ("read", "root/harmless", "deny"),
        ("read", "link/.env", "deny"),
    ] {
        assert_eq!(place.decision(kind, &place.path(name)), expected, "{kind} {name}");
    }
}

#[test]
fn rules_that_cannot_be_used_are_said_and_everything_is_asked() {
    let place = Place::new();
    let policy = place.path("policy.toml");
    let check = |place: &Place| switchboard(&["policy", "check", text(&place.path("policy.toml"))], b"");
    let run = check(&place);
    assert_eq!((run.code, run.stdout.contains("3 rules")), (0, true), "{}", run.stderr);
    for (rules, mode, code, told) in [
        ("[[rule]]\ndecision = \"allow\"\nkinds = \"read\"\n", 0o644, 1, ":3: unknown key \"kinds\""),
        (RULES, 0o666, 1, "all users can write to it"),
        (RULES, 0o646, 1, "all users can write to it"),
    ] {
        place.write("policy.toml", rules, mode);
        let run = check(&place);
        assert_eq!(run.code, code);
        assert!(run.stderr.contains(told), "{}", run.stderr);
        let run = place.explain(&[run_request("cargo test"), run_request("cat .env")]);
        assert_eq!(run.code, 1);
        assert!(run.stderr.contains(told), "{}", run.stderr);
        let decisions: Vec<Value> = run.json_lines().iter().map(|line| line["decision"].clone()).collect();
        assert_eq!(decisions, ["ask", "ask"]);
    }
    fs::remove_file(&policy).unwrap();
    assert_eq!(check(&place).code, 2);
    let run = place.explain(&[run_request("cargo test")]);
    assert_eq!((run.code, &run.json_lines()[0]["decision"]), (1, &json!("ask")));
    // A file that every user can replace.
    let open = place.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    place.write("open/policy.toml", RULES, 0o644);
    let run = switchboard(&["policy", "check", text(&open.join("policy.toml"))], b"");
    assert_eq!((run.code, run.stderr.contains("replace")), (1, true), "{}", run.stderr);
}

#[test]
fn lines_that_are_none_are_passed_over_and_told() {
    let place = Place::new();
    let request = run_request("cargo test").to_string();
    let input = format!("hello\n{{\"x\":\n\n{}\n{request}\n", &request[..request.len() - 20]);
    let run = place.explain_text(&input, &[]);
    let decisions: Vec<Value> = run.json_lines().iter().map(|line| line["decision"].clone()).collect();
    // The third line may be any request.
    assert_eq!((run.code, decisions), (1, vec![json!("ask"), json!("allow")]), "{}", run.stderr);
    assert!(run.stderr.contains("line 2"), "{}", run.stderr);
    let run = place.explain_text(&input, &["--message", "5"]);
    assert_eq!(run.json_lines().len(), 1);
}

/// Returns a recording with an allowed request, a rejected one, and a call that ran without a request.
fn recording(root: &Path) -> String {
    let from_agent = |message: Value| json!({ "dir": "agent->client", "msg": message });
    let from_client = |message: Value| json!({ "dir": "client->agent", "msg": message });
    let update = |update: Value| json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } });
    let ask = |id: u64, command: &str| {
        let mut message = run_request(command);
        message["id"] = id.into();
        message["params"]["toolCall"]["toolCallId"] = format!("c{id}").into();
        from_agent(message)
    };
    let answer = |id: u64, option: &str| {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        from_client(json!({ "jsonrpc": "2.0", "id": id, "result": outcome }))
    };
    let mut first = from_client(json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1, "clientCapabilities": {} },
    }));
    (first["began"], first["t"]) = (json!(1_700_000_000_000_u64), json!(0));
    let lines = [
        first,
        from_agent(json!({ "jsonrpc": "2.0", "id": 0, "result": {
            "protocolVersion": 1, "agentCapabilities": {}, "agentInfo": { "name": "tester", "version": "1" } } })),
        from_client(
            json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new", "params": { "cwd": text(root), "mcpServers": [] } }),
        ),
        from_agent(json!({ "jsonrpc": "2.0", "id": 1, "result": { "sessionId": "s" } })),
        ask(10, "cargo test"),
        answer(10, "y"),
        ask(11, "cargo test -p x"),
        answer(11, "n"),
        ask(12, "cat .env"),
        answer(12, "y"),
        ask(13, "make"),
        from_agent(update(json!({
            "sessionUpdate": "tool_call", "toolCallId": "quiet", "title": "ls", "kind": "execute", "status": "completed",
            "rawInput": { "command": "rm -r x" },
        }))),
        from_agent(update(
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "tool" } }),
        )),
    ];
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_past_is_judged_with_what_was_answered_then_and_what_nobody_was_asked() {
    let place = Place::new();
    fs::write(place.path("recording.jsonl"), recording(&place.root())).unwrap();
    let (policy, file, store) =
        (place.path("policy.toml"), place.path("recording.jsonl"), place.path("store.sqlite3"));
    let run = switchboard(&["policy", "test", "--json", text(&policy), text(&file)], b"");
    assert_eq!((run.code, &*run.stderr), (0, ""));
    let mut rows = run.json_lines();
    let counts = rows.pop().unwrap();
    assert_eq!(
        counts["counts"],
        json!({ "sessions": 1, "messages": 13, "questions": 4, "allowed": 2, "asked": 1, "denied": 1, "differences": 2,
            "answered_by_rule": 0, "rule_differences": 0, "unasked": 1, "unasked_allowed": 0, "unasked_asked": 1, "unasked_denied": 0 })
    );
    let shown: Vec<Value> = rows
        .iter()
        .map(|row| json!([row["message"], row["asked"], row["decision"], row["answered"], row["differs"]]))
        .collect();
    assert_eq!(
        shown,
        [
            json!([5, true, "allow", "allowed", false]),
            json!([7, true, "allow", "rejected", true]),
            json!([9, true, "deny", "allowed", true]),
            json!([11, true, "ask", "none", false]),
            json!([12, false, "ask", null, false]),
        ]
    );
    assert!(rows.iter().all(|row| row["session"] == text(&file)));
    let by: Vec<&Value> = rows.iter().map(|row| &row["answered_by"]).collect();
    assert_eq!(by, [&json!("person"), &json!("person"), &json!("person"), &Value::Null, &Value::Null]);
    let run = switchboard(&["policy", "test", text(&policy), text(&file)], b"");
    assert!(run.stdout.contains("2 would have been allowed, 1 asked, 1 denied"), "{}", run.stdout);
    assert!(run.stdout.contains("deny by secrets, allowed then: cat .env"), "{}", run.stdout);
    assert!(run.stdout.contains("1 tool calls ran without any question"), "{}", run.stdout);
    // The same from the store, where a message is selected by its number.
    let imported = switchboard(&["sessions", "--store", text(&store), "import", text(&file)], b"");
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let run = switchboard(&["policy", "test", "--json", text(&policy), "--store", text(&store)], b"");
    let rows = run.json_lines();
    assert_eq!(rows.last().unwrap()["counts"]["questions"], 4, "{}", run.stderr);
    let (session, message) = (rows[2]["session"].as_str().unwrap(), rows[2]["message"].to_string());
    let arguments = [
        "policy",
        "explain",
        "--policy",
        text(&policy),
        "--store",
        text(&store),
        "--session",
        session,
        "--message",
        &message,
    ];
    let run = switchboard(&arguments, b"");
    assert_eq!(run.json_lines().len(), 1, "{}", run.stderr);
    assert_eq!(run.json_lines()[0]["rule"], "secrets");
}

#[test]
fn recorded_answers_of_rules_are_not_answers_of_people() {
    let place = Place::new();
    let mut lines: Vec<String> = recording(&place.root()).lines().map(str::to_owned).collect();
    // The second request was rejected by a rule, and the third allowed by the default of the rules.
    for (request, rule) in [(11, json!("old")), (12, Value::Null)] {
        let note = json!({ "hub": "answered", "request": request, "by": { "policy": rule } });
        let is_answer =
            |line: &String| line.contains(&format!("\"id\":{request},")) && line.contains("\"result\"");
        let answer = lines.iter().position(is_answer).unwrap();
        lines.insert(answer, json!({ "t": 1, "hub": note }).to_string());
    }
    fs::write(place.path("recording.jsonl"), lines.join("\n")).unwrap();
    let (policy, file) = (place.path("policy.toml"), place.path("recording.jsonl"));
    let run = switchboard(&["policy", "test", "--json", text(&policy), text(&file)], b"");
    assert_eq!((run.code, &*run.stderr), (0, ""));
    let mut rows = run.json_lines();
    let counts = rows.pop().unwrap();
    let of = |key: &str| counts["counts"][key].as_u64().unwrap();
    assert_eq!(["answered_by_rule", "rule_differences", "differences"].map(of), [2, 2, 0]);
    let by: Vec<Value> = rows.iter().map(|row| json!([row["answered_by"], row["differs"]])).collect();
    let expected = [json!(["person", false]), json!(["rule", false]), json!(["rule", false])];
    assert_eq!(by[..3], expected);
    let run = switchboard(&["policy", "test", text(&policy), text(&file)], b"");
    assert!(
        run.stdout.contains("0 differ from the recorded answers of people; 2 differ from the"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("rejected then by a rule: cargo test -p x"), "{}", run.stdout);
}

#[test]
fn suggested_rules_spare_questions_and_allow_nothing_that_was_rejected() {
    let place = Place::new();
    fs::write(place.path("recording.jsonl"), recording(&place.root())).unwrap();
    let file = place.path("recording.jsonl");
    let run = switchboard(&["policy", "suggest", "--min", "1", text(&file)], b"");
    assert_eq!((run.code, &*run.stderr), (0, ""));
    // `cargo test` would have allowed a rejected request.
    assert!(!run.stdout.contains("\"cargo\""), "{}", run.stdout);
    // Hidden files are asked about, regardless of past answers.
    assert!(!run.stdout.contains("\"cat\""), "{}", run.stdout);
    assert!(run.stdout.contains("avoided 0 of 2 allowed questions"), "{}", run.stdout);
}

#[test]
fn suggested_rules_are_safe() {
    let place = Place::new();
    let mut lines: Vec<String> = recording(&place.root()).lines().take(4).map(str::to_owned).collect();
    let grave = [
        "rm -rf build",
        "git push origin main",
        "curl https://x",
        "npm install x",
        "npm run deploy",
        "npx x",
        "python3 x.py",
        "sudo ls",
        "bash x.sh",
        "docker run x",
        "frob --force",
        "git checkout x",
        "cargo install x",
        "cat /etc/hosts",
        "cat .env",
        "./x",
        "go run x.go",
        "tar xf x",
    ];
    let harmless = ["git status --short", "cargo test -p a", "npm test", "cat src/a", "frob --all", "ls -la"];
    for (id, command) in (100..).zip(harmless.iter().chain(&grave).chain(&harmless).chain(&grave)) {
        let mut message = run_request(command);
        message["id"] = id.into();
        message["params"]["toolCall"]["toolCallId"] = format!("c{id}").into();
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": { "outcome": "selected", "optionId": "y" } } });
        lines.push(json!({ "dir": "agent->client", "msg": message }).to_string());
        lines.push(json!({ "dir": "client->agent", "msg": answer }).to_string());
    }
    fs::write(place.path("recording.jsonl"), lines.join("\n")).unwrap();
    let run = switchboard(&["policy", "suggest", text(&place.path("recording.jsonl"))], b"");
    assert_eq!((run.code, &*run.stderr), (0, ""));
    place.write("policy.toml", &run.stdout, 0o644);
    assert_eq!(
        switchboard(&["policy", "check", text(&place.path("policy.toml"))], b"").code,
        0,
        "{}",
        run.stdout
    );
    let decisions = |commands: &[&str]| -> Vec<String> {
        let requests: Vec<Value> = commands.iter().map(|command| run_request(command)).collect();
        let rows = place.explain(&requests).json_lines();
        rows.iter().map(|row| row["decision"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(decisions(&harmless), vec!["allow"; harmless.len()], "{}", run.stdout);
    assert_eq!(decisions(&grave), vec!["ask"; grave.len()], "{}", run.stdout);
    let others =
        ["cat src/.env", "git log", "cargo build", "npm publish", "frob", "cat ~/.ssh/id_rsa", "ls && rm x"];
    assert_eq!(decisions(&others), vec!["ask"; others.len()], "{}", run.stdout);
}

#[test]
fn unreadable_permission_requests_are_asked() {
    let place = Place::new();
    let request = run_request("cargo test").to_string();
    let (start, rest) = request.split_at(request.len() / 2);
    let input = [
        // A byte order mark is not part of the message.
        format!("\u{feff}{request}\r\n").into_bytes(),
        [request.replace("cargo", "c").into_bytes(), b"\n".to_vec()].concat(),
        [start.as_bytes(), b"\xff", rest.as_bytes(), b"\n"].concat(),
        format!("{start}\n[{request},\n").into_bytes(),
    ];
    let (policy, root) = (place.path("policy.toml"), place.root());
    let run = switchboard(
        &["policy", "explain", "--policy", text(&policy), "--root", text(&root)],
        &input.concat(),
    );
    let decisions: Vec<Value> = run.json_lines().iter().map(|row| row["decision"].clone()).collect();
    assert_eq!(decisions, ["allow", "ask", "ask", "ask", "ask"], "{}{}", run.stdout, run.stderr);
}

#[test]
fn a_link_to_what_everybody_can_replace_is_refused() {
    let place = Place::new();
    // A link into a directory that every user can write to is as unsafe as a file there.
    let open = place.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    place.write("open/rules.toml", "default = \"ask\"\n", 0o644);
    symlink(open.join("rules.toml"), place.path("link.toml")).unwrap();
    let run = switchboard(&["policy", "check", text(&place.path("link.toml"))], b"");
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stderr.contains("all users can replace it"), "{}", run.stderr);
}
