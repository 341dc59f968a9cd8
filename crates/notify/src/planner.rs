//! Decides which notification is sent to which target and when. No I/O and no clock: the time is an argument, counted
//! from any start by a monotonic clock, so a changed wall clock neither delays nor repeats anything.
//!
//! A question passes through these places of a target: `waiting` until its delay has passed and no viewer looks at its
//! session, then `queue`, from which one item at a time is in flight, and `open` until it is resolved.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_hub::{SessionEvent, SessionEventKind};

use crate::notice::{Digest, Notice, QuestionKey};
use crate::target::{EventKind, Target};

/// Time for which a tab counts as looked at after its last sign of life.
pub(crate) const LOOKING: Duration = Duration::from_secs(30);
/// Maximum time for which a question is held because a viewer looks at its session.
const MAX_HOLD: Duration = Duration::from_secs(120);
/// Maximum number of single notifications of one target within [`JOIN_WINDOW`]. Further ones are joined.
const MAX_SINGLE: usize = 5;
const JOIN_WINDOW: Duration = Duration::from_secs(60);
/// Questions that become due within this time are joined with those that are due.
const JOIN_AHEAD: Duration = Duration::from_secs(2);
/// Minimum time between two updates of a notification.
const UPDATE_INTERVAL: Duration = Duration::from_secs(10);
/// Delays of retries. After the last one the notification is given up.
const RETRIES: [Duration; 4] =
    [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(300)];
/// Maximum delay that a target can request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// Maximum length of a target's queue.
const MAX_QUEUE: usize = 100;
/// Maximum number of characters of a result's text in the state for a restart.
const MAX_KEPT_TEXT: usize = 4096;
/// Maximum age of a notification that was not sent before a restart, in milliseconds.
const MAX_AGE: i64 = 3_600_000;

/// Content of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    /// A notification, or an update of one with the same key.
    Notice(Arc<Notice>),
    /// Withdraws the notification of a question.
    Withdraw { notice: Arc<Notice>, by: Option<String> },
    /// Several notifications as one. It replaces the previous one.
    Digest(Digest),
    /// Withdraws the digest.
    WithdrawDigest,
    /// The result of a prompt, for the webhook that its client has named.
    Result(Arc<Value>),
}

/// A delivery to be made.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Number of the target. It is not reused.
    pub(crate) index: usize,
    pub(crate) target: Arc<Target>,
    /// Id, which is the same over retries.
    pub(crate) id: String,
    pub(crate) work: Work,
}

/// Result of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Delivery {
    Sent,
    /// The target cannot be used on this machine.
    Unavailable(String),
    /// Not delivered; a later attempt may succeed. `after` is the delay that the target requests.
    Retry {
        reason: String,
        after: Option<Duration>,
    },
    /// Not delivered; no retry.
    Failed(String),
    /// The target no longer exists, and is removed.
    Gone(String),
}

/// Outcomes of a target's deliveries since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcomes {
    /// Delivered notifications.
    pub sent: u64,
    /// Notifications that were not sent because a viewer looked at the session, or because the target is unavailable.
    pub suppressed: u64,
    /// Notifications that were given up.
    pub failed: u64,
    /// Notifications that were dropped because the queue was full.
    pub dropped: u64,
    /// The last failure: its reason and its time in Unix milliseconds.
    pub last_failure: Option<(String, i64)>,
    /// Time of the last success in Unix milliseconds.
    pub last_success: Option<i64>,
}

/// A question before it is due.
struct Waiting {
    notice: Arc<Notice>,
    asked_at: Duration,
    due: Duration,
    /// True if it is held because a viewer looks at the session.
    is_held: bool,
}

/// A question whose notification was sent or is about to be.
struct Open {
    notice: Arc<Notice>,
    sent_at: Option<Duration>,
    is_in_digest: bool,
}

#[derive(Debug, Clone)]
struct Item {
    id: String,
    work: Work,
    attempts: usize,
    not_before: Duration,
    /// Time of its creation in Unix milliseconds, for a restart.
    made: i64,
}

impl Item {
    fn question(&self) -> Option<QuestionKey> {
        match &self.work {
            Work::Notice(notice) => notice.key(),
            _ => None,
        }
    }
}

