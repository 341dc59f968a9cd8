//! Requests of agents in both versions, valid and invalid.

use serde_json::{Value, json};
use switchboard_acp::v2::{PermissionOption, PermissionOptionKind as Kind};
use switchboard_policy::{Answer, NoFiles, Policy, Question, QuestionReader};

use crate::support::{host, policy};

const RULES: &str = r#"
[[rule]]
id = "tests"
decision = "allow"
command = ["cargo", "test"]
cwd = "$root"

[[rule]]
id = "reads"
decision = "allow"
kind = ["read", "search"]
path = ["$root/**"]

[[rule]]
id = "edits"
decision = "allow"
agent = "codex*"
kind = "edit"
operations = ["add", "modify"]
path = ["$root/src/**"]
max_files = 2

[[rule]]
id = "secrets"
decision = "deny"
path = ["**/.env*"]

[[rule]]
id = "fetch"
decision = "allow"
kind = "fetch"

[[rule]]
id = "list"
decision = "allow"
tool = "mcp__list"
"#;

fn options() -> Value {
    json!([
        { "optionId": "y", "name": "Yes", "kind": "allow_once" },
        { "optionId": "a", "name": "Always", "kind": "allow_always" },
        { "optionId": "n", "name": "No", "kind": "reject_once" },
    ])
}

fn request(params: Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": { "sessionId": "s" } });
    message["params"]["options"] = options();
    for (key, value) in params.as_object().unwrap() {
        message["params"][key] = value.clone();
    }
    message
}

fn v1(call: Value) -> Value {
    let mut whole = json!({ "toolCallId": "c" });
    call.as_object().unwrap().iter().for_each(|(key, value)| whole[key] = value.clone());
    request(json!({ "toolCall": whole }))
}

fn v2(call: Value) -> Value {
    let mut whole = json!({ "toolCallId": "c" });
    call.as_object().unwrap().iter().for_each(|(key, value)| whole[key] = value.clone());
    request(json!({ "title": "cargo test", "subject": { "type": "tool_call", "toolCall": whole } }))
}

fn update(update: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } })
}

fn ask(messages: &[Value]) -> Vec<Question> {
    let mut reader = crate::support::reader("/project");
    messages.iter().flat_map(|message| reader.read(&message.to_string(), None, Default::default())).collect()
}

/// Returns the verdict on the last request, with the origin of its command.
fn judged(policy: &Policy, messages: &[Value]) -> (&'static str, &'static str) {
    let question = ask(messages).pop().expect("a question");
    let decision = policy.evaluate(&question.subject, &host()).offered(&question.options);
    (decision.verdict.as_str(), question.subject.source().as_str())
}

