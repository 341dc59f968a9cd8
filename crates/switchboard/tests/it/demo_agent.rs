//! Every scenario of the demo agent, checked with `check` and by its changes to files.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::agent_program::Place;
use crate::program::switchboard;

fn updates(place: &Place, prompt: &str) -> Vec<Value> {
    let run = place.demo(prompt, &["--format", "json", "--approve-all"]);
    assert_eq!(run.code, 0, "{prompt}: {}", run.stderr);
    run.updates()
}

/// Returns the names of the scenarios, from the help of the agent.
fn scenarios(place: &Place) -> Vec<String> {
    let help = place.demo("/help", &["--format", "quiet"]).stdout;
    let names =
        help.lines().filter_map(|line| Some(line.strip_prefix("- `/")?.split_once('`')?.0.to_owned()));
    names.collect()
}

#[test]
fn every_scenario_sends_what_the_protocol_allows_and_always_the_same() {
    let place = Place::new();
    let names = scenarios(&place);
    assert_eq!(names.len(), 32);
    for name in names {
        if ["slow", "stubborn", "crash", "malformed", "fail", "refuse"].contains(&&*name) {
            continue;
        }
        let prompt = if name == "flood" { "flood 500" } else { &name };
        let run = || place.demo(prompt, &["--format", "json", "--approve-all"]);
        let first = run();
        assert_eq!(first.code, 0, "{name}: {}", first.stderr);
        assert_eq!(first.stdout, run().stdout, "{name}");
        let check = switchboard(
            &["check", "--type", "UpdateSessionNotification", "--dialect", "newest"],
            first.stdout.as_bytes(),
        );
        assert_eq!(check.code, 0, "{name}: {}", check.stdout);
    }
}

#[test]
fn the_edit_shows_all_five_operations_and_does_them() {
    let place = Place::new();
    let folder = place.work().join("switchboard-demo");
    let updates = updates(&place, "edit");
    let diff = updates.iter().find(|update| update["content"]["type"] == "diff").unwrap();
    let changes = diff["content"]["changes"].as_array().unwrap();
    let operations: BTreeSet<_> =
        changes.iter().map(|change| change["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, BTreeSet::from(["add", "copy", "delete", "modify", "move"]));
    let there = |name: &str| Path::exists(&folder.join(name));
    for name in ["new.txt", "config.json", "letters/letter.txt", "form.txt", "template.txt"] {
        assert!(there(name), "{name}");
    }
    for name in ["obsolete.txt", "letter.txt"] {
        assert!(!there(name), "{name}");
    }
    let kinds = |prompt| {
        let updates = self::updates(&place, prompt);
        let diff = updates.iter().find(|update| update["content"]["type"] == "diff").unwrap();
        diff["content"]["changes"][0]["fileType"].clone()
    };
    assert_eq!(kinds("binary"), "binary");
    assert_eq!(kinds("symlink"), "symlink");
}

#[test]
fn clears_come_by_null_and_by_an_empty_list() {
    let place = Place::new();
    let updates = updates(&place, "clear");
    let contents: Vec<_> = updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "tool_call_update" && update.get("content").is_some())
        .map(|update| update["content"].clone())
        .collect();
    assert_eq!(contents, [Value::Array(vec![]), Value::Null]);
}

#[test]
fn terminal_output_is_cut_inside_characters() {
    let place = Place::new();
    let updates = updates(&place, "terminal");
    let chunks = updates.iter().filter(|update| update["sessionUpdate"] == "terminal_output_chunk").count();
    assert!(chunks > 5, "{chunks}");
    let run = place.demo("terminal", &[]);
    assert!(run.stdout.contains("grün 🐢"), "{}", run.stdout);
}

#[test]
fn a_flood_arrives_whole() {
    let place = Place::new();
    let run = place.demo("flood 20000", &["--format", "quiet"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout.lines().count(), 20_000);
    assert!(run.stdout.ends_with("piece 19999\n"));
}
