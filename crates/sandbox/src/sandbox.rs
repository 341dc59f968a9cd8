//! A sandbox for one program: its folders, sockets, proxy and command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Seek, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use switchboard_policy::{PathEffect, SandboxMode, SandboxNetwork, SandboxSettings};

use crate::SandboxError;
use crate::bubblewrap;
use crate::environment::{PROXY_PORT, is_of_loader};
use crate::identity::Identity;
use crate::layout::{Layout, Mount, Part, shown_by};
use crate::plan::{Plan, cannot, roots_hash};
use crate::proxy::{OnDenied, Proxy};
use crate::specification::{
    CONTROL, INSIDE, PROGRAM, PROXY, Proof, ResourceLimits, SPECIFICATION, Specification, port_socket,
};

/// Time for the sandbox to be made and proven.
const READY: Duration = Duration::from_secs(20);
/// Maximum number of processes unless the rules say otherwise.
const PROCESSES: u64 = 4096;
/// Interval at which the end of the process is noticed meanwhile.
const CHECK: Duration = Duration::from_millis(20);

/// A sandbox whose folders and sockets exist. Dropping it ends the proxy and removes its private folders.
#[derive(Debug)]
pub struct Sandbox {
    summary: String,
    /// Folder with everything that lasts as long as the sandbox.
    run: RunFolder,
    command: PreparedCommand,
    readiness: Option<Readiness>,
    _proxy: Option<Proxy>,
}

