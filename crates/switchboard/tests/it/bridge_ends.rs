//! Exit of `switchboard bridge`: by signals, by agents that crash or do not respond, and by SIGKILL.

use std::io::{BufRead, Read};
use std::path::Path;

use serde_json::{Value, json};

use crate::agent_program::{full_pipe, listening_to_signals, signal};
use crate::bridge::{AGENT, Client, OLD_AGENT};
use crate::program::switchboard;
use crate::run_ends::assert_limited;

fn hello(version: u64) -> Value {
    match version {
        1 => json!({"protocolVersion": 1}),
        _ => json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": {}}),
    }
}

/// Returns a client of a protocol version with an open session.
fn opened(version: u64, arguments: &[&str], agent: &str) -> Client {
    let mut client = Client::with_agent(arguments, agent);
    client.ask(1, "initialize", hello(version));
    client.ask(2, "session/new", json!({"cwd": "/w", "mcpServers": []}));
    client
}

/// Returns all messages to the client until the output ends.
fn rest(client: &mut Client) -> Vec<Value> {
    let mut heard = Vec::new();
    let mut line = String::new();
    while client.output.read_line(&mut line).unwrap() > 0 {
        // After a SIGKILL, the pipe may contain half a line, which was not received as a message.
        if line.ends_with('\n') {
            heard.push(serde_json::from_str(&line).unwrap());
        }
        line.clear();
    }
    heard
}

/// Returns the messages to the client in a recording file.
fn in_file(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "the last line is torn: {:?}", text.lines().last());
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["dir"] == "agent->client").map(|line| line["msg"].clone()).collect()
}

/// Returns the messages to the client in the only session of a store, in the version of the client.
fn in_store(path: &Path) -> Vec<Value> {
    let store = path.to_str().unwrap();
    let list = switchboard(&["sessions", "--store", store, "list", "--json"], b"").json_lines();
    assert_eq!(list.len(), 1, "{list:?}");
    let id = list[0]["id"].as_str().unwrap();
    let lines = switchboard(&["sessions", "--store", store, "export", "--everything", id], b"").json_lines();
    let to_client = lines.iter().filter(|line| line["dir"] == "agent->client");
    to_client.map(|line| line["msg"].clone()).collect()
}

#[test]
fn signals_end_it_and_what_the_client_has_got_is_recorded() {
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for into_store in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (file, store) = (folder.path().join("recording"), folder.path().join("store.sqlite3"));
            let file_argument = format!("--record={}", file.display());
            let arguments = match into_store {
                true => vec!["--record", "--store", store.to_str().unwrap()],
                false => vec![&*file_argument],
            };
            let mut client = opened(2, &arguments, AGENT);
            let mut heard = vec![];
            client.prompt("flood");
            for _ in 0..2000 {
                heard.push(client.hear());
            }
            signal(name, client.process.id());
            heard.extend(rest(&mut client));
            // The last state gives the reason for the end of the turn.
            let last = &heard.last().unwrap()["params"]["update"];
            let reason = format!("the bridge was stopped (SIG{name})");
            assert_eq!(
                (&last["state"], &last["error"]["message"]),
                (&json!("idle"), &json!(reason)),
                "{last}"
            );
            let (ended, stderr) = client.end();
            assert_eq!(ended, code, "{stderr}");
            let recorded = if into_store { in_store(&store) } else { in_file(&file) };
            assert_eq!(recorded[2..], heard, "SIG{name}");
            if into_store {
                let store = store.to_str().unwrap();
                let list = switchboard(&["sessions", "--store", store, "list", "--json"], b"").json_lines();
                let id = list[0]["id"].as_str().unwrap();
                let all = switchboard(&["sessions", "--store", store, "export", "--everything", id], b"");
                let last = all.json_lines().pop().unwrap();
                assert!(last["process"].as_str().unwrap().starts_with("the process "), "{last}");
            }
        }
    }
}

#[test]
fn a_signal_ends_an_agent_that_does_not_listen_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("processes");
    let script = format!(
        "trap '' HUP INT TERM; sleep 1000 & echo $$ $! > '{}'; echo '{{\"jsonrpc\":\"2.0\",\"method\":\"_ready\"}}'; wait; sleep 1000",
        file.display()
    );
    let mut client = Client::with_agent(&[], &script);
    assert_eq!(client.hear()["method"], "_ready");
    signal("TERM", client.process.id());
    assert_eq!(client.end().0, 143);
    for process in std::fs::read_to_string(file).unwrap().split_whitespace() {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        assert!(status.is_empty() || status.contains(") Z "), "process {process} is still there: {status}");
    }
}

