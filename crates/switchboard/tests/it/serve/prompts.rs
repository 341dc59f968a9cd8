//! Prompts over plain HTTP: `POST /prompt`, and the result by polling and by webhook.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::block_on;
use super::hub::Hub;
use crate::agent_program::Place;
use crate::notify::Sink;

const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request with a token. Returns the status and the body.
fn send(hub: &Hub, token: &str, line: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(&hub.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        hub.address,
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn post(hub: &Hub, token: &str, body: &Value) -> (u16, Value) {
    let (status, body) = send(hub, token, "POST /prompt", &body.to_string());
    (status, serde_json::from_str(&body).unwrap_or(json!(body)))
}

/// Returns the result of a prompt when it is as expected.
fn result(hub: &Hub, token: &str, id: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let (status, body) = send(hub, token, &format!("GET /prompt/{id}?wait=1"), "");
        assert_eq!(status, 200, "{body}");
        let result: Value = serde_json::from_str(&body).unwrap();
        if is_expected(&result) {
            return result;
        }
        assert!(Instant::now() < until, "{result}");
    }
}

fn has_ended(result: &Value) -> bool {
    result.get("ended").is_some()
}

fn token(place: &Place, hub: &Hub, name: &str, role: &str) -> String {
    let run = place.run(&["tokens", "add", name, "--role", role, "--store", hub.store()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.trim().to_owned()
}

#[test]
fn a_prompt_runs_once_and_its_result_is_polled() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let wish = json!({"id": "nightly-1", "agent": "demo", "folder": place.work(), "text": "good morning"});
    let (status, accepted) = post(&hub, &hub.token, &wish);
    assert_eq!((status, &accepted["id"]), (202, &json!("nightly-1")), "{accepted}");
    let done = result(&hub, &hub.token, "nightly-1", has_ended);
    assert_eq!((&done["status"], &done["stop_reason"]), (&json!("done"), &json!("end_turn")), "{done}");
    assert_eq!(done["text"], "You said: good morning");
    let session = done["session"].as_str().unwrap();
    assert_eq!(done["url"], format!("http://{}/r/{session}", hub.address));
    let (status, again) = post(&hub, &hub.token, &wish);
    assert_eq!((status, &again), (200, &done), "the same request is not run again");
    let other = json!({"id": "nightly-1", "agent": "demo", "folder": place.work(), "text": "good night"});
    assert_eq!(post(&hub, &hub.token, &other).0, 409);
    let listed = place.run(&["sessions", "list", "--json", "--store", hub.store()]).json_lines();
    assert_eq!(listed.len(), 1, "{listed:?}");
    // The session can be continued, by its id alone.
    let more = json!({"id": "nightly-2", "session": session, "text": "more"});
    assert_eq!(post(&hub, &hub.token, &more).0, 202);
    let done = result(&hub, &hub.token, "nightly-2", has_ended);
    assert_eq!((&done["text"], &done["session"]), (&json!("You said: more"), &json!(session)));
}

#[test]
fn a_question_waits_for_another_client() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let wish = json!({"id": "q", "folder": place.work(), "text": "command"});
    assert_eq!(post(&hub, &hub.token, &wish).0, 202);
    let waiting = result(&hub, &hub.token, "q", |result| result["status"] == "waiting");
    assert_eq!(waiting["questions"], 1);
    block_on(async {
        let mut client = hub.client(2).await;
        let session = waiting["session"].as_str().unwrap();
        client.ask("session/resume", json!({"sessionId": session, "cwd": place.work()})).await;
        let question = client.question().await;
        client.allow(&question).await;
        client.until_idle().await;
    });
    assert_eq!(result(&hub, &hub.token, "q", has_ended)["status"], "done");
}

#[test]
fn failures_are_results() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    for (id, text) in [("fail", "fail"), ("refuse", "refuse"), ("crash", "crash")] {
        let wish = json!({"id": id, "folder": place.work(), "text": text});
        assert_eq!(post(&hub, &hub.token, &wish).0, 202);
        let failed = result(&hub, &hub.token, id, has_ended);
        assert_eq!(failed["status"], "failed", "{failed}");
        assert!(failed["error"]["message"].is_string(), "{failed}");
    }
}

