//! Parses and folds streams of session updates with this crate and with the official types, and shows that
//! the cost per update does not grow with the session.

mod official;

use std::time::Duration;

use official::{OfficialEnvelope, OfficialSession};
use switchboard_acp::rpc::Expected;
use switchboard_acp::{WireFormat, v2};
use switchboard_session::Session;
use switchboard_testkit::{Contest, TagPlace, stream, thread_time};

fn main() {
    against_the_official_types(TagPlace::First);
    against_the_official_types(TagPlace::Last);
    appending_takes_constant_time();
    updates_take_constant_time();
    snapshots_are_cheap();
}

fn read(line: &str) -> v2::UpdateSessionNotification<'_> {
    match Expected::decode(line, WireFormat::Any) {
        Ok(Expected::Params(notification)) => notification,
        other => panic!("not an update: {other:?} in {line}"),
    }
}

fn against_the_official_types(place: TagPlace) {
    let lines = stream(200_000, place);
    let times = Contest::new(format!("200,000 generated updates, tag {place:?}: reading and folding"), 7)
        .of_one_thread()
        .contender("this crate", || {
            let mut session = Session::new(WireFormat::Any);
            for line in &lines {
                session.apply(&read(line).update);
            }
            session.len()
        })
        .contender("official types and a hash map", || {
            let mut session = OfficialSession::default();
            for line in &lines {
                let envelope: OfficialEnvelope<'_> = serde_json::from_str(line).expect("official");
                session.apply(envelope.params.update);
            }
            session.len()
        })
        .run();
    let ratio = times[1].1.as_secs_f64() / times[0].1.as_secs_f64();
    println!("  {ratio:.1} times as fast (to be over 4)");

    let (reading, folding) =
        (0..10).map(|_| reading_and_folding(&lines)).min_by_key(|(_, folding)| *folding).unwrap_or_default();
    println!("\n200,000 generated updates, tag {place:?}: this crate, in turns of 100");
    println!("  reading {:>8.2} ms", reading.as_secs_f64() * 1e3);
    println!("  folding {:>8.2} ms", folding.as_secs_f64() * 1e3);
    println!(
        "  folding takes 1/{:.1} of reading (to be over 5)",
        reading.as_secs_f64() / folding.as_secs_f64()
    );
}

/// Parses a hundred updates, then folds them, and so on: measured separately, with caches as warm as on a
/// connection.
fn reading_and_folding(lines: &[String]) -> (Duration, Duration) {
    let (mut reading, mut folding) = (Duration::ZERO, Duration::ZERO);
    let mut session = Session::new(WireFormat::Any);
    let mut updates = Vec::with_capacity(100);
    for turn in lines.chunks(100) {
        let begin = thread_time();
        updates.extend(turn.iter().map(|line| read(line)));
        let read = thread_time();
        for update in &updates {
            session.apply(&update.update);
        }
        let folded = thread_time();
        updates.clear();
        folding += folded - read;
        reading += (read - begin) + (thread_time() - folded);
    }
    (reading, folding)
}

fn appending_takes_constant_time() {
    println!("\nOne message, chunks of 8 bytes");
    let chunk = v2::ContentChunk::new("m", v2::ContentBlock::text("8 bytes."));
    let update = v2::SessionUpdate::AgentMessageChunk(chunk);
    for count in [10_000, 100_000, 1_000_000] {
        for (name, every) in [("no snapshot held", usize::MAX), ("a snapshot held every 10 chunks", 10)] {
            let mut held = None;
            let time = best(3, || {
                let mut session = Session::new(WireFormat::Any);
                for number in 0..count {
                    session.apply(&update);
                    if number % every == every - 1 {
                        held = Some(session.snapshot());
                    }
                }
            });
            let each = time.as_secs_f64() * 1e9 / count as f64;
            println!("  {count:>9} chunks, {name:<32} {each:>7.1} ns each");
        }
    }
}

fn call<'a>(id: &'a str) -> v2::ToolCallUpdate<'a> {
    v2::ToolCallUpdate::new(id)
}

fn updates_take_constant_time() {
    println!("\n100,000 tool calls");
    let ids: Vec<String> = (0..100_000).map(|number| format!("toolu_{number:08}")).collect();
    let parts = [0..1000, 49_500..50_500, 99_000..100_000];
    let mut session = Session::new(WireFormat::Any);
    for part in parts.clone() {
        for id in &ids[session.len()..part.start] {
            session.apply(&call(id).title("Read").into());
        }
        let updates: Vec<v2::SessionUpdate<'_>> =
            ids[part.clone()].iter().map(|id| call(id).title("Read").into()).collect();
        // Median of ten parts, to ignore other load on the machine.
        let mut times: Vec<Duration> = (updates.chunks(100))
            .map(|updates| best(1, || updates.iter().for_each(|update| drop(session.apply(update)))))
            .collect();
        times.sort();
        let time = times[times.len() / 2] * 10;
        println!("  creating {:>6} to {:>6}  {:>5} ns each", part.start, part.end, time.as_nanos() / 1000);
    }
    for part in parts {
        let statuses = [v2::ToolCallStatus::Completed, v2::ToolCallStatus::Failed];
        let updates: Vec<v2::SessionUpdate<'_>> = (statuses.iter())
            .flat_map(|status| ids[part.clone()].iter().map(|id| call(id).status(status.clone()).into()))
            .collect();
        let time = best(5, || {
            for update in &updates {
                session.apply(update);
            }
        });
        println!("  updating {:>6} to {:>6}  {:>5} ns each", part.start, part.end, time.as_nanos() / 2000);
    }
}

fn snapshots_are_cheap() {
    let ids: Vec<String> = (0..100_000).map(|number| format!("toolu_{number:08}")).collect();
    let mut session = Session::new(WireFormat::Any);
    for id in &ids {
        session.apply(&call(id).title("Read").into());
    }
    let mut held = Vec::with_capacity(1000);
    let time = best(5, || {
        held.clear();
        held.extend((0..1000).map(|_| session.snapshot()));
    });
    println!("\nA session of 100,000 entries");
    println!("  a snapshot                     {:>7} ns (to be under 10,000)", time.as_nanos() / 1000);
    held.clear();
    let updates: Vec<v2::SessionUpdate<'_>> =
        (0..1000).map(|number| call(&ids[number * 97]).title("Read again").into()).collect();
    let time = best(1, || {
        for update in &updates {
            held.push(session.snapshot());
            session.apply(update);
        }
    });
    println!("  a snapshot, held, and an update {:>6} ns", time.as_nanos() / 1000);
}

fn best(rounds: usize, mut work: impl FnMut()) -> Duration {
    let mut time = || {
        let begin = thread_time();
        work();
        thread_time() - begin
    };
    (0..rounds).map(|_| time()).min().unwrap_or_default()
}
