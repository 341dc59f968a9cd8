//! Runs the examples against each other.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{root, setup};

/// Timeout in seconds, longer than any example takes on a busy machine.
const PATIENCE: &str = "60";

/// Runs all examples, which have been built to a folder.
pub(crate) fn run(programs: &Path) -> Result<(), String> {
    println!("\n==> examples");
    let folder = setup::target().join("examples");
    let examples = Examples { programs: programs.to_owned(), folder: folder.clone() };
    let _ = std::fs::remove_dir_all(&folder);
    examples.edits("plain", &["example-agent"])?;
    examples.edits("version-1", &["example-agent", "--version-1"])?;
    examples.edits("bridged", &["example-bridge", "example-agent", "--version-1"])?;
    examples.over_websocket()?;
    examples.folds()?;
    examples.compares()?;
    std::fs::remove_dir_all(&folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))
}

struct Examples {
    programs: PathBuf,
    folder: PathBuf,
}

impl Examples {
    /// Creates a folder with files.
    fn folder(&self, name: &str, files: &[(&str, &str)]) -> Result<String, String> {
        let folder = self.folder.join(name);
        let made = std::fs::create_dir_all(&folder)
            .and_then(|()| files.iter().try_for_each(|(file, text)| std::fs::write(folder.join(file), text)))
            .and_then(|()| folder.canonicalize());
        let folder = made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        folder
            .into_os_string()
            .into_string()
            .map_err(|_| "the path of the target folder is not valid UTF-8".to_owned())
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        // Programs that start others find them by name.
        let old = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.programs.clone()).chain(std::env::split_paths(&old));
        let mut command = Command::new("timeout");
        command.args([PATIENCE, name]).args(arguments);
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
        command
    }

    /// Checks that an example prints all of these texts.
    fn prints(&self, name: &str, arguments: &[&str], wanted: &[&str]) -> Result<(), String> {
        let output = self
            .command(name, arguments)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let missing = wanted.iter().find(|wanted| !printed.contains(**wanted));
        let line = format!("{name} {}", arguments.join(" "));
        match missing {
            _ if !output.status.success() => Err(format!("failed ({}): {line}\n{printed}", output.status)),
            Some(missing) => Err(format!("{line} does not print \"{missing}\":\n{printed}")),
            None => {
                println!("{line}");
                Ok(())
            }
        }
    }

    /// Runs the agent with the client.
    fn edits(&self, name: &str, agent: &[&str]) -> Result<(), String> {
        let folder = self.folder(name, &[("notes.txt", "bread\n")])?;
        let arguments = [&[folder.as_str(), "notes.txt: milk"], agent].concat();
        let wanted = [
            "agent: example-editor",
            "asked: ",
            "Edit notes.txt [completed]",
            "state: Idle",
            "end: end_turn",
        ];
        self.prints("example-client", &arguments, &wanted)?;
        let edited = std::fs::read_to_string(Path::new(&folder).join("notes.txt")).unwrap_or_default();
        if edited == "bread\nmilk\n" { Ok(()) } else { Err(format!("the file was not edited: {edited:?}")) }
    }

    fn over_websocket(&self) -> Result<(), String> {
        let mut server = self
            .command("example-websocket", &[])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start example-websocket: {error}"))?;
        let mut url = String::new();
        let read = server.stdout.take().map(|output| BufReader::new(output).read_line(&mut url));
        let outcome = match read {
            Some(Ok(_)) => self.folder("websocket", &[]).and_then(|folder| {
                let wanted = ["agent: example-echo", "hello", "end: end_turn"];
                self.prints("example-client", &[&folder, "hello", url.trim()], &wanted)
            }),
            _ => Err("example-websocket does not print its address".to_owned()),
        };
        // `timeout` forwards the signal.
        let stopped = Command::new("kill").arg(server.id().to_string()).status();
        let _ = stopped.and_then(|_| server.wait());
        outcome
    }

    fn folds(&self) -> Result<(), String> {
        let recording = root().join("fixtures/recordings/demo-edit-v2.jsonl");
        let recording = recording.to_str().ok_or("the path of the repository is not valid UTF-8")?;
        self.prints("example-fold", &[recording], &["in the middle: ", "at the end: ", "new: ", "Idle"])
    }

    fn compares(&self) -> Result<(), String> {
        let before =
            [("kept.txt", "same\n"), ("list.txt", "one\ntwo\n"), ("gone.txt", "nothing like the others\n")];
        let after =
            [("kept.txt", "same\n"), ("list.txt", "one\n2\n"), ("new.txt", "made just now, for this\n")];
        let (old, new) = (self.folder("old", &before)?, self.folder("new", &after)?);
        let copy = self.folder("copy", &before)?;
        let wanted = ["modify: ", "add: ", "delete: ", "copy/list.txt", "copy/gone.txt"];
        self.prints("example-diff", &[&old, &new, &copy], &wanted)?;
        for (file, text) in after {
            if std::fs::read_to_string(Path::new(&copy).join(file)).ok().as_deref() != Some(text) {
                return Err(format!("{file} is not what the diff makes of it"));
            }
        }
        let is_gone = !Path::new(&copy).join("gone.txt").exists();
        if is_gone { Ok(()) } else { Err("gone.txt is still there".to_owned()) }
    }
}
