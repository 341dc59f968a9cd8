//! `switchboard bridge` with independent peers: version 1 clients by other authors with our version 2 agent,
//! and our client with version 1 agents.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::interop::{SWITCHBOARD, acpx, run_acpx, run_with_agent, rust, typescript};
use crate::program::{Run, switchboard};

const AGENT_OF_2: [&str; 5] = [SWITCHBOARD, "bridge", "--", SWITCHBOARD, "demo-agent"];
const AGENT_OF_1: [&str; 7] = [SWITCHBOARD, "bridge", "--", SWITCHBOARD, "demo-agent", "--protocol", "1"];

/// Returns prompts for all scenarios of the demo agent, without delays.
fn prompts() -> Vec<String> {
    let help = Place::new().demo("help", &["--format", "quiet"]).stdout;
    let names = help.lines().filter_map(|line| Some(line.strip_prefix("- `/")?.split_once('`')?.0));
    let prompts: Vec<String> = names
        .map(|name| match name {
            "flood" => "flood 2000".to_owned(),
            "slow" | "stubborn" => format!("{name} 0"),
            name => name.to_owned(),
        })
        .collect();
    assert!(prompts.len() >= 30, "{prompts:?}");
    prompts
}

/// Runs a check for every prompt, a few in parallel, each in its own directory.
fn for_each_prompt(check: impl Fn(&Place, &str) + Sync) {
    let waiting = Mutex::new(prompts());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(prompt) = { waiting.lock().unwrap().pop() } {
                    check(&Place::new(), &prompt);
                }
            });
        }
    });
}

/// The state of a message or a tool call in a version 1 client: the text, or the last update.
#[derive(Debug, Default)]
struct Told {
    text: String,
    title: Value,
    status: Value,
}

fn told(updates: &[Value]) -> BTreeMap<String, Told> {
    let mut things = BTreeMap::<String, Told>::new();
    for update in updates {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match kind {
            "agent_message_chunk" | "agent_thought_chunk" => {
                let id = update["messageId"].as_str().unwrap_or_default();
                // A replaced message continues under another id.
                let id = id.split_once("~r").map_or(id, |(id, _)| id);
                let text = update["content"]["text"].as_str().unwrap_or_default();
                things.entry(format!("{kind} {id}")).or_default().text.push_str(text);
            }
            "tool_call" | "tool_call_update" => {
                let call = things.entry(format!("call {}", update["toolCallId"])).or_default();
                for (key, field) in [("title", &mut call.title), ("status", &mut call.status)] {
                    if update[key].is_string() {
                        *field = update[key].clone();
                    }
                }
                if let Some(items) = update["content"].as_array() {
                    call.text = items.iter().filter_map(|item| item["content"]["text"].as_str()).collect();
                }
            }
            _ => {}
        }
    }
    things
}

/// Returns the text of a content block in version 1.
fn words(block: &Value) -> String {
    match block["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[unsupported content: {}]", block["type"].as_str().unwrap_or_default()),
    }
}

/// Compares the updates of a version 1 client with the session of a version 2 client.
fn compare(prompt: &str, session: &Value, updates: &[Value]) {
    let told = told(updates);
    let nothing = Told::default();
    for entry in session["entries"].as_array().unwrap() {
        match entry["type"].as_str().unwrap() {
            kind @ ("agent_message" | "agent_thought") => {
                let key = format!("{kind}_chunk {}", entry["messageId"].as_str().unwrap());
                let told = told.get(&key).unwrap_or(&nothing);
                let blocks = entry["content"].as_array().map(Vec::as_slice).unwrap_or_default();
                let expected: String = blocks.iter().map(words).collect();
                assert!(told.text.ends_with(&expected), "{prompt}, {key}: {:?}", told.text);
            }
            "tool_call" => {
                let told = &told[&format!("call {}", entry["toolCallId"])];
                assert_eq!(told.status, entry["status"], "{prompt}");
                if entry["title"].is_string() {
                    assert_eq!(told.title, entry["title"], "{prompt}");
                }
                let items = entry["content"].as_array().map(Vec::as_slice).unwrap_or_default();
                if items.iter().all(|item| item["content"]["type"] == "text") {
                    let expected: String = items.iter().map(|item| words(&item["content"])).collect();
                    assert_eq!(told.text, expected, "{prompt}");
                }
            }
            _ => {}
        }
    }
}