/// Notifications that are sent as one.
#[derive(Default)]
struct DigestPlan {
    done: usize,
    failed: usize,
    died: usize,
    has_changed: bool,
    /// True if one was sent and not withdrawn.
    is_shown: bool,
    next_at: Duration,
}

struct TargetPlan {
    number: usize,
    target: Arc<Target>,
    waiting: HashMap<QuestionKey, Waiting>,
    by_due: BTreeSet<(Duration, QuestionKey)>,
    queue: VecDeque<Item>,
    in_flight: Option<Item>,
    open: HashMap<QuestionKey, Open>,
    digest: DigestPlan,
    /// Times of single notifications within [`JOIN_WINDOW`].
    recent: VecDeque<Duration>,
    paused_until: Duration,
    outcomes: Outcomes,
}

/// Plans the deliveries of all targets.
pub(crate) struct Planner {
    targets: Vec<TargetPlan>,
    /// Number of targets so far.
    last_target: usize,
    /// Session that each viewer looks at, and the time of the last sign of life.
    viewers: HashMap<u64, (String, Duration)>,
    ids: Ids,
    has_changed: bool,
}

/// Creates ids that are unique over restarts.
struct Ids {
    prefix: String,
    last: u64,
}

impl Ids {
    fn next(&mut self) -> String {
        self.last += 1;
        format!("{}{}", self.prefix, self.last)
    }
}

/// The current time by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) monotonic: Duration,
    /// Unix milliseconds, for display and for restarts.
    pub(crate) wall: i64,
}

impl Planner {
    /// Creates a planner. `prefix` must be unique among all launches.
    pub(crate) fn new(targets: Vec<Arc<Target>>, prefix: String) -> Self {
        let mut planner = Planner {
            targets: Vec::new(),
            last_target: 0,
            viewers: HashMap::new(),
            ids: Ids { prefix, last: 0 },
            has_changed: false,
        };
        for target in targets {
            planner.add_target(target);
        }
        planner
    }

    /// Adds a target, or replaces the one with the same name without losing its plans.
    pub(crate) fn add_target(&mut self, target: Arc<Target>) {
        if let Some(plan) = self.targets.iter_mut().find(|plan| plan.target.name == target.name) {
            plan.target = target;
            return;
        }
        self.targets.push(TargetPlan {
            number: self.last_target,
            target,
            waiting: HashMap::new(),
            by_due: BTreeSet::new(),
            queue: VecDeque::new(),
            in_flight: None,
            open: HashMap::new(),
            digest: DigestPlan::default(),
            recent: VecDeque::new(),
            paused_until: Duration::ZERO,
            outcomes: Outcomes::default(),
        });
        self.last_target += 1;
    }

    /// Removes a target with everything that waits for it.
    pub(crate) fn remove_target(&mut self, name: &str) {
        self.targets.retain(|plan| plan.target.name != name);
        self.has_changed = true;
    }

    /// Returns whether there is a target with this name that takes results.
    pub(crate) fn takes_results_at(&self, target: &str) -> bool {
        self.targets.iter().any(|plan| plan.target.name == target && plan.target.takes_results())
    }

    /// Queues the result of a prompt for a target. Returns `false` if there is no such target, or it takes no results.
    pub(crate) fn send_result(&mut self, target: &str, result: Arc<Value>, now: Now) -> bool {
        let found = self.targets.iter_mut().find(|plan| plan.target.name == target);
        let Some(plan) = found.filter(|plan| plan.target.takes_results()) else { return false };
        plan.push(Work::Result(result), now.monotonic, now, &mut self.ids);
        self.has_changed = true;
        true
    }

    /// Returns the time until which a viewer looks at a session, if there is one.
    fn looked_at_until(viewers: &HashMap<u64, (String, Duration)>, session: &str) -> Option<Duration> {
        let signs = viewers.values().filter(|(at, _)| at == session).map(|(_, sign)| *sign + LOOKING);
        signs.max()
    }

    /// Notes that a viewer looks at a session, or at none.
    pub(crate) fn look(&mut self, viewer: u64, session: Option<&str>, now: Now) {
        let before = match session {
            Some(session) => self.viewers.insert(viewer, (session.to_owned(), now.monotonic)),
            None => self.viewers.remove(&viewer),
        };
        let Some((left, _)) = before.filter(|(left, _)| Some(left.as_str()) != session) else { return };
        if Planner::looked_at_until(&self.viewers, &left).is_some_and(|until| until > now.monotonic) {
            return;
        }
        for plan in &mut self.targets {
            plan.release(&left, now.monotonic);
        }
    }

