//! Programs between a client and an agent: none, a plain pipe, `switchboard bridge`, and the official
//! conductor without proxies. All use the same agent process and the same client, which only counts lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use memchr::memmem::{self, Finder};

use crate::{number, ourselves, turns};

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    pub(crate) fn number(self) -> u64 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }

    fn of(text: &str) -> Self {
        if text == "1" { Version::One } else { Version::Two }
    }
}

/// The program in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    Pipe,
    Ours,
    Conductor,
}

/// The programs that are compared.
struct Programs {
    switchboard: String,
    conductor: String,
}

/// Runs everything, or one role as a child of itself. The arguments are the paths of the two programs.
pub(crate) fn run() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["agent", version, job, count] => turns::run(Version::of(version), job, number(count)),
        ["pipe", program, ref rest @ ..] => pipe(program, rest),
        [switchboard, conductor] => {
            compare(&Programs { switchboard: switchboard.to_owned(), conductor: conductor.to_owned() });
        }
        _ => println!("skipped: `cargo xtask bench-bridge` installs what this compares with and runs it"),
    }
}

/// Copies bytes in both directions, like `cat`.
fn pipe(program: &str, arguments: &[&str]) {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent starts");
    let (mut input, mut output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    std::thread::spawn(move || copy(&mut std::io::stdin(), &mut input));
    copy(&mut output, &mut std::io::stdout());
    child.wait().expect("the agent ends");
}

fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length) = from.read(&mut buffer)
        && length > 0
        && to.write_all(&buffer[..length]).and_then(|()| to.flush()).is_ok()
    {}
}

/// The client with its child process.
struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    version: Version,
}

