//! The hub at work: one task that tells the core what happens and does what it says.

mod others;
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

use crate::connection::{self, ForConnection};
use crate::core::lines;
use crate::core::replay::{Replay, ReplayLine};
use crate::core::{
    ConnectionId, Core, Counts, HostId, Identity, Kept, Memory, Output, Owned, SessionId, SessionSummary,
    Starter,
};
use crate::host::{self, Ended, ForAgent, Said};
use crate::listener::Listener;
use crate::log::{self, Beginning, Begun, News, SessionLog, blocking};
use crate::metrics::Metrics;

/// How many events are looked at before what comes of them is done.
const TURN: usize = 256;
/// How much may have to be done before it is.
const BURST: usize = 8192;
/// How often the hub looks whether tokens have changed, and at the clock.
const TICK: Duration = Duration::from_millis(100);
/// How long agents may take to end with the hub.
const END: Duration = Duration::from_secs(3);
/// How many clients have a portion of a session's history folded for them at a time.
pub(crate) const REPLAYS: usize = 4;

/// Something that happened.
pub(crate) enum Event {
    Connected {
        connection: ConnectionId,
        who: Identity,
        agent: usize,
        is_named: bool,
        stream: Box<ServerConnection>,
    },
    Message {
        connection: ConnectionId,
        text: Arc<str>,
    },
    Room {
        connection: ConnectionId,
        session: SessionId,
        gone: u64,
    },
    Continue {
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
    HostSaid {
        host: HostId,
        said: Vec<Said>,
    },
    HostEnded {
        host: HostId,
        ended: Ended,
    },
    Created {
        ticket: u64,
        begun: Box<Result<Begun, String>>,
    },
    Loaded {
        session: SessionId,
        memory: Box<Result<(Memory, u64), String>>,
    },
    Read {
        connection: ConnectionId,
        session: SessionId,
        from: u64,
        part: Result<(Vec<Kept>, u64), String>,
    },
    /// The next portion of a session's history.
    Replayed {
        connection: ConnectionId,
        session: SessionId,
        portion: Result<(Box<Replay>, Vec<ReplayLine>), String>,
    },
    /// A message was looked for.
    Found {
        connection: ConnectionId,
        place: Result<Option<u64>, String>,
    },
    /// The translation for a client could not carry something.
    Lost {
        connection: ConnectionId,
        loss: Loss,
    },
    /// A client is of version 1.
    Translated {
        connection: ConnectionId,
    },
    /// It is known who writes a session.
    Owned {
        session: SessionId,
        owned: Box<Result<Owned, String>>,
    },
    /// Another hub has answered, or has not.
    Passed {
        ticket: u64,
        reply: Option<String>,
    },
    /// What another hub does.
    News(News),
    Count {
        answer: oneshot::Sender<Counts>,
    },
    JudgeAgain {
        answer: oneshot::Sender<Vec<(SessionId, RequestId<'static>)>>,
    },
    Look {
        who: Identity,
        answer: oneshot::Sender<Option<(Identity, Vec<SessionSummary>)>>,
    },
    End {
        reason: String,
        grace: Grace,
        done: oneshot::Sender<()>,
    },
}

/// What happens, in its order.
pub(crate) struct Events {
    coming: mpsc::Receiver<Event>,
    /// What has come and could not be looked at yet.
    next: Option<Event>,
}

impl Events {
    async fn recv(&mut self) -> Option<Event> {
        match self.next.take() {
            Some(event) => Some(event),
            None => self.coming.recv().await,
        }
    }

    /// What has happened already.
    fn now(&mut self) -> Option<Event> {
        self.next.take().or_else(|| self.coming.try_recv().ok())
    }
}

/// What somebody may do by the tokens that there are.
fn of_token(tokens: &[Token], who: Identity) -> Option<Identity> {
    let token = tokens.iter().find(|token| *token.name == *who.name && token.made.0 == who.made)?;
    Some(Identity { role: token.role, all: token.all, ..who })
}

/// Who a connection belongs to.
pub(crate) struct Seat {
    lines: mpsc::UnboundedSender<ForConnection>,
    who: Identity,
}

pub(crate) struct Service {
    pub(crate) core: Core,
    pub(crate) store: Store,
    pub(crate) agents: Vec<(String, Program)>,
    pub(crate) hosts: HashMap<HostId, mpsc::UnboundedSender<ForAgent>>,
    pub(crate) seats: HashMap<ConnectionId, Seat>,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tell: Arc<dyn Fn(&str) + Send + Sync>,
    pub(crate) listener: Option<Box<dyn Listener>>,
    pub(crate) begun: Instant,
    pub(crate) flow: usize,
    /// The state of the tokens that was last looked at.
    pub(crate) access: Option<u64>,
    /// The names that are no tokens of the store, and need not be looked up.
    pub(crate) local: Vec<Arc<str>>,
    /// Counts changes of sessions and of who may see them.
    pub(crate) changed: watch::Sender<u64>,
    /// The states of sessions that were last told.
    pub(crate) told: u64,
    /// How many hosts have been told to end and have not.
    pub(crate) ending_hosts: usize,
    /// How long agents may take to end with the hub, once it does.
    pub(crate) hurry: Arc<OnceLock<Grace>>,
    /// Limits how many replays are folded at a time.
    pub(crate) replays: Arc<Semaphore>,
    /// Where the answers to what other hubs have passed on go.
    pub(crate) inboxes: HashMap<String, String>,
    /// What is to be done after what is being made safe.
    pub(crate) held: VecDeque<Output>,
    /// Prompts that could not be sent to an agent that has ended: the agent's ids of their sessions.
    pub(crate) unsent: HashMap<HostId, Vec<String>>,
}

impl Service {
    /// Works until it is told to end.
    pub(crate) async fn run(mut self, mut log: Box<dyn SessionLog>, events: mpsc::Receiver<Event>) {
        let mut events = Events { coming: events, next: None };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.perform(&mut *log, Some(&mut events)).await;
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                _ = ticks.tick() => {
                    self.look_at_clock();
                    self.core.log_has(log.problem());
                    self.look_at_access();
                    self.tell_deleted();
                    self.look_at_others(&mut *log);
                    self.core.tick();
                    self.perform(&mut *log, Some(&mut events)).await;
                    continue;
                }
            };
            let Some(event) = event else { return };
            self.look_at_clock();
            self.core.log_has(log.problem());
            let mut next = Some(event);
            for _ in 0..TURN {
                let Some(event) = next.take() else { break };
                if let Event::End { reason, grace, done } = event {
                    let _ = self.hurry.set(grace);
                    return self.end(log, &reason, done, events.coming).await;
                }
                self.take(event, &mut *log).await;
                // What many clients are to get at once must not wait together.
                if self.core.outputs() >= BURST {
                    self.perform(&mut *log, None).await;
                }
                next = events.now();
            }
            if let Some(Event::End { reason, grace, done }) = next {
                let _ = self.hurry.set(grace);
                return self.end(log, &reason, done, events.coming).await;
            }
            if let Some(event) = next {
                self.take(event, &mut *log).await;
            }
            self.perform(&mut *log, Some(&mut events)).await;
        }
    }

