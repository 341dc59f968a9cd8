//! The recipes of the guide, all in one file: with attacks that are carried out as far as they are allowed,
//! and with everyday commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use switchboard_policy::{Decision, Host, Node, Policy, RequestContext, Subject, Verdict};

use crate::shells::SHELLS;

/// The files of this machine.
struct Files {
    home: String,
}

impl Host for Files {
    fn look(&self, path: &str) -> Node {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => {
                Node::Link(std::fs::read_link(path).unwrap().to_string_lossy().into_owned())
            }
            Ok(metadata) if metadata.is_dir() => Node::Folder,
            Ok(_) => Node::File { links: 1 },
            Err(_) => Node::Missing,
        }
    }

    fn home(&self) -> Option<&str> {
        Some(&self.home)
    }

    fn ignores_case(&self, _: &str) -> bool {
        false
    }

    fn list(&self, folder: &str) -> Option<Vec<String>> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Some(Vec::new()) };
        Some(entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect())
    }
}

/// A git project, with a home directory next to it.
struct Project {
    folder: tempfile::TempDir,
    files: Files,
    policy: Policy,
}

impl Project {
    /// Copies a project that is created once.
    fn new() -> Project {
        static FIRST: std::sync::OnceLock<Project> = std::sync::OnceLock::new();
        let first = FIRST.get_or_init(Project::made);
        let folder = tempfile::tempdir().unwrap();
        for place in ["home", "project"] {
            let mut copy = Command::new("cp");
            let copied = copy.arg("-a").arg(first.folder.path().join(place)).arg(folder.path());
            assert!(copied.status().unwrap().success());
        }
        let home = folder.path().join("home").to_string_lossy().into_owned();
        Project { files: Files { home }, policy: first.policy.clone(), folder }
    }

