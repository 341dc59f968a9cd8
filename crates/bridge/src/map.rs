//! Maps on the way of every message.

/// A map whose keys peers choose: seeded anew in every process, and fast for short keys.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
/// The same for a set.
pub(crate) type HashSet<T> = std::collections::HashSet<T, foldhash::fast::RandomState>;
