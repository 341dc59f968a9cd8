//! Rendered parts by what they were rendered from.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use maud::Markup;

use super::Part;

/// How many bytes of HTML one generation may hold; there are two.
const GENERATION_BYTES: usize = 6 << 20;

/// Keeps what was rendered, so that while text streams only its end is rendered anew. All tabs share one.
///
/// The key is a hash of the source under a secret of this process: an agent cannot make two sources that share one.
#[derive(Debug, Default)]
pub(crate) struct RenderCache {
    hasher: RandomState,
    generations: Mutex<Generations>,
}

/// What was not asked for while the recent generation filled up is forgotten.
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
    /// The part with a key, rendered from a source unless it is known. The source has to hold all that the HTML
    /// depends on, also a word for how it is rendered: the same value may be shown in several ways.
    pub(super) fn part(&self, key: &str, source: impl Hash, render: impl FnOnce() -> Markup) -> Part {
        let source = self.hasher.hash_one((key, source));
        if let Some(part) = self.lock().get(source) {
            return part;
        }
        let part = Part::new(key, render());
        self.lock().put(source, part.clone());
        part
    }

    /// HTML that is no part by itself, made from a source unless it is known.
    pub(super) fn html(&self, source: impl Hash, render: impl FnOnce() -> Markup) -> Arc<str> {
        self.part("", source, render).html
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // Nothing panics while the lock is held, and even a half-made generation holds only whole parts.
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl RenderCache {
    /// How many things it has now.
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
    fn what_is_not_used_is_forgotten() {
        let cache = RenderCache::default();
        let large = "x".repeat(GENERATION_BYTES / 4);
        for number in 0..20 {
            cache.part("k", number, || PreEscaped(large.clone()));
        }
        assert!(cache.len() <= 10);
    }
}