#[test]
fn a_command_is_found_where_agents_put_it() {
    let policy = policy(RULES);
    let text = |text: &str| json!([{ "type": "content", "content": { "type": "text", "text": text } }]);
    for (call, expected) in [
        (json!({ "kind": "execute", "rawInput": { "command": "cargo test" } }), ("allow", "structured")),
        (json!({ "kind": "execute", "rawInput": { "cmd": "cargo test" } }), ("allow", "structured")),
        (json!({ "kind": "execute", "rawInput": { "script": "cargo test" } }), ("allow", "structured")),
        (
            json!({ "kind": "other", "title": "shell", "rawInput": { "command": ["cargo", "test"] } }),
            ("allow", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo", "args": ["test"] } }),
            ("allow", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": ["cargo"], "args": ["test"] } }),
            ("allow", "structured"),
        ),
        (json!({ "kind": "execute", "title": "cargo test" }), ("allow", "title")),
        (json!({ "kind": "execute", "title": "cargo test", "rawInput": {} }), ("allow", "title")),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cmd": "cargo test" } }),
            ("allow", "structured"),
        ),
        // Truncated, guessed or missing commands are never allowed.
        (json!({ "kind": "execute", "title": "cargo test …" }), ("ask", "cut")),
        (json!({ "kind": "execute", "title": "cargo test ..." }), ("ask", "cut")),
        (json!({ "kind": "execute", "title": "Bash" }), ("ask", "none")),
        (json!({ "kind": "execute", "title": "cargo test", "rawInput": { "x": 1 } }), ("ask", "none")),
        (json!({ "kind": "other", "title": "cargo test" }), ("ask", "none")),
        (json!({ "title": "Bash", "content": text("Running: cargo test") }), ("ask", "text")),
        (json!({ "title": "Bash", "content": text("Running: cargo te…") }), ("ask", "cut")),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cmd": "make" } }),
            ("ask", "structured"),
        ),
        (json!({ "kind": "execute", "rawInput": { "command": 5 } }), ("ask", "none")),
        (json!({ "kind": "execute", "rawInput": { "command": [] } }), ("ask", "none")),
        (json!({ "kind": "execute", "rawInput": { "command": ["cargo", 5] } }), ("ask", "none")),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo", "args": [5] } }),
            ("ask", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test;", "args": ["x"] } }),
            ("ask", "structured"),
        ),
        (
            json!({ "kind": "other", "rawInput": { "command": ["cargo", "test", "&&", "make"] } }),
            ("ask", "structured"),
        ),
        (
            json!({ "kind": "other", "rawInput": { "command": ["cargo", "test", "$(make)"] } }),
            ("ask", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": ["/bin/bash", "-lc", "cargo test"] } }),
            ("ask", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "arguments": { "command": "cargo test" } } }),
            ("ask", "none"),
        ),
        // The working folder counts.
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": "/project" } }),
            ("allow", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": "." } }),
            ("allow", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": "/etc" } }),
            ("ask", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": "~" } }),
            ("ask", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cd src && cargo test" } }),
            ("ask", "structured"),
        ),
        // Denied commands are found in any field.
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cmd": "cat .env" } }),
            ("deny", "structured"),
        ),
        (json!({ "kind": "execute", "title": "cat .env…" }), ("deny", "cut")),
        (json!({ "kind": "execute", "title": "cat .env", "rawInput": { "x": 1 } }), ("deny", "none")),
        (json!({ "title": "Bash", "content": text("Running: cat .env") }), ("deny", "text")),
        (
            json!({ "kind": "other", "rawInput": { "command": ["cargo", "test", "&&", "cat", ".env"] } }),
            ("deny", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "arguments": { "command": "cat .env" } } }),
            ("deny", "none"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test" }, "locations": [{ "path": "/x/.env" }] }),
            ("deny", "structured"),
        ),
        // Locations of a command need no rule; other files do.
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test" }, "locations": [{ "path": "/x/y" }] }),
            ("allow", "structured"),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "path": "/x/y" } }),
            ("ask", "structured"),
        ),
    ] {
        assert_eq!(judged(&policy, &[v1(call.clone())]), expected, "{call}");
        assert_eq!(judged(&policy, &[v2(call.clone())]), expected, "{call}");
        // The same call sent before: the request contains only its id.
        let mut told = call.clone();
        (told["sessionUpdate"], told["toolCallId"]) = ("tool_call".into(), "c".into());
        if told.get("title").is_none() {
            told["title"] = "Run it now".into();
        }
        assert_eq!(judged(&policy, &[update(told.clone()), v1(json!({}))]), expected, "{call}");
        told["sessionUpdate"] = "tool_call_update".into();
        assert_eq!(judged(&policy, &[update(told), v2(json!({}))]), expected, "{call}");
    }
    let command = |command: &str, cwd: &str| {
        request(json!({ "title": "t", "subject": { "type": "command", "command": command, "cwd": cwd } }))
    };
    assert_eq!(judged(&policy, &[command("cargo test", "/project")]), ("allow", "structured"));
    assert_eq!(judged(&policy, &[command("cargo test", "/")]), ("ask", "structured"));
    assert_eq!(judged(&policy, &[command("cat .env", "/")]), ("deny", "structured"));
}

