//! `switchboard serve`.

mod cross_origin;
mod gate;
mod local_clients;
mod logging;
mod prompts;
mod push;
mod tickets;

use std::io::{IsTerminal, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use switchboard_hub::{FolderRefusal, Folders, HAS_JETSTREAM, Hub, HubInfo, HubOptions};
use switchboard_notify::Notifier;
use switchboard_transport::server::{self, ListenerLimits, ServerLimits, Service, Tls};
use switchboard_transport::{Grace, Program, Remote};
use switchboard_web::{Access, Page, PageOptions};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::cross_origin::parse_origin;
use self::gate::Gate;
pub(crate) use self::gate::LAUNCH;
use self::local_clients::{Doorkeeper, FixedClient, LocalPorts};
use self::logging::{LogFormat, Logger};
use self::prompts::PromptService;
use self::push::PushBook;
pub(crate) use self::push::parse_service;
use super::agent_host;
use super::log_place::{CREDENTIALS, LogArguments, LogPlace};
use super::more_links;
use super::notifications::{self, Observer, PageNotifications};
use super::open::cards;
use super::policy::HubRules;
use crate::configuration::hub::HubSettings;
use crate::configuration::notify::NotifySettings;
use crate::configuration::roots::Refused;
use crate::configuration::{Configuration, chosen_program};
use crate::handshake::{self, HandshakeArgument};
use crate::outcome::{CommandError, Outcome, write_error};
use crate::remote_agent::{HEADERS, TOKEN};
use crate::rules::{PermissionsArgument, Rules};
use crate::sandbox::{SandboxArgument, SandboxContext};
use crate::telemetry::{HubTelemetry, LAST_SENDING, TelemetryArguments};
use crate::{ending, stdio, store_file};

/// Default port.
pub(crate) const PORT: u16 = 4173;
/// Timeout for the whole shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(4500);
/// Grace period of agents for each step.
const GRACE: Grace = Grace { input_closed: Duration::from_secs(1), terminate: Duration::from_secs(1) };
/// Time to withdraw notifications at the end. The next start withdraws the rest.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for clients to be notified of the shutdown.
const NOTIFY_TIMEOUT: Duration = Duration::from_millis(500);

/// Run a hub: agents that keep running while clients come and go
///
/// Sessions keep running when their clients disconnect, and any number of clients of either protocol version
/// can attach to one: editors with `switchboard connect`, and any ACP client over WebSocket or HTTP at /acp
/// (the first agent) and /acp/AGENT. Each session has a log in the store; after a restart the same sessions
/// continue.
///
/// Clients need a token: one created by `switchboard tokens add`, or the one of this launch, which
/// --token-file writes to a file. Sessions work in the folders listed as `roots` in config.json, else in the
/// current folder. Listening on other addresses than loopback needs a certificate, or a proxy that has one.
#[derive(Debug, clap::Args)]
#[command(after_help = examples())]
pub(crate) struct Arguments {
    /// Names of configured agents (see `switchboard agents`), or `demo`; default: all configured agents
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,

    /// Command line of the only agent, which is then called `default`
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,

    /// Address to listen on; port 0 uses any free port
    #[arg(long, value_name = "ADDR:PORT", default_value_t = format!("127.0.0.1:{PORT}"))]
    listen: String,

    /// Path of the store, instead of the default one
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,

    #[command(flatten)]
    log: LogArguments,

    /// Write the token of this launch, which has the role admin, to this file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Certificate chain in PEM, the server's own certificate first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Let pages of this origin connect, with a ticket or a token for it, such as http://localhost:2718
    #[arg(long = "origin", value_name = "URL", value_parser = cross_origin::parse_origin)]
    listed: Vec<String>,

    /// Serve clients in pages that can send no credential, at the ports of this machine that they expect. Each
    /// origin must be listed with --origin, and is let in on the terminal or in the page
    #[arg(long = "for", value_enum, value_name = "CLIENT")]
    fixed: Option<FixedClient>,

    /// Let processes of other users of this machine connect to the ports of --for
    #[arg(long, requires = "fixed")]
    trust_local: bool,

    /// Port of an agent for --for, instead of the usual ones, as AGENT=PORT
    #[arg(long, hide = true, requires = "fixed", value_parser = local_clients::parse_port)]
    fixed_port: Vec<(String, u16)>,

    /// Public name of a TLS proxy in front of this hub
    #[arg(long, value_name = "NAME", conflicts_with = "tls_cert")]
    behind_proxy: Option<String>,

    /// Address under which other devices reach this hub, for links, QR codes and notifications; default: the
    /// name in --behind-proxy, else the address that it listens on
    #[arg(long, value_name = "URL", value_parser = cross_origin::parse_origin)]
    public_url: Option<String>,

    /// Print links without a QR code
    #[arg(long)]
    no_qr: bool,

    #[command(flatten)]
    permissions: PermissionsArgument,

    #[command(flatten)]
    sandbox: SandboxArgument,

    #[command(flatten)]
    telemetry: TelemetryArguments,

    #[command(flatten)]
    handshake: HandshakeArgument,

    /// Format of the messages on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// The examples of the help text: only those that this build can run.
fn examples() -> String {
    let with_servers = "switchboard serve --session-log nats://127.0.0.1:4222 claude";
    let lines = [
        "switchboard serve --token-file ~/.switchboard-token claude codex",
        "switchboard connect ws://127.0.0.1:4173/acp --token-file ~/.switchboard-token",
        with_servers,
        "switchboard serve --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem -- my-agent --acp",
    ];
    let lines = lines.into_iter().filter(|line| HAS_JETSTREAM || *line != with_servers);
    lines.fold("Examples:".to_owned(), |text, line| format!("{text}\n  {line}"))
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let folder = std::env::current_dir()
        .map_err(|error| CommandError::failed(format!("cannot determine the current folder: {error}")))?;
    let rules = arguments.permissions.rules()?;
    let (notify, problems) = NotifySettings::read();
    for problem in problems {
        eprintln!("switchboard: {problem}");
    }
    let agents = agents(arguments, &folder, &notify)?;
    let address = address(arguments)?;
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificates), Some(key)) => {
            Some(Tls::from_files(certificates, key).map_err(|error| tls_error(&error))?)
        }
        _ => None,
    };
    if let Some(advice) = tls.as_ref().and_then(Tls::advice) {
        // Browsers and other clients may accept it anyway.
        eprintln!("switchboard: `switchboard connect` will refuse this hub: {advice}");
    }
    let open_files = raise_open_files();
    let log = arguments.log.place()?;
    let store = log.open_store(store_file::place(arguments.store.as_ref())?)?;
    let logger = Logger::new(arguments.log_format);
    if open_files.0 < open_files.1 {
        logger.say(&format!("raised the limit of open files from {} to {}", open_files.0, open_files.1));
    }
    let settings = HubSettings::read(&folder)?;
    let telemetry = arguments.telemetry.begin()?.map(HubTelemetry::new);
    let serving = Serving {
        folder,
        address,
        tls,
        store,
        log,
        agents,
        logger,
        settings,
        notify,
        telemetry,
        open_files,
        rules,
    };
    stdio::run_on(&mut tokio::runtime::Builder::new_multi_thread(), serve(arguments, serving))
}

