//! Unique values.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a unique text: 64 bits derived from random keys of the operating system, the time, the process id
/// and a counter. Unique across processes, but not a secret.
pub fn unique_salt() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    // If the clock is before 1970, the keys and the counter still make it unique.
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!("{:016x}", RandomState::new().hash_one((time, std::process::id(), call)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn salts_of_many_threads_are_all_different() {
        let make = || std::iter::repeat_with(super::unique_salt).take(10_000).collect::<Vec<_>>();
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(make)).collect();
        let mut seen = HashSet::new();
        for salt in threads.into_iter().flat_map(|thread| thread.join().expect("a thread")) {
            assert!(salt.len() == 16 && seen.insert(salt.clone()), "{salt} twice");
        }
    }
}