    /// Tells which sessions the store has deleted to make room. The core notices by itself that they are gone.
    fn tell_deleted(&mut self) {
        let deleted = self.store.take_deleted();
        if !deleted.is_empty() {
            let ids = deleted.join(", ");
            (self.tell)(&format!("the store is nearly full: the oldest sessions were deleted: {ids}"));
        }
    }

    fn look_at_clock(&mut self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.core.at(now, Moment::now().0);
    }

    /// Tells the core what happened.
    async fn take(&mut self, event: Event, log: &mut dyn SessionLog) {
        match event {
            event @ (Event::Continue { .. } | Event::Reconnected { .. }) => {
                // What was decided before belongs to the time before.
                self.perform(log, None).await;
                self.tell_core(event);
            }
            Event::Created { ticket, begun } => {
                let known = begun.map(|begun| log.begun(begun));
                self.core.created(ticket, known);
            }
            Event::JudgeAgain { answer } => {
                let answered = self.core.judge_again();
                self.perform(log, None).await;
                let _ = answer.send(answered);
            }
            event => self.tell_core(event),
        }
    }

    /// Tells the core what happened, where nothing else has to be known for it.
    fn tell_core(&mut self, event: Event) {
        match event {
            Event::Connected { connection, who, agent, is_named, stream } => {
                // What counts is bounded by its flow, answers and questions by how many may be open; and the connection's
                // task passes everything on at once, to where more than may wait ends the connection.
                #[allow(clippy::disallowed_methods)]
                let (lines, receiver) = mpsc::unbounded_channel();
                self.seats.insert(connection, Seat { lines, who: who.clone() });
                // The token may have been revoked since it was looked at, when this connection was not known here.
                self.look_at_access();
                let is_revoked = self.identity_now(who.clone()).is_none();
                let repeats_by_id = stream.outgoing.has_streams();
                self.core.connected(connection, who, agent, is_named, repeats_by_id);
                tokio::spawn(connection::run(connection, *stream, receiver, self.events.clone(), self.flow));
                if is_revoked {
                    self.core.access_changed(connection, None);
                }
            }
            Event::Message { connection, text } => {
                self.metrics.from_clients.fetch_add(1, Ordering::Relaxed);
                let instead = self.listener.as_mut().and_then(|listener| listener.said(&text));
                self.core.client_line(connection, &instead.map_or(text, Arc::from));
            }
            Event::Room { connection, session, gone } => self.core.has_room(connection, &session, gone),
            Event::Continue { connection, session, cursor } => {
                let decision = self.core.continue_at(connection, &session, &cursor);
                self.pass(connection, ForConnection::Decided(decision));
            }
            Event::Reconnected { connection } => {
                self.core.reconnected(connection);
                self.pass(connection, ForConnection::Paused);
            }
            Event::Disconnected { connection } => {
                self.seats.remove(&connection);
                self.core.disconnected(connection);
            }
            Event::HostSaid { host, said } => {
                for said in said {
                    match said {
                        Said::Line(line) => {
                            self.metrics.from_agents.fetch_add(1, Ordering::Relaxed);
                            self.core.host_line(host, &line);
                        }
                        Said::Other { from, text, about } => self.core.other_line(host, &about, from, &text),
                        Said::Loss(loss) => self.core.lost(host, &loss),
                        Said::Error(text) => self.core.complained(host, &text),
                        Said::Noise(text) => self.core.rambled(host, &text),
                        Said::Version(version) => self.core.speaks(host, version),
                    }
                }
            }
            Event::HostEnded { host, ended } => {
                let Ended { reason, last_lines, mut undelivered } = ended;
                self.hosts.remove(&host);
                self.ending_hosts = self.ending_hosts.saturating_sub(1);
                undelivered.extend(self.unsent.remove(&host).unwrap_or_default());
                // What waits for records to be durable would be sent to nobody.
                self.held.retain(|output| match output {
                    Output::ToHost { host: to, line, .. } if *to == host => match lines::prompted(line) {
                        Some(session) => {
                            undelivered.push(session);
                            false
                        }
                        None => true,
                    },
                    _ => true,
                });
                self.core.undelivered(host, &undelivered);
                self.core.host_ended(host, &reason, &last_lines);
            }
            Event::Loaded { session, memory } => self.core.loaded(&session, *memory),
            Event::Read { connection, session, from, part } => match part {
                Ok((part, to)) => self.core.read(connection, &session, from, &part, to),
                Err(reason) => self.core.read_failed(connection, &session, &reason),
            },
            Event::Replayed { connection, session, portion } => match portion {
                Ok((replay, lines)) => self.core.replayed(connection, &session, replay, lines),
                Err(reason) => self.core.read_failed(connection, &session, &reason),
            },
            Event::Found { connection, place } => self.core.found(connection, place),
            Event::Lost { connection, loss } => self.core.client_lost(connection, &loss),
            Event::Translated { connection } => self.core.translated(connection),
            Event::Owned { session, owned } => self.core.owned(&session, *owned),
            Event::Passed { ticket, reply } => self.core.passed(ticket, reply.as_deref()),
            Event::News(news) => self.hear(news),
            Event::Count { answer } => {
                // Who asked may have gone.
                let _ = answer.send(self.core.counts());
            }
            Event::Look { who, answer } => {
                let known = self.identity_now(who);
                let seen = known.map(|who| {
                    let sessions = self.core.summaries(&who);
                    (who, sessions)
                });
                let _ = answer.send(seen);
            }
            Event::Created { .. } | Event::JudgeAgain { .. } | Event::End { .. } => {}
        }
    }

