//! Attacks on sandboxes that need a world outside: races, variables, descriptors, weakened layers, and what is told.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::sandbox::{confined, fake_bwrap, git, project, python, script, texts, with_agent, with_bwrap};

fn rules(place: &Place, text: &str) {
    place.write("home/.config/switchboard/switchboard-policy.toml", text);
}

// ----- one layer less: the proof from inside fails, and nothing is started

/// Returns a `bwrap` that changes the options by a line of Python, and then is the real one.
fn changing_bwrap(place: &Place, change: &str) -> std::path::PathBuf {
    let folder = place.work().parent().unwrap().to_owned();
    std::fs::copy("/usr/bin/bwrap", folder.join("real-bwrap")).unwrap();
    let text = format!(
        r#"#!{python}
import os, sys
real = {real:?}
words = sys.argv[1:]
if words == ["--version"]:
    os.execv(real, [real, "--version"])
fd = int(words[1])
options = b""
while piece := os.read(fd, 65536):
    options += piece
options = [option.decode() for option in options.split(b"\0")[:-1]]
def without(*run):
    for at in range(len(options)):
        if tuple(options[at:at + len(run)]) == run:
            del options[at:at + len(run)]
            return
    sys.exit("missing: " + repr(run))
def mounts(target):
    return [at for at in range(len(options)) if options[at] in ("--bind", "--ro-bind") and options[at + 2] == target]
def unmounted(target):
    at = mounts(target)[-1]
    del options[at:at + 3]
keep = False
{change}
if not keep:
    os.close(fd)
os.execv(real, [real, *options, *words[2:]])
"#,
        python = python(),
        real = folder.join("real-bwrap").display().to_string(),
    );
    fake_bwrap(place, &text)
}

#[test]
fn each_missing_layer_is_noticed_from_inside() {
    let place = project();
    let work = place.work().display().to_string();
    let home = place.home().display().to_string();
    let cases = [
        ("without('--unshare-net')".to_owned(), "namespace net"),
        ("without('--unshare-pid')".to_owned(), "namespace pid"),
        ("without('--unshare-ipc')".to_owned(), "namespace ipc"),
        ("without('--unshare-uts'); without('--hostname', 'sandbox')".to_owned(), "namespace uts"),
        ("without('--unshare-cgroup')".to_owned(), "namespace cgroup"),
        ("without('--new-session')".to_owned(), "terminal session"),
        ("without('--disable-userns')".to_owned(), "user namespaces can be made"),
        ("without('--cap-drop', 'ALL'); options[:0] = ['--cap-add', 'ALL']".to_owned(), "capabilities"),
        ("keep = True".to_owned(), "was inherited"),
        ("without('--remount-ro', '/')".to_owned(), "/ can be written"),
        (format!("unmounted({work:?} + '/.env')"), "/.env is hidden by a rule, but can be opened"),
        (format!("unmounted({work:?} + '/private')"), "is hidden by a rule, but can be opened"),
        (format!("unmounted({work:?} + '/.git/hooks')"), "hooks is closed, but can be written"),
        (format!("unmounted({work:?} + '/Cargo.lock')"), "Cargo.lock is closed, but can be written"),
        (format!("unmounted({work:?} + '/.git')"), ".git is not mounted"),
        (format!("unmounted({work:?} + '/sub')"), "sub is not mounted"),
        ("unmounted('/proc/sys')".to_owned(), "/proc/sys is not mounted"),
        (format!("options[mounts({home:?})[0] + 1] = {home:?}"), "can be opened"),
        ("options[mounts('/usr')[0]] = '--bind'".to_owned(), "/usr"),
        ("options[mounts('/sys')[0]] = '--bind'".to_owned(), "/sys is not read-only"),
        ("options[mounts('/tmp')[0] + 1] = '/tmp'".to_owned(), "/tmp has been replaced"),
    ];
    for (change, wanted) in cases {
        let fake = changing_bwrap(&place, &change);
        let arguments = ["sandbox", "run", "--mode", "strict", "--", "touch", "started"];
        let (out, err) = texts(&with_bwrap(&place, &fake, &arguments));
        assert!(err.contains(wanted) && err.contains("nothing was started"), "{change}\n{out}\n{err}");
        assert!(!place.work().join("started").exists(), "{change}");
    }
    // The same with no change at all starts.
    let fake = changing_bwrap(&place, "pass");
    let output = with_bwrap(&place, &fake, &["sandbox", "run", "--mode", "strict", "--", "touch", "started"]);
    assert!(place.work().join("started").exists(), "{:?}", texts(&output));
}

