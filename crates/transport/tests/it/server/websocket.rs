//! WebSocket transport.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use switchboard_transport::SharedText;
use switchboard_transport::server::{Flow, Incoming, OutgoingLine, ServerLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::MaybeTlsStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::support::{Socket, TestServer, initialize, line, message, until_empty};
use crate::support::bounded;

const OWNER: [(&str, &str); 1] = [("authorization", "Bearer owner")];

#[tokio::test]
async fn messages_go_both_ways_and_the_connection_has_a_name() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let mut socket = server.socket("/acp/known", &OWNER).await.unwrap();
    assert!(server.is_unopened(), "before its first message");
    socket.send(&initialize(1)).await;
    let mut opened = server.opened().await;
    assert_eq!((&*opened.who, opened.agent.as_deref()), ("owner", Some("known")));
    assert_eq!(*opened.connection.id, socket.id);
    assert_eq!(socket.id.len(), 32);
    assert_eq!(message(&mut opened.connection).await["id"], 1);
    socket.send(r#"{"jsonrpc":"2.0","id":2,"method":"session/list"}"#).await;
    assert_eq!(message(&mut opened.connection).await["id"], 2);
    for number in 0..100 {
        opened.connection.outgoing.send(line(number, Some("s"), Some("c")));
    }
    for number in 0..100 {
        assert_eq!(socket.next().await["params"], number);
    }
    // A long message arrives in several frames as one message.
    let long = "ü".repeat(1 << 20);
    opened.connection.outgoing.send(OutgoingLine::new(serde_json::json!({"x": long}).to_string()));
    assert_eq!(socket.next().await["x"], long);
}

#[tokio::test]
async fn binary_frames_with_messages_are_read_as_text() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let mut socket = server.socket("/acp/known", &OWNER).await.unwrap();
    let binary = |text: &str| Message::binary(text.as_bytes().to_vec());
    // As browser clients send them, with a line end.
    bounded(socket.stream.send(binary(&format!("{}\n", initialize(1))))).await.unwrap();
    let mut opened = server.opened().await;
    assert_eq!(message(&mut opened.connection).await["id"], 1);
    let call = |id: u64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/list"}}"#);
    let several = format!("{}\r\n\n {}\n", call(2), call(3));
    bounded(socket.stream.send(binary(&several))).await.unwrap();
    // A message may have line breaks in it.
    bounded(socket.stream.send(binary("{\"jsonrpc\":\"2.0\",\n\"id\":4,\"method\":\"x\"}"))).await.unwrap();
    for id in 2..=4 {
        assert_eq!(message(&mut opened.connection).await["id"], id);
    }
    opened.connection.outgoing.send(OutgoingLine::new(r#"{"x":1}"#.to_owned()));
    assert_eq!(socket.next().await["x"], 1, "answers are text");
}

#[tokio::test]
async fn binary_frames_without_messages_close_the_connection() {
    let whole = r#"{"jsonrpc":"2.0","id":2,"method":"x"}"#;
    for (sent, code) in [
        (b"\xff\xfe".to_vec(), 1003),
        (b"PNG".to_vec(), 1003),
        (Vec::new(), 1003),
        (b" \n ".to_vec(), 1003),
        (format!("{whole}\nnonsense").into_bytes(), 1003),
        (whole.as_bytes()[..20].to_vec(), 1007),
        (format!("{whole}\n{}", &whole[..9]).into_bytes(), 1007),
    ] {
        let mut server = TestServer::start(ServerLimits::default()).await;
        let (mut socket, _connection) = server.open_socket("owner").await;
        bounded(socket.stream.send(Message::binary(sent.clone()))).await.unwrap();
        assert_eq!(socket.closed().await.0, code, "{:?}", String::from_utf8_lossy(&sent));
    }
}

#[tokio::test]
async fn a_subprotocol_with_a_token_is_never_chosen() {
    let server = TestServer::start(ServerLimits::default()).await;
    for (offered, chosen) in [
        ("acp, bearer.SECRET", Some("acp")),
        ("bearer.SECRET, acp", Some("acp")),
        ("bearer.SECRET, other", Some("other")),
        ("bearer.SECRET", None),
    ] {
        let mut request = format!("ws://{}/acp/known", server.address).into_client_request().unwrap();
        request.headers_mut().insert("authorization", "Bearer owner".parse().unwrap());
        request.headers_mut().insert("sec-websocket-protocol", offered.parse().unwrap());
        let answer = match bounded(tokio_tungstenite::connect_async(request)).await {
            Ok((_, response)) => response.headers().get("sec-websocket-protocol").cloned(),
            // The client insists on one.
            Err(_) => None,
        };
        assert_eq!(answer.as_ref().map(|answer| answer.to_str().unwrap()), chosen, "{offered}");
    }
}

#[tokio::test]
async fn an_invalid_message_gets_an_error_and_the_connection_stays() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let (mut socket, mut connection) = server.open_socket("owner").await;
    for (sent, code) in [
        ("{", -32700),
        ("", -32700),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}]", -32600),
        ("[]", -32600),
        ("7", -32600),
    ] {
        socket.send(sent).await;
        let answer = socket.next().await;
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&code.into(), &serde_json::Value::Null),
            "{sent}"
        );
    }
    socket.send(r#"{"jsonrpc":"2.0","id":3,"method":"a"}"#).await;
    assert_eq!(message(&mut connection).await["id"], 3);
}

