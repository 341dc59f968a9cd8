//! `switchboard doctor`, without problems and with every kind of problem.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::known_agents::EmptyHome;

/// An agent that answers the handshake and needs a login.
const WANTS_LOGIN: &str = r#"
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case "$line" in
    *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":{},\"authMethods\":[{\"id\":\"key\",\"name\":\"A key\"}]}}";;
    *'"session/new"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32000,\"message\":\"Authentication required\"}}";;
  esac
done"#;

fn doctor(home: &EmptyHome, hub: &str, more: &[&str]) -> (i32, Vec<Value>) {
    let run = home.run(&[&["doctor", "--json", "--hub", hub], more].concat());
    assert!(run.stdout.ends_with('\n'), "{}", run.stderr);
    (run.code, run.json_lines())
}

/// Returns the URL of a server that sends this response to every request.
fn listener(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

const A_HUB: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nConnection: close\r\n\r\nswitchboard_sessions 1\n\n";
const NO_HUB: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
const NO_ENTRY: &str =
    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

fn find<'f>(findings: &'f [Value], about: &str, words: &str) -> Option<&'f Value> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    findings.iter().find(|finding| text(&finding["about"]) == about && text(&finding["what"]).contains(words))
}

#[test]
fn a_set_up_in_order_is_fine() {
    let home = EmptyHome::new();
    home.install_demo("codex-acp");
    assert_eq!(home.run(&["run", "codex", "hi", "--record"]).code, 0);
    let (code, findings) = doctor(&home, &listener(A_HUB), &["--min-free", "1B"]);
    assert_eq!(code, 0, "{findings:#?}");
    for (about, words) in [
        ("agent codex", "supports protocol version 2"),
        ("store", "1 recorded session,"),
        ("hub", "one runs at"),
        ("configuration", "0 agents are configured"),
        ("disk (store)", "free for"),
    ] {
        assert_eq!(find(&findings, about, words).expect(about)["level"], "fine", "{findings:#?}");
    }
    assert_eq!(find(&findings, "npx", "not on the PATH").unwrap()["level"], "note");
    let run = home.run(&["doctor", "--hub", &listener(NO_ENTRY), "--min-free", "1B"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(
        run.stdout.contains("\nagent codex             ok       supports protocol version 2 ("),
        "{}",
        run.stdout
    );
}

#[test]
fn each_of_fourteen_faults_is_named_with_what_to_do() {
    let home = EmptyHome::new();
    home.install("silent", "while read -r line; do :; done");
    home.install("dies", "echo no key is set >&2; exit 3");
    home.install("wants-login", WANTS_LOGIN);
    home.place.write(
        "home/.config/switchboard/config.json",
        &json!({
            "roots": ["/no/such/folder"],
            "hub": {"idel": "1h"},
            "agent_servers": {
                "silent": {"command": "silent"},
                "dies": {"command": "dies"},
                "locked": {"command": "wants-login"},
                "missing": {"command": "no-such-program"},
                "odd": {"command": 7},
            },
        })
        .to_string(),
    );
    home.place.write("home/.jetbrains/acp.json", "{");
    home.place.write("home/.config/switchboard/switchboard-policy.toml", "this is no rule");
    home.place.write("home/.cache/switchboard/registry.json", r#"{"document": "{}", "sha256": "12"}"#);
    home.place.write("home/.local/share/switchboard/sessions.sqlite3", &"no database ".repeat(100));
    let store = home.place.home().join(".local/share/switchboard/sessions.sqlite3");
    std::fs::set_permissions(&store, PermissionsExt::from_mode(0o644)).unwrap();
    let (code, findings) = doctor(&home, &listener(NO_HUB), &["--timeout", "2s", "--min-free", "9000000GB"]);
    assert_eq!(code, 1, "{findings:#?}");
    for (about, words) in [
        ("configuration", "acp.json is not valid JSON"),
        ("configuration", "the agent \"odd\" has a command that is not a string"),
        ("configuration", "hub.idel: unknown setting"),
        ("configuration", "the root /no/such/folder cannot be used"),
        ("rules", "switchboard-policy.toml"),
        ("registry", "was changed since it was downloaded"),
        ("store", "other users can read"),
        ("store", "sessions.sqlite3"),
        ("disk (store)", "only "),
        ("hub", "another program than a hub"),
        ("agent silent", "did not answer the handshake within 2s"),
        ("agent dies", "no key is set"),
        ("agent locked", "supports protocol version 1 (without a name); it requires a login"),
        ("agent missing", "no-such-program"),
    ] {
        let finding =
            find(&findings, about, words).unwrap_or_else(|| panic!("{about}: {words} in {findings:#?}"));
        assert_eq!(finding["level"], "problem", "{finding}");
        assert!(!finding["advice"].as_array().unwrap().is_empty(), "{finding}");
    }
    let locked = find(&findings, "agent locked", "login").unwrap();
    assert!(locked["advice"].to_string().contains("A key (--login key)"), "{locked}");
    // Nothing was changed.
    assert_eq!(store.metadata().unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn a_token_that_the_hub_does_not_know_is_told() {
    let home = EmptyHome::new();
    let refuses = listener(NO_ENTRY);
    let mut command =
        home.command(&["doctor", "--json", "--no-agents", "--hub", &refuses, "--min-free", "1B"]);
    command.env("SWITCHBOARD_TOKEN", "wrong");
    let run = home.place.run_command(command);
    assert_eq!(run.code, 1);
    assert!(find(&run.json_lines(), "hub", "rejects the token").is_some(), "{}", run.stdout);
    let (code, findings) = doctor(&home, "http://127.0.0.1:9", &["--no-agents", "--min-free", "1B"]);
    assert_eq!(code, 1, "one that was named must be there");
    assert!(find(&findings, "hub", "cannot reach").is_some(), "{findings:#?}");
}

#[test]
fn the_remedy_fits_the_fault() {
    let home = EmptyHome::new();
    home.install("far-version", FAR_VERSION);
    home.install("refuses-version", REFUSES_VERSION);
    let programs = home.programs();
    let script = |name: &str, first_line: &str, mode: u32| {
        let path = programs.join(name);
        std::fs::write(&path, format!("{first_line}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    };
    script("not-executable", "#!/bin/sh", 0o644);
    script("bad-interpreter", "#!/no/such/python3", 0o755);
    script("needs-node", "#!/usr/bin/env node", 0o755);
    home.place.write(
        "home/.config/switchboard/config.json",
        &json!({
            "agent_server": {},
            "store": {"keep": "soon", "max": "1GB"},
            "agent_servers": {
                "plain-file": {"command": "not-executable"},
                "script": {"command": "bad-interpreter"},
                "package": {"command": "needs-node"},
                "future": {"command": "far-version"},
                "refusing": {"command": "refuses-version"},
                "far": {"url": "ws://127.0.0.1:9/acp"},
            },
        })
        .to_string(),
    );
    home.place.write("home/.config/switchboard/switchboard-policy.toml", "");
    let rules = home.place.home().join(".config/switchboard/switchboard-policy.toml");
    std::fs::set_permissions(&rules, PermissionsExt::from_mode(0o666)).unwrap();
    let store = home.place.home().join(".local/share/switchboard/sessions.sqlite3");
    std::fs::create_dir_all(store.parent().unwrap()).unwrap();
    drop(switchboard_store::Store::open(&store).unwrap());
    // The header of an SQLite file has the version of its tables at this place.
    let mut bytes = std::fs::read(&store).unwrap();
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    std::fs::write(&store, bytes).unwrap();
    let mut command = home.command(&["doctor", "--json", "--min-free", "1B", "--timeout", "5s"]);
    command.env("HTTPS_PROXY", "http://user:secret@proxy.example.com:3128").env("HTTP_PROXY", "::");
    let run = home.place.run_command(command);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(!run.stdout.contains("secret"), "{}", run.stdout);
    let findings = run.json_lines();
    for (about, words, remedy) in [
        ("agent plain-file", "is not executable", "chmod +x "),
        ("agent script", "bad-interpreter", "/no/such/python3, which does not exist"),
        ("agent package", "", "install Node.js"),
        ("agent future", "version 9", "update Switchboard"),
        ("agent refusing", "only version 9 (code -32022)", "update Switchboard"),
        ("agent far", "127.0.0.1:9", "the server is running"),
        ("configuration", "\"agent_server\"", "is \"agent_servers\" meant?"),
        ("configuration", "store.keep", "90d"),
        ("configuration", "store.max: unknown setting", "max_size"),
        ("rules", "write", "switchboard/switchboard-policy.toml"),
        ("rules", "write", "chmod go-w /"),
        ("store", "version 99", "update Switchboard"),
        ("proxy", "HTTP_PROXY is not the address of a proxy", "unset HTTP_PROXY"),
    ] {
        let finding =
            find(&findings, about, words).unwrap_or_else(|| panic!("{about}: {words} in {findings:#?}"));
        assert_eq!(finding["level"], "problem", "{finding}");
        assert!(
            finding["advice"].to_string().replace("\\\"", "\"").contains(remedy),
            "{remedy} in {finding}"
        );
    }
    assert!(find(&findings, "proxy", "through proxy.example.com:3128").is_some(), "{findings:#?}");
}

/// An agent that refuses both versions of the protocol.
const REFUSES_VERSION: &str = r#"
while read -r line; do
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32022,\"message\":\"only version 9\"}}"
done"#;

/// An agent that answers with a version of the protocol that does not exist.
const FAR_VERSION: &str = r#"
read -r line
id=${line#*\"id\":}; id=${id%%[,\}]*}
echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":9,\"info\":{\"name\":\"x\",\"version\":\"1\"},\"capabilities\":{}}}"
while read -r line; do :; done"#;
