//! Main task of the hub: passes events to the core and performs its outputs.

mod cluster;
mod writing;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use switchboard_acp::rpc::RequestId;
use switchboard_bridge::Loss;
use switchboard_store::{Moment, Store, Token, TokenAccess};
use switchboard_transport::server::ServerConnection;
use switchboard_transport::{Grace, Program};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::agent_task::{self, AgentEvent, AgentExit, AgentInput};
use crate::connection::{self, ConnectionInput};
use crate::core::lines;
use crate::core::replay::{Replay, ReplayLine};
use crate::core::{
    AgentId, ConnectionId, Core, Counts, Identity, LogRecord, Output, Ownership, SessionId, SessionState,
    SessionSummary, Starter,
};
use crate::listener::Listener;
use crate::log::{self, ClusterEvent, CreatedLog, NewSession, SessionLog, blocking};
use crate::metrics::Metrics;
use crate::session_event::{AnswerResult, PendingQuestionEvent};

/// Maximum number of events that are handled before their outputs are performed.
const TURN: usize = 256;
/// Maximum number of outputs that accumulate before they are performed.
const BURST: usize = 8192;
/// Interval of timeouts and of checks for changed tokens.
const TICK: Duration = Duration::from_millis(100);
/// Maximum time for agents to exit when the hub shuts down.
const END: Duration = Duration::from_secs(3);
/// Maximum number of replays that are folded at a time.
pub(crate) const REPLAYS: usize = 4;

/// An event for the core.
pub(crate) enum Event {
    Connected {
        connection: ConnectionId,
        identity: Identity,
        agent: usize,
        is_named: bool,
        stream: Box<ServerConnection>,
    },
    Message {
        connection: ConnectionId,
        text: Arc<str>,
    },
    Acked {
        connection: ConnectionId,
        session: SessionId,
        acked: u64,
    },
    Resume {
        connection: ConnectionId,
        session: String,
        cursor: String,
    },
    Reconnected {
        connection: ConnectionId,
    },
    Disconnected {
        connection: ConnectionId,
    },
    AgentOutput {
        process: AgentId,
        outputs: Vec<AgentEvent>,
    },
    AgentExited {
        process: AgentId,
        ended: AgentExit,
    },
    Created {
        ticket: u64,
        begun: Box<Result<CreatedLog, String>>,
    },
    Loaded {
        session: SessionId,
        state: Box<Result<(SessionState, u64), String>>,
    },
    Read {
        connection: ConnectionId,
        session: SessionId,
        from: u64,
        part: Result<(Vec<LogRecord>, u64), String>,
    },
    /// The next portion of a replay.
    Replayed {
        connection: ConnectionId,
        session: SessionId,
        portion: Result<(Box<Replay>, Vec<ReplayLine>), String>,
    },
    /// Result of a message lookup.
    MessageFound {
        connection: ConnectionId,
        offset: Result<Option<u64>, String>,
    },
    /// A loss of the translation for a client.
    ClientLoss {
        connection: ConnectionId,
        loss: Loss,
    },
    /// A client speaks version 1.
    Translated {
        connection: ConnectionId,
    },
    /// Result of acquiring a session.
    OwnershipKnown {
        session: SessionId,
        owned: Box<Result<Ownership, String>>,
    },
    /// Reply of another hub; `None` after a timeout.
    ForwardAnswered {
        ticket: u64,
        reply: Option<String>,
    },
    /// An event of another hub.
    #[cfg_attr(not(feature = "jetstream"), expect(dead_code, reason = "only a shared log has other hubs"))]
    Cluster(ClusterEvent),
    Count {
        answer: oneshot::Sender<Counts>,
    },
    ReevaluatePolicy {
        answer: oneshot::Sender<Vec<(SessionId, RequestId<'static>)>>,
    },
    AnswerShown {
        session: String,
        shown: Box<PendingQuestionEvent>,
        option: String,
        by: String,
        answer: oneshot::Sender<AnswerResult>,
    },
    ListSessions {
        identity: Identity,
        answer: oneshot::Sender<Option<(Identity, Vec<SessionSummary>)>>,
    },
    End {
        reason: String,
        grace: Grace,
        done: oneshot::Sender<()>,
    },
}

/// Queue of events.
pub(crate) struct Events {
    coming: mpsc::Receiver<Event>,
    /// An event that was received but must wait for the running append.
    next: Option<Event>,
}

impl Events {
    async fn recv(&mut self) -> Option<Event> {
        match self.next.take() {
            Some(event) => Some(event),
            None => self.coming.recv().await,
        }
    }

