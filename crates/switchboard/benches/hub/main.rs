//! `switchboard serve` under load, against the targets that it has. Prints figures; nothing fails for being slow. Names of
//! measurements as arguments choose among them; `--official FOLDER` is where the programs of the official SDK are.
#![allow(clippy::unwrap_used, missing_docs)]

mod agent;
mod cluster;
mod hub;
mod socket;

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use memchr::memmem;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use switchboard_acp::{AbsolutePath, Wire, WireFormat, v2};
use switchboard_peer::{Client, ClientOptions, Event};
use switchboard_transport::{self as transport, Connection, ConnectionOptions, Json, Remote};

use self::hub::Hub;
use self::socket::Socket;

/// How many come at the same time.
const AT_ONCE: usize = 32;

fn main() {
    let mut names = Vec::new();
    let mut official = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--be-the-agent" => return agent::run(),
            "--official" => official = arguments.next().map(PathBuf::from),
            "--bench" => {}
            _ => names.push(argument),
        }
    }
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let sockets = raise_limit();
    let before = Cores::now();
    if is_wanted("flood") {
        flood(official.as_deref());
    }
    if is_wanted("crowd") {
        crowd();
    }
    if is_wanted("idle") {
        idle(sockets);
    }
    if is_wanted("deaf") {
        deaf();
    }
    if is_wanted("restart") {
        restart(sockets);
    }
    // It needs a NATS server, and so is measured by name only.
    if names.iter().any(|wanted| wanted == "cluster") {
        cluster::run();
    }
    Cores::now().tell_since(&before);
}

/// What became of the time of all cores since the machine was started.
struct Cores {
    all: u64,
    /// What other machines on the same hardware took.
    taken: u64,
}

impl Cores {
    fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = stat.lines().next().unwrap_or_default();
        let times: Vec<u64> = first.split_whitespace().filter_map(|time| time.parse().ok()).collect();
        Cores { all: times.iter().take(8).sum(), taken: times.get(7).copied().unwrap_or_default() }
    }

    /// Whoever reads how late something was must know whether there was a machine to be in time on.
    fn tell_since(&self, before: &Cores) {
        let part = (self.taken - before.taken) as f64 / (self.all - before.all).max(1) as f64;
        println!("during all of that, {:.0} % of the cores' time was taken by other machines", part * 100.0);
    }
}

/// As many files as may be open; hubs that are started inherit it. Gives how many sockets that allows.
fn raise_limit() -> usize {
    let Rlimit { current: _, maximum } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    maximum.map_or(usize::MAX, |maximum| usize::try_from(maximum).unwrap().saturating_sub(200))
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "ok" } else { "MISSED" }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Runs clients on both cores, as programs that are made with the crates do.
fn block_on_all<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
}

// ----- one client

/// From an agent through a server over a WebSocket to one client that reads every update.
fn flood(official: Option<&Path>) {
    const UPDATES: u64 = 200_000;
    const ROUNDS: usize = 5;
    println!("{UPDATES} updates to one client over a WebSocket, the best of {ROUNDS} rounds");
    let (mut reading, mut keeping, mut theirs) = (Duration::MAX, Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        reading = reading.min(flood_to_reader(UPDATES));
        keeping = keeping.min(flood_to_keeper(UPDATES));
        if let Some(folder) = official {
            theirs = theirs.min(official_flood(folder, UPDATES));
        }
    }
    let rate = |time: Duration| UPDATES as f64 / time.as_secs_f64();
    println!(
        "  agent, hub with its log, a client that reads each update      {:>9.0} a second",
        rate(reading)
    );
    println!(
        "  the same with our client, which keeps the whole session       {:>9.0} a second",
        rate(keeping)
    );
    if official.is_none() {
        return println!("  (without --official FOLDER there is nothing to compare it with)");
    }
    println!(
        "  official server, its client, which reads each update          {:>9.0} a second",
        rate(theirs)
    );
    let [reading, keeping] = [reading, keeping].map(|ours| theirs.as_secs_f64() / ours.as_secs_f64());
    println!("  {reading:.1} times as many; target at least 5: {}", verdict(reading >= 5.0));
    println!(
        "  {keeping:.1} times as many where the client keeps the session, which the official one does not\n"
    );
}

