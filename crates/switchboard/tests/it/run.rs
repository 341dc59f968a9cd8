//! `switchboard run`: one prompt from a script.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::agent_program::Place;

#[test]
fn text_is_streamed_and_the_end_is_fine() {
    let place = Place::new();
    let run = place.demo("hello", &[]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        run.stdout,
        "Hello! I am Switchboard's demo agent. I have no model, but I know the protocol by heart. Try `help`.\n"
    );
}

#[test]
fn json_is_one_canonical_update_a_line() {
    let place = Place::new();
    let run = place.demo("replace", &["--format", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.json_lines().iter().all(|line| line["sessionId"] == "demo-1"), "{}", run.stdout);
    let kinds: Vec<_> = run.updates().iter().map(|update| update["sessionUpdate"].clone()).collect();
    assert_eq!(kinds.first().unwrap(), "state_update");
    assert!(kinds.contains(&"agent_message".into()), "{kinds:?}");
    assert_eq!(run.updates().last().unwrap()["stopReason"], "end_turn");
    let check =
        crate::program::switchboard(&["check", "--type", "UpdateSessionNotification"], run.stdout.as_bytes());
    assert_eq!(check.code, 0, "{}", check.stdout);
}

#[test]
fn quiet_is_the_last_message_as_it_is_at_the_end() {
    let place = Place::new();
    let run = place.demo("replace", &["--format", "quiet"]);
    assert_eq!((run.code, &*run.stdout, &*run.stderr), (0, "Two and two is four. Now it is right.\n", ""));
}

#[test]
fn the_prompt_comes_from_a_file_or_from_standard_input() {
    let place = Place::new();
    place.write("work/prompt.txt", "from a file");
    let run = place.run(&["run", "demo", "--file", "prompt.txt"]);
    assert_eq!(run.stdout, "You said: from a file\n");
    let mut command = place.command(&["run", "demo"]);
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from a pipe").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "You said: from a pipe\n");
    assert_eq!(place.run(&["run", "demo"]).code, 2);
    assert_eq!(place.run(&["run", "demo", "a", "--file", "prompt.txt"]).code, 2);
}

#[test]
fn policies_answer_for_the_user() {
    let place = Place::new();
    let config = place.work().join("switchboard-demo/config.json");
    let debug = || std::fs::read_to_string(&config).unwrap().contains("true");
    for (policy, code, changed) in
        [("--approve-all", 0, true), ("--approve-reads", 5, false), ("--deny-all", 5, false)]
    {
        let run = place.demo("permission", &[policy]);
        assert_eq!((run.code, debug()), (code, changed), "{policy}: {}", run.stderr);
    }
    // Without a terminal, no person can be asked.
    assert_eq!(place.demo("command", &[]).code, 5);
    assert_eq!(place.demo("command", &["--approve-all", "--deny-all"]).code, 2);
}

#[test]
fn sessions_that_were_kept_are_resumed() {
    let place = Place::new();
    let demo = env!("CARGO_BIN_EXE_switchboard");
    let agent = ["--", demo, "demo-agent", "--store", "kept"];
    let run = place.run(&[&["run", "one"], &agent[..]].concat());
    assert!(run.stderr.contains("session demo-1"), "{}", run.stderr);
    let run = place.run(&[&["run", "two"], &agent[..]].concat());
    assert!(run.stderr.contains("session demo-2"), "{}", run.stderr);
    let run = place.run(&[&["run", "more", "--session", "demo-1"], &agent[..]].concat());
    assert_eq!((run.code, &*run.stdout), (0, "You said: more\n"));
    let kept = std::fs::read_to_string(place.work().join("kept/demo-1.jsonl")).unwrap();
    assert!(kept.contains("You said: one") && kept.contains("You said: more"), "{kept}");
    let run = place.demo("hello", &["--session", "demo-9"]);
    assert_eq!(run.code, 4);
    assert!(run.stderr.contains("there is no session demo-9"), "{}", run.stderr);
}

#[test]
fn options_are_set_before_the_prompt() {
    let place = Place::new();
    let run = place.demo("config", &["--set", "mood=cheerful", "--set", "verbose=true"]);
    assert_eq!(run.stdout, "My mood was cheerful, now it is calm.\n");
    let run = place.demo("config", &["--set", "colour=red"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("hint: the session has: mood, verbose"), "{}", run.stderr);
    assert_eq!(place.demo("config", &["--set", "verbose=perhaps"]).code, 2);
}

#[test]
fn the_time_is_limited() {
    let place = Place::new();
    let begun = Instant::now();
    let run = place.demo("slow", &["--timeout", "500ms"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stdout.contains("Work slowly (cancelled"), "{}", run.stdout);
    let run = place.run(&["run", "hi", "--timeout", "300ms", "--", "sleep", "1000"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(begun.elapsed() < Duration::from_secs(120));
}

#[test]
fn an_interrupt_cancels_and_the_agent_is_gone() {
    let place = Place::new();
    let mut child = place.command(&["run", "demo", "slow", "--format", "json"]).spawn().unwrap();
    let id = child.id().to_string();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("in_progress") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut output, &mut line).unwrap() > 0, "it ended too early");
    }
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut output, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(rest.contains(r#""stopReason":"cancelled""#), "{rest}");
}

#[test]
fn an_agent_that_ignores_the_cancel_is_ended_by_a_second_interrupt() {
    let place = Place::new();
    let mut child = place.command(&["run", "demo", "stubborn 600", "--format", "json"]).spawn().unwrap();
    let id = child.id().to_string();
    let interrupt = || Command::new("kill").args(["-INT", &id]).status().unwrap();
    let (mut output, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    wait_for("in_progress", &mut output);
    assert!(interrupt().success());
    wait_for("interrupt again", &mut errors);
    assert!(interrupt().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Reads lines until one contains this text.
fn wait_for(words: &str, output: impl std::io::Read) {
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(output));
    assert!(lines.any(|line| line.unwrap().contains(words)), "it ended without {words}");
}

#[test]
fn notifications_of_the_agents_own_are_passed_over() {
    let place = Place::new();
    let agent = r#""$0" demo-agent | sed -u '2i{"jsonrpc":"2.0","method":"_acme/status","params":{}}'"#;
    let run = place.run(&["run", "hello", "--", "sh", "-c", agent, env!("CARGO_BIN_EXE_switchboard")]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stderr.contains("_acme/status"), "{}", run.stderr);
}

#[test]
fn without_a_terminal_no_data_is_given() {
    let place = Place::new();
    let run = place.demo("form", &[]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("Your client cannot show forms."), "{}", run.stdout);
}

#[test]
fn the_end_of_an_agent_is_told_with_its_reason() {
    let place = Place::new();
    let run = place.demo("crash", &[]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("ended with exit code 70"), "{}", run.stderr);
    assert!(run.stderr.contains("this is the last line before the crash"), "{}", run.stderr);
    let run = place.run(&["run", "hi", "--", "sh", "-c", "echo no luck >&2; kill -9 $$"]);
    assert_eq!(run.code, 4);
    assert!(run.stderr.contains("signal 9") && run.stderr.contains("no luck"), "{}", run.stderr);
    let run = place.run(&["run", "hi", "--", "no-such-agent-anywhere"]);
    assert_eq!(run.code, 4);
    assert!(run.stderr.contains("program no-such-agent-anywhere not found"), "{}", run.stderr);
}

#[test]
fn failures_and_refusals_are_told_apart_from_success() {
    let place = Place::new();
    for (prompt, words) in [("fail", "the demo failed, as it was asked to"), ("refuse", "the agent refused")]
    {
        let run = place.demo(prompt, &[]);
        assert_eq!(run.code, 1, "{prompt}");
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
}

#[test]
fn noise_between_messages_does_no_harm() {
    let place = Place::new();
    let run = place.demo("malformed", &["--format", "quiet"]);
    assert_eq!((run.code, &*run.stdout), (0, "Before the noise. After the noise.\n"));
    let run = place.demo("malformed", &[]);
    assert!(run.stderr.contains("INFO this line is a log line"), "{}", run.stderr);
    assert!(!run.stderr.contains('\u{1B}') && !run.stdout.contains('\u{1B}'));
}

#[test]
fn agent_output_cannot_control_the_terminal() {
    let place = Place::new();
    let run = place.demo("a \u{1B}[2J b \u{202E} c \u{9B}31m", &[]);
    assert_eq!(run.stdout, "You said: a ␛[2J b <U+202E> c <U+009B>31m\n");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_agent() {
    let place = Place::new();
    let mut child = place.command(&["run", "demo", "flood 1000000"]).spawn().unwrap();
    drop(child.stdout.take());
    let begun = Instant::now();
    child.wait().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(120));
}

#[test]
fn agents_of_version_1_are_run_too() {
    let place = Place::new();
    let demo = env!("CARGO_BIN_EXE_switchboard");
    let agent = ["--", demo, "demo-agent", "--protocol", "1"];
    let run = |prompt: &str, more: &[&str]| place.run(&[&["run", prompt], more, &agent[..]].concat());
    assert_eq!(run("tool", &["--format", "quiet"]).stdout, "I can count to ten.\n");
    let allowed = run("permission", &["--approve-all"]);
    assert_eq!(allowed.code, 0, "{}", allowed.stderr);
    assert!(allowed.stdout.contains("+  \"debug\": true,"), "{}", allowed.stdout);
    assert_eq!(run("permission", &[]).code, 5);
    assert_eq!(run("slow", &["--timeout", "500ms"]).code, 3);
    assert_eq!(run("fail", &[]).code, 1);
    let crash = run("crash", &[]);
    assert_eq!(crash.code, 1);
    assert!(crash.stderr.contains("exit code 70"), "{}", crash.stderr);
}

#[test]
fn conversations_are_recorded_into_the_store_whatever_the_agent_speaks() {
    let place = Place::new();
    let demo = env!("CARGO_BIN_EXE_switchboard");
    for (version, other_side) in [("2", false), ("1", true)] {
        let agent = ["--", demo, "demo-agent", "--protocol", version];
        let run = place.run(&[&["run", "hello", "--record"], &agent[..]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let list = place.run(&["sessions", "list", "--json"]).json_lines();
        let session = &list[0];
        assert_eq!(session["title"], "hello");
        assert_eq!(session["agent"], "switchboard-demo");
        assert_eq!(session["protocolVersion"], 2);
        assert_eq!(session["project"].as_str(), place.work().to_str());
        let id = session["id"].as_str().unwrap();
        let shown = place.run(&["sessions", "show", id]).stdout;
        assert!(shown.contains(run.stdout.trim()), "{shown}");
        let lines = place.run(&["sessions", "export", "--everything", id]).json_lines();
        assert_eq!(lines.iter().any(|line| line["other"]["msg"].is_object()), other_side, "{lines:?}");
        let count = |key: &str| lines.iter().filter(|line| line.get(key).is_some()).count();
        assert_eq!(count("process"), 2);
        // The side of the session is valid version 2.
        let messages = place.run(&["sessions", "export", id]).stdout;
        let check = crate::program::switchboard(&["check"], messages.as_bytes());
        assert_eq!(check.code, 0, "{}", check.stdout);
    }
    // A file contains only the messages.
    let run = place.demo("hello", &["--record=spoken.jsonl"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let spoken = std::fs::read_to_string(place.work().join("spoken.jsonl")).unwrap();
    let fold = crate::program::switchboard(&["fold", "--text"], spoken.as_bytes());
    assert!(fold.stdout.contains(run.stdout.trim()), "{}", fold.stdout);
    assert_eq!(place.run(&["sessions", "list", "--json"]).json_lines().len(), 2);
}

#[test]
fn a_store_that_fails_on_the_way_is_told_once_and_the_conversation_goes_on() {
    let place = Place::new();
    let command = {
        let mut shell = Command::new("sh");
        // Files cannot grow beyond 200 kB; SIGXFSZ must not kill the program.
        shell.args(["-c", "ulimit -f 400; exec \"$@\"", "sh"]);
        shell.arg(env!("CARGO_BIN_EXE_switchboard")).args([
            "run",
            "demo",
            "flood 5000",
            "--format",
            "quiet",
            "--record",
            "--store",
            "store.sqlite3",
        ]);
        shell.current_dir(place.work()).env("HOME", place.home()).env_remove("XDG_CONFIG_HOME");
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    };
    let run = place.run_command(command);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stderr.matches("the recording ends here").count(), 1, "{}", run.stderr);
    assert!(!run.stdout.is_empty());
    // The messages before the failure are there.
    let list = place.run(&["sessions", "--store", "store.sqlite3", "list", "--json"]).json_lines();
    assert_eq!(list.len(), 1, "{list:?}");
}
