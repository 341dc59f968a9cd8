//! The two roles of ACP, the Agent Client Protocol: a client that drives any agent with live sessions, and an
//! agent that sends valid updates in the right order. Both support version 2 and, by translation, version 1.
//! This crate prints nothing and reads no configuration.
//!
//! - [`Client`] is an initialized connection to an agent. Its [`AgentHandle`] sends requests; its [`Feed`]
//!   returns one [`Event`] after the other and holds the [`Sessions`]. A [`PromptTurn`] can be awaited until
//!   the session is idle. A [`PermissionQuestion`] and an [`ElicitationQuestion`] wait for an answer.
//! - [`serve`] runs an [`Agent`], whose author implements a [`Turn`] with [`Message`]s, [`ToolCall`]s,
//!   [`Terminal`]s, questions by [`Turn::ask`], and [`Subagent`]s. Updates of the [`AgentSession`] itself can
//!   be sent at any time.
//! - [`ResumableClient`] keeps a client connected to a server over broken connections, without lost or
//!   duplicate messages.
//! - [`Error`] is the error of all operations. An error response of the peer is data: a [`Reply`] has it
//!   inside, and `??` unwraps both.
//!
//! This crate is the only one of its family that an author needs: [`acp`] has the types of the protocol
//! ([`v2`] those of its second version), [`transport`] programs and connections, [`session`] the folded
//! sessions of a client, [`diff`] the diffs of an agent. With the feature `remote` a client reaches agents
//! over WebSocket and HTTP (`transport::Remote`), with `serve` an agent accepts such connections
//! (`transport::server`).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use switchboard_peer::{
//!     AbsolutePath, Agent, Client, ClientOptions, Connection, Error, Event, Introduction, Turn, agent_connection_options,
//!     serve, v2,
//! };
//!
//! struct Echo;
//!
//! impl Agent for Echo {
//!     fn introduce(&self) -> Introduction {
//!         Introduction::new("echo", "1.0")
//!     }
//!
//!     async fn prompt(&self, turn: &Turn) -> Result<v2::StopReason, Error> {
//!         turn.say(&turn.text()).await?;
//!         Ok(v2::StopReason::EndTurn)
//!     }
//! }
//!
//! let (near, far) = Connection::pair(Client::connection_options(), agent_connection_options());
//! tokio::spawn(serve(Echo, far));
//! let Client { agent, mut feed } = Client::connect(near, ClientOptions::new("example", "1.0")).await?;
//! let request = v2::NewSessionRequest::new(AbsolutePath::parse("/w")?);
//! let session = feed.until(agent.new_session(&request), drop).await??.session_id;
//!
//! let mut turn = feed.until(agent.prompt(&session, vec![v2::ContentBlock::text("hello")]), drop).await??;
//! let mut updates = 0;
//! let end = feed.until(turn.ended(), |event| updates += usize::from(matches!(event, Event::Update(_)))).await?;
//! assert_eq!(end.stop_reason, Some(v2::StopReason::EndTurn));
//! assert!(updates > 0);
//! let last = feed.sessions().get(&session, |session| session.entry(1).unwrap().as_message().unwrap().content().text());
//! assert_eq!(last.as_deref(), Some("hello"));
//! # Ok(())
//! # }
//! ```

mod agent;
mod client;
mod error;
mod resuming;
mod translation;

pub use agent::{
    Agent, AgentSession, Ask, Decision, Introduction, Message, Recalled, SessionLists, Subagent,
    SubagentStart, Terminal, ToolCall, ToolCallStart, Turn, Versions, agent_connection_options, serve,
    serve_versions,
};
pub use client::{
    AgentDescription, AgentHandle, Client, ClientOptions, ElicitationQuestion, Event, Feed, Observed,
    Observer, PermissionQuestion, PromptEnd, PromptTurn, Reply, Sessions, Steered, Update, WireSide,
};
pub use error::Error;
pub use resuming::{Connected, ResumableClient, ResumableOutput, is_resumable};

pub use switchboard_acp::rpc::{RpcError, codes};
pub use switchboard_acp::{AbsolutePath, Field, v2};
pub use switchboard_transport::{Child, Connection, Program};
pub use {
    switchboard_acp as acp, switchboard_diff as diff, switchboard_session as session,
    switchboard_transport as transport,
};

/// Compiles and runs the examples of the guide with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agents-and-clients.md")]
struct Guide;

/// Runs the example of the package's README with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