/// File descriptors reserved for clients, agents and the store.
const OTHER_FILES: u64 = 256;
/// File descriptors of each open log: lock, journal and reader.
const FILES_OF_LOG: u64 = 3;
/// Maximum limit of open files. Programs that check each possible descriptor at their start get slow with
/// more.
const MOST_FILES: u64 = 1 << 20;

/// Raises the limit of open files as far as the system allows: each client needs one, each open session
/// three. Returns the limits before and after.
fn raise_open_files() -> (u64, u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let before = current.unwrap_or(u64::MAX);
    let wanted = maximum.unwrap_or(u64::MAX).min(MOST_FILES);
    if before >= wanted {
        return (before, before);
    }
    // If it is refused, fewer clients and open logs are possible.
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        Ok(()) => (before, wanted),
        Err(_) => (before, before),
    }
}

/// Returns the number of logs that may be open within a limit of open files. Half of it is for clients.
fn open_logs((_, limit): (u64, u64)) -> usize {
    usize::try_from(limit.saturating_sub(OTHER_FILES) / 2 / FILES_OF_LOG).unwrap_or(usize::MAX).max(4)
}

struct Serving {
    folder: PathBuf,
    address: SocketAddr,
    tls: Option<Tls>,
    store: switchboard_store::Store,
    log: LogPlace,
    agents: Vec<(String, Program)>,
    logger: Logger,
    settings: HubSettings,
    notify: NotifySettings,
    telemetry: Option<HubTelemetry>,
    rules: Rules,
    /// The limits of open files before and after raising.
    open_files: (u64, u64),
}

