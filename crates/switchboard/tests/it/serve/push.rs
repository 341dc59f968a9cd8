//! Web Push: subscriptions of browsers, and what their push service receives.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_testkit::PushBrowser;

use super::block_on;
use super::hub::Hub;
use crate::agent_program::Place;
use crate::notify::Sink;

const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request. Returns its status, head and body.
fn send(hub: &Hub, head: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(&hub.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = head.replace('\n', "\r\n");
    write!(
        stream,
        "{head}\r\nHost: {0}\r\nOrigin: http://{0}\r\nConnection: close\r\nContent-Length: {1}\r\n\r\n{body}",
        hub.address,
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
}

/// A browser that is signed in.
pub(super) struct SignedIn {
    headers: String,
}

impl SignedIn {
    pub(super) fn by_token(hub: &Hub, token: &str) -> Self {
        let head = format!("POST /in/token HTTP/1.1\nAuthorization: Bearer {token}");
        let (status, head, key) = send(hub, &head, "");
        assert_eq!(status, 200, "{key}");
        let head = head.to_lowercase();
        let cookie = head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap().to_owned();
        SignedIn { headers: format!("Cookie: {cookie}\nX-Switchboard-Key: {key}") }
    }

    pub(super) fn ask(&self, hub: &Hub, line: &str, body: &Value) -> (u16, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, _, answer) = send(hub, &format!("{line} HTTP/1.1\n{}", self.headers), &body);
        (status, answer)
    }
}

fn subscription(endpoint: &str, browser: &PushBrowser) -> Value {
    let [p256dh, auth] = browser.keys();
    json!({"endpoint": endpoint, "expirationTime": null, "keys": {"p256dh": p256dh, "auth": auth}})
}

fn token(place: &Place, hub: &Hub, arguments: &[&str]) -> String {
    let run = place.run(&[&["tokens", "add"], arguments, &["--store", hub.store()]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.trim().to_owned()
}

/// Configures the sink as a push service.
fn allow(place: &Place, sink: &Sink) -> String {
    let service = format!("http://{}", sink.address);
    place.write(
        "home/.config/switchboard/config.json",
        &json!({"hub": {"push_services": [service]}}).to_string(),
    );
    service
}

/// Waits until the metrics have a line.
fn metrics(hub: &Hub, words: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let head = format!("GET /metrics HTTP/1.1\nAuthorization: Bearer {}", hub.token);
        let text = hub.http(&head);
        if text.contains(words) {
            return;
        }
        assert!(Instant::now() < until, "{words}: {text}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_browser_gets_encrypted_questions_of_the_sessions_that_its_token_sees() {
    let (place, sink) = (Place::new(), Sink::start("201 Created"));
    let service = allow(&place, &sink);
    let hub = Hub::start(&place, &["demo"]);
    let anna = token(&place, &hub, &["anna", "--role", "answer", "--all"]);
    let ben = token(&place, &hub, &["ben", "--role", "answer"]);
    let (annas, bens) = (SignedIn::by_token(&hub, &anna), SignedIn::by_token(&hub, &ben));
    let (status, key) = annas.ask(&hub, "GET /in/push", &Value::Null);
    assert_eq!(status, 200, "{key}");
    let key: Value = serde_json::from_str(&key).unwrap();
    assert_eq!(key["key"].as_str().unwrap().len(), 87, "an uncompressed point");
    let browser = PushBrowser::default();
    let wish = subscription(&format!("{service}/send/SECRET-A"), &browser);
    assert_eq!(annas.ask(&hub, "POST /in/push", &wish), (204, String::new()));
    let other = PushBrowser::default();
    let wish = subscription(&format!("{service}/send/SECRET-B"), &other);
    assert_eq!(bens.ask(&hub, "POST /in/push", &wish).0, 204);
    let received = block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "command").await;
        let question = client.question().await;
        // After ten seconds.
        let received = sink.arrival().await;
        assert_eq!(received.line, "POST /send/SECRET-A");
        for header in [
            "content-encoding: aes128gcm",
            "ttl: 3600",
            "urgency: high",
            "topic: ",
            "authorization: vapid t=",
        ] {
            assert!(received.headers.contains(header), "{header}: {}", received.headers);
        }
        client.allow(&question).await;
        client.until_idle().await;
        let withdrawn = sink.arrival().await;
        assert_eq!(withdrawn.line, "POST /send/SECRET-A");
        assert!(withdrawn.headers.contains("urgency: normal"), "{}", withdrawn.headers);
        (session, received)
    });
    let (session, received) = received;
    let message: Value = serde_json::from_str(&browser.read(&received.bytes)).unwrap();
    assert_eq!(message["event"], "question");
    assert_eq!(message["text"], "asks to run a command in work", "content is minimal");
    assert_eq!((&message["url"], &message["resolved"]), (&json!(format!("/r/{session}")), &json!(false)));
    let topic = received.headers.split("topic: ").nth(1).unwrap().lines().next().unwrap().trim();
    assert_eq!(message["tag"], topic);
    assert!(sink.is_empty(), "ben does not see the session");
    // The subscription ends with its token.
    metrics(&hub, "target=\"push-anna-");
    assert_eq!(place.run(&["tokens", "revoke", "anna", "--store", hub.store()]).code, 0);
    let until = Instant::now() + PATIENCE;
    while hub
        .http(&format!("GET /metrics HTTP/1.1\nAuthorization: Bearer {}", hub.token))
        .contains("push-anna")
    {
        assert!(Instant::now() < until);
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert_ne!(annas.ask(&hub, "POST /in/push", &subscription(&service, &PushBrowser::default())).0, 204);
}

#[test]
fn a_subscription_that_is_gone_is_deleted_and_others_survive_a_restart() {
    let (place, sink, gone) = (Place::new(), Sink::start("201 Created"), Sink::start("410 Gone"));
    let services = [&sink, &gone].map(|sink| format!("http://{}", sink.address));
    let config = json!({"hub": {"push_services": services}});
    place.write("home/.config/switchboard/config.json", &config.to_string());
    let hub = Hub::start(&place, &["demo"]);
    let anna = token(&place, &hub, &["anna", "--role", "use", "--all"]);
    let page = SignedIn::by_token(&hub, &anna);
    let key = page.ask(&hub, "GET /in/push", &Value::Null).1;
    let browser = PushBrowser::default();
    for (service, browser) in [(&services[0], &browser), (&services[1], &PushBrowser::default())] {
        let wish = subscription(&format!("{service}/x"), browser);
        assert_eq!(page.ask(&hub, "POST /in/push", &wish).0, 204);
    }
    assert_eq!(hub.end(), Some(0));
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "crash").await;
        client.until_idle().await;
        assert_eq!(gone.arrival().await.line, "POST /x");
        let received = sink.arrival().await;
        let message: Value = serde_json::from_str(&browser.read(&received.bytes)).unwrap();
        assert_eq!(message["event"], "died");
    });
    let until = Instant::now() + PATIENCE;
    let targets = || {
        let text = hub.http(&format!("GET /metrics HTTP/1.1\nAuthorization: Bearer {}", hub.token));
        text.matches("outcome=\"suppressed\"").count()
    };
    while targets() != 1 {
        assert!(Instant::now() < until, "{} targets", targets());
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let page = SignedIn::by_token(&hub, &anna);
    assert_eq!(page.ask(&hub, "GET /in/push", &Value::Null).1, key, "the key of the hub stays");
    let unsubscribe = json!({"endpoint": format!("{}/x", services[0])});
    assert_eq!(page.ask(&hub, "DELETE /in/push", &unsubscribe).0, 204);
    assert_eq!(targets(), 0);
}

