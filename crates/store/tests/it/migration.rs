//! Stores of earlier versions are migrated without loss.
//!
//! `fixtures/stores/version-1.sqlite3.zst` was written by the last program of that version, which was then
//! killed: two sessions are closed, the end of one was not in a block yet, another had no block at all, and
//! one was deleted.

use std::path::{Path, PathBuf};

use switchboard_store::{Channel, Filter, Moment, Record, Search, Store};

use crate::support::records;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/stores/version-1.sqlite3.zst");

/// Titles, number of records and closed state of the sessions.
const SESSIONS: [(&str, u64, bool); 4] =
    [("whole", 4000, true), ("small", 10, true), ("cut off", 1500, false), ("only waiting", 12, false)];

/// Unpacks the version 1 store into a folder.
fn old_store(folder: &Path) -> PathBuf {
    let path = folder.join("store.sqlite3");
    let plain = zstd::decode_all(std::fs::File::open(FIXTURE).unwrap()).unwrap();
    std::fs::write(&path, plain).unwrap();
    path
}

/// Returns a record of its sessions.
fn record(number: u64) -> Record {
    let update = |update: String| {
        let head = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":"#;
        (Channel::ToClient, format!("{head}{update}}}}}"))
    };
    let (channel, text) = match number {
        0 => (Channel::ToAgent, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"capabilities":{},"info":{"name":"old-client","version":"1"}}}"#.to_owned()),
        1 => (Channel::ToClient, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2,"capabilities":{},"info":{"name":"old-agent","version":"1"}}}"#.to_owned()),
        2 => (Channel::ToAgent, r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/old/project","mcpServers":[]}}"#.to_owned()),
        3 => (Channel::ToClient, r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s-1"}}"#.to_owned()),
        4 => (Channel::ToAgent, r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s-1","prompt":[{"type":"text","text":"What was before?"}]}}"#.to_owned()),
        5 => (Channel::ToClient, r#"{"jsonrpc":"2.0","id":2,"result":{"messageId":"u-1"}}"#.to_owned()),
        _ if number.is_multiple_of(50) => update(format!(
            r#"{{"sessionUpdate":"tool_call_update","toolCallId":"call-{}","title":"Call {number}","status":"completed","content":[{{"type":"content","content":{{"type":"text","text":"{}"}}}}],"_meta":{{"n":{number}}}}}"#,
            number / 200,
            "a long text that is stored once; ".repeat(70)
        )),
        _ if number.is_multiple_of(97) => (Channel::StandardError, format!("warning {number}")),
        _ if number.is_multiple_of(101) => (Channel::OtherToClient, format!(r#"{{"other":{number}}}"#)),
        _ if number.is_multiple_of(103) => (Channel::Diagnostic, format!(r#"{{"lost":{number}}}"#)),
        _ => update(format!(
            r#"{{"sessionUpdate":"agent_message_chunk","messageId":"m-{}","content":{{"type":"text","text":"word{number} and more "}}}}"#,
            number / 30
        )),
    };
    let record = Record::new(channel, text).at(Moment(1_700_000_000_000 + 7 * number as i64));
    let record = record.with_peer(if number.is_multiple_of(7) { "agent" } else { "" });
    Record { sequence: number, protocol: if number < 2 { 0 } else { 2 }, ..record }
}

/// Checks that the store has everything the old one had.
fn check(store: &Store) {
    let sessions = store.sessions(&Filter::default()).unwrap();
    assert_eq!(sessions.len(), SESSIONS.len());
    for (title, length, closed) in SESSIONS {
        let found = sessions.iter().find(|session| session.about.title.as_deref() == Some(title)).unwrap();
        assert_eq!((found.length, found.closed, found.protocol), (length, closed, 2), "{title}");
        assert_eq!(found.about.agent.as_deref(), Some("old-agent"));
        assert_eq!(found.about.client.as_deref(), Some("old-client"));
        assert_eq!(found.about.project.as_deref(), Some("/old/project"));
        assert_eq!(found.wire_ids, ["s-1"]);
        assert_eq!(found.changed, record(length - 1).time);
        let expected: Vec<_> = (0..length).map(record).collect();
        assert_eq!(records(store, &found.id), expected, "{title}");
        assert_eq!(found.bytes, expected.iter().map(|record| record.bytes.len() as u64).sum::<u64>());
        let (full, window) =
            (store.state(&found.id, None).unwrap(), store.window(&found.id, None, 5).unwrap());
        let full = full.conversation.session(Some("s-1")).unwrap();
        let window = window.conversation.session(Some("s-1")).unwrap();
        assert_eq!(full.entries().last(), window.entries().last(), "{title}");
        // Indexed and unindexed.
        let found_at = |query: &str| {
            let session = Some(found.id.clone());
            let hits = store.search(&Search { query: query.to_owned(), session, ..Search::default() });
            hits.unwrap().iter().map(|hit| (hit.first..=hit.last).contains(&(length - 1))).collect::<Vec<_>>()
        };
        assert_eq!(found_at(&format!("word{}", length - 1)), [true], "{title}");
        assert_eq!(found_at("before"), [false], "{title}");
    }
}

#[test]
fn a_store_of_the_first_version_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = old_store(folder.path());
    let store = Store::open(&path).unwrap();
    let mut repaired: Vec<_> = store.repairs().iter().map(|repair| repair.problem.clone()).collect();
    repaired.dedup();
    assert_eq!((store.repairs().len(), repaired), (2, vec![None]), "the two that were cut off");
    check(&store);
    // The session can be continued.
    let id =
        store.sessions(&Filter { title: Some("cut off".into()), ..Filter::default() }).unwrap()[0].id.clone();
    let mut recorder = store.resume(&id).unwrap();
    for number in 1500..1600 {
        recorder.put(record(number)).unwrap();
    }
    recorder.complete().unwrap();
    assert_eq!(records(&store, &id), (0..1600).map(record).collect::<Vec<_>>());
    drop(store);
    assert_eq!(records(&Store::open_read_only(&path).unwrap(), &id).len(), 1600);
}

#[test]
fn a_reader_brings_a_store_up_to_date_too() {
    let folder = tempfile::tempdir().unwrap();
    check(&Store::open_read_only(old_store(folder.path())).unwrap());
}

/// The migration is killed at every step: only a prefix of its log is left.
#[test]
fn a_migration_that_is_killed_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = old_store(folder.path());
    let before = std::fs::read(&path).unwrap();
    // A reader of the old store keeps the log from being truncated.
    let holder = rusqlite::Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN; SELECT count(*) FROM sessions;").unwrap();
    let store = Store::open(&path).unwrap();
    let log = std::fs::read(folder.path().join("store.sqlite3-wal")).unwrap();
    drop((store, holder));
    // A header of 32 bytes, and pages of 4096 bytes with headers of 24 bytes.
    let frames = (log.len() - 32) / 4120;
    assert!(frames > 20, "{frames}");
    for cut in (0..=frames).step_by(frames / 12).map(|frame| 32 + frame * 4120 + frame % 2 * 1000) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.sqlite3");
        std::fs::write(&path, &before).unwrap();
        std::fs::write(folder.path().join("store.sqlite3-wal"), &log[..cut.min(log.len())]).unwrap();
        check(&Store::open(&path).unwrap());
    }
}
