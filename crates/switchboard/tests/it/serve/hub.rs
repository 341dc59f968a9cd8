//! A hub of the program, and clients that speak to it line by line.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_transport::{Remote, RemoteError, RemoteStream};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, Lines};

use crate::agent_program::{Place, signal};

/// How long anything may take, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A hub that runs. It is ended with the test.
pub(crate) struct Hub {
    child: Option<Child>,
    pub(crate) address: String,
    pub(crate) token: String,
    store: PathBuf,
}

impl Hub {
    /// Starts a hub with its store in the home of the place.
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Self {
        Hub::start_as(place, "hub", arguments)
    }

    /// Starts one of several hubs of a place, with a store of its own name.
    pub(crate) fn start_as(place: &Place, name: &str, arguments: &[&str]) -> Self {
        Hub::try_start(place, name, arguments).unwrap_or_else(|| panic!("the hub {name} does not start"))
    }

    /// The same; `None` where it ends at once.
    pub(crate) fn try_start(place: &Place, name: &str, arguments: &[&str]) -> Option<Self> {
        Hub::start_command(place, name, place.command(&["serve"]), arguments)
    }

    /// The same with a command of its own: another environment or folder.
    pub(crate) fn start_command(
        place: &Place,
        name: &str,
        mut command: Command,
        arguments: &[&str],
    ) -> Option<Self> {
        let store = place.home().join(format!("{name}.sqlite3"));
        let file = place.home().join(format!("{name}.token"));
        command.args(["--listen", "127.0.0.1:0"]).arg("--store").arg(&store);
        command.arg("--token-file").arg(&file).args(arguments);
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(address) = line.trim().strip_prefix("listening on ") else {
            // It says why itself.
            let _ = child.wait();
            return None;
        };
        let address = address.split_once("://").unwrap().1.to_owned();
        let token = std::fs::read_to_string(file).unwrap().trim().to_owned();
        Some(Hub { child: Some(child), address, token, store })
    }

    pub(crate) fn store(&self) -> &str {
        self.store.to_str().unwrap()
    }

    /// A client with a token.
    pub(crate) async fn client_with(&self, token: &str, agent: &str) -> Result<Client, RemoteError> {
        let remote = Remote::new(&format!("ws://{}/acp{agent}", self.address))?;
        Ok(Client::of(remote.header("authorization", &format!("Bearer {token}"))?.connect().await?))
    }

    /// A client over streamable HTTP that has said hello, with the token of the launch.
    pub(crate) async fn client_over_http(&self, version: u64) -> Client {
        self.client_over_http_as(&self.token, version).await
    }

    /// The same with another token.
    pub(crate) async fn client_over_http_as(&self, token: &str, version: u64) -> Client {
        let remote = Remote::new(&format!("http://{}/acp", self.address)).unwrap();
        let remote = remote.header("authorization", &format!("Bearer {token}")).unwrap();
        let mut client = Client::of(remote.connect().await.unwrap());
        client.initialize(version).await;
        client
    }

    /// Another socket of a client with the token of the launch, which has said nothing yet.
    pub(crate) async fn take_up(&self, client: &Client) -> Client {
        let remote = Remote::new(&format!("ws://{}/acp", self.address)).unwrap();
        let remote = remote.header("authorization", &format!("Bearer {}", self.token)).unwrap();
        let stream = remote.take_up(client.connection_id.as_ref().unwrap()).await.unwrap();
        // Its requests are new ones.
        Client { last: client.last + 1000, ..Client::of(stream) }
    }

    /// A client of a version that has said hello, with the token of the launch.
    pub(crate) async fn client(&self, version: u64) -> Client {
        let token = self.token.clone();
        self.client_as(&token, version).await
    }

    pub(crate) async fn client_as(&self, token: &str, version: u64) -> Client {
        let mut client = self.client_with(token, "").await.unwrap();
        let answer = client.initialize(version).await;
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        client
    }

