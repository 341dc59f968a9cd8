//! Observer of the hub's logs and client messages.

use switchboard_store::Channel;

use crate::session_event::SessionEvent;

/// Observer of the logs. Called on the hub's main task, so it must return quickly.
pub trait Listener: Send {
    /// Called after a record was appended to the log of a session. Messages are in version 2, with the agent's own ids.
    /// A record of [`Channel::Process`] contains the reason why the session has lost its agent.
    fn record_appended(&mut self, session: &str, channel: Channel, text: &str);

    /// Called with a message of a client, in version 2, before it is handled. Returns a replacement, if any.
    fn client_message(&mut self, line: &str) -> Option<String>;

    /// Called with an event of a session whose record is durable. Events are emitted only if
    /// [`Listener::wants_events`] returns true.
    fn session_event(&mut self, event: SessionEvent) {
        let _ = event;
    }

    /// Returns whether [`Listener::session_event`] is used. Asked once, when the hub starts.
    fn wants_events(&self) -> bool {
        false
    }
}
