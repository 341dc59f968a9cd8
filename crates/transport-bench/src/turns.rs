//! An agent of either version, as fast as pipes are: it answers every request at once, and a prompt with a
//! flood.

use std::io::{BufRead, BufWriter, Write};

use crate::bridging::{TOOL_CHUNK, Version};

/// Serves standard input until it ends. `job` is `words` or `tool`.
pub(crate) fn run(version: Version, job: &str, count: u64) {
    let mut input = std::io::stdin().lock();
    let mut output = BufWriter::with_capacity(64 * 1024, std::io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line).unwrap_or(0) > 0 {
        // A disconnected client is not an error.
        if answer(&mut output, version, job, count, &line).and_then(|()| output.flush()).is_err() {
            return;
        }
        line.clear();
    }
}

fn answer(
    output: &mut impl Write,
    version: Version,
    job: &str,
    count: u64,
    request: &str,
) -> std::io::Result<()> {
    let request: serde_json::Value = serde_json::from_str(request).expect("a message");
    let Some(id) = request.get("id") else { return Ok(()) };
    let respond = |output: &mut dyn Write, outcome: &str| {
        writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#)
    };
    match (request["method"].as_str(), version) {
        (Some("initialize"), _) if request["params"]["protocolVersion"] != version.number() => respond(
            output,
            r#""error":{"code":-32022,"message":"another version","data":{"requested":0,"supported":[]}}"#,
        ),
        (Some("initialize"), Version::One) => respond(
            output,
            r#""result":{"protocolVersion":1,"agentInfo":{"name":"sender","version":"1"},"agentCapabilities":{"sessionCapabilities":{"list":{}}}}"#,
        ),
        (Some("initialize"), Version::Two) => respond(
            output,
            r#""result":{"protocolVersion":2,"info":{"name":"sender","version":"1"},"capabilities":{"session":{}}}"#,
        ),
        (Some("session/new"), _) => respond(output, r#""result":{"sessionId":"s-1"}"#),
        (Some("session/prompt"), Version::One) => {
            flood(output, job, count)?;
            respond(output, r#""result":{"stopReason":"end_turn"}"#)
        }
        (Some("session/prompt"), Version::Two) => {
            respond(output, r#""result":{"messageId":"u-1"}"#)?;
            update(output, r#""sessionUpdate":"state_update","state":"running""#)?;
            flood(output, job, count)?;
            update(output, r#""sessionUpdate":"state_update","state":"idle","stopReason":"end_turn""#)
        }
        _ => respond(output, r#""result":{"sessions":[]}"#),
    }
}

fn update(output: &mut impl Write, update: &str) -> std::io::Result<()> {
    writeln!(
        output,
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s-1","update":{{{update}}}}}}}"#
    )
}

fn flood(output: &mut impl Write, job: &str, count: u64) -> std::io::Result<()> {
    if job == "words" {
        let (before, behind) = (
            concat!(
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"#,
                r#""sessionUpdate":"agent_message_chunk","messageId":"m-1","content":{"type":"text","text":"word "#
            ),
            " \"}}}}\n",
        );
        for number in 0..count {
            output.write_all(before.as_bytes())?;
            write!(output, "{number}")?;
            output.write_all(behind.as_bytes())?;
        }
        return Ok(());
    }
    update(
        output,
        r#""sessionUpdate":"tool_call_update","toolCallId":"c-1","title":"Build","status":"in_progress""#,
    )?;
    for number in 0..count {
        let text = format!("{number:0TOOL_CHUNK$}");
        let chunk = r#""sessionUpdate":"tool_call_content_chunk","toolCallId":"c-1","content""#;
        update(
            output,
            &format!(r#"{chunk}:{{"type":"content","content":{{"type":"text","text":"{text}"}}}}"#),
        )?;
    }
    update(output, r#""sessionUpdate":"tool_call_update","toolCallId":"c-1","status":"completed""#)
}
