//! What clients may take.

use std::time::Duration;

/// What clients may take, and how long things may last.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The longest message, as a body or a frame: 16 MiB.
    pub message: usize,
    /// How many connections there may be.
    pub connections: usize,
    /// How many of them may be of one identity.
    pub connections_of_one: usize,
    /// How many streams of sessions a connection may have.
    pub streams: usize,
    /// How many bytes may wait for the client of one connection before it is closed.
    pub waiting: usize,
    /// How many bytes of long bodies may be in memory at once, of all clients.
    pub bodies: usize,
    /// How many posts of one connection may be under way at once.
    pub posts: usize,
    /// How long a WebSocket may take to its first message.
    pub first_message: Duration,
    /// How long the body of a request may pause, and a message may wait for the program. A body that goes on has ten times
    /// that in all.
    pub body: Duration,
    /// How long the program may take to answer `initialize`.
    pub opening: Duration,
    /// How long a connection is kept while nobody is there.
    pub grace: Duration,
    /// How often a sign of life is sent.
    pub keep_alive: Duration,
    /// How long a WebSocket may leave pings unanswered.
    pub silence: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            message: 16 << 20,
            connections: 16_384,
            connections_of_one: 12_288,
            streams: 256,
            waiting: 64 << 20,
            bodies: 256 << 20,
            posts: 32,
            first_message: Duration::from_secs(30),
            body: Duration::from_secs(30),
            opening: Duration::from_secs(120),
            grace: Duration::from_secs(300),
            keep_alive: Duration::from_secs(15),
            silence: Duration::from_secs(75),
        }
    }
}
