//! Editors: their locations, agents, and configuration for Switchboard.

pub(crate) mod command_line;
mod entries;
mod own_copy;
mod records;
mod shims;
mod snippets;

use std::path::PathBuf;

use switchboard_transport::Program;

pub(crate) use entries::{Entry, Kind, Shape, rewrite, unwrap, wrap};
pub(crate) use own_copy::{copy_is_old, is_in_cache, our_program};
pub(crate) use records::Record;
pub(crate) use shims::Shim;
pub(crate) use snippets::{Snippet, snippet, with_code, without_code};

use crate::configuration::{configuration_folder, home, read_json};
use crate::outcome::CommandError;

/// An editor, or its plugin that talks to agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Editor {
    Zed,
    JetBrains,
    /// With the extension "ACP Client".
    VsCode,
    Obsidian,
    CodeCompanion,
    Avante,
    Agentic,
    AgentShell,
    /// `JupyterLab`, which finds its agents on the `PATH`.
    Jupyter,
    /// marimo, whose page connects to a port of this machine.
    Marimo,
}

/// Ways to configure an editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfiguredBy {
    /// A file that can be edited.
    File,
    /// Code, which is printed.
    Code,
    /// A program on the `PATH`.
    Shim,
    /// A command that runs beside the editor, which is printed.
    Relay,
}

impl Editor {
    pub(crate) const ALL: [Editor; 10] = [
        Editor::Zed,
        Editor::JetBrains,
        Editor::VsCode,
        Editor::Obsidian,
        Editor::CodeCompanion,
        Editor::Avante,
        Editor::Agentic,
        Editor::AgentShell,
        Editor::Jupyter,
        Editor::Marimo,
    ];

    /// Returns its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Editor::Zed => "zed",
            Editor::JetBrains => "jetbrains",
            Editor::VsCode => "vscode",
            Editor::Obsidian => "obsidian",
            Editor::CodeCompanion => "codecompanion",
            Editor::Avante => "avante",
            Editor::Agentic => "agentic",
            Editor::AgentShell => "agent-shell",
            Editor::Jupyter => "jupyterlab",
            Editor::Marimo => "marimo",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Editor::Zed => "Zed",
            Editor::JetBrains => "JetBrains IDEs",
            Editor::VsCode => "VS Code, ACP Client",
            Editor::Obsidian => "Obsidian, Agent Client",
            Editor::CodeCompanion => "Neovim, CodeCompanion",
            Editor::Avante => "Neovim, Avante",
            Editor::Agentic => "Neovim, agentic.nvim",
            Editor::AgentShell => "Emacs, agent-shell",
            Editor::Jupyter => "JupyterLab, Jupyter AI",
            Editor::Marimo => "marimo",
        }
    }

    /// Returns the editors that a word selects.
    pub(crate) fn named(word: &str) -> Result<Vec<Editor>, CommandError> {
        let meant: Vec<Editor> = match word {
            "neovim" | "nvim" => vec![Editor::CodeCompanion, Editor::Avante, Editor::Agentic],
            "emacs" => vec![Editor::AgentShell],
            "path" | "jupyter" => vec![Editor::Jupyter],
            "code" | "vs-code" => vec![Editor::VsCode],
            word => Editor::ALL.into_iter().filter(|editor| editor.name() == word).collect(),
        };
        if meant.is_empty() {
            let names: Vec<&str> = Editor::ALL.iter().map(|editor| editor.name()).collect();
            return Err(CommandError::usage(format!("no editor is known by the name \"{word}\""))
                .hint(format!("known are: {}, neovim, emacs, path", names.join(", "))));
        }
        Ok(meant)
    }

    /// Returns the files of its agents and their format; empty for editors that have none.
    pub(crate) fn files(self) -> Vec<(PathBuf, Shape)> {
        let files: Vec<PathBuf> = match self {
            Editor::Zed => zed_folders().into_iter().map(|folder| folder.join("settings.json")).collect(),
            Editor::JetBrains => home().map(|home| home.join(".jetbrains/acp.json")).into_iter().collect(),
            Editor::VsCode => vscode_variants().into_iter().map(|(_, settings)| settings).collect(),
            Editor::Obsidian => {
                vaults().into_iter().map(|vault| vault.join(PLUGIN).join("data.json")).collect()
            }
            _ => Vec::new(),
        };
        let shape = match self {
            Editor::Zed => Shape::Servers { key: "agent_servers", has_type: true },
            Editor::VsCode => Shape::Servers { key: "acp.agents", has_type: false },
            Editor::Obsidian => Shape::Obsidian,
            _ => Shape::Servers { key: "agent_servers", has_type: false },
        };
        files.into_iter().map(|file| (file, shape)).collect()
    }

    pub(crate) fn configured_by(self) -> ConfiguredBy {
        match self {
            Editor::Zed | Editor::JetBrains | Editor::VsCode | Editor::Obsidian => ConfiguredBy::File,
            Editor::CodeCompanion | Editor::Avante | Editor::Agentic | Editor::AgentShell => {
                ConfiguredBy::Code
            }
            Editor::Jupyter => ConfiguredBy::Shim,
            Editor::Marimo => ConfiguredBy::Relay,
        }
    }

    /// Returns the path by which it was found on this machine.
    pub(crate) fn found(self) -> Option<PathBuf> {
        let below_home = |paths: &[&str]| {
            let home = home()?;
            paths.iter().map(|path| home.join(path)).find(|path| path.exists())
        };
        let on_path =
            |programs: &[&str]| programs.iter().find_map(|program| Program::new(*program).locate().ok());
        match self {
            Editor::Zed => zed_folders()
                .into_iter()
                .find(|folder| folder.is_dir())
                .or_else(|| on_path(&["zed", "zeditor", "zedit"])),
            Editor::VsCode => vscode_variants().into_iter().map(|(extension, _)| extension).next(),
            Editor::Jupyter => on_path(&["jupyter-lab", "jupyter"]),
            Editor::Marimo => on_path(&["marimo"]),
            Editor::JetBrains => below_home(&[
                ".jetbrains",
                ".config/JetBrains",
                ".local/share/JetBrains",
                "Library/Application Support/JetBrains",
            ]),
            Editor::Obsidian => {
                vaults().into_iter().map(|vault| vault.join(PLUGIN)).find(|folder| folder.is_dir())
            }
            Editor::CodeCompanion => neovim_plugin("codecompanion.nvim"),
            Editor::Avante => neovim_plugin("avante.nvim"),
            Editor::Agentic => neovim_plugin("agentic.nvim"),
            Editor::AgentShell => emacs_package("agent-shell"),
        }
    }
}