/// A sandbox may share its folders with others, whose agents change them while it is made.
#[test]
fn a_link_that_appears_during_the_start_leads_nowhere() {
    let place = project();
    let work = place.work().display().to_string();
    // In the private home, so that the link leads somewhere inside, too. Without a check, bubblewrap would follow it outside.
    let made = script(&place, "workspace", "mkdir -p ~/.ssh/.vscode && touch ~/.ssh/.vscode/tasks.json");
    assert!(made.status.success(), "{:?}", texts(&made));
    place.write("home/.ssh/.vscode/tasks.json", "{}");
    let swap = format!(
        "os.rename({work:?} + '/sub', {work:?} + '/sub-old'); os.symlink('../home/.ssh', {work:?} + '/sub')"
    );
    let fake = changing_bwrap(&place, &swap);
    let arguments = ["sandbox", "run", "--mode", "workspace", "--", "cat", "sub/id_ed25519"];
    let (out, err) = texts(&with_bwrap(&place, &fake, &arguments));
    assert!(!out.contains("secret-in-home"), "{out}");
    assert!(err.contains("has been replaced meanwhile") && err.contains("nothing was started"), "{err}");
}

/// Runs a script as a user without rights, in a project of its own. The tests may run as root, for whom the kernel has other
/// rules.
fn as_user(settings: &str, text: &str) -> (String, String) {
    use std::os::unix::fs::PermissionsExt;
    let place = project();
    rules(
        &place,
        &format!(
            "[sandbox]\nnetwork = \"none\"\n{settings}\n[[rule]]\ndecision = \"deny\"\npath = [\"**/.env\"]\n"
        ),
    );
    let arguments = ["sandbox", "run", "--mode", "workspace", "--", "sh", "-c", text];
    if !rustix::process::geteuid().is_root() {
        return texts(&place.command(&arguments).output().unwrap());
    }
    let top = place.work().parent().unwrap().to_owned();
    // The program may be in a folder that only root reads.
    let program = top.join("switchboard");
    std::fs::copy(env!("CARGO_BIN_EXE_switchboard"), &program).unwrap();
    std::fs::set_permissions(&top, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Command::new("chown").arg("-R").arg("65534:65534").arg(&top).status().unwrap().success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program).args(arguments);
    command.current_dir(place.work()).env_clear().env("HOME", place.home()).env("PATH", "/usr/bin:/bin");
    texts(&command.output().unwrap())
}

#[test]
fn an_unprivileged_user_is_confined_like_root() {
    let text = "id -u; cat .env; echo x >> .envrc; mv .git g; unshare --user true; cat /etc/shadow; echo y > made && cat made";
    let (out, err) = as_user("", text);
    assert!(out.ends_with("y\n") && !out.contains("secret") && !out.starts_with('0'), "{out} {err}");
    for wanted in [
        ".env: Permission denied",
        "Read-only file system",
        "Device or resource busy",
        "unshare failed",
        "shadow: Permission",
    ] {
        assert!(err.contains(wanted), "{wanted}: {err}");
    }
}

