//! Agent sessions that outlive their clients. A hub runs the agents and keeps a durable log of each session. Clients of
//! either protocol version attach to any number of sessions, answer questions of agents, and disconnect at any time.
//!
//! [`Hub`] is the entry point. All decisions are made by `core`, a state machine without I/O. Around it are the tasks
//! of agent processes (`agent_task`), client connections (`connection`) and the log.

mod access;
mod agent_task;
mod connection;
mod core;
pub mod files;
mod listener;
mod log;
mod metrics;
mod policy;
mod replay_buffer;
mod service;
mod session_event;

pub use crate::core::{
    Counts, FolderRefusal, Folders, HubInfo, Identity, NO_HANDSHAKE, QueuedPrompt, SessionActivity,
    SessionSummary,
};
pub use crate::log::{HAS_JETSTREAM, JetStream, JetStreamOptions, LogError, SharedLog};
pub use access::{LoginRateLimit, bearer_token, constant_time_eq};
pub use listener::Listener;
pub use policy::{PermissionRequest, Policy, PolicyDecision};
pub use session_event::{AnswerResult, PendingQuestionEvent, QuestionOption, SessionEvent, SessionEventKind};

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

/// Maximum number of events that wait for the hub's main task.
const EVENTS: usize = 1024;
/// Default for [`HubOptions::open_logs`], which fits the usual limit of 1,024 open files.
const OPEN_LOGS: usize = 256;
/// Size of the send window: maximum number of unacknowledged bytes to a client in one session. A full window is the
/// backpressure on delivery.
const SEND_WINDOW: usize = 256 * 1024;

/// Options of a hub.
pub struct HubOptions {
    /// Store of logs, tokens and shares.
    pub store: Store,
    /// A shared log, if the logs are not only in the store. The store then has a copy.
    pub log: Option<SharedLog>,
    /// Agents by name. The first is the default.
    pub agents: Vec<(String, Program)>,
    /// Names of agents of which one process is started with the hub and kept running, so that the first session does not
    /// wait for it. Not of confined agents, which have a process for each session.
    pub warm: Vec<String>,
    /// Returns the canonical path of a folder, if sessions may work there.
    pub folders: Folders,
    /// Time without work and clients after which an agent process is ended.
    pub idle: Duration,
    /// Handshake timeout of an agent.
    pub handshake_timeout: Duration,
    /// Time that an agent has to stop after a cancellation before the hub ends the turn itself.
    pub cancel_timeout: Duration,
    /// Maximum number of open logs; each has up to three open files. Above the limit, the least recently used logs are
    /// closed until the next append.
    pub open_logs: usize,
    /// Receives messages for the operator.
    pub report: Arc<dyn Fn(&str) + Send + Sync>,
    /// True if the standard error of agents is reported to the operator. It is in the logs in any case.
    pub reports_standard_error: bool,
    /// Names of identities that are not tokens of the store, such as that of a launch.
    pub local_names: Vec<Arc<str>>,
    /// Permission policy that answers requests of agents before clients are asked.
    pub policy: Option<Box<dyn Policy>>,
    /// Observer of the logs.
    pub listener: Option<Box<dyn Listener>>,
    /// Description of this hub for the other hubs of its cluster.
    pub info: HubInfo,
    /// The least role whose clients may pass `mcpServers` and agent options in `_meta`, which start programs and lift
    /// restrictions on the hub's machine. `None`: no client may.
    pub agent_options: Option<Role>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl HubOptions {
    /// Creates options with the logs in the store. An agent is ended after ten minutes without work and clients, and
    /// has 30 seconds for the handshake and 30 seconds to stop after a cancellation. Nothing is reported, and clients
    /// answer all questions.
    pub fn new(store: Store, agents: Vec<(String, Program)>, folders: Folders) -> Self {
        HubOptions {
            store,
            log: None,
            agents,
            warm: Vec::new(),
            folders,
            idle: Duration::from_secs(600),
            handshake_timeout: Duration::from_secs(30),
            cancel_timeout: Duration::from_secs(30),
            open_logs: OPEN_LOGS,
            report: Arc::new(|_| ()),
            reports_standard_error: false,
            local_names: Vec::new(),
            policy: None,
            listener: None,
            info: HubInfo::default(),
            agent_options: Some(Role::Admin),
            more: switchboard_acp::More,
        }
    }
}

/// Handle of a running hub. Clones refer to the same hub.
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
    /// Starts a hub with the sessions of the store. Agents are started on demand. Fails if the store cannot be read.
    pub fn start(options: HubOptions) -> Result<Self, StoreError> {
        let HubOptions {
            store,
            log,
            agents,
            warm,
            folders,
            idle,
            handshake_timeout,
            cancel_timeout,
            open_logs,
            report,
            reports_standard_error,
            local_names,
            policy,
            listener,
            info,
            agent_options,
            more: _,
        } = options;
        let mut log: Box<dyn SessionLog> = match log {
            Some(SharedLog(log)) => log,
            None => Box::new(LocalLog::new(store.clone()).with_limit(open_logs)),
        };
        let mut agents = agents;
        if let Some(lease) = log.process_lease() {
            // As soon as the lease of this hub ends, another hub may start an agent for the same session in the same
            // folder.
            agents = agents.into_iter().map(|(name, agent)| (name, agent.lease(lease.clone()))).collect();
        }
        let names: Vec<String> = agents.iter().map(|(name, _)| name.clone()).collect();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut core = Core::new(CoreOptions {
            agents: names.clone(),
            confined: agents.iter().map(|(_, program)| program.is_confined()).collect(),
            warm: agents.iter().map(|(name, _)| warm.contains(name)).collect(),
            folders,
            idle: millis(idle),
            handshake: millis(handshake_timeout),
            cancel_timeout: millis(cancel_timeout),
            send_window: SEND_WINDOW,
            reports_standard_error,
            policy,
            agent_options,
            version: env!("CARGO_PKG_VERSION"),
            name: log.name(),
        });
        if listener.as_ref().is_some_and(|listener| listener.wants_events()) {
            core.enable_events();
        }
        for known in log::stored_sessions(&store)? {
            core.add_session(known);
        }
        for repair in store.repairs() {
            core.recover(&repair.session);
        }
        let (events, receiver) = mpsc::channel(EVENTS);
        log.follow(info, events.clone());
        let metrics = Arc::new(Metrics::default());
        let (changes, changed) = watch::channel(0);
        let service = Service {
            core,
            store,
            agents,
            processes: HashMap::new(),
            clients: HashMap::new(),
            events: events.clone(),
            metrics: Arc::clone(&metrics),
            report,
            listener,
            begun: Instant::now(),
            send_window: SEND_WINDOW,
            access: None,
            next_expiry: None,
            local: local_names,
            changed: changes,
            summary_version: 0,
            ending_processes: 0,
            shutdown_grace: Arc::default(),
            replays: Arc::new(tokio::sync::Semaphore::new(service::REPLAYS)),
            inboxes: HashMap::new(),
            deferred: VecDeque::new(),
            unsent: HashMap::new(),
        };
        tokio::spawn(service.run(log, receiver));
        Ok(Hub { events, agents: names.into(), metrics, last: Arc::default(), changed })
    }

