//! The Agent Host Protocol (AHP) for a hub: VS Code and other clients of that protocol use all agents of the hub.
//!
//! [`AhpHosts`] is the entry point: it serves WebSockets. Each identity has a host of its own, a state machine without
//! I/O (`host`), with the sessions that its clients look at (`session`, `chat`). A session is attached to the hub as any
//! other client is (`driver`), so the hub knows nothing of this protocol.
//!
//! The state of a channel is the fold of the actions that its subscribers got, by the reducers of the protocol's own
//! crate. So a snapshot equals what a client has that has received all actions.
//!
//! Actions are JSON. The protocol's crate reads them, which finds every mistake in a name, and the JSON that is sent keeps
//! what a newer client has added.

mod chat;
mod content;
mod driver;
mod fold;
mod host;
mod memory;
mod options;
mod outbox;
mod prompt;
mod question;
mod service;
mod session;
mod socket;
mod wire;

#[cfg(test)]
mod tests;

pub use memory::MemoryPlace;
pub use service::{AhpHosts, AhpOptions, ResolveFolder};

/// Path of the protocol on a hub's server.
pub const PATH: &str = "/ahp";

/// Origin of the windows of VS Code's desktop application.
pub const VS_CODE_ORIGIN: &str = "vscode-file://vscode-app";
