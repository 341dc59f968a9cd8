//! The known agents as data, one entry per agent.
//!
//! Names and command lines are those of published clients. Versions and peculiarities were observed by
//! running the agent, and are only stated if they were. The needs in a sandbox of an agent without a version are
//! unverified: if a path or host is missing, the agent does not work there until the rules add it.

use super::{KnownAgent, Package, Runner, SandboxNeeds};

/// Defaults of an entry.
const DEFAULTS: KnownAgent = KnownAgent {
    name: "",
    aliases: &[],
    title: "",
    commands: &[],
    needs: &[],
    package: None,
    install: "",
    login: "",
    versions: &[],
    seen: "",
    notes: &[],
    sandbox: SandboxNeeds::NONE,
};

const fn npx(name: &'static str, arguments: &'static [&'static str]) -> Option<Package> {
    Some(Package { runner: Runner::Npx, name, arguments })
}

const fn uvx(name: &'static str, arguments: &'static [&'static str]) -> Option<Package> {
    Some(Package { runner: Runner::Uvx, name, arguments })
}

/// All known agents by name.
pub(super) const KNOWN: &[KnownAgent] = &[
    KnownAgent {
        name: "antigravity",
        title: "Google Antigravity",
        commands: &[&["agy_acp_server.par", "--uid="]],
        install: "install Antigravity from https://antigravity.google and put its ACP server on the PATH",
        login: "sign in with a Google account in Antigravity itself",
        sandbox: SandboxNeeds {
            state: &[".antigravity", ".gemini/antigravity"],
            settings: &[".antigravity/argv.json"],
            hosts: &["cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "accounts.google.com"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "auggie",
        aliases: &["augment"],
        title: "Auggie CLI",
        commands: &[&["auggie", "--acp"]],
        package: npx("@augmentcode/auggie", &["--acp"]),
        install: "npm install -g @augmentcode/auggie",
        login: "auggie login",
        sandbox: SandboxNeeds {
            state: &[".augment"],
            settings: &[".augment/settings.json", ".augment/commands", ".augment/rules"],
            hosts: &["augmentcode.com", "*.augmentcode.com"],
            env: &["AUGMENT_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "claude",
        aliases: &["claude-code", "claude-acp", "claude-agent-acp", "claude-code-acp"],
        title: "Claude Code",
        commands: &[&["claude-agent-acp"], &["claude-code-acp"]],
        package: npx("@agentclientprotocol/claude-agent-acp", &[]),
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
        login: "run `claude` and /login, or set ANTHROPIC_API_KEY",
        versions: &[1, 2],
        seen: "0.99",
        notes: &[
            "version 2 in the newest dialect",
            "the status of a tool call stays pending until it is completed",
            "diffs of version 1 are fragments of the file",
        ],
        sandbox: SandboxNeeds {
            state: &[".claude", ".claude.json"],
            settings: &[
                ".claude/settings.json",
                ".claude/settings.local.json",
                // The program, if it was installed there, and scripts that the settings usually name.
                ".claude/local",
                ".claude/bin",
                ".claude/scripts",
                ".claude/statusline.sh",
                ".claude/statusline-command.sh",
                ".claude/hooks",
                ".claude/plugins",
                ".claude/agents",
                ".claude/commands",
                ".claude/skills",
            ],
            hosts: &[
                "api.anthropic.com",
                "console.anthropic.com",
                "platform.claude.com",
                "claude.ai",
                "claude.com",
            ],
            env: &["ANTHROPIC_*", "CLAUDE_CODE_OAUTH_TOKEN"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "cline",
        title: "Cline",
        commands: &[&["cline", "--acp"]],
        package: npx("cline", &["--acp"]),
        install: "npm install -g cline",
        login: "cline auth",
        sandbox: SandboxNeeds {
            state: &[".cline"],
            settings: &[".cline/hooks", ".cline/rules"],
            hosts: &["api.cline.bot", "app.cline.bot"],
            env: &["CLINE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "codebuddy",
        title: "CodeBuddy",
        commands: &[&["codebuddy", "--acp"]],
        install: "see https://www.codebuddy.ai/cli",
        login: "run `codebuddy` and sign in",
        sandbox: SandboxNeeds {
            state: &[".codebuddy"],
            settings: &[
                ".codebuddy/settings.json",
                ".codebuddy/plugins",
                ".codebuddy/commands",
                ".codebuddy/skills",
            ],
            hosts: &["www.codebuddy.ai", "copilot.tencent.com"],
            env: &["CODEBUDDY_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "codex",
        aliases: &["codex-acp"],
        title: "Codex",
        commands: &[&["codex-acp"]],
        package: npx("@agentclientprotocol/codex-acp", &[]),
        install: "npm install -g @agentclientprotocol/codex-acp",
        login: "codex login, or set OPENAI_API_KEY",
        versions: &[1, 2],
        seen: "2.6",
        notes: &[
            "version 2 in the newest dialect",
            "a permission that is refused ends the turn as cancelled",
            "does not exit when its input closes: it is ended",
        ],
        sandbox: SandboxNeeds {
            state: &[".codex"],
            settings: &[
                ".codex/config.toml",
                ".codex/rules",
                ".codex/hooks.json",
                ".codex/hooks",
                ".codex/plugins",
                ".codex/skills",
                ".codex/bin",
                ".codex/.env",
            ],
            hosts: &["api.openai.com", "auth.openai.com", "chatgpt.com"],
            env: &["OPENAI_API_KEY", "CODEX_*"],
            nests: true,
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "copilot",
        aliases: &["github-copilot", "github-copilot-cli"],
        title: "GitHub Copilot CLI",
        commands: &[&["copilot", "--acp", "--stdio"]],
        package: npx("@github/copilot", &["--acp", "--stdio"]),
        install: "npm install -g @github/copilot",
        login: "run `copilot` and /login, or set GH_TOKEN",
        sandbox: SandboxNeeds {
            state: &[".copilot"],
            settings: &[".copilot/mcp-config.json", ".copilot/agents", ".copilot/hooks", ".copilot/skills"],
            hosts: &["github.com", "api.github.com", "api.githubcopilot.com", "*.githubcopilot.com"],
            env: &["GH_TOKEN", "GITHUB_TOKEN", "COPILOT_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "cursor",
        aliases: &["cursor-agent"],
        title: "Cursor",
        commands: &[&["cursor-agent", "acp"]],
        install: "see https://cursor.com/cli",
        login: "cursor-agent login",
        sandbox: SandboxNeeds {
            state: &[".cursor", ".config/cursor"],
            settings: &[
                ".cursor/mcp.json",
                ".cursor/hooks.json",
                ".cursor/hooks",
                ".cursor/rules",
                ".cursor/commands",
            ],
            hosts: &["cursor.com", "*.cursor.com", "*.cursor.sh"],
            env: &["CURSOR_API_KEY"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "devin",
        title: "Devin",
        commands: &[&["devin", "acp"]],
        install: "see https://devin.ai",
        login: "sign in with the program itself",
        sandbox: SandboxNeeds {
            state: &[".config/devin", ".local/share/devin"],
            settings: &[".config/devin"],
            hosts: &["api.devin.ai", "app.devin.ai"],
            env: &["DEVIN_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "droid",
        aliases: &["factory-droid", "factory"],
        title: "Factory Droid",
        commands: &[&["droid", "exec", "--output-format", "acp"]],
        package: npx("@factory/cli", &["exec", "--output-format", "acp"]),
        install: "npm install -g @factory/cli",
        login: "run `droid` and sign in, or set FACTORY_API_KEY",
        sandbox: SandboxNeeds {
            state: &[".factory"],
            settings: &[
                ".factory/settings.json",
                ".factory/mcp.json",
                ".factory/hooks",
                ".factory/commands",
                ".factory/droids",
                ".factory/skills",
                ".factory/plugins",
                ".factory/bin",
            ],
            hosts: &["api.factory.ai", "app.factory.ai"],
            env: &["FACTORY_API_KEY"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "elizacp",
        title: "Eliza",
        commands: &[&["elizacp", "acp"]],
        install: "cargo install elizacp",
        login: "needs none: it has no model",
        versions: &[1],
        seen: "12.0",
        notes: &[
            "answers any version with its own number, and speaks version 1",
            "sends errors without an id",
            "does not exit when its input closes: it is ended",
        ],
        ..DEFAULTS
    },
    KnownAgent {
        name: "fast-agent",
        aliases: &["fast-agent-acp"],
        title: "fast-agent",
        commands: &[&["fast-agent-acp"]],
        package: uvx("fast-agent-mcp", &["acp"]),
        install: "uv tool install fast-agent-mcp",
        login: "set the key of a provider, such as ANTHROPIC_API_KEY; `--model passthrough` needs none",
        versions: &[1],
        seen: "0.10",
        notes: &[
            "answers any version with its own number, and speaks version 1",
            "needs a new Python (3.13)",
        ],
        sandbox: SandboxNeeds {
            state: &[".fast-agent"],
            settings: &[".fast-agent/fastagent.config.yaml"],
            env: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "fx",
        title: "fx",
        commands: &[&["fx", "acp"]],
        install: "put the agent's program `fx` on the PATH; mind that a JSON viewer has that name, too",
        login: "sign in with the program itself",
        ..DEFAULTS
    },
    KnownAgent {
        name: "gemini",
        aliases: &["gemini-cli"],
        title: "Gemini CLI",
        commands: &[&["gemini", "--acp"]],
        package: npx("@google/gemini-cli", &["--acp"]),
        install: "npm install -g @google/gemini-cli",
        login: "run `gemini` once and sign in, or set GEMINI_API_KEY",
        versions: &[1],
        seen: "0.61",
        notes: &[
            "older programs call the option --experimental-acp",
            "asks permission for tool calls that it never announced",
            "says that it can load sessions, and fails to",
        ],
        sandbox: SandboxNeeds {
            state: &[".gemini"],
            settings: &[
                ".gemini/settings.json",
                ".gemini/trustedFolders.json",
                ".gemini/.env",
                ".gemini/extensions",
                ".gemini/commands",
                ".gemini/hooks",
                ".gemini/policies",
                ".gemini/skills",
            ],
            hosts: &[
                "generativelanguage.googleapis.com",
                "cloudcode-pa.googleapis.com",
                "oauth2.googleapis.com",
                "www.googleapis.com",
                "accounts.google.com",
            ],
            env: &["GEMINI_API_KEY", "GOOGLE_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "goose",
        title: "goose",
        commands: &[&["goose", "acp"]],
        package: npx("@aaif/goose-acp", &["acp"]),
        install: "npm install -g @aaif/goose-acp, or see https://block.github.io/goose",
        login: "goose configure",
        versions: &[1],
        seen: "1.34",
        notes: &[
            "answers any version with its own number, and speaks version 1",
            "a cancelled turn ends as if it were finished",
            "sends errors without an id",
            "does not exit when its input closes: it is ended",
        ],
        sandbox: SandboxNeeds {
            state: &[".config/goose", ".local/share/goose", ".local/state/goose"],
            settings: &[".config/goose"],
            set: &[("GOOSE_DISABLE_KEYRING", "1")],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "grok-build",
        aliases: &["grok"],
        title: "Grok Build",
        commands: &[&["grok", "agent", "stdio"]],
        install: "see https://x.ai",
        login: "run `grok` and sign in, or set XAI_API_KEY",
        sandbox: SandboxNeeds {
            state: &[".grok"],
            settings: &[".grok/config.toml", ".grok/hooks", ".grok/skills", ".grok/plugins"],
            hosts: &["api.x.ai", "accounts.x.ai", "auth.x.ai"],
            env: &["XAI_API_KEY", "GROK_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "hermes",
        aliases: &["hermes-agent"],
        title: "Hermes",
        commands: &[&["hermes-acp"], &["hermes", "acp"]],
        install: "uv tool install \"hermes-agent[acp]\"",
        login: "hermes setup",
        sandbox: SandboxNeeds {
            state: &[".hermes"],
            settings: &[".hermes/config.yaml", ".hermes/.env", ".hermes/hooks", ".hermes/plugins"],
            env: &["HERMES_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "iflow",
        aliases: &["iflow-cli"],
        title: "iFlow CLI",
        commands: &[&["iflow", "--experimental-acp"]],
        install: "see https://platform.iflow.cn",
        login: "run `iflow` and sign in",
        sandbox: SandboxNeeds {
            state: &[".iflow"],
            settings: &[".iflow/settings.json", ".iflow/commands", ".iflow/hooks"],
            hosts: &["iflow.cn", "*.iflow.cn"],
            env: &["IFLOW_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "junie",
        aliases: &["junie-acp"],
        title: "Junie",
        commands: &[&["junie", "--acp=true"]],
        package: npx("@jetbrains/junie", &["--acp=true"]),
        install: "npm install -g @jetbrains/junie",
        login: "run `junie` and sign in with a JetBrains account",
        sandbox: SandboxNeeds {
            state: &[".junie"],
            settings: &[".junie/mcp", ".junie/commands", ".junie/skills"],
            hosts: &["*.jetbrains.ai", "account.jetbrains.com", "oauth.account.jetbrains.com"],
            env: &["JUNIE_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "kilocode",
        aliases: &["kilo"],
        title: "Kilo Code",
        commands: &[&["kilo", "acp"], &["kilocode", "acp"]],
        package: npx("@kilocode/cli", &["acp"]),
        install: "npm install -g @kilocode/cli",
        login: "kilo auth login",
        sandbox: SandboxNeeds {
            state: &[".config/kilo", ".local/share/kilo", ".local/state/kilo"],
            settings: &[".config/kilo"],
            hosts: &["api.kilo.ai", "app.kilo.ai", "models.dev"],
            env: &["KILO_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "kimi",
        aliases: &["kimi-code", "kimi-cli"],
        title: "Kimi Code",
        commands: &[&["kimi", "acp"]],
        package: npx("@moonshot-ai/kimi-code", &["acp"]),
        install: "npm install -g @moonshot-ai/kimi-code",
        login: "run `kimi` and /login",
        sandbox: SandboxNeeds {
            state: &[".kimi", ".kimi-code"],
            settings: &[
                ".kimi/config.toml",
                ".kimi/mcp.json",
                ".kimi-code/config.toml",
                ".kimi-code/mcp.json",
            ],
            hosts: &["api.moonshot.ai", "api.moonshot.cn", "*.kimi.com"],
            env: &["KIMI_*", "MOONSHOT_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "kiro",
        title: "Kiro",
        commands: &[&["kiro-cli-chat", "acp"], &["kiro-cli", "acp"]],
        install: "see https://kiro.dev/cli",
        login: "kiro-cli login",
        sandbox: SandboxNeeds {
            state: &[".kiro", ".local/share/kiro-cli"],
            settings: &[".kiro/settings", ".kiro/agents", ".kiro/hooks", ".kiro/steering"],
            hosts: &["*.kiro.dev"],
            env: &["KIRO_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "mcode",
        title: "MCode",
        commands: &[&["mcode", "acp"]],
        install: "put the agent's program `mcode` on the PATH",
        login: "sign in with the program itself",
        ..DEFAULTS
    },
    KnownAgent {
        name: "mux",
        title: "Mux",
        commands: &[&["mux", "acp"]],
        // The package `mux` on npm is another project.
        install: "see https://github.com/coder/mux",
        login: "set up a provider in Mux itself",
        sandbox: SandboxNeeds {
            state: &[".mux"],
            settings: &[".mux/providers.jsonc", ".mux/config.json"],
            env: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "nanocoder",
        title: "Nanocoder",
        commands: &[&["nanocoder", "--acp"]],
        package: npx("@nanocollective/nanocoder", &["--acp"]),
        install: "npm install -g @nanocollective/nanocoder",
        login: "set up a provider in agents.config.json",
        sandbox: SandboxNeeds {
            state: &[".config/nanocoder", ".local/share/nanocoder"],
            settings: &[".config/nanocoder"],
            env: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "omp",
        aliases: &["oh-my-pi"],
        title: "Oh My Pi",
        commands: &[&["omp", "acp"]],
        install: "bun install -g @oh-my-pi/pi-coding-agent",
        login: "run `omp` and /login",
        notes: &["runs on Bun, not on Node"],
        sandbox: SandboxNeeds {
            state: &[".omp"],
            settings: &[
                ".omp/agent/settings.json",
                ".omp/agent/extensions",
                ".omp/agent/hooks",
                ".omp/agent/tools",
            ],
            env: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "openclaw",
        title: "OpenClaw",
        commands: &[&["openclaw", "acp"]],
        package: npx("openclaw", &["acp"]),
        install: "npm install -g openclaw",
        login: "openclaw onboard",
        sandbox: SandboxNeeds {
            state: &[".openclaw"],
            settings: &[".openclaw/openclaw.json", ".openclaw/skills", ".openclaw/hooks"],
            env: &[
                "OPENCLAW_*",
                "ANTHROPIC_API_KEY",
                "OPENAI_API_KEY",
                "GEMINI_API_KEY",
                "OPENROUTER_API_KEY",
            ],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "opencode",
        title: "OpenCode",
        commands: &[&["opencode", "acp"]],
        package: npx("opencode-ai", &["acp"]),
        install: "npm install -g opencode-ai",
        login: "opencode auth login",
        versions: &[1],
        seen: "1.18",
        notes: &["writes files through the client although the client said that it does not do that"],
        sandbox: SandboxNeeds {
            state: &[".config/opencode", ".local/share/opencode", ".local/state/opencode"],
            // Not the whole folder: opencode writes a .gitignore there at its first start, and fails without it. Language
            // servers that it has downloaded run also outside of a sandbox.
            settings: &[
                ".config/opencode/opencode.json",
                ".config/opencode/opencode.jsonc",
                ".config/opencode/config.json",
                ".config/opencode/AGENTS.md",
                ".config/opencode/agent",
                ".config/opencode/agents",
                ".config/opencode/command",
                ".config/opencode/commands",
                ".config/opencode/mode",
                ".config/opencode/modes",
                ".config/opencode/plugin",
                ".config/opencode/plugins",
                ".config/opencode/skill",
                ".config/opencode/skills",
                ".config/opencode/tool",
                ".config/opencode/tools",
                ".config/opencode/package.json",
                ".config/opencode/node_modules",
                ".local/share/opencode/bin",
            ],
            hosts: &["models.dev", "opencode.ai"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "pi",
        aliases: &["pi-acp"],
        title: "Pi",
        commands: &[&["pi-acp"]],
        needs: &["pi"],
        package: npx("pi-acp", &[]),
        install: "npm install -g @earendil-works/pi-coding-agent pi-acp",
        login: "run `pi` and /login",
        notes: &["needs the program `pi` beside its adapter `pi-acp`"],
        sandbox: SandboxNeeds {
            state: &[".pi"],
            settings: &[
                ".pi/agent/settings.json",
                ".pi/agent/extensions",
                ".pi/agent/hooks",
                ".pi/agent/tools",
                ".pi/agent/skills",
                ".pi/agent/bin",
            ],
            env: &["PI_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "pool",
        aliases: &["poolside"],
        title: "Poolside",
        commands: &[&["pool", "acp"]],
        install: "see https://poolside.ai",
        login: "pool login",
        ..DEFAULTS
    },
    KnownAgent {
        name: "qoder",
        aliases: &["qodercli"],
        title: "Qoder CLI",
        commands: &[&["qodercli", "--acp"]],
        package: npx("@qoder-ai/qodercli", &["--acp"]),
        install: "npm install -g @qoder-ai/qodercli",
        login: "run `qodercli` and /login",
        sandbox: SandboxNeeds {
            state: &[".qoder"],
            settings: &[".qoder/settings.json", ".qoder/agents", ".qoder/commands"],
            hosts: &["qoder.com", "*.qoder.com"],
            env: &["QODER_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "qwen",
        aliases: &["qwen-code"],
        title: "Qwen Code",
        commands: &[&["qwen", "--acp"]],
        package: npx("@qwen-code/qwen-code", &["--acp"]),
        install: "npm install -g @qwen-code/qwen-code",
        login: "run `qwen` and /auth, or set OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL",
        versions: &[1],
        seen: "0.24",
        notes: &["calls methods of its own that no version has, without the _ that marks them"],
        sandbox: SandboxNeeds {
            state: &[".qwen"],
            settings: &[
                ".qwen/settings.json",
                ".qwen/.env",
                ".qwen/extensions",
                ".qwen/commands",
                ".qwen/skills",
                ".qwen/agents",
            ],
            hosts: &[
                "chat.qwen.ai",
                "portal.qwen.ai",
                "dashscope.aliyuncs.com",
                "dashscope-intl.aliyuncs.com",
            ],
            env: &["QWEN_*", "DASHSCOPE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "trae",
        aliases: &["traecli"],
        title: "Trae",
        commands: &[&["traecli", "acp", "serve"]],
        install: "see https://www.trae.ai",
        login: "sign in with the program itself",
        sandbox: SandboxNeeds {
            state: &[".trae"],
            settings: &[".trae/mcp.json", ".trae/rules"],
            hosts: &["www.trae.ai", "*.trae.ai"],
            env: &["TRAE_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "vibe",
        aliases: &["mistral-vibe"],
        title: "Mistral Vibe",
        commands: &[&["vibe-acp"]],
        install: "uv tool install mistral-vibe",
        login: "vibe --setup, or set MISTRAL_API_KEY",
        sandbox: SandboxNeeds {
            state: &[".vibe"],
            settings: &[".vibe/config.toml", ".vibe/.env", ".vibe/tools", ".vibe/agents", ".vibe/skills"],
            hosts: &["api.mistral.ai"],
            env: &["MISTRAL_API_KEY", "VIBE_*"],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
    KnownAgent {
        name: "zeroclaw",
        title: "ZeroClaw",
        commands: &[&["zeroclaw", "acp"]],
        install: "cargo install zeroclaw, or see https://github.com/zeroclaw-labs/zeroclaw",
        login: "zeroclaw onboard",
        sandbox: SandboxNeeds {
            state: &[".zeroclaw"],
            settings: &[".zeroclaw/config.toml", ".zeroclaw/skills"],
            env: &[
                "ZEROCLAW_*",
                "ANTHROPIC_API_KEY",
                "OPENAI_API_KEY",
                "GEMINI_API_KEY",
                "OPENROUTER_API_KEY",
            ],
            ..SandboxNeeds::NONE
        },
        ..DEFAULTS
    },
];