#[test]
fn only_browsers_that_are_signed_in_subscribe_and_only_at_known_push_services() {
    let (place, sink) = (Place::new(), Sink::start("201 Created"));
    let hub = Hub::start(&place, &["demo"]);
    let page = SignedIn::by_token(&hub, &hub.token);
    let browser = PushBrowser::default();
    for endpoint in [
        format!("http://{}/x", sink.address),
        format!("http://{}/acp", hub.address),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://intranet.example/x".to_owned(),
        "file:///etc/passwd".to_owned(),
        "https://user:pass@fcm.googleapis.com/x".to_owned(),
    ] {
        let (status, words) = page.ask(&hub, "POST /in/push", &subscription(&endpoint, &browser));
        assert_eq!(status, 400, "{endpoint}: {words}");
    }
    assert_eq!(page.ask(&hub, "POST /in/push", &json!({"endpoint": 7})).0, 400);
    let wish = subscription("https://fcm.googleapis.com/x", &browser);
    let stranger = SignedIn { headers: "X-Switchboard-Key: 00".to_owned() };
    for line in ["GET /in/push", "POST /in/push", "DELETE /in/push"] {
        assert_eq!(stranger.ask(&hub, line, &wish).0, 403, "{line}");
    }
    let bearer = SignedIn { headers: format!("Authorization: Bearer {}", hub.token) };
    assert_eq!(bearer.ask(&hub, "POST /in/push", &wish).0, 403, "a token alone is no browser");
    assert!(sink.is_empty());
    let worker = hub.http("GET /sw.js HTTP/1.1");
    assert!(worker.starts_with("HTTP/1.1 200 ") && worker.contains("notificationclick"), "{worker}");
    assert!(worker.contains("worker-src 'self'"), "{worker}");
}