#[test]
fn files_and_what_happens_to_them_are_found() {
    let policy = policy(RULES);
    let with_agent = |messages: &[Value]| {
        let mut all = vec![
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } }),
            json!({ "jsonrpc": "2.0", "id": 0, "result": { "protocolVersion": 1, "agentInfo": { "name": "codex-acp", "version": "1" } } }),
        ];
        all.extend_from_slice(messages);
        judged(&policy, &all).0
    };
    let old = |path: &str, old: Value| json!({ "kind": "edit", "content": [{ "type": "diff", "path": path, "oldText": old, "newText": "b" }] });
    let change = |operation: &str, path: &str| json!({ "kind": "edit", "content": [{ "type": "diff", "changes": [{ "operation": operation, "path": path }] }] });
    for (message, expected, unknown_agent) in [
        (v1(old("/project/src/a", json!("x"))), "allow", "ask"),
        (v1(old("/project/src/a", json!(null))), "allow", "ask"),
        (v1(old("/project/a", json!("x"))), "ask", "ask"),
        (v2(change("add", "/project/src/a")), "allow", "ask"),
        (v2(change("modify", "/project/src/a")), "allow", "ask"),
        (v2(change("delete", "/project/src/a")), "ask", "ask"),
        (v2(change("_melt", "/project/src/a")), "ask", "ask"),
        (v1(json!({ "kind": "edit", "locations": [{ "path": "/project/src/a" }] })), "ask", "ask"),
        (v1(json!({ "kind": "delete", "locations": [{ "path": "/project/src/a" }] })), "ask", "ask"),
        (v1(json!({ "kind": "read", "locations": [{ "path": "/project/a" }] })), "allow", "allow"),
        (v1(json!({ "kind": "read", "rawInput": { "path": "/project/a" } })), "allow", "allow"),
        (v1(json!({ "kind": "read", "rawInput": { "path": "/etc/a" } })), "ask", "ask"),
        (v1(json!({ "kind": "read", "rawInput": { "absolute_path": "/project/a" } })), "allow", "allow"),
        (
            v1(json!({ "kind": "read", "rawInput": { "path": "/project/a", "paths": ["/etc/a"] } })),
            "ask",
            "ask",
        ),
        (v1(json!({ "kind": "read", "rawInput": { "path": "/project/a", "file": "/etc/a" } })), "ask", "ask"),
        (v1(json!({ "kind": "read", "rawInput": { "path": "/project/a", "file": 5 } })), "allow", "allow"),
        (
            v1(
                json!({ "kind": "read", "rawInput": { "path": "/project/a", "arguments": { "files": ["/etc/a"] } } }),
            ),
            "ask",
            "ask",
        ),
        (v1(json!({ "kind": "read", "title": "Read all of it" })), "ask", "ask"),
        (
            v1(
                json!({ "kind": "read", "rawInput": { "path": "/project/a" }, "locations": [{ "path": "/etc/b" }] }),
            ),
            "ask",
            "ask",
        ),
        (v1(json!({ "kind": "read", "rawInput": { "path": 5 } })), "ask", "ask"),
        // A call of kind read with a diff.
        (
            v2(
                json!({ "kind": "read", "content": [{ "type": "diff", "changes": [{ "operation": "modify", "path": "/project/a" }] }] }),
            ),
            "ask",
            "ask",
        ),
        (v1(json!({ "kind": "edit", "rawInput": { "changes": { "/x/.env": {} } } })), "deny", "deny"),
        (
            v1(json!({ "kind": "fetch", "title": "Fetch it", "rawInput": { "url": "https://example.com" } })),
            "allow",
            "allow",
        ),
        (v1(json!({ "kind": "fetch", "rawInput": { "path": "/project/a" } })), "ask", "ask"),
        (v2(json!({ "kind": "other", "name": "mcp__list", "title": "List" })), "allow", "allow"),
        (
            v2(json!({ "kind": "other", "name": "mcp__list", "rawInput": { "command": "make" } })),
            "ask",
            "ask",
        ),
        (v2(json!({ "kind": "other", "title": "mcp__list" })), "ask", "ask"),
    ] {
        assert_eq!(with_agent(std::slice::from_ref(&message)), expected, "{message}");
        assert_eq!(judged(&policy, std::slice::from_ref(&message)).0, unknown_agent, "{message}");
    }
    let many = |count: usize| {
        let changes: Vec<Value> = (0..count)
            .map(|place| json!({ "operation": "modify", "path": format!("/project/src/{place}") }))
            .collect();
        v2(json!({ "kind": "edit", "content": [{ "type": "diff", "changes": changes }] }))
    };
    assert_eq!((with_agent(&[many(2)]), with_agent(&[many(3)])), ("allow", "ask"));
    // The diff is in an earlier update of the call, as in codex.
    let mut told = old("/project/src/a", json!("x"));
    (told["sessionUpdate"], told["toolCallId"], told["title"]) =
        ("tool_call".into(), "c".into(), "Edit files".into());
    let asks =
        v1(json!({ "kind": "edit", "title": "Edit files", "locations": [{ "path": "/project/src/a" }] }));
    assert_eq!(with_agent(&[update(told), asks]), "allow");
}

