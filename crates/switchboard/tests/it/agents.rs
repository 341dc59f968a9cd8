//! Which agents are configured.

use serde_json::{Value, json};

use crate::agent_program::Place;

fn listed(place: &Place) -> Vec<Value> {
    place.run(&["agents", "--json"]).json_lines()
}

#[test]
fn agents_are_found_in_all_files() {
    let place = Place::new();
    place.write(
        "home/.config/switchboard/config.json",
        r#"{"agent_servers": {"ours": {"command": "sh", "args": ["-c", "true"], "env": {"KEY": "secret"}}}}"#,
    );
    place.write("work/.switchboard.json", r#"{"agent_servers": {"project": {"command": "./agent.sh"}}}"#);
    place.write(
        "home/.config/zed/settings.json",
        r#"// Zed
        {
            "theme": "One", /* , */
            "agent_servers": {
                "zed": {"type": "custom", "command": "no-such-program-here", "args": [],},
                "old": {"command": {"path": "sh", "args": ["-l"]}},
                "registered": {"type": "registry", "env": {}},
            },
        }"#,
    );
    place.write("home/.jetbrains/acp.json", r#"{"agent_servers": {"jetbrains": {"command": "sh"}}}"#);
    place.write("home/.acpx/config.json", r#"{"agents": {"acpx": {"command": "sh -c 'echo hi'"}}}"#);
    let found: Vec<_> = listed(&place)
        .iter()
        .map(|agent| {
            let is_found = !agent["program"].is_null();
            json!([agent["name"], agent["source"], agent["args"], is_found])
        })
        .collect();
    assert_eq!(
        found,
        [
            json!(["ours", "switchboard", ["-c", "true"], true]),
            json!(["project", "project", [], false]),
            json!(["old", "zed", ["-l"], true]),
            json!(["zed", "zed", [], false]),
            json!(["jetbrains", "jetbrains", [], true]),
            json!(["acpx", "acpx", ["-c", "echo hi"], true]),
        ]
    );
    let run = place.run(&["agents"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("! zed        no-such-program-here"), "{}", run.stdout);
    assert!(!run.stdout.contains("secret"), "{}", run.stdout);
}

#[test]
fn a_project_cannot_take_a_name_that_the_user_has() {
    let place = Place::new();
    let agent = |command: &str| format!(r#"{{"agent_servers": {{"mine": {{"command": "{command}"}}}}}}"#);
    place.write("home/.config/switchboard/config.json", &agent("true"));
    place.write("work/.switchboard.json", &agent("/bin/evil"));
    let used: Vec<_> =
        listed(&place).iter().map(|agent| (agent["used"].clone(), agent["command"].clone())).collect();
    assert_eq!(used, [(json!(true), json!("true")), (json!(false), json!("/bin/evil"))]);
}

#[test]
fn a_configured_agent_is_run_by_its_name() {
    let place = Place::new();
    let demo = json!(env!("CARGO_BIN_EXE_switchboard"));
    let file = json!({"agent_servers": {"mine": {"command": demo, "args": ["demo-agent"]}}});
    place.write("work/.switchboard.json", &file.to_string());
    let run = place.run(&["run", "mine", "hi"]);
    assert_eq!((run.code, &*run.stdout), (0, "You said: hi\n"), "{}", run.stderr);
    let run = place.run(&["run", "other", "hi"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("hint: configured are: mine"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_read_is_told() {
    let place = Place::new();
    place.write(
        "work/.switchboard.json",
        r#"{"agent_servers": {"a": {"command": 7}, "b": {"command": "sh"}}}"#,
    );
    place.write("home/.jetbrains/acp.json", "{");
    let run = place.run(&["agents"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.starts_with("+ b  sh\n"), "{}", run.stdout);
    assert!(run.stderr.contains("the agent \"a\" has a command that is no text"), "{}", run.stderr);
    assert!(run.stderr.contains("acp.json is no JSON"), "{}", run.stderr);
}
