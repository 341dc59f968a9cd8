//! Contract tests that every log implementation must pass.

use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard_store::{Channel, Store};
use tempfile::TempDir;

use super::{BoxFuture, LocalLog, NewSession, Prepared, SessionLog, load, read, stored_sessions};
use crate::core::{SessionId, SessionInfo};

/// A storage for logs.
pub(super) trait LogBackend {
    /// Opens a log with its store, as a hub that starts. Another hub may use the same storage at the same time.
    fn open(&self) -> BoxFuture<'_, (Box<dyn SessionLog>, Store)>;
}

/// The store of one machine.
struct OneMachine(TempDir);

impl LogBackend for OneMachine {
    fn open(&self) -> BoxFuture<'_, (Box<dyn SessionLog>, Store)> {
        let store = Store::open(self.0.path().join("sessions.sqlite3")).unwrap();
        Box::pin(std::future::ready((Box::new(LocalLog::new(store.clone())) as Box<dyn SessionLog>, store)))
    }
}

#[tokio::test]
async fn the_local_store_fulfils_the_contract() {
    all(|| Box::pin(async { OneMachine(TempDir::new().unwrap()) })).await;
}

/// Runs all contract tests, each with its own storage.
pub(super) async fn all<P: LogBackend>(backend: impl Fn() -> BoxFuture<'static, P>) {
    records_are_read_in_order_from_any_offset(&backend().await).await;
    a_record_out_of_sequence_is_refused(&backend().await).await;
    the_second_of_two_writers_is_refused(&backend().await).await;
    records_may_be_large(&backend().await).await;
    a_log_continues_after_a_restart(&backend().await).await;
    a_removed_log_does_not_exist(&backend().await).await;
}

async fn begin(log: &mut Box<dyn SessionLog>) -> SessionInfo {
    let beginning = NewSession {
        agent: "robot".to_owned(),
        owner: "me".to_owned(),
        folder: "/tmp".to_owned(),
        starter: None,
    };
    let begun = log.create(beginning).await.unwrap();
    log.open_created(begun)
}

async fn append(log: &mut Box<dyn SessionLog>, id: &SessionId, from: u64, texts: &[&str]) {
    for (sequence, text) in (from..).zip(texts) {
        log.append(id, sequence, Channel::ToClient, text).unwrap();
    }
    assert_eq!(log.commit().await, []);
}

