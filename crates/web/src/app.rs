//! State shared by all tabs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use switchboard_hub::{Hub, Identity};
use switchboard_store::Store;

use super::guard::Guard;
use super::live::Failure;
use super::live_recording::LiveRecording;
use super::render::RenderCache;
use super::review::Reviews;
use super::user_state::UserState;
use crate::{Access, AgentCard, Editor, Notifications, PageOptions, RuleFile};

/// Maximum number of open tabs of one user.
pub(crate) const MAX_TABS: usize = 64;

pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) hub: Hub,
    /// `true` if the page admits every holder of a hub token, not only the local user.
    pub(crate) is_shared: bool,
    /// Default folder of a new session.
    pub(crate) folder: PathBuf,
    pub(crate) cache: RenderCache,
    pub(crate) guard: Guard,
    /// The user's own rules, if the page may append to them.
    pub(crate) rules: Option<Box<dyn RuleFile>>,
    /// Advice for an agent that did not complete the handshake in time.
    pub(crate) handshake_hint: String,
    /// Notifications of the hub.
    pub(crate) notifications: Option<Arc<dyn Notifications>>,
    /// The editor in which administrators open files.
    pub(crate) editor: Option<Box<dyn Editor>>,
    /// Titles of agents, and agents that could be installed.
    pub(crate) agents: Vec<AgentCard>,
    /// Decisions about the changes of sessions.
    pub(crate) reviews: Reviews,
    /// Number of tabs so far.
    pub(crate) last_tab: AtomicU64,
    rooms: Mutex<HashMap<String, Weak<LiveRecording>>>,
    users: Mutex<Vec<Weak<UserState>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl App {
    pub(crate) fn new(options: PageOptions, guard: Guard) -> Self {
        let PageOptions {
            store,
            hub,
            folder,
            port: _,
            access,
            rules,
            handshake_hint,
            notifications,
            editor,
            agents,
        } = options;
        App {
            store,
            hub,
            is_shared: matches!(access, Access::Tokens { .. }),
            folder,
            cache: RenderCache::default(),
            guard,
            rules,
            handshake_hint,
            notifications,
            editor,
            agents,
            reviews: Reviews::default(),
            last_tab: AtomicU64::new(0),
            rooms: Mutex::default(),
            users: Mutex::default(),
        }
    }

    /// Returns the state of a user, which all tabs of that user share. Creates it if there is none.
    pub(crate) async fn user(self: &Arc<Self>, who: Identity) -> Arc<UserState> {
        let known = {
            let mut users = locked(&self.users);
            users.retain(|user| user.strong_count() > 0);
            let known = users.iter().filter_map(Weak::upgrade).find(|user| user.is_of(&who));
            known.unwrap_or_else(|| {
                let user = UserState::new(Arc::clone(self), who);
                users.push(Arc::downgrade(&user));
                user
            })
        };
        known.refresh().await;
        known
    }

    /// Returns the recording with an id, if a tab has it open.
    pub(crate) fn known_room(&self, id: &str) -> Option<Arc<LiveRecording>> {
        locked(&self.rooms).get(id).and_then(Weak::upgrade)
    }

    /// Returns the recording with an id. Starts to follow it in the store if no tab has it open.
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

/// Returns the state of a user whose hub has one agent, which never answers.
#[cfg(test)]
pub(crate) fn user_for_tests(store: &Store) -> Arc<UserState> {
    use std::sync::LazyLock;
    use std::time::Duration;
    use switchboard_hub::HubOptions;
    use switchboard_transport::Program;
    use tokio::runtime::Runtime;

    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    let _entered = RUNTIME.enter();
    let who = crate::local_user();
    let agents = vec![("agent".to_owned(), Program::new("true"))];
    let hub = Hub::start(HubOptions {
        idle: Duration::MAX,
        local_names: vec![Arc::clone(&who.name)],
        ..HubOptions::new(store.clone(), agents, Box::new(|folder| Ok(folder.to_owned())))
    });
    let options = PageOptions::new(store.clone(), hub.unwrap(), "/".into(), 1);
    UserState::new(Arc::new(App::new(options, Guard::new(1))), who)
}
