//! Recorded traffic of real peers, if available.

use switchboard_session::{Conversation, ConversationError, Moment, Side};
use switchboard_store::{About, Channel, Record, Store, parse_line, to_line};
use switchboard_testkit::recordings;

use crate::support::{records, scratch};

#[test]
fn recordings_come_back_smaller_and_whole() {
    let scratch = scratch();
    let mut lines = 0;
    let mut raw = 0;
    for recording in recordings() {
        let text = std::fs::read_to_string(&recording.path).unwrap();
        raw += text.len() as u64;
        let mut recorder = scratch.store.begin(&About::default()).unwrap();
        let id = recorder.id().to_owned();
        let mut expected = Vec::new();
        for line in text.lines() {
            let Some(record) = parse_line(line, Moment(0)).unwrap() else { continue };
            let again = to_line(&record, Moment(0), true).unwrap();
            assert_eq!(parse_line(&again, Moment(0)).unwrap().as_ref(), Some(&record));
            expected.push(record.clone());
            let _ = recorder.append(record).unwrap();
        }
        recorder.complete().unwrap();
        let found = records(&scratch.store, &id);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(
                (&found.bytes, found.channel, found.time),
                (&expected.bytes, expected.channel, expected.time)
            );
        }
        lines += found.len();
        same_fold(&scratch.store, &id, &expected);
    }
    scratch.store.shrink().unwrap();
    let sizes = scratch.store.sizes().unwrap();
    println!("{lines} lines, {raw} bytes of JSON lines, {sizes:?}");
    assert!(sizes.journal * 2 <= raw, "{sizes:?}");
    // Each table and index has at least one page.
    let first_pages = 192 * 1024;
    assert!(sizes.file <= raw / 2 + first_pages, "{sizes:?}");
}

fn same_fold(store: &Store, id: &str, expected: &[Record]) {
    let mut conversation = Conversation::new(switchboard_acp::WireFormat::Any);
    for record in expected {
        let side = if record.channel == Channel::ToAgent { Side::Client } else { Side::Agent };
        let text = std::str::from_utf8(&record.bytes).unwrap();
        // Both skip messages that cannot be parsed. Version 1 is translated before it is folded.
        if let Err(ConversationError::Version1) = conversation.read(text, Some(side), record.time) {
            return;
        }
    }
    let state = store.state(id, None).unwrap();
    let shown = |conversation: &Conversation| {
        conversation.sessions().map(|(id, session)| session.to_json(id)).collect::<Vec<_>>()
    };
    assert_eq!(shown(&state.conversation), shown(&conversation));
}
