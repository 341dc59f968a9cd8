//! A hub in a folder of its own, with an agent that does what its prompts say.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_hub::{FolderRefusal, Hub, HubOptions, Identity};
use switchboard_store::{Role, Store};
use switchboard_transport::server::{ServerConnection, ServerLimits};
use switchboard_transport::{Grace, Program};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

/// Time limit of every wait. Only a failing test reaches it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// An agent of version 2. The text of a prompt says what it does.
const AGENT: &str = r#"
number=0
update() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":%s}}\n' "$session" "$1"; }
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
state() { update '{"sessionUpdate":"state_update",'"$1"'}'; }
rest() { state '"state":"idle","stopReason":"'"$1"'"'; }
chunk() { update '{"sessionUpdate":"agent_message_chunk","messageId":"m'$$-$number'","content":{"type":"text","text":"'"$1"'"}}'; }
whole() { update '{"sessionUpdate":"agent_message","messageId":"m'$$-$number'","content":[{"type":"text","text":"'"$1"'"}]}'; }
ask() {
  printf '{"jsonrpc":"2.0","id":%s,"method":"session/request_permission","params":{"sessionId":"%s","title":"May I?",' "$1" "$session"
  printf '"subject":{"type":"command","command":"make","cwd":"/w"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},'
  printf '{"optionId":"n","name":"No","kind":"reject_once"}]}}\n'
}
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"sessionId":"'*) session=${line#*\"sessionId\":\"}; session=${session%%\"*} ;;
  esac
  case $line in
    *'"method":"initialize"'*)
      answer '{"protocolVersion":2,"info":{"name":"sh","version":"1"},"capabilities":{"session":{}}}' ;;
    *'"method":"session/new"'*)
      number=$((number + 1)); answer '{"sessionId":"a'$$-$number'"}' ;;
    *'"method":"session/prompt"'*)
      number=$((number + 1))
      text=${line#*\"text\":\"}; text=${text%%\"*}
      if [ "$text" = refuse ]; then
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"not today"}}\n' "$id"
        continue
      fi
      state '"state":"running"'
      answer '{"messageId":"u'$$-$number'"}'
      case $text in
        wait) chunk working ;;
        die) exit 3 ;;
        ask) ask 900 ;;
        withdraw)
          ask 901
          printf '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":901}}\n'
          rest end_turn ;;
        replace) whole secret; whole clean; rest end_turn ;;
        title) update '{"sessionUpdate":"session_info_update","title":"A title"}'; rest end_turn ;;
        unknown) update '{"sessionUpdate":"_later","value":{"a":[1]}}'; rest end_turn ;;
        tool)
          update '{"sessionUpdate":"tool_call_update","toolCallId":"t'$number'","title":"Read","kind":"read","status":"completed"}'
          rest end_turn ;;
        noise) echo 'not a message'; chunk fine; rest end_turn ;;
        *) chunk "you said "; chunk "$text"; rest end_turn ;;
      esac ;;
    *'"method":"session/cancel"'*) rest cancelled ;;
    *'"id":900,'*'"optionId":"y"'*) chunk allowed; rest end_turn ;;
    *'"id":900,'*'"optionId":"n"'*) chunk rejected; rest end_turn ;;
    *'"id":900,'*) chunk unanswered; rest end_turn ;;
    *'"method":'*'"id":'* | *'"id":'*'"method":'*) answer '{}' ;;
  esac
done
"#;

/// A hub with its folder.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) hub: Hub,
    pub(crate) store: Store,
}

/// Returns an identity that is not a token of the store.
pub(crate) fn person(name: &str, role: Role) -> Identity {
    Identity { name: name.into(), role, all: false, made: 0 }
}

fn options(folder: &tempfile::TempDir, store: Store, change: impl FnOnce(&mut HubOptions)) -> HubOptions {
    let script = folder.path().join("agent.sh");
    std::fs::write(&script, AGENT).unwrap();
    let program = || Program::new("/bin/sh").args([&script]);
    let agents = vec![("one".to_owned(), program()), ("two".to_owned(), program())];
    let allowed = |folder: &str| {
        let refusal = || FolderRefusal { reason: "is outside".to_owned(), roots: vec!["/w".to_owned()] };
        if folder.starts_with("/w") { Ok(folder.to_owned()) } else { Err(refusal()) }
    };
    let mut options = HubOptions::new(store, agents, Box::new(allowed));
    options.local_names = ["anna", "ben", "root"].map(Into::into).to_vec();
    change(&mut options);
    options
}

impl Place {
    pub(crate) fn start() -> Self {
        Place::start_with(|_| ())
    }