    /// What somebody may do now; `None` when the token was revoked.
    fn identity_now(&self, who: Identity) -> Option<Identity> {
        if self.is_local(&who) {
            return Some(who);
        }
        let tokens = self.store.tokens().ok()?;
        of_token(&tokens, who)
    }

    /// Whether it is no token of the store. A token of the store may have such a name, but it has a creation time.
    fn is_local(&self, who: &Identity) -> bool {
        who.made == 0 && self.local.contains(&who.name)
    }

    fn pass(&self, connection: ConnectionId, line: ForConnection) {
        if let Some(seat) = self.seats.get(&connection) {
            // One that has gone needs nothing more.
            let _ = seat.lines.send(line);
        }
    }

    fn act(&mut self, output: Output, log: &mut dyn SessionLog) {
        match output {
            Output::Create { ticket, agent, owner, folder, starter } => {
                let begun = log.begin(Beginning { agent, owner, folder, starter });
                self.aside(async move { Event::Created { ticket, begun: Box::new(begun.await) } });
            }
            Output::Remove { session } => drop(tokio::spawn(log.remove(&session))),
            // Who only looks at a session of a shared log need not have the right to write it.
            Output::Load { session } if log.name().is_none() => {
                let prepared = log.prepare(&session);
                self.load(session, async { prepared.await.map(drop) });
            }
            Output::Rest { session } => log.rest(&session),
            output => {
                if let Some(output) = self.act_without_log(output) {
                    self.act_among_hubs(output, log);
                }
            }
        }
    }

