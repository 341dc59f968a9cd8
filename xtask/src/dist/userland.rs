//! Test of the packaged program in an old system: a root with the C library and the shell of Ubuntu 18.04 (glibc 2.27) and an empty
//! home, without Rust, Node.js and a compiler.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::files::{make_folder, read, remove_folder, sha256, write};
use super::platforms::Platform;
use super::{only_file, text_of};
use crate::setup::target;

const MIRROR: &str = "http://archive.ubuntu.com/ubuntu";
const SUITE: &str = "bionic";
/// Packages of the old system. `busybox-static` provides all programs except the shell.
const PACKAGES: [&str; 5] = ["libc6", "libgcc1", "gcc-8-base", "dash", "busybox-static"];

/// Returns a command that runs in the root, with its own processes, devices and temporary files. All of them end with the first process.
const INSIDE: &str = r#"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/tmp"
root=$1
shift
exec chroot "$root" /bin/env -i HOME=/home/user PATH=/bin:/usr/bin TERM=dumb TMPDIR=/tmp $VARIABLES "$@"
"#;

/// Tests the archive's program in the old system.
pub(super) fn check(folder: &Path, platform: &Platform) -> Result<(), String> {
    println!("\n==> the archive in {SUITE}");
    let root = assemble()?;
    let archive = only_file(folder, &format!("-{}.tar.gz", platform.target))?;
    text_of(
        Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .args(["--strip-components=1", "-C"])
            .arg(root.join("opt")),
    )?;
    println!(
        "{}",
        output(&root, &["/bin/sh", "-c", "/lib/x86_64-linux-gnu/libc.so.6 | busybox head -n 1"])?.trim()
    );
    for program in ["cargo", "node", "cc", "python3"] {
        if output(&root, &["/bin/sh", "-c", &format!("command -v {program}")]).is_ok() {
            return Err(format!("the old system has {program}"));
        }
    }
    let switchboard = |arguments: &[&str]| {
        let words: Vec<&str> = ["/opt/switchboard"].iter().chain(arguments).copied().collect();
        output(&root, &words)
    };
    expect("--version --json", &switchboard(&["--version", "--json"])?, "\"channel\":\"archive\"")?;
    expect("run", &switchboard(&["run", "demo", "hi"])?, "You said: hi")?;
    expect("doctor", &switchboard(&["doctor", "--min-free", "1B"])?, "switchboard: version")?;
    check_open(&root)?;
    check_serve(&root)
}

/// Tests that `open` serves its page.
fn check_open(root: &Path) -> Result<(), String> {
    let mut open = Running::start(root, &["open", "demo", "--no-browser"])?;
    let link = open.line_with("http://")?;
    let page = get(link.trim())?;
    expect("open", &page, "<title>")?;
    open.end()
}

/// Tests that a prompt is answered through a hub.
fn check_serve(root: &Path) -> Result<(), String> {
    let mut hub = Running::start(
        root,
        &["serve", "demo", "--listen", "127.0.0.1:0", "--token-file", "/home/user/token"],
    )?;
    let line = hub.line_with("://127.0.0.1:")?;
    let address = line.split_whitespace().find(|word| word.contains("://127.0.0.1:")).unwrap_or_default();
    let port = address.rsplit(':').next().unwrap_or_default().split('/').next().unwrap_or_default();
    let token = read(&root.join("home/user/token"))?;
    let token = String::from_utf8_lossy(&token).trim().to_owned();
    let url = format!("ws://127.0.0.1:{port}/acp");
    let answer = text_of(
        inside(root, &["/opt/switchboard", "run", "hi", "--", &url])
            .env("VARIABLES", format!("SWITCHBOARD_TOKEN={token}")),
    )?;
    expect("serve", &answer, "You said: hi")?;
    hub.end()
}

fn expect(what: &str, text: &str, words: &str) -> Result<(), String> {
    if text.contains(words) {
        println!("{what}: works");
        Ok(())
    } else {
        Err(format!("{what}: {words:?} is not in:\n{text}"))
    }
}

/// Downloads the packages, verifies their checksums and unpacks them into a root.
fn assemble() -> Result<PathBuf, String> {
    let folder = target().join("old-system");
    let (packages, root) = (folder.join("packages"), folder.join("root"));
    make_folder(&packages)?;
    remove_folder(&root)?;
    for part in ["proc", "dev", "tmp", "opt", "home/user"] {
        make_folder(&root.join(part))?;
    }
    let index = packages.join("Packages");
    if !index.exists() {
        let address = format!("{MIRROR}/dists/{SUITE}/main/binary-amd64/Packages.gz");
        let text = text_of(Command::new("sh").args(["-c", "curl -fsSL \"$1\" | gzip -dc", "sh", &address]))?;
        write(&index, text)?;
    }
    let index = String::from_utf8_lossy(&read(&index)?).into_owned();
    for name in PACKAGES {
        let entry = index.split("\n\n").find(|entry| entry.starts_with(&format!("Package: {name}\n")));
        let entry = entry.ok_or_else(|| format!("{SUITE} has no package {name}"))?;
        let fields: BTreeMap<&str, &str> = entry.lines().filter_map(|line| line.split_once(": ")).collect();
        let (Some(path), Some(checksum)) = (fields.get("Filename"), fields.get("SHA256")) else {
            return Err(format!("the entry of {name} has no file and checksum"));
        };
        let file = packages.join(format!("{name}.deb"));
        if !file.exists() || sha256(&read(&file)?) != *checksum {
            let address = format!("{MIRROR}/{path}");
            text_of(Command::new("curl").args(["-fsSL", "-o"]).arg(&file).arg(address))?;
        }
        if sha256(&read(&file)?) != *checksum {
            return Err(format!("{} does not have the checksum of the index", file.display()));
        }
        text_of(Command::new("dpkg-deb").arg("-x").args([&file, &root]))?;
    }
    if !root.join("bin/sh").exists() {
        std::os::unix::fs::symlink("dash", root.join("bin/sh")).map_err(|error| error.to_string())?;
    }
    for name in ["sleep", "cat", "kill", "env"] {
        let link = root.join("bin").join(name);
        std::os::unix::fs::symlink("busybox", link).map_err(|error| error.to_string())?;
    }
    Ok(root)
}

/// A command in the old system.
fn inside(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", INSIDE, "sh"])
        .arg(root)
        .args(words)
        .env("VARIABLES", "")
        .stdin(Stdio::null());
    command
}

fn output(root: &Path, words: &[&str]) -> Result<String, String> {
    text_of(&mut inside(root, words))
}

/// A program that runs in the old system until it is ended.
struct Running {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(root: &Path, arguments: &[&str]) -> Result<Self, String> {
        let words: Vec<&str> = ["/opt/switchboard"].iter().chain(arguments).copied().collect();
        let mut process = inside(root, &words)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start unshare: {error}"))?;
        let output = process.stdout.take().ok_or("there is no standard output")?;
        Ok(Running { process, output: BufReader::new(output) })
    }

    /// Waits for the first line of output with these words, and returns it.
    fn line_with(&mut self, words: &str) -> Result<String, String> {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).map_err(|error| error.to_string())?;
            if line.contains(words) {
                return Ok(line);
            }
            if read == 0 {
                return Err(format!("the program ended without a line that has {words:?}"));
            }
        }
    }

    fn end(mut self) -> Result<(), String> {
        // The first process of the root ends with it, and with that all others.
        self.process.kill().and_then(|()| self.process.wait()).map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Fetches the page at an address on this machine.
fn get(url: &str) -> Result<String, String> {
    text_of(Command::new("curl").args(["-fsSL", "--cookie", "", url]))
}
