//! A server whose program is the test, and clients that can do everything wrong.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};
use switchboard_transport::server::{
    Connections, Incoming, ListenerLimits, OutgoingLine, Refusal, ServerConnection, ServerLimits, Service,
    router, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::bounded;

/// What the server hands to the program.
pub(crate) struct Opened {
    pub(crate) who: String,
    pub(crate) agent: Option<String>,
    pub(crate) connection: ServerConnection,
}

/// Everybody with a token comes in, under its name.
struct Door(mpsc::Sender<Opened>);

impl Service for Door {
    type Identity = String;

    fn identify(&self, head: &Parts, from: SocketAddr) -> Result<String, Refusal> {
        assert!(from.ip().is_loopback());
        let token = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        match token.and_then(|token| token.strip_prefix("Bearer ")) {
            Some("guess") => {
                let mut refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens");
                refusal.retry_after = Some(Duration::from_secs(60));
                Err(refusal)
            }
            Some(name) => Ok(name.to_owned()),
            None => Err(Refusal::new(StatusCode::UNAUTHORIZED, "send a token")),
        }
    }

    fn has_agent(&self, agent: Option<&str>) -> bool {
        agent.is_none_or(|agent| agent == "known")
    }

    fn open(&self, who: String, agent: Option<String>, connection: ServerConnection) {
        self.0.try_send(Opened { who, agent, connection }).unwrap();
    }
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Connections<String>,
    opened: mpsc::Receiver<Opened>,
}

impl TestServer {
    pub(crate) async fn start(limits: ServerLimits) -> Self {
        let (tell, opened) = mpsc::channel(1000);
        let (router, connections) = router(Arc::new(Door(tell)), limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { serve(&listener, &router, None, ListenerLimits::default()).await });
        TestServer { address, connections, opened }
    }

    /// The connection that the program has got.
    pub(crate) async fn opened(&mut self) -> Opened {
        bounded(self.opened.recv()).await.unwrap()
    }

    /// Whether the program got nothing yet.
    pub(crate) fn is_unopened(&mut self) -> bool {
        self.opened.try_recv().is_err()
    }

    /// Asks for a WebSocket.
    pub(crate) async fn socket(&self, path: &str, headers: &[(&str, &str)]) -> Result<Socket, (u16, String)> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        match bounded(tokio_tungstenite::connect_async(request)).await {
            Ok((stream, response)) => {
                let id = response.headers()["acp-connection-id"].to_str().unwrap().to_owned();
                Ok(Socket { stream, id })
            }
            Err(Error::Http(response)) => {
                let body = response.body().as_deref().unwrap_or_default();
                Err((response.status().as_u16(), String::from_utf8_lossy(body).into_owned()))
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A WebSocket of somebody, with its connection.
    pub(crate) async fn open_socket(&mut self, who: &str) -> (Socket, ServerConnection) {
        let mut socket = self.socket("/acp", &[("authorization", &format!("Bearer {who}"))]).await.unwrap();
        socket.send(&initialize(1)).await;
        let mut opened = self.opened().await;
        assert_eq!(message(&mut opened.connection).await["method"], "initialize");
        (socket, opened.connection)
    }
}

pub(crate) struct Socket {
    pub(crate) stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub(crate) id: String,
}

impl Socket {
    pub(crate) async fn send(&mut self, text: &str) {
        bounded(self.stream.send(Message::text(text))).await.unwrap();
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            match bounded(self.stream.next()).await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("no message: {other:?}"),
            }
        }
    }

    /// With what it was closed.
    pub(crate) async fn closed(mut self) -> (u16, String) {
        loop {
            match bounded(self.stream.next()).await {
                Some(Ok(Message::Close(Some(frame)))) => {
                    return (frame.code.into(), frame.reason.to_string());
                }
                Some(Ok(Message::Text(_) | Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("no farewell: {other:?}"),
            }
        }
    }
}

pub(crate) fn initialize(id: i64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {"protocolVersion": 2}}).to_string()
}

/// The next message of a client.
pub(crate) async fn message(connection: &mut ServerConnection) -> Value {
    match bounded(connection.incoming.recv()).await {
        Some(Incoming::Message(text)) => serde_json::from_str(&text).unwrap(),
        other => panic!("no message: {other:?}"),
    }
}

/// A line on a stream, with a cursor.
pub(crate) fn line(number: i64, stream: Option<&str>, cursor: Option<&str>) -> OutgoingLine {
    let mut line = OutgoingLine::new(json!({"jsonrpc": "2.0", "method": "n", "params": number}).to_string());
    line.stream = stream.map(Into::into);
    line.cursor = cursor.map(Into::into);
    line
}

/// Sends bytes and gives everything that comes back until the other end closes.
pub(crate) async fn exchange(address: SocketAddr, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answer = Vec::new();
    // One that is closed with bytes unread is an end, too.
    let _ = bounded(stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}
