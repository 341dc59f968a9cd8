//! Constant-time lookup of positions by id, shared between copies.

use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// A hash table from ids to positions in a list that only grows. It stores hashes, not ids: the caller
/// compares the id at the position.
///
/// A copy is free, because it shares the table until it is modified. It may find positions beyond the end of
/// its own list, which the caller's comparison rejects, so it does not see later additions.
#[derive(Debug)]
pub(crate) struct Index {
    table: Arc<RwLock<HashTable<Slot>>>,
    state: RandomState,
    /// True if this instance may add to the shared table.
    owner: bool,
}

impl Default for Index {
    fn default() -> Self {
        Index { table: Arc::default(), state: RandomState::default(), owner: true }
    }
}

impl Clone for Index {
    fn clone(&self) -> Self {
        Index { table: Arc::clone(&self.table), state: self.state.clone(), owner: false }
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u32,
    position: u32,
}

impl Index {
    pub(crate) fn hash(&self, key: impl Hash) -> u64 {
        self.state.hash_one(key)
    }

    /// Returns the last position for which `is_it` returns true.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        last_of(&table, hash, is_it)
    }

    pub(crate) fn insert(&mut self, hash: u64, position: usize) {
        insert(&mut self.own_table(), hash, position);
    }

    /// Returns the last position for which `is_it` returns true, or inserts `position`.
    pub(crate) fn find_or_insert(
        &mut self,
        hash: u64,
        position: usize,
        is_it: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut table = self.own_table();
        let found = last_of(&table, hash, is_it);
        if found.is_none() {
            insert(&mut table, hash, position);
        }
        found
    }

    fn own_table(&mut self) -> RwLockWriteGuard<'_, HashTable<Slot>> {
        if !self.owner {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner).clone();
            (self.table, self.owner) = (Arc::new(RwLock::new(table)), true);
        }
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the half of a hash that slots store, so that ids need not be hashed again when the table grows.
fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Spreads a short hash over both ends, which the table uses.
fn spread(short: u32) -> u64 {
    u64::from(short) << 32 | u64::from(short)
}

fn last_of(table: &HashTable<Slot>, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
    let short = short(hash);
    let same_hash = table.iter_hash(spread(short)).filter(|slot| slot.hash == short);
    same_hash.map(|slot| slot.position as usize).filter(|&position| is_it(position)).max()
}

fn insert(table: &mut HashTable<Slot>, hash: u64, position: usize) {
    let hash = short(hash);
    // Positions fit into 32 bits: they index a list of objects far larger than a slot.
    let slot = Slot { hash, position: position as u32 };
    table.insert_unique(spread(hash), slot, |slot| spread(slot.hash));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_key_at_every_size() {
        let mut index = Index::default();
        for position in 0..3000_usize {
            assert_eq!(index.find(index.hash(position), |found| found == position), None);
            let hash = index.hash(position);
            assert_eq!(index.find_or_insert(hash, position, |found| found == position), None);
            assert_eq!(index.find_or_insert(hash, usize::MAX, |found| found == position), Some(position));
            for asked in [0, position / 2, position] {
                assert_eq!(index.find(index.hash(asked), |found| found == asked), Some(asked));
            }
        }
        for position in 0..3000_usize {
            assert_eq!(index.find(index.hash(position), |found| found == position), Some(position));
        }
    }

    #[test]
    fn of_equal_ids_the_last_is_found_that_the_list_has() {
        let mut index = Index::default();
        let hash = index.hash("a");
        index.insert(hash, 3);
        index.insert(hash, 7);
        assert_eq!(index.find(hash, |_| true), Some(7));
        assert_eq!(index.find(hash, |position| position < 5), Some(3));
    }

    #[test]
    fn a_copy_that_goes_its_own_way_does_not_disturb_the_others() {
        let mut index = Index::default();
        let (a, b) = (index.hash("a"), index.hash("b"));
        let mut copy = index.clone();
        index.insert(a, 0);
        copy.insert(b, 0);
        assert_eq!([index.find(a, |_| true), index.find(b, |_| true)], [Some(0), None]);
        assert_eq!(copy.find(b, |_| true), Some(0));
    }
}
