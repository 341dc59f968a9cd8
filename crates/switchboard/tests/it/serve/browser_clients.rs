//! Clients in pages of other servers: listed origins and the credentials that browsers can send. The sockets are
//! written by hand, as the clients of these pages do: binary frames, and no header but those of the browser.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::hub::Hub;
use crate::agent_program::Place;

const ORIGIN: &str = "http://localhost:2718";
const PATIENCE: Duration = Duration::from_secs(60);

/// A WebSocket of a page.
pub(crate) struct Socket {
    stream: TcpStream,
    /// The head of the response.
    pub(crate) head: String,
}

impl Socket {
    pub(crate) fn open(hub: &Hub, path: &str, headers: &[(&str, &str)]) -> Self {
        Socket::open_at(&hub.address, &hub.address, path, headers)
    }

    /// The same with another address and name of the server.
    pub(crate) fn open_at(address: &str, host: &str, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        write!(stream, "{head}\r\n").unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        Socket { stream, head: String::from_utf8(head).unwrap() }
    }

    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Returns the body of a refusal.
    pub(crate) fn body(mut self) -> String {
        let head = self.head.to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
        let mut body = vec![0; length.trim().parse().unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }

    /// Sends a message in a binary frame with a line end.
    pub(crate) fn send(&mut self, message: &Value) {
        let text = format!("{message}\n");
        let mut frame = vec![0x82];
        let length = u16::try_from(text.len()).unwrap();
        match u8::try_from(length) {
            Ok(length @ 0..=125) => frame.push(0x80 | length),
            _ => {
                frame.push(0x80 | 126);
                frame.extend(length.to_be_bytes());
            }
        }
        // A mask of zeros leaves the text as it is.
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.stream.write_all(&frame).unwrap();
    }

    /// Returns the next text.
    pub(crate) fn receive(&mut self) -> Value {
        let mut text = Vec::new();
        loop {
            let mut start = [0; 2];
            self.stream.read_exact(&mut start).unwrap();
            let length = match start[1] {
                126 => {
                    let mut length = [0; 2];
                    self.stream.read_exact(&mut length).unwrap();
                    usize::from(u16::from_be_bytes(length))
                }
                length => usize::from(length),
            };
            let mut part = vec![0; length];
            self.stream.read_exact(&mut part).unwrap();
            match start[0] & 0x0f {
                0 | 1 => text.extend(part),
                // A ping.
                9 => continue,
                other => panic!("opcode {other}: {}", String::from_utf8_lossy(&part)),
            }
            if start[0] & 0x80 != 0 {
                return serde_json::from_slice(&text).unwrap();
            }
        }
    }

    /// Sends a request and returns the response.
    pub(crate) fn ask(&mut self, id: i64, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.receive();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Returns whether the next frame closes the socket with a code.
    pub(crate) fn is_closed_with(&mut self, code: u16) -> bool {
        let mut frame = [0; 4];
        self.stream.read_exact(&mut frame).is_ok()
            && (frame[0] & 0x0f, u16::from_be_bytes([frame[2], frame[3]])) == (8, code)
    }

    pub(crate) fn initialize(&mut self) {
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let answer = self.ask(1, "initialize", &params);
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
    }
}

fn from(origin: &str) -> (&str, &str) {
    ("Origin", origin)
}

fn token(place: &Place, hub: &Hub, arguments: &[&str]) -> String {
    let run = place.run(&[&["tokens", "add"], arguments, &["--store", hub.store()]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.trim().to_owned()
}

/// Requests a ticket. Returns the whole response, and the JSON of its body.
fn ticket(hub: &Hub, token: &str, body: &Value) -> (String, Value) {
    let body = body.to_string();
    let head = format!(
        "POST /ticket HTTP/1.1\nAuthorization: Bearer {token}\nContent-Type: application/json\nContent-Length: {}",
        body.len()
    );
    let mut stream = TcpStream::connect(&hub.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = head.replace('\n', "\r\n");
    write!(stream, "{head}\r\nHost: {}\r\nConnection: close\r\n\r\n{body}", hub.address).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let json = answer.split("\r\n\r\n").nth(1).and_then(|body| serde_json::from_str(body).ok());
    (answer, json.unwrap_or_default())
}

#[test]
fn a_listed_origin_needs_a_credential_and_others_stay_refused() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo", "--origin", ORIGIN]);
    let bearer = format!("acp, bearer.{}", hub.token);
    for (headers, status) in [
        (vec![from(ORIGIN)], 401),
        (vec![from("http://localhost:2719"), ("Sec-WebSocket-Protocol", &*bearer)], 403),
        (vec![from("https://localhost:2718"), ("Sec-WebSocket-Protocol", &bearer)], 403),
        (vec![from("null"), ("Sec-WebSocket-Protocol", &bearer)], 403),
        (vec![from(ORIGIN), ("Sec-WebSocket-Protocol", &bearer)], 101),
        (vec![("Sec-WebSocket-Protocol", &bearer)], 101),
        (vec![from(ORIGIN), ("Sec-WebSocket-Protocol", "acp, bearer.sb_wrong")], 401),
        (vec![from(ORIGIN), ("Sec-WebSocket-Protocol", "acp")], 401),
    ] {
        let socket = Socket::open(&hub, "/acp", &headers);
        assert_eq!(socket.status(), status, "{headers:?}");
        assert!(!socket.head.contains(&hub.token), "{}", socket.head);
        if status == 101 {
            assert!(
                socket.head.to_lowercase().contains("sec-websocket-protocol: acp\r\n"),
                "{}",
                socket.head
            );
        }
    }
    let alone = format!("bearer.{}", hub.token);
    let socket = Socket::open(&hub, "/acp", &[from(ORIGIN), ("Sec-WebSocket-Protocol", &alone)]);
    assert_eq!(socket.status(), 400);
    assert!(socket.body().contains("offer the subprotocol acp"));
    // Without a listed origin nothing has changed.
    let plain = Hub::start_as(&place, "plain", &["demo"]);
    let bearer = format!("acp, bearer.{}", plain.token);
    let socket = Socket::open(&plain, "/acp", &[from(ORIGIN), ("Sec-WebSocket-Protocol", &bearer)]);
    assert_eq!(socket.status(), 403);
    let mut socket = Socket::open(
        &hub,
        "/acp",
        &[from(ORIGIN), ("Sec-WebSocket-Protocol", &format!("acp, bearer.{}", hub.token))],
    );
    socket.initialize();
}

#[test]
fn a_ticket_lets_one_connection_in_with_at_most_the_role_of_its_owner() {
    let place = Place::new();
    place.write(
        "home/.config/switchboard/config.json",
        &json!({"hub": {"origins": [ORIGIN, "http://localhost:9999"]}, "agent_servers": {
            "other": {"command": env!("CARGO_BIN_EXE_switchboard"), "args": ["demo-agent"]}}})
        .to_string(),
    );
    let hub = Hub::start(&place, &["demo", "other"]);
    let anna = token(&place, &hub, &["anna", "--role", "use"]);
    let wish = json!({"agent": "demo", "origin": ORIGIN, "role": "view"});
    let (answer, json) = ticket(&hub, &anna, &wish);
    assert_eq!(json["expires_in"], 60, "{answer}");
    assert!(answer.to_lowercase().contains("referrer-policy: no-referrer"), "{answer}");
    let text = json["ticket"].as_str().unwrap();
    assert_eq!(json["url"], format!("ws://{}/acp/demo?ticket={text}", hub.address));
    let path = format!("/acp/demo?ticket={text}");
    let mut socket = Socket::open(&hub, &path, &[from(ORIGIN)]);
    assert_eq!(socket.status(), 101);
    socket.initialize();
    let refused = socket.ask(2, "session/new", &json!({"cwd": place.work(), "mcpServers": []}));
    assert_eq!(refused["error"]["code"], -32004, "the ticket may only view: {refused}");
    // Another client's token changes, after which the rights are read again.
    token(&place, &hub, &["ben", "--role", "view"]);
    let refused = socket.ask(3, "session/new", &json!({"cwd": place.work(), "mcpServers": []}));
    assert_eq!(refused["error"]["code"], -32004, "{refused}");

    let fresh = || ticket(&hub, &anna, &wish).1["ticket"].as_str().unwrap().to_owned();
    let mut words = Vec::new();
    for (path, origin) in [
        (path.clone(), ORIGIN),
        (format!("/acp/demo?ticket={}", fresh()), "http://localhost:9999"),
        (format!("/acp/other?ticket={}", fresh()), ORIGIN),
        ("/acp/demo?ticket=nonsense".to_owned(), ORIGIN),
    ] {
        let socket = Socket::open(&hub, &path, &[from(origin)]);
        assert_eq!(socket.status(), 401, "{path}");
        words.push(socket.body());
    }
    words.dedup();
    assert_eq!(words.len(), 1, "the reason is not told: {words:?}");
    for (wish, status) in [
        (json!({"agent": "demo", "origin": "http://localhost:1"}), "403"),
        (json!({"agent": "nobody", "origin": ORIGIN}), "404"),
        (json!({"agent": "demo"}), "400"),
        (json!({"agent": "demo", "origin": ORIGIN, "role": "root"}), "400"),
        (json!("x".repeat(5000)), "400"),
    ] {
        let (answer, _) = ticket(&hub, &anna, &wish);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{wish}: {answer}");
    }
    assert!(ticket(&hub, "sb_wrong", &wish).0.starts_with("HTTP/1.1 401 "));
}

#[test]
fn only_a_token_of_an_origin_may_be_in_an_address() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo", "--origin", ORIGIN, "--origin", "http://localhost:9999"]);
    let arguments = ["marimo", "--origin", ORIGIN, "--agent", "demo", "--expires", "12h"];
    let browser = token(&place, &hub, &arguments);
    let ordinary = token(&place, &hub, &["anna", "--role", "use"]);
    let path = format!("/acp/demo?token={browser}");
    // The clients reconnect to the same address.
    for _ in 0..2 {
        let mut socket = Socket::open(&hub, &path, &[from(ORIGIN)]);
        assert_eq!(socket.status(), 101, "{}", socket.head);
        socket.initialize();
        let session = socket.ask(2, "session/new", &json!({"cwd": place.work(), "mcpServers": []}));
        assert!(session["result"]["sessionId"].is_string(), "{session}");
    }
    for (path, headers) in [
        (path.clone(), vec![from("http://localhost:9999")]),
        (path.clone(), vec![]),
        (format!("/acp?token={browser}"), vec![from(ORIGIN)]),
        (format!("/acp/demo?token={ordinary}"), vec![from(ORIGIN)]),
        (format!("/acp/demo?token={}", hub.token), vec![from(ORIGIN)]),
        (format!("/acp/demo?token={browser}&token={browser}"), vec![from(ORIGIN)]),
    ] {
        let socket = Socket::open(&hub, &path, &headers);
        assert_eq!(socket.status(), 401, "{path} {headers:?}");
        assert!(!socket.body().contains("sb_"), "a refusal does not repeat the token");
    }
    // It is no token for anything else.
    let head = format!("GET /metrics HTTP/1.1\nAuthorization: Bearer {browser}");
    assert!(hub.http(&head).starts_with("HTTP/1.1 401 "));
    let sign_in = format!("POST /in/token HTTP/1.1\nAuthorization: Bearer {browser}\nContent-Length: 0");
    assert!(!hub.http(&sign_in).starts_with("HTTP/1.1 2"));
    let listed = place.run(&["tokens", "list", "--json", "--store", hub.store()]);
    assert!(listed.stdout.contains(&format!("\"origin\":\"{ORIGIN}\"")), "{}", listed.stdout);
    let revoked = place.run(&["tokens", "revoke", "marimo", "--store", hub.store()]);
    assert_eq!(revoked.code, 0);
    assert_eq!(Socket::open(&hub, &path, &[from(ORIGIN)]).status(), 401);
    for wrong in [
        vec!["x", "--origin", "null", "--agent", "demo", "--expires", "1h"],
        vec!["x", "--origin", ORIGIN],
        vec!["x", "--role", "admin", "--origin", ORIGIN, "--agent", "demo", "--expires", "1h"],
    ] {
        let run = place.run(&[&["tokens", "add"], &wrong[..], &["--store", hub.store()]].concat());
        assert_eq!(run.code, 2, "{wrong:?}: {}", run.stderr);
    }
}

#[test]
fn a_connection_ends_with_its_token() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo", "--origin", ORIGIN]);
    let arguments = ["marimo", "--origin", ORIGIN, "--agent", "demo", "--expires", "5s"];
    let browser = token(&place, &hub, &arguments);
    let mut socket = Socket::open(&hub, &format!("/acp/demo?token={browser}"), &[from(ORIGIN)]);
    assert_eq!(socket.status(), 101, "{}", socket.head);
    socket.initialize();
    // The close frame: opcode 8 and the code 4401.
    let mut frame = [0; 4];
    socket.stream.read_exact(&mut frame).unwrap();
    assert_eq!((frame[0] & 0x0f, u16::from_be_bytes([frame[2], frame[3]])), (8, 4401));
}

#[test]
fn preflights_of_listed_origins_are_answered_without_a_token() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo", "--origin", ORIGIN]);
    let preflight = |origin: &str| {
        let head = format!(
            "OPTIONS /acp HTTP/1.1\nOrigin: {origin}\nAccess-Control-Request-Method: POST\n\
             Access-Control-Request-Headers: authorization"
        );
        hub.http(&head).to_lowercase()
    };
    let answer = preflight(ORIGIN);
    assert!(answer.starts_with("http/1.1 204 "), "{answer}");
    for header in [
        "access-control-allow-origin: http://localhost:2718\r\n",
        "access-control-allow-headers: authorization, content-type, acp-connection-id, acp-session-id, last-event-id\r\n",
        "access-control-expose-headers: acp-connection-id, acp-session-id\r\n",
        "vary: origin\r\n",
    ] {
        assert!(answer.contains(header), "{header}: {answer}");
    }
    assert!(!answer.contains("access-control-allow-credentials"), "{answer}");
    let answer = preflight("http://localhost:2719");
    assert!(answer.starts_with("http/1.1 403 ") && !answer.contains("access-control-"), "{answer}");
    // A listed origin is not let in by that.
    let answer = hub.http(&format!("GET /acp HTTP/1.1\nOrigin: {ORIGIN}")).to_lowercase();
    assert!(answer.starts_with("http/1.1 401 "), "{answer}");
    assert!(answer.contains("access-control-allow-origin: http://localhost:2718\r\n"), "{answer}");
}

#[test]
fn credentials_in_addresses_are_never_logged() {
    let place = Place::new();
    let log = place.home().join("log");
    let mut command = place.command(&["serve"]);
    command.stderr(std::fs::File::create(&log).unwrap());
    command.args(["--listen", "127.0.0.1:0", "--origin", ORIGIN, "--token-file"]);
    command.arg(place.home().join("token")).arg("--store").arg(place.home().join("hub.sqlite3")).arg("demo");
    let hub = Hub::of(command, &place);
    let arguments = ["marimo", "--origin", ORIGIN, "--agent", "demo", "--expires", "12h"];
    let browser = token(&place, &hub, &arguments);
    let wish = json!({"agent": "demo", "origin": ORIGIN});
    let one_time = ticket(&hub, &hub.token, &wish).1["ticket"].as_str().unwrap().to_owned();
    for (path, origin, status) in [
        (format!("/acp/demo?token={browser}"), ORIGIN, 101),
        (format!("/acp/demo?token={browser}"), "http://localhost:2719", 403),
        (format!("/acp?token={browser}"), ORIGIN, 401),
        (format!("/acp/demo?token={}", hub.token), ORIGIN, 401),
        (format!("/acp/demo?ticket={one_time}"), ORIGIN, 101),
        (format!("/acp/demo?ticket={one_time}"), ORIGIN, 401),
    ] {
        assert_eq!(Socket::open(&hub, &path, &[from(origin)]).status(), status, "{path}");
    }
    let metrics = hub.http(&format!("GET /metrics HTTP/1.1\nAuthorization: Bearer {}", hub.token));
    let secrets = [browser, one_time, hub.token.clone()];
    assert_eq!(hub.end(), Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("refused 127.0.0.1: "), "{log}");
    for secret in secrets {
        assert!(!log.contains(&secret) && !metrics.contains(&secret), "{log}");
    }
}
