//! Concurrent use of a store: recording does not wait for other processes.

use switchboard_store::{About, Filter, Search, Store, StoreError};
use switchboard_testkit::{Mount, run_on_mount};

use crate::support::{Scratch, chunk, records, scratch};

#[test]
fn a_recording_begins_goes_on_and_ends_while_somebody_holds_the_database() {
    let Scratch { folder, store } = scratch();
    let path = folder.path().join("store.sqlite3");
    let mut before = store.begin(&About::default()).unwrap();
    let _ = before.append(chunk("m", "before")).unwrap();
    let holder = rusqlite::Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut during = store.begin(&About { title: Some("during".into()), ..About::default() }).unwrap();
    let (first, second) = (before.id().to_owned(), during.id().to_owned());
    for number in 0..3000 {
        let _ = before.append(chunk("m", &format!("word {number}"))).unwrap();
        let _ = during.append(chunk("m", &format!("word {number}"))).unwrap();
    }
    // All readers see all records.
    let reader = Store::open_read_only(&path).unwrap();
    assert_eq!(records(&reader, &first).len(), 3001);
    assert_eq!(reader.session(&first).unwrap().length, 3001);
    before.close().unwrap();
    during.close().unwrap();
    drop((store, reader));
    assert_eq!(records(&Store::open_read_only(&path).unwrap(), &first).len(), 3001);
    holder.execute_batch("COMMIT").unwrap();
    drop(holder);
    // The next program moves all records into the database. The session was closed properly, so no repair is
    // reported.
    let store = Store::open(&path).unwrap();
    assert_eq!(store.repairs(), []);
    assert_eq!((records(&store, &first).len(), records(&store, &second).len()), (3001, 3000));
    let summary = store.session(&second).unwrap();
    assert!(summary.closed && summary.about.title.as_deref() == Some("during"), "{summary:?}");
}

#[test]
fn a_journal_without_a_database_row_is_found() {
    let Scratch { folder, store } = scratch();
    let path = folder.path().join("store.sqlite3");
    let mut recorder = store.begin(&About { agent: Some("bot".into()), ..About::default() }).unwrap();
    let _ = recorder.append(chunk("m", "one")).unwrap();
    let id = recorder.id().to_owned();
    // As if the row had never been inserted: only the journal exists.
    let writers = folder.path().join("store.sqlite3-writers");
    let journal = std::fs::read(writers.join(format!("{id}.0"))).unwrap();
    recorder.close().unwrap();
    store.delete(&id).unwrap();
    drop(store);
    // And a partial frame after it.
    let torn = [&journal[..], &journal[journal.len() - 40..journal.len() - 10]].concat();
    std::fs::write(writers.join(format!("{id}.0")), torn).unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(store.repairs().len(), 1);
    assert_eq!((&*store.repairs()[0].session, store.repairs()[0].records), (&*id, 1));
    assert_eq!(records(&store, &id).len(), 1);
    assert_eq!(store.session(&id).unwrap().about.agent.as_deref(), Some("bot"));
}

#[test]
fn sessions_are_deleted_while_others_record() {
    let scratch = scratch();
    let mut ids = Vec::new();
    for session in 0..3 {
        let mut recorder = scratch.begin();
        for number in 0..3000 {
            let _ =
                recorder.append(chunk(&format!("m{number}"), &format!("word{number} {session}"))).unwrap();
        }
        ids.push(recorder.id().to_owned());
        recorder.complete().unwrap();
    }
    let before = scratch.store.sizes().unwrap();
    let other = scratch.other();
    let recorded = std::thread::scope(|scope| {
        let recording = scope.spawn(|| {
            let mut recorder = other.begin(&About::default()).unwrap();
            for number in 0..3000 {
                let _ = recorder.append(chunk("m", &format!("live {number}"))).unwrap();
            }
            let id = recorder.id().to_owned();
            recorder.complete().unwrap();
            id
        });
        for id in &ids[..2] {
            scratch.store.delete(id).unwrap();
        }
        scratch.store.shrink().unwrap();
        recording.join().unwrap()
    });
    assert_eq!(records(&scratch.store, &recorded).len(), 3000);
    assert_eq!(records(&scratch.store, &ids[2]).len(), 3000);
    assert_eq!(scratch.store.sessions(&Filter::default()).unwrap().len(), 2);
    scratch.store.delete(&recorded).unwrap();
    scratch.store.shrink().unwrap();
    let after = scratch.store.sizes().unwrap();
    assert!(after.file < before.file / 2, "{before:?} {after:?}");
    assert_eq!(after.used, after.file, "no room is left over");
}

/// Returns the numbers of records in blocks, of indexed records and of checkpoints of a session.
fn moved_and_indexed(path: &std::path::Path) -> (i64, i64, i64) {
    let database = rusqlite::Connection::open(path).unwrap();
    let query = "SELECT length, indexed, (SELECT count(*) FROM checkpoints) FROM sessions";
    database.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
}

