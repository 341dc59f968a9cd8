//! Detection of moved and copied files, with Git's algorithm.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use crate::entry::Entry;
use crate::options::{Detect, Renames};

/// Maximum score. A percentage is a score divided by 600.
const FULL: u64 = 60_000;
/// Number of candidate sources kept for a new file.
const CANDIDATES: usize = 4;
/// Number of equal sources checked for the best name.
const EQUAL_SOURCES: usize = 100;
/// Maximum length in bytes of a piece of a line.
const SPAN: usize = 64;

/// A possible source of a new file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RenameSource<'a> {
    pub(crate) entry: &'a Entry,
    /// True if the source still exists afterwards: it can be copied, but not moved.
    pub(crate) stays: bool,
}

/// A new file with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) source: usize,
    pub(crate) target: usize,
    /// Similarity in percent.
    pub(crate) similarity: u8,
    pub(crate) is_copy: bool,
}

/// The matches in the order of the targets, and a flag for skipped detection of edited moves.
pub(crate) struct Matches {
    pub(crate) found: Vec<Match>,
    pub(crate) gave_up: bool,
}

/// Finds the sources of new files. Both lists are sorted by path.
pub(crate) fn find(sources: &[RenameSource<'_>], targets: &[&Entry], options: Renames) -> Matches {
    let mut finder = Finder {
        sources,
        targets,
        // A source that stays counts itself as a user, so that it is never moved.
        uses: sources.iter().map(|source| usize::from(source.stays)).collect(),
        chosen: vec![None; targets.len()],
        copies: matches!(options.detect, Detect::Copies | Detect::CopiesOfAll),
    };
    let mut gave_up = false;
    if options.detect != Detect::Nothing && !targets.is_empty() && !sources.is_empty() {
        finder.find_equal();
        let minimum = FULL * u64::from(options.threshold.min(100)) / 100;
        if minimum < FULL {
            gave_up = finder.find_similar(minimum, options.limit);
        }
    }
    Matches { found: finder.finish(), gave_up }
}

struct Finder<'a> {
    sources: &'a [RenameSource<'a>],
    targets: &'a [&'a Entry],
    uses: Vec<usize>,
    /// For each target, its source and the score.
    chosen: Vec<Option<(usize, u64)>>,
    copies: bool,
}

impl Finder<'_> {
    fn may_use(&self, source: usize) -> bool {
        self.copies || self.uses[source] == 0
    }

    fn choose(&mut self, source: usize, target: usize, score: u64) {
        self.uses[source] += 1;
        self.chosen[target] = Some((source, score));
    }

    /// Matches files with equal content. Prefers an unused source, then one with the same name.
    fn find_equal(&mut self) {
        // Reading and hashing dominates the cost, so skip files without a partner of equal size.
        let key = |entry: &Entry| (entry.is_symlink(), entry.size());
        let wanted: HashSet<_> = self.targets.iter().map(|target| key(target)).collect();
        let mut by_content: HashMap<_, Vec<usize>> = HashMap::new();
        let mut seen = HashSet::new();
        let hasher = RandomState::new();
        for (at, source) in self.sources.iter().enumerate() {
            if wanted.contains(&key(source.entry))
                && let Some(content) = source.entry.content()
            {
                seen.insert(key(source.entry));
                let hash = hasher.hash_one(&*content);
                by_content.entry((key(source.entry), hash)).or_default().push(at);
            }
        }
        for (at, target) in self.targets.iter().enumerate() {
            if !seen.contains(&key(target)) {
                continue;
            }
            let Some(content) = target.content() else { continue };
            let hash = hasher.hash_one(&*content);
            let Some(equal) = by_content.get(&(key(target), hash)) else { continue };
            let mut best: Option<(usize, usize)> = None;
            for &source in equal.iter().take(EQUAL_SOURCES).filter(|&&source| self.may_use(source)) {
                let score = usize::from(self.uses[source] == 0)
                    + usize::from(file_name(self.sources[source].entry) == file_name(target));
                if best.is_none_or(|(_, best)| score > best)
                    && self.sources[source].entry.content().is_some_and(|other| other == content)
                {
                    best = Some((source, score));
                }
            }
            if let Some((source, _)) = best {
                self.choose(source, at, FULL);
            }
        }
    }

    /// Matches files with similar content, best first. Returns true if there were too many to compare.
    fn find_similar(&mut self, minimum: u64, limit: usize) -> bool {
        let is_file = |entry: &Entry| !entry.is_symlink() && entry.size() > 0;
        let mut targets: Vec<usize> = (0..self.targets.len())
            .filter(|&at| self.chosen[at].is_none() && is_file(self.targets[at]))
            .collect();
        let mut sources: Vec<usize> = (0..self.sources.len())
            .filter(|&at| self.may_use(at) && is_file(self.sources[at].entry))
            .collect();
        let mut spans = Spans::default();
        if !self.copies {
            self.find_by_name(minimum, &sources, &targets, &mut spans);
            targets.retain(|&at| self.chosen[at].is_none());
            sources.retain(|&at| self.may_use(at));
        }
        if targets.is_empty() || sources.is_empty() {
            return false;
        }
        if targets.len().saturating_mul(sources.len()) > limit.saturating_mul(limit) {
            return true;
        }
        let mut pairs: Vec<Pair> = Vec::new();
        for &target in &targets {
            let mut best: Vec<Pair> = Vec::new();
            for &source in &sources {
                let (from, to) = (self.sources[source].entry, self.targets[target]);
                let score = spans.similarity((source, from), (target, to), minimum);
                if score >= minimum {
                    let same_name = file_name(from) == file_name(to);
                    best.push(Pair { source, target, score, same_name });
                }
            }
            best.sort_by_key(Pair::order);
            best.truncate(CANDIDATES);
            pairs.append(&mut best);
        }
        pairs.sort_by_key(Pair::order);
        for take_used in [false, true] {
            for pair in &pairs {
                let free = self.uses[pair.source] == 0 || (take_used && self.copies);
                if free && self.chosen[pair.target].is_none() {
                    self.choose(pair.source, pair.target, pair.score);
                }
            }
        }
        false
    }

    /// Matches files whose name is unique on both sides, which have most likely moved to another directory.
    /// Tried first, with a higher threshold, before comparing all pairs.
    fn find_by_name(&mut self, minimum: u64, sources: &[usize], targets: &[usize], spans: &mut Spans) {
        let bar = minimum + (FULL - minimum) / 2;
        let mut by_name: HashMap<&[u8], Option<usize>> = HashMap::new();
        for &source in sources {
            let name = file_name(self.sources[source].entry);
            by_name.entry(name).and_modify(|found| *found = None).or_insert(Some(source));
        }
        let mut target_names: HashMap<&[u8], usize> = HashMap::new();
        for &target in targets {
            *target_names.entry(file_name(self.targets[target])).or_default() += 1;
        }
        for &target in targets {
            let to = self.targets[target];
            let name = file_name(to);
            let (Some(&Some(source)), Some(1)) = (by_name.get(name), target_names.get(name)) else {
                continue;
            };
            let score = spans.similarity((source, self.sources[source].entry), (target, to), bar);
            if score >= bar {
                self.choose(source, target, score);
            }
        }
    }

    /// Returns the matches. The last user of a deleted source has moved it; the earlier ones are copies.
    fn finish(mut self) -> Vec<Match> {
        let chosen = std::mem::take(&mut self.chosen);
        let found = chosen.into_iter().enumerate().filter_map(|(target, choice)| {
            let (source, score) = choice?;
            self.uses[source] -= 1;
            Some(Match {
                source,
                target,
                similarity: (score * 100 / FULL) as u8,
                is_copy: self.uses[source] > 0,
            })
        });
        found.collect()
    }
}

