//! Targets that are reached by HTTP.

use std::time::{Duration, Instant};

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;
use switchboard_hub::{PendingQuestionEvent, QuestionOption, SessionEvent, SessionEventKind};
use switchboard_notify::{
    Address, Content, Endpoint, InvalidAnswer, Notifier, NotifierOptions, Secret, Target, WebhookFormat,
    WebhookKey, send_test,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::sink::Sink;
use crate::{asked, resolved};

fn at_once(endpoint: Endpoint) -> Target {
    let mut target = Target::new("t", endpoint);
    target.after = Duration::ZERO;
    target
}

fn notifier(target: Target) -> Notifier {
    Notifier::start(NotifierOptions::new(vec![target], "https://hub.example.org"))
}

fn webhook(url: &str, format: WebhookFormat) -> Endpoint {
    Endpoint::Webhook { url: Address::parse(url).unwrap(), format }
}

/// Waits until a target has outcomes.
async fn outcomes(notifier: &Notifier, are: impl Fn(&switchboard_notify::Outcomes) -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !are(&notifier.outcomes()[0].1) {
        assert!(Instant::now() < until, "{:?}", notifier.outcomes());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn ntfy_gets_a_message_that_is_deleted_when_the_question_is_answered() {
    let mut sink = Sink::start().await;
    let token = Some(Secret::new("tk_secret"));
    let endpoint = Endpoint::ntfy(&sink.url("/base/my-topic"), token).unwrap();
    let notifier = notifier(at_once(endpoint));
    notifier.event(&asked("20261118-1", 7));
    let posted = sink.next().await;
    assert_eq!((&*posted.method, &*posted.path), ("POST", "/base/"));
    assert_eq!(posted.header("authorization"), "Bearer tk_secret");
    let body = posted.json();
    let sequence = body["sequence_id"].as_str().unwrap().to_owned();
    assert_eq!(
        body,
        json!({"topic": "my-topic", "title": "claude: project", "message": "asks to run a command in project",
            "priority": 4, "tags": ["question"], "click": "https://hub.example.org/r/20261118-1",
            "sequence_id": sequence})
    );
    assert!(!posted.text.contains("secret-folder"), "content is minimal by default");
    outcomes(&notifier, |outcomes| outcomes.sent == 1).await;
    notifier.event(&resolved("20261118-1", 7));
    let deleted = sink.next().await;
    assert_eq!((&*deleted.method, &*deleted.path), ("DELETE", &*format!("/base/my-topic/{sequence}")));
    assert_eq!(deleted.header("authorization"), "Bearer tk_secret");
}

#[tokio::test]
async fn an_old_ntfy_server_that_cannot_delete_is_no_failure() {
    let mut sink = Sink::answering(|number| {
        if number == 0 {
            StatusCode::OK.into_response()
        } else {
            StatusCode::METHOD_NOT_ALLOWED.into_response()
        }
    })
    .await;
    let notifier = notifier(at_once(Endpoint::ntfy(&sink.url("/topic"), None).unwrap()));
    notifier.event(&asked("s", 7));
    sink.next().await;
    outcomes(&notifier, |outcomes| outcomes.sent == 1).await;
    notifier.event(&resolved("s", 7));
    sink.next().await;
    notifier.end(Duration::from_secs(10)).await;
    assert_eq!(notifier.outcomes()[0].1.failed, 0);
}

#[tokio::test]
async fn a_webhook_is_signed_and_names_the_question_until_it_is_resolved() {
    let mut sink = Sink::start().await;
    let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
    let key = Some(WebhookKey::parse(secret).unwrap());
    let mut target = at_once(webhook(&sink.url("/hook?key=1"), WebhookFormat::Standard { key }));
    target.content = Content::Full;
    let notifier = notifier(target);
    notifier.event(&asked("s", 7));
    let posted = sink.next().await;
    assert_eq!(posted.path, "/hook?key=1");
    let body = posted.json();
    assert_eq!(body["type"], "switchboard.question");
    assert_eq!((&body["data"]["session"], &body["data"]["question"]), (&json!("s"), &json!(7)));
    assert_eq!(body["data"]["text"], "asks to run a command in project\n$ rm -r secret-folder");
    // Checked as a receiver would, with another implementation of HMAC than the sender's request builder.
    let (id, time) = (posted.header("webhook-id"), posted.header("webhook-timestamp"));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"0123456789abcdef01234567");
    let signature = posted.header("webhook-signature").strip_prefix("v1,").unwrap();
    let signature = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, signature).unwrap();
    ring::hmac::verify(&key, format!("{id}.{time}.{}", posted.text).as_bytes(), &signature).unwrap();
    outcomes(&notifier, |outcomes| outcomes.sent == 1).await;
    notifier.event(&resolved("s", 7));
    let body = sink.next().await.json();
    assert_eq!(body["type"], "switchboard.question.resolved");
    assert_eq!((&body["data"]["question"], &body["data"]["by"]), (&json!(7), &json!("anna")));
}

#[tokio::test]
async fn a_retry_has_the_same_id_and_slack_and_telegram_get_text() {
    let mut sink = Sink::answering(|number| match number {
        0 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => StatusCode::NO_CONTENT.into_response(),
    })
    .await;
    let hook = notifier(at_once(webhook(&sink.url("/"), WebhookFormat::Standard { key: None })));
    hook.event(&asked("s", 1));
    let (first, second) = (sink.next().await, sink.next().await);
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert!(!first.headers.contains_key("webhook-signature"));
    let text = "claude: project\nasks to run a command in project\nhttps://hub.example.org/r/s";
    let slack = notifier(at_once(webhook(&sink.url("/slack"), WebhookFormat::Slack)));
    slack.event(&asked("s", 1));
    assert_eq!(sink.next().await.json(), json!({"text": text}));
    let telegram = WebhookFormat::Telegram { chat: json!(-100_123) };
    let telegram = notifier(at_once(webhook(&sink.url("/telegram"), telegram)));
    telegram.event(&asked("s", 1));
    assert_eq!(sink.next().await.json(), json!({"chat_id": -100_123, "text": text}));
}

async fn test_of(url: &str) -> (bool, String) {
    let target = at_once(webhook(url, WebhookFormat::Slack));
    send_test(&target, "http://127.0.0.1:4173", Vec::new()).await
}

#[tokio::test]
async fn redirects_are_not_followed_and_refusals_are_told() {
    let mut elsewhere = Sink::start().await;
    let address = elsewhere.url("/stolen");
    let sink = Sink::answering(move |number| match number {
        0 => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, address.clone())]).into_response(),
        1 => (StatusCode::FORBIDDEN, "no\u{1b}[31m entry").into_response(),
        _ => "thanks".into_response(),
    })
    .await;
    let url = sink.url("/SECRET-PATH");
    let (is_sent, response) = test_of(&url).await;
    assert!(!is_sent && response.starts_with("307"), "{response}");
    assert_eq!(test_of(&url).await, (false, "403 Forbidden no[31m entry".to_owned()));
    assert_eq!(test_of(&url).await, (true, "200 OK thanks".to_owned()));
    assert!(elsewhere.is_empty());
}