    /// Takes an event of a session.
    pub(crate) fn event(&mut self, event: &SessionEvent, now: Now) {
        if let SessionEventKind::Resolved { question, by } = &event.kind {
            let key = QuestionKey { session: event.session.to_string(), question: *question };
            for plan in &mut self.targets {
                self.has_changed |= plan.resolve(&key, by.as_deref(), now, &mut self.ids);
            }
            return;
        }
        let Some(notice) = Notice::of(event) else { return };
        let notice = Arc::new(notice);
        let is_looked_at = Planner::looked_at_until(&self.viewers, &notice.session)
            .is_some_and(|until| until > now.monotonic);
        for plan in &mut self.targets {
            if !plan.target.events.contains(&notice.kind) || !plan.target.may_see(event) {
                continue;
            }
            if let SessionEventKind::TurnEnded { duration, .. } = &event.kind
                && *duration < plan.target.min_turn
            {
                continue;
            }
            match notice.key() {
                Some(key) => self.has_changed |= plan.ask(key, &notice, now, &mut self.ids),
                None if is_looked_at => plan.outcomes.suppressed += 1,
                None => {
                    plan.make_due(vec![Arc::clone(&notice)], now, &mut self.ids);
                    self.has_changed = true;
                }
            }
        }
    }

    /// Returns the deliveries that are due.
    pub(crate) fn poll(&mut self, now: Now) -> Vec<Job> {
        let mut jobs = Vec::new();
        self.viewers.retain(|_, (_, sign)| *sign + LOOKING > now.monotonic);
        for plan in &mut self.targets {
            let index = plan.number;
            self.has_changed |= plan.advance(&self.viewers, now, &mut self.ids);
            if let Some(item) = plan.next_item(now.monotonic) {
                let (id, work) = (item.id.clone(), item.work.clone());
                jobs.push(Job { index, target: Arc::clone(&plan.target), id, work });
                plan.in_flight = Some(item);
                self.has_changed = true;
            }
        }
        jobs
    }

    /// Returns the time of the next [`Planner::poll`] that may have an effect.
    pub(crate) fn next_wake(&self) -> Option<Duration> {
        self.targets.iter().filter_map(TargetPlan::next_wake).min()
    }

    /// Takes the result of a delivery.
    pub(crate) fn complete(&mut self, index: usize, delivery: &Delivery, now: Now) {
        if matches!(delivery, Delivery::Gone(_)) {
            self.targets.retain(|plan| plan.number != index);
            self.has_changed = true;
        }
        // The target may have been removed meanwhile.
        if let Some(plan) = self.targets.iter_mut().find(|plan| plan.number == index) {
            plan.complete(delivery, now);
            self.has_changed = true;
        }
    }