    /// Returns an event that is already available.
    fn now(&mut self) -> Option<Event> {
        self.next.take().or_else(|| self.coming.try_recv().ok())
    }
}

/// Returns the current rights of a token.
fn of_token(tokens: &[Token], identity: Identity) -> Option<Identity> {
    let token = tokens.iter().find(|token| *token.name == *identity.name && token.made.0 == identity.made)?;
    // A client that was let in with fewer rights than its token has keeps them.
    Some(Identity { role: token.role.min(identity.role), all: token.all, ..identity })
}

/// The task of a client connection, and its identity.
pub(crate) struct ClientHandle {
    lines: mpsc::UnboundedSender<ConnectionInput>,
    identity: Identity,
}

/// The main task of a hub.
pub(crate) struct Service {
    pub(crate) core: Core,
    pub(crate) store: Store,
    pub(crate) agents: Vec<(String, Program)>,
    pub(crate) processes: HashMap<AgentId, mpsc::UnboundedSender<AgentInput>>,
    pub(crate) clients: HashMap<ConnectionId, ClientHandle>,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) report: Arc<dyn Fn(&str) + Send + Sync>,
    pub(crate) listener: Option<Box<dyn Listener>>,
    pub(crate) begun: Instant,
    pub(crate) send_window: usize,
    /// Version of the access table that was last read.
    pub(crate) access: Option<u64>,
    /// Time at which the next token expires.
    pub(crate) next_expiry: Option<Moment>,
    /// Names that are not tokens of the store.
    pub(crate) local: Vec<Arc<str>>,
    /// Counts changes of sessions and of their visibility.
    pub(crate) changed: watch::Sender<u64>,
    /// Version of the summaries that was last announced.
    pub(crate) summary_version: u64,
    /// Number of processes that are ending.
    pub(crate) ending_processes: usize,
    /// Grace period for agents, set when the hub shuts down.
    pub(crate) shutdown_grace: Arc<OnceLock<Grace>>,
    /// Limits the number of concurrent replays.
    pub(crate) replays: Arc<Semaphore>,
    /// Reply addresses of requests that other hubs have forwarded.
    pub(crate) inboxes: HashMap<String, String>,
    /// Outputs that wait until the running append is durable.
    pub(crate) deferred: VecDeque<Output>,
    /// Prompts that could not be sent to an exited process: the agent's ids of their sessions.
    pub(crate) unsent: HashMap<AgentId, Vec<String>>,
}

