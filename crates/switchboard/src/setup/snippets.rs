//! What to write into the configuration of editors that are configured by code. To edit code would be guessing.

use super::Editor;
use crate::agents;

/// Code for an editor's configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Snippet {
    pub(crate) code: String,
    /// Where it goes.
    pub(crate) place: &'static str,
}

/// The code that lets an editor reach an agent through this program; an error that says why there is none.
pub(crate) fn snippet(editor: Editor, agent: &str, program: &str) -> Result<Snippet, String> {
    let agent = agents::find(agent).map_or(agent, |known| known.name);
    let (program, name) = (quoted(program), quoted(agent));
    match editor {
        Editor::CodeCompanion => {
            let adapter = match agent {
                "claude" => "claude_code",
                "gemini" => "gemini_cli",
                "codex" => "codex",
                "opencode" => "opencode",
                "goose" => "goose",
                "kimi" => "kimi_cli",
                "auggie" => "auggie_cli",
                other => return Err(format!("CodeCompanion is not known to have an adapter for {other}")),
            };
            Ok(Snippet {
                code: format!(
                    "require(\"codecompanion\").setup({{\n  adapters = {{\n    acp = {{\n      {adapter} = function()\n        \
                     return require(\"codecompanion.adapters\").extend(\"{adapter}\", {{\n          \
                     commands = {{ default = {{ {program}, \"bridge\", {name} }} }},\n        }})\n      end,\n    }},\n  }},\n}})\n"
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
            Ok(Snippet {
                code: format!(
                    "require(\"{module}\").setup({{\n  provider = \"{provider}\",\n  acp_providers = {{\n    [\"{provider}\"] = {{\n      \
                     command = {program},\n      args = {{ \"bridge\", {name} }},\n    }},\n  }},\n}})\n"
                ),
                place: "where the plugin is set up: ~/.config/nvim/init.lua, or the plugin's own file; with lazy.nvim, the \
                        table goes into `opts`",
            })
        }
        Editor::AgentShell => {
            let variable = match agent {
                "claude" => "agent-shell-anthropic-claude-acp-command",
                "codex" => "agent-shell-openai-codex-acp-command",
                "gemini" => "agent-shell-google-gemini-acp-command",
                "goose" => "agent-shell-goose-acp-command",
                "opencode" => "agent-shell-opencode-acp-command",
                "copilot" => "agent-shell-github-acp-command",
                "pi" => "agent-shell-pi-acp-command",
                other => return Err(format!("agent-shell is not known to have a variable for {other}")),
            };
            Ok(Snippet {
                code: format!("(setq {variable}\n      '({program} \"bridge\" {name}))\n"),
                place: "behind the line that loads agent-shell: ~/.emacs.d/init.el, ~/.config/emacs/init.el or \
                        ~/.config/doom/config.el",
            })
        }
        Editor::Zed | Editor::JetBrains | Editor::Obsidian => Err("it is configured by a file".to_owned()),
    }
}

/// A text as Lua and Emacs Lisp both write it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