    fn made() -> Project {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let root = folder.path().join("project");
        for place in ["src/bin", "tests", "docs", "crates/core/src"] {
            std::fs::create_dir_all(root.join(place)).unwrap();
        }
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        let write = |path: &str, text: &str| std::fs::write(root.join(path), text).unwrap();
        write("Cargo.toml", "[package]\nname = \"x\"\n");
        write("Cargo.lock", "");
        write("README.md", "read me\n");
        write(".env", "TOKEN=secret-of-the-project\n");
        write("docs/guide.md", "guide\n");
        write("tests/it.rs", "");
        write("crates/core/src/lib.rs", "");
        for name in ["lib.rs", "main.rs", "bin/tool.rs"] {
            write(&format!("src/{name}"), "fn main() {}\n");
        }
        std::os::unix::fs::symlink("/etc/passwd", root.join("src/link.txt")).unwrap();
        std::fs::write(home.join(".ssh/id_rsa"), "secret-of-the-user\n").unwrap();
        let project = Project {
            files: Files { home: home.to_string_lossy().into_owned() },
            policy: Policy::ask(),
            folder,
        };
        for line in [
            "git init -q",
            "git config user.name x",
            "git config user.email x@example.com",
            "git add -A -f",
            "git commit -qm one",
            "echo more >> README.md",
            "git commit -qam two",
        ] {
            assert!(project.execute(&["bash"], line).0, "{line}");
        }
        let policy = Policy::parse(&recipes(), &project.files).unwrap_or_else(|error| panic!("{error}"));
        Project { policy, ..project }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn scene(&self) -> RequestContext {
        let root = self.root().to_string_lossy().into_owned();
        RequestContext { root: root.clone(), cwd: Some(root), agent: Some("claude-code".to_owned()) }
    }

    fn evaluate(&self, line: &str) -> Decision {
        self.policy.evaluate(&Subject::of_line(line, &self.scene()), &self.files)
    }

    /// Runs a line in a shell in the project. Returns whether it succeeded, and its output.
    fn execute(&self, shell: &[&str], line: &str) -> (bool, String) {
        let (program, options) = shell.split_first().unwrap();
        let output = Command::new(program)
            .args(options)
            .args(["-c", &format!("ulimit -t 5; {line}")])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &self.files.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("MARKER", self.folder.path().join("marker"))
            .current_dir(self.root())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Returns whether code of the attacker ran or a secret was printed.
    fn is_broken(&self, said: &str) -> bool {
        let secrets = ["secret-of-the-project", "secret-of-the-user", "root:x:0:0"];
        self.folder.path().join("marker").exists() || secrets.iter().any(|secret| said.contains(secret))
    }
}

/// Returns all recipes of the guide as one file.
fn recipes() -> String {
    let guide = include_str!("../../../../docs/policy.md");
    let recipes = guide.split("## Ten recipes").nth(1).expect("the recipes");
    let blocks = recipes.split("\n## ").next().expect("their end").split("```toml\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

/// Returns attacks in steps, one per line, with `@` for the folder that contains the project and its home.
fn chains() -> Vec<Vec<String>> {
    let text = include_str!("../corpus/chains.txt");
    let lines = text.lines().filter(|line| !line.starts_with("# "));
    let chains: Vec<Vec<String>> = lines
        .collect::<Vec<_>>()
        .split(|line| line.is_empty())
        .filter(|chain| !chain.is_empty())
        .map(|chain| chain.iter().map(|line| line.replace('⏎', "\n").replace('⇥', "\t")).collect())
        .collect();
    assert!(chains.len() >= 50, "{}", chains.len());
    chains
}

/// Runs each allowed step in all shells; no attack succeeds.
#[test]
fn commands_allowed_by_the_recipes_run_no_code_and_reveal_no_secret() {
    let untouched = Project::new();
    let verdict = |project: &Project, step: &str| {
        let around = project.folder.path().to_string_lossy().into_owned();
        project.evaluate(&step.replace('@', &around)).verdict
    };
    for chain in chains() {
        // If the first steps are not allowed, nothing changes.
        if !chain.iter().any(|step| verdict(&untouched, step) == Verdict::Allow) {
            continue;
        }
        for shell in SHELLS {
            let project = Project::new();
            let mut said = String::new();
            let around = project.folder.path().to_string_lossy().into_owned();
            for step in &chain {
                if verdict(&project, step) == Verdict::Allow {
                    let step = step.replace('@', &around);
                    said.push_str(&project.execute(shell, &step).1);
                }
            }
            assert!(!project.is_broken(&said), "{chain:?} in {shell:?}: {said}");
        }
    }
}

/// Folders that look like repositories, created by edits that the recipes allow: git is not allowed in them.
#[test]
fn git_is_allowed_in_the_projects_own_repository_alone() {
    let project = Project::new();
    let bare = project.root().join("src/bare");
    for place in ["refs", "objects"] {
        std::fs::create_dir_all(bare.join(place)).unwrap();
    }
    std::fs::write(bare.join("HEAD"), "ref: refs/heads/a\n").unwrap();
    std::fs::create_dir_all(project.root().join("src/nested/.git")).unwrap();
    std::fs::create_dir_all(project.root().join("src/nested/deep")).unwrap();
    for (line, expected) in [
        ("git status", "allow"),
        ("cd src && git status", "allow"),
        ("git -C src status", "allow"),
        ("cd src/bare && git status", "ask"),
        ("git -C src/bare status", "ask"),
        ("cd src/nested && git status", "ask"),
        ("cd src/nested/deep && git log", "ask"),
        ("git -C src/nested/deep log", "ask"),
        ("git -C src -C nested log", "ask"),
        ("cd / && git status", "ask"),
        ("cd .. && git status", "ask"),
    ] {
        assert_eq!(project.evaluate(line).verdict.as_str(), expected, "{line}");
    }
}

/// The same attacks succeed without a policy: each of them in at least one shell.
#[test]
fn the_attacks_on_the_recipes_are_real() {
    let mut unreal = chains();
    unreal.retain(|chain| {
        let is_real = SHELLS.iter().any(|shell| {
            let project = Project::new();
            let around = project.folder.path().to_string_lossy().into_owned();
            let said: String =
                chain.iter().map(|step| project.execute(shell, &step.replace('@', &around)).1).collect();
            project.is_broken(&said)
        });
        !is_real
    });
    assert!(unreal.is_empty(), "{unreal:#?}");
}

/// Returns commands that should be allowed, and commands that should not.
fn day(name: &str) -> Vec<String> {
    let text = match name {
        "everyday" => include_str!("../corpus/everyday.txt"),
        _ => include_str!("../corpus/attacks.txt"),
    };
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines.map(|line| line.replace('⏎', "\n").replace('⇥', "\t").replace('␀', "\0")).collect()
}

#[test]
fn of_98_everyday_commands_the_recipes_ask_about_5_at_most() {
    let project = Project::new();
    let around = project.folder.path().to_string_lossy().into_owned();
    let lines = day("everyday");
    assert_eq!(lines.len(), 98);
    let asked: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            let decision = project.evaluate(&line.replace('@', &around));
            (decision.verdict != Verdict::Allow).then(|| format!("{line:?}: {}", decision.reason))
        })
        .collect();
    assert!(asked.len() <= 5, "{} of 98 are asked:\n{}", asked.len(), asked.join("\n"));
}

#[test]
fn no_attack_is_allowed_by_the_recipes() {
    let project = Project::new();
    let around = project.folder.path().to_string_lossy().into_owned();
    let lines = day("attacks");
    assert!(lines.len() >= 150, "{}", lines.len());
    let allowed: Vec<&String> = lines
        .iter()
        .filter(|line| project.evaluate(&line.replace('@', &around)).verdict == Verdict::Allow)
        .collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
}

/// Goose and codex request everything as the script of a login shell.
#[test]
fn a_login_shell_is_allowed_by_its_script_only_where_the_rules_say_so() {
    let project = Project::new();
    let without = recipes().replace("login_shells = true", "login_shells = false");
    assert_ne!(without, recipes());
    let without = Policy::parse(&without, &project.files).unwrap();
    let ask = |policy: &Policy, words: serde_json::Value| {
        let call =
            json!({ "toolCallId": "c", "kind": "other", "title": "shell", "rawInput": { "command": words } });
        let options = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_once" }]);
        let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params });
        let mut reader = crate::support::reader(&project.root().to_string_lossy());
        let question = reader.read(&request.to_string(), None, Default::default()).remove(0);
        policy.evaluate(&question.subject, &project.files).offered(&question.options).verdict.as_str()
    };
    for (words, expected) in [
        (json!(["bash", "-lc", "git status"]), "allow"),
        (json!(["/bin/bash", "-lc", "cargo test 2>&1 | tail -20"]), "allow"),
        (json!(["/usr/bin/zsh", "-lc", "ls"]), "allow"),
        (json!(["bash", "-l", "-c", "ls"]), "allow"),
        (json!(["/bin/sh", "-c", "ls"]), "allow"),
        (json!("bash -lc 'git status'"), "allow"),
        (json!(["/tmp/bash", "-lc", "git status"]), "ask"),
        (json!(["bash", "-lic", "git status"]), "ask"),
        (json!(["bash", "--rcfile", "x", "-lc", "git status"]), "ask"),
        (json!(["bash", "-lc", "git status", "x"]), "ask"),
        (json!(["bash", "-lc", "git status; make"]), "ask"),
        (json!(["bash", "-lc", "git status &>/dev/null"]), "ask"),
        (json!(["bash", "-lc", "cat .env"]), "deny"),
        (json!(["bash", "-lc", "cat < .env"]), "deny"),
        (json!(["bash", "-lc", "cat README.md > x"]), "ask"),
        (json!(["bash", "-lc", "sudo ls"]), "deny"),
    ] {
        assert_eq!(ask(&project.policy, words.clone()), expected, "{words}");
        let otherwise = if expected == "allow" { "ask" } else { expected };
        assert_eq!(ask(&without, words.clone()), otherwise, "{words}");
    }
    // An untrusted project cannot enable it but can disable it.
    let trusting = Policy::parse("login_shells = true\n", &project.files).unwrap();
    assert!(!without.clone().with_project(trusting.clone(), false).login_shells());
    assert!(without.clone().with_project(trusting, true).login_shells());
    assert!(!project.policy.clone().with_project(without, false).login_shells());
}

