//! The server's role of ACP's transports: clients come by WebSocket or by streamable HTTP, and the program sees the
//! same [`ServerConnection`] either way.
//!
//! A program implements [`Service`]: it says who may come in, which agents there are, and takes connections whose first
//! message is `initialize`. [`router`] makes the routes `/acp` and `/acp/{agent}` of it, for [`serve`] or any other
//! server that axum runs on.
//!
//! An agent that lives in the program itself is served on [`ServerConnection::into_connection`].
//!
//! Everything that a client can make grow has a limit in [`ServerLimits`], and what it may keep open without having said
//! who it is one in [`ListenerLimits`].

mod agent;
mod collecting;
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

/// Says in a [`Refusal`] why.
pub use http::StatusCode;
/// The head of a request, for [`Service::identify`].
pub use http::request::Parts as HttpHead;

/// The codes with which WebSockets are closed.
pub mod close_codes {
    /// All is done.
    pub const NORMAL: u16 = 1000;
    /// The server is shutting down.
    pub const GOING_AWAY: u16 = 1001;
    /// The first message was not `initialize`, or the frames break the rules.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// A frame of text is no UTF-8.
    pub const INVALID_TEXT: u16 = 1007;
    /// A limit was exceeded.
    pub const POLICY_VIOLATION: u16 = 1008;
    /// A message is too long.
    pub const TOO_LONG: u16 = 1009;
    /// Something broke here.
    pub const INTERNAL_ERROR: u16 = 1011;
    /// Whoever came in may not any more.
    pub const UNAUTHORIZED: u16 = 4401;
}

/// What the program does with connections.
pub trait Service: Send + Sync + 'static {
    /// Who a client is. What one opens, no other can reach.
    type Identity: Clone + PartialEq + Send + Sync + 'static;

    /// Who asks. Called for every request, before anything else of it is looked at.
    fn identify(&self, head: &HttpHead, from: SocketAddr) -> Result<Self::Identity, Refusal>;

    /// Whether there is such an agent; `None` is the first.
    fn has_agent(&self, agent: Option<&str>) -> bool;

    /// Takes a connection whose first message is `initialize`.
    fn open(&self, who: Self::Identity, agent: Option<String>, connection: ServerConnection);
}

/// What all requests share.
struct Server<S: Service> {
    service: Arc<S>,
    connections: Connections<S::Identity>,
    /// Room for long bodies, in KiB.
    bodies: tokio::sync::Semaphore,
}

/// The routes `/acp` and `/acp/{agent}`, and a handle to the connections that come over them.
pub fn router<S: Service>(service: Arc<S>, limits: ServerLimits) -> (Router, Connections<S::Identity>) {
    let bodies = tokio::sync::Semaphore::new(limits.bodies >> 10);
    let connections = Connections::new(Arc::new(limits));
    let server = Arc::new(Server { service, connections: connections.clone(), bodies });
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