#[test]
fn every_request_is_answered_also_a_malformed_one() {
    let policy = policy(RULES);
    let good = json!({ "kind": "execute", "rawInput": { "command": "cargo test" } });
    let bad = json!({ "kind": "execute", "rawInput": { "command": "cat .env" } });
    let mut lines: Vec<(Value, &str)> = vec![
        (request(json!({ "title": "t" })), "ask"),
        (request(json!({ "title": "t", "subject": { "type": "_x" } })), "ask"),
        (request(json!({ "title": "t", "subject": 5 })), "ask"),
        (json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission" }), "ask"),
        (json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": [1] }), "ask"),
        (
            json!({ "jsonrpc": "2.0", "id": null, "method": "session/request_permission", "params": {} }),
            "ask",
        ),
        (
            json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": { "subject": { "command": "cat .env" } } }),
            "deny",
        ),
    ];
    for (call, verdict) in [(&good, "ask"), (&bad, "deny")] {
        for make in [v1, v2] {
            for options in [json!([]), json!("x"), json!([5]), json!([{ "optionId": "y" }])] {
                let mut message = make(call.clone());
                message["params"]["options"] = options;
                lines.push((message, verdict));
            }
            let mut twice = make(call.clone());
            twice["params"]["options"][2]["optionId"] = "y".into();
            lines.push((twice, verdict));
            let mut unnamed = make(call.clone());
            unnamed["params"].as_object_mut().unwrap().remove("sessionId");
            lines.push((unnamed, verdict));
            let mut notification = make(call.clone());
            notification.as_object_mut().unwrap().remove("id");
            lines.push((notification, verdict));
            let mut part = make(call.clone());
            let pointer = if part.pointer("/params/toolCall").is_some() {
                "/params/toolCall"
            } else {
                "/params/subject/toolCall"
            };
            part.pointer_mut(pointer).unwrap()["locations"] = json!([{ "path": 5 }]);
            lines.push((part.clone(), verdict));
            part.pointer_mut(pointer).unwrap()["locations"] = json!([]);
            part.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove("toolCallId");
            lines.push((part, verdict));
        }
    }
    for (message, expected) in lines {
        let questions = ask(std::slice::from_ref(&message));
        assert_eq!(questions.len(), 1, "{message}");
        assert_eq!(judged(&policy, std::slice::from_ref(&message)).0, expected, "{message}");
    }
    // Malformed parts of an earlier update are not forgotten.
    let told = update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "kind": "execute",
        "rawInput": { "command": "cargo test" }, "content": [{ "type": "diff", "path": 5 }],
    }));
    assert_eq!(judged(&policy, &[told, v1(json!({}))]).0, "ask");
    // An id that is in use.
    let second = v1(json!({ "toolCallId": "d", "kind": "execute", "rawInput": { "command": "cat .env" } }));
    let third = v1(json!({ "toolCallId": "e", "kind": "execute", "rawInput": { "command": "cargo test" } }));
    let questions = ask(&[v1(good.clone()), second, third]);
    let verdicts: Vec<&str> = questions
        .iter()
        .map(|question| policy.evaluate(&question.subject, &host()).verdict.as_str())
        .collect();
    assert_eq!(verdicts, ["allow", "deny", "allow"]);
    // A call of another session is a different call.
    let mut elsewhere = update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "kind": "execute",
        "rawInput": { "command": "cargo test" },
    }));
    elsewhere["params"]["sessionId"] = "other".into();
    assert_eq!(judged(&policy, &[elsewhere, v1(json!({}))]).0, "ask");
}

