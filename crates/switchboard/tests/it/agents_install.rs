//! `switchboard agents install`: agents from a registry on loopback, which then start without it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::dist::place::{Home, Registry, successful, text};
use crate::dist::wheel::uv;
use crate::terminal::typed_to;

/// Nothing listens there.
const DEAD: &str = "http://127.0.0.1:9";

/// A home, and a folder of packages that are published.
struct Shop {
    home: Home,
    published: tempfile::TempDir,
}

impl Shop {
    fn new() -> Self {
        Shop { home: Home::new(), published: tempfile::tempdir().unwrap() }
    }

    /// Publishes a version of Codex that is the demo agent. Its install script must not run.
    fn publish_codex(&self, version: &str) -> PathBuf {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("package");
        std::fs::create_dir(&package).unwrap();
        let description = json!({
            "name": "@agentclientprotocol/codex-acp",
            "version": version,
            "bin": {"codex-acp": "agent.js"},
            "scripts": {"postinstall": "touch \"$HOME/ran\""},
        });
        std::fs::write(package.join("package.json"), description.to_string()).unwrap();
        let script = format!(
            "#!/usr/bin/env node\nconst {{ spawnSync }} = require(\"child_process\");\n\
             process.exitCode = spawnSync({:?}, [\"demo-agent\"], {{ stdio: \"inherit\" }}).status;\n",
            env!("CARGO_BIN_EXE_switchboard")
        );
        std::fs::write(package.join("agent.js"), script).unwrap();
        let archive = self.published.path().join(format!("codex-acp-{version}.tgz"));
        successful(Command::new("tar").arg("-czf").arg(&archive).arg("package").current_dir(folder.path()));
        archive
    }

    fn command(&self, registry: &str, arguments: &[&str]) -> Command {
        let mut command = self.home.command(env!("CARGO_BIN_EXE_switchboard"));
        command
            .args(arguments)
            .env("npm_config_registry", registry)
            .env("npm_config_update_notifier", "false")
            .env("npm_config_fetch_retries", "0")
            .env("UV_DEFAULT_INDEX", format!("{registry}/simple"))
            .env("UV_PYTHON_DOWNLOADS", "never");
        command
    }

    fn run(&self, registry: &str, arguments: &[&str]) -> Output {
        self.command(registry, arguments).output().unwrap()
    }