    /// Reads a log as a whole, once it is prepared for it.
    fn load(&self, session: SessionId, prepared: impl Future<Output = Result<(), String>> + Send + 'static) {
        let store = self.store.clone();
        self.aside(async move {
            let at = Arc::clone(&session);
            let memory = match prepared.await {
                Ok(()) => blocking(move || log::load(&store, &at)).await,
                Err(reason) => Err(reason),
            };
            Event::Loaded { session, memory: Box::new(memory) }
        });
    }

    /// Does what needs nothing of what the logs are written with; gives back what does.
    fn act_without_log(&mut self, output: Output) -> Option<Output> {
        match output {
            Output::Send { connection, line } => {
                self.metrics.to_clients.fetch_add(1, Ordering::Relaxed);
                self.pass(connection, ForConnection::Line(line));
            }
            Output::Close { connection, code, reason } => {
                self.pass(connection, ForConnection::Close { code, reason });
            }
            Output::Load { session } => self.load(session, std::future::ready(Ok(()))),
            Output::Read { connection, session, from, end } => {
                let store = self.store.clone();
                self.aside(async move {
                    let at = Arc::clone(&session);
                    let part = blocking(move || log::read(&store, &at, from, end)).await;
                    Event::Read { connection, session, from, part }
                });
            }
            Output::Replay { connection, session, mut replay } => {
                let (store, turns) = (self.store.clone(), Arc::clone(&self.replays));
                self.aside(async move {
                    // Many clients that come at once fold one after the other: each needs memory.
                    let _turn = turns.acquire_owned().await;
                    let at = Arc::clone(&session);
                    let portion = blocking(move || {
                        let lines = log::replay(&store, &at, &mut replay)?;
                        Ok((replay, lines))
                    });
                    Event::Replayed { connection, session, portion: portion.await }
                });
            }
            Output::Seek { connection, session, message, end } => {
                let store = self.store.clone();
                self.aside(async move {
                    let place = blocking(move || log::seek(&store, &session, &message, end)).await;
                    Event::Found { connection, place }
                });
            }
            Output::Changed { session } => {
                let (known, agent_session) = self.core.agent_session(&session)?;
                let (store, known, agent_session) =
                    (self.store.clone(), known.clone(), agent_session.to_owned());
                tokio::task::spawn_blocking(move || log::save(&store, &known, &agent_session));
            }
            Output::StartHost { host, agent, services } => {
                let (name, program) = self.agents.get(agent)?;
                self.hosts.insert(
                    host,
                    host::start(host, name, program, services, self.events.clone(), Arc::clone(&self.hurry)),
                );
            }
            Output::ToHost { host, line, session } => {
                self.metrics.to_agents.fetch_add(1, Ordering::Relaxed);
                let line = ForAgent { line, session };
                let unsent = match self.hosts.get(&host) {
                    Some(lines) => lines.send(line).err().map(|unsent| unsent.0),
                    None => Some(line),
                };
                // An agent that has ended says so itself; until then it is known which prompts it has not got.
                if let Some(session) = unsent.and_then(|unsent| lines::prompted(&unsent.line)) {
                    self.unsent.entry(host).or_default().push(session);
                }
            }
            Output::EndHost { host } => {
                if self.hosts.remove(&host).is_some() {
                    self.ending_hosts += 1;
                }
            }
            Output::Tell(what) => (self.tell)(&what),
            other => return Some(other),
        }
        None
    }

