//! Notifications of a hub, with an ntfy-compatible server on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::serve::block_on;
use crate::serve::hub::Hub;

const PATIENCE: Duration = Duration::from_secs(60);

/// A request that the server received.
#[derive(Debug)]
pub(crate) struct Received {
    /// Method and path.
    pub(crate) line: String,
    pub(crate) headers: String,
    pub(crate) body: Value,
    /// The body as it was sent.
    pub(crate) bytes: Vec<u8>,
}

/// An HTTP server that keeps what it receives. Its thread ends with the process.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    received: Receiver<Received>,
}

impl Sink {
    /// Starts a server that responds with a status line.
    pub(crate) fn start(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let (mut line, mut headers, mut length) = (String::new(), String::new(), 0);
                reader.read_line(&mut line).unwrap();
                loop {
                    let mut header = String::new();
                    reader.read_line(&mut header).unwrap();
                    if header.trim().is_empty() {
                        break;
                    }
                    let header = header.to_lowercase();
                    if let Some(value) = header.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    headers += &header;
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let bytes = body;
                let body = serde_json::from_slice(&bytes).unwrap_or_default();
                let line = line.trim().trim_end_matches(" HTTP/1.1").to_owned();
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
                if sender.send(Received { line, headers, body, bytes }).is_err() {
                    return;
                }
            }
        });
        Sink { address, received }
    }

    pub(crate) fn next(&self) -> Received {
        self.received.recv_timeout(PATIENCE).expect("no notification arrives")
    }

    /// The same, while the clients of this runtime go on.
    pub(crate) async fn arrival(&self) -> Received {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(received) = self.received.try_recv() {
                return received;
            }
            assert!(Instant::now() < until, "no notification arrives");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.received.try_recv().is_err()
    }

    /// Returns a topic of this server as a target.
    fn topic(&self, more: &Value) -> Value {
        let mut target = json!({"ntfy": format!("http://{}/SECRET-TOPIC", self.address)});
        target.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        target
    }
}

pub(crate) fn configure(place: &Place, targets: &[Value]) {
    let text = json!({"hub": {"notify": targets}}).to_string();
    place.write("home/.config/switchboard/config.json", &text);
}

/// Waits for words in the status of a hub.
fn status(place: &Place, hub: &Hub, words: &str) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut command = place.command(&["hub", "status", &format!("http://{}", hub.address)]);
        command.env("SWITCHBOARD_TOKEN", &hub.token);
        let run = place.run_command(command);
        if run.stdout.contains(words) {
            return run.stdout;
        }
        assert!(Instant::now() < until, "{}{}", run.stdout, run.stderr);
    }
}

#[test]
fn a_question_is_sent_with_minimal_content_and_withdrawn_when_it_is_answered() {
    let (place, sink) = (Place::new(), Sink::start("200 OK"));
    place.write("home/token", "tk_SECRET\n");
    configure(&place, &[sink.topic(&json!({"token": {"file": "~/token"}, "after": "0s"}))]);
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "command").await;
        let question = client.question().await;
        let posted = sink.arrival().await;
        assert_eq!(posted.line, "POST /");
        assert!(posted.headers.contains("authorization: bearer tk_secret"), "{}", posted.headers);
        let body = &posted.body;
        assert_eq!(
            (&body["topic"], &body["message"]),
            (&json!("SECRET-TOPIC"), &json!("asks to run a command in work"))
        );
        assert_eq!(body["click"], format!("http://{}/r/{session}", hub.address));
        let command = question["params"]["subject"]["command"].as_str().unwrap();
        assert!(!body.to_string().contains(command), "{body}");
        status(&place, &hub, "notify      ntfy: 1 sent\n");
        client.allow(&question).await;
        let deleted = sink.arrival().await;
        assert_eq!(deleted.line, format!("DELETE /SECRET-TOPIC/{}", body["sequence_id"].as_str().unwrap()));
        client.until_idle().await;
    });
    assert!(sink.is_empty(), "a short turn is not sent");
    assert_eq!(hub.end(), Some(0));
}

