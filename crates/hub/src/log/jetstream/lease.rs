//! Leases and fencing: the ownership of sessions in a cluster.
//!
//! A hub has a key in a bucket whose entries expire on the servers, and renews it: this is its lease. A session has a
//! key that contains the name of its owner. A hub acquires a session by a compare-and-set of that key, so one of two
//! concurrent attempts succeeds. The revision of this change only grows. It is the fencing token, and every message of
//! the owner carries it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{CreateErrorKind, Entry, Operation, UpdateErrorKind};
use serde_json::{Value, json};
use switchboard_transport::ProcessLease;
use tokio::sync::watch;

use super::server::{DURABLE_TIMEOUT, LEASE_DURATION, Server, error_text, locked};
use super::{TRIES, Writers};
use crate::core::{HubInfo, SessionId};

/// Safety margin: a hub considers its lease expired this much earlier than the servers do.
const MARGIN: Duration = Duration::from_secs(1);
/// Interval of renewal. Several attempts fit into a lease, because agents are killed when it expires.
const RENEW: Duration = Duration::from_secs(1);
/// Pause before a failed renewal is retried.
const RETRY: Duration = Duration::from_millis(250);
/// Interval at which the live hubs are listed, and timeout of one renewal.
const REFRESH: Duration = Duration::from_secs(1);

/// Result of acquiring a session.
pub(super) enum LeaseOutcome {
    /// This hub is the owner, with this fencing token.
    Acquired(u64),
    /// The hub with this name is the owner.
    HeldBy(Arc<str>),
}

/// The lease of this hub.
pub(super) struct Lease {
    server: Arc<Server>,
    pub(super) name: Arc<str>,
    writers: Arc<Mutex<Writers>>,
    state: Mutex<LeaseState>,
    /// Lease of the agent processes. It expires before the servers expire the key of this hub, so that no other hub
    /// starts an agent while the old one still runs.
    pub(super) processes: ProcessLease,
    granted: watch::Sender<Option<Instant>>,
}

/// Mutable state of a lease.
struct LeaseState {
    info: HubInfo,
    /// Time until which the key certainly exists.
    until: Option<Instant>,
    renewed: Option<Instant>,
    /// Time of the last attempt to renew it, and of the last failure.
    attempted: Instant,
    failed: Option<Instant>,
    hubs: Vec<(Arc<str>, HubInfo)>,
    /// Sessions to be released, with their fencing tokens.
    released: HashMap<SessionId, u64>,
    /// Sessions that this hub may have acquired without an acknowledgement, and does not write.
    uncertain: HashSet<SessionId>,
    is_ended: bool,
}

impl Lease {
    /// Starts the renewal, for as long as the lease is used.
    pub(super) fn start(server: Arc<Server>, name: Arc<str>, writers: Arc<Mutex<Writers>>) -> Arc<Self> {
        let state = LeaseState {
            info: HubInfo::default(),
            until: None,
            renewed: None,
            attempted: Instant::now(),
            failed: None,
            hubs: Vec::new(),
            released: HashMap::new(),
            uncertain: HashSet::new(),
            is_ended: false,
        };
        let (granted, processes) = ProcessLease::channel();
        let lease = Arc::new(Lease { server, name, writers, state: Mutex::new(state), processes, granted });
        // Two tasks, so that slow listing does not delay the renewal.
        tokio::spawn(Lease::run_renewal(Arc::downgrade(&lease)));
        tokio::spawn(Lease::run_refresh(Arc::downgrade(&lease)));
        lease
    }

    /// Returns the lease after a pause, if it is still used.
    async fn upgrade_after(this: &Weak<Self>, pause: Duration) -> Option<Arc<Self>> {
        tokio::time::sleep(pause).await;
        this.upgrade().filter(|lease| !locked(&lease.state).is_ended)
    }

