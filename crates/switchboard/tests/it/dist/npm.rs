//! The npm packages.

use std::path::PathBuf;
use std::process::Command;

use super::place::{Home, Registry, Running, packages, successful, text, version};

fn has_npm() -> bool {
    let has = Command::new("npm").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has {
        println!("skipped: npm is not here");
    }
    has
}

/// npm in an empty home, with a registry that has nothing but our packages.
fn npm(home: &Home, registry: &Registry, program: &str) -> Command {
    let mut command = home.command(program);
    command.env("npm_config_registry", &registry.url).env("npm_config_update_notifier", "false");
    command
}

/// Installs the packages into a prefix in the home, and returns the launcher.
fn installed(home: &Home, registry: &Registry) -> PathBuf {
    let arguments =
        ["install", "--global", "--prefix", "prefix", "--ignore-scripts", "--no-audit", "--no-fund"];
    successful(npm(home, registry, "npm").args(arguments).arg("switchboard-acp"));
    home.path().join("prefix/bin/switchboard")
}

#[test]
fn npx_opens_the_page_and_its_end_ends_everything() {
    if !has_npm() {
        return;
    }
    let (home, registry) = (Home::new(), Registry::start(packages()));
    let mut npx = npm(&home, &registry, "npx");
    let mut open = Running::start(npx.args(["-y", "switchboard-acp", "open", "demo", "--no-browser"]));
    open.page("npx");
    // npm ends without passing it on.
    open.signal("TERM");
    open.end();
    assert_eq!(home.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn the_launcher_passes_on_arguments_streams_codes_and_signals() {
    if !has_npm() {
        return;
    }
    let (home, registry) = (Home::new(), Registry::start(packages()));
    let launcher = installed(&home, &registry);
    let run = |arguments: &[&str]| home.command(&launcher).args(arguments).output().unwrap();
    assert_eq!(text(&run(&["--version"])), format!("switchboard {}\n", version()));
    let about: serde_json::Value = serde_json::from_str(&text(&run(&["--version", "--json"]))).unwrap();
    assert_eq!((&about["channel"], &about["version"]), (&"npm".into(), &version().into()), "{about}");
    assert_eq!(text(&run(&["run", "demo", "hi  there"])), "You said: hi  there\n");
    assert_eq!(run(&["run", "no-such-agent", "hi"]).status.code(), Some(2));

    for (signal, code) in [("TERM", 0), ("INT", 0), ("HUP", 0)] {
        // As a shell in the background does not: it ignores the first.
        let mut command = home.command("env");
        command.arg("--default-signal=HUP,INT,TERM").arg(&launcher);
        let mut hub = Running::start(command.args(["serve", "demo", "--listen", "127.0.0.1:0"]));
        assert!(hub.line().starts_with("listening on http://127.0.0.1:"));
        hub.signal(signal);
        assert_eq!(hub.end(), code, "{signal}");
    }
    // A launcher that is killed cannot pass that on. The program notices by itself, and its agents end with it.
    let mut hub = Running::start(home.command(&launcher).args(["serve", "demo", "--listen", "127.0.0.1:0"]));
    assert!(hub.line().starts_with("listening on http://127.0.0.1:"));
    hub.signal("KILL");
    assert_eq!(hub.end(), 137);
    // A program that was killed is not one that ended well.
    let killed =
        home.command(&launcher).env("SWITCHBOARD_BINARY", "/bin/sh").args(["-c", "kill -KILL $$"]).output();
    assert_eq!(killed.unwrap().status.code(), Some(137));
}

#[test]
fn agents_do_not_get_the_descriptor_of_the_launcher() {
    if !has_npm() {
        return;
    }
    let (home, registry) = (Home::new(), Registry::start(packages()));
    let launcher = installed(&home, &registry);
    let script = "{ ls /proc/$$/fd; echo \"${SWITCHBOARD_LAUNCHER_FD-unset}\"; } > seen";
    let _ = home.command(&launcher).args(["run", "hi", "--", "sh", "-c", script]).output().unwrap();
    let seen = std::fs::read_to_string(home.path().join("seen")).unwrap();
    // The shell opens the file and the folder itself.
    let others: Vec<&str> = seen.lines().filter(|line| !["0", "1", "2"].contains(line)).collect();
    assert!(others.last() == Some(&"unset") && !others.contains(&"3"), "{seen}");
}

#[test]
fn a_missing_or_unknown_platform_is_one_sentence() {
    if !has_npm() {
        return;
    }
    let (home, registry) = (Home::new(), Registry::start(packages()));
    let launcher = installed(&home, &registry);
    let fail = |command: &mut Command| {
        let output = command.arg("--version").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    let other = home.path().join("other.js");
    std::fs::write(&other, "Object.defineProperty(process, 'arch', {value: 'riscv64'});").unwrap();
    let options = format!("--require {}", other.display());
    let said = fail(home.command(&launcher).env("NODE_OPTIONS", options));
    assert!(
        said.contains("there is no package for linux-riscv64") && said.contains("linux-arm64-musl"),
        "{said}"
    );
    let said = fail(home.command(&launcher).env("SWITCHBOARD_BINARY", "/no/such/program"));
    assert!(said.contains("cannot start /no/such/program"), "{said}");
    // As `--omit=optional` leaves it.
    let package = home.path().join("prefix/lib/node_modules/switchboard-acp");
    std::fs::remove_dir_all(package.join("node_modules/@switchboard-acp")).unwrap();
    let said = fail(&mut home.command(&launcher));
    assert!(said.contains("--omit=optional"), "{said}");
    let uninstall = ["uninstall", "--global", "--prefix", "prefix", "switchboard-acp"];
    successful(npm(&home, &registry, "npm").args(uninstall));
    assert_eq!(home.leftovers(), Vec::<PathBuf>::new());
}
