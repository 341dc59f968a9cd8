//! Prints the retained state of a bridge after very many updates to a version 1 client: `memory KIND COUNT`.

use switchboard_bridge::{Bridge, BridgeOptions, Moment, Side, Version};

/// Returns an update of a kind with a number.
fn update(kind: &str, number: u64) -> String {
    let text = format!(r#"{{"type":"text","text":"word {number} "}}"#);
    let update = match kind {
        "one-message" => {
            format!(r#""sessionUpdate":"agent_message_chunk","messageId":"m","content":{text}"#)
        }
        "messages" => {
            format!(r#""sessionUpdate":"agent_message_chunk","messageId":"m{number}","content":{text}"#)
        }
        "images" => {
            r#""sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"image","mimeType":"image/png","data":"AAAA"}"#.to_owned()
        }
        "calls" => {
            format!(r#""sessionUpdate":"tool_call_update","toolCallId":"c{number}","title":"Read","status":"completed","content":[{{"type":"content","content":{text}}}]"#)
        }
        "one-call" => {
            format!(r#""sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":{{"type":"content","content":{text}}}"#)
        }
        "turns" => r#""sessionUpdate":"state_update","state":"idle","stopReason":"end_turn""#.to_owned(),
        "losses" => format!(r#""sessionUpdate":"_weather{number}","rain":true"#),
        other => panic!("no kind {other}"),
    };
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{{update}}}}}}}"#
    )
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or_default()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "messages".to_owned());
    let count: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let mut bridge = Bridge::new(BridgeOptions::between(Version::V1, Version::V2));
    for number in 0..count {
        let _ = bridge.handle(Side::Agent, &update(&kind, number), Moment::default().after(number / 100));
        bridge.drain().for_each(drop);
        if (number + 1).is_multiple_of((count / 5).max(1)) {
            println!("{kind}: {} updates, {} KiB resident", number + 1, resident());
        }
    }
}
