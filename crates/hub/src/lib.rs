//! Sessions of agents that outlive their clients. A hub owns the agents and keeps a log of each session; clients of
//! either version come, look at as many sessions as they like, answer what agents ask, and go.
//!
//! [`Hub`] is the whole. What it decides is decided by `core`, which does nothing itself; around it are the agents'
//! processes (`host`), the clients (`connection`) and the log.

// What only several hubs need is there in any case, and is part of the decisions that are tested.
#![cfg_attr(not(feature = "jetstream"), allow(dead_code))]

mod access;
mod connection;
mod core;
pub mod files;
mod host;
mod judge;
mod listener;
mod log;
mod metrics;
mod service;
mod told;

pub use crate::core::{
    Counts, FolderRefusal, Folders, HubAbout, Identity, NO_HANDSHAKE, QueuedPrompt, SessionState,
    SessionSummary,
};
pub use crate::log::{HAS_JETSTREAM, JetStream, JetStreamOptions, LogError, SharedLog};
pub use access::{WrongTokens, bearer, is_same};
pub use judge::{Judge, Judgement, PermissionRequest};
pub use listener::Listener;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use switchboard_acp::rpc::RequestId;
use switchboard_store::{Role, Store, StoreError};
use switchboard_transport::server::ServerConnection;
use switchboard_transport::{Grace, Program};
use tokio::sync::{mpsc, oneshot, watch};

use crate::core::{Core, CoreOptions};
use crate::log::{LocalLog, SessionLog};
use crate::metrics::Metrics;
use crate::service::{Event, Service};

/// How many events may wait for the hub.
const EVENTS: usize = 1024;
/// How many logs are kept open at a time, where nobody says how many: as many as the usual limit of 1,024 open files allows.
const OPEN_LOGS: usize = 256;
/// How many bytes may be on their way to a client in one session.
const FLOW: usize = 256 * 1024;

/// What a hub is made of.
pub struct HubOptions {
    /// Where the logs, the tokens and what is shared are.
    pub store: Store,
    /// Where the logs are, if not in the store alone. The store then has a copy.
    pub log: Option<SharedLog>,
    /// The agents by their names; the first is the usual one.
    pub agents: Vec<(String, Program)>,
    /// Says where a folder really is, if sessions may work there.
    pub folders: Folders,
    /// After how long without work and without clients an agent is ended.
    pub idle: Duration,
    /// How long an agent may take to introduce itself.
    pub handshake_timeout: Duration,
    /// How long an agent has to stop after a cancellation before the hub ends the turn itself.
    pub cancel_timeout: Duration,
    /// How many logs are kept open at a time; each has up to three files open. Of more sessions, the logs that were used least
    /// recently are closed until something is written to them.
    pub open_logs: usize,
    /// Who is told what an operator wants to know.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
    /// Whether the operator is told what agents write to their standard error. The logs have it in any case.
    pub tells_standard_error: bool,
    /// The names of identities that are not tokens of the store, such as that of a launch.
    pub local_names: Vec<Arc<str>>,
    /// Answers what it can of what agents ask, before anybody is asked.
    pub judge: Option<Box<dyn Judge>>,
    /// Hears what is written into the logs.
    pub listener: Option<Box<dyn Listener>>,
    /// What other hubs are told of this one, where they share its log.
    pub about: HubAbout,
    /// The least role whose clients may pass `mcpServers` and agent options in `_meta`, which start programs and lift
    /// restrictions on the hub's machine. `None`: no client may.
    pub agent_options: Option<Role>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl HubOptions {
    /// A hub with its logs in the store, which ends an agent after ten minutes without work and clients, gives it 30 seconds
    /// to introduce itself and 30 seconds to stop after a cancellation, tells nobody anything and leaves all questions to clients.
    pub fn new(store: Store, agents: Vec<(String, Program)>, folders: Folders) -> Self {
        HubOptions {
            store,
            log: None,
            agents,
            folders,
            idle: Duration::from_secs(600),
            handshake_timeout: Duration::from_secs(30),
            cancel_timeout: Duration::from_secs(30),
            open_logs: OPEN_LOGS,
            tell: Arc::new(|_| ()),
            tells_standard_error: false,
            local_names: Vec::new(),
            judge: None,
            listener: None,
            about: HubAbout::default(),
            agent_options: Some(Role::Admin),
            more: switchboard_acp::More,
        }
    }
}

/// A hub at work. Clones are the same hub.
#[derive(Clone)]
pub struct Hub {
    events: mpsc::Sender<Event>,
    agents: Arc<[String]>,
    metrics: Arc<Metrics>,
    last: Arc<AtomicU64>,
    changed: watch::Receiver<u64>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hub").field("agents", &self.agents).finish_non_exhaustive()
    }
}

