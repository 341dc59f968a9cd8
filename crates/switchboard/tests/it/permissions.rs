//! Permission rules that answer requests: in `run`, and in a bridge with an editor.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::serve::hub::Hub;

const RULES: &str = r#"
[[rule]]
id = "tests"
decision = "allow"
command = ["cargo", "test"]

[[rule]]
id = "no-push"
decision = "deny"
command = ["git", "push"]
reason = "nobody pushes from here"
"#;

/// A version 1 agent that asks for permission to run the command in the prompt, and prints the answer. The
/// request contains only the id of the call and its options; the call was sent before.
const OLD_AGENT: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'"$1"'}}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"protocolVersion":2'*|*'"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"agentInfo":{"name":"old","version":"1"},"agentCapabilities":{}}}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *'"session/prompt"'*)
      command=$(printf '%s' "$line" | sed -n 's/.*"text":"\([^"]*\)".*/\1/p')
      update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"Shell","kind":"execute","rawInput":{"command":"'"$command"'"}}'
      say '{"jsonrpc":"2.0","id":77,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[{"optionId":"always","name":"Always","kind":"allow_always"},{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}'
      read -r answer
      option=$(printf '%s' "$answer" | sed -n 's/.*"optionId":"\([^"]*\)".*/\1/p')
      update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"answered='"$option"'"}}'
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"stopReason":"end_turn"}}' ;;
  esac
done
"#;

/// The same agent in version 2. Only the request contains the call.
const NEW_AGENT: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'"$1"'}}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"protocolVersion":1'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32022,"message":"only 2","data":{"requested":1,"supported":[2]}}}' ;;
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":2,"info":{"name":"new","version":"1"},"capabilities":{"session":{}}}}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *'"session/prompt"'*)
      command=$(printf '%s' "$line" | sed -n 's/.*"text":"\([^"]*\)".*/\1/p')
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}'
      update '{"sessionUpdate":"state_update","state":"running"}'
      say '{"jsonrpc":"2.0","id":77,"method":"session/request_permission","params":{"sessionId":"s","title":"Run it?","subject":{"type":"tool_call","toolCall":{"toolCallId":"c","title":"Shell","kind":"execute","rawInput":{"command":"'"$command"'"}}},"options":[{"optionId":"always","name":"Always","kind":"allow_always"},{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}'
      read -r answer
      option=$(printf '%s' "$answer" | sed -n 's/.*"optionId":"\([^"]*\)".*/\1/p')
      update '{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"answered='"$option"'"}}'
      update '{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}' ;;
  esac
done
"#;

/// An editor that runs a bridge.
struct Editor {
    bridge: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    version: u64,
}

impl Editor {
    fn start(place: &Place, version: u64, agent: &str, more: &[&str]) -> Self {
        let arguments = [&["bridge"], more, &["--", "sh", "-c", agent]].concat();
        let mut bridge = place.command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
        let (input, output) = (bridge.stdin.take().unwrap(), bridge.stdout.take().unwrap());
        let mut editor = Editor { bridge, input, output: BufReader::new(output), version };
        let introduction = match version {
            1 => json!({"protocolVersion": 1, "clientCapabilities": {}}),
            _ => {
                json!({"protocolVersion": 2, "info": {"name": "editor", "version": "1"}, "capabilities": {}})
            }
        };
        editor.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": introduction}));
        assert_eq!(editor.hear()["result"]["protocolVersion"], version);
        let params = json!({"cwd": place.work(), "mcpServers": []});
        editor.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}));
        while editor.hear()["id"] != 1 {}
        editor
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    /// Sends a prompt, answers each request with an option, and returns the messages until the end of the
    /// turn.
    fn prompt(&mut self, command: &str, option: &str) -> Vec<Value> {
        let params = json!({"sessionId": "s", "prompt": [{"type": "text", "text": command}]});
        self.say(&json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params}));
        let mut heard = Vec::new();
        loop {
            let message = self.hear();
            if message["method"] == "session/request_permission" {
                let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
                self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome}));
            }
            let is_over = match self.version {
                1 => message["id"] == 2 && message["method"].is_null(),
                _ => message["params"]["update"]["state"] == "idle",
            };
            heard.push(message);
            if is_over {
                return heard;
            }
        }
    }

    /// Closes the connection, and returns the standard error output.
    fn end(self) -> String {
        drop(self.input);
        String::from_utf8(self.bridge.wait_with_output().unwrap().stderr).unwrap()
    }
}

fn is_asked(heard: &[Value]) -> bool {
    heard.iter().any(|message| message["method"] == "session/request_permission")
}

