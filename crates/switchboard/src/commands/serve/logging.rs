//! What an operator is told, on standard error.

use switchboard_store::Moment;

use crate::standard_error;

/// How lines of the log look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
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

    /// Says what has happened. Text of agents may be in it, so nothing in it moves a terminal's cursor.
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
