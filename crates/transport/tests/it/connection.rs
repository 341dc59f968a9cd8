use std::time::Duration;

use switchboard_acp::rpc::{RpcError, codes};
use switchboard_transport::{
    Answer, ClosureCause, Connection, ConnectionOptions, Deadline, Error, Event, Json, OutboxOptions,
};

use crate::support::{Wire, bounded, json, read_line};

fn defaults() -> ConnectionOptions {
    ConnectionOptions::default()
}

fn result(text: &str) -> Answer {
    Answer::Result(text.into())
}

/// Responds to every request with its parameters and calls the peer back meanwhile.
fn echo(connection: Connection) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let Connection { caller, mut inbox } = connection;
        while let Some(event) = inbox.next().await {
            if let Event::Request(request) = event {
                let caller = caller.clone();
                tokio::spawn(async move {
                    let back = caller.call("back", json(request.params())).await.unwrap();
                    assert_eq!(back, result(request.params()));
                    let params = json(request.params());
                    request.respond(params).await.unwrap();
                });
            }
        }
    })
}

#[tokio::test]
async fn calls_go_both_ways_at_once_and_find_their_answers() {
    let (client, agent) = Connection::pair(defaults(), defaults());
    let agent = echo(agent);
    let Connection { caller, mut inbox } = client;
    let calls = async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..100 {
            let caller = caller.clone();
            tasks.spawn(async move {
                let params = format!("[{number}]");
                assert_eq!(caller.call("there", json(&params)).await.unwrap(), result(&params));
            });
        }
        tasks.join_all().await;
    };
    let mut answers = tokio::task::JoinSet::new();
    bounded(inbox.until(calls, |event| {
        let Event::Request(request) = event else { panic!("{event:?}") };
        answers.spawn(async move {
            let params = json(request.params());
            request.respond(params).await.unwrap();
        });
    }))
    .await;
    drop((caller, inbox));
    bounded(agent).await.unwrap();
}

#[tokio::test]
async fn an_answer_stands_between_what_came_before_it_and_what_came_after() {
    let mut wire = Wire::new(defaults());
    let note = |number| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":[{number}]}}\n");
    wire.write(&format!("{}{}", note(1), note(2))).await;
    wire.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n").await;
    wire.write(&note(3)).await;
    let mut seen = Vec::new();
    let call = wire.caller.begin("m", Json::default(), Deadline::Default);
    let mut call = bounded(call).await.unwrap();
    let handle = |event| match event {
        Event::Notification(notification) => seen.push(notification.params().to_owned()),
        other => panic!("{other:?}"),
    };
    assert_eq!(bounded(wire.inbox.until(call.answer(), handle)).await.unwrap(), result("{}"));
    assert_eq!(seen, ["[1]", "[2]"]);
    let Some(Event::Notification(last)) = bounded(wire.inbox.next()).await else { panic!("no event") };
    assert_eq!(last.params(), "[3]");
    assert_eq!(&**last.line(), note(3).trim_end());
}

#[tokio::test]
async fn an_error_of_the_peer_is_an_answer() {
    let mut wire = Wire::new(defaults());
    wire.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"log in\"}}\n").await;
    let call = wire.caller.call("m", Json::default());
    let answer = bounded(wire.inbox.until(call, drop)).await.unwrap();
    assert_eq!(answer, Answer::Error(RpcError::new(codes::AUTHENTICATION_REQUIRED, "log in")));
}

