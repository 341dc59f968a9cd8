//! Flipped bits on the disk. The damage is reported as a gap, and no other record is missing.

use std::ops::Range;
use std::path::{Path, PathBuf};

use switchboard_store::{About, Filter, Item, Record, Search, Settings, Store, StoreError};

use crate::power::journal;
use crate::support::{chunk, records, scratch};

/// Returns the records of a session and the gaps between them.
fn read(store: &Store, id: &str) -> (Vec<Record>, Vec<Range<u64>>) {
    let (mut found, mut gaps) = (Vec::new(), Vec::new());
    for item in store.read(id, 0).unwrap() {
        match item.unwrap() {
            Item::Record(record) => found.push(record),
            Item::Gap { from, to, reason } => {
                assert!(reason.contains("damaged"), "{reason}");
                gaps.push(from..to);
            }
        }
    }
    (found, gaps)
}

/// Checks that records and gaps together cover the session, and that at most one frame is missing.
fn check_whole(all: &[Record], ends: &[u64], (found, gaps): &(Vec<Record>, Vec<Range<u64>>), at: &str) {
    let mut next = 0;
    let mut gaps = gaps.iter().peekable();
    let mut lost = Vec::new();
    for record in found {
        while let Some(gap) = gaps.next_if(|gap| gap.start == next) {
            next = gap.end;
            lost.push(gap.clone());
        }
        assert_eq!(record, &all[next as usize], "{at}");
        next += 1;
    }
    lost.extend(gaps.cloned());
    next = lost.last().map_or(next, |gap| next.max(gap.end));
    assert_eq!(next, all.len() as u64, "{at}: {lost:?}");
    // The records of one frame end at the same byte.
    let frames: Vec<_> = lost.iter().flat_map(Clone::clone).map(|number| ends[number as usize]).collect();
    assert!(frames.windows(2).all(|pair| pair[0] == pair[1]), "{at}: {lost:?}");
}

#[test]
fn a_flipped_bit_anywhere_in_a_journal_costs_one_frame_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (id, all, ends) = journal(folder.path());
    let path = folder.path().join("store.sqlite3");
    let place = folder.path().join("store.sqlite3-writers").join(format!("{id}.0"));
    let journal = std::fs::read(folder.path().join("journal")).unwrap();
    let reader = Store::open_read_only(&path).unwrap();
    let mut lost = 0;
    for wrong in 0..journal.len() {
        let mut damaged = journal.clone();
        damaged[wrong] ^= 1 << (wrong % 8);
        std::fs::write(&place, &damaged).unwrap();
        let at = format!("byte {wrong}");
        let found = read(&reader, &id);
        check_whole(&all, &ends, &found, &at);
        lost += found.1.len();
        // All readers agree.
        assert_eq!(reader.session(&id).unwrap().length, all.len() as u64, "{at}");
        assert_eq!(reader.gaps(None).unwrap().len(), found.1.len(), "{at}");
        assert_eq!(reader.gaps(Some(&id)).unwrap().len(), found.1.len(), "{at}");
        assert_eq!(reader.state(&id, None).unwrap().gaps.len(), found.1.len(), "{at}");
    }
    assert!(lost > journal.len() / 2, "{lost} of {}", journal.len());
}

/// Copies a store with one journal into a folder.
fn copy(from: &Path, journal: &[u8], id: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["store.sqlite3", "store.sqlite3-wal"] {
        std::fs::copy(from.join(name), folder.path().join(name)).unwrap();
    }
    let writers = folder.path().join("store.sqlite3-writers");
    std::fs::create_dir(&writers).unwrap();
    std::fs::write(writers.join(format!("{id}.0")), journal).unwrap();
    let path = folder.path().join("store.sqlite3");
    (folder, path)
}

