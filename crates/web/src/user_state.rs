//! The state of one user, shared by all tabs of that user: the sessions of the hub that the user may see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use switchboard_hub::{Identity, SessionActivity, SessionSummary};
use switchboard_store::{Filter, Moment, Role};
use tokio::sync::{Semaphore, watch};

use super::app::{App, MAX_TABS};
use super::live::{Failure, Live, Refused, Visitor};
use super::live_recording::LiveRecording;
use super::remembered::Choice;
use super::roles;
use super::subagents;

/// Number of recordings, the latest ones, for which titles are looked up.
const MAX_TITLES: usize = 200;

/// Minimum time between two refreshes of the list of sessions.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct UserState {
    pub(crate) app: Arc<App>,
    answer: Mutex<HubAnswer>,
    /// Connections to the sessions that a tab has open.
    lives: Mutex<HashMap<String, Weak<Live>>>,
    /// All connections of a local user, kept while no tab is open, because remembered choices last as long as they
    /// do.
    kept: Mutex<HashMap<String, Arc<Live>>>,
    first_session: Mutex<FirstSession>,
    /// The agent of the first session.
    first_agent: Mutex<Option<String>>,
    /// Held while a session is being opened or attached to, so that two tabs do not attach twice.
    attaching: tokio::sync::Mutex<()>,
    changed: watch::Sender<u64>,
    /// One permit per tab that may be open. The limit is per user.
    pub(crate) tab_permits: Arc<Semaphore>,
}

/// Progress of the first session, before it is open.
#[derive(Clone, Default)]
pub(crate) enum FirstSession {
    /// No session was requested.
    #[default]
    Empty,
    /// An agent is being started for a first session. `since` is in Unix milliseconds.
    Starting { agent: String, since: i64, stage: Stage },
    /// The first session is open. Contains its id.
    Opened(String),
    /// The agent did not start.
    Failed(Failure),
    /// The agent rejected the new session, perhaps because it requires a login.
    Refused(Arc<Live>, Failure),
}

/// Progress of an agent's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The agent process is starting, and the handshake is not complete.
    Program,
    /// The request for a new session is pending.
    Session,
}

