//! Responses to lines that are not messages: the same from every command that acts as an agent.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::serve::hub::Hub;

/// Timeout for all operations.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lines that are not messages, with the error code of the response.
const INVALID: [(&str, i64); 8] = [
    ("{bad", -32700),
    (r#"{"jsonrpc":"2.0","id":8,"method":"session/list","params":{}}{"#, -32700),
    ("[1, ", -32700),
    ("hello", -32700),
    ("[]", -32600),
    (r#"[{"jsonrpc":"2.0","id":7,"method":"session/list","params":{}}]"#, -32600),
    (r#"[{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}]"#, -32600),
    (r#""text""#, -32600),
];

/// A program that acts as an agent on its standard input and output.
struct Agent {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Value>,
}

impl Agent {
    fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap_or(json!(line)));
            }
        });
        Agent { input: child.stdin.take().unwrap(), child, lines }
    }

    fn ask(&mut self, line: &str) -> Value {
        writeln!(self.input, "{line}").unwrap();
        self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer to {line}"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn arrays_and_invalid_json_are_answered_the_same_by_demo_agent_bridge_and_hub() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let address = format!("ws://{}/acp", hub.address);
    for version in [1, 2] {
        for arguments in [vec!["demo-agent"], vec!["bridge", "demo"], vec!["connect", &address]] {
            // The demo agent only supports the newest version.
            if version == 1 && arguments[0] == "demo-agent" {
                continue;
            }
            let mut command = place.command(&arguments);
            command.env("SWITCHBOARD_TOKEN", &hub.token);
            let mut agent = Agent::start(command);
            let params = match version {
                1 => json!({"protocolVersion": 1, "clientCapabilities": {}}),
                _ => json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": {}}),
            };
            let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
            let answer = agent.ask(&hello.to_string());
            assert_eq!(answer["result"]["protocolVersion"], version, "{arguments:?}: {answer}");
            for (line, code) in INVALID {
                // A line that cannot start a message is not sent to a remote server.
                if arguments[0] == "connect" && !line.starts_with(['{', '[']) {
                    continue;
                }
                let answer = agent.ask(line);
                let told = (&answer["id"], &answer["error"]["code"]);
                assert_eq!(told, (&Value::Null, &json!(code)), "{arguments:?} {version} {line}: {answer}");
            }
            // The connection stays open, and no message of the batch was processed.
            let list = json!({"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}});
            let answer = agent.ask(&list.to_string());
            assert_eq!((&answer["id"], answer.get("error")), (&json!(2), None), "{arguments:?}: {answer}");
        }
    }
}
