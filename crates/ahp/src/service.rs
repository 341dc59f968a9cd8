//! The hosts of all identities, and the effects of their steps.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use switchboard_acp::Moment;
use switchboard_hub::{Hub, Identity, SessionActivity, SessionSummary};
use switchboard_store::Role;
use tokio::sync::{Notify, mpsc};

use crate::content::{SharedReadFile, resource};
use crate::driver;
use crate::host::{Command, Effect, Host, HostOptions, Listed};
use crate::memory::{Memory, MemoryPlace};
use crate::outbox::Outbox;
use crate::wire::{Failure, codes};

/// Interval of a host's clock while it has clients.
const TICK: Duration = Duration::from_millis(100);
/// Minimum time between two looks at the hub's list of sessions.
const LIST_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which changed facts are stored.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of commands that wait for a session's connection.
const COMMANDS: usize = 1024;
/// Maximum size of a file that is read for a diff, in bytes.
const MAX_DIFF_FILE: u64 = 2 << 20;
/// Maximum size of a file that a client reads, in bytes.
const MAX_FILE: u64 = 8 << 20;
/// Maximum number of open WebSockets.
const MAX_SOCKETS: usize = 256;

/// Returns the canonical path of a folder in which sessions may work, or the reason why they may not.
pub type ResolveFolder = Arc<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// Options of the hosts.
pub struct AhpOptions {
    /// The hub.
    pub hub: Hub,
    /// Folder of new sessions for which the client gives none.
    pub folder: String,
    /// Returns the canonical path of a folder, if sessions may work there. Clients may read the files below.
    pub resolve: ResolveFolder,
    /// Storage of facts that survive a restart; without it, clients lose their place in sessions at a restart.
    pub memory: Option<Arc<dyn MemoryPlace>>,
}

/// Name, creation time, role and reach of an identity.
type HostKey = (Arc<str>, i64, Role, bool);
type HostMap = HashMap<HostKey, Arc<HostService>>;

/// The hosts of a hub: one for each identity, shared by its clients. Clones refer to the same hosts.
#[derive(Clone)]
pub struct AhpHosts(Arc<Hosts>);

pub(crate) struct Hosts {
    hub: Hub,
    folder: String,
    resolve: ResolveFolder,
    memory: Memory,
    hosts: Mutex<HostMap>,
    pub(crate) sockets: AtomicUsize,
}

impl fmt::Debug for AhpHosts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("AhpHosts").field(&self.0.hub).finish()
    }
}

impl AhpHosts {
    /// Creates the hosts of a hub.
    pub fn new(options: AhpOptions) -> Self {
        let AhpOptions { hub, folder, resolve, memory } = options;
        let memory = Memory::load(memory);
        let hosts =
            Hosts { hub, folder, resolve, memory, hosts: Mutex::default(), sockets: AtomicUsize::new(0) };
        let hosts = Arc::new(hosts);
        tokio::spawn(save(Arc::downgrade(&hosts)));
        AhpHosts(hosts)
    }

    /// Serves a WebSocket of a client.
    pub fn serve(
        &self,
        upgrade: axum::extract::WebSocketUpgrade,
        identity: &Identity,
    ) -> axum::response::Response {
        crate::socket::serve(&self.0, upgrade, identity)
    }

    /// Closes all connections and stores the facts. Sessions of the hub continue.
    pub async fn shut_down(&self) {
        for (_, host) in self.0.hosts().drain() {
            host.close(1001, "the hub is shutting down");
        }
        let memory = self.0.memory.clone();
        // The storage blocks. A task that panicked has stored nothing, which a restart survives.
        let _ = tokio::task::spawn_blocking(move || memory.save()).await;
    }
}

async fn save(hosts: Weak<Hosts>) {
    let mut ticks = tokio::time::interval(SAVE_INTERVAL);
    loop {
        ticks.tick().await;
        let Some(hosts) = hosts.upgrade() else { return };
        let memory = hosts.memory.clone();
        drop(hosts);
        if tokio::task::spawn_blocking(move || memory.save()).await.is_err() {
            return;
        }
    }
}

