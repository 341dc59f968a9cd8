//! The task that notifies.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use switchboard_acp::Moment;
use switchboard_hub::{SessionEvent, SessionEventKind};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::answers::{Answer, InvalidAnswer, Links};
use crate::delivery::{Courier, Report};
use crate::notice::Notice;
use crate::planner::{Delivery, Job, Now, Outcomes, Planner, Work};
use crate::target::Target;

/// Minimum time between two writes of the state.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);

/// Storage of the state between launches. Called on a blocking thread.
pub trait StateFile: Send + Sync {
    /// Returns the last saved state.
    fn load(&self) -> Option<String>;

    /// Saves the state.
    fn save(&self, state: &str);
}

/// Options of a [`Notifier`].
#[non_exhaustive]
pub struct NotifierOptions {
    /// The targets.
    pub targets: Vec<Target>,
    /// Origin of links to sessions, such as `https://hub.example.org`.
    pub origin: String,
    /// Storage of the state between launches.
    pub state: Option<Arc<dyn StateFile>>,
    /// Environment variables that commands do not get, because they contain secrets.
    pub hidden_variables: Vec<String>,
    /// Called with the name of a target that has removed itself, such as a browser that has unsubscribed.
    pub gone: Option<Gone>,
}

/// A function that is called with the name of a target.
pub type Gone = Arc<dyn Fn(&str) + Send + Sync>;

impl NotifierOptions {
    /// Creates options without storage.
    pub fn new(targets: Vec<Target>, origin: impl Into<String>) -> Self {
        NotifierOptions {
            targets,
            origin: origin.into(),
            state: None,
            hidden_variables: Vec::new(),
            gone: None,
        }
    }
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Deliver = Arc<dyn Fn(Job) -> BoxFuture<Delivery> + Send + Sync>;

struct Inner {
    planner: Mutex<Planner>,
    /// Notified when the planner has changed.
    wake: Notify,
    begun: Instant,
    deliver: Deliver,
    state: Option<Arc<dyn StateFile>>,
    links: Arc<Links>,
    gone: Option<Gone>,
}

/// Notifies people of events in sessions. Clones share the same targets.
#[derive(Clone)]
pub struct Notifier {
    inner: Arc<Inner>,
}

impl fmt::Debug for Notifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Notifier")
    }
}

impl Notifier {
    /// Starts to notify, in a task of the current runtime. Notifications of an earlier launch are withdrawn, and
    /// those that it could not send are sent.
    pub fn start(options: NotifierOptions) -> Self {
        let NotifierOptions { targets, origin, state, hidden_variables, gone } = options;
        let targets: Vec<Arc<Target>> = targets.into_iter().map(Arc::new).collect();
        let links = Arc::new(Links::default());
        let courier = Arc::new(Courier::new(origin, hidden_variables, Arc::clone(&links)));
        let deliver: Deliver = Arc::new(move |job| {
            let courier = Arc::clone(&courier);
            Box::pin(async move { courier.deliver(&job).await.delivery })
        });
        Notifier::with(targets, deliver, state, links, gone)
    }

    fn with(
        targets: Vec<Arc<Target>>,
        deliver: Deliver,
        state: Option<Arc<dyn StateFile>>,
        links: Arc<Links>,
        gone: Option<Gone>,
    ) -> Self {
        let planner = Mutex::new(Planner::new(targets, unique_prefix()));
        let (wake, begun) = (Notify::new(), Instant::now());
        let inner = Arc::new(Inner { planner, wake, begun, deliver, state, links, gone });
        tokio::spawn(run(Arc::clone(&inner)));
        Notifier { inner }
    }

    /// Takes an event of a session. Never blocks: the work is done by the task.
    pub fn event(&self, event: &SessionEvent) {
        if let SessionEventKind::Resolved { question, .. } = &event.kind {
            self.inner.links.forget(&event.session, *question);
        }
        let now = self.inner.now();
        self.inner.planner().event(event, now);
        self.inner.wake.notify_one();
    }

    /// Adds a target, or replaces the one with the same name.
    pub fn add_target(&self, target: Target) {
        self.inner.planner().add_target(Arc::new(target));
        self.inner.wake.notify_one();
    }

    /// Removes a target with everything that waits for it.
    pub fn remove_target(&self, name: &str) {
        self.inner.planner().remove_target(name);
        self.inner.wake.notify_one();
    }

    /// Sends the result of a prompt to a webhook, by the name of the target. Returns `false` if there is no such target,
    /// or it takes no results: only webhooks in the format of Standard Webhooks do.
    pub fn send_result(&self, target: &str, result: Value) -> bool {
        let now = self.inner.now();
        let is_sent = self.inner.planner().send_result(target, Arc::new(result), now);
        self.inner.wake.notify_one();
        is_sent
    }

