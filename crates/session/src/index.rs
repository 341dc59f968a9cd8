//! Where an id stands, in constant time, and shared between copies.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;

use crate::shared_vec::SharedVec;

/// A hash table from ids to positions. It holds no ids, only hashes: who asks compares the id at the position.
///
/// It grows by one bucket at a time (linear hashing), so that no insertion costs more than another, and its
/// buckets lie in a [`SharedVec`], so that a copy costs nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    buckets: SharedVec<Bucket>,
    length: usize,
    state: RandomState,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    hash: u32,
    position: u32,
}

const INLINE: usize = 6;
/// How many slots a bucket has in the mean.
const LOAD: usize = 3;

#[derive(Debug, Clone, Default)]
struct Bucket {
    length: u32,
    slots: [Slot; INLINE],
    overflow: Vec<Slot>,
}

impl Bucket {
    fn push(&mut self, slot: Slot) {
        match self.slots.get_mut(self.length as usize) {
            Some(free) => {
                *free = slot;
                self.length += 1;
            }
            None => self.overflow.push(slot),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().take(self.length as usize).chain(&self.overflow)
    }
}

impl Index {
    pub(crate) fn hash(&self, key: impl Hash) -> u32 {
        let hash = self.state.hash_one(key);
        (hash ^ (hash >> 32)) as u32
    }

    /// The last position whose id is the right one.
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let bucket = self.buckets.get(self.bucket_of(hash))?;
        let same_hash = bucket.iter().filter(|slot| slot.hash == hash);
        same_hash.map(|slot| slot.position as usize).filter(|&position| is_it(position)).max()
    }

    pub(crate) fn insert(&mut self, hash: u32, position: usize) {
        if self.length >= self.buckets.len() * LOAD {
            self.grow();
        }
        let bucket = self.bucket_of(hash);
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            // Positions are indices into a list of objects far larger than a slot.
            bucket.push(Slot { hash, position: position as u32 });
            self.length += 1;
        }
    }

    /// The buckets up to the largest power of two are addressed by so many bits; those beyond it have split
    /// off theirs by one bit more.
    fn bucket_of(&self, hash: u32) -> usize {
        let count = self.buckets.len().max(1);
        let mask = count.next_power_of_two() - 1;
        let bucket = hash as usize & mask;
        if bucket < count { bucket } else { bucket & (mask >> 1) }
    }

    fn grow(&mut self) {
        let count = self.buckets.len();
        self.buckets.push(Bucket::default());
        if count == 0 {
            return;
        }
        let half = (count + 1).next_power_of_two() >> 1;
        let split = count - half;
        let Some(bucket) = self.buckets.get_mut(split) else { return };
        let slots = std::mem::take(bucket);
        for &slot in slots.iter() {
            let target = self.bucket_of(slot.hash);
            if let Some(bucket) = self.buckets.get_mut(target) {
                bucket.push(slot);
            }
        }
    }
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
            index.insert(hash, position);
            for asked in [0, position / 2, position] {
                assert_eq!(index.find(index.hash(asked), |found| found == asked), Some(asked));
            }
        }
        for position in 0..3000_usize {
            assert_eq!(index.find(index.hash(position), |found| found == position), Some(position));
        }
        let longest = index.buckets.iter().map(|bucket| bucket.iter().count()).max();
        assert!(longest < Some(20), "{longest:?}");
    }

    #[test]
    fn a_copy_does_not_see_later_keys() {
        let mut index = Index::default();
        let copy = index.clone();
        let hash = index.hash("a");
        index.insert(hash, 0);
        assert_eq!(index.find(hash, |_| true), Some(0));
        assert_eq!(copy.find(hash, |_| true), None);
    }
}
