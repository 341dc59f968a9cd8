//! Measures receivers one after the other, each a process of its own that starts the same sender as its
//! agent, over pipes: throughput of small updates, round trips of a small request, and peak resident memory
//! while the consumer sleeps. Every receiver decodes each update into the typed form of its library; the
//! plain line reader, which is the lower bound, only splits lines.

mod agent;
mod bridging;
mod official;
mod ours;
mod turns;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Measurements of a receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

/// Pause of a consumer after its first update.
pub(crate) const NAP: Duration = Duration::from_secs(3);

/// Returns the arguments for the agent of a receiver.
pub(crate) fn agent_arguments(job: &str, count: u64) -> Vec<String> {
    vec!["agent".to_owned(), job.to_owned(), count.to_string()]
}

/// Returns the path of this program.
pub(crate) fn ourselves() -> std::path::PathBuf {
    std::env::current_exe().expect("a program knows where it is")
}

/// Runs everything, or one role as a child of itself.
pub fn run() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(),
        ["agent", job, count] => agent::run(job, number(count)),
        [role, job, count] => report(role, job, number(count)),
        _ => panic!("unknown arguments: {arguments:?}"),
    }
}

/// Compares programs between a client and an agent; see the module.
pub fn run_bridging() {
    bridging::run();
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// Runs one role in this process; its last line contains the result.
fn report(role: &str, job: &str, count: u64) {
    let measured = match role {
        "floor" => floor(job, count),
        "ours" => ours::measure(job, count),
        "official" => official::measure(job, count, false),
        "official-one-thread" => official::measure(job, count, true),
        _ => panic!("unknown role {role}"),
    };
    println!("{} {} {}", measured.count, measured.time.as_nanos(), peak_kilobytes());
}

/// Reads lines into one reused buffer, blocking.
fn floor(job: &str, count: u64) -> Measured {
    use std::io::Write;
    let mut child = Command::new(ourselves())
        .args(agent_arguments(job, count))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::with_capacity(64 * 1024, child.stdout.take().expect("a pipe"));
    let mut line = Vec::new();
    let mut exchange = |request: &str, line: &mut Vec<u8>| {
        input.write_all(request.as_bytes()).expect("the agent reads");
        line.clear();
        output.read_until(b'\n', line).expect("the agent writes");
    };
    exchange("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{}}\n", &mut line);
    let begun = Instant::now();
    let mut read = 0;
    if job == "echo" {
        for id in 1..=count {
            let request =
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"session/list\",\"params\":{{}}}}\n");
            exchange(&request, &mut line);
            read += 1;
        }
    } else {
        while read < count {
            line.clear();
            assert!(output.read_until(b'\n', &mut line).expect("the agent writes") > 0, "the agent is gone");
            read += 1;
        }
    }
    let time = begun.elapsed();
    drop(input);
    child.wait().expect("the agent ends");
    Measured { count: read, time }
}

/// Returns the peak resident memory of this process.
fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux tells the peak");
    number(line.split_whitespace().nth(1).expect("a number"))
}

struct Run {
    per_second: f64,
    each: Duration,
    peak: u64,
}

/// Runs a role in a process of its own.
fn role(role: &str, job: &str, count: u64) -> Run {
    let output = Command::new(ourselves())
        .args([role, job, &count.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .expect("the role runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<u64> =
        text.lines().last().unwrap_or("").split(' ').filter_map(|number| number.parse().ok()).collect();
    let [received, nanoseconds, peak] = numbers[..] else { panic!("{role} {job} failed: {text}") };
    assert_eq!(received, count, "{role} {job} lost messages");
    let each = Duration::from_nanos(nanoseconds / received.max(1));
    Run { per_second: received as f64 / (nanoseconds as f64 / 1e9), each, peak }
}

/// Returns the fastest runs of the lower bound, our receiver and the official SDK. They alternate, so that
/// other load slows all of them.
fn contest(job: &str, count: u64) -> [Run; 3] {
    let rounds: Vec<[Run; 3]> = (0..ROUNDS)
        .map(|_| {
            let official = fastest([role("official", job, count), role("official-one-thread", job, count)]);
            [role("floor", job, count), role("ours", job, count), official]
        })
        .collect();
    let [mut floors, mut ours, mut officials] = [const { Vec::new() }; 3];
    for [floor, our, official] in rounds {
        floors.push(floor);
        ours.push(our);
        officials.push(official);
    }
    [fastest(floors), fastest(ours), fastest(officials)]
}

const ROUNDS: usize = 5;

fn compare() {
    const UPDATES: u64 = 300_000;
    const CALLS: u64 = 10_000;
    let names = ["bare line reader", "ours", "official SDK"];
    println!("\n{UPDATES} small updates from an agent process, best of {ROUNDS}");
    let runs = contest("flood", UPDATES);
    for (name, run) in names.iter().zip(&runs) {
        println!("  {name:<18} {:>10.0} a second, peak {:>7} KiB", run.per_second, run.peak);
    }
    let [floor, ours, official] = runs;
    println!("  ours / official    {:>10.1} (wanted: at least 10)", ours.per_second / official.per_second);
    println!("  ours / bare        {:>10.2}", ours.per_second / floor.per_second);

    println!("\n{CALLS} round trips of a small request, one after the other, best of {ROUNDS}");
    let runs = contest("echo", CALLS);
    for (name, run) in names.iter().zip(&runs) {
        println!("  {name:<18} {:>10.1} microseconds", run.each.as_nanos() as f64 / 1000.0);
    }
    let [_, ours, official] = runs;
    let ratio = ours.each.as_nanos() as f64 / official.each.as_nanos() as f64;
    println!("  ours / official    {ratio:>10.2} (wanted: at most 0.5)");

    println!("\npeak of resident memory when the consumer sleeps {NAP:?} after the first update");
    for count in [1_000_000, 10_000_000] {
        let run = role("ours", "nap", count);
        println!("  ours, {count:>9} updates offered         {:>8} KiB", run.peak);
    }
    let run = role("official", "nap", 1_000_000);
    println!("  official SDK, {:>9} updates offered {:>8} KiB", 1_000_000, run.peak);
}

fn fastest(runs: impl IntoIterator<Item = Run>) -> Run {
    runs.into_iter().min_by_key(|run| run.each).expect("at least one run")
}
