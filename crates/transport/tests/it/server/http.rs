//! Streamable HTTP.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_transport::server::{
    Incoming, OutgoingLine, Refusal, ResumeReply, ServerConnection, ServerLimits,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::{TestServer, initialize, line, message, until_empty};
use crate::support::bounded;

const OWNER: (&str, &str) = ("authorization", "Bearer owner");
const JSON: (&str, &str) = ("content-type", "application/json");
const EVENTS: (&str, &str) = ("accept", "text/event-stream");

type Headers<'a> = &'a [(&'a str, &'a str)];

fn request(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
}

#[tokio::test]
async fn messages_are_posted_and_lines_come_over_their_streams() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let mut connection = server.open_http("owner").await;
    let mut main = server.stream(&connection.id, None, None).await.unwrap();
    let mut session = server.stream(&connection.id, Some("s-1"), None).await.unwrap();
    let posted = server.post("owner", &connection.id, &request("session/list", &json!({}))).await;
    assert_eq!((posted.status, &*posted.body), (202, ""));
    assert_eq!(message(&mut connection).await["method"], "session/list");
    connection.outgoing.send(line(1, None, None));
    connection.outgoing.send(line(2, Some("s-1"), Some("s-1.2")));
    connection.outgoing.send(line(3, Some("s-2"), Some("s-2.1")));
    assert_eq!(main.next().await.0["params"], 1);
    let (told, cursor) = session.next().await;
    assert_eq!((&told["params"], cursor.as_deref()), (&json!(2), Some("s-1.2")));
    // A stream without a reader has kept its messages.
    let mut late = server.stream(&connection.id, Some("s-2"), None).await.unwrap();
    assert_eq!(late.next().await.0["params"], 3);
    // A message that spans several lines is one message.
    connection.outgoing.send(OutgoingLine::new("{\n\"params\":\r\n4}"));
    let event = main.raw().await.unwrap();
    assert_eq!(event, "data: {\ndata: \"params\":\ndata: 4}");
}

