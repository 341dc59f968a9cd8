//! Our own client with our own server.

use serde_json::{Value, json};
use switchboard_transport::server::{OutgoingLine, ServerConnection, ServerLimits};
use switchboard_transport::{Connection, ConnectionOptions, Event, Json, Remote};

use super::support::{TestServer, message};
use crate::support::{bounded, json as value};

/// The program's side of a conversation with a question.
async fn answer(connection: &mut ServerConnection) {
    let answer = |request: &Value, result: Value| {
        OutgoingLine::new(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string())
    };
    let begun = message(connection).await;
    assert_eq!(begun["method"], "initialize");
    connection.outgoing.send(answer(&begun, json!({"protocolVersion": 2})));
    let opened = message(connection).await;
    assert_eq!(opened["method"], "session/new");
    connection.outgoing.send(answer(&opened, json!({"sessionId": "s-1"})));
    let prompt = message(connection).await;
    assert_eq!(
        (&prompt["method"], &prompt["params"]["sessionId"]),
        (&json!("session/prompt"), &json!("s-1"))
    );
    let on_session = |line: OutgoingLine| OutgoingLine { stream: Some("s-1".into()), ..line };
    for number in 0..50 {
        let update = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-1", "n": number}});
        let line = OutgoingLine {
            cursor: Some(format!("s-1.{number}").into()),
            ..OutgoingLine::new(update.to_string())
        };
        connection.outgoing.send(on_session(line));
    }
    let question = json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": {"sessionId": "s-1"}});
    connection.outgoing.send(on_session(OutgoingLine::new(question.to_string())));
    let answered = message(connection).await;
    assert_eq!((&answered["id"], &answered["result"]["chosen"]), (&json!(7), &json!("yes")));
    connection.outgoing.send(on_session(answer(&prompt, json!({}))));
}

async fn converse(scheme: &str) {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let url = format!("{scheme}://{}/acp/known", server.address);
    let remote = Remote::new(&url).unwrap().header("authorization", "Bearer owner").unwrap();
    let stream = remote.connect().await.unwrap();
    let Connection { caller, mut inbox } =
        Connection::new(stream.reader, stream.writer, ConnectionOptions::default());
    let program = async {
        let mut opened = server.opened().await;
        answer(&mut opened.connection).await;
        opened.connection
    };
    let client = async {
        let mut updates = Vec::new();
        let calls = [
            ("initialize", json!({"protocolVersion": 2})),
            ("session/new", json!({"cwd": "/"})),
            ("session/prompt", json!({"sessionId": "s-1", "prompt": []})),
        ];
        for (method, params) in calls {
            let call = caller.call(method, value(&params.to_string()));
            let mut call = std::pin::pin!(call);
            loop {
                tokio::select! {
                    answer = &mut call => {
                        answer.unwrap().into_result().unwrap();
                        break;
                    }
                    event = inbox.next() => match event.unwrap() {
                        Event::Notification(update) => updates.push(serde_json::from_str::<Value>(update.params()).unwrap()),
                        Event::Request(question) => {
                            question.respond(Json::from(json!({"chosen": "yes"}))).await.unwrap();
                        }
                        other => panic!("{other:?}"),
                    },
                }
            }
        }
        let numbers: Vec<i64> = updates.iter().map(|update| update["n"].as_i64().unwrap()).collect();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "{scheme}");
    };
    let (mut connection, ()) = bounded(async { tokio::join!(program, client) }).await;
    // The client closes the connection properly.
    drop((caller, inbox));
    assert!(bounded(connection.incoming.recv()).await.is_none());
}

#[tokio::test]
async fn our_client_by_websocket() {
    converse("ws").await;
}

#[tokio::test]
async fn our_client_by_http() {
    converse("http").await;
}
