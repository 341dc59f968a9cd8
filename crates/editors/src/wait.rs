//! Waiting for conditions that nothing announces.

use std::time::{Duration, Instant};

/// Timeout for a condition. Long, because test machines are busy; passing tests never wait that long.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until a condition holds, and returns its value.
///
/// # Panics
///
/// After two minutes, with the name of the condition and the text of `state`.
#[track_caller]
pub fn wait_until<T>(
    awaited: &str,
    state: impl Fn() -> String,
    mut condition: impl FnMut() -> Option<T>,
) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begin.elapsed() < LIMIT, "waited for {awaited} in vain:\n{}", state());
        // Nothing announces it.
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
