//! Two hubs that share a log: what it costs to look at a session through the other one, and how soon that one goes on when the
//! first is killed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::memmem;
use switchboard_testkit::NatsServer;

use crate::hub::Hub;
use crate::{Delays, block_on, watch};

/// How often the agent says something in a second, and for how long.
const RATE: u32 = 200;
const SECONDS: u32 = 10;
/// How often a hub is killed.
const KILLED: usize = 5;
/// How long the hubs may take to know of each other's sessions.
const SOON: Duration = Duration::from_millis(300);

pub(crate) fn run() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = NatsServer::start(folder.path()) else { return };
    let log = ["--session-log".to_owned(), server.address()];
    println!("two hubs of one log, an agent that says something {RATE} times a second for {SECONDS} s");
    let (one, other) = (Hub::start_with(&log), Hub::start_with(&log));
    block_on(async {
        let mut first = one.socket().await;
        let session = first.new_session(one.folder()).await;
        let mut clients = Vec::new();
        for (hub, name) in [(&one, "the same hub"), (&other, "another hub")] {
            tokio::time::sleep(SOON).await;
            let mut socket = hub.socket().await;
            socket.attach(&session, one.folder()).await;
            clients.push((socket, name));
        }
        first.prompt(&session, &format!("pace {RATE} {SECONDS}")).await;
        let watched = clients.into_iter().map(|(socket, name)| {
            let delays = Arc::new(Delays::of_tenths());
            (tokio::spawn(watch(socket, Arc::clone(&delays))), delays, name)
        });
        for (watching, delays, name) in watched.collect::<Vec<_>>() {
            watching.await.unwrap();
            let tenths = |part: f64| delays.at(part) as f64 / 10.0;
            println!(
                "  through {name}: {:.1} ms, p99 {:.1} ms, at most {:.1} ms",
                tenths(0.5),
                tenths(0.99),
                tenths(1.0)
            );
        }
    });
    drop((one, other));
    let mut times: Vec<Duration> = (0..KILLED).map(|_| take_over(&log)).collect();
    times.sort();
    let seconds: Vec<String> = times.iter().map(|time| format!("{:.1}", time.as_secs_f64())).collect();
    println!(
        "  a client of another hub is told that the turn was interrupted after {} s\n",
        seconds.join(", ")
    );
}

/// Kills a hub whose agent works; how long until a client at another hub is told.
fn take_over(log: &[String]) -> Duration {
    let (one, other) = (Hub::start_with(log), Hub::start_with(log));
    block_on(async {
        let mut first = one.socket().await;
        let session = first.new_session(one.folder()).await;
        tokio::time::sleep(SOON).await;
        let mut client = other.socket().await;
        client.attach(&session, one.folder()).await;
        first.prompt(&session, "pace 10 600").await;
        let mut is_there = false;
        while !is_there {
            let see = |text: &[u8]| is_there |= memmem::find(text, crate::agent::STAMP).is_some();
            assert!(client.read(see).await, "the hub has closed the connection");
        }
        drop(one);
        let begun = Instant::now();
        let mut is_told = false;
        while !is_told {
            let see = |text: &[u8]| is_told |= memmem::find(text, b"interrupted").is_some();
            assert!(client.read(see).await, "the hub has closed the connection");
        }
        begun.elapsed()
    })
}