#[tokio::test]
async fn a_second_socket_goes_on_with_the_connection_of_the_first() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let (socket, mut connection) = server.open_socket("owner").await;
    let id = socket.id.clone();
    // The transport closes without a closing handshake.
    drop(socket);
    let with_id = [OWNER[0], ("acp-connection-id", &*id)];
    let mut second = server.socket("/acp", &with_id).await.unwrap();
    assert_eq!(second.id, id);
    let Some(Incoming::Reconnected(gate)) = bounded(connection.incoming.recv()).await else { panic!() };
    // Queued for the first socket, after a cursor that the second does not have.
    connection.outgoing.send(line(1, None, Some("s.3")));
    connection.outgoing.send(line(2, None, None));
    connection.outgoing.send(line(3, None, Some("s.4")));
    drop(gate);
    connection.outgoing.send(line(4, None, Some("s.2")));
    assert_eq!(second.next().await["params"], 2);
    assert_eq!(second.next().await["params"], 4);
    // A third socket takes over from the connected second one.
    let mut third = server.socket("/acp", &with_id).await.unwrap();
    assert_eq!(second.closed().await.0, 1008);
    assert!(matches!(bounded(connection.incoming.recv()).await, Some(Incoming::Reconnected(_))));
    third.send(r#"{"jsonrpc":"2.0","id":3,"method":"a"}"#).await;
    assert_eq!(message(&mut connection).await["id"], 3);
    // Other clients cannot find out that the connection exists.
    let other = [("authorization", "Bearer other"), ("acp-connection-id", &*id)];
    assert_eq!(server.socket("/acp", &other).await.err().unwrap().0, 404);
    assert_eq!(server.socket("/acp/known", &with_id).await.err().unwrap().0, 404);
}

#[tokio::test]
async fn a_first_message_that_is_not_initialize_ends_it() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    for first in [
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new"}"#,
        r#"{"jsonrpc":"2.0","method":"initialize"}"#,
        "{}",
    ] {
        let mut socket = server.socket("/acp", &OWNER).await.unwrap();
        // An invalid message is answered first.
        socket.send("{").await;
        assert_eq!(socket.next().await["error"]["code"], -32700);
        socket.send(first).await;
        assert_eq!(socket.closed().await, (1002, "the first message must be initialize".to_owned()));
    }
    assert!(server.is_unopened());
    until_empty(&server).await;
}

#[tokio::test]
async fn no_first_message_in_time_ends_it() {
    let mut limits = ServerLimits::default();
    limits.first_message = Duration::from_millis(20);
    let server = TestServer::start(limits).await;
    let socket = server.socket("/acp", &OWNER).await.unwrap();
    assert_eq!(socket.closed().await.0, 1008);
    until_empty(&server).await;
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_it_with_its_code() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let limit = ServerLimits::default().message;
    let (mut socket, mut connection) = server.open_socket("owner").await;
    let fits = json!({"x": "y".repeat(limit - 8)}).to_string();
    assert_eq!(fits.len(), limit);
    socket.send(&fits).await;
    assert_eq!(message(&mut connection).await["x"].as_str().map(str::len), Some(limit - 8));
    // All input is read, so that the client receives the reason.
    socket.send(&format!("{fits} ")).await;
    assert_eq!(socket.closed().await.0, 1009);
    assert!(bounded(connection.incoming.recv()).await.is_none());

    // In fragments, each below the limit.
    let (mut socket, _connection) = server.open_socket("owner").await;
    for number in 0..3 {
        let kind = if number == 0 { Data::Text } else { Data::Continue };
        let frame = Frame::message(vec![b' '; limit / 2], OpCode::Data(kind), number == 2);
        bounded(socket.stream.send(Message::Frame(frame))).await.unwrap();
    }
    assert_eq!(socket.closed().await.0, 1009);
}

