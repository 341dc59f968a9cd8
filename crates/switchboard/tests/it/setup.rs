//! `switchboard setup` with configuration files from the documentation of the editors.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use crate::known_agents::EmptyHome;

/// Zed: comments, trailing commas, an old form, and an agent of the registry.
pub(crate) const ZED: &str = r#"// Zed settings
//
// For information on how to configure Zed, see the Zed documentation.
{
  "theme": "One Dark", // dark
  "vim_mode": true,
  "agent_servers": {
    /* mine */
    "Codex": {
      "type": "custom",
      "command": "npx",
      "args": ["-y", "@agentclientprotocol/codex-acp@2.6.0"], // pinned
      "env": { "OPENAI_API_KEY": "sk-\u0061bc" },
    },
    "gemini": { "command": { "path": "/opt/gemini", "args": ["--acp"] } },
    "plain": { "command": "plain-agent" },
    "claude-acp": { "type": "registry", "env": {} },
  },
  "buffer_font_size": 15.0,
}
"#;

pub(crate) const JETBRAINS: &str = "{\r\n\t\"default_mcp_settings\": {},\r\n\t\"agent_servers\": {\r\n\t\t\"OpenCode\": {\r\n\t\t\t\"command\": \"/usr/bin/opencode\",\r\n\t\t\t\"args\": [\"acp\"],\r\n\t\t\t\"env\": {\"A\": \"b\"}\r\n\t\t}\r\n\t}\r\n}";

pub(crate) const OBSIDIAN: &str = r#"{
  "claude": {
    "id": "claude-code-acp",
    "displayName": "Claude Code",
    "apiKey": "",
    "command": "claude-agent-acp",
    "args": [],
    "env": []
  },
  "gemini": {"id": "gemini-cli", "command": "gemini", "args": ["--experimental-acp"], "env": []},
  "customAgents": [
    {"id": "custom", "displayName": "Mine", "command": "my-agent", "args": ["--acp"], "env": []}
  ],
  "floatingWindowPosition": null
}"#;

pub(crate) struct Editors {
    pub(crate) home: EmptyHome,
}

impl Editors {
    pub(crate) fn new() -> Self {
        let home = EmptyHome::new();
        home.place.write("home/.config/zed/settings.json", ZED);
        home.place.write("home/.jetbrains/acp.json", JETBRAINS);
        let vault = home.place.home().join("notes");
        let list = serde_json::json!({"vaults": {"0123": {"path": vault, "ts": 1}, "4567": {"path": "/no/such/vault"}}});
        home.place.write("home/.config/obsidian/obsidian.json", &list.to_string());
        home.place.write("home/notes/.obsidian/plugins/agent-client/data.json", OBSIDIAN);
        Editors { home }
    }

    fn file(&self, editor: &str) -> PathBuf {
        self.home.place.home().join(match editor {
            "zed" => ".config/zed/settings.json",
            "jetbrains" => ".jetbrains/acp.json",
            _ => "notes/.obsidian/plugins/agent-client/data.json",
        })
    }

    pub(crate) fn read(&self, editor: &str) -> String {
        std::fs::read_to_string(self.file(editor)).unwrap()
    }

    /// Runs `setup`, which must succeed.
    pub(crate) fn setup(&self, arguments: &[&str]) -> String {
        let run = self.home.run(&[&["setup"], arguments].concat());
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
        run.stdout
    }
}

const US: &str = env!("CARGO_BIN_EXE_switchboard");

#[test]
fn editors_and_their_agents_are_listed() {
    let editors = Editors::new();
    let table = editors.setup(&[]);
    for line in [
        "zed            Zed, found by ",
        "  Codex        npx -y @agentclientprotocol/codex-acp@2.6.0 (switchboard setup zed Codex)\n",
        "  gemini       /opt/gemini --acp (",
        "  claude-acp   started by the editor itself\n",
        "  OpenCode     /usr/bin/opencode acp (",
        "  custom       my-agent --acp (",
        "codecompanion  not found (Neovim, CodeCompanion)\n",
        "agent-shell    not found",
    ] {
        assert!(table.contains(line), "{line} in {table}");
    }
    for plugin in [
        ".local/share/nvim/lazy/codecompanion.nvim",
        ".local/share/nvim/site/pack/p/start/avante.nvim",
        ".emacs.d/elpa/agent-shell-20260101.1",
    ] {
        std::fs::create_dir_all(editors.home.place.home().join(plugin)).unwrap();
    }
    let table = editors.setup(&[]);
    assert!(
        table.contains("codecompanion  Neovim, CodeCompanion, found by ")
            && table.contains("avante         Neovim, Avante, found by "),
        "{table}"
    );
    assert!(table.contains("agent-shell    Emacs, agent-shell, found by "), "{table}");
    editors.home.place.write("home/.jetbrains/acp.json", "{");
    let run = editors.home.run(&["setup"]);
    assert!(run.code == 1 && run.stdout.contains("acp.json is not valid JSON"), "{}", run.stdout);
}

