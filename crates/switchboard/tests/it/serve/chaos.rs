//! Three NATS servers, three hubs and ten sessions, while hubs and servers are killed, stopped and restarted,
//! and the network between them is cut. To run it a hundred times: `cargo test --workspace --test it --
//! --ignored chaos`; `SWITCHBOARD_CHAOS` sets the number of failures, `SWITCHBOARD_CHAOS_SEED` the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};
use switchboard_testkit::{Gate, NatsServer};

use super::hub::{Client, Hub};
use super::shown;
use crate::agent_program::{Place, signal};
use crate::interop::SWITCHBOARD;

/// Number of sessions.
const SESSIONS: usize = 10;
/// Number of kinds of failures.
const KINDS: usize = 5;
/// Delay of an agent per chunk, in milliseconds, so that it is working when a failure occurs.
const PACE: u64 = 10;
/// Duration of a stopped hub: longer than its lease.
const STOPPED: Duration = Duration::from_secs(8);
/// Timeout of a prompt before its client tries another hub.
const IMPATIENCE: Duration = Duration::from_secs(15);
/// Maximum delay of a hub compared with the others.
const BEHIND: Duration = Duration::from_secs(60);
/// Timeout for recovery.
const PATIENCE: Duration = Duration::from_secs(180);

/// A pseudorandom number generator, deterministic for a seed.
#[derive(Debug)]
struct Chance(AtomicU64);

impl Chance {
    fn below(&self, end: usize) -> usize {
        let step = |state: u64| state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let state = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| Some(step(state)));
        (step(state.unwrap()) >> 33) as usize % end
    }
}

/// Addresses and tokens of the hubs.
type Doors = Arc<Mutex<Vec<(String, String)>>>;

/// The messages to the client of a session, and its cursor.
#[derive(Default, Clone)]
struct Told {
    messages: Vec<Value>,
    cursor: Option<String>,
}

/// Returns a client after `initialize` at a hub, if the hub can be reached.
async fn client_at((address, token): (String, String)) -> Option<Client> {
    let mut client = Client::at(&address, &token).await?;
    let hello = json!({"protocolVersion": 2, "info": {"name": "chaos", "version": "1"}, "capabilities": {},
        // The responses to prompts contain the result of the turn, if it has ended.
        "_meta": {"switchboard/turn": true}});
    client
        .ask_within("initialize", hello, IMPATIENCE)
        .await
        .filter(|answer| answer.get("result").is_some())?;
    Some(client)
}

/// Attaches to a session from a cursor.
async fn attach(
    client: &mut Client,
    session: &str,
    folder: &str,
    cursor: Option<String>,
) -> Result<(), String> {
    let mut params = json!({"sessionId": session, "cwd": folder});
    match cursor {
        Some(cursor) => params["_meta"] = json!({"acp/cursor": cursor}),
        None => params["replayFrom"] = json!({"type": "start"}),
    }
    match client.ask_within("session/resume", params, IMPATIENCE).await {
        Some(answer) if answer.get("result").is_some() => Ok(()),
        answer => Err(format!("it cannot be looked at: {answer:?}")),
    }
}

/// Appends a message.
fn keep(told: &mut Told, message: &Value) {
    if message["method"] == "session/update" {
        let cursor = message["params"]["_meta"]["acp/cursor"].as_str();
        told.cursor = cursor.map(str::to_owned).or(told.cursor.take());
        told.messages.push(message.clone());
    }
}

