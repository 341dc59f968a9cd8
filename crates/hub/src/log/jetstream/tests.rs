//! Tests against a real server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use switchboard_store::{Channel, Record, Store};
use switchboard_testkit::NatsServer;
use tempfile::TempDir;

use super::message::messages;
use super::{JetStream, JetStreamOptions, LogError};
use crate::core::SessionId;
use crate::log::contract::{self, LogBackend};
use crate::log::{BoxFuture, NewSession, Prepared, SessionLog, SharedLog, load, stored_sessions};

/// A server, and hubs with a new store each time: everything they know comes from the server.
pub(super) struct Servers {
    pub(super) server: NatsServer,
    /// Folders of the server and the stores, removed with this value.
    folders: Mutex<Vec<TempDir>>,
}

impl Servers {
    pub(super) fn start(arguments: &[&str]) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let server = NatsServer::start_with(folder.path(), arguments)?;
        Some(Servers { server, folders: Mutex::new(vec![folder]) })
    }

    async fn connect(&self) -> Result<JetStream, LogError> {
        self.connect_with(None).await
    }

    async fn connect_with(&self, credentials: Option<&str>) -> Result<JetStream, LogError> {
        let credentials = credentials.map(str::to_owned);
        let options =
            JetStreamOptions { servers: self.server.address(), credentials, ..JetStreamOptions::default() };
        JetStream::connect(&options).await
    }

    /// Opens the log of a hub with this store.
    pub(super) async fn open_with(&self, store: &Store) -> Box<dyn SessionLog> {
        let servers = self.connect().await.unwrap();
        servers.catch_up(store, |_, _| {}).await.unwrap();
        let SharedLog(log) = servers.open(store.clone());
        log
    }
}

/// Creates a store in a temporary folder.
pub(super) fn new_store() -> (Store, TempDir) {
    let folder = TempDir::new().unwrap();
    (Store::open(folder.path().join("sessions.sqlite3")).unwrap(), folder)
}

impl LogBackend for Servers {
    fn open(&self) -> BoxFuture<'_, (Box<dyn SessionLog>, Store)> {
        Box::pin(async move {
            let (store, folder) = new_store();
            self.folders.lock().unwrap().push(folder);
            (self.open_with(&store).await, store)
        })
    }
}

pub(super) async fn begin(log: &mut Box<dyn SessionLog>) -> SessionId {
    let beginning = NewSession {
        agent: "robot".to_owned(),
        owner: "me".to_owned(),
        folder: "/tmp".to_owned(),
        starter: None,
    };
    let begun = log.create(beginning).await.unwrap();
    log.open_created(begun).id
}

async fn append(log: &mut Box<dyn SessionLog>, id: &SessionId, sequence: u64, text: &str) {
    log.append(id, sequence, Channel::ToClient, text).unwrap();
    assert_eq!(log.commit().await, []);
}

#[tokio::test]
async fn a_stream_fulfils_the_contract() {
    if Servers::start(&["--jetstream"]).is_some() {
        contract::all(|| Box::pin(async { Servers::start(&["--jetstream"]).unwrap() })).await;
    }
}

#[tokio::test]
async fn a_copy_is_updated_and_rebuilt() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let (mine, _mine) = new_store();
    let (other, _other) = new_store();
    let mut log = servers.open_with(&mine).await;
    let (first, second) = (begin(&mut log).await, begin(&mut log).await);
    append(&mut log, &first, 0, "0").await;
    // Another hub copies everything at first, and only the rest when it starts again.
    servers.open_with(&other).await.close().await;
    append(&mut log, &first, 1, "1").await;
    append(&mut log, &second, 0, "0").await;
    log.remove(&second).await;
    let third = begin(&mut log).await;
    append(&mut log, &third, 0, "0").await;
    let mut read = 0;
    let again = servers.connect().await.unwrap();
    again.catch_up(&other, |done, _| read = done).await.unwrap();
    assert_eq!(read, 2, "the first message was read before, and one is gone");
    let ids = |store: &Store| {
        let mut ids: Vec<_> =
            stored_sessions(store).unwrap().into_iter().map(|known| (known.id, known.length)).collect();
        ids.sort();
        ids
    };
    let mut expected = vec![(Arc::clone(&first), 2), (Arc::clone(&third), 1)];
    expected.sort();
    assert_eq!(ids(&other), expected);
    log.close().await;
    // Damage to the copy does not affect the log.
    mine.delete(&first).unwrap();
    again.rebuild(&mine, |_, _| {}).await.unwrap();
    assert_eq!(ids(&mine), expected);
    assert_eq!(load(&mine, &first).unwrap().1, 2);
}