#[test]
fn a_signal_ends_it_before_a_client_that_does_not_read_and_an_agent_that_does_not_listen() {
    for record in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (ready, store) = (folder.path().join("ready"), folder.path().join("store.sqlite3"));
        assert!(std::process::Command::new("mkfifo").arg(&ready).status().unwrap().success());
        let script = format!(
            "trap '' HUP INT TERM; echo ready > '{}'; yes '{{\"jsonrpc\":\"2.0\",\"method\":\"_x\"}}'; sleep 1000",
            ready.display()
        );
        let (unread, output) = full_pipe();
        let mut command = listening_to_signals();
        command.arg("bridge").stdin(std::process::Stdio::piped()).stdout(output);
        if record {
            command.args(["--record", "--store", store.to_str().unwrap()]);
        }
        let mut bridge = command.args(["--", "sh", "-c", &script]).spawn().unwrap();
        assert_eq!(std::fs::read_to_string(&ready).unwrap(), "ready\n");
        signal("TERM", bridge.id());
        assert_eq!(bridge.wait().unwrap().code(), Some(143));
        drop(unread);
        if record {
            let store = store.to_str().unwrap();
            let list = switchboard(&["sessions", "--store", store, "list", "--json"], b"").json_lines();
            assert_eq!(list[0]["closed"], true, "{list:?}");
        }
    }
}

#[test]
fn a_bridge_that_is_killed_has_recorded_all_that_the_client_has_got() {
    for round in 0..8 {
        for (version, into_store) in [(1, false), (2, false), (2, true)] {
            let folder = tempfile::tempdir().unwrap();
            let (file, store) = (folder.path().join("recording"), folder.path().join("store.sqlite3"));
            let file_argument = format!("--record={}", file.display());
            let arguments = match into_store {
                true => vec!["--record", "--store", store.to_str().unwrap()],
                false => vec![&*file_argument],
            };
            let mut client = opened(version, &arguments, AGENT);
            client.prompt("flood");
            let mut heard: Vec<Value> = (0..round * 700).map(|_| client.hear()).collect();
            signal("KILL", client.process.id());
            heard.extend(rest(&mut client));
            drop(client.process.wait());
            let recorded = if into_store { in_store(&store) } else { in_file(&file) };
            assert!(recorded.len() >= heard.len() + 2, "{} of {}", recorded.len(), heard.len() + 2);
            assert_eq!(recorded[2..heard.len() + 2], heard, "round {round}");
        }
    }
}

#[test]
fn a_file_takes_one_recording_behind_the_other_and_readers_tell_them_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    let argument = format!("--record={}", file.display());
    for _ in 0..2 {
        let mut client = opened(2, &[&argument], AGENT);
        // The file is locked while a process writes it.
        let other = switchboard(&["bridge", &argument, "--", "cat"], b"");
        assert_eq!(other.code, 2);
        assert!(other.stderr.contains("another process is recording into"), "{}", other.stderr);
        client.prompt("hi");
        while client.hear()["params"]["update"]["state"] != "idle" {}
        assert_eq!(client.end().0, 0);
        // As after a full disk.
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}{}", &text[..50])).unwrap();
    }
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() - 50]).unwrap();
    let messages = in_file(&file);
    let handshakes = messages.iter().filter(|message| message["result"]["protocolVersion"] == 2).count();
    assert_eq!((messages.len(), handshakes), (14, 2), "{messages:?}");

    // Both recordings have a session with the same id, and requests with the same ids.
    let path = file.to_str().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let second = text.match_indices("{\"began\":").nth(1).unwrap().0;
    let one = |half: &str, command: &[&str]| switchboard(command, half.as_bytes());
    for command in
        [&["fold"][..], &["fold", "--text"], &["fold", "--changes"], &["convert", "--to", "v1"], &["check"]]
    {
        let both = switchboard(&[command, &[path]].concat(), b"");
        let (first, last) = (one(&text[..second], command), one(&text[second..], command));
        let lines = |output: &str| -> Vec<Value> {
            let read = output.lines().map(|line| serde_json::from_str(line).unwrap_or(json!(line)));
            let mut lines: Vec<Value> = read.collect();
            for line in &mut lines {
                line.as_object_mut().map(|object| object.remove("line"));
            }
            lines
        };
        assert_eq!(lines(&both.stdout), [lines(&first.stdout), lines(&last.stdout)].concat(), "{command:?}");
        assert_eq!(both.code, first.code, "{command:?}: {}", both.stderr);
    }
    let converted = switchboard(&["convert", "--to", "v1", path], b"").stdout;
    assert_eq!(converted.matches("{\"began\":").count(), 2, "{converted}");

    let store = folder.path().join("store.sqlite3");
    let store = store.to_str().unwrap();
    let imported = switchboard(&["sessions", "--store", store, "import", path], b"");
    assert_eq!((imported.code, imported.stdout.lines().count()), (0, 2), "{}", imported.stderr);
    let list = switchboard(&["sessions", "--store", store, "list", "--json"], b"").json_lines();
    let halves = [&text[second..], &text[..second]].map(|half| json!(half.lines().count()));
    assert_eq!([&list[0]["records"], &list[1]["records"]], [&halves[0], &halves[1]]);

    let replayed = switchboard(&["sessions", "replay", "--instant", path], b"");
    assert!(
        replayed.stderr.contains("has 1 earlier recordings; the last one is played"),
        "{}",
        replayed.stderr
    );
}