    /// Returns whether nothing is queued or in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.targets.iter().all(|plan| plan.queue.is_empty() && plan.in_flight.is_none())
    }

    /// Returns the outcomes by the names of the targets.
    pub(crate) fn outcomes(&self) -> Vec<(String, Outcomes)> {
        self.targets.iter().map(|plan| (plan.target.name.clone(), plan.outcomes.clone())).collect()
    }

    /// Returns whether [`Planner::state`] has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Returns the state that a restart needs: notifications that may have been sent, and those that were not.
    pub(crate) fn state(&self) -> Value {
        let state = |plan: &TargetPlan| {
            let open: Vec<_> =
                plan.open.values().filter(|open| !open.is_in_digest).map(|open| &*open.notice).collect();
            let queued: Vec<_> = plan
                .queue
                .iter()
                .chain(&plan.in_flight)
                .filter_map(|item| match &item.work {
                    Work::Notice(notice) if notice.question.is_none() => {
                        Some(json!({"id": item.id, "notice": **notice, "made": item.made}))
                    }
                    Work::Result(result) => {
                        Some(json!({"id": item.id, "result": shortened(result), "made": item.made}))
                    }
                    _ => None,
                })
                .collect();
            let has_digest = plan.digest.is_shown
                || plan.in_flight.iter().any(|item| matches!(item.work, Work::Digest(_)));
            json!({"open": open, "queued": queued, "digest": has_digest})
        };
        self.targets.iter().map(|plan| (plan.target.name.clone(), state(plan))).collect()
    }

    /// Restores the state of an earlier launch. Agents end with their hub, so their questions are withdrawn. Malformed
    /// parts are skipped.
    pub(crate) fn restore(&mut self, state: &Value, now: Now) {
        for plan in &mut self.targets {
            let Some(state) = state.get(&plan.target.name) else { continue };
            let list = |key: &str| state[key].as_array().cloned().unwrap_or_default();
            for notice in list("open").into_iter().take(MAX_QUEUE) {
                if let Ok(notice) = serde_json::from_value::<Notice>(notice)
                    && plan.target.can_withdraw()
                {
                    let work = Work::Withdraw { notice: Arc::new(notice), by: None };
                    plan.push(work, now.monotonic, now, &mut self.ids);
                }
            }
            if state["digest"] == true && plan.target.can_withdraw() {
                plan.push(Work::WithdrawDigest, now.monotonic, now, &mut self.ids);
            }
            for queued in list("queued").into_iter().take(MAX_QUEUE) {
                let made = queued["made"].as_i64().unwrap_or_default();
                let is_recent = now.wall.saturating_sub(made) < MAX_AGE;
                let notice = serde_json::from_value::<Notice>(queued["notice"].clone());
                let work = match (notice, &queued["result"]) {
                    (Ok(notice), _) => Some(Work::Notice(Arc::new(notice))),
                    (Err(_), result @ Value::Object(_)) => Some(Work::Result(Arc::new(result.clone()))),
                    _ => None,
                };
                if let Some(work) = work.filter(|_| is_recent) {
                    plan.push(work, now.monotonic, now, &mut self.ids);
                    if let (Some(item), Some(id)) = (plan.queue.back_mut(), queued["id"].as_str()) {
                        id.clone_into(&mut item.id);
                    }
                }
            }
        }
    }
}