async fn connect(hub: &Hub, options: ConnectionOptions) -> Connection {
    let remote = Remote::new(&format!("ws://{}/acp", hub.address)).unwrap();
    let remote = remote.header("authorization", &format!("Bearer {}", hub.token)).unwrap();
    let stream = remote.connect().await.unwrap();
    Connection::new(stream.reader, stream.writer, options)
}

/// A client that reads each update into its type and lets it go, as the official one does.
fn flood_to_reader(count: u64) -> Duration {
    let hub = Hub::start();
    block_on_all(async {
        let Connection { caller, mut inbox } = connect(&hub, ConnectionOptions::default()).await;
        let seen = Cell::new(0);
        let look = |event: transport::Event| {
            let transport::Event::Notification(notification) = event else { return };
            let update = v2::UpdateSessionNotification::decode(notification.params(), WireFormat::Any);
            if let v2::SessionUpdate::AgentMessageChunk(_) = update.unwrap().update {
                seen.set(seen.get() + 1);
            }
        };
        let info = v2::Implementation::new("bench", "1");
        let introduction = Json::of(&v2::InitializeRequest::new(2_u16, info), WireFormat::Spec);
        inbox.until(caller.call("initialize", introduction), look).await.unwrap();
        let folder = AbsolutePath::parse(hub.folder()).unwrap();
        let request = Json::of(&v2::NewSessionRequest::new(folder), WireFormat::Spec);
        let answer = inbox.until(caller.call("session/new", request), look).await.unwrap();
        let opened = answer.into_result().unwrap();
        let opened = v2::NewSessionResponse::decode(&opened, WireFormat::Any).unwrap();
        let begun = Instant::now();
        let prompt = vec![v2::ContentBlock::text(format!("flood {count}"))];
        let prompt = Json::of(&v2::PromptRequest::new(opened.session_id, prompt), WireFormat::Spec);
        inbox.until(caller.call("session/prompt", prompt), look).await.unwrap();
        while seen.get() < count {
            look(inbox.next().await.unwrap());
        }
        begun.elapsed()
    })
}

/// Our client, which keeps the whole session.
fn flood_to_keeper(count: u64) -> Duration {
    let hub = Hub::start();
    block_on_all(async {
        let connection = connect(&hub, Client::connection_options()).await;
        let options = ClientOptions::new("bench", "1");
        let Client { agent, mut feed } = Client::connect(connection, options).await.unwrap();
        let request = v2::NewSessionRequest::new(AbsolutePath::parse(hub.folder()).unwrap());
        let opened = feed.until(agent.new_session(&request), drop).await.unwrap().unwrap();
        let begun = Instant::now();
        let prompt = vec![v2::ContentBlock::text(format!("flood {count}"))];
        let mut turn = feed.until(agent.prompt(&opened.session_id, prompt), drop).await.unwrap().unwrap();
        let mut seen = 0;
        let count_updates = |event| seen += u64::from(matches!(event, Event::Update(_)));
        feed.until(turn.ended(), count_updates).await.unwrap();
        let took = begun.elapsed();
        assert!(seen >= count, "{seen} of {count} updates came");
        took
    })
}

