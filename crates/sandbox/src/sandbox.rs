//! A sandbox for one program: its folders, sockets, proxy and command line.

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
use switchboard_policy::{HostPattern, PathEffect, SandboxMode, SandboxNetwork, SandboxSettings};

use crate::bubblewrap::{self, Bubblewrap};
use crate::environment::{self, PROXY_PORT};
use crate::layout::{Binding, ClosedPath, Layout, LayoutParts, Part, shown_by};
use crate::proxy::{AllowedHosts, OnDenied, PACKAGE_REGISTRIES, Proxy};
use crate::specification::{
    CONTROL, INSIDE, PROGRAM, PROXY, Proof, ResourceLimits, SPECIFICATION, Specification, port_socket,
};
use crate::survey::{Found, Survey, common_git_folder};
use crate::{AgentNeeds, Places, SandboxError, SandboxRequest, scopes};

/// Time for the sandbox to be made and proven.
const READY: Duration = Duration::from_secs(20);
/// Interval at which the end of the process is noticed meanwhile.
const CHECK: Duration = Duration::from_millis(20);
/// Folders at the top that every program needs, as they are.
const SYSTEM: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/sys"];
/// Folders that cannot be a folder of a session.
const NO_ROOTS: [&str; 20] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root",
    "/run", "/sbin", "/sys", "/tmp", "/usr", "/var", "/var/lib", "/var/tmp",
];
/// Configuration of Git in the home directory.
const GIT_SETTINGS: [&str; 2] = [".gitconfig", ".config/git"];
/// Toolchains in the home directory, readable in the mode workspace.
const TOOLCHAINS: [&str; 19] = [
    ".cargo/bin",
    ".rustup",
    ".nvm",
    ".fnm",
    ".volta",
    ".pyenv",
    ".asdf",
    ".bun",
    ".deno",
    ".local/bin",
    ".local/share/mise",
    ".local/share/uv",
    ".local/share/pnpm",
    ".local/share/fnm",
    "go/bin",
    ".sdkman",
    ".rbenv",
    ".npm-global",
    ".local/lib/node_modules",
];
/// Maximum number of processes unless the rules say otherwise.
const PROCESSES: u64 = 4096;

/// The plan of a sandbox: everything that is known before anything is created.
#[derive(Debug)]
pub struct Plan {
    request: SandboxRequest,
    home: PathBuf,
    network: SandboxNetwork,
    is_nested: bool,
    has_scopes: bool,
    bubblewrap: Bubblewrap,
    hosts: AllowedHosts,
    /// Bindings besides the private folders.
    bindings: Vec<Binding>,
    found: Found,
    gaps: Vec<String>,
}

fn cannot(reason: impl Into<String>) -> SandboxError {
    SandboxError::new(reason)
}

/// Returns a path of the rules file as an absolute path.
fn expanded(text: &str, home: &Path) -> PathBuf {
    match text.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(text),
    }
}

