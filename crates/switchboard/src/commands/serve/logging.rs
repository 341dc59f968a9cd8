//! Messages for operators on standard error.

use switchboard_store::Moment;

use crate::standard_error;

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
}

/// Writes the log.
#[derive(Debug, Clone)]
pub(super) struct Logger {
    format: LogFormat,
}

impl Logger {
    pub(super) fn new(format: LogFormat) -> Self {
        Logger { format }
    }

    /// Logs an event. It may contain text of agents, so control characters are replaced.
    pub(super) fn say(&self, what: &str) {
        let [date, time] = Moment::now().date_and_time();
        let line = match self.format {
            LogFormat::Json => {
                serde_json::json!({"time": format!("{date}T{time}Z"), "message": what}).to_string()
            }
            LogFormat::Text => {
                let what: String = what
                    .chars()
                    .map(|character| if character.is_control() { ' ' } else { character })
                    .collect();
                format!("{date} {time} {what}")
            }
        };
        standard_error::say(line);
    }
}