/// The official server, with an agent in the same process and nothing behind it, and the official client.
fn official_flood(folder: &Path, count: u64) -> Duration {
    let mut server = Command::new(folder.join("official-agent"))
        .args(["2", "serve"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let client = Command::new(folder.join("official-remote-client"))
        .args(["2", &format!("flood {count}"), &format!("ws://{}/acp", address.trim()), ""])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let _ = server.kill();
    let _ = server.wait();
    assert!(client.status.success(), "the official client failed");
    let seconds = String::from_utf8(client.stdout).unwrap();
    Duration::from_secs_f64(seconds.trim().parse().unwrap())
}

// ----- many clients

const CROWD: usize = 1000;
const RATE: u32 = 200;
const SECONDS: u32 = 15;

/// What the agent said of its writing, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Account {
    all: u64,
    writing: u64,
    longest: u64,
}

/// How late updates came, by milliseconds or tenths of them; the last one has all that came later.
struct Delays {
    counts: Vec<AtomicU32>,
    /// How many microseconds each stands for.
    micros: u64,
}

impl Delays {
    fn new() -> Self {
        Delays { counts: (0..10_000).map(|_| AtomicU32::new(0)).collect(), micros: 1000 }
    }

    fn of_tenths() -> Self {
        Delays { micros: 100, ..Delays::new() }
    }

    fn note(&self, micros: u64) {
        let place = usize::try_from(micros / self.micros).unwrap().min(self.counts.len() - 1);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.counts.iter().map(|delay| u64::from(delay.load(Ordering::Relaxed))).sum()
    }

    /// The delay that so large a part does not exceed.
    fn at(&self, part: f64) -> usize {
        let wanted = (self.count() as f64 * part).ceil() as u64;
        let mut seen = 0;
        let reached = |delay: &AtomicU32| {
            seen += u64::from(delay.load(Ordering::Relaxed));
            seen >= wanted
        };
        self.counts.iter().position(reached).unwrap_or(self.counts.len())
    }
}

/// A thousand clients of one session, against one.
fn crowd() {
    println!("an agent that says something {RATE} times a second for {SECONDS} s");
    let alone = with_clients(1);
    let crowded = with_clients(CROWD);
    let (accounts, delays): (Vec<Account>, Vec<Delays>) = [alone, crowded].into_iter().unzip();
    let slower = accounts[1].all as f64 / accounts[0].all as f64;
    println!("  it takes {slower:.3} times as long; target at most 1.1: {}", verdict(slower <= 1.1));
    let most = delays[1].at(1.0);
    println!("  no client is later than {most} ms; target at most 1000: {}\n", verdict(most <= 1000));
}

fn with_clients(count: usize) -> (Account, Delays) {
    let hub = Hub::start();
    let delays = Arc::new(Delays::new());
    let account = block_on(async {
        let (mut first, session, others) = attached(&hub, count).await;
        first.prompt(&session, &format!("pace {RATE} {SECONDS}")).await;
        let before = hub.worked();
        let watching: Vec<_> = [first]
            .into_iter()
            .chain(others)
            .map(|socket| tokio::spawn(watch(socket, Arc::clone(&delays))))
            .collect();
        let mut account = None;
        for watching in watching {
            account = Some(watching.await.unwrap());
        }
        let (account, worked) = (account.unwrap(), hub.worked() - before);
        let Account { all, writing, longest } = account;
        let wanted = u64::from(RATE * SECONDS) * count as u64;
        println!(
            "  {count:>4} clients: the agent took {:.3} s, {:.1} ms of it writing, {:.1} ms the longest; updates came \
             after {} ms, p99 {} ms, at most {} ms ({} of {wanted}); the hub worked {:.1} s",
            all as f64 / 1e6,
            writing as f64 / 1e3,
            longest as f64 / 1e3,
            delays.at(0.5),
            delays.at(0.99),
            delays.at(1.0),
            delays.count(),
            worked.as_secs_f64(),
        );
        // The first client takes the answer to its prompt and does not time what comes before it.
        assert!(delays.count() + 100 >= wanted, "updates are missing");
        account
    });
    (account, Arc::into_inner(delays).unwrap())
}

/// So many clients that look at one session.
async fn attached(hub: &Hub, count: usize) -> (Socket, String, Vec<Socket>) {
    let mut first = hub.socket().await;
    let session = first.new_session(hub.folder()).await;
    let session = &*session;
    let attach = |_| async move {
        let mut socket = hub.socket().await;
        socket.attach(session, hub.folder()).await;
        socket
    };
    let others = stream::iter(1..count).map(attach).buffer_unordered(AT_ONCE).collect().await;
    (first, session.to_owned(), others)
}

/// Reads what an agent says at a pace, up to the account that it gives.
async fn watch(mut socket: Socket, delays: Arc<Delays>) -> Account {
    let stamp = memmem::Finder::new(agent::STAMP);
    let mut account = None;
    while account.is_none() {
        let mut now = 0;
        let see = |text: &[u8]| {
            if let Some(at) = stamp.find(text) {
                if now == 0 {
                    now = agent::now();
                }
                delays.note(now.saturating_sub(number(&text[at + agent::STAMP.len()..])));
            } else if let Some(at) = memmem::find(text, agent::ACCOUNT) {
                let words = text[at + agent::ACCOUNT.len()..].split(|byte| *byte == b' ');
                let numbers: Vec<u64> = words.map(number).collect();
                account = Some(Account { all: numbers[0], writing: numbers[1], longest: numbers[2] });
            }
        };
        assert!(socket.read(see).await, "the hub has closed a connection");
    }
    account.unwrap()
}

/// The number at the beginning of a text.
fn number(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

// ----- clients that cost nothing

/// What a client costs that looks at a session in which nothing happens.
fn idle(sockets: usize) {
    let count = sockets.min(10_000);
    println!("{count} clients that look at one session in which nothing happens");
    if count < 10_000 {
        println!("  (no more files may be open here; `ulimit -H -n` says how many)");
    }
    let hub = Hub::start();
    block_on(async {
        let before = hub.memory("VmRSS");
        let begin = Instant::now();
        let (mut first, session, others) = attached(&hub, count).await;
        println!("  attached in {:.1} s", begin.elapsed().as_secs_f64());
        let delays = Arc::new(Delays::new());
        let watching: Vec<_> =
            others.into_iter().map(|socket| tokio::spawn(watch(socket, Arc::clone(&delays)))).collect();
        // Longer than it takes until each was asked for a sign of life.
        let nothing = async { while first.read(|_| ()).await {} };
        assert!(tokio::time::timeout(Duration::from_secs(20), nothing).await.is_err(), "it was closed");
        let after = hub.memory("VmRSS");
        let each = after as f64 / count as f64;
        println!(
            "  {after} kB in all, {before} kB of it before they came: {each:.1} kB each; target under 20: {}",
            verdict(each < 20.0)
        );
        first.prompt(&session, "pace 10 1").await;
        for watching in watching {
            watching.await.unwrap();
        }
        println!("  {:.1} kB each after ten updates to all\n", hub.memory("VmRSS") as f64 / count as f64);
    });
}

// ----- a hub that was killed

/// A hub with many open sessions is killed, and another one takes its place. The limit of open files of the first one is the
/// usual one, so that it has to raise it or to do with fewer.
fn restart(files: usize) {
    let limit = getrlimit(Resource::Nofile);
    for count in [1000, 5000] {
        println!("a hub that is killed with {count} open sessions");
        let usual = Rlimit { current: Some(1024), maximum: limit.maximum };
        setrlimit(Resource::Nofile, usual).unwrap();
        let hub = Hub::start();
        block_on(async {
            let mut socket = hub.socket().await;
            let begin = Instant::now();
            for _ in 0..count {
                let session = socket.new_session(hub.folder()).await;
                socket.detach(&session).await;
            }
            let each = begin.elapsed().as_secs_f64() * 1000.0 / f64::from(count);
            println!("  opened in {each:.1} ms each; {} files open, {files} allowed", hub.open_files());
        });
        let begin = Instant::now();
        let hub = hub.restart();
        block_on(async {
            let listed = hub.sessions();
            let listed_after = begin.elapsed();
            let mut socket = hub.socket().await;
            let session = socket.new_session(hub.folder()).await;
            socket.detach(&session).await;
            let served = begin.elapsed();
            println!(
                "  all {listed} known after {:.2} s, a new one opened after {:.2} s; target 2: {}",
                listed_after.as_secs_f64(),
                served.as_secs_f64(),
                verdict(listed == usize::try_from(count).unwrap() && served < Duration::from_secs(2))
            );
            // The new one is open.
            while hub.journals() > 2 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            println!("  all in order after {:.1} s", begin.elapsed().as_secs_f64());
        });
    }
    setrlimit(Resource::Nofile, limit).unwrap();
    println!();
}

// ----- a client that does not read

/// A flood to a client that reads, with and without one beside it that does not.
fn deaf() {
    const UPDATES: u64 = 300_000;
    println!("{UPDATES} updates to a client that reads");
    let peaks = [0, 1].map(|deaf| {
        let hub = Hub::start();
        block_on(async {
            let (mut first, session, others) = attached(&hub, 1 + deaf).await;
            let begin = Instant::now();
            first.prompt(&session, &format!("flood {UPDATES}")).await;
            let mut is_over = false;
            while !is_over {
                let see = |text: &[u8]| is_over |= memmem::find(text, br#""stopReason""#).is_some();
                assert!(first.read(see).await, "the hub has closed the connection");
            }
            let (peak, took) = (hub.memory("VmHWM"), begin.elapsed().as_secs_f64());
            let who = if deaf == 0 { "alone" } else { "beside one that never reads" };
            println!("  {who}: {took:.1} s, the hub had {peak} kB at most");
            drop(others);
            peak
        })
    });
    let more = peaks[1].saturating_sub(peaks[0]);
    println!("  {more} kB more; target flat, at most 8192 kB: {}\n", verdict(more <= 8192));
}
