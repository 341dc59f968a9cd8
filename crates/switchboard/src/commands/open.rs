//! `switchboard open`.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use switchboard_hub::{FolderRefusal, Hub, HubOptions, Identity, LoginRateLimit};
use switchboard_store::{About, Store, StoreError};
use switchboard_transport::Program;
use switchboard_transport::server::{self, ListenerLimits, Refusal};
use switchboard_web::{AgentCard, Page, PageOptions, local_user};
use tokio::net::TcpListener;

use super::agent_host;
use super::more_links;
use super::notifications::{self, Observer, PageNotifications};
use super::policy::HubRules;
use super::run::working_directory;
use super::sessions::exchange::read_in;
use crate::agents::{self, KnownAgent};
use crate::arguments::InputArgument;
use crate::configuration::editor::EditorCommand;
use crate::configuration::hub::HubSettings;
use crate::configuration::notify::NotifySettings;
use crate::configuration::{Configuration, chosen_program};
use crate::ending::Stops;
use crate::handshake::{self, HandshakeArgument};
use crate::outcome::{CommandError, Outcome};
use crate::recording::agent_name;
use crate::rules::{PermissionsArgument, Rules};
use crate::sandbox::{SandboxArgument, SandboxContext};
use crate::{ending, standard_error, stdio, store_file};

/// Name of the built-in demo agent.
const DEMO: &str = "demo";

/// Time to withdraw notifications at the end.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(1);

/// Open a web client and inspector for an agent
///
/// Starts the agent and a local server, and prints a link that lets one browser in, once and within a minute.
/// Without an agent, the page offers the configured and installed ones and the built-in demo agent. Everything is
/// recorded in the store, where `switchboard sessions` finds it too.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of a configured or known agent (see `switchboard agents`)
    agent: Option<String>,

    /// Command line that starts the agent
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,

    /// Working directory of sessions, instead of the current one
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Show this recording first: an id in the store (see `switchboard sessions list`), or a file, which is
    /// imported
    #[arg(long, value_name = "ID|FILE")]
    recording: Option<String>,

    /// Path of the store, instead of the default one
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,

    /// Keep nothing: the recording is deleted at the end
    #[arg(long, conflicts_with = "store")]
    no_record: bool,

    #[command(flatten)]
    permissions: PermissionsArgument,

    #[command(flatten)]
    sandbox: SandboxArgument,

    #[command(flatten)]
    handshake: HandshakeArgument,

    /// Port to listen on, instead of any free one
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Print the link without opening a browser
    #[arg(long)]
    no_browser: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let folder = working_directory(arguments.cwd.as_ref())?;
    let rules = arguments.permissions.rules()?;
    let is_chosen = arguments.agent.is_some() || !arguments.command.is_empty();
    let agent = arguments.agent.as_deref().or((!is_chosen).then_some(DEMO));
    let program = chosen_program(&folder, agent, &arguments.command)?;
    let agent_name = agent_name(agent, arguments.command.first().map(OsStr::new));
    let temporary = arguments
        .no_record
        .then(store_file::temporary_folder)
        .transpose()
        .map_err(|error| CommandError::failed(format!("cannot make a temporary folder: {error}")))?;
    let file = match &temporary {
        Some(temporary) => temporary.path().join("sessions.sqlite3"),
        None => store_file::place(arguments.store.as_ref())?,
    };
    let store = store_file::open_to_record(file)?;
    mention_old_file(store.path());
    let recording = arguments.recording.as_deref().map(|name| recording(&store, name)).transpose()?;
    let mut agents = vec![(agent_name, program)];
    let installed = agents::known().iter().filter(|agent| agent.installed().is_some());
    agents.extend(others(&Configuration::read(&folder), &agents[0].0, installed));
    if !is_chosen {
        // The demo agent is the last resort of somebody who has another one.
        agents.rotate_left(1);
    }
    let (notify, problems) = NotifySettings::read();
    for problem in problems {
        eprintln!("switchboard: {problem}");
    }
    let opening = WebOptions { store, agents, is_chosen, folder, recording, rules, notify };
    stdio::run_on(&mut tokio::runtime::Builder::new_multi_thread(), serve(arguments, opening))
}

/// Earlier versions kept choices beside the store, for any agent with the same name. This version never reads them.
fn mention_old_file(store: &Path) {
    let mut file = store.as_os_str().to_owned();
    file.push(".choices.json");
    if Path::new(&file).exists() {
        eprintln!(
            "switchboard: {} is no longer used and can be deleted: a choice for always holds for the session in which it \
             is made",
            Path::new(&file).display()
        );
    }
}

/// Options of the web client.
struct WebOptions {
    store: Store,
    /// Agents by configured name or program. If one was chosen, it is the first.
    agents: Vec<(String, Program)>,
    /// True if an agent was chosen, which is started at once.
    is_chosen: bool,
    folder: PathBuf,
    /// The recording to show first.
    recording: Option<String>,
    rules: Rules,
    notify: NotifySettings,
}