    /// Does something that takes time, beside everything else.
    fn aside(&self, work: impl Future<Output = Event> + Send + 'static) {
        let events = self.events.clone();
        tokio::spawn(async move {
            let event = work.await;
            // The hub is gone only when everything is.
            let _ = events.send(event).await;
        });
    }

    /// Heeds changes of tokens and shares and deleted sessions, whoever made them.
    fn look_at_access(&mut self) {
        let Ok(state) = self.store.access_changed() else { return };
        if self.access == Some(state) {
            return;
        }
        // What cannot be read now is read at the next look: nobody may keep what was taken away.
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
        self.access = Some(state);
        self.core.keep_sessions(|id| hosted.contains(id));
        self.core.set_shares(shared);
        let connections: Vec<(ConnectionId, Identity)> =
            self.seats.iter().map(|(id, seat)| (*id, seat.who.clone())).collect();
        for (connection, before) in connections {
            if self.is_local(&before) {
                continue;
            }
            self.core.access_changed(connection, of_token(&tokens, before));
        }
        self.changed.send_modify(|count| *count += 1);
    }

    /// Ends everything: agents are told, logs are closed.
    async fn end(
        mut self,
        mut log: Box<dyn SessionLog>,
        reason: &str,
        done: oneshot::Sender<()>,
        mut events: mpsc::Receiver<Event>,
    ) {
        self.core.end(reason);
        self.perform(&mut *log, None).await;
        self.ending_hosts += std::mem::take(&mut self.hosts).len();
        let ended = async {
            while self.ending_hosts > 0 {
                match events.recv().await {
                    Some(Event::HostEnded { .. }) => self.ending_hosts -= 1,
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