/// A file written by redirection is only covered by a rule with write operations.
#[test]
fn a_redirection_that_writes_needs_a_rule_that_names_writing() {
    let project = Project::new();
    let rule = "[[rule]]\ndecision = \"allow\"\ncommand = [[\"cat\", \"echo\"]]\npath = [\"$root/**\"]\n";
    let reading = Policy::parse(rule, &project.files).unwrap();
    let writing =
        Policy::parse(&format!("{rule}operations = [\"add\", \"modify\"]\n"), &project.files).unwrap();
    let verdict = |policy: &Policy, line: &str| {
        policy.evaluate(&Subject::of_line(line, &project.scene()), &project.files).verdict.as_str()
    };
    for line in [
        "echo x > docs/new",
        "echo x >> README.md",
        "cat README.md >| docs/new",
        "cat <> docs/new",
        "cat > docs/new <<EOF\nx\nEOF",
        "cat README.md 2> docs/errors",
        "{ cat README.md; } > docs/new",
        "for f in a; do echo $f; done > docs/new",
        "if cat README.md; then echo x; fi > docs/new",
        "(cat README.md) >> docs/new",
        "sh -c 'cat README.md' > docs/new",
        "sh -c 'cat README.md > docs/new'",
        "> docs/new cat README.md",
    ] {
        assert_eq!((verdict(&reading, line), verdict(&writing, line)), ("ask", "allow"), "{line}");
    }
    for line in
        ["echo x > ../new", "echo x > /tmp/new", "echo x > $x", "cat README.md > src/link.txt", "> docs/new"]
    {
        assert_eq!((verdict(&reading, line), verdict(&writing, line)), ("ask", "ask"), "{line}");
    }
    for line in ["cat README.md 2>&1", "cat README.md > /dev/null", "cat < README.md", "cat README.md >&2"] {
        assert_eq!((verdict(&reading, line), verdict(&writing, line)), ("allow", "allow"), "{line}");
    }
}

