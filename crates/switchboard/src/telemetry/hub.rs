//! Telemetry of the sessions of a hub.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard_hub::Listener;
use switchboard_store::Channel;
use switchboard_telemetry::{Connection, Telemetry, session_of_prompt};

/// Hears the logs of a hub. Clones are the same.
#[derive(Clone)]
pub(crate) struct HubTelemetry {
    telemetry: Telemetry,
    /// What is read of each session, by the hub's ids, as long as it has an agent.
    sessions: Arc<Mutex<HashMap<String, Connection>>>,
}

impl HubTelemetry {
    pub(crate) fn new(telemetry: Telemetry) -> Self {
        HubTelemetry { telemetry, sessions: Arc::default() }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Connection>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads something of a session.
    fn with<T>(&self, session: &str, read: impl FnOnce(&mut Connection) -> T) -> T {
        let mut sessions = self.sessions();
        if let Some(connection) = sessions.get_mut(session) {
            return read(connection);
        }
        let fresh = sessions.entry(session.to_owned()).or_insert_with(|| self.telemetry.session(session));
        read(fresh)
    }

    /// The hub has ended: sends what is left.
    pub(crate) fn end(&self, patience: Duration) {
        for mut connection in std::mem::take(&mut *self.sessions()).into_values() {
            connection.end();
        }
        self.telemetry.end(patience);
    }
}

impl Listener for HubTelemetry {
    fn record_appended(&mut self, session: &str, channel: Channel, text: &str) {
        match (channel, channel.message()) {
            (_, Some((from, false))) => self.with(session, |connection| connection.message(from, 2, text)),
            (Channel::Hub, _) => self.with(session, |connection| connection.note(text)),
            (Channel::Process, _) => {
                if let Some(mut connection) = self.sessions().remove(session) {
                    connection.end();
                }
            }
            _ => {}
        }
    }

    fn client_message(&mut self, line: &str) -> Option<String> {
        let session = session_of_prompt(line)?;
        // Clients may name any session; what counts is what the hub has written of one.
        self.sessions().get_mut(&session)?.mark_prompt(line)
    }
}