#[test]
fn the_bridge_is_put_before_an_agent_and_taken_away_byte_for_byte() {
    let editors = Editors::new();
    for (editor, agent, before, changes) in [
        (
            "zed",
            "codex",
            ZED,
            vec![
                ("\"command\": \"npx\"", format!("\"command\": \"{US}\"")),
                ("[\"-y\", \"@agent", "[\"bridge\", \"--\", \"npx\", \"-y\", \"@agent".to_owned()),
            ],
        ),
        (
            "zed",
            "gemini",
            ZED,
            vec![(
                "\"path\": \"/opt/gemini\", \"args\": [\"--acp\"]",
                format!("\"path\": \"{US}\", \"args\": [\"bridge\", \"--\", \"/opt/gemini\", \"--acp\"]"),
            )],
        ),
        (
            "zed",
            "plain",
            ZED,
            vec![(
                "\"command\": \"plain-agent\"",
                format!("\"command\": \"{US}\", \"args\": [\"bridge\", \"--\", \"plain-agent\"]"),
            )],
        ),
        (
            "jetbrains",
            "opencode",
            JETBRAINS,
            vec![
                ("\"/usr/bin/opencode\"", format!("\"{US}\"")),
                ("[\"acp\"]", "[\"bridge\", \"--\", \"/usr/bin/opencode\", \"acp\"]".to_owned()),
            ],
        ),
        (
            "obsidian",
            "claude",
            OBSIDIAN,
            vec![
                ("\"command\": \"claude-agent-acp\"", format!("\"command\": \"{US}\"")),
                ("\"args\": [],", "\"args\": [\"bridge\", \"--\", \"claude-agent-acp\"],".to_owned()),
            ],
        ),
        (
            "obsidian",
            "custom",
            OBSIDIAN,
            vec![(
                "\"command\": \"my-agent\", \"args\": [\"--acp\"]",
                format!("\"command\": \"{US}\", \"args\": [\"bridge\", \"--\", \"my-agent\", \"--acp\"]"),
            )],
        ),
    ] {
        let patch = editors.setup(&[editor, agent, "--dry-run"]);
        assert!(patch.contains("--- ") && patch.contains("\n+") && patch.contains("bridge"), "{patch}");
        assert_eq!(editors.read(editor), before, "a dry run writes nothing");
        let mode = || editors.file(editor).metadata().unwrap().permissions().mode();
        let permissions = mode();
        editors.setup(&[editor, agent]);
        let expected = changes.iter().fold(before.to_owned(), |text, (from, to)| text.replacen(from, to, 1));
        assert_eq!(editors.read(editor), expected, "{editor} {agent}");
        assert_eq!(mode(), permissions);
        assert!(editors.setup(&[editor, agent]).contains("already"), "{editor} {agent}");
        editors.setup(&[editor, agent, "--undo"]);
        assert_eq!(editors.read(editor), before, "{editor} {agent}");
        let run = editors.home.run(&["setup", editor, agent, "--undo"]);
        assert_eq!(run.code, 2, "{}", run.stdout);
    }
}

