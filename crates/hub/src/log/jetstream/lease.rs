//! Which hub writes which session. A hub has a key in a bucket whose entries the servers themselves forget after a while, and
//! renews it; a session has a key that names its hub. A hub takes a session by changing that key as it last saw it: of two, one
//! succeeds, and the number of the change, which only grows, stands in every message that it writes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{CreateErrorKind, Entry, Operation, UpdateErrorKind};
use serde_json::{Value, json};
use switchboard_transport::ProcessLease;
use tokio::sync::watch;

use super::server::{LEASE, PATIENCE, Server, in_words, locked};
use super::{TRIES, Writers};
use crate::core::{HubAbout, SessionId};

/// How much earlier than the servers a hub takes its own key for forgotten.
const MARGIN: Duration = Duration::from_secs(1);
/// How often the key is renewed: several times while it holds, since agents are killed when it was not.
const RENEW: Duration = Duration::from_secs(1);
/// How soon a renewal that failed is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// How often it is looked which hubs are there, and how long an attempt at renewing may take.
const LOOK: Duration = Duration::from_secs(1);

/// Who writes a session.
pub(super) enum Taken {
    /// This hub, under this number.
    Here(u64),
    /// The hub of this name.
    There(Arc<str>),
}

/// The right of this hub to write sessions.
pub(super) struct Lease {
    server: Arc<Server>,
    pub(super) name: Arc<str>,
    writers: Arc<Mutex<Writers>>,
    state: Mutex<LeaseState>,
    /// Until when agents may run. It ends before the servers forget this hub, so that no other hub starts an agent in the place
    /// of one that is still at work.
    pub(super) processes: ProcessLease,
    granted: watch::Sender<Option<Instant>>,
}

struct LeaseState {
    about: HubAbout,
    /// Until when the key is there for sure.
    until: Option<Instant>,
    renewed: Option<Instant>,
    /// When it was last tried to renew it, and when that last failed.
    attempted: Instant,
    failed: Option<Instant>,
    hubs: Vec<(Arc<str>, HubAbout)>,
    /// Sessions that are to be let go of, by the numbers under which they were taken.
    released: HashMap<SessionId, u64>,
    /// Sessions of which it is not known whether this hub has got them, and which it does not write.
    doubtful: HashSet<SessionId>,
    is_ended: bool,
}

impl Lease {
    /// Begins to renew, for as long as somebody uses this.
    pub(super) fn begin(server: Arc<Server>, name: Arc<str>, writers: Arc<Mutex<Writers>>) -> Arc<Self> {
        let state = LeaseState {
            about: HubAbout::default(),
            until: None,
            renewed: None,
            attempted: Instant::now(),
            failed: None,
            hubs: Vec::new(),
            released: HashMap::new(),
            doubtful: HashSet::new(),
            is_ended: false,
        };
        let (granted, processes) = ProcessLease::channel();
        let lease = Arc::new(Lease { server, name, writers, state: Mutex::new(state), processes, granted });
        // Two tasks: what the servers are slow to tell must not keep the key from being renewed.
        tokio::spawn(Lease::renew_until_the_end(Arc::downgrade(&lease)));
        tokio::spawn(Lease::look_until_the_end(Arc::downgrade(&lease)));
        lease
    }

    /// The same after a while, if it is still used.
    async fn later(this: &Weak<Self>, pause: Duration) -> Option<Arc<Self>> {
        tokio::time::sleep(pause).await;
        this.upgrade().filter(|lease| !locked(&lease.state).is_ended)
    }

    async fn renew_until_the_end(this: Weak<Self>) {
        let mut pause = Duration::ZERO;
        while let Some(lease) = Lease::later(&this, pause).await {
            let renewed = locked(&lease.state).renewed;
            pause = LOOK;
            // What fails is tried again soon: agents end with the lease.
            if renewed.is_none_or(|at| at.elapsed() >= RENEW) && lease.renew().await.is_err() {
                pause = RETRY;
            }
        }
    }

    async fn look_until_the_end(this: Weak<Self>) {
        while let Some(lease) = Lease::later(&this, LOOK).await {
            // What fails is looked at again the next time.
            let _ = lease.look().await;
            lease.let_go().await;
            lease.look_at_doubtful().await;
        }
    }

    /// What other hubs are told of this one.
    pub(super) fn tell(&self, about: HubAbout) {
        let mut state = locked(&self.state);
        state.about = about;
        state.renewed = None;
    }

    /// The other hubs that are there.
    pub(super) fn hubs(&self) -> Vec<(Arc<str>, HubAbout)> {
        locked(&self.state).hubs.clone()
    }