#[test]
fn a_question_is_answered_from_its_notification_once() {
    let (place, sink) = (Place::new(), Sink::start("200 OK"));
    place.write("home/token", "tk_SECRET\n");
    let target =
        sink.topic(&json!({"token": {"file": "~/token"}, "after": "0s", "content": "full", "answer": true}));
    configure(&place, &[target]);
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "command").await;
        client.question().await;
        let body = sink.arrival().await.body;
        let actions = body["actions"].as_array().unwrap();
        let address = format!("http://{}", hub.address);
        let paths: Vec<String> = actions
            .iter()
            .map(|action| action["url"].as_str().unwrap().strip_prefix(&address).unwrap().to_owned())
            .collect();
        let request = |method: &str, path: &str| {
            let answer = hub.http(&format!("{method} {path} HTTP/1.1\nContent-Length: 0"));
            answer.split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!(request("GET", &paths[0]), "405", "a preview of the link changes nothing");
        let until = Instant::now() + PATIENCE;
        // Before half a second has passed, nobody can have read it.
        let status = loop {
            let status = request("POST", &paths[0]);
            if status != "409" {
                break status;
            }
            assert!(Instant::now() < until);
        };
        assert_eq!(status, "200");
        client.until_idle().await;
        assert_eq!(request("POST", &paths[0]), "404", "the second time");
        assert_eq!(request("POST", &paths[1]), "404", "the other option");
        assert_eq!(request("POST", "/answer/0123456789abcdef0123456789abcdef"), "404");
        let shown = place.run(&["sessions", "show", &session, "--wire", "--store", hub.store()]);
        assert!(shown.stdout.contains("notification ntfy"), "{}", shown.stdout);
    });
}

#[test]
fn turns_that_fail_and_agents_that_die_are_sent() {
    let (place, sink) = (Place::new(), Sink::start("200 OK"));
    configure(&place, &[sink.topic(&json!({"min_turn": "0s", "content": "full"}))]);
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        for (prompt, words, priority) in
            [("hello", "is done after", 3), ("fail", "has failed", 4), ("crash", "has ended unexpectedly", 4)]
        {
            client.prompt(&session, prompt).await;
            let body = sink.arrival().await.body;
            assert!(body["message"].as_str().unwrap().starts_with(words), "{body}");
            assert_eq!(body["priority"], priority);
            assert!(!body.to_string().contains(&format!(": {prompt}")), "prompts are never sent: {body}");
            client.until_idle().await;
        }
    });
}

#[test]
fn a_killed_hub_withdraws_its_notifications_at_the_next_start() {
    let (place, sink) = (Place::new(), Sink::start("200 OK"));
    configure(&place, &[sink.topic(&json!({"after": "0s"}))]);
    let hub = Hub::start(&place, &["demo"]);
    let sequence = block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "command").await;
        client.question().await;
        sink.arrival().await.body["sequence_id"].as_str().unwrap().to_owned()
    });
    status(&place, &hub, "ntfy: 1 sent");
    hub.kill();
    assert!(sink.is_empty());
    let hub = Hub::start(&place, &["demo"]);
    let mut lines = [sink.next(), sink.next()].map(|received| {
        format!("{} {}", received.line, received.body["message"].as_str().unwrap_or_default())
    });
    lines.sort();
    assert_eq!(lines[0], format!("DELETE /SECRET-TOPIC/{sequence} "));
    assert_eq!(lines[1], "POST / has ended unexpectedly in work", "the work was interrupted");
    drop(hub);
}

#[test]
fn a_question_that_a_restart_interrupts_before_its_delay_is_not_sent() {
    let (place, sink) = (Place::new(), Sink::start("200 OK"));
    configure(&place, &[sink.topic(&json!({"after": "1h"}))]);
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "command").await;
        client.question().await;
    });
    hub.kill();
    let hub = Hub::start(&place, &["demo"]);
    assert_eq!(sink.next().body["message"], "has ended unexpectedly in work");
    status(&place, &hub, "ntfy: 1 sent");
    assert!(sink.is_empty());
    assert_eq!(hub.end(), Some(0), "the orderly end tells nobody");
    assert!(sink.is_empty());
}

