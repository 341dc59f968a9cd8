//! Sessions by id, only so many of them.

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_protocol::AbsolutePath;

/// The directories that a session may touch.
pub(crate) fn roots(cwd: &str, more: Option<&[AbsolutePath<'_>]>) -> Vec<String> {
    let more = more.unwrap_or_default().iter().map(|path| path.as_str().to_owned());
    [cwd.to_owned()].into_iter().chain(more).collect()
}

/// The sessions that a bridge remembers. The oldest goes when there are too many.
#[derive(Debug)]
pub(crate) struct Sessions<S> {
    known: HashMap<String, S>,
    order: VecDeque<String>,
    limit: usize,
}

impl<S: Default> Sessions<S> {
    pub(crate) fn new(limit: usize) -> Self {
        Sessions { known: HashMap::default(), order: VecDeque::new(), limit: limit.max(1) }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&S> {
        self.known.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut S> {
        self.known.get_mut(id)
    }

    /// The session, made if need be.
    pub(crate) fn open(&mut self, id: &str) -> &mut S {
        if !self.known.contains_key(id) {
            if self.known.len() >= self.limit
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
            self.order.push_back(id.to_owned());
            return self.known.entry(id.to_owned()).or_default();
        }
        // Asked twice, because a reference cannot be returned from one branch alone.
        self.known.entry(id.to_owned()).or_default()
    }

    pub(crate) fn forget(&mut self, id: &str) -> Option<S> {
        self.order.retain(|known| known != id);
        self.known.remove(id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &String> {
        self.order.iter()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &S)> {
        self.known.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&String, &mut S)> {
        self.known.iter_mut()
    }
}
