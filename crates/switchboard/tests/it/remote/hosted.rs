//! A server with one demo agent per connection: only the transport is between client and agent.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::request::Parts;
use serde_json::Value;
use switchboard_transport::server::{
    Incoming, ListenerLimits, OutgoingLine, Refusal, ServerConnection, ServerLimits, Service, Tls, router,
    serve,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::interop::SWITCHBOARD;

pub(super) const TOKEN: &str = "secret-1";

/// A server with one agent per protocol version, named by it. It is stopped on drop.
pub(super) struct Hosted {
    pub(super) address: SocketAddr,
    /// Dropping it stops the server.
    _runtime: tokio::runtime::Runtime,
}

impl Hosted {
    /// Starts it with the test certificate.
    pub(super) fn start_encrypted() -> Self {
        let tls = Tls::from_files(&certificate("certificate.pem"), &certificate("key.pem")).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (router, _) = router(Arc::new(Demo), ServerLimits::default());
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { serve(&listener, &router, Some(&tls), ListenerLimits::default()).await });
        Hosted { address, _runtime: runtime }
    }
}

pub(super) fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tls").join(name)
}

struct Demo;

impl Service for Demo {
    type Identity = ();

    fn identify(&self, head: &Parts, _from: SocketAddr) -> Result<(), Refusal> {
        let token = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        let is_right = token.is_some_and(|token| token.strip_prefix("Bearer ") == Some(TOKEN));
        if is_right { Ok(()) } else { Err(Refusal::new(StatusCode::UNAUTHORIZED, "send the token")) }
    }

    fn has_agent(&self, agent: Option<&str>) -> bool {
        matches!(agent, Some("1" | "2"))
    }

    fn open(&self, (): (), agent: Option<String>, connection: ServerConnection) {
        tokio::spawn(pass_on(agent.unwrap(), connection));
    }
}

/// Passes messages between a client and its agent, each on the stream of its session.
async fn pass_on(version: String, mut connection: ServerConnection) {
    let mut command = tokio::process::Command::new(SWITCHBOARD);
    command.args(["demo-agent", "--protocol", &version]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut agent = command.spawn().unwrap();
    let mut input = agent.stdin.take().unwrap();
    let mut output = BufReader::new(agent.stdout.take().unwrap()).lines();
    // The session of each request: its response goes to the same stream.
    let mut about: HashMap<String, Arc<str>> = HashMap::new();
    loop {
        tokio::select! {
            message = connection.incoming.recv() => match message {
                Some(Incoming::Message(text)) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    let is_attaching = matches!(message["method"].as_str(), Some("session/load" | "session/resume"));
                    if let (Some(session), false) = (message["params"]["sessionId"].as_str(), is_attaching) {
                        about.insert(message["id"].to_string(), session.into());
                    }
                    input.write_all(format!("{text}\n").as_bytes()).await.unwrap();
                }
                Some(Incoming::Resume(request)) => {
                    request.reply.send(Err(Refusal::new(StatusCode::CONFLICT, "nothing is kept here")));
                }
                Some(Incoming::Reconnected(_)) => {}
                None => return,
            },
            line = output.next_line() => {
                let Ok(Some(text)) = line else { return };
                let message: Value = serde_json::from_str(&text).unwrap();
                let named = message["params"]["sessionId"].as_str().map(Arc::from);
                let stream = named.or_else(|| about.remove(&message["id"].to_string()));
                connection.outgoing.send(OutgoingLine { stream, ..OutgoingLine::new(text) });
            }
        }
    }
}