#[test]
fn the_next_program_completes_unfinished_work() {
    for is_moved in [false, true] {
        let Scratch { folder, store } = scratch();
        let path = folder.path().join("store.sqlite3");
        let mut recorder = store.begin(&About::default()).unwrap();
        let id = recorder.id().to_owned();
        for number in 0..9000 {
            recorder.put(chunk(&format!("m{}", number / 100), &format!("word{number} of many "))).unwrap();
        }
        if is_moved {
            recorder.complete().unwrap();
        } else {
            recorder.close_within(std::time::Duration::ZERO).unwrap();
        }
        drop(store);
        if is_moved {
            // As left by a program that only had time to move the records.
            let database = rusqlite::Connection::open(&path).unwrap();
            let forget = "UPDATE sessions SET indexed = 0, indexed_bytes = 0; DELETE FROM checkpoints;
                DELETE FROM entries; DELETE FROM texts; DELETE FROM words; DELETE FROM replaced;";
            database.execute_batch(forget).unwrap();
        }
        let (moved, indexed, _) = moved_and_indexed(&path);
        assert!(indexed < 9000 && (moved == 9000) == is_moved, "{moved} {indexed}");
        let find = |store: &Store| {
            let query = Search { query: "word8999".into(), ..Search::default() };
            store.search(&query).unwrap().iter().map(|hit| hit.session.clone()).collect::<Vec<_>>()
        };
        // All records are visible before they are indexed.
        let reader = Store::open_read_only(&path).unwrap();
        assert_eq!((records(&reader, &id).len(), find(&reader)), (9000, vec![id.clone()]));
        drop(reader);
        // The next program indexes them without being asked.
        let next = Store::open(&path).unwrap();
        assert_eq!(next.repairs(), []);
        while moved_and_indexed(&path).1 < 9000 {
            std::thread::yield_now();
        }
        let (moved, indexed, checkpoints) = moved_and_indexed(&path);
        assert_eq!((moved, indexed), (9000, 9000));
        assert!(checkpoints > 0);
        assert_eq!((records(&next, &id).len(), find(&next)), (9000, vec![id.clone()]));
        assert!(next.session(&id).unwrap().closed);
    }
}

#[test]
fn a_deletion_that_was_interrupted_is_completed_by_the_next_program() {
    let Scratch { folder, store } = scratch();
    let path = folder.path().join("store.sqlite3");
    let mut recorder = store.begin(&About::default()).unwrap();
    let id = recorder.id().to_owned();
    let _ = recorder.append(chunk("m", "gone")).unwrap();
    recorder.complete().unwrap();
    drop(store);
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE sessions SET closed = 3", []).unwrap();
    let reader = Store::open_read_only(&path).unwrap();
    assert!(matches!(reader.session(&id), Err(StoreError::UnknownSession { .. })));
    assert_eq!(reader.sessions(&Filter::default()).unwrap(), []);
    // Commands of the next program wait until that is done.
    Store::open(&path).unwrap().shrink().unwrap();
    let rows: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM blocks)", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(rows, 0);
}

/// Environment variable with the folder of the child, which is a small disk.
const SMALL_DISK: &str = "SWITCHBOARD_STORE_SMALL_DISK_TEST";

/// The child process: fills its disk and then deletes. Does nothing in the test run itself.
#[test]
fn child_on_a_small_disk() {
    let Ok(folder) = std::env::var(SMALL_DISK) else { return };
    let folder = std::path::Path::new(&folder);
    let path = folder.join("store.sqlite3");
    let store = Store::open(&path).unwrap();
    let mut recorder = store.begin(&About::default()).unwrap();
    let id = recorder.id().to_owned();
    for number in 0..6000_u64 {
        let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let _ = recorder.append(chunk(&format!("m{number}"), &format!("{noise:x} {number} words"))).unwrap();
    }
    recorder.complete().unwrap();
    let mut filler = std::fs::File::create(folder.join("filler")).unwrap();
    for size in [65536, 4096, 512, 1] {
        while std::io::Write::write_all(&mut filler, &vec![1; size]).is_ok() {}
    }
    assert!(std::fs::write(folder.join("probe"), [1; 5000]).is_err(), "the disk is not full");
    // Recording is refused with the reason.
    let mut refused =
        store.begin(&About::default()).and_then(|mut recorder| recorder.append(chunk("m", "x")));
    assert!(matches!(refused.as_mut().unwrap_err(), StoreError::Full { .. }), "{refused:?}");
    let before = store.sizes().unwrap();
    store.delete(&id).unwrap();
    store.shrink().unwrap();
    let after = store.sizes().unwrap();
    assert!(after.file < before.file / 2, "{before:?} {after:?}");
    println!("deleted on a full disk");
}

#[test]
fn a_full_disk_does_not_prevent_deleting() {
    let folder = tempfile::tempdir().unwrap();
    let (test, done) = ("sharing::child_on_a_small_disk", "deleted on a full disk");
    run_on_mount(Mount::Small(8), folder.path(), SMALL_DISK, test, done);
}
