//! Records are read back exactly as written.

use switchboard_store::{About, Channel, Filter, Item, Moment, Record, Recorder, Search, StoreError};

use crate::support::{Scratch, chunk, records, scratch, update};

#[test]
fn records_come_back_as_they_were() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    let mut expected = Vec::new();
    let long = "long ".repeat(5000);
    for number in 0..3000_u64 {
        let record = match number % 5 {
            0 => Record::new(Channel::ToAgent, format!(r#"{{"id":{number},"x":"ä"}}"#)).with_protocol(2),
            1 => chunk("m", &format!("word {number}")).with_peer("agent"),
            2 => Record::new(Channel::StandardError, vec![0xff, 0, number as u8]),
            3 if number % 100 == 3 => update(&format!(r#"{{"long":"{long}","n":{number}}}"#)),
            _ => Record::new(Channel::Process, format!("event {number}")),
        };
        let record = Record { sequence: number, ..record };
        expected.push(record.clone());
        let receipt = recorder.append(record).unwrap();
        assert_eq!(receipt.sequence(), number);
        if number % 701 == 0 {
            assert_eq!(receipt.wait().unwrap(), number);
            assert!(receipt.is_durable());
            assert_eq!(records(&scratch.store, &id).len() as u64, number + 1);
        }
    }
    recorder.sync().unwrap();
    assert_eq!(records(&scratch.store, &id), expected);
    recorder.complete().unwrap();
    assert_eq!(records(&scratch.store, &id), expected);
    let from: Vec<_> = scratch.store.read(&id, 2990).unwrap().map(|item| item.unwrap()).collect();
    assert_eq!(from, expected[2990..].iter().cloned().map(Item::Record).collect::<Vec<_>>());
    // The long text is stored once.
    let sizes = scratch.store.sizes().unwrap();
    assert!(sizes.journal < sizes.wire / 10, "{sizes:?}");
}

#[test]
fn a_session_can_be_continued() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    let _ = recorder.append(chunk("m", "one")).unwrap();
    recorder.complete().unwrap();
    let mut recorder = scratch.store.resume(&id).unwrap();
    assert_eq!(recorder.append(chunk("m", "two")).unwrap().wait().unwrap(), 1);
    drop(recorder);
    assert_eq!(records(&scratch.store, &id).len(), 2);
    assert!(scratch.store.session(&id).unwrap().closed);
}

#[test]
fn a_second_writer_of_a_session_is_refused() {
    let scratch = scratch();
    let other = scratch.other();
    let recorder = scratch.begin();
    let id = recorder.id().to_owned();
    for store in [&scratch.store, &other] {
        assert!(matches!(store.resume(&id), Err(StoreError::SessionInUse { session }) if session == id));
        assert!(matches!(store.delete(&id), Err(StoreError::SessionInUse { .. })));
    }
    recorder.complete().unwrap();
    other.resume(&id).unwrap();
}

#[test]
fn several_stores_write_into_one_file_at_once() {
    let scratch = scratch();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let store = scratch.other();
                scope.spawn(move || {
                    let mut recorder = store.begin(&About::default()).unwrap();
                    for number in 0..500 {
                        let receipt = recorder.append(chunk("m", &format!("{writer}/{number}"))).unwrap();
                        if number % 50 == 0 {
                            receipt.wait().unwrap();
                        }
                    }
                    let id = recorder.id().to_owned();
                    recorder.complete().unwrap();
                    id
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    for (writer, id) in ids.iter().enumerate() {
        let all = records(&scratch.store, id);
        assert_eq!(all.len(), 500);
        for (number, record) in all.iter().enumerate() {
            assert_eq!(record.bytes, chunk("m", &format!("{writer}/{number}")).bytes);
        }
    }
}

#[test]
fn a_clock_that_jumps_back_changes_no_order() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    let times = [5000, 9000, 100, -7, 6000, i64::MAX, i64::MIN];
    for time in times {
        let _ = recorder.append(chunk("m", "x").at(Moment(time))).unwrap();
    }
    recorder.sync().unwrap();
    for _ in 0..2 {
        let found: Vec<_> = records(&scratch.store, &id).iter().map(|record| record.time.0).collect();
        assert_eq!(found, times);
        drop(scratch.store.resume(&id));
    }
    recorder.complete().unwrap();
    let found: Vec<_> = records(&scratch.store, &id).iter().map(|record| record.time.0).collect();
    assert_eq!(found, times);
}

#[test]
fn session_metadata_is_extracted_from_messages() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    for (channel, text) in [
        (
            Channel::ToAgent,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"info":{"name":"ed"}}}"#,
        ),
        (
            Channel::ToClient,
            r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2,"info":{"name":"bot"},"capabilities":{}}}"#,
        ),
        (
            Channel::ToAgent,
            r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/home/u/project"}}"#,
        ),
        (Channel::ToClient, r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"wire-1"}}"#),
        (
            Channel::ToAgent,
            r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"wire-1","prompt":[{"type":"text","text":"Fix it\nplease"}]}}"#,
        ),
    ] {
        let _ = recorder.append(Record::new(channel, text)).unwrap();
    }
    recorder.settle().unwrap();
    let summary = scratch.store.session("wire-1").unwrap();
    let about = About {
        agent: Some("bot".into()),
        client: Some("ed".into()),
        project: Some("/home/u/project".into()),
        title: Some("Fix it".into()),
    };
    assert_eq!((summary.about, summary.protocol, summary.length), (about, 2, 5));
    let _ = recorder
        .append(update(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"wire-1","update":{"title":"Better","sessionUpdate":"session_info_update"}}}"#))
        .unwrap();
    recorder.complete().unwrap();
    let list = |filter: Filter| scratch.store.sessions(&filter).unwrap().len();
    assert_eq!(scratch.store.session("wire-1").unwrap().about.title.as_deref(), Some("Better"));
    assert_eq!(
        list(Filter { agent: Some("BO".into()), project: Some("/home/u".into()), ..Filter::default() }),
        1
    );
    assert_eq!(list(Filter { title: Some("%".into()), ..Filter::default() }), 0);
    assert_eq!(list(Filter { project: Some("/home/u/proj".into()), ..Filter::default() }), 0);
    assert_eq!(list(Filter { until: Some(Moment(5)), ..Filter::default() }), 0);
    assert!(matches!(scratch.store.session("nope"), Err(StoreError::UnknownSession { .. })));
}

