//! `switchboard bridge` between this test as the client and a shell script as the agent.

#![allow(clippy::needless_pass_by_value, reason = "values are written in place")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::agent_program::listening_to_signals;
use crate::program::switchboard;

/// A version 2 agent: refuses version 1, answers prompts with a word and a diff, and crashes on request.
pub(crate) const AGENT: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'"$1"'}}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"protocolVersion":1'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32022,"message":"only 2","data":{"requested":1,"supported":[2]}}}' ;;
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":2,"info":{"name":"script","version":"1"},"capabilities":{"session":{}}}}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *accept-and-crash*)
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}'
      update '{"sessionUpdate":"state_update","state":"running"}'
      printf '\033[31mout of luck\n' >&2; exit 7 ;;
    *crash*) echo 'out of luck' >&2; exit 7 ;;
    *accept-and-close-input*)
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}'
      update '{"sessionUpdate":"state_update","state":"running"}'
      echo 'no more for me' >&2
      exec <&-; exec sleep 1000 ;;
    *long-answer*)
      printf '{"jsonrpc":"2.0","result":{"text":"'
      head -c 40000000 /dev/zero | tr '\0' x
      printf '"},"id":%s}\n' "$id" ;;
    *noise*)
      count=0
      while [ $count -lt 5000 ]; do echo "log line $count"; count=$((count + 1)); done
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}' ;;
    *chatter*)
      head -c 2000000 /dev/zero | tr '\0' x | fold -w 100 >&2
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}' ;;
    *flood*)
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}'
      count=0
      while [ $count -lt 20000 ]; do
        update '{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"'$count'"}}'
        count=$((count + 1))
      done
      update '{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}' ;;
    *mixture*)
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}'
      for count in 1 2 3 4 5 6; do long="$long$long 0123456789abcdef"; done
      count=0
      while [ $count -lt 20000 ]; do
        chunk='{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"'$count'"}}'
        case $count in
          *77) update '{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"'$count'"},"long":"'"$long"'"}' ;;
          *5) update '{"sessionUpdate":"_number","content":{"type":"text","text":"'$count'"}}' ;;
          *333) update "$chunk "; say 'a log line' ;;
          *) update "$chunk" ;;
        esac
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

/// A version 1 agent that sends a word and crashes.
pub(crate) const OLD_AGENT: &str = r#"
say() { printf '%s\n' "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"agentCapabilities":{}}}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *'"session/prompt"'*)
      say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"oh"}}}}'
      echo 'out of luck' >&2; exit 7 ;;
  esac
done
"#;

pub(crate) struct Client {
    pub(crate) process: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: BufReader<ChildStdout>,
}

impl Client {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Client::with_agent(arguments, AGENT)
    }

    pub(crate) fn with_agent(arguments: &[&str], script: &str) -> Self {
        Client::with_command(arguments, &["sh", "-c", script])
    }

    pub(crate) fn with_command(arguments: &[&str], command: &[impl AsRef<OsStr>]) -> Self {
        let mut process = listening_to_signals()
            .arg("bridge")
            .args(arguments)
            .arg("--")
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Client { process, input, output }
    }

    pub(crate) fn say(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    pub(crate) fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    pub(crate) fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = self.hear();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) fn open(&mut self) {
        let answer = self.ask(1, "initialize", json!({"protocolVersion": 1}));
        assert_eq!(answer["result"]["protocolVersion"], 1);
        assert_eq!(answer["result"]["agentInfo"]["name"], "script");
        let answer = self.ask(2, "session/new", json!({"cwd": "/w", "mcpServers": []}));
        assert_eq!(answer["result"]["sessionId"], "s");
    }

    pub(crate) fn prompt(&mut self, text: &str) {
        self.say(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}}));
    }

    pub(crate) fn end(mut self) -> (i32, String) {
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
    let record_argument = format!("--record={}", record.display());
    let mut client = Client::start(&["--losses", losses.to_str().unwrap(), &record_argument]);
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
fn both_sides_are_recorded_into_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.sqlite3");
    let store = store.to_str().unwrap();
    let mut client = Client::start(&["--record", "--store", store]);
    client.open();
    client.prompt("hi");
    assert_eq!(client.hear()["method"], "session/update");
    assert_eq!(client.hear()["id"], 3);
    client.say(&json!({"jsonrpc": "2.0", "id": 4, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "crash"}]}}));
    assert_eq!(client.hear()["id"], 4);
    assert_eq!(client.end().0, 1);

    let sessions =
        |arguments: &[&str]| switchboard(&[&["sessions", "--store", store], arguments].concat(), b"");
    let list = sessions(&["list", "--json"]).json_lines();
    assert_eq!(
        (&list[0]["agent"], &list[0]["protocolVersion"], &list[0]["title"]),
        (&json!("script"), &json!(2), &json!("hi"))
    );
    let id = list[0]["id"].as_str().unwrap().to_owned();
    let lines = sessions(&["export", "--everything", &id]).json_lines();
    let count = |pointer: &str, wanted: &str| {
        lines.iter().filter(|line| line.pointer(pointer).is_some_and(|found| found == wanted)).count()
    };
    // The agent spoke version 2, so its side has the messages of the session.
    assert_eq!(
        (count("/msg/method", "session/update"), count("/other/msg/method", "session/update")),
        (4, 1)
    );
    assert_eq!((count("/msg/method", "initialize"), count("/other/msg/method", "initialize")), (2, 0));
    assert_eq!(count("/diagnostic/message", "_weather"), 1);
    assert_eq!(count("/stderr", "out of luck"), 1);
    assert_eq!(count("/process", "the process ended with exit code 7"), 1);
    let found = sessions(&["search", "ho", "--json"]).json_lines();
    assert_eq!(found.len(), 1, "{found:?}");

    // An export of everything can be imported without losses.
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let again = switchboard(&["sessions", "--store", store, "import", "-"], text.as_bytes());
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(sessions(&["export", "--everything", again.stdout.trim()]).json_lines(), lines);
    let shown = |id: &str| sessions(&["show", id]).stdout;
    assert_eq!(shown(&id), shown(again.stdout.trim()));
}

