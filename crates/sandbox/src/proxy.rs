//! The proxy of a sandbox: the only way to other hosts.
//!
//! It runs outside, on a unix socket that the sandbox shows. It resolves a name only after the name was allowed, and connects
//! to that very address, so a name cannot lead to this machine.

mod request;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixListener as StdListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use switchboard_policy::{HostPattern, SandboxSettings};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;

pub use self::request::{
    BadRequest, HttpRequest, MAX_HEAD, ServerName, Target, parse_http, parse_socks, server_name,
};

/// Maximum number of connections at a time.
const MAX_CONNECTIONS: usize = 256;
/// Time for a client to send its request, and for a host to accept a connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// `EAFNOSUPPORT` of Linux: this machine has no IPv6.
const NO_FAMILY: i32 = 97;
/// Pause after a failed `accept`: other connections close meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of hosts whose refusals are counted.
const MAX_DENIED: usize = 1024;

/// Addresses of services that hand out credentials of the machine, beside the link-local ones.
const METADATA: [&str; 3] = ["100.100.100.200", "192.0.0.192", "fd00:ec2::254"];

/// Hosts from which package managers install, reachable in the mode workspace.
pub const PACKAGE_REGISTRIES: [&str; 13] = [
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "static.rust-lang.org",
    "pypi.org",
    "files.pythonhosted.org",
    "proxy.golang.org",
    "sum.golang.org",
    "rubygems.org",
    "repo.maven.apache.org",
    "repo1.maven.org",
];

/// The hosts that a sandbox can reach.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts {
    /// Patterns, each with the line or list that has it.
    pub patterns: Vec<(HostPattern, String)>,
    /// The settings, whose project may restrict the list.
    pub settings: SandboxSettings,
}

impl AllowedHosts {
    /// Returns the reason why a host is reachable; `None` if it is not.
    pub fn reason(&self, target: &Target) -> Option<&str> {
        let (_, because) =
            self.patterns.iter().find(|(pattern, _)| pattern.matches(&target.host, target.port))?;
        self.settings.keeps_host(&target.host, target.port).then_some(because)
    }
}

/// Returns whether an address is one of this machine: its loopback, or one of an interface.
pub(crate) fn is_own_address(address: IpAddr) -> bool {
    let address = address.to_canonical();
    // Only an address of an own interface can be bound. Any other failure leaves it open, so it counts as one.
    address.is_loopback()
        || address.is_unspecified()
        || match UdpSocket::bind(SocketAddr::new(address, 0)) {
            Ok(_) => true,
            Err(error) => {
                error.kind() != std::io::ErrorKind::AddrNotAvailable
                    && error.raw_os_error() != Some(NO_FAMILY)
            }
        }
}

/// Returns the reason why an address is refused unless it is listed itself.
fn closed_address(address: IpAddr) -> Option<&'static str> {
    let address = address.to_canonical();
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast() || address.octets()[0] == 0,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if address.is_loopback() || address.is_unspecified() {
        Some("it is the loopback of this machine")
    } else if is_link_local || address.is_multicast() {
        Some("it is a link-local or multicast address")
    } else if METADATA.iter().any(|known| known.parse() == Ok(address)) {
        Some("it is the address of a metadata service")
    } else if is_own_address(address) {
        Some("it is an address of this machine")
    } else {
        None
    }
}

/// A refused host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeniedHost {
    /// Host and port.
    pub host: String,
    /// Number of refusals so far.
    pub count: u64,
    /// The reason, for people.
    pub reason: String,
}

impl DeniedHost {
    /// Creates a refusal.
    pub fn new(host: impl Into<String>, count: u64, reason: impl Into<String>) -> Self {
        DeniedHost { host: host.into(), count, reason: reason.into() }
    }

    /// Returns the refusal with another number.
    #[must_use]
    pub fn with_count(&self, count: u64) -> Self {
        DeniedHost { count, ..self.clone() }
    }
}

/// Receives refused hosts.
pub type OnDenied = Arc<dyn Fn(DeniedHost) + Send + Sync>;

/// A running proxy. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// Dropped to end the proxy.
    _alive: watch::Sender<()>,
}

struct Shared {
    allowed: AllowedHosts,
    on_denied: Option<OnDenied>,
    denied: Mutex<HashMap<String, u64>>,
    connections: AtomicUsize,
    upstream: Option<Upstream>,
}