/// Returns the agents besides the chosen one: the configured ones, and the installed known ones. A new
/// session may use any of them. An agent that cannot be started as configured is skipped, and one that only a
/// project's file puts under a known name is not offered.
fn others(
    configuration: &Configuration,
    chosen: &str,
    installed: impl Iterator<Item = &'static KnownAgent>,
) -> Vec<(String, Program)> {
    let configured = configuration.names();
    let is_there = |name: &str| name == chosen || configured.contains(&name);
    let known =
        installed.filter(|agent| !agent.aliases.iter().chain([&agent.name]).any(|name| is_there(name)));
    let is_usual = |name: &&str| *name != chosen && !configuration.is_foreign(name);
    let names = configured.iter().copied().filter(is_usual).chain(known.map(|agent| agent.name));
    names.filter_map(|name| Some((name.to_owned(), configuration.named_program(name).ok()?))).collect()
}

/// Returns the titles of agents, and the known agents that are not among them, with the command that installs each.
pub(super) fn cards(agents: &[(String, Program)]) -> Vec<AgentCard> {
    let title = |name: &str| match agents::find(name) {
        Some(known) => known.title.to_owned(),
        None if name == DEMO => "Demo agent".to_owned(),
        None => name.to_owned(),
    };
    let present =
        agents.iter().map(|(name, _)| AgentCard { name: name.clone(), title: title(name), install: None });
    let is_present = |known: &&KnownAgent| {
        let names = || known.aliases.iter().chain([&known.name]);
        agents.iter().any(|(name, _)| names().any(|known| known == name))
    };
    let absent = agents::known().iter().filter(|known| !is_present(known)).map(|known| AgentCard {
        name: known.name.to_owned(),
        title: known.title.to_owned(),
        install: Some(match known.package {
            Some(_) => format!("switchboard agents install {}", known.name),
            None => known.install.to_owned(),
        }),
    });
    present.chain(absent).collect()
}

/// Returns the id of a recording in the store, or of the last one in a file.
fn recording(store: &Store, name: &str) -> Result<String, CommandError> {
    match store.session(name) {
        Ok(summary) => Ok(summary.id),
        Err(StoreError::UnknownSession { .. }) if Path::new(name).is_file() => {
            let (input, mut last) = (InputArgument { file: Some(name.into()) }, String::new());
            // Unreadable lines are reported; the rest is shown.
            read_in(store, &input, &About::default(), |id| id.clone_into(&mut last))?;
            Ok(last)
        }
        Err(error) => Err(store_file::store_error(error)),
    }
}

