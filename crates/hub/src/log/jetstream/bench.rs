//! Benchmark of a stream as a log, compared with the server alone and the store alone. It prints figures and asserts no
//! times; `cargo xtask bench-log` runs it.

use std::time::{Duration, Instant};

use async_nats::jetstream::stream::Config;
use switchboard_store::{Channel, Record};
use switchboard_testkit::NatsServer;

use super::message::messages;
use super::tests::{Servers, begin, new_store};
use crate::core::SessionId;
use crate::log::{LocalLog, SessionLog};

/// A typical update of an agent.
const UPDATE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","messageId":"m-1","content":{"type":"text","text":"The quick brown fox jumps over the lazy dog, and nobody minds. "}}}}"#;
/// Number of rounds; the best one counts.
const ROUNDS: usize = 5;

/// Appends records in batches and returns the duration.
async fn append(
    log: &mut Box<dyn SessionLog>,
    id: &SessionId,
    next: &mut u64,
    batches: u64,
    each: u64,
) -> Duration {
    let begun = Instant::now();
    for _ in 0..batches {
        for _ in 0..each {
            log.append(id, *next, Channel::ToClient, UPDATE).unwrap();
            *next += 1;
        }
        assert_eq!(log.commit().await, []);
    }
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures: cargo xtask bench-log"]
async fn appends_against_publishes_and_the_store() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let ((copy, _copy), (alone, _alone)) = (new_store(), new_store());
    let mut shared = servers.open_with(&copy).await;
    let mut local: Box<dyn SessionLog> = Box::new(LocalLog::new(alone));
    let client = async_nats::connect(servers.server.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let plain = Config { name: "PLAIN".to_owned(), subjects: vec!["plain".to_owned()], ..Config::default() };
    context.create_stream(plain).await.unwrap();
    let ids = [begin(&mut shared).await, begin(&mut local).await];
    let mut next = [0, 0];
    println!(
        "records of {} bytes, one nats-server on this machine, the best of {ROUNDS} rounds",
        UPDATE.len()
    );
    for (each, batches) in [(1, 2000), (16, 1000), (256, 200)] {
        let mut best = [Duration::MAX; 3];
        let records: Vec<Record> = (0..each).map(|_| Record::new(Channel::ToClient, UPDATE)).collect();
        let payload = messages(0, &records, 900_000).remove(0).payload;
        for _ in 0..ROUNDS {
            let ours = append(&mut shared, &ids[0], &mut next[0], batches, each).await;
            let store = append(&mut local, &ids[1], &mut next[1], batches, each).await;
            let begun = Instant::now();
            for _ in 0..batches {
                context.publish("plain", payload.clone()).await.unwrap().await.unwrap();
            }
            for (best, took) in best.iter_mut().zip([ours, begun.elapsed(), store]) {
                *best = took.min(*best);
            }
        }
        let [ours, plain, store] = best.map(|took| (batches * each) as f64 / took.as_secs_f64());
        println!(
            "  {each:>3} at once: {ours:>7.0} records a second; plain publishes {plain:>7.0} ({:.2} of it); the store \
             alone {store:>7.0} ({:.2} of it)",
            ours / plain,
            ours / store,
        );
    }
    shared.close().await;
    local.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures: cargo xtask bench-log"]
async fn server_cost_of_records_and_sessions() {
    const SESSIONS: u64 = 1000;
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let (store, _folder) = new_store();
    let mut log = servers.open_with(&store).await;
    let client = async_nats::connect(servers.server.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let bytes = async |name: &str| {
        let mut stream = context.get_stream(name).await.unwrap();
        stream.info().await.unwrap().state.bytes
    };
    let state = || resident(&servers.server);
    let before = state();
    let mut ids = Vec::new();
    let begun = Instant::now();
    for _ in 0..SESSIONS {
        ids.push(begin(&mut log).await);
    }
    let took = begun.elapsed().as_secs_f64();
    let keys = [bytes("KV_switchboard-sessions").await, bytes("KV_switchboard-owners").await];
    println!(
        "{SESSIONS} sessions: {:.0} begun a second; {} and {} bytes of keys each",
        SESSIONS as f64 / took,
        keys[0] / SESSIONS,
        keys[1] / SESSIONS,
    );
    for id in &ids {
        log.append(id, 0, Channel::ToClient, UPDATE).unwrap();
    }
    assert_eq!(log.commit().await, []);
    let each = bytes("SWITCHBOARD").await / SESSIONS;
    println!("a record of {} bytes takes {each} bytes in a message of its own", UPDATE.len());
    let grown = state().saturating_sub(before) * 1024 / SESSIONS;
    println!("the server has {grown} bytes more in memory for each session");
    let one = &ids[0];
    for sequence in 1..=256 {
        log.append(one, sequence, Channel::ToClient, UPDATE).unwrap();
    }
    assert_eq!(log.commit().await, []);
    let each = (bytes("SWITCHBOARD").await - each * SESSIONS) / 256;
    println!("and {each} bytes where 256 come together");
    log.close().await;
    let (empty, _empty) = new_store();
    let begun = Instant::now();
    servers.open_with(&empty).await.close().await;
    println!(
        "a hub with an empty store has these sessions after {:.1} s, which is {:.1} ms for each",
        begun.elapsed().as_secs_f64(),
        begun.elapsed().as_secs_f64() * 1000.0 / SESSIONS as f64,
    );
}

/// Returns the resident memory of a process in kB.
fn resident(server: &NatsServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