impl Plan {
    /// Computes the sandbox of a request. Fails if it cannot be enforced.
    pub fn new(request: SandboxRequest) -> Result<Self, SandboxError> {
        let home = request.places.home.clone();
        if !home.is_absolute() {
            return Err(cannot("HOME is not an absolute path"));
        }
        let SandboxRequest { mode, settings, needs, roots, .. } = &request;
        if *mode == SandboxMode::Off {
            return Err(cannot("the sandbox is off"));
        }
        let network = settings.network.unwrap_or(SandboxNetwork::Hosts);
        if network == SandboxNetwork::All && *mode == SandboxMode::Strict {
            return Err(cannot("the mode strict cannot have network = \"all\""));
        }
        for root in roots {
            check_root(root, &home, &request.places)?;
        }
        let real_roots: Vec<PathBuf> = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
        let bubblewrap = Bubblewrap::find(&real_roots).map_err(|reason| {
            let advice = bubblewrap::advice(&reason);
            let error = cannot(reason);
            advice.map_or(error.clone(), |advice| error.advice(advice))
        })?;
        let has_scopes = scopes::are_there();
        let mut gaps = Vec::new();
        if !has_scopes {
            if network == SandboxNetwork::All {
                return Err(cannot(
                    "with network = \"all\", abstract sockets are only closed by Landlock, which this kernel lacks (6.12)",
                ));
            }
            gaps.push("no Landlock scopes: the kernel is older than 6.12".to_owned());
        }
        let is_nested = settings.nested.unwrap_or(needs.nests && *mode != SandboxMode::Strict);
        if is_nested {
            gaps.push("protected names: told, not stopped (the agent may make namespaces)".to_owned());
        }
        if network == SandboxNetwork::All {
            gaps.push("network: everything, including the loopback of this machine".to_owned());
        }
        let hosts = allowed_hosts(*mode, network, settings, needs);
        for port in &settings.loopback {
            if request.places.ports.contains(port) || *port == PROXY_PORT {
                return Err(cannot(format!("loopback = [{port}]: Switchboard itself listens on this port")));
            }
        }
        let mut bindings = Vec::new();
        open_system(&mut bindings);
        open_home(&mut bindings, &home, *mode, needs);
        open_roots(&mut bindings, &home, settings, &request)?;
        open_program(&mut bindings, &request)?;
        if network == SandboxNetwork::All {
            // The names of hosts are looked up inside.
            if let Ok(real) = Path::new("/etc/resolv.conf").canonicalize()
                && !real.starts_with("/etc")
            {
                bindings.push(Binding::new(real, false, "network = \"all\""));
            }
        }
        let found = survey(&request, &bindings, &home, &real_roots)?;
        if !found.links.is_empty() {
            let names: Vec<String> = found.links.iter().map(|path| path.display().to_string()).collect();
            gaps.push(format!("protected links can be replaced: {}", names.join(", ")));
        }
        Ok(Plan { home, network, is_nested, has_scopes, bubblewrap, hosts, bindings, found, gaps, request })
    }

    /// Returns the layout as it will be. Private folders have the paths of an example.
    pub fn layout(&self) -> Result<Layout, SandboxError> {
        self.layout_with(Path::new("/private"), &self.private_home())
    }

    fn private_home(&self) -> PathBuf {
        self.request.places.data.join(roots_hash(&self.request.roots)).join("home")
    }

    fn layout_with(&self, run: &Path, home: &Path) -> Result<Layout, SandboxError> {
        let mut bindings = self.bindings.clone();
        let private = |source: PathBuf, target: &Path| {
            Binding::new(source, true, "private to the sandbox").at(target).part(Part::Private)
        };
        bindings.push(private(run.join("tmp"), Path::new("/tmp")));
        bindings.push(private(run.join("var-tmp"), Path::new("/var/tmp")));
        bindings.push(private(home.to_owned(), &self.home));
        let mut inside = private(run.join("run"), Path::new(INSIDE));
        inside.is_writable = false;
        bindings.push(inside);
        let mut program = private(self.request.init.clone(), &Path::new(INSIDE).join(PROGRAM));
        program.is_writable = false;
        bindings.push(program);
        let mut closed = self.found.closed.clone();
        closed.extend(closed_settings());
        let links = SYSTEM.iter().filter_map(|path| Some((PathBuf::from(path), fs::read_link(path).ok()?)));
        let parts = LayoutParts { links: links.collect(), bindings, closed, empty_folder: run.join("empty") };
        Layout::compute(parts).map_err(SandboxError::new)
    }

    /// Returns the hosts that can be reached.
    pub fn hosts(&self) -> &AllowedHosts {
        &self.hosts
    }

    /// Describes the sandbox in one line.
    pub fn summary(&self) -> String {
        let roots: Vec<String> = self.request.roots.iter().map(|root| root.display().to_string()).collect();
        let roots = if roots.is_empty() { "no folder".to_owned() } else { roots.join(", ") };
        let network = match self.network {
            SandboxNetwork::None => "no network".to_owned(),
            SandboxNetwork::All => "the whole network".to_owned(),
            SandboxNetwork::Hosts => match self.hosts.patterns.len() {
                0 => "no hosts".to_owned(),
                1 => "1 host".to_owned(),
                count => format!("{count} hosts"),
            },
        };
        let mut text = format!("sandbox: {} in {roots}; {network}", self.request.mode);
        for gap in &self.gaps {
            text.push_str("; ");
            text.push_str(gap);
        }
        text
    }

