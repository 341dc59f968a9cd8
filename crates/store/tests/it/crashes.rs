//! Kills the process at random points while it appends. No record whose append returned may be missing.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use switchboard_session::{Conversation, Side};
use switchboard_store::{About, Channel, Store};
use switchboard_testkit::{TagPlace, stream};

use crate::support::{chunk, records, scratch, update};

/// Environment variable with the store of the child process.
const CHILD: &str = "SWITCHBOARD_STORE_CRASH_TEST";
/// Environment variable with the number of records that the child writes at once.
const STEP: &str = "SWITCHBOARD_STORE_CRASH_STEP";
const KILLS: usize = 200;
const LINES: usize = 1500;

/// The child process: appends forever and prints the written records, without waiting for the disk. Does
/// nothing in the test run itself.
#[test]
fn child_that_appends_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let step: usize = std::env::var(STEP).unwrap().parse().unwrap();
    let store = Store::open(path).unwrap();
    let lines = stream(LINES, TagPlace::First);
    let mut recorder = store.begin(&About::default()).unwrap();
    let mut output = std::io::stdout().lock();
    writeln!(output, "id {}", recorder.id()).unwrap();
    let mut run = Vec::new();
    for (number, line) in lines.iter().cycle().enumerate() {
        if number % step < step - 1 {
            match step % 2 {
                0 => run.push(&**line),
                _ => recorder.put(update(line)).unwrap(),
            }
            continue;
        }
        run.push(line);
        let last = match run.len() {
            1 => recorder.append(update(line)).unwrap().sequence(),
            _ => recorder.append_lines(Channel::ToClient, 2, &run.join("\n")).unwrap().sequence(),
        };
        run.clear();
        assert_eq!(last, number as u64);
        writeln!(output, "ok {last}").unwrap();
        output.flush().unwrap();
    }
}

#[test]
fn everything_whose_append_returned_is_there_when_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite3");
    let lines = stream(LINES, TagPlace::First);
    let mut numbers = 0x2545_f491_4f6c_dd1d_u64;
    let (mut acknowledged_in_all, mut repaired) = (0, 0);
    for kill in 0..KILLS {
        // Groups of different sizes, so that journals, blocks and checkpoints are all interrupted.
        let step = [1, 7, 64, 1, 3, 900][kill % 6];
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crashes::child_that_appends_until_it_is_killed", "--nocapture"])
            .env(CHILD, &path)
            .env(STEP, step.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        numbers ^= numbers << 13;
        numbers ^= numbers >> 7;
        numbers ^= numbers << 17;
        // Few, or enough for blocks and checkpoints.
        let enough = numbers % [60, 30, 12, 60, 30, 4][kill % 6];
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut id, mut acknowledged, mut seen) = (String::new(), None, 0);
        for line in output.by_ref() {
            let line = line.unwrap();
            if let Some((_, found)) = line.split_once("id ") {
                id = found.to_owned();
            } else if let Some(number) = line.strip_prefix("ok ") {
                acknowledged = Some(number.parse::<u64>().unwrap());
                seen += 1;
            }
            if !id.is_empty() && seen >= enough {
                break;
            }
        }
        child.kill().unwrap();
        // Output that was written before the kill counts too.
        for line in output.map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("ok ").and_then(|number| number.parse().ok()) {
                acknowledged = Some(number);
            }
        }
        child.wait().unwrap();

        let store = Store::open(&path).unwrap();
        repaired += store.repairs().len();
        assert!(store.repairs().iter().all(|repair| repair.problem.is_none()), "{:?}", store.repairs());
        let found = records(&store, &id);
        let expected = acknowledged.map_or(0, |last| last + 1);
        assert!(found.len() as u64 >= expected, "kill {kill}: {} of {expected} are there", found.len());
        acknowledged_in_all += expected;
        for (record, line) in found.iter().zip(lines.iter().cycle()) {
            assert_eq!(record.bytes, line.as_bytes(), "kill {kill}");
        }
        // The state equals the fold of the same prefix without a store.
        let mut conversation = Conversation::new(switchboard_acp::WireFormat::Any);
        for (record, line) in found.iter().zip(lines.iter().cycle()) {
            conversation.read(line, Some(Side::Agent), record.time).unwrap();
        }
        let json = |conversation: &Conversation| {
            conversation.sessions().map(|(id, session)| session.to_json(id)).collect::<Vec<_>>()
        };
        assert_eq!(json(&store.state(&id, None).unwrap().conversation), json(&conversation), "kill {kill}");
        store.delete(&id).unwrap();
    }
    assert_eq!(repaired, KILLS);
    println!("{acknowledged_in_all} written in {KILLS} lives");
}

/// Returns a store as left by a process that was killed with this many open sessions of a few records each.
fn cut_off_with(sessions: usize) -> (tempfile::TempDir, Vec<String>) {
    let scratch = scratch();
    let recorders: Vec<_> = (0..sessions)
        .map(|number| {
            let mut recorder = scratch.begin();
            for part in 0..3 {
                recorder.append(chunk(&format!("m{number}"), &format!("part {part} "))).unwrap();
            }
            recorder
        })
        .collect();
    let copy = tempfile::tempdir().unwrap();
    copy_all(scratch.folder.path(), copy.path());
    (copy, recorders.iter().map(|recorder| recorder.id().to_owned()).collect())
}

fn copy_all(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_all(&path, &target);
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
}

#[test]
fn many_sessions_that_were_cut_off_are_put_in_order_in_the_background_and_can_be_used_meanwhile() {
    let (folder, ids) = cut_off_with(60);
    let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
    let mut repaired: Vec<_> =
        store.repairs().iter().map(|repair| (repair.session.clone(), repair.problem.clone())).collect();
    repaired.sort();
    let mut expected: Vec<_> = ids.iter().map(|id| (id.clone(), None)).collect();
    expected.sort();
    assert_eq!(repaired, expected);
    // All are listed and none is in use, recovered or not.
    assert_eq!(store.sessions(&switchboard_store::Filter::default()).unwrap().len(), 60);
    for id in &ids {
        assert!(!store.is_recording(id).unwrap(), "{id}");
        assert_eq!(records(&store, id).len(), 3);
    }
    let last = ids.last().unwrap();
    let mut recorder = store.resume(last).unwrap();
    recorder.append(chunk("m", "more")).unwrap();
    recorder.complete().unwrap();
    assert_eq!(records(&store, last).len(), 4);
    store.delete(&ids[0]).unwrap();
    store.catch_up().unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path().join("store.sqlite3-writers")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let database = rusqlite::Connection::open(folder.path().join("store.sqlite3")).unwrap();
    let cut_off: i64 =
        database.query_row("SELECT count(*) FROM sessions WHERE closed = 2", [], |row| row.get(0)).unwrap();
    assert_eq!(cut_off, 58);
}

#[test]
fn an_interrupted_recovery_is_completed_by_the_next_program() {
    let (folder, ids) = cut_off_with(40);
    for _ in 0..3 {
        // Closed immediately, in the middle of the recovery.
        drop(Store::open(folder.path().join("store.sqlite3")).unwrap());
    }
    let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
    store.catch_up().unwrap();
    for id in &ids {
        assert_eq!(records(&store, id).len(), 3);
        store.resume(id).unwrap().complete().unwrap();
    }
}
