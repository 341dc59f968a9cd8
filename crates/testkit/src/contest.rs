use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of this thread. Unlike wall-clock time it excludes other processes, so it suits
/// measurements of one thread on a shared machine.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
}

/// Times contenders that do the same work, alternating, and compares the best run of each.
///
/// Alternating spreads the noise of a shared machine over all of them; the best of several runs is the least
/// disturbed one.
pub struct Contest<'w> {
    title: String,
    rounds: usize,
    contenders: Vec<Contender<'w>>,
    one_thread: bool,
}

struct Contender<'w> {
    name: String,
    work: Box<dyn FnMut() -> usize + 'w>,
    best: Duration,
    outcome: Option<usize>,
}

impl<'w> Contest<'w> {
    /// Creates a contest with so many rounds.
    pub fn new(title: impl Into<String>, rounds: usize) -> Self {
        Contest { title: title.into(), rounds, contenders: Vec::new(), one_thread: false }
    }

    /// Measures [`thread_time`] instead of wall-clock time, for work on one thread.
    #[must_use]
    pub fn of_one_thread(mut self) -> Self {
        self.one_thread = true;
        self
    }

    /// Adds a contender. Its work must return the same value each time, so that it is not optimized away.
    #[must_use]
    pub fn contender(mut self, name: impl Into<String>, work: impl FnMut() -> usize + 'w) -> Self {
        let work = Box::new(work);
        self.contenders.push(Contender { name: name.into(), work, best: Duration::MAX, outcome: None });
        self
    }

    /// Runs the contest, prints a table with ratios to the first contender, and returns the best times.
    pub fn run(mut self) -> Vec<(String, Duration)> {
        for _ in 0..self.rounds {
            for contender in &mut self.contenders {
                let (begin, worked) = (Instant::now(), thread_time());
                let outcome = std::hint::black_box((contender.work)());
                let time = if self.one_thread { thread_time() - worked } else { begin.elapsed() };
                contender.best = contender.best.min(time);
                assert_eq!(
                    *contender.outcome.get_or_insert(outcome),
                    outcome,
                    "{} is not stable",
                    contender.name
                );
            }
        }
        println!("\n{}", self.title);
        let first = self.contenders.first().map_or(Duration::ZERO, |contender| contender.best);
        for contender in &self.contenders {
            let ratio = contender.best.as_secs_f64() / first.as_secs_f64();
            let milliseconds = contender.best.as_secs_f64() * 1000.0;
            println!("  {:<46} {milliseconds:>9.2} ms  {ratio:>6.2} x", contender.name);
        }
        self.contenders.into_iter().map(|contender| (contender.name, contender.best)).collect()
    }
}
