//! Agents without a history, whose history comes from the store.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::program::switchboard;

/// Agents that only know sessions of the same process. They send the id of the session in each message.
const VERSION_1: &str = r#"
say() { printf '%s\n' "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  session=$(printf '%s' "$line" | sed -n 's/.*"sessionId":"\([^"]*\)".*/\1/p')
  case "$line" in
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"agentInfo":{"name":"forgetful","version":"1"},"agentCapabilities":{},"authMethods":[]}}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"agent-'$$-$id'"}}' ;;
    *'"session/prompt"'*)
      say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'"$session"'","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"heard in '"$session"'"}}}}'
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"stopReason":"end_turn"}}' ;;
    *'"id"'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"no such method"}}' ;;
  esac
done
"#;

const VERSION_2: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'"$session"'","update":'"$1"'}}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  session=$(printf '%s' "$line" | sed -n 's/.*"sessionId":"\([^"]*\)".*/\1/p')
  case "$line" in
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":2,"info":{"name":"forgetful-2","version":"1"},"capabilities":{"session":{}}}}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"agent-'$$'"}}' ;;
    *'"session/prompt"'*)
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u-'$id'"}}'
      update '{"sessionUpdate":"user_message","messageId":"u-'$id'","content":[{"type":"text","text":"question"}]}'
      update '{"sessionUpdate":"state_update","state":"running"}'
      update '{"sessionUpdate":"agent_message_chunk","messageId":"m-'$id'","content":{"type":"text","text":"heard in '"$session"'"}}'
      update '{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}' ;;
    *'"id"'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"no such method"}}' ;;
  esac
done
"#;

struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    version: u16,
    asked: u64,
}

impl Client {
    fn start(store: &str, agent: &str, version: u16) -> (Self, Value) {
        let mut process = Command::new(env!("CARGO_BIN_EXE_switchboard"))
            .args(["bridge", "--record", "--store", store, "--", "sh", "-c", agent])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut client = Client { process, input, output, version, asked: 0 };
        let params = if version == 1 {
            json!({"protocolVersion": 1, "clientCapabilities": {}})
        } else {
            json!({"protocolVersion": 2, "info": {"name": "test", "version": "1"}, "capabilities": {}})
        };
        let (_, answer) = client.ask("initialize", params);
        (client, answer["result"].clone())
    }

    #[allow(clippy::needless_pass_by_value, reason = "values are written in place")]
    fn ask(&mut self, method: &str, params: Value) -> (Vec<Value>, Value) {
        self.asked += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        writeln!(self.input, "{request}").unwrap();
        let mut before = Vec::new();
        loop {
            let message = self.hear();
            if message["id"] == self.asked {
                return (before, message);
            }
            before.push(message);
        }
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
        serde_json::from_str(&line).unwrap()
    }

