use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use switchboard_acp::Moment;
use switchboard_acp::display::elapsed;
use switchboard_notify::Outcomes;
use switchboard_transport::{Remote, RemoteError};

use crate::commands::connect::{failed, with_token};
use crate::commands::fold::text::shown;
use crate::commands::notifications::in_words;
use crate::commands::serve::PORT;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::stdio;

/// Timeout for the hub.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Show the status of a hub
///
/// Prints the number of sessions by state, of agent processes and of clients, and the lag of the slowest
/// client. The same data is available for Prometheus at /metrics of the hub. Needs a token of any role, from
/// --token-file or from the variable SWITCHBOARD_TOKEN.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// URL of the hub, as for `connect`, instead of http://127.0.0.1:4173
    url: Option<String>,

    /// File that contains the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    stdio::run_alone(status(arguments))
}

async fn status(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let url = match &arguments.url {
        Some(url) => metrics_of(url),
        None => format!("http://127.0.0.1:{PORT}/metrics"),
    };
    let remote = Remote::new(&url).map_err(|error| CommandError::usage(error.to_string()))?;
    let remote = with_token(remote, arguments.token_file.as_deref())?;
    let text = match tokio::time::timeout(TIMEOUT, remote.get()).await {
        Ok(Ok(text)) => text,
        Ok(Err(error @ RemoteError::Unreachable { .. })) => {
            return Err(failed(&error).hint("is `switchboard serve` running, and does it listen there?"));
        }
        Ok(Err(error)) => return Err(failed(&error)),
        Err(_) => {
            let seconds = TIMEOUT.as_secs();
            return Err(CommandError::failed(format!("{url} did not answer within {seconds} seconds")));
        }
    };
    let metrics = Metrics::parse(&text);
    if metrics.0.is_empty() {
        let problem = format!("{url} answered, but is not a hub");
        return Err(CommandError::failed(problem).hint("use the URL that `switchboard serve` prints"));
    }
    let mut output = std::io::stdout().lock();
    output.write_all(metrics.in_words().as_bytes()).and_then(|()| output.flush()).map_err(write_error)?;
    Ok(Outcome::Fine)
}

/// Returns the metrics URL for any URL of a hub.
pub(in crate::commands) fn metrics_of(url: &str) -> String {
    let url = url.trim();
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let scheme = match scheme {
        "ws" => "http",
        "wss" => "https",
        other => other,
    };
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // A proxy may serve the hub below another path.
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if let Some(end) = parts.iter().rposition(|part| matches!(*part, "acp" | "metrics")) {
        parts.truncate(end);
    }
    parts.push("metrics");
    format!("{scheme}://{place}/{}", parts.join("/"))
}

/// Parsed metrics: by name, the value of each set of labels.
#[derive(Debug, Default, PartialEq)]
struct Metrics(BTreeMap<String, Vec<(Labels, f64)>>);

/// Returns the targets of notifications whose last attempt failed, with the outcomes in words.
pub(in crate::commands) fn failing_targets(metrics: &str) -> Vec<String> {
    let targets = Metrics::parse(metrics).notifications().into_iter();
    let is_failing = |outcomes: &Outcomes| {
        let failure = outcomes.last_failure.as_ref().map(|(_, at)| *at);
        failure.is_some_and(|failure| outcomes.last_success.is_none_or(|success| success < failure))
    };
    let failing = targets.filter(|(_, outcomes)| is_failing(outcomes));
    failing.map(|(name, outcomes)| format!("{name}: {}", in_words(&outcomes, Moment::now()))).collect()
}

/// The labels of a value.
type Labels = BTreeMap<String, String>;

const PREFIX: &str = "switchboard_";

impl Metrics {
    /// Parses the text format. Unknown lines are ignored.
    fn parse(text: &str) -> Self {
        let mut metrics = Metrics::default();
        for (name, labels, value) in text.lines().filter_map(sample) {
            if let Some(name) = name.strip_prefix(PREFIX) {
                metrics.0.entry(name.to_owned()).or_default().push((labels, value));
            }
        }
        metrics
    }

    /// Returns the sum over all labels; `None` if the metric does not exist.
    fn total(&self, name: &str) -> Option<f64> {
        Some(self.0.get(name)?.iter().map(|(_, value)| value).sum())
    }

