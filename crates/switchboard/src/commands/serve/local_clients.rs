//! Clients in pages that can send no credential and connect to fixed ports of this machine, such as marimo.
//!
//! In place of a credential, all of these must hold: the connection comes from this machine and from a process of the
//! same user, the page's origin is listed, and a person has let the origin in since the start of the hub.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::routing::get;
use axum::{Extension, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use switchboard_hub::{Hub, Identity};
use switchboard_store::Role;
use switchboard_transport::server::{
    self, ListenerLimits, Refusal, ServerConnection, ServerLimits, Service, close_codes,
};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::gate::Gate;
use super::logging::Logger;

/// Name of the holder of sessions that these clients start.
pub(super) const MARIMO: &str = "marimo";
/// Time for which `initialize` is held until a person has answered.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum number of origins that wait for an answer.
const MAX_WAITING: usize = 16;
/// Maximum size of the list of connections that is read, in bytes.
const MAX_TABLE: u64 = 64 << 20;

/// A client with fixed addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FixedClient {
    /// marimo, a notebook
    Marimo,
}

/// Ports at which marimo expects agents, by their names.
const PORTS: [(&str, u16); 5] =
    [("claude", 3017), ("gemini", 3019), ("codex", 3021), ("opencode", 3023), ("cursor", 3025)];
/// Paths that it uses.
const PATHS: [&str; 2] = ["/message", "/"];

/// Parses `AGENT=PORT`.
pub(super) fn parse_port(text: &str) -> Result<(String, u16), String> {
    let (agent, port) = text.split_once('=').ok_or("expected AGENT=PORT")?;
    Ok((agent.to_owned(), port.parse().map_err(|_| "the port must be a number")?))
}

/// Returns the agents of a hub that marimo can use, with their ports. `others` replaces the ports.
pub(super) fn ports(agents: &[String], others: &[(String, u16)]) -> Vec<(String, u16)> {
    let known = PORTS.map(|(agent, port)| (agent.to_owned(), port));
    let ports = if others.is_empty() { &known[..] } else { others };
    ports.iter().filter(|(agent, _)| agents.contains(agent)).cloned().collect()
}

/// Binds the ports. One that is taken is reported, because another agent may be served there.
pub(super) async fn bind(ports: Vec<(String, u16)>, logger: &Logger) -> Vec<(String, TcpListener)> {
    let mut bound = Vec::new();
    for (agent, port) in ports {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => bound.push((agent, listener)),
            Err(error) => {
                logger
                    .say(&format!("marimo cannot reach {agent}: cannot listen on 127.0.0.1:{port}: {error}"));
            }
        }
    }
    bound
}

/// An origin that waits for an answer.
struct Waiting {
    id: u64,
    origin: String,
    agent: String,
    answer: watch::Sender<Option<bool>>,
}

#[derive(Default)]
struct State {
    /// Answers by origin and agent.
    answers: HashMap<(String, String), bool>,
    waiting: Vec<Waiting>,
    last: u64,
}

/// Asks people whether an origin may use an agent, and remembers the answers until the hub ends.
#[derive(Default)]
pub(super) struct Doorkeeper(Mutex<State>);

impl Doorkeeper {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the answer for an origin; waits for it if there is none yet. `ask` prints the question once.
    async fn may_enter(&self, origin: &str, agent: &str, ask: impl FnOnce(&str)) -> bool {
        let (id, mut answer) = {
            let mut state = self.state();
            if let Some(answer) = state.answers.get(&(origin.to_owned(), agent.to_owned())) {
                return *answer;
            }
            let known = state.waiting.iter().find(|it| it.origin == origin && it.agent == agent);
            match known {
                Some(known) => (known.id, known.answer.subscribe()),
                None if state.waiting.len() >= MAX_WAITING => return false,
                None => {
                    state.last += 1;
                    let (sender, receiver) = watch::channel(None);
                    let (origin, agent) = (origin.to_owned(), agent.to_owned());
                    ask(&format!("marimo at {origin} wants {agent}: let it in?"));
                    let id = state.last;
                    state.waiting.push(Waiting { id, origin, agent, answer: sender });
                    (id, receiver)
                }
            }
        };
        let answered = tokio::time::timeout(PATIENCE, answer.wait_for(Option::is_some)).await;
        let allowed = matches!(answered, Ok(Ok(answer)) if *answer == Some(true));
        // Without an answer, the next connection asks again.
        self.state().waiting.retain(|it| it.id != id);
        allowed
    }