impl Service {
    /// Runs the hub until it is shut down.
    pub(crate) async fn run(mut self, mut log: Box<dyn SessionLog>, events: mpsc::Receiver<Event>) {
        let mut events = Events { coming: events, next: None };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.perform(&mut *log, Some(&mut events)).await;
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                _ = ticks.tick() => {
                    self.update_clock();
                    self.core.set_log_problem(log.problem());
                    self.reload_access();
                    self.report_deleted();
                    self.poll_cluster(&mut *log);
                    self.core.tick();
                    self.perform(&mut *log, Some(&mut events)).await;
                    continue;
                }
            };
            let Some(event) = event else { return };
            self.update_clock();
            self.core.set_log_problem(log.problem());
            let mut next = Some(event);
            for _ in 0..TURN {
                let Some(event) = next.take() else { break };
                if let Event::End { reason, grace, done } = event {
                    let _ = self.shutdown_grace.set(grace);
                    return self.end(log, &reason, done, events.coming).await;
                }
                self.handle(event, &mut *log).await;
                // Limits memory when many clients are to be sent something at once.
                if self.core.outputs() >= BURST {
                    self.perform(&mut *log, None).await;
                }
                next = events.now();
            }
            if let Some(Event::End { reason, grace, done }) = next {
                let _ = self.shutdown_grace.set(grace);
                return self.end(log, &reason, done, events.coming).await;
            }
            if let Some(event) = next {
                self.handle(event, &mut *log).await;
            }
            self.perform(&mut *log, Some(&mut events)).await;
        }
    }

    /// Reports sessions that the store has deleted to free space. The core finds out by itself that they are gone.
    fn report_deleted(&mut self) {
        let deleted = self.store.take_deleted();
        if !deleted.is_empty() {
            let ids = deleted.join(", ");
            (self.report)(&format!("the store is nearly full; deleted the oldest sessions: {ids}"));
        }
    }

    /// Passes the current time to the core.
    fn update_clock(&mut self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.core.at(now, Moment::now().0);
    }

    /// Handles an event.
    async fn handle(&mut self, event: Event, log: &mut dyn SessionLog) {
        match event {
            event @ (Event::Resume { .. } | Event::Reconnected { .. }) => {
                // Outputs of earlier events belong before the resumed stream.
                self.perform(log, None).await;
                self.handle_in_core(event);
            }
            Event::Created { ticket, begun } => {
                let known = begun.map(|begun| log.open_created(begun));
                self.core.created(ticket, known);
            }
            Event::ReevaluatePolicy { answer } => {
                let answered = self.core.reevaluate_policy();
                self.perform(log, None).await;
                let _ = answer.send(answered);
            }
            event => self.handle_in_core(event),
        }
    }

    /// Handles an event that needs neither the log nor earlier outputs.
    fn handle_in_core(&mut self, event: Event) {
        match event {
            Event::Connected { connection, identity, agent, is_named, stream } => {
                // Unbounded, but limited by other means: updates by the send window, responses and questions by the
                // number of pending requests. The connection task forwards lines at once to a queue whose limit closes
                // the connection.
                #[allow(clippy::disallowed_methods)]
                let (lines, receiver) = mpsc::unbounded_channel();
                self.clients.insert(connection, ClientHandle { lines, identity: identity.clone() });
                // The token may have been revoked after authentication, before this connection was registered.
                self.reload_access();
                let is_revoked = self.identity_now(identity.clone()).is_none();
                let dedups_by_id = stream.outgoing.has_streams();
                self.core.connected(connection, identity, agent, is_named, dedups_by_id);
                tokio::spawn(connection::run(
                    connection,
                    *stream,
                    receiver,
                    self.events.clone(),
                    self.send_window,
                ));
                if is_revoked {
                    self.core.access_changed(connection, None);
                }
            }
            Event::Message { connection, text } => {
                self.metrics.from_clients.fetch_add(1, Ordering::Relaxed);
                let instead = self.listener.as_mut().and_then(|listener| listener.client_message(&text));
                self.core.client_line(connection, &instead.map_or(text, Arc::from));
            }
            Event::Acked { connection, session, acked } => self.core.acknowledge(connection, &session, acked),
            Event::Resume { connection, session, cursor } => {
                let decision = self.core.resume_at(connection, &session, &cursor);
                self.send_to(connection, ConnectionInput::ResumeDecided(decision));
            }
            Event::Reconnected { connection } => {
                self.core.reconnected(connection);
                self.send_to(connection, ConnectionInput::Paused);
            }
            Event::Disconnected { connection } => {
                self.clients.remove(&connection);
                self.core.disconnected(connection);
            }
            Event::AgentOutput { process, outputs } => {
                for output in outputs {
                    match output {
                        AgentEvent::Line(line) => {
                            self.metrics.from_agents.fetch_add(1, Ordering::Relaxed);
                            self.core.agent_line(process, &line);
                        }
                        AgentEvent::WireLine { from, text, about } => {
                            self.core.wire_line(process, &about, from, &text);
                        }
                        AgentEvent::Loss(loss) => self.core.agent_loss(process, &loss),
                        AgentEvent::StandardError(text) => self.core.agent_stderr(process, &text),
                        AgentEvent::InvalidLine(text) => self.core.invalid_line(process, &text),
                        AgentEvent::Confinement(notice) => self.core.confinement_notice(process, notice),
                        AgentEvent::Version(version) => self.core.version_negotiated(process, version),
                    }
                }
            }
            Event::AgentExited { process, ended } => {
                let AgentExit { reason, last_lines, mut undelivered } = ended;
                self.processes.remove(&process);
                self.ending_processes = self.ending_processes.saturating_sub(1);
                undelivered.extend(self.unsent.remove(&process).unwrap_or_default());
                // The process would never receive these lines.
                self.deferred.retain(|output| match output {
                    Output::ToAgent { process: to, line, .. } if *to == process => {
                        match lines::prompted_session(line) {
                            Some(session) => {
                                undelivered.push(session);
                                false
                            }
                            None => true,
                        }
                    }
                    _ => true,
                });
                self.core.undelivered(process, &undelivered);
                self.core.agent_exited(process, &reason, &last_lines);
            }
            Event::Loaded { session, state } => self.core.loaded(&session, *state),
            Event::Read { connection, session, from, part } => match part {
                Ok((part, to)) => self.core.read(connection, &session, from, &part, to),
                Err(reason) => self.core.read_failed(connection, &session, &reason),
            },
            Event::Replayed { connection, session, portion } => match portion {
                Ok((replay, lines)) => self.core.replayed(connection, &session, replay, lines),
                Err(reason) => self.core.read_failed(connection, &session, &reason),
            },
            Event::MessageFound { connection, offset } => self.core.message_found(connection, offset),
            Event::ClientLoss { connection, loss } => self.core.client_loss(connection, &loss),
            Event::Translated { connection } => self.core.translated(connection),
            Event::OwnershipKnown { session, owned } => self.core.ownership_known(&session, *owned),
            Event::ForwardAnswered { ticket, reply } => self.core.forward_answered(ticket, reply.as_deref()),
            Event::Cluster(news) => self.handle_cluster_event(news),
            Event::Count { answer } => {
                // The caller may be gone.
                let _ = answer.send(self.core.counts());
            }
            Event::AnswerShown { session, shown, option, by, answer } => {
                let _ = answer.send(self.core.answer_shown(&session, &shown, &option, &by));
            }
            Event::ListSessions { identity, answer } => {
                let known = self.identity_now(identity);
                let seen = known.map(|identity| {
                    let sessions = self.core.summaries(&identity);
                    (identity, sessions)
                });
                let _ = answer.send(seen);
            }
            Event::Created { .. } | Event::ReevaluatePolicy { .. } | Event::End { .. } => {}
        }
    }

    /// Returns the current rights of a client; `None` if its token was revoked.
    fn identity_now(&self, identity: Identity) -> Option<Identity> {
        if self.is_local(&identity) {
            return Some(identity);
        }
        let tokens = self.store.tokens().ok()?;
        of_token(&tokens, identity)
    }

    /// Returns whether this is not a token of the store. A token of the store may have the same name, but has a
    /// creation time.
    fn is_local(&self, identity: &Identity) -> bool {
        identity.made == 0 && self.local.contains(&identity.name)
    }

    /// Sends an input to the task of a connection.
    fn send_to(&self, connection: ConnectionId, line: ConnectionInput) {
        if let Some(client) = self.clients.get(&connection) {
            // A connection task that has ended needs no input.
            let _ = client.lines.send(line);
        }
    }

    /// Performs one output.
    fn perform_one(&mut self, output: Output, log: &mut dyn SessionLog) {
        match output {
            Output::Create { ticket, agent, owner, folder, starter } => {
                let begun = log.create(NewSession { agent, owner, folder, starter });
                self.spawn_task(async move { Event::Created { ticket, begun: Box::new(begun.await) } });
            }
            Output::Remove { session } => drop(tokio::spawn(log.remove(&session))),
            // Reading a session of a shared log does not need its ownership.
            Output::Load { session } if log.name().is_none() => {
                let prepared = log.prepare(&session);
                self.load(session, async { prepared.await.map(drop) });
            }
            Output::CloseLog { session } => log.close_session(&session),
            output => {
                if let Some(output) = self.perform_without_log(output) {
                    self.perform_in_cluster(output, log);
                }
            }
        }
    }

    /// Loads a whole log, after it has been prepared.
    fn load(&self, session: SessionId, prepared: impl Future<Output = Result<(), String>> + Send + 'static) {
        let store = self.store.clone();
        self.spawn_task(async move {
            let at = Arc::clone(&session);
            let state = match prepared.await {
                Ok(()) => blocking(move || log::load(&store, &at)).await,
                Err(reason) => Err(reason),
            };
            Event::Loaded { session, state: Box::new(state) }
        });
    }

    /// Performs an output that does not need the log writer; returns any other.
    fn perform_without_log(&mut self, output: Output) -> Option<Output> {
        match output {
            Output::Send { connection, line } => {
                self.metrics.to_clients.fetch_add(1, Ordering::Relaxed);
                self.send_to(connection, ConnectionInput::Line(line));
            }
            Output::Close { connection, code, reason } => {
                self.send_to(connection, ConnectionInput::Close { code, reason });
            }
            Output::Load { session } => self.load(session, std::future::ready(Ok(()))),
            Output::Read { connection, session, from, end } => {
                let store = self.store.clone();
                self.spawn_task(async move {
                    let at = Arc::clone(&session);
                    let part = blocking(move || log::read(&store, &at, from, end)).await;
                    Event::Read { connection, session, from, part }
                });
            }
            Output::Replay { connection, session, mut replay } => {
                let (store, turns) = (self.store.clone(), Arc::clone(&self.replays));
                self.spawn_task(async move {
                    // Each fold needs memory, so concurrent replays take turns.
                    let _turn = turns.acquire_owned().await;
                    let at = Arc::clone(&session);
                    let portion = blocking(move || {
                        let lines = log::replay(&store, &at, &mut replay)?;
                        Ok((replay, lines))
                    });
                    Event::Replayed { connection, session, portion: portion.await }
                });
            }
            Output::FindMessage { connection, session, message, end } => {
                let store = self.store.clone();
                self.spawn_task(async move {
                    let offset = blocking(move || log::find_message(&store, &session, &message, end)).await;
                    Event::MessageFound { connection, offset }
                });
            }
            Output::Changed { session } => {
                let (known, agent_session) = self.core.agent_session(&session)?;
                let (store, known, agent_session) =
                    (self.store.clone(), known.clone(), agent_session.to_owned());
                tokio::task::spawn_blocking(move || log::save(&store, &known, &agent_session));
            }
            Output::StartAgent { process, agent, services, roots } => {
                let (name, program) = self.agents.get(agent)?;
                let mut program = program.clone();
                // A confined process belongs to one session and starts in its folder: others are not there.
                if let Some(first) = roots.first() {
                    program = program.working_directory(first);
                }
                self.processes.insert(
                    process,
                    agent_task::start(
                        process,
                        name,
                        program.roots(roots.into_iter().map(Into::into).collect()),
                        services,
                        self.events.clone(),
                        Arc::clone(&self.shutdown_grace),
                    ),
                );
            }
            Output::ToAgent { process, line, session } => {
                self.metrics.to_agents.fetch_add(1, Ordering::Relaxed);
                let line = AgentInput { line, session };
                let unsent = match self.processes.get(&process) {
                    Some(lines) => lines.send(line).err().map(|unsent| unsent.0),
                    None => Some(line),
                };
                // The task of an exited process reports its exit itself. Until then the undelivered prompts are
                // collected.
                if let Some(session) = unsent.and_then(|unsent| lines::prompted_session(&unsent.line)) {
                    self.unsent.entry(process).or_default().push(session);
                }
            }
            Output::EndAgent { process } => {
                if self.processes.remove(&process).is_some() {
                    self.ending_processes += 1;
                }
            }
            Output::Event(event) => {
                if let Some(listener) = &mut self.listener {
                    listener.session_event(*event);
                }
            }
            Output::Report(what) => (self.report)(&what),
            other => return Some(other),
        }
        None
    }

    /// Runs slow work in a separate task, whose result is an event.
    fn spawn_task(&self, work: impl Future<Output = Event> + Send + 'static) {
        let events = self.events.clone();
        tokio::spawn(async move {
            let event = work.await;
            // The receiver exists until every task has ended.
            let _ = events.send(event).await;
        });
    }

    /// Applies changes of tokens, shares and deleted sessions that other processes have made.
    fn reload_access(&mut self) {
        let Ok(state) = self.store.access_changed() else { return };
        let has_expired = self.next_expiry.is_some_and(|expiry| expiry.0 <= Moment::now().0);
        if self.access == Some(state) && !has_expired {
            return;
        }
        // On a read error nothing is applied, and the next tick tries again: revoked rights must not survive.
        let Ok(access) = self.store.token_access() else { return };
        let mut tokens = Vec::with_capacity(access.len());
        let mut shared: HashMap<String, Vec<Starter>> = HashMap::new();
        for TokenAccess { token, sessions, .. } in access {
            let name: Arc<str> = token.name.as_str().into();
            for session in sessions {
                shared.entry(session).or_default().push((Arc::clone(&name), token.made.0));
            }
            tokens.push(token);
        }
        let Ok(hosted) = self.store.all_hosted() else { return };
        let hosted: HashSet<String> = hosted.into_iter().map(|hosted| hosted.id).collect();
        self.next_expiry =
            tokens.iter().filter_map(|token| token.limits.as_ref()).map(|limits| limits.expires).min();
        self.access = Some(state);
        self.core.keep_sessions(|id| hosted.contains(id));
        self.core.set_shares(shared);
        let connections: Vec<(ConnectionId, Identity)> =
            self.clients.iter().map(|(id, client)| (*id, client.identity.clone())).collect();
        for (connection, before) in connections {
            if self.is_local(&before) {
                continue;
            }
            self.core.access_changed(connection, of_token(&tokens, before));
        }
        self.changed.send_modify(|count| *count += 1);
    }

    /// Shuts down: ends the agents and closes the logs.
    async fn end(
        mut self,
        mut log: Box<dyn SessionLog>,
        reason: &str,
        done: oneshot::Sender<()>,
        mut events: mpsc::Receiver<Event>,
    ) {
        self.core.end(reason);
        self.perform(&mut *log, None).await;
        self.ending_processes += std::mem::take(&mut self.processes).len();
        let ended = async {
            while self.ending_processes > 0 {
                match events.recv().await {
                    Some(Event::AgentExited { .. }) => self.ending_processes -= 1,
                    Some(_) => {}
                    None => return,
                }
            }
        };
        let _ = tokio::time::timeout(END, ended).await;
        log.close().await;
        let _ = done.send(());
    }
}
