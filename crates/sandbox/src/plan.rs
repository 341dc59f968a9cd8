//! The plan of a sandbox: the folders, hosts and variables that an agent gets.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use switchboard_policy::{HostPattern, PathEffect, SandboxMode, SandboxNetwork, SandboxSettings};

use crate::bubblewrap::{self, Bubblewrap};
use crate::environment::{self, PROXY_PORT};
use crate::layout::{Binding, ClosedPath, Layout, LayoutParts, Part};
use crate::proxy::{AllowedHosts, OnDenied, PACKAGE_REGISTRIES, is_own_address};
use crate::sandbox::Sandbox;
use crate::specification::{INSIDE, PROGRAM};
use crate::survey::{Found, Survey, SurveyOptions, common_git_folder};
use crate::watch::Watch;
use crate::{AgentNeeds, Places, SandboxError, SandboxRequest, scopes};

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

/// The reason of bindings of sockets.
const SOCKETS: &str = "`sockets` in the rules";

/// The plan of a sandbox: everything that is known before anything is created.
#[derive(Debug)]
pub struct Plan {
    pub(crate) request: SandboxRequest,
    pub(crate) home: PathBuf,
    pub(crate) network: SandboxNetwork,
    pub(crate) is_nested: bool,
    pub(crate) has_scopes: bool,
    pub(crate) bubblewrap: Bubblewrap,
    pub(crate) hosts: AllowedHosts,
    /// Bindings besides the private folders.
    pub(crate) bindings: Vec<Binding>,
    /// Links, each with its content.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    pub(crate) found: Found,
    pub(crate) gaps: Vec<String>,
}

pub(crate) fn cannot(reason: impl Into<String>) -> SandboxError {
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
    pub fn new(mut request: SandboxRequest) -> Result<Self, SandboxError> {
        request.roots = request.roots.iter().map(|root| plain(root)).collect();
        request.working_directory = request.working_directory.as_deref().map(plain);
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
        // Neither a folder of the session nor another one that the agent writes may have it.
        let written = settings.write.iter().map(|path| expanded(path, &home));
        let written = written.chain(needs.state.iter().map(|path| home.join(path)));
        let mut writable = real_roots.clone();
        writable.extend(written.filter_map(|path| path.canonicalize().ok()));
        let bubblewrap = Bubblewrap::find(&writable).map_err(|reason| {
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
        if let Some(port) = own_port(settings, &request.places) {
            return Err(cannot(format!(
                "`hosts` in the rules names port {port} of this machine, on which Switchboard listens"
            )));
        }
        let is_nested = settings.nested.unwrap_or(needs.nests && *mode != SandboxMode::Strict);
        if is_nested {
            gaps.push("protected names: told, not stopped (the agent may make namespaces)".to_owned());
            if rustix::process::geteuid().is_root() {
                gaps.push(
                    "a sandbox of the agent's own fails for root, which the kernel does not let map users"
                        .to_owned(),
                );
            }
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
        let links = open_program(&mut bindings, &request)?;
        if network == SandboxNetwork::All {
            // The names of hosts are looked up inside.
            if let Ok(real) = Path::new("/etc/resolv.conf").canonicalize()
                && !real.starts_with("/etc")
            {
                bindings.push(Binding::new(real, false, "network = \"all\""));
            }
        }
        check_bindings(&bindings, &request.places)?;
        let found = survey(&request, &bindings, &home, &real_roots)?;
        gaps.extend(found.gaps.iter().cloned());
        if !found.links.is_empty() {
            let names: Vec<String> = found.links.iter().map(|path| path.display().to_string()).collect();
            gaps.push(format!("protected links can be replaced: {}", names.join(", ")));
        }
        Ok(Plan {
            home,
            network,
            is_nested,
            has_scopes,
            bubblewrap,
            hosts,
            bindings,
            links,
            found,
            gaps,
            request,
        })
    }

    /// Returns the layout as it will be. Private folders have the paths of an example.
    pub fn layout(&self) -> Result<Layout, SandboxError> {
        self.layout_with(Path::new("/private"), &self.private_home())
    }

    pub(crate) fn private_home(&self) -> PathBuf {
        self.request.places.data.join(roots_hash(&self.request.roots)).join("home")
    }

    pub(crate) fn layout_with(&self, run: &Path, home: &Path) -> Result<Layout, SandboxError> {
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
        let parts = LayoutParts {
            links: links.chain(self.links.iter().cloned()).collect(),
            bindings,
            closed,
            empty_folder: run.join("empty"),
            // Others than root can write nothing there anyway.
            has_plain_processes: self.is_nested && !rustix::process::geteuid().is_root(),
        };
        Layout::compute(parts).map_err(SandboxError::new)
    }

    /// Returns the folders of the session.
    pub fn roots(&self) -> &[PathBuf] {
        &self.request.roots
    }

    /// Returns the comparison of protected names, as of now.
    pub fn watch(&self) -> Watch {
        let SandboxRequest { roots, settings, needs, .. } = &self.request;
        Watch::new(
            roots.iter().filter_map(|root| root.canonicalize().ok()).collect(),
            self.home.clone(),
            settings.unprotect.clone(),
            needs.settings.iter().map(|name| self.home.join(name)).collect(),
            self.is_nested,
            self.found.names.iter().cloned(),
        )
    }

    /// Returns the hosts that can be reached.
    pub fn hosts(&self) -> &AllowedHosts {
        &self.hosts
    }

    /// Describes the sandbox in one line.
    pub fn summary(&self) -> String {
        let shown = |root: &PathBuf| match root.canonicalize() {
            Ok(real) if real != *root => format!("{} ({})", root.display(), real.display()),
            _ => root.display().to_string(),
        };
        let roots: Vec<String> = self.request.roots.iter().map(shown).collect();
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

/// Returns a folder as a path without `.` and `..`, which would be mounted at other places than they name.
fn plain(folder: &Path) -> PathBuf {
    let is_plain = folder.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    match folder.canonicalize() {
        Ok(real) if !is_plain => real,
        _ => folder.to_owned(),
    }
}

/// Returns a port of this machine that `hosts` names and on which Switchboard listens.
fn own_port(settings: &SandboxSettings, places: &Places) -> Option<u16> {
    let is_named = |port: u16| {
        let is_here = |host: &HostPattern| {
            host.address()
                .is_some_and(|address| host.matches(&address.to_string(), port) && is_own_address(address))
        };
        settings.hosts.iter().any(is_here)
    };
    places.ports.iter().copied().find(|port| is_named(*port))
}

/// Refuses bindings that show files of Switchboard, whatever opens them: a link may lead there.
fn check_bindings(bindings: &[Binding], places: &Places) -> Result<(), SandboxError> {
    let own = places.closed.iter().chain([&places.data]);
    let own: Vec<PathBuf> =
        own.flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]).flatten().collect();
    for Binding { source, is_writable, because, .. } in bindings {
        let is_socket = fs::metadata(source).is_ok_and(|metadata| metadata.file_type().is_socket());
        let shows = |own: &&PathBuf| {
            own.starts_with(source) || source.starts_with(own) && (*is_writable || is_socket)
        };
        if let Some(own) = own.iter().find(shows) {
            let text =
                format!("{} ({because}) would show {} of Switchboard", source.display(), own.display());
            return Err(cannot(text));
        }
    }
    Ok(())
}

/// Returns files of Switchboard that are closed even inside a folder of the session, such as targets of links in its
/// configuration.
fn own_files(request: &SandboxRequest) -> Vec<ClosedPath> {
    let mut closed = Vec::new();
    let mut close = |path: &Path, effect, because: &str| {
        if let Ok(real) = path.canonicalize() {
            let is_folder = real.is_dir();
            closed.push(ClosedPath::new(real, is_folder, effect, because));
        }
    };
    for folder in &request.places.closed {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                close(&entry.path(), PathEffect::Hidden, "a file of Switchboard");
            }
        }
    }
    for file in &request.places.rules {
        close(file, PathEffect::ReadOnly, "a file of rules");
    }
    close(&request.init, PathEffect::ReadOnly, "the program of Switchboard");
    // Builds for those whom its rules trust, with a network of its own.
    close(Path::new("/nix/var/nix/daemon-socket"), PathEffect::Hidden, "the socket of the Nix daemon");
    closed
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
        bindings.push(Binding::new(real, false, SOCKETS).at(path));
    }
    Ok(())
}

