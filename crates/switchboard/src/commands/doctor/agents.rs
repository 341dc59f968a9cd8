//! Checks of agents: each is started, tested and ended.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use switchboard_acp::display::visible_line;
use switchboard_acp::rpc::{RpcError, codes};
use switchboard_acp::{AbsolutePath, v2};
use switchboard_peer::{AgentDescription, Client, ClientOptions};
use switchboard_transport::{Child, Program};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Finding, remedy};
use crate::agents::{self, KnownAgent};
use crate::commands::run::login;
use crate::configuration::Configuration;
use crate::{handshake, store_file};

/// Maximum number of agents at the same time.
const MAX_PARALLEL: usize = 4;

/// Maximum length of an agent's error in characters.
const MAX_REASON: usize = 400;

/// An agent to check.
struct Candidate {
    name: String,
    /// A program, or the address of a server.
    command: String,
    program: Result<Program, String>,
    known: Option<&'static KnownAgent>,
}

pub(super) async fn look(configuration: &Configuration, folder: &Path, patience: Duration) -> Vec<Finding> {
    let configured =
        configuration.agents.iter().filter(|agent| configuration.find(&agent.name) == Some(agent));
    let mut candidates: Vec<Candidate> = configured
        .map(|agent| Candidate {
            name: agent.name.clone(),
            command: agent.command.clone(),
            program: agent.program().map_err(|error| error.to_string()),
            known: agents::find(&agent.name),
        })
        .collect();
    let installed = agents::known().iter().filter(|agent| configuration.find(agent.name).is_none());
    candidates.extend(installed.filter_map(|agent| {
        let found = agent.installed()?;
        let command = found.path.display().to_string();
        let program = Ok(found.program());
        Some(Candidate { name: agent.name.to_owned(), command, program, known: Some(agent) })
    }));
    if candidates.is_empty() {
        return vec![Finding::note(
            "agents",
            "no agent is configured or installed; `switchboard agents` shows how to install one",
        )];
    }
    let (turns, mut tasks) = (Arc::new(Semaphore::new(MAX_PARALLEL)), JoinSet::new());
    for (place, candidate) in candidates.into_iter().enumerate() {
        let (turns, folder) = (Arc::clone(&turns), folder.to_owned());
        tasks.spawn(async move {
            let _turn = turns.acquire().await;
            (place, check(candidate, &folder, patience).await)
        });
    }
    let mut findings: Vec<(usize, Finding)> = tasks.join_all().await;
    findings.sort_by_key(|(place, _)| *place);
    findings.into_iter().map(|(_, finding)| finding).collect()
}

async fn check(candidate: Candidate, folder: &Path, patience: Duration) -> Finding {
    let Candidate { name, command, program, known } = candidate;
    let about = format!("agent {}", visible_line(&name));
    let install = known.map_or("correct its command in the configuration", |known| known.install);
    let program = match program {
        Ok(program) => program,
        Err(problem) => return Finding::problem(about, problem, install),
    };
    if let Err(error) = program.locate() {
        return Finding::problem(about, error.to_string(), remedy::of_missing(&error, install));
    }
    let program = program.working_directory(folder);
    let options =
        ClientOptions { patience, ..ClientOptions::new("switchboard doctor", env!("CARGO_PKG_VERSION")) };
    let (child, connection) = match program.connect(options.connection_options()) {
        Ok(started) => started,
        Err(error) => {
            return Finding::problem(about, error.to_string(), remedy::of_missing(&error, install));
        }
    };
    let finding = match Client::connect(connection, options).await {
        Ok(client) => talk(about, client, &child, known, patience).await,
        Err(error) => {
            let problem = handshake::failure(&error, &child).await;
            let advice = remedy::of_handshake(&error, &command, &program, known);
            Finding::problem(about, problem, advice)
        }
    };
    child.shut_down().await;
    finding
}

async fn talk(
    about: String,
    client: Client,
    child: &Child,
    known: Option<&'static KnownAgent>,
    patience: Duration,
) -> Finding {
    let Client { agent, mut feed } = client;
    let answers = described(agent.description(), known);
    let Ok(folder) = store_file::temporary_folder() else { return Finding::fine(about, answers) };
    let Some(cwd) = folder.path().to_str().and_then(|path| AbsolutePath::parse(path).ok()) else {
        return Finding::fine(about, answers);
    };
    let request = v2::NewSessionRequest::new(cwd);
    let opened = tokio::time::timeout(patience, feed.until(agent.new_session(&request), drop)).await;
    match opened {
        Ok(Ok(Ok(_))) => Finding::fine(about, answers),
        Ok(Ok(Err(error))) if error.code == codes::AUTHENTICATION_REQUIRED => {
            let ways: Vec<String> = login::ways(agent.description()).collect();
            let advice = known.map_or_else(
                || "log in with the agent's own program".to_owned(),
                |known| known.login.to_owned(),
            );
            let finding = Finding::problem(about, format!("{answers}; it requires a login"), advice);
            ways.into_iter().fold(finding, Finding::advice)
        }
        Ok(Ok(Err(error))) => Finding::problem(
            about,
            format!("{answers}, but cannot open a session: {}", refusal(&error)),
            "try its command by hand; its own documentation may say what it needs",
        ),
        Ok(Err(_)) => {
            let end = child.describe_end().await;
            Finding::problem(about, format!("{answers}, then exited: {end}"), "try its command by hand")
        }
        Err(_) => Finding::problem(
            about,
            format!("{answers}, but opened no session within {patience:?}"),
            "try its command by hand; --timeout gives it more time",
        ),
    }
}

/// Formats an agent's error with its short data.
fn refusal(error: &RpcError<'_>) -> String {
    let data = error.data.as_ref().map(|data| format!(" ({})", data.as_str())).unwrap_or_default();
    visible_line(&format!("{}{data}", error.message)).chars().take(MAX_REASON).collect()
}

fn described(description: &AgentDescription, known: Option<&'static KnownAgent>) -> String {
    let version = match &description.info {
        // The default for a version 1 agent without a name.
        Some(info) if info.version != "unknown" => {
            format!("{} {}", visible_line(&info.name), visible_line(&info.version))
        }
        _ => "without a name".to_owned(),
    };
    let expected = known.map_or(&[][..], |known| known.versions);
    let surprise = if expected.is_empty() || expected.contains(&description.version) {
        ""
    } else {
        ", which was not observed before"
    };
    format!("supports protocol version {}{surprise} ({version})", description.version)
}