#[test]
fn a_key_that_stands_twice_is_read_twice() {
    let policy = policy(RULES);
    let line = v1(json!({ "kind": "execute", "rawInput": "RAW" }))
        .to_string()
        .replace("\"RAW\"", r#"{"command":"cargo test","command":"cat .env"}"#);
    let question = crate::support::reader("/project").read(&line, None, Default::default()).pop().unwrap();
    assert_eq!(policy.evaluate(&question.subject, &host()).verdict.as_str(), "deny");
}

#[test]
fn the_session_tells_where_it_works() {
    let policy = policy(RULES);
    let at = |cwd: &str| {
        [
            json!({ "jsonrpc": "2.0", "id": 3, "method": "session/new", "params": { "cwd": cwd, "mcpServers": [] } }),
            json!({ "jsonrpc": "2.0", "id": 3, "result": { "sessionId": "s" } }),
            v1(json!({ "kind": "execute", "rawInput": { "command": "cargo test" } })),
        ]
    };
    assert_eq!(judged(&policy, &at("/project")).0, "allow");
    assert_eq!(judged(&policy, &at("/elsewhere")).0, "ask");
    // Without a root, it is the session's own directory.
    let mut reader = QuestionReader::without_root("/nowhere").reading_version_1(crate::support::VERSION_1);
    let question = at("/elsewhere")
        .iter()
        .flat_map(|line| reader.read(&line.to_string(), None, Default::default()))
        .next();
    assert_eq!(policy.evaluate(&question.unwrap().subject, &host()).verdict.as_str(), "allow");
}

#[test]
fn an_answer_is_one_of_the_options() {
    let option = |id: &'static str, name: &'static str, kind: Kind| PermissionOption::new(id, name, kind);
    let allow = policy("[[rule]]\ndecision = \"allow\"\ncommand = [\"x\"]\n");
    let remember = policy("[[rule]]\ndecision = \"allow\"\ncommand = [\"x\"]\nremember = true\n");
    let deny = policy("[[rule]]\ndecision = \"deny\"\ncommand = [\"x\"]\n");
    let answer = |policy: &Policy, options: &[PermissionOption<'_>]| {
        let decision = crate::support::evaluate_line(policy, "x");
        let offered = decision.clone().offered(options);
        assert_eq!(offered.answer(options), decision.answer(options));
        match offered.answer(options) {
            Answer::Select(id) => id,
            Answer::Cancel => "cancel".to_owned(),
            Answer::Ask => "ask".to_owned(),
        }
    };
    let (once, always) = (option("o", "Once", Kind::AllowOnce), option("a", "Always", Kind::AllowAlways));
    let (no, never) = (option("n", "No", Kind::RejectOnce), option("v", "Never", Kind::RejectAlways));
    let abort = option("abort", "Abort", Kind::RejectOnce);
    let odd = option("x", "Odd", Kind::from("_odd"));
    let all = [always.clone(), once.clone(), never.clone(), abort.clone(), no.clone(), odd.clone()];
    assert_eq!(answer(&allow, &all), "o");
    assert_eq!(answer(&remember, &all), "a");
    assert_eq!(answer(&remember, std::slice::from_ref(&once)), "o");
    assert_eq!(answer(&allow, &[always.clone(), no.clone()]), "ask");
    assert_eq!(answer(&allow, std::slice::from_ref(&odd)), "ask");
    assert_eq!(answer(&allow, &[]), "ask");
    assert_eq!(answer(&allow, &[once.clone(), option("o", "No", Kind::RejectOnce)]), "ask");
    assert_eq!(answer(&deny, &all), "n");
    assert_eq!(answer(&deny, &[abort.clone(), never.clone()]), "v");
    assert_eq!(answer(&deny, &[abort]), "abort");
    assert_eq!(answer(&deny, &[never, no]), "n");
    assert_eq!(answer(&deny, &[once, odd]), "cancel");
    assert_eq!(answer(&Policy::approve_all(), &[always]), "a");
    assert_eq!(answer(&Policy::deny_all(), &all), "n");
}

#[test]
fn the_named_policies_do_what_they_say() {
    let verdict = |policy: &Policy, message: Value| {
        let question = ask(&[message]).pop().unwrap();
        policy.evaluate(&question.subject, &NoFiles::default()).verdict.as_str()
    };
    let read = || v1(json!({ "kind": "read", "rawInput": { "path": "/etc/passwd" } }));
    let search = || v1(json!({ "kind": "search", "title": "Look for x" }));
    let odd = || request(json!({ "title": "t" }));
    let run = || v1(json!({ "kind": "read", "rawInput": { "command": "make" } }));
    let writes = || {
        v1(
            json!({ "kind": "read", "content": [{ "type": "diff", "path": "/x", "oldText": "a", "newText": "b" }] }),
        )
    };
    for (policy, expected) in [
        (Policy::approve_all(), ["allow"; 5]),
        (Policy::deny_all(), ["deny"; 5]),
        (Policy::ask(), ["ask"; 5]),
        (Policy::approve_reads(), ["allow", "allow", "ask", "ask", "ask"]),
    ] {
        assert_eq!(
            [read(), search(), odd(), run(), writes()].map(|message| verdict(&policy, message)),
            expected
        );
    }
}

/// Gemini appends the folder to the command, for people.
#[test]
fn the_folder_of_a_command_is_read_or_the_command_is_asked() {
    let policy = policy(
        "[[rule]]\ndecision = \"allow\"\ncommand = [\"cargo\", \"test\"]\ncwd = \"$root\"\n\
         [[rule]]\ndecision = \"allow\"\ncommand = [\"cat\"]\npath = [\"$root/**\"]\n\
         [[rule]]\ndecision = \"deny\"\npath = [\"/project/deep/key\", \"**/.env*\"]\n",
    );
    let title = |title: &str| json!({ "kind": "execute", "title": title });
    for (call, expected) in [
        (title("cargo test"), "allow"),
        (title("cargo test [current working directory /project]"), "allow"),
        (title("cargo test [current working directory /project] (Run the tests [now])"), "ask"),
        (title("cargo test [current working directory /project] (Run the tests)"), "allow"),
        (title("cargo test [in .]"), "allow"),
        (title("cargo test [in /project] (Run the tests) [background]"), "allow"),
        (title("cargo test [in src]"), "ask"),
        (title("cargo test [in /etc]"), "ask"),
        (title("cargo test [current working directory /etc] (Run the tests)"), "ask"),
        (title("cargo test [current working directory /project/src]"), "ask"),
        (title("cargo test [Current Working Directory /etc]"), "ask"),
        // Two folders are ambiguous.
        (title("cargo test [in /project] [in /etc]"), "ask"),
        (title("cargo test [in /etc] (x) [in /project] (y)"), "ask"),
        (title("cargo test # [in /project] [current working directory /etc]"), "ask"),
        (title("cargo test [in /project] (a)] (b)"), "ask"),
        (title("cargo test [in /project"), "ask"),
        (title("cargo test [in /project] && make"), "ask"),
        (title("cargo test[in /project]"), "ask"),
        (title("cargo test [in ]"), "ask"),
        (title("cat a [in src /etc/passwd ]"), "ask"),
        (title("make [in /project]"), "ask"),
        (title("cat a [in src]"), "allow"),
        (title("cat ../a [in src]"), "allow"),
        (title("cat ../../a [in src]"), "ask"),
        (title("cat a [in ..]"), "ask"),
        (title("cat key [in deep]"), "deny"),
        (title("cat .env [in src] (Look)"), "deny"),
        // Contradicting folders.
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": "/project", "workdir": "/etc" } }),
            "ask",
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "workdir": "/etc", "cwd": "/project" } }),
            "ask",
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": "/project", "workdir": "." } }),
            "allow",
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": "/project/", "dir_path": "/project" } }),
            "allow",
        ),
        (json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": "src/.." } }), "allow"),
        (json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": "" } }), "allow"),
        (json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": null } }), "allow"),
        (json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": 5 } }), "ask"),
        (json!({ "kind": "execute", "rawInput": { "command": "cargo test", "cwd": ["/etc"] } }), "ask"),
        (
            json!({ "kind": "execute", "title": "cargo test [in /etc]", "rawInput": { "command": "cargo test" } }),
            "ask",
        ),
        (
            json!({ "kind": "execute", "title": "cargo test [in /etc]", "rawInput": { "command": "cargo test", "cwd": "/project" } }),
            "ask",
        ),
        (
            json!({ "kind": "execute", "title": "cargo test [in .]", "rawInput": { "command": "cargo test", "cwd": "/project" } }),
            "allow",
        ),
    ] {
        assert_eq!(judged(&policy, &[v1(call.clone())]).0, expected, "{call}");
        assert_eq!(judged(&policy, &[v2(call.clone())]).0, expected, "{call}");
    }
    // The version 2 subject and its tool call name different folders.
    let subject = |cwd: &str| {
        let told = update(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "c", "kind": "execute", "title": "Run it now",
            "rawInput": { "command": "cargo test", "cwd": cwd },
        }));
        let asked = request(json!({
            "title": "t",
            "subject": { "type": "command", "command": "cargo test", "cwd": "/project", "toolCallId": "c" },
        }));
        judged(&policy, &[told, asked]).0
    };
    assert_eq!((subject("/project"), subject("/etc")), ("allow", "ask"));
}

