//! Who hears what the sessions of a hub amount to.

use switchboard_store::Channel;

/// Hears what is written into the logs. It is called in the middle of the hub's work, so it must be quick.
pub trait Listener: Send {
    /// A record has been added to the log of a session. Messages are of version 2, with the agent's own ids;
    /// [`Channel::Process`] is why the session has no agent any more.
    fn written(&mut self, session: &str, channel: Channel, text: &str);

    /// What a client says, in version 2, before anything is done about it. Gives what is taken in its place, if something is.
    fn said(&mut self, line: &str) -> Option<String>;
}