fn tls_error(error: &server::TlsError) -> CommandError {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    CommandError::usage(format!("{error}{source}"))
}

/// Returns the agents by name.
fn agents(
    arguments: &Arguments,
    folder: &Path,
    notify: &NotifySettings,
) -> Result<Vec<(String, Program)>, CommandError> {
    if !arguments.command.is_empty() {
        if !arguments.agents.is_empty() {
            return Err(CommandError::usage("either names of agents or a command line, not both"));
        }
        let is_remote = arguments.command.first().is_some_and(|program| Remote::is_address(program));
        let program = chosen_program(folder, None, &arguments.command)?;
        return Ok(vec![("default".to_owned(), without_secrets(program, is_remote, notify))]);
    }
    let configuration = Configuration::read(folder);
    let mut names = arguments.agents.clone();
    if names.is_empty() {
        names = configuration.names().into_iter().map(str::to_owned).collect();
    }
    if names.is_empty() {
        return Err(CommandError::usage("which agent?")
            .hint("choose one from `switchboard agents`, or give a command line after `--`")
            .hint("`switchboard serve demo` serves the built-in demo agent"));
    }
    let mut agents: Vec<(String, Program)> = Vec::new();
    for name in names {
        if agents.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let is_remote = configuration.find(&name).is_some_and(|agent| Remote::is_address(&agent.command));
        let program = configuration.chosen_program(&name)?;
        agents.push((name, without_secrets(program, is_remote, notify)));
    }
    Ok(agents)
}

/// Removes hub secrets from an agent's environment. A remote agent was given its own.
fn without_secrets(program: Program, is_remote: bool, notify: &NotifySettings) -> Program {
    let program = notify.secret_variables.iter().fold(program, Program::env_remove);
    let secrets = [TOKEN, HEADERS, CREDENTIALS];
    if is_remote { program } else { secrets.into_iter().fold(program, Program::env_remove) }
}

/// Returns the address to listen on, if it is safe.
fn address(arguments: &Arguments) -> Result<SocketAddr, CommandError> {
    let bad = |reason: String| {
        CommandError::usage(format!("cannot listen on {}: {reason}", arguments.listen))
            .hint("an address and a port, such as 127.0.0.1:0 or [::1]:4173")
    };
    let mut found = arguments.listen.to_socket_addrs().map_err(|error| bad(error.to_string()))?;
    let address = found.next().ok_or_else(|| bad("it is not a valid address".to_owned()))?;
    let is_safe =
        address.ip().is_loopback() || arguments.tls_cert.is_some() || arguments.behind_proxy.is_some();
    if !is_safe {
        return Err(CommandError::usage(format!(
            "{address} is reachable from other machines, and the traffic would be unencrypted"
        ))
        .hint("use a certificate with --tls-cert FILE and --tls-key FILE")
        .hint("or use --behind-proxy NAME if a proxy with a certificate for NAME is the only access"));
    }
    Ok(address)
}

