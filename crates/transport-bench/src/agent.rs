//! The agent for all receivers: blocking, and as fast as pipes are.

use std::io::{BufRead, BufWriter, Write};

const INITIALIZED: &str =
    r#"{"protocolVersion":2,"info":{"name":"sender","version":"1"},"capabilities":{"session":{}}}"#;

/// Answers `initialize`; then sends updates, or answers requests until its input ends.
pub(crate) fn run(job: &str, count: u64) {
    let mut input = std::io::stdin().lock();
    let mut output = BufWriter::with_capacity(64 * 1024, std::io::stdout().lock());
    let mut line = String::new();
    input.read_line(&mut line).expect("a client");
    answer(&mut output, &line, INITIALIZED);
    if job != "echo" {
        for number in 0..count {
            let sent = writeln!(
                output,
                concat!(
                    r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s-1","update":{{"#,
                    r#""sessionUpdate":"agent_message_chunk","messageId":"m-1","content":"#,
                    r#"{{"type":"text","text":"word {} "}}}}}}}}"#
                ),
                number
            );
            if sent.is_err() {
                return;
            }
        }
        if output.flush().is_err() {
            return;
        }
    }
    loop {
        line.clear();
        if input.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        answer(&mut output, &line, r#"{"sessions":[]}"#);
    }
}

fn answer(output: &mut impl Write, request: &str, result: &str) {
    let id: serde_json::Value = serde_json::from_str(request).expect("a request");
    let Some(id) = id.get("id") else { return };
    // A disconnected client is not an error.
    let _ = writeln!(output, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
    let _ = output.flush();
}
