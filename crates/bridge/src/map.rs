//! Maps on the way of every message.

/// A map whose keys peers choose: seeded anew in every process, fast for short keys, and
/// without a copy of a key that it has.
pub(crate) type HashMap<K, V> = hashbrown::HashMap<K, V, foldhash::fast::RandomState>;
/// The same for a set.
pub(crate) type HashSet<T> = hashbrown::HashSet<T, foldhash::fast::RandomState>;