/// Returns the configuration folders of Zed: the usual one, and that of its Flatpak if it is there.
fn zed_folders() -> Vec<PathBuf> {
    let flatpak =
        home().map(|home| home.join(".var/app/dev.zed.Zed/config/zed")).filter(|folder| folder.is_dir());
    let usual = configuration_folder().map(|folder| folder.join("zed"));
    // With a Flatpak alone, the usual folder does not exist.
    let usual = usual.filter(|folder| flatpak.is_none() || folder.is_dir());
    usual.into_iter().chain(flatpak).collect()
}

/// VS Code and its relatives: the folder of their extensions and that of their settings, below the home folder, on Linux and
/// on macOS.
const VSCODE: [(&str, &str, &str); 6] = [
    (".vscode", ".config/Code/User", "Library/Application Support/Code/User"),
    (".vscode-insiders", ".config/Code - Insiders/User", "Library/Application Support/Code - Insiders/User"),
    (".vscode-oss", ".config/VSCodium/User", "Library/Application Support/VSCodium/User"),
    (".cursor", ".config/Cursor/User", "Library/Application Support/Cursor/User"),
    (".windsurf", ".config/Windsurf/User", "Library/Application Support/Windsurf/User"),
    (".local/share/code-server", ".local/share/code-server/User", ".local/share/code-server/User"),
];

/// Returns the extension "ACP Client" of VS Code and its relatives, each with the settings file.
fn vscode_variants() -> Vec<(PathBuf, PathBuf)> {
    let Some(home) = home() else { return Vec::new() };
    let mut variants = Vec::new();
    for (program, linux, macos) in VSCODE {
        let extensions = std::fs::read_dir(home.join(program).join("extensions")).into_iter().flatten();
        let is_it = |path: &PathBuf| {
            let file = path.file_name().and_then(|file| file.to_str());
            file.is_some_and(|file| file.starts_with("formulahendry.acp-client-"))
        };
        let extension = extensions.flatten().take(MAX_CANDIDATES).map(|entry| entry.path()).find(is_it);
        let settings = if cfg!(target_os = "macos") { macos } else { linux };
        variants.extend(extension.map(|extension| (extension, home.join(settings).join("settings.json"))));
    }
    variants
}

/// Setting of VS Code with its agent hosts.
pub(crate) const AGENT_HOSTS: &str = "chat.remoteAgentHosts";
/// Setting of VS Code that enables them.
pub(crate) const AGENT_HOSTS_ENABLED: &str = "chat.remoteAgentHostsEnabled";

/// Returns the settings files of VS Code and VS Code Insiders, which connect to agent hosts, as far as they are on this
/// machine.
pub(crate) fn agent_host_files() -> Vec<PathBuf> {
    let Some(home) = home() else { return Vec::new() };
    let mut files = Vec::new();
    for (program, linux, macos) in VSCODE.iter().take(2) {
        let settings = home.join(if cfg!(target_os = "macos") { macos } else { linux });
        if settings.is_dir() || home.join(program).is_dir() {
            files.push(settings.join("settings.json"));
        }
    }
    files
}