#[tokio::test]
async fn an_endless_response_is_not_read_to_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let flood = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 1024];
        let _ = socket.read(&mut buffer).await;
        socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536));
        // Until the other side closes the connection.
        while socket.write_all(chunk.as_bytes()).await.is_ok() {}
    });
    let (is_sent, response) = test_of(&format!("http://{address}/")).await;
    assert!(is_sent && response.len() < 1000, "{response}");
    flood.await.unwrap();
}

#[tokio::test]
async fn garbage_and_closed_ports_are_failures_that_do_not_show_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 1024];
        let _ = socket.read(&mut buffer).await;
        socket.write_all(b"\xff\xfe garbage \r\n\r\n").await.unwrap();
    });
    for _ in 0..2 {
        // The second time nobody listens.
        let (is_sent, response) = test_of(&format!("http://{address}/SECRET-PATH?key=SECRET")).await;
        assert!(!is_sent && response.starts_with(&format!("cannot reach http://{address}: ")), "{response}");
        assert!(!response.contains("SECRET"), "{response}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_hangs_is_given_up_after_ten_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let begun = tokio::time::Instant::now();
    let (is_sent, response) = test_of(&format!("http://{}/", listener.local_addr().unwrap())).await;
    assert!(!is_sent, "{response}");
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn answers_are_offered_only_for_whole_questions_and_options_that_hold_once() {
    let option = |id: &str, kind: &str| QuestionOption {
        id: id.to_owned(),
        name: format!("Say {id}\u{202e}"),
        kind: kind.to_owned(),
    };
    let question = |details: &str, is_complete| PendingQuestionEvent {
        id: 7,
        action: "asks to run a command",
        details: details.to_owned(),
        is_complete,
        options: vec![
            option("always", "allow_always"),
            option("yes", "allow_once"),
            option("never", "reject_always"),
            option("no", "reject_once"),
        ],
    };
    let long = "x".repeat(300);
    for (shown, can_answer, count) in [
        (question("$ ls", true), true, 2),
        (question("$ ls", true), false, 0),
        (question("$ ls", false), true, 0),
        (question(&long, true), true, 0),
        (question("$ ls \u{202e} x", true), true, 0),
    ] {
        let mut sink = Sink::start().await;
        let mut target = at_once(Endpoint::ntfy(&sink.url("/topic"), None).unwrap());
        (target.content, target.can_answer) = (Content::Full, can_answer);
        let notifier = notifier(target);
        let event = SessionEventKind::Asked(shown.clone());
        notifier.event(&SessionEvent::new("s", "claude", "/w", event));
        let body = sink.next().await.json();
        let actions = body["actions"].as_array().cloned().unwrap_or_default();
        assert_eq!(actions.len(), count, "{body}");
        if let [yes, no] = &actions[..] {
            assert_eq!((&yes["label"], &no["label"]), (&json!("Say yes"), &json!("Say no")));
            let code = yes["url"].as_str().unwrap().strip_prefix("https://hub.example.org/answer/").unwrap();
            outcomes(&notifier, |outcomes| outcomes.sent == 1).await;
            let answer = loop {
                match notifier.take_answer(code) {
                    Err(InvalidAnswer::TooEarly) => tokio::time::sleep(Duration::from_millis(50)).await,
                    other => break other.unwrap(),
                }
            };
            assert_eq!((&*answer.option, &*answer.target, &*answer.question), ("yes", "t", &shown));
            assert_eq!(notifier.take_answer(code), Err(InvalidAnswer::Unknown));
        }
    }
}

#[tokio::test]
async fn a_token_is_not_sent_unencrypted_to_another_machine() {
    let token = || Some(Secret::new("tk_secret"));
    let error = Endpoint::ntfy("http://ntfy.example.org/topic", token()).unwrap_err();
    assert!(error.contains("unencrypted") && !error.contains("tk_secret"), "{error}");
    assert!(Endpoint::ntfy("http://ntfy.example.org/topic", None).is_ok());
    assert!(Endpoint::ntfy("http://127.0.0.1:1/topic", token()).is_ok());
}
