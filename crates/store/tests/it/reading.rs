//! Follows a session while it is written.

use std::time::Duration;

use switchboard_store::{Item, Store, StoreError};

use crate::support::{chunk, scratch};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_tail_sees_what_this_and_other_stores_append() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    let same = scratch.store.clone();
    let other = Store::open_read_only(scratch.folder.path().join("store.sqlite3")).unwrap();
    std::thread::scope(|scope| {
        for store in [&same, &other] {
            let id = id.clone();
            scope.spawn(move || {
                let mut tail = store.follow(&id, 5).unwrap();
                for number in 5..2000 {
                    match tail.next(SOON).unwrap() {
                        Some(Item::Record(record)) => assert_eq!(record.sequence, number),
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(tail.next(Duration::from_millis(30)).unwrap(), None);
            });
        }
        for number in 0..2000 {
            let receipt = recorder.append(chunk("m", "x")).unwrap();
            if number % 97 == 0 {
                receipt.wait().unwrap();
            }
        }
        recorder.sync().unwrap();
    });
    recorder.complete().unwrap();
    let mut tail = same.follow(&id, 2000).unwrap();
    same.delete(&id).unwrap();
    assert!(matches!(tail.next(SOON), Err(StoreError::UnknownSession { .. })));
}
