//! The user's agents, from our configuration files and those of editors.

pub(crate) mod edited_file;
pub(crate) mod edited_json;
pub(crate) mod editor;
pub(crate) mod hub;
pub(crate) mod notify;
pub(crate) mod roots;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::agents;
use crate::outcome::CommandError;
use crate::remote_agent;
use crate::setup::command_line::CommandLine;
use serde_json::Value;
use switchboard_acp::display::visible_line;
use switchboard_transport::{Program, Remote};

/// The configured agents, and problems of the files.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// In order of precedence: of two with the same name, the first is used.
    pub(crate) agents: Vec<ConfiguredAgent>,
    pub(crate) problems: Vec<String>,
}

/// An agent of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfiguredAgent {
    pub(crate) name: String,
    /// A program, or the URL of a server.
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) source: Source,
    pub(crate) file: PathBuf,
}

/// Owner of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Ours,
    Project,
    Zed,
    JetBrains,
    Acpx,
}

impl Source {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Source::Ours => "switchboard",
            Source::Project => "project",
            Source::Zed => "zed",
            Source::JetBrains => "jetbrains",
            Source::Acpx => "acpx",
        }
    }
}

impl ConfiguredAgent {
    /// Returns its command and arguments, for people.
    pub(crate) fn command_line(&self) -> String {
        [&[&*self.command], &*self.arguments()].concat().join(" ")
    }

    /// Returns the agent itself if an editor reaches it through this program (see `switchboard setup`). An
    /// entry that leads back to us by a name is skipped: it would start us in an endless recursion.
    fn behind_the_bridge(mut self) -> Option<Self> {
        let is_of_editor = !matches!(self.source, Source::Ours | Source::Project);
        match CommandLine::parse(&self.command, &self.args) {
            Some(CommandLine::Bridge(line)) if !line.command.is_empty() => {
                if is_of_editor && let Some((program, rest)) = line.command.split_first() {
                    (self.command, self.args) = (program.clone(), rest.to_vec());
                }
                Some(self)
            }
            Some(CommandLine::Bridge(line)) => {
                let leads_back = is_of_editor || line.others.contains(&self.name);
                (!leads_back).then_some(self)
            }
            // An editor's way to a hub is not the agent that a user of this machine means by the name.
            Some(CommandLine::Connect { .. }) if is_of_editor => None,
            Some(CommandLine::Connect { .. }) | None => Some(self),
        }
    }

    /// Returns the title of the known agent that it replaces.
    fn displaced(&self) -> Option<&'static str> {
        if self.name == "demo" {
            return Some("built-in demo agent");
        }
        let known = agents::find(&self.name)?;
        let is_the_same = known
            .commands
            .iter()
            .any(|line| line.split_first() == Some((&&*self.command, &self.arguments())));
        // Environment variables in a project's file can change the program.
        let is_changed = self.source == Source::Project && !self.env.is_empty();
        (!is_the_same || is_changed).then_some(known.title)
    }

    fn arguments(&self) -> Vec<&str> {
        self.args.iter().map(String::as_str).collect()
    }

    /// Returns the program to start.
    pub(crate) fn program(&self) -> Result<Program, CommandError> {
        let mut program = if Remote::is_address(&self.command) {
            remote_agent::program(&self.command)?
        } else {
            Program::new(&self.command).args(&self.args)
        };
        for (name, value) in &self.env {
            program = program.env(name, value);
        }
        Ok(program)
    }
}

/// Maximum size of a configuration file in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Returns the chosen agent: by its name, which is looked up from a folder, or by its command line.
pub(crate) fn chosen_program(
    folder: &Path,
    name: Option<&str>,
    command: &[impl AsRef<OsStr>],
) -> Result<Program, CommandError> {
    let first = name.or_else(|| command.first().and_then(|word| word.as_ref().to_str()));
    if let Some(scheme) = first.and_then(foreign_scheme) {
        return Err(CommandError::usage(format!("the scheme {scheme}:// is not supported for agents"))
            .hint("addresses of agents begin with ws://, wss://, http:// or https://"));
    }
    match (name, command) {
        (None, [url]) if url.as_ref().to_str().is_some_and(Remote::is_address) => {
            remote_agent::program(&url.as_ref().to_string_lossy())
        }
        (None, [program, rest @ ..]) => {
            // A relative path is resolved in the user's folder, not in the session's.
            let program = program.as_ref();
            let has_folder = program.as_encoded_bytes().contains(&b'/');
            let path = if has_folder { std::path::absolute(program).ok() } else { None };
            Ok(Program::new(path.unwrap_or_else(|| program.into())).args(rest.iter().map(AsRef::as_ref)))
        }
        (Some(url), []) if Remote::is_address(url) => remote_agent::program(url),
        (Some(name), []) => Configuration::read(folder).chosen_program(name),
        (Some(_), _) => Err(CommandError::usage("give either an agent's name or a command line, not both")),
        (None, []) => Err(CommandError::usage("which agent?")
            .hint("choose one from `switchboard agents`, or give a command line after `--`")
            .hint("`switchboard run demo help` shows what the built-in demo agent can do")),
    }
}

