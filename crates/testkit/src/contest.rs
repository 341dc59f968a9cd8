use std::time::{Duration, Instant};

/// Times contenders that do the same work, in turns, and compares the best run of each.
///
/// Taking turns spreads the noise of a shared machine over all of them; the best of several runs is the one
/// that was disturbed least.
pub struct Contest<'w> {
    title: String,
    rounds: usize,
    contenders: Vec<Contender<'w>>,
}

struct Contender<'w> {
    name: String,
    work: Box<dyn FnMut() -> usize + 'w>,
    best: Duration,
    outcome: Option<usize>,
}

impl<'w> Contest<'w> {
    /// A contest of so many rounds.
    pub fn new(title: impl Into<String>, rounds: usize) -> Self {
        Contest { title: title.into(), rounds, contenders: Vec::new() }
    }

    /// Adds a contender. What its work returns must be the same each time, so that it is not optimised away.
    #[must_use]
    pub fn contender(mut self, name: impl Into<String>, work: impl FnMut() -> usize + 'w) -> Self {
        let work = Box::new(work);
        self.contenders.push(Contender { name: name.into(), work, best: Duration::MAX, outcome: None });
        self
    }

    /// Runs the contest, prints a table with ratios to the first contender, and gives the best times.
    pub fn run(mut self) -> Vec<(String, Duration)> {
        for _ in 0..self.rounds {
            for contender in &mut self.contenders {
                let begin = Instant::now();
                let outcome = std::hint::black_box((contender.work)());
                contender.best = contender.best.min(begin.elapsed());
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