async fn serve(arguments: &Arguments, serving: Serving) -> Result<Outcome, CommandError> {
    let Serving {
        folder,
        address,
        tls,
        store,
        log,
        agents,
        logger,
        settings,
        notify,
        telemetry,
        open_files,
        rules,
    } = serving;
    let log = log.open(&store, |progress| logger.say(progress)).await?;
    let failed = |error: std::io::Error| CommandError::failed(format!("cannot serve: {error}"));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        CommandError::failed(format!("cannot listen on {address}: {error}"))
            .hint("use any free port: --listen 127.0.0.1:0")
    })?;
    let address = listener.local_addr().map_err(failed)?;
    let local = local_ports(arguments, &settings.origins, &agents, &logger).await?;
    let bound = local.bound.iter().filter_map(|(_, listener)| listener.local_addr().ok());
    let context = SandboxContext {
        folder: folder.clone(),
        store: Some(store.path().to_owned()),
        ports: std::iter::once(address).chain(bound).map(|address| address.port()).collect(),
    };
    let agents = agents
        .into_iter()
        .map(|(name, program)| {
            Ok((name.clone(), arguments.sandbox.confine(program, Some(&name), &rules, &context)?))
        })
        .collect::<Result<Vec<_>, CommandError>>()?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut hang_up =
        if ending::ignores_hang_up() { None } else { Some(signal(SignalKind::hangup()).map_err(failed)?) };
    let hung_up = async {
        match &mut hang_up {
            Some(hang_up) => hang_up.recv().await,
            None => std::future::pending().await,
        }
    };
    let has_tokens = store.tokens().map(|tokens| !tokens.is_empty()).unwrap_or_default();
    let mut origins = origins(address, tls.is_some(), arguments.behind_proxy.as_deref());
    origins.extend(arguments.public_url.clone());
    let has_public = arguments.behind_proxy.is_some() || arguments.public_url.is_some();
    let listed = arguments.listed.iter().chain(&settings.origins).cloned().collect();
    let gate = Gate::new(store.clone(), origins.clone(), listed, tls.is_some(), logger.clone())
        .map_err(|error| CommandError::failed(format!("cannot create a token: {error}")))?;
    if let Some(file) = &arguments.token_file {
        write_token(file, gate.launch_token())?;
    } else if !has_tokens {
        logger.say("there are no tokens yet; create one with `switchboard tokens add NAME --role admin`, or start with --token-file FILE");
    }
    let tell = logger.clone();
    let roots = settings.roots;
    let prompt_roots = roots.clone();
    // A new session is here, or below the first root.
    let folder = match folder.to_str().map(|folder| roots.resolve(folder)) {
        Some(Err(Refused { roots, .. })) => roots.first().map_or(folder, PathBuf::from),
        _ => folder,
    };
    let public = links_first(origins.clone(), has_public).swap_remove(0);
    let info = HubInfo { address: public.clone(), roots: roots.names() };
    let push = PushBook::open(store.clone(), settings.push_services, logger.clone());
    let notifier = notifications::start_with(&notify, &store, &info.address, &push.targets(), {
        let push = Arc::clone(&push);
        Some(Arc::new(move |target: &str| {
            let (push, target) = (Arc::clone(&push), target.to_owned());
            // The store blocks.
            drop(tokio::task::spawn_blocking(move || push.gone(&target)));
        }))
    });
    if !notify.targets.is_empty() {
        logger.say(&notifications::announced(&notify));
    }
    let observer = Observer { telemetry: telemetry.clone(), notifier: Some(notifier.clone()) };
    let usable = roots.clone();
    let resolve =
        Arc::new(move |folder: &str| usable.resolve(folder).map_err(|Refused { reason, .. }| reason));
    let folders: Folders = Box::new(move |folder| {
        roots.resolve(folder).map_err(|Refused { reason, roots }| FolderRefusal { reason, roots })
    });
    let names: Vec<String> = agents.iter().map(|(name, _)| name.clone()).collect();
    // Users of a hub cannot install agents there.
    let cards = cards(&agents).into_iter().filter(|card| card.install.is_none()).collect();
    let (warm, unknown) = settings.warm.among(&names);
    for name in unknown {
        logger.say(&format!("the setting hub.warm: this hub has no agent {name}"));
    }
    let hub = Hub::start(HubOptions {
        log,
        warm,
        idle: settings.idle,
        cancel_timeout: settings.cancel_timeout,
        open_logs: open_logs(open_files),
        handshake_timeout: arguments.handshake.handshake_timeout,
        report: Arc::new(move |what| tell.say(what)),
        reports_standard_error: true,
        local_names: vec![gate.launch_name(), local_clients::MARIMO.into()],
        policy: Some(Box::new(HubRules::new(rules.clone()))),
        listener: observer.boxed(),
        info,
        agent_options: settings.agent_options,
        ..HubOptions::new(store.clone(), agents, folders)
    })
    .map_err(store_file::store_error)?;
    let gate = Arc::new(gate.over(hub.clone()));
    let (acp, connections) = server::router(Arc::clone(&gate), limits(settings.connections));
    let acp = cross_origin::with_cors(acp.merge(cross_origin::ticket_route(&gate, &public)), &gate);
    let editors = agent_host::start(&hub, &store, &folder.to_string_lossy(), resolve);
    let asked = Arc::clone(&gate);
    let origins = links_first(origins, has_public);
    let page = Page::new(PageOptions {
        access: Access::Tokens {
            origins,
            has_certificate: tls.is_some(),
            identify: Arc::new(move |head, from| asked.identify(head, from)),
        },
        rules: Some(Box::new(rules)),
        handshake_hint: handshake::HINT.to_owned(),
        agents: cards,
        notifications: Some(Arc::new(PageNotifications(notifier.clone()))),
        ..PageOptions::new(store.clone(), hub.clone(), folder, address.port())
    });
    let links = page.links("/", gate.launch_identity());
    let prompts = (store, logger.clone());
    let prompts = PromptService::new(&gate, &hub, &notifier, prompts, prompt_roots, &public);
    let prompts = prompts::routes(prompts.map_err(store_file::store_error)?);
    let door = arguments.fixed.map(|_| Arc::new(Doorkeeper::default()));
    if let Some(door) = &door {
        local.serve(&gate, &hub, door, &logger).map_err(failed)?;
    }
    let routes = local_clients::route(door.as_ref(), &hub).merge(push::route(&push, &notifier, &hub));
    let pages = page.router_with(routes);
    tokio::spawn(push.follow_tokens(notifier.clone(), hub.clone()));
    let router = acp.merge(operators(&gate, &hub, &notifier)).merge(pages).merge(prompts);
    let router = router.merge(notifications::answer_route(&hub, &notifier));
    let asked = Arc::clone(&gate);
    let identify = Arc::new(move |head: &Parts, from| asked.identify_editor(head, from));
    let router = agent_host::with_route(router, &editors, identify);
    let scheme = if tls.is_some() { "https" } else { "http" };
    writeln!(std::io::stdout(), "listening on {scheme}://{address}").map_err(write_error)?;
    std::io::stdout().flush().map_err(write_error)?;
    if std::io::stderr().is_terminal() {
        let link = more_links::with_qr(&links.fresh().map_err(failed)?, !arguments.no_qr);
        let answer = move |line: &str| answer_at_terminal(door.as_deref(), line);
        let more = more_links::on_enter(links, |made| eprintln!("{made}"), !arguments.no_qr, answer);
        let more = if more { " Enter prints another, c and Enter a code to type." } else { "" };
        eprintln!(
            "{link}\nThis link lets one browser in, once and within a minute.{more} Other clients need a token."
        );
    }
    tokio::select! {
        never = server::serve(&listener, &router, tls.as_ref(), ListenerLimits::default()) => match never {},
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hung_up => {}
    }
    logger.say("shutting down: ending agents, closing logs");
    let end = async {
        // Editors reconnect by themselves. They are told first, so that they do not show the end as an error.
        editors.shut_down().await;
        hub.end("the hub was ended", GRACE).await;
        connections.shut_down(NOTIFY_TIMEOUT).await;
        notifier.end(WITHDRAW_TIMEOUT).await;
    };
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, end).await.is_err() {
        logger.say("the shutdown timed out; the next start repairs the logs");
    }
    if let Some(telemetry) = telemetry {
        telemetry.end(LAST_SENDING);
    }
    Ok(Outcome::Fine)
}