#[test]
fn the_next_writer_keeps_a_damaged_journal_until_its_session_is_deleted() {
    let original = tempfile::tempdir().unwrap();
    let (id, all, ends) = journal(original.path());
    let journal = std::fs::read(original.path().join("journal")).unwrap();
    for wrong in (0..journal.len()).step_by(journal.len() / 23) {
        let mut damaged = journal.clone();
        damaged[wrong] ^= 4;
        let (_folder, path) = copy(original.path(), &damaged, &id);
        let at = format!("byte {wrong}");
        let store = Store::open(&path).unwrap();
        let found = read(&store, &id);
        check_whole(&all, &ends, &found, &at);
        let kept = store.kept_files().unwrap();
        let repaired: Vec<_> = store.repairs().iter().flat_map(|repair| repair.damaged.clone()).collect();
        assert_eq!(repaired, kept, "{at}");
        assert_eq!(kept.len(), usize::from(!found.1.is_empty()), "{at}");
        for file in &kept {
            assert_eq!(std::fs::read(file).unwrap(), damaged, "{at}");
            let gap = store.gaps(Some(&id)).unwrap().remove(0);
            assert!(gap.reason.contains(&file.display().to_string()), "{}", gap.reason);
        }
        // The session can be continued after the gap, and a window of its end still reports the gap.
        let mut recorder = store.resume(&id).unwrap();
        assert_eq!(recorder.append(chunk("n", "more")).unwrap().sequence(), all.len() as u64);
        recorder.complete().unwrap();
        assert_eq!(store.window(&id, None, 1).unwrap().gaps.len(), found.1.len(), "{at}");
        assert_eq!(store.kept_files().unwrap(), kept);
        store.delete(&id).unwrap();
        assert_eq!(store.kept_files().unwrap(), [] as [PathBuf; 0]);
    }
}

#[test]
fn records_behind_damage_are_found_by_a_search_and_a_recorder_at_work_goes_on() {
    let scratch = scratch();
    let path = scratch.folder.path().join("store.sqlite3");
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    // Enough to fill segments while another connection keeps the database busy.
    let blocker = rusqlite::Connection::open(&path).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let text = "x".repeat(3000);
    for number in 0..2000 {
        let _ = recorder.append(chunk("m", &format!("{text} needle{number} "))).unwrap();
    }
    let folder = scratch.folder.path().join("store.sqlite3-writers");
    let mut segments: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some());
    assert!(segments.len() >= 2, "{segments:?}");
    for segment in &segments {
        let mut bytes = std::fs::read(segment).unwrap();
        // After the part that the writer has already read.
        let wrong = bytes.len() / 4 * 3;
        bytes[wrong] ^= 8;
        // In place, because the recorder keeps writing to the same file.
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(segment).unwrap();
        file.write_all_at(&bytes[wrong..=wrong], wrong as u64).unwrap();
    }
    let reader = scratch.other_reader();
    let hit = |query: &str| reader.search(&Search { query: query.into(), ..Search::default() }).unwrap();
    assert_eq!(hit("needle1999").len(), 1);
    assert_eq!(reader.gaps(None).unwrap().len(), segments.len());
    blocker.execute_batch("ROLLBACK").unwrap();
    let _ = recorder.append(chunk("m", "last")).unwrap();
    recorder.complete().unwrap();
    let (found, gaps) = read(&scratch.store, &id);
    assert_eq!((found.len(), gaps.len()), (2001 - segments.len(), segments.len()));
    assert_eq!(scratch.store.kept_files().unwrap().len(), segments.len());
    assert_eq!(scratch.store.window(&id, None, 1).unwrap().gaps.len(), segments.len());
    assert_eq!(hit("needle1999").len(), 1);
}

/// Creates a store whose latest sessions are only in SQLite's log, as after a crash.
fn store_with_log(folder: &Path) -> Vec<(String, Vec<Record>)> {
    let scratch = scratch();
    let mut sessions = Vec::new();
    for session in 0..4 {
        let mut recorder = scratch.begin();
        for number in 0..50 {
            let _ = recorder.append(chunk("m", &format!("{session} {number}"))).unwrap();
        }
        let id = recorder.id().to_owned();
        // An open reader prevents the log from being truncated.
        let reader = rusqlite::Connection::open(scratch.folder.path().join("store.sqlite3")).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM sessions;").unwrap();
        recorder.complete().unwrap();
        for name in ["store.sqlite3", "store.sqlite3-wal"] {
            std::fs::copy(scratch.folder.path().join(name), folder.join(name)).unwrap();
        }
        sessions.push((id.clone(), records(&scratch.store, &id)));
        std::mem::forget(reader);
    }
    sessions
}