fn answered(heard: &[Value]) -> String {
    let said: String = heard
        .iter()
        .filter(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk")
        .filter_map(|message| message["params"]["update"]["content"]["text"].as_str())
        .collect();
    said.split("answered=").nth(1).unwrap_or_else(|| panic!("no answer: {heard:?}")).to_owned()
}

/// Returns the notices about decisions of rules.
fn notices(heard: &[Value]) -> Vec<&Value> {
    let told = heard.iter().map(|message| &message["params"]["update"]["_meta"]["switchboard/permission"]);
    told.filter(|told| !told.is_null()).collect()
}

#[test]
fn an_editor_is_not_asked_what_rules_decide() {
    let place = Place::new();
    place.write("work/rules.toml", RULES);
    for (agent, version) in [(OLD_AGENT, 1), (OLD_AGENT, 2), (NEW_AGENT, 1), (NEW_AGENT, 2)] {
        for (command, decision, rule, option) in
            [("cargo test -q", "allow", "tests", "yes"), ("cd x && git push", "deny", "no-push", "no")]
        {
            let mut editor = Editor::start(&place, version, agent, &["--permissions", "rules.toml"]);
            let heard = editor.prompt(command, "always");
            assert!(!is_asked(&heard), "{version} {command}: {heard:?}");
            assert_eq!(answered(&heard), option, "{version} {command}");
            let [told] = notices(&heard)[..] else { panic!("{heard:?}") };
            let told = (&told["decision"], &told["policy"], &told["option"]);
            assert_eq!(told, (&json!(decision), &json!(rule), &json!(option)));
            // The editor has the call, from the agent or from the bridge, before the notice about it.
            let mut calls = heard.iter().map(|message| &message["params"]["update"]);
            let first = calls.find(|update| update["toolCallId"] == "c").unwrap();
            let first_tag = if version == 1 { "tool_call" } else { "tool_call_update" };
            assert_eq!(first["sessionUpdate"], first_tag, "{heard:?}");
            editor.end();
        }
        // A request that matches no rule is sent to the editor, and its answer is used.
        let mut editor = Editor::start(&place, version, agent, &["--permissions", "rules.toml"]);
        let heard = editor.prompt("cargo test; rm -rf x", "always");
        assert!(is_asked(&heard) && notices(&heard).is_empty(), "{heard:?}");
        assert_eq!(answered(&heard), "always");
        editor.end();
    }
}

#[test]
fn rules_in_observe_mode_do_not_answer() {
    let place = Place::new();
    place.write("work/rules.toml", &format!("mode = \"observe\"\n{RULES}"));
    for agent in [OLD_AGENT, NEW_AGENT] {
        let mut editor =
            Editor::start(&place, 1, agent, &["--permissions", "rules.toml", "--record", "--store", "store"]);
        let heard = editor.prompt("git push", "yes");
        assert!(is_asked(&heard) && notices(&heard).is_empty(), "{heard:?}");
        assert_eq!(answered(&heard), "yes");
        let said = editor.end();
        assert!(said.contains("would have been denied by the rule \"no-push\": \"git push\""), "{said}");
    }
    let sessions = place.run(&["sessions", "list", "--json", "--store", "store"]).json_lines();
    assert_eq!(sessions.len(), 2);
    for session in sessions {
        let id = session["id"].as_str().unwrap();
        let run = place.run(&["sessions", "export", "--everything", "--store", "store", id]);
        let notes: Vec<_> =
            run.json_lines().into_iter().filter(|line| line["hub"]["hub"] == "judged").collect();
        let [note] = &notes[..] else { panic!("{}", run.stdout) };
        let by = &note["hub"]["by"];
        assert_eq!((&by["decision"], &by["mode"]), (&json!("deny"), &json!("observe")));
        assert_eq!(by["subject"]["command"], json!(["git", "push"]));
    }
}

#[test]
fn a_recording_of_a_bridge_tells_which_rule_answered() {
    for (agent, version) in [(OLD_AGENT, 1), (OLD_AGENT, 2), (NEW_AGENT, 1), (NEW_AGENT, 2)] {
        let place = Place::new();
        place.write("work/rules.toml", RULES);
        let mut editor = Editor::start(&place, version, agent, &["--permissions", "rules.toml", "--record"]);
        editor.prompt("cargo test", "no");
        editor.end();
        let list = place.run(&["sessions", "list", "--json"]).json_lines();
        let shown = place.run(&["sessions", "show", list[0]["id"].as_str().unwrap()]);
        assert!(shown.stdout.contains("rule tests"), "{version}: {}", shown.stdout);
    }
}

/// A file of `--permissions` that cannot be used is an error in every command, before anything is started.
#[test]
fn a_named_file_of_rules_that_cannot_be_used_is_an_error_in_every_command() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.write("work/open.toml", RULES);
    let everybody = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(place.work().join("open.toml"), everybody).unwrap();
    place.write("work/wrong.toml", "default = \"allow\"\nrules = 1\n");
    place.write("work/folder/x", "");
    // The agent would create a file.
    let agent = ["--", "sh", "-c", "touch started; cat"];
    for (file, code, why) in [
        ("missing.toml", 2, "cannot read missing.toml"),
        ("missing/missing.toml", 2, "cannot read missing/missing.toml"),
        ("folder", 2, "cannot read folder"),
        ("wrong.toml", 1, "wrong.toml:2: "),
        ("open.toml", 1, "all users can write to it"),
    ] {
        for command in [
            &["run", "cargo test"][..],
            &["bridge"],
            &["open", "--no-browser", "--no-record"],
            &["serve", "--listen", "127.0.0.1:0", "--store", "hub"],
        ] {
            let arguments = [command, &["--permissions", file], &agent].concat();
            let run = place.run(&arguments);
            assert_eq!(run.code, code, "{arguments:?}: {}", run.stderr);
            assert!(run.stderr.contains(why), "{arguments:?}: {}", run.stderr);
            assert!(!place.work().join("started").exists(), "{arguments:?}");
        }
    }
    for command in [
        &["policy", "check", "missing.toml"][..],
        &["policy", "test", "missing.toml", "missing.jsonl"],
        &["policy", "trust", "missing.toml"],
        &["policy", "suggest", "--policy", "missing.toml"],
    ] {
        let run = place.run(command);
        assert_eq!(run.code, 2, "{command:?}: {}", run.stderr);
        assert!(run.stderr.contains("cannot read missing.toml"), "{command:?}: {}", run.stderr);
    }
}

