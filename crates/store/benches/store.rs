//! Benchmarks of the store against its targets, in one run.
//!
//! Appends are compared with one durable SQLite transaction per message. The large session has 1,000,000
//! updates; set `SWITCHBOARD_UPDATES` for another number.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::{Duration, Instant};

use switchboard_store::{About, Channel, Moment, Record, Search, Store, TextKind, parse_line};
use switchboard_testkit::{TagPlace, recordings, stream};

fn main() {
    let folder = tempfile::tempdir().unwrap();
    appends(folder.path());
    sizes(folder.path());
    large(folder.path());
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn verdict(good: bool) -> &'static str {
    if good { "ok" } else { "MISSED" }
}

fn appends(folder: &Path) {
    let lines = stream(20_000, TagPlace::First);
    let few = &lines[..1000];
    println!("appends, all durable (synchronous=FULL)");
    let mut rates = [f64::MAX; 3];
    for round in 0..3 {
        let plain = rusqlite::Connection::open(folder.join(format!("plain-{round}.sqlite3"))).unwrap();
        plain
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                 CREATE TABLE messages (session INTEGER, sequence INTEGER, time INTEGER, bytes BLOB,
                     PRIMARY KEY (session, sequence)) WITHOUT ROWID",
            )
            .unwrap();
        let begin = Instant::now();
        for (number, line) in few.iter().enumerate() {
            plain
                .prepare_cached("INSERT INTO messages VALUES (1, ?1, ?2, ?3)")
                .unwrap()
                .execute((number as i64, Moment::now().0, line.as_bytes()))
                .unwrap();
        }
        rates[0] = rates[0].min(begin.elapsed().as_secs_f64() / few.len() as f64);

        let store = Store::open(folder.join(format!("appends-{round}.sqlite3"))).unwrap();
        let mut recorder = store.begin(&About::default()).unwrap();
        let begin = Instant::now();
        for line in &lines {
            let _ = recorder.append(Record::new(Channel::ToClient, line.as_bytes())).unwrap();
        }
        recorder.sync().unwrap();
        rates[1] = rates[1].min(begin.elapsed().as_secs_f64() / lines.len() as f64);

        let begin = Instant::now();
        for line in few {
            recorder.append(Record::new(Channel::ToClient, line.as_bytes())).unwrap().wait().unwrap();
        }
        rates[2] = rates[2].min(begin.elapsed().as_secs_f64() / few.len() as f64);
    }
    for (name, rate) in
        ["one transaction a message", "store, acknowledged in groups", "store, waiting for each"]
            .iter()
            .zip(rates)
    {
        println!("  {name:<34} {:>9.1} us a message  {:>6.2} x", rate * 1e6, rates[0] / rate);
    }
    println!("  target at least 5 x: {}", verdict(rates[0] / rates[1] >= 5.0));
}

fn sizes(folder: &Path) {
    let store = Store::open(folder.join("sizes.sqlite3")).unwrap();
    let mut raw = 0;
    for recording in recordings() {
        let text = std::fs::read_to_string(&recording.path).unwrap();
        raw += text.len() as u64;
        let mut recorder = store.begin(&About::default()).unwrap();
        for record in text.lines().filter_map(|line| parse_line(line, Moment(0)).unwrap()) {
            let _ = recorder.append(record).unwrap();
        }
        recorder.complete().unwrap();
    }
    if raw == 0 {
        return;
    }
    store.shrink().unwrap();
    let sizes = store.sizes().unwrap();
    let ratio = |bytes: u64| bytes as f64 / raw as f64;
    println!("\nsize on the recordings, against {raw} bytes of JSON lines");
    println!(
        "  journal                            {:>9} bytes  {:.3} x",
        sizes.journal,
        ratio(sizes.journal)
    );
    println!("  whole file, with the search index  {:>9} bytes  {:.3} x", sizes.file, ratio(sizes.file));
    println!("  target at most 0.5 x: {}", verdict(ratio(sizes.file) <= 0.5));
}

fn large(folder: &Path) {
    let count = std::env::var("SWITCHBOARD_UPDATES").ok().and_then(|count| count.parse().ok());
    let count: usize = count.unwrap_or(1_000_000);
    let path = folder.join("large.sqlite3");
    let store = Store::open(&path).unwrap();
    let mut recorder = store.begin(&About::default()).unwrap();
    let id = recorder.id().to_owned();
    // Each round uses its own ids, or all rounds would update the same entries.
    let lines = stream(50_000, TagPlace::First);
    let begin = Instant::now();
    let mut bytes = 0;
    for number in 0..count {
        let round = number / lines.len();
        let mut line = lines[number % lines.len()].clone();
        if round > 0 {
            line = line
                .replace("\"msg_", &format!("\"m{round}_"))
                .replace("\"user_0", &format!("\"u{round}_0"))
                .replace("\"thought_", &format!("\"t{round}_"))
                .replace("\"toolu_", &format!("\"c{round}_"));
        }
        if number == count / 3 {
            line = line.replace("the ", "the zyzzyva ");
        }
        bytes += line.len();
        let _ = recorder.append(Record::new(Channel::ToClient, line.into_bytes())).unwrap();
    }
    recorder.complete().unwrap();
    let sizes = store.sizes().unwrap();
    println!(
        "\na session of {count} updates, {bytes} bytes, written in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    println!(
        "  journal {:.3} x, checkpoints {:.3} x, file {:.3} x",
        sizes.journal as f64 / bytes as f64,
        sizes.checkpoints as f64 / bytes as f64,
        sizes.file as f64 / bytes as f64
    );
    drop(store);

    for (name, at) in
        [("its end", None), ("the thousandth", Some(1000)), ("the middle", Some(count as u64 / 2))]
    {
        let mut best = Duration::MAX;
        let mut entries = 0;
        for _ in 0..10 {
            let begin = Instant::now();
            let store = Store::open_read_only(&path).unwrap();
            let state = store.window(&id, at, 200).unwrap();
            entries = state.conversation.sessions().map(|(_, session)| session.len()).sum();
            best = best.min(begin.elapsed());
        }
        println!("  open at {name:<16} {:>8.2} ms, {entries} entries", milliseconds(best));
        if at.is_none() {
            println!("  target under 100 ms: {}", verdict(best < Duration::from_millis(100)));
        }
    }

    println!("\nsearch in {count} messages");
    let store = Store::open_read_only(&path).unwrap();
    for (name, search) in [
        ("a frequent word", search("configuration")),
        ("two frequent words", search("module connection")),
        ("a phrase", search("\"reads configuration before\"")),
        ("a rare word", search("zyzzyva")),
        ("no hit", search("qqqqqq")),
        ("a beginning", search("conf*")),
        ("a path, in patches", Search { kinds: vec![TextKind::Patch], ..search("module_7") }),
        ("a word in one session", Search { session: Some(id.clone()), ..search("naive") }),
        ("a word before a time", Search { until: Some(Moment(0)), ..search("starts") }),
    ] {
        let mut best = Duration::MAX;
        let mut hits = 0;
        for _ in 0..20 {
            let begin = Instant::now();
            hits = store.search(&search).unwrap().len();
            best = best.min(begin.elapsed());
        }
        let judged = verdict(best < Duration::from_millis(50));
        println!("  {name:<24} {:>8.2} ms, {hits} hits  {judged}", milliseconds(best));
    }
}

fn search(query: &str) -> Search {
    Search { query: query.into(), ..Search::default() }
}