#[test]
fn damage_to_the_log_of_the_database_that_costs_anything_is_reported() {
    let original = tempfile::tempdir().unwrap();
    let sessions = store_with_log(original.path());
    let log = std::fs::read(original.path().join("store.sqlite3-wal")).unwrap();
    let frame = 4096 + 24;
    assert!(log.len() > 10 * frame, "{}", log.len());
    let is_all_there = |store: &Store| {
        let listed = store.sessions(&Filter::default()).unwrap();
        listed.len() == sessions.len()
            && sessions.iter().all(|(id, all)| {
                store.read(id, 0).is_ok_and(|items| {
                    let items: Result<Vec<_>, StoreError> = items.collect();
                    items.is_ok_and(|items| {
                        items.into_iter().filter_map(Item::into_record).eq(all.iter().cloned())
                    })
                })
            })
    };
    let untouched = Store::open_read_only(original.path().join("store.sqlite3")).unwrap();
    assert!(untouched.log_damage().is_none() && is_all_there(&untouched));
    let mut costly = 0;
    // In the header, in frame headers and in pages.
    let header = (0..32).step_by(5);
    let frames = (0..log.len() / frame).step_by(7).flat_map(|number| {
        let start = 32 + number * frame;
        [start + 2, start + 9, start + 18, start + 24 + number * 13 % 4096]
    });
    for wrong in header.chain(frames) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.sqlite3");
        std::fs::copy(original.path().join("store.sqlite3"), &path).unwrap();
        let mut damaged = log.clone();
        damaged[wrong] ^= 1 << (wrong % 8);
        std::fs::write(folder.path().join("store.sqlite3-wal"), &damaged).unwrap();
        let reader = Store::open_read_only(&path).unwrap();
        let is_whole = is_all_there(&reader);
        costly += usize::from(!is_whole);
        assert!(is_whole || reader.log_damage().is_some(), "byte {wrong}");
        drop(reader);
        // The next writer reports it and keeps the log.
        let writer = Store::open(&path).unwrap();
        if !is_whole {
            let kept = writer.log_damage().and_then(|damage| damage.kept.clone()).unwrap();
            assert_eq!(std::fs::read(&kept).unwrap(), damaged, "byte {wrong}");
            assert_eq!(writer.kept_files().unwrap(), [kept]);
        }
    }
    assert!(costly > 10, "{costly}");
}

#[test]
fn a_session_that_has_a_journal_and_no_entry_is_reported_and_put_back() {
    let original = tempfile::tempdir().unwrap();
    let (id, all, _) = journal(original.path());
    let journal = std::fs::read(original.path().join("journal")).unwrap();
    let (_folder, path) = copy(original.path(), &journal, &id);
    // Its row was only in the log.
    rusqlite::Connection::open(&path).unwrap().execute("DELETE FROM sessions", []).unwrap();
    let gaps = Store::open_read_only(&path).unwrap().gaps(None).unwrap();
    assert_eq!(gaps.len(), 1);
    assert_eq!((&*gaps[0].session, gaps[0].to), (&*id, all.len() as u64));
    let store = Store::open(&path).unwrap();
    assert_eq!((records(&store, &id), store.gaps(None).unwrap()), (all, vec![]));
}