    /// Waits until this hub may write: nearly always it may.
    pub(super) async fn hold(&self) -> Result<(), String> {
        let begun = Instant::now();
        // Once for each time that the servers are away: who knows that they are does not wait for them.
        let patience = if self.server.problem().is_some() { Duration::ZERO } else { PATIENCE };
        loop {
            if locked(&self.state).until.is_some_and(|until| Instant::now() < until) {
                return Ok(());
            }
            match self.renew().await {
                Ok(()) => return Ok(()),
                Err(reason) if begun.elapsed() >= patience => return Err(self.server.fault(&reason)),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Renews the key. A hub whose key may have been forgotten meanwhile goes on only with what nobody else has taken; one
    /// that stood still meanwhile with nothing, since its agents and clients did not.
    async fn renew(&self) -> Result<(), String> {
        let begun = Instant::now();
        let (text, stood_still) = {
            let mut state = locked(&self.state);
            let stood_still = state.until.is_some() && begun - state.attempted > LEASE;
            state.attempted = begun;
            let HubAbout { address, roots } = &state.about;
            (json!({"address": address, "roots": roots}).to_string(), stood_still)
        };
        if stood_still {
            self.lose_all("this hub stood still for longer than its lease");
        }
        let put = tokio::time::timeout(LOOK, self.server.hubs.put(&*self.name, text.into())).await;
        let failure = match put {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(in_words(&error)),
            Err(_) => Some("the lease is not renewed in time".to_owned()),
        };
        let has_lapsed = {
            let mut state = locked(&self.state);
            if let Some(reason) = failure {
                state.failed = Some(Instant::now());
                return Err(reason);
            }
            let granted = begun + LEASE - MARGIN;
            self.granted.send_replace(Some(granted));
            let until = state.until.replace(granted);
            state.renewed = Some(begun);
            until.is_some_and(|until| until < Instant::now())
        };
        if has_lapsed {
            self.look_at_own().await;
        }
        Ok(())
    }

    fn lose_all(&self, reason: &str) {
        let mut writers = locked(&self.writers);
        let all: Vec<(SessionId, u64)> =
            writers.known.drain().map(|(session, writer)| (session, writer.fence)).collect();
        writers.lost.extend(all.iter().map(|(session, _)| (Arc::clone(session), reason.to_owned())));
        // It is for others now.
        locked(&self.state).released.extend(all);
    }

    /// Finds out which sessions others have taken.
    async fn look_at_own(&self) {
        let all: Vec<(SessionId, u64)> = {
            let writers = locked(&self.writers);
            writers.known.iter().map(|(session, writer)| (Arc::clone(session), writer.fence)).collect()
        };
        for (session, fence) in all {
            // Where it cannot be found out the servers refuse what is written.
            let Ok(entry) = self.server.owners.entry(&*session).await else { continue };
            if entry.is_none_or(|entry| entry.revision != fence) {
                let mut writers = locked(&self.writers);
                if writers.known.get(&session).is_some_and(|writer| writer.fence == fence) {
                    writers.known.remove(&session);
                    writers.lost.push((session, "another hub has gone on with it".to_owned()));
                }
            }
        }
    }

    /// Finds out which hubs are there.
    async fn look(&self) -> Result<(), String> {
        let mut hubs = BTreeMap::new();
        self.server
            .hub_entries(|name, text| {
                if name != &*self.name {
                    hubs.insert(Arc::from(name), about(text));
                }
            })
            .await?;
        let mut state = locked(&self.state);
        if state.is_steady() {
            state.hubs = hubs.into_iter().collect();
        }
        Ok(())
    }

    /// Whether another hub is there. While the servers could not be reached it could not renew its key, either; so it is
    /// taken for there until it has had the time to.
    async fn is_there(&self, hub: &str) -> Result<bool, String> {
        let entry = self.server.hubs.entry(hub).await.map_err(|error| in_words(&error))?;
        let is_steady = locked(&self.state).is_steady();
        Ok(entry.is_some_and(|entry| entry.operation == Operation::Put) || !is_steady)
    }

    /// Takes a session, unless another hub that is there has it.
    pub(super) async fn take(&self, session: &SessionId) -> Result<Taken, String> {
        let taken = self.try_to_take(session).await;
        if taken.is_err() {
            // What was to be let go of was forgotten for this, and what was asked for may have been done.
            self.doubt(session);
        }
        taken
    }

    async fn try_to_take(&self, session: &SessionId) -> Result<Taken, String> {
        let owners = &self.server.owners;
        for _ in 0..TRIES {
            self.hold().await?;
            {
                let mut state = locked(&self.state);
                state.released.remove(session);
                state.doubtful.remove(session);
            }
            let entry =
                owners.entry(&**session).await.map_err(|error| self.server.fault(&in_words(&error)))?;
            let name = || self.name.to_string().into();
            let (taken, was_overtaken) = match entry.filter(|entry| entry.operation == Operation::Put) {
                None => match owners.create(&**session, name()).await {
                    Ok(fence) => (Ok(fence), false),
                    Err(error) => {
                        let was_overtaken = error.kind() == CreateErrorKind::AlreadyExists;
                        (Err(in_words(&error)), was_overtaken)
                    }
                },
                Some(Entry { value, revision, .. }) => {
                    let hub = String::from_utf8_lossy(&value);
                    if *hub != *self.name && self.is_there(&hub).await? {
                        return Ok(Taken::There(Arc::from(&*hub)));
                    }
                    match owners.update(&**session, name(), revision).await {
                        Ok(fence) => (Ok(fence), false),
                        Err(error) => {
                            let was_overtaken = error.kind() == UpdateErrorKind::WrongLastRevision;
                            (Err(in_words(&error)), was_overtaken)
                        }
                    }
                }
            };
            match taken {
                Ok(fence) => return Ok(Taken::Here(fence)),
                Err(_) if was_overtaken => {}
                Err(reason) => return Err(self.server.fault(&reason)),
            }
        }
        Err("other hubs are at it; try again later".to_owned())
    }

    /// Lets go of a session, at once or as soon as the servers hear of it.
    pub(super) fn release(&self, session: &SessionId, fence: u64) {
        locked(&self.state).released.insert(Arc::clone(session), fence);
    }

    /// Tells the servers what was let go of.
    pub(super) async fn let_go(&self) {
        let released: Vec<(SessionId, u64)> = locked(&self.state)
            .released
            .iter()
            .map(|(session, fence)| (Arc::clone(session), *fence))
            .collect();
        for (session, fence) in released {
            let deleted = self.server.owners.delete_expect_revision(&*session, Some(fence)).await;
            // Where it is somebody else's by now nothing is to be done.
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

    /// The servers may have given this hub a session though it has not heard so; then others would wait for a hub that does
    /// not know.
    pub(super) fn doubt(&self, session: &SessionId) {
        locked(&self.state).doubtful.insert(Arc::clone(session));
    }

    /// Lets go of sessions that this hub has got without hearing so.
    async fn look_at_doubtful(&self) {
        let doubtful: Vec<SessionId> = locked(&self.state).doubtful.iter().cloned().collect();
        for session in doubtful {
            let Ok(entry) = self.server.owners.entry(&*session).await else { return };
            let is_mine =
                |entry: &Entry| entry.operation == Operation::Put && entry.value == self.name.as_bytes();
            // Whoever takes it meanwhile has taken it out of these.
            let is_written = locked(&self.writers).known.contains_key(&session);
            let is_doubtful = locked(&self.state).doubtful.contains(&session) && !is_written;
            if let Some(entry) = entry.filter(is_mine)
                && is_doubtful
                && self.server.owners.delete_expect_revision(&*session, Some(entry.revision)).await.is_err()
            {
                continue;
            }
            locked(&self.state).doubtful.remove(&session);
        }
    }

    /// This hub ends: others need not wait until its key is forgotten.
    pub(super) async fn end(&self) {
        let all: Vec<(SessionId, u64)> = {
            let mut writers = locked(&self.writers);
            writers.known.drain().map(|(session, writer)| (session, writer.fence)).collect()
        };
        {
            let mut state = locked(&self.state);
            state.released.extend(all);
            state.is_ended = true;
        }
        let farewell = async {
            self.let_go().await;
            // Nobody waits for it who does not know it.
            let _ = self.server.hubs.delete(&*self.name).await;
        };
        let _ = tokio::time::timeout(LOOK, farewell).await;
    }
}

impl LeaseState {
    /// Whether the servers could be reached for so long that every hub could renew its key.
    fn is_steady(&self) -> bool {
        self.failed.is_none_or(|failed| failed.elapsed() >= LEASE)
    }
}

fn about(text: &[u8]) -> HubAbout {
    let value: Value = serde_json::from_slice(text).unwrap_or_default();
    let roots = value["roots"].as_array().into_iter().flatten();
    HubAbout {
        address: value["address"].as_str().unwrap_or_default().to_owned(),
        roots: roots.filter_map(|root| root.as_str().map(str::to_owned)).collect(),
    }
}