/// Agents such as codex confine their commands themselves.
#[test]
fn a_sandbox_of_the_agents_own_works_inside_and_opens_nothing() {
    let own = "bwrap --unshare-user --unshare-pid --unshare-net --ro-bind / / --proc /proc --dev /dev";
    let text = format!(
        "{own} sh -c 'echo inner; cat .env; echo x > made'; bwrap --unshare-user --bind / / sh -c 'umount .env; cat .env; mv .git g'; \
         unshare --user --map-root-user --mount sh -c 'umount -l .env; cat .env'; echo x > made && echo outer"
    );
    let (out, err) = as_user("nested = true", &text);
    assert!(out.contains("inner\n") && out.contains("outer\n") && !out.contains("secret"), "{out} {err}");
    let (out, _) = as_user("", &format!("{own} echo inner"));
    assert!(!out.contains("inner"), "{out}");
}

// ----- variables and descriptors

/// bubblewrap runs outside: a library of the agent must not be loaded there.
#[test]
fn variables_of_the_loader_reach_the_program_only() {
    let place = project();
    rules(&place, "[sandbox]\nnetwork = \"none\"\nenv = [\"LD_*\"]\n");
    let mut command =
        confined(&place, &["--mode", "workspace"], &["/bin/sh", "-c", "/bin/true; echo $LD_DEBUG"]);
    command.env("LD_DEBUG", "libs").env("LD_DEBUG_OUTPUT", place.work().join("trace"));
    let (out, err) = texts(&command.output().unwrap());
    assert_eq!(out.trim(), "libs", "{err}");
    let mut programs = Vec::new();
    for entry in std::fs::read_dir(place.work()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("trace") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let started =
                text.lines().filter_map(|line| Some(line.split_once("initialize program: ")?.1.to_owned()));
            programs.extend(started);
        }
    }
    assert!(programs.iter().any(|program| program == "/bin/sh"), "{programs:?}");
    assert!(!programs.iter().any(|program| program.contains("bwrap")), "{programs:?}");
    assert!(!programs.iter().any(|program| program == "/run/switchboard/switchboard"), "{programs:?}");
}

#[test]
fn standard_streams_that_are_files_cannot_be_opened_again() {
    let place = project();
    let (input, output) = (place.write("input", "given\n"), place.write("output", ""));
    let text = "cat; echo evil > /proc/self/fd/0; ls /proc/self/fd/0/; echo said";
    let mut command = confined(&place, &["--mode", "workspace"], &["sh", "-c", text]);
    command.stdin(std::fs::File::open(&input).unwrap());
    command.stdout(std::fs::File::options().append(true).open(&output).unwrap());
    let (_, err) = texts(&command.output().unwrap());
    assert_eq!(std::fs::read_to_string(&input).unwrap(), "given\n", "{err}");
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "given\nsaid\n", "{err}");
    // A folder as a stream would lead out.
    let mut command =
        confined(&place, &["--mode", "workspace"], &["sh", "-c", "ls /proc/self/fd/0/.. && echo ESCAPED"]);
    command.stdin(std::fs::File::open(place.home()).unwrap());
    let (out, err) = texts(&command.output().unwrap());
    assert!(!out.contains("ESCAPED"), "{out} {err}");
}

#[test]
fn a_killed_switchboard_takes_the_sandbox_along() {
    let place = project();
    let beat = place.work().join("beat");
    let mark = format!("sandbox-kill-{}", std::process::id());
    let text = format!("while :; do echo x >> beat; sleep 0.02; done # {mark}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchboard"));
    command.args(["sandbox", "run", "--mode", "workspace", "--", "sh", "-c", &text]);
    command.current_dir(place.work()).env("HOME", place.home());
    command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME").stdout(Stdio::null());
    let mut process = command.spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !beat.exists() && Instant::now() < end {
        std::thread::yield_now();
    }
    assert!(beat.exists(), "the program did not run");
    process.kill().unwrap();
    process.wait().unwrap();
    let rests = || {
        let found = Command::new("pgrep").args(["-f", &mark]).output().unwrap();
        found.stdout.is_empty()
    };
    while !rests() {
        assert!(Instant::now() < end, "the program still runs");
    }
}

