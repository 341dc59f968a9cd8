//! Agents that Switchboard installed itself: packages of npm or `PyPI` in a prefix of our own, one folder for each version.
//!
//! They start without npx and uvx, so without the network: `node` runs the file that the package names, or the program of the
//! virtual environment runs. A version is made in a folder `.new-…` and renamed, so there is never half of one. The file `current`
//! names the version that is used.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use switchboard_transport::Program;

use super::{KnownAgent, MAX_PACKAGE, Package, Runner};
use crate::configuration;
use crate::outcome::CommandError;
use switchboard_acp::display::visible_line;

/// The description of an installation, in its folder.
const RECORD: &str = "installed.json";
/// The file with the version that is used, beside the versions.
const CURRENT: &str = "current";
/// Prefix of the folders of unfinished installations.
const NEW: &str = ".new-";
/// Number of versions that are kept: the current and the previous one.
const KEPT: usize = 2;
/// The longest version that is accepted.
const MAX_VERSION: usize = 100;
/// Maximum size of a lock file in bytes.
pub(super) const MAX_LOCK: u64 = 16 * 1024 * 1024;
/// The lock files of npm and uv, in the folder of an installation.
const NPM_LOCK: &str = "package-lock.json";
const UV_LOCK: &str = "lock.txt";

/// A version of an agent in our prefix.
#[derive(Debug, Clone)]
pub(crate) struct Installation {
    pub(crate) version: String,
    /// The digest of the package, as the lock file of npm or uv has it.
    pub(crate) integrity: String,
    /// Installation time in Unix milliseconds.
    pub(crate) since: u64,
    pub(crate) folder: PathBuf,
    /// The command line that starts the program of the package, without the agent's own arguments.
    start: Vec<String>,
}

/// Returns the folder with the installations of an agent.
fn place(agent: &KnownAgent) -> Option<PathBuf> {
    Some(configuration::data_folder()?.join("switchboard").join("agents").join(agent.name))
}

/// Returns whether a version can be the name of a folder.
pub(crate) fn is_version(text: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b".-+_!".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.len() <= MAX_VERSION
        && text.bytes().all(is_usual)
}

/// Returns the installation of a version, or the current one.
pub(crate) fn find(agent: &KnownAgent, version: Option<&str>) -> Option<Installation> {
    let place = place(agent)?;
    let version = match version {
        Some(version) => version.to_owned(),
        None => std::fs::read_to_string(place.join(CURRENT)).ok()?.trim().to_owned(),
    };
    is_version(&version).then(|| Installation::read(&place.join(&version))).flatten()
}

/// Returns all installations of an agent, newest first.
pub(crate) fn all(agent: &KnownAgent) -> Vec<Installation> {
    let folders = place(agent).and_then(|place| std::fs::read_dir(place).ok());
    let folders = folders.into_iter().flatten().flatten();
    let mut found: Vec<Installation> = folders
        .filter(|entry| entry.file_name().to_str().is_some_and(is_version))
        .filter_map(|entry| Installation::read(&entry.path()))
        .collect();
    found.sort_by_key(|installation| std::cmp::Reverse(installation.since));
    found
}

impl Installation {
    fn read(folder: &Path) -> Option<Self> {
        let record = read_json(&folder.join(RECORD), MAX_PACKAGE)?;
        let text = |key: &str| record.get(key)?.as_str().map(str::to_owned);
        let version = text("version")?;
        // Paths are kept relative to the folder, and the start is made of them here.
        let file = folder.join(text("file")?);
        if folder.file_name()?.to_str()? != version || !file.is_file() {
            return None;
        }
        let file = file.to_str()?.to_owned();
        let start = if record.get("node")?.as_bool()? { vec!["node".to_owned(), file] } else { vec![file] };
        Some(Installation {
            version,
            integrity: text("integrity")?,
            since: record.get("since")?.as_u64()?,
            folder: folder.to_owned(),
            start,
        })
    }

    /// Returns the command line that starts the agent.
    pub(crate) fn command_line(&self, package: &Package) -> Vec<String> {
        let arguments = package.arguments.iter().map(|word| (*word).to_owned());
        self.start.iter().cloned().chain(arguments).collect()
    }