    /// Returns whether there is an agent with this name; without a name, whether there is any.
    pub fn has_agent(&self, name: Option<&str>) -> bool {
        match name {
            None => !self.agents.is_empty(),
            Some(name) => self.agents.iter().any(|agent| agent == name),
        }
    }

    /// Returns the names of the agents.
    pub fn agents(&self) -> &[String] {
        &self.agents
    }

    /// Adds a client connection. Without an agent name it uses the first agent and sees the sessions of all agents.
    pub async fn connect(&self, identity: Identity, agent: Option<&str>, connection: ServerConnection) {
        let index = match agent {
            None => Some(0),
            Some(name) => self.agents.iter().position(|agent| agent == name),
        };
        let Some(index) = index.filter(|index| *index < self.agents.len()) else {
            connection.outgoing.close(1008, "unknown agent; see the names that the hub was started with");
            return;
        };
        let event = Event::Connected {
            connection: self.last.fetch_add(1, Ordering::Relaxed) + 1,
            identity,
            agent: index,
            is_named: agent.is_some(),
            stream: Box::new(connection),
        };
        // A hub that has ended accepts no connections.
        let _ = self.events.send(event).await;
    }

    /// Returns the current rights of a client and the sessions visible to it, the most recently changed first. `None`
    /// if the token was revoked or the hub has ended.
    pub async fn sessions(&self, identity: &Identity) -> Option<(Identity, Vec<SessionSummary>)> {
        let (answer, seen) = oneshot::channel();
        self.events.send(Event::ListSessions { identity: identity.clone(), answer }).await.ok()?;
        seen.await.ok()?
    }

    /// Returns a counter that changes with the activity, title or number of sessions, and with the rights of tokens.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// Evaluates the policy again for all pending questions, after the rules have changed. Returns the questions that
    /// are answered now, by session and the agent's request id.
    pub async fn reevaluate_policy(&self) -> Vec<(Arc<str>, RequestId<'static>)> {
        let (answer, apply_decision) = oneshot::channel();
        // A hub that has ended has no pending questions.
        let _ = self.events.send(Event::ReevaluatePolicy { answer }).await;
        apply_decision.await.unwrap_or_default()
    }

    /// Answers a question that was shown outside the hub's clients, such as in a notification, with an option that
    /// holds once. The answer is refused if the question has changed since. `by` is recorded as the client.
    pub async fn answer_shown(
        &self,
        session: &str,
        shown: &PendingQuestionEvent,
        option: &str,
        by: &str,
    ) -> AnswerResult {
        let (answer, answered) = oneshot::channel();
        let event = Event::AnswerShown {
            session: session.to_owned(),
            shown: Box::new(shown.clone()),
            option: option.to_owned(),
            by: by.to_owned(),
            answer,
        };
        // A hub that has ended has no pending questions.
        let _ = self.events.send(event).await;
        answered.await.unwrap_or(AnswerResult::NotPending)
    }

    /// Returns the numbers of sessions, processes and clients; `None` if the hub has ended.
    pub async fn counts(&self) -> Option<Counts> {
        let (answer, counted) = oneshot::channel();
        self.events.send(Event::Count { answer }).await.ok()?;
        counted.await.ok()
    }

    /// Returns the metrics in the Prometheus text format; `None` if the hub has ended.
    pub async fn metrics(&self) -> Option<String> {
        Some(self.metrics.text(&self.counts().await?))
    }

    /// Shuts down the hub: accepts no new work, interrupts running turns and records that, ends the agents and closes
    /// the logs.
    ///
    /// `grace` is the time that agents have for each step of their shutdown.
    pub async fn end(&self, reason: &str, grace: Grace) {
        let (done, ended) = oneshot::channel();
        if self.events.send(Event::End { reason: reason.to_owned(), grace, done }).await.is_ok() {
            let _ = ended.await;
        }
    }
}

/// Runs the example of the README as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
