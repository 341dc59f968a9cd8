//! A hub process, and clients that exchange messages line by line.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_transport::{Remote, RemoteError, RemoteStream};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, Lines};

use crate::agent_program::{Place, signal};

/// Timeout for all operations, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running hub. It is stopped on drop.
pub(crate) struct Hub {
    child: Option<Child>,
    pub(crate) address: String,
    pub(crate) token: String,
    store: PathBuf,
}

impl Hub {
    /// Starts a hub with its store in the home.
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Self {
        Hub::start_as(place, "hub", arguments)
    }

    /// Starts one of several hubs, with its own store.
    pub(crate) fn start_as(place: &Place, name: &str, arguments: &[&str]) -> Self {
        Hub::try_start(place, name, arguments).unwrap_or_else(|| panic!("the hub {name} does not start"))
    }

    /// The same; `None` if it exits immediately.
    pub(crate) fn try_start(place: &Place, name: &str, arguments: &[&str]) -> Option<Self> {
        Hub::start_command(place, name, place.command(&["serve"]), arguments)
    }

    /// The same with another command: with another environment or directory.
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
            // It prints the reason itself.
            let _ = child.wait();
            return None;
        };
        let address = address.split_once("://").unwrap().1.to_owned();
        let token = std::fs::read_to_string(file).unwrap().trim().to_owned();
        Some(Hub { child: Some(child), address, token, store })
    }

    /// Starts a command that names its own store, `hub.sqlite3`, and token file, `token`, in the home.
    pub(crate) fn of(mut command: Command, place: &Place) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        let token = std::fs::read_to_string(place.home().join("token")).unwrap().trim().to_owned();
        Hub { child: Some(child), address, token, store: place.home().join("hub.sqlite3") }
    }

    pub(crate) fn store(&self) -> &str {
        self.store.to_str().unwrap()
    }

    /// Returns a client with a token.
    pub(crate) async fn client_with(&self, token: &str, agent: &str) -> Result<Client, RemoteError> {
        let remote = Remote::new(&format!("ws://{}/acp{agent}", self.address))?;
        Ok(Client::of(remote.header("authorization", &format!("Bearer {token}"))?.connect().await?))
    }

    /// Returns a client of another protocol at a path, with the token of the start. It has sent nothing.
    pub(crate) async fn socket(&self, path: &str) -> Result<Client, RemoteError> {
        let remote = Remote::new(&format!("ws://{}{path}", self.address))?;
        Ok(Client::of(remote.header("authorization", &format!("Bearer {}", self.token))?.connect().await?))
    }

    /// Returns a client over streamable HTTP after `initialize`, with the token of the start.
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

    /// Opens another socket for the connection of a client, before its first message.
    pub(crate) async fn take_up(&self, client: &Client) -> Client {
        let remote = Remote::new(&format!("ws://{}/acp", self.address)).unwrap();
        let remote = remote.header("authorization", &format!("Bearer {}", self.token)).unwrap();
        let stream = remote.resume(client.connection_id.as_ref().unwrap()).await.unwrap();
        // Its request ids are new.
        Client { last: client.last + 1000, ..Client::of(stream) }
    }

    /// Returns a client of a version after `initialize`, with the token of the start.
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

    /// Stops it like an operator, and returns the exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        signal("TERM", child.id());
        child.wait().unwrap().code()
    }

    /// Returns its process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.child.as_ref().unwrap().id());
    }

    /// Kills it, like a power cut.
    pub(crate) fn kill(mut self) {
        self.cut_off();
    }

    /// The same, if it is to be replaced.
    pub(crate) fn cut_off(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Returns the response to an HTTP request.
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

/// A client that exchanges messages line by line.
pub(crate) struct Client {
    lines: Lines<tokio::io::BufReader<tokio::io::ReadHalf<tokio::io::DuplexStream>>>,
    writer: tokio::io::WriteHalf<tokio::io::DuplexStream>,
    pub(crate) end: tokio::task::JoinHandle<Result<(), RemoteError>>,
    /// Received messages that were not consumed yet.
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

    /// Returns a client of a hub, if the hub can be reached.
    pub(crate) async fn at(address: &str, token: &str) -> Option<Self> {
        let remote = Remote::new(&format!("ws://{address}/acp")).ok()?;
        let remote = remote.header("authorization", &format!("Bearer {token}")).ok()?;
        let stream = tokio::time::timeout(PATIENCE, remote.connect()).await.ok()?.ok()?;
        Some(Client::of(stream))
    }

    /// Returns the next message, unless the time expires first.
    pub(crate) async fn next_within(&mut self, time: Duration) -> Option<Value> {
        if let Some(message) = self.seen.pop_front() {
            return Some(message);
        }
        let line = tokio::time::timeout(time, self.lines.next_line()).await.ok()?.ok()??;
        serde_json::from_str(&line).ok()
    }

    /// Sends a request and returns the response, unless the time expires first. Other messages stay in
    /// `seen`.
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

    /// Sends a request without waiting for the response; returns the id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.last += 1;
        self.send(json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})).await;
        self.last
    }

    /// Sends a request and returns the response.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn answer(&mut self, id: i64) -> Value {
        self.until(|message| message["id"] == id && message.get("method").is_none()).await
    }

    /// Waits for a matching message; earlier ones stay in `seen`.
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

    /// Returns all messages until a session is idle, including that update.
    pub(crate) async fn until_idle(&mut self) -> Vec<Value> {
        let last = self.until(|message| message["params"]["update"]["state"] == "idle").await;
        self.seen.drain(..).chain([last]).collect()
    }

    /// Returns all messages until a session is idle or, as an error, until the connection ends.
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

    /// Selects the first option.
    pub(crate) async fn allow(&mut self, question: &Value) {
        let option = &question["params"]["options"][0]["optionId"];
        let result = json!({"outcome": {"outcome": "selected", "optionId": option}});
        self.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
    }

    /// Opens a session in a directory, and returns its id.
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

    /// Returns the reason for which the server closed the connection.
    pub(crate) async fn ended(self) -> String {
        match tokio::time::timeout(PATIENCE, self.end).await.unwrap().unwrap() {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }
}
