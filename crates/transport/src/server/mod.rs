//! Server side of ACP's network transports: clients connect by WebSocket or streamable HTTP, and the program
//! gets the same [`ServerConnection`] for both.
//!
//! A program implements [`Service`]: it authenticates requests, names the agents, and accepts connections
//! whose first message is `initialize`. [`router`] creates the routes `/acp` and `/acp/{agent}` for [`serve`]
//! or any other server that runs axum.
//!
//! An agent in the same process is served with [`ServerConnection::into_connection`].
//!
//! All resources that a client can consume are limited by [`ServerLimits`], and those of unauthenticated
//! connections by [`ListenerLimits`].

mod agent;
mod connection;
mod events;
mod flow;
mod http_requests;
mod limits;
mod listener;
mod local;
mod mailbox;
mod message;
mod refusal;
mod registry;
mod tls;
mod websocket;
mod write_buffer;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request};
use axum::routing::any;

pub use connection::{Incoming, Outgoing, OutgoingLine, ResumeReply, ResumeRequest, ServerConnection};
pub use flow::{Flow, Written};
pub use limits::ServerLimits;
pub use listener::{Admission, ListenerLimits, serve};
pub use mailbox::Gate;
pub use refusal::Refusal;
pub use registry::Connections;
pub use tls::{Tls, TlsError};

/// Status of a [`Refusal`].
pub use http::StatusCode;
/// Head of a request, for [`Service::identify`].
pub use http::request::Parts as HttpHead;

/// Prefix of a WebSocket subprotocol that carries a token, for browsers, which cannot set headers.
pub const BEARER_PROTOCOL: &str = "bearer.";

/// WebSocket close codes.
pub mod close_codes {
    /// Normal closure.
    pub const NORMAL: u16 = 1000;
    /// The server is shutting down.
    pub const GOING_AWAY: u16 = 1001;
    /// The first message was not `initialize`, or a frame violates the protocol.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// A binary frame contains something else than messages.
    pub const UNSUPPORTED_DATA: u16 = 1003;
    /// A text frame is not valid UTF-8, or a binary frame ends within a message.
    pub const INVALID_TEXT: u16 = 1007;
    /// A limit was exceeded.
    pub const POLICY_VIOLATION: u16 = 1008;
    /// A message is too long.
    pub const TOO_LONG: u16 = 1009;
    /// Internal error of the server.
    pub const INTERNAL_ERROR: u16 = 1011;
    /// The client is no longer authorized.
    pub const UNAUTHORIZED: u16 = 4401;
}

/// Program behind the server.
pub trait Service: Send + Sync + 'static {
    /// Authenticated identity of a client. A client cannot access connections of other identities.
    type Identity: Clone + PartialEq + Send + Sync + 'static;

    /// Authenticates a request. Called for every request, before any other part of it is processed.
    fn identify(&self, head: &HttpHead, from: SocketAddr) -> Result<Self::Identity, Refusal>;

    /// Returns true if the agent exists. `None` means the default agent.
    fn has_agent(&self, agent: Option<&str>) -> bool;

    /// Accepts a connection whose first message is `initialize`.
    fn open(&self, who: Self::Identity, agent: Option<String>, connection: ServerConnection);
}

/// State shared by all requests.
struct Server<S: Service> {
    service: Arc<S>,
    connections: Connections<S::Identity>,
    /// Permits for long bodies, in KiB.
    bodies: tokio::sync::Semaphore,
}

impl<S: Service> Server<S> {
    fn new(service: Arc<S>, limits: ServerLimits) -> Arc<Self> {
        let bodies = tokio::sync::Semaphore::new(limits.bodies >> 10);
        Arc::new(Server { service, connections: Connections::new(Arc::new(limits)), bodies })
    }
}

/// Creates routes at which one agent is served, such as those that clients with fixed addresses use, and a handle on
/// their connections.
pub fn agent_router<S: Service>(
    service: Arc<S>,
    limits: ServerLimits,
    agent: &str,
    paths: &[&str],
) -> (Router, Connections<S::Identity>) {
    let server = Server::new(service, limits);
    let connections = server.connections.clone();
    let mut router = Router::new();
    for path in paths {
        let (server, agent) = (Arc::clone(&server), agent.to_owned());
        let answer = move |request: Request| http_requests::answer(server, Some(agent), request);
        router = router.route(path, any(answer));
    }
    (router, connections)
}

/// Creates the routes `/acp` and `/acp/{agent}`, and a handle on their connections.
pub fn router<S: Service>(service: Arc<S>, limits: ServerLimits) -> (Router, Connections<S::Identity>) {
    let server = Server::new(service, limits);
    let connections = server.connections.clone();
    let named = Arc::clone(&server);
    let router = Router::new()
        .route("/acp", any(move |request: Request| http_requests::answer(server, None, request)))
        .route(
            "/acp/{agent}",
            any(move |Path(agent): Path<String>, request: Request| {
                http_requests::answer(named, Some(agent), request)
            }),
        );
    (router, connections)
}