/// Returns incompressible text.
fn noise(seed: u64, length: u64) -> String {
    (0..length)
        .map(|number| {
            let mut mixed = (seed * 1_000_003 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^= mixed >> 31;
            mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            char::from(b'a' + ((mixed ^ (mixed >> 29)) % 26) as u8)
        })
        .collect()
}

#[test]
fn the_oldest_sessions_make_room_for_a_recording_before_the_limit_is_reached() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite3");
    let settings = Settings { max_bytes: Some(2_000_000), makes_room: true, ..Settings::default() };
    let store = Store::open_with(&path, &settings).unwrap();
    // The oldest session is still being recorded.
    let mut open = store.begin(&About::default()).unwrap();
    let _ = open.append(chunk("m", "first")).unwrap();
    let mut ids = vec![open.id().to_owned()];
    for session in 0..12_u64 {
        let mut recorder = store.begin(&About::default()).unwrap();
        ids.push(recorder.id().to_owned());
        for number in 0..80 {
            let _ = recorder.append(chunk("m", &noise(session * 100 + number, 4000))).unwrap();
        }
        recorder.complete().unwrap();
    }
    let deleted = store.take_deleted();
    let left: Vec<_> = store.sessions(&Filter::default()).unwrap().into_iter().map(|it| it.id).collect();
    assert!(deleted.len() >= 6 && left.len() >= 3, "{} deleted, {} left", deleted.len(), left.len());
    // The oldest first, and none that is being recorded.
    assert_eq!(deleted, ids[1..=deleted.len()]);
    assert!(left.contains(&ids[0]) && left.contains(ids.last().unwrap()));
    assert_eq!(records(&store, ids.last().unwrap()).len(), 80);
    assert!(store.shortage().is_none());
    let _ = open.append(chunk("m", "last")).unwrap();
    open.complete().unwrap();
}

#[test]
fn a_transaction_larger_than_the_free_tenth_makes_room_for_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite3");
    let settings = Settings { max_bytes: Some(2_400_000), makes_room: true, ..Settings::default() };
    let store = Store::open_with(&path, &settings).unwrap();
    for round in 0..8_u64 {
        for session in 0..4 {
            let mut small = store.begin(&About::default()).unwrap();
            let _ = small.append(chunk("m", &noise(round * 10 + session, 100_000))).unwrap();
            small.complete().unwrap();
        }
        let mut large = store.begin(&About::default()).unwrap();
        let _ = large.append(chunk("m", &noise(round * 10 + 9, 800_000))).unwrap();
        large.complete().unwrap();
    }
    assert!(!store.take_deleted().is_empty());
    assert!(store.shortage().is_none());
}

#[test]
fn a_shortage_is_told_until_there_is_room_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite3");
    let settings = Settings { max_bytes: Some(600_000), ..Settings::default() };
    let store = Store::open_with(&path, &settings).unwrap();
    let mut ids = Vec::new();
    'full: for session in 0.. {
        let mut recorder = store.begin(&About::default()).unwrap();
        ids.push(recorder.id().to_owned());
        for number in 0..20 {
            if recorder.append(chunk("m", &noise(session * 100 + number, 4000))).is_err() {
                break 'full;
            }
            if recorder.settle().is_err() {
                break 'full;
            }
        }
        if recorder.complete().is_err() {
            break;
        }
    }
    assert!(matches!(store.shortage(), Some(StoreError::Full { .. })));
    // The interrupted session can be read.
    let last = ids.last().unwrap();
    assert!(!records(&store, last).is_empty());
    for id in &ids[..ids.len() - 1] {
        store.delete(id).unwrap();
    }
    store.clean_index().unwrap();
    while store.shortage().is_some() {
        std::thread::yield_now();
    }
}

#[test]
fn statistics_are_made_while_sessions_are_deleted() {
    let scratch = scratch();
    let ids: Vec<String> = (0..40)
        .map(|session| {
            let mut recorder = scratch.begin();
            for number in 0..30 {
                let _ = recorder.append(chunk("m", &format!("{session} {number}"))).unwrap();
            }
            let id = recorder.id().to_owned();
            recorder.close().unwrap();
            id
        })
        .collect();
    let reader = scratch.other_reader();
    let counted = |reader: &Store| {
        let statistics = reader.statistics(&Filter::default()).unwrap();
        assert_eq!(statistics.unreadable, 0);
        statistics.agents.values().map(|share| share.records).sum::<u64>()
    };
    assert_eq!(counted(&reader), 40 * 30);
    std::thread::scope(|scope| {
        let store = &scratch.store;
        let deleting = scope.spawn(move || ids.iter().for_each(|id| store.delete(id).unwrap()));
        while !deleting.is_finished() {
            counted(&reader);
        }
    });
    assert_eq!(counted(&reader), 0);
}
