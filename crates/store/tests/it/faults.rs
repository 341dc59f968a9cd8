//! Failing disks. No record is lost silently.

use std::fs::Permissions;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use switchboard_store::{About, Filter, Item, Search, Settings, Store, StoreError};

use crate::support::{chunk, records, scratch};

#[test]
fn a_full_disk_is_reported_and_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite3");
    let settings = Settings { max_bytes: Some(400_000), ..Settings::default() };
    let store = Store::open_with(&path, &settings).unwrap();
    let mut recorder = store.begin(&About::default()).unwrap();
    let id = recorder.id().to_owned();
    let mut acknowledged = 0;
    let error = loop {
        // Incompressible text.
        let text: String = (0..4000_u64)
            .map(|number| char::from(b'a' + (blake(acknowledged * 4001 + number) % 26) as u8))
            .collect();
        match recorder.append(chunk("m", &text)).and_then(|receipt| receipt.wait()) {
            Ok(sequence) => acknowledged = sequence + 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("store is full"), "{error}");
    assert!(acknowledged > 10);
    let refused = recorder.append(chunk("m", "x")).unwrap_err();
    assert!(
        matches!(&refused, StoreError::RecordingStopped { sequence, .. } if *sequence == acknowledged),
        "{refused}"
    );
    drop(recorder);
    assert_eq!(records(&store, &id).len() as u64, acknowledged);
    drop(store);
    // With more space it continues where it stopped.
    let store = Store::open(&path).unwrap();
    assert_eq!(records(&store, &id).len() as u64, acknowledged);
    let mut recorder = store.resume(&id).unwrap();
    assert_eq!(recorder.append(chunk("m", "x")).unwrap().wait().unwrap(), acknowledged);
}

fn blake(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 31;
    mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}

#[test]
fn a_store_that_cannot_be_written_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    // A file in place of a folder, and on Linux a read-only folder.
    for path in [file.join("store.sqlite3"), "/proc/self/store.sqlite3".into()] {
        let error = Store::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Open { .. } | StoreError::ReadOnly { .. }), "{error}");
    }
    let error = Store::open_read_only(folder.path().join("none")).unwrap_err();
    assert!(error.to_string().contains("no such file"), "{error}");
    let reader = {
        let scratch = scratch();
        scratch.begin().close().unwrap();
        let reader = Store::open_read_only(scratch.folder.path().join("store.sqlite3")).unwrap();
        assert!(matches!(reader.begin(&About::default()), Err(StoreError::ReadOnly { .. })));
        reader
    };
    drop(reader);
}

/// Environment variable with the store of the child, which may only read.
const READER: &str = "SWITCHBOARD_STORE_READ_ONLY_TEST";

/// The child process: reads a store in a read-only folder. Does nothing in the test run itself.
#[test]
fn child_that_may_only_read() {
    let Ok(path) = std::env::var(READER) else { return };
    let folder = std::path::Path::new(&path).parent().unwrap();
    assert!(std::fs::write(folder.join("probe"), "x").is_err(), "the folder can be written");
    let store = Store::open_read_only(&path).unwrap();
    let sessions = store.sessions(&Filter::default()).unwrap();
    assert_eq!(records(&store, &sessions[0].id).len(), 3000);
    assert_eq!(store.state(&sessions[0].id, None).unwrap().at, 3000);
    let search = Search { query: "needle".into(), ..Search::default() };
    assert_eq!(store.search(&search).unwrap().len(), 1);
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Open { .. } | StoreError::ReadOnly { .. }), "{error}");
    println!("read everything");
}

#[test]
fn a_store_in_a_folder_that_cannot_be_written_is_read() {
    let crate::support::Scratch { folder, store } = scratch();
    // A name with characters that are special in a URI.
    let path = folder.path().join("a % b?c#d.sqlite3");
    let named = Store::open(&path).unwrap();
    let mut recorder = named.begin(&About::default()).unwrap();
    for number in 0..3000 {
        let text = if number == 7 { "needle".to_owned() } else { format!("{number}") };
        let _ = recorder.append(chunk(&format!("m{number}"), &text)).unwrap();
    }
    recorder.complete().unwrap();
    drop((store, named));
    let set = |mode| std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = if entry.metadata().unwrap().is_dir() { 0o555 } else { 0o444 };
        std::fs::set_permissions(entry.path(), Permissions::from_mode(mode)).unwrap();
    }
    set(0o555);
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "faults::child_that_may_only_read", "--nocapture"]).env(READER, &path);
    // Root may write everywhere, so the child runs as another user.
    if folder.path().metadata().unwrap().uid() == 0 {
        child.uid(65534).gid(65534).current_dir("/");
    }
    let output = child.output();
    set(0o755);
    match output {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("skipped: nobody else may run this test");
        }
        output => {
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.contains("read everything"), "{said}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn other_files_are_no_stores() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no database, but long enough to look like one ".repeat(100)).unwrap();
    assert!(matches!(Store::open(&text), Err(StoreError::NotAStore { .. })));
    assert!(matches!(Store::open_read_only(&text), Err(StoreError::NotAStore { .. })));
    let other = folder.path().join("other");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(Store::open(&other), Err(StoreError::NotAStore { .. })));
    assert!(matches!(Store::open_read_only(&other), Err(StoreError::NotAStore { .. })));
}