/// A proxy of this machine's own environment, which is used onwards.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Upstream {
    host: String,
    port: u16,
}

impl Upstream {
    fn of_environment() -> Option<Self> {
        let names = ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"];
        names.iter().find_map(|name| Upstream::parse(&std::env::var(name).ok()?))
    }

    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("http://")?.trim_end_matches('/');
        let target = if rest.rsplit_once(':').is_some() {
            Target::parse(rest)
        } else {
            Target::parse(&format!("{rest}:80"))
        };
        target.map(|Target { host, port }| Upstream { host, port })
    }
}

impl Proxy {
    /// Starts the proxy on a thread of its own, with a listener for each forwarded port of the loopback.
    pub(crate) fn start(
        listener: StdListener,
        ports: Vec<(u16, StdListener)>,
        allowed: AllowedHosts,
        on_denied: Option<OnDenied>,
    ) -> std::io::Result<Self> {
        let (alive, ended) = watch::channel(());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared {
            allowed,
            on_denied,
            denied: Mutex::default(),
            connections: AtomicUsize::new(0),
            upstream: Upstream::of_environment(),
        });
        std::thread::Builder::new().name("sandbox proxy".to_owned()).spawn(move || {
            runtime.block_on(serve(listener, ports, &shared, ended));
        })?;
        Ok(Proxy { _alive: alive })
    }
}

async fn serve(
    listener: StdListener,
    ports: Vec<(u16, StdListener)>,
    shared: &Arc<Shared>,
    mut ended: watch::Receiver<()>,
) {
    let bound = |listener: StdListener| {
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener)
    };
    // A listener that cannot be used serves nothing: the sandbox has less network, never more.
    let Ok(listener) = bound(listener) else { return };
    for (port, listener) in ports {
        if let Ok(listener) = bound(listener) {
            tokio::spawn(forward_port(port, listener, Arc::clone(shared)));
        }
    }
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            _ = ended.changed() => return,
        };
        // Above the limit, a connection is closed at once.
        let Some(place) = shared.place() else { continue };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            // A connection that fails is closed, which its client sees.
            let _ = shared.connection(stream).await;
            drop(place);
        });
    }
}

/// A place among the connections of a sandbox.
struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Forwards connections to a port of the machine's loopback.
async fn forward_port(port: u16, listener: UnixListener, shared: Arc<Shared>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(place) = shared.place() else { continue };
        tokio::spawn(async move {
            let _place = place;
            if let Ok(mut host) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                let _ = copy_bidirectional(&mut stream, &mut host).await;
            }
        });
    }
}

/// Result of a refused or failed connection to a host.
struct Refusal {
    status: &'static str,
    reason: String,
    socks: u8,
}

impl Shared {
    /// Returns a place for one more connection; `None` if all are taken.
    fn place(self: &Arc<Self>) -> Option<Place> {
        let place = Place(Arc::clone(self));
        (self.connections.fetch_add(1, Ordering::Relaxed) < MAX_CONNECTIONS).then_some(place)
    }

    async fn connection(&self, mut stream: UnixStream) -> std::io::Result<()> {
        let mut head = Vec::new();
        let read = timeout(PATIENCE, async {
            while !has_request(&head) && head.len() < MAX_HEAD {
                if stream.read_buf(&mut head).await? == 0 {
                    return Ok(false);
                }
                if head.first() == Some(&5) && has_greeting(&head) {
                    return Ok(true);
                }
            }
            std::io::Result::Ok(has_request(&head))
        });
        if !matches!(read.await, Ok(Ok(true))) {
            let refusal = bad_request("the head is too long or incomplete");
            return answer(&mut stream, &refusal).await;
        }
        if head.first() == Some(&5) {
            return self.socks(stream, head).await;
        }
        let end = head.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(head.len(), |at| at + 4);
        let rest = head.split_off(end);
        match parse_http(&head) {
            Err(BadRequest { status, reason }) => {
                let refusal = Refusal { status, reason: reason.to_owned(), socks: 1 };
                answer(&mut stream, &refusal).await
            }
            Ok(HttpRequest::Connect(target)) => match self.connect(&target).await {
                Err(refusal) => answer(&mut stream, &refusal).await,
                Ok(host) => {
                    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                    self.tunnel(stream, host, &target, rest).await
                }
            },
            Ok(HttpRequest::Plain { target, head, body }) => match self.connect(&target).await {
                Err(refusal) => answer(&mut stream, &refusal).await,
                Ok(mut host) => {
                    host.write_all(&head).await?;
                    exchange(stream, host, rest, body).await
                }
            },
        }
    }