    /// Starts a hub with changed options.
    pub(crate) fn start_with(change: impl FnOnce(&mut HubOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
        let hub = Hub::start(options(&folder, store.clone(), change)).unwrap();
        Place { folder, hub, store }
    }

    /// Ends the hub and starts another one with the same store.
    pub(crate) async fn restart(self) -> Self {
        self.end().await;
        let Place { folder, store, .. } = self;
        let hub = Hub::start(options(&folder, store.clone(), |_| ())).unwrap();
        Place { folder, hub, store }
    }

    pub(crate) async fn end(&self) {
        self.hub.end("the test is over", Grace::default()).await;
    }

    /// Connects an administrator.
    pub(crate) async fn client(&self) -> Client {
        self.client_as(person("root", Role::Admin)).await
    }

    pub(crate) async fn client_as(&self, identity: Identity) -> Client {
        let mut client = self.connect(identity, None).await;
        let answer = client.ask("initialize", hello()).await;
        assert_eq!(answer["result"]["protocolVersion"], 2, "{answer}");
        client
    }

    /// Connects a client without a handshake.
    pub(crate) async fn connect(&self, identity: Identity, agent: Option<&str>) -> Client {
        let (connection, client) = ServerConnection::local(ServerLimits::default());
        self.hub.connect(identity, agent, connection).await;
        let (reader, writer) = tokio::io::split(client);
        Client { lines: BufReader::new(reader).lines(), writer, seen: VecDeque::new(), last: 0 }
    }

    /// Waits until the numbers of the hub are as expected.
    pub(crate) async fn until_counts(&self, is_meant: impl Fn(&switchboard_hub::Counts) -> bool) {
        let wait = async {
            while !is_meant(&self.hub.counts().await.unwrap()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let counts = || self.hub.counts();
        if tokio::time::timeout(LIMIT, wait).await.is_err() {
            panic!("{:?}", counts().await);
        }
    }
}

/// A client in memory.
pub(crate) struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    /// Messages that nobody has waited for yet.
    pub(crate) seen: VecDeque<Value>,
    last: i64,
}

impl Client {
    pub(crate) async fn send(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Sends a request without waiting for its response; returns the id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.response(id).await
    }

    pub(crate) async fn response(&mut self, id: i64) -> Value {
        self.until(|message| message["id"] == id && message.get("method").is_none()).await
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Returns the next message; `None` at the end of the connection.
    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(LIMIT, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("nothing more comes; seen: {:?}", self.seen)).unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Waits for a message; earlier ones stay in `seen`.
    pub(crate) async fn until(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.seen.iter().position(&is_meant) {
            return self.seen.remove(place).unwrap();
        }
        loop {
            let message = self.next().await;
            let message = message.unwrap_or_else(|| panic!("the connection ended; seen: {:?}", self.seen));
            if is_meant(&message) {
                return message;
            }
            self.seen.push_back(message);
        }
    }

    /// Waits for the end of the connection.
    pub(crate) async fn until_end(&mut self) {
        while let Some(message) = self.next().await {
            self.seen.push_back(message);
        }
    }

    /// Waits for the end of a turn. Returns its stop reason.
    pub(crate) async fn until_idle(&mut self) -> String {
        let idle = self.until(|message| message["params"]["update"]["state"] == "idle").await;
        idle["params"]["update"]["stopReason"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn new_session(&mut self) -> String {
        let answer = self.ask("session/new", json!({"cwd": "/w/p"})).await;
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.ask("session/prompt", prompt(session, text)).await
    }

    /// Runs a turn. Returns the text of the agent.
    pub(crate) async fn turn(&mut self, session: &str, text: &str) -> String {
        let answer = self.prompt(session, text).await;
        assert!(answer.get("error").is_none(), "{answer}");
        self.until_idle().await;
        self.text()
    }

    /// Takes the text of the agent out of the messages seen so far: the last state of each message.
    pub(crate) fn text(&mut self) -> String {
        let mut messages: Vec<(String, String)> = Vec::new();
        for message in self.seen.drain(..) {
            let update = &message["params"]["update"];
            let id = update["messageId"].as_str().unwrap_or_default().to_owned();
            let place = messages.iter().position(|(known, _)| *known == id);
            let mut entry = || match place {
                Some(place) => place,
                None => {
                    messages.push((id.clone(), String::new()));
                    messages.len() - 1
                }
            };
            match update["sessionUpdate"].as_str() {
                Some("agent_message_chunk") => {
                    let place = entry();
                    messages[place].1 += update["content"]["text"].as_str().unwrap();
                }
                Some("agent_message") => {
                    let place = entry();
                    let blocks = update["content"].as_array().unwrap();
                    messages[place].1 =
                        blocks.iter().map(|block| block["text"].as_str().unwrap_or_default()).collect();
                }
                _ => {}
            }
        }
        messages.into_iter().map(|(_, text)| text).collect()
    }

    /// Attaches to a session from its beginning. Returns the text of the agent.
    pub(crate) async fn resume(&mut self, session: &str) -> String {
        let params = json!({"sessionId": session, "cwd": "/w/p", "replayFrom": {"type": "start"}});
        let answer = self.ask("session/resume", params).await;
        assert!(answer.get("error").is_none(), "{answer}");
        self.text()
    }

    /// Waits for a permission request. Returns its id.
    pub(crate) async fn question(&mut self) -> Value {
        self.until(|message| message["method"] == "session/request_permission").await["id"].clone()
    }

    pub(crate) async fn choose(&mut self, question: &Value, option: &str) {
        let result = json!({"outcome": {"outcome": "selected", "optionId": option}});
        self.send(&json!({"jsonrpc": "2.0", "id": question, "result": result})).await;
    }

    pub(crate) async fn listed(&mut self) -> Vec<Value> {
        let answer = self.ask("session/list", json!({})).await;
        answer["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
    }
}

/// Returns the parameters of `initialize`.
pub(crate) fn hello() -> Value {
    json!({"protocolVersion": 2, "info": {"name": "test", "version": "1"}})
}

pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// Returns the code of an error response.
pub(crate) fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}