/// The last answer of the hub.
struct HubAnswer {
    who: Identity,
    /// `true` once the token was revoked or the hub has stopped.
    is_revoked: bool,
    sessions: Arc<[SessionSummary]>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl UserState {
    pub(crate) fn new(app: Arc<App>, who: Identity) -> Arc<Self> {
        let changes = app.hub.changes();
        let user = Arc::new(UserState {
            app,
            answer: Mutex::new(HubAnswer { who, is_revoked: false, sessions: Arc::default() }),
            lives: Mutex::default(),
            kept: Mutex::default(),
            first_session: Mutex::default(),
            first_agent: Mutex::default(),
            attaching: tokio::sync::Mutex::default(),
            changed: watch::Sender::new(0),
            tab_permits: Arc::new(Semaphore::new(MAX_TABS)),
        });
        tokio::spawn(follow_hub(Arc::downgrade(&user), changes));
        user
    }

    /// Returns `true` if this is the state of the given user.
    pub(crate) fn is_of(&self, who: &Identity) -> bool {
        let known = self.who();
        (&known.name, known.made) == (&who.name, who.made)
    }

    pub(crate) fn who(&self) -> Identity {
        locked(&self.answer).who.clone()
    }

    /// Returns the role of the user.
    pub(crate) fn role(&self) -> Role {
        self.who().role
    }

    pub(crate) fn may(&self, role: Role) -> bool {
        self.role() >= role
    }

    /// Returns `true` if the user may read files in a session's folder. Users who can prompt the agent can have it
    /// read them anyway.
    pub(crate) fn may_read_files(&self) -> bool {
        self.may(Role::Use)
    }

    /// Returns `true` if the hub would probably allow the user to delete a recording. The hub decides.
    pub(crate) fn may_delete(&self, recording: &str) -> bool {
        let is_own = |session: SessionSummary| *session.owner == *self.who().name;
        self.may(Role::Admin) || (self.may(Role::Use) && self.session(recording).is_some_and(is_own))
    }

    /// Returns `true` if the hub has other users, whose sessions may be visible.
    pub(crate) fn is_shared(&self) -> bool {
        self.app.is_shared
    }

    /// Returns `true` if the user's token was revoked or the hub has stopped.
    pub(crate) fn is_revoked(&self) -> bool {
        locked(&self.answer).is_revoked
    }

    /// Subscribes to changes of anything but the recording in view.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn touch(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Requests the list of sessions from the hub.
    pub(crate) async fn refresh(&self) {
        let who = self.who();
        let mut seen = self.app.hub.sessions(&who).await;
        if let Some((_, sessions)) = &mut seen {
            self.add_titles(sessions).await;
            self.forget_choices(sessions);
        }
        {
            let mut known = locked(&self.answer);
            match seen {
                Some((who, sessions)) => (known.who, known.sessions) = (who, sessions.into()),
                None => known.is_revoked = true,
            }
        }
        // Without tokens, the reason is that the hub has stopped.
        if self.is_revoked() && self.is_shared() {
            self.app.guard.forget(&who);
        }
        self.touch();
    }

    /// Drops the remembered choices of sessions without a running agent.
    fn forget_choices(&self, sessions: &[SessionSummary]) {
        let lives = locked(&self.lives);
        for session in sessions.iter().filter(|session| session.state == SessionActivity::Dormant) {
            if let Some(live) = lives.get(&*session.id).and_then(Weak::upgrade) {
                live.remembered.forget();
            }
        }
    }

    /// Sets missing titles of sessions to those that the store derives from their first prompts.
    async fn add_titles(&self, sessions: &mut [SessionSummary]) {
        if sessions.iter().all(|session| session.title.is_some()) {
            return;
        }
        let store = self.app.store.clone();
        let filter = Filter { limit: Some(MAX_TITLES), ..Filter::default() };
        let read = tokio::task::spawn_blocking(move || store.sessions(&filter)).await;
        // Without titles, sessions are listed by their ids.
        let Ok(Ok(summaries)) = read else { return };
        let mut titles: HashMap<String, Option<String>> =
            summaries.into_iter().map(|summary| (summary.id, summary.about.title)).collect();
        for session in sessions.iter_mut().filter(|session| session.title.is_none()) {
            // The store may index the first prompt later than the tab sees it.
            let said = || self.app.known_room(&session.id).and_then(|room| first_words(&room));
            session.title = titles.remove(&*session.id).flatten().or_else(said);
        }
    }

    /// Returns the names of the hub's agents.
    pub(crate) fn agents(&self) -> &[String] {
        self.app.hub.agents()
    }

    /// Returns the sessions of the hub, the most recently changed one first.
    pub(crate) fn sessions(&self) -> Arc<[SessionSummary]> {
        Arc::clone(&locked(&self.answer).sessions)
    }

    pub(crate) fn session(&self, id: &str) -> Option<SessionSummary> {
        self.sessions().iter().find(|session| *session.id == *id).cloned()
    }

    /// Returns the sessions with pending questions that the user may answer.
    pub(crate) fn asking(&self) -> Vec<SessionSummary> {
        if !self.may(Role::Answer) {
            return Vec::new();
        }
        self.sessions().iter().filter(|session| session.questions > 0).cloned().collect()
    }

    /// Returns the default session of a tab: the first with a pending question, otherwise the first that is not
    /// dormant.
    pub(crate) fn default_session(&self) -> Option<String> {
        let sessions = self.sessions();
        let waits = sessions.iter().find(|session| session.questions > 0);
        let is_awake = |session: &&SessionSummary| session.state != SessionActivity::Dormant;
        waits.or_else(|| sessions.iter().find(is_awake)).map(|session| session.id.to_string())
    }

    /// Returns `true` if the user may see a recording. The hub decides about its sessions; other recordings require
    /// `Role::Admin`.
    pub(crate) fn may_see(&self, recording: &str) -> bool {
        self.may(Role::Admin) || self.session(recording).is_some()
    }

    /// Returns the recording with an id. Fails if the user may not see it.
    pub(crate) fn room(&self, id: &str) -> Result<Arc<LiveRecording>, Failure> {
        if !self.may_see(id) {
            return Err(format!("session {id} does not exist, or you may not see it"));
        }
        self.app.room(id)
    }

    /// Returns the progress of the first session.
    pub(crate) fn first_session(&self) -> FirstSession {
        locked(&self.first_session).clone()
    }

    fn set_first_session(&self, first_session: FirstSession) {
        *locked(&self.first_session) = first_session;
        self.touch();
    }

    /// Starts the agent that did not start before, or the first one, and opens a session with it.
    pub(crate) async fn start(&self) -> Result<(), Failure> {
        let agent = locked(&self.first_agent).clone();
        let folder = self.app.folder.display().to_string();
        self.new_session(agent.as_deref(), &folder).await.map(drop)
    }

    /// Attaches to a session of the hub, or returns the existing connection.
    pub(crate) async fn attach(&self, id: &str) -> Result<Arc<Live>, Failure> {
        let _attaching = self.attaching.lock().await;
        if let Some(live) = self.live(id) {
            return Ok(live);
        }
        let session = self.session(id).ok_or("the session does not exist, or you may not see it")?;
        let mut visitor = Visitor::come(&self.app, self.who(), &session.agent).await?;
        visitor.attach(id, &session.folder).await?;
        self.stay(visitor, id, &session.folder)
    }

    /// Returns the agent with a name, or the first one. Fails if the hub does not have it.
    fn agent<'a>(&'a self, name: Option<&'a str>) -> Result<&'a str, Failure> {
        let agent = name.or(self.agents().first().map(String::as_str)).ok_or("the hub has no agent")?;
        if !self.app.hub.has_agent(Some(agent)) {
            return Err(format!("the hub has no agent {agent}"));
        }
        Ok(agent)
    }

    /// Opens a session with an agent in a folder, and attaches to it. Tabs without a session show the progress of the
    /// first one, and the error.
    pub(crate) async fn new_session(&self, agent: Option<&str>, folder: &str) -> Result<Arc<Live>, Failure> {
        let agent = self.agent(agent)?;
        if matches!(self.first_session(), FirstSession::Empty | FirstSession::Failed(_)) {
            *locked(&self.first_agent) = Some(agent.to_owned());
            let (agent, since) = (agent.to_owned(), Moment::now().0);
            self.set_first_session(FirstSession::Starting { agent, since, stage: Stage::Program });
        }
        let opened = self.open_new_session(agent, folder).await;
        if let (Err(reason), FirstSession::Starting { .. }) = (&opened, self.first_session()) {
            self.set_first_session(FirstSession::Failed(reason.clone()));
        }
        opened
    }

    async fn open_new_session(&self, agent: &str, folder: &str) -> Result<Arc<Live>, Failure> {
        let mut visitor = Visitor::come(&self.app, self.who(), agent).await?;
        if let FirstSession::Starting { agent, since, .. } = self.first_session() {
            self.set_first_session(FirstSession::Starting { agent, since, stage: Stage::Session });
        }
        match visitor.new_session(folder).await {
            Ok(id) => self.opened(visitor, &id, folder).await,
            Err(refused) => Err(self.keep_rejected(visitor, folder, refused)),
        }
    }

    /// Loads a session that the agent has kept but the hub does not know.
    pub(crate) async fn adopt(
        &self,
        agent: Option<&str>,
        session: &str,
        folder: &str,
    ) -> Result<Arc<Live>, Failure> {
        if self.session(session).is_some() {
            return self.attach(session).await;
        }
        let mut visitor = Visitor::come(&self.app, self.who(), self.agent(agent)?).await?;
        match visitor.adopt(session, folder).await {
            Ok(id) => self.opened(visitor, &id, folder).await,
            Err(Refused { known: Some(id), .. }) if self.session(&id).is_some() => self.attach(&id).await,
            Err(refused) => Err(self.keep_rejected(visitor, folder, refused)),
        }
    }

    /// Attaches to a session that has just been opened.
    async fn opened(&self, visitor: Visitor, id: &str, folder: &str) -> Result<Arc<Live>, Failure> {
        // The tab selects the session at once, so the list must contain it.
        self.refresh().await;
        let folder = self.session(id).map_or_else(|| folder.to_owned(), |session| session.folder);
        let live = self.stay(visitor, id, &folder)?;
        self.set_first_session(FirstSession::Opened(id.to_owned()));
        Ok(live)
    }

    /// Returns the message of a rejected new session. Keeps the connection if a login may help or no other session is
    /// open.
    fn keep_rejected(&self, visitor: Visitor, folder: &str, refused: Refused) -> Failure {
        let Refused { words, wants_login, known: _ } = refused;
        if wants_login
            || matches!(self.first_session(), FirstSession::Starting { .. } | FirstSession::Refused(..))
        {
            let live = visitor.stay(LiveRecording::empty(&self.app.store), "", folder);
            self.set_first_session(FirstSession::Refused(live, words.clone()));
        }
        words
    }

    fn stay(&self, visitor: Visitor, id: &str, folder: &str) -> Result<Arc<Live>, Failure> {
        let live = visitor.stay(self.app.room(id)?, id, folder);
        let mut lives = locked(&self.lives);
        lives.retain(|_, live| live.strong_count() > 0);
        lives.insert(id.to_owned(), Arc::downgrade(&live));
        if !self.is_shared() {
            locked(&self.kept).insert(id.to_owned(), Arc::clone(&live));
        }
        Ok(live)
    }

    /// Returns the open connection to a session.
    pub(crate) fn live(&self, id: &str) -> Option<Arc<Live>> {
        let live = locked(&self.lives).get(id).and_then(Weak::upgrade);
        live.filter(|live| live.ended().is_none())
    }

    /// Returns any open connection, for requests that do not belong to a session.
    pub(crate) fn any_live(&self) -> Option<Arc<Live>> {
        let lives: Vec<Arc<Live>> = locked(&self.lives).values().filter_map(Weak::upgrade).collect();
        lives.into_iter().find(|live| live.ended().is_none())
    }

    /// Returns the remembered choices of all connected sessions, the oldest first.
    pub(crate) fn choices(&self) -> Vec<(Arc<Live>, Choice)> {
        let lives: Vec<Arc<Live>> = locked(&self.lives).values().filter_map(Weak::upgrade).collect();
        let mut choices: Vec<_> = lives
            .iter()
            .flat_map(|live| live.remembered.all().into_iter().map(|choice| (Arc::clone(live), choice)))
            .collect();
        choices.sort_by_key(|(_, choice)| choice.since.0);
        choices
    }

    /// Deletes a session, or another recording if no program is writing to it.
    pub(crate) async fn delete(&self, id: &str) -> Result<(), Failure> {
        if let Some(session) = self.session(id) {
            let mut visitor = Visitor::come(&self.app, self.who(), &session.agent).await?;
            visitor.delete(id).await?;
        } else if !self.may(Role::Admin) {
            return Err(roles::refusal(self.role(), Role::Admin));
        } else {
            let (store, id) = (self.app.store.clone(), id.to_owned());
            let delete = move || match store.is_recording(&id) {
                Ok(true) => Err("a program is still writing to this recording".to_owned()),
                _ => store.delete(&id).map_err(|error| error.to_string()),
            };
            tokio::task::spawn_blocking(delete).await.map_err(|error| error.to_string())??;
        }
        locked(&self.lives).remove(id);
        locked(&self.kept).remove(id);
        self.refresh().await;
        Ok(())
    }
}

/// Returns the first words of the first session in a recording.
fn first_words(room: &LiveRecording) -> Option<String> {
    let root = room.session_ids().into_iter().next()?;
    room.session(&root).as_ref().and_then(subagents::first_words)
}

/// Refreshes the state after every change in the hub.
async fn follow_hub(user: Weak<UserState>, mut changes: watch::Receiver<u64>) {
    loop {
        let is_over = changes.changed().await.is_err();
        let Some(user) = user.upgrade() else { return };
        user.refresh().await;
        if is_over || user.is_revoked() {
            return;
        }
        drop(user);
        tokio::time::sleep(PAUSE).await;
    }
}