/// Binds the ports for clients with fixed addresses, and says what cannot work.
async fn local_ports(
    arguments: &Arguments,
    origins: &[String],
    agents: &[(String, Program)],
    logger: &Logger,
) -> Result<LocalPorts, CommandError> {
    let has_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let none = LocalPorts { bound: Vec::new(), trusts_local: arguments.trust_local, has_terminal };
    if arguments.fixed.is_none() {
        return Ok(none);
    }
    let origins: Vec<&String> = arguments.listed.iter().chain(origins).collect();
    if origins.is_empty() {
        return Err(CommandError::usage("--for marimo needs the origin of its page").hint(
            "list it with --origin, such as --origin http://localhost:2718, or as hub.origins in config.json",
        ));
    }
    for origin in origins.iter().filter(|origin| origin.starts_with("https://")) {
        logger
            .say(&format!("marimo at {origin} cannot connect: it would need TLS at the same host and port"));
    }
    let names: Vec<String> = agents.iter().map(|(name, _)| name.clone()).collect();
    let ports = local_clients::ports(&names, &arguments.fixed_port);
    if ports.is_empty() {
        logger
            .say("marimo can use none of these agents; it knows claude, gemini, codex, opencode and cursor");
    }
    Ok(LocalPorts { bound: local_clients::bind(ports, logger).await, ..none })
}