    /// Returns the values by one label, in order.
    fn by<'a>(&'a self, name: &str, label: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        let samples = self.0.get(name).into_iter().flatten();
        samples.filter_map(move |(labels, value)| Some((labels.get(label)?.as_str(), *value)))
    }

    /// Returns the outcomes of notifications by target.
    fn notifications(&self) -> BTreeMap<String, Outcomes> {
        let mut targets: BTreeMap<String, Outcomes> = BTreeMap::new();
        for (labels, value) in self.0.get("notifications_total").into_iter().flatten() {
            let (Some(target), Some(outcome)) = (labels.get("target"), labels.get("outcome")) else {
                continue;
            };
            let outcomes = targets.entry(target.clone()).or_default();
            // The values are counts.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let count = *value as u64;
            match outcome.as_str() {
                "sent" => outcomes.sent = count,
                "suppressed" => outcomes.suppressed = count,
                "failed" => outcomes.failed = count,
                "dropped" => outcomes.dropped = count,
                _ => {}
            }
        }
        for (labels, seconds) in self.0.get("notification_time_seconds").into_iter().flatten() {
            let outcomes = labels.get("target").and_then(|target| targets.get_mut(target));
            let (Some(outcomes), Some(outcome)) = (outcomes, labels.get("outcome")) else { continue };
            #[allow(clippy::cast_possible_truncation)]
            let time = (seconds * 1000.0) as i64;
            match outcome.as_str() {
                "sent" => outcomes.last_success = Some(time),
                "failed" => {
                    let reason = labels.get("reason").cloned().unwrap_or_default();
                    outcomes.last_failure = Some((reason, time));
                }
                _ => {}
            }
        }
        targets
    }

    /// Formats one line per topic.
    fn in_words(&self) -> String {
        let mut lines = String::new();
        let mut line = |what: &str, words: Option<String>| {
            if let Some(words) = words {
                lines.push_str(&format!("{what:<12}{}\n", shown(&words).replace('\n', " ")));
            }
        };
        let each = |name: &str, label: &str, in_words: &dyn Fn(&str) -> String| {
            let parts: Vec<String> = self
                .by(name, label)
                .map(|(value, number)| format!("{} {}", whole(number), in_words(value)))
                .collect();
            parts.join(", ")
        };
        line(
            "sessions",
            self.total("sessions").map(|total| {
                let states = each("sessions", "state", &|state| match state {
                    "waiting" => "waiting for an answer".to_owned(),
                    "rest" => "dormant".to_owned(),
                    other => other.to_owned(),
                });
                if states.is_empty() { whole(total) } else { format!("{}: {states}", whole(total)) }
            }),
        );
        line("agents", self.total("hosts").map(|hosts| format!("{} running", whole(hosts))));
        line("clients", self.total("connections").map(|number| format!("{} connected", whole(number))));
        line(
            "attachments",
            self.total("attachments").map(|attachments| {
                let behind = self.total("attachment_lag_seconds").map(seconds);
                let behind = behind.map_or_else(String::new, |lag| format!(", the slowest {lag} behind"));
                format!("{}{behind}", whole(attachments))
            }),
        );
        line(
            "messages",
            self.total("messages_total").map(|total| {
                let directions =
                    each("messages_total", "direction", &|direction| direction.replace('_', " ") + "s");
                if directions.is_empty() { whole(total) } else { directions }
            }),
        );
        line(
            "log",
            self.total("append_seconds_count").map(|count| {
                let sum = self.total("append_seconds_sum").filter(|_| count > 0.0);
                let average = sum.map(|sum| format!(", {} each", seconds(sum / count)));
                format!("{} appends{}", whole(count), average.unwrap_or_default())
            }),
        );
        for (target, outcomes) in self.notifications() {
            line("notify", Some(format!("{target}: {}", in_words(&outcomes, Moment::now()))));
        }
        lines
    }
}

/// Formats a whole number.
fn whole(number: f64) -> String {
    format!("{number:.0}")
}