    /// Returns the lock file of npm or uv that the installation was made with.
    pub(super) fn lock(&self, package: &Package) -> Option<String> {
        let file = match package.runner {
            Runner::Npx => NPM_LOCK,
            Runner::Uvx => UV_LOCK,
        };
        read_text(&self.folder.join(file), MAX_LOCK)
    }

    /// Returns the file that is executed.
    pub(crate) fn file(&self) -> PathBuf {
        self.start.last().map(PathBuf::from).unwrap_or_default()
    }
}

/// A version of a package that a registry has.
#[derive(Debug)]
pub(crate) struct Offer {
    agent: &'static KnownAgent,
    package: &'static Package,
    pub(crate) version: String,
    /// The size of the package alone, unpacked, where the registry says it.
    pub(crate) size: Option<u64>,
}

/// Asks the registry for a version of an agent, or for the newest. The names are those of npm and uv, with their settings.
pub(crate) fn offered(agent: &'static KnownAgent, version: Option<&str>) -> Result<Offer, CommandError> {
    let Some(package) = &agent.package else {
        return Err(CommandError::usage(format!("{} is not published as a package", agent.title))
            .hint(format!("to install it: {}", agent.install)));
    };
    if let Some(version) = version.filter(|version| !is_version(version)) {
        return Err(CommandError::usage(format!("\"{}\" is not a version", visible_line(version))));
    }
    let manager = manager(package.runner);
    if Program::new(manager).locate().is_err() {
        let needed = match package.runner {
            Runner::Npx => "npm, which comes with Node.js (https://nodejs.org)",
            Runner::Uvx => "uv (https://docs.astral.sh/uv)",
        };
        return Err(CommandError::usage(format!("{} is installed by {needed}", agent.title)));
    }
    let (found, size) = match package.runner {
        Runner::Npx => ask_npm(package, version)?,
        Runner::Uvx => (ask_uv(package, version)?, None),
    };
    if !is_version(&found) {
        return Err(CommandError::failed(format!(
            "{manager} names \"{}\" as the version of {}",
            visible_line(&found),
            package.name
        )));
    }
    Ok(Offer { agent, package, version: found, size })
}

pub(super) fn manager(runner: Runner) -> &'static str {
    match runner {
        Runner::Npx => "npm",
        Runner::Uvx => "uv",
    }
}

fn ask_npm(package: &Package, version: Option<&str>) -> Result<(String, Option<u64>), CommandError> {
    let wanted =
        version.map_or_else(|| package.name.to_owned(), |version| format!("{}@{version}", package.name));
    let mut command = Command::new("npm");
    command.args(["view", "--json", &wanted, "name", "version", "dist.unpackedSize"]);
    let answer = printed(&mut command)?;
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    match answer.get("version").and_then(Value::as_str) {
        Some(version) => Ok((version.to_owned(), answer.get("dist.unpackedSize").and_then(Value::as_u64))),
        None => Err(CommandError::failed(format!("the registry of npm has no {wanted}"))),
    }
}

/// Returns the version that uv would install.
fn ask_uv(package: &Package, version: Option<&str>) -> Result<String, CommandError> {
    let folder = tempfile::tempdir()
        .map_err(|error| CommandError::failed(format!("cannot make a folder: {error}")))?;
    let lock = compile(package, version, folder.path())?;
    locked(&lock, package.name).map(|(version, _)| version).ok_or_else(|| {
        CommandError::failed(format!("uv does not say which version of {} it would install", package.name))
    })
}

/// Returns the lock file of uv: versions and digests of a package and its dependencies.
fn compile(package: &Package, version: Option<&str>, folder: &Path) -> Result<String, CommandError> {
    let wanted =
        version.map_or_else(|| package.name.to_owned(), |version| format!("{}=={version}", package.name));
    let (wishes, lock) = (folder.join("wanted.txt"), folder.join(UV_LOCK));
    let failed =
        |error: std::io::Error| CommandError::failed(format!("cannot write {}: {error}", wishes.display()));
    std::fs::write(&wishes, format!("{wanted}\n")).map_err(failed)?;
    let mut command = Command::new("uv");
    command.args(["pip", "compile", "--quiet", "--no-header", "--generate-hashes", "--output-file"]);
    printed(command.arg(&lock).arg(&wishes))?;
    read_text(&lock, MAX_LOCK).ok_or_else(|| CommandError::failed(format!("cannot read {}", lock.display())))
}