impl Client {
    /// Starts an agent behind the program in between, and opens a session.
    fn start(
        programs: &Programs,
        between: Between,
        [client, agent]: [Version; 2],
        job: &str,
        count: u64,
    ) -> Self {
        let us = ourselves().display().to_string();
        let (version, count) = (agent.number().to_string(), count.to_string());
        let agent = [&*us, "agent", &version, job, &count];
        let mut command = match between {
            Between::Nothing | Between::Pipe => Command::new(&us),
            Between::Ours => Command::new(&programs.switchboard),
            Between::Conductor => Command::new(&programs.conductor),
        };
        match between {
            Between::Nothing => command.args(&agent[1..]),
            Between::Pipe => command.arg("pipe").args(agent),
            Between::Ours => command.args(["bridge", "--"]).args(agent),
            Between::Conductor => command.args(["agent", &agent.join(" ")]),
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{between:?} does not start: {error}"));
        let mut input = child.stdin.take().expect("a pipe");
        let output = BufReader::with_capacity(64 * 1024, child.stdout.take().expect("a pipe"));
        let initialize = match client {
            Version::One => r#"{"protocolVersion":1,"clientInfo":{"name":"counter","version":"1"}}"#,
            Version::Two => {
                r#"{"protocolVersion":2,"info":{"name":"counter","version":"1"},"capabilities":{}}"#
            }
        };
        write_request(&mut input, 1, "initialize", initialize);
        let mut client = Client { child, input, output, line: Vec::new(), version: client };
        client.read_until_answer(1);
        write_request(&mut client.input, 2, "session/new", r#"{"cwd":"/","mcpServers":[]}"#);
        client.read_until_answer(2);
        client
    }

    fn read(&mut self) -> &[u8] {
        self.line.clear();
        let read = self.output.read_until(b'\n', &mut self.line).expect("a stream");
        assert!(read > 0, "the stream ends too early");
        &self.line
    }

    fn read_until_answer(&mut self, id: u64) {
        let answer = format!("\"id\":{id}");
        while memmem::find(self.read(), answer.as_bytes()).is_none() {}
    }

    /// Sends a prompt and reads until the turn ends.
    fn turn(&mut self) -> Turn {
        let begun = Instant::now();
        let params = r#"{"sessionId":"s-1","prompt":[{"type":"text","text":"go"}]}"#;
        write_request(&mut self.input, 3, "session/prompt", params);
        let end = Finder::new(match self.version {
            Version::One => "\"stopReason\"",
            Version::Two => "\"state\":\"idle\"",
        });
        let mut turn = Turn { lines: 0, bytes: 0, longest: Vec::new(), time: Duration::ZERO };
        loop {
            let line = self.read();
            turn.lines += 1;
            turn.bytes += line.len();
            if line.len() > SHORT {
                if line.len() >= turn.longest.len() {
                    turn.longest = line.to_vec();
                }
            } else if end.find(line).is_some() {
                turn.time = begun.elapsed();
                return turn;
            }
        }
    }

    /// Measures the duration of each of so many small requests.
    fn round_trips(&mut self, count: u64) -> Vec<Duration> {
        (0..count)
            .map(|number| {
                let begun = Instant::now();
                write_request(&mut self.input, number + 10, "session/list", "{}");
                self.read_until_answer(number + 10);
                begun.elapsed()
            })
            .collect()
    }

    fn end(self) {
        let Client { mut child, input, .. } = self;
        drop(input);
        // The conductor does not always exit with its input.
        let _ = child.kill();
        child.wait().expect("it ends");
    }
}

/// Lines up to this length may end a turn; longer ones are tool output.
const SHORT: usize = 1024;

/// Received lines of a turn.
struct Turn {
    lines: u64,
    bytes: usize,
    /// The last of the longest lines that are not short.
    longest: Vec<u8>,
    time: Duration,
}

fn write_request(input: &mut impl Write, id: u64, method: &str, params: &str) {
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
    input.write_all(line.as_bytes()).expect("the agent reads");
}

/// Runs a turn with each of `contenders` several times, alternating, so that other load slows all of them.
/// Returns the fastest of each in messages per second.
fn contest<const N: usize>(programs: &Programs, contenders: [(Between, [Version; 2], u64); N]) -> [f64; N] {
    let mut best = [0.0_f64; N];
    for _ in 0..ROUNDS {
        for (best, (between, versions, count)) in best.iter_mut().zip(contenders) {
            let mut client = Client::start(programs, between, versions, "words", count);
            let turn = client.turn();
            client.end();
            assert!((count..count + 8).contains(&turn.lines), "{between:?} gave {} lines", turn.lines);
            *best = best.max(turn.lines as f64 / turn.time.as_secs_f64());
        }
    }
    best
}

const ROUNDS: usize = 5;
const FLOOD: u64 = 500_000;
/// The conductor would take minutes for as many as the others get.
const FLOOD_OF_CONDUCTOR: u64 = 20_000;
const ROUND_TRIPS: u64 = 2_000;
const TOOL_CHUNKS: u64 = 20_000;
/// Bytes of text in a chunk of tool output.
pub(crate) const TOOL_CHUNK: usize = 500;

fn compare(programs: &Programs) {
    use Version::{One, Two};
    println!("\nsmall updates through one process, messages a second, best of {ROUNDS}");
    let [direct, pipe, ours, one, down, up, conductor] = contest(
        programs,
        [
            (Between::Nothing, [Two, Two], FLOOD),
            (Between::Pipe, [Two, Two], FLOOD),
            (Between::Ours, [Two, Two], FLOOD),
            (Between::Ours, [One, One], FLOOD),
            (Between::Ours, [One, Two], FLOOD),
            (Between::Ours, [Two, One], FLOOD),
            (Between::Conductor, [Two, Two], FLOOD_OF_CONDUCTOR),
        ],
    );
    for (name, rate) in [
        ("nothing in between", direct),
        ("plain pipe", pipe),
        ("bridge, version 2 on both sides", ours),
        ("bridge, version 1 on both sides", one),
        ("bridge, client of 1, agent of 2", down),
        ("bridge, client of 2, agent of 1", up),
        ("official conductor, version 2", conductor),
    ] {
        println!("  {name:<34} {rate:>10.0}");
    }
    println!("  same version / conductor           {:>10.1} (wanted: at least 50)", ours / conductor);
    println!("  plain pipe / same version          {:>10.2} (wanted: at most 3)", pipe / ours);
    println!("  translation / conductor            {:>10.1} (wanted: at least 20)", down.min(up) / conductor);

    println!(
        "\n{ROUND_TRIPS} round trips of a small request, microseconds added to those without anything in between"
    );
    let trips = |between| {
        let rounds = (0..ROUNDS).map(|_| {
            let mut client = Client::start(programs, between, [Two, Two], "words", 0);
            client.round_trips(ROUND_TRIPS / 4);
            let mut times = client.round_trips(ROUND_TRIPS);
            client.end();
            times.sort_unstable();
            let at = |part: usize| times[times.len() * part / 100].as_nanos() as f64 / 1000.0;
            [at(50), at(99)]
        });
        rounds.min_by(|one, other| one[0].total_cmp(&other[0])).expect("at least one round")
    };
    let [direct, ours, conductor] = [Between::Nothing, Between::Ours, Between::Conductor].map(trips);
    for (index, name) in ["p50", "p99"].into_iter().enumerate() {
        let (ours, conductor) = (ours[index] - direct[index], conductor[index] - direct[index]);
        println!(
            "  {name}: bridge {ours:.1}, conductor {conductor:.1}, ratio {:.2} (wanted: at most 0.33)",
            ours / conductor
        );
    }

    let content = TOOL_CHUNKS as usize * TOOL_CHUNK;
    println!("\ntool output of {content} bytes in {TOOL_CHUNKS} chunks to a client of version 1");
    let mut client = Client::start(programs, Between::Ours, [One, Two], "tool", TOOL_CHUNKS);
    let turn = client.turn();
    client.end();
    let last = format!("{:0TOOL_CHUNK$}", TOOL_CHUNKS - 1);
    let is_complete = memmem::find_iter(&turn.longest, &format!("{:0TOOL_CHUNK$}", 0)).count() == 1
        && memmem::find(&turn.longest, last.as_bytes()).is_some();
    println!(
        "  {} bytes in {} lines, {:.1} times the content (wanted: at most 20)",
        turn.bytes,
        turn.lines,
        turn.bytes as f64 / content as f64
    );
    println!("  the last state is {}", if is_complete { "complete" } else { "INCOMPLETE" });
}