#[tokio::test]
async fn a_store_with_its_own_sessions_is_refused() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let (store, _folder) = new_store();
    let mut log: Box<dyn SessionLog> = Box::new(crate::log::LocalLog::new(store.clone()));
    let id = begin(&mut log).await;
    append(&mut log, &id, 0, "mine").await;
    log.close().await;
    let connected = servers.connect().await.unwrap();
    let refused = connected.catch_up(&store, |_, _| {}).await.unwrap_err();
    assert!(refused.problem.contains("sessions of its own"), "{refused}");
    let refused = connected.rebuild(&store, |_, _| {}).await.unwrap_err();
    assert!(refused.problem.contains("would be lost"), "{refused}");
    assert_eq!(load(&store, &id).unwrap().1, 1);

    // Nor a copy of another stream.
    let other = Servers::start(&["--jetstream"]).unwrap();
    let (copy, _copy) = new_store();
    servers.open_with(&copy).await.close().await;
    let refused = other.connect().await.unwrap().catch_up(&copy, |_, _| {}).await.unwrap_err();
    assert!(refused.problem.contains("copy of another stream"), "{refused}");
}

#[tokio::test]
async fn unusable_servers_are_refused_with_a_hint() {
    let Some(plain) = Servers::start(&[]) else { return };
    let refused = plain.connect().await.unwrap_err();
    assert_eq!(refused.problem, "JetStream is not enabled on the NATS server");
    assert_eq!(
        refused.hint,
        "start it with `nats-server --jetstream`, or set `jetstream {}` in its configuration and for the account"
    );

    let closed = Servers::start(&["--jetstream", "--user", "me", "--pass", "secret"]).unwrap();
    for credentials in [None, Some("me:wrong"), Some("token")] {
        let refused = closed.connect_with(credentials).await.unwrap_err();
        assert!(refused.problem.contains("refuses the credentials"), "{refused}");
        assert!(refused.hint.contains("SWITCHBOARD_LOG_CREDENTIALS"), "{refused}");
    }
    assert!(closed.connect_with(Some("me:secret\n")).await.is_ok());

    let address = closed.server.address();
    drop(closed);
    let options = JetStreamOptions { servers: address.clone(), ..JetStreamOptions::default() };
    let refused = JetStream::connect(&options).await.unwrap_err();
    assert!(
        refused.problem.contains("no NATS server answers") && refused.problem.contains(&address),
        "{refused}"
    );
}

#[tokio::test]
async fn a_stream_with_other_settings_is_refused() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let client = async_nats::connect(servers.server.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let stream = async_nats::jetstream::stream::Config {
        name: super::server::STREAM.to_owned(),
        subjects: vec!["switchboard.log.*".to_owned()],
        discard: async_nats::jetstream::stream::DiscardPolicy::New,
        max_messages_per_subject: 5,
        ..Default::default()
    };
    context.create_stream(stream).await.unwrap();
    let refused = servers.connect().await.unwrap_err();
    assert_eq!(
        refused.problem,
        "the stream SWITCHBOARD has the setting max_msgs_per_subject 5 instead of -1"
    );
    assert_eq!(
        refused.hint,
        "change it with `nats stream edit SWITCHBOARD`; records could be lost otherwise"
    );
}