/// Content that is translated to text or to a form specific to version 1, by prompt.
const CARRIED: [(&str, &str); 9] = [
    ("terminal", "grün 🐢"),
    ("command", "make: nothing to be done"),
    ("edit", r#""newText":"{\n  \"debug\": true"#),
    ("binary", "Modified binary file"),
    ("permission", r#""newText":"{\n  \"debug\": true"#),
    ("redact", "[The agent withdrew its previous message]"),
    ("replace", "[The agent replaced its previous message]"),
    ("notice", "[warning] The context is nearly full"),
    ("unknown", "[unsupported tool content: _demo_map]"),
];

/// Runs all scenarios with a version 1 client. `read` returns the updates in its output, and the stop reason
/// or the message of an error.
fn serve(run: impl Fn(&Place, &str) -> Run + Sync, read: impl Fn(&Run) -> (Vec<Value>, Value) + Sync) {
    for_each_prompt(|place, prompt| {
        let direct = place.demo(prompt, &["--format", "json", "--approve-all"]);
        let run = run(place, prompt);
        let (updates, end) = read(&run);
        compare(prompt, &fold(&direct), &updates);
        if let Some((_, carried)) = CARRIED.iter().find(|(known, _)| *known == prompt) {
            let all: String = updates.iter().map(Value::to_string).collect();
            assert!(all.contains(carried), "{prompt}: {all}");
        }
        match prompt {
            "fail" => assert_eq!(end, "the demo failed, as it was asked to"),
            "crash" => {
                let told = end.as_str().is_some_and(|end| end.contains("exit code 70"));
                assert!(told, "{end}: {}{}", run.stdout, run.stderr);
            }
            "refuse" => assert_eq!(end, "refusal"),
            _ => assert_eq!(end, "end_turn", "{prompt}: {}", run.stderr),
        }
        if !["fail", "crash"].contains(&prompt) {
            assert_eq!(run.code, 0, "{prompt}: {}", run.stderr);
        }
    });
}

/// Reads the output of a client based on an SDK: one line per update, then the stop reason; errors are on
/// standard error.
fn read_lines(run: &Run) -> (Vec<Value>, Value) {
    let mut lines = run.json_lines();
    let end = match lines.last().map(|line| line["stopReason"].clone()) {
        Some(reason) if !reason.is_null() => {
            lines.pop();
            reason
        }
        _ => json!(run.stderr),
    };
    // Only the message of the error is compared; clients format the rest differently.
    let known = ["the demo failed, as it was asked to", "exit code 70"];
    let end =
        known.iter().find(|known| end.as_str().unwrap().contains(**known)).map_or(end, |known| json!(known));
    (lines, end)
}

#[test]
fn the_rust_sdk_as_client_of_a_version_2_agent() {
    let client = rust("client");
    serve(|place, prompt| run_with_agent(place, &client, &["1", prompt], &AGENT_OF_2), read_lines);
}

#[test]
fn the_typescript_sdk_as_client_of_a_version_2_agent() {
    if let Some(client) = typescript("client") {
        serve(|place, prompt| run_with_agent(place, &client, &["1", prompt], &AGENT_OF_2), read_lines);
    }
}

#[test]
fn acpx_as_client_of_a_version_2_agent() {
    let Some(client) = acpx() else { return };
    let run = |place: &Place, prompt: &str| run_acpx(place, &client, &AGENT_OF_2, prompt);
    // It prints the messages of both sides unchanged.
    let read = |run: &Run| {
        let messages = run.json_lines();
        let updates = messages.iter().map(|message| &message["params"]);
        let updates = updates.flat_map(|params| [&params["update"], &params["toolCall"]]).cloned().collect();
        let answer = messages.iter().rev().find(|message| {
            message["result"]["stopReason"].is_string() || message["error"]["message"].is_string()
        });
        let answer = answer.unwrap_or(&Value::Null);
        let end = [&answer["result"]["stopReason"], &answer["error"]["message"]];
        (updates, end.into_iter().find(|end| end.is_string()).cloned().unwrap_or_default())
    };
    serve(run, read);
}

/// Returns the entries of the session that our client received, independent of chunk boundaries.
fn session(run: &Run) -> Vec<Value> {
    let mut entries = fold(run)["entries"].take();
    for entry in entries.as_array_mut().unwrap() {
        let items = entry["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let items =
            items.iter().map(|item| if item["content"].is_object() { &item["content"] } else { item });
        let text = |item: &Value| item["text"].as_str().map_or_else(|| item.to_string(), str::to_owned);
        entry["content"] = items.map(text).collect::<String>().into();
        for key in ["messageId", "toolCallId"] {
            if let Some(id) = entry[key].as_str().map(without_salt) {
                entry[key] = id.into();
            }
        }
    }
    entries.as_array().unwrap().clone()
}

/// Removes the salt of a translation from an id; it is different in each run.
fn without_salt(id: &str) -> String {
    let is_salt = |part: &str| {
        let digits = part.strip_prefix('r').unwrap_or(part);
        digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    id.split(['-', '~']).filter(|part| !is_salt(part)).collect::<Vec<_>>().join("-")
}

/// Returns the session of a run, which is the first one.
fn fold(run: &Run) -> Value {
    switchboard(&["fold"], run.stdout.as_bytes()).json_lines().remove(0)
}

#[test]
fn our_client_with_a_version_1_agent_sees_the_same_through_the_bridge() {
    for_each_prompt(|place, prompt| {
        let run = |agent: &[&str]| {
            place.run(&[&["run", prompt, "--format", "json", "--approve-all", "--"], agent].concat())
        };
        let (direct, bridged) = (run(&AGENT_OF_1[3..]), run(&AGENT_OF_1));
        assert_eq!(session(&bridged), session(&direct), "{prompt}");
        if prompt == "crash" {
            // In this case the agent is the bridge, which reports the crash before it exits.
            let end = bridged.updates().pop().unwrap();
            assert!(end["error"]["message"].as_str().unwrap().contains("exit code 70"), "{end}");
        } else {
            assert_eq!(bridged.json_lines().last(), direct.json_lines().last(), "{prompt}");
            assert_eq!(bridged.code, direct.code, "{prompt}: {}", bridged.stderr);
        }
    });
}

#[test]
fn our_client_with_official_agents_of_version_1_through_the_bridge() {
    for agent in [Some(rust("agent")), typescript("agent")].into_iter().flatten() {
        let bridge = [SWITCHBOARD, "bridge", "--"].map(str::to_owned);
        crate::interop::drive_agent(&[&bridge[..], &agent].concat());
    }
}