impl Hub {
    /// Starts a hub with the sessions that the store has of earlier times. Agents start when somebody needs them.
    pub fn start(options: HubOptions) -> Result<Self, StoreError> {
        let HubOptions {
            store,
            log,
            agents,
            folders,
            idle,
            handshake_timeout,
            cancel_timeout,
            open_logs,
            tell,
            tells_standard_error,
            local_names,
            judge,
            listener,
            about,
            agent_options,
            more: _,
        } = options;
        let mut log: Box<dyn SessionLog> = match log {
            Some(SharedLog(log)) => log,
            None => Box::new(LocalLog::new(store.clone()).with_limit(open_logs)),
        };
        let mut agents = agents;
        if let Some(lease) = log.process_lease() {
            // Another hub may start an agent for the same session in the same folder as soon as this one's lease is over.
            agents = agents.into_iter().map(|(name, agent)| (name, agent.lease(lease.clone()))).collect();
        }
        let names: Vec<String> = agents.iter().map(|(name, _)| name.clone()).collect();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut core = Core::new(CoreOptions {
            agents: names.clone(),
            folders,
            idle: millis(idle),
            handshake: millis(handshake_timeout),
            cancel_timeout: millis(cancel_timeout),
            flow: FLOW,
            tells_standard_error,
            judge,
            agent_options,
            version: env!("CARGO_PKG_VERSION"),
            name: log.name(),
        });
        for known in log::known(&store)? {
            core.know(known);
        }
        for repair in store.repairs() {
            core.recover(&repair.session);
        }
        let (events, receiver) = mpsc::channel(EVENTS);
        log.follow(about, events.clone());
        let metrics = Arc::new(Metrics::default());
        let (changes, changed) = watch::channel(0);
        let service = Service {
            core,
            store,
            agents,
            hosts: HashMap::new(),
            seats: HashMap::new(),
            events: events.clone(),
            metrics: Arc::clone(&metrics),
            tell,
            listener,
            begun: Instant::now(),
            flow: FLOW,
            access: None,
            local: local_names,
            changed: changes,
            told: 0,
            ending_hosts: 0,
            hurry: Arc::default(),
            replays: Arc::new(tokio::sync::Semaphore::new(service::REPLAYS)),
            inboxes: HashMap::new(),
            held: VecDeque::new(),
            unsent: HashMap::new(),
        };
        tokio::spawn(service.run(log, receiver));
        Ok(Hub { events, agents: names.into(), metrics, last: Arc::default(), changed })
    }

    /// Whether there is an agent of this name; without a name, whether there is any.
    pub fn has_agent(&self, name: Option<&str>) -> bool {
        match name {
            None => !self.agents.is_empty(),
            Some(name) => self.agents.iter().any(|agent| agent == name),
        }
    }

    /// The names of the agents.
    pub fn agents(&self) -> &[String] {
        &self.agents
    }

    /// Takes a client's connection. Without an agent's name it is for the first agent, and sees the sessions of all.
    pub async fn connect(&self, who: Identity, agent: Option<&str>, connection: ServerConnection) {
        let place = match agent {
            None => Some(0),
            Some(name) => self.agents.iter().position(|agent| agent == name),
        };
        let Some(place) = place.filter(|place| *place < self.agents.len()) else {
            connection.outgoing.close(1008, "there is no such agent here");
            return;
        };
        let event = Event::Connected {
            connection: self.last.fetch_add(1, Ordering::Relaxed) + 1,
            who,
            agent: place,
            is_named: agent.is_some(),
            stream: Box::new(connection),
        };
        // A hub that has ended takes nobody.
        let _ = self.events.send(event).await;
    }

    /// The sessions that somebody may see, the one that changed last first, and what that somebody may do by now. `None`
    /// when the token was revoked, or the hub has ended.
    pub async fn sessions(&self, who: &Identity) -> Option<(Identity, Vec<SessionSummary>)> {
        let (answer, seen) = oneshot::channel();
        self.events.send(Event::Look { who: who.clone(), answer }).await.ok()?;
        seen.await.ok()?
    }

    /// Changes when the state, the title or the number of sessions does, or what tokens may do.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// Says that the rules have changed: what waits for an answer is judged again. Gives what has an answer now, by its
    /// session and the agent's id of it.
    pub async fn judge_again(&self) -> Vec<(Arc<str>, RequestId<'static>)> {
        let (answer, judged) = oneshot::channel();
        // A hub that has ended has nothing that waits.
        let _ = self.events.send(Event::JudgeAgain { answer }).await;
        judged.await.unwrap_or_default()
    }

    /// How much of everything there is; `None` when the hub has ended.
    pub async fn counts(&self) -> Option<Counts> {
        let (answer, counted) = oneshot::channel();
        self.events.send(Event::Count { answer }).await.ok()?;
        counted.await.ok()
    }

    /// What operators want to know, in the text format of Prometheus; `None` when the hub has ended.
    pub async fn metrics(&self) -> Option<String> {
        Some(self.metrics.text(&self.counts().await?))
    }

    /// Ends the hub: nothing new is begun, what is at work is cut off and that is written down, agents are ended and the
    /// logs closed.
    ///
    /// Agents get so long for each step of their end.
    pub async fn end(&self, reason: &str, grace: Grace) {
        let (done, ended) = oneshot::channel();
        if self.events.send(Event::End { reason: reason.to_owned(), grace, done }).await.is_ok() {
            let _ = ended.await;
        }
    }
}

/// The example of the package's front page runs with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