    fn new_session(&mut self) -> String {
        let (_, answer) = self.ask("session/new", json!({"cwd": "/w", "mcpServers": []}));
        answer["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    /// Returns the text of a turn; all messages must belong to this session.
    fn prompt(&mut self, session: &str, text: &str) -> String {
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let (mut updates, answer) = self.ask("session/prompt", prompt);
        assert!(answer["result"].is_object(), "{answer}");
        while self.version == 2 && !updates.iter().any(|line| line.to_string().contains("end_turn")) {
            updates.push(self.hear());
        }
        assert!(updates.iter().all(|line| line["params"]["sessionId"] == session), "{updates:?}");
        words(&updates, "agent_message_chunk").concat()
    }

    /// Returns the history of an old session.
    fn load(&mut self, session: &str) -> Vec<Value> {
        let method = if self.version == 1 { "session/load" } else { "session/resume" };
        let mut params = json!({"sessionId": session, "cwd": "/w", "mcpServers": []});
        if self.version == 2 {
            params["replayFrom"] = json!({"type": "start"});
        }
        let (history, answer) = self.ask(method, params);
        assert!(answer["result"].is_object(), "{answer}");
        assert!(history.iter().all(|line| line["params"]["sessionId"] == session), "{history:?}");
        history
    }

    fn listed(&mut self) -> Vec<Value> {
        let (_, answer) = self.ask("session/list", json!({"cwd": "/w"}));
        answer["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.process.wait().unwrap().success());
    }
}

fn words(updates: &[Value], kind: &str) -> Vec<String> {
    let of_kind = updates.iter().map(|line| &line["params"]["update"]).filter(|u| u["sessionUpdate"] == kind);
    of_kind.map(|update| update["content"]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn of_several_sessions_in_one_recording_each_is_listed_by_its_own_prompt_and_empty_ones_are_not() {
    for version in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.sqlite3");
        let store = store.to_str().unwrap();
        let (mut client, _) = Client::start(store, VERSION_1, version);
        let sessions: Vec<String> = (0..3).map(|_| client.new_session()).collect();
        client.prompt(&sessions[0], "first");
        client.prompt(&sessions[2], "third");
        client.prompt(&sessions[2], "later");
        client.end();
        let (mut client, _) = Client::start(store, VERSION_1, version);
        // An editor opens a session at its start that is never used.
        client.new_session();
        for _ in 0..2 {
            let mut listed: Vec<(String, Value)> = client
                .listed()
                .iter()
                .map(|session| (session["sessionId"].as_str().unwrap().to_owned(), session["title"].clone()))
                .collect();
            listed.sort_by_key(|(_, title)| title.to_string());
            let expected = [(sessions[0].clone(), json!("first")), (sessions[2].clone(), json!("third"))];
            assert_eq!(listed, expected, "version {version}");
        }
        client.end();
    }
}

#[test]
fn an_agent_of_version_1_gets_list_and_load_for_clients_of_either_version() {
    for version in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.sqlite3");
        let store = store.to_str().unwrap();
        let (mut client, _) = Client::start(store, VERSION_1, version);
        let session = client.new_session();
        assert_eq!(client.prompt(&session, "first"), format!("heard in {session}"));
        client.end();

        let mut notices = 0;
        for round in 2..4 {
            let (mut client, introduction) = Client::start(store, VERSION_1, version);
            if version == 1 {
                assert_eq!(introduction["agentCapabilities"]["loadSession"], true);
                assert!(introduction["agentCapabilities"]["sessionCapabilities"]["list"].is_object());
            }
            let listed = client.listed();
            assert_eq!((&listed[0]["sessionId"], &listed[0]["title"]), (&json!(session), &json!("first")));
            let history = client.load(&session);
            let told = serde_json::to_string(&history).unwrap();
            assert!(told.contains("first") && told.contains(&format!("heard in {session}")), "{told}");
            // The notice is sent once, also if the session is opened several times.
            notices = told.matches("The agent does not remember this session").count();
            assert_eq!(told.contains("second"), round == 3, "{told}");
            let heard = client.prompt(&session, "second");
            assert!(heard.contains("heard in agent-") && !heard.contains(&session), "{heard}");
            // A second time on the same connection.
            let again = serde_json::to_string(&client.load(&session)).unwrap();
            assert!(again.contains("first"), "{again}");
            let (_, unknown) = client.ask(
                if version == 1 { "session/load" } else { "session/resume" },
                json!({"sessionId": "nobody", "cwd": "/w", "mcpServers": [], "replayFrom": {"type": "start"}}),
            );
            assert!(unknown["error"].is_object(), "{unknown}");
            client.end();
        }
        assert_eq!(notices, 1, "version {version}");
    }
}

#[test]
fn an_agent_of_version_2_without_them_gets_list_and_resume() {
    for version in [2, 1] {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.sqlite3");
        let store = store.to_str().unwrap();
        let (mut client, _) = Client::start(store, VERSION_2, version);
        let session = client.new_session();
        assert_eq!(client.prompt(&session, "question"), format!("heard in {session}"));
        client.end();
        let (mut client, _) = Client::start(store, VERSION_2, version);
        assert_eq!(client.listed()[0]["sessionId"], json!(session));
        let history = serde_json::to_string(&client.load(&session)).unwrap();
        assert!(
            history.contains("question") && history.contains(&format!("heard in {session}")),
            "{history}"
        );
        assert_eq!(history.matches("The agent does not remember this session").count(), 1, "{history}");
        let heard = client.prompt(&session, "more");
        assert!(heard.contains("heard in agent-") && !heard.contains(&session), "{heard}");
        client.end();

        // The actual messages to and from the agent are recorded next to those of the session.
        let list = switchboard(&["sessions", "--store", store, "list", "--json"], b"").json_lines();
        let id = list[0]["id"].as_str().unwrap();
        let all =
            switchboard(&["sessions", "--store", store, "export", "--everything", id], b"").json_lines();
        let in_place = |key: &str, pointer: &str| -> Vec<Value> {
            let of_agent = all.iter().map(|line| &line["diagnostic"]).filter(|line| line[key] == "agent");
            of_agent.filter_map(|line| line["in_place"].pointer(pointer).cloned()).collect()
        };
        assert_eq!(in_place("to", "/method"), ["session/new", "session/prompt"], "{all:?}");
        let own = in_place("from", "/result/sessionId").remove(0);
        assert_eq!(in_place("to", "/params/sessionId"), std::slice::from_ref(&own));
        assert!(in_place("from", "/params/sessionId").iter().all(|id| *id == own), "{all:?}");
    }
}

#[test]
fn an_agent_of_version_1_that_can_resume_but_not_load_remembers_and_keeps_its_id() {
    let agent = VERSION_1
        .replace(r#""agentCapabilities":{}"#, r#""agentCapabilities":{"sessionCapabilities":{"resume":{}}}"#)
        .replace(
            "    *'\"session/prompt\"'*)",
            r#"    *'"session/resume"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{}}' ;;
    *'"session/prompt"'*)"#,
        );
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.sqlite3");
    let store = store.to_str().unwrap();
    let (mut client, _) = Client::start(store, &agent, 1);
    let session = client.new_session();
    client.prompt(&session, "first");
    client.end();
    let (mut client, introduction) = Client::start(store, &agent, 1);
    assert_eq!(introduction["agentCapabilities"]["loadSession"], true);
    let history = client.load(&session);
    assert_eq!(words(&history, "user_message_chunk"), ["first"]);
    assert_eq!(words(&history, "agent_message_chunk"), [format!("heard in {session}")]);
    assert_eq!(client.prompt(&session, "second"), format!("heard in {session}"));
    client.end();
}

#[test]
fn the_history_of_a_session_has_what_its_sub_agents_did_and_they_are_not_listed() {
    let child = r#"update '{"sessionUpdate":"subagent_update","sessionId":"child","title":"helper","state":{"state":"idle","stopReason":"end_turn"}}'
      say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"child","update":{"sessionUpdate":"agent_message_chunk","messageId":"c","content":{"type":"text","text":"said by it"}}}}'
      update '{"sessionUpdate":"state_update","state":"idle"#;
    let agent = VERSION_2.replace(r#"update '{"sessionUpdate":"state_update","state":"idle"#, child);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.sqlite3");
    let store = store.to_str().unwrap();
    let (mut client, _) = Client::start(store, &agent, 1);
    let session = client.new_session();
    client.prompt(&session, "question");
    client.end();
    let (mut client, _) = Client::start(store, &agent, 1);
    let ids: Vec<Value> = client.listed().iter().map(|listed| listed["sessionId"].clone()).collect();
    assert_eq!(ids, [json!(session)]);
    // `load` asserts that all messages belong to this session.
    let history = serde_json::to_string(&client.load(&session)).unwrap();
    assert!(history.contains("Sub-agent: helper") && history.contains("said by it"), "{history}");
    client.end();
}
