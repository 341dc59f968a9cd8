//! The wheel, by `uvx`, `uv tool` and pip.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::place::{Home, Registry, Running, file, packages, successful, text, version};

/// The folder with `uv` and `uvx`, installed where they are missing; `None` where that cannot be.
pub(crate) fn uv() -> Option<&'static Path> {
    static UV: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = UV.get_or_init(|| {
        let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("uv");
        let programs = environment.join("bin");
        let succeeds = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let is_there = succeeds(Command::new(programs.join("uvx")).arg("--version"))
            || succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment))
                && succeeds(Command::new(programs.join("pip")).args(["install", "--quiet", "uv"]));
        is_there.then_some(programs)
    });
    if found.is_none() {
        println!("skipped: uv is not here and cannot be installed");
    }
    found.as_deref()
}

fn command(home: &Home, registry: &Registry, program: &Path) -> Command {
    let mut command = home.command(program);
    command.env("UV_DEFAULT_INDEX", format!("{}/simple", registry.url)).env("UV_PYTHON_DOWNLOADS", "never");
    command
}

#[test]
fn uvx_opens_the_page_and_its_end_ends_everything() {
    let Some(uv) = uv() else { return };
    let (home, registry) = (Home::new(), Registry::start(packages()));
    let mut uvx = command(&home, &registry, &uv.join("uvx"));
    let mut open = Running::start(uvx.args(["--quiet", "switchboard-acp", "open", "demo", "--no-browser"]));
    open.page("uvx");
    open.signal("TERM");
    open.end();
    assert_eq!(home.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn uv_and_pip_install_it_and_leave_nothing() {
    let Some(uv) = uv() else { return };
    let (home, registry) = (Home::new(), Registry::start(packages()));
    let about = |program: &Path| -> serde_json::Value {
        serde_json::from_str(&text(&successful(home.command(program).args(["--version", "--json"])))).unwrap()
    };
    successful(command(&home, &registry, &uv.join("uv")).args(["tool", "install", "switchboard-acp"]));
    for name in ["switchboard", "switchboard-acp"] {
        let about = about(&home.path().join(".local/bin").join(name));
        assert_eq!((&about["channel"], &about["version"]), (&"pypi".into(), &version().into()), "{about}");
    }
    successful(command(&home, &registry, &uv.join("uv")).args(["tool", "uninstall", "switchboard-acp"]));
    assert_eq!(home.leftovers(), Vec::<PathBuf>::new());

    successful(home.command("python3").args(["-m", "venv", "venv"]));
    let pip = home.path().join("venv/bin/pip");
    successful(home.command(&pip).args(["install", "--quiet", "--no-index"]).arg(file(".whl")));
    for name in ["switchboard", "switchboard-acp"] {
        assert_eq!(about(&home.path().join("venv/bin").join(name))["channel"], "pypi");
    }
    // Every file is as RECORD says.
    successful(home.command(&pip).args(["check"]));
    successful(home.command(&pip).args(["uninstall", "--quiet", "--yes", "switchboard-acp"]));
    assert_eq!(home.leftovers(), Vec::<PathBuf>::new());
}