#[test]
fn damaged_and_missing_records_are_gaps() {
    let scratch = scratch();
    let path = scratch.folder.path().join("store.sqlite3");
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    for number in 0..3000 {
        let _ = recorder.append(chunk("m", &format!("{} {number}", blake(number)))).unwrap();
    }
    recorder.complete().unwrap();
    let mut recorder = scratch.store.resume(&id).unwrap();
    for number in 3000..3010 {
        let _ = recorder.append(chunk("m", &format!("{} {number}", blake(number)))).unwrap();
    }
    let database = rusqlite::Connection::open(&path).unwrap();
    let places: Vec<(i64, i64)> = database
        .prepare("SELECT first, count FROM blocks ORDER BY first")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    // One block is changed in a few bytes, and the last one is removed.
    let ((first, count), (last, rest)) = (places[1], *places.last().unwrap());
    database
        .execute("UPDATE blocks SET data = CAST(substr(data, 1, 50) || x'0000' || substr(data, 53) AS BLOB) WHERE first = ?1", [first])
        .unwrap();
    database.execute("DELETE FROM blocks WHERE first = ?1", [last]).unwrap();
    // The journal is damaged in its fifth message.
    let journal = folder_of_journals(&path).join(format!("{id}.3000"));
    let mut bytes = std::fs::read(&journal).unwrap();
    let fifth = chunk("m", &format!("{} {}", blake(3004), 3004)).bytes;
    let place = bytes.windows(fifth.len()).position(|window| window == fifth).unwrap();
    bytes[place + 70] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();
    let mut expected = 0;
    let mut gaps = Vec::new();
    for item in scratch.other_reader().read(&id, 0).unwrap() {
        match item.unwrap() {
            Item::Record(record) => {
                assert_eq!(record.sequence, expected);
                expected += 1;
            }
            Item::Gap { from, to, .. } => {
                assert_eq!(from, expected);
                expected = to;
                gaps.push((from as i64, to as i64));
            }
        }
    }
    assert_eq!(expected, 3010);
    assert_eq!(gaps, [(first, first + count), (last, last + rest), (3004, 3005)]);
    assert_eq!(scratch.other_reader().state(&id, None).unwrap().gaps.len(), 3);
}

fn folder_of_journals(store: &std::path::Path) -> std::path::PathBuf {
    let mut folder = store.as_os_str().to_owned();
    folder.push("-writers");
    folder.into()
}

#[test]
fn a_corrupted_page_is_an_error_or_a_gap_and_never_other_bytes() {
    let scratch = scratch();
    let path = scratch.folder.path().join("store.sqlite3");
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    for number in 0..4000 {
        let _ = recorder.append(chunk("m", &format!("{} {number}", blake(number)))).unwrap();
    }
    recorder.complete().unwrap();
    let expected = records(&scratch.store, &id);
    scratch.store.shrink().unwrap();
    let crate::support::Scratch { folder, store } = scratch;
    drop(store);
    let original = std::fs::read(&path).unwrap();
    let mut noticed = 0;
    for page in 1..original.len() / 4096 {
        std::fs::write(&path, &original).unwrap();
        let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(page as u64 * 4096 + 512)).unwrap();
        file.write_all(&[0xa5; 1024]).unwrap();
        drop(file);
        let read = Store::open_read_only(&path).and_then(|store| {
            let mut next = 0;
            for item in store.read(&id, 0)? {
                match item? {
                    Item::Record(record) => {
                        assert_eq!(record, expected[next], "page {page}");
                        next += 1;
                    }
                    Item::Gap { to, .. } => {
                        noticed += 1;
                        next = usize::try_from(to).unwrap();
                    }
                }
            }
            assert_eq!(next, expected.len(), "page {page}");
            Ok(())
        });
        noticed += usize::from(read.is_err());
    }
    assert!(noticed > 5, "{noticed}");
    drop(folder);
}
