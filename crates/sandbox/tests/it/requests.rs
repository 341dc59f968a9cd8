//! Requests that cannot be enforced are refused before anything is created.

use std::path::{Path, PathBuf};

use switchboard_policy::{NoFiles, Policy, SandboxMode};
use switchboard_sandbox::{AgentNeeds, Places, Plan, SandboxRequest};

struct World {
    _folder: tempfile::TempDir,
    top: PathBuf,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for name in ["home/project", "data", "config", "elsewhere"] {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        World { _folder: folder, top }
    }

    fn request(&self, root: &Path, rules: &str, mode: SandboxMode) -> SandboxRequest {
        let host = NoFiles { home: Some(self.top.join("home").display().to_string()) };
        let policy = Policy::parse(rules, &host).unwrap();
        let roots = vec![root.to_owned()];
        let names: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        SandboxRequest {
            mode,
            working_directory: Some(root.to_owned()),
            program: "/bin/sh".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            settings: policy.sandbox().clone(),
            rules: policy.path_rules(None, mode, &names, &host),
            needs: AgentNeeds::default(),
            places: Places {
                home: self.top.join("home"),
                data: self.top.join("data"),
                closed: vec![self.top.join("config")],
                rules: Vec::new(),
                ports: vec![4173],
            },
            init: "/bin/true".into(),
            roots,
        }
    }

    fn refusal(&self, root: &Path, rules: &str, mode: SandboxMode) -> String {
        let request = self.request(root, rules, mode);
        let planned = Plan::new(request).and_then(|plan| plan.layout().map(|_| plan.summary()));
        planned.expect_err("the request is refused").to_string()
    }
}

#[test]
fn folders_that_open_too_much_are_refused() {
    let world = World::new();
    let workspace = SandboxMode::Workspace;
    for (root, wanted) in [
        (PathBuf::from("/"), "it belongs to the system"),
        (PathBuf::from("/etc"), "it belongs to the system"),
        (PathBuf::from("/tmp"), "it belongs to the system"),
        (PathBuf::from("/proc/self"), "it belongs to the system"),
        (world.top.join("home"), "it holds your home directory"),
        (world.top.clone(), "it holds your home directory"),
        (world.top.join("config"), "of Switchboard"),
        (world.top.join("data"), "of Switchboard"),
        (world.top.join("missing"), "No such file"),
        (PathBuf::from("/usr/bin/env"), "is not a folder"),
    ] {
        let refusal = world.refusal(&root, "", workspace);
        assert!(refusal.contains(wanted), "{}: {refusal}", root.display());
    }
}

#[test]
fn settings_that_cannot_be_enforced_are_refused() {
    let world = World::new();
    let root = world.top.join("home/project");
    let (workspace, strict) = (SandboxMode::Workspace, SandboxMode::Strict);
    let config = world.top.join("config").display().to_string();
    for (rules, mode, wanted) in [
        ("[sandbox]\nnetwork = \"all\"\n".to_owned(), strict, "the mode strict cannot have network"),
        ("[sandbox]\nread = [\"~/missing\"]\n".to_owned(), workspace, "`read` in the rules names"),
        (format!("[sandbox]\nwrite = [\"{config}\"]\n"), workspace, "holds files of Switchboard"),
        (
            format!("[sandbox]\nread = [\"{}\"]\n", world.top.display()),
            workspace,
            "holds files of Switchboard",
        ),
        ("[sandbox]\nloopback = [4173]\n".to_owned(), workspace, "Switchboard itself listens on this port"),
        ("[[rule]]\ndecision = \"deny\"\npath = [\"$root/**\"]\n".to_owned(), workspace, "hides it"),
        (String::new(), SandboxMode::Off, "the sandbox is off"),
    ] {
        let refusal = world.refusal(&root, &rules, mode);
        assert!(refusal.contains(wanted), "{rules}: {refusal}");
    }
}

#[test]
fn a_plan_explains_paths_and_hosts() {
    let world = World::new();
    let root = world.top.join("home/project");
    std::fs::write(root.join(".env"), "secret").unwrap();
    std::fs::create_dir_all(root.join(".git/hooks")).unwrap();
    let rules = "[sandbox]\nhosts = [\"example.com\"]\n[[rule]]\nid = \"env\"\ndecision = \"deny\"\npath = [\"**/.env\"]\n";
    let plan = Plan::new(world.request(&root, rules, SandboxMode::Workspace)).unwrap();
    let layout = plan.layout().unwrap();
    let explained = |path: PathBuf| layout.explain(&path);
    assert_eq!(explained(root.join("src/main.rs")), ("writable", "a folder of the session".to_owned()));
    assert_eq!(explained(root.join(".env")), ("hidden", "the rule \"env\"".to_owned()));
    assert_eq!(explained(root.join(".git/hooks/pre-commit")), ("read-only", "a protected name".to_owned()));
    assert_eq!(explained(world.top.join("elsewhere/x")).0, "not there");
    assert_eq!(explained("/usr/bin/env".into()).0, "read-only");
    let summary = plan.summary();
    assert!(summary.starts_with(&format!("sandbox: workspace in {}; ", root.display())), "{summary}");
}

#[test]
fn files_of_rules_and_of_switchboard_are_closed_inside_a_folder() {
    let world = World::new();
    let root = world.top.join("home/project");
    for name in ["rules.toml", "secret.toml", "switchboard", "agent/bin"] {
        std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        std::fs::write(root.join(name), "x").unwrap();
    }
    // The user keeps the configuration in a repository.
    std::os::unix::fs::symlink(root.join("secret.toml"), world.top.join("config/config.toml")).unwrap();
    let mut request = world.request(&root, "", SandboxMode::Workspace);
    request.places.rules = vec![root.join("rules.toml"), world.top.join("missing")];
    request.init = root.join("switchboard");
    let layout = Plan::new(request).unwrap().layout().unwrap();
    let access = |name: &str| layout.explain(&root.join(name)).0;
    assert_eq!(access("rules.toml"), "read-only");
    assert_eq!(access("secret.toml"), "hidden");
    assert_eq!(access("switchboard"), "read-only");
    assert_eq!(access("agent/bin"), "writable");
    // A toolchain that is a link to a parent of the store opens nothing.
    std::os::unix::fs::symlink(&world.top, world.top.join("home/.nvm")).unwrap();
    let refusal = world.refusal(&root, "", SandboxMode::Workspace);
    assert!(refusal.contains("would show") && refusal.contains("of Switchboard"), "{refusal}");
}

#[test]
fn a_folder_with_dots_is_mounted_where_it_is() {
    let world = World::new();
    let root = world.top.join("home/project");
    let layout =
        |root: &Path| Plan::new(world.request(root, "", SandboxMode::Workspace)).unwrap().layout().unwrap();
    let odd = world.top.join("home/project/../project/.");
    assert_eq!(layout(&odd).mounts, layout(&root).mounts);
}

#[test]
fn a_port_of_switchboard_is_not_opened_by_its_address() {
    let world = World::new();
    let root = world.top.join("home/project");
    for host in ["127.0.0.1:4173", "[::1]:4173", "127.8.8.8:4173"] {
        let rules = format!("[sandbox]\nhosts = [\"{host}\"]\n");
        let refusal = world.refusal(&root, &rules, SandboxMode::Workspace);
        assert!(refusal.contains("on which Switchboard listens"), "{host}: {refusal}");
    }
    let rules = "[sandbox]\nhosts = [\"127.0.0.1:4174\"]\n";
    assert!(Plan::new(world.request(&root, rules, SandboxMode::Workspace)).is_ok());
}
