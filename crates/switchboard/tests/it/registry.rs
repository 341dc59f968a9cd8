//! The public registry of agents, with local files and servers.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::known_agents::EmptyHome;
use crate::terminal::typed_to;

fn document() -> String {
    let agent = |id: &str, distribution: Value| json!({"id": id, "name": format!("The {id}"), "version": "1.2.3", "description": "d", "distribution": distribution});
    let archive = json!({"archive": "https://example.org/a.tar.gz", "sha256": "ab".repeat(32), "cmd": "./packed", "args": ["acp"]});
    json!({"version": "1.0.0", "agents": [
        agent("new-one", json!({"npx": {"package": "@example/new-one@1.2.3", "args": ["--acp"], "env": {"FROM_REGISTRY": "yes"}}})),
        agent("gemini", json!({"npx": {"package": "@evil/gemini"}})),
        agent("packed", json!({"binary": {"linux-x86_64": archive, "linux-aarch64": archive, "darwin-aarch64": archive, "darwin-x86_64": archive}})),
    ]})
    .to_string()
}

/// Returns the URL of a server that answers one request.
fn serve_once(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(answer.as_bytes()));
    });
    format!("http://{address}/registry.json")
}

#[test]
fn agents_of_the_registry_are_known_and_run_only_after_a_question() {
    let home = EmptyHome::new();
    home.install("npx", "echo \"$@ $FROM_REGISTRY\" >> \"$HOME/started\"; exec \"$SWITCHBOARD\" demo-agent");
    let run = home.run(&["agents", "update", &serve_once(document())]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stdout.starts_with("3 agents, 2 of them not in the table of this program; SHA-256 "),
        "{}",
        run.stdout
    );
    let run = home.run(&["agents"]);
    let registered: Vec<&str> =
        run.stdout.lines().filter(|line| line.contains(" in the registry ")).collect();
    assert_eq!(registered.len(), 2, "{}", run.stdout);
    assert!(registered[0].starts_with("new-one ") && registered[0].contains(" 1.2.3 "), "{}", registered[0]);
    assert!(registered[1].starts_with("packed "), "{}", registered[1]);
    let run = home.run(&["run", "new-one", "hi"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("-- npx --yes -- @example/new-one@1.2.3 --acp"), "{}", run.stderr);
    let run = home.run(&["run", "packed", "hi"]);
    assert!(run.stderr.contains("https://example.org/a.tar.gz (SHA-256 abab"), "{}", run.stderr);
    // An entry cannot replace an agent that this program knows.
    let run = home.run(&["run", "gemini", "hi"]);
    assert!(run.stderr.contains("@google/gemini-cli") && !run.stderr.contains("evil"), "{}", run.stderr);
    assert_eq!(home.started(), "");
    let mut command = home.command(&["run", "new-one", "hi", "--timeout", "50"]);
    command.env("SWITCHBOARD", env!("CARGO_BIN_EXE_switchboard"));
    let (code, shown) = typed_to(command, &["y\n"]);
    assert_eq!(code, 0, "{shown}");
    assert_eq!(home.started(), "--yes -- @example/new-one@1.2.3 --acp yes\n");
}

#[test]
fn a_registry_that_lies_or_makes_no_sense_is_refused_and_the_last_one_stays() {
    let home = EmptyHome::new();
    let file = home.place.home().join("registry.json");
    let from = file.to_str().unwrap();
    let update = |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        home.run(&[&["agents", "update", from], more].concat())
    };
    let hash = update(&document(), &[]).stdout.trim().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(update(&document(), &["--sha256", &hash]).code, 0);
    for (text, more, problem) in [
        (document().replace("new-one", "newer"), &["--sha256", &*hash][..], "its checksum is "),
        ("{".to_owned(), &[], "not JSON"),
        (json!({"version": "9.0.0", "agents": []}).to_string(), &[], "only 1 is supported"),
        (json!({"version": "1.0.0", "agents": [{"id": "Bad"}]}).to_string(), &[], "no valid agent"),
        (" ".repeat(3_000_000), &[], "larger than"),
    ] {
        let run = update(&text, more);
        assert_eq!(run.code, 1, "{}", run.stderr);
        assert!(run.stderr.contains(problem), "{problem} in {}", run.stderr);
    }
    assert_eq!(update("{}", &["--sha256", "12"]).code, 2);
    assert_eq!(home.run(&["agents", "update", "/no/such/file"]).code, 2);
    let run = home.run(&["agents", "update", "http://registry.example/x.json"]);
    assert!(run.code == 2 && run.stderr.contains("unencrypted HTTP"), "{}", run.stderr);
    let run = home.run(&["agents", "update", &serve_once(" ".repeat(3_000_000))]);
    assert!(run.code == 1 && run.stderr.contains("larger than"), "{}", run.stderr);
    assert!(home.run(&["agents"]).stdout.contains("new-one"), "what was read before stays");
    // The cached copy is complete or missing.
    let cache = home.place.home().join(".cache/switchboard/registry.json");
    let kept = std::fs::read_to_string(&cache).unwrap();
    std::fs::write(&cache, kept.replace("@example/new-one", "@evil/new-one")).unwrap();
    let run = home.run(&["agents"]);
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("was changed since it was downloaded") && !run.stdout.contains("new-one"),
        "{}",
        run.stderr
    );
    assert!(home.run(&["run", "new-one", "hi"]).stderr.contains("no agent is called"));
}
