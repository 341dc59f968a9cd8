//! `switchboard demo-agent`: an agent without a model, for testing clients.

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
    Agent, AgentSession, Error, Introduction, Recalled, SessionLists, Turn, Versions,
    agent_connection_options, serve_versions,
};
use switchboard_transport::{Caller, Connection};

use crate::outcome::{CommandError, Outcome};
use crate::stdio;
use store::Store;
use subagents::Team;

/// Run an agent over stdio that plays scenarios, without a model
///
/// The first word of the prompt names the scenario; `help` lists all of them. The same prompt always leads to
/// the same messages. Scenarios that edit files use the folder `switchboard-demo` in the session's working
/// directory.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Protocol version of the agent
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    protocol: u8,

    /// Delay between two chunks of streamed text, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pace: u64,

    /// Folder for sessions, so that a later run can resume them
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let versions = if arguments.protocol == 1 { Versions::One } else { Versions::Two };
    stdio::run_alone(async {
        let connection = Connection::new(tokio::io::stdin(), tokio::io::stdout(), agent_connection_options());
        let agent = Demo {
            caller: connection.caller.clone(),
            pace: Duration::from_millis(arguments.pace),
            store: arguments.store.clone().map(Store::new),
            later: Mutex::default(),
        };
        let served = serve_versions(Playing(Arc::new(agent)), connection, versions).await;
        served.map(|()| Outcome::Fine).map_err(|error| CommandError::failed(error.to_string()))
    })
}

struct Demo {
    /// For messages that a well-behaved agent would not send.
    caller: Caller,
    pace: Duration,
    store: Option<Store>,
    /// Sub-agents that continue after the turn of their session.
    later: Mutex<Vec<(String, Team)>>,
}

/// The agent, shared with background work.
struct Playing(Arc<Demo>);

/// Reason why a scenario failed.
#[derive(Debug)]
struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.to_string())
    }
}

type Played = Result<v2::StopReason, Failure>;

impl Agent for Playing {
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
                // A disconnected client is not an error.
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
            None => turn.say("You said nothing. Try `help`.").await.map_err(Failure::from).map(|()| END),
        };
        played.map_err(|Failure(reason)| Error::failed(reason))
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

/// Returns the options and commands of every session.
fn lists() -> SessionLists {
    SessionLists {
        config_options: Some(messages::options("calm", false)),
        commands: Some(scenario::commands()),
        more: switchboard_acp::More,
    }
}

impl Demo {
    /// Stores a session with its sub-agents.
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

    /// Lets sub-agents continue after the turn.
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

    /// Waits between two chunks; a cancellation ends it early.
    async fn pause(&self, turn: &Turn) {
        if !self.pace.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(self.pace) => {}
                () = turn.cancelled() => {}
            }
        }
    }
}
