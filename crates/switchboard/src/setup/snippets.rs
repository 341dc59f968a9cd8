//! Configuration snippets for editors that are configured by code, which cannot be edited reliably.

use super::Editor;
use super::command_line::CommandLine;
use crate::agents;

/// Code for an editor's configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Snippet {
    pub(crate) code: String,
    /// The place where it belongs.
    pub(crate) place: &'static str,
}

/// CodeCompanion's adapters by our agent names.
const CODECOMPANION: &[(&str, &str)] = &[
    ("auggie", "auggie_cli"),
    ("cagent", "cagent"),
    ("claude", "claude_code"),
    ("cline", "cline_cli"),
    ("codex", "codex"),
    ("copilot", "copilot_acp"),
    ("cursor", "cursor_cli"),
    ("gemini", "gemini_cli"),
    ("goose", "goose"),
    ("kilocode", "kilocode"),
    ("kimi", "kimi_cli"),
    ("kiro", "kiro"),
    ("opencode", "opencode"),
    ("vibe", "mistral_vibe"),
];
/// The CodeCompanion adapter on which others are based: it sends no login of its own.
const PLAIN_ADAPTER: &str = "opencode";

/// agent-shell's names in `agent-shell-NAME-acp-command` by our agent names.
const AGENT_SHELL: &[(&str, &str)] = &[
    ("antigravity", "antigravity"),
    ("auggie", "auggie"),
    ("claude", "anthropic-claude"),
    ("cline", "cline"),
    ("codebuddy", "codebuddy"),
    ("codex", "openai-codex"),
    ("copilot", "github"),
    ("cursor", "cursor"),
    ("droid", "droid"),
    ("gemini", "google-gemini"),
    ("goose", "goose"),
    ("grok-build", "xai"),
    ("hermes", "hermes"),
    ("junie", "junie"),
    ("kimi", "kimi"),
    ("kiro", "kiro"),
    ("omp", "omp"),
    ("opencode", "opencode"),
    ("pi", "pi"),
    ("qoder", "qoder"),
    ("qwen", "qwen"),
    ("vibe", "mistral"),
];

/// The ports by which marimo's page finds its agents, by our agent names.
const MARIMO: &[(&str, &str)] =
    &[("claude", "3017"), ("codex", "3021"), ("cursor", "3025"), ("gemini", "3019"), ("opencode", "3023")];