/// Tries a prompt once at one hub. Returns whether the turn ended, successfully or not, or the reason why it
/// did not.
async fn try_prompt(
    door: (String, String),
    (session, folder): (&str, &str),
    operation: &str,
    told: &mut Told,
) -> Result<(), String> {
    let address = door.0.clone();
    let not = |what: &str| Err(format!("{address}: {what}"));
    let Some(mut client) = client_at(door).await else { return not("no answer") };
    if let Err(reason) = attach(&mut client, session, folder, told.cursor.clone()).await {
        return not(&reason);
    }
    let prompt = json!({
        "sessionId": session, "prompt": [{"type": "text", "text": format!("<{operation}>")}],
        "_meta": {"switchboard/operationId": operation},
    });
    let answer = client.ask_within("session/prompt", prompt, IMPATIENCE).await;
    client.seen.drain(..).for_each(|message| keep(told, &message));
    match answer {
        None => not("no answer to the prompt"),
        Some(answer) if answer.get("error").is_some() => {
            // An interruption ends the turn; a log that cannot be written does not.
            let text = answer.to_string();
            match text.contains("interrupted") || text.contains("was ended") || text.contains("the hub ended")
            {
                true => Ok(()),
                false => not(&text),
            }
        }
        Some(answer) if answer["result"]["_meta"]["switchboard/turn"].is_object() => Ok(()),
        Some(answer) => {
            let begun = Instant::now();
            while begun.elapsed() < IMPATIENCE {
                let Some(message) = client.next_within(IMPATIENCE).await else {
                    return not(&format!("nothing behind {answer}"));
                };
                keep(told, &message);
                if message["params"]["update"]["stopReason"].is_string() {
                    return Ok(());
                }
            }
            not(&format!("no end behind {answer}"))
        }
    }
}

