//! Deterministic faults on the way to a client.

use std::time::Duration;

/// A fault. Each requested one affects about one line in eight, except for the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Fault {
    /// Omit a line
    Drop,
    /// Send a line twice
    Duplicate,
    /// Send a line after the next one
    Reorder,
    /// Delay a line and all following ones by half a second
    Delay,
    /// Cut a line in the middle
    Truncate,
    /// Insert an invalid line
    Noise,
}

const FAULT_INTERVAL: u64 = 8;
const DELAY: Duration = Duration::from_millis(500);

/// Output of the fault injection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Line(String),
    Pause(Duration),
}

/// Injects faults into lines.
pub(super) struct Faults {
    kinds: Vec<Fault>,
    state: u64,
    held: Option<String>,
}

impl Faults {
    pub(super) fn new(kinds: Vec<Fault>, seed: u64) -> Self {
        Faults { kinds, state: seed, held: None }
    }

    /// Returns the output for a line.
    pub(super) fn apply(&mut self, line: String) -> Vec<Part> {
        let mut line = Some(line);
        let mut parts = Vec::new();
        let held = self.held.take();
        for place in 0..self.kinds.len() {
            let kind = self.kinds[place];
            if !self.random().is_multiple_of(FAULT_INTERVAL) {
                continue;
            }
            let Some(text) = &mut line else { break };
            match kind {
                Fault::Drop => line = None,
                Fault::Duplicate => parts.push(Part::Line(text.clone())),
                Fault::Reorder if self.held.is_none() => self.held = line.take(),
                Fault::Reorder => {}
                Fault::Delay => parts.push(Part::Pause(DELAY)),
                Fault::Truncate => text.truncate(text.floor_char_boundary(text.len() / 2)),
                Fault::Noise => parts.push(Part::Line("Warning: this line is not a message".to_owned())),
            }
        }
        parts.extend(line.map(Part::Line));
        parts.extend(held.map(Part::Line));
        parts
    }

    /// Returns the held line when no more lines follow for now.
    pub(super) fn rest(&mut self) -> Option<String> {
        self.held.take()
    }

    /// Returns the next random number of the seed (SplitMix64).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Faults, Part};

    fn lines(kinds: &[Fault]) -> Vec<String> {
        let mut faults = Faults::new(kinds.to_vec(), 1);
        let mut lines: Vec<String> = (0..100)
            .flat_map(|number| faults.apply(format!("\"line {number}\"")))
            .map(|part| match part {
                Part::Line(line) => line,
                Part::Pause(_) => "pause".to_owned(),
            })
            .collect();
        lines.extend(faults.rest());
        lines
    }

    #[test]
    fn each_fault_does_what_it_says_and_the_same_each_time() {
        let whole: Vec<String> = (0..100).map(|number| format!("\"line {number}\"")).collect();
        assert_eq!(lines(&[]), whole);
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        let dropped = lines(&[Fault::Drop]);
        assert!(dropped.len() < 100 && dropped.len() > 50);
        let mut twice = lines(&[Fault::Duplicate]);
        assert!(twice.len() > 100);
        twice.dedup();
        assert_eq!(twice, whole);
        let reordered = lines(&[Fault::Reorder]);
        assert!(reordered != whole && sorted(reordered) == sorted(whole.clone()));
        assert!(lines(&[Fault::Delay]).contains(&"pause".to_owned()));
        let cut = lines(&[Fault::Truncate]);
        assert!(cut.len() == 100 && cut.iter().any(|line| !line.ends_with('"')));
        let noisy = lines(&[Fault::Noise]);
        assert!(noisy.len() > 100 && noisy.iter().filter(|line| line.starts_with('"')).eq(&whole));
        assert_eq!(lines(&[Fault::Drop, Fault::Noise]), lines(&[Fault::Drop, Fault::Noise]));
    }
}
