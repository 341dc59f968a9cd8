//! `cargo xtask dist`: packages of a release. All packages of a platform contain the same program.

mod build;
mod check;
mod deb;
mod files;
mod formula;
mod licences;
mod npm;
mod platforms;
mod registry;
mod userland;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::files::{Compression, Files, make_folder, read, remove_folder, sha256, write};
use self::platforms::Platform;
use crate::root;
use crate::setup::target;

/// Name of the packages in all registries.
const PACKAGE: &str = "switchboard-acp";
const DESCRIPTION: &str = "Run any coding agent in any ACP client; record, inspect and replay sessions";
const HOMEPAGE: &str = "https://github.com/switchboard-acp/switchboard";

/// Contents of all packages of a platform.
#[derive(Debug)]
struct Release {
    version: String,
    program: Vec<u8>,
    /// Manual pages, completions, documents and licences, by their paths in the archive.
    extras: Files,
}

/// Runs `cargo xtask dist` with its arguments.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    match *words {
        [] => release(&build::host()?, &target().join("dist")),
        ["--target", triple] => release(triple, &target().join("dist")),
        ["--program", program, "--to", to] => of_program(Path::new(program), Path::new(to)),
        ["--finish", folder] => finish(Path::new(folder)),
        ["--platforms"] => platforms::print_matrix(),
        ["--check"] => check::all(&target().join("dist")),
        ["--check", folder] => check::all(Path::new(folder)),
        ["--registry", folder] => registry::serve(Path::new(folder)),
        _ => Err(crate::HELP.to_owned()),
    }
}

/// Builds the program for a target and makes its packages in `to`.
fn release(triple: &str, to: &Path) -> Result<(), String> {
    let platform = platforms::find(triple)?;
    let program = build::release(&platform)?;
    remove_folder(to)?;
    make(&platform, &program, to, Compression::Best)?;
    finish(to)?;
    check::packages(to, &platform)
}

/// Makes packages of an existing program for tests: stripped, and with fast compression.
fn of_program(program: &Path, to: &Path) -> Result<(), String> {
    let platform = platforms::find(&build::host()?)?;
    make_folder(to)?;
    let stripped = to.join(".program");
    std::fs::copy(program, &stripped)
        .map_err(|error| format!("cannot copy {}: {error}", program.display()))?;
    text_of(Command::new("strip").arg(&stripped))?;
    make(&platform, &stripped, to, Compression::Fast)?;
    std::fs::remove_file(&stripped).map_err(|error| format!("{}: {error}", stripped.display()))?;
    finish(to)
}

/// Makes the packages of one platform.
fn make(platform: &Platform, program: &Path, to: &Path, compression: Compression) -> Result<(), String> {
    make_folder(to)?;
    let release = Release::new(platform, program)?;
    let name = archive_name(&release.version, &platform.target);
    let mut files = release.extras.clone();
    files.add_program("switchboard", release.program.clone());
    files.write_tar(&name, &to.join(format!("{name}.tar.gz")), compression)?;
    npm::make_platform(&release, platform, to, compression)?;
    wheel::make(&release, platform, to, compression)?;
    deb::make(&release, platform, to, compression)
}

impl Release {
    fn new(platform: &Platform, program: &Path) -> Result<Self, String> {
        let version = text_of(Command::new(program).arg("--version"))?;
        let version = version
            .trim()
            .strip_prefix("switchboard ")
            .ok_or_else(|| format!("{} does not print its version", program.display()))?
            .to_owned();
        let mut extras = Files::default();
        for (shell, file) in
            [("bash", "switchboard.bash"), ("zsh", "_switchboard"), ("fish", "switchboard.fish")]
        {
            let text = text_of(Command::new(program).args(["completions", shell]))?;
            extras.add(format!("completions/{file}"), text);
        }
        let man = target().join("dist-man");
        remove_folder(&man)?;
        text_of(Command::new(program).arg("man").arg(&man))?;
        extras.copy_folder("man", &man)?;
        remove_folder(&man)?;
        for file in ["README.md", "LICENSE", "CHANGELOG.md"] {
            extras.copy(file, &root().join(file))?;
        }
        licences::add(&mut extras, &platform.target)?;
        Ok(Release { version, program: read(program)?, extras })
    }
}

/// Makes everything that is common to all platforms from the archives in the folder: the npm launcher, the install script, the
/// formula and the checksums.
fn finish(folder: &Path) -> Result<(), String> {
    let archives = archives(folder)?;
    let version = match &archives[..] {
        [] => return Err(format!("{} has no archive of a platform", folder.display())),
        [(version, _), rest @ ..] => match rest.iter().find(|(other, _)| other != version) {
            Some((other, _)) => {
                return Err(format!("{} has archives of {version} and {other}", folder.display()));
            }
            None => version.clone(),
        },
    };
    npm::make_launcher(&version, folder)?;
    write(&folder.join("install.sh"), read(&root().join("packaging/install.sh"))?)?;
    files::set_mode(&folder.join("install.sh"), 0o755)?;
    let mut summed = Vec::new();
    for (_, target) in &archives {
        let archive = folder.join(format!("{}.tar.gz", archive_name(&version, target)));
        summed.push((target.clone(), sha256(&read(&archive)?)));
    }
    write(&folder.join("switchboard-acp.rb"), formula::text(&version, &summed))?;
    let mut sums = String::new();
    for name in file_names(folder)? {
        if name != "SHA256SUMS" {
            sums += &format!("{}  {name}\n", sha256(&read(&folder.join(&name))?));
        }
    }
    write(&folder.join("SHA256SUMS"), sums)?;
    for name in file_names(folder)? {
        let size = folder.join(&name).metadata().map_or(0, |metadata| metadata.len());
        println!("{:>9} kB  {}", size / 1000, folder.join(&name).display());
    }
    Ok(())
}

/// Returns version and target of each archive in a folder.
fn archives(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let targets: Vec<String> = platforms::all()?.into_iter().map(|platform| platform.target).collect();
    let mut found = Vec::new();
    for name in file_names(folder)? {
        let Some(stem) = name.strip_prefix("switchboard-").and_then(|name| name.strip_suffix(".tar.gz"))
        else {
            continue;
        };
        let target = targets.iter().find(|target| stem.ends_with(&format!("-{target}")));
        let target = target.ok_or_else(|| format!("{name}: its platform is not in platforms.toml"))?;
        found.push((stem[..stem.len() - target.len() - 1].to_owned(), target.clone()));
    }
    Ok(found)
}

/// Returns the sorted names of the files in a folder.
fn file_names(folder: &Path) -> Result<Vec<String>, String> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let files = entries.flatten().filter(|entry| entry.path().is_file());
    let mut names: Vec<String> =
        files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Returns the name of an archive, and of the only folder in it.
fn archive_name(version: &str, target: &str) -> String {
    format!("switchboard-{version}-{target}")
}

/// Returns the address of a release's archive.
fn archive_url(version: &str, target: &str) -> String {
    format!("{HOMEPAGE}/releases/download/v{version}/{}.tar.gz", archive_name(version, target))
}

/// Returns the only file in a folder whose name has this end.
fn only_file(folder: &Path, end: &str) -> Result<PathBuf, String> {
    let mut found = file_names(folder)?.into_iter().filter(|name| name.ends_with(end));
    match (found.next(), found.next()) {
        (Some(name), None) => Ok(folder.join(name)),
        _ => Err(format!("{} does not have exactly one file *{end}", folder.display())),
    }
}

/// Returns the output of a command. Fails if the command fails.
fn text_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("failed ({}): {command:?}\n{printed}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{command:?} does not print text"))
}
