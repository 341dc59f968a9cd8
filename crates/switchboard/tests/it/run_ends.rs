//! Exit of `switchboard run`, and its messages about agents that misbehave: the same for agents of both
//! versions.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;

use serde_json::Value;

use crate::agent_program::{Place, full_pipe, signal};

/// Agents of both versions with the same behaviour.
const AGENTS: [(&str, &str); 2] = [("1", OLD), ("2", NEW)];

const OLD: &str = r#"
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'"$1"'}}'; }
begin() { :; }
text() { update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}'; }
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

/// The common part of both agents.
const BODY: &str = r#"
say() { printf '%s\n' "$1"; }
ask() { say '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s","title":"Late","subject":{"type":"tool_call","toolCall":{"toolCallId":"c"}},"toolCall":{"toolCallId":"c","title":"Late"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}'; }
late() {
  update '{"sessionUpdate":"usage_update","used":7,"size":100}'
  text ' and more'
  update '{"sessionUpdate":"session_info_update","title":"The title"}'
}
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
    *odd*) begin; cat "$ODD"; text done; finish ;;
    *long-answer*)
      printf '{"jsonrpc":"2.0","result":{"text":"'
      head -c 40000000 /dev/zero | tr '\0' x
      printf '"},"id":%s}\n' "$id" ;;
    *close-input*) begin; text working; echo 'no more for me' >&2; exec <&-; exec sleep 1000 ;;
    *half*) begin; text working; printf '{"jsonrpc":"2.0","meth'; exit 3 ;;
    *question-behind-idle*) begin; text hello; finish; ask; late ;;
    *behind-idle*) begin; text hello; finish; late ;;
    *at-the-end*) begin; text hello; finish; at_end=late ;;
    *endless*) begin; text hello; finish; trap '' INT TERM HUP; while :; do text more; done ;;
    *'"session/prompt"'*) begin; text hello; finish ;;
  esac
done
$at_end
"#;

fn script(agent: &str) -> String {
    format!("{agent}{BODY}")
}

fn started(place: &Place, prompt: &str, agent: &str, more: &[&str]) -> Child {
    let script = script(agent);
    let arguments = [&["run", prompt, "--format", "json"], more, &["--", "sh", "-c", &script]].concat();
    place.command(&arguments).spawn().unwrap()
}

/// Waits until the agent works on the prompt.
fn wait_for_work(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("working") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended too early");
    }
    output
}

/// Number of attempts for checks with a time limit, because the machine may stall.
const TRIES: usize = 5;

#[test]
fn signals_end_an_agent_that_ignores_them_and_the_recording_is_closed() {
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for (version, agent) in AGENTS {
            let ended_well = |_| {
                let place = Place::new();
                let mut child = started(&place, "stubborn", agent, &["--record"]);
                let output = wait_for_work(&mut child);
                signal(name, child.id());
                assert_eq!(child.wait().unwrap().code(), Some(code), "SIG{name}, version {version}");
                drop(output);
                let lines = place.recorded();
                let last = lines.last().unwrap()["process"].as_str().unwrap_or_default();
                // The agent was first asked to cancel.
                let asked = lines.iter().filter(|line| line["msg"]["method"] == "session/cancel").count();
                last.starts_with("the process was ended by signal") && asked == 1
            };
            assert!((0..TRIES).any(ended_well), "SIG{name}, version {version}");
        }
    }
}

#[test]
fn a_timeout_ends_an_agent_that_ignores_it() {
    for (version, agent) in AGENTS {
        let place = Place::new();
        let run = place.run(&["run", "stubborn", "--timeout", "1s", "--", "sh", "-c", &script(agent)]);
        assert_eq!(run.code, 3, "version {version}: {}", run.stderr);
        assert!(run.stderr.contains("timeout; cancelling"), "{}", run.stderr);
    }
}

#[test]
fn an_agent_that_does_not_answer_the_handshake_is_given_up() {
    let place = Place::new();
    let silent = "echo still loading >&2; exec sleep 1000";
    let run = place.run(&["run", "hi", "--handshake-timeout", "2s", "--", "sh", "-c", silent]);
    assert_eq!(run.code, 4);
    let words = "switchboard: the agent did not answer the handshake within 2s; sh still runs; the last lines of its \
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
            "from the agent: a line that is not valid UTF-8: \"bad \u{FFFD} bytes\"",
            "from the agent: a line of 40000000 bytes, over the limit of 33554432",
            "from the agent: 2003 invalid lines, of which 10 were shown",
        ] {
            assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
        }
        assert_limited(&place.recorded(), 2003);
        told.push(run.stderr);
    }
    assert_eq!(told[0], told[1]);
}

