//! An ACP agent without a model, for trying out and testing clients. `switchboard demo-agent` serves it over stdio.
//!
//! The first word of a prompt names a scenario; `help` lists all of them. The same prompt always leads to the same
//! messages. Scenarios that edit do so in the folder `switchboard-demo` of the session's working directory. The scenario
//! that crashes ends the process.
//!
//! ```
//! use switchboard_demo_agent::{DemoOptions, serve};
//! use switchboard_peer::{Client, ClientOptions, agent_connection_options};
//! use switchboard_transport::Connection;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), switchboard_peer::Error> {
//! let options = ClientOptions::new("my client", "1");
//! let (near, far) = Connection::pair(options.connection_options(), agent_connection_options());
//! tokio::spawn(serve(far, DemoOptions::default()));
//! let client = Client::connect(near, options).await?;
//! assert_eq!(client.agent.description().version, 2);
//! # Ok(())
//! # }
//! ```

mod edits;
mod faults;
mod messages;
mod permissions;
mod scenario;
mod store;
mod subagents;
mod work;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use switchboard_acp::v2;
use switchboard_peer::{
    Agent, AgentSession, Error, Introduction, Recalled, SessionLists, Turn, Versions, serve_versions,
};
use switchboard_transport::{Caller, Connection};

use store::Store;
use subagents::Team;

/// Options of the demo agent.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// The versions of the protocol that it speaks; version 2 alone unless set.
    pub versions: Versions,
    /// The pause between two pieces of streamed text; none unless set.
    pub pace: Duration,
    /// The folder that keeps sessions, so that a later run can resume them; none unless set.
    pub store: Option<PathBuf>,
}

impl Default for DemoOptions {
    fn default() -> Self {
        DemoOptions { versions: Versions::Two, pace: Duration::ZERO, store: None }
    }
}

/// Serves the agent until the client closes the connection.
pub async fn serve(connection: Connection, options: DemoOptions) -> Result<(), Error> {
    let agent = Demo {
        caller: connection.caller.clone(),
        pace: options.pace,
        store: options.store.map(Store::new),
        later: Mutex::default(),
    };
    serve_versions(DemoHandler(Arc::new(agent)), connection, options.versions).await
}

struct Demo {
    /// Sends messages that break the protocol.
    caller: Caller,
    pace: Duration,
    store: Option<Store>,
    /// Sub-agents that continue after the turn of their session.
    later: Mutex<Vec<(String, Team)>>,
}

/// Handler of the connection. Background work shares the agent with it.
struct DemoHandler(Arc<Demo>);

/// Reason why a scenario could not be played.
#[derive(Debug)]
struct ScenarioError(String);

impl<E: std::error::Error> From<E> for ScenarioError {
    fn from(error: E) -> Self {
        ScenarioError(error.to_string())
    }
}

type Played = Result<v2::StopReason, ScenarioError>;

impl Agent for DemoHandler {
    fn introduce(&self) -> Introduction {
        let mut introduction = Introduction::new("switchboard-demo", env!("CARGO_PKG_VERSION"));
        introduction.info.title = Some("Switchboard's demo agent".into());
        let session = introduction.capabilities.session.get_or_insert_with(v2::SessionCapabilities::new);
        let yes = || Some(v2::EmptyObject::new());
        (session.fork, session.archive, session.title, session.status) = (yes(), yes(), yes(), yes());
        introduction
    }

    fn session_id(&self, number: u64) -> String {
        let taken = self.0.store.as_ref().map_or(0, Store::highest);
        format!("demo-{}", number + taken)
    }

    async fn open_session(
        &self,
        _session: &AgentSession,
        _request: &v2::NewSessionRequest<'_>,
    ) -> Result<SessionLists, Error> {
        Ok(lists())
    }

    async fn recall_session(&self, id: &str) -> Option<Recalled> {
        Some(Recalled { lists: lists(), ..self.0.store.as_ref()?.read(id)? })
    }

    async fn turn_ended(&self, session: &AgentSession) {
        self.0.keep(session).await;
        for team in self.0.take_later(session) {
            let (demo, session) = (Arc::clone(&self.0), session.clone());
            tokio::spawn(async move {
                // A client that is gone needs no more.
                let _ = team.work(&demo).await;
                demo.keep(&session).await;
            });
        }
    }

    async fn prompt(&self, turn: &Turn) -> Result<v2::StopReason, Error> {
        let text = turn.text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let played = match words.split_first() {
            Some((name, rest)) => {
                let name = name.strip_prefix('/').unwrap_or(name).to_lowercase();
                scenario::play(&self.0, turn, &name, rest).await
            }
            None => {
                turn.say("You said nothing. Try `help`.").await.map_err(ScenarioError::from).map(|()| END)
            }
        };
        played.map_err(|ScenarioError(reason)| Error::failed(reason))
    }

    async fn set_config_option(
        &self,
        session: &AgentSession,
        request: &v2::SetSessionConfigOptionRequest<'_>,
    ) -> Result<Vec<v2::SessionConfigOption<'static>>, Error> {
        Ok(messages::set_option(session, request).await?)
    }
}

const END: v2::StopReason = v2::StopReason::EndTurn;

/// Returns the commands and options of every session.
fn lists() -> SessionLists {
    SessionLists {
        config_options: Some(messages::options("calm", false)),
        commands: Some(scenario::commands()),
        more: switchboard_acp::More,
    }
}

impl Demo {
    /// Writes a session down, with those of its sub-agents.
    async fn keep(&self, session: &AgentSession) {
        let Some(store) = &self.store else { return };
        let mut subagents = Vec::new();
        for subagent in session.subagents() {
            subagents.push((subagent.id().to_owned(), subagent.history().await));
        }
        if let Err(error) = store.write(session, &session.history().await, &subagents) {
            eprintln!("switchboard demo-agent: cannot keep the session: {error}");
        }
    }

    /// Lets sub-agents go on when the turn is over.
    fn go_on_later(&self, session: &AgentSession, team: Team) {
        self.later.lock().unwrap_or_else(PoisonError::into_inner).push((session.id().to_owned(), team));
    }

    fn take_later(&self, session: &AgentSession) -> Vec<Team> {
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, rest) = later.drain(..).partition(|(id, _)| id == session.id());
        *later = rest;
        let now: Vec<(String, Team)> = now;
        now.into_iter().map(|(_, team)| team).collect()
    }

    /// The time between two pieces; a cancel ends it early.
    async fn pause(&self, turn: &Turn) {
        if !self.pace.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(self.pace) => {}
                () = turn.cancelled() => {}
            }
        }
    }
}

/// The example of the package's front page runs with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
