//! What one person has before them, in all their tabs: the agent of `open`, or those sessions of a hub that they may see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use switchboard_hub::{Hub, Identity, SessionState, SessionSummary};
use switchboard_store::{Filter, Role};
use tokio::sync::{Semaphore, watch};

use super::app::{App, MAX_TABS};
use super::live::{Failure, Live, Visitor};
use super::live_recording::LiveRecording;

/// For how many of the latest recordings titles are looked up.
const MAX_TITLES: usize = 200;

/// The least time between two looks at what a hub has.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Desk {
    pub(crate) app: Arc<App>,
    place: Option<Place>,
}

/// A place at a hub.
struct Place {
    hub: Hub,
    seen: Mutex<Seen>,
    /// The sessions that somebody looks at.
    lives: Mutex<HashMap<String, Weak<Live>>>,
    /// Held while one is being attached to, so that two tabs do not come twice.
    attaching: tokio::sync::Mutex<()>,
    changed: watch::Sender<u64>,
    /// One for each tab that may be open.
    seats: Arc<Semaphore>,
}

/// What the hub last said.
struct Seen {
    who: Identity,
    /// Whether the token may do nothing any more.
    is_revoked: bool,
    sessions: Arc<[SessionSummary]>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Place {
    fn who(&self) -> Identity {
        locked(&self.seen).who.clone()
    }
}

impl Desk {
    /// One with the agent that is started here.
    pub(crate) fn ours(app: Arc<App>) -> Self {
        Desk { app, place: None }
    }

    /// One at a hub.
    pub(crate) fn at_hub(app: Arc<App>, hub: Hub, who: Identity) -> Arc<Self> {
        let changes = hub.changes();
        let place = Place {
            hub,
            seen: Mutex::new(Seen { who, is_revoked: false, sessions: Arc::default() }),
            lives: Mutex::default(),
            attaching: tokio::sync::Mutex::default(),
            changed: watch::Sender::new(0),
            seats: Arc::new(Semaphore::new(MAX_TABS)),
        };
        let desk = Arc::new(Desk { app, place: Some(place) });
        tokio::spawn(keep_up(Arc::downgrade(&desk), changes));
        desk
    }

    /// One for each tab that may be open; nobody takes those of somebody else.
    pub(crate) fn seats(&self) -> &Arc<Semaphore> {
        self.place.as_ref().map_or(&self.app.seats, |place| &place.seats)
    }

    pub(crate) fn is_at_hub(&self) -> bool {
        self.place.is_some()
    }

    /// Whether it is somebody's.
    pub(crate) fn is_of(&self, who: &Identity) -> bool {
        self.who().is_some_and(|known| (&known.name, known.made) == (&who.name, who.made))
    }

    pub(crate) fn who(&self) -> Option<Identity> {
        self.place.as_ref().map(Place::who)
    }

    /// What may be done. With an agent of one's own that is everything.
    pub(crate) fn role(&self) -> Role {
        self.who().map_or(Role::Own, |who| who.role)
    }

    pub(crate) fn may(&self, role: Role) -> bool {
        self.role() >= role
    }

    /// Whether the token that opened it was revoked, or the hub has ended.
    pub(crate) fn is_revoked(&self) -> bool {
        self.place.as_ref().is_some_and(|place| locked(&place.seen).is_revoked)
    }