#[test]
fn an_agent_that_ends_after_it_took_the_prompt_ends_the_turn() {
    for version in [1, 2] {
        for (agent, prompt) in
            [(AGENT, "accept-and-crash"), (OLD_AGENT, "anything"), (AGENT, "accept-and-close-input")]
        {
            let mut client = opened(version, &[], agent);
            client.prompt(prompt);
            // The client sends nothing more.
            let heard = rest(&mut client);
            let last = heard.last().unwrap();
            let error = match &last["params"]["update"] {
                Value::Null => &last["error"],
                idle => &idle["error"],
            };
            let (words, line) = match prompt {
                "accept-and-close-input" => {
                    ("the agent sh closed its input: no more for me", "no more for me")
                }
                _ => ("the agent sh ended with exit code 7: out of luck", "out of luck"),
            };
            assert_eq!(error["message"], words, "{version} {prompt}: {heard:?}");
            assert_eq!(error["data"]["stderr"], json!([line]), "{version} {prompt}");
            assert_eq!(client.end().0, 1);
        }
    }
}

#[test]
fn an_agent_that_does_not_answer_the_handshake_is_given_up() {
    let script = "echo still loading >&2; exec sleep 1000";
    for version in [1, 2] {
        let mut client = Client::with_agent(&["--handshake-timeout", "2s"], script);
        let answer = client.ask(1, "initialize", hello(version));
        let words = "the agent sh did not answer the handshake within 2s: still loading";
        assert_eq!(answer["error"]["message"], words);
        assert_eq!(answer["error"]["data"]["stderr"], json!(["still loading"]));
        let (code, stderr) = client.end();
        assert_eq!(code, 1);
        assert!(stderr.contains("hint: give an agent that is still being installed more time"), "{stderr}");
    }
}

#[test]
fn an_answer_over_the_limit_is_an_error_that_says_so() {
    for version in [1, 2] {
        let mut client = opened(version, &[], AGENT);
        client.prompt("long-answer");
        let answer = client.hear();
        let words = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert_eq!(answer["id"], 3);
        assert!(words.ends_with(" bytes, over the limit of 33554432"), "{words}");
        let (code, stderr) = client.end();
        assert_eq!(code, 0);
        assert!(stderr.contains("from the agent: a line of "), "{stderr}");
    }
    // A request of the client is refused in the same way.
    let mut client = opened(2, &[], AGENT);
    client.prompt(&"x".repeat(40_000_000));
    let answer = client.hear();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(-32600)), "{answer}");
    assert_eq!(client.end().0, 0);
}

#[test]
fn noise_is_shown_a_little_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.sqlite3");
    let mut client = opened(2, &["--record", "--store", store.to_str().unwrap()], AGENT);
    client.prompt("noise");
    assert_eq!(client.hear()["id"], 3);
    let (code, stderr) = client.end();
    assert_eq!(code, 0);
    assert!(stderr.lines().count() < 20, "{stderr}");
    assert!(stderr.contains("from the agent: 5000 invalid lines, of which 10 were shown"), "{stderr}");
    // The recording has more of these lines, up to a limit.
    let store = store.to_str().unwrap();
    let list = switchboard(&["sessions", "--store", store, "list", "--json"], b"").json_lines();
    let id = list[0]["id"].as_str().unwrap();
    let all = switchboard(&["sessions", "--store", store, "export", "--everything", id], b"").json_lines();
    assert_limited(&all, 5000);
}

#[test]
fn a_client_that_never_looks_at_standard_error_is_served_all_the_same() {
    let mut client = opened(2, &[], AGENT);
    client.prompt("chatter");
    assert_eq!(client.hear()["id"], 3);
    // It also exits when its standard error is a full pipe.
    drop(client.input);
    assert_eq!(client.process.wait().unwrap().code(), Some(0));
    let mut stderr = String::new();
    client.process.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(stderr.contains("\nxxx"), "{}", &stderr[..100]);
}