/// Every kind of invalid request, with its status.
#[tokio::test]
async fn requests_that_are_wrong_are_refused_with_their_status() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let mut connection = server.open_http("owner").await;
    let id = ("acp-connection-id", &*connection.id.clone());
    let session = ("acp-session-id", "s-1");
    let prompt = request("session/prompt", &json!({"sessionId": "s-1"}));
    let bare = request("session/prompt", &json!({}));
    let list = request("session/list", &json!({}));
    let other = ("authorization", "Bearer other");
    let cases: &[(&str, Headers<'_>, &str, u16)] = &[
        // Authentication comes first, regardless of the request.
        ("POST /acp", &[JSON], &list, 401),
        ("POST /acp/unknown", &[], "{", 401),
        ("POST /acp", &[("authorization", "Bearer guess")], "", 429),
        ("POST /acp/unknown", &[OWNER, JSON], &initialize(1), 404),
        ("GET /acp/unknown", &[OWNER, EVENTS, id], "", 404),
        ("POST /acp", &[OWNER, id], &list, 415),
        ("POST /acp", &[OWNER, id, ("content-type", "text/plain")], &list, 415),
        ("POST /acp", &[OWNER, id, ("content-type", "Application/JSON; charset=utf-8")], &list, 202),
        ("POST /acp", &[OWNER, JSON], &list, 400),
        ("POST /acp", &[OWNER, JSON, ("acp-connection-id", "unknown")], &list, 404),
        // A connection of another client, and of another agent.
        ("POST /acp", &[other, JSON, id], &list, 404),
        ("POST /acp/known", &[OWNER, JSON, id], &list, 404),
        ("GET /acp", &[other, EVENTS, id], "", 404),
        ("DELETE /acp", &[other, id], "", 404),
        ("POST /acp", &[OWNER, JSON, id], &bare, 400),
        ("POST /acp", &[OWNER, JSON, id, session], &bare, 202),
        ("POST /acp", &[OWNER, JSON, id], &prompt, 202),
        ("POST /acp", &[OWNER, JSON, id, session], &prompt, 202),
        ("POST /acp", &[OWNER, JSON, id, ("acp-session-id", "s-2")], &prompt, 400),
        (
            "POST /acp",
            &[OWNER, JSON, id, ("acp-session-id", "s-2")],
            r#"{"method":"$/cancel_request","params":{"sessionId":"s-1"}}"#,
            202,
        ),
        ("POST /acp", &[OWNER, JSON, id], r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 202),
        ("POST /acp", &[OWNER, JSON, id], "{", 400),
        ("POST /acp", &[OWNER, JSON, id], "[]", 400),
        ("POST /acp", &[OWNER, JSON, id], "\"x\"", 400),
        ("POST /acp", &[OWNER, JSON], "{", 400),
        ("GET /acp", &[OWNER, id], "", 406),
        ("GET /acp", &[OWNER, id, ("accept", "application/json")], "", 406),
        ("GET /acp", &[OWNER, EVENTS], "", 400),
        ("GET /acp", &[OWNER, EVENTS, ("acp-connection-id", "unknown")], "", 404),
        ("GET /acp", &[OWNER, EVENTS, id, ("acp-session-id", "")], "", 400),
        ("GET /acp", &[OWNER, EVENTS, id, ("acp-session-id", &"x".repeat(1025))], "", 400),
        ("DELETE /acp", &[OWNER], "", 400),
        ("PUT /acp", &[OWNER, id], "", 405),
        ("OPTIONS /acp", &[OWNER], "", 405),
        // An impossible WebSocket upgrade.
        ("GET /acp", &[OWNER, ("upgrade", "websocket"), ("sec-websocket-version", "8")], "", 426),
        ("GET /acp", &[OWNER, ("upgrade", "websocket"), ("sec-websocket-version", "13")], "", 400),
        ("GET /acp", &[("upgrade", "websocket")], "", 401),
        ("GET /acp/unknown", &[OWNER, ("upgrade", "websocket")], "", 404),
    ];
    for (what, headers, body, status) in cases {
        // Accepted messages must not fill the queue.
        let answer = tokio::select! {
            answer = server.request(what, headers, body) => answer,
            never = async { loop { message(&mut connection).await; } } => never,
        };
        assert_eq!(answer.status, *status, "{what} {headers:?} {body}: {answer:?}");
        assert!(*status == 202 || !answer.body.is_empty(), "{what}: says nothing");
    }
    // An invalid message is answered with a message, as on a WebSocket.
    for (sent, code) in [("{", -32700), ("[{}]", -32600), ("7", -32600)] {
        let answer = server.post("owner", &connection.id, sent).await.json();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&code.into(), &Value::Null));
    }
    let refused = server.request("POST /acp", &[("authorization", "Bearer guess")], "").await;
    assert_eq!(refused.header("retry-after"), Some("60"));
    let refused = server.request("POST /acp", &[], "").await;
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert_eq!(server.connections.count(), 1);
}

#[tokio::test]
async fn an_error_to_initialize_is_the_answer_and_no_connection() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no"}}"#;
    let TestServer { address, .. } = server;
    let posting = tokio::spawn(async move {
        let body = initialize(1);
        let head = "POST /acp HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer owner\r\ncontent-type: application/json";
        let sent = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        super::support::exchange(address, sent.as_bytes()).await
    });
    let mut opened = server.opened().await;
    // Another message is not mistaken for the response.
    opened.connection.outgoing.send(line(1, None, None));
    opened.connection.outgoing.send(OutgoingLine::new(error));
    let answer = bounded(posting).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(error), "{answer}");
    assert!(!answer.contains("acp-connection-id"), "{answer}");
    assert_eq!(message(&mut opened.connection).await["id"], 1);
    assert!(bounded(opened.connection.incoming.recv()).await.is_none());
}