    /// Returns the limits of the sandbox that the user should know about.
    pub fn gaps(&self) -> &[String] {
        &self.gaps
    }

    /// Returns the mode.
    pub fn mode(&self) -> SandboxMode {
        self.request.mode
    }

    /// Returns the network access.
    pub fn network(&self) -> SandboxNetwork {
        self.network
    }

    /// Returns the environment inside.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let SandboxRequest { environment, settings, needs, mode, .. } = &self.request;
        let has_proxy = self.network == SandboxNetwork::Hosts;
        environment::compute(std::env::vars_os(), environment, settings, needs, *mode, has_proxy)
    }

    /// Creates the folders, sockets and the proxy. They are removed when the result is dropped.
    pub fn create(self, on_denied: Option<OnDenied>) -> Result<Sandbox, SandboxError> {
        Sandbox::create(&self, on_denied)
    }
}

/// Returns the patterns that the sandbox lets through.
fn allowed_hosts(
    mode: SandboxMode,
    network: SandboxNetwork,
    settings: &SandboxSettings,
    needs: &AgentNeeds,
) -> AllowedHosts {
    let mut patterns: Vec<(HostPattern, String)> = Vec::new();
    if network == SandboxNetwork::Hosts {
        patterns.extend(settings.hosts.iter().map(|host| (host.clone(), "`hosts` in the rules".to_owned())));
        let listed = |names: Vec<String>, because: &str| -> Vec<(HostPattern, String)> {
            let parsed = names.iter().filter_map(|name| HostPattern::parse(name).ok());
            parsed.map(|pattern| (pattern, because.to_owned())).collect()
        };
        patterns.extend(listed(needs.hosts.clone(), "the agent's own hosts"));
        if mode == SandboxMode::Workspace {
            let names = PACKAGE_REGISTRIES.iter().map(|name| (*name).to_owned()).collect();
            patterns.extend(listed(names, "package registries"));
        }
    }
    AllowedHosts { patterns, settings: settings.clone() }
}

/// Refuses folders that would open too much.
fn check_root(root: &Path, home: &Path, places: &Places) -> Result<(), SandboxError> {
    let real = root
        .canonicalize()
        .map_err(|error| cannot(format!("cannot use the folder {}: {error}", root.display())))?;
    if !real.is_dir() {
        return Err(cannot(format!("{} is not a folder", root.display())));
    }
    let refused = |reason: String| {
        Err(cannot(format!("{} cannot be a folder of a session in a sandbox: {reason}", real.display()))
            .advice("choose the folder of a project"))
    };
    if NO_ROOTS.iter().any(|path| Path::new(path) == real)
        || real.starts_with("/proc")
        || real.starts_with("/sys")
    {
        return refused("it belongs to the system".to_owned());
    }
    let homes = [Some(home.to_owned()), home.canonicalize().ok()];
    if homes.iter().flatten().any(|home| home.starts_with(&real)) {
        return refused("it holds your home directory".to_owned());
    }
    let own = places.closed.iter().chain([&places.data]);
    for path in own.flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]).flatten() {
        if path.starts_with(&real) || real.starts_with(&path) && path.is_dir() {
            return refused(format!("it holds {} of Switchboard", path.display()));
        }
    }
    Ok(())
}

/// Opens the folders of the system that are not links.
fn open_system(bindings: &mut Vec<Binding>) {
    for path in SYSTEM.map(Path::new) {
        if path.is_dir() && !path.is_symlink() {
            bindings.push(Binding::new(path, false, "the system"));
        }
    }
}

/// Adds a path of the home directory at its place, if it exists.
fn open_at_home(bindings: &mut Vec<Binding>, home: &Path, name: &str, is_writable: bool, because: &str) {
    if let Ok(real) = home.join(name).canonicalize() {
        bindings.push(Binding::new(real, is_writable, because).at(home.join(name)));
    }
}