// ----- sockets and files of Switchboard

#[test]
fn sockets_in_a_project_are_closed_unless_they_are_listed() {
    let place = project();
    let path = place.work().join("editor.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.write_all(b"reached");
        }
    });
    let connect = "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('editor.sock'); print(s.recv(9).decode())\"";
    let (out, err) = texts(&script(&place, "workspace", connect));
    assert!(!out.contains("reached") && err.contains("Error"), "{out} {err}");
    rules(&place, &format!("[sandbox]\nnetwork = \"none\"\nsockets = [{:?}]\n", path.display().to_string()));
    let (out, err) = texts(&script(&place, "workspace", connect));
    assert!(out.contains("reached"), "{out} {err}");
}

#[test]
fn the_rules_of_the_command_line_cannot_be_changed() {
    let place = project();
    place.write("work/my-rules.toml", "[sandbox]\nnetwork = \"none\"\n");
    let text = "echo x >> my-rules.toml && echo ESCAPED; rm -f my-rules.toml && echo ESCAPED; mv my-rules.toml y && echo ESCAPED";
    let options = ["--mode", "workspace", "--permissions", "my-rules.toml"];
    let (out, err) = texts(&confined(&place, &options, &["sh", "-c", text]).output().unwrap());
    assert!(!out.contains("ESCAPED") && err.contains("Read-only"), "{out} {err}");
    assert_eq!(
        std::fs::read_to_string(place.work().join("my-rules.toml")).unwrap(),
        "[sandbox]\nnetwork = \"none\"\n"
    );
}

// ----- the proxy

/// Requests in odd spellings, of which none may reach a listener of this machine.
#[test]
fn odd_requests_to_the_proxy_reach_nothing() {
    let place = project();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let reached = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&reached);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            counter.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nESCAPED");
        }
    });
    rules(
        &place,
        &format!("[sandbox]\nhosts = [\"localhost:{port}\", \"*.localhost:{port}\", \"example.com\"]\n"),
    );
    let code = format!(
        r#"
import socket, struct
port = {port}
hosts = ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]",
  "localhost", "LOCALHOST.", "a.localhost", "localhost%00", "127.0.0.1.", "example.com@127.0.0.1", "127.0.0.1#example.com",
  "[::1%lo]", "0", "0.0.0.0", "[::]", "\uff1127.0.0.1", "localhost\t"]
lines = []
for host in hosts:
    for target in (f"{{host}}:{{port}}", f"{{host}}:0{{port}}", f"{{host}}:{{port + 65536}}"):
        lines.append(f"CONNECT {{target}} HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
        lines.append(f"GET http://{{target}}/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
        lines.append(f"GET http://example.com@{{target}}/ HTTP/1.1\r\n\r\n")
        lines.append(f"connect {{target}} HTTP/1.1\r\n\r\n")
        lines.append(f"CONNECT  {{target}} HTTP/1.1\r\n\r\n")
        lines.append(f"GET http:{{target}}/ HTTP/1.1\r\n\r\n")
        lines.append(f"GET //{{target}}/ HTTP/1.1\r\n\r\n")
raw = [line.encode() for line in lines]
for name in (b"127.0.0.1", b"localhost", b"127.1", b"[::1]", b"::1", b"localhost\0.example.com"):
    raw.append(b"\x05\x01\x00\x05\x01\x00\x03" + bytes([len(name)]) + name + struct.pack(">H", port))
raw.append(b"\x05\x01\x00\x05\x01\x00\x01\x7f\0\0\x01" + struct.pack(">H", port))
raw.append(b"\x05\x01\x00\x05\x01\x00\x04" + b"\0" * 15 + b"\x01" + struct.pack(">H", port))
raw.append(b"\x05\x01\x00\x05\x01\x00\x04" + b"\0" * 10 + b"\xff\xff\x7f\0\0\x01" + struct.pack(">H", port))
raw.append(b"\x04\x01" + struct.pack(">H", port) + b"\x7f\0\0\x01u\0")
for request in raw:
    s = socket.create_connection(("127.0.0.1", 3128), 20)
    s.settimeout(20)
    s.sendall(request)
    try:
        s.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := s.recv(65536):
            answer += piece
    except OSError as error:
        answer = str(error).encode()
    if b"ESCAPED" in answer or b" 200 " in answer[:40]:
        print("ESCAPED", request, answer[:80])
print("tried", len(raw))
"#
    );
    place.write("work/odd.py", &code);
    let (out, err) = texts(&script(&place, "workspace", "python3 odd.py"));
    assert!(out.contains("tried ") && !out.contains("ESCAPED"), "{out} {err}");
    assert_eq!(reached.load(Ordering::SeqCst), 0, "{out}");
}

