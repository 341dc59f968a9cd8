//! A server whose program is the test, and clients that can violate the protocol.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};
use switchboard_transport::server::{
    Connections, Incoming, ListenerLimits, OutgoingLine, Refusal, ServerConnection, ServerLimits, Service,
    Tls, router, serve,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::bounded;

/// A connection handed to the program.
pub(crate) struct Opened {
    pub(crate) who: String,
    pub(crate) agent: Option<String>,
    pub(crate) connection: ServerConnection,
}

/// Accepts every token as an identity.
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
        Self::start_with(limits, ListenerLimits::default(), None).await
    }

    pub(crate) async fn start_with(
        limits: ServerLimits,
        listening: ListenerLimits,
        tls: Option<Tls>,
    ) -> Self {
        let (tell, opened) = mpsc::channel(1000);
        let (router, connections) = router(Arc::new(Door(tell)), limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { serve(&listener, &router, tls.as_ref(), listening).await });
        TestServer { address, connections, opened }
    }

    /// Returns the next connection handed to the program.
    pub(crate) async fn opened(&mut self) -> Opened {
        bounded(self.opened.recv()).await.unwrap()
    }

    /// Returns true if the program got no connection yet.
    pub(crate) fn is_unopened(&mut self) -> bool {
        self.opened.try_recv().is_err()
    }

    /// Sends a request over HTTP/1.1.
    pub(crate) async fn request(&self, what: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut head = format!("{what} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        write!(head, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        Answer::of(&exchange(self.address, head.as_bytes()).await)
    }

    /// Posts a message of a client on a connection.
    pub(crate) async fn post(&self, who: &str, connection: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {who}");
        let headers = [
            ("authorization", &*bearer),
            ("content-type", "application/json"),
            ("acp-connection-id", connection),
        ];
        self.request("POST /acp", &headers[..if connection.is_empty() { 2 } else { 3 }], body).await
    }

    /// Opens a connection of a client over HTTP.
    pub(crate) async fn open_http(&mut self, who: &str) -> ServerConnection {
        let (begun, program) = (initialize(1), self.opened.recv());
        let program = async {
            let mut connection = bounded(program).await.unwrap().connection;
            assert_eq!(message(&mut connection).await["method"], "initialize");
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 2}});
            connection.outgoing.send(OutgoingLine::new(answer.to_string()));
            connection
        };
        // The borrow of the queue of opened connections lasts until the program has one.
        let address = self.address;
        let client = async move {
            let headers = format!("authorization: Bearer {who}\r\ncontent-type: application/json\r\n");
            let length = begun.len();
            let sent = format!(
                "POST /acp HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{begun}"
            );
            Answer::of(&exchange(address, sent.as_bytes()).await)
        };
        let (connection, answer) = tokio::join!(program, client);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("acp-connection-id"), Some(&*connection.id));
        assert_eq!(answer.json()["result"]["protocolVersion"], 2);
        connection
    }

    /// Opens a stream of events.
    pub(crate) async fn events(&self, headers: &[(&str, &str)]) -> Result<EventStream, Answer> {
        let mut head = "GET /acp HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n".to_owned();
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        let mut stream = BufReader::new(TcpStream::connect(self.address).await.unwrap());
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with("\r\n\r\n") {
            assert!(bounded(stream.read_line(&mut answer)).await.unwrap() > 0, "{answer}");
        }
        let answer = Answer::of(&answer);
        if answer.status != 200 {
            return Err(answer);
        }
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        Ok(EventStream { stream, text: String::new() })
    }

    /// Opens the stream of a session, or of the connection.
    pub(crate) async fn stream(
        &self,
        id: &str,
        session: Option<&str>,
        last: Option<&str>,
    ) -> Result<EventStream, Answer> {
        let mut headers = vec![("authorization", "Bearer owner"), ("acp-connection-id", id)];
        headers.extend(session.map(|session| ("acp-session-id", session)));
        headers.extend(last.map(|last| ("last-event-id", last)));
        self.events(&headers).await
    }

    /// Opens a WebSocket.
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

    /// Opens a WebSocket of a client, with its connection.
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

    /// Returns the next message.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            match bounded(self.stream.next()).await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("no message: {other:?}"),
            }
        }
    }

    /// Returns the close code and reason.
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

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no answer: {text:?}"));
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Events as they arrive.
pub(crate) struct EventStream {
    stream: BufReader<TcpStream>,
    text: String,
}

impl EventStream {
    /// Returns the next event or comment as text, or `None` at the end.
    pub(crate) async fn raw(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = event.to_owned();
                self.text = rest.to_owned();
                return Some(event);
            }
            let mut length = String::new();
            bounded(self.stream.read_line(&mut length)).await.unwrap();
            let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; length + 2];
            bounded(self.stream.read_exact(&mut chunk)).await.ok()?;
            if length == 0 {
                return None;
            }
            self.text.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
        }
    }

    /// Returns the next message with its cursor.
    pub(crate) async fn next(&mut self) -> (Value, Option<String>) {
        loop {
            let event = self.raw().await.expect("the stream goes on");
            let field =
                |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            if let Some(data) = field("data: ") {
                return (serde_json::from_str(&data).unwrap(), field("id: "));
            }
        }
    }
}

pub(crate) fn initialize(id: i64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {"protocolVersion": 2}}).to_string()
}

/// Returns the next message of a client.
pub(crate) async fn message(connection: &mut ServerConnection) -> Value {
    match bounded(connection.incoming.recv()).await {
        Some(Incoming::Message(text)) => serde_json::from_str(&text).unwrap(),
        other => panic!("no message: {other:?}"),
    }
}

/// Creates a line on a stream, with a cursor.
pub(crate) fn line(number: i64, stream: Option<&str>, cursor: Option<&str>) -> OutgoingLine {
    let mut line = OutgoingLine::new(json!({"jsonrpc": "2.0", "method": "n", "params": number}).to_string());
    line.stream = stream.map(Into::into);
    line.cursor = cursor.map(Into::into);
    line
}

/// Sends bytes and returns everything until the peer closes the connection.
pub(crate) async fn exchange(address: SocketAddr, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answer = Vec::new();
    // A reset due to unread bytes is an end too.
    let _ = bounded(stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Waits until no connection is left.
pub(crate) async fn until_empty(server: &TestServer) {
    bounded(async {
        while server.connections.count() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