#[tokio::test]
async fn every_message_is_sent_as_one_line() {
    let mut wire = Wire::new(defaults());
    let raw = switchboard_acp::Raw::parse("{\n  \"a\": \"\\n\"\r\n}").unwrap();
    wire.caller.notify("a\"b\n", &raw).await.unwrap();
    let line = bounded(wire.read()).await;
    assert_eq!(line, r#"{"jsonrpc":"2.0","method":"a\"b\n","params":{   "a": "\n"  }}"#);
    wire.caller.forward(&"{\"x\":\n1}".into()).await.unwrap();
    assert_eq!(bounded(wire.read()).await, "{\"x\": 1}");
}

#[tokio::test]
async fn a_cancelled_call_still_gets_its_answer() {
    let (mut client, mut agent) = Connection::pair(defaults(), defaults());
    let agent = tokio::spawn(async move {
        let Some(Event::Request(request)) = agent.inbox.next().await else { panic!("no request") };
        let mut cancellation = request.cancellation();
        agent.inbox.until(cancellation.cancelled(), drop).await;
        assert!(request.cancellation().is_cancelled());
        request.respond(json(r#"{"outcome":"cancelled"}"#)).await.unwrap();
        agent.caller.flush().await.unwrap();
    });
    let mut call = bounded(client.caller.begin("m", Json::default(), Deadline::Never)).await.unwrap();
    call.cancel();
    call.cancel();
    let answer = bounded(client.inbox.until(call.answer(), drop)).await.unwrap();
    assert_eq!(answer, result(r#"{"outcome":"cancelled"}"#));
    assert!(call.answer().await.is_err());
    bounded(agent).await.unwrap();
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_and_its_answer_is_late() {
    let mut wire = Wire::new(defaults());
    let call = bounded(wire.caller.begin("m", Json::default(), Deadline::Default)).await.unwrap();
    drop(call);
    assert_eq!(bounded(wire.read()).await, r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}"#);
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    assert_eq!(bounded(wire.read()).await, cancel);
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    assert_eq!(bounded(wire.anomaly(answer)).await, "a late response to 1");
    assert_eq!(bounded(wire.anomaly(answer)).await, "a second response to 1");
}

#[tokio::test]
async fn a_dropped_request_is_answered_with_an_error() {
    let mut wire = Wire::new(defaults());
    let request = "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\"}\n";
    drop(bounded(wire.event(request)).await);
    let expected = r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"the request was dropped without an answer"}}"#;
    assert_eq!(bounded(wire.read()).await, expected);

    let Event::Request(request) = bounded(wire.event(request)).await else { panic!("not a request") };
    wire.write("{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":\"a\"}}\n")
        .await;
    let mut cancellation = request.cancellation();
    bounded(wire.inbox.until(cancellation.cancelled(), drop)).await;
    drop(request);
    let expected =
        r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32800,"message":"the request was cancelled"}}"#;
    assert_eq!(bounded(wire.read()).await, expected);
}

#[tokio::test]
async fn a_request_that_is_left_open_has_no_answer() {
    let mut wire = Wire::new(defaults());
    let request = |id: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"m\"}}\n");
    let Event::Request(open) = bounded(wire.event(&request("a"))).await else { panic!("not a request") };
    open.leave_open();
    // The next line is the response to the next request.
    drop(bounded(wire.event(&request("b"))).await);
    let next: serde_json::Value = serde_json::from_str(&bounded(wire.read()).await).unwrap();
    assert_eq!(next["id"], "b", "{next}");
}

#[tokio::test]
async fn cancelling_the_unknown_does_nothing() {
    let mut wire = Wire::new(defaults());
    for params in [r#"{"requestId":9}"#, "{}", "[]", r#"{"requestId":{}}"#] {
        wire.write(&format!("{{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{params}}}\n"))
            .await;
    }
    let event = bounded(wire.event("{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n")).await;
    assert!(matches!(event, Event::Notification(_)), "{event:?}");
}

#[tokio::test]
async fn unknown_methods_are_refused_and_unknown_notifications_dropped() {
    let mut wire = Wire::new(defaults().knows(|method| method == "known"));
    let reply = bounded(wire.reply_to("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"_x\"}\n")).await;
    let expected = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"method not found: _x"}}"#;
    assert_eq!(reply, expected);
    let anomaly = bounded(wire.anomaly("{\"jsonrpc\":\"2.0\",\"method\":\"$/progress\"}\n")).await;
    assert_eq!(anomaly, "the unknown method $/progress");
    let event = bounded(wire.event("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"known\"}\n")).await;
    assert!(matches!(event, Event::Request(_)), "{event:?}");
}

