//! Hash maps for per-message lookups.

/// A map with keys that peers choose: randomly seeded per process against collision attacks, fast for short
/// keys, and without copying a key that already exists.
pub(crate) type HashMap<K, V> = hashbrown::HashMap<K, V, foldhash::fast::RandomState>;
/// A set with the same properties.
pub(crate) type HashSet<T> = hashbrown::HashSet<T, foldhash::fast::RandomState>;