    /// Renews the lease until it is dropped.
    async fn run_renewal(this: Weak<Self>) {
        let mut pause = Duration::ZERO;
        while let Some(lease) = Lease::upgrade_after(&this, pause).await {
            let renewed = locked(&lease.state).renewed;
            pause = REFRESH;
            // Retried soon, because agents end with the lease.
            if renewed.is_none_or(|at| at.elapsed() >= RENEW) && lease.renew().await.is_err() {
                pause = RETRY;
            }
        }
    }

    /// Refreshes the list of hubs and sends releases until the lease is dropped.
    async fn run_refresh(this: Weak<Self>) {
        while let Some(lease) = Lease::upgrade_after(&this, REFRESH).await {
            // Retried at the next interval.
            let _ = lease.refresh_hubs().await;
            lease.flush_releases().await;
            lease.release_uncertain().await;
        }
    }

    /// Sets the description of this hub for other hubs.
    pub(super) fn set_info(&self, info: HubInfo) {
        let mut state = locked(&self.state);
        state.info = info;
        state.renewed = None;
    }

    /// Returns the other hubs that are alive.
    pub(super) fn hubs(&self) -> Vec<(Arc<str>, HubInfo)> {
        locked(&self.state).hubs.clone()
    }

    /// Waits until this hub may write, which is usually the case at once.
    pub(super) async fn wait_valid(&self) -> Result<(), String> {
        let begun = Instant::now();
        // Waits once per outage: while the servers are known to be unreachable, it fails at once.
        let timeout = if self.server.problem().is_some() { Duration::ZERO } else { DURABLE_TIMEOUT };
        loop {
            if locked(&self.state).until.is_some_and(|until| Instant::now() < until) {
                return Ok(());
            }
            match self.renew().await {
                Ok(()) => return Ok(()),
                Err(reason) if begun.elapsed() >= timeout => {
                    return Err(self.server.record_failure(&reason));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Renews the lease. If it may have expired meanwhile, the hub keeps only the sessions that no other hub has
    /// acquired. If the whole hub was suspended meanwhile, it keeps none, because its agents and clients were not.
    async fn renew(&self) -> Result<(), String> {
        let begun = Instant::now();
        let (text, was_suspended) = {
            let mut state = locked(&self.state);
            // The renewal task itself did not run, so the whole process was suspended. Its clock jumped, and other hubs
            // may own its sessions.
            let was_suspended = state.until.is_some() && begun - state.attempted > LEASE_DURATION;
            state.attempted = begun;
            let HubInfo { address, roots } = &state.info;
            (json!({"address": address, "roots": roots}).to_string(), was_suspended)
        };
        if was_suspended {
            self.lose_all("this hub was suspended for longer than its lease");
        }
        // The time limit keeps a slow server from delaying the next attempt beyond the lease.
        let put = tokio::time::timeout(REFRESH, self.server.hubs.put(&*self.name, text.into())).await;
        let failure = match put {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error_text(&error)),
            Err(_) => Some("the lease was not renewed in time".to_owned()),
        };
        let has_lapsed = {
            let mut state = locked(&self.state);
            if let Some(reason) = failure {
                state.failed = Some(Instant::now());
                return Err(reason);
            }
            // Counted from before the request was sent: the servers cannot have started the expiry earlier. The margin
            // covers clock drift.
            let granted = begun + LEASE_DURATION - MARGIN;
            self.granted.send_replace(Some(granted));
            let until = state.until.replace(granted);
            state.renewed = Some(begun);
            until.is_some_and(|until| until < Instant::now())
        };
        // Between expiry and renewal another hub may have acquired sessions.
        if has_lapsed {
            self.check_owned().await;
        }
        Ok(())
    }

    /// Gives up all sessions, with the reason for the operator.
    fn lose_all(&self, reason: &str) {
        let mut writers = locked(&self.writers);
        let all: Vec<(SessionId, u64)> =
            writers.sessions.drain().map(|(session, writer)| (session, writer.fence)).collect();
        writers.lost.extend(all.iter().map(|(session, _)| (Arc::clone(session), reason.to_owned())));
        // Released, so that other hubs can acquire them.
        locked(&self.state).released.extend(all);
    }

    /// Checks which sessions other hubs have acquired.
    async fn check_owned(&self) {
        let all: Vec<(SessionId, u64)> = {
            let writers = locked(&self.writers);
            writers.sessions.iter().map(|(session, writer)| (Arc::clone(session), writer.fence)).collect()
        };
        for (session, fence) in all {
            // If the owner cannot be determined, the servers refuse stale writes by the fencing token.
            let Ok(entry) = self.server.owners.entry(&*session).await else { continue };
            if entry.is_none_or(|entry| entry.revision != fence) {
                let mut writers = locked(&self.writers);
                if writers.sessions.get(&session).is_some_and(|writer| writer.fence == fence) {
                    writers.sessions.remove(&session);
                    writers.lost.push((session, "another hub has taken over the session".to_owned()));
                }
            }
        }
    }

    /// Lists the live hubs.
    async fn refresh_hubs(&self) -> Result<(), String> {
        let mut hubs = BTreeMap::new();
        self.server
            .hub_entries(|name, text| {
                if name != &*self.name {
                    hubs.insert(Arc::from(name), parse_hub_info(text));
                }
            })
            .await?;
        let mut state = locked(&self.state);
        // After an outage, leases of live hubs may be missing because they could not renew them either. Keeping the old
        // list avoids a false takeover.
        if state.is_steady() {
            state.hubs = hubs.into_iter().collect();
        }
        Ok(())
    }

    /// Returns whether another hub is alive. During an outage it could not renew its lease either, so it counts as
    /// alive until it has had the time to.
    async fn is_alive(&self, hub: &str) -> Result<bool, String> {
        let entry = self.server.hubs.entry(hub).await.map_err(|error| error_text(&error))?;
        let is_steady = locked(&self.state).is_steady();
        Ok(entry.is_some_and(|entry| entry.operation == Operation::Put) || !is_steady)
    }

    /// Acquires a session, unless another live hub owns it.
    pub(super) async fn acquire(&self, session: &SessionId) -> Result<LeaseOutcome, String> {
        let taken = self.try_acquire(session).await;
        if taken.is_err() {
            // The release was dropped for this attempt, and the attempt may have succeeded on the servers.
            self.mark_uncertain(session);
        }
        taken
    }

    /// Acquires a session by a compare-and-set of its owner key.
    async fn try_acquire(&self, session: &SessionId) -> Result<LeaseOutcome, String> {
        let owners = &self.server.owners;
        for _ in 0..TRIES {
            // Without a valid lease of its own, other hubs would consider the new owner dead at once.
            self.wait_valid().await?;
            {
                let mut state = locked(&self.state);
                // A pending release would give the session away right after it was acquired.
                state.released.remove(session);
                state.uncertain.remove(session);
            }
            let entry = owners
                .entry(&**session)
                .await
                .map_err(|error| self.server.record_failure(&error_text(&error)))?;
            let name = || self.name.to_string().into();
            let (taken, is_conflict) = match entry.filter(|entry| entry.operation == Operation::Put) {
                None => match owners.create(&**session, name()).await {
                    Ok(fence) => (Ok(fence), false),
                    Err(error) => {
                        let is_conflict = error.kind() == CreateErrorKind::AlreadyExists;
                        (Err(error_text(&error)), is_conflict)
                    }
                },
                Some(Entry { value, revision, .. }) => {
                    let hub = String::from_utf8_lossy(&value);
                    if *hub != *self.name && self.is_alive(&hub).await? {
                        return Ok(LeaseOutcome::HeldBy(Arc::from(&*hub)));
                    }
                    // Compare-and-set: of two hubs that take over at the same moment, one fails. The new revision is
                    // the fencing token.
                    match owners.update(&**session, name(), revision).await {
                        Ok(fence) => (Ok(fence), false),
                        Err(error) => {
                            let is_conflict = error.kind() == UpdateErrorKind::WrongLastRevision;
                            (Err(error_text(&error)), is_conflict)
                        }
                    }
                }
            };
            match taken {
                Ok(fence) => return Ok(LeaseOutcome::Acquired(fence)),
                // Another hub was faster: look again who owns it now.
                Err(_) if is_conflict => {}
                Err(reason) => return Err(self.server.record_failure(&reason)),
            }
        }
        Err("other hubs are acquiring the session; try again later".to_owned())
    }

    /// Releases a session, at once or as soon as the servers can be reached.
    pub(super) fn release(&self, session: &SessionId, fence: u64) {
        locked(&self.state).released.insert(Arc::clone(session), fence);
    }

    /// Sends the releases to the servers.
    pub(super) async fn flush_releases(&self) {
        let released: Vec<(SessionId, u64)> = locked(&self.state)
            .released
            .iter()
            .map(|(session, fence)| (Arc::clone(session), *fence))
            .collect();
        for (session, fence) in released {
            // Deleted only at the revision of this hub, so that the key of a later owner stays.
            let deleted = self.server.owners.delete_expect_revision(&*session, Some(fence)).await;
            // If another hub owns it by now, nothing needs to be done.
            let is_done = match &deleted {
                Ok(()) => true,
                Err(_) => matches!(
                    self.server.owners.entry(&*session).await,
                    Ok(entry) if entry.as_ref().is_none_or(|entry| entry.revision != fence)
                ),
            };
            let mut state = locked(&self.state);
            if is_done && state.released.get(&session) == Some(&fence) {
                state.released.remove(&session);
            }
        }
    }

    /// Marks a session that the servers may have assigned to this hub without an acknowledgement. Otherwise other hubs
    /// would wait for an owner that does not know it.
    pub(super) fn mark_uncertain(&self, session: &SessionId) {
        locked(&self.state).uncertain.insert(Arc::clone(session));
    }

    /// Releases the sessions that this hub has acquired without an acknowledgement.
    async fn release_uncertain(&self) {
        let uncertain: Vec<SessionId> = locked(&self.state).uncertain.iter().cloned().collect();
        for session in uncertain {
            let Ok(entry) = self.server.owners.entry(&*session).await else { return };
            let is_mine =
                |entry: &Entry| entry.operation == Operation::Put && entry.value == self.name.as_bytes();
            // Acquiring it again meanwhile has removed it from this set.
            let is_owned = locked(&self.writers).sessions.contains_key(&session);
            let is_uncertain = locked(&self.state).uncertain.contains(&session) && !is_owned;
            if let Some(entry) = entry.filter(is_mine)
                && is_uncertain
                && self.server.owners.delete_expect_revision(&*session, Some(entry.revision)).await.is_err()
            {
                continue;
            }
            locked(&self.state).uncertain.remove(&session);
        }
    }

    /// Ends the lease at shutdown, so that other hubs need not wait for its expiry.
    pub(super) async fn end(&self) {
        let all: Vec<(SessionId, u64)> = {
            let mut writers = locked(&self.writers);
            writers.sessions.drain().map(|(session, writer)| (session, writer.fence)).collect()
        };
        {
            let mut state = locked(&self.state);
            // Stops the renewal first, so that no task renews the key that is deleted below.
            state.released.extend(all);
            state.is_ended = true;
        }
        let release = async {
            self.flush_releases().await;
            // If this fails, the lease expires by itself.
            let _ = self.server.hubs.delete(&*self.name).await;
        };
        let _ = tokio::time::timeout(REFRESH, release).await;
    }
}

impl LeaseState {
    /// Returns whether the servers have been reachable for so long that every hub could renew its lease.
    fn is_steady(&self) -> bool {
        self.failed.is_none_or(|failed| failed.elapsed() >= LEASE_DURATION)
    }
}

fn parse_hub_info(text: &[u8]) -> HubInfo {
    let value: Value = serde_json::from_slice(text).unwrap_or_default();
    let roots = value["roots"].as_array().into_iter().flatten();
    HubInfo {
        address: value["address"].as_str().unwrap_or_default().to_owned(),
        roots: roots.filter_map(|root| root.as_str().map(str::to_owned)).collect(),
    }
}