    /// Tells when something else than the recording that is looked at is different.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        match &self.place {
            Some(place) => place.changed.subscribe(),
            None => self.app.agent_changes(),
        }
    }

    /// Asks the hub what there is.
    pub(crate) async fn refresh(&self) {
        let Some(place) = &self.place else { return };
        let who = place.who();
        let mut seen = place.hub.sessions(&who).await;
        if let Some((_, sessions)) = &mut seen {
            self.entitle(sessions).await;
        }
        {
            let mut known = locked(&place.seen);
            match seen {
                Some((who, sessions)) => (known.who, known.sessions) = (who, sessions.into()),
                None => known.is_revoked = true,
            }
        }
        if self.is_revoked() {
            self.app.guard.forget(&who);
        }
        place.changed.send_modify(|count| *count += 1);
    }

    /// Gives sessions without a title of the agent the one that the store has made of their first prompts.
    async fn entitle(&self, sessions: &mut [SessionSummary]) {
        if sessions.iter().all(|session| session.title.is_some()) {
            return;
        }
        let store = self.app.store.clone();
        let filter = Filter { limit: Some(MAX_TITLES), ..Filter::default() };
        let read = tokio::task::spawn_blocking(move || store.sessions(&filter)).await;
        // Without them, sessions are listed by their ids.
        let Ok(Ok(summaries)) = read else { return };
        let mut titles: HashMap<String, Option<String>> =
            summaries.into_iter().map(|summary| (summary.id, summary.about.title)).collect();
        for session in sessions.iter_mut().filter(|session| session.title.is_none()) {
            session.title = titles.remove(&*session.id).flatten();
        }
    }

    /// The names of the agents that can be chosen.
    pub(crate) fn agents(&self) -> &[String] {
        self.place.as_ref().map_or(&[], |place| place.hub.agents())
    }

    /// The sessions of the hub, the one that changed last first.
    pub(crate) fn sessions(&self) -> Arc<[SessionSummary]> {
        self.place.as_ref().map_or_else(Arc::default, |place| Arc::clone(&locked(&place.seen).sessions))
    }

    pub(crate) fn session(&self, id: &str) -> Option<SessionSummary> {
        self.sessions().iter().find(|session| *session.id == *id).cloned()
    }

    /// The sessions that wait for an answer of this person.
    pub(crate) fn asking(&self) -> Vec<SessionSummary> {
        if !self.may(Role::Answer) {
            return Vec::new();
        }
        self.sessions().iter().filter(|session| session.questions > 0).cloned().collect()
    }

    /// What is looked at where nothing is chosen: what waits, or what is at work.
    pub(crate) fn usual(&self) -> Option<String> {
        let sessions = self.sessions();
        let waits = sessions.iter().find(|session| session.questions > 0);
        let is_awake = |session: &&SessionSummary| session.state != SessionState::AtRest;
        waits.or_else(|| sessions.iter().find(is_awake)).map(|session| session.id.to_string())
    }

    /// Whether a recording may be seen. Those of sessions are the hub's to decide; all others are for owners.
    pub(crate) fn may_see(&self, recording: &str) -> bool {
        self.may(Role::Own) || self.session(recording).is_some()
    }

    /// The recording with an id, if it may be seen.
    pub(crate) fn room(&self, id: &str) -> Result<Arc<LiveRecording>, Failure> {
        if !self.may_see(id) {
            return Err(format!("there is no session {id} here, or not for you"));
        }
        self.app.room(id)
    }

    /// Attaches to a session of the hub.
    pub(crate) async fn attach(&self, id: &str) -> Result<Arc<Live>, Failure> {
        let place = self.place.as_ref().ok_or("there is no hub")?;
        let _attaching = place.attaching.lock().await;
        let known = locked(&place.lives).get(id).and_then(Weak::upgrade);
        if let Some(live) = known.filter(|live| live.ended().is_none()) {
            return Ok(live);
        }
        let session = self.session(id).ok_or("there is no such session, or not for you")?;
        let mut visitor = Visitor::come(&place.hub, place.who(), &session.agent).await?;
        visitor.attach(id, &session.folder).await?;
        self.stay(visitor, id, &session.folder)
    }

    /// Opens a session with an agent in a folder, and looks at it.
    pub(crate) async fn new_session(&self, agent: Option<&str>, folder: &str) -> Result<Arc<Live>, Failure> {
        let place = self.place.as_ref().ok_or("there is no hub")?;
        let agent = agent.or(self.agents().first().map(String::as_str)).ok_or("there is no agent")?;
        if !place.hub.has_agent(Some(agent)) {
            return Err(format!("there is no agent {agent} here"));
        }
        let mut visitor = Visitor::come(&place.hub, place.who(), agent).await?;
        let id = visitor.new_session(folder).await?;
        // The page will look at it at once.
        self.refresh().await;
        let folder = self.session(&id).map_or_else(|| folder.to_owned(), |session| session.folder);
        self.stay(visitor, &id, &folder)
    }

    fn stay(&self, visitor: Visitor, id: &str, folder: &str) -> Result<Arc<Live>, Failure> {
        let live = visitor.stay(self.app.room(id)?, id, folder);
        if let Some(place) = &self.place {
            let mut lives = locked(&place.lives);
            lives.retain(|_, live| live.strong_count() > 0);
            lives.insert(id.to_owned(), Arc::downgrade(&live));
        }
        Ok(live)
    }
}

/// Looks at the hub again whenever something has changed there.
async fn keep_up(desk: Weak<Desk>, mut changes: watch::Receiver<u64>) {
    loop {
        let is_over = changes.changed().await.is_err();
        let Some(desk) = desk.upgrade() else { return };
        desk.refresh().await;
        if is_over || desk.is_revoked() {
            return;
        }
        drop(desk);
        tokio::time::sleep(PAUSE).await;
    }
}
