//! Decodes, and decodes and encodes, streams of session updates with this crate and with others.

use std::borrow::Cow;

use agent_client_protocol_schema::v2 as official;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use switchboard_acp::rpc::{Expected, encode_notification};
use switchboard_acp::{WireFormat, v2};
use switchboard_testkit::{Contest, TagPlace, recordings, stream};

/// Lower bound: the work of any reader of the envelope, without the update.
#[derive(Deserialize, Serialize)]
struct RawEnvelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: RawParams<'a>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct RawParams<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    update: &'a RawValue,
}

/// Envelope around the official types, as a user would write it.
#[derive(Deserialize, Serialize)]
struct OfficialEnvelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    method: Cow<'a, str>,
    params: official::UpdateSessionNotification,
}

fn read(line: &str) -> v2::UpdateSessionNotification<'_> {
    match Expected::decode(line, WireFormat::Any) {
        Ok(Expected::Params(notification)) => notification,
        other => panic!("not an update: {other:?} in {line}"),
    }
}

fn contest(title: &str, lines: &[String], rounds: usize) {
    let raw =
        |line: &str| serde_json::from_str::<RawEnvelope<'_>>(line).expect("raw").params.update.get().len();
    Contest::new(format!("{title}: reading"), rounds)
        .of_one_thread()
        .contender("envelope with the update raw (floor)", || lines.iter().map(|line| raw(line)).sum())
        .contender("this crate", || lines.iter().map(|line| read(line).update.tag().len()).sum())
        .contender("serde_json::Value", || {
            let read =
                |line: &String| serde_json::from_str::<Value>(line).expect("value")["method"].is_string();
            lines.iter().filter(|line| read(line)).count()
        })
        .contender("agent-client-protocol-schema", || {
            let read = |line: &String| {
                let envelope = serde_json::from_str::<OfficialEnvelope<'_>>(line).expect("official");
                envelope.params.session_id.0.len()
            };
            lines.iter().map(read).sum()
        })
        .run();

    Contest::new(format!("{title}: reading and writing"), rounds)
        .of_one_thread()
        .contender("envelope with the update raw (floor)", || {
            let rewrite = |line: &String| {
                let envelope = serde_json::from_str::<RawEnvelope<'_>>(line).expect("raw");
                serde_json::to_string(&envelope).expect("raw").len()
            };
            lines.iter().map(rewrite).sum()
        })
        .contender("this crate", || {
            let mut out = String::new();
            let mut rewrite = |line: &String| {
                out.clear();
                encode_notification(&read(line), &mut out, WireFormat::Newest);
                out.len()
            };
            lines.iter().map(&mut rewrite).sum()
        })
        .contender("serde_json::Value", || {
            let rewrite =
                |line: &String| serde_json::from_str::<Value>(line).expect("value").to_string().len();
            lines.iter().map(rewrite).sum()
        })
        .contender("agent-client-protocol-schema", || {
            let rewrite = |line: &String| {
                let envelope = serde_json::from_str::<OfficialEnvelope<'_>>(line).expect("official");
                serde_json::to_string(&envelope).expect("official").len()
            };
            lines.iter().map(rewrite).sum()
        })
        .run();
}

fn main() {
    let first = stream(200_000, TagPlace::First);
    let last = stream(200_000, TagPlace::Last);
    contest("200,000 generated updates, tag first", &first, 5);
    contest("200,000 generated updates, tag last", &last, 5);
    Contest::new("tag last against tag first", 5)
        .of_one_thread()
        .contender("this crate, tag first", || first.iter().map(|line| read(line).update.tag().len()).sum())
        .contender("this crate, tag last", || last.iter().map(|line| read(line).update.tag().len()).sum())
        .run();

    let recorded: Vec<String> = recordings()
        .into_iter()
        .flat_map(|recording| recording.lines)
        .map(|line| line.message)
        .filter(|line| is_v2_update(line))
        .collect();
    if !recorded.is_empty() {
        let repeated: Vec<String> = recorded.iter().cycle().take(20_000).cloned().collect();
        contest(&format!("{} recorded updates, repeated to 20,000", recorded.len()), &repeated, 5);
    }
}

/// Returns true for a message that all contenders can decode.
fn is_v2_update(line: &str) -> bool {
    let envelope = serde_json::from_str::<OfficialEnvelope<'_>>(line);
    let ours = Expected::<v2::UpdateSessionNotification<'_>>::decode(line, WireFormat::Any);
    envelope.is_ok_and(|envelope| envelope.method == "session/update")
        && matches!(ours, Ok(Expected::Params(_)))
}