/// Everything that looks like a path counts, under any key and at any depth.
#[test]
fn every_path_in_the_input_counts() {
    let policy = policy(&format!("{RULES}\n[[rule]]\ndecision = \"deny\"\npath = [\"/project/vault/**\"]\n"));
    for (call, expected) in [
        (json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": "/etc/passwd" } }), "ask"),
        (json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": "/project/b" } }), "allow"),
        (json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": "b" } }), "allow"),
        (json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": "../b" } }), "ask"),
        (json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": "src/../../b" } }), "ask"),
        (json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": "~/b" } }), "ask"),
        (
            json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": "file:///etc/passwd" } }),
            "ask",
        ),
        (
            json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": ["x", "/etc/passwd"] } }),
            "ask",
        ),
        (
            json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": { "in": ["/etc/passwd"] } } }),
            "ask",
        ),
        (
            json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": { "/etc/passwd": 1 } } }),
            "ask",
        ),
        (
            json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": "{\"x\": \"/etc/passwd\"}" } }),
            "ask",
        ),
        (
            json!({ "kind": "read", "rawInput": { "path": "/project/a", "arguments": "{\"x\": \"/etc/passwd\"}" } }),
            "ask",
        ),
        (json!({ "kind": "read", "rawInput": { "path": "/project/a", "uri": "file:///etc/passwd" } }), "ask"),
        (
            json!({ "kind": "fetch", "rawInput": { "url": "https://example.com/etc/passwd", "prompt": "/etc/passwd" } }),
            "allow",
        ),
        (
            json!({ "kind": "fetch", "rawInput": { "url": "https://example.com", "save_to": "/etc/passwd" } }),
            "ask",
        ),
        (json!({ "kind": "search", "rawInput": { "path": "/project", "pattern": "/etc/**" } }), "ask"),
        (json!({ "kind": "search", "rawInput": { "path": "/project", "pattern": "fn .*main" } }), "allow"),
        (json!({ "kind": "search", "rawInput": { "path": "/project", "pattern": "src/**/*.rs" } }), "ask"),
        (json!({ "kind": "search", "rawInput": { "path": "/project", "dir_path": "/etc" } }), "ask"),
        // Denied files are found there, too.
        (json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": ".env" } }), "deny"),
        (
            json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": { "deep": [{ "er": "src/.env" }] } } }),
            "deny",
        ),
        (json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": "vault/x" } }), "deny"),
        (json!({ "kind": "search", "rawInput": { "path": "/project", "pattern": "**/.env*" } }), "deny"),
        (json!({ "kind": "search", "rawInput": { "path": "/project", "glob": "vau*" } }), "ask"),
        (json!({ "kind": "fetch", "rawInput": { "url": "https://x", "upload": ".env" } }), "deny"),
        (json!({ "kind": "other", "name": "mcp__list", "rawInput": { "x": "/project/.env" } }), "deny"),
        (json!({ "kind": "execute", "rawInput": { "command": "cargo test", "output": ".env" } }), "deny"),
        // In texts and file contents it may be something else.
        (json!({ "kind": "read", "rawInput": { "path": "/project/a", "description": ".env" } }), "ask"),
        (
            json!({ "kind": "read", "rawInput": { "path": "/project/a", "description": "/etc/passwd" } }),
            "allow",
        ),
        (
            json!({ "kind": "read", "rawInput": { "path": "/project/a", "description": "look at .env\nor not" } }),
            "allow",
        ),
    ] {
        assert_eq!(judged(&policy, &[v2(call.clone())]).0, expected, "{call}");
    }
    // More than the limit.
    let many: Vec<String> = (0..2000).map(|place| format!("/project/{place}")).collect();
    let call = json!({ "kind": "read", "rawInput": { "path": "/project/a", "other": many } });
    assert_eq!(judged(&policy, &[v2(call)]).0, "ask");
    let deep = (0..40).fold(json!("/etc/passwd"), |inner, _| json!([inner]));
    assert_eq!(
        judged(&policy, &[v2(json!({ "kind": "read", "rawInput": { "path": "/project/a", "x": deep } }))]).0,
        "ask"
    );
}

/// A key that may change the command or its privileges makes the effect unknown.
#[test]
fn keys_beside_a_command_are_known_or_it_is_asked() {
    let policy = policy(RULES);
    let run = |key: &str, value: Value| {
        let mut input = json!({ "command": "cargo test" });
        input[key] = value;
        judged(&policy, &[v1(json!({ "kind": "execute", "rawInput": input }))]).0
    };
    for (key, value) in [
        ("env", json!({ "PATH": "/tmp" })),
        ("env", json!(["PATH=/tmp"])),
        ("environment", json!({ "PATH": "/tmp" })),
        ("shell", json!("/tmp/x")),
        ("shell", json!("zsh")),
        ("user", json!("root")),
        ("dangerouslyDisableSandbox", json!(true)),
        ("with_escalated_permissions", json!(true)),
        ("sandbox_permissions", json!("require_escalated")),
        ("sandbox_permissions", json!(["x"])),
        ("additional_permissions", json!({ "network": true })),
        ("stdin", json!("x")),
        ("interpreter", json!("x")),
        ("anything", json!(1)),
    ] {
        assert_eq!(run(key, value.clone()), "ask", "{key}: {value}");
    }
    for (key, value) in [
        ("env", json!({})),
        ("env", json!(null)),
        ("user", json!("")),
        ("dangerouslyDisableSandbox", json!(false)),
        ("sandbox_permissions", json!("use_default")),
        ("description", json!("Run the tests")),
        ("timeout", json!(120_000)),
        ("run_in_background", json!(true)),
        ("is_background", json!(false)),
        ("justification", json!("so that I know")),
        ("parsed_cmd", json!([{ "type": "unknown", "cmd": "cargo test" }])),
    ] {
        assert_eq!(run(key, value.clone()), "allow", "{key}: {value}");
    }
    let lifts =
        json!({ "kind": "read", "rawInput": { "path": "/project/a", "dangerouslyDisableSandbox": true } });
    assert_eq!(judged(&policy, &[v1(lifts)]).0, "ask");
    let within = json!({ "kind": "read", "rawInput": { "path": "/project/a", "arguments": { "with_escalated_permissions": true } } });
    assert_eq!(judged(&policy, &[v1(within)]).0, "ask");
    let named = json!({ "kind": "other", "name": "mcp__list", "rawInput": { "user": "me" } });
    assert_eq!(judged(&policy, &[v2(named)]).0, "allow");
}
