//! Three NATS servers, three hubs and ten sessions, while hubs and servers are killed, stopped and started again. With
//! `SWITCHBOARD_CHAOS=100` that happens a hundred times, else a few. It is run by hand: `cargo test --workspace --test it --
//! --ignored chaos`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};
use switchboard_testkit::NatsServer;

use super::hub::{Client, Hub};
use crate::agent_program::{Place, signal};

/// How many sessions there are.
const SESSIONS: usize = 10;
/// How long a hub stands still when it is stopped: longer than its lease.
const STOPPED: Duration = Duration::from_secs(8);
/// How long a prompt may take before its client tries another hub.
const IMPATIENCE: Duration = Duration::from_secs(15);
/// How long a hub may be behind the others.
const BEHIND: Duration = Duration::from_secs(30);
/// How long everything may take to be well again.
const PATIENCE: Duration = Duration::from_secs(180);

/// Numbers that look like chance and are the same each time.
#[derive(Debug)]
struct Chance(AtomicU64);

impl Chance {
    fn below(&self, end: usize) -> usize {
        let step = |state: u64| state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let state = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| Some(step(state)));
        (step(state.unwrap()) >> 33) as usize % end
    }
}

/// Where the hubs are, and what lets in.
type Doors = Arc<Mutex<Vec<(String, String)>>>;

/// What the client of a session was told, by its place in the log.
type Told = BTreeMap<u64, Value>;

/// A client that has said hello at a hub, if that can be reached.
async fn client_at((address, token): (String, String)) -> Option<Client> {
    let mut client = Client::at(&address, &token).await?;
    let hello = json!({"protocolVersion": 2, "info": {"name": "chaos", "version": "1"}, "capabilities": {},
        // The answers to prompts tell how the work on them has ended, if it has.
        "_meta": {"switchboard/turn": true}});
    client
        .ask_within("initialize", hello, IMPATIENCE)
        .await
        .filter(|answer| answer.get("result").is_some())?;
    Some(client)
}

/// Looks at a session from a place on.
async fn attach(client: &mut Client, session: &str, folder: &str, cursor: Option<String>) -> Option<()> {
    let mut params = json!({"sessionId": session, "cwd": folder});
    match cursor {
        Some(cursor) => params["_meta"] = json!({"acp/cursor": cursor}),
        None => params["replayFrom"] = json!({"type": "start"}),
    }
    let answer = client.ask_within("session/resume", params, IMPATIENCE).await?;
    answer.get("result").is_some().then_some(())
}

/// Keeps what was told; what is told twice is the same.
fn keep(told: &mut Told, message: &Value) {
    let cursor = message["params"]["_meta"]["acp/cursor"].as_str();
    let is_state = message["params"]["_meta"]["switchboard/questions"].is_u64();
    let Some(place) = cursor.and_then(|cursor| cursor.rsplit_once('.')?.1.parse().ok()) else { return };
    if !is_state {
        let update = message["params"]["update"].clone();
        assert_eq!(told.entry(place).or_insert_with(|| update.clone()), &update, "at {place}");
    }
}

/// One try of a prompt at one hub. Says whether it has come to its end, well or not.
async fn try_prompt(
    door: (String, String),
    (session, folder): (&str, &str),
    operation: &str,
    told: &mut Told,
) -> bool {
    let Some(mut client) = client_at(door).await else { return false };
    let cursor = told.keys().next_back().map(|place| format!("{session}.{place}"));
    if attach(&mut client, session, folder, cursor).await.is_none() {
        return false;
    }
    let prompt = json!({
        "sessionId": session, "prompt": [{"type": "text", "text": format!("<{operation}>")}],
        "_meta": {"switchboard/operationId": operation},
    });
    let answer = client.ask_within("session/prompt", prompt, IMPATIENCE).await;
    client.seen.drain(..).for_each(|message| keep(told, &message));
    match answer {
        None => false,
        Some(answer) if answer.get("error").is_some() => {
            // Interrupted is an end; that the log cannot be written is none.
            answer.to_string().contains("interrupted") || answer.to_string().contains("was ended")
        }
        Some(answer) if answer["result"]["_meta"]["switchboard/turn"].is_object() => true,
        Some(_) => {
            let begun = Instant::now();
            while begun.elapsed() < IMPATIENCE {
                let Some(message) = client.next_within(IMPATIENCE).await else { return false };
                keep(told, &message);
                if message["params"]["update"]["stopReason"].is_string() {
                    return true;
                }
            }
            false
        }
    }
}

/// Prompts in a session, at any hub, until it is enough; gives what was told and the prompts that came to their end.
async fn use_session(
    doors: Doors,
    chance: Arc<Chance>,
    (number, session, folder): (usize, String, String),
    is_enough: Arc<AtomicBool>,
) -> (Told, usize) {
    let mut told = Told::new();
    let mut count = 0;
    while !is_enough.load(Ordering::Relaxed) {
        let operation = format!("{number}-{count}");
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "prompt {operation} of {session} comes to no end");
            let door = {
                let doors = doors.lock().unwrap();
                doors[chance.below(doors.len())].clone()
            };
            if try_prompt(door, (&session, &folder), &operation, &mut told).await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        count += 1;
    }
    (told, count)
}

