//! `install.sh`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::place::{Home, Registry, Running, file, packages, successful, text, version};

const OLD: &str = "#!/bin/sh\necho switchboard 0.0.1\n";

fn script() -> PathBuf {
    packages().join("install.sh")
}

/// The script in an empty home, with releases of a registry.
fn install(home: &Home, releases: &str) -> Command {
    let mut command = home.command("sh");
    command.arg(script()).env("SWITCHBOARD_RELEASES", format!("{releases}/releases"));
    command
}

fn program(home: &Home) -> PathBuf {
    home.path().join(".local/bin/switchboard")
}

/// Puts an executable file somewhere.
fn put(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// It failed with these words, the older version is as it was, and nothing lies beside it.
fn changed_nothing(home: &Home, output: &Output, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(words), "{words:?} in {said}");
    let folder = program(home);
    let folder = folder.parent().unwrap();
    let names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["switchboard"], "{said}");
    assert_eq!(std::fs::read_to_string(program(home)).unwrap(), OLD, "{said}");
}

#[test]
fn the_script_installs_replaces_and_removes() {
    let (home, registry) = (Home::new(), Registry::start(packages()));
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let shown = successful(install(&home, &registry.url).arg("--dry-run"));
    assert!(said(&shown).contains(".local/bin/switchboard"), "{}", said(&shown));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "a dry run changes nothing");

    // As in `curl | sh`, and on to the page.
    let line = format!(
        "curl -fsSL {0}/releases/latest/download/install.sh | sh && exec .local/bin/switchboard open demo --no-browser",
        registry.url
    );
    let mut command = home.command("sh");
    command.args(["-c", &line]).env("SWITCHBOARD_RELEASES", format!("{}/releases", registry.url));
    let mut open = Running::start(&mut command);
    open.page("install.sh");
    open.signal("TERM");
    open.end();
    let about = text(&successful(home.command(program(&home)).args(["--version", "--json"])));
    let expected = if about.contains("\"commit\":null") { "source" } else { "archive" };
    assert!(about.contains(&format!("\"channel\":\"{expected}\"")), "{about}");

    // Again, over an older one, by its version, somewhere else.
    put(&program(&home), OLD);
    let output = successful(install(&home, &registry.url).env("SWITCHBOARD_VERSION", version()));
    assert!(said(&output).contains("replaced switchboard 0.0.1"), "{}", said(&output));
    assert!(said(&output).contains("export PATH="), "{}", said(&output));
    successful(install(&home, &registry.url).env("SWITCHBOARD_INSTALL_DIR", "elsewhere"));
    let elsewhere = home.path().join("elsewhere/switchboard");
    assert_eq!(
        text(&successful(home.command(&elsewhere).arg("--version"))),
        format!("switchboard {}\n", version())
    );
    successful(install(&home, &registry.url).env("SWITCHBOARD_INSTALL_DIR", "elsewhere").arg("--uninstall"));
    successful(install(&home, &registry.url).arg("--uninstall"));
    assert_eq!(home.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn any_failure_changes_nothing() {
    let (home, registry) = (Home::new(), Registry::start(packages()));
    put(&program(&home), OLD);
    let good = &registry.url;

    // A download that is damaged, cut off, or not there.
    let archive = file(".tar.gz");
    let damaged = tempfile::tempdir().unwrap();
    std::fs::copy(packages().join("SHA256SUMS"), damaged.path().join("SHA256SUMS")).unwrap();
    let bad = Registry::start(damaged.path());
    let copy = damaged.path().join(archive.file_name().unwrap());
    changed_nothing(&home, &install(&home, &bad.url).output().unwrap(), "cannot download");
    let mut bytes = std::fs::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&copy, &bytes).unwrap();
    changed_nothing(&home, &install(&home, &bad.url).output().unwrap(), "is damaged: its SHA-256 is");
    std::fs::write(&copy, &bytes[..middle]).unwrap();
    changed_nothing(&home, &install(&home, &bad.url).output().unwrap(), "is damaged: its SHA-256 is");
    std::fs::write(damaged.path().join("SHA256SUMS"), "nonsense\n").unwrap();
    changed_nothing(&home, &install(&home, &bad.url).output().unwrap(), "has no archive for");

    // No network, and a proxy that is not there.
    changed_nothing(&home, &install(&home, "http://127.0.0.1:9").output().unwrap(), "cannot download");
    let output = install(&home, good).env("http_proxy", "http://127.0.0.1:9").output().unwrap();
    changed_nothing(&home, &output, "cannot download");

    // Machines that nothing is released for.
    for (system, machine, words) in [
        ("Linux", "riscv64", "no release for the processor riscv64"),
        ("Plan9", "x86_64", "no release for Plan9"),
    ] {
        let uname = format!("#!/bin/sh\ncase $1 in -s) echo {system};; *) echo {machine};; esac\n");
        put(&home.path().join("fake/uname"), &uname);
        let output = install(&home, good).env("PATH", path_with(&home, "fake")).output().unwrap();
        changed_nothing(&home, &output, words);
    }

    // A download that is interrupted.
    put(&home.path().join("cut/curl"), "#!/bin/sh\nkill -s TERM $PPID\nexit 0\n");
    let output = install(&home, good).env("PATH", path_with(&home, "cut")).output().unwrap();
    changed_nothing(&home, &output, "interrupted; nothing was changed");

    // A folder that cannot be written, for root too, and one without space.
    let output = install(&home, good).env("SWITCHBOARD_INSTALL_DIR", "/proc/switchboard").output().unwrap();
    changed_nothing(&home, &output, "cannot make the folder /proc/switchboard");
    let small = "mkdir small && mount -t tmpfs -o size=200k tmpfs small && SWITCHBOARD_INSTALL_DIR=small sh \"$0\" \
        || { ls -A small; exit 1; }";
    let mut command = home.command("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", small]).arg(script());
    let output = command.env("SWITCHBOARD_RELEASES", format!("{good}/releases")).output().unwrap();
    assert_eq!(text(&output), "", "nothing is left in it");
    changed_nothing(&home, &output, "cannot download");

    // Another program of this name is not ours to replace.
    put(&program(&home), "#!/bin/sh\necho another 1.0\n");
    let output = install(&home, good).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("is not Switchboard (another 1.0)"), "{said}");
}

/// The `PATH` with a folder of the home before it.
fn path_with(home: &Home, folder: &str) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap();
    let folders = std::iter::once(home.path().join(folder)).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap()
}
