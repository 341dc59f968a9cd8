//! Telemetry of a hub's sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard_hub::Listener;
use switchboard_store::Channel;
use switchboard_telemetry::{Connection, Telemetry, session_of_prompt};

/// Observes the logs of a hub. Clones share it.
#[derive(Clone)]
pub(crate) struct HubTelemetry {
    telemetry: Telemetry,
    /// The telemetry connection of each session with an agent, by the hub's ids.
    sessions: Arc<Mutex<HashMap<String, Connection>>>,
}

impl HubTelemetry {
    pub(crate) fn new(telemetry: Telemetry) -> Self {
        HubTelemetry { telemetry, sessions: Arc::default() }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Connection>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a function with the connection of a session.
    fn with<T>(&self, session: &str, read: impl FnOnce(&mut Connection) -> T) -> T {
        let mut sessions = self.sessions();
        if let Some(connection) = sessions.get_mut(session) {
            return read(connection);
        }
        let fresh = sessions.entry(session.to_owned()).or_insert_with(|| self.telemetry.session(session));
        read(fresh)
    }

    /// Ends all connections with the hub and sends the remaining data.
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
        // Clients may name any session; only sessions in the hub's log count.
        self.sessions().get_mut(&session)?.mark_prompt(line)
    }
}
