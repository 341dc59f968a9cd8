//! Cache of rendered parts by a hash of their source.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use maud::Markup;

use super::Part;

/// Maximum size of one generation in bytes of HTML; there are two generations.
const GENERATION_BYTES: usize = 6 << 20;

/// Cache of rendered parts, shared by all tabs, so that while text streams only its end is rendered again.
///
/// The key is a hash of the source with a secret of this process, so agents cannot craft two sources with one key.
#[derive(Debug, Default)]
pub(crate) struct RenderCache {
    hasher: RandomState,
    generations: Mutex<Generations>,
}

/// Two generations of entries. An entry that is not used while the recent generation fills up is evicted.
#[derive(Debug, Default)]
struct Generations {
    recent: HashMap<u64, Part>,
    recent_bytes: usize,
    old: HashMap<u64, Part>,
}

impl Generations {
    fn get(&mut self, source: u64) -> Option<Part> {
        if let Some(part) = self.recent.get(&source) {
            return Some(part.clone());
        }
        let part = self.old.remove(&source)?;
        self.put(source, part.clone());
        Some(part)
    }

    fn put(&mut self, source: u64, part: Part) {
        self.recent_bytes += part.html.len();
        self.recent.insert(source, part);
        if self.recent_bytes > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.recent);
            self.recent_bytes = 0;
        }
    }
}

impl RenderCache {
    /// Returns the part with a key, rendered from a source unless it is cached. The source must contain everything
    /// that the HTML depends on, including a tag for the kind of rendering.
    pub(super) fn part(&self, key: &str, source: impl Hash, render: impl FnOnce() -> Markup) -> Part {
        let source = self.hasher.hash_one((key, source));
        if let Some(part) = self.lock().get(source) {
            return part;
        }
        let part = Part::new(key, render());
        self.lock().put(source, part.clone());
        part
    }

    /// Returns HTML that is not a part of its own, rendered from a source unless it is cached.
    pub(super) fn html(&self, source: impl Hash, render: impl FnOnce() -> Markup) -> Arc<str> {
        self.part("", source, render).html
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // Nothing panics while the lock is held, and a poisoned generation still contains only complete parts.
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl RenderCache {
    /// Returns the number of cached parts.
    pub(super) fn len(&self) -> usize {
        let generations = self.lock();
        generations.recent.len() + generations.old.len()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use maud::PreEscaped;

    use super::*;

    #[test]
    fn a_source_is_rendered_once() {
        let cache = RenderCache::default();
        let rendered = Cell::new(0);
        let part = |key: &str, source: &str| {
            cache.part(key, source, || {
                rendered.set(rendered.get() + 1);
                PreEscaped(source.to_owned())
            })
        };
        assert_eq!(part("a", "x"), part("a", "x"));
        assert_eq!(rendered.get(), 1);
        assert_eq!(&*part("b", "x").html, "x");
        assert_eq!(&*part("a", "y").html, "y");
        assert_eq!(rendered.get(), 3);
    }

    #[test]
    fn unused_parts_are_evicted() {
        let cache = RenderCache::default();
        let large = "x".repeat(GENERATION_BYTES / 4);
        for number in 0..20 {
            cache.part("k", number, || PreEscaped(large.clone()));
        }
        assert!(cache.len() <= 10);
    }
}