    /// Answers a question; the oldest one without an id. Returns the origin, if there is such a question.
    pub(super) fn answer(&self, id: Option<u64>, allow: bool) -> Option<String> {
        let mut state = self.state();
        let at = state.waiting.iter().position(|it| id.is_none_or(|id| it.id == id))?;
        let Waiting { origin, agent, answer, .. } = state.waiting.remove(at);
        state.answers.insert((origin.clone(), agent), allow);
        answer.send_replace(Some(allow));
        Some(origin)
    }

    /// Returns the questions that wait.
    fn questions(&self) -> Value {
        let state = self.state();
        let question = |it: &Waiting| json!({"id": it.id, "origin": it.origin, "agent": it.agent});
        state.waiting.iter().map(question).collect()
    }
}

/// Lets clients of one port in.
struct LocalGate {
    gate: Arc<Gate>,
    hub: Hub,
    door: Arc<Doorkeeper>,
    agent: String,
    /// The address that the port listens on.
    address: SocketAddr,
    /// True if processes of other users are let in too.
    trusts_local: bool,
    logger: Logger,
    /// True if there is a terminal to answer on.
    has_terminal: bool,
}

/// A page of an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LocalPage(String);

impl LocalGate {
    fn check(&self, head: &Parts, from: SocketAddr) -> Result<LocalPage, String> {
        let text = |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if !from.ip().is_loopback() {
            return Err("only clients on this machine can connect to this port".to_owned());
        }
        let host = text(header::HOST).unwrap_or_default();
        let name = host.strip_suffix(&format!(":{}", self.address.port())).unwrap_or(host);
        if !matches!(name, "localhost" | "127.0.0.1" | "[::1]") {
            return Err("this port has the names localhost and 127.0.0.1 only".to_owned());
        }
        if text(header::UPGRADE).is_none_or(|upgrade| !upgrade.eq_ignore_ascii_case("websocket")) {
            return Err("this port is for WebSockets only".to_owned());
        }
        let origin = text(header::ORIGIN).filter(|origin| self.gate.is_listed(origin.as_bytes()));
        let origin =
            origin.ok_or("this origin is not listed: see hub.origins in config.json, and serve --origin")?;
        if !self.trusts_local {
            let owner = owner_of(from, self.address).map_err(|error| {
                format!(
                    "cannot find out whose process has connected: {error}; --trust-local omits this check"
                )
            })?;
            if owner != Some(rustix::process::geteuid().as_raw()) {
                return Err("only processes of the user who runs the hub can connect to this port".to_owned());
            }
        }
        Ok(LocalPage(origin.to_owned()))
    }
}

impl Service for LocalGate {
    type Identity = LocalPage;

    fn identify(&self, head: &Parts, from: SocketAddr) -> Result<LocalPage, Refusal> {
        self.check(head, from)
            .map_err(|reason| self.gate.refuse(from, Refusal::new(StatusCode::FORBIDDEN, reason)))
    }

    fn has_agent(&self, agent: Option<&str>) -> bool {
        self.hub.has_agent(agent)
    }

    fn open(&self, LocalPage(origin): LocalPage, _: Option<String>, connection: ServerConnection) {
        let (hub, door, agent) = (self.hub.clone(), Arc::clone(&self.door), self.agent.clone());
        let (logger, has_terminal) = (self.logger.clone(), self.has_terminal);
        tokio::spawn(async move {
            let ask = |question: &str| {
                let way = if has_terminal {
                    "type y or n and Enter, or answer in the page"
                } else {
                    "answer in the page"
                };
                logger.say(&format!("{question} ({way}, within a minute)"));
            };
            if door.may_enter(&origin, &agent, ask).await {
                let who = Identity { name: MARIMO.into(), role: Role::Use, all: false, made: 0 };
                hub.connect(who, Some(&agent), connection).await;
            } else {
                logger.say(&format!("refused marimo at {origin}: it was not let in to {agent}"));
                connection.outgoing.close(close_codes::POLICY_VIOLATION, "nobody has let this page in");
            }
        });
    }
}

