//! A store is one file, and its removal is reported.

use std::time::Duration;

use switchboard_store::{About, Store, StoreError};

use crate::support::{chunk, records, scratch};

#[test]
fn after_a_clean_end_the_file_alone_is_complete() {
    let crate::support::Scratch { folder, store } = scratch();
    let path = folder.path().join("store.sqlite3");
    let mut recorder = store.begin(&About::default()).unwrap();
    let id = recorder.id().to_owned();
    for number in 0..3000 {
        let _ = recorder.append(chunk("m", &format!("word {number}"))).unwrap();
    }
    // With more time than usual: what a slow disk does not take in time stays in the journal.
    recorder.close_within(Duration::from_secs(120)).unwrap();
    // Also if the program ends without closing it.
    let copy = folder.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(records(&Store::open_read_only(&copy).unwrap(), &id).len(), 3000);
    drop(store);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!left.iter().any(|path| path.to_str().unwrap().contains("store.sqlite3-wal")), "{left:?}");
    let journals = std::fs::read_dir(folder.path().join("store.sqlite3-writers")).unwrap().count();
    assert_eq!(journals, 0);
}

#[test]
fn a_store_without_its_log_is_neither_taken_for_something_else_nor_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite3");
    // As left by a killed program: everything is in the log, and the file has only its first page.
    let database = rusqlite::Connection::open(&path).unwrap();
    database.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    database.execute_batch("PRAGMA application_id = 1400324708; CREATE TABLE sessions (x)").unwrap();
    let alone = folder.path().join("alone.sqlite3");
    std::fs::copy(&path, &alone).unwrap();
    let before = std::fs::read(&alone).unwrap();
    for error in [Store::open(&alone).unwrap_err(), Store::open_read_only(&alone).unwrap_err()] {
        assert!(matches!(error, StoreError::LogMissing { .. }), "{error}");
        assert!(error.to_string().contains("alone.sqlite3-wal is missing"), "{error}");
    }
    assert_eq!(std::fs::read(&alone).unwrap(), before);
}

#[test]
fn a_store_that_is_taken_away_while_it_is_in_use_is_told() {
    for replace in [false, true] {
        let scratch = scratch();
        let path = scratch.folder.path().join("store.sqlite3");
        let mut recorder = scratch.begin();
        let _ = recorder.append(chunk("m", "one")).unwrap();
        std::fs::remove_file(&path).unwrap();
        if replace {
            drop(Store::open(&path).unwrap());
        }
        // Recording continues until the change is noticed, within a second.
        let error = loop {
            if let Err(error) = recorder.append(chunk("m", "more")) {
                break error;
            }
        };
        assert!(error.to_string().contains("deleted or replaced while in use"), "{error}");
    }
    // A recording that ends before the check reports it on close.
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let _ = recorder.append(chunk("m", "one")).unwrap();
    std::fs::remove_file(scratch.folder.path().join("store.sqlite3")).unwrap();
    let error = recorder.close().unwrap_err();
    assert!(matches!(error, StoreError::Replaced { .. }), "{error}");
}