impl Hosts {
    fn hosts(&self) -> MutexGuard<'_, HostMap> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a place for a socket.
    pub(crate) fn reserve(&self) -> bool {
        self.sockets
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < MAX_SOCKETS).then_some(count + 1)
            })
            .is_ok()
    }

    /// Returns the host of an identity.
    pub(crate) fn host(&self, identity: &Identity) -> Option<Arc<HostService>> {
        let key = (Arc::clone(&identity.name), identity.made, identity.role, identity.all);
        let mut hosts = self.hosts();
        if let Some(host) = hosts.get(&key) {
            return Some(Arc::clone(host));
        }
        let options = HostOptions {
            agents: self.hub.agents().to_vec(),
            folder: self.folder.clone(),
            resolve: Arc::clone(&self.resolve),
            read: reader(Arc::clone(&self.resolve), identity.role),
            memory: self.memory.clone(),
            role: identity.role,
        };
        let host = Arc::new(HostService {
            hub: self.hub.clone(),
            identity: identity.clone(),
            resolve: Arc::clone(&self.resolve),
            host: Mutex::new(Host::new(options, Moment::now())?),
            outboxes: Mutex::default(),
            commands: Mutex::default(),
            next: AtomicU64::new(0),
            relist: Notify::new(),
        });
        tokio::spawn(watch(Arc::downgrade(&host)));
        tokio::spawn(tick(Arc::downgrade(&host)));
        hosts.insert(key, Arc::clone(&host));
        Some(host)
    }
}

/// Returns a function that reads small files in the folders of sessions. Clients that only see shared sessions may not
/// see files beyond them.
fn reader(resolve: ResolveFolder, role: Role) -> SharedReadFile {
    Arc::new(move |path| {
        if role < Role::Use {
            return None;
        }
        read_file(&resolve, path, MAX_DIFF_FILE).ok()
    })
}

/// Reads a regular file below the allowed folders, up to a size.
fn read_file(resolve: &ResolveFolder, path: &str, limit: u64) -> Result<Vec<u8>, Failure> {
    let missing = || Failure::new(codes::NOT_FOUND, format!("{path} does not exist or cannot be read"));
    // Follows links first, so that none leads out of the folders.
    let path_there = Path::new(path).canonicalize().map_err(|_| missing())?;
    let folder = path_there.parent().and_then(Path::to_str).ok_or_else(missing)?;
    resolve(folder).map_err(|reason| Failure::new(codes::PERMISSION_DENIED, reason))?;
    let metadata = path_there.metadata().map_err(|_| missing())?;
    if !metadata.is_file() {
        return Err(Failure::new(codes::NOT_FOUND, format!("{path} is not a regular file")));
    }
    if metadata.len() > limit {
        return Err(Failure::new(codes::PERMISSION_DENIED, format!("{path} is larger than {limit} bytes")));
    }
    std::fs::read(&path_there).map_err(|_| missing())
}