/// Opens the agent's own program, wherever it is installed: its file, or the folder of packages or the virtual environment
/// that has it. Returns the links that lead to it: many programs look for their other files where they lead.
fn open_program(
    bindings: &mut Vec<Binding>,
    request: &SandboxRequest,
) -> Result<Vec<(PathBuf, PathBuf)>, SandboxError> {
    let program = &request.program;
    let real = program
        .canonicalize()
        .map_err(|error| cannot(format!("cannot look at {}: {error}", program.display())))?;
    let is_shown = |path: &Path| bindings.iter().any(|binding| path.starts_with(&binding.target));
    let (mut new, mut links) = (Vec::new(), Vec::new());
    let is_missing = !is_shown(program) && !SYSTEM.iter().any(|folder| program.starts_with(folder));
    if is_missing && program.is_symlink() {
        links.push((program.clone(), real.clone()));
    } else if is_missing {
        new.push(Binding::new(&real, false, "the agent's program").at(program));
    }
    if !is_shown(&real) {
        let packages = real.ancestors().filter(|folder| folder.ends_with("node_modules")).last();
        let environment = real.ancestors().find(|folder| folder.join("pyvenv.cfg").is_file());
        let folder = packages.or(environment).unwrap_or(&real);
        new.push(Binding::new(folder, false, "the agent's program"));
    }
    bindings.extend(new);
    Ok(links)
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
    let sockets: Vec<PathBuf> = bindings
        .iter()
        .filter(|binding| binding.because == SOCKETS)
        .map(|binding| binding.source.clone())
        .collect();
    let mut survey = Survey::new(SurveyOptions {
        rules: Some(rules),
        unprotected: &settings.unprotect,
        sockets: &sockets,
        home: Some(home),
    });
    for root in roots {
        if let Some(common) = common_git_folder(root) {
            survey.protect_common_folder(&common).map_err(SandboxError::new)?;
        }
    }
    let mut found = survey.search(roots, &searched).map_err(SandboxError::new)?;
    found.closed.extend(own_files(request));
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
pub(crate) fn roots_hash(roots: &[PathBuf]) -> String {
    let mut names: Vec<&[u8]> = roots.iter().map(|root| root.as_os_str().as_bytes()).collect();
    names.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for name in names {
        hasher.update(name);
        hasher.update(&[0]);
    }
    hasher.finalize().to_hex()[..16].to_owned()
}
