//! The role of an agent.

mod history;
mod message;
mod permission;
mod sending;
mod service;
mod session;
mod subagent;
mod terminal;
mod tool_call;
mod turn;
mod unstable;
mod work;

pub use message::Message;
pub use permission::{Ask, Decision};
pub use service::{Versions, serve, serve_versions};
pub use session::AgentSession;
pub use subagent::{Subagent, SubagentStart};
pub use terminal::Terminal;
pub use tool_call::{ToolCall, ToolCallStart};
pub use turn::Turn;

use std::future::Future;

use switchboard_acp::rpc::{RpcError, codes};
use switchboard_acp::v2;
use switchboard_transport::ConnectionOptions;

use crate::Error;

/// What an author of an agent writes; [`serve`] does the rest.
///
/// Sessions, their ids, their history and its replay, prompts that wait for their turn, cancelling and closing are
/// looked after. Only [`Agent::prompt`] must be written.
pub trait Agent: Send + Sync + 'static {
    /// What the agent tells of itself.
    fn introduce(&self) -> Introduction;

    /// A session has been opened. What this returns goes to the client with the answer.
    fn open_session(
        &self,
        session: &AgentSession,
        request: &v2::NewSessionRequest<'_>,
    ) -> impl Future<Output = Result<SessionLists, Error>> + Send {
        let _ = (session, request);
        async { Ok(SessionLists::default()) }
    }

    /// The id for a new session: a number that counts up, unless an agent has ideas of its own.
    fn session_id(&self, number: u64) -> String {
        format!("session-{number}")
    }

    /// A session that is not open is asked for by its id; an agent that keeps sessions beyond its own life gives
    /// the updates that make up its history.
    fn recall_session(&self, id: &str) -> impl Future<Output = Option<Recalled>> + Send {
        let _ = id;
        async { None }
    }

    /// Works on a prompt, which has become part of the conversation, until it is done or [`Turn::cancelled`]. An
    /// error ends the turn with the stop reason `error`, and the user is told why ([`Error::failed`] makes one of
    /// anything); after a cancel, the reason is `cancelled` in any case.
    fn prompt(&self, turn: &Turn) -> impl Future<Output = Result<v2::StopReason, Error>> + Send;

    /// The work on a prompt is over, and the session idle: time to store it.
    fn turn_ended(&self, session: &AgentSession) -> impl Future<Output = ()> + Send {
        let _ = session;
        async {}
    }

    /// The user sets an option. Returns all options as they are then.
    fn set_config_option(
        &self,
        session: &AgentSession,
        request: &v2::SetSessionConfigOptionRequest<'_>,
    ) -> impl Future<Output = Result<Vec<v2::SessionConfigOption<'static>>, Error>> + Send {
        let _ = (session, request);
        async { Err(RpcError::new(codes::INVALID_PARAMS, "this agent has no options").into()) }
    }

    /// The user logs in by one of the methods that the agent offered.
    fn login(&self, method_id: &str) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = method_id;
        async { Err(RpcError::new(codes::METHOD_NOT_FOUND, "this agent has no login").into()) }
    }

    /// A copy of a session has been made, with its history, and goes on by itself: time to copy what the author keeps of
    /// it. The session that it is a copy of may be one from before. Asked only of an agent whose capabilities have `fork`.
    /// **Unstable.**
    fn fork_session(
        &self,
        from: &str,
        copy: &AgentSession,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (from, copy);
        async { Ok(()) }
    }

    /// Whether somebody is logged in. Asked only of an agent whose capabilities have `status` for logins. **Unstable.**
    fn auth_status(
        &self,
    ) -> impl Future<Output = Result<v2::unstable::AuthStatusResponse<'static>, Error>> + Send {
        async { Err(RpcError::new(codes::METHOD_NOT_FOUND, "this agent has no login").into()) }
    }

    /// The user logs out.
    fn logout(&self) -> impl Future<Output = Result<(), Error>> + Send {
        async { Err(RpcError::new(codes::METHOD_NOT_FOUND, "this agent has no login").into()) }
    }
}

/// What an agent tells of itself.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// Its name and version.
    pub info: v2::Implementation<'static>,
    /// What it can do beyond what [`serve`] does for every agent. What is told here of copies, titles, the archive and
    /// the status of sessions is done, too.
    pub capabilities: v2::AgentCapabilities<'static>,
    /// The ways to log in. With at least one, [`Agent::login`] and [`Agent::logout`] must be there.
    pub auth_methods: Vec<v2::AuthMethod<'static>>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Introduction {
    /// An agent of this name and version that takes text.
    pub fn new(name: &str, version: &str) -> Self {
        let session = v2::SessionCapabilities {
            delete: Some(v2::EmptyObject::new()),
            ..v2::SessionCapabilities::new()
        };
        Introduction {
            info: v2::Implementation::new(name.to_owned(), version.to_owned()),
            capabilities: v2::AgentCapabilities { session: Some(session), ..v2::AgentCapabilities::new() },
            auth_methods: Vec::new(),
            more: switchboard_acp::More,
        }
    }
}

/// What a session offers from its start.
#[derive(Debug, Clone, Default)]
pub struct SessionLists {
    /// What the user can set.
    pub config_options: Option<Vec<v2::SessionConfigOption<'static>>>,
    /// What the user can call for.
    pub commands: Option<Vec<v2::AvailableCommand<'static>>>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

/// A session from before.
#[derive(Debug, Clone)]
pub struct Recalled {
    /// Where it works.
    pub cwd: String,
    /// What happened in it.
    pub history: Vec<v2::SessionUpdate<'static>>,
    /// What it offers.
    pub lists: SessionLists,
    /// The sub-agents that it and they have started: their ids, and what happened in their sessions. **Unstable.**
    pub subagents: Vec<(String, Vec<v2::SessionUpdate<'static>>)>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Recalled {
    /// A session in which nothing has happened.
    pub fn new(cwd: &str) -> Self {
        Recalled {
            cwd: cwd.to_owned(),
            history: Vec::new(),
            lists: SessionLists::default(),
            subagents: Vec::new(),
            more: switchboard_acp::More,
        }
    }
}

/// The methods that a client may call.
const KNOWN: [&str; 19] = [
    "initialize",
    "auth/login",
    "auth/logout",
    "session/new",
    "session/resume",
    "session/list",
    "session/close",
    "session/delete",
    "session/set_config_option",
    "session/prompt",
    "session/cancel",
    "tool_call/cancel",
    "terminal/cancel",
    // Refused where the author did not tell of them.
    "session/fork",
    "session/set_title",
    "session/archive",
    "session/unarchive",
    "session/status",
    "auth/status",
];

/// The options for a connection to a client: methods that an agent does not have are refused by themselves, and so are lines
/// that hold no message.
pub fn agent_connection_options() -> ConnectionOptions {
    let mut options = ConnectionOptions::default().knows(|method| KNOWN.contains(&method));
    options.refuses_invalid_lines = true;
    options
}