/// The file of a project that cannot be used must not be ignored: every request is asked.
#[test]
fn a_projects_file_that_cannot_be_used_makes_everything_asked() {
    let place = Place::new();
    place.write("work/rules.toml", RULES);
    place.write("work/switchboard-policy.toml", "default = \"allow\"\nrules = 1\n");
    let mut editor = Editor::start(&place, 1, OLD_AGENT, &["--permissions", "rules.toml"]);
    let heard = editor.prompt("cargo test", "yes");
    assert!(is_asked(&heard));
    let said = editor.end();
    assert!(said.contains("switchboard-policy.toml:2: ") && said.contains("everything is asked"), "{said}");
    // Without a terminal, nothing is allowed.
    let run = place.run(&["run", "cargo test", "--permissions", "rules.toml", "--", "sh", "-c", OLD_AGENT]);
    assert_eq!((run.code, run.stdout.contains("answered=no")), (5, true), "{}", run.stdout);
}

#[test]
fn rules_answer_for_the_user_of_run() {
    let place = Place::new();
    place.write("work/rules.toml", RULES);
    for agent in [OLD_AGENT, NEW_AGENT] {
        let run = |command: &str| {
            place.run(&["run", command, "--permissions", "rules.toml", "--record", "--", "sh", "-c", agent])
        };
        let allowed = run("cargo test");
        assert_eq!((allowed.code, allowed.stdout.contains("answered=yes")), (0, true), "{}", allowed.stdout);
        // The title of the request does not contain the command.
        let is_told =
            |line: &str| line.contains("allowed by the rule \"tests\"") && line.contains("cargo test");
        assert!(allowed.stderr.lines().any(is_told), "{}", allowed.stderr);
        let denied = run("cargo test && git push");
        assert_eq!((denied.code, denied.stdout.contains("answered=no")), (5, true), "{}", denied.stdout);
        assert!(denied.stderr.contains("denied by the rule \"no-push\""), "{}", denied.stderr);
        assert_eq!(run("cargo build").code, 5);
    }
    let sessions = place.run(&["sessions", "list", "--json"]).json_lines();
    let shown: String = sessions
        .iter()
        .map(|session| place.run(&["sessions", "show", session["id"].as_str().unwrap()]).stdout)
        .collect();
    assert!(shown.contains("rule tests") && shown.contains("rule no-push"), "{shown}");
    // In observe mode without a terminal, a request is denied; the decision of the rules is still logged.
    place.write("work/observed.toml", &format!("mode = \"observe\"\n{RULES}"));
    let observed = ["run", "cargo test", "--permissions", "observed.toml", "--record", "--store", "observed"];
    let observed = place.run(&[&observed[..], &["--", "sh", "-c", OLD_AGENT]].concat());
    assert_eq!(observed.code, 5, "{}", observed.stderr);
    let audit = place.run(&["policy", "audit", "--store", "observed"]).json_lines();
    let [row] = &audit[..] else { panic!("{audit:?}") };
    let told = ["decision", "by", "rule", "judged", "mode", "reason"].map(|key| row[key].as_str().unwrap());
    assert_eq!(told, ["deny", "policy", "tests", "allow", "observe", "there is no user to ask"]);
    let both = ["run", "x", "--approve-all", "--permissions", "rules.toml", "--", "sh", "-c", OLD_AGENT];
    assert_eq!(place.run(&both).code, 2);
}

