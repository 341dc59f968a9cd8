//! The agent role.

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

/// Behaviour of an agent, implemented by its author and run by [`serve`].
///
/// [`serve`] manages sessions, ids, history and replay, queued prompts, cancellation and closing. Only
/// [`Agent::prompt`] is required.
pub trait Agent: Send + Sync + 'static {
    /// Returns the agent's description of itself.
    fn introduce(&self) -> Introduction;

    /// Handles a new session. The result is sent to the client with the response.
    fn open_session(
        &self,
        session: &AgentSession,
        request: &v2::NewSessionRequest<'_>,
    ) -> impl Future<Output = Result<SessionLists, Error>> + Send {
        let _ = (session, request);
        async { Ok(SessionLists::default()) }
    }

    /// Returns the id for a new session. By default it contains a counter.
    fn session_id(&self, number: u64) -> String {
        format!("session-{number}")
    }

    /// Restores a session that is not open, by its id. An agent with persistent sessions returns the updates
    /// of its history.
    fn recall_session(&self, id: &str) -> impl Future<Output = Option<Recalled>> + Send {
        let _ = id;
        async { None }
    }

    /// Works on a prompt, which is part of the conversation now, until it is done or [`Turn::cancelled`]. An
    /// error ends the turn with the stop reason `error` and is shown to the user ([`Error::failed`] converts
    /// any error); after a cancellation, the reason is always `cancelled`.
    fn prompt(&self, turn: &Turn) -> impl Future<Output = Result<v2::StopReason, Error>> + Send;

    /// Handles the end of a turn, when the session is idle and can be stored.
    fn turn_ended(&self, session: &AgentSession) -> impl Future<Output = ()> + Send {
        let _ = session;
        async {}
    }

    /// Sets an option for the user. Returns all options after the change.
    fn set_config_option(
        &self,
        session: &AgentSession,
        request: &v2::SetSessionConfigOptionRequest<'_>,
    ) -> impl Future<Output = Result<Vec<v2::SessionConfigOption<'static>>, Error>> + Send {
        let _ = (session, request);
        async { Err(RpcError::new(codes::INVALID_PARAMS, "this agent has no options").into()) }
    }

    /// Logs the user in with one of the methods that the agent offered.
    fn login(&self, method_id: &str) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = method_id;
        async { Err(RpcError::new(codes::METHOD_NOT_FOUND, "this agent has no login").into()) }
    }

    /// Handles a copy of a session and its history, which continues independently, so that the author can
    /// copy state of its own. The original may be a session that is not open. Only called if the agent's
    /// capabilities have `fork`. **Unstable.**
    fn fork_session(
        &self,
        from: &str,
        copy: &AgentSession,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (from, copy);
        async { Ok(()) }
    }

    /// Returns the login status. Only called if the agent's capabilities have `status` for logins.
    /// **Unstable.**
    fn auth_status(
        &self,
    ) -> impl Future<Output = Result<v2::unstable::AuthStatusResponse<'static>, Error>> + Send {
        async { Err(RpcError::new(codes::METHOD_NOT_FOUND, "this agent has no login").into()) }
    }

    /// Logs the user out.
    fn logout(&self) -> impl Future<Output = Result<(), Error>> + Send {
        async { Err(RpcError::new(codes::METHOD_NOT_FOUND, "this agent has no login").into()) }
    }
}

/// Description of an agent.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// Its name and version.
    pub info: v2::Implementation<'static>,
    /// Capabilities beyond those that [`serve`] provides to every agent. [`serve`] also implements forks,
    /// titles, the archive and the status of sessions if they are set here.
    pub capabilities: v2::AgentCapabilities<'static>,
    /// The login methods. With at least one, [`Agent::login`] and [`Agent::logout`] must be implemented.
    pub auth_methods: Vec<v2::AuthMethod<'static>>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Introduction {
    /// Returns the description of an agent with this name and version that accepts text.
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

/// Options and commands of a new session.
#[derive(Debug, Clone, Default)]
pub struct SessionLists {
    /// Configuration options.
    pub config_options: Option<Vec<v2::SessionConfigOption<'static>>>,
    /// Slash commands.
    pub commands: Option<Vec<v2::AvailableCommand<'static>>>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

/// A restored session.
#[derive(Debug, Clone)]
pub struct Recalled {
    /// Its working directory.
    pub cwd: String,
    /// Its history.
    pub history: Vec<v2::SessionUpdate<'static>>,
    /// Its options and commands.
    pub lists: SessionLists,
    /// Ids and histories of all its sub-agents, including nested ones. **Unstable.**
    pub subagents: Vec<(String, Vec<v2::SessionUpdate<'static>>)>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Recalled {
    /// Returns a session with an empty history.
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
const AGENT_METHODS: [&str; 19] = [
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
    // Refused unless the author's capabilities have them.
    "session/fork",
    "session/set_title",
    "session/archive",
    "session/unarchive",
    "session/status",
    "auth/status",
];

/// Returns the options for a connection to a client: unknown methods and invalid lines are refused
/// automatically.
pub fn agent_connection_options() -> ConnectionOptions {
    let mut options = ConnectionOptions::default().knows(|method| AGENT_METHODS.contains(&method));
    options.refuses_invalid_lines = true;
    options
}
