//! The first process of a sandbox: `switchboard sandbox-init`. It applies what bubblewrap cannot, proves the sandbox from
//! inside, and becomes the agent. If anything is missing, the agent does not start.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::identity::Identity;
use crate::specification::{CONTROL, INSIDE, PROGRAM, Proof, ResourceLimits, SPECIFICATION, Specification};
use crate::{scopes, seccomp};

/// Exit code if the sandbox is not what it should be.
const NOT_PROVEN: i32 = 125;
/// Argument of the process that relays connections.
const RELAY: &str = "--relay";
/// Argument of the process that starts it and ends, so that it is not a child of the agent.
const START_RELAY: &str = "--start-relay";
/// Maximum size of the specification in bytes.
const MAX_SPECIFICATION: u64 = 16 * 1024 * 1024;
/// Time for a connection that should be refused.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs the first process of a sandbox with the arguments after `sandbox-init`. Returns an exit code only on failure, or for
/// the relay.
pub fn run(arguments: &[OsString]) -> i32 {
    let mode = arguments.first().and_then(|word| word.to_str());
    let result = match mode {
        Some(START_RELAY) => start_relay_apart(),
        Some(RELAY) => relay(),
        Some("--") => confine(&arguments[1..]),
        _ => Err("this command is for Switchboard itself, inside a sandbox".to_owned()),
    };
    match result {
        Ok(()) => 0,
        Err(reason) => {
            if mode == Some("--") {
                // If it cannot be told, the missing answer is a failure too.
                let _ = tell(&format!("failed {reason}\n"));
            }
            eprintln!("switchboard: the sandbox is not what it should be: {reason}");
            NOT_PROVEN
        }
    }
}

fn inside(name: &str) -> PathBuf {
    Path::new(INSIDE).join(name)
}

fn tell(message: &str) -> std::io::Result<()> {
    UnixStream::connect(inside(CONTROL))?.write_all(message.as_bytes())
}

fn specification() -> Result<Specification, String> {
    let file = inside(SPECIFICATION);
    let failed = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", file.display());
    let mut text = String::new();
    let opened = File::open(&file).map_err(|error| failed(&error))?;
    opened.take(MAX_SPECIFICATION).read_to_string(&mut text).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

/// Confines this process, proves it, and becomes the agent.
fn confine(command: &[OsString]) -> Result<(), String> {
    let (program, arguments) = command.split_first().ok_or("there is no program to start")?;
    let specification = specification()?;
    limit(specification.limits)?;
    if !specification.relays.is_empty() {
        start_relay()?;
    }
    restrict(&specification)?;
    prove(&specification.proof)?;
    tell("ready\n").map_err(|error| format!("cannot report to Switchboard: {error}"))?;
    let error = Command::new(program).args(arguments).envs(specification.environment).exec();
    Err(format!("cannot start {}: {error}", Path::new(program).display()))
}

fn restrict(specification: &Specification) -> Result<(), String> {
    if specification.scopes {
        scopes::apply()?;
    }
    seccomp::apply()
}

fn limit(limits: ResourceLimits) -> Result<(), String> {
    let ResourceLimits { processes, memory, file_size } = limits;
    let all = [
        (Resource::Nproc, processes, "processes"),
        (Resource::Data, memory, "memory"),
        (Resource::Fsize, file_size, "file_size"),
        // A core file may have what the agent has read.
        (Resource::Core, Some(0), "core files"),
    ];
    for (resource, value, name) in all {
        if let Some(value) = value {
            let limit = Rlimit { current: Some(value), maximum: Some(value) };
            setrlimit(resource, limit).map_err(|error| format!("cannot limit {name}: {error}"))?;
        }
    }
    Ok(())
}

// ----- the relay: ports inside that lead to sockets

fn own_command(argument: &str) -> Command {
    let mut command = Command::new(inside(PROGRAM));
    command.args(["sandbox-init", argument]).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts the relay and waits until its ports are open.
fn start_relay() -> Result<(), String> {
    let failed = |reason: &dyn std::fmt::Display| format!("cannot open the ports of the proxy: {reason}");
    let mut starter = own_command(START_RELAY);
    let mut child = starter.stdout(Stdio::piped()).spawn().map_err(|error| failed(&error))?;
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        output.take(1024).read_to_string(&mut said).map_err(|error| failed(&error))?;
    }
    let _ = child.wait();
    match said.trim() {
        "ready" => Ok(()),
        reason => Err(failed(&if reason.is_empty() { "the relay has ended" } else { reason })),
    }
}

/// Starts the relay and ends, so that the first process of the sandbox adopts it.
fn start_relay_apart() -> Result<(), String> {
    own_command(RELAY).spawn().map(|_| ()).map_err(|error| error.to_string())
}

fn relay() -> Result<(), String> {
    let specification = specification()?;
    let mut listeners = Vec::new();
    for (port, socket) in &specification.relays {
        match TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, *port))) {
            Ok(listener) => listeners.push((listener, socket.clone())),
            Err(error) => {
                println!("port {port}: {error}");
                return Err(error.to_string());
            }
        }
    }
    // The agent could take over a process without these.
    restrict(&specification)?;
    println!("ready");
    // The reader waits for the end of this output.
    let null = OpenOptions::new().write(true).open("/dev/null").map_err(|error| error.to_string())?;
    rustix::stdio::dup2_stdout(null).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        for (listener, socket) in listeners {
            let listener =
                listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
            let Ok(listener) = listener else { continue };
            tokio::spawn(relay_port(listener, socket));
        }
        std::future::pending::<()>().await;
    });
    Ok(())
}

