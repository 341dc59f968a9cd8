//! The agent of the measurements: it says what it is asked for, as fast as it can or at a pace.

use std::io::{BufRead, Write};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// What it says in a flood. The official agent says the same.
const TEXT: &str = "The quick brown fox jumps over the lazy dog, and nobody minds. ";

/// What stands before the time in an update.
pub(crate) const STAMP: &[u8] = br#""text":"T"#;
/// What stands before the account that the agent gives of its writing.
pub(crate) const ACCOUNT: &[u8] = br#""text":"wrote "#;

/// Microseconds on the clock that this process and the other one have.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

pub(crate) fn run() {
    let mut out = std::io::stdout().lock();
    let mut sessions = 0;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": 2, "info": {"name": "bench", "version": "1"}, "capabilities": {"session": {}}
            }),
            // What it says is about the first one.
            Some("session/new") => {
                sessions += 1;
                json!({"sessionId": if sessions == 1 { "s".to_owned() } else { format!("s{sessions}") }})
            }
            Some("session/prompt") => json!({"messageId": "u"}),
            _ => continue,
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        write(&mut out, &format!("{answer}\n"));
        if message["method"] == "session/prompt" {
            let prompt = message["params"]["prompt"][0]["text"].as_str().unwrap();
            let words: Vec<&str> = prompt.split(' ').collect();
            write(&mut out, &update(r#""sessionUpdate":"state_update","state":"running""#));
            match words[..] {
                ["flood", count] => flood(&mut out, count.parse().unwrap()),
                ["pace", rate, seconds] => pace(&mut out, rate.parse().unwrap(), seconds.parse().unwrap()),
                _ => panic!("nobody knows what this means: {prompt}"),
            }
            let idle = r#""sessionUpdate":"state_update","state":"idle","stopReason":"end_turn""#;
            write(&mut out, &update(idle));
        }
    }
}

fn update(update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{{update}}}}}}}{}"#,
        '\n'
    )
}

fn chunk(text: &str) -> String {
    update(&format!(
        r#""sessionUpdate":"agent_message_chunk","messageId":"m","content":{{"type":"text","text":"{text}"}}"#
    ))
}

/// Past the buffer for lines, which would write each by itself.
fn write(out: &mut impl Write, lines: &str) {
    // Who has killed the hub does not want to hear more.
    if out.write_all(lines.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

fn flood(out: &mut impl Write, count: usize) {
    const AT_ONCE: usize = 64;
    let lines = chunk(TEXT).repeat(AT_ONCE);
    let length = lines.len() / AT_ONCE;
    for begun in (0..count).step_by(AT_ONCE) {
        write(out, &lines[..length * AT_ONCE.min(count - begun)]);
    }
}

/// Says the time so many times a second, and at last how long that took: in all, in writing, and the longest write.
fn pace(out: &mut impl Write, rate: u32, seconds: u32) {
    // Nobody sends on it: waiting for it is waiting for the time to pass.
    let (_sender, receiver) = channel::<()>();
    let (begin, mut writing, mut longest) = (Instant::now(), Duration::ZERO, Duration::ZERO);
    for number in 0..rate * seconds {
        let due = begin + Duration::from_secs(1) * number / rate;
        let _ = receiver.recv_timeout(due.saturating_duration_since(Instant::now()));
        let line = chunk(&format!("T{}: {TEXT}", now()));
        let begin = Instant::now();
        write(out, &line);
        writing += begin.elapsed();
        longest = longest.max(begin.elapsed());
    }
    let account =
        [begin.elapsed(), writing, longest].map(|duration| duration.as_micros().to_string()).join(" ");
    write(out, &chunk(&format!("wrote {account}")));
}