fn seconds(seconds: f64) -> String {
    elapsed(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Parses a line of the text format: name, labels and value. A timestamp after that is ignored.
fn sample(line: &str) -> Option<(&str, BTreeMap<String, String>, f64)> {
    let line = line.trim();
    let end = line.find(|character: char| character == '{' || character.is_whitespace())?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    rest = rest.trim_start();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside.trim_start();
        loop {
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once('=')?;
            let (value, after) = quoted(after.trim_start())?;
            labels.insert(label.trim().to_owned(), value);
            rest = after.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    (!name.is_empty() && !name.starts_with('#')).then_some((name, labels, value))
}

/// Splits a quoted value from the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.strip_prefix('"')?.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[place + 2..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_is_found_by_any_of_its_addresses() {
        for (url, metrics) in [
            ("http://127.0.0.1:4173", "http://127.0.0.1:4173/metrics"),
            ("http://127.0.0.1:4173/", "http://127.0.0.1:4173/metrics"),
            ("ws://127.0.0.1:4173/acp", "http://127.0.0.1:4173/metrics"),
            ("wss://example.com/acp/claude?x=1", "https://example.com/metrics"),
            ("https://example.com/acp-hub/acp/x", "https://example.com/acp-hub/metrics"),
            ("https://example.com/metrics", "https://example.com/metrics"),
            ("example.com:4173", "http://example.com:4173/metrics"),
            ("[::1]:4173", "http://[::1]:4173/metrics"),
        ] {
            assert_eq!(metrics_of(url), metrics, "{url}");
        }
    }

    #[test]
    fn the_text_format_is_read_tolerantly() {
        let text = "# HELP switchboard_hosts x\n# TYPE switchboard_hosts gauge\n\r\n\
            switchboard_hosts 3\n  switchboard_connections\t4 1700000000000\n\
            switchboard_sessions{state=\"working\",} 2\nswitchboard_sessions { state = \"a\\\"}\\n\\\\b\" , x=\"é\" } 1e1\n\
            process_cpu_seconds 7\nswitchboard_broken{state=\"open 1\nswitchboard_broken{=} 1\nswitchboard_broken x\n\
            switchboard_broken\n{} 1\n#\nswitchboard_odd NaN\nswitchboard_odd +Inf\n";
        let metrics = Metrics::parse(text);
        assert_eq!((metrics.total("hosts"), metrics.total("connections")), (Some(3.0), Some(4.0)));
        let states: Vec<_> = metrics.by("sessions", "state").collect();
        assert_eq!(states, [("working", 2.0), ("a\"}\n\\b", 10.0)]);
        assert_eq!((metrics.total("broken"), metrics.total("nothing")), (None, None));
        assert_eq!(metrics.0.len(), 4, "{metrics:?}");
        assert!(!metrics.in_words().contains('\u{1b}'));
        assert_eq!(Metrics::parse("<html>{\"a\": 1}</html>\n\"{ 1").0.len(), 0);
    }

    #[test]
    fn outcomes_of_notifications_are_shown_and_failing_targets_found() {
        let text = "switchboard_notifications_total{target=\"ntfy\",outcome=\"sent\"} 12\n\
            switchboard_notifications_total{target=\"ntfy\",outcome=\"suppressed\"} 1\n\
            switchboard_notifications_total{target=\"hook\",outcome=\"sent\"} 3\n\
            switchboard_notification_time_seconds{target=\"ntfy\",outcome=\"failed\",reason=\"403\"} 5\n\
            switchboard_notification_time_seconds{target=\"hook\",outcome=\"failed\",reason=\"503\"} 5\n\
            switchboard_notification_time_seconds{target=\"hook\",outcome=\"sent\",reason=\"\"} 6\n\
            switchboard_notification_time_seconds{target=\"unknown\",outcome=\"failed\"} 6\n";
        let words = Metrics::parse(text).in_words();
        assert_eq!(
            words,
            "notify      hook: 3 sent, last failed 503 1970-01-01\n\
             notify      ntfy: 12 sent, 1 suppressed, last failed 403 1970-01-01\n"
        );
        assert_eq!(failing_targets(text), ["ntfy: 12 sent, 1 suppressed, last failed 403 1970-01-01"]);
    }

    #[test]
    fn only_what_the_hub_tells_is_shown() {
        assert_eq!(Metrics::parse("switchboard_hosts 1").in_words(), "agents      1 running\n");
        let odd =
            Metrics::parse("switchboard_sessions{state=\"\u{1b}[2Jnew\nline\"} 1\nswitchboard_sessions 2");
        assert!(!odd.in_words().contains('\u{1b}'), "{}", odd.in_words());
        assert_eq!([0.0, 0.25, -1.0, f64::NAN].map(seconds), ["0 s", "250 ms", "0 s", "0 s"]);
    }
}
