//! `serve --for marimo`: clients in pages that can send no credential.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::browser_clients::Socket;
use super::hub::Hub;
use super::push::SignedIn;
use crate::agent_program::Place;

const ORIGIN: &str = "http://localhost:2718";
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start(place: &Place, port: u16) -> Hub {
    let port = format!("demo={port}");
    Hub::start(place, &["demo", "--for", "marimo", "--fixed-port", &port, "--origin", ORIGIN])
}

fn open(port: u16, path: &str, host: &str, headers: &[(&str, &str)]) -> Socket {
    Socket::open_at(&format!("127.0.0.1:{port}"), host, path, headers)
}

/// Returns the questions that the page shows.
fn questions(page: &SignedIn, hub: &Hub) -> Value {
    let (status, body) = page.ask(hub, "GET /in/local-clients", &Value::Null);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["questions"].clone()
}

/// Waits for a question, and answers it.
fn answer(page: &SignedIn, hub: &Hub, allow: bool) {
    let until = Instant::now() + PATIENCE;
    let id = loop {
        let asked = questions(page, hub);
        if let Some(question) = asked.get(0) {
            assert_eq!((&question["origin"], &question["agent"]), (&json!(ORIGIN), &json!("demo")));
            break question["id"].clone();
        }
        assert!(Instant::now() < until, "{asked}");
        std::thread::park_timeout(Duration::from_millis(20));
    };
    assert_eq!(page.ask(hub, "POST /in/local-clients", &json!({"id": id, "allow": allow})).0, 204);
    assert_eq!(page.ask(hub, "POST /in/local-clients", &json!({"id": id, "allow": true})).0, 404, "once");
}

#[test]
fn a_page_without_a_credential_is_let_in_by_a_person_once() {
    let (place, port) = (Place::new(), free_port());
    let hub = start(&place, port);
    let host = format!("localhost:{port}");
    let page = SignedIn::by_token(&hub, &hub.token);
    assert_eq!(questions(&page, &hub), json!([]));
    let mut socket = open(port, "/message", &host, &[("Origin", ORIGIN)]);
    assert_eq!(socket.status(), 101, "{}", socket.head);
    // `initialize` is held until somebody has answered.
    socket.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}}}));
    answer(&page, &hub, true);
    assert_eq!(socket.receive()["result"]["protocolVersion"], 1);
    let session = socket.ask(2, "session/new", &json!({"cwd": place.work(), "mcpServers": []}));
    let session = session["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
    assert_eq!(socket.ask(3, "session/prompt", &prompt)["result"]["stopReason"], "end_turn");
    drop(socket);
    // The answer is remembered. The other path is the same.
    let mut again = open(port, "/", &format!("127.0.0.1:{port}"), &[("Origin", ORIGIN)]);
    again.initialize();
    // Its role is `use`: it controls its own sessions and sees no others.
    let listed = again.ask(2, "session/list", &json!({}));
    assert_eq!(listed["result"]["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
    let shown = place.run(&["sessions", "list", "--json", "--store", hub.store()]).json_lines();
    assert_eq!(shown[0]["id"], session);
}

#[test]
fn a_page_that_is_refused_stays_refused() {
    let (place, port) = (Place::new(), free_port());
    let hub = start(&place, port);
    let host = format!("localhost:{port}");
    let page = SignedIn::by_token(&hub, &hub.token);
    let view = place.run(&["tokens", "add", "eva", "--role", "use", "--all", "--store", hub.store()]);
    let eva = SignedIn::by_token(&hub, view.stdout.trim());
    let connect = || {
        let mut socket = open(port, "/message", &host, &[("Origin", ORIGIN)]);
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        socket.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
        socket
    };
    let mut socket = connect();
    let until = Instant::now() + PATIENCE;
    while questions(&page, &hub) == json!([]) {
        assert!(Instant::now() < until);
    }
    assert_eq!(questions(&eva, &hub), Value::Null, "only admins are asked");
    let forbidden = eva.ask(&hub, "POST /in/local-clients", &json!({"id": 1, "allow": true}));
    assert_eq!(forbidden.0, 403);
    answer(&page, &hub, false);
    assert!(socket.is_closed_with(1008));
    // The answer is remembered.
    assert!(connect().is_closed_with(1008));
}

#[test]
fn everything_else_is_refused_at_these_ports() {
    let (place, port) = (Place::new(), free_port());
    let hub = start(&place, port);
    let host = format!("localhost:{port}");
    for (host, headers, words) in [
        (&*host, vec![], "not listed"),
        (&host, vec![("Origin", "http://localhost:2719")], "not listed"),
        (&host, vec![("Origin", "http://evil.example")], "not listed"),
        (&host, vec![("Origin", "null")], "not listed"),
        ("evil.example", vec![("Origin", ORIGIN)], "names localhost"),
        (&format!("evil.example:{port}"), vec![("Origin", ORIGIN)], "names localhost"),
        ("localhost.evil.example", vec![("Origin", ORIGIN)], "names localhost"),
    ] {
        let socket = open(port, "/message", host, &headers);
        assert_eq!(socket.status(), 403, "{host} {headers:?}");
        assert!(socket.body().contains(words), "{host} {headers:?}");
    }
    // Not without a WebSocket, not at other paths, and not at the port of the hub itself.
    let plain = |path: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        std::io::Write::write_all(
            &mut stream,
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: {ORIGIN}\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
        std::io::read_to_string(stream).unwrap()
    };
    assert!(plain("/message").starts_with("HTTP/1.1 403 "));
    assert!(plain("/acp").starts_with("HTTP/1.1 404 ") && plain("/metrics").starts_with("HTTP/1.1 404 "));
    assert_eq!(Socket::open(&hub, "/acp/demo", &[("Origin", ORIGIN)]).status(), 401);
    assert_ne!(Socket::open(&hub, "/message", &[("Origin", ORIGIN)]).status(), 101);
}

#[test]
fn an_origin_must_be_listed_and_a_taken_port_is_a_warning() {
    let place = Place::new();
    let run = place.run(&["serve", "demo", "--listen", "127.0.0.1:0", "--for", "marimo"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--origin http://localhost:2718"), "{}", run.stderr);
    assert_eq!(place.run(&["serve", "demo", "--trust-local"]).code, 2);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let hub = start(&place, taken.local_addr().unwrap().port());
    assert!(hub.http("GET /health HTTP/1.1").starts_with("HTTP/1.1 200 "));
    // Without --for, the page does not ask.
    let plain = Hub::start_as(&place, "plain", &["demo"]);
    assert_eq!(questions(&SignedIn::by_token(&plain, &plain.token), &plain), Value::Null);
}