/// Time limit for servers on a busy machine.
const DURABLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Waits until the log can be written.
async fn until_well(log: &dyn SessionLog) {
    let well = async {
        while log.problem().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DURABLE_TIMEOUT, well).await.unwrap();
}

/// Appends records up to a number, each with its number as text, despite server failures. Like a hub, it prepares the
/// session again after a failure.
async fn write_up_to(log: &mut Box<dyn SessionLog>, store: &Store, id: &SessionId, end: u64) {
    let begun = Instant::now();
    let mut next = load(store, id).unwrap().1;
    while next < end {
        assert!(begun.elapsed() < DURABLE_TIMEOUT, "record {next} cannot be written: {:?}", log.problem());
        let written = log.append(id, next, Channel::ToClient, &next.to_string());
        if written.is_err() || !log.commit().await.is_empty() {
            until_well(&**log).await;
            // The record may have been written all the same.
            let _ = log.prepare(id).await;
            next = load(store, id).unwrap().1;
            continue;
        }
        next += 1;
    }
}

fn numbers(store: &Store, id: &SessionId) -> Vec<String> {
    let (_, end) = load(store, id).unwrap();
    let (part, _) = crate::log::read(store, id, 0, end).unwrap();
    part.iter().map(|kept| kept.text.to_string()).collect()
}

