//! `switchboard agents`: the configured agents.

use serde_json::{Value, json};

use crate::agent_program::Place;

/// Returns the configured agents.
fn listed(place: &Place) -> Vec<Value> {
    let mut agents = place.run(&["agents", "--json"]).json_lines();
    agents.retain(|agent| agent["state"] == "configured");
    agents
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
    assert!(run.stdout.starts_with("NAME "), "{}", run.stdout);
    let zed = run.stdout.lines().find(|line| line.starts_with("zed ")).unwrap();
    assert!(zed.contains(" not found ") && zed.contains(" no-such-program-here"), "{}", run.stdout);
    assert!(run.stderr.contains("zed: program no-such-program-here not found"), "{}", run.stderr);
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
    assert!(run.stderr.contains("hint: configured agents: mine"), "{}", run.stderr);
}

#[test]
fn unreadable_configuration_is_reported() {
    let place = Place::new();
    place.write(
        "work/.switchboard.json",
        r#"{"agent_servers": {"a": {"command": 7}, "b": {"command": "sh"}}}"#,
    );
    place.write("home/.jetbrains/acp.json", "{");
    // Reading it would block.
    std::fs::create_dir_all(place.home().join(".acpx")).unwrap();
    std::fs::rename(place.fifo("pipe"), place.home().join(".acpx/config.json")).unwrap();
    let run = place.run(&["agents"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("config.json is not a regular file"), "{}", run.stderr);
    let first = run.stdout.lines().nth(1).unwrap();
    assert!(first.starts_with("b ") && first.contains(" configured ") && first.contains(" sh "), "{first}");
    assert!(run.stderr.contains("the agent \"a\" has a command that is not a string"), "{}", run.stderr);
    assert!(run.stderr.contains("acp.json is not valid JSON"), "{}", run.stderr);
}

#[test]
fn an_agent_is_added_and_removed_and_the_rest_of_the_file_stays() {
    let place = Place::new();
    let file = place.home().join(".config/switchboard/config.json");
    let read = || std::fs::read_to_string(&file).unwrap();
    let add = |arguments: &[&str]| place.run(&[&["agents", "add"], arguments].concat());
    let run = add(&["first", "--", "sh", "-c", "true"]);
    assert_eq!((run.code, run.stdout.trim()), (0, file.to_str().unwrap()), "{}", run.stderr);
    assert_eq!(
        read(),
        "{\n  \"agent_servers\": {\n    \"first\": {\n      \"command\": \"sh\",\n      \"args\": [\"-c\", \"true\"]\n    }\n  }\n}\n"
    );
    let commented = "// mine\n{\n\t\"store\": {\"keep\": \"90d\"}, // long\n\t\"agent_servers\": {\n\t\t\"old\": {\"command\": \"sh\",},\n\t},\n}\n";
    place.write("home/.config/switchboard/config.json", commented);
    assert_eq!(add(&["remote", "--", "https://example.org/acp"]).code, 0);
    assert_eq!(add(&["new", "--env", "KEY=a=b", "--", "sh"]).code, 0);
    let names: Vec<_> = listed(&place).iter().map(|agent| agent["name"].clone()).collect();
    assert_eq!(names, ["new", "old", "remote"]);
    assert!(read().starts_with(&commented[..commented.len() - "\t},\n}\n".len()]), "{}", read());
    let again = add(&["new", "--", "true"]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("--replace"), "{}", again.stderr);
    assert_eq!(add(&["new", "--replace", "--", "true"]).code, 0);
    assert_eq!(listed(&place)[0]["command"], "true");
    for name in ["remote", "new"] {
        assert_eq!(place.run(&["agents", "remove", name]).code, 0);
    }
    assert_eq!(read(), commented);
    let run = place.run(&["agents", "remove", "new"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("has no agent \"new\""), "{}", run.stderr);
}

#[test]
fn a_configuration_that_cannot_be_changed_with_care_is_left_alone() {
    let place = Place::new();
    let path = "home/.config/switchboard/config.json";
    let file = place.home().join(".config/switchboard/config.json");
    for (text, problem) in [
        ("{", "is not valid JSON"),
        ("[]", "not an object"),
        (r#"{"agent_servers": 7}"#, "\"agent_servers\" that is not an object"),
        (r#"{"agent_servers": {}, "agent_servers": {}}"#, "twice"),
    ] {
        place.write(path, text);
        let run = place.run(&["agents", "add", "x", "--", "sh"]);
        assert_eq!(run.code, 2, "{text}: {}", run.stderr);
        assert!(run.stderr.contains(problem), "{text}: {}", run.stderr);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    std::fs::remove_file(&file).unwrap();
    place.write("home/dotfiles.json", "{}");
    std::os::unix::fs::symlink(place.home().join("dotfiles.json"), &file).unwrap();
    let run = place.run(&["agents", "add", "x", "--", "sh"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("symbolic link"), "{}", run.stderr);
    assert!(file.symlink_metadata().unwrap().is_symlink());
    for name in ["demo", "", "no-such-agent"] {
        assert_eq!(place.run(&["agents", "add", name]).code, 2, "{name}");
    }
}

#[test]
fn an_agent_that_is_ourselves_by_its_own_name_is_none() {
    let place = Place::new();
    let us = env!("CARGO_BIN_EXE_switchboard");
    let file = json!({"agent_servers": {
        "again": {"command": us, "args": ["bridge", "--record", "again"]},
        "other": {"command": us, "args": ["bridge", "demo"]},
    }});
    place.write("work/.switchboard.json", &file.to_string());
    let run = place.run(&["run", "again", "hi"]);
    assert!(run.code == 2 && run.stderr.contains("no agent is called \"again\""), "{}", run.stderr);
    let run = place.run(&["run", "other", "hi"]);
    assert_eq!((run.code, &*run.stdout), (0, "You said: hi\n"), "{}", run.stderr);
}

#[test]
fn an_address_that_cannot_be_reached_is_told_without_the_program_that_tried() {
    let place = Place::new();
    let run = place.run(&["run", "hi", "--", "ftp://x"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("the scheme ftp:// is not supported for agents"), "{}", run.stderr);
    let address = "ws://127.0.0.1:9/acp";
    for arguments in [&["run", address, "hi"][..], &["run", "hi", "--", address], &["bridge", "--", address]]
    {
        let run = place.run(arguments);
        assert!(run.stderr.contains(&format!("cannot reach {address}")), "{}", run.stderr);
        assert!(!run.stderr.contains("exit"), "{arguments:?}: {}", run.stderr);
    }
}
