//! Placeholder without the feature, with installation advice.

use std::time::Duration;

use switchboard_acp::Side;

use crate::outcome::CommandError;

/// Uninhabited.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Telemetry {}

/// Uninhabited, which only this module knows: otherwise all code that uses it would count as unreachable.
pub(crate) struct Connection(Telemetry);

/// Uninhabited.
#[derive(Debug, Clone)]
pub(crate) enum HubTelemetry {}

/// Fails if telemetry was requested on the command line. The environment variables may be meant for other
/// programs.
pub(super) fn start(
    endpoint: Option<&str>,
    _parent: Option<String>,
) -> Result<Option<Telemetry>, CommandError> {
    match endpoint {
        None => Ok(None),
        Some(_) => Err(CommandError::usage("this program was built without telemetry")
            .hint("released packages include it; see docs/install.md")
            .hint("from source: cargo install --path crates/switchboard --features otlp")),
    }
}

impl Telemetry {
    pub(crate) fn connection(&self) -> Connection {
        match *self {}
    }

    pub(crate) fn end(&self, _patience: Duration) {
        match *self {}
    }
}

impl Connection {
    pub(crate) fn with_agent(self, _agent: &str) -> Self {
        match self.0 {}
    }

    pub(crate) fn message(&mut self, _from: Side, _version: u16, _text: &str) {
        match self.0 {}
    }

    pub(crate) fn note(&mut self, _note: &str) {
        match self.0 {}
    }

    pub(crate) fn mark_prompt(&mut self, _line: &str) -> Option<String> {
        match self.0 {}
    }

    pub(crate) fn prepare(&mut self, _session: &str) -> Option<String> {
        match self.0 {}
    }

    pub(crate) fn end(&mut self) {
        match self.0 {}
    }
}

impl HubTelemetry {
    pub(crate) fn new(telemetry: Telemetry) -> Self {
        match telemetry {}
    }

    pub(crate) fn end(&self, _patience: Duration) {
        match *self {}
    }
}

impl switchboard_hub::Listener for HubTelemetry {
    fn record_appended(&mut self, _session: &str, _channel: switchboard_store::Channel, _text: &str) {
        match *self {}
    }

    fn client_message(&mut self, _line: &str) -> Option<String> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_refused_with_advice_and_no_endpoint_is_no_error() {
        let error = start(Some("http://127.0.0.1:4318"), None).unwrap_err();
        assert!(error.to_string().contains("built without telemetry"), "{error}");
        assert!(start(None, None).unwrap().is_none());
    }
}
