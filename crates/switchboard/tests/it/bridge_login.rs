//! Logins in a terminal through the bridge. Clients run the configured command of the agent in a terminal,
//! with the arguments of the login method appended; exit code 0 means success. Then the client connects
//! again.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::terminal::{typed_after, typed_to};

/// A version 1 agent that logs in with `--cli auth login`, and refuses to open sessions before that.
const AGENT: &str = r#"#!/bin/sh
if [ "$1" = --acp ]; then shift; fi
case "$*" in
  '--cli auth login' | '--cli auth login -- --force')
    [ -t 0 ] && [ -t 1 ] && [ -t 2 ] || { echo 'no terminal' >&2; exit 9; }
    printf 'Token for %s: ' "$WHO"
    read -r token
    [ "$token" = secret ] || { echo 'That is wrong.'; exit 7; }
    echo "Hello $WHO, you are logged in ($*)."
    touch "$STATE"; exit 0 ;;
  ?*) echo "unknown arguments: $*" >&2; exit 8 ;;
esac
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[{"type":"terminal","id":"cli","name":"In a terminal","args":["--cli","auth","login"],"env":{"WHO":"Ann"}}]}}' ;;
    *'"session/new"'*)
      if [ -e "$STATE" ]; then printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}'
      else printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32000,"message":"Authentication required"}}'; fi ;;
  esac
done
"#;

struct Client {
    place: Place,
    /// The configured arguments of the program for this agent.
    configured: Vec<String>,
}

impl Client {
    /// Returns a client that is configured with the name of an agent or with its command line.
    fn new(by_name: bool) -> Self {
        let place = Place::new();
        place.write("work/agent", AGENT);
        let agent = place.work().join("agent");
        assert!(Command::new("chmod").arg("+x").arg(&agent).status().unwrap().success());
        let agent = agent.to_str().unwrap();
        let configured = if by_name {
            let add = place.run(&["agents", "add", "mine", "--", agent, "--acp"]);
            assert_eq!(add.code, 0, "{}", add.stderr);
            vec!["bridge", "mine", "--serve-files"]
        } else {
            vec!["bridge", "--serve-files", "--", agent, "--acp"]
        };
        let configured = configured.into_iter().map(str::to_owned).collect();
        Client { place, configured }
    }

    fn command(&self, more: &[&str]) -> Command {
        let configured = self.configured.iter().map(String::as_str);
        let arguments: Vec<&str> = configured.chain(more.iter().copied()).collect();
        let mut command = self.place.command(&arguments);
        command.env("STATE", self.place.work().join("logged-in"));
        command
    }

    /// Connects and opens a session. Returns both responses.
    fn connect(&self, version: u16) -> [Value; 2] {
        let info = json!({"name": "editor", "version": "1"});
        let params = json!({"protocolVersion": version, "info": info, "clientInfo": info,
            "capabilities": {"auth": {"terminal": {}}}, "clientCapabilities": {"auth": {"terminal": true}}});
        let lines = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.place.write("work/input", &text);
        let input = std::fs::File::open(self.place.work().join("input")).unwrap();
        let mut command = self.command(&[]);
        command.stdin(Stdio::from(input));
        let answers = self.place.run_command(command).json_lines();
        [1, 2].map(|id| answers.iter().find(|answer| answer["id"] == id).expect("an answer").clone())
    }

    /// Logs in with the terminal method of the agent, as the protocol requires.
    fn log_in(&self, method: &Value, more: &[&str], typed: &str) -> (i32, String) {
        let arguments: Vec<&str> =
            method["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let mut command = self.command(&[&arguments, more].concat());
        match &method["env"] {
            Value::Object(map) => map.iter().for_each(|(name, value)| {
                command.env(name, value.as_str().unwrap());
            }),
            list => list.as_array().unwrap().iter().for_each(|variable| {
                command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
            }),
        }
        typed_to(command, &[typed])
    }
}

#[test]
fn a_client_logs_in_by_the_command_of_the_agent_with_the_arguments_of_the_method() {
    for version in [1, 2] {
        for by_name in [true, false] {
            let what = format!("version {version}, by name: {by_name}");
            let client = Client::new(by_name);
            let [hello, refused] = client.connect(version);
            let method = &hello["result"]["authMethods"][0];
            assert_eq!(method["type"], "terminal", "{what}: {hello}");
            assert_eq!(refused["error"]["code"], -32000, "{what}: {refused}");
            let (code, shown) = client.log_in(method, &[], "wrong\n");
            assert_eq!(code, 7, "{what}: {shown}");
            let (code, shown) = client.log_in(method, &[], "secret\n");
            assert_eq!(code, 0, "{what}: {shown}");
            assert!(shown.contains("Token for Ann:"), "{what}: {shown}");
            assert!(shown.contains("Hello Ann, you are logged in (--cli auth login)."), "{what}: {shown}");
            let [_, opened] = client.connect(version);
            assert_eq!(opened["result"]["sessionId"], "s", "{what}: {opened}");
        }
    }
}

#[test]
fn all_arguments_of_a_login_go_to_the_agent() {
    for by_name in [true, false] {
        let client = Client::new(by_name);
        let method = json!({"args": ["--cli", "auth", "login"], "env": {"WHO": "Ann"}});
        let (code, shown) = client.log_in(&method, &["--", "--force"], "secret\n");
        assert_eq!(code, 0, "{shown}");
        assert!(shown.contains("(--cli auth login -- --force)"), "{shown}");
        // An option after the agent's name belongs to the agent, not to the bridge.
        let method = json!({"args": ["--serve-everything", "--record"], "env": {}});
        let (code, shown) = client.log_in(&method, &[], "");
        assert_eq!(code, 8, "{shown}");
        assert!(shown.contains("unknown arguments: --serve-everything --record"), "{shown}");
    }
}

#[test]
fn a_client_that_talks_through_a_terminal_without_echo_is_bridged() {
    let client = Client::new(false);
    let mut command = Command::new("sh");
    let line = client.configured.iter().map(|word| format!(" '{word}'")).collect::<String>();
    let script = format!("stty -echo; exec '{}'{line}", env!("CARGO_BIN_EXE_switchboard"));
    command.args(["-c", &script]).current_dir(client.place.work()).env("HOME", client.place.home());
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 2,
        "info": {"name": "editor", "version": "1"}, "capabilities": {}}});
    // End of file on the terminal ends the bridge, which then waits only briefly for responses.
    let (code, shown) = typed_after(command, &[("", &format!("{hello}\n")), (r#""result":{"#, "\u{4}")]);
    assert_eq!(code, 0, "{shown}");
    // In the version of the client, which differs from that of the agent.
    assert!(shown.contains(r#""result":{"#) && !shown.contains("agentCapabilities"), "{shown}");
}

#[test]
fn without_a_terminal_arguments_behind_the_name_are_refused() {
    let client = Client::new(true);
    let run = client.place.run_command(client.command(&["--serve-everything", "x"]));
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("unexpected argument \"--serve-everything\""), "{}", run.stderr);
    assert!(run.stderr.contains("terminal"), "{}", run.stderr);
}

#[test]
fn an_agent_on_a_server_cannot_be_logged_in_to_from_here() {
    let place = Place::new();
    let url = "http://127.0.0.1:9/acp";
    let command = place.command(&["bridge", "--", url]);
    let (code, shown) = typed_to(command, &[]);
    assert_eq!(code, 2, "{shown}");
    assert!(shown.contains("runs on a server"), "{shown}");
}
