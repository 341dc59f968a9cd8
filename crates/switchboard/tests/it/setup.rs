//! `switchboard setup` with configuration files from the documentation of the editors.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

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

/// Gives a command the environment of another, and pipes.
fn alike(mut command: Command, other: &Command) -> Command {
    for (name, value) in other.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
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
                (
                    "[\"-y\", \"@agent",
                    "[\"bridge\", \"--record\", \"--\", \"npx\", \"-y\", \"@agent".to_owned(),
                ),
            ],
        ),
        (
            "zed",
            "gemini",
            ZED,
            vec![(
                "\"path\": \"/opt/gemini\", \"args\": [\"--acp\"]",
                format!(
                    "\"path\": \"{US}\", \"args\": [\"bridge\", \"--record\", \"--\", \"/opt/gemini\", \"--acp\"]"
                ),
            )],
        ),
        (
            "zed",
            "plain",
            ZED,
            vec![(
                "\"command\": \"plain-agent\"",
                format!(
                    "\"command\": \"{US}\", \"args\": [\"bridge\", \"--record\", \"--\", \"plain-agent\"]"
                ),
            )],
        ),
        (
            "jetbrains",
            "opencode",
            JETBRAINS,
            vec![
                ("\"/usr/bin/opencode\"", format!("\"{US}\"")),
                (
                    "[\"acp\"]",
                    "[\"bridge\", \"--record\", \"--\", \"/usr/bin/opencode\", \"acp\"]".to_owned(),
                ),
            ],
        ),
        (
            "obsidian",
            "claude",
            OBSIDIAN,
            vec![
                ("\"command\": \"claude-agent-acp\"", format!("\"command\": \"{US}\"")),
                (
                    "\"args\": [],",
                    "\"args\": [\"bridge\", \"--record\", \"--\", \"claude-agent-acp\"],".to_owned(),
                ),
            ],
        ),
        (
            "obsidian",
            "custom",
            OBSIDIAN,
            vec![(
                "\"command\": \"my-agent\", \"args\": [\"--acp\"]",
                format!(
                    "\"command\": \"{US}\", \"args\": [\"bridge\", \"--record\", \"--\", \"my-agent\", \"--acp\"]"
                ),
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
fn undo_keeps_later_changes() {
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
        "\t\t}},\r\n\t\t\"qwen\": {{\r\n\t\t\t\"command\": \"{US}\",\r\n\t\t\t\"args\": [\"bridge\", \"--record\", \"qwen\"]\r\n\t\t}}\r\n\t}}\r\n}}"
    );
    assert!(editors.read("jetbrains").ends_with(&added), "{}", editors.read("jetbrains"));
    // The editor's own entry stays.
    assert!(editors.setup(&["zed", "claude"]).contains("\"claude\" was added"));
    assert!(editors.read("zed").contains("\"claude-acp\": { \"type\": \"registry\""));
    editors.setup(&["obsidian", "qwen"]);
    assert!(editors.read("obsidian").contains("\"displayName\": \"Qwen Code\""));
    // Two editors refer to Switchboard by this name. It stands for the agent, without recursion.
    assert!(editors.setup(&[]).contains("  qwen         through Switchboard: qwen (recorded)\n"));
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
    // With the user's consent the target is changed, and the link stays.
    editors.setup(&["zed", "codex", "--yes"]);
    assert!(file.is_symlink() && std::fs::read_to_string(&target).unwrap().contains("\"bridge\""));
    editors.setup(&["zed", "codex", "--undo", "--yes"]);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), ZED);
    std::fs::remove_file(&target).unwrap();
    let run = editors.home.run(&["setup", "zed", "codex", "--yes"]);
    assert!(run.code == 2 && run.stderr.contains("symbolic link to "), "a link to nothing: {}", run.stderr);
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
        format!(
            "(setq agent-shell-openai-codex-acp-command\n      '(\"{US}\" \"bridge\" \"--record\" \"codex\"))\n"
        )
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
    assert!(run.stdout.contains("args = { \"bridge\", \"--record\", \"mine\" }"), "{}", run.stdout);
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

#[test]
fn options_of_an_entry_are_written_changed_and_undone() {
    let editors = Editors::new();
    let rules = editors.home.place.write("home/rules.toml", "default = \"ask\"\n");
    let rules = rules.canonicalize().unwrap().display().to_string();
    let arguments = |words: &str| {
        format!(
            "\"args\": [{words}\"--\", \"npx\", \"-y\", \"@agentclientprotocol/codex-acp@2.6.0\"], // pinned"
        )
    };
    let said = editors.setup(&["zed", "codex", "--permissions", &rules]);
    assert!(said.contains("sessions are recorded in "), "{said}");
    let with_rules = arguments(&format!("\"bridge\", \"--record\", \"--permissions\", \"{rules}\", "));
    assert!(editors.read("zed").contains(&with_rules), "{}", editors.read("zed"));
    assert!(editors.setup(&["zed"]).contains(&format!("(recorded, rules {rules})")));
    // Options that are not named stay as they are.
    assert!(editors.setup(&["zed", "codex"]).contains("already"));
    let said = editors.setup(&["zed", "codex", "--no-record"]);
    assert!(
        said.contains("the options of \"codex\" were changed") && said.contains("not recorded"),
        "{said}"
    );
    let without = arguments(&format!("\"bridge\", \"--permissions\", \"{rules}\", "));
    assert!(editors.read("zed").contains(&without), "{}", editors.read("zed"));
    editors.setup(&["zed", "codex", "--undo"]);
    assert_eq!(editors.read("zed"), ZED, "as it was before the first change");
    for (arguments, problem) in [
        (&["--permissions", "/no/such/rules.toml"][..], "rules.toml"),
        (&["--record", "--no-record"], "cannot be used with"),
        (&["--hub", "wss://home.example", "--record"], "cannot be used with"),
        (&["--hub", "home.example"], "is not the address of a hub"),
        (&["--token-file", "/t"], "--hub"),
        (&["--hub", "wss://home.example", "--token-file", "/no/such/token"], "cannot find /no/such/token"),
        (&["--write", "/tmp/x"], "is not configured by code"),
    ] {
        let run = editors.home.run(&[&["setup", "zed", "codex"], arguments].concat());
        assert!(run.code == 2 && run.stderr.contains(problem), "{arguments:?}: {}", run.stderr);
    }
    editors.home.place.write("home/rules.toml", "[[rule]]\nnonsense = 1\n");
    let run = editors.home.run(&["setup", "zed", "codex", "--permissions", &rules]);
    assert!(
        run.code == 1 && run.stderr.contains("nonsense"),
        "the agent would not start with them: {}",
        run.stderr
    );
    assert_eq!(editors.read("zed"), ZED);
}

#[test]
fn an_entry_that_was_written_by_hand_keeps_the_name_of_the_program() {
    let editors = Editors::new();
    symlink(US, editors.home.programs().join("switchboard")).unwrap();
    let entry = |arguments: &str| {
        format!(
            "{{\"agent_servers\": {{\"codex\": {{\"command\": \"switchboard\", \"args\": [{arguments}]}}}}}}"
        )
    };
    std::fs::write(editors.file("zed"), entry("\"bridge\", \"codex\"")).unwrap();
    assert!(editors.setup(&["zed", "codex"]).contains("already"));
    editors.setup(&["zed", "codex", "--record"]);
    assert_eq!(editors.read("zed"), entry("\"bridge\", \"--record\", \"codex\""));
    std::fs::write(
        editors.file("zed"),
        entry("\"bridge\", \"codex\"").replace("\"switchboard\"", "\"/old/switchboard\""),
    )
    .unwrap();
    editors.setup(&["zed", "codex"]);
    assert!(!editors.read("zed").contains("/old/switchboard"), "a program that is gone is replaced");
}

#[test]
fn an_agent_at_a_hub_is_added_beside_the_editors_own() {
    let editors = Editors::new();
    let token = editors.home.place.write("home/token", "secret-of-the-hub").canonicalize().unwrap();
    let token = token.display().to_string();
    let hub = ["--hub", "wss://home.example", "--token-file", &token];
    let said = editors.setup(&[&["zed", "codex"][..], &hub].concat());
    assert!(said.contains("\"codex\" was added"), "the editor's is \"Codex\": {said}");
    let entry =
        format!("\"args\": [\"connect\", \"wss://home.example/acp/codex\", \"--token-file\", \"{token}\"]");
    let file = editors.read("zed");
    assert!(file.contains(&entry) && file.contains("\"command\": \"npx\""), "{file}");
    assert!(!file.contains("secret-of-the-hub"));
    assert!(editors.setup(&["zed"]).contains("at a hub: wss://home.example/acp/codex\n"));
    // Here the name still means the agent of this machine.
    let agents = editors.home.run(&["agents", "--json"]).stdout;
    assert!(!agents.contains("home.example"), "{agents}");
    assert!(editors.setup(&[&["zed", "codex"][..], &hub].concat()).contains("already"));
    editors.setup(&["zed", "codex", "--hub", "https://other.example/switch/"]);
    assert!(editors.read("zed").contains("[\"connect\", \"https://other.example/switch/acp/codex\"]"));
    editors.setup(&["zed", "codex", "--undo"]);
    assert_eq!(editors.read("zed"), ZED);
    // Code and scripts have it too.
    let code = editors.setup(&[&["avante", "codex"][..], &hub].concat());
    assert!(
        code.contains("args = { \"connect\", \"wss://home.example/acp/codex\", \"--token-file\","),
        "{code}"
    );
}

#[test]
fn the_extension_of_vs_code_and_its_relatives_is_configured() {
    let editors = Editors::new();
    editors.home.install_demo("qwen");
    assert!(editors.setup(&["vscode"]).contains("not found"));
    let home = editors.home.place.home();
    for program in [".vscode", ".local/share/code-server"] {
        std::fs::create_dir_all(home.join(program).join("extensions/formulahendry.acp-client-0.2.0"))
            .unwrap();
    }
    let settings = "{\n    // mine\n    \"editor.fontSize\": 13,\n    \"acp.agents\": {\n        \"Qwen\": { \"command\": \"npx\", \"args\": [\"@qwen-code/qwen-code@latest\", \"--acp\"] },\n    },\n}\n";
    editors.home.place.write("home/.config/Code/User/settings.json", settings);
    let said = editors.setup(&["vscode", "qwen"]);
    assert_eq!(said.matches("to undo it").count(), 2, "both have the extension: {said}");
    let read = |file: &str| std::fs::read_to_string(home.join(file)).unwrap();
    let changed = read(".config/Code/User/settings.json");
    assert!(
        changed.contains("\"bridge\", \"--record\", \"--\", \"npx\", \"@qwen-code/qwen-code@latest\""),
        "{changed}"
    );
    let new = read(".local/share/code-server/User/settings.json");
    assert!(new.starts_with("{\n  \"acp.agents\": {\n    \"qwen\": {"), "{new}");
    editors.setup(&["vscode", "qwen", "--undo"]);
    assert_eq!(read(".config/Code/User/settings.json"), settings);
    assert!(!home.join(".local/share/code-server/User/settings.json").exists());
}

#[test]
fn an_editor_never_depends_on_the_cache_of_a_package_runner() {
    let editors = Editors::new();
    let home = editors.home.place.home();
    let cached = home.join(".npm/_npx/0123/node_modules/@switchboard-acp/linux-x64/bin/switchboard");
    std::fs::create_dir_all(cached.parent().unwrap()).unwrap();
    if std::fs::hard_link(US, &cached).is_err() {
        std::fs::copy(US, &cached).unwrap();
    }
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&cached);
        command.args(arguments).current_dir(&home).env("PATH", editors.home.programs());
        editors.home.place.run_command(alike(command, &editors.home.command(&[])))
    };
    let refused = run(&["setup", "zed", "codex"]);
    assert!(refused.code == 2 && refused.stderr.contains("is in a cache"), "{}", refused.stderr);
    let patch = run(&["setup", "zed", "codex", "--dry-run"]);
    let copies = |text: &str| text.contains("switchboard/bin/switchboard\"");
    assert!(patch.code == 0 && copies(&patch.stdout), "{}{}", patch.stdout, patch.stderr);
    assert_eq!(editors.read("zed"), ZED);
    let done = run(&["setup", "zed", "codex", "--yes"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let file = editors.read("zed");
    assert!(copies(&file) && !file.contains("_npx"), "{file}");
    let copy = file.split('"').find(|word| word.ends_with("switchboard/bin/switchboard")).unwrap();
    let version = Command::new(copy).arg("--version").output().unwrap();
    assert!(version.status.success(), "{version:?}");
    // A file that names the cache is a problem.
    std::fs::write(editors.file("zed"), file.replace(copy, &cached.display().to_string())).unwrap();
    let doctor = editors.home.run(&["doctor", "--no-agents"]);
    assert!(doctor.stdout.contains("is in a cache that is emptied"), "{}", doctor.stdout);
    std::fs::write(editors.file("zed"), file.replace(copy, "/gone/switchboard")).unwrap();
    let doctor = editors.home.run(&["doctor", "--no-agents"]);
    assert!(doctor.stdout.contains("/gone/switchboard, which starts \"Codex\""), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("fix: switchboard setup zed Codex"), "{}", doctor.stdout);
}

#[test]
fn clients_that_look_on_the_path_find_a_script() {
    let home = EmptyHome::new();
    let run = home.run(&["setup", "path", "claude"]);
    assert!(run.code == 2 && run.stderr.contains("is not on the PATH"), "{}", run.stderr);
    home.install_demo("claude-agent-acp");
    home.install("goose", "echo \"goose itself: $*\"");
    for agent in ["claude", "goose"] {
        let run = home.run(&["setup", "path", agent]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stdout.contains("shims:$PATH\" jupyter lab"), "{}", run.stdout);
    }
    let folder = home.run(&["setup", "path", "claude", "--undo", "--dry-run"]).stdout;
    let shims = std::path::Path::new(folder.split(' ').next().unwrap()).parent().unwrap().to_owned();
    // As a client with the scripts first on its PATH. Set up once more there, the script does not lead to itself.
    let path = std::env::join_paths([shims.clone(), home.programs()]).unwrap();
    let mut again = home.command(&["setup", "jupyterlab", "claude", "--no-record"]);
    again.env("PATH", &path);
    assert_eq!(home.place.run_command(again).code, 0);
    let script = std::fs::read_to_string(shims.join("claude-agent-acp")).unwrap();
    assert!(script.contains(" bridge -- ") && !script.contains("/shims/"), "{script}");
    let call = |program: &str, argument: &str, input: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("printf '%s\\n' '{input}' | {program} {argument}")]);
        let mut shell = alike(shell, &home.command(&[]));
        shell.env("PATH", &path);
        home.place.run_command(shell)
    };
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;
    let answer = call("claude-agent-acp", "", initialize);
    assert!(answer.stdout.contains("\"protocolVersion\":1"), "{}{}", answer.stdout, answer.stderr);
    assert_eq!(call("goose", "--version", "").stdout, "goose itself: --version\n");
    let run = home.run(&["setup", "path", "claude", "--undo"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!shims.join("claude-agent-acp").exists() && shims.join("goose").exists());
    // A script of the user's own is left alone.
    std::fs::write(shims.join("claude-agent-acp"), "#!/bin/sh\n# mine\n").unwrap();
    let run = home.run(&["setup", "path", "claude"]);
    assert!(run.code == 2 && run.stderr.contains("was not written by Switchboard"), "{}", run.stderr);
    assert_eq!(home.run(&["setup", "path", "nobody"]).code, 2);
}

#[test]
fn code_is_written_between_marked_lines_and_taken_away() {
    let home = EmptyHome::new();
    let file = home.place.write("home/init.lua", "vim.o.number = true");
    let name = file.display().to_string();
    let run = |more: &[&str]| home.run(&[&["setup", "avante", "claude", "--write", &name], more].concat());
    assert!(run(&["--dry-run"]).stdout.contains("+-- switchboard setup avante claude: begin"));
    for arguments in [&[][..], &["--no-record"]] {
        let run = run(arguments);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("require(\"avante\")").count(), 1, "{text}");
    assert!(text.contains("args = { \"bridge\", \"claude\" }"), "the second call changed it: {text}");
    assert_eq!(run(&["--undo"]).code, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "vim.o.number = true\n");
    assert_eq!(run(&["--undo"]).code, 2, "there is nothing left");
    let several = home.run(&["setup", "neovim", "claude", "--write", &name]);
    assert!(several.code == 2 && several.stderr.contains("name one: "), "{}", several.stderr);
}