/// Returns version and first digest of a package in a lock file of uv.
pub(super) fn locked(lock: &str, package: &str) -> Option<(String, String)> {
    let mut lines = lock.lines().skip_while(|line| !line.starts_with(&format!("{package}==")));
    let version = lines.next()?.split("==").nth(1)?.split([' ', ';', '\\']).next()?.to_owned();
    let hash = lines.next()?.trim().strip_prefix("--hash=")?.trim_end_matches(['\\', ' ']).to_owned();
    Some((version, hash))
}

impl Offer {
    /// Returns one line for the user who decides.
    pub(crate) fn description(&self) -> String {
        let size = self.size.map(|size| format!(", {}", crate::units::size(size))).unwrap_or_default();
        let manager = manager(self.package.runner);
        format!(
            "{} {} ({}, by {manager}{size}, and everything that it needs)",
            self.agent.title, self.version, self.package.name
        )
    }

    /// Installs it, or finds it installed, and makes it the current one.
    pub(crate) fn install(&self) -> Result<Installation, CommandError> {
        let is_installed = find(self.agent, Some(&self.version)).is_some();
        self.prepared(|_| is_installed, None)?.finish()
    }

    /// Makes an installation in a folder of its own, unless the existing one is as wanted. With `lock`, it has exactly the
    /// packages of this lock file of npm or uv.
    fn prepared(
        &self,
        is_wanted: impl FnOnce(&Path) -> bool,
        lock: Option<&str>,
    ) -> Result<Prepared, CommandError> {
        let place = place(self.agent)
            .ok_or_else(|| CommandError::usage("there is no folder for agents: HOME is not set"))?;
        let failed = |error: std::io::Error| unwritable(&place, &error);
        let mut new = None;
        if !is_wanted(&place.join(&self.version)) {
            make_private(&place).map_err(failed)?;
            remove_abandoned(&place);
            let folder = tempfile::Builder::new().prefix(NEW).tempdir_in(&place).map_err(failed)?;
            let record = match self.package.runner {
                Runner::Npx => self.by_npm(folder.path(), lock)?,
                Runner::Uvx => self.by_uv(folder.path(), lock)?,
            };
            std::fs::write(folder.path().join(RECORD), record.to_string()).map_err(failed)?;
            new = Some(folder);
        }
        Ok(Prepared { agent: self.agent, version: self.version.clone(), place, new })
    }

    /// Makes what a lock file describes, in a folder of its own. Fails if that is not what the lock says.
    pub(super) fn prepare_locked(&self, lock: &str, integrity: &str) -> Result<Prepared, CommandError> {
        let is_wanted = |folder: &Path| {
            Installation::read(folder).is_some_and(|found| found.lock(self.package).as_deref() == Some(lock))
        };
        let prepared = self.prepared(is_wanted, Some(lock))?;
        let record = prepared.new.as_ref().and_then(|new| read_json(&new.path().join(RECORD), MAX_PACKAGE));
        if let Some(record) = record
            && record.get("integrity").and_then(Value::as_str) != Some(integrity)
        {
            return Err(CommandError::failed(format!(
                "the lock names two digests of {} {}; nothing was changed",
                self.package.name, self.version
            )));
        }
        Ok(prepared)
    }

    pub(super) fn of_lock(agent: &'static KnownAgent, package: &'static Package, version: &str) -> Self {
        Offer { agent, package, version: version.to_owned(), size: None }
    }

    fn by_npm(&self, folder: &Path, lock: Option<&str>) -> Result<Value, CommandError> {
        let name = self.package.name;
        let wishes = json!({"private": true, "dependencies": {name: format!("={}", self.version)}});
        let failed = |error: std::io::Error| {
            CommandError::failed(format!("cannot write {}: {error}", folder.display()))
        };
        std::fs::write(folder.join("package.json"), wishes.to_string()).map_err(failed)?;
        let file = folder.join(NPM_LOCK);
        let mut npm = Command::new("npm");
        match lock {
            Some(lock) => {
                std::fs::write(&file, lock).map_err(failed)?;
                npm.arg("ci");
            }
            None => {
                npm.args(["install", "--save-exact"]);
            }
        }
        // Install scripts are untrusted code.
        npm.args(["--ignore-scripts", "--no-audit", "--no-fund", "--install-strategy=hoisted"]);
        printed(npm.current_dir(folder))?;
        let key = format!("node_modules/{name}");
        let lock = read_json(&file, MAX_LOCK);
        let integrity =
            lock.as_ref().and_then(|lock| lock.get("packages")?.get(&key)?.get("integrity")?.as_str());
        let integrity = integrity.ok_or_else(|| {
            CommandError::failed(format!("npm recorded no integrity of {name}; nothing was installed"))
        })?;
        let description = read_json(&folder.join(&key).join("package.json"), MAX_PACKAGE);
        let file = description.as_ref().and_then(|description| program_of(name, description));
        let file = file.ok_or_else(|| CommandError::failed(format!("{name} has no program to run")))?;
        let file = format!("{key}/{file}");
        let node = is_script_for_node(&folder.join(&file));
        Ok(self.record(&file, node, integrity))
    }

