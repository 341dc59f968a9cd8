//! Message rates over time.

use switchboard_store::Channel;

/// Maximum number of intervals.
const MAX_SPANS: usize = 600;

/// Messages and bytes over time, from and to the agent.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    /// Start of the first interval, in Unix milliseconds.
    began: i64,
    /// Length of an interval in milliseconds.
    width: i64,
    spans: Vec<RateInterval>,
}

/// Messages and bytes in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RateInterval {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Rates {
    /// Counts a message. Times before the start, after a clock change, count for the first interval.
    pub(crate) fn count(&mut self, time: i64, channel: Channel, bytes: usize) {
        if channel.message().is_none() {
            return;
        }
        if self.spans.is_empty() {
            (self.began, self.width) = (time, 100);
        }
        let mut place = self.place(time);
        while place >= MAX_SPANS {
            self.widen();
            place = self.place(time);
        }
        if self.spans.len() <= place {
            self.spans.resize(place + 1, RateInterval::default());
        }
        let span = &mut self.spans[place];
        span.messages += 1;
        span.bytes += bytes as u64;
    }

    fn place(&self, time: i64) -> usize {
        usize::try_from(time.saturating_sub(self.began) / self.width).unwrap_or(0)
    }

    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        self.spans = self
            .spans
            .chunks(2)
            .map(|pair| RateInterval {
                messages: pair.iter().map(|span| span.messages).sum(),
                bytes: pair.iter().map(|span| span.bytes).sum(),
            })
            .collect();
    }

    /// Returns the length of an interval in milliseconds, and the intervals.
    pub(crate) fn spans(&self) -> (i64, &[RateInterval]) {
        (self.width, &self.spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_has_wide_spans_and_loses_nothing() {
        let mut rates = Rates::default();
        for second in 0..3600 {
            rates.count(second * 1000, Channel::ToClient, 10);
        }
        rates.count(-5, Channel::ToAgent, 1);
        rates.count(0, Channel::StandardError, 1000);
        let (width, spans) = rates.spans();
        assert!(spans.len() <= MAX_SPANS && width * (spans.len() as i64) >= 3_599_000);
        assert_eq!(spans.iter().map(|span| span.messages).sum::<u64>(), 3601);
        assert_eq!(spans.iter().map(|span| span.bytes).sum::<u64>(), 36_001);
    }

    #[test]
    fn a_clock_that_jumps_far_ahead_does_not_hang() {
        let mut rates = Rates::default();
        rates.count(0, Channel::ToClient, 1);
        rates.count(i64::MAX, Channel::ToClient, 1);
        assert!(rates.spans().1.len() <= MAX_SPANS);
    }
}