#[tokio::test]
async fn a_restarted_server_has_everything_and_accepts_writes() {
    let Some(mut servers) = Servers::start(&["--jetstream"]) else { return };
    let (store, _folder) = new_store();
    let mut log = servers.open_with(&store).await;
    let id = begin(&mut log).await;
    for end in [2, 4, 6] {
        write_up_to(&mut log, &store, &id, end).await;
        servers.server.restart();
    }
    write_up_to(&mut log, &store, &id, 8).await;
    log.close().await;
    let (new, _new) = new_store();
    servers.open_with(&new).await.close().await;
    assert_eq!(numbers(&new, &id), ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[tokio::test]
async fn a_full_server_is_reported_and_recovers() {
    let folder = TempDir::new().unwrap();
    let configuration = folder.path().join("small.conf");
    std::fs::write(&configuration, "jetstream { max_file: 4MB }").unwrap();
    let Some(mut servers) = Servers::start(&["--config", configuration.to_str().unwrap()]) else { return };
    let (store, _folder) = new_store();
    let mut log = servers.open_with(&store).await;
    let (kept, removed) = (begin(&mut log).await, begin(&mut log).await);
    append(&mut log, &kept, 0, "0").await;
    let large = "x".repeat(512 * 1024);
    let mut sequence = 0;
    let failed = loop {
        assert!(sequence < 20, "the server has room for everything");
        log.append(&removed, sequence, Channel::ToClient, &large).unwrap();
        let failed = log.commit().await;
        if !failed.is_empty() {
            break failed;
        }
        sequence += 1;
    };
    let reason = format!(
        "the log at {} refuses writes: publish failed: insufficient resources (code 503, error code 10023); increase \
         `jetstream {{ max_file }}` of the NATS server, and check the free space of its `store_dir`",
        servers.server.address()
    );
    assert_eq!(failed, [(Arc::clone(&removed), reason)]);
    assert!(log.problem().is_some());
    log.remove(&removed).await;
    // Servers of this version notice free space only after a restart.
    servers.server.restart();
    until_well(&*log).await;
    log.prepare(&kept).await.unwrap();
    append(&mut log, &kept, 1, &large).await;
    log.close().await;
}

/// Connects to servers that may have to elect a leader first.
async fn connect_to_cluster(options: &JetStreamOptions) -> JetStream {
    let begun = Instant::now();
    loop {
        match JetStream::connect(options).await {
            Ok(connected) => return connected,
            Err(error) => assert!(begun.elapsed() < DURABLE_TIMEOUT, "{error}: {}", error.hint),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn one_of_three_servers_may_fail() {
    let folder = TempDir::new().unwrap();
    let Some(mut three) = NatsServer::start_three(folder.path()) else { return };
    let servers = three.each_ref().map(NatsServer::address).join(",");
    let options = JetStreamOptions { servers, ..JetStreamOptions::default() };
    let connected = connect_to_cluster(&options).await;
    assert_eq!(connected.server.stream.cached_info().config.num_replicas, 3);
    let (store, _folder) = new_store();
    connected.catch_up(&store, |_, _| {}).await.unwrap();
    let SharedLog(mut log) = connected.open(store.clone());
    let id = begin(&mut log).await;
    for (gone, end) in [(0, 20), (1, 40), (2, 60)] {
        write_up_to(&mut log, &store, &id, end - 10).await;
        // A leader may have to be elected. A hub waits for a limited time and tries again.
        three[gone].kill();
        write_up_to(&mut log, &store, &id, end).await;
        three[gone].restart();
    }
    log.close().await;
    // A hub with an empty store finds each record once.
    let (new, _new) = new_store();
    let again = connect_to_cluster(&options).await;
    let begun = Instant::now();
    // The server that has just restarted may be the one that responds.
    while let Err(error) = again.catch_up(&new, |_, _| {}).await {
        assert!(begun.elapsed() < DURABLE_TIMEOUT, "{error}: {}", error.hint);
    }
    assert_eq!(numbers(&new, &id), (0..60).map(|number| number.to_string()).collect::<Vec<_>>());
}

/// Returns the fencing tokens of the messages of a session, in stream order.
async fn fences(servers: &Servers, id: &SessionId) -> Vec<u64> {
    let connected = servers.connect().await.unwrap();
    let mut fences = Vec::new();
    let read = connected.server.read(Some(id), (1, u64::MAX), |message, _| {
        fences.push(super::message::fence(message.headers.as_ref().unwrap()).unwrap());
        Ok(())
    });
    read.await.unwrap();
    fences
}

#[tokio::test]
async fn a_session_has_one_owner_until_it_is_released() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let ((mine, _mine), (other, _other)) = (new_store(), new_store());
    let (mut first, mut second) = (servers.open_with(&mine).await, servers.open_with(&other).await);
    let id = begin(&mut first).await;
    append(&mut first, &id, 0, "0").await;
    let name = first.name().unwrap();
    assert_eq!(second.prepare(&id).await, Ok(Prepared::OwnedBy(name)));
    first.release(&id).await;
    // A hub that has released the session cannot write it.
    assert!(first.append(&id, 1, Channel::ToClient, "1").is_err());
    let (again, _again) = new_store();
    let mut third = servers.open_with(&again).await;
    assert_eq!(third.prepare(&id).await, Ok(Prepared::Owned));
    append(&mut third, &id, 1, "1").await;
    assert_eq!(first.prepare(&id).await, Ok(Prepared::OwnedBy(third.name().unwrap())));
    // A hub that shuts down releases its sessions at once.
    third.close().await;
    assert_eq!(first.prepare(&id).await, Ok(Prepared::Owned));
    assert_eq!(load(&mine, &id).unwrap().1, 2);
    append(&mut first, &id, 2, "2").await;
    let fences = fences(&servers, &id).await;
    assert!(fences.is_sorted() && fences.len() == 5, "{fences:?}");
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_slow_hub_does_not_write_after_a_later_owner() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let ((mine, _mine), (other, _other)) = (new_store(), new_store());
    let mut first = servers.open_with(&mine).await;
    let id = begin(&mut first).await;
    append(&mut first, &id, 0, "0").await;
    first.release(&id).await;
    let mut second = servers.open_with(&other).await;
    assert_eq!(second.prepare(&id).await, Ok(Prepared::Owned));
    let connected = servers.connect().await.unwrap();
    let local = Arc::new(Mutex::new(crate::log::LocalLog::new(mine.clone())));
    let fences_before = fences(&servers, &id).await;
    let late = super::take_over(&connected.server, &local, &id, ("late", 1)).await;
    assert!(late.unwrap_err().contains("another hub has taken over"), "it has an older number");
    assert_eq!(fences(&servers, &id).await, fences_before);
    append(&mut second, &id, 1, "1").await;
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_takeover_sees_concurrent_writes() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let (mine, _mine) = new_store();
    let mut log = servers.open_with(&mine).await;
    let id = begin(&mut log).await;
    for sequence in 0..3 {
        append(&mut log, &id, sequence, "x").await;
    }
    let server = servers.connect().await.unwrap().server;
    let last = server.last(&id).await.unwrap().unwrap().sequence;
    assert_eq!(server.end_between(&id, last - 2, last).await, Ok(2));
    assert_eq!(server.end_between(&id, last - 1, last).await, Ok(0), "nobody wrote between them");
    assert_eq!(server.are_consecutive(&id, &[(last - 2, last - 1), (last - 1, last)]).await, Ok(true));
    assert_eq!(server.are_consecutive(&id, &[(last - 2, last)]).await, Ok(false), "somebody wrote between");
    assert!(server.are_consecutive(&id, &[(last, last + 1)]).await.is_err(), "it is not there");
    log.close().await;
}

#[tokio::test]
async fn catching_up_ends_while_others_write() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let ((mine, _mine), (other, _other)) = (new_store(), new_store());
    let mut log = servers.open_with(&mine).await;
    let id = begin(&mut log).await;
    append(&mut log, &id, 0, "0").await;
    let starting = async {
        let connected = servers.connect().await.unwrap();
        connected.catch_up(&other, |_, _| {}).await.unwrap();
    };
    // It keeps writing while the other one starts.
    let writing = async {
        for sequence in 1.. {
            append(&mut log, &id, sequence, "more").await;
        }
    };
    tokio::select! {
        started = tokio::time::timeout(DURABLE_TIMEOUT, starting) => started.unwrap(),
        () = writing => {}
    }
    assert!(load(&other, &id).unwrap().1 >= 1);
}

#[tokio::test]
async fn an_unacknowledged_acquisition_is_released() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let server = servers.connect().await.unwrap().server;
    let lease = super::Lease::start(Arc::clone(&server), "mine".into(), Arc::default());
    server.owners.put("taken", "mine".into()).await.unwrap();
    server.owners.put("theirs", "other".into()).await.unwrap();
    lease.mark_uncertain(&"taken".into());
    lease.mark_uncertain(&"theirs".into());
    let gone = async {
        while server.owners.get("taken").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DURABLE_TIMEOUT, gone).await.unwrap();
    assert_eq!(server.owners.get("theirs").await.unwrap().as_deref(), Some(&b"other"[..]));
    lease.end().await;
}

#[tokio::test]
async fn a_pending_release_survives_a_failed_acquisition() {
    let Some(mut servers) = Servers::start(&["--jetstream"]) else { return };
    let server = servers.connect().await.unwrap().server;
    let lease = super::Lease::start(Arc::clone(&server), "mine".into(), Arc::default());
    let id: SessionId = "s".into();
    let Ok(super::LeaseOutcome::Acquired(fence)) = lease.acquire(&id).await else {
        panic!("it is not taken")
    };
    servers.server.kill();
    lease.release(&id, fence);
    assert!(lease.acquire(&id).await.is_err());
    servers.server.restart();
    let gone = async {
        while !matches!(server.owners.get("s").await, Ok(None)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(2 * DURABLE_TIMEOUT, gone).await.unwrap();
    lease.end().await;
}

#[tokio::test]
async fn a_deduplicated_but_unstored_message_is_not_written() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let server = servers.connect().await.unwrap().server;
    let message = super::Outgoing::takeover(0);
    let first = server.publish("s", &message, ("hub", 1), 0).await.unwrap();
    // It is already stored, and found again.
    assert_eq!(server.publish("s", &message, ("hub", 1), 0).await, Ok(first));
    server.stream.delete_message(first).await.unwrap();
    let again = server.publish("s", &message, ("hub", 1), 0).await;
    assert!(matches!(again, Err(super::PublishFailure::Unknown(_))), "{again:?}");
}

#[tokio::test]
async fn a_repeated_message_after_other_writes_is_found_or_refused() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let server = servers.connect().await.unwrap().server;
    let message = super::Outgoing::takeover(0);
    let first = server.publish("s", &message, ("hub", 1), 0).await.unwrap();
    server.publish("s", &message, ("other", 2), first).await.unwrap();
    assert_eq!(server.publish("s", &message, ("hub", 1), 0).await, Ok(first), "it is there");
    server.stream.delete_message(first).await.unwrap();
    let again = server.publish("s", &message, ("hub", 1), 0).await;
    assert_eq!(again, Err(super::PublishFailure::Conflict));
}

#[test]
fn a_hub_detects_other_writers_of_its_session() {
    let id: SessionId = "s".into();
    let mine = super::Writer { next: 3, last: 20, taken: 10, fence: 5 };
    let sees = |hub: &str, fence: u64, sequence: u64, records: &[Record]| {
        let mut writers = super::Writers::default();
        writers.sessions.insert(Arc::clone(&id), mine);
        let takeover = super::Outgoing::takeover(3);
        let message = messages(3, records, 1000).pop().unwrap_or(takeover);
        let is_at_hand = writers.observe("me", &id, sequence, &message.headers(hub, fence));
        assert_eq!(is_at_hand, writers.sessions.contains_key(&id));
        assert_eq!(is_at_hand, writers.lost.is_empty());
        is_at_hand
    };
    let record = [Record::new(Channel::ToClient, "x")];
    assert!(sees("me", 5, 21, &record));
    assert!(sees("other", 4, 9, &record), "that was before this hub took it");
    assert!(!sees("other", 4, 11, &record), "it came through together with what this hub writes");
    assert!(sees("other", 4, 11, &[]), "it was too slow to take it");
    assert!(!sees("other", 6, 9, &[]), "it is another's");
    assert!(!sees("other", 6, 21, &record));
}

#[tokio::test]
async fn the_first_of_two_concurrent_writes_counts() {
    let Some(servers) = Servers::start(&["--jetstream"]) else { return };
    let ((mine, _mine), (other, _other)) = (new_store(), new_store());
    let mut first = servers.open_with(&mine).await;
    let id = begin(&mut first).await;
    append(&mut first, &id, 0, "0").await;
    first.release(&id).await;
    // A cluster may accept both: they name the same predecessor.
    let server = servers.connect().await.unwrap().server;
    let record = |text: &str| Record::new(Channel::ToClient, text).with_protocol(2);
    let long = [record("1"), record("2"), record("3")];
    for (hub, fence, records) in [("slow", 7, &long[..]), ("fast", 8, &[record("none")])] {
        let last = server.last(&id).await.unwrap().unwrap().sequence;
        for message in messages(1, records, 1000) {
            server.publish(&id, &message, (hub, fence), last).await.unwrap();
        }
    }
    let second = servers.open_with(&other).await;
    let local = Arc::new(Mutex::new(crate::log::LocalLog::new(mine.clone())));
    let taken = super::take_over(&server, &local, &id, ("third", 9)).await.unwrap();
    assert_eq!(taken.next, 4);
    for store in [&mine, &other] {
        assert_eq!(numbers(store, &id), ["0", "1", "2", "3"]);
    }
    first.close().await;
    second.close().await;
}