/// Ports for clients with fixed addresses.
pub(super) struct LocalPorts {
    pub(super) bound: Vec<(String, TcpListener)>,
    pub(super) trusts_local: bool,
    pub(super) has_terminal: bool,
}

impl LocalPorts {
    /// Serves the ports. The tasks end with the program.
    pub(super) fn serve(
        self,
        gate: &Arc<Gate>,
        hub: &Hub,
        door: &Arc<Doorkeeper>,
        logger: &Logger,
    ) -> io::Result<()> {
        for (agent, listener) in self.bound {
            let address = listener.local_addr()?;
            let local = LocalGate {
                gate: Arc::clone(gate),
                hub: hub.clone(),
                door: Arc::clone(door),
                agent: agent.clone(),
                address,
                trusts_local: self.trusts_local,
                logger: logger.clone(),
                has_terminal: self.has_terminal,
            };
            let (router, _) = server::agent_router(Arc::new(local), ServerLimits::default(), &agent, &PATHS);
            logger.say(&format!("marimo reaches {agent} at ws://{address}{}", PATHS[0]));
            tokio::spawn(async move {
                match server::serve(&listener, &router, None, ListenerLimits::default()).await {}
            });
        }
        Ok(())
    }
}

/// The answer of a person in the page.
#[derive(Deserialize)]
struct PageAnswer {
    id: u64,
    allow: bool,
}

/// Maximum size of an answer in bytes.
const MAX_ANSWER: usize = 1024;

/// Returns the route by which the page shows and answers the questions. Only admins may answer.
pub(super) fn route(door: Option<&Arc<Doorkeeper>>, hub: &Hub) -> Router {
    let (asking, answering) = (door.cloned(), door.cloned());
    let (hub, hub_of_answers) = (hub.clone(), hub.clone());
    let questions = move |Extension(who): Extension<Identity>| async move {
        let is_admin = is_admin(&hub, &who).await;
        // Without a door the page does not ask again.
        let questions = asking.filter(|_| is_admin).map(|door| door.questions());
        ([(header::CONTENT_TYPE, "application/json")], json!({"questions": questions}).to_string())
    };
    let answer = move |Extension(who): Extension<Identity>, request: Request| async move {
        if !is_admin(&hub_of_answers, &who).await {
            return StatusCode::FORBIDDEN;
        }
        let body = to_bytes(request.into_body(), MAX_ANSWER).await.unwrap_or_default();
        let Ok(answer) = serde_json::from_slice::<PageAnswer>(&body) else { return StatusCode::BAD_REQUEST };
        match answering.and_then(|door| door.answer(Some(answer.id), answer.allow)) {
            Some(_) => StatusCode::NO_CONTENT,
            None => StatusCode::NOT_FOUND,
        }
    };
    Router::new().route("/in/local-clients", get(questions).post(answer))
}

async fn is_admin(hub: &Hub, who: &Identity) -> bool {
    hub.sessions(who).await.is_some_and(|(who, _)| who.role >= Role::Admin)
}

/// Returns the user whose process has the other end of a connection; `None` if the connection is not there.
fn owner_of(peer: SocketAddr, here: SocketAddr) -> io::Result<Option<u32>> {
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let file = match std::fs::File::open(table) {
            // A system without IPv6.
            Err(error) if table.ends_with('6') && error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        let mut text = String::new();
        file.take(MAX_TABLE).read_to_string(&mut text)?;
        if let Some(owner) = owner_in(&text, peer, here) {
            return Ok(Some(owner));
        }
    }
    Ok(None)
}