fn open_home(bindings: &mut Vec<Binding>, home: &Path, mode: SandboxMode, needs: &AgentNeeds) {
    for name in GIT_SETTINGS {
        open_at_home(bindings, home, name, false, "the configuration of Git");
    }
    if mode == SandboxMode::Workspace {
        for name in TOOLCHAINS {
            open_at_home(bindings, home, name, false, "a toolchain");
        }
    }
    for name in &needs.state {
        open_at_home(bindings, home, name, true, "the agent's own state");
    }
}

/// Opens the session's folders and those of the rules.
fn open_roots(
    bindings: &mut Vec<Binding>,
    home: &Path,
    settings: &SandboxSettings,
    request: &SandboxRequest,
) -> Result<(), SandboxError> {
    for root in &request.roots {
        let real = root.canonicalize().map_err(|error| cannot(format!("{}: {error}", root.display())))?;
        bindings.push(Binding::new(&real, true, "a folder of the session").part(Part::Root));
        if real != *root {
            bindings.push(Binding::new(&real, true, "a folder of the session").at(root).part(Part::Root));
        }
        if let Some(common) = common_git_folder(&real) {
            bindings.push(Binding::new(common, true, "the Git folder of the worktree"));
        }
    }
    for (names, is_writable, key) in [(&settings.read, false, "read"), (&settings.write, true, "write")] {
        for name in names {
            let path = expanded(name, home);
            let real = path
                .canonicalize()
                .map_err(|error| cannot(format!("`{key}` in the rules names {}: {error}", path.display())))?;
            let has_secrets = request.places.closed.iter().chain([&request.places.data]).any(|own| {
                own.starts_with(&real) || own.canonicalize().is_ok_and(|own| own.starts_with(&real))
            });
            if has_secrets || real == Path::new("/") {
                let text = format!("`{key}` in the rules names {name}, which holds files of Switchboard");
                return Err(cannot(text).advice("name the folders that the agent needs"));
            }
            bindings.push(Binding::new(real, is_writable, format!("`{key}` in the rules")).at(path));
        }
    }
    for name in &settings.sockets {
        let path = match name.strip_prefix('$') {
            // A variable that is not set opens nothing.
            Some(variable) => match std::env::var_os(variable) {
                Some(path) => PathBuf::from(path),
                None => continue,
            },
            None => expanded(name, home),
        };
        let real = path
            .canonicalize()
            .map_err(|error| cannot(format!("`sockets` in the rules names {}: {error}", path.display())))?;
        bindings.push(Binding::new(real, false, "`sockets` in the rules").at(path));
    }
    Ok(())
}

/// Opens the agent's own program, wherever it is installed: its file, or the folder of packages or the virtual environment
/// that has it.
fn open_program(bindings: &mut Vec<Binding>, request: &SandboxRequest) -> Result<(), SandboxError> {
    let program = &request.program;
    let real = program
        .canonicalize()
        .map_err(|error| cannot(format!("cannot look at {}: {error}", program.display())))?;
    let is_shown = |path: &Path| bindings.iter().any(|binding| path.starts_with(&binding.target));
    let mut new = Vec::new();
    if !is_shown(program) && !SYSTEM.iter().any(|folder| program.starts_with(folder)) {
        new.push(Binding::new(&real, false, "the agent's program").at(program));
    }
    if !is_shown(&real) {
        let packages = real.ancestors().filter(|folder| folder.ends_with("node_modules")).last();
        let environment = real.ancestors().find(|folder| folder.join("pyvenv.cfg").is_file());
        let folder = packages.or(environment).unwrap_or(&real);
        new.push(Binding::new(folder, false, "the agent's program"));
    }
    bindings.extend(new);
    Ok(())
}

