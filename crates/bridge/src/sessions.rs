//! Sessions by id, only so many of them.

use std::collections::VecDeque;
use std::ops::{AddAssign, Deref};

use switchboard_acp::rpc::Request;
use switchboard_acp::{AbsolutePath, Wire, WireFormat, v2};

use crate::map::HashMap;

/// The directories that a session may touch.
pub(crate) fn roots(cwd: &str, more: Option<&[AbsolutePath<'_>]>) -> Vec<String> {
    let more = more.unwrap_or_default().iter().map(|path| path.as_str().to_owned());
    [cwd.to_owned()].into_iter().chain(more).collect()
}

/// The options of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownOptions {
    options: Vec<v2::SessionConfigOption<'static>>,
    /// How many bytes they are, written.
    pub(crate) bytes: usize,
}

impl KnownOptions {
    pub(crate) fn set(&mut self, options: Vec<v2::SessionConfigOption<'static>>) {
        self.bytes = options.iter().map(|option| option.encode(WireFormat::Any).len()).sum();
        self.options = options;
    }

    /// Changes them; gives what `change` does.
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

/// How much is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size {
    pub(crate) sessions: usize,
    /// Messages, tool calls, terminals and the like.
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

/// What is remembered of a session.
pub(crate) trait Remember: Default {
    /// The prompts that wait for the end of the turn; `None`: no turn is open, so that a prompt can begin one.
    fn waiting(&mut self) -> Option<&mut VecDeque<Request<'static>>>;

    /// Whether nobody waits for anything in it.
    fn is_at_rest(&self) -> bool;

    /// Forgets what was said. What the session is (directories, options, which ids are taken) stays.
    fn forget_said(&mut self);

    /// How many messages, tool calls and the like it has.
    fn entries(&self) -> usize;

    /// Bytes that they hold.
    fn bytes(&self) -> usize;

    /// It is opened when so many others have been forgotten wholly, perhaps itself among them: ids that it makes must
    /// not be those of then.
    fn set_apart(&mut self, forgotten: u64);
}

/// So many sessions of which little is remembered may there be for each of which all is.
const LITTLE: usize = 16;

/// The sessions that a bridge remembers. Of those that were not used for the longest time it forgets first what was
/// said, then everything; but never of one in which somebody waits.
#[derive(Debug)]
pub(crate) struct Sessions<S> {
    full: HashMap<String, Slot<S>>,
    /// Those of which what was said is forgotten.
    little: HashMap<String, Slot<S>>,
    limit: usize,
    uses: u64,
    opened: u64,
    forgotten: u64,
}

#[derive(Debug, Default)]
struct Slot<S> {
    session: S,
    /// Which use of a session was its last.
    used: u64,
    /// The how manyeth it is.
    number: u64,
}

impl<S: Remember> Sessions<S> {
    pub(crate) fn new(limit: usize) -> Self {
        let (full, little) = (HashMap::default(), HashMap::default());
        Sessions { full, little, limit: limit.max(1), uses: 0, opened: 0, forgotten: 0 }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&S> {
        self.full.get(id).or_else(|| self.little.get(id)).map(|slot| &slot.session)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut S> {
        if let Some(slot) = self.little.remove(id) {
            self.full.insert(id.to_owned(), slot);
        }
        let slot = self.full.get_mut(id)?;
        self.uses += 1;
        slot.used = self.uses;
        Some(&mut slot.session)
    }

    /// The session, if all is remembered of it. That does not count as a use.
    pub(crate) fn peek_mut(&mut self, id: &str) -> Option<&mut S> {
        self.full.get_mut(id).map(|slot| &mut slot.session)
    }

    /// The session, made if need be.
    pub(crate) fn open(&mut self, id: &str) -> &mut S {
        let slot = self.full.entry_ref(id).or_insert_with(|| {
            self.little.remove(id).unwrap_or_else(|| {
                self.opened += 1;
                let mut session = S::default();
                if self.forgotten > 0 {
                    session.set_apart(self.forgotten);
                }
                Slot { session, used: 0, number: self.opened }
            })
        });
        self.uses += 1;
        slot.used = self.uses;
        &mut slot.session
    }

    pub(crate) fn forget(&mut self, id: &str) {
        if self.full.remove(id).or_else(|| self.little.remove(id)).is_some() {
            self.forgotten += 1;
        }
    }

    /// Whether there is no room for work in a session, because there is work in too many others.
    pub(crate) fn is_full_for(&self, id: &str) -> bool {
        self.full.len() >= self.limit
            && !self.full.contains_key(id)
            && self.full.values().all(|slot| !slot.session.is_at_rest())
    }

    /// Whether there are more than there may be.
    pub(crate) fn are_too_many(&self) -> bool {
        self.full.len() > self.limit
    }

    /// The session at rest that was not used for the longest time, to forget what was said in it. `is_busy` knows of more
    /// reasons to keep one.
    pub(crate) fn take_oldest(&mut self, is_busy: impl Fn(&str) -> bool) -> Option<(String, &mut S)> {
        let at_rest = self.full.iter().filter(|(id, slot)| slot.session.is_at_rest() && !is_busy(id));
        let id = at_rest.min_by_key(|(_, slot)| slot.used)?.0.clone();
        let slot = self.full.remove(&id)?;
        if self.little.len() >= self.limit.saturating_mul(LITTLE)
            && let Some(oldest) = self.little.iter().min_by_key(|(_, slot)| slot.used)
        {
            let oldest = oldest.0.clone();
            self.little.remove(&oldest);
            self.forgotten += 1;
        }
        let slot = self.little.entry_ref(&*id).insert(slot).into_mut();
        Some((id, &mut slot.session))
    }

    /// How much is remembered of all of them.
    pub(crate) fn size(&self) -> Size {
        let mut size = Size::default();
        for Slot { session, .. } in self.full.values().chain(self.little.values()) {
            size += Size { sessions: 1, entries: session.entries(), bytes: session.bytes() };
        }
        size
    }

    /// The ids of all in the order in which they were opened.
    pub(crate) fn ids(&self) -> Vec<String> {
        let slots = self.full.iter().chain(&self.little);
        let mut ids: Vec<(u64, &String)> = slots.map(|(id, slot)| (slot.number, id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id.clone()).collect()
    }

    /// Those of which more than a little is remembered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &S)> {
        self.full.iter().map(|(id, slot)| (id, &slot.session))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&String, &mut S)> {
        self.full.iter_mut().map(|(id, slot)| (id, &mut slot.session))
    }
}