/// The host of one identity with its connections.
pub(crate) struct HostService {
    pub(crate) hub: Hub,
    pub(crate) identity: Identity,
    resolve: ResolveFolder,
    host: Mutex<Host>,
    outboxes: Mutex<HashMap<u64, Arc<Outbox>>>,
    commands: Mutex<HashMap<Arc<str>, mpsc::Sender<Command>>>,
    next: AtomicU64,
    relist: Notify,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostService {
    /// Makes a step of the host and performs its effects. The lock is held for both, so that clients get lines in the
    /// order in which the host made them.
    pub(crate) fn step<T>(self: &Arc<Self>, step: impl FnOnce(&mut Host, Moment) -> T) -> T {
        let mut host = locked(&self.host);
        let result = step(&mut host, Moment::now());
        loop {
            let effects = host.take_effects();
            if effects.is_empty() {
                return result;
            }
            for effect in effects {
                self.perform(effect, &mut host);
            }
        }
    }

    fn perform(self: &Arc<Self>, effect: Effect, host: &mut Host) {
        match effect {
            Effect::Send { client, text } => {
                if let Some(outbox) = locked(&self.outboxes).get(&client) {
                    outbox.push(text);
                }
            }
            Effect::Close { client, reason } => {
                if let Some(outbox) = locked(&self.outboxes).get(&client) {
                    outbox.close(1008, reason);
                }
            }
            Effect::Attach { session, id, agent, folder } => self.drive(session, Some(id), agent, folder),
            Effect::Start { session, agent, folder } => self.drive(session, None, agent, folder),
            Effect::Command { session, command } => {
                let sender = locked(&self.commands).get(&session).cloned();
                let turn = match &command {
                    Command::Prompt { turn, .. } => Some(turn.clone()),
                    _ => None,
                };
                let is_sent = sender.is_some_and(|sender| sender.try_send(command).is_ok());
                if let (false, Some(turn)) = (is_sent, turn) {
                    host.prompt_failed(
                        &session,
                        &turn,
                        "the session has no connection to the hub; try again",
                        Moment::now(),
                    );
                }
            }
            Effect::Detach { session } => {
                locked(&self.commands).remove(&session);
            }
            Effect::Dispose { client, request, session, id, agent } => {
                let service = Arc::clone(self);
                tokio::spawn(async move {
                    let result = driver::close(&service, &agent, &id).await;
                    service.step(|host, now| host.disposed(client, &request, &session, &id, result, now));
                });
            }
            Effect::ReadFile { client, request, path } => self.read(client, request, path),
        }
    }

    fn drive(self: &Arc<Self>, session: Arc<str>, id: Option<Arc<str>>, agent: String, folder: String) {
        let (sender, receiver) = mpsc::channel(COMMANDS);
        locked(&self.commands).insert(Arc::clone(&session), sender);
        tokio::spawn(driver::run(Arc::clone(self), session, id, agent, folder, receiver));
    }

    fn read(self: &Arc<Self>, client: u64, request: Box<RawValue>, path: String) {
        let (service, resolve) = (Arc::clone(self), Arc::clone(&self.resolve));
        tokio::task::spawn_blocking(move || {
            let bytes = read_file(&resolve, &path, MAX_FILE);
            let result: Result<Value, Failure> = bytes.map(|bytes| {
                let is_text = std::str::from_utf8(&bytes).is_ok();
                resource(&bytes, if is_text { "text/plain" } else { "application/octet-stream" })
            });
            service.step(|host, _| host.file_read(client, &request, result));
        });
    }

    /// Looks at the hub's list of sessions soon.
    pub(crate) fn relist(&self) {
        self.relist.notify_one();
    }

    /// Adds a client. The list of sessions is read first, so that the client can subscribe to all of them.
    pub(crate) async fn connect(self: &Arc<Self>) -> Option<(u64, Arc<Outbox>)> {
        self.list().await?;
        let client = self.next.fetch_add(1, Ordering::Relaxed);
        let outbox = Arc::new(Outbox::default());
        locked(&self.outboxes).insert(client, Arc::clone(&outbox));
        self.step(|host, _| host.connected(client));
        Some((client, outbox))
    }

    pub(crate) fn disconnect(self: &Arc<Self>, client: u64) {
        locked(&self.outboxes).remove(&client);
        self.step(|host, now| host.disconnected(client, now));
    }

    /// Reads the hub's list of sessions. `None` if the token was revoked or the hub has ended.
    async fn list(self: &Arc<Self>) -> Option<()> {
        let (_, sessions) = self.hub.sessions(&self.identity).await?;
        let listed = sessions.into_iter().map(listed).collect();
        self.step(|host, now| host.set_sessions(listed, now));
        Some(())
    }

    fn close(&self, code: u16, reason: &str) {
        for outbox in locked(&self.outboxes).values() {
            outbox.close(code, reason);
        }
    }

    fn has_clients(&self) -> bool {
        !locked(&self.outboxes).is_empty()
    }
}

fn listed(summary: SessionSummary) -> Listed {
    let status = match summary.state {
        SessionActivity::Waiting => 24,
        SessionActivity::Working => 8,
        SessionActivity::Idle | SessionActivity::Dormant => 1,
    };
    Listed {
        id: summary.id,
        agent: summary.agent,
        folder: summary.folder,
        title: summary.title,
        changed: summary.changed,
        status,
    }
}

/// Follows the hub's list of sessions and the rights of the identity.
async fn watch(service: Weak<HostService>) {
    let Some(mut changes) = service.upgrade().map(|service| service.hub.changes()) else { return };
    loop {
        let Some(strong) = service.upgrade() else { return };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = strong.relist.notified() => {}
            // Lets a host that is no longer used end.
            () = tokio::time::sleep(Duration::from_secs(5)) => continue,
        }
        if strong.list().await.is_none() {
            strong.close(4401, "the token was revoked, or the hub has ended");
        }
        drop(strong);
        tokio::time::sleep(LIST_INTERVAL).await;
    }
}

async fn tick(service: Weak<HostService>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(service) = service.upgrade() else { return };
        service.step(Host::tick);
        if !service.has_clients() {
            ticks.reset_after(10 * TICK);
        }
    }
}
