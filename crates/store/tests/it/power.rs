//! Journals after a power failure: any prefix of the written bytes, or garbage at the end.

use std::path::Path;

use switchboard_session::{Conversation, Side};
use switchboard_store::{Channel, Item, Record, Store};

use crate::support::{Scratch, chunk, records, scratch};

/// Creates a store whose session is only in its journal. Returns the session's id, its records, and for each
/// record the length of the journal when its append returned.
pub(crate) fn journal(folder: &Path) -> (String, Vec<Record>, Vec<u64>) {
    let Scratch { folder: place, store } = scratch();
    let mut recorder = store.begin(&switchboard_store::About::default()).unwrap();
    let id = recorder.id().to_owned();
    let file = place.path().join("store.sqlite3-writers").join(format!("{id}.0"));
    let mut ends = Vec::new();
    let mut written = |count: usize| {
        let length = file.metadata().unwrap().len();
        ends.extend(std::iter::repeat_n(length, count));
    };
    recorder.append(chunk("m", "alone")).unwrap();
    written(1);
    for text in ["put", "and"] {
        recorder.put(chunk("m", text)).unwrap();
    }
    recorder.append(Record::new(Channel::StandardError, "two\nlines in one record").with_peer("p")).unwrap();
    written(3);
    // Lines that arrived together, after a buffered record.
    recorder.put(chunk("m", "before")).unwrap();
    let lines: Vec<_> =
        ["of", "a", "run"].iter().map(|text| String::from_utf8(chunk("m", text).bytes).unwrap()).collect();
    recorder.append_lines(Channel::ToClient, 2, &lines.join("\n")).unwrap();
    written(4);
    recorder.append(chunk("n", "last")).unwrap();
    written(1);
    recorder.sync().unwrap();
    let found = records(&store, &id);
    assert_eq!(found.len(), ends.len());
    assert_eq!(found[7].bytes, lines[2].as_bytes());
    for name in ["store.sqlite3", "store.sqlite3-wal"] {
        std::fs::copy(place.path().join(name), folder.join(name)).unwrap();
    }
    std::fs::create_dir(folder.join("store.sqlite3-writers")).unwrap();
    std::fs::copy(file, folder.join("journal")).unwrap();
    (id, found, ends)
}

/// Returns the records of a session. Fails on a gap or a wrong order.
fn left(store: &Store, id: &str) -> Vec<Record> {
    store.read(id, 0).unwrap().filter_map(|item| item.unwrap().into_record()).collect()
}

fn folded(records: &[Record]) -> Vec<String> {
    let mut conversation = Conversation::new(switchboard_acp::WireFormat::Any);
    for record in records.iter().filter(|record| record.channel.is_message()) {
        let text = std::str::from_utf8(&record.bytes).unwrap();
        conversation.read(text, Some(Side::Agent), record.time).unwrap();
    }
    conversation.sessions().map(|(id, session)| session.to_json(id)).collect()
}

#[test]
fn a_journal_that_is_cut_off_anywhere_has_every_record_whose_bytes_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let (id, all, ends) = journal(folder.path());
    let path = folder.path().join("store.sqlite3");
    let place = folder.path().join("store.sqlite3-writers").join(format!("{id}.0"));
    let journal = std::fs::read(folder.path().join("journal")).unwrap();
    let reader = Store::open_read_only(&path).unwrap();
    for cut in 0..=journal.len() {
        std::fs::write(&place, &journal[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut as u64).count();
        let found = left(&reader, &id);
        assert_eq!(found, all[..whole], "cut at {cut} of {}", journal.len());
        assert_eq!(reader.session(&id).unwrap().length, whole as u64);
        let state = reader.state(&id, None).unwrap().conversation;
        let shown: Vec<_> = state.sessions().map(|(id, session)| session.to_json(id)).collect();
        assert_eq!(shown, folded(&all[..whole]), "cut at {cut}");
    }
}

#[test]
fn a_journal_with_garbage_in_it_gives_no_other_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (id, all, ends) = journal(folder.path());
    let path = folder.path().join("store.sqlite3");
    let place = folder.path().join("store.sqlite3-writers").join(format!("{id}.0"));
    let journal = std::fs::read(folder.path().join("journal")).unwrap();
    let reader = Store::open_read_only(&path).unwrap();
    for wrong in 0..journal.len() {
        let mut garbled = journal.clone();
        garbled[wrong] ^= 0x41;
        std::fs::write(&place, &garbled).unwrap();
        for record in left(&reader, &id) {
            assert_eq!(record, all[record.sequence as usize], "wrong at {wrong}");
        }
    }
    // Blocks of the file that never reached the disk are zeros.
    for from in (0..journal.len()).step_by(97) {
        let mut garbled = journal.clone();
        garbled[from..].fill(0);
        std::fs::write(&place, &garbled).unwrap();
        let sound = ends.iter().filter(|end| **end <= from as u64).count();
        assert_eq!(left(&reader, &id), all[..sound], "zeros from {from}");
    }
}

#[test]
fn the_next_program_recovers_after_a_power_cut() {
    let original = tempfile::tempdir().unwrap();
    let (id, all, ends) = journal(original.path());
    let journal = std::fs::read(original.path().join("journal")).unwrap();
    for cut in ends.iter().flat_map(|end| [*end as usize - 1, *end as usize]) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["store.sqlite3", "store.sqlite3-wal"] {
            std::fs::copy(original.path().join(name), folder.path().join(name)).unwrap();
        }
        let writers = folder.path().join("store.sqlite3-writers");
        std::fs::create_dir(&writers).unwrap();
        std::fs::write(writers.join(format!("{id}.0")), &journal[..cut]).unwrap();
        let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut as u64).count();
        let repairs: Vec<_> =
            store.repairs().iter().map(|repair| (&*repair.session, repair.records)).collect();
        assert_eq!(repairs, [(&*id, whole as u64)]);
        // The session can be continued without a gap.
        let mut recorder = store.resume(&id).unwrap();
        assert_eq!(recorder.append(chunk("n", "more")).unwrap().sequence(), whole as u64);
        recorder.close().unwrap();
        assert_eq!(records(&store, &id)[..whole], all[..whole]);
        assert!(store.read(&id, 0).unwrap().all(|item| matches!(item.unwrap(), Item::Record(_))));
    }
}