/// The command line of bubblewrap.
#[derive(Debug)]
struct PreparedCommand {
    program: PathBuf,
    options: Vec<OsString>,
    inner: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

/// Listeners for the report and the proof of the first process.
#[derive(Debug)]
struct Readiness {
    control: UnixListener,
    /// Folder of the socket.
    inside: PathBuf,
    loopback: Option<TcpListener>,
    abstract_socket: UnixListener,
}

/// A folder that is removed when it is dropped.
#[derive(Debug)]
struct RunFolder(PathBuf);

impl Drop for RunFolder {
    fn drop(&mut self) {
        // The agent may have made folders that cannot be listed; their owner can change that.
        if fs::remove_dir_all(&self.0).is_err() {
            open_folders(&self.0);
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Makes all folders below a folder writable, without following links.
fn open_folders(top: &Path) {
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        let is_folder = fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_dir());
        if !is_folder {
            continue;
        }
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
}

fn private_folder(path: &Path) -> Result<(), SandboxError> {
    let failed = |error: std::io::Error| cannot(format!("cannot create {}: {error}", path.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    // A folder that an agent has replaced by a link must not be used.
    let metadata = fs::symlink_metadata(path).map_err(failed)?;
    if metadata.is_dir() { Ok(()) } else { Err(cannot(format!("{} is not a folder", path.display()))) }
}

/// Binds a socket in a folder. Its path may be longer than the address of a socket can be.
fn listen(folder: &Path, name: &str) -> Result<UnixListener, SandboxError> {
    let failed = |error: std::io::Error| cannot(format!("cannot listen in {}: {error}", folder.display()));
    let opened = File::open(folder).map_err(failed)?;
    UnixListener::bind(short_path(&opened, name)).map_err(failed)
}

/// Returns a short path of a name in an open folder.
fn short_path(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name)
}

/// Connects to the control socket without a report, which ends the wait for one.
fn wake(inside: &Path) -> std::io::Result<UnixStream> {
    let folder = File::open(inside)?;
    UnixStream::connect(short_path(&folder, CONTROL))
}

/// Removes what sandboxes of processes have left that were killed.
fn clean_up(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix("run-")?.split_once('-'));
        let is_gone = process.is_some_and(|(process, _)| {
            process.parse::<u32>().is_ok_and(|process| !Path::new(&format!("/proc/{process}")).exists())
        });
        if is_gone {
            drop(RunFolder(entry.path()));
        }
    }
}

/// Makes the folders on the way to a mount inside the private home real folders. An agent may have put links there in an
/// earlier session, which would lead the mount elsewhere.
fn straighten(home: &Path, rest: &Path) -> Result<(), SandboxError> {
    let mut path = home.to_owned();
    let mut names: Vec<_> = rest.components().collect();
    let last = names.pop();
    for name in names {
        path.push(name);
        if fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_dir()) {
            let failed = |error| cannot(format!("cannot remove {}: {error}", path.display()));
            fs::remove_file(&path).map_err(failed)?;
        }
        private_folder(&path)?;
    }
    if let Some(last) = last {
        path.push(last);
        if path.is_symlink() {
            let failed = |error| cannot(format!("cannot remove {}: {error}", path.display()));
            fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(())
}

/// Number of sandboxes that this process has made.
static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Sandbox {
    pub(crate) fn create(plan: &Plan, on_denied: Option<OnDenied>) -> Result<Self, SandboxError> {
        let base = plan.request.places.data.join(roots_hash(&plan.request.roots));
        clean_up(&base);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let run = base.join(format!("run-{}-{number}", std::process::id()));
        // Of an earlier process with the same id, which was killed.
        let run = RunFolder(run);
        if run.0.exists() {
            open_folders(&run.0);
            let _ = fs::remove_dir_all(&run.0);
        }
        for name in ["tmp", "var-tmp", "run", "empty", "home"] {
            private_folder(&run.0.join(name))?;
        }
        let home = match plan.request.mode {
            SandboxMode::Strict => run.0.join("home"),
            _ => base.join("home"),
        };
        private_folder(&home)?;
        let outside = base.join("outside");
        fs::write(&outside, "A file outside of the sandbox, for its proof.\n")
            .map_err(|error| cannot(format!("cannot write {}: {error}", outside.display())))?;
        let layout = plan.layout_with(&run.0, &home)?;
        for (folder, rest) in layout.mount_points() {
            straighten(&folder, &rest)?;
        }
        let inside = run.0.join("run");
        let failed = |error: std::io::Error| cannot(format!("cannot write in {}: {error}", inside.display()));
        // Mount point of our program.
        File::create(inside.join(PROGRAM)).map_err(failed)?;
        let readiness = Readiness::new(&inside, plan.network)?;
        let proxy = start_proxy(plan, &inside, on_denied)?;
        let specification = specification(plan, &layout, &outside, &readiness)?;
        let text = serde_json::to_string(&specification).map_err(|error| cannot(error.to_string()))?;
        fs::write(inside.join(SPECIFICATION), text).map_err(failed)?;
        let command = PreparedCommand::new(plan, &layout);
        let summary = plan.summary();
        Ok(Sandbox { summary, run, command, readiness: Some(readiness), _proxy: proxy })
    }

    /// Describes the sandbox in one line.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Returns the command that starts the program inside, and a file that it must inherit. The caller keeps the file open
    /// until the process is started. No other process may be started between this call and that.
    pub fn command(&self) -> Result<(Command, OwnedFd), SandboxError> {
        close_other_descriptors();
        let PreparedCommand { program, options, inner, environment } = &self.command;
        let mut file = tempfile_in(&self.run.0)?;
        let failed = |error: std::io::Error| cannot(format!("cannot pass the layout: {error}"));
        for option in options {
            file.write_all(option.as_bytes()).map_err(failed)?;
            file.write_all(&[0]).map_err(failed)?;
        }
        file.rewind().map_err(failed)?;
        rustix::io::fcntl_setfd(file.as_fd(), rustix::io::FdFlags::empty())
            .map_err(|error| failed(error.into()))?;
        let mut command = Command::new(program);
        command.arg("--args").arg(file.as_raw_fd().to_string()).arg("--").args(inner);
        // bubblewrap runs outside: nothing that it looks up relative to its folder may be of the agent.
        command.current_dir("/");
        command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
        Ok((command, file.into()))
    }

    /// Waits until the first process has proven the sandbox. `ended` returns the last words of the process if it has ended.
    pub fn wait_until_ready(
        &mut self,
        ended: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), SandboxError> {
        let Some(readiness) = self.readiness.take() else { return Ok(()) };
        let Readiness { control, inside, loopback: _loopback, abstract_socket: _abstract_socket } = readiness;
        let (sender, receiver) = mpsc::sync_channel(1);
        let reader = std::thread::spawn(move || {
            let mut said = String::new();
            if let Ok((stream, _)) = control.accept() {
                let _ = stream.set_read_timeout(Some(READY));
                // An unreadable report counts as a missing one.
                let _ = stream.take(64 * 1024).read_to_string(&mut said);
            }
            let _ = sender.send(said);
        });
        let begun = Instant::now();
        let said = loop {
            match receiver.recv_timeout(CHECK) {
                Ok(said) => break Ok(said),
                Err(mpsc::RecvTimeoutError::Disconnected) => break Ok(String::new()),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if let Some(words) = ended() {
                // It may have reported just before.
                break receiver.recv_timeout(CHECK).map_err(|_| words);
            }
            if begun.elapsed() > READY {
                break Err(format!("no report from inside within {READY:?}"));
            }
        };
        if said.is_err() {
            // Ends the wait of the thread.
            drop(wake(&inside));
        }
        let _ = reader.join();
        let reason = match &said {
            Ok(said) if said == "ready\n" => return Ok(()),
            Ok(said) => match said.strip_prefix("failed ") {
                Some(reason) => format!("the proof from inside failed: {}", reason.trim()),
                None => "the report from inside is incomplete".to_owned(),
            },
            Err(words) => words.trim().to_owned(),
        };
        let advice = bubblewrap::advice(&reason);
        let error = cannot(reason);
        Err(advice.map_or(error.clone(), |advice| error.advice(advice)))
    }
}

/// Creates a file without a name.
fn tempfile_in(folder: &Path) -> Result<File, SandboxError> {
    let path = folder.join("options");
    let failed = |error: std::io::Error| cannot(format!("cannot create {}: {error}", path.display()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
    fs::remove_file(&path).map_err(failed)?;
    Ok(file)
}

/// Marks all descriptors besides the standard ones to be closed in new processes. Those that this program opens are, but it
/// may have inherited others, and bubblewrap passes them on.
fn close_other_descriptors() {
    let numbers: Vec<i32> = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // One that is closed by now needs nothing. The proof from inside looks for others.
        let _ = fcntl(number, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
}

impl Readiness {
    fn new(inside: &Path, network: SandboxNetwork) -> Result<Self, SandboxError> {
        let failed = |error: std::io::Error| cannot(format!("cannot listen: {error}"));
        let control = listen(inside, CONTROL)?;
        let loopback = match network {
            SandboxNetwork::All => None,
            _ => Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?),
        };
        let name =
            format!("switchboard-proof-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddr::from_abstract_name(&name).map_err(failed)?;
        let abstract_socket = UnixListener::bind_addr(&address).map_err(failed)?;
        Ok(Readiness { control, inside: inside.to_owned(), loopback, abstract_socket })
    }
}

fn start_proxy(
    plan: &Plan,
    inside: &Path,
    on_denied: Option<OnDenied>,
) -> Result<Option<Proxy>, SandboxError> {
    let ports = if plan.network == SandboxNetwork::All { &[][..] } else { &plan.request.settings.loopback };
    let ports: Vec<(u16, UnixListener)> = ports
        .iter()
        .map(|port| Ok((*port, listen(inside, &port_socket(*port))?)))
        .collect::<Result<_, SandboxError>>()?;
    if plan.network != SandboxNetwork::Hosts && ports.is_empty() {
        return Ok(None);
    }
    let listener = listen(inside, PROXY)?;
    Proxy::start(listener, ports, plan.hosts.clone(), on_denied)
        .map(Some)
        .map_err(|error| cannot(format!("cannot start the proxy: {error}")))
}

fn specification(
    plan: &Plan,
    layout: &Layout,
    outside: &Path,
    readiness: &Readiness,
) -> Result<Specification, SandboxError> {
    let SandboxSettings { processes, memory, file_size, .. } = plan.request.settings;
    let mut relays = Vec::new();
    if plan.network == SandboxNetwork::Hosts {
        relays.push((PROXY_PORT, Path::new(INSIDE).join(PROXY)));
    }
    if plan.network != SandboxNetwork::All {
        for port in &plan.request.settings.loopback {
            relays.push((*port, Path::new(INSIDE).join(port_socket(*port))));
        }
    }
    let closed = |effect: PathEffect| {
        let of_effect = layout.closed.iter().filter(move |closed| closed.effect == effect);
        of_effect.map(|closed| closed.path.clone()).collect::<Vec<_>>()
    };
    let port = readiness.loopback.as_ref().map(TcpListener::local_addr).transpose();
    let port = port.map_err(|error| cannot(error.to_string()))?.map(|address| address.port());
    let name = readiness.abstract_socket.local_addr().ok();
    let name = name.as_ref().and_then(|address| address.as_abstract_name());
    let abstract_socket = name.map(|name| String::from_utf8_lossy(name).into_owned());
    let (_, environment) = environments(plan);
    let names = ["user", "pid", "mnt", "ipc", "uts", "cgroup", "net"];
    let own = names.iter().filter(|name| **name != "net" || plan.network != SandboxNetwork::All);
    let namespaces = own
        .map(|name| {
            let link = Path::new("/proc/self/ns").join(name);
            let target =
                fs::read_link(&link).map_err(|error| cannot(format!("{}: {error}", link.display())))?;
            Ok(((*name).to_owned(), target))
        })
        .collect::<Result<_, SandboxError>>()?;
    let mut outside = vec![outside.to_owned()];
    outside.extend(plan.request.places.closed.iter().filter(|path| path.is_file()).cloned());
    Ok(Specification {
        limits: ResourceLimits { processes: Some(processes.unwrap_or(PROCESSES)), memory, file_size },
        relays,
        scopes: plan.has_scopes,
        environment,
        proof: Proof {
            identities: identities(layout)?,
            mount_points: mount_points(layout),
            namespaces,
            has_no_namespaces: !plan.is_nested,
            outside,
            hidden: closed(PathEffect::Hidden),
            read_only: closed(PathEffect::ReadOnly),
            writable: plan.request.roots.clone(),
            port,
            abstract_socket,
        },
    })
}

/// Returns the identity of each mounted file and folder. bubblewrap looks up their paths again, and follows links: if an agent
/// in another sandbox has put one there meanwhile, the mount leads elsewhere, and the proof fails.
fn identities(layout: &Layout) -> Result<Vec<(PathBuf, Identity)>, SandboxError> {
    let mounts = layout.mounts.iter().filter_map(|mount| match mount {
        Mount::Bind { source, target, .. } if !source.starts_with("/dev") && !source.starts_with("/proc") => {
            Some((source, target))
        }
        _ => None,
    });
    mounts
        .map(|(source, target)| Ok((target.clone(), Identity::without_links(source).map_err(cannot)?)))
        .collect()
}

/// Returns the paths of all mounts, and whether the last one of each may be writable.
fn mount_points(layout: &Layout) -> Vec<(PathBuf, bool)> {
    let mut points = BTreeMap::new();
    for mount in &layout.mounts {
        let is_writable = match mount {
            Mount::Link { .. } => continue,
            Mount::Bind { is_writable, .. } => *is_writable,
            Mount::Sealed(_) => false,
            Mount::Memory(_) | Mount::Processes(_) | Mount::Devices(_) => true,
        };
        points.insert(mount.target().to_owned(), is_writable);
    }
    points.into_iter().collect()
}

/// Environment variables with their values.
type Variables = Vec<(OsString, OsString)>;

/// Returns the variables of bubblewrap and the first process, and those that only the program itself gets.
fn environments(plan: &Plan) -> (Variables, Variables) {
    let (later, now) = plan.environment().into_iter().partition(|(name, _)| is_of_loader(name));
    (now, later)
}

/// Returns the folder in which the program starts: the working directory if the sandbox shows it, else the home. A private
/// folder above it, such as `/tmp`, does not show it.
fn start_folder<'f>(working_directory: Option<&'f Path>, home: &'f Path, layout: &Layout) -> &'f Path {
    let is_shown = |folder: &&Path| {
        shown_by(&layout.bindings, folder).is_some_and(|binding| binding.part != Part::Private)
    };
    working_directory.filter(is_shown).unwrap_or(home)
}

impl PreparedCommand {
    fn new(plan: &Plan, layout: &Layout) -> Self {
        let request = &plan.request;
        let mut options: Vec<OsString> = [
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup",
            "--new-session",
            "--die-with-parent",
            "--cap-drop",
            "ALL",
            "--hostname",
            "sandbox",
        ]
        .map(OsString::from)
        .to_vec();
        if plan.network != SandboxNetwork::All {
            options.push("--unshare-net".into());
        }
        if !plan.is_nested {
            options.push("--disable-userns".into());
        }
        options.extend(layout.arguments());
        let folder = start_folder(request.working_directory.as_deref(), &plan.home, layout);
        options.extend([OsString::from("--chdir"), folder.as_os_str().to_owned()]);
        let ours = Path::new(INSIDE).join(PROGRAM);
        let mut inner: Vec<OsString> = vec![ours.into(), "sandbox-init".into(), "--".into()];
        inner.push(request.program.as_os_str().to_owned());
        inner.extend(request.arguments.iter().cloned());
        PreparedCommand {
            program: plan.bubblewrap.path.clone(),
            options,
            inner,
            environment: environments(plan).0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Binding, LayoutParts};

    #[test]
    fn a_program_starts_in_its_folder_only_if_that_is_shown() {
        let layout = |roots: &[&str]| {
            let roots = roots.iter().map(|root| Binding::new(root, true, "root").part(Part::Root));
            let private = Binding::new("/run/tmp", true, "private").at("/tmp").part(Part::Private);
            let bindings = roots.chain([private]).collect();
            Layout::compute(LayoutParts { bindings, ..LayoutParts::default() }).unwrap()
        };
        let folder = |working: &'static str, roots: &[&str]| {
            start_folder(Some(Path::new(working)), Path::new("/home/u"), &layout(roots)).to_owned()
        };
        assert_eq!(folder("/tmp/w", &["/tmp/w"]), Path::new("/tmp/w"));
        assert_eq!(folder("/tmp/w/sub", &["/tmp/w"]), Path::new("/tmp/w/sub"));
        assert_eq!(folder("/tmp/w", &[]), Path::new("/home/u"), "the private folder does not have it");
        assert_eq!(folder("/srv", &[]), Path::new("/home/u"));
    }

    #[test]
    fn folders_of_killed_processes_are_removed() {
        let base = tempfile::tempdir().unwrap();
        // No process has an id above the kernel's maximum.
        let (gone, ours) =
            (base.path().join("run-4294967295-0"), base.path().join(format!("run-{}-0", std::process::id())));
        for folder in [&gone, &ours, &base.path().join("home")] {
            fs::create_dir_all(folder.join("tmp")).unwrap();
        }
        fs::set_permissions(gone.join("tmp"), fs::Permissions::from_mode(0o000)).unwrap();
        clean_up(base.path());
        assert!(!gone.exists() && ours.exists() && base.path().join("home").exists());
    }

    #[test]
    fn mount_points_behind_links_are_made_straight() {
        let folder = tempfile::tempdir().unwrap();
        let (home, outside) = (folder.path().join("home"), folder.path().join("outside"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, home.join(".cargo")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", home.join(".gitconfig")).unwrap();
        straighten(&home, Path::new(".cargo/bin")).unwrap();
        straighten(&home, Path::new(".gitconfig")).unwrap();
        assert!(home.join(".cargo").is_dir() && !home.join(".cargo").is_symlink());
        assert!(!home.join(".gitconfig").is_symlink());
        assert!(outside.read_dir().unwrap().next().is_none());
    }
}
