//! Snapshots on other threads.

use std::sync::mpsc::sync_channel;

use switchboard_acp::{WireFormat, v2};
use switchboard_session::{EntryKind, Session, Snapshot};

fn chunk(number: usize) -> v2::SessionUpdate<'static> {
    let id = format!("m{}", number % 7);
    v2::SessionUpdate::AgentMessageChunk(v2::ContentChunk::new(
        id,
        v2::ContentBlock::text(format!("{number};")),
    ))
}

/// Checks a session of `count` chunks.
fn check(snapshot: &Snapshot, count: usize) {
    for id in 0..count.min(7) {
        let expected: String =
            (0..count).filter(|number| number % 7 == id).map(|number| format!("{number};")).collect();
        let message = snapshot.message(EntryKind::AgentMessage, &format!("m{id}")).unwrap();
        assert_eq!(message.content().text(), expected);
    }
    assert_eq!(snapshot.len(), count.min(7));
}

#[test]
fn a_snapshot_is_read_on_another_thread_while_updates_go_on() {
    let (send, receive) = sync_channel::<(usize, Snapshot)>(4);
    let reader = std::thread::spawn(move || {
        let mut kept = Vec::new();
        for (count, snapshot) in receive {
            check(&snapshot, count);
            kept.push((count, snapshot));
        }
        // Snapshots stay unchanged while the session grows.
        for (count, snapshot) in &kept {
            check(snapshot, *count);
        }
        kept.len()
    });
    let mut session = Session::new(WireFormat::Any);
    for number in 0..3000 {
        session.apply(&chunk(number));
        if number % 100 == 50 {
            send.send((number + 1, session.snapshot())).unwrap();
        }
    }
    drop(send);
    assert_eq!(reader.join().unwrap(), 30);
    check(&session, 3000);
}
