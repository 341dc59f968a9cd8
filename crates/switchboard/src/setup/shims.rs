//! Shims: small scripts with the name of an agent's program, for clients that find their agents on the `PATH`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::command_line::CommandLine;
use crate::agents::{self, KnownAgent};
use crate::configuration::data_folder;
use crate::outcome::CommandError;

/// First comment of every shim, by which our own files are recognized.
const MARK: &str = "# Written by `switchboard setup`; `--undo` removes it.";

/// A script that runs an agent through Switchboard.
#[derive(Debug)]
pub(crate) struct Shim {
    /// The path of the script.
    pub(crate) path: PathBuf,
    /// The word by which a client starts the agent, if its program can do more than that.
    call: Option<&'static str>,
    /// The agent's own program.
    program: PathBuf,
}

/// Returns the folder of the shims.
fn folder() -> Result<PathBuf, CommandError> {
    let data = data_folder().ok_or_else(|| {
        CommandError::usage("there is no place for a shim: HOME is not set")
            .hint("set HOME to your home folder")
    })?;
    Ok(data.join("switchboard").join("shims"))
}

fn known(agent: &str) -> Result<&'static KnownAgent, CommandError> {
    agents::find(agent).ok_or_else(|| {
        CommandError::usage(format!("\"{agent}\" is not a known agent, so no client looks for its program"))
            .hint("`switchboard agents` lists the known ones")
    })
}

impl Shim {
    /// Returns the shim of a known agent that is on the `PATH`. The folder of the shims itself is not searched: a shim that
    /// starts itself would never end.
    pub(crate) fn of(agent: &str) -> Result<Self, CommandError> {
        let (agent, folder) = (known(agent)?, folder()?);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let shims = real(&folder);
        let places: Vec<PathBuf> =
            std::env::split_paths(&path).filter(|place| real(place) != shims).collect();
        let is_program = |file: &PathBuf| {
            file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        let found = agent.commands.iter().find_map(|command| {
            let name = command.first()?;
            let program = places.iter().map(|place| place.join(name)).find(is_program)?;
            Some(Shim { path: folder.join(name), call: command.get(1).copied(), program })
        });
        found.ok_or_else(|| {
            CommandError::usage(format!("{} is not on the PATH", agent.title))
                .hint(format!("to install it: {}", agent.install))
        })
    }

    /// Returns the shims of an agent that were written earlier.
    pub(crate) fn written(agent: &str) -> Result<Vec<PathBuf>, CommandError> {
        let (agent, folder) = (known(agent)?, folder()?);
        let paths = agent.commands.iter().filter_map(|command| Some(folder.join(command.first()?)));
        let mut paths: Vec<PathBuf> = paths.filter(|path| is_ours(path)).collect();
        paths.dedup();
        Ok(paths)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Returns the agent's command line without the words of a client.
    pub(crate) fn program(&self) -> Result<String, CommandError> {
        self.program.to_str().map(str::to_owned).ok_or_else(|| {
            CommandError::failed(format!("the path {} is not valid UTF-8", self.program.display()))
        })
    }

    /// Returns the script that runs the agent by a command line of this program. A program that people also use by hand gets
    /// everything else as it is.
    pub(crate) fn script(&self, switchboard: &str, line: &CommandLine) -> String {
        let words = std::iter::once(switchboard.to_owned()).chain(line.arguments());
        let words: Vec<String> = words.map(|word| quoted(&word)).collect();
        // A hub knows the agent's own arguments.
        let rest = if matches!(line, CommandLine::Bridge(_)) { " \"$@\"" } else { "" };
        let run = format!("exec {}{rest}", words.join(" "));
        let program = quoted(&self.program.display().to_string());
        match self.call {
            None => format!("#!/bin/sh\n{MARK}\n{run}\n"),
            Some(call) => format!(
                "#!/bin/sh\n{MARK}\nif [ \"$1\" = {} ]; then\n    {run}\nfi\nexec {program} \"$@\"\n",
                quoted(call)
            ),
        }
    }
}

/// Returns whether a file is a shim that was written by `setup`.
pub(crate) fn is_ours(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.lines().nth(1) == Some(MARK))
}

/// Quotes a word for a POSIX shell.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-:=@%+,".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::super::command_line::{BridgeLine, BridgeOptions};
    use super::*;

    #[test]
    fn only_the_call_of_a_client_goes_through_switchboard() {
        let shim = |call| Shim { path: "/d/shims/x".into(), call, program: "/real bin/it's".into() };
        let script = |call| {
            let shim: Shim = shim(call);
            let line = BridgeLine::of_command(vec![shim.program().unwrap()], &BridgeOptions::default());
            shim.script("/bin/switchboard", &CommandLine::Bridge(line))
        };
        let run = "exec /bin/switchboard bridge --record -- '/real bin/it'\\''s' \"$@\"\n";
        assert_eq!(script(None), format!("#!/bin/sh\n{MARK}\n{run}"));
        assert_eq!(
            script(Some("acp")),
            format!(
                "#!/bin/sh\n{MARK}\nif [ \"$1\" = acp ]; then\n    {run}fi\nexec '/real bin/it'\\''s' \"$@\"\n"
            )
        );
    }
}