/// Returns the scheme of an address that no agent can have.
fn foreign_scheme(word: &str) -> Option<&str> {
    let (scheme, _) = word.split_once("://").filter(|_| !Remote::is_address(word))?;
    let is_scheme = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_scheme.then_some(scheme)
}

impl Configuration {
    /// Reads all configuration files. The user's own precede those of the project, so that a foreign project
    /// cannot put another program under a name that the user knows.
    pub(crate) fn read(project: &Path) -> Self {
        let mut configuration = Configuration::default();
        for (source, file) in files(project) {
            configuration.read_file(source, &file);
        }
        configuration
    }

    /// Returns the agent with a name.
    pub(crate) fn find(&self, name: &str) -> Option<&ConfiguredAgent> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// Returns the program of the chosen agent. If the configuration replaces a known agent, the command line
    /// is shown; if only a project's file does so, the user is asked, because it may be anyone's.
    pub(crate) fn chosen_program(&self, name: &str) -> Result<Program, CommandError> {
        if let Some(agent) = self.find(name)
            && let Some(title) = agent.displaced()
        {
            let line = visible_line(&agent.command_line());
            let said = format!(
                "\"{name}\" is `{line}`, as {} says, and not the {title} that is known by this name",
                agent.file.display(),
            );
            if agent.source != Source::Project {
                eprintln!("switchboard: {said}");
            } else if agents::confirmed(&format!("{said}.\nRun it?")) != Some(true) {
                return Err(CommandError::usage(said).hint(format!(
                    "if you know it, put it into your own configuration: switchboard agents add {name} -- {line}"
                )));
            }
        }
        self.named_program(name)
    }

    /// Returns whether a project's file, and not the user, replaces a known agent.
    pub(crate) fn is_foreign(&self, name: &str) -> bool {
        self.find(name).is_some_and(|agent| agent.source == Source::Project && agent.displaced().is_some())
    }

    /// Returns the program of the agent with a name: a configured one, the demo agent, or a known one.
    pub(crate) fn named_program(&self, name: &str) -> Result<Program, CommandError> {
        if let Some(agent) = self.find(name) {
            return agent.program();
        }
        if name == "demo" {
            return remote_agent::ourselves(["demo-agent"]);
        }
        if let Some(program) = agents::program(name) {
            return program;
        }
        let mut error = CommandError::usage(format!("no agent is called \"{name}\""));
        error = match self.names()[..] {
            [] => error.hint("no agents are configured; give a command line after `--`"),
            ref names => error.hint(format!("configured agents: {}", names.join(", "))),
        };
        error = error.hint("`switchboard agents` also lists the known ones");
        for problem in &self.problems {
            error = error.hint(problem);
        }
        Err(error)
    }

    /// Returns all names, each once.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.agents.iter().map(|agent| &*agent.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn read_file(&mut self, source: Source, file: &Path) {
        match read_json(file) {
            Ok(Some(value)) => self.take(source, file, &value),
            Ok(None) => {}
            Err(problem) => self.problems.push(problem),
        }
    }

    fn take(&mut self, source: Source, file: &Path, value: &Value) {
        let key = if source == Source::Acpx { "agents" } else { "agent_servers" };
        let Some(servers) = value.get(key).and_then(Value::as_object) else { return };
        // Sorted by name, independent of the JSON library's key order.
        let servers: BTreeMap<_, _> = servers.iter().collect();
        for (name, server) in servers {
            match agent(name, server, source, file) {
                Ok(Some(agent)) => self.agents.extend(agent.behind_the_bridge()),
                // An entry that only changes settings of an agent which the editor installs itself.
                Ok(None) => {}
                Err(reason) => {
                    self.problems.push(format!("{}: the agent \"{name}\" {reason}", file.display()));
                }
            }
        }
    }
}