    /// Returns whether there is a target with this name that takes the results of prompts.
    pub fn takes_results_at(&self, target: &str) -> bool {
        self.inner.planner().takes_results_at(target)
    }

    /// Takes the answer of a link in a notification: the last part of `/answer/CODE`. It works once. The caller passes the
    /// answer to the hub, which refuses it if the question has changed since it was shown.
    pub fn take_answer(&self, code: &str) -> Result<Answer, InvalidAnswer> {
        self.inner.links.redeem(code)
    }

    /// Notes that a viewer looks at a session, or no longer at any. Only a page that is visible and has the focus may
    /// report this, and must repeat it: it counts for 30 seconds.
    pub fn look(&self, viewer: u64, session: Option<&str>) {
        let now = self.inner.now();
        self.inner.planner().look(viewer, session, now);
        self.inner.wake.notify_one();
    }

    /// Returns the outcomes since the start, by the names of the targets.
    pub fn outcomes(&self) -> Vec<(String, Outcomes)> {
        self.inner.planner().outcomes()
    }

    /// Waits until everything that can be sent at once has been sent, at most for the given time, and saves the state.
    pub async fn end(&self, patience: Duration) {
        let sent = async {
            while !self.inner.planner().is_idle() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        // The rest is in the state.
        let _ = tokio::time::timeout(patience, sent).await;
        self.inner.save().await;
    }
}

/// Sends one test notification to a target. Returns the response in words, and whether it was accepted.
pub async fn send_test(target: &Target, origin: &str, hidden_variables: Vec<String>) -> (bool, String) {
    let target = Arc::new(target.clone());
    let links = Arc::new(Links::default());
    let courier = Courier::new(origin.to_owned(), hidden_variables, links);
    let (id, work) = (format!("{}1", unique_prefix()), Work::Notice(Arc::new(Notice::test())));
    let Report { delivery, response } = courier.deliver(&Job { index: 0, target, id, work }).await;
    (delivery == Delivery::Sent, response)
}

/// Returns a prefix of ids that no other launch has.
fn unique_prefix() -> String {
    let mut random = [0; 8];
    // Without random numbers the time distinguishes launches.
    if getrandom::fill(&mut random).is_err() {
        random = Moment::now().0.to_be_bytes();
    }
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("msg_{hex}-")
}

impl Inner {
    fn planner(&self) -> MutexGuard<'_, Planner> {
        self.planner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Now {
        Now { monotonic: self.begun.elapsed(), wall: Moment::now().0 }
    }

    /// Saves the state if it has changed.
    async fn save(&self) {
        let Some(file) = self.state.clone() else { return };
        let state = {
            let mut planner = self.planner();
            planner.take_changed().then(|| planner.state().to_string())
        };
        if let Some(state) = state {
            // A panic of the storage loses one write.
            let _ = tokio::task::spawn_blocking(move || file.save(&state)).await;
        }
    }
}

async fn run(inner: Arc<Inner>) {
    if let Some(file) = inner.state.clone() {
        let loaded = tokio::task::spawn_blocking(move || file.load()).await.ok().flatten();
        if let Some(state) = loaded.and_then(|text| serde_json::from_str::<Value>(&text).ok()) {
            let now = inner.now();
            inner.planner().restore(&state, now);
        }
    }
    let mut saved_at: Option<Instant> = None;
    loop {
        let now = inner.now();
        let (jobs, next) = {
            let mut planner = inner.planner();
            let jobs = planner.poll(now);
            (jobs, planner.next_wake())
        };
        // Before anything is sent, so that a crash does not leave a notification that is never withdrawn. Bursts of
        // events without a delivery are saved less often.
        if !jobs.is_empty() || saved_at.is_none_or(|at| at.elapsed() >= SAVE_INTERVAL) {
            inner.save().await;
            saved_at = Some(Instant::now());
        }
        for job in jobs {
            let inner = Arc::clone(&inner);
            tokio::spawn(async move {
                let (index, target) = (job.index, Arc::clone(&job.target));
                let delivery = (inner.deliver)(job).await;
                if let (Delivery::Gone(_), Some(gone)) = (&delivery, &inner.gone) {
                    gone(&target.name);
                }
                let now = inner.now();
                inner.planner().complete(index, &delivery, now);
                inner.wake.notify_one();
            });
        }
        let wait = async {
            match next {
                Some(at) => sleep_until(inner.begun + at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = inner.wake.notified() => {}
            () = wait => {}
        }
    }
}

#[cfg(test)]
mod tests;