/// Asserts that this number of lines are not messages, and that the recording has the first thousand and the
/// number.
pub(crate) fn assert_limited(lines: &[Value], count: usize) {
    let noise: Vec<_> = lines.iter().filter_map(|line| line["diagnostic"]["noise"].as_str()).collect();
    assert_eq!(noise.len(), 1001, "{:?}", noise.last());
    assert!(noise[999].ends_with("; further ones are only counted"), "{}", noise[999]);
    assert_eq!(noise[1000], format!("{count} invalid lines, of which 1000 were shown"));
}

#[test]
fn noise_is_told_counted_and_limited_in_the_browser_as_in_the_terminal() {
    for (version, agent) in AGENTS {
        let place = Place::new();
        let ready = place.fifo("ready");
        let noisy =
            "count=0; while [ $count -lt 2000 ]; do echo \"log line $count\"; count=$((count + 1)); done";
        let script = script(agent).replace(
            "*'\"session/new\"'*)",
            &format!("*'\"session/new\"'*) {noisy}; echo ready > '{}';", ready.display()),
        );
        let mut child = place.command(&["open", "--no-browser", "--", "sh", "-c", &script]).spawn().unwrap();
        assert_eq!(std::fs::read_to_string(&ready).unwrap(), "ready\n");
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut stderr = String::new();
        while !stderr.contains("1000 invalid lines so far") {
            assert!(lines.read_line(&mut stderr).unwrap() > 0, "{stderr}");
        }
        signal("TERM", child.id());
        lines.read_to_string(&mut stderr).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(143));
        for words in [
            "switchboard: agent sh: a line that is no message: \"hello from the agent\"",
            " invalid lines, of which 10 were shown",
        ] {
            assert!(stderr.contains(words), "version {version}: {words}: {stderr}");
        }
    }
}

