//! A hub keeps tool output in its log, and not in memory.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::block_on;
use super::hub::Hub;
use crate::agent_program::Place;

/// A version 2 agent that plays a file in its turn.
const AGENT: &str = r#"#!/bin/sh
say() { printf '%s\n' "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":2,"info":{"name":"script","version":"1"},"capabilities":{"session":{}}}}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *'"session/prompt"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"u"}}'; cat "$1" ;;
  esac
done
"#;

/// Timeout for all operations, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const MEGABYTE: usize = 1024 * 1024;
/// Bytes of tool output in the turn, half of it in one call.
const OUTPUT: usize = 40 * MEGABYTE;
const CHUNK: usize = 64 * 1024;

/// Returns one call that grows by chunks, and many calls that end with their output.
fn turn() -> String {
    let update = |update: Value| {
        let params = json!({"sessionId": "s", "update": update});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string() + "\n"
    };
    let mut lines = update(json!({"sessionUpdate": "state_update", "state": "running"}));
    for number in 0..OUTPUT / 2 / CHUNK {
        let text = format!("{number:08} ").repeat(CHUNK / 9);
        let output = json!({"type": "content", "content": {"type": "text", "text": text}});
        lines += &update(
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "grows", "content": output}),
        );
        let call = format!("c-{number}");
        lines += &update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "title": "Read", "kind": "read",
            "status": "in_progress", "rawInput": {"path": format!("/w/{number}")}}),
        );
        lines += &update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": "completed", "content": [output],
            "rawOutput": {"bytes": number}}),
        );
    }
    lines + &update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}))
}

/// Returns the resident memory of a process, in bytes.
fn resident(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[cfg(target_os = "linux")]
#[test]
fn tool_output_does_not_stay_in_memory() {
    let place = Place::new();
    let file = |name: &str, text: &str| {
        let file = place.home().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (agent, turn) = (file("agent", AGENT), file("turn", &turn()));
    // The allocator returns freed memory to the system immediately, so that resident memory is used memory.
    let mut command = place.command(&["serve"]);
    let given_back =
        [("MALLOC_ARENA_MAX", "1"), ("MALLOC_TRIM_THRESHOLD_", "0"), ("MALLOC_MMAP_THRESHOLD_", "65536")];
    command.envs(given_back);
    let hub = Hub::start_command(&place, "hub", command, &["--", "sh", &agent, &turn]).unwrap();
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        let before = resident(hub.process());
        client.prompt(&session, "go").await;
        loop {
            let message = client.next_within(PATIENCE).await.expect("a message");
            if message["params"]["update"]["state"] == "idle" {
                break;
            }
        }
        // The store finishes its full-text index a little later.
        let until = Instant::now() + PATIENCE;
        let kept = || resident(hub.process()).saturating_sub(before);
        while kept() > OUTPUT / 4 * 3 {
            assert!(Instant::now() < until, "the hub keeps {} MB", kept() / MEGABYTE);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    hub.end();
}
