//! Agents that are known without configuration: those in the table of this program, and those of the last
//! downloaded registry. An installed known agent runs by its name; one that is not installed is never
//! downloaded without asking.

mod asking;
pub(crate) mod installation;
pub(crate) mod lock;
mod registry;
mod table;

use std::path::{Path, PathBuf};

use installation::Installation;
use switchboard_acp::display::visible_line;
use switchboard_transport::Program;

pub(crate) use asking::confirmed;
pub(crate) use registry::{MAX_REGISTRY, REGISTRY, RegisteredPackage, Registry, RegistryAgent, sha256};

use crate::outcome::CommandError;

/// A known agent.
#[derive(Debug)]
pub(crate) struct KnownAgent {
    pub(crate) name: &'static str,
    /// Alternative names.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) title: &'static str,
    /// Command lines of an installed agent in protocol mode; the first that exists is used.
    pub(crate) commands: &'static [&'static [&'static str]],
    /// Programs that it needs besides its own.
    pub(crate) needs: &'static [&'static str],
    /// Package to run it without installing it.
    pub(crate) package: Option<Package>,
    /// Installation instructions, as text or as a command.
    pub(crate) install: &'static str,
    pub(crate) login: &'static str,
    /// Protocol versions that were observed.
    pub(crate) versions: &'static [u16],
    /// The observed version of the agent.
    pub(crate) seen: &'static str,
    /// Other observations.
    pub(crate) notes: &'static [&'static str],
    /// Needs in a sandbox.
    pub(crate) sandbox: SandboxNeeds,
}

/// Needs of a known agent in a sandbox. Paths are below the home directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SandboxNeeds {
    /// Paths that it writes: logins, histories, caches.
    pub(crate) state: &'static [&'static str],
    /// Paths that it reads and that must not be changed, because they decide what it runs.
    pub(crate) settings: &'static [&'static str],
    /// Hosts of its model and login.
    pub(crate) hosts: &'static [&'static str],
    /// Environment variables; `*` at the end matches any rest.
    pub(crate) env: &'static [&'static str],
    /// Variables that are set for it.
    pub(crate) set: &'static [(&'static str, &'static str)],
    /// True if it makes sandboxes of its own.
    pub(crate) nests: bool,
}

impl SandboxNeeds {
    pub(crate) const NONE: SandboxNeeds =
        SandboxNeeds { state: &[], settings: &[], hosts: &[], env: &[], set: &[], nests: false };
}

/// Program that runs a package from the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// npm.
    Npx,
    /// `PyPI`.
    Uvx,
}

impl Runner {
    pub(crate) fn program(self) -> &'static str {
        match self {
            Runner::Npx => "npx",
            Runner::Uvx => "uvx",
        }
    }

    /// Returns the command line that runs a package.
    pub(crate) fn command_line(self, package: &str, arguments: &[impl AsRef<str>]) -> Vec<String> {
        let begin: &[&str] = match self {
            // Switchboard itself asks the user.
            Runner::Npx => &["npx", "--yes", "--"],
            Runner::Uvx => &["uvx"],
        };
        let words = begin.iter().copied().chain([package]).chain(arguments.iter().map(AsRef::as_ref));
        words.map(str::to_owned).collect()
    }
}

/// A package that can be run from the network.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) runner: Runner,
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [&'static str],
}

impl Package {
    pub(crate) fn command_line(&self) -> Vec<String> {
        self.runner.command_line(self.name, self.arguments)
    }
}

/// An installed agent.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) command: Vec<String>,
    /// Path of the program.
    pub(crate) path: PathBuf,
    /// The version, as far as it is known without running the agent.
    pub(crate) version: Option<String>,
    /// True if `switchboard agents install` put it there.
    pub(crate) is_ours: bool,
}

impl Installed {
    pub(crate) fn program(&self) -> Program {
        let (program, arguments) =
            self.command.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        Program::new(program).args(arguments)
    }

    fn of(installation: &Installation, package: &Package) -> Self {
        Installed {
            command: installation.command_line(package),
            path: installation.file(),
            version: Some(installation.version.clone()),
            is_ours: true,
        }
    }
}

impl KnownAgent {
    /// Returns the installed command line, if all programs it needs exist: of our own installation, else on the `PATH`.
    pub(crate) fn installed(&self) -> Option<Installed> {
        let locate = |program: &str| Program::new(program).locate().ok();
        if !self.needs.iter().all(|program| locate(program).is_some()) {
            return None;
        }
        if let Some(package) = &self.package
            && let Some(found) = installation::find(self, None)
        {
            return Some(Installed::of(&found, package));
        }
        self.commands.iter().find_map(|command| {
            let path = locate(command.first()?)?;
            let version = version_of(&path);
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            Some(Installed { command, path, version, is_ours: false })
        })
    }
}

/// Returns all known agents by name.
pub(crate) fn known() -> &'static [KnownAgent] {
    table::KNOWN
}

/// Returns the known agent with a name or alias.
pub(crate) fn find(name: &str) -> Option<&'static KnownAgent> {
    known().iter().find(|agent| agent.name == name || agent.aliases.contains(&name))
}

/// Returns the program of a known agent, from the table or the registry. `None` if the name is unknown.
pub(crate) fn program(name: &str) -> Option<Result<Program, CommandError>> {
    if let Some(agent) = find(name) {
        return Some(program_of(agent));
    }
    if let Some((agent, version)) = with_version(name) {
        return Some(program_of_version(agent, version));
    }
    let registry = Registry::cached().ok().flatten()?;
    Some(program_of_registered(registry.find(name)?))
}