async fn relay_port(listener: tokio::net::TcpListener, socket: PathBuf) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            // Out of descriptors: others are closed meanwhile.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let socket = socket.clone();
        tokio::spawn(async move {
            if let Ok(mut proxy) = tokio::net::UnixStream::connect(socket).await {
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut proxy).await;
            }
        });
    }
}

// ----- the proof

/// Proves from inside that the sandbox holds. Fails with the first miss.
fn prove(proof: &Proof) -> Result<(), String> {
    let Proof {
        outside,
        hidden,
        read_only,
        writable,
        port,
        abstract_socket,
        identities,
        mount_points,
        namespaces,
        has_no_namespaces,
    } = proof;
    prove_namespaces(namespaces, *has_no_namespaces)?;
    for path in outside {
        if File::open(path).is_ok() {
            return Err(format!("{} can be opened", path.display()));
        }
    }
    for folder in ["/usr", "/etc", "/"] {
        let file = Path::new(folder).join(".switchboard-proof");
        if OpenOptions::new().write(true).create_new(true).open(&file).is_ok() {
            let _ = fs::remove_file(&file);
            return Err(format!("{folder} can be written"));
        }
    }
    for path in hidden {
        let is_folder = fs::metadata(path).is_ok_and(|metadata| metadata.is_dir());
        let is_open = if is_folder {
            fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
                || access(path, Access::WRITE_OK).is_ok()
        } else {
            File::open(path).is_ok() || OpenOptions::new().write(true).open(path).is_ok()
        };
        if is_open {
            return Err(format!("{} is hidden by a rule, but can be opened", path.display()));
        }
    }
    for path in read_only {
        if access(path, Access::WRITE_OK).is_ok() {
            return Err(format!("{} is closed, but can be written", path.display()));
        }
    }
    for path in writable {
        if !path.is_dir() {
            return Err(format!("{} is missing", path.display()));
        }
    }
    if let Some(port) = port {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
        if TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok() {
            return Err("the loopback of the machine can be reached".to_owned());
        }
    }
    if let Some(name) = abstract_socket {
        let address = UnixAddress::from_abstract_name(name).map_err(|error| error.to_string())?;
        if UnixStream::connect_addr(&address).is_ok() {
            return Err("abstract sockets of the machine can be reached".to_owned());
        }
    }
    for (path, wanted) in identities {
        if Identity::of(path)? != *wanted {
            return Err(format!("{} has been replaced meanwhile", path.display()));
        }
    }
    let table =
        fs::read("/proc/self/mountinfo").map_err(|error| format!("cannot read the mounts: {error}"))?;
    let mounted = mounted(&table);
    for (path, may_be_writable) in mount_points {
        match mounted.get(path) {
            None => return Err(format!("{} is not mounted", path.display())),
            Some(true) if !may_be_writable => return Err(format!("{} is not read-only", path.display())),
            Some(_) => {}
        }
    }
    prove_status()?;
    prove_descriptors()
}