#[derive(Debug)]
struct Pair {
    source: usize,
    target: usize,
    score: u64,
    same_name: bool,
}

impl Pair {
    fn order(&self) -> (std::cmp::Reverse<u64>, bool) {
        (std::cmp::Reverse(self.score), !self.same_name)
    }
}

fn file_name(entry: &Entry) -> &[u8] {
    entry.path.rsplit(|&byte| byte == b'/').next().unwrap_or(&entry.path)
}

/// Pieces of each compared file, so that no file is read and split twice.
#[derive(Default)]
struct Spans {
    sources: HashMap<usize, Vec<(u64, u64)>>,
    targets: HashMap<usize, Vec<(u64, u64)>>,
}

impl Spans {
    /// Returns the common part of the larger file as a score up to [`FULL`], or 0 if it cannot reach
    /// `minimum`.
    fn similarity(&mut self, source: (usize, &Entry), target: (usize, &Entry), minimum: u64) -> u64 {
        let (old_size, new_size) = (source.1.size(), target.1.size());
        let larger = old_size.max(new_size);
        if larger == 0 || larger * (FULL - minimum) < old_size.abs_diff(new_size) * FULL {
            return 0;
        }
        let cut = |entry: &Entry| entry.content().map_or_else(Vec::new, |content| spans(&content));
        let old = self.sources.entry(source.0).or_insert_with(|| cut(source.1));
        let new = self.targets.entry(target.0).or_insert_with(|| cut(target.1));
        shared(old, new) * FULL / larger
    }
}

/// Splits content into lines, and long lines into pieces. Returns the number of bytes of each.
fn spans(content: &[u8]) -> Vec<(u64, u64)> {
    // Git's definition of text, which differs from ours: the scores must be equal to Git's.
    let is_text = !content[..content.len().min(8000)].contains(&0);
    let mut all = Vec::new();
    let (mut hash, mut length) = (0u64, 0u64);
    for (at, &byte) in content.iter().enumerate() {
        if is_text && byte == b'\r' && content.get(at + 1) == Some(&b'\n') {
            continue;
        }
        hash = (hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        length += 1;
        if length as usize == SPAN || byte == b'\n' {
            all.push((hash, length));
            (hash, length) = (0, 0);
        }
    }
    if length > 0 {
        all.push((hash, length));
    }
    all.sort_unstable();
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    all
}

/// Returns the number of common bytes.
fn shared(old: &[(u64, u64)], new: &[(u64, u64)]) -> u64 {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let mut bytes = 0;
    while let (Some(first), Some(second)) = (old.peek(), new.peek()) {
        match first.0.cmp(&second.0) {
            std::cmp::Ordering::Less => _ = old.next(),
            std::cmp::Ordering::Greater => _ = new.next(),
            std::cmp::Ordering::Equal => {
                bytes += first.1.min(second.1);
                old.next();
                new.next();
            }
        }
    }
    bytes
}