fn agent(
    name: &str,
    server: &Value,
    source: Source,
    file: &Path,
) -> Result<Option<ConfiguredAgent>, &'static str> {
    let server = server.as_object().ok_or("is not an object")?;
    if let Some(url) = server.get("url") {
        let command = url.as_str().filter(|url| Remote::new(url).is_ok());
        let command = command.ok_or("has an invalid url")?.to_owned();
        let env =
            remote_agent::environment(&texts(server.get("headers"), "has a header that is not a string")?);
        let (name, file) = (name.to_owned(), file.to_owned());
        return Ok(Some(ConfiguredAgent { name, command, args: Vec::new(), env, source, file }));
    }
    // Older settings have an object with a path here.
    let (command, nested) = match server.get("command") {
        Some(Value::String(command)) => (command.as_str(), None),
        Some(Value::Object(command)) => {
            let path = command.get("path").and_then(Value::as_str).ok_or("has a command without a path")?;
            (path, Some(command))
        }
        Some(_) => return Err("has a command that is not a string"),
        None => return Ok(None),
    };
    let listed = server.get("args").or_else(|| nested?.get("args"));
    let args = match listed {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(args)) => {
            let texts = args.iter().map(|arg| arg.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>().ok_or("has an argument that is not a string")?
        }
        Some(_) => return Err("has arguments that are not a list"),
    };
    let env = texts(server.get("env").or_else(|| nested?.get("env")), "has a variable that is not a string")?;
    let mut words = if source == Source::Acpx && args.is_empty() {
        // The command is a complete command line here.
        split_words(command).ok_or("has a command with an unclosed quote")?
    } else {
        vec![command.to_owned()]
    };
    if words.is_empty() || words[0].is_empty() {
        return Err("has an empty command");
    }
    let mut command = with_home(&words.remove(0));
    // A path in a project's file is relative to that file.
    if command.contains('/')
        && let Some(folder) = file.parent()
        && source == Source::Project
    {
        command = folder.join(&command).display().to_string();
    }
    words.extend(args);
    let (name, file) = (name.to_owned(), file.to_owned());
    Ok(Some(ConfiguredAgent { name, command, args: words, env, source, file }))
}

/// Returns an object of strings.
fn texts(object: Option<&Value>, problem: &'static str) -> Result<BTreeMap<String, String>, &'static str> {
    let entries = object.and_then(Value::as_object).into_iter().flatten();
    entries.map(|(name, value)| Ok((name.clone(), value.as_str().ok_or(problem)?.to_owned()))).collect()
}

/// Splits a command line into words like a shell, without other shell features.
pub(crate) fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let text = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        quote if quote == character => break,
                        '\\' if character == '"' => text.push(characters.next()?),
                        other => text.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next()?),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

pub(crate) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

fn with_home(command: &str) -> String {
    match (command.strip_prefix("~/"), home()) {
        (Some(rest), Some(home)) => home.join(rest).display().to_string(),
        _ => command.to_owned(),
    }
}

/// Returns the folder for configuration files, by the XDG rules.
pub(crate) fn configuration_folder() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    set.or_else(|| Some(home()?.join(".config")))
}

/// Returns the folder for data of programs, by the XDG rules.
pub(crate) fn data_folder() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    set.or_else(|| Some(home()?.join(".local/share")))
}

/// Returns a part of the user's configuration. An unreadable file is reported where agents are read.
pub(crate) fn own_settings(key: &str) -> Option<Value> {
    own_configuration().ok()??.get(key).cloned()
}

/// The settings of the user's own configuration file.
pub(crate) const SETTINGS: [&str; 5] = ["agent_servers", "editor", "hub", "roots", "store"];

/// Returns the keys of the user's own configuration that are not settings, each with the setting that is probably meant.
pub(crate) fn unknown_settings() -> Vec<(String, Option<&'static str>)> {
    let Some(Value::Object(configuration)) = own_configuration().ok().flatten() else { return Vec::new() };
    let unknown =
        configuration.keys().filter(|key| !SETTINGS.contains(&key.as_str()) && !key.starts_with('$'));
    unknown.map(|key| (visible_line(key), probably_meant(key))).collect()
}

