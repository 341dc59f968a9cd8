//! How `switchboard run` ends, and what it says of agents that do not behave: the same for agents of both versions.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};

use serde_json::Value;

use crate::agent_program::Place;

/// Agents of both versions that do the same things.
const AGENTS: [(&str, &str); 2] = [("1", OLD), ("2", NEW)];

const OLD: &str = r#"
begin() { :; }
text() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}}}'; }
finish() { say '{"jsonrpc":"2.0","id":'"$id"',"result":{"stopReason":"end_turn"}}'; }
hello='{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"script","version":"1"}}'
"#;

const NEW: &str = r#"
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'"$1"'}}'; }
begin() {
  say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}'
  update '{"sessionUpdate":"state_update","state":"running"}'
}
text() { update '{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"'"$1"'"}}'; }
finish() { update '{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}'; }
hello='{"protocolVersion":2,"info":{"name":"script","version":"1"},"capabilities":{"session":{}}}'
"#;

/// What both do.
const BODY: &str = r#"
say() { printf '%s\n' "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) [ "$met" ] || { echo 'hello from the agent'; echo 'one' >&2; met=1; }; say '{"jsonrpc":"2.0","id":'"$id"',"result":'"$hello"'}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *session/cancel*) ;;
    *stubborn*) begin; text working; trap '' INT TERM HUP; sleep 1000; sleep 1000 ;;
    *noise*)
      begin
      printf 'bad \377 bytes\n'
      head -c 40000000 /dev/zero | tr '\0' x; echo
      count=0
      while [ $count -lt 2000 ]; do echo "log line $count"; count=$((count + 1)); done
      text done; finish ;;
    *long-answer*)
      printf '{"jsonrpc":"2.0","result":{"text":"'
      head -c 40000000 /dev/zero | tr '\0' x
      printf '"},"id":%s}\n' "$id" ;;
    *close-input*) begin; text working; echo 'no more for me' >&2; exec <&-; exec sleep 1000 ;;
    *half*) begin; text working; printf '{"jsonrpc":"2.0","meth'; exit 3 ;;
    *'"session/prompt"'*) begin; text hello; finish ;;
  esac
done
"#;

fn script(agent: &str) -> String {
    format!("{agent}{BODY}")
}

fn started(place: &Place, prompt: &str, agent: &str, more: &[&str]) -> Child {
    let script = script(agent);
    let arguments = [&["run", prompt, "--format", "json"], more, &["--", "sh", "-c", &script]].concat();
    place.command(&arguments).spawn().unwrap()
}

/// Waits until the agent is at work.
fn wait_for_work(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("working") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended too early");
    }
    output
}

/// All lines of the only session in the store.
fn recorded(place: &Place) -> Vec<Value> {
    let list = place.run(&["sessions", "list", "--json"]).json_lines();
    assert_eq!(list.len(), 1, "{list:?}");
    place.run(&["sessions", "export", "--everything", list[0]["id"].as_str().unwrap()]).json_lines()
}

#[test]
fn signals_end_an_agent_that_ignores_them_and_the_recording_is_closed() {
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for (version, agent) in AGENTS {
            let place = Place::new();
            let mut child = started(&place, "stubborn", agent, &["--record"]);
            let output = wait_for_work(&mut child);
            assert!(
                Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success()
            );
            assert_eq!(child.wait().unwrap().code(), Some(code), "SIG{name}, version {version}");
            drop(output);
            let lines = recorded(&place);
            let last = lines.last().unwrap()["process"].as_str().unwrap_or_default();
            assert!(last.starts_with("the process was ended by signal"), "{last}");
            // It was asked first.
            let cancelled = lines.iter().filter(|line| line["msg"]["method"] == "session/cancel").count();
            assert_eq!(cancelled, 1, "SIG{name}, version {version}");
        }
    }
}

#[test]
fn a_timeout_ends_an_agent_that_ignores_it() {
    for (version, agent) in AGENTS {
        let place = Place::new();
        let run = place.run(&["run", "stubborn", "--timeout", "1s", "--", "sh", "-c", &script(agent)]);
        assert_eq!(run.code, 3, "version {version}: {}", run.stderr);
        assert!(run.stderr.contains("the time is over; cancelling"), "{}", run.stderr);
    }
}

#[test]
fn an_agent_that_does_not_answer_the_handshake_is_given_up() {
    let place = Place::new();
    let silent = "echo still loading >&2; exec sleep 1000";
    let run = place.run(&["run", "hi", "--handshake-timeout", "300ms", "--", "sh", "-c", silent]);
    assert_eq!(run.code, 4);
    let words = "switchboard: the agent did not answer the handshake within 300ms; sh still runs; the last lines of its \
                 standard error:\n    still loading\n  hint: ";
    assert!(run.stderr.contains(words), "{}", run.stderr);
}

#[test]
fn noise_is_told_and_counted_whatever_the_agent_speaks() {
    let mut told = Vec::new();
    for (_, agent) in AGENTS {
        let place = Place::new();
        let run = place.run(&["run", "noise", "--record", "--", "sh", "-c", &script(agent)]);
        assert_eq!((run.code, &*run.stdout), (0, "done\n"), "{}", run.stderr);
        for words in [
            "from the agent: a line that is no message: \"hello from the agent\"",
            "from the agent: a line that is no UTF-8: \"bad \u{FFFD} bytes\"",
            "from the agent: a line of 40000000 bytes, over the limit of 33554432",
            "from the agent: 2003 odd lines, of which 10 were shown",
        ] {
            assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
        }
        let noise = recorded(&place).iter().filter(|line| line["diagnostic"]["noise"].is_string()).count();
        assert_eq!(noise, 2003);
        told.push(run.stderr);
    }
    assert_eq!(told[0], told[1]);
}