#[test]
fn failures_are_told_by_status_doctor_and_test_without_secrets() {
    let (place, sink) = (Place::new(), Sink::start("403 Forbidden"));
    let hook = json!({"webhook": {"env": "HOOK_URL"}, "format": "slack", "after": "0s"});
    configure(&place, &[hook]);
    let url = format!("http://{}/SECRET-PATH", sink.address);
    let mut command = place.command(&["serve"]);
    command.env("HOOK_URL", &url);
    // The agent says whether it has the variable.
    let agent = [
        "--",
        "sh",
        "-c",
        "echo \"hook=${HOOK_URL:-none}\" >&2; exec \"$0\" demo-agent",
        env!("CARGO_BIN_EXE_switchboard"),
    ];
    let log = place.home().join("log");
    command.stderr(std::fs::File::create(&log).unwrap());
    let store = place.home().join("hub.sqlite3");
    command.args(["--listen", "127.0.0.1:0", "--store"]).arg(&store).arg("--token-file");
    command.arg(place.home().join("token")).args(agent);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
    let token = std::fs::read_to_string(place.home().join("token")).unwrap().trim().to_owned();
    block_on(async {
        let mut client = crate::serve::hub::Client::at(&address, &token).await.unwrap();
        client.initialize(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "command").await;
        client.question().await;
        assert_eq!(sink.arrival().await.line, "POST /SECRET-PATH");
    });
    let ask = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("SWITCHBOARD_TOKEN", &token).env("HOOK_URL", &url);
        place.run_command(command)
    };
    let hub = format!("http://{address}");
    let until = Instant::now() + PATIENCE;
    let status = loop {
        let run = ask(&["hub", "status", &hub]);
        if run.stdout.contains("failed") {
            break run.stdout;
        }
        assert!(Instant::now() < until, "{}", run.stdout);
    };
    assert!(status.contains("slack: 0 sent, 1 failed, last failed 403 just now"), "{status}");
    let doctor = ask(&["doctor", "--no-agents", "--hub", &hub]);
    assert_eq!(doctor.code, 1);
    assert!(doctor.stdout.contains("slack: 0 sent, 1 failed, last failed 403"), "{}", doctor.stdout);
    let test = ask(&["hub", "notify", "--test"]);
    assert_eq!((test.code, &*test.stdout), (1, "slack: failed: 403 Forbidden\n"), "{}", test.stderr);
    let unknown = ask(&["hub", "notify", "--test", "phone"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("configured targets: slack"), "{}", unknown.stderr);
    crate::agent_program::signal("TERM", child.id());
    assert!(child.wait().unwrap().success());
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("hook=none"), "agents do not get the secret: {log}");
    for text in [&log, &status, &doctor.stdout, &doctor.stderr, &test.stdout, &test.stderr] {
        assert!(!text.contains("SECRET-PATH"), "{text}");
    }
}

#[test]
fn mistakes_in_the_configuration_are_told_and_do_not_stop_the_hub() {
    let place = Place::new();
    configure(&place, &[json!({"ntfy": "https://ntfy.example.org/TOPIC", "token": "tk_plain"})]);
    let doctor = place.run(&["doctor", "--no-agents", "--json"]);
    assert!(doctor.stdout.contains("the setting hub.notify, target 1: token: "), "{}", doctor.stdout);
    let test = place.run(&["hub", "notify", "--test"]);
    assert_eq!(test.code, 2);
    assert!(test.stderr.contains("there are no targets"), "{}", test.stderr);
    assert!(!(doctor.stdout + &test.stderr).contains("tk_plain"));
    let hub = Hub::start(&place, &["demo"]);
    assert_eq!(hub.end(), Some(0));
}
