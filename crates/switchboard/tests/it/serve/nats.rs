//! A hub with its log on a NATS server.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};
use switchboard_testkit::{Gate, NatsServer};

use super::hub::{Client, Hub};
use super::{block_on, cursors, shown, text};
use crate::agent_program::Place;

/// Timeout for the detection of a failure or a recovery of the servers, on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Returns a directory with a NATS server in its home.
pub(super) fn place_with_server(arguments: &[&str]) -> Option<(Place, NatsServer)> {
    let place = Place::new();
    let folder = place.home().join("nats");
    std::fs::create_dir_all(&folder).unwrap();
    let server = NatsServer::start_with(&folder, arguments)?;
    Some((place, server))
}

/// Deletes all local files of a hub.
fn lose_store(place: &Place) {
    for entry in std::fs::read_dir(place.home()).unwrap().flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with("hub.sqlite3") {
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
        }
    }
}

/// Returns the cursors and the content of a session for a new client.
async fn replayed(client: &mut Client, session: &str, place: &Place) -> (Vec<u64>, Vec<(String, String)>) {
    let resume = json!({"sessionId": session, "cwd": place.work(), "replayFrom": {"type": "start"}});
    let resumed = client.ask("session/resume", resume).await;
    assert!(resumed.get("error").is_none(), "{resumed}");
    let seen: Vec<Value> = client.seen.drain(..).collect();
    let mut places = cursors(&seen);
    // The last one is the state again.
    places.pop();
    (places, shown(&seen))
}

#[test]
fn sessions_outlive_the_machine_of_their_hub() {
    let Some((place, server)) = place_with_server(&["--jetstream", "--user", "me", "--pass", "secret"])
    else {
        return;
    };
    let credentials = place.home().join("credentials");
    std::fs::write(&credentials, "me:secret\n").unwrap();
    let address = server.address();
    let arguments =
        ["--session-log", &address, "--session-log-credentials", credentials.to_str().unwrap(), "demo"];
    let hub = Hub::start(&place, &arguments);
    let (session, said) = block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "hello").await;
        let updates = client.until_idle().await;
        (session, shown(&updates))
    });
    hub.kill();
    lose_store(&place);

    let hub = Hub::start(&place, &arguments);
    block_on(async {
        let mut client = hub.client(2).await;
        assert_eq!(replayed(&mut client, &session, &place).await.1, said);
        // The session continues.
        client.prompt(&session, "hello").await;
        assert!(!text(&client.until_idle().await).is_empty());
    });
    assert_eq!(hub.end(), Some(0));

    // The local copy can be rebuilt, and searched like any store.
    let store = place.home().join("hub.sqlite3");
    let store = store.to_str().unwrap();
    let rebuilt = place.run(&[
        "hub",
        "rebuild",
        "--store",
        store,
        "--session-log",
        &address,
        "--session-log-credentials",
        arguments[3],
    ]);
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.stderr);
    assert!(rebuilt.stderr.contains("rebuilt 1 sessions"), "{}", rebuilt.stderr);
    let list = place.run(&["sessions", "list", "--store", store]);
    assert!(list.stdout.contains(&session), "{}", list.stdout);
}

#[test]
fn without_its_servers_a_hub_shows_what_it_has_and_goes_on_when_they_are_back() {
    let Some((place, mut server)) = place_with_server(&["--jetstream"]) else { return };
    let hub = Hub::start(&place, &["--session-log", &server.address(), "demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "hello").await;
        client.until_idle().await;

        server.kill();
        // A prompt before the failure is detected ends with the connection.
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
        let begun = Instant::now();
        let refusal = loop {
            assert!(begun.elapsed() < PATIENCE);
            let mut impatient = hub.client(2).await;
            let new = json!({"cwd": place.work(), "mcpServers": []});
            let Some(answer) = impatient.ask_within("session/new", new, PATIENCE).await else { continue };
            if answer["error"]["data"]["log"].is_string() {
                break impatient.ask("session/prompt", prompt.clone()).await;
            }
        };
        let reason = refusal["error"]["message"].as_str().unwrap_or_default();
        assert!(reason.contains("cannot reach the log at nats://127.0.0.1:"), "{refusal}");
        let mut reader = hub.client(2).await;
        let list = reader.ask("session/list", json!({})).await;
        assert_eq!(list["result"]["sessions"][0]["sessionId"], *session, "{list}");
        let (places, said) = replayed(&mut reader, &session, &place).await;
        assert!(!places.is_empty() && !said.is_empty());

        server.restart();
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE);
            let answer = reader.ask("session/prompt", prompt.clone()).await;
            if answer.get("error").is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // The session may be reported as idle before the restarted agent works on the prompt.
        while text(&reader.until_idle().await).is_empty() {}
        let mut late = hub.client(2).await;
        let (places, _) = replayed(&mut late, &session, &place).await;
        assert!(places.is_sorted_by(|one, other| one < other), "{places:?}");
    });
    assert_eq!(hub.end(), Some(0));
}