/// Returns the name of an agent in a table.
fn named_in(table: &[(&str, &'static str)], agent: &str) -> Option<&'static str> {
    table.iter().find(|(ours, _)| *ours == agent).map(|(_, theirs)| *theirs)
}

/// Returns the code that lets an editor reach an agent by a command line of this program. Fails with the reason.
pub(crate) fn snippet(
    editor: Editor,
    agent: &str,
    program: &str,
    line: &CommandLine,
) -> Result<Snippet, String> {
    let words: Vec<String> = std::iter::once(program.to_owned()).chain(line.arguments()).collect();
    let (program, name) = (quoted(program), quoted(agent));
    let arguments: Vec<String> = line.arguments().iter().map(|word| quoted(word)).collect();
    let agent = agents::find(agent).map_or(agent, |known| known.name);
    match editor {
        Editor::CodeCompanion => {
            let known = named_in(CODECOMPANION, agent);
            let base = known.unwrap_or(PLAIN_ADAPTER);
            let (key, called) = match known {
                Some(adapter) => (adapter.to_owned(), String::new()),
                None => (
                    format!("[{name}]"),
                    format!("name = {name},\n          formatted_name = {name},\n          "),
                ),
            };
            Ok(Snippet {
                code: format!(
                    "require(\"codecompanion\").setup({{\n  adapters = {{\n    acp = {{\n      {key} = function()\n        \
                     return require(\"codecompanion.adapters\").extend(\"{base}\", {{\n          \
                     {called}commands = {{ default = {{ {program}, {} }} }},\n        }})\n      end,\n    }},\n  }},\n}})\n",
                    arguments.join(", ")
                ),
                place: "where codecompanion is set up: ~/.config/nvim/init.lua, or the plugin's own file; with lazy.nvim, \
                        the table goes into `opts`",
            })
        }
        Editor::Avante | Editor::Agentic => {
            let (module, provider) = match (editor, agent) {
                (Editor::Avante, "claude") => ("avante", "claude-code"),
                (Editor::Avante, "gemini") => ("avante", "gemini-cli"),
                (Editor::Avante, "kimi") => ("avante", "kimi-cli"),
                (Editor::Avante, other) => ("avante", other),
                (_, "claude") => ("agentic", "claude-agent-acp"),
                (_, "codex") => ("agentic", "codex-acp"),
                (_, "gemini") => ("agentic", "gemini-acp"),
                (_, "opencode") => ("agentic", "opencode-acp"),
                (_, other) => ("agentic", other),
            };
            let provider = quoted(provider);
            Ok(Snippet {
                code: format!(
                    "require(\"{module}\").setup({{\n  provider = {provider},\n  acp_providers = {{\n    [{provider}] = {{\n      \
                     command = {program},\n      args = {{ {} }},\n    }},\n  }},\n}})\n",
                    arguments.join(", ")
                ),
                place: "where the plugin is set up: ~/.config/nvim/init.lua, or the plugin's own file; with lazy.nvim, the \
                        table goes into `opts`",
            })
        }
        Editor::AgentShell => {
            let Some(theirs) = named_in(AGENT_SHELL, agent) else {
                return Err(format!("agent-shell has no variable for the command of {agent}"));
            };
            Ok(Snippet {
                code: format!(
                    "(setq agent-shell-{theirs}-acp-command\n      '({program} {}))\n",
                    arguments.join(" ")
                ),
                place: "after the line that loads agent-shell: ~/.emacs.d/init.el, ~/.config/emacs/init.el or \
                        ~/.config/doom/config.el",
            })
        }
        Editor::Marimo => {
            let Some(port) = named_in(MARIMO, agent) else {
                let known: Vec<&str> = MARIMO.iter().map(|(name, _)| *name).collect();
                return Err(format!("marimo has no port for {agent}, only for {}", known.join(", ")));
            };
            // The relay splits its argument into words, and a shell reads the argument before.
            if let Some(word) = words.iter().find(|word| word.contains(['"', '\'', '$', '`', '\\', '\n'])) {
                return Err(format!("the relay of marimo cannot pass on {}", quoted(word)));
            }
            let word = |word: &String| if word.contains(' ') { format!("'{word}'") } else { word.clone() };
            let words: Vec<String> = words.iter().map(word).collect();
            Ok(Snippet {
                code: format!("npx stdio-to-ws@0.2.0 \"{}\" --port {port}\n", words.join(" ")),
                place: "into a terminal, and let it run while marimo is open; set `external_agents = true` below `[experimental]` in \
                        ~/.config/marimo/marimo.toml. Any page in your browser can connect to the port: end the command \
                        with marimo",
            })
        }
        Editor::Zed | Editor::JetBrains | Editor::VsCode | Editor::Obsidian | Editor::Jupyter => {
            Err(format!("{} is not configured by code", editor.title()))
        }
    }
}

/// Returns a text with code added between two marked lines, in place of the code that an earlier call added for the same
/// editor and agent.
pub(crate) fn with_code(text: &str, editor: Editor, agent: &str, code: &str) -> String {
    let (begin, end) = marks(editor, agent);
    let mut text = without_code(text, editor, agent).unwrap_or_else(|| text.to_owned());
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    format!("{text}{begin}\n{}\n{end}\n", code.trim_end())
}

/// Returns a text without the code that was added for an editor and agent. `None` if it has none.
pub(crate) fn without_code(text: &str, editor: Editor, agent: &str) -> Option<String> {
    let (begin, end) = marks(editor, agent);
    let (mut rest, mut is_inside, mut is_found) = (String::new(), false, false);
    for line in text.split_inclusive('\n') {
        match line.trim_end() {
            line if line == begin => is_inside = true,
            line if line == end && is_inside => (is_inside, is_found) = (false, true),
            _ if is_inside => {}
            _ => rest.push_str(line),
        }
    }
    // Without its end, nothing can be told from the user's own code.
    (is_found && !is_inside).then_some(rest)
}

/// Returns the lines before and after code that was added, as comments in the language of the editor.
fn marks(editor: Editor, agent: &str) -> (String, String) {
    let comment = if editor == Editor::AgentShell { ";;" } else { "--" };
    let agent = agent.replace(['\n', '\r'], " ");
    let what = format!("switchboard setup {} {agent}", editor.name());
    (format!("{comment} {what}: begin"), format!("{comment} {what}: end"))
}

/// Quotes a text for both Lua and Emacs Lisp.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::super::command_line::{BridgeLine, BridgeOptions};
    use super::*;

    /// Code for the bridge, without options.
    fn snippet(editor: Editor, agent: &str, program: &str) -> Result<Snippet, String> {
        let options = BridgeOptions { record: Some(false), permissions: None };
        let line = CommandLine::Bridge(BridgeLine::of_name(agent, &options));
        super::snippet(editor, agent, program, &line)
    }

    #[test]
    fn code_is_added_once_and_taken_away_without_the_rest() {
        let before = "require(\"x\")";
        let one = with_code(before, Editor::Avante, "codex", "one\n");
        assert_eq!(
            one,
            "require(\"x\")\n-- switchboard setup avante codex: begin\none\n-- switchboard setup avante codex: end\n"
        );
        let changed = format!("{one}more\n");
        let two = with_code(&changed, Editor::Avante, "codex", "two");
        assert!(!two.contains("one\n") && two.starts_with("require(\"x\")\nmore\n"), "{two}");
        assert_eq!(without_code(&two, Editor::Avante, "codex").unwrap(), "require(\"x\")\nmore\n");
        assert_eq!(without_code(&two, Editor::Avante, "gemini"), None);
        let torn = one.replace("-- switchboard setup avante codex: end\n", "mine\n");
        assert_eq!(without_code(&torn, Editor::Avante, "codex"), None, "the user's own code stays");
    }

    #[test]
    fn code_names_the_bridge_and_the_agent() {
        for editor in [Editor::CodeCompanion, Editor::Avante, Editor::Agentic, Editor::AgentShell] {
            for agent in ["claude-code", "codex", "gemini", "goose"] {
                let code = snippet(editor, agent, "/a b/switch\"board").unwrap().code;
                assert!(code.contains(r#""/a b/switch\"board""#) && code.contains("\"bridge\""), "{code}");
                let count = |character| code.matches(character).count();
                assert_eq!((count('('), count('{')), (count(')'), count('}')), "{code}");
            }
        }
        let emacs = snippet(Editor::AgentShell, "codex", "/bin/switchboard").unwrap().code;
        assert_eq!(
            emacs,
            "(setq agent-shell-openai-codex-acp-command\n      '(\"/bin/switchboard\" \"bridge\" \"codex\"))\n"
        );
        assert!(snippet(Editor::AgentShell, "mcode", "x").is_err());
    }

    #[test]
    fn every_adapter_of_codecompanion_and_every_variable_of_agent_shell_is_known() {
        // As of codecompanion.nvim f1afd02 and agent-shell 0.79.2.
        let adapters = "auggie_cli cagent claude_code cline_cli codex copilot_acp cursor_cli gemini_cli goose kilocode \
                        kimi_cli kiro mistral_vibe opencode";
        let variables = "anthropic-claude antigravity auggie cline codebuddy cursor droid github google-gemini goose hermes \
                         junie kimi kiro mistral omp openai-codex opencode pi qoder qwen xai";
        for (table, theirs) in [(CODECOMPANION, adapters), (AGENT_SHELL, variables)] {
            let mut known: Vec<&str> = table.iter().map(|(_, theirs)| *theirs).collect();
            known.sort_unstable();
            assert_eq!(known, theirs.split_whitespace().collect::<Vec<_>>());
            assert!(table.is_sorted());
            for (ours, _) in table.iter().filter(|(ours, _)| *ours != "cagent") {
                assert_eq!(agents::find(ours).map(|known| known.name), Some(*ours), "a known agent");
            }
        }
        for (ours, theirs) in AGENT_SHELL {
            let code = snippet(Editor::AgentShell, ours, "sb").unwrap().code;
            assert!(code.starts_with(&format!("(setq agent-shell-{theirs}-acp-command\n")), "{code}");
        }
        let code = |agent| snippet(Editor::CodeCompanion, agent, "sb").unwrap().code;
        assert!(code("mistral-vibe").contains("mistral_vibe = function()\n        return require(\"codecompanion.adapters\").extend(\"mistral_vibe\", {"));
        // Any other agent gets an adapter of its own.
        let made = code("fast-agent");
        for part in [
            "[\"fast-agent\"] = function()",
            "extend(\"opencode\", {",
            "name = \"fast-agent\",",
            "\"bridge\", \"fast-agent\"",
        ] {
            assert!(made.contains(part), "{part} in {made}");
        }
    }

    #[test]
    fn marimo_gets_the_command_of_a_relay_at_the_port_of_the_agent() {
        let code = |agent| snippet(Editor::Marimo, agent, "/usr/bin/switchboard").map(|snippet| snippet.code);
        assert_eq!(
            code("claude-code").unwrap(),
            "npx stdio-to-ws@0.2.0 \"/usr/bin/switchboard bridge claude-code\" --port 3017\n"
        );
        assert!(code("gemini").unwrap().ends_with("--port 3019\n"));
        assert!(code("goose").unwrap_err().contains("only for claude, codex, cursor, gemini, opencode"));
        let spaced = snippet(Editor::Marimo, "claude", "/a b/switchboard").unwrap().code;
        assert!(spaced.contains("\"'/a b/switchboard' bridge claude\""), "{spaced}");
        assert!(snippet(Editor::Marimo, "claude", "/a$(b)/switchboard").is_err());
    }

    #[test]
    fn a_name_stays_within_its_quotes() {
        for editor in [Editor::CodeCompanion, Editor::Avante, Editor::Agentic] {
            let code = snippet(editor, "a\"] = x, [\"b\n", "sb").unwrap().code;
            assert!(!code.contains("a\"]") && code.contains("a\\\"] = x, [\\\"b\\n"), "{code}");
        }
    }
}
