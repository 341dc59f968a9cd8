//! Which agents the user has, by the files that we and the editors keep.

pub(crate) mod edited_file;
pub(crate) mod edited_json;
pub(crate) mod hub;
pub(crate) mod roots;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::agents;
use crate::outcome::CommandError;
use crate::remote_agent;
use crate::terminal::text::visible_line;
use serde_json::Value;
use switchboard_transport::{Program, Remote};

/// The agents that were found, and what could not be read.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// In the order in which they count: of two with one name, the first is the one that is meant.
    pub(crate) agents: Vec<ConfiguredAgent>,
    pub(crate) problems: Vec<String>,
}

/// An agent of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfiguredAgent {
    pub(crate) name: String,
    /// A program, or the address of a server.
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) source: Source,
    pub(crate) file: PathBuf,
}

/// Whose file it is.
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
    /// Its command and arguments, for people.
    pub(crate) fn command_line(&self) -> String {
        [&[&*self.command], &*self.arguments()].concat().join(" ")
    }

    /// The agent itself, where an editor reaches it through this program (see `switchboard setup`). An entry that leads
    /// back to us by a name is no agent: whoever took it for one would start us again and again.
    fn behind_the_bridge(mut self) -> Option<Self> {
        let is_ours = Path::new(&self.command).file_name().is_some_and(|file| file == "switchboard");
        let is_of_editor = !matches!(self.source, Source::Ours | Source::Project);
        match &*self.arguments() {
            ["bridge", "--", program, rest @ ..] if is_ours && is_of_editor => {
                let (command, args) =
                    ((*program).to_owned(), rest.iter().map(|word| (*word).to_owned()).collect());
                (self.command, self.args) = (command, args);
                Some(self)
            }
            ["bridge", rest @ ..] if is_ours && !rest.contains(&"--") => {
                let leads_back = is_of_editor || rest.contains(&&*self.name);
                (!leads_back).then_some(self)
            }
            _ => Some(self),
        }
    }

    /// What is known by its name and is something else.
    fn displaced(&self) -> Option<&'static str> {
        if self.name == "demo" {
            return Some("built-in demo agent");
        }
        let known = agents::find(&self.name)?;
        let is_the_same = known
            .commands
            .iter()
            .any(|line| line.split_first() == Some((&&*self.command, &self.arguments())));
        // Variables make another program of the same one, where somebody else sets them.
        let is_changed = self.source == Source::Project && !self.env.is_empty();
        (!is_the_same || is_changed).then_some(known.title)
    }

    fn arguments(&self) -> Vec<&str> {
        self.args.iter().map(String::as_str).collect()
    }

    /// How to start it.
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

/// A file that is no larger than any configuration file.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The agent that somebody chose: by its name, which is looked up from a folder, or by the command line that starts it.
pub(crate) fn chosen_program(
    folder: &Path,
    name: Option<&str>,
    command: &[impl AsRef<OsStr>],
) -> Result<Program, CommandError> {
    match (name, command) {
        (None, [url]) if url.as_ref().to_str().is_some_and(Remote::is_address) => {
            remote_agent::program(&url.as_ref().to_string_lossy())
        }
        (None, [program, rest @ ..]) => {
            // A relative path is meant from where the user is, not from the session's folder.
            let program = program.as_ref();
            let has_folder = program.as_encoded_bytes().contains(&b'/');
            let path = if has_folder { std::path::absolute(program).ok() } else { None };
            Ok(Program::new(path.unwrap_or_else(|| program.into())).args(rest.iter().map(AsRef::as_ref)))
        }
        (Some(name), []) => Configuration::read(folder).chosen_program(name),
        (Some(_), _) => Err(CommandError::usage("either an agent's name or a command line, not both")),
        (None, []) => Err(CommandError::usage("which agent?")
            .hint("name one that `switchboard agents` lists, or give a command line behind `--`")
            .hint("`switchboard run demo help` shows what the built-in demo agent can do")),
    }
}

impl Configuration {
    /// Reads all files that there are. The user's own come before those of the project, so that a foreign project
    /// cannot put another program under a name that the user knows.
    pub(crate) fn read(project: &Path) -> Self {
        let mut configuration = Configuration::default();
        for (source, file) in files(project) {
            configuration.read_file(source, &file);
        }
        configuration
    }

    /// The agent that a name means.
    pub(crate) fn find(&self, name: &str) -> Option<&ConfiguredAgent> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// The program of the agent of a name that somebody chose. Where something else than an agent that is known by this name is
    /// configured, it is said which one runs; and where only a project's file says so, it is asked: that may be anybody's.
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

