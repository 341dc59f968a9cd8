//! Agents that are known without configuration.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::agent_program::Place;
use crate::program::Run;
use crate::terminal::typed_to;

/// A home without installed programs, except those that a test adds.
pub(crate) struct EmptyHome {
    pub(crate) place: Place,
}

impl EmptyHome {
    pub(crate) fn new() -> Self {
        let home = EmptyHome { place: Place::new() };
        std::fs::create_dir(home.programs()).unwrap();
        for program in ["env", "sh", "cat"] {
            let folders = std::env::var_os("PATH").unwrap();
            let found = std::env::split_paths(&folders)
                .map(|folder| folder.join(program))
                .find(|path| path.is_file());
            symlink(found.unwrap(), home.programs().join(program)).unwrap();
        }
        home
    }

    pub(crate) fn programs(&self) -> PathBuf {
        self.place.home().join("programs")
    }

    /// Installs a script as a program.
    pub(crate) fn install(&self, name: &str, script: &str) {
        self.place.write(format!("home/programs/{name}"), &format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(self.programs().join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Installs the demo agent under another name.
    pub(crate) fn install_demo(&self, name: &str) {
        let us = env!("CARGO_BIN_EXE_switchboard");
        self.install(name, &format!("echo \"$0 $@\" >> \"$HOME/started\"\nexec {us} demo-agent"));
    }

    /// Returns the command lines of all stand-ins that were run.
    pub(crate) fn started(&self) -> String {
        std::fs::read_to_string(self.place.home().join("started")).unwrap_or_default()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command.env("PATH", self.programs());
        for name in ["XDG_CACHE_HOME", "XDG_STATE_HOME"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.place.run_command(self.command(arguments))
    }
}

fn states(home: &EmptyHome) -> Vec<(String, String)> {
    let agents = home.run(&["agents", "--json"]).json_lines();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    agents.iter().map(|agent| (text(&agent["name"]), text(&agent["state"]))).collect()
}

#[test]
fn a_known_agent_that_is_missing_is_told_how_to_get_and_then_runs() {
    let home = EmptyHome::new();
    for arguments in
        [&["run", "codex", "hi"][..], &["bridge", "codex"], &["open", "codex"], &["serve", "codex"]]
    {
        let run = home.run(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
        for words in [
            "Codex is not installed: there is no program \"codex-acp\" on the PATH",
            "to install it: npm install -g @agentclientprotocol/codex-acp",
            "to log in: codex login",
            "npx, which comes with Node.js",
        ] {
            assert!(run.stderr.contains(words), "{words} in {}", run.stderr);
        }
    }
    home.install_demo("codex-acp");
    let run = home.run(&["run", "codex", "hi"]);
    assert_eq!((run.code, &*run.stdout), (0, "You said: hi\n"), "{}", run.stderr);
    let run = home.run(&["run", "codex-acp", "hi"]);
    assert_eq!((run.code, &*run.stdout), (0, "You said: hi\n"), "its other name: {}", run.stderr);
    home.install_demo("gemini");
    let run = home.run(&["run", "gemini", "hi"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(home.started().ends_with("programs/gemini --acp\n"), "{}", home.started());
    let run = home.run(&["run", "no-such-agent", "hi"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("no agent is called \"no-such-agent\""), "{}", run.stderr);
}

#[test]
fn nothing_is_run_from_the_network_unless_somebody_says_so() {
    let home = EmptyHome::new();
    home.install_demo("npx");
    home.install_demo("uvx");
    for (name, line) in [
        ("claude", "-- npx --yes -- @agentclientprotocol/claude-agent-acp"),
        ("fast-agent", "-- uvx fast-agent-mcp acp"),
    ] {
        let run = home.run(&["run", name, "hi"]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(line), "{}", run.stderr);
    }
    for answer in ["n\n", "\n", "no\n", "yess\n"] {
        let (code, shown) = typed_to(home.command(&["run", "claude", "hi"]), &[answer]);
        assert_eq!(code, 2, "{answer:?}: {shown}");
        assert!(shown.contains("Run it? [i/y/N]"), "{shown}");
        assert!(shown.contains("to install it: npm install"), "{shown}");
    }
    assert_eq!(home.started(), "");
    let (code, shown) = typed_to(home.command(&["run", "claude", "hi", "--timeout", "50"]), &["y\n"]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("You said: hi"), "{shown}");
    assert!(
        home.started().ends_with("npx --yes -- @agentclientprotocol/claude-agent-acp\n"),
        "{}",
        home.started()
    );
    // A package has its own program, but not the programs that it needs.
    let run = home.run(&["run", "pi", "hi"]);
    assert!(run.stderr.contains("no program \"pi\"") && !run.stderr.contains("npx"), "{}", run.stderr);
}

#[test]
fn a_configured_name_wins_over_a_known_one_and_that_is_said() {
    let home = EmptyHome::new();
    home.install_demo("codex-acp");
    home.install_demo("mine");
    let configure = |command: &str| {
        let file = format!("{{\"agent_servers\": {{\"codex\": {{\"command\": \"{command}\"}}}}}}");
        home.place.write("home/.config/switchboard/config.json", &file);
    };
    configure("mine");
    let run = home.run(&["run", "codex", "hi"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("\"codex\" is `mine`, as "), "{}", run.stderr);
    assert!(run.stderr.contains("config.json says, and not the Codex that is known"), "{}", run.stderr);
    assert!(home.started().ends_with("programs/mine \n"), "{}", home.started());
    let run = home.run(&["agents"]);
    let known =
        run.stdout.lines().find(|line| line.starts_with("codex ") && line.ends_with(" Codex")).unwrap();
    assert!(
        known.contains("not used: the name means the one in ") && known.contains(" codex-acp "),
        "{known}"
    );
    // If the command is the same, nothing is reported.
    configure("codex-acp");
    let run = home.run(&["run", "codex", "hi"]);
    assert_eq!(run.code, 0);
    assert!(!run.stderr.contains("is known"), "{}", run.stderr);
}

#[test]
fn a_project_that_redefines_a_known_agent_needs_consent() {
    let home = EmptyHome::new();
    home.install_demo("codex-acp");
    home.install_demo("evil");
    let project = |name: &str, agent: &str| {
        home.place.write("work/.switchboard.json", &format!(r#"{{"agent_servers": {{"{name}": {agent}}}}}"#));
    };
    let with_variables = r#"{"command": "codex-acp", "env": {"NODE_OPTIONS": "--require ./evil.js"}}"#;
    for (name, agent) in
        [("codex", r#"{"command": "evil"}"#), ("codex", with_variables), ("demo", r#"{"command": "evil"}"#)]
    {
        project(name, agent);
        for arguments in [&["run", name, "hi"][..], &["bridge", name], &["open", name], &["serve", name]] {
            let run = home.run(arguments);
            assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
            assert!(run.stderr.contains(".switchboard.json says, and not the "), "{}", run.stderr);
            assert!(run.stderr.contains(&format!("switchboard agents add {name} -- ")), "{}", run.stderr);
        }
        let (code, shown) = typed_to(home.command(&["run", name, "hi"]), &["n\n"]);
        assert!(code == 2 && shown.contains("Run it? [y/N]"), "{shown}");
    }
    assert_eq!(home.started(), "");
    project("codex", r#"{"command": "evil"}"#);
    let (code, shown) = typed_to(home.command(&["run", "codex", "hi"]), &["y\n"]);
    assert!(code == 0 && shown.contains("You said: hi"), "{shown}");
    // The user's own configuration is trusted, and an identical command is not reported.
    assert_eq!(home.run(&["agents", "add", "codex", "--", "evil"]).code, 0);
    let run = home.run(&["run", "codex", "hi"]);
    assert_eq!((run.code, &*run.stdout), (0, "You said: hi\n"), "{}", run.stderr);
    assert_eq!(home.run(&["agents", "remove", "codex"]).code, 0);
    project("codex", r#"{"command": "codex-acp"}"#);
    assert_eq!(home.run(&["run", "codex", "hi"]).code, 0);
}

#[test]
fn the_list_shows_what_is_configured_installed_and_known_with_versions() {
    let home = EmptyHome::new();
    let run = home.run(&["agents"]);
    assert_eq!(run.code, 0);
    assert!(run.stdout.starts_with("NAME "), "{}", run.stdout);
    assert!(run.stdout.lines().skip(1).all(|line| line.contains(" not installed ")), "{}", run.stdout);
    assert!(run.stderr.contains("no agents are configured"), "{}", run.stderr);
    assert!(states(&home).iter().all(|(_, state)| state == "known"));
    // The layout of an npm installation.
    let package = "home/lib/node_modules/@agentclientprotocol/claude-agent-acp";
    home.place.write(format!("{package}/package.json"), r#"{"version": "0.99.1"}"#);
    home.install_demo("file");
    let program = home.place.home().join("lib/node_modules/@agentclientprotocol/claude-agent-acp/index.js");
    std::fs::rename(home.programs().join("file"), &program).unwrap();
    symlink(&program, home.programs().join("claude-agent-acp")).unwrap();
    home.place.write("work/.switchboard.json", r#"{"agent_servers": {"own": {"command": "sh"}}}"#);
    let run = home.run(&["agents"]);
    let words = |line: &str| {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let rows: Vec<Vec<String>> = run.stdout.lines().map(words).collect();
    assert_eq!(rows[0], ["NAME", "STATUS", "VERSION", "COMMAND", "FROM"]);
    assert_eq!(rows[1], ["own", "configured", "-", "sh", ".switchboard.json (project)"]);
    assert_eq!(rows[2], ["claude", "installed", "0.99.1", "claude-agent-acp", "Claude Code"]);
    let agents = home.run(&["agents", "--json"]).json_lines();
    assert_eq!((&agents[0]["state"], &agents[0]["name"]), (&"configured".into(), &"own".into()));
    let claude = agents.iter().find(|agent| agent["name"] == "claude").unwrap();
    assert_eq!((claude["state"].as_str(), claude["version"].as_str()), (Some("installed"), Some("0.99.1")));
    assert_eq!(claude["protocol"], serde_json::json!([1, 2]));
    // It can be added to the configuration unchanged.
    assert_eq!(home.run(&["agents", "add", "claude"]).code, 0);
    assert!(states(&home).contains(&("claude".to_owned(), "configured".to_owned())));
    let run = home.run(&["agents", "add", "gemini"]);
    assert!(run.code == 2 && run.stderr.contains("npm install -g @google/gemini-cli"), "{}", run.stderr);
}
