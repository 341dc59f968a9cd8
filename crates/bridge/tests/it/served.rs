//! Files and commands for version 1 agents.

use serde_json::{Value, json};
use switchboard_bridge::{Bridge, BridgeOptions, Host, HostError, Moment, TerminalStart, Version};

use crate::support::Bench;

#[derive(Default)]
struct World {
    started: Vec<TerminalStart>,
}

impl Host for World {
    fn read_text_file(&mut self, path: &str, roots: &[String]) -> Result<String, HostError> {
        assert_eq!(roots, ["/w", "/more"]);
        Ok(format!("1 {path}\n2\n3\n4\n"))
    }

    fn write_text_file(&mut self, _: &str, content: &str, _: &[String]) -> Result<(), HostError> {
        if content == "full" { Err(HostError::failed("no space")) } else { Ok(()) }
    }

    fn start_terminal(&mut self, start: &TerminalStart, _: &[String]) -> Result<(), HostError> {
        self.started.push(start.clone());
        Ok(())
    }
}

fn bench(serves: bool) -> Bench {
    let options = BridgeOptions {
        serve_files: serves,
        serve_terminals: serves,
        ..BridgeOptions::between(Version::V2, Version::V1)
    };
    let mut bench = Bench::of(Bridge::with_host(options, Box::new(World::default())));
    bench.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}}));
    let sent = bench.take_agent().remove(0);
    assert_eq!(
        sent["params"]["clientCapabilities"]["fs"],
        json!({"readTextFile": serves, "writeTextFile": serves})
    );
    assert_eq!(sent["params"]["clientCapabilities"]["terminal"], serves);
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w", "additionalDirectories": ["/more"]}}));
    let sent = bench.take_agent().remove(0);
    bench.agent(json!({"id": sent["id"], "result": {"sessionId": "s"}}));
    bench.take_client();
    bench
}

fn ask(bench: &mut Bench, method: &str, mut params: Value) -> Value {
    params["sessionId"] = json!("s");
    bench.agent(json!({"id": 7, "method": method, "params": params}));
    let mut answers = bench.take_agent();
    let mut answer = answers.remove(0);
    assert_eq!(answer["id"], 7);
    if answer["error"].is_object() { answer["error"]["code"].take() } else { answer["result"].take() }
}

#[test]
fn nothing_is_served_unless_asked_for() {
    let mut bench = bench(false);
    assert_eq!(ask(&mut bench, "fs/read_text_file", json!({"path": "/w/a"})), -32601);
    assert_eq!(ask(&mut bench, "terminal/create", json!({"command": "ls"})), -32601);
    assert_eq!(bench.lost(), ["fs/read_text_file message", "terminal/create message"]);
}

#[test]
fn files_are_served_inside_the_roots() {
    let mut bench = bench(true);
    assert_eq!(
        ask(&mut bench, "fs/read_text_file", json!({"path": "/w/a"})),
        json!({"content": "1 /w/a\n2\n3\n4\n"})
    );
    let part = ask(&mut bench, "fs/read_text_file", json!({"path": "/more/a", "line": 2, "limit": 2}));
    assert_eq!(part, json!({"content": "2\n3\n"}));
    for outside in ["/etc/passwd", "/w/../etc/passwd", "/wide/a"] {
        assert_eq!(ask(&mut bench, "fs/read_text_file", json!({"path": outside})), -32602, "{outside}");
        assert_eq!(ask(&mut bench, "fs/write_text_file", json!({"path": outside, "content": ""})), -32602);
    }
    assert_eq!(ask(&mut bench, "fs/write_text_file", json!({"path": "/w/a", "content": "x"})), json!({}));
    assert_eq!(ask(&mut bench, "fs/write_text_file", json!({"path": "/w/a", "content": "full"})), -32603);
    assert_eq!(bench.lost().len(), 1, "the warning about unsaved files comes once");
}

#[test]
fn commands_are_run_and_shown() {
    let mut bench = bench(true);
    assert_eq!(ask(&mut bench, "terminal/create", json!({"command": "ls", "cwd": "/etc"})), -32602);
    let made =
        ask(&mut bench, "terminal/create", json!({"command": "ls", "args": ["-l"], "outputByteLimit": 4}));
    let id = made["terminalId"].as_str().unwrap().to_owned();
    let shown = bench.take_updates().remove(0);
    assert_eq!((&shown["command"], &shown["cwd"]), (&json!("ls -l"), &json!("/w")));
    bench.agent(
        json!({"id": 8, "method": "terminal/wait_for_exit", "params": {"sessionId": "s", "terminalId": id}}),
    );
    bench.assert_nothing_for_agent("the command still runs");
    bench.bridge.terminal_output(&id, "a\u{e9}bc\n".as_bytes(), Moment(9));
    bench.collect();
    assert_eq!(bench.take_updates()[0]["data"], "YcOpYmMK");
    let output = ask(&mut bench, "terminal/output", json!({"terminalId": id}));
    assert_eq!(output, json!({"output": "bc\n", "truncated": true}));
    bench.bridge.terminal_exited(&id, Some(3), None, Moment(10));
    bench.collect();
    assert_eq!(bench.take_agent(), [json!({"jsonrpc": "2.0", "id": 8, "result": {"exitCode": 3}})]);
    assert_eq!(bench.take_updates()[0]["exitStatus"], json!({"exitCode": 3}));
    bench.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "content": [{"type": "terminal", "terminalId": id}]}));
    assert_eq!(bench.take_updates()[0]["content"], json!([{"type": "terminal", "terminalId": id}]));
    assert_eq!(ask(&mut bench, "terminal/release", json!({"terminalId": id})), json!({}));
    assert_eq!(ask(&mut bench, "terminal/output", json!({"terminalId": id})), -32002);
}

#[test]
fn metadata_of_a_commands_variable_is_reported() {
    let mut bench = bench(true);
    let env = json!([{"name": "A", "value": "1", "_meta": {"mine": 1}, "own": 2}]);
    assert!(
        ask(&mut bench, "terminal/create", json!({"command": "ls", "env": env}))["terminalId"].is_string()
    );
    let pointers: Vec<_> = bench.losses.iter().map(|loss| &*loss.pointer).collect();
    assert_eq!(pointers, ["/params/env/0/_meta", "/params/env/0/own"]);
}
