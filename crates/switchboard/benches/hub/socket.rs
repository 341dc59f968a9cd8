//! A WebSocket for a thousand clients in one process, whose own work must not be what is measured: frames are looked at
//! where they were read.

use std::io::{self, ErrorKind};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What is read at once.
const PORTION: usize = 8 << 10;

pub(crate) struct Socket {
    stream: TcpStream,
    /// What has come and was not looked at.
    bytes: Vec<u8>,
    last: u64,
}

impl Socket {
    /// Connects, and introduces a client of version 2.
    pub(crate) async fn open(address: &str, token: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let head = format!(
            "GET /acp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        let mut socket = Socket { stream, bytes: Vec::new(), last: 0 };
        let info = json!({"name": "bench", "version": "1"});
        socket.ask("initialize", json!({"protocolVersion": 2, "info": info, "capabilities": {}})).await;
        socket
    }

    /// Opens a session, and gives its id.
    pub(crate) async fn new_session(&mut self, folder: &str) -> String {
        let answer = self.ask("session/new", json!({"cwd": folder, "mcpServers": []})).await;
        answer["sessionId"].as_str().unwrap().to_owned()
    }

    /// Looks at a session from now on.
    pub(crate) async fn attach(&mut self, session: &str, folder: &str) {
        self.ask("session/resume", json!({"sessionId": session, "cwd": folder})).await;
    }

    /// Looks at a session no longer.
    pub(crate) async fn detach(&mut self, session: &str) {
        self.ask("session/detach", json!({"sessionId": session})).await;
    }

    pub(crate) async fn prompt(&mut self, session: &str, text: &str) {
        let prompt = json!([{"type": "text", "text": text}]);
        self.ask("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
    }

    /// Asks, and gives the result. What comes before it is not looked at.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        self.send(0x81, message.as_bytes()).await;
        let mut result = None;
        while result.is_none() {
            let is_open = self
                .read(|text| {
                    let message: Value = serde_json::from_slice(text).unwrap();
                    if message["id"] == id && message.get("method").is_none() {
                        assert!(message.get("error").is_none(), "{method}: {message}");
                        result = Some(message["result"].clone());
                    }
                })
                .await;
            assert!(is_open, "the hub has closed the connection before it answered {method}");
        }
        result.unwrap()
    }

    /// Clients must mask what they send; the mask here changes nothing.
    async fn send(&mut self, kind: u8, payload: &[u8]) {
        let length = payload.len();
        let mut frame = match u8::try_from(length).ok().filter(|length| *length < 126) {
            Some(length) => vec![kind, 0x80 | length],
            None => [&[kind, 0x80 | 126], &u16::try_from(length).unwrap().to_be_bytes()[..]].concat(),
        };
        frame.extend([0; 4]);
        frame.extend(payload);
        self.stream.write_all(&frame).await.unwrap();
    }

    /// Waits for something, and shows every message that has come. Says whether there may be more.
    pub(crate) async fn read(&mut self, mut see: impl FnMut(&[u8])) -> bool {
        self.stream.readable().await.unwrap();
        self.bytes.reserve(PORTION);
        match self.stream.try_read_buf(&mut self.bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return false,
            Err(error) => panic!("{error}"),
        }
        let (mut seen, mut pings, mut is_open) = (0, 0, true);
        while let Some((kind, payload)) = frame(&self.bytes[seen..]).unwrap() {
            let (from, to) = (seen + payload.start, seen + payload.end);
            match kind {
                0x1 => see(&self.bytes[from..to]),
                0x8 => is_open = false,
                0x9 => pings += 1,
                _ => {}
            }
            seen = to;
        }
        self.bytes.drain(..seen);
        for _ in 0..pings {
            self.send(0x8a, b"").await;
        }
        is_open
    }
}

/// The first frame: what kind, and where its payload is. `None` if it is not there as a whole.
fn frame(bytes: &[u8]) -> io::Result<Option<(u8, std::ops::Range<usize>)>> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & 0x80 == 0 {
        return Err(io::Error::other("a message in several frames is longer than anything here"));
    }
    let (start, length) = match (second, rest) {
        (126, [high, low, ..]) => (4, usize::from(u16::from_be_bytes([*high, *low]))),
        (126 | 127, _) => return Ok(None),
        (length, _) => (2, usize::from(*length)),
    };
    Ok((bytes.len() >= start + length).then_some((first & 0xf, start..start + length)))
}
