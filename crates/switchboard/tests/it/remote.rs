//! Agents by URL: servers of the official SDKs, and servers that misbehave.

mod clients;
mod hosted;
mod servers;

use serde_json::json;

use crate::agent_program::Place;
use crate::interop::{python, rust, typescript};
use servers::{Official, Served};

/// Runs a whole conversation with a permission request, over WebSocket and HTTP, with agents of both
/// versions.
fn drive_server(program: &[String], versions: &[&str]) {
    for version in versions {
        let server = Official::start(program, version);
        for scheme in ["ws", "http"] {
            let place = Place::new();
            let url = server.url(scheme);
            let run = place.run(&["run", "hi", "--approve-all", "--", &url]);
            assert_eq!(run.code, 0, "{scheme}, version {version}: {}", run.stderr);
            assert!(run.stdout.ends_with("chosen: yes\n"), "{scheme}, version {version}: {}", run.stdout);
        }
    }
}

#[test]
fn the_rust_sdk_as_server() {
    drive_server(&rust("agent"), &["1", "2"]);
}

#[test]
fn the_typescript_sdk_as_server() {
    if let Some(agent) = typescript("agent") {
        drive_server(&agent, &["1", "2"]);
    }
}

#[test]
fn the_python_sdk_as_server() {
    if let Some(agent) = python("agent") {
        drive_server(&agent, &["1"]);
    }
}

#[test]
fn a_server_that_puts_a_line_into_a_frame_is_an_agent_like_any_other() {
    let (server, place) = (Served::start(), Place::new());
    let here = place.demo("edit", &["--approve-all", "--format", "json"]);
    let there =
        place.run(&["run", "edit", "--approve-all", "--format", "json", "--", &server.url("ws", "/plain")]);
    assert_eq!((there.code, there.json_lines().len()), (0, here.json_lines().len()), "{}", there.stderr);
    let bridged = place.run(&[
        "run",
        "hello",
        "--",
        crate::interop::SWITCHBOARD,
        "bridge",
        "--",
        &server.url("ws", "/plain"),
    ]);
    assert_eq!(bridged.code, 0, "{}", bridged.stderr);
    assert!(bridged.stdout.contains("demo agent"), "{}", bridged.stdout);
}

#[test]
fn a_configured_server_gets_its_headers_and_nobodys_token() {
    let (server, place) = (Served::start(), Place::new());
    let agents =
        json!({"agent_servers": {"far": {"url": server.url("ws", "/plain"), "headers": {"X-Key": "k-1"}}}});
    place.write(place.work().join(".switchboard.json"), &agents.to_string());
    let mut command = place.command(&["run", "far", "hello"]);
    command.env("SWITCHBOARD_TOKEN", "secret-1");
    let run = place.run_command(command);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let [headers] = &server.headers()[..] else { panic!("one connection: {:?}", server.headers()) };
    assert_eq!(headers.get("x-key").map(String::as_str), Some("k-1"));
    assert_eq!(headers.get("authorization"), None);
    let listed = place.run(&["agents"]);
    assert!(listed.stdout.contains(&server.url("ws", "/plain")), "{}", listed.stdout);
    assert!(!listed.stdout.contains("k-1"), "{}", listed.stdout);
}

#[test]
fn a_token_comes_from_a_file_or_a_variable() {
    let (server, place) = (Served::start(), Place::new());
    let url = server.url("ws", "/token");
    let connect = |more: &[&str], variable: Option<&str>| {
        let mut command = place.command(&[&["connect", &url], more].concat());
        command.envs(variable.map(|token| ("SWITCHBOARD_TOKEN", token)));
        place.run_command(command)
    };
    place.write(place.work().join("token"), "secret-1\n");
    let file = place.work().join("token").display().to_string();
    assert_eq!(connect(&["--token-file", &file], None).code, 0);
    assert_eq!(connect(&[], Some("secret-1")).code, 0);
    let refused = connect(&[], Some("secret-2"));
    assert_eq!(refused.code, 5, "{}", refused.stderr);
    assert!(refused.stderr.contains("401") && refused.stderr.contains("--token-file"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
    let missing = connect(&["--token-file", "no/such/file"], None);
    assert_eq!(missing.code, 2, "{}", missing.stderr);
}

#[test]
fn why_a_server_cannot_be_used_is_told() {
    let (server, place) = (Served::start(), Place::new());
    let said = |url: &str, code: i32, words: &[&str]| {
        let run = place.run(&["run", "hi", "--", url]);
        assert_eq!(run.code, code, "{url}: {}", run.stderr);
        for word in words {
            assert!(run.stderr.contains(word), "{url}: {word:?} is not in {}", run.stderr);
        }
    };
    said(&server.url("ws", "/nothing"), 4, &["404", "the path of the URL"]);
    said(&server.url("http", "/nothing"), 4, &["404", "the path of the URL"]);
    said(&server.url("ws", "/closing"), 4, &["1008 too many of you"]);
    said("ws://127.0.0.1:9/acp", 4, &["cannot reach ws://127.0.0.1:9/acp", "refused"]);
    said("http://127.0.0.1:9/acp", 4, &["cannot reach http://127.0.0.1:9/acp", "refused"]);
    said("ws://user:word@127.0.0.1/acp", 4, &["it must not contain a password"]);
}

#[test]
fn a_stream_that_breaks_after_each_message_is_taken_up_again() {
    let (server, place) = (Served::start(), Place::new());
    for scenario in ["permission", "edit", "terminal"] {
        let here = place.demo(scenario, &["--approve-all", "--format", "json"]);
        let url = server.url("http", "/broken");
        let there = place.run(&["run", scenario, "--approve-all", "--format", "json", "--", &url]);
        assert_eq!(there.code, 0, "{scenario}: {}", there.stderr);
        assert_eq!(there.json_lines().len(), here.json_lines().len(), "{scenario}: {}", there.stderr);
        assert!(!there.stderr.contains("may be missing"), "{}", there.stderr);
    }
}
