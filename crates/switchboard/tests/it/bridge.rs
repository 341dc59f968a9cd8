//! `switchboard bridge`, between a client that is this test and an agent that is a shell script.

#![allow(clippy::needless_pass_by_value, reason = "values are written in place")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A version 2 agent: refuses version 1, takes prompts, answers with a word and a diff, and crashes when told to.
const AGENT: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'"$1"'}}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"protocolVersion":1'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32022,"message":"only 2","data":{"requested":1,"supported":[2]}}}' ;;
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":2,"info":{"name":"script","version":"1"},"capabilities":{"session":{}}}}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *crash*) echo 'out of luck' >&2; exit 7 ;;
    *flood*)
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}'
      count=0
      while [ $count -lt 20000 ]; do
        update '{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"'$count'"}}'
        count=$((count + 1))
      done
      update '{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}' ;;
    *'"session/prompt"'*)
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}'
      update '{"sessionUpdate":"state_update","state":"running"}'
      update '{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"ho"}}'
      update '{"sessionUpdate":"_weather","rain":true}'
      update '{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}' ;;
  esac
done
"#;

struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_switchboard"))
            .arg("bridge")
            .args(arguments)
            .args(["--", "sh", "-c", AGENT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Client { process, input, output }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = self.hear();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn open(&mut self) {
        let answer = self.ask(1, "initialize", json!({"protocolVersion": 1}));
        assert_eq!(answer["result"]["protocolVersion"], 1);
        assert_eq!(answer["result"]["agentInfo"]["name"], "script");
        let answer = self.ask(2, "session/new", json!({"cwd": "/w", "mcpServers": []}));
        assert_eq!(answer["result"]["sessionId"], "s");
    }

    fn prompt(&mut self, text: &str) {
        self.say(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}}));
    }

    fn end(mut self) -> (i32, String) {
        drop(self.input);
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut self.process.stderr.take().unwrap(), &mut stderr).unwrap();
        (self.process.wait().unwrap().code().unwrap(), stderr)
    }
}

#[test]
fn a_version_1_client_talks_to_a_version_2_agent() {
    let folder = tempfile::tempdir().unwrap();
    let (losses, record) = (folder.path().join("losses.jsonl"), folder.path().join("record.jsonl"));
    let mut client =
        Client::start(&["--losses", losses.to_str().unwrap(), "--record", record.to_str().unwrap()]);
    client.open();
    client.prompt("hi");
    let chunk = client.hear();
    assert_eq!(chunk["params"]["update"]["content"]["text"], "ho");
    assert_eq!(client.hear(), json!({"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}));
    let (code, stderr) = client.end();
    assert_eq!((code, &*stderr), (0, ""));
    let losses = std::fs::read_to_string(losses).unwrap();
    assert!(losses.contains(r#""message":"_weather""#), "{losses}");
    let record = std::fs::read_to_string(record).unwrap();
    let directions: Vec<&str> =
        record.lines().map(|line| if line.contains("client->agent") { ">" } else { "<" }).collect();
    assert_eq!(directions.concat(), "><><><<");
}

#[test]
fn a_client_that_is_slower_than_the_agent_gets_every_line() {
    let mut client = Client::start(&[]);
    client.open();
    client.prompt("flood");
    for number in 0..20_000 {
        assert_eq!(client.hear()["params"]["update"]["content"]["text"], number.to_string());
    }
    assert_eq!(client.hear()["id"], 3);
    assert_eq!(client.end().0, 0);
}

#[test]
fn losses_are_told_at_the_end() {
    let mut client = Client::start(&[]);
    client.open();
    client.prompt("hi");
    client.hear();
    client.hear();
    let (code, stderr) = client.end();
    assert_eq!(code, 0);
    assert!(stderr.contains("1 x _weather update"), "{stderr}");
}

#[test]
fn an_agent_that_crashes_ends_the_turn_and_the_bridge_with_the_reason() {
    let mut client = Client::start(&[]);
    client.open();
    client.prompt("crash");
    let answer = client.hear();
    assert_eq!(answer["id"], 3);
    assert!(answer["error"]["message"].as_str().unwrap().contains('7'), "{answer}");
    let mut rest = String::new();
    client.output.read_line(&mut rest).unwrap();
    assert_eq!(rest, "", "the stream ends");
    let (code, stderr) = client.end();
    assert_eq!(code, 1);
    assert!(stderr.contains("out of luck") && stderr.contains("the agent sh"), "{stderr}");
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let run = crate::program::switchboard(&["bridge", "--", "no-such-agent-program"], b"");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("no-such-agent-program"), "{}", run.stderr);
    assert_eq!(crate::program::switchboard(&["bridge"], b"").code, 2);
    assert_eq!(crate::program::switchboard(&["bridge", "nobody"], b"").code, 2);
}