#[test]
fn what_was_changed_since_stays_when_the_bridge_is_taken_away() {
    let editors = Editors::new();
    editors.setup(&["zed", "codex"]);
    editors.setup(&["zed", "gemini"]);
    // Switchboard itself starts the agent directly, without the bridge.
    let agents = editors.home.run(&["agents", "--json"]).json_lines();
    let gemini = agents.iter().find(|agent| agent["name"] == "gemini").unwrap();
    assert_eq!(
        (gemini["command"].as_str(), &gemini["args"]),
        (Some("/opt/gemini"), &serde_json::json!(["--acp"]))
    );
    let edited = editors.read("zed").replace("One Dark", "One Light");
    std::fs::write(editors.file("zed"), &edited).unwrap();
    assert!(editors.setup(&["zed", "codex", "--undo"]).contains("what else was changed since stays"));
    editors.setup(&["zed", "gemini", "--undo"]);
    assert_eq!(editors.read("zed"), ZED.replace("One Dark", "One Light"));
}

#[test]
fn an_agent_that_the_editor_does_not_have_is_added() {
    let editors = Editors::new();
    let run = editors.home.run(&["setup", "jetbrains", "qwen"]);
    assert!(run.code == 2 && run.stderr.contains("npm install -g @qwen-code/qwen-code"), "{}", run.stderr);
    let run = editors.home.run(&["setup", "jetbrains", "nobody"]);
    assert!(run.code == 2 && run.stderr.contains("neither the editor nor Switchboard"), "{}", run.stderr);
    for program in ["qwen", "claude-agent-acp"] {
        editors.home.install_demo(program);
    }
    editors.setup(&["jetbrains", "qwen"]);
    let added = format!(
        "\t\t}},\r\n\t\t\"qwen\": {{\r\n\t\t\t\"command\": \"{US}\",\r\n\t\t\t\"args\": [\"bridge\", \"qwen\"]\r\n\t\t}}\r\n\t}}\r\n}}"
    );
    assert!(editors.read("jetbrains").ends_with(&added), "{}", editors.read("jetbrains"));
    // The editor's own entry stays.
    assert!(editors.setup(&["zed", "claude"]).contains("\"claude\" was added"));
    assert!(editors.read("zed").contains("\"claude-acp\": { \"type\": \"registry\""));
    editors.setup(&["obsidian", "qwen"]);
    assert!(editors.read("obsidian").contains("\"displayName\": \"Qwen Code\""));
    // Two editors refer to Switchboard by this name. It stands for the agent, without recursion.
    assert!(editors.setup(&[]).contains("  qwen         through Switchboard: qwen\n"));
    let run = editors.home.run(&["run", "qwen", "hi"]);
    assert_eq!((run.code, &*run.stdout), (0, "You said: hi\n"), "{}", run.stderr);
    let run = editors.home.run(&["bridge", "qwen"]);
    assert_eq!(run.code, 0, "as the editor does: {}", run.stderr);
    assert_eq!(editors.home.started().lines().count(), 2, "{}", editors.home.started());
    for (editor, agent, before) in
        [("jetbrains", "qwen", JETBRAINS), ("zed", "claude", ZED), ("obsidian", "qwen", OBSIDIAN)]
    {
        editors.setup(&[editor, agent, "--undo"]);
        assert_eq!(editors.read(editor), before);
    }
    // A missing file is created, and removed again.
    std::fs::remove_file(editors.file("jetbrains")).unwrap();
    editors.setup(&["jetbrains", "qwen"]);
    assert!(editors.read("jetbrains").starts_with("{\n  \"agent_servers\": {\n    \"qwen\": {"));
    editors.setup(&["jetbrains", "qwen", "--undo"]);
    assert!(!editors.file("jetbrains").exists());
}