// ----- what is told

fn run_agent(place: &Place, agent: &[String], text: &str) -> Output {
    let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
    place.command(&[&["run", text, "--sandbox", "--record", "--"], &agent[..]].concat()).output().unwrap()
}

/// Changes that make Git run something, which no mount can prevent without a file in its place.
#[test]
fn names_that_appear_later_are_told() {
    let place = project();
    let agent = with_agent(&place, "network = \"none\"");
    let text = "mkdir -p new evil/objects evil/refs; echo x > new/.envrc; echo ../evil > .git/commondir; echo ref: x > evil/HEAD; \
                echo x > evil/config; ln -sf other link; true";
    let (out, err) = texts(&run_agent(&place, &agent, text));
    let shown = format!("{out}{err}");
    let line =
        shown.lines().find(|line| line.contains("the agent made")).unwrap_or_else(|| panic!("{shown}"));
    for name in ["new/.envrc", ".git/commondir", "evil/config"] {
        assert!(line.contains(name), "{line}");
    }
    assert!(!line.contains("Cargo.lock") && line.contains("which other programs run"), "{line}");
    assert_eq!(shown.matches("the agent made").count(), 1, "told once: {shown}");
    let (out, err) = texts(&run_agent(&place, &agent, "echo quiet"));
    assert!(!format!("{out}{err}").contains("the agent made"), "{out}{err}");
}

#[test]
fn a_failed_tool_call_gets_a_note_if_it_names_a_closed_path() {
    let place = project();
    let agent = with_agent(&place, "network = \"none\"");
    for (text, wanted) in [
        ("tool cat .env", Some("perhaps the sandbox: .env is hidden")),
        (
            "tool echo x > .git/hooks/pre-commit",
            Some("perhaps the sandbox: .git/hooks/pre-commit is read-only"),
        ),
        ("tool cat missing; echo Permission denied", None),
    ] {
        let (out, err) = texts(&run_agent(&place, &agent, text));
        let shown = format!("{out}{err}");
        match wanted {
            Some(wanted) => assert!(shown.contains(wanted), "{text}: {shown}"),
            None => assert!(!shown.contains("perhaps the sandbox"), "{text}: {shown}"),
        }
    }
}

#[test]
fn refused_hosts_are_counted_for_each_turn() {
    let place = project();
    let agent = with_agent(&place, "");
    let text = "for i in 1 2 3; do curl -sS --max-time 20 https://denied.example.com/; done; curl -sS --max-time 20 https://other.example.com/; true";
    let (out, err) = texts(&run_agent(&place, &agent, text));
    let shown = format!("{out}{err}");
    assert_eq!(shown.matches("no connection to denied.example.com:443:").count(), 1, "{shown}");
    assert_eq!(shown.matches("no connection to denied.example.com:443 (3 times)").count(), 1, "{shown}");
    assert_eq!(shown.matches("no connection to other.example.com:443").count(), 1, "{shown}");
    let audit = texts(&place.command(&["policy", "audit"]).output().unwrap()).0;
    let rows: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |host: &str| rows.iter().find(|row| row["subject"]["host"] == host).cloned();
    let row = of("denied.example.com:443").unwrap_or_else(|| panic!("{audit}"));
    assert_eq!((&row["by"], &row["decision"]), (&json!("sandbox"), &json!("deny")), "{row}");
    assert!(of("other.example.com:443").is_some(), "{audit}");
}

