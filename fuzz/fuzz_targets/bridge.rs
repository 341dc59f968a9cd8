//! Any lines from both sides of a bridge, whatever they speak: no panic, and each line that comes out is a JSON-RPC
//! message, all of them together in proportion to what went in. The first line of the data chooses versions, dialects
//! and policy by its letters; of the others, those that begin with `>` come from the client, the rest from the agent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_acp::WireFormat;
use switchboard_acp::rpc::Message;
use switchboard_bridge::{Bridge, BridgeOptions, Dialect, Handled, Moment, Output, LossPolicy, Side, Version};

/// What may come out for each byte that goes in: history may be asked for again and again.
const PROPORTION: usize = 2000;

fn options(head: &str) -> BridgeOptions {
    let has = |letter: char| head.contains(letter);
    let version = |one: char, two: char| match (has(one), has(two)) {
        (true, _) => Some(Version::V1),
        (_, true) => Some(Version::V2),
        _ => None,
    };
    let dialect = |spec: char, newest: char| match (has(spec), has(newest)) {
        (true, _) => Some(Dialect::Spec),
        (_, true) => Some(Dialect::Newest),
        _ => None,
    };
    BridgeOptions {
        client_version: version('1', '2'),
        agent_version: version('3', '4'),
        client_dialect: dialect('a', 'b'),
        agent_dialect: dialect('c', 'd'),
        policy: if has('s') { LossPolicy::Strict } else { LossPolicy::Visible },
        hold_messages: has('h'),
        serve_files: has('f'),
        serve_terminals: has('t'),
        ..BridgeOptions::default()
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (head, lines) = text.split_once('\n').unwrap_or((text, ""));
    let mut bridge = Bridge::new(options(head));
    let mut bytes = 0;
    let mut take = |bridge: &mut Bridge| {
        for output in bridge.drain() {
            if let Output::Line { line, .. } = output {
                bytes += line.len();
                assert!(!line.contains('\n'), "a message is one line");
                assert!(Message::decode(&line, WireFormat::Any).is_ok(), "no message: {line}");
            }
        }
    };
    let mut now = 0;
    for line in lines.lines() {
        let (from, line) = match line.strip_prefix('>') {
            Some(line) => (Side::Client, line),
            None => (Side::Agent, line),
        };
        let passes = bridge.is_passthrough(from, line.as_bytes());
        let handled = bridge.handle(from, line, Moment(now));
        if passes {
            assert!(handled == Handled::Forward, "a line that passes is forwarded: {line}");
            assert!(bridge.drain().next().is_none(), "nothing is said before a line that passes: {line}");
        }
        take(&mut bridge);
        if handled == Handled::Forward {
            assert!(!line.trim().is_empty(), "nothing is passed on");
        }
        // Time passes for some lines only.
        now += line.len() as i64 % 3 * 100;
        while let Some(due) = bridge.next_deadline().filter(|due| due.0 <= now) {
            bridge.tick(due);
            take(&mut bridge);
            assert!(bridge.next_deadline() != Some(due), "what is due is done");
        }
    }
    bridge.finish();
    take(&mut bridge);
    bridge.agent_ended("the data ends", &[]);
    take(&mut bridge);
    assert!(bytes <= PROPORTION * (data.len() + 1), "{bytes} for {}", data.len());
});
