//! `switchboard run --on`: the prompt runs on a hub, with the output and exit codes of a local run.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::block_on;
use super::hub::Hub;
use crate::agent_program::Place;
use crate::program::Run;

fn run_on(place: &Place, hub: &Hub, arguments: &[&str]) -> Run {
    let url = format!("http://{}", hub.address);
    let mut command = place.command(&[&["run", "--on", &url], arguments].concat());
    command.env("SWITCHBOARD_TOKEN", &hub.token);
    place.run_command(command)
}

/// Returns updates without the id of the session, its times and what only a hub adds: cursors and replays.
fn comparable(run: &Run) -> Vec<Value> {
    let mut updates = run.updates();
    for update in &mut updates {
        if let Some(update) = update.as_object_mut() {
            update.remove("_meta");
        }
    }
    updates
}

/// Returns the text without durations, which differ from run to run.
fn without_times(text: &str) -> String {
    let is_time = |word: &str| word.trim_end().chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    let words = text.split_inclusive(' ').map(|word| if is_time(word) { "TIME " } else { word });
    words.collect::<String>().replace("TIME ms", "TIME s")
}

#[test]
fn the_output_and_the_exit_code_are_those_of_a_local_run() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    for (prompt, more) in [
        ("hello", &[][..]),
        ("markdown", &[]),
        ("replace", &["--format", "quiet"]),
        ("permission", &["--approve-all"]),
        ("permission", &["--deny-all"]),
        ("command", &[]),
        ("refuse", &[]),
        ("fail", &[]),
    ] {
        let local = place.demo(prompt, more);
        let there = run_on(&place, &hub, &[&["demo", prompt], more].concat());
        assert_eq!(
            (there.code, without_times(&there.stdout)),
            (local.code, without_times(&local.stdout)),
            "{prompt} {more:?}: {} {}",
            there.stderr,
            local.stderr
        );
    }
}

#[test]
fn json_has_the_same_updates_as_a_local_run() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    for prompt in ["hello", "replace"] {
        let local = place.demo(prompt, &["--format", "json"]);
        let there = run_on(&place, &hub, &["demo", prompt, "--format", "json"]);
        assert_eq!(there.code, 0, "{}", there.stderr);
        assert_eq!(comparable(&there), comparable(&local), "{prompt}");
        let check = crate::program::switchboard(
            &["check", "--type", "UpdateSessionNotification"],
            there.stdout.as_bytes(),
        );
        assert_eq!(check.code, 0, "{}", check.stdout);
    }
}

#[test]
fn the_session_stays_on_the_hub_and_can_be_continued() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let first = run_on(&place, &hub, &["demo", "remember this"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let session = first.stderr.split("session ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let second = run_on(&place, &hub, &["demo", "and this", "--session", &session]);
    assert_eq!((second.code, &*second.stdout), (0, "You said: and this\n"), "{}", second.stderr);
    let shown = place.run(&["sessions", "show", &session, "--store", hub.store()]);
    assert!(shown.stdout.contains("You said: remember this"), "{}", shown.stdout);
    assert!(shown.stdout.contains("You said: and this"), "{}", shown.stdout);
    // Nothing was recorded here: the log is that of the hub.
    assert_eq!(place.run(&["sessions", "list", "--json"]).stdout, "");
}

#[test]
fn questions_can_be_left_to_other_clients() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let url = format!("ws://{}/acp/demo", hub.address);
    let mut command = place.command(&["run", "--on", &url, "--leave-questions", "--file", "prompt"]);
    place.write("work/prompt", "permission");
    command.env("SWITCHBOARD_TOKEN", &hub.token).stdin(Stdio::null());
    let child = command.spawn().unwrap();
    block_on(async {
        let mut client = hub.client(2).await;
        let until = Instant::now() + Duration::from_secs(60);
        let session = loop {
            let listed = client.ask("session/list", serde_json::json!({})).await;
            if let Some(id) = listed["result"]["sessions"][0]["sessionId"].as_str() {
                break id.to_owned();
            }
            assert!(Instant::now() < until, "{listed}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        client.ask("session/resume", serde_json::json!({"sessionId": session, "cwd": place.work()})).await;
        let question = client.question().await;
        client.allow(&question).await;
        client.until_idle().await;
    });
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("waits for an answer: "), "{stderr}");
    assert!(!stderr.contains("denied"), "{stderr}");
}

#[test]
fn mistakes_and_refusals_have_their_exit_codes_and_tell_no_token() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    for (arguments, code, words) in [
        (vec!["nobody", "hello"], 4, "no agent"),
        (vec!["demo", "hello", "--cwd", "work"], 2, "must be an absolute path"),
        (vec!["demo", "hello", "--cwd", "/"], 4, "outside the roots"),
        (vec!["demo", "hello", "--sandbox"], 2, "cannot be used with"),
        (vec!["demo", "hello", "--leave-questions", "--approve-all"], 2, "cannot be used with"),
        (vec!["demo", "hello", "--session", "nothing"], 4, "nothing"),
    ] {
        let run = run_on(&place, &hub, &arguments);
        assert_eq!(run.code, code, "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{arguments:?}: {}", run.stderr);
        assert!(!run.stderr.contains(&hub.token));
    }
    let url = format!("http://{}", hub.address);
    let mut command = place.command(&["run", "--on", &url, "demo", "hello"]);
    command.env("SWITCHBOARD_TOKEN", "sb_wrong-token");
    let run = place.run_command(command);
    assert_eq!(run.code, 4);
    assert!(run.stderr.contains("401") && !run.stderr.contains("sb_wrong"), "{}", run.stderr);
    let run = place.run(&["run", "--on", "http://127.0.0.1:9", "demo", "hello"]);
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert!(run.stderr.contains("127.0.0.1:9"), "{}", run.stderr);
    assert_eq!(place.run(&["run", "--token-file", "x", "demo", "hello"]).code, 2);
}
