//! Cost of recording: the same text through `switchboard bridge`, with and without `--record`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::setup::target;
use crate::{cargo, run};

/// Bytes of text that an agent sends.
const PROSE: usize = 26_000_000;
const ROUNDS: usize = 5;

/// Compares both in one run, for small and for large chunks.
pub(crate) fn bench() -> Result<(), String> {
    cargo(["build", "--release", "--locked"])?;
    let program = target().join("release").join("switchboard");
    let folder = target().join("bench-record");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut prose = Prose::new();
    for size in [60, 1000] {
        let script = folder.join(format!("agent-{size}.jsonl"));
        let wire = prose.write(&script, size).map_err(|error| format!("cannot write prose: {error}"))?;
        println!(
            "{} MB of prose in chunks of about {size} bytes, {} MB on the wire",
            PROSE / 1_000_000,
            wire / 1_000_000
        );
        let worst = || Passed { passing: Duration::MAX, closing: Duration::ZERO, peak: 0 };
        let mut best = [worst(), worst()];
        for round in 0..ROUNDS {
            for (place, record) in [false, true].into_iter().enumerate() {
                let store = folder.join(format!("{size}-{round}")).join("store.sqlite3");
                let _ = std::fs::remove_dir_all(folder.join(format!("{size}-{round}")));
                let passed = pass(&program, &script, record.then_some(&store))?;
                best[place].keep_best(passed);
            }
        }
        for (name, passed) in ["without recording", "with --record"].iter().zip(&best) {
            println!(
                "  {name:<20} passed in {:>6.0} ms, closed in {:>5.0} ms, {:>6} kB of memory at most",
                passed.passing.as_secs_f64() * 1000.0,
                passed.closing.as_secs_f64() * 1000.0,
                passed.peak
            );
        }
        let ratio = best[0].passing.as_secs_f64() / best[1].passing.as_secs_f64();
        let verdict = |is_met| if is_met { "ok" } else { "MISSED" };
        println!("  {ratio:.2} times as fast; target at least 0.5: {}", verdict(ratio >= 0.5));
        let closing = best[1].closing.as_secs_f64();
        println!("  closed in {closing:.2} s at worst; target at most 2 s: {}", verdict(closing <= 2.0));
        let store = folder.join(format!("{size}-0")).join("store.sqlite3");
        let begin = Instant::now();
        // Opening the store for writing catches up in the background; this waits for it.
        run(Command::new(&program)
            .args(["sessions", "prune", "--max-size", "100GB", "--store"])
            .arg(&store))?;
        let file = store.metadata().map_or(0, |file| file.len());
        println!(
            "  caught up in {:.1} s; the store has {:.2} of the prose, {:.2} of the wire\n",
            begin.elapsed().as_secs_f64(),
            file as f64 / PROSE as f64,
            file as f64 / wire as f64
        );
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Passed {
    passing: Duration,
    closing: Duration,
    /// Peak memory of the program in kB.
    peak: u64,
}

impl Passed {
    /// Keeps the shortest duration, because of other load on the machine, and the worst of the other values.
    fn keep_best(&mut self, other: Passed) {
        let Passed { passing, closing, peak } = other;
        self.passing = self.passing.min(passing);
        self.closing = self.closing.max(closing);
        self.peak = self.peak.max(peak);
    }
}

/// Sends an agent's text through the bridge.
fn pass(program: &Path, script: &Path, store: Option<&PathBuf>) -> Result<Passed, String> {
    let mut command = Command::new(program);
    command.arg("bridge");
    if let Some(store) = store {
        command.args(["--record", "--store"]).arg(store);
    }
    // It answers each request with a line of the script, and the prompt with the rest of it.
    let agent =
        "read _; sed -n 1p \"$0\"; read _; sed -n 2p \"$0\"; read _; tail -n +3 \"$0\"; cat >/dev/null";
    command.args(["--", "sh", "-c", agent]).arg(script);
    let fail = |error: std::io::Error| format!("cannot run the bridge: {error}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(fail)?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the bridge has no pipes".to_owned());
    };
    let mut output = BufReader::with_capacity(1 << 20, output);
    let mut line = Vec::new();
    let mut begin = Instant::now();
    for request in [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"capabilities":{},"info":{"name":"bench","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"Talk."}]}}"#,
    ] {
        begin = Instant::now();
        writeln!(input, "{request}").map_err(fail)?;
        if !request.contains("session/prompt") {
            line.clear();
            output.read_until(b'\n', &mut line).map_err(fail)?;
        }
    }
    loop {
        line.clear();
        if output.read_until(b'\n', &mut line).map_err(fail)? == 0 {
            return Err("the bridge ended before the agent did".to_owned());
        }
        if line.ends_with(b"the-end!\"}}}}\n") {
            break;
        }
    }
    let passing = begin.elapsed();
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    let begin = Instant::now();
    drop(input);
    child.wait().map_err(fail)?;
    Ok(Passed { passing, closing: begin.elapsed(), peak })
}

/// Words with a natural frequency distribution: few are frequent, most are rare.
struct Prose {
    words: Vec<String>,
    number: u64,
}

impl Prose {
    fn new() -> Self {
        let mut prose = Prose { words: Vec::new(), number: 0x5eed };
        let syllables =
            "ka to ri en sol ma ver tin da lo che ar ban us pre ni gro fel o qua ty ing ment ble st er";
        let syllables: Vec<&str> = syllables.split(' ').collect();
        for _ in 0..20_000 {
            let count = 1 + prose.below(4);
            let word = (0..count).map(|_| syllables[prose.below(syllables.len() as u64) as usize]).collect();
            prose.words.push(word);
        }
        prose
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.number = self.number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.number >> 33) % limit
    }

    /// Writes the agent's messages. Returns the bytes on the wire.
    fn write(&mut self, path: &Path, size: usize) -> std::io::Result<u64> {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        writeln!(
            file,
            r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":2,"capabilities":{{}},"info":{{"name":"prose","version":"1"}}}}}}"#
        )?;
        writeln!(file, r#"{{"jsonrpc":"2.0","id":1,"result":{{"sessionId":"s"}}}}"#)?;
        let (mut said, mut message, mut text) = (0, 0, String::new());
        while said < PROSE {
            text.clear();
            while text.len() < size {
                // The rank decreases as in natural languages.
                let share = self.below(1 << 20) as f64 / f64::from(1 << 20);
                let rank = ((self.words.len() as f64).powf(share) - 1.0) as usize;
                text.push_str(&self.words[rank.min(self.words.len() - 1)]);
                text.push_str(if self.below(12) == 0 { ". " } else { " " });
            }
            if self.below(200) == 0 {
                message += 1;
            }
            said += text.len();
            writeln!(
                file,
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","messageId":"msg_{message}","content":{{"type":"text","text":"{text}"}}}}}}}}"#
            )?;
        }
        writeln!(
            file,
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","messageId":"msg_{message}","content":{{"type":"text","text":"the-end!"}}}}}}}}"#
        )?;
        file.flush()?;
        Ok(path.metadata()?.len())
    }
}