    /// Ends it as an operator would, and gives the exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        signal("TERM", child.id());
        child.wait().unwrap().code()
    }

    /// The id of its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.child.as_ref().unwrap().id());
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.cut_off();
    }

    /// The same, where something else takes its place.
    pub(crate) fn cut_off(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// What the server says to a request of HTTP.
    pub(crate) fn http(&self, head: &str) -> String {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = head.replace("\n", "\r\n");
        write!(stream, "{head}\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A client that speaks line by line.
pub(crate) struct Client {
    lines: Lines<tokio::io::BufReader<tokio::io::ReadHalf<tokio::io::DuplexStream>>>,
    writer: tokio::io::WriteHalf<tokio::io::DuplexStream>,
    pub(crate) end: tokio::task::JoinHandle<Result<(), RemoteError>>,
    /// What has come and nobody has taken.
    pub(crate) seen: VecDeque<Value>,
    last: i64,
    connection_id: Option<String>,
}

impl Client {
    fn of(stream: RemoteStream) -> Self {
        let RemoteStream { reader, writer, end, connection_id, taken_up: _ } = stream;
        let lines = tokio::io::BufReader::new(reader).lines();
        Client { lines, writer, end, seen: VecDeque::new(), last: 0, connection_id }
    }

    /// A client of a hub that may not be there.
    pub(crate) async fn at(address: &str, token: &str) -> Option<Self> {
        let remote = Remote::new(&format!("ws://{address}/acp")).ok()?;
        let remote = remote.header("authorization", &format!("Bearer {token}")).ok()?;
        let stream = tokio::time::timeout(PATIENCE, remote.connect()).await.ok()?.ok()?;
        Some(Client::of(stream))
    }

    /// The next message, if one comes in time.
    pub(crate) async fn next_within(&mut self, time: Duration) -> Option<Value> {
        if let Some(message) = self.seen.pop_front() {
            return Some(message);
        }
        let line = tokio::time::timeout(time, self.lines.next_line()).await.ok()?.ok()??;
        serde_json::from_str(&line).ok()
    }

    /// Asks, and gives the answer, if it comes in time; what comes before it stays to be seen.
    pub(crate) async fn ask_within(&mut self, method: &str, params: Value, time: Duration) -> Option<Value> {
        self.last += 1;
        let id = self.last;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.writer.write_all(format!("{message}\n").as_bytes()).await.ok()?;
        let answer = async {
            loop {
                let line = self.lines.next_line().await.ok()??;
                let message: Value = serde_json::from_str(&line).ok()?;
                if message["id"] == id && message.get("method").is_none() {
                    return Some(message);
                }
                self.seen.push_back(message);
            }
        };
        tokio::time::timeout(time, answer).await.ok()?
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn initialize(&mut self, version: u64) -> Value {
        let params = match version {
            1 => {
                json!({"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "old", "version": "1"}})
            }
            _ => json!({"protocolVersion": version, "info": {"name": "new", "version": "2"},
                "capabilities": {"elicitation": {"form": {}}}}),
        };
        self.ask("initialize", params).await
    }

    /// Asks without waiting for the answer; gives the id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.last += 1;
        self.send(json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})).await;
        self.last
    }

    /// Asks, and gives the answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn answer(&mut self, id: i64) -> Value {
        self.until(|message| message["id"] == id && message.get("method").is_none()).await
    }

    /// The next message that is meant; those before it stay to be seen.
    pub(crate) async fn until(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.seen.iter().position(&is_meant) {
            return self.seen.remove(place).unwrap();
        }
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("it does not come; seen: {:?}", self.seen)).unwrap();
            let line = line.unwrap_or_else(|| panic!("the connection ended; seen: {:?}", self.seen));
            let message: Value = serde_json::from_str(&line).unwrap();
            if is_meant(&message) {
                return message;
            }
            self.seen.push_back(message);
        }
    }

    /// Everything that has come in a session until it is idle, with that.
    pub(crate) async fn until_idle(&mut self) -> Vec<Value> {
        let last = self.until(|message| message["params"]["update"]["state"] == "idle").await;
        self.seen.drain(..).chain([last]).collect()
    }

    /// Everything that has come until a session is idle, or, as an error, until the connection ends.
    pub(crate) async fn until_idle_or_end(&mut self) -> Result<Vec<Value>, Vec<Value>> {
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.unwrap();
            let Ok(Some(line)) = line else { return Err(self.seen.drain(..).collect()) };
            let message: Value = serde_json::from_str(&line).unwrap();
            let is_idle = message["params"]["update"]["state"] == "idle";
            self.seen.push_back(message);
            if is_idle {
                return Ok(self.seen.drain(..).collect());
            }
        }
    }

    pub(crate) async fn question(&mut self) -> Value {
        self.until(|message| message["method"] == "session/request_permission").await
    }

    /// Chooses the first option.
    pub(crate) async fn allow(&mut self, question: &Value) {
        let option = &question["params"]["options"][0]["optionId"];
        let result = json!({"outcome": {"outcome": "selected", "optionId": option}});
        self.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
    }

    /// Opens a session in a folder, and gives its id.
    pub(crate) async fn new_session(&mut self, place: &Place) -> String {
        let answer = self.ask("session/new", json!({"cwd": place.work(), "mcpServers": []})).await;
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> i64 {
        self.begin(
            "session/prompt",
            json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}),
        )
        .await
    }

    /// Why the server ended the connection.
    pub(crate) async fn ended(self) -> String {
        match tokio::time::timeout(PATIENCE, self.end).await.unwrap().unwrap() {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }
}
