//! The packages that `cargo xtask dist` makes, here of the program under test. `cargo xtask dist --check` runs these tests with the
//! packages of a release.

mod npm;
pub(crate) mod place;
mod script;
pub(crate) mod wheel;

use std::path::Path;
use std::process::Command;

use self::place::{file, packages, successful, text, version};

/// Copies the libraries of a program to the same paths below a root.
fn copy_libraries(program: &Path, root: &Path) {
    let listed = text(&successful(Command::new("ldd").arg(program)));
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/') && Path::new(word).is_file());
    for library in paths {
        let to = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(library, to).unwrap();
    }
}

/// Whoever is not root can be, in a world of their own.
fn as_root() -> Command {
    if rustix::process::geteuid().is_root() {
        Command::new("env")
    } else {
        let mut command = Command::new("unshare");
        command.arg("--map-root-user");
        command
    }
}

#[test]
fn the_archive_unpacks_and_runs_in_an_empty_root_without_rust() {
    let root = tempfile::tempdir().unwrap();
    successful(
        Command::new("tar")
            .arg("-xzf")
            .arg(file(".tar.gz"))
            .args(["--strip-components=1", "-C"])
            .arg(root.path()),
    );
    for file in [
        "LICENSE",
        "README.md",
        "completions/switchboard.bash",
        "completions/_switchboard",
        "completions/switchboard.fish",
        "man/switchboard.1",
        "man/switchboard-agents-add.1",
        "licences/INDEX.txt",
    ] {
        assert!(root.path().join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let index = std::fs::read_to_string(root.path().join("licences/INDEX.txt")).unwrap();
    for package in ["serde-1", "tokio-1", "zstd-sys-2", "ring-0"] {
        let line = index.lines().find(|line| line.starts_with(package)).expect(package);
        let texts =
            std::fs::read_dir(root.path().join("licences").join(line.split(' ').next().unwrap())).unwrap();
        assert!(texts.count() > 0, "{line}");
    }
    assert!(!index.contains("insta-"), "only what is linked");
    let program = root.path().join("switchboard");
    copy_libraries(&program, root.path());
    let run = |arguments: &[&str]| {
        let mut command = as_root();
        command.args(["chroot"]).arg(root.path()).arg("/switchboard").args(arguments);
        command.env_clear().env("HOME", "/home").env("PATH", std::env::var_os("PATH").unwrap());
        text(&successful(&mut command))
    };
    assert_eq!(run(&["--version"]), format!("switchboard {}\n", version()));
    assert!(run(&["agents"]).starts_with("NAME "));
    assert!(run(&["schema"]).contains("ToolCallUpdate"));
    assert!(run(&["setup"]).contains("zed            not found"));
}

#[test]
fn every_package_has_the_same_program_and_its_checksum() {
    let folder = tempfile::tempdir().unwrap();
    successful(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(packages()));
    let unpack = |name: &str, command: &mut Command| {
        let to = folder.path().join(name);
        std::fs::create_dir(&to).unwrap();
        successful(command.current_dir(&to));
        to
    };
    let archive =
        unpack("archive", Command::new("tar").arg("-xzf").arg(file(".tar.gz")).arg("--strip-components=1"));
    let npm = unpack("npm", Command::new("tar").arg("-xzf").arg(platform_package()));
    let deb = unpack("deb", Command::new("dpkg-deb").arg("-x").arg(file(".deb")).arg("."));
    let wheel =
        unpack("wheel", Command::new("python3").args(["-m", "zipfile", "-e"]).arg(file(".whl")).arg("."));
    let scripts = wheel.join(format!("switchboard_acp-{}.data/scripts/switchboard", version()));
    let expected = std::fs::read(archive.join("switchboard")).unwrap();
    for other in [npm.join("package/bin/switchboard"), deb.join("usr/bin/switchboard"), scripts] {
        assert!(std::fs::read(&other).unwrap() == expected, "{}", other.display());
    }
    let formula = std::fs::read_to_string(file(".rb")).unwrap();
    let sums = std::fs::read_to_string(packages().join("SHA256SUMS")).unwrap();
    let sum = sums.lines().find(|line| line.ends_with(".tar.gz")).unwrap().split(' ').next().unwrap();
    assert!(formula.contains(&format!("sha256 \"{sum}\"")), "{formula}");
    // What `cargo binstall` takes out of the manifest is the name of the archive and of the program in it.
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let archive = file(".tar.gz").file_name().unwrap().to_string_lossy().into_owned();
    let target = archive.strip_prefix(&format!("switchboard-{}-", version())).unwrap();
    let target = target.strip_suffix(".tar.gz").unwrap();
    let fill = |text: &str| text.replace("{ version }", &version()).replace("{ target }", target);
    assert!(fill(&manifest).contains(&format!("/releases/download/v{}/{archive}\"", version())), "pkg-url");
    assert!(
        fill(&manifest).contains(&format!("\"switchboard-{}-{target}/switchboard\"", version())),
        "bin-dir"
    );
}

/// The npm package with the program.
fn platform_package() -> std::path::PathBuf {
    file(&format!("{}-{}.tgz", if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" }, version()))
}

#[test]
fn the_debian_package_installs_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    for file in ["status", "available"] {
        std::fs::write(root.path().join("var/lib/dpkg").join(file), "").unwrap();
    }
    let dpkg = |arguments: &[&str]| {
        let mut command = as_root();
        command.arg("dpkg").arg("--root").arg(root.path()).args(["--force-depends"]).args(arguments);
        text(&successful(&mut command))
    };
    dpkg(&["--install", file(".deb").to_str().unwrap()]);
    for file in [
        "usr/bin/switchboard",
        "usr/share/man/man1/switchboard.1.gz",
        "usr/share/bash-completion/completions/switchboard",
        "usr/share/zsh/vendor-completions/_switchboard",
        "usr/share/fish/vendor_completions.d/switchboard.fish",
        "usr/lib/systemd/user/switchboard.service",
        "usr/share/doc/switchboard-acp/copyright",
    ] {
        assert!(root.path().join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let fields = text(&successful(Command::new("dpkg-deb").arg("-f").arg(file(".deb"))));
    assert!(fields.contains("Package: switchboard-acp\n") && fields.contains("Depends: libc6 (>= 2.17)\n"));
    dpkg(&["--purge", "switchboard-acp"]);
    assert!(!root.path().join("usr").exists(), "something is left");
}