#[test]
fn roles_roots_and_mistakes_are_refused() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let (view, ben, eva) = (
        token(&place, &hub, "viewer", "view"),
        token(&place, &hub, "ben", "use"),
        token(&place, &hub, "eva", "use"),
    );
    let wish = |id: &str| json!({"id": id, "agent": "demo", "folder": place.work(), "text": "hi"});
    for (token, body, status, words) in [
        (&*view, wish("a"), 403, "needs the role use"),
        ("sb_wrong", wish("a"), 401, "unknown or was revoked"),
        (&ben, json!({"id": "a", "agent": "nobody", "folder": place.work(), "text": "hi"}), 404, "no agent"),
        (&ben, json!({"id": "a", "folder": "/", "text": "hi"}), 400, "outside the roots"),
        (&ben, json!({"id": "a", "folder": "work", "text": "hi"}), 400, "not an absolute path"),
        (&ben, json!({"id": "a", "text": "hi"}), 400, "\"folder\" is required"),
        (&ben, json!({"id": "../a", "folder": place.work(), "text": "hi"}), 400, "letters, digits"),
        (&ben, json!({"id": "a", "session": "nothing", "text": "hi"}), 404, "there is no session"),
        (&ben, json!({"id": "a", "folder": place.work(), "text": "hi", "webhook": "x"}), 400, "no webhook"),
        (
            &ben,
            json!({"id": "a", "folder": place.work(), "text": "hi", "url": "http://x"}),
            400,
            "unknown key",
        ),
    ] {
        let (found, answer) = post(&hub, token, &body);
        assert_eq!(found, status, "{body}: {answer}");
        assert!(answer.as_str().unwrap().contains(words), "{body}: {answer}");
    }
    assert_eq!(send(&hub, &ben, "POST /prompt", "{").0, 400);
    assert_eq!(send(&hub, &ben, "GET /prompt", "").0, 405);
    // Ids and results belong to a token.
    assert_eq!(post(&hub, &ben, &wish("mine")).0, 202);
    let done = result(&hub, &ben, "mine", has_ended);
    assert_eq!(send(&hub, &eva, "GET /prompt/mine", "").0, 404);
    let session = done["session"].as_str().unwrap();
    let theirs = json!({"id": "theirs", "session": session, "text": "hi"});
    assert_eq!(post(&hub, &eva, &theirs).0, 404, "a session that is not shared is not there");
    assert_eq!(post(&hub, &eva, &wish("mine")).0, 202, "another token has its own ids");
    // A page of another server is refused even with a token.
    let body = wish("b").to_string();
    let head = format!(
        "POST /prompt HTTP/1.1\nOrigin: http://evil.example\nAuthorization: Bearer {ben}\nContent-Length: {}",
        body.len()
    );
    assert!(hub.http(&head).starts_with("HTTP/1.1 403 "));
}

#[test]
fn a_prompt_that_was_interrupted_by_a_crash_is_not_run_again() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    // The token of the store, because that of the launch is new after each start.
    let ben = token(&place, &hub, "ben", "use");
    let wish = json!({"id": "once", "folder": place.work(), "text": "command"});
    assert_eq!(post(&hub, &ben, &wish).0, 202);
    result(&hub, &ben, "once", |result| result["status"] == "waiting");
    hub.kill();
    let hub = Hub::start(&place, &["demo"]);
    let (status, again) = post(&hub, &ben, &wish);
    assert_eq!((status, &again["status"]), (200, &json!("failed")), "{again}");
    assert_eq!(again["error"]["message"], "the hub was restarted while the prompt ran");
    assert_eq!(result(&hub, &ben, "once", has_ended), again);
}

#[test]
fn the_result_is_sent_to_a_webhook_with_a_signature() {
    let (place, sink) = (Place::new(), Sink::start("200 OK"));
    let hook = json!({"webhook": format!("http://{}/SECRET-PATH", sink.address), "name": "ci",
        "secret": {"env": "HOOK_SECRET"}, "events": ["died"]});
    let slack =
        json!({"webhook": format!("http://{}/slack", sink.address), "name": "chat", "format": "slack"});
    crate::notify::configure(&place, &[hook, slack]);
    let mut command = place.command(&["serve"]);
    command.env("HOOK_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3");
    let hub = Hub::start_command(&place, "hub", command, &["demo"]).unwrap();
    let wish = |webhook: &str| json!({"id": "w", "folder": place.work(), "text": "hi", "webhook": webhook});
    assert_eq!(post(&hub, &hub.token, &wish("chat")).0, 400, "chats take no results");
    assert_eq!(post(&hub, &hub.token, &wish("ci")).0, 202);
    let received = sink.next();
    assert_eq!(received.line, "POST /SECRET-PATH");
    assert!(received.headers.contains("webhook-signature: v1,"), "{}", received.headers);
    let body = &received.body;
    assert_eq!(
        (&body["type"], &body["data"]["status"]),
        (&json!("switchboard.prompt"), &json!("done")),
        "{body}"
    );
    assert_eq!((&body["data"]["id"], &body["data"]["text"]), (&json!("w"), &json!("You said: hi")));
    assert_eq!(body["data"], result(&hub, &hub.token, "w", has_ended));
    assert!(sink.is_empty());
}