    /// What `agents list` says of an agent.
    fn listed(&self, name: &str) -> Value {
        let lines = text(&successful(&mut self.command(DEAD, &["agents", "list", "--json"])));
        let mut agents = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        agents.find(|agent| agent["name"] == name).unwrap()
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join(".local/share/switchboard/agents")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn versions(agent: &Value) -> Vec<(&str, bool)> {
    let versions = agent["versions"].as_array().unwrap();
    versions.iter().map(|one| (one["version"].as_str().unwrap(), one["used"].as_bool().unwrap())).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn an_installed_agent_starts_without_npx_and_without_its_registry() {
    if !Command::new("npm").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: npm is not here");
        return;
    }
    let shop = Shop::new();
    shop.publish_codex("1.0.0");
    let registry = Registry::start(shop.published.path());

    // Nothing is installed without a yes.
    let output = shop.run(&registry.url, &["agents", "install", "codex"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        said(&output).contains("Codex 1.0.0 (@agentclientprotocol/codex-acp, by npm"),
        "{}",
        said(&output)
    );
    let output = shop.run(&registry.url, &["run", "codex", "hi"]);
    assert!(said(&output).contains("switchboard agents install codex --yes"), "{}", said(&output));
    assert!(!shop.folder().exists());

    let output = successful(&mut shop.command(&registry.url, &["agents", "install", "codex", "--yes"]));
    assert!(text(&output).starts_with("codex 1.0.0 sha512-"), "{}", text(&output));
    assert!(!shop.home.path().join("ran").exists(), "the install script ran");
    drop(registry);
    let output = successful(&mut shop.command(DEAD, &["run", "codex", "hi"]));
    assert_eq!(text(&output), "You said: hi\n");
    let list = text(&successful(&mut shop.command(DEAD, &["agents"])));
    let codex = list.lines().find(|line| line.starts_with("codex ")).unwrap();
    assert!(
        codex.contains(" installed ")
            && codex.contains(" 1.0.0 ")
            && codex.contains("installed by Switchboard"),
        "{list}"
    );

    // A newer one; the version before it stays, and can be named.
    shop.publish_codex("1.1.0");
    let damaged = shop.publish_codex("1.2.0-damaged");
    let registry = Registry::start(shop.published.path());
    let output = successful(&mut shop.command(&registry.url, &["agents", "install", "codex@1.1.0", "--yes"]));
    assert!(text(&output).starts_with("codex 1.1.0 sha512-"), "{}", text(&output));
    assert_eq!(versions(&shop.listed("codex")), [("1.1.0", true), ("1.0.0", false)]);
    for name in ["codex", "codex@1.0.0", "codex@1.1.0"] {
        let output = successful(&mut shop.command(DEAD, &["run", name, "hi"]));
        assert_eq!(text(&output), "You said: hi\n", "{name}");
    }
    let output = shop.run(&registry.url, &["run", "codex@9.9.9", "hi"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("switchboard agents install codex@9.9.9"), "{}", said(&output));

    // What cannot be installed changes nothing: an unknown version, a damaged package, no registry.
    let program =
        "rm -rf package && mkdir package && echo '{' > package/package.json && tar -czf \"$0\" package";
    let scratch = tempfile::tempdir().unwrap();
    for (version, registry) in [("9.9.9", &*registry.url), ("../x", &registry.url), ("1.2.0-damaged", DEAD)] {
        let output = shop.run(registry, &["agents", "install", &format!("codex@{version}"), "--yes"]);
        assert!(!output.status.success(), "{version}");
    }
    // The registry tells the description of the whole one, and then has another.
    let whole = std::fs::read(&damaged).unwrap();
    successful(Command::new("sh").args(["-c", program]).arg(&damaged).current_dir(scratch.path()));
    let output = shop.run(&registry.url, &["agents", "install", "codex@1.2.0-damaged", "--yes"]);
    assert!(!output.status.success(), "{}", said(&output));
    std::fs::write(&damaged, whole).unwrap();
    assert_eq!(versions(&shop.listed("codex")), [("1.1.0", true), ("1.0.0", false)]);
    assert_eq!(names(&shop.folder().join("codex")), ["1.0.0", "1.1.0", "current"]);
    std::fs::remove_file(&damaged).unwrap();

    // `update` takes the newest; two versions stay.
    shop.publish_codex("1.3.0");
    let output = successful(&mut shop.command(&registry.url, &["agents", "update", "codex"]));
    assert!(text(&output).starts_with("codex 1.3.0 sha512-"), "{}", text(&output));
    assert_eq!(versions(&shop.listed("codex")), [("1.3.0", true), ("1.1.0", false)]);
    let output = successful(&mut shop.command(&registry.url, &["agents", "update", "codex"]));
    assert_eq!(text(&output), "codex 1.3.0 is the newest version\n");

    // Back to the one before, and away with all of it.
    successful(&mut shop.command(&registry.url, &["agents", "remove", "codex@1.3.0"]));
    assert_eq!(versions(&shop.listed("codex")), [("1.1.0", true)]);
    successful(&mut shop.command(DEAD, &["agents", "remove", "codex"]));
    assert_eq!(names(&shop.folder()), Vec::<String>::new());
    assert_eq!(shop.run(DEAD, &["agents", "remove", "codex"]).status.code(), Some(2));

    // At a terminal it is offered where it is missing.
    let (code, shown) = typed_to(shop.command(&registry.url, &["run", "codex", "hi"]), &["i\n"]);
    assert!(code == 0 && shown.contains("You said: hi"), "{shown}");
    assert!(shown.contains("installing Codex 1.3.0"), "{shown}");
    assert_eq!(versions(&shop.listed("codex")), [("1.3.0", true)]);
}

#[test]
fn a_lock_installs_the_same_agents_elsewhere_or_changes_nothing() {
    if !Command::new("npm").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: npm is not here");
        return;
    }
    let shop = Shop::new();
    let output = shop.run(DEAD, &["agents", "lock"]);
    assert!(output.status.code() == Some(2) && said(&output).contains("no agent is installed"), "{output:?}");
    shop.publish_codex("1.0.0");
    let registry = Registry::start(shop.published.path());
    successful(&mut shop.command(&registry.url, &["agents", "install", "codex", "--yes"]));
    let lock = text(&successful(&mut shop.command(DEAD, &["agents", "lock"])));
    assert_eq!(lock, text(&successful(&mut shop.command(DEAD, &["agents", "lock", "codex-acp"]))));
    let output = shop.run(DEAD, &["agents", "lock", "gemini"]);
    assert!(said(&output).contains("switchboard agents install gemini"), "{}", said(&output));

    // Another machine, after a newer version appeared.
    shop.publish_codex("1.1.0");
    let other = Shop::new();
    let file = other.home.path().join("agents.lock");
    std::fs::write(&file, &lock).unwrap();
    let install = |registry: &str, more: &[&str]| {
        other.run(registry, &[&["agents", "install", "--locked", "agents.lock"], more].concat())
    };
    let output = install(&registry.url, &[]);
    assert!(
        output.status.code() == Some(2) && said(&output).contains("not installed: Codex 1.0.0"),
        "{output:?}"
    );
    let output = successful(
        &mut other.command(&registry.url, &["agents", "install", "--locked", "agents.lock", "--yes"]),
    );
    assert!(text(&output).starts_with("codex 1.0.0 sha512-"), "{}", text(&output));
    assert!(!other.home.path().join("ran").exists(), "the install script ran");
    assert_eq!(text(&successful(&mut other.command(DEAD, &["run", "codex", "hi"]))), "You said: hi\n");
    assert_eq!(text(&successful(&mut other.command(DEAD, &["agents", "lock"]))), lock);
    // It is there already, so that no registry is needed.
    assert!(install(DEAD, &["--yes"]).status.success());

    // Back from a newer version; then locks that are damaged, and digests that the registry's packages do not have.
    successful(&mut other.command(&registry.url, &["agents", "update", "codex"]));
    assert_eq!(versions(&other.listed("codex"))[0], ("1.1.0", true));
    assert!(install(DEAD, &["--yes"]).status.success());
    assert!(versions(&other.listed("codex")).contains(&("1.0.0", true)));
    let mut wrong: Value = serde_json::from_str(&lock).unwrap();
    let packages = wrong["agents"][0]["lock"].as_str().unwrap().replace("sha512-", "sha512-AAAA");
    let digest = text(&successful(Command::new("sh").args([
        "-c",
        "printf %s \"$1\" | sha256sum | cut -d ' ' -f 1",
        "sh",
        &packages,
    ])));
    wrong["agents"][0]["sha256"] = digest.trim().into();
    wrong["agents"][0]["lock"] = packages.into();
    successful(&mut other.command(DEAD, &["agents", "remove", "codex@1.0.0"]));
    for (text, words) in [
        (lock.replace("sha512-", "sha512-AAAA"), "checksum"),
        (lock.replace("\"format\": 1", "\"format\": 2"), "its format is 2"),
        (wrong.to_string(), "npm failed"),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = install(&registry.url, &["--yes"]);
        assert!(!output.status.success() && said(&output).contains(words), "{words}: {}", said(&output));
        assert_eq!(versions(&other.listed("codex")), [("1.1.0", true)]);
        assert_eq!(names(&other.folder().join("codex")), ["1.1.0", "current"]);
    }
}

#[test]
fn an_agent_of_pypi_is_installed_from_wheels() {
    let Some(uv) = uv() else { return };
    let shop = Shop::new();
    let wheel = shop.published.path().join("fast_agent_mcp-0.4.0-py3-none-any.whl");
    let program = format!(
        "import base64, hashlib, sys, zipfile\n\
        files = {{'fast_agent_mcp.py': 'import os\\ndef main(): os.execv({0:?}, [{0:?}, \"demo-agent\"])\\n',\n\
            'fast_agent_mcp-0.4.0.dist-info/METADATA': 'Metadata-Version: 2.1\\nName: fast-agent-mcp\\nVersion: 0.4.0\\n',\n\
            'fast_agent_mcp-0.4.0.dist-info/WHEEL': 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',\n\
            'fast_agent_mcp-0.4.0.dist-info/entry_points.txt': '[console_scripts]\\nfast-agent-mcp = fast_agent_mcp:main\\n'}}\n\
        digest = lambda text: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')\n\
        record = ''.join(f'{{name}},sha256={{digest(text)}},{{len(text)}}\\n' for name, text in files.items())\n\
        files['fast_agent_mcp-0.4.0.dist-info/RECORD'] = record + 'fast_agent_mcp-0.4.0.dist-info/RECORD,,\\n'\n\
        with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n    \
            [wheel.writestr(name, text) for name, text in files.items()]\n",
        env!("CARGO_BIN_EXE_switchboard")
    );
    successful(Command::new("python3").args(["-c", &program]).arg(&wheel));
    let registry = Registry::start(shop.published.path());
    let path = std::env::var_os("PATH").unwrap();
    let path = std::iter::once(uv.to_owned()).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).unwrap();
    let mut install = shop.command(&registry.url, &["agents", "install", "fast-agent", "--yes"]);
    let output = successful(install.env("PATH", &path));
    assert!(text(&output).starts_with("fast-agent 0.4.0 sha256:"), "{}", text(&output));
    let lock = successful(&mut shop.command(DEAD, &["agents", "lock"]));
    let other = Shop::new();
    std::fs::write(other.home.path().join("agents.lock"), lock.stdout).unwrap();
    let mut install =
        other.command(&registry.url, &["agents", "install", "--locked", "agents.lock", "--yes"]);
    assert_eq!(text(&successful(install.env("PATH", &path))), text(&output));
    drop(registry);
    assert_eq!(text(&successful(&mut other.command(DEAD, &["run", "fast-agent", "hi"]))), "You said: hi\n");
    // Also without uv.
    let output = successful(&mut shop.command(DEAD, &["run", "fast-agent", "hi"]));
    assert_eq!(text(&output), "You said: hi\n");
    assert_eq!(versions(&shop.listed("fast-agent")), [("0.4.0", true)]);
}
