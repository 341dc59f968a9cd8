//! The complete path of a new user, in an empty home: from a missing agent to one that runs in the editor,
//! and back.

use std::io::BufReader;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bridge::Client;
use crate::known_agents::EmptyHome;
use crate::setup::{Editors, JETBRAINS, OBSIDIAN, ZED};

/// Returns the state of an agent in `switchboard agents`.
fn state(home: &EmptyHome, name: &str) -> Value {
    let agents = home.run(&["agents", "--json"]).json_lines();
    agents.into_iter().find(|agent| agent["name"] == name).unwrap()["state"].clone()
}

/// Returns the result of `switchboard doctor` for an agent, if it has one.
fn examined(home: &EmptyHome, name: &str) -> Option<Value> {
    // No server listens on this port.
    let run = home.run(&["doctor", "--json", "--hub", "http://127.0.0.1:9", "--min-free", "1B"]);
    run.json_lines().into_iter().find(|finding| finding["about"] == format!("agent {name}"))
}

/// Runs the agent in the configuration file of the editor, as the editor would: with the command line in that
/// file. Returns the response of the agent.
fn talk_as_editor(editors: &Editors, name: &str) -> Value {
    let settings: Value = serde_json::from_str(&editors.read("jetbrains")).unwrap();
    let entry = &settings["agent_servers"][name];
    assert_eq!(entry["command"], env!("CARGO_BIN_EXE_switchboard"));
    let words = entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let mut command = editors.home.command(&words.collect::<Vec<_>>());
    let mut process = command.stdin(Stdio::piped()).spawn().unwrap();
    let input = process.stdin.take().unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    let mut editor = Client { process, input, output };
    editor.ask(1, "initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
    let work = editors.home.place.work();
    let session =
        editor.ask(2, "session/new", json!({"cwd": work, "mcpServers": []}))["result"]["sessionId"].clone();
    let text = [json!({"type": "text", "text": "are you there?"})];
    let prompt = json!({"sessionId": session, "prompt": text});
    editor.say(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt}));
    let mut said = String::new();
    loop {
        let message = editor.hear();
        said.push_str(message["params"]["update"]["content"]["text"].as_str().unwrap_or_default());
        if message["id"] == 3 {
            let (code, stderr) = editor.end();
            assert_eq!(code, 0, "{stderr}");
            return json!({"said": said, "stopReason": message["result"]["stopReason"]});
        }
    }
}

#[test]
fn from_nothing_to_an_agent_in_the_editor_and_back() {
    let editors = Editors::new();
    let home = &editors.home;

    // The agent is known and missing: a hint is printed, and nothing is changed or run.
    assert_eq!(state(home, "codex"), "known");
    assert_eq!(examined(home, "codex"), None);
    for arguments in [&["run", "codex", "hi"][..], &["bridge", "codex"], &["setup", "jetbrains", "codex"]] {
        let run = home.run(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains("npm install -g @agentclientprotocol/codex-acp"), "{}", run.stderr);
    }
    assert_eq!(home.started(), "");

    // Installed as the hint says, it is found, responds, and runs by its name.
    home.install_demo("codex-acp");
    assert_eq!(state(home, "codex"), "installed");
    let found = examined(home, "codex").unwrap();
    assert_eq!(found["level"], "fine", "{found}");
    assert!(found["what"].as_str().unwrap().contains("supports protocol version 2"), "{found}");
    let run = home.run(&["run", "codex", "hi", "--record"]);
    assert_eq!((run.code, &*run.stdout), (0, "You said: hi\n"), "{}", run.stderr);
    assert_eq!(home.run(&["sessions", "list", "--json"]).json_lines().len(), 1);

    // The agent is added to the editor, and the file of the editor starts it.
    editors.setup(&["jetbrains", "codex"]);
    let answer = talk_as_editor(&editors, "codex");
    assert_eq!(answer, json!({"said": "You said: are you there?", "stopReason": "end_turn"}));

    // Other editors get the bridge in front of their own command. Removing it restores the file exactly.
    for (editor, agent) in [("zed", "gemini"), ("obsidian", "custom")] {
        editors.setup(&[editor, agent]);
    }
    for (editor, agent, before) in
        [("zed", "gemini", ZED), ("jetbrains", "codex", JETBRAINS), ("obsidian", "custom", OBSIDIAN)]
    {
        assert_ne!(editors.read(editor), before, "{editor}");
        editors.setup(&[editor, agent, "--undo"]);
        assert_eq!(editors.read(editor), before, "{editor}");
    }
    assert_eq!(state(home, "codex"), "installed");
    assert_eq!(home.run(&["run", "codex", "hi"]).code, 0);
}
