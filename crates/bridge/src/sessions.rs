//! Sessions by id, bounded in number.

use std::collections::VecDeque;
use std::ops::{AddAssign, Deref};

use switchboard_acp::rpc::Request;
use switchboard_acp::{AbsolutePath, Wire, WireFormat, v2};

use crate::map::HashMap;

/// Returns the directories that a session may touch.
pub(crate) fn roots(cwd: &str, more: Option<&[AbsolutePath<'_>]>) -> Vec<String> {
    let more = more.unwrap_or_default().iter().map(|path| path.as_str().to_owned());
    [cwd.to_owned()].into_iter().chain(more).collect()
}

/// The configuration options of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownOptions {
    options: Vec<v2::SessionConfigOption<'static>>,
    /// Encoded size in bytes.
    pub(crate) bytes: usize,
}

impl KnownOptions {
    pub(crate) fn set(&mut self, options: Vec<v2::SessionConfigOption<'static>>) {
        self.bytes = options.iter().map(|option| option.encode(WireFormat::Any).len()).sum();
        self.options = options;
    }

    /// Changes the options and returns the result of `change`.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut [v2::SessionConfigOption<'static>]) -> T,
    ) -> T {
        let mut options = std::mem::take(&mut self.options);
        let outcome = change(&mut options);
        self.set(options);
        outcome
    }
}

impl Deref for KnownOptions {
    type Target = Vec<v2::SessionConfigOption<'static>>;

    fn deref(&self) -> &Self::Target {
        &self.options
    }
}

/// Size of the retained state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size {
    pub(crate) sessions: usize,
    /// Messages, tool calls, terminals and similar entries.
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

/// Retained state of a session.
pub(crate) trait RetainedSession: Default {
    /// Returns the prompts queued until the turn ends; `None` if no turn is open, so that a prompt can start
    /// one.
    fn waiting(&mut self) -> Option<&mut VecDeque<Request<'static>>>;

    /// Returns whether the session is idle: no request is pending in it.
    fn is_idle(&self) -> bool;

    /// Drops the history. Directories, options and used ids are kept.
    fn drop_history(&mut self);

    /// Returns the number of messages, tool calls and similar entries.
    fn entries(&self) -> usize;

    /// Returns the bytes of those entries.
    fn bytes(&self) -> usize;

    /// Tells a new session how many sessions have been evicted, perhaps itself among them, so that it does
    /// not reuse ids.
    fn set_generation(&mut self, forgotten: u64);
}

/// Number of sessions without history that are retained for each session with history.
const SMALL_PER_FULL: usize = 16;

/// The sessions that a bridge retains. Of the least recently used idle sessions it drops first the history,
/// then everything. A session with pending requests is never dropped.
#[derive(Debug)]
pub(crate) struct Sessions<S> {
    with_history: HashMap<String, Slot<S>>,
    /// Sessions whose history has been dropped.
    without_history: HashMap<String, Slot<S>>,
    limit: usize,
    uses: u64,
    opened: u64,
    forgotten: u64,
}

#[derive(Debug, Default)]
struct Slot<S> {
    session: S,
    /// Sequence number of the last use.
    used: u64,
    /// Sequence number of the session in the order of opening.
    number: u64,
}

impl<S: RetainedSession> Sessions<S> {
    pub(crate) fn new(limit: usize) -> Self {
        let (with_history, without_history) = (HashMap::default(), HashMap::default());
        Sessions { with_history, without_history, limit: limit.max(1), uses: 0, opened: 0, forgotten: 0 }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&S> {
        self.with_history.get(id).or_else(|| self.without_history.get(id)).map(|slot| &slot.session)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut S> {
        // A session that is used again counts against the limit of sessions with history, although its
        // history stays dropped.
        if let Some(slot) = self.without_history.remove(id) {
            self.with_history.insert(id.to_owned(), slot);
        }
        let slot = self.with_history.get_mut(id)?;
        self.uses += 1;
        slot.used = self.uses;
        Some(&mut slot.session)
    }

    /// Returns a session with history. Does not count as a use.
    pub(crate) fn peek_mut(&mut self, id: &str) -> Option<&mut S> {
        self.with_history.get_mut(id).map(|slot| &mut slot.session)
    }

    /// Returns the session, creating it if needed.
    pub(crate) fn open(&mut self, id: &str) -> &mut S {
        let slot = self.with_history.entry_ref(id).or_insert_with(|| {
            self.without_history.remove(id).unwrap_or_else(|| {
                self.opened += 1;
                let mut session = S::default();
                // Ids that were created for a forgotten session of this name must not repeat. The number of
                // forgotten sessions makes them differ.
                if self.forgotten > 0 {
                    session.set_generation(self.forgotten);
                }
                Slot { session, used: 0, number: self.opened }
            })
        });
        self.uses += 1;
        slot.used = self.uses;
        &mut slot.session
    }

    pub(crate) fn forget(&mut self, id: &str) {
        // Counted only if there was one: the number makes later ids differ, and must not grow with requests
        // for unknown sessions.
        if self.with_history.remove(id).or_else(|| self.without_history.remove(id)).is_some() {
            self.forgotten += 1;
        }
    }

    /// Returns whether no work can start in a session, because too many others have work in progress.
    pub(crate) fn is_full_for(&self, id: &str) -> bool {
        self.with_history.len() >= self.limit
            && !self.with_history.contains_key(id)
            && self.with_history.values().all(|slot| !slot.session.is_idle())
    }

    /// Returns whether the number of sessions is above the limit.
    pub(crate) fn are_too_many(&self) -> bool {
        self.with_history.len() > self.limit
    }

    /// Takes the least recently used idle session, to drop its history. `is_busy` names further sessions to
    /// keep.
    pub(crate) fn take_oldest(&mut self, is_busy: impl Fn(&str) -> bool) -> Option<(String, &mut S)> {
        // Only idle sessions: a turn in progress needs its history to translate chunks and to end.
        let at_rest = self.with_history.iter().filter(|(id, slot)| slot.session.is_idle() && !is_busy(id));
        let id = at_rest.min_by_key(|(_, slot)| slot.used)?.0.clone();
        let slot = self.with_history.remove(&id)?;
        // What remains of a session is small but not nothing, so the oldest of these is forgotten completely.
        if self.without_history.len() >= self.limit.saturating_mul(SMALL_PER_FULL)
            && let Some(oldest) = self.without_history.iter().min_by_key(|(_, slot)| slot.used)
        {
            let oldest = oldest.0.clone();
            self.without_history.remove(&oldest);
            self.forgotten += 1;
        }
        let slot = self.without_history.entry_ref(&*id).insert(slot).into_mut();
        Some((id, &mut slot.session))
    }

    /// Returns the size of the retained state of all sessions.
    pub(crate) fn size(&self) -> Size {
        let mut size = Size::default();
        for Slot { session, .. } in self.with_history.values().chain(self.without_history.values()) {
            size += Size { sessions: 1, entries: session.entries(), bytes: session.bytes() };
        }
        size
    }

    /// Returns all ids in the order in which the sessions were opened.
    pub(crate) fn ids(&self) -> Vec<String> {
        let slots = self.with_history.iter().chain(&self.without_history);
        let mut ids: Vec<(u64, &String)> = slots.map(|(id, slot)| (slot.number, id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id.clone()).collect()
    }

    /// Returns the sessions with history.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &S)> {
        self.with_history.iter().map(|(id, slot)| (id, &slot.session))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&String, &mut S)> {
        self.with_history.iter_mut().map(|(id, slot)| (id, &mut slot.session))
    }
}
