//! WebSocket.

use futures_util::SinkExt;
use switchboard_transport::server::{Incoming, OutgoingLine, ServerLimits};
use tokio_tungstenite::tungstenite::Message;

use super::support::{TestServer, initialize, line, message};
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
    // Bytes mean nothing.
    bounded(socket.stream.send(Message::binary(b"{}".to_vec()))).await.unwrap();
    socket.send(r#"{"jsonrpc":"2.0","id":2,"method":"session/list"}"#).await;
    assert_eq!(message(&mut opened.connection).await["id"], 2);
    for number in 0..100 {
        opened.connection.outgoing.send(line(number, Some("s"), Some("c")));
    }
    for number in 0..100 {
        assert_eq!(socket.next().await["params"], number);
    }
    // A long one comes in several frames, and is one message.
    let long = "ü".repeat(1 << 20);
    opened.connection.outgoing.send(OutgoingLine::new(serde_json::json!({"x": long}).to_string()));
    assert_eq!(socket.next().await["x"], long);
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_the_connection_stays() {
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
    // The line ends without a word.
    drop(socket);
    let with_id = [OWNER[0], ("acp-connection-id", &*id)];
    let mut second = server.socket("/acp", &with_id).await.unwrap();
    assert_eq!(second.id, id);
    let Some(Incoming::Reconnected(gate)) = bounded(connection.incoming.recv()).await else { panic!() };
    // What was on its way to the first socket, from a place that is not the second's.
    connection.outgoing.send(line(1, None, Some("s.3")));
    connection.outgoing.send(line(2, None, None));
    connection.outgoing.send(line(3, None, Some("s.4")));
    drop(gate);
    connection.outgoing.send(line(4, None, Some("s.2")));
    assert_eq!(second.next().await["params"], 2);
    assert_eq!(second.next().await["params"], 4);
    // A third takes it from the second while that is there.
    let mut third = server.socket("/acp", &with_id).await.unwrap();
    assert_eq!(second.closed().await.0, 1008);
    assert!(matches!(bounded(connection.incoming.recv()).await, Some(Incoming::Reconnected(_))));
    third.send(r#"{"jsonrpc":"2.0","id":3,"method":"a"}"#).await;
    assert_eq!(message(&mut connection).await["id"], 3);
    // Others do not learn that there is one.
    let other = [("authorization", "Bearer other"), ("acp-connection-id", &*id)];
    assert_eq!(server.socket("/acp", &other).await.err().unwrap().0, 404);
    assert_eq!(server.socket("/acp/known", &with_id).await.err().unwrap().0, 404);
}