/// Returns the agent host with a name in the settings of VS Code, and its index in the list.
pub(crate) fn agent_host_of<'d>(
    document: &'d serde_json::Value,
    name: &str,
) -> Option<(usize, &'d serde_json::Value)> {
    let hosts = document.get(AGENT_HOSTS)?.as_array()?;
    hosts.iter().enumerate().find(|(_, host)| host.get("name").is_some_and(|known| known == name))
}

/// Path of the Obsidian plugin in a vault.
const PLUGIN: &str = ".obsidian/plugins/agent-client";

/// Maximum number of vaults or packages considered.
const MAX_CANDIDATES: usize = 1000;

/// Returns the Obsidian vaults with the plugin.
fn vaults() -> Vec<PathBuf> {
    let lists = [
        configuration_folder().map(|folder| folder.join("obsidian/obsidian.json")),
        home().map(|home| home.join("Library/Application Support/obsidian/obsidian.json")),
    ];
    let mut vaults = Vec::new();
    for list in lists.into_iter().flatten() {
        let Ok(Some(list)) = read_json(&list) else { continue };
        let listed = list
            .get("vaults")
            .and_then(|vaults| vaults.as_object())
            .into_iter()
            .flatten()
            .take(MAX_CANDIDATES);
        let paths = listed.filter_map(|(_, vault)| vault.get("path")?.as_str().map(PathBuf::from));
        vaults.extend(paths.filter(|vault| vault.is_absolute() && vault.join(PLUGIN).is_dir()));
    }
    vaults.sort();
    vaults.dedup();
    vaults
}

/// Returns the path of a Neovim plugin in the folders of the usual managers.
fn neovim_plugin(name: &str) -> Option<PathBuf> {
    let set = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let data = set.or_else(|| Some(home()?.join(".local/share")))?.join("nvim");
    let known = [data.join("lazy").join(name), data.join("plugged").join(name)];
    if let Some(found) = known.into_iter().find(|folder| folder.is_dir()) {
        return Some(found);
    }
    // site/pack/PACKAGE/start or opt/NAME
    let packages = std::fs::read_dir(data.join("site/pack")).ok()?.flatten().take(MAX_CANDIDATES);
    let places =
        packages.flat_map(|package| ["start", "opt"].map(|kind| package.path().join(kind).join(name)));
    places.into_iter().find(|folder| folder.is_dir())
}

/// Returns the path of an Emacs package.
fn emacs_package(name: &str) -> Option<PathBuf> {
    let mut folders = Vec::new();
    if let Some(home) = home() {
        folders.push(home.join(".emacs.d"));
        folders.push(home.join(".config/emacs"));
    }
    folders.extend(configuration_folder().map(|folder| folder.join("emacs")));
    for folder in folders {
        for place in ["straight/repos", ".local/straight/repos", "elpaca/repos"] {
            let package = folder.join(place).join(name);
            if package.is_dir() {
                return Some(package);
            }
        }
        let installed =
            std::fs::read_dir(folder.join("elpa")).into_iter().flatten().flatten().take(MAX_CANDIDATES);
        let is_it = |path: &PathBuf| {
            let file = path.file_name().and_then(|file| file.to_str());
            file.is_some_and(|file| is_emacs_package(file, name)) && path.is_dir()
        };
        let found = installed.map(|entry| entry.path()).find(is_it);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Returns whether a folder of `package-user-dir` is a package: `NAME-VERSION`, or `NAME` for a package from
/// version control. MELPA's versions are dates (`20260101.1712`), those of MELPA Stable and ELPA are numbers
/// (`0.79.2`, `1.0pre2`).
fn is_emacs_package(folder: &str, name: &str) -> bool {
    match folder.strip_prefix(name) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(|version| {
            version.starts_with(|first: char| first.is_ascii_digit())
                && version.chars().all(|character| character.is_ascii_alphanumeric() || character == '.')
        }),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emacs_packages_of_every_archive_are_recognized_by_their_folders() {
        for folder in [
            "agent-shell",
            "agent-shell-20260101.1712",
            "agent-shell-0.79.2",
            "agent-shell-1.0pre2",
            "agent-shell-3",
        ] {
            assert!(is_emacs_package(folder, "agent-shell"), "{folder}");
        }
        for folder in [
            "agent-shell-sidebar-0.1",
            "agent-shell-",
            "agent-shell-0.79.2.signed~",
            "agent-shell-2-go-0.1",
            "agent-shells",
            "my-agent-shell-0.1",
        ] {
            assert!(!is_emacs_package(folder, "agent-shell"), "{folder}");
        }
    }
}