#[test]
fn a_sandbox_that_is_switched_off_is_recorded() {
    let place = project();
    let agent = with_agent(&place, "mode = \"strict\"\nnetwork = \"none\"");
    let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
    let run = place
        .command(&[&["run", "echo hi", "--sandbox=off", "--record", "--"], &agent[..]].concat())
        .output();
    let (out, err) = texts(&run.unwrap());
    assert!(
        format!("{out}{err}").contains("sandbox: off by --sandbox=off; the rules say strict"),
        "{out}{err}"
    );
    let audit = texts(&place.command(&["policy", "audit"]).output().unwrap()).0;
    let row: Value =
        serde_json::from_str(audit.lines().next().unwrap_or_default()).unwrap_or_else(|_| panic!("{audit}"));
    assert_eq!((&row["by"], &row["subject"]["mode"]), (&json!("sandbox"), &json!("off")), "{row}");
}

#[test]
fn a_hub_tells_the_same() {
    use crate::serve::block_on;
    use crate::serve::hub::Hub;
    let place = project();
    let agent = with_agent(&place, "network = \"none\"");
    let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
    let hub = Hub::start(&place, &[&["--sandbox", "--"], &agent[..]].concat());
    let texts_wanted = ["tool cat .env", "mkdir -p later && echo x > later/.envrc"];
    block_on(async {
        let mut client = hub.client(2).await;
        let opened = client.ask("session/new", json!({"cwd": place.work(), "mcpServers": []})).await;
        let session = opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
        let mut said = String::new();
        for text in texts_wanted {
            client.prompt(&session, text).await;
            said += &Value::Array(client.until_idle().await).to_string();
        }
        // The comparison may end after the turn: the next one has its notice.
        for _ in 0..50 {
            if said.contains("later/.envrc, which") {
                break;
            }
            client.prompt(&session, "sleep 0.2").await;
            said += &Value::Array(client.until_idle().await).to_string();
        }
        assert!(said.contains("perhaps the sandbox: .env is hidden"), "{said}");
        assert!(said.contains("the agent made later/.envrc, which other programs run"), "{said}");
    });
    hub.end();
}

/// As npm and others install programs: a link leads to a file that finds the rest beside itself.
#[test]
fn a_program_behind_a_link_finds_its_other_files() {
    use std::os::unix::fs::PermissionsExt;
    let place = project();
    let file = place.write(
        "prefix/lib/node_modules/tool/tool.sh",
        "#!/bin/sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")/data\"\n",
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.write("prefix/lib/node_modules/tool/data", "found\n");
    for folder in ["prefix/bin", "home/bin"] {
        let link = place.write(format!("{folder}/other"), "").with_file_name("tool");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        // Also when the private home has it from the last time.
        for _ in 0..2 {
            let (out, err) = texts(
                &confined(&place, &["--mode", "workspace"], &[link.to_str().unwrap()]).output().unwrap(),
            );
            assert_eq!(out, "found\n", "{folder}: {err}");
        }
    }
}

#[test]
fn git_is_used_as_before_in_a_project_with_hooks_of_its_own() {
    let place = project();
    let text = "git status --short >/dev/null && echo a > a && git add a && git commit -qm one && git worktree list | grep -q tree";
    let output = script(&place, "workspace", text);
    assert!(output.status.success(), "{:?}", texts(&output));
    git(&place.work(), &["status", "--short"]);
    assert!(Path::new(&place.work()).join(".githooks/post-merge").exists());
}