#[test]
fn a_file_that_cannot_be_changed_with_care_is_left_alone() {
    let editors = Editors::new();
    let file = editors.file("zed");
    for (text, problem) in [
        ("{ \"agent_servers\": ", "is not valid JSON"),
        ("[]", "is not an object"),
        ("{\"agent_servers\": []}", "not an object"),
        (
            "{\"agent_servers\": {\"demo\": {\"command\": \"x\", \"args\": \"--acp\"}}}",
            "not a list of strings",
        ),
        ("{\"agent_servers\": {\"demo\": {\"command\": \"x\", \"args\": [1]}}}", "not a list of strings"),
        ("{\"agent_servers\": {\"demo\": {\"command\": \"x\", \"command\": \"y\"}}}", "twice"),
        (
            "{\"agent_servers\": {\"Demo\": {\"command\": \"x\"}, \"DEMO\": {\"command\": \"y\"}}}",
            "several agents",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        for more in [&[][..], &["--dry-run"]] {
            let run = editors.home.run(&[&["setup", "zed", "demo"], more].concat());
            assert_eq!(run.code, 2, "{text}: {}", run.stdout);
            assert!(run.stderr.contains(problem), "{text}: {}", run.stderr);
        }
        assert_eq!(editors.read("zed"), text);
    }
    std::fs::write(&file, [0x7B, 0xFF, 0x7D]).unwrap();
    let run = editors.home.run(&["setup", "zed", "demo"]);
    assert!(run.code == 2 && run.stderr.contains("cannot be read"), "{}", run.stderr);
    let target = editors.home.place.home().join("dotfiles.json");
    std::fs::write(&target, ZED).unwrap();
    std::fs::remove_file(&file).unwrap();
    symlink(&target, &file).unwrap();
    let run = editors.home.run(&["setup", "zed", "codex"]);
    assert!(run.code == 2 && run.stderr.contains("symbolic link to "), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), ZED);
    let run = editors.home.run(&["setup", "vi", "codex"]);
    assert!(run.code == 2 && run.stderr.contains("known are: zed, "), "{}", run.stderr);
}

#[test]
fn for_editors_that_are_configured_by_code_the_code_is_printed() {
    let home = EmptyHome::new();
    let run = home.run(&["setup", "emacs", "codex"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        run.stdout,
        format!("(setq agent-shell-openai-codex-acp-command\n      '(\"{US}\" \"bridge\" \"codex\"))\n")
    );
    assert!(run.stderr.contains("init.el"), "{}", run.stderr);
    std::fs::create_dir_all(home.place.home().join(".local/share/nvim/lazy/avante.nvim")).unwrap();
    let run = home.run(&["setup", "neovim", "claude"]);
    assert!(
        run.stdout.starts_with("require(\"avante\").setup({\n  provider = \"claude-code\",\n"),
        "only what is there: {}",
        run.stdout
    );
    assert!(!run.stdout.contains("codecompanion"));
    let run = home.run(&["setup", "codecompanion", "claude"]);
    assert!(
        run.stdout.contains("extend(\"claude_code\", {")
            && run.stderr.contains("was not found on this machine"),
        "{}",
        run.stdout
    );
    assert_eq!(home.run(&["setup", "neovim", "claude", "--undo"]).code, 2);
    assert_eq!(home.run(&["setup", "emacs", "mcode"]).code, 2);
}

#[test]
fn code_is_printed_only_for_agents_that_the_bridge_finds() {
    let home = EmptyHome::new();
    for editor in ["avante", "agentic", "codecompanion", "neovim", "emacs"] {
        let run = home.run(&["setup", editor, "nosuchagent"]);
        assert_eq!((run.code, &*run.stdout), (2, ""), "{editor}: {}", run.stderr);
        assert!(run.stderr.contains("has an agent \"nosuchagent\""), "{editor}: {}", run.stderr);
        assert!(run.stderr.contains("switchboard agents add nosuchagent -- "), "{editor}: {}", run.stderr);
    }
    // A known agent that is missing is reported, and a configured one needs nothing else.
    let run = home.run(&["setup", "avante", "codex"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("npm install -g @agentclientprotocol/codex-acp"), "{}", run.stderr);
    home.install_demo("mine");
    assert_eq!(home.run(&["agents", "add", "mine", "--", "mine"]).code, 0);
    let run = home.run(&["setup", "avante", "mine"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("args = { \"bridge\", \"mine\" }"), "{}", run.stdout);
    assert!(!run.stderr.contains("not installed"), "{}", run.stderr);
}

#[test]
fn agent_shell_of_melpa_stable_is_found() {
    let home = EmptyHome::new();
    std::fs::create_dir_all(home.place.home().join(".emacs.d/elpa/agent-shell-attention-0.1")).unwrap();
    assert!(home.run(&["setup"]).stdout.contains("agent-shell    not found"));
    std::fs::create_dir_all(home.place.home().join(".emacs.d/elpa/agent-shell-0.79.2")).unwrap();
    let table = home.run(&["setup"]).stdout;
    assert!(
        table.contains("agent-shell    Emacs, agent-shell, found by ")
            && table.contains("agent-shell-0.79.2\n"),
        "{table}"
    );
}