#[test]
fn a_store_that_cannot_be_used_does_not_stop_the_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let no_store = folder.path().join("text");
    std::fs::write(&no_store, "x".repeat(5000)).unwrap();
    let mut client = Client::start(&["--record", "--store", no_store.to_str().unwrap()]);
    client.open();
    let (code, stderr) = client.end();
    assert_eq!(code, 0);
    assert!(stderr.starts_with("switchboard: nothing is recorded: "), "{stderr}");
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
fn lines_that_pass_in_runs_keep_their_order_and_are_recorded_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    let record = format!("--record={}", file.display());
    for arguments in [&[][..], &[&*record]] {
        let mut client = Client::start(arguments);
        client.ask(
            1,
            "initialize",
            json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": {}}),
        );
        client.ask(2, "session/new", json!({"cwd": "/w", "mcpServers": []}));
        client.prompt("mixture");
        assert_eq!(client.hear()["id"], 3);
        for number in 0..20_000 {
            assert_eq!(client.hear()["params"]["update"]["content"]["text"], number.to_string());
        }
        assert_eq!(client.hear()["params"]["update"]["state"], "idle");
        let (code, stderr) = client.end();
        assert_eq!(code, 0);
        assert_eq!(stderr.matches("a log line").count(), 10, "{stderr}");
        assert!(stderr.contains("from the agent: 20 invalid lines, of which 10 were shown"), "{stderr}");
    }
    let recorded = std::fs::read_to_string(file).unwrap();
    assert_eq!(recorded.matches("agent_message_chunk").count(), 18_000);
    assert!(recorded.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
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
    let versions =
        [json!({"protocolVersion": 1}), json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}})];
    for hello in &versions {
        for script in [AGENT, OLD_AGENT] {
            let mut client = Client::with_agent(&[], script);
            client.ask(1, "initialize", hello.clone());
            client.ask(2, "session/new", json!({"cwd": "/w", "mcpServers": []}));
            client.prompt("crash");
            let heard: Vec<Value> = (&mut client.output)
                .lines()
                .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
                .collect();
            // The output has ended; its last message ends the turn with the reason.
            let last = heard.last().unwrap();
            let error = match &last["params"]["update"] {
                Value::Null => &last["error"],
                idle => &idle["error"],
            };
            assert!(error["message"].as_str().unwrap().contains("exit code 7"), "{heard:?}");
            let (code, stderr) = client.end();
            assert_eq!(code, 1, "{stderr}");
            assert!(stderr.contains("out of luck") && stderr.contains("the agent sh"), "{stderr}");
        }
    }
}

#[test]
fn a_client_that_dies_takes_the_agent_and_what_it_started_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("processes");
    // It ignores signals, and has started a child process.
    let script = format!(
        "trap '' HUP TERM; sleep 1000 & echo $$ $! > '{}'; echo '{{\"jsonrpc\":\"2.0\",\"method\":\"_ready\"}}'; wait",
        file.display()
    );
    let mut client = Client::with_agent(&[], &script);
    assert_eq!(client.hear()["method"], "_ready");
    let Client { mut process, input, output } = client;
    drop((input, output));
    assert_eq!(process.wait().unwrap().code(), Some(0));
    for process in std::fs::read_to_string(file).unwrap().split_whitespace() {
        // A zombie whose parent has not waited yet has also exited.
        let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        assert!(status.is_empty() || status.contains(") Z "), "process {process} is still there: {status}");
    }
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let run = switchboard(&["bridge", "--", "no-such-agent-program"], b"");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("no-such-agent-program"), "{}", run.stderr);
    assert_eq!(switchboard(&["bridge"], b"").code, 2);
    assert_eq!(switchboard(&["bridge", "nobody"], b"").code, 2);
}

#[test]
fn a_script_that_has_said_all_still_gets_its_answers() {
    let lines = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt",
            "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}}),
    ];
    assert_eq!(answered(&lines, &["sh", "-c", AGENT]), [0, 1, 2]);
}

#[test]
fn answers_of_the_bridge_itself_are_not_taken_for_those_of_the_agent() {
    let lines = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": 7}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": 3}}),
    ];
    assert_eq!(answered(&lines, &[env!("CARGO_BIN_EXE_switchboard"), "demo-agent"]), [0, 1, 2]);
}

/// Sends all lines, closes the input, and returns the ids of the responses.
fn answered(lines: &[Value], agent: &[&str]) -> Vec<i64> {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let run = switchboard(&[&["bridge", "--"], agent].concat(), input.as_bytes());
    let messages = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answers = messages.filter(|message| message.get("method").is_none());
    let mut ids: Vec<i64> = answers.map(|answer| answer["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    ids
}