/// Wildcards expand to existing files, with links resolved.
#[test]
fn wildcards_are_allowed_by_what_they_stand_for() {
    let project = Project::new();
    let root = project.root();
    let verdict = |line: &str| project.evaluate(line).verdict.as_str();
    for (line, expected) in [
        ("cat src/*.rs", "allow"),
        ("wc -l crates/*/src/*.rs", "allow"),
        ("ls *.md docs/*", "allow"),
        ("head -n 3 src/???.rs", "allow"),
        ("cat src/[lm]*.rs", "allow"),
        ("for f in src/*.rs; do wc -l \"$f\"; done", "allow"),
        // One of them leads outside.
        ("cat src/*", "ask"),
        ("cat src/*.txt", "ask"),
        ("cat ../*", "ask"),
        ("cat /etc/*", "ask"),
        ("ls .*", "deny"),
        ("cat .e*", "deny"),
        ("cat .[e]nv", "deny"),
        ("cat */.env", "deny"),
        ("cat ~/.ssh/*", "deny"),
        ("cat nothing/*.rs", "allow"),
        ("for f in .e*; do cat \"$f\"; done", "deny"),
        ("for f in src/*; do cat $f; done", "ask"),
    ] {
        assert_eq!(verdict(line), expected, "{line}: {}", project.evaluate(line).reason);
    }
    // A file whose name is an option, and one whose name is two words.
    std::fs::write(root.join("docs/a b.md"), "").unwrap();
    assert_eq!(verdict("cat docs/*.md"), "allow");
    assert_eq!(verdict("for f in docs/*.md; do cat \"$f\"; done"), "allow");
    assert_eq!(verdict("for f in docs/*.md; do cat $f; done"), "ask");
    std::fs::write(root.join("-f"), "").unwrap();
    assert_eq!(verdict("cat ./*.md"), "allow");
    assert_eq!(verdict("grep x *"), "ask");
}

#[test]
fn a_directory_counts_only_if_it_is_there() {
    let project = Project::new();
    let verdict = |line: &str| project.evaluate(line).verdict.as_str();
    for (line, expected) in [
        ("cd src; cat lib.rs", "allow"),
        ("cd src && cat lib.rs", "allow"),
        ("cd src/missing; cat ../../../home/x", "ask"),
        ("cd src/missing && cat ../../README.md", "allow"),
        ("cd src/lib.rs; cat ../../../home/x", "ask"),
        ("cd src && ls; cat lib.rs", "allow"),
    ] {
        assert_eq!(verdict(line), expected, "{line}");
    }
}

/// Every recipe is found in the guide, and a shell can work in the project.
#[test]
fn the_recipes_are_ten() {
    let text = recipes();
    for number in 1..=10 {
        assert!(
            text.contains(&format!("\n# {number}. ")) || text.starts_with(&format!("# {number}. ")),
            "{number}"
        );
    }
    let project = Project::new();
    assert!(project.execute(&["bash"], "git status --short && cat src/lib.rs").0);
    assert!(Path::new(&project.files.home).is_dir());
}
