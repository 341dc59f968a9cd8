//! Every recording through the bridge into the other version: what comes out is valid, and amounts to the same
//! session, but for what the report says.

use std::collections::BTreeMap;

use serde_json::Value;
use switchboard_bridge::{Loss, Moment, RecordedLine, RecordingBridge, Severity, Side, Version};
use switchboard_protocol::Revision;
use switchboard_protocol::check::{Checker, Rules};
use switchboard_session::{Conversation, Moment as SessionMoment, Side as SessionSide};
use switchboard_testkit::{Recorded, Recording, recordings};

struct Translated {
    lines: Vec<RecordedLine>,
    back: Vec<RecordedLine>,
    losses: Vec<Loss>,
}

fn translate(lines: &[Recorded], to: Version) -> Translated {
    let mut bridge = RecordingBridge::new(to);
    for (index, line) in lines.iter().enumerate() {
        let from = if line.from_agent { Side::Agent } else { Side::Client };
        bridge.take(Some(from), &line.message, Moment(index as u64 * 20));
    }
    bridge.finish();
    let lines = bridge.drain().collect();
    Translated { lines, back: bridge.take_back(), losses: bridge.take_losses() }
}

/// The version of a recording with one connection; `None` for others.
fn version(recording: &Recording) -> Option<Version> {
    let mut versions = recording.lines.iter().filter_map(|line| {
        let message: Value = serde_json::from_str(&line.message).ok()?;
        let result = message.get("result")?;
        result.get("protocolVersion")?;
        let is_new = result.get("info").is_some() && result.get("agentCapabilities").is_none();
        Some(if is_new { Version::V2 } else { Version::V1 })
    });
    let first = versions.next()?;
    versions.next().is_none().then_some(first)
}

fn check(name: &str, lines: &[RecordedLine], revision: Revision) -> Vec<String> {
    let mut faults = Vec::new();
    let mut checker = Checker::new(Rules { revision, ..Rules::default() });
    for line in lines {
        let direction = match line.from {
            Side::Client => "client->agent",
            Side::Agent => "agent->client",
        };
        let recorded = format!(r#"{{"dir":"{direction}","msg":{}}}"#, line.text);
        let verdict = checker.check(recorded.as_bytes());
        if !verdict.is_valid() {
            faults.push(format!("{name}: {:?}\n{}", verdict.errors, line.text));
        }
    }
    faults
}

#[test]
fn recordings_come_out_valid_in_the_other_version() {
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut faults = Vec::new();
    for recording in recordings() {
        let Some(source) = version(&recording) else { continue };
        let translated = translate(&recording.lines, source.other());
        let revision = if source == Version::V1 { Revision::Any } else { Revision::V1 };
        // One client says "." where it should say where it is; that is passed on.
        let wrong = recording.lines.iter().any(|line| line.message.contains(r#""cwd":".""#));
        let found = check(&recording.name, &translated.lines, revision);
        faults.extend(found.into_iter().filter(|fault| !(wrong && fault.contains("an absolute path"))));
        *counts.entry(if source == Version::V1 { "v1 to v2" } else { "v2 to v1" }).or_default() += 1;
    }
    println!("{counts:?}");
    assert!(
        faults.is_empty(),
        "{} faults, among them\n{}",
        faults.len(),
        faults[..faults.len().min(5)].join("\n")
    );
}

fn fold(lines: impl Iterator<Item = (bool, String)>) -> BTreeMap<String, Value> {
    let mut conversation = Conversation::new(Revision::Any);
    for (index, (from_agent, text)) in lines.enumerate() {
        let side = if from_agent { SessionSide::Agent } else { SessionSide::Client };
        let _ = conversation.read(&text, Some(side), SessionMoment(index as u64));
    }
    conversation
        .sessions()
        .map(|(id, session)| {
            let json = session.to_json(id);
            (id.unwrap_or_default().to_owned(), serde_json::from_str(&json).expect("JSON"))
        })
        .collect()
}

/// What a person sees of a session: messages as text in their order, tool calls with title, status and text.
fn shown(session: &Value) -> Vec<String> {
    let mut shown = Vec::new();
    for entry in session["entries"].as_array().into_iter().flatten() {
        let text = |content: &Value| -> String {
            let blocks = content.as_array().into_iter().flatten();
            blocks
                .map(|block| block["text"].as_str().map_or_else(|| block["type"].to_string(), str::to_owned))
                .collect()
        };
        match entry["type"].as_str() {
            Some("tool_call") => {
                let items = entry["content"].as_array().into_iter().flatten();
                let text: String =
                    items.map(|item| item["content"]["text"].as_str().unwrap_or("").to_owned()).collect();
                shown.push(format!("call {} {} {text}", entry["toolCallId"], entry["title"]));
            }
            Some(kind @ ("user_message" | "agent_message" | "agent_thought")) => {
                let text = text(&entry["content"]);
                if !text.is_empty() {
                    shown.push(format!("{kind}: {text}"));
                }
            }
            _ => {}
        }
    }
    shown
}

#[test]
fn version_2_recordings_amount_to_the_same_there_and_back() {
    let mut compared = 0;
    for recording in recordings() {
        // A version 1 agent that replays has other ids for prompts than those that the bridge made for them.
        let replays = recording.lines.iter().any(|line| line.message.contains("\"replayFrom\""));
        if version(&recording) != Some(Version::V2) || replays {
            continue;
        }
        let translated = translate(&recording.lines, Version::V1);
        let original = fold(recording.lines.iter().map(|line| (line.from_agent, line.message.clone())));
        let back = fold(translated.back.iter().map(|line| (line.from == Side::Agent, line.text.clone())));
        let lost = translated.losses.iter().any(|loss| loss.severity == Severity::Major);
        for (id, session) in &original {
            let (before, after) = (shown(session), back.get(id).map(shown).unwrap_or_default());
            if lost {
                continue;
            }
            assert_eq!(
                without_terminals(&before),
                without_terminals(&after),
                "{}: {:#?}",
                recording.name,
                translated.losses
            );
            compared += 1;
        }
    }
    println!("{compared} sessions compared");
}

/// Terminals come back as text, which the report says.
fn without_terminals(shown: &[String]) -> Vec<String> {
    shown.iter().map(|line| line.split(" \"").next().unwrap_or(line).to_owned()).collect()
}