    async fn socks(&self, mut stream: UnixStream, mut head: Vec<u8>) -> std::io::Result<()> {
        let greeting = 2 + usize::from(head.get(1).copied().unwrap_or_default());
        let mut bytes = head.split_off(greeting.min(head.len()));
        // No login.
        stream.write_all(&[5, 0]).await?;
        let target = timeout(PATIENCE, async {
            loop {
                if let Some(parsed) = parse_socks(&bytes) {
                    return Some(parsed);
                }
                if bytes.len() > 300 || stream.read_buf(&mut bytes).await.ok()? == 0 {
                    return None;
                }
            }
        });
        let reply = |code: u8| [5, code, 0, 1, 0, 0, 0, 0, 0, 0];
        let Ok(Some(Ok(target))) = target.await else { return stream.write_all(&reply(7)).await };
        match self.connect(&target).await {
            Err(refusal) => stream.write_all(&reply(refusal.socks)).await,
            Ok(host) => {
                stream.write_all(&reply(0)).await?;
                self.tunnel(stream, host, &target, Vec::new()).await
            }
        }
    }

    /// Passes bytes in both directions, after the first ones of a TLS client were compared with the target.
    async fn tunnel(
        &self,
        mut stream: UnixStream,
        mut host: TcpStream,
        target: &Target,
        mut first: Vec<u8>,
    ) -> std::io::Result<()> {
        loop {
            match server_name(&first) {
                ServerName::Missing => break,
                ServerName::Named(name) if name == target.host => break,
                ServerName::Named(name) => {
                    self.deny(
                        &Target { host: shown(&name), port: target.port },
                        "it is the TLS server name of a tunnel to another host",
                    );
                    return Ok(());
                }
                ServerName::Malformed => return Ok(()),
                ServerName::Unfinished => {}
            }
            if first.len() > MAX_HEAD {
                return Ok(());
            }
            // The host may speak first, as in SMTP. What it says is passed on until the client has spoken.
            let mut bytes = [0; 4096];
            tokio::select! {
                count = stream.read_buf(&mut first) => {
                    if count? == 0 {
                        return Ok(());
                    }
                }
                count = host.read(&mut bytes) => match count? {
                    0 => return Ok(()),
                    count => stream.write_all(&bytes[..count]).await?,
                },
            }
        }
        host.write_all(&first).await?;
        copy_bidirectional(&mut stream, &mut host).await.map(|_| ())
    }

    /// Connects to a target if it is allowed.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Refusal> {
        if self.allowed.reason(target).is_none() {
            self.deny(target, "it is not in the sandbox's hosts");
            return Err(forbidden(format!("not in the sandbox's hosts: {}", target.host)));
        }
        let failed = |reason: String| Refusal { status: "502 Bad Gateway", reason, socks: 4 };
        if let (Some(upstream), None) = (&self.upstream, target.address()) {
            return upstream.connect(target).await.map_err(failed);
        }
        let found = match target.address() {
            Some(address) => vec![SocketAddr::new(address, target.port)],
            None => timeout(PATIENCE, tokio::net::lookup_host((target.host.as_str(), target.port)))
                .await
                .map_err(|_| failed(format!("looking up {} took too long", target.host)))?
                .map_err(|error| failed(format!("cannot look up {}: {error}", target.host)))?
                .collect(),
        };
        let mut last = failed(format!("{} has no address", target.host));
        for address in found {
            // No name leads to such an address, only the address itself.
            let is_named = target.address() == Some(address.ip());
            if let Some(reason) = closed_address(address.ip()).filter(|_| !is_named) {
                self.deny(target, reason);
                last = forbidden(format!("{} leads to {}: {reason}", target.host, address.ip()));
                continue;
            }
            match timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = failed(format!("cannot connect to {target}: {error}")),
                Err(_) => last = failed(format!("connecting to {target} took too long")),
            }
        }
        Err(last)
    }

    fn deny(&self, target: &Target, reason: &str) {
        let Some(on_denied) = &self.on_denied else { return };
        let host = target.to_string();
        let count = {
            let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
            if denied.len() >= MAX_DENIED && !denied.contains_key(&host) {
                return;
            }
            let count = denied.entry(host.clone()).or_default();
            *count += 1;
            *count
        };
        on_denied(DeniedHost::new(host, count, reason));
    }
}