#[tokio::test]
async fn a_client_that_gives_up_before_it_is_answered_leaves_nothing() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let body = initialize(1);
    let head =
        "POST /acp HTTP/1.1\r\nhost: x\r\nauthorization: Bearer owner\r\ncontent-type: application/json";
    let sent = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut opened = server.opened().await;
    drop(stream);
    assert_eq!(message(&mut opened.connection).await["id"], 1);
    assert!(bounded(opened.connection.incoming.recv()).await.is_none());
}

#[tokio::test]
async fn a_stream_has_one_reader_and_is_taken_over_from_a_place_on() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let mut connection = server.open_http("owner").await;
    let id = Arc::clone(&connection.id);
    let mut first = server.stream(&id, Some("s"), None).await.unwrap();
    connection.outgoing.send(line(1, Some("s"), Some("s.1")));
    assert_eq!(first.next().await.0["params"], 1);
    assert_eq!(server.stream(&id, Some("s"), None).await.err().unwrap().status, 409);

    // Refused: the current reader continues and misses nothing.
    let refuse = async {
        let (cursor, reply) = resumed(&mut connection, "s").await;
        assert_eq!(cursor, "t.9");
        connection.outgoing.send(line(2, Some("s"), Some("s.2")));
        reply.send(Err(Refusal::new(http::StatusCode::CONFLICT, "of another session")));
    };
    let (asked, ()) = tokio::join!(server.stream(&id, Some("s"), Some("t.9")), refuse);
    assert_eq!(asked.err().unwrap().status, 409);
    assert_eq!(first.next().await.0["params"], 2);

    // Accepted: the current reader ends.
    let grant = async {
        let (cursor, reply) = resumed(&mut connection, "s").await;
        assert_eq!(cursor, "s.1");
        reply.send(Ok(()));
        connection.outgoing.send(line(3, Some("s"), Some("s.2")));
    };
    let (asked, ()) = tokio::join!(server.stream(&id, Some("s"), Some("s.1")), grant);
    let mut second = asked.unwrap();
    assert_eq!(first.raw().await, None);
    assert_eq!(second.next().await.0["params"], 3);

    // Queued lines with a cursor are replayed by the program; those without stay queued.
    connection.outgoing.send(line(4, Some("unread"), Some("unread.1")));
    connection.outgoing.send(line(5, Some("unread"), None));
    let grant = async {
        let (_, reply) = resumed(&mut connection, "unread").await;
        reply.send(Ok(()));
        connection.outgoing.send(line(6, Some("unread"), Some("unread.1")));
    };
    let (asked, ()) = tokio::join!(server.stream(&id, Some("unread"), Some("unread.0")), grant);
    let mut unread = asked.unwrap();
    assert_eq!(unread.next().await.0["params"], 5);
    assert_eq!(unread.next().await.0["params"], 6);

    // The connection's own stream, which has no cursors, is taken over as well.
    let mut old = server.stream(&id, None, None).await.unwrap();
    let mut new = server.stream(&id, None, Some("anything")).await.unwrap();
    assert_eq!(old.raw().await, None);
    connection.outgoing.send(line(7, None, None));
    assert_eq!(new.next().await.0["params"], 7);
}

/// Returns the next resume request of the program.
async fn resumed(connection: &mut ServerConnection, expected: &str) -> (String, ResumeReply) {
    match bounded(connection.incoming.recv()).await {
        Some(Incoming::Resume(request)) if request.session == expected => (request.cursor, request.reply),
        other => panic!("not asked: {other:?}"),
    }
}

#[tokio::test]
async fn delete_ends_the_connection_and_its_streams() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let mut connection = server.open_http("owner").await;
    let mut main = server.stream(&connection.id, None, None).await.unwrap();
    let headers = [OWNER, ("acp-connection-id", &*connection.id)];
    assert_eq!(server.request("DELETE /acp", &headers, "").await.status, 202);
    assert_eq!(main.raw().await, None);
    assert!(bounded(connection.incoming.recv()).await.is_none());
    assert!(connection.outgoing.is_closed());
    assert_eq!(server.request("DELETE /acp", &headers, "").await.status, 404);
    assert_eq!(server.post("owner", &connection.id, &request("session/list", &json!({}))).await.status, 404);
}