    fn by_uv(&self, folder: &Path, lock: Option<&str>) -> Result<Value, CommandError> {
        let name = self.package.name;
        let lock = match lock {
            Some(lock) => {
                let file = folder.join(UV_LOCK);
                std::fs::write(&file, lock).map_err(|error| unwritable(&file, &error))?;
                lock.to_owned()
            }
            None => compile(self.package, Some(&self.version), folder)?,
        };
        let integrity = locked(&lock, name).map(|(_, integrity)| integrity);
        let integrity = integrity.ok_or_else(|| {
            CommandError::failed(format!("uv recorded no digest of {name}; nothing was installed"))
        })?;
        // The folder is renamed in the end.
        printed(Command::new("uv").args(["venv", "--quiet", "--relocatable", "venv"]).current_dir(folder))?;
        // Wheels only: building runs untrusted code.
        let options = [
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--no-build",
            "--python",
            "venv",
            "-r",
            UV_LOCK,
        ];
        printed(Command::new("uv").args(options).current_dir(folder))?;
        Ok(self.record(&format!("venv/bin/{name}"), false, &integrity))
    }

    fn record(&self, file: &str, node: bool, integrity: &str) -> Value {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        json!({
            "package": self.package.name,
            "version": self.version,
            "integrity": integrity,
            "since": since,
            "file": file,
            "node": node,
        })
    }
}

/// An installation before it is used. It is removed unless it is finished.
#[derive(Debug)]
pub(crate) struct Prepared {
    agent: &'static KnownAgent,
    version: String,
    place: PathBuf,
    /// `None` if the version was installed before.
    new: Option<tempfile::TempDir>,
}