#[test]
fn a_deleted_session_leaves_nothing_behind() {
    let scratch = scratch();
    let shared = format!("{}end", "shared ".repeat(1000));
    let mut ids = Vec::new();
    for own in ["first", "second"] {
        let mut recorder = scratch.begin();
        for text in [shared.clone(), format!("{own} ").repeat(1000)] {
            let _ = recorder.append(chunk("m", &text)).unwrap();
        }
        ids.push(recorder.id().to_owned());
        recorder.complete().unwrap();
    }
    scratch.store.delete(&ids[0]).unwrap();
    assert_eq!(records(&scratch.store, &ids[1]).len(), 2);
    scratch.store.delete(&ids[1]).unwrap();
    let sizes = scratch.store.sizes().unwrap();
    assert_eq!((sizes.wire, sizes.journal, sizes.checkpoints), (0, 0, 0));
    scratch.store.shrink().unwrap();
}

/// Returns the segments in the journal of a session.
fn journal(scratch: &Scratch, id: &str) -> Vec<String> {
    let folder = scratch.folder.path().join("store.sqlite3-writers");
    let names =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(&format!("{id}."))).filter(|name| !name.ends_with("lock")).collect()
}

#[test]
fn recordings_that_end_together_are_complete_while_another_goes_on() {
    let scratch = scratch();
    let mut open = scratch.begin();
    let _ = open.append(chunk("m", "still open")).unwrap();
    let mut recorders = Vec::new();
    for number in 0..40 {
        let mut recorder = scratch.begin();
        recorder.put(chunk("m", &format!("together{number}"))).unwrap();
        // One of them has several segments.
        if number == 7 {
            for _ in 0..12 {
                recorder.put(update(&format!("{{\"padding\":\"{}\"}}", "x".repeat(1024 * 1024)))).unwrap();
            }
        }
        recorders.push(recorder);
    }
    let ids: Vec<(String, u64)> =
        recorders.iter().map(|recorder| (recorder.id().to_owned(), recorder.length())).collect();
    Recorder::complete_all(recorders).unwrap();
    let other = scratch.other();
    for (number, (id, length)) in ids.iter().enumerate() {
        assert_eq!(records(&other, id).len() as u64, *length);
        let search = Search { query: format!("together{number}"), ..Search::default() };
        let found = other.search(&search).unwrap();
        assert_eq!(found.len(), 1, "{number}");
        assert!(journal(&scratch, id).is_empty(), "the journal of {id} is moved");
    }
    let _ = open.append(chunk("m", "and more")).unwrap();
    let id = open.id().to_owned();
    assert!(!journal(&scratch, &id).is_empty(), "an open session keeps its own");
    open.complete().unwrap();
    assert_eq!(records(&other, &id).len(), 2);
    Recorder::complete_all([]).unwrap();
}
