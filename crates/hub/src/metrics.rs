//! Metrics in the Prometheus text format.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::core::Counts;

/// Upper bounds of the histogram buckets for append durations, in microseconds.
const CLASSES: [u64; 9] = [50, 100, 250, 500, 1_000, 5_000, 25_000, 100_000, 1_000_000];

/// Counters of a running hub.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) to_agents: AtomicU64,
    pub(crate) from_agents: AtomicU64,
    pub(crate) to_clients: AtomicU64,
    pub(crate) from_clients: AtomicU64,
    classes: [AtomicU64; CLASSES.len()],
    appends: AtomicU64,
    append_micros: AtomicU64,
}

impl Metrics {
    /// Records the duration of a durable append.
    pub(crate) fn appended(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        for (class, count) in CLASSES.iter().zip(&self.classes) {
            if micros <= *class {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.appends.fetch_add(1, Ordering::Relaxed);
        self.append_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns all metrics in the Prometheus text format.
    pub(crate) fn text(&self, counts: &Counts) -> String {
        let mut out = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, values: &[(&str, f64)]| {
            let _ = writeln!(out, "# HELP switchboard_{name} {help}\n# TYPE switchboard_{name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(out, "switchboard_{name}{labels} {value}");
            }
        };
        let Counts { working, waiting, idle, dormant, processes, subscriptions, connections, lag, dropped } =
            counts;
        metric(
            "sessions",
            "gauge",
            "Sessions by activity.",
            &[
                ("{state=\"working\"}", *working as f64),
                ("{state=\"waiting\"}", *waiting as f64),
                ("{state=\"idle\"}", *idle as f64),
                ("{state=\"rest\"}", *dormant as f64),
            ],
        );
        metric("hosts", "gauge", "Running agent processes.", &[("", *processes as f64)]);
        metric("connections", "gauge", "Connected clients.", &[("", *connections as f64)]);
        metric("attachments", "gauge", "Subscribers of sessions.", &[("", *subscriptions as f64)]);
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        metric(
            "messages_total",
            "counter",
            "Messages by direction.",
            &[
                ("{direction=\"to_agent\"}", count(&self.to_agents)),
                ("{direction=\"from_agent\"}", count(&self.from_agents)),
                ("{direction=\"to_client\"}", count(&self.to_clients)),
                ("{direction=\"from_client\"}", count(&self.from_clients)),
            ],
        );
        let dropped: Vec<(String, f64)> = dropped
            .iter()
            .map(|(reason, count)| (format!("{{reason=\"{reason}\"}}"), *count as f64))
            .collect();
        let dropped: Vec<(&str, f64)> =
            dropped.iter().map(|(labels, count)| (labels.as_str(), *count)).collect();
        metric("dropped_messages_total", "counter", "Dropped messages by reason.", &dropped);
        metric(
            "attachment_lag_seconds",
            "gauge",
            "Time for which the slowest subscriber has been behind.",
            &[("", *lag as f64 / 1e3)],
        );
        let _ = writeln!(out, "# HELP switchboard_append_seconds Time until appended records are durable.");
        let _ = writeln!(out, "# TYPE switchboard_append_seconds histogram");
        for (class, number) in CLASSES.iter().zip(&self.classes) {
            let (class, number) = (*class as f64 / 1e6, count(number));
            let _ = writeln!(out, "switchboard_append_seconds_bucket{{le=\"{class}\"}} {number}");
        }
        let all = count(&self.appends);
        let _ = writeln!(out, "switchboard_append_seconds_bucket{{le=\"+Inf\"}} {all}");
        let _ = writeln!(out, "switchboard_append_seconds_sum {}", count(&self.append_micros) / 1e6);
        let _ = writeln!(out, "switchboard_append_seconds_count {all}");
        out
    }
}