impl Upstream {
    /// Opens a tunnel through the proxy of this machine.
    async fn connect(&self, target: &Target) -> Result<TcpStream, String> {
        let failed =
            |what: &dyn std::fmt::Display| format!("the proxy {}:{} failed: {what}", self.host, self.port);
        let opened = timeout(PATIENCE, async {
            let mut stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut head = Vec::new();
            // Byte by byte: what follows belongs to the tunnel.
            while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD {
                head.push(stream.read_u8().await?);
            }
            std::io::Result::Ok((stream, head))
        });
        match opened.await {
            Ok(Ok((stream, head))) => {
                let line = String::from_utf8_lossy(&head);
                let line = line.lines().next().unwrap_or_default();
                if line.split(' ').nth(1) == Some("200") { Ok(stream) } else { Err(failed(&shown(line))) }
            }
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => Err(failed(&"it took too long")),
        }
    }
}

/// Returns a text of a peer without control characters, for messages.
fn shown(text: &str) -> String {
    text.chars().filter(|letter| letter.is_ascii_graphic() || *letter == ' ').take(200).collect()
}

fn has_request(bytes: &[u8]) -> bool {
    bytes.first() != Some(&5) && bytes.windows(4).any(|bytes| bytes == b"\r\n\r\n")
}

fn has_greeting(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|count| bytes.len() >= 2 + usize::from(*count))
}

fn bad_request(reason: &str) -> Refusal {
    Refusal { status: "400 Bad Request", reason: reason.to_owned(), socks: 1 }
}

fn forbidden(reason: String) -> Refusal {
    Refusal { status: "403 Forbidden", reason, socks: 2 }
}

async fn answer(stream: &mut (impl AsyncWrite + Unpin), refusal: &Refusal) -> std::io::Result<()> {
    let body = format!("{}\n", refusal.reason);
    let text = format!(
        "HTTP/1.1 {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        refusal.status,
        body.len()
    );
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// Sends the body of one request and returns the response. Bytes after the body are not sent: they would be a second request,
/// perhaps for another host at the same address.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite,
    host: TcpStream,
    first: Vec<u8>,
    body: u64,
) -> std::io::Result<()> {
    let (from_client, mut to_client) = tokio::io::split(stream);
    let (mut from_host, mut to_host) = host.into_split();
    let mut body = first.as_slice().chain(from_client).take(body);
    let sending = async {
        // An early response is still read if the host does not want the rest.
        let _ = copy(&mut body, &mut to_host).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = sending => Ok(()),
        copied = copy(&mut from_host, &mut to_client) => {
            copied?;
            to_client.shutdown().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_closed() {
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "0.0.0.0",
            "::",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "fe80::1",
            "::ffff:127.0.0.1",
            "100.100.100.200",
            "fd00:ec2::254",
            "0.1.2.3",
        ] {
            assert!(closed_address(address.parse().unwrap()).is_some(), "{address}");
        }
        assert_eq!(closed_address("192.0.2.1".parse().unwrap()), None);
    }

    #[test]
    fn an_upstream_proxy_is_read_from_its_address() {
        let upstream = |text| Upstream::parse(text).map(|upstream| (upstream.host, upstream.port));
        assert_eq!(upstream("http://proxy.example.com:3128/"), Some(("proxy.example.com".into(), 3128)));
        assert_eq!(upstream("http://proxy.example.com"), Some(("proxy.example.com".into(), 80)));
        assert_eq!(upstream("socks5://x"), None);
    }

    #[test]
    fn a_project_restricts_the_hosts_of_all_lists() {
        use switchboard_policy::{NoFiles, Policy};
        let parse = |text: &str| Policy::parse(text, &NoFiles::default()).unwrap();
        let user = parse("[sandbox]\nhosts = [\"a.com\", \"b.com\"]\n");
        let project = parse("[sandbox]\nhosts = [\"b.com\"]\n");
        let allowed = |policy: &Policy, host: &str| {
            let settings = policy.sandbox().clone();
            let patterns = settings.hosts.iter().map(|host| (host.clone(), "hosts".to_owned())).collect();
            let hosts = AllowedHosts { patterns, settings };
            hosts.reason(&Target { host: host.to_owned(), port: 443 }).is_some()
        };
        assert!(allowed(&user, "a.com"));
        let both = user.with_project(project, false);
        assert!(!allowed(&both, "a.com") && allowed(&both, "b.com"));
    }
}