#[test]
fn an_agent_that_does_not_answer_the_handshake_is_given_up_in_the_browser_too() {
    let place = Place::new();
    let silent = "echo still loading >&2; exec sleep 1000";
    let arguments = ["open", "--no-browser", "--handshake-timeout", "2s", "--", "sh", "-c", silent];
    let mut child = place.command(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let words = "switchboard: the agent did not answer the handshake within 2s";
    assert!(lines.any(|line| line == words));
    assert_eq!(lines.next().unwrap(), "still loading");
    let hint = lines.next().unwrap();
    assert!(hint.starts_with("  hint: give an agent that is still being installed more time"), "{hint}");
    signal("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn signals_and_a_timeout_end_it_when_nobody_reads_what_it_writes() {
    // Enough lines to block a program that passes them on.
    let flood = "count=0; while [ $count -lt 20000 ]; do text $count; count=$((count + 1)); done";
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("", 3)] {
        for (version, agent) in AGENTS {
            let place = Place::new();
            let ready = place.fifo("ready");
            let answer =
                format!("begin; text working; echo ready > '{}'; {flood}; sleep 1000", ready.display());
            let script = script(agent).replace("begin; text working; trap", &format!("{answer}; trap"));
            let limit = if name.is_empty() { "1s" } else { "1h" };
            let arguments = [
                "run",
                "stubborn",
                "--record",
                "--format",
                "json",
                "--timeout",
                limit,
                "--",
                "sh",
                "-c",
                &script,
            ];
            let (unread, output) = full_pipe();
            let mut child = place.command(&arguments).stdout(output).spawn().unwrap();
            assert_eq!(std::fs::read_to_string(&ready).unwrap(), "ready\n");
            if !name.is_empty() {
                signal(name, child.id());
            }
            assert_eq!(child.wait().unwrap().code(), Some(code), "SIG{name}, version {version}");
            drop(unread);
            let last = place.recorded().pop().unwrap();
            let reason = "the process was killed: the program did not stop after a signal";
            assert_eq!(last["process"], reason, "SIG{name}, version {version}");
        }
    }
}

#[test]
fn anomalies_are_reported_alike_for_both_versions() {
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":"#;
    let chunk = format!(
        r#"{update}{{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{{"type":"text","text":"in one "}}}}}}}}"#
    );
    let malformed =
        format!(r#"{update}{{"sessionUpdate":"agent_message_chunk","messageId":"m","content":7}}}}}}"#);
    let batch = format!(r#"[{chunk},{{"jsonrpc":"2.0","method":"_x"}}]"#);
    let table: &[(&[u8], &str)] = &[
        (b"some log line", "a line that is no message: \"some log line\""),
        (b"bad \xFF bytes", "a line that is not valid UTF-8: \"bad \u{FFFD} bytes\""),
        (br#"{"level":"info"}"#, r#"a line that is no message: "{\"level\":\"info\"}""#),
        (&[b'x'; 40_000_000], "a line of 40000000 bytes, over the limit of 33554432"),
        (
            br#"{"jsonrpc":"2.0","method":"sess"#,
            "a malformed message: at /method: expected a closing quote, found the end of the text",
        ),
        (
            br#"{"jsonrpc":"2.0","id":{},"method":"a"}"#,
            "a malformed message: at /id: expected a request id: a string or an integer of 64 bits, found an object",
        ),
        (
            malformed.as_bytes(),
            "a malformed message: at /params/update/content: expected an object, found the number 7",
        ),
        (
            br#"{"jsonrpc":"2.0","id":8,"method":"session/request_permission","params":{}}"#,
            "a malformed message: at /params: expected the key \"sessionId\", found an object without it",
        ),
        (br#"{"jsonrpc":"2.0","id":4711,"result":{}}"#, "a response to 4711 without a request"),
        (
            br#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}"#,
            "a response to \"x\" without a request",
        ),
        (br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "a second response to 1"),
        (
            br#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"lost"}}"#,
            "an error without a request: ",
        ),
        (br#"{"jsonrpc":"2.0","id":9,"method":"no/such"}"#, "the unknown method no/such"),
        (batch.as_bytes(), ""),
    ];
    for (odd, words) in table {
        let shown = String::from_utf8_lossy(&odd[..odd.len().min(80)]).into_owned();
        let runs = AGENTS.map(|(_, agent)| {
            let place = Place::new();
            std::fs::write(place.work().join("odd"), [odd, &b"\n"[..]].concat()).unwrap();
            let mut command = place.command(&["run", "odd", "--", "sh", "-c", &script(agent)]);
            command.env("ODD", place.work().join("odd"));
            place.run_command(command)
        });
        let told = if words.is_empty() { String::new() } else { format!("from the agent: {words}") };
        let done: &[&str] = if words.is_empty() { &["in", "one", "done"] } else { &["done"] };
        for run in &runs {
            let said: Vec<_> = run.stdout.split_whitespace().collect();
            assert_eq!((run.code, &*said), (0, done), "{shown}: {}", run.stderr);
            assert!(run.stderr.contains(&told), "{shown}: {}", run.stderr);
        }
        assert_eq!(runs[0].stderr, runs[1].stderr, "{shown}");
    }
}

#[test]
fn an_answer_over_the_limit_is_an_error_that_says_so_whatever_the_agent_speaks() {
    for (version, agent) in AGENTS {
        let place = Place::new();
        let run = place.run(&["run", "long-answer", "--", "sh", "-c", &script(agent)]);
        assert_eq!(run.code, 1, "version {version}: {}", run.stderr);
        let words = run.stderr.lines().last().unwrap();
        // The delay of the response decides whether the prompt is refused or the agent has failed.
        assert!(words.contains(": the answer has 4"), "version {version}: {words}");
        assert!(words.contains(" bytes, over the limit of 33554432"), "version {version}: {words}");
    }
}

#[test]
fn agents_that_go_are_told_with_the_reason_whatever_they_speak() {
    for (prompt, words) in [
        (
            "close-input",
            "the agent disconnected: the peer closed its input; sh still runs; the last lines of its standard error:",
        ),
        ("half", "the agent disconnected: the peer closed its output; sh ended with exit code 3"),
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
fn records_keep_the_order_of_events() {
    for (version, agent) in AGENTS {
        let place = Place::new();
        let run = place.run(&["run", "hi", "--record", "--", "sh", "-c", &script(agent)]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let lines = place.recorded();
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
        // First the process, then the requests, then the output during them.
        assert_eq!(kinds[..2], ["process", "initialize"], "version {version}: {kinds:?}");
        let place_of = |wanted: &str| kinds.iter().position(|kind| kind == wanted).unwrap();
        let (noise, error, answer) = (place_of("diagnostic"), place_of("stderr"), place_of("answer"));
        assert!(noise < answer && error < answer, "version {version}: {kinds:?}");
        let sequence: Vec<f64> = lines.iter().map(|line| line["t"].as_f64().unwrap()).collect();
        assert!(sequence.is_sorted(), "version {version}: {sequence:?}");
        // The handshake of the session is recorded once, with its response.
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
        signal("KILL", child.id());
        drop(child.wait());
        drop(output.read_to_string(&mut String::new()));
        let lines = place.recorded();
        let shown = lines.iter().any(|line| line["msg"]["params"]["update"]["content"]["text"] == "working");
        assert!(shown, "version {version}: {lines:?}");
    }
}

#[test]
fn signals_end_a_session_in_the_browser_also_while_the_agent_is_being_started() {
    // It writes its process id, and sends nothing else.
    let silent = "trap '' HUP INT TERM; echo $$ > \"$READY\"; sleep 1000; sleep 1000".to_owned();
    // It first opens a session.
    let opened = format!(
        "{NEW}{}",
        BODY.replace("*'\"session/new\"'*)", "*'\"session/new\"'*) echo $$ > \"$READY\";")
    );
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for script in [&silent, &opened] {
            let place = Place::new();
            let ready = place.fifo("ready");
            let mut child = place
                .command(&["open", "--no-browser", "--", "sh", "-c", script])
                .env("READY", &ready)
                .spawn()
                .unwrap();
            let agent = std::fs::read_to_string(&ready).unwrap();
            signal(name, child.id());
            assert_eq!(child.wait().unwrap().code(), Some(code), "SIG{name}");
            // The process may be a zombie until init waits for it.
            let state = std::fs::read_to_string(format!("/proc/{}/stat", agent.trim())).unwrap_or_default();
            assert!(state.is_empty() || state.contains(") Z "), "SIG{name}: the agent goes with it: {state}");
        }
    }
}

/// The kinds of updates that an agent sends after the end of its turn.
const LATE: [&str; 3] = ["usage_update", "agent_message_chunk", "session_info_update"];

#[test]
fn output_after_the_end_of_the_turn_is_printed_and_recorded() {
    for (version, agent) in AGENTS {
        for prompt in ["behind-idle", "at-the-end", "question-behind-idle"] {
            let place = Place::new();
            let run = place.run(&["run", prompt, "--record", "--", "sh", "-c", &script(agent)]);
            // Without ids, text after a turn is another message.
            let shown = if version == "1" { "hello\n and more\n" } else { "hello and more\n" };
            // The call of a late permission request may follow.
            let is_shown = run.stdout.starts_with(shown);
            assert_eq!((run.code, is_shown), (0, true), "{version} {prompt}: {} {}", run.stdout, run.stderr);
            assert!(run.stderr.contains("context 7 of 100 tokens"), "{version} {prompt}: {}", run.stderr);
            let asked = run.stderr.contains("asked after the turn, and not answered: Late");
            assert_eq!(asked, prompt.starts_with("question"), "{version} {prompt}: {}", run.stderr);
            let recorded = place.recorded();
            for kind in LATE {
                let is_kind = |line: &&Value| {
                    line["dir"] == "agent->client" && line["msg"]["params"]["update"]["sessionUpdate"] == kind
                };
                assert!(
                    recorded.iter().any(|line| is_kind(&line)),
                    "{version} {prompt} {kind}: {recorded:?}"
                );
            }
            let last = recorded.last().unwrap()["process"].as_str().unwrap_or_default();
            assert!(last.contains("code 0"), "{version} {prompt}: {last}");
        }
        let place = Place::new();
        let run = place.run(&["run", "behind-idle", "--format", "json", "--", "sh", "-c", &script(agent)]);
        let kinds: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is_idle = |line: &Value| line["update"]["state"] == "idle";
        let behind = kinds.split(is_idle).next_back().unwrap();
        let kinds: Vec<_> =
            behind.iter().filter_map(|line| line["update"]["sessionUpdate"].as_str()).collect();
        assert_eq!(kinds, LATE, "{version}: {}", run.stdout);
        let run = place.run(&["run", "behind-idle", "--format", "quiet", "--", "sh", "-c", &script(agent)]);
        let last = if version == "1" { " and more\n" } else { "hello and more\n" };
        assert_eq!((run.code, &*run.stdout), (0, last), "{version}: {}", run.stderr);
    }
}

#[test]
fn an_agent_that_writes_without_end_after_its_turn_is_ended() {
    for (version, agent) in AGENTS {
        let place = Place::new();
        let run = place.run(&["run", "endless", "--record", "--", "sh", "-c", &script(agent)]);
        assert_eq!(run.code, 0, "{version}: {}", run.stderr);
        let recorded = place.recorded();
        let last = recorded.last().unwrap()["process"].as_str().unwrap_or_default();
        assert!(last.starts_with("the process was ended by signal"), "{version}: {last}");
    }
}