#[test]
fn readers_do_not_wait_for_writers() {
    let Some((place, server)) = place_with_server(&["--jetstream"]) else { return };
    let gate = Gate::start(([127, 0, 0, 1], server.port()).into()).unwrap();
    let hub = Hub::start(&place, &["--session-log", &format!("nats://{}", gate.address()), "demo"]);
    block_on(async {
        let mut reader = hub.client(2).await;
        let read = reader.new_session(&place).await;
        reader.prompt(&read, "hello").await;
        reader.until_idle().await;
        let (whole, _) = replayed(&mut reader, &read, &place).await;
        let mut writer = hub.client(2).await;
        let written = writer.new_session(&place).await;
        writer.prompt(&written, "hello").await;
        writer.until_idle().await;

        gate.open(false);
        writer.prompt(&written, "hello").await;
        let (mut looks, mut longest) = (0, Duration::ZERO);
        // Its connection ends when the failure of the log is detected.
        while !writer.end.is_finished() {
            let begun = Instant::now();
            let list = reader.ask("session/list", json!({})).await;
            assert_eq!(list["result"]["sessions"].as_array().map(Vec::len), Some(2), "{list}");
            let mut late = hub.client(2).await;
            assert_eq!(replayed(&mut late, &read, &place).await.0, whole);
            looks += 1;
            longest = longest.max(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        eprintln!("{looks} looks while somebody waited for the servers, the longest {longest:?}");
        // If all clients waited, there would be two: one before and one after the failure.
        assert!(looks > 2, "{looks}");
        let reason = writer.ended().await;
        assert!(reason.contains("cannot write the log"), "{reason}");

        gate.open(true);
        for session in [&written, &read] {
            let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
            let begun = Instant::now();
            let mut again = hub.client(2).await;
            replayed(&mut again, session, &place).await;
            while again.ask("session/prompt", prompt.clone()).await.get("error").is_some() {
                assert!(begun.elapsed() < PATIENCE);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            // The interrupted turn is sent first.
            again.until(|message| message["params"]["update"]["stopReason"] == "end_turn").await;
            assert!(!text(again.seen.make_contiguous()).is_empty());
            let mut late = hub.client(2).await;
            let (places, _) = replayed(&mut late, session, &place).await;
            assert!(places.is_sorted_by(|one, other| one < other), "{places:?}");
        }
    });
    assert_eq!(hub.end(), Some(0));
}

#[test]
fn problems_of_the_servers_are_reported_with_the_setting() {
    let place = Place::new();
    let store = place.home().join("hub.sqlite3");
    let serve = |log: &str, more: &[&str]| {
        let mut arguments = vec![
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--store",
            store.to_str().unwrap(),
            "--session-log",
            log,
        ];
        arguments.extend(more);
        arguments.push("demo");
        place.run(&arguments)
    };
    for (log, problem) in [
        ("http://127.0.0.1:4222", "invalid NATS server address"),
        ("nats://me:secret@127.0.0.1:1", "must not contain credentials"),
        ("nats://127.0.0.1:1", "no NATS server answers at nats://127.0.0.1:1"),
    ] {
        let refused = serve(log, &[]);
        assert_eq!(refused.code, 1, "{log}: {}", refused.stderr);
        assert!(refused.stderr.contains(problem), "{log}: {}", refused.stderr);
        assert!(!refused.stderr.contains("secret"), "{log}: {}", refused.stderr);
    }
    let missing = serve("nats://127.0.0.1:1", &["--session-log-credentials", "/nowhere/file"]);
    assert!(missing.stderr.contains("cannot read /nowhere/file"), "{}", missing.stderr);
    let Some((_place, plain)) = place_with_server(&[]) else { return };
    let refused = serve(&plain.address(), &[]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("JetStream is not enabled"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--jetstream"), "{}", refused.stderr);
}

/// Returns the subjects of sessions in the stream.
async fn subjects(server: &NatsServer) -> Vec<String> {
    let client = async_nats::connect(server.address()).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("SWITCHBOARD").await.unwrap();
    let mut found = stream.info_with_subjects("switchboard.log.*").await.unwrap();
    let mut subjects = Vec::new();
    while let Some(subject) = found.next().await {
        subjects.push(subject.unwrap().0);
    }
    subjects.sort();
    subjects
}

/// Waits until the sessions of a hub are the expected ones.
async fn until_listed(hub: &Hub, expected: &[&String]) {
    let mut client = hub.client(2).await;
    let begun = Instant::now();
    loop {
        let list = client.ask("session/list", json!({})).await;
        let mut ids: Vec<&str> = list["result"]["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["sessionId"].as_str().unwrap())
            .collect();
        ids.sort_unstable();
        if ids == expected {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{list}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn retention_deletes_the_same_sessions_everywhere() {
    let Some((place, server)) = place_with_server(&["--jetstream"]) else { return };
    let arguments = ["--session-log", &*server.address(), "demo"];
    let mut sessions = Vec::new();
    for _ in 0..2 {
        // Retention has a resolution of one second.
        let second = switchboard_store::Moment::now().to_string();
        let hub = Hub::start(&place, &arguments);
        block_on(async {
            while switchboard_store::Moment::now().to_string() == second {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let mut client = hub.client(2).await;
            for _ in 0..2 {
                let session = client.new_session(&place).await;
                client.prompt(&session, "hello").await;
                client.until_idle().await;
                sessions.push(session);
            }
        });
        assert_eq!(hub.end(), Some(0));
    }
    let other = Hub::start_as(&place, "other", &arguments);
    block_on(async {
        // The oldest of them has running work at another hub.
        let mut client = other.client(2).await;
        super::cluster::attach(&mut client, &sessions[0], &place).await;
        client.prompt(&sessions[0], "slow 600").await;
        client.until(|message| message["params"]["update"]["state"] == "running").await;
    });
    let listed = |name: &str| {
        let store = place.home().join(name);
        place.run(&["sessions", "list", "--json", "--store", store.to_str().unwrap()]).json_lines()
    };
    let all = listed("hub.sqlite3");
    let third = all.iter().find(|one| one["id"] == *sessions[2]).unwrap();
    let keep = switchboard_store::Moment(third["changed"].as_i64().unwrap());
    let configure = |limits: Value| {
        place.write("home/.config/switchboard/config.json", &json!({"store": limits}).to_string());
    };
    let subject = |session: &String| format!("switchboard.log.{session}");

    // The local copy of the hub is missing: the age is read from the log.
    lose_store(&place);
    configure(json!({"keep": keep.to_string()}));
    let hub = Hub::start(&place, &arguments);
    let mut kept = vec![&sessions[0], &sessions[2], &sessions[3]];
    kept.sort();
    block_on(async {
        until_listed(&hub, &kept).await;
        until_listed(&other, &kept).await;
        assert_eq!(subjects(&server).await, kept.iter().map(|id| subject(id)).collect::<Vec<_>>());
        let mut client = hub.client(2).await;
        let (places, said) = replayed(&mut client, &sessions[2], &place).await;
        assert!(places.len() > 1 && !said.is_empty());
    });
    assert_eq!(hub.end(), Some(0));

    // More than the maximum: all are deleted except the one that another hub is working on.
    configure(json!({"max_size": "1kB"}));
    let hub = Hub::start(&place, &arguments);
    block_on(async {
        until_listed(&hub, &[&sessions[0]]).await;
        until_listed(&other, &[&sessions[0]]).await;
        assert_eq!(subjects(&server).await, [subject(&sessions[0])]);
    });
    assert_eq!((hub.end(), other.end()), (Some(0), Some(0)));
    assert_eq!(listed("hub.sqlite3").len(), 1);
}