async fn serve(arguments: &Arguments, opening: WebOptions) -> Result<Outcome, CommandError> {
    let WebOptions { store, agents, is_chosen, folder, recording, rules, notify } = opening;
    let without_secrets =
        |program: Program| notify.secret_variables.iter().fold(program, Program::env_remove);
    let cannot = |error: std::io::Error| CommandError::failed(format!("cannot serve: {error}"));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let refused = CommandError::failed(format!(
            "cannot listen on port {} of this machine: {error}",
            arguments.port
        ));
        refused.hint("omit --port to use any free port")
    })?;
    let port = listener.local_addr().map_err(cannot)?.port();
    let context =
        SandboxContext { folder: folder.clone(), store: Some(store.path().to_owned()), ports: vec![port] };
    let agents = agents
        .into_iter()
        .enumerate()
        .filter_map(|(index, (name, program))| {
            let program = without_secrets(program).working_directory(&folder);
            match arguments.sandbox.confine(program, Some(&name), &rules, &context) {
                Ok(program) => Some(Ok((name, program))),
                Err(error) if is_chosen && index == 0 => Some(Err(error)),
                // Others than the chosen one are only offered if they can be confined.
                Err(_) => None,
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    let cards = cards(&agents);
    let who = local_user();
    let notifier = (!notify.targets.is_empty())
        .then(|| notifications::start(&notify, &store, &format!("http://127.0.0.1:{port}")));
    let hub = Hub::start(HubOptions {
        // Runs as long as this command.
        idle: Duration::MAX,
        cancel_timeout: HubSettings::read_cancel_timeout(),
        handshake_timeout: arguments.handshake.handshake_timeout,
        report: Arc::new(|what| standard_error::say(format!("switchboard: {what}"))),
        local_names: vec![Arc::clone(&who.name)],
        policy: Some(Box::new(HubRules::new(rules.clone()))),
        listener: Observer { telemetry: None, notifier: notifier.clone() }.boxed(),
        ..HubOptions::new(store.clone(), agents, Box::new(|folder| usable_folder(Path::new(folder))))
    })
    .map_err(store_file::store_error)?;
    let path = recording.as_ref().map_or_else(|| "/".to_owned(), |id| format!("/r/{id}"));
    let resolve = Arc::new(|folder: &str| usable_folder(Path::new(folder)).map_err(|refusal| refusal.reason));
    let editors = agent_host::start(&hub, &store, &folder.to_string_lossy(), resolve);
    let tokens = store.clone();
    let page = Page::new(PageOptions {
        rules: Some(Box::new(rules)),
        handshake_hint: handshake::HINT.to_owned(),
        editor: EditorCommand::read().map(|editor| Box::new(editor) as _),
        agents: cards,
        notifications: notifier.clone().map(|notifier| Arc::new(PageNotifications(notifier)) as _),
        ..PageOptions::new(store, hub.clone(), folder, port)
    });
    let links = page.links(path, who.clone());
    // It exists even without an open page.
    let viewer = page.viewer(who).await;
    let mut stops = Stops::listen(None)?;
    println!("{}", links.fresh().map_err(cannot)?);
    let more = if more_links::on_enter(links.clone(), |made| println!("{made}"), false, |_| false) {
        "Enter prints another, "
    } else {
        ""
    };
    eprintln!(
        "This link lets one browser in, once and within a minute. {more}Ctrl-C ends Switchboard and the agent."
    );
    if !arguments.no_browser && has_desktop() {
        // Command lines are visible to other users, so this link expires once the browser has used it.
        show(&links.fresh().map_err(cannot)?);
    }
    tokio::spawn(async move {
        // The page shows it too, with a retry button. Without a chosen agent, the user chooses one there.
        if is_chosen && let Err(reason) = viewer.start().await {
            standard_error::say(format!("switchboard: {reason}"));
        }
        // Choices for "always" stay valid as long as this command runs.
        std::future::pending::<()>().await;
    });
    let mut router = page.router();
    if let Some(notifier) = &notifier {
        router = router.merge(notifications::answer_route(&hub, notifier));
    }
    let wrong = LoginRateLimit::default();
    let identify =
        Arc::new(move |head: &Parts, from: SocketAddr| editor_identity(&tokens, &wrong, head, from));
    let router = agent_host::with_route(router, &editors, identify);
    let end = tokio::select! {
        never = server::serve(&listener, &router, None, ListenerLimits::default()) => match never {},
        end = stops.next() => end,
    };
    editors.shut_down().await;
    hub.end("Switchboard was ended", ending::grace()).await;
    if let Some(notifier) = notifier {
        notifier.end(WITHDRAW_TIMEOUT).await;
    }
    Ok(Outcome::Stopped(end))
}

/// Identifies an editor by a token of the store. The browser's key is of no use here, because a page of another server
/// could send its cookie.
fn editor_identity(
    store: &Store,
    wrong: &LoginRateLimit,
    head: &Parts,
    from: SocketAddr,
) -> Result<Identity, Refusal> {
    let origin = head.headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
    if !agent_host::is_editor(origin) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "pages of other servers may not use this one"));
    }
    let token = agent_host::token(head).ok_or_else(agent_host::no_token)?;
    let known = store.find_token(&token).ok().flatten().filter(|token| token.limits.is_none());
    match known {
        Some(token) => {
            Ok(Identity { name: token.name.into(), role: token.role, all: token.all, made: token.made.0 })
        }
        None if wrong.record_failure(from.ip(), Instant::now()).is_err() => Err(Refusal::new(
            StatusCode::TOO_MANY_REQUESTS,
            "rate limit: too many invalid tokens from this address; try again later",
        )),
        None => Err(Refusal::new(StatusCode::UNAUTHORIZED, "the token is unknown or was revoked")),
    }
}

/// Resolves a folder. The user of this command may work anywhere.
fn usable_folder(folder: &Path) -> Result<String, FolderRefusal> {
    let refused = |reason: String| FolderRefusal { reason, roots: Vec::new() };
    match folder.canonicalize() {
        Ok(path) if path.is_dir() => {
            path.into_os_string().into_string().map_err(|_| refused("its name is not UTF-8".to_owned()))
        }
        Ok(_) => Err(refused("it is not a folder".to_owned())),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Returns whether a graphical desktop is available.
fn has_desktop() -> bool {
    cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Opens the link with the desktop's opener. If that fails, the printed link is enough.
fn show(link: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = tokio::process::Command::new(opener);
    let started = command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut child) = started {
        tokio::spawn(async move { child.wait().await });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_agent_is_offered_twice_nor_one_that_a_project_hides() {
        let project = tempfile::tempdir().unwrap();
        // With an alias of a known agent.
        let configured = r#"{"agent_servers": {"codex-acp": {"command": "codex-acp"}, "mine": {"command": "sh"},
            "gemini": {"command": "sh"}}}"#;
        std::fs::write(project.path().join(".switchboard.json"), configured).unwrap();
        let configuration = Configuration::read(project.path());
        let names = |chosen: &str, installed: &[&str]| -> Vec<String> {
            let installed: Vec<_> = installed.iter().map(|name| agents::find(name).unwrap()).collect();
            let others = others(&configuration, chosen, installed.into_iter());
            let ours = ["codex-acp", "mine", "codex", "gemini"];
            others.into_iter().map(|(name, _)| name).filter(|name| ours.contains(&&**name)).collect()
        };
        assert_eq!(names("demo", &["gemini"]), ["codex-acp", "mine"], "the project's gemini is another one");
        assert_eq!(names("mine", &["codex"]), ["codex-acp"], "its name is taken");
        assert_eq!(names("codex-acp", &["codex"]), ["mine"], "it is the one that was chosen");
    }
}