/// Finds an established connection in a table of the Linux kernel.
fn owner_in(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (local, remote) else { return None };
    // The kernel prints the bytes of an address as one number of this machine.
    let four = |address: std::net::SocketAddrV4| {
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    // An address of IPv4 in a socket of IPv6.
    let mapped = |four: &str| format!("{:016X}{:08X}{four}", 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]));
    let (local, remote) = (four(local), four(remote));
    let (mapped_local, mapped_remote) = (mapped(&local), mapped(&remote));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, from, to, "01", _, _, _, owner, ..] = fields[..] else { return None };
        let is_it = (from == local && to == remote) || (from == mapped_local && to == mapped_remote);
        if is_it { owner.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "http://localhost:2718";

    #[test]
    fn the_owner_of_a_connection_is_found_in_the_tables_of_the_kernel() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:0BC9 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0\n\
            \x20  1: 0100007F:C350 0100007F:0BC9 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0\n\
            \x20  2: 0100007F:0BC9 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0\n\
            \x20  3: 0100007F:C351 0100007F:0BC9 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        if cfg!(target_endian = "little") {
            assert_eq!(owner_in(table, at(50000), at(3017)), Some(1001));
            assert_eq!(
                owner_in(table, at(50001), at(3017)),
                None,
                "a connection that has ended has no owner"
            );
            assert_eq!(owner_in(table, at(50000), at(3019)), None);
            let mapped = "head\n 0: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:0BC9 01 \
                0:0 0:0 0 1002 0 1\n";
            assert_eq!(owner_in(mapped, at(50000), at(3017)), Some(1002));
        }
        for damaged in
            ["", "head\n", "head\n0: x y 01\n", "head\n0: 0100007F:C350 0100007F:0BC9 01 a b c d e\n"]
        {
            assert_eq!(owner_in(damaged, at(50000), at(3017)), None);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_connection_of_this_process_belongs_to_its_user() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(here).unwrap();
        let owner = owner_of(client.local_addr().unwrap(), here).unwrap();
        assert_eq!(owner, Some(rustix::process::geteuid().as_raw()));
        assert_eq!(owner_of(here, here).unwrap(), None);
    }

    #[test]
    fn only_agents_of_the_hub_have_a_port() {
        let agents = ["claude".to_owned(), "demo".to_owned()];
        assert_eq!(ports(&agents, &[]), [("claude".to_owned(), 3017)]);
        assert_eq!(ports(&agents, &[("demo".to_owned(), 1)]), [("demo".to_owned(), 1)]);
        assert_eq!(parse_port("demo=7"), Ok(("demo".to_owned(), 7)));
        assert!(parse_port("demo").is_err() && parse_port("demo=x").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_origin_is_asked_about_once_and_the_answer_is_remembered() {
        let door = Arc::new(Doorkeeper::default());
        let enter = |agent: &'static str| {
            let door = Arc::clone(&door);
            tokio::spawn(async move { door.may_enter(ORIGIN, agent, |_| {}).await })
        };
        let (first, second) = (enter("claude"), enter("claude"));
        while door.questions().as_array().is_none_or(Vec::is_empty) {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        assert_eq!(door.questions(), json!([{"id": 1, "origin": ORIGIN, "agent": "claude"}]));
        assert_eq!(door.answer(Some(2), true), None);
        assert_eq!(door.answer(None, true).as_deref(), Some(ORIGIN));
        assert!(first.await.unwrap() && second.await.unwrap());
        assert!(door.may_enter(ORIGIN, "claude", |_| panic!("asked again")).await);
        // Another agent is another question. Without an answer nobody is let in, and the next one asks again.
        assert!(!enter("codex").await.unwrap());
        assert_eq!(door.questions(), json!([]));
        let third = enter("codex");
        while door.answer(None, false).is_none() {
            tokio::task::yield_now().await;
        }
        assert!(!third.await.unwrap());
        assert!(!door.may_enter(ORIGIN, "codex", |_| panic!("asked again")).await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_questions_is_limited() {
        let door = Arc::new(Doorkeeper::default());
        for number in 0..MAX_WAITING {
            let door = Arc::clone(&door);
            tokio::spawn(
                async move { door.may_enter(&format!("http://localhost:{number}"), "a", |_| {}).await },
            );
        }
        while door.questions().as_array().is_none_or(|all| all.len() < MAX_WAITING) {
            tokio::task::yield_now().await;
        }
        assert!(!door.may_enter("http://localhost:9999", "a", |_| panic!("asked")).await);
    }
}
