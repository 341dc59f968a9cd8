//! The cost of a sandbox: start of a program, and throughput of `switchboard bridge` with and without it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cargo;
use crate::setup::target;

/// Number of measurements of each kind, alternating.
const ROUNDS: usize = 15;
/// Number of updates that the agent sends in a turn.
const UPDATES: usize = 200_000;
/// Number of files that a start looks up.
const FILES: usize = 100_000;

/// An agent of version 1 that sends many updates.
const AGENT: &str = r#"
import json, sys
say = lambda message: sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        say({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
    elif method == "session/new":
        say({"id": id, "result": {"sessionId": "s"}})
    elif method == "session/prompt":
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * 120}}
        text = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}) + "\n"
        for _ in range(int(sys.argv[1]) // 1000):
            sys.stdout.write(text * 1000)
        say({"id": id, "result": {"stopReason": "end_turn"}})
    sys.stdout.flush()
"#;

/// Measures and prints the cost. Fails if it is above the promised limits.
pub(crate) fn bench() -> Result<(), String> {
    cargo(["build", "--release", "--locked", "--package", "switchboard"])?;
    let program = target().join("release").join("switchboard");
    let describe = |error: std::io::Error| format!("cannot measure: {error}");
    let place = std::env::temp_dir().join(format!("switchboard-bench-{}", std::process::id()));
    let (home, work, many) = (place.join("home"), place.join("work"), place.join("many"));
    for folder in [&home, &work, &many] {
        std::fs::create_dir_all(folder).map_err(describe)?;
    }
    for number in 0..FILES {
        let folder = many.join(format!("{}", number / 1000));
        if number % 1000 == 0 {
            std::fs::create_dir(&folder).map_err(describe)?;
        }
        std::fs::write(folder.join(format!("{number}")), "").map_err(describe)?;
    }
    std::fs::create_dir_all(home.join(".config/switchboard")).map_err(describe)?;
    let rules = "[[rule]]\ndecision = \"deny\"\npath = [\"**/.env\"]\n";
    std::fs::write(home.join(".config/switchboard/switchboard-policy.toml"), rules).map_err(describe)?;
    let measured = measure(&program, &home, &work, &many);
    std::fs::remove_dir_all(&place).map_err(describe)?;
    let Costs { plain, start, look_up, without, with } = measured?;
    let more = start.saturating_sub(plain);
    println!("start of a program: {plain:?}; in a sandbox: {start:?} ({more:?} more, at most 100 ms)");
    println!("start with {FILES} files to look up: {look_up:?} (at most 500 ms)");
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    println!(
        "{UPDATES} updates through the bridge: {without:?}; in a sandbox: {with:?} (factor {ratio:.3}, at most 1.05)"
    );
    let holds = more < Duration::from_millis(100) && look_up < Duration::from_millis(500) && ratio < 1.05;
    if holds { Ok(()) } else { Err("a limit is exceeded".to_owned()) }
}

/// Medians of all measurements.
struct Costs {
    plain: Duration,
    start: Duration,
    look_up: Duration,
    without: Duration,
    with: Duration,
}

fn measure(program: &Path, home: &Path, work: &Path, many: &Path) -> Result<Costs, String> {
    let mut all: [Vec<Duration>; 5] = Default::default();
    for _ in 0..ROUNDS {
        let start = |folder: &Path, sandbox: &[&str]| {
            let mut command = Command::new(program);
            command.args(sandbox).current_dir(folder).env("HOME", home);
            command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
            timed(&mut command)
        };
        all[0].push(timed(&mut Command::new("/bin/true"))?);
        let run = ["sandbox", "run", "--mode", "workspace", "--", "/bin/true"];
        all[1].push(start(work, &run)?);
        all[2].push(start(many, &run)?);
        all[3].push(turn(program, home, work, &[])?);
        all[4].push(turn(program, home, work, &["--sandbox"])?);
    }
    let [plain, start, look_up, without, with] = all.map(median);
    Ok(Costs { plain, start, look_up, without, with })
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn timed(command: &mut Command) -> Result<Duration, String> {
    let begun = Instant::now();
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(begun.elapsed())
}

/// Returns the time of one turn with many updates.
fn turn(program: &Path, home: &Path, work: &Path, options: &[&str]) -> Result<Duration, String> {
    let failed = |error: std::io::Error| format!("the bridge: {error}");
    let mut command = Command::new(program);
    command.arg("bridge").args(options).args(["--", "/usr/bin/python3", "-c", AGENT, &UPDATES.to_string()]);
    command.current_dir(work).env("HOME", home).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut bridge = command.spawn().map_err(failed)?;
    let mut input = bridge.stdin.take().ok_or("no input")?;
    let mut lines = BufReader::new(bridge.stdout.take().ok_or("no output")?).lines();
    let cwd = work.display();
    let requests = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":2,"method":"session/new","params":{{"cwd":"{cwd}","mcpServers":[]}}}}"#),
        r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"x"}]}}"#.to_owned(),
    ];
    let mut took = Duration::ZERO;
    for (number, request) in requests.iter().enumerate() {
        let begun = Instant::now();
        writeln!(input, "{request}").map_err(failed)?;
        let answer = format!("\"id\":{}", number + 1);
        loop {
            let line = lines.next().ok_or("the bridge has ended")?.map_err(failed)?;
            if !line.contains("\"method\"") && line.replace(' ', "").contains(&answer) {
                break;
            }
        }
        took = begun.elapsed();
    }
    drop(input);
    bridge.wait().map_err(failed)?;
    Ok(took)
}
