//! What all tabs share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use switchboard_hub::{Hub, Identity};
use switchboard_store::Store;
use switchboard_transport::Program;
use tokio::sync::{Semaphore, watch};

use super::desk::Desk;
use super::guard::Guard;
use super::live::{Failure, Live};
use super::live_recording::LiveRecording;
use super::render::RenderCache;

/// How many tabs may be open.
pub(crate) const MAX_TABS: usize = 64;

/// Whose the agents are.
pub(crate) enum Agents {
    /// One that is started here.
    Ours {
        program: Program,
        /// Its name in the configuration, or its program.
        name: String,
        /// How long it may take to introduce itself.
        handshake_timeout: Duration,
    },
    /// All of a hub.
    Hub(Hub),
}

pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) agents: Agents,
    pub(crate) folder: PathBuf,
    pub(crate) cache: RenderCache,
    pub(crate) guard: Guard,
    /// One for each tab that may be open.
    pub(crate) seats: Arc<Semaphore>,
    agent: Mutex<AgentState>,
    /// Held while the agent is being started, so that two tabs do not start two.
    starting: tokio::sync::Mutex<()>,
    agent_changed: watch::Sender<u64>,
    /// Set when all is to end.
    ending: watch::Sender<bool>,
    rooms: Mutex<HashMap<String, Weak<LiveRecording>>>,
    /// What those have before them who came to a hub.
    desks: Mutex<Vec<Weak<Desk>>>,
}

/// How it stands with the agent.
#[derive(Clone, Default)]
pub(crate) enum AgentState {
    #[default]
    Starting,
    Running(Arc<Live>),
    Failed(Failure),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl App {
    /// One with an agent that is started here.
    #[cfg(test)]
    pub(crate) fn new(
        store: Store,
        program: Program,
        agent_name: String,
        folder: PathBuf,
        guard: Guard,
    ) -> Self {
        let handshake_timeout = Duration::from_secs(30);
        App::with(store, Agents::Ours { program, name: agent_name, handshake_timeout }, folder, guard)
    }

    /// One with these agents.
    pub(crate) fn with(store: Store, agents: Agents, folder: PathBuf, guard: Guard) -> Self {
        App {
            store,
            agents,
            folder,
            cache: RenderCache::default(),
            guard,
            seats: Arc::new(Semaphore::new(MAX_TABS)),
            agent: Mutex::default(),
            starting: tokio::sync::Mutex::new(()),
            agent_changed: watch::Sender::new(0),
            ending: watch::Sender::new(false),
            rooms: Mutex::default(),
            desks: Mutex::default(),
        }
    }

    /// What somebody has before them; the same in all tabs.
    pub(crate) async fn desk(self: &Arc<Self>, who: Option<Identity>) -> Arc<Desk> {
        let (Agents::Hub(hub), Some(who)) = (&self.agents, who) else {
            return Arc::new(Desk::ours(Arc::clone(self)));
        };
        let known = {
            let mut desks = locked(&self.desks);
            desks.retain(|desk| desk.strong_count() > 0);
            let known = desks.iter().filter_map(Weak::upgrade).find(|desk| desk.is_of(&who));
            known.unwrap_or_else(|| {
                let desk = Desk::at_hub(Arc::clone(self), hub.clone(), who);
                desks.push(Arc::downgrade(&desk));
                desk
            })
        };
        known.refresh().await;
        known
    }

    pub(crate) fn agent(&self) -> AgentState {
        locked(&self.agent).clone()
    }

    /// The agent, where one runs.
    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        match self.agent() {
            AgentState::Running(live) => Some(live),
            AgentState::Starting | AgentState::Failed(_) => None,
        }
    }

    pub(crate) fn agent_changes(&self) -> watch::Receiver<u64> {
        self.agent_changed.subscribe()
    }

    fn set_agent(&self, state: AgentState) {
        *locked(&self.agent) = state;
        self.agent_changed.send_modify(|count| *count += 1);
    }

    /// Starts the agent, unless one runs, and opens a first session.
    pub(crate) async fn start_agent(&self) -> Result<(), Failure> {
        let _starting = self.starting.lock().await;
        if self.live().is_some_and(|live| live.ended().is_none()) {
            return Ok(());
        }
        self.set_agent(AgentState::Starting);
        let Agents::Ours { program, name, handshake_timeout } = &self.agents else {
            return Err("agents are started by the hub".to_owned());
        };
        let (timeout, ending) = (*handshake_timeout, self.ending.subscribe());
        let started = Live::start(program, name, &self.folder, &self.store, timeout, ending).await;
        let live = match started {
            Ok(live) => live,
            Err(failure) => {
                self.set_agent(AgentState::Failed(failure.clone()));
                return Err(failure);
            }
        };
        locked(&self.rooms).insert(live.room.id.clone(), Arc::downgrade(&live.room));
        self.set_agent(AgentState::Running(Arc::clone(&live)));
        // An agent that wants a login first says so; the page then offers the ways.
        let opened = live.new_session(&self.folder).await;
        self.agent_changed.send_modify(|count| *count += 1);
        opened.map(drop)
    }

    /// Ends the agent, also one that is only being started, and waits until all of it is in the store.
    pub(crate) async fn end(&self) {
        self.ending.send_replace(true);
        if self.live().is_none() {
            drop(self.starting.lock().await);
        }
        if let Some(live) = self.live() {
            live.stop().await;
        }
    }

    /// The recording with an id, live or from the store.
    pub(crate) fn room(&self, id: &str) -> Result<Arc<LiveRecording>, Failure> {
        let mut rooms = locked(&self.rooms);
        if let Some(room) = rooms.get(id).and_then(Weak::upgrade) {
            return Ok(room);
        }
        rooms.retain(|_, room| room.strong_count() > 0);
        let room = LiveRecording::stored(id, &self.store).map_err(|error| error.to_string())?;
        rooms.insert(room.id.clone(), Arc::downgrade(&room));
        Ok(room)
    }
}
