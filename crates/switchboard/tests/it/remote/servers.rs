//! ACP servers: those of the official SDKs, and one of our own that can misbehave.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader as Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Notify;

use crate::interop::SWITCHBOARD;

/// A server based on an official SDK. It is stopped on drop.
pub(super) struct Official {
    server: Child,
    address: String,
}

impl Official {
    pub(super) fn start(program: &[String], version: &str) -> Self {
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).args([version, "serve"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let mut address = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Official { server, address: address.trim().to_owned() }
    }

    pub(super) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/acp", self.address)
    }
}

impl Drop for Official {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

/// Our server with the demo agent. It is stopped on drop.
pub(super) struct Served {
    address: std::net::SocketAddr,
    state: Shared,
    /// Dropping it stops the server.
    _runtime: tokio::runtime::Runtime,
}

type Shared = Arc<Mutex<Known>>;

#[derive(Default)]
struct Known {
    headers: Vec<BTreeMap<String, String>>,
    connections: HashMap<String, Arc<Connection>>,
}

impl Served {
    pub(super) fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let state = Shared::default();
        let router = axum::Router::new()
            .route("/plain", get(plain))
            .route("/token", get(with_token))
            .route("/closing", get(closing))
            .route("/broken", get(read).post(post).delete(|| async { StatusCode::ACCEPTED }))
            .with_state(Arc::clone(&state));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Served { address, state, _runtime: runtime }
    }

    pub(super) fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://{}{path}", self.address)
    }

    /// Returns the headers of each WebSocket request.
    pub(super) fn headers(&self) -> Vec<BTreeMap<String, String>> {
        self.state.lock().unwrap().headers.clone()
    }
}

fn agent() -> (tokio::process::Child, ChildStdin, Lines<ChildStdout>) {
    let mut command = tokio::process::Command::new(SWITCHBOARD);
    command.arg("demo-agent").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, input, Lines::new(output))
}

/// Serves one agent per connection, with one line per frame.
async fn plain(State(state): State<Shared>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    let told = headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    state.lock().unwrap().headers.push(told.collect());
    upgrade.on_upgrade(|socket: WebSocket| async move {
        use futures_util::{SinkExt, StreamExt};
        let (_child, mut input, output) = agent();
        let (mut sink, mut frames) = socket.split();
        let mut output = output.lines();
        loop {
            tokio::select! {
                frame = frames.next() => match frame {
                    Some(Ok(Message::Text(text))) => input.write_all(format!("{text}\n").as_bytes()).await.unwrap(),
                    Some(Ok(_)) => {}
                    _ => break,
                },
                Ok(Some(line)) = output.next_line() => {
                    if sink.send(Message::Text(line.into())).await.is_err() {
                        break;
                    }
                }
            }
        }
    })
}

async fn with_token(headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    if headers.get("authorization").is_none_or(|token| token != "Bearer secret-1") {
        return (StatusCode::UNAUTHORIZED, "who are you?").into_response();
    }
    upgrade.on_upgrade(|mut socket| async move { while let Some(Ok(_)) = socket.recv().await {} })
}

async fn closing(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|mut socket| async move {
        let _first = socket.recv().await;
        let close = CloseFrame { code: 1008, reason: "too many of you".into() };
        let _ = socket.send(Message::Close(Some(close))).await;
    })
}

/// An HTTP connection whose event streams end after each event.
struct Connection {
    input: tokio::sync::Mutex<ChildStdin>,
    /// Lines of the agent by session; those without a session under the empty name.
    said: Mutex<HashMap<String, Vec<String>>>,
    more: Notify,
}

fn named<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

async fn post(State(state): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let id = named(&headers, "acp-connection-id");
    let line = [&body[..], b"\n"].concat();
    if !id.is_empty() {
        let connection = Arc::clone(&state.lock().unwrap().connections[id]);
        connection.input.lock().await.write_all(&line).await.unwrap();
        return StatusCode::ACCEPTED.into_response();
    }
    let (child, mut input, mut output) = agent();
    input.write_all(&line).await.unwrap();
    let mut answer = String::new();
    output.read_line(&mut answer).await.unwrap();
    let connection = Arc::new(Connection {
        input: tokio::sync::Mutex::new(input),
        said: Mutex::default(),
        more: Notify::new(),
    });
    let id = {
        let mut known = state.lock().unwrap();
        let id = format!("connection-{}", known.connections.len());
        known.connections.insert(id.clone(), Arc::clone(&connection));
        id
    };
    tokio::spawn(async move {
        let (_child, mut lines) = (child, output.lines());
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let session = message["params"]["sessionId"].as_str().unwrap_or_default();
            connection.said.lock().unwrap().entry(session.to_owned()).or_default().push(line);
            connection.more.notify_waiters();
        }
    });
    ([("acp-connection-id", id)], answer).into_response()
}

async fn read(State(state): State<Shared>, headers: HeaderMap) -> Response {
    let session = named(&headers, "acp-session-id").to_owned();
    let after = named(&headers, "last-event-id").parse().unwrap_or(0);
    let connection = Arc::clone(&state.lock().unwrap().connections[named(&headers, "acp-connection-id")]);
    let event = async move {
        loop {
            let more = connection.more.notified();
            let next =
                connection.said.lock().unwrap().get(&session).and_then(|said| said.get(after).cloned());
            match next {
                Some(line) => return Ok::<_, Infallible>(format!("id: {}\ndata: {line}\n\n", after + 1)),
                None => more.await,
            }
        }
    };
    let body = Body::from_stream(futures_util::stream::once(event));
    ([("content-type", "text/event-stream")], body).into_response()
}