#[tokio::test]
async fn frames_that_break_the_rules_end_it_with_their_code() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let (mut socket, mut connection) = server.open_socket("owner").await;
    let frame = Frame::message(vec![b'"', 0xff, b'"'], OpCode::Data(Data::Text), true);
    bounded(socket.stream.send(Message::Frame(frame))).await.unwrap();
    assert_eq!(socket.closed().await.0, 1007);
    assert!(bounded(connection.incoming.recv()).await.is_none());
    // A continuation without a start, and an unmasked frame.
    for frame in [&[0x80, 0x80, 0, 0, 0, 0][..], &[0x81, 0x02, b'{', b'}']] {
        let (mut socket, mut connection) = server.open_socket("owner").await;
        bounded(socket.stream.get_mut().write_all(frame)).await.unwrap();
        assert_eq!(socket.closed().await.0, 1002, "{frame:?}");
        assert!(bounded(connection.incoming.recv()).await.is_none());
    }
}

#[tokio::test]
async fn a_client_that_says_farewell_has_left_and_one_that_goes_away_may_come_back() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    for code in [None, Some(1000_u16)] {
        let (mut socket, mut connection) = server.open_socket("owner").await;
        let frame = code.map(|code| CloseFrame { code: code.into(), reason: "".into() });
        bounded(socket.stream.close(frame)).await.unwrap();
        assert!(bounded(connection.incoming.recv()).await.is_none(), "{code:?}");
    }
    let (mut socket, mut connection) = server.open_socket("owner").await;
    let frame = CloseFrame { code: 1001.into(), reason: "".into() };
    bounded(socket.stream.close(Some(frame))).await.unwrap();
    let again = [OWNER[0], ("acp-connection-id", &*socket.id)];
    server.socket("/acp", &again).await.unwrap();
    assert!(matches!(bounded(connection.incoming.recv()).await, Some(Incoming::Reconnected(_))));
}

#[tokio::test]
async fn a_program_that_ends_a_connection_says_why() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let (mut socket, connection) = server.open_socket("owner").await;
    connection.outgoing.send(line(1, None, None));
    connection.outgoing.close(4000, &"ü".repeat(100));
    connection.outgoing.send(line(2, None, None));
    assert_eq!(socket.next().await["params"], 1);
    assert_eq!(socket.closed().await, (4000, "ü".repeat(61)));
    // Idle clients are kept if they answer pings.
    let (socket, connection) = server.open_socket("owner").await;
    drop(connection);
    assert_eq!(socket.closed().await.0, 1011);
    until_empty(&server).await;
}

#[tokio::test]
async fn a_client_that_does_not_answer_pings_is_dead_and_may_come_back() {
    let mut limits = ServerLimits::default();
    limits.keep_alive = Duration::from_millis(10);
    limits.silence = Duration::from_secs(2);
    let mut server = TestServer::start(limits).await;
    let (mut alive, mut other) = server.open_socket("owner").await;
    let (dead, connection) = server.open_socket("owner").await;
    let id = dead.id.clone();
    // The client does not read and so does not answer. Writing still succeeds, which is not a sign of life.
    let (mut from_server, _to_server) = tokio::io::split(into_raw(dead));
    let mut rest = Vec::new();
    let listening = async {
        let _ = bounded(from_server.read_to_end(&mut rest)).await;
    };
    tokio::select! {
        () = listening => {}
        // This client answers while it reads.
        never = async { loop { alive.stream.next().await.unwrap().unwrap(); } } => never,
    }
    assert!(!connection.outgoing.is_closed());
    server.socket("/acp", &[OWNER[0], ("acp-connection-id", &*id)]).await.unwrap();
    alive.send(r#"{"jsonrpc":"2.0","id":3,"method":"a"}"#).await;
    assert_eq!(message(&mut other).await["id"], 3);
}

#[tokio::test]
async fn unwritten_output_is_counted_and_limited() {
    let mut limits = ServerLimits::default();
    limits.waiting = 50 << 20;
    let mut server = TestServer::start(limits).await;
    let (mut socket, connection) = server.open_socket("owner").await;
    let notify: Arc<tokio::sync::Notify> = Arc::default();
    let flow = Flow::new(Arc::clone(&notify), 1);
    let text = SharedText::from(json!({"x": "y".repeat(1 << 20)}).to_string());
    let send = || {
        let mut line = OutgoingLine::new(text.clone());
        line.written = Some(flow.take(text.len()));
        connection.outgoing.send(line);
    };
    // The client does not read, and the buffers between the two ends are full before the limit.
    for _ in 0..40 {
        send();
    }
    assert!(flow.outstanding() > 30 << 20, "{}", flow.outstanding());
    for _ in 0..40 {
        assert_eq!(socket.next().await["x"].as_str().map(str::len), Some(1 << 20));
    }
    bounded(async {
        while flow.outstanding() > 0 {
            notify.notified().await;
        }
    })
    .await;
    for _ in 0..100 {
        send();
    }
    assert!(connection.outgoing.is_closed());
    assert!(flow.outstanding() < 60 << 20, "{}", flow.outstanding());
}

/// Returns the stream under a WebSocket.
fn into_raw(socket: Socket) -> MaybeTlsStream<TcpStream> {
    socket.stream.into_inner()
}