#[test]
fn a_project_makes_the_users_rules_stricter_unless_it_is_trusted() {
    let place = Place::new();
    let run = |command: &str| place.run(&["run", command, "--", "sh", "-c", OLD_AGENT]).code;
    place.write("home/.config/switchboard/switchboard-policy.toml", RULES);
    assert_eq!((run("cargo test"), run("cargo build")), (0, 5));
    let project = "[[rule]]\ndecision = \"allow\"\ncommand = [\"cargo\", \"build\"]\n\
                   [[rule]]\ndecision = \"deny\"\ncommand = [\"cargo\", \"test\", \"-q\"]\n";
    place.write("work/switchboard-policy.toml", project);
    assert_eq!((run("cargo test"), run("cargo test -q"), run("cargo build")), (0, 5, 5));
    assert_eq!(place.run(&["policy", "trust", "switchboard-policy.toml"]).code, 0);
    assert_eq!((run("cargo test"), run("cargo test -q"), run("cargo build")), (0, 5, 0));
    // A file that cannot be used must not be ignored.
    place.write("work/switchboard-policy.toml", "rules = 1");
    assert_eq!(run("cargo test"), 5);
    // Nor a FIFO, which would block.
    std::fs::remove_file(place.work().join("switchboard-policy.toml")).unwrap();
    place.fifo("switchboard-policy.toml");
    assert_eq!(run("cargo test"), 5);
}

#[test]
fn requests_decided_by_rules_are_not_asked_in_a_hub() {
    for agent in [OLD_AGENT, NEW_AGENT] {
        let place = Place::new();
        place.write("work/rules.toml", RULES);
        let hub = Hub::start(&place, &["--permissions", "rules.toml", "--", "sh", "-c", agent]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(async {
            let mut client = hub.client(2).await;
            let session = client.new_session(&place).await;
            for (command, decision, option) in [("cargo test", "allow", "yes"), ("x; git push", "deny", "no")]
            {
                client.prompt(&session, command).await;
                let heard = client.until_idle().await;
                assert!(!is_asked(&heard), "{heard:?}");
                assert_eq!(answered(&heard), option);
                let [told] = notices(&heard)[..] else { panic!("{heard:?}") };
                assert_eq!(told["decision"], decision);
                let calls = heard.iter().map(|message| &message["params"]["update"]["rawInput"]["command"]);
                assert!(calls.into_iter().any(|told| told == command), "{heard:?}");
            }
            // A request that matches no rule is asked.
            client.prompt(&session, "cargo build").await;
            let question = client.question().await;
            client.allow(&question).await;
            let heard = client.until_idle().await;
            assert_eq!(answered(&heard), "always");
            session
        });
        let shown = place.run(&["sessions", "show", &session, "--store", hub.store()]);
        assert!(
            shown.stdout.contains("rule tests") && shown.stdout.contains("rule no-push"),
            "{}",
            shown.stdout
        );
        let audit = place.run(&["policy", "audit", &session, "--store", hub.store()]).json_lines();
        let told = |row: &Value| {
            ["decision", "by", "rule", "option", "judged"]
                .map(|key| row[key].as_str().unwrap_or("-").to_owned())
        };
        let rows: Vec<_> = audit.iter().map(told).collect();
        assert_eq!(
            rows,
            [
                ["allow", "policy", "tests", "yes", "allow"],
                ["deny", "policy", "no-push", "no", "deny"],
                ["allow", "person", "-", "always", "ask"],
            ]
        );
        assert_eq!(audit[0]["subject"]["command"], json!(["cargo", "test"]));
        assert!(audit.iter().all(|row| row["hash"] == audit[0]["hash"] && row["session"] == *session));
        assert_eq!(audit[0]["hash"].as_str().unwrap().len(), 64);
        hub.end();
    }
}