/// Takes an answer to the oldest question about a local client. Returns `false` for other lines.
fn answer_at_terminal(door: Option<&Doorkeeper>, line: &str) -> bool {
    let allow = match line {
        "y" | "yes" => true,
        "n" | "no" => false,
        _ => return false,
    };
    let Some(origin) = door.and_then(|door| door.answer(None, allow)) else { return false };
    eprintln!(
        "{origin} {}",
        if allow { "is let in until the hub ends." } else { "is refused until the hub ends." }
    );
    true
}

fn limits(connections: Option<usize>) -> ServerLimits {
    let mut limits = ServerLimits::default();
    if let Some(connections) = connections {
        limits.connections = connections;
    }
    limits
}

/// Returns the origins under which a page of this server can be open.
fn origins(address: SocketAddr, is_encrypted: bool, proxy: Option<&str>) -> Vec<String> {
    let scheme = if is_encrypted { "https" } else { "http" };
    let mut origins = vec![format!("{scheme}://{address}")];
    if address.ip().is_loopback() {
        origins.push(format!("{scheme}://localhost:{}", address.port()));
    }
    if let IpAddr::V4(_) = address.ip()
        && address.ip().is_unspecified()
    {
        origins.push(format!("{scheme}://127.0.0.1:{}", address.port()));
    }
    origins.extend(proxy.map(|name| format!("https://{name}")));
    origins
}

/// Returns the origins in the order for links: the public one first, which is the last one, if there is any.
fn links_first(mut origins: Vec<String>, has_public: bool) -> Vec<String> {
    if has_public {
        origins.rotate_right(1);
    }
    origins
}

/// Writes the token of this launch to a file that only its owner can read.
fn write_token(file: &Path, token: &str) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::usage(format!("cannot write the token to {}: {error}", file.display()))
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Replaces an existing file, which others might have been able to read.
    let mut new = tempfile::Builder::new().prefix(".token").tempfile_in(folder).map_err(failed)?;
    new.write_all(format!("{token}\n").as_bytes()).map_err(failed)?;
    new.persist(file).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Returns the routes for operators.
fn operators(gate: &Arc<Gate>, hub: &Hub, notifier: &Notifier) -> Router {
    let (gate, hub, notifier) = (Arc::clone(gate), hub.clone(), notifier.clone());
    Router::new().route("/health", get(async || "ok\n")).route(
        "/metrics",
        get(move |request: Request| async move {
            let (head, _) = request.into_parts();
            let from = head.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(from)| *from);
            let from = from.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
            if let Err(refusal) = gate.identify(&head, from) {
                return refusal.into_response();
            }
            metrics(&hub, &notifier).await
        }),
    )
}

async fn metrics(hub: &Hub, notifier: &Notifier) -> Response {
    match hub.metrics().await {
        Some(mut text) => {
            text.push_str(&notifications::metrics(notifier));
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
        }
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
