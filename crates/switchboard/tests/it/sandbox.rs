//! Sandboxes of agents, on a real kernel with a real bubblewrap: escapes that must fail, everyday work that must not, and
//! failures that must start nothing.
//!
//! Each case of a corpus is a shell script, run in the modes that it names by `switchboard sandbox run`. An escape prints
//! `ESCAPED` if it succeeds; a case of work ends with exit code 0. If this machine cannot make sandboxes, all tests fail and
//! say why: nothing is skipped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::agent_program::Place;

const BOTH: [&str; 2] = ["workspace", "strict"];

pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success(), "git {arguments:?}");
}

/// A project with secrets, a repository and rules.
pub(crate) fn project() -> Place {
    let place = Place::new();
    place.write("work/src/main.rs", "fn main() {}\n");
    place.write("work/.env", "KEY=secret-in-env\n");
    place.write("work/private/key", "secret-in-private\n");
    place.write("work/.envrc", "export A=1\n");
    place.write("work/sub/.vscode/tasks.json", "{}\n");
    place.write("work/Cargo.lock", "# locked\n");
    place.write("home/.ssh/id_ed25519", "secret-in-home\n");
    place.write("home/.gitconfig", "[user]\n\tname = Tester\n\temail = t@example.com\n");
    place.write("elsewhere/file", "secret-elsewhere\n");
    let rules = r#"
[sandbox]
network = "none"

[[rule]]
id = "secrets"
decision = "deny"
path = ["**/.env", "$root/private/**"]

[[rule]]
id = "lock"
decision = "deny"
kind = "edit"
path = ["$root/Cargo.lock"]
"#;
    place.write("home/.config/switchboard/switchboard-policy.toml", rules);
    git(&place.work(), &["init", "--quiet"]);
    git(&place.work(), &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    git(&place.work(), &["worktree", "add", "--quiet", "--detach", "../tree"]);
    place.write("work/.githooks/post-merge", "#!/bin/sh\n");
    place.write("work/shared.gitconfig", "[alias]\n\tx = status\n");
    git(&place.work(), &["config", "core.hooksPath", ".githooks"]);
    git(&place.work(), &["config", "include.path", "../shared.gitconfig"]);
    std::fs::hard_link(place.work().join(".env"), place.work().join("twin")).unwrap();
    std::os::unix::fs::symlink(place.home().join(".ssh"), place.work().join("link-to-home")).unwrap();
    place
}

/// Runs a program in the sandbox of a place.
pub(crate) fn confined(place: &Place, options: &[&str], program: &[&str]) -> Command {
    place.command(&[&["sandbox", "run"], options, &["--"], program].concat())
}

pub(crate) fn script(place: &Place, mode: &str, text: &str) -> Output {
    let mut command = confined(place, &["--mode", mode], &["sh", "-c", text]);
    command.env("OUTSIDE", place.work().parent().unwrap().join("elsewhere"));
    command.env("SECRET_TOKEN", "secret-in-environment").output().unwrap()
}

pub(crate) fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Escapes, each with the modes in which it is tried.
fn escapes(place: &Place, host_process: u32, port: u16, abstract_name: &str) -> Vec<(&'static str, String)> {
    let (home, work) = (place.home(), place.work());
    let (home, work) = (home.display(), work.display());
    let elsewhere = place.work().parent().unwrap().join("elsewhere").display().to_string();
    let store = place.home().join(".local/share/switchboard");
    let python = |code: &str| format!("python3 - <<'PY'\n{code}\nPY");
    vec![
        // Cases with Python would find nothing without it.
        ("run Python", python("print('PYTHON')")),
        // ----- the file system
        ("read the home directory", format!("cat {home}/.ssh/id_ed25519 && echo ESCAPED")),
        ("read through a link in the project", "cat link-to-home/id_ed25519 && echo ESCAPED".into()),
        ("read elsewhere", format!("cat {elsewhere}/file && echo ESCAPED")),
        ("write elsewhere", format!("mkdir -p {elsewhere}; echo x > {elsewhere}/file; true")),
        ("write the system", "touch /usr/escaped /etc/escaped /escaped /bin/escaped && echo ESCAPED".into()),
        ("read a hidden file", "grep secret .env && echo ESCAPED".into()),
        ("read a hidden folder", "cat private/key && echo ESCAPED".into()),
        ("read another hard link of a hidden file", "grep secret twin && echo ESCAPED".into()),
        ("link a hidden file", "ln .env other && grep secret other && echo ESCAPED".into()),
        ("rename a hidden file", "mv .env other && grep secret other && echo ESCAPED".into()),
        ("rename the parent of a hidden file", "mv private p2 && cat p2/key && echo ESCAPED".into()),
        ("copy with rsync semantics", "cp -a . /tmp/copy 2>/dev/null; grep -r secret /tmp/copy && echo ESCAPED".into()),
        ("write a read-only file of a rule", "echo x >> Cargo.lock && echo ESCAPED".into()),
        ("replace a read-only file of a rule", "echo x > n && mv -f n Cargo.lock && echo ESCAPED".into()),
        ("read files of the system for root only", "grep root /etc/shadow && echo ESCAPED".into()),
        ("unmount", "umount .env 2>/dev/null && echo ESCAPED".into()),
        ("remount", format!("mount -o remount,rw,bind {work}/.git/hooks 2>/dev/null && echo ESCAPED")),
        ("make a device", "mknod /tmp/d b 8 0 && echo ESCAPED; mknod d b 254 0 && echo ESCAPED".into()),
        ("set the user id bit", "cp /bin/sh s; chmod 4755 s && echo ESCAPED; chmod u+s s && echo ESCAPED".into()),
        ("change the root", "chroot / true && echo ESCAPED".into()),
        ("write the store", format!("ls {store}/sandbox 2>/dev/null && echo ESCAPED", store = store.display())),
        ("read Switchboard's configuration", format!("cat {home}/.config/switchboard/*.toml && echo ESCAPED")),
        // ----- configuration and hooks that others run
        ("write a Git hook", "echo x > .git/hooks/pre-commit && echo ESCAPED".into()),
        ("change the Git configuration", "git config core.hooksPath /tmp && echo ESCAPED".into()),
        ("replace the Git folder", "mv .git g && cp -a g .git && echo x > .git/hooks/pre-commit && echo ESCAPED".into()),
        ("write hooks that the configuration names", "echo x > .githooks/post-merge && echo ESCAPED; echo x > .githooks/new && echo ESCAPED; mv .githooks h && echo ESCAPED".into()),
        ("write configuration that Git includes", "echo x >> shared.gitconfig && echo ESCAPED; rm -f shared.gitconfig && echo ESCAPED".into()),
        ("lead a worktree to another configuration", "for f in .git/worktrees/*/commondir .git/worktrees/*/gitdir; do echo ../evil > $f && echo ESCAPED; rm -f $f && echo ESCAPED; done; mv .git/worktrees w && echo ESCAPED".into()),
        ("write .envrc", "echo x >> .envrc && echo ESCAPED".into()),
        ("replace .envrc", "rm -f .envrc && echo ESCAPED".into()),
        ("write editor tasks", "echo x > sub/.vscode/tasks.json && echo ESCAPED".into()),
        ("replace the parent of editor tasks", "mv sub s2 && mkdir -p sub/.vscode && echo ESCAPED".into()),
        ("write the shell's start files", format!("echo evil >> {home}/.bashrc; echo evil >> {home}/.profile; true")),
        ("write Git's own configuration", format!("echo evil >> {home}/.gitconfig && echo ESCAPED")),
        // ----- processes
        ("see processes", format!("[ -d /proc/{host_process} ] && grep -q switchboard /proc/{host_process}/cmdline && echo ESCAPED")),
        ("signal a process", format!("kill -0 {host_process} && echo ESCAPED")),
        ("read the environment", "env | grep -q secret-in-environment && echo ESCAPED".into()),
        ("read the environment of the first process", "tr '\\0' '\\n' < /proc/1/environ | grep secret-in && echo ESCAPED".into()),
        ("reach the machine through the first process", "cat /proc/1/root/etc/hostname 2>/dev/null && ls /proc/1/root/work /proc/1/root/home 2>/dev/null && echo ESCAPED".into()),
        ("change the kernel", "echo x > /proc/sys/kernel/core_pattern && echo ESCAPED".into()),
        ("change the kernel by /sys", "find /sys -maxdepth 3 -type f -writable 2>/dev/null | head -1 | while read f; do echo > $f && echo ESCAPED; done".into()),
        ("inherit descriptors", "for f in /proc/self/fd/*; do case $(basename $f) in 0|1|2) ;; *) t=$(readlink $f); case $t in /proc/*|'') ;; *) echo \"ESCAPED $t\" ;; esac ;; esac; done".into()),
        ("inject into the terminal", python("import fcntl,sys\ntry:\n  fcntl.ioctl(0, 0x5412, b'x'); print('ESCAPED')\nexcept OSError: pass")),
        ("trace the first process", python("import ctypes\nl=ctypes.CDLL(None,use_errno=True)\nif l.ptrace(16,1,0,0)==0: print('ESCAPED')")),
        // ----- namespaces
        ("make a user namespace", "unshare --user true 2>/dev/null && echo ESCAPED".into()),
        ("enter a namespace", "nsenter --target 1 --all true 2>/dev/null && echo ESCAPED".into()),
        // ----- the network, by every family
        ("connect to the loopback of the machine", python(&format!("import socket\ntry:\n  socket.create_connection(('127.0.0.1',{port}),2); print('ESCAPED')\nexcept OSError: pass"))),
        ("connect to another host", python("import socket\nfor a in ('192.0.2.1','8.8.8.8'):\n  try:\n    socket.create_connection((a,53),1); print('ESCAPED')\n  except OSError: pass")),
        ("look up a name", python("import socket\ntry:\n  socket.getaddrinfo('example.com',443); print('ESCAPED')\nexcept OSError: pass")),
        ("send a datagram", python("import socket\ntry:\n  s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.sendto(b'x',('192.0.2.1',53)); print('ESCAPED')\nexcept OSError: pass")),
        ("connect to an abstract socket", python(&format!("import socket\ns=socket.socket(socket.AF_UNIX)\ntry:\n  s.connect('\\0{abstract_name}'); print('ESCAPED')\nexcept OSError: pass"))),
        ("open sockets of other families", python("import socket\nfor family in range(1, 46):\n  if family in (1,2,10,16): continue\n  for kind in (1,2,3,5):\n    try:\n      socket.socket(family,kind,0); print('ESCAPED',family,kind)\n    except OSError: pass")),
        ("open raw sockets", python("import socket\nfor family in (2,10):\n  for proto in (1,6,255):\n    try:\n      socket.socket(family,socket.SOCK_RAW,proto); print('ESCAPED')\n    except OSError: pass")),
        ("open other netlink sockets", python("import socket\nfor proto in range(1,23):\n  try:\n    socket.socket(16,3,proto); print('ESCAPED',proto)\n  except OSError: pass")),
        ("use refused system calls", python("import ctypes,platform\nl=ctypes.CDLL(None,use_errno=True)\ncalls={'x86_64':(425,426,427,248,249,250,321,298,323,304,246,320),'aarch64':(425,426,427,217,218,219,280,241,282,265,104,294)}[platform.machine()]\nfor c in calls:\n  ctypes.set_errno(0)\n  r=l.syscall(c,0,0,0,0,0)\n  if not (r==-1 and ctypes.get_errno()==1): print('ESCAPED',c,r,ctypes.get_errno())\nctypes.set_errno(0)\nr=l.syscall(437,-100,b'/tmp/x',0,0)\nif not (r==-1 and ctypes.get_errno()==38): print('ESCAPED openat2',r,ctypes.get_errno())")),
        ("use the x32 variants of refused calls", python("import ctypes,platform\nl=ctypes.CDLL(None,use_errno=True)\nif platform.machine()=='x86_64':\n  for c in (425,250,321,41):\n    ctypes.set_errno(0)\n    r=l.syscall(c|0x40000000,38,1,0,0,0)\n    if r!=-1 or ctypes.get_errno() not in (1,38): print('ESCAPED',c,r,ctypes.get_errno())")),
    ]
}

#[test]
fn no_escape_succeeds() {
    let place = project();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("switchboard-escape-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract(&name);
    let _abstract_socket = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let mut failures = Vec::new();
    let (mut tried, mut pythons) = (0, 0);
    for mode in BOTH {
        let cases = escapes(&place, std::process::id(), port, &name);
        // All cases of a mode in one sandbox: each in a shell of its own, so that one cannot keep another from running.
        let mut all = String::from("cd \"$PWD\"\n");
        for (number, (_, text)) in cases.iter().enumerate() {
            let quoted = text.replace('\'', "'\\''");
            all.push_str(&format!("echo CASE {number}\ntimeout 20 sh -c '{quoted}' 2>&1\n"));
        }
        all.push_str("echo CASE end\n");
        let output = script(&place, mode, &all);
        let (out, err) = texts(&output);
        assert!(out.contains("CASE end"), "the sandbox {mode} did not run: {out}\n{err}");
        let mut case = 0;
        for line in out.lines() {
            if let Some(number) = line.strip_prefix("CASE ") {
                tried += usize::from(number != "end");
                case = number.parse().unwrap_or(case);
            } else if line == "PYTHON" {
                pythons += 1;
            } else if line.contains("ESCAPED") || line.contains("secret-") {
                failures.push(format!("{mode}: {}: {line}", cases[case].0));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(pythons, 2, "python3 did not run");
    assert!(tried >= 2 * 50, "{tried} cases");
    // Nothing of it is outside.
    let read = |path: &str| std::fs::read_to_string(place.work().parent().unwrap().join(path)).unwrap();
    assert_eq!(read("elsewhere/file"), "secret-elsewhere\n");
    assert_eq!(read("work/.env"), "KEY=secret-in-env\n");
    assert_eq!(read("work/.envrc"), "export A=1\n");
    assert_eq!(read("work/Cargo.lock"), "# locked\n");
    assert!(!place.home().join(".bashrc").exists() && !place.home().join(".profile").exists());
    assert!(!place.work().join(".git/hooks/pre-commit").exists());
    assert_eq!(read("home/.gitconfig").matches("evil").count(), 0);
}

trait FromAbstract {
    fn from_abstract(name: &str) -> Self;
}

impl FromAbstract for std::os::unix::net::SocketAddr {
    fn from_abstract(name: &str) -> Self {
        use std::os::linux::net::SocketAddrExt;
        Self::from_abstract_name(name).unwrap()
    }
}

/// Cases of everyday work. A tool that this machine lacks is named in the output of the test.
const WORK: [(&str, &str, &str); 18] = [
    ("git commit", "git", "echo a > a && git add a && git commit -qm one && git log --oneline | grep one"),
    (
        "git branches and stash",
        "git",
        "git checkout -qb topic && echo b > b && git add b && git stash -q && git stash pop -q && git commit -qm two && git checkout -q -",
    ),
    (
        "git worktree",
        "git",
        "git worktree add -q /tmp/tree && cd /tmp/tree && echo c > c && git add c && git commit -qm three",
    ),
    (
        "git merge and rebase",
        "git",
        "git checkout -qb m && echo m > m && git add m && git commit -qm m && git checkout -q - && git merge -q m",
    ),
    ("files and folders", "sh", "mkdir -p x/y && echo 1 > x/y/z && mv x w && cp -r w v && rm -rf w v"),
    (
        "temporary files",
        "sh",
        "t=$(mktemp) && echo 1 > $t && d=$(mktemp -d) && mv $t $d/f && cat $d/f && [ -w /var/tmp ] && echo x > /dev/shm/x",
    ),
    (
        "programs in temporary folders",
        "sh",
        "printf '#!/bin/sh\\necho hi\\n' > /tmp/p && chmod 755 /tmp/p && /tmp/p",
    ),
    (
        "the home directory keeps caches",
        "sh",
        "mkdir -p ~/.cache/tool && echo 1 > ~/.cache/tool/x && cat ~/.cache/tool/x",
    ),
    ("compile C", "gcc", "printf 'int main(void){return 0;}' > c.c && gcc c.c -o c.out && ./c.out"),
    (
        "cargo build without network",
        "cargo",
        "cargo new --quiet --vcs none made && cd made && cargo test --quiet --offline",
    ),
    (
        "node",
        "node",
        "node -e 'require(\"fs\").writeFileSync(\"n.txt\",\"1\")' && node -e 'const n=require(\"net\");const s=n.createServer(c=>c.end(\"x\")).listen(0,\"127.0.0.1\",()=>n.connect(s.address().port).on(\"data\",()=>{s.close();process.exit(0)}))'",
    ),
    (
        "npm without network",
        "npm",
        "mkdir -p pkg dep && printf '{\"name\":\"dep\",\"version\":\"1.0.0\"}' > dep/package.json && cd pkg && npm init -y >/dev/null && npm install --offline --no-audit --no-fund ../dep && npm run env >/dev/null",
    ),
    (
        "python and venv",
        "python3",
        "python3 -m venv --without-pip v && v/bin/python -c 'import sqlite3,json,multiprocessing;print(1)'",
    ),
    (
        "python tests",
        "python3",
        "printf 'import unittest\\nclass T(unittest.TestCase):\\n  def test(self): self.assertEqual(1,1)\\n' > test_x.py && python3 -m unittest -q test_x",
    ),
    (
        "pip from a file",
        "pip",
        "python3 -m venv v && printf 'import zipfile\\nz=zipfile.ZipFile(\"x-1.0-py3-none-any.whl\",\"w\")\\nz.writestr(\"x.py\",\"y=7\")\\nd=\"x-1.0.dist-info/\"\\nz.writestr(d+\"METADATA\",\"Metadata-Version: 2.1\\\\nName: x\\\\nVersion: 1.0\\\\n\")\\nz.writestr(d+\"WHEEL\",\"Wheel-Version: 1.0\\\\nRoot-Is-Purelib: true\\\\nTag: py3-none-any\\\\n\")\\nz.writestr(d+\"RECORD\",\"\")\\nz.close()\\n' > w.py && python3 w.py && v/bin/pip install -q --no-index ./x-1.0-py3-none-any.whl && v/bin/python -c 'import x; assert x.y == 7'",
    ),
    ("pytest", "pytest", "printf 'def test_x():\\n  assert 1\\n' > test_y.py && pytest -q test_y.py"),
    (
        "git submodule and clone",
        "git",
        "git init -q ../lib-$$ 2>/dev/null; git init -q lib && git -C lib commit -q --allow-empty -m l && git -c protocol.file.allow=always clone -q lib copy && git -C copy log --oneline && rm -rf lib copy",
    ),
    (
        "servers of editors on the loopback and on unix sockets",
        "python3",
        "python3 -c 'import socket,os\ns=socket.socket();s.bind((\"127.0.0.1\",0));s.listen();c=socket.create_connection(s.getsockname())\nu=socket.socket(socket.AF_UNIX);u.bind(\"/tmp/s\");u.listen();d=socket.socket(socket.AF_UNIX);d.connect(\"/tmp/s\")'",
    ),
];

#[test]
fn everyday_work_succeeds() {
    let place = project();
    // Toolchains in a home directory are those of the user who runs the tests.
    let home = std::env::var("HOME").unwrap_or_default();
    for name in [".cargo/bin", ".rustup"] {
        let (from, to) = (Path::new(&home).join(name), place.home().join(name));
        if from.exists() {
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(from, to).unwrap();
        }
    }
    let path = format!("{}/.cargo/bin:/usr/local/bin:/usr/bin:/bin", place.home().display());
    let has = |program: &str| {
        let mut found = Command::new("sh");
        found.args(["-c", &format!("command -v {program}")]).env("PATH", &path);
        found.output().unwrap().status.success()
    };
    let mut failures = Vec::new();
    // Toolchains of the home directory are only there in the mode workspace.
    let of_home = ["cargo"];
    let cases = WORK.iter().flat_map(|case| BOTH.map(|mode| (case, mode)));
    for ((name, tool, text), mode) in
        cases.filter(|((_, tool, _), mode)| *mode == "workspace" || !of_home.contains(tool))
    {
        if !has(tool) {
            eprintln!("everyday work: {name}: this machine has no {tool}");
            continue;
        }
        let work = place.work().join(format!("{}-{mode}", name.replace(' ', "-")));
        std::fs::create_dir(&work).unwrap();
        git(&work, &["init", "--quiet"]);
        git(&work, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
        let mut command = confined(&place, &["--mode", mode], &["sh", "-c", text]);
        command.current_dir(&work).env("PATH", &path).env_remove("CARGO_HOME").env_remove("RUSTUP_HOME");
        let output = command.output().unwrap();
        if !output.status.success() {
            let (out, err) = texts(&output);
            failures.push(format!("{mode}: {name}: {:?}\n{out}\n{err}", output.status));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n---\n"));
    // Caches stay in the private home, and the user's own is untouched.
    assert!(!place.home().join(".cache/tool").exists());
}

#[test]
fn the_home_of_strict_is_thrown_away_and_that_of_workspace_is_kept() {
    let place = project();
    let keep = "[ -e ~/kept ] && echo again; touch ~/kept";
    for (mode, wanted) in [("workspace", "again"), ("strict", "")] {
        let first = script(&place, mode, keep);
        assert!(first.status.success(), "{:?}", texts(&first));
        let (out, err) = texts(&script(&place, mode, keep));
        assert_eq!(out.trim(), wanted, "{mode}: {err}");
    }
    // Nothing private is left but the kept home.
    let data = place.home().join(".local/share/switchboard/sandbox");
    for folder in std::fs::read_dir(data).unwrap() {
        let names: Vec<String> = std::fs::read_dir(folder.unwrap().path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("run-"))
            .collect();
        assert_eq!(names, [""; 0]);
    }
}

#[test]
fn a_link_in_the_private_home_leads_no_mount_elsewhere() {
    let place = Place::new();
    place.write("elsewhere/x", "1");
    let outside = place.work().parent().unwrap().join("elsewhere");
    let trap = format!("ln -s {} ~/.cargo; ln -s /etc ~/.local; ls -la ~", outside.display());
    let first = script(&place, "workspace", &trap);
    assert!(first.status.success(), "{:?}", texts(&first));
    // Now the user installs a toolchain, whose mount point would be behind the link.
    place.write("home/.cargo/bin/tool", "#!/bin/sh\necho tool\n");
    let second = script(&place, "workspace", "cat ~/.cargo/bin/tool; ls -ld ~/.cargo");
    let (out, err) = texts(&second);
    assert!(out.contains("echo tool") && out.contains("drwx"), "{out} {err}");
    assert!(!outside.join("bin").exists());
}

#[test]
fn detached_processes_end_with_the_program() {
    let place = project();
    let mark = format!("sandbox-mark-{}", std::process::id());
    let text = format!(
        "setsid sh -c 'while :; do sleep 1 # {mark}\ndone' >/dev/null 2>&1 & sleep 0.2; echo started"
    );
    let (out, err) = texts(&script(&place, "workspace", &text));
    assert_eq!(out.trim(), "started", "{err}");
    let found = Command::new("pgrep").args(["-f", &mark]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout).trim(), "");
}

#[test]
fn inherited_descriptors_are_closed() {
    let place = project();
    // A descriptor of an open folder leads out of any mount namespace.
    let program = env!("CARGO_BIN_EXE_switchboard");
    let text = format!(
        "exec 7< '{}'; exec {program} sandbox run --mode workspace -- sh -c 'ls /proc/self/fd/7/ && echo ESCAPED'",
        place.home().display()
    );
    let mut shell = place.command(&[]);
    let environment: Vec<_> =
        shell.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    let folder = shell.get_current_dir().unwrap().to_owned();
    shell = Command::new("bash");
    shell.args(["-c", &text]).current_dir(folder);
    for (name, value) in environment {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let (out, err) = texts(&shell.output().unwrap());
    assert!(!out.contains("ESCAPED") && err.contains("No such file"), "{out} {err}");
}

// ----- failures start nothing

/// Runs a command in a mount namespace in which `bwrap` is another file.
pub(crate) fn with_bwrap(place: &Place, fake: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_switchboard");
    let mut command = Command::new("unshare");
    let setup = format!("mount --bind '{}' /usr/bin/bwrap && exec \"$0\" \"$@\"", fake.display());
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &setup, program]).args(arguments);
    let usual = place.command(&[]);
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(place.work()).stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn fake_bwrap(place: &Place, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    place.write("fake/bwrap", text);
    let path = place.work().parent().unwrap().join("fake/bwrap");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_bubblewrap_that_fails_lies_or_is_old_starts_nothing() {
    let place = project();
    let version = "[ \"$1\" = --version ] && { echo bubblewrap 0.8.0; exit 0; }\n";
    let program = env!("CARGO_BIN_EXE_switchboard");
    let cases = [
        ("#!/bin/sh\necho bubblewrap 0.7.0\n".to_owned(), "0.8 or newer is needed"),
        ("#!/bin/sh\necho hello\n".to_owned(), "does not print a version"),
        (
            format!(
                "#!/bin/sh\n{version}echo 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n"
            ),
            "No permissions to create a new namespace",
        ),
        // It runs the program without any sandbox.
        (
            format!(
                "#!/bin/sh\n{version}while [ \"$1\" != -- ]; do shift; done\nshift 2\nexec {program} \"$@\"\n"
            ),
            "the sandbox cannot be made",
        ),
        (format!("#!/bin/sh\n{version}exit 0\n"), "the sandbox cannot be made"),
    ];
    for (text, wanted) in cases {
        let fake = fake_bwrap(&place, &text);
        for arguments in [
            &["run", "hi", "--sandbox", "--", "sh", "-c", "touch started"][..],
            &["sandbox", "run", "--mode", "strict", "--", "touch", "started"],
        ] {
            let output = with_bwrap(&place, &fake, arguments);
            let (out, err) = texts(&output);
            assert!(err.contains(wanted), "{text}\n{arguments:?}\n{out}\n{err}");
            assert!(err.contains("nothing was started"), "{text}\n{err}");
            assert_eq!(output.status.code(), Some(6), "{text}\n{err}");
            assert!(!place.work().join("started").exists(), "{text}");
        }
    }
}

#[test]
fn rules_that_cannot_be_held_start_nothing() {
    let place = project();
    let mark = place.work().join("started");
    let run = |options: &[&str]| {
        let all = [&["run", "hi"], options, &["--", "sh", "-c", "touch started"]].concat();
        place.command(&all).output().unwrap()
    };
    place.write("rules/all.toml", "[sandbox]\nmode = \"strict\"\nnetwork = \"all\"\n");
    place.write("rules/bad.toml", "[sandbox]\nmode = \"strict\"\nnetwrk = \"all\"\n");
    place.write("rules/missing.toml", "[sandbox]\nmode = \"workspace\"\nread = [\"/nowhere/at/all\"]\n");
    let rules = |name: &str| place.work().parent().unwrap().join("rules").join(name).display().to_string();
    for (options, code, wanted) in [
        (vec!["--permissions".to_owned(), rules("all.toml")], 6, "strict cannot have network"),
        (vec!["--permissions".to_owned(), rules("bad.toml")], 1, "unknown key \"netwrk\" in [sandbox]"),
        (
            vec!["--permissions".to_owned(), rules("missing.toml")],
            6,
            "`read` in the rules names /nowhere/at/all",
        ),
        (vec!["--sandbox=loose".to_owned()], 2, "the sandbox is"),
        (
            vec!["--sandbox".to_owned(), "--cwd".to_owned(), place.home().display().to_string()],
            6,
            "your home directory",
        ),
    ] {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let output = run(&options);
        let (_, err) = texts(&output);
        assert!(err.contains(wanted), "{options:?}: {err}");
        assert_eq!(output.status.code(), Some(code), "{options:?}: {err}");
        assert!(!mark.exists(), "{options:?}");
    }
    // A project's file that cannot be used starts nothing if it may be about the sandbox.
    place.write("work/switchboard-policy.toml", "[sandbox]\nmode = 3\n");
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(6), "{:?}", texts(&output));
    assert!(!mark.exists());
    std::fs::remove_file(place.work().join("switchboard-policy.toml")).unwrap();
    let remote = place.command(&["run", "--sandbox", "ws://127.0.0.1:9/acp", "hi"]).output().unwrap();
    assert_eq!(remote.status.code(), Some(6), "{:?}", texts(&remote));
}

// ----- agents

/// An agent of version 1 that runs its prompt as a shell command and says the output.
const AGENT: &str = r#"
import json, subprocess, sys
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params, id = message.get("method"), message.get("params") or {}, message.get("id")
    if method == "initialize":
        offered = json.dumps(params.get("clientCapabilities", {}), sort_keys=True)
        say({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "shell", "version": "1"}}})
    elif method == "session/new":
        say({"id": id, "result": {"sessionId": "s1"}})
    elif method == "session/prompt":
        text = params["prompt"][0]["text"]
        if text == "offered":
            said = offered
        elif text == "ask":
            say({"id": "f", "method": "fs/read_text_file", "params": {"sessionId": "s1", "path": "/etc/hostname"}})
            said = sys.stdin.readline().strip()
        elif text.startswith("tool "):
            done = subprocess.run(["sh", "-c", text[5:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            said = "done"
            call = {"toolCallId": "c1", "title": "shell", "kind": "execute", "status": "in_progress"}
            say({"method": "session/update", "params": {"sessionId": "s1", "update": {"sessionUpdate": "tool_call", **call}}})
            content = [{"type": "content", "content": {"type": "text", "text": done.stdout + done.stderr}}]
            end = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed", "content": content}
            say({"method": "session/update", "params": {"sessionId": "s1", "update": end}})
        else:
            done = subprocess.run(["sh", "-c", text], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            said = done.stdout + done.stderr
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}
        say({"method": "session/update", "params": {"sessionId": "s1", "update": update}})
        say({"id": id, "result": {"stopReason": "end_turn"}})
"#;

pub(crate) fn python() -> String {
    // The shims of version managers need more than the interpreter.
    let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(found.stdout).unwrap().trim().to_owned()
}

/// A place whose rules open the interpreter of the agent, wherever it is installed.
pub(crate) fn with_agent(place: &Place, more: &str) -> Vec<String> {
    let python = python();
    let real = Path::new(&python).canonicalize().unwrap();
    let prefix = real.parent().unwrap().parent().unwrap();
    let read = if prefix.starts_with("/usr") {
        String::new()
    } else {
        format!("read = [{:?}]\n", prefix.display().to_string())
    };
    let rules = format!("[sandbox]\n{read}{more}\n[[rule]]\ndecision = \"deny\"\npath = [\"**/.env\"]\n");
    place.write("home/.config/switchboard/switchboard-policy.toml", &rules);
    vec![real.display().to_string(), "-c".to_owned(), AGENT.to_owned()]
}

const TRY: &str = "cat .env; echo y > made; touch /usr/x; echo sandbox=$SWITCHBOARD_SANDBOX";

fn is_confined(said: &str) {
    assert!(said.contains("Permission denied") && !said.contains("secret-"), "{said}");
    assert!(said.contains("Read-only file system") && said.contains("sandbox="), "{said}");
}

#[test]
fn run_confines_the_agent_and_records_it() {
    let place = project();
    let agent = with_agent(&place, "network = \"none\"");
    let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
    let output = place
        .command(&[&["run", TRY, "--sandbox=strict", "--record", "--"], &agent[..]].concat())
        .output()
        .unwrap();
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    is_confined(&out);
    assert!(out.contains("sandbox=strict"), "{out}");
    let shown = format!("{out}{err}");
    assert!(shown.contains("sandbox: strict in"), "{shown}");
    assert_eq!(std::fs::read_to_string(place.work().join("made")).unwrap(), "y\n");
    let list = place.command(&["sessions", "list", "--json"]).output().unwrap();
    let session: Value = serde_json::from_str(texts(&list).0.lines().next().unwrap()).unwrap();
    let id = session["id"].as_str().unwrap_or_else(|| panic!("{session}"));
    let (wire, err) = texts(&place.command(&["sessions", "show", "--wire", id]).output().unwrap());
    assert!(wire.contains("switchboard/sandbox"), "{wire} {err}");
    // Without the option, the rules decide; with off, they do not.
    let off = place.command(&[&["run", "cat .env", "--"], &agent[..]].concat()).output().unwrap();
    assert!(texts(&off).0.contains("secret-in-env"), "{:?}", texts(&off));
    with_agent(&place, "mode = \"workspace\"\nnetwork = \"none\"");
    let on = place.command(&[&["run", TRY, "--"], &agent[..]].concat()).output().unwrap();
    is_confined(&texts(&on).0);
    let off =
        place.command(&[&["run", "cat .env", "--sandbox=off", "--"], &agent[..]].concat()).output().unwrap();
    let (out, err) = texts(&off);
    assert!(
        out.contains("secret-in-env") && err.contains("switches off the sandbox of the rules"),
        "{out} {err}"
    );
}

#[test]
fn the_bridge_starts_the_agent_in_the_folders_of_the_session() {
    let place = project();
    let agent = with_agent(&place, "network = \"none\"");
    let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
    let mut bridge = place.command(&[&["bridge", "--sandbox", "--"], &agent[..]].concat());
    let mut bridge = bridge.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = bridge.stdin.take().unwrap();
    let mut lines = BufReader::new(bridge.stdout.take().unwrap()).lines();
    let mut all = Vec::new();
    let mut ask = |id: u64, method: &str, params: Value| -> Value {
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .unwrap();
        loop {
            let Some(Ok(line)) = lines.next() else {
                let mut err = String::new();
                bridge.stderr.take().unwrap().read_to_string(&mut err).unwrap();
                panic!("the bridge has ended: {err}");
            };
            let message: Value = serde_json::from_str(&line).unwrap();
            all.push(message.clone());
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    };
    let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
    ask(1, "initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
    let opened = ask(2, "session/new", json!({"cwd": place.work(), "mcpServers": []}));
    assert_eq!(opened["result"]["sessionId"], "s1", "{opened}");
    let mut prompt = |id: u64, text: &str| {
        ask(id, "session/prompt", json!({"sessionId": "s1", "prompt": [{"type": "text", "text": text}]}));
    };
    prompt(3, TRY);
    prompt(4, "offered");
    prompt(5, "ask");
    let other = ask(6, "session/new", json!({"cwd": place.work().join("src"), "mcpServers": []}));
    assert!(other["error"]["message"].as_str().unwrap().contains("has other folders"), "{other}");
    let home = ask(7, "session/new", json!({"cwd": "relative", "mcpServers": []}));
    assert_eq!(home["error"]["code"], -32602, "{home}");
    drop(input);
    bridge.wait().unwrap();
    let said: String = all
        .iter()
        .filter_map(|message| message.pointer("/params/update/content/text").and_then(Value::as_str))
        .collect();
    is_confined(&said);
    assert!(said.contains("sandbox: workspace in"), "{said}");
    assert!(!said.contains("readTextFile") && !said.contains("\"terminal\""), "{said}");
    assert!(said.contains("-32601"), "{said}");
    assert!(!all.iter().any(|message| message["method"] == "fs/read_text_file"));
}

#[test]
fn the_bridge_refuses_sessions_that_cannot_be_confined() {
    let place = project();
    let agent = with_agent(&place, "network = \"none\"");
    let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
    let mut bridge = place.command(&[&["bridge", "--sandbox", "--"], &agent[..]].concat());
    let mut bridge = bridge.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = bridge.stdin.take().unwrap();
    for (id, method, params) in [
        (1, "initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})),
        (2, "session/new", json!({"cwd": place.home(), "mcpServers": []})),
    ] {
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .unwrap();
    }
    drop(input);
    let output = bridge.wait_with_output().unwrap();
    let (out, err) = texts(&output);
    let refused =
        out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|line| line["id"] == 2);
    let refused = refused.unwrap_or_else(|| panic!("{out} {err}"));
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("the sandbox cannot be made") && message.contains("nothing was started"),
        "{message}"
    );
    let served = place
        .command(&[&["bridge", "--sandbox", "--serve-files", "--"], &agent[..]].concat())
        .output()
        .unwrap();
    assert_eq!(served.status.code(), Some(2), "{:?}", texts(&served));
}

// ----- the network

#[test]
fn listed_hosts_are_reached_through_the_proxy_and_no_others() {
    let place = project();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 1024];
            let _ = stream.read(&mut head);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        }
    });
    let write = |more: &str| {
        place.write("home/.config/switchboard/switchboard-policy.toml", &format!("[sandbox]\n{more}\n"));
    };
    let fetch = |url: &str| {
        let text = format!("curl -sS --max-time 10 -w '%{{http_code}}' {url}");
        let output = script(&place, "workspace", &text);
        let (out, err) = texts(&output);
        format!("{out}{err}")
    };
    write("hosts = []");
    let denied = fetch(&format!("http://127.0.0.1:{port}/ --noproxy ''"));
    assert!(denied.contains("403") && denied.contains("not in the sandbox's hosts"), "{denied}");
    assert!(denied.contains(&format!("no connection to 127.0.0.1:{port}")), "{denied}");
    // A listed address is reached, also if it is this machine's.
    write(&format!("hosts = [\"127.0.0.1:{port}\"]"));
    let reached = fetch(&format!("http://127.0.0.1:{port}/ --noproxy ''"));
    assert!(reached.starts_with("hello200"), "{reached}");
    // By a tunnel, and by SOCKS.
    for option in ["-p --noproxy ''", "--noproxy '' --proxy socks5h://127.0.0.1:3128"] {
        let reached = fetch(&format!("http://127.0.0.1:{port}/ {option}"));
        assert!(reached.starts_with("hello200"), "{option}: {reached}");
    }
    // A name that leads to this machine is refused, although it is listed.
    write(&format!("hosts = [\"localhost:{port}\"]"));
    let refused = fetch(&format!("http://localhost:{port}/ --noproxy ''"));
    assert!(refused.contains("403") && refused.contains("loopback"), "{refused}");
    // Also if its address is listed: with another port, or as what it is.
    write(&format!("hosts = [\"localhost:{port}\", \"127.0.0.1:9\"]"));
    let refused = fetch(&format!("http://localhost:{port}/ --noproxy ''"));
    assert!(refused.contains("403") && refused.contains("loopback"), "{refused}");
    // A forwarded port of the loopback needs no proxy.
    write(&format!("network = \"none\"\nloopback = [{port}]"));
    let forwarded = fetch(&format!("http://127.0.0.1:{port}/"));
    assert!(forwarded.starts_with("hello200"), "{forwarded}");
    write("network = \"none\"");
    let nothing = fetch(&format!("http://127.0.0.1:{port}/"));
    assert!(nothing.contains("000"), "{nothing}");
}

#[test]
fn a_denied_host_is_shown_with_the_command_that_adds_it() {
    let place = project();
    let agent = with_agent(&place, "");
    let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
    let text = "curl -sS --max-time 10 https://denied.example.com/";
    let output = place
        .command(&[&["run", text, "--sandbox", "--record", "--"], &agent[..]].concat())
        .output()
        .unwrap();
    let (out, err) = texts(&output);
    let shown = format!("{out}{err}");
    assert!(shown.contains("no connection to denied.example.com:443"), "{shown}");
    assert!(shown.contains("switchboard sandbox allow denied.example.com"), "{shown}");
    let why = |what: &str| texts(&place.command(&["sandbox", "why", what]).output().unwrap()).0;
    assert!(why("denied.example.com").contains("not reachable"));
    let added = place.command(&["sandbox", "allow", "denied.example.com"]).output().unwrap();
    assert!(added.status.success(), "{:?}", texts(&added));
    assert!(
        why("denied.example.com").contains("reachable (`hosts` in the rules)"),
        "{}",
        why("denied.example.com")
    );
    let bad = place.command(&["sandbox", "allow", "https://x.com"]).output().unwrap();
    assert_eq!(bad.status.code(), Some(2));
}

#[test]
fn show_and_why_explain_the_sandbox() {
    let place = project();
    let show = place.command(&["sandbox", "show", "claude", "--json", "--mode", "strict"]).output().unwrap();
    let (out, err) = texts(&show);
    let shown: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {err}"));
    assert_eq!((&shown["mode"], &shown["network"]), (&json!("strict"), &json!("none")));
    let closed = shown["closed"].to_string();
    assert!(closed.contains("/work/.env") && closed.contains("/work/.git/hooks"), "{closed}");
    let text = place.command(&["sandbox", "show"]).output().unwrap();
    assert!(texts(&text).0.contains("Closed inside these:"), "{:?}", texts(&text));
    let why = |what: &str| texts(&place.command(&["sandbox", "why", what]).output().unwrap()).0;
    assert!(why(".env").contains("hidden (the rule \"secrets\")"), "{}", why(".env"));
    assert!(why("src").contains("writable (a folder of the session)"));
    assert!(why("~/.ssh").contains("not there"));
    assert!(why("/usr/bin").contains("read-only (the system)"));
}

#[test]
fn rules_say_what_the_sandbox_holds() {
    let place = project();
    let rules = "[sandbox]\nmode = \"workspace\"\n[[rule]]\nid = \"env\"\ndecision = \"deny\"\npath = [\"**/.env\"]\n\
        [[rule]]\nid = \"rm\"\ndecision = \"deny\"\ncommand = [\"rm\"]\npath = [\"/data/**\"]\n";
    place.write("work/rules.toml", rules);
    let check = texts(&place.command(&["policy", "check", "rules.toml"]).output().unwrap()).0;
    assert!(
        check.contains("env: held (hidden)") && check.contains("rm: not held: it has command"),
        "{check}"
    );
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {
        "sessionId": "s", "title": "Read", "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c", "kind": "read",
        "rawInput": {"path": place.work().join(".env")}}}, "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}});
    place.write("work/request.jsonl", &format!("{request}\n"));
    let explain =
        place.command(&["policy", "explain", "--permissions", "rules.toml", "--root", ".", "request.jsonl"]);
    let (out, err) = texts(&{ explain }.output().unwrap());
    let explained: Value = serde_json::from_str(out.trim()).unwrap_or_else(|_| panic!("{out} {err}"));
    assert_eq!(explained["sandbox"][0]["access"], "hidden", "{explained}");
    assert_eq!(explained["sandbox"][0]["rule"], "env", "{explained}");
    let doctor = texts(&place.command(&["doctor", "--no-agents"]).output().unwrap()).0;
    for check in ["sandbox: bubblewrap", "sandbox: namespaces", "sandbox: Landlock", "made and proven in"] {
        assert!(doctor.contains(check), "{doctor}");
    }
}

// ----- the hub

#[test]
fn each_session_of_a_hub_has_its_own_sandbox() {
    use crate::serve::block_on;
    use crate::serve::hub::Hub;
    let place = project();
    place.write("work/one/file", "content-of-one\n");
    place.write("work/two/file", "content-of-two\n");
    let agent = with_agent(&place, "network = \"none\"");
    let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
    let hub = Hub::start(&place, &[&["--sandbox", "--"], &agent[..]].concat());
    block_on(async {
        let mut client = hub.client(2).await;
        let mut said = Vec::new();
        for name in ["one", "two"] {
            let opened =
                client.ask("session/new", json!({"cwd": place.work().join(name), "mcpServers": []})).await;
            let session =
                opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
            client.prompt(&session, "cat file ../*/file; cat ../.env; echo $SWITCHBOARD_SANDBOX").await;
            said.push(Value::Array(client.until_idle().await).to_string());
        }
        assert!(said[0].contains("content-of-one") && !said[0].contains("content-of-two"), "{}", said[0]);
        assert!(said[1].contains("content-of-two") && !said[1].contains("content-of-one"), "{}", said[1]);
        for said in &said {
            assert!(said.contains("sandbox: workspace in"), "{said}");
            assert!(!said.contains("secret-in-env") && said.contains("switchboard/sandbox"), "{said}");
        }
        // The hub's own folder holds its store: no session starts there, and the client is told why.
        let store = Path::new(hub.store()).parent().unwrap().to_owned();
        let refused = client.ask("session/new", json!({"cwd": store, "mcpServers": []})).await;
        assert!(refused["error"].is_object(), "{refused}");
    });
    assert!(place.work().join("one").exists());
    hub.end();
}