#[test]
fn an_answer_over_the_limit_is_an_error_that_says_so_whatever_the_agent_speaks() {
    for (version, agent) in AGENTS {
        let place = Place::new();
        let run = place.run(&["run", "long-answer", "--", "sh", "-c", &script(agent)]);
        assert_eq!(run.code, 1, "version {version}: {}", run.stderr);
        assert!(
            run.stderr.contains(" bytes, over the limit of 33554432"),
            "version {version}: {}",
            run.stderr
        );
    }
}

#[test]
fn agents_that_go_are_told_with_the_reason_whatever_they_speak() {
    for (prompt, words) in [
        (
            "close-input",
            "the agent is gone: the peer closed its input; sh still runs; the last lines of its standard error:",
        ),
        ("half", "the agent is gone: the peer closed its output; sh ended with exit code 3"),
    ] {
        let mut told = Vec::new();
        for (_, agent) in AGENTS {
            let place = Place::new();
            let run = place.run(&["run", prompt, "--", "sh", "-c", &script(agent)]);
            assert_eq!(run.code, 1, "{}", run.stderr);
            assert!(run.stderr.contains(words), "{prompt}: {}", run.stderr);
            told.push(run.stderr);
        }
        assert_eq!(told[0], told[1]);
    }
}

#[test]
fn what_is_recorded_has_the_order_in_which_it_happened() {
    for (version, agent) in AGENTS {
        let place = Place::new();
        let run = place.run(&["run", "hi", "--record", "--", "sh", "-c", &script(agent)]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let lines = recorded(&place);
        let kind = |line: &Value| {
            let message = line.get("msg").or_else(|| line["other"].get("msg"));
            match message {
                Some(message) if message["method"].is_string() => {
                    message["method"].as_str().unwrap().to_owned()
                }
                Some(_) => "answer".to_owned(),
                None => line
                    .as_object()
                    .unwrap()
                    .keys()
                    .find(|key| *key != "t" && *key != "began")
                    .unwrap()
                    .clone(),
            }
        };
        let kinds: Vec<String> = lines.iter().map(kind).collect();
        // First the process, then what it was asked, then what it said while it answered.
        assert_eq!(kinds[..2], ["process", "initialize"], "version {version}: {kinds:?}");
        let place_of = |wanted: &str| kinds.iter().position(|kind| kind == wanted).unwrap();
        let (noise, error, answer) = (place_of("diagnostic"), place_of("stderr"), place_of("answer"));
        assert!(noise < answer && error < answer, "version {version}: {kinds:?}");
        let sequence: Vec<f64> = lines.iter().map(|line| line["t"].as_f64().unwrap()).collect();
        assert!(sequence.is_sorted(), "version {version}: {sequence:?}");
        // The handshake of the session itself is there once, with its answer.
        let own = |line: &&Value| line["msg"]["method"] == "initialize";
        assert_eq!(lines.iter().filter(own).count(), 1, "version {version}: {kinds:?}");
    }
}

#[test]
fn a_run_that_is_killed_has_recorded_all_that_was_shown() {
    for (version, agent) in AGENTS {
        let place = Place::new();
        let mut child = started(&place, "stubborn", agent, &["--record"]);
        let mut output = wait_for_work(&mut child);
        assert!(
            Command::new("kill").args(["-s", "KILL", &child.id().to_string()]).status().unwrap().success()
        );
        drop(child.wait());
        drop(output.read_to_string(&mut String::new()));
        let lines = recorded(&place);
        let shown = lines.iter().any(|line| line["msg"]["params"]["update"]["content"]["text"] == "working");
        assert!(shown, "version {version}: {lines:?}");
    }
}

#[test]
fn signals_end_a_session_in_the_browser_also_while_the_agent_is_being_started() {
    // It says that it runs, and never anything else.
    let silent = "trap '' HUP INT TERM; echo ready > \"$READY\"; sleep 1000; sleep 1000".to_owned();
    // It opens a session first.
    let opened = format!(
        "{NEW}{}",
        BODY.replace("*'\"session/new\"'*)", "*'\"session/new\"'*) echo ready > \"$READY\";")
    );
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for script in [&silent, &opened] {
            let place = Place::new();
            let ready = place.work().join("ready");
            assert!(Command::new("mkfifo").arg(&ready).status().unwrap().success());
            let mut child = place
                .command(&["open", "--no-browser", "--", "sh", "-c", script])
                .env("READY", &ready)
                .spawn()
                .unwrap();
            assert_eq!(std::fs::read_to_string(&ready).unwrap(), "ready\n");
            assert!(
                Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success()
            );
            assert_eq!(child.wait().unwrap().code(), Some(code), "SIG{name}");
            let lines = recorded(&place);
            let last = lines.last().unwrap()["process"].as_str().unwrap_or_default();
            assert!(last.starts_with("the process "), "SIG{name}: {lines:?}");
        }
    }
}