/// Sends prompts in a session, at any hub, until stopped; returns the messages and the prompts that ended.
async fn use_session(
    doors: Doors,
    chance: Arc<Chance>,
    (number, session, folder): (usize, String, String),
    is_enough: Arc<AtomicBool>,
) -> (Told, usize) {
    let mut told = Told::default();
    let mut count = 0;
    while !is_enough.load(Ordering::Relaxed) {
        let operation = format!("{number}-{count}");
        let begun = Instant::now();
        let mut tried = Vec::new();
        loop {
            let door = {
                let doors = doors.lock().unwrap();
                doors[chance.below(doors.len())].clone()
            };
            let at = begun.elapsed().as_secs();
            match try_prompt(door, (&session, &folder), &operation, &mut told).await {
                Ok(()) => break,
                Err(reason) => tried.push(format!("after {at} s {reason}")),
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "prompt {operation} of {session} comes to no end:\n{}",
                tried.join("\n")
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        count += 1;
    }
    (told, count)
}

/// Returns the whole content of a session at a hub.
async fn whole(doors: &Doors, hub: usize, session: &str, folder: &str) -> Vec<(String, String)> {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "hub {hub} does not show {session}");
        let door = doors.lock().unwrap()[hub].clone();
        if let Some(mut client) = client_at(door).await
            && attach(&mut client, session, folder, None).await.is_ok()
        {
            let mut told = Told::default();
            client.seen.drain(..).for_each(|message| keep(&mut told, &message));
            return shown(&told.messages);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Checks the stream: each session has every record once and in order, and a writer never writes after the
/// next one has started. Returns how often sessions moved to another hub.
async fn check_stream(servers: &str) -> usize {
    // For each session, the fence of its last message, and its number of records.
    let mut sessions: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut taken = 0;
    each_message(servers, |message| {
        let headers = message.headers.as_ref().unwrap();
        let number = |name: &str| headers.get(name).unwrap().as_str().parse::<u64>().unwrap();
        let (fence, end) = sessions.entry(message.subject.to_string()).or_default();
        let now = number("Switchboard-Fence");
        assert!(
            now >= *fence,
            "two hubs wrote {} at once: {now} behind {fence}: {headers:?}",
            message.subject
        );
        taken += usize::from(now > *fence);
        let (first, count) = (number("Switchboard-First"), number("Switchboard-Count"));
        // A message without records only announces a new writer.
        assert!(first == *end || count == 0, "{first} is not behind {end} in {}", message.subject);
        (*fence, *end) = (now, *end + count);
    })
    .await;
    assert_eq!(sessions.len(), SESSIONS);
    taken
}

/// Calls a function for every message of the stream.
async fn each_message(servers: &str, mut see: impl FnMut(&async_nats::jetstream::Message)) {
    let client = async_nats::connect(servers.split(',').collect::<Vec<_>>()).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("SWITCHBOARD").await.unwrap();
    let config = async_nats::jetstream::consumer::pull::OrderedConfig::default();
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut messages = consumer.messages().await.unwrap();
    let mut is_over = false;
    while !is_over {
        let message = tokio::time::timeout(PATIENCE, messages.next()).await.unwrap().unwrap().unwrap();
        see(&message);
        is_over = message.info().unwrap().pending == 0;
    }
}

/// Checks the logs of the agents: each prompt at most once. Returns the number of prompts.
fn check_agents(place: &Place) -> usize {
    let mut prompts = BTreeSet::new();
    for file in std::fs::read_dir(place.home()).unwrap().flatten() {
        if !file.file_name().to_string_lossy().starts_with(TOLD) {
            continue;
        }
        let text = std::fs::read_to_string(file.path()).unwrap();
        // The last line of a killed agent may be incomplete.
        for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if line["method"] == "session/prompt" {
                let prompt = line["params"]["prompt"].to_string();
                assert!(!prompts.contains(&prompt), "{prompt} ran twice");
                prompts.insert(prompt);
            }
        }
    }
    prompts.len()
}

/// Servers, hubs and sessions, and their failures.
struct World {
    place: Place,
    servers: [NatsServer; 3],
    /// The proxies between each hub and each server.
    gates: Vec<[Gate; 3]>,
    hubs: Vec<Hub>,
    doors: Doors,
    chance: Arc<Chance>,
}

const NAMES: [&str; 3] = ["one", "two", "three"];
/// Prefix of the log files of the agents.
const TOLD: &str = "told.";

impl World {
    fn new(seed: u64) -> Option<Self> {
        let place = Place::new();
        let servers = NatsServer::start_three(&place.home().join("nats"))?;
        let gate = |server: &NatsServer| Gate::start(([127, 0, 0, 1], server.port()).into()).unwrap();
        let gates = NAMES.iter().map(|_| servers.each_ref().map(gate)).collect();
        let chance = Arc::new(Chance(AtomicU64::new(seed)));
        let mut world = World { place, servers, gates, hubs: Vec::new(), doors: Doors::default(), chance };
        for hub in 0..NAMES.len() {
            let hub = world.start(hub);
            world.doors.lock().unwrap().push((hub.address.clone(), hub.token.clone()));
            world.hubs.push(hub);
        }
        Some(world)
    }

    fn start(&self, hub: usize) -> Hub {
        let addresses = self.gates[hub].each_ref().map(|gate| format!("nats://{}", gate.address())).join(",");
        let told = self.place.home().join(TOLD);
        let agent =
            format!("tee -a '{}'$$ | '{SWITCHBOARD}' demo-agent --pace {PACE}", told.to_str().unwrap());
        let begun = Instant::now();
        loop {
            let arguments = ["--session-log", &addresses, "--", "sh", "-c", &agent];
            match Hub::try_start(&self.place, NAMES[hub], &arguments) {
                Some(hub) => return hub,
                // The servers may first have to elect a leader.
                None => assert!(begun.elapsed() < PATIENCE, "hub {} does not start", NAMES[hub]),
            }
        }
    }

    /// Returns the addresses of the servers.
    fn addresses(&self) -> String {
        self.servers.each_ref().map(NatsServer::address).join(",")
    }

    /// Causes a failure and repairs it.
    fn fail(&mut self, kind: usize) -> String {
        let which = self.chance.below(3);
        let for_a_while = |most: u64| pause(Duration::from_millis(self.chance.below(most as usize) as u64));
        match kind {
            0 => {
                self.hubs[which].cut_off();
                self.hubs[which] = self.start(which);
                let hub = &self.hubs[which];
                self.doors.lock().unwrap()[which] = (hub.address.clone(), hub.token.clone());
                format!("hub {which} killed")
            }
            1 => {
                self.hubs[which].signal("STOP");
                pause(STOPPED);
                self.hubs[which].signal("CONT");
                format!("hub {which} stood still")
            }
            2 => {
                self.servers[which].kill();
                for_a_while(3000);
                self.servers[which].restart();
                format!("server {which} killed")
            }
            3 => {
                signal("STOP", self.servers[which].id());
                for_a_while(8000);
                signal("CONT", self.servers[which].id());
                format!("server {which} stood still")
            }
            _ => {
                self.gates[which].iter().for_each(|gate| gate.open(false));
                for_a_while(10_000);
                self.gates[which].iter().for_each(|gate| gate.open(true));
                format!("hub {which} cut off")
            }
        }
    }
}

fn pause(time: Duration) {
    std::thread::park_timeout(time);
}

/// Uses ten sessions during this number of failures, and checks the result.
fn nothing_is_lost_or_done_twice(times: usize, seed: u64) {
    let Some(mut world) = World::new(seed) else { return };
    let is_enough = Arc::new(AtomicBool::new(false));
    let work = world.place.work().to_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let sessions: Vec<String> = runtime.block_on(async {
        let mut client = world.hubs[0].client(2).await;
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(client.new_session(&world.place).await);
        }
        sessions
    });
    let (doors, chance) = (Arc::clone(&world.doors), Arc::clone(&world.chance));
    let used: Vec<_> = sessions
        .iter()
        .enumerate()
        .map(|(number, session)| {
            let what = (number, session.clone(), work.clone());
            runtime.spawn(use_session(doors.clone(), chance.clone(), what, is_enough.clone()))
        })
        .collect();
    for time in 0..times {
        pause(Duration::from_millis(500 + chance.below(1500) as u64));
        // Each kind of failure occurs at least once.
        let what = world.fail(if time < KINDS { time } else { chance.below(KINDS) });
        eprintln!("chaos: {} of {times}: {what}", time + 1);
        if used.iter().any(tokio::task::JoinHandle::is_finished) {
            break;
        }
    }
    is_enough.store(true, Ordering::Relaxed);
    runtime.block_on(async {
        let mut prompts = 0;
        let mut behind = Duration::ZERO;
        for (session, used) in sessions.iter().zip(used) {
            let (told, count) = used.await.unwrap();
            prompts += count;
            let begun = Instant::now();
            // A hub may be behind for a moment.
            loop {
                let mut hubs = Vec::new();
                for hub in 0..NAMES.len() {
                    hubs.push(whole(&doors, hub, session, &work).await);
                }
                // All received messages are in the log, and each hub has the same.
                let first = &hubs[0];
                let missing = shown(&told.messages).into_iter().find(|line| !first.contains(line));
                if hubs.iter().all(|hub| hub == first) && missing.is_none() {
                    break;
                }
                if begun.elapsed() >= BEHIND {
                    panic!("{session} is not the same: {hubs:#?}; told was {missing:?}");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            behind = behind.max(begun.elapsed());
        }
        let taken = check_stream(&world.addresses()).await;
        let run = check_agents(&world.place);
        eprintln!(
            "chaos: {prompts} prompts came to their end, {run} of them ran; sessions were taken {taken} times; the last hub \
             was the same after {behind:?}"
        );
        assert!(prompts >= SESSIONS && run >= SESSIONS);
    });
}

#[test]
fn nothing_is_lost_or_done_twice_when_each_thing_goes_wrong_once() {
    nothing_is_lost_or_done_twice(KINDS, 7);
}

#[test]
#[ignore = "takes many minutes: see CONTRIBUTING.md"]
fn nothing_is_lost_or_done_twice_whatever_is_killed() {
    let times = std::env::var("SWITCHBOARD_CHAOS").map_or(100, |times| times.parse().unwrap());
    let seed = std::env::var("SWITCHBOARD_CHAOS_SEED").map_or(7, |seed| seed.parse().unwrap());
    nothing_is_lost_or_done_twice(times, seed);
}