/// The known agent and the version of `NAME@VERSION`.
pub(crate) fn with_version(name: &str) -> Option<(&'static KnownAgent, &str)> {
    let (name, version) = name.split_once('@')?;
    Some((find(name)?, version))
}

/// The program of exactly that version. It is never fetched.
fn program_of_version(agent: &KnownAgent, version: &str) -> Result<Program, CommandError> {
    match (&agent.package, installation::find(agent, Some(version))) {
        (Some(package), Some(found)) => Ok(Installed::of(&found, package).program()),
        _ => Err(CommandError::usage(format!("{} {} is not installed", agent.title, visible_line(version)))
            .hint(format!(
                "to install it: switchboard agents install {}@{}",
                agent.name,
                visible_line(version)
            ))),
    }
}

fn program_of(agent: &'static KnownAgent) -> Result<Program, CommandError> {
    if let Some(found) = agent.installed() {
        return Ok(found.program());
    }
    let programs: Vec<&str> =
        agent.needs.iter().copied().chain(agent.commands.first().map(|command| command[0])).collect();
    let missing = programs.into_iter().find(|program| Program::new(*program).locate().is_err());
    let error = CommandError::usage(format!(
        "{} is not installed: there is no program \"{}\" on the PATH",
        agent.title,
        missing.unwrap_or(agent.name)
    ))
    .hint(format!("to install it: {}", agent.install))
    .hint(format!("to log in: {}", agent.login));
    // A package contains its own program, but not the other programs it needs.
    match &agent.package {
        Some(package) if agent.needs.iter().all(|program| Program::new(*program).locate().is_ok()) => {
            let line = package.command_line();
            asking::from_network(agent.title, package.runner, &line, Some(agent), error)
        }
        _ => Err(error),
    }
}

fn program_of_registered(agent: &RegistryAgent) -> Result<Program, CommandError> {
    let title = visible_line(&agent.title);
    let error = CommandError::usage(format!("{title} is not configured; the registry has it"));
    let error = match &agent.archive {
        Some(archive) => {
            let hash = match &archive.sha256 {
                Some(hash) => format!(" (SHA-256 {hash})"),
                None => " (without a checksum)".to_owned(),
            };
            let url = visible_line(&archive.url);
            error.hint(format!(
                "its program is in {url}{hash}: unpack it, then switchboard agents add {} -- {}",
                agent.id,
                visible_line(&archive.command_line.join(" "))
            ))
        }
        None => error,
    };
    match &agent.package {
        Some(package) => {
            let program = asking::from_network(&title, package.runner, &package.command_line(), None, error)?;
            Ok(package.env.iter().fold(program, |program, (name, value)| program.env(name, value)))
        }
        None => Err(error),
    }
}

/// Returns the version of an installed program if it can be determined without running it: from the
/// `package.json` of an npm package.
pub(crate) fn version_of(program: &Path) -> Option<String> {
    let file = program.canonicalize().ok()?;
    for folder in file.ancestors().skip(1).take(5) {
        if let Some(version) = npm_version(&folder.join("package.json")) {
            return Some(version);
        }
        if folder.file_name().is_some_and(|name| name == "node_modules") {
            break;
        }
    }
    None
}

/// Maximum size of a package description in bytes.
const MAX_PACKAGE: u64 = 256 * 1024;

fn npm_version(file: &Path) -> Option<String> {
    file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() <= MAX_PACKAGE)?;
    let package: serde_json::Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    Some(visible_line(package.get("version")?.as_str()?).chars().take(40).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_entry_is_whole_and_every_name_means_one_agent() {
        let mut names = BTreeSet::new();
        for agent in known() {
            for name in agent.aliases.iter().chain([&agent.name]) {
                assert!(names.insert(*name), "{name} stands twice");
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
            }
            assert!(
                !agent.title.is_empty() && !agent.install.is_empty() && !agent.login.is_empty(),
                "{}",
                agent.name
            );
            assert!(agent.commands.iter().all(|command| !command.is_empty()) && !agent.commands.is_empty());
            assert_eq!(agent.versions.is_empty(), agent.seen.is_empty(), "{}: seen by whom?", agent.name);
        }
        assert!(known().is_sorted_by_key(|agent| agent.name));
        assert!(known().len() >= 30);
    }

    #[test]
    fn the_agents_of_acpx_are_all_known() {
        for name in [
            "pi",
            "openclaw",
            "codex",
            "claude",
            "gemini",
            "cursor",
            "copilot",
            "antigravity",
            "devin",
            "droid",
            "fast-agent",
            "fx",
            "grok-build",
            "iflow",
            "junie",
            "kilocode",
            "kimi",
            "kiro",
            "mcode",
            "mux",
            "opencode",
            "pool",
            "qoder",
            "qwen",
            "trae",
            "zeroclaw",
            "factory-droid",
        ] {
            assert!(find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_version_of_an_npm_package_is_read_from_its_description() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("lib/node_modules/@scope/agent");
        std::fs::create_dir_all(package.join("dist")).unwrap();
        std::fs::create_dir_all(folder.path().join("bin")).unwrap();
        std::fs::write(package.join("dist/index.js"), "").unwrap();
        let link = folder.path().join("bin/agent");
        std::os::unix::fs::symlink("../lib/node_modules/@scope/agent/dist/index.js", &link).unwrap();
        assert_eq!(version_of(&link), None);
        std::fs::write(package.join("package.json"), r#"{"name": "agent", "version": "1.2.3"}"#).unwrap();
        assert_eq!(version_of(&link).as_deref(), Some("1.2.3"));
        std::fs::write(package.join("package.json"), r#"{"version": 7}"#).unwrap();
        assert_eq!(version_of(&link), None);
    }
}