/// Returns the setting whose name begins like a key, or that a key begins like.
fn probably_meant(key: &str) -> Option<&'static str> {
    let letters =
        |text: &str| text.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_lowercase();
    let key = letters(key);
    let begins = |one: &str, other: &str| one.len() >= 3 && other.starts_with(one);
    SETTINGS.into_iter().find(|setting| {
        let setting = letters(setting);
        begins(&key, &setting) || begins(&setting, &key)
    })
}

/// Returns the user's configuration if it exists. Fails if it cannot be read.
fn own_configuration() -> Result<Option<Value>, String> {
    own_file().map_or(Ok(None), |file| read_json(&file))
}

/// Returns the path of the user's configuration file.
pub(crate) fn own_file() -> Option<PathBuf> {
    Some(configuration_folder()?.join("switchboard").join("config.json"))
}

/// Returns whether a path does not exist. Any other error only means that it cannot be read.
pub(crate) fn is_missing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// Parses the JSON in a file; `None` if it does not exist.
pub(crate) fn read_json(file: &Path) -> Result<Option<Value>, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
    let metadata = match file.metadata() {
        Err(error) if is_missing(&error) => return Ok(None),
        metadata => metadata.map_err(failed)?,
    };
    // A pipe could block, and a device never end.
    if !metadata.is_file() {
        return Err(format!("{} is not a regular file", file.display()));
    }
    if metadata.len() > MAX_FILE {
        return Err(format!("{} is too large", file.display()));
    }
    let text = std::fs::read_to_string(file).map_err(failed)?;
    let value = edited_json::parse(&text)
        .map_err(|error| format!("{} is not valid JSON: {error}", file.display()))?;
    Ok(Some(value))
}

/// Returns the files that may contain agents, in order of precedence.
pub(crate) fn files(project: &Path) -> Vec<(Source, PathBuf)> {
    let mut files = Vec::new();
    let folder = configuration_folder();
    files.extend(own_file().map(|file| (Source::Ours, file)));
    files.extend(project.ancestors().map(|folder| (Source::Project, folder.join(".switchboard.json"))));
    if let Some(folder) = &folder {
        files.push((Source::Zed, folder.join("zed").join("settings.json")));
    }
    if let Some(home) = home() {
        files.push((Source::JetBrains, home.join(".jetbrains").join("acp.json")));
        files.push((Source::Acpx, home.join(".acpx").join("config.json")));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::{foreign_scheme, probably_meant, read_json, split_words};

    #[test]
    fn addresses_that_no_agent_can_have_are_told_from_programs() {
        assert_eq!(foreign_scheme("ftp://x"), Some("ftp"));
        assert_eq!(foreign_scheme("wsx://x"), Some("wsx"));
        for fine in ["ws://x", "HTTPS://x", "codex", "/bin/a://b", "://x", "a b://c"] {
            assert_eq!(foreign_scheme(fine), None, "{fine}");
        }
    }

    #[test]
    fn a_misspelled_setting_leads_to_the_one_that_is_meant() {
        assert_eq!(probably_meant("agent_server"), Some("agent_servers"));
        assert_eq!(probably_meant("agentServers"), Some("agent_servers"));
        assert_eq!(probably_meant("stores"), Some("store"));
        assert_eq!([probably_meant("x"), probably_meant(""), probably_meant("theme")], [None; 3]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_cannot_be_looked_at_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        assert_eq!(read_json(&file), Ok(None));
        assert_eq!(read_json(&file.join("below")), Ok(None));
        // A link to itself is unreadable even for root.
        std::os::unix::fs::symlink(&file, &file).unwrap();
        let problem = read_json(&file).unwrap_err();
        assert!(problem.starts_with(&format!("cannot read {}: ", file.display())), "{problem}");
    }

    #[test]
    fn a_command_line_is_cut_into_words() {
        let words = |line: &str| split_words(line).unwrap();
        assert_eq!(words("npx -y @scope/agent"), ["npx", "-y", "@scope/agent"]);
        assert_eq!(words(r#" a "b c" 'd"e' f\ g "" "#), ["a", "b c", "d\"e", "f g", ""]);
        assert_eq!(words(""), [""; 0]);
        assert_eq!(split_words("a 'b"), None);
    }
}