impl Prepared {
    /// Puts it to its place, makes it the current one, and removes versions that are too old to be kept.
    pub(crate) fn finish(self) -> Result<Installation, CommandError> {
        let Prepared { agent, version, place, new } = self;
        let failed = |error: std::io::Error| unwritable(&place, &error);
        if let Some(new) = new {
            let folder = place.join(&version);
            // One that is damaged, or has other packages, would be in the way.
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::rename(new.path(), &folder).map_err(failed)?;
        }
        let found = find(agent, Some(&version)).ok_or_else(|| {
            CommandError::failed(format!("{} {version} does not have the program that it names", agent.title))
        })?;
        use_version(&place, &version).map_err(failed)?;
        for old in all(agent).into_iter().filter(|other| other.version != version).skip(KEPT - 1) {
            let _ = std::fs::remove_dir_all(old.folder);
        }
        Ok(found)
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::failed(format!("cannot write {}: {error}", path.display()))
}

/// Removes installations: one version, or all of them. Returns the versions that were removed.
pub(crate) fn remove(agent: &KnownAgent, version: Option<&str>) -> Result<Vec<String>, CommandError> {
    let Some(place) = place(agent) else { return Ok(Vec::new()) };
    let failed =
        |error: std::io::Error| CommandError::failed(format!("cannot remove {}: {error}", place.display()));
    let mut removed = Vec::new();
    for found in all(agent).into_iter().filter(|found| version.is_none_or(|version| found.version == version))
    {
        std::fs::remove_dir_all(&found.folder).map_err(failed)?;
        removed.push(found.version);
    }
    match all(agent).first() {
        Some(newest) if find(agent, None).is_none() => {
            use_version(&place, &newest.version).map_err(failed)?;
        }
        Some(_) => {}
        // Also what was never finished.
        None if place.exists() => std::fs::remove_dir_all(&place).map_err(failed)?,
        None => {}
    }
    Ok(removed)
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Makes a version the current one, by renaming.
fn use_version(place: &Path, version: &str) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(place)?;
    std::io::Write::write_all(&mut file, format!("{version}\n").as_bytes())?;
    file.persist(place.join(CURRENT)).map(drop).map_err(|error| error.error)
}

/// Removes folders of installations that were interrupted. A recent one may be another process at work.
fn remove_abandoned(place: &Path) {
    const LONG_AGO: std::time::Duration = std::time::Duration::from_secs(3600);
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let is_new = entry.file_name().to_string_lossy().starts_with(NEW);
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LONG_AGO));
        if is_new && is_old {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the program of an npm package: its only one, or the one with the name of the package. Never a file outside of it.
fn program_of(package: &str, description: &Value) -> Option<String> {
    let bin = description.get("bin")?;
    let file = match bin {
        Value::String(file) => file,
        Value::Object(programs) => {
            let name = package.rsplit('/').next().unwrap_or(package);
            let mut files: Vec<&str> = programs.values().filter_map(Value::as_str).collect();
            files.sort_unstable();
            files.dedup();
            match (programs.get(name).and_then(Value::as_str), &files[..]) {
                (Some(file), _) => file,
                (None, [file]) => file,
                _ => return None,
            }
        }
        _ => return None,
    };
    let file = file.trim_start_matches("./");
    let is_inside = Path::new(file).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    (is_inside && !file.is_empty()).then(|| file.to_owned())
}

/// Returns whether the first line of a file names node.
fn is_script_for_node(file: &Path) -> bool {
    use std::io::Read;
    let mut begin = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(128).read_to_end(&mut begin));
    let line = begin.split(|byte| *byte == b'\n').next().unwrap_or_default();
    read.is_ok() && line.starts_with(b"#!") && String::from_utf8_lossy(line).contains("node")
}

/// Runs a command and returns its standard output. A failure is an error with the first lines of its standard error.
fn printed(command: &mut Command) -> Result<String, CommandError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| CommandError::failed(format!("cannot start {program}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<String> = said.lines().filter(|line| !line.trim().is_empty()).map(visible_line).collect();
    let mut error =
        CommandError::failed(format!("{program} failed ({}); nothing was changed", output.status));
    for line in &lines[..lines.len().min(6)] {
        error = error.hint(line);
    }
    Err(error)
}

fn read_json(file: &Path, limit: u64) -> Option<Value> {
    serde_json::from_str(&read_text(file, limit)?).ok()
}

fn read_text(file: &Path, limit: u64) -> Option<String> {
    file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() <= limit)?;
    std::fs::read_to_string(file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_names_of_folders_and_nothing_else() {
        for good in ["1.2.3", "0.99.1-beta.2", "2026.11.18+x", "1!2.0"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", "latest", "../x", "1/2", "1 2", ".new-1", "^1.0", &"1".repeat(101)] {
            assert!(!is_version(bad), "{bad}");
        }
    }

    #[test]
    fn the_program_of_a_package_is_never_outside_of_it() {
        let chosen = |bin: Value| program_of("@a/b", &json!({"bin": bin}));
        assert_eq!(chosen(json!("./dist/x.js")).as_deref(), Some("dist/x.js"));
        assert_eq!(chosen(json!({"b": "b.js", "c": "c.js"})).as_deref(), Some("b.js"));
        assert_eq!(chosen(json!({"other": "x.js"})).as_deref(), Some("x.js"));
        assert_eq!(chosen(json!({"c": "c.js", "d": "d.js"})), None);
        for bad in [json!("../../x"), json!("/bin/sh"), json!(""), json!(7), json!({"b": "a/../../x"})] {
            assert_eq!(chosen(bad.clone()), None, "{bad}");
        }
    }

    #[test]
    fn the_digest_of_a_package_is_read_from_the_lock_of_uv() {
        let lock = "aiohttp==3.1 \\\n    --hash=sha256:00\nfast-agent-mcp==0.4.2 \\\n    --hash=sha256:ab12 \\\n    --hash=sha256:cd\n";
        assert_eq!(locked(lock, "fast-agent-mcp"), Some(("0.4.2".to_owned(), "sha256:ab12".to_owned())));
        assert_eq!(locked(lock, "fast"), None);
    }
}