    /// Whether a project's file, and not the user, puts something else under the name of a known agent.
    pub(crate) fn is_foreign(&self, name: &str) -> bool {
        self.find(name).is_some_and(|agent| agent.source == Source::Project && agent.displaced().is_some())
    }

    /// The program of the agent of a name: a configured one, the demo agent, or a known one.
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
            [] => error.hint("no agents are configured; a command line goes behind `--`"),
            ref names => error.hint(format!("configured are: {}", names.join(", "))),
        };
        error = error.hint("`switchboard agents` lists those that are known, too");
        for problem in &self.problems {
            error = error.hint(problem);
        }
        Err(error)
    }

    /// All names, each once.
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
        // By name, whichever way the JSON library was built to keep the keys of an object.
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
    let server = server.as_object().ok_or("is no object")?;
    if let Some(url) = server.get("url") {
        let command = url.as_str().filter(|url| Remote::new(url).is_ok());
        let command = command.ok_or("has a url that is no address of a server")?.to_owned();
        let env = remote_agent::environment(&texts(server.get("headers"), "has a header that is no text")?);
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
        Some(_) => return Err("has a command that is no text"),
        None => return Ok(None),
    };
    let listed = server.get("args").or_else(|| nested?.get("args"));
    let args = match listed {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(args)) => {
            let texts = args.iter().map(|arg| arg.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>().ok_or("has an argument that is no text")?
        }
        Some(_) => return Err("has arguments that are no list"),
    };
    let env = texts(server.get("env").or_else(|| nested?.get("env")), "has a variable that is no text")?;
    let mut words = if source == Source::Acpx && args.is_empty() {
        // There the command is a whole command line.
        split_words(command).ok_or("has a command with an open quote")?
    } else {
        vec![command.to_owned()]
    };
    if words.is_empty() || words[0].is_empty() {
        return Err("has an empty command");
    }
    let mut command = with_home(&words.remove(0));
    // A path in a project's file is meant from there.
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

/// An object of texts.
fn texts(object: Option<&Value>, problem: &'static str) -> Result<BTreeMap<String, String>, &'static str> {
    let entries = object.and_then(Value::as_object).into_iter().flatten();
    entries.map(|(name, value)| Ok((name.clone(), value.as_str().ok_or(problem)?.to_owned()))).collect()
}

/// The words of a command line, as a shell would cut it, without anything else that a shell does.
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

/// The folder for configuration files, by the XDG rules.
pub(crate) fn configuration_folder() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    set.or_else(|| Some(home()?.join(".config")))
}

/// The folder for data of programs, by the XDG rules.
pub(crate) fn data_folder() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    set.or_else(|| Some(home()?.join(".local/share")))
}

/// A part of the user's own configuration. A file that cannot be read is complained of where agents are looked for.
pub(crate) fn own_settings(key: &str) -> Option<Value> {
    own_configuration().ok()??.get(key).cloned()
}

/// The user's own configuration, if there is one, or why it cannot be read.
fn own_configuration() -> Result<Option<Value>, String> {
    own_file().map_or(Ok(None), |file| read_json(&file))
}

/// The user's own configuration file.
pub(crate) fn own_file() -> Option<PathBuf> {
    Some(configuration_folder()?.join("switchboard").join("config.json"))
}

/// Whether nothing is at a path. Any other error says only that it cannot be looked at.
pub(crate) fn is_missing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// The JSON in a file; nothing where there is no file.
pub(crate) fn read_json(file: &Path) -> Result<Option<Value>, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
    let metadata = match file.metadata() {
        Err(error) if is_missing(&error) => return Ok(None),
        metadata => metadata.map_err(failed)?,
    };
    // A pipe would keep us waiting, and a device never end.
    if !metadata.is_file() {
        return Err(format!("{} is no file", file.display()));
    }
    if metadata.len() > MAX_FILE {
        return Err(format!("{} is too large", file.display()));
    }
    let text = std::fs::read_to_string(file).map_err(failed)?;
    let value =
        edited_json::parse(&text).map_err(|error| format!("{} is no JSON: {error}", file.display()))?;
    Ok(Some(value))
}

/// The files that may hold agents, the most important first.
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
    use super::{read_json, split_words};

    #[cfg(unix)]
    #[test]
    fn a_file_that_cannot_be_looked_at_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        assert_eq!(read_json(&file), Ok(None));
        assert_eq!(read_json(&file.join("below")), Ok(None));
        // A link to itself keeps even root from looking.
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