/// Prepares a session that was closed, while the store may still be closing it.
async fn prepare(log: &mut Box<dyn SessionLog>, id: &SessionId) {
    let begun = Instant::now();
    loop {
        match log.prepare(id).await {
            Ok(Prepared::Owned) => return,
            other => assert!(begun.elapsed() < Duration::from_secs(120), "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns all records from an offset on, as clients get them, portion by portion.
fn texts(store: &Store, id: &str, from: u64) -> Vec<(u64, String)> {
    let (_, end) = load(store, id).unwrap();
    let mut texts = Vec::new();
    let mut offset = from;
    while offset < end {
        let (part, to) = read(store, id, offset, end).unwrap();
        texts.extend(
            part.into_iter()
                .filter(|record| record.channel == Channel::ToClient)
                .map(|record| (record.sequence, record.text.to_string())),
        );
        assert!(to > offset, "reading makes no progress at {offset} of {end}");
        offset = to;
    }
    texts
}

async fn records_are_read_in_order_from_any_offset(backend: &impl LogBackend) {
    let (mut log, store) = backend.open().await;
    let (one, other) = (begin(&mut log).await.id, begin(&mut log).await.id);
    let written: Vec<String> = (0..50).map(|number| format!(r#"{{"number":{number}}}"#)).collect();
    for (sequence, text) in (0..).zip(&written) {
        log.append(&one, sequence, Channel::ToClient, text).unwrap();
        log.append(&other, sequence, Channel::Hub, text).unwrap();
        if sequence % 7 == 0 {
            assert_eq!(log.commit().await, []);
        }
    }
    assert_eq!(log.commit().await, []);
    let numbered: Vec<(u64, String)> = (0..).zip(written).collect();
    for from in [0, 1, 8, 49, 50] {
        let expected = numbered.get(from..).unwrap();
        assert_eq!(texts(&store, &one, from as u64), expected, "from {from}");
    }
    // Records of the hub count, but are not for clients.
    assert_eq!((texts(&store, &other, 0), load(&store, &other).unwrap().1), (vec![], 50));
    log.close().await;
    let (mut log, store) = backend.open().await;
    prepare(&mut log, &one).await;
    assert_eq!(texts(&store, &one, 0), numbered);
    log.close().await;
}

async fn a_record_out_of_sequence_is_refused(backend: &impl LogBackend) {
    let (mut log, store) = backend.open().await;
    let id = begin(&mut log).await.id;
    append(&mut log, &id, 0, &["0", "1"]).await;
    for wrong in [0, 1, 3] {
        prepare(&mut log, &id).await;
        let refused = log.append(&id, wrong, Channel::ToClient, "wrong");
        assert!(refused.is_err_and(|reason| reason.contains("out of sequence")), "{wrong}");
        assert_eq!(log.commit().await, []);
    }
    prepare(&mut log, &id).await;
    append(&mut log, &id, 2, &["2"]).await;
    assert_eq!(texts(&store, &id, 1), [(1, "1".to_owned()), (2, "2".to_owned())]);
    log.close().await;
}

async fn the_second_of_two_writers_is_refused(backend: &impl LogBackend) {
    let (mut first, store) = backend.open().await;
    let id = begin(&mut first).await.id;
    append(&mut first, &id, 0, &["0"]).await;
    let (mut second, _other) = backend.open().await;
    // It may be refused at any step.
    let refused = match second.prepare(&id).await {
        Err(_) | Ok(Prepared::OwnedBy(_)) => true,
        Ok(Prepared::Owned) => {
            append(&mut first, &id, 1, &["1"]).await;
            second.append(&id, 1, Channel::ToClient, "another 1").is_err() || second.commit().await.len() == 1
        }
    };
    assert!(refused);
    let (_, length) = load(&store, &id).unwrap();
    append(&mut first, &id, length, &["last"]).await;
    assert!(texts(&store, &id, 0).iter().all(|(_, text)| text != "another 1"));
    second.close().await;
    first.close().await;
}

async fn records_may_be_large(backend: &impl LogBackend) {
    let (mut log, store) = backend.open().await;
    let id = begin(&mut log).await.id;
    // Larger than the maximum message of a server, with markers at both ends that would show a wrong cut.
    let large = |letter: &str| format!("<{}>", letter.repeat(3 * 1024 * 1024 + 1));
    let written =
        ["small".to_owned(), large("ä"), "between".to_owned(), large("b"), large("c"), String::new()];
    let borrowed: Vec<&str> = written.iter().map(String::as_str).collect();
    append(&mut log, &id, 0, &borrowed).await;
    append(&mut log, &id, 6, &["behind"]).await;
    let numbered: Vec<(u64, String)> = (0..).zip(written.into_iter().chain(["behind".to_owned()])).collect();
    assert!(texts(&store, &id, 0) == numbered);
    log.close().await;
    let (mut log, store) = backend.open().await;
    prepare(&mut log, &id).await;
    assert!(texts(&store, &id, 0) == numbered);
    log.close().await;
}

async fn a_log_continues_after_a_restart(backend: &impl LogBackend) {
    let (mut log, _) = backend.open().await;
    let id = begin(&mut log).await.id;
    append(&mut log, &id, 0, &["0"]).await;
    log.close().await;
    let (mut log, store) = backend.open().await;
    let sessions = stored_sessions(&store).unwrap();
    let found = sessions.iter().find(|known| known.id == id).unwrap();
    assert_eq!((&*found.agent, &*found.owner, &*found.folder, found.length), ("robot", "me", "/tmp", 1));
    prepare(&mut log, &id).await;
    append(&mut log, &id, 1, &["1"]).await;
    log.close_session(&id);
    // The previous owner need not prepare it again.
    append(&mut log, &id, 2, &["2"]).await;
    let all: Vec<(u64, String)> = (0..3).map(|number| (number, number.to_string())).collect();
    assert_eq!(texts(&store, &id, 0), all);
    log.close().await;
}

async fn a_removed_log_does_not_exist(backend: &impl LogBackend) {
    let (mut log, store) = backend.open().await;
    let (record, removed) = (begin(&mut log).await.id, begin(&mut log).await.id);
    for id in [&record, &removed] {
        append(&mut log, id, 0, &["0"]).await;
    }
    log.remove(&removed).await;
    let ids =
        |store: &Store| stored_sessions(store).unwrap().into_iter().map(|known| known.id).collect::<Vec<_>>();
    assert_eq!(ids(&store), [Arc::clone(&record)]);
    log.close().await;
    let (log, store) = backend.open().await;
    assert_eq!(ids(&store), [record]);
    log.close().await;
}