#[tokio::test]
async fn invalid_messages_get_json_rpc_errors() {
    let mut wire = Wire::new(ConnectionOptions { batch_limit: 3, ..defaults() });
    let mut check = async |line: &str, id: &str, code: i32| {
        let reply = bounded(wire.reply_to(&format!("{line}\n"))).await;
        let beginning = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},");
        assert!(reply.starts_with(&beginning), "{line} -> {reply}");
    };
    check(r#"{"jsonrpc":"2.0","method":"foobar","params":"bar","baz]"#, "null", -32700).await;
    check(r#"{"jsonrpc":"2.0","method":1,"params":"bar"}"#, "null", -32600).await;
    check(r#"{"jsonrpc":"2.0","id":4,"method":1}"#, "4", -32600).await;
    check(r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, "null", -32600).await;
    // Invalid, but the sender waits for a response.
    check(r#"{"jsonrpc":"2.0","id":1.50,"method":"m"}"#, "1.50", -32603).await;
    check(r#"{"jsonrpc":"1.0","id":"x","method":"m"}"#, "\"x\"", -32600).await;
    check(r#"{"id":"x","method":"m"}"#, "\"x\"", -32600).await;
    check(r#"{"jsonrpc":"2.0"}"#, "null", -32600).await;
    check("[]", "null", -32600).await;
    check("[1,2,3,4]", "null", -32600).await;
}

#[tokio::test]
async fn noise_is_set_aside_without_an_answer() {
    let mut wire = Wire::new(defaults());
    for line in ["INFO", "[12:30] log", "{ level: 'info' }", "{\"level\":\"info\"}", "{", "{\"id\":5}"] {
        let anomaly = bounded(wire.anomaly(&format!("{line}\n"))).await;
        assert_eq!(anomaly, format!("a line that is no message: {line:?}"));
    }
    // Responses are never answered.
    for line in
        [r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#, r#"{"jsonrpc":"2.0","id":null,"result":1}"#]
    {
        let anomaly = bounded(wire.anomaly(&format!("{line}\n"))).await;
        assert!(anomaly.starts_with("a malformed message: "), "{anomaly}");
    }
    let line = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"m\"}}\n";
    assert_eq!(bounded(wire.anomaly(line)).await, "an error without a request: m (code -32700)");
    wire.caller.notify("next", Json::default()).await.unwrap();
    assert_eq!(bounded(wire.read()).await, r#"{"jsonrpc":"2.0","method":"next","params":{}}"#);
}

#[tokio::test]
async fn a_batch_is_answered_with_one_array_when_the_last_answer_is_there() {
    let mut wire = Wire::new(defaults());
    let mut call = bounded(wire.caller.begin("m", Json::default(), Deadline::Default)).await.unwrap();
    wire.read().await;
    wire.write(concat!(
        r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},1,"#,
        r#"{"jsonrpc":"2.0","id":1,"result":5},{"jsonrpc":"2.0","id":"b","method":"b"}]"#,
        "\n"
    ))
    .await;
    let mut requests = Vec::new();
    while requests.len() < 2 {
        match bounded(wire.inbox.next()).await.unwrap() {
            Event::Request(request) => requests.push(request),
            Event::Notification(notification) => assert_eq!(notification.method(), "n"),
            Event::Anomaly(anomaly) => assert!(anomaly.to_string().starts_with("a malformed"), "{anomaly}"),
            Event::Closed(closure) => panic!("{closure}"),
        }
    }
    assert_eq!(bounded(call.answer()).await.unwrap(), result("5"));
    let (second, first) = (requests.pop().unwrap(), requests.pop().unwrap());
    second.respond(json("2")).await.unwrap();
    first.respond(json("1")).await.unwrap();
    let reply = bounded(wire.read()).await;
    let (refusal, answers) = reply.split_once("}},").unwrap();
    assert!(refusal.starts_with(r#"[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#), "{reply}");
    assert_eq!(answers, r#"{"jsonrpc":"2.0","id":"b","result":2},{"jsonrpc":"2.0","id":1,"result":1}]"#);
}

#[tokio::test]
async fn a_batch_that_asks_nothing_gets_no_answer() {
    let mut wire = Wire::new(defaults());
    let event = bounded(wire.event("[{\"jsonrpc\":\"2.0\",\"method\":\"n\"}]\n")).await;
    assert!(matches!(event, Event::Notification(_)), "{event:?}");
    assert_eq!(
        bounded(wire.anomaly("[{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":1}]\n")).await,
        "a response to 9 without a request"
    );
    wire.caller.notify("next", Json::default()).await.unwrap();
    assert_eq!(bounded(wire.read()).await, r#"{"jsonrpc":"2.0","method":"next","params":{}}"#);
}

#[tokio::test]
async fn requests_over_the_limit_or_with_an_id_in_use_are_refused() {
    let mut wire = Wire::new(ConnectionOptions { request_limit: 1, ..defaults() });
    let first = bounded(wire.event("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n")).await;
    let reply = bounded(wire.reply_to("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"b\"}\n")).await;
    assert!(reply.contains("the id is in use"), "{reply}");
    let reply = bounded(wire.reply_to("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"b\"}\n")).await;
    assert!(reply.contains("1 requests are already pending"), "{reply}");
    drop(first);
    let event = bounded(wire.event("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"b\"}\n")).await;
    assert!(matches!(event, Event::Request(_)), "{event:?}");
}

#[tokio::test]
async fn calls_over_the_limit_fail_at_once() {
    let wire = Wire::new(ConnectionOptions { call_limit: 1, ..defaults() });
    let _first = wire.caller.begin("a", Json::default(), Deadline::Default).await.unwrap();
    let error = bounded(wire.caller.call("b", Json::default())).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot send b: 1 calls are already pending");
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_fails_at_its_deadline_and_is_cancelled() {
    let mut wire = Wire::new(defaults());
    let begun = wire.caller.begin("m", Json::default(), Deadline::After(Duration::from_secs(5))).await;
    let mut call = begun.unwrap();
    let error = wire.inbox.until(call.answer(), drop).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer to m within 5s");
    wire.read().await;
    assert!(wire.read().await.contains("$/cancel_request"));
    let error = wire.inbox.until(wire.caller.call("n", Json::default()), drop).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer to n within 120s");
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_peer_that_never_reads_fails_at_its_deadline() {
    let (near, _peer) = tokio::io::duplex(16);
    let (reader, writer) = tokio::io::split(near);
    let outbox = OutboxOptions { queue: 64, ..OutboxOptions::default() };
    let Connection { caller, mut inbox } =
        Connection::new(reader, writer, ConnectionOptions { outbox, ..defaults() });
    let call = async {
        loop {
            let deadline = Deadline::After(Duration::from_secs(5));
            if let Err(error) = caller.begin("m", Json::default(), deadline).await {
                return error;
            }
        }
    };
    let error = inbox.until(call, drop).await;
    assert!(matches!(error, Error::DeadlinePassed { .. }), "{error}");
}

#[tokio::test]
async fn unusable_answers_fail_their_calls() {
    let mut wire = Wire::new(ConnectionOptions { message_limit: 100, ..defaults() });
    wire.write(&format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{}\"}}\n", "x".repeat(100))).await;
    let error = bounded(wire.inbox.until(wire.caller.call("a", Json::default()), drop)).await.unwrap_err();
    assert_eq!(error.to_string(), "the answer to a has 136 bytes, over the limit of 100");
    wire.write("{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":1}}\n").await;
    let error = bounded(wire.inbox.until(wire.caller.call("b", Json::default()), drop)).await.unwrap_err();
    assert!(error.to_string().starts_with("the answer to b is malformed: at /error"), "{error}");
    let request = format!("{{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"{}\"}}\n", "x".repeat(100));
    wire.read().await;
    wire.read().await;
    let reply = bounded(wire.reply_to(&request)).await;
    assert!(reply.starts_with(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"#), "{reply}");
}

#[tokio::test]
async fn when_the_peer_goes_waiting_and_later_calls_fail() {
    let Wire { caller, mut inbox, peer } = Wire::new(defaults());
    let first = caller.call("a", Json::default());
    let mut second = caller.begin("b", Json::default(), Deadline::Never).await.unwrap();
    drop(peer);
    let mut closed = 0;
    let both = async { (first.await, second.answer().await) };
    let (first, second) =
        bounded(inbox.until(both, |event| closed += usize::from(matches!(event, Event::Closed(_))))).await;
    for error in
        [first.unwrap_err(), second.unwrap_err(), caller.call("c", Json::default()).await.unwrap_err()]
    {
        assert!(matches!(error, Error::Closed(_)), "{error:?}");
    }
    assert!(closed <= 1);
    while bounded(inbox.next()).await.is_some() {}
}

#[tokio::test]
async fn a_call_whose_request_could_not_be_written_does_not_wait_for_ever() {
    // A peer that has closed its input but keeps its output open.
    let ((reader, _output), (writer, input)) = (tokio::io::duplex(64), tokio::io::duplex(64));
    drop(input);
    let Connection { caller, mut inbox } = Connection::new(reader, writer, defaults());
    let call = async { caller.begin("m", Json::default(), Deadline::Never).await?.answer().await };
    let error = bounded(inbox.until(call, drop)).await.unwrap_err();
    assert_eq!(error.to_string(), "the peer closed its input");
}

#[tokio::test]
async fn without_the_inbox_no_call_waits_for_ever() {
    let Wire { caller, inbox, peer: _peer } = Wire::new(defaults());
    let mut call = caller.begin("a", Json::default(), Deadline::Never).await.unwrap();
    drop(inbox);
    let Err(Error::Closed(closure)) = bounded(call.answer()).await else { panic!("not closed") };
    assert!(matches!(closure.cause, ClosureCause::ClosedHere));
    assert!(bounded(caller.call("b", Json::default())).await.is_err());
}

#[tokio::test]
async fn a_message_asked_for_in_vain_is_not_lost() {
    let mut wire = Wire::new(defaults());
    for round in 0..50 {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":[{round}]}}\n");
        let (first, second) = text.split_at(round % text.len());
        wire.write(first).await;
        tokio::select! {
            biased;
            event = wire.inbox.next() => panic!("{event:?}"),
            () = tokio::task::yield_now() => {}
        }
        let Event::Notification(notification) = bounded(wire.event(second)).await else { panic!("no event") };
        assert_eq!(notification.params(), format!("[{round}]"));
    }
}

#[tokio::test]
async fn closing_lets_the_peer_finish_talking() {
    let mut wire = Wire::new(defaults());
    wire.caller.notify("last", Json::default()).await.unwrap();
    bounded(wire.caller.close()).await;
    assert!(bounded(read_line(&mut wire.peer)).await.contains("last"));
    assert!(wire.caller.notify("more", Json::default()).await.is_err());
    let event = bounded(wire.event("{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n")).await;
    assert!(matches!(event, Event::Notification(_)), "{event:?}");
}

#[test]
fn no_task_is_left_when_a_connection_is_dropped() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for _ in 0..10 {
            let mut wire = Wire::new(defaults());
            let mut call = wire.caller.begin("m", Json::default(), Deadline::Never).await.unwrap();
            let request = wire.event("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n").await;
            let waiting = tokio::spawn(async move { call.answer().await });
            let Wire { caller, inbox, peer } = wire;
            drop((caller, inbox, peer, request));
            assert!(bounded(waiting).await.unwrap().is_err());
        }
        let none_left = async {
            while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        };
        bounded(none_left).await;
    });
}

#[tokio::test]
async fn a_tap_sees_what_is_said_and_what_should_not_have_been() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = std::sync::Arc::clone(&seen);
    let tap = switchboard_transport::Tap::new(move |what| {
        use switchboard_transport::TapEvent;
        kept.lock().unwrap().push(match what {
            TapEvent::Message { direction, line } => format!("{direction:?} {line}"),
            TapEvent::Anomaly(anomaly) => anomaly.to_string(),
            _ => String::new(),
        });
    });
    let mut wire = Wire::new(ConnectionOptions { tap: Some(tap), message_limit: 64, ..Default::default() });
    wire.caller.notify("m", Json::default()).await.unwrap();
    let long = "x".repeat(100);
    wire.write(&format!("noise\n{long}\n{{\"jsonrpc\":\"2.0\",\"method\":\"n\"}}\n{{\"half")).await;
    drop(wire.peer);
    while bounded(wire.inbox.next()).await.is_some() {}
    assert_eq!(
        *seen.lock().unwrap(),
        [
            r#"Sent {"jsonrpc":"2.0","method":"m","params":{}}"#,
            r#"a line that is no message: "noise""#,
            "a line of 100 bytes, over the limit of 64",
            r#"Received {"jsonrpc":"2.0","method":"n"}"#,
            r#"the end of the stream inside a message: "{\"half""#,
        ]
    );
}