fn survey(
    request: &SandboxRequest,
    bindings: &[Binding],
    home: &Path,
    roots: &[PathBuf],
) -> Result<Found, SandboxError> {
    let SandboxRequest { rules, settings, needs, .. } = request;
    // Wildcards are looked up wherever the user's own files are.
    let is_searched = |binding: &&Binding| {
        binding.part == Part::Other && !SYSTEM.iter().any(|folder| binding.source.starts_with(folder))
    };
    let is_toolchain =
        |binding: &Binding| binding.because == "a toolchain" || binding.because == "the agent's program";
    let searched: Vec<PathBuf> = bindings
        .iter()
        .filter(is_searched)
        .filter(|binding| !is_toolchain(binding) && binding.source.is_dir())
        .filter(|binding| !roots.iter().any(|root| binding.source.starts_with(root)))
        .map(|binding| binding.source.clone())
        .collect();
    let mut survey = Survey::new(rules, &settings.unprotect);
    for root in roots {
        if let Some(common) = common_git_folder(root) {
            survey.protect_common_folder(&common).map_err(SandboxError::new)?;
        }
    }
    let mut found = survey.search(roots, &searched, home.to_str()).map_err(SandboxError::new)?;
    for name in &needs.settings {
        if let Ok(real) = home.join(name).canonicalize() {
            let is_folder = real.is_dir();
            found.closed.push(ClosedPath::new(real, is_folder, PathEffect::ReadOnly, "the agent's settings"));
        }
    }
    Ok(found)
}

/// Returns the files in `/etc` that are not for everyone. For uid 0 the kernel would show them.
fn closed_settings() -> Vec<ClosedPath> {
    let mut closed = Vec::new();
    let mut folders = vec![PathBuf::from("/etc")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata().or_else(|_| fs::symlink_metadata(entry.path())) else {
                continue;
            };
            if metadata.is_symlink() {
                continue;
            }
            let needed = if metadata.is_dir() { 0o005 } else { 0o004 };
            if metadata.permissions().mode() & needed != needed {
                let because = "a file of the system that is not for everyone";
                closed.push(ClosedPath::new(entry.path(), metadata.is_dir(), PathEffect::Hidden, because));
            } else if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    closed
}

/// Returns the name of the private folder for a set of roots.
fn roots_hash(roots: &[PathBuf]) -> String {
    let mut names: Vec<&[u8]> = roots.iter().map(|root| root.as_os_str().as_bytes()).collect();
    names.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for name in names {
        hasher.update(name);
        hasher.update(&[0]);
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

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
    fn create(plan: &Plan, on_denied: Option<OnDenied>) -> Result<Self, SandboxError> {
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
    let mut outside = vec![outside.to_owned()];
    outside.extend(plan.request.places.closed.iter().filter(|path| path.is_file()).cloned());
    Ok(Specification {
        limits: ResourceLimits { processes: Some(processes.unwrap_or(PROCESSES)), memory, file_size },
        relays,
        scopes: plan.has_scopes,
        proof: Proof {
            outside,
            hidden: closed(PathEffect::Hidden),
            read_only: closed(PathEffect::ReadOnly),
            writable: plan.request.roots.clone(),
            port,
            abstract_socket,
        },
    })
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
            environment: plan.environment(),
        }
    }
}

/// Returns the lines about the machine for `doctor`: the name of a check, and a version or the reason why it fails.
pub fn machine() -> Vec<(&'static str, Result<String, String>)> {
    let bubblewrap = Bubblewrap::find(&[]);
    let advised = |reason: String| match bubblewrap::advice(&reason) {
        Some(advice) => format!("{reason}; {advice}"),
        None => reason,
    };
    let namespaces = bubblewrap.clone().and_then(|bubblewrap| {
        let output = Command::new(&bubblewrap.path)
            .args([
                "--unshare-user",
                "--unshare-pid",
                "--unshare-net",
                "--ro-bind",
                "/",
                "/",
                "--proc",
                "/proc",
                "true",
            ])
            .env_clear()
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok("user, process and network namespaces".to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    });
    let scopes = if scopes::are_there() {
        Ok("scopes (ABI 6 or newer)".to_owned())
    } else {
        Err("no scopes: they need Linux 6.12".to_owned())
    };
    vec![
        (
            "bubblewrap",
            bubblewrap.map(|found| format!("{} ({})", found.version, found.path.display())).map_err(advised),
        ),
        ("namespaces", namespaces.map_err(advised)),
        ("Landlock", scopes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

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