#[tokio::test]
async fn a_body_that_is_too_long_or_too_slow_is_refused() {
    let mut limits = ServerLimits::default();
    limits.message = 100_000;
    let mut server = TestServer::start(limits).await;
    let mut connection = server.open_http("owner").await;
    let fits = json!({"x": "y".repeat(99_992)}).to_string();
    assert_eq!(fits.len(), 100_000);
    assert_eq!(server.post("owner", &connection.id, &fits).await.status, 202);
    assert_eq!(message(&mut connection).await["x"].as_str().map(str::len), Some(99_992));
    assert_eq!(server.post("owner", &connection.id, &format!("{fits} ")).await.status, 413);
    // Also with chunked encoding, without a length.
    let head = format!(
        "POST /acp HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer owner\r\ncontent-type: application/json\r\nacp-connection-id: {}\r\n",
        connection.id
    );
    let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    for _ in 0..11 {
        chunked.push_str(&format!("2710\r\n{}\r\n", "x".repeat(10_000)));
    }
    chunked.push_str("0\r\n\r\n");
    let answer = super::support::exchange(server.address, chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let mut limits = ServerLimits::default();
    limits.body = Duration::from_millis(200);
    let server = TestServer::start(limits).await;
    let slow = format!("{head}content-length: 10\r\n\r\n{{");
    let answer = super::support::exchange(server.address, slow.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // A body that continues forever, one byte at a time, is ended as well.
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let drip = format!("{head}content-length: 100000\r\n\r\n");
    stream.write_all(drip.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let (mut from_server, mut to_server) = stream.split();
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    tokio::select! {
        read = bounded(from_server.read_exact(&mut answer)) => { read.unwrap(); }
        never = async { loop { pause.tick().await; let _ = to_server.write_all(b" ").await; } } => never,
    }
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[tokio::test]
async fn streams_and_what_waits_have_limits() {
    let mut limits = ServerLimits::default();
    limits.streams = 3;
    limits.waiting = 10_000;
    limits.body = Duration::from_millis(100);
    let mut server = TestServer::start(limits).await;
    let mut connection = server.open_http("owner").await;
    let mut streams = Vec::new();
    for session in ["a", "b", "c"] {
        streams.push(server.stream(&connection.id, Some(session), None).await.unwrap());
    }
    assert_eq!(server.stream(&connection.id, Some("d"), None).await.err().unwrap().status, 429);
    assert!(server.stream(&connection.id, None, None).await.is_ok(), "the connection's own is none of them");
    // A client that posts while the program does not read is told so, and the queue does not grow.
    let list = request("session/list", &json!({}));
    let mut taken = 0;
    let busy = loop {
        let answer = server.post("owner", &connection.id, &list).await;
        if answer.status != 202 {
            break answer;
        }
        taken += 1;
        assert!(taken < 1000);
    };
    assert_eq!((busy.status, busy.header("retry-after")), (503, Some("5")));
    for _ in 0..taken {
        message(&mut connection).await;
    }
    // Without readers, the connection is closed before memory is exhausted.
    drop(streams);
    for number in 0..1000 {
        connection.outgoing.send(line(number, Some("c"), None));
    }
    assert!(connection.outgoing.is_closed());
    assert_eq!(server.post("owner", &connection.id, &list).await.status, 404);
}

#[tokio::test]
async fn posts_of_a_connection_have_a_limit() {
    let mut limits = ServerLimits::default();
    limits.posts = 2;
    let mut server = TestServer::start(limits).await;
    let connection = server.open_http("owner").await;
    let begun = format!(
        "POST /acp HTTP/1.1\r\nhost: x\r\nauthorization: Bearer owner\r\ncontent-type: application/json\r\nacp-connection-id: {}\r\ncontent-length: 9\r\n\r\n",
        connection.id
    );
    let mut unfinished = Vec::new();
    for _ in 0..2 {
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        unfinished.push(stream);
    }
    // Once the server has seen both, a third is refused; it is accepted again when they are gone.
    let until = async |status: u16| loop {
        let answer = server.post("owner", &connection.id, "{").await;
        if answer.status == status {
            break answer;
        }
    };
    let refused = bounded(until(429)).await;
    assert_eq!(refused.header("retry-after"), Some("5"));
    drop(unfinished);
    bounded(until(400)).await;
}

#[tokio::test]
async fn connections_have_a_limit_for_one_and_for_all() {
    let mut limits = ServerLimits::default();
    limits.connections_of_one = 2;
    limits.connections = 3;
    let mut server = TestServer::start(limits).await;
    // An unused connection is evicted in favour of a new one of the same client.
    let mut unused = server.open_http("owner").await;
    let first = server.open_http("owner").await;
    let reading = server.stream(&first.id, None, None).await.unwrap();
    let (socket, second) = server.open_socket("owner").await;
    assert!(bounded(unused.incoming.recv()).await.is_none());
    let refused = server.post("owner", "", &initialize(1)).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("5")), "{refused:?}");
    assert_eq!(server.socket("/acp", &[OWNER]).await.err().unwrap().0, 429);
    let third = server.open_http("other").await;
    assert_eq!(server.post("third", "", &initialize(1)).await.status, 503);
    // A connection that ends in any way frees its slot.
    drop((third, second, socket, reading));
    first.outgoing.close(1000, "");
    until_empty(&server).await;
    server.open_http("third").await;
}

#[tokio::test]
async fn a_connection_ends_after_the_grace_period_without_a_client() {
    let mut limits = ServerLimits::default();
    limits.grace = Duration::from_millis(50);
    let mut server = TestServer::start(limits).await;
    let mut connection = server.open_http("owner").await;
    assert!(bounded(connection.incoming.recv()).await.is_none());
    let (socket, mut connection) = server.open_socket("owner").await;
    let id = socket.id.clone();
    drop(socket);
    assert!(bounded(connection.incoming.recv()).await.is_none());
    let refused = server.socket("/acp", &[OWNER, ("acp-connection-id", &*id)]).await.err().unwrap();
    assert_eq!(refused.0, 404, "{}", refused.1);
}

#[tokio::test]
async fn signs_of_life_go_over_silent_streams() {
    let mut limits = ServerLimits::default();
    limits.keep_alive = Duration::from_millis(20);
    let mut server = TestServer::start(limits).await;
    let connection = server.open_http("owner").await;
    let mut main = server.stream(&connection.id, None, None).await.unwrap();
    for _ in 0..3 {
        assert_eq!(main.raw().await.as_deref(), Some(": keep-alive"));
    }
}

#[tokio::test]
async fn a_revoked_identity_and_the_end_of_the_server_end_connections() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let mut kept = server.open_http("kept").await;
    let mut revoked = server.open_http("owner").await;
    let mut main = server.stream(&revoked.id, None, None).await.unwrap();
    let (socket, mut other) = server.open_socket("owner").await;
    server.connections.close_of(|who| who == "owner");
    assert_eq!(socket.closed().await.0, 4401);
    assert_eq!(main.raw().await, None);
    assert!(bounded(revoked.incoming.recv()).await.is_none());
    assert!(bounded(other.incoming.recv()).await.is_none());
    assert_eq!(server.post("kept", &kept.id, &request("session/list", &json!({}))).await.status, 202);
    assert_eq!(message(&mut kept).await["id"], 7);

    let (socket, connection) = server.open_socket("kept").await;
    // Messages before the end are delivered.
    connection.outgoing.send(line(1, None, None));
    let listening = tokio::spawn(socket.closed());
    bounded(server.connections.shut_down(Duration::from_secs(30))).await;
    assert_eq!(server.connections.count(), 0);
    assert_eq!(bounded(listening).await.unwrap().0, 1001);
    assert_eq!(server.post("kept", "", &initialize(1)).await.status, 503);
}
