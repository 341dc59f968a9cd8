//! Limits for clients.

use std::time::Duration;

/// Limits and timeouts for clients.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Maximum message length in bytes, as a body or a WebSocket message. Default: 16 MiB.
    pub message: usize,
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections per identity.
    pub connections_of_one: usize,
    /// Maximum number of session streams per connection.
    pub streams: usize,
    /// Maximum number of unread bytes queued for a connection before it is closed.
    pub waiting: usize,
    /// Maximum number of bytes of long bodies in memory, for all clients together.
    pub bodies: usize,
    /// Maximum number of concurrent posts per connection.
    pub posts: usize,
    /// Time limit for the first message on a WebSocket.
    pub first_message: Duration,
    /// Maximum pause within a request body, and maximum time that a message may wait for the program. A
    /// complete body may take ten times as long.
    pub body: Duration,
    /// Time limit for the program's response to `initialize`.
    pub opening: Duration,
    /// Time for which a connection without users is kept.
    pub grace: Duration,
    /// Interval of pings and keep-alive comments.
    pub keep_alive: Duration,
    /// Time without a pong after which a WebSocket counts as broken.
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