/// Returns the mount points in a table of the kernel, which escapes some bytes as octal numbers, and whether they are writable.
/// Of several mounts at one path, the last one counts.
fn mounted(table: &[u8]) -> HashMap<PathBuf, bool> {
    let unescaped = |text: &[u8]| {
        let (mut bytes, mut at) = (Vec::new(), 0);
        while let Some(byte) = text.get(at) {
            let digits = text.get(at + 1..at + 4).filter(|_| *byte == b'\\');
            let number =
                digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
            bytes.push(number.unwrap_or(*byte));
            at += if number.is_some() { 4 } else { 1 };
        }
        PathBuf::from(OsString::from_vec(bytes))
    };
    let lines = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line.split(|byte| *byte == b' ').skip(4);
        let (path, options) = (words.next()?, words.next()?);
        let is_read_only = options.split(|byte| *byte == b',').any(|option| option == b"ro");
        Some((unescaped(path), !is_read_only))
    });
    lines.collect()
}

/// Proves that this process has namespaces and a session of its own.
fn prove_namespaces(outside: &[(String, PathBuf)], has_none: bool) -> Result<(), String> {
    for (name, theirs) in outside {
        let ours = fs::read_link(Path::new("/proc/self/ns").join(name))
            .map_err(|error| format!("cannot read the namespace {name}: {error}"))?;
        if ours == *theirs {
            return Err(format!("the namespace {name} is that of the machine"));
        }
    }
    // Without a session of its own, it has none that this namespace of processes knows.
    match nix::unistd::getsid(None) {
        Ok(session) if session.as_raw() > 0 => {}
        _ => return Err("the terminal session is that of Switchboard".to_owned()),
    }
    if has_none {
        // If it succeeds, this process ends.
        match nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER) {
            Ok(()) => return Err("user namespaces can be made".to_owned()),
            Err(nix::errno::Errno::EINVAL) => return Err("cannot try to make a user namespace".to_owned()),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Proves the state of this process by the kernel's own words.
fn prove_status() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status")
        .map_err(|error| format!("cannot read /proc/self/status: {error}"))?;
    check_status(&status)
}

fn check_status(status: &str) -> Result<(), String> {
    let value = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    let wanted = [("NoNewPrivs", "1"), ("Seccomp", "2")];
    for (name, wanted) in wanted {
        if value(name) != Some(wanted) {
            return Err(format!("{name} is {}, not {wanted}", value(name).unwrap_or("missing")));
        }
    }
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let is_none =
            value(name).is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit == b'0'));
        if !is_none {
            return Err(format!(
                "the process has capabilities: {name} is {}",
                value(name).unwrap_or("missing")
            ));
        }
    }
    Ok(())
}

fn prove_descriptors() -> Result<(), String> {
    let folder =
        fs::read_dir("/proc/self/fd").map_err(|error| format!("cannot list descriptors: {error}"))?;
    for entry in folder.flatten() {
        let number = entry.file_name().to_string_lossy().parse::<u32>().unwrap_or(u32::MAX);
        let target = fs::read_link(entry.path()).unwrap_or_default();
        // The folder that is being read is open too.
        let is_this = target.starts_with("/proc") && target.ends_with("fd");
        if number > 2 && !is_this {
            return Err(format!("descriptor {number} was inherited: {}", target.display()));
        }
        // Programs inside could open a file again with more rights, and leave by a folder.
        let kind = fs::metadata(entry.path()).map(|metadata| metadata.file_type());
        if number <= 2 && kind.is_ok_and(|kind| kind.is_dir() || kind.is_file() || kind.is_block_device()) {
            return Err(format!("descriptor {number} is a file outside: {}", target.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_escapes() {
        let table = b"36 35 98:0 / / rw - ext4 /dev/a rw\n37 36 98:0 /x /a\\040b\\134c ro,nosuid shared:1 - ext4 /dev/a rw\n";
        let wanted = HashMap::from([("/".into(), true), ("/a b\\c".into(), false)]);
        assert_eq!(mounted(table), wanted);
    }

    #[test]
    fn the_status_must_be_complete() {
        let good = "Name:\tx\nCapInh:\t0000\nCapPrm:\t0000\nCapEff:\t0000\nCapBnd:\t0000\nCapAmb:\t0000\n\
                    NoNewPrivs:\t1\nSeccomp:\t2\n";
        assert_eq!(check_status(good), Ok(()));
        for (from, to) in [
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
            ("Seccomp:\t2", "Seccomp:\t0"),
            ("Seccomp:\t2\n", ""),
            ("CapEff:\t0000", "CapEff:\t0001"),
            ("CapBnd:\t0000\n", ""),
            ("CapAmb:\t0000", "CapAmb:\t"),
        ] {
            assert!(check_status(&good.replace(from, to)).is_err(), "{to}");
        }
    }
}
