//! The archive that `cargo xtask dist` makes, here of the program under test.

use std::path::Path;
use std::process::{Command, Output};

fn successful(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

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

#[test]
fn the_archive_unpacks_and_runs_in_an_empty_root_without_rust() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = successful(
        Command::new(env!("CARGO"))
            .args(["xtask", "dist", "--program", env!("CARGO_BIN_EXE_switchboard"), "--to"])
            .arg(folder.path())
            .current_dir(repository),
    );
    let archive = text(&made).lines().next().unwrap().to_owned();
    successful(
        Command::new("sha256sum").args(["--check", &format!("{archive}.sha256")]).current_dir(folder.path()),
    );
    let root = tempfile::tempdir().unwrap();
    successful(Command::new("tar").args(["-xzf", &archive, "--strip-components=1", "-C"]).arg(root.path()));
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
    // A user without root rights becomes root in a user namespace.
    let run = |arguments: &[&str]| {
        let is_root = rustix::process::geteuid().is_root();
        let begin: &[&str] = if is_root { &["chroot"] } else { &["unshare", "--map-root-user", "chroot"] };
        let mut command = Command::new(begin[0]);
        command.args(&begin[1..]).arg(root.path()).arg("/switchboard").args(arguments);
        command.env_clear().env("HOME", "/home").env("PATH", std::env::var_os("PATH").unwrap());
        text(&successful(&mut command))
    };
    assert_eq!(run(&["--version"]), format!("switchboard {}\n", env!("CARGO_PKG_VERSION")));
    assert!(run(&["agents"]).starts_with("NAME "));
    assert!(run(&["schema"]).contains("ToolCallUpdate"));
    assert!(run(&["setup"]).contains("zed            not found"));
}