impl TargetPlan {
    /// Takes a question, new or changed. Returns whether the state has changed.
    fn ask(&mut self, key: QuestionKey, notice: &Arc<Notice>, now: Now, ids: &mut Ids) -> bool {
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.notice = Arc::clone(notice);
            return false;
        }
        let content = self.target.content;
        if let Some(open) = self.open.get_mut(&key) {
            let is_different = open.notice.text(content) != notice.text(content);
            open.notice = Arc::clone(notice);
            if open.is_in_digest || !is_different {
                return false;
            }
            let not_before = open.sent_at.map_or(now.monotonic, |sent| sent + UPDATE_INTERVAL);
            let queued = self.queue.iter_mut().find(|item| item.question().as_ref() == Some(&key));
            match queued {
                Some(item) => item.work = Work::Notice(Arc::clone(notice)),
                None if self.target.can_update() => {
                    self.push(Work::Notice(Arc::clone(notice)), not_before, now, ids);
                }
                None => {}
            }
            return true;
        }
        let due = now.monotonic + self.target.after;
        self.by_due.insert((due, key.clone()));
        let asked_at = now.monotonic;
        self.waiting.insert(key, Waiting { notice: Arc::clone(notice), asked_at, due, is_held: false });
        false
    }

    /// Takes the end of a question. Returns whether the state has changed.
    fn resolve(&mut self, key: &QuestionKey, by: Option<&str>, now: Now, ids: &mut Ids) -> bool {
        if let Some(waiting) = self.waiting.remove(key) {
            self.by_due.remove(&(waiting.due, key.clone()));
            self.outcomes.suppressed += u64::from(waiting.is_held);
            return false;
        }
        let Some(open) = self.open.remove(key) else { return false };
        if open.is_in_digest {
            let is_last = !self.open.values().any(|open| open.is_in_digest);
            if is_last && self.digest.is_shown && self.target.can_withdraw() {
                self.digest.is_shown = false;
                self.push(Work::WithdrawDigest, now.monotonic, now, ids);
            }
            return true;
        }
        self.queue.retain(|item| item.question().as_ref() != Some(key));
        let is_in_flight = self.in_flight.as_ref().is_some_and(|item| item.question().as_ref() == Some(key));
        if (open.sent_at.is_some() || is_in_flight) && self.target.can_withdraw() {
            let work = Work::Withdraw { notice: open.notice, by: by.map(str::to_owned) };
            self.push(work, now.monotonic, now, ids);
        }
        true
    }

    /// Makes the held questions of a session due, because no viewer looks at it any more.
    fn release(&mut self, session: &str, now: Duration) {
        for (key, waiting) in &mut self.waiting {
            if waiting.is_held && key.session == session {
                self.by_due.remove(&(waiting.due, key.clone()));
                waiting.due = now;
                self.by_due.insert((now, key.clone()));
            }
        }
    }

    /// Moves questions that are due to the queue. Returns whether the state has changed.
    fn advance(&mut self, viewers: &HashMap<u64, (String, Duration)>, now: Now, ids: &mut Ids) -> bool {
        let mut due = Vec::new();
        while let Some((at, key)) = self.by_due.first().cloned() {
            if at > now.monotonic {
                break;
            }
            self.by_due.remove(&(at, key.clone()));
            let Some(waiting) = self.waiting.get_mut(&key) else { continue };
            let until = Planner::looked_at_until(viewers, &key.session).unwrap_or_default();
            let until = until.min(waiting.asked_at + MAX_HOLD);
            if until > now.monotonic {
                (waiting.is_held, waiting.due) = (true, until);
                self.by_due.insert((until, key));
            } else if let Some(waiting) = self.waiting.remove(&key) {
                due.push(waiting.notice);
            }
        }
        let mut has_changed = !due.is_empty();
        if !due.is_empty() {
            self.make_due(due, now, ids);
        }
        let has_queued = self.queue.iter().any(|item| matches!(item.work, Work::Digest(_)));
        if self.digest.has_changed && self.digest.next_at <= now.monotonic && !has_queued {
            let digest = self.take_digest();
            self.digest.next_at = now.monotonic + JOIN_WINDOW;
            if digest != Digest::default() {
                self.push(Work::Digest(digest), now.monotonic, now, ids);
            }
            has_changed = true;
        }
        has_changed
    }

    /// Queues notifications, or joins them if there are too many.
    fn make_due(&mut self, mut due: Vec<Arc<Notice>>, now: Now, ids: &mut Ids) {
        while self.recent.front().is_some_and(|sent| *sent + JOIN_WINDOW <= now.monotonic) {
            self.recent.pop_front();
        }
        let until = now.monotonic + JOIN_AHEAD;
        let is_free = |waiting: &&Waiting| !waiting.is_held;
        let ahead: Vec<QuestionKey> = self
            .by_due
            .iter()
            .take_while(|(at, _)| *at <= until)
            .filter(|(_, key)| self.waiting.get(key).as_ref().is_some_and(is_free))
            .map(|(_, key)| key.clone())
            .collect();
        if self.recent.len() + due.len() + ahead.len() <= MAX_SINGLE {
            for notice in due {
                self.recent.push_back(now.monotonic);
                if let Some(key) = notice.key() {
                    let open = Open { notice: Arc::clone(&notice), sent_at: None, is_in_digest: false };
                    self.open.insert(key, open);
                }
                self.push(Work::Notice(notice), now.monotonic, now, ids);
            }
            return;
        }
        for key in ahead {
            if let Some(waiting) = self.waiting.remove(&key) {
                self.by_due.remove(&(waiting.due, key));
                due.push(waiting.notice);
            }
        }
        self.digest.has_changed = true;
        for notice in due {
            match notice.kind {
                EventKind::Question => {
                    if let Some(key) = notice.key() {
                        self.open.insert(key, Open { notice, sent_at: None, is_in_digest: true });
                    }
                }
                EventKind::Done => self.digest.done += 1,
                EventKind::Failed => self.digest.failed += 1,
                EventKind::Died => self.digest.died += 1,
            }
        }
    }

    /// Returns the digest of everything that waits or has ended since the last one.
    fn take_digest(&mut self) -> Digest {
        let sessions: HashSet<&str> = self.open.keys().map(|key| key.session.as_str()).collect();
        let digest = Digest {
            questions: self.open.len(),
            sessions: sessions.len(),
            done: self.digest.done,
            failed: self.digest.failed,
            died: self.digest.died,
        };
        self.digest = DigestPlan {
            is_shown: self.digest.is_shown,
            next_at: self.digest.next_at,
            ..DigestPlan::default()
        };
        digest
    }

    /// Appends to the queue. If it is full, the oldest notification of an ended turn is dropped, never a question.
    fn push(&mut self, work: Work, not_before: Duration, now: Now, ids: &mut Ids) {
        self.queue.push_back(Item { id: ids.next(), work, attempts: 0, not_before, made: now.wall });
        if self.queue.len() <= MAX_QUEUE {
            return;
        }
        let find = |is_it: &dyn Fn(&Notice) -> bool| {
            self.queue.iter().position(|item| matches!(&item.work, Work::Notice(notice) if is_it(notice)))
        };
        let result = || self.queue.iter().position(|item| matches!(item.work, Work::Result(_)));
        let oldest = find(&|notice| notice.kind == EventKind::Done)
            .or_else(|| find(&|notice| notice.question.is_none()))
            .or_else(result);
        if let Some(oldest) = oldest {
            self.queue.remove(oldest);
            self.outcomes.dropped += 1;
        }
    }

    /// Takes the next item of the queue, unless one is in flight.
    fn next_item(&mut self, now: Duration) -> Option<Item> {
        if self.in_flight.is_some() || self.paused_until > now {
            return None;
        }
        let next = self.queue.iter().position(|item| item.not_before <= now)?;
        self.queue.remove(next)
    }

    fn next_wake(&self) -> Option<Duration> {
        let due = self.by_due.first().map(|(at, _)| *at);
        let digest = self.digest.has_changed.then_some(self.digest.next_at);
        let queued = self.queue.iter().map(|item| item.not_before.max(self.paused_until)).min();
        let queued = queued.filter(|_| self.in_flight.is_none());
        [due, digest, queued].into_iter().flatten().min()
    }

    fn complete(&mut self, delivery: &Delivery, now: Now) {
        let Some(mut item) = self.in_flight.take() else { return };
        let is_notice = matches!(item.work, Work::Notice(_) | Work::Digest(_) | Work::Result(_));
        let key = item.question();
        match delivery {
            Delivery::Sent => {
                self.outcomes.sent += u64::from(is_notice);
                self.outcomes.last_success = Some(now.wall);
                self.digest.is_shown |= matches!(item.work, Work::Digest(_));
                if let Some(open) = key.and_then(|key| self.open.get_mut(&key)) {
                    open.sent_at = Some(now.monotonic);
                }
            }
            Delivery::Unavailable(_) => self.outcomes.suppressed += u64::from(is_notice),
            Delivery::Retry { reason, after } => {
                self.outcomes.last_failure = Some((reason.clone(), now.wall));
                if let Some(after) = after {
                    self.paused_until = now.monotonic + (*after).min(MAX_RETRY_AFTER);
                }
                // What was answered meanwhile is not sent any more.
                if key.as_ref().is_some_and(|key| !self.open.contains_key(key)) {
                    return;
                }
                match RETRIES.get(item.attempts) {
                    Some(delay) => {
                        item.attempts += 1;
                        item.not_before = now.monotonic + *delay;
                        self.queue.push_front(item);
                    }
                    None => {
                        self.outcomes.failed += 1;
                        self.forget_unsent(key.as_ref());
                    }
                }
            }
            Delivery::Failed(reason) | Delivery::Gone(reason) => {
                self.outcomes.last_failure = Some((reason.clone(), now.wall));
                self.outcomes.failed += 1;
                self.forget_unsent(key.as_ref());
            }
        }
    }

    /// Removes a question that was never delivered.
    fn forget_unsent(&mut self, key: Option<&QuestionKey>) {
        if let Some(key) = key
            && self.open.get(key).is_some_and(|open| open.sent_at.is_none())
        {
            self.open.remove(key);
        }
    }
}

/// Returns a result for the state of a restart: its text may be long.
fn shortened(result: &Value) -> Value {
    let mut result = result.clone();
    if let Some(Value::String(text)) = result.get_mut("text")
        && let Some((end, _)) = text.char_indices().nth(MAX_KEPT_TEXT)
    {
        text.truncate(end);
        result["text_cut"] = true.into();
    }
    result
}

#[cfg(test)]
mod tests;