/// All that a session has, as a hub tells it.
async fn whole(doors: &Doors, hub: usize, session: &str, folder: &str) -> Told {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "hub {hub} does not show {session}");
        let door = doors.lock().unwrap()[hub].clone();
        if let Some(mut client) = client_at(door).await
            && attach(&mut client, session, folder, None).await.is_some()
        {
            let mut told = Told::new();
            client.seen.drain(..).for_each(|message| keep(&mut told, &message));
            return told;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Of each session the numbers under which its messages were written, in the order of the stream.
async fn fences(servers: &str) -> BTreeMap<String, Vec<u64>> {
    let client = async_nats::connect(servers.split(',').collect::<Vec<_>>()).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("SWITCHBOARD").await.unwrap();
    let config = async_nats::jetstream::consumer::pull::OrderedConfig::default();
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut messages = consumer.messages().await.unwrap();
    let mut fences: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    loop {
        let message = tokio::time::timeout(PATIENCE, messages.next()).await.unwrap().unwrap().unwrap();
        let fence = message.headers.as_ref().unwrap().get("Switchboard-Fence").unwrap().as_str().parse();
        fences.entry(message.subject.to_string()).or_default().push(fence.unwrap());
        if message.info().unwrap().pending == 0 {
            return fences;
        }
    }
}

#[test]
#[ignore = "with many faults a prompt may come to no end: see docs/shortcomings.md"]
fn nothing_is_lost_or_done_twice_whatever_is_killed() {
    let place = Place::new();
    let folder = place.home().join("nats");
    let Some(mut servers) = NatsServer::start_three(&folder) else { return };
    let addresses = servers.each_ref().map(NatsServer::address).join(",");
    let arguments = ["--log", &addresses, "demo"];
    let names = ["one", "two", "three"];
    let start = |name: &str| {
        let begun = Instant::now();
        loop {
            match Hub::try_start(&place, name, &arguments) {
                Some(hub) => return hub,
                // The servers may have to elect a leader first.
                None => assert!(begun.elapsed() < PATIENCE, "hub {name} does not start"),
            }
        }
    };
    let mut hubs: Vec<Hub> = names.iter().map(|name| start(name)).collect();
    let door = |hub: &Hub| (hub.address.clone(), hub.token.clone());
    let doors: Doors = Arc::new(Mutex::new(hubs.iter().map(door).collect()));
    let times = std::env::var("SWITCHBOARD_CHAOS").map_or(3, |times| times.parse().unwrap());
    let seed = std::env::var("SWITCHBOARD_CHAOS_SEED").map_or(7, |seed| seed.parse().unwrap());
    let chance = Arc::new(Chance(AtomicU64::new(seed)));
    let is_enough = Arc::new(AtomicBool::new(false));
    let work = place.work().to_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let sessions: Vec<String> = runtime.block_on(async {
        let mut client = hubs[0].client(2).await;
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(client.new_session(&place).await);
        }
        sessions
    });
    let used: Vec<_> = sessions
        .iter()
        .enumerate()
        .map(|(number, session)| {
            let what = (number, session.clone(), work.clone());
            runtime.spawn(use_session(doors.clone(), chance.clone(), what, is_enough.clone()))
        })
        .collect();
    let pause = |time: Duration| std::thread::park_timeout(time);
    for time in 0..times {
        pause(Duration::from_millis(500 + chance.below(1500) as u64));
        let which = chance.below(3);
        // Each kind of thing happens, however few there are.
        match if time < 3 { time } else { chance.below(4) } {
            0 => {
                hubs[which].cut_off();
                hubs[which] = start(names[which]);
                doors.lock().unwrap()[which] = door(&hubs[which]);
            }
            1 => {
                hubs[which].signal("STOP");
                pause(STOPPED);
                hubs[which].signal("CONT");
            }
            2 => {
                servers[which].kill();
                pause(Duration::from_millis(chance.below(3000) as u64));
                servers[which].restart();
            }
            _ => {
                signal("STOP", servers[which].id());
                pause(Duration::from_millis(chance.below(8000) as u64));
                signal("CONT", servers[which].id());
            }
        }
        eprintln!("chaos: {} of {times}", time + 1);
    }
    is_enough.store(true, Ordering::Relaxed);
    runtime.block_on(async {
        let mut prompts = 0;
        for (session, used) in sessions.iter().zip(used) {
            let (told, count) = used.await.unwrap();
            prompts += count;
            let begun = Instant::now();
            let last = told.keys().next_back();
            // A hub may be a moment behind.
            let first = loop {
                let first = whole(&doors, 0, session, &work).await;
                if first.keys().next_back() >= last {
                    break first;
                }
                assert!(begun.elapsed() < BEHIND, "{session} does not get to {last:?} at {}", names[0]);
                tokio::time::sleep(Duration::from_millis(100)).await;
            };
            // What was told is there, at its place; and it is the same at every hub.
            for (place, update) in &told {
                assert_eq!(first.get(place), Some(update), "{session} at {place}");
            }
            for (hub, name) in names.iter().enumerate().skip(1) {
                let begun = Instant::now();
                loop {
                    let (here, there) =
                        (whole(&doors, 0, session, &work).await, whole(&doors, hub, session, &work).await);
                    if here == there {
                        break;
                    }
                    let ends = (here.keys().next_back(), there.keys().next_back());
                    assert!(begun.elapsed() < BEHIND, "{session} is not the same at {name}: {ends:?}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
            let said: String =
                first.values().filter_map(|update| update["content"]["text"].as_str()).collect();
            for number in 0..count {
                let prompt = format!("<{}-{number}>", sessions.iter().position(|id| id == session).unwrap());
                let answer = format!("You said: {prompt}");
                assert!(said.matches(&answer).count() <= 1, "{prompt} ran twice in {session}");
            }
        }
        let fences = fences(&addresses).await;
        assert_eq!(fences.len(), SESSIONS);
        for (session, fences) in &fences {
            assert!(fences.is_sorted(), "two hubs wrote {session} at once: {fences:?}");
        }
        let taken: usize =
            fences.values().map(|fences| fences.chunk_by(|one, next| one == next).count()).sum();
        eprintln!("chaos: {prompts} prompts came to their end; sessions were taken {taken} times");
        assert!(prompts >= SESSIONS);
    });
}
